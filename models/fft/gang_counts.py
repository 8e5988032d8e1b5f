"""Least cost of the core of an FFT round by an integer program in which only counts are integers.

Let N[d, i] be the number of gangs of d GPUs on type i. With x[j, i] = 1 if job j runs on type i ::

    minimise  sum_ji c[j, i] x[j, i]
    subject to  sum_i x[j, i] <= 1 for all j,   sum_{j: d[j] = d} x[j, i] = N[d, i] for all d and i
                Y[i] - S <= sum_d d N[d, i] <= Y[i] for all i,   sum_{d, i} d N[d, i] = K,   x >= 0, N whole

is the core, although x may be any number: for fixed counts, the jobs of each demand form a transportation problem,
whose vertices are whole. Gangs of one GPU need no whole counts, since the room that the others leave is whole. So a
round with few sizes of gangs has few integers, however many jobs it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.models.fft.knapsacks import Core
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import FEASIBILITY

FEW_COUNTS = 60
"""Integers up to which the program takes less time than a search: seven sizes of gangs on eight types."""

JOBS_PER_COUNT = 4
"""Least number of jobs for each integer."""

MANY_JOBS = 300
"""Jobs up to which searches take less time, if they end."""


class CountProgram:
    """The program of a core.

    Attributes
    ----------
    gangs, type:
        (q,) GPUs per gang, and type, of each count; (job, type) pairs of the core determine which there are.
    few:
        Whether there are few integers.
    preferred:
        Whether it should take less time than a search.
    """

    def __init__(self, core: Core) -> None:
        self.core, k = core, len(core.room)
        self.jobs, self.types = np.nonzero(np.isfinite(core.cost))
        sizes, size = np.unique(core.demand, return_inverse=True)
        counts, self.count = np.unique(size[self.jobs] * k + self.types, return_inverse=True)
        self.gangs, self.type = sizes[counts // k], counts % k
        self.whole = self.gangs > 1
        self.few = int(self.whole.sum()) <= min(FEW_COUNTS, len(core.demand) // JOBS_PER_COUNT)
        self.preferred = len(core.demand) > MANY_JOBS and self.few

    def solve(self, gap: float, seconds: float | None) -> tuple[float, Positions | None]:
        """A bound on the cost of all plans of the core, and the best plan found.

        Parameters
        ----------
        gap:
            Distance from the optimum up to which it is solved, relative to the cost of the free jobs.
        seconds:
            Time limit, or None.

        Returns
        -------
        tuple
            The bound, infinite if there is no plan and minus infinity if HiGHS proves nothing; (m,) type of each job,
            -1 where it waits, or None if HiGHS has no plan.
        """
        scaled = (program := self._program()).scaled()
        try:
            point = Session(scaled, Options(gap=gap, time_limit=seconds), explain=False).solve().unscaled(program)
        except NotSolved as problem:
            return (np.inf if problem.status == "infeasible" else -np.inf), None
        return self.core.base - point.bound, self._plan(point.x)

    def _program(self) -> LinearProgram:
        core, m, q = self.core, len(self.jobs), len(self.gangs)
        (n, k), places, counts = core.cost.shape, np.arange(m), np.arange(q)
        gangs = self.gangs.astype(float)
        blocks: list[list[Any]] = [
            [sparse.csc_array((np.ones(m), (self.jobs, places)), shape=(n, m)), None],
            [sparse.csc_array((np.ones(m), (self.count, places)), shape=(q, m)), -sparse.eye_array(q)],
            [None, sparse.csc_array((gangs, (self.type, counts)), shape=(k, q))],
        ]
        in_use = []
        if core.idle:  # else the rows before imply it, and HiGHS 1.16 finds some programs with both infeasible
            blocks.append([None, sparse.csc_array(gangs[None, :])])
            in_use.append(core.room.sum() - core.idle)
        lower = np.concatenate([np.full(n, -np.inf), np.zeros(q), np.maximum(core.room - core.idle, 0), in_use])
        upper = np.concatenate([np.ones(n), np.zeros(q), core.room, in_use])
        most = np.minimum(np.bincount(self.count, minlength=q), core.room[self.type] // self.gangs)
        return LinearProgram.of(
            np.concatenate([-core.cost[self.jobs, self.types], np.zeros(q)]),
            sparse.block_array(blocks, format="csc"),
            lower,
            upper,
            col_upper=np.concatenate([np.ones(m), most]),
            integer=np.concatenate([np.zeros(m, dtype=bool), self.whole]),
        )

    def _plan(self, x: Floats) -> Positions | None:
        """The plan of a point, or if it is not whole the cheapest one with its counts; None if there is none."""
        core, choice = self.core, np.full(len(self.core.demand), -1)
        places, counts = np.split(x, [len(self.jobs)])
        if np.abs(places - np.rint(places)).max(initial=0.0) <= FEASIBILITY:
            runs = places > 0.5
            choice[self.jobs[runs]] = self.types[runs]
        else:
            numbers = np.zeros((int(core.demand.max()) + 1, len(core.room)), dtype=np.intp)
            numbers[self.gangs, self.type] = np.rint(counts).astype(np.intp)
            return core.with_numbers([numbers[demand] for demand, _ in core.by_demand], choice)
        used = np.bincount(choice[choice >= 0], core.demand[choice >= 0], len(core.room))
        return choice if (used <= core.room).all() and used.sum() == core.room.sum() - core.idle else None
