"""Solver options."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from hetopt.checks import at_least, boolean, shown, whole
from hetopt.errors import InvalidOption, NotSolved
from hetopt.tolerances import GAP

Method = Literal["auto", "simplex", "interior-point", "plain"]
METHOD_NAMES = get_args(Method)
"""The names of methods."""


@dataclass(frozen=True)
class Options:
    """Settings of :func:`hetopt.solve`.

    Parameters
    ----------
    solver:
        ``"highs"`` (default, installed with hetopt), ``"gurobi"`` (extra), or any name that Pyomo's
        ``SolverFactory`` has.
    method:
        ``"auto"``: the fastest suitable method (one for the formulation's components if available, reduced-cost fixing
        for binary programs, else dual simplex). ``"simplex"``: a vertex. ``"interior-point"``: without crossover, so
        not a vertex. ``"plain"``: the whole program, lazy rows included, is passed to the solver unchanged.
    time_limit:
        Seconds, or None.
    gap:
        Relative gap at which an integer search, or the approximation of a concave gain, may stop.
    threads:
        Threads of the solver; for HiGHS at most those of the machine.
    seed:
        Random seed of the solver.
    exact:
        Prove the optimum in rational numbers, without tolerance: by the optimal basis of a linear program, by branch
        and bound for an integer one, whatever ``gap`` says.
    deadline:
        Set by :meth:`started`.

    Raises
    ------
    InvalidOption
        A value out of range.
    """

    solver: str = "highs"
    method: Method = "auto"
    time_limit: float | None = None
    gap: float = GAP
    threads: int = 1
    seed: int = 0
    exact: bool = False
    deadline: float | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in METHOD_NAMES:
            raise InvalidOption(f"is {shown(self.method)}; it must be one of {', '.join(METHOD_NAMES)}", "method")
        if not isinstance(self.solver, str) or not self.solver:
            raise InvalidOption(f"is {shown(self.solver)}; it must be the name of a solver, e.g. 'highs'", "solver")
        if self.time_limit is not None:
            at_least(self.time_limit, "time_limit", 0.0, InvalidOption, strict=True)
        at_least(self.gap, "gap", 0.0, InvalidOption)
        for name, least in (("threads", 1), ("seed", 0)):
            object.__setattr__(self, name, whole(getattr(self, name), name, least))
        object.__setattr__(self, "exact", boolean(self.exact, "exact"))

    def started(self) -> Options:
        """The same options with ``time_limit`` as a common budget of all later runs, from the first call on.

        Without a start, every run of a solver may take ``time_limit``.
        """
        if self.time_limit is None or self.deadline is not None:
            return self
        return replace(self, deadline=time.perf_counter() + self.time_limit)

    @property
    def left(self) -> float | None:
        """Seconds left of ``time_limit``, at least 0; None without a limit."""
        if self.time_limit is None or self.deadline is None:
            return self.time_limit
        return max(0.0, self.deadline - time.perf_counter())

    def for_start(self) -> Options:
        """The options of a float solve whose point an exact search of an integer program starts from.

        It may take half of the time left.

        Raises
        ------
        NotSolved
            No time is left.
        """
        self.check_time()
        limit = None if self.left is None else self.left / 2
        return replace(self, exact=False, gap=0.0, time_limit=limit, deadline=None).started()

    def for_simplex(self) -> Options:
        """HiGHS's simplex method within the time limit."""
        return Options(method="simplex", seed=self.seed, time_limit=self.time_limit, deadline=self.deadline)

    def check_time(self) -> None:
        """Raise :class:`~hetopt.errors.NotSolved` if the time limit is exceeded before a usable point is found."""
        if self.left == 0:
            raise NotSolved.out_of_time(self.time_limit)


DEFAULT = Options()
"""The options of solves that are given none."""
