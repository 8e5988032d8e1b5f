"""Benchmarks: `make bench` measures at full size, `make test` runs each once at its smallest and asserts it right."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=("small", "full"), default="small", help="size of the benchmarks' instances")
    parser.addoption("--pictures", type=Path, default=None, help="folder for what benchmarks draw")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the instances have the size that the claims are about."""
    return bool(request.config.getoption("--size") == "full")


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest) -> Path | None:
    """Folder for pictures of benchmarks; None for none."""
    folder: Path | None = request.config.getoption("--pictures")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return folder
