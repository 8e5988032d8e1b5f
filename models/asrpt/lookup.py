"""What every part of a server's contents costs there, to be looked up: local search judges thousands of contents."""

from __future__ import annotations

import numpy as np

from hetopt.data.entities import Floats
from hetopt.models.asrpt.contents import Room, Whole

TIES = 0.001
"""Of what seconds that are not late count: small enough to decide between equals only."""

MOST_ENTRIES = 4_000_000
"""Of a table of seconds; jobs that need a larger one (three neighbouring stages with more than 100 replicas each on
servers of more than 100 GPUs) are not searched."""


class Lookup:
    """Seconds of every stage by how many replicas of it and of its neighbours are on a server.

    The place in the table is linear in the contents of a server, so also in what it is given: ``contents @ strides``
    plus ``first`` says where to look up each of its stages.

    Attributes
    ----------
    seconds:
        (E,) of all stages on all kinds of servers; 0 where nothing of the stage is there.
    strides:
        (S, S) how far a replica of the first stage moves the place of the second.
    first:
        (M, S) places of the stages of an empty server.
    """

    def __init__(self, room: Room) -> None:
        self.room, counts = room, self._counts(room)
        sizes = counts[:-2] * counts[1:-1] * counts[2:]  # by the stage before, the stage itself, the stage after
        own, after = counts[2:], np.ones(len(room.pipeline) - 1, dtype=np.int64)
        self.strides = np.diag(own) + np.diag((counts[1:-1] * own)[1:], 1) + np.diag(after, -1)
        self.first = np.cumsum(sizes) - sizes + np.array(room.kind)[:, None] * int(sizes.sum())
        count, first = np.arange(max(counts.tolist())), 0
        self.seconds: Floats = np.empty(int(sizes.sum()) * len(room.costs))
        around = list(zip(counts.tolist(), counts[1:].tolist(), counts[2:].tolist(), strict=False))
        for costs in room.costs:
            before = np.append(0.0, np.diagonal(costs.saving, -1))[:, None] * count
            after = np.append(np.diagonal(costs.saving, 1), 0.0)[:, None] * count
            for s, (p, n, q) in enumerate(around):
                found = self.seconds[first : first + p * n * q].reshape(p, n, q)
                np.subtract(costs.base[s, :n, None] - after[s, :q], before[s, :p, None, None], out=found)
                found[:, 0] = 0.0
                first += p * n * q
        self._aim, self._late = np.nan, self.seconds

    def late(self, aim: float) -> Floats:
        """(E,) by how many seconds each entry is later than ``aim``, and of equals less where it is shorter."""
        if aim != self._aim:
            self._aim, self._late = aim, np.maximum(self.seconds - aim, 0.0) + TIES * self.seconds
        return self._late

    @staticmethod
    def fits(room: Room) -> bool:
        """Whether the table has at most :data:`MOST_ENTRIES`."""
        counts = Lookup._counts(room).astype(float)
        return float((counts[:-2] * counts[1:-1] * counts[2:]).sum()) * len(room.costs) <= MOST_ENTRIES

    @staticmethod
    def _counts(room: Room) -> Whole:
        """(S+2,) how many different numbers of replicas of each stage a server can have; 1 beyond both ends."""
        inner = np.minimum(room.pipeline.replicas, max(room.free)) + 1
        return np.concatenate([[1], inner, [1]]).astype(np.int64)
