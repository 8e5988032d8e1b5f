"""Pareto efficiency in rational numbers where gangs run at most all the time, by a linear program of its own.

With g[e] >= 0 the gain of e beyond its rate now, maximise ``sum_e c[e] g[e]``, c > 0, subject to

    sum_k v[e, k] x[e, k] - g[e] >= rate[e],   sum_e x[e, k] <= m[k],   sum_k x[e, k] <= most[e],   x >= 0.

All numbers of the rows are fractions, and so is the optimum: 0 proves that nobody can gain without a loss to others,
whatever the c. More is a witness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

import numpy as np
from scipy import sparse

from hetopt.auditing.holdings import Holdings, bundle
from hetopt.auditing.verdict import Verdict, judged, undecided
from hetopt.auditing.witnesses import Dominated
from hetopt.data.entities import Numbers
from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.exact import ExactData, exact_optimum
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.rational_program import ExactRow, ratio

NAME = "pareto_efficient"


def exact_efficiency_in_time(held: Holdings) -> Verdict:
    """Decide Pareto efficiency of holdings in Fractions that respect capacity; ``held.most`` is not None."""
    program = _program(held)
    try:
        optimum = exact_optimum(Session(program, Options(method="simplex")).solve(), known=_ExactRates(held))
    except NotSolved as problem:
        return undecided(NAME, f"its linear program was not solved: {problem}")
    assert optimum.share is not None
    return judged_by_gain(held, optimum.share)


def judged_by_gain(held: Holdings, gpus: Numbers, tolerance: float = 0.0) -> Verdict:
    """Judge by the gain measured on the allocation ``gpus``, (n, k), in which no entity loses."""
    after = held.worth(gpus)
    gain = sum(((after - held.rate) / held.whole).tolist(), held.zero)
    if not held.exact:
        gain = max(0.0, gain)  # rounding
    witness = Dominated(
        bundles={name: bundle(held.types, row) for name, row in zip(held.names, gpus, strict=True)},
        before=dict(zip(held.names, held.rate.tolist(), strict=True)),
        after=dict(zip(held.names, np.maximum(after, held.rate).tolist(), strict=True)),
    )
    return judged(NAME, -gain, witness, tolerance=tolerance)


class _ExactRates(ExactData):
    """The rows of rates in fractions; the others have no rounded numbers."""

    def __init__(self, held: Holdings) -> None:
        self.held = held

    def rows(self, names: Collection[str]) -> Mapping[str, ExactRow]:
        """All rows ``keeps[e]``."""
        n, k = self.held.value.shape
        minus_one = ratio(Fraction(-1))
        return {
            f"keeps[{e}]": ExactRow(
                [*((e * k + j, ratio(v)) for j, v in enumerate(row) if v), (n * k + e, minus_one)],
                ratio(self.held.rate[e]),
                None,
            )
            for e, row in enumerate(self.held.value.tolist())
        }


def _program(held: Holdings) -> LinearProgram:
    """Columns x[e, k] and gain[e], in floats."""
    assert held.most is not None
    n, k = held.value.shape
    value, cells = held.value.astype(float), np.arange(n * k)
    e, j = np.divmod(cells, k)
    row = np.concatenate([e, np.arange(n), n + j, n + k + e])
    column = np.concatenate([cells, n * k + np.arange(n), cells, cells])
    entry = np.concatenate([value.ravel(), np.full(n, -1.0), np.ones(2 * n * k)])
    matrix = sparse.coo_array((entry, (row, column)), shape=(2 * n + k, n * k + n))
    rate, gpus, most = (array.astype(float) for array in (held.rate, held.capacity, held.most))
    return LinearProgram.of(
        np.concatenate([np.zeros(n * k), 1.0 / held.whole.astype(float)]),
        matrix,
        np.concatenate([rate, np.full(k + n, -np.inf)]),
        np.concatenate([np.full(n, np.inf), gpus, most]),
        col_upper=np.concatenate([np.where(value > 0, np.inf, 0.0).ravel(), np.full(n, np.inf)]),
        row_names=[f"{row}[{i}]" for row, size in (("keeps", n), ("capacity", k), ("time", n)) for i in range(size)],
        col_names=[*(f"x[{e},{j}]" for e in range(n) for j in range(k)), *(f"gain[{e}]" for e in range(n))],
        share=np.arange(n * k).reshape(n, k),
    )
