"""Pareto efficiency against all allocations: by a linear program in floats, and by two methods in rational numbers.

Where time is not limited, without any solver. An allocation x of divisible GPUs with rates ``v[e].x[e]`` is
Pareto-efficient iff three changes are impossible:

1. give an unused GPU of some type to an entity that can use it;
2. give GPUs that are worthless to their holder to an entity that can use them;
3. trade in a ring of types: each holder e of a type k exchanges some of it for the next type k', worth
   ``v[e, k'] / v[e, k]`` as much to it. If the product of these ratios is above 1, all keep their rates and the last
   holder gains.

Let ``r[k, k']`` be the largest ratio among the holders of k. Without a ring above 1 the largest products of ratios
``p[k']`` over all paths to k' are finite, and they are prices: ``p[k'] >= p[k] v[e, k'] / v[e, k]`` for each holder e
of k. With ``weights[e] = min_k p[k] / v[e, k]`` the allocation maximises the weighted sum of rates, all weights being
positive, so no allocation dominates it. This is weak duality; the three cases show the converse.

Where gangs run at most all the time, by a linear program. With g[e] >= 0 the gain of e beyond its present rate,
maximise ``sum_e c[e] g[e]``, c > 0, subject to

    sum_k v[e, k] x[e, k] - g[e] >= rate[e],   sum_e x[e, k] <= m[k],   sum_k x[e, k] <= most[e],   x >= 0.

All numbers of the rows are fractions, and so is the optimum. For any c, an optimum of 0 proves that no entity can gain
without a loss to others; a positive one is a witness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from hetopt.auditing.audited_holdings import Holdings, Result, bundle, holdings
from hetopt.auditing.feasibility import capacity_verdict
from hetopt.auditing.verdict import AuditProperty, Dominated, Level, SupportingPrices, Verdict, judged, undecided
from hetopt.data.array_types import Floats, Numbers
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.exact import ExactData, exact_optimum
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.rational_program import ExactRow, ratio
from hetopt.tolerances import EQUAL


def pareto_efficient(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    tolerance: float = EQUAL,
    demand_limited: bool | None = None,
) -> Verdict:
    """Pareto efficiency: no allocation gives some entities more and none less [OEF, section 2.3.1 (4)].

    With y[e, k] the part of type k that e would get and a[e, k] = w[e, k] m[k] / (w[e].m), where w[e].m is e's rate
    with the whole cluster, maximise the total gain

        sum_ek a[e, k] y[e, k] - sum_e rate[e] / (w[e].m)
        subject to  sum_k a[e, k] y[e, k] >= rate[e] / (w[e].m),   sum_e y[e, k] <= 1,   y >= 0.

    Slack: minus that gain, so at most 0. The policy that made the result does not limit y; a gang runs at most all the
    time, ``sum_k m[k] y[e, k] <= demand[e]``.

    Parameters
    ----------
    instance, result, exact, tolerance, demand_limited:
        As in :func:`~hetopt.auditing.fairness.envy_free`. In exact mode the answer is a proof either way, and a
        negative slack is the gain of the trade found, not of the best.
    level:
        ``"job type"`` or ``"free reuse"``; after an even split a rate is no longer a function of the GPUs held.

    Returns
    -------
    Verdict
        Its witness is a :class:`~hetopt.auditing.verdict.Dominated`. Undecided where the audited result itself
        exceeds the capacity, so that it cannot be compared with allocations that do not.

    Raises
    ------
    InvalidOption
        ``level="even split"``.
    """
    if level == "even split":
        raise InvalidOption("Pareto efficiency is judged at level 'job type' or 'free reuse', not 'even split'")
    held = holdings(instance, result, level=level, exact=exact, demand_limited=demand_limited)
    return pareto_verdict(held, tolerance)


def pareto_verdict(held: Holdings, tolerance: float = EQUAL) -> Verdict:
    """:func:`pareto_efficient` of holdings already read."""
    return replace(_judged(held, tolerance), level=held.level)


def _judged(held: Holdings, tolerance: float) -> Verdict:
    capacity = capacity_verdict(held, tolerance)
    if not capacity.holds:
        return undecided(AuditProperty.PARETO_EFFICIENT, f"the allocation itself is not possible: {capacity.explain()}")
    if not (held.per_gpu * held.capacity > 0).any():  # no entity can use any GPU
        return judged(AuditProperty.PARETO_EFFICIENT, held.zero, Dominated({}, {}, {}), tolerance=tolerance)
    if held.exact:
        return exact_efficiency(held) if held.most is None else exact_efficiency_in_time(held)
    held = _shrunk(held)
    try:
        y = _largest_gain(held)
    except NotSolved as problem:
        return undecided(AuditProperty.PARETO_EFFICIENT, f"its linear program was not solved: {problem}")
    return judged_by_gain(held, y * held.capacity, tolerance)


def _shrunk(held: Holdings) -> Holdings:
    """The holdings without overuse within the tolerance, so that they are feasible for the program."""
    gpus: Numbers = np.maximum(held.gpus, 0)
    used = gpus.sum(axis=0)
    gpus = gpus * np.where(used > held.capacity, held.capacity / np.where(used > 0, used, 1), 1)
    return replace(held, gpus=gpus, rate=held.rate_with(gpus))


def _largest_gain(held: Holdings) -> Floats:
    """(n, k) parts of types in the allocation with the largest total gain."""
    n, k = held.per_gpu.shape
    worth = held.per_gpu * held.capacity / held.cluster_rate[:, None]
    row, col = np.nonzero(worth)
    columns = np.arange(len(row))
    blocks = [(row, worth[row, col]), (n + col, np.ones(len(row)))]
    lower, upper = [held.rate / held.cluster_rate, np.full(k, -np.inf)], [np.full(n, np.inf), np.ones(k)]
    if held.most is not None:
        blocks.append((n + k + row, held.capacity[col] / held.most[row]))
        lower.append(np.full(n, -np.inf))
        upper.append(np.ones(n))
    index = (np.concatenate([r for r, _ in blocks]), np.tile(columns, len(blocks)))
    row_lower, row_upper = np.concatenate(lower), np.concatenate(upper)
    matrix = sparse.coo_array((np.concatenate([v for _, v in blocks]), index), shape=(len(row_lower), len(row)))
    program = LinearProgram.of(worth[row, col], matrix, row_lower, row_upper, col_upper=1.0)
    y = np.zeros((n, k))
    y[row, col] = np.maximum(Session(program).solve().x, 0)
    return y


def judged_by_gain(held: Holdings, gpus: Numbers, tolerance: float = 0.0) -> Verdict:
    """The verdict from the gain in the (n, k) allocation ``gpus``, in which no entity loses."""
    after = held.rate_with(gpus)
    gain = sum(((after - held.rate) / held.cluster_rate).tolist(), held.zero)
    if not held.exact:
        gain = max(0.0, gain)  # rounding
    witness = Dominated(
        bundles={name: bundle(held.types, row) for name, row in zip(held.names, gpus, strict=True)},
        before=dict(zip(held.names, held.rate.tolist(), strict=True)),
        after=dict(zip(held.names, np.maximum(after, held.rate).tolist(), strict=True)),
    )
    return judged(AuditProperty.PARETO_EFFICIENT, -gain, witness, tolerance=tolerance)


def exact_efficiency_in_time(held: Holdings) -> Verdict:
    """Decide Pareto efficiency of holdings in Fractions that respect capacity, where ``held.most`` is not None."""
    program = _program(held)
    try:
        optimum = exact_optimum(Session(program, Options(method="simplex")).solve(), known=_ExactRates(held))
    except NotSolved as problem:
        return undecided(AuditProperty.PARETO_EFFICIENT, f"its linear program was not solved: {problem}")
    assert optimum.share is not None
    return judged_by_gain(held, optimum.share)


class _ExactRates(ExactData):
    """The rows of rates in fractions; the other rows have no rounded numbers."""

    def __init__(self, held: Holdings) -> None:
        self.held = held

    def rows(self, names: Collection[str]) -> Mapping[str, ExactRow]:
        """All rows ``keeps[e]``."""
        n, k = self.held.per_gpu.shape
        minus_one = ratio(Fraction(-1))
        return {
            f"keeps[{e}]": ExactRow(
                [*((e * k + j, ratio(v)) for j, v in enumerate(row) if v), (n * k + e, minus_one)],
                ratio(self.held.rate[e]),
                None,
            )
            for e, row in enumerate(self.held.per_gpu.tolist())
        }


def _program(held: Holdings) -> LinearProgram:
    """Columns x[e, k] and gain[e], in floats."""
    assert held.most is not None
    n, k = held.per_gpu.shape
    value, cells = held.per_gpu.astype(float), np.arange(n * k)
    e, j = np.divmod(cells, k)
    row = np.concatenate([e, np.arange(n), n + j, n + k + e])
    column = np.concatenate([cells, n * k + np.arange(n), cells, cells])
    entry = np.concatenate([value.ravel(), np.full(n, -1.0), np.ones(2 * n * k)])
    matrix = sparse.coo_array((entry, (row, column)), shape=(2 * n + k, n * k + n))
    rate, gpus, most = (array.astype(float) for array in (held.rate, held.capacity, held.most))
    return LinearProgram.of(
        np.concatenate([np.zeros(n * k), 1.0 / held.cluster_rate.astype(float)]),
        matrix,
        np.concatenate([rate, np.full(k + n, -np.inf)]),
        np.concatenate([np.full(n, np.inf), gpus, most]),
        col_upper=np.concatenate([np.where(value > 0, np.inf, 0.0).ravel(), np.full(n, np.inf)]),
        row_names=[f"{row}[{i}]" for row, size in (("keeps", n), ("capacity", k), ("time", n)) for i in range(size)],
        col_names=[*(f"x[{e},{j}]" for e in range(n) for j in range(k)), *(f"gain[{e}]" for e in range(n))],
        share=np.arange(n * k).reshape(n, k),
    )


def exact_efficiency(held: Holdings) -> Verdict:
    """Decide Pareto efficiency of holdings in Fractions that respect capacity."""
    better = _handed_out(held)
    if better is None:
        prices = _prices(held)
        if isinstance(prices, SupportingPrices):
            return judged(AuditProperty.PARETO_EFFICIENT, Fraction(0), prices, proof=prices)
        better = _trade(held, prices)
    return judged_by_gain(held, better)


def _handed_out(held: Holdings) -> Any:
    """The allocation with unused and useless GPUs given to the entities that gain most; None if there are none."""
    better, found = held.gpus.copy(), False
    for k in range(len(held.types)):
        worth = held.per_gpu[:, k] / held.cluster_rate
        if not (worth > 0).any():
            continue
        best = int(worth.argmax())
        useless = np.flatnonzero((held.per_gpu[:, k] == 0) & (held.gpus[:, k] > 0))
        spare = held.capacity[k] - held.gpus[:, k].sum() + held.gpus[useless, k].sum()
        if spare > 0:
            better[useless, k] = Fraction(0)
            better[best, k] += spare
            found = True
    return better if found else None


def _prices(held: Holdings) -> SupportingPrices | list[tuple[int, int]]:
    """Prices that prove efficiency, or a ring of (type, holder that gives it), in the order of the trade."""
    k = len(held.types)
    ratio, holder = _ratios(held)
    price, before = [Fraction(1)] * k, [-1] * k
    changed = -1
    for _ in range(k + 1):
        changed = -1
        for i in range(k):
            for j in range(k):
                if price[i] * ratio[i][j] > price[j]:
                    price[j], before[j], changed = price[i] * ratio[i][j], i, j
        if changed < 0:
            break
    if changed >= 0:
        return [(i, holder[i][j]) for i, j in _ring(before, changed)]
    for j in range(k):
        if not (held.per_gpu[:, j] > 0).any():
            price[j] = Fraction(0)  # no entity can use it
    return _supporting_prices(held, price)


def _ratios(held: Holdings) -> tuple[list[list[Fraction]], list[list[int]]]:
    """ratio[i][j]: the largest v[e, j] / v[e, i] among holders e of type i (0: none); holder[i][j]: that e."""
    k = len(held.types)
    ratio, holder = [[Fraction(0)] * k for _ in range(k)], [[-1] * k for _ in range(k)]
    for e, i in np.argwhere((held.gpus > 0) & (held.per_gpu > 0)).tolist():
        for j in range(k):
            worth = held.per_gpu[e, j] / held.per_gpu[e, i]
            if i != j and worth > ratio[i][j]:
                ratio[i][j], holder[i][j] = worth, e
    return ratio, holder


def _ring(before: list[int], start: int) -> list[tuple[int, int]]:
    """The ring of types in the tree of predecessors, as pairs (type given, type received)."""
    node = start
    for _ in before:
        node = before[node]
    ring, j = [], node
    while True:
        ring.append((before[j], j))
        j = before[j]
        if j == node:
            return ring[::-1]


def _trade(held: Holdings, ring: list[tuple[int, int]]) -> Any:
    """The allocation after the largest trade around ``ring`` in which only the last holder's rate changes."""
    types, givers = [i for i, _ in ring], [e for _, e in ring]
    amount = [Fraction(1)]
    for (i, e), j in zip(ring[:-1], types[1:], strict=True):
        amount.append(amount[-1] * held.per_gpu[e, i] / held.per_gpu[e, j])
    size = min(held.gpus[e, i] / a for (i, e), a in zip(ring, amount, strict=True))
    better = held.gpus.copy()
    for place, (i, e) in enumerate(ring):
        better[e, i] -= size * amount[place]
        better[givers[place - 1], i] += size * amount[place]
    return better


def _supporting_prices(held: Holdings, price: list[Fraction]) -> SupportingPrices:
    weights = {}
    for e, name in enumerate(held.names):
        bids = [price[k] / v for k, v in enumerate(held.per_gpu[e].tolist()) if v > 0]
        weights[name] = min(bids, default=Fraction(1))  # any weight for an entity that can use no GPU
    return SupportingPrices(dict(zip(held.types, price, strict=True)), weights)
