"""Decide properties of policies: how often each one held, and the smallest counterexample where it failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hetopt import instances
from hetopt.cli.arguments import named_policy
from hetopt.errors import InvalidOption, InvalidPlan, UnusableFile
from hetopt.proofs.ledger.claim import Counterexample, Effort, Finding
from hetopt.proofs.ledger.counterexample_files import stored_numbers
from hetopt.proofs.ledger.counterexample_search import draw_counterexample, search_counterexample
from hetopt.proofs.ledger.space import CaseNumbers, Space
from hetopt.proofs.ledger.worker_pool import worker_pool
from hetopt.proofs.properties.policy_answers import AnyPolicy, Undecided, UndecidedTie, ask_policy
from hetopt.proofs.properties.policy_cases import EntityKind, PolicyCase, policy_space
from hetopt.proofs.properties.property_checks import PROPERTIES, Property

PROVED: Mapping[tuple[str, EntityKind, str], str] = {
    ("oef-cooperative", "tenants", "envy-free"): "oef/thm-5.1-envy",
    ("oef-cooperative", "tenants", "sharing-incentive"): "oef/thm-5.1-sharing",
    ("oef-noncooperative", "tenants", "pareto-efficient"): "oef/thm-5.3-positive",
    ("oef-noncooperative", "tenants", "over-report"): "oef/thm-5.4-over",
    ("oef-noncooperative", "tenants", "group"): "oef/thm-5.4-over",
    ("gandiva-fair", "tenants", "sharing-incentive"): "oef/table-1-gandiva-sharing",
    ("gavel-max-min", "tenants", "sharing-incentive"): "oef/table-1-gavel-sharing",
}
"""(policy, whom it is about, property) -> the claim of the ledger that proves it."""


NEXT = Fraction(1, 1000)
"""What :attr:`Finding.far` counts beside the slack."""


@dataclass(frozen=True)
class MatrixCell:
    """One property of one policy.

    Attributes
    ----------
    holds:
        False with a counterexample; True where it held on all instances that were drawn, which proves nothing;
        None where none could be judged, or the policy fails.
    instances, refused:
        On which it held or was judged, and which the policy turned away or whose result cannot be judged.
    tied:
        Of the refused: where it fails for the optimum that was returned, and perhaps not for another.
    counterexample:
        The smallest that was found.
    why:
        Why nothing could be judged.
    broken:
        Whether that is because the policy's code fails.
    proved:
        The claim of the ledger that proves it.
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
    def text(self) -> str:
        """A word for the table."""
        if self.holds is None:
            return "error" if self.broken else "-"
        if not self.holds:
            return "fails"
        ties = f", {self.tied} ties" if self.tied else ""
        return "proved" if self.proved else f"holds on {self.instances}{ties}"


@dataclass
class _Counted:
    """A check that knows how many cases it judged, and why others were refused."""

    check: Callable[[PolicyCase, AnyPolicy], Finding]
    policy: AnyPolicy
    judged: int = 0
    refused: int = 0
    tied: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def __call__(self, case: PolicyCase) -> Finding:
        try:
            found = self.check(case, self.policy)
        except Undecided as problem:
            self.refused += 1
            self.tied += isinstance(problem, UndecidedTie)
            self.reasons[str(problem)] = self.reasons.get(str(problem), 0) + 1
            return Finding(Fraction(0), str(problem), decided=False)
        except (InvalidOption, InvalidPlan) as problem:
            raise type(problem)(f"{problem}; with {case.words}") from problem
        self.judged += 1
        return found


def refused_kinds(policy: AnyPolicy) -> dict[EntityKind, str]:
    """Whom a policy is about: tenants, jobs or both; with why not for those whom it refuses (else empty)."""
    found: dict[EntityKind, str] = {}
    for kind in ("tenants", "jobs"):
        plain = policy_space(kind).build(_plain(kind))
        assert plain is not None
        try:
            ask_policy(policy, plain.instance)
            found[kind] = ""
        except Undecided as problem:
            found[kind] = str(problem)
    return found


def _plain(kind: EntityKind) -> CaseNumbers:
    """Two alike on two types of two GPUs, the second twice as fast."""
    one, two = Fraction(1), Fraction(2)
    speed = ((two,), (two,)) if kind == "tenants" else ((one, two), (one, two))
    tables: dict[str, Any] = {"speed": speed, "gpus": ((two, two),)}
    if kind == "jobs":
        tables |= {"demand": ((one, one),), "work": ((two * 2, two * 2),), "arrival": ((0 * one, 0 * one),)}
    return CaseNumbers(tables)


def decide_cell(policy: AnyPolicy, kind: EntityKind, about: Property, effort: Effort, name: str = "") -> MatrixCell:
    """Try counterexamples that are kept, draw cases, then search for a smaller counterexample or a first one."""
    began = time.perf_counter()
    if kind not in about.kinds:
        return MatrixCell(about, None, why=f"it is not about {kind}")
    counted, space = _Counted(about.check, policy), about.space(kind)

    def slack(case: PolicyCase) -> Fraction:
        found = counted(case)
        if not found.decided:
            return Fraction(0)
        return found.slack + NEXT * found.distance if found.slack >= 0 else found.slack

    found = _known(space, slack, counted)
    if found is None:
        found, *_ = draw_counterexample(space, slack, counted, effort.instances, effort.seed)
    judged, refused, tied = counted.judged, counted.refused, counted.tied
    search = (
        search_counterexample(space, slack, counted, effort.seconds, effort.seed) if effort.seconds and judged else None
    )
    other = None if search is None else search.found
    if other is not None and (found is None or space.weight(other[0]) < space.weight(found[0])):
        found = other
    seconds, searched = time.perf_counter() - began, 0 if search is None else search.tried
    if found is not None:
        case = Counterexample(found[0], space.build(found[0]), found[1])
        return MatrixCell(about, False, judged, refused, tied, searched, case, seconds=seconds)
    if not judged:
        why = max(counted.reasons, key=lambda text: counted.reasons[text], default="no instance was drawn")
        return MatrixCell(about, None, 0, refused, tied, why=why, seconds=seconds)
    proved = PROVED.get((name, kind, about.key), "")
    return MatrixCell(about, True, judged, refused, tied, searched, proved=proved, seconds=seconds)


def _known(
    space: Space[PolicyCase], slack: Callable[[PolicyCase], Fraction], check: Callable[[PolicyCase], Finding]
) -> tuple[CaseNumbers, Finding] | None:
    """Against some policy these cases were found before: the smallest that is one against this policy, too."""
    fits = [
        numbers
        for kept in known_counterexamples()
        if set((numbers := _with_liar(kept, space)).tables) == set(space.tables)
    ]
    for numbers in sorted(fits, key=space.weight):
        case = space.build(numbers)
        if case is not None and slack(case) < 0 and (found := check(case)).refutes:
            return numbers, found
    return None


def _with_liar(numbers: CaseNumbers, space: Space[PolicyCase]) -> CaseNumbers:
    """Claims let the first tenants lie; here one of them does, and the numbers say who."""
    tables = dict(numbers.tables)
    if "liar" in space.tables and (said := tables.pop("false", tables.get("report", ()))):
        tables |= {"report": said[:1], "liar": ((Fraction(1),),)}
    return CaseNumbers(tables)


KEPT = Path(__file__).with_name("refuting.json")


@dataclass(frozen=True)
class StoredRefutation:
    """A case against a property of some policies, as ``hetopt verify --policy all --json`` found it."""

    about: EntityKind
    key: str
    policies: tuple[str, ...]
    numbers: CaseNumbers


@cache
def stored_refutations() -> tuple[StoredRefutation, ...]:
    """Those of ``refuting.json``, beside this file.

    Raises
    ------
    UnusableFile
        It is not what it should be.
    """
    try:
        return tuple(
            StoredRefutation(row["about"], row["property"], tuple(row["policies"]), CaseNumbers.read(row["numbers"]))
            for row in json.loads(KEPT.read_text())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UnusableFile(f"{KEPT} cannot be read: {type(problem).__name__}: {problem}") from None


@cache
def known_counterexamples() -> tuple[CaseNumbers, ...]:
    """The numbers of all counterexamples that are kept and can be read, against policies and against claims."""
    found = [one.numbers for one in stored_refutations()]
    for name in instances.names():
        with suppress(Exception):  # other instances, and whatever stands in a broken file
            found.append(stored_numbers(name))
    return tuple(found)


@dataclass(frozen=True)
class MatrixRow:
    """All properties of one policy for tenants or for jobs; or why it is not about them."""

    policy: str
    kind: EntityKind
    cells: tuple[MatrixCell, ...]
    why: str = ""


CellKey = tuple[str, EntityKind, int]
"""A policy's name, whom it is asked about, and the position of a property."""


def plan_cells(names: Sequence[str], settings: Sequence[str]) -> tuple[list[CellKey], list[MatrixRow]]:
    """The cells to decide, and the lines of those whom a policy is not about.

    Parameters
    ----------
    names, settings:
        As on a command line: announced names or ``module:Name``, and ``key=value`` each.

    Raises
    ------
    UnknownName, InvalidOption
        There is no such policy, a setting is wrong, or its code fails on an instance.
    """
    tasks, refused = list[CellKey](), list[MatrixRow]()
    for name in names:
        for kind, why in refused_kinds(named_policy(name, list(settings))).items():
            if why:
                refused.append(MatrixRow(name, kind, (), why))
            else:
                tasks += [(name, kind, place) for place in range(len(PROPERTIES))]
    return tasks, refused


def decide_cells(
    tasks: Sequence[CellKey], settings: Sequence[str], effort: Effort, jobs: int = 1
) -> Iterator[tuple[CellKey, MatrixCell]]:
    """Each cell as it is done; once more where a counterexample against another policy is one here, too, or smaller."""
    found = dict[CellKey, MatrixCell]()
    with worker_pool(min(jobs, len(tasks))) if jobs > 1 and tasks else nullcontext() as pool:
        for task, one in _each(pool, _cell, {task: (task, settings, effort) for task in tasks}):
            found[task] = one
            yield task, one
        others = {task: (task, settings, one, _of_others(task, found)) for task, one in found.items()}
        for task, better in _each(pool, _crossed, {task: given for task, given in others.items() if given[-1]}):
            if better is not None:
                yield task, better


T = TypeVar("T")


def _each(
    pool: Executor | None, work: Callable[..., T], given: Mapping[CellKey, tuple[Any, ...]]
) -> Iterator[tuple[CellKey, T]]:
    if pool is None:
        yield from ((task, work(*arguments)) for task, arguments in given.items())
        return
    running = {pool.submit(work, *arguments): task for task, arguments in given.items()}
    for done in as_completed(running):
        yield running[done], done.result()


def _cell(task: CellKey, settings: Sequence[str], effort: Effort) -> MatrixCell:
    """For a process of its own; cases stay behind, their numbers tell all."""
    name, kind, place = task
    try:
        found = decide_cell(named_policy(name, list(settings)), kind, PROPERTIES[place], effort, name)
    except (InvalidOption, InvalidPlan) as problem:  # what is known of the others stays
        found = MatrixCell(PROPERTIES[place], None, why=str(problem), broken=True)
    return _plain_cell(found, place)


def _plain_cell(one: MatrixCell, place: int) -> MatrixCell:
    case = one.counterexample
    return replace(one, about=PROPERTIES[place], counterexample=None if case is None else replace(case, case=None))


def _of_others(task: CellKey, found: Mapping[CellKey, MatrixCell]) -> list[CaseNumbers]:
    """The counterexamples against other policies that may be one here or a smaller one, the smallest first."""
    own, weight = found[task].counterexample, policy_space(task[1]).weight
    if found[task].holds is None:
        return []
    every = {
        case.numbers.key(): case.numbers
        for (_, *about), one in found.items()
        if (case := one.counterexample) is not None and about == list(task[1:])
    }
    return [n for n in sorted(every.values(), key=weight) if own is None or weight(n) < weight(own.numbers)]


def _crossed(
    task: CellKey, settings: Sequence[str], one: MatrixCell, others: Sequence[CaseNumbers]
) -> MatrixCell | None:
    """The cell with the first of these that is a counterexample; None if none is."""
    name, kind, place = task
    about, policy = PROPERTIES[place], named_policy(name, list(settings))
    for numbers in others:
        case = about.space(kind).build(numbers)
        assert case is not None
        with suppress(Undecided):
            if (finding := about.check(case, policy)).refutes:
                smaller = replace(one, holds=False, proved="", counterexample=Counterexample(numbers, None, finding))
                return _plain_cell(smaller, place)
    return None


def matrix_rows(
    names: Sequence[str], found: Mapping[CellKey, MatrixCell], refused: Sequence[MatrixRow]
) -> list[MatrixRow]:
    """A line for each policy and whom it is about, in the order of the names."""
    lines = list(refused)
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in found):
        lines.append(MatrixRow(name, kind, tuple(found[name, kind, place] for place in range(len(PROPERTIES)))))
    return sorted(lines, key=lambda line: (names.index(line.policy), line.kind == "jobs"))
