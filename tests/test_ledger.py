"""The ledger itself: how verdicts come about, what claims must have, what is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hetopt import Instance, instances
from hetopt.data.instance import read
from hetopt.errors import InvalidInstance, InvalidOption, UnknownName, UnusableFile
from hetopt.plugins import CLAIMS
from hetopt.presentation.formatting import slug
from hetopt.proofs.ledger import counterexample_files
from hetopt.proofs.ledger.claim import (
    PAPERS,
    QUICK,
    Claim,
    ClaimEvidence,
    ClaimVerdict,
    Counterexample,
    Effort,
    Finding,
    ProofCheck,
)
from hetopt.proofs.ledger.counterexample_files import instance_of, store_counterexample, stored_names
from hetopt.proofs.ledger.discovery import all_claims, select_claims
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import (
    ByComputation,
    Computation,
    Exists,
    ForAll,
    Growth,
    Untestable,
    compare_number,
    compare_values,
    rounds_to,
)
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, integers
from hetopt.proofs.ledger.verification import decide, decide_all, strongest
from hetopt.proofs.properties import property_matrix
from hetopt.proofs.properties.property_matrix import known_counterexamples

F = Fraction
pytestmark = pytest.mark.usefixtures("counted_time")

EVERY = list(all_claims().values())
SPACE = Space({"n": (1, 3)}, {"a": TableShape(1, "n", integers(1, 9))}, lambda n: n.row("a"))
FAST = Effort(instances=30, seconds=0.5)


def claim(procedure: Any, **more: Any) -> Claim:
    given: dict[str, Any] = {
        "key": "toy/claim",
        "paper": "Toy",
        "place": "Lemma 1",
        "statement": "x",
        "expected": ClaimVerdict.OPEN,
    }
    return Claim(procedure=procedure, **(given | more))


def at_most(limit: int) -> ForAll[tuple[F, ...]]:
    return ForAll(SPACE, lambda case: Finding(F(limit - sum(case)), f"the sum is {sum(case)}"))


# -- verdicts --------------------------------------------------------------------------------------------------------


def test_a_counterexample_makes_a_claim_false_and_is_made_small() -> None:
    found = decide(claim(at_most(7)), FAST)
    assert found.verdict is ClaimVerdict.FALSE
    assert found.counterexample is not None
    assert sum(found.counterexample.case) == 8
    assert "the sum is 8" in found.summary


def test_without_a_proof_nothing_is_true() -> None:
    assert decide(claim(at_most(27)), FAST).verdict is ClaimVerdict.OPEN
    assert decide(claim(at_most(27), proof="Three numbers of at most 9."), FAST).verdict is ClaimVerdict.TRUE


def test_a_proof_does_not_help_against_a_counterexample() -> None:
    found = decide(claim(at_most(7), proof="Nonsense."), FAST)
    assert found.verdict is ClaimVerdict.FALSE
    assert "the written proof must be wrong" in found.summary


def test_a_mechanical_part_that_fails_leaves_the_claim_open() -> None:
    good, bad = (lambda: ProofCheck("good", True)), (lambda: ProofCheck("bad", False, why="1 = 2"))
    assert decide(claim(at_most(27), proof="x", mechanical=(good,)), FAST).verdict is ClaimVerdict.TRUE
    found = decide(claim(at_most(27), proof="x", mechanical=(good, bad)), FAST)
    assert found.verdict is ClaimVerdict.OPEN
    assert found.summary.startswith("bad: 1 = 2")
    quick = replace(FAST, mechanical=False)
    assert decide(claim(at_most(27), proof="x", mechanical=(bad,)), quick).verdict is ClaimVerdict.TRUE


def test_undecided_findings_refute_nothing_but_for_claims_about_every_optimum() -> None:
    rough = ForAll(SPACE, lambda case: Finding(F(-1), "x", decided=False))  # noqa: ARG005
    assert decide(claim(rough), FAST).verdict is ClaimVerdict.OPEN
    assert decide(claim(replace(rough, all_optima=True)), FAST).verdict is ClaimVerdict.FALSE


def test_existence_is_the_other_way_round() -> None:
    assert decide(claim(Exists(at_most(7))), FAST).verdict is ClaimVerdict.TRUE
    assert decide(claim(Exists(at_most(27))), FAST).verdict is ClaimVerdict.OPEN


def test_tightness_is_the_largest_quotient() -> None:
    bound = ForAll(SPACE, lambda case: Finding(F(27 - sum(case)), "x"), ratio=lambda case: sum(case) / F(27))
    found = decide(claim(bound, proof="x"), Effort(instances=5, seconds=10))
    assert found.tightness is not None
    assert found.tightness.ratio == 1
    assert sum(found.tightness.numbers.row("a")) == 27


def test_numbers_as_printed_and_as_computed() -> None:
    assert rounds_to("0.33", F(1, 3))
    assert not rounds_to("0.34", F(1, 3))
    assert rounds_to("5.75", F(23, 4))
    assert rounds_to("1/3", F(1, 3))
    assert not rounds_to("1/3", F(333, 1000))
    assert rounds_to("0.5", F(9, 20))  # a half may be rounded either way
    right = ByComputation(lambda: Computation((compare_number("x", "0.33", F(1, 3)), compare_values("y", True, True))))
    wrong = ByComputation(lambda: Computation((compare_number("x", "0.34", F(1, 3)), compare_values("y", True, True))))
    assert decide(claim(right), FAST).verdict is ClaimVerdict.TRUE
    found = decide(claim(wrong), FAST)
    assert found.verdict is ClaimVerdict.FALSE
    assert found.summary == "x: 0.34, computed 1/3"
    assert found.values == {"x": ("0.34", "1/3"), "y": ("True", "True")}


def test_growth_must_follow_its_formula() -> None:
    grows = Growth((1, 2, 4, 100), lambda n: F(n), "n", "n", "ratio", most=10)
    assert decide(claim(grows), FAST).verdict is ClaimVerdict.FALSE
    found = decide(claim(grows), replace(FAST, seconds=0))
    assert found.curve is not None
    assert list(found.curve.points) == [1, 2, 4]
    off = replace(grows, formula="6*n - 4 - n**2", between=None)  # right at 1 and 4
    found = decide(claim(off), FAST)
    assert found.verdict is ClaimVerdict.OPEN
    assert "at n = 2 the ratio is 2, not 6 n - 4 - n^2" in found.summary


def test_growth_needs_the_limit_of_its_formula() -> None:
    """The formula agrees with every measured value in all cases; only its limit differs."""
    pytest.importorskip("sympy")
    bounded = Growth((1, 2, 4), lambda n: 1 - F(1, 3 * n), "1 - 1/(3*n)", "n", "ratio")
    found = decide(claim(bounded), FAST)
    assert found.verdict is ClaimVerdict.OPEN
    assert "the limit of 1 - 1/(3*n) is 1, not oo" in found.summary
    right, wrong = (replace(bounded, limit=F(limit)) for limit in (1, 2))
    assert decide(claim(right), FAST).verdict is ClaimVerdict.TRUE
    assert decide(claim(wrong), FAST).verdict is ClaimVerdict.OPEN
    enclosed = replace(right, between=("1 - 1/n", "1 + 1/n"))
    assert decide(claim(enclosed), FAST).verdict is ClaimVerdict.TRUE
    assert decide(claim(replace(enclosed, between=("1 - 1/n", "1 - 1/(2*n)"))), FAST).verdict is ClaimVerdict.OPEN
    doubles = Growth((1, 2, 4), lambda n: F(2 * n), "2*n", "n", "ratio")
    assert decide(claim(replace(doubles, bound="log(8*n)")), FAST).verdict is ClaimVerdict.FALSE
    assert decide(claim(replace(doubles, bound="3*n")), FAST).verdict is ClaimVerdict.OPEN


def test_of_several_searches_the_smallest_counterexample_counts() -> None:
    procedure = at_most(7)
    found = [
        ClaimEvidence(ClaimVerdict.FALSE, "x", {"searched": 10}, Counterexample(numbers, None, Finding(F(-1), "x")))
        for numbers in (CaseNumbers.of(a=[F(9), F(9)]), CaseNumbers.of(a=[F(8)]), CaseNumbers.of(a=[F(9)]))
    ]
    none = ClaimEvidence(ClaimVerdict.TRUE, "x", {"searched": 12})
    best = strongest(claim(procedure), [none, *found])
    assert best.counterexample == found[1].counterexample
    assert best.tried == {"searched": 42}
    assert strongest(claim(procedure), [none]) == none


def test_what_cannot_be_tested_says_why() -> None:
    assert decide(claim(Untestable("undecided")), FAST) == ClaimEvidence(ClaimVerdict.UNTESTABLE, "undecided")


def test_errors_of_a_claim_leave_it_open_and_are_reported() -> None:
    def fails(case: tuple[F, ...]) -> Finding:
        raise ZeroDivisionError("oh")

    found = decide(claim(ForAll(SPACE, fails)), FAST)
    assert found.verdict is ClaimVerdict.OPEN
    assert "ZeroDivisionError: oh (test_ledger.py, line " in found.summary


def test_a_verdict_never_rests_on_a_float() -> None:
    with pytest.raises(InvalidOption, match=r"a finding has the slack -0\.5, a float; it must be exact"):
        Finding(-0.5, "x")  # type: ignore[arg-type]
    found = decide(claim(ForAll(SPACE, lambda case: Finding(sum(case) * 0.5, "x"))), FAST)  # type: ignore[arg-type]
    assert found.verdict is ClaimVerdict.OPEN
    assert "it must be exact: a Fraction or an int" in found.summary
    assert Finding(-1, "x").refutes  # type: ignore[arg-type]


@pytest.mark.parametrize("effort", [FAST, replace(FAST, instances=1)])
def test_a_quick_look_that_is_no_number_leaves_the_claim_open(effort: Effort) -> None:
    rough = replace(at_most(27), slack=lambda case: float("nan") if len(case) > 1 else 1.0)
    found = decide(claim(rough, proof="x"), effort)
    assert found.verdict is ClaimVerdict.OPEN
    assert "is not a number" in found.summary


def test_other_words_are_no_verdicts() -> None:
    class Perhaps:
        def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
            return ClaimEvidence("perhaps", "x")  # type: ignore[arg-type]

    found = decide(claim(Perhaps()), FAST)
    assert (found.verdict, found.summary) == (
        ClaimVerdict.OPEN,
        "could not be decided: the verdict 'perhaps' is not one of true, false, open, untestable",
    )
    with pytest.raises(InvalidOption, match="claim 'toy/claim' has the procedure 3"):
        claim(3)
    with pytest.raises(InvalidOption, match="claim 'toy/claim' expects 'maybe'; a verdict is one of true, false"):
        claim(at_most(7), expected="maybe")


def test_a_claim_that_ends_the_program_is_left_open() -> None:
    def ends(case: tuple[F, ...]) -> Finding:
        raise SystemExit(3)

    assert "SystemExit: 3" in decide(claim(ForAll(SPACE, ends)), FAST).summary


def test_parts_that_are_not_run_are_reported() -> None:
    absent = ProofCheck("z3: n = 2", None, why="z3 is not installed")
    found = decide(claim(at_most(27), proof="x", mechanical=(lambda: absent,)), FAST)
    assert found.verdict is ClaimVerdict.TRUE
    assert found.summary.endswith("; not run: z3: n = 2 (z3 is not installed)")


def test_every_claim_is_looked_at_on_50_instances() -> None:
    slow = replace(at_most(27), share=F(1, 100))
    assert decide(claim(slow), QUICK).tried == {"instances": 50}
    assert decide(claim(slow), Effort(seconds=0)).tried == {"instances": 50}
    assert decide(claim(slow), Effort(instances=7, seconds=0)).tried == {"instances": 7}


def test_nothing_decided_proves_nothing() -> None:
    never = ForAll(SPACE, lambda case: Finding(F(-1), "x", decided=False))  # noqa: ARG005
    found = decide(claim(never, proof="x"), Effort(instances=20, seconds=0))
    assert (found.verdict, found.summary) == (ClaimVerdict.OPEN, "none of 20 instances was decided")
    some = ForAll(SPACE, lambda case: Finding(F(-1) if len(case) > 1 else F(0), "x", decided=False))
    found = decide(claim(some, proof="x"), Effort(instances=20, seconds=0))
    assert found.verdict is ClaimVerdict.TRUE
    assert 0 < found.tried["undecided"] < 20
    assert f"{found.tried['undecided']} undecided" in found.summary


def test_hypotheses_that_nothing_meets_leave_a_claim_open() -> None:
    none: Space[object] = Space(SPACE.sizes, SPACE.tables, lambda numbers: None)  # noqa: ARG005
    found = decide(claim(ForAll(none, lambda case: Finding(F(0), "")), proof="x"), FAST)  # noqa: ARG005
    assert found.verdict is ClaimVerdict.OPEN
    assert "no case that was drawn meets the hypotheses" in found.summary


@pytest.mark.parametrize("wrong", [{"instances": 0}, {"instances": 1.5}, {"seconds": -1.0}, {"seconds": float("nan")}])
def test_effort_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(wrong))):
        Effort(**wrong)


def test_side_by_side_gives_the_same() -> None:
    some = [all_claims()[key] for key in ("oef/eq-6", "oef/thm-5.4", "oef/rounding-deviation")]
    effort = Effort(instances=5, seconds=0, mechanical=False)
    one = {d.claim.key: d.evidence for d in decide_all(some, effort)}
    two = {d.claim.key: d.evidence for d in decide_all(some, effort, jobs=2)}
    for key, evidence in one.items():
        assert (evidence.verdict, evidence.summary, evidence.tried) == (
            two[key].verdict,
            two[key].summary,
            two[key].tried,
        )


# -- choosing and keeping --------------------------------------------------------------------------------------------


def test_claims_are_chosen_by_key_and_by_beginning() -> None:
    assert [c.key for c in select_claims(["oef/eq-6"])] == ["oef/eq-6"]
    assert {c.key for c in select_claims(["oef/eq-6*"])} >= {"oef/eq-6", "oef/eq-6-lie"}
    assert {c.key for c in select_claims(["*thm-5.4", "fft/eq-?"])} >= {"oef/thm-5.4", "fft/eq-1", "fft/eq-2"}
    assert {c.key for c in select_claims(["oef/*"])} == {c.key for c in all_claims().values() if c.paper == "OEF"}
    assert len(select_claims()) == len(all_claims())
    with pytest.raises(UnknownName, match=r"there is no claim 'oef/eq-66'; did you mean 'oef/eq-6'"):
        select_claims(["oef/eq-66"])
    with pytest.raises(UnknownName, match="there is no claim 'nothing\\*'; hetopt verify --list shows all"):
        select_claims(["nothing*"])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: (claim(Untestable("x")), claim(Untestable("y"))), "two claims are called 'toy/claim'"),
        (lambda: [claim(Untestable("x"), expected="maybe")], "no claims from 'my:claims': InvalidOption: claim 'toy"),
        (lambda: 7, "no claims from 'my:claims': TypeError: 'int' object is not iterable"),
        (lambda: ["x"], "'my:claims' returns 'x'; an entry point of hetopt.claims must return only claims"),
    ],
)
def test_wrong_claims_that_a_package_announces(monkeypatch: pytest.MonkeyPatch, made: Any, message: str) -> None:
    class Point:
        name, value = "mine", "my:claims"

        def load(self) -> Any:
            return made

    monkeypatch.setitem(CLAIMS.__dict__, "points", {"mine": Point()})
    all_claims.cache_clear()
    try:
        with pytest.raises(InvalidOption, match=re.escape(message)):
            all_claims()
    finally:
        monkeypatch.undo()
        all_claims.cache_clear()


def test_a_counterexample_is_restored_from_its_file(tmp_path: Path) -> None:
    one = all_claims()["oef/thm-5.4"]
    assert isinstance(one.procedure, ForAll)
    found = one.procedure.recheck("refuted/oef-thm-5-4")
    path = store_counterexample(one, found, tmp_path)
    assert path.name == "oef-thm-5-4.yaml"
    again = read(path)
    assert isinstance(again, Instance)
    assert again.tenants == instance_of(found.case).tenants
    with pytest.raises(UnusableFile, match="exists already"):
        store_counterexample(one, found, tmp_path)
    assert slug("oef/thm-5.4") == "oef-thm-5-4"


@pytest.fixture
def one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder of instances with a single counterexample, which a test may spoil."""
    there = tmp_path / "refuted" / "oef-thm-5-4.yaml"
    there.parent.mkdir()
    there.write_text((instances.HERE / "refuted" / "oef-thm-5-4.yaml").read_text())
    monkeypatch.setattr(instances, "HERE", tmp_path)
    forget()
    yield there
    monkeypatch.undo()
    forget()


def forget() -> None:
    """What was read from files of instances."""
    for read_once in (
        instances._paths,
        instances.load,
        instances.expected,
        counterexample_files._index,
        known_counterexamples,
    ):
        read_once.cache_clear()


@pytest.mark.parametrize(("text", "message"), [("nonsense: [", "oef-thm-5-4.yaml"), ("expected: 7", "'int' object")])
def test_a_broken_file_spoils_its_own_claim_alone(one_file: Path, text: str, message: str) -> None:
    assert stored_names("oef/thm-5.4") == ("refuted/oef-thm-5-4",)
    one_file.write_text(text)
    forget()
    assert stored_names("oef/thm-5.4") == ("refuted/oef-thm-5-4",)
    found = decide(all_claims()["oef/thm-5.4"], Effort(instances=5, seconds=0))
    assert found.verdict is ClaimVerdict.OPEN
    assert message in found.summary
    assert len(known_counterexamples()) == len(
        property_matrix.stored_refutations()
    )  # those of policies are in another file
    assert counterexample_files.problems(all_claims()) == ["instance refuted/oef-thm-5-4 cannot be read"]
    assert decide(all_claims()["oef/thm-5.4-over"], QUICK).verdict is ClaimVerdict.TRUE


def test_another_slack_than_the_file_says_is_an_error(one_file: Path) -> None:
    assert "slack: -1/6" in one_file.read_text()
    one_file.write_text(one_file.read_text().replace("slack: -1/6", "slack: -1/7"))
    forget()
    found = decide(all_claims()["oef/thm-5.4"], Effort(instances=5, seconds=0))
    assert found.verdict is ClaimVerdict.OPEN
    assert "'refuted/oef-thm-5-4' has the slack -1/6, not -1/7 as in its file" in found.summary


def test_a_stored_case_outside_the_hypotheses_is_an_error() -> None:
    none: Space[object] = Space(SPACE.sizes, SPACE.tables, lambda numbers: None)  # noqa: ARG005
    with pytest.raises(InvalidInstance, match="does not meet the hypotheses"):
        ForAll(none, lambda case: Finding(F(0), "")).recheck("refuted/oef-thm-5-4")  # noqa: ARG005


# -- mechanical parts ------------------------------------------------------------------------------------------------


def test_z3_and_sympy_prove_and_refute() -> None:
    pytest.importorskip("z3")
    pytest.importorskip("sympy")
    from z3 import Real

    x = Real("x")
    assert by_z3("squares", lambda: [x * x < 0])().holds is True
    found = by_z3("roots", lambda: [x * x == 2])()
    assert found.holds is False
    assert found.why.startswith("z3 finds [x = ")
    assert by_sympy("identity", lambda: "")().holds is True
    wrong = by_sympy("identity", lambda: "1 = 2")()
    assert (wrong.name, wrong.holds, wrong.why) == ("sympy: identity", False, "1 = 2")


def test_without_the_packages_mechanical_parts_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetopt.proofs.ledger.mechanical.find_spec", lambda _: None)
    for part in (by_z3("x", list), by_sympy("x", lambda: "")):
        found = part()
        assert found.holds is None
        assert "pip install 'hetopt[prove]'" in found.why


def test_claims_are_in_the_order_of_their_paper() -> None:
    """All places are known, except those of measurements, which come last."""
    papers = {paper.name: paper for paper in PAPERS.values()}
    for claim in all_claims().values():
        paper = papers[claim.paper]
        unknown = paper.position(claim.place) == len(paper.places.split("; "))
        assert unknown == claim.key.endswith("-measured"), (claim.key, claim.place)
