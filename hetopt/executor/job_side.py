"""The interface between a training job and its lease. Standard library only; without a lease it does nothing.

A job that does not use it runs too: it starts from the beginning each time, and is done when it exits with 0.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from hetopt.executor import lease_directory as files

LEASE_VARIABLE = "HETOPT_LEASE"
"""Environment variable with the lease's directory."""

POLL_SECONDS = 0.05
"""Shortest time between two reads of the lease's directory, and between two losses."""

REPORT_SECONDS = 0.5
"""Shortest time between two reports of progress."""

RETAINED = 2
"""Checkpoints of a lease that are retained: the newest may be read while the next is published."""

LIST = "files.json"
"""The file of a checkpoint that lists the others."""


class Lease:
    """The job's side of a lease.

    Attributes
    ----------
    resume_step:
        Steps that are done already; the job continues with the next.
    resume_dir:
        Folder of the checkpoint after ``resume_step`` steps; None at the very beginning.
    total_steps:
        Steps of the whole job; None without a lease.
    until_step:
        Step after which this process is to stop: of a forked copy its share, else the same as ``total_steps``.
    rank, world_size, local_rank:
        Of this process in the gang.
    copy:
        Number of the forked copy, 0 for a job that is not forked.
    gpu_types:
        GPU types on this node of the gang.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        content = {} if folder is None else files.read_json(folder / files.LEASE)
        if content is None:
            raise OSError(f"{LEASE_VARIABLE} is {str(folder)!r}, which has no readable {files.LEASE}")
        self.resume_step: int = content.get("resume_step", 0)
        self.resume_dir = None if content.get("resume_dir") is None else Path(content["resume_dir"])
        self.total_steps: int | None = content.get("total_steps")
        self.until_step: int | None = content.get("until_step")
        self.copy: int = content.get("copy", 0)
        self.rank, self.world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.gpu_types = tuple(filter(None, os.environ.get("HETOPT_GPU_TYPES", "").split(",")))
        self._ttl: float = content.get("ttl_seconds", float("inf"))
        self._checkpoint_seconds: float = content.get("checkpoint_seconds", float("inf"))
        self._step = self.resume_step
        self._first: tuple[float, int] | None = None  # end of the first step, and its number
        self._saving = 0.0  # seconds of checkpoints since then
        self._seconds = 0.0  # from then to the newest step, without checkpoints
        self._memory: float | None = None
        self._ticked: int | None = None  # open file of the last step
        self._reported = self._polled = self._loss_written = -1.0
        self._finished: bool | None = None
        self._stop = False  # no threading.Event: a signal handler would deadlock on its lock
        self._stop_at: int | None = None
        now = self._saved = files.now()  # before the read, whose result may be old
        self._renewed = (None if folder is None else files.read_text(folder / files.RENEWED), now)
        if folder is not None and self.rank == 0 and self.world_size > 1:
            with suppress(OSError):
                files.write_number(folder / files.STOP_AT, None)

    # -- requests to the job

    def should_stop(self) -> bool:
        """Whether to leave the loop now: the share is done, or the lease ends.

        The ranks of a gang stop at the same step, which rank 0 chooses a little ahead; they must train in step.
        """
        if self.until_step is not None and self._step >= self.until_step:
            return True
        if self.folder is None:
            return False
        self._poll(self.folder)
        if self.world_size == 1:
            return self._stop
        if self.rank == 0 and self._stop and self._stop_at is None:
            speed = (self._step - self._first[1]) / self._seconds if self._first and self._seconds > 0 else 0.0
            step = self._step + 2 + round(4 * POLL_SECONDS * speed)
            with suppress(OSError):  # on a full disk at a later step
                files.write_number(self.folder / files.STOP_AT, step)
                self._stop_at = step
        elif self.rank > 0 and self._stop_at is None:
            # At every step: this rank cannot reach that step before rank 0 begins one after the write.
            self._stop_at = files.read_number(self.folder / files.STOP_AT)
        return self._stop_at is not None and self._step >= self._stop_at

    def checkpoint_due(self) -> bool:
        """Whether the time between checkpoints, see the job's file, has passed since the last one."""
        return self.folder is not None and files.now() - self._saved >= self._checkpoint_seconds

    # -- reports of the job

    def tick(self, step: int, loss: float | None = None, memory_bytes: float | None = None) -> None:
        """Report finished steps; every rank of a gang calls it.

        Parameters
        ----------
        step:
            Steps since the beginning of the job, all leases together.
        loss:
            For curves; optional.
        memory_bytes:
            Most memory that this worker has used of its GPU, in bytes; optional.
        """
        self._step, now = int(step), files.now()
        if memory_bytes is not None:
            self._memory = max(self._memory or 0.0, float(memory_bytes))
        if self._step > self.resume_step:
            self._first = self._first or (now, self._step)
        if self._first is not None:
            self._seconds = now - self._first[0] - self._saving
        if self.folder is None or self.rank != 0:
            return
        if self._step > self.resume_step:
            self._write_step(self.folder)
        if now - self._reported >= REPORT_SECONDS:
            self._write_progress(self.folder)
        if loss is not None:
            self._write_loss(self.folder, loss)

    def save(self, step: int, write: Callable[[Path], object]) -> None:
        """Publish a checkpoint after ``step`` steps; in a gang rank 0 writes it, and other ranks do nothing.

        Parameters
        ----------
        write:
            Writes the files of the checkpoint into the folder that it gets.

        Raises
        ------
        OSError
            The checkpoint could not be written; the one before is still there.
        """
        self._saved = began = files.now()
        if self.folder is None or self.rank != 0 or (step == self.resume_step and self.resume_dir is not None):
            return
        try:
            _publish(self.folder, int(step), write)
        finally:
            self._saved = files.now()
            if self._first is not None:
                self._saving += self._saved - began

    def done(self, finished: bool) -> None:
        """Report at the end whether all steps of the job are done; otherwise it is started again."""
        self._finished = bool(finished)

    # -- files

    def _write_step(self, folder: Path) -> None:
        """Overwrite the last step at each tick: steps are counted as lost even if this process is killed next."""
        with suppress(OSError):
            if self._ticked is None:
                self._ticked = os.open(folder / files.TICKED, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._ticked, b"%020d\n" % self._step, 0)

    def _write_progress(self, folder: Path) -> None:
        if self._first is None:
            return  # there is no speed before the first step
        self._reported = files.now()
        content = {"step": self._step, "first_step": self._first[1], "seconds": self._seconds, "time": self._reported}
        if self._memory is not None:
            content["memory_bytes"] = self._memory
        with suppress(OSError):  # a full disk must not stop the training; a later tick tries again
            files.write_json(folder / files.PROGRESS, content, durable=False)

    def _write_loss(self, folder: Path, loss: float) -> None:
        """Append a loss unless the last one is too recent; the first and the last of a share always."""
        now = files.now()
        if now - self._loss_written < POLL_SECONDS and self._step not in (self.resume_step, self.until_step):
            return
        self._loss_written = now
        line = json.dumps({"step": self._step, "loss": float(loss), "copy": self.copy, "base": self.resume_step})
        with suppress(OSError), open(folder / files.LOSSES, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _poll(self, folder: Path) -> None:
        """Read whether the controller requests a stop, and whether the lease is still renewed."""
        now = files.now()
        if now - self._polled < POLL_SECONDS:
            return
        self._polled = now
        if self.rank == 0 and os.path.exists(folder / files.STOP):  # Path.exists raises errors of a file server
            self._stop = True
        counter = files.read_text(folder / files.RENEWED)
        if counter is not None and counter != self._renewed[0]:
            self._renewed = (counter, now)
        elif now - self._renewed[1] > self._ttl:
            self._stop = True  # the runner does the same, unless it hangs

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _end(self, problem: BaseException | None) -> None:
        """Write the outcome; errors of the file system are raised only where the job has no problem itself."""
        if self.folder is None or (self.rank != 0 and problem is None):
            return
        content: dict[str, Any] = {"step": self._step, "finished": self._finished, "asked": self._stop}
        if problem is not None:
            content["problem"] = f"{type(problem).__name__}: {problem}"[:2000]
            content["out_of_memory"] = _is_out_of_memory(problem)
        if self.rank == 0:
            self._write_progress(self.folder)
        name = files.OUTCOME if self.rank == 0 else files.problem_file(self.rank)
        try:
            files.write_json(self.folder / name, content)
        except OSError:
            if problem is None:
                raise


def _is_out_of_memory(problem: BaseException) -> bool:
    """Whether the memory of host or GPU did not suffice: by the error's class in PyTorch, by its text from CUDA etc."""
    if isinstance(problem, MemoryError) or "OutOfMemory" in type(problem).__name__:
        return True
    text = str(problem).lower()
    return isinstance(problem, RuntimeError) and ("out of memory" in text or "alloc_failed" in text)


@contextmanager
def lease() -> Iterator[Lease]:
    """The lease under which this process runs; SIGTERM then requests a stop, visible by ``should_stop``.

    Without a lease the job starts at step 0, is never requested to stop, and saves no checkpoints.

    Examples
    --------
    >>> from hetopt.executor import lease
    >>> with lease() as job:
    ...     step = job.resume_step
    ...     while step < 3 and not job.should_stop():
    ...         step += 1
    ...         job.tick(step, loss=1 / step)
    ...     job.done(step >= 3)
    >>> step
    3
    """
    where = os.environ.get(LEASE_VARIABLE)
    job = Lease(None if where is None else Path(where))
    before = None
    if job.folder is not None and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, job._on_signal)
    try:
        yield job
    except BaseException as problem:
        job._end(None if isinstance(problem, SystemExit) and not problem.code else problem)
        raise
    else:
        job._end(None)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _publish(lease: Path, step: int, write: Callable[[Path], object]) -> None:
    """Write a checkpoint into a hidden folder, then rename it; the folder of the lease itself is never made."""
    target = lease / files.CHECKPOINTS / f"step-{step}"
    if target.exists():
        return
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(hidden, ignore_errors=True)
    try:
        with suppress(FileExistsError):
            target.parent.mkdir(mode=0o700)  # without parents
    except FileNotFoundError:
        why = "the lease's folder is gone, removed or with its file server, so no checkpoint can be saved"
        raise FileNotFoundError(errno.ENOENT, why, str(lease)) from None
    hidden.mkdir(mode=0o700)
    try:
        write(hidden)
        list_files(hidden)
        os.rename(hidden, target)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    files.sync_folder(target.parent)
    with suppress(OSError):  # old ones do no harm
        for _, old in files.published(lease)[RETAINED:]:
            shutil.rmtree(old, ignore_errors=True)


def list_files(folder: Path) -> None:
    """Make every file of a checkpoint durable, then write the list of their lengths.

    Raises
    ------
    FileExistsError
        A file has the list's name and is not a list; a list that was copied with another checkpoint is replaced.
    """
    own = folder / LIST
    if own.exists() and "bytes" not in (files.read_json(own) or {}):
        raise FileExistsError(f"a checkpoint must not contain its own {LIST}")
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            files.sync_folder(path)
        elif path.is_file() and path != own:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                sizes[path.relative_to(folder).as_posix()] = os.fstat(handle).st_size
            finally:
                os.close(handle)
    files.write_json(own, {"bytes": sizes})
