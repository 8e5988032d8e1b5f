"""Plain and slow answers to Hadar's questions, written from the paper alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from hetopt import Instance, Job
from hetopt.models.hadar import OfflineProblem
from hetopt.models.hadar.appraisal import open_market, placed_gpus
from hetopt.models.hadar.round_market import Bid, GPUMarket, ServerGPUs, find_offer
from hetopt.models.hadar.utilities import EffectiveThroughput, utility_of
from hetopt.models.hadare.copy_assignment import SEVERAL, ForkingRound
from hetopt.proofs.hadar.slot_cases import SECONDS, SlotCase, SlotJob
from hetopt.tolerances import PROVEN, WORK

Hosts = dict[tuple[str, str], int]
"""(server, GPU type) -> GPUs."""


def cells(instance: Instance) -> list[tuple[str, str, int]]:
    """(server, GPU type, GPUs)."""
    return [
        (s.name, t, s.gpus[t]) for s in instance.cluster.servers for t in instance.cluster.type_names if t in s.gpus
    ]


def problem_of(case: SlotCase) -> OfflineProblem:
    """A case of the ledger as the offline problem of the library."""
    return OfflineProblem.of(case.instance, case.slots, float(SECONDS))


def in_one_slot(worth: Sequence[Fraction], gpus: int) -> SlotCase:
    """Jobs of one GPU that take the only slot, on one server, in this order."""
    jobs = tuple(SlotJob(1, Fraction(1), (Fraction(1),), 0, value, fading=False) for value in worth)
    return SlotCase(jobs, ((gpus,),), 1)


def speed(instance: Instance, job: Job, gpu_type: str) -> Fraction:
    """Work per second of the gang where this type is the slowest; 0 where it cannot run."""
    memory = instance.cluster.gpu_type(gpu_type).memory_bytes
    fits = memory is None or job.memory_bytes <= memory
    return Fraction(job.throughput[gpu_type]) if fits else Fraction(0)


def gangs(instance: Instance, job: Job, free: Hosts | None = None) -> Iterator[tuple[Hosts, Fraction]]:
    """Every way to seat the gang, and its speed."""
    places = [(s, t, n if free is None else free.get((s, t), 0)) for s, t, n in cells(instance)]
    for counts in product(*(range(n + 1) for _, _, n in places)):
        seats = {(s, t): n for (s, t, _), n in zip(places, counts, strict=True) if n}
        if sum(counts) == job.demand:
            slowest = min(speed(instance, job, t) for _, t in seats)
            if slowest > 0:
                yield seats, slowest


def best_total(instance: Instance, slots: int, seconds: int) -> float:
    """The largest total utility of P1 with admission, slot by slot over all states (work done by each job)."""
    jobs = instance.jobs
    options = [[({}, Fraction(0)), *gangs(instance, job)] for job in jobs]
    room = {(s, t): n for s, t, n in cells(instance)}
    states: dict[tuple[Fraction, ...], float] = {tuple(Fraction(0) for _ in jobs): 0.0}
    for t in range(slots):
        after: dict[tuple[Fraction, ...], float] = {}
        moves = list(_joint(options, room))
        for done, value in states.items():
            for pace in moves:
                if any(v and (jobs[i].arrival > t * seconds or done[i] >= jobs[i].work) for i, v in enumerate(pace)):
                    continue
                work = tuple(min(Fraction(jobs[i].work), done[i] + v * seconds) for i, v in enumerate(pace))
                gain = sum(
                    float(utility_of(job, EffectiveThroughput())(job, (t + 1) * seconds - job.arrival))  # type: ignore[arg-type]
                    for i, job in enumerate(jobs)
                    if done[i] < job.work <= work[i]
                )
                after[work] = max(after.get(work, 0.0), value + gain)
        states = after
    return max(states.values())


def _joint(options: list[list[tuple[Hosts, Fraction]]], room: Hosts) -> set[tuple[Fraction, ...]]:
    """The speeds that all jobs may have in a slot together."""
    found = set()
    for choice in product(*options):
        used: Hosts = {}
        for seats, _ in choice:
            for place, n in seats.items():
                used[place] = used.get(place, 0) + n
        if all(n <= room[place] for place, n in used.items()):
            found.add(tuple(v for _, v in choice))
    return found


def plain_offers(market: GPUMarket, bid: Bid) -> list[tuple[float, bool, int, ServerGPUs]]:
    """(payoff, whether it stays, servers, seats) of every way to seat the gang on free GPUs."""
    places = [(h, k) for h, row in enumerate(market.free) for k, n in enumerate(row) if n]
    found = []
    for counts in product(*(range(market.free[h][k] + 1) for h, k in places)):
        if sum(counts) != bid.gpus:
            continue
        seats = tuple((h, k, n) for (h, k), n in zip(places, counts, strict=True) if n)
        kinds, hosts = {k for _, k, _ in seats}, {h for h, _, _ in seats}
        able = [level for level in bid.levels if kinds <= set(level.types)]
        if not able:
            continue
        level = max(able, key=lambda level: level.speed)
        stays = seats == bid.now
        cost = level.slots * sum(market.price[h][k] * n for h, k, n in seats)
        talk = sum(bid.charges[h] for h in hosts) if len(hosts) > 1 else 0.0
        found.append(((level.kept if stays else level.value) - cost - talk, stays, len(hosts), seats))
    return found


def plain_selection(market: GPUMarket, bids: Sequence[Bid]) -> float:
    """The largest sum of payoffs over all take-or-skip decisions in this order; each job takes its best GPUs."""
    if not bids:
        return 0.0
    skipped = plain_selection(market, bids[1:])
    offer = find_offer(market, bids[0])
    if offer is None or offer.payoff <= 0:
        return skipped
    after = market.copy()
    after.take(offer.gpus)
    return max(skipped, offer.payoff + plain_selection(after, bids[1:]))


@dataclass
class PlainHadar:
    """Hadar's round, by brute force and without a table: for a few jobs that wait.

    Its utility is ``most`` less the completion time, as by default, or with None the ideal time over it.
    """

    instance: Instance
    most: float | None = 7 * 86_400.0
    round_seconds: float = 360.0
    restart: float = 10.0
    communication: float = 0.01

    def __post_init__(self) -> None:
        self.room = {(s, t): n for s, t, n in cells(self.instance)}
        self.speeds = {
            job.name: {t: float(speed(self.instance, job, t)) for _, t in self.room if speed(self.instance, job, t)}
            for job in self.instance.jobs
        }
        self.end = sum(job.work / min(self.speeds[job.name].values()) for job in self.instance.jobs) + self.restart
        self.low, self.high = self.bounds()

    def worth(self, job: Job, seconds: float) -> float:
        """Of being done ``seconds`` from now."""
        if self.most is not None:
            return max(0.0, self.most - seconds - (self.instance.time - job.arrival))
        return job.work / max(job.throughput.values()) / (seconds + self.instance.time - job.arrival)

    def slots(self, job: Job, pace: float) -> int:
        return max(1, math.ceil(job.work / pace / self.round_seconds - WORK))

    def bounds(self) -> tuple[float, dict[str, float]]:
        """U_min, and U_max by GPU type."""
        jobs, gpus = self.instance.jobs, sum(self.room.values())
        slots = math.ceil((self.end - self.restart) / self.round_seconds) + len(jobs)
        low = min(self.worth(j, self.end) for j in jobs) / (2 * slots * gpus)
        best = {
            j.name: self.worth(j, j.work / max(self.speeds[j.name].values()) + self.restart) / j.demand for j in jobs
        }
        high = {
            t: max((best[j.name] for j in jobs if t in self.speeds[j.name]), default=max(best.values()))
            for _, t in self.room
        }
        return low, {t: max(low, h) for t, h in high.items()}

    def price(self, place: tuple[str, str], used: Hosts) -> float:
        return float(self.low * (self.high[place[1]] / self.low) ** (used.get(place, 0) / self.room[place]))

    def offers(self, job: Job, used: Hosts) -> list[tuple[float, Hosts]]:
        """All ways to seat the job now, with their payoffs; on one server first, then the faster."""
        free = {place: n - used.get(place, 0) for place, n in self.room.items()}
        best = self.worth(job, job.work / max(self.speeds[job.name].values()) + self.restart)
        found = []
        for seats, _ in gangs(self.instance, job, free):
            pace = min(self.speeds[job.name][t] for _, t in seats)
            cost = self.slots(job, pace) * sum(n * self.price(place, used) for place, n in seats.items())
            hosts = {s for s, _ in seats}
            cards = [self.instance.cluster.by_name[s].nic_bytes_per_s for s in hosts] if len(hosts) > 1 else []
            talk = sum(self.communication * best * 1.25e9 / card for card in cards)
            rank = (len(hosts), -pace, *(-seats.get(place, 0) for place in self.room))
            found.append((rank, self.worth(job, job.work / pace + self.restart) - cost - talk, seats))
        return [(payoff, seats) for _, payoff, seats in sorted(found, key=lambda entry: entry[0])]

    def best(self, job: Job, used: Hosts) -> tuple[float, Hosts] | None:
        offers = self.offers(job, used)
        most = max((payoff for payoff, _ in offers), default=0.0)
        return next((offer for offer in offers if offer[0] >= most - PROVEN * abs(most)), None)

    def search(self, jobs: Sequence[Job], used: Hosts) -> tuple[float, dict[str, Hosts]]:
        """The best decisions of take or skip."""
        if not jobs:
            return 0.0, {}
        skipped = self.search(jobs[1:], used)
        offer = self.best(jobs[0], used)
        if offer is None or offer[0] <= 0:
            return skipped
        rest = self.search(jobs[1:], _added(used, offer[1]))
        taken = (offer[0] + rest[0], {jobs[0].name: offer[1], **rest[1]})
        return taken if taken[0] >= skipped[0] else skipped

    def round(self) -> dict[str, Hosts]:
        """Job -> (server, GPU type) -> GPUs."""
        first = {j.name: self.best(j, {}) for j in self.instance.jobs}
        order = sorted(self.instance.jobs, key=lambda j: -(first[j.name] or (-math.inf,))[0] / j.demand)
        _, chosen = self.search(order, {})
        used: Hosts = {}
        for seats in chosen.values():
            used = _added(used, seats)
        for job in order:
            if job.name not in chosen and (offer := self.best(job, used)) is not None:
                chosen[job.name] = offer[1]
                used = _added(used, offer[1])
        return chosen


def _added(used: Hosts, seats: Hosts) -> Hosts:
    return {place: used.get(place, 0) + seats.get(place, 0) for place in {**used, **seats}}


class PlainForking:
    """HadarE's copies of one round, every payoff computed again for every copy."""

    def __init__(self, forking: ForkingRound) -> None:
        self.forking, self.instance, self.jobs = forking, forking.instance, forking.instance.jobs
        self.market, appraised = open_market(self.instance, forking.jobs, forking.settings, placed_gpus(self.instance))
        rooms, speeds = np.array(self.market.free), forking.jobs.task_speed_now > 0
        most = (rooms[None] * speeds[:, None]).sum(axis=2).max(axis=1)
        self.wide = {a.bid.job: a.bid for a in appraised if most[a.bid.job] < a.bid.gpus}
        self.taken: list[dict[int, ServerGPUs]] = [{} for _ in self.jobs]
        self.steady = [0.0] * len(self.jobs)

    def assigned(self, *, fill: bool) -> list[dict[int, ServerGPUs]]:
        """For each job: server -> GPUs of its copy."""
        while True:
            payoff, j, h, steady, gpus = min(self.offers(), default=(0.0, 0, 0, 0.0, ()))
            if not gpus or (payoff >= 0 and not fill):
                return self.taken
            self.market.take(gpus)
            self.taken[j][h] = gpus
            self.steady[j] += steady

    def offers(self) -> Iterator[tuple[float, int, int, float, ServerGPUs]]:
        """Of each job on each server: minus the payoff, job, server, average rate, GPUs."""
        for j, job in enumerate(self.jobs):
            most = min(self.forking.most, job.copies or self.forking.most)
            if j in self.wide:
                yield from () if self.taken[j] else self.spread(j)
            elif len(self.taken[j]) < most and self.instance.work_left(job.name) > 0:
                for h in set(range(len(self.market.free))) - self.taken[j].keys():
                    paid = [(self.payoff(j, steady, gpus), steady, gpus) for steady, gpus in self.gangs(j, h)]
                    for payoff, steady, gpus in sorted(paid, key=lambda own: -own[0])[:1]:
                        yield -payoff, j, h, steady, gpus

    def spread(self, j: int) -> Iterator[tuple[float, int, int, float, ServerGPUs]]:
        """As :meth:`offers`, of a gang that fits on no single server: one copy, on any servers, as under Hadar."""
        bid, speeds, settings = self.wide[j], self.forking.jobs.task_speed[j].tolist(), self.forking.settings
        moved, left = 1 - settings.restart_seconds / settings.round_seconds, self.instance.work_left(self.jobs[j].name)
        levels = [
            level._replace(
                slots=max(1, math.ceil(left / (level.speed * moved) / settings.round_seconds - WORK)),
                value=self.worth(j, level.speed * moved),
                kept=self.worth(j, level.speed),
            )
            for level in bid.levels
        ]
        if (offer := find_offer(self.market, replace(bid, levels=tuple(levels)))) is not None:
            running = 1 if offer.gpus == bid.now else moved
            yield -offer.payoff, j, SEVERAL, min(speeds[k] for _, k, _ in offer.gpus) * running, offer.gpus

    def gangs(self, j: int, h: int) -> Iterator[tuple[float, ServerGPUs]]:
        """For each speed, the fastest first: the average rate and the cheapest GPUs that are fast enough."""
        speeds, need = self.forking.jobs.task_speed[j].tolist(), self.jobs[j].demand
        here = {self.instance.cluster.servers[h].name} & set(self.forking.last.get(self.jobs[j].name, ()))
        running = 1 - (0.0 if here else self.forking.settings.restart_seconds) / self.forking.settings.round_seconds
        for pace in sorted({v for v in speeds if v > 0}, reverse=True):
            fast = [k for k, v in enumerate(speeds) if v >= pace]
            if sum(self.market.free[h][k] for k in fast) >= need:
                gpus = self.market.cheapest_on(h, tuple(fast), need)
                yield min(speeds[k] for _, k, _ in gpus) * running, gpus

    def payoff(self, j: int, steady: float, gpus: ServerGPUs) -> float:
        """What the copy adds to the utility, or the utility with this copy alone, minus the price until completion."""
        before, left = self.steady[j], self.instance.work_left(self.jobs[j].name)
        already = before if self.forking.added else 0.0
        gain = self.worth(j, already + steady) - (self.worth(j, already) if already else 0.0)
        slots = max(1, math.ceil(left / (before + steady) / self.forking.settings.round_seconds - WORK))
        return gain - slots * self.market.cost(gpus)

    def worth(self, j: int, rate: float) -> float:
        """Utility of the job at this rate from now on."""
        job = self.jobs[j]
        seconds = self.instance.time - job.arrival + self.instance.work_left(job.name) / rate
        return float(utility_of(job, self.forking.settings.utility)(job, np.array(seconds)))
