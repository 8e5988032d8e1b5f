"""Arguments and options that several commands have, with the completion of names in the shell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hetopt.checks import at_least
from hetopt.data.standard_input import STANDARD_INPUT
from hetopt.errors import InvalidOption
from hetopt.plugins import INSTANCES, POLICIES, PluginGroup

INSTANCE_ENDINGS = (".yaml", ".yml", ".json")


def names_of(*groups: PluginGroup) -> Callable[[str], Iterator[str]]:
    """Complete a registered name, also the last one of a list separated by commas; no plugin is imported."""

    def complete(incomplete: str) -> Iterator[str]:
        *before, last = incomplete.split(",")
        for name in sorted({name for group in groups for name in group.points}):
            if name.startswith(last) and name not in before:
                yield ",".join([*before, name])

    return complete


def instances_and_files(incomplete: str) -> Iterator[str]:
    """Complete the name of an included instance, an instance file, or a folder."""
    from glob import escape, glob

    names = {name for group in INSTANCES.points for name in INSTANCES.load(group).names()}
    yield from sorted(name for name in names if name.startswith(incomplete))
    for path in sorted(glob(f"{escape(incomplete)}*")):
        if Path(path).is_dir():
            yield f"{path}/"
        elif path.lower().endswith(INSTANCE_ENDINGS):
            yield path


def listed(values: Collection[str] | None, option: str) -> list[str]:
    """The names in the values of a repeatable option, each of which may be a list separated by commas.

    Raises
    ------
    InvalidOption
        There are values, but no name.
    """
    names = [name.strip() for value in values or () for name in value.split(",") if name.strip()]
    if values and not names:
        raise InvalidOption("is empty; name at least one, or several separated by commas", option)
    return names


def picture_path(ctx: typer.Context, path: Path | None) -> Path | None:
    """The path, to which a picture can be written; checked before any work."""
    if path is not None and not ctx.resilient_parsing:
        from hetopt.presentation.allocation_pictures import check_picture_path

        check_picture_path(path)
    return path


def or_standard_input(path: str) -> str:
    """The path, or the name of standard input for ``-``."""
    return STANDARD_INPUT if path == "-" else path


INSTANCE: dict[str, Any] = {"parser": or_standard_input, "metavar": "INSTANCE", "autocompletion": instances_and_files}
"""What options and arguments that name an instance have in common."""

INPUT: dict[str, Any] = {"parser": lambda path: Path(or_standard_input(path)), "metavar": "FILE"}
"""As :data:`INSTANCE`, for a file or standard input."""

File = Annotated[
    str,
    Argument(
        help="An instance file (.yaml, .json), - for standard input, a folder of CSV files, or the name of an "
        "included instance.",
        **INSTANCE,
    ),
]


def policy_option(help_text: str, *groups: PluginGroup, **more: Any) -> Any:
    """The option that names one policy or several."""
    return Option("--policy", "-p", help=help_text, autocompletion=names_of(*groups), **more)


POLICY = policy_option("A name that `hetopt policies` lists, or module:Name.", POLICIES)
PolicyName = Annotated[str, POLICY]
Settings = Annotated[
    list[str] | None, Option("--set", help="A setting of the policy or method, key=value; repeatable.")
]
Moment = Annotated[
    float | None, Option("--time", help="Current time in seconds; later jobs are left out. Default: the instance's.")
]
Plot = Annotated[
    Path | None,
    Option(help="Draw a picture: .png, .svg, .pdf; an existing file is replaced.", callback=picture_path),
]
Overwrite = Annotated[bool, Option(help="Replace an existing file.")]
AsJson = Annotated[bool, Option("--json/--no-json", help="Print JSON instead of tables.")]
Parallel = Annotated[int, Option("--jobs", "-j", help="Parallel processes; -1: one per core.")]
Runners = Annotated[
    Any,
    Option(
        "--jobs",
        "-j",
        parser=lambda jobs: int(jobs) if str(jobs).lstrip("-").isdecimal() else jobs,
        metavar="N|ADDRESS",
        help="Parallel processes; -1: one per core; tcp://HOST:PORT: the workers of this scheduler of Dask.",
    ),
]
Load = Annotated[float | None, Option(help="Scale arrival times to this load, as a fraction of all GPUs.")]
Reference = Annotated[
    str | None,
    Option(help="GPU type to which durations refer, or recorded: the one in the job's row; default: the catalogue's."),
]
TooLarge = Annotated[str, Option(help="Jobs with more GPUs than any type has: drop, or cut to the number available.")]
Models = Annotated[
    str | None,
    Option(help="Catalogue of trained models: fft, gavel, hadar, lambda, oef, sia, a CSV file, module:Name."),
]
UnknownModels = Annotated[
    str, Option("--unknown-models", help="Jobs whose model is not in the catalogue: refuse, or draw another.")
]
TenantsOf = Annotated[str, Option("--tenants", help="What a tenant is: models, users, virtual clusters, none.")]
ClassWeights = Annotated[
    list[str] | None,
    Option("--weight", help="Weight of the jobs of a class of the trace, e.g. HP=4; repeatable, for every class."),
]
EnvironmentOption = Annotated[
    list[str] | None,
    Option("--environment", help="A setting of the environment, e.g. restart_seconds=30, spread=true; repeatable."),
]
TraceSettings = Annotated[
    list[str] | None, Option("--trace-set", help="A setting of the generator or reader; repeatable.")
]
Kind = Annotated[str | None, Option(help="Kind of the trace file, if it is not detected.")]
CheckpointEvery = Annotated[
    float,
    Option("--checkpoint-every", help="Seconds between two checkpoints, from which an interrupted run continues."),
]


def check_interval(checkpoint_every: float) -> None:
    """Raise :class:`InvalidOption` for a negative number of seconds; infinity: no checkpoints."""
    if checkpoint_every != inf:
        at_least(checkpoint_every, "--checkpoint-every", 0.0, InvalidOption)
