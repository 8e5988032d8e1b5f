"""Array roads of Gavel's policies: the programs that Pyomo would build, written straight into sparse arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.models.gavel.parts import TimeFraction
from hetopt.programs.linear import LinearProgram, Names


@dataclass(frozen=True, eq=False)
class Least:
    """The rows ``table[e] @ share[e] >= growth[e] * level`` of the component ``name``."""

    table: Floats
    growth: Floats
    name: str

    @property
    def most(self) -> float:
        """Bound of the level: none, or 0 where it is nobody's."""
        return np.inf if self.growth.any() else 0.0


def time_program(entities: Entities, profit: Floats | None = None) -> LinearProgram:
    """Maximise ``profit`` (n, k; default 0) under capacity and, for jobs, the rows of ``TimeFraction``."""
    n, k = entities.shape
    return _program(entities, np.zeros(n * k) if profit is None else profit.ravel().copy(), None)


def least_program(entities: Entities, least: Least) -> LinearProgram:
    """Maximise the level of ``least`` under capacity and, for jobs, the rows of ``TimeFraction``."""
    n, k = entities.shape
    return _program(entities, np.append(np.zeros(n * k), 1.0), least)


def _program(entities: Entities, c: Floats, least: Least | None) -> LinearProgram:
    n, k = entities.shape
    lower, upper = [np.full(k, -np.inf)], [entities.capacity]
    blocks = []
    if least is not None:
        blocks.append((least.name, least.table, np.zeros(n), np.full(n, np.inf)))
    if entities.kind == "jobs":
        blocks.append((TimeFraction().name, np.ones((n, k)), np.full(n, -np.inf), np.ones(n)))
    for _, _, low, up in blocks:
        lower.append(low)
        upper.append(up)
    return LinearProgram(
        c=c,
        A=_columns(entities, [table for _, table, _, _ in blocks], least),
        row_lower=np.concatenate(lower),
        row_upper=np.concatenate(upper),
        col_lower=np.zeros(len(c)),
        col_upper=np.append(np.where(entities.allowed, np.inf, 0.0), [] if least is None else least.most),
        integer=np.zeros(len(c), dtype=bool),
        row_names=Names(k + len(blocks) * n, lambda i: _row_name(entities, [b[0] for b in blocks], i)),
        col_names=Names(len(c), lambda i: _column_name(entities, least, i)),
        share=np.arange(n * k, dtype=np.intp).reshape(n, k),
    )


def _columns(entities: Entities, tables: list[Floats], least: Least | None) -> sparse.csc_array:
    """Column e*k + j has an entry in the capacity row j and in row e of each table; the level, if any, comes last."""
    n, k = entities.shape
    row, value = np.empty((n, k, 1 + len(tables)), dtype=np.int32), np.empty((n, k, 1 + len(tables)))
    row[:, :, 0], value[:, :, 0] = np.arange(k), entities.demand[:, None]
    for i, table in enumerate(tables):
        row[:, :, i + 1], value[:, :, i + 1] = np.arange(k + i * n, k + (i + 1) * n)[:, None], table
    used = value != 0
    index, entry = row[used], value[used]
    starts = np.zeros(n * k + 1 + (least is not None), dtype=np.int32)
    np.cumsum(np.count_nonzero(used, axis=2).ravel(), out=starts[1 : n * k + 1])
    if least is not None:
        grows = np.flatnonzero(least.growth)
        index = np.concatenate([index, (k + grows).astype(np.int32)])
        entry = np.concatenate([entry, -least.growth[grows]])
        starts[-1] = len(index)
    return sparse.csc_array((entry, index, starts), shape=(k + len(tables) * n, len(starts) - 1))


def _row_name(entities: Entities, blocks: list[str], i: int) -> str:
    n, k = entities.shape
    if i < k:
        return f"capacity[{entities.types[i]}]"
    block, e = divmod(i - k, n)
    return f"{blocks[block]}.row[{entities.names[e]}]"


def _column_name(entities: Entities, least: Least | None, i: int) -> str:
    n, k = entities.shape
    if least is not None and i == n * k:
        return f"{least.name}.level"
    e, j = divmod(i, k)
    return f"share[{entities.names[e]},{entities.types[j]}]"
