"""Many policies against all properties, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hetopt.cli.arguments import named_policy
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.proofs.ledger.claim import Counterexample, Effort
from hetopt.proofs.ledger.processes import side_by_side
from hetopt.proofs.ledger.space import Numbers
from hetopt.proofs.properties.asking import Undecided
from hetopt.proofs.properties.cases import Kind, posed
from hetopt.proofs.properties.checks import PROPERTIES
from hetopt.proofs.properties.matrix import Cell, cell, kinds_of


@dataclass(frozen=True)
class Line:
    """All properties of one policy for tenants or for jobs; or why it is not about them."""

    policy: str
    kind: Kind
    cells: tuple[Cell, ...]
    why: str = ""


Task = tuple[str, Kind, int]
"""A policy's name, whom it is asked about, and the position of a property."""


def planned(names: Sequence[str], settings: Sequence[str]) -> tuple[list[Task], list[Line]]:
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
    tasks, refused = list[Task](), list[Line]()
    for name in names:
        for kind, why in kinds_of(named_policy(name, list(settings))).items():
            if why:
                refused.append(Line(name, kind, (), why))
            else:
                tasks += [(name, kind, place) for place in range(len(PROPERTIES))]
    return tasks, refused


def decided(
    tasks: Sequence[Task], settings: Sequence[str], effort: Effort, jobs: int = 1
) -> Iterator[tuple[Task, Cell]]:
    """Each cell as it is done; once more where a counterexample against another policy is one here, too, or smaller."""
    found = dict[Task, Cell]()
    with side_by_side(min(jobs, len(tasks))) if jobs > 1 and tasks else nullcontext() as pool:
        for task, one in _each(pool, _cell, {task: (task, settings, effort) for task in tasks}):
            found[task] = one
            yield task, one
        others = {task: (task, settings, one, _of_others(task, found)) for task, one in found.items()}
        for task, better in _each(pool, _crossed, {task: given for task, given in others.items() if given[-1]}):
            if better is not None:
                yield task, better


T = TypeVar("T")


def _each(
    pool: Executor | None, work: Callable[..., T], given: Mapping[Task, tuple[Any, ...]]
) -> Iterator[tuple[Task, T]]:
    if pool is None:
        yield from ((task, work(*arguments)) for task, arguments in given.items())
        return
    running = {pool.submit(work, *arguments): task for task, arguments in given.items()}
    for done in as_completed(running):
        yield running[done], done.result()


def _cell(task: Task, settings: Sequence[str], effort: Effort) -> Cell:
    """For a process of its own; cases stay behind, their numbers tell all."""
    name, kind, place = task
    try:
        found = cell(named_policy(name, list(settings)), kind, PROPERTIES[place], effort, name)
    except (InvalidOption, InvalidPlan) as problem:  # what is known of the others stays
        found = Cell(PROPERTIES[place], None, why=str(problem), broken=True)
    return _plain_cell(found, place)


def _plain_cell(one: Cell, place: int) -> Cell:
    case = one.counterexample
    return replace(one, about=PROPERTIES[place], counterexample=None if case is None else replace(case, case=None))


def _of_others(task: Task, found: Mapping[Task, Cell]) -> list[Numbers]:
    """The counterexamples against other policies that may be one here or a smaller one, the smallest first."""
    own, weight = found[task].counterexample, posed(task[1]).weight
    if found[task].holds is None:
        return []
    every = {
        case.numbers.key(): case.numbers
        for (_, *about), one in found.items()
        if (case := one.counterexample) is not None and about == list(task[1:])
    }
    return [n for n in sorted(every.values(), key=weight) if own is None or weight(n) < weight(own.numbers)]


def _crossed(task: Task, settings: Sequence[str], one: Cell, others: Sequence[Numbers]) -> Cell | None:
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


def joined(names: Sequence[str], found: Mapping[Task, Cell], refused: Sequence[Line]) -> list[Line]:
    """A line for each policy and whom it is about, in the order of the names."""
    lines = list(refused)
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in found):
        lines.append(Line(name, kind, tuple(found[name, kind, place] for place in range(len(PROPERTIES)))))
    return sorted(lines, key=lambda line: (names.index(line.policy), line.kind == "jobs"))
