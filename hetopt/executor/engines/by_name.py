"""Engines by name: entry points of installed packages, and ``module:Name``."""

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
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def make_engine(
    name: str, cluster: str, settings: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None
) -> Engine:
    """Make the engine of that name.

    Parameters
    ----------
    name:
        Name of an entry point, or ``module:Name``.
    cluster:
        The tags of all its leases begin with ``hetopt-CLUSTER-``.
    settings:
        Further arguments of the factory (``--engine-set``).
    flags:
        The same, from options of the command line such as ``--partition gpu``; None: not given.

    Raises
    ------
    UnknownName
        There is no such entry point, module or attribute.
    InvalidOption
        The factory does not have or accept a setting, or returns no engine.
    """
    factory, label = ENGINES.factory(name), f"engine {name!r}"
    kinds = {key: one.kind for key, one in parameters(factory).items()}
    known = [key for key, kind in kinds.items() if key != "cluster" and kind not in _VARIADIC]
    takes_all = inspect.Parameter.VAR_KEYWORD in kinds.values()
    given = dict(settings or {})
    for key in given:
        if key not in known and (not takes_all or key == "cluster"):
            hint = choices(key, known) if known else "it has none"
            raise InvalidOption(f"--engine-set {key}: {label} has no such setting; {hint}")
    needed = [key for key, one in parameters(factory).items() if one.default is one.empty and key in known]
    for key, value in (flags or {}).items():
        if value is None:
            continue
        if key not in known:
            raise InvalidOption(f"is not for --engine {name}", f"--{key}")
        if key in given:
            raise InvalidOption(f"--{key} and --engine-set {key}=… are the same setting; remove one")
        given[key] = value
    if lacking := [key for key in needed if key not in given]:
        raise InvalidOption(f"{label} needs the setting {lacking[0]}: --engine-set {lacking[0]}=…")
    try:
        engine = factory(cluster, **given)
    except HetoptError:
        raise
    except Exception as problem:  # the factory may be user code
        if missing := MissingPackage.of(problem):
            raise missing from None
        raise InvalidOption(f"{label} cannot be made with {given}: {raised(problem)}") from problem
    lacks = [key for key in METHODS if not callable(getattr(engine, key, None))]
    lacks += [key for key in ATTRIBUTES if not hasattr(engine, key)]
    if lacks:
        raise InvalidOption(f"{name!r} makes {type(engine).__name__}, which is not an engine: it has no {lacks[0]}")
    if not isinstance(engine.look_seconds, (int, float)):
        raise InvalidOption(f"{label} has look_seconds = {engine.look_seconds!r}; it must be a number of seconds")
    return CheckedEngine(engine, name)


class CheckedEngine:
    """An engine whose exceptions and invalid results become :class:`EngineDown`, so that controller and jobs go on.

    Parameters
    ----------
    engine:
        Does the work.
    name:
        As ``hetopt run --engine`` has it.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name: str = name
        self.exact_slots: bool = engine.exact_slots
        self.look_seconds: float = engine.look_seconds

    def nodes(self) -> tuple[Node, ...]:
        """See :class:`~hetopt.executor.engines.engine.Engine`, for this and all other methods."""
        found = _call("nodes", self.engine.nodes)
        if not (isinstance(found, (tuple, list)) and all(isinstance(node, Node) for node in found)):
            raise EngineDown(f"nodes() returns {shown(found)}; it must be a tuple of Node")
        return tuple(found)

    def start(self, lease: LeaseRecord) -> None:
        """Start runners."""
        _call("start", self.engine.start, lease)

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """Phases of leases."""
        found = _call("status", self.engine.status, tags)
        if not (isinstance(found, Mapping) and set(tags) <= set(found)):
            raise EngineDown(f"status() returns {shown(found)}; it must be a mapping with a phase for each tag")
        return found

    def stop(self, tags: Collection[str]) -> None:
        """Have runners stop."""
        _call("stop", self.engine.stop, tags)

    def kill(self, tags: Collection[str]) -> None:
        """Kill leases."""
        _call("kill", self.engine.kill, tags)

    def fenced_after(self, tag: str) -> float | None:
        """Time after which a killed lease is dead."""
        return _call("fenced_after", self.engine.fenced_after, tag)

    def close(self) -> None:
        """Release what the engine holds."""
        with suppress(HetoptError):
            _call("close", self.engine.close)


def _call(method: str, do: Callable[..., T], *words: object) -> T:
    try:
        return do(*words)
    except (HetoptError, OSError):
        raise
    except (Exception, SystemExit) as problem:  # the engine may be user code
        raise EngineDown(f"{method}() raises {raised(problem)}") from problem
