"""Audits: ``(Instance, Allocation) -> Verdict``, without the model that made the allocation."""

from hetopt.auditing.audit_report import Audit, audit
from hetopt.auditing.audited_holdings import Holdings, Result, holdings
from hetopt.auditing.fairness import envy_free, envy_matrix, sharing_incentive
from hetopt.auditing.feasibility import adjacent_types, within_capacity
from hetopt.auditing.misreports import MisreportKind, Report, ReportGenerator, ReportScale
from hetopt.auditing.pareto import pareto_efficient
from hetopt.auditing.strategy_proofness import DEFAULT_KINDS, strategy_proof
from hetopt.auditing.verdict import (
    AuditProperty,
    BelowFairPart,
    Dominated,
    Envy,
    Gap,
    Level,
    Misreport,
    Overused,
    SupportingPrices,
    Verdict,
    Witness,
)

__all__ = [
    "DEFAULT_KINDS",
    "Audit",
    "AuditProperty",
    "BelowFairPart",
    "Dominated",
    "Envy",
    "Gap",
    "Holdings",
    "Level",
    "Misreport",
    "MisreportKind",
    "Overused",
    "Report",
    "ReportGenerator",
    "ReportScale",
    "Result",
    "SupportingPrices",
    "Verdict",
    "Witness",
    "adjacent_types",
    "audit",
    "envy_free",
    "envy_matrix",
    "holdings",
    "pareto_efficient",
    "sharing_incentive",
    "strategy_proof",
    "within_capacity",
]
