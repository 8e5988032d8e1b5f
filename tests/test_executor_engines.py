"""Both engines do what the conformance suite asks of every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hetopt.executor.engines.conformance import CHECKS, Bench
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.engines.local import LocalEngine

HOSTS = (
    Node("a", tuple(Seat("a", "slow", i) for i in range(2))),
    Node("b", tuple(Seat("b", "fast", i, f"GPU-{i}") for i in range(3))),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_local(check: Callable[[Bench], None], tmp_path: Path) -> None:
    check(Bench(lambda cluster: LocalEngine(HOSTS, cluster), tmp_path))
