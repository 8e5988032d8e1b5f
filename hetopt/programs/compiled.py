"""A formulation for given entities as arrays: linear program, separation of lazy rows, measurement of shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from hetopt.checks import expect, shown
from hetopt.data.array_types import Floats, Numbers, Positions
from hetopt.data.capacity import type_parts, unused_parts
from hetopt.data.entities import Entities
from hetopt.data.packing import PackedShares
from hetopt.errors import InvalidFormulation, InvalidInstance, NotLinear
from hetopt.programs.arrays import (
    SHARE,
    Arrays,
    Curves,
    Index,
    Measure,
    RowFamily,
    Rows,
    Terms,
    each,
    full_names,
    indexed_names,
    measured,
    on_own,
    on_shares,
)
from hetopt.programs.linear import Cuts, LinearProgram, Names, Objective, Point, is_usual, nearest_powers
from hetopt.programs.model import Component, Components, ComponentTraits
from hetopt.programs.pyomo_reading import PYOMO, PyomoPart, pyomo_part
from hetopt.tolerances import VIOLATED, scale

INT32 = np.iinfo(np.int32).max
"""Largest 32-bit integer; solvers read positions as such."""

FIRST = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Rates, in units of a curve, at which the initial tangents touch it."""


def measure(component: Component, entities: Entities, share: Floats) -> Measure | None:
    """Gain and largest violation of ``component`` at given (n, k) shares.

    Returns
    -------
    Measure | None
        None for a component with neither ``rows`` nor ``measure``: it can be evaluated only in Pyomo.

    Raises
    ------
    InvalidInstance
        ``entities`` are none, or the shares are not finite numbers for them.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models.objectives import TotalRate
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> hetopt.measure(TotalRate(), inst.entities(), [[1, 0], [0, 1]])
    Measure(gain=6.0, violation=0.0, size=0.0)
    """
    traits = ComponentTraits.of(component)
    table = np.asarray(share, dtype=float)
    if table.shape != expect(Entities, entities, "entities").shape or not np.isfinite(table).all():
        raise InvalidInstance(f"is {shown(share)}; it must be finite numbers of shape {entities.shape}", "share")
    arrays = None if traits.rows is None else traits.rows(entities)
    return _measure(component.name, traits, arrays, entities, table)


def _measure(
    name: str,
    traits: ComponentTraits,
    arrays: Arrays | None,
    entities: Entities,
    share: Floats,
    own_values: Mapping[str, Floats] | None = None,
) -> Measure | None:
    own: Measure | None
    if traits.measure is not None:
        own = traits.measure(entities, share)
        if not isinstance(own, Measure):
            raise InvalidFormulation(f"{name!r}: measure(entities, share) returned {shown(own)}; return a Measure")
    elif arrays is None:
        return None
    else:
        own = measured(arrays, share, entities.rate(share), own_values)
    if own is not None and traits.binary:
        broken = float(np.abs(share - np.rint(share)).max(initial=0.0))
        own = replace(own, violation=max(own.violation, broken))
    return own


def no_gain() -> InvalidFormulation:
    """The error for a formulation without an objective."""
    return InvalidFormulation(
        "no component adds anything to the objective; add one that does, e.g. hetopt.models.objectives.TotalRate()"
    )


def capacity_violation(entities: Entities, share: Floats, packed: PackedShares | None = None) -> float:
    """Largest overuse of a GPU type, negative share or share of a forbidden type, as a part of the type's GPUs.

    ``packed``: the time that jobs share their GPUs.
    """
    gpus = entities.gpus(share) if packed is None else packed.gpus(entities.demand)
    parts, unused = type_parts(gpus, entities.capacity), unused_parts(gpus, entities.capacity)
    forbidden = np.abs(parts[~entities.allowed]).max(initial=0.0)
    return max(0.0, float(forbidden), -float(parts.min()), -float(unused.min()))


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows of one component, and their position in the program.

    Attributes
    ----------
    component:
        Its name; empty for capacity rows and rows read from Pyomo.
    start:
        Position of the first row.
    names:
        Full names of the rows.
    """

    component: str
    rows: Rows
    start: int
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Table:
    """Entries and bounds of rows over the columns of a program, in floats or in Fractions.

    Attributes
    ----------
    row, column, value:
        (m,) entries, nonzero; duplicate positions are added up.
    lower, upper:
        (rows,) bounds.
    """

    row: Positions
    column: Positions
    value: Numbers
    lower: Numbers
    upper: Numbers

    def matrix(self, width: int) -> sparse.coo_array:
        """The entries as a matrix with ``width`` columns."""
        shape = len(self.lower), width
        if max(shape) > INT32:  # scipy looks through longer positions for the largest
            return sparse.coo_array((self.value, (self.row, self.column)), shape=shape)
        short = self.row.astype(np.int32), self.column.astype(np.int32)
        return sparse.coo_array((self.value, short), shape=shape)


class Compiled:
    """A formulation for given entities, as arrays.

    Columns are the shares, then those that components declare, in order; rows are ``capacity[k]``, then those of the
    components. Only components without ``rows`` are built in Pyomo and read back.

    Parameters
    ----------
    formulation:
        The components.
    entities:
        The entities and their data, in floats or in Fractions.
    lazy:
        Leave out lazy rows, which :meth:`separation` adds as points violate them; False: include all rows.
    bounds:
        Name of a row -> (lower, upper) that replace the component's; None keeps the component's bound.
    arrays:
        Name -> arrays of components, if they have been computed already.
    pyomo_of:
        A compiled formulation with the same part read from Pyomo, which is reused.
    start:
        (n, k) shares from which an integer search may start, or None; they need not be feasible.

    Raises
    ------
    InvalidFormulation
        On access to the program: no component adds to the objective, or a component rejects the entities.
    """

    def __init__(
        self,
        formulation: Components,
        entities: Entities,
        *,
        lazy: bool = True,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        arrays: dict[str, Arrays] | None = None,
        pyomo_of: Compiled | None = None,
        start: Floats | None = None,
    ) -> None:
        self.formulation, self.entities, self.lazy, self.start = formulation, entities, lazy, start
        self.bounds = bounds or {}
        self._arrays, self._pyomo_of = arrays, pyomo_of

    @cached_property
    def _traits(self) -> dict[str, ComponentTraits]:
        """Name -> traits of every component, in order; a component's own measure does not know :attr:`bounds`."""
        found = {part.name: ComponentTraits.of(part) for part in self.formulation}
        for name in {row.split(".")[0] for row in self.bounds} & found.keys():
            found[name] = found[name]._replace(measure=None)
        return found

    @cached_property
    def arrays(self) -> dict[str, Arrays]:
        """Name -> arrays of every component that has them."""
        if self._arrays is not None:
            return self._arrays
        found = {}
        for name, traits in self._traits.items():
            if traits.rows is None:
                continue
            own = traits.rows(self.entities)
            if not isinstance(own, Arrays):
                raise InvalidFormulation(f"{name!r}: rows(entities) returned {shown(own)}; return hetopt.Arrays")
            if own.gain is not None and np.shape(own.gain) != self.entities.shape:
                raise InvalidFormulation(
                    f"{name!r}: the gain has shape {np.shape(own.gain)}; it must be {self.entities.shape}"
                )
            found[name] = own
        for name, own in found.items() if self.bounds else ():
            found[name] = replace(
                own,
                rows=[
                    part if isinstance(part, RowFamily) else self._with_bounds(part, full_names(part, f"{name}."))
                    for part in own.rows
                ],
            )
        return found

    @property
    def settable(self) -> list[str]:
        """Names of rows whose bounds can be set: all but those of row families."""
        stated = [
            name
            for component, own in self.arrays.items()
            for rows in own.rows
            if isinstance(rows, Rows)
            for name in full_names(rows, f"{component}.")
        ]
        return stated if self.pyomo is None else [*stated, *self.pyomo.row_names]

    def _with_bounds(self, rows: Rows, names: Sequence[str]) -> Rows:
        """``rows`` with the bounds in :attr:`bounds`."""
        lower, upper = (each(end, len(rows)).astype(float) for end in (rows.lower, rows.upper))
        for i, name in enumerate(names):
            if name in self.bounds:
                low, high = self.bounds[name]
                lower[i] = lower[i] if low is None else low
                upper[i] = upper[i] if high is None else high
        return replace(rows, lower=lower, upper=upper)

    @cached_property
    def pyomo(self) -> PyomoPart | None:
        """Rows, columns and gains of components without arrays, read from Pyomo; None if all have arrays."""
        if self._pyomo_of is not None:
            return self._pyomo_of.pyomo
        if len(self.arrays) == len(self.formulation.components):
            return None
        part = pyomo_part(self.formulation, self.entities, frozenset(self.arrays))
        return replace(part, rows=self._with_bounds(part.rows, part.row_names)) if self.bounds else part

    @cached_property
    def exact(self) -> Compiled:
        """The same over Fractions; floats read from Pyomo become the simple fractions that they round."""
        # Building the Pyomo part again would pass Fractions to its components.
        return Compiled(self.formulation, self.entities.exact, lazy=self.lazy, pyomo_of=self)

    @cached_property
    def _in_arrays(self) -> dict[str, Arrays]:
        """Components that stay in arrays; a Pyomo-only one may pull others in by using their block."""
        taken = () if self.pyomo is None else self.pyomo.taken
        return {name: own for name, own in self.arrays.items() if name not in taken}

    @cached_property
    def groups(self) -> dict[tuple[str, str], int]:
        """(component, group of columns) -> first position; ``("", SHARE)`` are the shares, ``("", PYOMO)`` Pyomo's."""
        starts, end = {("", SHARE): 0}, self.entities.speed.size
        for name, own in self._in_arrays.items():
            for columns in own.columns:
                starts[name, columns.name] = end
                end += len(columns)
        if self.pyomo is not None:
            starts["", PYOMO] = end
        return starts

    def _group(self, component: str, name: str) -> tuple[int, int]:
        """First column and number of columns of a group."""
        if name in (SHARE, PYOMO):
            start = self.groups["", name]
            return start, self.entities.speed.size if name == SHARE else self.width - start
        if (component, name) not in self.groups:
            raise InvalidFormulation(
                f"{component!r} has coefficients of the columns {name!r}, which it does not declare"
            )
        return self.groups[component, name], len(self.arrays[component].group(name))

    @cached_property
    def width(self) -> int:
        """Number of columns."""
        own = sum(len(columns) for arrays in self._in_arrays.values() for columns in arrays.columns)
        return self.entities.speed.size + own + (0 if self.pyomo is None else len(self.pyomo.columns))

    @cached_property
    def segments(self) -> list[Segment]:
        """The initial rows of the program."""
        found, start = [], 0
        for component, rows in self._stated():
            if self.pyomo is not None and rows is self.pyomo.rows:
                names: Sequence[str] = self.pyomo.row_names
            else:
                names = full_names(rows, component and f"{component}.")
            found.append(Segment(component, rows, start, names))
            start += len(rows)
        return found

    def _stated(self) -> Iterator[tuple[str, Rows]]:
        """(component, rows) pairs of the program, in order."""
        if self.formulation.packs is None and (self.pyomo is None or not self.pyomo.has_capacity):
            yield "", capacity_rows(self.entities)
        for name, own in self._in_arrays.items():
            for rows in own.rows:
                if not isinstance(rows, RowFamily):
                    yield name, rows
                elif not (self.lazy and rows.lazy):
                    yield name, rows.every()
            for curves in own.curves:
                yield name, _first_tangents(curves, self.entities)
        if self.pyomo is not None:
            yield "", self.pyomo.rows

    def rows_of(self, name: str) -> slice:
        """Positions of the rows of a component (or ``"capacity"``) in the program; rows from Pyomo are last."""
        own = [
            part
            for part in self.segments
            if part.component == name or (not part.component and name == part.rows.name == "capacity")
        ]
        if not own:
            return slice(0, 0)
        return slice(own[0].start, own[-1].start + len(own[-1].rows))

    @cached_property
    def table(self) -> Table:
        """The rows of :attr:`segments`."""
        return self.table_of([(part.component, part.rows) for part in self.segments])

    def table_of(self, stated: Sequence[tuple[str, Rows]]) -> Table:
        """Rows of components, stacked, over the columns of the program."""
        rows, columns, values, start = [], [], [], 0
        for component, part in stated:
            for terms in part.terms:
                first, size = self._group(component, terms.of)
                _check_positions(component, part, terms, size)
                rows.append(terms.row + start if start else terms.row)
                columns.append(terms.column + first if first else terms.column)
                values.append(terms.value)
            start += len(part)
        row, column, value = (
            np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
            for parts, dtype in ((rows, np.intp), (columns, np.intp), (values, float))
        )
        if np.count_nonzero(value) < len(value):
            used = value != 0
            row, column, value = row[used], column[used], value[used]
        lower, upper = (
            np.concatenate([each(getattr(part, key), len(part)) for _, part in stated]) for key in ("lower", "upper")
        )
        return Table(row, column, value, lower, upper)

    @cached_property
    def objectives(self) -> dict[int, tuple[Numbers, Any]]:
        """Priority -> ((columns,) coefficients, constant), the highest first.

        Raises
        ------
        InvalidFormulation
            No component adds to the objective.
        """
        found: dict[int, list[Any]] = {}
        shares, dtype = self.entities.speed.size, self.entities.speed.dtype

        def objective(priority: int) -> list[Any]:
            return found.setdefault(priority, [np.zeros(self.width, dtype=dtype), 0])

        for name, own in self._in_arrays.items():
            if not own.has_gain:
                continue
            into = objective(self._traits[name].priority)
            if own.gain is not None:
                into[0][:shares] += own.gain.ravel()
            for group, gain in own.own_gain.items():
                start, size = self._group(name, group)
                into[0][start : start + size] += gain
            into[1] += own.constant
        for priority, coefficients, constant in () if self.pyomo is None else self.pyomo.gains:
            into = objective(priority)
            where = coefficients.columns.copy()
            where[where >= shares] += self.groups["", PYOMO] - shares
            np.add.at(into[0], where, self.entities.numbers(coefficients.values))
            into[1] += self.entities.number(constant)
        if not found:
            raise no_gain()
        return {priority: (c, constant) for priority, (c, constant) in sorted(found.items(), reverse=True)}

    @cached_property
    def program(self) -> LinearProgram:
        """The linear program, with the rows of :attr:`segments`.

        Raises
        ------
        NotLinear
            A component without arrays has terms that are not linear.
        """
        table, n = self.table, self.entities.speed.size
        if not (np.isfinite(table.value).all() and all(np.isfinite(c).all() for c, _ in self.objectives.values())):
            raise InvalidFormulation(f"{self._not_finite()} has a coefficient that is not finite")
        *earlier, (priority, (c, constant)) = self.objectives.items()
        units = [_unit(part.rows) for part in self.segments]
        lower, upper, integer, col_unit = self._column_data()
        return LinearProgram(
            c=c,
            A=table.matrix(self.width).tocsc(),
            row_lower=table.lower.astype(float),
            row_upper=table.upper.astype(float),
            col_lower=lower,
            col_upper=upper,
            integer=integer,
            row_names=Names.chained(part.names for part in self.segments),
            col_names=self._column_names(),
            offset=float(constant),
            priority=priority,
            share=np.arange(n, dtype=np.intp).reshape(self.entities.shape),
            earlier=tuple(Objective(own, float(more), higher) for higher, (own, more) in earlier),
            row_unit=_unless_one(np.concatenate(units)),
            col_unit=_unless_one(col_unit),
        )

    def _not_finite(self) -> str:
        """The part with a coefficient that is not finite."""
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

    def _column_data(self) -> tuple[Floats, Floats, np.ndarray, Floats]:
        """Bounds, integrality and units of all columns."""
        n, binary = self.entities.speed.size, any(traits.binary for traits in self._traits.values())
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
            bounds, first = self.pyomo.bounds, self.groups["", PYOMO]
            for mine, theirs in ((lower, bounds.lower), (upper, bounds.upper), (integer, bounds.integer)):
                mine[:n], mine[first:] = theirs[:n], theirs[n:]
        return lower, upper, integer, unit

    def _column_names(self) -> Sequence[str]:
        names, types, k = self.entities.names, self.entities.types, len(self.entities.types)
        places = Names[Index](self.entities.speed.size, lambda i: (names[i // k], types[i % k]))
        parts: list[Sequence[str]] = [indexed_names("share", places)]
        parts += [full_names(own, f"{name}.") for name, arrays in self._in_arrays.items() for own in arrays.columns]
        return Names.chained(parts if self.pyomo is None else [*parts, self.pyomo.columns])

    def cuts(self, stated: Sequence[tuple[str, Rows]]) -> Cuts:
        """Rows of components over the columns of the program."""
        table = self.table_of(stated)
        return Cuts(
            table.matrix(self.width).tocsr(),
            table.lower.astype(float),
            table.upper.astype(float),
            Names.chained(full_names(rows, f"{name}.") for name, rows in stated),
            _unless_one(np.concatenate([_unit(rows) for _, rows in stated])),
        )

    @cached_property
    def lazy_families(self) -> list[tuple[str, RowFamily]]:
        """(component, row family) pairs whose rows the program leaves out until they are violated."""
        return [(name, rows) for name, rows in self.pyomo_families if self.lazy and name in self._in_arrays]

    @cached_property
    def pyomo_families(self) -> list[tuple[str, RowFamily]]:
        """(component, row family) pairs whose rows a lazy Pyomo model leaves out."""
        return [
            (name, rows)
            for name, own in self.arrays.items()
            for rows in own.rows
            if isinstance(rows, RowFamily) and rows.lazy
        ]

    def all_lazy_rows(self) -> Cuts | None:
        """All lazy rows; None if there are none."""
        rows = [(name, family.every()) for name, family in self.lazy_families]
        return self.cuts(rows) if rows else None

    @property
    def curved(self) -> list[str]:
        """Names of components with concave rows, which the program approximates by tangents."""
        return [name for name, own in self._in_arrays.items() if own.curves]

    def separation(self) -> Separation | None:
        """Separates violated rows; None if the program contains all rows."""
        return Separation(self) if self.lazy_families or self.curved else None

    def linear(self) -> LinearProgram:
        """The program with all rows.

        Raises
        ------
        NotLinear
            A component is concave: the program has only tangents to it.
        """
        if self.curved:
            raise NotLinear(
                f"{self.curved[0]!r} is concave: tangents of it are added as points need them, so the program cannot "
                "be solved exactly or written to a file; build(instance) has it as it is"
            )
        if not self.lazy_families:
            return self.program
        return Compiled(self.formulation, self.entities, lazy=False, bounds=self.bounds).program

    def without_curves(self) -> LinearProgram:
        """The program with a gain of 0 for each concave component; duals of an interior point refer to its rows."""
        none = Arrays(gain=np.zeros(self.entities.shape))
        arrays = {name: none if own.curves else own for name, own in self.arrays.items()}
        return Compiled(self.formulation, self.entities, lazy=self.lazy, arrays=arrays, pyomo_of=self).program

    def own_values(self, x: Floats) -> dict[str, dict[str, Floats]]:
        """Component -> group of its own columns -> their values in (columns,) ``x``; empty if ``x`` has others."""
        found: dict[str, dict[str, Floats]] = {}
        for (name, group), start in self.groups.items() if len(x) == self.width else ():
            if name:
                found.setdefault(name, {})[group] = x[start : start + len(self.arrays[name].group(group))]
        return found

    def packed(self, own: Mapping[str, Mapping[str, Floats]]) -> PackedShares | None:
        """The time that jobs share GPUs, from :meth:`own_values`; None if no component packs them."""
        name = self.formulation.packs
        traits = None if name is None else self._traits[name]
        return None if traits is None or traits.packed is None else traits.packed(self.entities, own[str(name)])

    def measure(
        self, share: Floats, priority: int = 0, own: Mapping[str, Mapping[str, Floats]] | None = None
    ) -> tuple[Measure, bool]:
        """(gain and size at ``priority`` and largest violation, whether all components could be measured).

        ``own``: values of own columns, as :meth:`own_values`, for components with rows of several.
        """
        gain, size, complete, values = 0.0, 0.0, True, own or {}
        packs = self.formulation.packs
        packed = self.packed(values) if packs in values else None
        if packs is None or packed is not None:
            violation = capacity_violation(self.entities, share, packed)
        else:
            violation, complete = 0.0, False
        for name, traits in self._traits.items():
            found = _measure(name, traits, self.arrays.get(name), self.entities, share, values.get(name))
            if found is None:
                complete = False
                continue
            violation = max(violation, found.violation)
            if traits.priority == priority:
                gain += found.gain
                size += found.size
        return Measure(gain, violation, size), complete


def _unit(rows: Rows) -> Floats:
    """(r,) units of rows; by default their largest coefficients if these are far from 1."""
    given = each(rows.unit, len(rows)).astype(float)
    if isinstance(rows.unit, np.ndarray) or rows.unit != 1:
        return given
    if all(is_usual(np.abs(terms.value).astype(float)).all() for terms in rows.terms):
        return given
    largest = np.zeros(len(rows))
    for terms in rows.terms:
        np.maximum.at(largest, terms.row, np.abs(terms.value).astype(float))
    unusual = (largest > 0) & ~is_usual(largest)
    return np.where(unusual, nearest_powers(largest), given) if unusual.any() else given


def _check_positions(component: str, rows: Rows, terms: Terms, columns: int) -> None:
    """Refuse entries outside of a component's own rows and columns, which would change those of others."""
    for what, at, size in (("row", terms.row, len(rows)), ("column", terms.column, columns)):
        if len(at) and not 0 <= at.min() <= at.max() < size:
            wrong = at[(at < 0) | (at >= size)][0]
            raise InvalidFormulation(f"{component!r}: {rows.name} has a term in {what} {wrong} of {size}; count from 0")


def capacity_rows(entities: Entities) -> Rows:
    """``sum_e demand[e] * share[e, k] <= capacity[k]`` for every GPU type k."""
    n, k = entities.shape
    terms = Terms(np.tile(np.arange(k), n), np.arange(n * k), np.repeat(entities.demand, k))
    return Rows("capacity", entities.types, (terms,), upper=entities.capacity)


def _unless_one(unit: Floats) -> Floats | None:
    return None if (unit == 1.0).all() else unit


class Separation:
    """Separation of lazy rows and of tangents of concave rows."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.added = [np.empty(0, dtype=np.intp) for _ in compiled.lazy_families]
        """Per family, the positions of the rows separated so far."""

    def __call__(self, point: Point) -> list[Cuts]:
        """Rows that ``point`` violates; empty if all hold, concave ones up to ``point.requested_gap``."""
        found = []
        for i, (name, family) in enumerate(self.compiled.lazy_families):
            at = family.most_violated(np.maximum(point.share, 0.0))
            if len(at):
                found.append((name, family.make(at)))
                self.added[i] = np.concatenate([self.added[i], at])
        for name in self.compiled.curved:
            own = self.compiled.arrays[name]
            for curves in own.curves:
                rows = self._tangents(name, own, curves, point)
                if rows is not None:
                    found.append((name, rows))
        return [self.compiled.cuts(found)] if found else []

    def _tangents(self, name: str, own: Arrays, curves: Curves, point: Point) -> Rows | None:
        """Tangents where the point overestimates the gain most; None once the error is within the requested gap."""
        entities, start = self.compiled.entities, self.compiled.groups[name, curves.of]
        value = point.x[start + curves.column]
        many = len(own.group(curves.of))
        gain = np.abs(each(own.own_gain.get(curves.of, 0.0), many)[curves.column])
        rate = entities.rate(point.share)
        over = gain * (curves.factor * value - curves.bounds(rate))
        total = np.zeros(many)
        np.maximum.at(total, curves.column, over)
        allowed = point.requested_gap * scale(point.objective, own.size)
        if total.sum() <= allowed:
            return None
        found = np.flatnonzero(over > np.maximum(allowed / many, VIOLATED * gain * scale(value)))
        y = np.maximum(rate[curves.who], 0.0)[found] / curves.unit[found]
        # Not at a rate near 0, where a tangent is too steep to bound other points.
        claimed = (curves.factor * value - curves.constant)[found] / curves.size[found]
        at = np.maximum(y, 0.5 * curves.shape.inverse(claimed))
        return _tangents(curves, entities, found, np.where(at > 0, at, FIRST[0])) if len(found) else None


def _tangents(curves: Curves, entities: Entities, which: Positions, at: Floats) -> Rows:
    """Tangents of the concave rows ``which`` at the rates ``at`` (in their units)."""
    who = curves.who[which]
    slope, size = curves.shape.slope(at), curves.size[which]
    table = -(size * slope / curves.unit[which])[:, None] * entities.speed[who]
    own = on_own(np.full(len(which), curves.factor), curves.of, curves.column[which])
    upper = curves.constant[which] + size * (curves.shape.value(at) - slope * at)
    index = Names[Index](len(which), lambda i: (entities.names[who[i]], float(f"{at[i]:.6g}")))
    return Rows("tangent", index, (on_shares(table, who), own), upper=upper)


def _first_tangents(curves: Curves, entities: Entities) -> Rows:
    """Tangents at the rates :data:`FIRST`."""
    which = np.tile(np.arange(len(curves.who)), len(FIRST))
    return _tangents(curves, entities, which, np.repeat(np.array(FIRST), len(curves.who)))
