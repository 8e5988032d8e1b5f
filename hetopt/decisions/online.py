"""Policies that decide event by event, for many thousand jobs: an event costs nothing for the other jobs.

Calling a policy with the whole instance takes time in proportion to the number of jobs. A policy that also has a method
``online(instance)`` gives the simulator an :class:`OnlineScheduler` instead. The simulator passes it each arrival and
completion, and it returns the jobs that start. Both interfaces lead to the same schedule, with one exception: where new
jobs are profiled first, the scheduler gets a job after its profiling runs, while the instance has the job's arrival
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from hetopt.data.gpu_locations import Hosts
from hetopt.data.instance import Instance
from hetopt.data.workload import Job


@dataclass(frozen=True)
class JobStart:
    """A job that starts now and keeps its GPUs until it finishes.

    Attributes
    ----------
    job:
        Its name.
    hosts:
        Server -> GPU type -> GPUs.
    replicas:
        Server -> replicas of each stage; empty for jobs without stages.
    """

    job: str
    hosts: Hosts
    replicas: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class OnlineScheduler(Protocol):
    """Decides event by event; times are in seconds and never decrease."""

    def arrive(self, time: float, job: Job) -> None:
        """``job`` has arrived."""
        ...

    def finish(self, time: float, job: Job) -> None:
        """``job`` has finished, and its GPUs are free."""
        ...

    def decide(self, time: float) -> Sequence[JobStart]:
        """The jobs that start now; called after all arrivals and completions of that second."""
        ...

    @property
    def wake(self) -> float:
        """Second of the next decision if nothing happens before; infinity for never."""
        ...


@runtime_checkable
class OnlinePolicy(Protocol):
    """A policy that can also decide event by event."""

    def online(self, instance: Instance) -> OnlineScheduler:
        """A scheduler for the cluster of ``instance``, initially with only those of its jobs that are placed."""
        ...

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Any, Any]:
        """As any policy."""
        ...
