"""Floats read as the fractions that were meant, and fractions of any length as text."""

from __future__ import annotations

from fractions import Fraction

from flint import fmpq

from hetopt.tolerances import ROUNDING


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
