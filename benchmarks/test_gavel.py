"""Gavel's policies on 2,048 jobs and 3 GPU types, compared with the same programs in cvxpy with ECOS, as in Gavel.

Each round is one seed: from an Instance whose arrays are not built yet to a certified Allocation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import families
import numpy as np
import pytest
from families import MARKETS, ROUNDS
from pytest_benchmark.fixture import BenchmarkFixture
from sweep import sweep

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.models import allox, ceei, gavel
from hetopt.tolerances import EQUAL, GAP, PROVEN

SEEDS = 5
Policy = Callable[[], hetopt.Formulation]
POLICIES: dict[str, Policy] = {
    "max-min": gavel.max_min_fairness,
    "total throughput": gavel.total_throughput,
    "makespan": gavel.makespan,
    "finish-time fairness": gavel.finish_time_fairness,
    "mean completion time": gavel.mean_completion_time,
}
PEER_IS = 10 * EQUAL
"""ECOS stops at about 1e-8 of the problem as it scales it."""


def jobs(seed: int, n: int) -> hetopt.Instance:
    """Throughputs that grow by factors of 1 to 3 from type to type, gangs of 1 to 8, heavy-tailed work, arrivals."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, (n, 1)) * np.cumprod(np.c_[np.ones(n), rng.uniform(1, 3, (n, 2))], axis=1)
    demand = rng.choice([1, 2, 4, 8], n, p=[0.7, 0.1, 0.15, 0.05])
    work = rng.lognormal(8, 1.5, n) + 1
    arrival = rng.uniform(0, 36000.0, n)
    return hetopt.Instance.from_jobs(speed, demand, work, [max(8, n // 4)] * 3, arrival=arrival, time=36000.0)


def size(full: bool) -> int:
    return 2048 if full else 96


def measured(benchmark: BenchmarkFixture, run: Callable[[hetopt.Instance], Any], n: int) -> list[Any]:
    """Results of ``run`` on ``SEEDS`` fresh instances, one each round."""
    results: list[Any] = []

    def fresh() -> tuple[tuple[hetopt.Instance], dict[str, Any]]:
        return (jobs(len(results), n),), {}

    benchmark.pedantic(lambda inst: results.append(run(inst)), setup=fresh, rounds=SEEDS)
    if not results:
        results.append(run(jobs(0, n)))
    return results


@pytest.mark.parametrize("name", POLICIES)
def test_hetopt(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    hetopt.solve(POLICIES[name](), jobs(99, 96))  # modules are loaded
    for a in measured(benchmark, lambda inst: hetopt.solve(POLICIES[name](), inst), size(full)):
        assert a.certificate.measured
        assert a.certificate.gap <= PROVEN
        assert a.certificate.violation <= EQUAL


def peer(name: str, inst: hetopt.Instance) -> float:
    """The policy's optimum by cvxpy and ECOS, in the units of our certificate."""
    e = inst.entities()
    work, elapsed = inst.job_array("work_left"), inst.time - inst.job_array("arrival")
    x = cp.Variable(e.shape)
    fair = equal_share_rate(e)
    alone = (e.speed @ e.capacity) * np.minimum(1 / len(work) / e.demand, 1 / e.capacity.sum())
    rate = cp.sum(cp.multiply(e.speed / alone[:, None], x), axis=1)
    unit = 1.0
    if name == "max-min":
        objective = cp.Maximize(cp.min(cp.multiply(alone / fair, rate)))
    elif name == "total throughput":
        unit = float(e.speed.max())
        objective = cp.Maximize(cp.sum(cp.multiply(e.speed / unit, x)))
    elif name == "makespan":
        objective = cp.Maximize(cp.min(cp.multiply((work / fair).max() * alone / work, rate)))
    elif name == "finish-time fairness":
        total = elapsed + work / alone
        rho = elapsed / total + cp.multiply(work / alone / total, cp.inv_pos(rate))
        objective = cp.Maximize(-cp.max(rho))
    else:
        unit = float((work / alone).max())
        objective = cp.Maximize(-cp.sum(cp.multiply(work / alone / unit, cp.inv_pos(rate))))
    rows = [x >= 0, cp.sum(cp.multiply(np.repeat(e.demand[:, None], 3, axis=1), x), axis=0) <= e.capacity]
    problem = cp.Problem(objective, [*rows, cp.sum(x, axis=1) <= 1])
    problem.solve(solver="ECOS")
    assert problem.status == "optimal", problem.status
    return unit * float(problem.value)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_cvxpy_with_ecos(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    """Assert that the peer's optimum equals ours."""
    values = measured(benchmark, lambda inst: peer(name, inst), size(full))
    for seed, value in enumerate(values):
        ours = hetopt.solve(POLICIES[name](), jobs(seed, size(full))).certificate.objective
        assert ours == pytest.approx(value, rel=PEER_IS)


def test_equal_budgets(benchmark: BenchmarkFixture, full: bool) -> None:
    """The market of 200 tenants and 10 types."""
    n = 200 if full else 20
    rng = np.random.default_rng(0)
    rows = np.c_[np.ones(n), np.cumprod(rng.uniform(1, 2, (n, 9)), axis=1)]
    inst = hetopt.Instance.from_speedups(rows, [20] * 10)
    a = benchmark(lambda: hetopt.solve(ceei.equal_budgets(), inst))
    assert a.certificate.gap <= PROVEN


JOBS = tuple(dict.fromkeys((*ROUNDS, *MARKETS)))
TENANTS = {"max-min": gavel.max_min_fairness, "total throughput": gavel.total_throughput, "CEEI": ceei.equal_budgets}


@pytest.mark.parametrize("name", [*POLICIES, "FIFO", "CEEI"])
def test_families_of_jobs(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    """2,048 jobs and 3 types of every family; HiGHS solves one in eight of the linear programs, too."""
    policy = {**POLICIES, "FIFO": gavel.fifo, "CEEI": ceei.equal_budgets}[name]
    n, linear = size(full), name in ("max-min", "total throughput", "makespan", "FIFO")
    times = sweep(
        benchmark,
        JOBS,
        range(4 if full else 1),
        lambda family, seed: families.jobs(family, seed, n, 3, max(24, 3 * n // 4)),
        lambda inst: hetopt.solve(policy(), inst),
    )
    _check_certified(times.runs, PROVEN if linear else GAP)
    if linear:
        _compare_with_highs(benchmark, times.runs[::8], policy)


@pytest.mark.parametrize("name", TENANTS)
def test_families_of_tenants(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    """2,048 tenants and 3 types of every family."""
    times = sweep(
        benchmark,
        MARKETS,
        range(4 if full else 1),
        lambda family, seed: families.market(family, seed, size(full), 3),
        lambda inst: hetopt.solve(TENANTS[name](), inst),
    )
    _check_certified(times.runs, GAP if name == "CEEI" else PROVEN)
    if name != "CEEI":
        _compare_with_highs(benchmark, times.runs[::8], TENANTS[name])


def _check_certified(runs: Sequence[tuple[Any, Any, hetopt.Allocation]], gap: float) -> None:
    for _, _, a in runs:
        assert a.certificate.measured
        assert a.certificate.gap <= gap
        assert a.certificate.violation <= EQUAL


def _compare_with_highs(
    benchmark: BenchmarkFixture, runs: Sequence[tuple[Any, hetopt.Instance, hetopt.Allocation]], policy: Policy
) -> None:
    """The same optimum as HiGHS on the plain program, and its seconds in the report."""
    seconds = []
    for _, inst, a in runs:
        began = time.process_time()
        plain = hetopt.solve(policy(), inst, method="simplex").certificate
        seconds.append(time.process_time() - began)
        assert a.certificate.objective == pytest.approx(plain.objective, rel=PEER_IS)
    benchmark.extra_info |= {"HiGHS: median, s": statistics.median(seconds), "HiGHS: worst, s": max(seconds)}


def test_water_filling(benchmark: BenchmarkFixture, full: bool) -> None:
    inst = jobs(0, 128 if full else 24)
    a = benchmark.pedantic(lambda: hetopt.solve(gavel.water_filling(), inst), rounds=3)
    assert a.certificate.violation <= EQUAL
    least = hetopt.solve(gavel.max_min_fairness(), inst).certificate.objective
    assert a.certificate.objective == pytest.approx(least, rel=EQUAL)


def test_allox(benchmark: BenchmarkFixture, full: bool) -> None:
    """Jobs of one demand on 36 slots; no worse than giving each, shortest first, the slot that finishes it first."""
    inst = jobs(0, 256 if full else 24)
    speed, work = inst.entities().speed, inst.job_array("work")
    single = hetopt.Instance.from_jobs(speed, [1] * len(work), work, [12, 12, 12], round_seconds=1.0)
    plan = benchmark.pedantic(lambda: hetopt.solve(allox.allox(), single), rounds=3)
    ready, total = np.zeros(36), 0.0
    for e in np.argsort(work / speed.max(axis=1)):
        end = ready + work[e] / np.repeat(speed[e], 12)
        ready[end.argmin()] = end.min()
        total += end.min()
    assert 0 < -plan.certificate.objective <= total * (1 + EQUAL)
