"""Envy-freeness and the sharing incentive of an allocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from hetopt.auditing.audited_holdings import Holdings, Result, bundle, holdings
from hetopt.auditing.verdict import AuditProperty, BelowFairPart, Envy, Level, Verdict, judged
from hetopt.data.array_types import Numbers
from hetopt.data.instance import Instance
from hetopt.data.rates import cluster_envy, cluster_surplus, fair_part, fair_part_rate, row_blocks
from hetopt.tolerances import EQUAL


def envy_free(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    tolerance: float = EQUAL,
    demand_limited: bool | None = None,
) -> Verdict:
    """Envy-freeness: no entity prefers the GPUs of another [OEF, section 2.3.1 (2); weighted: section 4.2.3].

    With v[e](x) the rate of e with GPUs x and pi the weights, for all e != o: ``v[e](x[e]) >= v[e](pi[e]/pi[o] x[o])``.
    Slack: minus the largest :func:`~hetopt.data.rates.cluster_envy`, a part of ``v[e](m)``, e's rate with the whole
    cluster m. For a tenant v[e](x) is the linear ``w[e].x``; the rate of a job is limited to that of its gang running
    all the time.

    Parameters
    ----------
    instance, result, level, exact, demand_limited:
        As in :func:`~hetopt.auditing.audited_holdings.holdings`.
    tolerance:
        The property holds down to a slack of minus this; exact verdicts need no tolerance.

    Returns
    -------
    Verdict
        Its witness is the worst :class:`~hetopt.auditing.verdict.Envy`. With a single entity the slack is its rate
        divided by its rate with the whole cluster.
    """
    held = holdings(instance, result, level=level, exact=exact, demand_limited=demand_limited)
    return envy_verdict(held, tolerance)


def envy_verdict(held: Holdings, tolerance: float = EQUAL) -> Verdict:
    """:func:`envy_free` of holdings already read."""
    e, o, slack = _worst_pair(held)
    ratio = held.weight[e] / held.weight[o]
    witness = Envy(
        envious=held.names[e],
        envied=held.names[o],
        rate=_python_number(held.rate[e]),
        tempting_rate=_python_number(held.cross_rates([e])[0, o]),
        own=held.bundle(e),
        other=held.bundle(o),
        weight_ratio=_python_number(ratio),
    )
    return judged(AuditProperty.ENVY_FREE, slack, witness, tolerance=tolerance, level=held.level)


def envy_matrix(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    demand_limited: bool | None = None,
) -> pd.DataFrame:
    """(n, n) :func:`~hetopt.data.rates.cluster_envy` of the row's entity towards the column's; above 0: envy.

    Each entry is the gain in rate with the other's GPUs (per weight) as a part of the row's rate with the whole
    cluster: minus the slacks of :func:`envy_free`. Comparisons of policies show the same gain relative to the own rate,
    :func:`~hetopt.data.rates.relative_envy`.
    """
    held = holdings(instance, result, level=level, exact=exact, demand_limited=demand_limited)
    matrix = np.concatenate([envy for _, envy in _envy_blocks(held)])
    names = pd.Index(held.names, name="envious")
    return pd.DataFrame(matrix, index=names, columns=pd.Index(held.names, name="envied"))


def _envy_blocks(held: Holdings) -> Iterator[tuple[int, Numbers]]:
    """Blocks of rows of the (n, n) cluster envy, each with the position of its first row."""
    for rows in row_blocks(len(held.names)):
        yield rows.start, cluster_envy(held.rate[rows, None], held.cross_rates(rows), held.cluster_rate[rows, None])


def _worst_pair(held: Holdings) -> tuple[int, int, Any]:
    """(envious, envied, slack) of the pair with the largest envy."""
    if len(held.names) == 1:
        return 0, 0, held.rate[0] / held.cluster_rate[0]
    worst: tuple[int, int, Any] | None = None
    for start, envy in _envy_blocks(held):
        positions = np.arange(len(envy))
        envy[positions, start + positions] = -np.inf  # an entity does not envy itself
        e, o = divmod(int(envy.argmax()), envy.shape[1])
        if worst is None or envy[e, o] > worst[2]:
            worst = (start + e, o, envy[e, o])
    assert worst is not None
    e, o, most = worst
    return e, o, 0 - most


def sharing_incentive(
    instance: Instance,
    result: Result,
    *,
    level: Level = "job type",
    exact: bool = False,
    tolerance: float = EQUAL,
    demand_limited: bool | None = None,
) -> Verdict:
    """Sharing incentive: each entity has at least the rate of its fair part of every GPU type [OEF, 2.3.1 (3)].

    For all e: ``v[e](x[e]) >= v[e](pi[e] / sum(pi) m)``. Slack: the smallest
    :func:`~hetopt.data.rates.cluster_surplus`, a part of ``v[e](m)``, e's rate with the whole cluster m. Comparisons of
    policies show the :func:`~hetopt.data.rates.sharing_ratio`, relative to the fair-part rate. Rates v as in
    :func:`envy_free`.

    Parameters
    ----------
    instance, result, level, exact, tolerance, demand_limited:
        As in :func:`envy_free`.

    Returns
    -------
    Verdict
        Its witness is the worst :class:`~hetopt.auditing.verdict.BelowFairPart`.
    """
    held = holdings(instance, result, level=level, exact=exact, demand_limited=demand_limited)
    return sharing_verdict(held, tolerance)


def sharing_verdict(held: Holdings, tolerance: float = EQUAL) -> Verdict:
    """:func:`sharing_incentive` of holdings already read."""
    fair = fair_part_rate(held.per_gpu, held.weight, held.capacity, held.most)
    slack = cluster_surplus(held.rate, fair, held.cluster_rate)
    e = int(slack.argmin())
    witness = BelowFairPart(
        entity=held.names[e],
        rate=_python_number(held.rate[e]),
        fair_rate=_python_number(fair[e]),
        own=held.bundle(e),
        fair=bundle(held.types, fair_part(held.weight, held.capacity)[e]),
    )
    return judged(AuditProperty.SHARING_INCENTIVE, slack[e], witness, tolerance=tolerance, level=held.level)


def _python_number(value: Any) -> Any:
    """A numpy float as a Python float; Fractions stay."""
    return value.item() if isinstance(value, np.generic) else value
