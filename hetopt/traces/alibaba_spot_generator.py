"""Jobs like those of Alibaba's GPU cluster of 2026: six GPU types, organisations, high priority or spot.

Published statistics are those of the 466,867 jobs of ``cluster-trace-v2026-spot-gpu`` [GFS], as counted in the tables
of [SpotTables] from the released file. The trace's folder has no licence file; the tables are under the MIT licence. No
row of either is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from hetopt.checks import FrozenDict, at_least, expect, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidOption
from hetopt.traces.philly_generator import Week
from hetopt.traces.sampling import (
    HOUR,
    Lengths,
    LengthTable,
    bursty_hours,
    by_gpus,
    by_name,
    chosen_keys,
    gpu_shares,
    last_at_most,
    length_table,
    name_shares,
    numbered,
    streams,
)

GPU_TYPES = FrozenDict(
    {"A10": 228643, "A100-SXM4-80GB": 169020, "GPU-series-2": 30397, "GPU-series-1": 18911, "H800": 11097}
    | {"A800-SXM4-80GB": 8799}
)
"""GPU type -> jobs; published. The names of two are anonymous."""

GPUS = FrozenDict(
    {
        "A10": FrozenDict({1: 9662, 2: 261, 4: 57, 8: 19, 16: 1}),
        "A100-SXM4-80GB": FrozenDict(
            {1: 5687, 2: 834, 4: 998, 8: 1788, 16: 410, 32: 184, 64: 64, 128: 20, 256: 15, 512: 1}
        ),
        "A800-SXM4-80GB": FrozenDict({1: 4780, 2: 803, 4: 1100, 8: 2257, 16: 593, 32: 304, 64: 121, 128: 43}),
        "GPU-series-1": FrozenDict({1: 7716, 2: 763, 4: 616, 8: 744, 16: 115, 32: 35, 64: 8, 128: 2, 256: 1}),
        "GPU-series-2": FrozenDict(
            {1: 3168, 2: 663, 4: 1133, 8: 2895, 16: 947, 32: 605, 64: 300, 128: 134, 256: 145, 512: 11}
        ),
        "H800": FrozenDict(
            {1: 733, 2: 241, 4: 645, 8: 2584, 16: 1326, 32: 1329, 64: 1033, 128: 725, 256: 1228, 512: 141, 1024: 16}
        ),
    }
)
"""GPU type -> GPUs -> jobs with this demand, of 10,000. Fitted: proportional to a number for each demand times a power
of the demand for each type, so that the published shares of demands (to 1, 2 to 4, …, 65 to 128, more), which are of
all types together, and the published mean demand of each type hold. Assumed: powers of two, 2 and 4 equally often;
parts of a GPU, which are rounded up, are 0.35 on average."""

LONG_SHARE = FrozenDict(
    {"A10": 0.1081, "A100-SXM4-80GB": 0.0639, "A800-SXM4-80GB": 0.0485}
    | {"GPU-series-1": 0.4025, "GPU-series-2": 0.0364, "H800": 0.0430}
)
LONG_BY_GPUS = FrozenDict({1: 1.0, 2: 0.396, 8: 0.198, 32: 1.417})
"""Share of the jobs of high priority on one GPU of a type that take a day or more, and the factor on it for this number
of GPUs or more. Fitted: their products give the published GPU-seconds of each GPU type, and of jobs of one, 2 to 4,
5 to 16, and more GPUs."""

SHORT_LENGTHS = LengthTable(
    (1, 60, 600, 1101, 3600, 21_600, 58_770, 86_400), (0, 0.1485, 0.4220, 0.5474, 0.8015, 0.9362, 0.9854, 1)
)
LONG_LENGTHS = FrozenDict(
    {
        1: LengthTable((86_400, 259_200, 461_465, 5_663_026, 15_897_599), (0, 0.2279, 0.3543, 0.8704, 1)),
        32: LengthTable((86_400, 913_070), (0, 1)),
    }
)
"""Lengths of jobs of high priority of less than a day, and, by GPUs, of others: the published median, 90th percentile
and share below 6 hours of these jobs, and, less spot jobs, the shares below 1, 10 and 60 minutes, 1 and 3 days, the
95th and 99th percentile and the maximum of all jobs. The longest job lasts as long as the trace, the longest of more
than 64 GPUs 913,070 s. Assumed: long jobs of 32 GPUs or more are even in the logarithm."""

SPOT_LENGTHS = Lengths(((1.0, 7.6476, 1.8254),), shortest=1.0, longest=15_897_599.0)
"""Fitted: the lognormal with the published median, 2,095.5 s, and 90th percentile, 21,740 s, of spot jobs."""

ORGANISATIONS = FrozenDict(
    {"13": 181107, "57": 108911, "66": 45879, "19": 43293, "24": 16584, "4": 13718, "67": 13153, "18": 11417, "3": 4832}
    | {"43": 4555, "7": 3860, "34": 3221, "36": 2104, "20": 2077, "30": 1668, "28": 1634, "25": 1308, "81": 1154}
)
"""Organisation -> jobs; published. The other 66 have 1.4 % of the jobs."""

WEEK = Week(
    hours=(
        *(0.974, 0.825, 0.730, 0.694, 0.669, 0.732, 0.737, 0.779, 0.826, 0.879, 1.298, 1.333),
        *(1.024, 0.999, 1.311, 1.297, 1.400, 1.315, 1.037, 1.098, 1.134, 0.993, 0.975, 0.940),
    ),
    days=(1.115, 1.167, 1.197, 0.947, 1.000, 0.773, 0.801),
)
"""Means of the published jobs per hour by hour of the day, medians of the jobs per day by weekday. Assumed, and in
accord with quiet nights and weekends: the trace begins at midnight on a Friday."""


@dataclass(frozen=True)
class AlibabaSpotLike:
    """Generator of jobs with the GPU types, sizes, lengths, organisations and classes of Alibaba's trace of 2026.

    Classes (high priority, spot), organisations and GPU types are drawn independently of each other, and so are classes
    and demands: how they depend on each other is not published. A trace of the default settings begins on Monday at
    midnight. Left out are the 3,740 jobs of the trace's first hour, most of which ran when it began, and the growth of
    spot jobs, from none in the first month to a fifth in the last.

    Parameters
    ----------
    gpu_types:
        GPU type -> share of the jobs; a type that is left out has no jobs.
    gpus:
        GPU type -> GPUs -> relative frequency of jobs with this demand.
    short:
        Lengths of jobs of high priority, except for long ones.
    long:
        GPUs -> lengths of long jobs of high priority with this demand or a larger one, up to the next.
    long_share:
        GPU type -> share of the jobs of high priority on one GPU that are long.
    long_by_gpus:
        GPUs -> factor on that share for jobs with this demand or a larger one, up to the next.
    spot:
        Lengths of spot jobs.
    spot_share:
        Share of spot jobs; published.
    organisations:
        Organisation -> share of the jobs. If empty, the table has no column ``tenant``.
    jobs_per_hour:
        Mean arrival rate; published. For a smaller cluster see :func:`~hetopt.traces.offered_load.scale_to_load`.
    evenness:
        Arrivals per hour are negative binomial with this many successes: small values give bursts. Fitted: jobs per
        hour have the published variance, 6,517. They are independent from hour to hour, which they are not in the
        trace.
    week:
        Weekly cycle of arrival rates.

    Raises
    ------
    InvalidOption
        A number out of its range, or a GPU type without demands or share of long jobs.
    """

    gpu_types: Mapping[str, float] = field(default_factory=lambda: GPU_TYPES)
    gpus: Mapping[str, Mapping[int, float]] = field(default_factory=lambda: GPUS)
    short: LengthTable = SHORT_LENGTHS
    long: Mapping[int, LengthTable] = field(default_factory=lambda: LONG_LENGTHS)
    long_share: Mapping[str, float] = field(default_factory=lambda: LONG_SHARE)
    long_by_gpus: Mapping[int, float] = field(default_factory=lambda: LONG_BY_GPUS)
    spot: Lengths = SPOT_LENGTHS
    spot_share: float = 0.1096
    organisations: Mapping[str, float] = field(default_factory=lambda: ORGANISATIONS)
    jobs_per_hour: float = 104.89
    evenness: float = 1.4
    week: Week = WEEK

    def __post_init__(self) -> None:
        key = "AlibabaSpotLike"
        types = name_shares(self.gpu_types, f"{key}.gpu_types", empty=False)
        object.__setattr__(self, "gpu_types", types)
        object.__setattr__(self, "gpus", by_name(self.gpus, f"{key}.gpus", types, gpu_shares))
        object.__setattr__(self, "long_share", by_name(self.long_share, f"{key}.long_share", types, _share))
        object.__setattr__(self, "long", by_gpus(self.long, f"{key}.long", length_table))
        object.__setattr__(self, "long_by_gpus", by_gpus(self.long_by_gpus, f"{key}.long_by_gpus", _factor))
        object.__setattr__(self, "organisations", name_shares(self.organisations, f"{key}.organisations"))
        for name, cls in (("short", LengthTable), ("spot", Lengths), ("week", Week)):
            expect(cls, getattr(self, name), f"{key}.{name}", InvalidOption)
        _share(self.spot_share, f"{key}.spot_share")
        for name in ("jobs_per_hour", "evenness"):
            at_least(getattr(self, name), f"{key}.{name}", 0.01, InvalidOption)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with durations of whole seconds, as :class:`~hetopt.traces.sampling.Generator`.

        Other columns are ``tenant`` (the organisation), if there are any, ``gpu_type``, ``job_class`` (``HP`` or
        ``Spot``) and ``hour`` (of the day of its arrival).
        """
        jobs = whole(jobs, "jobs", 1)
        kinds, counts, classes, lengths, owners, arrivals = streams(seed, 6)
        kind = chosen_keys(self.gpu_types, kinds.random(jobs))
        gpus = self._gpus(kind, counts.random(jobs))
        spot = classes.random(jobs) < self.spot_share
        hours = self.week.clock(bursty_hours(jobs, self.jobs_per_hour, self.evenness, arrivals))
        columns = {
            "job": numbered("j", jobs),
            "arrival": (hours - hours[0]) * HOUR,
            "duration": np.maximum(np.round(self._durations(kind, gpus, spot, lengths.standard_normal(jobs))), 1.0),
            "gpus": gpus,
        }
        if self.organisations:
            columns["tenant"] = chosen_keys(self.organisations, owners.random(jobs)).astype(object)
        columns |= {
            "gpu_type": kind.astype(object),
            "job_class": np.where(spot, "Spot", "HP").astype(object),
            "hour": hours.astype(np.int64) % 24,
        }
        return pd.DataFrame(columns)

    def _gpus(self, kind: NDArray[np.str_], level: Floats) -> Integers:
        gpus = np.empty(len(kind), dtype=np.int64)
        for name in self.gpu_types:
            gpus[kind == name] = chosen_keys(self.gpus[name], level[kind == name])
        return gpus

    def _durations(self, kind: NDArray[np.str_], gpus: Integers, spot: NDArray[np.bool_], normal: Floats) -> Floats:
        """Lengths in seconds; of jobs of high priority the lowest levels are short, the others long."""
        of_type = np.select([kind == name for name in self.gpu_types], [self.long_share[t] for t in self.gpu_types])
        factor = np.array(list(self.long_by_gpus.values()))[last_at_most(self.long_by_gpus, gpus)]
        level, long = ndtr(normal), np.minimum(of_type * factor, 1.0)
        is_long = (level >= 1.0 - long) & (long > 0)
        high = self.short.at(level / np.where(is_long, 1.0, 1.0 - long))
        table = np.where(is_long, last_at_most(self.long, gpus), -1)
        for i, lengths in enumerate(self.long.values()):
            rows = table == i
            high[rows] = lengths.at(1.0 - (1.0 - level[rows]) / long[rows])
        return np.where(spot, self.spot.seconds(np.zeros(len(kind), dtype=np.int64), normal), high)


def _share(value: object, key: str) -> float:
    return at_least(value, key, 0.0, InvalidOption, most=1.0)


def _factor(value: object, key: str) -> float:
    return at_least(value, key, 0.0, InvalidOption)
