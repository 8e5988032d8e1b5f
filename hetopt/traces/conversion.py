"""From the table of a trace to an instance: each job gets a model, its speeds and its requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyomo.common.gc_manager import PauseGC

from hetopt.checks import LEAST, any_mapping, at_least, choices, counted, expect, one_of, shown, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import GangSize, Job, JobType, Tenant, TrainingPhase, slowest_of_rows
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.traces.batch_sizes import phases_of
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.goodput import Goodput, best_of, gang_sizes
from hetopt.traces.trace_table import Locate, check_cells, check_trace, locate_in, names_of, numbers_of, require_columns

TooLarge: TypeAlias = Literal["drop", "cut"]

RECORDED = "recorded"
"""The reference for tables whose durations refer to the GPU type in the job's own row, column ``gpu_type``."""


def with_models(
    table: pd.DataFrame,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    cluster: Cluster | None = None,
    reference: str | None = None,
) -> pd.DataFrame:
    """Draw a model for every job without one.

    Models that train on as many GPUs (:meth:`~hetopt.traces.catalogue.Catalogue.trained_on`) are equally likely. Jobs
    of a group share one model, drawn by the GPUs of the first: a group is a recurring job.

    Parameters
    ----------
    table:
        A trace: columns ``job``, ``arrival``, ``duration`` and ``gpus``, optionally ``group`` and ``model``.
    catalogue:
        Models to draw from.
    seed:
        Seed of the draws.
    cluster:
        If given, draw only models that fit one of its GPU types.
    reference:
        If given, draw only models that run on this GPU type; :data:`RECORDED`: on all types of the column ``gpu_type``
        that the catalogue has.

    Raises
    ------
    InvalidInstance
        It is not a trace, a model is not in the catalogue, or no model fits the cluster.
    InvalidOption
        ``seed`` is not a whole number >= 0.
    """
    whole(seed, "seed", 0)
    locate = check_trace(table)
    gpus = numbers_of(table["gpus"], locate, whole=True).astype(np.int64)
    needed = [] if reference is None else [*filter(None, set(_types_of(table, catalogue, reference, locate)))]
    fitting = [
        model.name
        for model in catalogue.models
        if (cluster is None or model.fitting_types(cluster)) and all(model.speed[t] > 0 for t in needed)
    ]
    if not fitting:
        more = f" and runs on {', '.join(sorted(needed))}" if needed else ""
        raise InvalidInstance(f"no model of {catalogue.name!r} fits a GPU type of the cluster{more}; use other models")
    group = _groups(table)
    first = np.unique(group, return_index=True)[1]
    level, requested = np.random.default_rng(seed).random(len(first)), gpus[first]
    drawn = np.empty(len(first), dtype=object)
    for n in np.unique(requested).tolist():
        rows = requested == n
        names = np.array(catalogue.trained_on(n, fitting), dtype=object)
        drawn[rows] = names[(level[rows] * len(names)).astype(np.int64)]
    model = drawn[group]
    if "model" in table.columns:
        _refuse_unknown_models(table, catalogue, locate)
        model = np.where(is_blank(table["model"]), model, table["model"].to_numpy(dtype=object))
    return table.assign(model=model)


def _types_of(table: pd.DataFrame, catalogue: Catalogue, reference: str, locate: Locate) -> NDArray[np.object_]:
    """(rows,) GPU type to which each duration refers; empty where the catalogue does not have it."""
    if reference != RECORDED:
        return np.full(len(table), reference, dtype=object)
    require_columns(table, ["gpu_type"], locate)
    return table["gpu_type"].where(table["gpu_type"].isin(catalogue.types), "").to_numpy(dtype=object)


def unknown_models(table: pd.DataFrame, catalogue: Catalogue) -> NDArray[np.bool_]:
    """(rows,) whether a row of a trace names a model that is not in the catalogue."""
    if "model" not in table.columns:
        return np.zeros(len(table), dtype=bool)
    return ~is_blank(table["model"]) & ~table["model"].isin(list(catalogue)).to_numpy()


def drop_unknown_models(table: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Clear the names of models that are not in the catalogue, so that these jobs get a drawn model.

    Parameters
    ----------
    table:
        As for :func:`with_models`.
    catalogue:
        The known models.

    Returns
    -------
    DataFrame
        A copy; the table itself if all its models are known.

    Raises
    ------
    InvalidInstance
        It is not a trace.
    """
    check_trace(table)
    unknown = unknown_models(table, catalogue)
    return table.assign(model=table["model"].astype(object).mask(unknown, "")) if unknown.any() else table


def is_blank(column: pd.Series[Any]) -> NDArray[np.bool_]:
    """(rows,) whether a column of text has no value, or an empty one."""
    return np.asarray(column.isna() | (column.astype(object) == ""))


def _refuse_unknown_models(table: pd.DataFrame, catalogue: Catalogue, locate: Locate) -> None:
    """Refuse a model that is not in the catalogue."""
    unknown = unknown_models(table, catalogue)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        name = table["model"].iloc[[row]].tolist()[0]
        problem = f"is {shown(name)}, which is not in {catalogue.name!r}; {choices(str(name), catalogue)}"
        replaces = "drop_unknown_models() or --unknown-models draw replaces it"
        raise locate(InvalidInstance(f"{problem}; {replaces}", "model"), row)


def _groups(table: pd.DataFrame) -> Integers:
    """(rows,) number of the group, in order of appearance; a row without a group forms a separate group."""
    if "group" not in table.columns:
        return np.arange(len(table))
    pairs = zip(table["group"].tolist(), is_blank(table["group"]).tolist(), strict=True)
    labels = np.array([row if alone else str(name) for row, (name, alone) in enumerate(pairs)], dtype=object)
    return np.asarray(pd.factorize(labels)[0], dtype=np.int64)


class Adjustment(NamedTuple):
    """The number of jobs that were changed or dropped for a reason."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.number} {self.reason}"


@dataclass(frozen=True, eq=False)
class AssignedModels:
    """Jobs of a trace with their models, as arrays.

    Attributes
    ----------
    table:
        The jobs that can run, with every column; arrivals, durations and GPUs are numbers.
    model:
        (jobs,) position of the model in the catalogue.
    reference, recorded:
        GPU type to which speeds and seconds refer; whether durations in the trace refer to the type in each row
        instead, so that they were converted.
    seconds:
        (jobs,) duration on ``gpus`` GPUs of the reference type.
    gpus:
        (jobs,) GPUs of the gang.
    speed:
        (models, k) speed on each GPU type of the cluster, relative to the reference.
    fits:
        (models, k) whether the type can train the model.
    adjustments:
        Jobs that were dropped or cut.
    """

    table: pd.DataFrame
    cluster: Cluster
    catalogue: Catalogue
    reference: str
    recorded: bool
    model: Integers
    seconds: Floats
    gpus: Integers
    speed: Floats
    fits: NDArray[np.bool_]
    adjustments: tuple[Adjustment, ...]

    @cached_property
    def mean_speed(self) -> Floats:
        """(jobs,) mean speed over all GPUs of the types that can run the gang, relative to the reference."""
        capacity = np.array(list(self.cluster.capacity.values()), dtype=float)
        there = capacity * (self.fits[self.model] & (self.gpus[:, None] <= capacity))
        return np.asarray((there * self.speed[self.model]).sum(axis=1) / there.sum(axis=1))


def assign_models(
    table: pd.DataFrame,
    cluster: Cluster,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    reference: str | None = None,
    too_large: TooLarge = "drop",
) -> AssignedModels:
    """Assign models to the jobs of a trace and drop those that the cluster cannot run; see :func:`to_instance`."""
    one_of(too_large, get_args(TooLarge), "too_large")
    given = _check_types(cluster, catalogue, reference)
    recorded = given == RECORDED
    reference = catalogue.reference if recorded else given
    locate = check_trace(table)
    columns: dict[str, Any] = {
        "job": names_of(table["job"], locate, unique=True),
        "arrival": numbers_of(table["arrival"], locate, strict=False),
        "duration": numbers_of(table["duration"], locate),
        "gpus": numbers_of(table["gpus"], locate, whole=True).astype(np.int64),
    }
    table = with_models(table.assign(**columns), catalogue, seed=seed, cluster=cluster, reference=given)
    model = table["model"].map({name: i for i, name in enumerate(catalogue)}).to_numpy(dtype=np.int64)
    place = pd.Index(catalogue.types).get_indexer(pd.Index(_types_of(table, catalogue, given, locate)))
    known = place >= 0
    measured = np.array([[m.speed[t] for t in catalogue.types] for m in catalogue.models])
    there = np.where(known, measured[model, place], 1.0)  # where the duration was recorded
    where = "its gpu_type" if recorded else reference
    check_cells(table["model"], there > 0, locate, f"a model that runs on {where}, to which durations refer")
    on_reference = measured[:, catalogue.types.index(reference)]
    unit = np.where(on_reference > 0, on_reference, 1.0)
    speed = measured[:, [catalogue.types.index(t) for t in cluster.type_names]] / unit[:, None]
    fits = np.array([[t in m.fitting_types(cluster) for t in cluster.type_names] for m in catalogue.models])
    capacity = np.array(list(cluster.capacity.values()), dtype=np.int64)
    most, requested = (fits * capacity).max(axis=1)[model], columns["gpus"]
    nowhere, large = known & (most == 0), known & (most > 0) & (requested > most)
    left = known & ~nowhere & ~(large & (too_large == "drop"))
    if not left.any():
        other = "" if known.all() else ", or ran on GPU types whose speed is not in the catalogue"
        raise InvalidInstance(
            f"no job of the table fits the cluster: all request more GPUs or more memory than it has{other}"
        )
    change = "dropped" if too_large == "drop" else "cut to as many GPUs as there are, so that they take longer"
    adjustments = (
        Adjustment(int(large.sum()), f"request more GPUs than any type has that can train their model ({change})"),
        Adjustment(int(nowhere.sum()), "train a model that no GPU type can hold (dropped)"),
        Adjustment(int((~known).sum()), "ran on a GPU type whose speed is not in the catalogue (dropped)"),
    )
    gpus = np.minimum(requested, most)[left]
    seconds = (columns["duration"] * (there / unit[model]))[left]
    seconds *= requested[left] / gpus  # cut gangs keep their GPU-seconds
    return AssignedModels(
        table[left],
        cluster,
        catalogue,
        reference,
        recorded,
        model[left],
        seconds,
        gpus,
        speed,
        fits,
        tuple(own for own in adjustments if own.number),
    )


def _check_types(cluster: Cluster, catalogue: Catalogue, reference: str | None) -> str:
    """Refuse GPU types without known speeds; return the reference, which may be :data:`RECORDED`."""
    expect(Cluster, cluster, "cluster")
    expect(Catalogue, catalogue, "catalogue", InvalidOption)
    reference = catalogue.reference if reference is None else reference
    for key, name in (("reference", reference), *(("cluster", t) for t in cluster.type_names)):
        if name not in catalogue.types and (key, name) != ("reference", RECORDED):
            error = InvalidOption if key == "reference" else InvalidInstance
            raise error(
                f"names the GPU type {name!r}, whose speed is not in the catalogue {catalogue.name!r}; "
                f"{choices(str(name), catalogue.types)}",
                key,
            )
    return reference


Tenants: TypeAlias = Literal["virtual clusters", "users", "models"]
OWNERS: Mapping[str, str] = {"virtual clusters": "tenant", "users": "user", "models": "model"}
"""Kind of tenants -> column with their names."""


def to_instance(
    table: pd.DataFrame,
    cluster: Cluster,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    reference: str | None = None,
    tenants: Tenants | None = None,
    too_large: TooLarge = "drop",
    weights: Mapping[str, float] | None = None,
    name: str = "",
    source: str = "",
) -> Instance:
    """Build an instance from the jobs of a trace.

    The work of a job is its duration in seconds on the reference GPU type, where its gang has throughput 1; on other
    types it has the speed of its model relative to the reference. If the table has ``iterations``, these are the work
    and throughputs are in iterations per second; durations stay the same. A job with ``phases`` has its duration as
    work, also then, since its iterations differ in length. State, dataset, memory of a worker and parallelism are those
    of the model; packings are those of the catalogue for the models of the jobs.

    Parameters
    ----------
    table:
        A trace of a generator or reader: ``job``, ``arrival`` and ``duration`` (seconds), ``gpus``; optionally
        ``tenant``, ``user``, ``group``, ``model``, ``iterations``, ``phases``, and where a setting needs them
        ``gpu_type`` and ``job_class``. Other columns are ignored.
    cluster:
        Its GPU types must be in the catalogue.
    catalogue:
        Models and their speeds.
    seed:
        Seed of the models drawn for jobs without one, see :func:`with_models`.
    reference:
        GPU type to which durations refer; default: the catalogue's. ``"recorded"``: each duration refers to the GPU
        type in the job's row, column ``gpu_type``; jobs of types that the catalogue does not have are dropped.
    tenants:
        The tenants of the instance: the virtual clusters (column ``tenant``), the users (column ``user``), or one
        tenant per model. Each has a job type for every model that it trains, with speedups relative to the slowest type
        of the cluster that can train it. None: no tenants; jobs keep the name of their ``user``, else of their
        ``tenant``.
    too_large:
        Treatment of jobs that request more GPUs than any one type has that can train their model: ``"drop"``, or
        ``"cut"`` to the GPUs of the type, with a proportionally longer duration. Jobs whose model fits no type are
        always dropped. ``source`` has their number.
    weights:
        Class of jobs (column ``job_class``) -> weight of these jobs, for policies that are fair to jobs; one for each
        class that occurs. None: all jobs, and jobs without class, have weight 1.
    name, source:
        Name and source of the instance; numbers of dropped jobs are appended to ``source``.

    Returns
    -------
    Instance
        Its jobs are in the order of the table. Each can run on at least one GPU type alone.

    Raises
    ------
    InvalidInstance
        ``table`` is not a table, a column is missing, a row is not a job, the cluster has a GPU type that is not in the
        catalogue, or no job fits the cluster.
    InvalidOption
        An invalid setting.

    Examples
    --------
    >>> from hetopt import Cluster
    >>> from hetopt.traces.paper_models import FFT
    >>> from hetopt.traces.fft_generator import FFTTrace
    >>> cluster = Cluster.of({"T4": 12, "A10": 12, "V100": 12}, gpus_per_server=4)
    >>> job = to_instance(FFTTrace(2).table(), cluster, FFT).jobs[0]
    >>> job.model, job.demand, job.throughput["T4"]
    ('GPT-2-large', 4, 1.0)
    """
    if tenants is not None:
        one_of(tenants, get_args(Tenants), "tenants")
    found = assign_models(table, cluster, catalogue, seed=seed, reference=reference, too_large=too_large)
    owner = _owners(found.table, tenants)
    weight = np.ones(len(found.table)) if weights is None else _weights(found.table, weights)
    with PauseGC():  # no garbage, but many objects
        jobs = _jobs(found, owner, weight, typed=tenants is not None)
        return Instance(
            cluster,
            tenants=() if tenants is None else _tenants(found, owner),
            jobs=jobs,
            packings=catalogue.packings_of({str(job.model) for job in jobs}, cluster.type_names),
            name=name,
            source=" ".join(filter(None, [source, _description(found, len(table))])),
        )


def _description(found: AssignedModels, rows: int) -> str:
    text = f"{len(found.table)} of {rows} jobs of a trace; models and speeds: catalogue {found.catalogue.name!r}, "
    text += f"durations on {'the GPU type of each row' if found.recorded else found.reference}"
    if "gpu_type" in found.table and not found.recorded:
        named = found.table["gpu_type"].dropna().astype(str)
        one = (named != "") & ~named.str.contains("|", regex=False)  # others are of the types that a job accepts
        if others := int((one & (named != found.reference)).sum()):
            text += (
                f", though {counted(others, 'job')} ran on another; reference={RECORDED!r} takes the type of each row"
            )
    text += "."
    return " ".join([text, *(f"Of them {reason}." for reason in found.adjustments)])


def _owners(table: pd.DataFrame, tenants: Tenants | None) -> list[str | None]:
    if tenants is not None:
        require_columns(table, [OWNERS[tenants]], locate_in(table))
        return names_of(table[OWNERS[tenants]], locate_in(table)).tolist()
    both = zip(_optional(table, "user"), _optional(table, "tenant"), strict=True)
    return [tenant if user is None else user for user, tenant in both]


def _weights(table: pd.DataFrame, weights: Mapping[str, float]) -> Floats:
    """(jobs,) weight of each job by its class."""
    locate = locate_in(table)
    require_columns(table, ["job_class"], locate)
    given = {
        name: at_least(value, f"weights[{name!r}]", LEAST, InvalidOption)
        for name, value in any_mapping(weights, "weights", InvalidOption, "from classes to weights").items()
    }
    column = table["job_class"]
    classes = ", ".join(given)
    check_cells(column, is_blank(column) | column.isin(list(given)), locate, f"a class with a weight: {classes}")
    return column.map(given).fillna(1.0).to_numpy(dtype=float)


def _optional(table: pd.DataFrame, key: str) -> list[str | None]:
    """A column of text, None where it is blank."""
    column = table.get(key, pd.Series("", index=table.index))
    return [None if blank else value for value, blank in zip(column.tolist(), is_blank(column).tolist(), strict=True)]


def _jobs(found: AssignedModels, owner: Sequence[str | None], weight: Floats, *, typed: bool) -> tuple[Job, ...]:
    table, types = found.table, found.cluster.type_names
    speeds = [dict(zip(types, row, strict=True)) for row in found.speed.tolist()]
    group, phases = _optional(table, "group"), _phases(found)
    work, per_second = _work(found)
    made = []
    columns = (table["job"].tolist(), table["arrival"].tolist(), found.model.tolist(), found.gpus.tolist())
    rows = zip(*columns, work.tolist(), per_second.tolist(), owner, group, weight.tolist(), phases, strict=True)
    for job, arrival, position, gpus, total, rate, tenant, job_group, importance, own in rows:
        model: TrainedModel = found.catalogue.models[position]
        speed = speeds[position] if rate == 1.0 else {t: rate * v for t, v in speeds[position].items()}
        sizes: tuple[GangSize, ...] = ()
        if model.goodput is not None:
            speed, sizes = _elastic(model, model.goodput, found, gpus, rate)
        made.append(
            Job(
                job,
                speed,
                total,
                gpus,
                arrival,
                tenant,
                importance,
                memory_bytes=model.memory_bytes,
                checkpoint_bytes=model.state_bytes,
                dataset=model.dataset,
                dataset_bytes=model.dataset_bytes,
                parallelism=model.parallelism,
                job_type=model.name if typed else None,
                group=job_group,
                model=model.name,
                sizes=sizes,
                phases=own,
            )
        )
    return tuple(made)


def _elastic(
    model: TrainedModel, goodput: Goodput, found: AssignedModels, gpus: int, rate: float
) -> tuple[dict[str, float], tuple[GangSize, ...]]:
    """The rates of a job's gang on each type, and of its other sizes; it has ``rate`` on the reference type."""
    first, cluster = model.speed[found.catalogue.types[0]], found.cluster
    seats = {t: max(own.values()) for t, own in cluster.seats.items() if own and model.speed[t] > 0}

    def best(t: str, n: int) -> tuple[float, int]:
        on_server = seats.get(t, n)  # the reference may not be in the cluster
        return best_of(goodput, n, -(-n // on_server), model.speed[t] / first)

    base = best(found.reference, gpus)[0]
    if not base:
        return {t: rate * model.speed[t] / model.speed[found.reference] for t in cluster.type_names}, ()
    speed, sizes = {t: rate * best(t, gpus)[0] / base if t in seats else 0.0 for t in cluster.type_names}, []
    for n in sorted({n for t, own in seats.items() for n in gang_sizes(cluster.capacity[t], own)} | {gpus}):
        own = {t: best(t, n) for t in seats if n <= cluster.capacity[t]}
        rates = {t: rate * value / base for t, (value, _) in own.items() if value}
        if rates:
            sizes.append(GangSize(n, rates if n != gpus else speed, {t: own[t][1] for t in rates}))
    return speed, tuple(sizes)


def _phases(found: AssignedModels) -> list[tuple[TrainingPhase, ...]]:
    """The phases of each job, scaled so that they take its seconds."""
    cells, locate = _optional(found.table, "phases"), locate_in(found.table)
    made = []
    for row, (cell, seconds) in enumerate(zip(cells, found.seconds.tolist(), strict=True)):
        try:
            phases = phases_of(cell or "")
        except InvalidInstance as problem:
            raise locate(problem, row) from None
        factor = seconds / (sum(phase.work for phase in phases) or seconds)
        made.append(tuple(replace(phase, epoch_work=phase.epoch_work * factor) for phase in phases))
    return made


def _work(found: AssignedModels) -> tuple[Floats, Floats]:
    """(jobs,) work, and throughput of the gang on the reference."""
    if "iterations" not in found.table.columns:
        return found.seconds, np.ones(len(found.seconds))
    column = found.table["iterations"]
    given = column.notna().to_numpy() & np.array([cell is None for cell in _optional(found.table, "phases")])
    work = np.where(given, 0.0, found.seconds)
    work[given] = numbers_of(column[given], locate_in(found.table[given]))
    return work, np.where(given, work / found.seconds, 1.0)


def _tenants(found: AssignedModels, owner: Sequence[str | None]) -> tuple[Tenant, ...]:
    relative = (found.speed / slowest_of_rows(found.speed, found.fits)[:, None]).tolist()
    job_types: dict[str, list[JobType]] = {}
    # Pairs in order of appearance. A type with too little memory may have a speedup below 1, which needs any_scale.
    for tenant, position in dict.fromkeys(zip(owner, found.model.tolist(), strict=True)):
        model = found.catalogue.models[position]
        speedup = dict(zip(found.cluster.type_names, relative[position], strict=True))
        job_types.setdefault(str(tenant), []).append(JobType(model.name, speedup, model.memory_bytes, any_scale=True))
    return tuple(Tenant(name, tuple(rows)) for name, rows in job_types.items())


JOB_COLUMNS = ("job", "arrival", "duration", "gpus", "user", "group")


def as_jobs(table: pd.DataFrame, throughput: Mapping[str, float] | None = None) -> list[Job]:
    """The jobs of a trace as a list; an iteration takes one second, so that the work is the duration.

    Parameters
    ----------
    table:
        Columns ``job``, ``arrival`` and ``duration`` (seconds), ``gpus``, ``user`` and ``group``, as
        :meth:`~hetopt.traces.pai_generator.PAILike.table` has them.
    throughput:
        GPU type -> iterations per second; default: 1 on the only type, ``GPU``.

    Raises
    ------
    InvalidInstance
        A column is missing, or a row is not a valid job.
    """
    if missing := [key for key in JOB_COLUMNS if key not in table.columns]:
        problem = f"has no column {', '.join(missing)}; it must have {', '.join(JOB_COLUMNS)}"
        raise InvalidInstance(problem).in_table("trace")
    speed = {"GPU": 1.0} if throughput is None else throughput
    columns = zip(*(table[key].tolist() for key in JOB_COLUMNS), strict=True)
    return [
        Job(name, speed, work=seconds, demand=gpus, arrival=arrival, tenant=user, group=group)
        for name, arrival, seconds, gpus, user, group in columns
    ]
