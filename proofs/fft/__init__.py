"""The claims of FFT, one module per question, in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.fft import (
    backlog,
    compensation,
    compensation_effects,
    completion_bound,
    constant_rates,
    cost_order,
    fair_progress,
    fairness_coefficient,
    gang_packing,
    idle_fast_gpu,
    migration,
    placement_stability,
    reported_results,
    small_jobs_first,
    starvation,
    table_1_schedules,
    work_units,
)
from hetopt.proofs.ledger.claim import Claim

MODULES = (
    migration,
    constant_rates,
    table_1_schedules,
    completion_bound,
    cost_order,
    small_jobs_first,
    compensation,
    fairness_coefficient,
    fair_progress,
    compensation_effects,
    work_units,
    idle_fast_gpu,
    gang_packing,
    backlog,
    starvation,
    placement_stability,
    reported_results,
)


def claims() -> tuple[Claim, ...]:
    """All claims."""
    return tuple(claim for module in MODULES for claim in module.CLAIMS)
