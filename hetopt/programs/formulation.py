"""Formulations: an ordered set of components that together make a Pyomo model.

A component is one idea of a paper (an objective, a fairness rule, a cost) and the rows that state it.
Components know nothing of each other; they meet in the shared variables of the :class:`Model`:

``model.share[e, k]``
    tenants: GPUs of type k for entity e; jobs: part of the time (or, in a binary round, whether) the gang runs on k
``model.rate[e]``
    expression sum_k speed[e, k] * share[e, k]
``model.gpus[e, k]``
    expression demand[e] * share[e, k]
``model.capacity[k]``
    rows sum_e gpus[e, k] <= m_k
``model.entities``
    the numbers, as arrays
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyomo.environ as pyo
from numpy.typing import ArrayLike
from pyomo.common.gc_manager import PauseGC
from pyomo.core.expr import LinearExpression

from hetopt.data.entities import Entities, Floats, Kind, check_kind
from hetopt.data.present import present_entities
from hetopt.errors import InvalidFormulation
from hetopt.programs.rows import ExactRow, Rows

if TYPE_CHECKING:
    from hetopt.allocation import Allocation
    from hetopt.data.instance import Instance
    from hetopt.programs.linear import LinearProgram
    from hetopt.solving.options import Options
    from hetopt.solving.point import Point

Expression: TypeAlias = Any
"""A Pyomo expression or a number (Pyomo is not typed)."""

Block: TypeAlias = Any
"""A Pyomo block."""


@runtime_checkable
class Component(Protocol):
    """One part of a formulation.

    Besides ``name`` and ``add`` a component may have any of

    ``binary: bool``
        True if every share must be 0 or 1 (a per-round program).
    ``priority: int``
        Level of its gain, default 0. Gains of a higher level are maximised first, and kept.
    ``kind: "tenants" | "jobs"``
        What it speaks about, if only one makes sense.
    :class:`Measured`, :class:`Lazy`
        Further methods, see there.
    """

    @property
    def name(self) -> str:
        """Name of its block in the model: ``model.<name>``."""
        ...

    def add(self, block: Block, model: Model) -> Expression:
        """Declare own variables and rows on the empty sub-``block``; return the gain (added up and maximised)."""
        ...


@dataclass(frozen=True)
class Measure:
    """What a component says of a given share, computed from the arrays alone.

    Attributes
    ----------
    gain:
        What it adds to the objective.
    violation:
        Largest violation of its rows, relative to their scale (no unit); 0 if it has none.
    size:
        What gaps in the gain are relative to where the gain itself may be near 0 by the choice of units (logarithms
        are); 0 where it cannot.
    """

    gain: float = 0.0
    violation: float = 0.0
    size: float = 0.0


@runtime_checkable
class Measured(Protocol):
    """A component that can judge a share without the model; the certificate rests on it."""

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """Gain and largest violation at an (n, k) ``share``."""
        ...


@runtime_checkable
class Lazy(Protocol):
    """A component with too many rows to state: it adds those that a point violates."""

    def violated(self, entities: Entities, point: Point) -> Rows:
        """Rows that ``point`` violates; none when it satisfies the component."""
        ...


@runtime_checkable
class Stated(Protocol):
    """A lazy component that can also state all of its rows: for exact optima, files, and ``method="plain"``."""

    def every_row(self, entities: Entities) -> Rows:
        """All rows that ``add`` leaves out; none where ``add`` has stated them."""
        ...


@runtime_checkable
class Rational(Protocol):
    """A component whose coefficients are products of the instance's numbers: it states them without rounding, too."""

    def exact_rows(self, entities: Entities, names: Collection[str]) -> Mapping[str, ExactRow]:
        """Those rows of the component that are named in ``names``."""
        ...


class Model(pyo.ConcreteModel):  # type: ignore[misc]
    """A Pyomo model with the shared variables; see the module's docstring."""

    entities: Entities
    instance: Instance

    def weighted_shares(self, coefficients: ArrayLike) -> Expression:
        """The linear expression sum_ek coefficients[e, k] * share[e, k] (zero entries left out)."""
        table = np.broadcast_to(np.asarray(coefficients, dtype=float), self.entities.shape)
        rows, columns = np.nonzero(table)
        grid = self.share_grid
        variables = [grid[e][k] for e, k in zip(rows.tolist(), columns.tolist(), strict=True)]
        return LinearExpression(constant=0, linear_coefs=table[rows, columns].tolist(), linear_vars=variables)

    def weighted_row(self, e: int, coefficients: ArrayLike) -> Expression:
        """The linear expression sum_k coefficients[k] * share[e, k] of one entity."""
        numbers = np.asarray(coefficients, dtype=float)
        return LinearExpression(constant=0, linear_coefs=numbers.tolist(), linear_vars=self.share_grid[e])


@dataclass(frozen=True)
class Formulation:
    """Ordered components; also a policy without memory: ``formulation(instance) -> (Allocation, None)``.

    Parameters
    ----------
    components:
        The parts, in the order in which they are added.
    kind:
        Whether shares go to ``"tenants"`` or ``"jobs"``; None: as the components say, else tenants where there
        are any.
    compile:
        Array road: makes the same program without Pyomo, from the entities of either kind. Dropped when components
        change.
    specialist:
        A method for exactly this program that is faster than a general solver. Dropped when components change.
    title:
        Shown in tables and reports.

    Examples
    --------
    >>> from hetopt.models import oef, switching
    >>> (oef.cooperative() + switching.SwitchingCost(0.5)).names
    ('total_rate', 'envy_free', 'switching_cost')
    """

    components: tuple[Component, ...]
    kind: Kind | None = None
    compile: Callable[[Entities], LinearProgram] | None = field(default=None, compare=False, repr=False)
    specialist: Callable[[Entities, Options], Point] | None = field(default=None, compare=False, repr=False)
    title: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.components, Iterable):
            raise InvalidFormulation(f"components is {self.components!r}; it must be a sequence of components")
        object.__setattr__(self, "components", tuple(self.components))
        for part in self.components:
            if isinstance(part, type):
                raise InvalidFormulation(f"{part.__name__} is a class; add one of it: {part.__name__}()")
            if not isinstance(part, Component):
                raise InvalidFormulation(f"{part!r} is not a component: it needs a name and a method add(block, model)")
            if not part.name.isidentifier() or part.name in RESERVED:
                taken = ", ".join(sorted(RESERVED))
                raise InvalidFormulation(
                    f"component name {part.name!r} cannot be used; choose an identifier other than {taken}"
                )
        seen: dict[str, Component] = {}
        for part in self.components:
            if part.name in seen:
                raise InvalidFormulation(
                    f"two components are named {part.name!r}: {seen[part.name]!r} and {part!r}; "
                    f"remove one with .without({part.name!r}) or give it another name"
                )
            seen[part.name] = part
        self._common_kind()

    def _common_kind(self) -> Kind | None:
        kinds: dict[str, Component] = {}
        for part in self.components:
            wanted = getattr(part, "kind", None)
            check_kind(f"{part.name}.kind", wanted)
            if wanted is not None:
                kinds.setdefault(wanted, part)
        if len(kinds) > 1:
            a, b = kinds["tenants"], kinds["jobs"]
            raise InvalidFormulation(
                f"{a.name!r} is about tenants and {b.name!r} about jobs; remove one of them with .without(name)"
            )
        own = next(iter(kinds), None)
        check_kind("Formulation.kind", self.kind)
        if own is not None and self.kind is not None and own != self.kind:
            raise InvalidFormulation(f"{kinds[own].name!r} is about {own}, but the formulation is set to {self.kind}")
        return self.kind if self.kind is not None else own  # type: ignore[return-value]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components, in order."""
        return tuple(part.name for part in self.components)

    @property
    def binary(self) -> bool:
        """True if some component makes every share 0 or 1."""
        return any(getattr(part, "binary", False) for part in self.components)

    def __iter__(self) -> Iterator[Component]:
        return iter(self.components)

    def __getitem__(self, name: str) -> Component:
        for part in self.components:
            if part.name == name:
                return part
        raise InvalidFormulation(f"there is no component {name!r}; this formulation has {', '.join(self.names)}")

    def __add__(self, other: Component | Formulation) -> Formulation:
        """This formulation with one more component, or with those of another formulation."""
        more: Sequence[Component] = other.components if isinstance(other, Formulation) else (other,)
        return self._with((*self.components, *more))

    def __radd__(self, other: Component) -> Formulation:
        """The same: ``component + formulation``."""
        return self._with((other, *self.components))

    def without(self, name: str) -> Formulation:
        """This formulation without the component of that name."""
        gone = self[name]
        return self._with(tuple(part for part in self.components if part is not gone))

    def replaced(self, component: Component) -> Formulation:
        """This formulation with the component of the same name exchanged for ``component``."""
        old = self[component.name]
        return self._with(tuple(component if part is old else part for part in self.components))

    def _with(self, components: tuple[Component, ...]) -> Formulation:
        title = f"{self.title} (changed)" if self.title and not self.title.endswith("(changed)") else self.title
        return replace(self, components=components, compile=None, specialist=None, title=title)

    def entities(self, instance: Instance) -> Entities:
        """The rows and columns of the share that this formulation decides on.

        Raises
        ------
        InvalidInstance
            There is none; a job that arrives later than the instance's time (:meth:`hetopt.Instance.at` leaves such
            jobs out); or a job whose gang is too large for every GPU type that can run it, while a share is of one
            type. (Who can run only on types without GPUs now, say because servers are drained, just gets none.)
        """
        return present_entities(instance, self._common_kind(), self.title or "the formulation")

    def build(self, instance: Instance) -> Model:
        """The Pyomo model; the readable road.

        Returns
        -------
        Model
            With ``model.objective``, to be maximised, of the components of ``model.priority``. Where components have
            several priorities, ``model.earlier`` lists (priority, objective) to be maximised (and kept) before it,
            first things first.

        Raises
        ------
        InvalidFormulation
            No component contributes to the objective, or a component refuses the instance.
        """
        with PauseGC():
            model = _shared(instance, self.entities(instance), self.binary)
            gains: dict[int, list[Expression]] = {}
            for part in self.components:
                block = pyo.Block(concrete=True)
                model.add_component(part.name, block)
                gain = part.add(block, model)
                if gain is None:
                    raise InvalidFormulation(
                        f"{part.name!r}: add(block, model) returned None; return the gain, 0 if it has rows alone"
                    )
                if not (isinstance(gain, int | float) and gain == 0):
                    gains.setdefault(getattr(part, "priority", 0), []).append(gain)
            _objectives(model, gains)
        return model

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        """Solve with default options: a formulation is a policy without memory."""
        from hetopt.solving.road import solve_formulation

        return solve_formulation(self, instance), None


RESERVED = frozenset(
    {"share", "rate", "gpus", "capacity", "entities", "instance", "objective", "earlier", "priority"}
    | {"E", "K", "share_grid"}
)


class _GPUs:
    """``model.gpus[e, k]``: the expression demand[e] * share[e, k], made when asked for."""

    def __init__(self, share: Any, entities: Entities) -> None:
        self._share, self._demand = share, dict(zip(entities.names, entities.demand.tolist(), strict=True))

    def __getitem__(self, key: tuple[str, str]) -> Expression:
        return self._demand[key[0]] * self._share[key]


def _shared(instance: Instance, entities: Entities, binary: bool) -> Model:
    """The model with shares, rates and capacity rows, before any component."""
    model = Model(name=instance.name or "hetopt")
    object.__setattr__(model, "entities", entities)
    object.__setattr__(model, "instance", instance)
    model.E = pyo.Set(initialize=list(entities.names), ordered=True)
    model.K = pyo.Set(initialize=list(entities.types), ordered=True)
    domain = pyo.Binary if binary else pyo.NonNegativeReals
    model.share = pyo.Var(model.E, model.K, domain=domain)
    grid = [[model.share[e, k] for k in entities.types] for e in entities.names]
    for e, k in np.argwhere(~entities.allowed).tolist():
        grid[e][k].setub(0)
    object.__setattr__(model, "share_grid", grid)
    object.__setattr__(model, "gpus", _GPUs(model.share, entities))
    speed = entities.speed
    model.rate = pyo.Expression(
        model.E, initialize={e: model.weighted_row(i, speed[i]) for i, e in enumerate(entities.names)}
    )
    demand = entities.demand.tolist()
    model.capacity = pyo.Constraint(model.K)
    for k, name in enumerate(entities.types):
        used = LinearExpression(constant=0, linear_coefs=demand, linear_vars=[row[k] for row in grid])
        model.capacity[name] = (None, used, float(entities.capacity[k]))
    return model


def _objectives(model: Model, gains: dict[int, list[Expression]]) -> None:
    if not gains:
        raise InvalidFormulation(
            "no component adds anything to the objective; add one that does, e.g. hetopt.models.objectives.TotalRate()"
        )
    stages = [(level, sum(gains[level][1:], gains[level][0])) for level in sorted(gains, reverse=True)]
    object.__setattr__(model, "earlier", tuple(stages[:-1]))
    object.__setattr__(model, "priority", stages[-1][0])
    model.objective = pyo.Objective(expr=stages[-1][1], sense=pyo.maximize)


def components_of(formulation: Formulation, protocol: type[Any]) -> list[Any]:
    """The components that also satisfy ``protocol`` (:class:`Measured` or :class:`Lazy`), in order."""
    return [part for part in formulation.components if isinstance(part, protocol)]
