from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import hetopt
from hetopt import (
    Allocation,
    Cluster,
    Formulation,
    Instance,
    InvalidOption,
    InvalidPlan,
    Job,
    JobType,
    Overheads,
    Plan,
    Server,
    Stalled,
    Tenant,
    simulate,
)
from hetopt.models import oef
from hetopt.models.objectives import TotalRate
from hetopt.tolerances import EQUAL

MINUTE = 60.0


def close(value: float, expected: float) -> bool:
    return abs(value - expected) <= EQUAL * max(1.0, abs(expected))


@dataclass(frozen=True)
class Shortest:
    """Shortest job first: each takes its fastest free GPU type. By work left (SRTF) or total work; may stay put."""

    by_left: bool = True
    stay: bool = False
    round_seconds: float | None = None

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        size = instance.job_array("work_left" if self.by_left else "work") / jobs.speed.max(axis=1)
        held = jobs.held if jobs.held is not None else np.zeros(jobs.shape)
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        first = [i for i in range(len(size)) if self.stay and held[i].any()]
        for i in [*first, *(i for i in np.argsort(size, kind="stable").tolist() if i not in first)]:
            types = np.flatnonzero(held[i]) if i in first else np.argsort(-jobs.speed[i], kind="stable")
            fits = [k for k in types if jobs.allowed[i, k] and free[k] >= jobs.demand[i]]
            if fits:
                x[i, fits[0]] = jobs.demand[i]
                free[fits[0]] -= jobs.demand[i]
        return Plan(jobs, x), None


@dataclass(frozen=True)
class Equal:
    """Every job the same part of the time on each GPU type: what Gavel finds for [FFT, Table 1]."""

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        jobs = instance.entities("jobs")
        certificate: Any = None
        return Allocation(jobs, np.full(jobs.shape, 1 / len(jobs.names)), certificate), None


@dataclass(frozen=True)
class Nothing:
    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        return Plan(jobs, np.zeros(jobs.shape)), None


@dataclass(frozen=True)
class Fixed:
    """The same GPUs in every decision."""

    gpus: tuple[tuple[float, ...], ...]

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        return Plan(instance.entities("jobs"), np.array(self.gpus)), None


# -- FFT's examples


def fig_2() -> Instance:
    """J1 and J2 take 5 min on A10; J4 14.4 min on T4, 1.6 times as fast on A10. Work in T4-minutes (J1, J2: A10)."""
    short = {"T4": 1 / (2.71 * MINUTE), "A10": 1 / MINUTE}
    long = {"T4": 1 / MINUTE, "A10": 1.6 / MINUTE}
    jobs = (Job("J1", short, 5.0), Job("J2", short, 5.0, arrival=10 * MINUTE), Job("J4", long, 14.4))
    return Instance(Cluster.of({"T4": 1, "A10": 1}), jobs=jobs)


def test_fft_fig_2_migrating_at_every_event_costs_a_quarter() -> None:
    """T4 0-5, A10 7-10, T4 12-15, A10 17-18 minutes: 18.0 = 1.25 · 14.4, with 2 minutes for each of three moves."""
    log = simulate(Shortest(by_left=False), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], 18.0 * MINUTE)
    assert log.jobs.loc["J4", "switches"] == 3
    assert log.jobs.loc[["J1", "J2"], "jct"].tolist() == [5 * MINUTE, 5 * MINUTE]
    spans = log.spans[log.spans["job"] == "J4"]
    assert spans["gpu_type"].tolist() == ["T4", "A10", "T4", "A10"]
    assert np.allclose(spans["end"], np.array([5, 10, 15, 18]) * MINUTE, rtol=EQUAL)
    assert np.allclose(spans["lost"], np.array([0, 2, 2, 2]) * MINUTE, rtol=EQUAL)
    assert np.allclose(spans["work"], [5, 4.8, 3, 1.6], rtol=EQUAL)


def test_fft_fig_2_staying_is_better() -> None:
    log = simulate(Shortest(stay=True), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], 14.4 * MINUTE)
    assert log.jobs["switches"].sum() == 0


def test_fft_fig_2_is_not_strict_srtf() -> None:
    """At minute 10, J4 has 2.9 minutes left on A10 and J2 five: by remaining time J4 would keep the A10."""
    log = simulate(Shortest(by_left=True), fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert close(log.jobs.loc["J4", "jct"], (7 + 9.4 / 1.6) * MINUTE)


def table_1(work: float = 16.0) -> Instance:
    return Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [work, work], [1, 1], round_seconds=MINUTE)


def test_fft_table_1_gavels_rates_take_64_ninths_of_a_minute() -> None:
    log = simulate(Equal(), table_1(), fluid=True)
    assert close(log.jobs["jct"].sum(), 64 / 9 * MINUTE)
    assert log.jobs["rounds"].isna().all()


@pytest.mark.parametrize("name", ["max_min_fairness", "mean_completion_time"])
def test_gavel_itself_takes_64_ninths(name: str) -> None:
    gavel = pytest.importorskip("hetopt.models.gavel.policies", reason="the models of Gavel are not there yet")
    log = simulate(getattr(gavel, name)(), table_1(), fluid=True)
    assert close(log.jobs["jct"].sum(), 64 / 9 * MINUTE)


@pytest.mark.parametrize("round_seconds", [None, MINUTE])
def test_fft_table_1_migrating_once_takes_five_and_three_quarters(round_seconds: float | None) -> None:
    log = simulate(Shortest(), table_1(), round_seconds=round_seconds)
    assert close(log.jobs["jct"].sum(), 5.75 * MINUTE)
    if round_seconds:
        assert log.jobs["rounds"].tolist() == [2, 4]  # the finishing round counts


def test_fft_itself_reaches_five_and_three_quarters() -> None:
    fft = pytest.importorskip("hetopt.models.fft.policy", reason="the model of FFT is not there yet")
    log = simulate(fft.FFT(round_seconds=MINUTE), table_1())
    assert close(log.jobs["jct"].sum(), 5.75 * MINUTE)
    five = Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])
    assert {"arrival", "start", "finish", "jct"} <= set(simulate(fft.FFT(round_seconds=300.0), five).jobs.columns)


def test_fft_fig_3_migrating_every_round_leaves_three_fifths() -> None:
    """Halves of Table 1 in rounds, 40% of each lost by moving: utilisation 0.6 in every round but the first."""
    moving = Overheads(restart_seconds=0.4 * MINUTE)
    log = simulate(Equal(), table_1(1e6), round_seconds=MINUTE, overheads=moving, max_rounds=10)
    assert len(log.rounds) == 10
    assert np.allclose(log.rounds["utilisation"], [1.0] + 9 * [0.6], rtol=EQUAL)
    assert log.jobs["switches"].tolist() == [9, 9]
    started = simulate(
        Equal(), table_1(1e6), round_seconds=MINUTE, max_rounds=10,
        overheads=Overheads(restart_seconds=0.4 * MINUTE, start_seconds=0.4 * MINUTE),
    )  # fmt: skip
    assert close(started.utilisation, 0.6)


# -- OEF's dynamic examples

SPEEDUPS = {"lstm": (1, 1.55, 2.15), "rnn": (1, 1.4, 1.9), "transformer": (1, 1.3, 1.6), "vgg": (1, 1.2, 1.4)}
TYPES = ("3070", "3080", "3090")


def oef_cluster(rows: dict[str, list[tuple[str, float, float]]]) -> Instance:
    """8 GPUs of each type. Tenant -> (kind of jobs, arrival, total work in seconds on one 3070), each in 24 jobs."""
    tenants, jobs = [], []
    for tenant, kinds in rows.items():
        table = {kind: dict(zip(TYPES, map(float, SPEEDUPS[kind]), strict=True)) for kind, _, _ in kinds}
        tenants.append(Tenant(tenant, tuple(JobType(kind, table[kind]) for kind, _, _ in kinds)))
        jobs += [
            Job(f"{tenant}-{kind}-{i}", table[kind], work / 24, arrival=arrival, tenant=tenant, job_type=kind)
            for kind, arrival, work in kinds
            for i in range(24)
        ]
    return Instance(Cluster.of(dict.fromkeys(TYPES, 8), gpus_per_server=4), tuple(tenants), tuple(jobs))


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


# -- the engine's own rules


def test_jobs_that_arrive_or_finish_within_a_round() -> None:
    """A late comer waits for the next round, and gets the GPU of one that finished only at the round's end."""
    rows = (
        Job("a", {"G": 1.0}, 70.0),
        Job("b", {"G": 1.0}, 30.0, arrival=10.0),
        Job("c", {"G": 1.0}, 5.0, arrival=500.0),
    )
    log = simulate(Shortest(), Instance(Cluster.of({"G": 1}), jobs=rows), round_seconds=MINUTE)
    # Round 1: a. Round 2: a (10 s left, shorter than b) until 70. Round 3: b. Nothing until c's round at 540.
    assert log.jobs["start"].tolist() == [0.0, 120.0, 540.0]
    assert log.jobs["finish"].tolist() == [70.0, 150.0, 545.0]
    assert log.jobs["starvation"].tolist() == [0.0, 110.0, 40.0]
    assert log.jobs["rounds"].tolist() == [2, 2, 1]
    assert log.rounds["start"].tolist() == [0.0, 60.0, 120.0, 540.0]
    assert log.rounds["end"].tolist() == [60.0, 120.0, 180.0, 600.0]
    assert log.makespan == 545.0
    assert close(log.utilisation, 105 / 240)


def test_events_are_in_a_total_order() -> None:
    """At the same second: finishes, then arrivals, then the decision."""
    rows = (Job("a", {"G": 1.0}, 60.0), Job("b", {"G": 1.0}, 60.0, arrival=60.0))
    for seconds in (None, MINUTE):
        log = simulate(Shortest(), Instance(Cluster.of({"G": 1}), jobs=rows), round_seconds=seconds)
        at_60 = log.events[log.events["time"] == 60.0]
        assert at_60["kind"].tolist() == ["finish", "arrive", "decide"]


def test_work_that_a_rounded_rate_leaves_over_is_none() -> None:
    """16 epochs at 8/3 per 100 s: in floats, six rounds of 100 s do not add up to 16."""
    instance = Instance.from_jobs([[8 / 3]], [1], [16], [1], round_seconds=100.0)
    log = simulate(Shortest(), instance, round_seconds=100.0)
    assert log.jobs["rounds"].tolist() == [6]
    assert close(log.jobs.loc["j1", "finish"], 600.0)
    assert log.jobs.loc["j1", "done"] == 16.0


def test_a_simulation_may_begin_in_the_middle() -> None:
    """Work done counts, and who keeps the GPUs that it holds restarts nothing."""
    base = table_1().replace(time=1000.0, done={"j1": 8.0, "j2": 16.0}, held={"j1": {"GPU1": 1.0}})
    costly = Overheads(restart_seconds=30.0, resume_seconds=10.0, start_seconds=20.0)
    assert simulate(Shortest(), base, overheads=costly).jobs.loc["j1", "finish"] == 1060.0
    elsewhere = base.replace(held={"j1": {"GPU2": 1.0}})
    assert simulate(Shortest(), elsewhere, overheads=costly).jobs.loc["j1", "finish"] == 1090.0
    fresh = base.replace(held={})
    log = simulate(Shortest(), fresh, overheads=costly)
    assert log.jobs.loc["j1", "finish"] == 1080.0
    assert np.isnan(log.jobs.loc["j2", "finish"])
    assert log.jobs.loc["j2", "done"] == 16.0


def test_resuming_on_the_same_gpus_is_no_switch() -> None:
    rows = (Job("long", {"G": 1.0}, 100.0), Job("short", {"G": 1.0}, 10.0, arrival=20.0))
    log = simulate(
        Shortest(),
        Instance(Cluster.of({"G": 1}), jobs=rows),
        overheads=Overheads(restart_seconds=50.0, resume_seconds=5.0),
    )
    assert log.jobs["finish"].tolist() == [115.0, 30.0]
    assert log.jobs["switches"].tolist() == [0, 0]


def test_checkpoints_travel_by_the_slowest_card() -> None:
    """12 GB over 1 GB/s: 12 s when the job moves to another server, none when it changes GPUs within one."""
    cluster = Cluster(
        tuple(hetopt.GPUType(t) for t in "AB"),
        (Server("x", {"A": 1, "B": 1}, nic_bytes_per_s=1e9), Server("y", {"B": 1}, nic_bytes_per_s=2e9)),
    )
    job, overheads = Job("j", {"A": 1.0, "B": 1.0}, 1.0, checkpoint_bytes=12e9), Overheads(restart_seconds=3.0)
    a, b, far = {("x", "A"): 1}, {("x", "B"): 1}, {("y", "B"): 1}
    assert overheads(job, None, a, cluster) == 0.0
    assert overheads(job, a, a, cluster) == 0.0
    assert overheads(job, a, b, cluster) == 3.0
    assert overheads(job, a, far, cluster) == 15.0
    assert overheads(job, far, {("y", "B"): 1, ("x", "A"): 1}, cluster) == 15.0
    assert overheads(job, {("", "A"): 1}, {("", "B"): 1}, cluster) == 15.0
    assert Overheads(transfer=False)(job, a, far, cluster) == 0.0
    with pytest.raises(InvalidOption, match=r"Overheads\.start_seconds"):
        Overheads(start_seconds=-1.0)


def test_gangs_on_mixed_types_run_at_the_pace_of_the_slowest() -> None:
    rows = (Job("j", {"A": 2.0, "B": 6.0}, 60.0, 2),)
    log = simulate(Fixed(((1.0, 1.0),)), Instance(Cluster.of({"A": 1, "B": 1}), jobs=rows))
    assert log.jobs.loc["j", "finish"] == 30.0
    assert log.spans["gpu_type"].tolist() == ["A+B"]


def test_stopping_early_leaves_work_undone() -> None:
    log = simulate(Shortest(), table_1(), until=60.0)
    assert log.jobs["done"].tolist() == [8.0, 1.0]
    assert log.jobs["finish"].isna().all()
    assert np.isnan(log.makespan)
    late = Instance(Cluster.of({"G": 1}), jobs=(Job("a", {"G": 1.0}, 1.0), Job("b", {"G": 1.0}, 1.0, arrival=99.0)))
    assert list(simulate(Shortest(), late, until=50.0).jobs.index) == ["a"]


def test_rounded_policies_and_rounders_are_the_same() -> None:
    instance = oef_cluster({"u1": [("lstm", 0.0, 9000.0)], "u2": [("vgg", 60.0, 9000.0)]})
    one = simulate(oef.cooperative(), instance, round_seconds=MINUTE)
    other = simulate(hetopt.Rounded(oef.cooperative(), round_seconds=MINUTE), instance)
    pd.testing.assert_frame_equal(one.jobs, other.jobs)
    pd.testing.assert_frame_equal(one.spans, other.spans)


def test_policies_see_what_everyone_holds() -> None:
    """Jobs and tenants (job types by name), from the first start on; only what is present."""
    seen: list[Instance] = []

    @dataclass(frozen=True)
    class Watching:
        def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation | Plan, None]:
            seen.append(instance)
            return oef.noncooperative()(instance, state)

    instance = oef_cluster({"u1": [("lstm", 0.0, 1e5), ("vgg", 90.0, 1e5)], "u2": [("rnn", 0.0, 1e5)]})
    simulate(Watching(), instance, round_seconds=MINUTE, max_rounds=3, placer=hetopt.MoreWorkersFirst())
    assert [len(i.jobs) for i in seen] == [48, 48, 72]
    assert [i.entities("tenants").names for i in seen] == [("u1", "u2"), ("u1", "u2"), ("u1/lstm", "u1/vgg", "u2")]
    assert seen[0].held == {}
    assert seen[1].entities("tenants").held.sum() == 24
    assert seen[1].entities("jobs").held.sum() == 24
    assert sum(n for own in seen[1].placed.values() for gpus in own.values() for n in gpus.values()) == 24
    assert "u1/vgg" not in seen[2].held
    tenants = seen[1].entities("tenants")
    assert close(sum(seen[1].done.values()), MINUTE * float((tenants.held * tenants.speed).sum()))


# -- errors


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (Fixed(((1.0, 0.0), (1.0, 0.0))), InvalidPlan, r"uses 2 GPUs of 'GPU1'; there are 1"),
        (Fixed(((0.5, 0.0), (0.0, 1.0))), InvalidPlan, r"gives job 'j1' 0.5 GPUs; it runs on 1 or on none"),
        (Fixed(((-1.0, 0.0), (0.0, 1.0))), InvalidPlan, r"'j1' -1 GPUs of 'GPU1', fewer than none"),
        (Fixed(((np.nan, 0.0), (0.0, 1.0))), InvalidPlan, "NaN"),
        (Nothing(), Stalled, "nothing runs and nothing more arrives; 2 jobs are unfinished: j1, j2"),
        (Equal(), InvalidOption, "needs rounds"),
    ],
)
def test_results_that_cannot_be_carried_out(policy: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulate(policy, table_1())


def test_a_type_that_a_job_cannot_run_on_is_refused() -> None:
    instance = Instance(Cluster.of({"A": 1, "B": 1}), jobs=(Job("j", {"A": 1.0, "B": 0.0}, 1.0),))
    with pytest.raises(InvalidPlan, match="1 GPUs of 'B', on which it cannot run"):
        simulate(Fixed(((0.0, 1.0),)), instance)


def test_a_plan_for_other_jobs_is_refused() -> None:
    @dataclass(frozen=True)
    class Yesterday:
        def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
            return Plan(fig_2().entities("jobs"), np.zeros((3, 2))), None

    with pytest.raises(InvalidPlan, match=r"for the jobs \('J1', 'J2', 'J4'\); those present are \('j1', 'j2'\)"):
        simulate(Yesterday(), table_1())


def test_endless_simulations_are_stopped() -> None:
    with pytest.raises(Stalled, match="no progress in 5 decisions up to 300 s"):
        simulate(Nothing(), table_1(), round_seconds=MINUTE, patience=5)
    with pytest.raises(Stalled, match="no progress in 20 decisions"):  # each round is lost by moving
        simulate(Equal(), table_1(), round_seconds=MINUTE, patience=20, overheads=Overheads(60.0, start_seconds=60.0))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidOption, match="round_seconds"):
        simulate(Shortest(), table_1(), round_seconds=0.0)
    with pytest.raises(InvalidOption, match=r"until is 0\.0 s; it must be later"):
        simulate(Shortest(), table_1(), until=0.0)
    with pytest.raises(InvalidOption, match="max_rounds"):
        simulate(Shortest(), table_1(), max_rounds=0)
    with pytest.raises(hetopt.InvalidInstance, match="no jobs"):
        simulate(Shortest(), Instance.from_speedups([[1.0]], [1]))
    tenants = oef_cluster({"u1": [("lstm", 0.0, 1e5)]})
    with pytest.raises(InvalidOption, match="shares among tenants"):
        simulate(oef.cooperative(), tenants, fluid=True)
    half = (Tenant("a", {"3070": 1.0}), Tenant("b", {"3070": 1.0}))
    one = Instance(Cluster.of({"3070": 1}), half, tuple(Job(t.name, {"3070": 1.0}, 1e5, tenant=t.name) for t in half))
    with pytest.raises(InvalidPlan, match="uses 2 GPUs of '3070'; there are 1"):
        simulate(oef.cooperative(), one, round_seconds=MINUTE, rounder=hetopt.AsPrinted())


def test_formulations_are_policies_of_the_simulator() -> None:
    """A formulation over jobs, fluid, event-driven: two jobs, two types, each gets all of one."""
    policy = Formulation((TotalRate(),), kind="jobs")
    rows = (Job("a", {"A": 2.0, "B": 1.0}, 20.0), Job("b", {"A": 1.0, "B": 3.0}, 60.0))
    log = simulate(policy, Instance(Cluster.of({"A": 1, "B": 1}), jobs=rows), fluid=True)
    assert close(log.jobs.loc["a", "finish"], 10.0)
