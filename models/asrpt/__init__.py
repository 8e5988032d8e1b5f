"""A-SRPT: where the stages of pipeline-parallel jobs go, and in which order jobs of predicted length run [ASRPT]."""

from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MinimumCut
from hetopt.models.asrpt.policies import ASRPT, SPJF, SPWF, Ordered, WCSDuration, WCSSubTime, WCSWorkload
from hetopt.stages.iteration_time import Asynchronous, Synchronous
from hetopt.stages.job_graph import AllReduce, job_graph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

__all__ = [
    "ASRPT",
    "SPJF",
    "SPWF",
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
    "WCSDuration",
    "WCSSubTime",
    "WCSWorkload",
    "job_graph",
]
