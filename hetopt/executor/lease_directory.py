"""The directory of a lease: the files between controller, runners and job. Standard library only. It has ::

    lease.json          what to run where, from which step              written by the controller, once
    renewed             a counter that goes up while the controller is alive
    stop                why the job is to stop
    claim-R             identity of the process that runs node R        by its runner (or the controller, to revoke it)
    port                port of rank 0, free when the job started       by the runner of node 0 of a gang
    progress.json       step and speed                                  by the job
    ticked              the last step
    losses.jsonl        losses
    checkpoints/step-N  published checkpoints
    stop_at             the step at which all ranks stop                by rank 0 of the job
    outcome.json        the report of the job at its end
    problem-R.json      the error that ended rank R of the job (that of rank 0 is in outcome.json)
    exit-R.json         how node R ended; written when nothing of it runs any more
    log-R               output of the job on node R; at its limit the beginning is removed, which leaves a hole

Files are published whole, by a rename or a link, except numbers, which are overwritten in place: a full disk does not
prevent that, and no host caches that there is no such file. Reading a missing or damaged file gives None.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LEASE, RENEWED, STOP, STOP_AT, PORT, TICKED = "lease.json", "renewed", "stop", "stop_at", "port", "ticked"
PROGRESS, LOSSES, OUTCOME, CHECKPOINTS = "progress.json", "losses.jsonl", "outcome.json", "checkpoints"
LOG_BYTES = 1 << 30
"""Limit of a job's log on each node where the job's file has none."""

TAG_VARIABLE = "HETOPT_TAG"
"""Environment variable of every process of a lease: its tag, a dot, the node's number (``runner`` for runners)."""

SET_FOR_JOBS = {
    *("CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("HETOPT_LEASE", TAG_VARIABLE, "HETOPT_GPU_TYPES", "HETOPT_WORKERS_HERE", "HETOPT_NODE_RANK", "HETOPT_NODES"),
    "SPT_NOENV",
}
"""Environment variables that a runner sets for the processes of a job, which its file may not."""


claim_file, exit_file, log_file = "claim-{}".format, "exit-{}.json".format, "log-{}".format
problem_file = "problem-{}.json".format
"""Names of files of a node, and of a rank of the job."""

ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors that prove that there is no such file; all others may be temporary."""


def is_absent(path: str | Path) -> bool:
    """Whether there is certainly no such file.

    Raises
    ------
    OSError
        The file server fails; that proves nothing.
    """
    try:
        os.stat(path)
    except OSError as problem:
        if problem.errno not in ABSENT:
            raise
        return True
    return False


def now() -> float:
    """Seconds since this machine was started, with those of suspension; monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Identifier of this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started(pid: int) -> int | None:
    """When the process began, in clock ticks since the machine was started; None without a live process."""
    return _field(pid, 19)


def parent(pid: int) -> int | None:
    """The parent of a process; None without a live process."""
    return _field(pid, 1)


def _field(pid: int, number: int) -> int | None:
    """A field of /proc/PID/stat after the name, which may hold any bytes; None for a zombie, too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1):  # of more threads only the first has ended
        return None
    return int(fields[number])


def identity(pid: int | None = None) -> dict[str, Any]:
    """Identity of a process (by default this one), unique over reused process numbers and over reboots."""
    pid = os.getpid() if pid is None else pid
    return {"host": socket.gethostname(), "boot": boot_id(), "pid": pid, "started": started(pid)}


def write_json(path: Path, content: Any, *, durable: bool = True) -> None:
    """Publish ``content`` at ``path`` whole or not at all; durable: it survives a crash of the machine."""
    with _spare(path, content, durable=durable) as spare:
        os.replace(spare, path)
    if durable:
        sync_folder(path.parent)


@contextmanager
def _spare(path: Path, content: Any, *, durable: bool = True) -> Iterator[Path]:
    """A hidden file with the content beside ``path``, to be published; removed if it was not."""
    spare = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(spare, "w", encoding="utf-8") as file:
            file.write(json.dumps(content))  # json.dump does not use the encoder in C
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield spare
    except BaseException:
        with suppress(OSError):
            spare.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The content that :func:`write_json` has written; None where it is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):  # the last: damaged content such as [[[[…
        return None
    return content if isinstance(content, dict) else None


def read_text(path: Path) -> str | None:
    """The text of a small file; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def claim(folder: Path, rank: int, owner: dict[str, Any]) -> bool:
    """Claim node ``rank`` of the lease, for ever; False where it is claimed already.

    ``link`` fails if the name is there, on NFS too; the content is complete from the first moment.
    """
    path = folder / claim_file(rank)
    with _spare(path, owner) as spare:
        try:
            os.link(spare, path)
        except OSError as problem:
            if os.stat(spare).st_nlink != 2:  # a file server may have made the link and lost its reply
                if isinstance(problem, FileExistsError):
                    return False
                raise
        finally:
            with suppress(OSError):  # what was published stays so
                spare.unlink(missing_ok=True)
    sync_folder(folder)
    return True


def renew(folder: Path, counter: int) -> None:
    """Renew a lease: overwrite its counter."""
    write_number(folder / RENEWED, counter)


def write_number(path: Path, number: int | None) -> None:
    """Overwrite a number in place; None reserves the space for a later one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(handle, b" " * 20 + b"\n" if number is None else b"%020d\n" % number, 0)
    except OSError as problem:  # pwrite names no file
        raise OSError(problem.errno, problem.strerror, str(path)) from None
    finally:
        os.close(handle)


def read_number(path: Path) -> int | None:
    """A number of :func:`write_number`; None where it is missing or incomplete."""
    content = read_text(path)
    return int(content) if content is not None and len(content) == 21 and content[:20].isdecimal() else None


def published(folder: Path) -> list[tuple[int, Path]]:
    """The complete checkpoints of a lease: (step, folder), the last step first.

    Raises
    ------
    OSError
        The file server fails; that proves nothing.
    """
    return [(step, path) for step, path in checkpoints(folder) if is_complete(path)]


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """All checkpoints that a lease has published, also those that are damaged: (step, folder), the last step first."""
    try:
        names = os.listdir(folder / CHECKPOINTS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    steps = [name for name in names if re.fullmatch("step-[0-9]{1,15}", name)]
    return sorted(((int(name[5:]), folder / CHECKPOINTS / name) for name in steps), reverse=True)


def is_complete(checkpoint: Path) -> bool:
    """Whether every file of the checkpoint has the length in the list, which was written last.

    Raises
    ------
    OSError
        The file server fails; that proves nothing.
    """
    try:
        content = json.loads((checkpoint / "files.json").read_bytes())
        sizes = content["bytes"]
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except OSError as problem:
        if problem.errno not in ABSENT:
            raise
        return False
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):  # it is not a list
        return False
