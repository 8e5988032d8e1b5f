"""Gavel's policies and the equal-budget market by an interior-point method, with bounds proven by weak duality.

Linear policies over few entities are solved by simplex, whose vertex uses few GPU types per job. If the proof of an
interior point fails, a general solver is used. Interior-point solutions lie in the middle of the optimal face.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.models import interior_point
from hetopt.models.concave import AlphaFair, CompletionTime, Concave, LogRate
from hetopt.models.gavel.gavel_components import (
    FinishTime,
    InOrder,
    LeastRatio,
    SoonestEnd,
    TimeFraction,
)
from hetopt.models.interior_point import Iterate
from hetopt.models.objectives import LinearGain, WeightedRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point
from hetopt.programs.model import Component
from hetopt.solving.highs import Session
from hetopt.solving.optimising import Method, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import FINE, PROVEN, scale

FEW = 64
"""Up to this number of entities simplex takes milliseconds, and its vertex is a sparser solution."""


@dataclass(frozen=True, eq=False)
class MaxMinRows:
    """The rows ``table[e] @ share[e] >= growth[e] * level``, each divided by ``size[e]``."""

    table: Floats
    growth: Floats
    size: Floats

    @classmethod
    def of(cls, part: LeastRatio | SoonestEnd, entities: Entities) -> MaxMinRows:
        """The rows of a component."""
        base = part.base(entities)
        size = part.sizes(entities, base)
        return cls(entities.speed / size[:, None], base / size, size)


def solve_profit(compiled: Compiled, part: LinearGain, options: Options) -> Point:
    """Maximise a linear gain under capacity and, for jobs, time."""
    entities, profit = compiled.entities, part.coefficients(compiled.entities)
    program, size = compiled.program, scale(profit)
    placed = np.flatnonzero(_has_place(entities))
    if len(placed) <= FEW:
        return optimise(program, options)
    if entities.kind == "tenants":
        return _to_the_most_profitable(compiled, np.asarray(profit))
    work = _Work(compiled, options, placed)
    point = work.point(program, lambda x: float((profit * x).sum()), size, profit=work.table(profit[placed] / size))
    return point if point.status == "optimal" else optimise(program, options)


def _to_the_most_profitable(compiled: Compiled, profit: Floats) -> Point:
    """:func:`solve_profit` without time rows: all GPUs of a type go to the (first) entity that earns most with one."""
    began, entities = time.perf_counter(), compiled.entities
    per_gpu = profit / entities.demand[:, None]
    best, price = per_gpu.argmax(axis=0), np.maximum(per_gpu.max(axis=0), 0.0)
    x, types = np.zeros(entities.shape), np.flatnonzero(price > 0)
    x[best[types], types] = entities.capacity[types] / entities.demand[best[types]]
    return Point(
        compiled.program,
        x.ravel(),
        objective=float((profit * x).sum()),
        bound=float(price @ entities.capacity),
        status="optimal",
        row_dual=price,
        seconds=time.perf_counter() - began,
        method="most profitable",
    )


def solve_least(compiled: Compiled, part: LeastRatio | SoonestEnd, options: Options) -> Point:
    """Maximise the least ratio of rates under capacity and, for jobs, time."""
    program, n = compiled.program, len(compiled.entities.names)
    least = MaxMinRows.of(part, compiled.entities)
    alike = _alike(compiled.entities, least)
    if not (least.growth > 0).any():
        return optimise(program, options)
    if len(alike.first) <= (n // 2 if n <= FEW else FEW):
        point = _by_classes(compiled, part, least, alike, options)
    elif n <= FEW:
        return optimise(program, options)
    else:
        point = None
    if point is None or point.status != "optimal":
        point = _by_interior_points(compiled, part, least, alike, options)
    return point if point.status == "optimal" else optimise(program, options)


def _by_interior_points(
    compiled: Compiled, part: LeastRatio | SoonestEnd, least: MaxMinRows, alike: _Alike, options: Options
) -> Point:
    """:func:`solve_least` over one entity for each class, and without those that no available type can run."""
    work = _Work(compiled, options, alike=alike, least=(part.name, least))
    first, counts = work.active, least.growth > 0
    table, growth = least.table[first], least.growth[first]
    # The unit of t: the level at the initial shares.
    grows, rate = growth > 0, table @ work.first_shares()
    unit = float((rate[grows] / growth[grows]).min())
    growth, none = growth * unit, np.zeros(len(growth))

    def floor(t: float) -> tuple[Floats, Floats, Floats]:
        return growth * t, growth, none

    def level(x: Floats) -> float:
        return float((np.einsum("ek,ek->e", least.table, x)[counts] / least.growth[counts]).min())

    return work.point(compiled.program, level, unit, speed=work.table(table), floor=floor, start=0.5)


def _by_classes(
    compiled: Compiled, part: LeastRatio | SoonestEnd, least: MaxMinRows, alike: _Alike, options: Options
) -> Point:
    """:func:`solve_least` by simplex, with one entity for each class, which takes the GPUs of all members."""
    began, first, each = time.perf_counter(), alike.first, 1.0 / alike.number
    entities, k = compiled.entities, len(compiled.entities.types)
    classes = _class_program(entities, least, alike)
    # The origin is feasible, so primal simplex takes few steps from there; dual simplex takes many.
    x, dual, objective = Session(classes, options, presolve=False, primal=True).values()
    row_dual = np.zeros(compiled.program.shape[0])
    row_dual[compiled.rows_of("capacity")] = dual[:k]
    rows = [(block * each)[alike.of] for block in dual[k:].reshape(-1, len(first))]
    row_dual[compiled.rows_of(part.name)] = rows[0] / least.size
    if len(rows) > 1:
        row_dual[compiled.rows_of(_time_of(compiled))] = rows[1]
    bound = compiled.program.dual_bound(row_dual)
    return Point(
        compiled.program,
        np.append(x[:-1].reshape(len(first), k)[alike.of].ravel(), x[-1]),
        objective=objective,
        bound=bound,
        status="optimal" if bound - objective <= PROVEN * scale(bound) else "gap",
        row_dual=row_dual,
        seconds=time.perf_counter() - began,
        method="simplex over classes",
    )


def _class_program(entities: Entities, least: MaxMinRows, alike: _Alike) -> LinearProgram:
    """One entity for each class: rows of capacity, least rates and, for jobs, time; the level is the last column."""
    first, k = alike.first, len(entities.types)
    c = len(first)
    row = k + np.repeat(np.arange(c), k)
    entries = [
        (np.tile(np.arange(k), c), np.repeat(entities.demand[first] * alike.number, k)),
        (row, least.table[first].ravel()),
    ]
    low, high = [np.full(k, -np.inf), np.zeros(c)], [entities.capacity, np.full(c, np.inf)]
    if entities.kind == "jobs":
        entries.append((row + c, np.ones(c * k)))
        low.append(np.full(c, -np.inf))
        high.append(np.ones(c))
    # The entries of a column side by side, and the column of the level last.
    rows, values = (np.column_stack(parts) for parts in zip(*entries, strict=True))
    used, counts, level = values != 0, least.growth[first] != 0, np.inf if least.growth.any() else 0.0
    data = np.concatenate([values[used], -least.growth[first][counts]])
    indices = np.concatenate([rows[used], k + np.flatnonzero(counts)])
    ends = np.cumsum(np.concatenate([[0], used.sum(axis=1), [counts.sum()]]))
    return LinearProgram.of(
        np.append(np.zeros(c * k), 1.0),
        sparse.csc_array((data, indices, ends), shape=(sum(map(len, low)), c * k + 1)),
        np.concatenate(low),
        np.concatenate(high),
        col_upper=np.append(np.where(entities.allowed[first], np.inf, 0.0).ravel(), level),
    )


def solve_finish_time(compiled: Compiled, part: FinishTime, options: Options) -> Point:
    """Minimise the largest rho under capacity and time; t is minus rho."""
    entities = compiled.entities
    jobs = part.terms(entities)
    if not len(jobs.active):
        return optimise(compiled.program, options)
    work = _Work(compiled, options, jobs.active)

    def floor(t: float) -> tuple[Floats, Floats, Floats]:
        room = -t - jobs.elapsed
        return jobs.remaining / room, jobs.remaining / room**2, 2.0 * jobs.remaining / room**3

    def minus_rho(x: Floats) -> float:
        return -float(jobs.rho(entities.rate(x)[jobs.active] / jobs.unit).max())

    table = entities.speed[jobs.active] / jobs.unit[:, None]
    start = -float(jobs.rho(0.5 * (table @ work.first_shares())).max())
    what: dict[str, Any] = {
        "speed": work.table(table),
        "floor": floor,
        "start": start,
        "most": -float(jobs.elapsed.max()),
    }
    point = work.point(compiled.without_curves(), minus_rho, 1.0, 0.0, **what)
    return point if _close(point, options) else optimise(compiled.program, options, compiled.separation())


def solve_concave(compiled: Compiled, component: Concave, options: Options) -> Point:
    """Maximise a concave gain under capacity and, for jobs, time."""
    entities = compiled.entities
    terms = component.terms(entities)
    if not len(terms.active):
        return optimise(compiled.program, options)
    work, size = _Work(compiled, options, terms.active), scale(terms.size)
    table = entities.speed[terms.active] / terms.unit[:, None]
    what: dict[str, Any] = {"speed": work.table(table), "gain": AlphaFair(component.shape.alpha, terms.size / size)}

    def gain(x: Floats) -> float:
        y = entities.rate(x)[terms.active] / terms.unit
        return terms.constant + float(terms.size @ component.shape.value(y))

    point = work.point(compiled.without_curves(), gain, size, terms.constant, **what)
    return point if _close(point, options) else optimise(compiled.program, options, compiled.separation())


def _close(point: Point, options: Options) -> bool:
    """Whether the bound proves ``point`` up to the requested gap."""
    return point.status == "optimal" or point.bound - point.objective <= options.gap * scale(point.bound)


def _time_of(compiled: Compiled) -> str:
    """Name of the time rows."""
    return next(part.name for part in compiled.formulation if isinstance(part, TimeFraction))


def _main_part(compiled: Compiled) -> Component | None:
    """The only component besides an unlimited ``TimeFraction``, if the interior-point method supports it."""
    parts = compiled.formulation.components
    time_rows = [part for part in parts if type(part) is TimeFraction and part.tenant_gpus == np.inf]
    others = [part for part in parts if type(part) in _SOLVE]
    return others[0] if len(parts) == 2 and len(time_rows) == len(others) == 1 else None


def _serves(compiled: Compiled) -> bool:
    return _main_part(compiled) is not None


def _solve(compiled: Compiled, options: Options) -> Point:
    part = _main_part(compiled)
    return _SOLVE[type(part)](compiled, part, options)


_SOLVE: dict[type, Callable[[Compiled, Any, Options], Point]] = {
    WeightedRate: solve_profit,
    InOrder: solve_profit,
    LeastRatio: solve_least,
    SoonestEnd: solve_least,
    LogRate: solve_concave,
    CompletionTime: solve_concave,
    FinishTime: solve_finish_time,
}

METHOD = Method("gavel", _serves, _solve)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Classes of entities that are identical in the program: by symmetry, members may have equal shares.

    Attributes
    ----------
    first:
        (c,) one entity of each class.
    of:
        (n,) class of each entity.
    number:
        (c,) number of entities.
    """

    first: NDArray[np.intp]
    of: NDArray[np.intp]
    number: Floats


def _alike(entities: Entities, least: MaxMinRows) -> _Alike:
    rows = np.column_stack([least.table, least.growth, entities.demand, entities.allowed])
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel().tolist()
    classes = {key: c for c, key in enumerate(sorted(set(keys)))}
    of = np.fromiter(map(classes.__getitem__, keys), dtype=np.intp, count=len(keys))
    first = np.empty(len(classes), dtype=np.intp)
    first[of[::-1]] = np.arange(len(keys))[::-1]
    return _Alike(first, of, np.bincount(of).astype(float))


def _has_place(entities: Entities) -> NDArray[np.bool_]:
    """(n,) whether an entity can run on some available GPU type."""
    return np.asarray((entities.allowed & (entities.capacity > 0)).any(axis=1))


@dataclass(eq=False)
class _Work:
    """One solve over the entities ``active`` (or one per class that has a place) and the available GPU types."""

    compiled: Compiled
    options: Options
    active: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    alike: _Alike | None = None
    least: tuple[str, MaxMinRows] | None = None
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.entities = self.compiled.entities
        self.usable = self.entities.capacity > 0
        alike = self.alike
        if alike is None:  # every active entity is its only one
            of = np.full(len(self.entities.names), -1)
            of[self.active], self.number = np.arange(len(self.active)), np.ones(len(self.active))
        else:
            able = _has_place(self.entities)[alike.first]
            self.active, self.number = alike.first[able], alike.number[able]
            of = np.where(able, np.cumsum(able) - 1, -1)[alike.of]
        self.solved = np.flatnonzero(of >= 0)
        self.of = of[self.solved]
        self.demand = self.entities.demand[self.active] * self.number
        self.capacity = self.entities.capacity[self.usable]
        self.timed = self.entities.kind == "jobs"

    def table(self, values: Floats) -> Floats:
        """``values`` of ``active`` by GPU type, (k, n), as :mod:`hetopt.models.interior_point` expects."""
        return np.ascontiguousarray(values[:, self.usable].T)

    def first_shares(self) -> Floats:
        """(k,) initial shares of every entity."""
        shares = np.zeros(len(self.usable))
        shares[self.usable] = interior_point.centre(self.capacity, self.demand, self.timed)
        return shares

    def point(
        self,
        program: LinearProgram,
        objective: Callable[[Floats], float],
        size: float,
        constant: float = 0.0,
        **what: Any,
    ) -> Point:
        """Solve for ``what``, fields of :class:`~hetopt.models.interior_point.SharesProgram`; ``size`` is its unit."""
        what.setdefault("speed", what.get("profit"))
        problem = interior_point.SharesProgram(demand=self.demand, capacity=self.capacity, timed=self.timed, **what)
        state, steps = interior_point.solve(problem, self.options.check_time)
        x = self._shares(state.x, size * state.t)
        reached, bound = objective(x), size * interior_point.bound(problem, state) + constant
        # A gain may be near 0 by the choice of its units; the value of GPUs and time is not.
        worth = size * (float(state.price @ self.capacity) + float(state.v.sum()))
        has_level = len(program.c) > x.size
        return Point(
            program,
            np.append(x.ravel(), reached) if has_level else x.ravel(),
            objective=reached,
            bound=bound,
            status="optimal" if bound - reached <= PROVEN * scale(bound, worth) else "gap",
            row_dual=self._duals(state, size),
            seconds=time.perf_counter() - self.began,
            method="interior points",
            iterations=steps,
        )

    def _shares(self, found: Floats, level: float) -> Floats:
        """(n, k) shares with round-off removed; no row is exceeded, and tenants leave nothing idle.

        Parameters
        ----------
        level:
            The least ratio of the solution, if that is maximised. Entities whose rate fell short of it by round-off get
            it: they may be so small that the others do not notice.
        """
        entities = self.entities
        kept = np.where(found > FINE * found.max(axis=0), found, 0.0).T
        x = np.zeros(entities.shape)
        x[np.ix_(self.solved, self.usable)] = kept[self.of]
        if self.least is not None:
            _, least = self.least
            rate, wanted = np.einsum("ek,ek->e", least.table, x), least.growth * level
            x *= np.maximum(np.divide(wanted, rate, out=np.ones_like(rate), where=rate > 0), 1.0)[:, None]
        x[~entities.allowed] = 0.0
        if self.timed:
            x /= np.maximum(x.sum(axis=1, keepdims=True), 1.0)
        used = entities.demand @ x
        fits = np.divide(entities.capacity, used, out=np.ones_like(used), where=used > 0)
        return np.asarray(x * (np.minimum(fits, 1.0) if self.timed else fits))

    def _duals(self, state: Iterate, size: float) -> Floats:
        """Duals of the rows: capacity and time, and least rates if there is a level."""
        n = len(self.entities.names)
        price = np.zeros(len(self.usable))
        price[self.usable] = state.price
        u, v = np.zeros(n), np.zeros(n)
        u[self.solved], v[self.solved] = (state.u / self.number)[self.of], (state.v / self.number)[self.of]
        parts = {"capacity": price}
        if self.least is not None:
            name, least = self.least
            parts[name] = -u / least.size
        if self.timed:
            parts[_time_of(self.compiled)] = v
        if self.least is None:
            return size * np.concatenate(list(parts.values()))
        dual = np.zeros(sum(map(len, parts.values())))
        for name, own in parts.items():
            dual[self.compiled.rows_of(name)] = own
        return size * dual
