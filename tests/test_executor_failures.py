"""Temporary failures, and failures of one job, engine or policy: the job continues elsewhere, others continue."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from executor_cluster import granted, lab_of_jobs, node, opened, rows, spec
from executor_lab import QUICK, Run, job_file, jobs_of, some_lab  # noqa: F401 - the last a fixture
from waiting import PATIENCE, until

from hetopt.executor import lease_directory as files
from hetopt.executor.cluster_state import ClusterObserver
from hetopt.executor.engines.engine import Seat
from hetopt.executor.job_side import list_files
from hetopt.executor.leases import LeaseResult, seal
from hetopt.executor.merging import Merges
from hetopt.executor.node_monitor import NodeMonitor
from hetopt.executor.queue import cancel, drain
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import EVENTS, Cache, StateDatabase

LARGE = """
import sys
from hetopt.executor import lease
with lease() as job:
    if set(job.gpu_types) & set(sys.argv[1].split(",")):
        raise MemoryError("too large")
    job.tick(1)
    job.done(True)
"""


class Hosts:
    """An engine that only reports hosts."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def nodes(self) -> tuple[object, ...]:
        """The hosts now."""
        return tuple(node(name, {"slow": 1}) for name in self.names)


@pytest.mark.parametrize("policy", ["fifo", "fft"])
@pytest.mark.parametrize("profile", [True, False])
def test_a_job_that_is_too_large_for_a_gpu_type_moves_to_another(
    lab: Path, run: Run, policy: str, profile: bool
) -> None:
    """That is no failure of the job; with no type left it fails at once."""
    (lab / "slots.yaml").write_text("nodes: {a: {slots: {slow: 1, fast: 1, old: 1, new: 1, odd: 1}}}\n")
    where = {"fits": "new,fast,slow,old", "large": "slow,fast,old,new,odd"}
    for name, types in where.items():
        run("submit", job_file(lab, name, command=[sys.executable, "-c", LARGE, types]))
    words = [
        "--policy",
        policy,
        *(["--round", "1s"] if policy == "fft" else []),
        *([] if profile else ["--no-profile"]),
    ]
    code, _, err = run("run", *words, *QUICK)
    assert code == 0, err
    jobs = jobs_of(run)
    assert (jobs["fits"]["state"], jobs["fits"]["failures"]) == ("done", 0)
    assert (jobs["large"]["state"], jobs["large"]["failures"]) == ("failed", 0)
    assert jobs["large"]["reason"] == (
        "it ran out of memory on every GPU type that it may use; with less memory, hetopt retry large"
    )


def test_a_job_that_backs_off_blocks_no_gpus(tmp_path: Path) -> None:
    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a"), spec("b")])
        monitor = NodeMonitor(database, Hosts("n"), Cache(database))  # type: ignore[arg-type]
        observer = ClusterObserver(database, monitor.cache, monitor, profile=False)
        monitor.observe([])
        for _ in range(3):
            granted(database, 1, [Seat("n", "slow", 0)])
            seal(database, opened(database)[0], LeaseResult("lost"))
        assert rows(database)[0]["not_before"] > database.now()
        assert [row["name"] for row in observer.observe([]).jobs] == ["b"]
        with database.writing() as connection:
            connection.update("jobs", {"not_before": database.now()})
        assert [row["name"] for row in observer.observe([]).jobs] == ["a", "b"]


MERGING = {"job": 1, "step": 9, "done": False}


def test_a_merge_that_may_succeed_later_has_a_reason_and_ends_with_the_job(tmp_path: Path) -> None:
    """Here because a file is in place of the merged checkpoint's folder."""
    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a")])
        parts = json.dumps([[str(tmp_path / name), 1.0] for name in ("x", "y")])
        with database.writing() as connection:
            folder = tmp_path / "merged" / "step-9"
            connection.insert("merges", **MERGING, parts=parts, folder=str(folder))
        (tmp_path / "x").mkdir()
        (tmp_path / "y").mkdir()
        folder.parent.mkdir()
        folder.write_text("a file")
        merges = Merges(database, tmp_path / "leases", Cache(database))
        until(lambda: merges.step() or rows(database)[0]["reason"] is not None, "it is tried")
        row = rows(database)[0]
        assert row["state"] == "queued"
        assert row["reason"].startswith("its copies cannot be merged yet, hetopt tries again: ")
        assert row["not_before"] > database.now()
        assert cancel(database, "a") == "queued"
        merges.step()
        with database.reading() as connection:
            assert connection.column("SELECT done FROM merges") == [True]
        assert (rows(database)[0]["state"], rows(database)[0]["reason"]) == ("cancelled", "cancelled")
        merges.close()


def test_a_merge_whose_folder_cannot_be_used_does_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be made, or its file server does not answer."""
    away = tmp_path / "away" / "step-9"

    def known(folder: Path, real: Callable[[Path], bool] = files.is_complete) -> bool:
        if folder == away:
            raise OSError(errno.EIO, "server is away", str(folder))
        return real(folder)

    monkeypatch.setattr(files, "is_complete", known)
    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a"), spec("b"), spec("c")])
        (tmp_path / "file").write_text("")
        (tmp_path / "there" / "step-9").mkdir(parents=True)
        list_files(tmp_path / "there" / "step-9")
        folders = [tmp_path / "file" / "step-9", away, tmp_path / "there" / "step-9"]
        with database.writing() as connection:
            for job, folder in enumerate(folders, 1):
                connection.insert("merges", **MERGING | {"job": job}, parts="[]", folder=str(folder))
        merges = Merges(database, tmp_path / "leases", Cache(database))
        for _ in range(3):
            merges.step()
        reason = "its copies cannot be merged yet, hetopt tries again: "
        reasons = [row["reason"] for row in rows(database)]
        assert reasons == [f"{reason}{tmp_path / 'file'}: File exists", f"{reason}{away}: server is away", None]
        assert [row["committed"] for row in rows(database)] == [0, 0, 9]
        monkeypatch.undo()
        away.mkdir(parents=True)
        list_files(away)
        monkeypatch.setattr("hetopt.executor.merging.files.now", lambda now=files.now: now() + 60.0)
        merges.step()
        assert [row["committed"] for row in rows(database)] == [0, 9, 9]
        merges.close()


def test_outdated_merged_checkpoints_are_removed(tmp_path: Path) -> None:
    """Not the one from which a job continues, nor one that is merged again at the same step."""
    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a"), spec("b")])
        steps = {name: tmp_path / name for name in ("old", "kept", "again", "lone", "stuck")}
        for name, folder in steps.items():
            folder.write_text("no folder") if name == "stuck" else folder.mkdir()

        def merge(job: int, name: str, done: bool = True) -> None:
            with database.writing() as connection:
                connection.insert("merges", job=job, step=9, parts="[]", folder=str(steps[name]), done=done)

        def left() -> list[str]:
            with database.reading() as connection:
                return [Path(folder).name for folder in connection.column("SELECT folder FROM merges ORDER BY id")]

        with database.writing() as connection:
            connection.update("jobs", {"checkpoint": str(steps["kept"])}, "id = 1")
        for name in ("old", "kept", "again", "stuck"):
            merge(1, name)
        merge(1, "again", done=False)
        merge(2, "lone")  # of a job without a checkpoint
        for _ in range(2):
            merges = Merges(database, tmp_path / "leases", Cache(database))
            for _ in range(2):
                merges.clear_away()
            assert left() == ["kept", "again", "stuck", "again"]
            assert sorted(name for name, folder in steps.items() if folder.exists()) == ["again", "kept", "stuck"]
        steps["stuck"].unlink()
        steps["stuck"].mkdir()
        with database.writing() as connection:
            connection.update("merges", {"done": True})
        Merges(database, tmp_path / "leases", Cache(database)).clear_away()
        assert (left(), steps["again"].exists(), steps["stuck"].exists()) == (["kept"], False, False)


ENGINE = """
import os
from pathlib import Path
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.engines.slots import read_slots

class Odd(LocalEngine):
    def __init__(self, cluster, slots, method, error):
        super().__init__(read_slots(Path(slots)), cluster)
        self.method, self.error, self.asked = method, error, 0

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if not callable(found) or name.startswith("_") or name != self.method:
            return found
        def odd(*words):
            self.asked += 1
            if self.asked > 2:
                return found(*words)
            if self.error == "none":
                return None
            raise {"runtime": RuntimeError, "exit": SystemExit}[self.error]("what\\nnow")
        return odd
"""


@pytest.mark.parametrize(
    ("method", "error"),
    [("nodes", "runtime"), ("nodes", "none"), ("status", "none"), ("status", "exit"), ("start", "runtime")],
)
def test_an_engine_that_raises_is_reported_and_called_again(lab: Path, run: Run, method: str, error: str) -> None:
    (lab / "oddities.py").write_text(ENGINE)
    run("submit", job_file(lab))
    words = ["--engine-set", f"method={method}", "--engine-set", f"error={error}", "--policy", "fifo", "--no-profile"]
    code, _, err = run("run", "--engine", "oddities:Odd", *words, *QUICK)
    assert code == 0, err
    assert jobs_of(run)["train"]["state"] == "done"
    lines = [line for line in err.splitlines() if f"{method}() " in line]
    assert len(lines) == 1, err
    assert ("what now" in lines[0]) == (error != "none")


EXITS = """
import os
from hetopt.models.queues import FIFO
class Exits(FIFO):
    def __call__(self, *words):
        if not os.path.exists("exited"):
            open("exited", "w").close()
            raise SystemExit(7)
        return super().__call__(*words)
"""


def test_a_policy_that_exits_does_not_end_the_controller(lab: Path, run: Run) -> None:
    (lab / "exits.py").write_text(EXITS)
    run("submit", job_file(lab))
    code, _, err = run("run", "--policy", "exits:Exits", "--round", "1s", "--no-profile", *QUICK)
    assert code == 0, err
    assert "cannot decide, so running jobs continue: SystemExit: 7" in err
    assert jobs_of(run)["train"]["state"] == "done"


def test_checkpoints_in_a_previous_leases_folder_are_found(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "one"))
    assert run("run", "--no-profile", "--leases", "elsewhere", *QUICK)[0] == 0
    before = run("logs", "one", "--all"), run("losses", "one")
    assert before[0][1] == "one has printed nothing\n", "not that its log was deleted"
    run("submit", job_file(lab, "two"))
    assert run("run", "--no-profile", *QUICK)[0] == 0
    assert (run("logs", "one", "--all"), run("losses", "one")) == before
    left = {path.parts[-4] for path in lab.rglob("checkpoints/step-*")}
    assert left == {"elsewhere", "leases"}, "the last checkpoints of both jobs, and no other"


def test_a_drained_node_that_was_removed_does_not_count(tmp_path: Path) -> None:
    """If it comes back, it is still drained."""
    with StateDatabase(tmp_path / "state") as database:
        engine = Hosts("a", "b")
        monitor = NodeMonitor(database, engine, Cache(database))  # type: ignore[arg-type]
        monitor.observe([])
        drain(database, "b")
        engine.names = ("a",)
        monitor.observe([])
        gone = next(one for one in snapshot(database).nodes if one["name"] == "b")
        assert (gone["state"], gone["gpus"], gone["note"]) == ("down", {}, "no engine knows it now")
        engine.names = ("a", "b")
        monitor.observe([])
        assert [one["state"] for one in snapshot(database).nodes] == ["up", "drained"]
        assert [one.name for one in monitor.usable([])] == ["a"]


def test_an_interrupt_ends_a_controller_with_rare_passes(lab: Path) -> None:
    """A day passes between two passes."""
    words = [sys.executable, "-m", "hetopt", "run", "--slots", "slots.yaml", "--poll", "24h"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    until((lab / "state" / EVENTS).exists, "the first pass is over")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    expected = f"hetopt: fft schedules the jobs of {lab / 'state'} on local; Ctrl-C ends it\nhetopt: stopped\n"
    assert (process.returncode, err) == (130, expected)
