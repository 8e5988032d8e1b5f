"""The page of the dashboard: all that is in the state database, and all text is escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from dashboard_state import LAB, RecordedState, busy, seen
from matplotlib.figure import Figure

from hetopt.errors import UnusableFile
from hetopt.executor import status_view
from hetopt.executor.commands import dashboard
from hetopt.executor.dashboard import page as pages
from hetopt.executor.dashboard.page import FILE_POLICY, POLICY, fragment, notice, page
from hetopt.executor.dashboard.reader import Span
from hetopt.presentation import terminal
from hetopt.presentation.gantt import time_axis
from hetopt.presentation.pages import source_hash, stylesheet


class Shown(HTMLParser):
    """Tags and visible text of a page."""

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


def test_text_of_users_is_escaped_everywhere(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    recorded.node("n", {"K80<b>": 2}, note=EVIL)
    recorded.node("<i>m", {"K80": 1}, up=False)
    for i, state in enumerate(("queued", "failed", "queued")):
        job = recorded.job(
            f"job{i}", tenant=f"<u>{i}", state=state, reason=EVIL, finished=None if state == "queued" else 9.0
        )
    recorded.lease(job, [("n", "K80<b>", 0), ("<s>gone", "K80", 1)], 9990.0)
    recorded.speed(job, **{"K80<b>": 2.0})
    recorded.controller(policy=f"fft{EVIL}")
    recorded.round(1, 9995.0, 3, policy=EVIL)
    text = page(seen(recorded))
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
        assert {place for place in places if not str(place).startswith("#")} == {"data:,"}
        ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert ("script" in {name for name, _ in shown.tags}) == live


def test_every_table_has_headings_and_every_picture_a_text(tmp_path: Path) -> None:
    shown = Shown(page(seen(busy(tmp_path / "s"))))
    assert [name for name, _ in shown.tags].count("table") == 5
    assert all(attributes.get("scope") in ("col", "row") for name, attributes in shown.tags if name == "th")
    drawn = [attributes for name, attributes in shown.tags if name == "svg"]
    (picture,) = [attributes for attributes in drawn if attributes.get("role") == "img"]
    assert picture["aria-label"] == "leases over time by GPU"
    assert all(("aria-label" in attributes) != ("aria-hidden" in attributes) for attributes in drawn)


def test_the_busy_page_shows_what_is_in_the_state_database(tmp_path: Path) -> None:
    recorded = busy(tmp_path / "s")
    recorded.database.lock()
    state = seen(recorded)
    text, shown = page(state), Shown(page(state)).text
    assert "Policy fft on engine local, round 12 (decided in 34 ms: 10 of 31 jobs), rounds of 5 min" in shown
    assert "the controller is alive" in shown
    assert "4 up, 1 drained" in shown
    assert "Duplicate jobid <17>" in shown
    for job in state.snapshot.jobs:
        assert job["name"] in shown
    assert "other jobs have priority in this round" in shown
    assert "overdue" not in shown
    assert "1.03 h" in shown
    tips = re.findall(r"<title>([^<]*)</title><path", text)
    bars = [tip for tip in tips if "granted in round" in tip]
    assert len(bars) == len(pages.runs(state.spans))
    assert any(re.search(r" is profiled on \d K80 of n1 for 1 min", tip) for tip in bars)
    assert any("in round 11: it moves" in tip for tip in bars)
    assert [tip.split(":")[0] for tip in tips if "decided in 34 ms" in tip] == [f"round {i}" for i in range(2, 13)]
    assert text.count('class="sparkline"') == 8


def test_terminals_and_the_page_have_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``hetopt status`` leaves out what it does not compute: fairness and losses."""
    state = seen(busy(tmp_path / "s"))
    shown = Shown(page(state)).text
    monkeypatch.setattr(terminal.OUT, "_width", 400)
    monkeypatch.setattr(terminal, "TEXT_WIDTH", 400)
    status_view.show(state.snapshot, everything=True)
    printed = " ".join(capsys.readouterr().out.split())
    status = status_view.status_of(state.snapshot)
    assert [number for number, _ in status.tiles] == ["8", "23", "5", "13 of 20"]
    for section in status.sections.values():
        assert section.table.rows
        for text in (section.title, section.table.title, *(cell.text for row in section.table.rows for cell in row)):
            assert " ".join(text.split()) in printed
            assert " ".join(text.split()) in shown
    assert "≈" in shown
    assert "≈" not in printed


def test_watch_prints_the_status_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = seen(busy(tmp_path / "s", jobs=6)).snapshot
    status_view.show(now)
    once = capsys.readouterr().out
    with pytest.raises(StopIteration):
        status_view.watch(iter([now, now]).__next__, every=0.0)
    assert capsys.readouterr().out == 2 * once


def test_pictures_are_drawn_once_per_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, drawn = [seen(busy(tmp_path / name, jobs=6)) for name in "ab"], []
    before = pages.leases
    monkeypatch.setattr(pages, "leases", lambda state: drawn.append(state) or before(state))
    for state in (states[0], states[0], states[1], states[1]):
        assert fragment(state) in page(state)
    assert drawn == states


def test_an_empty_state_shows_the_next_command(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    text = Shown(page(seen(recorded))).text
    for sentence in (
        "No controller has run yet.",
        "No controller runs, so nothing is decided; start one with hetopt run .",
        "No engine has reported a node yet.",
        "No job is pending; hetopt submit submits one.",
        "No job is running.",
        "No job has had a GPU recently.",
        "There are no jobs, so no tenants.",
        "No job has finished yet.",
    ):
        assert sentence in text
    assert "to the next round" not in text


def test_the_page_shows_a_missing_controller_and_a_late_round(tmp_path: Path) -> None:
    recorded = busy(tmp_path / "s", jobs=12)
    assert "Running jobs continue until their leases expire." in Shown(page(seen(recorded))).text
    recorded.facts(next_round=repr(recorded.now - 400.0))
    recorded.database.lock()
    assert "The next round is overdue by 6.6" in Shown(page(seen(recorded))).text


def test_the_page_of_a_large_cluster_is_small(tmp_path: Path) -> None:
    kinds = ({"K80": 8}, {"V100": 4, "P100": 4})
    nodes = {f"node-{i:02}": kinds[i % 2] for i in range(50)}
    recorded = busy(tmp_path / "s", jobs=500, nodes=nodes, tenants=[f"group-{i}" for i in range(50)])
    text = page(seen(recorded))
    shown = Shown(text)
    assert len(text.encode()) < 1_000_000
    left_out = re.findall(r"(\d+) more are not shown; hetopt status --all", shown.text)
    assert len(left_out) == 3
    assert all(int(number) > 0 for number in left_out)
    assert "too many leases to begin earlier" in shown.text
    assert "10 more tenants are not shown" in shown.text
    assert "44 other tenants" in shown.text


def test_seats_are_capped_and_removed_ones_have_rows() -> None:
    span = Span("t", "j", "x", 0, "train", "gone", "K80", 1, 0.0, 9.0, None, True, 1, "")
    nodes = [{"name": "a", "gpus": {"K80": 3}}, {"name": "b", "gpus": {"V100": 500}}]
    found, left_out = pages.gpu_rows(nodes, [span], most=10)
    assert found == {("a", "K80"): 3, ("b", "V100"): 7}
    assert left_out == 495
    assert pages.gpu_rows(nodes[:1], [span])[0] == {("a", "K80"): 3, ("gone", "K80"): 2}
    assert pages.lease_tip([span, span], 10.0) == "j of x runs on 2 K80 of gone for 9 s, granted in round 1"


def test_the_content_security_policy_allows_exactly_what_the_page_has(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    for text, policy in ((page(seen(recorded)), POLICY), (page(seen(recorded), live=False), FILE_POLICY)):
        inner = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, re.DOTALL)
        assert all(source_hash(one) in policy for one in inner)
        assert len(inner) == policy.count("sha256")
        assert "unsafe" not in policy
    assert stylesheet() in notice("a", "b")


@pytest.mark.parametrize("length", [10.0, 59.0, 3600.0, 86400.0 * 3, 86400.0 * 900])
def test_the_axis_of_time_has_a_few_ticks(length: float) -> None:
    axes = Figure().subplots()
    time_axis(axes, 1000.0, 1000.0 + length, ago=True)
    ticks = [axes.xaxis.get_major_formatter()(place, i) for i, place in enumerate(axes.get_xticks())]
    assert ticks[0] == "now"
    assert 3 <= len(ticks) <= 8
    assert all(tick.endswith(" ago") for tick in ticks[1:])


def test_once_writes_a_self_contained_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded, target = busy(tmp_path / "s", jobs=8), tmp_path / "page.html"
    dashboard(state=recorded.database.folder, once=target)
    assert capsys.readouterr().out == f"page: {target}\n"
    text = target.read_text()
    dashboard(state=recorded.database.folder, once=Path("-"))
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert "as of 20" in text
    assert FILE_POLICY in text.replace("&#39;", "'")
    assert fragment(seen(recorded))[:30] in text
    with pytest.raises(UnusableFile, match="has no state"):
        dashboard(state=tmp_path / "none", once=target)


def test_a_job_that_was_never_profiled_has_a_speed_from_its_ticks(tmp_path: Path) -> None:
    """The speeds of a forked job's copies add up."""
    recorded = RecordedState(tmp_path / "s")
    recorded.node("n", {"K80": 4})
    one, two = recorded.job("one"), recorded.job("two", of={"fork": True})
    lease = [(one, 0), (two, 1), (two, 2)]
    for i, (job, copy) in enumerate(lease):
        recorded.lease(job, [("n", "K80", i)], 9900.0, copy=copy, forked=copy > 0)
        folder = recorded.database.folder / "leases" / f"hetopt-{recorded.database.cluster}-{job}-{copy}-{i + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        progress = {"step": 101, "first_step": 1, "seconds": 50.0, "time": 0.0}
        (folder / "progress.json").write_text(json.dumps(progress))
    speeds = {job["name"]: job["speed"] for job in seen(recorded).snapshot.jobs}
    assert speeds == {"one": 2.0, "two": 4.0}


def test_no_gpu_of_the_demo_state_is_held_twice(tmp_path: Path) -> None:
    """The random state of the other tests is a possible cluster."""
    state = seen(busy(tmp_path / "s", nodes=LAB))
    seats: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for span in state.spans:
        seats.setdefault((span.node, span.gpu_type, span.number), []).append((span.granted, span.until))
    for own in seats.values():
        own.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(own))
