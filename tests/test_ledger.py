"""The ledger itself: how verdicts come about, what claims must have, what is kept."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hetopt import Instance, instances
from hetopt.errors import InvalidInstance, InvalidOption, UnknownName, UnusableFile
from hetopt.files.instance_files import read
from hetopt.proofs.ledger.claim import QUICK, Check, Claim, Effort, Evidence, Finding, number
from hetopt.proofs.ledger.collect import chosen, ledger
from hetopt.proofs.ledger.deciding import Decided, decide, decide_all
from hetopt.proofs.ledger.hunter import Hunt
from hetopt.proofs.ledger.means import (
    Computation,
    Computed,
    ForAll,
    Growth,
    Some,
    Untestable,
    rounds_to,
    row,
    said,
)
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.page import page
from hetopt.proofs.ledger.pictures import Bar, Shares, Timeline, shares
from hetopt.proofs.ledger.prose import as_html, as_markdown, paragraphs
from hetopt.proofs.ledger.space import Numbers, Space, Table, whole
from hetopt.proofs.ledger.stored import instance_of, keep, kept, slug, stored_numbers
from hetopt.proofs.ledger.svg import curve, drawn
from hetopt.proofs.ledger.telling import as_dict, table

F = Fraction
EVERY = list(ledger().values())
SPACE = Space({"n": (1, 3)}, {"a": Table(1, "n", whole(1, 9))}, lambda n: n.row("a"))
FAST = Effort(instances=30, seconds=0.5)


def claim(means: Any, **more: Any) -> Claim:
    given: dict[str, Any] = {
        "key": "toy/claim",
        "paper": "Toy",
        "place": "Lemma 1",
        "statement": "x",
        "expected": "open",
    }
    return Claim(means=means, **(given | more))


def at_most(limit: int) -> ForAll[tuple[F, ...]]:
    return ForAll(SPACE, lambda case: Finding(F(limit - sum(case)), f"the sum is {sum(case)}"))


# -- verdicts --------------------------------------------------------------------------------------------------------


def test_a_counterexample_makes_a_claim_false_and_is_made_small() -> None:
    found = decide(claim(at_most(7)), FAST)
    assert found.verdict == "false"
    assert found.counterexample is not None
    assert sum(found.counterexample.case) == 8
    assert "the sum is 8" in found.summary


def test_without_a_proof_nothing_is_true() -> None:
    assert decide(claim(at_most(27)), FAST).verdict == "open"
    assert decide(claim(at_most(27), proof="Three numbers of at most 9."), FAST).verdict == "true"


def test_a_proof_does_not_help_against_a_counterexample() -> None:
    found = decide(claim(at_most(7), proof="Nonsense."), FAST)
    assert found.verdict == "false"
    assert "the proof that stands here must be wrong" in found.summary


def test_a_mechanical_part_that_fails_leaves_the_claim_open() -> None:
    good, bad = (lambda: Check("good", True)), (lambda: Check("bad", False, why="1 = 2"))
    assert decide(claim(at_most(27), proof="x", mechanical=(good,)), FAST).verdict == "true"
    found = decide(claim(at_most(27), proof="x", mechanical=(good, bad)), FAST)
    assert found.verdict == "open"
    assert found.summary.startswith("bad: 1 = 2")
    quick = replace(FAST, mechanical=False)
    assert decide(claim(at_most(27), proof="x", mechanical=(bad,)), quick).verdict == "true"


def test_undecided_findings_refute_nothing_but_for_claims_about_every_optimum() -> None:
    rough = ForAll(SPACE, lambda case: Finding(F(-1), "x", decided=False))  # noqa: ARG005
    assert decide(claim(rough), FAST).verdict == "open"
    assert decide(claim(replace(rough, every=True)), FAST).verdict == "false"


def test_existence_is_the_other_way_round() -> None:
    assert decide(claim(Some(at_most(7))), FAST).verdict == "true"
    assert decide(claim(Some(at_most(27))), FAST).verdict == "open"


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
    right = Computed(lambda: Computation((row("x", "0.33", F(1, 3)), said("y", True, True))))
    wrong = Computed(lambda: Computation((row("x", "0.34", F(1, 3)), said("y", True, True))))
    assert decide(claim(right), FAST).verdict == "true"
    found = decide(claim(wrong), FAST)
    assert found.verdict == "false"
    assert found.summary == "x: 0.34, computed 1/3"
    assert found.values == {"x": ("0.34", "1/3"), "y": ("True", "True")}


def test_growth_must_follow_its_formula() -> None:
    grows = Growth((1, 2, 4, 100), lambda n: F(n), lambda n: F(n), "n", "n", "ratio", most=10)
    assert decide(claim(grows), FAST).verdict == "false"
    found = decide(claim(grows), replace(FAST, seconds=0))
    assert found.curve is not None
    assert list(found.curve.points) == [1, 2, 4]
    assert decide(claim(replace(grows, bounded=True)), FAST).verdict == "true"
    off = replace(grows, formula=lambda n: F(n if n < 4 else 0))
    found = decide(claim(off), FAST)
    assert found.verdict == "open"
    assert "at n = 4 the ratio is 4, not n" in found.summary


def test_what_cannot_be_tested_says_why() -> None:
    assert decide(claim(Untestable("nobody knows")), FAST) == Evidence("untestable", "nobody knows")


def test_errors_of_a_claim_leave_it_open_and_are_told() -> None:
    def fails(case: tuple[F, ...]) -> Finding:
        raise ZeroDivisionError("oh")

    found = decide(claim(ForAll(SPACE, fails)), FAST)
    assert found.verdict == "open"
    assert "ZeroDivisionError: oh (test_ledger.py, line " in found.summary


def test_side_by_side_gives_the_same() -> None:
    some = [ledger()[key] for key in ("oef/eq-6", "oef/thm-5.4", "oef/rounding-deviation")]
    effort = Effort(instances=5, seconds=0, mechanical=False)
    one = {d.claim.key: d.evidence for d in decide_all(some, effort)}
    two = {d.claim.key: d.evidence for d in decide_all(some, effort, jobs=2)}
    for key, evidence in one.items():
        assert (evidence.verdict, evidence.summary, evidence.tried) == (
            two[key].verdict,
            two[key].summary,
            two[key].tried,
        )


# -- what claims must have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.key)
def test_claims_are_complete(one: Claim) -> None:
    """What holds has a proof or a computation; what is false as printed may name what holds instead."""
    assert one.statement.strip()
    assert one.place
    assert one.paper
    assert one.key == one.key.lower()
    if one.expected == "true" and isinstance(one.means, ForAll):
        assert one.proof.strip()
    if one.instead:
        assert one.instead in ledger()
        assert ledger()[one.instead].expected == "true"
    if one.expected == "true":
        assert not one.instead
    for name in one.policies:
        from hetopt.registry import policy_names

        assert name in policy_names()


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.key)
def test_every_verdict_is_reached(one: Claim) -> None:
    effort = Effort(instances=20, seconds=0, mechanical=False)
    assert one.means.decide(one, effort).verdict == one.expected


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.key)
def test_formulas_can_be_shown(one: Claim) -> None:
    """Every formula becomes MathML, without a command that is left as it is."""
    for text in (one.statement, one.note, one.proof):
        assert text.count("$") % 2 == 0
        shown = "".join(map(as_html, paragraphs(text)))
        assert "<merror" not in shown
        assert not set("\\$*`") & set(re.sub("<[^>]*>", "", shown)), shown


def test_words_become_html_and_markdown() -> None:
    text = "*Step $n$.* A < `b*c` and\n$$x^2$$ so.\n*Next.* 2*3"
    first, second = paragraphs(text)
    assert as_html(first).startswith("<em>Step <math")
    assert "A &lt; <code>b*c</code> and\n<math" in as_html(first)
    assert 'display="block"' in as_html(first)
    assert as_html(second) == "<em>Next.</em> 2*3"
    assert as_markdown(text) == "*Step $n$.* A \\< `b*c` and\n\n\n$$\nx^2\n$$\n\n so.\n\n*Next.* 2\\*3"


def test_every_file_of_a_counterexample_is_of_a_claim_that_it_refutes() -> None:
    """And the instance in the file is the one that the numbers make."""
    found = 0
    for name in instances.names():
        said_there = instances.expected(name)
        if "counterexample" not in said_there:
            continue
        for key in said_there["counterexample"].claim.split(", "):
            means = ledger()[key].means
            such = means.such if isinstance(means, Some) else means
            assert isinstance(such, ForAll), key
            numbers = stored_numbers(name)
            case = such.space.build(numbers)
            assert case is not None, name
            assert such.found(case).refutes, name
            there, made = instances.load(name), instance_of(case)
            assert (there.cluster, there.tenants, there.jobs) == (made.cluster, made.tenants, made.jobs), name
            assert name in kept(key)
            found += 1
    assert found > 30


@pytest.mark.parametrize(
    "one",
    [c for c in EVERY if isinstance(c.means, ForAll) and c.expected == "false"],
    ids=lambda one: one.key,
)
def test_every_false_claim_has_a_counterexample_that_is_kept(one: Claim) -> None:
    assert kept(one.key)


class First(Hunt[Any]):
    """A search that ends with the first counterexample."""

    def _shrunk(self, rng: Random) -> Any:
        return self.found


@pytest.mark.long
@pytest.mark.parametrize("one", [c for c in EVERY if kept(c.key)], ids=lambda one: one.key)
def test_a_search_finds_a_counterexample_from_the_claim_alone(one: Claim) -> None:
    means = one.means.such if isinstance(one.means, Some) else one.means
    assert isinstance(means, ForAll)
    seconds = 600 if one.key == "oef/thm-5.3-cooperative-two-types" else 60  # of four tenants; seen after 304
    search = First(means.space, means.quick, means.found, time.perf_counter() + seconds)
    assert search.run() is not None, f"{search.tried} cases"


# -- choosing and keeping --------------------------------------------------------------------------------------------


def test_claims_are_chosen_by_key_by_beginning_and_by_paper() -> None:
    assert [c.key for c in chosen(["oef/eq-6"])] == ["oef/eq-6"]
    assert {c.key for c in chosen(["oef/eq-6*"])} >= {"oef/eq-6", "oef/eq-6-lie"}
    assert {c.paper for c in chosen(paper="oef")} == {"OEF"}
    assert len(chosen()) == len(ledger())
    with pytest.raises(UnknownName, match=r"there is no claim 'oef/eq-66'; did you mean 'oef/eq-6'"):
        chosen(["oef/eq-66"])
    with pytest.raises(UnknownName, match="there is no claim 'nothing\\*'"):
        chosen(["nothing*"])
    with pytest.raises(UnknownName, match="there is no paper 'oof'; did you mean 'oef'"):
        chosen(paper="oof")
    with pytest.raises(UnknownName, match="none of these claims is of the paper 'FFT': oef/eq-6"):
        chosen(["oef/eq-6"], paper="fft")


def test_two_claims_with_one_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "twice"

        def load(self) -> Any:
            return lambda: (claim(Untestable("x")), claim(Untestable("y")))

    monkeypatch.setattr("hetopt.proofs.ledger.collect.entry_points", lambda group: [Point()] if group else [])
    ledger.cache_clear()
    try:
        with pytest.raises(InvalidOption, match="two claims are called 'toy/claim'"):
            ledger()
    finally:
        monkeypatch.undo()
        ledger.cache_clear()


def test_a_counterexample_is_kept_as_an_instance_that_gives_it_back(tmp_path: Path) -> None:
    one = ledger()["oef/thm-5.4"]
    means = one.means
    assert isinstance(means, ForAll)
    found = means.recheck("refuted/oef-thm-5-4")
    path = keep(one, found, tmp_path)
    assert path.name == "oef-thm-5-4.yaml"
    again = read(path)
    assert isinstance(again, Instance)
    assert again.tenants == instance_of(found.case).tenants
    with pytest.raises(UnusableFile, match="is there already"):
        keep(one, found, tmp_path)
    assert slug("oef/thm-5.4") == "oef-thm-5-4"


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
        assert "pip install 'hetopt[verify]'" in found.why


# -- telling ---------------------------------------------------------------------------------------------------------


PLAIN = replace(QUICK, mechanical=False)


def decided(key: str) -> Decided:
    return Decided(ledger()[key], decide(ledger()[key], PLAIN))


def test_json_holds_everything_that_was_found() -> None:
    data = json.loads(json.dumps(as_dict(decided("oef/thm-5.4"))))
    assert data["verdict"] == data["expected"] == "false"
    assert data["counterexample"]["numbers"] == {"speed": [[2], [2]], "gpus": [[1, 1]], "report": [[1]]}
    assert data["counterexample"]["slack"] == "-1/6"
    assert data["instead"] == "oef/thm-5.4-over"


def test_the_table_has_a_row_per_claim() -> None:
    frame = table([decided("oef/eq-6"), decided("oef/thm-5.4")])
    assert list(frame["verdict"]) == ["true", "false"]
    assert frame["as expected"].all()


def test_the_page_stands_alone_and_shows_what_was_found() -> None:
    results = [decided("oef/thm-5.4"), decided("oef/eq-6-drop"), decided("oef/thm-5.4-over")]
    text = page(results, ledger(), QUICK, 1.0)
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "u1 reports (1, 1) and has 5/3 instead of 3/2" in text
    assert "<svg" in text
    assert "href='#oef-thm-5-4-over'" in text
    assert "<math" in text


def test_pictures_are_drawn_with_their_numbers() -> None:
    picture = shares("honest", [[1, F(1, 4)], [0, F(3, 4)]], [1, 1], [F(3, 2), F(15, 4)])
    assert isinstance(picture, Shares)
    text = drawn(picture)
    for part in ("honest", "1/4", "3/4", "u2: 15/4", "u1: 1/4 of 1 GPU2"):
        assert part in text
    lanes = drawn(Timeline("order", (Bar("GPU 1", F(0), F(2), "a"), Bar("GPU 1", F(2), F(3), "<b>")), "rounds"))
    assert "&lt;b&gt; on GPU 1, 2 to 3 rounds" in lanes
    grown = decide(claim(Growth((1, 3), lambda n: F(n), lambda n: F(n), "n", "n", "ratio")), FAST).curve
    assert grown is not None
    assert "ratio over n: n" in curve(grown)


def test_numbers_in_words() -> None:
    assert number(F(7)) == "7"
    assert number(F(115456, 2237031)) == "0.0516113"
    assert number(F(1, 3)) == "1/3"


def test_numbers_read_what_they_wrote() -> None:
    numbers = Numbers({"a": ((F(1, 3), F(2)),)})
    assert numbers.as_dict() == {"a": [["1/3", 2]]}
    assert Numbers.read(numbers.as_dict()) == numbers
