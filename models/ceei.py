"""Competitive equilibrium from equal incomes: entities with equal budgets (times weight) buy GPUs at market prices.

Maximising sum_e weight[e] * log(rate[e]) under capacity gives the equilibrium of this market (Eisenberg and Gale,
1959). It is envy-free and Pareto-efficient and satisfies the sharing incentive. The prices are the duals of the
capacity rows, and each tenant's GPUs cost its weight. Jobs have one more row: they run at most all the time.
"""

from __future__ import annotations

from hetopt.formulations.formulation import Formulation
from hetopt.models.concave import LogRate
from hetopt.models.gavel.gavel_components import TimeFraction

__all__ = ["LogRate", "equal_budgets"]


def equal_budgets() -> Formulation:
    """The equal-budget market: the largest sum of weight * log rate."""
    return Formulation((LogRate(), TimeFraction()), title="CEEI")
