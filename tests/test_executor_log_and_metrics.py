"""Log and metrics of a cluster, Prometheus, and the clock."""

from __future__ import annotations

import json
import math
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from executor_cluster import granted, node, opened, rows, spec, with_speeds
from executor_stage import Stage
from waiting import PATIENCE

from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.executor import clock as clocks
from hetopt.executor import lease_directory as files
from hetopt.executor.clock import Clock, Wall
from hetopt.executor.engines.engine import Seat
from hetopt.executor.lease_record import PROFILE
from hetopt.executor.leases import LeaseResult, StopReason, grant, request_stop, seal, set_leases
from hetopt.executor.measured_log import instance_of, log_of
from hetopt.executor.prometheus import metrics_of, serve
from hetopt.executor.queue import submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.speeds import restart_seconds
from hetopt.executor.state_database import StateDatabase
from hetopt.metrics import summary


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateDatabase]:
    """A state whose clock the test sets: ``database.clock.base``."""
    with StateDatabase(tmp_path / "state") as made:
        monkeypatch.setattr(clocks, "now", lambda: made.clock.at)
        made.clock.base = 0.0
        yield made


def at(database: StateDatabase, seconds: float) -> None:
    database.clock.base = seconds


def history(database: StateDatabase) -> None:
    """Two jobs on two hosts: a trains from 10 to 40 on slow, moves, ends at 60 on fast; b waits and runs from 45."""
    for name, seconds in (("a", 0.0), ("b", 20.0)):
        at(database, seconds)
        submit(database, spec(name, steps=100, tenant=name))
    for job in (1, 2):
        with_speeds(database, job, {"slow": 1.0, "fast": 4.0})
    content = [("n", {"slow": 1}), ("m", {"fast": 1})]
    with database.writing() as connection:
        for name, gpus in content:
            content = json.dumps({"gpus": gpus, "up": True, "note": ""})
            connection.insert("nodes", name=name, drained=False, content=content)
        for number, begin in enumerate((0.0, 30.0, 60.0), start=1):
            more = {"policy": "fft", "jobs": 1, "placed": 1, "gpus": 1, "capacity": 2, "seconds": 0.5}
            connection.insert("rounds", number=number, time=begin, **more)
    run(database, 1, Seat("n", "slow", 0), 10.0, 12.0, 40.0, 28, stop=38.0)
    run(database, 1, Seat("m", "fast", 0), 41.0, 44.0, 60.0, 100)
    run(database, 2, Seat("n", "slow", 0), 45.0, 46.0, 145.0, 100)


def run(
    database: StateDatabase,
    job: int,
    seat: Seat,
    begin: float,
    tick: float,
    end: float,
    step: int,
    stop: float | None = None,
) -> None:
    at(database, begin)
    assert granted(database, job, [seat]) is not None
    lease = next(one for one in opened(database) if one.job_id == job)
    with database.writing() as connection:
        connection.update("leases", {"running": begin, "first_tick": tick}, "id = :id", id=lease.id)
    if stop is not None:
        at(database, stop)
        request_stop(database, [(lease, StopReason.MOVES)])
    at(database, end)
    seal(database, lease, LeaseResult("stopped" if stop else "ended", step=step, finished=step == 100))


def test_the_log_equals_one_by_hand(database: StateDatabase) -> None:
    history(database)
    log = log_of(database)
    assert log.jobs["jct"].to_dict() == {"a": 60.0, "b": 125.0}
    assert log.jobs["starvation"].to_dict() == {"a": 10.0, "b": 25.0}
    assert log.jobs["switches"].to_dict() == {"a": 1, "b": 0}
    assert log.jobs["lost"].to_dict() == {"a": 5.0, "b": 1.0}
    assert log.spans[["job", "start", "end", "lost", "work"]].values.tolist() == [
        ["a", 10.0, 40.0, 2.0, 28.0],
        ["a", 41.0, 60.0, 3.0, 72.0],
        ["b", 45.0, 145.0, 1.0, 100.0],
    ]
    assert log.rounds["held"].tolist() == [20.0, 10 + 19 + 15.0, 85.0]
    assert log.rounds["trained"].tolist() == [18.0, 10 + 16 + 14.0, 85.0]
    assert log.rounds["utilisation"].tolist() == [18 / 60, 40 / 60, 85 / 170]
    assert log.throughput["a'"].tolist() == [18 / 30, (10 + 4 * 16) / 30, 0.0]
    assert log.end == 145.0


def test_all_metrics_equal_those_of_the_log(database: StateDatabase) -> None:
    history(database)
    numbers = summary(log_of(database), instance_of(database))
    assert numbers["jct_mean"] == 92.5
    assert numbers["makespan"] == 145.0
    # Alone and at once on the fast one a takes 25 s and b too.
    assert numbers["ftf_exclusive_mean"] == pytest.approx((60 / 25 + 125 / 25) / 2)


def test_a_job_runs_once_a_process_of_it_was_seen(database: StateDatabase) -> None:
    """Before that, the engine may hold it in its own queue."""

    def state() -> str:
        return str(snapshot(database).jobs[0]["state"])

    submit(database, spec("a"))
    assert state() == "queued"
    granted(database, 1, [Seat("n", "slow", 0)])
    assert state() == "starting"
    set_leases(database, {lease.id: {"running": database.now()} for lease in opened(database)})
    assert state() == "running"
    request_stop(database, [(opened(database)[0], StopReason.MOVES)])
    assert state() == "stopping"


def test_a_profiling_run_starts_too(database: StateDatabase) -> None:
    """In a queue of the engine it is not profiled yet."""
    submit(database, spec("a"))
    with database.writing() as connection:
        grant(connection, database, 1, [Seat("n", "slow", 0)], kind=PROFILE)
    assert snapshot(database).jobs[0]["state"] == "starting"
    set_leases(database, {lease.id: {"running": database.now()} for lease in opened(database)})
    assert snapshot(database).jobs[0]["state"] == "profiling"
    request_stop(database, [(opened(database)[0], StopReason.CANCELLED)])
    assert snapshot(database).jobs[0]["state"] == "stopping"


def test_without_nodes_there_is_no_instance(database: StateDatabase) -> None:
    submit(database, spec("a"))
    with pytest.raises(InvalidInstance, match="knows no node"):
        instance_of(database)
    log = log_of(database)
    assert log.jobs["jct"].isna().all()
    assert not len(log.spans)


def test_the_measured_cost_of_a_switch(database: StateDatabase) -> None:
    """Stopping took 2 s, starting 2, 3 and 1 s: 2 + 2 in the median."""
    assert _cost(database) is None
    history(database)
    assert _cost(database) == 4.0


def test_the_first_step_is_dated_back_to_before_the_pass(stage: Callable[..., Stage]) -> None:
    """By the training time that the job reports, but not before the grant."""
    lab = stage(node("n", {"V100": 2}))
    lab.passes = float("inf")
    for name in "ab":
        submit(lab.database, spec(name))
    lab.play(1)
    for lease, seconds in zip(lab.leases(), (3.0, 1e9), strict=True):
        progress = {"step": 7, "first_step": 1, "seconds": seconds, "time": 1.0}
        files.write_json(lease.folder / files.PROGRESS, progress, durable=False)
    lab.database.clock.base += 10.0
    now = lab.database.now()
    lab.controller.step()
    one, other = lab.leases()
    assert one.first_tick == pytest.approx(now - 3.0, abs=1.0)
    assert other.first_tick == other.granted


def _cost(database: StateDatabase) -> float | None:
    with database.reading() as connection:
        return restart_seconds(connection)


def test_metrics_are_served_on_loopback(database: StateDatabase) -> None:
    history(database)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics_of(snapshot(database))
        for sample in metric.samples
    }
    assert samples["hetopt_jobs", "done"] == 2.0
    assert samples["hetopt_gpus", "n", "slow"] == 1.0
    assert samples["hetopt_node_up", "m"] == 1.0
    server, thread = serve(database, 0)
    try:
        port = server.server_port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        assert server.server_address[0] == "127.0.0.1"
        assert 'hetopt_jobs{state="done"} 2.0' in text
        with pytest.raises(InvalidOption, match="Address already in use"):
            serve(database, port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(InvalidOption, match="--metrics-port is 70000"):
        serve(database, 70000)


def test_the_clock_continues_over_controllers_and_stands_still_over_a_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clocks, "now", lambda: now[0])
    one = Clock.begin()
    now[0] = 130.0
    assert one.now() == 30.0
    assert Clock.of(one.text, 0.0).now() == 30.0
    monkeypatch.setattr(clocks, "boot_id", lambda: "another")
    now[0] = 5.0
    after = Clock.of(one.text, 28.0)
    assert after.now() == 28.0
    now[0] = 6.0
    assert after.now() == 29.0


def test_a_change_of_the_wall_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall()
    assert wall.jumped() == 0.0
    real = time.time
    monkeypatch.setattr(clocks.time, "time", lambda: real() + 3600)
    assert wall.jumped() == pytest.approx(3600, abs=1)
    assert wall.jumped() == 0.0


def test_a_state_without_events_has_empty_metrics(database: StateDatabase) -> None:
    log = log_of(database)
    assert len(log.jobs) == len(log.rounds) == 0
    assert isinstance(log.jobs, pd.DataFrame)
    assert not rows(database)
    assert math.isfinite(log.end)
