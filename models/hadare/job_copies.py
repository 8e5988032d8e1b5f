"""Job Forker and Job Tracker [Hadar, section V]: numbers of copies, and their whole steps, for a training loop.

The policy does not use them: it divides work, not steps, among the copies (:mod:`hetopt.models.hadare.hadare_policy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hetopt.checks import at_least, lookup, whole
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.executor.averaging import State, consolidate


@dataclass(frozen=True)
class JobIds:
    """Numbers of jobs and of their copies: ``job_ID = max_jobs i + parent`` for the i-th copy, i = 1, 2, ….

    Copies of different jobs have different numbers if and only if parents are numbers from 0 to ``max_jobs - 1``.

    Parameters
    ----------
    max_jobs:
        max_job_count: largest number of jobs at the same time.

    Raises
    ------
    InvalidOption
        It is no whole number >= 1.
    """

    max_jobs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_jobs", whole(self.max_jobs, "max_jobs", 1))

    def copy(self, parent: int, i: int) -> int:
        """Number of the i-th copy.

        Raises
        ------
        InvalidOption
            ``parent`` is not from 0 to ``max_jobs - 1``, or ``i`` no whole number >= 1.
        """
        return self.max_jobs * whole(i, "i", 1) + self.checked(parent)

    def copies(self, parent: int, number: int) -> tuple[int, ...]:
        """Numbers of all copies of a job."""
        return tuple(self.copy(parent, i) for i in range(1, whole(number, "copies", 1) + 1))

    def parent(self, job_id: int) -> int:
        """Number of the job that a copy belongs to.

        Raises
        ------
        InvalidOption
            It is not the number of a copy.
        """
        return whole(job_id, "job_id", self.max_jobs) % self.max_jobs

    def checked(self, parent: int) -> int:
        """``parent``, if it is from 0 to ``max_jobs - 1``.

        Raises
        ------
        InvalidOption
            It is not.
        """
        if whole(parent, "parent job_id", 0) >= self.max_jobs:
            raise InvalidOption(
                f"parent job_id is {parent}; it must be from 0 to max_jobs - 1 = {self.max_jobs - 1}, or its copies "
                "would share numbers with copies of another job"
            )
        return int(parent)


def fork(instance: Instance, copies: int | None = None, *, max_jobs: int | None = None) -> Instance:
    """The instance with every job replaced by its copies, each with all of the work left [Hadar, Fig. 7].

    Parameters
    ----------
    copies:
        Copies of each job; by default the number of servers.
    max_jobs:
        max_job_count, by default the number of jobs. A job's own number is its position.

    Returns
    -------
    Instance
        Jobs named ``name#job_ID``; without ``held`` and ``placed``.

    Raises
    ------
    InvalidOption
        No copies, or more jobs than ``max_jobs``.
    """
    ids = JobIds(len(instance.jobs) if max_jobs is None else max_jobs)
    number = len(instance.cluster.servers) if copies is None else copies
    names = {
        job.name: [f"{job.name}#{copy}" for copy in ids.copies(parent, number)]
        for parent, job in enumerate(instance.jobs)
    }
    jobs = tuple(replace(job, name=name) for job in instance.jobs for name in names[job.name])
    done = {name: instance.done[job] for job, own in names.items() if job in instance.done for name in own}
    return instance.replace(jobs=jobs, done=done, held={}, placed={})


@dataclass
class Tracked:
    """Record of a job in the tracker; numbers in training steps.

    Attributes
    ----------
    parent:
        Number of the job.
    total:
        Steps of the whole job.
    copies:
        Numbers of its copies; empty once it is done.
    done:
        Steps of all copies together, in closed rounds.
    reports:
        Copy -> steps reported in the open round.
    dispatched:
        Copy -> steps assigned in the open round.
    """

    parent: int
    total: int
    copies: tuple[int, ...]
    done: int = 0
    reports: dict[int, int] = field(default_factory=dict)
    dispatched: dict[int, int] = field(default_factory=dict)


class JobTracker:
    """Register forked jobs, assign their steps, sum up the steps done, and merge the parameters of copies.

    A round is: :meth:`dispatch` for each job, :meth:`report` of each copy that ran, :meth:`merge` and then
    :meth:`close_round`.

    Parameters
    ----------
    max_jobs:
        max_job_count: largest number of jobs at the same time.

    Raises
    ------
    InvalidOption
        It is no whole number >= 1.

    Examples
    --------
    >>> from hetopt.models.hadare import JobTracker
    >>> tracker = JobTracker(max_jobs=10)
    >>> tracker.register("LM", parent=3, steps=100, copies=2)
    (13, 23)
    >>> tracker.dispatch("LM", {13: 4.0, 23: 1.0})
    {13: 80, 23: 20}
    >>> tracker.report(13, 80)
    >>> tracker.report(23, 15)
    >>> tracker.close_round()
    []
    >>> tracker.left("LM")
    5
    """

    def __init__(self, max_jobs: int) -> None:
        self.ids = JobIds(max_jobs)
        self.jobs: dict[str, Tracked] = {}
        self._owner: dict[int, str] = {}

    def register(self, name: str, parent: int, steps: int, copies: int) -> tuple[int, ...]:
        """Register a job and fork it; returns the numbers of its copies.

        Raises
        ------
        InvalidOption
            A name or number of a job that is not done, a number out of range, no steps, no copies.
        """
        if name in self.jobs and self.jobs[name].copies:
            raise InvalidOption(f"job {name!r} is registered already")
        taken = {job.parent: other for other, job in self.jobs.items() if job.copies}
        if self.ids.checked(parent) in taken:
            raise InvalidOption(f"parent job_id is {parent}, which job {taken[parent]!r} has; give each job its own")
        total = whole(steps, f"steps of job {name!r}", 1)
        numbers = self.ids.copies(parent, copies)
        self.jobs[name] = Tracked(parent, total, numbers)
        self._owner |= dict.fromkeys(numbers, name)
        return numbers

    def left(self, name: str) -> int:
        """Steps left.

        Raises
        ------
        UnknownName
            There is no such job.
        """
        job = lookup(self.jobs, name, "job")
        return max(0, job.total - job.done)

    def dispatch(self, name: str, throughput: Mapping[int, float]) -> dict[int, int]:
        """Assign all steps left to the copies in proportion to throughput (largest remainder).

        Parameters
        ----------
        throughput:
            Copy that will run -> estimated throughput on its node, in any common unit.

        Raises
        ------
        InvalidOption
            Not a copy of the job, no copies, a throughput that is not positive, or copies that have already reported in
            this round.
        """
        job = lookup(self.jobs, name, "job")
        self._check_copies(name, throughput)
        if job.reports:
            raise InvalidOption(
                f"copies {sorted(job.reports)} of job {name!r} have reported in this round; close it before steps are "
                "assigned again"
            )
        job.dispatched = split_steps(self.left(name), throughput)
        return dict(job.dispatched)

    def report(self, copy: int, steps: int) -> None:
        """Record the steps of a copy in this round.

        Raises
        ------
        InvalidOption
            Not a copy of an unfinished job, a second report in the round, or more steps than assigned.
        """
        if copy not in self._owner:
            known = sorted(self._owner)
            raise InvalidOption(f"is {copy}, which is no copy of an unfinished job; those are {known}", "job_ID")
        job = self.jobs[self._owner[copy]]
        if copy in job.reports:
            raise InvalidOption(
                f"copy {copy} has reported {job.reports[copy]} steps already; each reports once a round"
            )
        done = whole(steps, f"steps of copy {copy}", 0)
        if done > (most := job.dispatched.get(copy, 0)):
            raise InvalidOption(f"copy {copy} reports {done} steps; {most} were assigned in this round")
        job.reports[copy] = done

    def merge(self, name: str, states: Mapping[int, State]) -> dict[str, Any]:
        """The job's parameters after the round: the average over its copies, weighted by reported steps.

        Raises
        ------
        InvalidOption
            Copies that have not reported, no steps at all, or parameters that do not match.
        """
        job = lookup(self.jobs, name, "job")
        self._check_copies(name, states)
        if missing := sorted(set(states) - set(job.reports)):
            raise InvalidOption(f"copy {missing[0]} has not reported its steps; merge needs them as weights")
        return consolidate(list(states.values()), [job.reports[copy] for copy in states])

    def close_round(self) -> list[str]:
        """Add the reported steps to the jobs; returns the names of the finished jobs, whose copies are discarded."""
        finished = []
        for name, job in self.jobs.items():
            job.done += sum(job.reports.values())
            job.reports, job.dispatched = {}, {}
            if job.copies and job.done >= job.total:
                for copy in job.copies:
                    del self._owner[copy]
                job.copies = ()
                finished.append(name)
        return finished

    def _check_copies(self, name: str, given: Mapping[int, Any]) -> None:
        copies = self.jobs[name].copies
        if wrong := [copy for copy in given if copy not in copies]:
            raise InvalidOption(f"is {wrong[0]}, which is no copy of job {name!r}; it has {list(copies)}", "job_ID")
        if not given:
            raise InvalidOption(f"no copy of job {name!r} is given; it has {list(copies)}")


def split_steps(steps: int, throughput: Mapping[Any, float]) -> dict[Any, int]:
    """Split ``steps`` into integers in proportion to ``throughput``; the largest remainders are rounded up.

    So all copies finish at about the same time: each is within one step of its exact share.

    Raises
    ------
    InvalidOption
        ``steps`` is no whole number >= 0, or a throughput is not positive.
    """
    steps = whole(steps, "steps", 0)
    for copy, value in throughput.items():
        at_least(value, f"throughput of copy {copy}", 0.0, InvalidOption, strict=True)
    rates = np.array(list(throughput.values()), dtype=float)
    ideal = steps * (rates / rates.sum())
    parts = np.floor(ideal).astype(int)
    order: Sequence[int] = np.argsort(-(ideal - parts), kind="stable").tolist()
    for i in order[: steps - int(parts.sum())]:
        parts[i] += 1
    return dict(zip(throughput, parts.tolist(), strict=True))
