"""What is shown of a result on terminals, in notebooks and on pages: tables with facts below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from itertools import groupby
from math import nan
from typing import Any

import pandas as pd

from hetopt.auditing.audit_report import Audit
from hetopt.checks import counted
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.rationals import exact_texts
from hetopt.data.units import Unit
from hetopt.decisions.first_round import FirstRound
from hetopt.experiments.comparison import COLUMNS, PLACED, Comparison, Recommendation, by_reason, ranked, recommend
from hetopt.metrics.definitions import Metric
from hetopt.metrics.log_reading import end_of
from hetopt.presentation.formatting import column_format, format_bytes, format_duration, format_number, format_percent
from hetopt.presentation.tables import Cell, Column, FilledColumn, Mark, Table, joined, number_column, table_of
from hetopt.results.allocation import Allocation, Plan
from hetopt.simulation.log import Log
from hetopt.stages.mapping import GPUMapping, MappedJobs


@singledispatch
def view(value: object) -> list[Table]:
    """The tables of a value, by its class.

    Raises
    ------
    TypeError
        There are none for this class.
    """
    raise TypeError(f"{type(value).__name__} has no view")


def _numbers(
    frame: pd.DataFrame, unit: Unit | str = Unit.NONE, meaning: str = "", **settings: Any
) -> list[tuple[Column, list[Cell]]]:
    """Columns of numbers in one format, see :func:`~hetopt.presentation.formatting.column_format`."""
    form = column_format(frame.to_numpy(dtype=float).ravel(), unit, **settings)
    return [number_column(str(key), frame[key].tolist(), meaning=meaning, form=form) for key in frame]


def _names(frame: pd.DataFrame) -> FilledColumn:
    return str(frame.index.name or ""), map(str, frame.index)


SHARES = {
    "tenants": ("GPUs of each type", Unit.GPUS, "normalised throughput", Unit.SPEEDUP_GPUS.label),
    "jobs": ("part of the time that the gang runs on each type", Unit.SHARE, "work per second", "work/s"),
}
"""Kind -> meaning and unit of a share, meaning and unit of a rate."""


@view.register
def _(value: Allocation) -> list[Table]:
    title, unit, rate, rate_unit = SHARES[value.entities.kind]
    exact = value.certificate.exact is not None
    frame = value.exact if exact else value.share
    shares = _numbers(frame, "" if exact and unit is Unit.SHARE else unit)
    rates = _numbers(value.rate.to_frame(), rate_unit, rate, significant=True)
    return [joined(_names(frame), *shares, *rates, title=title, facts=_certificate(value))]


@view.register
def _(value: Plan) -> list[Table]:
    lost = ((f"given up ({what})", format_number(float(amount))) for what, amount in value.given_up.items())
    facts = (*lost, *_certificate(value))
    return [joined(_names(value.gpus), *_numbers(value.gpus, Unit.GPUS), title="GPUs in this round", facts=facts)]


def _certificate(result: Allocation | Plan) -> tuple[tuple[str, str], ...]:
    """What is known about the optimality of a result."""
    certificate = result.certificate
    if certificate is None:
        return ()
    text = (
        f"objective {certificate.objective:.6g}, bound {certificate.bound:.6g}, "
        f"violation {format_number(certificate.violation, 2)}, {format_duration(certificate.seconds)} with "
        f"{certificate.solver} ({certificate.method})"
    )
    if certificate.exact is not None:
        text += f"; proven in rational numbers: objective {exact_texts([certificate.exact.objective])}"
    return ((str(certificate.status), text),)


@view.register
def _(value: Log) -> list[Table]:
    """A row for each job: its GPUs, when it arrived, started and finished, and its restarts."""
    times = value.jobs[["arrival", "start", "finish", "jct"]].rename(columns={"jct": "JCT"})
    gpus, switches = _numbers(value.jobs[["demand", "switches"]].rename(columns={"demand": "GPUs"}), Unit.COUNT)
    length = end_of(value) - value.jobs["arrival"].min()  # of the time axis of its picture
    *columns, (jct, cells) = _numbers(times, Unit.SECONDS, length=length)
    completion = replace(jct, meaning="completion time, from arrival to finish"), cells
    facts = [("finished", f"{value.jobs['finish'].notna().sum()} of {counted(len(value.jobs_with_work), 'job')}")]
    if value.makespan == value.makespan:
        facts.append(("makespan", format_duration(value.makespan)))
    facts.append(("utilisation", format_percent(value.utilisation)))
    return [joined(_names(times), gpus, *columns, completion, switches, facts=facts)]


PROPERTIES = {
    "envy_free": "no tenant or job would do better with another's GPUs, scaled by weight",
    "sharing_incentive": "every tenant or job does at least as well as with its own part of the cluster, by weight",
    "pareto_efficient": "no tenant or job can gain without loss to others",
    "strategy_proof": "no tenant gains by misreporting its speeds (searched, so never proven)",
    "capacity": "no more GPUs are allocated than exist, and none fewer than 0",
    "adjacent_types": "the GPU types of each tenant or job are adjacent in the cluster's order [OEF, Theorem 5.2]",
    "even split": "per tenant: its GPUs are divided evenly among its job types",
    "free reuse": "per tenant: its GPUs go to the job type that gains most",
}
"""Meaning of the properties of an audit, and of the two ways of auditing whole tenants."""

VERDICTS = {"holds": Mark.GOOD, "fails": Mark.BAD}


@view.register
def _(value: Audit) -> list[Table]:
    """A row for each property, with the reason in words."""
    table = value.table
    usual = table["unit"].iloc[0]
    others = table[table["unit"] != usual].groupby("unit").groups
    apart = "; ".join(f"{', '.join(names)}: {unit}" for unit, names in others.items())
    meaning = f"distance to a violation, below 0 if violated; {usual}" + (f" ({apart})" if apart else "")
    shown = {str(key) for _, verdict in value for key in (verdict.name, verdict.level)}
    columns = (
        _names(table),
        ("verdict", (Cell(word, mark=VERDICTS.get(word)) for word in table["verdict"])),
        number_column("slack", table["slack"].astype(float).tolist(), Unit.SHARE, meaning),
        ("why", table["explanation"]),
    )
    facts = [(name, text) for name, text in PROPERTIES.items() if name in shown]
    return [joined(*columns, title="properties", facts=facts)]


@view.register
def _(value: Instance) -> list[Table]:
    """The cluster, and the speeds of tenants and jobs."""
    cluster = pd.DataFrame({"GPUs": value.cluster.capacity}).rename_axis("GPU type")
    source = [("source", value.source)] if value.source else []
    found = [joined(_names(cluster), *_numbers(cluster, significant=True), title="Cluster", facts=source)]
    if value.tenants:
        found.append(_speeds(value.entities("tenants"), "Tenants: speedup on each GPU type"))
    if value.jobs:
        found.append(_speeds(value.entities("jobs"), "Jobs: speed of the whole gang on each GPU type", "work/s"))
    return found


def _speeds(entities: Entities, title: str, unit: str = "") -> Table:
    frame = entities.frame(entities.speed)
    return joined(_names(frame), *_numbers(frame, unit, significant=True), title=title)


@view.register
def _(value: Comparison) -> list[Table]:
    found, (results, *placed) = recommend(value), comparison_view(value)
    title = f"{results.title}; recommended: {found.policy}{reason_of(found)}" if found else results.title
    return [replace(results, title=title), *placed]


def comparison_view(value: Comparison, links: Mapping[str, str] | None = None) -> list[Table]:
    """A row per policy and a column per measure, the recommended policy first; then the same of its first round.

    Parameters
    ----------
    links:
        Policy -> target of the link at its name.
    """
    order = ranked(value)
    title = f"{len(order)} of {len(value.results) + len(value.refused)} policies"
    results = _measures(value.table.loc[order], COLUMNS, title, links)
    tables = [replace(results, marked=frozenset([0] if recommend(value) else []))]
    if not value.placed.empty:
        placed = value.placed.loc[[name for name in order if name in value.placed.index]]
        tables.append(_measures(placed, PLACED, "rounded to whole GPUs and placed on servers: the first round", links))
    failures = (
        ("no result", value.refused),
        ("cannot be measured", value.unmeasured),
        ("cannot be rounded or placed", value.unplaced),
    )
    facts = [
        (", ".join(names), f"{what}: {why}") for what, reasons in failures for why, names in by_reason(reasons).items()
    ]
    if not value.instance.jobs:
        facts.append(("no jobs", "nothing to place on servers"))
    tables[-1] = replace(tables[-1], facts=tuple(facts))
    return tables


def _measures(frame: pd.DataFrame, columns: Mapping[str, Metric], title: str, links: Mapping[str, str] | None) -> Table:
    names = (Cell(name, link=(links or {}).get(name, "")) for name in map(str, frame.index))
    found: list[FilledColumn] = [("policy", names)]
    for key, own in columns.items():
        values = frame[key].astype(float).tolist()
        bad = {i: Mark.BAD for i, value in enumerate(values) if own.is_violated(value)}
        found.append(number_column(own.title, values, own.unit, own.meaning, bad))
    return joined(*found, title=title)


FAIRNESS = {
    "sharing": ("gives all at least their fair part", "gives some less than their fair part"),
    "envy": ("leaves no reason for envy", "leaves reasons for envy"),
    "pareto": ("wastes nothing", "could give some more without loss to others"),
}
"""Property of a comparison -> what a policy does that has it, and one that does not."""


def reason_of(found: Recommendation) -> str:
    """The reason of a recommendation: sentences that begin after the policy's name."""
    kept = _listed([has for key, (has, _) in FAIRNESS.items() if key not in found.violated])
    broken = _listed([lacks for key, (_, lacks) in FAIRNESS.items() if key in found.violated])
    if not broken:
        begin, alike, alone = f" {kept}.", "that do so", "No other does so"
    elif kept:
        begin = f": no policy is fair in all three ways. It {kept}, but {broken}."
        alike, alone = "that fail in as few ways", "All others fail in more ways"
    else:
        begin, alike, alone = f": no policy is fair in any way. It {broken}.", "alike", "There is no other"
    among = f"Of {found.equals} policies {alike}, it has the highest" if found.equals > 1 else f"{alone}. It has a"
    total = f"{among} total throughput of {format_number(found.total)} {Unit.SPEEDUP_GPUS.label}"
    name, most = found.highest
    if most <= found.total:
        return f"{begin} {total}, the highest of all."
    more = f" ({format_percent(most / found.total - 1)} more)" if found.total > 0 else ""
    return f"{begin} {total}. {name}, which is less fair, has the highest of all: {format_number(most)}{more}."


def _listed(phrases: list[str]) -> str:
    *first, last = phrases or [""]
    return f"{', '.join(first)} and {last}" if first else last


@view.register
def placement_view(value: FirstRound, mapped: MappedJobs | None = None) -> list[Table]:
    """Jobs with their GPUs and servers in a first round, and jobs that wait with the reason.

    Parameters
    ----------
    mapped:
        Mappings of the jobs, for the time of their iterations.
    """
    rows = [(job, Cell(", ".join(gpus)), ", ".join(servers)) for job, gpus, servers in value.rows]
    rows += [(job, Cell("waits", mark=Mark.WARN), str(why)) for job, why in value.waiting.items()]
    names = ("job", "GPUs", "servers, or why it waits")
    columns: list[FilledColumn] = [(name, [row[i] for row in rows]) for i, name in enumerate(names)]
    if mapped is not None:
        known = {job: float(own.iteration_seconds) for job, own in mapped.mappings.items()}
        columns.insert(2, number_column("iteration", [known.get(job, nan) for job, *_ in rows], Unit.SECONDS))
    decision = value.decision
    jobs, capacity = counted(len(value.instance.jobs), "job"), counted(round(decision.entities.capacity.sum()), "GPU")
    lost = ", ".join(f"{what} {format_number(float(n))}" for what, n in decision.given_up.items() if n)
    facts = (
        ("running", f"{len(value.rows)} of {jobs}, on {decision.gpus.sum():.0f} of {capacity}"),
        ("given up by rounding and placement", lost or "nothing"),
    )
    return [joined(*columns, title="jobs on servers in the first round", facts=facts)]


MOST_SERVERS = 10
"""Largest number of servers that get a column each; more servers are listed in one cell per stage."""

STATUS = {"gap": "within the requested gap", "time_limit": "stopped by the time limit"}


@view.register
def _(value: GPUMapping) -> list[Table]:
    """Replicas of stages on servers; consecutive stages with equal replicas share a row."""
    runs = []
    for row, equal in groupby(enumerate(value.table.to_numpy().tolist(), 1), key=lambda pair: pair[1]):
        stages = [number for number, _ in equal]
        runs.append((f"S{stages[0]}" if len(stages) == 1 else f"S{stages[0]}-S{stages[-1]} each", row))
    names = list(map(str, value.table.columns))
    columns: list[Column | str] = ["stage", *map(Column, names)]
    rows: list[list[Any]] = [[stages, *(Cell(str(n) if n else "", n) for n in row)] for stages, row in runs]
    if len(names) > MOST_SERVERS:
        columns = ["stage", "servers"]
        rows = [[s, ", ".join(f"{m}: {n}" for m, n in zip(names, row, strict=True) if n)] for s, row in runs]
    title = f"{value.graph.pipeline.name}: replicas of its stages on servers"
    return [table_of(columns, rows, title, _mapping_facts(value))]


def _mapping_facts(mapping: GPUMapping) -> tuple[tuple[str, str], ...]:
    """Time of an iteration, traffic, and how the mapping was found."""
    found = f"{STATUS.get(mapping.status, mapping.status)}, found in {format_duration(mapping.seconds)}"
    if mapping.bound is not None:
        needs, text = ("takes", format_duration) if mapping.minimises == "seconds" else ("sends", format_bytes)
        found += f"; no mapping {needs} less than {text(mapping.bound)}: gap {format_percent(mapping.gap or 0.0)}"
    alpha, together, apart = map(format_duration, (mapping.iteration_seconds, *mapping.iteration_limits))
    sent, total = format_bytes(mapping.cut_bytes), format_bytes(mapping.graph.weight.sum())
    return (
        ("iteration", f"{alpha}; {together} if all replicas were together, {apart} if each were on a separate server"),
        ("between servers", f"{sent} of {total} per iteration"),
        (mapping.method or "method", found),
    )


@view.register
def _(value: MappedJobs) -> list[Table]:
    tables = [
        replace(table, title=f"{table.title} with {value.gpu_type[job]}")
        for job, own in value.mappings.items()
        for table in view(own)
    ]
    return tables + ([table_of(["job", "why"], value.refused.items(), "not mapped")] if value.refused else [])
