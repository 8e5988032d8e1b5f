"""Slacks and their multipliers for :mod:`hetopt.models.interior`, in two vectors, so that a step takes few calls."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetopt.data.entities import Floats


@dataclass(frozen=True, eq=False)
class Layout:
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
class State:
    """Slacks and multipliers in :class:`Layout` order; rates y, level t, slopes of gains; or changes of these."""

    layout: Layout
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

    def moved(self, change: State, primal: float, dual: float) -> State:
        """This state after a step of these lengths."""
        return State(
            self.layout,
            self.slack + primal * change.slack,
            self.price_of + dual * change.price_of,
            self.y + primal * change.y,
            self.t + primal * change.t,
            self.slope + dual * change.slope,
        )
