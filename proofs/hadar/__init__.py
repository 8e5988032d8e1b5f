"""The claims of Hadar and HadarE: one module for each question."""

from __future__ import annotations

from hetopt.proofs.hadar import (
    admission_prices,
    algorithm_2,
    busy_nodes,
    competitive_ratio,
    copy_ids,
    copy_utilisation,
    cost_relation,
    heterogeneity_table,
    motivating_example,
    price_slopes,
    problem_equivalence,
    ratio_families,
    reported_results,
)
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All claims: Table I, example, problems, prices and theorems of Hadar, then HadarE, then printed results."""
    hadar = (
        heterogeneity_table,
        motivating_example,
        problem_equivalence,
        admission_prices,
        algorithm_2,
        cost_relation,
        price_slopes,
        competitive_ratio,
        ratio_families,
    )
    hadare = (copy_ids, busy_nodes, copy_utilisation, reported_results)
    return tuple(claim for part in (*hadar, *hadare) for claim in part.CLAIMS)
