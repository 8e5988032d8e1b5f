"""Spaces of cases as tables of fractions, which a search draws, enumerates, changes and shrinks.

A claim declares the tables of its cases and how to build a case from them; drawing, searching, shrinking and storing
cases need no further code.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, product
from math import prod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

C = TypeVar("C")
H = TypeVar("H", contravariant=True)
V = TypeVar("V")

Rows: TypeAlias = tuple[tuple[Fraction, ...], ...]
"""Rows of a table."""


class ValueChooser(Protocol):
    """Function that chooses one of several values; implemented by a random generator, or by Hypothesis in tests."""

    def __call__(self, values: Sequence[V]) -> V:
        """One of ``values``, which are ordered from simple to complex."""


@dataclass(frozen=True)
class CaseNumbers:
    """The tables that determine a case.

    Attributes
    ----------
    tables:
        Name -> rows of fractions.
    """

    tables: Mapping[str, Rows]

    @classmethod
    def of(cls, **tables: Fraction | Sequence[Fraction] | Sequence[Sequence[Fraction]]) -> CaseNumbers:
        """Create tables from single entries, single rows, or several rows."""

        def rows(value: Any) -> Rows:
            if isinstance(value, Fraction):
                return ((value,),)
            one_row = not value or isinstance(value[0], Fraction)
            return (tuple(value),) if one_row else tuple(map(tuple, value))

        return cls({name: rows(value) for name, value in tables.items()})

    def __getitem__(self, name: str) -> Rows:
        return self.tables[name]

    def row(self, name: str) -> tuple[Fraction, ...]:
        """The first row of a table."""
        return self.tables[name][0]

    def one(self, name: str) -> Fraction:
        """The only entry of a table."""
        return self.tables[name][0][0]

    def key(self) -> tuple[object, ...]:
        """A hashable key, equal for equal tables."""
        return tuple(sorted(self.tables.items()))

    def replaced(self, name: str, i: int, j: int, value: Fraction) -> CaseNumbers:
        """A copy with entry (i, j) of a table replaced."""
        rows = [list(row) for row in self.tables[name]]
        rows[i][j] = value
        return CaseNumbers({**self.tables, name: tuple(tuple(row) for row in rows)})

    def as_dict(self) -> dict[str, list[list[str | int]]]:
        """The tables as numbers and text such as ``"1/3"``, for files."""
        return {name: [[plain_number(v) for v in row] for row in rows] for name, rows in self.tables.items()}

    @classmethod
    def read(cls, data: Mapping[str, Sequence[Sequence[Any]]]) -> CaseNumbers:
        """Read the result of :meth:`as_dict`."""
        return cls({name: tuple(tuple(Fraction(str(v)) for v in row) for row in rows) for name, rows in data.items()})


def plain_number(value: Fraction) -> str | int:
    """Convert a fraction to its form in files: an integer, or text such as ``"1/3"``."""
    return int(value) if value.denominator == 1 else str(value)


@dataclass(frozen=True)
class TableShape:
    """The shape of a table, and its possible entries.

    Attributes
    ----------
    rows, columns:
        A number, the name of a size, or a size minus a number (``"k-1"`` omits a normalised first column).
    values:
        Possible entries, ascending.
    """

    rows: str | int
    columns: str | int
    values: tuple[Fraction, ...]

    @property
    def simplest_first(self) -> list[Fraction]:
        """The values, sorted by complexity."""
        return sorted(self.values, key=lambda v: (complexity(v), v))

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """(rows, columns) for these sizes."""
        rows, columns = (
            length if isinstance(length, int) else sizes[name] - less
            for length, (name, less) in zip((self.rows, self.columns), self.axes, strict=True)
        )
        return rows, columns

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """For rows and columns: the size (empty for a number), and the number subtracted from it."""
        parts = (str(length).partition("-") for length in (self.rows, self.columns))
        return tuple(("" if name.isdigit() else name, int(less or 0)) for name, _, less in parts)


def complexity(value: Fraction) -> int:
    """The complexity of a fraction: the numerator plus twice (denominator minus one)."""
    return abs(value.numerator) + 2 * (value.denominator - 1)


def integers(least: int, most: int) -> tuple[Fraction, ...]:
    """All integers from ``least`` to ``most``."""
    return tuple(Fraction(v) for v in range(least, most + 1))


def rationals(least: int, most: int, *denominators: int) -> tuple[Fraction, ...]:
    """All fractions from ``least`` to ``most`` with these denominators, ascending."""
    found = {Fraction(p, q) for q in (1, *denominators) for p in range(least * q, most * q + 1)}
    return tuple(sorted(found))


@dataclass(frozen=True)
class Hypothesis(Generic[H]):
    """A hypothesis of a claim.

    Attributes
    ----------
    text:
        The hypothesis as a clause in Markdown with LaTeX between dollars, e.g. ``"all speedups are positive"``.
    holds:
        Whether a case meets it; by default every case does, because of how cases are built.
    """

    text: str
    holds: Callable[[H], bool] | None = None

    def __call__(self, case: H) -> bool:
        """Whether the case meets it."""
        return self.holds is None or self.holds(case)


def hypothesis(text: str) -> Callable[[Callable[[H], bool]], Hypothesis[H]]:
    """Make a hypothesis of the function that decides it."""
    return lambda holds: Hypothesis(text, holds)


def _structured(table: TableShape, shape: tuple[int, int], rng: random.Random) -> Rows:
    """A random table of this shape whose entries depend on each other."""
    values, (rows, columns) = table.values, shape
    last = len(values) - 1
    spread = rng.choice((1, 2, 4, last + 1))  # of the positions around those of the first row or column
    by_row = rng.random() < 0.5
    base = [rng.randint(0, last) for _ in range(columns if by_row else rows)]
    if rng.random() < 0.5:
        base.sort()
    positions = [
        [min(last, max(0, base[j if by_row else i] + rng.randint(-spread, spread))) for j in range(columns)]
        for i in range(rows)
    ]
    style = rng.randrange(5)
    if style == 0:
        positions = [sorted(row) for row in positions]
    elif style == 1:
        positions.sort()
    elif style == 2:  # far apart: the simplest and the largest values only
        positions = [[rng.choice((0, 0, 1, last - 1, last)) for _ in row] for row in positions]
        positions = [[min(last, max(0, at)) for at in row] for row in positions]
    elif style == 3 and columns:  # one column is scarce
        scarce = rng.randrange(columns)
        positions = [[0 if j == scarce else at for j, at in enumerate(row)] for row in positions]
    elif rows:  # all rows alike but one
        odd = rng.randrange(rows)
        positions = [row if i == odd else positions[0] for i, row in enumerate(positions)]
    return tuple(tuple(values[at] for at in row) for row in positions)


@dataclass(frozen=True)
class Space(Generic[C]):
    """The cases of a claim.

    Attributes
    ----------
    sizes:
        Name -> (least, most), e.g. ``{"n": (2, 4)}``.
    tables:
        Name -> shape and possible entries.
    build:
        Builds the case from the numbers; None if they describe no case.
    hypotheses:
        The hypotheses of the claim; a case must meet all.
    chosen:
        Chooses numbers that meet the hypotheses, for spaces where few numbers do; by default entries are independent.
    """

    sizes: Mapping[str, tuple[int, int]]
    tables: Mapping[str, TableShape]
    build: Callable[[CaseNumbers], C | None]
    chosen: Callable[[ValueChooser, Mapping[str, int]], CaseNumbers] | None = field(default=None, compare=False)
    hypotheses: tuple[Hypothesis[C], ...] = ()

    def case(self, numbers: CaseNumbers) -> C | None:
        """The case of these numbers; None if they describe none, or one that violates a hypothesis."""
        case = self.build(numbers)
        return case if case is not None and all(given(case) for given in self.hypotheses) else None

    @property
    def stated(self) -> tuple[str, ...]:
        """The hypotheses as text."""
        return tuple(given.text for given in self.hypotheses)

    # -- drawing -------------------------------------------------------------------------------------------------

    def strategy(self) -> SearchStrategy[tuple[CaseNumbers, C]]:
        """Strategy of Hypothesis of pairs (numbers, case); shrinks towards few rows and simple entries."""
        from hypothesis import strategies as st

        @st.composite
        def draw_numbers(draw: DrawFn) -> CaseNumbers:
            sizes = {name: draw(st.integers(*limits)) for name, limits in self.sizes.items()}
            if self.chosen is not None:
                return self.chosen(lambda values: draw(st.sampled_from(values)), sizes)
            return self._filled(sizes, [draw(st.sampled_from(values)) for values in self._entries(sizes)])

        pairs = draw_numbers().map(lambda numbers: (numbers, self.case(numbers)))
        return pairs.filter(lambda pair: pair[1] is not None)  # type: ignore[return-value]

    def draws(self, rng: random.Random) -> Iterator[CaseNumbers]:
        """Random tables of random sizes, without end; with ``chosen``, mostly by it."""
        shapes, levels = self.shapes(), self.levels()
        for i in count():
            sizes = rng.choice(shapes)
            if self.chosen is not None and i % 4:
                yield self.chosen(lambda values: rng.choice(values), sizes)
            elif i % 2:
                yield from self.structured(sizes, 1, rng)
            else:
                height = rng.randint(1, levels)
                yield self._filled(sizes, [rng.choice(values[:height]) for values in self._entries(sizes)])

    # -- enumerating ---------------------------------------------------------------------------------------------

    def shapes(self) -> list[dict[str, int]]:
        """All sizes, in ascending order of the number of entries."""
        ranges = (range(low, high + 1) for low, high in self.sizes.values())
        every = [dict(zip(self.sizes, chosen, strict=True)) for chosen in product(*ranges)]
        return sorted(every, key=lambda sizes: (self.entries(sizes), list(sizes.values())))

    def entries(self, sizes: Mapping[str, int]) -> int:
        """Number of entries in all tables of these sizes."""
        return sum(prod(table.shape(sizes)) for table in self.tables.values())

    def levels(self) -> int:
        """Largest number of possible entries of a table."""
        return max((len(table.values) for table in self.tables.values()), default=1)

    def level(self, sizes: Mapping[str, int], height: int, most: int, rng: random.Random) -> Iterator[CaseNumbers]:
        """Tables with the ``height`` simplest values as entries: all of them, or ``most`` random ones.

        With ``chosen``, every second random table is chosen by it.
        """
        every = [values[:height] for values in self._entries(sizes)]
        if prod(len(values) for values in every) <= most:
            for choice in product(*every):
                yield self._filled(sizes, choice)
            return
        for i in range(most):
            if i % 2 and self.chosen is not None:
                yield self.chosen(lambda values: rng.choice(values), sizes)
            else:
                yield self._filled(sizes, [rng.choice(values) for values in every])

    def structured(self, sizes: Mapping[str, int], most: int, rng: random.Random) -> Iterator[CaseNumbers]:
        """``most`` random tables with a structure that independent entries rarely have; with ``chosen``, mostly by it.

        The rows or columns of a table are close to each other, far apart, sorted or equal, or one of them is small.
        """
        for i in range(most):
            if i % 8 and self.chosen is not None:
                yield self.chosen(lambda values: rng.choice(values), sizes)
                continue
            tables = dict[str, Rows]()
            for name, table in self.tables.items():
                tables[name] = _structured(table, table.shape(sizes), rng)
            yield CaseNumbers(tables)

    def _filled(self, sizes: Mapping[str, int], choice: Sequence[Fraction]) -> CaseNumbers:
        entries, tables = iter(choice), dict[str, Rows]()
        for name, table in self.tables.items():
            rows, columns = table.shape(sizes)
            tables[name] = tuple(tuple(next(entries) for _ in range(columns)) for _ in range(rows))
        return CaseNumbers(tables)

    # -- moving and shrinking ------------------------------------------------------------------------------------

    def neighbours(self, numbers: CaseNumbers) -> Iterator[CaseNumbers]:
        """Copies with one entry changed by one or two steps in its list of values."""
        for name, table in self.tables.items():
            for i, row in enumerate(numbers[name]):
                for j, value in enumerate(row):
                    at = bisect_left(table.values, value)
                    for other in {*table.values[max(0, at - 2) : at + 3]} - {value}:
                        yield numbers.replaced(name, i, j, other)
                    if value not in table.values[at : at + 1]:  # from ``chosen``, not from the list
                        for tenths in (7, 9, 11, 13):
                            yield numbers.replaced(name, i, j, (value * tenths / 10).limit_denominator(100))

    def randomly_changed(self, numbers: CaseNumbers, changes: int, rng: random.Random) -> CaseNumbers:
        """A copy with this number of random entries set to random values, preferably simple ones."""
        for _ in range(changes):
            name, table = rng.choice(list(self.tables.items()))
            if (rows := len(numbers[name])) and (columns := len(numbers[name][0])):
                simplest = table.simplest_first
                i, j = rng.randrange(rows), rng.randrange(columns)
                value = simplest[int(len(simplest) * rng.random() ** 2)]
                if numbers[name][i][j] > table.values[-1] and rng.random() < 0.5:
                    value = Fraction(round(numbers[name][i][j] * rng.choice((4, 6, 8, 9)) / 10))
                numbers = numbers.replaced(name, i, j, value)
        return numbers

    def smaller(self, numbers: CaseNumbers) -> Iterator[CaseNumbers]:
        """Copies with one row or column fewer, then copies with one simpler entry."""
        for size, (least, _) in self.sizes.items():
            for position in range(self.size_of(numbers, size) - 1, -1, -1):
                if self.size_of(numbers, size) > least:
                    yield from self._without(numbers, size, position)
        for name, table in self.tables.items():
            simplest = table.simplest_first
            for i, row in enumerate(numbers[name]):
                for j, value in enumerate(row):
                    for other in simplest:
                        if complexity(other) >= complexity(value):
                            break
                        yield numbers.replaced(name, i, j, other)
                    for most in (1, 2, 5, 10) if value not in simplest else ():
                        if complexity(other := value.limit_denominator(most)) < complexity(value):
                            yield numbers.replaced(name, i, j, other)
                    if value > table.values[-1]:  # from ``chosen``, not from the list
                        for tenth in (5, 7, 9):
                            yield numbers.replaced(name, i, j, Fraction(round(value * tenth / 10)))

    def size_of(self, numbers: CaseNumbers, size: str) -> int:
        """The value of a size in these numbers."""
        for name, axis, less in self._axes_of(size):
            rows = numbers[name]
            return less + (len(rows) if axis == 0 else len(rows[0]) if rows else 0)
        raise KeyError(f"no table has the size {size!r}")

    def _axes_of(self, size: str) -> Iterator[tuple[str, int, int]]:
        """(table, axis, number subtracted from the size) of each axis with this size."""
        for name, table in self.tables.items():
            for axis, (own, less) in enumerate(table.axes):
                if own == size:
                    yield name, axis, less

    def _without(self, numbers: CaseNumbers, size: str, position: int) -> Iterator[CaseNumbers]:
        tables = dict(numbers.tables)
        for name, axis, less in self._axes_of(size):
            at, rows = position - less, tables[name]
            if at < 0:
                return
            tables[name] = rows[:at] + rows[at + 1 :] if axis == 0 else tuple(r[:at] + r[at + 1 :] for r in rows)
        yield CaseNumbers(tables)

    def count_lighter(self, sizes: Mapping[str, int], total: int) -> int:
        """The number of tables of these sizes with a sum of complexities below ``total``."""
        ways = [1] + [0] * max(0, total - 1)
        for values in self._entries(sizes):
            after = [0] * len(ways)
            for value in values:
                c = complexity(value)
                for have in range(len(ways) - c):
                    after[have + c] += ways[have]
            ways = after
        return sum(ways)

    def lighter(self, sizes: Mapping[str, int], total: int) -> Iterator[CaseNumbers]:
        """The tables counted by :meth:`count_lighter`, in ascending order of the sum."""
        entries = self._entries(sizes)
        smallest = [min(map(complexity, values)) for values in entries]
        least = [sum(smallest[i:]) for i in range(len(entries) + 1)]

        def fill(i: int, left: int) -> Iterator[tuple[Fraction, ...]]:
            if i == len(entries):
                if left == 0:
                    yield ()
                return
            for value in entries[i]:
                if left - complexity(value) >= least[i + 1]:
                    for rest in fill(i + 1, left - complexity(value)):
                        yield (value, *rest)

        for exactly in range(least[0], total):
            for choice in fill(0, exactly):
                yield self._filled(sizes, choice)

    def _entries(self, sizes: Mapping[str, int]) -> list[list[Fraction]]:
        """The possible values of each entry of all tables."""
        found: list[list[Fraction]] = []
        for table in self.tables.values():
            found += [table.simplest_first] * prod(table.shape(sizes))
        return found

    def weight(self, numbers: CaseNumbers) -> tuple[int, ...]:
        """Size of a case: number of entries, sum of complexities, largest complexity."""
        every = [complexity(v) for rows in numbers.tables.values() for row in rows for v in row]
        return len(every), sum(every), max(every, default=0)
