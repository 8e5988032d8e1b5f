"""Jobs of Microsoft's Philly cluster in 2017: read, and generated alike.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0; modified: cleaned, and here summed up in
shares and quantiles.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, at_least, shown, whole
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.traces.cells import Head, head, recognised_by
from hetopt.traces.layouts import CLEANED, PHILLY, read_layout
from hetopt.traces.philly_log import read_log

HOUR = 3600.0
"""Seconds."""

COLUMNS = CLEANED.needs
"""What :func:`read_philly` needs of a CSV file."""

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Parts of the jobs to which the quantiles of :class:`PhillyLike` refer, from the shortest job to the longest."""

JOBS = FrozenDict({1: 93167, 2: 2210, 4: 2274, 8: 1998, 12: 9, 16: 242, 24: 9, 32: 81, 64: 7, 128: 4})
"""GPUs -> jobs that ask for so many, of 100,000."""

SECONDS = FrozenDict(
    {
        1: (1, 30, 52, 62, 122, 1117, 2716, 8512, 19137, 135399.3, 865708.7, 3256045),
        2: (1, 5, 9, 11, 16, 21, 76, 72740.2, 197062.2, 523316.1, 1474215.4, 2582803),
        4: (1, 35.7, 75, 137.8, 772.8, 17409.5, 89394.2, 184435.3, 273968.2, 907375.5, 2446300.8, 2750674),
        8: (1, 33.4, 125, 216.2, 1876, 23683, 173248.5, 351981.6, 525618.2, 1060498.2, 2656479.2, 4628226),
    }
)
"""GPUs -> lengths of the jobs that ask for so many, in seconds, at the :data:`LEVELS`."""


def _recognises(head: Head) -> bool:
    header = head.cells()
    return _is_log(head) or any(layout.fits(header) for layout in PHILLY)


def _is_log(head: Head) -> bool:
    return "".join(head.lines).lstrip().startswith("[")


@recognised_by(_recognises)
def read_philly(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The jobs in a file of the trace, in the order in which they arrive.

    Parameters
    ----------
    path:
        A file, also compressed (its name then ends with ``.gz``), of one of these forms; columns that are not named
        here are not looked at:

        - the original ``cluster_job_log``, a JSON list. A job trains while one of its attempts runs, on the GPUs of the
          first. Left out are jobs without attempts, without time of submission, with attempts whose start or end is
          unknown or in the wrong order, and those that had no GPU or never ran;
        - CSV with a row for each job and the columns ``job_id``, ``submit_time`` (such as ``2017-09-04 10:30:41``),
          ``submit_s`` (seconds since the first job came), ``duration_s`` (seconds), ``num_gpus`` and ``vc`` (virtual
          cluster);
        - CSV of the simulator of Pollux (``timestamp``, ``duration``, ``num_gpus``, ``cluster``), Chronus (``job_id``,
          ``user`` or ``vc``, ``num_gpu``, ``submit_time``, ``iterations``, ``model_name``, ``duration``), Muri (the
          same in milliseconds, with ``iteration_time``), ElasticFlow (with ``iteration`` and ``ddl``), or PAL
          (``job_id``, ``num_gpus``, ``submit_time``, ``duration``, ``model``). Left out are jobs of 0 GPUs.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`: ``job`` (in the log, its own name; in CSV, ``j`` and its number in the file),
        ``arrival``, ``duration``, ``gpus``, and what the file says of ``tenant`` (the virtual cluster), ``user``,
        ``model``, ``iterations``, ``status``, and ``hour`` of the day in which it came, 0 to 23 on the trace's clock
        (its zone is not said). ``attrs["left_out"]`` says how many were left out, by reason.

    Raises
    ------
    UnusableFile
        The file is absent, a folder, or not allowed to be read.
    InvalidInstance
        It is no JSON or CSV, a column is missing, a row is no job, or no job is left; the message names line, column
        and value.
    InvalidOption
        ``path`` is no path.
    """
    return read_log(path) if _is_log(head(path)) else read_layout(path, *PHILLY)


@dataclass(frozen=True)
class PhillyLike:
    """Generator of jobs with the lengths and the GPUs of Philly's.

    The numbers are shares and quantiles of 82,247 jobs of the trace [Philly] (CC-BY-4.0, modified: summed up). Jobs of
    many GPUs train longer, so lengths are drawn for each number of GPUs by itself: between its quantiles, evenly in the
    logarithm. Classes by GPU-hours [Hadar, section IV-A] then have the shares that they have in the trace within 0.008;
    38 % of the jobs of 60 to 100 GPU-hours use one GPU, 36 % in the trace. (One mixture of lognormals for all jobs,
    whatever their GPUs, was off by 0.03, and had 85 %.)

    Parameters
    ----------
    jobs:
        GPUs -> how often a job asks for so many, relative to the others.
    seconds:
        GPUs -> lengths of these jobs in seconds at the :data:`LEVELS`: the shortest, the 1st, 5th, 10th, 25th, 50th,
        75th, 90th, 95th, 99th and 99.9th percentile, and the longest. Numbers of GPUs that are missing have those of
        the next smaller one: few jobs use more than 8.
    jobs_per_hour:
        Arrivals on average.
    evenness:
        Arrivals in one hour are a negative binomial number, with this many successes: the smaller, the more do jobs
        come in bursts.

    Raises
    ------
    InvalidOption
        A number out of its range, or lengths that do not grow.
    """

    jobs: Mapping[int, float] = field(default_factory=lambda: JOBS)
    seconds: Mapping[int, tuple[float, ...]] = field(default_factory=lambda: SECONDS)
    jobs_per_hour: float = 31.452
    evenness: float = 0.1931

    def __post_init__(self) -> None:
        for key in ("jobs", "seconds"):
            given = getattr(self, key)
            if not isinstance(given, Mapping):
                raise InvalidOption(f"PhillyLike.{key} is {shown(given)}; it must be a mapping from numbers of GPUs")
            gpus = {whole(n, f"a key of PhillyLike.{key}", 1): value for n, value in given.items()}
            object.__setattr__(self, key, FrozenDict(sorted(gpus.items())))
        for n, share in self.jobs.items():
            at_least(share, f"PhillyLike.jobs[{n}]", 0.0, InvalidOption)
        if not any(self.jobs.values()):
            raise InvalidOption(
                f"PhillyLike.jobs is {dict(self.jobs)!r}; at least one number of GPUs must have a share"
            )
        if min(self.jobs) not in self.seconds:
            raise InvalidOption(f"PhillyLike.seconds has no lengths of jobs with {min(self.jobs)} GPUs; give some")
        for n, lengths in self.seconds.items():
            object.__setattr__(self, "seconds", FrozenDict({**self.seconds, n: _growing(lengths, n)}))
        for key in ("jobs_per_hour", "evenness"):
            at_least(getattr(self, key), f"PhillyLike.{key}", 0.01, InvalidOption)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs in the order in which they arrive.

        Parameters
        ----------
        jobs:
            How many, >= 1.
        seed:
            The same seed gives the same jobs.

        Returns
        -------
        DataFrame
            ``job`` (``j1``, ``j2``, …), ``arrival`` and ``duration`` in seconds (whole seconds of duration, as in the
            trace), ``gpus``.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
        """
        jobs, seed = whole(jobs, "jobs", 1), whole(seed, "seed", 0)
        streams = [np.random.default_rng([seed, part]) for part in range(3)]  # so that parts do not shift each other
        below = np.cumsum(list(self.jobs.values()))
        kind = np.searchsorted(below, streams[0].random(jobs) * below[-1], side="right")
        gpus = np.array(list(self.jobs), dtype=np.int64)[np.minimum(kind, len(below) - 1)]
        columns = {
            "job": np.array([f"j{i + 1}" for i in range(jobs)], dtype=object),
            "arrival": self._arrivals(jobs, streams[2]),
            "duration": self._durations(gpus, streams[1].random(jobs)),
            "gpus": gpus,
        }
        return pd.DataFrame(columns)

    def _durations(self, gpus: NDArray[np.int64], level: Floats) -> Floats:
        kind = np.searchsorted(np.array(list(self.seconds)), gpus, side="right") - 1
        seconds = np.empty(len(gpus))
        for i, quantiles in enumerate(self.seconds.values()):
            seconds[kind == i] = np.exp(np.interp(level[kind == i], LEVELS, np.log(quantiles)))
        return np.maximum(np.round(seconds), 1.0)

    def _arrivals(self, jobs: int, random: np.random.Generator) -> Floats:
        found = np.zeros(0, dtype=np.int64)  # jobs of each hour
        while (left := jobs - int(found.sum())) > 0:
            hours = int(np.ceil(left / self.jobs_per_hour))
            mean = random.gamma(self.evenness, self.jobs_per_hour / self.evenness, hours)
            found = np.append(found, random.poisson(mean))
        hour = np.repeat(np.arange(len(found)), found)
        return np.asarray(np.sort(hour + random.random(len(hour)))[:jobs] * HOUR)


def _growing(lengths: Any, gpus: int) -> tuple[float, ...]:
    key = f"PhillyLike.seconds[{gpus}]"
    if not isinstance(lengths, (tuple, list)) or len(lengths) != len(LEVELS):
        raise InvalidOption(f"{key} is {lengths!r}; it must hold {len(LEVELS)} lengths in seconds, one for each level")
    result = tuple(at_least(seconds, key, 0.0, InvalidOption, strict=True) for seconds in lengths)
    if any(a > b for a, b in pairwise(result)):
        raise InvalidOption(f"{key} is {lengths!r}; no length may be smaller than the one before it")
    return result
