"""Long work shows its progress, and Ctrl-C leaves one line and no process."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from left_processes import children, command
from rich.console import Console
from waiting import PATIENCE, until

from hetopt.executor.state_database import StateDatabase
from hetopt.presentation import console, terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time, in seconds, by which progress is measured."""
    now = [0.0]
    monkeypatch.setattr("hetopt.presentation.console.time.monotonic", lambda: now[0])

    def at(seconds: float) -> None:
        now[0] = seconds

    return at


def test_the_time_to_the_end_follows_from_the_mean_speed(clock: Callable[[float], None]) -> None:
    work = console.Progress("simulate", 40, "run")
    clock(60)
    assert work.line() == "simulate: 0 of 40 runs, 60 s"
    for run in range(12):
        work.update(run, 1.0)
    clock(180)
    assert work.line() == "simulate: 12 of 40 runs, 3 min, about 7 min left"  # 28 / 12 of 3 minutes
    work.update(12, 0.5)
    work.update(13, 0.5)
    clock(13 * 3600)
    assert work.line() == "simulate: 13 of 40 runs, 13 h, about 27 h left"


def test_a_step_is_finished_when_the_next_one_begins(clock: Callable[[float], None]) -> None:
    work = console.Progress("demo", 4, "result")
    work.begin("fft")
    clock(30)
    assert work.line() == "demo: 0 of 4 results, 30 s"
    work.begin("fft")  # names may be repeated
    assert work.line() == "demo: 1 of 4 results, 30 s, about 90 s left"


def test_without_a_terminal_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "LINE_SECONDS", 0.01)
    printed = ""

    def more() -> bool:
        nonlocal printed
        printed += capsys.readouterr().err
        return printed.count("\n") >= 2

    with console.progress("audit"):
        until(more, "a line, and another")
    assert set(printed.splitlines()) == {"hetopt: audit: 0 s"}


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("audit", 1) as work:
        work.begin("a")
    assert capsys.readouterr() == ("", "")


def test_a_narrow_terminal_shows_the_progress_to_its_end(
    monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "ERR", Console(file=shown, force_terminal=True, width=40, color_system=None))
    with console.progress("reproduce", 400, "claim") as work:
        for claim in range(399):
            work.update(claim)
        work.begin("a step whose long name is cut to the width of the terminal")
        clock(6000)
    frame = (
        "reproduce: 400 of 400 claims, 100 min, \nabout 0 s left\na step whose long name is cut to the wi…\n" + "━" * 40
    )
    before, found, after = shown.getvalue().partition(frame)
    assert found, before
    assert after.count("\x1b[2K") == 4, "its lines disappear"


# Ctrl-C

START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background of a shell
    "from hetopt.cli.main import main; main()"
)

ENDLESS = '''
import time
from pathlib import Path


class Endless:
    """A policy that decides for ever."""

    def __call__(self, instance, state=None):
        Path("decides").touch()
        while True:
            time.sleep(1)
'''


def workers(pid: int) -> bool:
    return any("loky.backend.popen" in command(child) for child in children(pid))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("solve oef/eq6 -p endless:Endless", "stopped"),
        (
            "simulate hadar/m5 -p endless:Endless",
            "stopped; 0 of 1 run stored in runs; repeat the command for the others",
        ),
        ("simulate hadar/m5 -p endless:Endless,srtf --jobs 2", "repeat the command for the others"),
        ("verify -p endless:Endless --jobs 2", "stopped"),
    ],
)
def test_ctrl_c_leaves_one_line(tmp_path: Path, words: str, line: str) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    interrupt(tmp_path, words, lambda _: (tmp_path / "decides").exists(), line)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("verify --jobs 2", "stopped; 0 of "),
        ("reproduce fft --jobs 2 --out made", "stored in made; repeat the command for the others"),
    ],
)
def test_ctrl_c_while_worker_processes_begin_leaves_one_line(tmp_path: Path, words: str, line: str) -> None:
    interrupt(tmp_path, words, workers, line)


def test_ctrl_c_ends_watching_a_cluster(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    StateDatabase(tmp_path / "state", make=True).close()
    script = f"import sys; sys.stdout = open({str(printed)!r}, 'w', buffering=1)\n{START}"
    shown = "status --watch --state state"
    interrupt(tmp_path, shown, lambda _: printed.exists() and "jobs" in printed.read_text(), script=script)


def interrupt(folder: Path, words: str, works: Callable[[int], bool], line: str = "", script: str = START) -> None:
    """Start a command as a shell does, press Ctrl-C when it works, and check what it leaves."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *words.split()],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until(lambda: works(process.pid) or process.poll() is not None, "it works")
        below = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130, printed
    assert printed.startswith("hetopt: stopped")
    assert line in printed
    assert printed.count("\n") == 1, printed
    until(lambda: not any(command(pid) for pid in below), "its processes have ended")
