"""Section 4.3: rounding shares to whole GPUs in every round."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import floor
from operator import gt

import numpy as np

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.data.workload import Job
from hetopt.decisions.rounders import WholeGPUs
from hetopt.models.baselines import by_rule
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers
from hetopt.proofs.oef.proof_algebra import NEAREST, ROUNDING

F = Fraction
ROUNDS = 24
"""Number of simulated rounds; shares with small denominators repeat earlier."""


@dataclass(frozen=True)
class ConstantShares:
    """Tenants with constant shares of one GPU type, and the smallest gang of each.

    Attributes
    ----------
    ideal:
        (n,) GPUs; they sum to ``gpus``.
    gpus:
        GPUs of the type.
    demand:
        (n,) GPUs of the smallest job; 1 each if gangs are irrelevant.
    """

    ideal: tuple[Fraction, ...]
    gpus: int
    demand: tuple[int, ...]

    @cached_property
    def instance(self) -> Instance:
        """Tenants with the same speedup, each with a job of its smallest gang."""
        instance = Instance.from_speedups([[1.0]] * len(self.ideal), [self.gpus])
        if all(d == 1 for d in self.demand):
            return instance
        jobs = (Job(f"j{e}", {"GPU1": 1.0}, 1200.0, d, tenant=f"u{e}") for e, d in enumerate(self.demand, 1))
        return instance.replace(jobs=tuple(jobs))

    def printed(self, *, starve: bool) -> list[tuple[int, ...]]:
        """GPUs in every round by the rule of section 4.3: round(ideal + dev), halves up."""
        dev, rounds = [F(0)] * len(self.ideal), []
        for _ in range(ROUNDS):
            real = [floor(i + d + F(1, 2)) for i, d in zip(self.ideal, dev, strict=True)]
            if starve:
                real = [r if r >= d else 0 for r, d in zip(real, self.demand, strict=True)]
            dev = [d + i - r for d, i, r in zip(dev, self.ideal, real, strict=True)]
            rounds.append(tuple(real))
        return rounds

    def by_library(self) -> list[tuple[int, ...]]:
        """GPUs in every round by ``WholeGPUs``."""
        x = np.array([[float(v)] for v in self.ideal])
        allocation = by_rule(self.instance.entities("tenants"), x, "shares", 0.0)
        state, rounds = None, list[tuple[int, ...]]()
        for _ in range(ROUNDS):
            plan, state = WholeGPUs()(allocation, self.instance, state)
            rounds.append(tuple(int(v) for v in plan.x[:, 0]))
        return rounds

    def timeline(self, title: str, rounds: list[tuple[int, ...]]) -> Timeline:
        """Picture of the first rounds, with a row for every assigned GPU."""
        bars = []
        for t, row in enumerate(rounds[:6]):
            owners = [f"u{e + 1}" for e, gpus in enumerate(row) for _ in range(gpus)]
            for gpu, owner in enumerate(owners, 1):
                name = f"GPU {gpu}" if gpu <= self.gpus else "none left"
                bars.append(TimelineBar(name, F(t), F(t + 1), owner))
        return Timeline(title, tuple(bars), "rounds")


def constant_shares_space(*, gangs: bool = False, starving: bool = False) -> Space[ConstantShares]:
    """Two to four tenants that share 1 to 4 GPUs in proportion to small integers; if ``starving``, no gang fits."""

    def build(numbers: CaseNumbers) -> ConstantShares:
        weights, gpus = numbers.row("parts"), int(numbers.one("gpus"))
        demand = tuple(int(d) for d in numbers.row("demand")) if gangs else (1,) * len(weights)
        return ConstantShares(tuple(gpus * w / sum(weights) for w in weights), gpus, demand)

    tables = {"parts": TableShape(1, "n", integers(1, 5)), "gpus": TableShape(1, 1, integers(1, 4))}
    if gangs:
        tables["demand"] = TableShape(1, "n", integers(2 if starving else 1, 4))
    constant = "the shares of one GPU type are positive, the same in every round, and sum to its GPUs"
    given = [Hypothesis[ConstantShares](constant, lambda case: min(case.ideal) > 0 and sum(case.ideal) == case.gpus)]
    if gangs:
        given.append(Hypothesis("every gang fits", lambda case: max(case.demand) <= case.gpus))
    if starving:
        too_few = "every tenant's share is below its demand"
        given.append(Hypothesis(too_few, lambda case: all(map(gt, case.demand, case.ideal))))
    return Space({"n": (2, 4)}, tables, build, hypotheses=tuple(given))


def within_capacity(case: ConstantShares, *, starve: bool) -> Finding:
    """Whether the printed rule stays within the capacity."""
    rounds = case.printed(starve=starve)
    totals = [sum(row) for row in rounds]
    most = max(totals)
    words = f"round {totals.index(most) + 1} requires {most} GPUs of {case.gpus}"
    certificate = ("the rule is computed in fractions, with halves rounded up",)
    return Finding(F(case.gpus - most), words, certificate, (case.timeline("as printed", rounds),))


def deviation(case: ConstantShares, rounds: list[tuple[int, ...]]) -> Fraction:
    """The largest |sum of shares - sum of GPUs| over all tenants and rounds."""
    worst, total = F(0), [0] * len(case.ideal)
    for t, row in enumerate(rounds):
        total = [a + b for a, b in zip(total, row, strict=True)]
        worst = max(worst, *(abs((t + 1) * i - r) for i, r in zip(case.ideal, total, strict=True)))
    return worst


def printed_deviation(case: ConstantShares) -> Finding:
    """Whether |dev| <= 1/2 under the printed rule."""
    worst = deviation(case, case.printed(starve=False))
    return Finding(F(1, 2) - worst, f"the largest deviation is {number_text(worst)}")


def deadlines(case: ConstantShares) -> Finding:
    """Whether earliest deadlines assign all GPUs, each once, with |dev| < 1."""
    rounds = case.by_library()
    worst = deviation(case, rounds)
    full = all(sum(row) == case.gpus for row in rounds)
    slack = 1 - worst if full and worst < 1 else F(-1)
    return Finding(slack, f"the largest deviation is {number_text(worst)}, all GPUs in use: {full}")


def nearest_points(case: ConstantShares) -> Finding:
    """Whether T D^2 >= |dev|^2 in all rounds T, for shares that are a mean of usable points by the case's parts."""
    points = [p for p in product(*([0, *range(d, case.gpus + 1)] for d in case.demand)) if sum(p) <= case.gpus]
    points = [(*p, case.gpus - sum(p)) for p in points]
    parts = [share / case.gpus for share in case.ideal]
    chosen = [points[(i + 1) * len(points) // (len(parts) + 1)] for i in range(len(parts))]
    ideal = [
        sum((part * x for part, x in zip(parts, column, strict=True)), F(0)) for column in zip(*chosen, strict=True)
    ]
    diameter = max(sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p in points for q in points)
    dev, slack = [F(0)] * len(ideal), F(diameter)
    for t in range(1, ROUNDS + 1):
        due = [d + i for d, i in zip(dev, ideal, strict=True)]
        real = min(points, key=lambda p: sum((a - b) ** 2 for a, b in zip(due, p, strict=True)))
        dev = [a - b for a, b in zip(due, real, strict=True)]
        slack = min(slack, t * diameter - sum(d * d for d in dev))
    return Finding(slack, f"T D^2 - |dev|^2 >= {number_text(slack)}")


EARLIEST = r"""
Let tenant $i$ have the share $x_i$, $\sum_i x_i = m$. Its $s$-th GPU (for one round) may be assigned from round
$\lfloor (s-1)/x_i \rfloor + 1$ to round $\lceil s/x_i \rceil$. Assigning in round $t$ the fraction of the interval
$[(t-1) x_i, t x_i]$ that lies in $[s-1, s]$ satisfies all these windows and uses $m$ GPUs per round. So by the
integrality of transportation problems an integer plan exists, and the earliest deadline first, which is optimal for
unit tasks with integer windows on $m$ machines, finds one. By round $t$ at least $\sum_i \lceil t x_i \rceil \ge t m$
GPUs may be assigned, and $(t - 1) m$ were assigned before, so no GPU is idle. After round $t$ all $s$ with $\lceil
s/x_i \rceil \le t$, that is $s \le t x_i$, are assigned, and only $s$ with $\lfloor (s-1)/x_i \rfloor < t$, that is $s
< t x_i + 1$: between $\lfloor t x_i \rfloor$ and $\lceil t x_i \rceil$ GPUs. So the deviation is below 1, and the mean
of $T$ rounds is within $1/T$ of the share."""

CLAIMS = (
    Claim(
        key="oef/rounding-deviation",
        place="section 4.3",
        statement=r"With $real = round(ideal + dev)$ and $dev \leftarrow dev + ideal - real$ every deviation is at "
        "most 1/2, so the mean approaches the share.",
        quote="The deviation is updated based on the formula …, allowing the actual share for each job to "
        "gradually approximate the assigned value over time.",
        procedure=ForAll(constant_shares_space(), printed_deviation),
        expected=ClaimVerdict.TRUE,
        proof="The new deviation is $y - round(y)$ for $y = ideal + dev$. After $T$ rounds the sums of GPUs and of "
        "shares differ by it, so the mean is within $1/(2T)$.",
        mechanical=ROUNDING,
    ),
    Claim(
        key="oef/rounding-capacity",
        place="section 4.3",
        statement=r"Rounding each user's share, $real = round(ideal + dev)$, assigns no more GPUs than available.",
        quote=r"Utilizing this deviation, OEF assigns each user $j$ a share, represented as $\text{real}_j(t) = "
        r"\text{round}(\text{ideal}_j(t) + \text{dev}_j(t))$.",
        procedure=ForAll(constant_shares_space(), lambda c: within_capacity(c, starve=False)),
        expected=ClaimVerdict.FALSE,
        instead="oef/rounding-deadlines",
        note="The paper uses the result as a placement, which implies it.",
    ),
    Claim(
        key="oef/rounding-deadlines",
        place="section 4.3",
        statement="Assigning each GPU by the earliest deadline uses all GPUs, none twice, with every deviation below "
        r"1, for constant shares with $\sum_i x_i = m$.",
        quote="we have developed a rounding policy that converts the fractional value assigned to each user into "
        "an integral share, ensuring fairness and efficiency in the long run.",
        procedure=ForAll(constant_shares_space(), deadlines),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=EARLIEST,
        note="The rounder `WholeGPUs`, whose schedules are those of Tijdeman and of proportionate fairness.",
    ),
    Claim(
        key="oef/rounding-gangs",
        place="section 4.3",
        statement=r"If gangs need several GPUs and the shares are a mean of usable points, choosing the usable point "
        r"nearest to $ideal + dev$ keeps $|dev|^2 \le T D^2$ after $T$ rounds, $D$ the largest distance of two points.",
        quote="By progressively accumulating the deviation value over time, tenants who experience resource "
        r"starvation are assured a $\text{real}_j(t)$ greater than $\min_k \text{demand}_k$.",
        procedure=ForAll(constant_shares_space(gangs=True), nearest_points, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Let the share be $\sum_p \lambda_p p$ over usable points. $\sum_p \lambda_p |dev + share - p|^2 = |dev|^2 +
\sum_p \lambda_p |share - p|^2 \le |dev|^2 + D^2$, and the nearest point is at least as near as this mean.""",
        mechanical=NEAREST,
    ),
    Claim(
        key="oef/starvation-rule",
        place="section 4.3",
        statement="If every share is below the smallest demand of its tenant, setting it to 0 until the deviation "
        "reaches the demand assigns no more GPUs than available.",
        quote=r"Specifically, the placer adjusts $\text{real}_j(t)$ to 0 if it falls below $\min_k "
        r"\text{demand}_k$",
        procedure=ForAll(
            constant_shares_space(gangs=True, starving=True),
            lambda c: within_capacity(c, starve=True),
        ),
        expected=ClaimVerdict.FALSE,
        instead="oef/rounding-gangs",
        note='The printed condition "greater than the smallest demand" must be "at least".',
    ),
)
