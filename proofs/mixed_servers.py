"""Hypothesis strategies for Hadar: servers with GPUs of several types, and jobs whose gangs may mix them."""

from __future__ import annotations

from hypothesis import strategies as st

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job

Draw = st.DrawFn

PLAIN = (None, "finished", "weight", "negative-jct", "weighted-throughput")
"""Utilities that need no deadline."""


@st.composite
def clusters(
    draw: Draw,
    *,
    servers: tuple[int, int] = (1, 2),
    types: tuple[int, int] = (1, 3),
    gpus: tuple[int, int] = (0, 2),
    memory: bool = False,
) -> Cluster:
    """A cluster whose servers have so many GPUs of each type; with ``memory`` of 1 to 3 bytes each."""
    names = [f"G{i}" for i in range(draw(st.integers(*types)))]
    room = st.integers(*gpus)
    hosts = [Server(f"s{h}", {t: draw(room) for t in names}) for h in range(draw(st.integers(*servers)))]
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
    """Jobs that fit on the GPUs that can run them together; work 1, 2 … per second, arrivals up to ``latest``."""
    cluster = draw(clusters(servers=servers, types=types, gpus=gpus, memory=memory))
    made = []
    for j in range(draw(st.integers(*jobs))):
        there = [t for t in cluster.type_names if cluster.capacity[t]]
        home = draw(st.sampled_from(there))
        speed = {t: float(draw(st.integers(1 if t == home else 0, 3))) for t in cluster.type_names}
        need = float(draw(st.integers(0, int(cluster.gpu_type(home).memory_bytes or 0))))
        room = sum(
            n for t, n in cluster.capacity.items() if speed[t] and need <= (cluster.gpu_type(t).memory_bytes or need)
        )
        made.append(
            Job(
                f"j{j}",
                speed,
                work=draw(st.integers(1, most_work)),
                demand=draw(st.integers(1, min(most_demand, room))),
                arrival=draw(st.integers(0, latest)),
                weight=draw(st.sampled_from([1, 2, 7, 30])),
                memory_bytes=need,
                utility=draw(st.sampled_from(utilities)),
            )
        )
    return Instance(cluster, jobs=tuple(made))
