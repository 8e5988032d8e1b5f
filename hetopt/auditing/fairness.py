"""Envy-freeness and the sharing incentive, recomputed from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from hetopt.auditing.holdings import Holdings, Level, Numbers, Result, bundle, holdings
from hetopt.auditing.verdict import Verdict, judged
from hetopt.auditing.witnesses import BelowFairPart, Envy
from hetopt.data.instance import Instance
from hetopt.tolerances import EQUAL

BLOCK = 2_000_000
"""Pairs of entities compared at once, so that 100,000 tenants fit in memory."""


def envy_free(
    instance: Instance, result: Result, *, level: Level = "job type", exact: bool = False, tolerance: float = EQUAL
) -> Verdict:
    """Would nobody rather have the GPUs of another? [OEF, section 2.3.1 (2); weighted: section 4.2.3].

    With w the rate per GPU, x the GPUs and pi the weights, for all e != o:
    ``pi[o] w[e].x[e] >= pi[e] w[e].x[o]``. Slack: the smallest
    ``(w[e].x[e] - pi[e]/pi[o] w[e].x[o]) / (w[e].m)``, a part of e's rate with the whole cluster m.

    Parameters
    ----------
    instance, result, level, exact:
        As in :func:`~hetopt.auditing.holdings.holdings`. Jobs compare GPUs at their speed per GPU.
    tolerance:
        Slack that still counts as none; exact verdicts need none.

    Returns
    -------
    Verdict
        Its witness is the worst :class:`~hetopt.auditing.witnesses.Envy`. With one entity alone the slack is what
        it has itself.
    """
    held = holdings(instance, result, level=level, exact=exact)
    e, o, slack = _worst_pair(held)
    ratio = held.weight[e] / held.weight[o]
    witness = Envy(
        envious=held.names[e],
        envied=held.names[o],
        rate=_plain(held.rate[e]),
        tempting_rate=_plain(ratio * (held.value[e] @ held.gpus[o])),
        own=held.bundle(e),
        other=held.bundle(o),
        weight_ratio=_plain(ratio),
    )
    return judged("envy_free", slack, witness, tolerance=tolerance)


def envy_matrix(instance: Instance, result: Result, *, level: Level = "job type", exact: bool = False) -> pd.DataFrame:
    """(n, n) by how much the rate of the row would rise with the GPUs of the column, weights reckoned in.

    Above 0: envy. In parts of the row's rate with the whole cluster: minus the slacks of :func:`envy_free`.
    """
    held = holdings(instance, result, level=level, exact=exact)
    matrix = np.concatenate([-slack for _, slack in _slacks(held)])
    names = pd.Index(held.names, name="envious")
    return pd.DataFrame(matrix, index=names, columns=pd.Index(held.names, name="envied"))


def _slacks(held: Holdings) -> Iterator[tuple[int, Numbers]]:
    """Blocks of rows of the (n, n) slacks, each with the position of its first row."""
    n = len(held.names)
    step = max(1, BLOCK // n)
    weighted = (held.gpus / held.weight[:, None]).T
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        tempting = (held.value[rows] @ weighted) * held.weight[rows, None]
        yield start, (held.rate[rows, None] - tempting) / held.whole[rows, None]


def _worst_pair(held: Holdings) -> tuple[int, int, Any]:
    if len(held.names) == 1:
        return 0, 0, held.rate[0] / held.whole[0]
    worst: tuple[int, int, Any] | None = None
    for start, slack in _slacks(held):
        block = slack.copy()
        positions = np.arange(len(block))
        block[positions, start + positions] = np.inf  # nobody envies itself
        e, o = divmod(int(block.argmin()), block.shape[1])
        if worst is None or block[e, o] < worst[2]:
            worst = (start + e, o, block[e, o])
    assert worst is not None
    return worst


def sharing_incentive(
    instance: Instance, result: Result, *, level: Level = "job type", exact: bool = False, tolerance: float = EQUAL
) -> Verdict:
    """Does everyone have at least the rate of a cluster of its own, its part of every type? [OEF, section 2.3.1 (3)].

    For all e: ``w[e].x[e] >= pi[e] / sum(pi) * w[e].m``. Slack: the smallest
    ``w[e].x[e] / (w[e].m) - pi[e] / sum(pi)``, a part of e's rate with the whole cluster m.

    Parameters
    ----------
    instance, result, level, exact, tolerance:
        As in :func:`envy_free`.

    Returns
    -------
    Verdict
        Its witness is the worst :class:`~hetopt.auditing.witnesses.BelowFairPart`.
    """
    held = holdings(instance, result, level=level, exact=exact)
    part = held.weight / held.weight.sum()
    fair = part * (held.value @ held.capacity)
    slack = (held.rate - fair) / held.whole
    e = int(slack.argmin())
    witness = BelowFairPart(
        entity=held.names[e],
        rate=_plain(held.rate[e]),
        fair_rate=_plain(fair[e]),
        own=held.bundle(e),
        fair=bundle(held.types, part[e] * held.capacity),
    )
    return judged("sharing_incentive", slack[e], witness, tolerance=tolerance)


def _plain(value: Any) -> Any:
    """A numpy float as a Python float; Fractions stay."""
    return value.item() if isinstance(value, np.generic) else value
