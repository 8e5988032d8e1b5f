"""Misreports: what a tenant (or job) may say instead of the truth, and the instance that a policy then sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, islice, product
from typing import Literal, TypeVar

import numpy as np

from hetopt.auditing.candidates import Row, Rows, Scale, direction
from hetopt.data.entities import Entities, Kind
from hetopt.data.instance import Instance
from hetopt.data.workload import JobType, Tenant

Lie = Literal["over", "under", "mixed", "coalition", "job type", "tenant"]
"""Kinds of misreports.

``"over"``, ``"under"``
    One row of speeds, no entry below (above) the truth.
``"mixed"``
    One row with entries on both sides.
``"coalition"``
    Two liars at once, both over or both under; it pays only if both gain.
``"job type"``
    A fake job type is added, and the tenant's weight divided (OEF, section 4.2.4).
``"tenant"``
    A fake tenant of the same weight is added. Not tried unless asked for: most policies lose to it trivially.
"""

ROWS_IN_PAIRS = 6
"""Rows that each member of a coalition tries, in each direction."""

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """One misreport: changed rows by entity, and perhaps a fake row in the name of tenant ``faker``."""

    kind: Lie
    rows: Mapping[int, Row]
    fake: Row | None = None
    faker: int = -1

    def key(self) -> tuple[object, ...]:
        """What makes two reports the same."""
        return self.kind == "tenant", tuple(sorted(self.rows.items())), self.fake, self.faker


class Reports:
    """All that liars in ``instance`` may report.

    Parameters
    ----------
    instance:
        The truth.
    kind:
        Whether tenants or jobs report.
    scale:
        See :data:`Scale`.
    """

    def __init__(self, instance: Instance, kind: Kind, scale: Scale = "kept") -> None:
        self.instance = instance
        self.entities: Entities = instance.entities(kind)
        self.rows = Rows(self.entities, scale)

    # -- what the policy sees ------------------------------------------------------------------------------------

    def apply(self, report: Report) -> Instance:
        """The instance that the policy is told of."""
        rows = {
            e: dict(zip(self.entities.types, self.rows.seen(e, row), strict=True)) for e, row in report.rows.items()
        }
        if self.entities.kind == "jobs":
            jobs = tuple(
                replace(job, throughput=rows[i]) if i in rows else job for i, job in enumerate(self.instance.jobs)
            )
            return replace(self.instance, jobs=jobs)
        tenants, position = [], 0
        for tenant in self.instance.tenants:
            changed = []
            for kind in tenant.job_types:
                changed.append(replace(kind, speedup=rows[position], any_scale=True) if position in rows else kind)
                position += 1
            tenants.append(replace(tenant, job_types=tuple(changed)))
        if report.fake is None:
            return replace(self.instance, tenants=tuple(tenants))
        return self._with_fake(tenants, report)

    def _with_fake(self, tenants: list[Tenant], report: Report) -> Instance:
        """``tenants`` with a fake job type (or tenant) at the end, so that true rows keep their places."""
        liar = tenants[report.faker]
        first = int(np.flatnonzero(self.entities.owner == report.faker)[0])
        assert report.fake is not None
        speedup = dict(zip(self.entities.types, self.rows.seen(first, report.fake), strict=True))
        if report.kind == "tenant":
            name = _unused("fake", {t.name for t in tenants})
            fake_tenant = Tenant(name, (JobType("jobs", speedup, any_scale=True),), liar.weight)
            return replace(self.instance, tenants=(*tenants, fake_tenant))
        fake = JobType(_unused("fake", {j.name for j in liar.job_types}), speedup, any_scale=True)
        tenants[report.faker] = replace(liar, job_types=(*liar.job_types, fake))
        held = dict(self.instance.held)
        if len(liar.job_types) == 1 and liar.name in held:  # its entity is called tenant/job type from now on
            held[f"{liar.name}/{liar.job_types[0].name}"] = held.pop(liar.name)
        return replace(self.instance, tenants=tuple(tenants), held=held)

    # -- what is tried -------------------------------------------------------------------------------------------

    def all(self, kinds: tuple[Lie, ...], liars: tuple[int, ...]) -> Iterator[Report]:
        """Candidates of all kinds in turn, within a kind of all liars (or pairs of liars) in turn."""
        return in_turn([in_turn(self._streams(kind, liars)) for kind in kinds])

    def _streams(self, kind: Lie, liars: tuple[int, ...]) -> list[Iterator[Report]]:
        if kind == "coalition":
            return [self._pairs(liars)]
        if kind in ("job type", "tenant"):
            return [self._fakes(person, kind) for person in liars] if self.entities.kind == "tenants" else []
        return [self._single(person, kind) for person in liars]

    def rows_of(self, person: int) -> list[int]:
        """Rows of entities that belong to a tenant (or the job itself)."""
        return np.flatnonzero(self.entities.owner == person).tolist()

    def _single(self, person: int, kind: Lie) -> Iterator[Report]:
        for e in self.rows_of(person):
            for row in self.rows.candidates(e):
                if direction(np.array(row), self.entities.speed[e]) == kind:
                    yield Report(kind, {e: row})

    def _pairs(self, liars: tuple[int, ...]) -> Iterator[Report]:
        """Pairs with the same direction; each liar has a few rows, and all pairs have a turn with the first ones."""

        @cache
        def choices(person: int, way: str) -> list[tuple[int, Row]]:
            e = self.rows_of(person)[0]
            fits = (row for row in self.rows.candidates(e) if direction(np.array(row), self.entities.speed[e]) == way)
            return [(e, row) for row in islice(fits, ROWS_IN_PAIRS)]

        places = sorted(product(range(ROWS_IN_PAIRS), repeat=2), key=sum)
        for (i, j), way in product(places, ("under", "over")):
            for a, b in combinations(liars, 2):
                if i < len(choices(a, way)) and j < len(choices(b, way)):
                    yield Report("coalition", dict((choices(a, way)[i], choices(b, way)[j])))

    def _fakes(self, person: int, kind: Lie) -> Iterator[Report]:
        e = self.rows_of(person)[0]
        for row in self.rows.candidates(e):
            yield Report(kind, {}, row, person)
        for j in range(self.entities.shape[1]):  # needs so much memory that it runs on one type alone
            only = np.where(np.arange(self.entities.shape[1]) == j, self.entities.speed[e, self.rows.slowest[e]], 0.0)
            yield Report(kind, {}, tuple(only.tolist()), person)


def in_turn(streams: list[Iterator[T]]) -> Iterator[T]:
    """One item of each stream in turn until all are empty."""
    while streams:
        alive = []
        for stream in streams:
            for item in stream:
                yield item
                alive.append(stream)
                break
        streams = alive


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name
