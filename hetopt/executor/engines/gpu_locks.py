"""Locks of GPUs on this machine, so that no GPU is in leases of two clusters (state folders) at the same time.

A lock is a socket in Linux's abstract namespace, bound to the name of the device. All processes of a lease have it
open, and the kernel removes it with the last of them: it survives crashes of controller and runner, and leaves nothing
behind.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

PREFIX = "hetopt/"


def lock_gpus(devices: Iterable[str], tag: str) -> list[socket.socket]:
    """Lock GPUs for a lease, all or none; held until the last process closes the sockets.

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
                held[-1].bind(f"\0{PREFIX}{name}".encode())
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
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        paths = (line.rstrip("\n").rpartition(f" @{PREFIX}")[2] for line in sockets if f" @{PREFIX}" in line)
        pairs = (path.rpartition("/") for path in paths)
        return {device: tag for device, _, tag in pairs if device}
