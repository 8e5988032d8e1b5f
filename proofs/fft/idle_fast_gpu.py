"""Equation (6) with compensation: whether a job runs on a slow GPU while a fast GPU is idle."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob, single_gpus
from hetopt.proofs.fft.round_sequences import CONFIRMED, PlayedRound, confirmed_by_library, play_rounds, rounds_picture
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers

F = Fraction


def until_idle(case: RoundCase) -> list[PlayedRound]:
    """The rounds up to the first in which a single job runs on the slow GPU; empty without such a round.

    With more jobs both GPUs are in use.
    """
    steps: list[PlayedRound] = []
    for step in play_rounds(case):
        steps.append(step)
        if (0,) in step.round.optima:
            return steps
    return []


def margin(case: RoundCase) -> Fraction:
    """The smallest excess of the cost on the slow GPU over the cost on the fast GPU in a round with one job."""
    single = [step.round for step in play_rounds(case) if len(step.present) == 1]
    return min((now.cost(0, 0) - now.cost(0, 1) for now in single), default=F(1))


def never_idle(case: RoundCase) -> Finding:
    """Whether the fast GPU is in use whenever the slow one is."""
    steps = until_idle(case)
    if not steps:
        return Finding(F(0), "the fast GPU is in use whenever the slow one is")
    last = steps[-1]
    slow, fast = (last.round.cost(0, i) for i in (0, 1))
    words = (
        f"in round {last.round.time} j{last.present[0] + 1} runs on the slow GPU1 while GPU2 is idle: the costs "
        f"are {number_text(slow)} and {number_text(fast)}, with rho = {number_text(last.round.rho[0])}"
    )
    return Finding(slow - fast, words, CONFIRMED, (rounds_picture("FFT", steps),), confirmed_by_library(case, steps))


def _jobs(numbers: CaseNumbers) -> RoundCase:
    """Jobs of one GPU each, all present from round 0, on two GPUs."""
    gangs = tuple(RoundJob(1, work, speed) for work, speed in zip(numbers.row("work"), numbers["speed"], strict=True))
    return RoundCase(gangs, (1, 1))


@hypothesis("all jobs are present from the first round on, on two GPUs")
def present_from_the_start(case: RoundCase) -> bool:
    """No job arrives later."""
    return case.gpus == (1, 1) and not any(gang.arrival for gang in case.gangs)


@hypothesis("the second GPU is faster for every job")
def second_is_faster(case: RoundCase) -> bool:
    """The types have the same order for all jobs."""
    return all(0 < gang.speed[0] < gang.speed[1] for gang in case.gangs)


@hypothesis("every job takes at least a round on it")
def whole_rounds(case: RoundCase) -> bool:
    """No job is complete within a part of a round."""
    return all(gang.speed[1] <= gang.work for gang in case.gangs)


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    slow = [choose(integers(1, 4)) for _ in range(sizes["n"])]
    speed = [(v, v + choose(integers(1, 2))) for v in slow]
    return CaseNumbers.of(work=[fast + choose(integers(0, 4)) for _, fast in speed], speed=speed)


CLAIMS = (
    Claim(
        key="fft/eq-6-faster",
        place="equation (6)",
        statement="FFT, run from the first round with its compensation on jobs that take at least a round on every "
        "type, runs no job on a slow GPU while a fast GPU is idle.",
        procedure=ForAll(
            Space(
                {"n": (1, 3)},
                {"work": TableShape(1, "n", integers(1, 9)), "speed": TableShape("n", 2, integers(1, 6))},
                _jobs,
                _some,
                (single_gpus, present_from_the_start, second_is_faster, whole_rounds),
            ),
            never_idle,
            slack=margin,
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/eq-3-order",
        note="The compensation of a job that waits among many others is too small, since tau includes all of them.",
    ),
)
