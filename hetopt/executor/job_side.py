"""What a training job says and asks while it runs under a lease. Standard library only; run by hand it does nothing.

A job without it is run as well: it starts from its beginning each time, and is done when it exits with 0.
"""

from __future__ import annotations

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

LOOK_SECONDS = 0.05
"""A job looks into its directory at most so often."""

REPORT_SECONDS = 0.5
"""A job tells of its progress at most so often."""

KEPT = 2
"""Checkpoints of a lease that are kept: the newest may be read while a newer one is published."""

LIST = "files.json"
"""The file of a checkpoint that lists the others."""


class Lease:
    """The job's side of a lease.

    Attributes
    ----------
    resume_step:
        Steps that are done already; the job goes on with the next.
    resume_dir:
        Folder of the checkpoint after ``resume_step`` steps; None at the very beginning.
    total_steps:
        Steps of the whole job; None when run by hand, or where the job's file does not say.
    until_step:
        Step after which this process is to stop: of a forked copy its share, else the same as ``total_steps``.
    rank, world_size, local_rank:
        Of this process in the gang.
    copy:
        Number of the forked copy, 0 for a job that is not forked.
    gpu_types:
        GPU types that this node of the gang has.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        record = None if folder is None else files.read_json(folder / files.LEASE)
        if folder is not None and record is None:
            raise OSError(f"{LEASE_VARIABLE} is {str(folder)!r}, which has no readable {files.LEASE}")
        content = record or {}
        self.resume_step: int = content.get("resume_step", 0)
        resume = content.get("resume_dir")
        self.resume_dir: Path | None = None if resume is None else Path(resume)
        self.total_steps: int | None = content.get("total_steps")
        self.until_step: int | None = content.get("until_step")
        self.copy: int = content.get("copy", 0)
        self.rank, self.world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.gpu_types = tuple(filter(None, os.environ.get("HETOPT_GPU_TYPES", "").split(",")))
        self._ttl: float = content.get("ttl_seconds", float("inf"))
        self._every: float = content.get("checkpoint_seconds", float("inf"))
        self._reported, self._looked, self._lost, self._saved = -1.0, -1.0, -1.0, files.now()
        self._step = self.resume_step
        self._first: tuple[float, int] | None = None  # when the first step was over, and which it was
        self._saving = 0.0  # seconds spent on checkpoints since then
        self._seconds = 0.0  # from then to the newest step, without those
        self._memory: float | None = None
        self._ticked: int | None = None  # open file of the last step
        now = files.now()  # before looking: what is there may be old
        self._renewed = (None if folder is None else files.read_text(folder / files.RENEWED), now)
        self._stop = False  # no threading.Event: a signal that comes while its lock is held would wait for itself
        self._stop_at: int | None = None
        self._finished: bool | None = None
        if folder is not None and self.rank == 0 and self.world_size > 1:
            with suppress(OSError):
                files.write_number(folder / files.STOP_AT, None)

    # -- what is asked of the job

    def should_stop(self) -> bool:
        """Whether to leave the loop now: the share is done, or it has been asked to stop.

        The ranks of a gang stop at the same step, which rank 0 chooses a little ahead; they are taken to train in step.
        """
        if self.until_step is not None and self._step >= self.until_step:
            return True
        if self.folder is None:
            return False
        self._look()
        if self.world_size == 1:
            return self._stop
        if self.rank == 0 and self._stop and self._stop_at is None:
            step = self._step + 2 + round(4 * LOOK_SECONDS * self._speed())
            with suppress(OSError):  # on a full disk at a later step
                files.write_number(self.folder / files.STOP_AT, step)
                self._stop_at = step
        elif self.rank > 0 and self._stop_at is None:
            # At every step: to reach that step, this rank needs rank 0 in one that it begins after having written it.
            self._stop_at = files.read_number(self.folder / files.STOP_AT)
        return self._stop_at is not None and self._step >= self._stop_at

    def checkpoint_due(self) -> bool:
        """Whether so many seconds have passed since the last checkpoint as the job's file says."""
        return self.folder is not None and files.now() - self._saved >= self._every

    # -- what the job tells

    def tick(self, step: int, loss: float | None = None, memory_bytes: float | None = None) -> None:
        """So many steps are done; in a gang every rank says so.

        Parameters
        ----------
        step:
            Steps since the beginning of the job, all leases together.
        loss:
            Cache for curves; may be left out.
        memory_bytes:
            Most memory that this worker has used of its GPU, in bytes, where the job knows.
        """
        self._step, now = int(step), files.now()
        if memory_bytes is not None:
            self._memory = max(self._memory or 0.0, float(memory_bytes))
        if self._first is None and self._step > self.resume_step:
            self._first = (now, self._step)
        if self._first is not None:
            self._seconds = now - self._first[0] - self._saving
        if self._step > self.resume_step:
            self._count()
        if self.folder is not None and self.rank == 0 and now - self._reported >= REPORT_SECONDS:
            self._tell(now)
        if self.folder is not None and loss is not None:
            self._tell_loss(loss)

    def save(self, step: int, write: Callable[[Path], object]) -> None:
        """Publish a checkpoint after ``step`` steps; in a gang rank 0 writes it, and calls of other ranks do nothing.

        Parameters
        ----------
        write:
            Writes the files of the checkpoint into the folder that it is given.

        Raises
        ------
        OSError
            The checkpoint could not be written; the one before is still there.
        """
        self._saved = began = files.now()
        if self.folder is None or self.rank != 0 or (step == self.resume_step and self.resume_dir is not None):
            return
        try:
            self._publish(int(step), write)
        finally:
            self._saved = files.now()
            if self._first is not None:
                self._saving += self._saved - began

    def done(self, finished: bool) -> None:
        """Say at the end whether all steps of the job are done; else it will be started again."""
        self._finished = bool(finished)

    # -- inside

    def _publish(self, step: int, write: Callable[[Path], object]) -> None:
        assert self.folder is not None
        target = self.folder / files.CHECKPOINTS / f"step-{step}"
        if target.exists():
            return
        hidden = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.rmtree(hidden, ignore_errors=True)
        with suppress(FileExistsError):
            target.parent.mkdir(mode=0o700)  # but never the folder of the lease: it may be gone, or its server away
        hidden.mkdir(mode=0o700)
        try:
            write(hidden)
            list_files(hidden)
            os.rename(hidden, target)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        files.sync_folder(target.parent)
        with suppress(OSError):  # they are in nobody's way
            for _, old in files.published(self.folder)[KEPT:]:
                shutil.rmtree(old, ignore_errors=True)

    def _count(self) -> None:
        """Overwrite the last step; it is there even if this process is killed next, so lost steps are counted."""
        if self.folder is None or self.rank != 0:
            return
        with suppress(OSError):
            if self._ticked is None:
                self._ticked = os.open(self.folder / files.TICKED, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._ticked, b"%020d\n" % self._step, 0)

    def _tell(self, now: float) -> None:
        assert self.folder is not None
        if self._first is None:
            return  # nothing is done yet, so there is no speed
        self._reported = now
        content: dict[str, Any] = {
            "step": self._step,
            "first_step": self._first[1],
            "seconds": self._seconds,
            "time": now,
        }
        if self._memory is not None:
            content["memory_bytes"] = self._memory
        with suppress(OSError):  # a full disk must not stop the training; the next tick tries again
            files.write_json(self.folder / files.PROGRESS, content, durable=False)

    def _tell_loss(self, loss: float) -> None:
        """Keep a loss; where a job tells more than so many a second, only some."""
        assert self.folder is not None
        now = files.now()
        if self.rank != 0 or (
            now - self._lost < LOOK_SECONDS and self._step not in (self.resume_step, self.until_step)
        ):
            return
        self._lost = now
        line = json.dumps({"step": self._step, "loss": float(loss), "copy": self.copy, "base": self.resume_step})
        with suppress(OSError), open(self.folder / files.LOSSES, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _look(self) -> None:
        """Whether the controller has asked to stop, and whether the lease still holds."""
        now = files.now()
        if self.folder is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if self.rank == 0 and os.path.exists(self.folder / files.STOP):  # Path.exists raises where a server is away
            self._stop = True
        counter = files.read_text(self.folder / files.RENEWED)
        if counter is not None and counter != self._renewed[0]:
            self._renewed = (counter, now)
        elif now - self._renewed[1] > self._ttl:
            self._stop = True  # the runner does the same; this holds should it hang

    def _speed(self) -> float:
        """Steps per second so far."""
        return (self._step - self._first[1]) / self._seconds if self._first and self._seconds > 0 else 0.0

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _end(self, problem: BaseException | None) -> None:
        if self.folder is None or (self.rank != 0 and problem is None):
            return
        content: dict[str, Any] = {"step": self._step, "finished": self._finished, "asked": self._stop}
        if problem is not None:
            content["problem"] = f"{type(problem).__name__}: {problem}"[:2000]
            content["out_of_memory"] = _is_out_of_memory(problem)
        if self.rank == 0:
            self._tell(files.now())
        name = files.OUTCOME if self.rank == 0 else files.problem_file(self.rank)
        try:
            files.write_json(self.folder / name, content)
        except OSError:
            if problem is None:
                raise


def _is_out_of_memory(problem: BaseException) -> bool:
    """Whether host or GPU had too little: PyTorch's own error, or CUDA's, cuBLAS' and XLA's by what they say."""
    if isinstance(problem, MemoryError) or "OutOfMemory" in type(problem).__name__:
        return True
    record = str(problem).lower()
    return isinstance(problem, RuntimeError) and ("out of memory" in record or "alloc_failed" in record)


@contextmanager
def lease() -> Iterator[Lease]:
    """The lease under which this process runs; SIGTERM then asks it to stop, and it says so at the next step.

    Run by hand there is none: it starts at step 0, is never asked to stop, and keeps no checkpoints.

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
        before = signal.signal(signal.SIGTERM, job._ask_to_stop)
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


def list_files(folder: Path) -> None:
    """Make every file of a checkpoint durable, then write the list of their lengths.

    Raises
    ------
    FileExistsError
        A file has the list's name and is no list; one that came with a copied checkpoint is replaced.
    """
    own = folder / LIST
    if own.exists() and "bytes" not in (files.read_json(own) or {}):
        raise FileExistsError(f"a checkpoint must have no {LIST} of its own")
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != own:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                sizes[path.relative_to(folder).as_posix()] = os.fstat(handle).st_size
            finally:
                os.close(handle)
    for inner in [path for path in folder.rglob("*") if path.is_dir()]:
        files.sync_folder(inner)
    files.write_json(own, {"bytes": sizes})
