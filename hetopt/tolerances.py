"""All tolerances, with their reasons.

They are relative, except where a number of GPUs or rounds is rounded: multiply by the scale of the compared numbers
(:func:`scale`), so that an instance in iterations per day and the same one in iterations per second get the same
verdict.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

FEASIBILITY = 1e-7
"""A row counts as satisfied within this. HiGHS's primal tolerance, so HiGHS satisfies nothing stricter."""

EQUAL = 1e-6
"""Two optima, or a solver's and an oracle's value, count as equal. Ten times FEASIBILITY: rows that are
each off by FEASIBILITY move an optimum by a small multiple of it."""

TRUSTED = 1e-5
"""A certificate is called inaccurate where a row is violated by more. Scaling inside a solver may multiply FEASIBILITY
by a small factor; a factor of a hundred means a loss of digits."""

GAP = 1e-6
"""Default relative gap at which a search for an integer optimum, or the tangents of a concave gain, stop."""

SUPPORT = 1e-7
"""A share below this part of a type's GPUs counts as 0. Matches the zero threshold used to state OEF's Theorem 5.2."""

INTEGRAL = 1e-6
"""A binary within this of 0 or 1 is read as that. HiGHS's own integrality tolerance."""

SEARCHED_GAP = 0.1
"""Part of the requested gap at which the search for the plan of a round stops if it starts from the last plan. The rest
is left for the rounds in which gains drift, so that the plan is searched again less often."""

KEPT_OPTIMUM = 1e-9
"""How far later objectives may take an earlier one below its optimum. Small enough not to be seen in a
result, large enough for the solver to find the face of optima that it has just computed."""

VIOLATED = 1e-8
"""A lazy row enters once it is violated by more. Below FEASIBILITY, so that a finished pass meets it."""

PROVEN = 1e-9
"""Relative gap at which a method's own dual bound proves its result. Rounding in sums over 100,000 tenants
leaves about 1e-12, and no result shows it."""

CENTRED = 1e-7
"""Part of the optimum that the centre of the optimal shares may give up. A tenth of EQUAL, so that it still counts as
optimal; the slack of the rows that limit the optimum still has half of the digits of a float."""

QUADRATIC = 1e-4
"""Gain of a Newton step of the centre below which full steps converge quadratically. Their rounding errors are far
smaller: at most 1e-7 with up to 300 jobs."""

FINE = 1e-10
"""Tolerances of HiGHS for an exact basis or exact prices: the smallest that it accepts. Smaller numbers, relative to
the largest of their kind, count as noise."""

ALIKE = 1e-8
"""Tastes whose entries differ relatively by up to this may be solved as one: envy rows move by at most twice as much,
which is below FEASIBILITY, while rounding of multipliers that resolve smaller differences would show in the bound."""

START = 1e-3
"""Relative gap of a result that is only the start of the next search; the value does not matter much."""

GENERIC = 1e-12
"""Random relative change of a program's numbers that lets no two of them tie, and the imbalance at which its basis
counts as optimal: thousands of times the rounding error, and a thousandth of PROVEN."""

CONVERGED = 1e-11
"""Interior points stop once their products are below this part of the optimum: 100 times finer than PROVEN, while
rounding in the sums over some thousand entities leaves about 1e-13."""

REGULAR = 1e-13
"""Regularisation of the capacity rows' matrix in the interior-point method: added to the diagonal, relative to it.
Hundreds of times the rounding error, and small enough for one refinement step to correct."""

RELAXED = 1e-10
"""Part of the change of a multiplier by which its equation may move in a step of the interior-point method for bundles.
Ten times that for envy rows, of which many are nearly the same. With larger values the gap falls slowly where bundles
are not unique and keep changing; with smaller ones, steps lose too many digits."""

WORK = 1e-9
"""Work left below this part of a job's total work counts as 0: rounding of rates times seconds leaves this much.
Numbers of rounds and of GPUs, and the queue limits of Tiresias, are rounded with the same tolerance."""

VISIBLE = 5e-4
"""Differences below this are printed as 0 in tables and pictures (three digits); no verdict depends on it."""

NUDGE = 1e-3
"""Relative distance of a misreport from another entity's ratio: large enough for the solver to distinguish the ratios,
small enough to find nearly all of a gain that grows up to the tie."""

SMALLEST_COEFFICIENT = 1e-12
"""HiGHS drops coefficients up to this from its rows: the smallest value that it accepts (default 1e-9)."""

ROUNDING = 2.0**-50
"""A float within this relative distance of a simple fraction is read as that fraction. Two or three rounded
operations (a weight times a speedup) leave so much; the next simple fraction is much farther away."""

RATIONAL_DENOMINATOR = 10**6
"""Largest denominator tried when a float is read as the simple fraction that it rounds (1/3, 0.25, 4/45 …)."""


def scale(*values: ArrayLike) -> float:
    """Largest absolute finite entry of ``values``, or 1.0 if that is zero: what a tolerance is multiplied by."""
    largest = 0.0
    for value in values:
        if isinstance(value, float):
            largest = max(largest, abs(value) if math.isfinite(value) else 0.0)
            continue
        array = np.abs(np.asarray(value, dtype=float))
        top = float(array.max(initial=0.0))
        if not np.isfinite(top):
            top = float(array[np.isfinite(array)].max(initial=0.0))
        largest = max(largest, top)
    return largest if largest > 0 else 1.0
