"""Gavel's policies, over jobs or over tenants, as compositions of parts.

Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020. A job's share is the part of time that its gang runs on a GPU type; for jobs every policy
has Gavel's row that these parts sum to at most 1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hetopt.data.entities import Entities
from hetopt.models.concave import CompletionTime
from hetopt.models.gavel.arrays import Least, least_program, time_program
from hetopt.models.gavel.finish_time import FinishTime
from hetopt.models.gavel.interior import solve_concave, solve_finish_time, solve_least, solve_profit
from hetopt.models.gavel.parts import InOrder, LeastRatio, SoonestEnd, TimeFraction
from hetopt.models.gavel.water_filling import WaterFilling
from hetopt.models.objectives import WeightedRate
from hetopt.programs.formulation import Formulation
from hetopt.programs.linear import LinearProgram
from hetopt.solving.options import Options
from hetopt.solving.point import Point


def max_min_fairness(*, scale_by_demand: bool = True, tenant_gpus: float = np.inf) -> Formulation:
    """The largest least ratio of rate to (weight times) the rate under the equal share, [Gavel, section 4.1].

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.parts.LeastRatio`.
    tenant_gpus:
        See :class:`~hetopt.models.gavel.parts.TimeFraction`; 1 gives [OEF, eq. 3].
    """
    return _least(LeastRatio(scale_by_demand), "Gavel max-min fairness", tenant_gpus=tenant_gpus)


def makespan() -> Formulation:
    """The least time until all present jobs are done, as one linear program, [Gavel, section 4.2].

    The objective says how many times sooner than under equal division; :func:`makespan_seconds` gives seconds.
    """
    return _least(SoonestEnd(), "Gavel makespan")


def total_throughput() -> Formulation:
    """The largest (weighted) total rate, [Gavel, section 4.2]."""
    return _profit(WeightedRate(), "Gavel total throughput")


def fifo() -> Formulation:
    """First in, first out, each on its fastest GPU type where that pays, [Gavel, section 4.2]."""
    return _profit(InOrder("arrival"), "Gavel FIFO")


def shortest_job_first() -> Formulation:
    """Jobs with the shortest time left first: the SJF-like policy that FFT compares with, [FFT, section 6.1]."""
    return _profit(InOrder("time_left"), "Gavel shortest job first")


def finish_time_fairness() -> Formulation:
    """The least largest ratio of finish time to that on an own part of the cluster, [Gavel, section 4.2]."""
    return Formulation((FinishTime(), TimeFraction()), specialist=solve_finish_time, title="Gavel finish-time fairness")


def mean_completion_time() -> Formulation:
    """The least sum of (weighted) work left over rate, [FFT, section 2.3]."""
    part = CompletionTime()
    return Formulation(
        (part, TimeFraction()), specialist=partial(solve_concave, part), title="Gavel mean completion time"
    )


def water_filling(*, scale_by_demand: bool = True, time_limit: float | None = None) -> WaterFilling:
    """Max-min fairness among the least, then among the next, and so on, [Gavel, section 4.3].

    Settings as in :class:`~hetopt.models.gavel.water_filling.WaterFilling`.
    """
    return WaterFilling(scale_by_demand, time_limit=time_limit)


def _least(part: LeastRatio | SoonestEnd, title: str, tenant_gpus: float = np.inf) -> Formulation:
    parts = (part, TimeFraction(tenant_gpus))
    if tenant_gpus != np.inf:
        return Formulation(parts, title=title)
    return Formulation(
        parts, compile=partial(_least_program, part), specialist=partial(_solve_least, part), title=title
    )


def _rows(part: LeastRatio | SoonestEnd, entities: Entities) -> Least:
    return Least(*part.scaled(entities), part.name)


def _least_program(part: LeastRatio | SoonestEnd, entities: Entities) -> LinearProgram:
    return least_program(entities, _rows(part, entities))


def _solve_least(part: LeastRatio | SoonestEnd, entities: Entities, options: Options) -> Point:
    return solve_least(entities, _rows(part, entities), options)


def _profit(part: WeightedRate | InOrder, title: str) -> Formulation:
    return Formulation(
        (part, TimeFraction()),
        compile=partial(_profit_program, part),
        specialist=partial(_solve_profit, part),
        title=title,
    )


def _profit_program(part: WeightedRate | InOrder, entities: Entities) -> LinearProgram:
    return time_program(entities, part.profit(entities))


def _solve_profit(part: WeightedRate | InOrder, entities: Entities, options: Options) -> Point:
    return solve_profit(entities, part.profit(entities), options)
