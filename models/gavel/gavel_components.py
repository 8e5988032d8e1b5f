"""Components of Gavel's policies: time rows, max-min rates, ordered jobs, finish-time fairness.

Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, any_mapping, at_least, boolean, one_of
from hetopt.data.array_types import Floats, Numbers
from hetopt.data.entities import Entities, Kind
from hetopt.data.rates import equal_share_rate, isolated_rate
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.formulations.formulation import ArrayComponent
from hetopt.models.concave import AlphaFair, start_inside
from hetopt.models.objectives import LinearGain
from hetopt.programs.arrays import Arrays, Columns, Curves, Rows, on_own, on_shares
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Block, Expression, Model
from hetopt.programs.symbols import equal_share, formula_number, rate_unit, shared


def fastest_rate(entities: Entities) -> Numbers:
    """(n,) rate of a unit of share on the fastest available GPU type."""
    return np.asarray(np.where(entities.capacity > 0, entities.speed, 0.0).max(axis=1))


@dataclass(frozen=True)
class TimeFraction(ArrayComponent):
    """Limit on each entity's time: Gavel's row, [Gavel, section 3.1], which OEF does not have.

    Rows, for all jobs e: ``sum_k share[e, k] <= 1``; for tenants ``sum_k share[e, k] <= tenant_gpus``.

    Parameters
    ----------
    tenant_gpus:
        GPUs that a tenant can use at the same time. Infinite (default): no rows for tenants, as in OEF. 1: every tenant
        is one job on one GPU, as [OEF, eq. 3] interprets Gavel.

    Raises
    ------
    InvalidOption
        Not positive.
    """

    tenant_gpus: float = np.inf
    name: str = "time_fraction"

    def __post_init__(self) -> None:
        if self.tenant_gpus != np.inf:
            at_least(self.tenant_gpus, "TimeFraction.tenant_gpus", 0.0, InvalidOption, strict=True)

    def limit(self, entities: Entities) -> float:
        """Largest sum of an entity's shares."""
        return 1.0 if entities.kind == "jobs" else self.tenant_gpus

    def rows(self, entities: Entities) -> Arrays:
        """The rows; violations are relative to the limit."""
        limit = self.limit(entities)
        if limit == np.inf:
            return Arrays()
        ones, most = entities.numbers(np.ones(entities.shape)), entities.number(limit)
        return Arrays(rows=(Rows("row", entities.names, (on_shares(ones),), upper=most, scale=limit),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula; none for tenants without a limit."""
        if kind == "jobs":
            what, unit, limit = "a gang runs at most all the time", "", 1.0
        else:
            what, unit, limit = "GPUs that a tenant can use at a time", "GPUs", self.tenant_gpus
        if limit == np.inf:
            return Mathematics()
        return Mathematics.read(
            f"""
            subject to
              row [Gavel, section 3.1] | {what} | {unit}
                sum(x[e, k] for k in K) <= {formula_number(limit)} for e in E
            """,
            symbols=shared(kind),
        )


class MaxMinRate(ArrayComponent):
    """Max-min rate: gain = level, a column; rows, for all e: ``rate[e] >= base[e] * level``.

    Entities that can use none of the available GPUs have base 0 and do not limit the level. If all have base 0, the
    level is 0.
    """

    @abstractmethod
    def base(self, entities: Entities) -> Numbers:
        """(n,) rate that makes the level 1."""

    def floor(self, entities: Entities, gain: float) -> Floats:
        """(n,) least rates with which the gain is ``gain``."""
        return np.asarray(self.base(entities) * gain, dtype=float)

    def sizes(self, entities: Entities, base: Numbers) -> Floats:
        """(n,) units of the rows: the base, or the largest speed where it is 0."""
        size = np.where(base > 0, base, entities.speed.max(axis=1)).astype(float)
        size[size == 0] = 1.0  # runs nowhere now: a row of zeros, which does not limit the level
        return size

    def rows(self, entities: Entities) -> Arrays:
        """The column ``level`` and the rows ``row[e]``; the level is the gain."""
        base = self.base(entities)
        size = self.sizes(entities, base)
        terms = (on_shares(entities.speed), on_own(-base, "level"))
        return Arrays(
            own_gain={"level": entities.numbers(np.ones(1))},
            columns=(Columns("level", upper=np.inf if base.any() else 0.0),),
            rows=(Rows("row", entities.names, terms, lower=0.0, scale=size, unit=size),),
        )


@dataclass(frozen=True)
class LeastRatio(MaxMinRate):
    """Max-min ratio of rate to ``weight * (rate under the equal share)``, [Gavel, section 4.1].

    Gain = level; rows, for all e: ``rate[e] >= base[e] * level`` with base the
    :func:`~hetopt.data.rates.equal_share_rate`. So for tenants a level of at least 1 is the sharing incentive.

    Parameters
    ----------
    scale_by_demand:
        Count a gang's rate once per GPU (Gavel's scale factor), so that GPUs are shared equally. False: time is shared
        equally, and the base treats every gang as a single GPU.
    """

    scale_by_demand: bool = True
    name: str = "least_ratio"

    def __post_init__(self) -> None:
        boolean(self.scale_by_demand, "LeastRatio.scale_by_demand")

    def base(self, entities: Entities) -> Numbers:
        """(n,) rate that makes the level 1."""
        rate = equal_share_rate(entities)
        return np.asarray(rate if self.scale_by_demand else rate * entities.demand)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain and the rows as formulas."""
        base = "f[e]" if self.scale_by_demand or kind == "tenants" else "d[e] * f[e]"
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.1] | least ratio
                lambda_
            subject to
              row [Gavel, section 4.1]
                | every entity has this multiple of its rate under the equal share | {rate_unit(kind)}
                rate[e] >= lambda_ * {base} for e in E
            with
              lambda_ as level | least ratio
                lambda_ >= 0
            """,
            definitions=(equal_share(kind),),
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class SoonestEnd(MaxMinRate):
    """Minimise the makespan, the time at which the last present job completes, [Gavel, section 4.2].

    Gain = level; rows, for all e: ``rate[e] >= work_left[e] / horizon * level``, where horizon [s] is the makespan of
    equal division: the makespan is horizon / level, see :func:`makespan_seconds`. Weights are ignored, and so are jobs
    that can use no GPU now.
    """

    name: str = "soonest_end"
    kind: Literal["jobs"] = "jobs"

    def base(self, entities: Entities) -> Numbers:
        """(n,) rate that makes the level 1."""
        work = entities.job_array("work_left")
        if not work.any():
            raise InvalidInstance("no job has work left, so there is no makespan to minimise")
        fair = equal_share_rate(entities)
        able = (work > 0) & (fair > 0)
        horizon = (work[able] / fair[able]).max() if able.any() else 1
        return np.where(able, work / horizon, 0)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain and the rows as formulas."""
        what = "how many times sooner the last job is done than under equal division"
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.2] | {what}
                sigma
            subject to
              row [Gavel, section 4.2]
                | every job is done sigma times sooner than after H; jobs that can use no GPU are left out | work/s
                rate[e] >= (sigma * W_left[e] / H if f[e] > 0 else 0) for e in E
            with
              sigma as level | {what}
                sigma >= 0
            where
              H | makespan of equal division | s
                H == max(W_left[e] / f[e] for e in E if W_left[e] > 0 if f[e] > 0)
            """,
            definitions=(equal_share(kind),),
            symbols=shared(kind),
        )


def makespan_seconds(entities: Entities, share: Floats) -> float:
    """Seconds until the last present job completes if shares stay constant; infinite if a job gets nothing."""
    work, rate = entities.source.job_array("work_left"), entities.rate(share)
    with np.errstate(divide="ignore"):
        return float((work[work > 0] / rate[work > 0]).max(initial=0.0))


@dataclass(frozen=True)
class InOrder(LinearGain):
    """Prefer earlier jobs, on their fastest GPU types, [Gavel, section 4.2].

    Gain = ``sum_e (n - rank[e]) / n * demand[e] * rate[e] / fastest[e]``, with rank 0 for the first in order: a GPU
    second on a job's fastest type is worth more for earlier jobs. Jobs without work left have no gain.

    Parameters
    ----------
    order:
        ``"arrival"``: first in, first out. ``"time_left"``: shortest time left on the fastest type first.

    Raises
    ------
    InvalidOption
        Another order.
    """

    order: Literal["arrival", "time_left"] = "arrival"
    name: str = "in_order"
    kind: Literal["jobs"] = "jobs"

    def __post_init__(self) -> None:
        one_of(self.order, ("arrival", "time_left"), "InOrder.order")

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain per unit of share."""
        n, fastest = len(entities.names), fastest_rate(entities)
        runs, work = fastest > 0, entities.job_array("work_left")
        top = np.where(runs, fastest, 1)
        if self.order == "arrival":
            key = entities.source.job_array("arrival")
        else:
            key = np.where(runs, work / top, np.inf).astype(float)
        rank = np.empty(n)
        rank[np.argsort(key, kind="stable")] = np.arange(n)
        gain = np.where(runs & (work > 0), entities.numbers(1.0 - rank / n) * entities.demand / top, 0)
        return np.asarray(gain[:, None] * entities.speed)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        order = "arrival" if self.order == "arrival" else "the time left on its fastest type"
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.2]
                | GPUs relative to the job's fastest type, with larger factors for earlier jobs | GPUs
                sum((1 - o[e] / len(E)) * d[e] * rate[e] / u[e] for e in E if W_left[e] > 0 if u[e] > 0)
            symbols
              o[e] | place 0, 1, … of e by {order}
              u[e] | work per second of e on its fastest type of which there are GPUs | work/s
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True, eq=False)
class FinishTimeTerms:
    """rho = elapsed + remaining / y, y = rate / unit, for the r jobs ``active`` with work left that can use some GPU.

    Attributes
    ----------
    elapsed:
        (r,) time since arrival, in units of the isolated finish time (since arrival), >= 0.
    remaining:
        (r,) isolated time for the work left, in the same units.
    unit:
        (r,) isolated rate, work per second.
    """

    active: NDArray[np.intp]
    elapsed: Floats
    remaining: Floats
    unit: Floats

    def rho(self, y: Floats) -> Floats:
        """(r,) finish time relative to the isolated one; infinite where y is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.elapsed + self.remaining / y)


@dataclass(frozen=True)
class FinishTime(ArrayComponent):
    """Minimise the largest rho: gain = -rho, a column.

    Rows, for jobs e with work left that can use a GPU: ``rho >= elapsed[e] + remaining[e] * unit[e] / rate[e]``, not
    linear. A job's weight scales its isolated part of the cluster.

    Parameters
    ----------
    isolated:
        Job -> seconds in which it would have done its work so far if isolated. Default, also for jobs that it does not
        have: the time since their arrival.

    Raises
    ------
    InvalidOption
        A time below 0.
    """

    isolated: Mapping[str, float] | None = None
    name: str = "finish_time"
    kind: Literal["jobs"] = "jobs"

    def __post_init__(self) -> None:
        if self.isolated is not None:
            for job, seconds in any_mapping(
                self.isolated, "FinishTime.isolated", InvalidOption, "from jobs to seconds"
            ).items():
                at_least(seconds, ("FinishTime.isolated", Item(job)), 0.0, InvalidOption)
            object.__setattr__(self, "isolated", FrozenDict(self.isolated))

    def terms(self, entities: Entities) -> FinishTimeTerms:
        """The coefficients of the rows.

        Raises
        ------
        InvalidInstance
            No job has work left.
        """
        instance = entities.source
        work = instance.job_array("work_left")
        if not work.any():
            raise InvalidInstance("no job has work left, so finish-time fairness is not defined")
        rate = isolated_rate(entities)
        active = np.flatnonzero((work > 0) & (rate > 0))
        unit = rate[active]
        elapsed = np.maximum(instance.time - instance.job_array("arrival")[active], 0.0)
        known = self.isolated or {}
        before = [known.get(entities.names[e], elapsed[i]) for i, e in enumerate(active.tolist())]
        remaining = work[active] / unit
        isolated = np.array(before) + remaining
        return FinishTimeTerms(active, elapsed / isolated, remaining / isolated, unit)

    def floor(self, entities: Entities, gain: float) -> Floats:
        """(n,) least rates with which the gain is ``gain``."""
        jobs, result = self.terms(entities), np.zeros(len(entities.names))
        result[jobs.active] = jobs.unit * jobs.remaining / (-gain - jobs.elapsed)
        return result

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``rho`` and the rows ``row[e]``; minus rho."""
        entities, jobs = model.entities, self.terms(model.entities)
        start_inside(model)
        block.rho = pyo.Var(domain=pyo.NonNegativeReals, initialize=1.0)
        block.row = pyo.Constraint([entities.names[e] for e in jobs.active])
        work = jobs.remaining * jobs.unit
        for i, e in enumerate(jobs.active.tolist()):
            name = entities.names[e]
            block.row[name] = block.rho >= float(jobs.elapsed[i]) + float(work[i]) / model.rate[name]
        return -block.rho

    def rows(self, entities: Entities) -> Arrays:
        """The column and the tangents of the rows."""
        jobs = self.terms(entities)
        one = np.zeros(len(jobs.active), dtype=np.intp)
        return Arrays(
            own_gain={"rho": np.array([-1.0])},
            columns=(Columns("rho"),),
            curves=(Curves("rho", -1.0, one, jobs.active, AlphaFair(2), jobs.remaining, jobs.unit, -jobs.elapsed),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain and the rows as formulas."""
        what = "largest ratio of the finish time to the isolated finish time"
        before, symbol = "g[e]", ""
        if self.isolated is not None:
            before, symbol = "h[e]", "h[e] | time in which e would have done its work so far if isolated | s"
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.2] | {what}
                -rho_max
            subject to
              row [Gavel, section 4.2] | no ratio is larger
                rho_max >= (g[e] + W_left[e] / rate[e]) / ({before} + W_left[e] / q[e])
                for e in E if W_left[e] > 0 if q[e] > 0
            with
              rho_max as rho | {what}
                rho_max >= 0
            where
              q[e] [Gavel, section 4.2]
                | work per second of e alone on its fair part of the cluster, running at most all the time | work/s
                q[e] == min(pi[e] / (d[e] * sum(pi[o] for o in E)), 1 / sum(m[k] for k in K))
                * sum(v[e, k] * m[k] for k in K) for e in E
            symbols
              g[e] | time since e arrived | s
              {symbol}
            """,
            symbols=shared(kind),
        )
