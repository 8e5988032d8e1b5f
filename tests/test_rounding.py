from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import (
    Allocation,
    Cluster,
    Instance,
    InvalidInstance,
    InvalidOption,
    InvalidPlan,
    Job,
    PrintedWholeGPUs,
    Tenant,
)
from hetopt.decisions.rounders import (
    TICKS,
    Rounder,
    at_least_the_smallest,
    heaviest_packing,
    nearest,
    not_too_far,
    settled_to_zero,
    sums,
)
from hetopt.formulations.traits import Traits
from hetopt.tolerances import EQUAL

WHOLE = hetopt.WholeGPUs()


def allocation(instance: Instance, x: Any, kind: Any = None) -> Allocation:
    certificate: Any = None  # rounding passes it on and does not look at it
    return Allocation(instance.entities(kind), np.array(x, dtype=float), certificate)


def rounds(rounder: Rounder, instance: Instance, x: Any, number: int, kind: Any = None) -> list[hetopt.Plan]:
    plans, state = [], None
    for _ in range(number):
        plan, state = rounder(allocation(instance, x, kind), instance, state)
        plans.append(plan)
    return plans


def users(n: int, capacity: Sequence[int]) -> Instance:
    return Instance.from_speedups(np.ones((n, len(capacity))), capacity)


def with_jobs(gpus: int, demands: Sequence[Sequence[int]]) -> Instance:
    """One GPU type; one tenant per row, with jobs of these demands."""
    tenants = [Tenant(f"t{i}", {"G": 1.0}) for i in range(len(demands))]
    jobs = [
        Job(f"t{i}.{q}", {"G": 1.0}, 10.0, d, tenant=f"t{i}")
        for i, own in enumerate(demands)
        for q, d in enumerate(own)
    ]
    return Instance(Cluster.of({"G": gpus}), tenants=tuple(tenants), jobs=tuple(jobs))


@st.composite
def shares(draw: st.DrawFn, n: int, gpus: int) -> list[Fraction]:
    """Shares of a type that sum to at most its GPUs."""
    parts = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    spare = draw(st.sampled_from([0, 0, 1, 5]))
    total = sum(parts) + spare
    return [Fraction(p * gpus, total) if total else Fraction(0) for p in parts]


# -- whole GPUs, every number usable


def test_half_of_one_gpu_each_alternates_where_the_printed_rule_gives_two() -> None:
    """Two tenants with 1/2 of one GPU each: the printed rule hands out 1 + 1."""
    instance = users(2, [1])
    ours = [plan.x.ravel().tolist() for plan in rounds(WHOLE, instance, [[0.5], [0.5]], 4)]
    printed = [plan.x.ravel().tolist() for plan in rounds(PrintedWholeGPUs(), instance, [[0.5], [0.5]], 2)]
    assert ours == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert printed == [[1, 1], [0, 0]]


@given(st.data())
def test_constant_shares_stay_within_one_gpu_and_sum_to_zero(data: st.DataObject) -> None:
    """|deviation| < 1 always, capacity kept, and deviations (unused GPUs included) sum to zero in every round."""
    n, k = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    capacity = data.draw(st.lists(st.integers(1, 6), min_size=k, max_size=k))
    table = [data.draw(shares(n, m)) for m in capacity]
    x = np.array([[float(column[i]) for column in table] for i in range(n)])
    instance, total, state = users(n, capacity), np.zeros((n, k)), None
    for t in range(1, 41):
        plan, state = WHOLE(allocation(instance, x), instance, state)
        total += plan.x
        assert (plan.x.sum(axis=0) <= capacity).all()
        assert (plan.x >= 0).all()
        assert (plan.x == np.rint(plan.x)).all()
        assert np.abs(plan.owed).max() < 1
        assert np.abs(t * x - total - plan.owed).max() <= t * n / TICKS + EQUAL  # a share is read to n ticks at most
        owed = dict.fromkeys(plan.entities.types, 0)
        for (*_, gpu_type), ticks in state.items():
            owed[gpu_type] += ticks
        assert set(owed.values()) == {0}
        if all(sum(column) == m for column, m in zip(table, capacity, strict=True)):
            assert (plan.x.sum(axis=0) == capacity).all()


@pytest.mark.parametrize(("parts", "of"), [([27, 1, 1, 6, 1, 6], 21), ([1, 1, 1, 9, 7, 7, 2], 14)])
def test_deadlines_keep_what_the_largest_remainder_does_not(parts: list[int], of: int) -> None:
    """Two GPUs. Giving the next GPU to the largest deficit lets a deviation reach 1 here (found by search)."""
    shares_now, owed, furthest = [Fraction(p, of) for p in parts], [Fraction(0)] * len(parts), Fraction(0)
    for _ in range(of):
        owed = [o + s for o, s in zip(owed, shares_now, strict=True)]
        for _ in range(2):
            owed[owed.index(max(owed))] -= 1
        furthest = max(furthest, *map(abs, owed))
    assert furthest == 1
    plans = rounds(WHOLE, users(len(parts), [2]), [[float(s)] for s in shares_now], of)
    assert max(np.abs(plan.owed).max() for plan in plans) < 1
    assert sum(plan.x.ravel() for plan in plans).tolist() == parts


@given(st.data())
def test_the_printed_rule_stays_within_a_half_but_not_within_capacity(data: st.DataObject) -> None:
    n, gpus = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    x = [[float(v)] for v in data.draw(shares(n, gpus))]
    for plan in rounds(PrintedWholeGPUs(starvation_rule=False), users(n, [gpus]), x, 20):
        assert np.abs(plan.owed).max() <= 0.5


@given(st.data())
def test_tenants_that_come_and_go_keep_capacity_and_zero_sums(data: st.DataObject) -> None:
    """Whatever the shares do: no deviation below -1, none above what all others can be ahead, capacity kept."""
    gpus, everyone, state = data.draw(st.integers(1, 4)), ["a", "b", "c", "d"], None
    for _ in range(15):
        present = [name for name in everyone if data.draw(st.booleans())] or ["a"]
        x = [[float(v)] for v in data.draw(shares(len(present), gpus))]
        instance = Instance.from_speedups(np.ones((len(present), 1)), [gpus], tenants=present)
        plan, state = WHOLE(allocation(instance, x), instance, state)
        assert plan.x.sum() + plan.given_up["idle"] == gpus
        assert sum(state.values()) == 0
        assert plan.owed.min() > -1
        assert plan.owed.max() < len(present)


def test_what_a_tenant_is_owed_survives_others_and_a_second_job_type() -> None:
    """The state is keyed by tenant and job type: "u1" and "u1/jobs" are the same."""
    alone = Instance.from_speedups([[1.0], [1.0]], [1], tenants=["u1", "u2"])
    _, state = WHOLE(allocation(alone, [[0.5], [0.5]]), alone, None)
    kinds = (hetopt.JobType("jobs", {"GPU1": 1.0}), hetopt.JobType("more", {"GPU1": 1.0}))
    both = alone.replace(tenants=(Tenant("u1", kinds), alone.tenants[1]))
    plan, _ = WHOLE(allocation(both, [[0.25], [0.25], [0.5]]), both, state)
    assert plan.x.ravel().tolist() == [0, 0, 1]  # u1 was ahead by 1/2, u2 is owed 1/2


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8))
def test_settling_shrinks_entries_until_they_sum_to_zero(owed: list[int]) -> None:
    after = settled_to_zero(np.array(owed, dtype=np.int64))
    assert after.sum() == 0
    assert all(0 <= new * np.sign(old) <= abs(old) for old, new in zip(owed, after.tolist(), strict=True))


def test_more_than_there_is_is_refused() -> None:
    instance = users(2, [1])
    with pytest.raises(InvalidPlan, match=r"1\.5 GPUs of 'GPU1'; the capacity is 1"):
        WHOLE(allocation(instance, [[1.0], [0.5]]), instance)


def test_rounders_say_which_kind_they_are_for() -> None:
    jobs = Instance.from_jobs([[1.0]], [1], [1], [1])
    with pytest.raises(InvalidOption, match="WholeJobs"):
        WHOLE(allocation(jobs, [[1.0]]), jobs)
    tenants = users(1, [1])
    with pytest.raises(InvalidOption, match="WholeGPUs"):
        hetopt.WholeJobs()(allocation(tenants, [[1.0]]), tenants)
    with pytest.raises(InvalidOption, match=r"WholeGPUs\.usable is 'half'; known: any, smallest, sums"):
        hetopt.WholeGPUs("half")


# -- gangs and the starvation rule


def test_starvation_rule_keeps_capacity_where_the_printed_one_asks_for_sixteen() -> None:
    """Four tenants, ideal 1 each, 4 GPUs, demand 4: printed, three idle rounds and then 16 GPUs."""
    instance = with_jobs(4, [[4]] * 4)
    ideal = [[1.0]] * 4
    ours = [plan.x.ravel().tolist() for plan in rounds(WHOLE, instance, ideal, 8)]
    assert ours == 2 * [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]]
    printed = [plan.x.sum() for plan in rounds(PrintedWholeGPUs(), instance, ideal, 4)]
    assert printed == [0, 0, 0, 16]


def test_exactly_the_smallest_demand_is_enough() -> None:
    """The rule is >=: the paper's "greater than" would starve a tenant whose share is its demand."""
    instance = with_jobs(4, [[2, 3], [2]])
    for rounder in (WHOLE, PrintedWholeGPUs()):
        assert rounds(rounder, instance, [[2.0], [2.0]], 1)[0].x.ravel().tolist() == [2, 2]


@pytest.mark.parametrize("rounder", [WHOLE, PrintedWholeGPUs()])
def test_a_demand_above_every_type_is_refused(rounder: Rounder) -> None:
    tenant = Tenant("t", {"A": 1.0, "B": 1.0})
    job = Job("big", {"A": 1.0, "B": 1.0}, 1.0, 3, tenant="t")
    instance = Instance(Cluster.of({"A": 2, "B": 2}), tenants=(tenant,), jobs=(job,))
    with refused(InvalidInstance, "jobs['big'].demand"):
        rounder(allocation(instance, [[1.0, 1.0]], "tenants"), instance)


@given(st.data())
@settings(max_examples=40)
def test_shares_that_gangs_can_reach_are_reached(data: st.DataObject) -> None:
    """Averages of usable points: |deviation| stays below the GPUs of the type, so averages converge."""
    gpus, n = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    demands = [data.draw(st.lists(st.integers(1, min(gpus, 5)), min_size=1, max_size=3)) for _ in range(n)]
    usable = data.draw(st.sampled_from(["smallest", "sums"]))
    instance = with_jobs(gpus, demands)
    points = []
    for _ in range(data.draw(st.integers(1, 4))):
        point, left = [0] * n, gpus
        for i in data.draw(st.permutations(range(n))):
            sizes = sums(demands[i], left) if usable == "sums" else [0, *range(min(demands[i]), left + 1)]
            point[i] = int(data.draw(st.sampled_from(list(sizes))))
            left -= point[i]
        points.append(point)
    x = np.mean(points, axis=0)[:, None]
    state, total = None, np.zeros((n, 1))
    for t in range(1, 51):
        plan, state = hetopt.WholeGPUs(usable)(allocation(instance, x, "tenants"), instance, state)
        total += plan.x
        assert plan.x.sum() <= gpus
        assert plan.given_up["forgiven"] == 0
        assert np.abs(plan.owed).max() < gpus
        assert np.abs(t * x - total).max() <= gpus + EQUAL
        for got, own in zip(plan.x[:, 0].astype(int).tolist(), demands, strict=True):
            assert got in sums(own, gpus) if usable == "sums" else got == 0 or got >= min(own)


@given(st.data())
def test_shares_that_no_gang_can_reach_do_not_pile_up(data: st.DataObject) -> None:
    """Two jobs of 3 GPUs on 4 GPUs with a share of 2 each: what is owed stays within twice the type."""
    gpus = data.draw(st.integers(2, 6))
    demands = [[data.draw(st.integers(1, gpus))] for _ in range(data.draw(st.integers(2, 4)))]
    instance = with_jobs(gpus, demands)
    x = np.array([[float(v)] for v in data.draw(shares(len(demands), gpus))])
    for plan in rounds(hetopt.WholeGPUs("sums"), instance, x, 60, "tenants"):
        assert plan.x.sum() <= gpus
        assert np.abs(plan.owed).max() <= 2 * gpus


def test_unreachable_shares_do_not_starve_a_newcomer() -> None:
    """After 1,000 rounds of an unreachable promise, a third tenant waits no longer than the two others."""
    two, three = with_jobs(4, [[3], [3]]), with_jobs(4, [[3], [3], [3]])
    state = None
    for _ in range(1000):
        plan, state = WHOLE(allocation(two, [[2.0], [2.0]], "tenants"), two, state)
    first = None
    for t in range(30):
        plan, state = WHOLE(allocation(three, [[4 / 3]] * 3, "tenants"), three, state)
        if plan.x[2, 0] and first is None:
            first = t
    assert first is not None
    assert first <= 2 * 4 / (4 / 3) * 2  # twice the type at most is owed to each of the others


def test_a_share_above_what_the_jobs_can_use_is_given_up_not_owed() -> None:
    plan = rounds(hetopt.WholeGPUs("sums"), with_jobs(4, [[3]]), [[4.0]], 3, "tenants")[-1]
    assert plan.x.tolist() == [[3.0]]
    assert plan.owed.tolist() == [[0.0]]
    assert plan.given_up == {"idle": 1.0, "unusable": 1.0, "forgiven": 0.0}


@given(st.data())
@settings(max_examples=40)
def test_nearest_point_equals_enumeration(data: st.DataObject) -> None:
    gpus, n = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 3))
    usable = [np.array(sorted({0, *data.draw(st.sets(st.integers(1, 5)))})) for _ in range(n)]
    usable = [s[s <= gpus] for s in usable]
    deficit = np.array(data.draw(st.lists(st.integers(-20, 20), min_size=n + 1, max_size=n + 1))) / 4
    x = nearest(deficit, usable, gpus)
    best = min(
        sum((t - v) ** 2 for t, v in zip(deficit, (*point, gpus - sum(point)), strict=True))
        for point in itertools.product(*[s.tolist() for s in usable])
        if sum(point) <= gpus
    )
    assert x.sum() == gpus
    assert all(v in s for v, s in zip(x.tolist(), usable, strict=False))
    assert ((deficit - x) ** 2).sum() <= best + EQUAL


@given(st.data())
@settings(max_examples=100)
def test_numbers_that_are_left_out_are_in_no_nearest_point(data: st.DataObject) -> None:
    """Ties included, so that the search among the others finds the same point as that among all."""
    gpus, n = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    gangs = [data.draw(st.lists(st.integers(1, 7), max_size=3)) for _ in range(n)]
    rule = data.draw(st.sampled_from([sums, at_least_the_smallest]))
    usable = [rule(own, gpus) for own in gangs]
    deficit = np.array(data.draw(st.lists(st.integers(-20, 20), min_size=n + 1, max_size=n + 1))) / 4
    distance = {
        point: ((deficit - (*point, gpus - sum(point))) ** 2).sum()
        for point in itertools.product(*[numbers.tolist() for numbers in usable])
        if sum(point) <= gpus
    }
    found = not_too_far(deficit, usable, gpus)
    nearest_points = [point for point, own in distance.items() if own == min(distance.values())]
    assert all(v in numbers for point in nearest_points for v, numbers in zip(point, found, strict=True))


# -- jobs


@given(st.data())
@settings(max_examples=40)
def test_heaviest_packing_equals_enumeration(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    capacity = data.draw(st.lists(st.integers(1, 4), min_size=k, max_size=k))
    demand = data.draw(st.lists(st.integers(1, max(capacity)), min_size=n, max_size=n))
    weight = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=n * k, max_size=n * k))).reshape(n, k) / 8
    jobs = Instance.from_jobs(np.ones((n, k)), demand, [1] * n, capacity).entities()
    x = heaviest_packing(jobs, weight, hetopt.Options())
    value = (x * weight).sum()
    best = 0.0
    for choice in itertools.product([None, *range(k)], repeat=n):
        used = np.zeros(k)
        for d, c in zip(demand, choice, strict=True):
            if c is not None:
                used[c] += d
        if (used <= capacity).all():
            best = max(best, sum(weight[i, c] for i, c in enumerate(choice) if c is not None))
    assert ((x * np.array(demand)[:, None]).sum(axis=0) <= capacity).all()
    assert (x.sum(axis=1) <= 1).all()
    assert abs(value - best) <= EQUAL * max(1.0, best)


@given(st.data())
@settings(max_examples=15)
def test_shares_of_time_that_packings_reach_are_reached(data: st.DataObject) -> None:
    """Averages of packings: nothing is forgiven, what is owed stays below the limit, so averages converge."""
    n, k = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2))
    capacity = data.draw(st.lists(st.integers(1, 5), min_size=k, max_size=k))
    demand = data.draw(st.lists(st.integers(1, max(capacity)), min_size=n, max_size=n))
    points = []
    for _ in range(data.draw(st.integers(1, 3))):
        point, left = np.zeros((n, k)), np.array(capacity)
        for i in data.draw(st.permutations(range(n))):
            c = data.draw(st.integers(0, k - 1))
            if left[c] >= demand[i]:
                point[i, c], left[c] = 1, left[c] - demand[i]
        points.append(point)
    x, limit = np.mean(points, axis=0), hetopt.WholeJobs().most_owed
    instance = Instance.from_jobs(np.ones((n, k)), demand, [1] * n, capacity)
    total = np.zeros((n, k))
    for t, plan in enumerate(rounds(hetopt.WholeJobs(), instance, x, 25), 1):
        total += plan.x / np.array(demand)[:, None]
        assert (plan.x.sum(axis=0) <= capacity).all()
        assert (np.isin(plan.x.sum(axis=1), [0, *demand])).all()
        assert plan.given_up["forgiven"] == 0
        assert (t * x - total).max() <= limit
        assert (t * x - total).min() > -1 - EQUAL


def test_unreachable_shares_of_time_are_forgiven_and_starve_no_newcomer() -> None:
    """Two jobs of three GPUs on four, 2/3 of the time each: they can only take turns."""
    limit, state = hetopt.WholeJobs().most_owed, None
    two = Instance.from_jobs([[1.0]] * 2, [3, 3], [1, 1], [4])
    for _ in range(100):
        plan, state = hetopt.WholeJobs()(allocation(two, [[2 / 3]] * 2), two, state)
        assert plan.owed.max() <= 3 * limit
    assert plan.given_up["forgiven"] > 0
    three, waited = Instance.from_jobs([[1.0]] * 3, [3, 3, 3], [1, 1, 1], [4]), 0
    while waited < 2 * limit / (4 / 9):  # what the others can be owed, earned at its own share
        plan, state = hetopt.WholeJobs()(allocation(three, [[4 / 9]] * 3), three, state)
        if plan.x[2, 0]:
            break
        waited += 1
    assert plan.x[2, 0] == 3
    with refused(InvalidOption, "WholeJobs.most_owed"):
        hetopt.WholeJobs(most_owed=0.5)


def test_equal_halves_swap_every_round() -> None:
    """Gavel's allocation of [FFT, Table 1] in rounds: Fig. 3."""
    instance = Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])
    plans = [plan.assigned for plan in rounds(hetopt.WholeJobs(), instance, np.full((2, 2), 0.5), 4)]
    assert plans[0] == plans[2] != plans[1] == plans[3]
    assert all(set(plan.values()) == {"GPU1", "GPU2"} for plan in plans)


# -- policies


@dataclass(frozen=True)
class Halves:
    round_seconds: float = 60.0

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Allocation, int]:
        return allocation(instance, np.full((2, 1), 0.5)), (state or 0) + 1


def test_rounded_policy_holds_both_states() -> None:
    policy, instance = hetopt.Rounded(Halves()), users(2, [1])
    assert policy.traits.round_seconds == 60.0
    first, state = policy(instance)
    second, state = policy(instance, state)
    assert state[0] == 2
    assert (first.x + second.x).ravel().tolist() == [1, 1]
    with pytest.raises(InvalidOption, match="round_seconds"):
        hetopt.Rounded(Halves(), round_seconds=0.0)
