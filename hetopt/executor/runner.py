"""Runs one node of a lease: ``python -m hetopt.executor.runner DIRECTORY NODE``. Standard library only.

The only thing that an engine starts. It claims the node (a second start finds the claim and leaves), starts the job's
processes, stops them when it is asked to or when the lease is no longer renewed, and writes how it ended once nothing
of the job runs here any more.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hetopt.executor import lease_directory as files
from hetopt.executor import processes
from hetopt.executor.job_side import LEASE_VARIABLE
from hetopt.executor.lease_record import LeaseRecord
from hetopt.executor.supervisor import STOPPING, supervised

LOOK_SECONDS = 0.1
"""How often a runner looks at its processes and at its directory."""

PATIENCE = 10.0
"""Seconds in which a shared directory must show what was written elsewhere."""

PORTS_TRIED = 100
"""Ports that are probed for rank 0."""

SCARCE = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE}
"""Errors of a host that has too little of something now, not of the command."""


class Runner:
    """One node of a gang.

    Parameters
    ----------
    lease:
        The lease.
    rank:
        Position of this node in ``lease.nodes``.
    locks:
        Open files that lock the GPUs for as long as a process has them open: the job gets them, too.
    """

    def __init__(self, lease: LeaseRecord, rank: int, locks: Sequence[int] = ()) -> None:
        self.lease, self.rank, self.locks = lease, rank, locks
        self.folder, self.seats = lease.folder, lease.seats_on(rank)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.reason: str | None = None
        self.host = False  # the host, not the job, is the reason why it cannot start
        self.asked: float | None = None
        self.signalled: set[int] = set()
        self.processes = processes.JobProcesses(f"{lease.tag}.{rank}", cgroups=not lease.bound_by_engine)
        self.watch = Watch(lease.folder)

    # -- life

    def listen(self) -> None:
        """From now on a signal has the job stop, whether it has begun or not."""
        for number in STOPPING:
            signal.signal(number, lambda *_: self._ask("stopped"))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, exit codes are lost

    def try_to_run(self) -> None:
        """Run the node, unless another process does."""
        if files.claim(self.folder, self.rank, files.identity()):
            self.run()

    def run(self) -> None:
        """From the claim to the exit file."""
        processes.adopt_orphans()  # what the job leaves behind stays below this process
        problem = self._start()
        while problem is None and self._running():
            time.sleep(LOOK_SECONDS)
            self._look()
        reason = self.reason
        left = self.processes.kill(self._reap)
        codes = [worker.returncode for worker in self.workers]
        if reason is None and os.path.exists(self.folder / files.STOP):
            reason = "stopped"  # the job has seen it before this process
        if reason is None:
            reason = "failed" if any(codes) else "ended"
        _report(self.folder, self.rank, reason=reason, codes=codes, problem=problem, host=self.host, left=left)

    def _start(self) -> str | None:
        """Start the job; what is wrong if this is impossible."""
        if (problem := self._missing_gpus()) is not None:
            self.host = True
            return problem
        if not os.path.isdir(self.lease.cwd):
            return f"the working directory {self.lease.cwd!r} is not there on {socket.gethostname()}"
        if (port := self._port()) is None:
            return None  # it was stopped before
        self.processes.make_cgroup()
        number = len(self.seats) if self.lease.launch == "worker" else 1
        for local in range(number):
            self._look()  # the lease may have expired before the claim was complete
            if self.reason is not None:
                break
            try:
                self.workers.append(self._launch(local, number, port))
            except (OSError, ValueError, subprocess.SubprocessError) as refused:
                self.host = getattr(refused, "errno", None) in SCARCE
                why = getattr(refused, "strerror", None) or refused
                return f"{self.lease.command[0]!r} cannot be started: {why}"
        self.watch.start()  # after the last fork
        return None

    def _missing_gpus(self) -> str | None:
        """After a crash of its controller, Slurm may start a job without the GPUs that it was promised."""
        if not self.lease.bound_by_engine:
            return None
        visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
        if len(visible) == len(self.seats):
            return None
        node = self.lease.nodes[self.rank]
        return f"the engine gave {len(visible)} GPUs on {node}; the lease is for {len(self.seats)}"

    def _port(self) -> int | None:
        """The port of rank 0: free when its node started, and published for the other nodes. None: asked to stop."""
        path = self.folder / files.PORT
        if self.rank == 0:
            port = free_port(self.lease.port)
            if len(self.lease.nodes) > 1:
                _insist(lambda: files.write_number(path, port))
            return port
        while (found := files.read_number(path)) is None:
            self.watch.look()
            self._look()
            if self.reason is not None:
                return None
            time.sleep(LOOK_SECONDS)
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
            files.TAG_VARIABLE: self.processes.tag,
            "HETOPT_GPU_TYPES": ",".join(sorted({seat.gpu_type for seat in self.seats})),
            "HETOPT_WORKERS_HERE": str(len(self.seats)),
            "HETOPT_NODE_RANK": str(self.rank),
            "HETOPT_NODES": str(len(nodes)),
            "RANK": str(sum(sizes[: self.rank]) + local),
            "WORLD_SIZE": str(sum(sizes)),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(number),
            "MASTER_ADDR": lease.address(0),
            "MASTER_PORT": str(port),
            "SPT_NOENV": "1",  # or the package setproctitle would overwrite the tag
        }
        if lease.bound_by_engine:
            own["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(seat.device for seat in self.seats if seat.device)
        others = {name: value for name, value in os.environ.items() if not _is_the_engines(name)}
        return {**others, **lease.environment, **own}

    # -- while it runs

    def _running(self) -> bool:
        """Whether the job goes on: its processes, or, within the grace, what a shell that was asked has left behind."""
        if [worker for worker in self.workers if worker.poll() is None]:
            return True
        grace = self.asked is not None and files.now() - self.asked <= self.lease.grace_seconds
        return grace and bool(self.processes.pids())

    def _look(self) -> None:
        now, watch, lease = files.now(), self.watch, self.lease
        if now - watch.renewed > lease.ttl_seconds:
            self._ask("fenced")
        if watch.stop:
            self._ask("stopped")
        if any(worker.poll() not in (None, 0) for worker in self.workers):
            self._ask("failed")
        if lease.most_seconds is not None:
            if watch.rate is None and now - (watch.progress or watch.began) > lease.most_seconds_to_first_tick:
                self._ask("silent")
            if watch.rate is not None and now - (watch.progress or now) > lease.most_seconds:
                self._ask("profiled")
        if self.reason is not None:
            self._urge()
        self._reap()
        limit_log(self.folder / files.log_file(self.rank), lease.log_bytes)

    def _ask(self, reason: str) -> None:
        """Have the job stop; the first reason stays."""
        if self.reason is None:
            self.reason = reason

    def _urge(self) -> None:
        """Ask each process of the job once; kill them all when the grace is over.

        First asked are only those that the runner has started, and what a shell leaves behind that dies of it: were the
        helpers of a training asked too (those that load its data, say), they would die, and it would end without a
        checkpoint. Half of the grace later all are asked: a shell may not have passed it on.
        """
        if self.asked is None:
            self.asked = files.now()
        waited, here = files.now() - self.asked, self.processes.pids()
        if waited > self.lease.grace_seconds:
            processes.send(here, signal.SIGKILL)
            return
        late = waited > self.lease.grace_seconds / 2
        chosen = {pid for pid, parent in here.items() if late or parent not in here} - self.signalled
        processes.send(chosen, signal.SIGTERM)
        self.signalled |= chosen

    def _reap(self) -> bool:
        """Reap ended orphans; whether nothing at all is below this process any more."""
        return processes.reap([worker.pid for worker in self.workers if worker.poll() is None])


class Watch(threading.Thread):
    """Looks into the shared directory by itself, so that a file server that hangs does not keep a runner from fencing.

    Attributes
    ----------
    renewed:
        When the counter was last seen to change; at first, when the runner began.
    stop:
        Whether the controller has asked the job to stop.
    progress:
        When the job was first seen to have told of a step, or None.
    rate:
        When it was first seen to have told of a second step, so that its speed is known, or None.
    began:
        When the runner began.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.stop = folder, False
        self.began = self.renewed = files.now()
        self.progress: float | None = None
        self.rate: float | None = None
        self._counter: str | None = None

    def run(self) -> None:
        """Look again and again."""
        while True:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look once."""
        now = files.now()  # before looking, which may take long: nothing that is newer has been seen
        counter = files.read_text(self.folder / files.RENEWED)
        if counter is not None and counter != self._counter:
            if self._counter is not None:  # what is there at first may be old
                self.renewed = now
            self._counter = counter
        self.stop = self.stop or os.path.exists(self.folder / files.STOP)  # Path.exists raises errors of a file server
        content = files.read_json(self.folder / files.PROGRESS) if self.rate is None else None
        if content is not None and self.progress is None:
            self.progress = files.now()
        if content is not None and content.get("step") != content.get("first_step"):
            self.rate = files.now()


def _is_the_engines(name: str) -> bool:
    """Variables that would make a job's own calls of the engine's commands behave as if inside of it."""
    return re.match(r"(SBATCH|SLURM|SRUN)_", name) is not None


def _insist(write: Callable[[], object]) -> None:
    """Try again for a while where a disk is full or a server away; then leave it to the controller to find out."""
    deadline = files.now() + PATIENCE
    while True:
        try:
            write()
        except OSError:
            if files.now() > deadline:
                return
            time.sleep(LOOK_SECONDS)
        else:
            return


def free_port(first: int) -> int:
    """The first port from this one on that no process of this machine listens on now; the first if all are in use."""
    for port in range(first, first + PORTS_TRIED):
        with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what was closed just now is free
            probe.bind(("", port))
            return port
    return first


def limit_log(path: Path, limit: int) -> None:
    """Move the content of a log aside once it has half of this many bytes: it and the newest output are retained."""
    with suppress(OSError):
        if limit and os.stat(path).st_size > limit // 2:
            shutil.copyfile(path, f"{path}.old")
            os.truncate(path, 0)  # the job appends


def main(words: list[str]) -> int:
    """Run a node of a lease; 0 also where another process does.

    Parameters
    ----------
    words:
        Directory of the lease; number of the node (else Slurm says on which node this is); open files that are locks.
    """
    folder, deadline = Path(words[0]), files.now() + PATIENCE
    try:
        while (lease := LeaseRecord.read(folder)) is None and files.now() < deadline:
            time.sleep(LOOK_SECONDS)
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
    runner = Runner(lease, rank, [int(word) for word in words[2:]])  # its time runs from before the claim
    runner.listen()
    identity, code = supervised(runner.try_to_run, lambda: runner.reason is not None)
    if code == 0:
        return 0
    if files.read_json(folder / files.claim_file(rank)) != identity or (folder / files.exit_file(rank)).exists():
        return 1  # it has begun nothing, or another process runs the node; or its end is reported already
    _report(folder, rank, reason="lost", left=runner.processes.kill(processes.reap))
    return 1


def _report(
    folder: Path,
    rank: int,
    *,
    reason: str,
    codes: Sequence[int] = (),
    problem: str | None = None,
    host: bool = False,
    left: Sequence[int] = (),
) -> None:
    """Write how the node ended."""
    content: dict[str, Any] = {"reason": reason, "codes": list(codes), "problem": problem, "left": list(left)}
    if host:
        content["host"] = True
    _insist(lambda: files.write_json(folder / files.exit_file(rank), content))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
