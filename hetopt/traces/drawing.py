"""What generators of traces share: independent streams of random numbers, shares, names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, at_least, is_text, shown, whole
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption

Integers = NDArray[np.int64]
Names = NDArray[np.object_]
K = TypeVar("K")


def streams(seed: int, parts: int, first: int = 0) -> list[np.random.Generator]:
    """A generator of random numbers for each part of a trace, so that no part shifts another; numbered from ``first``.

    Raises
    ------
    InvalidOption
        ``seed`` is no whole number >= 0.
    """
    seed = whole(seed, "seed", 0)
    return [np.random.default_rng([seed, part]) for part in range(first, first + parts)]


def numbered(letter: str, number: int) -> Names:
    """``j1``, ``j2``, …"""
    return np.array([f"{letter}{i + 1}" for i in range(number)], dtype=object)


def chosen(shares: Sequence[float], levels: Floats) -> Integers:
    """Positions drawn in proportion to their shares by levels in [0, 1)."""
    below = np.cumsum(shares)
    last = int(np.flatnonzero(shares)[-1])  # a level so near to 1 that its product is rounded up shall find it, too
    return np.asarray(np.minimum(np.searchsorted(below, levels * below[-1], side="right"), last), dtype=np.int64)


def gpu_shares(given: Any, key: str) -> FrozenDict[int, float]:
    """Number of GPUs -> how often a job asks for so many, checked and sorted."""
    found = _shares(given, key, "numbers of GPUs", lambda n: whole(n, f"a key of {key}", 1))
    return FrozenDict(sorted(found.items()))


def name_shares(given: Any, key: str) -> FrozenDict[str, float]:
    """Name -> its share, checked; may be empty."""
    if isinstance(given, Mapping) and not given:
        return FrozenDict()
    return FrozenDict(_shares(given, key, "names", lambda name: _name(name, key)))


def _name(name: Any, key: str) -> str:
    if not is_text(name):
        raise InvalidOption(f"{key} has the key {name!r}; it must be a non-empty name on one line")
    return str(name)


def _shares(given: Any, key: str, what: str, check: Callable[[Any], K]) -> dict[K, float]:
    if not isinstance(given, Mapping):
        raise InvalidOption(f"{key} is {shown(given)}; it must be a mapping from {what} to shares")
    found = {check(k): at_least(share, f"{key}[{k!r}]", 0.0, InvalidOption) for k, share in given.items()}
    if not any(found.values()):
        raise InvalidOption(f"{key} is {shown(dict(given))}; at least one must have a share above 0")
    return found
