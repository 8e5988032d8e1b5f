"""The nodes as the engine reports them: what is new goes to the state database, what is not free is left out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hetopt.executor.engines.engine import Engine, Node, Seat
from hetopt.executor.lease_record import INTENT
from hetopt.executor.leases import OpenLease, StopReason
from hetopt.executor.state_database import Cache, StateDatabase

UNUSED_SECONDS = 300.0
"""Seats of a lease that the engine did not begin are granted again after this time: others use cores there, say."""

GONE_SECONDS = 150.0
"""A GPU that the engine has not reported for this time is gone (``nvidia.QUERY_SECONDS`` have passed twice)."""

Place = tuple[str | int, ...]
TypeOnNode = tuple[str, str]


class NodeMonitor:
    """Observes the nodes.

    Attributes
    ----------
    nodes:
        All nodes, as last reported.
    drained:
        Names of the nodes that are drained by ``hetopt drain``.
    news:
        Number of observations that may have changed what can be granted.
    """

    def __init__(self, database: StateDatabase, engine: Engine, cache: Cache) -> None:
        self.database, self.engine, self.cache = database, engine, cache
        self.nodes: tuple[Node, ...] = ()
        self.drained: frozenset[str] = frozenset()
        self.news = 0
        self._leases: Sequence[OpenLease] = ()
        self._missing: Mapping[Place, float] = {}  # GPUs of leases that are not reported -> since when
        self._others: Counter[TypeOnNode] | None = None  # GPUs that others use, at the last observation
        self._others_at_start: Mapping[str, Counter[TypeOnNode]] = {}  # tag -> the same when the lease was new
        self._used_by_others = Counter[TypeOnNode]()  # at the last two observations

    def observe(self, leases: Sequence[OpenLease]) -> None:
        """Ask the engine for its nodes, and record what is new.

        Raises
        ------
        EngineDown
            It does not answer.
        """
        nodes, settled = self.engine.nodes(), not self._missing and self._used_by_others == self._others
        if settled and leases is self._leases and nodes == self.nodes:
            return
        self.nodes, self._leases, self.news, content = nodes, leases, self.news + 1, {}
        for node in self.nodes:
            fields = {
                "gpus": node.gpus,
                "up": node.up,
                "note": node.note,
                "memory_bytes": dict(node.memory_bytes),
            }
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
            for name, new in content.items():
                if known.get(name) != new:
                    connection.change(
                        """INSERT INTO nodes (name, drained, content) VALUES (:name, FALSE, :new)
                        ON CONFLICT (name) DO UPDATE SET content = :new""",
                        name=name,
                        new=new,
                    )
                    self.database.record_event(connection, "node", node=name, **json.loads(new))
            for name in known.keys() - content.keys():
                if known[name] is not None:
                    connection.change("DELETE FROM nodes WHERE name = :name AND NOT drained", name=name)
                    connection.update("nodes", {"content": None}, "name = :name", name=name)  # drained if it comes back
                    self.database.record_event(connection, "node", node=name, gone=True)
        return frozenset(str(row["name"]) for row in rows if row["drained"])

    # -- GPUs that are not reported

    def _observe_missing(self, leases: Sequence[OpenLease]) -> None:
        there = {node.name: {seat.place for seat in node.seats} for node in self.nodes}
        held = [seat for lease in leases for seat in lease.seats if seat.device]
        missing = [seat.place for seat in held if seat.place not in there.get(seat.node, {seat.place})]
        now = self.database.now()
        self._missing = {place: self._missing.get(place, now) for place in missing}

    def _is_gone(self, lease: OpenLease, seat: Seat) -> bool:
        """Whether a lease must do without this GPU; one that has not begun may have another at once."""
        since = self._missing.get(seat.place, math.inf)
        return self.database.now() - since >= (0.0 if lease.state == INTENT else GONE_SECONDS)

    # -- GPUs that others use

    def _observe_others(self, leases: Sequence[OpenLease]) -> None:
        """GPUs in use without a lease that runs there, now and at the observation before: leases start in between."""
        own = Counter((seat.node, seat.gpu_type) for lease in leases if _runs(lease) for seat in lease.seats)
        used = Counter({(node.name, t): number for node in self.nodes for t, number in node.used.items()})
        others = used - own
        self._used_by_others = others if self._others is None else others & self._others
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

    def count_unused(self) -> Counter[TypeOnNode]:
        """GPUs of unused reservations, less those that others use since then: these are left out already."""
        since = self.database.now() - UNUSED_SECONDS
        found, taken = Counter[TypeOnNode](), Counter[TypeOnNode]()
        for sealed, tag, node, gpu_type in self._unused():
            if sealed > since:
                key = node, gpu_type
                found[key] += 1
                before = self._others_at_start.get(tag, self._used_by_others)
                taken[key] = max(taken[key], self._used_by_others[key] - before[key])
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
        fewer = self._used_by_others + self.count_unused()
        return [self._without(node, blocked, fewer, leases) for node in there]

    def schedulable(self, usable: Iterable[Node], leases: Sequence[OpenLease]) -> list[Node]:
        """The :meth:`usable` nodes with more GPUs that a decision may leave to the leases that have them.

        These are GPUs that only seem to be gone, and those of leases that run on nodes where the engine starts nothing
        now: they continue, and no other lease makes room for them.
        """
        own = [(lease, seat) for lease in leases for seat in lease.seats]
        more = [seat for lease, seat in own if seat.place in self._missing and not self._is_gone(lease, seat)]
        running = [seat for lease, seat in own if _runs(lease) and not (lease.is_lost or lease.is_stopping)]
        down = [replace(node, seats=()) for node in self.nodes if not node.up and node.name not in self.drained]
        closed = [_with(node, running) for node in down]
        return [_with(node, more) for node in usable] + [node for node in closed if node.seats]

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


def capacity_of(nodes: Iterable[Node]) -> dict[str, int]:
    """GPU type -> GPUs."""
    found: dict[str, int] = {}
    for node in nodes:
        for gpu_type, number in node.gpus.items():
            found[gpu_type] = found.get(gpu_type, 0) + number
    return found


def _with(node: Node, seats: Iterable[Seat]) -> Node:
    """The node with those of these seats that are there, too."""
    more = [seat for seat in seats if seat.node == node.name]
    return replace(node, seats=(*node.seats, *more)) if more else node


def _runs(lease: OpenLease) -> bool:
    """Whether a process of it was seen, so that it uses its GPUs."""
    return lease.running is not None
