"""Output of the ledger: text with formulas, JSON, tables, the page and its pictures."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from pages_in_browser import chromium, opened, problems_of

from hetopt.data.rationals import number_text
from hetopt.presentation.formatting import slug
from hetopt.proofs.ledger.claim import QUICK, ClaimVerdict, Effort, GrowthCurve
from hetopt.proofs.ledger.claim_text import as_html, as_markdown, paragraphs
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.finding_drawings import draw_finding, draw_growth
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar, shares_picture
from hetopt.proofs.ledger.ledger_output import claim_as_dict, ledger_page, overview, totals
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.ledger.verification import DecidedClaim, decide

ROOT = Path(__file__).parents[1]
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
    assert as_markdown("At $a\n+ 1$ b") == "At $a + 1$ b"


def test_primes_stand_beside_their_letters() -> None:
    """As exponents they are tiny in browsers without a mathematical font."""
    shown = as_html("$w_h^{j'} > j'$ and $x_1' = w_l'$")
    assert shown.count("&#x02032;") == 4
    assert shown.count("<mi>&#x02032;</mi></mrow>") == 4
    assert "<msub><mrow><mi>x</mi><mi>&#x02032;</mi></mrow><mn>1</mn></msub>" in shown


def decided(key: str) -> DecidedClaim:
    return DecidedClaim(all_claims()[key], decide(all_claims()[key], PLAIN))


def test_json_holds_everything_that_was_found() -> None:
    data = json.loads(json.dumps(claim_as_dict(decided("oef/thm-5.4"))))
    assert data["verdict"] == data["expected"] == data["label"] == "false"
    assert data["counterexample"]["numbers"] == {"speed": [[2], [2]], "gpus": [[1, 1]], "report": [[1]]}
    assert data["counterexample"]["slack"] == "-1/6"
    assert data["instead"] == "oef/thm-5.4-over"
    assert claim_as_dict(decided("oef/thm-5.4-over"))["label"] == "true, corrected"


def test_the_page_shows_what_was_found() -> None:
    results = [decided("oef/thm-5.4"), decided("oef/eq-6-drop"), decided("oef/thm-5.4-over")]
    text = ledger_page(results, QUICK, 1.0)
    assert "u1 reports (1, 1) and has a rate of 5/3 instead of 3/2" in text
    assert "<svg" in text
    assert 'href="#oef-thm-5-4-over"' in text
    assert "<math" in text


def test_the_page_counts_verdicts_and_links_lead_somewhere() -> None:
    """Claims that papers print apart from further ones; a verdict that was not expected says so."""
    other = replace(decided("oef/eq-6"), claim=replace(all_claims()["oef/eq-6"], expected=ClaimVerdict.FALSE))
    results = [other, decided("oef/thm-5.4"), decided("oef/thm-5.4-over"), decided("hadar/lemma-2")]
    counts = overview(results)
    assert [column.name for column in counts.columns] == ["claims", "false", "true", "open", "untestable", "all"]
    assert [[cell.text for cell in row] for row in counts.rows] == [
        ["all papers, printed", "1", "2", "0", "0", "3"],
        ["all papers, further", "0", "1", "0", "0", "1"],
        ["OEF, printed", "1", "1", "0", "0", "2"],
        ["OEF, further", "0", "1", "0", "0", "1"],
        ["Hadar and HadarE, printed", "0", "1", "0", "0", "1"],
    ]
    assert totals(results) == "3 printed claims: 1 false, 2 true; 1 further claim: 1 true"
    text = ledger_page(results, QUICK, 1.0)
    assert totals(results[:3]) in text
    assert "true, not false" in text
    targets = set(re.findall(r'href="#([^"]*)"', text))
    assert targets == {"oef", "hadar", *(slug(result.claim.key) for result in results)}
    assert targets <= set(re.findall(r' id="([^"]*)"', text))


def bars(svg: str) -> dict[str, tuple[float, float]]:
    """Tip of a bar -> its left and right edge in the picture."""
    found = re.findall(r'<title>([^<]*)</title><path d="([^"]*)"', svg)
    edges = {tip: [float(x) for x in re.findall(r"[MLH]([\d.]+)", path)] for tip, path in found}
    return {tip: (min(xs), max(xs)) for tip, xs in edges.items()}


def test_shares_are_as_long_as_their_numbers() -> None:
    drawn = draw_finding(shares_picture("honest", [[1, F(1, 2)], [0, F(1, 4)]], [1, 1], [F(3, 2), F(15, 4)]))
    assert drawn.caption == "honest"
    assert [key.label for key in drawn.keys] == ["u1: 3/2", "u2: 15/4", "idle"]
    there = bars(drawn.svg)
    left, right = there["u1: 1 of 1 GPU1"]
    quarters = [left + i * (right - left) / 4 for i in range(5)]
    assert there["u1: 1/2 of 1 GPU2"] == pytest.approx((quarters[0], quarters[2]), abs=0.1)
    assert there["u2: 1/4 of 1 GPU2"] == pytest.approx((quarters[2], quarters[3]), abs=0.1)
    assert there["idle: 1/4 of 1 GPU2"] == pytest.approx((quarters[3], quarters[4]), abs=0.1)
    assert ">1/2</text>" in drawn.svg
    narrow = draw_finding(shares_picture("narrow", [[F(1, 100)], [F(99, 100)]], [1], []))
    assert ">99/100</text>" in narrow.svg
    assert "u1: 1/100 of" in narrow.svg
    assert "1/100</text>" not in narrow.svg.replace("99/100", "")  # it has no room, and is not cut


def test_schedules_have_exact_times() -> None:
    what = Timeline("order", (TimelineBar("GPU 1", F(0), F(7, 3), "a"), TimelineBar("GPU 1", F(7, 3), F(3), "<b>")))
    drawn = draw_finding(what)
    assert [key.label for key in drawn.keys] == ["a", "<b>"]
    there = bars(drawn.svg)
    begin, end = there["a on GPU 1, 0 to 7/3 s"]
    assert there["&lt;b&gt; on GPU 1, 7/3 to 3 s"] == pytest.approx((end, begin + (end - begin) * 9 / 7), abs=0.1)
    for text in ("0", "7/3", "3", "a", "&lt;b&gt;", "time (s)"):
        assert f">{text}</text>" in drawn.svg
    assert draw_finding(replace(what)) is drawn
    assert "nothing runs" in draw_finding(Timeline("idle", ())).svg


def test_growth_is_drawn_with_its_values() -> None:
    drawn = draw_growth(GrowthCurve("n", "ratio", {1: F(1, 3), 3: F(3)}, "n"))
    assert 'aria-label="ratio over n: n"' in drawn.svg
    assert re.findall("<title>([^<]*)</title>", drawn.svg) == ["1: 1/3", "3: 3"]


def test_the_page_of_a_paper_is_readable_and_folded(tmp_path: Path) -> None:
    """On all screens, in the dark too; a link to a claim opens it, and the filter is about the lines that remain."""
    effort = Effort(instances=1, seconds=0, mechanical=False)
    claims = [claim for claim in all_claims().values() if claim.paper == "OEF"]
    results = [DecidedClaim(claim, decide(claim, effort)) for claim in [*claims[::6], all_claims()["oef/thm-5.4"]]]
    assert len({result.label for result in results}) > 1
    page = tmp_path / "ledger.html"
    page.write_text(ledger_page(results, effort, 1.0), encoding="utf-8")
    with chromium() as browser:
        assert problems_of(browser, page) == []
        with opened(browser, page, 1400, "light") as tab:
            assert tab.evaluate("document.documentElement.scrollHeight") < 60 * len(results)
            tab.evaluate("location.hash = 'oef-thm-5-4'")
            tab.wait_for_selector("#oef-thm-5-4[open] svg", state="visible")
            tab.fill("input.filter:visible", "✗ false")
            rows = tab.locator(".claims > details:visible > summary").all_inner_texts()
            assert len(rows) == sum(result.label == "false" for result in results)
            assert all("✗ false" in row for row in rows)


def test_claims_in_the_docs_are_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some claims of the docs, in the theme and with the style sheets of the docs."""
    application = pytest.importorskip("sphinx.application")
    monkeypatch.syspath_prepend(ROOT / "docs")
    source = tmp_path / "source"
    source.mkdir()
    keys = ("oef/thm-5.4-over", "oef/thm-5.4", "fft/fig-2-moving", "fft/wasted", "hadar/lemma-2")
    text = importlib.import_module("claims").page("oef", list(map(decided, keys)))
    assert text.count("<svg role") >= 4
    (source / "index.md").write_text(text)
    app = application.Sphinx(
        source,
        ROOT / "docs",
        tmp_path / "html",
        tmp_path / "trees",
        "html",
        {"extensions": ["myst_parser", "sphinx.ext.autodoc", "mathml"]},
        status=None,
    )
    app.build()
    with chromium() as browser:
        assert problems_of(browser, tmp_path / "html" / "index.html", beside=True) == []
        with opened(browser, tmp_path / "html" / "index.html", 1400, "light", beside=True) as tab:
            tab.evaluate("location.hash = 'oef-thm-5-4'")
            tab.wait_for_selector("#oef-thm-5-4[open] svg", state="visible")


def test_numbers_in_words() -> None:
    assert number_text(F(7)) == "7"
    assert number_text(F(115456, 2237031)) == "0.0516113"
    assert number_text(F(1, 3)) == "1/3"


def test_numbers_read_what_they_wrote() -> None:
    numbers = CaseNumbers({"a": ((F(1, 3), F(2)),)})
    assert numbers.as_dict() == {"a": [["1/3", 2]]}
    assert CaseNumbers.read(numbers.as_dict()) == numbers
