"""Gavel's rounds, and asking a policy on change alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from simulated import table_1

import hetopt
from hetopt import Allocation, Cluster, Instance, InvalidOption, Job, Plan, Rounded
from hetopt.decisions.rounders import ByPriority
from hetopt.decisions.system import OnChange, System
from hetopt.models import gavel, oef
from hetopt.models.baselines import by_rule

EIGHTHS = st.integers(0, 8)

AS_IN_THE_PAPER = ByPriority(fill=False, prior=0.0, per_type=False, reset_seconds=0.0)


def by_the_paper(x: Any, demand: list[int], capacity: list[int], received: Any) -> set[tuple[int, int]]:
    """[Gavel, Algorithm 1]: the pair of highest priority that is left, again and again; exact numbers."""
    left, free, chosen = (
        {(j, k) for j in range(len(x)) for k in range(len(capacity)) if x[j][k] > 0},
        [*capacity],
        set(),
    )
    while left:

        def rank(pair: tuple[int, int]) -> tuple[Any, ...]:
            j, k = pair
            had = received[j][k]
            priority = Fraction(x[j][k], 8) / had if had else None
            return priority is not None, -(priority or 0), -x[j][k], j, k

        j, k = min(left, key=rank)
        left.discard((j, k))
        if demand[j] <= free[k]:
            free[k] -= demand[j]
            chosen.add((j, k))
            left = {pair for pair in left if pair[0] != j}
    return chosen


@given(st.data(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=100)
def test_against_the_algorithm_of_the_paper(data: st.DataObject, n: int, k: int, rounds: int) -> None:
    x = data.draw(st.lists(st.lists(EIGHTHS, min_size=k, max_size=k), min_size=n, max_size=n))
    demand = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    capacity = data.draw(st.lists(st.integers(3, 5), min_size=k, max_size=k))
    instance = Instance.from_jobs(np.ones((n, k)), demand, 1.0, capacity)
    allocation = by_rule(instance.entities("jobs"), np.array(x) / 8, "test", 0.0)
    state, received = None, np.zeros((n, k), dtype=int).tolist()
    for _ in range(rounds):
        plan, state = AS_IN_THE_PAPER(allocation, instance, state)
        runs = {(int(j), int(i)) for j, i in zip(*np.nonzero(plan.x), strict=True)}
        assert runs == by_the_paper(x, demand, capacity, received)
        assert all(plan.x[j, i] == demand[j] for j, i in runs)
        for j, i in runs:
            received[j][i] += 1


def test_shares_become_parts_of_rounds() -> None:
    """Three jobs with 1/2, 1/4, 1/4 of one GPU: in 8 rounds they run 4, 2 and 2 times."""
    instance = Instance.from_jobs([[1]] * 3, 1, 1.0, [1])
    allocation = by_rule(instance.entities("jobs"), [[0.5], [0.25], [0.25]], "test", 0.0)
    state, times = None, np.zeros(3)
    for _ in range(8):
        plan, state = ByPriority()(allocation, instance, state)
        times += plan.x[:, 0]
    assert times.tolist() == [4, 2, 2]


def test_new_shares_restart_the_count_after_a_time() -> None:
    """Two jobs with half of a GPU each. Before the time has passed, what j1 had counts; then it is owed less."""
    instance = Instance.from_jobs([[1]] * 2, 1, 1.0, [1])
    first, again = (by_rule(instance.entities("jobs"), [[0.5], [0.5]], "test", 0.0) for _ in range(2))
    plan, state = ByPriority()(first, instance)
    assert plan.x[:, 0].tolist() == [1, 0]
    for now, counted in ((360.0, [[1.0], [1.0]]), (1920.0, [[0.0], [1.0]])):
        plan, after = ByPriority()(again, instance.replace(time=now), state)
        assert plan.x[:, 0].tolist() == [0, 1]
        assert after.rounds.tolist() == counted
    assert after.owed.tolist() == [[-0.5], [0.5]]
    without_memory = ByPriority()(again, instance, None)[0]
    assert without_memory.x[:, 0].tolist() == [1, 0]


def test_jobs_that_come_and_go_between_two_allocations() -> None:
    """j1 has finished: j2 takes its GPU, whose queue is first. j3 has no shares yet and waits, though a GPU is idle."""
    before = Instance.from_jobs([[1, 1]] * 2, 1, 1.0, [1, 1])
    allocation = by_rule(before.entities("jobs"), [[1, 0], [0, 1]], "test", 0.0)
    now = Instance.from_jobs([[1, 1]] * 3, 1, 1.0, [1, 1])
    now = now.replace(jobs=now.jobs[1:])
    assert ByPriority()(allocation, now)[0].x.tolist() == [[1, 0], [0, 0]]
    assert ByPriority(types=("GPU2",))(allocation, now)[0].x.tolist() == [[0, 1], [0, 0]]
    assert ByPriority(fill=False)(allocation, now)[0].x.tolist() == [[0, 1], [0, 0]]
    assert ByPriority(fill=False)(allocation, now.replace(jobs=now.jobs[1:]))[0].x.tolist() == [[0, 0]]


def test_shares_of_tenants_are_refused() -> None:
    tenants = Instance.from_speedups([[1.0, 2.0]], [1, 1])
    with pytest.raises(InvalidOption, match=r"for shares of tenants use hetopt\.WholeGPUs"):
        ByPriority()(hetopt.solve(oef.cooperative(), tenants), tenants)


# -- asking on change


@dataclass(frozen=True)
class Counting:
    """Max-min fairness that notes when it is asked."""

    asked: list[float] = field(default_factory=list)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Allocation | Plan, int]:
        self.asked.append(instance.time)
        return gavel.max_min_fairness()(instance)[0], (state or 0) + 1


def test_a_policy_is_called_when_a_job_comes_or_goes() -> None:
    """One GPU, rounds of 10 s: asked at 0, at 20 for the arrival at 12, at 40 for the job done at 35."""
    jobs = (Job("a", {"G": 1.0}, 25.0), Job("b", {"G": 1.0}, 40.0, arrival=12.0))
    policy = Counting()
    system = System(OnChange(policy), 10.0, ByPriority(reset_seconds=0.0))
    log = hetopt.simulate(system, Instance(Cluster.of({"G": 1}), jobs=jobs))
    # a: 0-20; from 20 both have half: a at 20-25 (done), then the change is seen at 30, and b has all.
    assert policy.asked == [0.0, 20.0, 30.0]
    assert log.jobs["finish"].tolist() == [25.0, 70.0]


def test_on_change_and_each_round_agree_where_shares_do_not_change() -> None:
    """Max-min fairness does not look at the work left, so calling it again changes nothing but the resets."""
    instance = hetopt.instances.load("lab36/jobs")
    rounder = ByPriority(reset_seconds=1e9)
    system = System(gavel.max_min_fairness(), 300.0, rounder)
    policy = Rounded(OnChange(gavel.max_min_fairness()), rounder, 300.0)
    jobs = Instance(instance.cluster, jobs=instance.jobs)
    one, other = hetopt.simulate(system, jobs, max_rounds=60), hetopt.simulate(policy, jobs, max_rounds=60)
    assert one.jobs["done"].tolist() == pytest.approx(other.jobs["done"].tolist())


def test_settings_given_to_simulate_override_the_system() -> None:
    system = System(gavel.max_min_fairness(), 60.0, ByPriority())
    assert hetopt.simulate(system, table_1(), max_rounds=2).rounds["end"].tolist() == [60.0, 120.0]
    assert hetopt.simulate(system, table_1(), round_seconds=30.0, max_rounds=1).rounds["end"].tolist() == [30.0]
    assert System.of(system, fluid=True).fluid
    assert system.seconds == 60.0
    assert System(OnChange(gavel.fifo(), 30.0)).seconds == 30.0
    assert System(gavel.fifo()).seconds is None


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: System(3), "policy", "is 3"),
        (lambda: System(gavel.fifo(), 0.0), "System.round_seconds", None),
        (lambda: System(gavel.fifo(), rounder=ByPriority), "System.rounder", "class ByPriority"),
        (lambda: OnChange("gavel"), "policy", "make_policy"),
        (lambda: OnChange(gavel.fifo(), -1.0), "OnChange.round_seconds", None),
        (lambda: OnChange(gavel.fifo(), least_seconds=-1.0), "OnChange.least_seconds", None),
        (lambda: ByPriority(prior=-0.5), "ByPriority.prior", None),
        (lambda: ByPriority(types="V100"), "ByPriority.types", None),
    ],
)
def test_what_is_no_system(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()
