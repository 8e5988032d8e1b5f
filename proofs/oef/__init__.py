"""The claims of OEF, one module per question."""

from __future__ import annotations

from hetopt.proofs.ledger.claim import Claim
from hetopt.proofs.oef import (
    adjacency,
    compositions,
    envy_and_sharing,
    lending,
    pareto_efficiency,
    profitable_misreports,
    proof_steps,
    property_table,
    reported_results,
    share_rounding,
    textbook_rules,
    vertices,
    weights_and_job_types,
    worked_examples,
)


def claims() -> tuple[Claim, ...]:
    """All claims: worked examples and Table 1, the lemma and the theorems, then other statements."""
    modules = (
        worked_examples,
        property_table,
        adjacency,
        profitable_misreports,
        proof_steps,
        envy_and_sharing,
        pareto_efficiency,
        textbook_rules,
        weights_and_job_types,
        vertices,
        share_rounding,
        compositions,
        lending,
        reported_results,
    )
    return tuple(claim for module in modules for claim in module.CLAIMS)
