"""Prices, what is proven of them and what is not, and the version of Hadar that commits for good."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hadar_oracles import best_total
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, Options, instances
from hetopt.models import hadar
from hetopt.models.hadar.job_schedules import used_by
from hetopt.models.hadar.prices import largest_fraction, limits, step_factor
from hetopt.proofs.strategies import mixed_instances
from hetopt.tolerances import EQUAL, PROVEN, WORK, scale

EXACT = Options(exact=True)
UTILITIES = ("weight", "weighted-throughput", "finished")


@given(
    mixed_instances(jobs=(1, 7), gpus=(3, 5), most_demand=2, most_work=4, utilities=UTILITIES),
    st.integers(1, 3),
)
@settings(max_examples=120, deadline=None)
def test_the_guarantee_of_proven_prices(instance: Instance, slots: int) -> None:
    """OPT <= D <= 2 alpha' ALG, job by job, and no server is over its capacity though GPUs left are not checked."""
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    assume(any(hadar.best_schedule(problem, j, problem.none_used()) for j in range(len(instance.jobs))))
    found = hadar.Irrevocable()(problem)
    best = hadar.ColumnGeneration()(problem).utility
    slack = EQUAL * scale(best)
    assert best <= found.dual + slack
    assert best <= found.prices.factor * found.utility + slack
    assert (found.steps["primal"] >= 2 / found.prices.factor * found.steps["dual"] - slack).all()
    assert found.initial <= best / 2 + slack
    assert (used_by(found.solved.schedules, problem) <= problem.capacity).all()
    assert found.dual == pytest.approx(found.solved.bound, rel=EQUAL)


@given(mixed_instances(jobs=(1, 3), gpus=(2, 3), most_demand=2, most_work=3, utilities=UTILITIES), st.integers(1, 2))
@settings(max_examples=30, deadline=None)
def test_delta_limits_what_a_job_takes_of_a_server(instance: Instance, slots: int) -> None:
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    few = limits(problem, 0.5)
    assert (few == problem.capacity // 2).all()
    try:
        found = hadar.Irrevocable(delta=0.5)(problem)
    except InvalidInstance:
        none = problem.none_used()
        assert not any(hadar.best_schedule(problem, j, none, none + few) for j in range(len(instance.jobs)))
        return
    assert all(n <= few[c] for s in found.solved.schedules for _, c, n in s.gpus)


def test_the_printed_bound_is_broken() -> None:
    """One GPU, one slot, utilities 1 then 7: 7 > 2 ln 28 [Hadar, Theorem 2]."""
    instance = instances.load("refuted/hadar-competitive-ratio")
    expected = instances.expected("refuted/hadar-competitive-ratio")["ratio"].correct
    problem = hadar.OfflineProblem.of(instance, 1, 360.0)
    found = hadar.Irrevocable("printed")(problem)
    assert found.steps["committed"].tolist() == [True, False]
    assert found.utility == expected["online"]
    assert best_total(instance, 1, 360) == expected["optimum"]
    assert found.prices.printed_factor == pytest.approx(2 * math.log(28), rel=EQUAL)
    assert found.prices.printed_factor == pytest.approx(float(expected["bound"]), abs=0.001)
    assert expected["optimum"] > found.prices.printed_factor * found.utility
    with pytest.raises(InvalidInstance, match="a gang may take all GPUs of a type on a server"):
        hadar.Irrevocable()(problem)


def test_the_printed_price_does_not_block_a_full_server() -> None:
    """U_max is utility per GPU of the gang, so a gang of two can pay it for one GPU on a full server."""
    jobs = (
        Job("one", {"A": 1.0}, 1, weight=1, utility="weight"),
        Job("two", {"A": 1.0}, 1, demand=2, weight=4, utility="weight"),
    )
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 2}, gpus_per_server=1), jobs=jobs), 1, 1.0)
    prices = hadar.printed_prices(problem)
    used = np.array([[1, 0]])
    assert prices(used)[0, 0] == prices.high[0] == 4 / 2
    greedy = hadar.best_schedule(problem, 1, prices(used))
    assert greedy is not None
    assert greedy.payoff > 0  # 4 - 2 - the low price: it pays, and the server would hold two jobs
    assert hadar.best_schedule(problem, 1, prices(used), problem.capacity - used) is None  # the check of eq. 8
    assert hadar.Irrevocable("printed")(problem).steps["committed"].tolist() == [True, False]


@given(st.floats(0.1, 12), st.floats(0.01, 1))
def test_differential_does_not_give_discrete(a: float, s: float) -> None:
    """Definition 1 at a step of s c GPUs needs alpha >= (e^{as} - 1) / s > a, where Lemma 3 gives a."""
    prices = hadar.Prices(np.array([1.0]), np.array([math.exp(a)]), np.array([1]))
    for used in (0.0, (1 - s) / 2, 1 - s):
        before, after = (float(prices(np.array([g]))[0]) for g in (used, used + s))
        least = (after - before) / (before * s)  # the least alpha that satisfies Definition 1 in this step
        assert least == pytest.approx(step_factor(a, s), rel=EQUAL)
        assert least > a
    assert step_factor(a, 0.0) == a


def test_the_factor_grows_with_the_step() -> None:
    sweep = [step_factor(2.0, s / 10) for s in range(11)]
    assert sweep == sorted(sweep)
    assert sweep[10] == pytest.approx(math.e**2 - 1)


def test_bounds_of_prices_by_hand() -> None:
    """Two jobs on 2 A + 2 B, 4 slots; j1 needs 2 or 4 slots, j2 one or, on B alone, one."""
    jobs = (
        Job("j1", {"A": 2.0, "B": 1.0}, 4, demand=2, weight=6, utility="weight"),
        Job("j2", {"A": 0.0, "B": 3.0}, 3, demand=1, weight=5, utility="weight"),
    )
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 2, "B": 2}), jobs=jobs), 4, 1.0)
    printed = hadar.printed_prices(problem)
    assert printed.high.tolist() == [6 / 2, max(6 / 2, 5 / 1)]
    eta = 4 / min(4 * 2, 1 * 1)  # all GPUs over the least GPU-slots of a job on its slowest type
    assert printed.low == pytest.approx([min(6 / (4 * 2), 5 / 1) / (4 * eta)] * 2, rel=PROVEN)
    assert hadar.printed_prices(problem, eta=1.0).low == pytest.approx([min(6 / 8, 5) / 4] * 2, rel=PROVEN)
    assert largest_fraction(problem) == 1.0
    half = hadar.proven_prices(problem, delta=0.5)
    assert half.low == pytest.approx([5 / (2 * 4 * 4)] * 2, rel=PROVEN)
    assert half.high.tolist() == [6, 6]
    assert half(np.array([1, 0]))[0] == pytest.approx(6, rel=PROVEN)  # full at half of the GPUs


def test_bounds_stay_defined_where_utilities_vanish() -> None:
    """A deadline within the slots makes U_j(T - a_j) zero; the printed U_min would be 0, and no price would grow."""
    job = Job("j", {"A": 1.0}, 2, deadline=3.0, utility="deadline")
    prices = hadar.printed_prices(hadar.OfflineProblem.of(Instance(Cluster.of({"A": 1}), jobs=(job,)), 5, 1.0))
    assert (prices.low > 0).all()
    assert np.isfinite(prices(np.array([1]))).all()


def test_bad_settings_are_refused() -> None:
    problem = hadar.OfflineProblem.of(Instance.from_jobs([[1]], 1, [1], [2], round_seconds=1), 2, 1.0)
    with refused(InvalidOption, "Irrevocable.prices"):
        hadar.Irrevocable("proved")
    with refused(InvalidOption, "eta"):
        hadar.printed_prices(problem, eta=0)
    for delta in (0, -1, float("nan")):
        with refused(InvalidOption, "delta", "0"):
            hadar.proven_prices(problem, delta=delta)
    with pytest.raises(InvalidInstance, match="delta < 1"):
        hadar.proven_prices(problem, delta=1)
    never = hadar.OfflineProblem.of(Instance.from_jobs([[1]], 1, [9], [2], round_seconds=1), 2, 1.0)
    with pytest.raises(InvalidInstance, match="no job can complete within the slots"):
        hadar.Irrevocable()(never)


def test_a_smaller_delta_bounds_only_what_it_allows() -> None:
    """A gang that may not take so much of a server is refused, whatever it is worth; so D bounds no schedule of it."""
    jobs = (Job("s", {"A": 1.0}, 1, utility="weight"), Job("b", {"A": 1.0}, 1, demand=4, weight=1000, utility="weight"))
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 4}), jobs=jobs), 1, 1.0)
    found = hadar.Irrevocable(delta=0.5)(problem)
    assert found.utility == 1
    assert found.solved.bound == math.inf
    assert hadar.TimeIndexed(options=EXACT)(problem).utility == 1000


def test_printed_prices_bound_nothing() -> None:
    """Two servers of one GPU: a job of two is refused for want of a GPU though it would pay."""
    jobs = (Job("a", {"A": 1.0}, 1, utility="weight"), Job("b", {"A": 1.0}, 1, demand=2, weight=4, utility="weight"))
    problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 2}, gpus_per_server=1), jobs=jobs), 1, 1.0)
    found = hadar.Irrevocable("printed")(problem)
    best = hadar.TimeIndexed(options=EXACT)(problem).utility
    assert found.dual < best == 4
    assert found.solved.bound == math.inf


def test_the_proof_of_the_printed_theorem_drops_the_slots() -> None:
    """D_0 = T sum c U_min is 3/4 for one job worth 1 on 4 GPUs in 3 slots, more than OPT / 2."""
    job = Job("j", {"A": 1.0}, 1, utility="finished")
    for slots, initial in ((2, 0.5), (3, 0.75), (10, 2.5)):
        problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 4}), jobs=(job,)), slots, 1.0)
        assert hadar.Irrevocable("printed")(problem).initial == pytest.approx(initial)
        proven = hadar.proven_prices(problem)
        assert (proven(problem.none_used()) * problem.capacity).sum() == pytest.approx(0.5)


def test_the_smallest_integers_that_break_the_printed_bound() -> None:
    """One GPU, one slot, weights 1 then x: by search 7 is the first that breaks it (6 < 2 ln 24)."""

    def broken(weight: int) -> bool:
        jobs = [Job(f"j{w}", {"A": 1.0}, 1, weight=w, utility="weight") for w in (1, weight)]
        problem = hadar.OfflineProblem.of(Instance(Cluster.of({"A": 1}), jobs=tuple(jobs)), 1, 1.0)
        found = hadar.Irrevocable("printed")(problem)
        return hadar.TimeIndexed(options=EXACT)(problem).utility > found.prices.printed_factor * found.utility

    assert next(weight for weight in range(2, 20) if broken(weight)) == 7


def test_prices_beyond_the_largest_float() -> None:
    """A gang of 199 on a server of 200: the factor is infinite, and nothing overflows."""
    jobs = tuple(
        Job(f"j{i}", {"A": 1.0}, 1, demand=d, weight=w, utility="weight") for i, (d, w) in enumerate([(1, 1), (199, 9)])
    )
    found = hadar.Irrevocable()(hadar.OfflineProblem.of(Instance(Cluster.of({"A": 200}), jobs=jobs), 1, 1.0))
    assert found.prices.factor == math.inf
    assert not math.isnan(found.dual)


def test_the_last_rounding_error_of_a_job_takes_a_slot() -> None:
    instance = Instance(Cluster.of({"A": 1}), jobs=(Job("j", {"A": 1.0}, 2),), done={"j": 2 - 3 * WORK})
    prices = hadar.printed_prices(hadar.OfflineProblem.of(instance, 5, 1.0))
    assert np.isfinite(prices(np.array([1]))).all()
