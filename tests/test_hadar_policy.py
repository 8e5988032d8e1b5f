"""Hadar round by round, in the simulator and against a plain reference; and the policy that commits for good."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hadar_oracles import PlainHadar
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, Stalled, UnknownName, instances
from hetopt.decisions.system import check_placement, check_whole_gangs
from hetopt.models import hadar, hadare
from hetopt.proofs.strategies import PLAIN, mixed_instances
from hetopt.tolerances import PROVEN

FREE = hetopt.Overheads(transfer=False)
MANY = Cluster.of({"A": 4, "B": 4})


def hosts(plan: Any) -> dict[str, dict[tuple[str, str], int]]:
    placed = plan.placement.hosts
    return {j: {(s, t): n for s, own in there.items() for t, n in own.items()} for j, there in placed.items()}


@given(
    mixed_instances(
        jobs=(1, 5), servers=(1, 3), most_demand=3, most_work=4000, latest=0, utilities=(None,), memory=True
    ),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_allocations_are_those_of_a_plain_reference(instance: Instance, relative: bool) -> None:
    utility = hadar.EffectiveThroughput(relative=True) if relative else hadar.NegativeJCT()
    plan, _ = hadar.Hadar(selection=hadar.Exact(), utility=utility)(instance)
    assert hosts(plan) == PlainHadar(instance, None if relative else utility.most_seconds).round()


@given(mixed_instances(jobs=(1, 6), servers=(1, 3), most_work=900, memory=True), st.data())
@settings(max_examples=60, deadline=None)
def test_plans_can_be_carried_out_and_leave_no_room(instance: Instance, data: st.DataObject) -> None:
    """Whole gangs, where they can run, on GPUs that are there; no job waits that would have had room."""
    policy = data.draw(st.sampled_from([hadar.Hadar(60.0), hadar.Hadar(60.0, pays="round", order="arrival")]))
    instance = instance.replace(time=2.0)
    plan, _ = policy(instance)
    check_whole_gangs(plan.entities, plan.x)
    assert plan.placement is not None
    check_placement(plan, plan.placement, instance)
    left = plan.entities.capacity - plan.x.sum(axis=0)
    for j, name in enumerate(plan.entities.names):
        if name not in plan.placement.hosts:
            assert left[plan.entities.task_speed[j] > 0].sum() < plan.entities.demand[j]


@given(mixed_instances(jobs=(1, 6), servers=(1, 3), most_work=90, latest=40, memory=True), st.sampled_from([5.0, 20.0]))
@settings(max_examples=40, deadline=None)
def test_all_jobs_are_done_in_the_end(instance: Instance, seconds: float) -> None:
    """With restarts; every job does all of its work, and no server is ever overfull (the simulator checks)."""
    log = hetopt.simulate(hadar.Hadar(seconds, restart_seconds=2.0), instance, overheads=hetopt.Overheads(2, 2, 2))
    assert log.jobs["finish"].notna().all()
    assert log.jobs["done"].to_numpy() == pytest.approx(log.jobs["work"].to_numpy(), rel=PROVEN)


@given(mixed_instances(jobs=(1, 4), most_work=90, latest=40, utilities=PLAIN))
@settings(max_examples=20, deadline=None)
def test_a_plan_does_not_depend_on_units_of_work(instance: Instance) -> None:
    """Iterations by the thousand: the same plan, since utilities are relative."""
    jobs = tuple(
        Job(j.name, {t: v / 1000 for t, v in j.throughput.items()}, j.work / 1000, j.demand) for j in instance.jobs
    )
    plain = tuple(Job(j.name, j.throughput, j.work, j.demand) for j in instance.jobs)
    one, other = (hadar.Hadar()(Instance(instance.cluster, jobs=own))[0] for own in (plain, jobs))
    assert hosts(one) == hosts(other)


def jobs_of(*demands: int, work: float = 1000.0) -> tuple[Job, ...]:
    return tuple(Job(f"j{i}", {"A": 2.0, "B": 1.0}, work, demand=d) for i, d in enumerate(demands))


def carried_out(instance: Instance, plan: Any, **changes: Any) -> Instance:
    """The next round: what the plan says runs."""
    return instance.replace(placed=plan.placement.hosts, time=instance.time + 360, **changes)


def test_running_jobs_stay_until_a_job_finishes() -> None:
    first = Instance(MANY, jobs=jobs_of(4, 2, 1))
    plan, state = hadar.Hadar()(first)
    assert (state.redecided, state.kept) == (1, 0)
    again, state = hadar.Hadar()(carried_out(first, plan), state)
    assert hosts(again) == hosts(plan)
    assert (state.redecided, state.kept) == (1, 1)
    new = Job("new", {"A": 9.0, "B": 9.0}, 1.0)  # would be worth most, and is looked at alone
    more, state = hadar.Hadar()(carried_out(first, plan, jobs=(*first.jobs, new)), state)
    assert {j: own for j, own in hosts(more).items() if j != "new"} == hosts(plan)
    assert "new" in hosts(more)
    assert (state.redecided, state.kept) == (1, 2)
    left = {j: own for j, own in more.placement.hosts.items() if j != "j0"}
    fewer = Instance(MANY, jobs=(first.jobs[1], first.jobs[2], new), placed=left, time=720)
    _, state = hadar.Hadar()(fewer, state)
    assert (state.redecided, state.kept) == (2, 2)


def test_it_decides_again_where_servers_or_placements_have_changed() -> None:
    first = Instance(MANY, jobs=jobs_of(2, 2))
    plan, state = hadar.Hadar()(first)
    moved = carried_out(first, plan).replace(placed={})  # they were stopped from outside
    assert hadar.Hadar()(moved, state)[1].redecided == 2
    larger = carried_out(first, plan).replace(cluster=Cluster.of({"A": 6, "B": 4}))
    assert hadar.Hadar()(larger, state)[1].redecided == 2
    always = hadar.Hadar(keep=False)
    assert always(carried_out(first, plan), state)[1].redecided == 2


def test_a_restart_keeps_a_job_where_it_is() -> None:
    """On B it has one second to go; A is twice as fast, but a restart takes two."""
    job = Job("j", {"A": 2.0, "B": 1.0}, 100.0)
    there = Instance(MANY, jobs=(job,), done={"j": 99.0}, placed={"j": {"b-0": {"B": 1}}}, time=99.0)
    for seconds, gpu_type in ((2.0, "B"), (0.1, "A")):
        plan, _ = hadar.Hadar(restart_seconds=seconds)(there)
        assert plan.assigned == {"j": gpu_type}


def test_memory_limits_are_kept() -> None:
    cluster = Cluster.of({"A": 2, "B": 2}, memory_bytes={"A": 4e9, "B": 16e9})
    jobs = (Job("big", {"A": 9.0, "B": 1.0}, 10, demand=2, memory_bytes=8e9), Job("small", {"A": 9.0, "B": 1.0}, 10))
    plan = hetopt.solve(hadar.Hadar(), Instance(cluster, jobs=jobs))
    assert plan.assigned == {"big": "B", "small": "A"}
    wide = Job("wide", {"A": 9.0, "B": 1.0}, 10, demand=3, memory_bytes=8e9)
    with pytest.raises(InvalidInstance, match=r"jobs\['wide'\].demand is 3 GPUs; the types that can run it have 2"):
        hetopt.solve(hadar.Hadar(), Instance(cluster, jobs=(wide,)))


def test_as_printed() -> None:
    """Where it can run: by the letter no job does, and without filling GPUs stay idle beside jobs that wait."""
    instance = instances.load("hadar/motivating")
    with pytest.raises(Stalled):
        hetopt.simulate(hadar.printed(by_the_letter=True), instance, patience=3)
    log = hetopt.simulate(hadar.printed(), instance, overheads=FREE)
    assert log.jobs["finish"].notna().all()
    jobs = tuple(
        Job(f"j{i}", {"A": 1.0}, work, weight=w, utility="weight")
        for i, (work, w) in enumerate([(1, 99), (9e4, 1), (9e4, 1)])
    )
    crowd = Instance(Cluster.of({"A": 3}), jobs=jobs)
    sparing, filled = (hetopt.solve(hadar.Hadar(fill=f, order="arrival"), crowd) for f in (False, True))
    assert sparing.x.sum() == 1  # the first takes a GPU, and the price keeps the second for its equals
    assert filled.x.sum() == 3


def test_drained_servers_leave_jobs_waiting() -> None:
    cluster = Cluster((hetopt.GPUType("A"), hetopt.GPUType("B")), (hetopt.Server("s", {"B": 2}),))
    jobs = (Job("a", {"A": 1.0, "B": 0.0}, 5), Job("b", {"A": 1.0, "B": 1.0}, 5))
    instance = Instance(cluster, jobs=jobs)
    for policy in (hadar.Hadar(), hadar.Committing(9, 60.0), hadare.HadarE()):
        assert hetopt.solve(policy, instance).assigned == {"a": None, "b": "B"}
        assert hetopt.solve(policy, instance.replace(jobs=jobs[:1])).assigned == {"a": None}


@pytest.mark.parametrize(
    ("settings_", "key", "match"),
    [
        ({"round_seconds": 0}, "Hadar.round_seconds", None),
        ({"restart_seconds": -1}, "Hadar.restart_seconds", None),
        ({"communication": float("nan")}, "Hadar.communication", None),
        ({"order": "queue"}, "Hadar.order", None),
        ({"pays": "all"}, "Hadar.pays", None),
        ({"selection": hadar.Greedy}, "Hadar.selection", None),
        ({"utility": 3}, "Hadar.utility", None),
    ],
)
def test_bad_settings_are_refused(settings_: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        hadar.Hadar(**settings_)


def test_selections_by_name() -> None:
    assert hadar.Hadar(selection="greedy").selection == hadar.Greedy()
    with pytest.raises(UnknownName, match="there is no selection 'greed'; did you mean 'greedy'"):
        hadar.Hadar(selection="greed")


def test_bad_jobs_are_refused() -> None:
    with refused(UnknownName, "jobs['j'].utility"):
        hetopt.solve(hadar.Hadar(), Instance(MANY, jobs=(Job("j", {"A": 1, "B": 1}, 1, utility="dedline"),)))
    with refused(InvalidInstance, "jobs['j0']", "deadline"):
        hetopt.solve(hadar.Hadar(utility="deadline"), Instance(MANY, jobs=jobs_of(1)))
    with pytest.raises(InvalidOption, match="increases from"):
        hetopt.solve(hadar.Hadar(utility=lambda _, s: np.asarray(s)), Instance(MANY, jobs=jobs_of(1)))
    with refused(InvalidInstance, "jobs['j'].arrival"):
        hetopt.solve(hadar.Hadar(), Instance(MANY, jobs=(Job("j", {"A": 1, "B": 1}, 1, arrival=5),)))


def test_a_job_that_is_done_gets_nothing() -> None:
    instance = Instance(MANY, jobs=jobs_of(1, 1), done={"j0": 1000.0})
    for policy in (hadar.Hadar(), hadar.Hadar(utility="effective-throughput"), hadare.HadarE()):
        plan = hetopt.solve(policy, instance)
        assert set(plan.placement.hosts) == {"j1"}
    finished = instance.replace(done={"j0": 1000.0, "j1": 1000.0})
    assert not hetopt.solve(hadar.Hadar(), finished).x.any()


def test_deadlines_come_first() -> None:
    """One GPU: the job that can be in time runs before one that cannot, and before one in no hurry."""
    jobs = (
        Job("easy", {"A": 1.0}, 100, utility="deadline", deadline=9000),
        Job("tight", {"A": 1.0}, 100, utility="deadline", deadline=120),
        Job("hopeless", {"A": 1.0}, 1000, utility="deadline", deadline=50),
    )
    log = hetopt.simulate(hadar.Hadar(120.0), Instance(Cluster.of({"A": 1}), jobs=jobs), overheads=FREE)
    assert log.jobs["finish"]["tight"] <= 120 or log.jobs["finish"]["easy"] <= 120
    assert log.jobs["start"]["hopeless"] > log.jobs["start"]["easy"]


def test_committing_keeps_its_promises() -> None:
    """In the simulator without restarts: who is admitted ends in the slot that was promised; others never run."""
    jobs = tuple(
        Job(f"j{i}", {"A": 2.0, "B": 1.0}, 100.0 * (i + 1), demand=1 + i % 3, arrival=30.0 * i) for i in range(6)
    )
    instance = Instance(MANY, jobs=jobs)
    for policy in (
        hadar.Committing(40, 60.0, prices="proven", delta=0.75),
        hadar.Committing(40, 60.0, prices="printed"),
    ):
        log = hetopt.simulate(policy, instance, until=40 * 60.0, overheads=FREE)
        state: Any = None
        promised: dict[str, Any] = {}
        for slot in range(40):
            done = {name for name, own in promised.items() if own is not None and own.last < slot}
            present = [j for j in jobs if j.arrival <= 60 * slot and j.name not in done]
            if present:
                _, state = policy(Instance(MANY, jobs=tuple(present), time=60.0 * slot), state)
                promised |= dict(state.schedules)
        for job in jobs:
            schedule, finish = promised[job.name], log.jobs["finish"][job.name]
            if schedule is None:
                assert np.isnan(finish)
            else:
                assert 60 * schedule.last < finish <= 60 * (schedule.last + 1) + PROVEN * 2400
        assert any(promised.values())


def test_committing_is_the_offline_version_where_all_are_there_at_once() -> None:
    instance = Instance(MANY, jobs=jobs_of(2, 1, 2, 1, work=500))
    policy = hadar.Committing(12, 60.0, utility="weight", prices="proven")
    offline = hadar.Irrevocable()(hadar.OfflineProblem.of(instance, 12, 60.0, "weight"))
    _, state = policy(instance)
    assert [own for own in state.schedules.values() if own] == list(offline.solved.schedules)


def test_committing_considers_a_late_job_again() -> None:
    """A restart of 20 s makes the promise of one slot too short; the next slots are asked for then."""
    instance = Instance(MANY, jobs=jobs_of(1, work=120))  # 60 s on A
    log = hetopt.simulate(hadar.Committing(20, 60.0), instance, overheads=hadar.RESTART)
    assert log.jobs["finish"]["j0"] == pytest.approx(70)
    _, state = hadar.Committing(20, 60.0)(instance)
    other = instance.replace(cluster=Cluster.of({"A": 1, "B": 9}))
    with pytest.raises(InvalidInstance, match="not those of the reservations"):
        hadar.Committing(20, 60.0)(other, state)
    with pytest.raises(InvalidOption, match=r"Committing\.slots is 0"):
        hadar.Committing(0)
    with pytest.raises(InvalidOption, match=r"prices is 'print'; did you mean 'printed'"):
        hadar.Committing(prices="print")


def test_audits_refuse_what_they_would_judge_wrongly() -> None:
    """A gang over several types, and one in copies; plans of whole gangs on one type are judged as ever."""
    mixed = Instance(Cluster.of({"A": 3, "B": 3}), jobs=(Job("j", {"A": 4.0, "B": 1.0}, 100, demand=4),))
    with pytest.raises(hetopt.InvalidPlan, match="job 'j' has a gang over 2 GPU types; audits value GPUs"):
        hetopt.audit(mixed, hetopt.solve(hadar.Hadar(), mixed))
    alone = Instance(Cluster.of({"A": 2}, gpus_per_server=1), jobs=(Job("j", {"A": 4.0}, 1e6),))
    with pytest.raises(hetopt.InvalidPlan, match="job 'j' runs in 2 copies"):
        hetopt.audit(alone, hetopt.solve(hadare.HadarE(), alone))
    pair = Instance(MANY, jobs=jobs_of(2, 2))
    assert hetopt.audit(pair, hetopt.solve(hadar.Hadar(), pair)).capacity.holds


def test_gpus_are_never_promised_twice() -> None:
    """Later jobs that are worth more than the bounds of the prices cost the guarantee, not the servers."""
    first = Job("first", {"A": 1.0}, 10, utility="weight")
    late = [Job(f"vip{k}", {"A": 1.0}, 10, arrival=1.0, weight=1e6, utility="weight") for k in range(12)]
    instance = Instance(Cluster.of({"A": 4}), jobs=(first, *late))
    for prices in ("proven", "printed"):
        log = hetopt.simulate(hadar.Committing(3, 10.0, prices=prices), instance, until=40.0, overheads=FREE)
        assert log.jobs["finish"].notna().sum() >= 3


def test_a_long_job_pays_on_an_empty_cluster() -> None:
    """U_min admits any job, however many slots it pays for."""
    long = Instance(Cluster.of({"A": 8}, gpus_per_server=4), jobs=(Job("j", {"A": 1.0}, 86_400, demand=4),))
    assert hetopt.solve(hadar.Hadar(fill=False), long).x.sum() == 4
    pair = tuple(Job(name, {"A": 1.0}, 9000) for name in "jk")
    shared = hetopt.solve(hadare.HadarE(), Instance(Cluster.of({"A": 3}, gpus_per_server=1), jobs=pair))
    assert sorted(len(own) for own in shared.placement.dispatch.values()) == [1, 2]


def test_the_state_of_another_policy_is_refused() -> None:
    instance = Instance(MANY, jobs=jobs_of(1))
    policies = (hadar.Hadar(), hadare.HadarE(), hadar.Committing(9, 60.0))
    for policy in policies:
        for other in policies:
            if type(other) is not type(policy):
                with pytest.raises(InvalidOption, match="state is"):
                    policy(instance, other(instance)[1])  # type: ignore[arg-type]
