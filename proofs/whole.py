"""Hypothesis strategy of instances that use every field: servers, memory, job types, stages, state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Parallelism, Stage, Tenant

Draw = st.DrawFn

NAMES = st.one_of(
    st.sampled_from(
        ["no", "1", "1e9", "null", "~", "a: b", "x#y", "- z", "é", "0x1F", "2024-01-01", "1:30", "true", "*a"]
    ),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=6),
)
"""Names that YAML might take for something else, and any other printable ones."""

AMOUNTS = st.floats(0, 1e18, allow_subnormal=False)
POSITIVE = st.floats(1 / 1e18, 1e18)


@st.composite
def clusters(draw: Draw) -> Cluster:
    """One to three GPU types on one to four servers, or capacities in equal servers."""
    types = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    memory = {t: draw(st.none() | POSITIVE) for t in types}
    if draw(st.booleans()):
        capacity = {t: draw(st.integers(1, 9)) for t in types}
        known = {t: m for t, m in memory.items() if m is not None}
        return Cluster.of(capacity, gpus_per_server=draw(st.none() | st.integers(1, 4)), memory_bytes=known)
    servers = [
        Server(
            name,
            draw(st.dictionaries(st.sampled_from(types), st.integers(0, 4))),
            draw(POSITIVE),
            draw(POSITIVE),
            draw(st.none() | AMOUNTS),
        )
        for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    ]
    if not any(server.gpus for server in servers):
        servers.append(Server("the only one", {types[0]: 2}))
    return Cluster(tuple(GPUType(t, memory[t]) for t in types), tuple(servers))


@st.composite
def speeds(draw: Draw, cluster: Cluster) -> dict[str, float]:
    """A speed per GPU type, one of them positive."""
    row = {t: draw(st.just(0.0) | POSITIVE) for t in cluster.type_names}
    return row if any(row.values()) else dict.fromkeys(row, 1.0)


def _memory(draw: Draw, cluster: Cluster, row: dict[str, float]) -> float:
    """A need that fits a type on which the row is positive."""
    limits = {t.name: t.memory_bytes for t in cluster.gpu_types}
    most = max((limits[t] or 1e18) for t, speed in row.items() if speed)
    return draw(st.just(0.0) | st.floats(0, most, allow_subnormal=False))


@st.composite
def tenants(draw: Draw, cluster: Cluster, name: str) -> Tenant:
    """A tenant with one to three job types."""
    kinds = []
    for kind in draw(st.just(["jobs"]) | st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        row = draw(speeds(cluster))
        kinds.append(JobType(kind, row, _memory(draw, cluster, row), any_scale=True))
    return Tenant(name, tuple(kinds), draw(POSITIVE))


@st.composite
def jobs(draw: Draw, cluster: Cluster, name: str, owners: tuple[Tenant, ...]) -> Job:
    """A job with any of its fields."""
    row = draw(speeds(cluster))
    demand = draw(st.integers(1, sum(cluster.capacity.values())))
    stages: list[Stage] = []
    if draw(st.booleans()):
        first = draw(st.integers(1, demand))
        stages = [draw(_stages(gpus)) for gpus in (first, demand - first) if gpus]
        if len(stages) == 2 and draw(st.booleans()):  # what enters is what leaves the stage before
            enters = stages[0].replicas * stages[0].output_bytes / stages[1].replicas
            stages[1] = replace(stages[1], input_bytes=enters)
    more: dict[str, Any] = {key: draw(AMOUNTS) for key in ("arrival", "checkpoint_bytes", "dataset_bytes")}
    more |= {key: draw(st.none() | NAMES) for key in ("dataset", "utility", "group", "model")}
    owner = draw(st.none() | st.sampled_from(owners)) if owners else None
    if owner is not None:
        more |= {"tenant": owner.name, "job_type": draw(st.none() | st.sampled_from([k.name for k in owner.job_types]))}
    memory, kind = _memory(draw, cluster, row), draw(st.sampled_from(Parallelism))
    return Job(
        name,
        row,
        draw(POSITIVE),
        demand,
        weight=draw(POSITIVE),
        memory_bytes=memory,
        parallelism=kind,
        stages=tuple(stages),
        **more,
    )


@st.composite
def _stages(draw: Draw, gpus: int) -> Stage:
    """A stage on so many GPUs."""
    slices = draw(st.sampled_from([t for t in range(1, gpus + 1) if gpus % t == 0]))
    keys = ("forward_s", "backward_s", "parameter_bytes", "slice_bytes", "token_bytes")
    more: dict[str, Any] = {key: draw(AMOUNTS) for key in keys}
    output = draw(st.floats(0, 1e9, allow_subnormal=False))
    return Stage(gpus // slices, slices=slices, output_bytes=output, **more)


@st.composite
def whole_instances(draw: Draw) -> Instance:
    """An instance that may use every field there is."""
    cluster = draw(clusters())
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    cut = draw(st.integers(0, len(names)))
    owners = tuple(draw(tenants(cluster, name)) for name in names[:cut] if "/" not in name)
    work = tuple(draw(jobs(cluster, name, owners)) for name in names[cut:])
    state: dict[str, Any] = {
        "time": draw(AMOUNTS),
        "name": draw(st.text(max_size=5)),
        "source": draw(st.text(max_size=5)),
    }
    held: dict[str, dict[str, float]] = {}
    for entities in ([t.name for t in owners if len(t.job_types) == 1], [j.name for j in work]):
        held |= draw(holdings(cluster, entities))
    if work:
        one = draw(st.sampled_from(work))
        there = _first(cluster, one.demand)
        by_type = {t: sum(gpus.get(t, 0) for gpus in there.values()) for t in cluster.type_names}
        held = {name: gpus for name, gpus in held.items() if name not in {j.name for j in work}}
        held[one.name] = {t: float(n) for t, n in by_type.items()}
        state |= {"done": {one.name: draw(AMOUNTS)}, "placed": {one.name: there}}
    return Instance(cluster, owners, work, held=held, **state)


@st.composite
def holdings(draw: Draw, cluster: Cluster, names: list[str]) -> dict[str, dict[str, float]]:
    """What some of ``names`` hold, some types left out, together at most the GPUs that there are."""
    some = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = st.floats(0, 1, allow_subnormal=False)
    return {
        name: {t: draw(part) * there / len(some) for t, there in cluster.capacity.items() if draw(st.booleans())}
        for name in some
    }


def _first(cluster: Cluster, demand: int) -> dict[str, dict[str, int]]:
    """Server -> GPU type -> GPUs: the first ``demand`` GPUs of the cluster."""
    there: dict[str, dict[str, int]] = {}
    for server in cluster.servers:
        for t, gpus in server.gpus.items():
            there.setdefault(server.name, {})[t] = min(gpus, demand)
            demand -= min(gpus, demand)
    return there
