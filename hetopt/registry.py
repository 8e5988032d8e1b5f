"""Finds policies by name, so that the core imports no paper and anybody's package adds its own.

A package announces a policy by an entry point of the group ``hetopt.policies``: a function without required
arguments (or a dataclass whose fields have defaults) that returns a Formulation or a policy. It announces named
instances by one of the group ``hetopt.instances``: a module with ``names() -> list[str]``,
``describe(name) -> str`` and ``load(name) -> Instance``.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hetopt.checks import choices, lookup
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError, InvalidOption, UnknownName
from hetopt.programs.formulation import Formulation
from hetopt.solving.road import Policy

GROUP = "hetopt.policies"
INSTANCES = "hetopt.instances"


@cache
def _announced() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def policy_names() -> list[str]:
    """Names of all policies that installed packages announce, sorted."""
    return list(_announced())


def factory(name: str) -> Callable[..., Formulation | Policy]:
    """What stands behind a policy's name, or behind ``module:Name``: a function or class that makes it, or itself.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    """
    point = _announced().get(name)
    if point is None and ":" in name:
        if not all(part.isidentifier() for half in name.split(":", 1) for part in half.split(".")):
            raise UnknownName(f"there is no policy {name!r}; one of your own is called module:Name")
        point = EntryPoint(name=name, value=name, group=GROUP)
    if point is None:
        raise UnknownName(
            f"there is no policy {name!r}; {choices(name, _announced())}; module:Name works for any other"
        )
    try:
        made = point.load()
    except (ImportError, AttributeError) as problem:
        raise UnknownName(f"policy {name!r} cannot be loaded from {point.value!r}: {problem}") from None
    except Exception as problem:  # whatever the module of somebody else does
        raise InvalidOption(f"policy {name!r} cannot be loaded: {_raised(problem)}") from problem
    if not callable(made):
        raise UnknownName(f"policy {name!r} is {made!r}; it must be a function or class that makes a policy")
    return made  # type: ignore[no-any-return]


def make_policy(name: str, settings: Mapping[str, Any] | None = None) -> Formulation | Policy:
    """The policy of that name with these settings.

    Parameters
    ----------
    name:
        An announced name (:func:`policy_names`) or ``module:Name``.
    settings:
        Arguments of the function or class behind the name. Where that is itself a policy, a function
        ``(instance, state=None, …)``, its further arguments.

    Raises
    ------
    UnknownName
        See :func:`factory`.
    InvalidOption
        A setting that it does not have, or does not accept.
    """
    made, settings = factory(name), dict(settings or {})
    if isinstance(made, Formulation):
        if settings:
            raise InvalidOption(
                f"policy {name!r} is a Formulation and has no settings; leave out {', '.join(settings)}"
            )
        return made
    known = _settings(made)
    for key, value in settings.items():
        if key not in known:
            raise InvalidOption(f"policy {name!r} has no setting {key!r}; {choices(key, known)}")
        if known[key].annotation in (bool, "bool") and not isinstance(value, bool):
            raise InvalidOption(f"setting {key} of policy {name!r} is {value!r}; it must be true or false")
    if _is_policy(known):
        itself: Any = made
        return partial(itself, **settings) if settings else itself
    try:
        policy = made(**settings)
    except HetoptError:
        raise
    except Exception as problem:  # whatever the code of somebody else does
        raise InvalidOption(f"policy {name!r} cannot be made with {settings}: {_raised(problem)}") from problem
    if not callable(policy):
        raise InvalidOption(f"{name!r} makes {type(policy).__name__}, which is not a policy(instance, state)")
    return policy


def _settings(made: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(made).parameters
    except ValueError:  # some callables written in C tell nothing
        return {}


def _is_policy(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether something with these parameters decides on an instance rather than makes a policy."""
    first, second = [*parameters.values(), None, None][:2]
    if first is None or first.default is not inspect.Parameter.empty:
        return False
    return first.name == "instance" or (second is not None and second.name == "state")


def _raised(problem: Exception) -> str:
    """What went wrong in somebody's code, and in which line."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{where}"


def description(name: str) -> str:
    """First sentence of the docstring behind a policy's name."""
    text = inspect.getdoc(factory(name)) or ""
    return text.split("\n\n")[0].replace("\n", " ")


@cache
def _libraries() -> Mapping[str, Any]:
    """Instance name -> module that has it."""
    points = sorted(entry_points(group=INSTANCES), key=lambda point: point.name)
    modules = [point.load() for point in points]
    return {name: module for module in reversed(modules) for name in module.names()}


def named_instances() -> dict[str, str]:
    """Name of every instance that installed packages bring -> what it is; sorted."""
    return {name: _libraries()[name].describe(name) for name in sorted(_libraries())}


def named_instance(name: str) -> Instance:
    """The instance of that name.

    Raises
    ------
    UnknownName
        There is none; the nearest is named.
    """
    return lookup(_libraries(), name, "instance").load(name)  # type: ignore[no-any-return]
