"""The command ``hetopt``: it finds the commands of installed packages, and imports one when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hetopt import __version__
from hetopt.errors import HetoptError, InvalidOption, MissingPackage
from hetopt.plugins import COMMANDS, raised
from hetopt.presentation import console

HEADINGS = {
    "Solve and explain": {
        "hetopt.cli.core_commands": [
            *("solve", "check", "audit", "place", "show"),
            *("export", "instances", "policies", "methods"),
        ],
    },
    "Simulate and compare": {
        "hetopt.cli.recommend": ["recommend"],
        "hetopt.cli.simulate": ["simulate", "report"],
        "hetopt.cli.core_commands": ["demo", "systems", "predictors"],
    },
    "Claims of the papers": {
        "hetopt.proofs.verify_command": ["verify"],
        "hetopt.proofs.evaluations.reproduce_command": ["reproduce"],
    },
    "Run a cluster": {
        "hetopt.executor.commands": [
            "run", "submit", "status", "logs", "losses", "cancel", "retry", "drain", "prune", "dashboard",
        ],
    },
}  # fmt: skip
"""Heading in the help -> module -> its commands, which are functions of these names."""

_MODULE = {name: module for part in HEADINGS.values() for module, names in part.items() for name in names}


class CommandGroup(TyperGroup):
    """The commands of hetopt, and those that other packages register as entry points.

    A command is imported when it runs, is completed, or is listed with its description. Entry points are looked for
    when a name is not one of hetopt's.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the help."""
        return [*_MODULE, *(name for name in COMMANDS.points if name not in _MODULE)]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """The command with its description but without its parameters; None if it is unknown or cannot be imported."""
        if cmd_name not in self.list_commands(ctx):
            return None
        try:
            command = TyperCommand(cmd_name, help=_function(cmd_name).__doc__)
        except HetoptError as problem:  # a broken package must not disable other commands
            console.note(str(problem))
            return None
        command.short_help = command.get_short_help_str(1000)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by headings, each with the first sentence of its description."""
        headings = {heading: [name for names in part.values() for name in names] for heading, part in HEADINGS.items()}
        headings["Commands of other packages"] = self.list_commands(ctx)[len(_MODULE) :]
        for heading, names in headings.items():
            found = {name: self.get_command(ctx, name) for name in names}
            rows = [(name, command.get_short_help_str(1000)) for name, command in found.items() if command is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the whole command, and the arguments after the name."""
        name, *rest = args
        if name not in _MODULE and name not in COMMANDS.points:
            self.commands = {known: TyperCommand(known) for known in self.list_commands(ctx)}
            return super().resolve_command(ctx, args)  # an error with similar names
        if any(":" in word for word in rest) and "" not in sys.path and not ctx.resilient_parsing:
            sys.path.insert(0, "")  # module:Name is also searched in the current folder
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        one.command(name)(_function(name))
        command: Any = typer.main.get_command(one)
        for flag in (option for option in command.params if getattr(option, "is_flag", False)):
            flag.show_default = bool(flag.default)  # a flag is off unless the help says otherwise
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; after Ctrl-C print one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            console.note("stopped")
            raise typer.Exit(130) from None


def _function(name: str) -> Callable[..., Any]:
    """The function of a command.

    Raises
    ------
    MissingPackage
        A package of an extra is missing.
    InvalidOption
        It cannot be imported.
    """
    try:
        if name in _MODULE:
            return getattr(import_module(_MODULE[name]), name)  # type: ignore[no-any-return]
        return COMMANDS.points[name].load()  # type: ignore[no-any-return]
    except Exception as problem:  # a package may raise anything
        if missing := MissingPackage.of(problem):
            raise missing from None
        where = _MODULE.get(name) or COMMANDS.points[name].value
        raise InvalidOption(f"no command {name!r} from {where!r}: {raised(problem)}") from problem


# Without rich, whose markup takes longer to import than all else that the help needs
app = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hetopt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedule deep-learning jobs on clusters with several GPU types."""
