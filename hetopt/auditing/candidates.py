"""Rows of speeds that one entity may report instead of its true row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.tolerances import NUDGE

Row: TypeAlias = tuple[float, ...]

Scale = Literal["kept", "divided", "raw"]
"""What reports look like and what the policy sees of them.

``"kept"``
    Normalised rows: the speed on the slowest GPU type is reported truly (1 in OEF, section 2.3).
``"divided"``
    Raw throughputs, over or under in each entry, which are then divided by their slowest entry, as OEF's profiler
    does. An over-report of the slowest GPU alone thus becomes an under-report.
``"raw"``
    Raw throughputs, seen as they are.
"""

FACTORS = (0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of true entries that are tried."""

POWERS = (0.0, 0.5, 2.0)
"""Exponents of whole rows: 0 makes a row flat, 2 steep."""


def direction(reported: Floats, true: Floats) -> Literal["over", "under", "mixed"] | None:
    """How a row compares with the truth; None if it is the truth."""
    above, below = bool((reported > true).any()), bool((reported < true).any())
    if above and below:
        return "mixed"
    return "over" if above else "under" if below else None


class Rows:
    """What each of ``entities`` may report, in a fixed order.

    Parameters
    ----------
    entities:
        The truth.
    scale:
        See :data:`Scale`.
    """

    def __init__(self, entities: Entities, scale: Scale = "kept") -> None:
        self.entities, self.scale = entities, scale

    @cached_property
    def slowest(self) -> list[int]:
        """(n,) the GPU type with the smallest positive speed of each entity; the first of equals."""
        return [int(i) for i in np.where(self.entities.allowed, self.entities.speed, np.inf).argmin(axis=1)]

    def free(self, e: int) -> list[int]:
        """Columns of the row of ``e`` that a report may change."""
        return [j for j in range(self.entities.shape[1]) if self.scale != "kept" or j != self.slowest[e]]

    def normal(self, e: int, row: Row) -> Row:
        """``row`` as a report must look: with ``"kept"`` no type runs slower than the slowest truly does.

        A (fake) row that is zero on the slowest type is measured by its own slowest.
        """
        if self.scale != "kept" or not any(v > 0 for v in row):
            return row
        s = self.slowest[e]
        base = float(self.entities.speed[e, s])
        factor = 1.0 if row[s] > 0 else base / min(v for v in row if v > 0)
        return tuple(max(v * factor, base) if v > 0 else 0.0 for v in row)

    def seen(self, e: int, row: Row) -> Row:
        """The row that reaches the policy: with ``"divided"`` its smallest positive entry is the true row's."""
        if self.scale != "divided":
            return row
        truth = float(self.entities.speed[e, self.slowest[e]])
        return tuple(v * truth / min(x for x in row if x > 0) for v in row)

    def candidates(self, e: int) -> Iterator[Row]:
        """Whole rows first, then single entries; no row twice, none that is the truth or all zero."""
        true, told = tuple(self.entities.speed[e].tolist()), set()
        for values in chain(self._whole_rows(e), self._entries(e)):
            row = self.normal(e, tuple(values.tolist()))
            if row not in told and any(v > 0 for v in row) and row != true:
                told.add(row)
                yield row

    def _whole_rows(self, e: int) -> Iterator[Floats]:
        """Flat and steep rows, scaled rows, rows of others and mixtures with them."""
        true, base = self.entities.speed[e], float(self.entities.speed[e, self.slowest[e]])
        moved = np.isin(np.arange(len(true)), self.free(e))
        for power in POWERS:
            yield np.where(true > 0, base * (np.maximum(true, base) / base) ** power, 0.0)
        for factor in FACTORS:
            yield np.where(moved, true * factor, true)
        for other in self._others(e):
            yield other
            yield np.maximum(true, other)
            yield np.minimum(true, other)
            yield (true + other) / 2
        if self.scale != "kept":  # as fast everywhere as on the fastest type
            yield np.full(len(true), true.max())

    def _others(self, e: int) -> list[Floats]:
        """Rows of the others, scaled to the same speed on the slowest type of ``e``; each once."""
        s, speed = self.slowest[e], self.entities.speed
        rows = speed[(speed[:, s] > 0) & (np.arange(len(speed)) != e)]
        return list(np.unique(rows / rows[:, [s]] * speed[e, s], axis=0)) if len(rows) else []

    def _entries(self, e: int) -> Iterator[Floats]:
        """One entry changed: to others' ratios (and just beside them), to multiples, to the slowest, to nothing."""
        true, base = self.entities.speed[e], float(self.entities.speed[e, self.slowest[e]])
        for j in self.free(e):
            values = [ratio * nudge for ratio in self._ratios(e, j) for nudge in (1.0, 1 - NUDGE, 1 + NUDGE)]
            values += [(ratio + float(true[j])) / 2 for ratio in self._ratios(e, j)]
            values += [float(true[j]) * factor for factor in FACTORS]
            values += [base * step for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)] + [0.0]
            for value in values:
                row = true.copy()
                row[j] = value
                yield row

    def _ratios(self, e: int, j: int) -> list[float]:
        """Entries at which type ``j`` would be to another type what it is to some other entity; each once."""
        speed, found = self.entities.speed, set()
        for i in range(speed.shape[1]):
            if i != j and speed[e, i] > 0:
                others = speed[(speed[:, i] > 0) & (np.arange(len(speed)) != e)]
                found |= set((others[:, j] / others[:, i] * speed[e, i]).tolist())
        return sorted(found)
