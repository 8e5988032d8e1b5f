"""Results as tables: allocations, audits, instances, comparisons, placements and mappings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from math import nan
from typing import TYPE_CHECKING

import pandas as pd

from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.units import Unit
from hetopt.presentation.formatting import column_format, format_bytes, format_duration, format_number, format_percent
from hetopt.presentation.tables import (
    Cell,
    Column,
    Mark,
    Table,
    joined,
    number_cell,
    number_column,
    table_of,
)
from hetopt.results.allocation import Allocation, Plan
from hetopt.simulation.log import Log
from hetopt.stages.mapping import GPUMapping

if TYPE_CHECKING:
    from hetopt.auditing import Audit
    from hetopt.decisions.first_round import FirstRound
    from hetopt.experiments import comparison

SHARES = {
    "tenants": ("GPUs of each type", Unit.GPUS, "normalised throughput", Unit.SPEEDUP_GPUS.label),
    "jobs": ("part of the time that the gang runs on each type", Unit.SHARE, "work per second", "work/s"),
}
"""Kind -> meaning and unit of a share, meaning and unit of a rate."""

PROPERTIES = {
    "envy_free": "no tenant or job would do better with another's GPUs, scaled by weight",
    "sharing_incentive": "every tenant or job does at least as well as with its own part of the cluster, by weight",
    "pareto_efficient": "no tenant or job can gain without loss to others",
    "strategy_proof": "no tenant gains by misreporting its speeds (searched, so never proven)",
    "capacity": "no more GPUs are allocated than exist",
    "adjacent_types": "the GPU types of each tenant or job are adjacent in the cluster's order [OEF, Theorem 5.2]",
    "even split": "per tenant: its GPUs are divided evenly among its job types",
    "free reuse": "per tenant: its GPUs go to the job type that gains most",
}
"""Meaning of the properties of an audit, and of the two ways of auditing whole tenants."""


def frame_table(frame: pd.DataFrame, title: str = "", unit: Unit | str = Unit.NONE, *, given: bool = False) -> Table:
    """A table of numbers of one kind, see :func:`number_columns`; the index has the names of the rows."""
    return joined(_names(frame), *number_columns(frame, unit, given=given), title=title)


def number_columns(
    frame: pd.DataFrame, unit: Unit | str, meaning: str = "", *, given: bool = False
) -> list[tuple[Column, list[Cell]]]:
    """Columns of numbers of one kind in one format, or of fractions.

    Parameters
    ----------
    given:
        Whether the numbers may differ by orders of magnitude: each has four significant digits.
    """
    form = column_format(frame.to_numpy(dtype=float).ravel(), unit)
    if given:
        form = replace(form, decimals=None)
    cells = {
        key: [Cell(str(v), float(v)) if isinstance(v, Fraction) else number_cell(v, form) for v in frame[key]]
        for key in frame
    }
    return [(Column(str(key), form.name, meaning), own) for key, own in cells.items()]


def _names(frame: pd.DataFrame) -> tuple[Column, list[Cell]]:
    return Column(str(frame.index.name or ""), text=True), [Cell(str(name)) for name in frame.index]


def result_table(result: Allocation | Plan, title: str = "") -> Table:
    """Shares and rates of an allocation, or the whole GPUs of a plan; a row for each tenant or job."""
    if isinstance(result, Plan):
        return frame_table(result.gpus, title or "GPUs in this round", Unit.GPUS)
    share, unit, rate, rate_unit = SHARES[result.entities.kind]
    exact = result.certificate.exact is not None
    frame = result.exact if exact else result.share
    shares = number_columns(frame, "" if exact and unit is Unit.SHARE else unit)
    rates = number_columns(result.rate.to_frame(), rate_unit, rate, given=True)
    return joined(_names(frame), *shares, *rates, title=title or share)


def certificate_text(result: Allocation | Plan) -> str:
    """What is known about the optimality of a result; empty if it has no certificate."""
    certificate = result.certificate
    if certificate is None:
        return ""
    text = (
        f"{certificate.status}: objective {certificate.objective:.6g}, bound {certificate.bound:.6g}, "
        f"violation {format_number(certificate.violation, 2)}, {format_duration(certificate.seconds)} with "
        f"{certificate.solver} ({certificate.method})"
    )
    if certificate.exact is not None:
        text += f"; proven in rational numbers: objective {certificate.exact.objective}"
    return text


def log_table(log: Log, title: str = "") -> Table:
    """A row for each job of a simulation: its GPUs, when it arrived, started and finished, and its restarts."""
    times = log.jobs[["arrival", "start", "finish", "jct"]].rename(columns={"jct": "JCT"})
    counts = log.jobs[["demand", "switches"]].rename(columns={"demand": "GPUs"})
    (gpus, switches), columns = number_columns(counts, Unit.COUNT), number_columns(times, Unit.SECONDS)
    jct = (replace(columns[-1][0], meaning="completion time, from arrival to finish"), columns[-1][1])
    return joined(_names(times), gpus, *columns[:-1], jct, switches, title=title)


VERDICTS = {"holds": Mark.GOOD, "fails": Mark.BAD}


def audit_table(verdicts: Audit, title: str = "") -> Table:
    """A row for each property, with the reason in words."""
    table = verdicts.table
    slack, cells = number_column("slack", table["slack"].astype(float).tolist(), Unit.SHARE)
    rows = [
        [Cell(str(name)), Cell(row["verdict"], mark=VERDICTS.get(row["verdict"])), cell, Cell(row["explanation"])]
        for (name, row), cell in zip(table.iterrows(), cells, strict=True)
    ]
    usual = table["unit"].iloc[0]
    others = table[table["unit"] != usual].groupby("unit").groups
    apart = "; ".join(f"{', '.join(names)}: {unit}" for unit, names in others.items())
    meaning = f"distance to a violation, below 0 if violated; {usual}" + (f" ({apart})" if apart else "")
    columns = (
        Column("property", text=True),
        Column("verdict", text=True),
        replace(slack, meaning=meaning),
        Column("why", text=True),
    )
    return table_of(columns, rows, title)


def properties_in(verdicts: Audit) -> dict[str, str]:
    """Property -> meaning, of the properties in an audit."""
    shown = {str(key) for _, verdict in verdicts for key in (verdict.name, verdict.level)}
    return {name: text for name, text in PROPERTIES.items() if name in shown}


def instance_tables(instance: Instance) -> list[Table]:
    """The cluster, and the speeds of tenants and jobs."""
    cluster = pd.DataFrame({"GPUs": instance.cluster.capacity}).rename_axis("GPU type")
    found = [frame_table(cluster, "Cluster", given=True)]
    if instance.tenants:
        found.append(_speeds(instance.entities("tenants"), "Tenants: speedup on each GPU type"))
    if instance.jobs:
        found.append(_speeds(instance.entities("jobs"), "Jobs: speed of the whole gang on each GPU type", "work/s"))
    return found


def _speeds(entities: Entities, title: str, unit: str = "") -> Table:
    return frame_table(entities.frame(entities.speed), title, unit, given=True)


def comparison_table(
    frame: pd.DataFrame,
    columns: Mapping[str, comparison.Column],
    title: str = "",
    links: Mapping[str, str] | None = None,
) -> Table:
    """A row per policy and a column per measure; violated properties are marked.

    Parameters
    ----------
    links:
        Policy -> target of the link at its name.
    """
    names = list(map(str, frame.index))
    found = [(Column("policy", text=True), [Cell(name, link=(links or {}).get(name, "")) for name in names])]
    for key, own in columns.items():
        values = frame[key].astype(float).tolist()
        bad = {i: Mark.BAD for i, value in enumerate(values) if own.is_violated(value)}
        found.append(number_column(own.title or key, values, own.unit, own.meaning, bad))
    return joined(*found, title=title)


WORDS = {
    "sharing": ("gives all at least their fair part", "gives some less than their fair part"),
    "envy": ("leaves no reason for envy", "leaves reasons for envy"),
    "pareto": ("wastes nothing", "could give some more without loss to others"),
}
"""Property of a comparison -> what a policy does that has it, and one that does not."""


def reason_of(found: comparison.Recommendation) -> str:
    """The reason of a recommendation: sentences that begin after the policy's name."""
    kept = _listed([has for key, (has, _) in WORDS.items() if key not in found.violated])
    broken = _listed([lacks for key, (_, lacks) in WORDS.items() if key in found.violated])
    if not broken:
        begin, alike, alone = f" {kept}.", "that do so", "No other does so"
    elif kept:
        begin = f": no policy is fair in all three ways. It {kept}, but {broken}."
        alike, alone = "that fail in as few ways", "All others fail in more ways"
    else:
        begin, alike, alone = f": no policy is fair in any way. It {broken}.", "alike", "There is no other"
    total = f"total throughput: {format_number(found.total)} {Unit.SPEEDUP_GPUS.label}"
    among = f"Of {found.equals} policies {alike}, it has the highest" if found.equals > 1 else f"{alone}. It has this"
    name, most = found.highest
    if most <= found.total:
        return f"{begin} {among} {total}, the highest of all."
    more = f" ({format_percent(most / found.total - 1)} more)" if found.total > 0 else ""
    return f"{begin} {among} {total}. {name}, which is less fair, has the highest of all: {format_number(most)}{more}."


def _listed(phrases: list[str]) -> str:
    *first, last = phrases or [""]
    return f"{', '.join(first)} and {last}" if first else last


def placement_table(first: FirstRound, title: str = "", iteration: Mapping[str, float] | None = None) -> Table:
    """Jobs with their GPUs and servers in a first round; jobs that wait have the reason.

    Parameters
    ----------
    iteration:
        Job -> seconds of an iteration, if known.
    """
    rows = [(job, Cell(", ".join(gpus)), Cell(", ".join(servers))) for job, gpus, servers in first.rows]
    rows += [(job, Cell("waits", mark=Mark.WARN), Cell(str(why))) for job, why in first.waiting.items()]
    names = Column("job", text=True), [Cell(job) for job, _, _ in rows]
    gpus = Column("GPUs", text=True), [cell for _, cell, _ in rows]
    servers = Column("servers, or why it waits", text=True), [cell for _, _, cell in rows]
    if iteration is None:
        return joined(names, gpus, servers, title=title)
    seconds = number_column("iteration", [iteration.get(job, nan) for job, _, _ in rows], Unit.SECONDS)
    return joined(names, gpus, seconds, servers, title=title)


MOST_SERVERS = 10
"""Largest number of servers that get a column each; more servers are listed in one cell per stage."""


def replica_table(mapping: GPUMapping, title: str = "") -> Table:
    """Replicas of stages on servers; consecutive stages with equal replicas share a row."""
    table, runs = mapping.table, []
    for row, equal in groupby(enumerate(table.to_numpy().tolist(), 1), key=lambda pair: pair[1]):
        stages = [number for number, _ in equal]
        runs.append((f"S{stages[0]}" if len(stages) == 1 else f"S{stages[0]}-S{stages[-1]} each", row))
    names = [str(name) for name in table.columns]
    if len(names) <= MOST_SERVERS:
        rows = [[Cell(stages), *(Cell(str(n) if n else "", float(n)) for n in row)] for stages, row in runs]
        return table_of((Column("stage", text=True), *map(Column, names)), rows, title)
    listed = [[stages, ", ".join(f"{m}: {n}" for m, n in zip(names, row, strict=True) if n)] for stages, row in runs]
    return table_of(("stage", "servers"), listed, title)


STATUS = {"gap": "within the requested gap", "time_limit": "stopped by the time limit"}


def mapping_facts(mapping: GPUMapping) -> dict[str, str]:
    """What is known about a mapping: time of an iteration, traffic, and how it was found."""
    least, apart = iteration_limits(mapping)
    found = f"{STATUS.get(mapping.status, mapping.status)}, found in {format_duration(mapping.seconds)}"
    if mapping.bound is not None and mapping.minimises == "seconds":
        found += (
            f"; no mapping takes less than {format_duration(mapping.bound)}: gap {format_percent(mapping.gap or 0.0)}"
        )
    elif mapping.bound is not None:
        found += f"; no mapping sends less than {format_bytes(mapping.bound)}: gap {format_percent(mapping.gap or 0.0)}"
    sent, total = format_bytes(mapping.cut_bytes), format_bytes(mapping.graph.weight.sum())
    return {
        "iteration": f"{format_duration(mapping.iteration_seconds)}; {format_duration(least)} if all replicas were "
        f"together, {format_duration(apart)} if each were on a separate server",
        "between servers": f"{sent} of {total} per iteration",
        mapping.method or "method": found,
    }


def iteration_limits(mapping: GPUMapping) -> tuple[float, float]:
    """Lower bound of the time of an iteration, and its time with every replica on its own server, in seconds."""
    pipeline, servers = mapping.graph.pipeline, mapping.servers
    return float(mapping.timing.least(pipeline, servers)), float(mapping.timing.most(pipeline, servers))
