"""Which tenants would rather have had the GPUs of another, round by round and over the whole time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.metrics.steps import Positions
from hetopt.metrics.tenants import Shares, shares
from hetopt.simulation.log import Log


def _rates(own: Shares, r: int) -> Floats:
    """(n, n) normalised throughput of the row's tenant with the column's GPUs (per weight) at decision r."""
    weight = own.weight[r]
    there = weight > 0
    per_weight = np.zeros_like(own.gpus[r])
    per_weight[there] = own.gpus[r][there] / weight[there, None]
    return np.asarray((own.entities.per_gpu @ per_weight.T) * weight[:, None])


def _worst(gain: Floats, rows: Positions, names: tuple[str, ...]) -> tuple[list[str | None], list[float]]:
    """Of each of ``rows``, the other whose GPUs would gain it most, and how much; None and NaN without any."""
    gain = gain.copy()
    np.fill_diagonal(gain, np.nan)
    whom: list[str | None] = []
    most = []
    for e in rows.tolist():
        known = np.flatnonzero(~np.isnan(gain[e]))
        best = int(known[gain[e][known].argmax()]) if len(known) else None
        whom.append(None if best is None else names[best])
        most.append(np.nan if best is None else float(gain[e, best]))
    return whom, most


def envy_over_time(log: Log, instance: Instance) -> pd.DataFrame:
    """Whose GPUs each tenant would rather have, decision by decision, [OEF, section 2.3.1 (2) and 6.2.4].

    From the GPUs that jobs have from a decision to the next: ``v[e](pi[e]/pi[o] x[o]) - v[e](x[e])`` as a part of
    ``v[e](m)``, e's normalised throughput with the whole cluster m, as in
    :func:`~hetopt.auditing.fairness.envy_matrix`. Whole GPUs in turns always leave some envy; see :func:`envy` for what
    remains of it over time.

    Returns
    -------
    DataFrame
        A row per decision and tenant that is present: ``start``, ``tenant``, ``envied`` (the other with the largest
        gain), ``gain`` (above 0: envy). None and NaN where nobody else is present, or the log does not tell how the
        gangs are divided among GPU types.
    """
    own = shares(log, instance)
    whole = own.entities.per_gpu @ own.entities.capacity
    rows: list[tuple[float, str, str | None, float]] = []
    for r in range(len(own.start)):
        there = np.flatnonzero(own.weight[r] > 0)
        if not len(there):
            continue
        rate = _rates(own, r)
        gain = np.where(own.weight[r] > 0, (rate - np.diag(rate)[:, None]) / whole[:, None], np.nan)
        whom, most = _worst(gain, there, own.entities.names)
        names = [own.entities.names[e] for e in there.tolist()]
        rows += zip([float(own.start[r])] * len(there), names, whom, most, strict=True)
    return pd.DataFrame(rows, columns=["start", "tenant", "envied", "gain"])


def envy(log: Log, instance: Instance) -> pd.DataFrame:
    """The same over the whole time: what a tenant would have had with another's GPUs, while it was present itself.

    ``gain``: mean normalised throughput with the other's GPUs (per weight) less the own, as a part of that with the
    whole cluster.

    Returns
    -------
    DataFrame
        A row per tenant: ``envied``, ``gain`` as in :func:`envy_over_time`.
    """
    own = shares(log, instance)
    n = len(own.entities.names)
    whole, had, time = own.entities.per_gpu @ own.entities.capacity, np.zeros((n, n)), np.zeros(n)
    met = np.zeros((n, n), dtype=bool)
    for r, seconds in enumerate(own.length.tolist()):
        there = own.weight[r] > 0
        had[there] += seconds * _rates(own, r)[there]
        time[there] += seconds
        met |= there[:, None] & there
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(met, (had - np.diag(had)[:, None]) / (whole * time)[:, None], np.nan)
    whom, most = _worst(gain, np.arange(n), own.entities.names)
    index = pd.Index(own.entities.names, name="tenant")
    return pd.DataFrame({"envied": whom, "gain": most}, index=index)
