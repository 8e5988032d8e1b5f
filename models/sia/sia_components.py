"""Components of Sia's round: one gang per job, normalised goodput, a penalty for waiting, gradual scale-up.

Jayaram Subramanya, Arfeen, Lin, Qiao, Jia, Ganger: Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling,
SOSP 2023. The entities are the gangs of :mod:`hetopt.data.gangs`; shares are 0 or 1. ``job`` maps each gang to its job;
gangs that it does not name are jobs of one size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hetopt.checks import FrozenDict, at_least
from hetopt.data.array_types import Floats, Numbers, Positions
from hetopt.data.entities import Entities, Kind
from hetopt.errors import InvalidOption
from hetopt.formulations.formulation import ArrayComponent
from hetopt.models.objectives import LinearGain
from hetopt.programs.arrays import Arrays, Rows, Terms
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, formula_number, shared

LEAST_GOODPUT = 0.01
"""Least normalised goodput in the objective: a restart factor near 0 would give an infinite cost."""


@dataclass(frozen=True)
class _OfGangs:
    """Base of components that know which gangs belong to one job."""

    job: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", FrozenDict(self.job))

    def jobs_of(self, gangs: Entities) -> tuple[list[str], Positions]:
        """The jobs, and (n,) position of the job of each gang among them.

        Raises
        ------
        InvalidOption
            There is a job itself instead of its gangs.
        """
        known = set(self.job.values()) - set(self.job)
        if whole := [name for name in gangs.names if name in known]:
            raise InvalidOption(
                f"has gangs of {whole[0]!r}, which the instance has not; solve the instance that Sia.program returns",
                f"{type(self).__name__}.job",
            )
        number: dict[str, int] = {}
        rows = [number.setdefault(self.job.get(name, name), len(number)) for name in gangs.names]
        return list(number), np.array(rows, dtype=np.intp)


OF_JOB = "for g in gangs[j] for k in K"
"""Quantifier over the shares of one job."""


@dataclass(frozen=True)
class OneGang(_OfGangs, ArrayComponent):
    """A job runs as one of its gangs on one GPU type, or waits: share is 0 or 1 [Sia, section 3.3, constraint 1].

    Rows, for all jobs j: ``sum over its gangs g and all k of share[g, k] <= 1``.
    """

    name: str = "one_gang"
    kind: Kind = field(default="jobs", init=False)
    binary: bool = field(default=True, init=False)

    def rows(self, entities: Entities) -> Arrays:
        """The rows."""
        jobs, rows = self.jobs_of(entities)
        shares = np.arange(entities.speed.size)
        terms = Terms(
            np.repeat(rows, len(entities.types)), shares, entities.numbers(np.ones(len(shares))), rows=len(jobs)
        )
        return Arrays(rows=(Rows("row", jobs, (terms,), upper=1.0),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        return Mathematics.read(
            f"""
            subject to
              row [Sia, section 3.3] | a job runs as one gang on one type or waits
                sum(x[g, k] {OF_JOB}) <= 1 for j in J
            symbols
              J | jobs
              gangs[j] | gangs of job j, one for each size
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class NormalisedGoodput(_OfGangs, LinearGain):
    """Goodput relative to the least of the job, to a power that sets fairness [Sia, eq. 1].

    Gain, with s = ``restart * goodput / least goodput of the job * its least GPUs``: the sum of ``s ** power * share``
    for a positive power, minus it for a negative one, by the weight of the job.

    Parameters
    ----------
    job:
        Gang -> job.
    power:
        p in [-1, 1], not 0: the smaller, the more jobs with little goodput count.
    restart:
        Job -> restart factor of [Sia, eq. 2], for gangs and types that differ from those which the job holds now; 1 for
        missing jobs.

    Raises
    ------
    InvalidOption
        A power outside its range, or 0; a restart factor below 0.
    """

    power: float = -0.5
    restart: Mapping[str, float] = field(default_factory=dict)
    name: str = "normalised_goodput"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.power, "NormalisedGoodput.power", -1.0, InvalidOption, most=1.0)
        if self.power == 0:
            raise InvalidOption("is 0; it must be above or below 0", "NormalisedGoodput.power")
        given = self.restart.items()
        restart = {job: at_least(r, f"NormalisedGoodput.restart[{job!r}]", 0.0, InvalidOption) for job, r in given}
        object.__setattr__(self, "restart", FrozenDict(restart))

    def goodput(self, gangs: Entities) -> Floats:
        """(n, k) normalised goodput; 0 where a gang cannot run."""
        jobs, rows = self.jobs_of(gangs)
        speed = np.where(gangs.allowed, gangs.speed, np.inf).astype(float)
        least, fewest = np.full(len(jobs), np.inf), np.full(len(jobs), np.inf)
        np.minimum.at(least, rows, speed.min(axis=1))
        np.minimum.at(fewest, rows, gangs.demand.astype(float))
        normal = np.where(gangs.allowed, speed, 0.0) / np.where(np.isfinite(least), least, 1.0)[rows, None]
        normal *= fewest[rows, None]
        if gangs.held is not None:
            factor = np.array([self.restart.get(job, 1.0) for job in jobs])[rows]
            normal = np.where(gangs.held > 0, normal, normal * factor[:, None])
        return np.asarray(normal)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain; an exact program has the simple fractions that these floats round."""
        powered = np.maximum(self.goodput(entities), LEAST_GOODPUT) ** self.power
        gain = np.where(entities.allowed, powered if self.power > 0 else -powered, 0.0)
        return np.asarray(entities.numbers(gain) * entities.weight[:, None])

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        sign = "" if self.power > 0 else "-"
        return Mathematics.read(
            f"""
            maximise
              gain [Sia, eq. (1)] | normalised goodput; less after a restart
                {sign}sum(pi[e] * G[e, k] ** {formula_number(self.power)} * x[e, k] {OVER} if G[e, k] > 0)
            symbols
              G[e, k] | goodput of gang e on type k over the least of its job, times its least GPUs and restart factor
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class WaitingPenalty(_OfGangs, ArrayComponent):
    """A penalty for each job that waits: gain ``-penalty * sum over jobs of (1 - its shares)`` [Sia, eq. 1].

    Parameters
    ----------
    job:
        Gang -> job.
    penalty:
        lambda >= 0, no unit. With a negative power of goodput, a penalty above 1 lets every job run that fits, unless
        it would have to restart.

    Raises
    ------
    InvalidOption
        A negative penalty.
    """

    penalty: float = 1.1
    name: str = "waiting_penalty"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.penalty, "WaitingPenalty.penalty", 0.0, InvalidOption)

    def rows(self, entities: Entities) -> Arrays:
        """The gain; no rows."""
        jobs, rows = self.jobs_of(entities)
        weight = entities.numbers(np.zeros(len(jobs)))
        weight[rows] = entities.weight
        penalty = entities.number(self.penalty)
        each = np.broadcast_to(penalty * entities.weight[:, None], entities.shape)
        return Arrays(gain=np.where(entities.allowed, each, 0), constant=-penalty * weight.sum())

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        penalty = formula_number(self.penalty)
        return Mathematics.read(
            f"""
            maximise
              gain [Sia, eq. (1)] | penalty of jobs that wait
                -{penalty} * sum(pi[j] * (1 - sum(x[g, k] {OF_JOB})) for j in J)
            symbols
              J | jobs
              gangs[j] | gangs of job j, one for each size
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class GradualScaleUp(_OfGangs, ArrayComponent):
    """A job grows to at most a given number of GPUs in this round [Sia, section 3.3, "Job Scaling policy"].

    Rows, for all jobs j in ``most``: the shares of gangs with more than ``most[j]`` GPUs sum to 0.

    Parameters
    ----------
    job:
        Gang -> job.
    most:
        Job -> GPUs, at least 1.

    Raises
    ------
    InvalidOption
        Fewer than 1 GPU.
    """

    most: Mapping[str, float] = field(default_factory=dict)
    name: str = "gradual_scale_up"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.most.items()
        most = {job: at_least(n, f"GradualScaleUp.most[{job!r}]", 1.0, InvalidOption) for job, n in given}
        object.__setattr__(self, "most", FrozenDict(most))

    def rows(self, entities: Entities) -> Arrays:
        """The rows, of the jobs that have larger gangs."""
        jobs, rows = self.jobs_of(entities)
        most = np.array([self.most.get(job, np.inf) for job in jobs])
        over = np.asarray(entities.demand > most[rows], dtype=bool)
        concerned = np.unique(rows[over])
        position = np.full(len(jobs), -1)
        position[concerned] = np.arange(len(concerned))
        k, who = len(entities.types), np.flatnonzero(over)
        columns = (who[:, None] * k + np.arange(k)).ravel()
        ones = entities.numbers(np.ones(len(columns)))
        terms = Terms(np.repeat(position[rows[who]], k), columns, ones, rows=len(concerned))
        return Arrays(rows=(Rows("row", [jobs[j] for j in concerned], (terms,), upper=0.0),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        return Mathematics.read(
            f"""
            subject to
              row [Sia, section 3.3] | a job grows gradually
                sum(x[g, k] {OF_JOB} if d[g] > most[j]) <= 0 for j in J
            symbols
              J | jobs
              gangs[j] | gangs of job j, one for each size
              most[j] | GPUs that j may have in this round | GPUs
            """,
            symbols=shared(kind),
        )
