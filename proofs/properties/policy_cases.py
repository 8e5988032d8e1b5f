"""Small instances for all policies: tenants or jobs that share GPUs, some with misreported speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import chain

from hetopt.data.cluster import Cluster
from hetopt.data.entities import Kind
from hetopt.data.instance import Instance
from hetopt.data.rationals import digits
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.proofs.ledger.space import CaseNumbers, Rows, Space, TableShape, ValueChooser, integers

F = Fraction


class AllowedMisreports(StrEnum):
    """How tenants or jobs may misreport their speeds in the cases of a property."""

    OVER = "over"
    UNDER = "under"
    TOGETHER = "together"
    FALSE_TYPE = "false type"

    def allows(self, true: Fraction, reported: Fraction) -> bool:
        """Whether a speed may be reported as ``reported``; a false job type may have any speeds."""
        match self:
            case AllowedMisreports.UNDER:
                return reported <= true
            case AllowedMisreports.FALSE_TYPE:
                return True
            case _:
                return reported >= true


MISREPORTER = "liar"
"""Name of the table with the position, from 1, of the misreporting entity, as in stored counterexamples."""

ROUND = 300.0
"""Seconds of a round; work is in rounds."""
SPEEDS = integers(1, 6)


@dataclass(frozen=True)
class PolicyCase:
    """An instance, and the reports to the policy.

    Attributes
    ----------
    kind:
        Whether tenants or jobs share the GPUs.
    speed:
        (n, k) speedups of tenants, 1 in the first column; or the work of each job's gang per round.
    gpus:
        (k,) GPUs.
    report:
        (n, k) reported speeds; equal to ``speed`` if none is misreported.
    demand, work, arrival:
        (n,) GPUs of each gang, work, and round of arrival; empty for tenants.
    false, misreporter:
        (k,) speedups of a false job type, or empty; and the position of the tenant that adds it.
    """

    kind: Kind
    speed: Rows
    gpus: tuple[Fraction, ...]
    report: Rows
    demand: tuple[Fraction, ...] = ()
    work: tuple[Fraction, ...] = ()
    arrival: tuple[Fraction, ...] = ()
    false: tuple[Fraction, ...] = ()
    misreporter: int = 0

    @cached_property
    def instance(self) -> Instance:
        """The instance with true speeds."""
        return self._instance(self.speed)

    @cached_property
    def reported(self) -> Instance:
        """The instance as reported to the policy."""
        return self._instance(self.report, self.false)

    @property
    def misreporters(self) -> tuple[int, ...]:
        """Positions of the entities that misreport a speed or add a false job type."""
        if self.false:
            return (self.misreporter,)
        return tuple(e for e, (a, b) in enumerate(zip(self.speed, self.report, strict=True)) if a != b)

    @property
    def description(self) -> str:
        """The case in one line."""
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
            if false and e == self.misreporter:
                kinds.append(JobType("false", dict(zip(types, map(float, false), strict=True))))
            tenants.append(Tenant(f"u{e + 1}", tuple(kinds)))
        return Instance(cluster, tenants=tuple(tenants))


def policy_space(kind: Kind, misreport: AllowedMisreports | None = None) -> Space[PolicyCase]:
    """Two or three tenants or jobs on two or three GPU types; with ``misreport``, any of them may misreport."""
    first = "k-1" if kind == "tenants" else "k"
    tables = {"speed": TableShape("n", first, SPEEDS), "gpus": TableShape(1, "k", integers(1, 4))}
    if kind == "jobs":
        tables |= {
            "demand": TableShape(1, "n", integers(1, 3)),
            "work": TableShape(1, "n", (F(1), F(2), F(4), F(12), F(40))),
            "arrival": TableShape(1, "n", integers(0, 2)),
        }
    if misreport is not None:
        tables["report"] = TableShape("n" if misreport is AllowedMisreports.TOGETHER else 1, first, SPEEDS)
        if misreport is not AllowedMisreports.TOGETHER:
            tables[MISREPORTER] = TableShape(1, 1, integers(1, 3))

    def build(numbers: CaseNumbers) -> PolicyCase | None:
        case = _case_of(kind, misreport, numbers)
        return case if case is not None and _meets_hypotheses(case, misreport) else None

    def chosen(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        drawn = {name: _any(choose, table, sizes) for name, table in tables.items()}
        misreporters = range(sizes["n"])
        if MISREPORTER in tables:
            misreporters = range(at := choose(misreporters), at + 1)
            drawn[MISREPORTER] = ((F(at + 1),),)
        if misreport is not None:
            drawn["report"] = tuple(_report(choose, misreport, drawn["speed"][e]) for e in misreporters)
        if kind == "jobs":  # a gang must fit on some type
            most = max(drawn["gpus"][0])
            drawn["demand"] = (tuple(min(d, most) for d in drawn["demand"][0]),)
        return CaseNumbers(drawn)

    return Space({"n": (2, 3), "k": (2, 3)}, tables, build, chosen)


def _case_of(kind: Kind, misreport: AllowedMisreports | None, numbers: CaseNumbers) -> PolicyCase | None:
    """The case of these numbers; None if the position of the misreporter is out of range."""

    def rows(name: str) -> Rows:
        return tuple((F(1), *row) if kind == "tenants" else row for row in numbers[name])

    speed, gpus = rows("speed"), numbers.row("gpus")
    truth = PolicyCase(kind, speed, gpus, speed)
    if kind == "jobs":
        demand, work, arrival = (numbers.row(name) for name in ("demand", "work", "arrival"))
        truth = replace(truth, demand=demand, work=work, arrival=arrival)
    if misreport is None:
        return truth
    rows_reported = rows("report")
    if misreport is AllowedMisreports.TOGETHER:
        return replace(truth, report=(*rows_reported, *speed[len(rows_reported) :]))
    position = numbers.one(MISREPORTER) - 1
    if position not in range(len(speed)):
        return None
    at = int(position)
    if misreport is AllowedMisreports.FALSE_TYPE:
        return replace(truth, false=rows_reported[0], misreporter=at)
    return replace(truth, report=(*speed[:at], rows_reported[0], *speed[at + 1 :]))


def _meets_hypotheses(case: PolicyCase, misreport: AllowedMisreports | None) -> bool:
    """Whether all numbers are positive, every job fits on some type, and the reports are of the given kind."""
    numbers = chain(*case.speed, *case.report, case.false, case.gpus, case.demand, case.work)
    if any(v <= 0 for v in numbers) or any(v.denominator > 1 for v in (*case.gpus, *case.demand)):
        return False
    if case.demand and any(all(d > m for m in case.gpus) for d in case.demand):
        return False
    if misreport is None:
        return True
    pairs = zip(case.speed, case.report, strict=True)
    allowed = all(misreport.allows(a, b) for left, right in pairs for a, b in zip(left, right, strict=True))
    return allowed and len(case.misreporters) >= (2 if misreport is AllowedMisreports.TOGETHER else 1)


def _report(choose: ValueChooser, misreport: AllowedMisreports, row: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Choose a report of this kind; half of its entries are true, as are half of the reports of a group."""
    if misreport is AllowedMisreports.TOGETHER and choose((False, True)):
        return row
    return tuple(choose([s for s in SPEEDS if misreport.allows(w, s)]) if choose((True, False)) else w for w in row)


def _any(choose: ValueChooser, table: TableShape, sizes: Mapping[str, int]) -> Rows:
    rows, columns = table.shape(sizes)
    return tuple(tuple(choose(table.simplest_first) for _ in range(columns)) for _ in range(rows))
