"""Results, audits, instances, comparisons and mappings on terminals and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.checks import counted
from hetopt.data.instance import Instance
from hetopt.presentation.console import print_line, readable
from hetopt.presentation.formatting import format_number
from hetopt.presentation.result_tables import (
    audit_table,
    certificate_text,
    comparison_table,
    instance_tables,
    iteration_limits,
    mapping_facts,
    placement_table,
    properties_in,
    reason_of,
    replica_table,
    result_table,
)
from hetopt.presentation.tables import table_of
from hetopt.presentation.terminal import OUT
from hetopt.presentation.terminal_tables import show
from hetopt.results.allocation import Allocation, Plan
from hetopt.stages.mapping import GPUMapping, MappedJobs

if TYPE_CHECKING:
    from hetopt.auditing import Audit
    from hetopt.decisions.first_round import FirstRound
    from hetopt.experiments.comparison import Comparison

RANGED = 2_000
"""Largest number of shares for which JSON has sensitivities, which need another solve."""


def show_result(result: Allocation | Plan, policy: str) -> None:
    """Print shares (or GPUs), rates and the certificate."""
    table = result_table(result)
    show(replace(table, title=f"{policy}: {table.title}"))
    if isinstance(result, Plan):
        for what, amount in result.given_up.items():
            print_line(f"given up ({what}): {format_number(float(amount))}")
    if text := certificate_text(result):
        print_line(text)


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
    show(audit_table(verdicts, f"{policy}: properties"))
    for name, text in properties_in(verdicts).items():
        print_line("  ", (name, "bold"), f": {text}")


def show_names(listed: Mapping[str, str], title: str, about: str, as_json: bool) -> None:
    """Print names with a description of each."""
    if as_json:
        print(json.dumps(listed, indent=2))
    else:
        show(table_of(["name", about], listed.items(), title))


def show_instance(instance: Instance, as_json: bool) -> None:
    """Print the source and the tables of an instance."""
    if as_json:
        from hetopt.data.instance_files import encode

        print(json.dumps(encode(instance), indent=2))
        return
    print_line((instance.name, "bold"))
    if instance.source:
        OUT.print(instance.source)
    for table in instance_tables(instance):
        show(table)


def show_placement(first: FirstRound, policy: str, iteration: Mapping[str, float] | None = None) -> None:
    """Print jobs with their GPUs and servers, waiting jobs with the reason, and losses of rounding and placement.

    ``iteration``: job -> seconds of an iteration, if known.
    """
    show(placement_table(first, f"{policy}: jobs on servers in the first round", iteration))
    used, there = first.decision.gpus.sum(), first.decision.entities.capacity.sum()
    jobs, capacity = counted(len(first.instance.jobs), "job"), counted(round(there), "GPU")
    print_line(f"{len(first.rows)} of {jobs} running, on {used:.0f} of {capacity}")
    lost = [f"{what} {format_number(float(amount))}" for what, amount in first.decision.given_up.items() if amount]
    print_line(f"given up by rounding and placement: {', '.join(lost) or 'nothing'}")


def show_comparison(comparison: Comparison, name: str) -> None:
    """Print both tables, the meaning of their columns, and the policies without numbers, with the reasons."""
    from hetopt.experiments.comparison import COLUMNS, PLACED, by_reason, ranked, recommend

    order = ranked(comparison)
    show(comparison_table(comparison.table.loc[order], COLUMNS, f"every policy on {name}"))
    if not comparison.placed.empty:
        placed = comparison.placed.loc[[key for key in order if key in comparison.placed.index]]
        show(comparison_table(placed, PLACED, "rounded to whole GPUs and placed on servers: the first round"))
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
    if found := recommend(comparison):
        print_line("recommended: ", (found.policy, "bold"), reason_of(found))


def show_mappings(mapped: MappedJobs) -> None:
    """Print each job's replicas on servers and the time of an iteration; then the jobs without a mapping."""
    for name, mapping in mapped.mappings.items():
        show(replica_table(mapping, f"{name}: replicas of its stages on servers with {mapped.gpu_type[name]}"))
        for key, text in mapping_facts(mapping).items():
            print_line("  ", (key, "bold"), f": {readable(text)}")
    if mapped.refused:
        show(table_of(["job", "why"], mapped.refused.items(), "not mapped"))


def iterations(mapped: MappedJobs) -> dict[str, float]:
    """Job -> seconds of an iteration."""
    return {name: float(own.iteration_seconds) for name, own in mapped.mappings.items()}


def mappings_json(mapped: MappedJobs, method: str) -> dict[str, Any]:
    """Mappings in JSON types; gaps are relative to the minimised quantity, replicas are listed by stage."""
    jobs = {name: {"gpu_type": mapped.gpu_type[name], **_json(own)} for name, own in mapped.mappings.items()}
    return {"method": method, "mappings": jobs, "not_mapped": dict(mapped.refused)}


def _json(mapping: GPUMapping) -> dict[str, Any]:
    least, apart = iteration_limits(mapping)
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
