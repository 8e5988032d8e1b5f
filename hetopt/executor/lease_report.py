"""What the directory of a lease tells of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from hetopt.executor import lease_directory as files
from hetopt.executor.leases import PROFILE, LeaseRecord, LeaseResult

CONTROLLER = "controller"
"""Who has claimed a node so that no runner ever will."""

MOST = 2.0**53
"""Steps, seconds and bytes are fewer."""


@dataclass(frozen=True)
class LeaseReport:
    """The files of one lease, read when they are asked for and then kept.

    Parameters
    ----------
    lease:
        Whose files.
    seen:
        Node -> its claim, as far as it has been seen before: a claim stays.
    """

    lease: LeaseRecord
    seen: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The directory."""
        return self.lease.folder

    @cached_property
    def ranks(self) -> range:
        """Numbers of its nodes."""
        return range(len(self.lease.grant.nodes))

    @cached_property
    def claims(self) -> dict[int, dict[str, Any]]:
        """Node -> who has claimed it."""
        for rank in self.ranks:
            if rank not in self.seen and (who := files.read_json(self.folder / files.claim_file(rank))) is not None:
                self.seen[rank] = who
        return dict(self.seen)

    @cached_property
    def exits(self) -> dict[int, dict[str, Any]]:
        """Node -> how it ended; one that the controller has claimed never began."""
        found = {}
        for rank in self.ranks:
            there = os.path.exists(f"{self.folder}/{files.exit_file(rank)}")
            said = files.read_json(self.folder / files.exit_file(rank)) if there else None
            if said is not None and _is_exit(said):
                found[rank] = said
            elif (who := self.claims.get(rank)) is not None and who.get(CONTROLLER):
                found[rank] = {"reason": "revoked", "codes": [], "problem": None}
        return found

    @cached_property
    def over(self) -> bool:
        """Whether certainly nothing of it runs any more, by its own word."""
        return len(self.exits) == len(self.ranks)

    @cached_property
    def progress(self) -> dict[str, Any]:
        """What the job last told."""
        said = files.read_json(self.folder / files.PROGRESS) or {}
        good = all(is_number(said.get(key)) for key in ("step", "first_step", "seconds", "time"))
        return said if good else {}

    @property
    def ticked(self) -> int | None:
        """Steps that are done according to the job, checkpointed or not."""
        return int(self.progress["step"]) if self.progress else None

    @property
    def timed(self) -> tuple[float, float]:
        """Steps and the seconds that they took, without the first and without checkpoints."""
        if not self.progress:
            return 0.0, 0.0
        return float(self.progress["step"] - self.progress["first_step"]), float(self.progress["seconds"])

    def revoke(self) -> bool:
        """Claim the nodes that nobody has claimed, so that nobody will; whether all have ended or never began."""
        for rank in self.ranks:
            if rank not in self.claims:
                files.claim(self.folder, rank, {CONTROLLER: True, **files.identity()})
        for kept in ("claims", "exits", "over"):
            self.__dict__.pop(kept, None)
        return self.over

    def ending(self, word: str | None = None) -> LeaseResult:
        """How it ended: ``word``, where the controller knows better than the runners.

        Raises
        ------
        OSError
            The server does not let it be known now.
        """
        there = files.checkpoints(self.folder)
        newest = next((one for one in there if files.is_complete(one[1])), None)
        damaged = there[0][0] if there and there[0] != newest else None
        said = files.read_json(self.folder / files.OUTCOME)
        reasons = [said["reason"] for said in self.exits.values()]
        word = word or next((r for r in reasons if r not in ("ended", "revoked")), reasons[0] if reasons else "lost")
        finished, failure, fatal = self._verdict(word, said, damaged)
        return LeaseResult(
            outcome=_text(word),
            out_of_memory=self.out_of_memory,
            trouble=None if self.trouble is None else _text(self.trouble),
            step=None if newest is None else newest[0],
            checkpoint=None if newest is None else newest[1],
            checkpoint_bytes=None if newest is None else _size(newest[1]),
            ticked=max([int(n) for n in (self.ticked, (said or {}).get("step")) if is_number(n)], default=None),
            finished=finished,
            failure=None if failure is None else _text(failure),
            fatal=fatal,
        )

    @property
    def trouble(self) -> str | None:
        """What was wrong with a host, so that the job could not begin there."""
        said = [one["problem"] for one in self.exits.values() if one.get("problem") and one.get("host") is True]
        return said[0] if said else None

    def _verdict(self, word: str, said: dict[str, Any] | None, damaged: int | None) -> tuple[bool, str | None, bool]:
        """(the job is done, why it failed, trying again is useless)."""
        own = [one["problem"] for one in self.exits.values() if one.get("problem") and one.get("host") is not True]
        if own:
            return False, own[0], False
        if self.trouble is not None:
            return False, None, False
        codes = [code for exit in self.exits.values() for code in exit["codes"]]
        clean = bool(codes) and not any(codes)
        finished = None if said is None else said.get("finished")
        if clean and finished:
            if damaged is not None:  # the job took it for safe when it said that it is done
                return False, f"its last checkpoint, of step {damaged}, is damaged", False
            return True, None, False
        if word == "ended" and clean and said is None and not self.progress:
            return True, None, False  # a command that knows nothing of leases
        if word in ("stopped", "fenced", "profiled", "lost", "revoked"):
            return False, None, False
        if word == "silent":
            return False, "it told of no step in time (hetopt.executor.lease, job.tick)", False
        if clean and (self.lease.row["forked"] or self.lease.row["kind"] == PROFILE):
            return False, None, False
        if clean and said is not None and said.get("asked"):
            return False, None, False  # its lease had run out, which it saw before its runner did
        told = [one["problem"] for one in (said or {}, *self.problems) if one.get("problem")]
        if told:
            return False, str(told[0]), False
        own = [code for code in codes if code not in (0, -signal.SIGTERM, -signal.SIGKILL)]
        wrong = next(iter(own), next((code for code in codes if code), 0))  # others were stopped for its sake
        if wrong:
            how = f"was killed by signal {-wrong}" if wrong < 0 else f"exited with code {wrong}"
            return False, f"it {how}; hetopt logs {self.lease.job['name']} shows what it printed", False
        return False, "it ended without saying that it is done (job.done)", False

    @property
    def out_of_memory(self) -> bool:
        """Whether the job says that the GPU has too little memory."""
        said = [files.read_json(self.folder / files.OUTCOME) or {}, *self.problems]
        return any(one.get("out_of_memory") for one in said)

    @property
    def problems(self) -> list[dict[str, Any]]:
        """What ended ranks of the job other than the first, as far as they have told."""
        found = [files.read_json(path) for path in sorted(self.folder.glob(files.problem_file("*")))]
        return [one for one in found if one is not None]


def _text(said: str) -> str:
    """As it can be stored and shown: errors may hold bytes that are no letters, and what steers a terminal."""
    shown = said.encode(errors="replace").decode()
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in shown)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a file that a job has written, or that is damaged, holds a number there that can be."""
    return isinstance(value, (int, float)) and 0 <= value < MOST


def _is_exit(said: Mapping[str, Any]) -> bool:
    """Whether that is what a runner writes once nothing is left; else it is damaged, and proves nothing."""
    codes, problem = said.get("codes"), said.get("problem")
    return (
        said.get("left") == []
        and isinstance(said.get("reason"), str)
        and isinstance(codes, list)
        and all(isinstance(code, int) for code in codes)
        and (problem is None or isinstance(problem, str))
    )


def _size(checkpoint: Path) -> float:
    """Bytes of a complete checkpoint."""
    sizes = (files.read_json(checkpoint / "files.json") or {}).get("bytes")
    return float(sum(size for size in sizes.values() if is_number(size))) if isinstance(sizes, dict) else 0.0
