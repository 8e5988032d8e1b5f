"""Output of the command line: lines, tables in any terminal width and encoding, progress."""

from __future__ import annotations

import codecs
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from hetopt.presentation.tables import Cell, Mark, Table

# Names are arbitrary, so no text is parsed as markup. Output to a file or a pipe has a fixed width.
OUT = Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False, highlight=False)
ERR = Console(stderr=True, markup=False, emoji=False, highlight=False)
MOST_ROWS = 60
TEXT_WIDTH = 100
"""Width in which sentences are wrapped, unless the terminal is narrower."""

LETTERS = {
    "∞": "inf",
    "…": "...",
    "—": "-",
    "\N{EN DASH}": "-",
    "\N{NARROW NO-BREAK SPACE}": " ",
    "µ": "u",
    "✗": "x",
    "✓": "v",
}
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


def show(table: Table, *, meaning: bool = True, most: int | None = MOST_ROWS) -> None:
    """Print a table: names, then numbers; one that is too wide is cut into blocks of columns, never numbers or names.

    Parameters
    ----------
    meaning:
        Whether the meaning of the columns follows.
    most:
        Rows beyond are only counted; None: all rows.
    """
    if table.title:
        print_line((table.title, "italic"))  # the table's own title would be wrapped at its width
    rows = table.rows[:most]
    left_out = len(table.rows) - len(rows)
    words = any(column.text for column in table.columns[1:])
    for block in _blocks(table, rows):
        shown = RichTable(box=SIMPLE_HEAD, pad_edge=False)
        for i in block:
            column = table.columns[i]
            whole = not column.text or _one_word([row[i] for row in rows])
            heading = Text(readable(column.name)) + Text(readable(f"\n{column.unit}" if column.unit else ""), "dim")
            shown.add_column(
                heading,
                justify="left" if i == 0 or column.text else "right",
                no_wrap=whole,
                overflow="fold",
                vertical="top",
            )
        for number, row in enumerate(rows):
            shown.add_row(*(_styled(row[i]) for i in block), style="bold" if number in table.marked else "")
        OUT.print(shown, width=min(OUT.width, TEXT_WIDTH) if words else None)
    if left_out:
        print_line(f"… {left_out} more")
    if meaning:
        for name, text in table.meanings.items():
            print_line("  ", (name, "bold"), f": {text}")


STYLES = {Mark.BAD: "red", Mark.GOOD: "green", Mark.WARN: "yellow", Mark.QUIET: "dim", Mark.BEST: "bold"}
SIGNS = {Mark.BAD: "✗", Mark.GOOD: "✓"}
"""Signs before marked numbers and words, for terminals and readers without colours."""


def _styled(cell: Cell) -> Text:
    sign = f"{SIGNS[cell.mark]} " if cell.mark in SIGNS else ""
    style = "" if cell.mark is None else STYLES[cell.mark]
    return Text(readable("\n".join((f"{sign}{cell.text}", *cell.notes))), style)


def _blocks(table: Table, rows: Sequence[Sequence[Cell]]) -> list[list[int]]:
    """Positions of the columns of each block that fits the width; every block begins with the names."""

    def width(i: int) -> int:
        column = table.columns[i]
        if column.text and not _one_word([row[i] for row in rows]):
            return max(20, len(column.name))
        cells = (line for row in rows for line in _styled(row[i]).plain.split("\n"))
        return max([len(column.name), len(column.unit), *map(cell_len, cells)])

    widths = [width(i) for i in range(len(table.columns))]
    blocks, left = [[0]], OUT.width - widths[0]
    for i in range(1, len(widths)):
        if widths[i] + 2 > left and len(blocks[-1]) > 1:
            blocks.append([0])
            left = OUT.width - widths[0]
        blocks[-1].append(i)
        left -= widths[i] + 2
    return blocks


def _one_word(cells: Sequence[Cell]) -> bool:
    """Whether cells are single words, such as keys of claims, that fit beside a column of sentences."""
    return all(" " not in cell.text and len(cell.text) <= OUT.width / 2 for cell in cells)
