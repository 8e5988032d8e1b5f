"""FFT's claims about waits, multipliers, moves and late jobs: what is computed for them, against other computations."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from ledger_cases import cases, stored_case
from simulated import Shortest

import hetopt
from hetopt import instances, simulate
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.models import fft, systems
from hetopt.proofs.fft import (
    backlog,
    claims,
    compensation_effects,
    constant_coefficient,
    constant_rates,
    dual_method,
    fair_progress,
    late_jobs,
    other_schedulers,
    small_jobs_first,
    starvation,
    switching_cost,
    waiting_bound,
)
from hetopt.proofs.fft.round_cases import EXACT, WAITS, RoundCase, RoundJob, round_space
from hetopt.proofs.fft.round_sequences import play_rounds
from hetopt.proofs.ledger.counterexample_files import stored_names, stored_numbers
from hetopt.proofs.ledger.procedures import universal_part
from hetopt.proofs.ledger.space import integers
from hetopt.tolerances import EQUAL

F = Fraction
SECONDS = 300.0
FEW = settings(max_examples=30)
SPACES = {claim.key: part.space for claim in claims() if (part := universal_part(claim.procedure)) is not None}
STEPS = (
    backlog.long_job_stops,
    backlog.short_jobs_stop,
    compensation_effects.slower_optimum,
    constant_coefficient.cheaper_than_new,
    constant_coefficient.compensation_exceeds_age,
    constant_rates.short_makespan,
    dual_method.no_supergradient,
    fair_progress.missed_turn,
    fair_progress.part_exceeded,
    small_jobs_first.running_is_cheap,
    waiting_bound.cheaper_and_young,
    waiting_bound.compensated_late,
    waiting_bound.enough_older_jobs,
    waiting_bound.young_and_cheap,
)


# -- hypotheses and steps of proofs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", SPACES)
def test_claims_about_cases_state_hypotheses_and_decide_them_for_any_numbers(key: str) -> None:
    space, rng = SPACES[key], random.Random(3)
    assert space.hypotheses
    for sizes in (space.shapes()[0], space.shapes()[-1]):
        for numbers in space.level(sizes, space.levels(), 20, rng):
            case = space.build(numbers)
            met = case is not None and all(given_(case) for given_ in space.hypotheses)
            assert (space.case(numbers) is not None) == met


@pytest.mark.parametrize(
    ("key", "table", "entry"),
    [
        ("fft/eq-7", "gpus", F(1)),  # no gang fits
        ("fft/eq-3-shorter", "rounds", F(8)),  # the first job is longer
        ("fft/eq-2", "work", F(9)),  # incomplete
        ("fft/rho-behind", "served", F(2)),  # there is no second type
        ("fft/placement", "home", F(3)),  # there is no third server
        ("fft/mu-grows", "arrival", F(1)),  # the first job arrives late
        ("fft/units", "unit", F(0)),
    ],
)
def test_cases_that_violate_a_hypothesis_are_rejected(key: str, table: str, entry: Fraction) -> None:
    numbers = stored_numbers(stored_names(key)[0])
    assert SPACES[key].case(numbers) is not None
    assert SPACES[key].case(numbers.replaced(table, 0, 0, entry)) is None


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps_of_proofs_need_their_hypotheses(step: Any) -> None:
    """The last clause is the negated conclusion; without some other clause it can be satisfied."""
    z3 = pytest.importorskip("z3")
    clauses = step()
    answers = []
    for i in range(len(clauses) - 1):
        solver = z3.Solver()
        solver.add(*clauses[:i], *clauses[i + 1 :])
        answers.append(solver.check())
    assert z3.sat in answers


# -- waits of jobs of one GPU ----------------------------------------------------------------------------------------


def first_run(long: int, gpus: int, rounds: int) -> int | None:
    """The round in which a job of ``long`` rounds first runs, as many jobs of one round arriving per round as GPUs.

    Written out again: costs of all present jobs, the cheapest run.
    """
    jobs = [(long, 0)] + [(1, t) for t in range(rounds) for _ in range(gpus)]
    left, rho = [p for p, _ in jobs], [F(0)] * len(jobs)
    for t in range(rounds):
        there = [j for j, (_, arrival) in enumerate(jobs) if arrival <= t and left[j]]
        cost = {j: (t - jobs[j][1] - rho[j]) / jobs[j][0] + jobs[j][0] for j in there}
        running = sorted(there, key=lambda j: (cost[j], -j))[:gpus]
        if 0 in running:
            return t
        for j in there:
            fair = F(jobs[j][0] * max(len(there), gpus), gpus)
            done = F(j in running, jobs[j][0])
            rho[j] = max(F(0), rho[j] + (t - jobs[j][1]) / fair * (1 / fair - done))
        for j in running:
            left[j] -= 1
    return None


@pytest.mark.parametrize(("long", "gpus"), [(2, 1), (2, 2)])
def test_compensation_ends_the_wait_beside_a_stream_of_shorter_jobs(long: int, gpus: int) -> None:
    wait = first_run(long, gpus, 60)
    assert wait is not None
    assert wait > 10
    case = constant_coefficient.StreamCase(F(long), (F(1),) * (wait + 1), gpus, F(0))
    steps = list(play_rounds(case.run))
    assert waiting_bound.longest_wait(case.run, steps) == wait
    assert starvation.waits(case.instance)["j1"] == wait
    fair = F((gpus + 1) * long, gpus)
    assert waiting_bound.wait_bound(case.run, steps) == 12 * fair**2 >= wait
    assert waiting_bound.waits_bounded(case.run).slack == 12 * fair**2 - wait
    assert waiting_bound.wait_ratio(case.run) == wait / (12 * fair**2)


@FEW
@given(cases(waiting_bound.RUNS))
def test_waits_in_the_simulator_are_within_the_bound(case: RoundCase) -> None:
    bound = waiting_bound.wait_bound(case, list(play_rounds(case)))
    longest = max(-(-gang.work // min(gang.speed)) for gang in case.gangs)
    assert bound <= 4 * F(len(case.gangs) * longest, sum(case.gpus)) ** 2 * max(3, longest)
    assert max(starvation.waits(case.instance).values()) <= bound


def test_a_constant_coefficient_by_hand() -> None:
    """Two jobs present: tau - a is 4 rounds, so rho is t / 4, and the costs are 2 + (t - t / 4) / 2 and 1."""
    case = constant_coefficient.StreamCase(F(2), (F(1),) * 4, 1, F(1))
    assert [step.round.rho[0] for step in case.steps] == [0, F(1, 4), F(1, 2), F(3, 4)]
    assert [step.round.cost(0, 0) for step in case.steps] == [2 + F(3, 8) * t for t in range(4)]
    assert constant_coefficient.starves(case).slack == 1
    assert first_run(2, 1, 8) is None
    assert constant_coefficient.starves(replace(case, mu=F(20), short=(F(1),) * 9)).slack == -1, "a large constant"


@pytest.mark.parametrize("n", [2, 5])
def test_the_compensation_without_bound_is_the_librarys(n: int) -> None:
    run, policy, state = starvation.gangs_of_two(n), fft.FFT(options=EXACT), None
    for t in range(n + 1):
        done = {f"j{t + 1}": 1.0 for t in range(1, t + 1)}
        _, state = policy(run.instance.replace(done=done).at(SECONDS * t), state)
    assert state is not None
    assert state.rho["j1"] == pytest.approx(n * (n - 1) / 2, rel=EQUAL)
    assert starvation.compensation_of_waiting(n) == F(n * (n - 1), 2)


# -- multipliers -----------------------------------------------------------------------------------------------------


@FEW
@given(cases(round_space(n=(1, 3), ages=integers(0, 6), rho=integers(0, 6))))
def test_the_librarys_plan_minimises_the_lagrangian(case: RoundCase) -> None:
    """Over all assignments within the capacity that use as many GPUs."""
    where = case.planned()
    every = product((WAITS, *range(len(case.gpus))), repeat=len(case.gangs))
    usable = [gang.usable(case.gpus) for gang in case.gangs]
    plans = [w for w in every if all(i == WAITS or i in usable[j] for j, i in enumerate(w)) and case.within(w)]
    full = [w for w in plans if case.used(w) == max(map(case.used, plans))]
    assert dual_method.lagrangian(case, where, case.rho) == min(dual_method.lagrangian(case, w, case.rho) for w in full)
    assert dual_method.is_dual_step(case).slack == 0


def test_shortfalls_by_hand() -> None:
    """Two jobs of 2 and 4 rounds on one GPU: fair parts 1/4 and 1/8; the first one does 1/2."""
    case = RoundCase((RoundJob(1, F(2), (F(1),)), RoundJob(1, F(4), (F(1),))), (1,), rho=(F(1), F(8)))
    assert dual_method.shortfalls(case, (0, WAITS)) == [-F(1, 4), F(1, 8)]
    assert dual_method.shortfalls(replace(case, normalise=False), (0, WAITS)) == [-F(1, 2), F(1, 2)]
    assert dual_method.lagrangian(case, (0, WAITS), case.rho) == 2 - F(1, 4) + 1
    assert dual_method.lagrangian(case, (WAITS, 0), case.rho) == 4 + F(1, 4) + 8 * (F(1, 8) - F(1, 4))


@FEW
@given(cases(compensation_effects.OWING))
def test_above_the_threshold_and_not_below_it_the_policy_runs_the_job_fastest(case: RoundCase) -> None:
    least = compensation_effects.fastest_threshold(case)
    assert compensation_effects.fastest_above(case).slack == 0
    most = max(compensation_effects.pace(case, where) for where in case.fullest)
    above = compensation_effects.with_compensation(case, least + F(1, 100))
    assert compensation_effects.pace(case, above.planned()) == most
    if least:
        below = compensation_effects.with_compensation(case, least * F(99, 100))
        assert compensation_effects.pace(case, below.planned()) < most


# -- moves -----------------------------------------------------------------------------------------------------------


@FEW
@given(cases(switching_cost.CASES))
def test_the_policy_moves_a_job_as_the_formula_states(case: switching_cost.MoveCase) -> None:
    assume(abs(case.gain) != case.move)
    policy = fft.FFT(restart_seconds=SECONDS * float(case.move), options=EXACT)
    for held, other, gain in (("GPU2", "GPU1", case.gain), ("GPU1", "GPU2", -case.gain)):
        now = case.instance.replace(time=SECONDS * float(case.job.age), held={"j1": {held: int(case.job.demand)}})
        state = replace(policy.advanced(now, None), rho={"j1": float(case.job.rho)}, last={"j1": held})
        assert policy(now, state)[0].assigned["j1"] == (other if case.move < gain else held)


def test_the_move_of_fig_2_by_the_formula() -> None:
    """J4 at minute 5: 9 minutes on the A10, 14.4 on the T4."""
    pair = switching_cost.LengthPair(F(9), F("14.4"), F(1), F(5), F(0))
    case = switching_cost.MoveCase(pair, F(2))
    assert case.gain == F("5.4") * (1 - 5 / (9 * F("14.4")))
    assert case.move < case.gain
    assert switching_cost.moves_by_formula(case).slack == 0


# -- late jobs -------------------------------------------------------------------------------------------------------


@FEW
@given(cases(late_jobs.TOGETHER))
def test_completions_are_the_simulators_and_the_best_are_those_of_the_best_order(case: RoundCase) -> None:
    own = late_jobs.simulated(case)
    ends = set(late_jobs.every_run(case))
    assert own in ends
    assert late_jobs.first_ends(case) in ends
    work = [int(gang.work) for gang in case.gangs]
    totals = [sum(sum(order[: i + 1]) for i in range(len(order))) for order in permutations(work)]
    best = late_jobs.optimal(case, own)
    assert sum(best) == min(totals)
    assert max(best) == max(own) == sum(work)
    assert late_jobs.mostly_in_time(case).decided


def test_three_equal_jobs_take_turns() -> None:
    case = stored_case("fft/thm-4.1-majority")
    assert sorted(late_jobs.simulated(case)) == [5, 8, 9]
    assert sorted(late_jobs.optimal(case, late_jobs.simulated(case))) == [3, 6, 9]
    assert {late_jobs.late(case, ends) for ends in late_jobs.every_run(case)} == {2}
    assert simulate(fft.FFT(), instances.load("refuted/fft-majority")).jobs["jct"].sum() == 22 * SECONDS
    assert late_jobs.mostly_in_time(replace(case, gangs=case.gangs[:2])).slack == 0


# -- other schedulers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4])
def test_totals_with_and_without_switching_are_the_simulators(n: int) -> None:
    arrival = [SECONDS * j for j in range(n + 1)]
    instance = hetopt.Instance.from_jobs([[1]] * (n + 1), 1, [n * n] + [1] * n, [1], arrival=arrival)
    for policy, total in zip((Shortest(), systems.allox()), other_schedulers.totals(n), strict=True):
        assert simulate(policy, instance).jobs["jct"].sum() == pytest.approx(total * SECONDS, rel=EQUAL)


def test_new_jobs_and_the_first_one_by_gavels_priorities() -> None:
    assert [other_schedulers.rounds_of_first(n) for n in (1, 2, 7)] == [1, F(1, 2), F(1, 7)]
    seconds, n = GAVEL_ROUND_SECONDS, 13
    arrival = [seconds * t for t in range(n)]
    instance = hetopt.Instance.from_jobs([[1]] * n, 1, [n] + [1] * (n - 1), [1], arrival=arrival, round_seconds=seconds)
    spans = simulate(systems.gavel(), instance, max_rounds=n).spans
    first = spans.loc[spans["job"] == "j1", "start"]
    assert first.tolist() == [0.0, 6 * seconds, 12 * seconds], "hetopt's rounder restarts the count every 1920 s"
