"""The claims of OEF: one module for each question."""

from __future__ import annotations

from hetopt.proofs.ledger.claim import Claim
from hetopt.proofs.oef import (
    adjacency,
    compositions,
    envy_and_sharing,
    pareto_efficiency,
    property_table,
    reported_results,
    share_rounding,
    strategy_proofness,
    vertices,
    weights_and_job_types,
    worked_examples,
)


def claims() -> tuple[Claim, ...]:
    """All claims: examples and Table 1, the lemma and the theorems, then the other statements."""
    parts = (
        worked_examples,
        property_table,
        adjacency,
        strategy_proofness,
        envy_and_sharing,
        pareto_efficiency,
        weights_and_job_types,
        vertices,
        share_rounding,
        compositions,
        reported_results,
    )
    return tuple(claim for part in parts for claim in part.CLAIMS)
