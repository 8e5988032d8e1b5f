"""What each server's own replicas cost: an iteration is as long as the worst server's contents.

Under :class:`~hetopt.pipelines.iteration_time.Asynchronous` the seconds of a stage on a server depend on nothing but
the replicas of it and of its neighbours on that server. So with c replicas of stage s among a server's contents x ::

    seconds[s] = base[s, c] - sum_r saving[s, r] x[r]   where c > 0,

and an iteration takes the largest of these over all servers. Local search and the exact program rest on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Floats
from hetopt.pipelines.iteration_time import Asynchronous
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Costs:
    """Of servers with the same bandwidths.

    Attributes
    ----------
    base:
        (S, K+1) seconds of an iteration of each stage by its replicas here, as if nothing of its neighbours were here.
    saving:
        (S, S) seconds that each replica of a neighbouring stage here saves; zero elsewhere.
    """

    base: Floats
    saving: Floats

    def seconds(self, contents: Whole) -> Floats:
        """(..., S) seconds of each stage for (..., S) contents; zero where it is absent."""
        found = self.base[np.arange(len(self.base)), contents]
        found[..., :-1] -= contents[..., 1:] * np.diagonal(self.saving, 1)
        found[..., 1:] -= contents[..., :-1] * np.diagonal(self.saving, -1)
        found *= contents > 0
        return found


def costs(pipeline: Pipeline, nic: float, intra: float, timing: Asynchronous) -> Costs:
    """For servers with so much bandwidth per GPU to others and among their own, in bytes/s."""
    t, k, most = pipeline.slices, pipeline.replicas, int(pipeline.replicas.max())
    out, within = 1 / (t * nic), 1 / (t * intra)
    computing = pipeline.forward + timing.backward * pipeline.backward
    slicing = 2 * (t - 1) * pipeline.slice_bytes / t / intra
    alone = computing + slicing + (pipeline.exchanged - pipeline.tokens) * out
    count = np.arange(most + 1)
    own = (pipeline.tokens * (out - within))[:, None] * np.maximum(count - 1, 0)
    split = (pipeline.reduced * out)[:, None] / np.maximum(count, 1)
    reduce = np.where(count == k[:, None], (pipeline.reduced * within)[:, None], split)
    base = alone[:, None] - own + timing.reduce * reduce
    base[:, 0] = 0.0
    others = pipeline.links * (1 - np.eye(len(pipeline)))
    return Costs(base, others * (out - within)[:, None])


class Room:
    """The servers as contents see them: how much room, and which :class:`Costs` hold there."""

    def __init__(self, pipeline: Pipeline, servers: Servers, timing: Asynchronous) -> None:
        self.pipeline, self.servers, self.timing = pipeline, servers, timing
        self.kind = servers.kind
        first = [self.kind.index(kind) for kind in range(max(self.kind) + 1)]  # a server of each
        self.costs = [costs(pipeline, float(servers.nic[m]), float(servers.intra[m]), timing) for m in first]
        self.free: list[int] = servers.free.tolist()

    def like(self, m: int) -> tuple[int, int]:
        """What equal servers have in common: bandwidths and free GPUs."""
        return self.kind[m], self.free[m]

    def seconds(self, counts: Whole) -> Floats:
        """(..., M, S) seconds of each stage on each server, for (..., M, S) contents."""
        if len(self.costs) == 1:
            return self.costs[0].seconds(counts)
        rows = [self.costs[kind].seconds(counts[..., m, :]) for m, kind in enumerate(self.kind)]
        return np.stack(rows, axis=-2)

    def iteration(self, counts: Whole) -> Floats:
        """(...) seconds of an iteration for (..., M, S) contents."""
        return np.asarray(self.seconds(counts).max(axis=(-2, -1)))

    @cached_property
    def bound(self) -> float:
        """Seconds that no placement can fall below.

        Either a stage is whole on a server, or its smallest part has at most half of its replicas; at best with as much
        of its neighbours beside it as the largest server has room for. And a chain of stages of one replica each must
        be cut somewhere, if it is too long for one server: at best where that costs least.
        """
        least = float(self.timing.least(self.pipeline, self.servers))
        for s, k in enumerate(self.pipeline.replicas.tolist()):
            least = max(least, min(self._best(s, c) for c in (k, *range(1, k // 2 + 1))))
        for single, chain in groupby(range(len(self.pipeline)), key=lambda s: self.pipeline.replicas[s] == 1):
            if single:
                least = max(least, self._chain(list(chain)))
        return least

    def _chain(self, stages: list[int]) -> float:
        """At least so many seconds for neighbouring stages of one replica each, cut into runs that a server can hold.

        What comes before and after them may lie beside them for nothing.
        """
        largest, slices = max(self.free), self.pipeline.slices.tolist()
        first, last = stages[0], stages[-1]
        best = {first - 1: 0.0}  # with everything up to this stage cut into runs
        for end in stages:
            best[end], used, inner = np.inf, 0, 0.0
            for start in range(end, first - 1, -1):
                used += slices[start]
                if used > largest:
                    break
                cut = self._single(start, start > first, end == start and end < last)
                best[end] = min(best[end], max(best[start - 1], inner, cut))
                inner = max(inner, self._single(start, False, end == start and end < last))
        return best[last]

    def _single(self, s: int, cut_before: bool, cut_after: bool) -> float:
        """Seconds of a stage of one replica with all of its neighbours beside it but those that are cut off."""
        found = np.inf
        for cost in self.costs:
            value = float(cost.base[s, 1])
            for r, cut in ((s - 1, cut_before), (s + 1, cut_after)):
                if 0 <= r < len(self.pipeline) and not cut:
                    value -= max(0.0, float(cost.saving[s, r])) * int(self.pipeline.replicas[r])
            found = min(found, value)
        return found

    def best(self, s: int, c: int, m: int) -> float:
        """At least so many seconds for stage s with c replicas on server m: with the best neighbours beside it."""
        base, saving = self._numbers[self.kind[m]]
        replicas, slices = self._stages
        left: float = self.free[m] - c * slices[s]
        if left < 0:
            return np.inf
        value = base[s][c]
        beside = [r for r in (s - 1, s + 1) if 0 <= r < len(slices)]
        for r in sorted(beside, key=lambda r: -saving[s][r] / slices[r]):
            if saving[s][r] > 0:  # a fraction of a replica only makes the bound weaker
                fit = min(replicas[r], left / slices[r])
                value -= saving[s][r] * fit
                left -= fit * slices[r]
        return value

    @cached_property
    def _numbers(self) -> list[tuple[list[list[float]], list[list[float]]]]:
        """Of each kind, the costs as plain numbers: they are read one by one."""
        return [(cost.base.tolist(), cost.saving.tolist()) for cost in self.costs]

    @cached_property
    def _stages(self) -> tuple[list[int], list[int]]:
        """Replicas and slices of the stages."""
        return self.pipeline.replicas.tolist(), self.pipeline.slices.tolist()

    def _best(self, s: int, c: int) -> float:
        return min(self.best(s, c, m) for m in self._largest)

    @cached_property
    def _largest(self) -> list[int]:
        """Of each kind, a server with most room."""
        servers = range(len(self.free))
        return [max(servers, key=lambda m: (self.kind[m] == kind, self.free[m])) for kind in range(len(self.costs))]
