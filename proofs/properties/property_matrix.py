"""Decide properties of policies: on how many instances each holds, or the smallest counterexample."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from hetopt import instances
from hetopt.data.entities import Kind
from hetopt.errors import InvalidOption, InvalidPlan, UnusableFile
from hetopt.parallel import run_parallel
from hetopt.proofs.ledger.claim import Counterexample, Effort, Finding
from hetopt.proofs.ledger.counterexample_files import stored_numbers
from hetopt.proofs.ledger.counterexample_search import draw_counterexample, search_counterexample
from hetopt.proofs.ledger.space import CaseNumbers, Space
from hetopt.proofs.properties.policy_answers import AnyPolicy, Undecided, UndecidedTie, ask_policy
from hetopt.proofs.properties.policy_cases import MISREPORTER, PolicyCase, policy_space
from hetopt.proofs.properties.property_checks import PROPERTIES, Property
from hetopt.registry import make_policy

PROVED: Mapping[tuple[str, Kind, str], str] = {
    ("oef-cooperative", "tenants", "envy-free"): "oef/thm-5.1-envy",
    ("oef-cooperative", "tenants", "sharing-incentive"): "oef/thm-5.1-sharing",
    ("oef-noncooperative", "tenants", "pareto-efficient"): "oef/thm-5.3-positive",
    ("oef-noncooperative", "tenants", "over-report"): "oef/thm-5.4-over",
    ("oef-noncooperative", "tenants", "group"): "oef/thm-5.4-over",
    ("gandiva-fair", "tenants", "sharing-incentive"): "oef/table-1-gandiva-sharing",
    ("gavel-max-min", "tenants", "sharing-incentive"): "oef/gavel-without-row",
    ("equal-split", "tenants", "envy-free"): "oef/equal-split-envy",
    ("equal-split", "tenants", "sharing-incentive"): "oef/equal-split-sharing",
    ("equal-split", "tenants", "over-report"): "oef/equal-split-reports",
    ("equal-split", "tenants", "under-report"): "oef/equal-split-reports",
    ("equal-split", "tenants", "group"): "oef/equal-split-reports",
    ("ceei", "tenants", "envy-free"): "oef/ceei-envy",
    ("ceei", "tenants", "sharing-incentive"): "oef/ceei-sharing",
    ("ceei", "tenants", "pareto-efficient"): "oef/ceei-pareto",
    ("efficiency-only", "tenants", "pareto-efficient"): "oef/largest-total-pareto",
    ("gavel-total-throughput", "tenants", "pareto-efficient"): "oef/largest-total-pareto",
    ("sharing-incentive-only", "tenants", "pareto-efficient"): "oef/largest-total-pareto",
    ("sharing-incentive-only", "tenants", "sharing-incentive"): "oef/sharing-only-sharing",
}
"""(policy, tenants or jobs, property) -> the claim of the ledger that proves it."""

DISTANCE_WEIGHT = Fraction(1, 1000)
"""Weight of :attr:`Finding.distance` relative to the slack in a search."""


class CellOutcome(Enum):
    """The outcome for one property of one policy."""

    PROVED = "proved"
    HOLDS = "holds"
    FAILS = "fails"
    NOT_JUDGED = "-"
    ERROR = "error"


@dataclass(frozen=True)
class MatrixCell:
    """The result for one property of one policy.

    Attributes
    ----------
    holds:
        False with a counterexample; True if the property held on all drawn instances, which is no proof; None if no
        instance could be judged, or the policy failed.
    instances, refused:
        Number of judged instances, and of instances that the policy refused or that could not be judged.
    tied:
        Number of refused instances where the property fails for the returned optimum, but may hold for another.
    counterexample:
        The smallest counterexample found.
    why:
        Why no instance could be judged.
    broken:
        Whether the reason is an error in the policy's code.
    proved:
        The claim of the ledger that proves the property.
    """

    about: Property
    holds: bool | None
    instances: int = 0
    refused: int = 0
    tied: int = 0
    searched: int = 0
    counterexample: Counterexample | None = None
    why: str = ""
    broken: bool = False
    proved: str = ""
    seconds: float = 0.0

    @property
    def outcome(self) -> CellOutcome:
        """The result as one value."""
        if self.holds is None:
            return CellOutcome.ERROR if self.broken else CellOutcome.NOT_JUDGED
        if not self.holds:
            return CellOutcome.FAILS
        return CellOutcome.PROVED if self.proved else CellOutcome.HOLDS

    @property
    def text(self) -> str:
        """The result as text."""
        if self.outcome is not CellOutcome.HOLDS:
            return str(self.outcome.value)
        ties = f" ({self.tied} undecided by ties)" if self.tied else ""
        return f"holds on {self.instances}{ties}"


@dataclass
class _CountingCheck:
    """A check that counts judged cases, refused cases, and the reasons of refusals."""

    check: Callable[[PolicyCase, AnyPolicy], Finding]
    policy: AnyPolicy
    judged: int = 0
    refused: int = 0
    tied: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __call__(self, case: PolicyCase) -> Finding:
        try:
            found = self.check(case, self.policy)
        except Undecided as problem:
            self.refused += 1
            self.tied += isinstance(problem, UndecidedTie)
            self.reasons[str(problem)] += 1
            return Finding(Fraction(0), str(problem), decided=False)
        except (InvalidOption, InvalidPlan) as problem:
            raise problem.with_hint(f"with {case.description}") from problem
        self.judged += 1
        return found


def supported_kinds(policy: AnyPolicy) -> dict[Kind, str]:
    """Tenants and jobs -> why the policy refuses them; empty if it supports them.

    The policy is called for two equal tenants or jobs on two types of two GPUs, the second type twice as fast.
    """
    zeros, ones, twos, fours = ((Fraction(v),) * 2 for v in (0, 1, 2, 4))
    speed = ((Fraction(1), Fraction(2)),) * 2
    found: dict[Kind, str] = {}
    for kind in ("tenants", "jobs"):
        case = PolicyCase(kind, speed, twos, speed, demand=ones, work=fours, arrival=zeros)
        try:
            ask_policy(policy, case.instance)
            found[kind] = ""
        except Undecided as problem:
            found[kind] = str(problem)
    return found


def decide_cell(policy: AnyPolicy, kind: Kind, about: Property, effort: Effort, name: str = "") -> MatrixCell:
    """Try stored counterexamples, draw cases, then search for a first or a smaller counterexample."""
    began = time.perf_counter()
    if kind not in about.kinds:
        return MatrixCell(about, None, why=f"the property does not apply to {kind}")
    counted, space = _CountingCheck(about.check, policy), about.space(kind)

    def slack(case: PolicyCase) -> Fraction:
        found = counted(case)
        if not found.decided:
            return Fraction(0)
        return found.slack + DISTANCE_WEIGHT * found.distance if found.slack >= 0 else found.slack

    found = _known(space, slack, counted)
    if found is None:
        found, *_ = draw_counterexample(space, slack, counted, effort.instances, effort.seed)
    cell = MatrixCell(about, None, counted.judged, counted.refused, counted.tied)
    if effort.seconds and cell.instances:
        search = search_counterexample(space, slack, counted, effort.seconds, effort.seed)
        cell = replace(cell, searched=search.tried)
        if search.found and (found is None or space.weight(search.found[0]) < space.weight(found[0])):
            found = search.found
    cell = replace(cell, seconds=time.perf_counter() - began)
    if found is not None:
        numbers, finding = found
        return replace(cell, holds=False, counterexample=Counterexample(numbers, space.case(numbers), finding))
    if not cell.instances:
        reasons = [text for text, _ in counted.reasons.most_common(1)] or ["no instance was drawn"]
        return replace(cell, why=reasons[0])
    return replace(cell, holds=True, proved=PROVED.get((name, kind, about.key), ""))


def _known(
    space: Space[PolicyCase], slack: Callable[[PolicyCase], Fraction], check: Callable[[PolicyCase], Finding]
) -> tuple[CaseNumbers, Finding] | None:
    """The smallest stored counterexample, to any policy or claim, that is also a counterexample to this policy."""
    candidates = (_with_misreporter(stored, space) for stored in known_counterexamples())
    fits = [numbers for numbers in candidates if set(numbers.tables) == set(space.tables)]
    for numbers in sorted(fits, key=space.weight):
        case = space.case(numbers)
        if case is not None and slack(case) < 0 and (found := check(case)).refutes:
            return numbers, found
    return None


def _with_misreporter(numbers: CaseNumbers, space: Space[PolicyCase]) -> CaseNumbers:
    """Add the position of the misreporter to the tables of a claim, in which it is the first tenant."""
    tables = dict(numbers.tables)
    if MISREPORTER in space.tables and (reported := tables.pop("false", tables.get("report", ()))):
        tables |= {"report": reported[:1], MISREPORTER: ((Fraction(1),),)}
    return CaseNumbers(tables)


STORED = Path(__file__).with_name("refuting.json")
"""File of counterexamples to properties of policies."""


@dataclass(frozen=True)
class StoredRefutation:
    """A counterexample to a property of some policies, found by ``hetopt verify --policy all --json``."""

    about: Kind
    key: str
    policies: tuple[str, ...]
    numbers: CaseNumbers


@cache
def stored_refutations() -> tuple[StoredRefutation, ...]:
    """The counterexamples of ``refuting.json``.

    Raises
    ------
    UnusableFile
        The file cannot be read.
    """
    try:
        return tuple(
            StoredRefutation(row["about"], row["property"], tuple(row["policies"]), CaseNumbers.read(row["numbers"]))
            for row in json.loads(STORED.read_text())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UnusableFile(f"{STORED} cannot be read: {type(problem).__name__}: {problem}") from None


@cache
def known_counterexamples() -> tuple[CaseNumbers, ...]:
    """The numbers of all readable stored counterexamples to policies and claims."""
    found = [refutation.numbers for refutation in stored_refutations()]
    for name in instances.names():
        with suppress(Exception):  # other instances, and broken files of any content
            found.append(stored_numbers(name))
    return tuple(found)


@dataclass(frozen=True)
class MatrixRow:
    """All properties of one policy for tenants or for jobs, or why the policy refuses them."""

    policy: str
    kind: Kind
    cells: tuple[MatrixCell, ...]
    why: str = ""


CellKey = tuple[str, Kind, int]
"""A policy's name, tenants or jobs, and the position of a property in ``PROPERTIES``."""


def plan_cells(names: Sequence[str], settings: Mapping[str, Any]) -> tuple[list[CellKey], list[MatrixRow]]:
    """The cells to decide, and the rows for policies that refuse tenants or jobs.

    Parameters
    ----------
    names, settings:
        Registered names or ``module:Name``, and the settings of each, as for :func:`hetopt.registry.make_policy`.

    Raises
    ------
    UnknownName, InvalidOption
        There is no such policy, a setting is wrong, or the policy's code fails on an instance.
    """
    tasks, refused = list[CellKey](), list[MatrixRow]()
    for name in names:
        for kind, why in supported_kinds(make_policy(name, settings)).items():
            if why:
                refused.append(MatrixRow(name, kind, (), why))
            else:
                tasks += [(name, kind, place) for place in range(len(PROPERTIES))]
    return tasks, refused


def decide_cells(
    tasks: Sequence[CellKey], settings: Mapping[str, Any], effort: Effort, jobs: int = 1
) -> Generator[tuple[CellKey, MatrixCell]]:
    """Yield each decided cell, and again if a counterexample to another policy is its first or smallest one."""
    found = dict[CellKey, MatrixCell]()
    for (task, *_), cell in run_parallel(_decide, [(task, settings, effort) for task in tasks], jobs):
        found[task] = cell
        yield task, cell
    others = [(task, settings, cell, _counterexamples_of_others(task, found)) for task, cell in found.items()]
    others = [given for given in others if given[-1]]
    for (task, *_), better in run_parallel(_with_counterexample_of_others, others, jobs):
        if better is not None:
            yield task, better


def _decide(task: CellKey, settings: Mapping[str, Any], effort: Effort) -> MatrixCell:
    """Decide a cell in a worker; the case is dropped, since its numbers determine it."""
    name, kind, place = task
    try:
        found = decide_cell(make_policy(name, settings), kind, PROPERTIES[place], effort, name)
    except (InvalidOption, InvalidPlan) as problem:  # the other cells are still decided
        found = MatrixCell(PROPERTIES[place], None, why=str(problem), broken=True)
    return _without_case(found, place)


def _without_case(cell: MatrixCell, place: int) -> MatrixCell:
    case = cell.counterexample
    return replace(cell, about=PROPERTIES[place], counterexample=None if case is None else replace(case, case=None))


def _counterexamples_of_others(task: CellKey, found: Mapping[CellKey, MatrixCell]) -> list[CaseNumbers]:
    """Counterexamples to other policies that are smaller than this cell's, the smallest first."""
    own, weight = found[task].counterexample, policy_space(task[1]).weight
    if found[task].holds is None:
        return []
    every = {
        case.numbers.key(): case.numbers
        for (_, *about), cell in found.items()
        if (case := cell.counterexample) is not None and about == list(task[1:])
    }
    return [n for n in sorted(every.values(), key=weight) if own is None or weight(n) < weight(own.numbers)]


def _with_counterexample_of_others(
    task: CellKey, settings: Mapping[str, Any], cell: MatrixCell, others: Sequence[CaseNumbers]
) -> MatrixCell | None:
    """The cell with the first of ``others`` that refutes its property; None if none does."""
    name, kind, place = task
    about, policy = PROPERTIES[place], make_policy(name, settings)
    for numbers in others:
        case = about.space(kind).case(numbers)
        assert case is not None
        with suppress(Undecided):
            if (finding := about.check(case, policy)).refutes:
                smaller = replace(cell, holds=False, proved="", counterexample=Counterexample(numbers, None, finding))
                return _without_case(smaller, place)
    return None


def matrix_rows(
    names: Sequence[str], found: Mapping[CellKey, MatrixCell], refused: Sequence[MatrixRow]
) -> list[MatrixRow]:
    """A row for each policy and kind of entities, in the order of the names."""
    lines = list(refused)
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in found):
        lines.append(MatrixRow(name, kind, tuple(found[name, kind, place] for place in range(len(PROPERTIES)))))
    return sorted(lines, key=lambda line: (names.index(line.policy), line.kind == "jobs"))
