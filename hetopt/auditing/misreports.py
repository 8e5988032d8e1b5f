"""CandidateRows of speeds that one entity may report instead of its true row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, combinations, islice, product
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from hetopt.data.entities import Entities, Floats, Kind
from hetopt.data.instance import Instance
from hetopt.data.workload import JobType, Tenant
from hetopt.tolerances import NUDGE

Row: TypeAlias = tuple[float, ...]

ReportScale = Literal["kept", "divided", "raw"]
"""What reports look like and what the policy sees of them.

``"kept"``
    Normalised rows: the speed on the slowest GPU type is reported truly (1 in OEF, section 2.3).
``"divided"``
    Raw throughputs, over or under in each entry, which are then divided by their slowest entry, as OEF's profiler
    does. An over-report of the slowest GPU alone thus becomes an under-report.
``"raw"``
    Raw throughputs, seen as they are.
"""

FACTORS = (0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of true entries that are tried."""

POWERS = (0.0, 0.5, 2.0)
"""Exponents of whole rows: 0 makes a row flat, 2 steep."""


def direction(reported: Floats, true: Floats) -> Literal["over", "under", "mixed"] | None:
    """How a row compares with the truth; None if it is the truth."""
    above, below = bool((reported > true).any()), bool((reported < true).any())
    if above and below:
        return "mixed"
    return "over" if above else "under" if below else None


class CandidateRows:
    """What each of ``entities`` may report, in a fixed order.

    Parameters
    ----------
    entities:
        The truth.
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
        """``row`` as a report must look: with ``"kept"`` no type runs slower than the slowest truly does.

        A (fake) row that is zero on the slowest type is measured by its own slowest.
        """
        if self.scale != "kept" or not any(v > 0 for v in row):
            return row
        s = self.slowest[e]
        base = float(self.entities.speed[e, s])
        factor = 1.0 if row[s] > 0 else base / min(v for v in row if v > 0)
        return tuple(max(v * factor, base) if v > 0 else 0.0 for v in row)

    def seen(self, e: int, row: Row) -> Row:
        """The row that reaches the policy: with ``"divided"`` its smallest positive entry is the true row's."""
        if self.scale != "divided":
            return row
        truth = float(self.entities.speed[e, self.slowest[e]])
        return tuple(v * truth / min(x for x in row if x > 0) for v in row)

    def candidates(self, e: int) -> Iterator[Row]:
        """Whole rows first, then single entries; no row twice, none that is the truth or all zero."""
        true, told = tuple(self.entities.speed[e].tolist()), set()
        for values in chain(self._whole_rows(e), self._entries(e)):
            row = self.normal(e, tuple(values.tolist()))
            if row not in told and any(v > 0 for v in row) and row != true:
                told.add(row)
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
        """CandidateRows of the others, scaled to the same speed on the slowest type of ``e``; each once."""
        s, speed = self.slowest[e], self.entities.speed
        rows = speed[(speed[:, s] > 0) & (np.arange(len(speed)) != e)]
        return list(np.unique(rows / rows[:, [s]] * speed[e, s], axis=0)) if len(rows) else []

    def _entries(self, e: int) -> Iterator[Floats]:
        """One entry changed: to others' ratios (and just beside them), to multiples, to the slowest, to nothing."""
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
        """Entries at which type ``j`` would be to another type what it is to some other entity; each once."""
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
    Two liars at once, both over or both under; it pays only if both gain.
``"job type"``
    A fake job type is added, and the tenant's weight divided (OEF, section 4.2.4).
``"tenant"``
    A fake tenant of the same weight is added. Not tried unless asked for: most policies lose to it trivially.
"""

ROWS_IN_PAIRS = 6
"""CandidateRows that each member of a coalition tries, in each direction."""

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """One misreport: changed rows by entity, and perhaps a fake row in the name of tenant ``faker``."""

    kind: MisreportKind
    rows: Mapping[int, Row]
    fake: Row | None = None
    faker: int = -1

    def key(self) -> tuple[object, ...]:
        """What makes two reports the same."""
        return self.kind == "tenant", tuple(sorted(self.rows.items())), self.fake, self.faker


class ReportGenerator:
    """All that liars in ``instance`` may report.

    Parameters
    ----------
    instance:
        The truth.
    kind:
        Whether tenants or jobs report.
    scale:
        See :data:`ReportScale`.
    """

    def __init__(self, instance: Instance, kind: Kind, scale: ReportScale = "kept") -> None:
        self.instance = instance
        self.entities: Entities = instance.entities(kind)
        self.rows = CandidateRows(self.entities, scale)

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

    def all(self, kinds: tuple[MisreportKind, ...], liars: tuple[int, ...]) -> Iterator[Report]:
        """Candidates of all kinds in turn, within a kind of all liars (or pairs of liars) in turn."""
        return in_turn([in_turn(self._streams(kind, liars)) for kind in kinds])

    def _streams(self, kind: MisreportKind, liars: tuple[int, ...]) -> list[Iterator[Report]]:
        if kind == "coalition":
            return [self._pairs(liars)]
        if kind in ("job type", "tenant"):
            return [self._fakes(person, kind) for person in liars] if self.entities.kind == "tenants" else []
        return [self._single(person, kind) for person in liars]

    def rows_of(self, person: int) -> list[int]:
        """CandidateRows of entities that belong to a tenant (or the job itself)."""
        return np.flatnonzero(self.entities.owner == person).tolist()

    def _single(self, person: int, kind: MisreportKind) -> Iterator[Report]:
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

    def _fakes(self, person: int, kind: MisreportKind) -> Iterator[Report]:
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
