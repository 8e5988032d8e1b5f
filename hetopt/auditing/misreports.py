"""Misreports: speeds that an entity reports instead of the true ones, and the instance that a policy then gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, combinations, islice, product
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind
from hetopt.data.instance import Instance
from hetopt.data.workload import JobType, Tenant
from hetopt.tolerances import NUDGE

Row: TypeAlias = tuple[float, ...]

ReportScale = Literal["kept", "divided", "raw"]
"""Scale of reports, and of the speeds that the policy gets.

``"kept"``
    Normalised rows: the reported speed on the slowest GPU type is the true one (1 in OEF, section 2.3).
``"divided"``
    Raw throughputs, over or under the truth in each entry, which are then divided by their slowest entry, as OEF's
    profiler does. So an over-report of the slowest GPU alone becomes an under-report.
``"raw"``
    Raw throughputs, which the policy gets unchanged.
"""

FACTORS = (0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of true entries that the search tries."""

POWERS = (0.0, 0.5, 2.0)
"""Exponents of whole rows: 0 makes a row flat, 2 steep."""


def direction(reported: Floats, true: Floats) -> Literal["over", "under", "mixed"] | None:
    """Whether a row is above the true row, below it, or both; None for the true row."""
    above, below = bool((reported > true).any()), bool((reported < true).any())
    if above and below:
        return "mixed"
    return "over" if above else "under" if below else None


class CandidateRows:
    """Rows that each entity may report, in a fixed order.

    Parameters
    ----------
    entities:
        The true entities.
    scale:
        See :data:`ReportScale`.
    """

    def __init__(self, entities: Entities, scale: ReportScale = "kept") -> None:
        self.entities, self.scale = entities, scale

    @cached_property
    def slowest(self) -> list[int]:
        """(n,) the GPU type with the smallest positive speed of each entity; the first of equals."""
        return [int(i) for i in np.where(self.entities.allowed, self.entities.speed, np.inf).argmin(axis=1)]

    def free(self, e: int) -> list[int]:
        """Columns of the row of ``e`` that a report may change."""
        return [j for j in range(self.entities.shape[1]) if self.scale != "kept" or j != self.slowest[e]]

    def normal(self, e: int, row: Row) -> Row:
        """``row`` as a valid report: with ``"kept"`` no type is slower than the true speed of the slowest type.

        A (fake) row that is zero on the slowest type is scaled by its own slowest type.
        """
        if self.scale != "kept" or not any(v > 0 for v in row):
            return row
        s = self.slowest[e]
        base = float(self.entities.speed[e, s])
        factor = 1.0 if row[s] > 0 else base / min(v for v in row if v > 0)
        return tuple(max(v * factor, base) if v > 0 else 0.0 for v in row)

    def seen(self, e: int, row: Row) -> Row:
        """The row that the policy gets: with ``"divided"`` its smallest positive entry is that of the true row."""
        if self.scale != "divided":
            return row
        truth = float(self.entities.speed[e, self.slowest[e]])
        return tuple(v * truth / min(x for x in row if x > 0) for v in row)

    def candidates(self, e: int) -> Iterator[Row]:
        """Whole rows first, then single entries; each row once, neither the true row nor all zero."""
        true, seen = tuple(self.entities.speed[e].tolist()), set[Row]()
        for values in chain(self._whole_rows(e), self._entries(e)):
            row = self.normal(e, tuple(values.tolist()))
            if row not in seen and any(v > 0 for v in row) and row != true:
                seen.add(row)
                yield row

    def _whole_rows(self, e: int) -> Iterator[Floats]:
        """Flat and steep rows, scaled rows, rows of others and mixtures with them."""
        true, base = self.entities.speed[e], float(self.entities.speed[e, self.slowest[e]])
        moved = np.isin(np.arange(len(true)), self.free(e))
        for power in POWERS:
            yield np.where(true > 0, base * (np.maximum(true, base) / base) ** power, 0.0)
        for factor in FACTORS:
            yield np.where(moved, true * factor, true)
        for other in self._others(e):
            yield other
            yield np.maximum(true, other)
            yield np.minimum(true, other)
            yield (true + other) / 2
        if self.scale != "kept":  # as fast everywhere as on the fastest type
            yield np.full(len(true), true.max())

    def _others(self, e: int) -> list[Floats]:
        """Rows of the others, scaled to the same speed on the slowest type of ``e``; each once."""
        s, speed = self.slowest[e], self.entities.speed
        rows = speed[(speed[:, s] > 0) & (np.arange(len(speed)) != e)]
        return list(np.unique(rows / rows[:, [s]] * speed[e, s], axis=0)) if len(rows) else []

    def _entries(self, e: int) -> Iterator[Floats]:
        """Rows with one changed entry: ratios of others (and values close to them), multiples, the slowest speed, 0."""
        true, base = self.entities.speed[e], float(self.entities.speed[e, self.slowest[e]])
        for j in self.free(e):
            values = [ratio * nudge for ratio in self._ratios(e, j) for nudge in (1.0, 1 - NUDGE, 1 + NUDGE)]
            values += [(ratio + float(true[j])) / 2 for ratio in self._ratios(e, j)]
            values += [float(true[j]) * factor for factor in FACTORS]
            values += [base * step for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)] + [0.0]
            for value in values:
                row = true.copy()
                row[j] = value
                yield row

    def _ratios(self, e: int, j: int) -> list[float]:
        """Entries at which the ratio of type ``j`` to another type is that of some other entity; each once."""
        speed, found = self.entities.speed, set()
        for i in range(speed.shape[1]):
            if i != j and speed[e, i] > 0:
                others = speed[(speed[:, i] > 0) & (np.arange(len(speed)) != e)]
                found |= set((others[:, j] / others[:, i] * speed[e, i]).tolist())
        return sorted(found)


MisreportKind = Literal["over", "under", "mixed", "coalition", "job type", "tenant"]
"""Kinds of misreports.

``"over"``, ``"under"``
    One row of speeds, no entry below (above) the truth.
``"mixed"``
    One row with entries on both sides.
``"coalition"``
    Two entities at once, both over or both under; it is profitable only if both gain.
``"job type"``
    A fake job type is added, and the tenant's weight divided (OEF, section 4.2.4).
``"tenant"``
    A fake tenant of the same weight is added. Not tried by default: under most policies it is trivially profitable.
"""

ROWS_IN_PAIRS = 6
"""Rows that the search tries for each member of a coalition, in each direction."""

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """One misreport: changed rows by entity, and possibly a fake row that tenant ``faker`` adds."""

    kind: MisreportKind
    rows: Mapping[int, Row]
    fake: Row | None = None
    faker: int = -1

    def key(self) -> tuple[object, ...]:
        """Equal for two reports that lead to the same instance."""
        return self.kind == "tenant", tuple(sorted(self.rows.items())), self.fake, self.faker


class ReportGenerator:
    """Generator of the misreports that are tried in ``instance``.

    Parameters
    ----------
    instance:
        The true instance.
    kind:
        Whether tenants or jobs report.
    scale:
        See :data:`ReportScale`.
    """

    def __init__(self, instance: Instance, kind: Kind, scale: ReportScale = "kept") -> None:
        self.instance = instance
        self.entities: Entities = instance.entities(kind)
        self.rows = CandidateRows(self.entities, scale)

    def apply(self, report: Report) -> Instance:
        """The instance under the report, as the policy gets it."""
        rows = {
            e: dict(zip(self.entities.types, self.rows.seen(e, row), strict=True)) for e, row in report.rows.items()
        }
        if self.entities.kind == "jobs":
            jobs = tuple(job.with_throughput(rows[i]) if i in rows else job for i, job in enumerate(self.instance.jobs))
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
        """``tenants`` with a fake job type (or tenant) at the end, so that true rows keep their positions."""
        owner = tenants[report.faker]
        first = int(np.flatnonzero(self.entities.owner == report.faker)[0])
        assert report.fake is not None
        speedup = dict(zip(self.entities.types, self.rows.seen(first, report.fake), strict=True))
        if report.kind == "tenant":
            name = _unused("fake", {t.name for t in tenants})
            fake_tenant = Tenant(name, (JobType("jobs", speedup, any_scale=True),), owner.weight)
            return replace(self.instance, tenants=(*tenants, fake_tenant))
        fake = JobType(_unused("fake", {j.name for j in owner.job_types}), speedup, any_scale=True)
        tenants[report.faker] = replace(owner, job_types=(*owner.job_types, fake))
        held = dict(self.instance.held)
        if len(owner.job_types) == 1 and owner.name in held:  # its entity is now named tenant/job type
            held[f"{owner.name}/{owner.job_types[0].name}"] = held.pop(owner.name)
        return replace(self.instance, tenants=tuple(tenants), held=held)

    def all(self, kinds: tuple[MisreportKind, ...], misreporting: tuple[int, ...]) -> Iterator[Report]:
        """Candidates in turn of all kinds, and within a kind in turn of all entities (or pairs)."""
        return in_turn([in_turn(self._streams(kind, misreporting)) for kind in kinds])

    def _streams(self, kind: MisreportKind, misreporting: tuple[int, ...]) -> list[Iterator[Report]]:
        if kind == "coalition":
            return [self._pairs(misreporting)]
        if kind in ("job type", "tenant"):
            return [self._fakes(owner, kind) for owner in misreporting] if self.entities.kind == "tenants" else []
        return [self._single(owner, kind) for owner in misreporting]

    def rows_of(self, owner: int) -> list[int]:
        """Positions of the entities of a tenant (or of the job itself)."""
        return np.flatnonzero(self.entities.owner == owner).tolist()

    def _single(self, owner: int, kind: MisreportKind) -> Iterator[Report]:
        for e in self.rows_of(owner):
            for row in self.rows.candidates(e):
                if direction(np.array(row), self.entities.speed[e]) == kind:
                    yield Report(kind, {e: row})

    def _pairs(self, misreporting: tuple[int, ...]) -> Iterator[Report]:
        """Pairs with the same direction; each member tries a few rows, and all pairs start with the first ones."""

        @cache
        def choices(owner: int, way: str) -> list[tuple[int, Row]]:
            e = self.rows_of(owner)[0]
            fits = (row for row in self.rows.candidates(e) if direction(np.array(row), self.entities.speed[e]) == way)
            return [(e, row) for row in islice(fits, ROWS_IN_PAIRS)]

        places = sorted(product(range(ROWS_IN_PAIRS), repeat=2), key=sum)
        for (i, j), way in product(places, ("under", "over")):
            for a, b in combinations(misreporting, 2):
                if i < len(choices(a, way)) and j < len(choices(b, way)):
                    yield Report("coalition", dict((choices(a, way)[i], choices(b, way)[j])))

    def _fakes(self, owner: int, kind: MisreportKind) -> Iterator[Report]:
        e = self.rows_of(owner)[0]
        for row in self.rows.candidates(e):
            yield Report(kind, {}, row, owner)
        for j in range(self.entities.shape[1]):  # a job that runs on this type alone
            only = np.where(np.arange(self.entities.shape[1]) == j, self.entities.speed[e, self.rows.slowest[e]], 0.0)
            yield Report(kind, {}, tuple(only.tolist()), owner)


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
