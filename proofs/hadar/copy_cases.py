"""Copies of jobs on nodes in rounds, in fractions: how HadarE divides the remaining work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.proofs.hadar.slot_cases import SECONDS
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
    rationals,
)

F = Fraction


@dataclass(frozen=True)
class CopyCase:
    """Nodes of one GPU each, and jobs.

    Attributes
    ----------
    speed:
        (n,) work of each node per round, for any job.
    work:
        (m,) work of the jobs.
    copies:
        x.
    """

    speed: tuple[Fraction, ...]
    work: tuple[Fraction, ...]
    copies: int = 1

    @property
    def n(self) -> int:
        """Nodes."""
        return len(self.speed)

    @cached_property
    def instance(self) -> Instance:
        """The case as an instance of the library, in rounds of 360 s."""
        types = [f"GPU{i + 1}" for i in range(self.n)]
        servers = tuple(Server(f"node{i + 1}", {t: 1}) for i, t in enumerate(types))
        speed = {t: float(v / SECONDS) for t, v in zip(types, self.speed, strict=True)}
        jobs = tuple(Job(f"j{j + 1}", speed, float(w)) for j, w in enumerate(self.work))
        return Instance(Cluster(tuple(map(GPUType, types)), servers), jobs=jobs)

    def run(self, nodes: Sequence[int], work: Fraction) -> list[dict[int, Fraction]]:
        """For each round: node -> fraction of the round in which it is busy with its part of one job's work.

        The remaining work is divided exactly in proportion to speed [Hadar, section V-B].
        """
        left, rounds = work, []
        while left > 0:
            total = sum((self.speed[i] for i in nodes), F(0))
            done = {i: min(self.speed[i], left * self.speed[i] / total) for i in nodes}
            rounds.append({i: part / self.speed[i] for i, part in done.items()})
            left -= sum(done.values())
        return rounds

    def utilisation(self, nodes: Sequence[int]) -> Fraction:
        """CRU of the first job's copies on these nodes: the mean over rounds of busy time over all nodes' time."""
        rounds = self.run(nodes, self.work[0])
        return sum((sum(busy.values(), F(0)) for busy in rounds), F(0)) / (len(rounds) * self.n)

    def utilisation_by_formula(self, nodes: Sequence[int]) -> Fraction:
        """CRU as x (w / S) / (n ceil(w / S)) with S the work of the x nodes per round."""
        rounds = self.work[0] / sum((self.speed[i] for i in nodes), F(0))
        return len(nodes) * rounds / (self.n * ceil(rounds))

    @property
    def fastest(self) -> list[int]:
        """Nodes by decreasing speed."""
        return sorted(range(self.n), key=lambda i: -self.speed[i])

    def picture(self, title: str, nodes: Sequence[int]) -> Timeline:
        """Picture of the nodes that are busy with the first job."""
        bars = [
            TimelineBar(f"node{i + 1}", F(r), r + part, "j1")
            for r, busy in enumerate(self.run(nodes, self.work[0]))
            for i, part in busy.items()
        ]
        return Timeline(title, tuple(bars), "rounds")


@hypothesis("all nodes have positive speed, and all jobs positive work")
def nodes_run(case: CopyCase) -> bool:
    """Every job can be done."""
    return min(case.speed) > 0 and min(case.work) > 0


@hypothesis("every job takes more than a round on every node")
def longer(case: CopyCase) -> bool:
    """As the proof of [Hadar, Theorem 3] assumes."""
    return min(case.work) > max(case.speed)


@hypothesis("all nodes are equally fast")
def alike(case: CopyCase) -> bool:
    """For every job."""
    return len(set(case.speed)) == 1


@hypothesis("$1 < x < n$")
def between(case: CopyCase) -> bool:
    """As in case II of the proof of [Hadar, Theorem 3]."""
    return 1 < case.copies < case.n


@hypothesis(r"$1 \le x \le n$")
def within_nodes(case: CopyCase) -> bool:
    """No more copies than nodes."""
    return 1 <= case.copies <= case.n


def copy_space(
    *hypotheses: Hypothesis[CopyCase],
    n: tuple[int, int] = (1, 4),
    m: tuple[int, int] = (1, 1),
    speeds: tuple[Fraction, ...] = (*integers(1, 6), F(10)),
    works: tuple[Fraction, ...] = rationals(1, 24, 2),
    copies: tuple[Fraction, ...] = (),
) -> Space[CopyCase]:
    """Nodes and jobs with these sizes.

    Parameters
    ----------
    speeds, works, copies:
        Entries of the tables; without ``copies`` every job has one copy.
    """

    def build(numbers: CaseNumbers) -> CopyCase:
        x = int(numbers.one("copies")) if copies else 1
        return CopyCase(numbers.row("speed"), numbers.row("work"), x)

    def equal_speeds(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        tables = {
            "speed": ((choose(speeds),) * sizes["n"],),
            "work": (tuple(choose(works) for _ in range(sizes["m"])),),
        }
        return CaseNumbers({**tables, "copies": ((choose(copies),),)} if copies else tables)

    tables = {"speed": TableShape(1, "n", speeds), "work": TableShape(1, "m", works)}
    if copies:
        tables["copies"] = TableShape(1, 1, copies)
    chosen = equal_speeds if alike in hypotheses else None
    return Space({"n": n, "m": m}, tables, build, chosen, (nodes_run, *hypotheses))


def strictly_positive(margin: Fraction) -> Fraction:
    """The slack of the claim that ``margin`` is above 0."""
    return margin if margin > 0 else margin - 1
