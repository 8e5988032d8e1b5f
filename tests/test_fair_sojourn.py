"""Fair sojourn: no later than under equal division, copies that end together, urgent jobs, stages, tenants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, Instance, InvalidOption, Job, Stage, Tenant
from hetopt.decisions.system import check_placement, check_whole_gangs
from hetopt.models.asrpt import HeavyEdge
from hetopt.models.fair_sojourn import FairSojourn, VirtualShares
from hetopt.proofs.fair_sojourn import GangCase, divided_equally, fair_sojourn
from hetopt.proofs.strategies import mixed_instances
from hetopt.stages.mapping import map_jobs
from hetopt.tolerances import PROVEN, WORK

ALONE = FairSojourn(forks=False, restart_seconds=0.0, divided="unfinished")


def jobs_on(gpus: dict[str, int], *jobs: Job, **cluster: int) -> Instance:
    return Instance(Cluster.of(gpus, **cluster), jobs=jobs)


def equal_division(jobs: list[tuple[int, int]]) -> list[Fraction]:
    """Finish of each (arrival, work) if all present jobs share one machine equally: processor sharing, exactly."""
    left, finish = {i: Fraction(work) for i, (_, work) in enumerate(jobs)}, dict[int, Fraction]()
    time = Fraction(0)
    while len(finish) < len(jobs):
        here = [i for i in left if i not in finish and jobs[i][0] <= time]
        coming = [Fraction(a) for a, _ in jobs if a > time]
        if not here:
            time = min(coming)
            continue
        step = min([left[i] * len(here) for i in here] + [a - time for a in coming])
        for i in here:
            left[i] -= step / len(here)
        time += step
        finish |= {i: time for i in here if left[i] == 0}
    return [finish[i] for i in range(len(jobs))]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=7))
def test_no_job_finishes_later_than_under_equal_division(given: list[tuple[int, int]]) -> None:
    """The theorem of the fair sojourn protocol: one GPU, free moves, divided among jobs that would be unfinished."""
    jobs = [Job(f"j{i}", {"A": 1.0}, float(work), arrival=float(at)) for i, (at, work) in enumerate(given)]
    log = hetopt.simulate(ALONE, jobs_on({"A": 1}, *jobs))
    for job, latest in zip(jobs, equal_division(given), strict=True):
        assert log.jobs.loc[job.name, "finish"] <= float(latest) * (1 + 10 * WORK)


@settings(max_examples=40)
@given(
    st.integers(1, 3).flatmap(
        lambda gpus: st.tuples(
            st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(1, gpus)), min_size=1, max_size=5),
            st.just(gpus),
        )
    ),
    st.sampled_from(["present", "unfinished"]),
)
def test_the_policy_of_the_ledger_is_this_one(drawn: tuple[list[tuple[int, int, int]], int], divided: Any) -> None:
    """In fractions, on equal GPUs and without copies."""
    jobs, gpus = drawn
    arrivals, sizes, gangs = zip(*jobs, strict=True)
    case = GangCase(tuple(map(Fraction, arrivals)), tuple(map(Fraction, sizes)), gangs, gpus)
    log = hetopt.simulate(replace(ALONE, divided=divided), case.instance)
    ends = fair_sojourn(case, divided).ends
    assert log.jobs["finish"].tolist() == pytest.approx([float(ends[i]) for i in range(len(jobs))], rel=10 * WORK)
    if gpus == 1:
        assert list(dict(sorted(divided_equally(case).items())).values()) == equal_division(
            list(zip(arrivals, sizes, strict=True))
        )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=6), st.booleans())
def test_the_virtual_cluster_is_equal_division(given: list[tuple[int, int]], in_steps: bool) -> None:
    """Its finishes are those of processor sharing, however often the policy is called in between."""
    jobs = [Job(f"j{i}", {"A": 1.0}, float(work), arrival=float(at)) for i, (at, work) in enumerate(given)]
    instance, shares, found = jobs_on({"A": 1}, *jobs), VirtualShares(0.0), dict[str, float]()
    for time in sorted({float(at) for at, _ in given} | {float(t) for t in range(0, 300, 7 if in_steps else 299)}):
        if any(job.arrival <= time for job in jobs):
            now = instance.at(time)
            shares = shares.advanced(now, now.entities("jobs"), "jobs", "unfinished")
            found |= dict(zip(shares.names, shares.finish.tolist(), strict=True))
    assert [found[job.name] for job in jobs] == pytest.approx([float(f) for f in equal_division(given)])


def test_copies_share_the_work_so_that_all_end_together() -> None:
    """A server of speed 3 and one of speed 1; the copy that restarts gets less work."""
    job = Job("a", {"A": 3.0, "B": 1.0}, 4000.0)
    instance = jobs_on({"A": 1, "B": 1}, job)
    plan, _ = FairSojourn(restart_seconds=0.0)(instance)
    assert plan.placement is not None
    assert dict(plan.placement.dispatch["a"]) == {"a-0": 3000.0, "b-0": 1000.0}
    held = instance.replace(placed={"a": {"a-0": {"A": 1}}})
    plan, _ = FairSojourn(restart_seconds=100.0)(held)
    assert plan.placement is not None
    parts = plan.placement.dispatch["a"]
    assert sum(parts.values()) == pytest.approx(4000.0)
    assert parts["a-0"] / 3 == pytest.approx(parts["b-0"] / 1 + 100)
    environment_end = hetopt.simulate(FairSojourn(restart_seconds=0.0), instance).jobs["finish"].item()
    assert environment_end == pytest.approx(1000.0)


@st.composite
def on_one_type(draw: st.DrawFn, **limits: Any) -> Instance:
    """Jobs whose gangs fit on one GPU type."""
    instance = draw(mixed_instances(gpus=(0, 3), memory=True, **limits))
    entities = instance.entities("jobs")
    most = np.where(entities.task_speed > 0, entities.capacity, 0).max(axis=1).tolist()
    jobs = [replace(job, demand=min(job.demand, int(n))) for job, n in zip(instance.jobs, most, strict=True)]
    return instance.replace(jobs=jobs)


@settings(max_examples=60)
@given(
    on_one_type(jobs=(1, 4), servers=(1, 4), latest=0),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([None, 1, 2]),
)
def test_plans_with_copies_can_be_carried_out(instance: Instance, restart: float, copies: int | None) -> None:
    """Whole gangs on servers where they can run; each copy on one server; their works sum to what is left."""
    instance = instance.replace(jobs=[replace(job, copies=copies) for job in instance.jobs])
    plan, _ = FairSojourn(restart_seconds=restart)(instance)
    assert plan.placement is not None
    dispatch = plan.placement.dispatch
    check_whole_gangs(plan.entities, plan.x, {name: len(servers) for name, servers in dispatch.items()})
    check_placement(plan, plan.placement, instance)
    for name, work in dispatch.items():
        assert len(work) <= (copies or 4)
        assert min(work.values()) > 0
        assert sum(work.values()) == pytest.approx(instance.work_left(name), rel=PROVEN)


@settings(max_examples=40)
@given(
    on_one_type(jobs=(1, 5), servers=(1, 4), most_work=90, latest=40),
    st.sampled_from([None, 20.0]),
    st.sampled_from([0.0, 2.0]),
)
def test_forked_jobs_are_done_in_the_end(instance: Instance, seconds: float | None, restart: float) -> None:
    """In rounds and at events: all work is done, and no GPU is used twice at any time."""
    policy = FairSojourn(seconds, restart_seconds=restart)
    log = hetopt.simulate(policy, instance, overheads=hetopt.Overheads(restart, 0, restart, False), max_rounds=2000)
    assert log.jobs["finish"].notna().all()
    assert log.spans.groupby("job")["work"].sum()[log.jobs.index].to_numpy() == pytest.approx(
        log.jobs["work"].to_numpy(), rel=PROVEN
    )
    capacity = sum(instance.cluster.capacity.values())
    for time in log.spans["start"]:
        running = (log.spans["start"] <= time) & (time < log.spans["end"])
        assert log.spans.loc[running, "gpus"].sum() <= capacity


def test_copies_are_limited() -> None:
    """By the job, by the work that is left for restarts, and by the setting."""
    job = Job("a", {"A": 1.0}, 100.0)
    for one, policy, copies in (
        (job, FairSojourn(restart_seconds=0.0), 4),
        (Job("a", {"A": 1.0}, 100.0, copies=2), FairSojourn(restart_seconds=0.0), 2),
        (job, FairSojourn(restart_seconds=10.0), 3),  # 100 / 4 < 3 * 10
        (job, FairSojourn(forks=False), 1),
        (job, FairSojourn(restart_seconds=0.0, round_seconds=60.0), 1),
    ):
        plan, _ = policy(jobs_on({"A": 4}, one, gpus_per_server=1))
        assert plan.x.sum() == copies


def test_an_urgent_job_is_woken_up_for() -> None:
    """Gangs of 2 that cannot be forked. At 140 s two have 1/2 each: the short one ends at 160 s, the long at 200 s.

    The long one, with work for 100 s, may end at 200 * 1.25 = 250 s. At 150 s it is urgent, and comes first; the short
    one may end at 160 + 20 / 4 = 165 s, so that it is urgent from 155 s on.
    """
    first, long = Job("first", {"A": 1.0}, 149.0, 2), Job("long", {"A": 1.0}, 100.0, 2)
    short, policy = Job("short", {"A": 1.0}, 10.0, 2, arrival=140.0), FairSojourn(restart_seconds=0.0)
    _, state = policy(jobs_on({"A": 2}, first, long, gpus_per_server=1))
    two = jobs_on({"A": 2}, long, short, gpus_per_server=1)
    plan, state = policy(two.replace(time=140.0), state)
    assert (plan.assigned, plan.wake) == ({"long": None, "short": "A"}, pytest.approx(150.0))
    assert policy(two.replace(time=plan.wake), state)[0].assigned == {"long": "A", "short": None}


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(500, 5000), st.sampled_from(["present", "unfinished"]))
def test_equal_jobs_run_one_after_the_other(gpus: int, turns: int, work: int, divided: Any) -> None:
    """Though the last of them would miss their fair finish. Divided among present jobs, at most two on each GPU."""
    turns = min(turns, 2) if divided == "present" else turns
    jobs = [Job(f"j{i}", {"A": 1.0}, float(work)) for i in range(gpus * turns)]
    log = hetopt.simulate(FairSojourn(divided=divided, forks=False), jobs_on({"A": gpus}, *jobs))
    assert log.jobs["finish"].tolist() == pytest.approx([work * (1 + i // gpus) for i in range(len(jobs))])


def test_a_move_must_be_worth_it() -> None:
    """A running job moves to the faster type only if it ends sooner there, the move included."""
    job = Job("a", {"A": 1.0, "B": 1.5}, 300.0)
    held = jobs_on({"A": 1, "B": 1}, job).replace(placed={"a": {"a-0": {"A": 1}}})
    for restart, gpu_type in ((90.0, "B"), (110.0, "A")):  # 300 against 200 + restart
        assert FairSojourn(forks=False, restart_seconds=restart)(held)[0].assigned == {"a": gpu_type}


def test_stages_are_mapped_by_heavy_edge() -> None:
    """The rate in the simulation is that of the mapping, not that of the throughput."""
    stages = (Stage(2, 1.0, 1.0, 1e9, 1e9), Stage(2, 1.0, 1.0, 1e9))
    job = Job("a", {"A": 1.0}, 10.0, 4, stages=stages)
    instance = jobs_on({"A": 4}, job, gpus_per_server=2)
    log = hetopt.simulate(FairSojourn(), instance)
    seconds = float(map_jobs(instance, HeavyEdge()).mappings["a"].iteration_seconds)
    assert log.jobs["finish"].item() == pytest.approx(10 * seconds)
    assert hetopt.simulate(FairSojourn(mapper=None), instance).jobs["finish"].item() == pytest.approx(10.0)


def test_among_tenants_a_job_alone_is_before_many() -> None:
    """Two tenants: the only job of one has half of the cluster, each of the ten others a twentieth."""
    tenants = tuple(Tenant(name, {"A": 1.0}) for name in ("one", "many"))
    jobs = [
        Job("x", {"A": 1.0}, 30.0, tenant="one"),
        *(Job(f"y{i}", {"A": 1.0}, 10.0, tenant="many") for i in range(10)),
    ]
    instance = Instance(Cluster.of({"A": 1}), tenants, jobs)
    first = {a: FairSojourn(forks=False, among=a)(instance)[0].assigned for a in ("jobs", "tenants")}
    assert first["jobs"]["x"] is None
    assert first["tenants"]["x"] == "A"


def test_a_tenant_has_its_part_though_some_of_its_jobs_have_left() -> None:
    """Of two tenants one has a job that is done early; with virtual work left it still counts as one of two."""
    tenants = tuple(Tenant(name, {"A": 1.0}) for name in "xy")
    jobs = [Job(name, {"A": 1.0}, 10.0, tenant=tenant) for name, tenant in (("a1", "x"), ("a2", "x"), ("b", "y"))]
    instance = Instance(Cluster.of({"A": 1}), tenants, jobs)
    shares = VirtualShares(0.0).advanced(instance, instance.entities("jobs"), "tenants", "unfinished")
    assert shares.finish.tolist() == [40.0, 40.0, 20.0]
    later = instance.replace(time=8.0, jobs=jobs[1:])
    shares = shares.advanced(later, later.entities("jobs"), "tenants", "unfinished")
    assert dict(zip(shares.names, shares.left.tolist(), strict=True)) == {"a2": 8.0, "b": 6.0, "a1": 8.0}
    assert dict(zip(shares.names, shares.finish.tolist(), strict=True)) == {"a2": 40.0, "b": 20.0, "a1": 40.0}


def test_jobs_with_stages_run_in_one_gang() -> None:
    """Their rate is that of a mapping; copies would have none."""
    stages = (Stage(1, 1.0, 1.0, 1e9, 1e9), Stage(1, 1.0, 1.0, 1e9))
    instance = jobs_on({"A": 4}, Job("a", {"A": 1.0}, 1000.0, 2, stages=stages), gpus_per_server=2)
    assert FairSojourn()(instance)[0].x.sum() == 2
    assert FairSojourn(mapper=None)(instance)[0].x.sum() == 4


def test_a_copy_that_takes_long_to_start_is_not_added() -> None:
    """The transfer of the checkpoint counts in its start: 1000 s here."""
    job = Job("a", {"A": 1.0}, 2000.0, checkpoint_bytes=1e9)
    instance = jobs_on({"A": 2}, job, gpus_per_server=1)
    servers = tuple(replace(server, nic_bytes_per_s=1e6) for server in instance.cluster.servers)
    slow = instance.replace(cluster=replace(instance.cluster, servers=servers))
    assert [FairSojourn()(one)[0].x.sum() for one in (instance, slow)] == [2, 1]


def test_bad_settings_are_refused() -> None:
    for bad, problem in (
        ({"catch_up": 1.5}, r"FairSojourn\.catch_up is 1\.5"),
        ({"mapper": 3}, r"FairSojourn\.mapper is 3; it must be a mapper, or None"),
        ({"mapper": HeavyEdge}, r"FairSojourn\.mapper is the class HeavyEdge"),
        ({"catch_up": 0}, r"FairSojourn\.catch_up is 0"),
        ({"slack": -1.0}, r"FairSojourn\.slack is -1"),
        ({"among": "users"}, r"FairSojourn\.among is 'users'"),
        ({"divided": "all"}, r"FairSojourn\.divided is 'all'"),
        ({"restart_seconds": -1.0}, r"FairSojourn\.restart_seconds is -1"),
        ({"forks": 1}, r"FairSojourn\.forks is 1; it must be True or False"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            FairSojourn(**bad)
