"""Jobs like those of the Shanghai AI Laboratory's cluster Seren, on which large language models are developed.

Published statistics are those of the 450,590 GPU jobs of Seren in AcmeTrace [Acme] (CC-BY-4.0, modified: numbers read
from the curves, areas and markers of its figures, and fitted). The figures of Kalos, the other cluster, are not used:
the lengths in them include the waiting time (see :func:`~hetopt.traces.acme_reader.read_acme`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import ndtr

from hetopt.checks import FrozenDict, at_least, whole
from hetopt.errors import InvalidOption
from hetopt.traces.sampling import (
    HOUR,
    LengthTable,
    by_name,
    chosen_keys,
    gpu_shares,
    length_table,
    name_shares,
    numbered,
    streams,
)

JOB_CLASSES = FrozenDict(
    {"Eval": 0.6485, "SFT": 0.1486, "Other": 0.1456, "MLLM": 0.0295, "Debug": 0.0188, "Pretrain": 0.0089}
)
"""Class -> share of the jobs; published (figure ``treemap_job_dist``). Evaluation, supervised fine-tuning, multimodal
models, pretraining."""

GPUS = FrozenDict(
    {
        "Eval": FrozenDict({1: 181518, 2: 31183, 4: 6750, 8: 72421, 16: 212, 32: 92, 64: 25, 128: 11}),
        "SFT": FrozenDict(
            {1: 16676, 2: 12202, 4: 2641, 8: 32064, 16: 2443, 32: 726, 64: 122, 128: 58, 192: 30, 256: 5, 512: 4}
        ),
        "Other": FrozenDict({1: 37183, 2: 6387, 4: 1383, 8: 16782, 16: 1279, 24: 186, 32: 2425}),
        "MLLM": FrozenDict({1: 6631, 2: 1441, 4: 312, 8: 3787, 16: 289, 32: 350, 64: 187, 128: 245, 256: 45}),
        "Debug": FrozenDict(
            {1: 1479, 2: 98, 4: 472, 8: 4553, 16: 768, 24: 23, 32: 517, 48: 13, 64: 105, 128: 65, 256: 117, 320: 35}
            | {512: 105, 640: 51, 768: 18, 1024: 54}
        ),
        "Pretrain": FrozenDict(
            {48: 371, 64: 1427, 96: 160, 128: 509, 192: 70, 256: 550, 384: 170, 512: 265, 768: 276, 1024: 228}
        ),
    }
)
"""Class -> GPUs -> jobs with this demand. Published are those of ``Debug``, those above 16 of ``SFT``, ``MLLM`` and
``Other``, above 8 of ``Eval`` and above 512 of ``Pretrain`` (the markers of figure ``box_gpu_num``), the sum over the
classes for each demand (``cdf_job_gpunum``), from which the others of ``Pretrain`` follow, and the quartiles of each
class. Fitted: the rest, as close to independence of class and demand as these allow. Rare demands are added to near
ones."""

BELOW = FrozenDict(
    {
        "Eval": (
            *(0.0231, 0.0292, 0.0522, 0.1057, 0.2518, 0.3278, 0.3738, 0.4975, 0.6717, 0.7997, 0.888),
            *(0.9385, 0.9653, 0.9819, 0.9906, 0.9957, 0.9979, 0.9991, 0.9996, 0.9999, 1, 1),
        ),
        "SFT": (
            *(0.0102, 0.0149, 0.0346, 0.0656, 0.1262, 0.2167, 0.2759, 0.3751, 0.5761, 0.788, 0.8927),
            *(0.9449, 0.9734, 0.9864, 0.9916, 0.9951, 0.998, 0.9992, 0.9998, 0.9999, 1, 1),
        ),
        "Other": (
            *(0.0249, 0.0302, 0.0939, 0.2283, 0.2908, 0.3902, 0.4681, 0.5888, 0.7091, 0.7948, 0.8553),
            *(0.892, 0.9419, 0.9532, 0.9665, 0.9801, 0.9931, 0.9963, 0.9983, 0.9994, 0.9999, 1),
        ),
        "MLLM": (
            *(0.0209, 0.0307, 0.0509, 0.0941, 0.147, 0.2737, 0.3344, 0.4085, 0.5017, 0.6684, 0.797),
            *(0.8561, 0.8916, 0.913, 0.9291, 0.9731, 0.9888, 0.9947, 0.9983, 0.9999, 0.9999, 1),
        ),
        "Debug": (
            *(0.0368, 0.0462, 0.0632, 0.1172, 0.1934, 0.298, 0.3913, 0.5215, 0.6837, 0.8195, 0.9122),
            *(0.955, 0.9736, 0.9829, 0.9881, 0.9922, 0.9956, 0.9979, 0.9986, 0.9997, 0.9999, 1),
        ),
        "Pretrain": (
            *(0.0427, 0.0571, 0.0986, 0.121, 0.156, 0.2049, 0.2737, 0.3487, 0.468, 0.618, 0.7342),
            *(0.8045, 0.8408, 0.8661, 0.8845, 0.9108, 0.9431, 0.9719, 0.9878, 0.9963, 0.9997, 1),
        ),
    }
)
"""Class -> share of its jobs that take at most 1, 2, 4, …, 2**21 s; published (figure ``cdf_job_duration_queue``)."""

SECONDS = (1.0, *(2.0**k for k in range(22)))

LENGTHS = FrozenDict({name: LengthTable(SECONDS, (0.0, *below)) for name, below in BELOW.items()})

CORRELATION = FrozenDict({"Eval": 0.18, "SFT": 0.56, "Other": 0.23, "MLLM": 0.41, "Debug": -0.05, "Pretrain": 0.0})
"""Fitted: with these the classes have the published shares of the GPU time (figure ``treemap_job_dist``). Only ratios
are published; assumed: 0 for pretraining, which has 69 % of the GPU time."""


@dataclass(frozen=True)
class AcmeLike:
    """Generator of jobs with the classes, GPUs and lengths of those of Seren, all on A100 80GB SXM.

    The shares of the GPU time of jobs with at most 1, 2, 4, … GPUs, which are published but not used for the fit, are
    then within 0.04 of the published ones. Half of the jobs are shorter than two and a half minutes; those of more than
    128 GPUs are one in 220, and have about 60 % of the GPU time.

    Parameters
    ----------
    job_classes:
        Class -> share of the jobs.
    gpus:
        Class -> GPUs -> relative frequency of jobs with this demand.
    lengths:
        Class -> distribution of the lengths.
    correlation:
        Class -> correlation, from -1 to 1, of the normal scores of GPUs and length: above 0, large jobs last longer.
    jobs_per_hour:
        Arrivals, a Poisson process (assumption): 450,590 jobs from March to August 2023. For a smaller cluster see
        :func:`~hetopt.traces.offered_load.scale_to_load`.

    Raises
    ------
    InvalidOption
        A number out of its range, or a class without GPUs, lengths or correlation.
    """

    job_classes: Mapping[str, float] = field(default_factory=lambda: JOB_CLASSES)
    gpus: Mapping[str, Mapping[int, float]] = field(default_factory=lambda: GPUS)
    lengths: Mapping[str, LengthTable] = field(default_factory=lambda: LENGTHS)
    correlation: Mapping[str, float] = field(default_factory=lambda: CORRELATION)
    jobs_per_hour: float = 102.04

    def __post_init__(self) -> None:
        key = "AcmeLike"
        classes = name_shares(self.job_classes, f"{key}.job_classes", empty=False)
        object.__setattr__(self, "job_classes", classes)
        checks = {"gpus": gpu_shares, "lengths": length_table, "correlation": _correlation}
        for name, check in checks.items():
            object.__setattr__(self, name, by_name(getattr(self, name), f"{key}.{name}", classes, check))
        at_least(self.jobs_per_hour, f"{key}.jobs_per_hour", 0.01, InvalidOption)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with durations of whole seconds, as :class:`~hetopt.traces.sampling.Generator`.

        A further column is ``job_class``.
        """
        jobs = whole(jobs, "jobs", 1)
        classes, counts, lengths, arrivals = streams(seed, 4)
        kind = chosen_keys(self.job_classes, classes.random(jobs))
        size, own = counts.standard_normal(jobs), lengths.standard_normal(jobs)
        gpus, seconds = np.empty(jobs, dtype=np.int64), np.empty(jobs)
        for name in self.job_classes:
            rows, shared = kind == name, self.correlation[name]
            gpus[rows] = chosen_keys(self.gpus[name], ndtr(size[rows]))
            level = ndtr(shared * size[rows] + np.sqrt(1.0 - shared**2) * own[rows])
            seconds[rows] = self.lengths[name].at(level)
        columns = {
            "job": numbered("j", jobs),
            "arrival": np.cumsum(arrivals.exponential(HOUR / self.jobs_per_hour, jobs)),
            "duration": np.maximum(np.round(seconds), 1.0),
            "gpus": gpus,
            "job_class": kind.astype(object),
        }
        return pd.DataFrame(columns)


def _correlation(value: object, key: str) -> float:
    return at_least(value, key, -1.0, InvalidOption, most=1.0)
