"""Small instances for any policy: tenants or jobs who share GPUs, and what one or all of them may report instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Literal

from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.rationals import digits
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.proofs.ledger.space import CaseNumbers, Rows, Space, TableShape, ValueChooser, integers

F = Fraction
EntityKind = Literal["tenants", "jobs"]
MisreportKind = Literal["over", "under", "together", "false type"]

ROUND = 300.0
"""Seconds; work is counted in rounds of this length."""
SPEEDS = integers(1, 6)


@dataclass(frozen=True)
class PolicyCase:
    """What a policy is asked.

    Attributes
    ----------
    kind:
        Who shares.
    speed:
        (n, k) speedups of tenants, the first 1; of jobs work per round of the whole gang.
    gpus:
        (k,) GPUs.
    report:
        (n, k) speeds that are reported; the truth where nobody lies.
    demand, work, arrival:
        (n,) of jobs: GPUs of the gang, work, and the round of arrival; empty for tenants.
    false, liar:
        (k,) speedups of a false job type, empty for none; and the position of the tenant who adds it.
    """

    kind: EntityKind
    speed: Rows
    gpus: tuple[Fraction, ...]
    report: Rows
    demand: tuple[Fraction, ...] = ()
    work: tuple[Fraction, ...] = ()
    arrival: tuple[Fraction, ...] = ()
    false: tuple[Fraction, ...] = ()
    liar: int = 0

    @cached_property
    def instance(self) -> Instance:
        """The truth."""
        return self._instance(self.speed)

    @cached_property
    def told(self) -> Instance:
        """What the policy sees after the lie."""
        return self._instance(self.report, self.false)

    @property
    def liars(self) -> tuple[int, ...]:
        """Those whose report is not the truth, and who adds a false type."""
        if self.false:
            return (self.liar,)
        return tuple(e for e, (a, b) in enumerate(zip(self.speed, self.report, strict=True)) if a != b)

    @property
    def words(self) -> str:
        """What is asked, in a line."""
        rows = ", ".join(f"({', '.join(map(digits, row))})" for row in self.report)
        return f"speeds {rows} and GPUs ({', '.join(map(digits, self.gpus))})"

    def _instance(self, speed: Rows, false: tuple[Fraction, ...] = ()) -> Instance:
        cluster = Cluster.of({f"GPU{j + 1}": int(m) for j, m in enumerate(self.gpus)}, gpus_per_server=4)
        types = cluster.type_names
        if self.kind == "jobs":
            jobs = tuple(
                Job(
                    f"j{e + 1}",
                    {t: float(v) / ROUND for t, v in zip(types, row, strict=True)},
                    float(self.work[e]),
                    int(self.demand[e]),
                    arrival=float(self.arrival[e]) * ROUND,
                )
                for e, row in enumerate(speed)
            )
            return Instance(cluster, jobs=jobs, time=float(max(self.arrival)) * ROUND)
        tenants = []
        for e, row in enumerate(speed):
            kinds = [JobType("true", dict(zip(types, map(float, row), strict=True)))]
            if false and e == self.liar:
                kinds.append(JobType("false", dict(zip(types, map(float, false), strict=True))))
            tenants.append(Tenant(f"u{e + 1}", tuple(kinds)))
        return Instance(cluster, tenants=tuple(tenants))


def policy_space(kind: EntityKind, way: MisreportKind | None = None) -> Space[PolicyCase]:
    """Two or three tenants or jobs on two or three GPU types; with a lie of the given way, by any of them."""
    first = "k-1" if kind == "tenants" else "k"
    tables = {"speed": TableShape("n", first, SPEEDS), "gpus": TableShape(1, "k", integers(1, 4))}
    if kind == "jobs":
        tables |= {
            "demand": TableShape(1, "n", integers(1, 3)),
            "work": TableShape(1, "n", (F(1), F(2), F(4), F(12), F(40))),
            "arrival": TableShape(1, "n", integers(0, 2)),
        }
    if way is not None:
        tables["report"] = TableShape("n" if way == "together" else 1, first, SPEEDS)
        if way != "together":
            tables["liar"] = TableShape(1, 1, integers(1, 3))

    def build(numbers: CaseNumbers) -> PolicyCase | None:
        case = _made(kind, way, numbers)
        return case if case is not None and _meant(case, way) else None

    def choose(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        drawn = {name: _any(choose, table, sizes) for name, table in tables.items()}
        liars = range(sizes["n"])
        if "liar" in tables:
            liars = range(at := choose(liars), at + 1)
            drawn["liar"] = ((F(at + 1),),)
        if way is not None:
            drawn["report"] = tuple(_report(choose, way, drawn["speed"][e]) for e in liars)
        if kind == "jobs":  # a gang fits on some type
            most = max(drawn["gpus"][0])
            drawn["demand"] = (tuple(min(d, most) for d in drawn["demand"][0]),)
        return CaseNumbers(drawn)

    return Space({"n": (2, 3), "k": (2, 3)}, tables, build, choose)


def _made(kind: EntityKind, way: MisreportKind | None, numbers: CaseNumbers) -> PolicyCase | None:
    """None if the liar is none of them."""

    def rows(name: str) -> Rows:
        return tuple((F(1), *row) if kind == "tenants" else row for row in numbers[name])

    speed, gpus = rows("speed"), numbers.row("gpus")
    truth = PolicyCase(kind, speed, gpus, speed)
    if kind == "jobs":
        demand, work, arrival = (numbers.row(name) for name in ("demand", "work", "arrival"))
        truth = replace(truth, demand=demand, work=work, arrival=arrival)
    if way is None:
        return truth
    said = rows("report")
    if way == "together":
        return replace(truth, report=(*said, *speed[len(said) :]))
    liar = numbers.one("liar") - 1
    if liar not in range(len(speed)):
        return None
    at = int(liar)
    if way == "false type":
        return replace(truth, false=said[0], liar=at)
    return replace(truth, report=(*speed[:at], said[0], *speed[at + 1 :]))


def _meant(case: PolicyCase, way: MisreportKind | None) -> bool:
    """Whether all speeds, GPUs, gangs and works are positive, some job fits, and the lie is one of its kind."""
    numbers = chain(*case.speed, *case.report, case.false, case.gpus, case.demand, case.work)
    if any(v <= 0 for v in numbers) or any(v.denominator > 1 for v in (*case.gpus, *case.demand)):
        return False
    if case.demand and any(all(d > m for m in case.gpus) for d in case.demand):
        return False
    if way is None:
        return True
    fits = _WAYS[way]
    pairs = zip(case.speed, case.report, strict=True)
    honest = all(fits(a, b) for left, right in pairs for a, b in zip(left, right, strict=True))
    return honest and len(case.liars) >= (2 if way == "together" else 1)


def _report(choose: ValueChooser, way: MisreportKind, row: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """A report of its kind; half of the entries, and where some lie together half of the reports, are the truth."""
    if way == "together" and choose((False, True)):
        return row
    return tuple(choose([s for s in SPEEDS if _WAYS[way](w, s)]) if choose((True, False)) else w for w in row)


def _over(true: Fraction, said: Fraction) -> bool:
    return said >= true


def _under(true: Fraction, said: Fraction) -> bool:
    return said <= true


def _anyhow(*_: Fraction) -> bool:
    return True


_WAYS: Mapping[MisreportKind, Callable[[Fraction, Fraction], bool]] = {
    "over": _over,
    "under": _under,
    "together": _over,
    "false type": _anyhow,
}


def _any(choose: ValueChooser, table: TableShape, sizes: Mapping[str, int]) -> Rows:
    rows, columns = table.shape(sizes)
    return tuple(tuple(choose(table.simplest_first) for _ in range(columns)) for _ in range(rows))
