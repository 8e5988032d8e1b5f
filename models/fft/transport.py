"""The cheapest assignment of jobs to a fixed number of places on each type: a transportation problem.

The nodes are the types, waiting, and one node for empty places. Moving a job from one node to another costs the
difference of its costs; the least of these is the length of the arc. A job that moves from waiting to an empty place
pays off more than any other exchange. An assignment is cheapest if no cycle has a negative length (Klein 1967). So
negative cycles are cancelled until there are none but those within rounding errors; each saves more than these, so
there is an end.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.tolerances import PROVEN


def cheapest_assignment(cost: Floats, places: Positions, near: Positions) -> Positions | None:
    """(n,) type of each job, -1 where it waits, with ``places`` jobs on each type at least cost; None without one.

    Parameters
    ----------
    cost:
        (n, k) cost of each job on each type, infinite where it cannot run.
    places:
        (k,) number of jobs on each type.
    near:
        (n,) type of each job in an assignment with similar numbers of places, or -1: the fewer exchanges are left, the
        faster it is.
    """
    n, k = cost.shape
    finite = np.abs(cost[np.isfinite(cost)])
    large = 4 * (k + 1) * (float(finite.max(initial=0.0)) or 1.0)
    costs, choice = np.column_stack([cost, np.zeros(n)]), np.full(n, k)
    for of_near in (True, False):  # then other jobs, the cheapest first
        for i in range(k):
            able = (choice == k) & np.isfinite(cost[:, i])
            own = np.flatnonzero(able & (near == i) if of_near else able)
            choice[own[np.argsort(cost[own, i])[: places[i] - (choice == i).sum()]]] = i
    left = places - np.bincount(choice, minlength=k + 1)[:k]
    length, job = np.full((k + 2, k + 2), np.inf), np.zeros((k + 2, k + 2), dtype=np.intp)
    changed = list(range(k + 1))
    while True:
        for node in changed:
            jobs = np.flatnonzero(choice == node)
            length[node, : k + 1] = np.inf
            if len(jobs):
                moves = costs[jobs] - costs[jobs, node][:, None]
                first = moves.argmin(axis=0)
                length[node, : k + 1], job[node, : k + 1] = moves[first, np.arange(k + 1)], jobs[first]
        np.fill_diagonal(length, np.inf)
        length[:k, -1] = np.where(left > 0, 0.0, np.inf)
        length[-1, k] = -large
        cycle = negative_cycle(length, PROVEN * large / (k + 1))
        if not cycle:
            break
        for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            if max(a, b) <= k:
                choice[job[a, b]] = b
            elif b > k:
                left[a] -= 1
        changed = [node for node in cycle if node <= k]
    return None if left.any() else np.where(choice < k, choice, -1)


def negative_cycle(length: Floats, noise: float) -> list[int]:
    """The nodes of a cycle whose arcs are in total shorter than minus ``noise``, in order; none if there is none."""
    n = len(length)
    far, before = np.zeros(n), np.full(n, -1)
    for _ in range(n):
        reach = far[:, None] + length
        best = reach.argmin(axis=0)
        least = reach[best, np.arange(n)]
        shorter = least < far - noise
        if not shorter.any():
            return []
        far[shorter], before[shorter] = least[shorter], best[shorter]
    node = int(np.flatnonzero(shorter)[0])
    for _ in range(n):
        node = int(before[node])
    cycle = [node]
    while (node := int(before[node])) != cycle[0]:
        cycle.append(node)
    return cycle[::-1]
