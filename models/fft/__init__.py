"""FFT: an integer program each round that trades completion time, switching and fairness compensation."""

from hetopt.models.fft.fft_components import (
    AgeCost,
    Compensation,
    OneType,
    Switching,
    VolumeCost,
    WorkConserving,
)
from hetopt.models.fft.fft_policy import FFT
from hetopt.models.fft.fft_state import FFTState
from hetopt.models.objectives import LinearGain

__all__ = [
    "FFT",
    "AgeCost",
    "Compensation",
    "FFTState",
    "LinearGain",
    "OneType",
    "Switching",
    "VolumeCost",
    "WorkConserving",
]
