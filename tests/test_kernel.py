"""Theorems in Coq: which claims they state, what they rest on, and that nothing weaker is accepted."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hetopt.cli.app import app
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.proofs.ledger import kernel
from hetopt.proofs.ledger.claim import QUICK, ClaimVerdict
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.kernel import KernelCheck, check_theorems
from hetopt.proofs.ledger.verification import DecidedClaim, decide

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed (apt-get install coq)")


def test_theorems_state_claims_of_the_ledger_and_their_verdicts() -> None:
    claims = all_claims()
    assert not [key for key in kernel.by_claim() if key not in claims]
    for theorem in kernel.theorems():
        verdict = ClaimVerdict.FALSE if theorem.refutes else ClaimVerdict.TRUE
        assert {claims[key].expected for key in theorem.claims} == {verdict}, theorem.name
        assert all(kernel.decides(key, theorem.refutes) for key in theorem.claims), theorem.name
    papers = {claims[key].paper for key in kernel.by_claim()}
    assert papers == {"OEF", "FFT", "Hadar", "A-SRPT"}
    assert len(kernel.by_claim()) >= 60


def test_definitions_and_statements_are_as_reviewed() -> None:
    """After an intended change: write ``kernel.statements()`` to the file, and review its difference."""
    locked = kernel.locked_statements()
    changed = difflib.unified_diff(locked.splitlines(), kernel.statements().splitlines(), "locked", "now", lineterm="")
    assert not "\n".join(changed)


def test_the_locked_text_has_what_gives_a_theorem_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions, hypotheses of sections, notations and transparent proofs are in it; lemmas and proofs are not."""
    before, sources = kernel.statements(), kernel.sources()
    file, text = next((file, text) for file, text in sources.items() if "Definition " in text and "(* Claim " in text)
    changes = {
        "a definition": text.replace("Definition ", "Definition odd := 0%nat.\nDefinition ", 1),
        "a hypothesis": f"{text}\nHypothesis odd : False.",
        "an axiom": f"{text}\nAxiom odd : False.",
        "the claims of a theorem": text.replace("(* Claim ", "(* Claim fft/eq-1, ", 1),
        "a transparent proof": f"{text}\nLemma odd : nat. Proof. exact 0. Defined.",
    }
    for what, changed in changes.items():
        monkeypatch.setattr(kernel, "sources", lambda changed=changed: sources | {file: changed})
        kernel.theorems.cache_clear()
        assert kernel.statements() != before, what
        monkeypatch.undo()
        kernel.theorems.cache_clear()
    monkeypatch.setattr(kernel, "sources", lambda: sources | {file: f"{text}\nLemma odd : 1 = 1. Proof. auto. Qed."})
    assert kernel.statements() == before


def test_how_a_claim_is_known() -> None:
    """By the kernel if it is stated there, and the verdict is true."""
    claims = dict(all_claims())
    claims["fft/packing-hard"] = replace(claims["fft/packing-hard"], mechanical=())
    known = {
        key: DecidedClaim(claims[key], decide(claims[key], QUICK)).known.value
        for key in (
            "oef/thm-5.1-sharing",
            "oef/thm-5.3",
            "oef/lemma-3.1-cooperative-three-types",
            "oef/thm-5.4-under",
            "fft/packing-hard",
        )
    }
    assert list(known.values()) == ["kernel-checked", "one instance", "search", "mechanical core", "prose"]


@needs_coq
def test_coq_accepts_all_theorems() -> None:
    checks = [result for result in check_theorems(kernel.theorems()) if isinstance(result, KernelCheck)]
    assert [check.theorem for check in checks] == list(kernel.theorems())
    assert not [(check.theorem.name, check.why) for check in checks if check.why]
    assert {axiom for check in checks for axiom in check.axioms} <= kernel.AXIOMS


HEAD = """From Coq Require Import Reals Lra.
From Hetopt Require Import Hypotheses.
"""
RIGHT = """
(* Claim oef/thm-5.1-sharing: a number above 0 is not 0. *)
Theorem above (x : R) : (0 < x)%R -> x <> 0%R.
Proof. intros; lra. Qed.
Example above_met : can_be_met above. Proof. intros H. apply (H 1%R). lra. Qed.
"""


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of its own in place of the theorems."""
    hypotheses = kernel.sources()["Hypotheses"]
    monkeypatch.setattr(kernel, "sources", lambda: {"Hypotheses": hypotheses, "Own": HEAD + request.param})
    monkeypatch.setattr(kernel, "locked_statements", kernel.statements)
    kernel.theorems.cache_clear()
    kernel.by_claim.cache_clear()
    yield
    monkeypatch.undo()
    kernel.theorems.cache_clear()
    kernel.by_claim.cache_clear()


WRONG = {
    "Admitted": RIGHT.replace("Proof. intros; lra. Qed.", "Proof. Admitted.").replace("lra. Qed.", "lra. Qed."),
    "axiom": "Axiom odd : 0%nat = 1%nat." + RIGHT.replace("intros; lra", "discriminate odd"),
    "false": RIGHT.replace("x <> 0%R", "x = 0%R"),
    "hypotheses cannot be met": RIGHT.replace("(0 < x)%R ->", "(0 < x)%R -> (x < 0)%R ->").replace("(H 1%R). lra", "H"),
    "no witness": RIGHT.split("Example", maxsplit=1)[0],
    "another witness": RIGHT.replace("can_be_met above", "True").replace("intros H. apply (H 1%R). lra", "exact I"),
    "an axiom with the name of a known one": "Module Classical_Prop. Axiom classic : 0%nat = 1%nat. End Classical_Prop."
    + RIGHT.replace("intros; lra", "discriminate Classical_Prop.classic"),
    "an axiom after an aborted lemma": "Lemma q : True. Proof. Abort. Axiom odd : 0%nat = 1%nat."
    + RIGHT.replace("intros; lra", "discriminate odd"),
    "a text hidden between strings": 'Ltac a := fresh "(*". Axiom odd : 0%nat = 1%nat. Ltac b := fresh "*)".'
    + RIGHT.replace("intros; lra", "discriminate odd"),
    "another meaning of can_be_met": "Notation \"'can_be_met' x\" := True (at level 0)."
    + RIGHT.replace("intros H. apply (H 1%R). lra", "exact I"),
    "a hypothesis after a let": RIGHT.replace("(0 < x)%R ->", "let y := x in (0 < y)%R -> (y < 0)%R ->").replace(
        "intros H. apply (H 1%R). lra", "intros H. exact (H 1%R)"
    ),
}


@needs_coq
@pytest.mark.parametrize("own", [RIGHT], indirect=True)
def test_a_right_theorem_is_accepted(own: None) -> None:
    (check,) = [result for result in check_theorems(kernel.theorems()) if isinstance(result, KernelCheck)]
    assert not check.why
    assert check.theorem.claims == ("oef/thm-5.1-sharing",)
    assert check.theorem.sentence == "a number above 0 is not 0."
    assert check.theorem.statement == "above (x : R) : (0 < x)%R -> x <> 0%R"
    found = CliRunner().invoke(app, words := ["verify", "oef/thm-5.1-sharing", "--kernel"])
    assert found.exit_code == 0
    assert "checked" in found.output
    (row,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert row["claims"] == ["oef/thm-5.1-sharing"]
    assert row["accepted"]


@needs_coq
@pytest.mark.parametrize("own", [RIGHT], indirect=True)
def test_another_statement_than_the_locked_one_is_not_accepted(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = kernel.statements().replace("<> 0", "> 0")
    monkeypatch.setattr(kernel, "locked_statements", lambda: locked)
    (check,) = [result for result in check_theorems(kernel.theorems()) if isinstance(result, KernelCheck)]
    assert "not those of statements.txt" in check.why


@needs_coq
@pytest.mark.parametrize("own", WRONG.values(), ids=WRONG, indirect=True)
def test_a_wrong_theorem_is_not_accepted(own: None) -> None:
    checks = [result for result in check_theorems(kernel.theorems()) if isinstance(result, KernelCheck)]
    assert all(check.why for check in checks)


PARTS = RIGHT.replace("thm-5.1-sharing", "thm-5.1-sharing (1 of 2)")
BOTH = PARTS + PARTS.replace("above", "over").replace("1 of 2", "2 of 2")


@pytest.mark.parametrize(("own", "all_parts"), [(RIGHT, True), (PARTS, False), (BOTH, True)], indirect=["own"])
def test_a_claim_is_stated_if_all_its_parts_are(own: None, all_parts: bool) -> None:
    assert kernel.decides("oef/thm-5.1-sharing", refuted=False) is all_parts
    assert not kernel.decides("oef/thm-5.1-sharing", refuted=True)
    assert not kernel.decides("oef/thm-5.4", refuted=False)


@pytest.mark.parametrize("own", [RIGHT.replace("Claim oef/thm-5.1-sharing", "Sharing")], indirect=True)
def test_a_theorem_must_name_its_claim(own: None) -> None:
    with pytest.raises(InvalidOption, match=r"Own\.v: the comment above theorem above names no claim"):
        kernel.theorems()


@pytest.mark.parametrize(
    ("name", "read"), [("Odd.v", kernel.sources.__wrapped__), ("statements.txt", kernel.locked_statements)]
)
def test_a_file_that_is_no_text_is_named(
    name: str, read: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coq").mkdir()
    (tmp_path / "coq" / name).write_bytes(b"\xe9")
    monkeypatch.setattr(kernel, "files", lambda _: tmp_path)
    with pytest.raises(UnusableFile, match=f"{name}: cannot be read"):
        read()


def test_without_coq_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InvalidOption, match="apt-get install coq"):
        next(check_theorems(kernel.theorems()))
