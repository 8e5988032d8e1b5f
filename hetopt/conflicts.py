"""Why a program is infeasible: few rows that cannot hold together, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import highspy
import numpy as np
from numpy.typing import NDArray

from hetopt.errors import NotSolved
from hetopt.highs import Session, to_highs
from hetopt.linear import LinearProgram
from hetopt.options import Options

SECONDS_PER_TRIAL = 10.0
"""Limit of one integer solve while looking for a conflict; an undecided trial leaves its rows in the answer."""

Rows = NDArray[np.intp]


def infeasible(program: LinearProgram) -> NotSolved:
    """The error for an infeasible ``program``, with the conflict that :func:`conflict` finds."""
    names = conflict(program)
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return NotSolved(f"the program is infeasible: these cannot hold together: {listed}", "infeasible", names)


def conflict(program: LinearProgram) -> list[str]:
    """Names of rows of ``program`` that cannot hold together, and of the bounds and groups that matter to it.

    Returns
    -------
    list[str]
        Where the relaxation is infeasible: an irreducible set of rows (with the columns' bounds they cannot hold;
        without any one of them the others can), then ``"bound of <column>"`` for bounds other than x >= 0 that
        have a part in it. Where only whole values are impossible: ``"integrality"`` and groups of rows, each a
        component's (``"envy_free (6 rows)"``); without any one group the others have a whole solution.
    """
    relaxed = replace(
        program, c=np.zeros(len(program.c)), integer=np.zeros(len(program.c), dtype=bool), offset=0.0, earlier=()
    )
    rows, _ = _iis(relaxed)
    if rows is None:
        return ["integrality", *_groups(replace(relaxed, integer=program.integer))]
    few = _irreducible(_only(relaxed, rows))
    _, columns = _iis(few)
    return [*few.row_names, *(f"bound of {program.col_names[i]}" for i in columns)]


def _only(program: LinearProgram, rows: Sequence[int] | Rows) -> LinearProgram:
    return program.without_rows(np.setdiff1d(np.arange(program.shape[0]), rows))


def _iis(program: LinearProgram) -> tuple[list[int] | None, list[int]]:
    """Rows and columns (those with a bound other than x >= 0) of HiGHS's irreducible set; rows None if feasible."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    strategy = highspy.IisStrategy
    highs.setOptionValue("iis_strategy", int(strategy.kIisStrategyFromLp) | int(strategy.kIisStrategyIrreducible))
    highs.passModel(to_highs(program))
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kInfeasible:
        return None, []
    _, iis = highs.getIis()[:2]
    kinds, upper = highspy.IisBoundStatus, program.col_upper
    loose = {int(kinds.kIisBoundStatusFree), int(kinds.kIisBoundStatusNull)}
    columns = [
        i
        for i, kind in zip(iis.col_index_, iis.col_bound_, strict=True)
        if int(kind) not in loose
        and not (int(kind) == int(kinds.kIisBoundStatusLower) and program.col_lower[i] == 0 and upper[i] != 0)
    ]
    return list(iis.row_index_) or list(range(program.shape[0])), columns


def _irreducible(program: LinearProgram) -> LinearProgram:
    """Drop rows of an infeasible program one by one while it stays infeasible; column bounds are never dropped."""
    session, needed = Session(program, Options(method="simplex")), []
    for i in range(program.shape[0]):
        session.set_row_bounds(i, -np.inf, np.inf)
        if session.is_feasible():
            session.set_row_bounds(i, program.row_lower[i], program.row_upper[i])
            needed.append(i)
    return _only(program, needed)


def _groups(program: LinearProgram) -> list[str]:
    """The groups of rows (by the first part of their names) that whole values cannot meet together."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(program.row_names):
        groups.setdefault(re.split(r"[.\[]", name)[0], []).append(i)
    needed = dict(groups)
    for name in groups:
        fewer = [i for other, rows in needed.items() if other != name for i in rows]
        session = Session(_only(program, fewer), Options(time_limit=SECONDS_PER_TRIAL))
        if not session.is_feasible():
            del needed[name]
    return [f"{name} ({len(rows)} row{'s' if len(rows) > 1 else ''})" for name, rows in needed.items()]
