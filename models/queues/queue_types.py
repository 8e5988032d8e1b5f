"""In the queue of which GPU type a new job is put for good [FFT, section 6.1.4]."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Entities
from hetopt.models.queues.choosing import gangs

Kinds: TypeAlias = NDArray[np.intp]
"""(n,) a whole number for each job: its queue, or the position of its GPU type and -1 for none."""


def by_lot(jobs: Entities, kind: Kinds, seed: int) -> Kinds:
    """(n,) types: each new job goes to any of those that can run it, all equally likely.

    Parameters
    ----------
    kind:
        (n,) types so far. A job that has none, but holds its gang on one, is put there.
    seed:
        Of the lot, which depends on it and the job's name alone.
    """
    kind = _so_far(jobs, kind)
    for job, able in _new(jobs, kind):
        lot = blake2b(f"{seed}/{jobs.names[job]}".encode(), digest_size=8).digest()
        kind[job] = able[int.from_bytes(lot) % len(able)]
    return kind


def by_least_service(jobs: Entities, kind: Kinds) -> Kinds:
    """(n,) types: each new job goes to that whose jobs have least GPU-seconds left in all, in a tie to the first.

    Jobs that are new at once are put one after the other, as they arrived, and count for the next.
    """
    kind = _so_far(jobs, kind)
    with np.errstate(divide="ignore", invalid="ignore"):
        service = (jobs.demand * jobs.source.job_array("work_left"))[:, None] / jobs.speed
    there = np.flatnonzero(kind >= 0)
    left = np.bincount(kind[there], weights=service[there, kind[there]], minlength=len(jobs.types)).tolist()
    for job, able in _new(jobs, kind):
        kind[job] = min(able, key=left.__getitem__)
        left[kind[job]] += float(service[job, kind[job]])
    return kind


def _so_far(jobs: Entities, kind: Kinds) -> Kinds:
    """A copy in which jobs whose type can no longer run them have none, and new jobs that run the type they hold."""
    kind = np.where(jobs.allowed[np.arange(len(kind)), kind], kind, -1)
    for job, ((held, _),) in gangs(jobs).items():
        kind[job] = held if kind[job] < 0 else kind[job]
    return kind


def _new(jobs: Entities, kind: Kinds) -> Iterator[tuple[int, list[int]]]:
    """Jobs without a type, as they arrived, with the types that can run them; not those that nothing can run now."""
    new = np.flatnonzero((kind < 0) & jobs.allowed.any(axis=1))
    for job in new[np.argsort(jobs.source.job_array("arrival")[new], kind="stable")].tolist():
        yield job, np.flatnonzero(jobs.allowed[job]).tolist()
