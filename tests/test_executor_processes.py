"""Processes of a lease are always found, and none outlives runner and supervisor."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest
from executor_leases import AWAY, COUNT, STUBBORN, Python, Runners, alive, content_of, ended, lines_of
from waiting import PATIENCE, until

from hetopt.executor import lease_directory as files
from hetopt.executor import processes
from hetopt.executor.engines.local import LocalEngine


def with_tag(tag: str) -> list[int]:
    return [pid for pid, own in processes.tagged() if own == tag]


def test_processes_are_found_by_their_tag() -> None:
    """Under any name, and in any state, as long as they live."""
    odd = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff) Z'); print(flush=True); input()"
    with Python(odd, HETOPT_TAG="hetopt-odd-1.0") as child:
        child.read()
        pid = child.process.pid
        assert with_tag("hetopt-odd-1.0") == [pid]
        assert processes.JobProcesses("hetopt-odd-1.0").pids()[pid] == os.getpid()
        child.process.send_signal(signal.SIGSTOP)
        assert with_tag("hetopt-odd-1.0") == [pid]
        child.process.kill()
        until(lambda: not alive(pid), "it is dead")
        assert with_tag("hetopt-odd-1.0") == [], "a zombie is dead"


def test_processes_that_cannot_be_killed_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller does not accept such an exit report as the end."""
    monkeypatch.setattr(processes, "KILL_SECONDS", 0.2)
    monkeypatch.setattr(processes.JobProcesses, "pids", lambda _: {2**30: 1})
    assert processes.JobProcesses("hetopt-odd-1.0").kill(lambda: False) == [2**30]


def test_no_process_outlives_a_killed_runner(runners: Runners, tmp_path: Path) -> None:
    """Nor processes that left session, parents and tag; the end is reported after that."""
    book = tmp_path / "book"
    folder = runners.lease(AWAY, book, "stays")
    supervisor = runners.start(folder)
    until(lambda: len(lines_of(book)) == 2, "they live")
    os.kill(content_of(folder, files.claim_file(0))["pid"], signal.SIGKILL)
    while not (folder / files.exit_file(0)).exists():
        time.sleep(0.001)
    assert [line[1] for line in lines_of(book) if alive(line[1])] == []
    assert supervisor.wait(PATIENCE) == 1
    assert content_of(folder, files.exit_file(0)) == {"reason": "lost", "codes": [], "problem": None, "left": []}


def test_a_hanging_file_server_does_not_delay_the_kill(runners: Runners, tmp_path: Path) -> None:
    """The supervisor of a killed runner kills what is left of the job before it reads the lease's directory again."""
    book = tmp_path / "book"
    folder = runners.lease(AWAY, book, "stays")
    supervisor = runners.start(folder)
    until(lambda: len(lines_of(book)) == 2, "they live")
    claim = folder / files.claim_file(0)
    runner = content_of(folder, claim.name)["pid"]
    claim.unlink()
    os.mkfifo(claim)  # opening it blocks for ever
    os.kill(runner, signal.SIGKILL)
    until(lambda: not [line for line in lines_of(book) if alive(line[1])], "they are killed")
    assert supervisor.poll() is None


ESCAPED = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-S", "-c", sys.argv[2], sys.argv[1]], {})
    os._exit(0)
os.wait()
time.sleep(1000)
"""
"""Leaves a process with another session, another parent and no environment."""
LIVES = "import os, sys, time; open(sys.argv[1], 'a').write(f'0 {os.getpid()} lives\\n'); time.sleep(1000)"


def test_a_job_has_its_own_cgroup_if_possible(runners: Runners, tmp_path: Path) -> None:
    """Processes are found and killed by it without runner, supervisor or tag; then it is removed."""
    tag, pid = _escaped(runners, tmp_path)
    (cgroup,) = processes.cgroups_of({tag})
    assert pid in processes.cgroup_pids(cgroup)
    engine = LocalEngine((), "x")
    assert engine.fenced_after(tag) == math.inf
    engine.kill([tag])
    until(lambda: not alive(pid), "it is killed")
    assert engine.fenced_after(tag) == 0.0
    assert processes.cgroups_of({tag}) == []


def test_the_next_engine_removes_empty_cgroups_of_any_cluster(runners: Runners, tmp_path: Path) -> None:
    """No controller of the cluster itself runs again, say since its state folder is gone."""
    tag, pid = _escaped(runners, tmp_path)
    LocalEngine((), "x")
    assert len(processes.cgroups_of({tag})) == 1, "a process is in it"
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it is dead")
    LocalEngine((), "x")
    assert processes.cgroups_of({tag}) == []


def _escaped(runners: Runners, tmp_path: Path) -> tuple[str, int]:
    """Tag of a lease whose runner and supervisor are killed, and the process of it that lives in its cgroup."""
    book = tmp_path / "book"
    folder = runners.lease(ESCAPED, book, LIVES)
    supervisor = runners.start(folder)
    pid = int(until(lambda: lines_of(book), "it lives")[0][1])
    tag = content_of(folder, files.LEASE)["tag"]
    if not processes.cgroups_of({tag}):
        runners.kill()
        os.kill(pid, signal.SIGKILL)
        pytest.skip("no cgroup can be made here")
    both = supervisor.pid, content_of(folder, files.claim_file(0))["pid"]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in both:
            os.kill(process, number)
    until(lambda: not any(map(alive, both)), "both are dead")
    assert alive(pid)
    return tag, pid


def test_a_runner_whose_supervisor_is_killed_stops_its_job(runners: Runners, tmp_path: Path) -> None:
    book = tmp_path / "book"
    folder = runners.lease(COUNT, book)
    supervisor = runners.start(folder)
    until(lambda: lines_of(book), "it lives")
    supervisor.kill()
    until(lambda: (folder / files.exit_file(0)).exists(), "its runner has ended")
    assert content_of(folder, files.exit_file(0)) == {"reason": "stopped", "codes": [0], "problem": None, "left": []}
    assert lines_of(book)[-1][2] == "stops"


def test_a_job_dies_with_its_runner_and_supervisor(runners: Runners, tmp_path: Path) -> None:
    """Both are killed at once, as by the kernel when memory is short."""
    folder = runners.lease(STUBBORN, tmp_path / "book")
    supervisor = runners.start(folder)
    pid = until(lambda: lines_of(tmp_path / "book"), "it lives")[0][1]
    runner = content_of(folder, files.claim_file(0))["pid"]
    for process in (supervisor.pid, runner):
        os.kill(process, signal.SIGSTOP)
    for process in (supervisor.pid, runner):
        os.kill(process, signal.SIGKILL)
    until(lambda: not alive(pid), "it has died")
    assert not (folder / files.exit_file(0)).exists()


def test_a_killed_second_runner_does_not_affect_the_first(runners: Runners, tmp_path: Path) -> None:
    """Its supervisor kills only processes of its own runner, and writes no exit report for another."""
    book = tmp_path / "book"
    folder = runners.lease(COUNT, book)
    winner = runners.start(folder)
    until(lambda: lines_of(book), "it lives")
    die = "import os; from hetopt.executor import lease_directory as f; f.claim = lambda *_: os.kill(os.getpid(), 9)"
    assert runners.start(folder, before=die).wait(PATIENCE) == 1
    assert alive(lines_of(book)[0][1])
    assert not (folder / files.exit_file(0)).exists()
    winner.terminate()
    assert ended(winner, folder)["reason"] == "stopped"


def test_a_signal_that_comes_before_the_runner_is_forwarded(runners: Runners, tmp_path: Path) -> None:
    """Between the first handler and the fork, and between the fork and the handler that forwards."""
    early = (
        "import os; from hetopt.executor import processes; adopt = processes.adopt_orphans\n"
        "processes.adopt_orphans = lambda: (adopt(), os.kill(os.getpid(), 15))\n"
    )
    between = (
        "import os; fork = os.fork\n"
        "def slow():\n    child = fork()\n    child and os.kill(os.getpid(), 15)\n    return child\nos.fork = slow\n"
    )
    for number, before in enumerate((early, between)):
        folder = runners.lease(COUNT, tmp_path / f"book{number}")
        assert runners.run(folder, before=before)["reason"] == "stopped"


def test_an_error_in_the_runner_ends_its_job(runners: Runners, tmp_path: Path) -> None:
    book = tmp_path / "book"
    folder = runners.lease(COUNT, book)
    wrong = (
        "import os; from hetopt.executor.runner import Runner; check = Runner._check\n"
        "def wrong(own):\n    check(own)\n    os.path.getsize(own.lease.cwd + '/book') and 1 / 0\n"
        "Runner._check = lambda own: os.path.exists(own.lease.cwd + '/book') and wrong(own)\n"
    )
    assert runners.start(folder, before=wrong).wait(PATIENCE) == 1
    assert "ZeroDivisionError" in (folder / "runner.log").read_text()
    assert content_of(folder, files.exit_file(0))["reason"] == "lost"
    assert not alive(lines_of(book)[0][1])
