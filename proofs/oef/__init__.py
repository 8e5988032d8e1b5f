"""What OEF claims: a module for each question, the claims of all in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.ledger.claim import Claim
from hetopt.proofs.oef import adjacency as shapes
from hetopt.proofs.oef import compositions, vertices
from hetopt.proofs.oef import envy_and_sharing as fairness
from hetopt.proofs.oef import pareto_efficiency as efficiency
from hetopt.proofs.oef import property_table as properties_table
from hetopt.proofs.oef import reported_results as evaluation
from hetopt.proofs.oef import share_rounding as rounds
from hetopt.proofs.oef import strategy_proofness as reports
from hetopt.proofs.oef import weights_and_job_types as users
from hetopt.proofs.oef import worked_examples as examples


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
