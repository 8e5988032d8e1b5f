"""The past of a cluster as a :class:`~hetopt.simulation.log.Log`, for the metrics and pages of simulations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np
import pandas as pd

from hetopt.data.cluster import Cluster
from hetopt.data.entities import job_type_keys
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
from hetopt.simulation.log import ROUNDS, SPANS, Log, integrals, training_begins

KINDS = {"submitted": "arrive", "done": "finish", "round": "decide"}
"""Events of the state database -> those of a simulation."""

Held = Mapping[int, Mapping[str, Mapping[str, int]]]
"""Number of a lease -> node -> GPU type -> GPUs."""

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
        events = connection.rows("SELECT * FROM events ORDER BY id")
        cluster, described = _described(connection, jobs)
    if cluster is not None:
        jobs = [row for row in jobs if row["name"] in described]
    by_number = {row["id"]: row for row in jobs}
    leases = [lease for lease in leases if lease["job"] in by_number]
    finished = [row["finished"] or 0.0 for row in jobs]
    end = max(finished, default=0.0)
    if not jobs or any(row["state"] == QUEUED for row in jobs):  # else the log ends with the last job, as simulations
        end = max(end, database.now())
    capacity = float(max((row["capacity"] for row in rounds), default=0))
    rounds = [row for row in rounds if row["time"] < end]
    held: dict[int, dict[str, dict[str, int]]] = {}
    for lease, node, gpu_type, number in seats:
        held.setdefault(lease, {}).setdefault(node, {})[gpu_type] = number
    spans = _spans(leases, by_number, held, end)
    table = _rounds(rounds, spans, capacity, end)
    took = pd.Series([row["seconds"] for row in rounds], index=pd.Index(table["start"], name="start"), name="seconds")
    names = {None, *(row["name"] for row in jobs)}
    changes = [
        (row["time"], KINDS[row["kind"]], row["job"]) for row in events if row["kind"] in KINDS and row["job"] in names
    ]
    return Log(
        _jobs(jobs, leases, held, end),
        spans,
        table,
        pd.DataFrame(changes, columns=["time", "kind", "job"]),
        _throughput(spans, table, with_tenants(cluster, list(described.values())) if cluster and described else None),
        capacity,
        pd.DataFrame(index=pd.Index([], name="start", dtype=float)),
        took,
        end,
    )


def _jobs(jobs: Sequence[Row], leases: Sequence[Row], held: Held, end: float) -> pd.DataFrame:
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
        found.append((row["name"], row["tenant"], spec.workers, *times, _switches(mine, held), pd.NA, lost, *steps))
    table = pd.DataFrame(found, columns=JOBS).set_index("job")
    table["rounds"] = table["rounds"].astype("Int64")
    return table


def _switches(leases: Sequence[Row], held: Held) -> int:
    """Number of times that a job, or a copy of a round, began to train on GPUs that it did not have before."""
    turns = [lease for lease in leases if lease["kind"] == TRAIN]
    places = []
    for _, own in groupby(turns, key=lambda lease: (lease["forked"], lease["round" if lease["forked"] else "id"])):
        places.append([place for lease in own for place in held.get(lease["id"], {}).items()])
    return sum(any(place not in before for place in after) for before, after in pairwise(places))


def _spans(leases: Sequence[Row], jobs: Mapping[int, Row], held: Held, end: float) -> pd.DataFrame:
    found = []
    for lease in leases:
        seats, job = held.get(lease["id"], {}), jobs[lease["job"]]
        start, stop = lease["granted"], end if lease["sealed"] is None else lease["sealed"]
        begun = stop if lease["first_tick"] is None else lease["first_tick"]
        found.append(
            {
                "job": job["name"],
                "tenant": job["tenant"],
                "start": start,
                "end": stop,
                "gpu_type": "+".join(sorted({gpu_type for gpus in seats.values() for gpu_type in gpus})),
                "servers": "+".join(seats),
                "gpus": float(sum(sum(gpus.values()) for gpus in seats.values())),
                "seats": json.dumps(seats, sort_keys=True),
                "lost": begun - start,
                "work": float((lease["end_step"] or lease["from_step"]) - lease["from_step"]),
            }
        )
    return pd.DataFrame(found, columns=SPANS)


def _rounds(rounds: Sequence[Row], spans: pd.DataFrame, capacity: float, end: float) -> pd.DataFrame:
    starts = np.array([row["time"] for row in rounds], dtype=float)
    stops = np.append(starts[1:], max(end, starts[-1])) if len(starts) else starts
    gpus = spans["gpus"].to_numpy(dtype=float)
    begins, lost, ends = (spans[key].to_numpy(dtype=float) for key in ("start", "lost", "end"))
    held = integrals(begins, ends, gpus, starts, stops)
    trained = integrals(training_begins(begins, lost, ends), ends, gpus, starts, stops)
    with np.errstate(invalid="ignore", divide="ignore"):
        used = trained / (capacity * (stops - starts))
    columns = {
        "start": starts,
        "end": stops,
        "present": [row["jobs"] for row in rounds],
        "running": [row["placed"] for row in rounds],
        "held": held,
        "trained": trained,
        "utilisation": used,
        "given_up": [{} for _ in rounds],
    }
    return pd.DataFrame(columns, columns=ROUNDS)


def _throughput(spans: pd.DataFrame, rounds: pd.DataFrame, instance: Instance | None) -> pd.DataFrame:
    """(decisions, tenants) mean normalised throughput: GPUs that train, times the job's speedup there."""
    names = {} if instance is None else {key: name for name, key in job_type_keys(instance).items()}
    jobs = {} if instance is None else instance.job
    places = zip(spans["job"], spans["seats"], strict=True)
    rates = np.array([_rate(json.loads(seats), jobs[job].throughput) for job, seats in places])
    starts, lost, ends = (spans[key].to_numpy(dtype=float) for key in ("start", "lost", "end"))
    begins = training_begins(starts, lost, ends)
    bounds = rounds["start"].to_numpy(dtype=float), rounds["end"].to_numpy(dtype=float)
    columns = {}
    owner = np.array([names[str(jobs[job].tenant), str(jobs[job].job_type)] for job in spans["job"]], dtype=object)
    for tenant in names.values():
        own = owner == tenant
        with np.errstate(invalid="ignore", divide="ignore"):
            columns[tenant] = integrals(begins[own], ends[own], rates[own], *bounds) / (bounds[1] - bounds[0])
    index = pd.Index(rounds["start"], name="start")
    return pd.DataFrame(columns, index=index, columns=pd.Index(list(columns), name="tenant"), dtype=float)


def _rate(seats: Mapping[str, Mapping[str, int]], speeds: Mapping[str, float]) -> float:
    slowest = min((rate for rate in speeds.values() if rate > 0), default=1.0)
    return sum(n * speeds.get(kind, slowest) / slowest for gpus in seats.values() for kind, n in gpus.items())


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
    return with_tenants(cluster, list(jobs.values()), name=str(database.folder), source="measured by the executor")


def _described(connection: Connection, rows: Sequence[Row]) -> tuple[Cluster | None, dict[str, Job]]:
    """The cluster, None while it is unknown, and the jobs that it could run, by name."""
    speeds, hosts = read_speeds(connection, all_jobs=True), _hosts(connection)
    cluster, memory = cluster_of(hosts), memory_of(hosts)
    if cluster is None:
        return None, {}
    every = speeds_of(rows, speeds, cluster.type_names, ESTIMATORS.factory("hadar"))
    found: dict[str, Job] = {}
    for row in rows:
        spec, own = spec_of(row), every[row["name"]]
        allowed = allowed_types(spec, speeds.of(row["id"]), memory, cluster.type_names)
        rates = {t: own[t] if t in allowed else 0.0 for t in cluster.type_names}
        if sum(cluster.capacity[t] for t, rate in rates.items() if rate > 0) >= spec.workers:
            found[row["name"]] = job_of(row, spec, rates)
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
