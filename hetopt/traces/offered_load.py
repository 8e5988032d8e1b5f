"""The load that the jobs of a trace offer to a cluster, and scaling arrivals to a given load."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.checks import at_least, expect
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.conversion import TooLarge, assign_models


def offered_load(instance: Instance) -> float:
    """GPU-seconds of demand per second, relative to the GPUs of the cluster (no unit).

    The demand of a job is its GPUs times its duration at the mean speed over all GPUs of the types that can run its
    gang. Seconds count from the first to the last arrival. If all GPUs are equally fast, queues grow without bound at a
    load above 1; otherwise a good policy sustains more by running jobs on types that are fast for them.

    Raises
    ------
    InvalidInstance
        There are no jobs, all arrive at once, or one can run on no GPU type alone.
    """
    jobs = expect(Instance, instance, "instance").entities("jobs")
    there = jobs.capacity * jobs.allowed
    if not there.any(axis=1).all():
        name = jobs.names[int(np.flatnonzero(~there.any(axis=1))[0])]
        raise InvalidInstance(
            "can run on no GPU type alone, so its load is not known; leave it out", ("jobs", Item(name))
        )
    mean = (there * jobs.speed).sum(axis=1) / there.sum(axis=1)
    gpu_seconds = float(jobs.demand @ (instance.job_array("work") / mean))
    return gpu_seconds / (_span(instance.job_array("arrival")) * float(jobs.capacity.sum()))


def scale_to_load(
    table: pd.DataFrame,
    load: float,
    cluster: Cluster,
    catalogue: Catalogue | None = None,
    *,
    seed: int = 0,
    reference: str | None = None,
    too_large: TooLarge = "drop",
) -> pd.DataFrame:
    """Scale the arrival times of the jobs to a given load.

    The instance that :func:`~hetopt.traces.conversion.to_instance` builds from the result with the same settings has
    this :func:`offered_load`.

    Parameters
    ----------
    table:
        A trace, see :func:`~hetopt.traces.conversion.to_instance`.
    load:
        The load, e.g. 0.9.
    cluster:
        The cluster to which the load refers.
    catalogue:
        Models and their speeds; None: equal speeds on every GPU type.
    seed, reference, too_large:
        As for :func:`~hetopt.traces.conversion.to_instance`. Jobs that would be dropped do not count.

    Returns
    -------
    DataFrame
        The table with other arrivals; the first stays.

    Raises
    ------
    InvalidInstance
        As for :func:`~hetopt.traces.conversion.to_instance`, or all jobs arrive at once.
    InvalidOption
        ``load`` is not above 0.
    """
    at_least(load, "load", 0.0, InvalidOption, strict=True)
    jobs = table
    if catalogue is None:
        equal = dict.fromkeys(expect(Cluster, cluster, "cluster").type_names, 1.0)
        catalogue = Catalogue("all alike", (TrainedModel("any", equal),))
        jobs = table.drop(columns="model", errors="ignore") if isinstance(table, pd.DataFrame) else table
    found = assign_models(jobs, cluster, catalogue, seed=seed, reference=reference, too_large=too_large)
    arrival = found.table["arrival"].to_numpy(dtype=float)
    gpu_seconds = float(found.gpus @ (found.seconds / found.mean_speed))
    now = gpu_seconds / (_span(arrival) * sum(cluster.capacity.values()))
    every = table["arrival"].to_numpy(dtype=float)
    first = every.min()
    return table.assign(arrival=first + (every - first) * (now / load))


def _span(arrival: Floats) -> float:
    """Seconds from the first arrival to the last."""
    span = float(arrival.max() - arrival.min())
    if span <= 0:
        raise InvalidInstance("all jobs arrive at the same time; a load per second needs at least two arrivals")
    return span
