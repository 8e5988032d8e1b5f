"""Seconds that a job loses to start, to resume and to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hetopt.checks import at_least
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import HeldGPUs
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption


class Overhead(Protocol):
    """Seconds that a job loses before it trains on new GPUs.

    Overheads with a cost of forked jobs have an attribute ``merge_seconds``, as :class:`Overheads`.
    """

    def __call__(self, job: Job, before: HeldGPUs | None, now: HeldGPUs, cluster: Cluster) -> float:
        """Seconds lost when ``job``, which last ran on ``before``, starts on ``now``.

        ``before`` is None if it never ran, and empty if it lost its GPUs by a server failure.
        """
        ...


@dataclass(frozen=True)
class Overheads:
    """Seconds lost by a job that starts, resumes after a pause, or restarts on other GPUs.

    A restart takes ``restart_seconds`` and the transfer of the job's ``checkpoint_bytes`` over the slowest network card
    among the servers that it leaves and enters [FFT, section 4.2.3]. Nothing is transferred if it left every server
    that it enters. Without servers, a change of GPU type counts as a change of servers, and GPUs of the same type count
    as the same GPUs (FFT's optimistic assumption). A job whose server failed always restarts, and reads its last
    checkpoint from shared storage over the cards of the servers that it enters.

    Parameters
    ----------
    restart_seconds:
        Seconds to restart on other GPUs than the last ones, without the transfer.
    resume_seconds:
        Seconds to resume on the last GPUs after a pause.
    start_seconds:
        Seconds to start for the first time.
    transfer:
        Whether to count the transfer of the checkpoint.
    merge_seconds:
        Seconds per decision and copy of a forked job to collect, average and send its parameters.
    save_seconds:
        Seconds to write the checkpoint of an interrupted job; counted when it resumes or restarts, not after a failure.

    Raises
    ------
    InvalidOption
        Negative seconds.
    """

    restart_seconds: float = 0.0
    resume_seconds: float = 0.0
    start_seconds: float = 0.0
    transfer: bool = True
    merge_seconds: float = 0.0
    save_seconds: float = 0.0

    def __post_init__(self) -> None:
        for key in ("restart_seconds", "resume_seconds", "start_seconds", "merge_seconds", "save_seconds"):
            at_least(getattr(self, key), f"Overheads.{key}", 0.0, InvalidOption)

    def __call__(self, job: Job, before: HeldGPUs | None, now: HeldGPUs, cluster: Cluster) -> float:
        """Seconds lost when ``job``, which last ran on ``before`` (None: never), starts on ``now``."""
        if before is None:
            return self.start_seconds
        if before == now:
            return self.save_seconds + self.resume_seconds
        moving = self.restart_seconds + (self.save_seconds if before else 0.0)
        return moving + (transfer_seconds(job, before, now, cluster) if self.transfer else 0.0)


def transfer_seconds(job: Job, before: HeldGPUs, now: HeldGPUs, cluster: Cluster) -> float:
    """Seconds to transfer the job's checkpoint from ``before`` to ``now``."""
    if not job.checkpoint_bytes:
        return 0.0
    left, entered = {server for server, _ in before}, {server for server, _ in now}
    if "" in left or "" in entered:
        left, entered = _servers(before, cluster), _servers(now, cluster)
    elif entered <= left:
        return 0.0
    slowest = min(cluster.by_name[server].nic_bytes_per_s for server in left | entered)
    return job.checkpoint_bytes / slowest


def _servers(where: HeldGPUs, cluster: Cluster) -> set[str]:
    """The servers in ``where``; without servers, all servers with GPUs of its types."""
    named = {server for server, _ in where if server}
    types = {t for server, t in where if not server}
    return named.union(*(cluster.seats[t] for t in types))
