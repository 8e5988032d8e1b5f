"""Floats read as the fractions that were meant."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import ArrayLike, NDArray

from hetopt.tolerances import RATIONAL_DENOMINATOR, ROUNDING


def rational(value: float, largest: int) -> Fraction:
    """The fraction that a float is meant to be.

    The nearest fraction with a denominator up to ``largest`` where it is as near as rounding leaves it
    (:data:`~hetopt.tolerances.ROUNDING`); else ``value`` exactly.
    """
    exact = Fraction(value)
    simple = exact.limit_denominator(largest)
    return simple if abs(simple - exact) <= Fraction(ROUNDING) * abs(exact) else exact


def digits(value: Fraction) -> str:
    """``value`` as text, e.g. ``21/4``, however long: Python refuses some thousand digits, which exact optima have."""
    return str(fmpq(value.numerator, value.denominator))


def fractions(values: ArrayLike) -> NDArray[Any]:
    """``values`` as Fractions: floats as the simple fractions that they round, Fractions as they are.

    Each distinct float is read once.
    """
    array = np.asarray(values)
    if array.dtype == object:
        read = [v if hasattr(v, "limit_denominator") else rational(float(v), RATIONAL_DENOMINATOR) for v in array.flat]
        return np.array([*read, None], dtype=object)[:-1].reshape(array.shape)  # None keeps numpy from guessing a type
    distinct, where = np.unique(array.astype(float), return_inverse=True)
    known = np.array([*(rational(v, RATIONAL_DENOMINATOR) for v in distinct.tolist()), None], dtype=object)
    return np.asarray(known[where.reshape(array.shape)])
