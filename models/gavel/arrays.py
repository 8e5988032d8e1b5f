"""Array roads of Gavel's policies: the programs that Pyomo would build, written straight into sparse arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
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
    rows, data = [np.broadcast_to(np.arange(k), (n, k))], [np.broadcast_to(entities.demand[:, None], (n, k))]
    lower, upper = [np.full(k, -np.inf)], [entities.capacity]
    blocks = []
    if least is not None:
        blocks.append((least.name, least.table, np.zeros(n), np.full(n, np.inf)))
    if entities.kind == "jobs":
        blocks.append((TimeFraction().name, np.ones((n, k)), np.full(n, -np.inf), np.ones(n)))
    for i, (_, table, low, up) in enumerate(blocks):
        rows.append(np.broadcast_to(np.arange(k + i * n, k + (i + 1) * n)[:, None], (n, k)))
        data.append(table)
        lower.append(low)
        upper.append(up)
    return LinearProgram(
        c=c,
        A=_columns(rows, data, k + len(blocks) * n, least),
        row_lower=np.concatenate(lower),
        row_upper=np.concatenate(upper),
        col_lower=np.zeros(len(c)),
        col_upper=np.append(np.where(entities.allowed, np.inf, 0.0), [] if least is None else least.most),
        integer=np.zeros(len(c), dtype=bool),
        row_names=Names(k + len(blocks) * n, lambda i: _row_name(entities, [b[0] for b in blocks], i)),
        col_names=Names(len(c), lambda i: _column_name(entities, least, i)),
        share=np.arange(n * k, dtype=np.intp).reshape(n, k),
    )


def _columns(rows: list[NDArray[np.intp]], data: list[Floats], size: int, least: Least | None) -> sparse.csc_array:
    """Column e*k + j has at most one entry per block of rows; the level, if any, comes last."""
    k = rows[0].shape[1]
    row, value = np.stack(rows, axis=2), np.stack(data, axis=2)
    used = value != 0
    index, entry = row[used], value[used]
    starts = np.append(0, np.cumsum(used.sum(axis=2).ravel()))
    if least is not None:
        grows = np.flatnonzero(least.growth)
        index, entry = np.append(index, k + grows), np.append(entry, -least.growth[grows])
        starts = np.append(starts, len(index))
    shape = (size, len(starts) - 1)
    return sparse.csc_array((entry, index.astype(np.int32), starts.astype(np.int32)), shape=shape)


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
