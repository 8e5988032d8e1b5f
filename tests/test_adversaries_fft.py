"""Adversaries of FFT: they find the known counterexamples and planted errors, and no fault in true claims."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from adversary_cases import some_cases
from ledger_cases import stored_case

from hetopt.proofs.adversaries import fft as adversaries
from hetopt.proofs.adversaries import fft_policy as policy
from hetopt.proofs.adversaries.fft import ADVERSARIES
from hetopt.proofs.adversaries.fft_rounds import (
    WAITS,
    Gang,
    Plan,
    Round,
    Run,
    fair_time,
    one_run,
    part_time,
    plain_cost,
)
from hetopt.proofs.fft.constant_coefficient import StreamCase
from hetopt.proofs.fft.cost_order import LengthPair
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob
from hetopt.proofs.fft.starvation import gangs_of_two
from hetopt.proofs.fft.table_1_schedules import TwoJobSchedule

pytest.importorskip("z3")

F = Fraction
ONE = (F(1),)


def test_work_as_printed_depends_on_its_unit() -> None:
    assert adversaries.same_in_units(stored_case("fft/units"), fractions=False) < 0


def round_of(*jobs: tuple[int, int, int], gpus: int = 1, time: int = 0, rho: tuple[F, ...] = ()) -> RoundCase:
    """Jobs of (demand, work, arrival) on GPUs of one type."""
    return RoundCase(tuple(RoundJob(d, F(w), ONE, a) for d, w, a in jobs), (gpus,), time, rho)


@pytest.mark.parametrize(
    ("key", "case"),
    [
        ("fft/eq-3-order", LengthPair(F(4), F(2), F(1), F(0), F(0))),  # p > q
        ("fft/eq-3-fewer-cost", round_of((2, 1, 0), (1, 1, 0), gpus=3)),  # the first gang is larger
        ("fft/eq-3-nobody", round_of((1, 1, 0), rho=(F(9),))),
        ("fft/mu-grows-constant", SimpleNamespace(rounds=5, gpus=1, arrivals=(0, F(3, 2)))),  # between rounds
        ("fft/mu-constant", StreamCase(F(2), ONE * 6, 1, F(9))),  # mu above the rounds of the job
        ("fft/mu-constant", StreamCase(F(1), (F(2),) * 3, 1, F(0))),  # new jobs are longer
        ("fft/thm-4.2-one-gpu-jobs", gangs_of_two(20)),
        ("fft/table-1-gavel", SimpleNamespace(time=((F(1), F(1)), (F(1), F(1))))),
        ("fft/table-1-gavel", SimpleNamespace(time=((F(1), F(0)), (F(1, 2), F(1, 2))))),
    ],
)
def test_cases_that_violate_a_hypothesis_are_found(key: str, case: Any) -> None:
    assert ADVERSARIES[key].slack(case) < 0


def no_maximum(rho: F, mu: F, fair: F, done: F) -> F:
    return rho + mu * (fair - done)


def reversed_step(rho: F, mu: F, fair: F, done: F) -> F:
    return max(F(0), rho + mu * (done - fair))


def rewarded(step: Round, plan: Plan) -> F:
    paces = ((step.owed[j] + 1) * step.pace(j, plan) for j in range(len(plan)))
    return plain_cost(step, plan) + sum(paces, F(0))


PLANTED: list[tuple[str, Any, str, Any]] = [
    ("eq-5-nonnegative", adversaries, "owed_next", no_maximum),
    ("fig-5-starved", adversaries, "owed_next", reversed_step),
    ("fig-5-served", adversaries, "owed_next", reversed_step),
    ("dual-method", adversaries, "owed_next", reversed_step),
    ("dual-method", Round, "cost", rewarded),
    ("fig-5-chances", Round, "cost", rewarded),
    ("rho-large-packed", Round, "cost", rewarded),
    ("rho-large-fastest", Round, "cost", rewarded),
    ("eq-6-move", adversaries, "costs_of_pair", lambda job, work: (job.few, job.many * work)),
    ("tau-average", adversaries, "part_time", lambda *parts: part_time(*parts) / 2),
    ("packing-partition", adversaries, "most_in_use", lambda numbers, gpus: gpus[0] - len(numbers) % 2),
]


@pytest.mark.parametrize(("key", "owner", "name", "wrong"), PLANTED)
def test_planted_errors_are_found(key: str, owner: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert min(ADVERSARIES[f"fft/{key}"].slack(case) for case in some_cases(f"fft/{key}", 60)) < 0


def test_faults_of_plans() -> None:
    step = Round.of(RoundCase((RoundJob(2, F(1), (F(1), F(0))), RoundJob(1, F(1), (F(1), F(1)))), (2, 1)))

    def rows(gpus: list[list[float]]) -> bool:
        return policy.violates_rows(step, gpus)

    good = [[2.0, 0.0], [0.0, 1.0]]
    assert not rows(good)
    assert rows([[1.0, 1.0], [0.0, 0.0]])
    assert rows([[0.0, 2.0], [0.0, 0.0]])
    assert rows([[2.0, 0.0], [1.0, 0.0]])
    assert not policy.lets_a_fitting_job_wait(step, good)
    assert policy.lets_a_fitting_job_wait(step, [[2.0, 0.0], [0.0, 0.0]])
    assert not policy.uses_other_number(step, good)
    assert policy.uses_other_number(step, [[0.0, 0.0], [0.0, 1.0]])


def test_schedules_of_table_1() -> None:
    assert adversaries.two_job_total(TwoJobSchedule((), ())) == 0
    assert adversaries.two_job_total(TwoJobSchedule(ONE, ((0, 0),))) == 2
    assert adversaries.two_job_total(TwoJobSchedule((F(9),), ((1, 2),))) == F(2) + F(9) + F(7, 8) - F(23, 4)
    assert adversaries.finish([F(16), F(0)], F(1), (1, 0)) == 3


def test_the_printed_sum_may_exceed_the_completion_time() -> None:
    case = stored_case("fft/eq-2")
    assert adversaries.truncated_average(case) >= 0
    assert adversaries.truncated_average(replace(case, work=case.work * 9)) < 0  # it does not complete


def test_compensation_is_that_of_the_checker() -> None:
    for case in some_cases("fft/fig-5-starved", 10):
        rho = [0, *(after for *_, after in adversaries.compensations(case, 1 / case.gang.work))]
        assert rho == list(case.rho)


def test_subsets_are_all_plans() -> None:
    for case in some_cases("fft/largest-first-powers", 10):
        step = Round.of(case)
        assert adversaries.most_in_use([gang.demand for gang in step.gangs], case.gpus) == max(
            map(step.used, step.plans())
        )


def test_the_bound_of_waits_is_attained() -> None:
    jobs = SimpleNamespace(gangs=tuple(RoundJob(1, F(1), ONE) for _ in range(4)), gpus=(1,))
    assert adversaries.delayed_waits(jobs) == 0
    few = SimpleNamespace(gangs=(RoundJob(1, F(3), ONE), RoundJob(2, F(1), ONE)), gpus=(2,))
    assert adversaries.delayed_waits(few) == 0


def test_estimates_of_the_fair_time() -> None:
    gang = Gang(2, F(6), (F(1), F(3)))
    assert [fair_time(gang, 3, (3, 2)), fair_time(gang, 3, (3, 1))] == [F(12, 5), 9]
    assert [part_time(gang, 3, (3, 2)), part_time(gang, 1, (3, 1))] == [6, 6]


def test_ties_are_broken_by_the_given_rule() -> None:
    run = Run((Gang(1, F(1), ONE), Gang(1, F(1), ONE)), (1,))
    first, last = (next(plan for _, _, plan in one_run(run, choose)) for choose in (min, max))
    assert {first, last} == {(WAITS, 0), (0, WAITS)}
