"""Liveness: no GPU, job or policy stays blocked by a fault that has ended."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from effort import examples
from executor_cluster import cards, node, rows, spec, with_speeds
from executor_stage import Stage
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import lease_manager
from hetopt.executor.lease_record import LeaseRecord, LeaseTimeouts
from hetopt.executor.leases import StopReason
from hetopt.executor.queue import cancel, drain, retry, submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_folder import MARK

Make = Callable[..., Stage]


# -- leases


def test_a_controller_renews_leases_while_the_engine_is_down(stage: Make) -> None:
    """Otherwise all training would stop because Slurm's controller is down."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    (lease,) = lab.leases()
    lab.engine.down = "away"
    lab.restart()
    before = files.read_text(lease.folder / files.RENEWED)
    time.sleep(0.01)
    lab.play()
    assert files.read_text(lease.folder / files.RENEWED) != before


def test_a_lease_that_is_seen_again_has_its_full_timeout_again(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also leases whose files are read only in passes that do not query the engine."""
    monkeypatch.setattr(lease_manager, "MAX_REPORTS", 1)
    lab = stage(node("n", {"V100": 3}))
    lab.passes = float("inf")
    for name in "abc":
        submit(lab.database, spec(name))
    lab.play(5)
    gone, lab.engine.live = lab.engine.live, {}
    lab.controller.manager.advance(lab.leases(), lab.engine.hosts)
    assert [one.ended is not None for one in lab.controller.manager._observed.values()] == [True] * 3
    lab.engine.live = gone
    for number in range(3):
        lab.controller.manager.advance(lab.leases(), lab.engine.hosts, ask=number == 2)
    assert [one.ended for one in lab.controller.manager._observed.values()] == [None] * 3


def test_after_an_outage_an_engine_has_its_full_time_to_start_leases(stage: Make) -> None:
    """A lease that has not begun meanwhile does not wait for GPUs of others."""
    lab = stage(node("n", {"V100": 1}))
    lab.engine.waits.add("n")
    submit(lab.database, spec("a"))
    lab.play(2)
    lab.engine.down = "away"
    lab.play(40, 10.0)
    lab.engine.down = ""
    lab.play(3)
    lab.engine.waits = set()
    lab.play(6)
    assert lab.states() == {"a": "done"}


@pytest.mark.parametrize("fails", [True, False])
def test_a_lease_that_cannot_be_killed_ends_after_its_timeout(stage: Make, fails: bool) -> None:
    lab = stage(node("n", {"V100": 1}))
    submit(lab.database, spec("a"))
    lab.play(2)
    (lease,) = lab.leases()
    lab.engine.live.clear()
    lab.engine.fails = {lease.tag} if fails else set()
    lab.controller.manager._observed[lease.tag].ended = -1000.0
    lab.play(6, 60.0)
    assert lab.states() == {"a": "done"}


@pytest.mark.parametrize(("changed", "elapsed", "state"), [(0.5, 40.0, "lost"), (600.0, 70.0, "sealed")])
def test_a_lease_keeps_its_timeout_under_a_controller_with_another_one(
    stage: Make, changed: float, elapsed: float, state: str
) -> None:
    """A runner of a node that is cut off stops its job by the timeout in its file: 20 s, 30 s of grace, 10 s more."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a", grace=30.0))
    lab.play(2)
    (lease,) = lab.leases()
    lab.settings = replace(lab.settings, timeouts=LeaseTimeouts(ttl_seconds=changed))
    lab.restart()
    assert [one.ttl_seconds for one in lab.leases()] == [20.0]
    record = LeaseRecord.read(lease.folder)
    assert record is not None
    assert record.ttl_seconds == 20.0
    lab.engine.live.clear()
    lab.controller.step()
    lab.controller.manager._observed[lease.tag].ended = -1000.0
    lab.controller.step()
    assert [one.is_lost for one in lab.leases()] == [True]
    lab.database.clock.base += elapsed
    lab.controller.step()
    assert ([one.tag for one in lab.leases()] == [lease.tag]) is (state == "lost")
    lab.play(6, 20.0)
    assert [one.ttl_seconds for one in lab.leases()] == [changed]


def test_leases_are_renewed_by_the_shortest_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beat, waits = lease_manager.Heartbeat(), list[float]()
    monkeypatch.setattr(beat._closed, "wait", lambda seconds: waits.append(seconds) or True)
    for seconds in (40.0, 8.0, 600.0):
        beat.add(SimpleNamespace(tag=str(seconds), folder=tmp_path, ttl_seconds=seconds))  # type: ignore[arg-type]
        beat._thread.join()  # type: ignore[union-attr]
    assert waits == [10.0, 2.0, 2.0]
    assert files.read_number(tmp_path / files.RENEWED) is not None


def test_a_stray_that_cannot_be_killed_blocks_no_job(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.engine.strays = lab.engine.fails = {f"hetopt-{lab.database.cluster}-9-0-9"}
    submit(lab.database, spec("a"))
    lab.play(6)
    assert lab.states() == {"a": "done"}
    assert [line for line in lab.messages if "it cannot be killed" in line]


def test_gpus_of_a_process_that_cannot_die_are_not_granted(stage: Make) -> None:
    """Jobs that fit on the others run there; a job that does not fit blocks none."""
    lab = stage(node("n", {"V100": 3}), seconds=60.0, profile=True)
    lab.passes = float("inf")
    submit(lab.database, spec("stuck"))
    with_speeds(lab.database, 1, {"V100": 1.0})
    lab.play(4)
    lab.engine.stuck = {lab.leases()[0].tag}
    cancel(lab.database, "stuck")
    lab.play(4, 60.0)
    assert lab.leases()[0].lost_since is not None
    submit(lab.database, spec("big", workers=3))
    submit(lab.database, spec("two", workers=2))
    with_speeds(lab.database, 3, {"V100": 1.0})
    lab.play(6, 60.0)
    assert lab.held() == {"stuck": {"n": {"V100": 1}}, "two": {"n": {"V100": 2}}}
    (big,) = [job for job in snapshot(lab.database).jobs if job["name"] == "big"]
    assert big["reason"].startswith("it needs 3 GPUs; of those that it may use 2 V100 are available")


def test_a_missing_folder_of_leases_is_not_created_again(stage: Make) -> None:
    """Otherwise a file server that is mounted late would cost all running jobs and their checkpoints."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    folder = lab.controller.manager.folder
    away = folder.rename(folder.with_name("away"))
    with pytest.raises(UnusableFile, match=r"is its file server mounted\? .* touch"):
        lab.restart()
    assert not folder.exists()
    away.rename(folder)
    lab.restart()
    lab.passes = 3
    lab.play(4)
    assert lab.states() == {"a": "done"}
    (folder / MARK).unlink()
    lab.restart()  # no job continues from there
    assert (folder / MARK).exists()


# -- the engine starts nothing


@pytest.mark.parametrize("profile", [True, False])
@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_lease_that_does_not_begin_in_time_moves(stage: Make, profile: bool, seconds: float | None) -> None:
    """For example because others hold all cores of the host; it is tried there again only after a while."""
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 1}), policy="fft", seconds=seconds, profile=profile)
    lab.engine.waits = {"v"}
    submit(lab.database, spec("a"))
    with_speeds(lab.database, 1, {} if profile else {"V100": 4.0, "K80": 3.0})
    lab.play(25, 30.0)
    assert lab.states() == {"a": "done"}
    with lab.database.reading() as connection:
        leases = connection.tuples("SELECT gpu_types, stop_reason FROM leases")
    assert leases.count(("V100", StopReason.NOT_STARTED)) == 1
    lab.engine.waits = set()
    submit(lab.database, spec("b", gpu_types=["V100"]))
    lab.play(20, 30.0)
    assert lab.states()["b"] == "done"


def test_gpus_that_others_use_are_left_out_once(stage: Make) -> None:
    """A gang that waits for one of them is revoked; a job that needs only free GPUs starts at once."""
    lab = stage(node("v", {"V100": 4}))
    lab.engine.waits = {"v"}
    submit(lab.database, spec("pair", workers=2))
    lab.play(2)
    lab.host("v", used={"V100": 3})
    submit(lab.database, spec("single"))
    while any(lease.job == "pair" for lease in lab.leases()):
        lab.play(1, 30.0)
    lab.engine.waits = set()
    lab.play(6)
    assert lab.states() == {"pair": "queued", "single": "done"}


def test_a_shared_host_that_starts_nothing_is_avoided(stage: Make) -> None:
    lab = stage(node("v", {"V100": 2}, used={"V100": 1}), node("k", {"K80": 1}))
    lab.engine.waits = {"v"}
    submit(lab.database, spec("a"))
    lab.play(40, 30.0)
    assert lab.states() == {"a": "done"}


def test_an_engine_with_short_outages_blocks_no_job(stage: Make) -> None:
    """Only the time of outages does not count."""
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 1}))
    lab.engine.waits = {"v"}
    submit(lab.database, spec("a"))
    for _ in range(5):
        lab.engine.down = "busy"
        lab.play(1, 10.0)
        lab.engine.down = ""
        lab.play(11, 20.0)
    assert lab.states() == {"a": "done"}


# -- profiling


def test_a_trained_job_is_not_stopped_for_profiling_on_a_new_type(stage: Make) -> None:
    """Its speed there is estimated until it has trained there."""
    lab = stage(node("k", {"K80": 4}), node("v", {"V100": 1}, up=False), policy="fft", seconds=60.0, profile=True)
    lab.passes = float("inf")
    for i in range(4):
        submit(lab.database, spec(f"j{i}"))
    lab.play(40, 5.0)
    assert len(lab.leases()) == 4
    lab.host("v", up=True)
    for _ in range(20):
        lab.play(1, 10.0)
        assert {lease.kind for lease in lab.leases()} == {"train"}
        assert len(lab.leases()) >= 3, "at most one moves"


def test_out_of_memory_concerns_one_job_alone(stage: Make) -> None:
    """The next job of its model is tried, and the same job after a change."""
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 1}), profile=True)
    lab.too_small = {"a": {"V100", "K80"}, "c": {"V100"}}
    for name in "abcd":
        submit(lab.database, spec(name, model="gpt", tenant="ann"))
        lab.play(20)
    assert lab.states() == {"a": "failed", "b": "done", "c": "done", "d": "done"}
    lab.too_small = {}
    retry(lab.database, "a")
    lab.play(20)
    assert lab.states()["a"] == "done"


def test_a_job_that_waits_for_profiling_is_not_overtaken(stage: Make) -> None:
    lab = stage(node("v", {"V100": 2}), profile=True, seconds=600.0)
    lab.passes = float("inf")
    submit(lab.database, spec("old"))
    lab.play(4)
    submit(lab.database, spec("big", workers=2))
    for i in range(4):
        submit(lab.database, spec(f"small{i}"))
    lab.play(1)
    lab.play(8)
    with lab.database.reading() as connection:
        order = connection.column("SELECT job FROM leases WHERE kind = 'profile'")
    assert order[:2] == [1, 2]


@pytest.mark.parametrize("policy", ["fifo", "fft", "gavel"])
def test_a_job_whose_processes_cannot_die_blocks_no_gpus(stage: Make, policy: str) -> None:
    """It cannot start while they may live; other jobs use the GPUs meanwhile."""
    lab = stage(node("v1", {"V100": 1}), node("v2", {"V100": 1}), policy=policy, seconds=200.0)
    submit(lab.database, spec("a"))
    lab.play(1)
    lab.hang(*lab.leases())
    for name in "bc":
        submit(lab.database, spec(name))
        with_speeds(lab.database, len(rows(lab.database)), {"V100": 1.0})
    lab.play(100, 20.0)
    assert lab.states() == {"a": "queued", "b": "done", "c": "done"}
    lab.engine.stuck.clear()
    lab.play(30, 20.0)
    assert lab.states()["a"] == "done"


# -- all faults together

HOSTS = (node("a", {"V100": 2}), node("b", {"K80": 2}), node("c", {"V100": 1, "P100": 1}), cards("d", "0", "1"))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Events, and the number that chooses their object."""
    kinds = ["submit", "submit", "play", "play", "play", "wait", "cancel", "down", "up", "drain", "undrain", "others"]
    kinds += ["alone", "lost", "found", "engine", "answers", "waits", "begins", "lose", "small", "restart"]
    return draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 11)), max_size=30))


def happen(lab: Stage, what: str, n: int) -> None:
    """One event."""
    host, jobs = HOSTS[n % len(HOSTS)].name, rows(lab.database)
    known = {one.name for one in lab.controller.monitor.nodes}
    queued = [row["name"] for row in jobs if row["state"] == "queued"]
    if what == "submit" and len(jobs) < 6:
        name = f"j{len(jobs)}"
        submit(lab.database, spec(name, workers=1 + n % 2, model=f"m{n % 2}", tenant=f"t{n % 3}"))
    elif what in ("play", "wait"):
        lab.play(1 + n, 1.0 if what == "play" else 45.0)
    elif what == "cancel" and queued:
        cancel(lab.database, queued[n % len(queued)])
    elif what in ("down", "up"):
        lab.host(host, up=what == "up")
    elif what in ("drain", "undrain") and host in known:
        drain(lab.database, host, undo=what == "undrain")
    elif what in ("others", "alone"):
        lab.host(host, used={"V100": 1, "K80": 1} if what == "others" else {})
    elif what in ("lost", "found"):
        lab.host(
            "d", seats=cards("d", *"01"[n % 3 == 0 : 2 - (n % 3 == 1)]).seats if what == "lost" else HOSTS[3].seats
        )
    elif what in ("engine", "answers"):
        lab.engine.down = "away" if what == "engine" else ""
    elif what == "waits":
        lab.engine.waits.add(host)
    elif what == "begins":
        lab.engine.waits.discard(host)
    elif what == "lose" and lab.engine.live:
        del lab.engine.live[sorted(lab.engine.live)[n % len(lab.engine.live)]]
    elif what == "small" and queued:
        lab.too_small[queued[n % len(queued)]] = {("V100", "K80", "P100")[n % 3]}
    elif what == "restart":
        lab.restart()


@settings(max_examples=examples(20, 80), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    history=histories(),
    policy=st.sampled_from(["fifo", "fft", "gavel", "oef-cooperative", "hadar", "hadare", "srtf", "tiresias-per-type"]),
    seconds=st.sampled_from([None, 30.0]),
    profile=st.booleans(),
)
def test_after_all_faults_all_jobs_finish(
    history: list[tuple[str, int]], policy: str, seconds: float | None, profile: bool
) -> None:
    """After any history: hosts down, drained or in use by others, engine outages, lost leases."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Stage(Path(folder) / "state", *HOSTS, policy=policy, seconds=seconds, profile=profile)
        try:
            lab.play()
            for what, n in history:
                happen(lab, what, n)
            lab.engine.down, lab.engine.waits, lab.engine.hosts = "", set(), list(HOSTS)
            lab.play()
            for host in HOSTS:
                drain(lab.database, host.name, undo=True)
            for _ in range(60):
                if lab.controller.idle():
                    break
                lab.play(10, 15.0)
            assert set(lab.states().values()) <= {"done", "cancelled"}, [dict(row) for row in rows(lab.database)]
            with lab.database.reading() as connection:
                held = connection.value("SELECT count(*) FROM seats WHERE held")
            assert held == 0
        finally:
            lab.close()
