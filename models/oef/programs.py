"""OEF: linear programs that are envy-free when tenants cooperate and strategy-proof when they compete.

Mo, Xu, Lau: Optimal Resource Efficiency with Fairness in Heterogeneous GPU Clusters, Middleware 2024.

Weights [OEF, section 4.2.3] are part of both programs and give what that many replicas of the tenant would get; they
need not be integer. A tenant with several job types [OEF, section 4.2.4] is one virtual tenant per type, among which
its weight is divided. A job type that needs more memory than a GPU type has gets none of it.

Both programs are for tenants. Jobs have no normalised throughput (each has its own unit of work), and their time is
limited, which neither program models: convert them to tenants, or use a policy for jobs.
"""

from __future__ import annotations

from hetopt.checks import boolean
from hetopt.formulations.formulation import Formulation
from hetopt.models.fairness import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.sorting import SortedTypes


def cooperative() -> Formulation:
    """Cooperative OEF: the largest total normalised throughput among envy-free allocations, [OEF, eq. 10].

    Every optimum satisfies the sharing incentive and uses all GPUs that someone can use (Theorem 5.1). It need not be
    Pareto-efficient nor give adjacent types (Theorems 5.3 and 5.2 fail from three tenants on).
    """
    return Formulation((TotalRate(), EnvyFree()), kind="tenants", title="OEF cooperative")


def noncooperative(canonical: bool = False) -> Formulation:
    """Non-cooperative OEF: the largest total among allocations with equal normalised throughput, [OEF, eq. 9].

    Nobody gains by reporting larger speedups (Theorem 5.4 as corrected: smaller ones can pay). Pareto-efficient where
    every speedup is positive.

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
