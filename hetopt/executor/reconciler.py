"""The reconciler: from what runs to the targets of the last decision. It chooses what stops, starts, and is profiled.

All of it follows from the state database: what is not done yet is done in the next pass, also by another controller.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hetopt.executor.cluster_state import ClusterState, ProfilingRun
from hetopt.executor.connection import Connection
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.lease_manager import LeaseManager
from hetopt.executor.lease_record import PROFILE, SEALED, TRAIN, by_node
from hetopt.executor.leases import OpenLease, StopReason, grant, job_numbered, steps_of
from hetopt.executor.round_decision import Target, shares
from hetopt.executor.state_database import StateDatabase
from hetopt.simulation.profiling import fewest


def write_targets(connection: Connection, targets: Iterable[Target]) -> None:
    """Record the targets of a new decision in place of those of the last one."""
    rows = [{"job": t.job, "copy": t.copy, "seats": json.dumps(t.seats), "work": t.work} for t in targets]
    connection.change("DELETE FROM targets")
    connection.insert_all("targets", rows)
    connection.change("DELETE FROM targets WHERE job NOT IN (SELECT id FROM jobs WHERE state = 'queued')")


def read_targets(database: StateDatabase) -> list[Target]:
    """The targets of the last decision."""
    with database.reading() as connection:
        rows = connection.execute("SELECT job, copy, seats, work FROM targets ORDER BY job, copy")
        return [Target(job, copy, _seats(seats), work) for job, copy, seats, work in rows]


_seats = lru_cache(maxsize=4096)(json.loads)  # they are read again whenever something else has changed


class Reconciler:
    """Stops leases and grants new ones."""

    def __init__(self, database: StateDatabase, manager: LeaseManager) -> None:
        self.database, self.manager = database, manager
        self._settled: tuple[object, ...] = ()  # with these, nothing was left to do

    def reconcile(self, state: ClusterState, targets: Sequence[Target], round_number: int) -> None:
        """Stop what differs from the targets of a round, and grant leases to profiling runs and to targets."""
        given = state.leases, state.usable, targets, round_number
        if self._settled and not state.runs and all(a is b for a, b in zip(given, self._settled, strict=True)):
            return
        self._stop(state, targets, round_number)
        state = replace(state, leases=self.manager.leases())
        blocked = self._profile(state)
        timed = self._start(replace(state, leases=self.manager.leases()), targets, blocked, round_number)
        timed |= bool(state.runs or state.stops) or any(lease.first_tick is None for lease in state.leases)
        self._settled = () if timed or self.manager.leases() is not given[0] else given

    # -- what stops

    def _stop(self, state: ClusterState, targets: Iterable[Target], round_number: int) -> None:
        wanted = {(target.job, target.copy): target for target in targets}
        asked = []
        for lease in state.leases:
            reason = self._why_stop(lease, wanted.get((lease.job_id, lease.copy)), state, round_number)
            if reason is not None and not lease.is_stopping:
                asked.append((lease, reason))
        self.manager.stop(asked)

    def _why_stop(
        self, lease: OpenLease, target: Target | None, state: ClusterState, round_number: int
    ) -> StopReason | None:
        """Why a lease stops; None where it may continue.

        One that is starting may reach its first step: otherwise rounds that are shorter than a start would keep all
        jobs starting for ever.
        """
        if lease.tag in state.stops:
            return state.stops[lease.tag]
        starts = lease.first_tick is None and state.now - lease.granted < self.manager.timeouts.first_tick_seconds
        if lease.kind != TRAIN or lease.is_lost or starts:
            return None
        if lease.forked and lease.round != round_number:
            return StopReason.ROUND_ENDED
        if target is None:
            return StopReason.PREEMPTED
        return StopReason.MOVES if (target.seats, target.forked) != (lease.held, lease.forked) else None

    # -- what is profiled

    def _profile(self, state: ClusterState) -> set[str]:
        """Grant leases to profiling runs where GPUs are free; others make room for them [FFT, section 5].

        Returns
        -------
        set
            GPU types for which a run waits: nothing else must start there.
        """
        waiting = set[str]()
        free = free_seats(state.usable, state.leases)
        for run in state.runs:
            if run.gpu_type in waiting:  # an earlier run waits there
                continue
            if (chosen := gang(free, run.gpu_type, run.workers)) is None:
                waiting.add(run.gpu_type)
                self._make_room(run, state, free)
                continue
            with self.database.writing() as connection:
                tag = self._grant(connection, run.job, chosen, kind=PROFILE)
            if tag is not None:
                _take(free, chosen)
        return waiting

    def _make_room(self, run: ProfilingRun, state: ClusterState, free: Iterable[Seat]) -> None:
        """Stop the fewest leases that hold enough GPUs of the type; they go on when the run is over."""
        missing = run.workers - sum(seat.gpu_type == run.gpu_type for seat in free)
        usable = {seat.place for node in state.usable for seat in node.seats}
        holders: list[tuple[int, float]] = []
        for i, lease in enumerate(state.leases):
            number = sum(seat.gpu_type == run.gpu_type and seat.place in usable for seat in lease.seats)
            if number and (lease.kind == PROFILE or lease.is_stopping):
                missing -= number  # free soon anyway
            elif number:
                holders.append((i, float(number)))
        self.manager.stop([(state.leases[i], StopReason.PROFILING) for i in fewest(missing, holders)])

    # -- what starts

    def _start(
        self, state: ClusterState, targets: Iterable[Target], blocked: Collection[str], round_number: int
    ) -> bool:
        """Grant a lease to every target that has none, and whose GPUs are free; whether some jobs back off.

        A target on a node that is no longer usable gets as many GPUs of the same types elsewhere, of those that no
        other target needs: the rest of the round is not lost for it.
        """
        with self.database.reading() as connection:
            query = "SELECT id FROM jobs WHERE state = 'queued' AND not_before > :now"
            backing_off = set(connection.column(query, now=self.database.now()))
        own = defaultdict[int, list[OpenLease]](list)
        for lease in state.leases:
            own[lease.job_id].append(lease)
        free, wanted, needed = free_seats(state.usable, state.leases), [], []
        for target in targets:
            others, types = own[target.job], {t for gpus in target.seats.values() for t in gpus}
            if all((lease.copy, lease.held) != (target.copy, target.seats) for lease in others):
                needed.append(target)
            excluded = any(
                not (target.forked and lease.forked) or lease.copy == target.copy or lease.round != round_number
                for lease in others
            )
            if not excluded and target.job not in backing_off and types.isdisjoint(blocked):
                wanted.append(target)
        usable = {node.name for node in state.usable}
        moved = {target.job: target for target in moved_targets(wanted, needed, usable, free)}
        wanted = [*moved.values(), *(target for target in wanted if target.job not in moved)]
        if any(exactly(free, target.seats) for target in wanted):
            with self.database.writing() as connection:
                for target in moved.values():
                    seats = {"seats": json.dumps(target.seats)}
                    connection.update("targets", seats, "job = :job AND copy = 0", job=target.job)
                for target in wanted:
                    self._grant_to(target, connection, free, round_number)
        return bool(backing_off)

    def _grant_to(self, target: Target, connection: Connection, free: list[Seat], round_number: int) -> None:
        """Grant it a lease if that is possible; what it gets is ``free`` no longer."""
        until, chosen = None, exactly(free, target.seats)
        if chosen and target.forked:
            until = self._until(connection, target.job, target.copy)
        if not chosen or (target.forked and until is None):
            return
        tag = self._grant(
            connection,
            target.job,
            chosen,
            copy=target.copy,
            forked=target.forked,
            until_step=until,
            round_number=round_number,
        )
        if tag is not None:
            _take(free, chosen)

    def _grant(self, connection: Connection, job: int, seats: Sequence[Seat], **more: Any) -> str | None:
        return grant(connection, self.database, job, seats, ttl_seconds=self.manager.timeouts.ttl_seconds, **more)

    @staticmethod
    def _until(connection: Connection, job: int, copy: int) -> int | None:
        """The step up to which a forked copy trains: where the round begins, and its share.

        The shares are settled once, when the first copy starts and the steps of the round before are committed; None
        for a copy that has ended its share, or has none.
        """
        row = job_numbered(connection, job)
        own = connection.rows("SELECT * FROM targets WHERE job = :job ORDER BY copy", job=job)
        unmerged = connection.rows(
            "SELECT copy, state FROM leases WHERE job = :job AND forked = 1 AND merged = 0", job=job
        )
        if all(target["until_step"] is None for target in own):
            if any(lease["state"] == SEALED for lease in unmerged):
                return None
            parts = shares(steps_of(row) - row["committed"], [target["work"] for target in own])
            untils = {target["copy"]: row["committed"] + part for target, part in zip(own, parts, strict=True)}
            for other, until in untils.items():
                connection.update("targets", {"until_step": until}, "job = :job AND copy = :copy", job=job, copy=other)
            return untils[copy] if untils[copy] > row["committed"] else None
        begun = any(lease["copy"] == copy for lease in unmerged)
        until = next(target["until_step"] for target in own if target["copy"] == copy)
        return None if begun or until is None or until <= row["committed"] else int(until)


def free_seats(nodes: Iterable[Node], leases: Iterable[OpenLease]) -> list[Seat]:
    """Seats of nodes that are up and that no lease holds, in order."""
    taken = {seat.place for lease in leases for seat in lease.seats}
    return [seat for node in nodes if node.up for seat in node.seats if seat.place not in taken]


def _take(free: list[Seat], chosen: Iterable[Seat]) -> None:
    for seat in chosen:
        free.remove(seat)


def moved_targets(
    wanted: Iterable[Target], needed: Iterable[Target], usable: Collection[str], free: Iterable[Seat]
) -> list[Target]:
    """Targets on nodes that are not usable, moved to other GPUs of the same types.

    Parameters
    ----------
    wanted:
        Targets that may be granted now; copies of a forked job stay where they are, each on its own host.
    needed:
        Targets without a lease that fits them; the GPUs that they name are left to them.
    usable:
        Nodes on which leases may start.
    free:
        Seats that no lease holds.
    """
    needs = Counter[tuple[str, str]]()
    for target in needed:
        for node, gpus in target.seats.items():
            for gpu_type, number in gpus.items():
                needs[node, gpu_type] += number
    spare, moved = [], []
    for seat in free:
        if needs[seat.node, seat.gpu_type] > 0:
            needs[seat.node, seat.gpu_type] -= 1
        else:
            spare.append(seat)
    for target in wanted:
        if target.forked or set(target.seats) <= set(usable):
            continue
        types = Counter[str]()
        for gpus in target.seats.values():
            types.update(gpus)
        parts = [gang(spare, gpu_type, number) for gpu_type, number in types.items()]
        if all(parts):
            chosen = [seat for part in parts for seat in part or ()]
            spare = [seat for seat in spare if seat not in chosen]
            moved.append(replace(target, seats=by_node(chosen)))
    return moved


def exactly(free: Iterable[Seat], wanted: Mapping[str, Mapping[str, int]]) -> list[Seat] | None:
    """Free seats for a target; None where there are too few."""
    left = {(node, t): n for node, gpus in wanted.items() for t, n in gpus.items()}
    chosen = []
    for seat in free:
        if left.get((seat.node, seat.gpu_type), 0) > 0:
            left[seat.node, seat.gpu_type] -= 1
            chosen.append(seat)
    return None if any(left.values()) else chosen


def gang(free: Sequence[Seat], gpu_type: str, workers: int) -> list[Seat] | None:
    """This number of free seats of a type on as few nodes as possible; None where there are too few."""
    by_node: dict[str, list[Seat]] = {}
    for seat in free:
        if seat.gpu_type == gpu_type:
            by_node.setdefault(seat.node, []).append(seat)
    enough = [own for own in by_node.values() if len(own) >= workers]
    if enough:
        return min(enough, key=len)[:workers]
    chosen = [seat for own in sorted(by_node.values(), key=len, reverse=True) for seat in own][:workers]
    return chosen if len(chosen) == workers else None
