"""Partition of a network into stages with replicas: the planner for [ASRPT, section V-A].

The planner is ours, similar to the dynamic programs of PipeDream and of the paper's reference [20]: it minimises the
time of the slowest stage [ASRPT, eq. 7] without knowing the placement. By default every replica has only its guaranteed
share of the network card; the plan then minimises alpha_max.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np

from hetopt.checks import at_least, whole
from hetopt.data.array_types import Numbers
from hetopt.data.cluster import NIC_BYTES_PER_S
from hetopt.data.workload import Stage
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.asrpt.layers import BACKWARD, Network

V100_BYTES = 32e9
"""Memory of a V100 (its larger version), in bytes."""

NIC_SHARE = NIC_BYTES_PER_S / 8
"""Share of each of a server's eight GPUs in a 10 Gbit/s card, in bytes/s: B_inter / g [ASRPT, section V-B]."""


@dataclass(frozen=True)
class StageCosts:
    """Costs of every possible stage: layers [i, j) in k replicas, for L layers and up to G GPUs.

    Attributes
    ----------
    seconds:
        (L, L + 1, G + 1) seconds of one iteration; infinite for i >= j, for k = 0, and if a replica has too little
        memory or less than one sample of the mini-batch.
    sent:
        (L, L + 1, G + 1) bytes that all its replicas send and receive in one iteration.
    """

    seconds: Numbers
    sent: Numbers


def stage_costs(network: Network, gpus: int, *, memory_bytes: float, bandwidth: float) -> StageCosts:
    """Costs of each possible stage.

    A replica computes its share of the mini-batch, exchanges activations and gradients with both neighbours and
    reduces gradients with the other replicas [ASRPT, eqs. 4 to 7; 5 and 6 as repaired], all at ``bandwidth``:

        ((1 + 2) forward + 2 (received + sent) / bandwidth) / k + 2 (k-1)/k h / bandwidth
    """
    length = len(network.layers)
    computed, reduced, needed = (
        _between(column) for column in (network.work, network.parameter_bytes, network.memory_bytes)
    )
    output = np.concatenate([[0.0], network.output_bytes])
    exchanged = 2 * (output[:length, None] + output[None, :])
    k = np.arange(gpus + 1)
    sent = exchanged[:, :, None] + 2 * np.maximum(k - 1, 0) * reduced[:, :, None]
    possible = np.arange(length)[:, None] < np.arange(length + 1)
    allowed = (possible & (needed <= memory_bytes))[:, :, None] & (k >= 1) & (k <= network.mini_batch)
    work = (1 + BACKWARD) * computed[:, :, None] / network.speed + sent / bandwidth
    seconds = np.divide(work, k, out=np.full(work.shape, np.inf), where=allowed)
    return StageCosts(seconds, sent)


def _between(column: Numbers) -> Numbers:
    """(L, L + 1) sums of entries i, …, j - 1."""
    total = np.concatenate([[0.0], np.cumsum(column)])
    return np.asarray(total[None, :] - total[:-1, None])


def plan(
    network: Network,
    gpus: int,
    *,
    max_stages: int | None = None,
    memory_bytes: float = V100_BYTES,
    bandwidth: float = NIC_SHARE,
) -> tuple[Stage, ...]:
    """The stages on ``gpus`` GPUs with the fastest slowest stage; in ties with the fewest bytes, then stages.

    Exact: a binary search over the sorted stage times finds the smallest limit for which a dynamic program over layers
    and GPUs finds stages. O(L^2 G^2) for each of about twenty programs.

    Parameters
    ----------
    network:
        The network.
    gpus:
        Number of GPUs, all of which are used.
    max_stages:
        Largest number of stages (default: no limit).
    memory_bytes:
        Memory of one GPU in bytes. Parameters and gradients of a stage must fit; activations are not counted.
    bandwidth:
        Bytes/s of each replica for all communication (default: its share of a 10 Gbit/s card).

    Raises
    ------
    InvalidOption
        A number that is not positive.
    InvalidInstance
        No plan uses exactly this number of GPUs: a layer or the network does not fit in memory, or there are more GPUs
        than samples for all layers.
    """
    count = whole(gpus, "gpus", 1)
    most = len(network.layers) if max_stages is None else whole(max_stages, "max_stages", 1)
    at_least(memory_bytes, "memory_bytes", 0.0, InvalidOption, strict=True)
    at_least(bandwidth, "bandwidth", 0.0, InvalidOption, strict=True)
    table = stage_costs(network, count, memory_bytes=memory_bytes, bandwidth=bandwidth)
    limit = _bottleneck(table, count, most)
    if limit is None:
        raise InvalidInstance(_impossible(network, count, most, memory_bytes))
    return tuple(_stage(network, *cut) for cut in _cuts(table, count, limit, most))


def _bottleneck(table: StageCosts, gpus: int, most: int) -> float | None:
    """The smallest time limit with at most ``most`` stages; None if there is no plan."""
    times = np.unique(table.seconds[np.isfinite(table.seconds)])
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        fewest = _least(np.where(table.seconds <= times[middle], 1.0, np.inf))
        if fewest.value[-1, gpus] <= most:
            high = middle
        else:
            low = middle + 1
    return float(times[low]) if low < len(times) else None


def _cuts(table: StageCosts, gpus: int, limit: float, most: int) -> list[tuple[int, int, int]]:
    """(i, j, k) of at most ``most`` stages within the limit: the fewest bytes sent, then the fewest stages."""
    length = table.seconds.shape[0]
    price = np.where(table.seconds <= limit, 2 * length * table.sent + 1, np.inf)  # bytes first: stages are <= length
    cuts = _followed(repeat(_least(price)), gpus)
    if len(cuts) <= most:
        return cuts
    tables = [_least(price, _start(length, gpus))]
    while len(tables) < most:
        tables.append(_least(price, tables[-1].value))
    best = min(range(most), key=lambda s: float(tables[s].value[-1, gpus]))
    return _followed(tables[best::-1], gpus)


class _CheapestCover(NamedTuple):
    """(L + 1, G + 1) least sums of prices over stages that cover layers [0, j) with g GPUs; infinite if impossible.

    ``first`` and ``replicas`` describe the last of these stages.
    """

    value: Numbers
    first: Numbers
    replicas: Numbers


def _start(length: int, gpus: int) -> Numbers:
    """Sums without any stage."""
    value = np.full((length + 1, gpus + 1), np.inf)
    value[0, 0] = 0.0
    return value


def _least(price: Numbers, before: Numbers | None = None) -> _CheapestCover:
    """Least sums over any number of stages, or with exactly one stage more than ``before``."""
    length, _, width = price.shape
    value = _start(length, width - 1)
    source = value if before is None else before
    if before is not None:
        value[0, 0] = np.inf
    first, replicas = (np.zeros(value.shape, dtype=np.int64) for _ in range(2))
    for j in range(1, length + 1):
        for k in range(1, width):
            usable = np.flatnonzero(np.isfinite(price[:j, j, k]))
            if not usable.size:
                continue
            sums = source[usable, : width - k] + price[usable, j, k][:, None]
            best = sums.argmin(axis=0)
            least = sums[best, np.arange(width - k)]
            better = np.flatnonzero(least < value[j, k:])
            value[j, k + better], first[j, k + better] = least[better], usable[best[better]]
            replicas[j, k + better] = k
    return _CheapestCover(value, first, replicas)


def _followed(tables: Iterable[_CheapestCover], gpus: int) -> list[tuple[int, int, int]]:
    """(i, j, k) of the stages, read from one table each, beginning with the last stage."""
    cuts: list[tuple[int, int, int]] = []
    end, left = -1, gpus
    for table in tables:
        if end == 0:
            break
        start, end, k = int(table.first[end, left]), end % len(table.value), int(table.replicas[end, left])
        cuts.append((start, end, k))
        end, left = start, left - k
    return cuts[::-1]


def _stage(network: Network, start: int, end: int, k: int) -> Stage:
    """Layers [start, end) in k replicas, each with its share of the mini-batch."""
    forward = float(network.work[start:end].sum()) / network.speed / k
    return Stage(
        replicas=k,
        forward_s=forward,
        backward_s=BACKWARD * forward,
        parameter_bytes=float(network.parameter_bytes[start:end].sum()),
        output_bytes=float(network.output_bytes[end - 1]) / k,
    )


def _impossible(network: Network, gpus: int, most: int, memory_bytes: float) -> str:
    """Message that explains why there is no plan."""
    head = f"{network.name} cannot be trained on {gpus} GPUs: "
    largest = int(network.memory_bytes.argmax())
    if network.memory_bytes[largest] > memory_bytes:
        layer, need = network.layers[largest].name, network.memory_bytes[largest]
        return f"{head}layer {layer!r} needs {need:g} bytes, a GPU has {memory_bytes:g}"
    stages = min(most, len(network.layers))
    if gpus > stages * network.mini_batch:
        full = stages * network.mini_batch
        return f"{head}{stages} stages of {network.mini_batch} samples have work for {full} GPUs at most"
    total, stages = float(network.memory_bytes.sum()), min(stages, gpus)
    return f"{head}whole layers of {total:g} bytes do not fit into {stages} stages of {memory_bytes:g} bytes"
