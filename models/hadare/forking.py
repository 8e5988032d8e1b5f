"""The Job Forker: copies of jobs, with numbers that tell whose copy each is [Hadar, section V-A]."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetopt.checks import whole
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class JobIds:
    """Numbers of jobs and of their copies: ``job_ID = max_jobs i + parent`` for the i-th copy, i = 1, 2, ….

    Copies of unlike jobs have unlike numbers if and only if parents are numbers from 0 to ``max_jobs - 1``.

    Parameters
    ----------
    max_jobs:
        max_job_count: jobs that may be there at the same time.

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
        """Whose copy it is.

        Raises
        ------
        InvalidOption
            It is no copy's number.
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
                "would have the numbers of another job's"
            )
        return int(parent)


def fork(instance: Instance, copies: int | None = None, *, max_jobs: int | None = None) -> Instance:
    """The instance with every job replaced by its copies, each with all of the work left [Hadar, Fig. 7].

    Parameters
    ----------
    copies:
        Of each job; by default as many as there are servers.
    max_jobs:
        max_job_count, by default the number of jobs. A job's own number is its position.

    Returns
    -------
    Instance
        Jobs named ``name#job_ID``; what is held and placed is left out.

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
