"""Interior-point method for cooperative OEF, with envy rows added as they are needed.

Tenant i has taste t[i] over k GPU types and takes a bundle y[i] per unit of weight:

    maximise  sum_i gain[i] u[i],   u[i] = t[i].y[i]
    capacity  sum_i weight[i] y[i] + left = capacity          price
    envy      u[i] - t[i].y[j] = slack[i, j]                  f[i, j]     pairs (i, j)
    y >= 0                                                    x

with multipliers on the right. With lam[i] = gain[i] + sum_j f[i, j], stationarity is
``weight[j] price - lam[j] t[j] + sum_i f[i, j] t[i] = x[j]``.

**Newton step.** With d = f / slack, D = x / y and m = price / left the change dy of the bundles minimises

    1/2 ( sum d[i, j] (du[i] - t[i].dy[j])^2 + sum D dy^2 + sum m (sum_j weight[j] dy[j])^2 ) - linear terms.

Bundles are coupled only through u and capacity. For a given du the best dy[j] solves a least-squares problem in k - 1
unknowns (du[j] determines the change of the main type of the bundle, whose column is kept at 0), so a symmetric system
in the n unknowns du and the k changes of prices remains. A pair (i, j) adds entries only between tenants that may envy
j, and j, and a factorisation takes n^3 / 3 operations. Local problems are solved by QR, because parts of a bundle that
only capacity determines would be lost in normal equations beside the binding rows. Iterative refinement removes the
errors of the elimination; changes of prices are unknowns in it, since capacity times m would cancel digits.

**Regularisation.** Tenants of nearly the same taste keep the slack between them near 0 and its multiplier large, and
parts of bundles may be free. Each equation may therefore move by a small multiple (``RELAXED``) of the change of its
multiplier, in early steps by more (``EARLY_RELAXED``): clusters of nearly equal tastes otherwise allow only short
steps. Changes vanish at the end, so the limit is the exact optimum. Rows may further be violated by ``mu / F^2`` times
their multiplier (F: ``LARGE_DUAL``). Two tenants at a small distance a would have slacks of about a and multipliers
``mu / a`` in both directions, which almost cancel; now they are about F at most. As mu falls, the violation vanishes.

**Pairs.** Few of the n (n - 1) rows matter. The first are those with least slack in a menu that separates all tastes;
early steps add rows with less slack than most of a tenant's rows and drop rows with much more, late steps add violated
ones. Among nearly equal tastes all slacks are small, and each added row disturbs the equations. A slack
is central if its product with an equal multiplier, both in units of the tenant's value, is mu. A tenant with rows of
much less slack therefore adds only rows that are violated by about a central slack. So does each envied tenant: what
it takes too much of, few others notice.

**Proof.** For any f >= 0, the smallest prices for which no bundle has a positive reduced cost bound the optimum. Errors
of f raise columns of small tenants most: further rows of large tenants take away what columns exceed the prices by.

**End.** A gap of ``PROVEN`` is the aim. Where tastes are nearly equal, slacks are as small as rounding errors, and the
gap stops falling earlier: one up to ``options.gap`` is then accepted. With a larger gap, bundles are
usually optimal and multipliers are not: the simplex method then needs only the rows that nearly bind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hetopt.data.array_types import Floats, Positions
from hetopt.solving.options import Options
from hetopt.tolerances import CONVERGED, FEASIBILITY, PROVEN, REGULAR, RELAXED, START

STEPS = 200
"""Limit of Newton steps; markets need 10 to 130. The result at the limit is judged by its bound."""

PATIENCE = 20
"""Steps without half the gap after which a gap up to half of ``options.gap`` is accepted; merging takes from the rest.
One up to ``START`` ends the steps after twice as many if complementarity is proven: errors of the equations remain, and
a vertex has none.
"""

FIRST_ROWS = 10
"""Rows of each tenant at the start, without those of others towards it."""

FEW_ROWS = 5_000
"""So many rows are always kept, and are there from the start in small markets."""

IDLE = 10.0
"""A row is dropped once its slack exceeds this multiple of its tenant's fourth least slack and of a central slack."""

MOST = 0.8
"""Rows are dropped if at most this part of all remain: each time, the multipliers of the others must change."""

MORE_ROWS = 3
"""Rows that a tenant may add in one step; with more, most do not matter and each step takes longer."""

EARLY = 10.0**-4
"""Relative gap down to which rows are added before they are violated."""

CROWDED = 3e-3
"""A tenant's slacks are those of nearly equal tastes if several are below this part of a central slack.

This and the next two were chosen on the benchmarks' families for tuning, and on four models with noise.
"""

CROWDED_VIOLATION = 0.3
"""Violation from which such a tenant adds rows in early steps, in parts of a central slack."""

LARGE_DUAL = 30.0
"""F of the module's docstring, over the largest of the two tenants' gains and the mean gain, 1."""

DROPPING = 1e-2
"""Relative gap down to which idle rows are dropped; later, bundles that are not unique would let them come and go."""

EARLY_RELAXED = 10.0**-5
"""``RELAXED`` is at least this part of the complementarity, relative to the objective."""

FIRST_SLACK = 1e-3
"""Least slack of a row at the start, in parts of the tenant's value: some slacks are near 0."""

STRIPS = 4
"""A symmetric product is assembled in so many strips, each up to the diagonal."""

SECOND_ORDER = 10.0
"""Largest correction of a complementarity product for the second order of a step, in parts of the mean product."""

FURTHER = 0.3
"""A step's correction aims at products at steps that are longer by this."""

CENTRAL = 0.1
"""Products there should be at least this part of the target, and at most its inverse times the target."""

INEXACT = 0.01
"""Errors of a step's equations up to this part of the relative gap are not refined."""

TRIES = 12
"""Factorisations with more and more on the diagonal."""

BOUNDARY_FRACTION = 0.995
"""Largest fraction of the step to the boundary."""

LEAST_TARGET = 0.1
"""Complementarity products are not decreased below this part of what the proof needs: residuals could not follow."""


@dataclass(frozen=True, eq=False)
class BundleMarket:
    """Tenants that differ in taste, in units in which bundles and prices are about 1.

    Attributes
    ----------
    taste:
        (n, k) value of a GPU of each type, largest entry of a row 1; no two rows alike, no type useless to all.
    gain:
        (n,) objective per unit of ``taste @ bundle``. Mean 1.
    weight:
        (n,) units of weight; a bundle is what one unit gets. Mean 1.
    capacity:
        (k,) GPUs, > 0.
    """

    taste: Floats
    gain: Floats
    weight: Floats
    capacity: Floats


@dataclass(frozen=True, eq=False)
class EnvyFreeBundles:
    """Bundles, multipliers of envy rows, and how far they are from a proven optimum.

    Attributes
    ----------
    bundles:
        (n, k) GPUs per unit of weight.
    envious, envied, dual:
        (r,) tenants, and the multipliers >= 0 of the rows between them: objective per unit of taste.
    price:
        (k,) prices of GPUs, about those of the bound.
    objective, bound:
        Of the bundles, and of the multipliers.
    envy:
        Largest violation of an envy row, relative to the tenant's own value.
    steps:
        Number of Newton steps.
    """

    bundles: Floats
    envious: Positions
    envied: Positions
    dual: Floats
    price: Floats
    objective: float
    bound: float
    envy: float
    steps: int

    @property
    def gap(self) -> float:
        """Relative to the bound."""
        return 1 - self.objective / self.bound

    def joined(self, other: EnvyFreeBundles) -> EnvyFreeBundles:
        """The better bundles with the better multipliers, after the steps of ``other``."""
        bundles = max(self, other, key=lambda found: (found.envy <= FEASIBILITY, found.objective * (1 - found.envy)))
        duals = other if other.bound < self.bound else self
        own = {name: getattr(bundles, name) for name in ("bundles", "objective", "envy")}
        return replace(duals, **own, steps=other.steps)

    @property
    def proven(self) -> bool:
        """Whether bundles are optimal and envy-free within the accuracy that the method aims at."""
        return self.gap <= 0.9 * PROVEN and self.envy <= PROVEN


def best_bundles(market: BundleMarket, options: Options) -> EnvyFreeBundles:
    """The best envy-free bundles, proven to ``PROVEN`` unless rounding or the limit of steps or time prevents it."""
    best = _equal_split(market)
    if best.proven:
        return best
    found, start = best, _start(market)
    iterate, halved, since = start, 1.0, 0
    for step in range(STEPS + 1):
        if options.left == 0:
            return best.joined(iterate.result(step, start.y))
        added = iterate.with_rows(found.gap)
        found = added.result(step)
        best = found if found.proven else best.joined(found)
        if best.gap <= halved / 2:
            halved, since = best.gap, step
        is_enough = best.gap <= max(FEASIBILITY, options.gap / 2)
        has_errors = best.gap <= START and added.complementarity <= PROVEN
        stalled = step - since >= (PATIENCE if is_enough else 2 * PATIENCE if has_errors else np.inf)
        if best.proven or stalled or step == STEPS or not np.isfinite(found.gap):
            break
        try:
            iterate = _stepped(added)
        except linalg.LinAlgError:  # by rounding: the result is judged by its bound
            break
    return best


def levelling(able: Floats, excess: Floats) -> tuple[Positions, Positions, Positions, Floats]:
    """(envious, envied, type, excess) of envy rows that move the positive ``excess`` (n, k) of columns to large ones.

    Those are the ones with most weight times speed, ``able`` (n, k), on each type. Errors of multipliers raise the
    columns of small tenants most, and count little in those of large ones.
    """
    large, types = able.argmax(axis=0), np.arange(able.shape[1])
    excess = np.where(able[large, types] > 0, np.maximum(excess, 0.0), 0.0)
    excess[large, types] = 0.0
    envied, on = np.nonzero(excess)
    return large[on], envied, on, excess[envied, on]


def _equal_split(market: BundleMarket) -> EnvyFreeBundles:
    """Equal bundles: optimal for a single taste, and for tastes that are equal within the accuracy of the proof."""
    none = np.empty(0, dtype=np.intp)
    value = market.taste @ market.capacity / market.weight.sum()
    prices = (market.gain[:, None] * market.taste / market.weight[:, None]).max(axis=0)
    bundles = np.tile(market.capacity / market.weight.sum(), (len(value), 1))
    objective, bound = float(market.gain @ value), float(prices @ market.capacity)
    return EnvyFreeBundles(bundles, none, none, np.empty(0), prices, objective, bound, 0.0, 0)


class _Pairs:
    """Envy rows, sorted by the envied tenant; every tenant is envied by one."""

    def __init__(self, taste: Floats, envious: Positions, envied: Positions) -> None:
        self.envious, self.envied = envious, envied
        self.taste = taste[envious]
        self._tastes = taste
        self.count = np.bincount(envied, minlength=len(taste))
        self.first = np.cumsum(self.count) - self.count

    def padded(self, batch: Positions) -> tuple[Positions, NDArray[np.bool_]]:
        """Positions of the rows towards each tenant of ``batch``, and which of them are no padding."""
        count = self.count[batch]
        place = np.arange(count.max())
        valid = place < count[:, None]
        return np.where(valid, self.first[batch][:, None] + place, 0), valid

    def by_envied(self, values: Floats) -> Floats:
        """(n, …) sums of ``values``, one row per pair, over the pairs of each envied tenant."""
        return np.asarray(np.add.reduceat(values, self.first, axis=0))

    def by_envious(self, values: Floats) -> Floats:
        """(n,) sums over the pairs of each envious tenant."""
        return np.bincount(self.envious, values, len(self._tastes)).astype(float)

    def slack(self, bundles: Floats) -> Floats:
        """(r,) value of the own bundle less that of the other's."""
        own = np.einsum("nk,nk->n", self._tastes, bundles)
        return np.asarray(own[self.envious] - np.einsum("rk,rk->r", self.taste, bundles[self.envied]))

    def demand(self, multipliers: Floats) -> Floats:
        """(n, k) sums over rows of the multiplier times the row's coefficients."""
        own = self._tastes * self.by_envious(multipliers)[:, None]
        return np.asarray(own - self.by_envied(multipliers[:, None] * self.taste))


@dataclass(eq=False)
class _Iterate:
    """An interior point: ``primal`` is (y, left, slack) and ``dual`` is (x, price, f), each in one vector."""

    market: BundleMarket
    pairs: _Pairs
    primal: Floats
    dual: Floats
    y: Floats = field(init=False)
    left: Floats = field(init=False)
    slack: Floats = field(init=False)
    x: Floats = field(init=False)
    price: Floats = field(init=False)
    f: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.y, self.left, self.slack = self.parts(self.primal)
        self.x, self.price, self.f = self.parts(self.dual)

    def parts(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """The (n, k), (k,) and (r,) parts of a vector."""
        n, k = self.market.taste.shape
        return vector[: n * k].reshape(n, k), vector[n * k : n * k + k], vector[n * k + k :]

    @property
    def mu(self) -> float:
        """Mean complementarity product."""
        return float(self.primal @ self.dual) / len(self.primal)

    @property
    def complementarity(self) -> float:
        """Sum of the complementarity products, relative to the objective: the gap if no equation had an error."""
        return float(self.primal @ self.dual / (self.market.gain @ self.value))

    @property
    def value(self) -> Floats:
        """(n,) value of the own bundle."""
        return np.asarray(np.einsum("nk,nk->n", self.market.taste, self.y))

    @property
    def lam(self) -> Floats:
        """(n,) objective per unit of value, with the multipliers of the tenant's envy rows."""
        return self.market.gain + self.pairs.by_envious(self.f)

    def reduced_gain(self) -> Floats:
        """(n, k) objective per GPU, with the multipliers of all envy rows."""
        return self.market.gain[:, None] * self.market.taste + self.pairs.demand(self.f)

    def _bound(self, gain: Floats) -> float:
        """The bound of reduced gains (n, k): the smallest prices that no column exceeds, for the capacity."""
        return float(np.maximum((gain / self.market.weight[:, None]).max(axis=0), 0.0) @ self.market.capacity)

    def _levelled(self) -> Floats:
        """Reduced gains with the rows of :func:`levelling` for what columns exceed prices by."""
        market, gain = self.market, self.reduced_gain()
        weight = market.weight[:, None]
        envious, envied, on, excess = levelling(market.taste * weight, gain - weight * self.price)
        moved = (excess / market.taste[envious, on])[:, None] * market.taste[envious]
        np.subtract.at(gain, envied, moved)
        np.add.at(gain, envious, moved)
        return gain

    def with_rows(self, gap: float) -> _Iterate:
        """With rows of least slack among those left out, in late steps only violated ones, and without idle rows."""
        value, pairs, n = self.value, self.pairs, len(self.y)
        slack = value[:, None] - self.market.taste @ self.y.T
        slack[pairs.envious, pairs.envied] = np.inf
        np.fill_diagonal(slack, np.inf)
        small, central = self._small_slack(), np.sqrt(self.mu * value / self.lam)
        early = np.where(small > CROWDED * central, small, -CROWDED_VIOLATION * central)
        envious, envied = _least(slack, early if gap > EARLY else -PROVEN / 2 * value)
        if gap > EARLY:
            second, first = _least(slack.T / central, np.full(n, -CROWDED_VIOLATION))
            envious, envied = np.divmod(np.union1d(envious * n + envied, first * n + second), n)
        kept = np.ones(len(self.f), dtype=bool)
        if gap > DROPPING and len(kept) > max(FEW_ROWS, FIRST_ROWS * n):
            needed = self._kept(IDLE * np.maximum(small, central))
            kept = needed if needed.mean() < MOST else kept
        if kept.all() and not len(envious):
            return self
        added = np.maximum(slack[envious, envied], central[envious])
        i, j = np.concatenate([pairs.envious[kept], envious]), np.concatenate([pairs.envied[kept], envied])
        order = np.argsort(j * n + i, kind="stable")
        primal = np.concatenate([self.slack[kept], added])[order]
        dual = np.concatenate([self.f[kept], self.mu / added])[order]
        start = len(self.primal) - len(self.slack)
        return _Iterate(
            self.market,
            _Pairs(self.market.taste, i[order], j[order]),
            np.concatenate([self.primal[:start], primal]),
            np.concatenate([self.dual[:start], dual]),
        )

    def _kept(self, limit: Floats) -> NDArray[np.bool_]:
        """(r,) the rows with a slack up to ``limit`` (n,) and, for each envied tenant, the closest to it."""
        ratio = self.slack / limit[self.pairs.envious]
        return np.asarray(ratio <= np.maximum(np.minimum.reduceat(ratio, self.pairs.first), 1.0)[self.pairs.envied])

    def _small_slack(self) -> Floats:
        """(n,) the slack of a tenant's row after those of ``MORE_ROWS`` least slacks, or the largest."""
        order = np.argsort(self.pairs.envious, kind="stable")
        count = np.bincount(self.pairs.envious, minlength=len(self.y))
        rest, small = self.slack[order], np.zeros(len(count))
        for _ in range(MORE_ROWS + 1):
            least = np.minimum.reduceat(rest, np.cumsum(count) - count)
            rest[rest == np.repeat(least, count)] = np.inf
            small = np.where(least < np.inf, least, small)
        return small

    def result(self, steps: int, envy_free: Floats | None = None) -> EnvyFreeBundles:
        """The bundles without what rounding leaves, and their proof.

        With other bundles (n, k) that are free of envy: on the line to these, the first that are free of envy as well.
        """
        market = self.market
        least = CONVERGED * market.capacity / market.weight.sum()
        bundles = np.where(self.y > least, self.y, 0.0)
        if envy_free is not None:
            part = _part_without_envy(market.taste, bundles, envy_free)
            bundles = (1 - part) * bundles + part * envy_free
        value = np.einsum("nk,nk->n", market.taste, bundles)
        fits = (market.capacity / (market.weight @ bundles)).min()
        bound = min(self._bound(self.reduced_gain()), self._bound(self._levelled()))
        envy = float(((market.taste @ bundles.T).max(axis=1) / value).max() - 1)
        objective, rows = float(market.gain @ value * fits), self.pairs
        return EnvyFreeBundles(
            bundles, rows.envious, rows.envied, self.f, self.price, objective, float(bound), envy, steps
        )


def _least(slack: Floats, limit: Floats) -> tuple[Positions, Positions]:
    """(row, column) of the ``MORE_ROWS`` least entries of each row of ``slack``, as far as they are below ``limit``."""
    below = slack < limit[:, None]
    many = np.flatnonzero(below.sum(axis=1) > MORE_ROWS)
    part = slack[many]
    if len(many):
        below[many] = part <= np.partition(part, MORE_ROWS - 1, axis=1)[:, MORE_ROWS - 1 : MORE_ROWS]
    row, column = np.nonzero(below)
    return row, column


def _part_without_envy(taste: Floats, bundles: Floats, envy_free: Floats) -> float:
    """The least part of the way from ``bundles`` to ``envy_free`` at which no tenant envies another."""
    here, there = (np.einsum("nk,nk->n", taste, own)[:, None] - taste @ own.T for own in (bundles, envy_free))
    np.fill_diagonal(here, 0.0)
    envies = here < 0
    return min(1.0, float((here[envies] / (here[envies] - np.maximum(there[envies], 0.0))).max(initial=0.0)))


def _start(market: BundleMarket) -> _Iterate:
    """The bundles that maximise a power mean of values: each tenant strictly prefers its own."""
    taste, n = market.taste, len(market.taste)
    log = np.log(np.maximum(taste * market.capacity, np.finfo(float).tiny))
    log -= log.max(axis=1, keepdims=True)
    power = 1 + 1 / max(float(np.median(np.minimum(-log, 3.0))), CONVERGED)
    mean = np.exp(power * log).sum(axis=1, keepdims=True) ** ((power - 1) / power)
    y = market.capacity * (np.exp((power - 1) * log) / mean + 0.1)
    y *= 0.9 * (market.capacity / (market.weight @ y)).min()
    value = np.einsum("nk,nk->n", taste, y)
    pairs = _first_pairs(taste, value[:, None] - taste @ y.T)
    slack = np.maximum(pairs.slack(y), FIRST_SLACK * value[pairs.envious])
    left = np.maximum(market.capacity - market.weight @ y, 0.05 * market.capacity)
    price = market.gain @ taste
    price *= 2 * float(market.gain @ value) / float(price @ market.capacity)
    f = 0.5 * (market.gain / np.bincount(pairs.envious, minlength=n))[pairs.envious]
    paid = market.weight[:, None] * price
    x = np.maximum(paid - 0.5 * market.gain[:, None] * taste, 0.1 * paid)
    return _Iterate(market, pairs, np.concatenate([y.ravel(), left, slack]), np.concatenate([x.ravel(), price, f]))


def _first_pairs(taste: Floats, slack: Floats) -> _Pairs:
    """The rows of least ``slack`` (n, n) of each tenant, and those in the other direction."""
    n = len(taste)
    np.fill_diagonal(slack, np.inf)
    few = min(max(FIRST_ROWS, FEW_ROWS // n), n - 1)
    j = np.argpartition(slack, few - 1, axis=1)[:, :few].ravel()
    i = np.repeat(np.arange(n), few)
    envied, envious = np.divmod(np.unique(np.concatenate([j * n + i, i * n + j])), n)
    return _Pairs(taste, envious, envied)


def _stepped(now: _Iterate) -> _Iterate:
    """The iterate after a step of Mehrotra's predictor-corrector method with a centrality correction of Gondzio's."""
    products, mu = now.primal * now.dual, now.mu
    system = _Directions(now)
    primal, dual = system.towards(-products)
    reached = (now.primal + _longest(now.primal, primal) * primal) @ (now.dual + _longest(now.dual, dual) * dual)
    needed = PROVEN / 2 * float(now.market.gain @ now.value) / len(products)
    target = max(float(reached / len(products) / mu) ** 3 * mu, LEAST_TARGET * needed)
    change = target - products - np.clip(primal * dual, -SECOND_ORDER * mu, SECOND_ORDER * mu)
    primal, dual = system.towards(change)
    a, b = _longest(now.primal, primal), _longest(now.dual, dual)
    ahead = (now.primal + min(1.0, a + FURTHER) * primal) * (now.dual + min(1.0, b + FURTHER) * dual)
    central = np.clip(ahead, CENTRAL * target, target / CENTRAL)
    other = system.towards(change + np.maximum(central - ahead, -target / CENTRAL))
    longer = _longest(now.primal, other[0]), _longest(now.dual, other[1])
    if longer[0] * longer[1] > a * b:
        (primal, dual), (a, b) = other, longer
    moved = now.primal + BOUNDARY_FRACTION * a * primal, now.dual + BOUNDARY_FRACTION * b * dual
    return _Iterate(now.market, now.pairs, *moved)


def _longest(values: Floats, change: Floats) -> float:
    """The longest step up to 1 that keeps ``values`` >= 0."""
    return min(1.0, float(np.divide(values, -change, out=np.full(len(values), np.inf), where=change < 0).min()))


class _Directions:
    """Newton directions at an iterate for any change of the complementarity products."""

    def __init__(self, now: _Iterate) -> None:
        market, lam = now.market, now.lam
        self.now = now
        gain = np.maximum(market.gain, 1.0)
        held = now.mu / (LARGE_DUAL * np.maximum(gain[now.pairs.envious], gain[now.pairs.envied])) ** 2
        self.row_residual = now.pairs.slack(now.y) - now.slack + held * now.f
        self.left_residual = market.capacity - market.weight @ now.y - now.left
        self.dual_residual = market.weight[:, None] * now.price - now.reduced_gain() - now.x
        relaxed = max(RELAXED, EARLY_RELAXED * min(now.complementarity, 1.0))
        self.row_relaxed = 10 * relaxed * (now.value / lam)[now.pairs.envious] + held
        self.left_relaxed = relaxed * market.capacity / now.price
        self.dual_relaxed = relaxed * (lam / now.y.sum(axis=1))[:, None]
        self.row_force = now.f / (now.slack + now.f * self.row_relaxed)
        self.left_force = now.price / (now.left + now.price * self.left_relaxed)
        self.exact = INEXACT * now.mu * len(now.primal) / (market.gain @ now.value) * market.weight[:, None] * now.price
        self.system = _NewtonSystem(now, self.row_force, now.x / now.y + self.dual_relaxed, self.left_force)

    def towards(self, change: Floats) -> tuple[Floats, Floats]:
        """Changes (primal, dual) that change the products by ``change``, to first order."""
        now, weight = self.now, self.now.market.weight[:, None]
        for_y, for_left, for_slack = now.parts(change)
        row = self.row_force * (for_slack / now.f - self.row_residual)
        left = self.left_force * (for_left / now.price - self.left_residual)
        force = for_y / now.y - self.dual_residual + now.pairs.demand(row) - weight * left
        dy, dprice = self.system.solve(force, self.exact)
        moved = now.pairs.slack(dy)
        df = row - self.row_force * moved
        dprice = dprice + left
        dx = weight * dprice - now.pairs.demand(df) + self.dual_residual + self.dual_relaxed * dy
        dslack = moved + self.row_residual + self.row_relaxed * df
        dleft = self.left_residual - now.market.weight @ dy + self.left_relaxed * dprice
        primal, dual = np.concatenate([dy.ravel(), dleft, dslack]), np.concatenate([dx.ravel(), dprice, df])
        # The smaller factor of each product follows from the product: the equations would lose its digits.
        small = now.primal < now.dual
        return (
            np.where(small, (change - now.primal * dual) / now.dual, primal),
            np.where(small, dual, (change - now.dual * primal) / now.primal),
        )


class _NewtonSystem:
    """The factorised system of a Newton step: ``H dy + weight dprice = force``, ``weight @ dy = dprice / m``.

    With ``H dy = demand(d slack(dy)) + D dy``. The reduction: ``dy[j] = move[j] z[j] + unit[j] du[j]`` on the main
    type, where z[j] are the local unknowns in an orthonormal basis, and ``held``, ``own_held`` the coefficients of
    du[i] and du[j] in the best z[j].
    """

    def __init__(self, now: _Iterate, d: Floats, own: Floats, m: Floats) -> None:
        self.pairs, self.weight = now.pairs, now.market.weight
        self.d, self.own, self.m = d, own, m
        taste = now.market.taste
        n, k = taste.shape
        self.rows, self.main = np.arange(n), (taste * now.y).argmax(axis=1)
        self.unit = 1.0 / taste[self.rows, self.main]
        self.ratio = taste * self.unit[:, None]
        self.held, self.own_held, self.move = np.empty((len(d), k)), np.empty((n, k)), np.empty((n, k, k))
        matrix = self._reduced(np.sqrt(own))
        self._eliminate_prices(matrix)
        self.factor = _cholesky(matrix)

    def _reduced(self, root_own: Floats) -> Floats:
        """(n, n) the quadratic form in du, its lower triangle; sets all but the factors of prices and of the form."""
        pairs, n = self.pairs, len(self.rows)
        main = pairs.taste[np.arange(len(self.d)), self.main[pairs.envied]]
        part = main * self.unit[pairs.envied]  # of du[envied] in the change of the envious tenant's value
        root = np.sqrt(self.d)
        scaled = root[:, None] * (pairs.taste - main[:, None] * self.ratio[pairs.envied])
        matrix, used = np.zeros((n, n)), np.empty((len(part), len(self.m)))
        for batch in _batches(pairs.count):
            at, valid = pairs.padded(batch)
            held = self._local(batch, np.where(valid[:, :, None], scaled[at], 0.0), root_own[batch])
            held = np.where(valid[:, :, None], root[at][:, :, None] * held, 0.0)
            self.held[at[valid]] = held[valid]
            self.own_held[batch] -= np.einsum("bc,bca->ba", part[at], held)
            used[at[valid]] = (held @ (self.weight[batch, None, None] * self.move[batch]).transpose(0, 2, 1))[valid]
            _subtract_products(matrix, held, np.where(valid, pairs.envious[at], n - 1))
        cross = self.d * part + np.einsum("ra,ra->r", self.held, self.own_held[pairs.envied])
        matrix[pairs.envious, pairs.envied] -= cross
        matrix[pairs.envied, pairs.envious] -= cross
        matrix[self.rows, self.rows] += pairs.by_envious(self.d) + pairs.by_envied(self.d * part * part)
        own = root_own[self.rows, self.main] * self.unit
        matrix[self.rows, self.rows] += own**2 - (self.own_held**2).sum(axis=1)
        own = np.einsum("nka,na->nk", self.move, self.own_held)
        own[self.rows, self.main] += self.unit
        self.coupling = np.stack([pairs.by_envious(column) for column in used.T], axis=1) + self.weight[:, None] * own
        return matrix

    def _local(self, batch: Positions, top: Floats, root_own: Floats) -> Floats:
        """The rows of ``top`` in the orthonormal basis of each bundle's least-squares problem; sets ``move``."""
        main, ratio, free = self.main[batch], self.ratio[batch], np.arange(top.shape[2])
        each, last = np.arange(len(batch)), root_own[np.arange(len(batch)), main]
        bottom = np.zeros((len(batch), len(free) + 1, len(free)))
        bottom[:, free, free] = root_own
        bottom[:, -1] = last[:, None] * ratio
        bottom[each, :, main] = np.arange(len(free) + 1) == main[:, None]  # no part of the main type
        q, triangle = np.linalg.qr(np.concatenate([top, bottom], axis=1))
        factor = np.linalg.inv(triangle)
        factor[each, main] -= np.einsum("nb,nbc->nc", ratio, factor)
        self.move[batch] = factor
        self.own_held[batch] = q[:, -1] * (last * self.unit[batch])[:, None]
        return np.asarray(q[:, : top.shape[1]])

    def _eliminate_prices(self, matrix: Floats) -> None:
        """Sets the factor of the prices, and adds their part to ``matrix``."""
        free = (self.move * self.weight[:, None, None]).transpose(0, 2, 1).reshape(-1, len(self.m))
        self.price_factor = np.linalg.qr(np.concatenate([np.diag(1 / np.sqrt(self.m)), free]), mode="r")
        scaled = linalg.solve_triangular(self.price_factor, self.coupling.T, trans="T")
        matrix += scaled.T @ scaled

    def solve(self, force: Floats, exact: Floats) -> tuple[Floats, Floats]:
        """(dy, dprice), refined up to twice until equations are met within ``exact`` (n, k)."""
        dy, dprice = self._eliminated(force, np.zeros(len(self.m)))
        for _ in range(2):
            lacking = force - self.pairs.demand(self.d * self.pairs.slack(dy)) - self.own * dy
            lacking -= self.weight[:, None] * dprice
            if (np.abs(lacking) <= exact).all():
                break
            more, higher = self._eliminated(lacking, dprice / self.m - self.weight @ dy)
            dy, dprice = dy + more, dprice + higher
        return dy, dprice

    def _eliminated(self, force: Floats, used: Floats) -> tuple[Floats, Floats]:
        """The solution for ``H dy + weight dprice = force``, ``weight @ dy - dprice / m = used``."""
        pairs = self.pairs
        local = np.einsum("nka,nk->na", self.move, force)
        right = pairs.by_envious(np.einsum("ra,ra->r", self.held, local[pairs.envied]))
        right += np.einsum("na,na->n", self.own_held, local) + force[self.rows, self.main] * self.unit
        for_prices = self.weight @ np.einsum("nka,na->nk", self.move, local) - used
        du = linalg.cho_solve(self.factor, right - self.coupling @ self._prices(for_prices), check_finite=False)
        dprice = self._prices(self.coupling.T @ du + for_prices)
        z = local + pairs.by_envied(self.held * du[pairs.envious][:, None]) + self.own_held * du[:, None]
        z -= np.einsum("nka,nk->na", self.move, self.weight[:, None] * dprice)
        dy = np.einsum("nka,na->nk", self.move, z)
        dy[self.rows, self.main] += self.unit * du
        return dy, dprice

    def _prices(self, right: Floats) -> Floats:
        inner = linalg.solve_triangular(self.price_factor, right, trans="T")
        return np.asarray(linalg.solve_triangular(self.price_factor, inner))


def _subtract_products(matrix: Floats, held: Floats, who: Positions) -> None:
    """Subtract, below the diagonal of ``matrix``, the products of all rows of each ``held[b]``, of tenants ``who[b]``.

    Tenants are sorted; those on the diagonal may be subtracted above it as well.
    """
    count = who.shape[1]
    step = -(-count // STRIPS)
    for first in range(0, count, step):
        last = first + step
        place = who[:, first:last, None] * len(matrix) + who[:, None, :last]
        products = held[:, first:last] @ held[:, :last].transpose(0, 2, 1)
        np.subtract.at(matrix.reshape(-1), place.ravel(), products.ravel())


def _batches(count: Positions) -> Iterator[Positions]:
    """Tenants in batches of similar ``count``, so that padding to the largest costs little."""
    order = np.argsort(count, kind="stable")
    sizes, start = count[order], 0
    while start < len(order):
        few = max(1, 10**6 // int(sizes[start]) ** 2)
        end = min(int(np.searchsorted(sizes, 1.3 * sizes[start] + 3, side="right")), start + min(few, 200))
        yield order[start:end]
        start = end


def _cholesky(matrix: Floats) -> tuple[NDArray[np.float64], bool]:
    """The factor of a positive definite matrix, from its lower triangle.

    As much is added to the diagonal as rounding requires.

    Raises
    ------
    LinAlgError
        The matrix is not positive definite.
    """
    diagonal = np.arange(len(matrix))
    size = np.maximum(matrix[diagonal, diagonal], REGULAR * matrix[diagonal, diagonal].max())
    for more in REGULAR / 100 * 10.0 ** np.arange(TRIES):
        matrix[diagonal, diagonal] += more * size
        try:
            return linalg.cho_factor(matrix.T, check_finite=False)
        except linalg.LinAlgError:
            pass
    raise linalg.LinAlgError("the system of a Newton step is not positive definite")
