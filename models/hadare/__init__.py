"""HadarE: jobs forked over nodes, whose copies share the work and are merged after each round."""

from hetopt.executor.averaging import consolidate
from hetopt.models.hadare.beliefs import Beliefs
from hetopt.models.hadare.estimates import Estimate
from hetopt.models.hadare.forking import JobIds, fork
from hetopt.models.hadare.gpus import GPUS, GPUSpec
from hetopt.models.hadare.policy import HadarE
from hetopt.models.hadare.tracker import JobTracker, split_steps

__all__ = [
    "GPUS",
    "Beliefs",
    "Estimate",
    "GPUSpec",
    "HadarE",
    "JobIds",
    "JobTracker",
    "consolidate",
    "fork",
    "split_steps",
]
