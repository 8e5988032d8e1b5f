"""Array roads of OEF: the programs that Pyomo would build, written straight into sparse arrays."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.models.fairness import EnvyFree, EqualRates
from hetopt.programs.linear import LinearProgram, Names


def cooperative_program(entities: Entities) -> LinearProgram:
    """The program of cooperative OEF, [OEF, eq. 10]; envy rows only where they are eager."""
    envy_free = EnvyFree()
    n = len(entities.names)
    program = capacity_program(entities)
    if n > envy_free.eager_up_to:
        return program
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    return program.with_rows(envy_free.rows(entities, first, second))


def noncooperative_program(entities: Entities) -> LinearProgram:
    """The program of :func:`hetopt.models.oef.programs.noncooperative`, [OEF, eq. 9]."""
    return equal_rates_program(entities, EqualRates())


def capacity_program(entities: Entities) -> LinearProgram:
    """Maximise the total rate under capacity: columns ``share[e, k]``, rows ``capacity[k]``."""
    n, k = entities.shape
    matrix = sparse.csc_array(
        (np.repeat(entities.demand, k), np.tile(np.arange(k, dtype=np.int32), n), np.arange(n * k + 1)),
        shape=(k, n * k),
    )
    return LinearProgram(
        c=entities.speed.ravel().copy(),
        A=matrix,
        row_lower=np.full(k, -np.inf),
        row_upper=entities.capacity.copy(),
        col_lower=np.zeros(n * k),
        col_upper=_upper(entities),
        integer=np.zeros(n * k, dtype=bool),
        row_names=Names(k, lambda i: f"capacity[{entities.types[i]}]"),
        col_names=Names(n * k, lambda i: _share_name(entities, i)),
        share=np.arange(n * k, dtype=np.intp).reshape(n, k),
    )


def equal_rates_program(entities: Entities, equal_rates: EqualRates) -> LinearProgram:
    """:func:`capacity_program` with the column ``level`` and the rows of ``equal_rates``."""
    n, k = entities.shape
    name = equal_rates.name
    return LinearProgram(
        c=np.append(entities.speed.ravel(), 0.0),
        A=_equal_rates_matrix(entities, *equal_rates.scaled(entities)),
        row_lower=np.concatenate([np.full(k, -np.inf), np.zeros(n)]),
        row_upper=np.concatenate([entities.capacity, np.zeros(n)]),
        col_lower=np.zeros(n * k + 1),
        col_upper=np.append(_upper(entities), np.inf),
        integer=np.zeros(n * k + 1, dtype=bool),
        row_names=Names(
            k + n, lambda i: f"capacity[{entities.types[i]}]" if i < k else f"{name}.row[{entities.names[i - k]}]"
        ),
        col_names=Names(n * k + 1, lambda i: _share_name(entities, i) if i < n * k else f"{name}.level"),
        share=np.arange(n * k, dtype=np.intp).reshape(n, k),
    )


def _equal_rates_matrix(entities: Entities, table: Floats, growth: Floats) -> sparse.csc_array:
    """Column ``share[e, j]`` has ``demand[e]`` in row j and, where it can run, ``table[e, j]`` in row k + e."""
    n, k = entities.shape
    data = np.empty((n, k, 2))
    data[:, :, 0], data[:, :, 1] = entities.demand[:, None], table
    rows = np.empty((n, k, 2), dtype=np.int32)
    rows[:, :, 0], rows[:, :, 1] = np.arange(k), np.arange(k, k + n)[:, None]
    used = np.ones((n, k, 2), dtype=bool)
    used[:, :, 1] = entities.allowed
    ends = np.cumsum(used.sum(axis=2).ravel())
    grows = np.flatnonzero(growth)
    return sparse.csc_array(
        (
            np.concatenate([data[used], -growth[grows]]),
            np.concatenate([rows[used], (k + grows).astype(np.int32)]),
            np.concatenate([[0], ends, [ends[-1] + len(grows)]]),
        ),
        shape=(k + n, n * k + 1),
    )


def _upper(entities: Entities) -> Floats:
    return np.where(entities.allowed, np.inf, 0.0).ravel()


def _share_name(entities: Entities, i: int) -> str:
    e, j = divmod(i, len(entities.types))
    return f"share[{entities.names[e]},{entities.types[j]}]"
