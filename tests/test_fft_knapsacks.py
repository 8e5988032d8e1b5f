"""Knapsack bounds and the search of FFT's round, against enumeration and against HiGHS on the whole program."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import NoReturn

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment

import hetopt
from hetopt import Options
from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.models import fft
from hetopt.models.fft import core_tables, fft_method, gang_counts, round_search, running_jobs
from hetopt.models.fft.alike_types import merged
from hetopt.models.fft.gang_counts import CountProgram
from hetopt.models.fft.gpu_prices import gpu_prices
from hetopt.models.fft.job_prices import ascended
from hetopt.models.fft.knapsacks import LARGEST, Core
from hetopt.models.fft.round_search import Round, searched, solve
from hetopt.models.fft.rounded_plan import FEW, improved, rounded
from hetopt.models.fft.transport import cheapest_assignment
from hetopt.proofs.strategies import job_instances
from hetopt.solving.blocks import Flags
from hetopt.tolerances import EQUAL, PROVEN, START, scale

TIGHT = {"rel": EQUAL, "abs": EQUAL}


@st.composite
def cores(draw: st.DrawFn) -> Core:
    """Up to 6 jobs on up to 3 types: costs of both signs, ties, places where a job cannot run, and idle GPUs."""
    m, k = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    costs = st.one_of(st.integers(-5, 9).map(float), st.floats(-5, 9), st.just(np.inf))
    cost = np.array([[draw(costs) for _ in range(k)] for _ in range(m)])
    room = np.array([draw(st.integers(0, 7)) for _ in range(k)])
    idle = draw(st.integers(0, int(room.sum())))
    demand = np.array([draw(st.integers(1, 4)) for _ in range(m)])
    return Core(cost, demand, room, idle, np.arange(m), base=draw(st.integers(-3, 3)) * 1.0)


def plans(core: Core) -> list[tuple[float, tuple[int, ...]]]:
    """Cost and types of every plan of the core."""
    m, k = core.cost.shape
    found = []
    for choice in product(range(-1, k), repeat=m):
        used, cost = np.zeros(k), core.base
        for j, i in enumerate(choice):
            if i >= 0:
                used[i] += core.demand[j]
                cost += core.cost[j, i]
        if np.isfinite(cost) and (used <= core.room).all() and used.sum() == core.room.sum() - core.idle:
            found.append((cost, choice))
    return found


def some_prices(core: Core, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(0, 4, len(core.jobs))


@given(cores(), st.integers(0, 9))
@settings(max_examples=examples(60, 600), deadline=None)
def test_knapsacks_bound_every_plan_at_any_prices(core: Core, seed: int) -> None:
    """The bound, and what is lost if a job runs on a type or waits."""
    prices = some_prices(core, seed)
    bound, chosen = core.knapsacks.bound(prices)
    total, runs, waits = core.knapsacks.losses(prices) if np.isfinite(bound) else (bound, None, None)
    assert total == pytest.approx(bound, **TIGHT)
    for cost, choice in plans(core):
        assert bound <= cost + PROVEN * scale(cost, prices)
        for j, i in enumerate(choice):
            loss = waits[j] if i < 0 else runs[j, i]
            assert bound + loss <= cost + EQUAL * scale(cost, prices)
    if np.isfinite(bound):
        value = core.knapsacks.values(prices)[:, :-1]
        assert core.base + np.where(chosen, value, 0.0).sum() == pytest.approx(bound, **TIGHT)
        used = core.demand @ chosen
        assert (used <= core.knapsacks.most).all()
        assert used[-1] == core.knapsacks.most[-1]
        assert (used[:-1] >= core.room - core.idle).all()


@given(cores(), st.integers(0, 9), st.sampled_from([1, 2, 99]), st.sampled_from([0, LARGEST]))
@settings(max_examples=examples(60, 600), deadline=None)
def test_which_jobs_run_bounds_every_plan_at_any_prices(core: Core, seed: int, few: int, largest: int) -> None:
    """The bound, which is at least that of the relaxation, and what is lost if a job runs on a type or waits."""
    price = np.random.default_rng(seed).normal(0, 2, len(core.room))
    round_ = Round(core.cost, core.demand, core.room, core.idle, price)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_jobs, "FEW", few)
        patch.setattr(running_jobs, "LARGEST", largest)
        bound, runs, waits = round_.losses
    assert bound >= round_.relaxed.bound
    assert min(runs.min(), waits.min()) >= 0
    for cost, choice in plans(replace(core, base=0.0)):
        for j, i in enumerate(choice):
            assert bound + (waits[j] if i < 0 else runs[j, i]) <= cost + EQUAL * scale(cost, price)


@given(cores(), st.integers(0, 9))
@settings(max_examples=examples(60, 600), deadline=None)
def test_a_rounded_relaxation_is_a_plan(core: Core, seed: int) -> None:
    price = np.random.default_rng(seed).normal(0, 2, len(core.room))
    round_ = Round(core.cost, core.demand, core.room, core.idle, price)
    if (choice := round_.first_plan) is not None:
        check(round_, choice, None)


def test_first_plans_leave_as_many_gpus_idle_as_they_must() -> None:
    """A plan with a few more GPUs than are in use is there by construction."""
    found = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        n, k = int(draw.integers(5, 12)), 3
        demand, plan = draw.choice([2, 3, 5], n).astype(np.intp), draw.choice(k + 1, n) - 1
        room, idle = np.bincount(plan + 1, demand, k + 1)[1:].astype(np.intp), int(draw.integers(1, 5))
        room[0] += idle
        cost = -draw.uniform(0.1, 1, (n, k)) * demand[:, None]
        round_ = Round(cost, demand, room, idle, np.median(cost / demand[:, None], axis=0))
        if (choice := round_.first_plan) is not None:
            found += 1
            check(round_, choice, None)
    assert found > 150


def test_identical_jobs_are_spread_over_identical_types() -> None:
    """All of 200 jobs are on one of five types before the exchanges."""
    demand, room = np.arange(200) % 3 + 1, np.array([70, 80, 80, 80, 89])
    round_ = Round(np.ones((200, 5)), demand, room, 0, np.ones(5))
    choice = round_.first_plan
    assert choice is not None
    check(round_, choice, 200.0)


def test_gangs_whose_sizes_are_all_odd_fill_every_type() -> None:
    """One GPU more or less takes several gangs: four of 31 for two of 41 and one of 35, say. A plan is drawn first."""
    draw = np.random.default_rng(0)
    demand, plan = draw.choice([31, 33, 35, 37, 41], 300), draw.integers(-1, 4, 300)
    room = np.bincount(plan[plan >= 0], demand[plan >= 0]).astype(np.intp)
    choice = rounded(draw.uniform(0, 1, (300, 4)), np.full(300, np.inf), demand, room, plan >= 0)
    assert choice is not None
    assert np.array_equal(choice >= 0, plan >= 0)
    assert np.array_equal(np.bincount(choice[choice >= 0], demand[choice >= 0]), room)


def test_types_with_a_few_odd_gangs_are_filled_over_larger_types() -> None:
    """Two of four types have one to ten gangs: exchanges between the types that do not fit fill half of the rounds."""
    filled = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        demand = draw.choice([31, 33, 35, 37, 41], 300)
        plan = np.append(draw.choice(5, 299, p=[0.3, 0.4, 0.28, 0.015, 0.005]) - 1, 3)
        room = np.bincount(plan[plan >= 0], demand[plan >= 0], 4).astype(np.intp)
        loss, waits = draw.uniform(0, 1, (300, 4)), draw.uniform(0, 1, 300)
        if (choice := rounded(loss, waits, demand, room, plan >= 0)) is not None:
            filled += 1
            assert np.array_equal(np.bincount(choice[choice >= 0], demand[choice >= 0], 4), room)
    assert filled > 30


@given(cores())
@settings(max_examples=examples(60, 600), deadline=None)
def test_exchanges_leave_no_better_one_between_two_types(core: Core) -> None:
    """All plans with the same GPUs in use are listed; the last type is that of the jobs that wait."""
    known = [np.array(choice) for _, choice in plans(core)]
    for plan in known[:3]:
        after = improved(core.cost, core.demand, plan)
        costs = np.column_stack([core.cost, np.zeros(len(plan))])[np.arange(len(plan)), after]
        gpus = np.bincount(after + 1, core.demand, core.cost.shape[1] + 1)
        round_ = Round(core.cost, core.demand, core.room, core.idle, np.zeros(len(core.room)))
        cheaper = round_.polished(plan)
        check(round_, cheaper, None)
        assert round_.worth(cheaper)[0] <= costs.sum() + EQUAL * scale(costs)
        assert np.array_equal(gpus, np.bincount(plan + 1, core.demand, len(gpus)))
        for other in known:
            changed = np.flatnonzero(other != after)
            moves = Counter(zip(after[changed].tolist(), core.demand[changed].tolist(), strict=True))
            if (
                np.array_equal(np.bincount(other + 1, core.demand, len(gpus)), gpus)
                and len({*after[changed].tolist(), *other[changed].tolist()}) == 2
                and max(moves.values()) <= FEW
            ):
                runs = np.flatnonzero(other >= 0)
                assert costs.sum() <= core.cost[runs, other[runs]].sum() + EQUAL * scale(costs)


def test_exchanges_end_where_rounding_exceeds_what_they_gain() -> None:
    """An exchange of costs near 1e8 and its reverse both seem to gain; the first plan costs a thousandth."""
    waiting = [-160242830.37476805, -572229495.4720839, -377135553.96147, -358331420.2545566, -751276459.5537654]
    cost = np.array([[0.001], *([value] for value in waiting)])
    after = improved(cost, np.array([21, 7, 7, 7, 10, 11]), np.array([0, -1, -1, -1, -1, -1]))
    assert cost[after >= 0].sum() == sum(sorted(waiting)[:1] + waiting[3:4]), "10 and 11 GPUs are best"


@given(cores(), st.integers(0, 9))
@settings(max_examples=examples(60, 600), deadline=None)
def test_a_search_finds_the_best_plan_or_bounds_it(core: Core, seed: int) -> None:
    prices = some_prices(core, seed)
    order = np.random.default_rng(seed).permutation(len(prices))
    best = min((cost for cost, _ in plans(core)), default=np.inf)
    if not np.isfinite(core.knapsacks.bound(prices)[0]):
        assert best == np.inf
        return
    for width in (1, 3, 10_000):
        bound, choice = searched(core, prices, order, width, np.inf)
        assert bound <= best + EQUAL * scale(best)
        if choice is not None:
            costs = {types: cost for cost, types in plans(core)}
            assert costs[tuple(choice.tolist())] >= best
    if np.isfinite(best):
        assert bound == pytest.approx(best, **TIGHT)


def least_at(core: Core, value: Floats, node: int, job: int, runs: bool) -> float:
    """The least cost at a node if this job runs there or not, by enumeration."""
    used_most = core.knapsacks.most[node]
    used_least = used_most if node == len(core.room) else max(used_most - core.idle, 0)
    found = np.inf
    for chosen in product((0, 1), repeat=len(value)):
        if chosen[job] == runs and used_least <= np.dot(chosen, core.demand) <= used_most:
            found = min(found, sum(value[j, node] for j, one in enumerate(chosen) if one))
    return found


@given(cores(), st.integers(0, 9))
@settings(max_examples=examples(40, 400), deadline=None)
def test_losses_are_those_of_the_knapsacks(core: Core, seed: int) -> None:
    """A job that runs on a type is in two knapsacks, and a job that waits in none."""
    prices, k = some_prices(core, seed), len(core.room)
    value = core.knapsacks.values(prices)[:, :-1]
    if not np.isfinite(core.knapsacks.bound(prices)[0]):
        return
    total, runs, waits = core.knapsacks.losses(prices)
    for j in range(len(prices)):
        out = [least_at(core, value, node, j, runs=False) for node in range(k + 1)]
        at = [least_at(core, value, node, j, runs=True) for node in range(k + 1)]
        least = np.minimum(out, at)
        assert core.base + least.sum() == pytest.approx(total, **TIGHT)
        assert waits[j] == pytest.approx((out - least).sum(), **TIGHT)
        for i in range(k):
            loss = at[i] + at[k] + sum(out[h] for h in range(k) if h != i) - least.sum()
            assert runs[j, i] == pytest.approx(loss, **TIGHT)


@given(cores(), st.integers(0, 9))
@settings(max_examples=examples(60, 600), deadline=None)
def test_an_ascent_raises_the_bound_and_lowers_the_target(core: Core, seed: int) -> None:
    prices, best = some_prices(core, seed), min((cost for cost, _ in plans(core)), default=np.inf)
    before = core.knapsacks.bound(prices)[0]
    if not np.isfinite(before) or not np.isfinite(best):
        return
    costs = {types: cost for cost, types in plans(core)}
    found = [best + 1.0]

    def take(chosen: Flags) -> float:
        numbers = [chosen[jobs].sum(axis=0) for _, jobs in core.by_demand]
        choice = core.with_numbers(numbers, np.full(len(prices), -1))
        if choice is not None:
            found.append(costs[tuple(choice.tolist())])
            for _, jobs in core.by_demand:
                types = choice[jobs]
                assert (np.bincount(types[types >= 0], minlength=chosen.shape[1]) == chosen[jobs].sum(axis=0)).all()
        return min(found)

    bound, after = ascended(core, prices, np.abs(prices), best + 1.0, take)
    assert before <= bound <= best + EQUAL * scale(best, prices)
    assert core.knapsacks.bound(after)[0] == bound


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.integers(1, 4).flatmap(
            lambda k: st.tuples(
                hnp.arrays(float, (n, k), elements=st.integers(-4, 6).map(float) | st.floats(-4, 6) | st.just(np.inf)),
                hnp.arrays(int, k, elements=st.integers(0, 3)),
                hnp.arrays(int, n, elements=st.integers(-1, k - 1)),
            )
        )
    )
)
@settings(max_examples=examples(100, 1_000), deadline=None)
def test_assignments_are_the_cheapest(drawn: tuple[Floats, Positions, Positions]) -> None:
    """Against the Hungarian method, from any near assignment."""
    cost, places, near = drawn
    near = np.where((near >= 0) & np.isfinite(cost[np.arange(len(cost)), near]), near, -1)
    types = np.repeat(np.arange(len(places)), places)
    found = cheapest_assignment(cost, places, near)
    try:
        rows, columns = linear_sum_assignment(cost[:, types])
    except ValueError:
        rows = columns = np.array([], dtype=int)
    if len(rows) < len(types):
        assert found is None
        return
    assert found is not None
    jobs = np.flatnonzero(found >= 0)
    assert (np.bincount(found[jobs], minlength=len(places)) == places).all()
    assert cost[jobs, found[jobs]].sum() == pytest.approx(cost[rows, types[columns]].sum(), **TIGHT)


@given(cores())
@settings(max_examples=examples(60, 600), deadline=None)
def test_whole_counts_suffice(core: Core) -> None:
    best = min((cost for cost, _ in plans(core)), default=np.inf)
    if not np.isfinite(core.cost).any():
        return
    bound, choice = CountProgram(core).solve(0.0, None)
    if not np.isfinite(best):
        assert bound == np.inf
        assert choice is None
        return
    assert bound == pytest.approx(best, **TIGHT)
    assert choice is not None
    assert {types: cost for cost, types in plans(core)}[tuple(choice.tolist())] == pytest.approx(best, **TIGHT)


@pytest.mark.parametrize(("status", "bound"), [("infeasible", np.inf), ("time_limit", -np.inf), ("error", -np.inf)])
def test_counting_without_a_solution_proves_only_infeasibility(
    status: str, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(_: object) -> NoReturn:
        raise NotSolved("HiGHS has no point", status)

    monkeypatch.setattr(gang_counts.Session, "solve", failed)
    core = Core(np.array([[1.0]]), np.array([2]), np.array([2]), 0, np.arange(1))
    assert CountProgram(core).solve(0.0, None) == (bound, None)


@pytest.mark.parametrize("seed", range(30))
def test_a_bound_holds_whose_first_plan_is_poor(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide gap, and a narrow search for the first plan inside of a proof. The optimum is HiGHS's."""
    monkeypatch.setattr(round_search, "STARTING_WIDTH", 1)
    monkeypatch.setattr(round_search._Search, "_first", lambda _: None)
    for draw in np.random.default_rng(seed).spawn(10):
        n, k = int(draw.integers(4, 14)), int(draw.integers(2, 4))
        demand = draw.choice([[1, 2, 4], [2, 3, 5], [3, 4, 7]][draw.integers(3)], n).astype(np.intp)
        cost = np.where(draw.random((n, k)) < 0.2, np.inf, -draw.uniform(0.1, 1, (n, k)) * demand[:, None])
        plan = [int(draw.choice(np.append(-1, np.flatnonzero(np.isfinite(own))))) for own in cost]
        room = np.bincount(np.array(plan) + 1, demand, k + 1)[1:].astype(np.intp)
        price = np.median(np.where(np.isfinite(cost), cost, 0.0) / demand[:, None], axis=0)
        round_ = Round(cost, demand, room, 0, price)
        best, _ = CountProgram(round_.whole).solve(0.0, None)  # one was infeasible to HiGHS with a redundant row
        found = solve(round_, float(draw.choice([0.1, 0.2, 0.3])))
        assert found.bound <= best + EQUAL * scale(best)
        assert found.cost >= best - EQUAL * scale(best)


@given(cores())
@settings(max_examples=examples(60, 600), deadline=None)
def test_a_round_is_solved_with_and_without_alike_types(core: Core) -> None:
    best = min((cost for cost, _ in plans(core)), default=np.inf) - core.base
    cost = np.where(core.demand[:, None] <= core.room, core.cost, np.inf)
    able = np.isfinite(cost).any(axis=1)
    if not able.any():
        return
    round_ = Round(cost, core.demand, core.room, core.idle, np.zeros(len(core.room)))
    assert round_.relaxed.bound <= best + EQUAL * scale(best)
    found = solve(round_, 0.0)
    assert found.bound <= best + EQUAL * scale(best)
    if not np.isfinite(best):
        assert found.choice is None
        return
    assert found.cost == pytest.approx(best, **TIGHT)
    assert found.bound == pytest.approx(best, **TIGHT)
    check(round_, found.choice, found.cost)
    alike = merged(round_, 100.0)
    if alike is not None:
        part = solve(alike.part, 0.0)
        assert part.bound <= best + EQUAL * scale(best)
        if part.choice is not None and (split := alike.split(part.choice)) is not None:
            check(round_, split, None)


def check(round_: Round, choice: Positions | None, cost: float | None) -> None:
    assert choice is not None
    runs = np.flatnonzero(choice >= 0)
    used = np.bincount(choice[runs], weights=round_.demand[runs], minlength=len(round_.room))
    own = round_.cost[runs, choice[runs]].sum()
    assert np.isfinite(own)
    assert (used <= round_.room).all()
    assert used.sum() == round_.room.sum() - round_.idle
    assert cost is None or own == pytest.approx(cost, **TIGHT)


@given(cores(), st.integers(0, 99), st.sampled_from([1, 3, 12]), st.booleans(), st.floats(1, 9))
@settings(max_examples=examples(60, 600), deadline=None)
def test_small_tables_find_the_cheapest_plan_at_any_prices(
    core: Core, seed: int, first: int, narrow: bool, total: float
) -> None:
    best, choice = min(plans(replace(core, base=0.0)), default=(np.inf, None))
    price = np.random.default_rng(seed).normal(0, 2, len(core.room))
    round_ = Round(core.cost, core.demand, core.room, core.idle, price)
    starts = [None] if choice is None else [None, np.array(choice)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_tables, "FIRST", first)
        patch.setattr(core_tables, "TOTAL", total)
        patch.setattr(core_tables, "NARROW", 0 if narrow else np.inf)
        solved = [core_tables.solve_small(round_, 0.0, start) for start in starts]
    for found in (*solved, core_tables.solve_whole(round_)):
        if choice is None:
            assert found is None
            continue
        assert found is not None
        check(round_, found.choice, found.cost)
        assert found.cost == pytest.approx(best, **TIGHT)
        assert found.bound == pytest.approx(best, **TIGHT)


def test_large_tables_and_many_types_are_left_to_the_search() -> None:
    draw = np.random.default_rng(0)
    for k, room in ((6, 60), (core_tables.TYPES + 1, 1)):
        round_ = Round(draw.lognormal(0, 1, (400, k)), np.ones(400, dtype=int), np.full(k, room), 0, np.zeros(k))
        assert core_tables.solve_small(round_, 0.0) is core_tables.solve_whole(round_) is None


def without_tables(patch: pytest.MonkeyPatch) -> None:
    """Leave rounds to the search."""
    for tables in ("solve_small", "solve_whole"):
        patch.setattr(fft_method, tables, lambda *_: None)


def twins(seed: int) -> Round:
    """60 gangs of 1 to 5 on four types, which are alike in pairs."""
    draw = np.random.default_rng(seed)
    cost = draw.lognormal(3, 1, (60, 2))[:, [0, 0, 1, 1]]
    demand, room = draw.integers(1, 6, 60), np.array([9, 7, 8, 8])
    return Round(cost, demand, room, 0, gpu_prices(cost, demand, room, 0, Options()))


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_types_that_are_alike_are_merged_and_split(seed: int) -> None:
    round_ = twins(seed)
    alike = merged(round_, START)
    assert alike is not None
    assert {tuple(sorted(types.tolist())) for types in alike.members} == {(0, 1), (2, 3)}
    part, whole = solve(alike.part, 0.0), solve(round_, 0.0)
    assert part.choice is not None
    assert part.cost <= whole.cost + EQUAL * scale(whole.cost)
    check(round_, alike.split(part.choice), part.cost)


def test_where_no_split_fits_there_is_none() -> None:
    """Gangs of 5, 5, 3 and 3 fill two types of 8 GPUs, but not 9 and 7."""
    price = np.zeros(2)
    for room, fits in (([8, 8], True), ([9, 7], False)):
        round_ = Round(np.ones((4, 2)), np.array([5, 5, 3, 3]), np.array(room), 0, price)
        alike = merged(round_, 1.0)
        assert alike is not None
        assert (alike.split(np.zeros(4, dtype=np.intp)) is not None) == fits


@given(job_instances(zeros=True, jobs=(1, 9), most_gpus=7, arrivals=True), st.integers(0, 99))
@settings(max_examples=examples(25, 250), deadline=None)
def test_the_method_and_the_whole_program_agree(instance: hetopt.Instance, seed: int) -> None:
    """Small rounds, too, by knapsacks; with deficits, so that costs have both signs, and moves."""
    draw = np.random.default_rng(seed)
    state = fft.FFT().advanced(instance, None)
    names, types = [job.name for job in instance.jobs], instance.entities("jobs").types
    rho = {name: float(value) for name, value in zip(names, draw.lognormal(1, 2, len(names)), strict=True)}
    last = {name: str(draw.choice(types)) for name in names[::2]}
    state = replace(state, rho=rho, last=last)
    general, _ = fft.FFT(options=Options(method="plain"))(instance, state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fft_method, "FEW", 0)
        plans = [fft.FFT()(instance, state)[0]]
        without_tables(patch)
        plans.append(fft.FFT()(instance, state)[0])
        patch.setattr(gang_counts, "MANY_JOBS", 0)
        plans.append(fft.FFT()(instance, state)[0])
    for plan in plans:
        own, other = plan.certificate, general.certificate
        assert own is not None
        assert other is not None
        assert plan.x.sum() == general.x.sum()
        assert own.objective == pytest.approx(other.objective, **TIGHT)
        assert own.bound >= other.objective - EQUAL * scale(other.objective)


def test_where_a_search_leaves_a_gap_the_program_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of width 1 prove nothing; and where they find no plan, the packing stands in."""
    draw = np.random.default_rng(1)
    jobs = hetopt.Instance.from_jobs(
        draw.uniform(1, 8, (60, 3)), draw.integers(1, 5, 60), draw.uniform(5, 90, 60), [9, 7, 4]
    )
    best, _ = fft.FFT(options=Options(method="plain"))(jobs)
    without_tables(monkeypatch)
    for width in ("WIDTH", "WIDEST", "STARTING_WIDTH", "STEPS"):
        monkeypatch.setattr(round_search, width, 1)
    plan, _ = fft.FFT()(jobs)
    assert best.certificate is not None
    assert plan.certificate is not None
    assert plan.certificate.objective == pytest.approx(best.certificate.objective, **TIGHT)
    monkeypatch.setattr(round_search, "LARGEST", 0)
    again, _ = fft.FFT()(jobs)
    assert again.certificate is not None
    assert again.certificate.objective == pytest.approx(best.certificate.objective, **TIGHT)


@given(job_instances(zeros=True, jobs=(1, 9), most_gpus=7, arrivals=True))
@settings(max_examples=examples(25, 250), deadline=None)
def test_a_round_without_time_has_a_plan_and_a_bound(instance: hetopt.Instance) -> None:
    """At least a packing, with jobs exchanged for cheaper ones of the same demand."""
    best, _ = fft.FFT(options=Options(method="plain"))(instance)
    with pytest.MonkeyPatch.context() as patch:
        without_tables(patch)
        plan, _ = fft.FFT(options=Options(time_limit=1 / 10**9))(instance)
    entities, own, other = instance.entities("jobs"), plan.certificate, best.certificate
    packing = entities.gpus(fft_method.packed(entities))
    assert packing.sum() <= plan.x.sum() <= best.x.sum()
    assert (plan.x.sum(axis=0) <= entities.capacity).all()
    assert set(np.unique(plan.x.sum(axis=1) / entities.demand)) <= {0.0, 1.0}
    assert own is not None
    assert other is not None
    if plan.x.sum() == best.x.sum():
        assert own.bound >= other.objective - EQUAL * scale(other.objective)
    if plan.x.sum() == packing.sum():
        program = fft.FFT().formulation(instance).compile(instance)
        assert own.objective >= program.objective((packing > 0).ravel().astype(float)) - EQUAL * scale(own.objective)


def test_a_start_on_a_type_that_a_job_cannot_use_is_ignored() -> None:
    jobs = hetopt.Instance.from_jobs([[1, 0], [1, 2]], [1, 1], [8, 8], [1, 1])
    formulation = fft.FFT().formulation(jobs)
    found = formulation.solve(jobs, start=np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert found.x.tolist() == [[1, 0], [0, 1]]


def test_types_without_gpus_do_not_enlarge_tables() -> None:
    """Arrays have at most 64 dimensions."""
    draw, gpus = np.random.default_rng(0), [4, 3] + [0] * 68
    rates, demand, work = draw.uniform(1, 8, (20, 70)), draw.integers(1, 4, 20), draw.uniform(5, 90, 20)
    plan, _ = fft.FFT()(hetopt.Instance.from_jobs(rates, demand, work, gpus))
    few, _ = fft.FFT()(hetopt.Instance.from_jobs(rates[:, :2], demand, work, gpus[:2]))
    assert plan.x.sum() == few.x.sum() == 7


def test_a_late_search_returns_a_plan_and_a_bound() -> None:
    draw = np.random.default_rng(2)
    n = 800
    jobs = hetopt.Instance.from_jobs(
        draw.uniform(1, 8, (n, 4)), draw.integers(1, 17, n), draw.lognormal(4, 2, n), [40] * 4
    )
    plan, _ = fft.FFT(options=Options(time_limit=1 / 10**4))(jobs)
    assert plan.certificate is not None
    assert plan.x.sum() == 160
    assert plan.certificate.status == "time_limit"
    assert plan.certificate.objective <= plan.certificate.bound < np.inf
