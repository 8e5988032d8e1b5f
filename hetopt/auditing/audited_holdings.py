"""The GPUs that each entity holds and its rates with them: the input of audits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hetopt.auditing.verdict import Level
from hetopt.checks import expect, shown
from hetopt.data.array_types import Numbers
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.rates import cluster_rate, cross_rates, most_at_once, rate_with
from hetopt.data.rationals import simple_fractions
from hetopt.errors import InvalidInstance, InvalidOption, InvalidPlan
from hetopt.results.allocation import Allocation, Plan

Result: TypeAlias = Allocation | Plan | pd.DataFrame | ArrayLike
"""Results that can be audited; a table or array holds shares, entities x GPU types (floats or Fractions)."""


@dataclass(frozen=True, eq=False)
class Holdings:
    """GPUs of each entity and its rates, in floats or in Fractions.

    Attributes
    ----------
    names, types:
        n entities (or tenants, see :data:`Level`) and k GPU types.
    per_gpu:
        (n, k) rate per GPU.
    gpus:
        (n, k) GPUs held.
    rate:
        (n,) rate with the own GPUs.
    weight:
        (n,) importance.
    capacity:
        (k,) GPUs of each type.
    most:
        (n,) GPUs that each can use at a time, the size of its gang; None: no limit.
    exact:
        True if all numbers are Fractions.
    level:
        What the entities are.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    per_gpu: Numbers
    gpus: Numbers
    rate: Numbers
    weight: Numbers
    capacity: Numbers
    most: Numbers | None = None
    exact: bool = False
    level: Level = "job type"

    @cached_property
    def cluster_rate(self) -> Numbers:
        """(n,) :func:`~hetopt.data.rates.cluster_rate`, by which slacks are divided."""
        return cluster_rate(self.per_gpu, self.capacity, self.most)

    def rate_with(self, gpus: Numbers) -> Numbers:
        """(n,) rate of each with its row of ``gpus`` (n, k), or with the same (k,)."""
        return rate_with(self.per_gpu, gpus, self.most)

    def cross_rates(self, rows: slice | list[int]) -> Numbers:
        """(len(rows), n) rate of the row's entity with the column's GPUs, times the ratio of their weights."""
        return cross_rates(self.per_gpu, self.gpus, self.weight, self.most, rows)

    @property
    def one(self) -> Any:
        """1 in the kind of numbers used."""
        return Fraction(1) if self.exact else 1.0

    @property
    def zero(self) -> Any:
        """0 in the kind of numbers used."""
        return self.one * 0

    def bundle(self, e: int) -> dict[str, Any]:
        """GPU type -> GPUs that entity ``e`` holds."""
        return bundle(self.types, self.gpus[e])


def bundle(types: tuple[str, ...], row: Numbers) -> dict[str, Any]:
    """GPU type -> GPUs, types without GPUs left out."""
    return {
        kind: amount if isinstance(amount, Fraction) else float(amount)
        for kind, amount in zip(types, row, strict=True)
        if amount
    }


def holdings(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    demand_limited: bool | None = None,
) -> Holdings:
    """The holdings in ``result``, which gives only shares; ``instance`` gives speeds, weights and GPUs.

    Parameters
    ----------
    instance:
        Speeds, weights and GPUs.
    result:
        An :class:`Allocation`, a :class:`Plan`, or a table of shares.
    level:
        The audited entities.
    exact:
        In Fractions. An :class:`Allocation` must then have been solved with ``exact=True``; floats of the
        instance, and of a table, are read as the simple fractions that they round.
    demand_limited:
        True: a gang runs at most all the time, so that it cannot use more GPUs than it has workers (Gavel's row).
        False: the rate grows with every GPU, as for OEF's tenants, which have enough jobs. None: True for jobs, False
        for tenants. A tenant with the limit counts as a job of one GPU.

    Raises
    ------
    InvalidInstance
        The result is for other entities or GPU types, or contains NaN.
    InvalidPlan
        A plan that gives a job's gang several GPU types at once, or runs it in copies; jobs that share GPUs.
    InvalidOption
        Unknown level; ``exact`` for an allocation that has no exact shares; ``demand_limited`` for whole tenants.
    """
    expect(Instance, instance, "instance")
    if level not in get_args(Level):
        raise InvalidOption(f"is {shown(level)}; it must be one of {', '.join(get_args(Level))}", "level")
    entities = _entities(instance, result)
    entities = entities.exact if exact else entities
    _check_one_type_per_gang(result)
    gpus = _gpus(entities, result, exact)
    most = most_at_once(entities, demand_limited)
    if most is not None and entities.kind == "tenants" and level != "job type":
        raise InvalidOption(f"demand_limited does not apply to whole tenants (level {level!r}); drop one of them")
    single = Holdings(
        names=entities.names,
        types=entities.types,
        per_gpu=entities.per_gpu,
        gpus=gpus,
        rate=rate_with(entities.per_gpu, gpus, most),
        weight=entities.weight,
        capacity=entities.capacity,
        most=most,
        exact=exact,
    )
    return _by_owner(single, instance, entities, level)


def _check_one_type_per_gang(result: Result) -> None:
    """Refuse plans in which a gang is on several types at once or runs in copies, and results with shared GPUs."""
    pairs: Any = result.packed if isinstance(result, Plan) else ()
    for first, second in result.together.index if isinstance(result, Allocation) else pairs:
        raise InvalidPlan(
            f"jobs {first!r} and {second!r} share GPUs; audits value GPUs for a gang that has them for itself, and "
            "would judge this result wrongly"
        )
    if not isinstance(result, Plan) or result.placement is None:
        return
    for name, hosts in result.placement.hosts.items():
        copies = len(result.placement.dispatch.get(name, ()))
        types = {t for gpus in hosts.values() for t, n in gpus.items() if n}
        if copies > 1 or len(types) > 1:
            how = f"runs in {copies} copies" if copies > 1 else f"has a gang over {len(types)} GPU types"
            raise InvalidPlan(
                f"job {name!r} {how}; audits value GPUs for a gang on one type at a time, and "
                "would judge this plan wrongly"
            )


def _entities(instance: Instance, result: Result) -> Entities:
    """The instance's entities of the kind that ``result`` is for; a bare array is for the default kind."""
    if isinstance(result, Allocation | Plan):
        entities, names, types = instance.entities(result.entities.kind), result.entities.names, result.entities.types
    elif isinstance(result, pd.DataFrame):
        names, types = tuple(result.index), tuple(result.columns)
        jobs = bool(instance.jobs) and names == instance.entities("jobs").names
        entities = instance.entities("jobs" if jobs else None)
    else:
        return instance.entities()
    if names != entities.names or types != entities.types:
        raise InvalidInstance(
            f"the result is for {_listed(names)} on {_listed(types)}, the instance for {_listed(entities.names)} "
            f"on {_listed(entities.types)}; audit a result against the instance that it was made for"
        )
    return entities


def _listed(names: tuple[object, ...]) -> str:
    return ", ".join(map(str, names[:6])) + (", …" if len(names) > 6 else "")


def _gpus(entities: Entities, result: Result, exact: bool) -> Numbers:
    """(n, k) GPUs held; a plan counts GPUs already."""
    if isinstance(result, Plan):
        table: Numbers = result.x
    elif isinstance(result, Allocation):
        table = _exact_share(result) if exact else result.x
    else:
        try:
            table = np.asarray(result)
        except ValueError:
            raise InvalidInstance("the rows of the table of shares differ in length; give a row per entity") from None
    if table.shape != entities.shape:
        raise InvalidInstance(f"the table of shares has shape {table.shape}; it must be {entities.shape}")
    try:
        table = simple_fractions(table) if exact else table.astype(float)
    except (TypeError, ValueError):
        raise InvalidInstance("the shares contain values that are not numbers; give floats or Fractions") from None
    if not np.isfinite(table.astype(float)).all():
        raise InvalidInstance("the shares contain NaN or infinite numbers; every share must be finite")
    if isinstance(result, Plan):
        return table
    return entities.gpus(table)


def _exact_share(result: Allocation) -> Numbers:
    if result.certificate.exact is None:
        raise InvalidOption(
            "this allocation has only floats; for an exact audit solve with hetopt.solve(…, exact=True), or audit "
            "its table .share, whose floats are then read as the simple fractions that they round"
        )
    return np.asarray(result.certificate.exact.share)


def _by_owner(single: Holdings, instance: Instance, entities: Entities, level: Level) -> Holdings:
    """One row per tenant instead of one per (tenant, job type), unless these are to be audited, or jobs."""
    if level == "job type" or entities.kind == "jobs":
        return replace(single, level=level)
    groups = [np.flatnonzero(entities.owner == i) for i in range(len(instance.tenants))]
    combined = np.max if level == "free reuse" else np.mean
    per_gpu = np.array([combined(single.per_gpu[rows], axis=0) for rows in groups])
    gpus = np.array([single.gpus[rows].sum(axis=0) for rows in groups])
    as_allocated = np.array([single.rate[rows].sum() for rows in groups])
    return replace(
        single,
        names=tuple(t.name for t in instance.tenants),
        per_gpu=per_gpu,
        gpus=gpus,
        rate=rate_with(per_gpu, gpus) if level == "free reuse" else as_allocated,
        weight=np.array([single.weight[rows].sum() for rows in groups]),
        level=level,
    )
