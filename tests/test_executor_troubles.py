"""Who looks at a cluster that cannot go on is told why: on the terminal, on the page, by the metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from executor_lab import QUICK, Run, job_file, some_lab  # noqa: F401 - the last a fixture
from executor_scenes import form, node
from executor_stage import Stage

from hetopt.errors import UnusableFile
from hetopt.executor.dashboard.page import fragment
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.prometheus import metrics_of
from hetopt.executor.queue import submit
from hetopt.executor.snapshot import GIVEN, snapshot
from hetopt.executor.status_view import show
from hetopt.executor.store import StateStore
from hetopt.presentation.terminal import OUT

Make = Callable[..., Stage]


def shown(store: StateStore) -> str:
    """What `hetopt status` prints."""
    with OUT.capture() as printed:
        show(snapshot(store))
    return " ".join(printed.get().split())


def metrics(store: StateStore) -> dict[str, float]:
    return {one.name: one.value for metric in metrics_of(snapshot(store)) for one in metric.samples if not one.labels}


def test_an_engine_that_is_down_is_said_to_be_as_long_as_it_is(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=10.0)
    why = "puppet does not answer, so nothing is decided and what runs goes on: no wire"
    lab.engine.down = "no wire"
    lab.play(2)
    assert snapshot(lab.store).troubles == [why]
    assert why in shown(lab.store)
    reader = Reader(lab.store.folder)
    assert why in fragment(reader.read())
    reader.close()
    assert metrics(lab.store)["hetopt_troubles"] == 1.0
    lab.engine.down = ""
    lab.play()
    assert snapshot(lab.store).troubles == []
    assert why not in shown(lab.store)
    assert metrics(lab.store)["hetopt_troubles"] == 0.0


def test_what_was_wrong_with_the_last_controller_is_over_with_it(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.engine.down = "no wire"
    lab.play()
    lab.engine.down = ""
    lab.restart()
    assert snapshot(lab.store).troubles == []
    lab.engine.down = "no wire"
    lab.play()
    folder = lab.store.folder
    lab.controller.close()
    lab.store = StateStore(folder)
    assert snapshot(lab.store).troubles == [], "none runs"


def test_a_trouble_that_could_not_be_written_down_is_later(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.engine.down = "no wire"
    with monkeypatch.context() as patch:
        patch.setattr(lab.store, "say", fail)
        lab.play()
    assert snapshot(lab.store).troubles == []
    lab.play()
    assert len(snapshot(lab.store).troubles) == 1


def fail(*_: object) -> None:
    raise UnusableFile("the disk is full")


def test_a_round_that_is_late_is_said_to_be(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=10.0)
    submit(lab.store, form("a"))
    lab.play()
    assert snapshot(lab.store).overdue is None
    lab.store.clock.base += 100.0
    late = snapshot(lab.store).overdue
    assert late is not None
    assert 85.0 < late <= 100.0
    assert "overdue by 1." in shown(lab.store)
    assert metrics(lab.store)["hetopt_round_overdue_seconds"] == pytest.approx(late, abs=5.0)


def test_a_full_disk_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite often calls it an I/O error; for root, blocks are free that others may not have."""
    with StateStore(tmp_path / "state") as store:
        room = SimpleNamespace(f_bavail=0, f_bfree=1000, f_blocks=9000, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _: room)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        told = f"the disk of {store.folder} is full"
        assert snapshot(store).troubles == [told]
        with pytest.raises(UnusableFile, match=f"^{told}; nothing has been changed$"), store.writing() as connection:
            connection.execute("SELECT * FROM nowhere")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert snapshot(store).troubles == []
        room.f_blocks, room.f_bfree = 0, 0  # as a tmpfs without a limit has it
        assert snapshot(store).troubles == []


def test_a_job_that_nothing_can_run_is_said_so_at_the_terminal(stage: Make) -> None:
    """Once; whoever waits for the end with --until-idle would wait for ever without a word."""
    lab = stage(node("n", {"V100": 1}), seconds=2.0)
    for name in "abcde":
        submit(lab.store, form(name, workers=4))
    lab.play(10)
    (line,) = lab.said
    assert line.startswith("a waits: it wants 4 workers; the GPUs on which it can run are 1 V100, ")
    assert line.endswith("; 2 more jobs wait so")
    assert snapshot(lab.store).troubles == [], "the jobs' own lines say it"


def test_who_was_given_gpus_on_which_others_still_run_is_told_so(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.looks = float("inf")
    submit(lab.store, form("a"))
    lab.play(3)
    (lease,) = lab.leases()
    lab.engine.stuck.add(lease.tag)
    submit(lab.store, form("b"))
    with lab.store.writing() as connection:
        connection.insert("targets", job=2, copy=0, seats='{"n": {"V100": 1}}')
        connection.update("jobs", {"reason": None})
    assert [job["reason"] for job in snapshot(lab.store).jobs] == [None, GIVEN]
    folder = lab.store.folder
    lab.controller.close()
    lab.store = StateStore(folder)
    assert [job["reason"] for job in snapshot(lab.store).jobs] == [None, None], "nobody will start it"


def test_the_token_of_the_page_is_not_given_to_jobs(lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETOPT_TOKEN", "a-very-secret-word")
    monkeypatch.setenv("ANOTHER", "a-word-of-mine")
    assert run("submit", job_file(lab, "env", command=["env"]))[0] == 0
    assert run("run", "--no-profile", *QUICK)[0] == 0
    printed = run("logs", "env")[1]
    assert "ANOTHER=a-word-of-mine" in printed
    assert "a-very-secret-word" not in printed
