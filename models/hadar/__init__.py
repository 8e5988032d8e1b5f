"""Hadar: GPUs of unlike types for the tasks of a job, by primal-dual prices."""

from hetopt.models.hadar.committing import Committing
from hetopt.models.hadar.irrevocable import Committed, Irrevocable
from hetopt.models.hadar.one_offer import OFFER
from hetopt.models.hadar.policy import RESTART, Hadar, printed
from hetopt.models.hadar.prices import Prices, printed_prices, proven_prices
from hetopt.models.hadar.problem import Problem
from hetopt.models.hadar.schedule_based import ColumnGeneration, Enumerated, Relaxed, dual_bound
from hetopt.models.hadar.schedule_programs import P2, P3, dual_model, schedule_model
from hetopt.models.hadar.schedules import Schedule, best_schedule
from hetopt.models.hadar.selection import AsPrinted, Beam, BySize, Exact, Greedy
from hetopt.models.hadar.solved import Solved
from hetopt.models.hadar.time_indexed import P1, TimeIndexed
from hetopt.models.hadar.utilities import UTILITIES, Deadline, EffectiveThroughput, Finished, NegativeJCT, Weighted

__all__ = [
    "OFFER",
    "P1",
    "P2",
    "P3",
    "RESTART",
    "UTILITIES",
    "AsPrinted",
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
    "NegativeJCT",
    "Prices",
    "Problem",
    "Relaxed",
    "Schedule",
    "Solved",
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
