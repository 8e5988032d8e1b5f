"""The simulator's own rules: rounds, order of events, overheads, what policies see, and what is refused."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated import MINUTE, Equal, Fixed, Nothing, Shortest, close, fig_2, oef_cluster, table_1

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
    LongestStarved,
    Overheads,
    Plan,
    Server,
    Stalled,
    Tenant,
    WholeGPUs,
    simulate,
)
from hetopt.models import baselines, gavel, oef
from hetopt.models.objectives import TotalRate

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


def test_nothing_is_decided_at_the_last_second() -> None:
    """What finishes then has finished; a policy that would move all jobs then is not asked."""
    jobs = (Job("a", {"G": 1.0}, 120.0), Job("b", {"G": 1.0}, 500.0, arrival=120.0))
    instance = Instance(Cluster.of({"G": 1}), jobs=jobs)
    for seconds in (None, MINUTE):
        log = simulate(Shortest(), instance, round_seconds=seconds, until=120.0)
        assert log.jobs["finish"].dropna().to_dict() == {"a": 120.0}
        assert log.rounds["end"].max() == log.end == 120.0
        assert log.events["time"][log.events["kind"] == "decide"].max() < 120.0


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
        (Fixed(((1.0, 0.0), (1.0, 0.0))), InvalidPlan, r"uses 2 GPUs of 'GPU1'; the capacity is 1"),
        (Fixed(((0.5, 0.0), (0.0, 1.0))), InvalidPlan, r"gives job 'j1' 0.5 GPUs; it runs on 1 or on none"),
        (Fixed(((-1.0, 0.0), (0.0, 1.0))), InvalidPlan, r"'j1' -1 GPUs of 'GPU1', fewer than 0"),
        (Fixed(((np.nan, 0.0), (0.0, 1.0))), InvalidPlan, "NaN"),
        (Nothing(), Stalled, "no job runs and no more jobs arrive; 2 unfinished jobs: j1, j2"),
        (Equal(), InvalidOption, "needs rounds"),
    ],
)
def test_results_that_cannot_be_carried_out(policy: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulate(policy, table_1())


def test_a_type_that_a_job_cannot_run_on_is_refused() -> None:
    instance = Instance(Cluster.of({"A": 1, "B": 1}), jobs=(Job("j", {"A": 1.0, "B": 0.0}, 1.0),))
    with pytest.raises(InvalidPlan, match="1 GPU of 'B', on which it cannot run"):
        simulate(Fixed(((0.0, 1.0),)), instance)


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_before(enabled: bool) -> None:
    """It pauses during decisions, also of those that fail."""
    before, during = gc.isenabled(), []

    class Failing:
        def __call__(self, _instance: Instance, _state: Any = None) -> Any:
            during.append(gc.isenabled())
            raise RuntimeError

    jobs = Instance(Cluster.of({"G": 1}), jobs=(Job("a", {"G": 1.0}, 1.0),))
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(RuntimeError):
            simulate(Failing(), jobs)
        assert (during, gc.isenabled()) == ([False], enabled)
    finally:
        (gc.enable if before else gc.disable)()


def test_a_plan_for_other_jobs_is_refused() -> None:
    @dataclass(frozen=True)
    class Yesterday:
        def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
            return Plan(fig_2().entities("jobs"), np.zeros((3, 2))), None

    with pytest.raises(InvalidPlan, match=r"for the jobs \('J1', 'J2', 'J4'\); those present are \('j1', 'j2'\)"):
        simulate(Yesterday(), table_1())


def test_endless_simulations_are_stopped() -> None:
    with pytest.raises(Stalled, match=r"no progress in 5 decisions up to 300 s.* gives them no GPUs"):
        simulate(Nothing(), table_1(), round_seconds=MINUTE, patience=5)
    with pytest.raises(Stalled, match=r"no progress in 20 decisions.* moves the 2 running jobs"):
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
    one = Instance(
        Cluster.of({"3070": 1}), half, tuple(Job(f"{t.name}1", {"3070": 1.0}, 1e5, tenant=t.name) for t in half)
    )
    with pytest.raises(InvalidPlan, match="uses 2 GPUs of '3070'; the capacity is 1"):
        simulate(oef.cooperative(), one, round_seconds=MINUTE, rounder=hetopt.PrintedWholeGPUs())


@pytest.mark.parametrize("policy", [gavel.fifo(), gavel.shortest_job_first(), gavel.max_min_fairness()], ids=str)
def test_sharing_in_time_needs_rounds(policy: Formulation) -> None:
    """Also where three quarters of the time of a gang of four are whole GPUs."""
    work = (Job("a", {"A": 1.0}, 9.0, 4), Job("b", {"A": 1.0}, 9.0, 3, arrival=0.0))
    with pytest.raises(InvalidOption, match="shares GPUs in time, which needs rounds"):
        simulate(policy, Instance(Cluster.of({"A": 6}), jobs=work))


def test_formulations_are_policies_of_the_simulator() -> None:
    """A formulation over jobs, fluid, event-driven: two jobs, two types, each gets all of one."""
    policy = Formulation((TotalRate(), gavel.TimeFraction()), kind="jobs")
    rows = (Job("a", {"A": 2.0, "B": 1.0}, 20.0), Job("b", {"A": 1.0, "B": 3.0}, 60.0))
    log = simulate(policy, Instance(Cluster.of({"A": 1, "B": 1}), jobs=rows), fluid=True)
    assert close(log.jobs.loc["a", "finish"], 10.0)


@pytest.mark.parametrize("capacity", [{"A": 4, "B": 2}, {"A": 2, "B": 2}])
def test_a_gang_over_types_that_are_too_small_for_it_is_counted(capacity: dict[str, int]) -> None:
    """Three GPUs of two types at the pace of the slower one: normalised throughput 3, also where no type has three."""
    speeds = {"A": 1.0, "B": 1.0}
    tenant = Tenant("u", (JobType("jobs", speeds),))
    instance = Instance(Cluster.of(capacity), (tenant,), (Job("j", {"A": 3.0, "B": 3.0}, 30.0, 3, tenant="u"),))
    log = simulate(
        baselines.equal_split(),
        instance,
        round_seconds=5.0,
        rounder=WholeGPUs("any"),
        selection=LongestStarved(mix=True),
    )
    assert close(log.throughput["u"].iloc[0], 3.0)
    assert close(log.jobs.loc["j", "finish"], 10.0)


def test_a_simulation_that_ends_before_the_first_arrival_is_empty() -> None:
    late = Instance.from_jobs([[1.0]], [1], [9], [1], arrival=[100.0])
    log = simulate(Shortest(), late, until=50.0)
    assert log.jobs.empty
    assert {"arrival", "start", "finish", "jct"} <= set(log.jobs.columns)


def test_finished_jobs_do_not_leave_the_makespan_open() -> None:
    instance = table_1().replace(done={"j1": 16.0})
    log = simulate(Shortest(), instance)
    assert close(log.makespan, log.jobs.loc["j2", "finish"])


def test_rates_of_more_than_all_the_time_are_refused() -> None:
    """One job cannot run on both GPUs at once."""
    with pytest.raises(InvalidPlan, match="runs 'j1' 2 times at once; a job runs at most all the time"):
        simulate(Formulation((TotalRate(),), kind="jobs"), Instance.from_jobs([[8, 1]], [1], [16], [1, 1]), fluid=True)
