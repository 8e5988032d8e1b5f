"""Bounds for programs of one choice per block against the best of all plans, and FFT's rounds against fresh solves."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.formulations import formulation
from hetopt.models import fft, gavel, oef
from hetopt.models.ceei import equal_budgets
from hetopt.models.fft import OneType, WorkConserving, fft_method
from hetopt.models.fft.proven_round import BEST_TYPES, DRIFT, PRICES, ProvenRound, proof_of_last_plan
from hetopt.models.objectives import LinearGain, SwitchingCost, TotalRate
from hetopt.proofs.strategies import job_instances
from hetopt.solving.choices import drift_bound, price_bound, value_of
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, GAP, PROVEN, scale

SECONDS = 300.0


def plans_of(entities: hetopt.Entities) -> list[Positions]:
    """All plans that use as many GPUs as can be packed."""
    n, k = entities.shape
    found: dict[float, list[Positions]] = {}
    for places in product(range(-1, k), repeat=n):
        choice = np.array(places)
        runs = choice >= 0
        used = np.bincount(choice[runs], weights=entities.demand[runs], minlength=k)
        if (used <= entities.capacity).all() and entities.allowed[runs, choice[runs]].all():
            found.setdefault(float(used.sum()), []).append(choice)
    return found[max(found)]


@st.composite
def markets(draw: st.DrawFn) -> tuple[hetopt.Entities, Floats, Floats]:
    """Up to five jobs on up to three types, some of which they cannot use; gains before and now, with ties."""
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    demand = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    capacity = draw(st.lists(st.integers(0, 4), min_size=k, max_size=k))
    room = [max(own, max(demand)) for own in capacity]  # an instance refuses larger gangs
    speed = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n * k, max_size=n * k))).reshape(n, k)
    speed[speed.sum(axis=1) == 0, 0] = 1.0
    jobs = hetopt.Instance.from_jobs(speed, demand, [1.0] * n, room).entities("jobs")
    can = (speed > 0) & (np.array(demand)[:, None] <= np.array(capacity))
    entities = replace(jobs, capacity=np.array(capacity, dtype=float), speed=np.where(can, speed, 0.0))
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5))
    before, now = (
        np.where(can, np.array(draw(st.lists(numbers, min_size=n * k, max_size=n * k))).reshape(n, k), 0.0)
        for _ in range(2)
    )
    return entities, before, now


@settings(max_examples=200)
@given(markets())
def test_no_plan_gains_more_than_the_bounds(market: tuple[hetopt.Entities, Floats, Floats]) -> None:
    """By drift from the best plan before, and by the prices of every plan."""
    entities, before, now = market
    plans = plans_of(entities)
    used = float(entities.demand[plans[0] >= 0].sum())
    best = max(value_of(now, choice)[0] for choice in plans)
    slack = PROVEN * scale(now, before) * len(now)
    drifted = drift_bound(max(value_of(before, choice)[0] for choice in plans), before, now, entities, used)
    assert drifted >= best - slack
    for choice in plans:
        assert price_bound(now, entities, choice) >= best - slack
    assert drift_bound(best, now, now, entities, used) == pytest.approx(best, abs=slack), "no drift, no gap"


@settings(max_examples=400)
@given(markets(), st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([0.0, 0.01, 0.3, 1.0]))
def test_a_plan_that_stays_is_optimal_within_the_gap(
    market: tuple[hetopt.Entities, Floats, Floats], gap: float, step: float
) -> None:
    """The best plan, or any whose bound is not tight, as gains move a part of the way; wrong bounds are seen here."""
    entities, before, towards = market
    now = before + step * (towards - before)
    plans = plans_of(entities)
    bound, best = (max(value_of(gain, choice)[0] for choice in plans) for gain in (before, now))
    slack = PROVEN * scale(now, before) * len(now)
    for choice in plans:
        proven = ProvenRound.of(entities, choice, before, bound, None)
        assert proven.serves(entities)
        proof = proof_of_last_plan(proven, entities, now, gap)
        value, size = value_of(now, choice)
        if proof is not None:
            assert proof.value == value
            assert proof.bound >= best - slack
            assert value >= best - gap * size - slack


def test_prices_prove_plans_that_are_optimal_as_shares() -> None:
    """Two jobs that both prefer the one fast GPU: the faster one has it, at a price between their differences."""
    entities = hetopt.Instance.from_jobs([[4, 1], [3, 1]], [1, 1], [1, 1], [1, 1]).entities("jobs")
    gain = np.array([[4.0, 1.0], [3.0, 1.0]])
    assert price_bound(gain, entities, np.array([0, 1])) == pytest.approx(5.0)
    assert price_bound(gain, entities, np.array([1, 0])) > 5.0 - EQUAL


def test_drift_in_the_wrong_direction_is_no_bound() -> None:
    """The tests above would see a bound whose sign is wrong: a waiting job gains 2, and takes the GPU."""
    entities = hetopt.Instance.from_jobs([[1], [1]], [1, 1], [1, 1], [1]).entities("jobs")
    before, now = np.array([[1.0], [0.0]]), np.array([[1.0], [2.0]])
    assert drift_bound(1.0, before, now, entities, 1.0) >= 2.0
    assert drift_bound(1.0, now, before, entities, 1.0) < 2.0


# FFT's rounds


def optimum(policy: fft.FFT, instance: hetopt.Instance, state: fft.FFTState | None) -> float:
    """By HiGHS on the plain program."""
    plain = Options(method="plain", gap=0.0)
    return policy.formulation(instance, state).solve(instance, plain).certificate.objective


@st.composite
def runs(draw: st.DrawFn) -> tuple[hetopt.Instance, list[tuple[float, int, bool]]]:
    """Jobs with checkpoints and ages, and rounds: their length, a job that leaves (or -1), whether a GPU fails."""
    n, k = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    capacity = draw(st.lists(st.integers(1, 4), min_size=k, max_size=k))
    demand = [min(d, max(capacity)) for d in draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=n, max_size=n))]
    speed = np.array(draw(st.lists(st.floats(0.5, 8), min_size=n * k, max_size=n * k))).reshape(n, k)
    work = draw(st.lists(st.floats(50, 5000), min_size=n, max_size=n))
    size = draw(st.lists(st.sampled_from([0.0, 1e9, 1e12]), min_size=n, max_size=n))
    arrival = draw(st.lists(st.integers(0, 50), min_size=n, max_size=n))
    first = hetopt.Instance.from_jobs(
        speed, demand, work, capacity, time=50 * SECONDS, arrival=[SECONDS * a for a in arrival], checkpoint_bytes=size
    )
    lengths = st.sampled_from([SECONDS, SECONDS, SECONDS, 0.0, 17.0])
    steps = st.tuples(lengths, st.sampled_from([-1] * 8 + list(range(n))), st.sampled_from([False] * 7 + [True]))
    return first, draw(st.lists(steps, min_size=2, max_size=8))


def following(instance: hetopt.Instance, plan: hetopt.Plan, step: tuple[float, int, bool]) -> hetopt.Instance:
    """The instance of the next round: the plan was carried out, but for a job that left or lost its GPUs."""
    seconds, leaves, fails = step
    held = {name: {t: float(n) for t, n in row.items() if n} for name, row in plan.gpus.T.to_dict().items()}
    jobs = list(instance.jobs)
    if 0 <= leaves < len(jobs) and len(jobs) > 1:
        del held[jobs.pop(leaves).name]
    if fails and held:
        held[next(iter(held))] = {}
    return instance.replace(time=instance.time + seconds, jobs=tuple(jobs), held=held)


@settings(max_examples=60, deadline=None)
@given(runs(), st.sampled_from([0.0, GAP, 1e-3, 1e-2]), st.booleans())
def test_each_round_is_as_good_as_one_that_is_solved_afresh(
    run: tuple[hetopt.Instance, list[tuple[float, int, bool]]], gap: float, extra: bool
) -> None:
    """Within the gap of the optimum by HiGHS on the plain program, which the certificate's bound bounds."""
    instance, steps = run
    policy = fft.FFT(SECONDS, extra=(TotalRate(),) if extra else (), options=Options(gap=gap))
    state: fft.FFTState | None = None
    for step in (*steps, None):
        before = state
        plan, state = policy(instance, before)
        certificate = plan.certificate
        assert certificate is not None
        fresh_plan, fresh = policy(instance, None if before is None else replace(before, proven=None))
        assert (state.rho, state.tau, state.last) == (fresh.rho, fresh.tau, fresh.last)
        assert plan.x.sum() == fresh_plan.x.sum(), "the most GPUs that can be packed"
        assert (plan.x.sum(axis=0) <= plan.entities.capacity).all()
        best = optimum(policy, instance, before)
        share = plan.x / plan.entities.demand[:, None]
        costs = [part for part in policy.formulation(instance, before) if type(part) not in (OneType, WorkConserving)]
        gained = share * sum(part.coefficients(plan.entities) for part in costs if isinstance(part, fft.LinearGain))
        size = float(np.abs(gained).sum())
        noise = FEASIBILITY * scale(size)
        assert gained.sum() == pytest.approx(certificate.objective, abs=noise)
        assert certificate.bound >= best - noise
        assert certificate.objective >= best - gap * size - noise
        if step is not None:
            instance = following(instance, plan, step)


def test_rounds_are_proven_in_each_way() -> None:
    """One GPU and two jobs: alone by its best type, then by prices and drift as time passes; a search at first."""
    long, short = (hetopt.Job(name, {"GPU": 1.0}, work) for name, work in (("long", 9e4), ("short", 3e4)))
    instance = hetopt.Instance(hetopt.Cluster.of({"GPU": 1}), jobs=(long,))
    policy, state = fft.FFT(SECONDS), None
    methods = list[str]()
    for r in range(8):
        jobs = (long, short) if r >= 3 else (long,)
        plan, state = policy(instance.replace(time=r * SECONDS, jobs=jobs), state)
        assert plan.certificate is not None
        methods.append(plan.certificate.method)
        assert plan.certificate.gap <= GAP
    assert methods[0] not in (BEST_TYPES, PRICES, DRIFT)
    assert set(methods[1:3]) <= {BEST_TYPES, PRICES, DRIFT}
    assert methods[3] not in (BEST_TYPES, PRICES, DRIFT), "a job has arrived"
    assert set(methods[4:]) <= {PRICES, DRIFT}


# linear programs


@settings(max_examples=40, deadline=None)
@given(
    job_instances(jobs=(1, 5), zeros=True),
    st.sampled_from([gavel.max_min_fairness(), gavel.shortest_job_first(), gavel.makespan(), gavel.total_throughput()]),
    st.lists(st.floats(0, 0.3), min_size=3, max_size=3),
)
def test_an_optimum_of_shares_stays_only_while_it_is_optimal(
    instance: hetopt.Instance, policy: hetopt.Formulation, parts: list[float]
) -> None:
    """Work is done between rounds; the bound holds, and the objective is that of the plain program."""
    policy, state = replace(policy, kind="jobs"), None
    done = dict.fromkeys((job.name for job in instance.jobs), 0.0)
    for r, part in enumerate([0.0, 0.0, *parts]):
        for i, job in enumerate(instance.jobs):
            done[job.name] += part * (job.work - done[job.name]) / (1 + i)
        now = instance.replace(time=instance.time + r * SECONDS, done=dict(done))
        before = state
        allocation, state = policy(now, before)
        best = hetopt.solve(policy, now, method="plain").certificate.objective
        certificate = allocation.certificate
        assert certificate.objective == pytest.approx(best, rel=EQUAL, abs=EQUAL * scale(best))
        assert certificate.bound >= best - EQUAL * scale(best)
        assert certificate.violation <= FEASIBILITY


REPEATED = [
    gavel.max_min_fairness(),
    gavel.total_throughput(),
    gavel.water_filling(),
    gavel.shortest_job_first(),
    gavel.makespan(),
    gavel.finish_time_fairness(),
    gavel.max_min_fairness() + SwitchingCost(0.5),
    equal_budgets(),
    oef.cooperative(),
]


@settings(max_examples=40, deadline=None)
@given(job_instances(jobs=(1, 5), zeros=True), st.sampled_from(REPEATED), st.data())
def test_a_result_is_repeated_only_where_it_would_be_found_again(
    instance: hetopt.Instance, policy: hetopt.Formulation, data: st.DataObject
) -> None:
    """Time passes, work is done, GPUs change hands, and jobs leave."""
    policy, state = replace(policy, kind="jobs"), None
    for r in range(4):
        done = {job.name: data.draw(st.floats(0, 0.9)) * job.work for job in instance.jobs}
        entities, e = instance.entities("jobs"), data.draw(st.integers(0, len(instance.jobs) - 1))
        best = entities.types[int(entities.speed[e].argmax())]
        held = {entities.names[e]: {best: float(entities.demand[e]) * data.draw(st.integers(0, 1))}}
        now = instance.replace(time=instance.time + r * SECONDS, done=done, held=held)
        try:
            fresh, _ = policy(now)
        except NotSolved:
            return
        allocation, after = policy(now, state)
        if state is not None and after is state:
            assert allocation.x.tolist() == fresh.x.tolist()
            assert allocation.certificate.objective == fresh.certificate.objective
            assert allocation.entities is now.entities("jobs")
        state = after
        if r and len(instance.jobs) > 1 and data.draw(st.booleans()):
            instance = instance.replace(jobs=instance.jobs[1:])


def test_what_does_not_depend_on_time_is_repeated_at_no_cost() -> None:
    jobs = hetopt.Instance.from_jobs([[4, 1], [2, 1]], [1, 1], [8, 8], [1, 1])
    for policy in (gavel.max_min_fairness(), gavel.total_throughput(), equal_budgets()):
        _, state = replace(policy, kind="jobs")(jobs)
        assert state.result is not None
        assert pickle.loads(pickle.dumps(state)).result is None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(formulation, "Compiled", None)
            again, same = replace(policy, kind="jobs")(jobs.replace(time=SECONDS, done={"j1": 1.0}), state)
        assert same is state
        assert again.certificate is state.result.certificate


def test_an_optimum_of_the_same_program_is_not_computed_again() -> None:
    jobs = hetopt.Instance.from_jobs([[4, 1], [2, 1]], [1, 1], [8, 8], [1, 1])
    policy = replace(gavel.shortest_job_first(), kind="jobs")
    first, state = policy(jobs)
    again, same = policy(jobs.replace(time=SECONDS), state)
    assert same.point is state.point
    assert same.result is state.result is None, "it depends on the work left"
    assert again.certificate.method == "weak duality"
    assert again.certificate.passes == 0
    assert again.x.tolist() == first.x.tolist()
    faster = hetopt.Instance.from_jobs([[1, 4], [1, 2]], [1, 1], [8, 8], [1, 1])
    assert policy(faster, state)[0].certificate.method != "weak duality"


def test_a_result_is_repeated_only_for_its_formulation_and_fixed_components() -> None:
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5], [1, 3]], capacity=[2, 2])
    _, state = oef.cooperative()(instance)
    other, _ = oef.noncooperative()(instance, state)
    assert other.x == pytest.approx(oef.noncooperative()(instance)[0].x)

    class Price(LinearGain):
        """Its price is set from outside."""

        name, price = "price", 0.0

        def coefficients(self, entities: hetopt.Entities) -> Floats:
            return -self.price * entities.speed

    part = Price()
    formulation = oef.noncooperative() + part
    _, state = formulation(instance)
    part.price = 5.0
    again, _ = formulation(instance, state)
    assert again.certificate.objective == pytest.approx(formulation.solve(instance).certificate.objective)


def test_a_plan_of_fft_is_proven_only_if_its_gpus_are() -> None:
    """Gangs of 3, 2 and 2 on four GPUs: a plan that stops with the first gang stands in no later round."""
    jobs = hetopt.Instance.from_jobs([[1.0]] * 3, [3, 2, 2], 9e9, [4])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fft_method, "most_packed", lambda *_: None)
        for tables in ("solve_small", "solve_whole"):
            patch.setattr(fft_method, tables, lambda *_: None)
        late, state = fft.FFT(options=hetopt.Options(time_limit=1 / 10**9))(jobs)
    assert late.x.sum() == 3
    assert state.proven is None
    plan, _ = fft.FFT()(jobs.replace(time=300.0), state)
    assert plan.x.sum() == 4


def test_settings_of_fft_may_change_between_rounds() -> None:
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1], [4, 3]], [1, 1, 1], [1e4, 2e4, 1e4], [1, 1])
    jobs = replace(jobs, time=3000.0, held={"j3": {"GPU1": 1}, "j1": {"GPU2": 1}})
    _, state = fft.FFT(round_seconds=300.0)(jobs)
    other = fft.FFT(round_seconds=600.0, restart_seconds=90_000.0)
    kept, _ = other(jobs, state)
    fresh, _ = other(jobs, replace(state, proven=None))
    assert kept.certificate is not None
    assert fresh.certificate is not None
    assert kept.certificate.objective == pytest.approx(fresh.certificate.objective)
