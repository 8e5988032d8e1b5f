"""What the tests report as left processes: all that a test has started, and nothing that a fixture's browser starts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import left_processes
import pytest
from left_processes import PARENTS, command, descendants, end_all_but

SHELL = ["sh", "-c", "while read line; do sleep 1000 & echo $!; done"]


@pytest.fixture(name="shell")
def one_shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A shell that starts a process at each line; a left process is killed soon."""
    monkeypatch.setattr(left_processes, "LOOKS", 10)
    pipe = subprocess.PIPE
    before = descendants()
    with subprocess.Popen(SHELL, stdin=pipe, stdout=pipe, text=True, bufsize=1) as made:
        yield made
        PARENTS.discard(made.pid)
        made.kill()
        end_all_but(before)


def started_by(shell: subprocess.Popen[str]) -> int:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write("\n")
    pid = int(shell.stdout.readline())
    while command(pid) != "sleep 1000":  # the shell's copy of itself, that is going to be it
        time.sleep(0.01)
    return pid


def test_a_left_process_is_killed_and_named(shell: subprocess.Popen[str]) -> None:
    before = descendants()
    pid = started_by(shell)
    assert end_all_but(before) == [f"{pid}: sleep 1000"]


def test_children_of_a_shared_process_stay(shell: subprocess.Popen[str]) -> None:
    PARENTS.add(shell.pid)
    before = descendants()
    pid = started_by(shell)
    assert end_all_but(before) == []
    PARENTS.discard(shell.pid)
    assert pid in descendants(), "it lives, and is reported with the shell"


def test_a_process_without_a_command_line_is_left_too(
    shell: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it starts another program."""
    before = descendants()
    pid = started_by(shell)
    monkeypatch.setattr(left_processes, "command", lambda _: "")
    assert end_all_but(before) == [f"{pid}: "]
