"""Competitive equilibrium from equal incomes: everyone has the same budget (times weight) and buys at market prices.

Maximising sum_e weight[e] * log(rate[e]) under capacity gives exactly that market's outcome (Eisenberg and Gale, 1959):
envy-free, Pareto efficient, and nobody below the rate on an own part of the cluster; the prices are the duals of the
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
