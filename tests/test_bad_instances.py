"""What does not fit together in clusters, workloads and instances is refused, with what is wrong, in little time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, Job, JobType, Server, Stage, Tenant

SPEEDS = {"T4": 1.0}
PAIR = {"T4": 1.0, "V100": 2.0}
ONE = Cluster.of(SPEEDS)  # type: ignore[arg-type]
FOUR = Cluster((GPUType("T4"),), (Server("s", {"T4": 4}),))
TWO = Cluster.of({"T4": 2, "V100": 2})


def tenants(*names: str) -> tuple[Tenant, ...]:
    return tuple(Tenant(name, SPEEDS) for name in names)  # type: ignore[arg-type]


def job(**fields: Any) -> Job:
    return Job("j", SPEEDS, 1, **fields)


WRONG: list[tuple[str, Callable[[], object]]] = [
    # clusters
    ("cluster.gpu_types is empty", lambda: Cluster(())),
    ("the cluster is empty: no server has a GPU", lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 0}),))),
    ("GPU type 'T4' occurs twice", lambda: Cluster((GPUType("T4"),) * 2, (Server("s", {"T4": 1}),))),
    ("server 's' occurs twice", lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 1}),) * 2)),
    (
        "names GPU type 'T40', which does not exist; did you mean 'T4'",
        lambda: Cluster((GPUType("T4"),), (Server("s", {"T40": 1}),)),
    ),
    ("cluster.gpu_types[0] is 'T4'; it must be a sequence of GPUType", lambda: Cluster(("T4",))),  # type: ignore[arg-type]
    ("cluster.servers is 5; it must be a sequence of Server", lambda: Cluster((GPUType("T4"),), 5)),  # type: ignore[arg-type]
    ("gpus_per_server is 0", lambda: Cluster.of({"T4": 1}, gpus_per_server=0)),
    ("more than 1000000 servers", lambda: Cluster.of({"T4": 10**9}, gpus_per_server=1)),
    ("memory_bytes names GPU type 'V100'", lambda: Cluster.of({"T4": 1}, memory_bytes={"V100": 1})),
    ("gpu_type names GPU type 'V10'", lambda: TWO.gpu_type("V10")),
    # tenants and jobs
    ("at least one GPU type must have a value > 0", lambda: Tenant("a", {"T4": 0, "V100": 0})),  # type: ignore[arg-type]
    ("job_types is empty", lambda: Tenant("a", ())),
    ("job type of tenants['a'] 'k' occurs twice", lambda: Tenant("a", (JobType("k", SPEEDS),) * 2)),
    ("tenants['a'].job_types[0] is 1; it must be a sequence of JobType", lambda: Tenant("a", (1,))),  # type: ignore[arg-type]
    ("speedup is [1]; it must be a mapping", lambda: JobType("k", [1])),  # type: ignore[arg-type]
    ("parallelism is 'expert'; it must be one of data, tensor, pipeline", lambda: job(parallelism="expert")),
    ("deadline is 5; it must be a finite number > 7", lambda: job(arrival=7, deadline=5)),
    ("model is ''; it must be a non-empty name on one line", lambda: job(model="")),
    ("stages have 3 GPUs; they must sum to demand = 2", lambda: job(demand=2, stages=(Stage(3, 1, 1),))),
    ("stages[0] is None; it must be a sequence of Stage", lambda: job(stages=(None,))),
    # instances
    ("cluster is None; it must be a Cluster", lambda: Instance(None)),  # type: ignore[arg-type]
    ("name is 5; it must be text", lambda: Instance(ONE, name=5)),  # type: ignore[arg-type]
    ("tenants is 'ab'; it must be a sequence of Tenant", lambda: Instance(ONE, "ab")),  # type: ignore[arg-type]
    ("tenant 'a' occurs twice", lambda: Instance(ONE, tenants("a", "a"))),
    ("job 'j' occurs twice", lambda: Instance(ONE, jobs=(job(), job()))),
    (
        "'a/x' occurs twice",
        lambda: Instance(ONE, (*tenants("a/x"), Tenant("a", (JobType("x", SPEEDS), JobType("y", SPEEDS))))),
    ),
    ("has no value for GPU type 'V100'; give one (0 where it cannot run)", lambda: Instance(TWO, tenants("a"))),
    ("names GPU type 'V100', which does not exist", lambda: Instance(ONE, jobs=(Job("j", PAIR, 1),))),
    ("demand is 2 GPUs, but the cluster has 1; it could never run", lambda: Instance(ONE, jobs=(job(demand=2),))),
    (
        "tenant names tenant 'b', which does not exist; known: a",
        lambda: Instance(ONE, tenants("a"), (job(tenant="b"),)),
    ),
    (
        "job_type names job type 'x', which does not exist",
        lambda: Instance(ONE, tenants("a"), (job(tenant="a", job_type="x"),)),
    ),
    ("the instance has no tenants; add at least one", lambda: Instance(ONE).entities("tenants")),
    ("the instance has no jobs; add at least one", lambda: Instance(ONE).entities()),
    # state
    ("held names tenant or job 'b', which does not exist", lambda: Instance(ONE, tenants("a"), held={"b": {"T4": 1}})),
    ("held['a'] names GPU type 'K80'", lambda: Instance(ONE, tenants("a"), held={"a": {"K80": 1}})),
    ("held['a']['T4'] is -1", lambda: Instance(ONE, tenants("a"), held={"a": {"T4": -1}})),
    ("tenant or job 'j' occurs twice", lambda: Instance(ONE, tenants("j"), (job(),))),
    (
        "held gives tenants 2 T4 together; the cluster has 1",
        lambda: Instance(ONE, tenants("a"), held={"a": {"T4": 2}}),
    ),
    ("held gives jobs 2 T4 together; the cluster has 1", lambda: Instance(ONE, jobs=(job(),), held={"j": {"T4": 2}})),
    (
        "placed['j'] has 1 GPUs; a gang runs on its demand, 2",
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 1}}}),
    ),
    (
        "held['j'] is 1 T4, but placed['j'] is on 2 T4; they must agree",
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 2}}}, held={"j": {"T4": 1}}),
    ),
    ("held['a'] is 1; it must be a mapping", lambda: Instance(ONE, tenants("a"), held={"a": 1})),  # type: ignore[dict-item]
    ("done names job 'k'", lambda: Instance(ONE, jobs=(job(),), done={"k": 1})),
    ("done['j'] is -1", lambda: Instance(ONE, jobs=(job(),), done={"j": -1})),
    ("placed['j'] names server 'x'", lambda: Instance(ONE, jobs=(job(),), placed={"j": {"x": {"T4": 1}}})),
    (
        "placed['j']['t4-0'] names GPU type 'K80'",
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"K80": 0}}}),
    ),
    ("placed['j']['t4-0']['T4'] is 0.5", lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 0.5}}})),  # type: ignore[dict-item]
    (
        "placed puts jobs on 2 T4 of server 't4-0'; it has 1",
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 2}}}),
    ),
    # arrays
    ("speedups has shape (1, 3); it must be (rows >= 1, 2)", lambda: Instance.from_speedups([[1, 2, 3]], [1, 1])),
    ("speedups must be a table of numbers with 2 columns", lambda: Instance.from_speedups([[1, 2], [1]], [1, 1])),
    ("speedups has shape (0,)", lambda: Instance.from_speedups([], [1, 1])),
    ("weights has 1 entries; it must have 2", lambda: Instance.from_speedups([[1], [2]], [1], weights=[1])),
    ("tenants has 1 names; it must have 2", lambda: Instance.from_speedups([[1], [2]], [1], tenants=["a"])),
    ("tenants['u1'].speedup['GPU2'] is nan", lambda: Instance.from_speedups([[1, math.nan]], [1, 1])),
    ("held has 1 rows; it must have 2", lambda: Instance.from_speedups([[1], [2]], [1], held=[[1]])),
    ("round_seconds is 0", lambda: Instance.from_jobs([[1]], [1], [1], [1], round_seconds=0)),
    ("demand has 2 entries; it must have 1", lambda: Instance.from_jobs([[1]], [1, 1], [1], [1])),
    ("jobs['j1'].demand is 1.5", lambda: Instance.from_jobs([[1]], [1.5], [1], [1])),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("message", "make"), WRONG, ids=[message for message, _ in WRONG])
def test_what_is_refused(message: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInstance) as caught:
        make()
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, hetopt.HetoptError)


def test_a_worker_that_fits_no_type_it_can_run_on_is_refused() -> None:
    cluster = Cluster.of({"T4": 1, "V100": 1}, memory_bytes={"T4": 16e9, "V100": 32e9})
    message = r"memory_bytes is 2e\+10; it fits no GPU type that it can run on"
    with pytest.raises(InvalidInstance, match=rf"jobs\['j'\]\.{message}"):
        Instance(cluster, jobs=(Job("j", {"T4": 1, "V100": 0}, 1, memory_bytes=20e9),))
    with pytest.raises(InvalidInstance, match=rf"tenants\['a'\]\.{message}"):
        Instance(cluster, (Tenant("a", (JobType("k", {"T4": 1, "V100": 0}, 20e9),)),))
    Instance(Cluster.of({"T4": 1, "V100": 1}), jobs=(Job("j", PAIR, 1, memory_bytes=1e15),))  # memory unknown


def test_checking_grows_in_proportion_to_the_instance() -> None:
    """Ten times the jobs of ten times the tenants take about ten times as long, not a hundred."""

    def seconds(n: int) -> float:
        owners = tuple(Tenant(f"t{i}", SPEEDS) for i in range(n))  # type: ignore[arg-type]
        work = tuple(Job(f"j{i}", SPEEDS, 1, tenant=f"t{i}") for i in range(n))
        start = time.thread_time()  # whatever else the machine does
        Instance(ONE, owners, work, held={f"t{i}": {"T4": 0} for i in range(n)}, done={f"j{i}": 0 for i in range(n)})
        return time.thread_time() - start

    small, large = (min(seconds(n) for _ in range(3)) for n in (500, 5000))
    assert large < 40 * small
