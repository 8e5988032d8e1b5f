"""Seconds of decisions as instances grow: a table, and its picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hetopt import Instance, InvalidOption, Plan
from hetopt.experiments.decision_times import decision_seconds
from hetopt.presentation.allocation_pictures import save_figure
from hetopt.presentation.line_charts import draw_decision_times


@dataclass
class Asked:
    """Counts what it is asked, and sees whether the instance has been looked at before."""

    seen: list[tuple[int, bool]]

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, None]:
        fresh = "_jobs" not in vars(instance)
        jobs = instance.entities("jobs")
        self.seen.append((len(jobs.names), fresh))
        return Plan(jobs, np.zeros(jobs.shape)), None


def of(jobs: int) -> Instance:
    return Instance.from_jobs(np.ones((jobs, 1)), 1, np.ones(jobs), [2])


def test_every_policy_decides_on_fresh_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks once a look: every decision takes one tick."""
    ticks = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    one, two = Asked([]), Asked([])
    looked_at = of(4)
    looked_at.entities("jobs")
    table = decision_seconds({"one": one, "two": two}, {4: [looked_at, of(4)], 2: [of(2)]})
    assert table.index.tolist() == [2, 4]
    assert one.seen == two.seen == [(2, True), (4, True), (4, True)]
    assert (table == 1.0).all().all()


def test_the_picture_has_a_line_for_each_policy(tmp_path: Path) -> None:
    table = pd.DataFrame({"hadar": [0.01, 0.1], "gavel": [0.02, 0.3]}, index=[32, 2048])
    (axes,) = draw_decision_times(table, "growth").axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.01, 0.1], [0.02, 0.3]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["hadar", "gavel"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["32", "2,048"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    narrow = draw_decision_times(table / 10 + 0.03).axes[0]
    low, high = narrow.get_ylim()
    assert sum(low <= at <= high for at in narrow.get_yticks()) >= 2, "within a power of ten, too"
    assert save_figure(draw_decision_times(table), tmp_path / "growth.svg").read_text().count("hadar")


def test_bad_input() -> None:
    for policies, instances in (({}, {1: [of(1)]}), ({"a": Asked([])}, {}), ({"a": Asked([])}, {1: []})):
        with pytest.raises(InvalidOption, match="decision_seconds needs a policy, a size, and an instance"):
            decision_seconds(policies, instances)
