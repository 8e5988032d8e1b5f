"""Merges of forked jobs: recorded in the state database, done by separate processes, committed once."""

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
from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, merge_parts
from hetopt.executor.leases import job_numbered, steps_of
from hetopt.executor.merge_checkpoints import UNFIT
from hetopt.executor.queue import CANCELLED, DONE, FAILED, QUEUED
from hetopt.executor.state_database import Cache, StateDatabase

MAX_PAUSE = 60.0
"""Longest time in seconds between two attempts at a merge that fails, for example because of a full disk."""

UNMERGED = "job = :job AND forked = 1 AND merged = 0"
"""Leases of a job's copies whose steps are not committed yet."""


class Merges:
    """All merges of a cluster; merged checkpoints are beside lease directories."""

    def __init__(self, database: StateDatabase, folder: Path, cache: Cache) -> None:
        self.database, self.folder, self.cache = database, folder, cache
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}
        self._unremovable: set[int] = set()

    def step(self) -> None:
        """Begin merges of jobs whose copies have ended, poll their processes, commit their results."""
        for job in self.cache.get("merges due", self._due):
            self._begin(job)
        for row in self.cache.get("merges", self._open):
            if row["job_state"] is None:  # deleted by hand
                self._kill(row["id"])
                with self.database.writing() as connection:
                    self._drop(connection, row["job"])
                continue
            if row["job_state"] != CANCELLED and files.now() < self._not_before.get(row["id"], 0.0):
                continue
            try:
                self._advance(row)
            except UnusableFile:
                raise  # of the state database
            except DamagedRow as problem:
                self._retry_later(row, str(problem))
            except OSError as problem:
                self._retry_later(row, f"{problem.filename or row['folder']}: {problem.strerror or problem}")

    def _open(self) -> list[Row]:
        query = """
            SELECT merges.*, jobs.state AS job_state FROM merges LEFT JOIN jobs ON jobs.id = merges.job
            WHERE merges.done = 0"""
        with self.database.reading() as connection:
            return connection.rows(query)

    def _due(self) -> list[int]:
        """Forked jobs with ended copies and without an open lease."""
        query = """
            SELECT DISTINCT job FROM leases
            WHERE forked = 1 AND merged = 0 AND state = 'sealed'
                AND job NOT IN (SELECT job FROM leases WHERE state != 'sealed')
                AND job NOT IN (SELECT job FROM merges WHERE done = 0)"""
        with self.database.reading() as connection:
            return connection.column(query)

    def _begin(self, job: int) -> None:
        """Record what is to be merged; commit at once where at most one copy has a new checkpoint."""
        with self.database.writing() as connection:
            if not connection.value("SELECT 1 FROM jobs WHERE id = :job", job=job):  # deleted by hand
                self._drop(connection, job)
                return
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

    def _drop(self, connection: Connection, job: int) -> None:
        """Merge nothing of a job whose row was deleted by hand."""
        connection.update("leases", {"merged": True}, "job = :job", job=job)
        connection.update("merges", {"done": True}, "job = :job", job=job)
        self.database.record_event(connection, "unmerged", f"job {job}", reason="its row was deleted by hand")

    def _advance(self, row: Row) -> None:
        """Start the process of a merge, or record how it has ended."""
        folder = Path(row["folder"])
        log = folder.parent / "merge.log"
        process = self._running.get(row["id"])
        if process is not None and process.poll() is None:
            return
        self._running.pop(row["id"], None)
        if files.is_complete(folder):
            with self.database.writing() as connection:
                self._commit(connection, job_numbered(connection, row["job"]), row["step"], row["folder"])
                connection.update("merges", {"done": True}, "id = :merge", merge=row["id"])
        elif process is not None:
            why = (files.read_text(log) or "").strip().rpartition("\n")[2] or "the merging process died"
            (self._give_up if process.returncode == UNFIT else self._retry_later)(row, why)
        elif row["job_state"] == CANCELLED and row["id"] in self._failures:
            self._give_up(row, "")
        else:
            merge_parts(row["id"], row["job"], row["parts"])
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            words = [sys.executable, "-P", "-m", "hetopt.executor.merge_checkpoints", row["parts"], row["folder"]]
            words.append(str(os.getpid()))
            with log.open("wb") as file:
                self._running[row["id"]] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def _retry_later(self, row: Row, why: str) -> None:
        """Back off, without a limit of attempts, unless the job is cancelled."""
        if row["job_state"] == CANCELLED:
            self._give_up(row, why)
            return
        failures = self._failures[row["id"]] = self._failures.get(row["id"], 0) + 1
        pause = min(MAX_PAUSE, 2.0 ** min(failures, 10))
        self._not_before[row["id"]] = files.now() + pause
        values: dict[str, Any] = {"reason": f"its copies cannot be merged yet, hetopt tries again: {why}"}
        values["not_before"] = self.database.now() + pause  # until then other jobs may have its GPUs
        with self.database.writing() as connection:
            connection.update("jobs", values, "id = :job AND state = 'queued'", job=row["job"])

    def _give_up(self, row: Row, why: str) -> None:
        """Fail the job; the steps of its copies since the last merge are lost."""
        with self.database.writing() as connection:
            job, now = job_numbered(connection, row["job"]), self.database.now()
            connection.update("merges", {"done": True}, "id = :merge", merge=row["id"])
            steps = connection.value(f"SELECT sum(end_step - from_step) FROM leases WHERE {UNMERGED}", job=job["id"])
            connection.change(f"UPDATE leases SET merged = 1, end_step = from_step WHERE {UNMERGED}", job=job["id"])
            end = {"state": FAILED, "finished": now, "reason": f"its copies cannot be merged: {why}"}
            if job["cancelled"]:
                end = {"state": CANCELLED, "finished": job["finished"] or now, "reason": "cancelled"}
            self._end(connection, job, {**end, "lost": job["lost"] + (steps or 0)}, reason=end["reason"])

    def _commit(self, connection: Connection, job: Row, step: int, checkpoint: str | None) -> None:
        """Count the steps of all copies, once; the job resumes from the merged checkpoint."""
        connection.update("leases", {"merged": True}, f"{UNMERGED} AND state = 'sealed'", job=job["id"])
        connection.update("targets", {"until_step": None}, "job = :job", job=job["id"])
        values: dict[str, Any] = {"committed": step, "checkpoint": checkpoint or job["checkpoint"]}
        self.database.record_event(connection, "merged", job["name"], step=step)
        if job["state"] == QUEUED:
            values |= {"reason": None, "not_before": 0.0}
            if job["cancelled"]:
                values |= {"state": CANCELLED, "finished": self.database.now(), "reason": "cancelled"}
            elif step >= steps_of(job):
                values |= {"state": DONE, "finished": self.database.now()}
        self._end(connection, job, values)

    def _end(self, connection: Connection, job: Row, values: dict[str, Any], **details: Any) -> None:
        """Change a job; where it ends by that, its target is removed."""
        connection.update("jobs", values, "id = :job", job=job["id"])
        if "state" in values:
            connection.change("DELETE FROM targets WHERE job = :job", job=job["id"])
            self.database.record_event(connection, values["state"], job["name"], **details)

    def clear_away(self) -> None:
        """Remove merged checkpoints from which no job will resume any more."""
        gone = []
        for number, folder in self.cache.get("merges passed", self._passed):
            if number in self._unremovable:
                continue
            if _removed(folder):
                gone.append(number)
            else:
                self._unremovable.add(number)  # the next controller tries again
        if gone:
            with self.database.writing() as connection:
                connection.change("DELETE FROM merges WHERE id IN (SELECT value FROM json_each(:gone))", gone=gone)

    def _passed(self) -> list[tuple[int, str]]:
        """Finished merges with their folders, of which an open merge may have the same.

        A job whose row was deleted by hand has no checkpoint; a lease of it may still resume from one.
        """
        query = """
            SELECT merges.id, merges.folder FROM merges LEFT JOIN jobs ON jobs.id = merges.job
            WHERE merges.done = 1 AND merges.folder IS NOT jobs.checkpoint
                AND merges.folder NOT IN (SELECT folder FROM merges WHERE done = 0)
                AND merges.folder NOT IN (
                    SELECT resume_dir FROM leases WHERE state != 'sealed' AND resume_dir IS NOT NULL)"""
        with self.database.reading() as connection:
            return list(connection.execute(query))

    def close(self) -> None:
        """Kill the processes; the next controller starts them again."""
        for merge in list(self._running):
            self._kill(merge)

    def _kill(self, merge: int) -> None:
        if (process := self._running.pop(merge, None)) is not None:
            process.kill()
            process.wait()


def _removed(folder: str) -> bool:
    """Remove a folder; whether it is certainly gone now."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return files.is_absent(folder)
    except OSError:
        return False
