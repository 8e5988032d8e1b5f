"""Decide claims, one after another or in parallel."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from hetopt.checks import shown
from hetopt.parallel import run_parallel
from hetopt.proofs.ledger.claim import Claim, ClaimEvidence, ClaimVerdict, Effort, Known
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.kernel import decides
from hetopt.proofs.ledger.procedures import universal_part


@dataclass(frozen=True)
class DecidedClaim:
    """A claim and its evidence."""

    claim: Claim
    evidence: ClaimEvidence

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.evidence.verdict is self.claim.expected

    @property
    def label(self) -> str:
        """The verdict as text."""
        return self.claim.label_of(self.evidence.verdict)

    @property
    def known(self) -> Known:
        """How the verdict is known."""
        return how_known(self.claim, self.evidence)


def how_known(claim: Claim, evidence: ClaimEvidence) -> Known:
    """How the verdict on a claim is known."""
    if evidence.verdict is ClaimVerdict.UNTESTABLE:
        return Known.NOT
    if evidence.verdict is ClaimVerdict.OPEN:
        return Known.SEARCH
    if decides(claim.key, evidence.verdict is ClaimVerdict.FALSE):
        return Known.KERNEL
    if evidence.counterexample is not None or (evidence.values and not claim.proof):
        return Known.INSTANCE
    if claim.mechanical and evidence.checks and all(check.holds for check in evidence.checks):
        return Known.MECHANICAL
    return Known.PROSE if claim.proof else Known.INSTANCE


def decide(claim: Claim, effort: Effort) -> ClaimEvidence:
    """Decide one claim with this effort; if its code fails, the claim is open and the error is the summary."""
    try:
        found = claim.procedure.decide(claim, effort)
    except (Exception, SystemExit) as problem:  # the code of a claim may fail in any way
        last = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{last.filename.rpartition('/')[2]}, line {last.lineno}"
        return _undecided(f"{type(problem).__name__}: {problem} ({where})")
    try:
        return replace(found, verdict=ClaimVerdict(found.verdict))
    except ValueError:
        return _undecided(f"the verdict {shown(found.verdict)} is not one of {', '.join(ClaimVerdict)}")


def _undecided(problem: str) -> ClaimEvidence:
    return ClaimEvidence(ClaimVerdict.OPEN, f"could not be decided: {problem}")


def decide_all(claims: Sequence[Claim], effort: Effort, jobs: int = 1) -> Generator[DecidedClaim]:
    """Decide each claim, and yield the results in the order of completion.

    Parameters
    ----------
    jobs:
        Number of processes; with 1 everything runs in this process, as claims without an entry point require. Processes
        beyond the number of claims search with further seeds, and the smallest counterexample counts.
    """
    known = {claim.key: claim for claim in claims}
    copies = max(1, jobs // max(1, len(known))) if effort.seconds else 1
    registered = copies == 1 or all(key in all_claims() for key in known)
    if jobs <= 1 or not known or (len(known) == 1 and copies == 1) or not registered:
        for claim in claims:
            yield DecidedClaim(claim, decide(claim, effort))
        return
    tasks = [(key, replace(effort, seed=effort.seed + i)) for key in known for i in range(copies)]
    found: dict[str, list[ClaimEvidence]] = {}
    for (key, _), evidence in run_parallel(_decide_by_key, tasks, min(jobs, len(tasks))):
        found.setdefault(key, []).append(evidence)
        if len(found[key]) == copies:
            yield DecidedClaim(known[key], strongest(known[key], found[key]))


def strongest(claim: Claim, found: Sequence[ClaimEvidence]) -> ClaimEvidence:
    """The evidence with the smallest counterexample, or any; with the cases that all of them tried."""
    universal = universal_part(claim.procedure)

    def size(evidence: ClaimEvidence) -> tuple[int, ...]:
        case = evidence.counterexample
        return (1,) if case is None or universal is None else (0, *universal.space.weight(case.numbers))

    best = min(found, key=size)
    searched = sum(evidence.tried.get("searched", 0) for evidence in found)
    return replace(best, tried={**best.tried, "searched": searched} if searched else best.tried)


def _decide_by_key(key: str, effort: Effort) -> ClaimEvidence:
    """Decide a claim in a worker; the case is dropped, since its numbers determine it."""
    found = decide(all_claims()[key], effort)
    if found.counterexample is None:
        return found
    return replace(found, counterexample=replace(found.counterexample, case=None))
