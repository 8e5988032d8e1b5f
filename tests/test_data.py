"""Cluster, workload and instance: what is valid is kept as given, what is not is refused with its key and remedy."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, Job, JobType, Server, Stage, Tenant
from hetopt.checks import MOST, FrozenDict, count, is_text, number
from hetopt.proofs.whole import whole_instances

T4 = {"T4": 1.0}
ONE = Cluster.of(T4)  # type: ignore[arg-type]
FOUR = Cluster((GPUType("T4"),), (Server("s", {"T4": 4}),))
TWO = Cluster.of({"T4": 2, "V100": 2})
PAIR = {"T4": 1.0, "V100": 2.0}

BAD_NUMBERS = [
    -1,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    "1",
    "x",
    None,
    True,
    np.True_,
    [1],
    np.array([1.0]),
    pd.NA,
    1j,
]
BAD_NAMES = ["", " ", "\t", "a\nb", "a\0", "\x7f", "\ud800", "\u2028", 1, None, ("a",), b"a"]


# Numbers and names


@pytest.mark.parametrize("value", [*BAD_NUMBERS, Decimal(1)], ids=repr)
def test_what_is_no_amount(value: Any) -> None:
    """Text is refused too: a forgotten conversion shall not pass as a number."""
    with pytest.raises(InvalidInstance, match=r"^key is .*; it must be a finite number >= 0$"):
        number(value, "key")


@pytest.mark.parametrize("value", [0, 0.0, 3, 2.5, np.float32(0.5), np.int64(7), Fraction(1, 3)], ids=repr)
def test_what_is_an_amount_becomes_a_float(value: Any) -> None:
    assert type(number(value, "key")) is float
    assert number(value, "key") == float(value)


@given(st.floats(), st.floats(-10, 10), st.booleans())
def test_a_number_is_finite_and_above_its_bound(value: float, least: float, strict: bool) -> None:
    good = value <= MOST and (value > least or (value == least and not strict))
    if good:
        assert number(value, "key", least=least, strict=strict) == value
    else:
        with pytest.raises(InvalidInstance):
            number(value, "key", least=least, strict=strict)


@pytest.mark.parametrize("value", [1.5, "2", -1, math.nan, math.inf], ids=repr)
def test_what_is_no_count(value: Any) -> None:
    with pytest.raises(InvalidInstance):
        count(value, "key")
    assert count(np.float64(3), "key") == 3
    with pytest.raises(InvalidInstance, match="key is 1000000001; it may be 1000000000 at most"):
        count(10**9 + 1, "key")


@given(st.text(max_size=3))
def test_names_are_printable_and_not_blank(value: str) -> None:
    assert is_text(value) == (bool(value.strip()) and value.isprintable())


# Each field of each class refuses bad values

SPEEDS = {"T4": 1.0}
FIELDS: list[tuple[str, Callable[[Any], object]]] = [
    ("gpu_types['A'].memory_bytes", lambda v: GPUType("A", v)),
    ("servers['s'].gpus['T4']", lambda v: Server("s", {"T4": v})),
    ("servers['s'].nic_bytes_per_s", lambda v: Server("s", {"T4": 1}, nic_bytes_per_s=v)),
    ("servers['s'].intra_bytes_per_s", lambda v: Server("s", {"T4": 1}, intra_bytes_per_s=v)),
    ("servers['s'].disk_bytes", lambda v: Server("s", {"T4": 1}, disk_bytes=v)),
    ("capacity['T4']", lambda v: Cluster.of({"T4": v})),
    ("memory_bytes", lambda v: Cluster.of({"T4": 1}, memory_bytes={"T4": v})),
    ("job_types['k'].speedup['T4']", lambda v: JobType("k", {"T4": v})),
    ("job_types['k'].throughput['T4']", lambda v: JobType.from_throughput("k", {"T4": v})),
    ("job_types['k'].memory_bytes", lambda v: JobType("k", SPEEDS, v)),
    ("tenants['a'].speedup['T4']", lambda v: Tenant("a", {"T4": v})),  # type: ignore[arg-type]
    ("tenants['a'].weight", lambda v: Tenant("a", SPEEDS, v)),  # type: ignore[arg-type]
    ("stages[].replicas", lambda v: Stage(v, 1, 1)),
    ("stages[].forward_s", lambda v: Stage(1, v, 1)),
    ("stages[].output_bytes", lambda v: Stage(1, 1, 1, output_bytes=v)),
    ("jobs['j'].throughput['T4']", lambda v: Job("j", {"T4": v}, 1)),
    ("jobs['j'].work", lambda v: Job("j", SPEEDS, v)),
    ("jobs['j'].demand", lambda v: Job("j", SPEEDS, 1, v)),
    ("jobs['j'].arrival", lambda v: Job("j", SPEEDS, 1, arrival=v)),
    ("jobs['j'].weight", lambda v: Job("j", SPEEDS, 1, weight=v)),
    ("jobs['j'].memory_bytes", lambda v: Job("j", SPEEDS, 1, memory_bytes=v)),
    ("jobs['j'].checkpoint_bytes", lambda v: Job("j", SPEEDS, 1, checkpoint_bytes=v)),
    ("jobs['j'].dataset_bytes", lambda v: Job("j", SPEEDS, 1, dataset_bytes=v)),
    ("time", lambda v: Instance(ONE, time=v)),
]
OPTIONAL = {"gpu_types['A'].memory_bytes", "servers['s'].disk_bytes", "memory_bytes"}


@pytest.mark.parametrize(("key", "make"), FIELDS, ids=[key for key, _ in FIELDS])
def test_every_number_is_checked(key: str, make: Callable[[Any], object]) -> None:
    for value in BAD_NUMBERS:
        if value is None and key in OPTIONAL:
            continue
        with pytest.raises(InvalidInstance) as caught:
            make(value)
        assert key in str(caught.value)
        assert "must" in str(caught.value)


NAMED: list[tuple[str, Callable[[Any], object]]] = [
    ("GPU type name", lambda v: GPUType(v)),
    ("server name", lambda v: Server(v, {"T4": 1})),
    ("servers['s'].gpus", lambda v: Server("s", {v: 1})),
    ("job type name", lambda v: JobType(v, SPEEDS)),
    ("speedup", lambda v: JobType("k", {v: 1})),
    ("tenant name", lambda v: Tenant(v, SPEEDS)),  # type: ignore[arg-type]
    ("job name", lambda v: Job(v, SPEEDS, 1)),
    ("jobs['j'].tenant", lambda v: Job("j", SPEEDS, 1, tenant=v)),
    ("jobs['j'].dataset", lambda v: Job("j", SPEEDS, 1, dataset=v)),
    ("jobs['j'].utility", lambda v: Job("j", SPEEDS, 1, utility=v)),
    ("jobs['j'].job_type", lambda v: Job("j", SPEEDS, 1, job_type=v)),
    ("capacity", lambda v: Cluster.of({v: 1})),
    ("held", lambda v: Instance(ONE, held={v: {}})),
    ("done", lambda v: Instance(ONE, done={v: 1})),
    ("placed", lambda v: Instance(ONE, placed={v: {}})),
]


@pytest.mark.parametrize(("key", "make"), NAMED, ids=[key for key, _ in NAMED])
def test_every_name_is_checked(key: str, make: Callable[[Any], object]) -> None:
    for value in BAD_NAMES:
        if value is None and key.startswith("jobs["):
            continue
        with pytest.raises(InvalidInstance) as caught:
            make(value)
        assert key in str(caught.value)


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


@pytest.mark.parametrize(("said", "make"), WRONG, ids=[said for said, _ in WRONG])
def test_what_is_refused(said: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInstance) as caught:
        make()
    assert said in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, hetopt.HetoptError)


# What is kept


def test_numbers_are_kept_as_floats_and_mappings_frozen() -> None:
    tenant = Tenant("a", {"T4": np.float32(1), "V100": Fraction(1, 2)}, np.int64(3))  # type: ignore[arg-type]
    assert [type(v) for v in (*tenant.job_types[0].speedup.values(), tenant.weight)] == [float] * 3
    with pytest.raises(TypeError, match="read-only"):
        tenant.job_types[0].speedup["T4"] = 2  # type: ignore[index]
    assert Server("s", {"T4": 0, "V100": 2}) == Server("s", {"V100": 2.0})  # type: ignore[dict-item]


def test_cluster_of_fills_servers() -> None:
    cluster = Cluster.of(
        {"T4": 5, "V100": 0, "A10": 2}, gpus_per_server=2, nic_bytes_per_s=1.0, memory_bytes={"T4": 16e9}
    )
    assert [(s.name, dict(s.gpus)) for s in cluster.servers] == [
        ("t4-0", {"T4": 2}),
        ("t4-1", {"T4": 2}),
        ("t4-2", {"T4": 1}),
        ("a10-0", {"A10": 2}),
    ]
    assert cluster.capacity == {"T4": 5, "V100": 0, "A10": 2}
    assert {s.nic_bytes_per_s for s in cluster.servers} == {1.0}
    assert [t.memory_bytes for t in cluster.gpu_types] == [16e9, None, None]
    assert [s.name for s in Cluster.of({"a": 1, "A": 1}).servers] == ["a-0", "A-0"]
    assert Cluster.of([3, 4]).capacity == {"GPU1": 3, "GPU2": 4}


def test_entities_of_tenants() -> None:
    """Names, weights split over job types, zero speed where memory is too small; held by row."""
    cluster = Cluster.of({"T4": 3, "V100": 2}, memory_bytes={"T4": 16e9, "V100": 32e9})
    many = Tenant("b", (JobType("x", PAIR, 20e9), JobType("y", {"V100": 3.0, "T4": 1.0})), 2.0)
    instance = Instance(cluster, (Tenant("a", PAIR), many), held={"b/y": {"V100": 2}})  # type: ignore[arg-type]
    e = instance.entities()
    assert (e.kind, e.names, e.types) == ("tenants", ("a", "b/x", "b/y"), ("T4", "V100"))
    assert e.speed.tolist() == [[1, 2], [0, 2], [1, 3]]
    assert e.allowed.tolist() == [[True, True], [False, True], [True, True]]
    assert (e.weight.tolist(), e.owner.tolist(), e.demand.tolist()) == ([1, 1, 1], [0, 1, 1], [1, 1, 1])
    assert e.capacity.tolist() == [3, 2]
    assert e.held is not None
    assert e.held.tolist() == [[0, 0], [0, 0], [0, 2]]
    assert e.fair_rate.tolist() == pytest.approx([7 / 3, 4 / 3, 9 / 3])
    assert instance.entities() is e
    with pytest.raises(ValueError, match="read-only"):
        e.speed[0, 0] = 5


def test_entities_of_jobs() -> None:
    instance = Instance.from_jobs(
        [[600, 300], [300, 0]],
        [2, 1],
        [10, 20],
        {"T4": 3, "V100": 2},
        arrival=[0, 60],
        held=[[2, 0], [0, 0]],
        done={"j1": 4},
    )
    e = instance.entities()
    assert (e.kind, e.names) == ("jobs", ("j1", "j2"))
    assert e.speed.tolist() == [[2, 1], [1, 0]]
    assert e.per_gpu.tolist() == [[1, 0.5], [1, 0]]
    assert e.gpus(np.eye(2)).tolist() == [[2, 0], [0, 1]]
    assert e.rate(np.full((2, 2), 0.5)).tolist() == [1.5, 0.5]
    assert e.held is not None
    assert e.held.tolist() == [[2, 0], [0, 0]]
    assert instance.job_array("work_left").tolist() == [6, 20]
    assert instance.job_array("arrival").tolist() == [0, 60]
    assert instance.replace(done={"j1": 99}).work_left("j1") == 0


def test_a_worker_that_fits_no_type_it_can_run_on_is_refused() -> None:
    cluster = Cluster.of({"T4": 1, "V100": 1}, memory_bytes={"T4": 16e9, "V100": 32e9})
    said = r"memory_bytes is 2e\+10; it fits no GPU type that it can run on"
    with pytest.raises(InvalidInstance, match=rf"jobs\['j'\]\.{said}"):
        Instance(cluster, jobs=(Job("j", {"T4": 1, "V100": 0}, 1, memory_bytes=20e9),))
    with pytest.raises(InvalidInstance, match=rf"tenants\['a'\]\.{said}"):
        Instance(cluster, (Tenant("a", (JobType("k", {"T4": 1, "V100": 0}, 20e9),)),))
    Instance(Cluster.of({"T4": 1, "V100": 1}), jobs=(Job("j", PAIR, 1, memory_bytes=1e15),))  # memory unknown


def test_held_may_be_an_array_in_the_order_of_entities() -> None:
    instance = Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    held = instance.replace(held=[[0, 1], [1, 0]])
    assert held.held == {"u1": {"GPU1": 0, "GPU2": 1}, "u2": {"GPU1": 1, "GPU2": 0}}
    assert held.entities().held.tolist() == [[0, 1], [1, 0]]  # type: ignore[union-attr]
    assert instance.entities().held is None
    with pytest.raises(InvalidInstance, match=r"held has shape \(2,\)"):
        instance.replace(held=[0, 1])
    frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]])
    assert instance.replace(held=frame) == held


def test_a_cluster_alone_is_an_instance() -> None:
    assert Instance(TWO).cluster.capacity == {"T4": 2, "V100": 2}


@given(whole_instances())
@settings(max_examples=40)
def test_instances_can_be_pickled_copied_hashed_and_compared(instance: Instance) -> None:
    if instance.tenants:
        instance.entities("tenants")  # caches do not travel
    for again in (pickle.loads(pickle.dumps(instance)), copy.deepcopy(instance), instance.replace()):
        assert again == instance
        assert hash(again) == hash(instance)
        assert not {"_tenants", "_jobs"} & set(again.__dict__)
    assert instance.replace(time=0.0 if instance.time else 1.0) != instance


def test_a_frozen_mapping_cannot_be_changed_in_any_way() -> None:
    frozen = FrozenDict({"a": 1})
    changes: list[Callable[[], object]] = [
        lambda: frozen.update(b=1),
        lambda: frozen.pop("a"),
        frozen.popitem,
        frozen.clear,
        lambda: frozen.setdefault("b", 2),
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.__ior__({"b": 2}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="read-only"):
            change()
    assert frozen == {"a": 1}
    assert hash(frozen) == hash(FrozenDict(a=1))
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert frozen | {"b": 2} == {"a": 1, "b": 2}


def test_checking_grows_in_proportion_to_the_instance() -> None:
    """Ten times the jobs of ten times the tenants take about ten times as long, not a hundred."""

    def seconds(n: int) -> float:
        owners = tuple(Tenant(f"t{i}", SPEEDS) for i in range(n))  # type: ignore[arg-type]
        work = tuple(Job(f"j{i}", SPEEDS, 1, tenant=f"t{i}") for i in range(n))
        start = time.perf_counter()
        Instance(ONE, owners, work, held={f"t{i}": {"T4": 0} for i in range(n)}, done={f"j{i}": 0 for i in range(n)})
        return time.perf_counter() - start

    small, large = (min(seconds(n) for _ in range(3)) for n in (500, 5000))
    assert large < 40 * small
