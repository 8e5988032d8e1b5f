"""The controller alone: with an engine that fails or a full disk, and its messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executor_cluster import LAB, rows, spec
from waiting import until

from hetopt.data.instance import Instance
from hetopt.errors import InvalidPlan, Item, UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import lease_manager, leases, scheduler
from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Node, Phase, Refused
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.queue import cancel, submit
from hetopt.executor.state_database import EVENTS, StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.results.allocation import Plan


class Moody:
    """An engine that starts nothing, and answers when the test lets it."""

    name, exact_slots, look_seconds = "moody", True, 0.0

    def __init__(self) -> None:
        self.down: str | None = None
        self.refuses: str | None = None
        self.phase = Phase.RUNNING
        self.asked, self.started = 0, list[str]()

    def _answer(self) -> None:
        if self.down is not None:
            raise EngineDown(self.down)

    def nodes(self) -> tuple[Node, ...]:
        self.asked += 1
        self._answer()
        return LAB

    def start(self, grant: LeaseRecord) -> None:
        self._answer()
        if self.refuses is not None:
            raise EngineDown(self.refuses)
        self.started.append(grant.tag)

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        self._answer()
        return dict.fromkeys(tags, self.phase)

    def stop(self, tags: Collection[str]) -> None:
        self._answer()

    kill = stop

    def fenced_after(self, tag: str) -> float | None:
        return None

    def close(self) -> None:
        """Nothing."""


class Driven:
    """A controller with that engine, and its messages."""

    def __init__(self, folder: Path, engine: Moody) -> None:
        self.database, self.engine, self.messages = StateDatabase(folder), engine, list[str]()
        settings = Settings("fifo", None, False)
        self.controller = Controller(
            self.database, engine, system_of("fifo", {}, None), estimated, settings, print_line=self.messages.append
        )

    def logged(self) -> list[str]:
        """Kinds of the events in the log file."""
        lines = (self.database.folder / EVENTS).read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    made = Driven(tmp_path / "state", Moody())
    yield made
    made.controller.close()


def test_an_engine_that_is_down_is_reported_once_and_logged_at_once(driven: Driven) -> None:
    """Also in the last pass of a controller, which has nothing left to do."""
    driven.engine.down = "no wire"
    for _ in range(3):
        driven.controller.step()
    assert driven.messages == ["moody does not answer, so nothing is decided and what runs goes on: no wire"]
    assert driven.logged() == ["controller", "engine"]
    driven.engine.down = None
    driven.controller.step()
    assert driven.messages[1:] == ["moody answers again"]


def test_an_engine_with_expensive_queries_is_queried_less_often(
    driven: Driven, clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases that are granted meanwhile are started; after a failure the engine is queried in the next pass."""
    monkeypatch.setattr(driven.engine, "look_seconds", 3.0, raising=False)
    for _ in range(4):
        driven.controller.step()
    assert driven.engine.asked == 1
    submit(driven.database, spec("a"))
    driven.controller.step()
    assert (driven.engine.asked, len(driven.engine.started)) == (1, 1)
    driven.engine.down = "no wire"
    clock.time += 3.0  # type: ignore[attr-defined]
    for _ in range(2):
        driven.controller.step()
    assert driven.engine.asked == 3, "as long as it does not answer it is asked each time"
    driven.engine.down = None
    driven.controller.step()
    driven.controller.step()
    assert (driven.messages[1], driven.engine.asked) == ("moody answers again", 4)


def test_a_log_that_cannot_be_written_stops_nothing(driven: Driven) -> None:
    (driven.database.folder / EVENTS).mkdir()
    submit(driven.database, spec("a"))
    for _ in range(3):
        driven.controller.step()
    assert driven.engine.started != []
    assert driven.messages == [f"{driven.database.folder / EVENTS}: Is a directory"]


def test_a_full_disk_while_the_engine_is_down(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two simultaneous errors are reported one after the other, and the controller continues."""

    def full() -> object:
        raise UnusableFile("the disk is full")

    driven.engine.down = "no wire"
    monkeypatch.setattr(driven.database, "writing", full)
    driven.controller.step()
    monkeypatch.undo()
    assert [line.split(":")[-1].strip() for line in driven.messages] == ["no wire", "the disk is full"]
    driven.engine.down = None
    driven.controller.step()
    assert driven.messages[-1] == "moody answers again"


def test_a_refused_lease_does_not_delay_other_jobs(driven: Driven) -> None:
    """The refusal is reported once; the lease may be cancelled; other leases that have ended are sealed."""
    submit(driven.database, spec("a"))
    driven.controller.step()
    (first,) = driven.controller.manager.leases()
    driven.engine.refuses = "violates a policy"
    submit(driven.database, spec("b"))
    for _ in range(3):
        driven.controller.step()
    assert driven.messages == ["b: violates a policy"]
    assert states(driven) == {"a": "started", "b": "intent"}
    files.claim(first.folder, 0, files.identity())
    files.write_json(first.folder / files.exit_file(0), {"reason": "ended", "codes": [0], "problem": None, "left": []})
    cancel(driven.database, "b")
    for _ in range(3):
        driven.controller.step()
    assert states(driven) == {}
    assert {row["name"]: row["state"] for row in rows(driven.database)} == {"a": "done", "b": "cancelled"}


def test_files_of_many_leases_are_read_in_turn(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of leases that stop, or that the engine no longer lists, are read in each pass."""
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        submit(driven.database, spec(name))
    driven.controller.step()
    leases = driven.controller.manager.leases()
    for lease in leases:
        files.claim(lease.folder, 0, files.identity())
        files.write_json(lease.folder / files.PROGRESS, {"step": 2, "first_step": 1, "seconds": 1.0, "time": 1.0})
    driven.controller.step()
    assert all(lease.is_training for lease in driven.controller.manager.leases())
    monkeypatch.setattr(lease_manager, "MAX_REPORTS", 1)
    for lease in leases:
        ended = {"reason": "ended", "codes": [0], "problem": None, "left": []}
        files.write_json(lease.folder / files.exit_file(0), ended)
    cancel(driven.database, "a")
    left = []
    for _ in range(2):
        driven.controller.manager.advance(driven.controller.manager.leases(), LAB)
        left.append(len(states(driven)))
    assert left[0] in (3, 4), "the one that is cancelled, and whose turn it is"
    assert left[1] == left[0] - 1
    assert "a" not in states(driven)
    driven.engine.phase = Phase.ENDED
    driven.controller.manager.advance(driven.controller.manager.leases(), LAB)
    assert states(driven) == {}


def states(driven: Driven) -> dict[str, str]:
    """State of each open lease by the name of its job."""
    return {lease.job: lease.state for lease in driven.controller.manager.leases()}


def test_a_lease_that_does_not_begin_in_time_is_revoked(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driven.controller.manager, "timeouts", LeaseTimeouts(start_seconds=0.0))
    driven.engine.refuses = "not now"
    submit(driven.database, spec("a"))
    for _ in range(3):
        driven.controller.step()
    with driven.database.reading() as connection:
        outcomes = connection.column("SELECT outcome FROM leases")
    assert outcomes[0] == "revoked"
    assert rows(driven.database)[0]["state"] == "queued"


def test_a_start_whose_answer_was_lost_is_found_by_its_claim(driven: Driven) -> None:
    """Even if the engine then refuses it; otherwise the lease would hold its GPUs for ever."""
    driven.engine.refuses = "answer lost"
    submit(driven.database, spec("a"))
    driven.controller.step()
    (lease,) = driven.controller.manager.leases()
    files.claim(lease.folder, 0, files.identity())

    def refuse(_: LeaseRecord) -> None:
        raise Refused("there is one of that name")

    driven.engine.start = refuse  # type: ignore[method-assign]
    driven.controller.step()
    assert states(driven) == {"a": "started"}


def test_a_lease_without_its_directory_is_given_up(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sealed after the lease timeout, and the job continues."""
    timeouts = LeaseTimeouts(ttl_seconds=0.1, margin_seconds=0.1)
    monkeypatch.setattr(driven.controller.manager, "timeouts", timeouts)
    submit(driven.database, spec("a", grace=0.1))
    submit(driven.database, spec("b"))
    driven.controller.step()
    gone = next(lease for lease in driven.controller.manager.leases() if lease.job == "a")
    shutil.rmtree(gone.folder)

    def given_up() -> bool:
        driven.controller.step()
        return gone.tag not in [lease.tag for lease in driven.controller.manager.leases()]

    until(given_up, "it is given up")
    assert "lost" in driven.logged()
    driven.controller.step()
    assert set(states(driven)) == {"a", "b"}, "it runs again"


def test_without_the_folder_of_leases_nothing_is_decided(driven: Driven) -> None:
    """A file server that is not mounted looks like leases without checkpoints."""
    submit(driven.database, spec("a"))
    driven.controller.step()
    folder = driven.controller.manager.folder
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    for _ in range(3):
        driven.controller.step()
    assert len(driven.messages) == 1
    assert "is its file server mounted?" in driven.messages[0]
    folder.rmdir()
    folder.with_name("away").rename(folder)
    driven.controller.step()
    assert states(driven) == {"a": "started"}


def test_a_closed_terminal_does_not_stop_the_controller(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(driven.controller.alerts, "_print", closed)
    driven.engine.down = "no wire"
    driven.controller.step()
    driven.engine.down = None
    submit(driven.database, spec("a"))
    driven.controller.step()
    assert states(driven) == {"a": "started"}


@pytest.mark.parametrize("failing", ["writing", "pickle"])
def test_a_decision_that_could_not_be_stored_is_made_again(
    driven: Driven, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Also by a policy without rounds, which decides on changes; it gets its previous state."""
    submit(driven.database, spec("a"))
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> object:
            raise UnusableFile("the disk is full")

        name = "write_targets" if failing == "writing" else "fitted"
        patch.setattr(scheduler, name, fail)
        driven.controller.step()
    assert driven.messages == ["the disk is full"]
    assert driven.controller.scheduler.memory is None
    driven.controller.step()
    assert states(driven) == {"a": "started"}


class Forgetful:
    """A policy that starts no job, with a state that cannot be stored in its first decision."""

    def __init__(self, error: Exception) -> None:
        self.error, self.tried = error, 0

    def __call__(self, instance: Instance, state: object = None) -> tuple[Plan, object]:
        self.tried += 1
        nothing = Plan(instance.entities("jobs"), np.zeros(instance.entities("jobs").shape))
        return nothing, Unstorable(self.error) if self.tried == 1 else None


class Unstorable:
    """A state of a policy that raises an error when it is stored."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> str:
        raise self.error


def forgetful(driven: Driven, error: Exception) -> Forgetful:
    policy, decider = Forgetful(error), driven.controller.scheduler.decider
    driven.controller.scheduler.decider = replace(decider, system=replace(decider.system, policy=policy))
    return policy


def test_a_decision_whose_state_cannot_be_stored_is_rejected(driven: Driven) -> None:
    submit(driven.database, spec("a"))
    forgetful(driven, TypeError("cannot pickle it"))
    driven.controller.step()
    assert driven.messages[0].startswith("fifo cannot decide, so running jobs continue: ")
    assert states(driven) == {}
    with driven.database.reading() as connection:
        assert connection.column("SELECT number FROM rounds") == []


def test_a_partial_decision_is_rolled_back_when_a_job_is_left_out(driven: Driven) -> None:
    submit(driven.database, spec("a"))
    tried = forgetful(driven, InvalidPlan("cannot be remembered", ("jobs", Item("a"))))
    driven.controller.step()
    assert tried.tried == 1, "the only job is left out"
    assert states(driven) == {}
    with driven.database.reading() as connection:
        assert connection.tuples("SELECT placed, gpus FROM rounds") == [(0, 0)]
        assert connection.column("SELECT reason FROM jobs") == ["jobs['a'] cannot be remembered"]


def test_a_damaged_database_is_reported(driven: Driven) -> None:
    driven.controller.step()
    driven.database.disconnect()
    path = driven.database.folder / "state.db"
    for more in ("-wal", "-shm"):
        path.with_name(path.name + more).unlink(missing_ok=True)
    path.write_bytes(b"rubbish" * 4096)
    driven.controller.manager.cache._database._watching = None
    driven.controller.step()
    assert "state.db" in driven.messages[0]
    assert not driven.controller.idle()


def test_a_job_that_the_engine_refuses_backs_off(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer each time, as the engine's limits may be changed back."""
    tried: list[str] = []

    def refuse(grant: LeaseRecord) -> None:
        tried.append(grant.tag)
        raise Refused("no such partition")

    driven.engine.start = refuse  # type: ignore[method-assign]
    submit(driven.database, spec("a"))
    for _ in range(5):
        driven.controller.step()
    assert len(tried) == 1
    (job,) = rows(driven.database)
    assert (job["state"], job["losses"]) == ("queued", 1)
    assert job["reason"] == "refused 1 of 10 times: no such partition; it backs off for 2 s"
    assert job["not_before"] > driven.database.now() + 1.0
    with driven.database.writing() as connection:
        connection.update("jobs", {"not_before": 0.0, "losses": 8})
    for _ in range(5):
        driven.controller.step()
    assert rows(driven.database)[0]["reason"].endswith("; it backs off for 60 s")
    monkeypatch.setattr(leases, "MAX_BACKOFF", 0.0)
    with driven.database.writing() as connection:
        connection.update("jobs", {"not_before": 0.0})
    for _ in range(5):
        driven.controller.step()
    (job,) = rows(driven.database)
    assert (job["state"], job["reason"], len(tried)) == ("failed", "no such partition", 3)
