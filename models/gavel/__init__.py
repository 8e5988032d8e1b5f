"""Gavel (OSDI'20): one optimisation framework for many heterogeneity-aware policies."""

from hetopt.models.concave import CompletionTime
from hetopt.models.gavel.finish_time import FinishTime
from hetopt.models.gavel.parts import InOrder, LeastRatio, SoonestEnd, TimeFraction, fastest_rate, makespan_seconds
from hetopt.models.gavel.policies import (
    fifo,
    finish_time_fairness,
    makespan,
    max_min_fairness,
    mean_completion_time,
    shortest_job_first,
    total_throughput,
    water_filling,
)
from hetopt.models.gavel.water_filling import WaterFilling

__all__ = [
    "CompletionTime",
    "FinishTime",
    "InOrder",
    "LeastRatio",
    "SoonestEnd",
    "TimeFraction",
    "WaterFilling",
    "fastest_rate",
    "fifo",
    "finish_time_fairness",
    "makespan",
    "makespan_seconds",
    "max_min_fairness",
    "mean_completion_time",
    "shortest_job_first",
    "total_throughput",
    "water_filling",
]
