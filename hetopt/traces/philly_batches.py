"""Jobs that are like those that people submit to Microsoft's Philly cluster: in batches, with busy and quiet hours.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0; modified: cleaned, and here summed up in
fitted parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, expect, whole
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.traces.drawing import Integers, chosen, gpu_shares, name_shares, numbered, streams
from hetopt.traces.lengths import Lengths
from hetopt.traces.week import Week

HOUR = 3600.0
"""Seconds."""

GPUS = FrozenDict({1: 84954, 2: 1416, 4: 6763, 8: 5784, 12: 28, 16: 722, 24: 28, 32: 269, 64: 24, 128: 12})
"""GPUs -> jobs that ask for so many, of 100,000."""

LENGTHS = Lengths(
    ((0.1302, 5.0608, 0.4811), (0.5514, 7.0722, 0.5399), (0.3183, 10.316, 1.5567)), shortest=60.0, longest=4_628_226.0
)
"""Fitted to the jobs of a minute and more (largest difference of the distributions 0.0128), which 97.6 % of them are.
The longest is that of the trace; without it the mixture would have some of ten times its length."""

WEEK = Week(
    hours=(
        *(1.139, 0.876, 0.964, 1.051, 0.964, 1.139, 1.401, 1.489, 1.226, 1.139, 0.876, 0.788),
        *(0.701, 0.788, 0.701, 0.788, 0.876, 1.051, 1.051, 0.876, 0.788, 1.051, 1.051, 1.226),
    ),
    days=(0.862, 1.037, 1.107, 1.251, 1.461, 0.632, 0.617),
)
"""Of all jobs of the trace, on its clock: by the hour medians over the days, which single bursts do not move."""

VIRTUAL_CLUSTERS = FrozenDict(
    {"6c71a0": 9953, "b436b2": 7423, "103959": 1934, "ee9e8c": 1511, "0e4a51": 1435, "ed69ec": 1137, "7f04ca": 723}
    | {"2869ce": 422, "e13805": 374, "23dbec": 8, "51b7ef": 4, "795a4c": 3, "925e2b": 3}
)
"""Virtual cluster -> jobs in the trace."""


@dataclass(frozen=True)
class PhillyBatches:
    """Generator of jobs like those that people submit to Philly.

    Two virtual clusters of the trace submit by themselves 70 % of its jobs, short ones on one GPU. The numbers here are
    fitted to the other 24,930 jobs [Philly] (CC-BY-4.0, modified: fitted). People submit batches, as when they search
    for good hyperparameters: jobs of one virtual cluster and equally many GPUs, each less than a minute after the one
    before. (For all jobs as they are, :class:`~hetopt.traces.philly.PhillyLike`.)

    Parameters
    ----------
    gpus:
        GPUs -> how often a job asks for so many, relative to the others.
    lengths:
        The lengths of the jobs; the same for all numbers of GPUs.
    within:
        Standard deviation of the logarithm of the lengths within a batch, the median of those of three and more. Jobs
        of a batch are of one part of the mixture, whose spread is divided into one between and one within batches.
    batch_exponent, largest_batch:
        A batch has k jobs with probability proportional to ``k ** -batch_exponent``, k <= ``largest_batch``. It has 2.1
        on average then; in the trace 3.6, as one of a hundred has 80 and more, here one of a thousand.
    gap_cv:
        Times between the beginnings of batches are lognormal, with this ratio of standard deviation and mean. (So are
        the times between all jobs of the trace, best of four distributions that were tried; the standard deviation of
        their logarithm is 2.04, and 2.02 has a lognormal of this ratio.)
    seconds_within:
        Mean time between jobs of a batch, in seconds; exponential. Measured in the trace.
    jobs_per_hour:
        Arrivals on average, whatever the size of batches: set it for the load that is wanted, or see
        :func:`~hetopt.traces.load.scaled`.
    week:
        Busy and quiet hours; the trace begins on Monday at 0:00.
    virtual_clusters:
        Name -> share of the batches. Without any, the table has no column ``tenant``.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    gpus: Mapping[int, float] = field(default_factory=lambda: GPUS)
    lengths: Lengths = LENGTHS
    within: float = 0.302
    batch_exponent: float = 2.383
    largest_batch: int = 384
    gap_cv: float = 7.58
    seconds_within: float = 5.6
    jobs_per_hour: float = 9.541
    week: Week = WEEK
    virtual_clusters: Mapping[str, float] = field(default_factory=lambda: VIRTUAL_CLUSTERS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", gpu_shares(self.gpus, "PhillyBatches.gpus"))
        shares = name_shares(self.virtual_clusters, "PhillyBatches.virtual_clusters")
        object.__setattr__(self, "virtual_clusters", shares)
        expect(Lengths, self.lengths, "PhillyBatches.lengths", InvalidOption)
        expect(Week, self.week, "PhillyBatches.week", InvalidOption)
        whole(self.largest_batch, "PhillyBatches.largest_batch", 1, 10**6)
        at_least(self.jobs_per_hour, "PhillyBatches.jobs_per_hour", 0.01, InvalidOption)
        for key, most in (("within", 10.0), ("batch_exponent", 10.0), ("gap_cv", 1000.0), ("seconds_within", HOUR)):
            if at_least(getattr(self, key), f"PhillyBatches.{key}", 0.0, InvalidOption) > most:
                raise InvalidOption(f"PhillyBatches.{key} is {getattr(self, key)!r}; it must be at most {most:g}")

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs in the order in which they arrive.

        Parameters
        ----------
        jobs:
            How many, >= 1; the last batch is cut.
        seed:
            The same seed gives the same jobs. Settings do not shift what others draw: those of another
            ``jobs_per_hour``, say, ask for the same GPUs, and train as long.

        Returns
        -------
        DataFrame
            ``job`` (``j1``, ``j2``, …), ``arrival`` and ``duration`` in seconds (whole seconds of duration, as in the
            trace), ``gpus``, ``tenant`` (the virtual cluster) if there are any, ``group`` (the batch), and ``hour`` of
            the day in which it comes.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
        """
        jobs = whole(jobs, "jobs", 1)
        sizes, gaps, asked, parts, usual, own, within, owner = streams(seed, 8)
        size = self._sizes(jobs, sizes)
        batches, batch = len(size), np.repeat(np.arange(len(size)), size)
        part, middle = self.lengths.part(parts.random(batches)), usual.standard_normal(batches)
        gpus = np.array(list(self.gpus), dtype=np.int64)[chosen([*self.gpus.values()], asked.random(batches))]
        seconds = self._beginnings(batches, gaps)[batch] * HOUR + self._after(size, within)
        columns = {
            "arrival": seconds,
            "duration": np.maximum(np.round(self._durations(part[batch], middle[batch], own)), 1.0),
            "gpus": gpus[batch],
        }
        if self.virtual_clusters:
            names = np.array(list(self.virtual_clusters), dtype=object)
            columns["tenant"] = names[chosen([*self.virtual_clusters.values()], owner.random(batches))][batch]
        columns |= {"group": numbered("b", batches)[batch], "hour": (seconds // HOUR).astype(np.int64) % 24}
        table = pd.DataFrame(columns).sort_values("arrival", kind="stable", ignore_index=True)
        table["arrival"] -= table["arrival"].iloc[0]
        table.insert(0, "job", numbered("j", jobs))
        return table

    def _probability(self) -> Floats:
        """Of batches of 1, 2, … jobs."""
        part = np.arange(1.0, self.largest_batch + 1) ** -self.batch_exponent
        return np.asarray(part / part.sum())

    def _sizes(self, jobs: int, random: np.random.Generator) -> Integers:
        """Sizes of batches with so many jobs in all."""
        sizes = 1 + chosen(self._probability().tolist(), random.random(jobs))
        ends = np.cumsum(sizes)
        last = int(np.searchsorted(ends, jobs))
        sizes[last] -= ends[last] - jobs
        return sizes[: last + 1]

    def _beginnings(self, batches: int, random: np.random.Generator) -> Floats:
        """Hours since Monday, 0:00, at which batches begin."""
        mean = float(self._probability() @ np.arange(1, self.largest_batch + 1)) / self.jobs_per_hour
        variance = np.log1p(self.gap_cv**2)
        gaps = mean * np.exp(np.sqrt(variance) * random.standard_normal(batches) - variance / 2)
        return self.week.clock(np.cumsum(gaps))

    def _after(self, size: Integers, random: np.random.Generator) -> Floats:
        """Seconds from the beginning of its batch at which each job comes."""
        come = np.cumsum(random.exponential(1.0, int(size.sum())))
        first = np.concatenate([[0], np.cumsum(size)[:-1]])
        return np.asarray((come - np.repeat(come[first], size)) * self.seconds_within)

    def _durations(self, part: Integers, middle: Floats, random: np.random.Generator) -> Floats:
        """The place of a job in its part: what its batch has, and what it has alone, with variances that sum to 1."""
        alone = np.minimum(1.0, self.within / self.lengths.spreads)[part]
        place = np.sqrt(1.0 - alone**2) * middle + alone * random.standard_normal(len(part))
        return self.lengths.seconds(part, place)
