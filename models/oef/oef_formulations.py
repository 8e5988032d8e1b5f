"""OEF: linear programs that are envy-free when tenants cooperate and strategy-proof when they compete.

Mo, Xu, Lau: Optimal Resource Efficiency with Fairness in Heterogeneous GPU Clusters, Middleware 2024.

Weights [OEF, section 4.2.3] are part of both programs and give what that many replicas of the tenant would get; they
need not be integer. A tenant with several job types [OEF, section 4.2.4] is one virtual tenant per type, among which
its weight is divided. A job type that needs more memory than a GPU type has gets none of it.

Both programs are for tenants. Jobs have no normalised throughput (each has its own unit of work), and their time is
limited, which neither program models: convert them to tenants, or use a policy for jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.checks import boolean
from hetopt.data.array_types import Floats, Numbers
from hetopt.data.entities import Entities, Kind
from hetopt.formulations.formulation import Formulation
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import LinearGain, TotalRate
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
        first[first == 0] = 1  # no usable type: no gain
        rank = entities.numbers(ratio_ranks(entities))[:, None]
        gain = rank * place * (v / first[:, None]) * entities.demand[:, None]
        return np.asarray(gain / entities.number(scale(gain)))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            f"""
            maximise with priority {self.priority}
              gain [OEF, Theorem 5.2] | entities that gain more from later types get them; a tie-break
                sum(r[e] * j[k] * w[e, k] * {gpus(kind)} {OVER}) / norm
            symbols
              r[e] | rank 1, 2, … of e by its gain from later types
              j[k] | number 1, 2, … of type k
              w[e, k] | speed of e on type k relative to that on the first type it can use
              norm | largest factor of a share in the sum, for scaling
            """,
            symbols=shared(kind),
        )


def cooperative() -> Formulation:
    """Cooperative OEF: the largest total normalised throughput among envy-free allocations, [OEF, eq. 10].

    Every optimum satisfies the sharing incentive and uses all GPUs that any tenant can use (Theorem 5.1). It need not
    be Pareto-efficient nor give adjacent types (Theorems 5.3 and 5.2 fail from three tenants on).
    """
    return Formulation((TotalRate(), EnvyFree()), kind="tenants", title="OEF cooperative")


def noncooperative(canonical: bool = False) -> Formulation:
    """Non-cooperative OEF: the largest total among allocations with equal normalised throughput, [OEF, eq. 9].

    No tenant gains by reporting larger speedups (Theorem 5.4 as corrected: smaller ones can pay). Pareto-efficient
    where every speedup is positive.

    Parameters
    ----------
    canonical:
        Choose, among the optima, one that sorts tenants over types (:class:`~hetopt.models.oef.SortedTypes`), so
        that ratio-ordered tenants get adjacent types even where ratios are tied (Theorem 5.2).
    """
    if boolean(canonical, "canonical"):
        parts = (TotalRate(), EqualRates(), SortedTypes())
        return Formulation(parts, kind="tenants", title="OEF non-cooperative, sorted")
    return Formulation((TotalRate(), EqualRates()), kind="tenants", title="OEF non-cooperative")
