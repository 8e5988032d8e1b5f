"""Jain's fairness index: how equal the throughputs of several users are, relative to what is fair for each."""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats


def jain_index(throughputs: Floats) -> float:
    """Jain's index ``(sum x)² / (n sum x²)`` of (n,) throughputs x >= 0, each relative to what is fair for its user.

    Between 1/n (one has all) and 1 (all have the same part of what is fair for them). It does not depend on the unit of
    x; if m of n users have the same and the others nothing, it is m/n [R. Jain, D. Chiu, W. Hawe: A Quantitative
    Measure of Fairness and Discrimination for Resource Allocation in Shared Computer Systems, DEC-TR-301, 1984]. NaN
    without users, or if none has anything.
    """
    throughputs = np.asarray(throughputs, dtype=float)
    largest = throughputs.max(initial=0.0)
    if largest <= 0:
        return np.nan
    parts = throughputs / largest  # squares of very small or large numbers would be 0 or infinite
    return float(parts.sum() ** 2 / (len(parts) * (parts @ parts)))
