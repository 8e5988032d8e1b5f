"""Show properties of policies: as a table in the terminal, as Markdown, as an HTML page and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hetopt.presentation import console
from hetopt.presentation.comparison_page import STYLE
from hetopt.proofs.ledger.claim import Effort, fraction_text
from hetopt.proofs.ledger.ledger_page import LEDGER_STYLE
from hetopt.proofs.ledger.picture_svg import picture_svg
from hetopt.proofs.properties.property_checks import PROPERTIES
from hetopt.proofs.properties.property_matrix import CellOutcome, MatrixCell, MatrixRow

HEADING = """# Which policy has which property

Written by `hetopt verify --policy … --markdown`. Tenants are judged by speedups relative to their slowest type,
jobs by work per second on average over time, for the decision of one round.

- **✗**: the property does not hold; the smallest counterexample is below.
- **a number**: it held on this number of instances, which is no proof. *proved*: the ledger has a written proof, below.
- **°**: on other instances it fails for the returned optimum, but may hold for another optimum.
- **-**: not judged: the property is about tenants alone, or the policy's results cannot be compared.

The properties:
"""

SIGNS = {CellOutcome.FAILS: "✗", CellOutcome.NOT_JUDGED: "-", CellOutcome.ERROR: "error"}


def as_dict(line: MatrixRow) -> dict[str, Any]:
    """One policy as plain data for JSON."""
    return {
        "policy": line.policy,
        "about": line.kind,
        "refuses": line.why or None,
        "properties": {one.about.key: _cell(one) for one in line.cells},
    }


def _cell(one: MatrixCell) -> dict[str, Any]:
    found = one.counterexample
    return {
        "says": one.about.statement,
        "holds": one.holds,
        "instances": one.instances,
        "refused": one.refused,
        "tied": one.tied,
        "searched": one.searched,
        "proved": one.proved or None,
        "why": one.why or None,
        "broken": one.broken,
        "counterexample": None
        if found is None
        else {
            "numbers": found.numbers.as_dict(),
            "slack": fraction_text(found.finding.slack),
            "found": found.finding.explanation,
            "certificate": list(found.finding.certificate),
        },
        "seconds": one.seconds,
    }


def show(found: Sequence[MatrixRow]) -> None:
    """Print one table per policy and kind: property, result, smallest counterexample."""
    for line in found:
        if line.why:
            console.say(f"{line.policy} does not support {line.kind}: {line.why}")
            continue
        rows = [[one.about.key, one.text, _explanation(one)] for one in line.cells]
        title, head = f"{line.policy}, {line.kind}", ["property", "on instances", "meaning, or the counterexample"]
        console.show_table(title, head, rows, sentences=1, light=True)


def _explanation(one: MatrixCell) -> str:
    if one.counterexample is not None:
        return one.counterexample.finding.explanation
    return one.why or f"{one.about.statement}" + (f" ({one.proved})" if one.proved else "")


def markdown(found: Sequence[MatrixRow], effort: Effort) -> str:
    """The matrix as a page of the docs: a row per policy and kind, counterexamples below."""
    head = ["policy, about", *(one.title for one in PROPERTIES)]
    says = [f"- **{one.title}** ({one.key}): {one.statement}." for one in PROPERTIES]
    rows = [HEADING, *says, "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    judged = [line for line in found if not line.why]
    rows += ["| " + " | ".join([f"`{line.policy}`, {line.kind}", *map(_sign, line.cells)]) + " |" for line in judged]
    cells = [(f"`{line.policy}`, {line.kind}, {one.about.key}", one) for line in judged for one in line.cells]
    proved = [f"- {where}: `{one.proved}`." for where, one in cells if one.proved]
    found_cells = [
        f"- {where}: {_inline(one.counterexample.finding.explanation)}." for where, one in cells if one.counterexample
    ]
    refused = [f"- `{line.policy}` does not support {line.kind}: {_inline(line.why)}." for line in found if line.why]
    sections = {"Proved properties": proved, "Smallest counterexamples": found_cells, "Not judged": refused}
    for title, lines in sections.items():
        if lines:
            rows += ["", f"## {title}", "", *lines]
    return "\n".join([*rows, "", _effort(effort), ""])


def _effort(effort: Effort) -> str:
    search = f" then {effort.seconds:g} s of search," if effort.seconds else ""
    return (
        "Each cell was decided by the stored counterexamples, then "
        f"{effort.instances} drawn instances,{search} "
        f"and last the counterexamples to the other policies here; seed {effort.seed}. Instances that a policy "
        "refused, or on which its result could not be judged, are not counted."
    )


def _inline(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _sign(one: MatrixCell) -> str:
    if one.proved:
        return "proved"
    return f"{one.instances}{' °' * bool(one.tied)}" if one.holds else SIGNS[one.outcome]


def page(found: Sequence[MatrixRow], effort: Effort) -> str:
    """The matrix as an HTML page with pictures of the counterexamples."""
    title = "Which policy has which property"
    head = "".join(f"<th title='{escape(p.statement, quote=True)}'>{escape(p.title)}</th>" for p in PROPERTIES)
    rows, parts = [], []
    for line in found:
        if line.why:
            continue
        name = f"{line.policy}, {line.kind}"
        cells = "".join(f"<td>{escape(_sign(one))}</td>" for one in line.cells)
        rows.append(f"<tr><td><a href='#{escape(name)}'>{escape(name)}</a></td>{cells}</tr>")
        parts.append(
            f"<section id='{escape(name)}'><h3>{escape(name)}</h3>{''.join(map(_section, line.cells))}</section>"
        )
    says = "".join(f"<dt>{escape(one.title)}</dt><dd>{escape(one.statement)}</dd>" for one in PROPERTIES)
    return (
        "<!doctype html><html lang='en'><meta "
        f"charset='utf-8'><title>{title}</title><style>{STYLE}{LEDGER_STYLE}</style>"
        f"<h1>{title}</h1><p>A number: the property held on this number of instances, which is no proof. ✗: the "
        f"smallest counterexample is below. -: not judged. °: on other instances "
        f"it fails for the returned optimum, but may hold for another one.</p><dl>{says}</dl>"
        f"<table><tr><th>policy</th>{head}</tr>{''.join(rows)}</table>"
        f"{''.join(parts)}<p class='quiet'>{escape(_effort(effort))}</p></html>\n"
    )


def _section(one: MatrixCell) -> str:
    if one.counterexample is None:
        text = f"{one.about.title}: {one.text}" + (f"; {one.why}" if one.why else f" ({one.about.statement})")
        return f"<p class='quiet'>{escape(text)}</p>"
    found = one.counterexample.finding
    pictures = "".join(map(picture_svg, found.pictures))
    return (
        f"<p><b>{escape(one.about.title)}</b> fails ({escape(one.about.statement)}): {escape(found.explanation)}.</p>"
        f"<div class='pictures'>{pictures}</div>"
    )
