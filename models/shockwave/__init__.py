"""Shockwave: a plan of future rounds that is fair to jobs whose batch sizes change while they train."""

from hetopt.models.shockwave.epoch_estimates import EpochEstimate, epoch_estimate
from hetopt.models.shockwave.shockwave_components import (
    EarlyRounds,
    LogProgress,
    LongestTimeLeft,
    OneTypePerRound,
    RoundsGiven,
    TrainingTime,
    window,
)
from hetopt.models.shockwave.shockwave_policy import FinishTime, Shockwave, ShockwaveState

__all__ = [
    "EarlyRounds",
    "EpochEstimate",
    "FinishTime",
    "LogProgress",
    "LongestTimeLeft",
    "OneTypePerRound",
    "RoundsGiven",
    "Shockwave",
    "ShockwaveState",
    "TrainingTime",
    "epoch_estimate",
    "window",
]
