"""FFT over all rounds: in fractions, and by the library's policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetopt.models.fft import FFT
from hetopt.models.fft.fft_components import ROUND_SECONDS
from hetopt.proofs.fft.compensation import fair_rounds
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, TypeOfJob, runs_picture
from hetopt.proofs.ledger.finding_pictures import Timeline

F = Fraction


@dataclass(frozen=True)
class PlayedRound:
    """One of the rounds.

    Attributes
    ----------
    there:
        Positions of the present gangs.
    round:
        The gangs with their compensation.
    """

    there: tuple[int, ...]
    round: RoundCase

    @property
    def executed(self) -> TypeOfJob:
        """The first optimum, which is executed."""
        return self.round.optima[0]


def play_rounds(gangs: tuple[RoundJob, ...], gpus: tuple[int, ...], *, normalise: bool) -> Iterator[PlayedRound]:
    """Yield all rounds with a present job.

    rho is that of [FFT, eq. 5], tau is estimated again when jobs arrive or complete, and moves take no time.
    """
    done, rho = [F(0)] * len(gangs), [F(0)] * len(gangs)
    time = min(gang.arrival for gang in gangs)
    while any(d < gang.work for d, gang in zip(done, gangs, strict=True)):
        there = tuple(j for j, gang in enumerate(gangs) if gang.arrival <= time and done[j] < gang.work)
        if there:
            now = RoundCase(tuple(gangs[j] for j in there), gpus, time, tuple(rho[j] for j in there), normalise)
            step = PlayedRound(there, now)
            yield step
            for j, i in zip(there, step.executed, strict=True):
                gang = gangs[j]
                fair, work = fair_rounds(gang, len(there), gpus), F(0) if i == WAITS else gang.speed[i]
                lag = 1 / fair - work / gang.work if normalise else gang.work / fair - work
                rho[j] = max(F(0), rho[j] + (time - gang.arrival) / fair * lag)
                done[j] += work
        time += 1


def library_decisions(
    gangs: tuple[RoundJob, ...], gpus: tuple[int, ...], rounds: int, *, normalise: bool
) -> list[TypeOfJob]:
    """The plans of the library's policy for the present gangs, in the first ``rounds`` rounds with a present job."""
    whole_run = RoundCase(gangs, gpus).instance
    names, types = [job.name for job in whole_run.jobs], whole_run.cluster.type_names
    policy, state, done = FFT(normalise=normalise), None, dict.fromkeys(names, 0.0)
    time, found = min(gang.arrival for gang in gangs), list[TypeOfJob]()
    while len(found) < rounds and any(done[name] < g.work for g, name in zip(gangs, names, strict=True)):
        if any(g.arrival <= time and done[name] < g.work for g, name in zip(gangs, names, strict=True)):
            plan, state = policy(whole_run.replace(done=done).at(ROUND_SECONDS * time), state)
            where = {name: WAITS if kind is None else types.index(kind) for name, kind in plan.assigned.items()}
            found.append(tuple(where.values()))
            for name, i in where.items():
                done[name] += 0.0 if i == WAITS else float(gangs[names.index(name)].speed[i])
        time += 1
    return found


def unique_so_far(steps: list[PlayedRound]) -> bool:
    """Whether each of these rounds has a unique optimum."""
    return all(len(step.round.optima) == 1 for step in steps)


CONFIRMED = ("all plans up to this round are unique optima in fractions", "the library's policy makes the same plans")
"""Certificate of rounds that the library confirms."""


def confirmed_by_library(
    gangs: tuple[RoundJob, ...], gpus: tuple[int, ...], steps: list[PlayedRound], *, normalise: bool
) -> bool:
    """Whether the optima of these rounds are unique, and the library's policy makes the same plans."""
    plans = [step.executed for step in steps]
    return unique_so_far(steps) and library_decisions(gangs, gpus, len(steps), normalise=normalise) == plans


def rounds_picture(title: str, steps: list[PlayedRound]) -> Timeline:
    """Picture of the jobs on each type in these rounds."""
    runs = ((step.round.time, j, i) for step in steps for j, i in zip(step.there, step.executed, strict=True))
    return runs_picture(title, runs)
