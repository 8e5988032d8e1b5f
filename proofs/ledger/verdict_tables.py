"""Verdicts as tables and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import Claim, ClaimEvidence
from hetopt.proofs.ledger.verification import DecidedClaim


def verdict_table(decided: Sequence[DecidedClaim]) -> pd.DataFrame:
    """A row per claim: paper, place, key, verdict, whether it is as expected, evidence in a line, seconds."""
    rows = [
        (
            d.claim.paper,
            d.claim.place,
            d.claim.key,
            d.claim.label_of(d.evidence.verdict),
            d.as_expected,
            d.evidence.summary,
            d.evidence.seconds,
        )
        for d in decided
    ]
    columns = ["paper", "place", "claim", "verdict", "as expected", "evidence", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def claim_as_dict(decided: DecidedClaim) -> dict[str, Any]:
    """A claim and its evidence as plain data for JSON, with fractions as text."""
    claim, evidence = decided.claim, decided.evidence
    return {
        "claim": claim.key,
        "paper": claim.paper,
        "place": claim.place,
        "statement": claim.statement,
        "printed": claim.printed,
        "policies": list(claim.policies or ()),
        "verdict": evidence.verdict.value,
        "expected": claim.expected.value,
        "label": claim.label_of(evidence.verdict),
        "instead": claim.instead or None,
        "note": claim.note or None,
        "proof": claim.proof.strip() or None,
        **_evidence(evidence),
    }


def _evidence(evidence: ClaimEvidence) -> dict[str, Any]:
    found, curve, tight = evidence.counterexample, evidence.curve, evidence.tightness
    return {
        "evidence": evidence.summary,
        "tried": dict(evidence.tried),
        "counterexample": None
        if found is None
        else {
            "stored": found.name or None,
            "numbers": found.numbers.as_dict(),
            "slack": number_text(found.finding.slack),
            "found": found.finding.explanation,
            "certificate": list(found.finding.certificate),
        },
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


def expected_verdicts(claims: Sequence[Claim]) -> pd.DataFrame:
    """A row per claim: paper, place, key, expected verdict."""
    rows = [(claim.paper, claim.place, claim.key, claim.label) for claim in claims]
    return pd.DataFrame(rows, columns=["paper", "place", "claim", "expected"])
