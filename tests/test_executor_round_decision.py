"""Decisions of the executor: any policy of the library drives it, and its state outlives the controller."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import LAB, cluster_state, granted, lab_of_jobs, node, opened, rows, spec
from executor_stage import Stage
from hypothesis import given
from hypothesis import strategies as st

from hetopt.decisions.system import OnChange
from hetopt.errors import InvalidOption
from hetopt.executor.controller import system_of
from hetopt.executor.engines.engine import Seat
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.lease_manager import LeaseManager
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.leases import StopReason
from hetopt.executor.queue import submit
from hetopt.executor.reconciler import Reconciler
from hetopt.executor.round_decision import RoundDecider, Target, fitted, job_of, shares
from hetopt.executor.state_database import StateDatabase
from hetopt.models.fft import FFT, Switching
from hetopt.models.hadare import HadarE
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.registry import policy_names, system_names

RATES = {"K80": 1.0, "P100": 2.5, "V100": 6.0}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with StateDatabase(tmp_path / "state") as made:
        yield made


def some_jobs() -> list:
    demands, tenants = [1, 1, 1, 1, 1], ["ann", "ann", "bob", "cat", "bob"]
    return [
        spec(f"j{i}", workers=d, tenant=t, model=f"m{i % 2}")
        for i, (d, t) in enumerate(zip(demands, tenants, strict=True))
    ]


def check(targets: Sequence[Target], jobs: int) -> None:
    """No seat is used twice, and none that does not exist; the gang of each copy is complete."""
    there = Counter((seat.node, seat.gpu_type) for one in LAB for seat in one.seats)
    for target in targets:
        for where, gpus in target.seats.items():
            for kind, number in gpus.items():
                there[where, kind] -= number
        assert 1 <= target.job <= jobs
        assert sum(n for gpus in target.seats.values() for n in gpus.values()) == 1
    assert min(there.values()) >= 0
    assert len({(t.job, t.copy) for t in targets}) == len(targets)


@pytest.mark.parametrize("name", sorted({*policy_names(), *system_names()}))
def test_any_policy_drives_the_cluster(database: StateDatabase, name: str) -> None:
    """Three rounds, with a restart of the controller between."""
    jobs = lab_of_jobs(database, some_jobs())
    speeds = {row["name"]: {k: v * (1 + 0.1 * row["id"]) for k, v in RATES.items()} for row in jobs}
    try:
        system = system_of(name, {}, None)
    except InvalidOption as problem:
        assert "rates, which hosts cannot" in str(problem) or name == "hadar-commit"  # noqa: PT017
        return
    decider, memory, placed, wake = RoundDecider(system, estimated), None, 0, math.inf
    for _ in range(3):
        decision = decider.decide(cluster_state(database, speeds), memory)
        assert decider.unable(cluster_state(database, speeds)) == {}
        check(decision.targets, len(jobs))
        placed += len(decision.targets)
        memory, wake = pickle.loads(decision.stored), decision.wake
        following = replace(cluster_state(database, speeds), now=100.0)
        one, other = (decider.decide(following, pickle.loads(decision.stored)).targets for _ in range(2))
        assert one == other
    assert placed > 0 or wake < math.inf  # A-SRPT lets jobs wait behind its virtual machine


def test_a_state_of_a_policy_that_cannot_be_loaded_is_dropped(stage: Callable[..., Stage]) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.play()
    with lab.database.writing() as connection:
        connection.update("memories", {"state": b"of another version"})
    lab.restart()
    assert lab.messages == ["the memory of fifo is of another version of hetopt; it starts without"]
    submit(lab.database, spec("a"))
    lab.play(8)
    assert lab.states() == {"a": "done"}


def test_the_instance_has_what_is_recorded(database: StateDatabase) -> None:
    jobs = lab_of_jobs(
        database,
        [
            spec("a", tenant="ann", memory="10 GB", weight=2.0, deadline="1 h", steps=500),
            spec("b", tenant="bob", gpu_types=["V100"], workers=2, model="bert"),
            spec("c", tenant="bob", workers=8),
        ],
    )
    memory = {"K80": 12e9, "P100": 8e9, "V100": 16e9}
    lab = [node(n.name, Counter(s.gpu_type for s in n.seats), memory_bytes=memory) for n in LAB]
    tag = granted(database, jobs[1]["id"], [Seat("n3", "V100", 0), Seat("n3", "V100", 1)])
    assert tag is not None
    now = cluster_state(database, {"a": RATES, "b": RATES, "c": RATES}, lab, opened(database))
    decider = RoundDecider(system_of("fft", {}, None), estimated)
    instance, waits = decider.instance(now)
    assert instance is not None
    assert waits == {3: None}
    assert decider.unable(now) == {
        3: "it needs 8 GPUs; of those that it may use the cluster has 4 K80 + 2 P100 + 3 V100, "
        "and this policy gives a job GPUs of one type; submit it with fewer workers"
    }
    assert instance.cluster.capacity == {"K80": 4, "P100": 2, "V100": 3}
    assert dict(instance.job["a"].throughput) == {"K80": 1.0, "P100": 0.0, "V100": 6.0}  # 8 GB are too few
    assert dict(instance.job["b"].throughput) == {"K80": 0.0, "P100": 0.0, "V100": 6.0}
    assert instance.job["a"].deadline == instance.job["a"].arrival + 3600
    assert (instance.job["a"].work, instance.job["a"].weight, instance.job["b"].model) == (500.0, 2.0, "bert")
    assert instance.placed == {"b": {"n3": {"V100": 2}}}
    assert [t.name for t in instance.tenants] == ["ann", "bob"]
    assert dict(instance.tenants[0].job_types[0].speedup) == {"K80": 1.0, "P100": 0.0, "V100": 6.0}


NEEDS, ONE_TYPE = "it needs {}; of those that it may use", ", and this policy gives a job GPUs of one type"
NOW = " are available{}; the others are drained, down or in use outside hetopt"
WAITS = [
    (
        "fft",
        {"memory": "20 GB"},
        "no GPU type that it may use has enough memory; submit it with less memory, or with other gpu_types",
    ),
    ("fft", {"gpu_types": ["A100"]}, "no node has a GPU of its gpu_types (A100)"),
    ("fft", {"workers": 3}, NEEDS.format("3 GPUs") + " 0 K80 + 2 P100 + 2 V100" + NOW.format(ONE_TYPE)),
    ("fft", {"gpu_types": ["K80"]}, NEEDS.format("1 GPU") + " 0 K80" + NOW.format("")),
    (
        "hadar",
        {"workers": 8, "memory": "10 GB"},
        NEEDS.format("8 GPUs") + " the cluster has 4 K80 + 3 V100; submit it with fewer workers",
    ),
    ("hadar", {"workers": 5}, NEEDS.format("5 GPUs") + " 0 K80 + 2 P100 + 2 V100" + NOW.format("")),
]
"""Of six GPUs two K80 and a V100 are on nodes that are down."""


@pytest.mark.parametrize(("policy", "settings", "why"), WAITS)
def test_reasons_of_jobs_outside_the_instance(
    database: StateDatabase, policy: str, settings: dict[str, Any], why: str
) -> None:
    """The GPUs are down or drained now, or the cluster has none of the type."""
    memory = {"K80": 12e9, "P100": 8e9, "V100": 16e9}
    there = [node("n2", {"P100": 2, "V100": 1}, memory_bytes=memory), node("n3", {"V100": 1}, memory_bytes=memory)]
    lab_of_jobs(database, [spec("a", **settings), spec("b")])
    now = replace(cluster_state(database, {"a": RATES, "b": RATES}, there), all_gpus={"K80": 4, "P100": 2, "V100": 3})
    decider = RoundDecider(system_of(policy, {}, None), estimated)
    assert decider.unable(now) == {1: why}
    assert decider.decide(now).waits == {1: None}


def test_the_reason_when_no_job_is_in_the_instance(database: StateDatabase) -> None:
    lab_of_jobs(database, [spec("a")])
    decider, now = RoundDecider(system_of("fifo", {}, None), estimated), cluster_state(database, {"a": RATES})
    none = replace(now, nodes=[])
    assert decider.unable(none) == {
        1: "all nodes are drained or down, see their notes; `hetopt drain NODE --undo` ends a drain by hetopt"
    }
    taken = replace(now, nodes=[replace(one, seats=()) for one in now.nodes], all_gpus={"K80": 4})
    assert decider.unable(taken)[1].startswith("no GPU is available: all are in use outside hetopt, ")
    assert decider.unable(replace(taken, all_gpus={})) == {
        1: "no node reports a GPU; see the nodes' notes in hetopt status"
    }
    assert [decider.instance(one) for one in (none, taken)] == [(None, {1: None})] * 2


def test_a_drained_node_is_left_out_and_its_jobs_hold_nothing(database: StateDatabase) -> None:
    jobs = lab_of_jobs(database, [spec("a")])
    granted(database, jobs[0]["id"], [Seat("n3", "V100", 0)])
    now = cluster_state(database, {"a": RATES}, LAB[:2], opened(database))
    instance, _ = RoundDecider(system_of("fft", {}, None), estimated).instance(now)
    assert instance is not None
    assert [server.name for server in instance.cluster.servers] == ["n1", "n2"]
    assert not instance.placed


def test_speeds_are_estimated_until_they_are_measured(database: StateDatabase) -> None:
    """Equation (10) says that a V100 is sqrt(125/16) / sqrt(4.365/12) times a K80; one measurement sets the scale."""
    lab_of_jobs(database, [spec("a"), spec("b")])
    ratio = math.sqrt(125 / 16) / math.sqrt(8.73 / 2 / 12)
    decider = RoundDecider(system_of("fft", {}, None), estimated)
    instance, _ = decider.instance(cluster_state(database, {}))
    assert instance is not None
    speed = instance.job["a"].throughput
    assert speed["V100"] / speed["K80"] == pytest.approx(ratio)
    instance, _ = decider.instance(cluster_state(database, {"a": {"K80": 3.0}}))
    assert instance is not None
    assert dict(instance.job["a"].throughput)["V100"] == pytest.approx(3.0 * ratio)
    assert dict(instance.job["b"].throughput)["K80"] == pytest.approx(3.0)


def test_rounds_and_the_cost_of_a_restart_reach_the_policy() -> None:
    system = fitted(system_of("fft", {}, 60.0), 60.0, 12.5)
    assert isinstance(system.policy, FFT)
    assert (system.policy.round_seconds, system.policy.restart_seconds) == (60.0, 12.5)
    hadare = fitted(system_of("hadare", {}, 5.0), 5.0, None)
    assert isinstance(hadare.policy, HadarE)
    assert hadare.policy.restart_seconds < 5.0  # its default is longer than such a round
    gavel = fitted(system_of("gavel", {}, 30.0), 30.0, 3.0)
    assert isinstance(gavel.policy, OnChange)
    assert gavel.policy.round_seconds == 30.0


def test_the_transfer_of_a_checkpoint_is_not_counted_twice(database: StateDatabase) -> None:
    """The measured cost of a restart includes it; the measured instance has its size."""
    jobs = lab_of_jobs(database, [spec("a")])
    granted(database, jobs[0]["id"], [Seat("n2", "P100", 0)])
    with database.writing() as connection:
        connection.update("jobs", {"checkpoint_bytes": 1e11})
    now = cluster_state(database, {"a": RATES}, LAB, opened(database))
    instance, _ = RoundDecider(system_of("fft", {}, 300.0), estimated).instance(now)
    assert instance is not None
    costs = Switching({"a": "P100"}, 300.0, 30.0).coefficients(instance.entities("jobs"))
    assert sorted(set(costs[0])) == [-30.0 / 300.0, 0.0]
    assert job_of(rows(database)[0], spec("a"), RATES).checkpoint_bytes == 1e11


def test_a_costly_restart_keeps_fft_from_moving(database: StateDatabase) -> None:
    """The measured cost decides: the same cluster state, once with cheap and once with expensive restarts."""
    jobs = lab_of_jobs(database, [spec("a", steps=1000)])
    granted(database, jobs[0]["id"], [Seat("n2", "P100", 0)])
    now = cluster_state(database, {"a": {"K80": 1.0, "P100": 5.0, "V100": 6.0}}, LAB, opened(database))
    placed = {}
    for cost in (0.0, 290.0):
        decider = RoundDecider(fitted(system_of("fft", {}, 300.0), 300.0, cost), estimated)
        placed[cost] = {t for target in decider.decide(now).targets for g in target.seats.values() for t in g}
    assert placed == {0.0: {"V100"}, 290.0: {"P100"}}


@given(st.integers(0, 10**6), st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8))
def test_shares_of_steps_are_integers_with_the_right_sum(steps: int, work: list[float]) -> None:
    parts = shares(steps, work)
    assert sum(parts) == steps
    total = sum(map(Fraction, work))
    assert all(abs(part - steps * Fraction(own) / total) < 1 for part, own in zip(parts, work, strict=True))


def test_hadare_divides_the_steps_among_copies(database: StateDatabase) -> None:
    lab_of_jobs(database, [spec("a", fork=True)])
    targets = (
        RoundDecider(system_of("hadare", {}, 60.0), estimated).decide(cluster_state(database, {"a": RATES})).targets
    )
    assert [t.copy for t in targets] == [1, 2, 3]
    rates = [RATES[next(iter(gpus))] for t in targets for gpus in t.seats.values()]
    assert [t.work / targets[0].work for t in targets if t.work and targets[0].work] == pytest.approx(
        [rate / rates[0] for rate in rates]
    )


def test_a_tenant_and_a_job_may_have_the_same_name(database: StateDatabase) -> None:
    lab_of_jobs(database, [spec("ann", tenant="ann"), spec("bob", tenant="ann")])
    instance, _ = RoundDecider(system_of("oef-cooperative", {}, None), estimated).instance(
        cluster_state(database, {"ann": RATES, "bob": RATES})
    )
    assert instance is not None
    assert [tenant.name for tenant in instance.tenants] == ["ann'"]
    assert {job.tenant for job in instance.jobs} == {"ann'"}


def test_leases_on_a_drained_node_stop_at_once(database: StateDatabase) -> None:
    """Also those that have not reported a first step, and before the next round begins."""
    lab_of_jobs(database, [spec("a"), spec("b")])
    granted(database, 1, [Seat("n1", "K80", 0)])
    granted(database, 2, [Seat("n3", "V100", 0)])
    leases = opened(database)
    targets = [Target(1, 0, {"n1": {"K80": 1}}), Target(2, 0, {"n3": {"V100": 1}})]
    reconciler = Reconciler(database, LeaseManager(database, LocalEngine(LAB, database.cluster), LeaseTimeouts()))
    state = cluster_state(database, {}, LAB, leases)
    reconciler.reconcile(state, targets, 0)
    assert [lease.stop_reason for lease in opened(database)] == [None, None]
    reconciler.reconcile(replace(state, stops={leases[1].tag: StopReason.NODE_DRAINED}), targets, 0)
    assert [lease.stop_reason for lease in opened(database)] == [None, StopReason.NODE_DRAINED]
