"""Output of the ledger: verdicts as tables, as plain data, and on one page with proofs and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetopt.data.rationals import number_text
from hetopt.presentation.console import versions
from hetopt.presentation.tables import Cell, Column, Mark, Table, number_column, table_of
from hetopt.proofs.ledger.claim import HEADINGS, Claim, ClaimVerdict, Counterexample, Effort
from hetopt.proofs.ledger.claim_text import as_html, paragraphs
from hetopt.proofs.ledger.counterexample_files import slug
from hetopt.proofs.ledger.verification import DecidedClaim

MARKS = {
    ClaimVerdict.FALSE: Mark.BAD,
    ClaimVerdict.OPEN: Mark.WARN,
    ClaimVerdict.UNTESTABLE: Mark.QUIET,
    ClaimVerdict.TRUE: Mark.GOOD,
}
LABELS = ("false", "true", "true, corrected", "open", "untestable")
"""Verdicts as text, in the order of pages."""


def verdict_cell(decided: DecidedClaim) -> Cell:
    """The verdict, and the expected one if it is another."""
    other = "" if decided.as_expected else f", not {decided.claim.label}"
    return Cell(f"{decided.label}{other}", mark=MARKS[decided.evidence.verdict])


def verdicts(decided: Sequence[DecidedClaim], title: str) -> Table:
    """A row per claim: key and place, verdict, evidence in a line, time."""
    time, spent = number_column("time", [d.evidence.seconds for d in decided], "s")
    names = [Cell(d.claim.key, notes=(d.claim.place,), link=f"#{slug(d.claim.key)}") for d in decided]
    rows = zip(names, map(verdict_cell, decided), (d.evidence.summary for d in decided), spent, strict=True)
    return table_of(["claim", Column("verdict"), "evidence", time], rows, title)


def by_verdict(decided: Sequence[DecidedClaim]) -> dict[str, dict[str, list[DecidedClaim]]]:
    """Paper -> verdict as text -> its claims."""
    papers = dict.fromkeys(d.claim.paper for d in decided)
    found = {paper: {label: list[DecidedClaim]() for label in LABELS} for paper in papers}
    for one in decided:
        found[one.claim.paper][one.label].append(one)
    return {paper: {label: own for label, own in labels.items() if own} for paper, labels in found.items()}


def overview(groups: Mapping[str, Mapping[str, Sequence[DecidedClaim]]]) -> Table:
    """The number of claims of each paper with each verdict; linked to the tables of :func:`verdicts`."""
    labels = [label for label in LABELS if any(label in own for own in groups.values())]

    def count(paper: str, label: str) -> Cell:
        number = len(groups[paper].get(label, ()))
        return Cell(str(number), number, link=f"#scroll-{slug(f'{paper}-{label}')}" if number else "")

    rows = (
        [Cell(HEADINGS.get(paper, paper), link=f"#{slug(paper)}"), *(count(paper, label) for label in labels)]
        for paper in groups
    )
    return table_of(["paper", *map(Column, labels)], rows)


def values_table(values: Mapping[str, tuple[str, str]]) -> Table:
    """Quantities as printed and as computed."""
    rows = ((name, *pair) for name, pair in values.items())
    return table_of(["quantity", Column("claimed"), Column("computed")], rows)


def claim_as_dict(decided: DecidedClaim) -> dict[str, Any]:
    """A claim and its evidence as plain data for JSON, with fractions as text."""
    claim, evidence = decided.claim, decided.evidence
    curve, tight = evidence.curve, evidence.tightness
    return {
        "claim": claim.key,
        "paper": claim.paper,
        "place": claim.place,
        "statement": claim.statement,
        "printed": claim.printed,
        "policies": list(claim.policies or ()),
        "verdict": evidence.verdict.value,
        "expected": claim.expected.value,
        "label": decided.label,
        "instead": claim.instead or None,
        "note": claim.note or None,
        "proof": claim.proof.strip() or None,
        "evidence": evidence.summary,
        "tried": dict(evidence.tried),
        "counterexample": counterexample_as_dict(evidence.counterexample),
        "curve": None
        if curve is None
        else {
            "size": curve.size,
            "quantity": curve.quantity,
            "formula": curve.formula,
            "points": {str(size): number_text(value) for size, value in curve.points.items()},
        },
        "tightness": None if tight is None else {"ratio": number_text(tight.ratio), "numbers": tight.numbers.as_dict()},
        "checks": [
            {"name": check.name, "holds": check.holds, "why": check.why or None, "seconds": check.seconds}
            for check in evidence.checks
        ],
        "values": {name: {"claimed": a, "computed": b} for name, (a, b) in evidence.values.items()},
        "seconds": evidence.seconds,
    }


def counterexample_as_dict(found: Counterexample | None) -> dict[str, Any] | None:
    """A counterexample as plain data for JSON, with fractions as text."""
    if found is None:
        return None
    return {
        "stored": found.name or None,
        "numbers": found.numbers.as_dict(),
        "slack": number_text(found.finding.slack),
        "found": found.finding.explanation,
        "certificate": list(found.finding.certificate),
    }


def ledger_page(decided: Sequence[DecidedClaim], every: Mapping[str, Claim], effort: Effort, seconds: float) -> str:
    """The page as HTML.

    Parameters
    ----------
    every:
        Key -> claim, of all claims.
    seconds:
        Time that the decisions took.
    """
    from hetopt.presentation.pages import render
    from hetopt.proofs.ledger.finding_drawings import drawings

    return render(
        "ledger.html.j2",
        package="hetopt.proofs.ledger",
        title="What the papers claim, and what is true",
        versions=versions(),
        groups=by_verdict(decided),
        headings=HEADINGS,
        decided=decided,
        every=every,
        on_page={result.claim.key for result in decided},
        effort=effort,
        seconds=seconds,
        # what the template calls
        as_html=as_html,
        drawings=drawings,
        number_text=number_text,
        overview=overview,
        paragraphs=paragraphs,
        slug=slug,
        values=values_table,
        verdict_cell=verdict_cell,
        verdicts=verdicts,
    )
