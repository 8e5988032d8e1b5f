"""The ledger as one self-contained HTML page: verdicts, proofs, and pictures of counterexamples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from hetopt.checks import counted
from hetopt.data.rationals import number_text
from hetopt.data.saving import save
from hetopt.presentation.comparison_page import STYLE
from hetopt.presentation.console import versions
from hetopt.proofs.ledger.claim import HEADINGS, Claim, ClaimEvidence, Effort
from hetopt.proofs.ledger.claim_text import as_html, paragraphs
from hetopt.proofs.ledger.counterexample_files import slug
from hetopt.proofs.ledger.picture_svg import curve_svg, picture_svg
from hetopt.proofs.ledger.verification import DecidedClaim

LEDGER_STYLE = """
td, th { text-align: left; vertical-align: top; } .num { text-align: right; }
.v { border-radius: .3rem; padding: .05rem .5rem; color: white; white-space: nowrap; font-size: .9rem; }
.true { background: #228833; } .false { background: #b3003b; } .open { background: #8a6d00; }
.untestable { background: #666; } section { border-top: 1px solid #ddd; margin-top: 1.6rem; padding-top: .2rem; }
section h3 { margin: .6rem 0 .2rem; } .pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; margin: .8rem 0; }
.where { color: #555; font-weight: normal; font-size: .95rem; } code { font-size: .92em; } details { margin: .5rem 0; }
.unlike { outline: 3px solid #b3003b; }
"""


def write_ledger_page(
    decided: Sequence[DecidedClaim], every: Mapping[str, Claim], path: Path, effort: Effort, seconds: float
) -> None:
    """Write the page, replacing an existing file."""
    save(ledger_page(decided, every, effort, seconds), path, overwrite=True)


def ledger_page(decided: Sequence[DecidedClaim], every: Mapping[str, Claim], effort: Effort, seconds: float) -> str:
    """The page as HTML."""
    on_page = {result.claim.key for result in decided}
    papers = list(dict.fromkeys(result.claim.paper for result in decided))
    parts = [_overview(decided, papers)]
    for paper in papers:
        own = [result for result in decided if result.claim.paper == paper]
        parts.append(f"<h2 id='{slug(paper)}'>{escape(HEADINGS.get(paper, paper))}</h2>{_table(own)}")
        parts += [_section(result, on_page, every) for result in own]
    installed = ", ".join(f"{name} {text}" for name, text in versions().items())
    settings = f"{counted(effort.instances, 'instance')} per claim, {effort.seconds:g} s of search, seed {effort.seed}"
    introduction = (
        "<p>Verdicts are computed: counterexamples are certified in exact fractions, and true claims have a proof on "
        "this page. No verdict depends on a tolerance.</p>"
    )
    end = f"<p class='quiet'>{escape(settings)}; {seconds:.0f} s in total. Versions: {escape(installed)}.</p>"
    return html_page("What the papers claim, and what is true", introduction, *parts, end)


def html_page(title: str, *parts: str) -> str:
    """A self-contained page in the style of the ledger."""
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{title}</title><style>{STYLE}{LEDGER_STYLE}</style><h1>{title}</h1>{''.join(parts)}</html>\n"
    )


def _badge(result: DecidedClaim) -> str:
    verdict = result.evidence.verdict
    unlike = "" if result.as_expected else " unlike"
    return f"<span class='v {verdict}{unlike}'>{escape(result.claim.label_of(verdict))}</span>"


def _overview(decided: Sequence[DecidedClaim], papers: Sequence[str]) -> str:
    labels = list(dict.fromkeys(result.claim.label_of(result.evidence.verdict) for result in decided))
    rows = []
    for paper in papers:
        own = [result.claim.label_of(result.evidence.verdict) for result in decided if result.claim.paper == paper]
        link = f"<a href='#{slug(paper)}'>{escape(HEADINGS.get(paper, paper))}</a>"
        rows.append([link, *(str(own.count(label) or "") for label in labels)])
    return html_table(["paper", *map(escape, labels)], rows, range(1, len(labels) + 1))


def _table(decided: Sequence[DecidedClaim]) -> str:
    rows = (
        [
            f"<a href='#{slug(result.claim.key)}'>{escape(result.claim.key)}</a>",
            escape(result.claim.place),
            _badge(result),
            escape(result.evidence.summary),
            f"{result.evidence.seconds:.1f}",
        ]
        for result in decided
    )
    return html_table(["claim", "place", "verdict", "evidence", "s"], rows, [4])


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]], numeric: Collection[int] = ()) -> str:
    """A table of cells in HTML, with these numeric columns."""

    def row(cells: Iterable[str], tag: str) -> str:
        texts = (f"<{tag}{' class=num' if j in numeric else ''}>{cell}</{tag}>" for j, cell in enumerate(cells))
        return f"<tr>{''.join(texts)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _section(result: DecidedClaim, on_page: set[str], every: Mapping[str, Claim]) -> str:
    claim, evidence = result.claim, result.evidence
    origin = "as printed" if claim.printed else "not printed in the paper"
    parts = [
        f"<section id='{slug(claim.key)}'><h3>{escape(claim.key)} {_badge(result)} "
        f"<span class='where'>{escape(claim.paper)}, {escape(claim.place)}; {origin}</span></h3>",
        f"<p>{as_html(claim.statement)}</p>",
        f"<p class='quiet'>{as_html(claim.note)}</p>" if claim.note else "",
        _evidence(evidence),
    ]
    if claim.instead:
        target = f"<a href='#{slug(claim.instead)}'>{escape(claim.instead)}</a>"
        name = target if claim.instead in on_page else escape(claim.instead)
        text = f": {as_html(every[claim.instead].statement)}" if claim.instead in every else ""
        parts.append(f"<p>What holds instead, {name}{text}</p>")
    if claim.proof:
        proof = "".join(f"<p>{as_html(part)}</p>" for part in paragraphs(claim.proof))
        parts.append(f"<details><summary>Proof</summary>{proof}</details>")
    return "".join([*parts, "</section>"])


def _evidence(evidence: ClaimEvidence) -> str:
    parts = [f"<p>{escape(evidence.summary)}.</p>"]
    found = evidence.counterexample
    if pictures := evidence.pictures if found is None else found.finding.pictures:
        parts.append(f"<div class='pictures'>{''.join(map(picture_svg, pictures))}</div>")
    if found is not None:
        if found.finding.certificate:
            parts.append(f"<p class='quiet'>Certified: {escape('; '.join(found.finding.certificate))}.</p>")
        if found.numbers.tables:
            numbers = "; ".join(f"{name} {_rows(rows)}" for name, rows in found.numbers.as_dict().items())
            where = f", stored as <code>{escape(found.name)}</code>" if found.name else ""
            parts.append(f"<p class='quiet'><code>{escape(numbers)}</code>{where}</p>")
    if evidence.curve is not None:
        parts.append(f"<div class='pictures'>{curve_svg(evidence.curve)}</div>")
    if evidence.tightness is not None:
        ratio = evidence.tightness.ratio
        parts.append(f"<p>Largest quotient of both sides found: {number_text(ratio)} ({float(ratio):.3g}).</p>")
    if evidence.values:
        rows = (map(escape, (name, *values)) for name, values in evidence.values.items())
        table = html_table(["quantity", "claimed", "computed"], rows, [1, 2])
        parts.append(f"<details><summary>Numbers</summary>{table}</details>")
    if evidence.checks:
        text = "; ".join(f"{c.name}: {_outcome(c.holds)}{f' ({c.why})' if c.why else ''}" for c in evidence.checks)
        parts.append(f"<p class='quiet'>Checked by machine: {escape(text)}.</p>")
    return "".join(parts)


def _rows(rows: list[list[str | int]]) -> str:
    return "(" + "; ".join(", ".join(map(str, row)) for row in rows) + ")"


def _outcome(holds: bool | None) -> str:
    return "proved" if holds else "not run" if holds is None else "fails"
