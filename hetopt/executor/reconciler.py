"""The reconciler: from what runs to the targets of the last decision. It chooses what stops, starts, and is profiled.

All of it follows from the state database: what is not done yet is done in the next pass, also by another controller.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetopt.executor.connection import Connection
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.lease_manager import LeaseManager
from hetopt.executor.lease_record import PROFILE, SEALED, TRAIN, by_node
from hetopt.executor.leases import OpenLease, StopReason, grant, job_numbered, steps_of
from hetopt.executor.profiler import ProfilingRun
from hetopt.executor.round_decision import Target, shares
from hetopt.executor.state_database import StateDatabase
from hetopt.simulation.profiling import fewest


def write_targets(connection: Connection, targets: Iterable[Target]) -> None:
    """Record the targets of a new decision in place of those of the last one."""
    rows = [
        {"job": t.job, "copy": t.copy, "seats": json.dumps(t.seats), "work": t.work, "until_step": None}
        for t in targets
    ]
    connection.change("DELETE FROM targets")
    queued = set(connection.column("SELECT id FROM jobs WHERE state = 'queued'"))
    connection.insert_all("targets", [row for row in rows if row["job"] in queued])


def read_targets(database: StateDatabase) -> list[Target]:
    """The targets of the last decision."""
    with database.reading() as connection:
        rows = connection.execute("SELECT job, copy, seats, work FROM targets ORDER BY job, copy")
        return [Target(job, copy, json.loads(seats), work) for job, copy, seats, work in rows]


@dataclass
class Reconciler:
    """Stops and starts leases.

    Parameters
    ----------
    database, manager:
        State, and the manager of leases.
    """

    database: StateDatabase
    manager: LeaseManager

    def stop(
        self,
        leases: Sequence[OpenLease],
        targets: Sequence[Target],
        round_number: int,
        must_stop: Mapping[str, StopReason],
    ) -> None:
        """Stop leases that differ from the targets, and at once those in ``must_stop`` (tag -> why).

        A lease that is starting may reach its first step: otherwise rounds that are shorter than a start would keep all
        jobs starting for ever.
        """
        wanted = {(target.job, target.copy): target for target in targets}
        asked: list[tuple[OpenLease, StopReason]] = []
        for lease in leases:
            if not lease.is_stopping and lease.tag in must_stop:
                asked.append((lease, must_stop[lease.tag]))
                continue
            if lease.kind != TRAIN or lease.is_stopping or lease.is_lost:
                continue
            if lease.first_tick is None and self._is_starting(lease):
                continue
            target = wanted.get((lease.job_id, lease.copy))
            if lease.forked and lease.round != round_number:
                asked.append((lease, StopReason.ROUND_ENDED))
            elif target is None:
                asked.append((lease, StopReason.PREEMPTED))
            elif target.seats != lease.held or target.forked != lease.forked:
                asked.append((lease, StopReason.MOVES))
        self.manager.stop(asked)

    def _is_starting(self, lease: OpenLease) -> bool:
        """Whether the first step may still come."""
        return bool(self.database.now() - lease.granted < self.manager.timeouts.first_tick_seconds)

    def profile(
        self, runs: Sequence[ProfilingRun], leases: Sequence[OpenLease], nodes: Sequence[Node], *, pause: bool
    ) -> set[str]:
        """Start profiling runs where GPUs are free; with ``pause`` others make room [FFT, section 5].

        Returns
        -------
        set
            GPU types for which a run waits: nothing else must start there.
        """
        waiting: set[str] = set()
        busy = {lease.job_id for lease in leases} | self._backing_off()
        free = free_seats(nodes, leases)
        for run in runs:
            if run.job in busy or run.gpu_type in waiting:  # an earlier run waits there
                continue
            if (chosen := gang(free, run.gpu_type, run.workers)) is not None:
                with self.database.writing() as connection:
                    tag = grant(connection, self.database, run.job, chosen, kind=PROFILE)
                if tag is not None:
                    busy.add(run.job)
                    for seat in chosen:
                        free.remove(seat)
                continue
            waiting.add(run.gpu_type)
            if pause:
                self._make_room(run, leases, nodes, free)
        return waiting

    def _make_room(
        self, run: ProfilingRun, leases: Sequence[OpenLease], nodes: Sequence[Node], free: Collection[Seat]
    ) -> None:
        """Stop the fewest leases that hold enough GPUs of the type; they go on when the run is over."""
        there = sum(seat.gpu_type == run.gpu_type for seat in free)
        usable = {seat.place for node in nodes for seat in node.seats}
        holders, coming = [], 0
        for lease in leases:
            number = sum(seat.gpu_type == run.gpu_type and seat.place in usable for seat in lease.seats)
            if number and (lease.kind == PROFILE or lease.is_stopping):
                coming += number  # free soon anyway
            elif number:
                holders.append((lease, float(number)))
        numbered = [(i, number) for i, (_, number) in enumerate(holders)]
        chosen = fewest(run.workers - there - coming, numbered)
        self.manager.stop([(holders[i][0], StopReason.PROFILING) for i in chosen])

    def start(
        self,
        targets: Sequence[Target],
        leases: Sequence[OpenLease],
        nodes: Sequence[Node],
        *,
        blocked: Collection[str],
        round_number: int,
    ) -> None:
        """OpenLease every target that has no lease yet, and whose GPUs are free.

        A target on a node that is no longer usable gets as many GPUs of the same types elsewhere, of those that no
        other target needs: the rest of the round is not lost for it.
        """
        open_copies = {(lease.job_id, lease.copy) for lease in leases}
        open_jobs = defaultdict[int, list[OpenLease]](list)
        for lease in leases:
            open_jobs[lease.job_id].append(lease)
        wanted, backing_off = [], self._backing_off()
        for target in targets:
            others = open_jobs.get(target.job, ())
            if target.job in backing_off:
                continue
            if (target.job, target.copy) in open_copies or (others and not target.forked):
                continue
            if any(not one.forked or one.round != round_number for one in others):
                continue
            if not set(blocked) & {t for gpus in target.seats.values() for t in gpus}:
                wanted.append(target)
        free = free_seats(nodes, leases)
        held = {(lease.job_id, lease.copy): lease.held for lease in leases}
        needed = [target for target in targets if held.get((target.job, target.copy)) != target.seats]
        if moved := moved_targets(wanted, needed, {node.name for node in nodes}, free):
            with self.database.writing() as connection:
                for target in moved:
                    own = {"seats": json.dumps(target.seats)}
                    connection.update("targets", own, "job = :job AND copy = 0", job=target.job)
            wanted = [*moved, *(target for target in wanted if target.job not in {one.job for one in moved})]
        if able := [target for target in wanted if exactly(free, target.seats) is not None]:
            with self.database.writing() as connection:
                for target in able:
                    self._grant(connection, target, free, round_number)

    def _backing_off(self) -> set[int]:
        """Jobs that back off."""
        until = self.manager.cache.get("backing off", self._read_not_before)
        return {job for job, second in until.items() if second > self.database.now()} if until else set()

    def _read_not_before(self) -> dict[int, float]:
        with self.database.reading() as connection:
            return dict(connection.execute("SELECT id, not_before FROM jobs WHERE state = 'queued' AND not_before > 0"))

    def _grant(self, connection: Connection, target: Target, free: list[Seat], round_number: int) -> None:
        """OpenLease a target if that is possible; what it takes is ``free`` no longer."""
        if (chosen := exactly(free, target.seats)) is None:
            return
        until = self._until(connection, target.job, target.copy) if target.forked else None
        if target.forked and until is None:
            return
        tag = grant(
            connection,
            self.database,
            target.job,
            chosen,
            copy=target.copy,
            forked=target.forked,
            until_step=until,
            round_number=round_number,
        )
        if tag is not None:
            for seat in chosen:
                free.remove(seat)

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
            needs.update({(node, gpu_type): number for gpu_type, number in gpus.items()})
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
