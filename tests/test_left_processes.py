"""What the tests report as left processes: all that a test has started, and nothing that a fixture's browser starts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import left_processes
import pytest
from left_processes import PARENTS, descendants, end_all_but

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
    return int(shell.stdout.readline())


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
