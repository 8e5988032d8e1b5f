"""Heavy-Edge, against a literal reading of the paper's words, and its examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt import instances
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance
from hetopt.models.asrpt.heavy_edge import HeavyEdge, gpus_to_use
from hetopt.proofs.strategies import servers_for, staged_jobs
from hetopt.stages.job_graph import AllReduce, JobGraph, job_graph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


def literally(graph: JobGraph, free: list[int]) -> list[int]:
    """Section IV-B sentence by sentence, scanning all edges each time."""
    rest, server = list(range(len(graph))), [-1] * len(graph)
    weight = {tuple(e): w for e, w in zip(graph.edges.tolist(), graph.weight.tolist(), strict=True)}
    weight |= {(b, a): w for (a, b), w in weight.items()}
    for m in sorted(range(len(free)), key=lambda m: -free[m]):
        node_set: list[int] = []

        def assign(v: int, m: int = m, node_set: list[int] = node_set) -> None:
            node_set.append(v)
            rest.remove(v)
            server[v] = m

        if not free[m] or not rest:
            continue
        if len(rest) == free[m]:
            for v in list(rest):
                assign(v)
        elif free[m] == 1:
            assign(min(rest, key=lambda v: (sum(w for (a, _), w in weight.items() if a == v), v)))
        while rest and len(node_set) < free[m]:
            here = node_set or rest
            edges = [(-w, a, b) for (a, b), w in weight.items() if a in here and b in rest]
            if not edges:
                assign(rest[0])
                continue
            _, a, b = min(edges)
            if not node_set:
                assign(a)
            assign(b)
    return server


@given(staged_jobs(most_gpus=10, most_stages=5, tokens=True), st.sampled_from(AllReduce), st.data())
def test_as_printed(job: Job, allreduce: AllReduce, data: st.DataObject) -> None:
    pipeline = Pipeline.of(job)
    servers = data.draw(servers_for(job.demand))
    mapping = HeavyEdge(allreduce)(pipeline, servers)
    graph = job_graph(pipeline, allreduce)
    assert mapping.server.tolist() == literally(graph, gpus_to_use(pipeline, servers.free.tolist()))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6), st.data())
def test_the_gpus_of_the_servers_with_most_free_ones_are_taken(free: list[int], data: st.DataObject) -> None:
    pipeline = Pipeline.of(Job("j", {"G": 1.0}, 1, data.draw(st.integers(1, sum(free)))))
    use = gpus_to_use(pipeline, free)
    assert sum(use) == pipeline.gpus
    assert all(u <= n for u, n in zip(use, free, strict=True))
    for u, n in zip(use, free, strict=True):
        for v, other in zip(use, free, strict=True):
            if n > other and v:
                assert u == n, "a server with more free GPUs is used up first"


def test_fig_2() -> None:
    instance, printed = instances.load("asrpt/fig2"), instances.expected("asrpt/fig2")["heavy_edge"].correct
    mapping = HeavyEdge()(Pipeline.of(instance.job["job"]), Servers.of(instance, "GPU"))
    first = [v for v, m in mapping.where.items() if m == "server1"]
    assert first == list(printed["first_server"])
    assert mapping.table.to_numpy().tolist() == [[2, 0, 0], [2, 0, 0], [0, 1, 1]]
    # stage 2: 30 ms; 2 MB to stage 3 at 1.25e9/4 bytes/s; 2 MB to stage 1 and 10 MB of gradients at 300e9 bytes/s
    assert mapping.iteration_seconds == pytest.approx(0.03 + 2e6 / (1.25e9 / 4) + 12e6 / 300e9)
    assert mapping.cut_bytes == pytest.approx(4 * 1e6 + 5e6)


@given(st.integers(2, 50))
def test_its_cut_is_not_near_the_least(w: int) -> None:
    """A path with edges 1, W+1, 2, W on servers of 3 and 2 GPUs: W + 1 is cut, and 2 would do."""
    outputs = [1 / 2, (w + 1) / 2, 1, w / 2, 0]
    stages = tuple(Stage(1, 1, 1, output_bytes=d) for d in outputs)
    job = Job("path", {"G": 1.0}, 1, 5, stages=stages)
    mapping = HeavyEdge()(Pipeline.of(job), Servers.alike([3, 2]))
    assert mapping.cut_bytes == w + 1
    assert mapping.graph.cut(np.array([0, 0, 0, 1, 1])) == 2


@given(staged_jobs(most_gpus=8, slices=True), st.data())
def test_slices_of_a_replica_stay_on_one_server(job: Job, data: st.DataObject) -> None:
    pipeline = Pipeline.of(job)
    servers = data.draw(servers_for(job.demand + int(pipeline.slices.max()) * 4))
    try:
        mapping = HeavyEdge()(pipeline, servers)
    except InvalidInstance:  # it need not find room for slices
        return
    assert (pipeline.slices @ mapping.replicas <= servers.free).all()
    assert (mapping.replicas.sum(axis=1) == pipeline.replicas).all()


@pytest.mark.parametrize(
    ("stage", "free", "message"),
    [
        (Stage(9, 1, 1), [4, 4], "jobs['j'] needs 9 GPUs; free: 8"),
        (Stage(1, 1, 1, slices=4), [3, 3], "needs 4 GPUs of one server for a replica of stage 1; no server has"),
        (Stage(3, 1, 1, slices=2), [3, 3], "does not fit all 3 replicas of job 'j'"),
    ],
)
def test_no_room(stage: Stage, free: Any, message: str) -> None:
    job = Job("j", {"G": 1.0}, 1, stage.gpus, stages=(stage,))
    with pytest.raises(InvalidInstance) as problem:
        HeavyEdge()(Pipeline.of(job), Servers.alike(free))
    assert message in str(problem.value)
