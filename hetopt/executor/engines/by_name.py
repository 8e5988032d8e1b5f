"""Engines by name: those that installed packages announce, and ``module:Name``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from hetopt.announced import Announced, parameters, raised
from hetopt.checks import choices
from hetopt.errors import HetoptError, InvalidOption
from hetopt.executor.engines.engine import Engine

ENGINES = Announced("engine", "hetopt.engines", ("grant",), method="start")
"""Each entry point is a function or class ``(cluster, setting=…, …)`` that makes an engine for the cluster's tags."""

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
        if key not in known and not takes_all:
            what = choices(key, known) if known else "it has none"
            raise InvalidOption(f"--engine-set {key}: {called} has no such setting; {what}")
    for key, value in (flags or {}).items():
        if value is None:
            continue
        if key not in known:
            raise InvalidOption(f"--{key} is not for --engine {name}")
        if key in given:
            raise InvalidOption(f"--{key} and --engine-set {key}=… say the same; leave out one")
        given[key] = value
    try:
        engine = made(cluster, **given)
    except HetoptError:
        raise
    except Exception as problem:  # whatever the code of somebody else does
        raise InvalidOption(f"{called} cannot be made with {given}: {raised(problem)}") from problem
    lacks = [key for key in METHODS if not callable(getattr(engine, key, None))]
    lacks += [key for key in ATTRIBUTES if not hasattr(engine, key)]
    if lacks:
        raise InvalidOption(f"{name!r} makes {type(engine).__name__}, which is not an engine: it has no {lacks[0]}")
    ready: Engine = engine
    return ready
