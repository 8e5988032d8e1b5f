"""The work that a job has left, predicted from the batch sizes of its epochs so far [Shockwave]."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hetopt.data.array_types import Numbers
from hetopt.data.entities import Entities
from hetopt.data.workload import Job, TrainingPhase
from hetopt.tolerances import INTEGRAL


@dataclass(frozen=True)
class EpochEstimate:
    """Progress of a job, and the work that it is expected to have left.

    Attributes
    ----------
    progress:
        Part of its epochs that are done.
    length:
        Work of the whole job if an epoch takes as much as those so far do on average, the present one included; in the
        unit of ``Job.work``.
    left:
        Expected work left, in the same unit.
    """

    progress: float
    length: float
    left: float

    @classmethod
    def known(cls, work: float, left: float) -> EpochEstimate:
        """Of a job without phases: of its ``work``, exactly ``left`` is left."""
        return cls(1.0 - left / work, work, left)

    @property
    def most(self) -> float:
        """Work left by :attr:`length`."""
        return (1.0 - self.progress) * self.length


def epoch_estimate(job: Job, left: float) -> EpochEstimate:
    """The estimate for a job with ``left`` work left, in the unit of ``Job.work``.

    Reads of ``job.phases`` the epochs so far, the number of epochs, and the batch sizes with their work per epoch; not
    the order of later epochs. The parts of the batch sizes have a Dirichlet distribution, whose prior counts all K
    sizes N / K times each, for N epochs. Each epoch so far, the present one included, adds one to its size. Of the N
    epochs expected by the posterior means, the epochs so far are taken away. As in the public code, the present epoch
    is not added again, so that a job of one batch size has the work of an epoch less than it has left.

    With c_b epochs so far of size b, of work w_b each, and E ended epochs, the part of the present one included::

        n_b    = N (N / K + c_b) / (N + sum_b c_b)       expected epochs of size b
        a_b    = n_b - min(c_b, floor(n_b))              those ahead
        left   = (N - E) / max(N - floor(E), floor(sum_b a_b) + 1) sum_b a_b w_b
        length = N sum_b c_b w_b / sum_b c_b

    floor(E) is at most N - 1. A job without phases has exactly its work left.
    """
    if not job.phases:
        return EpochEstimate.known(job.work, left)
    total, ended = sum(phase.epochs for phase in job.phases), _epochs_done(job.phases, job.work - left)
    whole = min(math.floor(ended), total - 1)
    sizes = [phase.batch_size for phase in job.phases for _ in range(phase.epochs)]
    seen, epoch_work = Counter(sizes[: whole + 1]), {phase.batch_size: phase.epoch_work for phase in job.phases}
    count = {size: total / len(epoch_work) + seen[size] for size in epoch_work}
    expected = {size: total * number / sum(count.values()) for size, number in count.items()}
    ahead = {size: number - min(seen[size], math.floor(number)) for size, number in expected.items()}
    part = (total - ended) / max(total - whole, math.floor(sum(ahead.values()) + 1))
    so_far = sum(number * epoch_work[size] for size, number in seen.items()) / (whole + 1)
    return EpochEstimate(ended / total, so_far * total, part * sum(n * epoch_work[size] for size, n in ahead.items()))


def _epochs_done(phases: tuple[TrainingPhase, ...], done: float) -> float:
    """Epochs, with the done part of the last one, after ``done`` work."""
    ended = 0.0
    for phase in phases:
        epochs = min(float(phase.epochs), done / phase.epoch_work)
        ended, done = ended + epochs, done - epochs * phase.epoch_work
    nearest = round(ended)
    return float(nearest) if abs(ended - nearest) < INTEGRAL else ended


def estimate_arrays(entities: Entities, estimates: Mapping[str, EpochEstimate]) -> dict[str, Numbers]:
    """Attribute of :class:`EpochEstimate` -> (n,) values; jobs without an estimate as without phases."""
    left, work = entities.source.job_array("work_left").tolist(), entities.source.job_array("work").tolist()
    rows = [
        estimates.get(name) or EpochEstimate.known(total, rest)
        for name, rest, total in zip(entities.names, left, work, strict=True)
    ]
    keys = ("progress", "length", "left", "most")
    return {key: entities.numbers(np.array([getattr(row, key) for row in rows], dtype=float)) for key in keys}
