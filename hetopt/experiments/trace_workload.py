"""Workloads of experiments: a trace (read or generated) on a cluster, or an instance, for each seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, any_mapping, at_least, boolean, choices, counted, mapping, shown, whole
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.instance_files import PARSERS
from hetopt.data.schema import SCHEMA
from hetopt.decisions.system import System
from hetopt.errors import InvalidInstance, InvalidOption, UnknownName
from hetopt.registry import find_instance, generator_names, is_named, make_generator
from hetopt.traces.catalogue import Catalogue
from hetopt.traces.conversion import Tenants, TooLarge, drop_unknown_models, to_instance, unknown_models
from hetopt.traces.kinds import read_trace
from hetopt.traces.offered_load import scale_to_load
from hetopt.traces.paper_models import CATALOGUES, find_catalogue

DEFAULT_JOBS = 480
"""Default number of generated jobs."""

UnknownModels: TypeAlias = Literal["refuse", "draw"]

MADE_BY = "made_by"
"""Key in the settings of a workload of another class than :class:`TraceWorkload`: its ``module:Name``."""


class ExperimentWorkload(Protocol):
    """Frozen settings of a workload, which can be sent to other processes."""

    @property
    def name(self) -> str:
        """Its name in folders and tables."""
        ...

    @property
    def cluster(self) -> str | None:
        """Name of its cluster; None if it is part of the workload."""
        ...

    def instance(self, seed: int = 0) -> Instance:
        """The instance for that seed."""
        ...

    def prepare(self, system: System, seed: int) -> System:
        """The system with its training on earlier jobs."""
        ...

    def as_settings(self) -> dict[str, Any]:
        """The arguments of its class in JSON types; with :data:`MADE_BY` for other classes."""
        ...


BLOCK, LEAST_BLOCK = 200, 20
"""Jobs of a sample of a trace."""


@dataclass(frozen=True)
class TraceWorkload:
    """The jobs of a trace on a cluster, for each seed.

    Parameters
    ----------
    trace:
        Name of a generator (or ``module:Name``), file of a trace, instance file, or name of an instance that hetopt
        includes; an instance must have jobs.
    cluster:
        Name or file of an instance with the servers; None: the servers of ``trace``, which must be an instance.
    count:
        Number of generated jobs, or of first jobs of the trace; None: all, or 480 of a generator.
    load:
        Arrivals are scaled to this load (:func:`~hetopt.traces.offered_load.scale_to_load`); None: unchanged.
    models:
        Name, CSV file or ``module:Name`` of a catalogue of trained models
        (:func:`~hetopt.traces.catalogue.read_catalogue`); None: the first with the cluster's GPU types, preferably one
        with all models of the trace.
    tenants, reference, too_large, weights:
        As for :func:`~hetopt.traces.conversion.to_instance`.
    unknown_models:
        Treatment of jobs whose model is not in the catalogue: ``"refuse"``, or ``"draw"`` another.
    kind:
        Kind of the file of the trace; None: it is detected.
    settings:
        Settings of the generator or reader.
    blocks:
        Seed s takes the s-th ``count`` jobs of the trace in a file, from 0, instead of the first. A trace with fewer
        jobs is one block; jobs after the last whole block are not used.
    more_gpus:
        GPU type -> GPUs added to the cluster, on a further server; arrivals do not change with them.
    deadline_factor:
        Each job without a deadline gets one: this factor, above 1, of its time on the fastest GPU type on which
        it can run, after its arrival; None: no deadlines are added.
    copies:
        Most copies in which a job may run on several servers (:attr:`hetopt.Job.copies`); None: as the trace says,
        which is any number if it says nothing.

    Raises
    ------
    InvalidOption
        A number out of its range; blocks of a trace that has no ``count``, or of no file.
    """

    trace: str
    cluster: str | None = None
    count: int | None = None
    load: float | None = None
    models: str | None = None
    tenants: Tenants | None = "models"
    reference: str | None = None
    too_large: TooLarge = "drop"
    unknown_models: UnknownModels = "refuse"
    kind: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    blocks: bool = False
    more_gpus: Mapping[str, int] = field(default_factory=dict)
    deadline_factor: float | None = None
    weights: Mapping[str, float] | None = None
    copies: int | None = None

    def __post_init__(self) -> None:
        for key in ("count", "copies"):
            if getattr(self, key) is not None:
                whole(getattr(self, key), key, 1)
        if boolean(self.blocks, "blocks") and (self.count is None or self.is_generated or self.is_instance):
            raise InvalidOption("needs the file of a trace and a count, the jobs of a block", "blocks")
        object.__setattr__(self, "more_gpus", FrozenDict(mapping(self.more_gpus, "more_gpus", InvalidOption)))
        if self.deadline_factor is not None:
            at_least(self.deadline_factor, "deadline_factor", 1.0, InvalidOption, strict=True)
        if self.load is not None:
            at_least(self.load, "load", 0.0, InvalidOption, strict=True)
        if self.unknown_models not in get_args(UnknownModels):
            raise InvalidOption(f"is {shown(self.unknown_models)}; it must be 'refuse' or 'draw'", "unknown_models")
        object.__setattr__(self, "settings", FrozenDict(self.settings))
        if self.weights is not None:
            weights = any_mapping(self.weights, "weights", InvalidOption, "from classes to weights")
            object.__setattr__(self, "weights", FrozenDict(weights))

    @property
    def name(self) -> str:
        """Its name in folders and tables."""
        own = self.trace if self.is_generated or self.is_instance else Path(self.trace).name
        return " + ".join([own, *(f"{n} {t}" for t, n in self.more_gpus.items())])

    @property
    def is_generated(self) -> bool:
        """Whether it is generated."""
        return self.trace in generator_names() or (":" in self.trace and not Path(self.trace).exists())

    @property
    def is_instance(self) -> bool:
        """Whether it is an instance."""
        path = Path(self.trace)
        is_file = path.suffix.lower() in PARSERS or (path / "servers.csv").exists()
        return is_named(self.trace) or (is_file and self.kind is None)

    def instance(self, seed: int = 0) -> Instance:
        """The instance for that seed.

        Raises
        ------
        UnknownName, UnusableFile, InvalidInstance, InvalidOption
            The trace, cluster or catalogue does not exist or is invalid, or the trace has no such block.
        """
        found = self._instance(seed)
        if self.deadline_factor is not None:  # they are the same with more GPUs
            found = _with_deadlines(found, self.deadline_factor)
        if self.more_gpus:
            found = found.replace(cluster=found.cluster.with_more(self.more_gpus))
        if self.copies is not None:
            limits = [min(self.copies, job.copies or self.copies) for job in found.jobs]
            jobs = [replace(job, copies=n) for job, n in zip(found.jobs, limits, strict=True)]
            found = found.replace(jobs=tuple(jobs))
        return found

    def _instance(self, seed: int) -> Instance:
        """The instance for that seed, on the cluster and with the deadlines that are given."""
        if self.is_generated and self.kind is not None:
            raise InvalidOption(f"does not apply to {self.trace}, a generator; leave it out", "kind")
        if self.is_instance and not self.is_generated:
            return self._named_instance()
        table = self.table(seed)
        if self.cluster is None:
            raise InvalidOption(f"is missing; trace {self.trace!r} needs one, such as lab36", "cluster")
        cluster = find_instance(self.cluster).cluster
        models = self._catalogue(cluster, table)
        source = [f"{self.trace}, seed {seed}", *_changes_of_reader(table)]
        if self.unknown_models == "draw" and unknown_models(table, models).any():
            source.append("models that are not in the catalogue replaced by drawn ones")
            table = drop_unknown_models(table, models)
        options: dict[str, Any] = {"seed": seed, "reference": self.reference, "too_large": self.too_large}
        try:
            if self.load is not None:
                table = scale_to_load(table, self.load, cluster, models, **options)
            options |= {"tenants": self.tenants, "weights": self.weights}
            options |= {"name": self.name, "source": f"{', '.join(source)}."}
            return to_instance(table, cluster, models, **options)
        except InvalidInstance as problem:
            raise problem.in_file(self.trace) from None

    def in_blocks(self) -> TraceWorkload:
        """The same workload, whose seeds take blocks of the trace if it is read from a file.

        Without ``count``, samples of a generator have :data:`BLOCK` jobs, and so have blocks, but at most a fifth of
        the trace, or :data:`LEAST_BLOCK`.
        """
        if self.is_instance and not self.is_generated:
            return self
        count = self.count
        if self.is_generated:
            return replace(self, count=count or BLOCK)
        if count is None:
            count = min(BLOCK, max(LEAST_BLOCK, len(self._read()) // 5))
        return replace(self, count=count, blocks=True)

    def samples(self) -> int | None:
        """Number of seeds with different jobs; None: no limit."""
        if self.is_generated:
            return None
        if self.is_instance or not self.blocks:
            return 1
        assert self.count is not None
        return max(1, len(self._read()) // self.count)

    def table(self, seed: int = 0) -> pd.DataFrame:
        """The trace as a table, for that seed."""
        if self.is_generated:
            return make_generator(self.trace, self.settings).table(self.count or DEFAULT_JOBS, seed)
        table = self._read()
        if not self.blocks:
            return table if self.count is None else table.head(self.count)
        assert self.count is not None
        block = table.iloc[seed * self.count : (seed + 1) * self.count]
        if len(block) < self.count and seed:
            raise InvalidOption(
                f"has {counted(len(table), 'job')}, too few for block {seed} of {self.count}", self.trace
            )
        return block.assign(arrival=block["arrival"] - block["arrival"].iloc[0]).reset_index(drop=True)

    def _read(self) -> pd.DataFrame:
        """The whole trace of the file."""
        path = Path(self.trace)
        if not path.exists() and not path.suffix:
            found = choices(self.trace, generator_names())
            raise UnknownName(f"there is no file, instance or trace generator {self.trace!r}; {found}")
        return read_trace(self.trace, self.kind, **self.settings)

    def _named_instance(self) -> Instance:
        """The instance that ``trace`` names, on ``cluster`` if given."""
        try:
            given = find_instance(self.trace)
        except InvalidInstance as problem:
            if self._says_that_it_is_an_instance():
                raise
            raise problem.with_hint(
                "if it is a trace, give its kind, e.g. kind='philly' (--kind philly on the command line)"
            ) from None
        if not given.jobs:
            raise InvalidInstance(f"{self.trace} has no jobs; a simulation needs some")
        for item in fields(self):
            if item.name in OF_TRACES and getattr(self, item.name) != OF_TRACES[item.name]:
                raise InvalidOption(
                    f"does not apply to {self.trace}, an instance with fixed jobs; leave it out", item.name
                )
        if self.count is not None:
            given = given.with_jobs(job.name for job in given.jobs[: self.count])
        return given if self.cluster is None else given.replace(cluster=find_instance(self.cluster).cluster)

    def _says_that_it_is_an_instance(self) -> bool:
        """Whether the file begins as instance files do."""
        path = Path(self.trace)
        return path.is_file() and SCHEMA in path.read_bytes()[:1000].decode(errors="replace")

    def _catalogue(self, cluster: Cluster, table: pd.DataFrame) -> Catalogue:
        if self.models is not None:
            return find_catalogue(self.models)
        fitting = [known for known in CATALOGUES.values() if set(cluster.type_names) <= set(known.types)]
        if fitting:
            return next((known for known in fitting if not unknown_models(table, known).any()), fitting[0])
        have = "; ".join(f"{name}: {', '.join(own.types)}" for name, own in CATALOGUES.items())
        raise InvalidOption(
            f"no catalogue of models has all GPU types of {self.cluster}, {', '.join(cluster.type_names)}; they have "
            f"{have}; give a CSV file with a column of speeds for each GPU type, see docs: use a trace"
        )

    def prepare(self, system: System, seed: int) -> System:
        """The system as it is: there are no earlier jobs."""
        return system

    def as_settings(self) -> dict[str, Any]:
        """Its arguments in JSON types."""
        own = {f.name: getattr(self, f.name) for f in fields(self)} | {"settings": dict(self.settings)}
        added = {
            "blocks": False,
            "more_gpus": {},
            "deadline_factor": None,
            "weights": None,
            "copies": None,
        }  # stored runs of earlier versions lack them
        return {key: value for key, value in own.items() if key not in added or value != added[key]}


def _with_deadlines(instance: Instance, factor: float) -> Instance:
    """The instance with deadlines for its jobs that have none."""
    entities = instance.entities("jobs")
    gang, task = entities.speed.max(axis=1), entities.task_speed.max(axis=1)
    fastest = np.where(gang > 0, gang, task).tolist()  # a gang too large for every type runs on several, if at all
    jobs = [
        job if job.deadline is not None else replace(job, deadline=job.arrival + factor * job.work / speed)
        for job, speed in zip(instance.jobs, fastest, strict=True)
    ]
    return instance.replace(jobs=tuple(jobs))


def _changes_of_reader(table: pd.DataFrame) -> Iterator[str]:
    """What the reader of a trace left out or changed."""
    if left_out := table.attrs.get("left_out"):
        yield "left out: " + ", ".join(f"{number} with {reason}" for reason, number in left_out.items())
    if rounded_up := table.attrs.get("rounded_up"):
        yield f"{rounded_up} with a part of a GPU rounded up"


OF_TRACES: dict[str, Any] = {
    item.name: {} if item.name == "settings" else item.default
    for item in fields(TraceWorkload)
    if item.name not in ("trace", "cluster", "count", "blocks", "more_gpus", "deadline_factor", "copies")
}
"""Arguments of a :class:`TraceWorkload` that an instance cannot have -> their default."""


def workload_of(settings: Mapping[str, Any]) -> ExperimentWorkload:
    """The workload with these settings, as :meth:`ExperimentWorkload.as_settings` returns them.

    Raises
    ------
    InvalidInstance
        Its class does not exist, or has other arguments.
    """
    arguments = dict(settings)
    made_by = arguments.pop(MADE_BY, None)
    try:
        kind = TraceWorkload if made_by is None else resolve_name(str(made_by))
        found: ExperimentWorkload = kind(**arguments)
    except (ImportError, AttributeError, ValueError, TypeError) as problem:
        raise InvalidInstance(f"the settings {arguments} do not describe a workload: {problem}") from None
    return found
