"""Runs of experiments: interrupted ones continue, and those of other processes report their progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from left_processes import children, command
from waiting import PATIENCE, until

from hetopt import Instance
from hetopt.errors import OtherCheckpoint, PolicyFailed, UnusableFile
from hetopt.experiments.experiment import CHECKPOINT, PROGRESS, Experiment, RunSpec, SystemVariant
from hetopt.experiments.run_progress import ProgressFile, RunsProgress
from hetopt.experiments.run_store import TABLES, RunKey, RunRecord, RunStore, read_table
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.presentation.simulation_progress import RunsWork
from hetopt.simulation.checkpoints import Checkpoints
from hetopt.simulation.progress import SimulationProgress

WAITS = '''
"""Shortest remaining time first, which waits at its 4th decision until there is a file "go"."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from hetopt.registry import make_policy

AT_ONCE = make_policy("srtf")


@dataclass(frozen=True)
class Waits:
    traits = AT_ONCE.traits

    def __call__(self, instance, state=None):
        number, own = state or (0, None)
        with Path(f"decisions-{os.getpid()}").open("a") as file:
            file.write(f"{number} ")
        if number == 3:
            Path(f"waits-{os.getpid()}").touch()
        while number == 3 and not Path("go").exists():
            time.sleep(0.01)
        plan, own = AT_ONCE(instance, own)
        return plan, (number + 1, own)
'''

WORDS = "simulate hadar/m5 --policy waits:Waits --seeds 2 --out runs --environment work_error=0.2 --checkpoint-every 0"


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    (folder / "waits.py").write_text(WAITS)
    return subprocess.Popen(
        [sys.executable, "-m", "hetopt", *WORDS.split(), *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return out


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """All stored tables and summaries without wall-clock times."""
    found = {}
    for run in RunStore(folder / "runs").runs():
        names = [name for name in TABLES if name != "decision_seconds"]
        found |= {f"{run.key} {name}": read_table(run.folder, name) for name in names}
        numbers = {name: value for name, value in run.record.summary.items() if not name.startswith("decision_")}
        found[f"{run.key} summary"] = pd.DataFrame(numbers, index=[0])
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "go").touch()
    finish(start(folder))
    return tables(folder)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_command_continues(tmp_path: Path, uninterrupted: dict[str, pd.DataFrame], jobs: str) -> None:
    """After kill -9 the same command has the same results to the last digit, without the decisions before."""
    process = start(tmp_path, "--jobs", jobs)
    until(lambda: len(list(tmp_path.glob("waits-*"))) == int(jobs), "its runs wait")
    below = [pid for pid in children(process.pid) if "loky" in command(pid)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not any(command(pid) for pid in below), "its workers have ended")
    assert len(list(tmp_path.rglob(CHECKPOINT))) == int(jobs)
    for file in tmp_path.glob("decisions-*"):
        file.unlink()
    (tmp_path / "go").touch()
    assert "2 runs: runs" in finish(start(tmp_path))
    (decisions,) = tmp_path.glob("decisions-*")
    assert decisions.read_text().split().count("0") == 2 - int(jobs), "runs with a checkpoint do not begin again"
    left = {path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    assert left == {"run.json", *(f"{name}.csv.gz" for name in TABLES)}
    after = tables(tmp_path)
    assert list(uninterrupted) == list(after)
    for name, table in uninterrupted.items():
        pd.testing.assert_frame_equal(table, after[name], check_exact=True)


def test_runs_of_other_processes_report_their_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "waits.py").write_text(WAITS)
    seen: dict[RunKey, list[SimulationProgress | RunRecord | None]] = {}

    def watch(key: RunKey, now: SimulationProgress | RunRecord | None) -> None:
        seen.setdefault(key, []).append(now)
        if len(seen) == 2:
            Path("go").touch()

    experiment = Experiment((TraceWorkload("hadar/m5"),), (SystemVariant("waits:Waits"),), (0, 1))
    experiment.run(RunStore(tmp_path / "runs"), jobs=2, watch=watch)
    for facts in seen.values():
        assert isinstance(facts[0], SimulationProgress)
        assert facts[0].finished == 0
        assert isinstance(facts[-1], RunRecord)
    assert not list(tmp_path.rglob(f"*{PROGRESS}*"))


SMALL = TraceWorkload("gavel-like", "hadar/cluster60", count=12)
ONE = Experiment((SMALL,), (SystemVariant("srtf"),))


def test_the_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    """As a stored run with other settings is."""
    (spec,) = ONE.runs()
    folder = tmp_path / spec.key.folder()
    folder.mkdir(parents=True)
    spec.run(checkpoints=Checkpoints(folder / CHECKPOINT, 0.0, spec.as_settings()))
    with pytest.raises(OtherCheckpoint, match=r"other limits, other settings; remove it"):
        replace(ONE, until=1e9).run(RunStore(tmp_path))
    assert (folder / CHECKPOINT).exists()
    (record,) = ONE.run(RunStore(tmp_path))
    assert record.summary["finished"] == 12
    assert not (folder / CHECKPOINT).exists()


def test_a_checkpoint_that_cannot_be_read_stays(tmp_path: Path) -> None:
    (tmp_path / next(ONE.runs()).key.folder() / CHECKPOINT).mkdir(parents=True)
    with pytest.raises(UnusableFile, match="cannot be"):
        ONE.run(RunStore(tmp_path))
    assert list(tmp_path.rglob(CHECKPOINT))


def test_a_run_whose_policy_fails_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: RunSpec, *_: object) -> object:
        (tmp_path / self.key.folder() / CHECKPOINT).touch()
        raise PolicyFailed("it fails")

    monkeypatch.setattr(RunSpec, "run", run)
    with pytest.raises(PolicyFailed, match="it fails"):
        ONE.run(RunStore(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# Predictions

A, B = (RunKey("trace", "a", seed) for seed in (0, 1))
C = RunKey("trace", "c", 0)


def record(key: RunKey, seconds: float, refused: str | None = None) -> RunRecord:
    return RunRecord(key, {}, seconds=seconds, refused=refused)


def half(seconds: float) -> SimulationProgress:
    return SimulationProgress(3600.0, 2, 4, 10, 0.5, seconds)


def test_the_end_of_all_runs() -> None:
    """Predicted from runs of the same system, else from all; unknown until one is known."""
    now = [0.0]
    runs = RunsProgress([A, B, C], processes=2, clock=lambda: now[0])
    assert runs.remaining is None
    runs.update(A, replace(half(5.0), part=0.0))
    assert runs.remaining is None, "no job has finished"
    runs.update(A, half(30.0))
    assert runs.remaining == (30 + 60 + 60) / 2
    runs.update(C, half(400.0))
    assert runs.remaining == 400.0, "the longest run takes longer than half of all"
    runs.update(A, record(A, 70.0))
    runs.update(A, half(99.0))  # a report that comes late
    assert runs.remaining == 400.0
    assert set(runs.running) == {C}
    runs.update(C, record(C, 500.0))
    assert runs.remaining == 70.0, "B is like A"
    assert runs.finished == 2
    runs.update(B, None)
    assert runs.remaining == 0.0


def test_earlier_runs_predict_the_time_before_anything_runs() -> None:
    earlier = {RunKey("trace", "a", 7): 40.0, RunKey("other", "a", 7): 1e9, RunKey("other", "c", 0): 100.0}
    assert RunsProgress([A, B, C], 1, earlier).remaining == 180.0
    assert RunsProgress([], 1, earlier).remaining == 0.0
    runs = RunsProgress([RunKey("trace", "d", 0)], 1, {RunKey("x", "y", 0): 3.0, RunKey("x", "z", 0): 5.0})
    assert runs.remaining == 4.0


def test_a_refused_run_predicts_nothing() -> None:
    runs = RunsProgress([A, B])
    runs.update(A, record(A, 0.1, refused="it cannot"))
    assert runs.remaining is None


def test_lines_name_what_is_done_and_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    work = RunsWork("simulate", RunsProgress([A, B, C], 2, clock=lambda: now[0]))
    assert work.line() == "simulate: 0 of 3 runs, 0 s, end unknown"
    now[0] = 300.0
    work.update(A, record(A, 290.0))
    work.update(C, half(300.0))
    assert work.line() == (
        "simulate: 1 of 3 runs, 5 min, about 5 min left; newest: a on trace, seed 0; c on trace, seed 0: "
        "1 h simulated, 2 of 4 jobs finished, 0.033 rounds/s, done in about 5 min"
    )
    assert "newest: a" not in work.line(), "it is named once"
    work.update(B, None)
    work.update(C, record(C, 600.0))
    assert work.line() == f"simulate: 3 of 3 runs, 5 min, about 0 s left; newest: {C}"
    assert capsys.readouterr().err == ""


def test_done_runs_count_before_predictions_of_others() -> None:
    """A run that has only begun may be predicted badly; a system without a done run has nothing better."""
    runs = RunsProgress([A, B, C], 1)
    runs.update(A, record(A, 2.0))
    runs.update(C, half(600.0))
    assert runs.remaining == 2.0 + 600.0, "B is of the system of A"
    runs.update(B, half(900.0))
    assert runs.remaining == 900.0 + 600.0


def test_the_time_of_a_run_is_that_of_all_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also making the workload and the metrics, and what an earlier process has spent."""
    now = [0.0]

    def slow(self: TraceWorkload, seed: int) -> Instance:
        now[0] += 7.0
        return make(self, seed)

    make = TraceWorkload.instance
    monkeypatch.setattr(TraceWorkload, "instance", slow)
    monkeypatch.setattr("hetopt.experiments.experiment.perf_counter", lambda: now[0])
    (record,) = ONE.run(RunStore(tmp_path))
    assert record.seconds == 7.0


def test_hours_are_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    work = RunsWork("simulate", RunsProgress([A, B, C], 2, clock=lambda: now[0]))
    work.update(A, half(7200.0))
    assert capsys.readouterr().err == "", "the pace of the first seconds means little"
    now[0] = 20.0
    for _ in range(2):
        work.update(A, half(7200.0))
        assert work.line()
    assert capsys.readouterr().err == (
        "hetopt: simulate: about 5 h at the present pace (3 runs; 2 processes); interrupt at any time, the same "
        "command continues\n"
    )
    RunsWork("reproduce", RunsProgress([A, B], 1, {C: 7200.0}))
    assert "about 4 h as earlier runs in the folder (2 runs; 1 process)" in capsys.readouterr().err
    RunsWork("reproduce", RunsProgress([A, B], 1, {C: 1799.0}))
    assert capsys.readouterr().err == ""


def test_progress_files(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path / "progress")
    assert file.read() is None
    for facts in (half(1 / 3), replace(half(3.0), earlier=half(1.0))):
        file.write(facts)
        assert file.read() == facts
    (tmp_path / "progress").write_text("{")
    assert file.read() is None
    file.remove()
    assert os.listdir(tmp_path) == []
    ProgressFile(tmp_path / "absent" / "progress").write(half(1.0))
