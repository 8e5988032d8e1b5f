"""Mappings of a job's replicas to GPUs of servers, and mapping all jobs of an instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, counted, expect, known, lookup, shown
from hetopt.data.entities import read_only
from hetopt.data.gpu_locations import Hosts, Placed
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.display import Displayed
from hetopt.errors import InvalidInstance, InvalidPlan, Item
from hetopt.programs.linear import Status
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.job_graph import JobGraph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

MappingStatus: TypeAlias = Status | Literal["heuristic"]


@dataclass(frozen=True, eq=False)
class GPUMapping(Displayed):
    """The replicas of one job on servers.

    Attributes
    ----------
    graph, servers:
        The replicas, and the servers with room.
    server:
        (V,) position of the server of each vertex.
    timing:
        Time of an iteration.
    method:
        Name of the mapping method.
    bound:
        Lower bound that the method has proven on its objective, seconds or bytes; None without one.
    status:
        ``"heuristic"`` unless a bound was proven or a solver stopped.
    seconds:
        Wall-clock time of the method.
    minimises:
        Objective of the bound: ``"seconds"`` of an iteration, or ``"bytes"`` between servers.

    Raises
    ------
    InvalidPlan
        A server gets more replicas than it has free GPUs for, or a vertex has no server.
    """

    graph: JobGraph
    servers: Servers
    server: NDArray[np.int64]
    timing: Timing = field(default_factory=Asynchronous)
    method: str = ""
    bound: float | None = None
    status: MappingStatus = "heuristic"
    seconds: float = 0.0
    minimises: Literal["seconds", "bytes"] = "seconds"

    def __post_init__(self) -> None:
        where = np.array(self.server)
        if where.shape != (len(self.graph),) or (where < 0).any() or (where >= len(self.servers)).any():
            raise InvalidPlan(f"the mapping of {self.graph.pipeline.name!r} must name a server for every replica")
        object.__setattr__(self, "server", read_only(where))
        used = np.bincount(where, weights=self.graph.size, minlength=len(self.servers))
        for m in np.flatnonzero(used > self.servers.free).tolist():
            raise InvalidPlan(
                f"the mapping of {self.graph.pipeline.name!r} uses {counted(float(used[m]), 'GPU')} of "
                f"{self.servers.names[m]!r}; free: {self.servers.free[m]}"
            )

    @cached_property
    def replicas(self) -> NDArray[np.int64]:
        """(S, M) replicas of each stage on each server."""
        return self.graph.counts(self.server, len(self.servers))

    @cached_property
    def iteration_seconds(self) -> Any:
        """alpha: seconds of one iteration."""
        return self.timing(self.graph.pipeline, self.replicas, self.servers)[()]

    @cached_property
    def cut_bytes(self) -> Any:
        """Bytes between servers in one iteration: the weight of the cut."""
        return self.graph.cut(self.server)

    @property
    def gap(self) -> float | None:
        """Relative gap between the bound and the objective; None without a bound."""
        if self.bound is None:
            return None
        value = float(self.iteration_seconds if self.minimises == "seconds" else self.cut_bytes)
        return max(0.0, 1 - float(self.bound) / value) if value > 0 else 0.0

    @property
    def iteration_limits(self) -> tuple[float, float]:
        """Lower bound of the seconds of an iteration, and its seconds with every replica on a server of its own."""
        pipeline = self.graph.pipeline
        return float(self.timing.least(pipeline, self.servers)), float(self.timing.most(pipeline, self.servers))

    @property
    def table(self) -> pd.DataFrame:
        """(stages, servers) replicas; servers without replicas are left out."""
        used = np.flatnonzero(self.replicas.any(axis=0))
        index = pd.Index(range(1, len(self.graph.pipeline) + 1), name="stage")
        columns = pd.Index([self.servers.names[m] for m in used], name="server")
        return pd.DataFrame(self.replicas[:, used], index=index, columns=columns)

    @property
    def where(self) -> dict[str, str]:
        """Vertex, such as ``S1-R1`` -> server."""
        return {v: self.servers.names[m] for v, m in zip(self.graph.labels, self.server.tolist(), strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """JSON types; the gap is relative to the minimised quantity, replicas on servers are listed by stage."""
        least, apart = self.iteration_limits
        bound = {} if self.bound is None else {f"bound_{self.minimises}": float(self.bound), "gap": self.gap}
        return {
            "gpus": int(self.graph.size.sum()),
            "iteration_seconds": float(self.iteration_seconds),
            "least_iteration_seconds": least,
            "apart_iteration_seconds": apart,
            "between_servers_bytes": float(self.cut_bytes),
            "exchanged_bytes": float(self.graph.weight.sum()),
            "status": str(self.status),
            "search_seconds": self.seconds,
            **bound,
            "replicas": {str(server): column.tolist() for server, column in self.table.items()},
            "where": self.where,
        }

    def __repr__(self) -> str:
        return (
            f"GPUMapping({self.graph.pipeline.name!r}, {self.method}: {self.iteration_seconds:g} s per iteration, "
            f"{self.cut_bytes:g} bytes cut)\n{self.table}"
        )


class Mapper(Protocol):
    """Maps the replicas of a job to GPUs of servers."""

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; the servers may have more free GPUs than the job needs."""
        ...


def check_mapping(mapping: object) -> GPUMapping:
    """The result of a mapper, or :class:`InvalidPlan` if it is not a mapping."""
    if not isinstance(mapping, GPUMapping):
        raise InvalidPlan(f"the mapping method returned {shown(mapping)}; it must return a GPUMapping")
    return mapping


def check_room(pipeline: Pipeline, servers: Servers) -> None:
    """Raise :class:`InvalidInstance` if the servers certainly have too few GPUs for the job."""
    if isinstance(pipeline, Job):
        raise InvalidInstance(f"the pipeline is the job {pipeline.name!r}; give Pipeline.of(job)")
    expect(Pipeline, pipeline, "the pipeline")
    expect(Servers, servers, "servers")
    if pipeline.gpus > servers.total:
        raise InvalidInstance(
            f"needs {counted(pipeline.gpus, 'GPU')}; free: {servers.total}", ("jobs", Item(pipeline.name))
        )
    largest, most = int(pipeline.slices.max()), int(servers.free.max())
    if largest > most:
        s = int(pipeline.slices.argmax())
        raise InvalidInstance(
            f"needs {counted(largest, 'GPU')} of one server for a replica of stage {s + 1}; "
            f"no server has more than {most} free",
            ("jobs", Item(pipeline.name)),
        )


def in_order(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(V,) servers for (S, M) counts, in the order of the ring, which minimises the cut of each ring."""
    servers = np.arange(counts.shape[1])
    return np.concatenate([np.repeat(servers, row) for row in counts])


@dataclass(frozen=True, eq=False)
class MappedJobs(Displayed):
    """Mappings of the jobs of an instance.

    Attributes
    ----------
    mappings:
        Job -> servers of its replicas.
    gpu_type:
        Job -> type of its GPUs.
    refused:
        Job without a mapping -> reason.
    """

    mappings: Mapping[str, GPUMapping]
    gpu_type: Mapping[str, str]
    refused: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """JSON types: the mappings, and the jobs without one."""
        jobs = {name: {"gpu_type": self.gpu_type[name], **own.as_dict()} for name, own in self.mappings.items()}
        return {"mappings": jobs, "not_mapped": dict(self.refused)}


def map_jobs(
    instance: Instance,
    mapper: Mapper,
    *,
    job: str | None = None,
    gpu_type: str | None = None,
    hosts: Placed | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> MappedJobs:
    """Map the stages of jobs to GPUs, each job independently of the others.

    The stages of a placed job are mapped within its GPUs; those of another job may use all free GPUs.

    Parameters
    ----------
    job:
        Only this one; default: all.
    gpu_type:
        Type of the GPUs; default: the fastest type on which the job fits.
    hosts:
        GPUs of running jobs, as in :attr:`hetopt.Placement.hosts`: only these jobs are mapped, within their GPUs.
    step:
        Called with the name of each job before it is mapped.

    Raises
    ------
    InvalidInstance
        No job has stages, or no job could be mapped and ``hosts`` is not given.
    UnknownName
        There is no ``job`` of that name.
    InvalidPlan
        The mapper does not return a :class:`GPUMapping`.
    """
    chosen = check_stages(instance, job)
    mappings: dict[str, GPUMapping] = {}
    gpu_types: dict[str, str] = {}
    refused: dict[str, str] = {}
    for one in chosen:
        if hosts is None or one.name in hosts:
            step(one.name)
            try:
                found, pipeline, servers = _room(instance, one, gpu_type, hosts)
                mappings[one.name] = check_mapping(mapper(pipeline, servers))
                gpu_types[one.name] = found
            except InvalidInstance as problem:
                if len(chosen) == 1 and hosts is None:
                    raise
                refused[one.name] = str(problem)
    if not mappings and hosts is None:
        raise InvalidInstance(
            f"none of {counted(len(refused), 'job')} can be mapped; the first: {next(iter(refused.values()))}"
        )
    return MappedJobs(FrozenDict(mappings), FrozenDict(gpu_types), FrozenDict(refused))


def check_stages(instance: Instance, job: str | None = None) -> tuple[Job, ...]:
    """The jobs of the instance, or the one of that name; at least one has stages.

    Raises
    ------
    InvalidInstance
        There are no jobs, or no stages.
    UnknownName
        There is no job of that name.
    """
    if not instance.jobs:
        raise InvalidInstance("the instance has no jobs, and only jobs have stages; add at least one")
    chosen = instance.jobs if job is None else (lookup(instance.job, job, "job"),)
    if not any(one.stages for one in chosen):
        lacking = f"jobs[{chosen[0].name!r}] has no" if len(chosen) == 1 else f"none of the {len(chosen)} jobs has"
        raise InvalidInstance(f"{lacking} stages, and only stages are mapped to GPUs; add stages: to a job")
    return chosen


def _room(instance: Instance, job: Job, gpu_type: str | None, hosts: Placed | None) -> tuple[str, Pipeline, Servers]:
    """GPU type of the job (that of its GPUs, ``gpu_type``, or the fastest with room), and its pipeline and servers."""
    if not job.stages:
        raise InvalidInstance("has no stages", ("jobs", Item(job.name)))
    Pipeline.of(job)  # raises errors of the graph once instead of for each type
    there = (instance.placed if hosts is None else hosts).get(job.name, {})
    if any(n for gpus in there.values() for n in gpus.values()):
        own = _only_type(job, there, gpu_type)
        servers = Servers.of(instance, own, busy=False)
        position = {name: m for m, name in enumerate(servers.names)}
        return own, Pipeline.of(job, own), servers.take({position[s]: n[own] for s, n in there.items() if n.get(own)})
    if gpu_type is not None:
        known(gpu_type, instance.cluster.type_names, "gpu_type", "GPU type")
        return _free(instance, job, gpu_type)
    problems = []
    for each_type in sorted(instance.cluster.type_names, key=lambda t: -job.throughput.get(t, 0.0)):
        try:
            return _free(instance, job, each_type)
        except InvalidInstance as problem:
            problems.append(problem.problem)
    raise InvalidInstance("; ".join(problems), ("jobs", Item(job.name)))


def _only_type(job: Job, there: Hosts, wanted: str | None) -> str:
    types = sorted({t for gpus in there.values() for t, n in gpus.items() if n})
    if len(types) > 1:
        raise InvalidInstance(
            f"runs on {' and '.join(types)}; stages are mapped to GPUs of one type", ("jobs", Item(job.name))
        )
    if wanted not in (None, types[0]):
        raise InvalidInstance(
            f"runs on {types[0]} and keeps its GPUs, so gpu_type cannot be {wanted}", ("jobs", Item(job.name))
        )
    return types[0]


def _free(instance: Instance, job: Job, gpu_type: str) -> tuple[str, Pipeline, Servers]:
    if not job.throughput.get(gpu_type, 0.0) > 0:
        raise InvalidInstance(f"cannot run on {gpu_type}: its throughput there is 0", ("jobs", Item(job.name)))
    if job.memory_bytes > (memory := instance.cluster.gpu_type(gpu_type).memory_limit):
        problem = f"needs {job.memory_bytes:g} bytes for a worker; a {gpu_type} has {memory:g}"
        raise InvalidInstance(problem, ("jobs", Item(job.name)))
    pipeline, servers = Pipeline.of(job, gpu_type), Servers.of(instance, gpu_type)
    try:
        check_room(pipeline, servers)
    except InvalidInstance as problem:
        raise InvalidInstance(f"{problem.problem} of type {gpu_type}", problem.path) from None
    return gpu_type, pipeline, servers
