"""GPUs for jobs, one after another: where a gang finishes soonest, and further copies on servers with room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.data.gpu_locations import Hosts
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.placers import FreeGPUs, pack


class Seating:
    """Free GPUs of the servers, and those that jobs have been given.

    Parameters
    ----------
    instance, jobs:
        The instance, and its n jobs.
    start:
        (n, k) seconds that a job loses when it starts on a type.
    last:
        (n,) position of the type on which a job runs, -1 for others.

    Attributes
    ----------
    hosts:
        Job -> server -> GPU type -> GPUs that it has been given.
    """

    def __init__(self, instance: Instance, jobs: Entities, start: Floats, last: Positions) -> None:
        self.instance, self.jobs, self.start = instance, jobs, start
        moves = (last[:, None] >= 0) & (last[:, None] != np.arange(len(jobs.types)))
        self.move = np.where(moves, start, 0.0)
        self.left, self.demand = instance.job_array("work_left"), jobs.demand.astype(int).tolist()
        self.free = {t: FreeGPUs(instance.cluster.seats[t]) for t in jobs.types}
        self.idle = {t: int(n) for t, n in zip(jobs.types, jobs.capacity.tolist(), strict=True)}
        self.hosts: dict[str, dict[str, dict[str, int]]] = {}
        self.placed = dict(instance.placed.items())
        self._large_enough: dict[tuple[int, bytes], int] = {}

    def full(self) -> bool:
        """Whether no GPU is free."""
        return not any(self.idle.values())

    def most_copies(self, e: int) -> float:
        """Copies in which job e may run: at most one on each server that is large enough for its gang."""
        key = (self.demand[e], (self.jobs.speed[e] > 0).tobytes())
        if key not in self._large_enough:
            types = [t for t, rate in zip(self.jobs.types, self.jobs.speed[e].tolist(), strict=True) if rate > 0]
            seats = self.instance.cluster.seats
            self._large_enough[key] = len({s for t in types for s, n in seats[t].items() if n >= key[0]})
        return max(1.0, min(self._large_enough[key], self.instance.jobs[e].copies or np.inf))

    def _types(self, e: int) -> list[str]:
        """The types that can run job e, those on which it finishes soonest first; a move counts."""
        speed = self.jobs.speed[e]
        with np.errstate(divide="ignore"):
            seconds = np.where(speed > 0, self.left[e] / speed + self.move[e], np.inf)
        return [self.jobs.types[k] for k in np.argsort(seconds, kind="stable").tolist() if speed[k] > 0]

    def gang(self, e: int) -> None:
        """Give job e its gang on the first of its types with room, on its present servers if it stays there."""
        name, gpus = self.jobs.names[e], self.demand[e]
        for t in self._types(e):
            if self.idle[t] < gpus:
                continue
            here = {s: n for s, own in self.placed.get(name, {}).items() if (n := own.get(t, 0))}
            stays = sum(here.values()) == gpus and all(self.free[t][s] >= n for s, n in here.items())
            seats = here if stays else pack(gpus, self.free[t], here)
            assert seats is not None
            self._take(name, t, seats)
            return

    def copies(self, e: int, most: float, least_starts: float, least_seconds: float) -> int:
        """Give job e copies of its gang, at most one on each server; return their number.

        Parameters
        ----------
        most:
            Largest number of copies.
        least_starts, least_seconds:
            Beyond the first, a copy is only added if all together still have work for so many times the seconds of its
            start, and for so many seconds.
        """
        name, gpus, rate, number = self.jobs.names[e], self.demand[e], 0.0, 0
        for t, server in self._rooms(e):
            k = self.jobs.types.index(t)
            more, least = rate + float(self.jobs.speed[e, k]), max(least_starts * self.start[e, k], least_seconds)
            if number >= most or (number and self.left[e] / more < least):
                break
            self._take(name, t, {server: gpus})
            rate, number = more, number + 1
        return number

    def _rooms(self, e: int) -> Iterator[tuple[str, str]]:
        """(GPU type, server) with room for the gang of job e; its present servers first on each type."""
        name, gpus = self.jobs.names[e], self.demand[e]
        near: Collection[str] = self.placed.get(name, {})
        for t in self._types(e):
            while self.idle[t] >= gpus:
                server = self.free[t].tightest(gpus, near, self.hosts.get(name, ()))
                if server is None:
                    break
                yield t, server

    def _take(self, name: str, t: str, seats: Mapping[str, int]) -> None:
        self.free[t].add(seats, -1)
        self.idle[t] -= sum(seats.values())
        own = self.hosts.setdefault(name, {})
        for server, n in seats.items():
            own[server] = {t: n}

    def dispatch(self, job: Job) -> dict[str, float]:
        """Work of each copy of a forked job, so that all end together, those that start included; else {}."""
        own = self.hosts[job.name]
        if len(own) < 2 or any(sum(gpus.values()) != job.demand for gpus in own.values()):
            return {}
        e = self.jobs.position[job.name]
        here: Hosts = self.placed.get(job.name, {})
        column = {s: self.jobs.types.index(t) for s, gpus in own.items() for t in gpus}
        rates = {s: float(self.jobs.speed[e, k]) for s, k in column.items()}
        late = {s: 0.0 if here.get(s) == gpus else float(self.start[e, column[s]]) for s, gpus in own.items()}
        left, whole = float(self.left[e]), sum(rates.values())
        end = (left + sum(rates[s] * late[s] for s in own)) / whole
        if end <= max(late.values()):
            return {s: left * rate / whole for s, rate in rates.items()}
        return {s: rates[s] * (end - late[s]) for s in own}
