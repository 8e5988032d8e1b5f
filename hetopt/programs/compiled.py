"""A formulation for given entities as arrays: the linear program, the rows that join it, and what shares are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from hetopt.checks import shown
from hetopt.data.entities import Entities, Floats, Numbers
from hetopt.errors import InvalidFormulation, NotLinear
from hetopt.programs.arrays import (
    SHARE,
    Arrays,
    Curves,
    Ints,
    Measure,
    RowFamily,
    Rows,
    Terms,
    each,
    measured,
    on_own,
    on_shares,
)
from hetopt.programs.compiling import PYOMO, PyomoPart, pyomo_part
from hetopt.programs.linear import Cuts, LinearProgram, Names, Objective, with_data
from hetopt.tolerances import VIOLATED, scale

if TYPE_CHECKING:
    from hetopt.programs.formulation import Component, Formulation
    from hetopt.solving.point import Point

FIRST = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Rates, in units of a curve, whose tangents are in the program from the beginning."""


def _has(component: Component, method: str) -> bool:
    """Whether it has that method; asked of protocols, this takes a tenth of a small solve."""
    return callable(getattr(component, method, None))


def measure(component: Component, entities: Entities, share: Floats) -> Measure | None:
    """What ``component`` says of an (n, k) ``share``: its gain and its largest violation.

    Returns
    -------
    Measure | None
        None for a component that has neither ``rows`` nor ``measure``: only its Pyomo model could say.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models.objectives import TotalRate
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> hetopt.measure(TotalRate(), inst.entities(), [[1, 0], [0, 1]])
    Measure(gain=6.0, violation=0.0, size=0.0)
    """
    arrays = component.rows(entities) if _has(component, "rows") else None  # type: ignore[attr-defined]
    return _measure(component, arrays, entities, np.asarray(share, dtype=float))


def _measure(component: Component, arrays: Arrays | None, entities: Entities, share: Floats) -> Measure | None:
    if _has(component, "measure"):
        own: Any = component.measure(entities, share)  # type: ignore[attr-defined]
        if not isinstance(own, Measure):
            raise InvalidFormulation(
                f"{component.name!r}: measure(entities, share) returned {shown(own)}; return a Measure"
            )
    elif arrays is None:
        return None
    else:
        own = measured(arrays, share, entities.rate(share))
    if own is not None and getattr(component, "binary", False):
        broken = float(np.abs(share - np.rint(share)).max(initial=0.0))
        own = replace(own, violation=max(own.violation, broken))
    return own  # type: ignore[no-any-return]


def capacity_violation(entities: Entities, share: Floats) -> float:
    """Largest overuse of a GPU type, or negative share, relative to the largest capacity."""
    size = scale(entities.capacity)
    over = entities.gpus(share).sum(axis=0) - entities.capacity
    forbidden = np.abs(share[~entities.allowed])
    parts = [over.max(), -share.min(), forbidden.max() if forbidden.size else 0.0]
    return max(0.0, float(max(parts)) / size)


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows of one component, and where they stand among all."""

    prefix: str
    rows: Rows
    start: int

    def name(self, i: int) -> str:
        """Name of the i-th row; rows from Pyomo have full names."""
        if not self.rows.name:
            return self.rows.labels[i]  # type: ignore[index]
        label = "" if self.rows.labels is None else f"[{self.rows.labels[i]}]"
        return f"{self.prefix}{self.rows.name}{label}"


@dataclass(frozen=True, eq=False)
class Table:
    """All entries and bounds of the rows, in floats or in Fractions.

    Attributes
    ----------
    row, column, value:
        (m,) entries, none of them 0 and no place twice.
    lower, upper:
        (rows,) bounds.
    objectives:
        Priority -> ((columns,) coefficients, constant), the highest first.
    """

    row: Ints
    column: Ints
    value: Numbers
    lower: Numbers
    upper: Numbers
    objectives: dict[int, tuple[Numbers, Any]]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the entries of a table stand in the matrix of its program.

    Attributes
    ----------
    row, column:
        (m,) of the table.
    order:
        (m,) entries of the table in the order of the matrix; None where several stand at one place.
    empty:
        The matrix; its values do not count.
    """

    row: Ints
    column: Ints
    order: Ints | None
    empty: sparse.csc_array

    @classmethod
    def of(cls, table: Table, width: int) -> Pattern:
        """That of ``table`` with so many columns."""
        shape, m = (len(table.lower), width), len(table.value)
        numbered = sparse.coo_array((np.arange(m, dtype=float), (table.row, table.column)), shape=shape).tocsc()
        order = numbered.data.astype(np.intp) if numbered.nnz == m else None
        return cls(table.row, table.column, order, numbered)

    def fits(self, table: Table) -> bool:
        """Whether ``table`` has its entries at the same places."""
        same = self.empty.shape[0] == len(table.lower) and len(self.row) == len(table.row)
        return same and bool((self.row == table.row).all() and (self.column == table.column).all())

    def matrix(self, value: Floats) -> sparse.csc_array:
        """The matrix with these values; those at one place are added up."""
        if self.order is None:
            return sparse.coo_array((value, (self.row, self.column)), shape=self.empty.shape).tocsc()
        return with_data(self.empty, value[self.order])


class Compiled:
    """A formulation for given entities, as arrays.

    Columns are the shares, then those that components declare, in order; rows are ``capacity[k]``, then those of the
    components. Components without ``rows`` are built in Pyomo, alone, and read back.

    Parameters
    ----------
    formulation:
        What to compile.
    entities:
        Who shares what, in floats or in Fractions.
    lazy:
        Leave out rows that are added as points violate them (:meth:`separation`); False: have all.
    bounds:
        Name of a row -> other bounds than the component says; None: as it says.
    like:
        One that was compiled before; where the entries are at the same places, it saves sorting them.

    Raises
    ------
    InvalidFormulation
        When the program is asked for: no component adds to the objective, or one refuses the entities.
    """

    def __init__(
        self,
        formulation: Formulation,
        entities: Entities,
        *,
        lazy: bool = True,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        like: Compiled | None = None,
    ) -> None:
        self.formulation, self.entities, self.lazy = formulation, entities, lazy
        self.bounds = bounds or {}
        self._again = like is not None
        self._pattern: Pattern | None = None if like is None else like._pattern

    @cached_property
    def arrays(self) -> dict[str, Arrays]:
        """Name -> arrays of every component that has them."""
        found = {}
        for part in self.formulation:
            if _has(part, "rows"):
                own: Any = part.rows(self.entities)  # type: ignore[attr-defined]
                if not isinstance(own, Arrays):
                    raise InvalidFormulation(
                        f"{part.name!r}: rows(entities) returned {shown(own)}; return hetopt.Arrays"
                    )
                found[part.name] = own
        if self.bounds:
            return {name: self._bounded(f"{name}.", own) for name, own in found.items()}
        return found

    @property
    def settable(self) -> list[str]:
        """Names of rows whose bounds can be set: those that components state one by one."""
        stated = [
            Segment(f"{name}.", rows, 0)
            for name, own in self.arrays.items()
            for rows in own.rows
            if isinstance(rows, Rows)
        ]
        if self.pyomo is not None:
            stated.append(Segment("", self.pyomo.rows, 0))
        return [part.name(i) for part in stated for i in range(len(part.rows))]

    def _bounded(self, prefix: str, own: Arrays) -> Arrays:
        rows = [part if isinstance(part, RowFamily) else self._with_bounds(prefix, part) for part in own.rows]
        return replace(own, rows=rows)

    def _with_bounds(self, prefix: str, rows: Rows) -> Rows:
        """``rows`` with the bounds that were set by name."""
        part, lower, upper = Segment(prefix, rows, 0), rows.lower, rows.upper
        for i in range(len(rows)):
            if (name := part.name(i)) in self.bounds:
                low, high = self.bounds[name]
                lower, upper = (np.array(each(end, len(rows)), dtype=object) for end in (lower, upper))
                lower[i] = lower[i] if low is None else self.entities.number(low)
                upper[i] = upper[i] if high is None else self.entities.number(high)
        kind = None if self.entities.is_exact or lower is rows.lower else float
        return replace(rows, lower=np.asarray(lower, dtype=kind), upper=np.asarray(upper, dtype=kind))

    @cached_property
    def pyomo(self) -> PyomoPart | None:
        """What comes from components without arrays; None where all have them."""
        if len(self.arrays) == len(self.formulation.components):
            return None
        part = pyomo_part(self.formulation, self.entities, frozenset(self.arrays))
        return replace(part, rows=self._with_bounds("", part.rows)) if self.bounds else part

    @cached_property
    def exact(self) -> Compiled:
        """The same over Fractions; what comes from Pyomo is read as the fractions that were meant."""
        compiled = Compiled(self.formulation, self.entities.exact, lazy=self.lazy, bounds=self.bounds)
        compiled.__dict__[PYOMO] = self.pyomo
        return compiled

    @cached_property
    def _in_arrays(self) -> dict[str, Arrays]:
        """Those of :attr:`arrays` that Pyomo has not taken over, since a component without arrays refers to them."""
        taken = () if self.pyomo is None else self.pyomo.taken
        return {name: own for name, own in self.arrays.items() if name not in taken}

    @cached_property
    def groups(self) -> dict[tuple[str, str], int]:
        """(component, group of columns) -> first position; the shares are ``("", "")``."""
        starts, end = {("", SHARE): 0}, self.entities.speed.size
        for name, own in self._in_arrays.items():
            for columns in own.columns:
                starts[name, columns.name] = end
                end += len(columns)
        if self.pyomo is not None:
            starts["", PYOMO] = end
            end += len(self.pyomo.columns)
        starts["", "end"] = end
        return starts

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.groups["", "end"]

    @cached_property
    def segments(self) -> list[Segment]:
        """The rows that the program has from the beginning."""
        found, start = [], 0
        for prefix, rows in self._stated():
            found.append(Segment(prefix, rows, start))
            start += len(rows)
        return found

    def _stated(self) -> Iterator[tuple[str, Rows]]:
        if self.pyomo is None or not self.pyomo.has_capacity:
            yield "", capacity_rows(self.entities)
        for part in self.formulation:
            if (own := self._in_arrays.get(part.name)) is None:
                continue
            for rows in own.rows:
                if not isinstance(rows, RowFamily):
                    yield f"{part.name}.", rows
                elif not (self.lazy and rows.lazy):
                    yield f"{part.name}.", rows.every()
            for curves in own.curves:
                yield f"{part.name}.", _first_tangents(curves, self.entities)
        if self.pyomo is not None:
            yield "", self.pyomo.rows

    def rows_of(self, name: str) -> slice:
        """Where the rows of a component (or ``"capacity"``) stand in the program; what comes from Pyomo stands last."""
        own = [part for part in self.segments if part.prefix == f"{name}." or (name == part.rows.name == "capacity")]
        if not own:
            return slice(0, 0)
        return slice(own[0].start, own[-1].start + len(own[-1].rows))

    @cached_property
    def table(self) -> Table:
        """The rows of :attr:`segments` and the objectives."""
        row, column, value = self.entries(self.segments)
        lower, upper = (
            np.concatenate([each(getattr(part.rows, key), len(part.rows)) for part in self.segments])
            for key in ("lower", "upper")
        )
        return Table(row, column, value, lower, upper, self._objectives())

    def entries(self, segments: Sequence[Segment]) -> tuple[Ints, Ints, Numbers]:
        """(rows, columns, values) over the columns of the program; none is 0, a place may come twice."""
        rows, columns, values = [], [], []
        for part in segments:
            for terms in part.rows.terms:
                owner = "" if terms.of in (SHARE, PYOMO) else part.prefix[:-1]
                first = self.groups[owner, terms.of]
                rows.append(terms.row + part.start if part.start else terms.row)
                columns.append(terms.column + first if first else terms.column)
                values.append(terms.value)
        if not rows:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0)
        row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
        if np.count_nonzero(value) == len(value):
            return row, column, value
        used = value != 0
        return row[used], column[used], value[used]

    def _objectives(self) -> dict[int, tuple[Numbers, Any]]:
        levels: dict[int, list[Any]] = {}
        size, kind = self.entities.speed.size, self.entities.speed.dtype

        def level(priority: int) -> list[Any]:
            return levels.setdefault(priority, [np.zeros(self.width, dtype=kind), 0])

        for part in self.formulation:
            own = self._in_arrays.get(part.name)
            if own is None or not own.has_gain:
                continue
            into = level(getattr(part, "priority", 0))
            if own.gain is not None:
                into[0][:size] += own.gain.ravel()
            for group, worth in own.own_gain.items():
                start = self.groups[part.name, group]
                many = next(len(columns) for columns in own.columns if columns.name == group)
                into[0][start : start + many] += worth
            into[1] += own.constant
        for priority, coefficients, constant in () if self.pyomo is None else self.pyomo.gains:
            into = level(priority)
            where = coefficients.columns.copy()
            where[where >= size] += self.groups["", PYOMO] - size
            np.add.at(into[0], where, self.entities.numbers(coefficients.values))
            into[1] += self.entities.number(constant)
        if not levels:
            raise InvalidFormulation(
                "no component adds anything to the objective; add one that does, e.g. "
                "hetopt.models.objectives.TotalRate()"
            )
        return {priority: (levels[priority][0], levels[priority][1]) for priority in sorted(levels, reverse=True)}

    @cached_property
    def program(self) -> LinearProgram:
        """The linear program, with the rows of :attr:`segments`.

        Raises
        ------
        NotLinear
            A component without arrays has terms that are not linear.
        """
        table, n = self.table, self.entities.speed.size
        if not (np.isfinite(table.value).all() and all(np.isfinite(c).all() for c, _ in table.objectives.values())):
            raise InvalidFormulation(f"{self._not_finite()} has a coefficient that is no finite number")
        *earlier, (priority, (c, constant)) = table.objectives.items()
        units = [each(part.rows.unit, len(part.rows)) for part in self.segments]
        lower, upper, integer, col_unit = self._bounds()
        return LinearProgram(
            c=c,
            A=self._matrix(table),
            row_lower=table.lower.astype(float),
            row_upper=table.upper.astype(float),
            col_lower=lower,
            col_upper=upper,
            integer=integer,
            row_names=Names.chained(Names(len(part.rows), part.name) for part in self.segments),
            col_names=Names(self.width, self._column_name),
            offset=float(constant),
            priority=priority,
            share=np.arange(n, dtype=np.intp).reshape(self.entities.shape),
            earlier=tuple(Objective(own, float(more), level) for level, (own, more) in earlier),
            row_unit=_unless_one(np.concatenate(units)),
            col_unit=_unless_one(col_unit),
        )

    def _matrix(self, table: Table) -> sparse.csc_array:
        """The entries as a matrix; the places of those that come again are remembered."""
        if not self._again:
            shape = (len(table.lower), self.width)
            return sparse.coo_array((table.value, (table.row, table.column)), shape=shape).tocsc()
        if self._pattern is None or not self._pattern.fits(table):
            self._pattern = Pattern.of(table, self.width)
        return self._pattern.matrix(table.value)

    def _not_finite(self) -> str:
        """The part that has a coefficient that is not finite."""
        for name, own in self._in_arrays.items():
            tables = [
                own.gain,
                *own.own_gain.values(),
                *(t.value for r in own.rows if isinstance(r, Rows) for t in r.terms),
            ]
            if any(table is not None and not np.isfinite(np.asarray(table, dtype=float)).all() for table in tables):
                return repr(name)
        others = [part.name for part in self.formulation if part.name not in self._in_arrays]
        return f"one of {', '.join(map(repr, others))}"

    def _bounds(self) -> tuple[Floats, Floats, np.ndarray, Floats]:
        """Bounds, wholeness and units of all columns."""
        n, binary = self.entities.speed.size, self.formulation.binary
        lower, unit = np.zeros(self.width), np.ones(self.width)
        upper, integer = np.full(self.width, np.inf), np.zeros(self.width, dtype=bool)
        upper[:n] = np.where(self.entities.allowed.ravel(), 1.0 if binary else np.inf, 0.0)
        integer[:n] = binary
        for name, own in self._in_arrays.items():
            for columns in own.columns:
                start = self.groups[name, columns.name]
                at = slice(start, start + len(columns))
                lower[at], upper[at], unit[at] = columns.lower, columns.upper, columns.unit
        if self.pyomo is not None:
            box, first = self.pyomo.box, self.groups["", PYOMO]
            for mine, theirs in ((lower, box.lower), (upper, box.upper), (integer, box.integer)):
                mine[:n], mine[first:] = theirs[:n], theirs[n:]
        return lower, upper, integer, unit

    def _column_name(self, i: int) -> str:
        types, n = self.entities.types, self.entities.speed.size
        if i < n:
            return f"share[{self.entities.names[i // len(types)]},{types[i % len(types)]}]"
        for name, own in self._in_arrays.items():
            for columns in own.columns:
                at = i - self.groups[name, columns.name]
                if 0 <= at < len(columns):
                    label = "" if columns.labels is None else f"[{columns.labels[at]}]"
                    return f"{name}.{columns.name}{label}"
        assert self.pyomo is not None
        return self.pyomo.columns[i - self.groups["", PYOMO]]

    def cuts(self, name: str, rows: Rows) -> Cuts:
        """``rows`` of the component ``name`` over the columns of the program."""
        part = Segment(f"{name}.", rows, 0)
        row, column, value = self.entries([part])
        matrix = sparse.coo_array((value, (row, column)), shape=(len(rows), self.width)).tocsr()
        lower, upper, unit = (each(getattr(rows, key), len(rows)) for key in ("lower", "upper", "unit"))
        names = Names(len(rows), part.name)
        return Cuts(matrix, lower.astype(float), upper.astype(float), names, _unless_one(unit))

    @property
    def families(self) -> dict[str, list[RowFamily]]:
        """Component -> its rows that join the program lazily."""
        return {name: own for name, own in self.every_family.items() if self.lazy and name in self._in_arrays}

    @property
    def every_family(self) -> dict[str, list[RowFamily]]:
        """Component -> its rows that a lazy Pyomo model leaves out."""
        found = {
            name: [rows for rows in own.rows if isinstance(rows, RowFamily) and rows.lazy]
            for name, own in self.arrays.items()
        }
        return {name: families for name, families in found.items() if families}

    @property
    def curved(self) -> list[str]:
        """Names of components with concave rows, of which the program has tangents alone."""
        return [name for name, own in self._in_arrays.items() if own.curves]

    def separation(self) -> Separation | None:
        """Finds rows that a point violates; None where the program has all."""
        return Separation(self) if self.families or self.curved else None

    def linear(self) -> LinearProgram:
        """The program with all rows.

        Raises
        ------
        NotLinear
            A component is concave: the program has only tangents of it.
        """
        if self.curved:
            raise NotLinear(
                f"{self.curved[0]!r} is concave: tangents of it are added as points need them, so the program cannot "
                "be solved exactly or written to a file; build(instance) has it as it is"
            )
        return (
            self.program
            if not self.families
            else Compiled(self.formulation, self.entities, lazy=False, bounds=self.bounds).program
        )

    def measure(self, share: Floats, priority: int = 0) -> tuple[Measure, bool]:
        """(gain and size at ``priority`` and largest violation, whether all components could be measured)."""
        gain, size, complete = 0.0, 0.0, True
        violation = capacity_violation(self.entities, share)
        for part in self.formulation:
            own = _measure(part, self.arrays.get(part.name), self.entities, share)
            if own is None:
                complete = False
                continue
            violation = max(violation, own.violation)
            if getattr(part, "priority", 0) == priority:
                gain += own.gain
                size += own.size
        return Measure(gain, violation, size), complete


def capacity_rows(entities: Entities) -> Rows:
    """``sum_e demand[e] * share[e, k] <= capacity[k]`` for every GPU type k."""
    n, k = entities.shape
    terms = Terms(np.tile(np.arange(k), n), np.arange(n * k), np.repeat(entities.demand, k))
    return Rows("capacity", entities.types, (terms,), upper=entities.capacity)


def _unless_one(unit: Floats) -> Floats | None:
    return None if (unit == 1.0).all() else unit


class Separation:
    """Rows that a program lacks, found where points violate them: lazy rows, and tangents of concave ones."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.added: dict[tuple[str, int], Ints] = {}
        """(component, number of its family) -> positions of the rows found so far."""

    def __call__(self, point: Point) -> list[Cuts]:
        """Rows that ``point`` violates; none when it meets all, up to ``point.asked_gap`` where rows are concave."""
        found = []
        for name, families in self.compiled.families.items():
            for i, family in enumerate(families):
                at = family.most_violated(np.maximum(point.share, 0.0))
                if len(at):
                    found.append(self.compiled.cuts(name, family.make(at)))
                    self.added[name, i] = np.concatenate([self.added.get((name, i), at[:0]), at])
        for name in self.compiled.curved:
            own = self.compiled.arrays[name]
            for curves in own.curves:
                rows = self._tangents(name, own, curves, point)
                if rows is not None:
                    found.append(self.compiled.cuts(name, rows))
        return found

    def _tangents(self, name: str, own: Arrays, curves: Curves, point: Point) -> Rows | None:
        """Tangents where the point overestimates most of the gain; None once all is within the gap asked for."""
        entities, start = self.compiled.entities, self.compiled.groups[name, curves.of]
        value = point.x[start + curves.column]
        many = next(len(columns) for columns in own.columns if columns.name == curves.of)
        worth = np.abs(each(own.own_gain.get(curves.of, 0.0), many)[curves.column])
        rate = entities.rate(point.share)
        over = worth * (curves.factor * value - curves.bounds(rate))
        total = np.zeros(many)
        np.maximum.at(total, curves.column, over)
        allowed = point.asked_gap * scale(point.objective, own.size)
        if total.sum() <= allowed:
            return None
        found = np.flatnonzero(over > np.maximum(allowed / many, VIOLATED * worth * scale(value)))
        y = np.maximum(rate[curves.who], 0.0)[found] / curves.unit[found]
        # Not at the point itself where that is nearly 0: the tangent would be too steep to be of use elsewhere.
        claimed = (curves.factor * value - curves.constant)[found] / curves.size[found]
        at = np.maximum(y, 0.5 * curves.shape.inverse(claimed))
        at = np.where(at > 0, at, FIRST[0])
        labels = [f"{entities.names[e]},{p:.6g}" for e, p in zip(curves.who[found].tolist(), at.tolist(), strict=True)]
        return _tangents(curves, entities, found, at, labels) if len(found) else None


def _tangents(curves: Curves, entities: Entities, which: Ints, at: Floats, labels: Sequence[str]) -> Rows:
    """Tangents of the concave rows ``which`` at the rates ``at`` (in their units)."""
    slope, size = curves.shape.slope(at), curves.size[which]
    table = -(size * slope / curves.unit[which])[:, None] * entities.speed[curves.who[which]]
    own = on_own(np.full(len(which), curves.factor), curves.of, curves.column[which])
    upper = curves.constant[which] + size * (curves.shape.value(at) - slope * at)
    return Rows("tangent", labels, (on_shares(table, curves.who[which]), own), upper=upper)


def _first_tangents(curves: Curves, entities: Entities) -> Rows:
    """Tangents at the rates :data:`FIRST`."""
    which = np.tile(np.arange(len(curves.who)), len(FIRST))
    labels = [f"{entities.names[e]},{i}" for i in range(len(FIRST)) for e in curves.who.tolist()]
    return _tangents(curves, entities, which, np.repeat(np.array(FIRST), len(curves.who)), labels)
