"""Jobs like those of Microsoft's Philly cluster: all of them, or the batches that users submit.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0; modified: cleaned and summarised in
shares, quantiles and fitted parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, any_mapping, at_least, expect, shown, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidOption
from hetopt.traces.sampling import (
    HOUR,
    Lengths,
    bursty_hours,
    chosen,
    chosen_keys,
    cut_to,
    gpu_shares,
    interpolated,
    last_at_most,
    name_shares,
    numbered,
    streams,
)

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Levels of the quantiles in :class:`PhillyLike`, from the shortest job to the longest."""

JOBS = FrozenDict({1: 93167, 2: 2210, 4: 2274, 8: 1998, 12: 9, 16: 242, 24: 9, 32: 81, 64: 7, 128: 4})
"""GPUs -> jobs with this demand, of 100,000."""

SECONDS = FrozenDict(
    {
        1: (1, 30, 52, 62, 122, 1117, 2716, 8512, 19137, 135399.3, 865708.7, 3256045),
        2: (1, 5, 9, 11, 16, 21, 76, 72740.2, 197062.2, 523316.1, 1474215.4, 2582803),
        4: (1, 35.7, 75, 137.8, 772.8, 17409.5, 89394.2, 184435.3, 273968.2, 907375.5, 2446300.8, 2750674),
        8: (1, 33.4, 125, 216.2, 1876, 23683, 173248.5, 351981.6, 525618.2, 1060498.2, 2656479.2, 4628226),
    }
)
"""GPUs -> quantiles of the lengths of jobs with this demand, in seconds, at the :data:`LEVELS`."""


@dataclass(frozen=True)
class PhillyLike:
    """Generator of jobs with the lengths and GPU demands of all of Philly's jobs.

    The numbers are shares and quantiles of 82,247 jobs of the trace [Philly] (CC-BY-4.0, modified: summarised). Jobs
    with many GPUs train longer, so each number of GPUs has its own distribution of lengths: quantiles, interpolated in
    the logarithm. The shares of the classes by GPU-hours [Hadar, section IV-A] are then within 0.008 of the trace's;
    38 % of the jobs of 60 to 100 GPU-hours use one GPU, 36 % in the trace. (A single mixture of lognormals for all jobs
    was off by 0.03, and had 85 %.)

    Parameters
    ----------
    jobs:
        GPUs -> relative frequency of jobs with this demand.
    seconds:
        GPUs -> lengths of these jobs in seconds at the :data:`LEVELS`: the shortest, the 1st, 5th, 10th, 25th, 50th,
        75th, 90th, 95th, 99th and 99.9th percentile, and the longest. A number of GPUs that is missing has the lengths
        of the next smaller one: few jobs use more than 8.
    jobs_per_hour:
        Mean arrival rate.
    evenness:
        Arrivals per hour are negative binomial with this many successes: small values give bursts.

    Raises
    ------
    InvalidOption
        A number out of its range, or quantiles that decrease.
    """

    jobs: Mapping[int, float] = field(default_factory=lambda: JOBS)
    seconds: Mapping[int, tuple[float, ...]] = field(default_factory=lambda: SECONDS)
    jobs_per_hour: float = 31.452
    evenness: float = 0.1931

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", gpu_shares(self.jobs, "PhillyLike.jobs"))
        lengths = any_mapping(self.seconds, "PhillyLike.seconds", InvalidOption, "from numbers of GPUs to lengths")
        seconds = {whole(n, "a key of PhillyLike.seconds", 1): _growing(own, n) for n, own in lengths.items()}
        object.__setattr__(self, "seconds", FrozenDict(sorted(seconds.items())))
        if min(self.jobs) not in seconds:
            raise InvalidOption(f"has no lengths of jobs with {min(self.jobs)} GPUs; give some", "PhillyLike.seconds")
        for key in ("jobs_per_hour", "evenness"):
            at_least(getattr(self, key), f"PhillyLike.{key}", 0.01, InvalidOption)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with durations of whole seconds, as :class:`~hetopt.traces.sampling.Generator`."""
        jobs = whole(jobs, "jobs", 1)
        counts, lengths, arrivals = streams(seed, 3)
        gpus = chosen_keys(self.jobs, counts.random(jobs))
        columns = {
            "job": numbered("j", jobs),
            "arrival": bursty_hours(jobs, self.jobs_per_hour, self.evenness, arrivals) * HOUR,
            "duration": self._durations(gpus, lengths.random(jobs)),
            "gpus": gpus,
        }
        return pd.DataFrame(columns)

    def _durations(self, gpus: Integers, level: Floats) -> Floats:
        row = last_at_most(self.seconds, gpus)
        seconds = np.empty(len(gpus))
        for i, quantiles in enumerate(self.seconds.values()):
            seconds[row == i] = interpolated(level[row == i], LEVELS, quantiles)
        return np.maximum(np.round(seconds), 1.0)


def _growing(lengths: Any, gpus: int) -> tuple[float, ...]:
    key = f"PhillyLike.seconds[{gpus}]"
    if not isinstance(lengths, (tuple, list)) or len(lengths) != len(LEVELS):
        raise InvalidOption(
            f"is {shown(lengths)}; it must hold {len(LEVELS)} lengths in seconds, one for each level", key
        )
    result = tuple(at_least(seconds, key, 0.0, InvalidOption, strict=True) for seconds in lengths)
    if any(a > b for a, b in pairwise(result)):
        raise InvalidOption(f"is {shown(lengths)}; no length may be smaller than the one before it", key)
    return result


HOURS = 168
"""Hours of a week."""


@dataclass(frozen=True)
class Week:
    """Relative arrival rates over the hours of a week.

    Parameters
    ----------
    hours:
        24 rates > 0, from the hour that begins at midnight.
    days:
        7 rates > 0, from Monday; an hour of the week has the product of both.

    Raises
    ------
    InvalidOption
        A wrong number of rates, or a rate that is not above 0.
    """

    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7

    def __post_init__(self) -> None:
        for key, count in (("hours", 24), ("days", 7)):
            given = getattr(self, key)
            if not isinstance(given, (tuple, list)) or len(given) != count:
                raise InvalidOption(f"is {shown(given)}; it must hold {count} numbers", f"Week.{key}")
            checked = tuple(at_least(value, f"Week.{key}", 0.0, InvalidOption, strict=True) for value in given)
            object.__setattr__(self, key, checked)

    def clock(self, even: Floats) -> Floats:
        """Hours since Monday, 0:00, at which the cumulative rate equals ``even`` hours at a constant rate."""
        busy = np.outer(self.days, self.hours).ravel()
        come = np.concatenate([[0.0], np.cumsum(busy)]) * (HOURS / busy.sum())
        weeks, rest = np.divmod(even, HOURS)
        return np.asarray(HOURS * weeks + np.interp(rest, come, np.arange(HOURS + 1)))


GPUS = FrozenDict({1: 84954, 2: 1416, 4: 6763, 8: 5784, 12: 28, 16: 722, 24: 28, 32: 269, 64: 24, 128: 12})
"""GPUs -> jobs with this demand, of 100,000."""

LENGTHS = Lengths(
    ((0.1302, 5.0608, 0.4811), (0.5514, 7.0722, 0.5399), (0.3183, 10.316, 1.5567)), shortest=60.0, longest=4_628_226.0
)
"""Fitted to the 97.6 % of the jobs that take a minute or more (largest difference of the distributions 0.0128). The
longest is the longest of the trace; untruncated, the mixture would have jobs ten times as long."""

WEEK = Week(
    hours=(
        *(1.139, 0.876, 0.964, 1.051, 0.964, 1.139, 1.401, 1.489, 1.226, 1.139, 0.876, 0.788),
        *(0.701, 0.788, 0.701, 0.788, 0.876, 1.051, 1.051, 0.876, 0.788, 1.051, 1.051, 1.226),
    ),
    days=(0.862, 1.037, 1.107, 1.251, 1.461, 0.632, 0.617),
)
"""Of all jobs of the trace, on its clock; hourly rates are medians over the days, robust against single bursts."""

VIRTUAL_CLUSTERS = FrozenDict(
    {"6c71a0": 9953, "b436b2": 7423, "103959": 1934, "ee9e8c": 1511, "0e4a51": 1435, "ed69ec": 1137, "7f04ca": 723}
    | {"2869ce": 422, "e13805": 374, "23dbec": 8, "51b7ef": 4, "795a4c": 3, "925e2b": 3}
)
"""Virtual cluster -> jobs in the trace."""


@dataclass(frozen=True)
class PhillyBatches:
    """Generator of jobs like the batches that users submit to Philly.

    Two virtual clusters of the trace submit 70 % of its jobs, short ones on one GPU. The numbers here are fitted to the
    other 24,930 jobs [Philly] (CC-BY-4.0, modified: fitted). Users submit batches, e.g. for a hyperparameter search:
    jobs of one virtual cluster with equal numbers of GPUs, each less than a minute after the previous one.
    (:class:`PhillyLike` generates jobs like all jobs of the trace.)

    Parameters
    ----------
    gpus:
        GPUs -> relative frequency of jobs with this demand.
    lengths:
        Distribution of the lengths; the same for all numbers of GPUs.
    within:
        Standard deviation of the logarithm of the lengths within a batch: the median over batches of three or more
        jobs. The jobs of a batch are of one part of the mixture; its variance is split into variance between and within
        batches.
    batch_exponent, largest_batch:
        A batch has k jobs with probability proportional to ``k ** -batch_exponent``, k <= ``largest_batch``. The mean
        is 2.1; it is 3.6 in the trace, where one batch in a hundred has 80 or more jobs, here one in a thousand.
    gap_cv:
        Times between the starts of batches are lognormal with this coefficient of variation. (The times between all
        jobs of the trace fit a lognormal best of four distributions; the standard deviation of their logarithm is 2.04;
        for a lognormal with this coefficient it is 2.02.)
    seconds_within:
        Mean of the exponential times between jobs of a batch, in seconds, as measured in the trace.
    jobs_per_hour:
        Mean arrival rate, independent of the size of batches. For a given load see
        :func:`~hetopt.traces.offered_load.scale_to_load`.
    week:
        Weekly cycle of arrival rates; the trace starts on Monday at 0:00.
    virtual_clusters:
        Name -> share of the batches. If empty, the table has no column ``tenant``.

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
            at_least(getattr(self, key), f"PhillyBatches.{key}", 0.0, InvalidOption, most=most)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with durations of whole seconds, as :class:`~hetopt.traces.sampling.Generator`.

        Other columns are ``tenant`` (the virtual cluster) if there are any, ``group`` (the batch; the last is cut), and
        ``hour`` (of the day of its arrival).
        """
        jobs = whole(jobs, "jobs", 1)
        sizes, gaps, demands, parts, usual, own, within, owner = streams(seed, 8)
        size = self._sizes(jobs, sizes)
        batches, batch = len(size), np.repeat(np.arange(len(size)), size)
        part, middle = self.lengths.part(parts.random(batches)), usual.standard_normal(batches)
        gpus = chosen_keys(self.gpus, demands.random(batches))
        seconds = self._beginnings(batches, gaps)[batch] * HOUR + self._after(size, within)
        lengths = self.lengths.similar(part[batch], middle[batch], own.standard_normal(jobs), self.within)
        columns = {
            "arrival": seconds,
            "duration": np.maximum(np.round(lengths), 1.0),
            "gpus": gpus[batch],
        }
        if self.virtual_clusters:
            columns["tenant"] = chosen_keys(self.virtual_clusters, owner.random(batches)).astype(object)[batch]
        columns |= {"group": numbered("b", batches)[batch], "hour": (seconds // HOUR).astype(np.int64) % 24}
        table = pd.DataFrame(columns).sort_values("arrival", kind="stable", ignore_index=True)
        table["arrival"] -= table["arrival"].iloc[0]
        table.insert(0, "job", numbered("j", jobs))
        return table

    def _probability(self) -> Floats:
        """(largest_batch,) probability of batches of 1, 2, … jobs."""
        part = np.arange(1.0, self.largest_batch + 1) ** -self.batch_exponent
        return np.asarray(part / part.sum())

    def _sizes(self, jobs: int, random: np.random.Generator) -> Integers:
        """Sizes of batches with ``jobs`` jobs in total; the last batch is cut."""
        return cut_to(1 + chosen(self._probability().tolist(), random.random(jobs)), jobs)

    def _beginnings(self, batches: int, random: np.random.Generator) -> Floats:
        """(batches,) start in hours since Monday, 0:00."""
        mean = float(self._probability() @ np.arange(1, self.largest_batch + 1)) / self.jobs_per_hour
        variance = np.log1p(self.gap_cv**2)
        gaps = mean * np.exp(np.sqrt(variance) * random.standard_normal(batches) - variance / 2)
        return self.week.clock(np.cumsum(gaps))

    def _after(self, size: Integers, random: np.random.Generator) -> Floats:
        """(jobs,) seconds from the start of the batch to each arrival."""
        come = np.cumsum(random.exponential(1.0, int(size.sum())))
        first = np.concatenate([[0], np.cumsum(size)[:-1]])
        return np.asarray((come - np.repeat(come[first], size)) * self.seconds_within)
