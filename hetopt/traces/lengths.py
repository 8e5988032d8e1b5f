"""Lengths of jobs: mixtures of lognormals between a shortest and a longest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hetopt.checks import at_least, shown
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.traces.drawing import Integers, chosen

MOST_LOG = 40.0
"""Means and standard deviations of logarithms go no further: exp(40) seconds are some billions of years."""


@dataclass(frozen=True)
class Lengths:
    """A mixture of lognormal lengths, of which those that are too short or too long are drawn anew.

    Parameters
    ----------
    parts:
        Of each part of the mixture its weight (no unit, relative to the others), and mean and standard deviation of
        the logarithm of the seconds.
    shortest, longest:
        All lengths lie between these, in seconds.

    Raises
    ------
    InvalidOption
        A number out of its range, no part, or (nearly) no length of the mixture between the two.
    """

    parts: tuple[tuple[float, float, float], ...]
    shortest: float
    longest: float

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (tuple, list)) or not self.parts:
            raise InvalidOption(
                f"Lengths.parts is {shown(self.parts)}; it must hold a weight, mean and sd for each part"
            )
        object.__setattr__(self, "parts", tuple(_part(part) for part in self.parts))
        least = at_least(self.shortest, "Lengths.shortest", 0.0, InvalidOption, strict=True)
        at_least(self.longest, "Lengths.longest", least, InvalidOption, strict=True)
        if not any(self.weights > 0):
            raise InvalidOption(
                f"Lengths.shortest and longest are {self.shortest!r} and {self.longest!r} s; "
                "no part with a weight has lengths between them"
            )

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats]:
        weight, mean, sd = np.array(self.parts, dtype=float).T
        return weight, mean, sd

    @property
    def _levels(self) -> tuple[Floats, Floats]:
        """Of each part: how much of it is shorter than the shortest, and than the longest."""
        _, mean, sd = self._columns
        return ndtr((np.log(self.shortest) - mean) / sd), ndtr((np.log(self.longest) - mean) / sd)

    @property
    def weights(self) -> Floats:
        """Weight of each part among the lengths that are neither too short nor too long."""
        below, above = self._levels
        return np.asarray(self._columns[0] * (above - below))

    @property
    def spreads(self) -> Floats:
        """Standard deviation of each part's logarithm, before it is cut."""
        return self._columns[2]

    def part(self, levels: Floats) -> Integers:
        """Which part each level in [0, 1) draws."""
        return chosen(self.weights.tolist(), levels)

    def seconds(self, part: Integers, normal: Floats) -> Floats:
        """Lengths of these parts whose places within them are those of standard normal numbers."""
        _, mean, sd = self._columns
        below, above = self._levels
        place: NDArray[np.float64] = below[part] + ndtr(normal) * (above - below)[part]
        with np.errstate(over="ignore"):  # at places 0 and 1 of a part that is not cut there; the clip says it
            drawn = np.exp(mean[part] + sd[part] * ndtri(place))
        return np.clip(drawn, self.shortest, self.longest)


def _part(part: object) -> tuple[float, float, float]:
    if not isinstance(part, (tuple, list)) or len(part) != 3:
        raise InvalidOption(f"Lengths.parts has {shown(part)}; each must be a weight, a mean and a standard deviation")
    weight = at_least(part[0], "a weight of Lengths.parts", 0.0, InvalidOption)
    mean = at_least(part[1], "a mean of Lengths.parts", -MOST_LOG, InvalidOption)
    sd = at_least(part[2], "a standard deviation of Lengths.parts", 0.0, InvalidOption, strict=True)
    if max(mean, sd) > MOST_LOG:
        raise InvalidOption(f"Lengths.parts has {shown(part)}; mean and standard deviation may be {MOST_LOG:g} at most")
    return weight, mean, sd
