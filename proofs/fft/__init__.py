"""What the FFT paper claims, in its order."""

from __future__ import annotations

from hetopt.proofs.fft import (
    approximation,
    backlog,
    coefficient,
    compensation,
    evaluation,
    idle,
    largest_first,
    migration,
    owed,
    packing,
    placement,
    preferences,
    rates,
    service,
    shares,
    starvation,
    table_1,
    units,
)
from hetopt.proofs.ledger.claim import Claim

MODULES = (
    migration,
    rates,
    table_1,
    approximation,
    preferences,
    service,
    compensation,
    coefficient,
    shares,
    owed,
    units,
    idle,
    packing,
    largest_first,
    backlog,
    starvation,
    placement,
    evaluation,
)


def claims() -> tuple[Claim, ...]:
    """All claims."""
    return tuple(claim for module in MODULES for claim in module.CLAIMS)
