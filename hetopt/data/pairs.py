"""The pairs of an instance's jobs that may share their GPUs, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats, Positions
from hetopt.data.instance_data import InstanceData
from hetopt.data.packing import parts_of


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of jobs that may share their GPUs, in the order of their positions.

    Attributes
    ----------
    jobs:
        (p, 2) positions of the two jobs, the smaller first.
    parts:
        (p, 2, k) part of its isolated rate that each of them keeps on each GPU type; 0 where they cannot share GPUs.
    """

    jobs: Positions
    parts: Floats


def packable_pairs(instance: InstanceData, allowed: NDArray[np.bool_], types: Sequence[str]) -> Pairs:
    """The pairs of jobs that may share their GPUs of some type.

    Neither is elastic, both have gangs of the same size, their models have a packing, each can run on the type, and its
    GPUs have the memory of one worker of each.

    Parameters
    ----------
    instance:
        The n jobs.
    allowed:
        (n, k) whether the gang of a job can run on the type.
    types:
        k GPU types.
    """
    kinds: dict[tuple[str, int], int] = {}
    kind = np.full(len(instance.jobs), -1)
    for e, job in enumerate(instance.jobs if instance.packings else ()):
        if job.model is not None and not job.sizes:
            kind[e] = kinds.setdefault((job.model, job.demand), len(kinds))
    table = np.zeros((len(kinds), len(kinds), len(types)))  # the part that the first keeps
    for ((model, gpus), a), ((other, others), b) in product(kinds.items(), repeat=2):
        if gpus == others and (parts := parts_of(instance.packing_table, model, other, gpus)):
            table[a, b] = [parts[t][0] if t in parts else 0.0 for t in types]
    able = np.flatnonzero(kind >= 0)
    i, j = np.triu_indices(len(able), 1)
    first, second = able[i], able[j]
    memory = instance.job_array("memory_bytes")
    limit = np.array([t.memory_limit for t in instance.cluster.gpu_types])
    fits = allowed[first] & allowed[second] & ((memory[first] + memory[second])[:, None] <= limit)
    both = np.stack([table[kind[first], kind[second]], table[kind[second], kind[first]]], axis=1) * fits[:, None]
    good = both.any(axis=(1, 2))
    return Pairs(np.stack([first, second], axis=1)[good], both[good])
