"""Parts of all generators of traces: their protocol, independent random streams, checked shares, lengths of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hetopt.checks import MOST, FrozenDict, any_mapping, at_least, expect, is_text, shown, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidOption

Names = NDArray[np.object_]
K = TypeVar("K")
V = TypeVar("V")

HOUR, DAY = 3600.0, 86_400.0
"""Seconds."""


@runtime_checkable
class Generator(Protocol):
    """A generator of traces: its settings define the distribution, a seed one trace of it."""

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs in order of arrival.

        Parameters
        ----------
        jobs:
            Number of jobs, >= 1.
        seed:
            The same seed gives the same jobs. Settings do not shift each other's random numbers: with another arrival
            rate, for example, jobs have the same GPUs and lengths.

        Returns
        -------
        DataFrame
            ``job`` (``j1``, ``j2``, …), ``arrival`` and ``duration`` in seconds, ``gpus``, and others of the columns of
            :mod:`hetopt.traces.trace_table`.

        Raises
        ------
        InvalidOption
            ``jobs`` is not a whole number >= 1, or ``seed`` not one >= 0.
        """
        ...


def streams(seed: int, parts: int, first: int = 0) -> list[np.random.Generator]:
    """Independent random streams, one per part of a trace, so that no part shifts another; numbered from ``first``.

    Raises
    ------
    InvalidOption
        ``seed`` is not a whole number >= 0.
    """
    seed = whole(seed, "seed", 0)
    return [np.random.default_rng([seed, part]) for part in range(first, first + parts)]


def numbered(letter: str, number: int) -> Names:
    """``j1``, ``j2``, …"""
    return np.array([f"{letter}{i + 1}" for i in range(number)], dtype=object)


def chosen(shares: Sequence[float], levels: Floats) -> Integers:
    """Draw positions in proportion to their shares, by inverting levels in [0, 1)."""
    below = np.cumsum(shares)
    last = int(np.flatnonzero(shares)[-1])  # for a level so close to 1 that its product rounds up
    return np.asarray(np.minimum(np.searchsorted(below, levels * below[-1], side="right"), last), dtype=np.int64)


def chosen_keys(shares: Mapping[Any, float], levels: Floats) -> NDArray[Any]:
    """Draw keys in proportion to their shares, by inverting levels in [0, 1)."""
    return np.array(list(shares))[chosen([*shares.values()], levels)]


def cut_to(sizes: Integers, total: int) -> Integers:
    """The first of the sizes that sum to ``total``, with the last one cut."""
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, total))
    return np.append(sizes[:last], sizes[last] - (ends[last] - total))


def bursty_hours(jobs: int, per_hour: float, evenness: float, random: np.random.Generator) -> Floats:
    """(jobs,) arrivals in hours, in order: jobs per hour are negative binomial, with ``evenness`` successes."""
    found = np.zeros(0, dtype=np.int64)  # jobs of each hour
    while (left := jobs - int(found.sum())) > 0:
        hours = int(np.ceil(left / per_hour))
        found = np.append(found, random.poisson(random.gamma(evenness, per_hour / evenness, hours)))
    hour = np.repeat(np.arange(len(found)), found)
    return np.asarray(np.sort(hour + random.random(len(hour)))[:jobs])


def gpu_shares(given: Any, key: str) -> FrozenDict[int, float]:
    """Number of GPUs -> relative frequency of jobs with this demand, checked and sorted."""
    found = _shares(given, key, "numbers of GPUs", lambda n: whole(n, f"a key of {key}", 1))
    return FrozenDict(sorted(found.items()))


def name_shares(given: Any, key: str, *, empty: bool = True) -> FrozenDict[str, float]:
    """Name -> its share, checked; may be ``empty``."""
    if empty and isinstance(given, Mapping) and not given:
        return FrozenDict()
    return FrozenDict(_shares(given, key, "names", lambda name: _name(name, key)))


def _name(name: Any, key: str) -> str:
    if not is_text(name):
        raise InvalidOption(f"has the key {name!r}; it must be a non-empty name on one line", key)
    return str(name)


def _shares(given: Any, key: str, what: str, check: Callable[[Any], K]) -> dict[K, float]:
    any_mapping(given, key, InvalidOption, f"from {what} to shares")
    found = {check(k): at_least(share, f"{key}[{k!r}]", 0.0, InvalidOption) for k, share in given.items()}
    if not any(found.values()):
        raise InvalidOption(f"is {shown(dict(given))}; at least one must have a share above 0", key)
    return found


def by_name(given: Any, key: str, names: Collection[str], check: Callable[[Any, str], V]) -> FrozenDict[str, V]:
    """Name -> checked value; there must be one for each of ``names``. ``check`` gets a value and its key."""
    any_mapping(given, key, InvalidOption, f"from names, here {', '.join(names)}")
    if missing := [name for name in names if name not in given]:
        raise InvalidOption(f"has no entry for {', '.join(missing)}; give one", key)
    return FrozenDict({name: check(value, f"{key}[{name!r}]") for name, value in given.items()})


def by_gpus(given: Any, key: str, check: Callable[[Any, str], V]) -> FrozenDict[int, V]:
    """Number of GPUs -> checked value, sorted; there must be one for 1. ``check`` gets a value and its key."""
    any_mapping(given, key, InvalidOption, "from numbers of GPUs")
    found = {whole(n, f"a key of {key}", 1): check(value, f"{key}[{n!r}]") for n, value in given.items()}
    if 1 not in found:
        raise InvalidOption("has no entry for 1 GPU; give one", key)
    return FrozenDict(sorted(found.items(), key=lambda item: item[0]))


def last_at_most(sizes: Iterable[int], gpus: Integers) -> Integers:
    """(jobs,) position of the last of the sorted sizes that is at most the job's GPUs; -1 if there is none."""
    return np.searchsorted(np.array([*sizes]), gpus, side="right") - 1


def interpolated(level: Floats, below: Sequence[float], seconds: Sequence[float]) -> Floats:
    """Lengths at these levels of a distribution of which points are known: their logarithm is linear in between."""
    return np.asarray(np.exp(np.interp(level, below, np.log(seconds))))


@dataclass(frozen=True)
class LengthTable:
    """Lengths by points of their distribution, between which the logarithm of the length is linear.

    Parameters
    ----------
    seconds:
        Lengths > 0 that do not decrease.
    below:
        Share of the jobs that are at most that long; from 0, which the shortest length has, to 1.

    Raises
    ------
    InvalidOption
        A number out of its range, fewer than two points, or numbers that decrease.
    """

    seconds: tuple[float, ...]
    below: tuple[float, ...]

    def __post_init__(self) -> None:
        for key, most in (("seconds", MOST), ("below", 1.0)):
            given, name = getattr(self, key), f"LengthTable.{key}"
            if not isinstance(given, (tuple, list)) or len(given) < 2:
                raise InvalidOption(f"is {shown(given)}; it must hold a number for each of two or more points", name)
            found = tuple(at_least(v, name, 0.0, InvalidOption, strict=key == "seconds", most=most) for v in given)
            if any(a > b for a, b in pairwise(found)):
                raise InvalidOption(f"is {shown(given)}; no number may be smaller than the one before it", name)
            object.__setattr__(self, key, found)
        if len(self.below) != len(self.seconds):
            have = f"have {len(self.seconds)} and {len(self.below)} numbers"
            raise InvalidOption(f"seconds and below {have}; both must have one for each point", "LengthTable")
        if (self.below[0], self.below[-1]) != (0.0, 1.0):
            raise InvalidOption(f"is {shown(self.below)}; it must go from 0 to 1", "LengthTable.below")

    def at(self, level: Floats) -> Floats:
        """Lengths in seconds at these levels of the distribution, from 0 to 1."""
        return interpolated(level, self.below, self.seconds)


def length_table(value: object, key: str) -> LengthTable:
    """``value`` if it is a :class:`LengthTable`."""
    return expect(LengthTable, value, key, InvalidOption)


MOST_LOG = 40.0
"""Largest mean and standard deviation of a logarithm: exp(40) seconds are billions of years."""


@dataclass(frozen=True)
class Lengths:
    """A mixture of lognormal lengths, truncated to an interval.

    Parameters
    ----------
    parts:
        For each part of the mixture: its relative weight (no unit), and mean and standard deviation of the logarithm
        of the seconds.
    shortest, longest:
        Bounds of all lengths in seconds.

    Raises
    ------
    InvalidOption
        A number out of its range, no part, or (almost) no probability mass within the bounds.
    """

    parts: tuple[tuple[float, float, float], ...]
    shortest: float
    longest: float

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (tuple, list)) or not self.parts:
            raise InvalidOption(
                f"is {shown(self.parts)}; it must hold a weight, mean and sd for each part", "Lengths.parts"
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
        """(parts,) probability of each part below the shortest, and below the longest length."""
        _, mean, sd = self._columns
        return ndtr((np.log(self.shortest) - mean) / sd), ndtr((np.log(self.longest) - mean) / sd)

    @property
    def weights(self) -> Floats:
        """(parts,) weight of each part after truncation."""
        below, above = self._levels
        return np.asarray(self._columns[0] * (above - below))

    def similar(self, part: Integers, shared: Floats, own: Floats, within: float) -> Floats:
        """Lengths that are similar within groups, in seconds.

        Parameters
        ----------
        part, shared:
            (n,) part of the mixture, and standard normal number, of each job's group.
        own:
            (n,) standard normal number of each job.
        within:
            Standard deviation of the logarithm within a group; the rest of the variance of a part is between groups.
        """
        alone = np.minimum(1.0, within / self._columns[2])[part]
        return self.seconds(part, np.sqrt(1.0 - alone**2) * shared + alone * own)

    def part(self, levels: Floats) -> Integers:
        """The part that each level in [0, 1) draws."""
        return chosen(self.weights.tolist(), levels)

    def seconds(self, part: Integers, normal: Floats) -> Floats:
        """Lengths in seconds: the quantiles of standard normal numbers, in these truncated parts."""
        _, mean, sd = self._columns
        below, above = self._levels
        level: NDArray[np.float64] = below[part] + ndtr(normal) * (above - below)[part]
        with np.errstate(over="ignore"):  # at levels 0 and 1 of a part that is not truncated there; clipped below
            drawn = np.exp(mean[part] + sd[part] * ndtri(level))
        return np.clip(drawn, self.shortest, self.longest)


def _part(part: object) -> tuple[float, float, float]:
    if not isinstance(part, (tuple, list)) or len(part) != 3:
        raise InvalidOption(
            f"has {shown(part)}; each must be a weight, a mean and a standard deviation", "Lengths.parts"
        )
    weight = at_least(part[0], "a weight of Lengths.parts", 0.0, InvalidOption)
    mean = at_least(part[1], "a mean of Lengths.parts", -MOST_LOG, InvalidOption)
    sd = at_least(part[2], "a standard deviation of Lengths.parts", 0.0, InvalidOption, strict=True)
    if max(mean, sd) > MOST_LOG:
        raise InvalidOption(
            f"has {shown(part)}; mean and standard deviation may be {MOST_LOG:g} at most", "Lengths.parts"
        )
    return weight, mean, sd
