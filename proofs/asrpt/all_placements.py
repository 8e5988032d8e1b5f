"""All placements of a small job, and random larger jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from hetopt.data.array_types import Integers
from hetopt.data.workload import Job, Stage
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


def random_case(rng: np.random.Generator, stages: int, most: int, servers: int) -> tuple[Pipeline, Servers]:
    """A job of ``stages`` stages with at most ``most`` replicas each, and servers of 8 GPUs, 1 to 8 free, that fit it.

    Stages take 5 to 100 ms each way; parameters and outputs are between 10^5 and 10^8.5 bytes, uniform in the exponent.
    """
    k = rng.integers(1, most + 1, stages)
    times, sizes = rng.uniform(0.005, 0.1, (stages, 2)), 10 ** rng.uniform(5, 8.5, (stages, 2))
    made = [Stage(int(n), *t, *b) for n, t, b in zip(k, times.tolist(), sizes.tolist(), strict=True)]
    job = Job("random", {"V100": 1.0}, 1, int(k.sum()), stages=tuple(made))
    while (free := rng.integers(1, 9, servers)).sum() < k.sum():
        pass
    return Pipeline.of(job), Servers.alike(free.tolist(), gpus=8)


def every_placement(pipeline: Pipeline, servers: Servers) -> Iterator[Integers]:
    """All (S, M) tables of replicas that fit."""
    ways = [list(_compositions(k, len(servers))) for k in pipeline.replicas.tolist()]
    for rows in product(*ways):
        table = np.array(rows)
        if (pipeline.slices @ table <= servers.free).all():
            yield table


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)
