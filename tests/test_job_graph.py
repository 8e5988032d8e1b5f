"""The graph of a job and its cuts."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import instances
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance
from hetopt.proofs.strategies import staged_jobs
from hetopt.stages.job_graph import AllReduce, job_graph
from hetopt.stages.pipeline import Pipeline
from hetopt.tolerances import EQUAL


def test_the_edges_of_the_papers_fig_2() -> None:
    """20 MB between the replicas of stage 1, 1 MB between each of stage 1 and each of stage 2."""
    graph = job_graph(Pipeline.of(instances.load("asrpt/fig2").job["job"])).networkx()
    assert list(graph) == ["S1-R1", "S1-R2", "S2-R1", "S2-R2", "S3-R1", "S3-R2"]
    assert graph["S1-R1"]["S1-R2"]["bytes"] == pytest.approx(20e6, rel=EQUAL)
    assert {graph[a][b]["bytes"] for a in ("S1-R1", "S1-R2") for b in ("S2-R1", "S2-R2")} == {1e6}
    assert not graph.has_edge("S1-R1", "S3-R1")
    assert graph.nodes["S2-R1"] == {"stage": 1, "replica": 0, "gpus": 1}


@given(staged_jobs(most_gpus=9, slices=True, tokens=True), st.sampled_from(AllReduce))
def test_weights_add_up(job: Job, allreduce: AllReduce) -> None:
    """Between stages twice what leaves, forwards and backwards; within one 2 (k-1) h and the tokens of all pairs."""
    graph = job_graph(Pipeline.of(job).exact(), allreduce)
    stage = graph.stage[graph.edges]
    for s, (here, after) in enumerate(zip(job.stages, [*job.stages[1:], None], strict=True)):
        within = sum(graph.weight[(stage == s).all(axis=1)].tolist())
        k = here.replicas
        edges = k if allreduce is AllReduce.RING and k > 2 else k - 1
        reduced = 2 * (k - 1) * int(here.parameter_bytes) * edges
        assert within * k == reduced + int(here.token_bytes) * k * k * (k - 1) // 2
        if after is not None:
            between = sum(graph.weight[(stage == [s, s + 1]).all(axis=1)].tolist())
            assert between == 2 * here.replicas * int(here.output_bytes)


@given(staged_jobs(most_gpus=8), st.sampled_from(AllReduce), st.data())
def test_the_cut_is_what_goes_between_servers(job: Job, allreduce: AllReduce, data: st.DataObject) -> None:
    """Networkx cuts two sides at a time; edges between three servers are in two of these cuts."""
    graph = job_graph(Pipeline.of(job), allreduce)
    server = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(graph), max_size=len(graph))))
    drawn = graph.networkx()
    sides = [[v for v, m in zip(graph.labels, server.tolist(), strict=True) if m == n] for n in range(3)]
    cuts = sum(nx.cut_size(drawn, a, b, weight="bytes") for a, b in combinations(sides, 2))
    assert graph.cut(server) == pytest.approx(cuts, rel=EQUAL, abs=EQUAL)
    assert (graph.counts(server, 3).sum(axis=1) == graph.pipeline.replicas).all()


@given(staged_jobs(most_gpus=9), st.sampled_from(AllReduce))
def test_the_graph_is_connected(job: Job, allreduce: AllReduce) -> None:
    assert nx.is_connected(job_graph(Pipeline.of(job), allreduce).networkx())


def test_stages_that_exchange_nothing_are_refused() -> None:
    job = Job("two", {"V100": 1.0}, 1, 3, stages=(Stage(1, 1, 1, output_bytes=5), Stage(1, 1, 1), Stage(1, 1, 1)))
    with refused(InvalidInstance, "jobs['two'].stages[1].output_bytes"):
        Pipeline.of(job)


def test_a_gpu_type_that_the_job_does_not_know() -> None:
    job = Job("j", {"V100": 1.0, "T4": 0.0}, 1)
    with pytest.raises(InvalidInstance, match="j names GPU type 'A10', which does not exist"):
        Pipeline.of(job, "A10")
    with pytest.raises(InvalidInstance, match=r"throughput\['T4'\] is 0; it cannot run there"):
        Pipeline.of(job, "T4")
