"""The controller by itself: an engine that fails, a disk that is full, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from executor_scenes import LAB, form

from hetopt.errors import UnusableFile
from hetopt.executor.controller import Controller, Settings
from hetopt.executor.engines.engine import EngineDown, Grant, Node, Phase
from hetopt.executor.queue import submit
from hetopt.executor.starting import driving
from hetopt.executor.store import EVENTS, StateStore
from hetopt.models.hadare.unmeasured import estimated


class Moody:
    """An engine that starts nothing, and answers when it likes."""

    name, exact_slots, look_seconds = "moody", True, 0.0

    def __init__(self) -> None:
        self.down: str | None = None
        self.asked, self.started = 0, list[str]()

    def _answer(self) -> None:
        if self.down is not None:
            raise EngineDown(self.down)

    def nodes(self) -> tuple[Node, ...]:
        self.asked += 1
        self._answer()
        return LAB

    def start(self, grant: Grant) -> None:
        self._answer()
        self.started.append(grant.tag)

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        self._answer()
        return dict.fromkeys(tags, Phase.RUNNING)

    def stop(self, tags: Collection[str]) -> None:
        self._answer()

    kill = stop

    def fenced_after(self, tag: str) -> float | None:
        return None

    def close(self) -> None:
        """Nothing."""


class Driven:
    """A controller with that engine, and what it has said."""

    def __init__(self, folder: Path, engine: Moody) -> None:
        self.store, self.engine, self.said = StateStore(folder), engine, list[str]()
        settings = Settings("fifo", None, False)
        self.controller = Controller(
            self.store, engine, driving("fifo", {}, None), estimated, settings, say=self.said.append
        )

    def logged(self) -> list[str]:
        """Kinds of the events in the log file."""
        lines = (self.store.folder / EVENTS).read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    made = Driven(tmp_path / "state", Moody())
    yield made
    made.controller.close()


def test_an_engine_that_is_down_is_told_of_once_and_in_the_log_at_once(driven: Driven) -> None:
    """Also in the last look of a controller, which has nothing left to do."""
    driven.engine.down = "no wire"
    for _ in range(3):
        driven.controller.step()
    assert driven.said == ["moody does not answer, so nothing is decided and what runs goes on: no wire"]
    assert driven.logged() == ["controller", "engine"]
    driven.engine.down = None
    driven.controller.step()
    assert driven.said[1:] == ["moody answers again"]


def test_an_engine_for_which_asking_is_dear_is_asked_now_and_then(
    driven: Driven, clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is decided meanwhile is started all the same; after a failure it is asked at the next look."""
    monkeypatch.setattr(driven.engine, "look_seconds", 3.0, raising=False)
    for _ in range(4):
        driven.controller.step()
    assert driven.engine.asked == 1
    submit(driven.store, form("a"))
    driven.controller.step()
    assert (driven.engine.asked, len(driven.engine.started)) == (1, 1)
    driven.engine.down = "no wire"
    submit(driven.store, form("b"))
    driven.controller.step()
    assert len(driven.said) == 1, "it was to start b"
    driven.controller.step()
    assert driven.engine.asked == 2
    driven.engine.down = None
    driven.controller.step()
    assert (driven.said[1], len(driven.engine.started)) == ("moody answers again", 2)
    clock.time += 3.0  # type: ignore[attr-defined]
    driven.controller.step()
    assert driven.engine.asked == 4


def test_a_log_that_cannot_be_written_stops_nothing(driven: Driven) -> None:
    (driven.store.folder / EVENTS).mkdir()
    submit(driven.store, form("a"))
    for _ in range(3):
        driven.controller.step()
    assert driven.engine.started != []
    assert driven.said == [f"{driven.store.folder / EVENTS}: Is a directory"]


def test_books_that_cannot_be_written_while_the_engine_is_down(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things at once are told one after the other, and the controller lives."""

    def full() -> object:
        raise UnusableFile("the disk is full")

    driven.engine.down = "no wire"
    monkeypatch.setattr(driven.store, "writing", full)
    driven.controller.step()
    monkeypatch.undo()
    assert [line.split(":")[-1].strip() for line in driven.said] == ["no wire", "the disk is full"]
    driven.engine.down = None
    driven.controller.step()
    assert driven.said[-1] == "moody answers again"
