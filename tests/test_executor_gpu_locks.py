"""No GPU runs jobs of two clusters, or beside processes of others: locks of the machine, and what NVML lists."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import rows, spec
from executor_leases import COUNT, lines_of
from waiting import PATIENCE, until

from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.engines.local import LocalEngine, holders, lock_gpus
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.processes import tagged
from hetopt.executor.queue import cancel, submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated


def devices(number: int) -> list[str]:
    """Names of GPUs that no other test uses at the same time."""
    return [f"GPU-{uuid.uuid4()}" for _ in range(number)]


def host(names: list[str]) -> Node:
    """This machine, with GPUs of these names."""
    return Node("here", tuple(Seat("here", "V100", i, name) for i, name in enumerate(names)))


def test_all_gpus_of_a_lease_are_locked_or_none() -> None:
    a, b, c = devices(3)
    held = lock_gpus([b], "hetopt-x-1-0-1")
    with pytest.raises(OSError, match="is in use by lease hetopt-x-1-0-1") as problem:
        lock_gpus([a, b, c], "hetopt-y-1-0-1")
    assert (problem.value.errno, problem.value.filename) == (errno.EBUSY, b)
    assert {d: tag for d, tag in holders().items() if d in (a, b, c)} == {b: "hetopt-x-1-0-1"}
    for one in held:
        one.close()
    for one in lock_gpus([a, b, c], "hetopt-y-1-0-1"):
        one.close()


def test_a_lock_lasts_until_the_last_process_is_dead() -> None:
    """However they die; then the kernel removes it."""
    (device,) = devices(1)
    held = lock_gpus([device], "hetopt-x-1-0-1")
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
    children = [subprocess.Popen(sleep, pass_fds=[one.fileno() for one in held]) for _ in range(2)]
    for one in held:
        one.close()
    for child in children:
        assert device in holders()
        child.kill()
        child.wait()
    assert device not in holders()


class Cluster:
    """A separate state folder with a controller of the same GPUs."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.folder, self.node = folder, node
        self.database = StateDatabase(folder)
        self.control()

    def control(self) -> None:
        """Begin a controller."""
        engine = LocalEngine((self.node,), self.database.cluster)
        settings = Settings("fifo", None, False, LeaseTimeouts())
        self.controller = Controller(self.database, engine, system_of("fifo", {}, None), estimated, settings)

    def submit(self, name: str, book: Path, workers: int = 1) -> None:
        """A job that runs until it is stopped."""
        command = [sys.executable, "-c", COUNT, str(book)]
        submit(self.database, spec(name, command=command, workers=workers, grace=PATIENCE))

    def until(self, what: Callable[[], Any], *others: Cluster) -> Any:
        """All controllers make passes until the condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not (found := what()):
            assert time.monotonic() < deadline, rows(self.database)
            for one in (self, *others):
                one.controller.step()
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """End all that runs."""
        prefix = f"hetopt-{self.database.cluster}-"
        self.controller.close()
        while found := [pid for pid, tag in tagged() if tag.startswith(prefix)]:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters with one GPU."""
    node = host(devices(1))
    clusters = Cluster(tmp_path / "s1", node), Cluster(tmp_path / "s2", node)
    yield clusters
    for one in clusters:
        one.close()


def test_two_state_folders_do_not_share_a_gpu(two: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    """The second job waits, with a note on the node; it runs once the GPU is free."""
    first, second = two
    first.submit("a", tmp_path / "a")
    first.until(lambda: lines_of(tmp_path / "a"))
    second.submit("b", tmp_path / "b")
    (device,) = (seat.device for seat in first.node.seats)
    (holder,) = (lease.tag for lease in first.controller.manager.leases())
    for _ in range(5):
        second.controller.step()
    assert second.controller.manager.leases() == []
    (node,) = second.controller.engine.nodes()
    assert node.note == f"{device} is in use by lease {holder}"
    assert snapshot(second.database).jobs[0]["reason"].startswith("no GPU is available: all are in use outside hetopt")
    cancel(first.database, "a")
    second.until(lambda: lines_of(tmp_path / "b"), first)
    assert lines_of(tmp_path / "a")[-1][2] == "stops"


def test_a_lock_outlives_controller_and_runner(two: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    """Any process of the lease holds the GPU, also one that the job left behind."""
    first, second = two
    left = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]], close_fds=False)"
    program = f"{left}; __import__('time').sleep(1000)"
    command = [sys.executable, "-c", program, str(tmp_path / "a"), COUNT]
    submit(first.database, spec("a", command=command))
    first.until(lambda: lines_of(tmp_path / "a"))
    child = int(lines_of(tmp_path / "a")[0][1])
    (lease,) = first.controller.manager.leases()
    first.controller.close()
    others = [pid for pid, tag in tagged() if tag.startswith(lease.tag) and pid != child]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in others:
            os.kill(pid, number)
    until(lambda: not any(pid in others for pid, _ in tagged()), "the others are dead")
    second.submit("b", tmp_path / "b")
    for _ in range(5):
        second.controller.step()
    assert second.controller.manager.leases() == []
    os.kill(child, signal.SIGKILL)
    second.until(lambda: lines_of(tmp_path / "b"))


def test_one_of_two_simultaneous_starts_waits(two: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    """Both have granted the GPU before either has started anything; the second lease is revoked."""
    first, second = two
    for one, name in zip(two, "ab", strict=True):
        one.submit(name, tmp_path / name)
        one.controller.engine.start = _later  # type: ignore[method-assign]
        one.until(one.controller.manager.leases)
        del one.controller.engine.start  # type: ignore[method-assign]
    first.until(lambda: lines_of(tmp_path / "a"))
    second.until(lambda: second.controller.manager.leases() == [])
    assert lines_of(tmp_path / "b") == []
    assert rows(second.database)[0]["state"] == "queued"
    assert rows(second.database)[0]["losses"] == 0
    cancel(first.database, "a")
    second.until(lambda: lines_of(tmp_path / "b"), first)


def _later(_: object) -> None:
    raise OSError(errno.EAGAIN, "not now")


def test_the_next_controller_starts_the_same_lease_again(two: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    """Its own lock does not block a lease that was started before that could be recorded."""
    first, _ = two
    first.submit("a", tmp_path / "a")
    first.until(lambda: lines_of(tmp_path / "a"))
    with first.database.writing() as connection:
        connection.update("leases", {"state": "intent"})
    first.controller.close()
    first.database = StateDatabase(first.folder)
    first.control()
    first.until(lambda: [lease.state for lease in first.controller.manager.leases()] == ["started"])
    assert len(lines_of(tmp_path / "a")) == 1
