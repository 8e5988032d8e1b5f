"""Attack true claims by adversaries that share no code with their checkers, and report what they cannot see."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from hetopt.parallel import run_parallel
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.tolerances import EQUAL

PAPERS = ("oef", "fft", "hadar", "asrpt", "fair_sojourn")
"""Modules of :mod:`hetopt.proofs.adversaries`."""

TEN_MINUTES = 600.0
"""Seconds that all true claims share by default."""


@dataclass(frozen=True)
class Adversary:
    """A second way to decide the cases of a claim.

    Attributes
    ----------
    method:
        How it computes the slack, e.g. "brute force over plans" or "second formulation, solved by HiGHS".
    slack:
        The slack of a case, exact or in floats, below 0 if the conclusion fails.
    blind:
        What it cannot see, and why; empty if it decides the whole conclusion.
    tolerance:
        Slacks from minus this on count as 0; 0 for exact adversaries.
    """

    method: str
    slack: Callable[[Any], Any]
    blind: str = ""
    tolerance: float = EQUAL


@dataclass(frozen=True)
class Attack:
    """The result of an attack on a claim.

    Attributes
    ----------
    key:
        Key of the claim.
    cases:
        Number of cases that the adversary decided.
    violated:
        The first case in which the conclusion fails according to the adversary, as text; empty if there is none.
    disputed:
        The first case in which only one of adversary and checker refutes the claim, or one of them fails, as text;
        empty if there is none.
    why:
        Why the claim was not attacked.
    """

    key: str
    method: str = ""
    cases: int = 0
    violated: str = ""
    disputed: str = ""
    blind: str = ""
    why: str = ""
    seconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether the adversary found a problem."""
        return bool(self.violated or self.disputed)

    @property
    def outcome(self) -> str:
        """The result as text."""
        return self.disputed or self.violated or self.why or "stands"


@cache
def adversaries() -> dict[str, Adversary]:
    """Key of a claim -> its adversary."""
    found: dict[str, Adversary] = {}
    for paper in PAPERS:
        found |= import_module(f"hetopt.proofs.adversaries.{paper}").ADVERSARIES
    return found


def attack(claim: Claim, seconds: float, seed: int = 0) -> Attack:
    """Let the adversary of a claim decide random and structured cases for ``seconds``, and compare the checker."""
    procedure, adversary = claim.procedure, adversaries().get(claim.key)
    if claim.expected is not ClaimVerdict.TRUE:
        return Attack(claim.key, why="not a true claim")
    if not isinstance(procedure, ForAll):
        return Attack(claim.key, why="about one instance or a family, not about all cases")
    if adversary is None:
        return Attack(claim.key, why="no adversary")
    began, cases = time.perf_counter(), 0
    for numbers in procedure.space.draws(random.Random(seed)):
        if (spent := time.perf_counter() - began) > seconds:
            break
        case = procedure.space.case(numbers)
        if case is None:
            continue
        cases += 1
        try:
            slack, checked = float(adversary.slack(case)), procedure.judge(case)
        except ImportError:
            raise
        except Exception as problem:  # whatever the code of an adversary or a claim raises
            text = f"{numbers.as_dict()}: {type(problem).__name__}: {problem}"
            return Attack(claim.key, adversary.method, cases, disputed=text, blind=adversary.blind, seconds=spent)
        fails = slack < -adversary.tolerance
        if fails or checked.refutes:
            text = f"{numbers.as_dict()}: slack {slack:.6g} by {adversary.method}, {checked.slack} by the checker"
            only_one = fails != checked.refutes
            found = {"disputed" if only_one else "violated": text}
            return Attack(claim.key, adversary.method, cases, blind=adversary.blind, seconds=spent, **found)
    return Attack(claim.key, adversary.method, cases, blind=adversary.blind, seconds=seconds)


def attack_all(
    claims: Sequence[Claim], seconds: float | None = None, seed: int = 0, jobs: int = 1
) -> Generator[Attack]:
    """Attack each claim for an equal share of ``seconds`` (default: ten minutes), in ``jobs`` processes."""
    known = adversaries()
    total = TEN_MINUTES if seconds is None else seconds
    share = total / max(1, sum(claim.key in known for claim in claims))
    tasks = [(claim.key, share, seed) for claim in claims]
    for _, result in run_parallel(_attack_by_key, tasks, min(jobs, max(1, len(tasks)))):
        yield result


def _attack_by_key(key: str, seconds: float, seed: int) -> Attack:
    return attack(all_claims()[key], seconds, seed)


def attack_as_dict(found: Attack) -> dict[str, Any]:
    """An attack as plain data for JSON."""
    values = {name: value for name, value in vars(found).items() if name != "key"}
    return {"claim": found.key, **values, "outcome": found.outcome}
