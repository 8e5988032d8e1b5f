"""Non-cooperative OEF for many tenants of every family and 10 GPU types, from an `Instance` to an `Allocation`.

The peer in the same run, up to the size where it finishes: HiGHS with the plain program, on one seed of each family.
"""

from __future__ import annotations

import statistics
import time

import pytest
from families import FOUND, MARKETS, Family, market
from pytest_benchmark.fixture import BenchmarkFixture
from sweep import sweep

import hetopt
from hetopt.models import oef
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

TYPES = 10
CASES = [
    # (tenants, tenants in `make test`, seeds, seconds to reach in the worst case)
    (5_000, 60, 5, 0.15),
    (100_000, 90, 2, 4.0),
]
PEER = 5_000
"""Largest size at which HiGHS runs."""


def draw(family: Family, seed: int, tenants: int) -> hetopt.Instance:
    """A market with speedups of any scale."""
    return market(family, seed, tenants, TYPES)


def solve(inst: hetopt.Instance) -> hetopt.Allocation:
    return hetopt.solve(oef.noncooperative(), inst)


@pytest.mark.parametrize(("tenants", "few", "seeds", "seconds"), CASES, ids=lambda v: str(v))
def test_every_family(
    benchmark: BenchmarkFixture, full: bool, tenants: int, few: int, seeds: int, seconds: float
) -> None:
    """Proven optima by the fast method, equal to those of HiGHS."""
    size = tenants if full else few
    solve(draw(MARKETS[0], 0, 2))  # imports
    peer: dict[Family, float] = {}

    def check(family: Family, inst: hetopt.Instance, a: hetopt.Allocation) -> None:
        assert a.certificate.method == "prices", family.name
        assert a.certificate.gap <= PROVEN
        assert a.certificate.violation <= FEASIBILITY
        assert a.certificate.measured
        if size <= PEER and family not in peer:
            began = time.process_time()
            best = hetopt.optimise(oef.noncooperative().compile(inst)).objective
            peer[family] = time.process_time() - began
            assert a.certificate.objective == pytest.approx(best, rel=EQUAL)

    times = sweep(benchmark, MARKETS, range(seeds if full else 1), lambda f, seed: draw(f, seed, size), solve, check)
    benchmark.extra_info["to reach in the worst case, s"] = seconds
    for family, own in times.seconds.items():
        benchmark.extra_info[f"{family.name}: median, worst, HiGHS, s"] = [
            statistics.median(own),
            max(own),
            peer.get(family),
        ]


def test_what_the_search_found(benchmark: BenchmarkFixture, full: bool) -> None:
    """The slowest inputs that the search for slow inputs found."""
    found = FOUND["oef-noncooperative"]
    instances = [draw(family, seed, 5_000 if full else 60) for family, seed in found]
    seconds = []
    for inst in instances:
        began = time.process_time()
        assert solve(inst).certificate.method == "prices"
        seconds.append(time.process_time() - began)
    benchmark.pedantic(solve, args=(instances[0],), rounds=1)
    benchmark.extra_info |= {"median, s": statistics.median(seconds), "worst, s": max(seconds)}
