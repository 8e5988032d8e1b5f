"""Datasets on the local disks of servers: fetched before a job trains, evicted when the disk is full [FFT, 4.4.2]."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hetopt.checks import at_least
from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class LocalDisks:
    """Every server that a job enters must have the job's dataset on its disk; else it is fetched first.

    The servers of a job fetch in parallel, and the job waits for the slowest. A job that needs a dataset being fetched
    waits for the rest of the fetch; a fetch without waiting jobs is cancelled. A dataset in use is never evicted. If
    there is too little room after all evictions, the dataset is streamed, not stored, and must be fetched again.
    Without this part of the environment (the default), datasets are on shared storage, and samples are read ahead while
    the job computes, at no cost.

    Parameters
    ----------
    source_bytes_per_s:
        Bandwidth from the repository to each server, in bytes/s; infinity: limited by the server's network card only.
    evict_seconds:
        Seconds to delete one dataset.
    proactive:
        Evict as soon as a disk has less room than its largest dataset takes, in the background [FFT, section 6.2.3];
        else only when the next dataset needs the room, and its job waits for the deletion. The least recently used
        dataset goes first.

    Raises
    ------
    InvalidOption
        A bandwidth that is not positive, negative seconds.
    """

    source_bytes_per_s: float = float("inf")
    evict_seconds: float = 0.0
    proactive: bool = False

    def __post_init__(self) -> None:
        if self.source_bytes_per_s != float("inf"):
            at_least(self.source_bytes_per_s, "LocalDisks.source_bytes_per_s", 0.0, InvalidOption, strict=True)
        at_least(self.evict_seconds, "LocalDisks.evict_seconds", 0.0, InvalidOption)

    def on(self, cluster: Cluster) -> Disks:
        """The disks of ``cluster``, empty."""
        return Disks(self, cluster)


class Disks:
    """The datasets on each disk."""

    def __init__(self, rules: LocalDisks, cluster: Cluster) -> None:
        self.rules, self.servers = rules, cluster.by_name
        self._stored: defaultdict[str, OrderedDict[str, float]] = defaultdict(OrderedDict)  # least recently used first
        self._users: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._fetched: dict[tuple[str, str], float] = {}  # second at which the fetch ends

    def enter(self, job: Job, servers: Iterable[str], time: float) -> float:
        """Seconds after ``time`` until all of these servers have the job's dataset, which it then uses."""
        if job.dataset is None:
            return 0.0
        return max((self._enter(job, server, job.dataset, time) for server in servers if server), default=0.0)

    def leave(self, job: Job, servers: Iterable[str], time: float) -> None:
        """End the job's use of its dataset on these servers."""
        if job.dataset is None:
            return
        for server in servers:
            users = self._users[server, job.dataset]
            users.discard(job.name)
            if not users and self._fetched.get((server, job.dataset), 0.0) > time:
                self._stored[server].pop(job.dataset, None)
            if self.rules.proactive:
                self._evict(server, max(self._stored[server].values(), default=0.0))

    def lose(self, server: str) -> None:
        """Drop the datasets on the disk of a server that is down."""
        self._stored.pop(server, None)

    def bytes_on(self, server: str) -> float:
        """Bytes of all datasets on the server's disk."""
        return sum(self._stored[server].values())

    def _enter(self, job: Job, server: str, dataset: str, time: float) -> float:
        stored, disk = self._stored[server], self.servers[server].disk_bytes
        self._users[server, dataset].add(job.name)
        if dataset in stored:
            stored.move_to_end(dataset)
            return max(self._fetched[server, dataset] - time, 0.0)
        seconds = job.dataset_bytes / min(self.rules.source_bytes_per_s, self.servers[server].nic_bytes_per_s)
        need = job.dataset_bytes
        if disk is None or need <= disk:
            seconds += self._evict(server, need) * self.rules.evict_seconds
            if disk is None or self.bytes_on(server) + need <= disk:
                stored[dataset] = need
                self._fetched[server, dataset] = time + seconds
        return seconds

    def _evict(self, server: str, need: float) -> int:
        """Delete unused datasets until there is room, the least recently used first; returns how many."""
        stored, disk = self._stored[server], self.servers[server].disk_bytes
        if disk is None:
            return 0
        idle = [name for name in stored if not self._users[server, name]]
        if self.bytes_on(server) - sum(stored[name] for name in idle) + need > disk:
            return 0  # deleting them all does not make enough room
        deleted = 0
        for name in idle:
            if self.bytes_on(server) + need <= disk:
                break
            del stored[name]
            deleted += 1
        return deleted
