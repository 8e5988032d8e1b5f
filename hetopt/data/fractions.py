"""Floats as the fractions that were meant, for claims without tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetopt.rationals import rational
from hetopt.tolerances import RATIONAL_DENOMINATOR


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
