"""Many claims, decided side by side."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from typing import get_args

from hetopt.checks import shown
from hetopt.proofs.ledger.claim import Claim, ClaimEvidence, ClaimVerdict, Effort
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.worker_pool import worker_pool


@dataclass(frozen=True)
class DecidedClaim:
    """A claim and what is known of it."""

    claim: Claim
    evidence: ClaimEvidence

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one that the ledger stands for."""
        return self.evidence.verdict == self.claim.expected


def decide(claim: Claim, effort: Effort) -> ClaimEvidence:
    """What is known of one claim after so much effort; an error in its code leaves it open, and says so."""
    try:
        found = claim.means.decide(claim, effort)
    except (Exception, SystemExit) as problem:  # whatever the code of somebody else's claim does
        last = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{last.filename.rpartition('/')[2]}, line {last.lineno}"
        return ClaimEvidence("open", f"could not be decided: {type(problem).__name__}: {problem} ({where})")
    if found.verdict not in get_args(ClaimVerdict):
        words = ", ".join(get_args(ClaimVerdict))
        return ClaimEvidence("open", f"could not be decided: the verdict {shown(found.verdict)} is none of {words}")
    return found


def decide_all(claims: Sequence[Claim], effort: Effort, jobs: int = 1) -> Iterator[DecidedClaim]:
    """Each claim and its evidence, in the order in which they are done.

    Parameters
    ----------
    jobs:
        Processes; with 1 everything runs in this one. Claims that no package announces need 1.
    """
    if jobs <= 1 or len(claims) <= 1:
        for claim in claims:
            yield DecidedClaim(claim, decide(claim, effort))
        return
    known = {claim.key: claim for claim in claims}
    with worker_pool(min(jobs, len(claims))) as pool:
        running = {pool.submit(_by_key, key, effort): key for key in known}
        for done in as_completed(running):
            yield DecidedClaim(known[running[done]], done.result())


def _by_key(key: str, effort: Effort) -> ClaimEvidence:
    """For a process of its own; cases stay behind, their numbers tell all."""
    found = decide(all_claims()[key], effort)
    if found.counterexample is None:
        return found
    return replace(found, counterexample=replace(found.counterexample, case=None))
