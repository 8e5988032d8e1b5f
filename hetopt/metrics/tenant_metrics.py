"""Metrics of tenants: estimated and actual throughput, envy, and the sharing incentive over time.

A tenant with several job types counts as one tenant for each, which share its weight, [OEF, section 4.2.4]. It is
present at a decision if one of its jobs has arrived and is unfinished; an absent tenant has neither envy nor a fair
part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import counted
from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities, job_type_key, job_type_keys
from hetopt.data.instance import Instance
from hetopt.data.rates import cluster_envy, cluster_rate, cross_rates, equal_share_rate, sharing_ratio
from hetopt.errors import InvalidInstance, MetricUnavailable
from hetopt.metrics.decision_metrics import decisions_of
from hetopt.metrics.log_reading import by_type, job_times
from hetopt.metrics.step_functions import step_sums
from hetopt.simulation.log import Log

TOTAL = "total"


@dataclass(frozen=True, eq=False)
class TenantShares:
    """Presence and GPUs of n tenants on k GPU types at each of r decisions.

    Attributes
    ----------
    entities:
        The tenants.
    start, length:
        (r,) seconds.
    weight:
        (r, n) weight of each tenant; 0 while it is absent.
    gpus:
        (r, n, k) GPUs of its jobs from that decision to the next; NaN where the log does not have it.
    """

    entities: Entities
    start: Floats
    length: Floats
    weight: Floats
    gpus: Floats

    @property
    def fair_part_rate(self) -> Floats:
        """(r, n) normalised throughput with the fair part of every GPU type, by weight among the present tenants."""
        return equal_share_rate(self.entities, self.weight)  # the same for tenants, whose rates are linear


def tenant_shares(log: Log, instance: Instance) -> TenantShares:
    """The :class:`TenantShares` of a log.

    Raises
    ------
    InvalidInstance
        The instance has no tenants.
    """
    jobs, entities = job_times(log, instance), instance.entities("tenants")
    start, stop = (log.rounds[key].to_numpy(dtype=float) for key in ("start", "end"))
    owner = _tenant_of(instance, entities)[jobs.at]
    shape = len(start), *entities.shape
    present, gpus, split = np.zeros(shape[:2]), np.zeros(shape), by_type(log, instance)
    arrive = np.searchsorted(start, jobs.arrival)
    leave = np.searchsorted(start, np.where(jobs.finished, jobs.finish, np.inf))
    begin, end = decisions_of(log)
    tenant = owner[jobs.names.get_indexer(pd.Index(log.spans["job"]))] if len(log.spans) else owner[:0]

    def sums(first: Positions, last: Positions, rows: Any, values: Floats) -> Floats:
        return step_sums(first[rows], last[rows], values[rows], len(start))

    for e in range(shape[1]):
        present[:, e] = sums(arrive, leave, owner == e, np.ones(len(owner))) > 0
        own = tenant == e
        for k in range(shape[2]):
            gpus[:, e, k] = sums(begin, end, own, np.nan_to_num(split[:, k]))
        unknown = own & np.isnan(split).any(axis=1)
        gpus[sums(begin, end, unknown, np.ones(len(tenant))) > 0, e] = np.nan
    return TenantShares(entities, start, stop - start, _weights(entities, present), gpus)


def _tenant_of(instance: Instance, entities: Entities) -> Positions:
    """(jobs,) position of the tenant of each job; -1 for none."""
    tenants = {t.name: t for t in instance.tenants}
    at = {pair: entities.position[name] for name, pair in job_type_keys(instance).items()}
    return np.array(
        [-1 if job.tenant is None else at[job_type_key(job, tenants)] for job in instance.jobs], dtype=np.intp
    )


def _weights(entities: Entities, present: Floats) -> Floats:
    """(r, n) weight of each tenant, divided equally among its job types that are present."""
    tenants = np.eye(int(entities.owner.max()) + 1)[entities.owner]
    whole = entities.weight @ tenants
    kinds = present @ tenants
    return np.asarray(present * np.divide(whole, kinds, out=np.zeros_like(kinds), where=kinds > 0)[:, entities.owner])


def estimated_and_actual(log: Log, instance: Instance) -> pd.DataFrame:
    """Normalised throughput in the policy's allocations and in the simulation, [OEF, section 6.1.4].

    Returns
    -------
    DataFrame
        A row per decision, for the time until the next; index ``start``. Columns ``("estimated", tenant)`` and
        ``("actual", tenant)``, each with a ``"total"``; GPUs of speedup 1.

    Raises
    ------
    MetricUnavailable
        The log has no estimates: the policy does not share among tenants, or something else wrote the log.
    InvalidInstance
        The log has no estimates for some decisions, or other tenants than the instance.
    """
    job_times(log, instance)
    if log.estimated.empty:
        raise MetricUnavailable(
            "log.estimated is empty, which this metric needs; only policies that share among tenants have estimates"
        )
    starts = log.rounds["start"]
    if missing := sorted(set(starts) - set(log.estimated.index)):
        raise InvalidInstance(
            f"has no row for the decision at {missing[0]:g} s; it must have one for each", "log.estimated"
        )
    return _side_by_side(log, instance, {"estimated": log.estimated.reindex(starts), "actual": log.throughput})


def _side_by_side(log: Log, instance: Instance, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    names = list(instance.entities("tenants").names)
    if TOTAL in names:
        raise MetricUnavailable(f"a tenant is named {TOTAL!r}, as the column of all tenants together; rename it")
    index = pd.Index(log.rounds["start"].to_numpy(dtype=float), name="start")
    found = {}
    for key, given in tables.items():
        if len(given) != len(index) or not set(given.columns) <= set(names):
            raise InvalidInstance(
                f"the table of {key} throughput has {counted(len(given), 'row')} "
                f"and the columns {list(given.columns)}; it must "
                f"have a row for each of the {len(index)} decisions, and columns from {names}"
            )
        own = given.reindex(columns=names).fillna(0.0).set_axis(index)
        found[key] = own.assign(**{TOTAL: own.sum(axis=1)})
    table: pd.DataFrame = pd.concat(found, axis=1, names=["throughput", "tenant"])
    return table


def efficiency(log: Log, instance: Instance) -> pd.DataFrame:
    """Estimated and actual normalised throughput of each tenant and in total, on average over all rounds.

    ``deviation``: 1 - actual / estimated, the gap of [OEF, section 6.4.2].

    Raises
    ------
    MetricUnavailable
        As :func:`estimated_and_actual`.
    """
    table = estimated_and_actual(log, instance)
    length = (log.rounds["end"] - log.rounds["start"]).to_numpy(dtype=float)
    mean = pd.DataFrame({key: table[key].mul(length, axis=0).sum() / length.sum() for key in ("estimated", "actual")})
    mean["deviation"] = 1.0 - mean["actual"] / mean["estimated"].where(mean["estimated"] > 0)
    return mean


def sharing_over_time(log: Log, instance: Instance) -> pd.DataFrame:
    """Sharing ratio of each tenant: its actual throughput / that with its fair part, [OEF, section 2.3.1 (3)].

    Its fair part is its weight among the present tenants. Below 1: it would have had more with a separate partition,
    provided that it had jobs for all of it. See :func:`~hetopt.data.rates.sharing_ratio`.

    Returns
    -------
    DataFrame
        A row per decision, for the time until the next; index ``start``. A column per tenant; NaN while it is
        absent.
    """
    own, actual = _shares_and_actual(log, instance)
    index, columns = pd.Index(own.start, name="start"), pd.Index(own.entities.names, name="tenant")
    return pd.DataFrame(sharing_ratio(actual, own.fair_part_rate), index=index, columns=columns)


def sharing(log: Log, instance: Instance) -> pd.Series[float]:
    """Sharing ratio of each tenant over the time in which it was present, from its mean throughputs."""
    own, actual = _shares_and_actual(log, instance)
    ratio = sharing_ratio(own.length @ actual, own.length @ own.fair_part_rate)
    return pd.Series(ratio, index=pd.Index(own.entities.names, name="tenant"), name="sharing")


def _shares_and_actual(log: Log, instance: Instance) -> tuple[TenantShares, Floats]:
    """The shares, and the (r, n) actual throughput."""
    own = tenant_shares(log, instance)
    table = _side_by_side(log, instance, {"actual": log.throughput})["actual"]
    return own, table[list(own.entities.names)].to_numpy(dtype=float)


def envy_over_time(log: Log, instance: Instance) -> pd.DataFrame:
    """Cluster envy of each tenant at each decision, [OEF, section 2.3.1 (2) and 6.2.4].

    From the GPUs of jobs from a decision to the next: :func:`~hetopt.data.rates.cluster_envy`, ``v[e](pi[e]/pi[o] x[o])
    - v[e](x[e])`` as a part of ``v[e](m)``, e's normalised throughput with the whole cluster m, as in
    :func:`~hetopt.auditing.fairness.envy_matrix`. Whole GPUs in turns always leave some envy; :func:`envy` is the mean
    over time.

    Returns
    -------
    DataFrame
        A row per decision and present tenant: ``start``, ``tenant``, ``envied`` (the other tenant with whose GPUs it
        would gain most), ``gain`` (above 0: envy). None and NaN if no other tenant is present, or the log does not have
        the division of gangs among GPU types.
    """
    own = tenant_shares(log, instance)
    whole = cluster_rate(own.entities.per_gpu, own.entities.capacity)[:, None]
    rows: list[tuple[float, str, str | None, float]] = []
    for r in range(len(own.start)):
        there = np.flatnonzero(own.weight[r] > 0)
        if not len(there):
            continue
        cross = _cross_rates(own, r)
        gain = np.where(own.weight[r] > 0, cluster_envy(np.diag(cross)[:, None], cross, whole), np.nan)
        whom, most = _worst(gain, there, own.entities.names)
        names = [own.entities.names[e] for e in there.tolist()]
        rows += zip([float(own.start[r])] * len(there), names, whom, most, strict=True)
    return pd.DataFrame(rows, columns=["start", "tenant", "envied", "gain"])


def envy(log: Log, instance: Instance) -> pd.DataFrame:
    """Cluster envy of each tenant over the time in which it was present.

    ``gain``: mean normalised throughput with the other's GPUs (per weight) minus the throughput with its own, relative
    to the throughput with the whole cluster.

    Returns
    -------
    DataFrame
        A row per tenant: ``envied``, ``gain`` as in :func:`envy_over_time`.
    """
    own = tenant_shares(log, instance)
    n = len(own.entities.names)
    whole = cluster_rate(own.entities.per_gpu, own.entities.capacity)
    had, time = np.zeros((n, n)), np.zeros(n)
    met = np.zeros((n, n), dtype=bool)
    for r, seconds in enumerate(own.length.tolist()):
        there = own.weight[r] > 0
        had[there] += seconds * _cross_rates(own, r)[there]
        time[there] += seconds
        met |= there[:, None] & there
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(met, cluster_envy(np.diag(had)[:, None], had, (whole * time)[:, None]), np.nan)
    whom, most = _worst(gain, np.arange(n), own.entities.names)
    index = pd.Index(own.entities.names, name="tenant")
    return pd.DataFrame({"envied": whom, "gain": most}, index=index)


def _cross_rates(own: TenantShares, r: int) -> Floats:
    """(n, n) normalised throughput of the row's tenant with the column's GPUs (per weight) at decision r.

    0 where the row's or the column's tenant is not present.
    """
    there = np.flatnonzero(own.weight[r] > 0)
    rates = np.zeros((len(own.weight[r]), len(own.weight[r])))
    rates[np.ix_(there, there)] = cross_rates(own.entities.per_gpu[there], own.gpus[r][there], own.weight[r][there])
    return rates


def _worst(gain: Floats, rows: Positions, names: tuple[str, ...]) -> tuple[list[str | None], list[float]]:
    """For each of ``rows`` the other tenant with the largest gain, and the gain; None and NaN if there is none."""
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
