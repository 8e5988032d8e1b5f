"""The proof that no point of an integer program is better than the best known one: bounds and cuts, then the search."""

from __future__ import annotations

import math
from contextlib import suppress

from hetopt.data.array_types import Floats
from hetopt.errors import NotSolved
from hetopt.solving.options import Options
from hetopt.solving.rational.core import Core, contradiction, rounded_duals
from hetopt.solving.rational.fixing import reduced_core
from hetopt.solving.rational.gomory_cuts import add_gomory_cuts, without_slack
from hetopt.solving.rational.kernel import Rational
from hetopt.solving.rational.row_cuts import add_cuts
from hetopt.solving.rational.search import OutOfTime, Paused, Relaxation, Search
from hetopt.tolerances import EQUAL

NODES_BEFORE_CUTS = 300
"""Nodes of a first search without Gomory's cuts: most programs are solved in fewer, and cuts take longer than that."""

CUT_ROUNDS, LEAST_RISE = 8, 0.02
"""Most rounds of cuts, and the least part of the gap that a round closes if there is to be another."""


def prove(core: Core, options: Options) -> int:
    """Position of a constraint, free of assumptions, that no solution is better than the best known one.

    Raises
    ------
    search.Improved
        There is a better one.
    search.OutOfTime
        The time limit is exceeded.
    """
    if (position := contradiction(core)) is not None:
        return position
    root = _Root(core, options)
    try:
        root.fix()
        length = len(core.derived)
        with suppress(Paused):
            return Search(root.core, options, root.bound).run(NODES_BEFORE_CUTS)
        core.derived.truncate(length)
        root.cut()
    except NotSolved as problem:
        if problem.status == "time_limit":
            raise OutOfTime(root.bound) from None
        raise
    return Search(root.core, options, root.bound).run()


class _Root:
    """What is done before the search.

    Attributes
    ----------
    bound:
        The bound on the objective that is proven, None without one.
    """

    def __init__(self, core: Core, options: Options) -> None:
        self.core, self.options = core, options
        self.bound: Rational | None = None

    def fix(self) -> None:
        """Fix columns by reduced costs, add cuts of rows of whole numbers, and fix again."""
        if self._fixed():
            add_cuts(self.core)
            self._fixed()

    def _fixed(self) -> bool:
        """Whether the relaxation is solved, and a search is left after columns are fixed by it."""
        _, dual, value = Relaxation(self.core, self.options).solve()
        return dual is not None and self._reduce(dual, value)

    def cut(self) -> None:
        """Add Gomory's cuts as long as they raise the bound, and fix columns again."""
        first, before, rounds = len(self.core.rows), -math.inf, 0
        while True:
            relaxation = Relaxation(self.core, self.options)
            x, dual, value = relaxation.solve()
            basis, gap = relaxation.session.basis(), self._target() - value
            if x is None or dual is None or basis is None:
                return
            if rounds == CUT_ROUNDS or gap <= EQUAL or value - before < LEAST_RISE * gap:
                self._reduce(dual, value)
                return
            self.core = without_slack(self.core, dual, first)
            add_gomory_cuts(self.core, x, basis)
            before, rounds = value, rounds + 1

    def _target(self) -> float:
        return float(self.core.right / self.core.unit())

    def _reduce(self, dual: Floats, value: float) -> bool:
        """Take the bound of these duals, and leave out the columns that they fix; whether a search is left."""
        y = rounded_duals(self.core, dual)
        found = self.core.weak_bound(self.core.cost, y)
        if found is not None:
            bound = self.core.proven(found.total)
            self.bound = bound if self.bound is None else max(bound, self.bound)
        if value >= self._target() - EQUAL:
            return False
        self.core = reduced_core(self.core, y)
        return True
