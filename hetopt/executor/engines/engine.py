"""The interface of engines, the types in it, and engines by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Protocol, cast

from hetopt.checks import FrozenDict, shown
from hetopt.errors import HetoptError, InvalidOption
from hetopt.executor.lease_record import LeaseRecord as LeaseRecord  # for authors of engines
from hetopt.executor.lease_record import Seat as Seat
from hetopt.plugins import ENGINES, parameters, raised


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

    @cached_property
    def gpus(self) -> Mapping[str, int]:
        """GPU type -> GPUs, in use or not."""
        return FrozenDict(Counter(seat.gpu_type for seat in self.seats))


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

    def start(self, lease: LeaseRecord) -> None:
        """Start a runner on each node of the lease, on all or none. A tag that was started before: no effect.

        An engine may accept the lease and start it later (:attr:`Phase.WAITING`).

        Raises
        ------
        Refused
            It will never start.
        OSError
            It cannot start now, for example as another cluster has locked its GPU; other leases can.
        """

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """The phase of each of these tags, and of every other lease of this cluster that waits or runs.

        Unknown tags have ended. Leases that other engine objects of this cluster have started are included, those of
        other clusters are not. The result comes from one request, whatever the number of tags.
        """

    def stop(self, tags: Collection[str]) -> None:
        """Send SIGTERM to the runners. Repeated calls, unknown tags and tags of ended leases: no effect."""

    def kill(self, tags: Collection[str]) -> None:
        """Kill the runners and all processes of the job, waiting leases too. Repetition and unknown tags as above.

        Processes of the lease have ``HETOPT_TAG=TAG.RANK`` (runner: ``TAG.runner``) in their environment.
        """

    def fenced_after(self, tag: str) -> float | None:
        """Seconds after a :meth:`kill` after which certainly no process of the lease runs.

        0: none runs now. Infinite: one runs now. None: the engine cannot be certain; the controller then waits for the
        lease's time-to-live. Where in doubt return None: that is always correct.
        """

    def close(self) -> None:
        """Release what this object holds; leases go on, and later objects find them."""


MEMBERS = ("name", "exact_slots", "look_seconds", "nodes", "start", "status", "stop", "kill", "fenced_after", "close")


def make_engine(
    name: str, cluster: str, settings: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None
) -> Engine:
    """Make the engine of that name. What its methods raise that is no error of hetopt becomes :class:`EngineDown`.

    Parameters
    ----------
    name:
        Name of an entry point, or ``module:Name``.
    cluster:
        The tags of all its leases begin with ``hetopt-CLUSTER-``.
    settings:
        Further arguments of the factory (``--engine-set``).
    flags:
        Settings from options of the command line such as ``--partition gpu``; None: not given.

    Raises
    ------
    UnknownName
        There is no such entry point, module or attribute.
    InvalidOption
        The factory does not have or accept a setting, or returns no engine.
    """
    known, given = parameters(ENGINES.factory(name)), dict(settings or {})
    for key, value in (flags or {}).items():
        if value is not None and key not in known:
            raise InvalidOption(f"is not for --engine {name}", f"--{key}")
        if value is not None and key in given:
            raise InvalidOption(f"--{key} and --engine-set {key}=… are the same setting; remove one")
        given |= {} if value is None else {key: value}
    engine = ENGINES.make(name, given, cluster)
    if lacks := [member for member in MEMBERS if not hasattr(engine, member)]:
        raise InvalidOption(f"{name!r} makes {type(engine).__name__}, which is not an engine: it has no {lacks[0]}")
    if not isinstance(engine.look_seconds, (int, float)):
        raise InvalidOption(f"engine {name!r}: look_seconds is {engine.look_seconds!r}; it must be a number of seconds")
    return cast(Engine, CheckedEngine(engine, name))


class CheckedEngine:
    """An engine whose exceptions and invalid results become :class:`EngineDown`, so that controller and jobs go on."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.exact_slots, self.look_seconds = engine.exact_slots, engine.look_seconds

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in MEMBERS:
            raise AttributeError(f"an engine has no {method}")
        return partial(self._call, method)

    def _call(self, method: str, *words: Any) -> Any:
        try:
            found = getattr(self.engine, method)(*words)
        except HetoptError:
            raise
        except (Exception, SystemExit) as problem:  # the engine may be user code
            if isinstance(problem, OSError) and method == "start":
                raise  # of this lease alone, such as a GPU that another cluster has locked
            raise EngineDown(f"{method}() raises {raised(problem)}") from problem
        if method == "nodes" and not (isinstance(found, (tuple, list)) and all(isinstance(n, Node) for n in found)):
            raise EngineDown(f"nodes() returns {shown(found)}; it must be a tuple of Node")
        if method == "status":
            with suppress(AttributeError, TypeError, ValueError):
                phases = {tag: Phase(phase) for tag, phase in found.items()}
                if set(words[0]) <= set(phases):
                    return phases
            raise EngineDown(f"status() returns {shown(found)}; it must be a mapping with a phase for each tag")
        return tuple(found) if method == "nodes" else found

    def close(self) -> None:
        """Release what the engine holds."""
        with suppress(HetoptError):
            self._call("close")
