"""Formulations: ordered sets of components that together form a program.

A component is one idea of a paper (an objective, a fairness rule, a cost) and the rows that state it. Components are
independent of each other; they share the variables of the :class:`~hetopt.programs.model.Model`.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from hetopt.checks import boolean, counted, expect, shown
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind, WatchedEntities, agree, check_kind
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidFormulation, InvalidOption, LargeModel
from hetopt.formulations.traits import Traits
from hetopt.programs.arrays import Arrays, RowFamily
from hetopt.programs.compiled import Compiled, no_gain
from hetopt.programs.linear import LinearProgram, Point, main_priority
from hetopt.programs.mathematics import Mathematics, documented
from hetopt.programs.model import (
    LARGE,
    RESERVED,
    Block,
    Component,
    ComponentTraits,
    Expression,
    Model,
    add_component_of,
    bare_model,
    is_component,
    set_attributes,
    state_arrays,
)
from hetopt.programs.symbols import frame
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.optimising import kept_optima, solve_compiled
from hetopt.solving.options import DEFAULT, Options
from hetopt.solving.staying import may_stay, still_optimal

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum


class ArrayComponent(ABC):
    """Base of components in array form: ``add`` derives the Pyomo model from ``rows``.

    A component with concave rows (``curves``) overrides ``add``.
    """

    name: str

    @abstractmethod
    def rows(self, entities: Entities) -> Arrays:
        """Its columns, rows and gain, in floats or in Fractions as the entities are."""

    def __add__(self, other: Component) -> Formulation:
        """The formulation of both components."""
        return Formulation((self, other)) if is_component(other) else NotImplemented

    def add(self, block: Block, model: Model) -> Expression:
        """Declare the arrays in Pyomo, under the same names; return the gain, 0 if there is none."""
        return state_arrays(block, model, self.rows(model.entities))


@dataclass(frozen=True)
class Formulation:
    """Ordered components; also a policy: ``formulation(instance, state) -> (Allocation, state)``.

    Parameters
    ----------
    components:
        The parts, in the order in which they are added.
    kind:
        Whether shares go to ``"tenants"`` or ``"jobs"``; None: as the components require, else tenants if the
        instance has any.
    title:
        Shown in tables and reports.

    Examples
    --------
    >>> from hetopt.models import oef
    >>> from hetopt.models.objectives import SwitchingCost
    >>> (oef.cooperative() + SwitchingCost(0.5)).names
    ('total_rate', 'envy_free', 'switching_cost')
    """

    components: tuple[Component, ...]
    kind: Kind | None = None
    title: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.components, Iterable):
            raise InvalidFormulation(f"is {shown(self.components)}; it must be a sequence of components", "components")
        object.__setattr__(self, "components", tuple(self.components))
        for part in self.components:
            if isinstance(part, type):
                raise InvalidFormulation(f"{part.__name__} is a class; add an instance of it: {part.__name__}()")
            if not is_component(part):
                raise InvalidFormulation(
                    f"{shown(part)} is not a component: it needs a name and a method add(block, model)"
                )
            if not part.name.isidentifier() or part.name in RESERVED or hasattr(Model, part.name):
                taken = ", ".join(sorted(RESERVED))
                raise InvalidFormulation(
                    f"component name {part.name!r} cannot be used; choose an identifier other than {taken}, that is no "
                    "attribute of Pyomo models"
                )
            priority = ComponentTraits.of(part).priority
            if not isinstance(priority, int) or isinstance(priority, bool):
                raise InvalidFormulation(f"is {shown(priority)}; it must be a whole number", f"{part.name}.priority")
        seen: dict[str, Component] = {}
        for part in self.components:
            if part.name in seen:
                raise InvalidFormulation(
                    f"two components are named {part.name!r}: {seen[part.name]!r} and {part!r}; "
                    f"remove one with .without({part.name!r}) or give it another name"
                )
            seen[part.name] = part
        packing = [name for name, part in seen.items() if ComponentTraits.of(part).packed is not None]
        if len(packing) > 1:
            raise InvalidFormulation(f"{' and '.join(packing)} both pack jobs and state the capacity; remove one")
        _ = self._own_kind  # rejects kinds that contradict each other

    @cached_property
    def _own_kind(self) -> Kind | None:
        """The kind that was given, or that components require."""
        kinds: dict[str, Component] = {}
        for part in self.components:
            kind = ComponentTraits.of(part).kind
            check_kind(f"{part.name}.kind", kind)
            if kind is not None:
                kinds.setdefault(kind, part)
        if len(kinds) > 1:
            a, b = kinds["tenants"], kinds["jobs"]
            raise InvalidFormulation(
                f"{a.name!r} is for tenants and {b.name!r} for jobs; remove one of them with .without(name)"
            )
        own = next(iter(kinds), None)
        check_kind("Formulation.kind", self.kind)
        if own is not None and self.kind is not None and own != self.kind:
            raise InvalidFormulation(f"{kinds[own].name!r} is for {own}, but the formulation is set to {self.kind}")
        return self.kind if self.kind is not None else own  # type: ignore[return-value]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components, in order."""
        return tuple(part.name for part in self.components)

    @property
    def binary(self) -> bool:
        """True if some component requires every share to be 0 or 1."""
        return any(ComponentTraits.of(part).binary for part in self.components)

    @property
    def packs(self) -> str | None:
        """Name of the component that packs jobs in pairs and states the capacity; None if no component does."""
        return next((part.name for part in self.components if ComponentTraits.of(part).packed is not None), None)

    def __iter__(self) -> Iterator[Component]:
        return iter(self.components)

    def __getitem__(self, name: str) -> Component:
        for part in self.components:
            if part.name == name:
                return part
        raise InvalidFormulation(f"there is no component {name!r}; this formulation has {', '.join(self.names)}")

    def __add__(self, other: Component | Formulation) -> Formulation:
        """This formulation plus one component, or plus those of another formulation."""
        more: Sequence[Component] = other.components if isinstance(other, Formulation) else (other,)
        return self._with((*self.components, *more))

    def __radd__(self, other: Component) -> Formulation:
        """``component + formulation``."""
        return self._with((other, *self.components))

    def without(self, name: str) -> Formulation:
        """This formulation without the component of that name."""
        gone = self[name]
        return self._with(tuple(part for part in self.components if part is not gone))

    def replaced(self, component: Component) -> Formulation:
        """This formulation with ``component`` in place of the one of the same name."""
        old = self[component.name]
        return self._with(tuple(component if part is old else part for part in self.components))

    def _with(self, components: tuple[Component, ...]) -> Formulation:
        title = self.title and f"{self.title.removesuffix(' (changed)')} (changed)"
        return replace(self, components=components, title=title)

    def entities(self, instance: Instance) -> Entities:
        """The entities and GPU types among which this formulation shares.

        Raises
        ------
        InvalidInstance
            There is no entity; a job arrives after the instance's time (:meth:`hetopt.Instance.at` leaves such jobs
            out); or a gang is too large for every GPU type that can run it, since each share is on one type. (An entity
            that can run only on types without GPUs now, e.g. because servers are drained, gets nothing.)
        """
        return present_entities(instance, self._own_kind, self.title or "the formulation")

    def build(self, instance: Instance, *, lazy: bool = False) -> Model:
        """The Pyomo model: the whole program as printed in the papers, for reading and for any Pyomo solver.

        Parameters
        ----------
        lazy:
            Leave out rows that are too many to write out (envy of more than 40 tenants). Pyomo's solvers and writers
            reject such a model; :func:`hetopt.from_pyomo` adds the rows.

        Returns
        -------
        Model
            With ``model.<component>.gain`` of each component that has one, and ``model.objective``, the sum of those
            of priority 0, to be maximised. The rows ``model.kept[priority]`` keep gains of other priorities at their
            optimum, which is solved for here.

        Raises
        ------
        InvalidFormulation
            No component contributes to the objective, or a component rejects the instance.
        NotSolved
            The gains of another priority have no optimum.

        Warns
        -----
        LargeModel
            The model will have millions of terms.
        """
        boolean(lazy, "lazy")
        entities = self.entities(instance)
        compiled = Compiled(self, entities)
        if not lazy:
            _warn_if_large(compiled)
        with PauseGC():
            model = bare_model(entities, instance, self)
            for add in list(model.pending.values()):
                add()
            model.pending.clear()
            set_attributes(model, lazy=lazy, lazy_rows=compiled)
            for part in self.components:
                add_component_of(model, part)
            if not model.gains:
                raise no_gain()
            gains = {
                priority: sum(more, first) for priority, (first, *more) in sorted(model.gains.items(), reverse=True)
            }
            set_attributes(model, gains=gains, priority=main_priority(gains))
            if len(gains) > 1:
                model.kept = pyo.Constraint(pyo.Any)
                for priority, least in kept_optima(compiled).items():
                    model.kept[priority] = gains[priority] >= least
            model.objective = pyo.Objective(expr=gains[model.priority], sense=pyo.maximize)
            if lazy:
                _mark_left_out(model, compiled)
            self.describe(model)
        return model

    def compile(self, instance: Instance) -> LinearProgram:
        """The linear program, with all rows.

        Raises
        ------
        NotLinear
            A component is concave.
        """
        return Compiled(self, self.entities(instance)).linear()

    def mathematics(self, kind: Kind | None = None) -> Mathematics:
        """The whole program as formulas, collected from its components; ``print`` shows it.

        Parameters
        ----------
        kind:
            Whether shares go to ``"tenants"`` or ``"jobs"``; None: the formulation's own kind, else tenants.

        Returns
        -------
        Mathematics
            Its title names the components without formulas.

        Raises
        ------
        InvalidFormulation
            The formulation applies only to the other kind; two components use one symbol with different meanings.
        """
        check_kind("kind", kind)
        own = self._own_kind
        if kind is not None and own is not None and kind != own:
            raise InvalidFormulation(f"{self.title or 'the formulation'} is for {own}, not {kind}")
        chosen = kind or own or "tenants"
        stated = {part.name: ComponentTraits.of(part).mathematics for part in self}
        parts = {name: mathematics(chosen) for name, mathematics in stated.items() if mathematics is not None}
        title = (self.title or "Formulation") + (f", for {chosen}" if own is None else "")
        if silent := [name for name in self.names if name not in parts]:
            title += f"; {', '.join(silent)} {'states' if len(silent) == 1 else 'state'} no mathematics"
        return Mathematics.joined(title, {"": frame(chosen, self.binary, capacity=self.packs is None)} | parts)

    def show(self, kind: Kind | None = None, *, width: int = 100) -> None:
        """Print :meth:`mathematics`: the objective, the rows with their equations, the symbols with their units.

        Parameters
        ----------
        kind:
            As for :meth:`mathematics`.
        width:
            Characters per line.
        """
        print(self.mathematics(kind).text(width))

    def _repr_latex_(self) -> str:
        """For notebooks."""
        return self.mathematics()._repr_latex_()

    def describe(self, model: Model) -> None:
        """Write equation, meaning and unit as ``doc`` of all parts of a built ``model`` that have a statement."""
        kind = model.entities.kind
        gains: dict[int, dict[str, str]] = {priority: {} for priority in model.gains}
        documented(model, frame(kind, self.binary, capacity=self.packs is None))
        for part in self:
            block, traits = model.component(part.name), ComponentTraits.of(part)
            if traits.mathematics is not None:
                documented(block, traits.mathematics(kind))
            gain = block.component("gain")
            if gain is not None and traits.priority in gains:
                gains[traits.priority][gain.name] = gain.doc or "no mathematics stated"
        model.objective.doc = f"{' + '.join(gains[model.priority])}: the sum of the gains, to be maximised"
        if kept := [own for priority, own in gains.items() if priority != model.priority]:
            text = "; ".join(f"{' + '.join(own)} ≥ its optimum: {'; '.join(own.values())}" for own in kept)
            model.kept.doc = f"gains of other priorities are kept: {text}"

    @property
    def traits(self) -> Traits:
        """Allocations share GPUs in time."""
        return Traits(fractional=True)

    def __call__(self, instance: Instance, state: LastOptimum | None = None) -> tuple[Allocation, LastOptimum]:
        """The optimum, with default options: a formulation is a policy.

        Its state is the last optimum. It is taken again if it followed only from numbers of the entities that are the
        same now, and stays while its duals prove that it is optimal (:mod:`hetopt.solving.staying`). Gains and rows
        must follow from the entities and from fields of the components; only components that are frozen dataclasses are
        taken to be unchanged.
        """
        began, entities = time.perf_counter(), self.entities(instance)
        last = LastOptimum() if state is None else expect(LastOptimum, state, "state", InvalidOption)
        if last.result is not None and last.formulation == self and agree(last.result.entities, entities):
            return replace(last.result, entities=entities), last
        watched = WatchedEntities.of(entities)
        compiled = Compiled(self, watched)
        point, kept = None if last.point is None else still_optimal(compiled, last.point), last.point
        if point is None:
            point, _ = solve_compiled(compiled, DEFAULT)
            kept = point if may_stay(compiled, point) else None
        result = replace(_allocation(compiled, point, began), entities=entities)
        if watched.numbers_only and all(_is_frozen(part) for part in self):
            return result, LastOptimum(kept, result, self)
        return result, LastOptimum(kept)

    def solve(self, instance: Instance, options: Options | None = None, start: Floats | None = None) -> Allocation:
        """Compile, optimise and certify; see :func:`hetopt.solve`.

        ``start``: (n, k) shares from which a method for an integer program may start its search.
        """
        began, options = time.perf_counter(), options or DEFAULT
        compiled = Compiled(self, self.entities(instance), lazy=options.method != "plain", start=start)
        point, exact = solve_compiled(compiled, options)
        return _allocation(compiled, point, began, exact)


@dataclass(frozen=True, eq=False)
class LastOptimum:
    """State of a formulation between calls.

    Attributes
    ----------
    point:
        The optimum of a linear program, whose duals may prove later optima; None where they cannot.
    result:
        The last result if it followed only from the numbers of its entities; None otherwise, and after pickling.
    formulation:
        That of the result.
    """

    point: Point | None = None
    result: Allocation | None = field(default=None, repr=False)
    formulation: Formulation | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave out :attr:`result`, which refers to a whole instance."""
        return {"point": self.point, "result": None, "formulation": None}


def _is_frozen(part: Component) -> bool:
    """Whether the fields of a component cannot be set."""
    parameters = getattr(type(part), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _allocation(compiled: Compiled, point: Point, began: float, exact: ExactOptimum | None = None) -> Allocation:
    """The shares of a point, with their certificate; ``began``: on the clock of :func:`time.perf_counter`."""
    certificate = certify(compiled, point, time.perf_counter() - began, exact)
    packed = compiled.packed(compiled.own_values(point.x))
    return Allocation(compiled.entities, np.maximum(point.share, 0.0), certificate, packed)


def _warn_if_large(compiled: Compiled) -> None:
    """Warn of a model whose rows in arrays have many terms."""
    rows, entries, lazy = 0, 0, Counter[str]()
    for name, own in compiled.arrays.items():
        for part in own.rows:
            rows += len(part)
            if isinstance(part, RowFamily):
                entries += len(part) * part.entries
                lazy[name] += len(part) * part.entries * part.lazy
            else:
                entries += sum(len(terms.row) for terms in part.terms)
    if entries > LARGE:
        less = f"{lazy.total():,} of the terms are of {', '.join(+lazy)}"
        remedy = f" {less}: build(instance, lazy=True) leaves them out." if lazy.total() else ""
        warnings.warn(
            f"the model will have {rows:,} rows with {entries:,} terms and take long to build, and longer to pass to a "
            f"solver; hetopt.solve works on arrays instead.{remedy}",
            LargeModel,
            stacklevel=3,
        )


def _mark_left_out(model: Model, compiled: Compiled) -> None:
    """Make every Pyomo solver and writer fail with a message that names the rows left out, if there are any."""
    left_out = Counter[str]()
    for name, family in compiled.pyomo_families:
        rows = model.component(name).component(family.name)
        if rows is None or len(rows) < len(family):
            left_out[name] += len(family)
    if not left_out:
        return
    set_attributes(model, left_out=tuple(left_out))
    text = ", ".join(f"{counted(count, 'row')} of {name}" for name, count in left_out.items())
    why = f"{text} are left out (lazy=True): use hetopt.from_pyomo, hetopt.solve, or build(instance)"
    # A parameter without a value: evaluating it raises an error that contains its index.
    model.missing = pyo.Param([why], mutable=True, doc="placeholder for rows that are left out")
    model.rows_left_out = pyo.Constraint(expr=model.share_grid[0][0] <= model.missing[why], doc=why)
