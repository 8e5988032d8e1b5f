"""Tie-break among optima: slow types go to the entities that gain least from fast ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.data.entities import Entities, Floats, Kind, Numbers
from hetopt.models.objectives import LinearGain
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, gpus, shared
from hetopt.tolerances import scale


def ratio_ranks(entities: Entities) -> Floats:
    """(n,) ranks 1 … n of the entities by their gain from later GPU types.

    The key is the mean position of the types, weighted by their speeds. For ratio-ordered entities (the ratio between
    every two types grows from one to the next) this is that order; entities with equal ratios keep the order of the
    instance.
    """
    n, k = entities.shape
    per_gpu = np.asarray(entities.per_gpu, dtype=float)
    total = per_gpu.sum(axis=1)
    key = np.divide(per_gpu @ np.arange(k), total, out=np.zeros(n), where=total > 0)
    ranks = np.empty(n)
    ranks[np.argsort(key, kind="stable")] = np.arange(1, n + 1)
    return ranks


@dataclass(frozen=True)
class SortedTypes(LinearGain):
    """Among the optima, the one with the largest gain = sum_ek rank[e] * (k + 1) * w[e, k] * gpus[e, k].

    w is the speed per GPU relative to the first type that the entity can use, k = 0 the first type, rank from
    :func:`ratio_ranks`. With this tie-break [OEF, Theorem 5.2] is true for every ratio-ordered instance: of two
    entities with equal ratios for two types, the later one in the order gets the later type.

    Parameters
    ----------
    priority:
        Below the priorities of the gains that it must not reduce.
    """

    priority: int = -1
    name: str = "sorted_types"

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain per unit of share, scaled to a largest entry of 1."""
        v = entities.per_gpu
        first = v[np.arange(len(v)), entities.allowed.argmax(axis=1)]
        place = np.arange(1, entities.shape[1] + 1)
        first[first == 0] = 1  # runs nowhere: no gain
        rank = entities.numbers(ratio_ranks(entities))[:, None]
        gain = rank * place * (v / first[:, None]) * entities.demand[:, None]
        return np.asarray(gain / entities.number(scale(gain)))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            f"""
            maximise with priority {self.priority}
              gain [OEF, Theorem 5.2] | who gains more from later types has them; a tie-break
                sum(r[e] * j[k] * w[e, k] * {gpus(kind)} {OVER}) / norm
            symbols
              r[e] | place 1, 2, … of e by how much it gains from later types
              j[k] | number 1, 2, … of type k
              w[e, k] | speed of e on type k relative to that on the first type it can use
              norm | largest factor of a share in the sum, so that numbers are about 1
            """,
            symbols=shared(kind),
        )
