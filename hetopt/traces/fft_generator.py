"""The nine traces of FFT's experiments [FFT, section 6.1.3], as far as the paper defines them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from hetopt.checks import whole
from hetopt.traces.philly_generator import LENGTHS, PhillyBatches
from hetopt.traces.sampling import HOUR, Lengths, chosen, streams


class ModelFamily(NamedTuple):
    """A row of [FFT, Table 2]: variants of a model, and possible numbers of workers."""

    models: tuple[str, ...]
    workers: tuple[int, ...]
    large: bool = False


FAMILIES = (
    ModelFamily(("VGG-16", "VGG-19"), (1, 2, 3, 4)),
    ModelFamily(("ResNet-50", "ResNet-152"), (1, 2, 3, 4)),
    ModelFamily(("DenseNet-121", "DenseNet-201"), (1, 2, 3, 4)),
    ModelFamily(("Bark-normal", "Bark-small"), (1,)),
    ModelFamily(("BERT-base", "BERT-large"), (1,)),
    ModelFamily(("GPT-neo-1.3B", "GPT-neo-2.7B"), (4,), large=True),
    ModelFamily(("GPT-2-medium", "GPT-2-large"), (4, 8), large=True),
    ModelFamily(("OPT-2.7B", "OPT-6.7B"), (4, 8), large=True),
)
"""[FFT, Table 2]; the large ones by [FFT, section 6.3.1]."""


class TraceSettings(NamedTuple):
    """Settings of one of the nine traces.

    Attributes
    ----------
    jobs:
        Number of jobs in the paper.
    jobs_per_hour:
        Mean arrival rate.
    workers:
        Workers of every job; None: those of Table 2.
    large:
        Share of the large models; None: all families have the same share.
    lengths:
        Distribution of the lengths.
    """

    jobs: int
    jobs_per_hour: float
    workers: int | None = None
    large: float | None = None
    lengths: Lengths = LENGTHS


DAYS = 2
"""Length of traces 1 and 2."""

TESTBED = replace(LENGTHS, longest=8 * HOUR)
ALIKE = replace(LENGTHS, shortest=5 * HOUR, longest=15 * HOUR)

SETTINGS = {
    1: TraceSettings(800, 800 / (DAYS * 24), workers=4, lengths=TESTBED),
    2: TraceSettings(800, 800 / (DAYS * 24), lengths=TESTBED),
    3: TraceSettings(20_000, 4.0),
    4: TraceSettings(20_000, 5.0),
    5: TraceSettings(20_000, 6.0),
    6: TraceSettings(20_000, 5.0, large=0.5),
    7: TraceSettings(20_000, 10.0),
    8: TraceSettings(20_000, 7.0),
    9: TraceSettings(20_000, 5.0, lengths=ALIKE),
}
"""Number -> settings; the documentation lists those that the paper leaves open."""


@dataclass(frozen=True)
class FFTTrace:
    """Generator of one of FFT's traces [FFT, sections 6.1.2, 6.1.3 and 6.3.1].

    Arrivals and lengths are those of :class:`~hetopt.traces.philly_generator.PhillyBatches`; lengths refer to the
    slowest GPU type, T4. Families of Table 2 are equally likely, and so are the variants and the numbers of workers
    within a family. With the same seed, traces differ only where their settings differ; at another arrival rate batches
    overlap differently, so that the same lengths come in another order.

    Parameters
    ----------
    number:
        1 to 9.

    Raises
    ------
    InvalidOption
        The number is out of range.
    """

    number: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", whole(self.number, "FFTTrace.number", 1, len(SETTINGS)))

    @property
    def setting(self) -> TraceSettings:
        """The settings of this trace."""
        return SETTINGS[self.number]

    def table(self, jobs: int | None = None, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with models, as :class:`~hetopt.traces.sampling.Generator`; default: as many as the paper."""
        setting = self.setting
        jobs = setting.jobs if jobs is None else whole(jobs, "jobs", 1)
        philly = PhillyBatches(jobs_per_hour=setting.jobs_per_hour, lengths=setting.lengths, virtual_clusters={})
        table = philly.table(jobs, seed)[["job", "arrival", "duration"]]
        if self.number in (1, 2) and jobs > 1:  # exactly two days
            table["arrival"] *= jobs / setting.jobs_per_hour * HOUR / table["arrival"].iloc[-1]
        table["gpus"], table["model"] = self._models(jobs, seed)
        return table

    def _models(self, jobs: int, seed: int) -> tuple[list[int], list[str]]:
        workers, large = self.setting.workers, self.setting.large
        families = [family for family in FAMILIES if workers is None or workers in family.workers]
        shares = [1.0] * len(families)
        if large is not None:
            number = sum(family.large for family in families)
            shares = [large / number if f.large else (1 - large) / (len(families) - number) for f in families]
        levels, variants, counts = (stream.random(jobs) for stream in streams(seed, 3, first=8))  # 0 to 7 are Philly's
        drawn = [families[i] for i in chosen(shares, levels).tolist()]
        models = [own.models[int(level * len(own.models))] for own, level in zip(drawn, variants, strict=True)]
        gpus = [workers or own.workers[int(level * len(own.workers))] for own, level in zip(drawn, counts, strict=True)]
        return gpus, models


def _trace(number: int, description: str) -> Callable[[], FFTTrace]:
    def trace() -> FFTTrace:
        return FFTTrace(number)

    trace.__doc__ = f"FFT's trace {number}: {description}."
    return trace


trace_1 = _trace(1, "800 jobs over two days, all with four workers, for the testbed of 36 GPUs")
trace_2 = _trace(2, "800 jobs over two days with 1 to 8 workers, for the testbed of 36 GPUs")
trace_3 = _trace(3, "20,000 jobs, four per hour")
trace_4 = _trace(4, "20,000 jobs, five per hour")
trace_5 = _trace(5, "20,000 jobs, six per hour")
trace_6 = _trace(6, "trace 4 with half of the models large")
trace_7 = _trace(7, "20,000 jobs, ten per hour, the highest rate")
trace_8 = _trace(8, "20,000 jobs, seven per hour")
trace_9 = _trace(9, "trace 4 with lengths that differ by a factor of 3 at most")
