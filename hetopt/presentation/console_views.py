"""Results, audits, instances, comparisons and mappings as tables of the command line and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.text import Text

from hetopt.checks import counted
from hetopt.data.instance import Instance
from hetopt.presentation.console import print_line, readable, show_frame, show_table
from hetopt.presentation.formatting import (
    format_bytes,
    format_decimals,
    format_rounded,
    format_seconds,
    format_significant,
)
from hetopt.presentation.terminal import OUT
from hetopt.results.allocation import Allocation, Plan
from hetopt.stages.mapping import GPUMapping, MappedJobs

if TYPE_CHECKING:
    from hetopt.auditing import Audit
    from hetopt.decisions.first_round import FirstRound
    from hetopt.experiments.comparison import Column, Comparison


UNITS = {
    "tenants": "GPUs of each type, and normalised throughput",
    "jobs": "part of the time that its gang runs on each GPU type, and work per second",
}
"""Meaning of the columns of an allocation: shares of tenants are GPUs, those of jobs are time."""

RANGED = 2_000
"""Largest number of shares for which JSON has sensitivities, which need another solve."""

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


def show_result(result: Allocation | Plan, policy: str) -> None:
    """Print shares (or GPUs), rates and the certificate."""
    if isinstance(result, Allocation):
        frame = result.exact if result.certificate.exact else result.share
        frame = frame.assign(rate=result.rate) if "rate" not in frame.columns else frame
        show_frame(frame, f"{policy}: {UNITS[result.entities.kind]}", significant=("rate",))
    else:
        show_frame(result.gpus, f"{policy}: whole GPUs in this round")
        for what, amount in result.given_up.items():
            print_line(f"given up ({what}): {format_rounded(float(amount))}")
    certificate = result.certificate
    if certificate is not None:
        print_line(
            f"{certificate.status}: objective {certificate.objective:.6g}, bound {certificate.bound:.6g}, "
            f"violation {certificate.violation:.1e}, {certificate.seconds:.3f} s with {certificate.solver} "
            f"({certificate.method})"
        )
        if certificate.exact is not None:
            print_line(f"proven in rational numbers: objective {certificate.exact.objective}")


def result_json(result: Allocation | Plan, policy: str, name: str) -> dict[str, Any]:
    """A result as plain data."""
    data: dict[str, Any] = {"instance": name, "policy": policy, "kind": result.entities.kind}
    if isinstance(result, Allocation):
        data["share"] = result.share.to_dict(orient="index")
        data["rate"] = result.rate.to_dict()
        if result.certificate.exact is not None:
            data["exact_share"] = result.exact.map(str).to_dict(orient="index")
    else:
        data["gpus"] = result.gpus.to_dict(orient="index")
        data["given_up"] = dict(result.given_up)
    certificate = result.certificate
    data["certificate"] = certificate.as_dict() if certificate is not None else None
    small = result.x.size <= RANGED
    changes = certificate.sensitivity if certificate is not None and small else None
    data["sensitivity"] = changes.as_dict() if changes is not None else None
    return data


def show_audit(verdicts: Audit, policy: str) -> None:
    """Print a line per property, with the reason for violations, and the meaning of properties."""
    table = verdicts.table
    slack = ["-" if np.isnan(value) else format_rounded(value) for value in table["slack"].tolist()]
    rows = list(zip(map(str, table.index), table["verdict"], slack, table["explanation"], strict=True))
    show_table(f"{policy}: properties", ["property", "verdict", "slack", "why"], rows, sentences=1)
    measured = table[table["slack"].notna()].groupby("unit", sort=False).groups
    for i, (unit, names) in enumerate(measured.items()):
        of = f" of {', '.join(map(str, names))}" if i else ", below 0 if violated"
        print_line("  ", ("slack", "bold"), f"{of}: {unit}")
    shown = {str(key) for _, verdict in verdicts for key in (verdict.name, verdict.level)}
    for name, text in PROPERTIES.items():
        if name in shown:
            print_line("  ", (name, "bold"), f": {text}")


def show_names(listed: Mapping[str, str], title: str, about: str, as_json: bool) -> None:
    """Print names with a description of each."""
    if as_json:
        print(json.dumps(listed, indent=2))
    else:
        show_table(title, ["name", about], listed.items(), sentences=1)


def show_instance(instance: Instance, as_json: bool) -> None:
    """Print the source and the tables of an instance."""
    if as_json:
        from hetopt.data.instance_files import encode

        print(json.dumps(encode(instance), indent=2))
        return
    print_line((instance.name, "bold"))
    if instance.source:
        OUT.print(instance.source)
    show_frame(pd.DataFrame({"GPUs": instance.cluster.capacity}).rename_axis("GPU type"), "cluster")
    for kind, unit in (("tenants", "speedup"), ("jobs", "work per second of the whole gang")):
        if getattr(instance, kind):
            entities = instance.entities("tenants" if kind == "tenants" else "jobs")
            show_frame(entities.frame(entities.speed), f"{kind}: {unit} on each GPU type", format_significant)


def show_placement(first: FirstRound, policy: str, iteration: Mapping[str, str] | None = None) -> None:
    """Print jobs with their GPUs and servers, waiting jobs with the reason, and losses of rounding and placement.

    ``iteration``: job -> time of an iteration, if known.
    """
    more = {} if iteration is None else {"iteration": iteration}
    rows = [
        [job, ", ".join(gpus), ", ".join(servers), *(readable(of.get(job, "-")) for of in more.values())]
        for job, gpus, servers in first.rows
    ]
    title = f"{policy}: jobs on servers in the first round"
    show_table(title, ["job", "GPUs", "servers", *more], rows, sentences=2 + len(more))
    if first.waiting:
        show_table("waiting", ["job", "why"], [(job, str(why)) for job, why in first.waiting.items()], sentences=1)
    used, there = first.decision.gpus.sum(), first.decision.entities.capacity.sum()
    jobs, capacity = counted(len(first.instance.jobs), "job"), counted(round(there), "GPU")
    print_line(f"{len(rows)} of {jobs} running, on {used:.0f} of {capacity}")
    lost = [f"{what} {format_rounded(float(amount))}" for what, amount in first.decision.given_up.items() if amount]
    print_line(f"given up by rounding and placement: {', '.join(lost) or 'nothing'}")


def show_comparison(comparison: Comparison, name: str) -> None:
    """Print both tables, the meaning of their columns, and the policies without numbers, with the reasons."""
    from hetopt.experiments.comparison import COLUMNS, PLACED, by_reason

    _policies(f"every policy on {name}", comparison.table, COLUMNS)
    if not comparison.placed.empty:
        title = "rounded to whole GPUs and placed on servers: the first round"
        _policies(title, comparison.placed, PLACED)
    if not comparison.instance.jobs:
        print_line("  no jobs: nothing to place on servers")
    failures = {
        "no result": comparison.refused,
        "cannot be measured": comparison.unmeasured,
        "cannot be placed": comparison.unplaced,
    }
    for what, reasons in failures.items():
        for why, names in by_reason(reasons).items():
            print_line(f"  {what}: ", (", ".join(names), "bold"), f": {why}")


def _policies(title: str, frame: pd.DataFrame, columns: Mapping[str, Column]) -> None:
    """Print a row per policy, and below the table the meaning of the columns."""

    def text(column: Column, value: float) -> Text:
        shown = readable(format_decimals(value, whole=column.whole))
        return Text(shown, "red" if column.is_violated(value) else "")

    rows: list[list[str | Text]] = [
        [str(name), *(text(column, row[key]) for key, column in columns.items())] for name, row in frame.iterrows()
    ]
    show_table(title, ["policy", *columns], rows, light=True)
    for key, column in columns.items():
        print_line("  ", (key, "bold"), f": {column.meaning}")


MOST_SERVERS = 10
"""Largest number of servers that get a column each; more servers are listed in one cell per stage."""


def show_mappings(mapped: MappedJobs) -> None:
    """Print each job's replicas on servers and the time of an iteration; then the jobs without a mapping."""
    for name, mapping in mapped.mappings.items():
        _show_replicas(f"{name}: replicas of its stages on servers with {mapped.gpu_type[name]}", mapping)
        for key, text in _facts(mapping).items():
            print_line("  ", (key, "bold"), f": {readable(text)}")
    if mapped.refused:
        show_table("not mapped", ["job", "why"], mapped.refused.items(), sentences=1)


def _show_replicas(title: str, mapping: GPUMapping) -> None:
    """Print the table of replicas, in which consecutive stages with equal replicas share a row."""
    table, runs = mapping.table, []
    for row, equal in groupby(enumerate(table.to_numpy().tolist(), 1), key=lambda pair: pair[1]):
        stages = [number for number, _ in equal]
        runs.append((f"S{stages[0]}" if len(stages) == 1 else f"S{stages[0]}-S{stages[-1]} each", row))
    names = [str(name) for name in table.columns]
    if len(names) <= MOST_SERVERS:
        rows = [[stages, *(str(n) if n else "" for n in row)] for stages, row in runs]
        show_table(title, ["stage", *names], rows)
        return
    rows = [[stages, ", ".join(f"{m}: {n}" for m, n in zip(names, row, strict=True) if n)] for stages, row in runs]
    show_table(title, ["stage", "servers"], rows, sentences=1)


STATUS = {"gap": "within the requested gap", "time_limit": "stopped by the time limit"}


def _facts(mapping: GPUMapping) -> dict[str, str]:
    least, apart = _limits(mapping)
    found = f"{STATUS.get(mapping.status, mapping.status)}, found in {format_seconds(mapping.seconds)}"
    if mapping.bound is not None and mapping.minimises == "seconds":
        found += f"; no mapping takes less than {format_seconds(mapping.bound)}: gap {mapping.gap:.2%}"
    elif mapping.bound is not None:
        found += f"; no mapping sends less than {format_bytes(mapping.bound)}: gap {mapping.gap:.2%}"
    sent, total = format_bytes(mapping.cut_bytes), format_bytes(mapping.graph.weight.sum())
    return {
        "iteration": f"{format_seconds(mapping.iteration_seconds)}; {format_seconds(least)} if all replicas were "
        f"together, {format_seconds(apart)} if each were on a separate server",
        "between servers": f"{sent} of {total} per iteration",
        mapping.method or "method": found,
    }


def iterations(mapped: MappedJobs) -> dict[str, str]:
    """Job -> formatted time of an iteration."""
    return {name: format_seconds(own.iteration_seconds) for name, own in mapped.mappings.items()}


def _limits(mapping: GPUMapping) -> tuple[float, float]:
    """Lower bound of the time of an iteration, and its time with every replica on its own server, in seconds."""
    pipeline, servers = mapping.graph.pipeline, mapping.servers
    return float(mapping.timing.least(pipeline, servers)), float(mapping.timing.most(pipeline, servers))


def mappings_json(mapped: MappedJobs, method: str) -> dict[str, Any]:
    """Mappings in JSON types; gaps are relative to the minimised quantity, replicas are listed by stage."""
    jobs = {name: {"gpu_type": mapped.gpu_type[name], **_json(own)} for name, own in mapped.mappings.items()}
    return {"method": method, "mappings": jobs, "not_mapped": dict(mapped.refused)}


def _json(mapping: GPUMapping) -> dict[str, Any]:
    least, apart = _limits(mapping)
    bound = {} if mapping.bound is None else {f"bound_{mapping.minimises}": float(mapping.bound), "gap": mapping.gap}
    replicas: Mapping[Any, list[int]] = mapping.table.to_dict(orient="list")
    return {
        "gpus": int(mapping.graph.size.sum()),
        "iteration_seconds": float(mapping.iteration_seconds),
        "least_iteration_seconds": least,
        "apart_iteration_seconds": apart,
        "between_servers_bytes": float(mapping.cut_bytes),
        "exchanged_bytes": float(mapping.graph.weight.sum()),
        "status": str(mapping.status),
        "search_seconds": mapping.seconds,
        **bound,
        "replicas": {str(server): own for server, own in replicas.items()},
        "where": mapping.where,
    }
