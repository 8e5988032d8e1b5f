"""Components of Shockwave's program over a window of future rounds.

Zheng, Pan, Khan, Venkataraman, Akella: Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in
Machine Learning, NSDI 2023. The equations are those of the authors' public code. A GPU type in a round of the window is
a GPU type of another instance, :func:`window`, so that shares are 0 or 1 and capacity holds in each round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, check_round_seconds, members, whole
from hetopt.data.array_types import Floats, Numbers
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities, Kind
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.formulations.formulation import ArrayComponent
from hetopt.models.objectives import LinearGain
from hetopt.models.policy_checks import check_names
from hetopt.models.shockwave.epoch_estimates import EpochEstimate, estimate_arrays
from hetopt.programs.arrays import Arrays, Columns, Index, Rows, on_own, on_shares
from hetopt.programs.linear import nearest_powers
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, formula_number, shared

BASES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Parts of a job at which the approximated logarithm is exact: ``log_approximation_bases`` of the public code."""

LEAST = 1 / 1_000_000
"""Progress whose logarithm stands for that of 0: ``logapx_origin`` of the public code."""

ROUND_SECONDS = 120.0
"""Length of Shockwave's rounds: ``time_per_iteration`` in the scripts of its evaluation."""


def window(instance: Instance, rounds: int) -> Instance:
    """The instance in which each GPU type occurs once for each of the next ``rounds`` rounds: ``V100@1`` and so on.

    The types of the first round come first. Its jobs are those with work left that a GPU type can run now, with their
    speeds in each round; where they run now is left out.
    """
    entities, work_left = instance.entities("jobs"), instance.job_array("work_left")
    able = np.flatnonzero(entities.allowed.any(axis=1) & (work_left > 0)).tolist()
    names = [f"{t}@{r}" for r in range(1, rounds + 1) for t in entities.types]
    jobs, done = [], {}
    for job, speed, left in zip(
        (instance.jobs[e] for e in able), entities.speed[able].tolist(), work_left[able].tolist(), strict=True
    ):
        speeds = dict(zip(names, speed * rounds, strict=True))
        jobs.append(Job(job.name, speeds, job.work, job.demand, job.arrival, weight=job.weight))
        done[job.name] = job.work - left
    capacity = dict(zip(names, entities.capacity.astype(int).tolist() * rounds, strict=True))
    return Instance(Cluster.of(capacity), jobs=tuple(jobs), time=instance.time, done=done)


@dataclass(frozen=True)
class OneTypePerRound(ArrayComponent):
    """In each round, a job runs on one GPU type or waits: shares are 0 or 1.

    Rows, for jobs e and rounds r of a :func:`window`: ``sum_k share[e, k] <= 1`` over the types k of the round.

    Parameters
    ----------
    rounds:
        Rounds of the window.
    """

    rounds: int
    name: str = "one_type_per_round"
    kind: Kind = field(default="jobs", init=False)
    binary: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        _check(self)

    def rows(self, entities: Entities) -> Arrays:
        """The rows."""
        index: list[Index] = [(name, r) for name in entities.names for r in range(1, self.rounds + 1)]
        ones = entities.numbers(np.ones((len(index), _types_per_round(entities, self.rounds))))
        return Arrays(rows=(Rows("row", index, (on_shares(ones),), upper=1.0),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        return Mathematics.read(
            f"""
            subject to
              row | in each round, a job runs on one type or waits
                sum(x[e, k] for k in types[r]) <= 1 for e in E for r in {{1, ..., {self.rounds}}}
            symbols
              types[r] | types in round r of the window | | K_{{#1}}
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class LogProgress(ArrayComponent):
    """The logarithm of each job's progress at the end of the window, in parts: Nash social welfare.

    Gain: ``sum_e weight[e] u[e] / (n rounds)`` with columns u. Rows, for jobs e and each pair of neighbouring
    ``bases`` (b, c): ``u[e] <= log(b) + slope * (progress[e] + sum_k part[e, k] share[e, k] - b)`` with
    ``slope = (log(c) - log(b)) / (c - b)`` and ``part = round_seconds * speed / length``, the part of the job that a
    round does; log(least) stands for log(0).

    Parameters
    ----------
    rounds:
        Rounds of the window.
    round_seconds:
        Length of a round in seconds.
    weight:
        Job -> weight; for missing jobs their own.
    estimates:
        Job -> its progress and length; for missing jobs those of a job without phases.
    bases:
        Parts of a job from 0 to 1 at which the logarithm is exact, in ascending order.
    least:
        Progress that replaces 0 in the logarithm, above 0 and below the second base.

    Raises
    ------
    InvalidOption
        A setting out of range.
    InvalidFormulation
        When used: ``weight`` or ``estimates`` names an unknown job.
    """

    rounds: int
    round_seconds: float = ROUND_SECONDS
    weight: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[str, EpochEstimate] = field(default_factory=dict)
    bases: tuple[float, ...] = BASES
    least: float = LEAST
    name: str = "log_progress"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "bases", checked_bases(self.bases, self.least, "LogProgress"))

    @property
    def lines(self) -> tuple[Floats, Floats]:
        """Values at 0 and slopes of the lines between neighbouring bases."""
        bases = np.array(self.bases)
        values = np.log(np.maximum(bases, self.least))
        slopes = np.diff(values) / np.diff(bases)
        return values[:-1] - slopes * bases[:-1], slopes

    def rows(self, entities: Entities) -> Arrays:
        """The columns ``log``, their rows and gain."""
        check_names(self.weight, entities, "LogProgress.weight")
        now, n = _estimates(self, entities), len(entities.names)
        start, slope = self.lines
        part = entities.speed * entities.number(self.round_seconds) / now["length"][:, None]
        every, rise = np.repeat(np.arange(n), len(start)), np.tile(entities.numbers(slope), n)
        index: list[Index] = [(name, i) for name in entities.names for i in range(1, len(start) + 1)]
        ones = entities.numbers(np.ones(len(index)))
        terms = (on_own(ones, "log", every), on_shares(-rise[:, None] * part[every], every))
        own = zip(entities.names, entities.source.job_array("weight").tolist(), strict=True)
        weight = entities.numbers(np.array([self.weight.get(name, usual) for name, usual in own]))
        upper = np.tile(entities.numbers(start), n) + rise * now["progress"][every]
        return Arrays(
            own_gain={"log": weight / (n * self.rounds)},
            columns=(Columns("log", entities.names, float(np.log(self.least)), 0.0),),
            rows=(Rows("row", index, terms, upper=upper),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain and the rows as formulas."""
        return Mathematics.read(
            f"""
            maximise
              gain [Shockwave] | logarithm of the part of each job that is done at the end of the window, by weight
                sum(weight[e] * eta[e] for e in E) / ({self.rounds} * len(E))
            subject to
              row | the logarithm in parts, between neighbouring bases
                eta[e] <= start[i] + slope[i] * (progress[e] + sum({_done(self)} / length[e] * x[e, k] for k in K))
                for e in E for i in {{1, ..., {len(self.bases) - 1}}}
            with
              eta[e] as log | logarithm of the part of e that is done at the end of the window
                lowest <= eta[e] <= 0 for e in E
            symbols
              weight[e] | weight of e, with that of its lateness
              progress[e] | part of the epochs of e that are done
              length[e] | work of the whole job e if all epochs take as much as those so far | work
              start[i] | value at 0 of the line between base i and the next
              slope[i] | slope of that line
              lowest | logarithm of the progress that replaces 0
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class LongestTimeLeft(ArrayComponent):
    """The longest training time that a job has left at the end of the window, a bound on the makespan.

    Gain: ``-weight * z``. Rows, for jobs e that can run: ``z >= left[e] / g[e] - sum_k seconds[e, k] share[e, k]`` with
    g the speed on the fastest type and ``seconds = round_seconds * speed / g``. Training counts up to the work that is
    left by the epochs so far: ``z >= (left[e] - most[e]) / g[e]``.

    Parameters
    ----------
    weight:
        Cost of a second: k of the public code.
    round_seconds:
        Length of a round in seconds.
    estimates:
        Job -> its work left; for missing jobs that of a job without phases.

    Raises
    ------
    InvalidOption
        A setting out of range.
    InvalidFormulation
        When used: ``estimates`` names an unknown job.
    """

    weight: float = 1e-3
    round_seconds: float = ROUND_SECONDS
    estimates: Mapping[str, EpochEstimate] = field(default_factory=dict)
    name: str = "longest_time_left"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        _check(self)
        at_least(self.weight, "LongestTimeLeft.weight", 0.0, InvalidOption)

    def rows(self, entities: Entities) -> Arrays:
        """The column ``longest``, its rows and cost."""
        now, fastest = _estimates(self, entities), entities.speed.max(axis=1)
        who = np.flatnonzero(fastest > 0)
        beyond = max(((now["left"] - now["most"])[who] / fastest[who]).tolist(), default=0.0)
        names, size = [entities.names[e] for e in who.tolist()], nearest_powers(self.round_seconds).item()
        ones = entities.numbers(np.ones(len(who)))
        terms = (on_own(ones, "longest"), on_shares(_seconds(self, entities)[who], who))
        return Arrays(
            own_gain={"longest": entities.numbers(np.array([-self.weight]))},
            columns=(Columns("longest", lower=max(float(beyond), 0.0), unit=size),),
            rows=(Rows("row", names, terms, lower=now["left"][who] / fastest[who], scale=size, unit=size),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain and the rows as formulas."""
        return Mathematics.read(
            f"""
            maximise
              gain [Shockwave] | longest training time left at the end of the window
                -{formula_number(self.weight)} * z
            subject to
              row | no job has more training time left, on its fastest type | s
                z + sum({_done(self)} / fastest[e] * x[e, k] for k in K) >= left[e] / fastest[e]
                for e in E if fastest[e] > 0
            with
              z as longest | longest training time left | s
                z >= max(0, beyond)
            symbols
              left[e] | predicted work left of e | work
              fastest[e] | work per second of e on its fastest type | work/s
              beyond | longest time that a job has left more than if all its epochs took as much as those so far | s
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class TrainingTime(ArrayComponent):
    """Least training time of jobs in the window, by which they finish in time.

    Rows, for the jobs e of ``seconds``: ``sum_k round_seconds * speed[e, k] / g[e] * share[e, k] >= seconds[e]``, with
    g the speed on the fastest type.

    Parameters
    ----------
    seconds:
        Job -> seconds on its fastest type.
    round_seconds:
        Length of a round in seconds.

    Raises
    ------
    InvalidOption
        A setting out of range.
    InvalidFormulation
        When used: ``seconds`` names an unknown job.
    """

    seconds: Mapping[str, float]
    round_seconds: float = ROUND_SECONDS
    name: str = "training_time"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        _check(self)

    def rows(self, entities: Entities) -> Arrays:
        """The rows."""
        check_names(self.seconds, entities, "TrainingTime.seconds")
        who = np.array([entities.position[name] for name in self.seconds], dtype=np.intp)
        least = entities.numbers(np.array(list(self.seconds.values()), dtype=float))
        size, terms = nearest_powers(self.round_seconds).item(), (on_shares(_seconds(self, entities)[who], who),)
        return Arrays(rows=(Rows("row", list(self.seconds), terms, lower=least, scale=size, unit=size),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        return Mathematics.read(
            f"""
            subject to
              row [Shockwave] | a job trains so long that it finishes in time | s
                sum({_done(self)} / fastest[e] * x[e, k] for k in K) >= least[e] for e in late
            symbols
              late | jobs that must train in the window to finish in time
              least[e] | training time of e, on its fastest type | s
              fastest[e] | work per second of e on its fastest type | work/s
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class RoundsGiven(ArrayComponent):
    """The number of rounds of the window in which each job runs on each GPU type.

    Rows, for jobs e and types t: the sum of the shares of e on t in all rounds is ``rounds_of[e][t]``, 0 where missing;
    with ``fewer`` at most that.

    Parameters
    ----------
    rounds_of:
        Job -> GPU type -> rounds; types as in the instance behind the :func:`window`.
    rounds:
        Rounds of the window.
    fewer:
        Whether jobs may have fewer rounds.

    Raises
    ------
    InvalidOption
        A setting out of range.
    InvalidFormulation
        When used: ``rounds_of`` names an unknown job.
    """

    rounds_of: Mapping[str, Mapping[str, int]]
    rounds: int
    fewer: bool = False
    name: str = "rounds_given"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        _check(self)
        boolean(self.fewer, "RoundsGiven.fewer")

    def rows(self, entities: Entities) -> Arrays:
        """The rows."""
        check_names(self.rounds_of, entities, "RoundsGiven.rounds_of")
        n, k = len(entities.names), _types_per_round(entities, self.rounds)
        types = [name.rpartition("@")[0] for name in entities.types[:k]]
        number = [[float(self.rounds_of.get(name, {}).get(t, 0)) for t in types] for name in entities.names]
        index: list[Index] = [(name, t) for name in entities.names for t in types]
        table = np.tile(np.eye(k), (n, self.rounds))  # of each job and type: 1 where a column is of this type
        terms = on_shares(entities.numbers(table), np.repeat(np.arange(n), k))
        given = entities.numbers(np.array(number, dtype=float).ravel())
        return Arrays(rows=(Rows("row", index, (terms,), lower=-np.inf if self.fewer else given, upper=given),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        what, sign = ("at most its rounds", "<=") if self.fewer else ("its rounds", "==")
        return Mathematics.read(
            f"""
            subject to
              row | a job has {what} on each type | rounds
                sum(x[e, k] for k in times[t]) {sign} rounds[e, t] for e in E for t in base
            symbols
              base | types of the instance behind the window
              times[t] | type t in the rounds of the window
              rounds[e, t] | rounds of e on type t | rounds
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class EarlyRounds(LinearGain):
    """Jobs of more weight get earlier rounds: gain ``-sum_ek weight[e] / rounds_of[e] * number[k] * share[e, k]``.

    ``number`` is that of the round of a type, from 0. So the cost of a job is the mean number of its rounds, by weight.

    Parameters
    ----------
    weight:
        Job -> weight; 1 for missing jobs.
    rounds_of:
        Job -> its rounds in the window; missing jobs, and those with 0, have no cost.
    rounds:
        Rounds of the window.

    Raises
    ------
    InvalidOption
        A setting out of range.
    InvalidFormulation
        When used: ``weight`` or ``rounds_of`` names an unknown job.
    """

    weight: Mapping[str, float]
    rounds_of: Mapping[str, int]
    rounds: int
    name: str = "early_rounds"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        _check(self)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) minus the cost, in rounds."""
        check_names(self.weight, entities, "EarlyRounds.weight")
        check_names(self.rounds_of, entities, "EarlyRounds.rounds_of")
        weight = np.array([self.weight.get(name, 1.0) for name in entities.names], dtype=float)
        given = np.array([self.rounds_of.get(name, 0) for name in entities.names], dtype=float)
        cost = np.divide(weight, given, out=np.zeros(len(weight)), where=given > 0)
        number = np.repeat(np.arange(self.rounds), _types_per_round(entities, self.rounds))
        return np.asarray(-entities.numbers(cost)[:, None] * np.where(entities.allowed, number, 0))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            f"""
            maximise
              gain [Shockwave] | mean number of the rounds of each job, from 0, by weight | rounds
                -sum(weight[e] / given[e] * number[k] * x[e, k] {OVER} if given[e] > 0)
            symbols
              weight[e] | weight of e, with that of its lateness
              given[e] | rounds of e in the window | rounds
              number[k] | number of the round of type k, from 0 | rounds
            """,
            symbols=shared(kind),
        )


def checked_bases(bases: Any, least: float, owner: str) -> tuple[float, ...]:
    """The bases as a tuple; they ascend from 0 to 1, and ``least`` is below the second."""
    given = members(bases, object, f"{owner}.bases", InvalidOption)
    made = tuple(at_least(base, f"{owner}.bases", 0.0, InvalidOption) for base in given)
    if len(made) < 2 or (made[0], made[-1]) != (0.0, 1.0) or (np.diff(made) <= 0).any():
        raise InvalidOption(f"is {made}; it must ascend from 0 to 1", f"{owner}.bases")
    at_least(least, f"{owner}.least", 0.0, InvalidOption, strict=True, below=made[1])
    return made


def _check(part: Any) -> None:
    """Check ``rounds`` and ``round_seconds`` of a component where it has them, and make its mappings immutable."""
    if hasattr(part, "rounds"):
        whole(part.rounds, f"{type(part).__name__}.rounds", 1)
    if hasattr(part, "round_seconds"):
        check_round_seconds(part)
    for one in fields(part):
        if isinstance(value := getattr(part, one.name), Mapping):
            object.__setattr__(part, one.name, FrozenDict(value))


def _types_per_round(entities: Entities, rounds: int) -> int:
    types, rest = divmod(len(entities.types), rounds)
    if rest:
        raise InvalidOption(f"is {rounds}; the window has {len(entities.types)} types in all rounds together", "rounds")
    return types


def _estimates(part: LogProgress | LongestTimeLeft, entities: Entities) -> dict[str, Numbers]:
    check_names(part.estimates, entities, f"{type(part).__name__}.estimates")
    return estimate_arrays(entities, part.estimates)


def _seconds(part: LongestTimeLeft | TrainingTime, entities: Entities) -> Numbers:
    """(n, k) training time of a round, in seconds on the job's fastest type; 0 where it cannot run."""
    best = entities.speed.max(axis=1)
    return np.asarray(entities.speed * entities.number(part.round_seconds) / np.where(best > 0, best, 1)[:, None])


def _done(part: Any) -> str:
    """Work of a round, in formulas."""
    return f"{formula_number(part.round_seconds)} * v[e, k]"
