"""Local search for GPU mappings: exchange replicas between two servers at a time, judged by the iteration time.

Its parts, in this order: a table of the seconds of every stage by the contents of a server; the exchanges between one
server and the others, evaluated at once; initial placements; the search itself.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from hetopt.checks import at_least, shown, whole
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.asrpt.heavy_edge import gpus_to_use, heavy_edge
from hetopt.models.asrpt.placement_costs import PlacementCosts
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import AllReduce, algorithm, job_graph
from hetopt.stages.mapping import GPUMapping, MappingStatus, check_room, in_order
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import PROVEN

TIES = 0.001
"""Weight of seconds that are not late: small enough to break only ties."""

MOST_ENTRIES = 4_000_000
"""Largest size of a table of seconds; jobs that need a larger one (three neighbouring stages with more than 100
replicas each on servers of more than 100 GPUs) are not searched."""


class SecondsTable:
    """Seconds of every stage by the numbers of replicas of it and of its neighbours on a server.

    The index into the table is linear in the contents of a server, so also in changes of the contents: ``contents @
    strides + first`` is the index of each stage.

    Attributes
    ----------
    seconds:
        (E,) seconds of all stages on all kinds of servers; 0 for absent stages.
    strides:
        (S, S) change of the index of the second stage per replica of the first.
    first:
        (M, S) indices of the stages of an empty server.
    """

    def __init__(self, costs: PlacementCosts) -> None:
        self.costs, counts = costs, self._counts(costs)
        sizes = counts[:-2] * counts[1:-1] * counts[2:]  # by the stage before, the stage itself, the stage after
        own, after = counts[2:], np.ones(len(costs.pipeline) - 1, dtype=np.int64)
        self.strides = np.diag(own) + np.diag((counts[1:-1] * own)[1:], 1) + np.diag(after, -1)
        self.first = np.cumsum(sizes) - sizes + np.array(costs.kind)[:, None] * int(sizes.sum())
        count, first = np.arange(max(counts.tolist())), 0
        self.seconds: Floats = np.empty(int(sizes.sum()) * len(costs.by_kind))
        around = list(zip(counts.tolist(), counts[1:].tolist(), counts[2:].tolist(), strict=False))
        for stage in costs.by_kind:
            before = np.append(0.0, np.diagonal(stage.saving, -1))[:, None] * count
            after = np.append(np.diagonal(stage.saving, 1), 0.0)[:, None] * count
            for s, (p, n, q) in enumerate(around):
                found = self.seconds[first : first + p * n * q].reshape(p, n, q)
                np.subtract(stage.base[s, :n, None] - after[s, :q], before[s, :p, None, None], out=found)
                found[:, 0] = 0.0
                first += p * n * q
        self._aim, self._late = np.nan, self.seconds

    def late(self, aim: float) -> Floats:
        """(E,) seconds by which each entry exceeds ``aim``; shorter entries first among equal ones."""
        if aim != self._aim:
            self._aim, self._late = aim, np.maximum(self.seconds - aim, 0.0) + TIES * self.seconds
        return self._late

    @staticmethod
    def fits(costs: PlacementCosts) -> bool:
        """Whether the table has at most :data:`MOST_ENTRIES`."""
        counts = SecondsTable._counts(costs).astype(float)
        return float((counts[:-2] * counts[1:-1] * counts[2:]).sum()) * len(costs.by_kind) <= MOST_ENTRIES

    @staticmethod
    def _counts(costs: PlacementCosts) -> Integers:
        """(S+2,) how many different numbers of replicas of each stage a server can have; 1 beyond both ends."""
        inner = np.minimum(costs.pipeline.replicas, max(costs.free)) + 1
        return np.concatenate([[1], inner, [1]]).astype(np.int64)


MOST_PARTS = 32
"""Largest number of removals per server that are tried: all of them, or those with the fewest replicas."""

MOST_EXCHANGES = 10
"""Number of best exchanges that are tried; the search hardly recovers from worse ones."""

NOTHING = 1 << 62
"""Stages bit of an empty removal: two empty removals are no exchange."""


class Removals(NamedTuple):
    """n ways to remove replicas from a server; the first removes none.

    Attributes
    ----------
    present:
        Stages on the server.
    ways:
        (n, present stages) removed replicas.
    table:
        (n, 2 S + 2) changes of the indices of all stages, indices afterwards, removed GPUs, free GPUs afterwards.
    stages:
        (n,) stages of which replicas are removed, as bits.
    """

    present: Integers
    ways: Integers
    table: Integers
    stages: Integers


class RemovalTable:
    """All :class:`Removals`, cached for all searches on the same servers.

    Attributes
    ----------
    near:
        (S,) each stage and its neighbours, as bits.
    empty, placed:
        (M, 2 S + 2) and (S, 2 S + 2): the first row of :attr:`Removals.table` for empty servers, and what each present
        replica adds to it.
    """

    def __init__(self, lookup: SecondsTable) -> None:
        self.lookup, self.costs = lookup, lookup.costs
        slices, zero = self.costs.pipeline.slices, np.zeros_like(lookup.strides)
        # beyond 62 stages two share a bit, and some exchanges are left out
        self.bit = 1 << (np.arange(len(slices)) % 62)
        self.near = self.bit.copy()
        self.near[:-1] |= self.bit[1:]
        self.near[1:] |= self.bit[:-1]
        self.placed = np.column_stack([zero, lookup.strides, zero[0], -slices])
        self.taken = np.column_stack([lookup.strides, -lookup.strides, slices, slices])
        self.empty = np.zeros((len(self.costs.free), self.placed.shape[1]), dtype=np.int64)
        self.empty[:, len(slices) : -2], self.empty[:, -1] = lookup.first, self.costs.free
        self._known: dict[tuple[bytes, tuple[int, int]], Removals] = {}

    def of(self, m: int, contents: Integers, none: Integers) -> Removals:
        """The removals from server m with (S,) contents; ``none`` is the row of the empty removal."""
        key = contents.tobytes(), self.costs.equal_key(m)
        if key not in self._known:
            there = contents.nonzero()[0]
            ways, some = _ways(tuple(contents[there].tolist()))
            stages = some @ self.bit[there]
            stages[0] = NOTHING
            self._known[key] = Removals(there, ways, ways @ self.taken[there] + none, stages)
        return self._known[key]


class Exchange(NamedTuple):
    """An exchange of replicas between two servers.

    Attributes
    ----------
    server, partner:
        Positions of the servers.
    gained:
        (S,) replicas that the server gains and the partner loses; negative for the opposite.
    """

    server: int
    partner: int
    gained: Integers


class Exchanges:
    """A placement, and all exchanges between one of its servers and the others that can speed up a stage.

    Each side gives replicas of stages of which it gets none. Equal empty servers count once.

    Parameters
    ----------
    x:
        (M, S) initial contents of the servers.

    Attributes
    ----------
    x, place:
        (M, S) contents, and the indices of their stages in the table of seconds.
    """

    def __init__(self, ways: RemovalTable, x: Integers) -> None:
        self.ways, self.lookup = ways, ways.lookup
        self.x, self.none = x.copy(), ways.empty + x @ ways.placed
        self.place = self.none[:, x.shape[1] : -2]
        self.parts = [ways.of(m, *rows) for m, rows in enumerate(zip(self.x, self.none, strict=True))]
        self.alike = [ways.costs.equal_key(m) for m in range(len(x))]
        self.ones = np.ones(2 * x.shape[1])  # a matrix product is the fastest sum of short rows

    def slowest(self) -> tuple[float, int, int]:
        """Seconds of an iteration, and the server and the stage that determine it."""
        seconds = self.lookup.seconds.take(self.place)
        worst = int(seconds.argmax())
        return float(seconds.take(worst)), *divmod(worst, seconds.shape[1])

    def best(self, server: int, stage: int, aim: float) -> Iterator[Exchange]:
        """The :data:`MOST_EXCHANGES` feasible exchanges of ``server`` with the least lateness afterwards.

        Only exchanges of replicas of ``stage`` or of its neighbours: others do not change its seconds.

        Parameters
        ----------
        aim:
            Seconds above which a stage is late; see :meth:`SecondsTable.late`.
        """
        stages, late, touched = self.x.shape[1], self.lookup.late(aim), self.ways.near[stage]
        give, partners = self.parts[server], self._partners(server)
        take = [self.parts[m] for m in partners]
        if not partners:
            return
        sizes = [len(parts.stages) for parts in take]
        ends = list(accumulate(sizes))
        before = (late.take(self.place.take(partners, axis=0)) @ self.ones[:stages]).repeat(sizes)
        theirs = np.concatenate([parts.table for parts in take])
        what, my_what = np.concatenate([parts.stages for parts in take]), give.stages[:, None]
        allowed = what & my_what == 0
        allowed &= (what & touched != 0) | (my_what & touched != 0)
        allowed &= give.table[:, -2:-1] <= theirs[:, -1]
        allowed &= give.table[:, -1:] >= theirs[:, -2]
        i, j = np.divmod(allowed.ravel().nonzero()[0], ends[-1])
        mine = np.concatenate([give.table[:, stages:-2], give.table[:, :stages]], axis=1)
        total = late.take(theirs[:, :-2].take(j, axis=0) + mine.take(i, axis=0)) @ self.ones - before.take(j)
        for _ in range(min(MOST_EXCHANGES, len(total))):
            e = int(total.argmin())
            total[e] = np.inf
            n = bisect_right(ends, int(j[e]))
            gained = np.zeros(stages, dtype=np.int64)
            gained[take[n].present] = take[n].ways[j[e] - ends[n]]
            gained[give.present] -= give.ways[i[e]]
            yield Exchange(server, partners[n], gained)

    def after(self, exchange: Exchange) -> Integers:
        """(M, S) contents after the exchange."""
        x = self.x.copy()
        x[exchange.server] += exchange.gained
        x[exchange.partner] -= exchange.gained
        return x

    def apply(self, exchange: Exchange) -> None:
        """Carry out the exchange."""
        server, partner, gained = exchange
        moved = gained @ self.ways.placed
        self.x[server] += gained
        self.x[partner] -= gained
        self.none[server] += moved
        self.none[partner] -= moved
        for m in (server, partner):
            self.parts[m] = self.ways.of(m, self.x[m], self.none[m])

    def _partners(self, server: int) -> list[int]:
        found, empty = [], set()
        for m, parts in enumerate(self.parts):
            if m != server:
                if len(parts.present):
                    found.append(m)
                elif self.alike[m] not in empty:
                    found.append(m)
                    empty.add(self.alike[m])
        return found


@lru_cache(maxsize=4096)
def _ways(contents: tuple[int, ...]) -> tuple[Integers, Integers]:
    """(n, stages) numbers of replicas to remove, at most ``contents``; and 1 where the number is positive.

    All ways, or all ways with up to the largest number of replicas for which there are at most :data:`MOST_PARTS`.
    """
    shape = tuple(n + 1 for n in contents)
    if prod(shape) <= MOST_PARTS:
        ways = np.indices(shape).reshape(len(shape), prod(shape)).T.copy()
        return ways, np.minimum(ways, 1)
    sizes = np.ones(1)  # number of ways by the total number of replicas
    for n in contents:
        sizes = np.convolve(sizes[: MOST_PARTS + 1], np.ones(n + 1))
    most = max(1, int((sizes.cumsum() <= MOST_PARTS).sum()) - 1)
    one = np.eye(len(contents), dtype=np.int64)
    levels = [np.zeros((1, len(contents)), dtype=np.int64), one]
    for _ in range(most - 1):
        more = (levels[-1][:, None, :] + one).reshape(-1, len(contents))
        levels.append(np.unique(more[(more <= contents).all(axis=1)], axis=0))
    ways = np.vstack(levels)
    return ways, np.minimum(ways, 1)


MOST_GROUPINGS = 6
"""Largest number of groupings that are packed; of more, every second, third … one, since they hardly differ."""


def packings(pipeline: Pipeline, costs: PlacementCosts) -> list[Integers]:
    """(M, S) contents of a few placements of whole stages.

    Neighbouring stages are joined into groups in descending order of the loss if they are apart. After each join the
    groups are packed by best fit, once the largest group first, once the group with the largest loss when split. Groups
    that fit on no server are split. Placements in which slices do not fit are omitted.
    """
    gpus = (pipeline.replicas * pipeline.slices).tolist()
    split, made = _split_losses(pipeline, costs), []
    for groups in _groupings(pipeline, costs):
        size = [sum(gpus[group.start : group.stop]) for group in groups]
        loss = [max(split[group.start : group.stop]) for group in groups]
        for key in (size, loss):
            order = sorted(range(len(groups)), key=key.__getitem__, reverse=True)
            if (packed := _packed(pipeline, costs.free, [(groups[g], size[g]) for g in order])) is not None:
                made.append(packed)
    return made


def _groupings(pipeline: Pipeline, costs: PlacementCosts) -> list[list[range]]:
    """Stages in groups: first one group per stage, then with more and more joins."""
    gpus, largest = (pipeline.replicas * pipeline.slices).tolist(), max(costs.free)
    joined = [False] * (len(pipeline) - 1)  # whether stages s and s + 1 are in one group
    made = [joined.copy()]
    for s in np.argsort(-_apart(pipeline, costs), kind="stable").tolist():
        first, last = s, s + 1
        while first and joined[first - 1]:
            first -= 1
        while last < len(joined) and joined[last]:
            last += 1
        if sum(gpus[first : last + 1]) <= largest:
            joined[s] = True
            made.append(joined.copy())
    return [_groups(joined) for joined in made[:: -(-len(made) // MOST_GROUPINGS)]]


def _groups(joined: Sequence[bool]) -> list[range]:
    ends = [s + 1 for s, together in enumerate(joined) if not together] + [len(joined) + 1]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def _apart(pipeline: Pipeline, costs: PlacementCosts) -> Floats:
    """(S-1,) seconds of the slower of two neighbouring stages if each is whole on a server without the other."""
    base, saving, k = costs.by_kind[0].base, costs.by_kind[0].saving, pipeline.replicas
    whole = base[np.arange(len(k)), k]
    here, after = whole[:-1].copy(), whole[1:].copy()
    here[1:] -= np.diagonal(saving, -1)[:-1] * k[:-2]
    after[:-1] -= np.diagonal(saving, 1)[1:] * k[2:]
    return np.maximum(here, after)


def _split_losses(pipeline: Pipeline, costs: PlacementCosts) -> list[float]:
    """For each stage, seconds with half of its replicas on a server; 0 with one replica."""
    found: list[float] = costs.by_kind[0].base[np.arange(len(pipeline)), pipeline.replicas // 2].tolist()
    return found


def _packed(pipeline: Pipeline, free: Sequence[int], groups: list[tuple[range, int]]) -> Integers | None:
    many = len(free)
    room = sorted(n * many + m for m, n in enumerate(free))  # what is left and where, fullest server first
    stages: list[int] = []
    servers: list[int] = []
    late = []
    for group, size in groups:
        if (at := bisect_left(room, size * many)) == len(room):
            late.append(group)
            continue
        left = room.pop(at)
        stages.extend(group)
        servers.extend([left % many] * len(group))
        insort(room, left - size * many)
    x = np.zeros((many, len(pipeline)), dtype=np.int64)
    x[servers, stages] = pipeline.replicas[stages]
    if late:
        of = {left % many: left // many for left in room}
        if not all(_split(pipeline, x, of, group) for group in late):
            return None
    return x


def _split(pipeline: Pipeline, x: Integers, room: dict[int, int], group: range) -> bool:
    """Fill the servers with the most free GPUs with the stages of ``group``; False if a replica fits nowhere."""
    m = max(sorted(room), key=room.__getitem__)
    for s in group:
        left, slices = int(pipeline.replicas[s]), int(pipeline.slices[s])
        while left:
            if room[m] < slices:
                m = max(sorted(room), key=room.__getitem__)
            n = min(left, room[m] // slices)
            if not n:
                return False
            x[m, s] += n
            room[m] -= n * slices
            left -= n
    return True


MOST_FILLS, ENTRIES = 32, 4_000
"""Largest number of random server orders that are filled, and largest total size of their arrays."""


def fills(pipeline: Pipeline, costs: PlacementCosts) -> list[Integers]:
    """(M, S) contents of one more placement, if it fits.

    With replicas of equal size: the best of many first-fit placements, with servers in random order (of a fixed seed)
    and stages in order. Otherwise first fit in descending order of replica sizes.
    """
    slices = pipeline.slices.tolist()
    if min(slices) < max(slices):
        return _largest_first(pipeline, costs.free)
    most = np.array(costs.free) // max(slices)
    if most.sum() < pipeline.replicas.sum():
        return []
    many = min(MOST_FILLS, 1 + ENTRIES // (len(most) * len(pipeline)))
    order = _orders(many, len(most))
    servers, stages = most[order].cumsum(axis=1)[..., None], pipeline.replicas.cumsum()
    # servers and stages as intervals: a server holds the overlap with a stage
    inside = np.minimum(servers, stages)
    inside -= np.maximum(servers - most[order][..., None], stages - pipeline.replicas)
    contents = np.empty_like(inside)
    contents[np.arange(many)[:, None], order] = np.maximum(inside, 0)
    return [contents[costs.iteration(contents).argmin()]]


@lru_cache(maxsize=256)
def _orders(many: int, servers: int) -> Integers:
    """(many, servers) random orders of the servers, always the same."""
    return np.random.default_rng(0).random((many, servers)).argsort(axis=1)


def _largest_first(pipeline: Pipeline, free: Sequence[int]) -> list[Integers]:
    x, left = np.zeros((len(free), len(pipeline)), dtype=np.int64), list(free)
    for s in (-pipeline.slices).argsort(kind="stable").tolist():
        k, slices = int(pipeline.replicas[s]), int(pipeline.slices[s])
        for m, n in enumerate(left):
            x[m, s] = min(k, n // slices)
            left[m] -= int(x[m, s]) * slices
            k -= int(x[m, s])
        if k:
            return []
    return [x]


AIM = 0.97
"""Stages are late above this fraction of the best iteration time found; tuned on random jobs, where 0.95 to 0.99 are
about as good and 1 lets the search move among equal placements."""

PROMISING = 0.75
"""Starts are tried in ascending order of lateness above this fraction of their best iteration time."""

PATIENCE = 6
"""Steps without a better iteration time after which the next start is tried."""


@dataclass(frozen=True)
class LocalSearch:
    """Repeatedly exchange replicas between the slowest server and another server, in the best way (tabu search).

    One step takes the slowest stage and its server and evaluates all exchanges with each other server that can speed it
    up: moves and swaps of any number of replicas (of few replicas for crowded servers). The exchange with the least
    lateness is made, even if it is worse than before, but no placement is visited twice. The starts are the mapping of
    Heavy-Edge, packings of whole stages (:func:`packings`) and servers filled in random order (:func:`fills`), the most
    promising first. The result is never worse than Heavy-Edge, and the search stops early if a bound proves optimality.
    The same input always gives the same mapping, unless there is a time limit.

    Parameters
    ----------
    steps:
        Largest number of exchanges.
    timing:
        Model of the iteration time.
    allreduce:
        Edges of the graph of the Heavy-Edge start.
    time_limit:
        No step begins later than this number of seconds after the call. The mapping then also depends on the machine.

    Raises
    ------
    InvalidOption
        ``steps`` is not a whole number >= 0, ``timing`` is not :class:`Asynchronous`, or ``time_limit`` is not > 0.
    """

    steps: int = 20
    timing: Asynchronous = field(default_factory=Asynchronous)
    allreduce: AllReduce = AllReduce.RING
    time_limit: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "allreduce", algorithm(self.allreduce, "LocalSearch"))
        whole(self.steps, "LocalSearch.steps", 0)
        if not isinstance(self.timing, Asynchronous):
            raise InvalidOption(f"is {shown(self.timing)}; it must be Asynchronous: the search evaluates "
                                "each server by its own contents", "LocalSearch.timing")  # fmt: skip
        if self.time_limit is not None:
            at_least(self.time_limit, "LocalSearch.time_limit", 0.0, InvalidOption, strict=True)

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; its bound is a lower bound on the iteration time of any mapping.

        Raises
        ------
        InvalidInstance
            Too few free GPUs.
        """
        began = time.perf_counter()
        check_room(pipeline, servers)
        graph, costs = job_graph(pipeline, self.allreduce), PlacementCosts(pipeline, servers, self.timing)
        starts = packings(pipeline, costs) + fills(pipeline, costs)
        first = None
        try:
            first = np.array(heavy_edge(graph, gpus_to_use(pipeline, servers.free.tolist())))
            starts.insert(0, graph.counts(first, len(servers)).T)
        except InvalidInstance:  # other starts may fit slices
            if not starts:
                raise
        search = _Descents(costs, self.steps, np.inf if self.time_limit is None else began + self.time_limit)
        best = search.run(starts)
        server = in_order(best.T) if first is None or best is not starts[0] else first
        status: MappingStatus = "optimal" if search.value <= costs.bound * (1 + PROVEN) else "heuristic"
        seconds = time.perf_counter() - began
        return GPUMapping(graph, servers, server, self.timing, "local", costs.bound, status, seconds)


class _Descents:
    def __init__(self, costs: PlacementCosts, steps: int, deadline: float) -> None:
        self.costs, self.left, self.deadline = costs, steps, deadline
        self.seen: set[bytes] = set()
        self.value, self.best = np.inf, np.empty(0, dtype=np.int64)

    def run(self, starts: list[Integers]) -> Integers:
        """The best placement found, as (M, S) contents."""
        seconds = self.costs.seconds(np.array(starts))
        values = seconds.max(axis=(1, 2))
        first = int(values.argmin())
        self.value, self.best = float(values[first]), starts[first]
        if self._done() or not SecondsTable.fits(self.costs):
            return self.best
        self.ways = RemovalTable(SecondsTable(self.costs))
        late = np.maximum(seconds - PROMISING * self.value, 0.0).sum(axis=(1, 2))
        tried: set[float] = set()
        for i in late.argsort(kind="stable").tolist():
            if self._done():
                break
            if late[i] not in tried:  # equal sums mostly are equal placements
                tried.add(late[i])
                self._descend(starts[i])
        return self.best

    def _done(self) -> bool:
        out_of_time = self.left <= 0 or time.perf_counter() >= self.deadline
        return out_of_time or self.value <= self.costs.bound * (1 + PROVEN)

    def _descend(self, start: Integers) -> None:
        """Search from ``start`` until :data:`PATIENCE` steps bring no improvement."""
        self.seen.add(start.tobytes())
        walk = Exchanges(self.ways, start)
        best, *worst = walk.slowest()
        stale = 0
        while stale <= PATIENCE and not self._done() and self._step(walk, *worst):
            now, *worst = walk.slowest()
            stale = 0 if now < best else stale + 1
            best = min(best, now)
            if now < self.value:
                self.value, self.best = now, walk.x.copy()

    def _step(self, walk: Exchanges, server: int, stage: int) -> bool:
        """Make the best exchange of the worst server that leads to a new placement; False if there is none."""
        self.left -= 1
        for exchange in walk.best(server, stage, max(self.costs.bound, AIM * self.value)):
            if (key := walk.after(exchange).tobytes()) not in self.seen:
                self.seen.add(key)
                walk.apply(exchange)
                return True
        return False
