"""The log of a simulation: jobs, the GPUs that they held, decisions and events, as tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from numbers import Integral
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from hetopt.checks import shown
from hetopt.data.array_types import Floats
from hetopt.data.gpu_locations import HeldGPUs
from hetopt.display import Displayed
from hetopt.errors import InvalidOption


class EventKind(IntEnum):
    """Kinds of events; simultaneous events are handled in this order."""

    FINISH = 0
    DOWN = 1
    UP = 2
    ARRIVE = 3
    PROFILE = 4
    DECIDE = 5


@dataclass(frozen=True, eq=False)
class Log(Displayed):
    """The tables of a finished simulation. All times are in seconds.

    Attributes
    ----------
    jobs:
        One row per job that has arrived: ``tenant``, ``demand`` (GPUs), ``arrival``, ``start`` (when it first got
        GPUs), ``finish``, ``jct`` (finish - arrival), ``starvation`` (start - arrival), ``switches`` (restarts on other
        GPUs than before), ``rounds`` (from the first round in which it could run to the round in which it finished,
        inclusive; missing without rounds), ``lost`` (seconds of starting, moving and pausing for profiling runs; mean
        over copies), ``work``, ``done``, ``wasted`` (lost by server failures; unit of ``Job.work``). Times of events
        that did not happen are NaN.
    spans:
        One row per job and interval on the same GPUs (for a forked job per copy and decision, until the copy has done
        its work; a pause for a profiling run begins a new row), for Gantt charts: ``job``, ``tenant``, ``start``,
        ``end``, ``gpu_type``, ``servers`` (several joined by ``+``), ``gpus``, ``seats`` (JSON: server -> GPU type ->
        GPUs; the server is ``""`` where none was chosen), ``lost`` (seconds at its beginning: starting, moving,
        pausing), ``work`` (done in it). A job that shares its GPUs with another counts half of each; when it begins or
        ceases to share them, a new row begins.
    rounds:
        One row per decision, until the next: ``start``, ``end``, ``present`` (jobs), ``running`` (jobs), ``held`` and
        ``trained`` (GPU-seconds held, and of these spent training), ``utilisation`` (``trained`` over the GPU-seconds
        of the cluster), ``given_up`` (losses of rounding, selection and placement, by name).
    events:
        ``time``, ``kind`` (``finish``, ``down``, ``up``, ``arrive``, ``profile``, ``decide``), ``job`` (of ``down`` and
        ``up`` the server), in the order in which they were handled.
    throughput:
        (decisions, tenants) mean normalised throughput of each tenant (or tenant/job type) from that decision to the
        next: GPUs times speedup, times the part of the time spent training. Index: ``start``. Empty without tenants.
    estimated:
        Normalised throughput of the tenants in the policy's allocations, before rounding and placement
        [OEF, section 6.1.4]; NaN for absent tenants. Empty if the policy does not share among tenants.
    decision_seconds:
        Wall-clock seconds of each decision on this machine, by its second; all other tables are deterministic.
    end:
        Last second of the simulation.
    capacity:
        GPUs in the cluster.
    job_window:
        (first, end) numbers of the jobs over which metrics of jobs are taken, counted from 0 in order of arrival, the
        first inclusive and the end exclusive, as the ids of Gavel's ``--window-start`` and ``--window-end``; None: all
        jobs. Metrics of the cluster, of tenants and of decisions are always over the whole log.
    """

    jobs: pd.DataFrame
    spans: pd.DataFrame
    rounds: pd.DataFrame
    events: pd.DataFrame
    throughput: pd.DataFrame
    capacity: float
    estimated: pd.DataFrame = field(default_factory=pd.DataFrame)
    decision_seconds: pd.Series[float] = field(default_factory=lambda: pd.Series(dtype=float))
    end: float = math.nan
    job_window: tuple[int, int] | None = None

    @cached_property
    def jobs_with_work(self) -> pd.DataFrame:
        """Rows of the jobs that had work to do when they arrived (or at the beginning of the log)."""
        return self.jobs[~((self.jobs["done"] >= self.jobs["work"]) & self.jobs["finish"].isna())]

    @cached_property
    def counted_jobs(self) -> pd.DataFrame:
        """Those of :attr:`jobs_with_work` that are in :attr:`job_window`."""
        if self.job_window is None:
            return self.jobs_with_work
        inside = in_window(self.jobs["arrival"].to_numpy(dtype=float), self.job_window)
        return self.jobs_with_work.loc[self.jobs_with_work.index.isin(self.jobs.index[inside])]

    @cached_property
    def makespan(self) -> float:
        """Seconds from first arrival to last finish of :attr:`counted_jobs`; NaN while one is unfinished."""
        return float(self.counted_jobs["finish"].max(skipna=False) - self.counted_jobs["arrival"].min())

    @cached_property
    def utilisation(self) -> float:
        """GPU-seconds of training over all GPU-seconds of the cluster in the recorded rounds; no unit."""
        length = (self.rounds["end"] - self.rounds["start"]).sum()
        return float(self.rounds["trained"].sum() / (self.capacity * length)) if length > 0 else 0.0

    def mean_throughput(self, start: float = 0.0, end: float = float("inf")) -> pd.Series[float]:
        """Time-averaged normalised throughput of each tenant from ``start`` to ``end`` (seconds)."""
        begins, ends = self.rounds["start"].clip(lower=start), self.rounds["end"].clip(upper=end)
        length = (ends - begins).clip(lower=0.0).to_numpy()
        average: pd.Series[float] = self.throughput.mul(length, axis=0).sum() / length.sum()
        return average

    def __repr__(self) -> str:
        return f"Log({self.jobs['finish'].notna().sum()} of {len(self.jobs_with_work)} jobs finished)\n{self.jobs}"


def in_window(arrival: Floats, job_window: tuple[int, int]) -> Any:
    """(n,) whether the number of each job, in order of arrival and then of position, is in the window."""
    number = np.empty(len(arrival), dtype=np.intp)
    number[np.argsort(arrival, kind="stable")] = np.arange(len(arrival))
    return (job_window[0] <= number) & (number < job_window[1])


def check_job_window(given: object, jobs: int) -> tuple[int, int]:
    """The window as two whole numbers.

    Raises
    ------
    InvalidOption
        It is not two whole numbers with 0 <= first < end <= ``jobs``.
    """
    if isinstance(given, Sequence) and len(given) == 2:
        first, end = given
        whole = not any(isinstance(n, bool) or not isinstance(n, Integral) for n in (first, end))
        if whole and 0 <= first < end <= jobs:
            return int(first), int(end)
    raise InvalidOption(
        f"is {shown(given)}; it must be two ascending whole numbers, of the first job and after the last one, from 0 "
        f"to {jobs}, the number of jobs",
        "job_window",
    )


@dataclass(slots=True)
class _Span:
    """An interval of a job on the same GPUs; training begins after the seconds lost."""

    job: str
    tenant: str | None
    start: float
    where: HeldGPUs
    end: float = 0.0
    lost: float = 0.0
    work: float = 0.0
    throughput: float = 0.0
    earlier: float = 0.0
    """Work done on these GPUs before a pause."""


@lru_cache(maxsize=4096)
def _seats(where: tuple[tuple[tuple[str, str], float], ...]) -> tuple[str, str, float, str]:
    """GPU types, servers, number of GPUs and seats, as in :data:`SPANS`."""
    types, seats = "+".join(dict.fromkeys(t for (_, t), _ in where)), dict[str, dict[str, float]]()
    for (server, gpu_type), number in where:
        seats.setdefault(server, {})[gpu_type] = float(number)
    servers = "+".join(server for server in seats if server)
    return types, servers, sum(number for _, number in where), json.dumps(seats, ensure_ascii=False, sort_keys=True)


Key: TypeAlias = str | tuple[str, str]
"""A job, or (job, server) for one of its copies."""


class Recorder:
    """Collects the tables during a simulation."""

    def __init__(self, capacity: float, tenants: Mapping[str, str]) -> None:
        """``tenants``: job -> column of the throughput table, for the jobs that belong to a tenant."""
        self.capacity, self.tenants = capacity, tenants
        self.events: list[tuple[float, str, str | None]] = []
        self.spans: list[_Span] = []
        self.rounds: list[tuple[Any, ...]] = []
        self._open: dict[Key, _Span] = {}
        self.seconds: list[float] = []
        self.estimated: list[tuple[float, Mapping[str, float]]] = []
        self._round: tuple[Any, ...] | None = None
        self._estimated_rates: Mapping[str, float] | None = None

    def event(self, time: float, kind: EventKind, job: str | None = None) -> None:
        """Record an event."""
        self.events.append((time, NAMES[kind], job))

    def begin_round(
        self, time: float, present: int, running: int, gpus: float, given_up: Mapping[str, float], seconds: float
    ) -> None:
        """Record a decision: jobs that run from now on, their GPUs, losses, and wall-clock seconds."""
        self._round = (time, present, running, gpus, dict(given_up), seconds)

    def estimate(self, rates: Mapping[str, float] | None) -> None:
        """Record :attr:`~hetopt.decisions.system.Decision.estimated` of this decision."""
        self._estimated_rates = rates

    def end_round(self, time: float) -> None:
        """End the interval of the last decision."""
        current, self._round = self._round, None
        if current is not None and time > current[0]:
            start, present, running, gpus, given_up, seconds = current
            self.rounds.append((start, time, present, running, gpus * (time - start), given_up))
            self.seconds.append(seconds)
            if self._estimated_rates is not None:
                self.estimated.append((start, self._estimated_rates))

    def begin_span(self, time: float, job: str, tenant: str | None, where: HeldGPUs, key: Key | None = None) -> None:
        """Begin a span of ``job`` on ``where``; ``key``: identifies one of its copies."""
        self._open[job if key is None else key] = _Span(job, tenant, time, where)

    def is_open(self, key: Key) -> bool:
        """Whether the job (or copy) has an open span."""
        return key in self._open

    def work_of(self, key: Key) -> float:
        """Work of the job (or copy) so far on its present GPUs."""
        span = self._open[key]
        return span.earlier + span.work

    def pause(self, time: float, job: str) -> None:
        """Pause the job on its GPUs; a new row begins if it has trained in the present one."""
        span = self._open.get(job)
        if span is not None and time > span.start + span.lost:
            self.end_span(time, job)
            self._open[job] = _Span(job, span.tenant, time, span.where, earlier=span.earlier + span.work)

    def count(self, time: float, job: str, where: HeldGPUs) -> None:
        """Count other GPUs of a job that stays where it is: it begins, or ceases, to share them."""
        span = self._open[job]
        self.end_span(time, job)
        self._open[job] = _Span(job, span.tenant, time, where, earlier=span.earlier + span.work)

    def progress(self, key: Key, work: float, lost: float, throughput: float) -> None:
        """Add work of the job (or copy) after ``lost`` seconds; ``throughput``: normalised, of its tenant."""
        span = self._open[key]
        span.work += work
        span.lost += lost
        span.throughput = throughput

    def end_span(
        self, time: float, key: Key, work: float = 0.0, lost: float = 0.0, throughput: float | None = None
    ) -> None:
        """End the span of the job (or copy), if it has one, after the last progress as of :meth:`progress`."""
        span = self._open.pop(key, None)
        if span is not None and time > span.start:
            span.end, span.work, span.lost = time, span.work + work, span.lost + lost
            span.throughput = span.throughput if throughput is None else throughput
            self.spans.append(span)

    def log(self, jobs: dict[str, Any], end: float) -> Log:
        """The finished log; ``jobs`` are the columns of its first table, with -1 for no rounds."""
        table = pd.DataFrame(jobs).set_index("job")
        table["rounds"] = table["rounds"].astype("Int64").mask(table["rounds"] < 0)
        held = {id(span.where): span.where for span in self.spans}  # many spans share one
        seats = {key: _seats(tuple(where.items())) for key, where in held.items()}
        ordered = sorted(self.spans, key=attrgetter("start", "job"))
        found = [seats[id(span.where)] for span in ordered]
        columns = {key: [getattr(span, key) for span in ordered] for key in ("job", "tenant", "start", "end")}
        columns |= {key: [seat[k] for seat in found] for k, key in enumerate(("gpu_type", "servers", "gpus", "seats"))}
        columns |= {key: [getattr(span, key) for span in ordered] for key in ("lost", "work")}
        spans = pd.DataFrame(columns)
        rounds = pd.DataFrame(self.rounds, columns=[c for c in ROUNDS if c not in ("trained", "utilisation")])
        length = rounds["end"] - rounds["start"]
        trained = self._trained(self.spans, [float(seats[id(span.where)][2]) for span in self.spans], rounds)
        rounds.insert(5, "trained", trained)
        rounds.insert(6, "utilisation", trained / (self.capacity * length))
        events = pd.DataFrame(self.events, columns=["time", "kind", "job"])
        took = pd.Series(self.seconds, index=pd.Index(rounds["start"], name="start"), name="seconds", dtype=float)
        return Log(table, spans, rounds, events, self._throughput(rounds), self.capacity, self._estimated(), took, end)

    def _estimated(self) -> pd.DataFrame:
        """(decisions, tenants) rates in the allocations."""
        names = [name for name in dict.fromkeys(self.tenants.values()) if self.estimated]
        index = pd.Index([start for start, _ in self.estimated], name="start", dtype=float)
        columns = {name: [rates.get(name, np.nan) for _, rates in self.estimated] for name in names}
        return pd.DataFrame(columns, index=index, columns=pd.Index(names, name="tenant"), dtype=float)

    def _throughput(self, rounds: pd.DataFrame) -> pd.DataFrame:
        """(decisions, tenants) mean normalised throughput."""
        own: dict[str, list[_Span]] = {name: [] for name in self.tenants.values()}
        for span in self.spans if own else ():
            if span.job in self.tenants:
                own[self.tenants[span.job]].append(span)
        length = (rounds["end"] - rounds["start"]).to_numpy()
        columns = {n: self._trained(spans, [s.throughput for s in spans], rounds) / length for n, spans in own.items()}
        return pd.DataFrame(columns, columns=pd.Index(list(own), name="tenant"), index=rounds.index)

    def _trained(self, spans: list[_Span], rates: list[float], rounds: pd.DataFrame) -> Floats:
        """(decisions,) integral of the rates of all spans that train, from each decision to the next."""
        starts, lost, ends = (np.array([getattr(span, key) for span in spans], dtype=float) for key in TIMES)
        begins = training_begins(starts, lost, ends)
        bounds = rounds["start"].to_numpy(dtype=float), rounds["end"].to_numpy(dtype=float)
        return integrals(begins, ends, np.array(rates, dtype=float), *bounds)


def training_begins(starts: Floats, lost: Floats, ends: Floats) -> Floats:
    """(spans,) second from which each span trains, after the seconds lost; its end if it does not train."""
    return np.minimum(starts + lost, ends)


def integrals(begins: Floats, ends: Floats, rates: Floats, starts: Floats, stops: Floats) -> Floats:
    """(r,) integrals over (r,) intervals of the sum of ``rates``, each of which holds from its begin to its end.

    The intervals are in order and do not overlap. The sum is constant between two successive times; a difference of
    integrals from the beginning would lose the digits of short intervals.
    """
    if not len(starts):
        return np.zeros(0)
    times = np.unique(np.concatenate([begins, ends, starts, stops]))
    at = np.concatenate([np.searchsorted(times, begins), np.searchsorted(times, ends)])
    many = np.bincount(at, weights=np.repeat([1.0, -1.0], len(rates)), minlength=len(times)).cumsum()[:-1]
    total = np.bincount(at, weights=np.concatenate([rates, -rates]), minlength=len(times)).cumsum()[:-1]
    area = np.where(many > 0, total, 0.0) * np.diff(times)  # exactly 0 where no rate holds
    inside = np.searchsorted(starts, times[:-1], side="right") - 1
    there = (inside >= 0) & (times[:-1] < stops[inside])
    found: Floats = np.bincount(inside[there], weights=area[there], minlength=len(starts)).astype(float)
    return found


NAMES = {kind: kind.name.lower() for kind in EventKind}
SPANS = ["job", "tenant", "start", "end", "gpu_type", "servers", "gpus", "seats", "lost", "work"]
TIMES = ("start", "lost", "end")
ROUNDS = ["start", "end", "present", "running", "held", "trained", "utilisation", "given_up"]
