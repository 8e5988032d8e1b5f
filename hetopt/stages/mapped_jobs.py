"""The stages of an instance's jobs on its servers: each job by itself on free GPUs, or on those that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetopt.checks import FrozenDict, known, lookup
from hetopt.data.instance import Instance
from hetopt.data.instance_data import Placed
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance
from hetopt.stages.mapping import GPUMapping, Mapper, answered, check_room
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass(frozen=True, eq=False)
class Mapped:
    """What becomes of each job.

    Attributes
    ----------
    mappings:
        Job -> which of its replicas is on which server.
    gpu_type:
        Job -> type of its GPUs.
    refused:
        Job without a mapping -> why.
    """

    mappings: Mapping[str, GPUMapping]
    gpu_type: Mapping[str, str]
    refused: Mapping[str, str]


def map_jobs(
    instance: Instance,
    mapper: Mapper,
    *,
    job: str | None = None,
    gpu_type: str | None = None,
    hosts: Placed | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Mapped:
    """Map the stages of jobs to GPUs, every job as if it were the only one that comes.

    A job that is placed keeps its GPUs, and its stages are mapped within them; another may go to all that are free.

    Parameters
    ----------
    job:
        Only this one; default: all.
    gpu_type:
        Where to; default: the type on which a job is fastest, of those on which it fits.
    hosts:
        Where jobs run, as in :attr:`hetopt.Placement.hosts`: then only these are mapped, within their GPUs.
    step:
        Called with each job's name as its turn comes.

    Raises
    ------
    InvalidInstance
        No job has stages, or no job could be mapped and ``hosts`` is not given.
    UnknownName
        There is no ``job`` of that name.
    InvalidPlan
        The mapper's answer is no :class:`GPUMapping`.
    """
    chosen = check_stages(instance, job)
    mappings: dict[str, GPUMapping] = {}
    kinds: dict[str, str] = {}
    refused: dict[str, str] = {}
    for one in chosen:
        if hosts is None or one.name in hosts:
            step(one.name)
            try:
                kinds[one.name], pipeline, servers = _room(instance, one, gpu_type, hosts)
                mappings[one.name] = answered(mapper(pipeline, servers))
            except InvalidInstance as problem:
                if len(chosen) == 1 and hosts is None:
                    raise
                refused[one.name] = str(problem)
    if not mappings and hosts is None:
        raise InvalidInstance(f"none of {len(refused)} jobs can be mapped; the first: {next(iter(refused.values()))}")
    gpu_types = {name: kinds[name] for name in mappings}
    return Mapped(FrozenDict(mappings), FrozenDict(gpu_types), FrozenDict(refused))


def check_stages(instance: Instance, job: str | None = None) -> tuple[Job, ...]:
    """The jobs of the instance, or the one of that name; some have stages.

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
    """Type of the GPUs, the stages there, and the servers that the job may use."""
    if not job.stages:
        raise InvalidInstance(f"job {job.name!r} has no stages")
    Pipeline.of(job)  # what is wrong with its graph is wrong on every type
    there = (instance.placed if hosts is None else hosts).get(job.name, {})
    if any(n for gpus in there.values() for n in gpus.values()):
        kind = _only_type(job, there, gpu_type)
        servers = Servers.of(instance, kind, busy=False)
        position = {name: m for m, name in enumerate(servers.names)}
        return (
            kind,
            Pipeline.of(job, kind),
            servers.take({position[s]: n[kind] for s, n in there.items() if n.get(kind)}),
        )
    if gpu_type is not None:
        known(gpu_type, instance.cluster.type_names, "gpu_type", "GPU type")
        return _free(instance, job, gpu_type)
    problems = []
    for kind in sorted(instance.cluster.type_names, key=lambda t: -job.throughput.get(t, 0.0)):
        try:
            return _free(instance, job, kind)
        except InvalidInstance as problem:
            problems.append(str(problem))
    raise InvalidInstance("; ".join(problems))


def _only_type(job: Job, there: Mapping[str, Mapping[str, int]], wanted: str | None) -> str:
    kinds = sorted({kind for gpus in there.values() for kind, n in gpus.items() if n})
    if len(kinds) > 1:
        raise InvalidInstance(f"job {job.name!r} runs on {' and '.join(kinds)}; stages are mapped to GPUs of one type")
    if wanted not in (None, kinds[0]):
        raise InvalidInstance(f"job {job.name!r} runs on {kinds[0]} and keeps its GPUs, so gpu_type cannot be {wanted}")
    return kinds[0]


def _free(instance: Instance, job: Job, kind: str) -> tuple[str, Pipeline, Servers]:
    if not job.throughput.get(kind, 0.0) > 0:
        raise InvalidInstance(f"job {job.name!r} cannot run on {kind}: its throughput there is 0")
    memory = instance.cluster.gpu_type(kind).memory_bytes
    if memory is not None and job.memory_bytes > memory:
        raise InvalidInstance(f"a worker of job {job.name!r} needs {job.memory_bytes:g} bytes; a {kind} has {memory:g}")
    pipeline, servers = Pipeline.of(job, kind), Servers.of(instance, kind)
    try:
        check_room(pipeline, servers)
    except InvalidInstance as problem:
        raise InvalidInstance(f"{problem} of type {kind}") from None
    return kind, pipeline, servers
