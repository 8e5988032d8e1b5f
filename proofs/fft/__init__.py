"""What the FFT paper claims, in its order."""

from __future__ import annotations

from hetopt.proofs.fft import backlog, compensation, migration, starvation
from hetopt.proofs.fft import compensation_effects as owed
from hetopt.proofs.fft import completion_bound as approximation
from hetopt.proofs.fft import constant_rates as rates
from hetopt.proofs.fft import cost_order as preferences
from hetopt.proofs.fft import fair_progress as shares
from hetopt.proofs.fft import fairness_coefficient as coefficient
from hetopt.proofs.fft import gang_packing as largest_first
from hetopt.proofs.fft import gang_packing as packing
from hetopt.proofs.fft import idle_fast_gpu as idle
from hetopt.proofs.fft import placement_stability as placement
from hetopt.proofs.fft import reported_results as evaluation
from hetopt.proofs.fft import small_jobs_first as service
from hetopt.proofs.fft import table_1_schedules as table_1
from hetopt.proofs.fft import work_units as units
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
