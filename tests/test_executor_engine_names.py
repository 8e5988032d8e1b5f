"""Engines by name: entry points, an engine of the user, and error messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import node
from executor_lab import QUICK, Run, job_file, some_lab  # noqa: F401 - the last a fixture

from hetopt.executor.engines.engine import CheckedEngine, EngineDown, LeaseRecord, Phase, make_engine
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import ENGINES

OWN = """
from pathlib import Path
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.engines.slots import read_slots

class Own(LocalEngine):
    name = "own"

    def __init__(self, cluster, slots, book="book"):
        super().__init__(read_slots(Path(slots)), cluster)
        self.book = Path(book)

    def start(self, grant):
        with self.book.open("a") as file:
            file.write(f"{grant.tag}\\n")
        super().start(grant)

class Far(Own):
    exact_slots = False

def half(cluster):
    class Half:
        name, exact_slots = "half", True
        nodes = start = status = stop = kill = fenced_after = close = lambda self: None
    return Half()

def odd(cluster):
    engine = half(cluster)
    engine.look_seconds = "3"
    return engine

def broken(cluster):
    return 1 / 0
"""


def test_the_engines_of_hetopt_are_entry_points() -> None:
    assert list(ENGINES.points) == ["local", "slurm"]


def test_an_engine_from_a_module_in_the_folder_drives_a_cluster(lab: Path, run: Run) -> None:
    (lab / "own.py").write_text(OWN)
    run("submit", job_file(lab))
    code, _, err = run("run", "--engine", "own:Own", "--engine-set", "book=begun", *QUICK)
    assert code == 0, err
    with StateDatabase(lab / "state") as database:
        cluster = database.cluster
    assert (lab / "begun").read_text().startswith(f"hetopt-{cluster}-1-0-1\n")
    assert json.loads(run("status", "--json", "--all")[1])["jobs"][0]["state"] == "done"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "slrum"), "there is no engine 'slrum'; did you mean 'slurm'?"),
        (("--engine", "own:Absent"), "engine 'own:Absent' cannot be loaded"),
        (("--engine", "own:half"), "'own:half' makes Half, which is not an engine: it has no look_seconds"),
        (("--engine", "own:odd"), "engine 'own:odd': look_seconds is '3'; it must be a number of seconds"),
        (("--engine", "own:broken"), "engine 'own:broken' cannot be made with {}: ZeroDivisionError: division by zero"),
        (("--engine", "own:Own"), "engine 'own:Own' needs the setting 'slots'"),
        (("--engine", "own:Own", "--partition", "gpu"), "--partition is not for --engine own:Own"),
        (("--engine-set", "slot=a"), "engine 'local' has no setting 'slot'; did you mean 'slots'?"),
        (("--engine", "own:half", "--engine-set", "a=1"), "engine 'own:half' has no setting 'a'; it has none"),
        (
            ("--slots", "a", "--engine-set", "slots=b"),
            "--slots and --engine-set slots=… are the same setting; remove one",
        ),
        (("--engine", "slurm", "--slots", "a"), "--slots is not for --engine slurm"),
    ],
)
def test_errors_of_an_engine_are_reported(lab: Path, run: Run, words: tuple[str, ...], message: str) -> None:
    (lab / "own.py").write_text(OWN)
    code, out, err = run("run", *words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err


def test_settings_are_arguments_of_the_factory(lab: Path) -> None:
    (lab / "slots.yaml").write_text("nodes: {desk: {slots: {slow: 2}}}\n")
    engine = make_engine("local", "x", {"slots": str(lab / "slots.yaml")}, {"partition": None})
    assert isinstance(engine, CheckedEngine)
    assert isinstance(engine.engine, LocalEngine)
    assert [node.name for node in engine.nodes()] == ["desk"]


def test_on_a_file_server_the_lease_timeout_has_a_minimum(lab: Path, run: Run) -> None:
    """Renewals are seen late there."""
    (lab / "own.py").write_text(OWN)
    words = [word for word in QUICK if word not in ("--ttl", "600s")]
    code, _, err = run("run", "--engine", "own:Far", "--ttl", "9s", *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert "--ttl is 9 s; it must be 10 s at least" in err
    code, _, err = run("run", "--engine", "own:Far", "--ttl", "10s", *words)
    assert code == 0, err


class Raw:
    """An engine of a user: each method raises or returns what the test gives."""

    name, exact_slots, look_seconds = "raw", True, 0.0

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def use(self, *_: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    nodes = start = status = stop = kill = fenced_after = close = use


def test_errors_of_the_system_in_an_engine_mean_that_it_is_down(tmp_path: Path) -> None:
    """In ``start`` they are about the lease alone; ``close`` ignores them."""
    engine, tags = CheckedEngine(Raw(OSError(5, "no wire")), "raw"), ["hetopt-x-1-0-1"]
    with pytest.raises(OSError, match="no wire") as error:
        engine.start(LeaseRecord(tags[0], tmp_path, node("n", {"V100": 1}).seats))
    assert not isinstance(error.value, EngineDown)
    for method, words in (("nodes", ()), ("status", (tags,)), ("stop", (tags,)), ("kill", (tags,))):
        with pytest.raises(EngineDown, match=rf"{method}\(\) raises OSError: .*no wire"):
            getattr(engine, method)(*words)
    with pytest.raises(EngineDown, match="no wire"):
        engine.fenced_after(tags[0])
    engine.close()


@pytest.mark.parametrize("answer", [None, ["a"], {}, {"a": "gone"}, {"a": None}, {"b": Phase.ENDED}, {"a": ["ended"]}])
def test_invalid_phases_mean_that_the_engine_is_down(answer: Any) -> None:
    with pytest.raises(EngineDown, match=r"status\(\) returns"):
        CheckedEngine(Raw(answer), "raw").status(["a"])


def test_phases_may_be_words() -> None:
    found = CheckedEngine(Raw({"a": "ended", "b": Phase.RUNNING}), "raw").status(["a"])
    assert [found["a"] is Phase.ENDED, found["b"] is Phase.RUNNING] == [True, True]


def test_an_engine_has_its_methods_alone() -> None:
    engine = CheckedEngine(Raw(()), "raw")
    assert engine.nodes() == ()
    assert not hasattr(engine, "node")
    with pytest.raises(AttributeError, match="an engine has no restart"):
        engine.restart()
