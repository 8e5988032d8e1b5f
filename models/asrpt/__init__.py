"""A-SRPT: mapping of pipeline-parallel jobs to GPUs, and the order of jobs of predicted length [ASRPT]."""

from hetopt.models.asrpt.asrpt_policies import ASRPT, SPJF, SPWF, ListPolicy, WCSDuration, WCSSubTime, WCSWorkload
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MinimumCut
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
    "ListPolicy",
    "LocalSearch",
    "MinimumAlpha",
    "MinimumCut",
    "Pipeline",
    "Servers",
    "Synchronous",
    "WCSDuration",
    "WCSSubTime",
    "WCSWorkload",
    "job_graph",
]
