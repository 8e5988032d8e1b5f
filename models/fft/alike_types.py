"""Types on which all jobs cost about the same, as one type: a relaxation of an FFT round, and plans of it split again.

Where types are alike, any plan has many twins that exchange types, and a search proves the same again and again. The
merged type has the GPUs of all, and each job costs what it costs on the cheapest. So a bound on the merged round bounds
the round. A plan of the merged round is split by subset sums of its gangs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.round_search import Round
from hetopt.solving.blocks import Flags

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
        """A plan of the whole round in which jobs run on members of their type; None if none fits."""
        whole, out = self.whole, np.full(len(choice), -1)
        for g, types in enumerate(self.members):
            jobs, left = np.flatnonzero(choice == g), list(types.tolist())
            while len(left) > 1:
                own = left.pop(0)
                others = whole.cost[jobs][:, left].min(axis=1)
                chosen = _subset(
                    whole.cost[jobs, own] - others,
                    whole.demand[jobs],
                    int(whole.room[own]),
                    int(whole.demand[jobs].sum() - whole.room[left].sum()),
                    (np.isfinite(whole.cost[jobs, own]), np.isfinite(others)),
                )
                if chosen is None:
                    return None
                out[jobs[chosen]] = own
                jobs = jobs[~chosen]
            out[jobs] = left[0]
        used = np.bincount(out[out >= 0], weights=whole.demand[out >= 0], minlength=len(whole.room))
        runs = np.flatnonzero(out >= 0)
        return out if (used <= whole.room).all() and np.isfinite(whole.cost[runs, out[runs]]).all() else None


def _subset(gain: Floats, demand: Positions, most: int, least: int, able: tuple[Flags, Flags]) -> Flags | None:
    """(m,) True for the jobs of a subset of least ``gain`` with ``least`` to ``most`` GPUs; None if there is none.

    ``able``: whether each job can be inside, and outside.
    """
    table = np.full((len(gain) + 1, most + 1), np.inf)
    table[0, 0] = 0.0
    inside, outside = able
    for t, need in enumerate(demand.tolist()):
        table[t + 1] = table[t] if outside[t] else np.inf
        if inside[t] and need <= most:
            extra = gain[t] if outside[t] else 0.0
            np.minimum(table[t + 1, need:], table[t, : most + 1 - need] + extra, out=table[t + 1, need:])
    total = table[-1, max(least, 0) :]
    if least > most or not np.isfinite(total).any():
        return None
    at, chosen = max(least, 0) + int(np.argmin(total)), np.zeros(len(gain), dtype=bool)
    for t in range(len(gain) - 1, -1, -1):
        chosen[t] = not (outside[t] and table[t, at] == table[t + 1, at])
        at -= int(demand[t]) if chosen[t] else 0
    return chosen


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
