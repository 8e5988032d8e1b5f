"""Generate the pages of claims from the ledger when the docs are built."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture
from hetopt.proofs.ledger.claim import PAPERS, Claim, Counterexample, Effort
from hetopt.proofs.ledger.claim_text import as_markdown
from hetopt.proofs.ledger.counterexample_files import slug, stored_names
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.finding_drawings import draw_finding, drawings
from hetopt.proofs.ledger.procedures import ByComputation, Growth, Untestable, universal_part

INTRODUCTION = """# {title}

Every claim, the verdict that `hetopt verify` reaches, and its reason. *True, corrected*: a corrected version, usually
the strongest true one. Counterexamples are stored as named instances; `hetopt verify '{paper}*'` decides all claims of
this page again.

| claim | place | verdict |
|---|---|---|
"""


def write(app: Sphinx) -> None:
    """Write a page per paper into ``theory/``."""
    folder = Path(app.srcdir) / "theory"
    every = all_claims()
    for key, paper in PAPERS.items():
        own = [claim for claim in every.values() if claim.paper == paper.name]
        head = INTRODUCTION.format(title=f"Claims of {paper.heading}", paper=f"{key}/")
        rows = [f"| [{claim.key}](#{slug(claim.key)}) | {claim.place} | {claim.label} |" for claim in own]
        text = head + "\n".join(rows) + "\n\n" + "\n".join(section(claim) for claim in own)
        page = folder / f"claims-{slug(paper.name.lower())}.md"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def section(claim: Claim) -> str:
    """The section of one claim."""
    origin = "" if claim.printed else " Not printed in the paper."
    parts = [
        f"({slug(claim.key)})=",
        f"## {claim.key}: {claim.label}",
        f"*{claim.place}.*{origin} {as_markdown(claim.statement)}",
    ]
    if claim.note:
        parts.append(as_markdown(claim.note))
    if (found := stored(claim)) is not None:
        parts.append(f"{as_markdown(found.finding.explanation)} (`{found.name}`).")
        parts.append(pictures(map(draw_finding, found.finding.pictures)))
    if isinstance(claim.procedure, (ByComputation, Growth, Untestable)):
        there = claim.procedure.decide(claim, Effort(mechanical=False))
        parts.append(f"{as_markdown(there.summary.removesuffix('.'))}.")
        parts.append(pictures(drawings(there)))
    if claim.instead:
        parts.append(f"What holds instead: [{claim.instead}](#{slug(claim.instead)}).")
    if claim.proof:
        parts.append(f"**Proof.** {as_markdown(claim.proof)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def pictures(drawn: Iterable[Picture]) -> str:
    """Pictures side by side; empty if there are none."""
    return render("pictures.md.j2", package="hetopt.proofs.ledger", pictures=list(drawn))


def stored(claim: Claim) -> Counterexample | None:
    """The smallest stored counterexample or example."""
    universal = universal_part(claim.procedure)
    names = stored_names(claim.key)
    if universal is None or not names:
        return None
    return min(map(universal.recheck, names), key=lambda found: universal.space.weight(found.numbers))


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
