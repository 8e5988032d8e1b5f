"""What A-SRPT claims: iterations, mappings, and how far its schedules are from the optimum [ASRPT]."""

from __future__ import annotations

from hetopt.proofs.asrpt import edge_volumes as volumes
from hetopt.proofs.asrpt import graph_cuts as cuts
from hetopt.proofs.asrpt import hardness, lemmas
from hetopt.proofs.asrpt import iteration_bounds as bounds
from hetopt.proofs.asrpt import iteration_equations as iteration
from hetopt.proofs.asrpt import queue_order as order
from hetopt.proofs.asrpt import reported_results as printed
from hetopt.proofs.asrpt import theorem_1 as theorem
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    parts = (order, iteration, volumes, bounds, cuts, hardness, lemmas, theorem, printed)
    return tuple(claim for part in parts for claim in part.CLAIMS)
