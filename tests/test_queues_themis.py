"""Themis: finish-time fairness by hand, and the auction against all packings."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues_oracles import FREE, fastest, left_by, one_type, queues, schedule, types_of
from refused import refused

import hetopt
from hetopt import Instance, InvalidOption, Job
from hetopt.data.rates import isolated_rate
from hetopt.models.baselines import EqualSplit, isolated
from hetopt.models.queues import FinishTimeQueue, Themis, ThemisState
from hetopt.tolerances import EQUAL

# By hand


def test_two_equal_jobs_take_turns() -> None:
    """Leases of 100. At 100 the first would end at 300 if it lost a lease, the other at 400; at 200 both at 400."""
    two = one_type(("a", 200, 0, 1), ("b", 200, 0, 1), gpus=1)
    rows = [("a", 0, 100, "G"), ("b", 100, 200, "G"), ("a", 200, 300, "G"), ("b", 300, 400, "G")]
    assert schedule(hetopt.simulate(Themis(round_seconds=100), two)) == rows


def test_rho() -> None:
    """Two jobs share GPUs of two types: alone on half of the cluster, each runs half the time on each type.

    At 50, work 120 has 60 left. Alone: speed (2 * 1 + 1 * 4) / 4 for a whole gang's time, 80 s. With A for a lease of
    10 s: 50 + 60 / 4 + 10 (1 - 1 / 4); with B 50 + 15; without GPUs 50 + 15 + 10.
    """
    jobs = Instance.from_jobs([[1, 4], [1, 4]], 1, [120, 120], [2, 1], round_seconds=1, time=50, done={"j1": 60})
    found = Themis(round_seconds=10).rho(jobs)
    alone = 120 / (6 / 3)  # all the time: half of three GPUs are more than one
    assert found[0] == pytest.approx([72.5 / alone, 65 / alone, 75 / alone])
    soon = jobs.replace(done={"j1": 116})  # one second on B, four on A
    assert Themis(round_seconds=10).rho(soon)[0] == pytest.approx([54 / alone, 51 / alone, 61 / alone])
    queue, entities = FinishTimeQueue(round_seconds=10), jobs.entities("jobs")
    assert queue.ranked(entities, None)[0] == pytest.approx([-75 / alone, -90 / alone])
    crowded = jobs.replace(cluster=hetopt.Cluster.of([1, 0]))
    assert Themis(round_seconds=10).rho(crowded)[0] == pytest.approx([110 / 240, np.inf, 120 / 240])


def test_the_number_of_jobs_is_an_average() -> None:
    """Until 100 one job, until 200 two: 1.5 on average for the first, and 2 for the second. A GPU's part is 1/N."""
    both = one_type(("a", 900, 0, 1), ("b", 900, 100, 1), gpus=1)
    policy = Themis(round_seconds=100)
    state = None
    for time in (0, 100, 200):
        now = both.at(time)
        rho = policy.rho(now, state)
        _, state = policy(now, state)
    assert state is not None
    assert state.crowd == {"a": 300, "b": 200}
    assert state.seen == {"a": 0, "b": 100}
    assert rho[0, -1] == pytest.approx((200 + 900 + 100) / (1.5 * 900))
    assert rho[1, -1] == pytest.approx((100 + 900 + 100) / (2 * 900))


def test_weights_are_parts_of_the_cluster() -> None:
    jobs = one_type(("a", 900, 0, 1), ("b", 900, 0, 1), gpus=1)
    heavy = jobs.replace(jobs=(jobs.jobs[0], Job("b", {"G": 1.0}, 900, weight=3.0)))
    rho = Themis(round_seconds=100).rho(heavy)[:, -1]
    assert rho == pytest.approx([1000 / (900 * 4), 1000 / (900 * 4 / 3)])
    assert hetopt.solve(Themis(round_seconds=100), heavy).assigned == {"a": None, "b": "G"}


def test_the_knob_says_how_many_are_asked() -> None:
    """The gang of two has waited 400 s: rho = 600/300, and 500/300 with a lease of 100 s, a value 1.2 times as large.
    The two that have just come have rho = 1100/1500, or 1000/1500 with a lease: together 1.21 times as large.
    """
    jobs = one_type(("wide", 100, 0, 2), ("n1", 1000, 400, 1), ("n2", 1000, 400, 1), gpus=2).at(400)
    rho = Themis(round_seconds=100).rho(jobs)
    assert rho == pytest.approx(np.array([[500 / 300, 600 / 300], *([[1000 / 1500, 1100 / 1500]] * 2)]))
    for fairness, runs in ((0.8, {"wide"}), (0.7, {"wide"}), (0.0, {"n1", "n2"})):
        plan = hetopt.solve(Themis(fairness, round_seconds=100), jobs)
        assert {name for name, kind in plan.assigned.items() if kind} == runs


def test_equal_jobs_stay_where_they_are() -> None:
    jobs = Instance.from_jobs([[1, 1], [1, 1], [1, 1]], 1, 100, [1, 1], round_seconds=1)
    there = jobs.replace(held={"j2": {"GPU1": 1}, "j1": {"GPU2": 1}})
    for fairness in (0.0, 0.3):
        assert hetopt.solve(Themis(fairness), there).assigned == {"j1": "GPU2", "j2": "GPU1", "j3": None}


# Against all packings


def finish(instance: Instance, job: Job, kind: str | None, lease: Fraction) -> Fraction:
    """Seconds from arrival to end, in fractions: a lease on the type, then on the best one."""
    speed = {t: Fraction(job.throughput[t]) for t in types_of(instance, job)}
    left, elapsed = Fraction(instance.work_left(job.name)), Fraction(instance.time - job.arrival)
    s, best = speed.get(kind or "", Fraction(0)), max(speed.values())
    if s * lease >= left:
        return elapsed + left / s
    return elapsed + lease + (left - s * lease) / best


def alone(instance: Instance, job: Job) -> Fraction:
    """Seconds of the whole job on 1/N of each type, at most all the time."""
    parts = {t: Fraction(n, len(instance.jobs) * job.demand) for t, n in instance.cluster.capacity.items()}
    total = sum(parts.values())
    speed = sum(Fraction(job.throughput[t]) * parts[t] for t in types_of(instance, job)) / max(total, Fraction(1))
    return Fraction(job.work) / speed


@st.composite
def now(draw: st.DrawFn) -> Instance:
    """Jobs that are present at some moment, some of them half done."""
    instance = draw(queues(jobs=(1, 5), types=(1, 2), most_gpus=4))
    done = {job.name: job.work / 2 for job in instance.jobs if draw(st.booleans())}
    return instance.replace(time=384.0 + 64 * draw(st.integers(0, 9)), done=done)


@settings(max_examples=120)
@given(instance=now(), lease=st.sampled_from([8.0, 64.0, 300.0]))
def test_rho_is_that_of_fractions(instance: Instance, lease: float) -> None:
    found = Themis(round_seconds=lease).rho(instance)
    for job, row in zip(instance.jobs, found, strict=True):
        for t, value in zip((*instance.cluster.type_names, None), row, strict=True):
            if t is not None and t not in types_of(instance, job):
                assert value == np.inf
            else:
                exact = finish(instance, job, t, Fraction(lease)) / alone(instance, job)
                assert value == pytest.approx(float(exact))
    jobs = instance.entities("jobs")
    assert found[:, -1] * instance.job_array("work") / isolated_rate(jobs) == pytest.approx(
        [float(finish(instance, job, None, Fraction(lease))) for job in instance.jobs]
    )


@settings(max_examples=150)
@given(instance=now(), lease=st.sampled_from([8.0, 64.0, 300.0]), fairness=st.sampled_from([0.0, 0.25, 0.5, 0.8]))
def test_the_product_of_values_is_the_largest_of_all_packings(
    instance: Instance, lease: float, fairness: float
) -> None:
    """Jobs in the auction first; the rest goes to the others by rho, each on its fastest type with room."""
    plan = hetopt.solve(Themis(fairness, lease), instance)
    seconds = Fraction(lease)
    rho = {job.name: finish(instance, job, None, seconds) / alone(instance, job) for job in instance.jobs}
    order = sorted(instance.jobs, key=lambda job: (-rho[job.name], job.arrival))
    asked = order[: max(1, ceil((1 - Fraction(str(fairness))) * len(order)))]

    def value(kinds: tuple[str | None, ...]) -> Fraction:
        """The product of all 1/rho, but for what is the same in all packings."""
        result = Fraction(1)
        for job, kind in zip(asked, kinds, strict=True):
            result /= finish(instance, job, kind, seconds)
        return result

    packings = [
        kinds
        for kinds in product(*([None, *types_of(instance, job)] for job in asked))
        if min(left_by(instance, {j.name: t for j, t in zip(asked, kinds, strict=True) if t}).values()) >= 0
    ]
    won = {job.name: plan.assigned[job.name] for job in asked}
    assert float(value(tuple(won.values())) / max(map(value, packings))) == pytest.approx(1, rel=10 * EQUAL)
    given = {name: t for name, t in won.items() if t is not None}
    choose = fastest(instance)
    for job in order[len(asked) :]:
        if kind := choose(job, left_by(instance, given)):
            given[job.name] = kind
    assert {name: t for name, t in plan.assigned.items() if t} == given


@settings(max_examples=20)
@given(instance=queues())
def test_all_jobs_end_and_none_is_forgotten(instance: Instance) -> None:
    """The state names the jobs that are present, and no others."""

    def watched(now: Instance, state: ThemisState | None = None) -> Any:
        plan, state = Themis(round_seconds=64)(now, state)
        assert state.crowd.keys() == state.seen.keys() == now.job.keys()
        return plan, state

    assert hetopt.simulate(watched, instance, round_seconds=64, overheads=FREE).jobs["finish"].notna().all()


# Settings


def test_isolated_is_an_equal_split_of_jobs() -> None:
    jobs = one_type(("a", 9, 0, 1), ("b", 9, 0, 2), gpus=4)
    assert isolated() == EqualSplit(kind="jobs")
    assert hetopt.solve(isolated(), jobs).gpus["G"].tolist() == pytest.approx([1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Themis(1.0), "Themis.fairness"),
        (lambda: Themis(-0.1), "Themis.fairness"),
        (lambda: Themis(round_seconds=None), "Themis.round_seconds"),  # type: ignore[arg-type]
        (lambda: Themis(time_limit=0), "time_limit"),
        (lambda: Themis()(one_type(("a", 1, 0, 1), gpus=1), 5), "state"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, message: str) -> None:
    with refused(InvalidOption, message):
        make()
