"""Starts for local search: placements of whole stages, and servers filled one after another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np

from hetopt.models.asrpt.contents import Room, Whole
from hetopt.pipelines.pipeline import Pipeline

MOST_GROUPINGS = 16
"""Of more ways to group the stages, every second, third … is packed: beyond that they hardly differ."""


def packings(pipeline: Pipeline, room: Room) -> list[Whole]:
    """(M, S) contents of a few placements.

    Neighbouring stages are joined in groups, those first that would lose most apart; after each join the groups are
    packed into the fullest server that has room, once the largest group first, once the one that loses most when
    split. Groups without room in one server are split. Placements that slices make impossible are left out.
    """
    gpus = (pipeline.replicas * pipeline.slices).tolist()
    split = [_split_loss(pipeline, room, s) for s in range(len(pipeline))]
    groupings, made = list(_groupings(pipeline, room)), []
    for groups in groupings[:: -(-len(groupings) // MOST_GROUPINGS)]:
        size = [sum(gpus[s] for s in group) for group in groups]
        loss = [max(split[s] for s in group) for group in groups]
        for key in (size, loss):
            order = sorted(range(len(groups)), key=lambda g: -key[g])
            if (packed := _packed(pipeline, room.free, [(groups[g], size[g]) for g in order])) is not None:
                made.append(packed)
    return made


def _groupings(pipeline: Pipeline, room: Room) -> Iterator[list[range]]:
    """Stages in groups: first each its own, then with one more join each time."""
    joined = [False] * (len(pipeline) - 1)  # whether stages s and s + 1 are in one group
    gpus = (pipeline.replicas * pipeline.slices).tolist()
    yield _groups(joined)
    for s in sorted(range(len(joined)), key=lambda s: -_apart(pipeline, room, s)):
        joined[s] = True
        group = next(group for group in _groups(joined) if s in group)
        if sum(gpus[group.start : group.stop]) > max(room.free):
            joined[s] = False
        else:
            yield _groups(joined)


def _groups(joined: Sequence[bool]) -> list[range]:
    ends = [s + 1 for s, together in enumerate(joined) if not together] + [len(joined) + 1]
    return [range(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def _apart(pipeline: Pipeline, room: Room, s: int) -> float:
    """Seconds of stage s or s + 1, whichever is slower, whole on one server with its other neighbour but not this."""
    base, saving, k = room.costs[0].base, room.costs[0].saving, pipeline.replicas
    here = base[s, k[s]] - (saving[s, s - 1] * k[s - 1] if s else 0.0)
    after = base[s + 1, k[s + 1]] - (saving[s + 1, s + 2] * k[s + 2] if s + 2 < len(k) else 0.0)
    return max(float(here), float(after))


def _split_loss(pipeline: Pipeline, room: Room, s: int) -> float:
    """Seconds of stage s with half of its replicas on a server."""
    half = int(pipeline.replicas[s]) // 2
    return float(room.costs[0].base[s, half]) if half else 0.0


def _packed(pipeline: Pipeline, free: Sequence[int], groups: list[tuple[range, int]]) -> Whole | None:
    room = sorted((n, m) for m, n in enumerate(free))  # what is left, fullest server first
    x = np.zeros((len(room), len(pipeline)), dtype=np.int64)
    late = []
    for group, size in groups:
        if (at := bisect_left(room, (size, -1))) == len(room):
            late.append(group)
            continue
        n, m = room.pop(at)
        x[m, group.start : group.stop] = pipeline.replicas[group.start : group.stop]
        insort(room, (n - size, m))
    left = [n for _, n in sorted((m, n) for n, m in room)]
    return x if all(_split(pipeline, x, left, group) for group in late) else None


def _split(pipeline: Pipeline, x: Whole, room: list[int], group: range) -> bool:
    """Fill the servers with most room with the stages of ``group``, in order; False where a replica fits nowhere."""
    m = max(range(len(room)), key=lambda m: room[m])
    for s in group:
        left, slices = int(pipeline.replicas[s]), int(pipeline.slices[s])
        while left:
            if room[m] < slices:
                m = max(range(len(room)), key=lambda m: room[m])
            n = min(left, room[m] // slices)
            if not n:
                return False
            x[m, s] += n
            room[m] -= n * slices
            left -= n
    return True


ENTRIES, MOST_FILLS, BEST_FILLS = 12_000, 400, 2
"""At most so many random orders of servers are filled, and no more than make so many numbers in all; how many of the
placements are handed on."""


def fills(pipeline: Pipeline, room: Room) -> list[Whole]:
    """(M, S) contents of the best of many placements: the servers in random order, the stages in theirs, first fit.

    All are made and judged at once, and always the same orders. Those that slices make impossible are left out.
    """
    free = np.array(room.free)
    many = min(MOST_FILLS, ENTRIES // (len(free) * len(pipeline)))
    order = np.random.default_rng(0).random((many, len(free))).argsort(axis=1)
    left, fits = free[order], np.ones(many, dtype=bool)
    inside = np.empty((*order.shape, len(pipeline)), dtype=np.int64)
    for s, (k, slices) in enumerate(zip(pipeline.replicas.tolist(), pipeline.slices.tolist(), strict=True)):
        most = left // slices if slices > 1 else left
        upto = most.cumsum(axis=1)
        inside[..., s] = np.minimum(np.maximum(k - (upto - most), 0), most)
        left = left - slices * inside[..., s]
        fits &= upto[:, -1] >= k
    contents = np.empty_like(inside)
    contents[np.arange(many)[:, None], order] = inside
    contents = contents[fits]
    if not len(contents):
        return []
    return list(contents[room.iteration(contents).argsort(kind="stable")[:BEST_FILLS]])
