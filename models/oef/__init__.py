"""OEF: linear programs that are envy-free when tenants cooperate and strategy-proof when they compete."""

from hetopt.models.oef.oef_formulations import SortedTypes, cooperative, noncooperative

__all__ = ["SortedTypes", "cooperative", "noncooperative"]
