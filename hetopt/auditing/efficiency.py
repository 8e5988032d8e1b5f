"""Pareto efficiency against all allocations, by a linear program of its own (floats) or by trades (rationals)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from hetopt.auditing.feasibility import capacity_verdict
from hetopt.auditing.gains import NAME, exact_efficiency_in_time, judged_by_gain
from hetopt.auditing.holdings import Holdings, Level, Result, holdings
from hetopt.auditing.trades import exact_efficiency
from hetopt.auditing.verdict import Verdict, judged, undecided
from hetopt.auditing.witnesses import Dominated
from hetopt.data.entities import Floats, Numbers
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.tolerances import EQUAL


def pareto_efficient(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    tolerance: float = EQUAL,
    time_limited: bool | None = None,
) -> Verdict:
    """Is there no allocation at all that takes from nobody and gives to some? [OEF, section 2.3.1 (4)].

    With y[e, k] the part of type k that e would get and a[e, k] = w[e, k] m[k] / (w[e].m) (so w[e].m is e's rate
    with the whole cluster), maximise the total gain

        sum_ek a[e, k] y[e, k] - sum_e rate[e] / (w[e].m)
        subject to  sum_k a[e, k] y[e, k] >= rate[e] / (w[e].m),   sum_e y[e, k] <= 1,   y >= 0.

    Slack: minus that gain, so 0 at best. Nothing of the policy that made the result limits y but, for jobs, that no
    gang runs more than all the time, ``sum_k m[k] y[e, k] <= demand[e]``.

    Parameters
    ----------
    instance, result, exact, tolerance, time_limited:
        As in :func:`~hetopt.auditing.fairness.envy_free`. In exact mode the answer is a proof either way (see
        :mod:`hetopt.auditing.trades` and, where time is limited, :mod:`hetopt.auditing.gains`), and a negative slack
        is the gain of the trade found, not of the best.
    level:
        ``"job type"`` or ``"free reuse"``; after an even split a rate is no longer a function of the GPUs held.

    Returns
    -------
    Verdict
        Its witness is a :class:`~hetopt.auditing.witnesses.Dominated`. Undecided where the audited result itself
        uses more than there is, so that it cannot be compared with allocations that do not.

    Raises
    ------
    InvalidOption
        ``level="even split"``.
    """
    if level == "even split":
        raise InvalidOption("Pareto efficiency is judged at level 'job type' or 'free reuse', not 'even split'")
    held = holdings(instance, result, level=level, exact=exact, time_limited=time_limited)
    capacity = capacity_verdict(held, tolerance)
    if not capacity.holds:
        return undecided(NAME, f"the allocation itself is not possible: {capacity.explain()}")
    if not (held.whole_or_none > 0).any():  # nothing is worth anything to anybody
        return judged(NAME, held.zero, Dominated({}, {}, {}), tolerance=tolerance)
    if exact:
        return exact_efficiency(held) if held.most is None else exact_efficiency_in_time(held)
    held = _shrunk(held)
    try:
        y = _best_reply(held)
    except NotSolved as problem:
        return undecided(NAME, f"its linear program was not solved: {problem}")
    return judged_by_gain(held, y * held.capacity, tolerance)


def _shrunk(held: Holdings) -> Holdings:
    """Overuse within the tolerance taken back, so that the audited allocation is feasible for the program."""
    gpus: Numbers = np.maximum(held.gpus, 0)
    used = gpus.sum(axis=0)
    gpus = gpus * np.where(used > held.capacity, held.capacity / np.where(used > 0, used, 1), 1)
    return replace(held, gpus=gpus, rate=held.worth(gpus))


def _best_reply(held: Holdings) -> Floats:
    """(n, k) parts of types in the allocation with the largest total gain."""
    n, k = held.value.shape
    worth = held.value * held.capacity / held.whole[:, None]
    row, col = np.nonzero(worth)
    columns = np.arange(len(row))
    blocks = [(row, worth[row, col]), (n + col, np.ones(len(row)))]
    lower, upper = [held.rate / held.whole, np.full(k, -np.inf)], [np.full(n, np.inf), np.ones(k)]
    if held.most is not None:
        blocks.append((n + k + row, held.capacity[col] / held.most[row]))
        lower.append(np.full(n, -np.inf))
        upper.append(np.ones(n))
    index = (np.concatenate([r for r, _ in blocks]), np.tile(columns, len(blocks)))
    row_lower, row_upper = np.concatenate(lower), np.concatenate(upper)
    matrix = sparse.coo_array((np.concatenate([v for _, v in blocks]), index), shape=(len(row_lower), len(row)))
    program = LinearProgram.of(worth[row, col], matrix, row_lower, row_upper, col_upper=1.0)
    y = np.zeros((n, k))
    y[row, col] = np.maximum(Session(program).solve().x, 0)
    return y
