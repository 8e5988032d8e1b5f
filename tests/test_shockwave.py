"""Shockwave's predictions by hand, its program by enumeration, and its windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import (
    Cluster,
    Formulation,
    Instance,
    InvalidFormulation,
    InvalidInstance,
    InvalidOption,
    Job,
    Options,
    TrainingPhase,
)
from hetopt.data.array_types import Floats
from hetopt.models import fft
from hetopt.models.shockwave import (
    EarlyRounds,
    LogProgress,
    LongestTimeLeft,
    OneTypePerRound,
    RoundsGiven,
    Shockwave,
    ShockwaveState,
    TrainingTime,
    epoch_estimate,
    window,
)
from hetopt.models.shockwave.shockwave_components import BASES, LEAST
from hetopt.models.shockwave.shockwave_policy import HEAVIEST
from hetopt.models.shockwave.window_search import best_rounds, in_order
from hetopt.proofs.strategies import phased
from hetopt.registry import make_system
from hetopt.tolerances import EQUAL

EXACTLY = Options(gap=0.0)
LENGTH = 10.0

# Predictions


def test_the_work_left_by_hand() -> None:
    """Two epochs of 10 and two of 4: of four epochs, the prior counts two of each."""
    job = Job("j", {"G": 1.0}, 28.0, phases=(TrainingPhase(2, 16, 10.0), TrainingPhase(2, 64, 4.0)))
    # the first epoch counts: 3 to 2, expected 2.4 to 1.6, ahead 1.4 to 1.6
    assert epoch_estimate(job, 28.0).left == pytest.approx(1.4 * 10 + 1.6 * 4)
    # two count: 4 to 2, expected 8/3 to 4/3, ahead 2/3 to 4/3; three of three epochs
    assert epoch_estimate(job, 18.0).left == pytest.approx(2 / 3 * 10 + 4 / 3 * 4)
    # a half of the second epoch is done: 2.5 of 3
    assert epoch_estimate(job, 13.0).left == pytest.approx(2.5 / 3 * (2 / 3 * 10 + 4 / 3 * 4))
    # three count: 4 to 3, expected 16/7 to 12/7, ahead 2/7 to 5/7, together 1
    assert epoch_estimate(job, 8.0).left == pytest.approx(2 / 7 * 10 + 5 / 7 * 4)
    now = epoch_estimate(job, 8.0)
    assert (now.progress, now.length, now.most) == (0.5, pytest.approx(4 * 8.0), pytest.approx(2 * 8.0))


@given(st.integers(1, 30), st.floats(0.5, 9.0), st.data())
def test_a_job_of_one_batch_size_has_the_work_of_an_epoch_less_than_it_has_left(
    epochs: int, work: float, data: st.DataObject
) -> None:
    ended = data.draw(st.integers(0, epochs - 1))
    job = Job("j", {"G": 1.0}, epochs * work, phases=(TrainingPhase(epochs, 32, work),))
    found = epoch_estimate(job, (epochs - ended) * work)
    assert found.left == pytest.approx((epochs - ended - 1) * work)
    assert found.progress == pytest.approx(ended / epochs)
    assert found.length == pytest.approx(job.work)


@given(phased(), st.data())
def test_predictions_lie_between_the_cheapest_and_the_dearest_batch_size(
    phases: tuple[TrainingPhase, ...], data: st.DataObject
) -> None:
    job = Job("j", {"G": 1.0}, sum(phase.work for phase in phases), phases=phases)
    part = data.draw(st.floats(0.001, 1.0))
    found, total = epoch_estimate(job, part * job.work), sum(phase.epochs for phase in phases)
    rest = (1 - found.progress) * total
    works = [phase.epoch_work for phase in phases]
    assert 0 <= found.left <= rest * max(works) * (1 + EQUAL)
    assert found.left >= (rest - 2) * min(works) * (1 - EQUAL)


def test_without_phases_the_work_left_is_known() -> None:
    found = epoch_estimate(Job("j", {"G": 1.0}, 8.0), 6.0)
    assert (found.progress, found.length, found.left, found.most) == (0.25, 8.0, 6.0, 6.0)


# The program of a window


@st.composite
def cases(draw: st.DrawFn) -> tuple[Instance, int]:
    """Two or three jobs on one or two types, with few enough rounds to enumerate all plans."""
    n, k = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    rounds = draw(st.integers(1, 3 if n * k < 6 else 2))
    types = "AB"[:k]
    speeds = st.sampled_from([0.0, 0.5, 1.0, 2.0])
    jobs = []
    for i in range(n):
        speed = {t: draw(speeds) for t in types} | {"A": draw(st.sampled_from([0.5, 1.0, 2.0]))}
        phases = draw(phased(4))
        work = sum(phase.work for phase in phases)
        weight = draw(st.sampled_from([1.0, 2.5]))
        jobs.append(Job(f"j{i}", speed, work, draw(st.integers(1, 2)), phases=phases, weight=weight))
    done = {job.name: job.work * draw(st.floats(0, 0.9)) for job in jobs}
    return Instance(Cluster.of(dict.fromkeys(types, draw(st.integers(2, 3)))), jobs=tuple(jobs), done=done), rounds


def program(instance: Instance, rounds: int, cost: float = 0.01) -> Formulation:
    left = {job.name: instance.work_left(job.name) for job in instance.jobs}
    estimates = {job.name: epoch_estimate(job, left[job.name]) for job in instance.jobs}
    return Formulation(
        (
            OneTypePerRound(rounds),
            LogProgress(rounds, LENGTH, {}, estimates),
            LongestTimeLeft(cost, LENGTH, estimates),
        )
    )


def plans(instance: Instance, rounds: int) -> list[tuple[tuple[int, ...], ...]]:
    """For each round the type of each job, -1 for none."""
    jobs = instance.entities("jobs")
    fitting = [
        row
        for row in itertools.product(range(-1, len(jobs.types)), repeat=len(jobs.names))
        if all(kind < 0 or jobs.speed[e, kind] > 0 for e, kind in enumerate(row))
        and all(sum(jobs.demand[e] for e, own in enumerate(row) if own == k) <= m for k, m in enumerate(jobs.capacity))
    ]
    return list(itertools.product(fitting, repeat=rounds))


def value(instance: Instance, plan: tuple[tuple[int, ...], ...], cost: float = 0.01) -> float:
    """The objective by its definition: the interpolated logarithm, and the longest time left."""
    total, longest = 0.0, 0.0
    logs = [np.log(max(base, LEAST)) for base in BASES]
    for e, job in enumerate(instance.jobs):
        own, best = epoch_estimate(job, instance.work_left(job.name)), max(job.throughput.values())
        speeds = list(job.throughput.values())
        trained = min(LENGTH * sum(speeds[row[e]] for row in plan if row[e] >= 0), (1 - own.progress) * own.length)
        total += job.weight * float(np.interp(own.progress + trained / own.length, BASES, logs))
        longest = max(longest, (own.left - trained) / best)
    return total / (len(instance.jobs) * len(plan)) - cost * longest


@given(cases())
@settings(max_examples=examples(15, 150), deadline=None)
def test_the_optimum_is_that_of_all_plans(case: tuple[Instance, int]) -> None:
    """Of the whole program, and by numbers of rounds."""
    instance, rounds = case
    best = max(value(instance, plan) for plan in plans(instance, rounds))
    made = program(instance, rounds)
    for found in (made.solve(window(instance, rounds), EXACTLY), best_rounds(made, instance, rounds, EXACTLY)):
        own, certificate = np.rint(found.x), found.certificate
        assert certificate.measured
        assert certificate.violation <= EQUAL
        assert certificate.objective == pytest.approx(best, rel=EQUAL, abs=EQUAL)
        assert certificate.bound >= best - EQUAL
        shares = own.reshape(len(instance.jobs), rounds, -1)
        plan = tuple(tuple(row) for row in np.where(shares.any(axis=2), shares.argmax(axis=2), -1).T.tolist())
        assert value(instance, plan) == pytest.approx(best, rel=EQUAL, abs=EQUAL)


@given(cases(), st.lists(st.sampled_from([1.0, 3.0, 10.0]), min_size=3, max_size=3))
@settings(max_examples=examples(10, 100), deadline=None)
def test_the_order_is_the_best_of_all_plans_with_the_same_rounds(
    case: tuple[Instance, int], weights: list[float]
) -> None:
    instance, rounds = case
    found = best_rounds(program(instance, rounds), instance, rounds, EXACTLY)
    weight = dict(zip((job.name for job in instance.jobs), weights, strict=False))

    def numbers(plan: Any) -> list[list[int]]:
        return [[sum(row[e] == k for row in plan) for k in range(2)] for e in range(len(instance.jobs))]

    def cost(plan: Any) -> float:
        means = [np.mean([r for r, row in enumerate(plan) if row[e] >= 0] or [0]) for e in range(len(instance.jobs))]
        return float(np.dot(means, list(weight.values())))

    made = in_order(found, window(instance, rounds), rounds, weight, EXACTLY).T.tolist()
    alike = [plan for plan in plans(instance, rounds) if numbers(plan) == numbers(made)]
    assert tuple(map(tuple, made)) in alike
    assert cost(made) == pytest.approx(min(map(cost, alike)))
    rushed = in_order(found, window(instance, rounds), rounds, weight, Options(time_limit=1e-300)).T.tolist()
    assert numbers(rushed) == numbers(made)


def test_rounds_that_cannot_be_packed_are_found_by_the_whole_program() -> None:
    """Three jobs on 2 GPUs, one of them on both: with 3 rounds of 2 GPUs, the numbers 1, 2 and 2 do not fit."""
    jobs = [Job("both", {"G": 1.0}, 40.0, 2), Job("a", {"G": 1.0}, 40.0), Job("b", {"G": 1.0}, 20.0)]
    instance = Instance(Cluster.of({"G": 2}), jobs=tuple(jobs))
    made = program(instance, 3)
    best = max(value(instance, plan) for plan in plans(instance, 3))
    assert best_rounds(made, instance, 3, EXACTLY).certificate.objective == pytest.approx(best)


def test_other_papers_components_hold_in_a_window() -> None:
    """FFT's first objective: as many GPUs as can be packed in all rounds."""
    jobs = Instance.from_jobs([[1], [1], [1]], demand=[2, 1, 1], work=[9, 9, 9], capacity=[2], round_seconds=LENGTH)
    made, rounds = Shockwave(LENGTH, 3, options=EXACTLY).program(jobs, limits=False)
    found = (made + fft.WorkConserving()).solve(rounds, EXACTLY)
    assert found.gpus.sum(axis=0).tolist() == [2.0, 2.0, 2.0]
    with refused(InvalidFormulation, "work_conserving", "has no field round_seconds"):
        best_rounds(made + fft.WorkConserving(), jobs, 3, EXACTLY)


def test_a_window_has_each_type_in_each_round_and_the_jobs_that_can_run() -> None:
    jobs = [
        Job("a", {"A": 1.0, "B": 2.0}, 9.0, 2, 5.0),
        Job("nowhere", {"A": 0.0, "B": 1.0}, 9.0, 3),
        Job("done", {"A": 1.0, "B": 1.0}, 1.0),
    ]
    instance = Instance(Cluster.of({"A": 4, "B": 2}), jobs=tuple(jobs), time=7.0, done={"a": 4.0, "done": 1.0})
    made = window(instance, 2)
    assert made.cluster.capacity == {"A@1": 4, "B@1": 2, "A@2": 4, "B@2": 2}
    assert [job.name for job in made.jobs] == ["a"]
    assert made.entities("jobs").speed.tolist() == [[1.0, 2.0, 1.0, 2.0]]
    assert (made.time, made.work_left("a")) == (7.0, 5.0)


# The policy


def at(instance: Instance, time: float, **done: float) -> Instance:
    return instance.replace(time=time, done=done)


PAIR = Instance.from_jobs([[1], [1]], 1, work=[6, 3], capacity=[1], round_seconds=LENGTH)


def runs(state: ShockwaveState) -> list[list[str]]:
    return [sorted(row) for row in state.plan]


def test_a_window_is_followed_until_it_is_planned_again() -> None:
    policy = Shockwave(LENGTH, window_rounds=6, replan_rounds=3, options=EXACTLY)
    plan, first = policy(PAIR)
    assert plan.certificate is not None
    assert len(first.plan) == 3
    for number, time in ((1, 10.0), (2, 25.0)):
        plan, state = policy(at(PAIR, time), first)
        assert plan.certificate is None
        assert {name for name, t in plan.assigned.items() if t} == set(first.plan[number])
        assert (state.planned, state.time) == (0.0, time)
    for instance in (
        at(PAIR, 30.0),
        at(PAIR, 10.0).with_jobs(["j1"]),
        at(PAIR.replace(cluster=Cluster.of({"GPU1": 2})), 10.0),
    ):
        plan, state = policy(instance, first)
        assert plan.certificate is not None
        assert state.planned == instance.time
    with refused(InvalidInstance, "time"):
        policy(PAIR, state)


def test_gpus_that_a_plan_leaves_go_to_waiting_jobs() -> None:
    """A gang of 4 has all 4 GPUs; in the other rounds both others run, also where no objective asks for it."""
    jobs = [Job(name, {"G": 1.0}, work, gpus) for name, work, gpus in (("a", 30.0, 1), ("b", 90.0, 2), ("c", 95.0, 4))]
    instance = Instance(Cluster.of({"G": 4}), jobs=tuple(jobs))
    for cost in (0.0, 1.0):
        for plan in runs(Shockwave(LENGTH, 3, makespan_weight=cost, options=EXACTLY)(instance)[1]):
            assert plan in (["a", "b"], ["c"])


def test_limits_on_finish_times_hold_where_they_can() -> None:
    """An equal share ends the jobs after 120 s and 60 s; after the window they have half of the GPU."""
    jobs = (Job("a", {"G": 1.0}, 60.0), Job("b", {"G": 1.0}, 30.0))
    instance = Instance(Cluster.of({"G": 1}), jobs=jobs)
    policy = Shockwave(LENGTH, 3, rho_limit=1.05, power=2.0, options=EXACTLY)
    limit = policy.program(instance)[0]["training_time"]
    assert isinstance(limit, TrainingTime)
    # a: 60 - (126 - 30) / 2, b: 30 - (63 - 30) / 2
    assert dict(limit.seconds) == {"a": pytest.approx(12.0), "b": pytest.approx(13.5)}
    with pytest.raises(hetopt.NotSolved):  # both of two rounds, and the window has three
        best_rounds(policy.program(instance)[0], instance, 3, EXACTLY)
    plan, state = policy(instance)
    assert plan.certificate is not None
    found = [sum(name in row for row in state.plan) for name in "ab"]
    assert sum(found) == 3
    wider = Shockwave(LENGTH, 3, rho_limit=1.25, options=EXACTLY)  # a: 0 s, b: 7.5 s
    assert "b" in {name for row in wider(instance)[1].plan for name in row}
    late = policy.program(instance.replace(time=10.0), state, limits=False)[0]["log_progress"]
    assert isinstance(late, LogProgress)
    # without progress until 10 s
    assert dict(late.weight) == {"a": pytest.approx((130 / 120) ** 2), "b": pytest.approx((70 / 60) ** 2)}


def test_a_job_that_ends_within_a_round_has_a_large_weight() -> None:
    """One of 5 s that has waited for 10 s: (10 + 10) / 10 to the power of 100, cut at a million."""
    jobs = (Job("a", {"G": 1.0}, 60.0), Job("short", {"G": 1.0}, 5.0))
    instance = Instance(Cluster.of({"G": 1}), jobs=jobs)
    policy = Shockwave(LENGTH, 3, power=2.0)
    late = policy.program(instance.replace(time=10.0), policy(instance)[1], limits=False)[0]["log_progress"]
    assert isinstance(late, LogProgress)
    assert dict(late.weight) == {"a": pytest.approx((130 / 120) ** 2), "short": HEAVIEST}


def test_fair_finish_times_are_averages_over_time() -> None:
    """Alone until 40 s, then with another: the last estimate counts a tenth, and more as time passes."""
    alone = Instance(Cluster.of({"G": 1}), jobs=(Job("a", {"G": 1.0}, 60.0),))
    policy = Shockwave(LENGTH, 2, replan_rounds=2)
    _, state = policy(alone)
    assert state.finish["a"].average(0.0) == 60.0
    both = alone.replace(jobs=(*alone.jobs, Job("b", {"G": 1.0}, 60.0, arrival=40.0)), time=40.0, done={"a": 40.0})
    _, state = policy(both, state)
    assert state.finish["a"].average(40.0) == pytest.approx(0.9 * 60.0 + 0.1 * 120.0)
    assert state.finish["a"].average(60.0) == pytest.approx(0.9 * (2 * 60.0 + 120.0) / 3 + 0.1 * 120.0)
    assert state.finish["b"].average(60.0) == pytest.approx(40.0 + 120.0)


def test_the_clock_may_begin_at_any_time() -> None:
    policy = Shockwave(LENGTH, 4, options=EXACTLY)
    later = PAIR.replace(jobs=tuple(Job(j.name, j.throughput, j.work, arrival=5000.0) for j in PAIR.jobs), time=5000.0)
    assert policy(later)[1].plan == policy(PAIR)[1].plan


def test_a_job_takes_its_fastest_type_in_each_round() -> None:
    jobs = Instance.from_jobs([[1, 2], [1, 4]], 1, work=[99, 99], capacity=[1, 1], round_seconds=LENGTH)
    _, state = Shockwave(LENGTH, 3, options=EXACTLY)(jobs)
    assert [dict(row) for row in state.plan] == [{"j1": "GPU1", "j2": "GPU2"}] * 3


def test_a_prediction_changes_the_order() -> None:
    """Both jobs look equally long at their first batch size; one may have batches that are ten times as fast."""
    growing = Job("growing", {"G": 1.0}, 55.0, phases=(TrainingPhase(5, 16, 10.0), TrainingPhase(5, 512, 1.0)))
    steady = Job("steady", {"G": 1.0}, 100.0, phases=(TrainingPhase(10, 16, 10.0),))
    instance = Instance(Cluster.of({"G": 1}), jobs=(growing, steady))
    log = hetopt.simulate(make_system("shockwave", {"round_seconds": LENGTH, "window_rounds": 5}), instance)
    assert log.jobs["finish"].idxmin() == "growing"
    assert log.makespan == pytest.approx(155.0, abs=2 * LENGTH)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: Shockwave(window_rounds=0), "Shockwave.window_rounds"),
        (lambda: Shockwave(replan_rounds=1.5), "Shockwave.replan_rounds"),  # type: ignore[arg-type]
        (lambda: Shockwave(makespan_weight=-1), "Shockwave.makespan_weight"),
        (lambda: Shockwave(power=float("nan")), "Shockwave.power"),
        (lambda: Shockwave(rho_limit=0), "Shockwave.rho_limit"),
        (lambda: Shockwave(bases=(0.0, 0.5)), "Shockwave.bases"),
        (lambda: Shockwave(bases=(0.0, 0.5, 0.5, 1.0)), "Shockwave.bases"),
        (lambda: Shockwave(least=0.2), "Shockwave.least"),
        (lambda: Shockwave(round_seconds=0), "Shockwave.round_seconds"),
        (lambda: Shockwave(options=None), "Shockwave.options"),  # type: ignore[arg-type]
        (lambda: OneTypePerRound(0), "OneTypePerRound.rounds"),
        (lambda: LongestTimeLeft(-1), "LongestTimeLeft.weight"),
        (lambda: RoundsGiven({}, 2, fewer=1), "RoundsGiven.fewer"),  # type: ignore[arg-type]
        (lambda: OneTypePerRound(2).rows(PAIR.entities("jobs")), "rounds"),
        (lambda: Shockwave()(PAIR, 5), "state"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_refused(make: Any, key: str) -> None:
    with refused(InvalidOption, key):
        make()


@pytest.mark.parametrize(
    "part",
    [
        LogProgress(1, weight={"x": 1.0}),
        LongestTimeLeft(estimates={"x": epoch_estimate(PAIR.jobs[0], 1.0)}),
        TrainingTime({"x": 1.0}),
        RoundsGiven({"x": {}}, 1),
        EarlyRounds({}, {"x": 1}, 1),
    ],
)
def test_unknown_jobs_are_refused(part: Any) -> None:
    with pytest.raises(InvalidFormulation, match="names 'x', which is no job here"):
        part.rows(PAIR.entities("jobs"))


def test_the_rows_of_early_rounds_by_hand() -> None:
    spread = window(PAIR, 3)
    cost: Floats = EarlyRounds({"j1": 6.0}, {"j1": 2}, 3).coefficients(spread.entities("jobs"))
    assert cost.tolist() == [[0.0, -3.0, -6.0], [0.0, 0.0, 0.0]]
