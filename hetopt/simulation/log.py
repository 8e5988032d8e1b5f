"""What happened in a simulation: who had what when, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import pandas as pd

from hetopt.simulation.overheads import Where


class Kind(IntEnum):
    """Kinds of events, in the order in which they are handled at the same second."""

    FINISH = 0
    ARRIVE = 1
    DECIDE = 2


@dataclass(frozen=True, eq=False)
class Log:
    """The tables of a finished simulation. All times are in seconds.

    Attributes
    ----------
    jobs:
        One row per job that has arrived: ``tenant``, ``arrival``, ``start`` (when it first got GPUs), ``finish``,
        ``jct`` (finish - arrival), ``starvation`` (start - arrival), ``switches`` (restarts on other GPUs than
        before), ``rounds`` (from the first round that it could run in, to the one it finished in, both counted;
        missing where there are no rounds), ``work``, ``done`` (unit of ``Job.work``). Times that have not come to
        pass are NaN.
    spans:
        One row per job and stretch of time on the same GPUs, for Gantt charts: ``job``, ``tenant``, ``start``,
        ``end``, ``gpu_type``, ``servers`` (several joined by ``+``), ``gpus``, ``lost`` (seconds of starting and
        moving), ``work`` (done in it).
    rounds:
        One row per decision, until the next: ``start``, ``end``, ``present`` (jobs), ``running`` (jobs), ``held``
        and ``trained`` (GPU-seconds held, and of these spent training), ``utilisation`` (trained over what the
        cluster has), ``given_up`` (by rounding, selection and placement, by name).
    events:
        ``time``, ``kind`` (``finish``, ``arrive``, ``decide``), ``job``, in the order in which they were handled.
    throughput:
        (decisions, tenants) mean normalised throughput of each tenant (or tenant/job type) from that decision to the
        next: GPUs times speedup, times the part of the time spent training. Index: ``start``. Empty without tenants.
    capacity:
        GPUs in the cluster.
    """

    jobs: pd.DataFrame
    spans: pd.DataFrame
    rounds: pd.DataFrame
    events: pd.DataFrame
    throughput: pd.DataFrame
    capacity: float

    @cached_property
    def makespan(self) -> float:
        """Seconds from first arrival to last finish, of jobs that had work to do; NaN while one is unfinished."""
        ran = self.jobs[~((self.jobs["done"] >= self.jobs["work"]) & self.jobs["finish"].isna())]
        return float(ran["finish"].max(skipna=False) - ran["arrival"].min())

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
        done = self.jobs["finish"].notna().sum()
        return f"Log({done} of {len(self.jobs)} jobs finished, mean jct {self.jobs['jct'].mean():g} s)\n{self.jobs}"


@dataclass
class _Span:
    start: float
    where: Where
    lost: float = 0.0
    work: float = 0.0


@dataclass
class _Round:
    start: float
    present: int
    running: int
    gpus: float
    given_up: Mapping[str, float]
    trained: float = 0.0
    normalised: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class Recorder:
    """Writes the tables while the simulation runs."""

    def __init__(self, capacity: float, tenants: Mapping[str, str]) -> None:
        """``tenants``: job -> column of the throughput table, for the jobs that belong to a tenant."""
        self.capacity, self.tenants = capacity, tenants
        self.events: list[tuple[float, str, str | None]] = []
        self.spans: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        self.throughput: list[dict[str, float]] = []
        self._open: dict[str, _Span] = {}
        self._round: _Round | None = None

    def event(self, time: float, kind: Kind, job: str | None = None) -> None:
        """Note an event."""
        self.events.append((time, kind.name.lower(), job))

    def begin_round(self, time: float, present: int, running: int, gpus: float, given_up: Mapping[str, float]) -> None:
        """A decision: so many jobs run on so many GPUs from now on."""
        self._round = _Round(time, present, running, gpus, dict(given_up))

    def end_round(self, time: float) -> None:
        """The time of that decision is over."""
        current, self._round = self._round, None
        if current is None or time <= current.start:
            return
        length = time - current.start
        self.rounds.append(
            {
                "start": current.start,
                "end": time,
                "present": current.present,
                "running": current.running,
                "held": current.gpus * length,
                "trained": current.trained,
                "utilisation": current.trained / (self.capacity * length),
                "given_up": current.given_up,
            }
        )
        self.throughput.append({name: value / length for name, value in current.normalised.items()})

    def start(self, time: float, job: str, where: Where) -> None:
        """``job`` begins on ``where``."""
        self._open[job] = _Span(time, where)

    def progress(self, job: str, work: float, trained: float, lost: float, speedup: float) -> None:
        """``job`` did ``work`` in ``trained`` seconds after ``lost`` ones; ``speedup``: its normalised throughput."""
        span = self._open[job]
        span.work += work
        span.lost += lost
        if self._round is not None:
            self._round.trained += trained * sum(span.where.values())
            if job in self.tenants:
                self._round.normalised[self.tenants[job]] += trained * speedup

    def stop(self, time: float, job: str, tenant: str | None) -> None:
        """``job`` leaves its GPUs."""
        span = self._open.pop(job)
        if time <= span.start:
            return
        self.spans.append(
            {
                "job": job,
                "tenant": tenant,
                "start": span.start,
                "end": time,
                "gpu_type": "+".join(dict.fromkeys(t for _, t in span.where)),
                "servers": "+".join(dict.fromkeys(server for server, _ in span.where if server)),
                "gpus": sum(span.where.values()),
                "lost": span.lost,
                "work": span.work,
            }
        )

    def log(self, jobs: list[dict[str, Any]]) -> Log:
        """The finished log; ``jobs`` are the rows of its first table."""
        table = pd.DataFrame(jobs, columns=JOBS).set_index("job")
        table["rounds"] = table["rounds"].astype("Int64")
        spans = pd.DataFrame(self.spans, columns=SPANS).sort_values(["start", "job"], kind="stable", ignore_index=True)
        rounds = pd.DataFrame(self.rounds, columns=ROUNDS)
        columns = list(dict.fromkeys(self.tenants.values()))
        throughput = pd.DataFrame(self.throughput, columns=pd.Index(columns, name="tenant"), index=rounds.index)
        events = pd.DataFrame(self.events, columns=["time", "kind", "job"])
        return Log(table, spans, rounds, events, throughput.fillna(0.0), self.capacity)


JOBS = ["job", "tenant", "arrival", "start", "finish", "jct", "starvation", "switches", "rounds", "work", "done"]
SPANS = ["job", "tenant", "start", "end", "gpu_type", "servers", "gpus", "lost", "work"]
ROUNDS = ["start", "end", "present", "running", "held", "trained", "utilisation", "given_up"]
