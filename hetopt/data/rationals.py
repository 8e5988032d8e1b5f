"""Floats as fractions: the simple ones that they round, or exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
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


def number_text(value: float | Fraction) -> str:
    """Format a number: a Fraction exactly, or with six digits if that is too long; a float with six digits."""
    if isinstance(value, Fraction):
        if is_short(value):
            return digits(value)
        try:
            return f"{float(value):.6g}"
        except OverflowError:
            return f"{Decimal(value.numerator) / Decimal(value.denominator):.6g}"
    return f"{value:.6g}"


def is_short(value: Fraction) -> bool:
    """Whether a fraction is shown exactly."""
    return len(digits(value)) <= (30 if value.denominator == 1 else 12)


def exact_texts(values: Iterable[Fraction]) -> str:
    """Format Fractions exactly, or if that is too long as ``about`` six digits; separated by commas."""
    return ", ".join(number_text(v) if is_short(v) else f"about {number_text(v)}" for v in values)


def change_text(before: float | Fraction, after: float | Fraction) -> str:
    """What changed, e.g. ``a rate of 5/3 instead of 3/2``, or ``a rate of 2, as before``."""
    old, new = number_text(before), number_text(after)
    if before == after:
        return f"a rate of {new}, as before"
    return f"a rate of {new} instead of {old}" + (f", {number_text(after - before)} more" if old == new else "")


def numbers_text(values: Iterable[float | Fraction]) -> str:
    """Format numbers, separated by commas."""
    return ", ".join(map(number_text, values))


def simple_fractions(values: ArrayLike) -> NDArray[Any]:
    """``values`` as Fractions: floats as the simple fractions that they round, Fractions unchanged."""
    array = np.asarray(values)
    if array.dtype == object:
        read = [v if hasattr(v, "limit_denominator") else rational(float(v)) for v in array.flat]
        return np.array(read, dtype=object).reshape(array.shape)
    distinct, where = np.unique(array.astype(float), return_inverse=True)
    known = np.array(list(map(rational, distinct.tolist())), dtype=object)
    return np.asarray(known[where.reshape(array.shape)])


def exact_fractions(values: ArrayLike | Sequence[Fraction]) -> NDArray[Any]:
    """``values`` as the fractions that they are exactly: 0.1 as 3602879701896397/36028797018963968."""
    array = np.asarray(values)
    return np.array(list(map(Fraction, array.ravel().tolist())), dtype=object).reshape(array.shape)
