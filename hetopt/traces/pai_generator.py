"""Jobs like those of Alibaba's PAI cluster in 2020, which recur in groups."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from hetopt import checks
from hetopt.checks import at_least, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidOption
from hetopt.traces.sampling import DAY, cut_to, numbered, streams


@dataclass(frozen=True)
class PAILike:
    """Generator of jobs that recur in groups.

    The available part of the trace has neither the group nor the user of a job, so recurrence is generated from
    published statistics: each group has a number of jobs, a user, a number of GPUs and a usual length; its jobs arrive
    at random times and differ little in length. Numbers are fitted to rows of the PAI trace [MLaaS] (CC-BY-4.0,
    modified: fitted) or to its published figures.

    Parameters
    ----------
    group_exponent, largest_group:
        A group has k jobs with probability proportional to ``k ** -group_exponent``, k <= ``largest_group``. The
        value gives 65 % of the jobs in groups of five or more [ASRPT, section IV-C3].
    users, user_mean, user_sd:
        Number of users [MLaaS]; each owns groups in proportion to a lognormal number, with this mean and standard
        deviation of its logarithm: from the published 50th and 95th percentile of instances per user.
    single_gpu:
        Share of the groups that use one GPU, over 0.7 in the trace [ASRPT, section V-B]. Other shares give the
        workloads of [ASRPT, Fig. 7]; groups that use one GPU at a small share also do at a larger one.
    gpus_mean, gpus_sd, most_gpus:
        GPUs of the other groups: a lognormal number, rounded up, between 2 and ``most_gpus``; from published
        percentiles.
    long, short_mean, short_sd, long_mean, long_sd:
        Usual length of a group in seconds: a mixture of two lognormals by mean and standard deviation of the logarithm;
        ``long`` is the share of the second. Fitted to 3,761 jobs (largest difference of the distributions 0.034).
    spread:
        Standard deviation of the logarithm of a job's length within its group. It is not published but calibrated by
        :func:`~hetopt.traces.calibration.calibrate`: the random forest is within 10 % for 60.3, 59.9 and 60.2 % of the
        last fifth of 150,000 jobs (seeds 0, 1, 2), and for 61.1 % of 758,223; [ASRPT, Fig. 4] has about 60 %. Equal
        lengths would give 64.5 %, since 20 % of the jobs are of unseen groups.
    jobs_per_day:
        Arrivals, a Poisson process: 758,223 jobs in 63.9 days [ASRPT, section V-A].
    load:
        Factor on the arrival rate.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    group_exponent: float = 2.1632
    largest_group: int = 20_000
    users: int = 1_300
    user_mean: float = 5.193
    user_sd: float = 2.783
    single_gpu: float = 0.77
    gpus_mean: float = 2.05
    gpus_sd: float = 1.18
    most_gpus: int = 800
    long: float = 0.4895
    short_mean: float = 4.6539
    short_sd: float = 1.3644
    long_mean: float = 8.0195
    long_sd: float = 1.5239
    spread: float = 0.053
    jobs_per_day: float = 11_866.0
    load: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with users and groups, as :class:`~hetopt.traces.sampling.Generator`.

        Durations are whole seconds, as in the trace. With another share ``single_gpu`` only the GPUs differ.
        """
        jobs = whole(jobs, "jobs", 1)
        sizes, owners, lengths, members, demands = streams(seed, 5)
        size = self._sizes(jobs, sizes)
        group = sizes.permutation(np.repeat(np.arange(len(size)), size))
        user = self._users(len(size), owners)
        seconds = np.exp(self._usual(len(size), lengths)[group] + self.spread * members.standard_normal(jobs))
        gaps = members.exponential(DAY / (self.jobs_per_day * self.load), jobs)
        columns = {
            "job": numbered("j", jobs),
            "arrival": np.cumsum(gaps),
            "duration": np.ceil(seconds),
            "gpus": self._gpus(len(size), demands)[group],
            "user": numbered("u", self.users)[user[group]],
            "group": numbered("g", len(size))[group],
        }
        return pd.DataFrame(columns)

    def _sizes(self, jobs: int, random: np.random.Generator) -> Integers:
        """Sizes of groups with ``jobs`` jobs in total; the last is cut.

        One group is drawn from each of equally likely strata: a few large groups hold many of the jobs, and plain
        sampling would make short traces vary widely.
        """
        k = np.arange(1, self.largest_group + 1)
        probability = k.astype(float) ** -self.group_exponent
        probability /= probability.sum()
        below, mean = np.cumsum(probability), float(probability @ k)
        sizes = np.zeros(0, dtype=np.int64)
        while (left := jobs - int(sizes.sum())) > 0:
            n = int(np.ceil(left / mean))
            drawn = (random.permutation(n) + random.random(n)) / n
            more = k[np.minimum(np.searchsorted(below, drawn, side="right"), len(k) - 1)]
            sizes = np.concatenate([sizes, more])
        return cut_to(sizes, jobs)

    def _users(self, groups: int, random: np.random.Generator) -> Integers:
        part = random.lognormal(self.user_mean, self.user_sd, self.users)
        return random.choice(self.users, groups, p=part / part.sum())

    def _usual(self, groups: int, random: np.random.Generator) -> Floats:
        """Logarithm of the usual length of each group in seconds."""
        long, normal = random.random(groups) < self.long, random.standard_normal(groups)
        return np.where(long, self.long_mean + self.long_sd * normal, self.short_mean + self.short_sd * normal)

    def _gpus(self, groups: int, random: np.random.Generator) -> Integers:
        single, several = random.random(groups) < self.single_gpu, random.standard_normal(groups)
        many = np.ceil(np.exp(self.gpus_mean + self.gpus_sd * several))
        return np.where(single, 1, np.clip(many, 2, self.most_gpus)).astype(np.int64)


WHOLE = {"largest_group": (1, 10**6), "users": (1, 10**6), "most_gpus": (2, 10**6)}
"""Bounds of counts."""

ABOVE_ZERO = ("jobs_per_day", "load")

MOST = {"group_exponent": 10.0, "single_gpu": 1.0, "long": 1.0, "mean": 20.0, "sd": 5.0, "spread": 5.0}
"""Upper bounds by name or its last part: shares are at most 1; the others keep all drawn numbers finite."""


def _check(key: str, value: float) -> None:
    name = f"PAILike.{key}"
    if key in WHOLE:
        whole(value, name, *WHOLE[key])
        return
    most = MOST.get(key, MOST.get(key.rpartition("_")[2], checks.MOST))
    at_least(value, name, 0.0, InvalidOption, strict=key in ABOVE_ZERO, most=most)
