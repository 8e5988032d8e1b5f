"""The workload of Hadar's simulations: jobs of a trace, each with a model that suits its size."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.checks import choices, expect, whole
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.hadar.classes import CLASSES, HOURS, MODELS
from hetopt.traces.columns import has, names, numbers, row_of

HOUR = 3600.0
"""Seconds."""


def from_trace(
    table: pd.DataFrame, cluster: Cluster, *, jobs: int = 480, seed: int = 0, reference: str = "V100"
) -> Instance:
    """The workload of Hadar's simulations: jobs drawn from a trace, all there at the start [Hadar, section IV-A].

    A job's GPU-hours give its class, and a model is drawn from those of the class, each as likely as another
    (:data:`~hetopt.models.hadar.classes.CLASSES`); the job's name begins with it. On which GPUs a job ran, the trace
    does not say. As in Gavel's simulations [Gavel], whose setup the paper follows, the duration counts as one on V100:
    the work is in seconds of the whole gang on V100, of which it does 1 per second there, and on other types what its
    model's speed is over that on V100 (:data:`~hetopt.models.hadar.classes.MODELS`, four digits).

    Jobs are not drawn that came outside of :data:`~hetopt.models.hadar.classes.HOURS` (where the table says when), that
    ask for more GPUs than the cluster has, or that are of no class: the text leaves 50 to 60 and more than 100
    GPU-hours open. ``source`` of the result says how many, each counted for the first reason that holds.

    Parameters
    ----------
    table:
        As :func:`~hetopt.traces.philly.read_philly` or :meth:`~hetopt.traces.philly.PhillyLike.table` give it: ``job``,
        ``duration`` (seconds), ``gpus``, and ``hour`` if the hour of the day shall matter.
    cluster:
        With K80, P100 and V100, or some of them.
    jobs:
        How many to draw; none is drawn twice.
    seed:
        The same seed draws the same jobs and models from the same table.
    reference:
        The GPU type to which durations refer.

    Returns
    -------
    Instance
        Its jobs are in the order of the table.

    Raises
    ------
    InvalidInstance
        The table is none, a column is missing, a row is no job, the cluster has another GPU type, or there are fewer
        jobs to draw from than asked for.
    InvalidOption
        ``jobs`` is no whole number >= 1, ``seed`` none >= 0, or ``reference`` no such GPU type.
    """
    jobs, seed = whole(jobs, "jobs", 1), whole(seed, "seed", 0)
    _check_types(cluster, reference)
    rows, dropped = _candidates(table, sum(cluster.capacity.values()))
    if len(rows) < jobs:
        raise InvalidInstance(f"jobs is {jobs}, but only {len(rows)} of the table can be drawn. {dropped}")
    streams = [np.random.default_rng([seed, part]) for part in range(2)]
    drawn = rows.iloc[np.sort(np.argsort(streams[0].random(len(rows)), kind="stable")[:jobs])]
    made = []
    for job, seconds, gpus, models, level in zip(
        *(drawn[key].tolist() for key in drawn), streams[1].random(jobs).tolist(), strict=True
    ):
        model = models[int(level * len(models))]
        speedup = MODELS[model].speedup
        speed = {t: round(speedup[t] / speedup[reference], 4) for t in cluster.type_names}
        made.append(Job(f"{model}-{job}", speed, max(round(seconds), 1), gpus, dataset=MODELS[model].dataset))
    source = f"Hadar, section IV-A: {jobs} jobs drawn from {len(rows)} of a trace, all there at the start. {dropped}"
    return Instance(cluster, jobs=tuple(made), source=source)


def _check_types(cluster: Cluster, reference: str) -> None:
    types = next(iter(MODELS.values())).speedup
    if reference not in tuple(types):
        raise InvalidOption(f"reference is {reference!r}; {choices(str(reference), types)}")
    for name in expect(Cluster, cluster, "cluster").type_names:
        if name not in types:
            raise InvalidInstance(
                f"cluster has the GPU type {name!r}, whose speed is not known; {choices(name, types)}"
            )


def _candidates(table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, str]:
    """Rows that may be drawn, with the models of their class; and what is said of the others."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"table is a {type(table).__name__}; it must be a pandas DataFrame")
    has(table, ("job", "duration", "gpus"), "table")
    place = row_of(table)
    seconds, gpus = numbers(table["duration"], place), numbers(table["gpus"], place, whole=True)
    hours = seconds * gpus / HOUR
    inside = [(size.above < hours) & (hours <= size.most) for size in CLASSES]
    reasons = {
        "came at other hours": ~table["hour"].isin(HOURS) if "hour" in table.columns else np.zeros(len(table), bool),
        "ask for more GPUs than there are": gpus > most,
        "are of no class by their GPU-hours": ~np.any(inside, axis=0),
    }
    left, said = np.ones(len(table), dtype=bool), []
    for reason, those in reasons.items():
        if number := int((left & np.asarray(those)).sum()):
            said.append(f"{number} {reason}")
        left &= ~np.asarray(those)
    columns = {
        "job": names(table["job"], place, unique=True),
        "duration": seconds,
        "gpus": gpus.astype(np.int64),
        "models": [CLASSES[i].models for i in np.argmax(inside, axis=0).tolist()],
    }
    dropped = f"Not drawn from: {'; '.join(said)}." if said else "Every job of it could be drawn."
    return pd.DataFrame(columns)[left], dropped
