"""Attacks on true claims: an adversary that finds a violation, or disputes the checker, is reported."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from adversary_cases import some_cases
from ledger_cases import stored_case

from hetopt.proofs.ledger import attack as attacks
from hetopt.proofs.ledger.attack import Adversary, attack
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll
from hetopt.proofs.ledger.space import Space, TableShape, integers

F = Fraction
SPACE = Space({"n": (1, 3)}, {"a": TableShape(1, "n", integers(1, 9))}, lambda numbers: numbers.row("a"))


def claim(most: int) -> Claim:
    """The sum is at most ``most``, as the checker decides it; the largest sum is 27."""
    return Claim(
        "oef/of-the-test",
        "a test",
        f"sum <= {most}",
        ForAll(SPACE, lambda case: Finding(F(most - sum(case)), "")),
        ClaimVerdict.TRUE,
        proof="x",
    )


def adversary(monkeypatch: pytest.MonkeyPatch, most: int, blind: str = "") -> None:
    """Let an adversary decide whether the sum is at most ``most``."""
    own = Adversary("adding up", lambda case: most - float(sum(case)), blind)
    monkeypatch.setattr(attacks, "adversaries", lambda: {"oef/of-the-test": own})


def test_what_holds_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    adversary(monkeypatch, 27, "sums above 27")
    found = attack(claim(27), 0.2)
    assert (found.outcome, found.blind, found.method) == ("stands", "sums above 27", "adding up")
    assert not found.succeeded
    assert found.cases


def test_a_violation_that_the_checker_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    adversary(monkeypatch, 20)
    found = attack(claim(20), 60)
    assert found.violated
    assert not found.disputed
    assert "by adding up" in found.outcome


@pytest.mark.parametrize(("theirs", "ours"), [(20, 27), (27, 20)])
def test_a_dispute_in_either_direction(monkeypatch: pytest.MonkeyPatch, theirs: int, ours: int) -> None:
    adversary(monkeypatch, theirs)
    found = attack(claim(ours), 60)
    assert found.disputed
    assert not found.violated
    assert found.succeeded


def test_a_checker_that_refutes_disputes_a_slack_near_0(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Adversary("adding up", lambda _: 0)
    monkeypatch.setattr(attacks, "adversaries", lambda: {"oef/of-the-test": own})
    assert attack(claim(20), 60).disputed


def test_an_adversary_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Adversary("dividing", lambda case: 1 // (sum(case) - 1))
    monkeypatch.setattr(attacks, "adversaries", lambda: {"oef/of-the-test": own})
    found = attack(claim(27), 60)
    assert "ZeroDivisionError" in found.disputed
    assert found.succeeded


def test_what_is_not_attacked_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    adversary(monkeypatch, 27)
    false = replace(claim(27), expected=ClaimVerdict.FALSE)
    one = replace(claim(27), procedure=ByComputation(lambda: Computation(())))
    other = replace(claim(27), key="oef/another")
    whys = [attack(this, 0.1).why for this in (false, one, other)]
    assert whys == ["not a true claim", "about one instance or a family, not about all cases", "no adversary"]


def test_adversaries_are_of_true_claims_about_all_cases() -> None:
    claims = all_claims()
    for key in attacks.adversaries():
        assert claims[key].expected is ClaimVerdict.TRUE, key
        assert isinstance(claims[key].procedure, ForAll), key


def test_every_true_claim_about_all_cases_has_an_adversary() -> None:
    for key, claim in all_claims().items():
        if claim.expected is ClaimVerdict.TRUE and isinstance(claim.procedure, ForAll):
            assert key in attacks.adversaries()


@pytest.mark.parametrize("key", attacks.adversaries())
def test_true_claims_stand(key: str) -> None:
    """By the adversary; that it finds what is false: ``test_adversaries_*``."""
    pytest.importorskip("z3")
    adversary = attacks.adversaries()[key]
    for case in some_cases(key, 10):
        assert adversary.slack(case) >= -adversary.tolerance, case


@pytest.mark.parametrize(
    ("key", "false"),
    [
        ("oef/table-1-noncooperative-lies", "oef/thm-5.4-slowest"),
        ("oef/lemma-3.1-ratio", "oef/lemma-3.1"),
        ("oef/lemma-3.1-cooperative-two", "oef/lemma-3.1-cooperative"),
        ("oef/lemma-3.1-cooperative-three", "oef/lemma-3.1-cooperative-more"),
        ("oef/lemma-3.1-cooperative-two-types", "oef/lemma-3.1-cooperative"),
        ("oef/lemma-3.1-sharing-ratio", "oef/lemma-3.1-sharing"),
        ("oef/thm-5.2-ratio", "oef/thm-5.2"),
        ("oef/thm-5.2-ratio", "oef/thm-5.2-ties"),
        ("oef/thm-5.2-sorted", "oef/thm-5.2"),
        ("oef/thm-5.2-cooperative-two", "oef/thm-5.2-cooperative"),
        ("oef/thm-5.4-over", "oef/thm-5.4"),
        ("oef/thm-5.4-first-type", "oef/thm-5.4"),
        ("oef/thm-5.4-trades", "oef/thm-5.4"),
        ("oef/false-types-over", "oef/false-types"),
        ("oef/thm-5.3-positive", "oef/thm-5.3"),
        ("oef/thm-5.3-cooperative-two", "oef/thm-5.3-cooperative"),
        ("oef/thm-5.3-cooperative-three", "oef/thm-5.3-cooperative-two-types"),
        ("fft/age-term-equal", "fft/age-term"),
        ("fft/eq-3-service", "fft/eq-3-shorter"),
        ("fft/eq-3-service", "fft/eq-3-faster"),
        ("fft/tau-equal-gangs", "fft/tau"),
        ("fft/tau-one-gpu-jobs", "fft/tau-fastest"),
        ("fft/tau-one-gpu-jobs", "fft/tau-fastest-one-type"),
        ("fft/eq-7-powers", "fft/eq-7"),
        ("fft/largest-first-powers", "fft/largest-first"),
        ("asrpt/larger-later-together", "asrpt/larger-later"),
        ("asrpt/alpha-max-fast-inside", "asrpt/alpha-max"),
        ("asrpt/alpha-order", "asrpt/alpha-max"),
        ("asrpt/alpha-one-server", "asrpt/alpha-tilde"),
        ("asrpt/lemma-1-continuous", "asrpt/lemma-1-slow-inside"),
        ("asrpt/lemma-2-continuous", "asrpt/lemma-2-slow-inside"),
        ("asrpt/eq-12", "asrpt/lemma-2-slow-inside"),
        ("asrpt/lemma-3-continuous", "asrpt/lemma-3-slow-inside"),
        ("asrpt/error-seconds", "asrpt/lemma-3-slow-inside"),
        ("asrpt/thm-1-continuous", "asrpt/thm-1-short-jobs"),
        ("asrpt/thm-1-continuous", "asrpt/thm-1-slow-inside"),
        ("asrpt/thm-1-strict", "asrpt/thm-1-short-jobs"),
        ("asrpt/lemma-2-all-slots", "asrpt/lemma-2-slow-inside"),
    ],
)
def test_counterexamples_of_related_claims_are_found(key: str, false: str) -> None:
    pytest.importorskip("z3")
    assert attacks.adversaries()[key].slack(stored_case(false)) < 0
