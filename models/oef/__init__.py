"""OEF: linear programs that are envy-free when tenants cooperate and strategy-proof when they compete."""

from hetopt.models.oef.programs import cooperative, noncooperative
from hetopt.models.oef.sorting import SortedTypes

__all__ = ["SortedTypes", "cooperative", "noncooperative"]
