"""The nodes as the engine reports them: what is new goes to the state database, what is not free is left out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hetopt.executor.engines.engine import Engine, Node, Seat
from hetopt.executor.lease_record import INTENT
from hetopt.executor.leases import OpenLease, StopReason
from hetopt.executor.state_database import Cache, StateDatabase

UNUSED_SECONDS = 300.0
"""Seats of a lease that the engine did not begin are granted again after this time: others use cores there, say."""

GONE_SECONDS = 150.0
"""A GPU that the engine has not reported for this time is gone (``nvidia_watch.QUERY_SECONDS`` have passed twice)."""

Place = tuple[str | int, ...]
TypeOnNode = tuple[str, str]


class NodeMonitor:
    """Observes the nodes.

    Parameters
    ----------
    database, engine, cache:
        State, the source of nodes, and results of queries.

    Attributes
    ----------
    nodes:
        All nodes, as last reported.
    drained:
        Names of the nodes that are drained by ``hetopt drain``.
    """

    def __init__(self, database: StateDatabase, engine: Engine, cache: Cache) -> None:
        self.database, self.engine, self.cache = database, engine, cache
        self.nodes: tuple[Node, ...] = ()
        self.drained: frozenset[str] = frozenset()
        self._missing: Mapping[Place, float] = {}  # GPUs of leases that are not reported -> since when
        self._others: Mapping[TypeOnNode, int] | None = None  # GPUs that others use, at the last observation
        self._others_at_start: Mapping[str, Mapping[TypeOnNode, int]] = {}  # tag -> the same when the lease was new
        self._used_by_others: Mapping[TypeOnNode, int] = {}  # at the last two observations

    def observe(self, leases: Sequence[OpenLease]) -> None:
        """Ask the engine for its nodes, and record what is new.

        Raises
        ------
        EngineDown
            It does not answer.
        """
        self.nodes = self.engine.nodes()
        content = {}
        for node in self.nodes:
            gpus = dict(Counter(seat.gpu_type for seat in node.seats))
            fields = {"gpus": gpus, "up": node.up, "note": node.note, "memory_bytes": dict(node.memory_bytes)}
            content[node.name] = json.dumps(fields)
        self._observe_missing(leases)
        self._observe_others(leases)
        tags = {lease.tag for lease in leases} | {tag for _, tag, *_ in self._unused()}
        self._others_at_start = {tag: self._others_at_start.get(tag, self._used_by_others) for tag in tags}
        self.drained = self.cache.get(("nodes", tuple(content.items())), lambda: self._record(content))

    def _record(self, content: Mapping[str, str]) -> frozenset[str]:
        """Record what is new; the names of drained nodes."""
        with self.database.writing() as connection:
            rows = connection.rows("SELECT * FROM nodes")
            known = {row["name"]: row["content"] for row in rows}
            drained = frozenset(str(row["name"]) for row in rows if row["drained"])
            for name, new in content.items():
                if name not in known:
                    connection.insert("nodes", name=name, content=new)
                elif known[name] != new:
                    connection.update("nodes", {"content": new}, "name = :name", name=name)
                if known.get(name) != new:
                    self.database.record_event(connection, "node", node=name, **json.loads(new))
            for name in known.keys() - content.keys():
                if known[name] is None:
                    continue
                if name in drained:  # which it still is if it comes back
                    connection.update("nodes", {"content": None}, "name = :name", name=name)
                else:
                    connection.change("DELETE FROM nodes WHERE name = :name", name=name)
                self.database.record_event(connection, "node", node=name, gone=True)
        return drained

    # -- GPUs that are not reported

    def _observe_missing(self, leases: Sequence[OpenLease]) -> None:
        held = [seat for lease in leases for seat in lease.seats if seat.device]
        names = {seat.node for seat in held}
        there = {node.name: {seat.place for seat in node.seats} for node in self.nodes if node.name in names}
        missing = [seat.place for seat in held if seat.node in there and seat.place not in there[seat.node]]
        now = self.database.now()
        self._missing = {place: self._missing.get(place, now) for place in missing}

    def _is_gone(self, lease: OpenLease, seat: Seat) -> bool:
        """Whether a lease must do without this GPU; one that has not begun may have another at once."""
        since = self._missing.get(seat.place, math.inf)
        return self.database.now() - since >= (0.0 if lease.state == INTENT else GONE_SECONDS)

    def with_missing(self, node: Node, leases: Sequence[OpenLease]) -> Node:
        """The node with GPUs that only seem to be gone: leases that train there stay, and no other lease makes room."""
        own = [(lease, seat) for lease in leases for seat in lease.seats if seat.place in self._missing]
        more = [seat for lease, seat in own if seat.node == node.name and not self._is_gone(lease, seat)]
        return replace(node, seats=(*node.seats, *more)) if more else node

    # -- GPUs that others use

    def _observe_others(self, leases: Sequence[OpenLease]) -> None:
        """GPUs in use without a lease that runs there, now and at the observation before: leases start in between."""
        if not any(node.used for node in self.nodes):  # or the engine does not know
            self._others, self._used_by_others = {}, {}
            return
        own = Counter((seat.node, seat.gpu_type) for lease in leases if _runs(lease) for seat in lease.seats)
        used = {(node.name, t): number - own[node.name, t] for node in self.nodes for t, number in node.used.items()}
        others = {key: number for key, number in used.items() if number > 0}
        before = others if self._others is None else self._others
        self._used_by_others = {key: min(number, before[key]) for key, number in others.items() if key in before}
        self._others = others

    def _unused(self) -> list[tuple[float, str, str, str]]:
        """Seats of leases that the engine did not begin in time: second of the seal, tag, node, GPU type."""
        return self.cache.get("unused", self._read_unused)

    def _read_unused(self) -> list[tuple[float, str, str, str]]:
        with self.database.reading() as connection:
            return connection.tuples(
                """SELECT sealed, tag, node, gpu_type FROM leases JOIN seats ON seats.lease = leases.id
                WHERE outcome = 'revoked' AND stop_reason = :reason AND sealed > :since""",
                reason=StopReason.NOT_STARTED,
                since=self.database.now() - UNUSED_SECONDS,
            )

    def _count_unused(self) -> Counter[TypeOnNode]:
        """GPUs of unused reservations, less those that others use since then: these are left out already."""
        since = self.database.now() - UNUSED_SECONDS
        found, taken = Counter[TypeOnNode](), Counter[TypeOnNode]()
        for sealed, tag, node, gpu_type in self._unused():
            if sealed > since:
                key = node, gpu_type
                found[key] += 1
                before = self._others_at_start.get(tag, self._used_by_others).get(key, 0)
                taken[key] = max(taken[key], self._used_by_others.get(key, 0) - before)
        return found - taken

    # -- what can be granted

    def usable(self, leases: Sequence[OpenLease]) -> list[Node]:
        """Nodes on which a lease can start now, with the GPUs that are free for it, or will be soon.

        Left out are GPUs that others use, those on which a process that was given up may still live, and those of
        unused reservations.
        """
        there = [node for node in self.nodes if node.up and node.name not in self.drained]
        held = {seat.place for lease in leases if lease.state != INTENT for seat in lease.seats}
        blocked = {seat.place for node in there for seat in node.seats if seat.device in node.busy} - held
        blocked |= {seat.place for lease in leases if lease.is_lost for seat in lease.seats}
        fewer = Counter(self._used_by_others) + self._count_unused()
        return [self._without(node, blocked, fewer, leases) for node in there]

    def closed(self, leases: Sequence[OpenLease]) -> list[Node]:
        """Nodes on which the engine starts nothing now, with the GPUs of leases that run there: these continue."""
        running = [lease for lease in leases if _runs(lease) and not (lease.is_lost or lease.is_stopping)]
        held = [seat for lease in running for seat in lease.seats]
        closed = [node for node in self.nodes if not node.up and node.name not in self.drained]
        nodes = [replace(node, seats=tuple(seat for seat in held if seat.node == node.name)) for node in closed]
        return [node for node in nodes if node.seats]

    @staticmethod
    def _without(
        node: Node, blocked: Collection[Place], fewer: Mapping[TypeOnNode, int], leases: Sequence[OpenLease]
    ) -> Node:
        """The node without these places, and with this number fewer: first free ones, then those not begun yet."""
        if not blocked and not fewer:
            return node
        left = {t: n for (name, t), n in fewer.items() if name == node.name}
        mine = {seat.place: _runs(lease) for lease in leases for seat in lease.seats if seat.node == node.name}
        gone = set(blocked)
        for state in (None, False):
            for seat in reversed(node.seats):
                if left.get(seat.gpu_type, 0) > 0 and seat.place not in gone and mine.get(seat.place) is state:
                    left[seat.gpu_type] -= 1
                    gone.add(seat.place)
        return replace(node, seats=tuple(seat for seat in node.seats if seat.place not in gone))

    def to_stop(self, leases: Sequence[OpenLease]) -> dict[str, StopReason]:
        """Tag of a lease that must stop at once because of its nodes or GPUs -> why."""
        found = dict[str, StopReason]()
        busy = {device for node in self.nodes for device in node.busy}
        if not (self.drained or self._missing or busy):
            return found
        for lease in leases:
            if not self.drained.isdisjoint(lease.nodes):
                found[lease.tag] = StopReason.NODE_DRAINED
            elif any(self._is_gone(lease, seat) for seat in lease.seats):
                found[lease.tag] = StopReason.GPU_LOST
            elif lease.state == INTENT and any(seat.device in busy for seat in lease.seats):
                found[lease.tag] = StopReason.GPU_BUSY
        return found


def _runs(lease: OpenLease) -> bool:
    """Whether a process of it was seen, so that it uses its GPUs."""
    return lease.running is not None
