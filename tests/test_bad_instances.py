"""What does not fit together in clusters, workloads and instances is refused, with what is wrong, in little time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from refused import refused

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, Job, JobType, Server, Stage, Tenant, TrainingPhase

SPEEDS = {"T4": 1.0}
PAIR = {"T4": 1.0, "V100": 2.0}
ONE = Cluster.of(SPEEDS)  # type: ignore[arg-type]
FOUR = Cluster((GPUType("T4"),), (Server("s", {"T4": 4}),))
TWO = Cluster.of({"T4": 2, "V100": 2})


def tenants(*names: str) -> tuple[Tenant, ...]:
    return tuple(Tenant(name, SPEEDS) for name in names)  # type: ignore[arg-type]


def job(**fields: Any) -> Job:
    return Job("j", SPEEDS, 1, **fields)


WRONG: list[tuple[str | None, str | None, Callable[[], object]]] = [
    # clusters
    ("cluster.gpu_types", None, lambda: Cluster(())),
    (None, "cluster.*empty", lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 0}),))),
    (None, "'T4'.*twice", lambda: Cluster((GPUType("T4"),) * 2, (Server("s", {"T4": 1}),))),
    (None, "'s'.*twice", lambda: Cluster((GPUType("T4"),), (Server("s", {"T4": 1}),) * 2)),
    (
        "servers['s'].gpus",
        "'T40'",
        lambda: Cluster((GPUType("T4"),), (Server("s", {"T40": 1}),)),
    ),
    ("cluster.gpu_types[0]", None, lambda: Cluster(("T4",))),  # type: ignore[arg-type]
    ("cluster.servers", None, lambda: Cluster((GPUType("T4"),), 5)),  # type: ignore[arg-type]
    ("gpus_per_server", None, lambda: Cluster.of({"T4": 1}, gpus_per_server=0)),
    ("capacity", None, lambda: Cluster.of({"T4": 10**9}, gpus_per_server=1)),
    ("memory_bytes", "'V100'", lambda: Cluster.of({"T4": 1}, memory_bytes={"V100": 1})),
    ("gpu_type", "'V10'", lambda: TWO.gpu_type("V10")),
    # tenants and jobs
    ("tenants['a'].speedup", "at least one", lambda: Tenant("a", {"T4": 0, "V100": 0})),  # type: ignore[arg-type]
    ("tenants['a'].job_types", None, lambda: Tenant("a", ())),
    (None, "'k'.*twice", lambda: Tenant("a", (JobType("k", SPEEDS),) * 2)),
    ("tenants['a'].job_types[0]", None, lambda: Tenant("a", (1,))),  # type: ignore[arg-type]
    ("job_types['k'].speedup", None, lambda: JobType("k", [1])),  # type: ignore[arg-type]
    ("jobs['j'].parallelism", None, lambda: job(parallelism="expert")),
    ("jobs['j'].deadline", None, lambda: job(arrival=7, deadline=5)),
    ("jobs['j'].model", None, lambda: job(model="")),
    ("jobs['j'].stages", None, lambda: job(demand=2, stages=(Stage(3, 1, 1),))),
    ("jobs['j'].stages[0]", None, lambda: job(stages=(None,))),
    ("jobs['j'].phases", "sum to 4", lambda: job(phases=(TrainingPhase(2, 32, 2),))),
    ("jobs['j'].phases[0]", None, lambda: job(phases=(1,))),
    (
        "jobs['j'].phases[1].epoch_work",
        None,
        lambda: job(phases=(TrainingPhase(1, 32, 0.75), TrainingPhase(1, 32, 0.25))),
    ),
    # instances
    ("cluster", None, lambda: Instance(None)),  # type: ignore[arg-type]
    ("name", None, lambda: Instance(ONE, name=5)),  # type: ignore[arg-type]
    ("tenants", "'ab'", lambda: Instance(ONE, "ab")),  # type: ignore[arg-type]
    (None, "'a'.*twice", lambda: Instance(ONE, tenants("a", "a"))),
    (None, "'j'.*twice", lambda: Instance(ONE, jobs=(job(), job()))),
    (
        None,
        "'a/x'.*twice",
        lambda: Instance(ONE, (*tenants("a/x"), Tenant("a", (JobType("x", SPEEDS), JobType("y", SPEEDS))))),
    ),
    ("tenants['a'].speedup", "'V100'", lambda: Instance(TWO, tenants("a"))),
    ("jobs['j'].throughput", "'V100'", lambda: Instance(ONE, jobs=(Job("j", PAIR, 1),))),
    ("jobs['j'].demand", None, lambda: Instance(ONE, jobs=(job(demand=2),))),
    (
        "jobs['j'].tenant",
        "'b'",
        lambda: Instance(ONE, tenants("a"), (job(tenant="b"),)),
    ),
    (
        "jobs['j'].job_type",
        "'x'",
        lambda: Instance(ONE, tenants("a"), (job(tenant="a", job_type="x"),)),
    ),
    (None, "no tenants", lambda: Instance(ONE).entities("tenants")),
    (None, "no jobs", lambda: Instance(ONE).entities()),
    # state
    ("held", "'b'", lambda: Instance(ONE, tenants("a"), held={"b": {"T4": 1}})),
    ("held['a']", "'K80'", lambda: Instance(ONE, tenants("a"), held={"a": {"K80": 1}})),
    ("held['a']['T4']", None, lambda: Instance(ONE, tenants("a"), held={"a": {"T4": -1}})),
    (None, "'j'.*twice", lambda: Instance(ONE, tenants("j"), (job(),))),
    (
        "held",
        "tenants 2 T4",
        lambda: Instance(ONE, tenants("a"), held={"a": {"T4": 2}}),
    ),
    ("held", "jobs 2 T4", lambda: Instance(ONE, jobs=(job(),), held={"j": {"T4": 2}})),
    (
        "placed['j']",
        "1 GPUs",
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 1}}}),
    ),
    (
        "held['j']",
        None,
        lambda: Instance(FOUR, jobs=(job(demand=2),), placed={"j": {"s": {"T4": 2}}}, held={"j": {"T4": 1}}),
    ),
    ("held['a']", "mapping", lambda: Instance(ONE, tenants("a"), held={"a": 1})),  # type: ignore[dict-item]
    ("done", "'k'", lambda: Instance(ONE, jobs=(job(),), done={"k": 1})),
    ("done['j']", None, lambda: Instance(ONE, jobs=(job(),), done={"j": -1})),
    ("placed['j']", "'x'", lambda: Instance(ONE, jobs=(job(),), placed={"j": {"x": {"T4": 1}}})),
    (
        "placed['j']['t4-0']",
        "'K80'",
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"K80": 0}}}),
    ),
    ("placed['j']['t4-0']['T4']", None, lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 0.5}}})),  # type: ignore[dict-item]
    (
        "placed",
        None,
        lambda: Instance(ONE, jobs=(job(),), placed={"j": {"t4-0": {"T4": 2}}}),
    ),
    # arrays
    ("speedups", r"\(1, 3\)", lambda: Instance.from_speedups([[1, 2, 3]], [1, 1])),
    ("speedups", "table", lambda: Instance.from_speedups([[1, 2], [1]], [1, 1])),
    ("speedups", r"\(0,\)", lambda: Instance.from_speedups([], [1, 1])),
    ("weights", None, lambda: Instance.from_speedups([[1], [2]], [1], weights=[1])),
    ("tenants", "1 names", lambda: Instance.from_speedups([[1], [2]], [1], tenants=["a"])),
    ("tenants['u1'].speedup['GPU2']", None, lambda: Instance.from_speedups([[1, math.nan]], [1, 1])),
    ("held", "1 rows", lambda: Instance.from_speedups([[1], [2]], [1], held=[[1]])),
    (
        "jobs['j1'].throughput['GPU1']",
        "is -0.01; .*; this is per second, and throughput per round of 300 s",
        lambda: Instance.from_jobs([[-3]], [1], [1], [1]),
    ),
    ("round_seconds", None, lambda: Instance.from_jobs([[1]], [1], [1], [1], round_seconds=0)),
    ("demand", None, lambda: Instance.from_jobs([[1]], [1, 1], [1], [1])),
    ("jobs['j1'].demand", None, lambda: Instance.from_jobs([[1]], [1.5], [1], [1])),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("key", "match", "make"), WRONG, ids=[f"{key} {match}" for key, match, _ in WRONG])
def test_what_is_refused(key: str | None, match: str | None, make: Callable[[], object]) -> None:
    with refused(InvalidInstance, key, match) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, hetopt.HetoptError)


def test_a_worker_that_fits_no_type_it_can_run_on_is_refused() -> None:
    cluster = Cluster.of({"T4": 1, "V100": 1}, memory_bytes={"T4": 16e9, "V100": 32e9})
    with refused(InvalidInstance, "jobs['j'].memory_bytes", "fits no"):
        Instance(cluster, jobs=(Job("j", {"T4": 1, "V100": 0}, 1, memory_bytes=20e9),))
    with refused(InvalidInstance, "tenants['a'].memory_bytes", "fits no"):
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
