"""Binary programs by reduced-cost fixing: the relaxation fixes most columns, and a small core program remains.

1. If the blocks of the program form few classes, integer columns count how many blocks of a class choose each column
   (:mod:`hetopt.solving.aggregation`); the aggregated program is exact and small.
2. Otherwise prices from the relaxation (:mod:`hetopt.solving.sifting`) give a bound, and a lower bound on the loss if a
   column is 1. Only columns with a loss of at most the width enter the core, which HiGHS solves.
3. No point outside the core is better than ``bound - width``. The core is widened until this bound, or the core's own,
   proves its best point up to the requested gap. In the worst case it becomes the whole program.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram, Point, Status
from hetopt.solving.aggregation import Classes, aggregated, classes_of, disaggregated
from hetopt.solving.blocks import Blocks, Losses, blocks_of, restricted
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.sifting import relaxed
from hetopt.tolerances import FEASIBILITY, PROVEN, scale

FEW = 128
"""Number of columns up to which HiGHS solves the whole program within milliseconds; for FFT's rounds with 40 to 100
jobs, hard instances take it twice as long as cores."""

AGGREGATED_UP_TO = 2_000
"""Number of columns up to which aggregation is worthwhile: programs of a few dozen classes take some 5 ms."""

ROOM = 1.25
"""Size of the first core relative to the columns without loss: enough for a feasible point in most programs."""

WIDER = 2
"""Growth of the number of columns after a core without a feasible point."""


def solve_binary(program: LinearProgram, options: Options, start: Floats | None = None, *, few: int = FEW) -> Point:
    """Maximise a program whose integer columns are binary (``program.is_binary``).

    Parameters
    ----------
    program:
        Its last objective is maximised. Continuous columns stay in every core.
    options:
        ``gap`` is relative to ``sum |c x|``, the sum of absolute gains and costs: an objective in which gains and costs
        cancel is too small a scale.
    start:
        (columns,) a point to start from, or None; ignored if it is infeasible.
    few:
        Number of columns up to which HiGHS solves the whole program.

    Returns
    -------
    Point
        Proven up to the gap, unless the time limit came first. Aggregated programs are solved without a gap.

    Raises
    ------
    NotSolved
        Infeasible or unbounded, or no usable point within the time limit.
    """
    if len(program.c) <= few or not program.col_upper[program.integer].any():
        session = Session(program, options)
        if start is not None:
            session.start_from(start)
        return session.solve()
    options, began = options.started(), time.perf_counter()
    blocks = blocks_of(program)
    classes = classes_of(blocks, AGGREGATED_UP_TO)
    if classes is not None:
        found = _solve_aggregated(classes, options)
    else:
        found = _Search(blocks, relaxed(blocks, options), options, start).run()
    return replace(found, program=program, seconds=time.perf_counter() - began)


def _solve_aggregated(classes: Classes, options: Options) -> Point:
    program, kept = aggregated(classes)
    point = Session(program, replace(options, gap=0.0)).solve()
    x = disaggregated(classes, kept, point.x)
    value = classes.blocks.program.objective(x)
    return replace(point, x=x, objective=value, bound=max(value, point.bound), method="counting")


class _Search:
    """Cores of growing width around the optimum of the relaxation."""

    def __init__(self, blocks: Blocks, losses: Losses, options: Options, start: Floats | None = None) -> None:
        self.blocks, self.losses, self.options = blocks, losses, options
        self.program = blocks.program
        self.widths = np.sort(losses.column[blocks.binary])
        self.widest = max(self.widths[-1], losses.block[np.isfinite(losses.block)].max(initial=0.0))
        self.passes = 1
        self.x = start if start is not None and _is_good(start, self.program) else None

    def run(self) -> Point:
        """Widen the core until its best point is proven."""
        noise = PROVEN * max(scale(self.losses.bound), scale(self.program.c))
        many = int(np.searchsorted(self.widths, noise, side="right") * ROOM) + 1
        width = self._width_of(many)
        while True:
            bound, in_time = self._core(width)
            if self.x is None:
                many *= WIDER
                width = self._width_of(many)
                continue
            value = self.program.objective(self.x)
            size = float(np.abs(self.program.c * self.x).sum())
            slack = max(self.options.gap * size, noise)
            needed = self.losses.bound - value - slack / 2
            if bound - value <= slack or needed <= width or not in_time:
                return self._point(value, bound, noise, in_time)
            width = needed

    def _width_of(self, columns: int) -> float:
        """The width of a core with this number of binary columns; the largest width gives the whole program."""
        return float(self.widths[columns] if columns < len(self.widths) else self.widest)

    def _core(self, width: float) -> tuple[float, bool]:
        """Solve the core of this width from the best point so far; return its bound and whether time is left."""
        everything = width >= self.widest
        outside = -np.inf if everything else self.losses.bound - width
        self.passes += 1
        try:
            point, columns = self._solved(width, everything)
        except NotSolved as problem:
            if problem.status == "time_limit" and self.x is not None:
                return self.losses.bound, False
            if problem.status != "infeasible" or everything:
                raise
            return outside, True
        x = np.zeros(len(self.program.c))
        x[columns] = point.x
        if self.x is None or self.program.objective(x) > self.program.objective(self.x):
            self.x = x
        in_time = point.status != "time_limit"
        return min(self.losses.bound, max(point.bound, outside)) if in_time else self.losses.bound, in_time

    def _solved(self, width: float, everything: bool) -> tuple[Point, Positions]:
        blocks, losses = self.blocks, self.losses
        columns = np.flatnonzero(losses.column <= width)
        core, rows = restricted(self.program, columns)
        filled = np.flatnonzero(losses.block > width)  # empty, they would lose more than the width
        must = np.isin(rows, blocks.row[filled])
        alone = np.isin(blocks.of[columns], filled[blocks.row[filled] < 0])
        core = replace(
            core,
            row_lower=np.where(must, 1.0, core.row_lower),
            col_lower=np.where(alone, 1.0, core.col_lower),
        )
        session = Session(core, self.options, explain=everything, subsearch=everything)
        if self.x is not None:
            session.start_from(self.x[columns])
        return _rounded(session.solve()), columns

    def _point(self, value: float, bound: float, noise: float, in_time: bool) -> Point:
        assert self.x is not None
        proven: Status = "optimal" if bound - value <= noise else "gap"
        return Point(
            program=self.program,
            x=self.x,
            objective=value,
            bound=max(bound, value),
            status=proven if in_time else "time_limit",
            method="reduced-cost fixing",
            passes=self.passes,
        )


def _rounded(point: Point) -> Point:
    """``point`` with its integer columns rounded, if it stays feasible."""
    x = np.where(point.program.integer, np.rint(point.x), point.x)
    return replace(point, x=x) if _is_good(x, point.program) else point


def _is_good(x: Floats, program: LinearProgram) -> bool:
    """Whether ``x`` is a feasible point of ``program``."""
    whole = x[program.integer]
    return bool((whole == np.rint(whole)).all()) and program.violation(x) <= FEASIBILITY
