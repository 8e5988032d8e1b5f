"""Pyomo models of formulations: the whole model, for reading and for any solver, and partial models.

Components are independent of each other; they share these parts of the :class:`Model`:

``model.share[e, k]``
    tenants: GPUs of type k for entity e; jobs: part of the time (or, in a binary round, whether) the gang runs on k
``model.rate[e]``
    expression sum_k speed[e, k] * share[e, k]
``model.gpus[e, k]``
    expression demand[e] * share[e, k]
``model.capacity[k]``
    rows sum_e gpus[e, k] <= m_k; not where a component packs jobs, and states the capacity
``model.entities``
    the numbers, as arrays
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
import pyomo.environ as pyo
from numpy.typing import ArrayLike
from pyomo.common.gc_manager import PauseGC
from pyomo.core.expr import LinearExpression
from pyomo.core.expr.numvalue import as_numeric

from hetopt.checks import is_real, shown
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind
from hetopt.data.instance_data import InstanceData
from hetopt.data.packing import PackedShares
from hetopt.errors import InvalidFormulation
from hetopt.programs.arrays import SHARE, Arrays, Columns, Measure, RowFamily, Rows, each
from hetopt.programs.linear import Cuts
from hetopt.programs.mathematics import Mathematics

Expression: TypeAlias = Any
"""A Pyomo expression or a number (Pyomo is not typed)."""

Block: TypeAlias = Any
"""A Pyomo block."""

LARGE = 2_000_000
"""Number of terms above which building warns: 500 tenants on 4 types take 2 s and 1 GB, and minutes in solvers."""

RESERVED = frozenset(
    {"share", "rate", "gpus", "capacity", "entities", "instance", "objective", "kept", "priority", "gains"}
    | {"E", "K", "share_grid", "lazy", "left_out", "lazy_rows", "missing", "pending", "rows_left_out"}
)
"""Names that components cannot have."""


@runtime_checkable
class Component(Protocol):
    """One part of a formulation; it may have more attributes: :class:`~hetopt.programs.model.ComponentTraits`."""

    @property
    def name(self) -> str:
        """Name of its block in the model: ``model.<name>``."""
        ...

    def add(self, block: Block, model: Model) -> Expression:
        """Declare own variables and rows on the empty sub-``block``; return the gain, which the objective sums."""
        ...


def is_component(part: object) -> TypeGuard[Component]:
    """As ``isinstance(part, Component)``, which takes 30 microseconds."""
    return hasattr(part, "name") and callable(getattr(part, "add", None))


class ComponentTraits(NamedTuple):
    """Attributes that a component may have besides ``name`` and ``add``, with their defaults.

    Attributes
    ----------
    binary:
        True if every share must be 0 or 1 (a per-round program).
    priority:
        Priority of its gain. Gains of higher priority are maximised first and then kept.
    kind:
        The kind of entity that it applies to, ``"tenants"`` or ``"jobs"``, if only one makes sense.
    rows:
        Method ``rows(entities) -> Arrays``: the component in arrays (:class:`hetopt.Arrays`), which makes it fast,
        exact and measurable. Without it, the component goes through Pyomo. Subclasses of
        :class:`~hetopt.ArrayComponent` need only this method.
    measure:
        Method ``measure(entities, share) -> Measure``: gain and violation of given shares, if they do not follow from
        ``rows``.
    mathematics:
        Method ``mathematics(kind) -> Mathematics``: the component as formulas
        (:mod:`hetopt.programs.mathematics`).
    packed:
        Method ``packed(entities, own) -> PackedShares``: the time that jobs share GPUs in pairs, from the values of the
        component's own columns (group -> (c,) values). A component with it states the rows of the capacity itself, and
        models have no others.
    """

    binary: bool = False
    priority: int = 0
    kind: Kind | None = None
    rows: Callable[[Entities], Arrays] | None = None
    measure: Callable[[Entities, Floats], Measure] | None = None
    mathematics: Callable[[Kind], Mathematics] | None = None
    packed: Callable[[Entities, Mapping[str, Floats]], PackedShares] | None = None

    @classmethod
    def of(cls, component: Component) -> ComponentTraits:
        """The attributes that ``component`` has, else their defaults."""
        rows = getattr(component, "rows", None)
        measure = getattr(component, "measure", None)
        mathematics = getattr(component, "mathematics", None)
        packed = getattr(component, "packed", None)
        return cls(
            getattr(component, "binary", False),
            getattr(component, "priority", 0),
            getattr(component, "kind", None),
            rows if callable(rows) else None,
            measure if callable(measure) else None,
            mathematics if callable(mathematics) else None,
            packed if callable(packed) else None,
        )


class Components(Protocol):
    """An ordered set of components, such as a :class:`~hetopt.Formulation`."""

    @property
    def components(self) -> tuple[Component, ...]:
        """The components, in order."""
        ...

    @property
    def binary(self) -> bool:
        """Whether every share must be 0 or 1."""
        ...

    @property
    def packs(self) -> str | None:
        """Name of the component that packs jobs, and states the capacity; None: the model does."""
        ...

    def __iter__(self) -> Iterator[Component]: ...


class LazyRows(Protocol):
    """The rows that a model may leave out, in arrays."""

    @property
    def pyomo_families(self) -> Sequence[tuple[str, RowFamily]]:
        """Component -> family of its rows."""
        ...

    def cuts(self, stated: Sequence[tuple[str, Rows]]) -> Cuts:
        """The rows of components over the columns of the compiled program."""
        ...


class Model(pyo.ConcreteModel):  # type: ignore[misc]
    """A Pyomo model with the shared variables; see the module's docstring.

    Attributes
    ----------
    entities, instance:
        The data.
    gains:
        Priority -> sum of the gains of that priority, the highest first.
    priority:
        Priority of the objective, ``gains[priority]``: 0, or the highest if no gain has priority 0.
    kept:
        Rows ``kept[priority]`` that keep gains of another priority at their optimum, found when the model was built.
    lazy:
        Whether components may leave out rows.
    lazy_rows:
        The rows that they may leave out.
    left_out:
        Names of components that have left out rows. Pyomo's solvers and writers reject such a model;
        :func:`hetopt.from_pyomo` adds the rows.
    """

    entities: Entities
    instance: InstanceData
    gains: dict[int, Expression]
    lazy: bool
    left_out: tuple[str, ...]
    lazy_rows: LazyRows

    def component(self, name: Any) -> Any:
        """The component of that name, or None; a pending one is created now."""
        return getattr(self, name) if name in self.__dict__.get("pending", ()) else super().component(name)

    def __getattr__(self, name: str) -> Any:
        """Create rates and capacity on first use."""
        pending = self.__dict__.get("pending")
        if pending and name in pending:
            pending.pop(name)()
            return self.__dict__[name]
        return super().__getattr__(name)

    def weighted_shares(self, coefficients: ArrayLike) -> Expression:
        """The linear expression sum_ek coefficients[e, k] * share[e, k], without zero entries."""
        table = np.broadcast_to(np.asarray(coefficients, dtype=float), self.entities.shape)
        rows, columns = np.nonzero(table)
        grid = self.share_grid
        variables = [grid[e][k] for e, k in zip(rows.tolist(), columns.tolist(), strict=True)]
        return linear(zip(table[rows, columns].tolist(), variables, strict=True))

    def weighted_row(self, e: int, coefficients: ArrayLike) -> Expression:
        """The linear expression sum_k coefficients[k] * share[e, k] of one entity."""
        return linear(zip(np.asarray(coefficients, dtype=float).tolist(), self.share_grid[e], strict=True))


class _GPUs:
    """``model.gpus[e, k]``: the expression demand[e] * share[e, k], created on access."""

    def __init__(self, share: Any, entities: Entities) -> None:
        self._share, self._demand = share, dict(zip(entities.names, entities.demand.tolist(), strict=True))

    def __getitem__(self, key: tuple[str, str]) -> Expression:
        return self._demand[key[0]] * self._share[key]


def set_attributes(model: Any, **values: Any) -> None:
    """Set attributes that are not Pyomo components."""
    for key, value in values.items():
        object.__setattr__(model, key, value)


def bare_model(entities: Entities, instance: InstanceData | None, formulation: Components) -> Model:
    """A model with shares only; rates, and capacity unless a component states it, are pending."""
    binary = formulation.binary
    model = Model(name=(instance.name if instance is not None else "") or "hetopt")
    set_attributes(model, entities=entities, instance=instance, gains={}, lazy=False, left_out=())
    model.E = pyo.Set(initialize=list(entities.names), ordered=True, doc="entities that share the cluster")
    model.K = pyo.Set(initialize=list(entities.types), ordered=True, doc="GPU types")
    model.share = pyo.Var(model.E, model.K, domain=pyo.Binary if binary else pyo.NonNegativeReals)
    variables = list(model.share.values())
    k = len(entities.types)
    grid = [variables[i : i + k] for i in range(0, len(variables), k)]
    for e, j in np.argwhere(~entities.allowed).tolist():
        grid[e][j].setub(0)
    pending: dict[str, Callable[[], None]] = {"rate": lambda: add_rates(model)}
    if formulation.packs is None:
        pending["capacity"] = lambda: add_capacity(model)
    set_attributes(model, share_grid=grid, gpus=_GPUs(model.share, entities), pending=pending)
    return model


def add_rates(model: Model) -> None:
    """Add ``model.rate``."""
    speed, names = model.entities.speed, model.entities.names
    rows = {e: model.weighted_row(i, speed[i]) for i, e in enumerate(names)}
    model.rate = pyo.Expression(model.E, initialize=rows)


def add_capacity(model: Model) -> None:
    """Add ``model.capacity``."""
    entities = model.entities
    demand = entities.demand.tolist()
    model.capacity = pyo.Constraint(model.K)
    for k, name in enumerate(entities.types):
        used = linear(zip(demand, (row[k] for row in model.share_grid), strict=True))
        model.capacity[name] = (None, used, float(entities.capacity[k]))


def add_component_of(model: Model, part: Component) -> None:
    """Add the block of ``part`` and record its gain."""
    block = pyo.Block(concrete=True)
    model.add_component(part.name, block)
    gain = part.add(block, model)
    try:
        as_numeric(gain)
    except TypeError:
        raise InvalidFormulation(
            f"{part.name!r}: add(block, model) returned {shown(gain)}; return the gain, 0 if it has only rows"
        ) from None
    if next(block.component_data_objects(pyo.Objective, active=True), None) is not None:
        raise InvalidFormulation(f"{part.name!r} declares an objective; return what it maximises as its gain instead")
    if is_real(type(gain)) and gain == 0:
        return
    own = block.component("gain")
    if own is not None and own is not gain:
        raise InvalidFormulation(f"{part.name!r} returns another gain than its {part.name}.gain; return block.gain")
    if own is None:
        block.gain = pyo.Expression(expr=gain, doc="what the component adds to the objective")
        gain = block.gain
    model.gains.setdefault(ComponentTraits.of(part).priority, []).append(gain)


def state_arrays(block: Block, model: Model, arrays: Arrays) -> Expression:
    """Declare the columns and rows of ``arrays`` on ``block``, with their names and indices; return the gain.

    A lazy model omits lazy rows.

    Raises
    ------
    InvalidFormulation
        ``arrays`` has concave rows: Pyomo needs their formula.
    """
    if arrays.curves:
        raise InvalidFormulation(f"{block.local_name!r} has concave rows (curves); override its add(block, model)")
    variables = {SHARE: [variable for row in model.share_grid for variable in row]}
    for columns in arrays.columns:
        declared = pyo.Var() if columns.index is None else pyo.Var(list(columns.index))
        block.add_component(columns.name, declared)
        variables[columns.name] = own = list(declared.values())
        for one, low, high in zip(own, *_ends(columns, len(own)), strict=True):
            one.setlb(low)
            one.setub(high)
    for part in arrays.rows:
        if isinstance(part, RowFamily) and part.lazy and model.lazy:
            block.add_component(part.name, pyo.Constraint([]))
        else:
            _state_rows(block, part.every() if isinstance(part, RowFamily) else part, variables)
    if not arrays.has_gain:
        return 0
    gains = dict(arrays.own_gain) if arrays.gain is None else {SHARE: arrays.gain.ravel(), **arrays.own_gain}
    pairs = [
        (value, variable)
        for group, gain in gains.items()
        for value, variable in zip(each(gain, len(variables[group])).tolist(), variables[group], strict=True)
        if value
    ]
    return linear(pairs, arrays.constant)


def _state_rows(block: Block, rows: Rows, variables: Mapping[str, list[Any]]) -> None:
    index: list[Any] = [None] if rows.index is None else list(rows.index)
    declared = pyo.Constraint() if rows.index is None else pyo.Constraint(index)
    block.add_component(rows.name, declared)
    bodies: list[list[tuple[float, Any]]] = [[] for _ in index]
    for terms in rows.terms:
        of = variables[terms.of]
        for r, c, value in zip(terms.row.tolist(), terms.column.tolist(), terms.value.tolist(), strict=True):
            if value:
                bodies[r].append((value, of[c]))
    for at, pairs, low, high in zip(index, bodies, *_ends(rows, len(rows)), strict=True):
        declared[at] = bounded(pairs, low, high, variables[SHARE][0])


def bounded(terms: list[tuple[float, Any]], low: float | None, high: float | None, variable: Any) -> Any:
    """The row ``low <= sum of terms <= high``; without terms 0 times ``variable``, since Pyomo rejects such rows."""
    body = linear(terms or [(0.0, variable)])
    return body == low if low is not None and low == high else (low, body, high)


def linear(terms: Iterable[tuple[float, Any]], constant: float = 0.0) -> Expression:
    """The sum of coefficient times variable, in the form that Pyomo builds and compiles fastest."""
    pairs = list(terms)
    return LinearExpression(
        constant=float(constant),
        linear_coefs=[float(value) for value, _ in pairs],
        linear_vars=[one for _, one in pairs],
    )


def _ends(part: Columns | Rows, size: int) -> Iterator[list[float | None]]:
    """Lower and upper bounds in Pyomo's form."""
    for end in (part.lower, part.upper):
        yield [value if np.isfinite(value) else None for value in each(end, size).astype(float).tolist()]


def partial_model(
    formulation: Components, entities: Entities, in_arrays: Collection[str]
) -> tuple[Model, frozenset[str], bool]:
    """The model of only the components that are not ``in_arrays``, and of those that they use.

    Returns
    -------
    tuple[Model, frozenset[str], bool]
        The model, without an objective; the names of the components ``in_arrays`` that were built because another one
        uses their block; whether a component uses the capacity rows.
    """
    taken: list[str] = []
    with PauseGC():
        model = bare_model(entities, entities.instance, formulation)

        def take(part: Component) -> None:
            taken.append(part.name)
            add_component_of(model, part)

        for part in formulation.components:
            if part.name in in_arrays:
                model.pending[part.name] = partial(take, part)
            else:
                add_component_of(model, part)
        has_capacity = formulation.packs is None and "capacity" not in model.pending
        model.pending.clear()
    return model, frozenset(taken), has_capacity
