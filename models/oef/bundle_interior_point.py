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
unknowns (du[j] determines the change of the main type of the bundle), so a symmetric system in the n unknowns du and
the k changes of prices remains. A pair (i, j) adds entries only between tenants that may envy j, and j, and a
factorisation takes n^3 / 3 operations. Local problems are solved by QR, because parts of a bundle that only capacity
determines would be lost in normal equations beside the binding rows. Iterative refinement removes the errors of the
elimination; changes of prices are unknowns in it, since capacity times m would cancel digits.

**Regularisation.** Tenants of nearly the same taste keep the slack between them near 0 and its multiplier large, and
parts of bundles may be free. Each equation may therefore move by a small multiple (``RELAXED``) of the change of its
multiplier. Changes vanish at the end, so the limit is the exact optimum.

**Pairs.** Few of the n (n - 1) rows matter. The first are those with least slack in a menu that separates all tastes;
early steps add rows with less slack than most of a tenant's rows and drop rows with much more, late steps add violated
ones.

**Proof.** For any f >= 0, the smallest prices for which no bundle has a positive reduced cost bound the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hetopt.data.array_types import Floats, Positions
from hetopt.solving.options import Options
from hetopt.tolerances import CONVERGED, FINE, PROVEN, REGULAR, RELAXED

STEPS = 200
"""Limit of Newton steps; markets need 10 to 110. The result at the limit is judged by its bound."""

FIRST_ROWS = 10
"""Rows of each tenant at the start, without those of others towards it."""

FEW_ROWS = 5_000
"""So many rows are always kept, and are there from the start in small markets."""

IDLE = 300.0
"""A row is dropped once its slack exceeds this multiple of its tenant's fourth least slack and of a central slack."""

MORE_ROWS = 3
"""Rows that a tenant may add in one step; with more, most do not matter and each step takes longer."""

EARLY = 10.0**-4
"""Relative gap down to which rows are added before they are violated."""

DROPPING = 1e-2
"""Relative gap down to which idle rows are dropped; later, bundles that are not unique would let them come and go."""

FIRST_SLACK = 1e-3
"""Least slack of a row at the start, in parts of the tenant's value: some slacks are near 0."""

MANY = 4
"""Bundles envied by more than a part 1 / MANY of all tenants are assembled by dense products."""

SECOND_ORDER = 10.0
"""Largest correction of a complementarity product for the second order of a step, in parts of the mean product."""

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
        (n,) objective per unit of ``taste @ bundle``.
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
        envious = self.envy > PROVEN, -self.objective
        bundles = other if (other.envy > PROVEN, -other.objective) < envious else self
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
    iterate = start
    for step in range(STEPS):
        if options.left == 0:
            return best.joined(iterate.result(step, start.y))
        added = iterate.with_rows(found.gap)
        found = added.result(step)
        best = best.joined(found)
        if best.proven or not np.isfinite(found.gap):
            break
        iterate = _stepped(added)
    return best


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

    def with_rows(self, gap: float) -> _Iterate:
        """With rows of least slack among those left out, in late steps only violated ones, and without idle rows."""
        value, pairs, n = self.value, self.pairs, len(self.y)
        slack = value[:, None] - self.market.taste @ self.y.T
        slack[pairs.envious, pairs.envied] = np.inf
        np.fill_diagonal(slack, np.inf)
        few = min(MORE_ROWS, n - 1)
        envied = np.argpartition(slack, few - 1, axis=1)[:, :few].ravel()
        envious = np.repeat(np.arange(n), few)
        least = slack[envious, envied]
        small, central = self._small_slack(), np.sqrt(self.mu * value / self.lam)
        limit = small if gap > EARLY else -FINE * value
        new = least < limit[envious]
        kept = np.ones(len(self.f), dtype=bool)
        if gap > DROPPING and len(kept) > max(FEW_ROWS, FIRST_ROWS * n):
            kept = self._kept(IDLE * np.maximum(small, central))
        if kept.all() and not new.any():
            return self
        envious, envied = envious[new], envied[new]
        added = np.maximum(least[new], central[envious])
        i, j = np.concatenate([pairs.envious[kept], envious]), np.concatenate([pairs.envied[kept], envied])
        order = np.lexsort((i, j))
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
        pairs = self.pairs
        ratio = self.slack / limit[pairs.envious]
        kept = ratio <= 1
        kept[np.lexsort((ratio, pairs.envied))[pairs.first]] = True
        return kept

    def _small_slack(self) -> Floats:
        """(n,) the slack of a tenant's row after those of ``MORE_ROWS`` least slacks."""
        order = np.lexsort((self.slack, self.pairs.envious))
        count = np.bincount(self.pairs.envious, minlength=len(self.y))
        return np.asarray(self.slack[order][np.cumsum(count) - count + np.minimum(MORE_ROWS, count - 1)])

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
        bound = np.maximum((self.reduced_gain() / market.weight[:, None]).max(axis=0), 0.0) @ market.capacity
        envy = float(((market.taste @ bundles.T).max(axis=1) / value).max() - 1)
        objective, rows = float(market.gain @ value * fits), self.pairs
        return EnvyFreeBundles(
            bundles, rows.envious, rows.envied, self.f, self.price, objective, float(bound), envy, steps
        )


def _part_without_envy(taste: Floats, bundles: Floats, envy_free: Floats) -> float:
    """The least part of the way from ``bundles`` to ``envy_free`` at which no tenant envies another."""
    here, there = (np.einsum("nk,nk->n", taste, own)[:, None] - taste @ own.T for own in (bundles, envy_free))
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
    """The iterate after a step of Mehrotra's predictor-corrector method."""
    products, mu = now.primal * now.dual, now.mu
    system = _Directions(now)
    primal, dual = system.towards(-products)
    reached = (now.primal + _longest(now.primal, primal) * primal) @ (now.dual + _longest(now.dual, dual) * dual)
    needed = PROVEN / 2 * float(now.market.gain @ now.value) / len(products)
    target = max(float(reached / len(products) / mu) ** 3 * mu, LEAST_TARGET * needed)
    second_order = np.clip(primal * dual, -SECOND_ORDER * mu, SECOND_ORDER * mu)
    primal, dual = system.towards(target - products - second_order)
    return _Iterate(
        now.market,
        now.pairs,
        now.primal + min(1.0, BOUNDARY_FRACTION * _longest(now.primal, primal)) * primal,
        now.dual + min(1.0, BOUNDARY_FRACTION * _longest(now.dual, dual)) * dual,
    )


def _longest(values: Floats, change: Floats) -> float:
    """The longest step up to 1 that keeps ``values`` >= 0."""
    return min(1.0, float(np.divide(values, -change, out=np.full(len(values), np.inf), where=change < 0).min()))


class _Directions:
    """Newton directions at an iterate for any change of the complementarity products."""

    def __init__(self, now: _Iterate) -> None:
        market, lam = now.market, now.lam
        self.now = now
        self.row_residual = now.pairs.slack(now.y) - now.slack
        self.left_residual = market.capacity - market.weight @ now.y - now.left
        self.dual_residual = market.weight[:, None] * now.price - now.reduced_gain() - now.x
        self.row_relaxed = 10 * RELAXED * (now.value / lam)[now.pairs.envious]
        self.left_relaxed = RELAXED * market.capacity / now.price
        self.dual_relaxed = RELAXED * (lam / now.y.sum(axis=1))[:, None]
        self.row_force = now.f / (now.slack + now.f * self.row_relaxed)
        self.left_force = now.price / (now.left + now.price * self.left_relaxed)
        self.system = _NewtonSystem(now, self.row_force, now.x / now.y + self.dual_relaxed, self.left_force)

    def towards(self, change: Floats) -> tuple[Floats, Floats]:
        """Changes (primal, dual) that change the products by ``change``, to first order."""
        now, weight = self.now, self.now.market.weight[:, None]
        for_y, for_left, for_slack = now.parts(change)
        row = self.row_force * (for_slack / now.f - self.row_residual)
        left = self.left_force * (for_left / now.price - self.left_residual)
        force = for_y / now.y - self.dual_residual + now.pairs.demand(row) - weight * left
        dy, dprice = self.system.solve(force)
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
        order = np.argsort(np.arange(k) != self.main[:, None], axis=1, kind="stable")
        sorted_taste = np.take_along_axis(taste, order, axis=1)
        root_own = np.sqrt(np.take_along_axis(own, order, axis=1))
        self.unit = 1.0 / sorted_taste[:, 0]
        ratio = sorted_taste[:, 1:] * self.unit[:, None]
        seen = np.take_along_axis(self.pairs.taste, order[self.pairs.envied], axis=1)
        part = seen[:, 0] * self.unit[self.pairs.envied]  # of du[envied] in the change of the envious tenant's value
        seen = seen[:, 1:] - seen[:, :1] * ratio[self.pairs.envied]
        factor = self._local(np.sqrt(d), seen, part, ratio, root_own)
        self.move = np.empty((n, k, k - 1))
        self.move[self.rows[:, None], order[:, 1:]] = factor
        self.move[self.rows, self.main] = -np.einsum("nb,nbc->nc", ratio, factor)
        matrix = self._coupled(part, (root_own[:, 0] * self.unit) ** 2)
        self._eliminate_prices(matrix)
        self.factor = _cholesky(matrix)

    def _local(self, root: Floats, seen: Floats, part: Floats, ratio: Floats, root_own: Floats) -> Floats:
        """QR of every bundle's least-squares problem; sets ``held`` and ``own_held``, returns the inverses of R."""
        n, free = ratio.shape
        bottom = np.zeros((n, free + 1, free))
        bottom[:, np.arange(free), np.arange(free)] = root_own[:, 1:]
        bottom[:, free] = root_own[:, :1] * ratio
        scaled = root[:, None] * seen
        triangle, self.held, self.own_held = np.empty((n, free, free)), np.empty_like(seen), np.empty((n, free))
        for batch in _batches(self.pairs.count):
            at, valid = self.pairs.padded(batch)
            top = np.where(valid[:, :, None], scaled[at], 0.0)
            q, triangle[batch] = np.linalg.qr(np.concatenate([top, bottom[batch]], axis=1))
            self.held[at[valid]] = q[:, : at.shape[1]][valid]
            self.own_held[batch] = q[:, -1] * (root_own[batch, 0] * self.unit[batch])[:, None]
        self.held *= root[:, None]
        self.own_held -= self.pairs.by_envied(part[:, None] * self.held)
        return np.asarray(np.linalg.inv(triangle))

    def _coupled(self, part: Floats, own: Floats) -> Floats:
        """(n, n) the quadratic form in du that remains."""
        pairs, n = self.pairs, len(self.rows)
        matrix = np.zeros((n, n))
        tenant = np.concatenate([pairs.envious, self.rows])
        held = np.concatenate([self.held, self.own_held])
        for batch in _batches(pairs.count):
            at, valid = pairs.padded(batch)
            at = np.concatenate([at, len(self.held) + batch[:, None]], axis=1)
            part_of = held[at]
            part_of[:, :-1][~valid] = 0.0
            who = tenant[at]
            if at.shape[1] > n // MANY:
                wide = np.zeros((len(batch), n, held.shape[1]))
                np.add.at(wide, (np.arange(len(batch))[:, None], who), part_of)
                columns = wide.transpose(1, 0, 2).reshape(n, -1)
                matrix -= columns @ columns.T
            else:
                place = (who[:, :, None] * n + who[:, None, :]).ravel()
                np.subtract.at(matrix.reshape(-1), place, (part_of @ part_of.transpose(0, 2, 1)).ravel())
        matrix[pairs.envious, pairs.envied] -= self.d * part
        matrix[pairs.envied, pairs.envious] -= self.d * part
        matrix[self.rows, self.rows] += pairs.by_envious(self.d) + pairs.by_envied(self.d * part * part) + own
        return matrix

    def _eliminate_prices(self, matrix: Floats) -> None:
        """Sets ``coupling`` (n, k) of du and prices and the factor of the prices, and adds their part to ``matrix``."""
        k = len(self.m)
        used = np.einsum("ra,rka->rk", self.held, self.move[self.pairs.envied])
        used *= self.weight[self.pairs.envied][:, None]
        own = np.einsum("nka,na->nk", self.move, self.own_held)
        own[self.rows, self.main] += self.unit
        self.coupling = self.weight[:, None] * own
        self.coupling += np.stack([self.pairs.by_envious(column) for column in used.T], axis=1)
        free = (self.move * self.weight[:, None, None]).transpose(0, 2, 1).reshape(-1, k)
        self.price_factor = np.linalg.qr(np.concatenate([np.diag(1 / np.sqrt(self.m)), free]), mode="r")
        scaled = linalg.solve_triangular(self.price_factor, self.coupling.T, trans="T")
        matrix += scaled.T @ scaled

    def solve(self, force: Floats) -> tuple[Floats, Floats]:
        """(dy, dprice), refined twice."""
        dy, dprice = self._eliminated(force, np.zeros(len(self.m)))
        for _ in range(2):
            lacking = force - self.pairs.demand(self.d * self.pairs.slack(dy)) - self.own * dy
            lacking -= self.weight[:, None] * dprice
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
    """The factor of a positive definite ``matrix``, with as much added to the diagonal as rounding requires."""
    diagonal = np.arange(len(matrix))
    size, more = matrix[diagonal, diagonal].copy(), REGULAR / 100
    while True:
        matrix[diagonal, diagonal] += more * size
        try:
            return linalg.cho_factor(matrix, check_finite=False)
        except linalg.LinAlgError:
            more *= 10
