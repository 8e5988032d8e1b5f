"""Queue-based baselines: FIFO, SRTF, SRSF, LAS, Tiresias, YARN's capacity scheduler, PAL, Themis."""

from hetopt.models.queues.job_orders import FIFO, LAS, SRSF, SRTF, LASState, PreemptiveQueuePolicy, QueuePolicy
from hetopt.models.queues.pal import PAL
from hetopt.models.queues.themis import FinishTimeQueue, Themis, ThemisState
from hetopt.models.queues.tiresias import Tiresias, TiresiasState, tiresias_per_type
from hetopt.models.queues.yarn import YARN

__all__ = [
    "FIFO",
    "LAS",
    "PAL",
    "SRSF",
    "SRTF",
    "YARN",
    "FinishTimeQueue",
    "LASState",
    "PreemptiveQueuePolicy",
    "QueuePolicy",
    "Themis",
    "ThemisState",
    "Tiresias",
    "TiresiasState",
    "tiresias_per_type",
]
