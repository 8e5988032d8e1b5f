"""Why a program is infeasible: few rows that cannot hold together, by name."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Floats
from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import FEASIBILITY, scale

SECONDS_PER_TRIAL = 3.0
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
    session = Session(relaxed, Options(method="simplex"), presolve=False)
    if session.is_feasible():
        groups = _groups(replace(relaxed, integer=program.integer))
        return ["integrality", *groups] if program.integer.any() else groups  # else tolerances decide
    rows, _ = _contradiction(relaxed, session.ray())
    few = _irreducible(_only(relaxed, rows))
    session = Session(few, Options(method="simplex"), presolve=False)
    session.is_feasible()
    _, columns = _contradiction(few, session.ray())
    return [*few.row_names, *(f"bound of {program.col_names[j]}" for j in columns.tolist())]


def _only(program: LinearProgram, rows: Rows | list[int]) -> LinearProgram:
    return program.without_rows(np.setdiff1d(np.arange(program.shape[0]), rows))


def _contradiction(program: LinearProgram, ray: Floats | None) -> tuple[Rows, Rows]:
    """Rows, and columns by a bound other than x >= 0, that have a part in the contradiction of a dual ``ray``.

    The rows weighted by the ray add up to one that no point of the box can meet. Without a ray (the bounds of a
    single row or column exclude each other) those are named, or all rows if there are none.
    """
    crossed = np.flatnonzero(program.col_lower > program.col_upper)
    if ray is None:
        rows = np.flatnonzero(program.row_lower > program.row_upper)
        return (rows if len(rows) or len(crossed) else np.arange(program.shape[0])), crossed
    weight = program.A.T @ ray
    if not _excludes(program, ray, weight):
        ray, weight = -ray, -weight
    noise = FEASIBILITY * scale(ray)
    below = (weight > noise) & (program.col_lower != 0)  # the box is held against the rows where it is least
    above = weight < -noise
    return np.flatnonzero(np.abs(ray) > noise), np.flatnonzero(below | above)


def _excludes(program: LinearProgram, ray: Floats, weight: Floats) -> bool:
    """Whether the least that the box gives exceeds the most that the weighted rows allow."""
    noise = FEASIBILITY * scale(ray)
    least = np.where(weight > 0, program.col_lower, program.col_upper)[np.abs(weight) > noise]
    most = np.where(ray > 0, program.row_upper, program.row_lower)[np.abs(ray) > noise]
    if not (np.isfinite(least).all() and np.isfinite(most).all()):
        return False
    return bool(weight[np.abs(weight) > noise] @ least > ray[np.abs(ray) > noise] @ most)


def _irreducible(program: LinearProgram) -> LinearProgram:
    """Drop rows of an infeasible program one by one while it stays infeasible; column bounds are never dropped."""
    session, needed = Session(program, Options(method="simplex"), presolve=False), []
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
