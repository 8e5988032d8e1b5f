"""Pareto efficiency against all allocations: by a linear program, and in rational numbers also by prices.

In rational numbers, where time is not limited, efficiency is decided without any solver. An allocation x of divisible
GPUs with rates ``v[e].x[e]`` is Pareto-efficient iff three changes are impossible:

1. give an unused GPU of some type to an entity that can use it;
2. give GPUs that are useless to their holder to an entity that can use them;
3. trade in a ring of types: each holder e of a type k exchanges some of it for the next type k' at its marginal rate of
   substitution ``v[e, k'] / v[e, k]``, which keeps its rate. If the product of these ratios is above 1, all keep their
   rates and the last holder gains.

Let ``r[k, k']`` be the largest ratio among the holders of k. Without a ring above 1 the largest products of ratios
``p[k']`` over all paths to k' are finite, and they are prices: ``p[k'] >= p[k] v[e, k'] / v[e, k]`` for each holder e
of k. With ``weights[e] = min_k p[k] / v[e, k]`` the allocation maximises the weighted sum of rates, all weights being
positive, so no allocation dominates it. This is weak duality; the three cases show the converse.

Otherwise, in floats, and where gangs run at most all the time, the linear program of :func:`pareto_efficient` gives the
slack and the witness. In rational numbers its optimum is exact, and an optimum of 0 proves efficiency.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction

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
        As in :func:`~hetopt.auditing.fairness.envy_free`. In exact mode the answer is a proof either way.
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
    if held.exact and held.most is None and (prices := supporting_prices(held)) is not None:
        return judged(AuditProperty.PARETO_EFFICIENT, Fraction(0), prices, proof=prices)
    held = held if held.exact else _shrunk(held)
    try:
        gpus = _largest_gain(held)
    except NotSolved as problem:
        return undecided(AuditProperty.PARETO_EFFICIENT, f"its linear program was not solved: {problem}")
    return _by_gain(held, gpus, tolerance)


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


def _by_gain(held: Holdings, gpus: Numbers, tolerance: float = 0.0) -> Verdict:
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


def supporting_prices(held: Holdings) -> SupportingPrices | None:
    """Prices that prove the efficiency of holdings in Fractions that respect capacity; None if they are inefficient."""
    if _wastes(held):
        return None
    k = len(held.types)
    rate = _substitution_rates(held)
    price = [Fraction(1)] * k
    for _ in range(k):
        before = list(price)
        for i in range(k):
            for j in range(k):
                price[j] = max(price[j], price[i] * rate[i][j])
        if price == before:
            break
    else:  # a ring of types with a product above 1
        return None
    for j in range(k):
        if not (held.per_gpu[:, j] > 0).any():
            price[j] = Fraction(0)  # no entity can use it
    weights = {}
    for e, name in enumerate(held.names):
        bids = [price[j] / v for j, v in enumerate(held.per_gpu[e].tolist()) if v > 0]
        weights[name] = min(bids, default=Fraction(1))  # any weight for an entity that can use no GPU
    return SupportingPrices(dict(zip(held.types, price, strict=True)), weights)


def _wastes(held: Holdings) -> bool:
    """Whether GPUs of a type that some entity can use are unused, or useless to their holder."""
    useful = (held.per_gpu > 0).any(axis=0)
    working = (held.gpus * (held.per_gpu > 0)).sum(axis=0)
    return bool((useful & (working < held.capacity)).any())


def _substitution_rates(held: Holdings) -> list[list[Fraction]]:
    """rate[i][j]: the largest v[e, j] / v[e, i] among holders e of type i; 0 if there are none, or if i = j."""
    k = len(held.types)
    rate = [[Fraction(0)] * k for _ in range(k)]
    for e, i in np.argwhere((held.gpus > 0) & (held.per_gpu > 0)).tolist():
        for j in range(k):
            if i != j:
                rate[i][j] = max(rate[i][j], held.per_gpu[e, j] / held.per_gpu[e, i])
    return rate
