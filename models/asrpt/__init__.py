"""A-SRPT: where the stages of pipeline-parallel jobs go, and in which order jobs of predicted length run [ASRPT]."""

from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MinimumCut
from hetopt.models.asrpt.policies import ASRPT, Ordered, spjf, spwf, wcs_duration, wcs_subtime, wcs_workload
from hetopt.pipelines.allreduce import AllReduce
from hetopt.pipelines.graph import job_graph
from hetopt.pipelines.iteration_time import Asynchronous, Synchronous
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers

__all__ = [
    "ASRPT",
    "AllReduce",
    "Asynchronous",
    "HeavyEdge",
    "LocalSearch",
    "MinimumAlpha",
    "MinimumCut",
    "Ordered",
    "Pipeline",
    "Servers",
    "Synchronous",
    "job_graph",
    "spjf",
    "spwf",
    "wcs_duration",
    "wcs_subtime",
    "wcs_workload",
]
