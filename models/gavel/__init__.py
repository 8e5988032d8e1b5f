"""Gavel (OSDI'20): one optimisation framework for many heterogeneity-aware policies."""

from hetopt.models.concave import CompletionTime
from hetopt.models.gavel.centred import Centred, FinishTimeFairness, centre
from hetopt.models.gavel.gavel_components import (
    FinishTime,
    InOrder,
    LeastRatio,
    SoonestEnd,
    TimeFraction,
    fastest_rate,
    makespan_seconds,
)
from hetopt.models.gavel.gavel_policies import (
    WaterFilling,
    fifo,
    finish_time_fairness,
    makespan,
    max_min_fairness,
    max_min_packing,
    mean_completion_time,
    shortest_job_first,
    total_throughput,
    water_filling,
)
from hetopt.models.gavel.space_sharing import SpaceSharing, with_space_sharing

__all__ = [
    "Centred",
    "CompletionTime",
    "FinishTime",
    "FinishTimeFairness",
    "InOrder",
    "LeastRatio",
    "SoonestEnd",
    "SpaceSharing",
    "TimeFraction",
    "WaterFilling",
    "centre",
    "fastest_rate",
    "fifo",
    "finish_time_fairness",
    "makespan",
    "makespan_seconds",
    "max_min_fairness",
    "max_min_packing",
    "mean_completion_time",
    "shortest_job_first",
    "total_throughput",
    "water_filling",
    "with_space_sharing",
]
