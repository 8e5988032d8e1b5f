"""Jobs with models and packings, for tests; and the pairs of jobs that may share GPUs, by plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
from hypothesis import strategies as st

from hetopt import Instance
from hetopt.data.packing import Packing

MODELS = "ABC"


def with_models(instance: Instance, seed: int) -> Instance:
    """Jobs of three models, some of none, with packings of some pairs of models on some types, and for some sizes."""
    rng = np.random.default_rng(seed)
    jobs = [replace(job, model=None if rng.random() < 0.1 else str(rng.choice(list(MODELS)))) for job in instance.jobs]
    packings = []
    for first, second in combinations_with_replacement(MODELS, 2):
        for gpus in (None, 1) if rng.random() < 0.2 else (None,):
            parts = {}
            for t in instance.cluster.type_names:
                one, other = (rng.integers(1, 9, 2) / 8).tolist()
                if rng.random() < 0.8:
                    parts[t] = (one, one if first == second else other)
            if parts and rng.random() < 0.8:
                packings.append(Packing((first, second), parts, gpus))
    return instance.replace(jobs=jobs, packings=packings)


@st.composite
def packable(draw: st.DrawFn, instances: st.SearchStrategy[Instance]) -> Instance:
    """:func:`with_models` of one of ``instances``."""
    return with_models(draw(instances), draw(st.integers(0, 2**32 - 1)))


def parts_by_hand(instance: Instance) -> dict[tuple[str, str], dict[str, tuple[float, float]]]:
    """Two jobs that may share GPUs, in the order of the instance -> GPU type -> parts of both."""
    found = {}
    for one, other in combinations(instance.jobs, 2):
        parts: dict[str, tuple[float, float]] = {}
        for packing in sorted(instance.packings, key=lambda packing: packing.gpus is not None):
            if one.demand != other.demand or packing.gpus not in (None, one.demand):
                continue
            if (one.model, other.model) == packing.models:
                parts = dict(packing.parts)
            elif (other.model, one.model) == packing.models:
                parts = {t: own[::-1] for t, own in packing.parts.items()}
        memory = {t.name: t.memory_bytes for t in instance.cluster.gpu_types}
        parts = {
            t: own
            for t, own in parts.items()
            if one.throughput[t] > 0
            and other.throughput[t] > 0
            and one.demand <= instance.cluster.capacity[t]
            and (memory[t] is None or one.memory_bytes + other.memory_bytes <= memory[t])
        }
        if parts:
            found[one.name, other.name] = parts
    return found
