"""The ledger in the docs: a page of claims for each paper, and the directive ``ledger-overview`` with the counts."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hetopt.presentation.formatting import slug
from hetopt.presentation.pages import fragment
from hetopt.proofs.ledger.claim import PAPERS, QUICK
from hetopt.proofs.ledger.counterexample_search import temporary_hypothesis_folder
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.ledger_output import by_paper, claims_html, overview, totals
from hetopt.proofs.ledger.verification import DecidedClaim, decide_all

PAGE = """# Claims of {heading}

{totals}. A further claim is a correction or refinement that the paper does not print; "true, corrected" is a true one.
`hetopt verify '{key}/*'` decides all claims of this page again.

```{{raw}} html
<div class="hetopt">
{claims}
</div>
```
"""


@cache
def decided() -> list[DecidedClaim]:
    """All claims as ``hetopt verify --quick`` decides them."""
    claims = all_claims()
    with temporary_hypothesis_folder():
        found = {one.claim.key: one for one in decide_all(list(claims.values()), QUICK, os.cpu_count() or 1)}
    return [found[key] for key in claims]


def page(key: str, own: list[DecidedClaim]) -> str:
    """The page of a paper with these claims."""
    claims = claims_html(own)
    return PAGE.format(heading=PAPERS[key].heading, totals=totals(own).capitalize(), key=key, claims=claims)


def write(app: Sphinx) -> None:
    """Write a page per paper into ``theory/``."""
    papers = by_paper(decided())
    for key, paper in PAPERS.items():
        path, text = Path(app.srcdir) / f"theory/claims-{slug(paper.name.lower())}.md", page(key, papers[paper.name])
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


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
