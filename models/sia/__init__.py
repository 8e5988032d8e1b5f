"""Sia: each round an integer program over the GPU types and numbers of GPUs of elastic jobs."""

from hetopt.models.sia.sia_components import GradualScaleUp, NormalisedGoodput, OneGang, WaitingPenalty
from hetopt.models.sia.sia_policy import Sia, SiaState

__all__ = ["GradualScaleUp", "NormalisedGoodput", "OneGang", "Sia", "SiaState", "WaitingPenalty"]
