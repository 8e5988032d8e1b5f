"""OEF for many tenants and 10 GPU types, from an `Instance` to an `Allocation`.

Peers in the same run: HiGHS with the same program (all envy rows from the start), and cvxpy with ECOS, which
OEF's authors use, up to the sizes where they finish in about a minute.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import count

import cvxpy as cp
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hetopt
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

SEEDS = 5
TYPES = 10
CASES = [
    # (formulation, tenants, tenants in `make test`, seconds to reach)
    (oef.noncooperative, 5_000, 450, 0.3),
    (oef.noncooperative, 100_000, 900, 5.0),
]
PEERS = {"noncooperative": 5_000}
"""Largest size at which the peers run."""


def market(seed: int, tenants: int) -> hetopt.Instance:
    """Speedups from 1 to 10, growing from type to type; 10 to 100 GPUs of each."""
    draw = np.random.default_rng(seed)
    speedups = np.sort(draw.uniform(1, 10, (tenants, TYPES - 1)), axis=1)
    return hetopt.Instance.from_speedups(
        np.column_stack([np.ones(tenants), speedups]), draw.integers(10, 100, TYPES).tolist()
    )


@pytest.mark.parametrize(("make", "tenants", "few", "seconds"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_oef(
    benchmark: BenchmarkFixture, full: bool, make: Callable[[], Formulation], tenants: int, few: int, seconds: float
) -> None:
    """Proven optima, equal to the peers'; medians over the seeds."""
    size, seeds, found = tenants if full else few, count(), []

    def fresh() -> tuple[tuple[hetopt.Instance], dict[str, object]]:
        return (market(next(seeds), size),), {}

    benchmark.pedantic(lambda inst: found.append(hetopt.solve(make(), inst)), setup=fresh, rounds=SEEDS if full else 1)
    for a in found:
        assert a.certificate.gap <= PROVEN
        assert a.certificate.violation <= FEASIBILITY
        assert a.certificate.measured
    benchmark.extra_info["to reach, s"] = seconds
    if size > PEERS[make.__name__]:
        return
    taken: dict[str, list[float]] = {"HiGHS directly": [], "cvxpy and ECOS": []}
    for seed, a in enumerate(found):
        for name, peer in (("HiGHS directly", directly), ("cvxpy and ECOS", with_ecos)):
            inst = market(seed, size)
            began = time.perf_counter()
            best = peer(make(), inst)
            taken[name].append(time.perf_counter() - began)
            assert a.certificate.objective == pytest.approx(best, rel=EQUAL)
    for name, times in taken.items():
        benchmark.extra_info[f"{name}, s"] = statistics.median(times)


def directly(formulation: Formulation, inst: hetopt.Instance) -> float:
    """The optimum that HiGHS finds without a method, given all rows."""
    return hetopt.optimise(formulation.compile(inst)).objective


def with_ecos(formulation: Formulation, inst: hetopt.Instance) -> float:
    """The optimum by the modelling tool and solver of [OEF, section 4.5]."""
    e = inst.entities()
    x = cp.Variable(e.shape, nonneg=True)
    rates = cp.sum(cp.multiply(e.speed, x), axis=1)
    rows = [cp.sum(x, axis=0) <= e.capacity]
    if "envy_free" in formulation.names:
        rows += [e.speed @ x.T <= cp.reshape(rates, (len(e.names), 1), order="C") @ np.ones((1, len(e.names)))]
    else:
        rows += [rates[1:] == rates[0]]
    problem = cp.Problem(cp.Maximize(cp.sum(rates)), rows)
    problem.solve(solver=cp.ECOS)
    return float(problem.value)
