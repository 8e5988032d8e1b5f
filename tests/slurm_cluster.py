"""A Slurm cluster of this machine's own processes, for a test and no longer: loopback, free ports, its own keys.

Debian's packages slurmctld, slurmd, slurm-client, munge and slurm-wlm-basic-plugins have all that it needs; nothing of
the system's configuration is read or changed, and an ordinary user can run it. Several can run side by side.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from left_processes import LENT, children
from waiting import PATIENCE

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scancel", "scontrol")
SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])

NODES = {"k80-0": ("k80", 4), "k80-1": ("k80", 2), "p100-0": ("p100", 2), "v100-0": ("v100", 2)}
"""Node -> (type, number) of its GPUs; they are all in the default partition, ``gpu``."""

PLAIN = "plain-0"
"""A node that has no GPU and is never started, in its own partition, ``plain``."""

CPUS, MEGABYTES = 8, 4000
"""Of each node, by its own word."""

CONFIGURATION = """
ClusterName=hetopt
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile=/dev/null
SlurmdLogFile=/dev/null
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,bf_hetjob_immediate
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ReturnToService=2
MessageTimeout=30
TCPTimeout=30
SlurmctldTimeout=10
SlurmdTimeout={patience}
BatchStartTimeout=600
UnkillableStepTimeout=600
KillWait=4
MinJobAge=600
"""


def missing() -> str | None:
    """Why no cluster can run on this machine."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    return f"Slurm is not on this machine: no {', '.join(absent)}" if absent else None


class SlurmCluster:
    """A cluster that is up within ``with``; afterwards no process and no file of it is left.

    Parameters
    ----------
    nodes:
        Node -> (type, number) of its GPUs, or None in place of the type.
    patience:
        Seconds in which a node's daemon must answer slurmctld, or counts as lost.

    Attributes
    ----------
    folder:
        With its configuration, logs and state.
    configuration:
        What ``SLURM_CONF`` must name for the commands to reach it.
    """

    def __init__(self, nodes: Mapping[str, tuple[str | None, int]] = NODES, *, patience: int = 600) -> None:
        self.nodes, self.patience = nodes, patience
        self.folder = Path(tempfile.mkdtemp(prefix="hetopt-slurm-", dir="/tmp"))  # a socket's path must be short
        self.configuration = self.folder / "slurm.conf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    # -- life

    def __enter__(self) -> SlurmCluster:
        try:
            self._write()
            self._start("munged", "munged", "--foreground", "--force", *self._munge())
            self._wait((self.folder / "munge.socket").exists, "munged")
            self.start_controller()
            for name in self.nodes:
                self.start_node(name)
            self.wait_until_idle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill all that runs, jobs too, and remove the folder."""
        deadline = time.monotonic() + PATIENCE
        while own := [
            *self.processes(),
            *(below for daemon in self.daemons.values() for below in children(daemon.pid)),
        ]:
            for pid in own:
                _kill(pid)
                LENT.discard(pid)
            for daemon in self.daemons.values():
                daemon.poll()
            assert time.monotonic() < deadline, f"processes that cannot be killed: {own}"
            time.sleep(0.05)
        for daemon in self.daemons.values():
            daemon.wait()
            LENT.discard(daemon.pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[int]:
        """What was started with this cluster's configuration: daemons, steps, jobs; slurmscriptd hides it."""
        wanted, found = f"SLURM_CONF={self.configuration}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    # -- daemons

    def start_controller(self) -> None:
        """Start slurmctld; it restores its saved state."""
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.configuration))
        self._wait(lambda: self.call("scontrol", "ping", check=False).endswith("UP"), "slurmctld")
        LENT.update(children(self.daemons["slurmctld"].pid))  # slurmscriptd

    def start_node(self, name: str) -> None:
        """Start a node's slurmd."""
        self._start(name, "slurmd", "-D", "-N", name, "-f", str(self.configuration))

    def kill_daemon(self, name: str) -> None:
        """Kill slurmctld or a node's slurmd, by signal 9; its processes run on."""
        daemon = self.daemons.pop(name)
        helpers = children(daemon.pid) if name == "slurmctld" else []  # slurmscriptd, which may outlive it for long
        daemon.kill()
        for pid in helpers:
            _kill(pid)
        daemon.wait()
        LENT.discard(daemon.pid)

    def wait_until_idle(self) -> None:
        """Until all nodes are up and respond, and nothing runs; after ``state=resume`` a node does not respond yet."""
        wanted = sorted(self.nodes)
        idle = ("sinfo", "-h", "-N", "-r", "-p", "gpu", "-t", "idle", "-o", "%N")
        self._wait(lambda: sorted(set(self.call(*idle, check=False).split())) == wanted, "an idle cluster")

    # -- commands

    @property
    def environment(self) -> dict[str, str]:
        """For a command of this cluster."""
        return {"PATH": SEARCHED, "HOME": str(self.folder), "SLURM_CONF": str(self.configuration)}

    def call(self, *words: str, script: str = "", check: bool = True) -> str:
        """What a command prints."""
        done = subprocess.run(
            words, env=self.environment, input=script, capture_output=True, text=True, timeout=PATIENCE
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, *words: str, name: str = "of-another-user") -> str:
        """Submit a job of another user, which sleeps; its number."""
        common = ("sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", *words)
        return self.call(*common, script="#!/bin/sh\nexec sleep 36000\n")

    # -- parts

    def _write(self) -> None:
        """Keys, configuration and device files."""
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(len(self.nodes) + 2)
        own = {"user": os.geteuid(), "folder": self.folder, "patience": self.patience}
        lines = [CONFIGURATION.format(host=host, ports=ports, **own)]
        gres = ["AutoDetect=off"]
        at = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory={MEGABYTES} State=UNKNOWN"
        for (name, (kind, number)), port in zip(self.nodes.items(), ports[2:], strict=True):
            typed = "" if kind is None else f"{kind}:"
            lines.append(f"NodeName={name} Port={port} Gres=gpu:{typed}{number} {at}")
            (self.folder / name).mkdir()
            for i in range(number):
                (self.folder / name / f"gpu{i}").symlink_to("/dev/null")  # Slurm wants a character device
            device = f"{self.folder}/{name}/gpu[0-{number - 1}]" if number > 1 else f"{self.folder}/{name}/gpu0"
            gres.append(f"NodeName={name} Name=gpu {'' if kind is None else f'Type={kind}'} File={device}")
        lines.append(f"NodeName={PLAIN} Port={ports[1]} {at}")
        lines.append(f"PartitionName=gpu Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE")
        lines.append(f"PartitionName=plain Nodes={PLAIN} MaxTime=INFINITE")
        self.configuration.write_text("\n".join(lines) + "\n")
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nConstrainDevices=no\n")
        (self.folder / "controller").mkdir()

    def _munge(self) -> list[str]:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        return [f"--{option}={self.folder / name}" for option, name in files.items()]

    def _start(self, name: str, program: str, *words: str) -> None:
        path = shutil.which(program, path=SEARCHED)
        assert path is not None, missing()
        with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # also where pytest is killed
        with (self.folder / f"{name}.out").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [*with_us, path, *words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        LENT.add(self.daemons[name].pid)

    def _wait(self, what: Callable[[], object], meaning: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            if time.monotonic() > deadline:
                logs = sorted(self.folder.glob("*.out"))
                output = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in logs)
                raise AssertionError(f"no {meaning} within {PATIENCE:g} s\n{output}")
            time.sleep(0.05)


def _free_ports(number: int) -> list[int]:
    """Free ports below those that the system assigns."""
    found: list[int] = []
    while len(found) < number:
        port = random.SystemRandom().randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
