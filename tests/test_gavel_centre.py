"""The centre of the optimal shares: against a conic solver, and its symmetry; isolated times that add up."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from scipy.optimize import linprog

import hetopt
from hetopt import Formulation, Instance, InvalidFormulation, InvalidOption
from hetopt.models import gavel
from hetopt.models.gavel.centred import IsolatedSoFar
from hetopt.models.objectives import TotalRate
from hetopt.proofs.strategies import job_instances
from hetopt.tolerances import CENTRED, FEASIBILITY, TRUSTED, VISIBLE

EGALITARIAN = {
    "max-min": gavel.max_min_fairness(),
    "makespan": gavel.makespan(),
    "finish time": gavel.finish_time_fairness(),
}


def by_cone(instance: Instance, floor: np.ndarray) -> np.ndarray:
    """(n, k) the same centre by cvxpy, from plain loops."""
    capacity = [float(n) for n in instance.cluster.capacity.values()]
    types, terms, rows = instance.cluster.type_names, [], []
    x = cp.Variable((len(instance.jobs), len(types)))
    used = [0.0] * len(types)
    for e, job in enumerate(instance.jobs):
        rate = 0.0
        for k, t in enumerate(types):
            if job.throughput[t] > 0 and job.demand <= capacity[k]:
                terms.append(cp.log(x[e, k]))
                rate += job.throughput[t] / max(job.throughput.values()) * x[e, k]
            else:
                rows.append(x[e, k] == 0)
            used[k] += job.demand * x[e, k]
        terms.append(cp.log(1 - cp.sum(x[e])))
        if floor[e] > 0:
            terms.append(cp.log(rate - floor[e] / max(job.throughput.values())))
    terms += [cp.log(c - u) for c, u in zip(capacity, used, strict=True)]
    cp.Problem(cp.Maximize(sum(terms)), rows).solve(solver="CLARABEL")
    return np.asarray(x.value)


@given(job_instances(jobs=(1, 5), zeros=True), st.floats(0.2, 0.9))
@settings(max_examples=examples(15, 60), deadline=None)
def test_the_centre_is_that_of_a_conic_solver(instance: Instance, part: float) -> None:
    """Of shares well inside the optimum, where the other solver has its digits."""
    jobs = instance.entities("jobs")
    best = hetopt.solve(gavel.max_min_fairness(), instance)
    floor = part * jobs.rate(best.x)
    assert gavel.centre(jobs, best.x, floor) == pytest.approx(by_cone(instance, floor), abs=VISIBLE)


@given(job_instances(jobs=(1, 6), arrivals=True), st.sampled_from(sorted(EGALITARIAN)))
@settings(max_examples=examples(30, 120), deadline=None)
def test_it_is_optimal_and_treats_equal_jobs_equally(instance: Instance, name: str) -> None:
    twice = instance.replace(
        jobs=tuple(job for one in instance.jobs for job in (one, hetopt.Job(**{**vars(one), "name": f"{one.name}'"})))
    )
    formulation = EGALITARIAN[name]
    found, _ = gavel.Centred(formulation)(twice)
    best = hetopt.solve(formulation, twice).certificate
    assert found.certificate.status == "optimal"
    assert found.certificate.objective == pytest.approx(best.objective, rel=TRUSTED)
    assert found.certificate.violation <= FEASIBILITY
    assert (found.x[found.entities.allowed] > 0).all()
    assert found.x[::2] == pytest.approx(found.x[1::2], abs=VISIBLE)


def slacks(instance: Instance, x: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Shares, time left, GPUs left and rates above the floors, by hand."""
    speed = np.array([list(job.throughput.values()) for job in instance.jobs])
    demand, capacity = np.array([job.demand for job in instance.jobs]), list(instance.cluster.capacity.values())
    return np.concatenate([x.ravel(), 1 - x.sum(axis=1), capacity - demand @ x, (speed * x).sum(axis=1) - floor])


@given(st.integers(0, 2**32), st.sampled_from([50, 100, 150]), st.sampled_from(sorted(EGALITARIAN)))
@settings(max_examples=examples(12, 100), deadline=None)
def test_the_centre_of_a_backlog(seed: int, number: int, name: str) -> None:
    """There the gradient of the sum of logarithms vanishes: relative to its slacks those of any shares have mean 1."""
    rng = np.random.default_rng(seed)
    speed, demand = 10.0 ** rng.uniform(-1, 1, (number, 3)), rng.integers(1, 5, number)
    instance = Instance.from_jobs(speed, demand, rng.uniform(1, 1e4, number), [8, 8, 8], round_seconds=1.0)
    best = hetopt.solve(EGALITARIAN[name], instance)
    rate = best.rate.to_numpy()
    x = gavel.centre(instance.entities("jobs"), best.x, rate)
    floor = rate * (1 - CENTRED)
    within = [best.x]
    for _ in range(2):
        rows = np.zeros((2 * number + 3, 3 * number))
        for e in range(number):
            rows[e, 3 * e : 3 * e + 3], rows[number + e, 3 * e : 3 * e + 3] = 1, -speed[e]
            rows[2 * number :, 3 * e : 3 * e + 3] = demand[e] * np.eye(3)
        found = linprog(rng.normal(size=3 * number), rows, np.concatenate([np.ones(number), -floor, [8, 8, 8]]))
        within.append(found.x.reshape(x.shape))
    for other in within:
        assert (slacks(instance, other, floor) / slacks(instance, x, floor)).mean() == pytest.approx(1.0, abs=TRUSTED)


def test_by_hand() -> None:
    """Two jobs on one GPU of each of two types; j2 needs all of the second, j1 half of a type.

    So the share x of j1 on the first type maximises log x + 2 log(1 - x) + log(x - 1/2), where 8 x² - 7 x + 1 = 0.
    """
    instance = Instance.from_jobs([[1.0, 1.0], [0.0, 1.0]], 1, 1.0, [1, 1], round_seconds=1.0)
    share = np.array([[0.6, 0.0], [0.0, 1.0]])
    x = gavel.centre(instance.entities("jobs"), share, np.array([0.5, 1.0]))
    assert x.ravel().tolist() == pytest.approx([(7 + 17**0.5) / 16, 0.0, 0.0, 1.0], abs=TRUSTED)


def test_isolated_times_add_up_at_the_rates_of_their_times() -> None:
    """One GPU. j1 is alone for 10 s and does 10 of 40; then j2 comes, and j1's isolated rate halves.

    Isolated, j1 has done its 10 in 10 s, and needs 30 / 0.5 = 60 s more; with its memory of another 8 of work at 26 s,
    26 s and 22 / 0.5 = 44 s.
    """
    alone = Instance.from_jobs([[1.0]], 1, [40.0], [1], round_seconds=1.0)
    both = Instance.from_jobs([[1.0], [1.0]], 1, [40.0, 40.0], [1], arrival=[0.0, 10.0], round_seconds=1.0)
    policy = gavel.FinishTimeFairness()
    _, state = policy(alone)
    _, state = policy(both.replace(time=10.0, done={"j1": 10.0}), state)
    assert state["j1"] == IsolatedSoFar(10.0, 30.0, 0.5)
    assert state["j2"] == IsolatedSoFar(0.0, 40.0, 0.5)
    later = both.replace(time=26.0, done={"j1": 18.0, "j2": 8.0})
    found, state = policy(later, state)
    assert state["j1"].seconds == pytest.approx(26.0)
    r1, r2 = found.rate
    assert r1 + r2 == pytest.approx(1.0, abs=TRUSTED)
    assert (26 + 22 / r1) / (26 + 44) == pytest.approx((16 + 32 / r2) / (16 + 64), abs=VISIBLE)


@pytest.mark.parametrize(
    ("make", "error", "key"),
    [
        (lambda: gavel.Centred(gavel.fifo()), InvalidFormulation, "Centred.formulation"),
        (lambda: gavel.Centred(Formulation((TotalRate(),))), InvalidFormulation, "Centred.formulation"),
        (lambda: gavel.FinishTime(isolated={"j1": -1.0}), InvalidOption, "FinishTime.isolated['j1']"),
        (lambda: gavel.FinishTime(isolated=3.0), InvalidOption, "FinishTime.isolated"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_centre_or_no_time_is_refused(make: Callable[[], object], error: type[Exception], key: str) -> None:
    with refused(error, key):
        make()
