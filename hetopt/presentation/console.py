"""How the command line writes: lines, tables of any width and alphabet, progress."""

from __future__ import annotations

import codecs
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich.box import HEAVY_HEAD, SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

# Names may hold anything, so no text is read as markup. Where output goes to a file or a pipe, there is no width to
# fit: tables of numbers keep theirs.
OUT = Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False, highlight=False)
ERR = Console(stderr=True, markup=False, emoji=False, highlight=False)
MOST_ROWS = 60
TEXT_WIDTH = 100
"""Columns within which sentences are broken, where the terminal is not narrower."""

LETTERS = {"∞": "inf", "…": "...", "—": "-", "µ": "u"}
"""What the command line itself writes, for streams that cannot hold it."""


def _readable(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    letters = problem.object[problem.start : problem.end]
    return "".join(LETTERS.get(letter, "?") for letter in letters), problem.end


codecs.register_error("hetopt.readable", _readable)


def forgive_encodings() -> None:
    """Let standard output and error write ``?`` for letters that their encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="hetopt.readable")


def readable(text: str) -> str:
    """``text`` as standard output can show it, so that tables keep their columns."""
    return text.encode(OUT.encoding, "hetopt.readable").decode(OUT.encoding)


def say(*parts: str | Text) -> None:
    """One line on standard output, never wrapped."""
    OUT.print(Text.assemble(*parts), soft_wrap=True)


def bold(text: str) -> Text:
    """Text in bold, where the terminal can."""
    return Text(text, style="bold")


def note(text: str) -> None:
    """One line on standard error."""
    print(f"hetopt: {text}", file=sys.stderr)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error while something runs."""
    with ERR.status(Text(what)):
        yield


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; call what is yielded with the name of each step as it begins."""
    described = TextColumn("{task.description:24}", markup=False)
    columns = (described, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        task = progress.add_task("", total=total)
        begun = False

        def step(name: str) -> None:
            nonlocal begun
            progress.update(task, description=name, advance=1 if begun else 0)
            begun = True

        yield step
        progress.update(task, advance=1)


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    packages = {name: version(name) for name in ("hetopt", "pyomo", "highspy", "numpy")}
    return {**packages, "python": platform.python_version()}


def rounded(value: Any) -> str:
    """A number to four decimals, for shares and GPUs; other things as they are."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return "0" if text == "-0" else text


def significant(value: Any) -> str:
    """A number to six digits, for speeds and rates of any size; other things as they are."""
    return f"{value + 0.0:.6g}" if isinstance(value, float) else str(value)


def show_frame(
    frame: pd.DataFrame, title: str, spell: Callable[[Any], str] = rounded, *, digits: Sequence[str] = ()
) -> None:
    """A DataFrame as a table; long ones are cut in the middle, saying so.

    Parameters
    ----------
    spell:
        How cells are written.
    digits:
        Columns whose cells are written by :func:`significant`.
    """
    spells = [significant if column in digits else spell for column in frame.columns]
    rows = [[str(name), *(s(v) for s, v in zip(spells, row, strict=True))] for name, row in frame.iterrows()]
    if len(rows) > MOST_ROWS:
        rows = [*rows[:MOST_ROWS], [f"… {len(rows) - MOST_ROWS} more", *[""] * len(frame.columns)]]
    show_table(title, [str(frame.index.name or ""), *map(str, frame.columns)], rows)


def show_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str | Text]], *, sentences: int = 0, light: bool = False
) -> None:
    """A table: names first, then numbers; in a narrow terminal names are folded rather than cut.

    Parameters
    ----------
    sentences:
        So many of the last columns hold text, which is broken within :data:`TEXT_WIDTH`.
    light:
        Without lines between columns.
    """
    say(Text(title, style="italic"))  # not as the table's title, which would be broken at its width
    table = Table(box=SIMPLE if light else HEAVY_HEAD, pad_edge=not light)
    for i, name in enumerate(head):
        text = i == 0 or i >= len(head) - sentences
        table.add_column(name, overflow="fold", justify="left" if text else "right", no_wrap=not text)
    for row in rows:
        table.add_row(*row)
    OUT.print(table, width=min(OUT.width, TEXT_WIDTH) if sentences else None)
