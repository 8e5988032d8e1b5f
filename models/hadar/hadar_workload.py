"""The workload of Hadar's simulations: jobs of a trace, each with a model that suits its size."""

from __future__ import annotations

import pandas as pd

from hetopt.checks import expect, known, one_of
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.traces.hadar_generator import draw_jobs
from hetopt.traces.paper_models import HADAR


def from_trace(
    table: pd.DataFrame, cluster: Cluster, *, jobs: int = 480, seed: int = 0, reference: str = "V100"
) -> Instance:
    """The workload of Hadar's simulations: jobs drawn from a trace, all present at the start [Hadar, section IV-A].

    A job's GPU-hours determine its class, and a model is drawn from those of the class
    (:func:`~hetopt.traces.hadar_generator.draw_jobs`); the job's name begins with it. The trace does not report the GPU
    types of its jobs. As in Gavel's simulations [Gavel], whose setup the paper follows, durations are taken to be those
    on V100: work is in seconds of the whole gang on V100. The throughput is 1 on V100, and on other types the model's
    speed relative to V100 (:data:`~hetopt.traces.paper_models.HADAR`, four digits).

    Parameters
    ----------
    table:
        As :func:`~hetopt.traces.philly_reader.read_philly` or :meth:`~hetopt.traces.philly_generator.PhillyLike.table`
        give it: ``job``, ``duration`` (seconds), ``gpus``, and ``hour`` to take the hour of the day into account.
    cluster:
        With K80, P100 and V100, or some of them. No job is drawn that requests more GPUs than it has.
    jobs:
        How many to draw; none is drawn twice.
    seed:
        The same seed draws the same jobs and models from the same table.
    reference:
        The GPU type to which durations refer.

    Returns
    -------
    Instance
        Its jobs are in the order of the table; ``source`` says how many could not be drawn, and why.

    Raises
    ------
    InvalidInstance
        The table is none, a column is missing, a row is no job, the cluster has another GPU type, or there are fewer
        jobs to draw from than asked for.
    InvalidOption
        ``jobs`` is no whole number >= 1, ``seed`` none >= 0, or ``reference`` no such GPU type.
    """
    _check_types(cluster, reference)
    found, description = draw_jobs(table, jobs, seed, sum(cluster.capacity.values()))
    made = []
    for job, seconds, gpus, name in zip(*(found[key].tolist() for key in found), strict=True):
        model = HADAR[name]
        speed = {t: round(model.speed[t] / model.speed[reference], 4) for t in cluster.type_names}
        made.append(Job(f"{name}-{job}", speed, seconds, gpus, dataset=model.dataset))
    return Instance(cluster, jobs=tuple(made), source=f"Hadar, section IV-A: {description}")


def _check_types(cluster: Cluster, reference: str) -> None:
    one_of(reference, HADAR.types, "reference")
    for name in expect(Cluster, cluster, "cluster").type_names:
        known(name, HADAR.types, "cluster", "GPU type")
