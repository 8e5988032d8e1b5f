"""The claims of A-SRPT: iterations, mappings, and the ratio of its schedules to the optimum [ASRPT]."""

from __future__ import annotations

from hetopt.proofs.asrpt import (
    approximation_ratio,
    edge_volumes,
    graph_cuts,
    hardness,
    iteration_bounds,
    iteration_equations,
    lemmas,
    prediction_errors,
    proof_steps,
    queue_order,
    reported_results,
)
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    parts = (
        queue_order,
        iteration_equations,
        edge_volumes,
        iteration_bounds,
        graph_cuts,
        hardness,
        lemmas,
        approximation_ratio,
        proof_steps,
        prediction_errors,
        reported_results,
    )
    return tuple(claim for part in parts for claim in part.CLAIMS)
