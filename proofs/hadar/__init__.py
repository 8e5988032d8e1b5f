"""The claims of Hadar and HadarE: one module for each question."""

from __future__ import annotations

from hetopt.proofs.hadar import (
    admission_prices,
    algorithm_2,
    batch_rounds,
    busy_nodes,
    competitive_ratio,
    completion_time,
    copy_ids,
    copy_utilisation,
    cost_by_round,
    cost_relation,
    heterogeneity_table,
    initial_estimate,
    motivating_example,
    price_slopes,
    problem_equivalence,
    ratio_families,
    reported_results,
    round_wise,
    training_steps,
)
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All claims: Table I, example, problems, prices and theorems of Hadar, then HadarE, then printed results."""
    hadar = (
        heterogeneity_table,
        motivating_example,
        completion_time,
        problem_equivalence,
        admission_prices,
        cost_by_round,
        algorithm_2,
        cost_relation,
        price_slopes,
        competitive_ratio,
        ratio_families,
        round_wise,
    )
    hadare = (
        copy_ids,
        initial_estimate,
        busy_nodes,
        training_steps,
        copy_utilisation,
        batch_rounds,
        reported_results,
    )
    return tuple(claim for part in (*hadar, *hadare) for claim in part.CLAIMS)
