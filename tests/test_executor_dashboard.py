"""What the dashboard reads from the state database: leases, shares, fairness, losses."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dashboard_state import RecordedState, seen
from metric_cases import log_of

from hetopt import Cluster, Instance, Job
from hetopt.executor.dashboard import reader
from hetopt.executor.dashboard.page import runs
from hetopt.executor.dashboard.reader import fairness
from hetopt.executor.lease_directory import LOSSES
from hetopt.executor.losses import POINTS, newest_curves, recent_curve
from hetopt.executor.snapshot import Snapshot
from hetopt.metrics.finish_time import finish_time_fairness

# -- history


def test_a_lease_has_a_span_for_each_seat(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    a, b = recorded.job("a", of={"tenant": "x"}), recorded.job("b", of={"tenant": "y"})
    recorded.lease(a, [("n", "K80", 1), ("n", "K80", 0)], 100.0, 200.0, first_tick=110.0, round=3, stop_reason="moves")
    recorded.lease(b, [("m", "V100", 0)], 150.0, kind="profile", copy=2, round=4)
    recorded.lease(a, [("m", "V100", 1)], 10.0, 50.0)
    with recorded.database.reading() as connection:
        spans, since = reader.spans_of(connection, 60.0, 300.0)
    assert since == 60.0
    assert [(s.job, s.tenant, s.copy, s.kind, s.node, s.gpu_type, s.number) for s in spans] == [
        ("a", "x", 0, "train", "n", "K80", 0),
        ("a", "x", 0, "train", "n", "K80", 1),
        ("b", "y", 2, "profile", "m", "V100", 0),
    ]
    assert [(s.granted, s.until, s.first_tick, s.open, s.round, s.reason) for s in spans[1:]] == [
        (100.0, 200.0, 110.0, False, 3, "it moves to other GPUs"),
        (150.0, 300.0, None, True, 4, ""),
    ]
    assert [[s.number for s in run] for run in runs(spans)] == [[0, 1], [0]]


def test_gpus_whose_numbers_change_keep_their_rows(tmp_path: Path) -> None:
    """The first is lost, so the second becomes the first, and so on."""
    recorded = RecordedState(tmp_path / "s")
    job = recorded.job("a")
    for number, device, granted in [(1, "GPU-1", 10.0), (1, "GPU-2", 30.0), (0, "GPU-1", 60.0), (0, "GPU-0", 80.0)]:
        lease = recorded.lease(job, [("n", "H200", number)], granted, granted + 40.0)
        with recorded.writing() as connection:
            connection.update("seats", {"device": device}, "lease = :lease", lease=lease)
    with recorded.database.reading() as connection:
        spans, _ = reader.spans_of(connection, 0.0, 300.0)
    assert [span.number for span in spans] == [1, 0, 1, 2]


def test_only_the_newest_leases_are_shown_from_a_time_on_without_gaps(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    job = recorded.job("a")
    for end in (40.0, 10.0, 30.0, 20.0):
        recorded.lease(job, [("n", "K80", 0)], end - 9.0, end)
    recorded.lease(job, [("n", "K80", 0)], 5.0)
    with recorded.database.reading() as connection:
        spans, since = reader.spans_of(connection, 0.0, 60.0, most=3)
        assert since == 20.0
        assert sorted(span.until for span in spans) == [30.0, 40.0, 60.0]
        assert reader.spans_of(connection, 0.0, 60.0, most=5)[1] == 0.0


def test_the_page_shows_an_hour_or_twelve_rounds(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    job = recorded.job("a")
    with recorded.database.reading() as connection:
        assert reader.window_begin(connection, 10_000.0, 10_000.0, None) == 6400.0
    recorded.lease(job, [("n", "K80", 0)], 100.0, 6000.0)
    with recorded.database.reading() as connection:
        assert reader.window_begin(connection, 10_000.0, 10_000.0, 300.0) == 6400.0
        assert reader.window_begin(connection, 10_000.0, 10_000.0, 600.0) == 2800.0
        assert reader.window_begin(connection, 10_000.0, 10_000.0, 3600.0) == 100.0, "nothing was before"
        assert reader.window_begin(connection, 105.0, 105.0, None) == 95.0, "some seconds at least"


def test_gpus_held_by_tenants_by_hand(tmp_path: Path) -> None:
    """X has two GPUs for the first half of 200 s, y one from its middle on."""
    recorded = RecordedState(tmp_path / "s")
    x, y = recorded.job("a", of={"tenant": "x"}), recorded.job("b", of={"tenant": "y"})
    recorded.lease(x, [("n", "K80", 0), ("n", "K80", 1)], 90.0, 200.0)
    recorded.lease(y, [("n", "K80", 2)], 150.0)
    recorded.lease(y, [("n", "K80", 3)], 10.0, 60.0)
    with recorded.database.reading() as connection:
        assert list(reader.usage_of(connection, 100.0, 300.0).items()) == [("x", 200.0), ("y", 150.0)]
        assert reader.usage_of(connection, 0.0, 300.0) == {"x": 220.0, "y": 200.0}


def test_rounds_include_the_one_before_the_window(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    for number, (time, capacity) in enumerate([(0.0, 4), (100.0, 4), (200.0, 6), (300.0, 6)], start=1):
        recorded.round(number, time, capacity, policy="p")
    with recorded.database.reading() as connection:
        found = reader.rounds_of(connection, 150.0)
    assert [one["number"] for one in found] == [2, 3, 4]


def test_the_engine_is_of_the_newest_controller(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    assert seen(recorded).engine is None
    recorded.controller()
    with recorded.database.writing() as connection:
        recorded.database.record_event(connection, "controller", policy="fft", engine="slurm")
    assert seen(recorded).engine == "slurm"


# -- fairness


def snapshot(now: float, nodes: dict[str, int], jobs: list[dict[str, Any]]) -> Snapshot:
    """One node; jobs with what fairness reads."""
    known = {"tenant": "t", "state": "running", "workers": 1, "step": 0, "finished": None, "left_seconds": None}
    rows = [
        known | {"seconds": (now if job.get("finished") is None else job["finished"]) - job["submitted"]} | job
        for job in jobs
    ]
    node = {"name": "n", "state": "up", "gpus": nodes, "used": {}, "note": ""}
    return Snapshot(now, 1, "fft", 1, 300.0, None, [node], rows, [])


def test_fairness_by_hand() -> None:
    """X stays 100 s, half of it with y: N = 1.5. Its own 1/N is 4/3 of a K80 and 2/3 of a V100.

    On V100 it would be 2/3 of the time at 4 steps a second, the rest on K80 at 1: three a second, 200 steps in 66.7 s.
    y has room on K80 alone: 4/3 GPUs at one step a second each; it has 40 s left of its 100 steps.
    """
    x = {"name": "x", "submitted": 0.0, "finished": 100.0, "state": "done", "steps": 200}
    y = {"name": "y", "submitted": 50.0, "steps": 100, "step": 20, "workers": 2, "left_seconds": 40.0}
    now = snapshot(
        150.0,
        {"K80": 2, "V100": 1},
        [x | {"speeds": {"K80": 1.0, "V100": 4.0}}, y | {"speeds": {"K80": 2.0, "V100": 9.0}}],
    )
    found = fairness(now, {"y"})
    assert found["shared"].to_dict() == {"x": 100.0, "y": 140.0}
    assert found["ideal"].to_dict() == pytest.approx({"x": 200 / 3, "y": 75.0})
    assert found["rho"].to_dict() == pytest.approx({"x": 1.5, "y": 140 / 75})
    assert found["estimated"].to_dict() == {"x": False, "y": True}, "y is not measured on all types"


def test_jobs_of_unknown_fairness_are_left_out() -> None:
    rates = {"speeds": {"K80": 2.0}}
    jobs = [
        {"name": "waits", "submitted": 0.0, "state": "queued", "steps": 100, "step": 40} | rates,
        {"name": "unmeasured", "submitted": 0.0, "steps": 100, "speeds": {}},
        {"name": "failed", "submitted": 0.0, "finished": 50.0, "state": "failed", "steps": 100} | rates,
        {"name": "wide", "submitted": 0.0, "workers": 3, "steps": 100, "left_seconds": 1.0} | rates,
        {"name": "new", "submitted": 100.0, "steps": 100, "left_seconds": 1.0} | rates,
        {"name": "elsewhere", "submitted": 0.0, "steps": 100, "left_seconds": 1.0, "speeds": {"gone": 1.0}},
    ]
    found = fairness(snapshot(100.0, {"K80": 2}, jobs))
    assert found["shared"].to_dict() == {"waits": 130.0}, "60 steps at its fastest measured speed"
    assert found["estimated"].all()
    assert fairness(snapshot(0.0, {}, [])).empty


@pytest.mark.parametrize("seed", range(8))
def test_fairness_of_finished_jobs_equals_that_of_simulations(seed: int) -> None:
    draw = random.Random(seed)
    capacity = {"A": draw.randint(2, 6), "B": draw.randint(1, 4)}
    jobs, rows = [], []
    for i in range(12):
        demand, arrival = draw.randint(1, 2), draw.uniform(0, 50)
        finish = arrival + draw.uniform(1, 100)
        speeds = {"A": draw.uniform(0.5, 4), "B": draw.uniform(0.5, 4)}
        jobs.append(Job(f"j{i}", speeds, 500.0, demand, arrival))
        fields = {"submitted": arrival, "finished": finish, "state": "done", "steps": 500, "workers": demand}
        rows.append({"name": f"j{i}", "speeds": speeds} | fields)
    done = [(row["name"], None, row["submitted"], 0.0, row["finished"], 0, 500.0, 500.0) for row in rows]
    log = log_of(done, [], [0.0, 200.0], float(sum(capacity.values())))
    expected = finish_time_fairness(log, Instance(Cluster.of(capacity), (), tuple(jobs)))["rho"]
    found = fairness(snapshot(200.0, capacity, rows))
    assert found["rho"].to_dict() == pytest.approx(expected.to_dict())


def test_gpu_types_without_a_measurement_are_listed(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    recorded.node("n", {"K80": 2, "V100": 1})
    recorded.speed(recorded.job("all", of={"workers": 2}), K80=1.0)  # V100 has no room for two
    recorded.speed(recorded.job("some"), K80=1.0)
    recorded.speed(recorded.job("picky", of={"gpu_types": ["K80"]}), K80=1.0)
    recorded.job("none")
    with recorded.database.reading() as connection:
        assert reader.unmeasured(connection, {"K80": 2, "V100": 1}) == {"some", "none"}


# -- losses


def test_curves_leave_out_lost_steps(tmp_path: Path) -> None:
    for name, start, end in (("one", 0, 30), ("two", 20, 40)):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"step": step, "loss": step + 0.5}) for step in range(start + 1, end + 1)]
        (tmp_path / name / LOSSES).write_text(
            "\n".join([*lines, '{"step": 41, "lo', "", "[[", '{"step": 1, "loss": NaN}'])
        )
    found = recent_curve([(0, tmp_path / "one"), (20, tmp_path / "gone"), (20, tmp_path / "two")])
    assert [step for step, _ in found] == list(range(1, 41))
    assert all(loss == step + 0.5 for step, loss in found)


def test_a_long_file_of_losses_is_sampled_over_all_of_it(tmp_path: Path) -> None:
    lines = (json.dumps({"step": step, "loss": 1 / step, "copy": 0, "base": 0}) for step in range(1, 50_001))
    (tmp_path / LOSSES).write_text("".join(f"{line}\n" for line in lines))
    steps = [step for step, _ in recent_curve([(0, tmp_path)])]
    assert len(steps) == POINTS
    assert steps == sorted(steps)
    assert steps[0] == 1
    assert steps[-1] > 49_900
    assert np.diff(steps).max() < 2 * 50_000 / POINTS


def test_curves_are_of_the_newest_leases_that_train(tmp_path: Path) -> None:
    recorded = RecordedState(tmp_path / "s")
    a, b = recorded.job("a"), recorded.job("b")
    recorded.lease(a, [], 0.0, 1.0, kind="profile")
    for i in range(9):
        recorded.lease(a, [], 2.0 + i, 3.0 + i, from_step=i)
    for copy in (1, 2):
        recorded.lease(b, [], 0.0, forked=True, copy=copy)
    with recorded.database.reading() as connection:
        for number, tag in connection.execute("SELECT id, tag FROM leases"):
            folder = recorded.renew(tag)
            (folder / LOSSES).write_text("".join(f'{{"step": {s}, "loss": {number}}}\n' for s in range(1, 13)))
        found = newest_curves(connection, ["a", "b"], recorded.database.folder / "leases")
    assert found["a"] == [(step, {9: 9.0}.get(step, min(step + 1, 10.0))) for step in range(4, 9)] + [
        (s, 10.0) for s in range(9, 13)
    ]
    assert found["b"] == [(step, 11.0) for step in range(1, 13)]
