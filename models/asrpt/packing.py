"""Starts for local search: placements of whole stages, and servers filled one after another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hetopt.data.entities import Floats
from hetopt.models.asrpt.contents import Room, Whole
from hetopt.stages.pipeline import Pipeline

MOST_GROUPINGS = 6
"""Of more ways to group the stages, every second, third … is packed: beyond that they hardly differ."""


def packings(pipeline: Pipeline, room: Room) -> list[Whole]:
    """(M, S) contents of a few placements.

    Neighbouring stages are joined in groups, those first that would lose most apart; after each join the groups are
    packed into the fullest server that has room, once the largest group first, once the one that loses most when
    split. Groups without room in one server are split. Placements that slices make impossible are left out.
    """
    gpus = (pipeline.replicas * pipeline.slices).tolist()
    split, made = _split_losses(pipeline, room), []
    for groups in _groupings(pipeline, room):
        size = [sum(gpus[group.start : group.stop]) for group in groups]
        loss = [max(split[group.start : group.stop]) for group in groups]
        for key in (size, loss):
            order = sorted(range(len(groups)), key=key.__getitem__, reverse=True)
            if (packed := _packed(pipeline, room.free, [(groups[g], size[g]) for g in order])) is not None:
                made.append(packed)
    return made


def _groupings(pipeline: Pipeline, room: Room) -> list[list[range]]:
    """Stages in groups: first each its own, then with more and more joins."""
    gpus, largest = (pipeline.replicas * pipeline.slices).tolist(), max(room.free)
    joined = [False] * (len(pipeline) - 1)  # whether stages s and s + 1 are in one group
    made = [joined.copy()]
    for s in np.argsort(-_apart(pipeline, room), kind="stable").tolist():
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


def _apart(pipeline: Pipeline, room: Room) -> Floats:
    """(S-1) seconds of a stage or the next, whichever is slower, whole on one server with its other neighbour only."""
    base, saving, k = room.costs[0].base, room.costs[0].saving, pipeline.replicas
    whole = base[np.arange(len(k)), k]
    here, after = whole[:-1].copy(), whole[1:].copy()
    here[1:] -= np.diagonal(saving, -1)[:-1] * k[:-2]
    after[:-1] -= np.diagonal(saving, 1)[1:] * k[2:]
    return np.maximum(here, after)


def _split_losses(pipeline: Pipeline, room: Room) -> list[float]:
    """Of each stage, seconds with half of its replicas on a server; 0 with one replica."""
    found: list[float] = room.costs[0].base[np.arange(len(pipeline)), pipeline.replicas // 2].tolist()
    return found


def _packed(pipeline: Pipeline, free: Sequence[int], groups: list[tuple[range, int]]) -> Whole | None:
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


def _split(pipeline: Pipeline, x: Whole, room: dict[int, int], group: range) -> bool:
    """Fill the servers with most room with the stages of ``group``, in order; False where a replica fits nowhere."""
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
"""At most so many random orders of servers are filled, and of large clusters no more than make so many numbers."""


def fills(pipeline: Pipeline, room: Room) -> list[Whole]:
    """(M, S) contents of one more placement, where there is room for it.

    Where replicas are equally large: the best of many, each with the servers in random order (always the same) and
    the stages in theirs, first fit. Else the largest replicas first, first fit.
    """
    slices = pipeline.slices.tolist()
    if min(slices) < max(slices):
        return _largest_first(pipeline, room.free)
    most = np.array(room.free) // max(slices)
    if most.sum() < pipeline.replicas.sum():
        return []
    many = min(MOST_FILLS, 1 + ENTRIES // (len(most) * len(pipeline)))
    order = _orders(many, len(most))
    servers, stages = most[order].cumsum(axis=1)[..., None], pipeline.replicas.cumsum()
    # both lined up by their ends: a server holds of a stage what they overlap
    inside = np.minimum(servers, stages)
    inside -= np.maximum(servers - most[order][..., None], stages - pipeline.replicas)
    contents = np.empty_like(inside)
    contents[np.arange(many)[:, None], order] = np.maximum(inside, 0)
    return [contents[room.iteration(contents).argmin()]]


@lru_cache(maxsize=256)
def _orders(many: int, servers: int) -> Whole:
    """(many, servers) orders of so many servers."""
    return np.random.default_rng(0).random((many, servers)).argsort(axis=1)


def _largest_first(pipeline: Pipeline, free: Sequence[int]) -> list[Whole]:
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
