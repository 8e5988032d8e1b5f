"""What a controller sees: the engine's hosts, and the jobs that may be scheduled or must be profiled first."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hetopt.executor.cache import Cache
from hetopt.executor.connection import Connection, Row
from hetopt.executor.engines.engine import Engine, Node, Seat
from hetopt.executor.job_file import JobSpec
from hetopt.executor.leases import INTENT, PROFILE, TRAIN, LeaseRecord, StopReason
from hetopt.executor.queue import FAILED, spec_of
from hetopt.executor.reconciler import ProfilingRun
from hetopt.executor.round_decision import ClusterState
from hetopt.executor.speeds import (
    Kind,
    Speed,
    Speeds,
    allowed_types,
    kind_of,
    measured_of,
    memory_of,
    read_speeds,
    take_over,
    to_profile,
)
from hetopt.executor.state_database import StateDatabase

IN_VAIN_SECONDS = 300.0
"""For so long nothing is granted where a lease has waited in vain: cores or memory there are others', for instance."""


GONE_SECONDS = 150.0
"""A GPU of which the engine does not speak for so long is gone: it has looked twice (``nvidia_watch.LOOK_SECONDS``).

So is the hope that a lease that was given up will be over soon.
"""

BEGIN_SECONDS = 30.0
"""For so long others of its kind wait for a profiling run that the engine has not begun."""


class Profiler:
    """Looks at hosts and jobs.

    Parameters
    ----------
    database, engine:
        The books, and who knows the hosts.
    cache:
        What was read and has not changed.
    profile:
        New jobs are profiled before they are scheduled.

    Attributes
    ----------
    nodes:
        All hosts, as the engine last told.
    drained:
        Names of those that shall be emptied.
    """

    def __init__(self, database: StateDatabase, engine: Engine, cache: Cache, *, profile: bool) -> None:
        self.database, self.engine, self.cache, self.profile = database, engine, cache, profile
        self.nodes: tuple[Node, ...] = ()
        self.drained: frozenset[str] = frozenset()
        self._missing: Mapping[tuple[str | int, ...], float] = {}  # place of a GPU that a lease holds -> since when
        self._others: Mapping[tuple[str, str], int] | None = None
        self._others_then: Mapping[str, Mapping[tuple[str, str], int]] = {}  # when a lease was first looked at
        self._held_by_others: Mapping[tuple[str, str], int] = {}

    def usable(self, leases: Sequence[LeaseRecord]) -> list[Node]:
        """Hosts on which something may be started now, with the GPUs that are, or soon will be, free for it.

        Left out are those that others use, those on which a process that was given up may still live (nobody knows for
        how long), and as many as a lease has waited for in vain.
        """
        there = [node for node in self.nodes if node.up and node.name not in self.drained]
        stuck = {seat.place for lease in leases if lease.row["lost_since"] is not None for seat in lease.seats}
        gone = Counter(self._held_by_others) + self._waited_in_vain()
        return [self._without(node, stuck, gone, leases) for node in there]

    def _closed(self, leases: Sequence[LeaseRecord]) -> list[Node]:
        """Nodes on which the engine starts nothing now, with the GPUs of leases that run there: these go on."""
        closed = [node for node in self.nodes if not node.up and node.name not in self.drained]
        if not closed:
            return []
        running = [lease for lease in leases if _runs(lease) and lease.row["lost_since"] is None]
        held = [seat for lease in running if lease.row["stop_asked"] is None for seat in lease.seats]
        nodes = [replace(node, seats=tuple(seat for seat in held if seat.node == node.name)) for node in closed]
        return [node for node in nodes if node.seats]

    def _with_missing(self, node: Node, leases: Sequence[LeaseRecord]) -> Node:
        """The node with GPUs that may only seem to be gone: who trains there stays, and nobody else makes room."""
        if not self._missing:
            return node
        own = [(lease, seat) for lease in leases for seat in lease.seats if seat.place in self._missing]
        more = [seat for lease, seat in own if seat.node == node.name and not self._is_gone(lease, seat)]
        return replace(node, seats=(*node.seats, *more)) if more else node

    def _is_gone(self, lease: LeaseRecord, seat: Seat) -> bool:
        """Whether a lease has to do without this GPU; one that has not begun may look for another at once."""
        since = self._missing.get(seat.place, math.inf)
        return self.database.now() - since >= (0.0 if lease.row["state"] == INTENT else GONE_SECONDS)

    def _miss(self, leases: Sequence[LeaseRecord]) -> None:
        """Write down which GPUs of leases the engine has not told of, though it has of their nodes."""
        held = [seat for lease in leases for seat in lease.seats if seat.device]
        names = {seat.node for seat in held}
        there = {node.name: {seat.place for seat in node.seats} for node in self.nodes if node.name in names}
        missing = [seat.place for seat in held if seat.node in there and seat.place not in there[seat.node]]
        now = self.database.now()
        self._missing = {place: self._missing.get(place, now) for place in missing}

    def _waited_in_vain(self) -> Counter[tuple[str, str]]:
        """(node, GPU type) -> GPUs that a lease was granted and the engine did not give it in time, not long ago.

        Without those that others have taken meanwhile: for them it has waited, and they are left out already.
        """
        since = self.database.now() - IN_VAIN_SECONDS
        found, taken = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for sealed, tag, *where in self.cache.get("in vain", self._read_in_vain):
            if sealed > since:
                key = where[0], where[1]
                found[key] += 1
                now = self._held_by_others.get(key, 0)
                taken[key] = max(taken[key], now - self._others_then.get(tag, self._held_by_others).get(key, 0))
        return found - taken

    def _read_in_vain(self) -> list[tuple[float, str, str, str]]:
        with self.database.reading() as connection:
            return connection.tuples(
                """SELECT sealed, tag, node, gpu_type FROM leases JOIN seats ON seats.lease = leases.id
                WHERE outcome = 'revoked' AND stop_reason = :reason AND sealed > :since""",
                reason=StopReason.NOT_STARTED,
                since=self.database.now() - IN_VAIN_SECONDS,
            )

    def look(self, leases: Sequence[LeaseRecord]) -> None:
        """Ask the engine for its hosts, and write down what is new of them.

        Raises
        ------
        EngineDown
            It does not answer.
        """
        nodes = self.engine.nodes()
        said = {}
        for node in nodes:
            gpus = dict(Counter(seat.gpu_type for seat in node.seats))
            told = {"gpus": gpus, "up": node.up, "note": node.note, "memory_bytes": dict(node.memory_bytes)}
            said[node.name] = json.dumps(told)
        self.nodes = nodes
        self._miss(leases)
        self._count_others(leases)
        kept = {lease.tag for lease in leases} | {tag for _, tag, *_ in self.cache.get("in vain", self._read_in_vain)}
        self._others_then = {tag: self._others_then.get(tag, self._held_by_others) for tag in kept}
        self.drained = self.cache.get(("nodes", tuple(said.items())), lambda: self._write_down(said))

    def _count_others(self, leases: Sequence[LeaseRecord]) -> None:
        """GPUs that are in use though no lease runs there, now and at the last look: between two looks leases come."""
        if not any(node.used for node in self.nodes):  # or the engine does not tell
            self._others, self._held_by_others = {}, {}
            return
        own = Counter((seat.node, seat.gpu_type) for lease in leases if _runs(lease) for seat in lease.seats)
        others = {
            (node.name, gpu_type): number - own[node.name, gpu_type]
            for node in self.nodes
            for gpu_type, number in node.used.items()
            if number > own[node.name, gpu_type]
        }
        before = others if self._others is None else self._others
        self._held_by_others = {key: min(number, before[key]) for key, number in others.items() if key in before}
        self._others = others

    def _without(
        self,
        node: Node,
        stuck: Collection[tuple[str | int, ...]],
        others: Mapping[tuple[str, str], int],
        leases: Sequence[LeaseRecord],
    ) -> Node:
        """The node without those GPUs, and as many fewer as others use: free ones, then those a lease waits for."""
        left = {t: n for (name, t), n in others.items() if name == node.name}
        if stuck:
            seats = tuple(seat for seat in node.seats if seat.place not in stuck)
            node = node if len(seats) == len(node.seats) else replace(node, seats=seats)
        if not left:
            return node
        mine = {seat.place: _runs(lease) for lease in leases for seat in lease.seats if seat.node == node.name}
        gone = set()
        for lease in (None, False):
            for seat in reversed(node.seats):
                if left.get(seat.gpu_type, 0) > 0 and seat.place not in gone and mine.get(seat.place) is lease:
                    left[seat.gpu_type] -= 1
                    gone.add(seat.place)
        return replace(node, seats=tuple(seat for seat in node.seats if seat.place not in gone))

    def leave(self, leases: Sequence[LeaseRecord]) -> dict[str, StopReason]:
        """Tag of a lease that shall end at once, whatever it holds besides -> why."""
        found = dict[str, StopReason]()
        if not (self.drained or self._missing):
            return found
        for lease in leases:
            if any(node in self.drained for node in lease.held):
                found[lease.tag] = StopReason.NODE_DRAINED
            elif any(self._is_gone(lease, seat) for seat in lease.seats):
                found[lease.tag] = StopReason.GPU_LOST
        return found

    def _write_down(self, said: Mapping[str, str]) -> frozenset[str]:
        """Write down what is new; names of the hosts that are drained."""
        with self.database.writing() as connection:
            rows = connection.rows("SELECT * FROM nodes")
            known = {row["name"]: row["content"] for row in rows}
            drained = frozenset(str(row["name"]) for row in rows if row["drained"])
            for name, content in said.items():
                if name not in known:
                    connection.insert("nodes", name=name, content=content)
                elif known[name] != content:
                    connection.update("nodes", {"content": content}, "name = :name", name=name)
                if known.get(name) != content:
                    self.database.record_event(connection, "node", node=name, **json.loads(content))
            for name in known.keys() - said.keys():
                if known[name] is None:
                    continue
                if name in drained:  # which it still is should it come back
                    connection.update("nodes", {"content": None}, "name = :name", name=name)
                else:
                    connection.change("DELETE FROM nodes WHERE name = :name", name=name)
                self.database.record_event(connection, "node", node=name, gone=True)
        return drained

    def cluster_state(self, leases: Sequence[LeaseRecord]) -> tuple[ClusterState, list[ProfilingRun]]:
        """What a decision would rest on now, and the profiling runs that are wanted first."""
        usable = self.usable(leases)
        nodes = [self._with_missing(node, leases) for node in usable] + self._closed(leases)
        capacity = dict(Counter(seat.gpu_type for node in usable for seat in node.seats))
        memory = memory_of(self.nodes)
        key = ("jobs", tuple(capacity.items()), tuple(memory.items()))
        ready, wanted, speeds = self.cache.get(key, lambda: self._jobs(capacity, memory))
        now = self.database.now()
        held = {lease.row["job"]: lease for lease in sorted(leases, key=lambda one: one.row["lost_since"] is not None)}
        ready = [row for row in ready if self._may_start(row, held.get(row["id"]), now)]  # nobody waits for the others
        trials = self._trials(wanted, held, now)
        leave = self.leave(leases)
        staying = [one for one in leases if one.row["stop_asked"] is None and one.tag not in leave]
        training = [lease for lease in staying if lease.row["kind"] == TRAIN]
        whole = dict(Counter(seat.gpu_type for node in self.nodes for seat in node.seats))
        return ClusterState(now, nodes, ready, training, speeds, whole=whole), trials

    def _jobs(
        self, capacity: Mapping[str, int], memory: Mapping[str, float]
    ) -> tuple[list[Row], list[tuple[Row, Sequence[str]]], Speeds]:
        """Jobs that may be scheduled, those that must be profiled with the types, and what was measured."""
        with self.database.writing() as connection:
            jobs = connection.rows("SELECT * FROM jobs WHERE state = 'queued' AND cancelled = 0 ORDER BY id")
            speeds, begun = read_speeds(connection), self._begun(connection)
            if self.profile and self._learn_from_others(connection, jobs, speeds, memory, capacity, begun):
                speeds = read_speeds(connection)
            ready = []
            wanted: list[tuple[Row, Sequence[str]]] = []
            for row in jobs:
                spec = spec_of(row)
                if self._is_impossible(spec, speeds.of(row["id"]), memory):
                    self._impossible(connection, row)
                    continue
                left = to_profile(spec, speeds.of(row["id"]), memory, capacity)
                if not self.profile or not left or row["id"] in begun:
                    ready.append(row)
                else:
                    wanted.append((row, left))
        return ready, wanted, speeds

    @staticmethod
    def _may_start(row: Row, lease: LeaseRecord | None, now: float) -> bool:
        """Whether it does not rest, nor waits for ever for the end of what was given up long ago."""
        lost = None if lease is None else lease.row["lost_since"]
        return bool(row["not_before"] <= now and (lost is None or now - lost < GONE_SECONDS))

    def _trials(
        self, wanted: Sequence[tuple[Row, Sequence[str]]], held: Mapping[int, LeaseRecord], now: float
    ) -> list[ProfilingRun]:
        """The next runs that are wanted; jobs of one kind wait for the first of them, if it will have its run soon."""
        trials, coming = [], set[tuple[Kind, str]]()
        for row, left in wanted:
            spec = spec_of(row)
            kind = kind_of(spec)
            if own := [t for t in left if kind is None or (kind, t) not in coming]:
                trials.append(ProfilingRun(row["id"], own[0], spec.workers))
            if kind is not None and self._will_tell(row, held.get(row["id"]), now):
                coming |= {(kind, t) for t in left}
        return trials

    @staticmethod
    def _will_tell(row: Row, lease: LeaseRecord | None, now: float) -> bool:
        """Whether a job that is to be profiled is being so, or may begin to be."""
        if lease is None:
            return bool(row["not_before"] <= now)
        begins = lease.row["running"] is not None or now - lease.row["granted"] < BEGIN_SECONDS
        return bool(lease.row["kind"] == PROFILE and lease.row["lost_since"] is None and begins)

    @staticmethod
    def _learn_from_others(
        connection: Connection,
        jobs: Sequence[Row],
        speeds: Speeds,
        memory: Mapping[str, float],
        capacity: Mapping[str, int],
        begun: Collection[int],
    ) -> bool:
        """Let jobs that are to be profiled have what was measured of others of their kind; whether there was any."""
        found: dict[Kind, Mapping[str, Row]] = {}
        for row in jobs:
            spec, known = spec_of(row), speeds.of(row["id"])
            if (kind := kind_of(spec)) is None or row["id"] in begun:
                continue
            if not known or to_profile(spec, known, memory, capacity):
                if kind not in found:
                    found[kind] = measured_of(connection, kind)
                take_over(connection, row["id"], found[kind].values())
        return any(found.values())

    @staticmethod
    def _begun(connection: Connection) -> set[int]:
        """Jobs that have trained: they were profiled when they came, and other types are measured as they train."""
        return set(
            connection.column(
                """SELECT id FROM jobs WHERE state = 'queued' AND EXISTS
                (SELECT * FROM leases WHERE job = jobs.id AND kind = 'train' AND first_tick IS NOT NULL)"""
            )
        )

    def _is_impossible(self, spec: JobSpec, known: Mapping[str, Speed], memory: Mapping[str, float]) -> bool:
        """Whether it has run out of memory, and there is no GPU type left, not even on hosts that are down."""
        if all(speed.feasible for speed in known.values()):
            return False
        types = {seat.gpu_type for node in self.nodes for seat in node.seats} | memory.keys()  # also of lost GPUs
        return bool(types) and not allowed_types(spec, known, memory, types)

    def _impossible(self, connection: Connection, row: Row) -> None:
        """A job that has run out of memory on every GPU type there is."""
        reason = "it ran out of memory on every GPU type that it may run on"
        values = {"state": FAILED, "finished": self.database.now(), "reason": reason}
        connection.update("jobs", values, "id = :job", job=row["id"])
        self.database.record_event(connection, "failed", row["name"], reason=reason)


def _runs(lease: LeaseRecord) -> bool:
    """Whether a process of it was seen, so that it has its GPUs."""
    return lease.row["running"] is not None
