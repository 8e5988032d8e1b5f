"""Baselines that order jobs in queues: FIFO, SRTF, SRSF, LAS, Tiresias, YARN's capacity scheduler, PAL, Themis."""

from hetopt.models.queues.ordered import FIFO, LAS, SRSF, SRTF, Ordered, Preemptive, Service
from hetopt.models.queues.pal import PAL
from hetopt.models.queues.themis import Themis, ThemisState
from hetopt.models.queues.tiresias import Tiresias, TiresiasState, tiresias_per_type
from hetopt.models.queues.yarn import YARN

__all__ = [
    "FIFO",
    "LAS",
    "PAL",
    "SRSF",
    "SRTF",
    "YARN",
    "Ordered",
    "Preemptive",
    "Service",
    "Themis",
    "ThemisState",
    "Tiresias",
    "TiresiasState",
    "tiresias_per_type",
]
