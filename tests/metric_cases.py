"""Logs for the tests of metrics: one by hand, and random simulations whose numbers are sums of powers of two."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from hetopt import Cluster, HierarchicalPlacer, Instance, Job, Log, Overheads, Plan, Tenant, simulate
from hetopt.formulations.traits import Traits
from hetopt.simulation.environment import Environment
from hetopt.simulation.server_changes import ServerChange

JOBS = ["job", "tenant", "arrival", "start", "finish", "switches", "work", "done"]
SPANS = ["job", "start", "end", "gpu_type", "servers", "gpus", "lost", "work"]
NAN = float("nan")


def log_of(
    jobs: list[tuple[Any, ...]],
    spans: list[tuple[Any, ...]],
    bounds: list[float],
    capacity: float,
    throughput: pd.DataFrame | None = None,
    estimated: pd.DataFrame | None = None,
) -> Log:
    """A log of rows as in JOBS and SPANS, with a decision at each of ``bounds`` but the last."""
    table = pd.DataFrame(jobs, columns=JOBS).set_index("job")
    rounds = pd.DataFrame({"start": bounds[:-1], "end": bounds[1:]})
    return Log(
        table,
        pd.DataFrame(spans, columns=SPANS),
        rounds,
        pd.DataFrame({"time": bounds, "kind": "decide", "job": None}),
        pd.DataFrame(index=rounds.index) if throughput is None else throughput,
        capacity,
        pd.DataFrame() if estimated is None else estimated,
    )


def seated(log: Log) -> Log:
    """The log with the column ``seats``; every span is on one type and one server."""
    rows = zip(*(log.spans[key].tolist() for key in ("servers", "gpu_type", "gpus")), strict=True)
    return replace(log, spans=log.spans.assign(tenant=None, seats=[json.dumps({s: {t: n}}) for s, t, n in rows]))


def by_hand() -> tuple[Log, Instance]:
    """Three rounds of 8 s on two servers. x moves to its faster type, y is paused, z and w do not finish."""
    cluster = Cluster.of({"A": 2, "B": 2})
    jobs = (
        Job("x", {"A": 4, "B": 2}, 32),
        Job("y", {"A": 1, "B": 0.5}, 11, demand=2),
        Job("z", {"A": 0.25, "B": 0.25}, 16, arrival=4),
        Job("w", {"A": 1, "B": 1}, 1, arrival=20),
        Job("late", {"A": 1, "B": 1}, 1, arrival=100),
    )
    rows = [
        ("x", None, 0.0, 0.0, 14.0, 1, 32.0, 32.0),
        ("y", None, 0.0, 0.0, 20.0, 0, 11.0, 11.0),
        ("z", None, 4.0, 16.0, NAN, 0, 16.0, 2.0),
        ("w", None, 20.0, NAN, NAN, 0, 1.0, 0.0),
    ]
    spans = [
        ("x", 0.0, 8.0, "B", "b-0", 1, 0.0, 16.0),
        ("y", 0.0, 8.0, "A", "a-0", 2, 0.0, 8.0),
        ("x", 8.0, 14.0, "A", "a-0", 1, 2.0, 16.0),
        ("y", 16.0, 20.0, "A", "a-0", 2, 1.0, 3.0),
        ("z", 16.0, 24.0, "B", "b-0", 1, 0.0, 2.0),
    ]
    return log_of(rows, spans, [0.0, 8.0, 16.0, 24.0], 4.0), Instance(cluster, jobs=jobs)


@dataclass(frozen=True)
class Drawn:
    """Jobs in random order on random GPUs, which may be of several types; some wait. State: decisions so far."""

    seed: int
    round_seconds: float | None = None
    mixed: bool = True

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds, mixes=self.mixed)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        number = state or 0
        dice = np.random.default_rng((self.seed, number))
        jobs = instance.entities("jobs")
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        for turn, i in enumerate(dice.permutation(len(jobs.names))):
            room = np.where(jobs.task_speed[i] > 0, free, 0.0)
            if (room.sum() if self.mixed else room.max()) >= jobs.demand[i] and (turn == 0 or dice.random() < 0.75):
                seats = np.repeat(np.arange(len(room)), room.astype(int))
                alone = np.flatnonzero(room >= jobs.demand[i])
                if len(alone) and (not self.mixed or dice.random() < 0.75):
                    seats = seats[seats == dice.choice(alone)]
                x[i] = np.bincount(dice.permutation(seats)[: int(jobs.demand[i])], minlength=len(room))
                free -= x[i]
        return Plan(jobs, x), number + 1


POWERS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])


@st.composite
def instances(draw: st.DrawFn, tenants: bool = False, mixed: bool = True) -> Instance:
    """Up to six jobs on one to three types of 1, 2 or 4 GPUs, on servers of one or two."""
    k = draw(st.integers(1, 3))
    types = [f"T{i}" for i in range(k)]
    capacity = {t: draw(st.sampled_from([1, 2, 4])) for t in types}
    names = [f"u{i}" for i in range(draw(st.integers(2, 3)))] if tenants else [None]
    owners = tuple(
        Tenant(u, {t: draw(POWERS) for t in types}, weight=draw(st.sampled_from([1.0, 2.0])), any_scale=True)
        for u in names
        if u
    )
    jobs = []
    for i in range(draw(st.integers(1, 6))):
        most = sum(capacity.values()) if mixed else max(capacity.values())
        demand = draw(st.sampled_from([d for d in (1, 2, 4) if d <= most]))
        tenant = draw(st.sampled_from(names))
        speed = {t: draw(POWERS) for t in types}
        if tenant:
            speed = {t: v * demand for t, v in owners[names.index(tenant)].job_types[0].speedup.items()}
        work, arrival = draw(st.integers(1, 64)), draw(st.sampled_from([0.0, 0.0, 8.0, 20.0, 40.0]))
        jobs.append(Job(f"j{i}", speed, float(work), demand, arrival, tenant))
    return Instance(Cluster.of(capacity, gpus_per_server=draw(st.integers(1, 2))), owners, tuple(jobs))


@st.composite
def simulations(draw: st.DrawFn, tenants: bool = False, mixed: bool = True) -> tuple[Log, Instance]:
    """A log of random decisions, in rounds of 16 s or at events, some stopped early, some with a server that fails."""
    instance = draw(instances(tenants, mixed))
    server = draw(st.sampled_from(instance.cluster.servers)).name
    fails = draw(st.sampled_from([False, False, True]))
    log = simulate(
        Drawn(draw(st.integers(0, 99)), draw(st.sampled_from([None, 16.0])), mixed),
        instance,
        placer=HierarchicalPlacer() if draw(st.booleans()) else None,
        environment=Environment(
            Overheads(restart_seconds=2.0, resume_seconds=0.5, start_seconds=1.0),
            changes=(ServerChange(24.0, server), ServerChange(72.0, server, up=True)) if fails else (),
        ),
        until=draw(st.sampled_from([float("inf"), float("inf"), 48.0])),
    )
    return log, instance


def moments(log: Log, *more: float) -> Iterator[tuple[Fraction, Fraction]]:
    """Middle and length of each stretch of time between two of all times in the log."""
    columns = [log.spans["start"], log.spans["end"], log.spans["start"] + log.spans["lost"], log.jobs["arrival"]]
    columns += [log.jobs["finish"].dropna(), log.rounds["start"], log.rounds["end"], log.events["time"]]
    more = more if math.isnan(log.end) else (*more, log.end)
    times = sorted({Fraction(t) for column in columns for t in column.tolist()} | {Fraction(t) for t in more})
    yield from ((before + (after - before) / 2, after - before) for before, after in pairwise(times))


def is_present(row: Any, moment: Fraction) -> bool:
    """Whether a job (a row of ``log.jobs``) has arrived and is unfinished."""
    return row.arrival <= moment and not row.finish <= moment


@dataclass(frozen=True)
class Span:
    """A row of ``log.spans``."""

    job: str
    start: float
    end: float
    types: tuple[str, ...]
    servers: tuple[str, ...]
    gpus: float
    lost: float
    seats: str

    def of(self, gpu_type: str) -> float:
        """Its GPUs of that type."""
        return sum(here.get(gpu_type, 0.0) for here in json.loads(self.seats).values())

    def runs(self, moment: Fraction) -> bool:
        """Whether its job has the GPUs then."""
        return self.start < moment < self.end

    def trains(self, moment: Fraction) -> bool:
        """Whether it also trains."""
        return self.start + self.lost < moment < self.end


def spans_of(log: Log) -> list[Span]:
    return [
        Span(
            row.job,
            row.start,
            row.end,
            tuple(row.gpu_type.split("+")),
            tuple(row.servers.split("+")) if row.servers else (),
            row.gpus,
            row.lost,
            row.seats,
        )
        for row in log.spans.itertuples()
    ]
