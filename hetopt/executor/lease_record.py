"""The record of a lease, the same in the state database, in ``lease.json``, for engines and runners.

A lease is the right of a job, or of one of its copies, to run on certain GPUs until it is stopped.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from hetopt.executor import lease_directory as files

VERSION = 2
"""Version of ``lease.json``; a runner refuses others."""

INTENT, STARTED, SEALED = "intent", "started", "sealed"
"""States: recorded, accepted by the engine, ended."""

TRAIN, PROFILE = "train", "profile"
"""Kinds."""


@dataclass(frozen=True)
class LeaseTimeouts:
    """Timeouts of leases, in seconds.

    Parameters
    ----------
    ttl_seconds:
        Without a heartbeat for this time a runner stops its job.
    margin_seconds:
        Added where only elapsed time proves that a job is dead.
    profile_seconds, first_tick_seconds:
        Length of a profiling run from its first step on, and the longest wait for that step.
    visible_seconds:
        Longest time until a file is visible on another host.
    start_seconds:
        A lease that the engine does not begin within this time is revoked, and granted again where there are free GPUs.
    """

    ttl_seconds: float = 60.0
    margin_seconds: float = 10.0
    profile_seconds: float = 30.0
    first_tick_seconds: float = 600.0
    visible_seconds: float = 5.0
    start_seconds: float = 300.0


@dataclass(frozen=True)
class Seat:
    """One GPU, or one CPU slot that stands for one.

    Parameters
    ----------
    node, gpu_type:
        Host and type.
    index:
        Number among the GPUs of this type on the node; only a count where the engine itself chooses GPUs.
    device:
        Value for ``CUDA_VISIBLE_DEVICES``, such as a UUID; empty for a slot, or where the engine chooses.
    """

    node: str
    gpu_type: str
    index: int
    device: str = ""

    @cached_property
    def place(self) -> tuple[str | int, ...]:
        """Identity of the seat; a UUID is unique whatever the name of the host and the order of its GPUs."""
        if self.device.startswith(("GPU-", "MIG-")):
            return (self.device,)
        return (self.node, self.device) if self.device else (self.node, self.gpu_type, self.index)


@dataclass(frozen=True)
class LeaseRecord:
    """A lease as it was granted.

    Parameters
    ----------
    tag:
        Unique name.
    folder:
        Directory of the lease (:mod:`hetopt.executor.lease_directory`), at this path on every host.
    seats:
        GPUs of the gang; all of it starts, or nothing.
    command, cwd, environment, launch:
        What runs, see :class:`~hetopt.executor.job_file.JobSpec`.
    job, copy, kind:
        Name of the job, number of its copy (0: not forked), ``train`` or ``profile``.
    failures:
        Failures of the job in a row.
    addresses, port:
        Host -> address for other hosts; port of rank 0, on the first host.
    bound_by_engine:
        The engine chooses GPUs and sets ``CUDA_VISIBLE_DEVICES``; otherwise the seats name them.
    resume_step, resume_dir, until_step, total_steps:
        Steps done, folder of the checkpoint after them, step at which to stop, steps of the whole job.
    checkpoint_seconds, grace_seconds, ttl_seconds:
        Time between checkpoints; from the request to stop to the kill; without a heartbeat.
    most_seconds, most_seconds_to_first_tick:
        Of a profiling run: from the first step on, and until then.
    log_bytes:
        Limit of the log of each node; the newest output is retained. 0: none.
    """

    tag: str
    folder: Path
    seats: tuple[Seat, ...]
    command: tuple[str, ...] = ()
    cwd: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    launch: str = "worker"
    job: str = "job"
    copy: int = 0
    kind: str = TRAIN
    failures: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    bound_by_engine: bool = False
    resume_step: int = 0
    resume_dir: str | None = None
    until_step: int | None = None
    total_steps: int | None = None
    checkpoint_seconds: float = 600.0
    grace_seconds: float = 30.0
    ttl_seconds: float = 60.0
    most_seconds: float | None = None
    most_seconds_to_first_tick: float = 600.0
    log_bytes: int = 0

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Hosts in order; the position of a host is the number of its runner."""
        return tuple(dict.fromkeys(seat.node for seat in self.seats))

    @cached_property
    def held(self) -> dict[str, dict[str, int]]:
        """Node -> GPU type -> GPUs."""
        return by_node(self.seats)

    def seats_on(self, rank: int) -> list[Seat]:
        """Seats on the host of this number."""
        return [seat for seat in self.seats if seat.node == self.nodes[rank]]

    def write(self) -> None:
        """Write ``lease.json``."""
        content = {one.name: getattr(self, one.name) for one in fields(LeaseRecord)}
        content |= {
            "version": VERSION,
            "folder": str(self.folder),
            "seats": [[s.node, s.gpu_type, s.index, s.device] for s in self.seats],
        }
        files.write_json(self.folder / files.LEASE, content)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record in ``lease.json``; None where there is none that can be read.

        Raises
        ------
        ValueError
            It is of another version of hetopt.
        """
        content: dict[str, Any] | None = files.read_json(folder / files.LEASE)
        if content is None:
            return None
        if content.pop("version", None) != VERSION:
            raise ValueError("the lease is of another version of hetopt")
        try:
            seats = tuple(Seat(*seat) for seat in content.pop("seats"))
            return cls(**content | {"folder": folder, "seats": seats, "command": tuple(content["command"])})
        except (LookupError, TypeError):
            return None


def by_node(seats: Iterable[Seat]) -> dict[str, dict[str, int]]:
    """Node -> GPU type -> number of seats."""
    held: dict[str, dict[str, int]] = {}
    for seat in seats:
        there = held.setdefault(seat.node, {})
        there[seat.gpu_type] = there.get(seat.gpu_type, 0) + 1
    return held
