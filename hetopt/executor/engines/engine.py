"""The interface of engines, and the types in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hetopt.checks import FrozenDict
from hetopt.errors import HetoptError
from hetopt.executor.lease_record import LeaseRecord as LeaseRecord  # for authors of engines
from hetopt.executor.lease_record import Seat as Seat


class EngineDown(HetoptError, ConnectionError):
    """The engine gives no answer, or no reliable one: the controller decides nothing and tries again; jobs go on."""


class Refused(HetoptError, ValueError):
    """The engine will never accept this request, for example since a partition does not exist."""


@dataclass(frozen=True)
class Node:
    """A host.

    Parameters
    ----------
    name:
        Unique in the cluster.
    seats:
        All GPUs, in use or not; each with the node's name.
    up:
        Whether leases start there now. Where not, running ones go on, and leases that have not begun are revoked.
    note:
        Its problem, for ``hetopt status``.
    memory_bytes:
        GPU type -> memory of one GPU in bytes, where known.
    address:
        Where other hosts reach it, for gangs.
    used:
        GPU type -> GPUs in use, by leases or others; empty where only leases run, or the engine does not know.
    busy:
        Device of a seat -> what uses it now, other than leases of this cluster.
    """

    name: str
    seats: tuple[Seat, ...]
    up: bool = True
    note: str = ""
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    address: str = "127.0.0.1"
    used: Mapping[str, int] = field(default_factory=dict)
    busy: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", tuple(self.seats))
        object.__setattr__(self, "memory_bytes", FrozenDict(self.memory_bytes))
        object.__setattr__(self, "used", FrozenDict(self.used))
        object.__setattr__(self, "busy", FrozenDict(self.busy))


class Phase(StrEnum):
    """State of a lease at the engine."""

    WAITING = "waiting"
    """Accepted, no process started yet."""
    RUNNING = "running"
    """A process of it may run."""
    ENDED = "ended"
    """Unknown to the engine, or ended. This alone does not prove that no process of it runs."""


class Engine(Protocol):
    """Starts and kills runners of leases. It decides nothing.

    A runner is the command ``python -P -m hetopt.executor.runner FOLDER RANK`` on each node of the lease, with the
    interpreter of the controller (``sys.executable``), the lease's ``folder``, and the node's position in ``nodes``
    (from 0). It is a process of the controller's user in a separate session that outlives the controller, with
    ``HETOPT_TAG=TAG.runner`` in its environment. It starts the job, stops it on SIGTERM, and ends after it. No engine
    has to prevent double starts: of two runners of a node the second one exits.

    Each method except :meth:`close` may raise :class:`EngineDown`. Calls come from one thread, one at a time.

    Attributes
    ----------
    name:
        For messages; ``hetopt run`` replaces it by the name in ``--engine``.
    exact_slots:
        True: the seats of a lease name its GPUs (``Seat.device``), and the runner sets ``CUDA_VISIBLE_DEVICES``; lease
        directories are on this machine. False: the engine picks GPUs, sets ``CUDA_VISIBLE_DEVICES`` for the runner to
        as many as the lease has there, and lease directories may be on a file server.
    look_seconds:
        Minimum age of results of :meth:`nodes` and :meth:`status` before the next call; 0 where calls are cheap.
    """

    name: str
    exact_slots: bool
    look_seconds: float

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, always in the same order; also those that are down."""
        ...

    def start(self, lease: LeaseRecord) -> None:
        """Start a runner on each node of the lease, on all or none. A tag that was started before: no effect.

        An engine may accept the lease and start it later (:attr:`Phase.WAITING`).

        Raises
        ------
        Refused
            It will never start.
        """
        ...

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """The phase of each of these tags, and of every other lease of this cluster that waits or runs.

        Unknown tags have ended. Leases that other engine objects of this cluster have started are included, those of
        other clusters are not. The result comes from one request, whatever the number of tags.
        """
        ...

    def stop(self, tags: Collection[str]) -> None:
        """Send SIGTERM to the runners. Repeated calls, unknown tags and tags of ended leases: no effect."""
        ...

    def kill(self, tags: Collection[str]) -> None:
        """Kill the runners and all processes of the job, waiting leases too. Repetition and unknown tags as above.

        Processes of the lease have ``HETOPT_TAG=TAG.RANK`` (runner: ``TAG.runner``) in their environment.
        """
        ...

    def fenced_after(self, tag: str) -> float | None:
        """Seconds after a :meth:`kill` after which certainly no process of the lease runs.

        0: none runs now. Infinite: one runs now. None: the engine cannot be certain; the controller then waits for the
        lease's time-to-live. Where in doubt return None: that is always correct.
        """
        ...

    def close(self) -> None:
        """Release what this object holds; leases go on, and later objects find them."""
        ...
