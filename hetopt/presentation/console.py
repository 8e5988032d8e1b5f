"""Output of the command line: lines, tables in any terminal width and encoding, progress."""

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

from hetopt.presentation.formatting import format_rounded, format_significant

if TYPE_CHECKING:
    import pandas as pd

# Names are arbitrary, so no text is parsed as markup. Output to a file or a pipe has a fixed width.
OUT = Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False, highlight=False)
ERR = Console(stderr=True, markup=False, emoji=False, highlight=False)
MOST_ROWS = 60
TEXT_WIDTH = 100
"""Width in which sentences are wrapped, unless the terminal is narrower."""

LETTERS = {"∞": "inf", "…": "...", "—": "-", "\N{EN DASH}": "-", "\N{NARROW NO-BREAK SPACE}": " ", "µ": "u"}
"""Letters of the command line's own output -> replacement for encodings that lack them."""


def _readable(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    letters = problem.object[problem.start : problem.end]
    return "".join(LETTERS.get(letter, "?") for letter in letters), problem.end


codecs.register_error("hetopt.readable", _readable)


def forgive_encodings() -> None:
    """Make standard output and error replace letters that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="hetopt.readable")


def readable(text: str) -> str:
    """``text`` in the encoding of standard output, so that tables keep their columns."""
    return text.encode(OUT.encoding, "hetopt.readable").decode(OUT.encoding)


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print one line on standard output, never wrapped; a part may be a pair of text and style."""
    OUT.print(Text.assemble(*parts), soft_wrap=True)


def note(text: str) -> None:
    """Print one line on standard error."""
    print(f"hetopt: {text}", file=sys.stderr)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner on standard error while something runs."""
    with ERR.status(Text(what)):
        yield


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on standard error; call the yielded function with the name of each step when it starts."""
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


def show_frame(
    frame: pd.DataFrame,
    title: str,
    formatter: Callable[[Any], str] = format_rounded,
    *,
    significant: Sequence[str] = (),
) -> None:
    """Print a DataFrame as a table; rows beyond :data:`MOST_ROWS` are counted.

    Parameters
    ----------
    formatter:
        Formats the cells.
    significant:
        Columns that are formatted by :func:`~hetopt.presentation.formatting.format_significant` instead.
    """
    formatters = [format_significant if column in significant else formatter for column in frame.columns]
    rows = [[str(name), *(f(v) for f, v in zip(formatters, row, strict=True))] for name, row in frame.iterrows()]
    if len(rows) > MOST_ROWS:
        rows = [*rows[:MOST_ROWS], [f"… {len(rows) - MOST_ROWS} more", *[""] * len(frame.columns)]]
    show_table(title, [str(frame.index.name or ""), *map(str, frame.columns)], rows)


def _one_word(cells: Sequence[str]) -> bool:
    """Whether cells are single words, such as keys of claims, that fit beside a column of sentences."""
    return all(" " not in cell and len(cell) <= OUT.width / 2 for cell in cells)


def show_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str | Text]], *, sentences: int = 0, light: bool = False
) -> None:
    """Print a table: names first, then numbers; in a narrow terminal long names are folded rather than cut.

    Parameters
    ----------
    sentences:
        Number of last columns with text, which is wrapped at :data:`TEXT_WIDTH`.
    light:
        Whether to omit lines between columns.
    """
    print_line((title, "italic"))  # the table's own title would be wrapped at its width
    table = Table(box=SIMPLE if light else HEAVY_HEAD, pad_edge=not light)
    rows = list(rows)
    for i, name in enumerate(head):
        text = i == 0 or i >= len(head) - sentences
        whole = not text or (sentences > 0 and _one_word([str(row[i]) for row in rows]))
        table.add_column(name, overflow="fold", justify="left" if text else "right", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    OUT.print(table, width=min(OUT.width, TEXT_WIDTH) if sentences else None)
