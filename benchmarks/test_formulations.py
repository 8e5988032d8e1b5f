"""Formulations, compared with HiGHS called directly; with a user's Pyomo component; and solved again.

A market of 20 tenants and 4 GPU types takes a few milliseconds, so overhead around the solver is visible. The direct
calls build the same rows in numpy and hand them over in one array call, without names, measure or certificate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hetopt
from hetopt.models import fft, gavel, oef
from hetopt.tolerances import EQUAL

TENANTS, TYPES, MARKETS = 20, 4, 30


def market(seed: int) -> hetopt.Instance:
    """Speedups from 1 to 5, growing from type to type; 3 GPUs of each."""
    draw = np.random.default_rng(seed)
    speedups = np.sort(draw.uniform(1, 5, (TENANTS, TYPES)), axis=1)
    speedups[:, 0] = 1.0
    return hetopt.Instance.from_speedups(speedups, [3] * TYPES)


def directly(speed: np.ndarray, capacity: np.ndarray) -> float:
    """Cooperative OEF in one array call of HiGHS."""
    n, k = speed.shape
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    rows, types = len(first), np.arange(k)
    used = np.arange(n)[None, :] * k + types[:, None]
    pairs = np.concatenate([first[:, None] * k + types, second[:, None] * k + types], axis=1)
    index = np.concatenate([used.ravel(), pairs.ravel()]).astype(np.int32)
    value = np.concatenate([np.ones(n * k), np.concatenate([speed[first], -speed[first]], axis=1).ravel()])
    start = np.concatenate([types * n, n * k + np.arange(rows + 1) * 2 * k]).astype(np.int32)
    lower = np.concatenate([np.full(k, -np.inf), np.zeros(rows)])
    upper = np.concatenate([capacity, np.full(rows, np.inf)])
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    way, sense = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMaximize)
    box = np.zeros(n * k), np.full(n * k, np.inf)
    whole = np.zeros(n * k, dtype=np.int32)
    sizes = n * k, k + rows, len(value)
    highs.passModel(*sizes, way, sense, 0.0, speed.ravel(), *box, lower, upper, start, index, value, whole)
    highs.run()
    return float(highs.getInfo().objective_function_value)


class AtMost:
    """A component without arrays: one row."""

    name = "at_most"

    def add(self, block: Any, model: hetopt.Model) -> Any:
        """Half of the first type, at most."""
        block.row = pyo.Constraint(expr=sum(model.share[e, "GPU1"] for e in model.E) <= 2.5)
        return 0


def timed(
    ways: dict[str, Callable[[hetopt.Instance], Any]], markets: int
) -> tuple[dict[str, float], dict[str, list[Any]]]:
    """Median seconds of each way, one after another on every market, and their results."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Any]] = {name: [] for name in ways}
    for seed in range(markets + 3):
        for name, way in ways.items():
            inst = market(seed)
            inst.entities()
            began = time.perf_counter()
            found[name].append(way(inst))
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[3:]) for name, times in taken.items()}, found


def test_combinations(benchmark: BenchmarkFixture, full: bool) -> None:
    """20 x 4 cooperative OEF: at most 1.3 times HiGHS directly; with an own component at most 1.5 times that."""
    ways: dict[str, Callable[[hetopt.Instance], Any]] = {
        "HiGHS directly": lambda inst: directly(inst.entities().speed, inst.entities().capacity),
        "hetopt": lambda inst: hetopt.solve(oef.cooperative(), inst).certificate.objective,
        "with an own component": lambda inst: hetopt.solve(oef.cooperative() + AtMost(), inst).certificate,
    }
    seconds, found = benchmark.pedantic(timed, args=(ways, MARKETS if full else 2), rounds=1)
    assert found["hetopt"] == pytest.approx(found["HiGHS directly"], rel=EQUAL)
    assert all(own.violation <= EQUAL for own in found["with an own component"])
    for name, value in seconds.items():
        benchmark.extra_info[f"{name}, ms"] = 1e3 * value
    benchmark.extra_info["ratio to HiGHS (to reach: 1.3)"] = seconds["hetopt"] / seconds["HiGHS directly"]
    benchmark.extra_info["ratio with an own component (to reach: 1.5)"] = (
        seconds["with an own component"] / seconds["hetopt"]
    )


@pytest.mark.parametrize("warm", [True, False])
def test_solving_again(benchmark: BenchmarkFixture, full: bool, warm: bool) -> None:
    """Similar markets in one session: besides the solver at most 1 ms each."""
    draw, base = np.random.default_rng(0), market(0).entities().speed
    session = hetopt.FormulationSession(oef.cooperative(), market(0), warm=warm)
    spent, solver = [], []
    for i in range(200 if full else 3):
        speed = base * (1 + 0.02 * draw.random(base.shape))
        inst = hetopt.Instance.from_throughputs(speed, [3] * TYPES)
        inst.entities()
        before, began = _run_time(session), time.perf_counter()
        certificate = session.solve(inst).certificate
        spent.append(time.perf_counter() - began)
        solver.append(_run_time(session) - before)
        if i % 50 == 0:
            wanted = hetopt.solve(oef.cooperative(), inst).certificate.objective
            assert certificate.objective == pytest.approx(wanted, rel=EQUAL)
    benchmark.pedantic(session.solve, rounds=1)
    over = [all_ - own for all_, own in zip(spent, solver, strict=True)]
    benchmark.extra_info["a solve, ms"] = 1e3 * statistics.median(spent)
    benchmark.extra_info["besides the solver (to reach: 1), ms"] = 1e3 * statistics.median(over)


def jobs_of(seed: int) -> hetopt.Instance:
    """Gangs of 1, 2 or 4, as many as there are tenants in a :func:`market`; 6 GPUs of each type."""
    draw = np.random.default_rng(seed)
    return hetopt.Instance.from_jobs(
        draw.uniform(0.5, 2.5, (TENANTS, TYPES)),
        demand=draw.choice([1, 2, 4], TENANTS),
        work=draw.uniform(1e3, 1e5, TENANTS),
        capacity=[6] * TYPES,
        arrival=draw.uniform(0, 5e3, TENANTS),
        time=5e3,
    )


SMALL: dict[str, tuple[Callable[[int], hetopt.Instance], Callable[[hetopt.Instance], Any]]] = {
    "cooperative OEF": (market, oef.cooperative()),
    "max-min fairness": (jobs_of, gavel.max_min_fairness()),
    "total throughput": (jobs_of, gavel.total_throughput()),
    "FFT round": (jobs_of, fft.FFT()),
}
"""Instances and policies of which a solve takes a few milliseconds."""


@pytest.mark.parametrize("name", SMALL)
def test_what_a_small_solve_costs(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    """20 x 4, a new instance each time: milliseconds of a solve, and the part of it that is the solver's."""
    instance, policy = SMALL[name]
    spent, solver = [], []
    for seed in range(300 if full else 3):
        inst = instance(seed)
        inst.entities()
        began = time.perf_counter()
        certificate = policy(inst)[0].certificate
        spent.append(time.perf_counter() - began)
        solver.append(certificate.solver_seconds)
        assert certificate.gap <= EQUAL
        assert certificate.violation <= EQUAL
    benchmark.pedantic(policy, args=(instance(0),), rounds=1)
    besides = [all_ - own for all_, own in zip(spent, solver, strict=True)]
    for what, times in (("a solve", spent), ("besides the solver", besides)):
        benchmark.extra_info[f"{what}, ms"] = 1e3 * statistics.median(times)
        benchmark.extra_info[f"{what}, ms, worst"] = 1e3 * max(times)
    benchmark.extra_info["the solver's part"] = statistics.median(solver) / statistics.median(spent)


def _run_time(session: hetopt.FormulationSession) -> float:
    """Seconds that HiGHS has run in the session so far, by its own clock."""
    return 0.0 if session._session is None else float(session._session._highs.getRunTime())


def test_a_round_with_an_own_component(benchmark: BenchmarkFixture, full: bool) -> None:
    """FFT's round of 4,000 jobs on 8 types with a row of Pyomo: under 1 s."""
    jobs, draw = 4_000 if full else 60, np.random.default_rng(3)
    inst = hetopt.Instance.from_jobs(
        draw.random((jobs, 8)) * 2 + 0.5,
        demand=draw.choice([1, 2, 4, 8], jobs),
        work=draw.random(jobs) * 1e5 + 1000,
        capacity=[jobs // 10 + 8] * 8,
        arrival=draw.random(jobs) * 5000,
        time=5000.0,
    )
    formulation = fft.FFT().formulation(inst) + AtMost()
    allocation = benchmark(hetopt.solve, formulation, inst)
    assert allocation.certificate.gap <= 1000 * EQUAL
    assert allocation.x[:, 0].sum() <= 2.5
    benchmark.extra_info["to reach, s"] = 1.0
