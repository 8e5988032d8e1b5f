"""Speeds of jobs that an executor has not measured: equation (10) of Hadar, corrected by what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hetopt.errors import UnknownName
from hetopt.models.hadare.beliefs import Beliefs
from hetopt.models.hadare.estimates import Estimate
from hetopt.models.hadare.gpus import mig_part, spec_of


def estimated(
    models: Mapping[str, Mapping[str, Any]], measured: Mapping[str, Mapping[str, float]], types: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Steps per second of every job on every GPU type [Hadar, eq. 10].

    What was measured stands; the rest is :class:`~hetopt.models.hadare.beliefs.Beliefs`. Before the first measurement
    the numbers have no unit. A MIG instance is as fast as its part of the whole GPU (by the equation a part with little
    memory would be faster than the whole). GPU types that :data:`~hetopt.models.hadare.gpus.GPUS` does not name, such
    as declared CPU slots, are taken to be as fast as the geometric mean of those that it names.

    Parameters
    ----------
    models:
        Job -> ``batch_size``, ``model_weight``, ``dataset_size``, see :meth:`Estimate.throughput`.
    measured:
        Job -> GPU type -> steps per second.
    types:
        GPU types.

    Examples
    --------
    >>> table = estimated({"lm": dict(batch_size=32, model_weight="high", dataset_size="M")}, {}, ["T4", "A100"])
    >>> round(table["lm"]["A100"] / table["lm"]["T4"], 2)   # sqrt(312 / 40) over sqrt(65 / 16), and PCIe 4 over 3
    2.77
    """
    estimate = Estimate()
    known = {t: found for t in types if _is_known((found := mig_part(t))[0])}
    rows = {}
    for job, model in models.items():
        named = {t: estimate.throughput(whole, **model) * part for t, (whole, part) in known.items()}
        mean = math.exp(math.fsum(math.log(v) for v in named.values()) / len(named)) if named else 1.0
        rows[job] = {t: named.get(t, mean) for t in types}
    beliefs = Beliefs(rows, {job: dict(measured.get(job, {})) for job in rows})
    return {job: {t: beliefs.throughput(job, t) for t in types} for job in rows}


def _is_known(gpu_type: str) -> bool:
    try:
        spec_of(gpu_type)
    except UnknownName:
        return False
    return True
