"""Output of the ledger: text with formulas, JSON, tables, the page and its pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import QUICK, GrowthCurve
from hetopt.proofs.ledger.claim_text import as_html, as_markdown, paragraphs
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.finding_pictures import SharesPicture, Timeline, TimelineBar, shares_picture
from hetopt.proofs.ledger.ledger_page import ledger_page
from hetopt.proofs.ledger.picture_svg import curve_svg, picture_svg
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.ledger.verdict_tables import claim_as_dict, verdict_table
from hetopt.proofs.ledger.verification import DecidedClaim, decide

F = Fraction
PLAIN = replace(QUICK, mechanical=False)


def test_words_become_html_and_markdown() -> None:
    text = "*Step $n$.* A < `b*c` and\n$$x^2$$ so.\n*Next.* 2*3"
    first, second = paragraphs(text)
    assert as_html(first).startswith("<em>Step <math")
    assert "A &lt; <code>b*c</code> and\n<math" in as_html(first)
    assert 'display="block"' in as_html(first)
    assert as_html(second) == "<em>Next.</em> 2*3"
    assert as_markdown(text) == "*Step $n$.* A \\< `b*c` and\n\n\n$$\nx^2\n$$\n\n so.\n\n*Next.* 2\\*3"


def decided(key: str) -> DecidedClaim:
    return DecidedClaim(all_claims()[key], decide(all_claims()[key], PLAIN))


def test_json_holds_everything_that_was_found() -> None:
    data = json.loads(json.dumps(claim_as_dict(decided("oef/thm-5.4"))))
    assert data["verdict"] == data["expected"] == data["label"] == "false"
    assert data["counterexample"]["numbers"] == {"speed": [[2], [2]], "gpus": [[1, 1]], "report": [[1]]}
    assert data["counterexample"]["slack"] == "-1/6"
    assert data["instead"] == "oef/thm-5.4-over"
    assert claim_as_dict(decided("oef/thm-5.4-over"))["label"] == "true, corrected"


def test_the_table_has_a_row_per_claim() -> None:
    frame = verdict_table([decided("oef/eq-6"), decided("oef/thm-5.4")])
    assert list(frame["verdict"]) == ["true", "false"]
    assert frame["as expected"].all()


def test_the_page_stands_alone_and_shows_what_was_found() -> None:
    results = [decided("oef/thm-5.4"), decided("oef/eq-6-drop"), decided("oef/thm-5.4-over")]
    text = ledger_page(results, all_claims(), QUICK, 1.0)
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "u1 reports (1, 1) and has 5/3 instead of 3/2" in text
    assert "<svg" in text
    assert "href='#oef-thm-5-4-over'" in text
    assert "<math" in text


def test_pictures_are_drawn_with_their_numbers() -> None:
    picture = shares_picture("honest", [[1, F(1, 4)], [0, F(3, 4)]], [1, 1], [F(3, 2), F(15, 4)])
    assert isinstance(picture, SharesPicture)
    text = picture_svg(picture)
    for part in ("honest", "1/4", "3/4", "u2: 15/4", "u1: 1/4 of 1 GPU2"):
        assert part in text
    timeline = picture_svg(
        Timeline("order", (TimelineBar("GPU 1", F(0), F(2), "a"), TimelineBar("GPU 1", F(2), F(3), "<b>")), "rounds")
    )
    assert "&lt;b&gt; on GPU 1, 2 to 3 rounds" in timeline
    assert "ratio over n: n" in curve_svg(GrowthCurve("n", "ratio", {1: F(1), 3: F(3)}, "n"))


def test_numbers_in_words() -> None:
    assert number_text(F(7)) == "7"
    assert number_text(F(115456, 2237031)) == "0.0516113"
    assert number_text(F(1, 3)) == "1/3"


def test_numbers_read_what_they_wrote() -> None:
    numbers = CaseNumbers({"a": ((F(1, 3), F(2)),)})
    assert numbers.as_dict() == {"a": [["1/3", 2]]}
    assert CaseNumbers.read(numbers.as_dict()) == numbers
