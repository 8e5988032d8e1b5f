"""Sums of alike columns of an integer program, in whose core the search has no symmetry to break.

Colours are refined until all columns of a colour have the same sum of coefficients in the rows of each colour, and the
other way round (Grohe, Kersting, Mladenov, Selman: Dimension reduction via colour refinement, ESA 2014). Summed by
colour, the program has the same linear relaxation. Its whole points need not be sums of a point of the program: the
bound that they prove holds, the solution has to be found. Where there is none, some rows are kept apart: equal jobs on
equal machines are then summed over the jobs only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from flint import fmpq

from hetopt.solving.rational.core import Core
from hetopt.solving.rational.kernel import ZERO, Rational


def summed(core: Core, apart: int = 0) -> Core:
    """The core of the sums of alike columns and rows; the same one if no two columns are alike.

    Parameters
    ----------
    apart:
        Number of classes of alike rows, the smallest first, whose rows are not summed.
    """
    n, derived = len(core.columns), core.derived
    columns, rows = _classes(core, apart)
    if len(columns) == n:
        return core
    place = {own[0]: p for p, own in enumerate(columns)}

    def total(bounds: Sequence[Rational | None], own: Sequence[int]) -> Rational | None:
        bound = bounds[own[0]]
        return None if bound is None else bound * len(own)

    def total_at(places: Sequence[int | None], own: Sequence[int]) -> int | None:
        if len(own) == 1 or places[own[0]] is None:
            return places[own[0]]
        return derived.add({at: fmpq(1) for at in map(places.__getitem__, own) if at is not None})

    by_row = list[dict[int, Rational]]()
    for own in rows:
        row = dict[int, Rational]()
        for i in own:
            for j, v in core.rows[i].items():
                if j in place:
                    row[place[j]] = row.get(place[j], ZERO) + v
        by_row.append({p: v for p, v in row.items() if v})
    both = [*columns, *([n + i for i in own] for own in rows)]
    return replace(
        core,
        columns=[{j: v for one in own for j, v in core.columns[one].items()} for own in columns],
        rows=by_row,
        objective=[core.objective[own[0]] for own in columns],
        cost=[core.cost[own[0]] for own in columns],
        lower=[total(core.lower, own) for own in both],
        upper=[total(core.upper, own) for own in both],
        lower_at=[total_at(core.lower_at, own) for own in both],
        upper_at=[total_at(core.upper_at, own) for own in both],
        integer=[core.integer[own[0]] for own in both],
    )


def _classes(core: Core, apart: int) -> tuple[list[list[int]], list[list[int]]]:
    """Alike columns, and alike rows, in order."""
    n, m = len(core.columns), len(core.rows)
    column = _numbered(zip(core.objective, core.lower[:n], core.upper[:n], core.integer[:n], strict=True))
    row = _numbered(zip(core.lower[n:], core.upper[n:], strict=True))
    value = dict[Rational, int]()
    by_row = [[(j, value.setdefault(v, len(value))) for j, v in own.items()] for own in core.rows]
    by_column: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for i, own in enumerate(by_row):
        for j, v in own:
            by_column[j].append((i, v))
    while True:
        before = len(set(row)) + len(set(column))
        if len(set(column)) < n:
            row = _numbered((row[i], *sorted((column[j], v) for j, v in by_row[i])) for i in range(m))
            column = _numbered((column[j], *sorted((row[i], v) for i, v in by_column[j])) for j in range(n))
        if len(set(row)) + len(set(column)) > before:
            continue
        several = [own for own in _members(row) if len(own) > 1]
        if not apart:
            return _members(column), _members(row)
        if not several:
            return [[j] for j in range(n)], [[i] for i in range(m)]
        apart -= 1
        smallest = min(several, key=len)
        for new, i in enumerate(smallest, len(row)):
            row[i] = new


def _numbered(keys: Iterable[Hashable]) -> list[int]:
    """Equal keys get equal numbers."""
    number = dict[Hashable, int]()
    return [number.setdefault(key, len(number)) for key in keys]


def _members(number: Sequence[int]) -> list[list[int]]:
    found = dict[int, list[int]]()
    for i, own in enumerate(number):
        found.setdefault(own, []).append(i)
    return list(found.values())
