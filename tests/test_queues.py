"""FIFO, SRTF, SRSF and LAS: schedules by hand, plain versions, and what must hold of every schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queues_oracles import (
    FREE,
    Received,
    Where,
    by_turns,
    fastest,
    followed,
    never_stopped,
    one_type,
    queues,
    renamed,
    roomiest,
    same,
    schedule,
    seconds_left,
    sorted_by,
    types_of,
)
from refused import refused

import hetopt
from hetopt import Instance, InvalidInstance, InvalidOption, Job
from hetopt.models.queues import FIFO, LAS, PAL, SRSF, SRTF, YARN, Themis, Tiresias
from hetopt.models.queues.gpu_pool import GPUPool, first_type_that_fits

SEVERAL = [
    FIFO(),
    FIFO(backfill=True),
    SRTF(),
    SRTF(moves=False),
    SRSF(backfill=False),
    LAS(),
    LAS(moves=False, types="roomiest"),
    Tiresias(),
    Tiresias(per_type="least-service"),
    Tiresias(order="remaining"),
    YARN(),
    PAL(),
    PAL(order="las", moves=True),
    Themis(),
]


# By hand


def test_fifo_lets_no_job_overtake() -> None:
    """Two of three GPUs are taken; b wants two, so c, which would fit, waits until b has started."""
    line = one_type(("a", 10, 0, 2), ("b", 10, 1, 2), ("c", 3, 2, 1), gpus=3)
    assert schedule(hetopt.simulate(FIFO(), line)) == [("a", 0, 10, "G"), ("b", 10, 20, "G"), ("c", 10, 13, "G")]
    filled = hetopt.simulate(FIFO(backfill=True), line)
    assert schedule(filled) == [("a", 0, 10, "G"), ("c", 2, 5, "G"), ("b", 10, 20, "G")]


def test_fifo_waits_for_the_next_round() -> None:
    line = one_type(("a", 10, 0, 1), ("b", 10, 1, 1), gpus=1)
    assert schedule(hetopt.simulate(FIFO(round_seconds=8), line)) == [("a", 0, 10, "G"), ("b", 16, 26, "G")]


def test_srtf_stops_a_job_for_a_shorter_one() -> None:
    """At 4 the first has 6 left, the new one 3; at 5 that has 2 left and the newest 5."""
    line = one_type(("long", 10, 0, 1), ("short", 3, 4, 1), ("new", 5, 5, 1), gpus=1)
    log = hetopt.simulate(SRTF(), line)
    assert schedule(log) == [("long", 0, 4, "G"), ("short", 4, 7, "G"), ("new", 7, 12, "G"), ("long", 12, 18, "G")]


def test_srtf_moves_to_the_fastest_type_by_default() -> None:
    """Both would run on B, twice as fast; the shorter has it until 5, when the longer has 15 of 20 left."""
    jobs = (Job("short", {"A": 1.0, "B": 2.0}, 10), Job("long", {"A": 1.0, "B": 2.0}, 20))
    two = Instance(hetopt.Cluster.of({"A": 1, "B": 1}), jobs=jobs)
    moving = hetopt.simulate(SRTF(), two, overheads=FREE)
    assert schedule(moving) == [("long", 0, 5, "A"), ("short", 0, 5, "B"), ("long", 5, 12.5, "B")]
    assert schedule(hetopt.simulate(SRTF(moves=False), two)) == [("long", 0, 20, "A"), ("short", 0, 5, "B")]


def test_srsf_counts_gpus() -> None:
    """Three seconds on two GPUs are more than five on one, and both do not fit."""
    line = one_type(("wide", 3, 0, 2), ("narrow", 5, 0, 1), gpus=2)
    assert schedule(hetopt.simulate(SRSF(), line)) == [("narrow", 0, 5, "G"), ("wide", 5, 8, "G")]
    assert schedule(hetopt.simulate(SRTF(), line)) == [("wide", 0, 3, "G"), ("narrow", 3, 8, "G")]


def test_las_counts_gpu_seconds() -> None:
    """Rounds of 10 on two GPUs: w takes both and has 20, so n runs until it has 20 too, in two rounds."""
    line = one_type(("w", 20, 0, 2), ("n", 30, 0, 1), gpus=2)
    log = hetopt.simulate(LAS(round_seconds=10), line)
    assert schedule(log) == [("w", 0, 10, "G"), ("n", 10, 30, "G"), ("w", 30, 40, "G"), ("n", 40, 50, "G")]


def test_a_job_seen_for_the_first_time_has_received_what_its_work_takes() -> None:
    jobs = Instance.from_jobs([[1, 2], [1, 2]], 1, 100, [1, 1], round_seconds=1, done={"j1": 40, "j2": 10})
    state = LAS()(jobs)[1]
    assert state.attained == {"j1": 20, "j2": 5}
    later = LAS()(jobs.replace(time=30, held={"j2": {"GPU2": 1}}), state)[1]
    assert later.attained == {"j1": 20, "j2": 35}


def test_the_last_is_stopped_first_and_only_where_that_helps() -> None:
    """Of d, a, c, b the first wants two GPUs of A. To stop b, the last, does not help; so c makes room, and b stays on
    B, though A is faster and one GPU of it is left.
    """
    speed = {"A": 2.0, "B": 1.0}
    rows = (("d", {"A": 2.0, "B": 0.0}, 2), ("a", speed, 1), ("c", speed, 3), ("b", speed, 1))
    jobs = tuple(Job(name, own, 1 + i, need) for i, (name, own, need) in enumerate(rows))
    held = {"a": {"A": 1}, "c": {"A": 3}, "b": {"B": 1}}
    full = Instance(hetopt.Cluster.of({"A": 4, "B": 2}), jobs=jobs, held=held)
    plan = hetopt.solve(SRTF(moves=False), full)
    assert plan.assigned == {"d": "A", "a": "A", "c": None, "b": "B"}


# Plain versions


@settings(max_examples=40)
@given(
    instance=queues(),
    backfill=st.booleans(),
    types=st.sampled_from(["fastest", "roomiest"]),
    seconds=st.sampled_from([None, 32.0]),
)
@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("policy", [FIFO, SRTF, SRSF, LAS])
def test_every_decision_is_that_of_a_plain_version(
    policy: Any, moves: bool, instance: Instance, backfill: bool, types: Any, seconds: float | None
) -> None:
    seconds = 32.0 if policy is LAS else seconds
    own = {} if policy is FIFO else {"moves": moves}
    asked = policy(round_seconds=seconds, types=types, backfill=backfill, **own)
    stops, received = ("none" if policy is FIFO else "all" if moves else "last"), Received()

    def oracle(now: Instance) -> Where:
        service = received.at(now)
        keys = {
            FIFO: lambda job: job.arrival,
            SRTF: lambda job: seconds_left(now, job),
            SRSF: lambda job: seconds_left(now, job) * job.demand,
            LAS: lambda job: service[job.name],
        }
        choose = {"fastest": fastest, "roomiest": roomiest}[types](now)
        return by_turns(now, sorted_by(now, keys[policy]), stops, backfill, choose)

    log = followed(asked, oracle, instance)
    assert log.jobs["finish"].notna().all()
    if policy is FIFO:
        assert never_stopped(log)


@settings(max_examples=300)
@given(
    instance=queues(jobs=(4, 14), types=(1, 2), most_gpus=9),
    wanted=st.lists(st.sampled_from(["A", "B"]), min_size=14, max_size=14),
    types=st.sampled_from(["fastest", "roomiest"]),
)
def test_many_that_run_make_way_as_in_a_plain_version(instance: Instance, wanted: list[str], types: Any) -> None:
    held: dict[str, dict[str, int]] = {}
    for job, kind in zip(instance.jobs, wanted, strict=False):
        if kind in types_of(instance, job):
            used = sum(own.get(kind, 0) for own in held.values())
            if used + job.demand <= instance.cluster.capacity[kind]:
                held[job.name] = {kind: job.demand}
    now = instance.replace(time=384, held=held)
    choose = {"fastest": fastest, "roomiest": roomiest}[types](now)
    expected = by_turns(now, sorted_by(now, lambda job: seconds_left(now, job)), "last", True, choose)
    found = hetopt.solve(SRTF(types=types, moves=False), now).assigned
    assert {name: kind for name, kind in found.items() if kind} == expected


@st.composite
def on_one_gpu(draw: st.DrawFn) -> Instance:
    rows = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=4))
    return one_type(*((f"j{i}", work, arrival, 1) for i, (work, arrival) in enumerate(rows)), gpus=1)


@settings(max_examples=150)
@given(instance=on_one_gpu())
def test_on_one_gpu_srtf_is_the_best_there_is(instance: Instance) -> None:
    """Over all schedules, stopping allowed at every second: the least sum of completion times."""
    arrival = [int(job.arrival) for job in instance.jobs]

    @cache
    def least(time: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        ready = [i for i, n in enumerate(left) if n and arrival[i] <= time]
        after = [tuple(n - (j == i) for j, n in enumerate(left)) for i in ready] or [left]
        return min(
            least(time + 1, rest) + sum(time + 1 for a, b in zip(left, rest, strict=True) if a and not b)
            for rest in after
        )

    log = hetopt.simulate(SRTF(), instance)
    assert log.jobs["finish"].sum() == pytest.approx(least(0, tuple(int(job.work) for job in instance.jobs)))


@given(many=st.integers(1, 5), rounds=st.integers(1, 12))
def test_on_one_gpu_las_shares_equally_but_for_a_round(many: int, rounds: int) -> None:
    jobs = one_type(*((f"j{i}", 1000, 0, 1) for i in range(many)), gpus=1)
    done = hetopt.simulate(LAS(round_seconds=8), jobs, until=8 * rounds).jobs["done"]
    assert done.sum() == 8 * rounds
    assert done.max() - done.min() <= 8


# Every schedule


@settings(max_examples=50)
@given(instance=queues())
def test_fifo_starts_no_job_before_those_ahead(instance: Instance) -> None:
    starts = hetopt.simulate(FIFO(), instance).jobs.sort_values("arrival", kind="stable")["start"]
    assert starts.is_monotonic_increasing


@settings(max_examples=examples(12, 60))
@given(instance=queues())
@pytest.mark.parametrize("policy", SEVERAL, ids=repr)
def test_all_work_is_done_within_the_gpus_that_there_are(policy: Any, instance: Instance) -> None:
    """The simulator refuses plans beyond the GPUs; no job does more work than it has; two runs are equal."""
    log, again = (hetopt.simulate(policy, instance, overheads=FREE) for _ in range(2))
    same(log, again)
    for name, row in log.jobs.iterrows():
        own = log.spans[log.spans["job"] == name]
        assert own["work"].sum() == pytest.approx(instance.job[str(name)].work)
        assert (own["gpus"] == instance.job[str(name)].demand).all()
        assert row["start"] >= row["arrival"]
    times = sorted({*log.spans["start"], *log.spans["end"]})
    for time, kind in product(times, instance.cluster.type_names):
        there = log.spans[(log.spans["start"] <= time) & (log.spans["end"] > time) & (log.spans["gpu_type"] == kind)]
        assert there["gpus"].sum() <= instance.cluster.capacity[kind]
    if isinstance(policy, (FIFO, YARN)):
        assert never_stopped(log)


@settings(max_examples=examples(12, 60))
@given(instance=queues())
@pytest.mark.parametrize("policy", SEVERAL, ids=repr)
def test_what_jobs_are_called_means_nothing(policy: Any, instance: Instance) -> None:
    one, other = (hetopt.simulate(policy, i, overheads=FREE).jobs for i in (instance, renamed(instance)))
    assert sorted(zip(one["arrival"], one["finish"], strict=True)) == sorted(
        zip(other["arrival"], other["finish"], strict=True)
    )


@settings(max_examples=20)
@given(instance=queues(), where=st.integers(0, 6), finished=st.booleans())
@pytest.mark.parametrize("policy", SEVERAL, ids=repr)
def test_a_job_that_can_use_no_gpu_gets_none_and_blocks_no_other(
    policy: Any, instance: Instance, where: int, finished: bool
) -> None:
    """A job whose only GPU type has no GPUs now, or one that is finished, ahead of all others or not."""
    gone = hetopt.Cluster((*instance.cluster.gpu_types, hetopt.GPUType("gone")), instance.cluster.servers)
    jobs = [replace(job, throughput={**job.throughput, "gone": 2.0}) for job in instance.jobs]
    speed = {t: float(finished) for t in instance.cluster.type_names} | {"gone": 4.0}
    now = Instance(gone, jobs=tuple(jobs), time=384)
    jobs.insert(where, Job("nothing", speed, 9.0))
    more = now.replace(jobs=tuple(jobs), done={"nothing": 9.0} if finished else {})
    assigned = hetopt.solve(policy, more).assigned
    assert assigned.pop("nothing") is None
    assert any(assigned.values())
    if not isinstance(policy, Themis):  # to which it is one of N who share
        assert assigned == hetopt.solve(policy, now).assigned


# What is refused


def test_what_a_job_holds_must_be_its_gang_where_no_job_is_stopped() -> None:
    jobs = Instance.from_jobs([[1, 1]], 2, 9, [2, 2], held={"j1": {"GPU1": 1, "GPU2": 1}})
    message = (
        r"held\['j1'\] is \{'GPU1': 1.0, 'GPU2': 1.0\}; under (FIFO|YARN) a job that runs holds its 2 GPUs, all of one"
    )
    for policy in (FIFO(), YARN()):
        with pytest.raises(InvalidInstance, match=message):
            hetopt.solve(policy, jobs)
    assert hetopt.solve(SRTF(moves=False), jobs).assigned == {"j1": "GPU1"}


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: FIFO(round_seconds=0), "FIFO.round_seconds", None),
        (lambda: SRTF(types="slow"), "SRTF.types", None),  # type: ignore[arg-type]
        (lambda: SRSF(backfill=1), "SRSF.backfill", None),  # type: ignore[arg-type]
        (lambda: LAS(moves="no"), "LAS.moves", None),  # type: ignore[arg-type]
        (lambda: LAS()(ONE, 3), "state", None),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


ONE = one_type(("j", 1, 0, 1), gpus=1)


@pytest.mark.parametrize("policy", [LAS(), Tiresias(), Themis()], ids=repr)
def test_a_state_of_a_later_time_is_refused(policy: Any) -> None:
    state = policy(ONE.replace(time=90))[1]
    with refused(InvalidInstance, "time"):
        policy(ONE.replace(time=30), state)


def test_what_is_given_away_is_counted() -> None:
    room = GPUPool([2, 1], {7: ((0, 2),)})
    assert (room.open, room.free, room.left) == ([0, 1], [2, 1], 3)
    first = first_type_that_fits({1: 1}, {1: [0]})  # type: ignore[arg-type]
    assert not room.start(1, first)
    assert room.serve(1, first)
    assert (room.open, room.free, room.left, room.held) == ([1, 1], [1, 1], 2, {})
    assert list(room.given) == [1]
    assert not room.keep(7)
    assert room.keep(1)
