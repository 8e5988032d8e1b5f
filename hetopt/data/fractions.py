"""The numbers of entities as the fractions that were meant, for claims without tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetopt.data.entities import Entities, Kind
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


@dataclass(frozen=True, eq=False)
class ExactEntities:
    """Entities in Fractions; attributes as those of :class:`~hetopt.data.entities.Entities`."""

    kind: Kind
    speed: NDArray[Any]
    demand: NDArray[Any]
    weight: NDArray[Any]
    capacity: NDArray[Any]

    @classmethod
    def of(cls, entities: Entities) -> ExactEntities:
        """``entities`` with every number read as the fraction that was meant."""
        read = (fractions(getattr(entities, key)) for key in ("speed", "demand", "weight", "capacity"))
        return cls(entities.kind, *read)

    @property
    def per_gpu(self) -> NDArray[Any]:
        """(n, k) speed per GPU."""
        return np.asarray(self.speed / self.demand[:, None])

    @property
    def fair_rate(self) -> NDArray[Any]:
        """(n,) rate with the part ``weight / sum(weight)`` of every GPU type."""
        return np.asarray(self.weight / self.weight.sum() * (self.per_gpu @ self.capacity))
