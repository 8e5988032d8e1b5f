"""Chvatal-Gomory cuts of rows of whole numbers.

A row ``sum a_j x_j <= b`` of whole numbers over columns >= 0 implies ``sum floor(a_j / g) x_j <= floor(b / g)`` for
each g. For a row of GPUs in gangs, these are the numbers of gangs of a size, or of which one could run in their place.
They bound, and the search branches on them: on how many gangs of a size a type runs, not on which, where too many
choices are nearly alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from flint import fmpq

from hetopt.solving.rational.core import Core, add_row
from hetopt.solving.rational.derivations import floor, is_whole
from hetopt.solving.rational.kernel import ZERO, Rational

MOST_CUTS = 64
"""Largest number of cuts of a row."""


def add_cuts(core: Core) -> None:
    """Add Chvatal-Gomory cuts of all rows of whole numbers."""
    n, seen = len(core.columns), {frozenset(row.items()) for row in core.rows}
    for i in range(len(core.rows)):
        row, right, at = core.rows[i], core.upper[n + i], core.upper_at[n + i]
        if right is None or at is None or not _countable(core, row):
            continue
        sizes = sorted({int(v.p) for v in row.values()})
        for g in sorted({math.gcd(*sizes), *sizes}, reverse=True)[:MOST_CUTS]:
            part = {j: fmpq(int(v.p) // g) for j, v in row.items() if v >= g}
            key = frozenset(part.items())
            if g == 1 or key in seen:
                continue
            seen.add(key)
            _add_cut(core, row, at, g, part)


def _countable(core: Core, row: Mapping[int, Rational]) -> bool:
    """Whether a row has only whole positive coefficients, of integer columns >= 0."""
    return (
        all(
            core.integer[j] and v > 0 and is_whole(v) and (low := core.lower[j]) is not None and low >= 0
            for j, v in row.items()
        )
        and len(row) > 1
    )


def _add_cut(core: Core, row: Mapping[int, Rational], at: int, g: int, part: dict[int, Rational]) -> None:
    terms = {at: fmpq(1, g)}
    for j, v in row.items():
        fraction = part.get(j, ZERO) - v / g
        if fraction:
            own = core.lower_at[j]
            assert own is not None
            terms[own] = terms.get(own, ZERO) + fraction
    if len(part) == 1:
        ((j, v),) = part.items()
        _, right, _ = core.derived.combined(terms)
        high = core.upper[j]
        if v != 1 or (high is not None and floor(right) >= high):
            return
        core.upper_at[j] = core.derived.add_rounded(terms)
        core.upper[j] = fmpq(floor(right))
        return
    where = core.derived.add_rounded(terms)
    add_row(core, part, fmpq(core.derived.constraints[where].right), where, integer=True)
