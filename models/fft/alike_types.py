"""Types on which all jobs cost about the same, as one type: a relaxation of an FFT round, and plans of it split again.

Where types are alike, a plan stays about as good if jobs exchange types, and a search proves the same again and again.
The merged type has the GPUs of all, and each job costs what it costs on the cheapest. So a bound on the merged round
bounds the round. A plan of the merged round is split over the members of each type.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.round_search import Round
from hetopt.models.fft.rounded_plan import rounded

TOLERATED = 0.1
"""Part of the gap that merging may take off the bound of the relaxation."""

NEAR = 0.01
"""Types are compared if the prices of their GPUs differ by at most this part of the largest, and the costs of many
jobs by at most this part."""

MANY = 0.1
"""Part of the jobs that cost about the same on types that are merged."""


@dataclass(frozen=True, eq=False)
class Merged:
    """A round with merged types.

    Attributes
    ----------
    whole:
        The round.
    part:
        The round in which each type stands for the types in ``members``.
    """

    whole: Round
    part: Round
    members: tuple[Positions, ...]

    def split(self, choice: Positions) -> Positions | None:
        """A plan of the whole round in which jobs run on members of their type; None if exchanges find none."""
        whole, out = self.whole, np.full(len(choice), -1)
        for g, types in enumerate(self.members):
            jobs = np.flatnonzero(choice == g)
            cost, demand = whole.cost[np.ix_(jobs, types)], whole.demand[jobs]
            loss = cost - cost.min(axis=1, keepdims=True)
            waits, runs = np.full(len(jobs), np.inf), np.ones(len(jobs), dtype=bool)
            near = rounded(loss, waits, demand, whole.room[types], runs)
            if near is None:
                return None
            out[jobs] = types[near]
        return out


def merged(round_: Round, gap: float) -> Merged | None:
    """The round with types merged where that hardly lowers the bound of the relaxation; None if there are none."""
    members = tuple(np.array([i]) for i in range(len(round_.room)))
    found = Merged(round_, round_, members)
    allowance = TOLERATED * gap * abs(round_.relaxed.bound)
    while (longer := _with_next(found, round_.relaxed.bound - allowance)) is not None:
        found = longer
    return None if found.part is round_ else found


def _with_next(found: Merged, least: float) -> Merged | None:
    """``found`` with two more types merged so that the bound is at least this; None if no two can be."""
    part, price = found.part, found.part.price
    for a, b in combinations(range(len(price)), 2):
        if abs(price[a] - price[b]) > NEAR * np.abs(price).max() or not _alike(*part.cost[:, [a, b]].T):
            continue
        both, others = [a, b], [i for i in range(len(price)) if i not in (a, b)]
        room = part.room[both].sum()
        mean = float(price[both] @ part.room[both]) / max(room, 1)
        joined = Round(
            cost=np.column_stack([part.cost[:, both].min(axis=1), part.cost[:, others]]),
            demand=part.demand,
            room=np.append(room, part.room[others]),
            idle=part.idle,
            price=np.append(mean, price[others]),
        )
        if joined.relaxed.bound >= least:
            members = (np.concatenate([found.members[a], found.members[b]]), *(found.members[i] for i in others))
            return Merged(found.whole, joined, members)
    return None


def _alike(one: Floats, other: Floats) -> bool:
    """Whether many jobs cost about the same on two types."""
    both = np.isfinite(one) & np.isfinite(other)
    near = np.abs(one[both] - other[both]) <= NEAR * np.abs(one[both])
    return int(near.sum()) >= MANY * int((np.isfinite(one) | np.isfinite(other)).sum())
