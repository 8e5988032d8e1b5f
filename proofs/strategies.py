"""Hypothesis strategies of instances, jobs, servers and linear programs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import GangSize, Job, JobType, Parallelism, Stage, Tenant, TrainingPhase
from hetopt.programs.linear import LinearProgram
from hetopt.stages.servers import Servers

Draw = st.DrawFn


def ratios(least: int = 1, most: int = 12) -> st.SearchStrategy[float]:
    """Positive ratios p/q of small integers."""
    return st.builds(lambda p, q: p / q, st.integers(least, most), st.integers(1, 4))


@st.composite
def speedup_rows(draw: Draw, n: int, k: int, *, zeros: bool = False) -> list[list[float]]:
    """(n, k) arbitrary speedups with first column 1; with ``zeros`` some types cannot run some tenants' jobs."""
    entry = st.one_of(st.just(0.0), ratios()) if zeros else ratios()
    return [[1.0, *draw(st.lists(entry, min_size=k - 1, max_size=k - 1))] for _ in range(n)]


@st.composite
def ratio_ordered_rows(draw: Draw, n: int, k: int) -> list[list[float]]:
    """(n, k) strictly ratio-ordered (TP2) speedups: the faster tenant has the larger ratio between every two types.

    The steps w[l, j+1] / w[l, j] increase strictly with l for every j.
    """
    steps = []
    for _ in range(k - 1):
        increases = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
        first = Fraction(draw(st.integers(2, 4)), 2)
        steps.append([first + Fraction(sum(increases[:i]), 2) for i in range(n)])
    return [[float(prod((step[i] for step in steps[:j]), start=Fraction(1))) for j in range(k)] for i in range(n)]


@st.composite
def tenant_instances(
    draw: Draw,
    *,
    tenants: tuple[int, int] = (1, 5),
    types: tuple[int, int] = (1, 4),
    ordered: bool = False,
    weighted: bool = False,
    zeros: bool = False,
    most_gpus: int = 8,
) -> Instance:
    """An instance of tenants as in OEF; with ``ordered`` speedups are strictly ratio-ordered."""
    n, k = draw(st.integers(*tenants)), draw(st.integers(*types))
    rows = draw(ratio_ordered_rows(n, k) if ordered else speedup_rows(n, k, zeros=zeros))
    capacity = draw(st.lists(st.integers(1, most_gpus), min_size=k, max_size=k))
    weights = draw(st.lists(ratios(1, 4), min_size=n, max_size=n)) if weighted else None
    return Instance.from_speedups(rows, capacity, weights=weights, any_scale=True)


@st.composite
def job_instances(
    draw: Draw,
    *,
    jobs: tuple[int, int] = (1, 6),
    types: tuple[int, int] = (1, 3),
    most_gpus: int = 6,
    most_demand: int = 4,
    zeros: bool = False,
    arrivals: bool = False,
    round_seconds: float = 300.0,
) -> Instance:
    """An instance of jobs as in FFT; every job fits on some GPU type, and with ``zeros`` cannot run on some others."""
    n, k = draw(st.integers(*jobs)), draw(st.integers(*types))
    capacity = draw(st.lists(st.integers(1, most_gpus), min_size=k, max_size=k))
    rows: list[list[float]] = []
    demand: list[int] = []
    for _ in range(n):
        home = draw(st.integers(0, k - 1))
        row = [draw(ratios()) for _ in range(k)]
        if zeros:
            row = [0.0 if i != home and draw(st.booleans()) else w for i, w in enumerate(row)]
        rows.append(row)
        demand.append(draw(st.integers(1, min(most_demand, capacity[home]))))
    work = draw(st.lists(st.integers(1, 40), min_size=n, max_size=n))
    extra: dict[str, Any] = {}
    if arrivals:
        extra["arrival"] = [round_seconds * a for a in draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))]
        extra["time"] = max(extra["arrival"])
    return Instance.from_jobs(np.array(rows), demand, work, capacity, round_seconds=round_seconds, **extra)


@st.composite
def shares(draw: Draw, instance: Instance, *, waste: bool = True) -> NDArray[np.object_]:
    """(n, k) fractions: any division of the GPUs of ``instance``; without ``waste`` no GPU is idle.

    Each entity has a share of each type in proportion to a small integer, often 0.
    """
    entities = instance.entities()
    n, k = entities.shape
    columns = []
    for gpus in entities.capacity.tolist():
        parts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        idle = draw(st.integers(0, 2)) if waste else 0
        if not idle and not sum(parts):
            parts[draw(st.integers(0, n - 1))] = 1
        columns.append([Fraction(part, sum(parts) + idle) * int(gpus) for part in parts])
    demand = [int(d) for d in entities.demand]
    table = [[columns[j][i] / demand[i] for j in range(k)] for i in range(n)]
    return np.array(table, dtype=object)


@st.composite
def with_held(draw: Draw, instance: Instance) -> Instance:
    """``instance`` with GPUs that its entities currently hold, within the capacity."""
    return instance.replace(held=(draw(shares(instance)) * instance.entities().demand[:, None]).astype(float))


@st.composite
def linear_programs(
    draw: Draw, *, columns: tuple[int, int] = (1, 5), rows: tuple[int, int] = (0, 6), integer: bool = False
) -> LinearProgram:
    """A feasible, bounded linear (or integer) program with small numbers, rows of every kind and bounded columns.

    It is feasible because every row holds at one integer point within the bounds of the columns.
    """
    n, m = draw(st.integers(*columns)), draw(st.integers(*rows))
    number = st.integers(-6, 6).map(lambda v: v / 2)
    low = np.array([draw(st.integers(-3, 2)) for _ in range(n)], dtype=float)
    width = np.array([draw(st.integers(0, 4)) for _ in range(n)], dtype=float)
    point = low + [draw(st.integers(0, int(w))) for w in width]
    matrix = np.array([[draw(number) for _ in range(n)] for _ in range(m)], dtype=float).reshape(m, n)
    slack = st.one_of(st.just(np.inf), st.just(0.0), st.integers(0, 4).map(float))
    integers = [draw(st.booleans()) for _ in range(n)] if integer else [False] * n
    return LinearProgram(
        c=np.array([draw(number) for _ in range(n)], dtype=float),
        A=sparse.csc_array(matrix),
        row_lower=matrix @ point - [draw(slack) for _ in range(m)],
        row_upper=matrix @ point + [draw(slack) for _ in range(m)],
        col_lower=low,
        col_upper=low + width,
        integer=np.array(integers, dtype=bool),
        row_names=[f"row[{i}]" for i in range(m)],
        col_names=[f"x[{j}]" for j in range(n)],
        offset=float(draw(st.integers(-2, 2))),
    )


PLAIN = (None, "finished", "weight", "negative-jct", "weighted-throughput")
"""Utilities without a deadline."""


@st.composite
def mixed_clusters(
    draw: Draw,
    *,
    servers: tuple[int, int] = (1, 2),
    types: tuple[int, int] = (1, 3),
    gpus: tuple[int, int] = (0, 2),
    memory: bool = False,
) -> Cluster:
    """A cluster with ``gpus`` GPUs of each type per server; with ``memory``, GPUs have 1 to 3 bytes each."""
    names = [f"G{i}" for i in range(draw(st.integers(*types)))]
    count = st.integers(*gpus)
    hosts = [Server(f"s{h}", {t: draw(count) for t in names}) for h in range(draw(st.integers(*servers)))]
    if not any(host.gpus for host in hosts):
        hosts.append(Server("last", {names[0]: 1}))
    sizes = [float(draw(st.integers(1, 3))) if memory else None for _ in names]
    return Cluster(tuple(GPUType(t, size) for t, size in zip(names, sizes, strict=True)), tuple(hosts))


@st.composite
def mixed_instances(
    draw: Draw,
    *,
    jobs: tuple[int, int] = (1, 3),
    servers: tuple[int, int] = (1, 2),
    types: tuple[int, int] = (1, 3),
    gpus: tuple[int, int] = (0, 2),
    most_demand: int = 3,
    most_work: int = 6,
    latest: int = 2,
    utilities: tuple[str | None, ...] = PLAIN,
    memory: bool = False,
) -> Instance:
    """Jobs that fit on the GPUs that can run them; speeds 1, 2 … per second, arrivals up to ``latest``."""
    cluster = draw(mixed_clusters(servers=servers, types=types, gpus=gpus, memory=memory))
    present = [t for t in cluster.type_names if cluster.capacity[t]]
    made = []
    for j in range(draw(st.integers(*jobs))):
        home = draw(st.sampled_from(present))
        speed = {t: float(draw(st.integers(1 if t == home else 0, 3))) for t in cluster.type_names}
        need = float(draw(st.integers(0, int(cluster.gpu_type(home).memory_bytes or 0))))
        usable = [t for t in present if speed[t] and need <= (cluster.gpu_type(t).memory_bytes or need)]
        most = min(most_demand, sum(cluster.capacity[t] for t in usable))
        made.append(
            Job(
                f"j{j}",
                speed,
                work=draw(st.integers(1, most_work)),
                demand=draw(st.integers(1, most)),
                arrival=draw(st.integers(0, latest)),
                weight=draw(st.sampled_from([1, 2, 7, 30])),
                memory_bytes=need,
                utility=draw(st.sampled_from(utilities)),
            )
        )
    return Instance(cluster, jobs=tuple(made))


SMALL_NUMBERS = st.integers(0, 12)
"""Seconds and bytes, as integers to keep fractions short."""


@st.composite
def staged_jobs(
    draw: Draw, *, most_gpus: int = 6, most_stages: int = 4, slices: bool = False, tokens: bool = False
) -> Job:
    """A job of a few stages; with ``slices`` and ``tokens`` some have tensor and expert parallelism."""
    stages: list[Stage] = []
    left = draw(st.integers(1, most_gpus))
    while left and len(stages) < most_stages:
        t = draw(st.sampled_from([1, 1, 2])) if slices and left >= 2 else 1
        k = draw(st.integers(1, left // t))
        left -= k * t
        numbers = {key: float(draw(SMALL_NUMBERS)) for key in ("forward_s", "backward_s", "parameter_bytes")}
        more = {"output_bytes": float(draw(st.integers(1, 12)))}
        if t > 1:
            more["slice_bytes"] = float(draw(SMALL_NUMBERS))
        if tokens:
            more["token_bytes"] = float(draw(SMALL_NUMBERS))
        stages.append(Stage(k, **numbers, **more, slices=t))
    demand = sum(s.gpus for s in stages)
    return Job("job", {"GPU": 1.0}, work=float(draw(st.integers(1, 9))), demand=demand, stages=tuple(stages))


@st.composite
def servers_for(draw: Draw, gpus: int, *, most: int = 4, fast_inside: bool = True, alike: bool = False) -> Servers:
    """At most ``most`` servers with at least ``gpus`` GPUs in total; by default B_intra >= B_inter / g on all."""
    free = draw(st.lists(st.integers(1, gpus), min_size=1, max_size=most))
    short = gpus - sum(free)
    free[draw(st.integers(0, len(free) - 1))] += max(0, short)
    count = 1 if alike else len(free)
    nic = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)) * (len(free) // count)
    least = max(nic) if fast_inside else 1
    intra = draw(st.lists(st.integers(least, least + 20), min_size=count, max_size=count)) * (len(free) // count)
    names = tuple(f"server{i + 1}" for i in range(len(free)))
    return Servers(names, np.array(free), np.array(nic, dtype=float), np.array(intra, dtype=float))


NAMES = st.one_of(
    st.sampled_from(
        ["no", "1", "1e9", "null", "~", "a: b", "x#y", "- z", "é", "0x1F", "2024-01-01", "1:30", "true", "*a"]
    ),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=6),
)
"""Names that YAML may read as other types, and any other printable names."""

AMOUNTS = st.floats(0, 1e18, allow_subnormal=False)
POSITIVE = st.floats(1 / 1e18, 1e18)


@st.composite
def any_clusters(draw: Draw) -> Cluster:
    """One to three GPU types on one to four servers, or capacities in equal servers."""
    types = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    memory = {t: draw(st.none() | POSITIVE) for t in types}
    if draw(st.booleans()):
        capacity = {t: draw(st.integers(1, 9)) for t in types}
        known = {t: m for t, m in memory.items() if m is not None}
        return Cluster.of(capacity, gpus_per_server=draw(st.none() | st.integers(1, 4)), memory_bytes=known)
    gpus = st.dictionaries(st.sampled_from(types), st.integers(0, 4))
    servers = [
        Server(name, draw(gpus), draw(POSITIVE), draw(POSITIVE), draw(st.none() | AMOUNTS))
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
    """A memory demand that fits on a type with positive speed."""
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
    """A job with any of its optional fields."""
    row = draw(speeds(cluster))
    demand = draw(st.integers(1, sum(cluster.capacity.values())))
    stages: list[Stage] = []
    if draw(st.booleans()):
        first = draw(st.integers(1, demand))
        stages = [draw(_stages(gpus)) for gpus in (first, demand - first) if gpus]
        if len(stages) == 2 and draw(st.booleans()):  # the input equals the output of the previous stage
            input_bytes = stages[0].replicas * stages[0].output_bytes / stages[1].replicas
            stages[1] = replace(stages[1], input_bytes=input_bytes)
    more: dict[str, Any] = {key: draw(AMOUNTS) for key in ("arrival", "checkpoint_bytes", "dataset_bytes")}
    more |= {key: draw(st.none() | NAMES) for key in ("dataset", "utility", "group", "model")}
    owner = draw(st.none() | st.sampled_from(owners)) if owners else None
    if owner is not None:
        more |= {"tenant": owner.name, "job_type": draw(st.none() | st.sampled_from([k.name for k in owner.job_types]))}
    numbers = [n for n in draw(st.lists(st.integers(1, 9), max_size=3, unique=True)) if n != demand]
    more["sizes"] = tuple(GangSize(n, draw(speeds(cluster)), {cluster.type_names[0]: 8 * n}) for n in numbers)
    memory, parallelism = _memory(draw, cluster, row), draw(st.sampled_from(Parallelism))
    phases = draw(phased()) if draw(st.booleans()) else ()
    return Job(
        name,
        row,
        sum(phase.work for phase in phases) if phases else draw(POSITIVE),
        demand,
        weight=draw(POSITIVE),
        memory_bytes=memory,
        parallelism=parallelism,
        stages=tuple(stages),
        phases=phases,
        **more,
    )


@st.composite
def phased(draw: Draw, most: int = 9) -> tuple[TrainingPhase, ...]:
    """One to four phases of up to ``most`` epochs, the first with at least one; larger batches are faster."""
    sizes = draw(st.lists(st.sampled_from((8, 16, 32, 64)), min_size=1, max_size=4))
    epochs = [draw(st.integers(1 if i == 0 else 0, most)) for i in range(len(sizes))]
    return tuple(TrainingPhase(n, size, 64.0 / size) for n, size in zip(epochs, sizes, strict=True))


@st.composite
def _stages(draw: Draw, gpus: int) -> Stage:
    """A stage on ``gpus`` GPUs."""
    slices = draw(st.sampled_from([t for t in range(1, gpus + 1) if gpus % t == 0]))
    keys = ("forward_s", "backward_s", "parameter_bytes", "slice_bytes", "token_bytes")
    more: dict[str, Any] = {key: draw(AMOUNTS) for key in keys}
    output = draw(st.floats(0, 1e9, allow_subnormal=False))
    return Stage(gpus // slices, slices=slices, output_bytes=output, **more)


@st.composite
def whole_instances(draw: Draw) -> Instance:
    """An instance that may use every field."""
    cluster = draw(any_clusters())
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    cut = draw(st.integers(0, len(names)))
    owners = tuple(draw(tenants(cluster, name)) for name in names[:cut] if "/" not in name)
    work = tuple(draw(jobs(cluster, name, owners)) for name in names[cut:])
    texts = st.text(max_size=5)
    state: dict[str, Any] = {"time": draw(AMOUNTS), "name": draw(texts), "source": draw(texts)}
    held = draw(holdings(cluster, [t.name for t in owners if len(t.job_types) == 1]))
    if work:
        running = draw(st.sampled_from(work))
        placed = _first(cluster, running.demand)
        by_type = {t: sum(gpus.get(t, 0) for gpus in placed.values()) for t in cluster.type_names}
        held[running.name] = {t: float(n) for t, n in by_type.items()}
        state |= {"done": {running.name: draw(AMOUNTS)}, "placed": {running.name: placed}}
    return Instance(cluster, owners, work, held=held, **state)


@st.composite
def holdings(draw: Draw, cluster: Cluster, names: list[str]) -> dict[str, dict[str, float]]:
    """GPUs that some of ``names`` hold, on some types, within the capacity."""
    holders = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    part = st.floats(0, 1, allow_subnormal=False)
    return {
        name: {t: draw(part) * gpus / len(holders) for t, gpus in cluster.capacity.items() if draw(st.booleans())}
        for name in holders
    }


def _first(cluster: Cluster, demand: int) -> dict[str, dict[str, int]]:
    """Server -> GPU type -> GPUs: the first ``demand`` GPUs of the cluster."""
    placed: dict[str, dict[str, int]] = {}
    for server in cluster.servers:
        for t, gpus in server.gpus.items():
            placed.setdefault(server.name, {})[t] = min(gpus, demand)
            demand -= min(gpus, demand)
    return placed
