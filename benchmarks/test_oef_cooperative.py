"""Cooperative OEF with 10 GPU types on all families of markets; HiGHS solves the same programs where it can."""

from __future__ import annotations

import statistics
import time

import pytest
from families import MARKETS, Family, market
from pytest_benchmark.fixture import BenchmarkFixture
from sweep import sweep

import hetopt
from hetopt.models import oef
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

SEEDS = 3
TYPES = 10
CASES = [
    # (tenants, tenants in `make test`, seconds to reach on generic markets)
    (100, 45, 0.3),
    (400, 50, 2.0),
    (1_000, 55, 10.0),
    (2_000, 60, 60.0),
]
PEER = 100
"""Largest size at which HiGHS runs on the plain program."""


@pytest.mark.parametrize(("tenants", "few", "seconds"), CASES)
def test_cooperative(benchmark: BenchmarkFixture, full: bool, tenants: int, few: int, seconds: float) -> None:
    """Proven optima on every family, equal to those of HiGHS."""
    size, seeds = (tenants, SEEDS) if full else (few, 1)

    def make(family: Family, seed: int) -> hetopt.Instance:
        return market(family, seed, size, TYPES)

    times = sweep(benchmark, MARKETS, range(seeds), make, lambda inst: hetopt.solve(oef.cooperative(), inst))
    for family, _, found in times.runs:
        assert found.certificate.method == "bundles", f"{family.name}: not solved by the fast method"
        assert found.certificate.gap <= PROVEN
        assert found.certificate.violation <= FEASIBILITY
    benchmark.extra_info["to reach, s"] = seconds
    if size > PEER or (not full and tenants > PEER):
        return
    peer: list[float] = []
    for _, inst, found in times.runs:
        began = time.process_time()
        best = hetopt.optimise(oef.cooperative().compile(inst)).objective
        peer.append(time.process_time() - began)
        assert found.certificate.objective == pytest.approx(best, rel=EQUAL)
    benchmark.extra_info["HiGHS directly: median, s"] = statistics.median(peer)
    benchmark.extra_info["HiGHS directly: worst, s"] = max(peer)
