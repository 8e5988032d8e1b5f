"""FFT's round, preferences and compensation: what claims compute of them, against the library and by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from ledger_cases import cases, stored_case
from scipy.optimize import linprog

from hetopt import instances, simulate
from hetopt.models import fft
from hetopt.proofs.fft import (
    claims,
    compensation,
    compensation_effects,
    completion_bound,
    cost_order,
    fair_progress,
    fairness_coefficient,
    gang_packing,
    small_jobs_first,
)
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, round_space
from hetopt.proofs.ledger.counterexample_files import stored_names, stored_numbers
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
SECONDS = 300.0
FEW = settings(max_examples=30)
ALL = {claim.key: claim for claim in claims()}
OWING = round_space(n=(1, 4), ages=integers(0, 9), rho=integers(0, 6))


REFUTED = [
    (key, name) for key, claim in ALL.items() if isinstance(claim.procedure, ForAll) for name in stored_names(key)
]


# -- a round ---------------------------------------------------------------------------------------------------------


@FEW
@given(cases(OWING))
def test_costs_are_those_of_the_library(case: RoundCase) -> None:
    entities = case.instance.entities("jobs")
    owed_ = dict(zip((job.name for job in case.instance.jobs), map(float, case.rho), strict=True))
    for normalise in (True, False):
        parts = (fft.AgeCost(), fft.VolumeCost(), fft.Compensation(owed_, normalise=normalise))
        gain = sum(part.coefficients(entities) for part in parts)
        exact = replace(case, normalise=normalise)
        for j, gang in enumerate(case.gangs):
            for i in gang.usable(case.gpus):
                assert -gain[j, i] == pytest.approx(float(exact.cost(j, i)), rel=EQUAL, abs=EQUAL)


@FEW
@given(cases(OWING))
def test_plans_are_counted_through(case: RoundCase) -> None:
    ways = product(range(-1, len(case.gpus)), repeat=len(case.gangs))
    every = {
        where
        for where in ways
        if all(i == WAITS or gang.speed[i] > 0 for gang, i in zip(case.gangs, where, strict=True))
        and all(
            sum(gang.demand for gang, i in zip(case.gangs, where, strict=True) if i == k) <= y
            for k, y in enumerate(case.gpus)
        )
    }
    assert set(case.packings) == every
    assert all(map(case.within, every))
    assert gang_packing.largest_packing(case) == case.most == max(map(case.used, every))
    assert case.planned() in case.optima
    best = min(case.total(where) for where in every if case.used(where) == case.most)
    assert all(case.total(where) == best for where in case.optima)


def test_a_round_by_hand() -> None:
    gangs = (RoundJob(2, F(4), (F(1), F(2)), 1), RoundJob(1, F(3), (F(1), F(0))))
    case = RoundCase(gangs, (2, 2), 4, (F(1), F(0)))
    assert case.cost(0, 0) == F(3, 4) + 8 - F(1, 4)
    assert replace(case, normalise=False).cost(0, 1) == F(3, 2) + 4 - 2
    assert case.most == 3
    assert case.optima == ((1, 0),)
    assert not case.within((0, 0))
    assert {(bar.row, bar.job) for bar in case.picture("", (1, 0)).bars} == {
        ("GPU1, no. 1", "j2"),
        ("GPU2, no. 1", "j1"),
        ("GPU2, no. 2", "j1"),
    }


# -- equation (2), preferences ---------------------------------------------------------------------------------------


def test_equation_2_by_hand() -> None:
    case = completion_bound.ServedJob(F(4), (F(0), F(3), F(3)))
    assert case.completion == 2
    assert case.done == (0, 3, 1)
    assert case.average(case.speeds) == F(9, 4) > case.completion
    assert case.average(case.done) == F(5, 4)
    assert completion_bound.truncated(case).slack == F(3, 4)
    assert completion_bound.nearness(case) == F(5, 8)
    late = completion_bound.ServedJob(F(1), (F(0), F(3)))
    assert late.average(late.speeds) > late.completion + 1, "no bound with the finishing round counted either"


def test_the_age_term_is_the_librarys() -> None:
    case = stored_case("fft/age-term")
    gain = fft.AgeCost().coefficients(case.instance.entities("jobs"))
    assert (-gain).ravel().tolist() == [0, 0.5], "the longer job costs more and goes last"


def planned(name: str, **settings: Any) -> dict[str, str | None]:
    return dict(fft.FFT(**settings)(instances.load(f"refuted/{name}"))[0].assigned)


def test_the_policy_prefers_what_the_counterexamples_say() -> None:
    assert planned("fft-longer-first") == {"j1": None, "j2": "GPU1"}
    assert planned("fft-idle-fast-gpu") == {"j1": "GPU1"}
    assert planned("fft-larger-gang") == {"j1": None, "j2": "GPU1"}
    assert planned("fft-remaining") == {"j1": None, "j2": "GPU1"}


@pytest.mark.parametrize("age", [1, 2])
def test_up_to_the_threshold_the_policy_prefers_the_shorter_job_and_the_faster_gpu(age: int) -> None:
    """Demand 1, 1 and 2 rounds: equal costs at age 2, where the earlier job goes first."""
    short = cost_order.two_lengths(stored_numbers("refuted/fft-longer-first").replaced("age", 0, 0, F(age)))
    fast = cost_order.two_types(stored_numbers("refuted/fft-idle-fast-gpu").replaced("age", 0, 0, F(age)))
    assert cost_order.shorter(short) == cost_order.faster(fast) == (F(1, 2) if age == 1 else 0)
    assert (0, WAITS) in short.optima
    assert (1,) in fast.optima
    assert short.planned() == (0, WAITS)


@FEW
@given(cases(cost_order.PAIRS))
def test_the_condition_is_exact_for_the_librarys_costs(case: cost_order.LengthPair) -> None:
    gang = RoundJob(int(case.demand), F(1), (1 / case.few, 1 / case.many))
    now = RoundCase((gang,), (gang.demand, gang.demand), int(case.age), (case.rho,))
    assert (case.cost(case.few), case.cost(case.many)) == (now.cost(0, 0), now.cost(0, 1))
    assert cost_order.exactly(case).slack == 0
    room = case.demand * case.few * case.many - (case.age - case.rho)
    assert (0,) in now.optima if room >= 0 else now.optima == ((1,),)


def test_a_half_done_job_is_stopped_in_a_run_from_the_start() -> None:
    case = stored_case("fft/eq-3-srsf")
    log = simulate(fft.FFT(), RoundCase(case.present.gangs, (1,)).instance)
    order = log.spans.sort_values("start")[["job", "start"]].to_numpy().tolist()
    assert order[:2] == [["j1", 0.0], ["j2", 300.0]]
    assert case.left == 1


def test_order_of_service_by_hand() -> None:
    """Services 2 * 3 and 1 * 4 at age 0."""
    case = RoundCase((RoundJob(2, F(3), (F(1),)), RoundJob(1, F(4), (F(1),))), (2,))
    assert (case.cost(0, 0), case.cost(1, 0)) == (6, 4)
    assert small_jobs_first.by_service(case).slack == 0
    assert (
        small_jobs_first.by_service(replace(case, gangs=(case.gangs[0], replace(case.gangs[1], arrival=-40)))).slack < 0
    )
    assert small_jobs_first.idle_plan_is_cheapest(case).slack == 4
    assert small_jobs_first.smaller_cost(replace(case, gangs=case.gangs[::-1])).slack == 2


# -- compensation ----------------------------------------------------------------------------------------------------


@FEW
@given(cases(compensation.PASTS))
def test_rho_is_the_librarys(case: compensation.JobHistory) -> None:
    policy, state = fft.FFT(), None
    for t in range(len(case.served) + 1):
        held: dict[str, dict[str, int]] = {job.name: {} for job in case.instance.jobs}
        if t and case.served[t - 1] != WAITS:
            held["j1"] = {f"GPU{case.served[t - 1] + 1}": case.gang.demand}
        now = case.instance.replace(time=SECONDS * t, held=held if t else {})
        state = policy.advanced(now, state)
        assert state.rho["j1"] == pytest.approx(float(case.rho[t]), rel=EQUAL, abs=PROVEN)
        assert state.tau["j1"] / SECONDS == pytest.approx(float(case.fair), rel=EQUAL)


def test_compensation_by_hand() -> None:
    """A slow round after one of waiting: (0 + 1/1 * (1 - 1/2)); a fast one: 0."""
    slow, fast = (compensation.JobHistory(RoundJob(1, F(4), (F(2), F(4))), (1, 1), 1, (WAITS, i)) for i in (0, 1))
    assert slow.rho == (0, 0, F(1, 2))
    assert fast.rho == (0, 0, 0)
    assert compensation.falls_while_running(slow).slack == -F(1, 2)
    assert compensation.falls_while_served(slow).slack == 1, "no round with the fair part"
    assert compensation.falls_while_served(fast).slack == 0
    starved = compensation.JobHistory(RoundJob(1, F(4), (F(4),)), (1,), 2, (WAITS, WAITS, WAITS, 0))
    assert starved.rho == (0, 0, F(1, 4), F(3, 4), F(3, 4) + F(3, 2) * (F(1, 2) - 1))
    assert compensation.grows_while_starved(starved).slack == F(1, 4)
    assert compensation.never_negative(starved).slack == 0
    assert compensation.falls_while_served(starved).slack == F(3, 4)


@FEW
@given(cases(fairness_coefficient.ARRIVALS))
def test_mu_is_the_librarys(case: fairness_coefficient.ArrivalCase) -> None:
    for t in range(case.rounds):
        state = fft.FFT().advanced(case.instance.at(SECONDS * t), None)
        assert SECONDS * t / state.tau["j1"] == pytest.approx(float(case.mu(t)), rel=EQUAL)


def test_mu_by_hand() -> None:
    """Mu of a job of 4 rounds is 1/4 and 1/2 alone, and 3/8 when there are two."""
    case = fairness_coefficient.ArrivalCase(4, 1, (0, 3))
    assert [case.mu(t) for t in range(4)] == [0, F(1, 4), F(1, 2), F(3, 8)]
    assert fairness_coefficient.mu_grows(case).slack == -F(1, 8)
    assert fairness_coefficient.mu_grows(case, undisturbed=True).slack == F(1, 4)


def highest_level(pace: np.ndarray, rows: list[np.ndarray], right: list[float], fair: list[float]) -> float:
    """The largest level, by scipy, for which job j makes the progress level / fair[j] with time x: pace[j].x."""
    columns = pace.shape[1]
    table = [np.append(row, 0) for row in rows] + [np.append(-row, 1 / f) for row, f in zip(pace, fair, strict=True)]
    found = linprog([0] * columns + [-1], np.array(table), [*right, *[0] * len(fair)])
    return float(-found.fun)


@FEW
@given(cases(round_space(n=(1, 4))))
def test_levels_of_fair_progress_are_scipys(case: RoundCase) -> None:
    """On average, by times of jobs on types; in turns, by times of all assignments that fit."""
    n, k = len(case.gangs), len(case.gpus)
    fair = tuple(fair_progress.on_fastest(case, gang) for gang in case.gangs)
    tau = [float(v) for v in fair]
    assert tau == pytest.approx([v / SECONDS for v in fft.FFT()(case.instance)[1].tau.values()], rel=EQUAL)
    speed = np.array([[float(v) if i in g.usable(case.gpus) else 0 for i, v in enumerate(g.speed)] for g in case.gangs])
    rate = speed / np.array([[float(gang.work)] for gang in case.gangs])
    demand = np.array([gang.demand for gang in case.gangs])
    rows = [np.kron(np.eye(n)[j], np.ones(k)) for j in range(n)] + [np.kron(demand, np.eye(k)[i]) for i in range(k)]
    pace = np.array([np.kron(np.eye(n)[j], rate[j]) for j in range(n)])
    average = highest_level(pace, rows, [1.0] * n + list(map(float, case.gpus)), tau)
    assert float(fair_progress.on_average(case, fair).value) == pytest.approx(average, rel=EQUAL)
    every = [np.array(where) for where in product(range(k + 1), repeat=n)]  # k: the job waits
    fits = [where for where in every if all(demand[where == i].sum() <= case.gpus[i] for i in range(k))]
    pace = np.array([[0.0 if where[j] == k else rate[j, where[j]] for where in fits] for j in range(n)])
    turns = highest_level(pace, [np.ones(len(fits))], [1.0], tau)
    assert 1 + float(fair_progress.reachable_by_library(case).slack) == pytest.approx(turns, rel=EQUAL)
    assert turns <= average * (1 + EQUAL)


def test_two_gangs_that_do_not_fit_at_once() -> None:
    """3 GPUs, two gangs of 2, one round each: tau - a is 4/3, so each should run for 3/4 of the time."""
    case = RoundCase((RoundJob(2, F(1), (F(1),)),) * 2, (3,))
    fair = (F(4, 3),) * 2
    assert tuple(fair_progress.on_own_part(case, gang) for gang in case.gangs) == fair
    assert fair_progress.on_average(case, fair).value == 1
    assert fair_progress.reachable_as_printed(case).slack == F(1, 2) * F(4, 3) - 1
    assert fair_progress.reachable_by_library(case).slack == F(1, 2) * F(4, 3) - 1


def test_fair_shares_by_hand() -> None:
    """Table 1: half of each type, without preemption, is half of the time on GPU0."""
    case = RoundCase((RoundJob(1, F(16), (F(8), F(1))),) * 2, (1, 1))
    assert [fair_progress.on_own_part(case, gang) for gang in case.gangs] == [4, 4]
    assert [fair_progress.on_fastest(case, gang) for gang in case.gangs] == [2, 2]
    assert fair_progress.reachable_by_library(case).slack == F(9, 16) - 1
    assert fair_progress.reachable_as_printed(case).slack == F(9, 8) - 1


@FEW
@given(cases(compensation_effects.PACKED))
def test_above_the_threshold_and_not_below_it_the_policy_runs_the_job(case: RoundCase) -> None:
    least = compensation_effects.threshold(case)
    assert compensation_effects.with_compensation(case, least + F(1, 100)).planned()[0] != WAITS
    if least:
        assert compensation_effects.with_compensation(case, least * F(99, 100)).planned()[0] == WAITS


def test_a_job_that_no_fullest_plan_has_waits_at_any_rho() -> None:
    instance = instances.load("refuted/fft-never-packed")
    state = replace(fft.FFT().advanced(instance, None), rho={"j1": 1e12, "j2": 0.0})
    assert fft.FFT()(instance, state)[0].assigned == {"j1": None, "j2": "GPU1"}


def test_chances_by_hand() -> None:
    """Costs 1 and 2: the longer job runs once its rho / 2 exceeds 1; then its pace grows from 0 to 1/2."""
    case = RoundCase((RoundJob(1, F(2), (F(1),)), RoundJob(1, F(1), (F(1),))), (1,), rho=(F(1), F(0)))
    assert compensation_effects.threshold(case) == 2
    assert compensation_effects.grows(case).slack == 0
    assert compensation_effects.grows(replace(case, rho=(F(3, 2), F(0)))).slack == 0
    assert [
        compensation_effects.pace(case, where) for where in compensation_effects.with_compensation(case, F(5)).optima
    ] == [F(1, 2)]
