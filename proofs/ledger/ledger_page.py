"""The ledger as one self-contained HTML page: verdicts, proofs, and pictures of counterexamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from hetopt.data.saving import save
from hetopt.presentation.comparison_page import STYLE
from hetopt.presentation.console import versions
from hetopt.proofs.ledger.claim import PAPERS, Claim, ClaimEvidence, Effort, fraction_text
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
    there = {one.claim.key for one in decided}
    papers = list(dict.fromkeys(one.claim.paper for one in decided))
    parts = [_overview(decided, papers)]
    for paper in papers:
        own = [one for one in decided if one.claim.paper == paper]
        parts.append(f"<h2 id='{slug(paper)}'>{escape(PAPERS.get(paper, paper))}</h2>{_table(own)}")
        parts += [_section(one, there, every) for one in own]
    made = ", ".join(f"{name} {text}" for name, text in versions().items())
    how = f"{effort.instances} instances a claim, {effort.seconds:g} s of search, seed {effort.seed}"
    how += f"; {seconds:.0f} s in all"
    title = "What the papers claim, and what is true"
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{title}</title><style>{STYLE}{LEDGER_STYLE}</style><h1>{title}</h1>"
        "<p>Every verdict is computed: counterexamples are certified in exact fractions, what holds has a proof that "
        "stands here. Nothing rests on a tolerance.</p>"
        f"{''.join(parts)}<p class='quiet'>{escape(how)}. Made by {escape(made)}.</p></html>\n"
    )


def _badge(one: DecidedClaim) -> str:
    verdict = one.evidence.verdict
    unlike = "" if one.as_expected else " unlike"
    return f"<span class='v {verdict}{unlike}'>{escape(one.claim.label_of(verdict))}</span>"


def _overview(decided: Sequence[DecidedClaim], papers: Sequence[str]) -> str:
    labels = list(dict.fromkeys(one.claim.label_of(one.evidence.verdict) for one in decided))
    head = "".join(f"<th class='num'>{escape(label)}</th>" for label in labels)
    rows = []
    for paper in papers:
        own = [one.claim.label_of(one.evidence.verdict) for one in decided if one.claim.paper == paper]
        cells = "".join(f"<td class='num'>{own.count(label) or ''}</td>" for label in labels)
        rows.append(f"<tr><td><a href='#{slug(paper)}'>{escape(PAPERS.get(paper, paper))}</a></td>{cells}</tr>")
    return f"<table><thead><tr><th>paper</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _table(decided: Sequence[DecidedClaim]) -> str:
    rows = "".join(
        f"<tr><td><a href='#{slug(one.claim.key)}'>{escape(one.claim.key)}</a></td><td>{escape(one.claim.place)}</td>"
        f"<td>{_badge(one)}</td><td>{escape(one.evidence.summary)}</td>"
        f"<td class='num'>{one.evidence.seconds:.1f}</td></tr>"
        for one in decided
    )
    head = "<tr><th>claim</th><th>place</th><th>verdict</th><th>evidence</th><th class='num'>s</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _section(one: DecidedClaim, there: set[str], every: Mapping[str, Claim]) -> str:
    claim, evidence = one.claim, one.evidence
    whose = "as printed" if claim.printed else "not the paper's words: a version of ours"
    parts = [
        f"<section id='{slug(claim.key)}'><h3>{escape(claim.key)} {_badge(one)} "
        f"<span class='where'>{escape(claim.paper)}, {escape(claim.place)}; {whose}</span></h3>",
        f"<p>{as_html(claim.statement)}</p>",
        f"<p class='quiet'>{as_html(claim.note)}</p>" if claim.note else "",
        _evidence(evidence),
    ]
    if claim.instead:
        target = f"<a href='#{slug(claim.instead)}'>{escape(claim.instead)}</a>"
        name = target if claim.instead in there else escape(claim.instead)
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
            where = f", kept as <code>{escape(found.name)}</code>" if found.name else ""
            parts.append(f"<p class='quiet'><code>{escape(numbers)}</code>{where}</p>")
    if evidence.curve is not None:
        parts.append(f"<div class='pictures'>{curve_svg(evidence.curve)}</div>")
    if evidence.tightness is not None:
        ratio = evidence.tightness.ratio
        parts.append(
            f"<p>The bound is reached to {fraction_text(ratio)} ({float(ratio):.3g}) of it at most, as "
            "far as searched.</p>"
        )
    if evidence.values:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td class='num'>{escape(a)}</td><td class='num'>{escape(b)}</td></tr>"
            for name, (a, b) in evidence.values.items()
        )
        head = "<tr><th>quantity</th><th class='num'>claimed</th><th class='num'>computed</th></tr>"
        parts.append(f"<details><summary>Numbers</summary><table>{head}{rows}</table></details>")
    if evidence.checks:
        text = "; ".join(f"{c.name}: {_outcome(c.holds)}{f' ({c.why})' if c.why else ''}" for c in evidence.checks)
        parts.append(f"<p class='quiet'>By machine: {escape(text)}.</p>")
    return "".join(parts)


def _rows(rows: list[list[str | int]]) -> str:
    return "(" + "; ".join(", ".join(map(str, row)) for row in rows) + ")"


def _outcome(holds: bool | None) -> str:
    return "proved" if holds else "not run" if holds is None else "fails"
