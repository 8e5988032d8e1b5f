"""Iteration time from the contents of each server: the slowest stage on any server determines it.

Under :class:`~hetopt.stages.iteration_time.Asynchronous` the seconds of a stage on a server depend only on the
replicas of it and of its neighbours on that server. So with c replicas of stage s among a server's contents x ::

    seconds[s] = base[s, c] - sum_r saving[s, r] x[r]   where c > 0,

and the iteration time is the largest of these over all servers. Local search and the exact program use this.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby, product

import numpy as np

from hetopt.data.array_types import Floats, Integers
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass(frozen=True, eq=False)
class StageSeconds:
    """Seconds of the stages on servers with the same bandwidths.

    Attributes
    ----------
    base:
        (S, K+1) seconds of an iteration of each stage by its replicas on the server, without replicas of neighbours.
    saving:
        (S, S) seconds saved by each replica of a neighbouring stage on the same server; zero elsewhere.
    """

    base: Floats
    saving: Floats

    def worst(self, pipeline: Pipeline) -> Floats:
        """(S,) largest seconds that neighbours add to a stage; positive if links are slower than the network card."""
        return np.asarray(np.maximum(-self.saving, 0.0) @ pipeline.replicas)

    def seconds(self, contents: Integers) -> Floats:
        """(..., S) seconds of each stage for (..., S) contents; zero for absent stages."""
        stages, most = self.base.shape
        found: Floats = self.base.take(contents + np.arange(0, stages * most, most))  # the fastest lookup
        found[..., :-1] -= contents[..., 1:] * np.diagonal(self.saving, 1)
        found[..., 1:] -= contents[..., :-1] * np.diagonal(self.saving, -1)
        found *= contents > 0
        return found


def stage_seconds(pipeline: Pipeline, nic: float, intra: float, timing: Asynchronous) -> StageSeconds:
    """Seconds for servers with bandwidth ``nic`` per GPU to other servers and ``intra`` within, in bytes/s."""
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
    return StageSeconds(base, others * (out - within)[:, None])


RESOLUTION = 2.0**-40
"""Of rounded costs: sums and differences of its multiples are exact in floats, as long as they are below 4,096."""


def in_units(values: Floats, unit: float) -> Floats:
    """``values`` in multiples of ``unit``, rounded to :data:`RESOLUTION`."""
    return np.asarray(np.rint(values / unit / RESOLUTION) * RESOLUTION)


class PlacementCosts:
    """Free GPUs and :class:`StageSeconds` of the servers, and bounds on the iteration time."""

    def __init__(self, pipeline: Pipeline, servers: Servers, timing: Asynchronous) -> None:
        self.pipeline, self.servers, self.timing = pipeline, servers, timing
        self.kind = servers.kind
        first = [self.kind.index(kind) for kind in range(max(self.kind) + 1)]  # one server of each kind
        self.by_kind = [stage_seconds(pipeline, float(servers.nic[m]), float(servers.intra[m]), timing) for m in first]
        self.free: list[int] = servers.free.tolist()

    def rounded(self, unit: float) -> PlacementCosts:
        """These costs in multiples of ``unit`` seconds, rounded to :data:`RESOLUTION`."""
        other = copy(self)
        other.by_kind = [StageSeconds(in_units(own.base, unit), in_units(own.saving, unit)) for own in self.by_kind]
        for key in ("longest", "bound"):
            other.__dict__.pop(key, None)
        return other

    def equal_key(self, m: int) -> tuple[int, int]:
        """Key that equal servers share: bandwidths and free GPUs."""
        return self.kind[m], self.free[m]

    def seconds(self, counts: Integers) -> Floats:
        """(..., M, S) seconds of each stage on each server, for (..., M, S) contents."""
        if len(self.by_kind) == 1:
            return self.by_kind[0].seconds(counts)
        rows = [self.by_kind[kind].seconds(counts[..., m, :]) for m, kind in enumerate(self.kind)]
        return np.stack(rows, axis=-2)

    def iteration(self, counts: Integers) -> Floats:
        """(...) seconds of an iteration for (..., M, S) contents."""
        return np.asarray(self.seconds(counts).max(axis=(-2, -1)))

    @cached_property
    def longest(self) -> float:
        """Upper bound on the seconds of any placement."""
        return max(float((cost.base + cost.worst(self.pipeline)[:, None]).max()) for cost in self.by_kind)

    @cached_property
    def bound(self) -> float:
        """Lower bound on the seconds of any placement.

        A stage is either whole on a server, or its smallest part has at most half of its replicas; at best with as many
        neighbours as fit on the largest server. A chain of stages of one replica each that is too long for one server
        must be cut, at best at the cheapest position.
        """
        k, count = self.pipeline.replicas[:, None], np.arange(int(self.pipeline.replicas.max()) + 1)
        parts = (count == k) | ((count > 0) & (2 * count <= k))
        largest: dict[int, int] = {}
        for kind, n in zip(self.kind, self.free, strict=True):
            largest[kind] = max(n, largest.get(kind, 0))
        best = reduce(np.minimum, (self.best(kind, n) for kind, n in largest.items()))
        slowest = float(np.where(parts, best, np.inf).min(axis=1).max())
        ones = (self.pipeline.replicas == 1).tolist()
        for single, chain in groupby(range(len(ones)), key=ones.__getitem__):
            if single and len(stages := list(chain)) > 1:
                slowest = max(slowest, self._chain(stages))
        return slowest

    def best(self, kind: int, free: int) -> Floats:
        """(S, K+1) lower bound on the seconds of a stage by its replicas on a server, with the best neighbours.

        Infinite if the server of this kind has too few free GPUs.
        """
        cost, slices, gpus = self.by_kind[kind], self.pipeline.slices, self.pipeline.replicas * self.pipeline.slices
        left = free - np.arange(cost.base.shape[1]) * slices[:, None]
        # saving per GPU of the previous and of the next stage, and their GPUs: larger saving first
        saves, most = np.zeros((2, len(slices), 1)), np.zeros((2, len(slices), 1))
        saves[0, 1:, 0], most[0, 1:, 0] = np.diagonal(cost.saving, -1) / slices[:-1], gpus[:-1]
        saves[1, :-1, 0], most[1, :-1, 0] = np.diagonal(cost.saving, 1) / slices[1:], gpus[1:]
        swap = saves[1, :, 0] > saves[0, :, 0]
        saves[:, swap], most[:, swap] = saves[::-1, swap], most[::-1, swap]
        first = np.minimum(most[0], left)
        saved = first * np.maximum(saves[0], 0) + np.minimum(most[1], left - first) * np.maximum(saves[1], 0)
        return np.where(left >= 0, cost.base - saved, np.inf)

    def _chain(self, stages: list[int]) -> float:
        """Lower bound on the seconds of consecutive stages of one replica each, cut into runs that fit on a server.

        Stages before and after them may be on the same server at no cost.
        """
        largest, slices = max(self.free), self.pipeline.slices.tolist()
        whole, after, before, alone = (self._single(*cut).tolist() for cut in product((False, True), repeat=2))
        first, last = stages[0], stages[-1]
        best = {first - 1: 0.0}  # with all stages up to this one cut into runs
        for end in stages:
            best[end], used, inner = np.inf, 0, 0.0
            for start in range(end, first - 1, -1):
                used += slices[start]
                if used > largest:
                    break
                cut_after = end == start and end < last
                kept, cut = (after, alone) if cut_after else (whole, before)
                here = cut[start] if start > first else kept[start]
                best[end] = min(best[end], max(best[start - 1], inner, here))
                inner = max(inner, kept[start])
        return best[last]

    def _single(self, cut_before: bool, cut_after: bool) -> Floats:
        """(S,) seconds of one replica of each stage with all neighbours on its server except those cut off."""
        k, found = self.pipeline.replicas, []
        for cost in self.by_kind:
            value = cost.base[:, 1].copy()
            if not cut_before:
                value[1:] -= np.maximum(np.diagonal(cost.saving, -1), 0.0) * k[:-1]
            if not cut_after:
                value[:-1] -= np.maximum(np.diagonal(cost.saving, 1), 0.0) * k[1:]
            found.append(value)
        return reduce(np.minimum, found)
