"""From the table of a trace to an instance: every job with its model, its speeds and what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from pyomo.common.gc_manager import PauseGC

from hetopt.checks import shown
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.errors import InvalidOption
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.columns import has, names, numbers, row_of
from hetopt.traces.models import Assigned, TooLarge, assign, unknown

Tenants: TypeAlias = Literal["virtual clusters", "users", "models"]
OWNERS: Mapping[str, str] = {"virtual clusters": "tenant", "users": "user", "models": "model"}
"""Who is a tenant -> column with their names."""


def to_instance(
    table: pd.DataFrame,
    cluster: Cluster,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    reference: str | None = None,
    tenants: Tenants | None = None,
    too_large: TooLarge = "drop",
    name: str = "",
    source: str = "",
) -> Instance:
    """An instance of the jobs of a trace.

    A job's work is its duration in seconds on the reference GPU type, where its gang does 1 per second; on other types
    it does what its model's speed there is over that on the reference. Where the table says how many ``iterations`` a
    job takes, its work is these, and throughputs are in iterations per second, so that it takes as long. State,
    dataset, memory of a worker and parallelism are its model's.

    Parameters
    ----------
    table:
        As generators make it and readers give it: ``job``, ``arrival`` and ``duration`` (seconds), ``gpus``; if known
        ``tenant``, ``user``, ``group``, ``model``, ``iterations``. Others are not looked at.
    cluster:
        Its GPU types must be in the catalogue.
    catalogue:
        Models and their speeds.
    seed:
        Of the models that are drawn for jobs without one, see :func:`~hetopt.traces.models.with_models`.
    reference:
        GPU type to which durations refer; by default the catalogue's.
    tenants:
        Who is owed a fair part: the virtual clusters (column ``tenant``), the users (column ``user``), or one tenant
        for each model. Each has a job type for every model that it trains, with its speed over that on the slowest type
        of the cluster that can train it. None: nobody; jobs then only say whose they are: their ``user``, else their
        ``tenant``.
    too_large:
        What becomes of jobs that ask for more GPUs than any one type has that can train their model: ``"drop"``, or
        ``"cut"`` to as many as the type has, with as much longer a duration. Jobs whose model no type can hold are
        always dropped. ``source`` says how many.
    name, source:
        Of the instance; ``source`` is put before what is said of dropped jobs.

    Returns
    -------
    Instance
        Its jobs are in the order of the table. Each can run on at least one GPU type alone.

    Raises
    ------
    InvalidInstance
        The table is none, a column is missing, a row is no job, the cluster has a GPU type that is not in the
        catalogue, or no job fits it.
    InvalidOption
        A setting that is none of those above.

    Examples
    --------
    >>> from hetopt import Cluster
    >>> from hetopt.traces.catalogues import FFT
    >>> from hetopt.traces.fft import FFTTrace
    >>> cluster = Cluster.of({"T4": 12, "A10": 12, "V100": 12}, gpus_per_server=4)
    >>> job = to_instance(FFTTrace(2).table(), cluster, FFT).jobs[0]
    >>> job.model, job.demand, job.throughput["T4"]
    ('GPT-2-large', 4, 1.0)
    """
    if not (tenants is None or (isinstance(tenants, str) and tenants in get_args(Tenants))):
        raise InvalidOption(f"tenants is {shown(tenants)}; it must be 'virtual clusters', 'users', 'models' or None")
    found = assign(table, cluster, catalogue, seed=seed, reference=reference, too_large=too_large)
    owner = _owners(found.table, tenants)
    with PauseGC():  # nothing here is garbage
        jobs = _jobs(found, owner, typed=tenants is not None)
        return Instance(
            cluster,
            tenants=() if tenants is None else _tenants(found, owner),
            jobs=jobs,
            name=name,
            source=" ".join(filter(None, [source, _said(found, len(table))])),
        )


def _said(found: Assigned, rows: int) -> str:
    text = f"{len(found.table)} of {rows} jobs of a trace; models and speeds: catalogue {found.catalogue.name!r}, "
    text += f"durations on {found.reference}."
    return " ".join([text, *(f"Of them {reason}." for reason in found.reasons)])


def _owners(table: pd.DataFrame, tenants: Tenants | None) -> list[str | None]:
    if tenants is not None:
        has(table, [OWNERS[tenants]], "table")
        return names(table[OWNERS[tenants]], row_of(table)).tolist()
    both = zip(_optional(table, "user"), _optional(table, "tenant"), strict=True)
    return [tenant if user is None else user for user, tenant in both]


def _optional(table: pd.DataFrame, key: str) -> list[str | None]:
    """A column of text, None where it says nothing."""
    if key not in table.columns:
        return [None] * len(table)
    column = table[key]
    return [None if gone else value for value, gone in zip(column.tolist(), unknown(column).tolist(), strict=True)]


def _jobs(found: Assigned, owner: Sequence[str | None], *, typed: bool) -> tuple[Job, ...]:
    table, types = found.table, found.cluster.type_names
    speeds = [dict(zip(types, row, strict=True)) for row in found.speed.tolist()]
    group = _optional(table, "group")
    work, per_second = _work(found)
    made = []
    columns = (table["job"].tolist(), table["arrival"].tolist(), found.kind.tolist(), found.gpus.tolist())
    rows = zip(*columns, work.tolist(), per_second.tolist(), owner, group, strict=True)
    for job, arrival, kind, gpus, total, rate, whose, alike in rows:
        model: TrainedModel = found.catalogue.models[kind]
        speed = speeds[kind] if rate == 1.0 else {t: rate * v for t, v in speeds[kind].items()}
        made.append(
            Job(
                job,
                speed,
                total,
                gpus,
                arrival,
                whose,
                memory_bytes=model.memory_bytes,
                checkpoint_bytes=model.state_bytes,
                dataset=model.dataset,
                dataset_bytes=model.dataset_bytes,
                parallelism=model.parallelism,
                job_type=model.name if typed else None,
                group=alike,
                model=model.name,
            )
        )
    return tuple(made)


def _work(found: Assigned) -> tuple[Floats, Floats]:
    """Work of each job, and how much of it its gang does per second on the reference."""
    if "iterations" not in found.table.columns:
        return found.seconds, np.ones(len(found.seconds))
    column = found.table["iterations"]
    given = column.notna().to_numpy()
    counted = np.where(given, 0.0, found.seconds)
    counted[given] = numbers(column[given], row_of(found.table[given]))
    return counted, np.where(given, counted / found.seconds, 1.0)


def _tenants(found: Assigned, owner: Sequence[str | None]) -> tuple[Tenant, ...]:
    pairs = dict.fromkeys(zip(owner, found.kind.tolist(), strict=True))  # in the order in which they come
    kinds: dict[str, list[JobType]] = {}
    for whose, kind in pairs:
        model, speed = found.catalogue.models[kind], found.speed[kind]
        relative = (speed / speed[found.holds[kind]].min()).tolist()
        speedup = dict(zip(found.cluster.type_names, relative, strict=True))
        kinds.setdefault(str(whose), []).append(JobType(model.name, speedup, model.memory_bytes, any_scale=True))
    return tuple(Tenant(name, tuple(rows)) for name, rows in kinds.items())
