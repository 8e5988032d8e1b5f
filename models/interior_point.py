"""Interior-point method for programs over shares whose entities are coupled only by the k capacity rows.

Over shares x >= 0 of n entities and k GPU types (idle, left, over: slacks):

    maximise  sum_ke profit[k,e] x[k,e]  +  sum_e gain_e(y[e])  +  t
    time      sum_k x[k,e] + idle[e] = 1                              (jobs; none for tenants)
    capacity  sum_e demand[e] x[k,e] + left[k] = capacity[k]
    rate      sum_k speed[k,e] x[k,e] = y[e],  or  = floor_e(t) + over[e]

with concave gains and convex, increasing floors. A Newton step is reduced entity by entity (2 x 2) to a matrix over the
k capacity rows (and t). Mehrotra's predictor-corrector method needs 10 to 40 such steps. Any prices give an upper bound
on the optimum (:func:`bound`), which proves the result. Tables are (k, n) here: numpy is fastest along the long axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.models.concave import AlphaFair
from hetopt.tolerances import CONVERGED, PROVEN, REGULAR, START


@dataclass(frozen=True, eq=False)
class SlackLayout:
    """Positions of the slacks in one vector and of their multipliers in another, for elementwise products.

    In order: x with z, (k, n); left with price, (k,); idle with v, (n,), with time rows; over with u, (n,), with
    floors.
    """

    k: int
    n: int
    timed: bool
    floored: bool

    def __post_init__(self) -> None:
        ends = np.cumsum([self.k * self.n, self.k, self.n * self.timed, self.n * self.floored]).tolist()
        for key, start, end in zip(("x", "left", "idle", "over"), (0, *ends), ends, strict=False):
            object.__setattr__(self, key, slice(start, end))
        object.__setattr__(self, "size", ends[-1])

    x: slice = field(init=False)
    left: slice = field(init=False)
    idle: slice = field(init=False)
    over: slice = field(init=False)
    size: int = field(init=False)


@dataclass(eq=False)
class Iterate:
    """Slacks and multipliers in :class:`SlackLayout` order; rates y, level t, slopes of gains; or changes of these."""

    layout: SlackLayout
    slack: Floats
    price_of: Floats
    y: Floats
    t: float
    slope: Floats

    @property
    def x(self) -> Floats:
        """(k, n) shares."""
        return self.slack[self.layout.x].reshape(self.layout.k, self.layout.n)

    @property
    def z(self) -> Floats:
        """(k, n) multipliers of x >= 0."""
        return self.price_of[self.layout.x].reshape(self.layout.k, self.layout.n)

    @property
    def left(self) -> Floats:
        """(k,) unused GPUs."""
        return self.slack[self.layout.left]

    @property
    def price(self) -> Floats:
        """(k,) prices of GPUs."""
        return self.price_of[self.layout.left]

    @property
    def idle(self) -> Floats:
        """(n,) unused time; empty without time rows."""
        return self.slack[self.layout.idle]

    @property
    def v(self) -> Floats:
        """(n,) prices of time; zeros without time rows."""
        return self.price_of[self.layout.idle] if self.layout.timed else np.zeros(self.layout.n)

    @property
    def over(self) -> Floats:
        """(n,) rates above the floors; empty without floors."""
        return self.slack[self.layout.over]

    @property
    def u(self) -> Floats:
        """(n,) multipliers of the rate rows."""
        return self.price_of[self.layout.over] if self.layout.floored else self.slope

    def moved(self, change: Iterate, primal: float, dual: float) -> Iterate:
        """This state after a step of these lengths."""
        return Iterate(
            self.layout,
            self.slack + primal * change.slack,
            self.price_of + dual * change.price_of,
            self.y + primal * change.y,
            self.t + primal * change.t,
            self.slope + dual * change.slope,
        )


STEPS = 100
"""Limit of steps; the result at the limit is judged by its bound."""

PATIENCE = 3
"""Steps without progress near the proof after which rounding dominates. Concave gains continue until then: they are
flat at the optimum, so rates have only half as many correct digits as the gain."""

RESIDUAL_LIMIT = 100.0
"""Value of the residuals, relative to the complementarity products, above which these are not decreased further."""

REFINED = 1e-3
"""Steps of linear programs are refined twice once residuals are worth more than this part of the complementarity
products; in others residuals come from curvature."""

BOUNDARY_FRACTION = 0.995
"""Largest fraction of the step to the boundary."""


LEVEL_FRACTION = 0.7
"""Largest fraction of the distance to ``SharesProgram.most`` for t in a step, since floors are steep there."""


Floor = Callable[[float], tuple[Floats, Floats, Floats]]
"""t -> (n,) rates required at t, with first (> 0) and second (>= 0) derivatives."""


@dataclass(frozen=True, eq=False)
class SharesProgram:
    """The program of the module docstring; exactly one of ``profit``, ``gain``, ``floor`` is given.

    Attributes
    ----------
    speed:
        (k, n); every entity has a positive speed.
    demand, capacity:
        (n,), (k,); positive.
    timed:
        Whether there are time rows.
    profit, gain, floor:
        The objective; (k, n), n gains, or n floors.
    start, most:
        With ``floor``: a t whose floors lie below all rates of :func:`centre`, and a strict upper bound on t.
    """

    speed: Floats
    demand: Floats
    capacity: Floats
    timed: bool
    profit: Floats | None = None
    gain: AlphaFair | None = None
    floor: Floor | None = None
    start: float = 0.0
    most: float = np.inf


def centre(capacity: Floats, demand: Floats, timed: bool) -> Floats:
    """(k,) strictly feasible common shares: half the equal share of the GPUs, or of the time if that is less."""
    part = capacity / demand.sum()
    return np.asarray(0.5 * (np.minimum(part, 1.0 / len(capacity)) if timed else part))


def _beginning(program: SharesProgram) -> Iterate:
    """A strictly feasible initial state: equal shares, and average earnings of types as prices."""
    n = len(program.demand)
    x = np.repeat(centre(program.capacity, program.demand, program.timed)[:, None], n, axis=1)
    y = (program.speed * x).sum(axis=0)
    over, u = np.zeros(n), np.zeros(n)
    if program.gain is not None:
        u = program.gain.slope(y)
    elif program.floor is not None:
        demanded, growth, _ = program.floor(program.start)
        over = y - demanded
        u = 1.0 / over / float((growth / over).sum())
    earned = u * program.speed if program.profit is None else program.profit
    price = earned.sum(axis=1) / program.demand.sum()
    price = np.maximum(price, 0.1 * price.mean())  # unused types start with a positive price, too
    cost = program.demand * price[:, None]
    beyond = np.maximum((earned - cost).max(axis=0), 0.0) + earned.mean(axis=0)
    if not program.timed:
        price = price * float(((earned + earned.mean(axis=0)) / cost).max())
        cost, beyond = program.demand * price[:, None], np.zeros(n)
    k = len(program.capacity)
    layout = SlackLayout(k, n, program.timed, program.floor is not None)
    left = program.capacity - x @ program.demand
    slack, dual = [x.ravel(), left], [(cost + beyond - earned).ravel(), price]
    if layout.timed:
        slack, dual = [*slack, 1.0 - x.sum(axis=0)], [*dual, beyond]
    if layout.floored:
        slack, dual = [*slack, over], [*dual, u]
    return Iterate(layout, np.concatenate(slack), np.concatenate(dual), y, program.start, u)


class _Newton:
    """The linear system of one step, reduced entity by entity to the k capacity rows and t.

    The attributes ``missed_*`` are the residuals of rates, capacity, time and stationarity in y and t. Capacity and
    time hold from the start up to rounding, which grows if a type is fully used; the other equations are linear.
    """

    def __init__(self, program: SharesProgram, s: Iterate) -> None:
        self.program, self.s, self.layout = program, s, s.layout
        self.x, self.z, self.v, self.u = s.x, s.z, s.v, s.u
        n = len(program.demand)
        none = np.zeros(n)
        self.rows = program.speed if program.profit is None else np.zeros_like(program.speed)
        self.missed_rate, self.missed_y, self.missed_t = none, none, 0.0
        self.growth, self.bend, own = none, none, np.ones(n)
        value = (program.speed * self.x).sum(axis=0) if program.profit is None else none
        if program.gain is not None:
            self.bend = program.gain.curvature(s.y)
            self.missed_rate, self.missed_y, own = s.y - value, program.gain.slope(s.y) - self.u, 1.0 / self.bend
        elif program.floor is not None:
            demanded, self.growth, self.bend = program.floor(s.t)
            self.missed_rate, own = demanded + s.over - value, s.over / self.u
            self.missed_t = 1.0 - float(self.growth @ self.u)
        self.missed_capacity = program.capacity - self.x @ program.demand - s.left
        self.missed_time = 1.0 - self.x.sum(axis=0) - s.idle if program.timed else none
        self._reduce(own)

    def _reduce(self, own: Floats) -> None:
        """The blocks of the entities, written without cancellation if a single type has nearly all weight."""
        program, s = self.program, self.s
        self.weight = self.x / self.z
        total = self.weight.sum(axis=0)
        mean = (self.rows * self.weight).sum(axis=0) / total
        spread = (self.weight * (self.rows - mean) ** 2).sum(axis=0)
        if program.timed:
            idle = s.idle / self.v
            self.over_time = 1.0 / (total + idle)
            spread += mean**2 * total * idle * self.over_time
        else:
            self.over_time = np.zeros_like(total)
            spread += mean**2 * total
        self.own, self.curve = own, own + spread
        self.shift = mean * total * self.over_time
        self.timing = program.demand * self.weight
        self.coupling = self.timing * (self.shift - self.rows)

    def matrix(self) -> Floats:
        """(k, k), or (k + 1, k + 1) with t."""
        k, has_t = len(self.program.capacity), self.program.floor is not None
        matrix = np.zeros((k + has_t, k + has_t))
        scaled = self.coupling / self.curve
        own = self.timing @ self.program.demand
        matrix[:k, :k] = -(self.timing * self.over_time) @ self.timing.T - scaled @ self.coupling.T
        linear = self.program.profit is not None
        if linear or not self.program.timed:
            # Without a difference, since a single type may have nearly all of an entity's weight.
            if self.program.timed:
                rest = ((1.0 - np.eye(k)) @ self.weight + self.s.idle / self.v) * self.over_time
            else:
                rest = ((1.0 - np.eye(k)) @ (self.rows**2 * self.weight) + self.own) / self.curve
            own = (self.timing * rest) @ self.program.demand
            np.fill_diagonal(matrix[:k, :k], 0.0)
        diagonal = matrix.ravel()[: k * (k + has_t) : k + has_t + 1]
        diagonal += own + self.s.left / self.s.price
        if linear:
            diagonal *= 1.0 + REGULAR  # at a vertex it may be singular; the step is refined
        if has_t:
            matrix[:k, k] = matrix[k, :k] = scaled @ self.growth
            matrix[k, k] = -float(self.growth @ (self.growth / self.curve)) - float(self.u @ self.bend)
        return matrix

    def step(self, inverse: Floats, aims: Floats, refinements: int) -> Iterate:
        """Newton step that meets all rows and changes each product (in layout order) by its aim, to first order.

        Parameters
        ----------
        refinements:
            How often the step is corrected for the residuals of its rows. Near a vertex shares are so sensitive to
            prices that rounding a price causes row residuals worth more than all complementarity products. The
            correction is small, and so is its rounding error.
        """
        program, s, at = self.program, self.s, self.layout
        wanted = aims / s.price_of
        base = wanted[at.x].reshape(at.k, at.n)
        rate = np.zeros(at.n)
        if program.profit is None:
            rate = self.missed_rate - (self.rows * base).sum(axis=0)
            rate += self.missed_y / self.bend if program.gain is not None else wanted[at.over]
        time = base.sum(axis=0) - self.missed_time
        if at.timed:
            time += wanted[at.idle]
        used = base @ program.demand - self.missed_capacity + wanted[at.left]
        dual, u, t = self._duals(inverse, rate, time, used, self.missed_t)
        y = (self.missed_y - u) / self.bend if program.gain is not None else np.zeros(at.n)
        found = Iterate(at, wanted - s.slack * dual / s.price_of, dual, y, t, u)
        for _ in range(refinements):
            found = self._refined(inverse, found)
        return found

    def _duals(
        self, inverse: Floats, rate: Floats, time: Floats, used: Floats, missed_t: float
    ) -> tuple[Floats, Floats, float]:
        """Changes of all multipliers, of u and of t that make good these residuals of the rows."""
        program, at = self.program, self.layout
        joined = (rate + self.shift * time) / self.curve
        right = np.empty(len(inverse))
        right[: at.k] = used - self.timing @ (time * self.over_time) - self.coupling @ joined
        if at.floored:
            right[at.k] = float(self.growth @ joined) - missed_t
        solved = inverse @ right
        price, t = solved[: at.k], float(solved[-1]) if at.floored else 0.0
        u = joined - (price @ self.coupling - self.growth * t) / self.curve
        v = (time - price @ self.timing) * self.over_time + self.shift * u
        dual = np.empty(at.size)
        dual[at.x] = (v + program.demand * price[:, None] - self.rows * u).ravel()
        dual[at.left] = price
        if at.timed:
            dual[at.idle] = v
        if at.floored:
            dual[at.over] = u
        return dual, u, t

    def _refined(self, inverse: Floats, step: Iterate) -> Iterate:
        """A step, corrected for the residuals of its rows."""
        program, s, at = self.program, self.s, self.layout
        rate, missed_t = np.zeros(at.n), 0.0
        if program.profit is None:
            rate = self.missed_rate - (self.rows * step.x).sum(axis=0) + step.y
            if at.floored:
                rate += self.growth * step.t + step.over
                missed_t = self.missed_t - float(self.growth @ step.u) - float(self.u @ self.bend) * step.t
        time = step.x.sum(axis=0) - self.missed_time
        if at.timed:
            time += step.idle
        used = step.x @ program.demand + step.left - self.missed_capacity
        dual, u, t = self._duals(inverse, rate, time, used, missed_t)
        y = step.y - u / self.bend if program.gain is not None else step.y
        slack = step.slack - s.slack * dual / s.price_of
        return Iterate(at, slack, step.price_of + dual, y, step.t + t, step.slope + u)

    def missed(self) -> float:
        """The value of all residuals at the current multipliers."""
        s = self.s
        worth = float(np.abs(self.missed_y) @ s.y) + float(np.abs(self.missed_rate) @ self.u)
        worth += float(np.abs(self.missed_time) @ self.v)
        return worth + float(np.abs(self.missed_capacity) @ s.price) + abs(self.missed_t * s.t)


def _room(value: Floats, change: Floats) -> float:
    """Largest step, at most 1, for which ``value`` stays >= 0."""
    ratio = float((change / value).min())
    return 1.0 if ratio >= -1.0 else -1.0 / ratio


def _lengths(program: SharesProgram, s: Iterate, d: Iterate, curved: bool) -> tuple[float, float]:
    """(primal, dual) step lengths; equal where gains or floors are curved."""
    primal, dual = _room(s.slack, d.slack), _room(s.price_of, d.price_of)
    if program.gain is not None:
        primal = min(primal, _room(s.y, d.y))
    if d.t > 0:
        primal = min(primal, LEVEL_FRACTION * (program.most - s.t) / d.t)
    if curved:
        primal = dual = min(primal, dual)
    return primal, dual


def solve(program: SharesProgram, check: Callable[[], None]) -> tuple[Iterate, int]:
    """The best state, and the number of steps; judge it by :func:`bound`.

    Its slacks are those with the smallest products and residuals, its prices those with the least bound near the end:
    where several vertices are optimal, one step may improve the prices and spoil the slacks.

    ``check`` is called before each step, and may raise if the time limit is exceeded.
    """
    s = best = other = _beginning(program)
    goal = CONVERGED if program.gain is None else float(np.finfo(float).eps)
    least, least_bound, idle, steps = np.inf, np.inf, 0, 0
    with np.errstate(all="ignore"):  # the last steps of a concave program may leave the range of floats
        while steps < STEPS:
            check()
            newton = _Newton(program, s)
            worth = max(float(s.price @ program.capacity) + float(s.v.sum()), abs(s.t))
            missed = newton.missed()
            open_ = (float((s.slack * s.price_of).sum()) + missed) / worth
            best, least, idle = (s, open_, 0) if open_ < least else (best, least, idle + (least < PROVEN))
            if s is not best and least < START and (own := bound(program, s)) < least_bound:
                other, least_bound = s, own
            matrix = newton.matrix()
            if idle > PATIENCE or least <= goal or not np.isfinite(matrix).all():
                break
            s = _stepped(program, s, newton, _inverse(matrix), missed)
            steps += 1
        prices = other if least_bound < bound(program, best) else best
    return replace(best, price_of=prices.price_of, slope=prices.slope, t=prices.t), steps


def _inverse(matrix: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True, rcond=0.0))


def _stepped(program: SharesProgram, s: Iterate, newton: _Newton, inverse: Floats, missed: float) -> Iterate:
    """Mehrotra's step: the predictor determines the centring of the corrector."""
    products = s.slack * s.price_of
    total, count = float(products.sum()), products.size
    curved = bool(newton.bend.any())
    refinements = 0 if curved else 2 if missed > REFINED * total else int(program.profit is not None)
    guess = newton.step(inverse, -products, refinements)
    primal, dual = _lengths(program, s, guess, curved)
    after = float(((s.slack + primal * guess.slack) * (s.price_of + dual * guess.price_of)).sum())
    # No decrease while residuals dominate, or the products vanish before these do.
    part = max((max(after, 0.0) / total) ** 3, 1.0 if missed > RESIDUAL_LIMIT * total else 0.0)
    aim = part * total / count
    second = min(primal, dual) * guess.slack * guess.price_of
    step = newton.step(inverse, aim - products - second, refinements)
    primal, dual = _lengths(program, s, step, curved)
    return s.moved(step, min(1.0, BOUNDARY_FRACTION * primal), min(1.0, BOUNDARY_FRACTION * dual))


def bound(program: SharesProgram, s: Iterate) -> float:
    """Upper bound on the optimum: the Lagrangian bound at the prices and rate duals of ``s``, valid for any.

    With v = the largest profit of a type beyond its price, it is
    ``price @ capacity + sum(v) + max_y sum(gain(y) - u y)``, or ``+ max_t (t - u @ floor(t))``.
    """
    price, earned = np.maximum(s.price, 0.0), program.profit
    cost, rest = program.demand * price[:, None], 0.0
    if earned is None:
        u = np.maximum(s.u, 0.0)
        if not program.timed:
            never = np.full_like(cost, np.inf)
            u = np.minimum(u, np.divide(cost, program.speed, out=never, where=program.speed > 0).min(axis=0))
        if program.floor is not None:
            demanded, growth, _ = program.floor(s.t)
            factor = 1.0 / float(growth @ u)
            price, cost, u = price * factor, cost * factor, u * factor
            rest = s.t - float(u @ demanded)
        elif program.gain is not None:
            y = program.gain.at_slope(u)
            rest = float((program.gain.value(y) - u * y).sum())
        earned = u * program.speed
    beyond = float(np.maximum((earned - cost).max(axis=0), 0.0).sum()) if program.timed else 0.0
    return float(price @ program.capacity) + beyond + rest
