"""Jobs in slots, in fractions: the cases of Hadar's claims, their schedules and the best choice of schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Rows,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)

F = Fraction
SECONDS = 360
"""Length of a slot [Hadar, section IV]."""

TYPES = ("V100", "P100", "K80")

SlotUses = tuple[tuple[int, int, int], ...]
"""Triples (slot, cell, GPUs), sorted."""


class SlotJob(NamedTuple):
    """A job that runs as a gang.

    Attributes
    ----------
    gpus:
        W_j.
    work:
        Work, in any unit.
    speed:
        (k,) work of the gang in a slot if its slowest GPU is of that type; 0 where it cannot run.
    arrival:
        First possible slot.
    worth, fading:
        Utility of completion: ``worth``, or for fading utility ``worth`` times the least time over the completion time
        (effective throughput).
    """

    gpus: int
    work: Fraction
    speed: tuple[Fraction, ...]
    arrival: int
    worth: Fraction
    fading: bool

    def value(self, last: int) -> Fraction:
        """Utility if the job completes in slot ``last``."""
        if not self.fading:
            return self.worth
        return self.worth * self.work / max(self.speed) / (last + 1 - self.arrival)


class SlotSchedule(NamedTuple):
    """A schedule of one job: its utility, and the GPUs that it uses."""

    value: Fraction
    uses: SlotUses


ChosenSchedules = tuple[SlotSchedule | None, ...]
"""For each job its schedule, or None."""


@dataclass(frozen=True)
class SlotCase:
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

    jobs: tuple[SlotJob, ...]
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
        """The jobs in the order of arrival."""
        return tuple(sorted(range(len(self.jobs)), key=lambda j: self.jobs[j].arrival))

    @cached_property
    def instance(self) -> Instance:
        """As an instance of the library, in slots of 360 s."""
        types = TYPES[: len(self.servers[0])]
        servers, count = list[Server](), Counter[str]()
        for row in self.servers:
            gpus = {t: c for t, c in zip(types, row, strict=True) if c}
            kind = "-".join(gpus).lower()
            servers.append(Server(f"{kind}-{count[kind]}", gpus))
            count[kind] += 1
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
        """(speed, pairs (cell, GPUs)) of every possible gang of the job in a slot, (1b) and (1e)."""
        speed = self.jobs[job].speed

        def seatings(i: int, missing: int) -> Iterator[tuple[tuple[int, int], ...]]:
            if not missing:
                yield ()
            elif i < len(self.cells):
                _, r, c = self.cells[i]
                for n in range((min(c, missing) if speed[r] else 0) + 1):
                    for rest in seatings(i + 1, missing - n):
                        yield ((i, n), *rest) if n else rest

        gangs = seatings(0, self.jobs[job].gpus)
        return [(min(speed[self.cells[i][1]] for i, _ in seats), seats) for seats in gangs]

    @cached_property
    def schedules(self) -> tuple[tuple[SlotSchedule, ...], ...]:
        """For each job all schedules without superfluous slots; an optimum needs no others."""
        return tuple(tuple(self._schedules(j)) for j in range(len(self.jobs)))

    def _schedules(self, j: int) -> Iterator[SlotSchedule]:
        job, gangs = self.jobs[j], self.gangs(j)

        def extend(t: int, left: Fraction, slowest: Fraction, uses: SlotUses) -> Iterator[SlotSchedule]:
            if t == self.slots:
                return
            yield from extend(t + 1, left, slowest, uses)
            for speed, seats in gangs:
                longer = (*uses, *((t, i, n) for i, n in seats))
                if speed < left:
                    yield from extend(t + 1, left - speed, min(slowest, speed), longer)
                elif left - speed + min(slowest, speed) > 0:  # no slot could be left out
                    yield SlotSchedule(job.value(t), longer)

        yield from extend(job.arrival, job.work, max(job.speed), ())

    @cached_property
    def best(self) -> tuple[Fraction, ChosenSchedules]:
        """OPT, the largest total utility of schedules within the capacity, and schedules that reach it."""
        most = [max((s.value for s in schedules), default=F(0)) for schedules in self.schedules]
        bound = [sum(most[j:], F(0)) for j in range(len(most) + 1)]
        found: tuple[Fraction, ChosenSchedules] = (F(0), (None,) * len(most))

        def search(j: int, total: Fraction, chosen: ChosenSchedules, used: Counter[tuple[int, int]]) -> None:
            nonlocal found
            if total > found[0]:
                found = total, (*chosen, *(None,) * (len(most) - j))
            if j == len(most) or total + bound[j] <= found[0]:
                return
            for schedule in sorted(self.schedules[j], key=lambda s: -s.value):
                after = used + Counter({(t, i): n for t, i, n in schedule.uses})
                if all(n <= self.cells[i][2] for (_, i), n in after.items()):
                    search(j + 1, total + schedule.value, (*chosen, schedule), after)
            search(j + 1, total, (*chosen, None), used)

        search(0, F(0), (), Counter())
        return found

    def picture(self, title: str, chosen: Sequence[SlotSchedule | None]) -> Timeline:
        """Picture of the schedules, slot by slot."""
        servers = self.instance.cluster.servers
        bars = []
        for j, schedule in enumerate(chosen):
            for t, i, n in schedule.uses if schedule else ():
                h, r, _ = self.cells[i]
                label = f"{n} j{j + 1}" if n > 1 else f"j{j + 1}"
                bars.append(TimelineBar(f"{servers[h].name} {TYPES[r]}", F(t), F(t + 1), label))
        return Timeline(title, tuple(bars), "slots")


DEFAULTS: Mapping[str, Fraction] = {"demand": F(1), "work": F(1), "arrival": F(0), "fading": F(0), "speed": F(1)}
"""Entries of absent tables."""


def case_of(numbers: CaseNumbers) -> SlotCase:
    """The case of these tables.

    Tables are ``worth`` (1, n) and ``gpus`` (h, k), and optionally ``demand``, ``work``, ``arrival``, ``fading``
    (1, n), ``speed`` (n, k), and ``slots`` (1, 1).
    """
    worth, servers = numbers.row("worth"), tuple(tuple(int(c) for c in row) for row in numbers["gpus"])

    def rows(name: str, rows: int, columns: int) -> Rows:
        return numbers[name] if name in numbers.tables else ((DEFAULTS[name],) * columns,) * rows

    slots = int(numbers.one("slots")) if "slots" in numbers.tables else 1
    n, k = len(worth), len(servers[0])
    columns = zip(*(rows(name, 1, n)[0] for name in ("demand", "work", "arrival", "fading")), strict=True)
    jobs = tuple(
        SlotJob(int(demand), work, speed, int(arrival), value, bool(fading))
        for value, speed, (demand, work, arrival, fading) in zip(worth, rows("speed", n, k), columns, strict=True)
    )
    return SlotCase(jobs, servers, slots)


@hypothesis("every job has positive work and at least one GPU in its gang")
def jobs_work(case: SlotCase) -> bool:
    """No job is done before it starts."""
    return all(job.work > 0 and job.gpus > 0 for job in case.jobs)


@hypothesis("every gang fits on the GPUs that can run its job")
def gangs_fit(case: SlotCase) -> bool:
    """Servers together have enough GPUs of types with positive speed."""
    return all(job.gpus <= sum(c for _, r, c in case.cells if job.speed[r]) for job in case.jobs)


@hypothesis(r"every job arrives within the slots, $a_j \in [T]$")
def arrive_in_time(case: SlotCase) -> bool:
    """Slots are numbered from 0 here."""
    return all(job.arrival < case.slots for job in case.jobs)


@hypothesis("every server has GPUs")
def servers_have_gpus(case: SlotCase) -> bool:
    """Of some type."""
    return all(map(any, case.servers))


@hypothesis("all utilities are positive")
def positive(case: SlotCase) -> bool:
    """So that prices between U_min and U_max, as printed, are defined."""
    return all(job.worth > 0 for job in case.jobs)


@hypothesis("utilities do not increase with the completion time")
def non_increasing(case: SlotCase) -> bool:
    """As the paper assumes."""
    return all(a >= b for job in case.jobs for a, b in pairwise(map(job.value, range(job.arrival, case.slots))))


def slot_space(
    *hypotheses: Hypothesis[SlotCase],
    n: tuple[int, int] = (1, 3),
    h: tuple[int, int] = (1, 2),
    k: tuple[int, int] = (1, 2),
    values: Mapping[str, tuple[Fraction, ...]] | None = None,
    chosen: Callable[[ValueChooser, Mapping[str, int]], CaseNumbers] | None = None,
) -> Space[SlotCase]:
    """Jobs, servers and slots with these sizes.

    Parameters
    ----------
    values:
        Entries of the tables; absent tables have default entries.
    """
    shapes: dict[str, tuple[str | int, str | int]] = {"gpus": ("h", "k"), "speed": ("n", "k"), "slots": (1, 1)}
    entries = {"worth": integers(1, 9), "gpus": integers(1, 2), **(values or {})}
    tables = {name: TableShape(*shapes.get(name, (1, "n")), allowed) for name, allowed in entries.items()}
    given = (jobs_work, gangs_fit, arrive_in_time, servers_have_gpus, *hypotheses)
    return Space({"n": n, "h": h, "k": k}, tables, case_of, chosen, given)
