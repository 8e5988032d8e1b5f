"""Benchmarks: `make bench` measures at full size, `make test` runs each once at its smallest and asserts it right."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=("small", "full"), default="small", help="size of the benchmarks' instances")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the instances have the size that the claims are about."""
    return bool(request.config.getoption("--size") == "full")
