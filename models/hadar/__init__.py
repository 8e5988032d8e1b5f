"""Hadar: primal-dual prices for GPUs of several types, which the tasks of a job may mix."""

from hetopt.models.hadar.hadar_policy import RESTART, Hadar, printed
from hetopt.models.hadar.irrevocable import Committed, Committing, Irrevocable
from hetopt.models.hadar.job_schedules import JobSchedule, OfflineSolution, best_schedule
from hetopt.models.hadar.job_selection import Beam, BySize, Exact, Greedy, PrintedRecursion
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.models.hadar.prices import Prices, printed_prices, proven_prices
from hetopt.models.hadar.round_market import OFFER
from hetopt.models.hadar.schedule_based import (
    P2,
    P3,
    ColumnGeneration,
    Enumerated,
    Relaxed,
    dual_bound,
    dual_model,
    schedule_model,
)
from hetopt.models.hadar.time_indexed import P1, TimeIndexed
from hetopt.models.hadar.utilities import UTILITIES, Deadline, EffectiveThroughput, Finished, NegativeJCT, Weighted

__all__ = [
    "OFFER",
    "P1",
    "P2",
    "P3",
    "RESTART",
    "UTILITIES",
    "Beam",
    "BySize",
    "ColumnGeneration",
    "Committed",
    "Committing",
    "Deadline",
    "EffectiveThroughput",
    "Enumerated",
    "Exact",
    "Finished",
    "Greedy",
    "Hadar",
    "Irrevocable",
    "JobSchedule",
    "NegativeJCT",
    "OfflineProblem",
    "OfflineSolution",
    "Prices",
    "PrintedRecursion",
    "Relaxed",
    "TimeIndexed",
    "Weighted",
    "best_schedule",
    "dual_bound",
    "dual_model",
    "printed",
    "printed_prices",
    "proven_prices",
    "schedule_model",
]
