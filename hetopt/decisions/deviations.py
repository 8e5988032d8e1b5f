"""What rounding owes: how far whole GPUs lag behind the fractional shares that were promised.

Kept in integers (ticks), so that deviations sum to zero exactly however many rounds have passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict
from hetopt.data.entities import Floats
from hetopt.errors import InvalidPlan
from hetopt.tolerances import FEASIBILITY

TICKS = 720_720_000
"""Ticks of one GPU (or of one round of a job). A multiple of 1, 2, …, 16, so that small fractions are exact."""

Ints: TypeAlias = NDArray[np.int64]

Ledger: TypeAlias = Mapping[tuple[str, ...], int]
"""(tenant, job type, GPU type) or (job, GPU type) or (IDLE, GPU type) -> ticks owed; absent means 0."""

IDLE = ""
"""Stands for nobody, who gets the GPUs that are left idle. No entity can have this name."""


def to_ticks(gpus: Floats) -> Ints:
    """Shares in ticks; what is below zero by a solver's tolerance is zero."""
    return np.asarray(np.rint(np.maximum(gpus, 0.0) * TICKS), dtype=np.int64)


def promised(gpus: Floats, capacity: Floats, types: Sequence[str]) -> Ints:
    """(n + 1, k) ticks promised per round, the last row to nobody, so that each type sums to its capacity exactly.

    Parameters
    ----------
    gpus:
        (n, k) fractional GPUs.
    capacity:
        (k,) GPUs of each type.
    types:
        Names of the types, for the error.

    Raises
    ------
    InvalidPlan
        More is promised than there is, by more than a solver's tolerance.
    """
    table = np.vstack([to_ticks(gpus), np.zeros((1, len(capacity)), dtype=np.int64)])
    for k, name in enumerate(types):
        left = to_ticks(capacity[k : k + 1])[0] - table[:, k].sum()
        slack = FEASIBILITY * TICKS * capacity[k] + len(table)  # the solver's tolerance, and half a tick for each entry
        if left < -slack:
            raise InvalidPlan(f"the allocation has {gpus[:, k].sum():g} GPUs of {name!r}; there are {capacity[k]:g}")
        row = int(table[:, k].argmax()) if left < slack and table[:, k].any() else -1
        table[row, k] += left
    return table


def settled(owed: Ints) -> Ints:
    """``owed`` made to sum to zero by shrinking the entries of the heavier sign in proportion; no entry grows.

    Needed where someone leaves with a deviation: what it was owed falls away, and with it what the others were ahead.
    """
    total = int(owed.sum())
    if total == 0:
        return owed
    side = np.where(np.sign(owed) == np.sign(total), owed, 0)
    cut = side * (abs(total) / abs(int(side.sum())))
    cut = np.where(side > 0, np.floor(cut), np.ceil(cut)).astype(np.int64)
    rest = total - int(cut.sum())
    for i in np.argsort(-np.abs(side), kind="stable"):  # the few ticks that rounding the cuts has left over
        take = int(np.sign(total)) * min(abs(rest), abs(int(side[i] - cut[i])))
        cut[i] += take
        rest -= take
        if rest == 0:
            break
    return np.asarray(owed - cut)


def read(ledger: Ledger | None, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Ints:
    """(len(keys), k) ticks owed; those who are new are owed nothing."""
    if not ledger:
        return np.zeros((len(keys), len(types)), dtype=np.int64)
    return np.array([[ledger.get((*key, t), 0) for t in types] for key in keys], dtype=np.int64)


def write(owed: Ints, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Ledger:
    """The ledger that :func:`read` reads; those who are owed nothing are left out."""
    return FrozenDict({(*keys[i], types[k]): int(owed[i, k]) for i, k in np.argwhere(owed).tolist()})
