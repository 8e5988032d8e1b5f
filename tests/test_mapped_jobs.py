"""The stages of an instance's jobs on its servers: which job may run where, and the reasons of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import instances
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, InvalidPlan, UnknownName
from hetopt.models.asrpt import HeavyEdge, LocalSearch, MinimumAlpha, MinimumCut, Pipeline, Servers
from hetopt.stages.mapping import GPUMapping, MappedJobs, map_jobs
from hetopt.tolerances import EQUAL

ON_T4, ON_V100 = {"T4": 1.0, "V100": 0.0}, {"T4": 0.0, "V100": 1.0}


def staged(name: str, replicas: int, **fields: Any) -> Job:
    """Two stages of so many replicas each."""
    stages = (Stage(replicas, 0.5, 0.5, 1e6, 1e5), Stage(replicas, 0.5, 0.5, 1e6))
    throughput = fields.pop("throughput", {"T4": 1.0, "V100": 4.0})
    return Job(name, throughput, 10, 2 * replicas, stages=stages, **fields)


def instance(*jobs: Job, **fields: Any) -> hetopt.Instance:
    """Four T4 of 16 GB and four V100 of 32 GB, two per server."""
    memory = {"T4": 16e9, "V100": 32e9}
    cluster = hetopt.Cluster.of({"T4": 4, "V100": 4}, gpus_per_server=2, memory_bytes=memory)
    return hetopt.Instance(cluster, jobs=jobs, **fields)


def gpus(mapped: MappedJobs, name: str) -> dict[str, int]:
    """Server -> GPUs."""
    mapping = mapped.mappings[name]
    counted = np.bincount(mapping.server, weights=mapping.graph.size, minlength=len(mapping.servers))
    return {mapping.servers.names[m]: int(counted[m]) for m in np.flatnonzero(counted)}


def test_every_job_is_mapped_alone_to_its_fastest_gpus() -> None:
    """Together they would need more V100 than there are."""
    mapped = map_jobs(instance(staged("a", 2), staged("b", 2)), HeavyEdge())
    assert mapped.gpu_type == {"a": "V100", "b": "V100"}
    assert gpus(mapped, "a") == gpus(mapped, "b") == {"v100-0": 2, "v100-1": 2}
    assert not mapped.refused


def test_a_job_that_does_not_fit_where_it_is_fastest_goes_elsewhere() -> None:
    """The V100 are taken but for one; what is slower by four takes four times as long to compute."""
    there = instance(
        staged("run", 1, throughput=ON_V100), Job("single", ON_V100, 1), staged("new", 1),
        placed={"run": {"v100-0": {"V100": 2}}, "single": {"v100-1": {"V100": 1}}},
    )  # fmt: skip
    mapped = map_jobs(there, HeavyEdge(), job="new")
    assert mapped.gpu_type == {"new": "T4"}
    assert mapped.mappings["new"].graph.pipeline.computing.tolist() == [4.0, 4.0]


def test_a_worker_that_is_too_large_for_a_type_goes_elsewhere() -> None:
    slower = {"T4": 4.0, "V100": 1.0}
    assert map_jobs(instance(staged("j", 1, throughput=slower)), HeavyEdge()).gpu_type == {"j": "T4"}
    large = instance(staged("j", 1, throughput=slower, memory_bytes=20e9))
    assert map_jobs(large, HeavyEdge()).gpu_type == {"j": "V100"}
    with pytest.raises(InvalidInstance, match=r"jobs\['j'\] needs 2e\+10 bytes for a worker; a T4 has 1\.6e\+10"):
        map_jobs(large, HeavyEdge(), gpu_type="T4")


def test_a_placed_job_keeps_its_gpus_and_others_get_the_rest() -> None:
    own = {"t4-0": {"T4": 1}, "v100-0": {"V100": 0}, "t4-1": {"T4": 1}}
    there = instance(staged("old", 1), staged("new", 1), placed={"old": own})
    mapped = map_jobs(there, LocalSearch())
    assert mapped.gpu_type == {"old": "T4", "new": "V100"}
    assert gpus(mapped, "old") == {"t4-0": 1, "t4-1": 1}
    rest = map_jobs(there, LocalSearch(), job="new", gpu_type="T4").mappings["new"].servers
    assert dict(zip(rest.names, rest.free.tolist(), strict=True)) == {"t4-0": 1, "t4-1": 1}
    with pytest.raises(
        InvalidInstance, match=r"jobs\['old'\] runs on T4 and keeps its GPUs, so gpu_type cannot be V100"
    ):
        map_jobs(there, LocalSearch(), job="old", gpu_type="V100")


def test_where_hosts_are_given_only_they_are_mapped() -> None:
    hosts = {"a": {"v100-0": {"V100": 1}, "v100-1": {"V100": 1}}, "mixed": {"t4-0": {"T4": 1}, "v100-0": {"V100": 1}}}
    mapped = map_jobs(instance(staged("a", 1), staged("mixed", 1), staged("c", 1)), HeavyEdge(), hosts=hosts)
    assert gpus(mapped, "a") == {"v100-0": 1, "v100-1": 1}
    assert mapped.refused == {"mixed": "jobs['mixed'] runs on T4 and V100; stages are mapped to GPUs of one type"}
    assert "c" not in {**mapped.mappings, **mapped.refused}
    assert not map_jobs(instance(staged("a", 1)), HeavyEdge(), hosts={}).mappings


def test_jobs_without_room_or_stages_are_listed_with_a_reason() -> None:
    seen: list[str] = []
    jobs = staged("big", 4), Job("plain", ON_T4, 1), staged("small", 1)
    mapped = map_jobs(instance(*jobs), HeavyEdge(), step=seen.append)
    assert set(mapped.mappings) == {"small"}
    assert mapped.refused == {
        "big": "jobs['big'] needs 8 GPUs; free: 4 of type V100; needs 8 GPUs; free: 4 of type T4",
        "plain": "jobs['plain'] has no stages",
    }
    assert seen == ["big", "plain", "small"]


FAILING: list[tuple[tuple[Job, ...], dict[str, Any], str]] = [
    ((), {}, "the instance has no jobs, and only jobs have stages"),
    ((Job("a", ON_T4, 1),), {}, "jobs['a'] has no stages"),
    ((Job("a", ON_T4, 1), Job("b", ON_T4, 1)), {}, "none of the 2 jobs has stages"),
    ((Job("a", ON_T4, 1), staged("b", 1)), {"job": "a"}, "jobs['a'] has no stages"),
    ((staged("a", 4),), {}, "jobs['a'] needs 8 GPUs; free: 4 of type V100"),
    ((staged("a", 4), staged("b", 4)), {}, "none of 2 jobs can be mapped; the first: jobs['a'] needs 8 GPUs"),
    ((staged("a", 1),), {"gpu_type": "A100"}, "gpu_type names GPU type 'A100', which does not exist; did you mean"),
    ((staged("a", 1, throughput=ON_T4),), {"gpu_type": "V100"}, "jobs['a'] cannot run on V100"),
    ((Job("a", ON_T4, 3, 3, stages=(Stage(1, 1, 1, slices=3),)),), {"gpu_type": "T4"}, "needs 3 GPUs of one server"),
    ((Job("a", ON_T4, 2, 2, stages=(Stage(1, 1, 1), Stage(1, 1, 1))),), {}, "stages[0].output_bytes is 0"),
]


@pytest.mark.parametrize(("jobs", "words", "message"), FAILING)
def test_errors_name_what_cannot_be_mapped(jobs: tuple[Job, ...], words: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInstance) as caught:
        map_jobs(instance(*jobs), HeavyEdge(), **words)
    assert message in str(caught.value)


def test_names_and_answers_that_are_wrong() -> None:
    with pytest.raises(UnknownName, match="there is no job 'aa'; did you mean 'a'"):
        map_jobs(instance(staged("a", 1)), HeavyEdge(), job="aa")

    def wrong(pipeline: Pipeline, servers: Servers) -> int:
        return 3

    with pytest.raises(InvalidPlan, match="returned 3; it must return a GPUMapping"):
        map_jobs(instance(staged("a", 1)), wrong)  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 6))
def test_no_server_gets_more_than_is_free(replicas: list[int], busy: int) -> None:
    """Whatever is placed: free and used GPUs never exceed what a server has."""
    jobs = tuple(staged(f"j{i}", k) for i, k in enumerate(replicas))
    rest = Job("busy", {"T4": 1.0, "V100": 1.0}, 1, max(busy, 1))
    hosts: dict[str, dict[str, int]] = {}
    for i in range(busy):
        kind = "T4" if i % 2 else "V100"
        server = f"{kind.lower()}-{i // 4}"
        hosts.setdefault(server, {kind: 0})[kind] += 1
    there = instance(*jobs, rest, placed={"busy": hosts} if busy else {})
    try:
        mapped = map_jobs(there, LocalSearch())
    except InvalidInstance:
        assert 4 - busy // 2 < 2 * min(replicas), "there is room for one of them"
        return
    for name in mapped.mappings:
        for server, n in gpus(mapped, name).items():
            kind = mapped.gpu_type[name]
            assert n + hosts.get(server, {}).get(kind, 0) <= there.cluster.by_name[server].gpus[kind]


def test_a_gap_is_about_what_the_method_minimises() -> None:
    """On refuted/asrpt-cut-alpha the least cut is 2 bytes, and the shortest iteration, of another mapping, 17/4 s."""
    there = instances.load("refuted/asrpt-cut-alpha")
    pipeline, servers = Pipeline.of(there.job["three"]), Servers.of(there, "GPU")
    cut, short = MinimumCut()(pipeline, servers), MinimumAlpha()(pipeline, servers)
    assert (cut.minimises, short.minimises) == ("bytes", "seconds")
    assert [cut.bound, short.bound] == pytest.approx([2, 4.25])
    assert [cut.gap, short.gap] == pytest.approx([0, 0], abs=EQUAL)
    assert HeavyEdge()(pipeline, servers).gap is None
    looser = GPUMapping(cut.graph, servers, cut.server, bound=3.0)
    assert looser.gap == pytest.approx(1 - 3 / 6), "half of the six seconds"
    assert GPUMapping(cut.graph, servers, cut.server, bound=1.5, minimises="bytes").gap == pytest.approx(1 / 4)
