"""A-SRPT and its baselines over time, against a reading of Algorithm 1 job by job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from asrpt_oracles import Machines, asrpt, in_order
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import Cluster, Instance, Job, Server, Stage
from hetopt.errors import InvalidInstance, InvalidOption, InvalidPlan, Stalled
from hetopt.formulations.traits import Traits
from hetopt.models.asrpt import (
    ASRPT,
    SPJF,
    SPWF,
    ListPolicy,
    LocalSearch,
    Synchronous,
    WCSDuration,
    WCSSubTime,
    WCSWorkload,
)
from hetopt.models.asrpt.asrpt_policies import Key, NonPreemptivePolicy, ServerChoice
from hetopt.proofs.strategies import staged_jobs
from hetopt.simulation.environment import Environment
from hetopt.simulation.profiling import Profiling
from hetopt.simulation.server_changes import ServerChange
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL

POLICIES = [ASRPT(), ASRPT(delay=0), ASRPT(comm_heavy=1, delay=3), SPJF(), SPWF(), WCSDuration(), WCSWorkload()]
POLICIES += [WCSSubTime(), WCSSubTime(servers="most-available"), SPWF(servers="by-communication")]


@dataclass(frozen=True)
class Guess:
    """Predicts the number that it was given, independent of the real one."""

    work: tuple[tuple[str, float], ...]

    def learner(self) -> Any:
        return self

    def observe(self, jobs: Any) -> None:
        pass

    def predict(self, jobs: Any) -> Any:
        return np.array([dict(self.work)[job.name] for job in jobs])

    def copy(self) -> Any:
        return self


@st.composite
def online_instances(draw: st.DrawFn, *, most_jobs: int = 6) -> Instance:
    """Jobs with stages, some slow to communicate, on a few servers alike; iterations take more than no time."""
    servers, gpus = draw(st.sampled_from([(1, 4), (2, 2), (2, 3), (3, 2), (4, 1)]))
    nic = draw(st.integers(1, 4))
    cluster = Cluster.of(
        {"GPU": servers * gpus}, gpus_per_server=gpus, nic_bytes_per_s=nic * gpus, intra_bytes_per_s=nic * gpus * 8
    )
    jobs = []
    for i in range(draw(st.integers(1, most_jobs))):
        job = draw(staged_jobs(most_gpus=min(servers * gpus, 4), most_stages=3))
        first = replace(job.stages[0], forward_s=job.stages[0].forward_s + 1)
        arrival, work = draw(st.integers(0, 30)), draw(st.integers(1, 8)) / 2
        jobs.append(replace(job, name=f"j{i + 1}", stages=(first, *job.stages[1:]), arrival=arrival, work=work))
    return Instance(cluster, jobs=tuple(sorted(jobs, key=lambda job: job.arrival)))


def exact_parts(instance: Instance, heavy: Any) -> tuple[list[Job], list[Pipeline], Machines]:
    jobs = list(instance.jobs)
    return jobs, [Pipeline.of(j).exact() for j in jobs], Machines(Servers.of(instance, "GPU").exact(), heavy)


def same(log: hetopt.Log, machines: Machines) -> None:
    for name, ran in machines.ran.items():
        assert log.jobs.loc[name, "start"] == pytest.approx(float(ran.start), rel=EQUAL, abs=EQUAL)
        assert log.jobs.loc[name, "finish"] == pytest.approx(float(ran.end), rel=EQUAL, abs=EQUAL)


@settings(max_examples=80)
@given(online_instances(), st.sampled_from([1.0, 1.5, 2.5]), st.sampled_from([0.0, 0.5, 4.0]), st.data())
def test_algorithm_1(instance: Instance, heavy: float, delay: float, data: st.DataObject) -> None:
    """With predictions of any kind, 0 for unseen jobs among them."""
    guessed = [data.draw(st.sampled_from([0.0, job.work, 2 * job.work, 1.0])) for job in instance.jobs]
    policy = ASRPT(Guess(tuple(zip(instance.job, guessed, strict=True))), comm_heavy=heavy, delay=delay)
    jobs, pipelines, machines = exact_parts(instance, Fraction(heavy))
    asrpt(jobs, pipelines, [Fraction(n) for n in guessed], machines, Fraction(delay))
    moments = [t for ran in machines.ran.values() for t in (ran.start, ran.end)]
    gaps = [abs(float(a - b)) for a in moments for b in moments if a != b]
    assume(not gaps or min(gaps) > EQUAL)  # times that floats cannot distinguish may swap
    same(hetopt.simulate(policy, instance), machines)


@settings(max_examples=120)
@given(online_instances(), st.sampled_from(get_args(Key)), st.booleans(), st.sampled_from(get_args(ServerChoice)))
def test_baselines(instance: Instance, key: Any, conserving: bool, servers: Any) -> None:
    jobs, pipelines, machines = exact_parts(instance, Fraction(3, 2))
    seconds = [Fraction(j.work) * machines.fewest(p) for j, p in zip(jobs, pipelines, strict=True)]
    keys = {
        "duration": seconds,
        "workload": [s * p.gpus for s, p in zip(seconds, pipelines, strict=True)],
        "submission": [j.arrival for j in jobs],
    }[key]
    close = [abs(float(a - b)) for a in keys for b in keys if a != b]
    assume(not close or min(close) > EQUAL)
    most = {
        "least-available": [False] * len(jobs),
        "most-available": [True] * len(jobs),
        "by-communication": [machines.is_heavy(p) for p in pipelines],
    }[servers]
    in_order(jobs, pipelines, keys, machines, conserving, most)
    moments = [t for ran in machines.ran.values() for t in (ran.start, ran.end)]
    gaps = [abs(float(a - b)) for a in moments for b in moments if a != b]
    assume(not gaps or min(gaps) > EQUAL)
    same(hetopt.simulate(ListPolicy(key=key, conserving=conserving, servers=servers), instance), machines)


class Asked:
    """A policy that is asked with the whole instance each time."""

    def __init__(self, policy: NonPreemptivePolicy) -> None:
        self.policy, self.traits = policy, Traits(speeds=policy.traits.speeds)

    def __call__(self, instance: Instance, state: Any = None) -> Any:
        return self.policy(instance, state)


@settings(max_examples=60)
@given(online_instances(), st.sampled_from(POLICIES))
def test_online_and_round_based_calls_give_the_same_schedule(instance: Instance, policy: NonPreemptivePolicy) -> None:
    """Notified of each event, or called with the whole instance and its state."""
    online, called = hetopt.simulate(policy, instance), hetopt.simulate(Asked(policy), instance)
    columns = ["start", "finish", "switches", "done"]
    for column in columns:
        assert online.jobs[column].tolist() == pytest.approx(called.jobs[column].tolist(), rel=EQUAL, abs=EQUAL)
    assert (online.spans[["job", "gpus", "seats"]] == called.spans[["job", "gpus", "seats"]]).all().all()
    assert online.utilisation == pytest.approx(called.utilisation, rel=EQUAL)


@pytest.mark.parametrize("asked", [False, True])
def test_a_job_placed_on_the_gpus_of_a_profiling_run_begins_after_it(asked: bool) -> None:
    """A is profiled from 0 to 4, and then b on all GPUs until 8; a is placed at 4, and trains from 8 on."""
    jobs = (Job("a", {"GPU": 1.0}, 10.0), Job("b", {"GPU": 1.0}, 10.0, 2, arrival=2.0))
    instance = Instance(Cluster.of({"GPU": 2}, gpus_per_server=2), jobs=jobs)
    policy = ListPolicy(key="submission", conserving=True)
    environment = Environment(profiling=Profiling(4.0))
    log = hetopt.simulate(Asked(policy) if asked else policy, instance, environment=environment)
    assert log.jobs.loc["a", ["start", "finish", "lost"]].tolist() == [4.0, 18.0, 4.0]


@settings(max_examples=40)
@given(online_instances(), st.sampled_from(POLICIES))
def test_no_job_is_interrupted_and_no_gpu_given_twice(instance: Instance, policy: NonPreemptivePolicy) -> None:
    log = hetopt.simulate(policy, instance)
    assert len(log.spans) == len(instance.jobs)
    assert (log.jobs["done"] == log.jobs["work"]).all()
    assert (log.rounds["held"] <= log.capacity * (log.rounds["end"] - log.rounds["start"]) * (1 + EQUAL)).all()
    assert (log.jobs["start"] >= log.jobs["arrival"]).all()


@settings(max_examples=15)
@given(online_instances(most_jobs=3))
def test_parts_recombine(instance: Instance) -> None:
    """Another mapper, another model of an iteration: the simulation takes the same for true."""
    for policy in (ASRPT(mapper=LocalSearch()), ASRPT(timing=Synchronous(4)), SPJF()):
        log = hetopt.simulate(policy, instance)
        assert log.jobs["finish"].notna().all()
    local, heavy = hetopt.simulate(ASRPT(mapper=LocalSearch()), instance), hetopt.simulate(ASRPT(), instance)
    if len(instance.jobs) == 1:
        assert local.makespan <= heavy.makespan * (1 + EQUAL)


def staged(name: str, gpus: int, output: float, **fields: Any) -> Job:
    stages = tuple(Stage(1, 1, 0, output_bytes=output if i + 1 < gpus else 0) for i in range(gpus))
    return Job(name, {"GPU": 1.0}, fields.pop("work", 10), gpus, stages=stages, **fields)


@pytest.mark.parametrize(
    ("servers", "heavy", "light"),
    [
        ("least-available", "medium+small", "medium"),
        ("most-available", "large", "medium"),
        ("by-communication", "large", "small"),
    ],
)
def test_servers_of_baselines(servers: Any, heavy: str, light: str) -> None:
    """Lines 9 and 22, with 1, 2 and 3 free GPUs: the heavy job of 2 GPUs comes first."""
    sizes = {"small": 1, "medium": 2, "large": 3}
    cluster = Cluster((hetopt.GPUType("GPU"),), tuple(Server(name, {"GPU": n}) for name, n in sizes.items()))
    jobs = (staged("heavy", 2, 1e9), Job("light", {"GPU": 1.0}, 100, arrival=1))
    log = hetopt.simulate(WCSSubTime(servers=servers), Instance(cluster, jobs=jobs))
    assert dict(zip(log.spans["job"], log.spans["servers"], strict=True)) == {"heavy": heavy, "light": light}


def test_a_heavy_job_waits_for_better_gpus_no_longer_than_its_delay() -> None:
    """Two servers of two GPUs, each with one in use until 40 and 60: apart, an iteration takes 1 + 8 seconds."""
    cluster = Cluster.of({"GPU": 4}, gpus_per_server=2, nic_bytes_per_s=0.5, intra_bytes_per_s=1e9)
    blockers = (Job("a", {"GPU": 1.0}, 40), Job("b", {"GPU": 1.0}, 60))
    heavy = staged("heavy", 2, 1, arrival=1)
    running = Instance(
        cluster, jobs=(*blockers, heavy), placed={"a": {"gpu-0": {"GPU": 1}}, "b": {"gpu-1": {"GPU": 1}}}
    )
    starts = {}
    for delay in (0.0, 1.0, 100.0):
        # 1 iteration takes 1 s at best; on the virtual machine 10 * 2/4 = 5 s, done at 6
        log = hetopt.simulate(ASRPT(delay=delay), running)
        starts[delay] = (log.jobs.loc["heavy", "start"], log.jobs.loc["heavy", "finish"])
    assert starts[0.0] == pytest.approx((6, 6 + 10 * 9))
    assert starts[1.0] == pytest.approx((11, 11 + 10 * 9)), "after one virtual duration it takes what there is"
    assert starts[100.0] == pytest.approx((40, 50), rel=EQUAL), "as soon as a server is whole"


def test_jobs_go_to_the_fastest_type_that_has_room() -> None:
    cluster = Cluster.of({"T4": 1, "V100": 1})
    jobs = tuple(Job(f"j{i}", {"T4": 1.0, "V100": 4.0}, 8) for i in range(2))
    log = hetopt.simulate(WCSSubTime(), Instance(cluster, jobs=jobs))
    assert log.jobs["finish"].tolist() == [2, 8]
    assert log.spans["gpu_type"].tolist() == ["V100", "T4"]


def test_slices_wait_for_a_server_that_has_room_for_all() -> None:
    """Tensor parallelism: four GPUs of one server, of which one is in use until 50."""
    cluster = Cluster.of({"GPU": 8}, gpus_per_server=4)
    small = tuple(Job(f"s{i}", {"GPU": 1.0}, 50) for i in range(2))
    sliced = Job("sliced", {"GPU": 1.0}, 5, 4, stages=(Stage(1, 1, 0, slices=4),), arrival=1)
    placed = {f"s{i}": {f"gpu-{i}": {"GPU": 1}} for i in range(2)}
    log = hetopt.simulate(WCSSubTime(), Instance(cluster, jobs=(*small, sliced), placed=placed))
    assert log.jobs.loc["sliced", "start"] == 50


def test_a_withdrawn_job_does_not_hold_up_the_others() -> None:
    cluster = Cluster.of({"GPU": 1})
    jobs = tuple(Job(f"j{i}", {"GPU": 1.0}, 10 + i) for i in range(3))
    for policy in (SPJF(), ASRPT()):
        plan, state = policy(Instance(cluster, jobs=jobs, time=100))
        assert plan.assigned == {"j0": "GPU", "j1": None, "j2": None}
        left = (jobs[0], jobs[2])
        plan, state = policy(Instance(cluster, jobs=left, time=100), state)
        plan, state = policy(Instance(cluster, jobs=left[1:], time=110), state)
        assert plan.assigned == {"j2": "GPU"}


def test_a_withdrawn_job_frees_the_virtual_machine() -> None:
    """As if it had not been there from then on: the other one is done 100 s after it got the machine."""
    cluster = Cluster.of({"GPU": 4})
    short, long = (Job(name, {"GPU": 1.0}, work, 4) for name, work in (("short", 100), ("long", 101)))
    plan, state = ASRPT()(Instance(cluster, jobs=(short, long)))
    assert plan.wake == 100
    plan, state = ASRPT()(Instance(cluster, jobs=(long,), time=1), state)
    assert plan.wake == 1 + 101
    plan, state = ASRPT()(Instance(cluster, jobs=(long,), time=102), state)
    assert plan.assigned == {"long": "GPU"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_name_that_was_withdrawn_can_come_again(policy: Any) -> None:
    cluster = Cluster.of({"GPU": 1})
    jobs = tuple(Job(f"j{i}", {"GPU": 1.0}, 10 + i) for i in range(2))
    _, state = policy(Instance(cluster, jobs=jobs))
    _, state = policy(Instance(cluster, jobs=jobs[:1]), state)
    _, state = policy(Instance(cluster, jobs=jobs), state)
    _, state = policy(Instance(cluster, jobs=jobs[1:], time=100), state)
    assert policy(Instance(cluster, jobs=jobs[1:], time=200), state)[0].assigned == {"j1": "GPU"}
    with pytest.raises(InvalidInstance, match=r"instance\.time is 50; the state is of 100 s, later than that"):
        policy(Instance(cluster, jobs=jobs, time=50), state)


def test_the_state_given_is_not_changed() -> None:
    cluster = Cluster.of({"GPU": 1})
    jobs = tuple(Job(f"j{i}", {"GPU": 1.0}, 10) for i in range(2))
    _, state = SPJF()(Instance(cluster, jobs=jobs))
    first = [SPJF()(Instance(cluster, jobs=jobs[1:], time=10), state)[0].assigned for _ in range(2)]
    assert first == [{"j1": "GPU"}] * 2


def test_a_job_that_never_fits_stalls_and_is_named() -> None:
    cluster = Cluster((hetopt.GPUType("T4"), hetopt.GPUType("gone")), (Server("a", {"T4": 1}),))
    jobs = (Job("fits", {"T4": 1.0, "gone": 1.0}, 5), Job("never", {"T4": 0.0, "gone": 1.0}, 5))
    with pytest.raises(Stalled, match="1 unfinished job: never"):
        hetopt.simulate(WCSSubTime(), Instance(cluster, jobs=jobs))


class Twice(ListPolicy):
    """Starts the same job again."""

    def online(self, instance: Instance) -> Any:
        events = super().online(instance)
        decide = events.decide
        events.decide = lambda time: (lambda started: started * 2)(decide(time))  # type: ignore[method-assign]
        return events


def test_what_the_scheduler_says_is_checked() -> None:
    cluster = Cluster.of({"GPU": 1})
    with pytest.raises(InvalidPlan, match="the policy starts job 'j', which runs"):
        hetopt.simulate(Twice(), Instance(cluster, jobs=(Job("j", {"GPU": 1.0}, 5),)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ASRPT(delay=-1), InvalidOption, "ASRPT.delay is -1"),
        (lambda: ASRPT(comm_heavy=0.5), InvalidOption, "ASRPT.comm_heavy is 0.5; it must be a finite number >= 1"),
        (lambda: ASRPT(mapper=LocalSearch), InvalidOption, "mapper is the class LocalSearch; give an instance"),  # type: ignore[arg-type]
        (
            lambda: ASRPT(mapper="local"),
            InvalidOption,
            "is 'local', which is not a mapper; hetopt.registry.make_mapper",
        ),  # type: ignore[arg-type]
        (lambda: SPJF(predictor=3), InvalidOption, "SPJF.predictor is 3, which is not a predictor"),  # type: ignore[arg-type]
        (
            lambda: ListPolicy(key="size"),
            InvalidOption,
            "ListPolicy.key is 'size'; known: duration, submission, workload",
        ),  # type: ignore[arg-type]
        (
            lambda: SPWF(servers="nearest"),
            InvalidOption,
            "SPWF.servers is 'nearest'; known: by-communication, least-available, most-available",
        ),  # type: ignore[arg-type]
        (lambda: ListPolicy(conserving=1), InvalidOption, "ListPolicy.conserving is 1; it must be True or False"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as problem:
        make()
    assert message in str(problem.value)


@dataclass(frozen=True)
class Says:
    """A predictor, and its learner."""

    value: float

    def learner(self) -> Any:
        return self

    def predict(self, jobs: Any) -> Any:
        return np.full(len(jobs), self.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("policy", [ASRPT, SPJF])
def test_a_prediction_is_a_number_of_iterations(policy: Any, value: float) -> None:
    instance = Instance(Cluster.of({"GPU": 1}), jobs=(Job("j", {"GPU": 1.0}, 5),))
    with pytest.raises(InvalidOption, match=f"the predictor returned {value} for job 'j'; it must be a finite number"):
        hetopt.simulate(policy(Says(value)), instance)


@pytest.mark.parametrize("answer", [[], ["many"], [1.0, 2.0], None])
def test_a_prediction_is_one_number(answer: Any) -> None:
    instance = Instance(Cluster.of({"GPU": 1}), jobs=(Job("j", {"GPU": 1.0}, 5),))
    predictor = Says(0)
    object.__setattr__(predictor, "predict", lambda _: answer)
    with pytest.raises(InvalidOption, match=r"the predictor returned .* for one job; it must be one number"):
        hetopt.simulate(ASRPT(predictor), instance)
    object.__setattr__(predictor, "learner", lambda: 3)
    with refused(InvalidOption, "Says.learner()"):
        hetopt.simulate(ASRPT(predictor), instance)


def test_a_mapper_answers_with_a_mapping() -> None:
    job = Job("j", {"GPU": 1.0}, 5, 2, stages=(Stage(2, 1, 1, 1e6),))
    with pytest.raises(InvalidPlan, match="the mapping method returned 3; it must return a GPUMapping"):
        hetopt.simulate(ASRPT(mapper=lambda *_: 3), Instance(Cluster.of({"GPU": 2}), jobs=(job,)))  # type: ignore[arg-type, return-value]


def test_an_iteration_takes_time() -> None:
    instance = Instance(Cluster.of({"GPU": 1}), jobs=(Job("j", {"GPU": 1.0}, 5, stages=(Stage(1, 0, 0),)),))
    with pytest.raises(InvalidInstance, match="an iteration of job 'j' takes 0 s; give its stages seconds > 0"):
        hetopt.simulate(ASRPT(), instance)


def test_a_policy_is_no_class() -> None:
    with pytest.raises(InvalidOption, match=r"policy is the class ASRPT; give an instance of it: ASRPT\(\)"):
        hetopt.simulate(ASRPT, Instance(Cluster.of({"GPU": 1}), jobs=(Job("j", {"GPU": 1.0}, 5),)))


def test_baselines_share_the_settings() -> None:
    assert WCSDuration(mapper=LocalSearch()).mapper == LocalSearch()
    for named, key, conserving in ((SPJF(), "duration", False), (SPWF(), "workload", False),
                                   (WCSDuration(), "duration", True), (WCSWorkload(), "workload", True),
                                   (WCSSubTime(), "submission", True)):  # fmt: skip
        assert (named.key, named.conserving) == (key, conserving)


def test_bad_instances_are_refused_in_one_line() -> None:
    empty = Cluster((hetopt.GPUType("GPU"),), (Server("a", {"GPU": 1}), Server("none", {})))
    job = Job("j", {"GPU": 1.0}, 5)
    with refused(InvalidInstance, "servers['none']", "no GPU"):
        ASRPT()(Instance(empty, jobs=(job,)))
    sliced = Job("big", {"GPU": 1.0}, 5, 2, stages=(Stage(1, 1, 0, slices=2),))
    with refused(InvalidInstance, "jobs['big']", "2 GPUs"):
        ASRPT()(Instance(Cluster.of({"GPU": 2}, gpus_per_server=1), jobs=(sliced,)))
    with refused(InvalidInstance, "ASRPT"):
        ASRPT()(Instance.from_speedups([[1]], [1]))


@pytest.mark.parametrize("policy", [SPJF(), WCSDuration()])
def test_servers_that_fail_and_come_back(policy: NonPreemptivePolicy) -> None:
    """Rounds of 10 s, two servers of one GPU. b's goes at 15: b loses 5 s, and does the other 10 where a was.

    c comes when b is done; the server is back at 40.
    """
    cluster = Cluster((hetopt.GPUType("GPU"),), (Server("s1", {"GPU": 1}), Server("s2", {"GPU": 1})))
    jobs = (Job("a", {"GPU": 1.0}, 12.0), Job("b", {"GPU": 1.0}, 20.0), Job("c", {"GPU": 1.0}, 5.0, arrival=30.0))
    probe = hetopt.simulate(policy, Instance(cluster, jobs=jobs), round_seconds=10.0)
    server = probe.spans.set_index("job")["servers"].to_dict()["b"]
    environment = Environment(
        changes=(ServerChange(15.0, server), ServerChange(40.0, server, up=True)), checkpoint_seconds=10.0
    )
    log = hetopt.simulate(policy, Instance(cluster, jobs=jobs), round_seconds=10.0, environment=environment)
    assert log.jobs["finish"].tolist() == [12.0, 30.0, 35.0]
    assert log.jobs.loc["b", ["start", "wasted", "done"]].tolist() == [0.0, 5.0, 20.0]
    assert log.spans["job"].tolist() == ["a", "b", "b", "c"]
    other = hetopt.simulate(ASRPT(), Instance(cluster, jobs=jobs), round_seconds=10.0, environment=environment)
    assert (other.jobs["done"] == other.jobs["work"]).all()
