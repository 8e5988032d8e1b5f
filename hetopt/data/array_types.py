"""Types of arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[Any]
"""Floats, or Fractions (dtype object)."""
Integers: TypeAlias = NDArray[np.int64]
Positions: TypeAlias = NDArray[np.intp]
"""Positions in another array."""
