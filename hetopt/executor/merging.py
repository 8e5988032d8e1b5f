"""Merges of forked jobs: begun in the books, done by processes of their own, committed once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.cache import Cache
from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, merge_parts
from hetopt.executor.leases import job_numbered, steps_of
from hetopt.executor.merge_checkpoints import UNFIT
from hetopt.executor.queue import CANCELLED, DONE, FAILED, QUEUED
from hetopt.executor.state_database import StateDatabase

MOST_PAUSE = 60.0
"""Seconds at most between two attempts at a merge that fails, say of a full disk."""

UNMERGED = "job = :job AND forked = 1 AND merged = 0"
"""A job's copies whose steps are not committed yet."""


class Merges:
    """The merges of a cluster: begun in the books, done by processes of their own, committed once.

    Parameters
    ----------
    database:
        The books.
    folder:
        Where lease directories, and merged checkpoints beside them, lie.
    cache:
        What was read of the books and has not changed.
    """

    def __init__(self, database: StateDatabase, folder: Path, cache: Cache) -> None:
        self.database, self.folder, self.cache = database, folder, cache
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._failures: dict[int, int] = {}
        self._again: dict[int, float] = {}
        self._left: set[int] = set()  # whose folders cannot be removed now

    def step(self) -> None:
        """Begin those that are due, look after those that run, commit those that are done."""
        for job in self.cache.get("merges due", self._due):
            self._begin(job)
        for row in self.cache.get("merges", self._begun):
            if row["job_state"] != CANCELLED and files.now() < self._again.get(row["id"], 0.0):
                continue
            try:
                self._advance(row)
            except UnusableFile:
                raise  # of the state database
            except DamagedRow as problem:
                self._later(row, str(problem))
            except OSError as problem:
                self._later(row, f"{problem.filename or row['folder']}: {problem.strerror or problem}")

    def _begun(self) -> list[Row]:
        query = """
            SELECT merges.*, jobs.state AS job_state FROM merges JOIN jobs ON jobs.id = merges.job
            WHERE merges.done = 0"""
        with self.database.reading() as connection:
            return connection.rows(query)

    def _due(self) -> list[int]:
        """Forked jobs of which copies have ended, and none has a lease."""
        query = """
            SELECT DISTINCT job FROM leases
            WHERE forked = 1 AND merged = 0 AND state = 'sealed'
                AND job NOT IN (SELECT job FROM leases WHERE state != 'sealed')
                AND job NOT IN (SELECT job FROM merges WHERE done = 0)"""
        with self.database.reading() as connection:
            return connection.column(query)

    def _begin(self, job: int) -> None:
        """Write down what is to be merged; where at most one copy has got anywhere, commit at once."""
        with self.database.writing() as connection:
            row = job_numbered(connection, job)
            own = connection.rows(f"SELECT * FROM leases WHERE {UNMERGED}", job=job)
            parts = [(copy["checkpoint"], copy["end_step"] - copy["from_step"]) for copy in own]
            parts = [(folder, steps) for folder, steps in parts if folder and steps > 0]
            step = row["committed"] + sum(steps for _, steps in parts)
            if len(parts) < 2:
                self._commit(connection, row, step, parts[0][0] if parts else None)
                return
            folder = self.folder / f"merged-{self.database.cluster}-{job}" / f"step-{step}"
            connection.insert("merges", job=job, step=step, parts=json.dumps(parts), folder=str(folder))
            self.database.record_event(connection, "merging", row["name"], step=step, copies=len(parts))

    def _advance(self, row: Row) -> None:
        folder = Path(row["folder"])
        process = self._running.get(row["id"])
        if process is not None and process.poll() is None:
            return
        self._running.pop(row["id"], None)
        if files.is_complete(folder):
            with self.database.writing() as connection:
                self._commit(connection, job_numbered(connection, row["job"]), row["step"], row["folder"])
                connection.update("merges", {"done": True}, "id = :merge", merge=row["id"])
        elif process is not None:
            self._failed(row, process.returncode, folder.parent / "merge.log")
        elif row["job_state"] == CANCELLED and row["id"] in self._failures:
            self._give_up(row, "")
        else:
            merge_parts(row["id"], row["job"], row["parts"])
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            words = [sys.executable, "-P", "-m", "hetopt.executor.merge_checkpoints", row["parts"], row["folder"]]
            words.append(str(os.getpid()))
            log = folder.parent / "merge.log"
            with log.open("wb") as file:
                self._running[row["id"]] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def _failed(self, row: Row, code: int, log: Path) -> None:
        """Try again later, unless the copies do not fit together: then the job has failed."""
        why = (files.read_text(log) or "").strip().rpartition("\n")[2] or "the merging process died"
        if code == UNFIT:
            self._give_up(row, why)
        else:
            self._later(row, why)

    def _later(self, row: Row, why: str) -> None:
        """Try again later, for ever, unless the job is cancelled."""
        if row["job_state"] == CANCELLED:
            self._give_up(row, why)
            return
        failures = self._failures[row["id"]] = self._failures.get(row["id"], 0) + 1
        pause = min(MOST_PAUSE, 2.0 ** min(failures, 10))
        self._again[row["id"]] = files.now() + pause
        values: dict[str, Any] = {"reason": f"its copies cannot be merged now, which is tried again: {why}"}
        values |= {"not_before": self.database.now() + pause}  # until then others may have its GPUs
        with self.database.writing() as connection:
            connection.update("jobs", values, "id = :job AND state = 'queued'", job=row["job"])

    def _give_up(self, row: Row, why: str) -> None:
        """What its copies have done since the last merge is lost; the job may go on from there."""
        with self.database.writing() as connection:
            job = job_numbered(connection, row["job"])
            connection.update("merges", {"done": True}, "id = :merge", merge=row["id"])
            steps = connection.value(f"SELECT sum(end_step - from_step) FROM leases WHERE {UNMERGED}", job=job["id"])
            connection.change(f"UPDATE leases SET merged = 1, end_step = from_step WHERE {UNMERGED}", job=job["id"])
            values = {"state": FAILED, "finished": self.database.now(), "reason": f"its copies cannot be merged: {why}"}
            if job["cancelled"]:
                values |= {
                    "state": CANCELLED,
                    "finished": job["finished"] or self.database.now(),
                    "reason": "cancelled",
                }
            values["lost"] = job["lost"] + (steps or 0)
            connection.update("jobs", values, "id = :job", job=job["id"])
            connection.change("DELETE FROM targets WHERE job = :job", job=job["id"])
            self.database.record_event(connection, str(values["state"]), job["name"], reason=values["reason"])

    def _commit(self, connection: Connection, job: Row, step: int, checkpoint: str | None) -> None:
        """The steps of all copies count, once; the job goes on from what was merged."""
        connection.update("leases", {"merged": True}, f"{UNMERGED} AND state = 'sealed'", job=job["id"])
        connection.update("targets", {"until_step": None}, "job = :job", job=job["id"])
        values: dict[str, Any] = {"committed": step}
        if checkpoint is not None:
            values["checkpoint"] = checkpoint
        if job["state"] == QUEUED:
            values |= {"reason": None, "not_before": 0.0}
        if job["state"] == QUEUED and step >= steps_of(job):
            values |= {"state": DONE, "finished": self.database.now(), "reason": None}
        elif job["state"] == QUEUED and job["cancelled"]:
            values |= {"state": CANCELLED, "finished": self.database.now(), "reason": "cancelled"}
        connection.update("jobs", values, "id = :job", job=job["id"])
        self.database.record_event(connection, "merged", job["name"], step=step)
        if "state" in values:
            connection.change("DELETE FROM targets WHERE job = :job", job=job["id"])
            self.database.record_event(connection, values["state"], job["name"])

    def clear_away(self) -> None:
        """Remove merged checkpoints from which nobody will go on any more."""
        gone = []
        for number, folder in self.cache.get("merges passed", self._passed):
            if number in self._left:
                continue
            if _removed(folder):
                gone.append(number)
            else:
                self._left.add(number)  # the next controller tries again
        if gone:
            with self.database.writing() as connection:
                connection.change("DELETE FROM merges WHERE id IN (SELECT value FROM json_each(:gone))", gone=gone)

    def _passed(self) -> list[tuple[int, str]]:
        """Merges that are over, with their folders; a merge that begins anew may have the same folder."""
        query = """
            SELECT merges.id, merges.folder FROM merges JOIN jobs ON jobs.id = merges.job
            WHERE merges.done = 1 AND merges.folder IS NOT jobs.checkpoint
                AND merges.folder NOT IN (SELECT folder FROM merges WHERE done = 0)"""
        with self.database.reading() as connection:
            return list(connection.execute(query))

    def close(self) -> None:
        """End the processes; another controller begins them again."""
        for process in self._running.values():
            process.kill()
            process.wait()
        self._running.clear()


def _removed(folder: str) -> bool:
    """Whether a folder is certainly gone now."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        os.lstat(folder)
    except OSError as problem:
        return problem.errno in files.ABSENT
    return False
