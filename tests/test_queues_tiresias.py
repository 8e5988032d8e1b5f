"""Tiresias: queues by service, promotion, and FFT's queues for each GPU type."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queues_oracles import (
    FREE,
    Where,
    by_turns,
    followed,
    holds,
    one_type,
    queues,
    roomiest,
    schedule,
    seconds_left,
    sorted_by,
    types_of,
)
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidOption, Job
from hetopt.models.queues import Tiresias, TiresiasState, tiresias_per_type
from hetopt.models.queues.tiresias import FIRST_LIMIT, JobRecord
from hetopt.registry import make_policy
from hetopt.tolerances import WORK

# By hand


def test_jobs_take_turns_at_the_threshold() -> None:
    """Two jobs of 150 s: each runs 100 s in the first queue, then 50 s in the second, in the order of their starts."""
    two = one_type(("a", 150, 0, 1), ("b", 150, 0, 1), gpus=1)
    for seconds in (50, None):
        log = hetopt.simulate(Tiresias(thresholds=(100,), round_seconds=seconds), two)
        assert schedule(log) == [("a", 0, 100, "G"), ("b", 100, 200, "G"), ("a", 200, 250, "G"), ("b", 250, 300, "G")]


def test_service_is_counted_in_gpu_seconds() -> None:
    """Queues begin at 0, 100 and 300. On two GPUs w leaves the first at 50, n at 150 and m at 160, when w is the first
    of the second queue; at 260, after 150 s of two GPUs, it is in the third, and goes on when the others are done.
    """
    wide = one_type(("w", 400, 0, 2), ("n", 120, 10, 1), ("m", 250, 60, 1), gpus=2)
    log = hetopt.simulate(Tiresias(thresholds=(100, 300), round_seconds=None), wide)
    first = [("w", 0, 50, "G"), ("n", 50, 160, "G"), ("m", 60, 160, "G"), ("w", 160, 260, "G")]
    assert schedule(log) == [*first, ("m", 260, 410, "G"), ("n", 260, 270, "G"), ("w", 410, 660, "G")]


def test_a_job_is_not_stopped_for_one_of_its_own_queue() -> None:
    """After 10 s a is in the second queue; b comes at 20 and is there at 30, where a, which began first, goes on."""
    jobs = one_type(("a", 100, 0, 1), ("b", 100, 20, 1), gpus=1)
    log = hetopt.simulate(Tiresias(thresholds=(10,), round_seconds=None), jobs)
    assert schedule(log) == [("a", 0, 20, "G"), ("b", 20, 30, "G"), ("a", 30, 110, "G"), ("b", 110, 200, "G")]


STARVED = one_type(("long", 400, 0, 1), ("b", 80, 60, 1), ("c", 100, 150, 1), gpus=1)


def test_without_promotion_a_job_waits_for_all_that_are_new() -> None:
    log = hetopt.simulate(Tiresias(thresholds=(100,), round_seconds=None), STARVED)
    rows = [("long", 0, 100, "G"), ("b", 100, 180, "G"), ("c", 180, 280, "G"), ("long", 280, 580, "G")]
    assert schedule(log) == rows


def test_a_job_that_starved_as_long_as_it_ran_is_promoted() -> None:
    """After 100 s of running and as many of waiting, at 200, it is in the first queue again, and began before c."""
    log = hetopt.simulate(Tiresias(thresholds=(100,), promote=1, round_seconds=None), STARVED)
    assert schedule(log)[2:] == [
        ("c", 180, 200, "G"),
        ("long", 200, 300, "G"),
        ("c", 300, 380, "G"),
        ("long", 380, 580, "G"),
    ]


def test_after_its_promotion_a_job_starves_no_further_before_it_has_run_again() -> None:
    """Promoted at 10 s, it waits until 70 s in the first queue; this does not count towards its next promotion."""
    one, policy = one_type(("j", 400, 0, 1), gpus=1), Tiresias(thresholds=(100,), promote=0.1, round_seconds=None)
    state = policy(one.replace(time=10, held={}), TiresiasState(0.0, {"j": JobRecord(100.0, 0.0, 0.0, None)}))[1]
    state = policy(one.replace(time=70, held={}), state)[1]
    assert state.records == {"j": JobRecord(0.0, 0.0, 0.0, None)}


def test_a_job_that_runs_is_not_promoted() -> None:
    """It has waited 1000 s and runs 109 s in all when it is asked: both counts restart only when it waits again."""
    one, policy = one_type(("j", 400, 0, 1), gpus=1), Tiresias(thresholds=(100,), promote=1)
    before = TiresiasState(0.0, {"j": JobRecord(99.0, 1000.0, 0.0, None)})
    state = policy(one.replace(time=10, held={"j": {"G": 1}}), before)[1]
    assert state.records == {"j": JobRecord(109.0, 1000.0, 0.0, None)}
    state = policy(one.replace(time=20, held={"j": {}}), state)[1]
    assert state.records == {"j": JobRecord(0.0, 0.0, 0.0, None)}


def test_the_job_with_least_service_left_comes_first() -> None:
    """Times GPUs: 3 s on two GPUs are more than 5 s on one."""
    line = one_type(("wide", 3, 0, 2), ("narrow", 5, 0, 1), gpus=2)
    log = hetopt.simulate(Tiresias(order="remaining", round_seconds=None), line)
    assert schedule(log) == [("narrow", 0, 5, "G"), ("wide", 5, 8, "G")]


def test_new_jobs_go_where_least_service_is_left() -> None:
    """All at once. First a goes to K80 (both are empty), b to V100, c to V100: 10 s are left there, and 40 of a."""
    speed = {"K80": 1.0, "V100": 4.0}
    jobs = tuple(Job(name, speed, work) for name, work in (("a", 40), ("b", 40), ("c", 400)))
    cluster = Cluster.of({"K80": 1, "V100": 1})
    policy = Tiresias(per_type="least-service", order="remaining", round_seconds=None)
    plan, state = policy(Instance(cluster, jobs=jobs))
    assert {name: record.gpu_type for name, record in state.records.items()} == {"a": "K80", "b": "V100", "c": "V100"}
    assert plan.assigned == {"a": "K80", "b": "V100", "c": None}
    log = hetopt.simulate(policy, Instance(cluster, jobs=jobs))
    assert schedule(log) == [("a", 0, 40, "K80"), ("b", 0, 10, "V100"), ("c", 10, 110, "V100")]


def test_a_job_that_runs_already_stays_on_its_type_for_good() -> None:
    jobs = Instance.from_jobs([[1, 1], [1, 1]], 1, 100, [1, 1], held={"j1": {"GPU2": 1}})
    for per_type in ("random", "least-service"):
        for seed in range(9):
            state = Tiresias(per_type=per_type, seed=seed)(jobs)[1]  # type: ignore[arg-type]
            assert state.records["j1"].gpu_type == "GPU2"
    later = jobs.replace(time=300, held={})
    state = Tiresias(per_type="random", seed=seed)(later, state)[1]
    assert state.records["j1"].gpu_type == "GPU2"


def test_a_job_whose_type_is_gone_is_put_in_another_queue() -> None:
    jobs = Instance.from_jobs([[1, 1]], 1, 100, [0, 1])
    policy = Tiresias(per_type="least-service")
    plan, state = policy(jobs)
    assert plan.assigned == {"j1": "GPU2"}
    plan, state = policy(jobs.replace(cluster=Cluster.of([1, 0]), time=300), state)
    assert plan.assigned == {"j1": "GPU1"}


def test_the_lot_depends_on_seed_and_name_alone() -> None:
    names = [f"job-{i}" for i in range(600)]
    jobs = Instance.from_jobs([[1, 1, 0]] * 600, 1, 100, [1, 1, 1], jobs=names)
    types = {name: record.gpu_type for name, record in Tiresias(per_type="random")(jobs)[1].records.items()}
    counted = Counter(types.values())
    assert set(counted) == {"GPU1", "GPU2"}
    assert abs(counted["GPU1"] - 300) < 75  # six standard deviations of a fair coin
    backwards = jobs.replace(jobs=jobs.jobs[::-1])
    again = Tiresias(per_type="random")(backwards)[1].records
    assert {name: again[name].gpu_type for name in names} == types
    other = Tiresias(per_type="random", seed=1)(jobs)[1].records
    assert 200 < sum(other[name].gpu_type == types[name] for name in names) < 400


# A plain version


class Plain:
    """By names and dicts. FFT's assignment is computed here for least service, and taken as it comes for the lot."""

    def __init__(self, policy: Tiresias) -> None:
        self.policy, self.time = policy, 0.0
        self.service: dict[str, float] = {}
        self.waited: dict[str, float] = {}
        self.start: dict[str, float] = {}
        self.kind: dict[str, str] = {}
        self.line: list[tuple[str, int]] = []
        """(job, queue): running jobs, then waiting jobs, for the order within a queue ``"running"``."""

    def queue(self, name: str) -> int:
        return sum(self.service[name] >= limit * (1 - WORK) for limit in self.policy.thresholds)

    def __call__(self, now: Instance) -> Where:
        passed, self.time = now.time - self.time, now.time
        for job in now.jobs:
            name, runs = job.name, holds(now, job.name) is not None
            new = name not in self.service
            self.service[name] = self.service.get(name, 0.0) + (passed * job.demand if runs else 0.0)
            self.waited[name] = self.waited.get(name, 0.0) + (
                passed if not new and self.service[name] > 0 and not runs else 0
            )
            ran = self.service[name] / job.demand
            knob = self.policy.promote
            if knob is not None and not runs and self.queue(name) and self.waited[name] >= knob * ran * (1 - WORK):
                self.service[name] = self.waited[name] = 0.0
        if self.policy.per_type == "least-service":
            self.assign(now)
        known = {name for name, _ in self.line}
        line = [name for name, queue in self.line if name in now.job and queue == self.queue(name)]
        line += [job.name for job in sorted_by(now, lambda job: job.name in known) if job.name not in line]
        self.line = [(name, self.queue(name)) for name in line]
        given = by_turns(now, sorted_by(now, lambda job: self.key(now, job)), "last", True, self.choose(now))
        for name in given:
            self.start.setdefault(name, now.time)
        self.line.sort(key=lambda own: own[0] not in given)
        return given

    def key(self, now: Instance, job: Job) -> Any:
        if self.policy.order == "attained":
            within = self.start.get(job.name, float("inf"))
            if self.policy.within == "running":
                within = [name for name, _ in self.line].index(job.name)
            return self.queue(job.name), within
        if self.policy.per_type is None:
            return seconds_left(now, job) * job.demand
        return now.work_left(job.name) / job.throughput[self.kind[job.name]] * job.demand

    def choose(self, now: Instance) -> Any:
        if self.policy.per_type is None:
            return roomiest(now)
        return lambda job, free: self.kind[job.name] if free[self.kind[job.name]] >= job.demand else None

    def assign(self, now: Instance) -> None:
        def service(job: Job, kind: str) -> float:
            return job.demand * now.work_left(job.name) / job.throughput[kind]

        left = {t: sum(service(j, t) for j in now.jobs if self.kind.get(j.name) == t) for t in now.cluster.type_names}
        for job in sorted_by(now, lambda job: job.arrival):
            if job.name not in self.kind:
                self.kind[job.name] = min(types_of(now, job), key=lambda t: left[t])
                left[self.kind[job.name]] += service(job, self.kind[job.name])


@settings(max_examples=examples(25, 100))
@given(
    instance=queues(jobs=(2, 8)),
    limits=st.sampled_from([(), (64.0,), (32.0, 160.0)]),
    promote=st.sampled_from([None, 0.25, 2.0]),
    seconds=st.sampled_from([None, 32.0]),
    within=st.sampled_from(["start", "running"]),
)
@pytest.mark.parametrize("order", ["attained", "remaining"])
@pytest.mark.parametrize("per_type", [None, "least-service"])
def test_every_decision_is_that_of_a_plain_version(
    per_type: Any, order: Any, within: Any, instance: Instance, limits: Any, promote: float | None, seconds: Any
) -> None:
    knobs = (promote, within) if order == "attained" else (None, "start")
    policy = Tiresias(limits, knobs[0], per_type, order, knobs[1], round_seconds=seconds)
    log = followed(policy, Plain(policy), instance)
    assert log.jobs["finish"].notna().all()


@settings(max_examples=40)
@given(instance=queues(), order=st.sampled_from(["attained", "remaining"]))
def test_by_lot_a_job_has_one_type_for_good(instance: Instance, order: Any) -> None:
    """And on the types that the lot has drawn, it decides as the plain version does."""
    policy = Tiresias((64.0,), per_type="random", order=order, seed=3, round_seconds=32.0)
    plain = Plain(policy)
    for job in instance.jobs:
        alone = Instance(instance.cluster, jobs=(Job(job.name, job.throughput, job.work, job.demand),))
        plain.kind[job.name] = str(policy(alone)[1].records[job.name].gpu_type)
    log = followed(policy, plain, instance)
    assert (log.spans["gpu_type"] == log.spans["job"].map(plain.kind)).all()


@settings(max_examples=examples(15, 60))
@given(instance=queues(), promote=st.sampled_from([None, 1.0]))
def test_without_rounds_it_is_asked_when_queues_change(instance: Instance, promote: float | None) -> None:
    """Rounds of a second, in which all numbers here fall, decide no differently than the moments that it names."""
    whole = instance.replace(jobs=tuple(Job(j.name, j.throughput, j.work, 1, j.arrival) for j in instance.jobs))
    by_events = hetopt.simulate(Tiresias((60.0,), promote, round_seconds=None), whole, overheads=FREE)
    by_rounds = hetopt.simulate(Tiresias((60.0,), promote, round_seconds=1.0), whole, overheads=FREE)
    assert by_events.jobs["finish"].tolist() == pytest.approx(by_rounds.jobs["finish"].tolist())


# Settings


def test_defaults() -> None:
    assert Tiresias() == Tiresias((FIRST_LIMIT,), None, None, "attained", "start", 0, 300.0)
    assert tiresias_per_type() == make_policy("tiresias-per-type") == Tiresias(per_type="random")
    assert make_policy("tiresias", {"thresholds": [60, 600]}) == Tiresias(thresholds=(60.0, 600.0))
    assert isinstance(hash(Tiresias()), int)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"thresholds": 5}, "Tiresias.thresholds"),
        ({"thresholds": (5, 5)}, "Tiresias.thresholds[1]"),
        ({"thresholds": "ab"}, "Tiresias.thresholds[0]"),
        ({"promote": 0}, "Tiresias.promote"),
        ({"promote": 2, "order": "remaining"}, "Tiresias.promote"),
        ({"per_type": "any"}, "Tiresias.per_type"),
        ({"order": None}, "Tiresias.order"),
        ({"within": "arrival"}, "Tiresias.within"),
        ({"within": "running", "order": "remaining"}, "Tiresias.within"),
        ({"seed": 0.5}, "Tiresias.seed"),
        ({"round_seconds": -1}, "Tiresias.round_seconds"),
    ],
)
def test_settings_out_of_range_are_refused(settings_: Any, message: str) -> None:
    with refused(InvalidOption, message):
        Tiresias(**settings_)
