"""Pareto efficiency against all allocations: by a linear program, and in rational numbers by prices or trades.

In rational numbers, where time is not limited, without any solver. An allocation x of divisible GPUs with rates
``v[e].x[e]`` is Pareto-efficient iff three changes are impossible:

1. give an unused GPU of some type to an entity that can use it;
2. give GPUs that are useless to their holder to an entity that can use them;
3. trade in a ring of types: each holder e of a type k exchanges some of it for the next type k' at its marginal rate of
   substitution ``v[e, k'] / v[e, k]``, which keeps its rate. If the product of these ratios is above 1, all keep their
   rates and the last holder gains.

Let ``r[k, k']`` be the largest ratio among the holders of k. Without a ring above 1 the largest products of ratios
``p[k']`` over all paths to k' are finite, and they are prices: ``p[k'] >= p[k] v[e, k'] / v[e, k]`` for each holder e
of k. With ``weights[e] = min_k p[k] / v[e, k]`` the allocation maximises the weighted sum of rates, all weights being
positive, so no allocation dominates it. This is weak duality; the three cases show the converse.

In floats, and where gangs run at most all the time, by the linear program of :func:`pareto_efficient`. In rational
numbers an optimum of 0 proves that no entity can gain without a loss to others; a positive one is a witness.
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
from hetopt.data.array_types import Numbers
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, NotSolved
from hetopt.programs.linear import LinearProgram, Objective
from hetopt.solving.exact import ExactData, exact_optimum
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.rational.kernel import Rational
from hetopt.solving.rational.program import ExactRow, ratio, read
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
    if held.exact and held.most is None:
        return exact_efficiency(held)
    held = held if held.exact else _shrunk(held)
    try:
        gpus = _largest_gain(held)
    except NotSolved as problem:
        return undecided(AuditProperty.PARETO_EFFICIENT, f"its linear program was not solved: {problem}")
    return judged_by_gain(held, gpus, tolerance)


def _shrunk(held: Holdings) -> Holdings:
    """The holdings without overuse within the tolerance, so that they are feasible for the program."""
    gpus: Numbers = np.maximum(held.gpus, 0)
    used = gpus.sum(axis=0)
    gpus = gpus * np.where(used > held.capacity, held.capacity / np.where(used > 0, used, 1), 1)
    return replace(held, gpus=gpus, rate=held.rate_with(gpus))


def _largest_gain(held: Holdings) -> Numbers:
    """(n, k) GPUs in the allocation with the largest total gain."""
    program = _GainProgram(held)
    y: Numbers = np.full(held.per_gpu.shape, held.zero)
    if held.exact:
        point = Session(program.in_floats(), Options(method="simplex")).solve()
        y[program.pairs] = exact_optimum(point, known=program).x
    else:
        y[program.pairs] = np.maximum(Session(program.in_floats()).solve().x, 0)
    return y * held.capacity


class _GainProgram(ExactData):
    """The program of :func:`pareto_efficient` without its constant, in the numbers of ``held``.

    Attributes
    ----------
    pairs:
        Entity and GPU type of each column ``y[e, k]``: those of which e can use k.
    gain:
        (columns,) ``a[e, k]``.
    row, column, value:
        Entries of the matrix. Its rows are those of rates, of capacity and, with a limit, of time.
    least:
        (n,) lower bounds of the rows of rates; the other rows have the upper bound 1.
    """

    def __init__(self, held: Holdings) -> None:
        n, k = held.per_gpu.shape
        part = held.per_gpu * held.capacity / held.cluster_rate[:, None]
        self.pairs = e, j = np.nonzero(part)
        self.gain, self.least = part[e, j], held.rate / held.cluster_rate
        self.size = n + k if held.most is None else n + k + n
        blocks = [(e, self.gain), (n + j, np.full(len(e), held.one))]
        if held.most is not None:
            blocks.append((n + k + e, held.capacity[j] / held.most[e]))
        self.row, self.value = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        self.column = np.tile(np.arange(len(e)), len(blocks))

    def in_floats(self) -> LinearProgram:
        """The program for solvers."""
        n, rest = len(self.least), self.size - len(self.least)
        entries = (self.value.astype(float), (self.row, self.column))
        return LinearProgram.of(
            self.gain.astype(float),
            sparse.coo_array(entries, shape=(self.size, len(self.gain))),
            np.concatenate([self.least.astype(float), np.full(rest, -np.inf)]),
            np.concatenate([np.full(n, np.inf), np.ones(rest)]),
            col_upper=1.0,
        )

    def rows(self, names: Collection[str]) -> Mapping[str, ExactRow]:
        """All rows."""
        entries: list[list[tuple[int, Rational]]] = [[] for _ in range(self.size)]
        for i, j, value in zip(self.row.tolist(), self.column.tolist(), read(self.value), strict=True):
            entries[i].append((j, value))
        n, rest = len(self.least), self.size - len(self.least)
        lower, upper = [*read(self.least), *[None] * rest], [*[None] * n, *[ratio(Fraction(1))] * rest]
        return {f"row[{i}]": ExactRow(*row) for i, row in enumerate(zip(entries, lower, upper, strict=True))}

    def cost(self, objective: Objective) -> list[Rational]:
        """The gains."""
        return read(self.gain)


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
        gain = held.per_gpu[:, k] / held.cluster_rate
        if not (gain > 0).any():
            continue
        best = int(gain.argmax())
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
    rate, holder = _substitution_rates(held)
    price, before = [Fraction(1)] * k, [-1] * k
    changed = -1
    for _ in range(k + 1):
        changed = -1
        for i in range(k):
            for j in range(k):
                if price[i] * rate[i][j] > price[j]:
                    price[j], before[j], changed = price[i] * rate[i][j], i, j
        if changed < 0:
            break
    if changed >= 0:
        return [(i, holder[i][j]) for i, j in _ring(before, changed)]
    for j in range(k):
        if not (held.per_gpu[:, j] > 0).any():
            price[j] = Fraction(0)  # no entity can use it
    return _supporting_prices(held, price)


def _substitution_rates(held: Holdings) -> tuple[list[list[Fraction]], list[list[int]]]:
    """rate[i][j]: the largest v[e, j] / v[e, i] among holders e of type i (0: none); holder[i][j]: that e."""
    k = len(held.types)
    rate, holder = [[Fraction(0)] * k for _ in range(k)], [[-1] * k for _ in range(k)]
    for e, i in np.argwhere((held.gpus > 0) & (held.per_gpu > 0)).tolist():
        for j in range(k):
            own = held.per_gpu[e, j] / held.per_gpu[e, i]
            if i != j and own > rate[i][j]:
                rate[i][j], holder[i][j] = own, e
    return rate, holder


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
