"""The claims of FFT, one module per question, in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.fft import (
    backlog,
    compensation,
    compensation_effects,
    completion_bound,
    constant_coefficient,
    constant_rates,
    cost_order,
    dual_method,
    fair_progress,
    fairness_coefficient,
    gang_packing,
    idle_fast_gpu,
    late_jobs,
    migration,
    other_schedulers,
    placement_stability,
    reported_results,
    small_jobs_first,
    starvation,
    switching_cost,
    table_1_schedules,
    waiting_bound,
    work_units,
)
from hetopt.proofs.ledger.claim import Claim

MODULES = (
    migration,
    constant_rates,
    table_1_schedules,
    other_schedulers,
    completion_bound,
    cost_order,
    small_jobs_first,
    compensation,
    fairness_coefficient,
    constant_coefficient,
    fair_progress,
    compensation_effects,
    work_units,
    idle_fast_gpu,
    switching_cost,
    gang_packing,
    dual_method,
    backlog,
    late_jobs,
    starvation,
    waiting_bound,
    placement_stability,
    reported_results,
)


def claims() -> tuple[Claim, ...]:
    """All claims."""
    return tuple(claim for module in MODULES for claim in module.CLAIMS)
