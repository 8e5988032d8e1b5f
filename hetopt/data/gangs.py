"""The gangs among which a program chooses for elastic jobs, each as a job of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from hetopt.checks import FrozenDict
from hetopt.data.instance import Instance
from hetopt.data.workload import Job

AnyGang = Callable[[Job, str, int], bool]
"""(job, GPU type, GPUs) -> whether the job may run on such a gang."""


@dataclass(frozen=True)
class Gangs:
    """Every gang on which a job of an instance can run.

    Attributes
    ----------
    instance:
        The instance with a rigid job for each size of a gang: the job ``a`` on 4 GPUs is ``a/4``, or ``a//4`` if a name
        of a job has a slash, and so on. Jobs of a single size keep their names. A gang holds what its job holds, if
        that is as many GPUs.
    job:
        Gang -> its job.
    """

    instance: Instance
    job: Mapping[str, str]


def gangs_of(instance: Instance, allowed: AnyGang = lambda *_: True) -> Gangs:
    """The gangs of all jobs that fit on a GPU type, where ``allowed`` says so.

    A job of which no gang fits keeps its name and its demand, so that none is lost.
    """
    jobs, made, owner = instance.entities("jobs"), list[Job](), dict[str, str]()
    held: dict[str, Mapping[str, float]] = {}
    types, capacity, separator = jobs.types, jobs.capacity.tolist(), _separator(jobs.names)
    for e, job in enumerate(instance.jobs):
        sizes = {int(jobs.demand[e]): jobs.task_speed[e], **jobs.other_sizes.get(e, {})}
        there = instance.held.get(job.name) if instance.held else None
        gangs = list[Job]()
        for gpus, speed in sorted(sizes.items()):
            rate = {
                t: v if v and gpus <= room and allowed(job, t, gpus) else 0.0
                for t, v, room in zip(types, speed.tolist(), capacity, strict=True)
            }
            if any(rate.values()):
                name = f"{job.name}{separator}{gpus}" if job.sizes else job.name
                gangs.append(replace(job, name=name, demand=gpus, throughput=rate, sizes=(), stages=()))
        for gang in gangs or [replace(job, sizes=())]:
            owner[gang.name] = job.name
            made.append(gang)
            if there is not None:
                held[gang.name] = there if sum(there.values()) == gang.demand else FrozenDict()
    done = {gang: instance.done[job] for gang, job in owner.items() if job in instance.done}
    whole = instance.replace(jobs=tuple(made), held=held, done=done, placed={}, tenants=())
    return Gangs(whole, FrozenDict(owner))


def _separator(names: Iterable[str]) -> str:
    """Slashes that occur in no name."""
    separator = "/"
    while any(separator in name for name in names):
        separator *= 2
    return separator
