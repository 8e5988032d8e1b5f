"""Tables: what columns mean and what cells say, for terminals, pages and notebooks alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hetopt.data.units import Better, Unit
from hetopt.presentation.formatting import MISSING, ColumnFormat, column_format

MOST_ROWS = 60
"""Most rows of a table on terminals and in notebooks."""


class Mark(StrEnum):
    """What distinguishes a cell."""

    BEST = "best"
    BAD = "bad"
    GOOD = "good"
    WARN = "warn"
    QUIET = "quiet"


SIGNS = {Mark.BAD: "✗", Mark.GOOD: "✓", Mark.BEST: "*"}
"""Signs before marked numbers and words, for terminals and readers without colours."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a square, or a line (its dash: on and off in line widths), in the colour of a variable."""

    label: str
    variable: str
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    line: bool = False
    hatched: bool = False

    @property
    def dashes(self) -> str:
        """``stroke-dasharray`` of the sample."""
        return " ".join(f"{1.7 * width:.3g}" for width in self.dash)


@dataclass(frozen=True)
class Meter:
    """A small bar: full up to the first of two parts of its length, from 0 to 1, and pale from there to the second."""

    filled: float
    paler: float = 0.0


@dataclass(frozen=True)
class Sparkline:
    """A small line without axes, through two or more points in order of x."""

    points: tuple[tuple[float, float], ...]

    @property
    def places(self) -> str:
        """The points in a box of 100 by 30."""
        xs, ys = zip(*self.points, strict=True)
        across, up = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
        return " ".join(
            f"{100 * (x - min(xs)) / across:.1f},{28 - 26 * (y - min(ys)) / up:.1f}" for x, y in self.points
        )


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and small lines below it (``notes``).

    The column is sorted by ``value``, the number with all digits; without one, by the text. Only pages show the sample
    of a colour (``key``) and the drawing before the text, its ``link``, and the ``tip`` where it is pointed at.
    """

    text: str
    value: float | None = None
    notes: tuple[str, ...] = ()
    mark: Mark | None = None
    link: str = ""
    key: Key | None = None
    picture: Meter | Sparkline | None = None
    tip: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading with the unit of its numbers, and their meaning, a phrase below the table.

    Words (``text``) are aligned to the left and, if they are sentences, wrapped. On pages, rows can be selected by the
    few values of a column of ``choices``.
    """

    name: str
    unit: str = ""
    meaning: str = ""
    text: bool = False
    choices: bool = False


@dataclass(frozen=True)
class Table:
    """A table, whose first column names the rows.

    Above it is the title, below it the ``facts``: labels with a sentence each. The rows at the positions ``marked`` are
    highlighted.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    marked: frozenset[int] = frozenset()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def meanings(self) -> dict[str, str]:
        """Heading -> meaning with its unit, of columns that have one."""
        return {c.name: f"{c.meaning} ({c.unit})" if c.unit else c.meaning for c in self.columns if c.meaning}


def table_of(
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Cell | str]],
    title: str = "",
    facts: Iterable[tuple[str, str]] = (),
) -> Table:
    """A table of rows of cells and texts; a column given by its name has words."""
    heads = (one if isinstance(one, Column) else Column(one, text=True) for one in columns)
    cells = ((one if isinstance(one, Cell) else Cell(one) for one in row) for row in rows)
    return Table(tuple(heads), tuple(map(tuple, cells)), title, facts=tuple(facts))


FilledColumn = tuple[Column | str, Iterable[Cell | str]]
"""A column and its cells, as in :func:`table_of`."""


def joined(*columns: FilledColumn, title: str = "", facts: Iterable[tuple[str, str]] = ()) -> Table:
    """A table of columns side by side."""
    heads, cells = zip(*columns, strict=True)
    return table_of(heads, zip(*cells, strict=True), title, facts)


def number_cell(
    value: float | Fraction, form: ColumnFormat, mark: Mark | None = None, notes: Sequence[str] = ()
) -> Cell:
    """A cell with a number; NaN is a dash, and a fraction is written as one."""
    if value != value:
        return Cell(MISSING, None, tuple(notes), Mark.QUIET)
    return Cell(str(value) if isinstance(value, Fraction) else form.format(value), float(value), tuple(notes), mark)


def number_column(
    name: str,
    values: Sequence[float],
    unit: Unit | str = Unit.NONE,
    meaning: str = "",
    marks: Mapping[int, Mark] | None = None,
    form: ColumnFormat | None = None,
) -> tuple[Column, list[Cell]]:
    """A column of numbers in one format, and its cells.

    Parameters
    ----------
    values:
        One number per row; NaN is a dash.
    marks:
        Row -> distinction of its cell.
    form:
        The format; default: that of these values.
    """
    form = form or column_format(values, unit)
    cells = [number_cell(value, form, (marks or {}).get(i)) for i, value in enumerate(values)]
    return Column(name, form.name, meaning), cells


def best_of(values: Sequence[float], better: Better, form: ColumnFormat) -> list[int]:
    """Positions of the best numbers, as they are written; none if all are written alike; NaN is not the best."""
    known = [value for value in values if value == value]
    if better is Better.NEITHER or len(set(map(form.format, known))) < 2:
        return []
    best = form.format((min if better is Better.LOWER else max)(known))
    return [i for i, value in enumerate(values) if form.format(value) == best]
