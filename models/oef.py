"""OEF: linear programs that are envy-free when tenants cooperate and strategy-proof when they compete.

Mo, Xu, Lau: Optimal Resource Efficiency with Fairness in Heterogeneous GPU Clusters, Middleware 2024.
"""

from __future__ import annotations

from hetopt.models.fairness import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate

from hetopt.formulation import Formulation


def cooperative() -> Formulation:
    """Cooperative OEF: the largest total normalised throughput among envy-free allocations, [OEF, eq. 10]."""
    return Formulation((TotalRate(), EnvyFree()), title="OEF cooperative")


def noncooperative() -> Formulation:
    """Non-cooperative OEF: the largest total among allocations with equal normalised throughput, [OEF, eq. 9]."""
    return Formulation((TotalRate(), EqualRates()), title="OEF non-cooperative")
