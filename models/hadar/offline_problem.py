"""The offline problem: T slots, jobs with gangs, servers with GPUs of several types [Hadar, section III-A].

Slot t = 0 … T-1 lasts from ``time + t seconds`` to ``time + (t + 1) seconds``. A job may run in slots that begin at its
arrival or later. In a slot its gang has all its GPUs or none, on any servers and of any types, and runs at the speed of
the slowest of these types (1b). It completes at the end of the last slot in which it runs (1c).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hetopt.checks import at_least, whole
from hetopt.data.array_types import Floats, Integers, Numbers
from hetopt.data.instance import Instance, check_mixed_gangs
from hetopt.data.rationals import simple_fractions
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.models.hadar.utilities import EffectiveThroughput, Utility, as_utility, checked_utility, utility_of
from hetopt.tolerances import WORK


@dataclass(frozen=True, eq=False)
class OfflineProblem:
    """The numbers of P1: n jobs, C cells (a cell is the GPUs of one type on one server), k GPU types, T slots.

    Attributes
    ----------
    instance:
        The instance.
    seconds:
        Length L of a slot in seconds.
    cells:
        C pairs (server, GPU type).
    gpu_type:
        (C,) position of the cell's GPU type.
    capacity:
        (C,) GPUs c_h^r.
    demand:
        (n,) GPUs W_j of the gang.
    work:
        (n,) work left, E_j N_j minus the work done, as a fraction of ``Job.work``.
    speed:
        (n, k) work of the whole gang in a slot if its slowest GPU is of that type, as a fraction of ``Job.work``; 0
        where it cannot run.
    first:
        (n,) first slot in which the job can run.
    value:
        (n, T) utility if its last slot is t; never increasing from ``first`` on, 0 before.
    utility:
        Utility of jobs that name none.
    """

    instance: Instance
    seconds: float
    cells: tuple[tuple[str, str], ...]
    gpu_type: Integers
    capacity: Integers
    demand: Integers
    work: Numbers
    speed: Numbers
    first: Integers
    value: Numbers
    utility: Utility

    @classmethod
    def of(
        cls,
        instance: Instance,
        slots: int,
        seconds: float = GAVEL_ROUND_SECONDS,
        utility: Utility | str | None = None,
    ) -> OfflineProblem:
        """The problem of the jobs of ``instance`` in ``slots`` slots of ``seconds`` from ``instance.time`` on.

        Parameters
        ----------
        utility:
            Utility of jobs that name none; by default effective throughput.

        Raises
        ------
        InvalidInstance
            No jobs, or a gang that does not fit on the GPUs that can run it.
        InvalidOption
            ``slots`` or ``seconds`` out of range, or a utility that increases with the completion time.
        UnknownName
            A utility that does not exist.
        """
        most = whole(slots, "slots", 1)
        at_least(seconds, "seconds", 0.0, InvalidOption, strict=True)
        default = EffectiveThroughput() if utility is None else as_utility(utility, "utility")
        jobs = instance.entities("jobs")
        cells = [(s.name, t) for s in instance.cluster.servers for t in jobs.types if s.gpus.get(t, 0)]
        total, left = instance.job_array("work"), instance.job_array("work_left")
        check_mixed_gangs(jobs)
        speed = jobs.task_speed_now
        for j in np.flatnonzero(~speed.any(axis=1))[:1].tolist():
            raise InvalidInstance(
                "can run on no GPU of the cluster: its types have no GPUs", ("jobs", Item(jobs.names[j]))
            )
        for j in np.flatnonzero(left <= WORK * total)[:1].tolist():
            raise InvalidInstance(
                f"is done; instance.at({instance.time:g}) leaves such jobs out", ("jobs", Item(jobs.names[j]))
            )
        first = np.maximum(0, np.ceil((instance.job_array("arrival") - instance.time) / seconds - WORK)).astype(int)
        return cls(
            instance,
            float(seconds),
            tuple(cells),
            np.array([jobs.types.index(t) for _, t in cells]),
            np.array([instance.cluster.by_name[server].gpus[t] for server, t in cells]),
            jobs.demand.astype(int),
            left / total,
            speed * seconds / total[:, None],
            first,
            _values(instance, first, most, float(seconds), default),
            default,
        )

    @property
    def slots(self) -> int:
        """Number of slots T."""
        return int(self.value.shape[1])

    @cached_property
    def exact(self) -> OfflineProblem:
        """The problem in Fractions: every number of the instance becomes the simplest fraction that it represents."""
        instance, jobs = self.instance, self.instance.entities("jobs")
        total = simple_fractions(instance.job_array("work"))
        done = simple_fractions([instance.done.get(name, 0.0) for name in jobs.names])
        speed = simple_fractions(jobs.task_speed_now) * simple_fractions([self.seconds])[0]
        return replace(
            self, work=(total - done) / total, speed=speed / total[:, None], value=simple_fractions(self.value)
        )

    @property
    def is_exact(self) -> bool:
        """Whether the numbers are Fractions."""
        return self.work.dtype == object

    @cached_property
    def least_work(self) -> Numbers:
        """(n,) work at which a job is done: all of it, minus a tolerance for floats."""
        return self.work if self.is_exact else np.asarray(self.work - WORK)

    def levels(self, job: int) -> list[Any]:
        """The speeds > 0 that the job's gang may have, fastest first."""
        return sorted({v for v in self.speed[job].tolist() if v > 0}, reverse=True)

    def name(self, job: int) -> str:
        """The job's name."""
        return self.instance.jobs[job].name

    def none_used(self) -> Integers:
        """(T, C) zeros: GPUs in use of each cell in each slot."""
        return np.zeros((self.slots, len(self.cells)), dtype=np.int64)


def _values(instance: Instance, first: Integers, slots: int, seconds: float, default: Utility) -> Floats:
    """(n, T) utilities of completion at the end of each slot."""
    value = np.zeros((len(instance.jobs), slots))
    ends = instance.time + seconds * np.arange(1.0, slots + 1)
    for j, job in enumerate(instance.jobs):
        if first[j] < slots:
            value[j, first[j] :] = checked_utility(utility_of(job, default), job, ends[first[j] :] - job.arrival)
    return value
