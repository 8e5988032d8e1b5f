"""Hypothesis strategies that generate instances meeting a theorem's hypotheses, and shrink towards small numbers.

Every number is a small integer or a ratio of small integers, so that a counterexample is readable and an exact
check in rationals stays cheap.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.instance import Instance
from hetopt.programs.linear import LinearProgram

Draw = st.DrawFn


def ratios(least: int = 1, most: int = 12) -> st.SearchStrategy[float]:
    """Positive ratios p/q of small integers."""
    return st.builds(lambda p, q: p / q, st.integers(least, most), st.integers(1, 4))


@st.composite
def speedup_rows(draw: Draw, n: int, k: int, *, zeros: bool = False) -> list[list[float]]:
    """(n, k) arbitrary speedups with first column 1, the slowest or not; ``zeros``: some types cannot run some."""
    entry = st.one_of(st.just(0.0), ratios()) if zeros else ratios()
    rows = [[1.0, *draw(st.lists(entry, min_size=k - 1, max_size=k - 1))] for _ in range(n)]
    return rows


@st.composite
def ratio_ordered_rows(draw: Draw, n: int, k: int) -> list[list[float]]:
    """(n, k) strictly ratio-ordered (TP2) speedups: the faster tenant has the larger ratio between every two types.

    Made from steps w[l, j+1] / w[l, j] that grow strictly with l for every j.
    """
    steps = []
    for _ in range(k - 1):
        grows = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
        first = Fraction(draw(st.integers(2, 4)), 2)
        steps.append([first + Fraction(sum(grows[:i]), 2) for i in range(n)])
    rows = []
    for i in range(n):
        row = [Fraction(1)]
        for step in steps:
            row.append(row[-1] * step[i])
        rows.append([float(w) for w in row])
    return rows


@st.composite
def tenant_instances(
    draw: Draw,
    *,
    tenants: tuple[int, int] = (1, 5),
    types: tuple[int, int] = (1, 4),
    ordered: bool = False,
    weighted: bool = False,
    zeros: bool = False,
    most_gpus: int = 8,
) -> Instance:
    """An instance of OEF's setting; ``ordered`` for strictly ratio-ordered speedups."""
    n, k = draw(st.integers(*tenants)), draw(st.integers(*types))
    rows = draw(ratio_ordered_rows(n, k) if ordered else speedup_rows(n, k, zeros=zeros))
    capacity = draw(st.lists(st.integers(1, most_gpus), min_size=k, max_size=k))
    weights = draw(st.lists(ratios(1, 4), min_size=n, max_size=n)) if weighted else None
    return Instance.from_speedups(rows, capacity, weights=weights, any_scale=True)


@st.composite
def job_instances(
    draw: Draw,
    *,
    jobs: tuple[int, int] = (1, 6),
    types: tuple[int, int] = (1, 3),
    most_gpus: int = 6,
    most_demand: int = 4,
    zeros: bool = False,
    arrivals: bool = False,
    round_seconds: float = 300.0,
) -> Instance:
    """An instance of FFT's setting; every job fits on some GPU type, and with ``zeros`` may be excluded from others."""
    n, k = draw(st.integers(*jobs)), draw(st.integers(*types))
    capacity = draw(st.lists(st.integers(1, most_gpus), min_size=k, max_size=k))
    rows: list[list[float]] = []
    demand: list[int] = []
    for _ in range(n):
        home = draw(st.integers(0, k - 1))
        row = [draw(ratios()) for _ in range(k)]
        if zeros:
            row = [0.0 if i != home and draw(st.booleans()) else w for i, w in enumerate(row)]
        rows.append(row)
        demand.append(draw(st.integers(1, min(most_demand, capacity[home]))))
    work = draw(st.lists(st.integers(1, 40), min_size=n, max_size=n))
    extra: dict[str, Any] = {}
    if arrivals:
        extra["arrival"] = [round_seconds * a for a in draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))]
        extra["time"] = max(extra["arrival"])
    return Instance.from_jobs(np.array(rows), demand, work, capacity, round_seconds=round_seconds, **extra)


@st.composite
def shares(draw: Draw, instance: Instance, *, waste: bool = True) -> NDArray[np.object_]:
    """(n, k) Fractions that share the GPUs of ``instance`` somehow; without ``waste`` every type is used up.

    Of each type everyone gets a part in proportion to a small whole number, often 0.
    """
    entities = instance.entities()
    n, k = entities.shape
    columns = []
    for gpus in entities.capacity.tolist():
        parts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        idle = draw(st.integers(0, 2)) if waste else 0
        if not idle and not sum(parts):
            parts[draw(st.integers(0, n - 1))] = 1
        columns.append([Fraction(part, sum(parts) + idle) * int(gpus) for part in parts])
    demand = [int(d) for d in entities.demand]
    table = [[columns[j][i] / demand[i] for j in range(k)] for i in range(n)]
    return np.array([*table, [None] * k], dtype=object)[:-1]


@st.composite
def with_held(draw: Draw, instance: Instance) -> Instance:
    """``instance`` with GPUs that its entities hold now, some of all there are."""
    return instance.replace(held=(draw(shares(instance)) * instance.entities().demand[:, None]).astype(float))


@st.composite
def linear_programs(
    draw: Draw, *, columns: tuple[int, int] = (1, 5), rows: tuple[int, int] = (0, 6), integer: bool = False
) -> LinearProgram:
    """A feasible, bounded linear (or integer) program with small numbers: rows of every kind, boxes of every place.

    Feasible, since every row holds at one whole point of the box; bounded, since the box is.
    """
    n, m = draw(st.integers(*columns)), draw(st.integers(*rows))
    number = st.integers(-6, 6).map(lambda v: v / 2)
    low = np.array([draw(st.integers(-3, 2)) for _ in range(n)], dtype=float)
    wide = np.array([draw(st.integers(0, 4)) for _ in range(n)], dtype=float)
    point = low + [draw(st.integers(0, int(w))) for w in wide]
    matrix = np.array([[draw(number) for _ in range(n)] for _ in range(m)], dtype=float).reshape(m, n)
    slack = st.one_of(st.just(np.inf), st.just(0.0), st.integers(0, 4).map(float))
    whole = [draw(st.booleans()) for _ in range(n)] if integer else [False] * n
    return LinearProgram(
        c=np.array([draw(number) for _ in range(n)], dtype=float),
        A=sparse.csc_array(matrix),
        row_lower=matrix @ point - [draw(slack) for _ in range(m)],
        row_upper=matrix @ point + [draw(slack) for _ in range(m)],
        col_lower=low,
        col_upper=low + wide,
        integer=np.array(whole, dtype=bool),
        row_names=[f"row[{i}]" for i in range(m)],
        col_names=[f"x[{j}]" for j in range(n)],
        offset=float(draw(st.integers(-2, 2))),
    )
