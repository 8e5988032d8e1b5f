"""Audits of capacity and of the adjacency of each entity's GPU types."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hetopt.auditing.audited_holdings import Holdings, Result, holdings
from hetopt.auditing.verdict import AuditProperty, Gap, Overused, Verdict, judged
from hetopt.data.capacity import type_parts, unused_parts
from hetopt.data.instance import Instance
from hetopt.tolerances import EQUAL, SUPPORT


def within_capacity(instance: Instance, result: Result, *, exact: bool = False, tolerance: float = EQUAL) -> Verdict:
    """Capacity: every share is at least 0, and no GPU type is overused [OEF, eq. 9b].

    Slack: the smallest unused part of a GPU type; negative for overuse or a negative share, relative to the GPUs of
    the type (to 1 where there are none).

    Parameters
    ----------
    instance, result, exact, tolerance:
        As in :func:`~hetopt.auditing.fairness.envy_free`.
    """
    return capacity_verdict(holdings(instance, result, exact=exact), tolerance)


def capacity_verdict(held: Holdings, tolerance: float = EQUAL) -> Verdict:
    """:func:`within_capacity` of holdings already read."""
    unused, parts = unused_parts(held.gpus, held.capacity), type_parts(held.gpus, held.capacity)
    k, (e, j) = int(unused.argmin()), np.unravel_index(int(parts.argmin()), parts.shape)
    slack, witness = unused[k], Overused(held.types[k], held.gpus[:, k].sum(), held.capacity[k])
    if parts[e, j] < min(slack, 0):
        slack, witness = parts[e, j], Overused(held.types[j], held.gpus[e, j], held.capacity[j], held.names[e])
    return judged(AuditProperty.CAPACITY, slack, witness, tolerance=tolerance, unit="part of the GPUs of a type")


def adjacent_types(instance: Instance, result: Result, *, exact: bool = False, threshold: float = SUPPORT) -> Verdict:
    """Adjacency: the GPU types of each entity form an interval of the cluster's types [OEF, Theorem 5.2].

    Types without GPUs do not count. Slack: 0, or minus the smallest part of a type's GPUs that an entity would have to
    give up to close its worst gap.

    Parameters
    ----------
    instance, result, exact:
        As in :func:`~hetopt.auditing.fairness.envy_free`.
    threshold:
        A share below this part of a type's GPUs counts as none; exact verdicts count every share above 0.
    """
    return adjacency_verdict(holdings(instance, result, exact=exact), threshold)


def adjacency_verdict(held: Holdings, threshold: float = SUPPORT) -> Verdict:
    """:func:`adjacent_types` of holdings already read."""
    types = np.flatnonzero(held.capacity > 0)
    part = type_parts(held.gpus, held.capacity)[:, types]
    worst, witness = held.zero, Gap("", (), {})
    for e, row in enumerate(part):
        there = row > (0 if held.exact else threshold)
        size, missing = _gap(row, there)
        if size > worst:
            worst = size
            witness = Gap(held.names[e], tuple(held.types[types[j]] for j in missing), held.bundle(e))
    return judged(AuditProperty.ADJACENT_TYPES, 0 - worst, witness, tolerance=0.0, unit="part of the GPUs of a type")


def _gap(row: Any, there: Any) -> tuple[Any, list[int]]:
    """The largest min(most on the left, most on the right) of all gaps, and the positions of that gap."""
    found = np.flatnonzero(there)
    best: tuple[Any, list[int]] = (0, [])
    for left, right in pairwise(found.tolist()):
        if right - left > 1:
            size = min(row[: left + 1].max(), row[right:].max())
            if size > best[0]:
                best = (size, list(range(left + 1, right)))
    return best
