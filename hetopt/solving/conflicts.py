"""Conflicting rows of infeasible programs.

The functions are passed the class :class:`~hetopt.solving.highs.Session`, with which they solve programs: it reports
conflicts itself, and therefore imports this module.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hetopt.checks import counted
from hetopt.data.array_types import Floats
from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.options import Options
from hetopt.tolerances import FEASIBILITY


class LinearSession(Protocol):
    """The methods of :class:`hetopt.solving.highs.Session` that the search uses."""

    def values(self) -> tuple[Floats, Floats, float]:
        """As :meth:`hetopt.solving.highs.Session.values`."""

    def is_feasible(self) -> bool:
        """As :meth:`hetopt.solving.highs.Session.is_feasible`."""

    def set_row_bounds(self, rows: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
        """As :meth:`hetopt.solving.highs.Session.set_row_bounds`."""


class OpenSession(Protocol):
    """The class :class:`hetopt.solving.highs.Session`, called with a program."""

    def __call__(
        self, program: LinearProgram, options: Options | None = None, *, explain: bool = True
    ) -> LinearSession:
        """A session of ``program``."""


SECONDS_PER_TRIAL = 3.0
"""Limit of one integer solve in the search for a conflict; rows of an undecided trial stay in the conflict."""


def infeasible(program: LinearProgram, open_session: OpenSession) -> NotSolved:
    """The error for an infeasible ``program``, with the conflict that :func:`conflict` finds."""
    names = conflict(program, open_session)
    counts = Counter(map(_component, names))
    names.sort(key=lambda name: counts[_component(name)])  # one row of a user before a hundred of envy
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return NotSolved(f"the program is infeasible: these cannot hold together: {listed}", "infeasible", names)


def _component(row: str) -> str:
    """The first part of a row's name."""
    return re.split(r"[.\[]", row)[0]


def conflict(program: LinearProgram, open_session: OpenSession) -> list[str]:
    """Names of conflicting rows of ``program``, and of the bounds and groups in the conflict.

    Returns
    -------
    list[str]
        If the relaxation is infeasible: an irreducible infeasible set of rows (infeasible with the column bounds;
        feasible without any one of the rows), then ``"bound of <column>"`` for bounds other than x >= 0 that contribute
        to it. If only integrality makes the program infeasible: ``"integrality"`` and groups of rows, one per component
        (``"envy_free (6 rows)"``); without any one group the others have an integer solution.
    """
    program = replace(program, c=np.zeros(len(program.c)), earlier=(), offset=0.0).scaled()
    if crossed := _crossed(program):
        return crossed
    session = _elastic(program, open_session)
    short, dual = _shortfall(session)
    if short <= FEASIBILITY:
        groups = _groups(program, open_session)
        return ["integrality", *groups] if program.integer.any() else groups  # or infeasible only within tolerances
    few = _irreducible(_only(program, np.flatnonzero(np.abs(dual) > FEASIBILITY)), open_session)
    price = few.priced(_shortfall(_elastic(few, open_session))[1])
    # Columns in the conflict through a bound other than 0.
    held = (price > FEASIBILITY) | ((price < -FEASIBILITY) & (few.col_lower != 0))
    return [*few.row_names, *(f"bound of {few.col_names[j]}" for j in np.flatnonzero(held).tolist())]


def is_infeasible(program: LinearProgram, open_session: OpenSession) -> bool:
    """Whether ``program`` is infeasible beyond tolerances."""
    program = replace(program, earlier=()).scaled()
    if _crossed(program) or _shortfall(_elastic(program, open_session))[0] > FEASIBILITY:
        return True
    return bool(program.integer.any()) and not open_session(program).is_feasible()


def _crossed(program: LinearProgram) -> list[str]:
    """Columns with a lower bound above the upper one, else the first such row."""
    columns = np.flatnonzero(program.col_lower > program.col_upper).tolist()
    rows = np.flatnonzero(program.row_lower > program.row_upper).tolist()
    return [f"bound of {program.col_names[j]}" for j in columns] or [program.row_names[i] for i in rows[:1]]


def _elastic(program: LinearProgram, open_session: OpenSession) -> LinearSession:
    """The elastic program, which minimises the sum of row violations: it is always feasible and bounded.

    HiGHS reports some infeasible programs as "Unknown", and its own search for irreducible subsystems fails on these.
    """
    rows, columns = program.shape
    one = sparse.eye_array(rows, format="csc")
    low, high = np.flatnonzero(np.isfinite(program.row_lower)), np.flatnonzero(np.isfinite(program.row_upper))
    more = len(low) + len(high)
    elastic = LinearProgram.of(
        np.concatenate([np.zeros(columns), -np.ones(more)]),
        sparse.csc_array(sparse.hstack([program.A, one[:, low], -one[:, high]])),
        program.row_lower,
        program.row_upper,
        col_upper=np.concatenate([program.col_upper, np.full(more, np.inf)]),
    )
    elastic.col_lower[:columns] = program.col_lower
    return open_session(elastic, Options(method="simplex"), explain=False)


def _shortfall(session: LinearSession) -> tuple[float, Floats]:
    """The least sum of row violations, and (rows,) duals: rows with a nonzero dual conflict."""
    _, dual, objective = session.values()
    return -objective, dual


def _only(program: LinearProgram, rows: NDArray[np.intp] | list[int]) -> LinearProgram:
    return program.without_rows(np.setdiff1d(np.arange(program.shape[0]), rows))


def _irreducible(program: LinearProgram, open_session: OpenSession) -> LinearProgram:
    """Drop rows of an infeasible program one by one while it stays infeasible; column bounds are never dropped."""
    session, needed = _elastic(program, open_session), []
    for i in range(program.shape[0]):
        session.set_row_bounds(i, -np.inf, np.inf)
        if _shortfall(session)[0] <= FEASIBILITY:
            session.set_row_bounds(i, program.row_lower[i], program.row_upper[i])
            needed.append(i)
    return _only(program, needed)


def _groups(program: LinearProgram, open_session: OpenSession) -> list[str]:
    """The groups of rows (by the first part of their names) that have no common integer solution."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(program.row_names):
        groups.setdefault(_component(name), []).append(i)
    needed = dict(groups)
    for name in groups:
        fewer = [i for other, rows in needed.items() if other != name for i in rows]
        session = open_session(_only(program, fewer), Options(time_limit=SECONDS_PER_TRIAL))
        if not session.is_feasible():
            del needed[name]
    return [f"{name} ({counted(len(rows), 'row')})" for name, rows in needed.items()]
