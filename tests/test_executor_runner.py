"""A runner starts a job once, stops it for any reason, and reports the end after its last process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from executor_leases import (
    AWAY,
    COUNT,
    STUBBORN,
    Clock,
    Runners,
    alive,
    content_of,
    ended,
    full_disk,
    hidden,
    lines_of,
    seats,
)
from waiting import PATIENCE, until

from hetopt.executor import lease_directory as files
from hetopt.executor import runner as module

# -- claims


def test_one_of_several_runners_runs_the_job(runners: Runners, tmp_path: Path) -> None:
    """The others exit without output, also later, and also after the end."""
    book = tmp_path / "book"
    folder = runners.lease(COUNT, book)
    rivals = [runners.start(folder) for _ in range(3)]
    until(lambda: lines_of(book) and sum(rival.poll() is None for rival in rivals) == 1, "two have left")
    assert [rival.returncode for rival in rivals if rival.poll() is not None] == [0, 0]
    (winner,) = (rival for rival in rivals if rival.poll() is None)
    claim = content_of(folder, files.claim_file(0))
    assert files.parent(claim["pid"]) == winner.pid, "its supervisor"
    assert files.identity(claim["pid"]) == claim
    assert runners.start(folder).wait(PATIENCE) == 0
    assert not (folder / files.exit_file(0)).exists()
    winner.terminate()
    content = ended(winner, folder)
    assert content == {"reason": "stopped", "codes": [0], "problem": None, "left": []}
    assert runners.run(folder) == content, "the report is unchanged"
    assert [line[2] for line in lines_of(book)] == ["begins", "stops"]
    assert hidden(folder) == []


def test_a_lease_that_the_controller_has_claimed_never_runs(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease("sh:touch $1", tmp_path / "ran")
    files.claim(folder, 0, {"controller": True, **files.identity()})
    assert runners.start(folder).wait(PATIENCE) == 0
    assert not (tmp_path / "ran").exists()
    assert not (folder / files.exit_file(0)).exists()


def test_a_claim_that_takes_too_long_runs_nothing(runners: Runners, tmp_path: Path) -> None:
    """The controller's timeout begins when it last saw no claim, so the lease may have been given up meanwhile."""
    folder = runners.lease("sh:touch $1", tmp_path / "ran", ttl_seconds=0.5)
    slow = (
        "import time; from hetopt.executor import lease_directory as files; claim = files.claim\n"
        "files.claim = lambda *words: (claim(*words), time.sleep(1.0))[0]"
    )
    assert runners.run(folder, before=slow) == {"reason": "fenced", "codes": [], "problem": None, "left": []}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("version", [1, "2", None])
def test_a_lease_of_another_version_is_refused(version: object, runners: Runners, tmp_path: Path) -> None:
    """The reason reaches the controller, which does not grant it again."""
    folder = runners.lease("sh:touch $1", tmp_path / "ran")
    files.write_json(folder / files.LEASE, {**content_of(folder, files.LEASE), "version": version})
    content = runners.run(folder)
    assert content["problem"].startswith("the lease is of another version of hetopt than the one on ")
    assert content == {"reason": "failed", "codes": [], "problem": content["problem"], "left": []}
    assert not (tmp_path / "ran").exists()


def test_a_lease_that_cannot_be_read_is_left_to_the_controller(
    runners: Runners, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runners.lease("sh:touch $1", tmp_path / "ran")
    (folder / files.LEASE).write_text("{")
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    assert module.main([str(folder), "0"]) == 1
    assert capfd.readouterr().err == f"{folder / files.LEASE} cannot be read\n"
    assert not (folder / files.claim_file(0)).exists()


# -- stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGURG])
def test_a_signal_stops_the_job(number: signal.Signals, runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(COUNT, tmp_path / "book")
    process = runners.start(folder)
    until(lambda: lines_of(tmp_path / "book"), "it lives")
    for _ in range(3):
        process.send_signal(number)
    assert ended(process, folder) == {"reason": "stopped", "codes": [0], "problem": None, "left": []}
    assert [line[2] for line in lines_of(tmp_path / "book")] == ["begins", "stops"]


def test_a_job_that_ignores_the_stop_is_killed_after_its_grace(runners: Runners, tmp_path: Path) -> None:
    book = tmp_path / "book"
    folder = runners.lease(STUBBORN, book, grace_seconds=0.5)
    process = runners.start(folder)
    until(lambda: lines_of(book), "it lives")
    asked = files.now()
    process.terminate()
    assert ended(process, folder) == {"reason": "stopped", "codes": [-9], "problem": None, "left": []}
    assert files.now() - asked >= 0.5
    assert not alive(lines_of(book)[0][1])


def test_a_job_whose_first_thread_has_ended_is_killed(runners: Runners, tmp_path: Path) -> None:
    end = "import ctypes, threading\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    program = STUBBORN.replace("while not stop", end + "ctypes.CDLL(None).pthread_exit(None)\nwhile not stop")
    folder = runners.lease(program, tmp_path / "book", grace_seconds=0.2)
    process = runners.start(folder)
    pid = until(lambda: lines_of(tmp_path / "book"), "it lives")[0][1]
    until(lambda: "State:\tZ" in Path(f"/proc/{pid}/status").read_text(), "its first thread has ended")
    process.terminate()
    assert ended(process, folder) == {"reason": "stopped", "codes": [-9], "problem": None, "left": []}


def test_the_stop_file_stops_the_job(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(COUNT, tmp_path / "book")
    process = runners.start(folder)
    until(lambda: lines_of(tmp_path / "book"), "it lives")
    (folder / files.STOP).write_text("it moves")
    assert ended(process, folder)["reason"] == "stopped"
    assert lines_of(tmp_path / "book")[-1][2] == "stops"


def test_a_job_that_sees_the_stop_file_first_was_stopped(runners: Runners) -> None:
    folder = runners.lease('sh:echo moves > "$HETOPT_LEASE/stop"')
    assert runners.run(folder) == {"reason": "stopped", "codes": [0], "problem": None, "left": []}


HELPED = """
import signal, subprocess, sys, time
helper = subprocess.Popen(["sleep", "1000"])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
open(sys.argv[1], "w").write(f"0 {helper.pid} begins")
while not stop:
    time.sleep(0.02)
time.sleep(0.5)
sys.exit(7 if helper.poll() is not None else 0)
"""
"""A training that needs its helper, say one that loads the data, up to its last checkpoint."""


@pytest.mark.parametrize("shell", [False, True])
def test_helper_processes_get_no_signal_during_the_checkpoint(shell: bool, runners: Runners, tmp_path: Path) -> None:
    """Also if a shell around the training dies of the signal at once."""
    book, script = tmp_path / "book", tmp_path / "train.py"
    script.write_text(HELPED + f"open({str(tmp_path / 'saved')!r}, 'w')")
    script.write_text(script.read_text().replace("sys.exit(7 if", "helper.poll() is not None and sys.exit(7 if"))
    command = [sys.executable, str(script), str(book)]
    folder = runners.lease("", command=["sh", "-c", '"$@"; true', "sh", *command] if shell else command)
    process = runners.start(folder)
    until(lambda: lines_of(book), "it lives")
    process.terminate()
    content = ended(process, folder)
    assert content == {"reason": "stopped", "codes": [-15 if shell else 0], "problem": None, "left": []}
    assert (tmp_path / "saved").exists()
    assert not alive(lines_of(book)[0][1]), "the helper has gone with it"


def test_a_job_behind_a_shell_that_forwards_no_signals_is_stopped(runners: Runners, tmp_path: Path) -> None:
    """Half of the grace is enough for the shell."""
    book, script = tmp_path / "book", tmp_path / "count.py"
    script.write_text(COUNT)
    folder = runners.lease('sh:trap : TERM; "$@"; exit 0', sys.executable, script, book, grace_seconds=8.0)
    process = runners.start(folder)
    until(lambda: lines_of(book), "it lives")
    process.terminate()
    assert ended(process, folder) == {"reason": "stopped", "codes": [0], "problem": None, "left": []}
    assert lines_of(book)[-1][2] == "stops"


# -- fencing


def test_a_lease_that_is_no_longer_renewed_is_fenced(runners: Runners, tmp_path: Path) -> None:
    """While it is renewed, the job runs for much longer than the lease timeout."""
    for attempt, ttl in enumerate((1.6, 1.6, 4.0, 10.0, 25.0, 60.0)):  # a busy machine may need more to renew in time
        book = tmp_path / f"book{attempt}"
        folder = runners.lease(COUNT, book, ttl_seconds=ttl)
        process = runners.start(folder)
        begun = last = files.now()
        gap = 0.0
        while last - begun < ttl * 1.3:
            files.renew(folder, int(last * 1000))
            time.sleep(0.05)
            gap, last = max(gap, files.now() - last), files.now()
        lived = lines_of(book) and process.poll() is None and len(lines_of(book)) == 1
        content = ended(process, folder)
        assert content == {"reason": "fenced", "codes": [0], "problem": None, "left": []}
        if lived and gap < ttl / 4:
            assert files.now() - last > ttl * 0.7
            return
    pytest.fail("the job has never outlived its time to live")


def test_a_hanging_file_server_does_not_prevent_fencing(runners: Runners, tmp_path: Path) -> None:
    """Opening the counter blocks for ever."""
    book = tmp_path / "book"
    folder = runners.lease(STUBBORN, book, ttl_seconds=1.0, grace_seconds=0.2)
    (folder / files.RENEWED).unlink()
    os.mkfifo(folder / files.RENEWED)
    process = runners.start(folder)
    assert ended(process, folder)["reason"] == "fenced"
    assert not alive(lines_of(book)[0][1])


def test_an_old_renewal_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a renewal that is seen late counts from when it was written."""
    clock, seen = Clock(), list[tuple[float, float]]()
    monkeypatch.setattr(files, "now", clock)
    watch = module.Watch(tmp_path / "log-0", 0)
    clock.time += 5

    def look(path: Path) -> str:
        seen.append((clock.time, watch.renewed))
        clock.time += 10  # the time of the read
        return "112"[len(seen) - 1]

    monkeypatch.setattr(files, "read_text", look)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(IndexError):
        watch.run()
    assert seen == [(1005.0, 1000.0), (1015.0, 1000.0), (1025.0, 1000.0), (1035.0, 1025.0)]


# -- ends


@pytest.mark.parametrize("ignored", [False, True])
def test_the_exit_report_has_the_exit_codes(ignored: bool, runners: Runners) -> None:
    """Also if the runner was started with SIGCHLD ignored."""
    folder = runners.lease("sh:echo wrong >&2; exit 3")
    before = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)" if ignored else None
    assert runners.run(folder, before=before) == {"reason": "failed", "codes": [3], "problem": None, "left": []}
    assert (folder / files.log_file(0)).read_text() == "wrong\n"


def test_a_failed_worker_stops_the_others(runners: Runners, tmp_path: Path) -> None:
    program = COUNT + "\n"
    fail = 'import os, sys\nif os.environ["RANK"] == "1":\n    sys.exit(5)\n'
    folder = runners.lease(fail + program, tmp_path / "book", own=seats(a=3))
    assert runners.run(folder)["reason"] == "failed"
    content = content_of(folder, files.exit_file(0))
    assert content["codes"][1] == 5
    assert set(content["codes"][::2]) <= {0, -15}, "stopped, also before they handled the signal"


@pytest.mark.parametrize("way", ["ends", "stays"])
def test_no_process_is_left_when_the_end_is_reported(way: str, runners: Runners, tmp_path: Path) -> None:
    book = tmp_path / "book"
    folder = runners.lease(AWAY, book, way, grace_seconds=0.3)
    process = runners.start(folder)
    until(lambda: len(lines_of(book)) == 2, "they live")
    pids = [line[1] for line in lines_of(book)]
    if way == "stays":
        process.terminate()
    while not (folder / files.exit_file(0)).exists():
        time.sleep(0.001)
    left = [pid for pid in pids if alive(pid)]
    reason, code = ("ended", 0) if way == "ends" else ("stopped", -15)
    assert ended(process, folder) == {"reason": reason, "codes": [code], "problem": None, "left": []}
    assert left == []


def test_the_end_is_reported_once_the_disk_has_room(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(COUNT, tmp_path / "book")
    process = runners.start(folder)
    until(lambda: lines_of(tmp_path / "book"), "it lives")
    with full_disk(content_of(folder, files.claim_file(0))["pid"]):
        process.terminate()
        until(lambda: lines_of(tmp_path / "book")[-1][2] == "stops", "it stops")
        time.sleep(0.5)
        assert process.poll() is None
        assert not (folder / files.exit_file(0)).exists()
    assert ended(process, folder)["reason"] == "stopped"
    assert hidden(folder) == []
