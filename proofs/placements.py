"""All placements of a small job, for whoever wants to see every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from hetopt.models.asrpt.contents import Whole
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers


def every_placement(pipeline: Pipeline, servers: Servers) -> Iterator[Whole]:
    """All (S, M) tables of replicas for which there is room."""
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
