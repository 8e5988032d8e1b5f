"""The past of a cluster as a :class:`~hetopt.simulation.log.Log`, for the metrics and pages of simulations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import pandas as pd

from hetopt.data.cluster import Cluster
from hetopt.data.entities import job_type_keys
from hetopt.data.gpu_locations import HeldGPUs, hosts_of
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance
from hetopt.executor.connection import Connection, Row
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.lease_record import TRAIN
from hetopt.executor.queue import DONE, QUEUED, known_nodes, spec_of
from hetopt.executor.round_decision import cluster_of, job_of, speeds_of, with_tenants
from hetopt.executor.speeds import allowed_types, memory_of, read_speeds
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import ESTIMATORS
from hetopt.simulation.log import EventKind, Log, Recorder, integrals

KINDS = {"submitted": EventKind.ARRIVE, "done": EventKind.FINISH, "round": EventKind.DECIDE}
"""Events of the state database -> those of a simulation."""

Held = Mapping[int, HeldGPUs]
"""Number of a lease -> (node, GPU type) -> GPUs."""

JOBS = [
    "job", "tenant", "demand", "arrival", "start", "finish", "jct", "starvation", "switches", "rounds", "lost", "work",
    "done", "wasted",
]  # fmt: skip
"""Columns of jobs."""


def log_of(database: StateDatabase) -> Log:
    """The log of the cluster until now, without jobs that could never run; see :func:`instance_of`.

    A span is a lease from its grant to its seal; ``lost`` are the seconds until its first step, ``work`` the steps that
    were committed. ``switches`` has profiling runs left out. There are no ``estimated`` throughputs.
    """
    with database.reading() as connection:
        jobs = connection.rows("SELECT * FROM jobs ORDER BY id")
        leases = connection.rows("SELECT * FROM leases ORDER BY id")
        seats = connection.tuples(
            "SELECT lease, node, gpu_type, count(*) FROM seats GROUP BY 1, 2, 3 ORDER BY min(rowid)"
        )
        rounds = connection.rows("SELECT * FROM rounds ORDER BY number")
        events = connection.rows(
            "SELECT * FROM events WHERE kind IN (SELECT value FROM json_each(:kinds)) ORDER BY id", kinds=list(KINDS)
        )
        cluster, runnable = _described(connection, jobs)
    speeds = {job.name: job.throughput for job in runnable}
    columns = dict[str, str]()  # job -> its tenant, or tenant and job type
    if cluster is not None:
        jobs = [row for row in jobs if row["name"] in speeds]
    if cluster is not None and runnable:
        instance = with_tenants(cluster, runnable)
        names = {key: name for name, key in job_type_keys(instance).items()}
        columns = {job.name: names[str(job.tenant), str(job.job_type)] for job in instance.jobs}
    by_number = {row["id"]: row for row in jobs}
    leases = [lease for lease in leases if lease["job"] in by_number]
    finished = [row["finished"] or 0.0 for row in jobs]
    end = max(finished, default=0.0)
    if not jobs or any(row["state"] == QUEUED for row in jobs):  # else the log ends with the last job, as simulations
        end = max(end, database.now())
    capacity = float(max((row["capacity"] for row in rounds), default=0))
    held: dict[int, dict[tuple[str, str], float]] = {}
    for lease, node, gpu_type, number in seats:
        held.setdefault(lease, {})[node, gpu_type] = float(number)
    record = Recorder(capacity, columns)
    shown = {None, *(row["name"] for row in jobs)}
    for row in events:
        if row["job"] in shown:
            record.event(row["time"], KINDS[row["kind"]], row["job"])
    rounds = [row for row in rounds if row["time"] < end]
    for row, stop in zip(rounds, [*(row["time"] for row in rounds[1:]), end], strict=False):
        record.begin_round(row["time"], row["jobs"], row["placed"], 0.0, {}, row["seconds"])
        record.end_round(stop)
    for lease in leases:
        job, where, start, stop = by_number[lease["job"]], held.get(lease["id"], {}), lease["granted"], lease["sealed"]
        stop = end if stop is None else stop
        begun = stop if lease["first_tick"] is None else lease["first_tick"]
        work = float((lease["end_step"] or lease["from_step"]) - lease["from_step"])
        rate = _rate(where, speeds.get(job["name"], {}))
        record.begin_span(start, job["name"], job["tenant"], where, lease["tag"])
        record.progress(lease["tag"], work, begun - start, rate)
        record.end_span(stop, lease["tag"])
    log = record.log(_jobs(jobs, leases, held, end), end)
    spans = (log.spans[key].to_numpy(dtype=float) for key in ("start", "end", "gpus"))
    bounds = (log.rounds[key].to_numpy(dtype=float) for key in ("start", "end"))
    log.rounds["held"] = integrals(*spans, *bounds)
    log.throughput.index = pd.Index(log.rounds["start"], name="start")
    return log


def _jobs(jobs: Sequence[Row], leases: Sequence[Row], held: Held, end: float) -> dict[str, list[Any]]:
    own: dict[int, list[Row]] = {}
    for lease in leases:
        if lease["running"] is not None or lease["first_tick"] is not None:
            own.setdefault(lease["job"], []).append(lease)
    found = []
    for row in jobs:
        spec, mine, arrival = spec_of(row), own.get(row["id"], []), row["submitted"]
        finish = row["finished"] if row["state"] == DONE else math.nan
        start = mine[0]["granted"] if mine else math.nan
        lost = sum((lease["first_tick"] or lease["sealed"] or end) - lease["granted"] for lease in mine)
        times = arrival, start, finish, finish - arrival, start - arrival
        steps = float(spec.steps), float(row["committed"]), float(row["lost"])
        found.append((row["name"], row["tenant"], spec.workers, *times, _switches(mine, held), -1, lost, *steps))
    return {key: [row[i] for row in found] for i, key in enumerate(JOBS)}


def _switches(leases: Sequence[Row], held: Held) -> int:
    """Number of times that a job, or a copy of a round, began to train on GPUs that it did not have before."""
    turns = [lease for lease in leases if lease["kind"] == TRAIN]
    places = []
    for _, own in groupby(turns, key=lambda lease: (lease["forked"], lease["round" if lease["forked"] else "id"])):
        places.append([place for lease in own for place in hosts_of(held.get(lease["id"], {})).items()])
    return sum(any(place not in before for place in after) for before, after in pairwise(places))


def _rate(held: HeldGPUs, speeds: Mapping[str, float]) -> float:
    """Normalised throughput of a job while it trains: GPUs times its speedup there."""
    slowest = min((rate for rate in speeds.values() if rate > 0), default=1.0)
    return sum(number * speeds.get(gpu_type, slowest) / slowest for (_, gpu_type), number in held.items())


def instance_of(database: StateDatabase) -> Instance:
    """The jobs as policies see them, on the nodes that are known and those that jobs were on before.

    Its simulation is what the executor would have done; there, jobs that failed or were cancelled train to the end.
    Speeds that were not measured are estimated as the executor does it, by equation (10) of Hadar; if none was measured
    of any job, all are estimates without a unit.

    Left out here and in :func:`log_of` are jobs that could never run: those that need more memory than any GPU type
    that they may use, or ran out of it on each, and those with more workers than there are such GPUs.

    Raises
    ------
    InvalidInstance
        No node is known, or no job that could run.
    """
    with database.reading() as connection:
        cluster, jobs = _described(connection, connection.rows("SELECT * FROM jobs ORDER BY id"))
    if cluster is None:
        raise InvalidInstance(f"{database.folder} knows no node with a GPU yet; `hetopt run` asks an engine for them")
    if not jobs:
        raise InvalidInstance(f"{database.folder} has no job yet that its nodes could run")
    return with_tenants(cluster, jobs, name=str(database.folder), source="measured by the executor")


def _described(connection: Connection, rows: Sequence[Row]) -> tuple[Cluster | None, list[Job]]:
    """The cluster, None while it is unknown, and the jobs that it could run."""
    speeds, hosts = read_speeds(connection, all_jobs=True), _hosts(connection)
    cluster, memory = cluster_of(hosts), memory_of(hosts)
    if cluster is None:
        return None, []
    every = speeds_of(rows, speeds, cluster.type_names, ESTIMATORS.factory("hadar"))
    found = []
    for row in rows:
        spec, own = spec_of(row), every[row["name"]]
        allowed = allowed_types(spec, speeds.of(row["id"]), memory, cluster.type_names)
        rates = {t: own[t] if t in allowed else 0.0 for t in cluster.type_names}
        if sum(cluster.capacity[t] for t, rate in rates.items() if rate > 0) >= spec.workers:
            found.append(job_of(row, spec, rates))
    return cluster, found


def _hosts(connection: Connection) -> list[Node]:
    """Hosts that are known, with the GPUs on which leases were: nodes go, and GPUs are split."""
    query = "SELECT node, gpu_type, count(DISTINCT number) FROM seats GROUP BY node, gpu_type ORDER BY node, gpu_type"
    known = dict(sorted(known_nodes(connection).items()))
    gpus = {name: dict(content["gpus"]) for name, content in known.items()}
    for name, gpu_type, number in connection.execute(query):
        here = gpus.setdefault(name, {})
        here[gpu_type] = max(number, here.get(gpu_type, 0))
    return [
        Node(
            name,
            tuple(Seat(name, gpu_type, i) for gpu_type, number in here.items() for i in range(number)),
            memory_bytes=known.get(name, {}).get("memory_bytes", {}),
        )
        for name, here in gpus.items()
    ]
