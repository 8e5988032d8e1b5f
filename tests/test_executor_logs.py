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
from hetopt.executor.job_logs import LOST, _LogReader, printed
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


@given(TEXTS, TEXTS, st.integers(0, 9), st.integers(1, 9))
def test_the_last_lines_equal_those_by_brute_force(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, content: bytes, lines: int, block: int
) -> None:
    """Also where the log has fewer, and the rest are in `.old`, of which the log is no copy."""
    path = tmp_path_factory.mktemp("log") / "log-0"
    path.write_bytes(content)
    if old:
        path.with_name("log-0.old").write_bytes(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_logs, "BLOCK_BYTES", block)
        found = b"".join(iter(_LogReader(path, lines).read, b""))
    whole = re.findall(rb"[^\n]*\n|[^\n]+\Z", content if content.startswith(old) else old + content)
    assert found == b"".join(whole[-lines:])


class Rotated:
    """A log that is written and rotated as by a runner, in single steps."""

    def __init__(self, path: Path) -> None:
        self.path, self.old = path, path.with_name(f"{path.name}.old")
        path.touch()
        self.written = 0

    def append(self, lines: int = 1) -> None:
        with self.path.open("a") as file:
            for _ in range(lines):
                self.written += 1
                file.write(f"{self.written}\n")

    def copy(self, part: float = 1.0) -> None:
        content = self.path.read_bytes()
        self.old.write_bytes(content[: round(part * len(content))])

    def empty(self) -> None:
        os.truncate(self.path, 0)

    def rotate(self) -> None:
        self.copy()
        self.empty()


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from("skipr"), st.booleans()), max_size=12), st.integers(1, 99)
)
def test_a_reader_gets_each_line_once_over_rotations(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, bool]], block: int
) -> None:
    """It reads between any two steps of rotations, and within them, and to the end between two."""
    log = Rotated(tmp_path_factory.mktemp("log") / "log-0")
    reader, found = _LogReader(log.path, 0), list[bytes]()

    def read(parts: int = 10**9) -> None:
        for _ in range(parts):
            found.append(reader.read())
            if not found[-1]:
                return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_logs, "BLOCK_BYTES", block)
        for number, step, more in steps:
            log.append(number)
            read(number % 3)
            if step == "s":
                log.copy(0.5)
                read(1)
                log.copy()
                read(more)
                log.empty()
            elif step == "k":
                log.copy()
                read()
                log.empty()
                log.append(20 * more)
            elif step == "i":
                log.copy(0.0)  # the runner dies during the copy
            elif step == "r":
                log.rotate()
                log.append(more)
                read(2)
            read()
    assert b"".join(found).decode().split() == [str(i + 1) for i in range(log.written)]


def test_what_two_rotations_have_removed_is_reported(tmp_path: Path) -> None:
    log = Rotated(tmp_path / "log-0")
    log.append()
    reader = _LogReader(log.path, 0)
    assert reader.read() == b"1\n"
    for _ in range(2):
        log.append()
        log.rotate()
    log.append()
    assert list(iter(reader.read, b"")) == [LOST, b"3\n", b"4\n"]
    os.truncate(log.path, 0)  # not by the runner
    with log.path.open("a") as file:
        file.write("5")
    os.truncate(log.path, 0)
    assert list(iter(reader.read, b"")) == [LOST]


def test_a_job_is_followed_over_rotations(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line comes in two writes, with rotations and reads between them."""
    path, lines = job.lease(), [f"line {i}\n" for i in range(40)]
    halves, log = [half for line in lines for half in (line[:4], line[4:])], Rotated(path)

    def step() -> None:
        with path.open("a") as file:
            file.write("".join(halves[:5]))
        del halves[:5]
        if path.stat().st_size > 15:
            log.rotate()
        if not halves:
            job.change("jobs", state="done")

    monkeypatch.setattr(job_logs.time, "sleep", lambda _: step())
    assert job.printed(follow=True).split("<==\n", 1)[1] == "".join(lines)


def test_what_was_read_but_not_copied_is_shown_once(tmp_path: Path) -> None:
    """Processes write until the log is emptied."""
    log = Rotated(tmp_path / "log-0")
    reader, found = _LogReader(log.path, 0), list[bytes]()
    for _ in range(3):
        log.append(4)
        log.copy()
        log.append(2)
        found += iter(reader.read, b"")
        log.empty()
        found += iter(reader.read, b"")
    assert b"".join(found).decode().split() == [str(i + 1) for i in range(18)]


def test_lines_that_were_moved_are_shown_before_those_of_the_log(job: Job) -> None:
    log = job.lease()
    log.with_name("log-0.old").write_text("1\n2\n3\nfo")
    log.write_text("ur\n5\n")
    head = "==> lease 1 on K80, log-0 <==\n"
    assert job.printed(1) == f"{head}5\n"
    assert job.printed(2) == f"{head}four\n5\n"
    assert job.printed(3) == f"{head}3\nfour\n5\n"
    assert job.printed(0) == job.printed(99) == f"{head}1\n2\n3\nfour\n5\n"
    log.write_text("1\n2\n3\nfour\n5\n")  # it is copied, and not emptied yet
    assert job.printed(0) == f"{head}1\n2\n3\nfour\n5\n"
    log.write_text("")
    assert job.printed(2) == f"{head}3\nfo\n"


def test_a_large_log_needs_little_memory(job: Job) -> None:
    with job.lease().open("wb") as file:
        file.truncate(300_000_000)  # one line, without any room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    tracemalloc.start()
    assert job.printed(2).endswith("<==\nlast but one\nlast\n")
    assert sum(map(len, printed(job.recorded.database, "train", lines=3))) > 300_000_000
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


def test_logs_are_followed_until_the_job_has_finished(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over truncation, rotation and the next lease; no line twice, none left out without a notice."""
    logs = [job.lease()]
    logs[0].write_text("skipped\nshown\n")

    def append(text: str) -> None:
        with logs[-1].open("a") as file:
            file.write(text)

    def truncate() -> None:
        append("read?")
        os.truncate(logs[0], 0)
        append("cut\n")

    def rotate() -> None:
        append("end of the old\n")
        shutil.copy(logs[0], f"{logs[0]}.old")
        os.truncate(logs[0], 0)
        append("new\n")

    def move() -> None:
        append("stops")
        job.change("leases", state="sealed", sealed=200.0)
        logs.append(job.lease())
        append("goes on\n")

    def finish() -> None:
        append("bye")
        job.change("jobs", state="done")

    steps: list[Callable[[], object]] = [
        lambda: None, lambda: append("more"), lambda: append(" of it\n"), truncate, rotate, move,
        lambda: job.change("jobs", reason="x"), finish,
    ]  # fmt: skip
    script = iter(steps)
    monkeypatch.setattr(job_logs.time, "sleep", lambda _: next(script)())
    assert job.printed(1, follow=True) == (
        f"==> lease 1 on K80, log-0 <==\nshown\nmore of it\n{LOST.decode()}cut\nend of the old\nnew\nstops\n"
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
