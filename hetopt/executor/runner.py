"""Runs one node of a lease: ``python -m hetopt.executor.runner DIRECTORY NODE``. Standard library only.

The only thing that an engine starts. It claims the node (a second start finds the claim and leaves), starts the job's
processes, stops them when it is asked to or when the lease is no longer renewed, and writes how it ended once nothing
of the job runs here any more.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

from hetopt.executor import lease_directory as files
from hetopt.executor import processes
from hetopt.executor.job_side import LEASE_VARIABLE
from hetopt.executor.supervisor import STOPPING, supervised

LOOK_SECONDS = 0.1
"""How often a runner looks at its processes and at its directory."""

PATIENCE = 10.0
"""Seconds in which a shared directory must show what was written elsewhere."""

SCARCE = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE}
"""Errors of a host that has too little of something now, not of the command."""


class Runner:
    """One node of a gang.

    Parameters
    ----------
    folder:
        Of the lease.
    said:
        The content of ``lease.json``.
    rank:
        Position of this node in ``said["nodes"]``.
    """

    def __init__(self, folder: Path, said: dict[str, Any], rank: int) -> None:
        self.folder, self.said, self.rank, self.node = folder, said, rank, said["nodes"][rank]
        self.workers: list[subprocess.Popen[bytes]] = []
        self.reason: str | None = None
        self.host = False  # what keeps the job from starting is the host's trouble, not its own
        self.asked: float | None = None
        self.told: set[int] = set()
        self.tag = f"{said['tag']}.{rank}"
        self.watch = Watch(folder)

    # -- life

    def listen(self) -> None:
        """From now on a signal has the job stop, whether it has begun or not."""
        for number in STOPPING:
            signal.signal(number, lambda *_: self._ask("stopped"))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody learns how a process has ended

    def try_to_run(self) -> None:
        """Run the node, unless somebody else does."""
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
        left = processes.kill_all(self.tag, self._bury)
        codes = [worker.returncode for worker in self.workers]
        if reason is None and os.path.exists(self.folder / files.STOP):
            reason = "stopped"  # the job has seen it before this process did
        if reason is None:
            reason = "failed" if any(codes) else "ended"
        _tell(self.folder, self.rank, reason=reason, codes=codes, problem=problem, host=self.host, left=left)

    def _start(self) -> str | None:
        """Start the job; what is wrong if it cannot be."""
        if (problem := self._missing_gpus()) is not None:
            self.host = True
            return problem
        if not os.path.isdir(self.said["cwd"]):
            return f"the working directory {self.said['cwd']!r} is not there on {socket.gethostname()}"
        number = self.node["workers"] if self.said["launch"] == "worker" else 1
        for local in range(number):
            self._look()  # the lease may have run out before the claim was through
            if self.reason is not None:
                break
            try:
                self.workers.append(self._launch(local, number))
            except (OSError, ValueError, subprocess.SubprocessError) as refused:
                self.host = getattr(refused, "errno", None) in SCARCE
                why = getattr(refused, "strerror", None) or refused
                return f"{self.said['command'][0]!r} cannot be started: {why}"
        self.watch.start()  # after the last fork
        return None

    def _missing_gpus(self) -> str | None:
        """After a crash of its controller, Slurm may start a job without the GPUs that it was promised."""
        if not self.said["bound_by_engine"]:
            return None
        visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
        if len(visible) == self.node["workers"]:
            return None
        return f"the engine gave {len(visible)} GPUs on {self.node['name']}; the lease is for {self.node['workers']}"

    def _launch(self, local: int, number: int) -> subprocess.Popen[bytes]:
        log = os.open(self.folder / files.log_file(self.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        parent = os.getpid()
        try:
            return subprocess.Popen(
                self.said["command"],
                cwd=self.said["cwd"],
                env=self._environment(local, number),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: processes.die_with(parent),
            )
        finally:
            os.close(log)

    def _environment(self, local: int, number: int) -> dict[str, str]:
        nodes = self.said["nodes"]
        per_node = self.said["launch"] == "node"
        before = sum(1 if per_node else node["workers"] for node in nodes[: self.rank])
        world = len(nodes) if per_node else sum(node["workers"] for node in nodes)
        own = {
            LEASE_VARIABLE: str(self.folder),
            files.TAG_VARIABLE: self.tag,
            "HETOPT_GPU_TYPES": ",".join(self.node["gpu_types"]),
            "HETOPT_WORKERS_HERE": str(self.node["workers"]),
            "HETOPT_NODE_RANK": str(self.rank),
            "HETOPT_NODES": str(len(nodes)),
            "RANK": str(before + local),
            "WORLD_SIZE": str(world),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(number),
            "MASTER_ADDR": nodes[0]["address"],
            "MASTER_PORT": str(self.said["port"]),
            "SPT_NOENV": "1",  # or the package setproctitle would overwrite the tag
        }
        if self.said["bound_by_engine"]:
            own["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(self.node["devices"])
        kept = {name: value for name, value in os.environ.items() if not _is_the_engines(name)}
        return {**kept, **self.said["environment"], **own}

    # -- while it runs

    def _running(self) -> bool:
        """Whether the job goes on: its processes, or, within the grace, what a shell that was asked has left behind."""
        if [worker for worker in self.workers if worker.poll() is None]:
            return True
        grace = self.asked is not None and files.now() - self.asked <= self.said["grace_seconds"]
        return grace and bool(processes.of(self.tag))

    def _look(self) -> None:
        now, watch, said = files.now(), self.watch, self.said
        if now - watch.renewed > said["ttl_seconds"]:
            self._ask("fenced")
        if watch.stop:
            self._ask("stopped")
        if any(worker.poll() not in (None, 0) for worker in self.workers):
            self._ask("failed")
        if said["most_seconds"] is not None:
            if watch.rate is None and now - (watch.progress or watch.began) > said["most_seconds_to_first_tick"]:
                self._ask("silent")
            if watch.rate is not None and now - (watch.progress or now) > said["most_seconds"]:
                self._ask("profiled")
        if self.reason is not None:
            self._urge()
        self._bury()

    def _ask(self, reason: str) -> None:
        """Have the job stop; the first reason stays."""
        if self.reason is None:
            self.reason = reason

    def _urge(self) -> None:
        """Ask each process of the job once; kill them all when the grace is over.

        First asked are only those that the runner has started, and what a shell leaves behind that dies of it: were the
        helpers of a training asked too (those that load its data, say), they would die, and it would end without a
        checkpoint. Half of the grace later everybody is asked: a shell may not have passed it on.
        """
        if self.asked is None:
            self.asked = files.now()
        waited, here = files.now() - self.asked, processes.of(self.tag)
        if waited > self.said["grace_seconds"]:
            processes.send(here, signal.SIGKILL)
            return
        late = waited > self.said["grace_seconds"] / 2
        chosen = {pid for pid, parent in here.items() if late or parent not in here} - self.told
        processes.send(chosen, signal.SIGTERM)
        self.told |= chosen

    def _bury(self) -> bool:
        """Take note of those that have ended; whether nothing at all is below this process any more."""
        return processes.bury([worker.pid for worker in self.workers if worker.poll() is None])


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
            now = files.now()  # before looking, which may take long: nothing that is newer has been seen
            counter = files.read_text(self.folder / files.RENEWED)
            if counter is not None and counter != self._counter:
                if self._counter is not None:  # what is there at first may be old
                    self.renewed = now
                self._counter = counter
            self.stop = self.stop or os.path.exists(self.folder / files.STOP)  # Path.exists raises on a server's errors
            said = files.read_json(self.folder / files.PROGRESS) if self.rate is None else None
            if said is not None and self.progress is None:
                self.progress = files.now()
            if said is not None and said.get("step") != said.get("first_step"):
                self.rate = files.now()
            time.sleep(LOOK_SECONDS)


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


def _patient(path: Path) -> dict[str, Any] | None:
    """A file that another machine has written, once it can be seen here."""
    deadline = files.now() + PATIENCE
    while (content := files.read_json(path)) is None and files.now() < deadline:
        time.sleep(LOOK_SECONDS)
    return content


def main(words: list[str]) -> int:
    """Run a node of a lease; 0 also where somebody else does."""
    folder = Path(words[0])
    said = _patient(folder / files.LEASE)
    if said is None:
        print(f"{folder / files.LEASE} cannot be read", file=sys.stderr)
        return 1
    rank = int(words[1]) if len(words) > 1 else _rank_here(said)
    if said.get("version") != files.VERSION:
        problem = f"the lease is of another version of hetopt than the one on {socket.gethostname()}"
        if files.claim(folder, rank, files.identity()):
            _tell(folder, rank, reason="failed", problem=problem)
        return 0
    runner = Runner(folder, said, rank)  # its time runs from before the claim: the controller counts on that
    runner.listen()
    who, code = supervised(runner.try_to_run, lambda: runner.reason is not None)
    if code == 0:
        return 0
    if files.read_json(folder / files.claim_file(rank)) != who or (folder / files.exit_file(rank)).exists():
        return 1  # it has begun nothing, or another runs the node; or its end was told already
    _tell(folder, rank, reason="lost", left=processes.kill_all(runner.tag))
    return 1


def _tell(
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


def _rank_here(said: dict[str, Any]) -> int:
    """Position of the node on which Slurm has started this process."""
    name = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    return next(rank for rank, node in enumerate(said["nodes"]) if node["name"] == name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
