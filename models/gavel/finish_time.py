"""Finish-time fairness: nobody finishes late compared with an own part of the cluster, [Gavel, section 4.2].

rho[e] = (elapsed[e] + work_left[e] / rate[e]) / (elapsed[e] + work_left[e] / isolated[e]), and the largest rho is made
as small as possible. 1 / rate is convex, so its tangents join lazily, as those of :mod:`hetopt.models.concave` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidInstance
from hetopt.models.concave import FIRST
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import Rows
from hetopt.solving.point import Point
from hetopt.tolerances import VIOLATED, scale


@dataclass(frozen=True, eq=False)
class Progress:
    """rho = late + own / y with y = rate / unit, for the r jobs ``who`` that have work left and can use some GPU.

    Attributes
    ----------
    late:
        (r,) elapsed time, in units of the isolated finish time (since arrival), >= 0.
    own:
        (r,) isolated time for the work left, in the same units, so that late + own = 1.
    unit:
        (r,) isolated rate, work per second.
    """

    who: NDArray[np.intp]
    late: Floats
    own: Floats
    unit: Floats

    def rho(self, y: Floats) -> Floats:
        """(r,) finish time relative to the isolated one; infinite where y is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.late + self.own / y)


def progress(entities: Entities) -> Progress:
    """The numbers of finish-time fairness.

    Raises
    ------
    InvalidInstance
        No job has work left.
    """
    instance = entities.source
    work = instance.job_array("work_left")
    if not work.any():
        raise InvalidInstance("no job has work left, so there is no finish time to be fair about")
    who = np.flatnonzero((work > 0) & (entities.isolated_rate > 0))
    unit = entities.isolated_rate[who]
    elapsed = np.maximum(instance.time - instance.job_array("arrival")[who], 0.0)
    alone = work[who] / unit
    return Progress(who, elapsed / (elapsed + alone), alone / (elapsed + alone), unit)


@dataclass(frozen=True)
class FinishTime:
    """Least largest rho: gain = -rho, a column.

    Rows, for jobs e with work left that can use a GPU: ``rho >= late[e] + own[e] * (2/p - rate[e] / (unit[e] p^2))``,
    the tangents of ``own[e] * unit[e] / rate[e]`` at rates ``p * unit[e]``. A job's weight scales its isolated part of
    the cluster.
    """

    name: str = "finish_time"
    kind: Literal["jobs"] = "jobs"

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``rho`` and first tangents ``tangent[e, i]``; minus rho."""
        entities, jobs = model.entities, progress(model.entities)
        block.rho = pyo.Var(domain=pyo.NonNegativeReals)
        names = [entities.names[e] for e in jobs.who]
        block.tangent = pyo.Constraint(names, range(len(FIRST)))
        for i, p in enumerate(FIRST):
            for j, name in enumerate(names):
                e = int(jobs.who[j])
                own = model.weighted_row(e, entities.speed[e] * (jobs.own[j] / jobs.unit[j] / p**2))
                block.tangent[name, i] = block.rho + own >= float(jobs.late[j] + 2.0 * jobs.own[j] / p)
        return -block.rho

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """Minus the largest rho."""
        jobs = progress(entities)
        return Measure(gain=-float(jobs.rho(entities.rate(share)[jobs.who] / jobs.unit).max(initial=0.0)))

    def violated(self, entities: Entities, point: Point) -> Rows:
        """Tangents where a job's rho is more than the column says; none within the gap asked for."""
        n, k = entities.shape
        jobs = progress(entities)
        rho = float(point.x[point.program.column[f"{self.name}.rho"]])
        y = np.maximum(entities.rate(point.share)[jobs.who], 0.0) / jobs.unit
        over = jobs.rho(y) - rho
        found = np.flatnonzero(over > max(point.asked_gap, VIOLATED) * scale(rho))
        # A job that got nearly nothing: the tangent where it would have about twice the present rho.
        needed = jobs.own / np.maximum(2.0 * rho - jobs.late, 1.0)
        at = np.maximum(y, needed)[found]
        slope = jobs.own[found] / at**2
        data = (slope / jobs.unit[found])[:, None] * entities.speed[jobs.who[found]]
        columns, r = jobs.who[found][:, None] * k + np.arange(k), len(found)
        return Rows(
            share=sparse.csr_array((data.ravel(), columns.ravel(), np.arange(0, r * k + 1, k)), shape=(r, n * k)),
            lower=jobs.late[found] + 2.0 * jobs.own[found] / at,
            upper=np.full(r, np.inf),
            names=[
                f"{self.name}.tangent[{entities.names[e]},{p:.6g}]" for e, p in zip(jobs.who[found], at, strict=True)
            ],
            own=sparse.csr_array(np.ones((r, 1))),
            own_names=[f"{self.name}.rho"],
        )
