"""Use of GPUs compared with the capacity, in parts of the GPUs of each type.

The unit is the type's own GPUs, not those of the largest type. A solver's tolerance applies to each capacity row alone,
and a type with one GPU is overused by 1e-4 GPUs whether or not another type has thousands.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Numbers


def type_parts(gpus: Numbers | float, capacity: Numbers | float) -> Numbers:
    """``gpus``, with a column per GPU type, as parts of the GPUs of their type; of 1 GPU where it has none."""
    return np.asarray(gpus / np.where(np.asarray(capacity) > 0, capacity, capacity * 0 + 1))


def unused_parts(gpus: Numbers, capacity: Numbers) -> Numbers:
    """(k,) unused part of each GPU type with the GPUs (n, k); below 0: overuse. 1 for an unused type without GPUs."""
    used = gpus.sum(axis=0)
    unused = type_parts(capacity - used, capacity)
    return np.where((capacity > 0) | (used > 0), unused, unused * 0 + 1)
