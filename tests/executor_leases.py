"""Lease directories, runners and jobs for tests of the lease protocol."""

from __future__ import annotations

import os
import resource
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, until

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import LeaseRecord, Seat
from hetopt.executor.job_side import LEASE_VARIABLE
from hetopt.executor.processes import cgroups_of, kill_cgroup, tagged

COUNT = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
def record(word):
    with open(sys.argv[1], "a") as file:
        print(os.environ["RANK"], os.getpid(), word, file=file)
record("begins")
while not stop:
    time.sleep(0.02)
record("stops")
"""
"""A job that runs until it is requested to stop, and records its beginning and its stop."""

STUBBORN = COUNT.replace("lambda *_: stop.append(1)", "signal.SIG_IGN")

AWAY = """
import os, signal, subprocess, sys, time
ignore = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
for how in ({}, {"env": {}}):
    away = subprocess.Popen([sys.executable, "-S", "-c", ignore], start_new_session=True, stdout=subprocess.PIPE, **how)
    away.stdout.readline()
    open(sys.argv[1], "a").write(f"0 {away.pid} begins\\n")
if sys.argv[2] == "stays":
    time.sleep(1000)
"""
"""Leaves processes behind in separate sessions, one of them without a tag."""


def seats(**nodes: int) -> tuple[Seat, ...]:
    """This number of GPUs on each host."""
    return tuple(Seat(name, "fast", i, f"GPU-{name}{i}") for name, number in nodes.items() for i in range(number))


def make_lease(folder: Path, own: tuple[Seat, ...] = seats(a=1), **settings: Any) -> Path:
    """A lease directory; by default of a job that no runner runs."""
    where = folder / f"lease-{secrets.token_hex(4)}"
    where.mkdir()
    patient = {"grace_seconds": PATIENCE, "ttl_seconds": PATIENCE}  # no test has to renew it, or to be fast
    given: dict[str, Any] = {"command": ("true",), "cwd": str(folder), **patient, **settings}
    LeaseRecord(f"hetopt-{secrets.token_hex(4)}-1-0-1", where, own, **given).write()
    files.renew(where, 1)
    return where


def recorded(folder: Path) -> LeaseRecord:
    """The record of a lease directory."""
    lease = LeaseRecord.read(folder)
    assert lease is not None
    return lease


def hidden(folder: Path) -> list[str]:
    """Files and folders that are not published."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


def checkpoint(folder: Path, content: Mapping[str, bytes], name: str = "step-1") -> Path:
    """A complete checkpoint of a lease, made by hand."""
    made = folder / files.CHECKPOINTS / name
    made.mkdir(parents=True)
    for path, data in content.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(data)
    files.write_json(made / "files.json", {"bytes": {path: len(data) for path, data in content.items()}})
    return made


def steps_of(folder: Path) -> list[int]:
    """The steps of the published checkpoints, the last first."""
    return [step for step, _ in files.published(folder)]


def model(text: str = "weights") -> Callable[[Path], object]:
    """A function that writes a checkpoint."""
    return lambda folder: (folder / "model.txt").write_text(text)


def under(folder: Path, patch: pytest.MonkeyPatch, rank: int = 0, size: int = 1) -> Path:
    """Run this process under a lease, as one of ``size`` ranks."""
    for name, value in {LEASE_VARIABLE: folder, "RANK": rank, "WORLD_SIZE": size}.items():
        patch.setenv(name, str(value))
    return folder


class Clock:
    """Stands still until the test sets it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@contextmanager
def full_disk(pid: int = 0, room: int = 21) -> Iterator[None]:
    """The process can write no file beyond ``room`` bytes; by default a number still fits."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


class Python:
    """A Python program that runs until it ends or the test does; it reads and writes lines."""

    def __init__(self, program: str, *words: object, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )

    def __enter__(self) -> Python:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read(self) -> str:
        """Its next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, line: str = "") -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


class Runners:
    """Runners of leases in a folder; at the end all their processes are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        self.tags: list[str] = []

    def __enter__(self) -> Runners:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        until(lambda: not self.kill(), "nothing is left")
        for cgroup in cgroups_of(self.tags):
            kill_cgroup(cgroup)

    def kill(self) -> list[int]:
        """Kill what is left of all leases."""
        found = [pid for pid, tag in tagged() if tag.rpartition(".")[0] in self.tags]
        for pid in found:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        return found

    def lease(self, program: str, *words: object, own: tuple[Seat, ...] = seats(a=1), **settings: Any) -> Path:
        """A lease of a Python program with these arguments, or of a shell script if it begins with ``sh:``."""
        shell = program.startswith("sh:")
        command = ["sh", "-c", program[3:], "sh"] if shell else [sys.executable, "-c", program]
        command = settings.pop("command", [*command, *map(str, words)])
        folder = make_lease(self.folder, own, command=command, **settings)
        self.tags.append(content_of(folder, files.LEASE)["tag"])
        return folder

    def start(
        self, folder: Path, rank: int | None = 0, before: str | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        """A runner of a node; ``before`` it is run in its process."""
        words = [str(folder), *([] if rank is None else [str(rank)])]
        program = f"import sys\nfrom hetopt.executor import runner\n{before}\nsys.exit(runner.main(sys.argv[1:]))"
        how = ["-m", "hetopt.executor.runner"] if before is None else ["-c", program]
        with (folder / "runner.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", *how, *words],
                env={**os.environ, files.TAG_VARIABLE: f"{content_of(folder, files.LEASE)['tag']}.runner", **variables},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def run(self, folder: Path, rank: int = 0, **more: Any) -> dict[str, Any]:
        """Run a node to its end; the exit report of its runner."""
        process = self.start(folder, rank, **more)
        return ended(process, folder, rank)


def ended(process: subprocess.Popen[bytes], folder: Path, rank: int = 0) -> dict[str, Any]:
    """The exit report of a runner that ends."""
    assert process.wait(PATIENCE) == 0, (folder / "runner.log").read_text()
    return content_of(folder, files.exit_file(rank))


def variable(pid: int, name: str) -> str | None:
    """A variable of a process's environment."""
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry).get(name)


def content_of(folder: Path, name: str) -> dict[str, Any]:
    """The content of a file that must be there."""
    content = files.read_json(folder / name)
    assert content is not None, f"{name} is not there; {sorted(path.name for path in folder.iterdir())}"
    return content


def lines_of(path: Path) -> list[list[str]]:
    """The lines that jobs have written, split into words."""
    return [line.split() for line in (files.read_text(path) or "").splitlines()]


def alive(pid: str | int) -> bool:
    """Whether there is such a process."""
    return files.started(int(pid)) is not None
