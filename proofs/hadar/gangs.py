"""Gangs in slots, in fractions: the cases of Hadar's claims, their schedules and the best choice among these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import NamedTuple

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.proofs.ledger.pictures import Bar, Timeline

F = Fraction
SECONDS = 360
"""Length of a slot [Hadar, section IV]."""

TYPES = ("V100", "P100", "K80")

Uses = tuple[tuple[int, int, int], ...]
"""Triples (slot, cell, GPUs), sorted."""


class Gang(NamedTuple):
    """A job.

    Attributes
    ----------
    gpus:
        W_j.
    work:
        In any unit.
    speed:
        (k,) work of the gang in a slot if its slowest GPU is of that type; 0 where it cannot run.
    arrival:
        First slot in which it can run.
    worth, fading:
        Utility of being done: ``worth``, or if it fades ``worth`` times the least time over the completion time
        (effective throughput).
    """

    gpus: int
    work: Fraction
    speed: tuple[Fraction, ...]
    arrival: int
    worth: Fraction
    fading: bool

    def value(self, last: int) -> Fraction:
        """Utility if ``last`` is its last slot."""
        if not self.fading:
            return self.worth
        return self.worth * self.work / max(self.speed) / (last + 1 - self.arrival)


class Planned(NamedTuple):
    """A schedule of one job: its utility, and what it uses."""

    value: Fraction
    uses: Uses


Chosen = tuple[Planned | None, ...]
"""For each job its schedule, or None."""


@dataclass(frozen=True)
class Gangs:
    """Jobs, servers and slots.

    Attributes
    ----------
    jobs:
        In the order of the instance.
    servers:
        (H, k) GPUs.
    slots:
        T.
    """

    jobs: tuple[Gang, ...]
    servers: tuple[tuple[int, ...], ...]
    slots: int

    @cached_property
    def cells(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (server, GPU type, GPUs > 0)."""
        return tuple((h, r, c) for h, row in enumerate(self.servers) for r, c in enumerate(row) if c)

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return sum(c for _, _, c in self.cells)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The jobs as they arrive."""
        return tuple(sorted(range(len(self.jobs)), key=lambda j: self.jobs[j].arrival))

    @cached_property
    def instance(self) -> Instance:
        """As an instance of the library, in slots of 360 s."""
        types = TYPES[: len(self.servers[0])]
        servers, alike = [], dict[tuple[str, ...], int]()
        for row in self.servers:
            there = tuple(t for t, c in zip(types, row, strict=True) if c)
            name = f"{'-'.join(there).lower()}-{alike.setdefault(there, 0)}"
            alike[there] += 1
            servers.append(Server(name, {t: c for t, c in zip(types, row, strict=True) if c}))
        jobs = tuple(
            Job(
                f"j{j + 1}",
                {t: float(v / SECONDS) for t, v in zip(types, job.speed, strict=True)},
                float(job.work),
                job.gpus,
                arrival=float(SECONDS * job.arrival),
                weight=float(job.worth),
                utility="weighted-throughput" if job.fading else "weight",
            )
            for j, job in enumerate(self.jobs)
        )
        return Instance(Cluster(tuple(map(GPUType, types)), tuple(servers)), jobs=jobs)

    @cached_property
    def problem(self) -> OfflineProblem:
        """As the library's offline problem, in fractions."""
        return OfflineProblem.of(self.instance, self.slots, float(SECONDS)).exact

    # -- schedules -----------------------------------------------------------------------------------------------

    def gangs(self, job: int) -> list[tuple[Fraction, tuple[tuple[int, int], ...]]]:
        """(speed, pairs (cell, GPUs)) of every gang that the job may have in a slot, (1b) and (1e)."""
        own = self.jobs[job]

        def seat(i: int, left: int) -> Iterator[tuple[tuple[int, int], ...]]:
            if not left:
                yield ()
            elif i < len(self.cells):
                _, r, c = self.cells[i]
                for n in range((min(c, left) if own.speed[r] else 0) + 1):
                    for rest in seat(i + 1, left - n):
                        yield ((i, n), *rest) if n else rest

        return [(min(own.speed[self.cells[i][1]] for i, _ in seats), seats) for seats in seat(0, own.gpus)]

    @cached_property
    def schedules(self) -> tuple[tuple[Planned, ...], ...]:
        """For each job all its schedules that run in no slot they could do without; an optimum needs no others."""
        return tuple(tuple(self._schedules(j)) for j in range(len(self.jobs)))

    def _schedules(self, j: int) -> Iterator[Planned]:
        own, ways = self.jobs[j], self.gangs(j)

        def extend(t: int, left: Fraction, slowest: Fraction, uses: Uses) -> Iterator[Planned]:
            if t == self.slots:
                return
            yield from extend(t + 1, left, slowest, uses)
            for speed, seats in ways:
                longer = (*uses, *((t, i, n) for i, n in seats))
                if speed < left:
                    yield from extend(t + 1, left - speed, min(slowest, speed), longer)
                elif left - speed + min(slowest, speed) > 0:  # no slot could be left out
                    yield Planned(own.value(t), longer)

        yield from extend(own.arrival, own.work, max(own.speed), ())

    @cached_property
    def best(self) -> tuple[Fraction, Chosen]:
        """OPT, the largest total utility of schedules for which there are GPUs, and such a choice."""
        left = [max((s.value for s in own), default=F(0)) for own in self.schedules]
        after = [sum(left[j:], F(0)) for j in range(len(left) + 1)]
        found: tuple[Fraction, Chosen] = (F(0), (None,) * len(left))

        def search(j: int, total: Fraction, chosen: Chosen, used: dict[tuple[int, int], int]) -> None:
            nonlocal found
            if total > found[0]:
                found = total, (*chosen, *(None,) * (len(left) - j))
            if j == len(left) or total + after[j] <= found[0]:
                return
            for one in sorted(self.schedules[j], key=lambda s: -s.value):
                if (more := self._with(used, one)) is not None:
                    search(j + 1, total + one.value, (*chosen, one), more)
            search(j + 1, total, (*chosen, None), used)

        search(0, F(0), (), {})
        return found

    def _with(self, used: Mapping[tuple[int, int], int], one: Planned) -> dict[tuple[int, int], int] | None:
        """GPUs in use with this schedule as well; None where they are too few."""
        more = dict(used)
        for t, i, n in one.uses:
            more[t, i] = more.get((t, i), 0) + n
            if more[t, i] > self.cells[i][2]:
                return None
        return more

    def picture(self, title: str, chosen: Sequence[Planned | None]) -> Timeline:
        """Who runs where in which slot."""
        servers, types = self.instance.cluster.servers, TYPES
        bars = []
        for j, own in enumerate(chosen):
            for t, i, n in own.uses if own else ():
                h, r, _ = self.cells[i]
                many = f"{n} " if n > 1 else ""
                bars.append(Bar(f"{servers[h].name} {types[r]}", F(t), F(t + 1), f"{many}j{j + 1}"))
        return Timeline(title, tuple(bars), "slots")


def slots_of(work: Fraction, speed: Fraction) -> int:
    """Slots that so much work takes."""
    return ceil(work / speed)
