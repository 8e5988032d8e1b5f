"""HadarE: jobs are forked over nodes; their copies share the work and are merged after each round."""

from hetopt.executor.averaging import consolidate
from hetopt.models.hadare.corrected_throughput import ThroughputEstimates
from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.models.hadare.initial_throughput import GPUS, Estimate, GPUSpec
from hetopt.models.hadare.job_copies import JobIds, JobTracker, fork, split_steps

__all__ = [
    "GPUS",
    "Estimate",
    "GPUSpec",
    "HadarE",
    "JobIds",
    "JobTracker",
    "ThroughputEstimates",
    "consolidate",
    "fork",
    "split_steps",
]
