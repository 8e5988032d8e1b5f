"""What Hadar and HadarE claim: a module for each question, the claims of all in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.hadar import (
    algorithm,
    competitive,
    copies,
    example,
    families,
    forking,
    job_ids,
    prices,
    programs,
    results,
    slopes,
    steps,
    table,
)
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All of them: Table I, the example, programs, prices and theorems of Hadar, those of HadarE, printed results."""
    hadar = (table, example, programs, prices, algorithm, steps, slopes, competitive, families)
    hadare = (job_ids, forking, copies, results)
    return tuple(claim for part in (*hadar, *hadare) for claim in part.CLAIMS)
