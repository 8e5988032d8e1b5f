"""The command ``hetopt verify``."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hetopt.checks import counted
from hetopt.cli.options import AsJson, Parallel, Settings, listed, policy_option
from hetopt.errors import InvalidOption
from hetopt.plugins import CLAIMS, POLICIES
from hetopt.presentation import console
from hetopt.presentation.formatting import format_duration
from hetopt.presentation.tables import table_of

STATED = 8
"""Most claims whose statements are printed below the table of verdicts."""

PER_CELL = 4.0
"""Default seconds of search for each property and policy."""

if TYPE_CHECKING:
    from hetopt.proofs.ledger.claim import Claim, Effort
    from hetopt.proofs.ledger.verification import DecidedClaim


def verify(
    claims: Annotated[
        list[str] | None,
        Argument(
            help="Keys of claims; * is a wildcard: 'oef/*' has the claims of OEF.",
            show_default="all",
            autocompletion=lambda incomplete: [f"{name}/*" for name in CLAIMS.points if name.startswith(incomplete)],
        ),
    ] = None,
    quick: Annotated[bool, Option(help="Stored counterexamples and 50 instances per claim.")] = False,
    instances: Annotated[
        int | None, Option(help="Instances drawn per claim.", show_default="200; 50 with --quick")
    ] = None,
    seconds: Annotated[
        float | None,
        Option(
            help="Search for counterexamples per claim or property; 0: none.",
            show_default="60; 4 with --policy; 0 with --quick; 600 in total with --attack",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Seed of drawing and searching.")] = 0,
    jobs: Parallel = -1,
    policy: Annotated[
        list[str] | None,
        policy_option(
            "Test properties of these policies instead (module:Name, or all, too); separated by commas, or repeatable.",
            POLICIES,
        ),
    ] = None,
    settings: Settings = None,
    markdown: Annotated[Path | None, Option(help="With --policy: write the matrix as Markdown.")] = None,
    show: Annotated[
        bool, Option("--list/--no-list", help="List the claims and their expected verdicts, without deciding them.")
    ] = False,
    kernel: Annotated[
        bool, Option("--kernel/--no-kernel", help="Check the theorems about these claims with Coq's kernel instead.")
    ] = False,
    attack: Annotated[
        bool,
        Option("--attack/--no-attack", help="Attack the true claims by second methods instead, --seconds in total."),
    ] = False,
    as_json: AsJson = False,
    html: Annotated[
        Path | None, Option(help="Write a page with pictures of counterexamples; an existing file is replaced.")
    ] = None,
    keep: Annotated[
        Path | None, Option(help="Folder for instance files of counterexamples that are new or smaller.")
    ] = None,
) -> None:
    """Decide the claims of the papers: theorems, tables of properties, printed numbers; print verdicts and evidence.

    With --policy: test properties of that policy; print the number of instances and the smallest counterexamples.
    The exit code is 1 if a verdict differs from the expected one. After Ctrl-C the claims decided so far are printed.
    """
    from joblib import cpu_count

    from hetopt.checks import whole
    from hetopt.data.saving import check_writable
    from hetopt.proofs.ledger.claim import QUICK, Effort
    from hetopt.proofs.ledger.discovery import select_claims

    default = QUICK if quick else Effort() if policy is None else Effort(seconds=PER_CELL)
    given: dict[str, Any] = {"instances": instances, "seconds": seconds, "seed": seed}
    effort = replace(default, **{key: value for key, value in given.items() if value is not None})
    processes = whole(cpu_count() if jobs == -1 else jobs, "jobs", 1)
    for path in filter(None, (html, markdown)):
        check_writable(path)
    modes = {"--policy": policy is not None, "--attack": attack, "--kernel": kernel, "--list": show}
    chosen = [name for name, given in modes.items() if given]
    if len(chosen) > 1:
        raise InvalidOption(f"{chosen[0]} cannot be combined with {chosen[1]}")
    for option, file in {"--keep": keep, "--html": html if policy is None else None}.items():
        if chosen and file:
            raise InvalidOption(f"{option} is not for {chosen[0]}")
    if policy is not None:
        if claims:
            raise InvalidOption("--policy tests properties, not claims: leave out the claims")
        _test_policies(listed(policy, "--policy"), settings, effort, processes, as_json, html, markdown)
    elif settings or markdown:
        raise InvalidOption("--set and --markdown are for --policy")
    elif attack:
        _attack(select_claims(claims or ()), seconds, seed, processes, as_json)
    elif kernel:
        _check_theorems(select_claims(claims or ()), as_json)
    elif show:
        _list_claims(select_claims(claims or ()), as_json)
    else:
        _decide_claims(select_claims(claims or ()), effort, processes, as_json, html, keep)


def _list_claims(claims: Sequence[Claim], as_json: bool) -> None:
    rows = [{"paper": c.paper, "place": c.place, "claim": c.key, "expected": c.label} for c in claims]
    if as_json:
        more = ({"statement": c.statement, "hypotheses": list(c.hypotheses), "quote": c.quote} for c in claims)
        console.print_json([row | rest for row, rest in zip(rows, more, strict=True)])
        return
    from hetopt.presentation import terminal_tables

    columns = ["paper", "place", "claim", "expected"]
    terminal_tables.show(table_of(columns, (row.values() for row in rows), counted(len(rows), "claim")), most=None)


def _check_theorems(claims: Sequence[Claim], as_json: bool) -> None:
    """Check the theorems about these claims with Coq, and print the results."""
    from hetopt.presentation import terminal_tables
    from hetopt.presentation.tables import Cell, Mark
    from hetopt.proofs.ledger import kernel

    theorems = list(dict.fromkeys(t for claim in claims for t in kernel.by_claim().get(claim.key, ())))
    if not theorems:
        raise InvalidOption("no theorem in Coq is about these claims; hetopt verify --kernel checks all theorems")
    began, checks = time.perf_counter(), list[kernel.KernelCheck]()
    found = kernel.check_theorems(theorems)
    with console.progress("kernel", len({theorem.file for theorem in theorems}), "file") as work, closing(found):
        for result in found:
            if isinstance(result, str):
                work.update(result)
            else:
                checks.append(result)
    if as_json:
        console.print_json([kernel.check_as_dict(check) for check in checks])
    else:
        rows = [
            (
                Cell(check.theorem.name, notes=(f"{check.theorem.file}.v",)),
                ", ".join(check.theorem.claims),
                check.theorem.sentence,
                Cell(check.why or "checked", mark=Mark.BAD if check.why else Mark.GOOD),
            )
            for check in checks
        ]
        terminal_tables.show(table_of(["theorem", "claims", "states", "kernel"], rows), most=None)
        keys = {key for check in checks if not check.why for key in check.theorem.claims}
        axioms = sorted({axiom.rpartition(".")[2] for check in checks for axiom in check.axioms})
        good = [check for check in checks if not check.why]
        text = f"{len(good)} of {counted(len(checks), 'theorem')} checked, about {counted(len(keys), 'claim')}"
        rests = f"; axioms: {', '.join(axioms)}" if axioms else ""
        terminal_tables.print_text(f"{text}{rests}; {format_duration(time.perf_counter() - began)}")
    if any(check.why for check in checks):
        raise typer.Exit(1)


def _attack(claims: Sequence[Claim], seconds: float | None, seed: int, jobs: int, as_json: bool) -> None:
    """Attack the true claims among these, and print what the adversaries found and cannot see."""
    from hetopt.presentation import terminal_tables
    from hetopt.presentation.tables import Cell, Column, Mark
    from hetopt.proofs.ledger import attack
    from hetopt.proofs.ledger.claim import ClaimVerdict

    true = [claim for claim in claims if claim.expected is ClaimVerdict.TRUE]
    if not true:
        raise InvalidOption("none of these claims is true; only true claims are attacked")
    found, results = dict[str, attack.Attack](), attack.attack_all(true, seconds, seed, jobs)
    stopped = False
    try:
        with _long_work(results, len(true), "claim") as work:
            for result in results:
                work.update(result.key)
                found[result.key] = result
    except KeyboardInterrupt:
        stopped = True
        console.note(f"stopped; {len(found)} of {counted(len(true), 'true claim')} attacked")
    attacks = [found[claim.key] for claim in true if claim.key in found]
    if as_json:
        console.print_json([attack.attack_as_dict(one) for one in attacks])
    else:
        rows = [
            (
                one.key,
                one.method,
                Cell(f"{one.cases:,}", one.cases),
                Cell(one.outcome, mark=Mark.BAD if one.succeeded else Mark.QUIET if one.why else Mark.GOOD),
                one.blind,
            )
            for one in attacks
        ]
        columns: list[Column | str] = ["claim", "attacked by", Column("cases"), "outcome", "cannot see"]
        terminal_tables.show(table_of(columns, rows), most=None)
        done = [one for one in attacks if not one.why]
        cases, bad = sum(one.cases for one in done), sum(one.succeeded for one in done)
        terminal_tables.print_text(
            f"{counted(len(done), 'true claim')} attacked in {cases:,} cases, {len(attacks) - len(done)} not; "
            f"{bad} refuted or in dispute"
        )
    if stopped:
        raise typer.Exit(130)
    if any(one.succeeded for one in attacks):
        raise typer.Exit(1)


@contextmanager
def _long_work(results: Generator[Any], steps: int, noun: str) -> Iterator[console.Progress]:
    """Show progress; what claims and policies print goes to standard error, as standard output has only results."""
    with console.progress("verify", steps, noun) as work, redirect_stdout(sys.stderr), closing(results):
        yield work


def _decide_claims(
    claims: Sequence[Claim], effort: Effort, jobs: int, as_json: bool, html: Path | None, keep: Path | None
) -> None:
    """Decide claims, print the verdicts and write the files; after Ctrl-C those of the claims decided so far."""
    from hetopt.data.saving import check_folder, save
    from hetopt.presentation import terminal_tables
    from hetopt.proofs.ledger import ledger_output, verification

    new_folder = keep is not None and not keep.exists()
    if keep is not None:
        check_folder(keep)
    began, stopped = time.perf_counter(), False
    decided: dict[str, DecidedClaim] = {}
    found = verification.decide_all(claims, effort, jobs)
    try:
        with _long_work(found, len(claims), "claim") as work:
            for result in found:
                work.update(result.claim.key)
                decided[result.claim.key] = result
    except KeyboardInterrupt:
        stopped = True
        console.note(f"stopped; {len(decided)} of {counted(len(claims), 'claim')} decided")
    results, spent = [decided[c.key] for c in claims if c.key in decided], time.perf_counter() - began
    page = None if stopped else html  # a part of the claims does not replace a whole page
    if page is not None:
        save(ledger_output.ledger_page(results, effort, spent), page, overwrite=True)
    if as_json:
        console.print_json([ledger_output.claim_as_dict(result) for result in results])
    elif results:
        for paper, own in ledger_output.by_paper(results).items():
            terminal_tables.show(ledger_output.verdicts(own, paper), most=None)
        for result in results if len(results) <= STATED else ():
            terminal_tables.print_text(f"{result.claim.key}: {ledger_output.statement_text(result.claim)}")
        terminal_tables.print_text(f"{ledger_output.totals(results)}; {format_duration(spent)}")
    if keep is not None:
        stored = _store(results, keep)
        if new_folder and not stored:
            keep.rmdir()
        if not as_json:
            print("\n".join(f"stored: {path}" for path in stored) or "stored: none, as none is new or smaller")
    if page is not None and not as_json:
        print(f"page: {page}")
    failures = ledger_output.failures(results)
    for failure in failures:
        console.note(failure)
    if stopped:
        raise typer.Exit(130)
    if failures:
        raise typer.Exit(1)


def _store(results: list[DecidedClaim], folder: Path) -> list[Path]:
    """Write new counterexamples to files, and return their paths."""
    from hetopt.proofs.ledger.counterexample_files import store_counterexample
    from hetopt.proofs.ledger.procedures import universal_part

    paths = []
    for result in results:
        found, universal = result.evidence.counterexample, universal_part(result.claim.procedure)
        if found is not None and not found.name and universal is not None:
            case = universal.space.case(found.numbers)
            paths.append(store_counterexample(result.claim, replace(found, case=case), folder))
    return paths


def _test_policies(
    names: list[str],
    settings: list[str] | None,
    effort: Effort,
    jobs: int,
    as_json: bool,
    html: Path | None,
    markdown: Path | None,
) -> None:
    """Decide the properties of policies, print the results and write the files."""
    from hetopt.cli.arguments import parse_settings
    from hetopt.data.saving import save
    from hetopt.proofs.properties import property_report
    from hetopt.proofs.properties.property_checks import PROPERTIES
    from hetopt.proofs.properties.property_matrix import decide_cells, matrix_rows, plan_cells

    policies = list(POLICIES.points) if names == ["all"] else list(dict.fromkeys(names))
    given = parse_settings(settings)
    with redirect_stdout(sys.stderr):
        tasks, refused = plan_cells(policies, given)
    cells, results = {}, decide_cells(tasks, given, effort, jobs)
    with _long_work(results, len(tasks), "cell") as work:
        for task, cell in results:
            work.update(f"{task[0]} on {task[1]}: {PROPERTIES[task[2]].key}")
            cells[task] = cell
    found = matrix_rows(policies, cells, refused)
    for path, text_of in ((html, property_report.page), (markdown, property_report.markdown)):
        if path is not None:
            save(text_of(found, effort), path, overwrite=True)
    if as_json:
        console.print_json([property_report.as_dict(row) for row in found])
    else:
        property_report.show(found)
    broken = [f"{row.policy}, {cell.about.key}: {cell.why}" for row in found for cell in row.cells if cell.broken]
    for line in broken:
        console.note(line)
    if broken:
        raise typer.Exit(2)
