"""Policies that are told of each event, for many thousand jobs: nothing is done for jobs that an event does not touch.

A policy is asked with the whole instance, which takes time in proportion to all who wait. One that also has a method
``online(instance)`` gives the simulator a :class:`Scheduler` instead, which is told of each arrival and completion, and
answers with the jobs that start. Both ways lead to the same schedule; but where new jobs are profiled first, the
scheduler is told of them when they have been, while the instance says when they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from hetopt.data.instance import Instance
from hetopt.data.workload import Job


@dataclass(frozen=True)
class Start:
    """A job that starts now and keeps its GPUs until it is finished.

    Attributes
    ----------
    job:
        Its name.
    hosts:
        Server -> GPU type -> GPUs.
    replicas:
        Server -> replicas of each stage; empty where stages are not known.
    """

    job: str
    hosts: Mapping[str, Mapping[str, int]]
    replicas: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class Scheduler(Protocol):
    """Decides event by event; times in seconds, never decreasing."""

    def arrive(self, time: float, job: Job) -> None:
        """``job`` has arrived."""
        ...

    def finish(self, time: float, job: Job) -> None:
        """``job`` is done, and its GPUs are free."""
        ...

    def decide(self, time: float) -> Sequence[Start]:
        """Asked once all arrivals and completions of that second have been told."""
        ...

    @property
    def wake(self) -> float:
        """When it wants to be asked again if nothing happens before; infinity for never."""
        ...


@runtime_checkable
class Online(Protocol):
    """A policy that can also decide event by event."""

    def online(self, instance: Instance) -> Scheduler:
        """A scheduler for the cluster of ``instance``, which knows none of its jobs but those that are placed."""
        ...

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Any, Any]:
        """As any policy."""
        ...
