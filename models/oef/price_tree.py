"""Balancing of divisible work over k types: a long-step dual simplex on the k prices and a tree of ties.

**Program.** Tenant e has one unit of work, which takes the time t[e, j] > 0 on type j (infinite: it cannot run there),
and puts the part z[e, j] of it there. The busiest type is to finish as early as possible:

    least T:  sum_e t[e, j] z[e, j] <= T for each type j,  sum_j z[e, j] = 1 for each tenant e,  z >= 0.

Any prices p >= 0 of the types, not all 0, bound T from below (weak duality): no part of the work of e costs less than
on its cheapest type, so that

    T sum_j p[j]  >=  sum_e sum_j p[j] t[e, j] z[e, j]  >=  sum_e min_j p[j] t[e, j].

**Money.** Tenant e pays the money y[e, j] = p[j] t[e, j] z[e, j] to type j. If tenants pay only their cheapest types,
and each type receives the same *level* T per price, both inequalities are equations: z and p are optimal. So money
flows through a network from tenants to types, and prices decide which arcs it has.

**Basis.** All but a few tenants have one cheapest type. A tenant with several is *tied* to them. The ties form a tree
over the types and the tied tenants, so that the money on each tie follows from the leaves inwards. With m tied tenants
it has k + m - 1 ties, and each other tenant uses one type: z has at most n + k - 1 positive entries, it is a vertex.

**Step.** If the money on the tie of e to type i is negative, the step removes this tie. The tree falls into the types S
with i, whose tenants pay more than S is due, and the types N with e. Let the prices of S rise by a factor s. A tenant
of S that pays a[e] there, and would pay b[e] on N, stays until s = r[e] = b[e] / a[e]. The bound

    (sum_e min(s a[e], b[e]) + C(N)) / (s P(S) + P(N)),    C(N): money of the tenants of N, P: sum of prices,

rises with s as long as  P(N) sum_{r[e] > s} a[e]  >  P(S) (sum_{r[e] <= s} b[e] + C(N)).  The left side falls and the
right side rises. So the step sorts the ratios and goes to the tenant at which the sign changes (a *long step* past many
tenants, which move to N). A tie of that tenant to N makes a tree again. If a tied tenant of S comes first, the step
ends there, because the tenant would lose its tie within S. At the start no tenant is tied, and each step connects those
types that are furthest from what they are due to the rest.

**Layers.** If tenants that cannot run on N keep S busy for longer than all others keep N, no ratio ends the step: in
relation to those of S, the prices of N are 0. Then S and N become two *layers*, S above N, each with its own prices and
its own tree. A tenant belongs to the lowest layer on which it can run. Once no layer has a higher level than the first,
that level is T: the prices of the first layer, and 0 for all other types, prove it. If a layer has a higher level than
the first, one such layer has a higher level than the layer above it, and gives work to it: a step that begins at s = 0.
If no ratio ends this step either, the two layers change places.

**Termination.** Each step raises the levels of the layers, compared lexicographically from the first. Within a layer,
its level is the bound, which rises. Where a layer joins the layer above it, or they change places, the level of the
upper one rises, and those further up stay. The basis determines the levels, so none occurs twice. The rise is strict
unless an untied tenant has two cheapest types, which a random perturbation of the times by
:data:`~hetopt.tolerances.GENERIC` makes almost impossible, or unless the step connects types that were already paid
what they are due, which happens at most k - 1 times. The type of an untied tenant is part of the basis and changes by
steps alone, so that rounded costs never contradict the order of the ratios.

The caller proves the result from prices, split and true times alone. What remains of the perturbation is a gap of about
its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats, Positions
from hetopt.solving.options import Options
from hetopt.tolerances import GENERIC

STEPS = 1000
"""Limit of steps per type; known markets take at most 30. It is an end even if rounding leads in circles."""

Types = NDArray[np.bool_]
"""(k,) a set of types."""

Cut = tuple[Types, Types]
"""The types whose prices rise, and those to which their tenants may move."""


@dataclass(frozen=True, eq=False)
class Balanced:
    """Work split over types, (n, k), the prices that prove it, (k,) with sum 1, and the number of steps."""

    split: Floats
    prices: Floats
    steps: int


def balance(time_on: Floats, options: Options) -> Balanced:
    """Split the work of n tenants over k types so that the busiest type finishes as early as possible.

    Parameters
    ----------
    time_on:
        (n, k) time that the whole work of a tenant takes on a type, > 0; infinite where it cannot run. Every tenant can
        run somewhere.
    options:
        Only the time limit is used.

    Returns
    -------
    Balanced
        ``split`` is a vertex: at most n + k - 1 entries are nonzero. At the time limit it is feasible, not optimal.
    """
    noise = np.random.default_rng(0).random(time_on.shape)
    basis = _Basis(time_on * (1 + GENERIC * noise))
    steps = 0
    while steps < STEPS * time_on.shape[1] and options.left != 0 and (cut := basis.cut()) is not None:
        basis.raise_prices(*cut)
        steps += 1
    return Balanced(basis.split(), basis.prices(), steps)


def busiest(time_on: Floats, split: Floats) -> float:
    """Time at which the last type finishes."""
    return float(np.einsum("ej,ej->j", np.where(split > 0, time_on, 0.0), split).max())


def start_prices(time_on: Floats) -> Floats:
    """(k,) prices at which a type costs its tenants, in the geometric mean, as much as the fastest type of each."""
    able = np.isfinite(time_on)
    slower = np.log(np.where(able, time_on / time_on.min(axis=1, keepdims=True), 1.0)).sum(axis=0)
    return np.asarray(np.exp(-slower / np.maximum(able.sum(axis=0), 1)))


class _Basis:
    """Prices, layers, the type of each tenant, and ties.

    Attributes
    ----------
    time:
        (k, n) time of each tenant's work on each type.
    price:
        (k,) > 0; comparable within a layer.
    layer:
        (k,) 0, 1, … from the top.
    on:
        (n,) type of each tenant; for a tied one, the first of its types.
    own:
        (n,) time there.
    ties:
        Tied tenant -> two or more types.
    tied:
        (n,) whether a tenant is a key of ``ties``.
    """

    def __init__(self, time_on: Floats) -> None:
        n, self.k = time_on.shape
        self.time = np.ascontiguousarray(time_on.T)
        self.price = start_prices(time_on)
        self.layer = np.zeros(self.k, dtype=np.intp)
        self.on = (time_on * self.price).argmin(axis=1)
        self.own = time_on[np.arange(n), self.on]
        self.ties: dict[int, list[int]] = {}
        self.tied = np.zeros(n, dtype=bool)

    def prices(self) -> Floats:
        """(k,) prices with sum 1; 0 below the first layer."""
        first = np.where(self.layer == 0, self.price, 0.0)
        return np.asarray(first / first.sum())

    def split(self) -> Floats:
        """(n, k) part of each tenant's work on each type."""
        n, tied = len(self.on), list(self.ties)
        part = np.zeros((n, self.k))
        part[np.arange(n), self.on] = 1.0
        for e, j, money in self._money(*self._accounts()):
            part[e, j] = max(money, 0.0)
        part[tied] /= part[tied].sum(axis=1, keepdims=True)
        return part

    # Which prices rise

    def cut(self) -> Cut | None:
        """The cut of the next step; None at the optimum. A tie with negative money is removed."""
        cost, due = self._accounts()
        return self._unconnected(cost, due) or self._negative(cost, due) or self._too_low(due)

    def _accounts(self) -> tuple[Floats, Floats]:
        """(n,) money of each tenant, and (k,) money that each type is due at the level of its layer."""
        cost = self.own * self.price[self.on]
        level = np.bincount(self.layer[self.on], cost, self.layer.max() + 1) / np.bincount(self.layer, self.price)
        return cost, self.price * level[self.layer]

    def _unconnected(self, cost: Floats, due: Floats) -> Cut | None:
        """The connected types that are furthest from what they are due, and the rest of their layer, or vice versa."""
        part = self._parts()
        several = np.bincount(self.layer[np.unique(part)])[self.layer] > 1
        if not several.any():
            return None
        excess = np.bincount(part, np.bincount(self.on, cost, self.k) - due, self.k)[part]
        furthest = int(np.where(several, np.abs(excess), -1.0).argmax())
        these = part == part[furthest]
        rest = (self.layer == self.layer[furthest]) & ~these
        return (these, rest) if excess[furthest] >= 0 else (rest, these)

    def _negative(self, cost: Floats, due: Floats) -> Cut | None:
        """The two sides of the tie with the most negative money, that of its type first; removes the tie."""
        negative = [(money, e, j) for e, j, money in self._money(cost, due) if money < -GENERIC * due[j]]
        if not negative:
            return None
        _, e, j = min(negative)
        self._untie(e, j)
        part = self._parts()
        these = part == part[j]
        return these, (self.layer == self.layer[j]) & ~these

    def _too_low(self, due: Floats) -> Cut | None:
        """The highest layer with a higher level than the first, and the layer above it."""
        level = (due / self.price)[np.unique(self.layer, return_index=True)[1]]
        higher = np.flatnonzero(level > level[0] * (1 + GENERIC))
        return (self.layer == higher[0], self.layer == higher[0] - 1) if len(higher) else None

    def _parts(self) -> Positions:
        """(k,) a number for each type, the same for types that ties connect: that of one of them."""
        part = list(range(self.k))
        for first, *others in self.ties.values():
            for j in others:
                old, new = part[j], part[first]
                part = [new if number == old else number for number in part]
        return np.array(part)

    def _money(self, cost: Floats, due: Floats) -> Iterator[tuple[int, int, float]]:
        """(tenant, type, money) for each tie, from the leaves inwards."""
        open_ = (due - np.bincount(self.on, np.where(self.tied, 0.0, cost), self.k)).tolist()
        for e, inner, outer in reversed(self._outwards()):
            money = float(cost[e])
            for j in outer:
                money -= open_[j]
                yield e, j, open_[j]
            open_[inner] -= money
            yield e, inner, money

    def _outwards(self) -> list[tuple[int, int, list[int]]]:
        """(tenant, its type towards the root, its other types) for all tied tenants, from the roots outwards.

        The root of a tree is its dearest type, to which rounding errors matter least.
        """
        tenants: list[list[int]] = [[] for _ in range(self.k)]
        for e, types in self.ties.items():
            for j in types:
                tenants[j].append(e)
        roots = [int(np.where(self.layer == i, self.price, 0.0).argmax()) for i in range(self.layer.max() + 1)]
        ordered, waiting = [], [(root, -1) for root in roots]
        while waiting:
            inner, origin = waiting.pop()
            for e in tenants[inner]:
                if e != origin:
                    outer = [j for j in self.ties[e] if j != inner]
                    ordered.append((e, inner, outer))
                    waiting += [(j, e) for j in outer]
        return ordered

    # How far they rise

    def raise_prices(self, rising: Types, others: Types) -> None:
        """Raise prices until a tenant is tied to the ``others``, or, without an end, place these in a layer below."""
        rows = np.flatnonzero(rising[self.on])
        cost, elsewhere = self.own[rows] * self.price[self.on[rows]], self._least_cost(rows, others)
        ratio = elsewhere / cost
        if self.layer[rising.argmax()] == self.layer[others.argmax()]:
            ratio = np.maximum(ratio, 1.0)  # less only by rounding
        order = self._by_ratio(rows, ratio)
        growth = self._growth(cost, cost[order], elsewhere[order], rising, others)
        ends = np.flatnonzero((growth <= 0) | self.tied[rows[order]])
        moving = order[: ends[0]] if len(ends) else order
        self._move(rows[moving], others)
        if len(ends):
            end = order[ends[0]]
            self._tie(int(rows[end]), others)
            self.price[rising] *= ratio[end]
            self._place(rising, self.layer[others.argmax()])
            self._normalise(rising | others)
        else:
            self._place(rising, self.layer[others.argmax()] - 0.5)
            self._normalise(rising)
            self._normalise(others)

    def _least_cost(self, rows: Positions, types: Types) -> Floats:
        """(rows,) money of these tenants on the cheapest of ``types``."""
        least = np.full(len(rows), np.inf)
        for j in np.flatnonzero(types):
            np.minimum(least, self.time[j, rows] * self.price[j], out=least)
        return least

    def _by_ratio(self, rows: Positions, ratio: Floats) -> Positions:
        """Positions in ``rows``, sorted by ratio up to that of the first tied tenant; none of infinite ratio."""
        end = ratio[self.tied[rows]].min(initial=np.inf)
        reached = np.flatnonzero(ratio <= end if end < np.inf else ratio < np.inf)
        return np.asarray(reached[ratio[reached].argsort(kind="stable")])

    def _growth(self, cost: Floats, moved: Floats, elsewhere: Floats, rising: Types, others: Types) -> Floats:
        """The derivative of the bound, times a positive factor, after each of the sorted tenants has moved."""
        there = others[self.on]
        low, high = self.price[others].sum(), self.price[rising].sum()
        at_start = low * cost.sum() - high * (self.own[there] @ self.price[self.on[there]])
        return np.asarray(at_start - np.cumsum(low * moved + high * elsewhere))

    def _move(self, rows: Positions, types: Types) -> None:
        """Put tenants on the cheapest of ``types``."""
        among = np.flatnonzero(types)
        self.on[rows] = among[(self.time[np.ix_(among, rows)] * self.price[among, None]).argmin(axis=0)]
        self.own[rows] = self.time[self.on[rows], rows]

    def _tie(self, e: int, types: Types) -> None:
        """Tie tenant e also to the cheapest of ``types``."""
        cost = np.where(types, self.time[:, e] * self.price, np.inf)
        self.ties[e] = [*self.ties.get(e, [int(self.on[e])]), int(cost.argmin())]
        self.tied[e] = True

    def _untie(self, e: int, j: int) -> None:
        """Remove the tie of tenant e to type j."""
        self.ties[e].remove(j)
        self.on[e] = self.ties[e][0]
        self.own[e] = self.time[self.on[e], e]
        if len(self.ties[e]) == 1:
            del self.ties[e]
            self.tied[e] = False

    def _place(self, types: Types, layer: float) -> None:
        """Put types into a layer, or between two, and number all layers again."""
        self.layer = np.unique(np.where(types, layer, self.layer), return_inverse=True)[1]

    def _normalise(self, types: Types) -> None:
        """Scale prices to a sum of 1."""
        self.price[types] /= self.price[types].sum()
