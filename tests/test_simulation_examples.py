"""The simulator on FFT's Fig. 2, Table 1 and Fig. 3 and on OEF's Fig. 4 and 5b."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from simulated import MINUTE, SPEEDUPS, TYPES, Equal, Shortest, close, fig_2, oef_cluster, table_1

from hetopt import Instance, Overheads, instances, simulate
from hetopt.models import fft, gavel, oef
from hetopt.tolerances import EQUAL

# FFT's examples


def test_fft_fig_2_migrating_at_every_event_costs_a_quarter() -> None:
    """T4 0-5, A10 7-10, T4 12-15, A10 17-18 minutes: 18.0 = 1.25 · 14.4, with 2 minutes for each of three moves."""
    log = simulate(Shortest(by_left=False), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], 18.0 * MINUTE)
    assert log.jobs.loc["J4", "switches"] == 3
    assert log.jobs.loc[["J1", "J2"], "jct"].tolist() == [5 * MINUTE, 5 * MINUTE]
    spans = log.spans[log.spans["job"] == "J4"]
    assert spans["gpu_type"].tolist() == ["T4", "A10", "T4", "A10"]
    assert np.allclose(spans["end"], np.array([5, 10, 15, 18]) * MINUTE, rtol=EQUAL, atol=0)
    assert np.allclose(spans["lost"], np.array([0, 2, 2, 2]) * MINUTE, rtol=EQUAL, atol=0)
    assert np.allclose(spans["work"], [5, 4.8, 3, 1.6], rtol=EQUAL, atol=0)


def test_fft_fig_2_staying_is_better() -> None:
    log = simulate(Shortest(stay=True), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], 14.4 * MINUTE)
    assert log.jobs["switches"].sum() == 0


def test_fft_fig_2_is_not_strict_srtf() -> None:
    """At minute 10, J4 has 2.9 minutes left on A10 and J2 five: by remaining time J4 would keep the A10."""
    log = simulate(Shortest(by_left=True), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], (7 + 9.4 / 1.6) * MINUTE)


def test_fft_table_1_gavels_rates_take_64_ninths_of_a_minute() -> None:
    log = simulate(Equal(), table_1(), fluid=True)
    assert close(log.jobs["jct"].sum(), 64 / 9 * MINUTE)
    assert log.jobs["rounds"].isna().all()


@pytest.mark.parametrize("name", ["max_min_fairness", "mean_completion_time"])
def test_gavel_itself_takes_64_ninths(name: str) -> None:
    log = simulate(getattr(gavel, name)(), table_1(), fluid=True)
    assert close(log.jobs["jct"].sum(), 64 / 9 * MINUTE)


@pytest.mark.parametrize("round_seconds", [None, MINUTE])
def test_fft_table_1_migrating_once_takes_five_and_three_quarters(round_seconds: float | None) -> None:
    log = simulate(Shortest(), table_1(), round_seconds=round_seconds)
    assert close(log.jobs["jct"].sum(), 5.75 * MINUTE)
    if round_seconds:
        assert log.jobs["rounds"].tolist() == [2, 4]  # the finishing round counts


def test_fft_itself_reaches_five_and_three_quarters() -> None:
    log = simulate(fft.FFT(round_seconds=MINUTE), table_1())
    assert close(log.jobs["jct"].sum(), 5.75 * MINUTE)
    five = Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])
    assert {"arrival", "start", "finish", "jct"} <= set(simulate(fft.FFT(round_seconds=300.0), five).jobs.columns)


def test_fft_fig_3_migrating_every_round_leaves_three_fifths() -> None:
    """Halves of Table 1 in rounds, 40% of each lost by moving: utilisation 0.6 in every round but the first."""
    moving = Overheads(restart_seconds=0.4 * MINUTE)
    log = simulate(Equal(), table_1(1e6), round_seconds=MINUTE, overheads=moving, max_rounds=10)
    assert len(log.rounds) == 10
    assert np.allclose(log.rounds["utilisation"], [1.0] + 9 * [0.6], rtol=EQUAL, atol=0)
    assert log.jobs["switches"].tolist() == [9, 9]
    started = simulate(
        Equal(), table_1(1e6), round_seconds=MINUTE, max_rounds=10,
        overheads=Overheads(restart_seconds=0.4 * MINUTE, start_seconds=0.4 * MINUTE),
    )  # fmt: skip
    assert close(started.utilisation, 0.6)


def test_fft_fig_3_by_name_under_gavel() -> None:
    """Max-min fairness in whole rounds lets the jobs change places each time; checkpoints travel 120 of 300 s."""
    log = simulate(gavel.max_min_fairness(), instances.load("fft/fig3"), round_seconds=5 * MINUTE, max_rounds=10)
    assert np.allclose(log.rounds["utilisation"], [1.0] + 9 * [0.6], rtol=EQUAL, atol=0)


# OEF's dynamic examples


def level(weights: dict[str, float]) -> float:
    """Normalised throughput per unit of weight under non-cooperative OEF, by scipy on the program written by hand."""
    names, k = list(weights), len(TYPES)
    c = np.zeros(len(names) * k + 1)
    c[-1] = -1
    equal = np.zeros((len(names), len(c)))
    for i, name in enumerate(names):
        equal[i, i * k : i * k + k] = SPEEDUPS[name]
        equal[i, -1] = -weights[name]
    used = np.hstack([np.tile(np.eye(k), len(names)), np.zeros((k, 1))])
    return float(-linprog(c, A_ub=used, b_ub=np.full(k, 8.0), A_eq=equal, b_eq=np.zeros(len(names))).fun)


def rounding_error(kind: str, seconds: float, sides: int) -> float:
    """What whole GPUs can put off at most: deviations below one GPU of each type at the ends of the time looked at."""
    return sides * sum(SPEEDUPS[kind]) * MINUTE / seconds


def test_oef_fig_4_equal_throughput_before_and_after_a_tenant_leaves() -> None:
    four, three = level(dict.fromkeys(SPEEDUPS, 1.0)), level(dict.fromkeys(("lstm", "rnn", "transformer"), 1.0))
    long = 1e9
    rows = {"u1": [("lstm", 0.0, long)], "u2": [("rnn", 0.0, long)], "u3": [("transformer", 0.0, long)]}
    instance = oef_cluster({**rows, "u4": [("vgg", 0.0, four * 40 * MINUTE)]})
    log = simulate(oef.noncooperative(), instance, round_seconds=MINUTE, until=100 * MINUTE)
    done = log.jobs[log.jobs["tenant"] == "u4"]["finish"]
    assert done.notna().all()
    before, after = done.min() // MINUTE * MINUTE, (done.max() // MINUTE + 1) * MINUTE
    assert abs(done.max() - 40 * MINUTE) < 5 * MINUTE
    early, late = log.mean_throughput(0.0, before), log.mean_throughput(after, 100 * MINUTE)
    kinds = {"u1": "lstm", "u2": "rnn", "u3": "transformer", "u4": "vgg"}
    for tenant, kind in kinds.items():
        assert abs(early[tenant] - four) <= rounding_error(kind, before, 1)
    assert late["u4"] == 0
    for tenant in ("u1", "u2", "u3"):
        assert abs(late[tenant] - three) <= rounding_error(kinds[tenant], 100 * MINUTE - after, 2)
    assert three > four


def test_oef_fig_5b_a_second_job_type_halves_both() -> None:
    """From minute 40 each of u1's job types gets half of what the other tenants get."""
    long = 1e9
    instance = oef_cluster(
        {
            "u1": [("lstm", 0.0, long), ("vgg", 40 * MINUTE, long)],
            "u2": [("rnn", 0.0, long)],
            "u3": [("transformer", 0.0, long)],
        }
    )
    log = simulate(oef.noncooperative(), instance, round_seconds=MINUTE, until=100 * MINUTE)
    early, late = log.mean_throughput(0.0, 40 * MINUTE), log.mean_throughput(40 * MINUTE, 100 * MINUTE)
    before = level(dict.fromkeys(("lstm", "rnn", "transformer"), 1.0))
    after = level({"lstm": 0.5, "vgg": 0.5, "rnn": 1.0, "transformer": 1.0})
    for column, kind, weight in [
        ("u1/lstm", "lstm", 0.5),
        ("u1/vgg", "vgg", 0.5),
        ("u2", "rnn", 1),
        ("u3", "transformer", 1),
    ]:
        expected = 0.0 if kind == "vgg" else before
        assert abs(early[column] - expected) <= (rounding_error(kind, 40 * MINUTE, 1) if expected else 0.0)
        assert abs(late[column] - weight * after) <= rounding_error(kind, 60 * MINUTE, 2)
