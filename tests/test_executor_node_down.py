"""Leases that have not begun on nodes that are drained or down at the engine are revoked, and granted elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_cluster import node, spec
from executor_lab import job_file
from executor_stage import Stage
from hypothesis import given
from hypothesis import strategies as st
from slurm_cluster import SlurmCluster, missing
from slurm_fake import Fake, some_slurm  # noqa: F401 - the last a fixture
from waiting import until

from hetopt.executor import lease_directory as files
from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.slurm import SlurmEngine
from hetopt.executor.job_file import read_job
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.leases import StopReason
from hetopt.executor.queue import drain, submit
from hetopt.executor.reconciler import moved_targets
from hetopt.executor.round_decision import Target
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated

Make = Callable[..., Stage]

NEVER = LeaseTimeouts(ttl_seconds=600.0, start_seconds=1e6, profile_seconds=0.3)
"""No lease is late: what is revoked is revoked for its node."""


def reasons(database: StateDatabase) -> list[str | None]:
    with database.reading() as connection:
        return connection.column("SELECT stop_reason FROM leases WHERE state = 'sealed' ORDER BY id")


# -- a controller without processes


@pytest.mark.parametrize("profile", [True, False])
@pytest.mark.parametrize("seconds", [None, 1e6])
@pytest.mark.parametrize("closed", [{"up": False}, None], ids=["down", "gone"])
def test_leases_that_have_not_begun_move_at_once(
    stage: Make, seconds: float | None, profile: bool, closed: dict[str, bool] | None
) -> None:
    """Also within a long round, and if the node is no longer listed."""
    lab = stage(node("a", {"V100": 1}), node("b", {"V100": 1}), seconds=seconds, profile=profile)
    lab.engine.waits = {"a"}
    submit(lab.database, spec("x"))
    lab.play(2)
    assert lab.held() == {"x": {"a": {"V100": 1}}}
    if closed is None:
        lab.engine.hosts = lab.engine.hosts[1:]
    else:
        lab.host("a", **closed)
    lab.play(2)
    assert lab.held() == {"x": {"b": {"V100": 1}}}
    lab.play(15)
    assert lab.states() == {"x": "done"}
    assert reasons(lab.database)[0] == StopReason.NODE_DOWN


def test_a_gang_is_revoked_as_a_whole_and_its_other_node_stays_in_use(stage: Make) -> None:
    lab = stage(node("a", {"V100": 1}), node("b", {"V100": 1}))
    lab.engine.waits = {"a"}
    submit(lab.database, spec("pair", workers=2))
    lab.play(2)
    assert lab.held() == {"pair": {"a": {"V100": 1}, "b": {"V100": 1}}}
    lab.host("a", up=False)
    submit(lab.database, spec("single"))
    lab.play(2)
    assert lab.held() == {"single": {"b": {"V100": 1}}}


def test_a_lease_that_a_runner_has_claimed_goes_on(stage: Make) -> None:
    """Also if the engine has not reported it yet; running leases on a drained node go on."""
    lab = stage(node("a", {"V100": 1}))
    lab.passes = 10
    lab.engine.waits = {"a"}
    submit(lab.database, spec("x"))
    lab.play(2)
    (lease,) = lab.leases()
    files.claim(lease.folder, 0, files.identity())
    lab.host("a", up=False)
    lab.play(3)
    assert [one.tag for one in lab.leases()] == [lease.tag]
    lab.engine.waits = set()
    lab.play(15)
    assert lab.states() == {"x": "done"}
    assert reasons(lab.database) == [None]


NO_NODE = "all nodes are drained or down, see their notes; `hetopt drain NODE --undo` ends a drain by hetopt"


def pending(database: StateDatabase) -> dict[str, str | None]:
    """Why jobs are pending, by their names."""
    return {job["name"]: job["reason"] for job in snapshot(database).jobs if job["state"] == "queued"}


@pytest.mark.parametrize("how", ["drained", "down"])
@pytest.mark.parametrize("seconds", [None, 1e6])
def test_reasons_to_wait_follow_the_nodes_at_once(stage: Make, how: str, seconds: float | None) -> None:
    """Not only with the next round; also if a job has a target there, or the node is back."""
    lab = stage(node("a", {"V100": 1}), node("b", {"K80": 1}), seconds=seconds)
    lab.passes = float("inf")
    if how == "down":
        lab.engine.waits = {"a"}
    for name, types in (("first", ["V100"]), ("other", ["K80"]), ("second", ["V100"])):
        submit(lab.database, spec(name, gpu_types=types))
    lab.play(3)
    assert pending(lab.database) == {"second": "other jobs have priority in this round"}
    (drain(lab.database, "a") if how == "drained" else lab.host("a", up=False))
    lab.play(3)
    why = "it needs 1 GPU; of those that it may use 0 V100 are available; "
    why += "the others are drained, down or in use outside hetopt"
    assert pending(lab.database) == {"first": why, "second": why}
    drain(lab.database, "b")
    lab.play(2)
    assert pending(lab.database) == dict.fromkeys(("first", "second", "other"), NO_NODE)
    lab.restart()
    (drain(lab.database, "a", undo=True) if how == "drained" else lab.host("a", up=True))
    lab.play(1)
    assert set(lab.held()) == {"first"}
    assert pending(lab.database)["second"] not in (NO_NODE, why)


@pytest.mark.parametrize("strict", [False, True])
def test_a_job_whose_node_is_drained_starts_elsewhere_where_nothing_runs(stage: Make, strict: bool) -> None:
    """Also on another GPU type, within a round; not with strict rounds, nor while another job runs."""
    lab = stage(node("a", {"V100": 1}), node("b", {"K80": 1}), seconds=1e6)
    lab.settings = replace(lab.settings, strict_rounds=strict)
    lab.restart()
    lab.passes = float("inf")
    submit(lab.database, spec("one"))
    lab.play(3)
    ((first, _),) = lab.held()["one"].items()
    drain(lab.database, first)
    lab.play(6)
    other = {"a": {"b": {"K80": 1}}, "b": {"a": {"V100": 1}}}[first]
    assert lab.held() == ({} if strict else {"one": other})


SEATS = st.dictionaries(
    st.sampled_from("abc"), st.dictionaries(st.sampled_from(["V100", "K80"]), st.integers(1, 2), min_size=1), min_size=1
)


@given(wanted=st.lists(SEATS, max_size=3), others=st.lists(SEATS, max_size=2), hosts=SEATS)
def test_targets_move_within_what_is_free_and_needed_by_no_other(
    wanted: list[dict[str, dict[str, int]]], others: list[dict[str, dict[str, int]]], hosts: dict[str, dict[str, int]]
) -> None:
    """Counted by hand: as many GPUs of each type as before, on nodes that are usable, beside what all targets name."""
    targets = [Target(i, 0, seats) for i, seats in enumerate(wanted)]
    waiting = [Target(len(targets) + i, 0, seats) for i, seats in enumerate(others)]
    free = [seat for name, gpus in hosts.items() for seat in node(name, gpus).seats]
    moved = {target.job: target for target in moved_targets(targets, [*targets, *waiting], hosts, free)}
    spare = {(name, t): n for name, gpus in hosts.items() for t, n in gpus.items()}
    for target in [*targets, *waiting]:
        for name, gpus in target.seats.items():
            for t, n in gpus.items():
                spare[name, t] = max(0, spare.get((name, t), 0) - n)
    for target in targets:
        types = [t for gpus in target.seats.values() for t, n in gpus.items() for _ in range(n)]
        needs = {t: types.count(t) for t in types}
        there = {t: sum(n for (_, kind), n in spare.items() if kind == t) for t in needs}
        closed = any(name not in hosts for name in target.seats)
        assert (target.job in moved) == (closed and all(there[t] >= n for t, n in needs.items()))
        if target.job in moved:
            for name, gpus in moved[target.job].seats.items():
                for t, n in gpus.items():
                    spare[name, t] -= n
                    needs[t] -= n
                    assert spare[name, t] >= 0
            assert not any(needs.values())


def test_a_gpu_that_a_waiting_gang_needs_is_not_taken(stage: Make) -> None:
    """Both have lost their GPUs; the gang's node is back, with as many GPUs as the gang needs."""
    lab = stage(node("a", {"V100": 1}), node("c", {"V100": 2}), seconds=1e6)
    lab.passes = float("inf")
    for name, workers in (("gang", 2), ("x", 1)):
        submit(lab.database, spec(name, workers=workers))
    lab.engine.waits = {"a", "c"}
    lab.play(2)
    assert lab.held() == {"gang": {"c": {"V100": 2}}, "x": {"a": {"V100": 1}}}
    lab.host("a", up=False)
    lab.host("c", up=False)
    lab.play(1)
    lab.host("c", up=True)
    lab.play(1)
    assert lab.held() == {"gang": {"c": {"V100": 2}}}


def test_a_restart_of_the_controller_does_not_begin_the_wait_again(stage: Make) -> None:
    """Not even one before each pass that would find the lease late."""
    lab = stage(node("a", {"V100": 1}), node("b", {"K80": 1}))
    lab.engine.waits = {"a"}
    submit(lab.database, spec("x"))
    for _ in range(8):
        lab.play(2, 50.0)
        lab.restart()
    assert lab.states() == {"x": "done"}
    assert reasons(lab.database)[0] == StopReason.NOT_STARTED


def test_an_outage_does_not_count_as_waiting_over_restarts(stage: Make) -> None:
    lab = stage(node("a", {"V100": 1}), node("b", {"K80": 1}))
    lab.engine.waits = {"a"}
    submit(lab.database, spec("x"))
    lab.play(2)
    lab.engine.down = "away"
    lab.play(3, 200.0)
    lab.restart()
    lab.play(3, 200.0)
    lab.engine.down = ""
    lab.play(2, 100.0)
    assert lab.held() == {"x": {"a": {"V100": 1}}}, "it waits since the engine is back, for 200 s"
    lab.engine.waits = set()
    lab.play(10)
    assert (lab.states(), reasons(lab.database)) == ({"x": "done"}, [None])


# -- Slurm


class Driven:
    """A controller of a Slurm cluster; the test calls its passes."""

    def __init__(self, folder: Path, profile: bool) -> None:
        self.folder, self.database = folder, StateDatabase(folder / "state")
        self.engine = SlurmEngine(self.database.cluster)
        self.engine.look_seconds = 0.0
        settings = Settings("fifo", profile=profile, timeouts=NEVER)
        system = system_of("fifo", {}, None)
        self.controller = Controller(self.database, self.engine, system, estimated, settings, print_line=print)

    def submit(self, name: str, **settings: object) -> None:
        submit(self.database, read_job(job_file(self.folder, name, **settings)))

    def nodes(self) -> set[str]:
        """Of open leases."""
        return {name for lease in self.controller.manager.leases() for name in lease.held}

    def step_until(self, what: Callable[[], object], meaning: str) -> None:
        until(lambda: (self.controller.step(), what())[1], meaning)

    def done(self) -> bool:
        with self.database.reading() as connection:
            return set(connection.column("SELECT state FROM jobs")) == {"done"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    if why := missing():
        pytest.skip(why)
    with SlurmCluster({f"v100-{i}": ("v100", 1) for i in range(3)}, patience=3) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        yield made


@pytest.mark.parametrize(
    ("how", "workers", "profile"),
    [("drained", 1, True), ("drained", 2, False), ("slurmd killed", 1, False), ("slurmd killed", 2, False)],
)
def test_on_slurm_a_pending_lease_leaves_its_node(
    cluster: SlurmCluster, tmp_path: Path, how: str, workers: int, profile: bool
) -> None:
    """All GPUs are another user's, so that it waits; then a node of it is drained, or its daemon dies."""
    driven = Driven(tmp_path, profile)
    try:
        driven.controller.step()
        own = "--gres=gpu:v100:1", "--mem=10M"
        foreign = {name: cluster.submit(f"--nodelist={name}", *own) for name in cluster.nodes}
        driven.submit("x", workers=workers)
        driven.controller.step()
        driven.controller.step()
        (lease,) = driven.controller.manager.leases()
        assert len(lease.held) == workers
        name = next(iter(lease.held))
        others = set(cluster.nodes) - {name}
        assert driven.engine.status([])[lease.tag] == "waiting"
        if how == "drained":
            cluster.call("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
        else:
            cluster.kill_daemon(name)
        cluster.call("scancel", *(foreign[other] for other in others))
        driven.step_until(lambda: driven.nodes() and driven.nodes() <= others, "it is granted elsewhere")
        assert reasons(driven.database) == [StopReason.NODE_DOWN]
        assert not (lease.folder / files.claim_file(0)).read_text().startswith('{"host"'), "the controller's claim"
        driven.step_until(driven.done, "it is done there")
    finally:
        driven.controller.close()


def test_with_fake_slurm_a_gang_leaves_a_drained_node(slurm: Fake, tmp_path: Path) -> None:
    """And a partition that is down; the whole pending job is cancelled, by its name."""
    two = ("a", "gpu:v100:1", {}), ("b", "gpu:v100:1", {})
    slurm.nodes(*two, ("c", "gpu:v100:2", {"state": "DOWN"}))
    driven = Driven(tmp_path, profile=False)
    try:
        driven.submit("pair", workers=2)
        driven.controller.step()
        assert driven.nodes() == {"a", "b"}
        (lease,) = driven.controller.manager.leases()
        slurm.prints("squeue", f"PENDING|a=1,b=1|{lease.tag}|Resources")
        driven.controller.step()
        assert [one.tag for one in driven.controller.manager.leases()] == [lease.tag], "its nodes are up"
        slurm.nodes(two[0], ("b", "gpu:v100:1", {"state": "IDLE+DRAIN"}), ("c", "gpu:v100:2", {}))
        driven.controller.step()
        assert driven.nodes() == {"c"}
        assert slurm.calls("scancel")[-1][0][-1] == f"--name={lease.tag}"
        (lease,) = driven.controller.manager.leases()
        slurm.prints("squeue", f"PENDING|c=2|{lease.tag}|PartitionDown")
        slurm.partitions(state="DOWN")
        driven.controller.step()
        assert driven.nodes() == set(), "nothing begins in a partition that is down"
        assert reasons(driven.database) == [StopReason.NODE_DOWN] * 2
        slurm.partitions()
        driven.controller.step()
        assert driven.nodes() == {"c"}, "and at once when it is up again"
    finally:
        driven.controller.close()
