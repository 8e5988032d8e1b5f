"""P1, P2 and P3 of Hadar: they agree with each other and with plain enumeration, and weak duality holds exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from effort import examples
from hadar_oracles import best_total, gangs, speed
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from programs import assert_same_program
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, InvalidPlan, Job, NotSolved
from hetopt.models import hadar
from hetopt.models.hadar.job_schedules import JobSchedule, TooManySchedules, check_schedules, schedules, used_by
from hetopt.models.hadar.schedule_based import schedule_program
from hetopt.models.hadar.time_indexed import slot_limits
from hetopt.proofs.strategies import mixed_instances
from hetopt.tolerances import EQUAL, scale

SLOTS = st.integers(1, 4)


def same(a: float, b: float) -> bool:
    return abs(a - b) <= EQUAL * scale(a, b)


@given(mixed_instances(jobs=(1, 2), most_demand=2), st.integers(1, 3))
@settings(max_examples=examples(20, 60), deadline=None)
def test_all_methods_find_the_optimum_of_plain_enumeration(instance: Instance, slots: int) -> None:
    problem, best = hadar.OfflineProblem.of(instance, slots, 1.0), best_total(instance, slots, 1)
    for method in (hadar.TimeIndexed(), hadar.Enumerated(), hadar.ColumnGeneration()):
        found = method(problem)
        assert found.status == "optimal"
        assert same(found.utility, best), method
        check_schedules(problem, found.schedules)


@given(mixed_instances(jobs=(1, 4), memory=True), SLOTS)
@settings(max_examples=examples(20, 60), deadline=None)
def test_the_three_methods_agree(instance: Instance, slots: int) -> None:
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    try:
        enumerated = hadar.Enumerated()(problem).utility
    except TooManySchedules:
        reject()
    total = [hadar.TimeIndexed()(problem).utility, enumerated, hadar.ColumnGeneration()(problem).utility]
    assert same(total[0], total[1])
    assert same(total[0], total[2])


@given(mixed_instances(jobs=(1, 3)), SLOTS, st.data())
@settings(max_examples=examples(20, 60), deadline=None)
def test_weak_duality_holds_in_fractions_at_any_prices(instance: Instance, slots: int, data: st.DataObject) -> None:
    """Exactly: no choice of schedules is worth more than the dual objective at prices >= 0 [Hadar, eq. 3]."""
    problem = hadar.OfflineProblem.of(instance, slots, 1.0).exact
    small = st.fractions(0, 3, max_denominator=4)
    flat = [data.draw(small) for _ in range(problem.none_used().size)]
    prices = np.array(flat, dtype=object).reshape(problem.none_used().shape)
    bound, payoffs = hadar.dual_bound(problem, prices)
    for j, payoff in enumerate(payoffs):
        every = [p.payoff for p in schedules(problem, j, prices)]
        assert payoff == max([Fraction(0), *every])
    taken = hadar.Enumerated()(hadar.OfflineProblem.of(instance, slots, 1.0)).schedules
    assert isinstance(bound, (Fraction, int))
    assert sum(s.value(problem) for s in taken) <= bound


@given(mixed_instances(jobs=(1, 3)), SLOTS)
@settings(max_examples=40, deadline=None)
def test_the_relaxation_over_made_schedules_is_that_over_all(instance: Instance, slots: int) -> None:
    """Strong duality: column generation, the relaxation over every schedule, and P3 have one value."""
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    relaxed = hadar.ColumnGeneration().relaxation(problem)
    every = [p.schedule for j in range(len(instance.jobs)) for p in schedules(problem, j)]
    assert same(relaxed.utility, relaxed.bound)
    if every:
        point = hetopt.optimise(schedule_program(problem, every, whole=False))
        assert same(point.objective, relaxed.utility)
        dual = hetopt.optimise(hetopt.from_pyomo(hadar.dual_model(problem, every)))  # minimises: the sign is turned
        assert same(-dual.objective, relaxed.utility)


@given(mixed_instances(jobs=(1, 3)), SLOTS, st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_compiled_arrays_are_the_pyomo_model(instance: Instance, slots: int, whole: bool) -> None:
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    every = [p.schedule for j in range(len(instance.jobs)) for p in schedules(problem, j)][:60]
    if every:
        model = hetopt.from_pyomo(hadar.schedule_model(problem, every, whole=whole))
        assert_same_program(schedule_program(problem, every, whole=whole), model)


@given(mixed_instances(jobs=(1, 1)), SLOTS, st.data())
@settings(max_examples=examples(20, 60), deadline=None)
def test_the_best_schedule_is_the_best_of_all(instance: Instance, slots: int, data: st.DataObject) -> None:
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    prices = np.array([[data.draw(st.integers(0, 4)) / 4 for _ in problem.cells] for _ in range(slots)])
    best, every = hadar.best_schedule(problem, 0, prices), schedules(problem, 0, prices)
    assert (best is None) == (not every)
    if best is not None:
        check_schedules(problem, [best.schedule])
        assert same(best.payoff, max(p.payoff for p in every))
        assert same(best.payoff, best.schedule.value(problem) - best.schedule.cost(prices))
        near = schedules(problem, 0, prices, least=best.payoff - 0.5)
        assert {p.schedule for p in near} == {p.schedule for p in every if p.payoff >= best.payoff - 0.5}


@given(mixed_instances(jobs=(1, 1), memory=True), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_schedules_are_all_that_do_without_no_slot(instance: Instance, slots: int) -> None:
    """Against all products of gangs or nothing in each slot."""
    problem, (job,) = hadar.OfflineProblem.of(instance, slots, 1.0), instance.jobs
    index = {cell: c for c, cell in enumerate(problem.cells)}
    partial: list[tuple[tuple[tuple[int, int, int], ...], list[Fraction]]] = [((), [])]
    for t in range(slots):
        ways = [((), None), *((s, v) for s, v in gangs(instance, job))] if t >= job.arrival else [((), None)]
        partial = [
            ((*gpus, *((t, index[at], n) for at, n in dict(seats).items())), pace + ([v] if v else []))
            for gpus, pace in partial
            for seats, v in ways
        ]
    wanted = {tuple(sorted(g)) for g, pace in partial if sum(pace) >= job.work > sum(pace) - min(pace, default=0)}
    assert {p.schedule.gpus for p in schedules(problem, 0)} == wanted


def test_a_gang_mixes_types_and_goes_at_the_slowest() -> None:
    """Four workers on 3 V100 and 3 K80: Gavel would wait, Hadar runs at the K80's pace (section I)."""
    cluster = Cluster.of({"V100": 3, "K80": 3})
    job = Job("j", {"V100": 4.0, "K80": 1.0}, work=4, demand=4)
    found = hadar.TimeIndexed()(hadar.OfflineProblem.of(Instance(cluster, jobs=(job,)), 4, 1.0))
    assert found.finish == {"j": 4.0}
    assert same(found.utility, 1.0)  # 4 units of work in 4 s
    with pytest.raises(InvalidInstance, match="its gang runs on one type"):
        hetopt.solve(hetopt.models.gavel.max_min_fairness(), Instance(cluster, jobs=(job,)))


def test_as_printed_all_jobs_must_finish() -> None:
    """P1 without admission has no solution where P2 has one: they are not equivalent."""
    instance = Instance.from_jobs([[1], [1]], 1, work=[2, 2], capacity=[1], round_seconds=1)
    problem = hadar.OfflineProblem.of(instance, 3, 1.0)
    with pytest.raises(NotSolved) as problem_raised:
        hadar.TimeIndexed(admission=False)(problem)
    assert problem_raised.value.status == "infeasible"
    assert len(hadar.TimeIndexed()(problem).schedules) == len(hadar.Enumerated()(problem).schedules) == 1
    longer = hadar.OfflineProblem.of(instance, 4, 1.0)
    assert len(hadar.TimeIndexed(admission=False)(longer).schedules) == 2
    late = instance.replace(jobs=(instance.jobs[0], Job("late", {"GPU1": 1}, 1, arrival=9)))
    with pytest.raises(NotSolved, match="'late' must finish, and arrives after the last slot"):
        hadar.TimeIndexed(admission=False)(hadar.OfflineProblem.of(late, 4, 1.0))
    assert [s.job for s in hadar.TimeIndexed()(hadar.OfflineProblem.of(late, 4, 1.0)).schedules] == [0]


@given(mixed_instances(jobs=(1, 2)), st.integers(1, 6))
def test_slots_at_each_speed_suffice_where_the_work_is_done(instance: Instance, slots: int) -> None:
    """The inequalities hold exactly where the sum of speeds suffices, and each edge of the hull has two such points."""
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    for job in range(len(problem.demand)):
        levels = problem.levels(job)
        every = [n for n in product(range(slots + 1), repeat=len(levels)) if sum(n) <= slots]
        enough = {n for n in every if sum(a * v for a, v in zip(n, levels, strict=True)) >= problem.least_work[job]}
        limits = [(np.array(p), q) for p, q in slot_limits(problem, job, slots)]
        assert {n for n in every if all(p @ n >= q for p, q in limits)} == enough
        if enough and len(levels) <= 2:
            on_edge = [sum(p @ n == q for n in enough) for p, q in limits]
            assert min(on_edge) >= (2 if len(levels) == 2 and np.count_nonzero(limits[0][0]) == 2 else 1)


def test_nothing_can_be_done_in_time() -> None:
    problem = hadar.OfflineProblem.of(Instance.from_jobs([[1]], 1, work=[9], capacity=[1], round_seconds=1), 2, 1.0)
    for method in (hadar.TimeIndexed(), hadar.Enumerated(), hadar.ColumnGeneration()):
        found = method(problem)
        assert found.schedules == ()
        assert found.utility == found.bound == 0
        assert found.utilisation == []


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (((0, 0, 1),), "has 1 GPUs in slot 0; its gang has 2"),
        (((0, 0, 2),), "not done at the end"),
        (((3, 0, 2),), "runs in slot 3; it may from 0 to 2"),
        (((0, 1, 2), (1, 0, 2)), "where it cannot run"),
    ],
)
def test_false_schedules_are_found(gpus: Any, message: str) -> None:
    instance = Instance(Cluster.of({"A": 2, "B": 2}), jobs=(Job("j", {"A": 1, "B": 0}, 2, demand=2),))
    with pytest.raises(InvalidPlan, match=message):
        check_schedules(hadar.OfflineProblem.of(instance, 3, 1.0), [JobSchedule(0, gpus)])


def test_an_overfull_server_is_found() -> None:
    instance = Instance.from_jobs([[1], [1]], 1, work=[1, 1], capacity=[1], round_seconds=1)
    both = [JobSchedule(0, ((0, 0, 1),)), JobSchedule(1, ((0, 0, 1),))]
    problem = hadar.OfflineProblem.of(instance, 1, 1.0)
    assert used_by(both, problem).tolist() == [[2]]
    with pytest.raises(InvalidPlan, match="more than the 1 GPUs"):
        check_schedules(problem, both)
    with pytest.raises(InvalidPlan, match="two schedules"):
        check_schedules(problem, [both[0], both[0]])


def test_bad_problems_are_refused() -> None:
    one = Instance.from_jobs([[1, 0]], 3, work=[2], capacity=[2, 2], round_seconds=1)
    with refused(InvalidInstance, "jobs['j1'].demand"):
        hadar.OfflineProblem.of(one, 3, 1.0)
    fine = Instance.from_jobs([[1]], 1, work=[2], capacity=[2], round_seconds=1)
    for slots in (0, 1.5, float("nan"), "3"):
        with pytest.raises(InvalidOption, match="slots is"):
            hadar.OfflineProblem.of(fine, slots, 1.0)  # type: ignore[arg-type]
    with refused(InvalidOption, "seconds"):
        hadar.OfflineProblem.of(fine, 1, 0)
    with refused(InvalidInstance, "jobs['j1']", "done"):
        hadar.OfflineProblem.of(fine.replace(done={"j1": 2}), 1, 1.0)
    with refused(InvalidInstance, "jobs['j1'].throughput"):
        Instance.from_jobs([[0.0]], 1, work=[2], capacity=[2])
    with pytest.raises(TooManySchedules, match="more than 3 schedules"):
        hadar.Enumerated(most=3)(hadar.OfflineProblem.of(fine, 5, 1.0))


def test_speeds_are_what_the_instance_says() -> None:
    """The oracle's speed rule is the entities' own, memory included."""
    cluster = Cluster.of({"A": 1, "B": 1}, memory_bytes={"A": 1, "B": 4})
    instance = Instance(cluster, jobs=(Job("j", {"A": 3, "B": 1}, 2, memory_bytes=2),))
    assert [speed(instance, instance.jobs[0], t) for t in "AB"] == [0, 1]
    assert hadar.OfflineProblem.of(instance, 1, 2.0).speed.tolist() == [[0.0, 1.0]]


def test_fractions_are_those_of_the_instance() -> None:
    """Three slots of work are left exactly; quotients of floats would say a little more."""
    total, speed_ = 2_000_003, 111_118
    job = Job("j", {"A": speed_}, total, utility="finished")
    instance = Instance(Cluster.of({"A": 1}), jobs=(job,), done={"j": total - 3 * speed_})
    problem = hadar.OfflineProblem.of(instance, 3, 1.0)
    free = np.array([[Fraction(0)]] * 3)
    assert problem.exact.work[0] == Fraction(3 * speed_, total)
    assert hadar.dual_bound(problem.exact, free) == (1, [1])
    assert hadar.TimeIndexed()(problem).utility == 1


@pytest.mark.parametrize(
    ("throughput", "work", "slots"), [(1e7, 30_000_001, 4), (0.33333333, 1, 4), (1.0, 3.0000001, 4)]
)
def test_a_solvers_tolerance_decides_nothing(throughput: float, work: float, slots: int) -> None:
    """Three slots are too little by 3e-8 of the work."""
    job = Job("j", {"A": throughput}, work, utility="finished")
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 1}), jobs=(job,)), slots, 1.0)
    for method in (hadar.TimeIndexed(), hadar.Enumerated(), hadar.ColumnGeneration()):
        assert len(method(problem).schedules[0].by_slot) == 4, method
        assert method(hadar.OfflineProblem.of(problem.instance, 3, 1.0)).schedules == ()


def test_seconds_count_beside_a_week() -> None:
    """The default utility is a week less seconds; a relative gap of 1e-6 would be two seconds."""
    jobs = tuple(Job(f"j{i}", {"A": 1.0}, w, utility="negative-jct") for i, w in enumerate([3, 1, 4, 4]))
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 1}), jobs=jobs), 12, 1.0)
    shortest_first = 1 + 4 + 8 + 12
    for method in (hadar.TimeIndexed(), hadar.ColumnGeneration()):
        assert method(problem).utility == pytest.approx(4 * 604_800 - shortest_first, abs=0.5)


def test_wide_clusters_stop_at_the_number_of_schedules() -> None:
    """Seatings of a gang of 8 on 20 servers are far too many to list: no schedule is made before that is seen."""
    cluster = Cluster.of({"A": 80}, gpus_per_server=4)
    jobs = tuple(Job(f"j{i}", {"A": 1.0}, 2, demand=8, weight=1 + i, utility="weight") for i in range(3))
    problem = hadar.OfflineProblem.of(Instance(cluster, jobs=jobs), 3, 1.0)
    with pytest.raises(TooManySchedules, match="more than 500 schedules"):
        hadar.Enumerated(most=500)(problem)
    assert hadar.ColumnGeneration(most=500)(problem).utility == 6


@pytest.mark.parametrize("prices", [np.full((1, 2), 0.0), [[-1.0]], [[np.nan]], 3.0])
def test_bad_prices_are_refused(prices: Any) -> None:
    problem = hadar.OfflineProblem.of(Instance.from_jobs([[1]], 1, work=[1], capacity=[1], round_seconds=1), 1, 1.0)
    with refused(InvalidOption, "prices", "shape"):
        hadar.dual_bound(problem, prices)
