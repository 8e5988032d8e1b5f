"""What the executor asks of an engine, and the words for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Protocol

from hetopt.checks import FrozenDict
from hetopt.errors import HetoptError


class EngineDown(HetoptError, ConnectionError):
    """The engine gives no answer, or none that says anything: nothing is decided until it does, and nothing is lost."""


class Refused(HetoptError, ValueError):
    """The engine has understood the request and will never carry it out, say because a partition does not exist."""


@dataclass(frozen=True)
class Seat:
    """One GPU, or one slot of a CPU that stands for one.

    Parameters
    ----------
    node, gpu_type:
        Where it is and what it is.
    index:
        Its number among those of its type on the node; where the engine itself picks GPUs, just a number.
    device:
        What ``CUDA_VISIBLE_DEVICES`` calls it, such as a UUID; empty where it is no GPU or the engine picks it.
    """

    node: str
    gpu_type: str
    index: int
    device: str = ""

    @cached_property
    def place(self) -> tuple[str | int, ...]:
        """What tells it from all others; a UUID does so alone, whatever the host is called and how GPUs are counted."""
        if self.device.startswith(("GPU-", "MIG-")):
            return (self.device,)
        return (self.node, self.device) if self.device else (self.node, self.gpu_type, self.index)


@dataclass(frozen=True)
class Node:
    """A host as the engine sees it.

    Parameters
    ----------
    name:
        As the engine calls it.
    seats:
        All that it has, be they in use or not.
    up:
        Whether jobs can be started there now. Where not, what runs goes on, and leases that have not begun are revoked.
    note:
        What is the matter with it, for people.
    memory_bytes:
        GPU type -> memory of one GPU in bytes, where known.
    address:
        Where other hosts reach it.
    used:
        GPU type -> GPUs that somebody uses now, leases or others; empty where the engine knows of no others.
    """

    name: str
    seats: tuple[Seat, ...]
    up: bool = True
    note: str = ""
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    address: str = "127.0.0.1"
    used: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", tuple(self.seats))
        object.__setattr__(self, "memory_bytes", FrozenDict(self.memory_bytes))
        object.__setattr__(self, "used", FrozenDict(self.used))


@dataclass(frozen=True)
class Grant:
    """A lease as an engine needs to know it.

    Parameters
    ----------
    tag:
        Its name, never used twice.
    folder:
        Its directory; every host sees it under that path.
    seats:
        What it holds: a gang, started as a whole or not at all.
    failures:
        How often in a row its job has failed before.
    """

    tag: str
    folder: Path
    seats: tuple[Seat, ...]
    failures: int = 0

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The hosts, in order; the position of one is the number of its runner."""
        return tuple(dict.fromkeys(seat.node for seat in self.seats))


class Phase(StrEnum):
    """How far the engine has come with a lease."""

    WAITING = "waiting"
    """Accepted, not started yet."""
    RUNNING = "running"
    """Some process of it may live."""
    ENDED = "ended"
    """Over as far as the engine knows, or unknown to it. That alone proves nothing about processes."""


class Engine(Protocol):
    """Starts runners (:mod:`hetopt.executor.runner`) for leases, and stops them. No method decides anything.

    Every method but :meth:`close` may raise :class:`EngineDown`. No engine prevents double runs alone: the lease does.

    Attributes
    ----------
    name:
        As ``hetopt run --engine`` says it.
    exact_slots:
        Whether the GPUs of a lease can be named; otherwise the engine picks as many of the type on the node.
    look_seconds:
        How long an answer to :meth:`nodes` and :meth:`status` will do; 0 where asking costs nothing.
    """

    name: str
    exact_slots: bool
    look_seconds: float

    def nodes(self) -> tuple[Node, ...]:
        """All hosts, in an order that stays."""
        ...

    def start(self, grant: Grant) -> None:
        """Start a runner on each node, a gang all or nothing. Under a tag that was started before, nothing happens.

        Raises
        ------
        Refused
            It will never be carried out.
        """
        ...

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """The phase of each of these tags, and of every other lease of this cluster that still waits or runs.

        One question for all.
        """
        ...

    def stop(self, tags: Collection[str]) -> None:
        """Ask their runners to stop; may be repeated."""
        ...

    def kill(self, tags: Collection[str]) -> None:
        """End them and all that they have started; may be repeated."""
        ...

    def fenced_after(self, tag: str) -> float | None:
        """Seconds after a :meth:`kill` from which on certainly nothing of the lease runs.

        Infinite as long as something certainly does; None where the engine can never be certain, so that only the time
        to live proves it.
        """
        ...

    def close(self) -> None:
        """Let go of what the engine holds; leases go on."""
        ...
