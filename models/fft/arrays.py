"""Array road of FFT's round: the program that Pyomo would build, written straight into sparse arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.models.fft.parts import LinearGain, OneType
from hetopt.programs.formulation import Component
from hetopt.programs.linear import LinearProgram, Names, Objective


def round_compiler(parts: Sequence[Component]) -> Callable[[Entities], LinearProgram] | None:
    """The array road of a round of these parts, or None where one of them is more than a linear gain."""
    whole = [part for part in parts if isinstance(part, OneType)]
    gains = [part for part in parts if isinstance(part, LinearGain)]
    if len(whole) != 1 or len(gains) != len(parts) - 1 or not gains:
        return None
    return partial(round_program, gains, whole[0])


def round_program(gains: Sequence[LinearGain], one_type: OneType, entities: Entities) -> LinearProgram:
    """Columns ``share[e, k]``, rows ``capacity[k]`` and of ``one_type``, an objective per priority of ``gains``."""
    n, k = entities.shape
    objectives = _objectives(gains, entities)
    return LinearProgram(
        c=objectives[-1].c,
        priority=objectives[-1].priority,
        A=_matrix(entities),
        row_lower=np.full(k + n, -np.inf),
        row_upper=np.concatenate([entities.capacity, np.ones(n)]),
        col_lower=np.zeros(n * k),
        col_upper=entities.allowed.ravel().astype(float),
        integer=np.ones(n * k, dtype=bool),
        row_names=Names(k + n, lambda i: _row_name(entities, one_type.name, i)),
        col_names=Names(n * k, lambda i: f"share[{entities.names[i // k]},{entities.types[i % k]}]"),
        share=np.arange(n * k, dtype=np.intp).reshape(n, k),
        earlier=tuple(objectives[:-1]),
    )


def _objectives(gains: Sequence[LinearGain], entities: Entities) -> list[Objective]:
    """One objective per priority, the highest first."""
    levels: dict[int, Floats] = {}
    for part in gains:
        level = getattr(part, "priority", 0)
        levels[level] = levels.get(level, 0.0) + part.coefficients(entities).ravel()
    return [Objective(levels[level], priority=level) for level in sorted(levels, reverse=True)]


def _matrix(entities: Entities) -> sparse.csc_array:
    """Column ``share[e, j]`` has ``demand[e]`` in row j and 1 in row k + e."""
    n, k = entities.shape
    data, rows = np.ones((n, k, 2)), np.empty((n, k, 2), dtype=np.int32)
    data[:, :, 0] = entities.demand[:, None]
    rows[:, :, 0], rows[:, :, 1] = np.arange(k), np.arange(k, k + n)[:, None]
    return sparse.csc_array((data.ravel(), rows.ravel(), np.arange(0, 2 * n * k + 1, 2)), shape=(k + n, n * k))


def _row_name(entities: Entities, one_type: str, i: int) -> str:
    k = len(entities.types)
    return f"capacity[{entities.types[i]}]" if i < k else f"{one_type}.row[{entities.names[i - k]}]"
