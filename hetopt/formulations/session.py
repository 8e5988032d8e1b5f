"""Repeated solves of a formulation for changing data, warm-started from the last optimum."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetopt.checks import LEAST, MOST, choices, expect, is_real, known, shown
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.workload import slowest_of_rows, warn_of_scale
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Basis, LinearProgram, Point
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.highs import Session
from hetopt.solving.optimising import method_for, optimise
from hetopt.solving.options import DEFAULT, Options
from hetopt.tolerances import EQUAL

WARM_COLUMNS = 4_000
"""Number of columns up to which a warm start is preferred to a method by structure. Both take the same time at 4,000
columns of non-cooperative OEF, 4,500 of max-min fairness, and 800 of cooperative OEF, where they differ little."""


class FormulationSession:
    """A formulation that is solved for one instance after another.

    HiGHS stays alive between solves and starts from the last basis; lazy rows are kept. Programs with integer columns
    or several priorities are solved from scratch each time. Methods by structure
    (:class:`~hetopt.solving.optimising.Method`) solve concave programs and programs of more than :data:`WARM_COLUMNS`
    columns, for which they are faster than a warm start, unless row bounds were set.

    Parameters
    ----------
    formulation:
        The formulation to solve.
    instance:
        The initial data.
    options:
        Options of the solver, which must be HiGHS; ``exact`` is only for :func:`hetopt.solve`.
    warm:
        Start from the last basis, without presolve; worthwhile if changes are small. False: cold start.

    Raises
    ------
    InvalidOption
        Another solver, or ``exact``.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> session = hetopt.FormulationSession(oef.cooperative(), inst)
    >>> session.solve().certificate.objective
    5.25
    >>> session.change(capacity=[2, 1])
    >>> session.solve().certificate.objective
    7.0
    """

    def __init__(
        self, formulation: Formulation, instance: Instance, options: Options | None = None, *, warm: bool = True
    ) -> None:
        self.formulation = expect(Formulation, formulation, "formulation", InvalidOption)
        self.options, self.warm = options or DEFAULT, warm
        if self.options.solver != "highs" or self.options.exact:
            raise InvalidOption(
                f"is {self.options.solver!r} and exact is {self.options.exact}; a session keeps HiGHS alive, in floats",
                "solver",
            )
        self._bounds: dict[str, tuple[float | None, float | None]] = {}
        self._session: Session | None = None
        self._basis: tuple[Basis, int] | None = None  # and its number of rows
        self._lazy_rows: list[NDArray[np.intp]] = []  # per family, the positions of the rows in the program
        self._set_instance(instance)

    @property
    def entities(self) -> Entities:
        """The current entities, with all changes."""
        return self._compiled.entities

    def _set_instance(self, instance: Instance) -> None:
        before = getattr(self, "_compiled", None)
        entities = self.formulation.entities(instance)
        if before is not None and (before.entities.names, before.entities.types) != (entities.names, entities.types):
            self._basis, self._lazy_rows = None, []
        self._compiled = self._compile(entities)
        for name in self._bounds.keys() - set(self._compiled.settable if self._bounds else ()):
            raise InvalidInstance(f"the row {name!r}, whose bounds were set, does not exist for this instance")

    def _compile(self, entities: Entities) -> Compiled:
        return Compiled(self.formulation, entities, lazy=self.options.method != "plain", bounds=self._bounds)

    def change(
        self,
        *,
        speed: ArrayLike | None = None,
        capacity: ArrayLike | Mapping[str, float] | None = None,
        weight: ArrayLike | None = None,
    ) -> None:
        """Change numbers of the same entities, from the next :meth:`solve` on.

        Parameters
        ----------
        speed:
            (n, k), in the unit of :class:`~hetopt.data.entities.Entities`.
        capacity:
            (k,) GPUs of each type, or GPU type -> GPUs for only those that change.
        weight:
            (n,) positive.

        Raises
        ------
        InvalidInstance
            A wrong shape, a negative number, a weight of 0, or a speed of 0 on every type; then nothing changes.

        Warns
        -----
        SuspiciousSpeedups
            Speedups of tenants that began at 1 no longer do, as if they were throughputs.
        """
        old, new = self._compiled.entities, dict[str, Any]()
        if isinstance(capacity, Mapping):
            counts = dict(zip(old.types, old.capacity.tolist(), strict=True))
            for name, count in capacity.items():
                counts[known(name, old.types, "capacity", "GPU type")] = count
            capacity = list(counts.values())
        for key, values in (("speed", speed), ("capacity", capacity), ("weight", weight)):
            if values is not None:
                new[key] = _numbers(values, getattr(old, key).shape, key, positive=key == "weight")
        for e in np.flatnonzero(~new["speed"].any(axis=1)).tolist() if "speed" in new else ():
            raise InvalidInstance(f"speed of {old.names[e]!r} is 0 on every GPU type; it must run on one at least")
        if old.kind == "tenants" and "speed" in new:
            begin_at_one = np.abs(slowest_of_rows(old.speed) - 1.0) <= EQUAL
            smallest = np.where(begin_at_one, slowest_of_rows(new["speed"]), 1.0)
            warn_of_scale(
                smallest, lambda e: f"speed of {old.names[e]!r}", "divide each row by its smallest entry above 0"
            )
        if old.kind == "jobs":  # a gang cannot run on a type that has fewer GPUs
            new["any_type"] = new.get("speed", old.task_speed)
            fits = old.demand[:, None] <= new.get("capacity", old.capacity)
            new["speed"] = np.where(fits, new["any_type"], 0.0)
        self._compiled = self._compile(replace(old, **new))

    def set_row(self, name: str, lower: float | None = None, upper: float | None = None) -> None:
        """Set the bounds of the row ``name`` of a component, in the unit of the model.

        None: the bound of the formulation. Numbers of GPUs are set with :meth:`change`.

        Raises
        ------
        InvalidOption
            The row does not exist or belongs to a row family (envy); a bound is not a number.
        """
        for key, value in (("lower", lower), ("upper", upper)):
            if value is not None and (not is_real(type(value)) or np.isnan(value)):
                raise InvalidOption(f"is {shown(value)}; it must be a number, inf or -inf for none, or None", key)
        if name not in (names := self._compiled.settable):
            raise InvalidOption(f"there is no row {name!r} that can be set; {choices(name, names)}")
        self._bounds = {**self._bounds, name: (lower, upper)}
        self._compiled = self._compile(self.entities)

    @property
    def program(self) -> LinearProgram:
        """The program with all changes, without the lazy rows of the next solve."""
        return self._compiled.program

    def solve(self, instance: Instance | None = None) -> Allocation:
        """The optimum for the next ``instance``, or for the current data.

        Raises
        ------
        NotSolved
            No usable solution.
        """
        began, before = time.perf_counter(), self._compiled
        try:
            return self._solved(instance, began)
        except Exception:
            self._compiled = before  # discard an instance without a solution
            raise

    def _solved(self, instance: Instance | None, began: float) -> Allocation:
        if instance is not None:
            self._set_instance(instance)
        compiled, options = self._compiled, self.options.started()
        program = compiled.program
        warm_is_slower = (compiled.curved or compiled.width > WARM_COLUMNS) and not self._bounds
        method = method_for(compiled, options) if warm_is_slower else None
        if method is not None:
            self._basis, point = None, method.solve(compiled, options)
        elif program.earlier or program.integer.any():
            point = optimise(program, options, compiled.separation())
        else:
            point = self._solve_warm(compiled, program, options)
        share = np.maximum(point.share, 0.0)
        return Allocation(compiled.entities, share, certify(compiled, point, time.perf_counter() - began))

    def _solve_warm(self, compiled: Compiled, program: LinearProgram, options: Options) -> Point:
        entered = zip(compiled.lazy_families, self._lazy_rows, strict=False)
        stated = [(name, family.make(at)) for (name, family), at in entered]
        program = program.with_rows(compiled.cuts(stated)) if stated else program
        if self._session is None:
            self._session = Session(program.scaled(), options)
        else:
            self._session.options = options
            self._session.load(program.scaled())
        if self.warm and self._basis is not None:
            basis, rows = self._basis
            self._session.start_at(basis if rows == program.shape[0] else basis.extended(program.shape[0]))
        separation = compiled.separation()
        point = optimise(program, options, separation, session=self._session)
        self._basis = None if point.basis is None else (point.basis, point.program.shape[0])
        if separation is not None:
            before = self._lazy_rows or [at[:0] for at in separation.added]
            # A row that a point violates within the solver's tolerance is separated again.
            pairs = zip(before, separation.added, strict=True)
            self._lazy_rows = [np.concatenate([old, new[~np.isin(new, old)]]) for old, new in pairs]
        return point


def _numbers(values: Any, shape: tuple[int, ...], key: str, *, positive: bool) -> Floats:
    entries = np.asarray(values, dtype=object)
    if not all(is_real(type(v)) for v in entries.ravel().tolist()):
        raise InvalidInstance(f"is not a table of numbers (True and text are not); it must have shape {shape}", key)
    table = entries.astype(float)
    if table.shape != shape:
        raise InvalidInstance(f"has shape {table.shape}; it must be {shape}", key)
    fits = (table >= LEAST) & (table <= MOST) | ((table == 0) & (not positive))
    if not fits.all():
        least = f"from {LEAST:g} to {MOST:g}" + ("" if positive else ", or 0")
        raise InvalidInstance(f"has {table[~fits][0]:g}; it must be {least}", key)
    return table
