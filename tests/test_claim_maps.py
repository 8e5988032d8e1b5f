"""Maps of headline claims: regions that are planted are found, ratios are those of the stored runs, loads are exact."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt.errors import InvalidOption
from hetopt.experiments.experiment import Experiment
from hetopt.experiments.run_store import RunStore
from hetopt.proofs.evaluations import map_page
from hetopt.proofs.evaluations.claim_maps import ClaimMaps, Condition, MapAxis, Point, point_name, region, sentence
from hetopt.proofs.evaluations.headline_maps import ASRPT, LOAD, MAPS, SINGLE
from hetopt.proofs.evaluations.recurring import Recurring, RecurringTrace, draw_trace
from hetopt.traces.offered_load import offered_load

Run = Callable[..., tuple[int, str, str]]

A, B = (MapAxis(name, name, f"{name} is {{}}", (1.0, 2.0, 3.0), 2.0) for name in "ab")
LINE = replace(A, values=(1.0, 2.0, 3.0, 4.0))


def table_of(inside: pd.Series, low: float = 0.5, high: float = 2.0) -> pd.DataFrame:
    return pd.DataFrame({"a": inside.index.get_level_values(0), "b": inside.index.get_level_values(1)}).assign(
        ratio=np.where(inside, low, high)
    )


GRID = pd.MultiIndex.from_product([A.values, B.values])


@given(st.sampled_from([1.0, 2.0, 3.0]), st.booleans(), st.sampled_from([1.0, 2.0, 3.0]), st.booleans(), st.booleans())
def test_a_planted_region_is_described_exactly(a: float, above: bool, b: float, over: bool, wins: bool) -> None:
    one, other = GRID.get_level_values(0), GRID.get_level_values(1)
    inside = pd.Series(((one >= a) if above else (one <= a)) & ((other >= b) if over else (other <= b)), index=GRID)
    table = table_of(inside if wins else ~inside)
    found = region(table, (A, B))
    assert found.right == found.points == len(GRID)
    described = pd.Series(True, index=table.index)
    for condition in found.conditions:
        described &= condition.holds(table)
    assert (described == (table["ratio"] < 1) if found.winning else described == (table["ratio"] >= 1)).all()
    planted = int(a > 1 if above else a < 3) + int(b > 1 if over else b < 3)
    assert len(found.conditions) <= planted


def test_sentences_by_hand() -> None:
    headline = replace(ASRPT.headlines[0], readings=dict(list(ASRPT.headlines[0].readings.items())[:1]))
    line = pd.DataFrame({"a": LINE.values, "ratio": [0.5, 0.8, 1.5, 1.2]})
    found = region(line, (LINE,))
    assert found.conditions == (Condition(LINE, 2.0, at_least=False),)
    text = "A-SRPT beats the best baseline when a is at most 2, but not otherwise: true of 4 of 4 points"
    assert sentence(headline, "", found) == f"{text}; ratio 0.50 to 1.50."
    for ratios, expected in (
        ([0.5, 0.5, 0.5, 0.5], "A-SRPT beats the best baseline at every point; ratio 0.50 to 0.50."),
        ([2.0, 2.0, 2.0, math.nan], "A-SRPT does not beat the best baseline at any point; ratio 2.00 to 2.00."),
        ([1.0, 1.0, 1.0, 1.0], "A-SRPT does not beat the best baseline at any point; ratio 1.00 to 1.00."),
        ([math.nan] * 4, "A-SRPT and the best baseline: no ratio is known."),
        (
            [0.5, 2.0, 0.5, 0.5],
            "A-SRPT beats the best baseline at 3 of 4 points, but not at the others; ratio 0.50 to 2.00.",
        ),
        (
            [0.5, 2.0, 2.0, 2.0],
            "A-SRPT beats the best baseline when a is 1, but not otherwise: true of 4 of 4 points; ratio 0.50 to 2.00.",
        ),
    ):
        assert sentence(headline, "", region(line.assign(ratio=ratios), (LINE,))) == expected


@pytest.fixture(scope="module")
def small() -> ClaimMaps:
    """One load, two shares of one-GPU jobs, and the baselines of one reading."""
    load, (headline,) = replace(LOAD, values=(1.1,)), ASRPT.headlines
    varied = (replace(SINGLE, values=(0.0, 0.7)), *(replace(axis, values=(axis.usual,)) for axis in ASRPT.varied[1:]))
    name, reading = next(iter(headline.readings.items()))
    kept = {reading.ours, *reading.others}

    def fewer(point: Point, jobs: int, seeds: tuple[int, ...]) -> Experiment:
        whole = ASRPT.experiment(point, jobs, seeds)
        return replace(whole, systems=tuple(system for system in whole.systems if system.label in kept))

    headlines = (replace(headline, readings={name: reading}),)
    return replace(ASRPT, load=load, varied=varied, headlines=headlines, experiment=fewer, jobs=25)


def test_ratios_are_those_of_the_stored_runs(
    small: ClaimMaps, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MAPS, "asrpt", small)
    command = ["reproduce", "asrpt", "--map", "--map-jobs", "25", "--seeds", "2", "--out", str(tmp_path / "m")]
    code, output, _ = run(*command)
    assert code == 0
    table, (headline,) = pd.read_csv(tmp_path / "m" / "maps.csv"), small.headlines
    assert len(table) == 2
    assert set(table["headline"]) == {headline.title}
    parts = {part.name: RunStore(tmp_path / "m" / part.name) for part in small.parts(2)}
    for point in small.points():
        (row,) = table[(table[list(point)] == pd.Series(point)).all(axis=1)].to_dict("records")
        reading, runs = headline.readings[row["reading"]], parts[point_name(point)].table()
        each = []
        for _, own in runs.groupby("seed"):
            total = own.set_index("system")["total_flow"]
            each.append(total["asrpt"] / min(total[label] for label in reading.others))
        assert row["ratio"] == pytest.approx(math.sqrt(each[0] * each[1]))
        assert [row["low"], row["high"]] == pytest.approx(sorted(each))
    page = (tmp_path / "m" / "maps.html").read_text()
    for text in map_page.sentences(small, small.table(parts))[headline.title]:
        assert text.split(";")[0] in page
        assert text.split(":")[0][:60] in " ".join(output.split())
    code, output, _ = run(*command, "--json")
    assert len(json.loads(output)) == len(table)
    code, _, problem = run("reproduce", "fft", *command[2:])
    assert (code, "is no point of these maps" in problem) == (2, True)
    code, _, problem = run("report", str(tmp_path / "m"))
    assert (code, " twice, in " in problem) == (2, True)


@pytest.mark.parametrize("paper", MAPS)
def test_points_are_distinct_and_the_first_has_its_load(paper: str) -> None:
    maps = MAPS[paper]
    points = list(maps.points())
    assert len(points) == len({point_name(point) for point in points})
    assert len(points) == len(maps.load.values) * (1 + sum(len(axis.values) - 1 for axis in maps.varied))
    for headline in maps.headlines:
        labels = {system.label for system in maps.parts()[0].experiment.systems}
        assert {label for own in headline.readings.values() for label in (own.ours, *own.others)} <= labels
        assert list(headline.printed) == sorted(headline.printed)
    part = replace(maps, jobs=60).parts()[0]
    part.experiment.check()
    (workload,) = part.experiment.workloads
    instance = workload.instance(0)
    if isinstance(workload, Recurring):
        seconds = draw_trace(workload.trace, 0).networks.seconds
        offered = sum(job.demand * job.work * seconds(job) for job in instance.jobs)
        gpus = sum(instance.cluster.capacity.values())
        load = offered / (gpus * (instance.jobs[-1].arrival - instance.jobs[0].arrival))
    else:
        load = offered_load(instance)
    assert load == pytest.approx(points[0]["load"])


def test_tails_keep_the_median_and_stretch_the_rest() -> None:
    usual, heavy = (draw_trace(RecurringTrace(200, tail=tail), 0).past["duration"] for tail in (1.0, 1.5))
    whole = pd.concat([usual, draw_trace(RecurringTrace(200), 0).later["duration"]])
    assert heavy.tolist() == pytest.approx((whole.median() * (usual / whole.median()) ** 1.5).tolist())


def test_options_that_exclude_each_other_are_refused(run: Run, tmp_path: Path) -> None:
    for options, key in (
        (["--map-jobs", "30"], "--map-jobs"),
        (["--map", "--map-jobs", "5"], "--map-jobs"),
        (["--map", "--parts", "testbed"], "--parts"),
        (["--map", "--scale", "0.5"], "--scale"),
    ):
        code, _, problem = run("reproduce", "asrpt", "--out", str(tmp_path), *options)
        assert code == 2
        assert key in problem
    for options in ({"rate": 2.0}, {"jobs": 1}):
        with refused(InvalidOption, "Recurring.load"):
            Recurring(**{"jobs": 5, "trace": RecurringTrace(50), "load": 0.5, **options})
