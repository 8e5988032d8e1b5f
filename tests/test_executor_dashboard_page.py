"""The page of the dashboard: all that is in the books, and every text as text."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from dashboard_books import LAB, Books, busy, seen

from hetopt.errors import UnusableFile
from hetopt.executor.dashboard import gantt, history, words
from hetopt.executor.dashboard.command import dashboard
from hetopt.executor.dashboard.drawing import STEPS, Time
from hetopt.executor.dashboard.markup import Html, cut, joined, lone, tag
from hetopt.executor.dashboard.page import fragment, notice, page
from hetopt.executor.dashboard.script import FILE_POLICY, POLICY, SCRIPT
from hetopt.executor.dashboard.style import STYLE, WORDS, contrast, letters_on
from hetopt.presentation.simulation_report.report_style import DARK, LIGHT, PAGES


class Shown(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._skips = 0
        self.feed(text)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._skips += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._skips -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._skips:
            self.text += f" {data}"


EVIL = "<script>alert(1)</script><img src=x onerror=\"alert('2')\">&amp; \u202e \ud7ff"


def test_text_stays_text_wherever_it_comes_from(tmp_path: Path) -> None:
    books = Books(tmp_path / "s")
    books.node("n", {"K80<b>": 2}, note=EVIL)
    books.node("<i>m", {"K80": 1}, up=False)
    for i, state in enumerate(("queued", "failed", "queued")):
        job = books.job(
            f"job{i}", tenant=f"<u>{i}", state=state, reason=EVIL, finished=None if state == "queued" else 9.0
        )
    books.lease(job, [("n", "K80<b>", 0), ("<s>gone", "K80", 1)], 9990.0)
    books.speed(job, **{"K80<b>": 2.0})
    books.controller(policy=f"fft{EVIL}")
    books.round(1, 9995.0, 3, policy=EVIL)
    text = page(seen(books))
    shown = Shown(text)
    assert [name for name, _ in shown.tags].count("script") == 1
    assert not {"img", "i", "u", "s"} & {name for name, _ in shown.tags}
    assert not [key for _, attributes in shown.tags for key in attributes if key.startswith("on") or key == "style"]
    for words_of in (EVIL, "<u>0", "<i>m", "K80<b>", "<s>gone"):
        assert " ".join(words_of.split()) in shown.text


def test_nothing_is_loaded_from_elsewhere_and_ids_are_used_once(tmp_path: Path) -> None:
    for live in (True, False):
        shown = Shown(page(seen(busy(tmp_path / f"s{live}")), live=live))
        places = [value for _, attributes in shown.tags for key in ("src", "href") if (value := attributes.get(key))]
        assert places == ["data:,"]
        ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert ("script" in {name for name, _ in shown.tags}) == live


def test_every_table_has_headings_and_every_picture_a_title(tmp_path: Path) -> None:
    text = page(seen(busy(tmp_path / "s")))
    shown = Shown(text)
    names = [name for name, _ in shown.tags]
    assert names.count("table") == 5
    assert all(attributes.get("scope") in ("col", "row") for name, attributes in shown.tags if name == "th")
    for inner in re.findall(r"<svg[^>]*role=.img.[^>]*>(.{7})", text):
        assert inner == "<title>"
    described = {attributes.get("aria-describedby") for name, attributes in shown.tags if name == "table"}
    assert described <= {attributes.get("id") for _, attributes in shown.tags}


def test_the_busy_page_says_what_is_in_the_books(tmp_path: Path) -> None:
    books = busy(tmp_path / "s")
    books.store.lock()
    look = seen(books)
    text = Shown(page(look)).text
    assert "Policy fft on engine local, round 12 (decided in 0.034 s" in text
    assert "The controller is alive" in text
    assert "4 up, 1 drained" in text
    assert "Duplicate jobid <17>" in text
    for job in look.now.jobs:
        assert job["name"] in text
    assert "others come first this round" in text
    assert "overdue" not in text
    titles = re.findall(r"<g><title>([^<]*)</title><rect", page(look))
    assert len(titles) == len(gantt.runs(look.spans))
    assert any(re.search(r" is profiled on \d K80 of n1 for 1m0", title) for title in titles)
    assert any("in round 11: it moves" in title for title in titles)


def test_an_empty_state_says_what_to_do(tmp_path: Path) -> None:
    books = Books(tmp_path / "s")
    text = Shown(page(seen(books))).text
    for sentence in (
        "No controller has run yet.",
        "No controller runs, so nothing is decided; hetopt run is one.",
        "No engine has told of a node yet",
        "No job waits. hetopt submit hands one in.",
        "No job runs.",
        "No job has had a GPU lately.",
        "There are no jobs, so no tenants.",
        "No job is over yet.",
    ):
        assert sentence in text
    assert "to the next round" not in text


def test_a_controller_that_has_gone_or_is_late_is_said_so(tmp_path: Path) -> None:
    books = busy(tmp_path / "s", jobs=12)
    assert "What runs goes on until its leases run out." in Shown(page(seen(books))).text
    books.facts(next_round=repr(books.now - 400.0))
    books.store.lock()
    assert "The next round is overdue by 6m4" in Shown(page(seen(books))).text


def test_a_large_cluster_stays_small(tmp_path: Path) -> None:
    kinds = ({"K80": 8}, {"V100": 4, "P100": 4})
    nodes = {f"node-{i:02}": kinds[i % 2] for i in range(50)}
    books = busy(tmp_path / "s", jobs=500, nodes=nodes, tenants=[f"group-{i}" for i in range(50)])
    text = page(seen(books))
    shown = Shown(text)
    assert len(text.encode()) < 1_000_000
    for note in (
        "jobs wait and are not shown",
        "jobs run and are not shown",
        "jobs are over and not shown",
        "of leases",
    ):
        assert note in shown.text
    assert "10 more tenants are not shown" in shown.text
    assert "44 other tenants" in shown.text


def test_seats_are_capped_and_those_that_are_gone_have_rows() -> None:
    span = history.Span("t", "j", "x", 0, "train", "gone", "K80", 1, 0.0, 9.0, None, True, 1, "")
    nodes = [{"name": "a", "gpus": {"K80": 3}}, {"name": "b", "gpus": {"V100": 500}}]
    found = gantt.rows(nodes, [span], most=10)
    assert found.number == {("a", "K80"): 3, ("b", "V100"): 7}
    assert found.left_out == 495
    assert gantt.rows(nodes[:1], [span]).number == {("a", "K80"): 3, ("gone", "K80"): 2}
    assert gantt.told([span, span], 10.0) == "j of x runs on 2 K80 of gone for 9s, granted in round 1"


def test_the_policy_of_content_allows_exactly_what_the_page_has(tmp_path: Path) -> None:
    books = Books(tmp_path / "s")
    for text, policy in ((page(seen(books)), POLICY), (page(seen(books), live=False), FILE_POLICY)):
        inner = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, re.DOTALL)
        for one in inner:
            assert f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" in policy
        assert len(inner) == policy.count("sha256")
        assert "unsafe" not in policy
    assert STYLE in notice("a", "b")
    assert "</" not in SCRIPT


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read(scheme: str) -> None:
    """WCAG asks for 4.5."""
    own = WORDS[scheme]
    for ground in (PAGES[scheme], own["soft"]):
        assert min(contrast(own[name], ground) for name in ("good", "warn", "bad")) > 4.5
    for colour in (*(LIGHT if scheme == "light" else DARK), own["rest"]):
        assert contrast(colour, letters_on(colour)) > 4.5
        assert contrast(colour, PAGES[scheme]) > 2.99


def test_markup_escapes_all_but_markup() -> None:
    assert tag("p", "<", Html("<b>"), title='"<', hidden=True, id=None, class_="c") == (
        '<p title="&quot;&lt;" hidden class="c">&lt;<b></p>'
    )
    assert lone("rect", x=1.25, y=3.0, stroke_width=2) == '<rect x="1.2" y="3" stroke-width="2"/>'
    assert joined("&", Html("&")) == "&amp;&"
    assert cut("abc", 3) == "abc"
    assert cut("abcd<", 4) == '<span title="abcd&lt;">abc…</span>'


def test_words() -> None:
    assert [words.rate(v) for v in (None, 0.0, 12.34, 0.5, 0.01, 1234567.0)] == [
        "", "", "12.3/s", "30/min", "36/h", "1,234,567/s"
    ]  # fmt: skip
    assert [words.plain(s) for s in (5, 90, 300, 3600, 7260, 86400)] == ["5s", "1m30s", "5m", "1h", "2h01m", "1d"]
    assert words.duration(1e12) == "> 30 years"
    assert words.duration(-3.0) == "0s"
    assert [words.gpu_time(s) for s in (59.4, 7200.0)] == ["59.4 GPU s", "2 GPU h"]
    assert words.rho(None) == ""
    assert words.rho(1.234) == "1.23"
    assert "≈ 1.23" in words.rho(1.234, sure=False)
    assert words.short(float("inf")) == "∞"


@pytest.mark.parametrize("length", [10.0, 59.0, 3600.0, 86400.0 * 3, 86400.0 * 900])
def test_the_axis_of_time_has_a_few_ticks(length: float) -> None:
    ticks = re.findall(r">([^<>]+)</text>", Time(1000.0, 1000.0 + length).axis(0.0, 10.0))
    assert ticks[0] == "now"
    assert 4 <= len(ticks) <= 10
    assert all(tick.endswith(" ago") for tick in ticks[1:])
    assert list(STEPS) == sorted(STEPS)


def test_once_writes_a_page_that_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    books, target = busy(tmp_path / "s", jobs=8), tmp_path / "page.html"
    dashboard(state=books.store.folder, once=target)
    assert capsys.readouterr().out == f"page: {target}\n"
    text = target.read_text()
    assert "as of 20" in text
    assert FILE_POLICY in text.replace("&#x27;", "'")
    assert str(fragment(seen(books)))[:30] in text
    with pytest.raises(UnusableFile, match="has no state"):
        dashboard(state=tmp_path / "none", once=target)


def test_a_job_that_was_never_profiled_has_a_speed_from_its_ticks(tmp_path: Path) -> None:
    """And the copies of a forked job do its steps together."""
    books = Books(tmp_path / "s")
    books.node("n", {"K80": 4})
    one, two = books.job("one"), books.job("two", of={"fork": True})
    lease = [(one, 0), (two, 1), (two, 2)]
    for i, (job, copy) in enumerate(lease):
        books.lease(job, [("n", "K80", i)], 9900.0, copy=copy, forked=copy > 0)
        folder = books.store.folder / "leases" / f"hetopt-{books.store.cluster}-{job}-{copy}-{i + 1}"
        folder.mkdir(parents=True)
        said = {"step": 101, "first_step": 1, "seconds": 50.0, "time": 0.0}
        (folder / "progress.json").write_text(json.dumps(said))
    speeds = {job["name"]: job["speed"] for job in seen(books).now.jobs}
    assert speeds == {"one": 2.0, "two": 4.0}


def test_the_demo_books_are_possible(tmp_path: Path) -> None:
    """Nobody has a GPU that another has: what the other tests look at is a cluster."""
    look = seen(busy(tmp_path / "s", nodes=LAB))
    seats: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for span in look.spans:
        seats.setdefault((span.node, span.gpu_type, span.number), []).append((span.granted, span.until))
    for own in seats.values():
        own.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(own))
