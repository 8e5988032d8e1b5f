"""Interrupted simulations continue from their checkpoint, with the log of an uninterrupted one to the last digit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import metric_cases
import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refused import refused
from simulated import Shortest, fig_2, table_1
from test_environment_properties import environments

from hetopt import Instance, InvalidOption, Log, Overheads, Plan, instances, simulate
from hetopt.errors import CheckpointWarning, HetoptError, OtherCheckpoint, UnusableFile
from hetopt.registry import make_system, policy_names, system_names
from hetopt.simulation.checkpoints import CheckpointFile, Checkpoints, digest
from hetopt.simulation.environment import Environment
from hetopt.simulation.simulator import Simulator

TABLES = ("jobs", "spans", "rounds", "events", "throughput", "estimated")
MOST_ROUNDS = 40


def assert_same(one: Log, other: Log) -> None:
    """All tables but wall-clock times are equal to the last digit."""
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    assert one.end == other.end
    assert len(one.decision_seconds) == len(other.decision_seconds)


@contextmanager
def stopped_after(steps: float) -> Iterator[list[None]]:
    """Ctrl-C after this number of steps, each of which may be written; the list has an item per step."""
    usual, done = Simulator.step, list[None]()

    def step(self: Simulator, until: float, limit: float) -> bool:
        if len(done) >= steps:
            raise KeyboardInterrupt
        done.append(None)
        return usual(self, until, limit)

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("hetopt.simulation.checkpoints.SPACING", 0)
        patch.setattr(Simulator, "step", step)
        yield done


@st.composite
def cases(draw: st.DrawFn) -> tuple[Instance, Environment]:
    """A small instance, with tenants or with datasets, and an environment with any of its parts."""
    instance, environment = draw(environments())
    if draw(st.booleans()):
        instance = draw(metric_cases.instances(tenants=True, mixed=False))
        environment = replace(environment, changes=(), datasets=None)
    return instance, environment


@given(cases(), st.sampled_from(sorted({*system_names(), *policy_names()})), st.data())
@settings(max_examples=examples(60, 600), deadline=None)
def test_an_interrupted_simulation_has_the_same_log(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Instance, Environment], name: str, data: st.DataObject
) -> None:
    instance, environment = case
    system: Any = make_system(name)
    arguments: dict[str, Any] = {"environment": environment, "max_rounds": MOST_ROUNDS, "patience": 50}
    arguments["job_window"] = data.draw(st.sampled_from([None, (0, 1), (len(instance.jobs) // 2, len(instance.jobs))]))
    try:
        with stopped_after(float("inf")) as steps:
            whole = simulate(system, instance, **arguments)
    except HetoptError:  # the system does not run this instance or environment
        assume(False)
    assume(len(steps) > 1)
    path = tmp_path_factory.mktemp("checkpoint") / "state"
    arguments["checkpoint"] = Checkpoints(path, every=0.0)
    before = data.draw(st.integers(1, len(steps) - 1), "steps before the interruption")
    again = data.draw(st.integers(1, len(steps)), "steps before a second one")
    for most in (before, again):
        with stopped_after(most):
            simulate(system, instance, **arguments)
    with stopped_after(float("inf")) as rest:
        log = simulate(system, instance, **arguments)
    assert len(rest) == max(len(steps) - before - again, 1), "it continues where it was"
    assert_same(whole, log)


CONTINUE = """
import pickle, sys
import hetopt
from hetopt.registry import make_system

folder = sys.argv[1]
names, instance, arguments = pickle.load(open(f"{folder}/cases", "rb"))
logs = {n: hetopt.simulate(make_system(n), instance, checkpoint=f"{folder}/{n}", **arguments) for n in names}
pickle.dump(logs, open(f"{folder}/logs", "wb"))
"""


def test_another_process_continues(tmp_path: Path) -> None:
    """Every system, in a process with another seed of Python's hashes; the state is loaded, so no job starts twice."""
    lab = instances.load("lab36/jobs")
    instance = lab.replace(jobs=lab.jobs[:10])
    arguments = {"max_rounds": 12, "environment": Environment(Overheads(restart_seconds=30.0))}
    whole: dict[str, Log] = {}
    for name in sorted({*system_names(), *policy_names()}):
        with suppress(HetoptError):
            whole[name] = simulate(make_system(name), instance, **arguments)  # type: ignore[arg-type]
            checkpoint = Checkpoints(tmp_path / name, every=0.0)
            with stopped_after(8):
                simulate(make_system(name), instance, checkpoint=checkpoint, **arguments)  # type: ignore[arg-type]
    assert len(whole) > 30
    (tmp_path / "cases").write_bytes(pickle.dumps((list(whole), instance, arguments)))
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONTINUE, str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    for name, log in pickle.loads((tmp_path / "logs").read_bytes()).items():
        assert_same(whole[name], log)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"instance": table_1(20.0)}, "instance"),
        ({"policy": Shortest(by_left=False)}, "system"),
        ({"round_seconds": 60.0}, "system"),
        ({"overheads": Overheads(restart_seconds=1.0)}, "environment"),
        ({"until": 1e6}, "limits"),
        ({"checkpoint": {"code": "2"}}, "settings"),
    ],
)
def test_the_checkpoint_of_another_simulation_is_refused(tmp_path: Path, changed: dict[str, Any], what: str) -> None:
    path = tmp_path / "state"
    arguments: dict[str, Any] = {"policy": Shortest(), "instance": table_1()}
    with stopped_after(1):
        simulate(**arguments, checkpoint=Checkpoints(path, 0.0, {"code": "1"}))
    before = path.read_bytes()
    own = Checkpoints(path, 0.0, changed.pop("checkpoint", {"code": "1"}))
    with refused(OtherCheckpoint, None, f"with other {what}; remove it", file="state"):
        simulate(**{**arguments, **changed}, checkpoint=own)
    assert path.read_bytes() == before


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stopped_after(1):
        simulate(Shortest(), table_1(), checkpoint=Checkpoints(tmp_path / "state", 0.0))
    monkeypatch.setattr("hetopt.simulation.checkpoints.versions", lambda: {"hetopt": "later"})
    with pytest.raises(OtherCheckpoint, match="with other hetopt, other numpy"):
        simulate(Shortest(), table_1(), checkpoint=tmp_path / "state")


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:0], lambda b: b[:-9] + b[-8:] + b"x"])
def test_a_damaged_checkpoint_begins_from_scratch(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "state"
    whole = simulate(Shortest(), fig_2())
    with stopped_after(2):
        simulate(Shortest(), fig_2(), checkpoint=Checkpoints(path, 0.0))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(CheckpointWarning, match="is damaged"):
        log = simulate(Shortest(), fig_2(), checkpoint=Checkpoints(path, 0.0))
    assert_same(whole, log)


@dataclass(frozen=True)
class Unpicklable(Shortest):
    """Its state is a generator."""

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        return super().__call__(instance)[0], (number for number in range(9))


def test_a_state_that_cannot_be_pickled_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with pytest.warns(CheckpointWarning) as caught:
        log = simulate(Unpicklable(), fig_2(), checkpoint=Checkpoints(path, 0.0))
    assert [str(one.message) for one in caught] == [
        "the state of the simulation cannot be pickled (cannot pickle 'generator' object); it continues "
        "without new checkpoints"
    ]
    assert_same(simulate(Unpicklable(), fig_2()), log)
    assert not path.exists()


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine\n")
    with refused(OtherCheckpoint, None, "is not a checkpoint"):
        simulate(Shortest(), fig_2(), checkpoint=Checkpoints(tmp_path / "notes", 0.0))
    assert (tmp_path / "notes").read_text() == "mine\n"


def test_bad_paths_and_intervals(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        simulate(Shortest(), fig_2(), checkpoint=tmp_path / "absent" / "state")
    with refused(InvalidOption, "Checkpoints.every"):
        Checkpoints(tmp_path, every=-1.0)
    with refused(InvalidOption, None, "checkpoint"):
        simulate(Shortest(), fig_2(), checkpoint=3)  # type: ignore[arg-type]
    with refused(InvalidOption, "Checkpoints.path"):
        Checkpoints(3)  # type: ignore[arg-type]


def test_a_state_that_cannot_be_written_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = iter([True])

    def save_if_possible(content: bytes, path: Path, overwrite: bool) -> None:
        if next(full, False):
            raise UnusableFile("cannot be written: No space left on device").in_file(str(path))
        path.write_bytes(content)

    monkeypatch.setattr("hetopt.simulation.checkpoints.save", save_if_possible)
    monkeypatch.setattr("hetopt.simulation.checkpoints.SPACING", 0)
    with pytest.warns(CheckpointWarning) as caught:
        simulate(Shortest(), fig_2(), checkpoint=Checkpoints(tmp_path / "state", 0.0))
    assert [str(one.message).partition("device; ")[2] for one in caught] == [
        "the simulation continues, and tries again later"
    ]
    assert (tmp_path / "state").exists()


def test_states_are_written_at_the_interval_and_take_a_small_part_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    written: list[float] = []

    def slow(*_: Any, **__: Any) -> None:
        written.append(now[0])
        now[0] += 6.0

    monkeypatch.setattr("hetopt.simulation.checkpoints.save", slow)
    file = CheckpointFile(Checkpoints(tmp_path / "state", every=60.0), {}, clock=lambda: now[0])
    for _ in range(600):
        now[0] += 1.0
        file.write_if_due("state")
    assert written == [60.0, 186.0, 312.0, 438.0, 564.0], "20 times the 6 seconds that each takes, after its end"


def test_digests_are_of_values() -> None:
    """Equal values have equal digests whatever their caches, identities and order; different ones differ."""
    lab, same = (instances.load("lab36/jobs") for _ in range(2))
    lab.entities("jobs").speed, lab.job_array("work")
    assert digest(lab) == digest(same)
    assert digest(lab) == digest(pickle.loads(pickle.dumps(lab)))
    job = lab.jobs[0]
    others = [
        lab.replace(jobs=lab.jobs[1:]),
        lab.replace(jobs=(replace(job, work=float(np.nextafter(job.work, 0))), *lab.jobs[1:])),
        lab.replace(time=1.0),
    ]
    assert len({digest(one) for one in (lab, *others)}) == 4
    assert digest({"a", "b", "c"}) == digest({"c", "b", "a"})
    assert digest([1, 2]) != digest([1, [2]])
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(np.array([0.0])) != digest(np.array([-0.0]))


def test_what_an_interrupted_write_leaves_is_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "state")
    for name in ("state", ".state.123.part", "other"):
        (tmp_path / name).write_text("")
    checkpoints.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
