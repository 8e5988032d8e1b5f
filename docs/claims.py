"""The ledger in the docs: pages of claims, of errata and of theorems in Coq, and the directive ``ledger-overview``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from joblib import cpu_count
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from hetopt.presentation.formatting import slug
from hetopt.presentation.pages import fragment
from hetopt.proofs.ledger.claim import PAPERS, QUICK, Claim, ClaimVerdict
from hetopt.proofs.ledger.claim_text import as_markdown
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.kernel import KernelTheorem, theorems
from hetopt.proofs.ledger.ledger_output import (
    all_claims_table,
    by_paper,
    claims_html,
    errata_html,
    failures,
    overview,
    totals,
)
from hetopt.proofs.ledger.verification import DecidedClaim, decide_all

FURTHER = (
    'A further claim is a correction or refinement that the paper does not print; "true, corrected" is a true one.'
)

PAGE = """# Claims of {heading}

{totals}. {about}
`hetopt verify '{key}/*'` decides all claims of this page again.

```{{raw}} html
<div class="hetopt">
{claims}
</div>
```
"""

ALL = """# All claims

Every claim with its verdict and with what it is known by, to sort and to filter by paper, verdict and kind of proof.

- **kernel-checked**: Coq's kernel checks a proof of the statement, see [Theorems in Coq](theorems.md).
- **mechanical core**: a written proof, whose algebra z3 or sympy decides.
- **prose**: a written proof.
- **one instance**: a counterexample, a worked example or a printed number, computed in fractions.
- **search**: no proof; cases that were drawn and searched are evidence only.

```{{raw}} html
<div class="hetopt">
{table}
</div>
```
"""

ERRATA = """# What the four papers should say

{count} statements and numbers that the papers print are false. This page quotes them, says why they fail, and gives the
strongest version that is known to hold. Claims that hold as printed are not listed.

```{{raw}} html
<div class="hetopt">
{errata}
</div>
```
"""

THEOREMS = """# Theorems in Coq

{intro}

{theorems}
"""


@cache
def decided() -> list[DecidedClaim]:
    """All claims as ``hetopt verify --quick`` decides them."""
    claims = all_claims()
    found = {one.claim.key: one for one in decide_all(list(claims.values()), QUICK, cpu_count())}
    return [found[key] for key in claims]


def page(key: str, own: list[DecidedClaim]) -> str:
    """The page of a paper with these claims."""
    about = FURTHER if any(one.claim.printed for one in own) else f"{PAPERS[key].reference}."
    return PAGE.format(
        heading=PAPERS[key].heading, totals=totals(own).capitalize(), about=about, key=key, claims=claims_html(own)
    )


def write(app: Sphinx) -> None:
    """Write the generated pages into ``theory/``; warn of verdicts that are not the expected ones."""
    for failure in failures(decided()):
        logging.getLogger(__name__).warning(failure)
    papers, folder = by_paper(decided()), Path(app.srcdir) / "theory"
    pages = {f"claims-{slug(paper.name.lower())}": page(key, papers[paper.name]) for key, paper in PAPERS.items()}
    wrong = [one for one in decided() if one.claim.printed and one.evidence.verdict is ClaimVerdict.FALSE]
    table = fragment("table", all_claims_table(decided(), link))
    pages |= {
        "all-claims": ALL.format(table=table),
        "errata": ERRATA.format(count=len(wrong), errata=errata_html(decided(), link)),
        "theorems": theorems_page((folder / "theorems-intro.txt").read_text()),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def link(claim: Claim) -> str:
    """The address of a claim, from another page of the theory."""
    return f"claims-{slug(claim.paper.lower())}.html#{slug(claim.key)}"


def theorem_text(theorem: KernelTheorem) -> str:
    """A theorem in Markdown: its claims, its sentence and its statement."""
    claims = ", ".join(
        f'<a href="{link(all_claims()[key])}">{key}</a>' + (f", part {part} of {parts}" if parts > 1 else "")
        for key, (part, parts) in zip(theorem.claims, theorem.parts, strict=True)
    )
    refutes = "refutes " if theorem.refutes else ""
    sentence = theorem.sentence[0].upper() + theorem.sentence[1:]
    heading = f"**{theorem.name}** ({refutes}{claims}). {as_markdown(sentence)}"
    return f"{heading}\n\n```coq\nTheorem {theorem.statement}.\n```\n"


def theorems_page(intro: str) -> str:
    """The page of theorems, file by file."""
    parts = []
    for file in dict.fromkeys(theorem.file for theorem in theorems()):
        own = [theorem for theorem in theorems() if theorem.file == file]
        whole = f'Whole, with definitions and proofs: <a href="../_static/{file}.v">{file}.v</a>.'
        parts.append(f"## {file}.v\n\n{whole}\n\n" + "\n".join(map(theorem_text, own)))
    return THEOREMS.format(intro=intro, theorems="\n".join(parts))


class Overview(SphinxDirective):
    """The number of claims with each verdict."""

    def run(self) -> list[nodes.Node]:
        """The table, with links to the pages of claims."""
        return [nodes.raw("", fragment("table", overview(decided(), "claims-{}.html")), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", write)
    app.add_directive("ledger-overview", Overview)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
