"""The command ``hetopt verify``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetopt.presentation import console

PER_CELL = 4.0
"""Seconds of search for each property of a policy, unless --seconds says otherwise."""

if TYPE_CHECKING:
    from hetopt.proofs.ledger.claim import Effort
    from hetopt.proofs.ledger.verification import DecidedClaim


def verify(
    claims: Annotated[
        list[str] | None, typer.Argument(help="Keys of claims, perhaps with *.", show_default="all")
    ] = None,
    paper: Annotated[str, typer.Option(help="Only claims of this paper: OEF, FFT, Hadar or A-SRPT.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Stored counterexamples and 50 instances a claim.")] = False,
    instances: Annotated[
        int | None, typer.Option(help="Instances drawn for each claim.", show_default="200; 50 with --quick")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Search for counterexamples, for each claim or property; 0: none.",
            show_default="60; 4 with --policy; 0 with --quick",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn and searched.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes.", show_default="all cores")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="Put this policy (a name, or module:Name) to the properties instead; repeatable; all: every policy.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the policy, key=value; repeatable.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="With --policy: write the matrix as Markdown.")] = None,
    show: Annotated[
        bool, typer.Option("--list", help="List the claims and the verdicts expected; decide nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with counterexamples drawn; one there is replaced.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for instance files of counterexamples that are new or smaller.")
    ] = None,
) -> None:
    """Decide what the papers claim: theorems, tables of properties, printed numbers; print verdicts and evidence.

    With --policy: which properties that policy has, on how many instances, and the smallest counterexamples.
    Ends with exit code 1 if a verdict is another than the ledger stands for. Stopped by Ctrl-C it prints what is
    decided so far.
    """
    from hetopt.checks import at_least
    from hetopt.data.saving import check_folder, check_writable
    from hetopt.errors import InvalidOption
    from hetopt.proofs.ledger import verdict_tables
    from hetopt.proofs.ledger.claim import QUICK, Effort
    from hetopt.proofs.ledger.counterexample_files import unreadable
    from hetopt.proofs.ledger.counterexample_search import temporary_hypothesis_folder
    from hetopt.proofs.ledger.discovery import all_claims, select_claims
    from hetopt.proofs.ledger.verification import decide_all
    from hetopt.proofs.ledger.worker_pool import stdout_to_stderr

    standard = QUICK if quick else Effort()
    search = standard.seconds if policy is None or quick else PER_CELL
    effort = Effort(
        instances=standard.instances if instances is None else instances,
        seconds=search if seconds is None else seconds,
        seed=seed,
    )
    processes = int(at_least(os.cpu_count() or 1 if jobs is None else jobs, "jobs", 1, InvalidOption))
    for path in (html, markdown):
        if path is not None:
            check_writable(path)
    if policy is not None:
        if claims or paper or show or keep:
            raise InvalidOption(
                "--policy is about properties, not about claims; leave out claims, --paper, --list, --keep"
            )
        _properties(policy, settings, effort, processes, as_json=as_json, html=html, markdown=markdown)
        return
    if settings or markdown:
        raise InvalidOption("--set and --markdown are for --policy")
    wanted = select_claims(claims or (), paper)
    if show:
        frame = verdict_tables.expected_verdicts(wanted)
        if as_json:
            print(frame.to_json(orient="records", indent=2))
        else:
            console.show_table(f"{len(frame)} claims", list(frame.columns), frame.to_numpy().tolist(), sentences=2)
        return
    made = keep is not None and not keep.exists()
    if keep is not None:
        check_folder(keep)
    began, decided, stopped = time.perf_counter(), dict[str, "DecidedClaim"](), False
    try:
        with console.steps(len(wanted)) as step, stdout_to_stderr(), temporary_hypothesis_folder():
            for one in decide_all(wanted, effort, processes):
                step(one.claim.key)
                decided[one.claim.key] = one
    except KeyboardInterrupt:
        stopped = True
        console.note(f"stopped; {len(decided)} of {len(wanted)} claims are decided")
    results = [decided[claim.key] for claim in wanted if claim.key in decided]
    spent = time.perf_counter() - began
    if html is not None:
        from hetopt.proofs.ledger.ledger_page import write_ledger_page

        write_ledger_page(results, all_claims(), html, effort, spent)
    if as_json:
        print(json.dumps([verdict_tables.claim_as_dict(one) for one in results], indent=2))
    else:
        _print(results, spent)
    if keep is not None:
        kept = _keep(results, keep)
        if made and not kept:
            keep.rmdir()
        if not as_json:
            console.say("\n".join(f"kept: {path}" for path in kept) or "kept: none, as none is new or smaller")
    if html is not None and not as_json:
        console.say(f"page: {html}")
    spoilt = unreadable()
    for name in spoilt:
        console.note(f"instance {name} cannot be read")
    if stopped:
        raise typer.Exit(130)
    if spoilt or not all(one.as_expected for one in results):
        raise typer.Exit(1)


def _properties(
    names: list[str],
    settings: list[str] | None,
    effort: Effort,
    jobs: int,
    *,
    as_json: bool,
    html: Path | None,
    markdown: Path | None,
) -> None:
    """The properties of some policies, printed and written."""
    from hetopt.data.saving import save
    from hetopt.proofs.ledger.counterexample_search import temporary_hypothesis_folder
    from hetopt.proofs.ledger.worker_pool import stdout_to_stderr
    from hetopt.proofs.properties import property_report
    from hetopt.proofs.properties.property_checks import PROPERTIES
    from hetopt.proofs.properties.property_matrix import decide_cells, matrix_rows, plan_cells
    from hetopt.registry import policy_names

    asked = policy_names() if names == ["all"] else list(dict.fromkeys(names))
    with stdout_to_stderr():
        tasks, refused = plan_cells(asked, settings or [])
    cells = {}
    with console.steps(len(tasks)) as step, stdout_to_stderr(), temporary_hypothesis_folder():
        for task, cell in decide_cells(tasks, settings or [], effort, jobs):
            if task not in cells:
                step(f"{task[0]}: {PROPERTIES[task[2]].key}")
            cells[task] = cell
    found = matrix_rows(asked, cells, refused)
    if html is not None:
        save(property_report.page(found, effort), html, overwrite=True)
    if markdown is not None:
        save(property_report.markdown(found, effort), markdown, overwrite=True)
    if as_json:
        print(json.dumps([property_report.as_dict(line) for line in found], indent=2))
    else:
        property_report.show(found)
    broken = [(line.policy, one) for line in found for one in line.cells if one.broken]
    for name, one in broken:
        console.note(f"{name}, {one.about.key}: {one.why}")
    if broken:
        raise typer.Exit(2)


def _print(results: list[DecidedClaim], spent: float) -> None:
    for paper in dict.fromkeys(one.claim.paper for one in results):
        rows = []
        for one in results:
            if one.claim.paper == paper:
                word = one.claim.label_of(one.evidence.verdict)
                told = word if one.as_expected else f"{word}, not {one.claim.label}"
                rows.append([one.claim.key, f"{one.evidence.seconds:.1f}", told, one.evidence.summary])
        console.show_table(paper, ["claim", "s", "verdict", "evidence"], rows, sentences=1, light=True)
    counts: dict[str, int] = {}
    for one in results:
        word = one.claim.label_of(one.evidence.verdict)
        counts[word] = counts.get(word, 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    other = [one.claim.key for one in results if not one.as_expected]
    console.say(f"{told}; {spent:.{0 if spent >= 10 else 1}f} s")
    for key in other:
        console.note(f"{key}: another verdict than the ledger stands for")


def _keep(results: list[DecidedClaim], folder: Path) -> list[Path]:
    """The files that were written."""
    from dataclasses import replace

    from hetopt.proofs.ledger.counterexample_files import store_counterexample
    from hetopt.proofs.ledger.procedures import Exists, ForAll

    paths = []
    for one in results:
        found, means = one.evidence.counterexample, one.claim.means
        such = means.such if isinstance(means, Exists) else means
        if found is None or found.name or not isinstance(such, ForAll):
            continue
        paths.append(store_counterexample(one.claim, replace(found, case=such.space.build(found.numbers)), folder))
    return paths
