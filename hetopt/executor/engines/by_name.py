"""Engines by name: those that installed packages announce, and ``module:Name``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from hetopt.checks import choices, shown
from hetopt.errors import HetoptError, InvalidOption, MissingPackage
from hetopt.executor.engines.engine import Engine, EngineDown, LeaseRecord, Node, Phase
from hetopt.plugins import ENGINES, parameters, raised

T = TypeVar("T")

METHODS = ("nodes", "start", "status", "stop", "kill", "fenced_after", "close")
ATTRIBUTES = ("name", "exact_slots", "look_seconds")
_MANY = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def make_engine(
    name: str, cluster: str, settings: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None
) -> Engine:
    """The engine of that name.

    Parameters
    ----------
    name:
        An announced name or ``module:Name``.
    cluster:
        The tags of all its leases begin with ``hetopt-CLUSTER-``.
    settings:
        Further arguments of the function or class behind the name.
    flags:
        The same, of options of the command line (``--partition gpu``) in place of ``--engine-set``; None: not given.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; or what is made is no engine.
    """
    made, called = ENGINES.factory(name), f"engine {name!r}"
    known = [key for key, one in parameters(made).items() if key != "cluster" and one.kind not in _MANY]
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters(made).values())
    given = dict(settings or {})
    for key in given:
        if key not in known and (not takes_all or key == "cluster"):
            what = choices(key, known) if known else "it has none"
            raise InvalidOption(f"--engine-set {key}: {called} has no such setting; {what}")
    for key, value in (flags or {}).items():
        if value is None:
            continue
        if key not in known:
            raise InvalidOption(f"is not for --engine {name}", f"--{key}")
        if key in given:
            raise InvalidOption(f"--{key} and --engine-set {key}=… say the same; leave out one")
        given[key] = value
    try:
        engine = made(cluster, **given)
    except HetoptError:
        raise
    except Exception as problem:  # whatever the code of somebody else does
        if missing := MissingPackage.of(problem):
            raise missing from None
        raise InvalidOption(f"{called} cannot be made with {given}: {raised(problem)}") from problem
    lacks = [key for key in METHODS if not callable(getattr(engine, key, None))]
    lacks += [key for key in ATTRIBUTES if not hasattr(engine, key)]
    if lacks:
        raise InvalidOption(f"{name!r} makes {type(engine).__name__}, which is not an engine: it has no {lacks[0]}")
    return Shielded(engine, name)


class Shielded:
    """An engine of anybody, of which a mistake is told as if it gave no answer: the controller and the jobs go on.

    Parameters
    ----------
    engine:
        What does the work.
    name:
        As ``hetopt run --engine`` says it.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name: str = name
        self.exact_slots: bool = engine.exact_slots
        self.look_seconds: float = engine.look_seconds

    def nodes(self) -> tuple[Node, ...]:
        """See :class:`~hetopt.executor.engines.engine.Engine`, for this and all other methods."""
        found = self._told("nodes", self.engine.nodes)
        if not (isinstance(found, (tuple, list)) and all(isinstance(node, Node) for node in found)):
            raise EngineDown(f"nodes() returns {shown(found)}; it must be a tuple of Node")
        return tuple(found)

    def start(self, lease: LeaseRecord) -> None:
        """Start a lease."""
        self._told("start", self.engine.start, lease)

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """How far they are."""
        found = self._told("status", self.engine.status, tags)
        if not (isinstance(found, Mapping) and set(tags) <= set(found)):
            raise EngineDown(f"status() returns {shown(found)}; it must be a mapping with a phase for each tag")
        return found

    def stop(self, tags: Collection[str]) -> None:
        """Ask them to stop."""
        self._told("stop", self.engine.stop, tags)

    def kill(self, tags: Collection[str]) -> None:
        """End them."""
        self._told("kill", self.engine.kill, tags)

    def fenced_after(self, tag: str) -> float | None:
        """When it is certainly dead."""
        return self._told("fenced_after", self.engine.fenced_after, tag)

    def close(self) -> None:
        """Let go."""
        with suppress(HetoptError):
            self._told("close", self.engine.close)

    @staticmethod
    def _told(method: str, do: Callable[..., T], *words: object) -> T:
        try:
            return do(*words)
        except (HetoptError, OSError):
            raise
        except (Exception, SystemExit) as problem:  # whatever the code of somebody else does
            raise EngineDown(f"{method}() raises {raised(problem)}") from problem
