"""The centre of the optimal shares: one answer where a policy of Gavel has many.

Max-min fairness, makespan and finish-time fairness fix only the rates of the entities that limit the optimum. Simplex
returns a vertex, which may leave GPUs idle that the others could use; Gavel's interior-point solver stops near the
analytic centre. That is unique, depends on no solver, and treats equal jobs equally.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, expect
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.rates import isolated_rate
from hetopt.errors import InvalidFormulation, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.gavel.gavel_components import FinishTime, MaxMinRate, TimeFraction
from hetopt.models.interior_point import BOUNDARY_FRACTION
from hetopt.programs.compiled import Compiled
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.optimising import solve_compiled
from hetopt.solving.options import DEFAULT
from hetopt.tolerances import CENTRED, FEASIBILITY, QUADRATIC

STEPS = 200
"""Limit of Newton steps; 15 to 30 are usual."""

NO_CENTRE = "the centre of the optimal shares was not found, because rounding errors are too large"


def centre(entities: Entities, share: Floats, floor: Floats, most: float = 1.0) -> Floats:
    """The analytic centre of the shares that give at least the rates ``floor``.

    It maximises the sum of the logarithms of all shares, of the time and the GPUs left, and of the rates above the
    floors that are positive. Pairs that cannot run have no share.

    Parameters
    ----------
    entities:
        n entities and k GPU types.
    share:
        (n, k) shares whose rates are at least ``floor``.
    floor:
        (n,) least rates. The centre keeps all but the part :data:`~hetopt.tolerances.CENTRED` of them.
    most:
        Largest sum of an entity's shares: 1, all the time, for jobs; infinite for tenants.

    Returns
    -------
    numpy.ndarray
        (n, k) shares.

    Raises
    ------
    NotSolved
        Rounding errors keep it from the centre.
    """
    usable = entities.capacity > 0
    can_run = entities.allowed & usable
    rows = np.flatnonzero(can_run.any(axis=1))
    part = np.ix_(rows, usable)
    result = np.zeros(entities.shape)
    if len(rows):
        demand, capacity = entities.demand[rows], entities.capacity[usable]
        size = entities.speed[rows].max(axis=1)
        speed = np.where(can_run, entities.speed, 0.0)[part] / size[:, None]
        x = np.maximum(share[part], 0.0)
        excess = np.maximum(x.sum(axis=1, keepdims=True) / most, demand @ x / capacity)  # by the solver's tolerance
        x /= np.maximum(1.0, excess)
        least = np.minimum(floor[rows] / size, (speed * x).sum(axis=1)) * (1.0 - CENTRED)
        result[part] = _Shares(speed, can_run[part], demand, capacity, least, most).centre(x)
    return result


@dataclass(frozen=True, eq=False)
class _Shares:
    """The shares of r entities on k available types, in which a centre is found.

    Attributes
    ----------
    speed:
        (r, k) rate of a unit of share, relative to the entity's fastest type.
    can_run:
        (r, k) whether it can run there.
    demand, floor:
        (r,) GPUs of a unit of share, and least rates in the unit of ``speed``.
    capacity:
        (k,) GPUs.
    most:
        Largest sum of an entity's shares.
    """

    speed: Floats
    can_run: NDArray[np.bool_]
    demand: Floats
    capacity: Floats
    floor: Floats
    most: float

    def slacks(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Shares, time left, GPUs left, and rates above the floors; 1 for those that have no limit."""
        over = (self.speed * x).sum(axis=1) - self.floor
        return (
            np.where(self.can_run, x, 1.0),
            np.ones(len(x)) if np.isinf(self.most) else self.most - x.sum(axis=1),
            self.capacity - self.demand @ x,
            np.where(self.floor > 0, over, 1.0),
        )

    def value(self, x: Floats) -> float:
        """The sum of logarithms; minus infinity outside."""
        slacks = np.concatenate([part.ravel() for part in self.slacks(x)])
        return float(np.log(slacks).sum()) if (slacks > 0).all() else -np.inf

    def inner(self, share: Floats) -> Floats:
        """Shares in the interior near ``share``."""
        even = 0.5 * np.minimum(self.capacity / self.demand.sum(), self.most / len(self.capacity))
        return (1.0 - CENTRED / 2) * share + CENTRED / 2 * np.where(self.can_run, even, 0.0)

    def centre(self, share: Floats) -> Floats:
        """The centre, by Newton's method.

        Raises
        ------
        NotSolved
            Rounding errors keep it from the centre.
        """
        x, last = self.inner(share), np.inf
        value = self.value(x)
        for _ in range(STEPS):
            step, gain = self.step(x)
            if gain < QUADRATIC:
                if gain > last / 2:  # only rounding errors are left
                    return x
                x, last = x + step, gain
                continue
            length = min(1.0, BOUNDARY_FRACTION * self.room(x, step))
            while (after := self.value(x + length * step)) < value + 0.1 * length * gain:
                length /= 2
                if length < FEASIBILITY:
                    raise NotSolved(NO_CENTRE, "error")
            x, value = x + length * step, after
        raise NotSolved(NO_CENTRE, "error")

    def step(self, x: Floats) -> tuple[Floats, float]:
        """Newton's step, and the gain that its slope promises.

        Relative to the shares, the step y minimises ``|y - 1|² + |A y + 1|²``, where a row of A is how fast a slack
        falls relative to what is left of it. QR factorisations solve this with digits that normal equations lose: one
        for each job, and one for the GPUs, which couple the jobs.
        """
        _, idle, left, over = self.slacks(x)
        share, unit = np.where(self.can_run, x, 0.0), np.eye(x.shape[1])
        rate = np.where(self.floor > 0, 1.0 / over, 0.0)[:, None] * self.speed * share
        spent = (0.0 if np.isinf(self.most) else 1.0 / idle[:, None]) * share
        own = np.concatenate([np.broadcast_to(unit, (len(x), *unit.shape)), np.stack([-rate, spent], axis=1)], axis=1)
        target = np.concatenate([self.can_run, -np.ones((len(x), 2))], axis=1)
        used = self.demand[:, None] * share / left

        factor, root = np.linalg.qr(own)
        inverse = np.linalg.inv(root)
        alone = np.einsum("eij,ei->ej", factor, target).ravel()
        coupling = (used[:, :, None] * inverse).transpose(1, 0, 2).reshape(len(unit), -1)
        _, corner = np.linalg.qr(np.concatenate([coupling.T, unit]))

        def solved(of_jobs: Floats, of_gpus: Floats) -> tuple[Floats, Floats]:
            price = np.linalg.solve(corner, np.linalg.solve(corner.T, of_gpus + coupling @ of_jobs))
            return np.einsum("eij,ej->ei", inverse, (of_jobs - coupling.T @ price).reshape(x.shape)), price

        y, price = solved(alone, np.ones(len(unit)))
        y += solved(np.zeros_like(alone), 1.0 + (used * y).sum(axis=0) - price)[0]  # what rounding has left of the GPUs
        return share * y, float((np.einsum("eij,ej->ei", own, y) ** 2).sum() + ((price - 1.0) ** 2).sum())

    def room(self, x: Floats, step: Floats) -> float:
        """Length of the step to the boundary."""
        now = np.concatenate([part.ravel() for part in self.slacks(x)])
        then = np.concatenate([part.ravel() for part in self.slacks(x + step)])
        falls = then < now
        return float((now[falls] / (now[falls] - then[falls])).min(initial=np.inf))


@dataclass(frozen=True)
class Centred:
    """A policy that returns the :func:`centre` of the optimal shares of an egalitarian formulation.

    Parameters
    ----------
    formulation:
        :class:`~hetopt.models.gavel.gavel_components.LeastRatio`,
        :class:`~hetopt.models.gavel.gavel_components.SoonestEnd` or
        :class:`~hetopt.models.gavel.gavel_components.FinishTime`, with
        :class:`~hetopt.models.gavel.gavel_components.TimeFraction`.

    Raises
    ------
    InvalidFormulation
        Other components.
    """

    traits: ClassVar[Traits] = Traits(fractional=True)

    formulation: Formulation

    def __post_init__(self) -> None:
        expect(Formulation, self.formulation, "Centred.formulation")
        objectives, limits = self._parts()
        if (len(self.formulation.components), len(objectives), len(limits)) != (2, 1, 1):
            raise InvalidFormulation(
                f"has {', '.join(self.formulation.names)}; only the optimum of LeastRatio, SoonestEnd or FinishTime "
                "with TimeFraction has a centre here",
                "Centred.formulation",
            )

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        """The allocation, with a certificate for the optimum."""
        began, formulation = time.perf_counter(), self.formulation
        entities = formulation.entities(instance)
        compiled = Compiled(formulation, entities)
        point, _ = solve_compiled(compiled, DEFAULT)
        (main,), (limit,) = self._parts()
        found = np.maximum(point.share, 0.0)
        reached = compiled.measure(found, point.main.program.priority)[0].gain
        share = centre(entities, found, main.floor(entities, reached), limit.limit(entities))
        own_columns = point.x[share.size :]
        centred = replace(point, x=np.append(share.ravel(), own_columns), method=f"{point.method}, centred")
        return Allocation(entities, share, certify(compiled, centred, time.perf_counter() - began)), None

    def _parts(self) -> tuple[list[MaxMinRate | FinishTime], list[TimeFraction]]:
        """The objectives and the limits of time."""
        parts = self.formulation.components
        return (
            [part for part in parts if isinstance(part, MaxMinRate | FinishTime)],
            [part for part in parts if isinstance(part, TimeFraction)],
        )


@dataclass(frozen=True)
class IsolatedSoFar:
    """What :class:`FinishTimeFairness` knows of a job from its last call.

    Attributes
    ----------
    seconds:
        Time in which it would have done its work until then if isolated.
    work_left:
        Its work left then.
    rate:
        Its isolated rate then, work per second.
    """

    seconds: float
    work_left: float
    rate: float

    def after(self, work_left: float) -> float:
        """Seconds in which it would have done its work until now, at the rate of the last call."""
        return self.seconds + (self.work_left - work_left) / self.rate if self.rate > 0 else self.seconds


@dataclass(frozen=True)
class FinishTimeFairness:
    """Finish-time fairness that remembers how many jobs shared the cluster, as Gavel's code does.

    The isolated time of the work that a job has done adds up from call to call, at the isolated rate that it had at
    each. (:func:`~hetopt.models.gavel.gavel_policies.finish_time_fairness` has no memory: it takes the time since
    arrival.) The shares are those of :class:`Centred`.
    """

    traits: ClassVar[Traits] = Traits(fractional=True)

    def __call__(
        self, instance: Instance, state: Mapping[str, IsolatedSoFar] | None = None
    ) -> tuple[Allocation, Mapping[str, IsolatedSoFar]]:
        """The allocation, and the isolated times so far."""
        jobs = instance.entities("jobs")
        left, rate = instance.job_array("work_left").tolist(), isolated_rate(jobs).tolist()
        known = {
            name: IsolatedSoFar(last.after(now) if (last := (state or {}).get(name)) else 0.0, now, own)
            for name, now, own in zip(jobs.names, left, rate, strict=True)
        }
        component = FinishTime(isolated={name: max(0.0, job.seconds) for name, job in known.items()})
        formulation = Formulation((component, TimeFraction()), "jobs", "Gavel finish-time fairness")
        return Centred(formulation)(instance)[0], FrozenDict(known)
