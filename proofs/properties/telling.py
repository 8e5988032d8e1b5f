"""Policies against properties, as a table in the terminal, as Markdown, as a page and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hetopt import console
from hetopt.proofs.ledger.claim import Effort, number
from hetopt.proofs.ledger.page import MORE
from hetopt.proofs.ledger.stored import slug
from hetopt.proofs.ledger.svg import drawn
from hetopt.proofs.properties.checks import PROPERTIES
from hetopt.proofs.properties.matrix import Cell, Line
from hetopt.report import STYLE

HEADING = """# Which policy has which property

Made by `hetopt verify --policy all --markdown property-matrix.md`. A number: the property held on so many instances,
which proves nothing. *proved*: by the ledger. ✗: there is a counterexample, below. -: not judged. Tenants are judged by
speedups relative to their slowest type; jobs by work per second on average over time, for the decision of one round.
"""

SIGNS = {"fails": "✗", "-": "-"}


def as_dict(line: Line) -> dict[str, Any]:
    """Plain numbers and text of one policy."""
    return {
        "policy": line.policy,
        "about": line.kind,
        "refuses": line.why or None,
        "properties": {one.about.key: _cell(one) for one in line.cells},
    }


def _cell(one: Cell) -> dict[str, Any]:
    found = one.counterexample
    return {
        "says": one.about.statement,
        "holds": one.holds,
        "instances": one.instances,
        "refused": one.refused,
        "searched": one.searched,
        "proved": one.proved or None,
        "why": one.why or None,
        "counterexample": None
        if found is None
        else {
            "numbers": found.numbers.as_dict(),
            "slack": number(found.finding.slack),
            "found": found.finding.words,
            "certificate": list(found.finding.certificate),
        },
        "seconds": one.seconds,
    }


def show(found: Sequence[Line]) -> None:
    """One table per policy and kind: property, what came out, the smallest counterexample."""
    for line in found:
        if line.why:
            console.say(f"{line.policy} is not about {line.kind}: {line.why}")
            continue
        rows = []
        for one in line.cells:
            told = "" if one.counterexample is None else one.counterexample.finding.words
            rows.append([one.about.key, one.text, told or (one.why if one.holds is None else one.about.statement)])
        title = f"{line.policy}, {line.kind}"
        console.show_table(
            title, ["property", "on instances", "smallest counterexample"], rows, sentences=1, light=True
        )


def markdown(found: Sequence[Line], effort: Effort) -> str:
    """The matrix as a page of the docs: a row per policy and kind; counterexamples below."""
    head = ["policy", "about", *(one.title for one in PROPERTIES)]
    rows = [HEADING, "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in found:
        if not line.why:
            cells = [_sign(one) for one in line.cells]
            rows.append("| " + " | ".join([f"`{line.policy}`", line.kind, *cells]) + " |")
    refused = [f"- `{line.policy}` is not about {line.kind}: {_inline(line.why)}." for line in found if line.why]
    told = [
        f"- `{line.policy}`, {line.kind}, {one.about.key}: {_inline(one.counterexample.finding.words)}."
        for line in found
        for one in line.cells
        if one.counterexample is not None
    ]
    how = f"{effort.instances} instances for every cell, then {effort.seconds:g} s of search, seed {effort.seed}."
    nothing = ["", "## What is not judged", *refused] if refused else []
    return "\n".join([*rows, "", how, "", "## The smallest counterexamples", *told, *nothing, ""])


def _inline(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _sign(one: Cell) -> str:
    if one.holds:
        return f"[proved](#{slug(one.proved)})" if one.proved else str(one.instances)
    return SIGNS[one.text]


def page(found: Sequence[Line], effort: Effort) -> str:
    """The matrix with the counterexamples drawn."""
    title = "Which policy has which property"
    head = "".join(f"<th title='{escape(p.statement, quote=True)}'>{escape(p.title)}</th>" for p in PROPERTIES)
    rows, parts = [], []
    for line in found:
        if line.why:
            continue
        name = f"{line.policy}, {line.kind}"
        cells = "".join(f"<td>{escape(_badge(one))}</td>" for one in line.cells)
        rows.append(f"<tr><td><a href='#{escape(name)}'>{escape(name)}</a></td>{cells}</tr>")
        parts.append(
            f"<section id='{escape(name)}'><h3>{escape(name)}</h3>{''.join(map(_section, line.cells))}</section>"
        )
    how = f"{effort.instances} instances for every cell, {effort.seconds:g} s of search, seed {effort.seed}"
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{STYLE}{MORE}</style>"
        f"<h1>{title}</h1><p>A number: it held on so many instances, which proves nothing. ✗: the smallest "
        f"counterexample is below. -: not judged.</p><table><tr><th>policy</th>{head}</tr>{''.join(rows)}</table>"
        f"{''.join(parts)}<p class='quiet'>{escape(how)}.</p></html>\n"
    )


def _badge(one: Cell) -> str:
    return "proved" if one.proved else str(one.instances) if one.holds else SIGNS[one.text]


def _section(one: Cell) -> str:
    if one.counterexample is None:
        told = f"{one.about.title}: {one.text}" + (f"; {one.why}" if one.why else "")
        return f"<p class='quiet'>{escape(told)}</p>"
    found = one.counterexample.finding
    pictures = "".join(map(drawn, found.pictures))
    return (
        f"<p><b>{escape(one.about.title)}</b> fails ({escape(one.about.statement)}): {escape(found.words)}.</p>"
        f"<div class='pictures'>{pictures}</div>"
    )
