"""Floats read as the simple fractions that they round."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import ArrayLike, NDArray

from hetopt.tolerances import RATIONAL_DENOMINATOR, ROUNDING


def rational(value: float) -> Fraction:
    """The simple fraction that a float rounds; else ``value`` exactly.

    Simple fractions have denominators up to :data:`~hetopt.tolerances.RATIONAL_DENOMINATOR`; the nearest one counts
    within :data:`~hetopt.tolerances.ROUNDING`.
    """
    exact = Fraction(value)
    simple = exact.limit_denominator(RATIONAL_DENOMINATOR)
    return simple if abs(simple - exact) <= Fraction(ROUNDING) * abs(exact) else exact


def digits(value: Fraction) -> str:
    """``value`` as text, e.g. ``21/4``, of any length; Python's ``str`` refuses thousands of digits."""
    return str(fmpq(value.numerator, value.denominator))


def fractions(values: ArrayLike) -> NDArray[Any]:
    """``values`` as Fractions: floats as the simple fractions that they round, Fractions unchanged."""
    array = np.asarray(values)
    if array.dtype == object:
        read = [v if hasattr(v, "limit_denominator") else rational(float(v)) for v in array.flat]
        return np.array([*read, None], dtype=object)[:-1].reshape(array.shape)  # None keeps numpy from guessing a type
    distinct, where = np.unique(array.astype(float), return_inverse=True)
    known = np.array([*map(rational, distinct.tolist()), None], dtype=object)
    return np.asarray(known[where.reshape(array.shape)])
