"""FFT over all rounds: in fractions, and by the library's policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.fft.compensation import fair_rounds
from hetopt.proofs.fft.round_cases import EXACT, WAITS, RoundCase, TypeOfJob, runs_picture
from hetopt.proofs.ledger.finding_pictures import Timeline

F = Fraction


@dataclass(frozen=True)
class PlayedRound:
    """One of the rounds.

    Attributes
    ----------
    present:
        Positions of the present gangs.
    round:
        The gangs with their compensation.
    """

    present: tuple[int, ...]
    round: RoundCase

    @property
    def executed(self) -> TypeOfJob:
        """The first optimum, which is executed."""
        return self.round.optima[0]


@dataclass(frozen=True)
class Progress:
    """The state of all jobs at the start of a round.

    Attributes
    ----------
    time:
        The round.
    done, rho:
        (n,) work done, and compensation.
    """

    time: int
    done: tuple[Fraction, ...]
    rho: tuple[Fraction, ...]

    @classmethod
    def start(cls, run: RoundCase) -> Progress:
        """The state at the first arrival."""
        zeros = (F(0),) * len(run.gangs)
        return cls(min(gang.arrival for gang in run.gangs), zeros, zeros)

    def complete(self, run: RoundCase) -> bool:
        """Whether all jobs are complete."""
        return all(d >= gang.work for d, gang in zip(self.done, run.gangs, strict=True))

    def of_round(self, run: RoundCase) -> PlayedRound:
        """The round of the present jobs."""
        gangs = enumerate(run.gangs)
        present = tuple(j for j, gang in gangs if gang.arrival <= self.time and self.done[j] < gang.work)
        owed = tuple(self.rho[j] for j in present)
        return PlayedRound(
            present, RoundCase(tuple(run.gangs[j] for j in present), run.gpus, self.time, owed, run.normalise)
        )

    def after(self, run: RoundCase, step: PlayedRound, where: TypeOfJob, mu: Fraction | None = None) -> Progress:
        """The state after this round with the plan ``where``, by [FFT, eq. 5] with mu = age / (tau - a) or ``mu``."""
        done, rho = list(self.done), list(self.rho)
        for j, i in zip(step.present, where, strict=True):
            gang = run.gangs[j]
            fair, work = fair_rounds(gang, len(step.present), run.gpus), F(0) if i == WAITS else gang.speed[i]
            lag = 1 / fair - work / gang.work if run.normalise else gang.work / fair - work
            rho[j] = max(F(0), rho[j] + ((self.time - gang.arrival) / fair if mu is None else mu) * lag)
            done[j] += work
        return Progress(self.time + 1, tuple(done), tuple(rho))


def play_rounds(run: RoundCase, mu: Fraction | None = None) -> Iterator[PlayedRound]:
    """Yield all rounds with a present job, from the first arrival to the last completion.

    rho is that of [FFT, eq. 5], with the constant coefficient ``mu`` if it is given; tau is estimated again when jobs
    arrive or complete, and moves take no time.
    """
    now = Progress.start(run)
    while not now.complete(run):
        step = now.of_round(run)
        if step.present:
            yield step
        now = now.after(run, step, step.executed if step.present else (), mu)


def library_decisions(run: RoundCase, rounds: int) -> list[TypeOfJob]:
    """The plans of the library's policy for the present gangs, in the first ``rounds`` rounds with a present job."""
    gangs = {job.name: gang for job, gang in zip(run.instance.jobs, run.gangs, strict=True)}
    types = run.instance.cluster.type_names
    policy = FFT(normalise=run.normalise, options=EXACT)
    state, done = None, dict.fromkeys(gangs, 0.0)
    time, found = min(gang.arrival for gang in run.gangs), list[TypeOfJob]()
    while len(found) < rounds and any(done[name] < gang.work for name, gang in gangs.items()):
        if any(gang.arrival <= time and done[name] < gang.work for name, gang in gangs.items()):
            plan, state = policy(run.instance.replace(done=done).at(ROUND_SECONDS * time), state)
            where = {name: WAITS if kind is None else types.index(kind) for name, kind in plan.assigned.items()}
            found.append(tuple(where.values()))
            for name, i in where.items():
                done[name] += 0.0 if i == WAITS else float(gangs[name].speed[i])
        time += 1
    return found


def unique_so_far(steps: list[PlayedRound]) -> bool:
    """Whether each of these rounds has a unique optimum."""
    return all(len(step.round.optima) == 1 for step in steps)


CONFIRMED = ("all plans up to this round are unique optima in fractions", "the library's policy makes the same plans")
"""Certificate of rounds that the library confirms."""


def confirmed_by_library(run: RoundCase, steps: list[PlayedRound]) -> bool:
    """Whether the optima of these rounds are unique, and the library's policy makes the same plans."""
    return unique_so_far(steps) and library_decisions(run, len(steps)) == [step.executed for step in steps]


def rounds_picture(title: str, steps: list[PlayedRound]) -> Timeline:
    """Picture of the jobs on each type in these rounds."""
    runs = ((step.round.time, j, i) for step in steps for j, i in zip(step.present, step.executed, strict=True))
    return runs_picture(title, runs)
