"""What OEF claims: a module for each question, the claims of all in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.ledger.claim import Claim
from hetopt.proofs.oef import (
    compositions,
    efficiency,
    evaluation,
    examples,
    fairness,
    properties_table,
    reports,
    rounds,
    shapes,
    users,
    vertices,
)


def claims() -> tuple[Claim, ...]:
    """All of them: examples and Table 1, then the lemma and the theorems, then what stands between."""
    parts = (
        examples,
        properties_table,
        shapes,
        reports,
        fairness,
        efficiency,
        users,
        vertices,
        rounds,
        compositions,
        evaluation,
    )
    return tuple(claim for part in parts for claim in part.CLAIMS)
