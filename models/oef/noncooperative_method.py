"""Non-cooperative OEF for many tenants: its linear program as balancing of divisible work over k GPU types.

With p[e, j] = weight[e] / (v[e, j] * capacity[j]) (v: speed per GPU) a tenant's work is one unit of rate per weight,
and the least time in which the types can do all work is the inverse of the largest common level of [OEF, eq. 9].

Tenant e splits one unit of work over the types, z[e, .] >= 0 with sum 1; type j is busy for sum_e p[e, j] z[e, j]; the
busiest type determines the time. The dual has one price per type,

    least time = max { sum_e min_j price[j] * p[e, j]  :  price >= 0, sum_j price[j] = 1 },

so all but a few tenants have one cheapest type. First, Newton's method solves a smoothed dual (k unknowns, all tenants
at once). Then column generation starts from the nearly cheapest pairs (e, j), and adds pairs that its duals price in.
Any prices bound the least time from below (weak duality), which proves the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.rates import equal_share_rate
from hetopt.models.fairness_components import EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point
from hetopt.solving.highs import Session
from hetopt.solving.optimising import Method, exactly, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import FINE, PROVEN

FEW = 400
"""Up to this number of tenants the whole program is solved at once."""

TEMPERATURES = tuple(0.5 / 2.5**i for i in range(8))
"""Smoothing temperatures, decreasing: tenants mix types whose log prices differ by about this much. Two or three Newton
steps suffice per temperature; below the last (about 1e-3) prices do not improve even with 100,000 tenants."""

STEPS = 4
"""Limit of Newton steps per temperature."""


@dataclass(frozen=True, eq=False)
class Balanced:
    """Work split over types, (n, k), the prices that prove it, (k,) with sum 1, and the number of programs solved."""

    split: Floats
    prices: Floats
    passes: int


def balance(time_on: Floats, options: Options) -> Balanced:
    """Split the work of n tenants over k types so that the busiest type finishes as early as possible.

    Parameters
    ----------
    time_on:
        (n, k) time that the whole work of a tenant takes on a type, > 0; infinite where it cannot run.
    options:
        Solver options.

    Returns
    -------
    Balanced
        ``split`` is a vertex: at most n + k - 1 entries are nonzero.
    """
    n = len(time_on)
    time_on = time_on * (n / time_on.min(axis=1).sum())
    kept = np.isfinite(time_on) if n <= FEW else _near_cheapest(_cost(time_on, smooth_prices(time_on)))
    passes = 0
    while True:
        split, prices = _restricted(time_on, kept, options)
        passes += 1
        cost = _cost(time_on, prices)
        cheapest = cost.argmin(axis=1)
        bound = float(cost[np.arange(n), cheapest].sum())
        missing = np.flatnonzero(~kept[np.arange(n), cheapest])
        if not len(missing) or busiest(time_on, split) - bound <= PROVEN * bound:
            return Balanced(split, prices, passes)
        kept[missing, cheapest[missing]] = True


def distributed(split: Floats, group: NDArray[np.intp], weight: Floats) -> Floats:
    """(n, k) split of every member from the (g, k) ``split`` of its group: members fill one type after the other.

    So all members of a group except at most (types of the group - 1) use a single type, and a vertex stays a vertex.
    """
    result = np.asarray(split[group])
    for g in np.flatnonzero((split > 0).sum(axis=1) > 1):
        members = np.flatnonzero(group == g)
        ends = np.cumsum(weight[members])
        types = np.cumsum(split[g]) / split[g].sum() * ends[-1]
        low = np.maximum(ends[:, None] - weight[members, None], types - split[g] / split[g].sum() * ends[-1])
        part = np.minimum(ends[:, None], types) - low
        part[part <= FINE * weight[members, None]] = 0.0
        result[members] = part / part.sum(axis=1, keepdims=True)
    return result


def busiest(time_on: Floats, split: Floats) -> float:
    """Time at which the last type finishes."""
    return float(np.einsum("ej,ej->j", np.where(split > 0, time_on, 0.0), split).max())


def smooth_prices(time_on: Floats) -> Floats:
    """(k,) prices with sum 1 that nearly maximise the dual bound.

    At temperature h tenant e puts the part z[e, j] ~ (price[j] p[e, j])^(-1/h) on type j. The smoothed dual is concave
    and homogeneous; a Newton step in log prices solves one k x k system.
    """
    log_time = np.log(time_on)
    k = time_on.shape[1]
    log_price = np.full(k, -np.log(k))
    for temperature in TEMPERATURES:
        for _ in range(STEPS):
            step = _newton_step(log_time + log_price, np.exp(log_price), temperature)
            largest = float(np.abs(step).max())
            log_price += step * min(1.0, 2 * temperature / largest) if largest > 0 else step
            log_price -= np.log(np.exp(log_price).sum())
            if largest < temperature / 10:
                break
    prices: Floats = np.exp(log_price)
    return prices


def _newton_step(log_cost: Floats, prices: Floats, temperature: float) -> Floats:
    """Newton step of the log prices for the smoothed dual."""
    best = log_cost.min(axis=1, keepdims=True)
    part = np.exp((best - log_cost) / temperature)
    total = part.sum(axis=1, keepdims=True)
    part /= total
    paid = part * np.exp(best - temperature * np.log(total))
    load = paid.sum(axis=0)
    curvature = (np.diag(load) - part.T @ paid) / (temperature * load.sum())
    step: Floats = np.linalg.solve(curvature + np.diag(prices), load / load.sum() - prices)
    return step


def _cost(time_on: Floats, prices: Floats) -> Floats:
    """(n, k) price of a tenant's work on each type; infinite where it cannot run, even at price 0."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(time_on), time_on * prices, np.inf)


def _near_cheapest(cost: Floats) -> NDArray[np.bool_]:
    """Candidate pairs, within a ratio of the cheapest at which a multiple of sqrt(n) tenants keep two or more types.

    The smoothed prices have a statistical error over n tenants, so a fraction 1/sqrt(n) may choose other types.
    """
    n, k = cost.shape
    best = cost.min(axis=1)
    if k == 1:
        return np.ones((n, 1), dtype=bool)
    ratio = np.partition(cost, 1, axis=1)[:, 1] / best
    many = min(n - 1, int(4 * np.sqrt(n)))
    near = cost <= (best * np.partition(ratio, many)[many])[:, None]
    return np.asarray(near & np.isfinite(cost))


def _restricted(time_on: Floats, kept: NDArray[np.bool_], options: Options) -> tuple[Floats, Floats]:
    """Best (split, prices) if tenants use only ``kept`` pairs; tenants with a single pair get no columns."""
    k = time_on.shape[1]
    choosing = kept.sum(axis=1) > 1
    free = np.flatnonzero(choosing)
    busy = np.where(kept & ~choosing[:, None], time_on, 0.0).sum(axis=0)
    row, column = np.nonzero(kept[free])
    pairs = len(row)
    session = Session(_program(time_on[free[row], column], row, column, busy, len(free)), options, approximate=True)
    session.set_tolerance(FINE)
    x, dual, _ = session.values()
    part = np.zeros((len(free), k))
    part[row, column] = np.maximum(x[:pairs], 0.0)
    split = kept.astype(float)
    split[free] = part / part.sum(axis=1, keepdims=True)
    prices = np.maximum(dual[:k], 0.0)
    return split, prices / prices.sum()


def _program(time: Floats, row: NDArray[np.intp], column: NDArray[np.intp], busy: Floats, n: int) -> LinearProgram:
    """Columns: one per pair, and the time of the busiest type (minimised). Rows: the k types, then n tenants."""
    k, pairs = len(busy), len(row)
    entries = np.concatenate([time, np.full(k, -1.0), np.ones(pairs)])
    rows = np.concatenate([column, np.arange(k), k + row])
    columns = np.concatenate([np.arange(pairs), np.full(k, pairs), np.arange(pairs)])
    return LinearProgram.of(
        np.append(np.zeros(pairs), -1.0),
        sparse.coo_array((entries, (rows, columns)), shape=(k + n, pairs + 1)),
        np.concatenate([np.full(k, -np.inf), np.ones(n)]),
        np.concatenate([-busy, np.ones(n)]),
    )


def by_prices(compiled: Compiled, options: Options) -> Point:
    """The optimum of :func:`~hetopt.models.oef.oef_formulations.noncooperative`, a vertex, proven by weak duality.

    If the proof fails, a general solver is used.

    Raises
    ------
    NotSolved
        The time limit of ``options`` was reached.
    """
    began, entities = time.perf_counter(), compiled.entities
    usable = entities.capacity > 0
    able = equal_share_rate(entities) > 0
    program = compiled.program
    if not able.any():
        return Point(program, np.zeros(len(program.c)), 0.0, bound=0.0, status="optimal", method="prices")
    weight = entities.weight[able]
    speeds, group = _distinct(entities.per_gpu[np.ix_(able, usable)])
    with np.errstate(divide="ignore"):
        unit = 1.0 / (speeds * entities.capacity[usable])
    balanced = balance(unit * np.bincount(group, weight)[:, None], options)
    split = distributed(balanced.split, group, weight)
    shares, level = _columns(entities, able, usable, split, busiest(unit[group] * weight[:, None], split))
    x = np.append(shares, level)
    prices, dual = _duals(entities, able, usable, balanced.prices / entities.capacity[usable])
    dual = np.concatenate([prices, dual])
    point = Point(
        program,
        x,
        objective=program.objective(x),
        bound=float(prices @ entities.capacity),
        status="optimal",
        row_dual=dual,
        seconds=time.perf_counter() - began,
        method="prices",
        passes=balanced.passes,
    )
    proven = point.bound - point.objective <= PROVEN * point.bound
    return point if proven else optimise(program, options)


METHOD = Method("oef-noncooperative", exactly(TotalRate, EqualRates), by_prices)


def _distinct(rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The distinct ``rows``, and the index of each row among them; tenants often run the same few models."""
    distinct, group = np.unique(rows, axis=0, return_inverse=True)
    return distinct, group.ravel()


def _columns(
    entities: Entities, able: NDArray[np.bool_], usable: NDArray[np.bool_], split: Floats, least_time: float
) -> tuple[Floats, float]:
    """(n * k,) shares that give the able tenant e the rate weight[e] / least_time, and that rate per weight."""
    rate, them = split * (entities.weight[able] / least_time)[:, None], np.ix_(able, usable)
    share = np.zeros(entities.shape)
    share[them] = np.divide(rate, entities.speed[them], out=np.zeros_like(rate), where=rate > 0)
    return share.ravel(), 1.0 / least_time


def _duals(
    entities: Entities, able: NDArray[np.bool_], usable: NDArray[np.bool_], prices: Floats
) -> tuple[Floats, Floats]:
    """(k,) and (n,) duals of capacity and of equal rates from any ``prices`` per GPU of the usable types.

    A unit of rate costs tenant e ``least[e] = min_j price[j] / v[e, j]``. Once prices are scaled so that ``weight @
    least = sum(weight)``, they and ``1 - least`` on the rows ``rate[e] - weight[e] * level = 0`` are dual feasible.
    Tenants that can use no GPU are excluded: their ``least`` is 0.
    """
    v = entities.per_gpu[:, usable]
    least = np.divide(prices, v, out=np.full(v.shape, np.inf), where=v > 0).min(axis=1)
    least[~able] = 0.0
    factor = entities.weight[able].sum() / (entities.weight @ least)
    least *= factor
    capacity = np.zeros(len(usable))
    capacity[usable] = factor * prices
    capacity[~usable] = (least[:, None] * entities.per_gpu[:, ~usable]).max(axis=0)
    return capacity, 1.0 - least
