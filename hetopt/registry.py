"""Lookup of policies, mappers, instances and more by the names of their entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.checks import choices, lookup
from hetopt.data.entities import Kind, check_kind
from hetopt.data.instance import Instance
from hetopt.data.instance_files import PARSERS
from hetopt.data.standard_input import STANDARD_INPUT
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import HetoptError, InvalidOption, UnknownName
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy
from hetopt.formulations.traits import traits_of
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
    from hetopt.traces.sampling import Generator


def policy_names() -> list[str]:
    """Names of all registered policies, sorted."""
    return list(POLICIES.points)


def mapper_names() -> list[str]:
    """Names of all registered methods of mapping a job's stages to GPUs, sorted."""
    return list(MAPPERS.points)


def predictor_names() -> list[str]:
    """Names of all registered predictors of jobs' lengths, sorted."""
    return list(PREDICTORS.points)


def trace_kinds() -> list[str]:
    """Names of all kinds of traces that can be read, sorted."""
    return list(TRACES.points)


def generator_names() -> list[str]:
    """Names of all registered trace generators, sorted."""
    return list(GENERATORS.points)


def make_policy(name: str, settings: Mapping[str, Any] | None = None) -> Formulation | Policy:
    """The policy of that name with these settings.

    Parameters
    ----------
    name:
        A registered name (:func:`policy_names`) or ``module:Name``.
    settings:
        Arguments of the function or class behind the name; if that is a policy, a function
        ``(instance, state=None, …)``, its further arguments. An enum may be given by the text of a member, a mapper or
        a predictor by its name, a dataclass as a mapping of its fields.

    Raises
    ------
    UnknownName
        Nothing is registered under that name, or the module or the attribute does not exist.
    InvalidOption
        A setting is unknown or not accepted.
    """
    if isinstance(made := POLICIES.factory(name), Formulation):
        if settings:
            raise InvalidOption(
                f"policy {name!r} is a Formulation and has no settings; leave out {', '.join(settings)}"
            )
        return made
    policy: Formulation | Policy = POLICIES.make(name, settings)
    _refuse(MAPPERS, policy, name, POLICIES)
    return policy


def system_names() -> list[str]:
    """Names of all registered systems, sorted."""
    return list(SYSTEMS.points)


def make_system(name: str, settings: Mapping[str, Any] | None = None) -> System:
    """The system of that name: a registered one, or a policy (:func:`make_policy`) with a placer.

    A policy that does not choose servers gets a placer that keeps jobs where they are and packs the others into as few
    servers as possible (:class:`~hetopt.decisions.placers.MoreWorkersFirst`): without servers, spread gangs and
    datasets would cost nothing, and comparisons would favour policies that choose none. A policy without rounds that
    shares GPUs in time (a formulation, or a policy that is ``fractional``) gets rounds of :data:`ROUND_SECONDS`.

    Parameters
    ----------
    name:
        A registered system (:func:`system_names`) or policy, or ``module:Name`` of either.
    settings:
        As for :func:`make_policy`.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`.
    """
    from hetopt.decisions.placers import MoreWorkersFirst
    from hetopt.decisions.system import System

    if name in SYSTEMS.points:
        system: System = SYSTEMS.make(name, settings)
        return system
    if name not in POLICIES.points and ":" not in name:
        known = choices(name, sorted({*SYSTEMS.points, *POLICIES.points}))
        raise UnknownName(f"there is no system or policy {name!r}; {known}; module:Name works for any other")
    policy = make_policy(name, settings)
    system = System.of(policy)
    if system.seconds is None and traits_of(policy).fractional:
        system = replace(system, round_seconds=ROUND_SECONDS)
    return system if system.placer is not None else replace(system, placer=MoreWorkersFirst(sticky=True))


def make_mapper(name: str, settings: Mapping[str, Any] | None = None) -> Mapper:
    """The mapper of that name, which maps the stages of a job to GPUs, with these settings.

    Parameters
    ----------
    name:
        A registered name (:func:`mapper_names`) or ``module:Name``.
    settings:
        As for :func:`make_policy`; a mapper is a function ``(pipeline, servers, …)``.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`; or the name is that of a policy.
    """
    mapper: Mapper = MAPPERS.make(name, settings)
    _refuse(POLICIES, mapper, name, MAPPERS)
    return mapper


def make_predictor(name: str, settings: Mapping[str, Any] | None = None) -> Predictor:
    """The predictor of jobs' lengths of that name, with these settings.

    Parameters
    ----------
    name:
        A registered name (:func:`predictor_names`), or ``module:Name`` of a function or class that returns one.
    settings:
        Arguments of that function or class.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`; or the result is not a predictor.
    """
    predictor: Predictor = PREDICTORS.make(name, settings)
    return predictor


def program_names() -> list[str]:
    """Names of all registered programs, and of policies and mappers that have a program; sorted."""
    policies = [name for name in policy_names() if _has_program(make_policy(name))]
    mappers = [name for name in mapper_names() if _has_program(make_mapper(name))]
    return sorted({*PROGRAMS.points, *policies, *mappers})


def _has_program(made: object) -> bool:
    try:
        return mathematics_of(made) is not None
    except HetoptError:  # a part has no mathematics
        return False


def make_program(name: str, settings: Mapping[str, Any] | None = None, kind: Kind | None = None) -> Mathematics:
    """The mathematics of the program of that name.

    Parameters
    ----------
    name:
        A name of :func:`program_names`, or ``module:Name`` of a program, of an object with a program, or of a factory
        of either.
    settings:
        As for :func:`make_policy`.
    kind:
        Whether a formulation shares GPUs among ``"tenants"`` or ``"jobs"``, if it can do both; None: its own kind,
        else tenants.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`; or the object has no program, or no choice of a ``kind``.
    InvalidFormulation
        The formulation is for the other kind.
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
    """The reader of traces of that kind, with these settings.

    Parameters
    ----------
    name:
        A registered kind (:func:`trace_kinds`), or ``module:Name`` of a reader, a function ``(path, …)``.
    settings:
        Its further arguments.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`; or the result is not a reader.
    """
    reader: Callable[..., pd.DataFrame] = TRACES.make(name, settings)
    return reader


def make_generator(name: str, settings: Mapping[str, Any] | None = None) -> Generator:
    """The trace generator of that name, with these settings.

    Parameters
    ----------
    name:
        A registered name (:func:`generator_names`), or ``module:Name`` of a function or class that returns one.
    settings:
        Arguments of that function or class.

    Raises
    ------
    UnknownName, InvalidOption
        As :func:`make_policy`; or the result is not a generator.
    """
    generator: Generator = GENERATORS.make(name, settings)
    return generator


def _refuse(others: PluginGroup, made: Callable[..., object], name: str, wanted: PluginGroup) -> None:
    if others.includes(made):
        raise InvalidOption(f"{name!r} is a {others.what}, not a {wanted.what}")


@cache
def _libraries() -> Mapping[str, Any]:
    """Instance name -> module that contains it."""
    modules = [INSTANCES.load(name) for name in INSTANCES.points]
    return {name: module for module in reversed(modules) for name in module.names()}


def named_instances() -> dict[str, str]:
    """Name of every instance of the installed packages -> its description; sorted."""
    return {name: _libraries()[name].describe(name) for name in sorted(_libraries())}


def is_named(name: str) -> bool:
    """Whether an installed package has an instance of that name."""
    return name in _libraries()


def named_instance(name: str) -> Instance:
    """The instance of that name.

    Raises
    ------
    UnknownName
        There is none; the nearest is named.
    """
    return lookup(_libraries(), name, "instance").load(name)  # type: ignore[no-any-return]


def find_instance(name: str) -> Instance:
    """The instance in a file, ``<stdin>`` or a folder of CSV files, or the included instance of that name.

    A name has precedence over a file or folder with this name, unless the file has the suffix of an instance.

    Raises
    ------
    InvalidInstance
        The file is not an instance.
    UnknownName, UnusableFile
        It does not exist.
    """
    path = Path(name)
    is_file = path.suffix.lower() in PARSERS or name == STANDARD_INPUT
    if not is_file and is_named(name):
        return named_instance(name)
    if path.is_dir():
        return Instance.read_csv(name)
    misspelt = get_close_matches(name, _libraries(), 1, cutoff=0.8)
    if is_file or path.exists() or (path.suffix and not misspelt):
        return Instance.read(name)
    return named_instance(name)  # raises an error with similar names
