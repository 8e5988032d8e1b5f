"""Prices of jobs with which the knapsacks of an FFT round bound its cost well, and plans on the way.

The bound L(p) is concave and piecewise linear. A subgradient at p has, for each job, the number of types whose
knapsacks choose it, less 1 if the knapsack of all types does (:mod:`hetopt.models.fft.knapsacks`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.models.fft.knapsacks import Core
from hetopt.solving.blocks import Flags

STEPS = 150
"""Most steps."""

SMOOTH = 0.7
"""Part of the new subgradient in a step; the rest is the last direction."""

PATIENCE = 5
"""Steps without progress after which steps become shorter."""

PROGRESS = 0.01
"""Part of the distance to the target that counts as progress."""

UNIT = 0.01
"""Part of the mean of all units that is added to a unit."""

POLYAK = 20
"""Steps that start from the last prices; later ones start from the best."""

PARTS = 0.03, 0.3
"""Least and largest part of a new subgradient in the mean direction from the best prices."""

WINDOW, GAIN = 20, 0.1
"""Steps after which the ascent ends if they did not take this part off the distance to the target."""

EVERY = 4
"""Least number of steps between plans."""

Take = Callable[[Flags], float]
"""Takes (m, k) jobs that the knapsacks of single types choose, and returns the target; it may find a plan."""


def ascended(
    core: Core,
    prices: Floats,
    units: Floats,
    target: float,
    take: Take,
    is_late: Callable[[], bool] = lambda: False,
    steps: int = STEPS,
) -> tuple[float, Floats]:
    """The best bound L and its prices after subgradient steps, with step sizes by Polyak towards ``target``.

    The first steps go from the last prices, and are fast. The others go from the best prices in a mean direction
    (the volume algorithm, Barahona and Anbil 2000), and come nearer to the largest bound. Prices move in proportion to
    the square roots of their ``units`` (m,), so that jobs of very different costs move. ``take`` looks for plans on the
    way, which lower the target.
    """
    ascent = _Ascent(core, prices, units, target, take, is_late)
    ascent.from_last(min(steps, POLYAK))
    ascent.from_best(steps - POLYAK)
    return ascent.bound, ascent.prices


class _Ascent:
    """Best bound and prices so far, and the direction and length of the next step."""

    def __init__(
        self, core: Core, prices: Floats, units: Floats, target: float, take: Take, is_late: Callable[[], bool]
    ) -> None:
        self.core, self.target, self.take, self.is_late = core, target, take, is_late
        self.unit = np.sqrt(units + UNIT * units.mean()) if units.any() else np.ones(len(prices))
        self.bound, self.prices, self.size = -np.inf, prices, 1.0
        self.direction, self.steps = np.zeros(len(prices)), EVERY

    @property
    def is_done(self) -> bool:
        return self.bound >= self.target or not self.direction.any() or self.is_late()

    def _evaluate(self, prices: Floats) -> tuple[float, Floats]:
        """The bound at these prices, which become the best if it is higher, and its subgradient."""
        bound, chosen = self.core.knapsacks.bound(prices)
        self.steps += 1
        if bound > self.bound:
            self.bound, self.prices = bound, prices
            if self.steps >= EVERY and bound < self.target:
                self.steps, self.target = 0, min(self.target, self.take(chosen[:, :-1]))
        return bound, chosen[:, :-1].sum(axis=1) - chosen[:, -1].astype(float)

    def _next(self, prices: Floats, bound: float) -> Floats:
        """The prices one step from ``prices``, where the bound is ``bound``."""
        norm = float(self.direction @ (self.unit * self.direction))
        return prices + self.size * (self.target - bound) / norm * self.unit * self.direction

    def from_last(self, steps: int) -> None:
        """Steps that each start where the last one ended."""
        prices, failed = self.prices, 0
        for _ in range(steps):
            before = self.bound
            bound, gradient = self._evaluate(prices)
            failed = 0 if bound > before + PROGRESS * (self.target - bound) else failed + 1
            if failed >= PATIENCE:
                # From the best prices, along the last subgradient: that of the best prices led here.
                self.size, failed, prices, bound = self.size / 2, 0, self.prices, self.bound
                self.direction = np.zeros(len(prices))
            mean = SMOOTH * gradient + (1 - SMOOTH) * self.direction
            self.direction = mean if self.direction.any() else gradient
            if self.is_done:
                break
            prices = self._next(prices, bound)

    def from_best(self, steps: int) -> None:
        """Steps that each start at the best prices, in the mean of the subgradients that is the shortest."""
        failed, far = 0, self.target - self.bound
        for step in range(1, steps + 1):
            if self.is_done:
                break
            before = self.bound
            bound, gradient = self._evaluate(self._next(self.prices, self.bound))
            ahead = float(gradient @ (self.unit * self.direction)) >= 0
            change = self.direction - gradient
            norm = float(change @ (self.unit * change))
            part = float(self.direction @ (self.unit * change)) / norm if norm > 0 else 1.0
            part = float(np.clip(part, *PARTS))
            self.direction = part * gradient + (1 - part) * self.direction
            failed = failed + 1 if bound <= before else 0
            if failed >= PATIENCE:
                self.size, failed = self.size * 2 / 3, 0
            elif bound > before and ahead:
                self.size = min(1.1 * self.size, 2.0)
            if step % WINDOW == 0:
                if self.target - self.bound > (1 - GAIN) * far:
                    break
                far = self.target - self.bound
