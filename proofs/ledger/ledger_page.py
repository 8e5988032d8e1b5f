"""The ledger as one page: verdicts, proofs, and pictures of counterexamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetopt.data.rationals import number_text
from hetopt.presentation.console import versions
from hetopt.presentation.pages import render
from hetopt.proofs.ledger.claim import HEADINGS, Claim, Effort
from hetopt.proofs.ledger.claim_text import as_html, paragraphs
from hetopt.proofs.ledger.counterexample_files import slug
from hetopt.proofs.ledger.finding_drawings import drawings
from hetopt.proofs.ledger.verdict_tables import by_verdict, overview, values_table, verdict_cell, verdicts
from hetopt.proofs.ledger.verification import DecidedClaim


def ledger_page(decided: Sequence[DecidedClaim], every: Mapping[str, Claim], effort: Effort, seconds: float) -> str:
    """The page as HTML.

    Parameters
    ----------
    every:
        Key -> claim, of all claims.
    seconds:
        Time that the decisions took.
    """
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
