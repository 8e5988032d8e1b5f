"""What does not fit together in clusters, workloads and instances is refused, with what is wrong, in little time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from refused import Worded, refused

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
    ("cluster.gpu_types", lambda: Cluster(())),
    (Worded("the cluster is empty: no server has a GPU"), lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 0}),))),
    (Worded("GPU type 'T4' occurs twice"), lambda: Cluster((GPUType("T4"),) * 2, (Server("s", {"T4": 1}),))),
    (Worded("server 's' occurs twice"), lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 1}),) * 2)),
    (
        "servers['s'].gpus",
        lambda: Cluster((GPUType("T4"),), (Server("s", {"T40": 1}),)),
    ),
    ("cluster.gpu_types[0]", lambda: Cluster(("T4",))),  # type: ignore[arg-type]
    ("cluster.servers", lambda: Cluster((GPUType("T4"),), 5)),  # type: ignore[arg-type]
    ("gpus_per_server", lambda: Cluster.of({"T4": 1}, gpus_per_server=0)),
    ("capacity", lambda: Cluster.of({"T4": 10**9}, gpus_per_server=1)),
    ("memory_bytes", lambda: Cluster.of({"T4": 1}, memory_bytes={"V100": 1})),
    ("gpu_type", lambda: TWO.gpu_type("V10")),
    # tenants and jobs
    ("tenants['a'].speedup", lambda: Tenant("a", {"T4": 0, "V100": 0})),  # type: ignore[arg-type]
    ("tenants['a'].job_types", lambda: Tenant("a", ())),
    (Worded("job type of tenants['a'] 'k' occurs twice"), lambda: Tenant("a", (JobType("k", SPEEDS),) * 2)),
    ("tenants['a'].job_types[0]", lambda: Tenant("a", (1,))),  # type: ignore[arg-type]
    ("job_types['k'].speedup", lambda: JobType("k", [1])),  # type: ignore[arg-type]
    ("jobs['j'].parallelism", lambda: job(parallelism="expert")),
    ("jobs['j'].deadline", lambda: job(arrival=7, deadline=5)),
    ("jobs['j'].model", lambda: job(model="")),
    ("jobs['j'].stages", lambda: job(demand=2, stages=(Stage(3, 1, 1),))),
    ("jobs['j'].stages[0]", lambda: job(stages=(None,))),
    # instances
    ("cluster", lambda: Instance(None)),  # type: ignore[arg-type]
    ("name", lambda: Instance(ONE, name=5)),  # type: ignore[arg-type]
    ("tenants", lambda: Instance(ONE, "ab")),  # type: ignore[arg-type]
    (Worded("tenant 'a' occurs twice"), lambda: Instance(ONE, tenants("a", "a"))),
    (Worded("job 'j' occurs twice"), lambda: Instance(ONE, jobs=(job(), job()))),
    (
        Worded("'a/x' occurs twice"),
        lambda: Instance(ONE, (*tenants("a/x"), Tenant("a", (JobType("x", SPEEDS), JobType("y", SPEEDS))))),
    ),
    ("tenants['a'].speedup", lambda: Instance(TWO, tenants("a"))),
    ("jobs['j'].throughput", lambda: Instance(ONE, jobs=(Job("j", PAIR, 1),))),
    ("jobs['j'].demand", lambda: Instance(ONE, jobs=(job(demand=2),))),
    (
        "jobs['j'].tenant",
        lambda: Instance(ONE, tenants("a"), (job(tenant="b"),)),
    ),
    (
        "jobs['j'].job_type",
        lambda: Instance(ONE, tenants("a"), (job(tenant="a", job_type="x"),)),
    ),
    (Worded("the instance has no tenants; add at least one"), lambda: Instance(ONE).entities("tenants")),
    (Worded("the instance has no jobs; add at least one"), lambda: Instance(ONE).entities()),
    # state
    ("held", lambda: Instance(ONE, tenants("a"), held={"b": {"T4": 1}})),
    ("held['a']", lambda: Instance(ONE, tenants("a"), held={"a": {"K80": 1}})),
    ("held['a']['T4']", lambda: Instance(ONE, tenants("a"), held={"a": {"T4": -1}})),
    (Worded("tenant or job 'j' occurs twice"), lambda: Instance(ONE, tenants("j"), (job(),))),
    (
        "held",
        lambda: Instance(ONE, tenants("a"), held={"a": {"T4": 2}}),
    ),
    ("held", lambda: Instance(ONE, jobs=(job(),), held={"j": {"T4": 2}})),
    (
        "placed['j']",
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 1}}}),
    ),
    (
        "held['j']",
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 2}}}, held={"j": {"T4": 1}}),
    ),
    ("held['a']", lambda: Instance(ONE, tenants("a"), held={"a": 1})),  # type: ignore[dict-item]
    ("done", lambda: Instance(ONE, jobs=(job(),), done={"k": 1})),
    ("done['j']", lambda: Instance(ONE, jobs=(job(),), done={"j": -1})),
    ("placed['j']", lambda: Instance(ONE, jobs=(job(),), placed={"j": {"x": {"T4": 1}}})),
    (
        "placed['j']['t4-0']",
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"K80": 0}}}),
    ),
    ("placed['j']['t4-0']['T4']", lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 0.5}}})),  # type: ignore[dict-item]
    (
        "placed",
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 2}}}),
    ),
    # arrays
    ("speedups", lambda: Instance.from_speedups([[1, 2, 3]], [1, 1])),
    ("speedups", lambda: Instance.from_speedups([[1, 2], [1]], [1, 1])),
    ("speedups", lambda: Instance.from_speedups([], [1, 1])),
    ("weights", lambda: Instance.from_speedups([[1], [2]], [1], weights=[1])),
    ("tenants", lambda: Instance.from_speedups([[1], [2]], [1], tenants=["a"])),
    ("tenants['u1'].speedup['GPU2']", lambda: Instance.from_speedups([[1, math.nan]], [1, 1])),
    ("held", lambda: Instance.from_speedups([[1], [2]], [1], held=[[1]])),
    ("round_seconds", lambda: Instance.from_jobs([[1]], [1], [1], [1], round_seconds=0)),
    ("demand", lambda: Instance.from_jobs([[1]], [1, 1], [1], [1])),
    ("jobs['j1'].demand", lambda: Instance.from_jobs([[1]], [1.5], [1], [1])),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("key", "make"), WRONG)
def test_what_is_refused(key: str, make: Callable[[], object]) -> None:
    assert issubclass(InvalidInstance, ValueError)
    with refused(InvalidInstance, key):
        make()


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
