"""Jobs as Gavel's simulations generate them: 26 job types, lengths over three orders of magnitude, Poisson arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, shown, whole
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidOption
from hetopt.traces.sampling import HOUR, chosen_keys, gpu_shares, name_shares, numbered, streams

GPUS = FrozenDict({1: 70, 2: 10, 4: 15, 8: 5})
"""GPUs -> jobs with this demand, of 100."""

BATCH_SIZES = FrozenDict(
    {
        "ResNet-18": (16, 32, 64, 128, 256),
        "ResNet-50": (16, 32, 64, 128),
        "Transformer": (16, 32, 64, 128, 256),
        "LM": (5, 10, 20, 40, 80),
        "Recommendation": (512, 1024, 2048, 4096, 8192),
    }
)
"""Network -> batch sizes; A3C and CycleGAN have one each."""

SEVERAL_GPUS = ("ResNet-18", "ResNet-50", "Transformer", "LM")
"""Networks that Gavel also trains on several GPUs."""


def job_type(network: str, size: int) -> str:
    """Gavel's name of a job type, e.g. ``ResNet-18 (batch size 16)``."""
    return f"{network} (batch size {size})"


JOB_TYPES = FrozenDict(
    {job_type(network, size): 1.0 for network, sizes in BATCH_SIZES.items() for size in sizes}
    | {"A3C": 1.0, "CycleGAN": 1.0}
)
"""Gavel's 26 job types -> relative frequency."""

ON_SEVERAL_GPUS = frozenset(job_type(network, size) for network in SEVERAL_GPUS for size in BATCH_SIZES[network])
"""The 19 job types that may have several GPUs."""


@dataclass(frozen=True)
class GavelLike:
    """Generator of the jobs of Gavel's simulations [Gavel].

    Numbers are from the generator published with the paper. A job has a number of GPUs, one of the job types that train
    on as many, and a duration on V100.

    Parameters
    ----------
    jobs_per_hour:
        Rate of the Poisson arrivals; None: all jobs arrive at the start, as in the paper's static traces. The paper
        tries many rates; the default is about 0.6 of the capacity of its simulated cluster, 36 V100, 36 P100 and 36
        K80.
    gpus:
        GPUs -> relative frequency of jobs with this demand.
    short, long, long_share:
        A job takes ``10 ** x`` minutes with x uniform between the two numbers of ``short``, or with probability
        ``long_share`` between those of ``long``.
    models:
        Job type -> relative frequency. Jobs of types that are not in :data:`ON_SEVERAL_GPUS` have one GPU.

    Raises
    ------
    InvalidOption
        A number out of its range, or jobs of several GPUs without a model for them.
    """

    jobs_per_hour: float | None = 1.5
    gpus: Mapping[int, float] = field(default_factory=lambda: GPUS)
    short: tuple[float, float] = (1.5, 3.0)
    long: tuple[float, float] = (3.0, 4.0)
    long_share: float = 0.2
    models: Mapping[str, float] = field(default_factory=lambda: JOB_TYPES)

    def __post_init__(self) -> None:
        if self.jobs_per_hour is not None:
            at_least(self.jobs_per_hour, "GavelLike.jobs_per_hour", 0.01, InvalidOption)
        object.__setattr__(self, "gpus", gpu_shares(self.gpus, "GavelLike.gpus"))
        object.__setattr__(self, "models", name_shares(self.models, "GavelLike.models"))
        if not self.models:
            raise InvalidOption("is empty; it must name at least one model", "GavelLike.models")
        for key in ("short", "long"):
            object.__setattr__(self, key, _powers(getattr(self, key), f"GavelLike.{key}"))
        at_least(self.long_share, "GavelLike.long_share", 0.0, InvalidOption, most=1.0)
        several = any(share for n, share in self.gpus.items() if n > 1)
        if several and not any(self._shares(several=True).values()):
            raise InvalidOption(
                "has none that trains on several GPUs; add one, or let gpus be {1: 1}", "GavelLike.models"
            )

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with models, as :class:`~hetopt.traces.sampling.Generator`."""
        jobs = whole(jobs, "jobs", 1)
        demands, ranges, places, models, gaps = streams(seed, 5)
        gpus = chosen_keys(self.gpus, demands.random(jobs))
        level, model = models.random(jobs), np.empty(jobs, dtype=object)
        for several in (False, True):
            if (rows := (gpus > 1) == several).any():
                model[rows] = chosen_keys(self._shares(several=several), level[rows])
        columns = {
            "job": numbered("j", jobs),
            "arrival": self._arrivals(jobs, gaps),
            "duration": 60.0 * 10.0 ** self._powers(ranges.random(jobs), places.random(jobs)),
            "gpus": gpus,
            "model": model,
        }
        return pd.DataFrame(columns)

    def _shares(self, *, several: bool) -> dict[str, float]:
        """Job type -> share among the jobs with several GPUs, or with one."""
        return {name: share * (not several or name in ON_SEVERAL_GPUS) for name, share in self.models.items()}

    def _powers(self, level: Floats, place: Floats) -> Floats:
        ends = np.where((level < self.long_share)[:, None], self.long, self.short)
        return np.asarray(ends[:, 0] + place * (ends[:, 1] - ends[:, 0]))

    def _arrivals(self, jobs: int, random: np.random.Generator) -> Floats:
        if self.jobs_per_hour is None:
            return np.zeros(jobs)
        come = np.cumsum(random.exponential(HOUR / self.jobs_per_hour, jobs))
        return np.asarray(come - come[0])


def _powers(given: object, key: str) -> tuple[float, float]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidOption(f"is {shown(given)}; it must hold two powers of ten of minutes, the smaller first", key)
    low = at_least(given[0], key, -2.0, InvalidOption)
    high = at_least(given[1], key, low, InvalidOption)
    if high > 10:
        raise InvalidOption(f"is {shown(given)}; no power may be above 10", key)
    return low, high
