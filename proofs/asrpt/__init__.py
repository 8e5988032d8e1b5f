"""What A-SRPT claims: iterations, mappings, and how far its schedules are from the optimum [ASRPT]."""

from __future__ import annotations

from hetopt.proofs.asrpt import bounds, cuts, hardness, iteration, lemmas, order, printed, theorem, volumes
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    parts = (order, iteration, volumes, bounds, cuts, hardness, lemmas, theorem, printed)
    return tuple(claim for part in parts for claim in part.CLAIMS)
