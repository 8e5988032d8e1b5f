"""`hetopt logs`: the end of any log in little memory, following it, and no control of the terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_state import RecordedState
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from hetopt.errors import UnknownName
from hetopt.executor import job_logs
from hetopt.executor.commands import logs
from hetopt.executor.job_logs import REMOVED, _LogReader, printed
from hetopt.executor.runner import remove_beginning
from hetopt.presentation.console import printable


class Job:
    """A job `train` with leases whose logs the test writes."""

    def __init__(self, folder: Path) -> None:
        self.recorded = RecordedState(folder)
        self.number = self.recorded.job("train")
        self.folders: list[Path] = []

    def lease(self, **row: object) -> Path:
        """Another lease; its log."""
        lease = self.recorded.lease(self.number, [("n", "K80", len(self.folders))], 100.0, running=101.0, **row)
        tag = f"hetopt-{self.recorded.database.cluster}-{self.number}-{row.get('copy', 0)}-{lease}"
        folder = self.recorded.database.folder / "leases" / tag
        folder.mkdir(parents=True, exist_ok=True)
        self.folders.append(folder)
        return folder / "log-0"

    def change(self, table: str, **values: object) -> None:
        with self.recorded.database.writing() as connection:
            connection.update(table, values)

    def printed(self, lines: int = 0, **more: bool) -> str:
        return re.sub(
            r"hetopt-\w+-1-\d-",
            "lease ",
            b"".join(printed(self.recorded.database, "train", lines=lines, **more)).decode(),
        )


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path / "state")
    yield made
    made.recorded.database.close()


TEXTS = st.binary(max_size=60) | st.lists(st.sampled_from([b"a", b"\n"]), max_size=60).map(b"".join)


@given(TEXTS, st.integers(0, 9), st.integers(1, 9))
def test_the_last_lines_equal_those_by_brute_force(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, lines: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log-0"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_logs, "BLOCK_BYTES", block)
        found = b"".join(iter(_LogReader(path, lines).read, b""))
    whole = re.findall(rb"[^\n]*\n|[^\n]+\Z", content)
    assert found == b"".join(whole[-lines:])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), max_size=12))
def test_a_reader_gets_each_byte_once_unless_it_was_removed_before(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """The beginning is removed between any two reads, as by a runner; a notice stands for what is missing."""
    path, whole, found, expected = tmp_path_factory.mktemp("log") / "log-0", b"", b"", b""
    path.touch()
    reader, at, removed = _LogReader(path, 0), 0, 0

    def read(times: int) -> None:
        nonlocal at, found, expected
        for _ in range(times):
            found += reader.read()
            if at < removed:
                expected += b"\n" * (at > 0 and not expected.endswith(b"\n")) + REMOVED
                at = removed
            else:
                expected += whole[at : at + 5000]
                at = min(len(whole), at + 5000)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_logs, "BLOCK_BYTES", 5000)
        for number, part, times in steps:
            more = b"".join(b"%999d\n" % i for i in range(len(whole), len(whole) + 1000 * number, 1000))
            with path.open("ab") as file:
                file.write(more)
            whole += more
            read(times)
            removed = max(removed, remove_beginning(path, part * len(whole) // 9))
        read(99)
    assert found == expected


def test_earlier_output_that_was_removed_is_reported(job: Job) -> None:
    log = job.lease()
    log.write_text("".join(f"{i:999d}\n" for i in range(20)))
    assert remove_beginning(log, 9000) == 8192
    head = "==> lease 1 on K80, log-0 <==\n"
    assert job.printed(2) == f"{head}{18:999d}\n{19:999d}\n"
    rest = log.read_bytes()[8192:].decode()
    assert rest.count("\n") == 12
    assert job.printed(0) == job.printed(99) == head + REMOVED.decode() + rest
    os.truncate(log, 0)
    assert job.printed(3) == "train has printed nothing yet\n"


def test_a_log_of_which_nothing_is_left_is_reported(job: Job) -> None:
    log = job.lease()
    log.write_bytes(b"x" * 8191 + b"\n")
    assert remove_beginning(log, 8192) == 8192
    head = f"==> lease 1 on K80, log-0 <==\n{REMOVED.decode()}"
    assert job.printed(0) == job.printed(3) == head
    with log.open("a") as file:
        file.write("new\n")
    assert job.printed(0) == job.printed(3) == f"{head}new\n"


def test_a_large_log_needs_little_memory(job: Job) -> None:
    with job.lease().open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)  # one line
        file.write(b"\nlast but one\nlast\n")
    tracemalloc.start()
    assert job.printed(2).endswith("<==\nlast but one\nlast\n")
    assert sum(map(len, printed(job.recorded.database, "train", lines=3))) > 100_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_logs_of_a_gang_and_of_all_leases(job: Job) -> None:
    job.lease(sealed=200.0).write_text("old\n")
    first = job.lease()
    first.write_text("1\n2\n3")
    first.with_name("log-1").write_text("x\n")
    new = "==> lease 2 on K80, log-0 <==\n2\n3\n==> lease 2 on K80, log-1 <==\nx\n"
    assert job.printed(2) == new
    assert job.printed(2, every_lease=True) == f"==> lease 1 on K80, log-0 <==\nold\n{new}"
    with pytest.raises(UnknownName):
        list(printed(job.recorded.database, "other", lines=0))


def test_a_deleted_log_is_not_an_empty_one(job: Job) -> None:
    assert job.printed() == "train has printed nothing yet\n"
    log = job.lease()
    assert job.printed() == "train: its log was deleted or pruned\n", "the job ran, so there was one"
    log.touch()
    assert job.printed() == "train has printed nothing yet\n"
    job.change("jobs", state="done", finished=300.0)
    assert job.printed() == "train has printed nothing\n"
    job.change("leases", state="sealed", sealed=200.0, running=None)
    log.unlink()
    assert job.printed() == "train has printed nothing\n", "it never ran"
    shutil.rmtree(log.parent)
    assert job.printed() == "train: its log was deleted or pruned\n"
    job.lease().touch()
    assert job.printed() == "train has printed nothing\n", "in its newest lease; the earlier ones were pruned"


def test_logs_are_followed_until_the_job_has_finished(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over truncation and the next lease; no line twice, none left out without a notice."""
    logs = [job.lease()]
    logs[0].write_text("skipped\nshown\n")

    def append(text: str) -> None:
        with logs[-1].open("a") as file:
            file.write(text)

    def truncate() -> None:
        append("never read")
        os.truncate(logs[0], 0)
        append("cut\n")

    def move() -> None:
        append("stops")
        job.change("leases", state="sealed", sealed=200.0)
        logs.append(job.lease())
        append("goes on\n")

    def finish() -> None:
        append("bye")
        job.change("jobs", state="done")

    steps: list[Callable[[], object]] = [
        lambda: None, lambda: append("more"), lambda: append(" of it\n"), truncate, move,
        lambda: job.change("jobs", reason="x"), finish,
    ]  # fmt: skip
    script = iter(steps)
    monkeypatch.setattr(job_logs.time, "sleep", lambda _: next(script)())
    assert job.printed(1, follow=True) == (
        f"==> lease 1 on K80, log-0 <==\nshown\nmore of it\n{REMOVED.decode()}cut\nstops\n"
        "==> lease 2 on K80, log-0 <==\ngoes on\nbye\n"
    )
    assert not list(script)


def test_logs_of_copies_are_followed_together(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = job.lease(copy=1, forked=True), job.lease(copy=2, forked=True)
    one.write_text("a\n")
    two.write_text("b\n")

    def step() -> None:
        one.write_text("a\nc\n")
        job.change("jobs", state="failed")

    monkeypatch.setattr(job_logs.time, "sleep", lambda _: step())
    found = job.printed(every_lease=True, follow=True)
    assert [line for line in found.splitlines() if "==>" not in line] == ["a", "b", "c"]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b[]0;31mK\x07\x9b\r\n\t\u202e"), max_size=40))
def test_control_sequences_do_not_reach_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c in "\u202e\u2066"]
    assert printable(shown) == shown
    assert shown.count("\n") == text.count("\n")
    if text.isprintable():
        assert shown == text


def test_sequences_that_style_text_leave_the_text() -> None:
    assert printable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07ok\x1b]8;;http://x\x1b\\link") == "red oklink"
    assert printable("\x1b[") == "\N{REPLACEMENT CHARACTER}["


EVIL = b"\x1b]52;c;cm0=\x07\x1b[31mr\xc3\xa9d\x1b[0m \xff 10%\r100%\r\nend\n"


def test_a_terminal_gets_text_and_a_pipe_gets_bytes(
    job: Job, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    job.lease().write_bytes(EVIL)
    state = job.recorded.database.folder
    with open(1, "w", encoding="utf-8", closefd=False) as out:
        monkeypatch.setattr(sys, "stdout", out)
        logs("train", state)
        assert capfdbinary.readouterr().out.endswith(b"<==\n" + EVIL)
        monkeypatch.setattr(job_logs.sys.stdout, "isatty", lambda: True)
        logs("train", state)
        assert capfdbinary.readouterr().out.endswith("<==\nréd � 10%\n100%\nend\n".encode())


def test_following_ends_with_an_interrupt(job: Job) -> None:
    job.lease().write_text("hello\n")
    program = (  # where the tests run in the background of a shell, SIGINT is ignored at first
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from hetopt.cli.main import main; main()"
    )
    words = [sys.executable, "-c", program, "logs", "-f", "train", "--state", str(job.recorded.database.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)][1] == "hello\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "hetopt: stopped\n")
