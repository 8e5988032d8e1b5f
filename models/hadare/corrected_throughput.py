"""Throughput estimates of jobs on nodes, corrected by every measurement, [Hadar, section V-A]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import pandas as pd

from hetopt.checks import FrozenDict, at_least, lookup
from hetopt.errors import InvalidOption, UnknownName
from hetopt.models.hadare.initial_throughput import Estimate, mig_part, rows_of, spec_of


class _Positive(FrozenDict[str, FrozenDict[str, float]]):
    """Throughputs > 0 by job and node, already checked."""

    @classmethod
    def of(cls, table: Any, key: str) -> _Positive:
        """The table, with every number checked."""
        if isinstance(table, cls):
            return table
        rows = {}
        for job, row in rows_of(table, key).items():
            where = f"{key}[{job!r}]"
            rows[job] = FrozenDict({n: _throughput(v, f"{where}[{n!r}]") for n, v in row.items()})
        return cls(rows)


def _throughput(value: Any, key: str) -> float:
    """A throughput > 0."""
    return at_least(value, key, 0.0, InvalidOption, strict=True)


Throughputs: TypeAlias = "pd.DataFrame | Mapping[str, Mapping[str, float]]"
"""By job (rows) and node (columns)."""


@dataclass(frozen=True)
class ThroughputEstimates:
    """Throughput of each job on each node, corrected by every measurement, [Hadar, section V-A].

    - A measured pair of job and node: its measurements, see ``recency``.
    - Another pair of a job that was measured on some node: its estimate times the geometric mean of measured /
      estimated
      over the job's measured pairs.
    - A job without measurements: its estimate times that mean over all measured pairs, 1 without any.

    The paper states only that every round reports actual throughputs; the correction of unmeasured pairs is our choice.
    Estimates have no unit; after the first measurement all numbers have the unit of the measurements. Objects are
    immutable: :meth:`measured` returns a new one, so policies may keep them in their state.

    Parameters
    ----------
    estimates:
        job -> node -> throughput > 0, e.g. :meth:`~hetopt.models.hadare.initial_throughput.Estimate.table`. Jobs may
        have different nodes.
    measurements:
        job -> node -> throughput > 0, of pairs that are in ``estimates``.
    recency:
        Weight of the latest measurement of a pair, in (0, 1], in an exponential average with the earlier ones. 1: only
        the latest.

    Raises
    ------
    InvalidOption
        A throughput that is not a positive number, or a ``recency`` out of range.
    UnknownName
        A job or a node that has no estimate.
    """

    estimates: Throughputs
    measurements: Throughputs = field(default_factory=dict)
    recency: float = 1.0

    def __post_init__(self) -> None:
        at_least(self.recency, "recency", 0.0, InvalidOption, strict=True, most=1.0)
        fresh = not isinstance(self.measurements, _Positive)
        for key in ("estimates", "measurements"):
            object.__setattr__(self, key, _Positive.of(getattr(self, key), key))
        if fresh:
            for job, row in self._measurements.items():
                for node in row:
                    self._estimate(job, node)

    def measured(self, job: str, node: str, throughput: float) -> ThroughputEstimates:
        """The estimates after a measurement of a job on a node, in work per second or any other common unit.

        Raises
        ------
        InvalidOption
            A throughput that is not a positive number.
        UnknownName
            A job or a node that has no estimate.
        """
        self._estimate(job, node)
        row = self._measurements.get(job, FrozenDict())
        latest = _throughput(throughput, f"throughput of {job!r} on {node!r}")
        kept = latest if node not in row else row[node] + self.recency * (latest - row[node])
        return replace(self, measurements=_Positive({**self._measurements, job: FrozenDict({**row, node: kept})}))

    def with_jobs(self, estimates: Throughputs) -> ThroughputEstimates:
        """Estimates with further jobs, e.g. new arrivals.

        Raises
        ------
        InvalidOption
            A job that already has estimates, or a throughput that is not a positive number.
        """
        added = _Positive.of(estimates, "estimates")
        for job in added:
            if job in self._estimates:
                raise InvalidOption("already has estimates; pass only new jobs", f"job {job!r}")
        return replace(self, estimates=_Positive({**self._estimates, **added}))

    def throughput(self, job: str, node: str) -> float:
        """Corrected throughput of a job on a node; raises :class:`~hetopt.errors.UnknownName` without an estimate."""
        estimate = self._estimate(job, node)
        known = self._measurements.get(job, FrozenDict()).get(node)
        return estimate * self.correction(job) if known is None else known

    def correction(self, job: str) -> float:
        """Factor of a job's estimates on nodes where it was not measured."""
        lookup(self._estimates, job, "job")
        return self._corrections.get(job, self._corrections[None])

    def table(self) -> pd.DataFrame:
        """Corrected throughputs by job (rows) and node (columns); NaN without an estimate."""
        rows = {job: {node: self.throughput(job, node) for node in row} for job, row in self._estimates.items()}
        nodes = dict.fromkeys(node for row in rows.values() for node in row)
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(nodes))

    @property
    def _estimates(self) -> _Positive:
        assert isinstance(self.estimates, _Positive)
        return self.estimates

    @property
    def _measurements(self) -> _Positive:
        assert isinstance(self.measurements, _Positive)
        return self.measurements

    def _estimate(self, job: str, node: str) -> float:
        """The estimate of a pair, which must exist."""
        return lookup(lookup(self._estimates, job, "job"), node, f"estimate of job {job!r} on node")

    @cached_property
    def _corrections(self) -> dict[str | None, float]:
        """Measured job -> correction; None -> correction of the other jobs."""
        logs = {
            job: [math.log(value / self._estimates[job][node]) for node, value in row.items()]
            for job, row in self._measurements.items()
        }
        every = [ratio for row in logs.values() for ratio in row]
        means: dict[str | None, float] = {job: _geometric(row) for job, row in logs.items() if row}
        return means | {None: _geometric(every)}


def _geometric(logs: list[float]) -> float:
    """Geometric mean of numbers with these logarithms, independent of their order; 1 without numbers."""
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def estimated(
    models: Mapping[str, Mapping[str, Any]], measured: Mapping[str, Mapping[str, float]], types: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Steps per second of every job on every GPU type [Hadar, eq. 10].

    Measured pairs keep their measurements; the rest is
    :class:`~hetopt.models.hadare.corrected_throughput.ThroughputEstimates`. Before the first measurement the numbers
    have no unit. A MIG instance has its fraction of the speed of the whole GPU (by the equation an instance with little
    memory would be faster than the whole GPU). GPU types that are not in
    :data:`~hetopt.models.hadare.initial_throughput.GPUS`, such as declared CPU slots, get the geometric mean of the
    known types.

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
    estimates = ThroughputEstimates(rows, {job: dict(measured.get(job, {})) for job in rows})
    return {job: {t: estimates.throughput(job, t) for t in types} for job in rows}


def _is_known(gpu_type: str) -> bool:
    try:
        spec_of(gpu_type)
    except UnknownName:
        return False
    return True
