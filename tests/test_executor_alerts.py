"""Why a cluster cannot continue is shown on the terminal, on the page, and by the metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from executor_cluster import node, spec
from executor_lab import QUICK, Run, job_file, some_lab  # noqa: F401 - the last a fixture
from executor_stage import Stage

from hetopt.errors import UnusableFile
from hetopt.executor.connection import Connection
from hetopt.executor.dashboard.page import fragment
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.prometheus import metrics_of
from hetopt.executor.queue import submit
from hetopt.executor.snapshot import WAITS_FOR_GPUS, snapshot
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.status_view import show
from hetopt.presentation.terminal import OUT

Make = Callable[..., Stage]


def shown(database: StateDatabase) -> str:
    """What `hetopt status` prints."""
    with OUT.capture() as printed:
        show(snapshot(database))
    return " ".join(printed.get().split())


def metrics(database: StateDatabase) -> dict[str, float]:
    return {
        one.name: one.value for metric in metrics_of(snapshot(database)) for one in metric.samples if not one.labels
    }


def test_an_alert_lasts_as_long_as_the_engine_is_down(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=10.0)
    why = "puppet does not answer, so nothing is decided and what runs goes on: no wire"
    lab.engine.down = "no wire"
    lab.play(2)
    assert snapshot(lab.database).alerts == [why]
    assert why in shown(lab.database)
    reader = Reader(lab.database.folder)
    assert why in fragment(reader.read())
    reader.close()
    assert metrics(lab.database)["hetopt_alerts"] == 1.0
    lab.engine.down = ""
    lab.play()
    assert snapshot(lab.database).alerts == []
    assert why not in shown(lab.database)
    assert metrics(lab.database)["hetopt_alerts"] == 0.0


def test_alerts_of_the_previous_controller_are_cleared(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.engine.down = "no wire"
    lab.play()
    lab.engine.down = ""
    lab.restart()
    assert snapshot(lab.database).alerts == []
    lab.engine.down = "no wire"
    lab.play()
    folder = lab.database.folder
    lab.controller.close()
    lab.database = StateDatabase(folder)
    assert snapshot(lab.database).alerts == [], "none runs"


def test_an_alert_that_could_not_be_recorded_is_recorded_later(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.engine.down = "no wire"
    with monkeypatch.context() as patch:
        patch.setattr(lab.database, "set_meta", fail)
        lab.play()
    assert snapshot(lab.database).alerts == []
    lab.play()
    assert len(snapshot(lab.database).alerts) == 1


def test_an_alert_whose_commit_failed_is_recorded_later(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = stage(node("n", {"V100": 1}))
    writing = lab.database.writing

    @contextmanager
    def interrupted() -> Iterator[Connection]:
        with writing() as connection:
            yield connection
            fail()

    lab.controller.alerts.set("engine", "no wire")
    with monkeypatch.context() as patch:
        patch.setattr(lab.database, "writing", interrupted)
        lab.controller._write_alerts()
    assert snapshot(lab.database).alerts == []
    lab.controller._write_alerts()
    assert snapshot(lab.database).alerts == ["no wire"]


def fail(*_: object) -> None:
    raise UnusableFile("the disk is full")


def test_a_late_round_is_an_alert(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=10.0)
    submit(lab.database, spec("a"))
    lab.play()
    assert snapshot(lab.database).overdue is None
    lab.database.clock.base += 100.0
    late = snapshot(lab.database).overdue
    assert late is not None
    assert 85.0 < late <= 100.0
    assert "overdue by 1." in shown(lab.database)
    assert metrics(lab.database)["hetopt_round_overdue_seconds"] == pytest.approx(late, abs=5.0)


def test_a_full_disk_is_an_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite often reports it as an I/O error; only root can use the reserved blocks."""
    with StateDatabase(tmp_path / "state") as database:
        room = SimpleNamespace(f_bavail=0, f_bfree=1000, f_blocks=9000, f_frsize=4096, f_flag=0)
        monkeypatch.setattr(os, "statvfs", lambda _: room)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        message = f"the disk of {database.folder} is full"
        assert snapshot(database).alerts == [message]
        assert f"start one with `hetopt run`. {message}" in shown(database)
        with (
            pytest.raises(UnusableFile, match=f"^{message}; nothing has been changed$"),
            database.writing() as connection,
        ):
            connection.execute("SELECT * FROM nowhere")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert snapshot(database).alerts == []
        room.f_blocks, room.f_bfree = 0, 0  # as a tmpfs without a limit has it
        assert snapshot(database).alerts == []


def test_a_job_that_fits_no_node_is_reported_once_on_the_terminal(stage: Make) -> None:
    """Otherwise a controller with --until-idle would wait for ever without a message."""
    lab = stage(node("n", {"V100": 1}), seconds=2.0)
    for name in "abcde":
        submit(lab.database, spec(name, workers=4))
    lab.play(10)
    (line,) = lab.messages
    assert line.startswith("a waits: it needs 4 GPUs; of those that it may use the cluster has 1 V100; submit it with")
    assert line.endswith("; and 2 more jobs")
    assert snapshot(lab.database).alerts == [], "the jobs' own lines say it"


def test_a_job_whose_gpus_are_still_in_use_has_a_reason(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    (lease,) = lab.leases()
    lab.engine.stuck.add(lease.tag)
    submit(lab.database, spec("b"))
    with lab.database.writing() as connection:
        connection.insert("targets", job=2, copy=0, seats='{"n": {"V100": 1}}')
        connection.update("jobs", {"reason": None})
    assert [job["reason"] for job in snapshot(lab.database).jobs] == [None, WAITS_FOR_GPUS]
    folder = lab.database.folder
    lab.controller.close()
    lab.database = StateDatabase(folder)
    assert [job["reason"] for job in snapshot(lab.database).jobs] == [None, None], "no lease of them will start"


def test_the_token_of_the_dashboard_is_not_passed_to_jobs(lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETOPT_TOKEN", "a-very-secret-word")
    monkeypatch.setenv("ANOTHER", "a-word-of-mine")
    assert run("submit", job_file(lab, "env", command=["env"]))[0] == 0
    assert run("run", "--no-profile", *QUICK)[0] == 0
    printed = run("logs", "env")[1]
    assert "ANOTHER=a-word-of-mine" in printed
    assert "a-very-secret-word" not in printed
