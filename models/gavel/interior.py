"""Gavel's policies and the equal-budget market by interior points: exact, with bounds proven by weak duality.

Linear policies over few entities are left to simplex, whose vertex uses few GPU types per job; where the proof of an
interior point fails, the general road is taken for them. What an interior point finds is the middle of all optima.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Entities, Floats
from hetopt.models import interior
from hetopt.models.concave import Concave
from hetopt.models.gavel.arrays import Least, least_program, time_program
from hetopt.models.gavel.finish_time import FinishTime, progress
from hetopt.models.gavel.parts import TimeFraction
from hetopt.models.slacks import State
from hetopt.programs.compiling import from_pyomo
from hetopt.programs.formulation import Component, Formulation
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.point import Point
from hetopt.solving.road import lazy_rows, optimise
from hetopt.tolerances import FINE, PROVEN, scale

FEW = 64
"""Up to so many entities simplex takes milliseconds, and its vertex is the tidier answer to a linear program."""


def solve_profit(entities: Entities, profit: Floats, options: Options) -> Point:
    """Maximise ``profit`` (n, k) under capacity and, for jobs, time."""
    program, size = time_program(entities, profit), scale(profit)
    work = _Work(entities)
    if len(profit) <= FEW or not work.has_place.all() or entities.kind == "tenants":
        return optimise(program, options)
    point = work.point(program, lambda x: float((profit * x).sum()), size, profit=work.table(profit / size))
    return point if point.status == "optimal" else optimise(program, options)


def solve_least(entities: Entities, least: Least, options: Options) -> Point:
    """Maximise the level of ``least`` under capacity and, for jobs, time."""
    program, grows = least_program(entities, least), least.growth > 0
    work = _Work(entities)
    if not work.has_place.all():
        return optimise(program, options)
    alike, own, counts, n = _alike(entities, least), least, grows, len(grows)
    if len(alike.first) <= (n // 2 if n <= FEW else FEW):
        return _by_classes(entities, least, alike, program, options)
    if n <= FEW:
        return optimise(program, options)
    if len(alike.first) < len(grows):
        own = Least(least.table[alike.first], least.growth[alike.first], least.name)
        work, grows = _Work(entities, alike.first, alike), own.growth > 0
    # The unit of t: the level of the first shares.
    rate = own.table @ work.first_shares()
    unit = float((rate[grows] / own.growth[grows]).min())
    growth, none = own.growth * unit, np.zeros(len(grows))

    def floor(t: float) -> tuple[Floats, Floats, Floats]:
        return growth * t, growth, none

    def level(x: Floats) -> float:
        return float((np.einsum("ek,ek->e", least.table, x)[counts] / least.growth[counts]).min())

    point = work.point(program, level, unit, speed=work.table(own.table), floor=floor, start=0.5)
    return point if point.status == "optimal" else optimise(program, options)


def _by_classes(entities: Entities, least: Least, alike: _Alike, program: LinearProgram, options: Options) -> Point:
    """:func:`solve_least` by simplex, with one entity for each class: it takes the GPUs of them all."""
    began, first, part = time.perf_counter(), alike.first, 1.0 / alike.number
    classes = Entities(
        entities.kind,
        tuple(entities.names[e] for e in first.tolist()),
        entities.types,
        entities.speed[first],
        entities.demand[first] * alike.number,
        entities.weight[first],
        entities.owner[first],
        entities.capacity,
        None,
    )
    own = least_program(classes, Least(least.table[first], least.growth[first], least.name))
    # Nobody having anything is feasible, so primal simplex starts there: few steps, where dual simplex takes many.
    x, dual, objective = Session(own, options, presolve=False, primal=True).values()
    k = len(entities.types)
    rows = [dual[:k], *((block * part)[alike.of] for block in dual[k:].reshape(-1, len(first)))]
    return Point(
        program,
        np.append(x[:-1].reshape(classes.shape)[alike.of].ravel(), x[-1]),
        objective=objective,
        bound=objective,
        status="optimal",
        row_dual=np.concatenate(rows),
        seconds=time.perf_counter() - began,
        method="simplex over classes",
    )


def solve_finish_time(entities: Entities, options: Options) -> Point:
    """Minimise the largest rho under capacity and time; t is minus rho."""
    jobs = progress(entities)
    if not len(jobs.who):
        return optimise(time_program(entities), options)
    work = _Work(entities, jobs.who)

    def floor(t: float) -> tuple[Floats, Floats, Floats]:
        room = -t - jobs.late
        return jobs.own / room, jobs.own / room**2, 2.0 * jobs.own / room**3

    def minus_rho(x: Floats) -> float:
        return -float(jobs.rho(entities.rate(x)[jobs.who] / jobs.unit).max())

    table = entities.speed[jobs.who] / jobs.unit[:, None]
    start = -float(jobs.rho(0.5 * (table @ work.first_shares())).max())
    what: dict[str, Any] = {"speed": work.table(table), "floor": floor, "start": start, "most": -float(jobs.late.max())}
    point = work.point(time_program(entities), minus_rho, 1.0, 0.0, **what)
    return point if _close(point, options) else _by_tangents(FinishTime(), entities, options)


def solve_concave(component: Concave, entities: Entities, options: Options) -> Point:
    """The specialist for ``component`` and ``TimeFraction``."""
    terms = component.terms(entities)
    if not len(terms.who):
        return optimise(time_program(entities), options)
    work, size = _Work(entities, terms.who), scale(terms.size)
    table = entities.speed[terms.who] / terms.unit[:, None]
    what: dict[str, Any] = {"speed": work.table(table), "gain": _Curve(component, terms.size / size)}

    def gain(x: Floats) -> float:
        return component.measure(entities, x).gain

    point = work.point(time_program(entities), gain, size, terms.constant, **what)
    return point if _close(point, options) else _by_tangents(component, entities, options)


def _close(point: Point, options: Options) -> bool:
    """Whether the bound proves ``point`` as well as was asked for."""
    return point.status == "optimal" or point.bound - point.objective <= options.gap * scale(point.bound)


def _by_tangents(component: Component, entities: Entities, options: Options) -> Point:
    """The general road for ``component`` and ``TimeFraction``."""
    formulation = Formulation((component, TimeFraction()), kind=entities.kind)
    program = from_pyomo(formulation.build(entities.source))
    return optimise(program, options, lazy_rows(formulation, entities))


@dataclass(frozen=True, eq=False)
class _Curve:
    """size * shape(y), as interior points want it."""

    component: Concave
    size: Floats

    def value(self, y: Floats) -> Floats:
        return self.size * self.component.shape.value(y)

    def slope(self, y: Floats) -> Floats:
        return self.size * self.component.shape.slope(y)

    def curvature(self, y: Floats) -> Floats:
        return self.size * self.component.shape.curvature(y)

    def at_slope(self, u: Floats) -> Floats:
        return self.component.shape.at_slope(u / self.size)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Entities that the program does not tell apart: by symmetry they may all have the same share.

    Attributes
    ----------
    first:
        (c,) one entity of each class.
    of:
        (n,) class of each entity.
    number:
        (c,) how many there are.
    """

    first: NDArray[np.intp]
    of: NDArray[np.intp]
    number: Floats


def _alike(entities: Entities, least: Least) -> _Alike:
    rows = np.column_stack([least.table, least.growth, entities.demand, entities.allowed])
    # Rows as bytes: numpy sorts these much sooner than rows of numbers.
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, of, number = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return _Alike(first, of, number.astype(float))


@dataclass(eq=False)
class _Work:
    """One solve over the entities ``who`` (or a class of them each) and the GPU types of which there are any."""

    entities: Entities
    who: NDArray[np.intp] | None = None
    alike: _Alike | None = None
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.usable = self.entities.capacity > 0
        if self.who is None:
            self.who = np.arange(len(self.entities.names))
        self.demand = self.entities.demand[self.who]
        if self.alike is not None:
            self.demand = self.demand * self.alike.number
        self.capacity = self.entities.capacity[self.usable]
        self.timed = self.entities.kind == "jobs"

    @property
    def has_place(self) -> NDArray[np.bool_]:
        """(n,) whether an entity can run on some GPU type of which there are any."""
        return np.asarray((self.entities.allowed & self.usable).any(axis=1))

    def table(self, values: Floats) -> Floats:
        """``values`` of ``who`` by GPU type, as :mod:`hetopt.models.interior` wants them: (k, n)."""
        return np.ascontiguousarray(values[:, self.usable].T)

    def first_shares(self) -> Floats:
        """(k,) the shares that everybody has at first."""
        shares = np.zeros(len(self.usable))
        shares[self.usable] = interior.centre(self.capacity, self.demand, self.timed)
        return shares

    def point(
        self,
        program: LinearProgram,
        objective: Callable[[Floats], float],
        size: float,
        constant: float = 0.0,
        **what: Any,
    ) -> Point:
        """Solve for ``what`` (fields of :class:`interior.Program`), whose objective is in units of ``size``."""
        what.setdefault("speed", what.get("profit"))
        problem = interior.Program(demand=self.demand, capacity=self.capacity, timed=self.timed, **what)
        state, steps = interior.solve(problem)
        x = self._shares(state.x)
        reached, bound = objective(x), size * interior.bound(problem, state) + constant
        # A gain may be nearly 0 by the choice of its units; what GPUs and time are worth is not.
        worth = size * (float(state.price @ self.capacity) + float(state.v.sum()))
        has_level = len(program.c) > x.size
        return Point(
            program,
            np.append(x.ravel(), reached) if has_level else x.ravel(),
            objective=reached,
            bound=bound,
            status="optimal" if bound - reached <= PROVEN * scale(bound, worth) else "gap",
            row_dual=self._duals(state, size, has_level),
            seconds=time.perf_counter() - self.began,
            method="interior points",
            iterations=steps,
        )

    def _shares(self, found: Floats) -> Floats:
        """(n, k) shares without traces of what is zero; no row is exceeded, and tenants leave nothing idle."""
        entities = self.entities
        kept = np.where(found > FINE * found.max(axis=0), found, 0.0).T
        x = np.zeros(entities.shape)
        if self.alike is not None:
            kept, who = kept[self.alike.of], np.arange(len(x))
        else:
            assert self.who is not None
            who = self.who
        x[np.ix_(who, self.usable)] = kept
        x[~entities.allowed] = 0.0
        if self.timed:
            x /= np.maximum(x.sum(axis=1, keepdims=True), 1.0)
        used = entities.demand @ x
        fits = np.divide(entities.capacity, used, out=np.ones_like(used), where=used > 0)
        return np.asarray(x * (np.minimum(fits, 1.0) if self.timed else fits))

    def _duals(self, state: State, size: float, has_level: bool) -> Floats:
        """Duals of the rows: capacity, then least rates where there is a level, then time."""
        n = len(self.entities.names)
        price = np.zeros(len(self.usable))
        price[self.usable] = state.price
        u, v = np.zeros(n), np.zeros(n)
        if self.alike is not None:  # the row of a class stands for those of all its members
            part = 1.0 / self.alike.number
            u, v = (state.u * part)[self.alike.of], (state.v * part)[self.alike.of]
        else:
            u[self.who], v[self.who] = state.u, state.v
        parts = [price, *([-u] if has_level else []), *([v] if self.timed else [])]
        return size * np.concatenate(parts)
