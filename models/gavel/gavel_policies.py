"""Gavel's policies, over jobs or over tenants: compositions of components, and water filling.

Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020. A job's share is the fraction of time that its gang runs on a GPU type; for jobs every
policy has Gavel's row that these fractions sum to at most 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hetopt.data.entities import Kind, check_kind
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.concave import CompletionTime
from hetopt.models.gavel.gavel_components import FinishTime, InOrder, LeastRatio, SoonestEnd, TimeFraction
from hetopt.models.gavel.space_sharing import with_space_sharing
from hetopt.models.objectives import WeightedRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.programs.mathematics import Mathematics
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, KEPT_OPTIMUM


@dataclass(frozen=True)
class WaterFilling:
    """Lexicographic max-min: maximise the least ratio, then the least of those that can still grow, and so on.

    The ratio is that of :class:`~hetopt.models.gavel.gavel_components.LeastRatio`. Each linear program maximises a
    common level of all entities that are not fixed yet. Entities whose row has a nonzero dual stay at this level in
    every optimum and are fixed there. Up to n programs, each warm-started from the last.

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.gavel_components.LeastRatio`.
    kind:
        ``"tenants"`` or ``"jobs"``; None: tenants if the instance has any.
    time_limit:
        Seconds for all programs together, or None.

    Raises
    ------
    InvalidOption
        Another kind; a time limit that is not positive.
    NotSolved
        On a call: the time limit is exceeded before all entities are fixed.
    InvalidInstance
        On a call: see :func:`~hetopt.data.instance.present_entities`.
    """

    traits: ClassVar[Traits] = Traits(fractional=True)

    scale_by_demand: bool = True
    kind: Kind | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_kind("WaterFilling.kind", self.kind)
        LeastRatio(self.scale_by_demand)  # rejects values other than True and False
        Options(time_limit=self.time_limit)  # rejects invalid limits

    def mathematics(self) -> Mathematics:
        """The first program as formulas."""
        made = self._first().mathematics(self.kind)
        return replace(made, title=f"{made.title}; later programs fix the rates of entities whose level cannot rise")

    def _first(self) -> Formulation:
        return Formulation((LeastRatio(self.scale_by_demand), TimeFraction()), self.kind, "Gavel water filling")

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        """The allocation, with a certificate for the least ratio."""
        began, options = time.perf_counter(), Options(time_limit=self.time_limit).started()
        entities = present_entities(instance, self.kind, "WaterFilling")
        compiled = Compiled(self._first(), entities)
        part = LeastRatio(self.scale_by_demand)
        n, level_column, rows = len(entities.names), entities.speed.size, compiled.rows_of(part.name)
        base = part.base(entities)
        growth = base / part.sizes(entities, base)
        session, open_ = Session(compiled.program.scaled(), options, presolve=False, explain=False), growth > 0
        first = point = session.solve()
        seconds, passes = point.seconds, 1
        while True:
            if point.status == "time_limit":
                raise NotSolved(f"not all levels found within time_limit={self.time_limit:g} s; raise it", "time_limit")
            level = float(point.x[level_column])
            dual = point.row_dual
            assert dual is not None
            stuck = open_ & (-dual[rows] * growth > EQUAL / n)
            stuck = stuck if stuck.any() else open_
            for e in np.flatnonzero(stuck).tolist():
                session.set_coefficient(rows.start + e, level_column, 0.0)
                session.set_row_bounds([rows.start + e], [max(0.0, level * growth[e] * (1.0 - KEPT_OPTIMUM))], [np.inf])
            open_ &= ~stuck
            if not open_.any():
                break
            point = self._next(session, passes + 1)
            seconds, passes = seconds + point.seconds, passes + 1
        last = replace(
            point, objective=first.objective, bound=first.bound, row_dual=first.row_dual, method="water filling"
        )
        last = replace(last, seconds=seconds, passes=passes).unscaled(compiled.program)
        share = np.maximum(point.share, 0.0)
        certificate = certify(compiled, last, time.perf_counter() - began, with_sensitivity=False)
        return Allocation(entities, share, certificate), None

    @staticmethod
    def _next(session: Session, level: int) -> Point:
        """The point of this level; the last level's point satisfies its rows, but not after rounding.

        HiGHS then reports 'Unknown' (status ``"error"``), less often an unbounded or infeasible program, which it
        cannot be. Another ``"error"`` may have another cause, so its text is kept.
        """
        try:
            return session.solve()
        except NotSolved as problem:
            if problem.status == "time_limit":
                raise
            own = f" ({problem})" if problem.status == "error" else ""
            reason = f"level {level} cannot be found{own}: speeds or weights in the data are too far apart"
            raise NotSolved(reason, "error") from problem


def max_min_fairness(*, scale_by_demand: bool = True, tenant_gpus: float = np.inf) -> Formulation:
    """Max-min ratio of rate to (weight times) the rate under the equal share, [Gavel, section 4.1].

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.gavel_components.LeastRatio`.
    tenant_gpus:
        See :class:`~hetopt.models.gavel.gavel_components.TimeFraction`; 1 gives [OEF, eq. 3].
    """
    return Formulation((LeastRatio(scale_by_demand), TimeFraction(tenant_gpus)), title="Gavel max-min fairness")


def max_min_packing(*, scale_by_demand: bool = True) -> Formulation:
    """Max-min fairness with space sharing: jobs run alone or in pairs on the same GPUs, [Gavel, section 3.1].

    Settings as in :func:`max_min_fairness`.
    """
    return with_space_sharing(max_min_fairness(scale_by_demand=scale_by_demand))


def makespan() -> Formulation:
    """The least time until all present jobs are done, as one linear program, [Gavel, section 4.2].

    The objective is the speedup over equal division; :func:`makespan_seconds` gives seconds.
    """
    return Formulation((SoonestEnd(), TimeFraction()), title="Gavel makespan")


def total_throughput() -> Formulation:
    """The largest (weighted) total rate, [Gavel, section 4.2]."""
    return Formulation((WeightedRate(), TimeFraction()), title="Gavel total throughput")


def fifo() -> Formulation:
    """First in, first out, each job on its fastest GPU type if that increases the gain, [Gavel, section 4.2]."""
    return Formulation((InOrder("arrival"), TimeFraction()), title="Gavel FIFO")


def shortest_job_first() -> Formulation:
    """Jobs with the shortest time left first: the SJF-like baseline of FFT, [FFT, section 6.1]."""
    return Formulation((InOrder("time_left"), TimeFraction()), title="Gavel shortest job first")


def finish_time_fairness() -> Formulation:
    """Min-max ratio of the finish time to the isolated finish time, [Gavel, section 4.2]."""
    return Formulation((FinishTime(), TimeFraction()), title="Gavel finish-time fairness")


def mean_completion_time() -> Formulation:
    """The least sum of (weighted) work left over rate, [FFT, section 2.3]."""
    return Formulation((CompletionTime(), TimeFraction()), title="Gavel mean completion time")


def water_filling(*, scale_by_demand: bool = True, time_limit: float | None = None) -> WaterFilling:
    """Lexicographic max-min fairness, [Gavel, section 4.3].

    Settings as in :class:`~hetopt.models.gavel.gavel_policies.WaterFilling`.
    """
    return WaterFilling(scale_by_demand, time_limit=time_limit)
