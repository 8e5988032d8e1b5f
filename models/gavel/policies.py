"""Gavel's policies, over jobs or over tenants, as compositions of parts.

Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020. A job's share is the fraction of time that its gang runs on a GPU type; for jobs every
policy has Gavel's row that these fractions sum to at most 1.
"""

from __future__ import annotations

import numpy as np

from hetopt.formulations.formulation import Formulation
from hetopt.models.concave import CompletionTime
from hetopt.models.gavel.finish_time import FinishTime
from hetopt.models.gavel.parts import InOrder, LeastRatio, SoonestEnd, TimeFraction
from hetopt.models.gavel.water_filling import WaterFilling
from hetopt.models.objectives import WeightedRate


def max_min_fairness(*, scale_by_demand: bool = True, tenant_gpus: float = np.inf) -> Formulation:
    """Max-min ratio of rate to (weight times) the rate under the equal share, [Gavel, section 4.1].

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.parts.LeastRatio`.
    tenant_gpus:
        See :class:`~hetopt.models.gavel.parts.TimeFraction`; 1 gives [OEF, eq. 3].
    """
    return Formulation((LeastRatio(scale_by_demand), TimeFraction(tenant_gpus)), title="Gavel max-min fairness")


def makespan() -> Formulation:
    """The least time until all present jobs are done, as one linear program, [Gavel, section 4.2].

    The objective is the speedup over equal division; :func:`makespan_seconds` gives seconds.
    """
    return Formulation((SoonestEnd(), TimeFraction()), title="Gavel makespan")


def total_throughput() -> Formulation:
    """The largest (weighted) total rate, [Gavel, section 4.2]."""
    return Formulation((WeightedRate(), TimeFraction()), title="Gavel total throughput")


def fifo() -> Formulation:
    """First in, first out, each on its fastest GPU type if that pays, [Gavel, section 4.2]."""
    return Formulation((InOrder("arrival"), TimeFraction()), title="Gavel FIFO")


def shortest_job_first() -> Formulation:
    """Jobs with the shortest time left first: the SJF-like baseline of FFT, [FFT, section 6.1]."""
    return Formulation((InOrder("time_left"), TimeFraction()), title="Gavel shortest job first")


def finish_time_fairness() -> Formulation:
    """Min-max ratio of the finish time to that on an own part of the cluster, [Gavel, section 4.2]."""
    return Formulation((FinishTime(), TimeFraction()), title="Gavel finish-time fairness")


def mean_completion_time() -> Formulation:
    """The least sum of (weighted) work left over rate, [FFT, section 2.3]."""
    return Formulation((CompletionTime(), TimeFraction()), title="Gavel mean completion time")


def water_filling(*, scale_by_demand: bool = True, time_limit: float | None = None) -> WaterFilling:
    """Lexicographic max-min fairness, [Gavel, section 4.3].

    Settings as in :class:`~hetopt.models.gavel.water_filling.WaterFilling`.
    """
    return WaterFilling(scale_by_demand, time_limit=time_limit)
