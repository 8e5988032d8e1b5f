"""The embedded engine: runners are processes of this machine; GPUs by NVML, or declared CPU slots."""

from __future__ import annotations

import errno
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.checks import check_name
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Node, Phase
from hetopt.executor.engines.slots import read_slots
from hetopt.executor.processes import cgroup_pids, cgroups_of, kill_cgroup, remove_empty_cgroups, send, tagged

if TYPE_CHECKING:
    from hetopt.executor.engines.nvidia import GpuWatch

KILL_SECONDS = 5.0
"""How long :meth:`LocalEngine.kill` waits for what it has killed to be gone."""

FRESH_SECONDS = 5.0
"""Greatest age of what is known of GPUs when a lease starts."""

LOCK_PREFIX = "hetopt/"
"""Beginning of the names of GPU locks."""


class LocalEngine:
    """Starts runners as processes of this user.

    They have separate sessions: they go on when the controller ends, until their lease expires.

    Parameters
    ----------
    hosts:
        What this machine offers, under one name or several.
    cluster:
        Beginning of the tags of all leases of this cluster.
    gpus:
        Watches GPUs that were found, in place of the hosts; None: the declared hosts stay.
    """

    name = "local"
    exact_slots = True
    look_seconds = 0.0

    def __init__(self, hosts: tuple[Node, ...], cluster: str, gpus: GpuWatch | None = None) -> None:
        self._hosts, self._prefix, self._gpus = hosts, f"hetopt-{cluster}-", gpus
        self._children: dict[str, list[subprocess.Popen[bytes]]] = {}
        remove_empty_cgroups()

    def nodes(self) -> tuple[Node, ...]:
        """The hosts that were declared, or the one whose GPUs were found, without those that are lost by now."""
        nodes = self._hosts if self._gpus is None else (self._gpus.node(),)
        return tuple(self._with_locks(node) if any(seat.device for seat in node.seats) else node for node in nodes)

    def _with_locks(self, node: Node) -> Node:
        """The node with what its note says of GPUs in use by others, also by leases of other clusters."""
        others = {device: tag for device, tag in holders().items() if not tag.startswith(self._prefix)}
        locked = {seat.device: f"lease {others[seat.device]}" for seat in node.seats if seat.device in others}
        busy = {**node.busy, **locked}
        notes = [f"{device} is in use by {what}" for device, what in busy.items()]
        return replace(node, busy=busy, note="; ".join(filter(None, [node.note, *notes]))) if busy else node

    def start(self, lease: LeaseRecord) -> None:
        """Start a runner for each node of the lease, unless one of this process does already."""
        if lease.tag in self._children:
            return
        devices = [seat.device for seat in lease.seats if seat.device]
        if devices and lease.tag in holders().values():
            return  # an earlier engine object has started it
        if self._gpus is not None:
            _check(self._gpus, lease)
        locks = lock_gpus(devices, lease.tag)
        try:
            self._children[lease.tag] = _start_runners(lease, [lock.fileno() for lock in locks])
        finally:
            for lock in locks:
                lock.close()

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """Those of the tags that have a process."""
        alive = {own.rpartition(".")[0] for _, own in tagged() if own.startswith(self._prefix)}
        for tag, children in list(self._children.items()):
            if any(child.poll() is None for child in children):
                alive.add(tag)  # its environment may not have the tag yet
            else:
                del self._children[tag]
        return dict.fromkeys(tags, Phase.ENDED) | dict.fromkeys(alive, Phase.RUNNING)

    def stop(self, tags: Collection[str]) -> None:
        """Signal the runners, which also read the request in their directory."""
        wanted = {f"{tag}.runner" for tag in tags}
        send([pid for pid, own in tagged() if own in wanted], signal.SIGTERM)

    def kill(self, tags: Collection[str]) -> None:
        """Kill the runners and all that they have started; supervisors last, so that no orphan of theirs is lost."""
        wanted, began = set(tags), files.now()
        while (waited := files.now() - began) < KILL_SECONDS:
            for cgroup in (cgroups := cgroups_of(wanted)):
                kill_cgroup(cgroup)
            found = {pid: own for pid, own in tagged() if own.rpartition(".")[0] in wanted}
            last = {pid for pid, own in found.items() if own.endswith(".runner") and files.parent(pid) not in found}
            send(set(found) - last if waited < KILL_SECONDS / 2 else found, signal.SIGKILL)
            for tag in wanted:
                for child in self._children.get(tag, ()):
                    child.poll()
            if not found and not cgroups:
                return
            time.sleep(0.02)

    def fenced_after(self, tag: str) -> float | None:
        """0 if no process has the tag or is in its cgroup; a process that hangs in a driver may still have it."""
        left = any(own.rpartition(".")[0] == tag for _, own in tagged())
        return math.inf if left or any(map(cgroup_pids, cgroups_of({tag}))) else 0.0

    def close(self) -> None:
        """Release the children; wait for those that have ended."""
        for children in self._children.values():
            for child in children:
                child.returncode = child.poll() or 0  # no warning: it goes on
        self._children.clear()
        if self._gpus is not None:
            self._gpus.close()


def _check(gpus: GpuWatch, lease: LeaseRecord) -> None:
    """Check again that its GPUs exist and are free; at once after a failure, which its GPU may have caused.

    Raises
    ------
    OSError
        A GPU is lost, or in use by processes of others. This is no problem of other leases.
    """
    node = gpus.node(max_age=0.0 if lease.failures else FRESH_SECONDS)
    there = {seat.place for seat in node.seats}
    for seat in lease.seats:
        if seat.device in node.busy:
            raise OSError(errno.EBUSY, f"is in use by {node.busy[seat.device]}", seat.device)
    if missing := [seat.device for seat in lease.seats if seat.place not in there]:
        raise OSError(errno.ENODEV, "is not there any more", ", ".join(missing))


def _start_runners(lease: LeaseRecord, locks: Collection[int]) -> list[subprocess.Popen[bytes]]:
    """Start the runners, all or none; they keep the locks."""
    children: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-P", "-m", "hetopt.executor.runner", str(lease.folder)]
    try:
        with open(lease.folder / "runner.log", "ab", opener=partial(os.open, mode=0o600)) as log:
            for rank in range(len(lease.nodes)):
                child = subprocess.Popen(
                    [*command, str(rank), *map(str, locks)],
                    pass_fds=locks,
                    cwd=lease.folder,
                    env={**os.environ, files.TAG_VARIABLE: f"{lease.tag}.runner"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                children.append(child)
    except OSError as problem:
        for child in children:
            child.kill()
            child.wait()
        raise EngineDown(f"no process can be started on this machine: {problem.strerror}") from None
    return children


# -- locks of GPUs


def lock_gpus(devices: Iterable[str], tag: str) -> list[socket.socket]:
    """Lock GPUs of this machine for a lease, all or none, so that no GPU is in leases of two clusters (state folders).

    A lock is a socket in Linux's abstract namespace, bound to the name of the device. All processes of a lease have it
    open, and the kernel removes it with the last of them: it survives crashes of controller and runner, and leaves
    nothing behind. Each network namespace, and so most containers, has separate names; any user may bind any name.

    Raises
    ------
    OSError
        EBUSY: another lease holds one of them; its ``filename`` is the device.
    """
    held: list[socket.socket] = []
    try:
        for device in devices:
            for name in (device, f"{device}/{tag}"):  # the first excludes others, the second is for holders()
                held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                held[-1].bind(f"\0{LOCK_PREFIX}{name}".encode())
    except OSError as problem:
        for one in held:
            one.close()
        if problem.errno == errno.EADDRINUSE:
            why = f"is in use by lease {holders().get(device, 'of another cluster')}"
            raise OSError(errno.EBUSY, why, device) from None
        raise
    return held


def holders() -> dict[str, str]:
    """Device -> tag of the lease that has locked it on this machine, of any user and cluster."""
    begin = f" @{LOCK_PREFIX}"
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        names = (line.rstrip("\n").rpartition(begin)[2] for line in sockets if begin in line)
        pairs = (name.rpartition("/") for name in names)
        return {device: tag for device, _, tag in pairs if device}


def this_machine(cluster: str, slots: Path | None = None) -> LocalEngine:
    """This machine, with its GPUs by NVML, or with CPU slots that a file declares.

    Raises
    ------
    UnusableFile, InvalidOption
        See :func:`~hetopt.executor.engines.slots.read_slots`; or there are no GPUs.
    MissingPackage
        Without slots: nvidia-ml-py is not installed.
    """
    if slots is not None:
        return LocalEngine(read_slots(Path(slots)), cluster)
    from hetopt.executor.engines import nvidia

    host, own = check_name(socket.gethostname().partition(".")[0], "this machine's name"), f"hetopt-{cluster}-"
    try:
        node, reported = nvidia.find_gpus(host, own)
    except nvidia.NoGPUs as reason:
        raise InvalidOption(f"{reason}; declare CPU slots in a file and name it by --slots") from None
    return LocalEngine((node,), cluster, nvidia.GpuWatch(node, reported, own))
