"""Output of the ledger: verdicts as tables, as plain data, and on one page with proofs and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hetopt.checks import counted
from hetopt.data.rationals import number_text
from hetopt.presentation.console import versions
from hetopt.presentation.formatting import MISSING, slug
from hetopt.presentation.tables import SIGNS, Cell, Column, Mark, Table, joined, number_column, table_of
from hetopt.proofs.ledger import counterexample_files
from hetopt.proofs.ledger.claim import HEADINGS, PAPERS, Claim, ClaimVerdict, Counterexample, Effort
from hetopt.proofs.ledger.claim_text import as_html, as_plain, paragraphs
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.kernel import by_claim
from hetopt.proofs.ledger.verification import DecidedClaim

MARKS = {
    ClaimVerdict.FALSE: Mark.BAD,
    ClaimVerdict.TRUE: Mark.GOOD,
    ClaimVerdict.OPEN: Mark.WARN,
    ClaimVerdict.UNTESTABLE: Mark.QUIET,
}
"""Verdict, in the order of output -> its mark."""


def counts(decided: Iterable[DecidedClaim]) -> dict[str, Counter[ClaimVerdict]]:
    """Claims that papers print, and further ones -> the number of each verdict."""
    found = {"printed": Counter[ClaimVerdict](), "further": Counter[ClaimVerdict]()}
    for one in decided:
        found["printed" if one.claim.printed else "further"][one.evidence.verdict] += 1
    return {kind: count for kind, count in found.items() if count}


def totals(decided: Iterable[DecidedClaim]) -> str:
    """The counts in a line: "189 printed claims: 82 false, 79 true, 28 untestable; 124 further claims: ..."."""
    return "; ".join(
        f"{counted(own.total(), f'{kind} claim')}: {', '.join(f'{own[v]} {v}' for v in MARKS if own[v])}"
        for kind, own in counts(decided).items()
    )


def failures(decided: Iterable[DecidedClaim]) -> list[str]:
    """A line for each verdict that is not the expected one, and for each useless file of a counterexample."""
    wrong = [f"{one.claim.key}: not the expected verdict" for one in decided if not one.as_expected]
    return wrong + counterexample_files.problems(all_claims())


def overview(decided: Sequence[DecidedClaim], link: str = "#{}") -> Table:
    """The counts of all papers and of each; ``link`` leads to the claims of a paper."""
    papers, rows = by_paper(decided), list[list[Cell]]()
    for paper, own in (({"": decided} if len(papers) > 1 else {}) | papers).items():
        target = link.format(slug(paper.lower())) if paper else ""
        for kind, count in counts(own).items():
            name = Cell(f"{HEADINGS.get(paper, paper) or 'all papers'}, {kind}", link=target)
            rows.append([name, *(Cell(str(n), n) for n in (*(count[verdict] for verdict in MARKS), count.total()))])
    return table_of(["claims", *map(Column, (*MARKS, "all"))], rows)


def by_paper(decided: Sequence[DecidedClaim]) -> dict[str, list[DecidedClaim]]:
    """Paper -> its claims."""
    found: dict[str, list[DecidedClaim]] = {}
    for one in decided:
        found.setdefault(one.claim.paper, []).append(one)
    return found


def verdict_cell(decided: DecidedClaim) -> Cell:
    """The verdict, and the expected one if it is another."""
    other = "" if decided.as_expected else f", not {decided.claim.label}"
    return Cell(f"{decided.label}{other}", mark=MARKS[decided.evidence.verdict])


def verdicts(decided: Sequence[DecidedClaim], title: str) -> Table:
    """A row per claim: key and place, verdict and how it is known, evidence in a line, time."""
    return joined(
        ("claim", [Cell(d.claim.key, notes=(d.claim.place,)) for d in decided]),
        ("verdict", map(verdict_cell, decided)),
        ("known by", [d.known.value for d in decided]),
        ("evidence", [d.evidence.summary for d in decided]),
        number_column("time", [d.evidence.seconds for d in decided], "s"),
        title=title,
    )


def statement_text(claim: Claim) -> str:
    """The statement and the hypotheses in plain text."""
    given = f" Hypotheses: {'; '.join(claim.hypotheses)}." if claim.hypotheses else ""
    return as_plain(claim.statement + given)


def all_claims_table(decided: Sequence[DecidedClaim], link: Callable[[Claim], str]) -> Table:
    """A row per claim: its key with a link and a tip that states it, paper, verdict, how it is known, place."""
    columns: list[Column | str] = [
        "claim",
        *(Column(name, text=True, choices=True) for name in ("paper", "verdict", "known by")),
        "place",
    ]
    rows = (
        (
            Cell(one.claim.key, link=link(one.claim), tip=statement_text(one.claim)),
            one.claim.paper,
            Cell(one.label, mark=MARKS[one.evidence.verdict]),
            one.known.value,
            one.claim.place + ("" if one.claim.printed else ", not printed"),
        )
        for one in decided
    )
    return table_of(columns, rows)


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
        "source": claim.source,
        "quote": claim.quote or None,
        "statement": claim.statement,
        "hypotheses": list(claim.hypotheses),
        "printed": claim.printed,
        "policies": list(claim.policies or ()),
        "verdict": evidence.verdict.value,
        "expected": claim.expected.value,
        "label": decided.label,
        "known": decided.known.value,
        "kernel": [f"{theorem.file}.{theorem.name}" for theorem in by_claim().get(claim.key, ())],
        "instead": claim.instead or None,
        "note": claim.note or None,
        "proof": claim.proof.strip() or None,
        "evidence": evidence.summary,
        "tried": dict(evidence.tried),
        "counterexample": counterexample_as_dict(evidence.counterexample),
        "curve": None
        if curve is None
        else {**vars(curve), "points": {str(size): number_text(value) for size, value in curve.points.items()}},
        "tightness": None if tight is None else {"ratio": number_text(tight.ratio), "numbers": tight.numbers.as_dict()},
        "checks": [{**vars(check), "why": check.why or None} for check in evidence.checks],
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


def claims_html(decided: Sequence[DecidedClaim]) -> str:
    """Claims as HTML, each folded, with its verdict in the line that remains."""
    return _render("claims.html.j2", decided, decided=decided)


def position(decided: DecidedClaim) -> int:
    """Position of a claim in its paper; 0 for papers without places."""
    papers = {paper.name: paper for paper in PAPERS.values()}
    return papers[decided.claim.paper].position(decided.claim.place) if decided.claim.paper in papers else 0


def errata_html(decided: Sequence[DecidedClaim], link: Callable[[Claim], str]) -> str:
    """What is false as printed, in the order of the papers, and what holds instead; ``link`` leads to a claim."""
    return _render(
        "errata.html.j2",
        decided,
        papers=by_paper(sorted(decided, key=position)),
        headings=HEADINGS,
        references={paper.name: paper.reference for paper in PAPERS.values()},
        known={one.claim.key: one.known.value for one in decided},
        link=link,
    )


def ledger_page(decided: Sequence[DecidedClaim], effort: Effort, seconds: float) -> str:
    """The page as HTML; ``seconds`` is the time that the decisions took."""
    return _render(
        "ledger.html.j2",
        decided,
        title="What the papers claim, and what is true",
        versions=versions(),
        overview=overview(decided),
        table=all_claims_table(decided, lambda claim: f"#{slug(claim.key)}"),
        papers=by_paper(decided),
        headings=HEADINGS,
        effort=effort,
        seconds=seconds,
        totals=totals,
    )


def _render(template: str, shown: Sequence[DecidedClaim], **values: Any) -> str:
    """A template with what each claim needs; ``shown``: all claims on the page, to which others may lead."""
    from hetopt.presentation.pages import render
    from hetopt.proofs.ledger.finding_drawings import drawings

    return render(
        template,
        package="hetopt.proofs.ledger",
        every=all_claims(),
        kernel=by_claim(),
        on_page={result.claim.key for result in shown},
        as_html=as_html,
        drawings=drawings,
        number_text=number_text,
        paragraphs=paragraphs,
        signs={**SIGNS, Mark.WARN: "?", Mark.QUIET: MISSING},
        slug=slug,
        values=values_table,
        verdict_cell=verdict_cell,
        **values,
    )
