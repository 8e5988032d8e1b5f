"""The state of a lease by the files of its directory."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from hetopt.executor import lease_directory as files
from hetopt.executor.lease_record import PROFILE
from hetopt.executor.leases import LeaseResult, OpenLease

CONTROLLER = "controller"
"""Key of a claim by which the controller revokes a node: no runner will begin there."""

MAX_NUMBER = 2.0**53
"""Limit of valid steps, seconds and bytes."""


@dataclass(frozen=True)
class LeaseReport:
    """The files of one lease, each read when it is needed, and once.

    Parameters
    ----------
    known:
        Claims that were read before, which never change; new ones are added.
    """

    lease: OpenLease
    known: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)

    @property
    def folder(self) -> Path:
        """The directory."""
        return self.lease.folder

    @property
    def ranks(self) -> range:
        """Numbers of its nodes."""
        return range(len(self.lease.nodes))

    @cached_property
    def _there(self) -> frozenset[str]:
        """Names of its files: one listing is cheaper than opening an exit file per node."""
        with suppress(OSError):
            return frozenset(os.listdir(self.folder))
        return frozenset()

    @property
    def trains_on(self) -> bool:
        """Whether it has begun on all its nodes, and has no file of an end; False may also mean: not known."""
        begun = len(self.known) == len(self.ranks) and not [1 for claim in self.known.values() if CONTROLLER in claim]
        return begun and bool(self._there) and not [1 for name in self._there if name.startswith("exit")]

    @property
    def is_absent(self) -> bool:
        """Whether the directory is certainly gone."""
        return not self._there and files.is_absent(self.folder)

    def _read(self, name: str) -> dict[str, Any] | None:
        return files.read_json(self.folder / name) if name in self._there else None

    @cached_property
    def claims(self) -> dict[int, dict[str, Any]]:
        """Node -> identity of the process that has claimed it."""
        for rank in self.ranks:
            if rank not in self.known and (claim := self._read(files.claim_file(rank))) is not None:
                self.known[rank] = claim
        return self.known

    @cached_property
    def exits(self) -> dict[int, dict[str, Any]]:
        """Node -> how it ended; a node that the controller has claimed never began."""
        found = {}
        for rank in self.ranks:
            content = self._read(files.exit_file(rank))
            if content is not None and _is_exit(content):
                found[rank] = content
            elif self.claims.get(rank, {}).get(CONTROLLER):
                found[rank] = {"reason": "revoked", "codes": [], "problem": None}
        return found

    @property
    def has_ended(self) -> bool:
        """Whether the files prove that no process of it runs any more."""
        return len(self.exits) == len(self.ranks)

    @cached_property
    def outcome(self) -> dict[str, Any]:
        """The report of the job at its end."""
        return files.read_json(self.folder / files.OUTCOME) or {}

    @cached_property
    def progress(self) -> dict[str, Any]:
        """The last progress that the job reported."""
        content = files.read_json(self.folder / files.PROGRESS) or {}
        good = all(is_number(content.get(key)) for key in ("step", "first_step", "seconds", "time"))
        return content if good else {}

    @property
    def ticked(self) -> int | None:
        """Steps that the job has done, in a checkpoint or not."""
        steps = (self.progress.get("step"), files.read_number(self.folder / files.TICKED), self.outcome.get("step"))
        return max([int(step) for step in steps if is_number(step)], default=None)

    @property
    def timed(self) -> tuple[float, float]:
        """Steps and their seconds, without the first step and without checkpoints."""
        if not self.progress:
            return 0.0, 0.0
        return float(self.progress["step"] - self.progress["first_step"]), float(self.progress["seconds"])

    @property
    def out_of_memory(self) -> bool:
        """Whether the job reports that the GPU has too little memory."""
        return any(report.get("out_of_memory") for report in self._ends)

    @cached_property
    def _ends(self) -> list[dict[str, Any]]:
        """The reports of ranks of the job at their end: of the first, and of those that ended with an error."""
        others = sorted(self.folder.glob(files.problem_file("*")))
        return [self.outcome, *filter(None, map(files.read_json, others))]

    def revoke(self) -> bool:
        """Claim the nodes without a claim, so that none begins any more; whether all have ended or never began."""
        for rank in self.ranks:
            if rank not in self.claims:
                files.claim(self.folder, rank, {CONTROLLER: True, **files.identity()})
        for cached in ("_there", "claims", "exits"):
            self.__dict__.pop(cached, None)
        return self.has_ended

    def result(self, outcome: str | None = None) -> LeaseResult:
        """The result for the seal; ``outcome`` replaces that of the runners.

        Raises
        ------
        OSError
            The file server fails.
        """
        for cached in ("outcome", "progress", "_ends"):  # from before the end was known, perhaps
            self.__dict__.pop(cached, None)
        checkpoints = files.checkpoints(self.folder)
        newest = next((one for one in checkpoints if files.is_complete(one[1])), None)
        damaged = checkpoints[0][0] if checkpoints and checkpoints[0] != newest else None
        step, checkpoint = newest or (None, None)
        exits = list(self.exits.values())
        unusual = [one["reason"] for one in exits if one["reason"] not in ("ended", "revoked")]
        outcome = outcome or next(iter([*unusual, *(one["reason"] for one in exits), "lost"]))
        on_host = (one["problem"] for one in exits if one.get("problem") and one.get("host") is True)
        host_problem = next(on_host, None)
        finished, failure = self._verdict(outcome, damaged, host_problem)
        return LeaseResult(
            outcome=_printable(outcome),
            out_of_memory=self.out_of_memory,
            host_problem=host_problem and _printable(host_problem),
            step=step,
            checkpoint=checkpoint,
            checkpoint_bytes=None if checkpoint is None else _size(checkpoint),
            ticked=self.ticked,
            finished=finished,
            failure=failure and _printable(failure),
        )

    def _verdict(self, outcome: str, damaged: int | None, host_problem: str | None) -> tuple[bool, str | None]:
        """Whether the job is done; the reason of its failure."""
        exits = self.exits.values()
        for one in exits:
            if one.get("problem") and one.get("host") is not True:
                return False, one["problem"]
        if host_problem is not None:
            return False, None
        codes = [code for one in exits for code in one["codes"]]
        clean = bool(codes) and not any(codes)
        if clean and self.outcome.get("finished"):
            if damaged is not None:  # the job relied on it
                return False, f"its last checkpoint, of step {damaged}, is damaged"
            return True, None
        if outcome == "ended" and clean and not self.outcome and not self.progress:
            return True, None  # a command without leases
        if outcome in ("stopped", "fenced", "profiled", "lost", "revoked"):
            return False, None
        if outcome == "silent":
            return False, "it reported no step in time (hetopt.executor.lease, job.tick)"
        if clean and (self.lease.forked or self.lease.kind == PROFILE):
            return False, None
        if clean and self.outcome.get("asked"):
            return False, None  # it saw before its runner that the lease had expired
        if problems := [one["problem"] for one in self._ends if one.get("problem")]:
            return False, str(problems[0])
        own = [code for code in codes if code not in (0, -signal.SIGTERM, -signal.SIGKILL)]
        if code := next(iter(own), next((code for code in codes if code), 0)):  # others were stopped because of it
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            return False, f"it {how}; hetopt logs {self.lease.job} shows its output"
        return False, "it ended without reporting that it is done (job.done)"


def _printable(text: str) -> str:
    """Text that can be stored and shown: errors may hold bytes that are not UTF-8, and control characters."""
    decoded = text.encode(errors="replace").decode()
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in decoded)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value from a file that a job has written is a valid number."""
    return isinstance(value, (int, float)) and 0 <= value < MAX_NUMBER


def _is_exit(content: Mapping[str, Any]) -> bool:
    """Whether the content of an exit file is valid, and no process is left; a damaged file proves nothing."""
    codes, problem = content.get("codes"), content.get("problem")
    return (
        content.get("left") == []
        and isinstance(content.get("reason"), str)
        and isinstance(codes, list)
        and all(isinstance(code, int) for code in codes)
        and (problem is None or isinstance(problem, str))
    )


def _size(checkpoint: Path) -> float:
    """Bytes of a complete checkpoint."""
    sizes = (files.read_json(checkpoint / "files.json") or {}).get("bytes")
    return float(sum(size for size in sizes.values() if is_number(size))) if isinstance(sizes, dict) else 0.0
