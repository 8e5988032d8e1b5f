"""Finish-time fairness: finish times relative to those on an own part of the cluster, [Gavel, section 4.2].

rho[e] = (elapsed[e] + work_left[e] / rate[e]) / (elapsed[e] + work_left[e] / isolated[e]); the largest rho is
minimised. 1 / rate is convex, so LP solvers get tangents, as in :mod:`hetopt.models.concave`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from hetopt.data.entities import Entities, Floats, Kind
from hetopt.errors import InvalidInstance
from hetopt.formulations.formulation import ArrayComponent
from hetopt.models.concave import AlphaFair, start_inside
from hetopt.programs.arrays import Arrays, Columns, Curves
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Block, Expression, Model
from hetopt.programs.symbols import shared


@dataclass(frozen=True, eq=False)
class Progress:
    """rho = late + own / y with y = rate / unit, for the r jobs ``who`` with work left that can use some GPU.

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
    """The coefficients of finish-time fairness.

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
class FinishTime(ArrayComponent):
    """Minimise the largest rho: gain = -rho, a column.

    Rows, for jobs e with work left that can use a GPU: ``rho >= late[e] + own[e] * unit[e] / rate[e]``, which are not
    linear. A job's weight scales its isolated part of the cluster.
    """

    name: str = "finish_time"
    kind: Literal["jobs"] = "jobs"

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``rho`` and the rows ``row[e]``; minus rho."""
        entities, jobs = model.entities, progress(model.entities)
        start_inside(model)
        block.rho = pyo.Var(domain=pyo.NonNegativeReals, initialize=1.0)
        block.row = pyo.Constraint([entities.names[e] for e in jobs.who])
        for e, late, work in zip(jobs.who.tolist(), jobs.late.tolist(), (jobs.own * jobs.unit).tolist(), strict=True):
            name = entities.names[e]
            block.row[name] = block.rho >= late + work / model.rate[name]
        return -block.rho

    def rows(self, entities: Entities) -> Arrays:
        """The same in arrays."""
        jobs = progress(entities)
        one = np.zeros(len(jobs.who), dtype=np.intp)
        return Arrays(
            own_gain={"rho": np.array([-1.0])},
            columns=(Columns("rho"),),
            curves=(Curves("rho", -1.0, one, jobs.who, AlphaFair(2), jobs.own, jobs.unit, -jobs.late),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The same in formulas."""
        what = "largest ratio of the finish time to that on an own part of the cluster"
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.2] | {what}
                -rho_max
            subject to
              row [Gavel, section 4.2] | no ratio is larger
                rho_max >= (g[e] + W_left[e] / rate[e]) / (g[e] + W_left[e] / q[e])
                for e in E if W_left[e] > 0 if q[e] > 0
            with
              rho_max as rho | {what}
                rho_max >= 0
            where
              q[e] [Gavel, section 4.2]
                | work per second of e on an own part of the cluster, by weight, running at most all the time | work/s
                q[e] == min(pi[e] / (d[e] * sum(pi[o] for o in E)), 1 / sum(m[k] for k in K))
                * sum(v[e, k] * m[k] for k in K) for e in E
            symbols
              g[e] | time since e arrived | s
            """,
            symbols=shared(kind),
        )
