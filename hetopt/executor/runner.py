"""Runs one node of a lease: ``python -m hetopt.executor.runner DIRECTORY NODE``. Standard library only.

All that an engine starts. It claims the node (a second start finds the claim and exits), starts the job's processes,
stops them on request or when the lease is no longer renewed, and writes the exit file once no process of the job runs
here any more. Its parent, the supervisor, kills what a killed runner leaves behind: processes that a job's shell has
started do not die with the runner, and an engine may lose track of them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from hetopt.executor import lease_directory as files
from hetopt.executor import processes
from hetopt.executor.job_side import LEASE_VARIABLE
from hetopt.executor.lease_record import LeaseRecord

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGURG)  # the last one by Slurm, see its engine
"""Signals that request a runner to stop its job."""

CHECK_SECONDS = 0.1
"""Time between two checks of processes and directory."""

PATIENCE = 10.0
"""Seconds until a file that another host has written must be visible in a shared directory."""

PUNCH_HOLE = 0x01 | 0x02
"""Mode of fallocate(2): KEEP_SIZE and PUNCH_HOLE."""

SCARCE = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE}
"""Errors of a host that lacks resources now, not of the command."""


class Runner:
    """One node of a gang.

    Parameters
    ----------
    lease:
        The lease.
    rank:
        Position of this node in ``lease.nodes``.
    locks:
        Open files that lock the GPUs while any process has them open; the job inherits them.
    """

    def __init__(self, lease: LeaseRecord, rank: int, locks: Sequence[int] = ()) -> None:
        self.lease, self.rank, self.locks = lease, rank, locks
        self.folder, self.seats = lease.folder, lease.seats_on(rank)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.reason: str | None = None
        self.host_problem = False  # whether the host, not the job, prevents the start
        self.stop_requested: float | None = None
        self.signalled: set[int] = set()
        self.tag = f"{lease.tag}.{rank}"
        self.processes = processes.JobProcesses(self.tag, cgroups=not lease.bound_by_engine)
        self.watch = Watch(lease.folder / files.log_file(rank), lease.log_bytes)

    # -- life

    def listen(self) -> None:
        """Handle signals from now on: they request a stop, also before the start."""
        for number in STOPPING:
            signal.signal(number, lambda *_: self._request_stop("stopped"))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, exit codes are lost

    def run(self) -> None:
        """From the claim to the exit file; nothing where another process has claimed the node."""
        if not files.claim(self.folder, self.rank, files.identity()):
            return
        processes.adopt_orphans()  # what the job leaves behind stays below this process
        problem = self._start()
        while problem is None and self._running():
            time.sleep(CHECK_SECONDS)
            self._check()
        reason = self.reason
        left = self.processes.kill(self._reap)
        codes = [worker.returncode for worker in self.workers]
        if reason is None and os.path.exists(self.folder / files.STOP):
            reason = "stopped"  # seen by the job first
        if reason is None:
            reason = "failed" if any(codes) else "ended"
        more = {"host": True} if self.host_problem else {}
        _report(self.folder, self.rank, reason=reason, codes=codes, problem=problem, left=left, **more)

    def _start(self) -> str | None:
        """Start the job; the problem where this is impossible."""
        if (problem := self._missing_gpus()) is not None:
            self.host_problem = True
            return problem
        if not os.path.isdir(self.lease.cwd):
            return f"the working directory {self.lease.cwd!r} is not there on {socket.gethostname()}"
        if (port := self._port()) is None:
            return None  # stopped before
        number = len(self.seats) if self.lease.launch == "worker" else 1
        for local in range(number):
            self._check()  # the lease may have expired during the claim
            if self.reason is not None:
                break
            try:
                self.workers.append(self._launch(local, number, port))
            except (OSError, ValueError, subprocess.SubprocessError) as refused:
                self.host_problem = getattr(refused, "errno", None) in SCARCE
                why = getattr(refused, "strerror", None) or refused
                return f"{self.lease.command[0]!r} cannot be started: {why}"
        self.watch.start()  # after the last fork
        return None

    def _missing_gpus(self) -> str | None:
        """After a crash of its controller, Slurm may start a job without its GPUs."""
        if not self.lease.bound_by_engine:
            return None
        visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
        if len(visible) == len(self.seats):
            return None
        node = self.lease.nodes[self.rank]
        return f"the engine gave {len(visible)} GPUs on {node}; the lease is for {len(self.seats)}"

    def _port(self) -> int | None:
        """The port of rank 0: free when its node started, and published for the other nodes. None: stop requested."""
        path = self.folder / files.PORT
        if self.rank == 0:
            port = free_port(self.lease.port)
            if len(self.lease.nodes) > 1:
                _persist(lambda: files.write_number(path, port))
            return port
        while (found := files.read_number(path)) is None:
            self.watch.read()
            self._check()
            if self.reason is not None:
                return None
            time.sleep(CHECK_SECONDS)
        return found

    def _launch(self, local: int, number: int, port: int) -> subprocess.Popen[bytes]:
        log = os.open(self.folder / files.log_file(self.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        parent = os.getpid()

        def prepare() -> None:
            processes.die_with(parent)
            self.processes.join()

        try:
            return subprocess.Popen(
                self.lease.command,
                cwd=self.lease.cwd,
                env=self._environment(local, number, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.locks,
                preexec_fn=prepare,
            )
        finally:
            os.close(log)

    def _environment(self, local: int, number: int, port: int) -> dict[str, str]:
        lease, nodes = self.lease, self.lease.nodes
        per_node = lease.launch == "node"
        sizes = [1 if per_node else len(lease.seats_on(rank)) for rank in range(len(nodes))]
        own = {
            LEASE_VARIABLE: str(self.folder),
            files.TAG_VARIABLE: self.tag,
            "HETOPT_GPU_TYPES": ",".join(sorted({seat.gpu_type for seat in self.seats})),
            "HETOPT_WORKERS_HERE": str(len(self.seats)),
            "HETOPT_NODE_RANK": str(self.rank),
            "HETOPT_NODES": str(len(nodes)),
            "RANK": str(sum(sizes[: self.rank]) + local),
            "WORLD_SIZE": str(sum(sizes)),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(number),
            "MASTER_ADDR": lease.addresses.get(nodes[0], nodes[0]),
            "MASTER_PORT": str(port),
            "SPT_NOENV": "1",  # or the package setproctitle would overwrite the tag
        }
        if lease.bound_by_engine:
            own["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(seat.device for seat in self.seats if seat.device)
        others = {name: value for name, value in os.environ.items() if not _is_hidden(name)}
        return {**others, **lease.environment, **own}

    # -- while it runs

    def _running(self) -> bool:
        """Whether the job runs: its processes, or, within the grace period, orphans of a stopped shell."""
        if [worker for worker in self.workers if worker.poll() is None]:
            return True
        grace = self.stop_requested is not None and files.now() - self.stop_requested <= self.lease.grace_seconds
        return grace and bool(self.processes.pids())

    def _check(self) -> None:
        now, watch, lease = files.now(), self.watch, self.lease
        if now - watch.renewed > lease.ttl_seconds:
            self._request_stop("fenced")
        if watch.stop:
            self._request_stop("stopped")
        if any(worker.poll() not in (None, 0) for worker in self.workers):
            self._request_stop("failed")
        if lease.most_seconds is not None:
            if (
                watch.second_step is None
                and now - (watch.first_progress or watch.began) > lease.most_seconds_to_first_tick
            ):
                self._request_stop("silent")
            if watch.second_step is not None and now - (watch.first_progress or now) > lease.most_seconds:
                self._request_stop("profiled")
        if self.reason is not None:
            self._signal()
        self._reap()

    def _request_stop(self, reason: str) -> None:
        """Stop the job from the next check on; the first reason counts."""
        self.reason = self.reason or reason

    def _signal(self) -> None:
        """Send SIGTERM to each process of the job once; SIGKILL to all when the grace period is over.

        At first only to the children of the runner and to orphans of a shell: data loaders of a training would die of
        it, and the training without a checkpoint. After half of the grace period to all: a shell may not forward it.
        """
        if self.stop_requested is None:
            self.stop_requested = files.now()
        waited, here = files.now() - self.stop_requested, self.processes.pids()
        if waited > self.lease.grace_seconds:
            processes.send(here, signal.SIGKILL)
            return
        late = waited > self.lease.grace_seconds / 2
        chosen = {pid for pid, parent in here.items() if late or parent not in here} - self.signalled
        processes.send(chosen, signal.SIGTERM)
        self.signalled |= chosen

    def _reap(self) -> bool:
        """Reap ended orphans; whether this process has no child any more."""
        return processes.reap([worker.pid for worker in self.workers if worker.poll() is None])


class Watch(threading.Thread):
    """A thread that reads the lease's directory and limits the log in it (``log_bytes``; 0: no limit).

    A file server that hangs must not prevent fencing.
    """

    def __init__(self, log: Path, log_bytes: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.log, self.log_bytes = log.parent, log, log_bytes
        self.stop = False  # whether the controller has requested a stop
        self.removed = 0  # bytes at the beginning of the log
        self.began = files.now()
        self.renewed = self.began  # when the counter was last seen to change
        self.first_progress: float | None = None  # when the first progress of the job was seen
        self.second_step: float | None = None  # when progress with a second step was first seen, which gives a speed
        self._counter: str | None = None

    def run(self) -> None:
        """Read periodically."""
        while True:
            self.read()
            with suppress(OSError):
                self._limit_log()
            time.sleep(CHECK_SECONDS)

    def _limit_log(self) -> None:
        """Remove the older half of the log once it exceeds its limit."""
        size = os.stat(self.log).st_size
        self.removed = min(self.removed, size)  # the job itself may have emptied it
        if 0 < self.log_bytes < size - self.removed:
            self.removed = remove_beginning(self.log, size - self.log_bytes // 2)

    def read(self) -> None:
        """Read once."""
        now = files.now()  # before the read, which may take long
        counter = files.read_text(self.folder / files.RENEWED)
        if counter is not None and counter != self._counter:
            if self._counter is not None:  # the first value may be old
                self.renewed = now
            self._counter = counter
        self.stop = self.stop or os.path.exists(self.folder / files.STOP)  # Path.exists raises errors of a file server
        if self.second_step is None and (content := files.read_json(self.folder / files.PROGRESS)) is not None:
            self.first_progress = self.first_progress or files.now()
            if content.get("step") != content.get("first_step"):
                self.second_step = files.now()


def _is_hidden(name: str) -> bool:
    """Whether a variable is not for jobs: it would change their calls of Slurm's commands, or opens the dashboard."""
    return name == "HETOPT_TOKEN" or re.match(r"(SBATCH|SLURM|SRUN)_", name) is not None


def _persist(write: Callable[[], object]) -> None:
    """Retry for a while where a disk is full or a server away; then give up: the controller finds out."""
    deadline = files.now() + PATIENCE
    while True:
        with suppress(OSError):
            write()
            return
        if files.now() > deadline:
            return
        time.sleep(CHECK_SECONDS)


def free_port(first: int) -> int:
    """The first port from ``first`` on without a listening process on this machine; ``first`` if all are in use."""
    dual = socket.has_dualstack_ipv6()  # a host may have no IPv6
    family = socket.AF_INET6 if dual else socket.AF_INET
    for port in range(first, first + 100):
        with suppress(OSError), socket.create_server(("", port), family=family, dualstack_ipv6=dual):
            return port
    return first


def remove_beginning(path: Path, end: int) -> int:
    """Remove the bytes before ``end`` of a file, in whole blocks; where the rest begins, which keeps its place.

    Processes may append meanwhile: nothing is copied. Where the file system has no holes (NFS before version 4.2), the
    whole file is emptied, with what is written at that moment.

    Raises
    ------
    OSError
        The file cannot be changed.
    """
    with path.open("r+b", buffering=0) as file:
        end -= end % os.fstat(file.fileno()).st_blksize
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        if end <= 0 or not fallocate(file.fileno(), PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(end)):
            return max(0, end)
        if (number := ctypes.get_errno()) not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number), str(path))
        file.truncate(0)
        return 0


def main(words: list[str]) -> int:
    """Run a node of a lease; 0 also where another process runs it.

    Parameters
    ----------
    words:
        Directory of the lease; number of the node (without it that of Slurm's variable); file descriptors of locks.
    """
    folder, deadline = Path(words[0]), files.now() + PATIENCE
    try:
        while (lease := LeaseRecord.read(folder)) is None and files.now() < deadline:
            time.sleep(CHECK_SECONDS)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        rank = int(words[1]) if len(words) > 1 else 0
        if files.claim(folder, rank, files.identity()):
            _report(folder, rank, reason="failed", problem=f"{problem} than the one on {socket.gethostname()}")
        return 0
    if lease is None:
        print(f"{folder / files.LEASE} cannot be read", file=sys.stderr)
        return 1
    name = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    rank = int(words[1]) if len(words) > 1 else lease.nodes.index(name)
    runner = Runner(lease, rank, [int(word) for word in words[2:]])  # its timeouts begin before the claim
    runner.listen()
    identity, code = _supervised(runner)
    if code == 0:
        return 0
    processes.JobProcesses(None, cgroups=False).kill(processes.reap)  # descendants, before a file server may hang
    if files.read_json(folder / files.claim_file(rank)) != identity or not files.is_absent(
        folder / files.exit_file(rank)
    ):
        return 1  # nothing has begun, another process runs the node, or its end is reported already
    _report(folder, rank, reason="lost", left=runner.processes.kill(processes.reap))
    return 1


def _supervised(runner: Runner) -> tuple[dict[str, Any], int]:
    """Let a child process run the node, and wait for it: its identity and exit code; its orphans become children here.

    If this process is killed, the child gets SIGTERM.
    """
    own = os.getpid()
    processes.adopt_orphans()
    ready, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ready)
            os.close(write_end)  # signals before are lost: Python drops those that arrive during a fork
            processes.die_with(own, signal.SIGTERM)
            runner.run()
            code = 0
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(OSError, ValueError):  # a full disk
                sys.stderr.flush()
            os._exit(code)

    os.close(write_end)
    os.read(ready, 1)  # until the child handles signals, or is dead
    os.close(ready)

    def forward(number: int, _: FrameType | None) -> None:
        processes.send([child], number)

    for number in STOPPING:
        signal.signal(number, forward)
    identity = files.identity(child)
    if runner.reason is not None:  # a signal came before they were forwarded
        processes.send([child], signal.SIGTERM)
    ended, status = os.wait()
    while ended != child:
        ended, status = os.wait()
    return identity, os.waitstatus_to_exitcode(status)


def _report(folder: Path, rank: int, **content: Any) -> None:
    """Write the exit file."""
    content = {"codes": [], "problem": None, "left": []} | content
    _persist(lambda: files.write_json(folder / files.exit_file(rank), content))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
