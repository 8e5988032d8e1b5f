"""Batch sizes of jobs that change them while they train, as the public code of Shockwave [Shockwave] simulates them.

In its traces a job has the mode ``static``; ``accordion``: the first batch size in critical epochs, else the largest;
or ``gns``, by gradient noise scale: the batch size is doubled at epochs that were measured for each model. The cells of
the column ``phases`` of a trace have the results, see :func:`phases_text`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from hetopt.checks import FrozenDict
from hetopt.data.workload import TrainingPhase
from hetopt.errors import InvalidInstance

SAMPLES: Mapping[str, int] = FrozenDict(
    {"ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907}
)
"""Model -> samples in its data set, for the models whose batch sizes Shockwave's public code scales or could scale."""

LARGEST: Mapping[str, int] = FrozenDict({"ResNet-18": 256, "ResNet-50": 128, "LM": 80, "Recommendation": 8192})
"""Model -> its largest batch size; other models keep theirs."""

DOUBLED: Mapping[tuple[str, int, int], tuple[int, ...]] = FrozenDict(
    {
        ("ResNet-18", 16, 1): (31, 41, 51, 71),
        ("ResNet-18", 16, 2): (21, 31, 91, 111),
        ("ResNet-18", 16, 4): (11, 21, 81, 91),
        ("ResNet-18", 32, 1): (21, 31, 51),
        ("ResNet-18", 32, 2): (11, 21, 41),
        ("ResNet-18", 32, 4): (21, 31, 61),
        ("ResNet-18", 64, 1): (11, 31),
        ("ResNet-18", 64, 2): (21, 41),
        ("ResNet-18", 64, 4): (11, 61),
        ("ResNet-18", 128, 1): (11,),
        ("ResNet-18", 128, 2): (41,),
        ("ResNet-18", 128, 4): (11,),
        ("ResNet-50", 32, 2): (101, 111),
        ("ResNet-50", 32, 4): (131, 221),
        ("ResNet-50", 64, 1): (101,),
        ("ResNet-50", 64, 2): (81,),
        ("ResNet-50", 64, 4): (191,),
        ("LM", 5, 1): (31, 41, 61, 71),
        ("LM", 5, 2): (31, 51, 61, 71),
        ("LM", 5, 4): (11, 31, 71, 91),
        ("LM", 10, 1): (11, 21, 41),
        ("LM", 10, 2): (11, 31, 41),
        ("LM", 10, 4): (11, 31, 61),
        ("LM", 20, 1): (11, 41),
        ("LM", 20, 2): (31, 41),
        ("LM", 20, 4): (11, 61),
        ("LM", 40, 1): (11,),
        ("LM", 40, 2): (11,),
        ("LM", 40, 4): (61,),
        ("Recommendation", 512, 1): (21, 41, 71, 91),
        ("Recommendation", 1024, 1): (21, 51, 91),
        ("Recommendation", 2048, 1): (21, 41),
        ("Recommendation", 4096, 1): (41,),
    }
)
"""(model, first batch size, GPUs) -> epochs, from 0, with which the batch size doubles: ``get_gns_bs_pattern``."""


def _critical(model: str, size: int, epoch: int) -> bool:
    """Whether the first batch size is kept in this epoch: ``get_accordion_bs_pattern``."""
    if model == "ResNet-18":
        return epoch < (20 if size == 256 else 10) or 150 <= epoch < 160 or 250 <= epoch < 260
    if model == "ResNet-50":
        return epoch % 30 < 10
    if model == "LM":
        return epoch < 10
    first = 30 if size < 2048 else 40 if size == 2048 else 10
    return epoch < first or 60 <= epoch < 70 or 80 <= epoch < 90


def batch_sizes(mode: str, model: str, size: int, gpus: int, epochs: int) -> list[tuple[int, int]]:
    """(epochs, batch size) of the parts of a job, in order.

    The public code differs in one epoch: where it doubles a batch size more than once, it gives the last epoch of the
    job the first batch size, in the tables that it schedules by, but not when it simulates the job.

    Parameters
    ----------
    mode:
        ``"accordion"`` or ``"gns"``; otherwise the batch size stays.
    model:
        Name of the model, such as ``"ResNet-18"``.
    size:
        The first batch size.
    gpus:
        GPUs of the job.
    epochs:
        Its epochs, at least 1.
    """
    most = LARGEST.get(model, size)
    if mode == "accordion":
        sizes = [
            size if model not in LARGEST or epoch <= 0.3 * epochs or _critical(model, size, epoch) else most
            for epoch in range(epochs)
        ]
    else:
        doubled = DOUBLED.get((model, size, gpus), ()) if mode == "gns" else ()
        sizes = [min(most, size * 2 ** sum(epoch >= start for start in doubled)) for epoch in range(epochs)]
    return [(len(list(same)), own) for own, same in groupby(sizes)]


def adapted(
    mode: str, model: str, size: int, gpus: int, steps: float, speed: Mapping[int, float]
) -> tuple[TrainingPhase, ...]:
    """The phases of a job, whose work of an epoch is its seconds; none if its batch size stays.

    Parameters
    ----------
    mode, model, size, gpus:
        As of :func:`batch_sizes`.
    steps:
        Its steps at the first batch size; the last epoch is completed.
    speed:
        Batch size -> steps per second; a batch size without speed is not taken, as in the public code.
    """
    if model not in SAMPLES or size not in speed:
        return ()
    parts: list[tuple[int, int]] = []
    for epochs, own in batch_sizes(mode, model, size, gpus, math.ceil(steps / math.ceil(SAMPLES[model] / size))):
        last = own if own in speed else parts[-1][1]
        before = parts.pop()[0] if parts and parts[-1][1] == last else 0
        parts.append((before + epochs, last))
    if len(parts) < 2:
        return ()
    return tuple(TrainingPhase(epochs, own, math.ceil(SAMPLES[model] / own) / speed[own]) for epochs, own in parts)


def phases_text(phases: Iterable[TrainingPhase]) -> str:
    """Phases as a cell of text, ``epochs x batch size @ seconds of an epoch``: ``31x10@4.25 10x20@3.5``."""
    return " ".join(f"{phase.epochs}x{phase.batch_size}@{phase.epoch_work!r}" for phase in phases)


def phases_of(cell: str) -> tuple[TrainingPhase, ...]:
    """The phases in a cell of :func:`phases_text`; the work of an epoch is its seconds.

    Raises
    ------
    InvalidInstance
        Something else.
    """
    parts = (re.split("[x@]", part) for part in cell.split())
    try:
        return tuple(TrainingPhase(int(epochs), int(size), float(seconds)) for epochs, size, seconds in parts)
    except ValueError:  # also of TrainingPhase
        wanted = "epochs x batch size @ seconds of an epoch, such as 31x10@4.25 10x20@3.5"
        raise InvalidInstance(f"is {cell!r}; it must be {wanted}", "phases") from None
