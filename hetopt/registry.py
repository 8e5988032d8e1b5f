"""Find policies, GPU mappings, instances and more by name, as installed packages announce them by entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from hetopt.checks import choices, lookup
from hetopt.data.entities import Kind, check_kind
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError, InvalidOption, UnknownName
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy
from hetopt.plugins import (
    GENERATORS,
    INSTANCES,
    MAPPERS,
    POLICIES,
    PREDICTORS,
    PROGRAMS,
    SYSTEMS,
    TRACES,
    PluginGroup,
)
from hetopt.programs.mathematics import Mathematics, mathematics_of

if TYPE_CHECKING:
    import pandas as pd

    from hetopt.decisions.system import System
    from hetopt.prediction.predictors import Predictor
    from hetopt.stages.mapping import Mapper
    from hetopt.traces.generators import Generator


PLAIN = (bool, int, float, str, list, dict, type(None))
"""What files and command lines can say."""


@dataclass(frozen=True)
class Announced:
    """Callables of one kind, behind entry points of one group.

    Attributes
    ----------
    what:
        Of what kind, as messages say it.
    group:
        Of the entry points: each a function or class that makes such a callable, or itself one.
    parameters:
        The two arguments with which such a callable is called. Something whose first required parameter is called as
        the first, or whose second as the second, is itself one.
    method:
        That makes it one; where this is not ``__call__``, ``parameters`` are those of the method. Empty: anything is.
    """

    what: str
    group: str
    parameters: tuple[str, ...]
    method: str = "__call__"

    @cached_property
    def points(self) -> Mapping[str, EntryPoint]:
        """Name -> entry point, sorted."""
        return {point.name: point for point in sorted(entry_points(group=self.group), key=lambda point: point.name)}

    def load(self, name: str) -> Any:
        """What stands behind a name, or behind ``module:Name``.

        Raises
        ------
        UnknownName
            Nothing is announced under that name, or the module or the attribute does not exist.
        InvalidOption
            The module cannot be imported.
        """
        point = self.points.get(name)
        if point is None and ":" in name:
            if not all(part.isidentifier() for half in name.split(":", 1) for part in half.split(".")):
                raise UnknownName(f"there is no {self.what} {name!r}; one of your own is called module:Name")
            point = EntryPoint(name=name, value=name, group=self.group)
        if point is None:
            known = choices(name, self.points)
            raise UnknownName(f"there is no {self.what} {name!r}; {known}; module:Name works for any other")
        try:
            return point.load()
        except (ImportError, AttributeError) as problem:
            raise UnknownName(f"{self.what} {name!r} cannot be loaded from {point.value!r}: {problem}") from None
        except Exception as problem:  # whatever the module of somebody else does
            raise InvalidOption(f"{self.what} {name!r} cannot be loaded: {raised(problem)}") from problem

    def factory(self, name: str) -> Callable[..., Any]:
        """The function or class behind a name, or behind ``module:Name``.

        Raises
        ------
        UnknownName
            See :meth:`load`, or it is no function or class.
        InvalidOption
            The module cannot be imported.
        """
        made = self.load(name)
        if not callable(made):
            raise UnknownName(f"{self.what} {name!r} is {made!r}; it must be a function or class that makes one")
        return made  # type: ignore[no-any-return]

    def make(self, name: str, settings: Mapping[str, Any]) -> Any:
        """The callable of that name with these settings; see :func:`fitting` for what may stand for a setting.

        Raises
        ------
        UnknownName
            See :meth:`factory`.
        InvalidOption
            A setting that it does not have, or does not accept.
        """
        made, called = self.factory(name), f"{self.what} {name!r}"
        known = parameters(made)
        for key in settings:
            if key not in known:
                raise InvalidOption(f"{called} has no setting {key!r}; {choices(key, known)}")
        try:
            fit = fitting(made, settings, called)
            if self.includes(made):
                return partial(made, **fit) if fit else made
            result = made(**fit)
        except HetoptError:
            raise
        except Exception as problem:  # whatever the code of somebody else does
            raise InvalidOption(f"{called} cannot be made with {dict(settings)}: {raised(problem)}") from problem
        if self.method and not callable(getattr(result, self.method, None)):
            wanted = ("" if self.method == "__call__" else f".{self.method}") + f"({', '.join(self.parameters)})"
            raise InvalidOption(f"{name!r} makes {type(result).__name__}, which is not a {self.what}{wanted}")
        return result

    def includes(self, made: Callable[..., object]) -> bool:
        """Whether ``made`` is itself of this kind, rather than makes one."""
        if self.method != "__call__":
            return False  # a name stands for what makes one
        first, second = [*parameters(made).values(), None, None][:2]
        if first is None or first.default is not inspect.Parameter.empty:
            return False
        return first.name == self.parameters[0] or (second is not None and second.name == self.parameters[1])

    def description(self, name: str) -> str:
        """First sentence of the docstring behind a name."""
        text = inspect.getdoc(self.factory(name)) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    def descriptions(self) -> dict[str, str]:
        """Announced name -> :meth:`description`."""
        return {name: self.description(name) for name in self.points}


def parameters(made: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Name -> parameter; none for callables written in C that tell nothing."""
    try:
        return inspect.signature(made).parameters
    except ValueError:
        return {}


def fitting(made: Callable[..., object], settings: Mapping[str, Any], called: str) -> dict[str, Any]:
    """The settings as ``made`` annotates them.

    Of text it makes a member of an enum, a mapper or a predictor; of a mapping a dataclass.

    Raises
    ------
    InvalidOption, UnknownName
        No such member, mapper, predictor or field; text, a number, a list or a mapping where an object of another class
        is due.
    """
    try:
        hints = get_type_hints(made)
    except (NameError, AttributeError, TypeError, SyntaxError):  # imported for type checkers alone, or no types
        hints = {}
    known = parameters(made)
    given = {key: hints.get(key, known[key].annotation) for key in settings}
    return {key: _fitting(value, given[key], f"setting {key} of {called}") for key, value in settings.items()}


def _fitting(value: Any, hint: Any, key: str) -> Any:
    if hint in (bool, "bool") and not isinstance(value, bool):
        raise InvalidOption(f"{key} is {value!r}; it must be true or false")
    free = not isinstance(hint, type) or hint is inspect.Parameter.empty
    if type(value) not in PLAIN or free or hint.__module__ in ("builtins", "collections.abc"):
        return value
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise InvalidOption(
                f"{key} is {value!r}; it must be one of {', '.join(str(m.value) for m in hint)}"
            ) from None
    if is_dataclass(hint) and isinstance(value, dict):
        names = [item.name for item in fields(hint) if item.init]
        for name in value:
            if name not in names:
                raise InvalidOption(f"{key} has no field {name!r}; {choices(str(name), names)}")
        made: Any = hint
        return made(**fitting(made, value, key))
    if isinstance(value, str) and (make := _made_by_name(hint)):
        return make(value)
    given = ", ".join(item.name for item in fields(hint) if item.init and item.repr) if is_dataclass(hint) else ""
    raise InvalidOption(
        f"{key} is {value!r}; it must be of class {hint.__name__}{given and f', or a mapping of its fields: {given}'}"
    )


def _made_by_name(hint: type) -> Callable[[str], object] | None:
    """What makes one of that kind from its name; None where they have none."""
    from hetopt.prediction.predictors import Predictor
    from hetopt.stages.mapping import Mapper

    return make_mapper if hint is Mapper else make_predictor if hint is Predictor else None


def raised(problem: BaseException) -> str:
    """What went wrong in somebody's code, and in which line."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{where}"


POLICIES = Announced("policy", "hetopt.policies", ("instance", "state"))
MAPPERS = Announced("mapping method", "hetopt.mappers", ("pipeline", "servers"))
PREDICTORS = Announced("predictor", "hetopt.predictors", (), method="learner")
TRACES = Announced("trace reader", "hetopt.traces", ("path", "settings"))
SYSTEMS = Announced("system", "hetopt.systems", (), method="steps")
GENERATORS = Announced("trace generator", "hetopt.generators", ("jobs", "seed"), method="table")
PROGRAMS = Announced("program", "hetopt.programs", (), method="")
INSTANCES = "hetopt.instances"

ROUND_SECONDS = 300.0
"""Length of the rounds of shares that say none, as in FFT's and OEF's experiments."""


def policy_names() -> list[str]:
    """Names of all policies that installed packages announce, sorted."""
    return list(POLICIES.points)


def mapper_names() -> list[str]:
    """Names of all ways to map a job's stages to GPUs that installed packages announce, sorted."""
    return list(MAPPERS.points)


def predictor_names() -> list[str]:
    """Names of all predictors of jobs' lengths that installed packages announce, sorted."""
    return list(PREDICTORS.points)


def trace_kinds() -> list[str]:
    """Names of all kinds of traces that installed packages can read, sorted."""
    return list(TRACES.points)


def generator_names() -> list[str]:
    """Names of all generators of traces that installed packages announce, sorted."""
    return list(GENERATORS.points)


def factory(name: str) -> Callable[..., Formulation | Policy]:
    """What stands behind a policy's name, or behind ``module:Name``: a function or class that makes it, or itself.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    """
    return POLICIES.factory(name)


def make_policy(name: str, settings: Mapping[str, Any] | None = None) -> Formulation | Policy:
    """The policy of that name with these settings.

    Parameters
    ----------
    name:
        An announced name (:func:`policy_names`) or ``module:Name``.
    settings:
        Arguments of the function or class behind the name. Where that is itself a policy, a function
        ``(instance, state=None, …)``, its further arguments. For a setting that is an enum, a mapper or a dataclass
        may stand the text of its member, its name (a predictor's as well), or a mapping of its fields.

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
    policy: Formulation | Policy = POLICIES.make(name, settings)
    _refuse(MAPPERS, policy, name, POLICIES)
    return policy


def system_names() -> list[str]:
    """Names of all systems that installed packages announce, sorted."""
    return list(SYSTEMS.points)


def make_system(name: str, settings: Mapping[str, Any] | None = None) -> System:
    """The system of that name: an announced one, or a policy (:func:`make_policy`) with servers for its jobs.

    A policy that does not choose servers itself gets a placer that keeps jobs where they are and puts the others into
    as few servers as possible (:class:`~hetopt.decisions.placers.MoreWorkersFirst`): without servers, gangs that are
    spread and datasets would cost nothing, and comparisons would favour policies that choose none. One that gives
    shares of time (a formulation, or a policy whose attribute ``shares`` is True) and has no rounds gets rounds of
    :data:`ROUND_SECONDS`.

    Parameters
    ----------
    name:
        An announced system (:func:`system_names`) or policy, or ``module:Name`` of either.
    settings:
        Of the function or class behind the name.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept.
    """
    from hetopt.decisions.placers import MoreWorkersFirst
    from hetopt.decisions.system import System

    if name in SYSTEMS.points:
        system: System = SYSTEMS.make(name, dict(settings or {}))
        return system
    if name not in POLICIES.points and ":" not in name:
        known = choices(name, sorted({*SYSTEMS.points, *POLICIES.points}))
        raise UnknownName(f"there is no system or policy {name!r}; {known}; module:Name works for any other")
    policy = make_policy(name, settings)
    system = System.of(policy)
    if system.seconds is None and getattr(policy, "shares", isinstance(policy, Formulation)):
        system = replace(system, round_seconds=ROUND_SECONDS)
    return system if system.placer is not None else replace(system, placer=MoreWorkersFirst(sticky=True))


def make_mapper(name: str, settings: Mapping[str, Any] | None = None) -> Mapper:
    """What maps the stages of a job to GPUs under that name, with these settings.

    Parameters
    ----------
    name:
        An announced name (:func:`mapper_names`) or ``module:Name``.
    settings:
        As of :func:`make_policy`; where ``module:Name`` is itself a mapper, a function ``(pipeline, servers, …)``, its
        further arguments.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; or it is a policy.
    """
    mapper: Mapper = MAPPERS.make(name, dict(settings or {}))
    _refuse(POLICIES, mapper, name, MAPPERS)
    return mapper


def make_predictor(name: str, settings: Mapping[str, Any] | None = None) -> Predictor:
    """The predictor of jobs' lengths under that name, with these settings.

    Parameters
    ----------
    name:
        An announced name (:func:`predictor_names`), or ``module:Name`` of a function or class that makes one.
    settings:
        Arguments of that function or class.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; or it makes no predictor.
    """
    predictor: Predictor = PREDICTORS.make(name, dict(settings or {}))
    return predictor


def program_names() -> list[str]:
    """Names of all programs that installed packages announce, and of policies and mappers that have one; sorted."""
    policies = [name for name in policy_names() if _has_program(make_policy(name))]
    mappers = [name for name in mapper_names() if _has_program(make_mapper(name))]
    return sorted({*PROGRAMS.points, *policies, *mappers})


def _has_program(made: object) -> bool:
    try:
        return mathematics_of(made) is not None
    except HetoptError:  # a part of it states none
        return False


def make_program(name: str, settings: Mapping[str, Any] | None = None, kind: Kind | None = None) -> Mathematics:
    """The mathematics of the program of that name.

    Parameters
    ----------
    name:
        A name of :func:`program_names`, or ``module:Name`` of a program, of what has one, or of what makes either.
    settings:
        Of the function or class behind the name, as of :func:`make_policy`.
    kind:
        What a formulation is to share GPUs among, ``"tenants"`` or ``"jobs"``, where both make sense; None: its own,
        else tenants.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; what stands behind the name has no program, or none for a
        ``kind`` to choose.
    InvalidFormulation
        The formulation is about the other kind.
    """
    check_kind("kind", kind)
    given = dict(settings or {})
    found: object
    if name in PROGRAMS.points or ":" in name:
        made = PROGRAMS.load(name)
        found = made
        procedure = isinstance(made, Formulation) or (
            callable(made) and any(k.includes(made) for k in (POLICIES, MAPPERS))
        )
        if mathematics_of(made) is None and callable(made) and not procedure:
            found = PROGRAMS.make(name, given)
        elif given:
            raise InvalidOption(f"{name!r} has no settings; leave out {', '.join(given)}")
    elif name in POLICIES.points:
        found = make_policy(name, given)
    elif name in MAPPERS.points:
        found = make_mapper(name, given)
    else:
        raise UnknownName(f"there is no program {name!r}; {choices(name, program_names())}; module:Name works for any")
    if kind is not None and not isinstance(found, Formulation):
        raise InvalidOption(f"{name!r} is no formulation and has no kind to choose; leave out {kind}")
    mathematics = mathematics_of(found) if kind is None else mathematics_of(found, kind)
    if mathematics is None:
        raise InvalidOption(f"{name!r} states no program; these do: {', '.join(program_names())}")
    return mathematics


def make_reader(name: str, settings: Mapping[str, Any] | None = None) -> Callable[..., pd.DataFrame]:
    """What reads the traces of that kind, with these settings.

    Parameters
    ----------
    name:
        An announced kind (:func:`trace_kinds`), or ``module:Name`` of a reader, a function ``(path, …)``.
    settings:
        Its further arguments.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; or it makes no reader.
    """
    reader: Callable[..., pd.DataFrame] = TRACES.make(name, dict(settings or {}))
    return reader


def make_generator(name: str, settings: Mapping[str, Any] | None = None) -> Generator:
    """The generator of traces under that name, with these settings.

    Parameters
    ----------
    name:
        An announced name (:func:`generator_names`), or ``module:Name`` of a function or class that makes one.
    settings:
        Arguments of that function or class.

    Raises
    ------
    UnknownName
        Nothing is announced under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting that it does not have, or does not accept; or it makes no generator.
    """
    generator: Generator = GENERATORS.make(name, dict(settings or {}))
    return generator


def _refuse(others: PluginGroup, made: Callable[..., object], name: str, wanted: PluginGroup) -> None:
    if others.includes(made):
        raise InvalidOption(f"{name!r} is a {others.what}, not a {wanted.what}")


@cache
def _libraries() -> Mapping[str, Any]:
    """Instance name -> module that has it."""
    points = sorted(entry_points(group=INSTANCES), key=lambda point: point.name)
    modules = [point.load() for point in points]
    return {name: module for module in reversed(modules) for name in module.names()}


def named_instances() -> dict[str, str]:
    """Name of every instance that installed packages bring -> what it is; sorted."""
    return {name: _libraries()[name].describe(name) for name in sorted(_libraries())}


def is_named(name: str) -> bool:
    """Whether an installed package brings an instance of that name."""
    return name in _libraries()


def is_nearly_named(name: str) -> bool:
    """Whether that may be a misspelt name of an instance."""
    return bool(get_close_matches(name, _libraries(), 1, cutoff=0.8))


def named_instance(name: str) -> Instance:
    """The instance of that name.

    Raises
    ------
    UnknownName
        There is none; the nearest is named.
    """
    return lookup(_libraries(), name, "instance").load(name)  # type: ignore[no-any-return]
