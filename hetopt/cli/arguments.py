"""Parsing arguments of the command line: instances, times, policies and mappers with their settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hetopt.checks import counted
from hetopt.data.documents import DocumentError, from_yaml
from hetopt.data.extremes import farthest_apart
from hetopt.data.instance import Instance
from hetopt.errors import InvalidFormulation, InvalidInstance, InvalidOption, InvalidPlan, NotSolved
from hetopt.plugins import MAPPERS, parameters
from hetopt.presentation import console
from hetopt.registry import find_instance, make_mapper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hetopt.stages.mapping import Mapper


def load_at(name: str, seconds: float | None = None, *, all_arrived: bool = False) -> Instance:
    """The instance of that name or file at a moment, without jobs that arrive later or are finished.

    The number of jobs left out is printed on standard error.

    Parameters
    ----------
    seconds:
        The moment; default: the time of the instance, or with ``all_arrived`` when the last job has arrived.

    Raises
    ------
    InvalidInstance
        The file is not an instance, has neither tenants nor jobs, or no job is there by then.
    UnknownName, UnusableFile
        It does not exist.
    """
    instance = find_instance(name)
    if not instance.tenants and not instance.jobs:
        raise InvalidInstance("has neither tenants nor jobs; add at least one of them").in_file(name)
    default = max(instance.time, *(job.arrival for job in instance.jobs), 0.0) if all_arrived else instance.time
    moment = default if seconds is None else seconds
    try:
        there = instance.at(moment)
    except InvalidInstance as problem:
        raise problem.in_file(name).with_hint("choose another with --time SECONDS") from None
    late = sum(job.arrival > moment for job in instance.jobs)
    finished = len(instance.jobs) - len(there.jobs) - late
    left_out = [f"{n} {text}" for n, text in ((late, "have not arrived"), (finished, "are finished")) if n]
    if left_out:
        console.note(
            f"{name}: of {len(instance.jobs)} jobs {' and '.join(left_out)} at {moment:.15g} s and are left out "
            "(--time SECONDS for another moment)"
        )
    return there


def parse_settings(pairs: list[str] | None, word: str = "--set") -> dict[str, Any]:
    """Parse ``["round_seconds=60"]``, with values as in instance files; errors name the option ``word``."""
    settings: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise InvalidOption(f"{word} {pair!r} must have the form key=value")
        try:
            settings[key] = from_yaml(value)
        except DocumentError as error:
            raise InvalidOption(f"{word} {pair!r}: the value {error}") from None
    return settings


def named_mapper(name: str, settings: dict[str, Any], time_limit: float | None = None) -> Mapper:
    """The mapper of that name, with a time limit in seconds per job."""
    if time_limit is not None:
        settable = parameters(MAPPERS.factory(name))
        options = settings.get("options", {})
        if "time_limit" in settable:
            settings["time_limit"] = time_limit
        elif "options" not in settable:
            raise InvalidOption(f"--time-limit: {MAPPERS.what} {name!r} has none; leave it out")
        elif isinstance(options, dict):
            settings["options"] = {**options, "time_limit": time_limit}
    return make_mapper(name, settings)


def save_picture(figure: Figure, path: Path, *, quiet: bool) -> None:
    """Write a picture, and print its path unless ``quiet``."""
    from hetopt.presentation.allocation_pictures import save_figure

    save_figure(figure, path)
    if not quiet:
        print(f"picture: {path}")


def stopped(missing: int, total: int, folder: Path) -> typer.Exit:
    """Print how many runs are stored when Ctrl-C has stopped the others; the exit to raise."""
    console.note(
        f"stopped; {total - missing} of {counted(total, 'run')} stored in {folder}; repeat the command for the others"
    )
    return typer.Exit(130)


@contextmanager
def error_context(name: str, instance: Instance) -> Iterator[None]:
    """Add the file or named instance to errors about the data, and extreme numbers to errors of a solver."""
    try:
        yield
    except (InvalidInstance, InvalidPlan) as problem:
        raise problem.in_file(name) from None
    except (InvalidFormulation, NotSolved) as problem:
        far, found = farthest_apart(instance), problem.in_file(name)
        raise (found.with_hint(f"numbers far apart: {far}") if far else found) from None
