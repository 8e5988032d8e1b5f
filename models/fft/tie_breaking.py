"""Tie-break among plans of equal cost: jobs keep their type, and earlier jobs get the better place."""

from __future__ import annotations

from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.tolerances import ROUNDING


def settled(choice: Positions, cost: Floats, entities: Entities, last: Positions) -> Positions:
    """The plan after all preferred exchanges of places and moves of single jobs at equal cost.

    Two jobs of equal demand may exchange their places (waiting is a place), and a job may move to another type with
    free GPUs. Plans with more jobs on their last type are preferred, then plans that give the earlier job of the
    instance the better place: running before waiting, then lower cost, then the earlier type. Every step improves this
    lexicographic order, so the search terminates; none changes the cost but for rounding.

    Parameters
    ----------
    choice:
        (n,) position of each job's GPU type, -1 where it waits.
    cost:
        (n, k) cost of each type, infinite where the job cannot run; waiting costs 0.
    last:
        (n,) position of the type on which each job was last executed, -1 for none.

    Returns
    -------
    Positions
        (n,) as ``choice``, and the same object if the plan is settled already.
    """
    if _all_stay(choice, cost, entities.demand, last):
        return choice
    places = np.hstack([cost, np.zeros((len(cost), 1))])
    return _Places(choice, places, entities, last).settle()


def _all_stay(choice: Positions, cost: Floats, demand: Floats, last: Positions) -> bool:
    """Whether every running job is on its last type, and no exchange is preferred: the rule in most rounds.

    An exchange of two running jobs, and a move, would take a job from its last type. An exchange with a waiting job is
    preferred only if that was last on the same type, and is the earlier one. Jobs of one type and demand whose costs
    are in a row equal, in sorted order, count as tied: where costs are equal but for rounding, so are those in between.
    """
    runs = choice >= 0
    if (runs & (last != choice)).any():
        return False
    kept = np.flatnonzero(last >= 0)
    own = cost[kept, last[kept]]
    kept, own = kept[np.isfinite(own)], own[np.isfinite(own)]
    order = np.lexsort((own, demand[kept], last[kept]))
    kept, own = kept[order], own[order]
    ties = (last[kept][1:] == last[kept][:-1]) & (demand[kept][1:] == demand[kept][:-1]) & _equal(own[1:], own[:-1])
    first = np.flatnonzero(np.append(True, ~ties)[: len(kept)])
    if not len(first):
        return True
    earliest_waiting = np.minimum.reduceat(np.where(runs[kept], len(runs), kept), first)
    latest_running = np.maximum.reduceat(np.where(runs[kept], kept, -1), first)
    return not (earliest_waiting < latest_running).any()


class _Places:
    """Place of each job; place k is waiting."""

    def __init__(self, choice: Positions, cost: Floats, entities: Entities, last: Positions) -> None:
        k = entities.shape[1]
        self.waiting, self.cost, self.demand, self.capacity = k, cost, entities.demand, entities.capacity
        self.at = np.where(choice >= 0, choice, k)
        self.last = last

    @cached_property
    def rank(self) -> Positions:
        """(n, k + 1) order of the places of each job; waiting is the last."""
        k = self.waiting
        order = np.argsort(self.cost[:, :k], axis=1, kind="stable")
        rank = np.full(self.cost.shape, k)
        np.put_along_axis(rank, order, np.arange(k)[None, :], axis=1)
        return rank

    @cached_property
    def alike(self) -> dict[float, Positions]:
        """The jobs of each demand."""
        return {demand: np.flatnonzero(self.demand == demand) for demand in np.unique(self.demand).tolist()}

    def settle(self) -> Positions:
        while sum(self._move(p) | self._exchange(p) for p in self._tied()):
            pass
        return np.where(self.at == self.waiting, -1, self.at)

    def _tied(self) -> list[int]:
        """Running jobs with another place of equal cost: few, if costs are random."""
        running = np.flatnonzero(self.at != self.waiting)
        own = self.cost[np.arange(len(self.at)), self.at]
        tied = _equal(own[running, None], self.cost[running, : self.waiting]).sum(axis=1) > 1
        candidates = self._candidates()
        for demand in np.unique(self.demand[candidates]).tolist():
            others = self.alike[demand]
            mine = np.flatnonzero(candidates[running] & (self.demand[running] == demand))
            p = running[mine]
            now = own[p, None] + own[None, others]
            then = self.cost[p[:, None], self.at[others]] + self.cost[others[:, None], self.at[p]].T
            tied[mine] |= (_equal(now, then) & (self.at[p, None] != self.at[None, others])).any(axis=1)
        return [int(p) for p in running[tied]]

    def _candidates(self) -> NDArray[np.bool_]:
        """(n,) the running jobs that may tie with another one, found by sorting.

        Jobs of one demand at the places a and b tie if b costs both of them as much more than a. Multiples of a number
        that no two such differences differ by keep jobs of other demands apart.
        """
        cost, found = self.cost, np.zeros(len(self.at), dtype=bool)
        most = float(np.abs(cost[np.isfinite(cost)]).max(initial=0.0))
        demands, apart = np.unique(self.demand, return_inverse=True)
        offset = 8 * most * apart
        room = 8 * ROUNDING * most * (1 + 2 * len(demands))
        places = [np.flatnonzero(self.at == a) for a in range(self.waiting + 1)]
        for a, b in permutations(range(self.waiting + 1), 2):
            here, there = places[a], places[b]
            if a == self.waiting or not len(here) or not len(there):
                continue
            with np.errstate(invalid="ignore"):  # infinite at both places, for jobs at others
                more = cost[:, b] - cost[:, a] + offset
            others, own = np.sort(more[there]), more[here]
            found[here] |= np.searchsorted(others, own + room, "right") > np.searchsorted(others, own - room)
        return found

    def _exchange(self, p: int) -> bool:
        """Exchange a running job with the most preferred partner."""
        here, others = self.at[p], self.alike[self.demand[p]]
        there = self.at[others]
        now = self.cost[p, here] + self.cost[others, there]
        tie = _equal(now, self.cost[p, there] + self.cost[others, here]) & (there != here)
        if not tie.any():
            return False
        q, there = others[tie], there[tie]
        stays = (self.last[q] == here) + 0 + (self.last[p] == there)
        stays -= (self.last[p] == here) + 0 + (self.last[q] == there)
        better = np.where(q < p, self.rank[q, here] < self.rank[q, there], self.rank[p, there] < self.rank[p, here])
        wanted = np.flatnonzero((stays > 0) | ((stays == 0) & better))
        if not len(wanted):
            return False
        best = wanted[np.argmax(stays[wanted])]
        self.at[p], self.at[q[best]] = there[best], here
        return True

    def _move(self, p: int) -> bool:
        """Move a running job to a type with free GPUs, if preferred."""
        here = self.at[p]
        room = self.capacity - np.bincount(self.at, weights=self.demand, minlength=self.waiting + 1)[: self.waiting]
        free = np.flatnonzero(room >= self.demand[p])
        free = free[_equal(self.cost[p, here], self.cost[p, free])]
        stays = (free == self.last[p]) + 0 - (here == self.last[p])
        wanted = np.flatnonzero((stays > 0) | ((stays == 0) & (self.rank[p, free] < self.rank[p, here])))
        if not len(wanted):
            return False
        self.at[p] = free[wanted[np.lexsort((self.rank[p, free[wanted]], -stays[wanted]))[0]]]
        return True


def _equal(now: Floats, then: Floats) -> NDArray[np.bool_]:
    """Whether costs are finite and equal but for rounding."""
    return np.asarray(np.isfinite(then) & (np.abs(now - then) <= ROUNDING * (np.abs(now) + np.abs(then))))
