"""Hadar's claims about rounds, costs and estimates: checkers against the library, plain search and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations
from math import ceil
from random import Random
from typing import Any

import numpy as np
import pytest
from hadar_oracles import in_one_slot, problem_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ledger_cases import cases, stored_case

from hetopt.models import hadar, hadare
from hetopt.models.hadare.initial_throughput import GPUSpec
from hetopt.proofs.hadar import (
    admission_prices,
    batch_rounds,
    claims,
    completion_time,
    copy_utilisation,
    cost_by_round,
    initial_estimate,
    price_slopes,
    problem_equivalence,
    round_wise,
    training_steps,
)
from hetopt.proofs.hadar.admission_prices import PROVABLE
from hetopt.proofs.hadar.algorithm_2 import TakeOrSkip
from hetopt.proofs.hadar.copy_cases import CopyCase, alike, between, copy_space, longer, nodes_run, within_nodes
from hetopt.proofs.hadar.copy_ids import CopyIds, bounded, counts_jobs, different
from hetopt.proofs.hadar.cost_relation import small_gangs
from hetopt.proofs.hadar.exact_prices import ONE, PriceFunction, printed_prices, proven_prices, runs
from hetopt.proofs.hadar.heterogeneity_table import fits_on_one_type
from hetopt.proofs.hadar.price_slopes import PriceRise
from hetopt.proofs.hadar.problem_equivalence import PricedCase
from hetopt.proofs.hadar.round_wise import RoundPlanner, long_jobs, short_jobs
from hetopt.proofs.hadar.slot_cases import (
    SlotCase,
    SlotJob,
    arrive_in_time,
    gangs_fit,
    jobs_work,
    positive,
    servers_have_gpus,
    slot_space,
)
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, integers, rationals
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=40, deadline=None)
UNIVERSAL = [one for one in claims() if isinstance(one.procedure, ForAll)]


def job(worth: int = 1, work: int = 1, arrival: int = 0, gpus: int = 1, speed: tuple[int, ...] = (1,)) -> SlotJob:
    """A job of constant utility."""
    return SlotJob(gpus, F(work), tuple(map(F, speed)), arrival, F(worth), fading=False)


def on_one_server(*jobs: SlotJob, gpus: int = 1, slots: int = 1) -> SlotCase:
    """These jobs and one server of one type."""
    return SlotCase(jobs, ((gpus,),), slots)


# -- hypotheses ------------------------------------------------------------------------------------------------------

FINE = on_one_server(job(), gpus=2, slots=2)
NODES = CopyCase((F(1), F(1), F(1)), (F(2),), 2)


@pytest.mark.parametrize(
    ("given_", "case", "other"),
    [
        (jobs_work, FINE, on_one_server(job(work=0))),
        (gangs_fit, FINE, on_one_server(job(gpus=2))),
        (gangs_fit, FINE, on_one_server(job(speed=(0,)))),
        (arrive_in_time, FINE, on_one_server(job(arrival=1))),
        (servers_have_gpus, FINE, SlotCase((job(),), ((1,), (0,)), 1)),
        (positive, FINE, on_one_server(job(worth=0))),
        (PROVABLE[0], FINE, on_one_server(job())),
        (PROVABLE[1], FINE, on_one_server(job(work=2), gpus=2)),
        (PROVABLE[1], FINE, on_one_server(job(worth=0), gpus=2)),
        (small_gangs, FINE, on_one_server(job())),
        (admission_prices.accepts_a_job, FINE, on_one_server(job(work=2))),
        (round_wise.one_round, FINE, on_one_server(job(work=2), gpus=2, slots=2)),
        (fits_on_one_type, FINE, SlotCase((job(gpus=2, speed=(1, 1)),), ((1, 1),), 1)),
        (nodes_run, NODES, replace(NODES, speed=(F(0),))),
        (longer, NODES, replace(NODES, work=(F(1),))),
        (alike, NODES, replace(NODES, speed=(F(1), F(2)))),
        (between, NODES, replace(NODES, copies=3)),
        (within_nodes, NODES, replace(NODES, copies=4)),
        (batch_rounds.fewer_jobs, NODES, replace(NODES, work=(F(2),) * 3)),
        (batch_rounds.fewer_copies, NODES, replace(NODES, work=(F(2),) * 2)),
        (different, CopyIds(2, (0, 1), 2), CopyIds(2, (1, 1), 2)),
        (counts_jobs, CopyIds(2, (0, 1), 2), CopyIds(1, (0, 1), 2)),
        (bounded, CopyIds(2, (0, 1), 2), CopyIds(2, (0, 2), 2)),
        (price_slopes.rises, PriceRise(F(2), 1, 0, 1), PriceRise(F(1), 1, 0, 1)),
        (price_slopes.step_fits, PriceRise(F(2), 2, 1, 1), PriceRise(F(2), 2, 1, 2)),
    ],
    ids=lambda value: value.text if isinstance(value, Hypothesis) else "",
)
def test_hypotheses_decide_cases(given_: Hypothesis[Any], case: Any, other: Any) -> None:
    assert given_(case)
    assert not given_(other)


@pytest.mark.parametrize("one", UNIVERSAL, ids=lambda one: one.key)
def test_every_restriction_has_a_name(one: Any) -> None:
    """Any numbers describe a case; hypotheses alone leave cases out."""
    space, rng = one.procedure.space, Random(0)
    assert one.hypotheses
    for sizes in space.shapes()[:3]:
        assert all(space.build(numbers) is not None for numbers in space.level(sizes, 2, 10, rng))


# -- Algorithm 1, round by round -------------------------------------------------------------------------------------

MANY = {
    "demand": integers(1, 2),
    "gpus": integers(1, 3),
    "work": integers(1, 3),
    "arrival": integers(0, 1),
    "slots": integers(1, 3),
}


@FEW
@given(cases(slot_space(positive, n=(1, 3), values={"demand": integers(1, 2), "speed": integers(0, 2)})))
def test_one_round_in_order_is_the_commitment(case: SlotCase) -> None:
    prices = printed_prices(case)
    there = {run.utility for run in runs(case, prices)}
    assert {run.utility for run in RoundPlanner(case, prices, in_order=True).runs()} == there


@FEW
@given(cases(slot_space(positive, n=(1, 4), k=(1, 1), values={"gpus": integers(1, 3), "demand": integers(1, 2)})))
def test_one_round_by_payoffs_is_the_recursion(case: SlotCase) -> None:
    planner = RoundPlanner(case, printed_prices(case), in_order=False)
    best, _ = TakeOrSkip.of(case).best_allocation(0, TakeOrSkip.of(case).idle, cheapest=True)
    left = tuple(one.work for one in case.jobs)
    totals = {sum((gang.payoff for gang in plan), ONE) - 1 for plan in planner.plans(0, left)}
    assert totals == {best}


@FEW
@given(cases(slot_space(positive, n=(1, 4), h=(1, 1), k=(1, 1), values=MANY)), st.booleans(), st.booleans())
def test_runs_on_one_cell_by_plain_search(case: SlotCase, in_order: bool, whole: bool) -> None:
    """Plans of every round by trying all sets of jobs, in floats."""
    prices, capacity = printed_prices(case), case.cells[0][2]
    price = [float(prices.price(0, used)) for used in range(capacity + 1)]

    def payoffs(t: int, left: tuple[Fraction, ...], chosen: tuple[int, ...]) -> list[float]:
        used, found = 0, []
        for j in chosen:
            one, rounds = case.jobs[j], ceil(left[j] / case.jobs[j].speed[0])
            if used + one.gpus > capacity or t + rounds > case.slots:
                return [-1.0]
            found.append(float(one.worth) - (rounds if whole else 1) * one.gpus * price[used])
            used += one.gpus
        return found

    def alternatives(t: int, left: tuple[Fraction, ...]) -> list[tuple[int, ...]]:
        queue = [j for j in case.order if case.jobs[j].arrival <= t and left[j]]
        if in_order:
            taken: tuple[int, ...] = ()
            for j in queue:
                pays = payoffs(t, left, (*taken, j))[-1]
                assume(abs(pays) > EQUAL)
                taken += (j,) if pays > 0 else ()
            return [taken]
        every = [s for n in range(len(queue) + 1) for s in combinations(queue, n)]
        found = {s: payoffs(t, left, s) for s in every}
        allowed = [(sum(pays), s) for s, pays in found.items() if all(p > EQUAL for p in pays)]
        most = max(total for total, _ in allowed)
        return [s for total, s in allowed if total >= most - EQUAL]

    def search(t: int, left: tuple[Fraction, ...], total: Fraction) -> set[Fraction]:
        if t == case.slots:
            return {total}
        found = set[Fraction]()
        for chosen in alternatives(t, left):
            after = tuple(max(F(0), w - (j in chosen) * case.jobs[j].speed[0]) for j, w in enumerate(left))
            gained = sum((case.jobs[j].worth for j in chosen if not after[j]), F(0))
            found |= search(t + 1, after, total + gained)
        return found

    here = {run.utility for run in RoundPlanner(case, prices, in_order, whole=whole).runs()}
    assert here == search(0, tuple(one.work for one in case.jobs), F(0))


def test_a_long_job_keeps_the_gpu() -> None:
    """It pays 3/4 of its utility of 21 in no round, and the short jobs, worth 20 each, find the price 21."""
    case = stored_case("hadar/thm-2-rounds")
    prices = printed_prices(case)
    assert (prices.low, prices.high) == ((F(3, 4),), (F(21),))
    for in_order in (True, False):
        (run,) = RoundPlanner(case, prices, in_order).runs()
        assert run.completed == (21, *(0,) * 7)
    assert case.best[0] == 140
    assert round_wise.as_printed(replace(case, jobs=(job(21, 7), *[job(19)] * 7))).slack > 0


def test_newer_jobs_preempt_by_payoffs_only() -> None:
    """Each of five jobs of two slots pays more than the one before, and comes when that one is half done."""
    case = on_one_server(*(job(60 + i, 2, i) for i in range(5)), slots=6)
    utility = [RoundPlanner(case, printed_prices(case), in_order).runs()[0].utility for in_order in (True, False)]
    assert utility == [60 + 61 + 62, 64]
    assert case.best[0] == 60 + 62 + 64


def test_families_of_jobs_by_hand() -> None:
    for n in (2, 3):
        case, prices = long_jobs(n), round_wise.long_jobs_prices(n)
        assert prices == proven_prices(case)
        assert case.best[0] == n * n
        for in_order in (True, False):
            assert {run.utility for run in RoundPlanner(case, prices, in_order).runs()} == {2 * (n - 1)}
    assert round_wise.short_jobs_prices(2) == proven_prices(short_jobs(2))
    assert round_wise.short_jobs_ratio(2) == 2
    exceeded = 1 + 24 * ((4 * 24**2) ** (1 / 23) - 1)
    assert float(round_wise.long_jobs_ratio(24)) > exceeded
    assert round_wise.short_jobs_ratio(8) > 2 * 8 + 4


def test_the_corrected_factor_of_rounds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Utilities 1, 4 and 4 on 2 GPUs in one slot, as in `hadar/thm-2-sharper`: ALG is 1, alpha' 30."""
    case = in_one_slot((F(1), F(4), F(4)), 2)
    assert round_wise.in_one_round(case).slack == min(31 - 8, 1)
    assert round_wise.used_factor(case) == F(258, 1000)
    with monkeypatch.context() as changed:
        changed.setattr(round_wise, "step_factor", lambda _: ONE)
        assert round_wise.in_one_round(case).slack == 2 - 8
    (run,) = round_wise.one_round_runs(case)
    with monkeypatch.context() as changed:
        changed.setattr(round_wise, "one_round_runs", lambda _: [replace(run, free=-1)])
        assert round_wise.in_one_round(case).slack == -1


# -- costs and gangs -------------------------------------------------------------------------------------------------


@FEW
@given(cases(problem_equivalence.priced_space(n=(1, 1), t=(1, 3))))
def test_least_costs_are_those_of_the_library(case: PricedCase) -> None:
    found = hadar.best_schedule(problem_of(case.case), 0, np.array(case.prices, dtype=float))
    costs = [cost_by_round.cost_of(case, one) for one in case.case.schedules[0]]
    assert (found is None) == (not costs)
    if found is not None:
        worth = {one.value for one in case.case.schedules[0]}
        assume(len(worth) == 1)
        assert found.payoff == pytest.approx(float(worth.pop() - min(costs)), abs=EQUAL)


def test_costs_by_hand() -> None:
    """Work 4 on a slow and a fast GPU in two slots: twice the fast one, 3 + 3; the slow one at 1 does not suffice."""
    two = SlotCase((job(work=4, speed=(1, 2)),), ((1, 1),), 2)
    case = PricedCase(two, ((F(1), F(3)),) * 2)
    assert cost_by_round.cheapest_gangs(case) == [1, 1]
    assert cost_by_round.by_round(case).slack == -1
    alone = PricedCase(replace(two, jobs=(job(work=2, speed=(1, 2)),)), ((F(2), F(3)),) * 2)
    assert cost_by_round.by_round(alone).slack == -1  # 2 + 2 in both slots, or 3 in one; in the first alone only the 3
    equal = PricedCase(replace(two, jobs=(job(work=2, speed=(1, 1)),)), ((F(2), F(3)), (F(5), F(1))))
    assert cost_by_round.cheapest_rounds(equal).slack == 0
    assert cost_by_round.equally_fast(equal)
    assert not cost_by_round.equally_fast(alone)
    assert cost_by_round.cheapest_rounds(PricedCase(two, ((F(1), F(3)),) * 2)).slack == -4


def test_sorted_gangs_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs of three at prices 3, 1 and 2; only the first and the last are fast."""
    case = PricedCase(SlotCase((job(gpus=2, speed=(2, 1, 2)),), ((1, 1, 1),), 1), ((F(3), F(1), F(2)),))
    assert list(cost_by_round.by_sorting(case)) == [(1, 3), (2, 5)]
    assert cost_by_round.sorted_gangs(case).slack == 0
    monkeypatch.setattr(cost_by_round, "by_sorting", lambda _: [(F(1), F(5)), (F(2), None)])
    assert cost_by_round.sorted_gangs(case).slack == -2


def test_payoffs_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job worth 3 pays 1 for its GPU: 2 is the least that (3a) allows, and 0 at a price of 4."""
    case = PricedCase(on_one_server(job(3)), ((F(1),),))
    assert problem_equivalence.least_payoffs(case).explanation == "the payoffs sum up to 2, and to 2 at least"
    dear = PricedCase(case.case, ((F(4),),))
    assert problem_equivalence.least_payoffs(dear).explanation == "the payoffs sum up to 0, and to 0 at least"
    monkeypatch.setattr(problem_equivalence, "max", lambda values: sum(values) + 1, raising=False)
    assert problem_equivalence.least_payoffs(case).slack == -1


@dataclass(frozen=True)
class Reserved(PriceRise):
    """Prices that reach U_max before the cell is full."""

    @cached_property
    def prices(self) -> PriceFunction:
        return PriceFunction((F(1),), (self.ratio,), (self.gpus,), F(1, 2))


def test_prices_by_hand() -> None:
    assert price_slopes.multiplied_by_each(PriceRise(F(8), 3, 0, 1)).explanation == "from 1 to 8 in 3 steps"
    assert price_slopes.multiplied_by_each(Reserved(F(8), 3, 0, 1)).slack == -1


def test_the_start_by_slots() -> None:
    """Equation (9) is T / 4 times the utility for one job on one GPU: 3/4 in three slots, more than OPT / 2."""
    case = stored_case("hadar/initial-dual")
    assert case.slots == 3
    assert admission_prices.initial_by_slots(case).slack == 0
    assert admission_prices.initial_dual(case, printed_prices(case)).slack == -F(1, 4)
    assert admission_prices.initial_by_slots(replace(case, slots=2)).slack == 0


def test_decisions_that_are_not_optimal() -> None:
    """FIND_ALLOC gives j1 the only GPU of j2, in the library too: one job runs, and two could."""
    case = stored_case("hadar/optimal-decisions")
    assert case.best[0] == 2
    policy = hadar.Hadar(selection="exact", order="arrival", pays="round", fill=False)
    plan, _ = policy(case.instance)
    assert plan.placement is not None
    assert len(plan.placement.hosts) == 1
    recursion = TakeOrSkip.of(case)
    assert recursion.by_payoff(0, recursion.idle, skip_unplaced=True)[0] == F(7, 8)


# -- times and steps -------------------------------------------------------------------------------------------------


def test_completion_times_by_hand() -> None:
    """Work 3 in slots 1 and 2 of speed 2, arriving in slot 1: one and a half slots, f_j - a_j is 1."""
    case = on_one_server(job(work=3, arrival=1, speed=(2,)), slots=3)
    ((j, _, printed, exact),) = completion_time.times(case)
    assert (j, printed, exact) == (0, 1, F(3, 2))
    assert completion_time.defined(case).slack == 1
    assert completion_time.in_whole_slots(case).slack == 0
    assert completion_time.defined(on_one_server(job(work=2))).explanation == "no job can complete"
    assert len(completion_time.half_of_the_slots(3).schedules[0]) == 20


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_the_tracker_counts_mini_batches(phi: int, batch: int, epochs: int) -> None:
    """A job of phi E steps is complete after E passes if a node does phi steps in one."""
    tracker = hadare.JobTracker(max_jobs=1)
    (copy,) = tracker.register("job", 0, phi * epochs, 1)
    passes = 0
    while tracker.left("job"):
        tracker.dispatch("job", {copy: 1.0})
        tracker.report(copy, phi)
        tracker.close_round()
        passes += 1
    trained = training_steps.TrainingJob(phi * batch, batch, epochs)
    assert passes == trained.passes(1) == epochs
    assert trained.passes(phi) == phi * epochs


# -- equation (10) ---------------------------------------------------------------------------------------------------

TERM = st.fractions(F(1, 9), 9, max_denominator=9)


@given(st.tuples(TERM, TERM, TERM), st.tuples(TERM, TERM, TERM))
def test_estimates_are_those_of_the_library(node: Any, model: Any) -> None:
    tflops, memory, pcie = node
    batch, weight, dataset = map(float, model)
    for root_of in ("ratio", "memory"):
        estimate = hadare.Estimate(root_of, pcie_scaling={3: float(pcie)})  # type: ignore[arg-type]
        there = estimate.throughput(
            GPUSpec(float(tflops), float(memory) * 1e9, 3), batch_size=batch, model_weight=weight, dataset_size=dataset
        )
        here = initial_estimate.squared(
            initial_estimate.EstimatedNode(*node),
            initial_estimate.EstimatedModel(*model),
            root_of_memory=root_of == "memory",
        )
        assert there**2 == pytest.approx(float(here), rel=EQUAL)


def test_speedups_that_differ_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = initial_estimate.EstimatedNode(F(1), F(1), F(1)), initial_estimate.EstimatedNode(F(2), F(1), F(1))
    models = (initial_estimate.EstimatedModel(F(1), F(1), F(1)), initial_estimate.EstimatedModel(F(1), F(2), F(1)))
    case = initial_estimate.TwoByTwo(nodes, models)
    assert initial_estimate.same_speedup(case).slack == 0
    monkeypatch.setattr(
        initial_estimate, "squared", lambda node, model, *, root_of_memory: node.tflops**model.weight + root_of_memory
    )
    assert initial_estimate.same_speedup(case).slack == -2
    assert initial_estimate.as_described(case).slack < 0


# -- copies of several jobs ------------------------------------------------------------------------------------------


@FEW
@given(cases(copy_space(alike, n=(1, 3), m=(1, 2), works=rationals(1, 5, 2), copies=integers(1, 3))))
def test_fewest_rounds_node_by_node(case: CopyCase) -> None:
    """By plain search over what each node does next, its last round being as long as it needs."""

    @cache
    def rounds(left: tuple[Fraction, ...]) -> int:
        unfinished = [j for j, w in enumerate(left) if w]
        if not unfinished:
            return 0
        found = []
        for choice in np.ndindex(*[len(unfinished)] * case.n):
            if all(choice.count(k) <= case.copies for k in choice):
                after = list(left)
                for i, k in enumerate(choice):
                    after[unfinished[k]] = max(F(0), after[unfinished[k]] - case.speed[i])
                found.append(tuple(after))
        idle = max(0, case.n - case.copies * len(unfinished))
        if idle:  # every job on all nodes that it may have
            found = [tuple(max(F(0), w - case.copies * case.speed[0]) for w in left)]
        return 1 + min(rounds(after) for after in found)

    work = batch_rounds.in_rounds(case)
    assert batch_rounds.fewest_rounds(case.n, work, case.copies) == rounds(case.work)
    assert batch_rounds.by_formula(case.n, work, case.copies) == rounds(case.work)


def test_one_job_alone_is_the_case_of_one_job() -> None:
    for n, x, work in ((3, 2, F(7, 2)), (4, 3, F(5)), (2, 1, F(3, 2))):
        case = CopyCase((F(2),) * n, (2 * work,), x)
        assert batch_rounds.utilisation(n, (work,), x) == case.utilisation(range(x))
        assert batch_rounds.fewest_rounds(n, (work,), x) == len(case.run(range(x), 2 * work))


def test_the_induction_by_hand() -> None:
    """Jobs of 2, 5 and 3 rounds on four nodes; and the step from one job of 3 rounds to two on three nodes."""
    case = stored_case("hadar/thm-3-induction")
    rounds = [batch_rounds.fewest_rounds(4, case.work[:k], x) for k in (2, 3) for x in (1, 2, 4)]
    assert rounds == [5, 3, 2, 5, 3, 3]
    three = (F(3), F(3))
    assert batch_rounds.increases(3, three[:1], 2)
    assert [batch_rounds.utilisation(3, three, x) for x in (1, 2, 3)] == [F(2, 3), 1, 1]
    bars = batch_rounds.batch_picture(case, 2).bars
    assert sum((bar.end - bar.start for bar in bars), F(0)) == 10
    assert max(bar.end for bar in bars) == 3
    together = Counter((bar.start, bar.job) for bar in bars)
    assert max(together.values()) == 2
    assert len({(bar.start, bar.row) for bar in bars}) == len(bars)


def test_remaining_rounds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CopyCase((F(1), F(1), F(1)), (F(4),), 2)
    assert batch_rounds.round_counts(case) == (2, 2, 3)
    assert batch_rounds.remaining_count_within(case).slack == F(1, 2)
    assert batch_rounds.remaining_share(case).slack == -F(1, 3)
    assert batch_rounds.remaining_share_within(case).slack == 0
    assert batch_rounds.remaining_share_within(replace(case, work=(F(3),))).slack == F(2, 3) - F(1, 2)
    assert batch_rounds.unforked(CopyCase((F(1), F(2), F(1)), (F(2), F(3)))) == [(2, F(2, 3)), (2, F(1, 2))]
    assert batch_rounds.one_node_per_job(CopyCase((F(1), F(2), F(1)), (F(2), F(3)))).slack == 0
    with monkeypatch.context() as changed:
        changed.setattr(batch_rounds, "round_counts", lambda _: (2, 4, 3))
        assert batch_rounds.remaining_count_within(case).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(batch_rounds, "by_formula", lambda *_: 9)
        assert batch_rounds.as_by_formula(case).slack == -7
    with monkeypatch.context() as changed:
        changed.setattr(batch_rounds, "unforked", lambda _: [(2, F(1, 3)), (2, F(2, 3))])
        assert batch_rounds.one_node_per_job(case).slack == -1


# -- parts of proofs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        admission_prices.least_start,
        round_wise.one_more,
        copy_utilisation.fewer_with_one_more,
        batch_rounds.too_many_in_a_round,
        batch_rounds.more_than_the_ceiling,
    ],
    ids=lambda build: build.__name__,
)
def test_every_hypothesis_of_a_part_is_needed(build: Callable[[], list[Any]]) -> None:
    """All together cannot be met, and without any one of them they can."""
    z3 = pytest.importorskip("z3")
    every = build()
    assert z3.Solver().check(*every) == z3.unsat
    for left_out in range(len(every)):
        assert z3.Solver().check(*every[:left_out], *every[left_out + 1 :]) == z3.sat, every[left_out]


def test_parts_for_sympy_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    sympy = pytest.importorskip("sympy")
    with monkeypatch.context() as changed:
        changed.setattr(sympy, "sqrt", lambda x: x)
        assert initial_estimate.elasticities().startswith("the exponents are")
    with monkeypatch.context() as changed:
        changed.setattr(sympy, "simplify", lambda x: 2 * x)
        assert initial_estimate.equal_speedups() == "the quotient is 2"
        assert training_steps.passes_over_the_data()
    with monkeypatch.context() as changed:
        changed.setattr(sympy, "log", lambda x: x)
        assert price_slopes.exponential()
