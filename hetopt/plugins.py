"""Plugins (policies and more), which packages register as entry points, and their construction from settings.

All groups of entry points of hetopt:

===================== ==================== ===========================================================================
group                 here                 an entry point is
===================== ==================== ===========================================================================
``hetopt.policies``   :data:`POLICIES`     a policy ``(instance, state=None)``, a Formulation, or a factory of one
``hetopt.systems``    :data:`SYSTEMS`      a factory of :class:`~hetopt.decisions.system.System`
``hetopt.placers``    :data:`PLACERS`      a placer ``(plan, instance)``, or a factory of one
``hetopt.mappers``    :data:`MAPPERS`      a mapping method ``(pipeline, servers)``, or a factory of one
``hetopt.predictors`` :data:`PREDICTORS`   a factory of :class:`~hetopt.prediction.predictors.Predictor`
``hetopt.traces``     :data:`TRACES`       a reader of traces ``(path, …)``, or a factory of one
``hetopt.generators`` :data:`GENERATORS`   a factory of :class:`~hetopt.traces.sampling.Generator`
``hetopt.programs``   :data:`PROGRAMS`     an object with mathematics, or a factory of one
``hetopt.estimators`` :data:`ESTIMATORS`   an estimator of unmeasured speeds ``(models, measured, types)``
``hetopt.engines``    :data:`ENGINES`      a factory ``(cluster, …)`` of :class:`~hetopt.executor.engines.engine.Engine`
``hetopt.instances``  :data:`INSTANCES`    a module with ``names()``, ``describe(name)`` and ``load(name)``
``hetopt.methods``    :data:`METHODS`      a :class:`~hetopt.solving.optimising.Method`
``hetopt.claims``     :data:`CLAIMS`       a function without arguments that returns claims
``hetopt.commands``   :data:`COMMANDS`     a command of ``hetopt``, a function with Typer's annotations
===================== ==================== ===========================================================================

Of entry points with the same name in one group, only one is used.

A factory is a function or class that returns the plugin; its parameters are settings. Where a group accepts both, the
names of the parameters decide: see :attr:`PluginGroup.parameters`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, get_type_hints

from hetopt.checks import choices, shown
from hetopt.errors import HetoptError, InvalidOption, MissingPackage, UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLAIN = (bool, int, float, str, list, dict, type(None))
"""Types of values in files and on command lines."""


@dataclass(frozen=True)
class PluginGroup:
    """Plugins of one kind, registered as entry points of one group.

    Attributes
    ----------
    what:
        The kind of plugin in messages.
    group:
        The group. Each entry point is a plugin, or a function or class that returns one (a factory).
    parameters:
        Names of the first two parameters of a plugin. A callable is a plugin, not a factory, if its first parameter is
        required and has the first name, or its second parameter has the second name.
    method:
        The method that a plugin must have; empty: none. If it is not ``__call__``, ``parameters`` are those of the
        method, and every entry point is a factory.
    protocol:
        ``module:Name`` of the class of the plugins. A setting annotated with this class may be given by name.
    """

    what: str
    group: str
    parameters: tuple[str, ...]
    method: str = "__call__"
    protocol: str = ""

    @cached_property
    def points(self) -> Mapping[str, EntryPoint]:
        """Name -> entry point, sorted."""
        from importlib.metadata import entry_points

        return {point.name: point for point in sorted(entry_points(group=self.group), key=lambda point: point.name)}

    def load(self, name: str) -> Any:
        """The object behind a name, or behind ``module:Name``.

        Raises
        ------
        UnknownName
            Nothing is registered under that name, or the module or the attribute does not exist.
        InvalidOption
            The module cannot be imported.
        MissingPackage
            A package of an extra is not installed.
        """
        if not isinstance(name, str):
            raise InvalidOption(f"the {self.what} is {shown(name)}; it must be a name, or module:Name")
        point = self.points.get(name)
        if point is None and ":" in name:
            if not all(part.isidentifier() for half in name.split(":", 1) for part in half.split(".")):
                raise UnknownName(f"there is no {self.what} {name!r}; name your own as module:Name")
            from importlib.metadata import EntryPoint

            point = EntryPoint(name=name, value=name, group=self.group)
        if point is None:
            known = choices(name, self.points)
            raise UnknownName(f"there is no {self.what} {name!r}; {known}; module:Name works for any other")
        try:
            return point.load()
        except (ImportError, AttributeError) as problem:
            if missing := MissingPackage.of(problem):
                raise missing from None
            source = "" if point.value == name else f" from {point.value!r}"
            raise UnknownName(f"{self.what} {name!r} cannot be loaded{source}: {problem}") from None
        except Exception as problem:  # a user's module may raise anything
            raise InvalidOption(f"{self.what} {name!r} cannot be loaded: {raised(problem)}") from problem

    def factory(self, name: str) -> Callable[..., Any]:
        """The function or class behind a name, or behind ``module:Name``.

        Raises
        ------
        UnknownName
            See :meth:`load`, or it is not callable.
        InvalidOption
            The module cannot be imported.
        """
        made = self.load(name)
        if not callable(made):
            raise UnknownName(f"{self.what} {name!r} is {made!r}; it must be a function or class that makes one")
        return made  # type: ignore[no-any-return]

    def make(self, name: str, settings: Mapping[str, Any] | None = None, *first: Any) -> Any:
        """The plugin of that name with these settings, which :func:`fitting` converts.

        Parameters
        ----------
        first:
            First arguments of the factory, which are not settings.

        Raises
        ------
        UnknownName
            See :meth:`factory`.
        InvalidOption
            A setting is unknown, lacking or not accepted.
        MissingPackage
            A package of an extra is not installed.
        """
        made, called, settings = self.factory(name), f"{self.what} {name!r}", settings or {}
        made = partial(made, *first) if first else made
        known = parameters(made)
        single = {key: one for key, one in known.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
        takes_all = any(one.kind is one.VAR_KEYWORD for one in known.values())
        for key in settings:
            if key not in single and not takes_all:
                hint = choices(key, single) if single else "it has none"
                raise InvalidOption(f"{called} has no setting {key!r}; {hint}")
        needed = [key for key, one in single.items() if one.default is one.empty and key not in settings]
        if needed and not self.includes(made):
            raise InvalidOption(f"{called} needs the setting {needed[0]!r}")
        try:
            fit = fitting(made, settings, called)
            if self.includes(made):
                return partial(made, **fit) if fit else made
            result = made(**fit)
        except HetoptError:
            raise
        except Exception as problem:  # a user's code may raise anything
            if missing := MissingPackage.of(problem):
                raise missing from None
            raise InvalidOption(f"{called} cannot be made with {dict(settings)}: {raised(problem)}") from problem
        if self.method and not callable(getattr(result, self.method, None)):
            wanted = ("" if self.method == "__call__" else f".{self.method}") + f"({', '.join(self.parameters)})"
            raise InvalidOption(f"{name!r} makes {type(result).__name__}, which is not a {self.what}{wanted}")
        return result

    def includes(self, made: Callable[..., object]) -> bool:
        """Whether ``made`` is a plugin, not a factory."""
        if self.method != "__call__":
            return False
        first, second = [*parameters(made).values(), None, None][:2]
        if first is None or first.default is not inspect.Parameter.empty:
            return False
        return first.name == self.parameters[0] or (second is not None and second.name == self.parameters[1])

    def description(self, name: str) -> str:
        """First paragraph of the docstring behind a name, on one line."""
        text = inspect.getdoc(self.factory(name)) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    def descriptions(self) -> dict[str, str]:
        """Registered name -> :meth:`description`."""
        return {name: self.description(name) for name in self.points}


def parameters(made: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Name -> parameter; none for callables written in C without a signature."""
    try:
        return inspect.signature(made).parameters
    except ValueError:
        return {}


def fitting(made: Callable[..., object], settings: Mapping[str, Any], called: str) -> dict[str, Any]:
    """Convert ``settings`` to the types annotated on ``made``.

    Text becomes a member of an enum, a mapper or a predictor; a mapping becomes a dataclass.

    Raises
    ------
    InvalidOption, UnknownName
        The member, mapper, predictor or field does not exist; or the setting must be an object of a class to which
        it cannot be converted.
    """
    try:
        hints = get_type_hints(made)
    except (NameError, AttributeError, TypeError, SyntaxError):  # imported for type checkers alone, or no types
        hints = {}
    known = parameters(made)
    given = {key: hints.get(key, known[key].annotation if key in known else None) for key in settings}
    return {key: _fitting(value, given[key], f"setting {key} of {called}") for key, value in settings.items()}


def _fitting(value: Any, hint: Any, key: str) -> Any:
    if hint in (bool, "bool") and not isinstance(value, bool):
        raise InvalidOption(f"is {shown(value)}; it must be true or false", key)
    free = not isinstance(hint, type) or hint is inspect.Parameter.empty
    if type(value) not in PLAIN or free or hint.__module__ in ("builtins", "collections.abc"):
        return value
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise InvalidOption(
                f"is {shown(value)}; it must be one of {', '.join(str(m.value) for m in hint)}", key
            ) from None
    if is_dataclass(hint) and isinstance(value, dict):
        names = [item.name for item in fields(hint) if item.init]
        for name in value:
            if name not in names:
                raise InvalidOption(f"has no field {name!r}; {choices(str(name), names)}", key)
        made: Any = hint
        return made(**fitting(made, value, key))
    if isinstance(value, str) and (group := _group_of(hint)):
        return group.make(value)
    given = ", ".join(item.name for item in fields(hint) if item.init and item.repr) if is_dataclass(hint) else ""
    raise InvalidOption(
        f"is {shown(value)}; it must be of class {hint.__name__}{given and f', or a mapping of its fields: {given}'}",
        key,
    )


def _group_of(hint: type) -> PluginGroup | None:
    """The group of plugins of that class; None if there is none."""
    name = f"{hint.__module__}:{hint.__qualname__}"
    return next((group for group in (MAPPERS, PREDICTORS) if group.protocol == name), None)


def raised(problem: BaseException) -> str:
    """An exception of a user's code as text, with its line."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{where}"


POLICIES = PluginGroup("policy", "hetopt.policies", ("instance", "state"))
MAPPERS = PluginGroup(
    "mapping method", "hetopt.mappers", ("pipeline", "servers"), protocol="hetopt.stages.mapping:Mapper"
)
PREDICTORS = PluginGroup(
    "predictor", "hetopt.predictors", (), method="learner", protocol="hetopt.prediction.predictors:Predictor"
)
TRACES = PluginGroup("trace reader", "hetopt.traces", ("path", "settings"))
SYSTEMS = PluginGroup("system", "hetopt.systems", (), method="steps")
GENERATORS = PluginGroup("trace generator", "hetopt.generators", ("jobs", "seed"), method="table")
PROGRAMS = PluginGroup("program", "hetopt.programs", (), method="")
PLACERS = PluginGroup("placer", "hetopt.placers", ("plan", "instance"))
ESTIMATORS = PluginGroup("estimator", "hetopt.estimators", ("models", "measured", "types"))
ENGINES = PluginGroup("engine", "hetopt.engines", (), method="")

INSTANCES = PluginGroup("collection of instances", "hetopt.instances", (), method="")
METHODS = PluginGroup("method", "hetopt.methods", (), method="")
CLAIMS = PluginGroup("collection of claims", "hetopt.claims", (), method="")
COMMANDS = PluginGroup("command", "hetopt.commands", (), method="")
