"""Who would gain by how much with another's GPUs, as plain ratios for tables and pictures.

Verdicts with slack and witness are in :mod:`hetopt.auditing.fairness`.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.data.worth import most_at_once, tempting, worth

BLOCK = 2_000_000
"""Pairs of entities compared at once, so that 100,000 tenants fit in memory."""


def envy_ratio(entities: Entities, gpus: Floats, rows: list[int] | slice = slice(None)) -> Floats:
    """(len(rows), n) rate of the row's entity with the column's GPUs (per weight), relative to its own rate.

    Parameters
    ----------
    entities:
        n tenants or jobs; a job's rate ends where its gang runs all the time.
    gpus:
        (n, k) GPUs that each has.
    rows:
        Positions of the entities that compare; default all.

    Returns
    -------
    numpy.ndarray
        1 where an entity looks at itself; above 1 it envies the column's. Infinite for an entity that has nothing
        and would like something.
    """
    value, most = entities.per_gpu, most_at_once(entities)
    own = worth(value, gpus, most)[rows, None]
    other = tempting(value, gpus, entities.weight, most, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(own > 0, other / own, np.where(other > 0, np.inf, 1.0)))


def largest_envy(entities: Entities, gpus: Floats) -> float:
    """The largest gain that someone would have with another's GPUs, in parts of its own rate; 0: nobody envies."""
    n = len(entities.names)
    step = max(1, BLOCK // n)
    blocks = (envy_ratio(entities, gpus, slice(start, start + step)) for start in range(0, n, step))
    return max(0.0, max(float(block.max()) for block in blocks) - 1.0)
