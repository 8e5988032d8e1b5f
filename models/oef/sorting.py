"""Which of several optima: one that gives slow types to those who gain least from fast ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.tolerances import scale


def ratio_ranks(entities: Entities) -> Floats:
    """(n,) places 1 … n of the entities by how much they gain from later GPU types.

    The key is the mean position of the types, each weighted by the speed on it. Where entities are ratio-ordered (the
    ratio between every two types grows from one to the next) this is that order; entities with the same ratios keep the
    order of the instance.
    """
    n, k = entities.shape
    total = entities.per_gpu.sum(axis=1)
    key = np.divide(entities.per_gpu @ np.arange(k), total, out=np.zeros(n), where=total > 0)
    ranks = np.empty(n)
    ranks[np.argsort(key, kind="stable")] = np.arange(1, n + 1)
    return ranks


@dataclass(frozen=True)
class SortedTypes:
    """Among the optima, the one with gain = sum_ek rank[e] * (k + 1) * w[e, k] * gpus[e, k] largest.

    w is the speed per GPU over that on the first type which the entity can use, k = 0 the first type, rank from
    :func:`ratio_ranks`. The tie-break that makes [OEF, Theorem 5.2] true for every ratio-ordered instance: of two
    entities that value two types alike, the one that comes later in the order gets the later type.

    Parameters
    ----------
    priority:
        Below that of the gains it must not harm.
    """

    priority: int = -1
    name: str = "sorted_types"

    def add(self, block: Block, model: Model) -> Expression:
        """The gain; no rows."""
        return model.weighted_shares(self.coefficients(model.entities))

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) gain per unit of share, scaled to a largest entry of 1."""
        v = entities.per_gpu
        first = v[np.arange(len(v)), entities.allowed.argmax(axis=1)]
        place = np.arange(1, entities.shape[1] + 1)
        first[first == 0] = 1.0  # can run nowhere: no gain
        gain = ratio_ranks(entities)[:, None] * place * (v / first[:, None]) * entities.demand[:, None]
        return np.asarray(gain / scale(gain))

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The gain of ``share``."""
        return Measure(gain=float((self.coefficients(entities) * share).sum()))
