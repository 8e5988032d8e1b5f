"""A round of FFT in fractions: gangs, GPUs, costs, all plans of a small case, and the plan of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from hetopt.data.instance import Instance
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)
from hetopt.results.allocation import Plan
from hetopt.solving.options import Options

F = Fraction

TypeOfJob = tuple[int, ...]
"""Position of the GPU type of each gang, -1 if it waits."""

WAITS = -1

EXACT = Options(exact=True)
"""Options with which claims run the policy: its plans are proven in rational numbers."""


@dataclass(frozen=True)
class RoundJob:
    """A job, with times in rounds.

    Attributes
    ----------
    demand:
        GPUs d.
    work:
        W.
    speed:
        (k,) work theta of the gang in one round on each GPU type; 0 where it cannot run.
    arrival:
        Round a.
    """

    demand: int
    work: Fraction
    speed: tuple[Fraction, ...]
    arrival: int = 0

    def rounds(self, kind: int) -> Fraction:
        """Rounds W / theta of the job on a type."""
        return self.work / self.speed[kind]

    def usable(self, gpus: Sequence[int]) -> list[int]:
        """Positions of the types on which the job can run."""
        return [i for i, (v, y) in enumerate(zip(self.speed, gpus, strict=True)) if v > 0 and y >= self.demand]

    def fewest_rounds(self, gpus: Sequence[int]) -> Fraction:
        """Rounds on the fastest type with enough GPUs."""
        return min(self.rounds(i) for i in self.usable(gpus))


@dataclass(frozen=True)
class RoundCase:
    """The gangs of a round.

    Attributes
    ----------
    gangs:
        The n jobs.
    gpus:
        (k,) GPUs Y of each type.
    time:
        Rounds since time 0.
    rho:
        (n,) compensation; 0 each if empty.
    normalise:
        Whether theta in rho theta, and rho, are in fractions of the job instead of work, as printed.
    """

    gangs: tuple[RoundJob, ...]
    gpus: tuple[int, ...]
    time: int = 0
    rho: tuple[Fraction, ...] = ()
    normalise: bool = True

    @cached_property
    def instance(self) -> Instance:
        """The instance of the library: jobs j1, j2 … on GPU1, GPU2 …"""
        return Instance.from_jobs(
            [[float(v) for v in gang.speed] for gang in self.gangs],
            [gang.demand for gang in self.gangs],
            [float(gang.work) for gang in self.gangs],
            self.gpus,
            arrival=[ROUND_SECONDS * gang.arrival for gang in self.gangs],
            time=ROUND_SECONDS * self.time,
        )

    def cost(self, j: int, kind: int) -> Fraction:
        """Phi - rho theta, [FFT, eq. 6] without moves."""
        gang = self.gangs[j]
        rounds = gang.rounds(kind)
        done = 1 / rounds if self.normalise else gang.speed[kind]
        owed = self.rho[j] * done if self.rho else F(0)
        return (self.time - gang.arrival) / rounds + gang.demand * rounds - owed

    def total(self, where: TypeOfJob) -> Fraction:
        """The cost of a plan."""
        return sum((self.cost(j, i) for j, i in enumerate(where) if i != WAITS), F(0))

    def used(self, where: TypeOfJob) -> int:
        """GPUs in use."""
        return sum(gang.demand for gang, i in zip(self.gangs, where, strict=True) if i != WAITS)

    @cached_property
    def packings(self) -> tuple[TypeOfJob, ...]:
        """All plans, in which each gang runs on a usable type or waits, within the capacity, [FFT, eq. 1]."""
        plans: list[tuple[TypeOfJob, tuple[int, ...]]] = [((), self.gpus)]
        for gang in self.gangs:
            types, d = gang.usable(self.gpus), gang.demand
            plans = [
                ((*where, i), left if i == WAITS else (*left[:i], left[i] - d, *left[i + 1 :]))
                for where, left in plans
                for i in (WAITS, *types)
                if i == WAITS or left[i] >= d
            ]
        return tuple(where for where, _ in plans)

    def within(self, where: TypeOfJob) -> bool:
        """Whether the plan stays within the capacity."""
        left = list(self.gpus)
        for gang, i in zip(self.gangs, where, strict=True):
            if i != WAITS:
                left[i] -= gang.demand
        return min(left) >= 0

    @cached_property
    def most(self) -> int:
        """K*: the largest number of GPUs that a plan uses, by enumeration."""
        return max(map(self.used, self.packings))

    @cached_property
    def fullest(self) -> tuple[TypeOfJob, ...]:
        """The plans that use K* GPUs."""
        return tuple(where for where in self.packings if self.used(where) == self.most)

    @cached_property
    def optima(self) -> tuple[TypeOfJob, ...]:
        """The plans of least cost that use K* GPUs: the solutions of [FFT, eq. 6 and 7, corrected]."""
        costs = [
            {i: self.cost(j, i) for i in gang.usable(self.gpus)} | {WAITS: F(0)} for j, gang in enumerate(self.gangs)
        ]
        totals = [sum(own[i] for own, i in zip(costs, where, strict=True) if i != WAITS) for where in self.fullest]
        least = min(totals)
        return tuple(where for where, total in zip(self.fullest, totals, strict=True) if total == least)

    # -- the policy ----------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan of the library's policy."""
        policy = FFT(normalise=self.normalise, options=EXACT)
        state = policy.advanced(self.instance, None)
        names = [job.name for job in self.instance.jobs]
        if self.rho:
            state = replace(state, rho=dict(zip(names, map(float, self.rho), strict=True)))
        return policy(self.instance, state)[0]

    def planned(self) -> TypeOfJob:
        """:meth:`plan` as positions of GPU types."""
        types = self.instance.cluster.type_names
        return tuple(WAITS if kind is None else types.index(kind) for kind in self.plan().assigned.values())

    def picture(self, title: str, where: TypeOfJob) -> Timeline:
        """Picture of a plan with a row for each GPU."""
        bars: list[TimelineBar] = []
        taken = [0] * len(self.gpus)
        for j, (gang, i) in enumerate(zip(self.gangs, where, strict=True)):
            if i != WAITS:
                rows = range(taken[i] + 1, taken[i] + gang.demand + 1)
                bars += [
                    TimelineBar(f"GPU{i + 1}, no. {row}", F(self.time), F(self.time + 1), f"j{j + 1}") for row in rows
                ]
                taken[i] += gang.demand
        return Timeline(title, tuple(sorted(bars, key=lambda bar: bar.row)), "rounds")


def runs_picture(title: str, runs: Iterable[tuple[int, int, int]]) -> Timeline:
    """Picture of runs (round, position of the job, position of its GPU type or WAITS) with a row per type."""
    bars = (TimelineBar(f"GPU{i + 1}", F(t), F(t + 1), f"j{j + 1}") for t, j, i in runs if i != WAITS)
    return Timeline(title, tuple(bars), "rounds")


# -- spaces of cases -------------------------------------------------------------------------------------------------


@hypothesis(r"every job has work and demands GPUs, $W_j > 0$ and $d_j \ge 1$")
def sized(case: RoundCase) -> bool:
    """No job is empty."""
    return all(gang.work > 0 and gang.demand > 0 for gang in case.gangs)


@hypothesis(r"every job can run on some type, $\theta_j^i > 0$ and $d_j \le Y_i$; on others $\theta_j^i$ may be 0")
def runnable(case: RoundCase) -> bool:
    """As the policy requires."""
    return all(gang.usable(case.gpus) for gang in case.gangs)


@hypothesis(r"every job can run on every type with enough GPUs, $\theta_j^i > 0$")
def unrestricted(case: RoundCase) -> bool:
    """No GPU has too little memory."""
    return all(v > 0 for gang in case.gangs for v in gang.speed)


@hypothesis("every job demands one GPU, $d_j = 1$")
def single_gpus(case: RoundCase) -> bool:
    """No gangs."""
    return all(gang.demand == 1 for gang in case.gangs)


FULL_ROUNDS = Hypothesis[Any](r"a job that runs on type $i$ does $\theta_j^i$ of work in the round: moves take no time")
"""Cases have no moves."""


@hypothesis("$t = a_j$ for all jobs")
def just_arrived(case: RoundCase) -> bool:
    """All ages are 0."""
    return all(gang.arrival == case.time for gang in case.gangs)


def case_of(numbers: CaseNumbers) -> RoundCase:
    """The round of the tables ``speed`` (n, k), ``demand``, ``work``, ``gpus``, and optionally ``age`` and ``rho``."""
    ages = tuple(map(int, numbers.row("age"))) if "age" in numbers.tables else (0,) * len(numbers.row("demand"))
    time = max(ages)
    rows = zip(numbers.row("demand"), numbers.row("work"), numbers["speed"], ages, strict=True)
    gangs = tuple(RoundJob(int(d), work, speed, time - age) for d, work, speed, age in rows)
    rho = numbers.row("rho") if "rho" in numbers.tables else ()
    return RoundCase(gangs, tuple(map(int, numbers.row("gpus"))), time, rho)


def round_space(
    *hypotheses: Hypothesis[RoundCase],
    n: tuple[int, int] = (1, 4),
    k: tuple[int, int] = (1, 2),
    speeds: tuple[Fraction, ...] = integers(0, 3),
    demands: tuple[Fraction, ...] = integers(1, 4),
    gpus: tuple[Fraction, ...] = integers(1, 5),
    ages: tuple[Fraction, ...] = (),
    rho: tuple[Fraction, ...] = (),
) -> Space[RoundCase]:
    """Rounds with these sizes and numbers, in which every job can run on some type."""
    tables = {
        "demand": TableShape(1, "n", demands),
        "gpus": TableShape(1, "k", gpus),
        "work": TableShape(1, "n", integers(1, 6)),
        "speed": TableShape("n", "k", speeds),
    }
    tables |= {"age": TableShape(1, "n", ages)} if ages else {}
    tables |= {"rho": TableShape(1, "n", rho)} if rho else {}

    def chosen(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        capacity = [choose(gpus) for _ in range(sizes["k"])]
        positive = [v for v in speeds if v > 0]
        demand, speed = [], []
        for _ in range(sizes["n"]):
            home = choose([i for i, y in enumerate(capacity) if y >= demands[0]] or [0])
            demand.append(choose([d for d in demands if d <= capacity[home]] or [demands[0]]))
            speed.append([choose(positive if i == home else speeds) for i in range(sizes["k"])])
        rows = {
            name: [choose(tables[name].values) for _ in demand] for name in ("work", "age", "rho") if name in tables
        }
        return CaseNumbers.of(demand=demand, gpus=capacity, speed=speed, **rows)

    return Space({"n": n, "k": k}, tables, case_of, chosen, (sized, runnable, *hypotheses))
