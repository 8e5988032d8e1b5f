"""How a runner starts a job: its environment, the length of profiling runs, and failures to start."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from executor_cluster import granted, opened
from executor_leases import (
    COUNT,
    Clock,
    Runners,
    alive,
    content_of,
    ended,
    lines_of,
    make_lease,
    recorded,
    seats,
    steps_of,
)
from waiting import until

from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.job_file import read_job
from hetopt.executor.queue import submit
from hetopt.executor.runner import Runner, Watch, free_port, remove_beginning
from hetopt.executor.state_database import StateDatabase

TRAIN = """
import sys, time
from hetopt.executor import lease
with lease() as job:
    step = job.resume_step
    time.sleep(float(sys.argv[1]))
    while step < (job.total_steps or 1e9) and not job.should_stop():
        time.sleep(float(sys.argv[2]))
        step += 1
        job.tick(step)
    job.save(step, lambda folder: (folder / "step").write_text(str(step)))
    job.done(step == job.total_steps)
"""
"""Trains: seconds until it begins, and of a step."""


# -- jobs that cannot be started


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"command": ["/no/such/program"]}, "'/no/such/program' cannot be started: No such file or directory"),
        ({"command": ["/etc/passwd"]}, "'/etc/passwd' cannot be started: Permission denied"),
        ({"command": ["/tmp"]}, "'/tmp' cannot be started: Permission denied"),
        ({"command": ["echo", "a\0b"]}, "'echo' cannot be started: embedded null byte"),
        ({"environment": {"A=B": "x"}}, "'true' cannot be started: illegal environment variable name"),
        ({"cwd": "/no/such/folder"}, "the working directory '/no/such/folder' is not there on "),
        ({"cwd": "/etc/passwd"}, "the working directory '/etc/passwd' is not there on "),
        ({"cwd": f"/{'x' * 300}"}, f"the working directory '/{'x' * 300}' is not there on "),
    ],
)
def test_a_job_that_cannot_be_started_has_failed(settings: dict[str, Any], problem: str, runners: Runners) -> None:
    folder = runners.lease("", **{"command": ["true"], **settings})
    content = runners.run(folder)
    assert content["problem"].startswith(problem)
    assert (content["codes"], content["left"], "host" in content) == ([], [], False)


@pytest.mark.parametrize(("error", "host"), [("EAGAIN", True), ("ENOMEM", True), ("ENOENT", False)])
def test_a_host_without_resources_is_no_failure_of_the_job(error: str, host: bool, runners: Runners) -> None:
    folder = runners.lease("", command=["true"])
    raises = f"import errno\ndef refuse(*_):\n    raise OSError(errno.{error}, 'no')\nrunner.Runner._launch = refuse"
    content = runners.run(folder, before=raises)
    assert (content["problem"], content.get("host", False)) == ("'true' cannot be started: no", host)


def test_if_a_worker_cannot_be_started_the_others_are_killed(runners: Runners, tmp_path: Path) -> None:
    """The others are killed."""
    (tmp_path / "job").symlink_to("/bin/sleep")
    folder = runners.lease("", command=[str(tmp_path / "job"), "1000"], own=seats(a=2))
    vanish = (
        f"import os; launch = runner.Runner._launch\n"
        f"def once(*words):\n    made = launch(*words)\n    os.unlink({str(tmp_path / 'job')!r})\n    return made\n"
        "runner.Runner._launch = once"
    )
    content = runners.run(folder, before=vanish)
    assert content["problem"].endswith("/job' cannot be started: No such file or directory")
    assert (content["codes"], content["left"]) == ([-9], [])


# -- the environment of the job

DUMP = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))"
ENGINES = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "9", "SBATCH_EXCLUSIVE": "1", "SRUN_DEBUG": "3"}


def environments(folder: Path, number: int) -> list[dict[str, str]]:
    return [json.loads((folder / f"environment{rank}").read_text()) for rank in range(number)]


@pytest.mark.parametrize("launch", ["worker", "node"])
def test_the_environment_of_workers_on_two_nodes(launch: str, runners: Runners, tmp_path: Path) -> None:
    own = seats(a=2, b=1)
    environment = {"MINE": "yes", "RANK": "99", "CUDA_VISIBLE_DEVICES": "all"}
    folder = runners.lease(DUMP, tmp_path / "environment", own=own, launch=launch, environment=environment, port=23456)
    inherited = ENGINES | {"HETOPT_LEASE": "another", "LOCAL_RANK": "9", "PLAIN": "yes"}
    for rank in (0, 1):
        assert runners.run(folder, rank, **inherited)["reason"] == "ended"
    workers = 3 if launch == "worker" else 2
    for rank, mine in enumerate(environments(tmp_path, workers)):
        node = int(rank == workers - 1)
        number = 1 if launch == "node" or node == 1 else 2
        tag = f"{content_of(folder, files.LEASE)['tag']}.{node}"
        expected = {
            "HETOPT_LEASE": str(folder), "HETOPT_TAG": tag, "HETOPT_GPU_TYPES": "fast", "MINE": "yes", "PLAIN": "yes",
            "HETOPT_WORKERS_HERE": "21"[node], "HETOPT_NODE_RANK": str(node), "HETOPT_NODES": "2", "RANK": str(rank),
            "WORLD_SIZE": str(workers), "LOCAL_RANK": str(rank if node == 0 else 0), "LOCAL_WORLD_SIZE": str(number),
            "MASTER_ADDR": "a", "MASTER_PORT": "23456", "SPT_NOENV": "1",
            "CUDA_VISIBLE_DEVICES": ["GPU-a0,GPU-a1", "GPU-b0"][node],
        }  # fmt: skip
        assert expected.items() <= mine.items()
        assert expected.keys() - {"MINE", "PLAIN"} == files.SET_FOR_JOBS
        assert not ENGINES.keys() & mine.keys()


def test_nodes_of_a_lease_end_independently(runners: Runners, tmp_path: Path) -> None:
    book = tmp_path / "book"
    program = "import os, sys\nif os.environ['HETOPT_NODE_RANK'] == '0':\n    sys.exit()\n" + COUNT
    folder = runners.lease(program, book, own=seats(a=1, b=1))
    assert runners.run(folder, 0)["reason"] == "ended"
    other = runners.start(folder, 1)
    until(lambda: lines_of(book), "node 1 lives")
    assert [line[2] for line in lines_of(book)] == ["begins"]
    assert alive(lines_of(book)[0][1])
    other.terminate()
    assert ended(other, folder, 1)["reason"] == "stopped"


def test_a_port_in_use_is_not_given_to_rank_0(runners: Runners, tmp_path: Path) -> None:
    """All nodes get the port that was free, also those that start first."""
    with socket.create_server(("", 0)) as busy, socket.create_server(("", 0)) as also_busy:
        taken = {busy.getsockname()[1], also_busy.getsockname()[1]}
        folder = runners.lease(DUMP, tmp_path / "environment", own=seats(a=1, b=1), port=busy.getsockname()[1])
        second = runners.start(folder, 1)
        until(lambda: (folder / files.claim_file(1)).exists(), "it waits for the port")
        assert runners.run(folder, 0)["reason"] == "ended"
        assert ended(second, folder, 1)["reason"] == "ended"
        ports = [int(mine["MASTER_PORT"]) for mine in environments(tmp_path, 2)]
    assert ports[0] == ports[1]
    assert not taken & set(ports)
    with socket.create_server(("", ports[0])):
        pass


def test_ports_are_probed_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the kernel's option `ipv6.disable=1`, under which Python still knows the family."""

    class Sockets(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *more: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *more)

    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        monkeypatch.setattr(socket, "socket", Sockets)
        assert free_port(port) > port


def test_a_node_that_waits_for_the_port_can_be_stopped(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(DUMP, tmp_path / "environment", own=seats(a=1, b=1))
    second = runners.start(folder, 1)
    until(lambda: (folder / files.claim_file(1)).exists(), "it waits for the port")
    (folder / files.STOP).write_text("cancelled")
    assert ended(second, folder, 1) == {"reason": "stopped", "codes": [], "problem": None, "left": []}


def test_the_log_has_a_limit(runners: Runners) -> None:
    """The newest output is retained, whole, at its place; what is before it takes no room."""
    program = "for i in range(4000): print(f'{i:99d}', flush=True)\n__import__('time').sleep(10_000)"
    folder = runners.lease(program, log_bytes=200_000)
    process, log = runners.start(folder), folder / files.log_file(0)
    until(lambda: log.exists() and log.stat().st_size == 400_000, "all is printed")
    until(lambda: log.stat().st_blocks * 512 <= 200_000, "the beginning is removed")
    process.terminate()
    assert ended(process, folder)["reason"] == "stopped"
    whole = "".join(f"{i:99d}\n" for i in range(4000)).encode()
    with log.open("rb") as file:
        begin = os.lseek(file.fileno(), 0, os.SEEK_DATA)
        assert os.pread(file.fileno(), len(whole), begin) == whole[begin:]
    assert 0 < begin <= 300_000
    assert not log.read_bytes()[:begin].strip(b"\0")


def test_the_limit_holds_after_a_job_has_emptied_its_log(tmp_path: Path) -> None:
    """Its next output begins at 0, far before what was removed."""
    log = tmp_path / "log-0"
    watch = Watch(log, 100_000)
    for written, emptied in ((900_000, False), (0, True), (150_000, False)):
        with log.open("wb" if emptied else "ab") as file:
            file.write(b"x" * written)
        watch._limit_log()
        assert log.stat().st_blocks * 512 <= 100_000


def test_a_log_on_a_file_system_without_holes_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not where the call fails for another reason."""
    path, numbers = tmp_path / "log-0", [errno.EIO, errno.EOPNOTSUPP]
    path.write_text("x" * 10_000)

    def refuse(*_: object) -> int:
        ctypes.set_errno(numbers.pop(0))
        return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(fallocate=refuse))
    assert remove_beginning(path, 100) == 0, "less than a block"
    with pytest.raises(OSError, match="Input/output error"):
        remove_beginning(path, 5000)
    assert path.stat().st_size == 10_000
    assert remove_beginning(path, 5000) == 0
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    ("text", "limit"), [("", 1 << 30), ("log: 1 MiB", 1 << 20), ("log: 5000", 5000), ("log: 0", 0)]
)
def test_the_limit_of_the_log_comes_from_the_file_of_the_job(text: str, limit: int, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"name: one\ncommand: ['true']\nsteps: 3\n{text}\n")
    database = StateDatabase(tmp_path / "state")
    submit(database, read_job(tmp_path / "job.yaml"))
    assert granted(database, 1, seats(a=1)) is not None
    (lease,) = opened(database)
    assert (lease.log_bytes, type(lease.log_bytes)) == (limit, int)
    with database.writing() as connection:  # a job of an earlier version has no such key
        connection.change("UPDATE jobs SET spec = json_remove(spec, '$.log')")
    assert [lease.log_bytes for lease in opened(database)] == [1 << 30]
    database.close()


@pytest.mark.parametrize("text", ["1 GHz", "-1", ".inf", "yes"])
def test_limits_of_logs_that_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"name: one\ncommand: ['true']\nsteps: 3\nlog: {text}\n")
    with pytest.raises(InvalidOption, match="log"):
        read_job(tmp_path / "job.yaml")


def test_the_rank_of_a_node_comes_from_slurm(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(DUMP, tmp_path / "environment", own=seats(a=1, b=1))
    files.write_number(folder / files.PORT, 23456)
    process = runners.start(folder, None, SLURMD_NODENAME="b")
    assert ended(process, folder, 1)["reason"] == "ended"
    assert not (folder / files.claim_file(0)).exists()


@pytest.mark.parametrize(("visible", "problem"), [("3,5", None), ("3", "1 GPUs"), ("", "0 GPUs"), ("1,2,3", "3 GPUs")])
def test_a_job_gets_the_gpus_that_the_engine_picks(
    visible: str, problem: str | None, runners: Runners, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"bound_by_engine": True, "environment": {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}}
    folder = runners.lease(DUMP, tmp_path / "environment", own=seats(a=2), **settings)
    content = runners.run(folder, CUDA_VISIBLE_DEVICES=visible)
    if problem is None:
        assert content == {"reason": "ended", "codes": [0, 0], "problem": None, "left": []}
        assert {mine["CUDA_VISIBLE_DEVICES"] for mine in environments(tmp_path, 2)} == {visible}
    else:
        assert content["problem"] == f"the engine gave {problem} on a; the lease is for 2"
        assert (content["codes"], content["host"]) == ([], True)
        assert not (tmp_path / "told0").exists()


# -- profiling runs


def test_a_profiling_run_lasts_from_its_first_step(runners: Runners) -> None:
    folder = runners.lease(TRAIN, 1.0, 0.02, kind="profile", most_seconds=1.0)
    assert runners.run(folder) == {"reason": "profiled", "codes": [0], "problem": None, "left": []}
    progress = content_of(folder, files.PROGRESS)
    assert progress["step"] > progress["first_step"] == 1
    assert progress["seconds"] > 0.9
    assert steps_of(folder) == [progress["step"]]


@pytest.mark.parametrize(
    ("settings", "progress", "rate", "lives", "reason"),
    [
        ({"ttl_seconds": 60}, None, None, 60, "fenced"),
        ({"most_seconds": 5, "most_seconds_to_first_tick": 10}, None, None, 10, "silent"),
        ({"most_seconds": 5, "most_seconds_to_first_tick": 10}, 8, None, 18, "silent"),
        ({"most_seconds": 5, "most_seconds_to_first_tick": 10}, 8, 9, 13, "profiled"),
        ({"most_seconds": 5, "most_seconds_to_first_tick": 10}, 8, 17, 16, "profiled"),
    ],
    ids=["not renewed", "no step", "one step", "two steps", "two long steps"],
)
def test_the_length_of_a_profiling_run(
    settings: dict[str, float],
    progress: float | None,
    rate: float | None,
    lives: int,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A speed needs two steps; both are counted from the beginning, in seconds, as when they are seen."""
    clock, folder = Clock(), make_lease(tmp_path, **settings)
    monkeypatch.setattr(files, "now", clock)
    own = Runner(recorded(folder), 0)
    for name in ("_signal", "_reap"):
        monkeypatch.setattr(own, name, lambda: None)
    for second in range(lives + 2):
        clock.time = 1000.0 + second
        if second == progress:
            own.watch.first_progress = clock.time
        if second == rate:
            own.watch.second_step = clock.time
        own._check()
        assert own.reason == (reason if second > lives else None), f"after {second} s"


def test_a_profiling_run_without_steps_is_silent(runners: Runners, tmp_path: Path) -> None:
    folder = runners.lease(COUNT, tmp_path / "book", kind="profile", most_seconds=0.1, most_seconds_to_first_tick=1.0)
    assert runners.run(folder)["reason"] == "silent"


def test_other_runs_need_no_steps(runners: Runners) -> None:
    folder = runners.lease("sh:sleep 0.6", most_seconds_to_first_tick=0.1)
    assert runners.run(folder) == {"reason": "ended", "codes": [0], "problem": None, "left": []}


def test_a_finished_job_ends_its_profiling_run(runners: Runners) -> None:
    folder = runners.lease(TRAIN, 0, 0, total_steps=5, until_step=5)
    assert runners.run(folder) == {"reason": "ended", "codes": [0], "problem": None, "left": []}
    assert content_of(folder, files.OUTCOME) == {"step": 5, "finished": True, "asked": False}
