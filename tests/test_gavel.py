"""Gavel's policies: printed numbers, independent oracles, weights and compositions."""

from __future__ import annotations

import numpy as np
import pytest
from gavel_oracles import POLICIES, Plain, many
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from scipy.optimize import linprog

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.errors import InvalidFormulation, InvalidInstance, InvalidOption, NotSolved
from hetopt.models import gavel
from hetopt.models.fairness_components import EnvyFree, SharingIncentive
from hetopt.models.objectives import SwitchingCost
from hetopt.proofs.strategies import job_instances, ratios, tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY, GAP, PROVEN

EQ1 = hetopt.Instance.from_speedups([[1, 2], [1, 3], [1, 4]], capacity=[1, 1])
TABLE1 = hetopt.Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1], round_seconds=60.0)


def test_oef_equation_3_needs_gavels_own_row() -> None:
    """[OEF, eq. 3]: ratio 12/11 and total 48/11 where a tenant uses at most one GPU; more than that without."""
    a = hetopt.solve(gavel.max_min_fairness(tenant_gpus=1.0), EQ1)
    assert a.x == pytest.approx(np.array([[10, 1], [1, 5], [0, 5]]) / 11, abs=EQUAL)
    assert a.certificate.objective == pytest.approx(12 / 11, rel=EQUAL)
    assert a.rate.sum() == pytest.approx(48 / 11, rel=EQUAL)
    assert 48 / 11 > 196 / 45, "Gavel's total is not lower than that of Gandiva_fair, as [OEF, section 2.4] says"
    free = hetopt.solve(gavel.max_min_fairness(), EQ1)
    assert free.x == pytest.approx(np.array([[1, 5 / 98], [0, 24 / 49], [0, 45 / 98]]), abs=EQUAL)
    assert free.certificate.objective == pytest.approx(54 / 49, rel=EQUAL)


def test_a_tenant_gains_by_a_lie_and_by_a_trade() -> None:
    """[OEF, section 2.4]: u1 reports 2.5 and gets (0.852, 0.148); u2 would trade with u1 without a loser."""
    lie = hetopt.Instance.from_speedups([[1, 2.5], [1, 3], [1, 4]], capacity=[1, 1])
    share = hetopt.solve(gavel.max_min_fairness(tenant_gpus=1.0), lie).x[0]
    assert share.round(3).tolist() == [0.852, 0.148]
    assert share @ [1, 2] > 12 / 11 + EQUAL
    # x2' is 1/2 where u1 keeps its rate (printed: 0.0495, a misprint of 0.495).
    traded = np.array([[1, 1 / 22], [0, 1 / 2]])
    assert traded.sum(axis=0) == pytest.approx([10 / 11 + 1 / 11, 1 / 11 + 5 / 11])
    assert traded[0] @ [1, 2] == pytest.approx(12 / 11)
    assert traded[1] @ [1, 3] > 16 / 11 + EQUAL


def test_fft_table_1() -> None:
    """[FFT, section 2.3]: 64/9 minutes in total with half of the time everywhere; the same for the makespan."""
    a = hetopt.solve(gavel.mean_completion_time(), TABLE1)
    assert -a.certificate.objective / 60 == pytest.approx(64 / 9, rel=PROVEN)
    assert a.x == pytest.approx(np.full((2, 2), 0.5), abs=EQUAL)
    b = hetopt.solve(gavel.makespan(), TABLE1)
    assert gavel.makespan_seconds(b.entities, b.x) / 60 == pytest.approx(32 / 9, rel=EQUAL)


def test_hadars_example_is_not_an_optimum_of_these_policies() -> None:
    """[Hadar, section II-A]: Y is full time for everyone, on more P100s and K80s than there are (1.2, 2 of K80's 1)."""
    inst = hetopt.Instance.from_jobs([[40, 20, 30], [5, 15, 5], [10, 2, 20]], [3, 2, 2], [80, 30, 50], [2, 3, 1])
    printed = np.array([[0.6, 0.4, 0.0], [0.2, 0.6, 0.2], [0.2, 0.0, 0.8]])
    entities = inst.entities()
    assert (entities.demand @ printed > entities.capacity).tolist() == [True, False, True]
    for name in POLICIES:
        used = entities.demand @ hetopt.solve(POLICIES[name](), inst).x
        assert (used <= entities.capacity * (1 + FEASIBILITY)).all(), name


def check(a: hetopt.Allocation, value: float) -> None:
    """The optimum is the oracle's; claims and measurements agree."""
    c = a.certificate
    assert c.measured
    assert c.objective == pytest.approx(value, rel=10 * EQUAL)
    assert c.bound >= c.objective - EQUAL * abs(c.objective)
    assert c.gap <= EQUAL
    assert c.violation <= 10 * FEASIBILITY


@pytest.mark.parametrize("policy", ["max_min", "max_min_of_time", "total", "makespan", "finish_time", "completion"])
@settings(max_examples=20)
@given(inst=job_instances(zeros=True, arrivals=True))
def test_the_optimum_over_jobs_is_that_of_another_solver(policy: str, inst: hetopt.Instance) -> None:
    check(hetopt.solve(POLICIES[policy](), inst), Plain(inst).value(policy))


@pytest.mark.parametrize("policy", ["max_min", "total"])
@settings(max_examples=20)
@given(inst=tenant_instances(weighted=True, zeros=True))
def test_the_optimum_over_tenants_is_that_of_another_solver(policy: str, inst: hetopt.Instance) -> None:
    check(hetopt.solve(POLICIES[policy](), inst), Plain(inst).value(policy))


@pytest.mark.parametrize("order", ["arrival", "time_left"])
@settings(max_examples=25)
@given(inst=job_instances(zeros=True, arrivals=True))
def test_jobs_in_order_against_a_hand_made_program(order: str, inst: hetopt.Instance) -> None:
    """[Gavel, section 4.2] written out job by job for scipy: worth (n - rank) / n per GPU on the fastest type."""
    n, k = len(inst.jobs), len(inst.cluster.capacity)
    speed = Plain(inst).speed

    def key(i: int) -> tuple[float, int]:
        job = inst.jobs[i]
        return (job.arrival if order == "arrival" else job.work / speed[i].max(), i)

    worth = np.zeros((n, k))
    for rank, i in enumerate(sorted(range(n), key=key)):
        worth[i] = (n - rank) / n * inst.jobs[i].demand * speed[i] / speed[i].max()
    capacity = [[inst.jobs[i].demand if j == m else 0 for i in range(n) for j in range(k)] for m in range(k)]
    time = [[1 if e == i else 0 for i in range(n) for _ in range(k)] for e in range(n)]
    best = linprog(-worth.ravel(), capacity + time, [*inst.cluster.capacity.values(), *[1] * n])
    check(hetopt.solve(POLICIES["fifo" if order == "arrival" else "shortest"](), inst), -best.fun)


@given(inst=job_instances(), weight=ratios(2, 6))
@settings(max_examples=20)
def test_a_larger_weight_is_worth_as_much_as_it_says(inst: hetopt.Instance, weight: float) -> None:
    """Max-min: at any weights the least rate / (weight x rate of an unweighted part) is the largest possible."""
    jobs = [hetopt.Job(**{**vars(j), "weight": weight if i == 0 else 1.0}) for i, j in enumerate(inst.jobs)]
    weighted = inst.replace(jobs=jobs)
    a = hetopt.solve(gavel.max_min_fairness(), weighted)
    check(a, Plain(weighted).value("max_min"))
    doubled = inst.replace(jobs=[hetopt.Job(**{**vars(j), "weight": 2.0}) for j in inst.jobs])
    same = [hetopt.solve(gavel.max_min_fairness(), i).certificate.objective for i in (inst, doubled)]
    assert same[0] == pytest.approx(same[1], rel=EQUAL), "only relative weights count"


@pytest.mark.parametrize("policy", ["total", "finish_time", "completion", "max_min"])
def test_weights_move_time_to_the_weighted_job(policy: str) -> None:
    """Two equal jobs on one GPU: the one with weight 3 gets more."""
    jobs = [
        hetopt.Job("light", {"V100": 1.0}, work=100.0),
        hetopt.Job("heavy", {"V100": 1.0}, work=100.0, weight=3.0),
    ]
    rate = hetopt.solve(POLICIES[policy](), hetopt.Instance(hetopt.Cluster.of({"V100": 1}), jobs=jobs)).rate
    by_hand = {"total": 1.0, "max_min": 3 / 4, "completion": np.sqrt(3) / (1 + np.sqrt(3)), "finish_time": 3 / 4}
    assert rate["heavy"] == pytest.approx(by_hand[policy], rel=EQUAL)


def lexicographic(table: np.ndarray, plain: Plain) -> np.ndarray:
    """Oracle of water filling: raise the level; test every open entity by a program of its own whether it is stuck."""
    n, k = table.shape
    floor, open_ = np.zeros(n), np.ones(n, dtype=bool)
    capacity = np.array([[plain.demand[i] if j == m else 0 for i in range(n) for j in range(k)] for m in range(k)])
    time = np.array([[1 if e == i else 0 for i in range(n) for _ in range(k)] for e in range(n)])
    rows, right = [capacity], [np.array(plain.capacity)]
    if plain.timed:
        rows, right = [*rows, time], [*right, np.ones(n)]
    upper = [(0, None if s > 0 else 0) for s in table.ravel()]
    ratio = np.array([[table[i, j] if e == i else 0 for i in range(n) for j in range(k)] for e in range(n)])
    while open_.any():
        a = np.block(
            [[np.vstack(rows), np.zeros((len(np.concatenate(right)), 1))], [-ratio, open_[:, None].astype(float)]]
        )
        b = np.concatenate([*right, np.where(open_, 0, -floor)])
        level = -linprog(np.append(np.zeros(n * k), -1), a, b, bounds=[*upper, (0, None)]).fun
        keep = np.where(open_, level, floor) * (1 - PROVEN)
        for e in np.flatnonzero(open_):
            most = -linprog(-ratio[e], np.vstack([*rows, -ratio]), np.concatenate([*right, -keep]), bounds=upper).fun
            if most <= level * (1 + EQUAL):
                floor[e], open_[e] = level, False
    return floor


@settings(max_examples=20)
@given(inst=st.one_of(job_instances(zeros=True, jobs=(1, 5)), tenant_instances(zeros=True, weighted=True)))
def test_water_filling_is_lexicographic_max_min(inst: hetopt.Instance) -> None:
    plain = Plain(inst)
    a = hetopt.solve(gavel.water_filling(), inst)
    ratio = a.rate.to_numpy() / plain.fair
    assert np.sort(ratio) == pytest.approx(
        np.sort(lexicographic(plain.speed / plain.fair[:, None], plain)), rel=20 * EQUAL
    )
    assert a.certificate.objective == pytest.approx(a.certificate.bound, rel=EQUAL)
    assert a.certificate.violation <= 10 * FEASIBILITY


def test_water_filling_counts_its_programs_and_its_time() -> None:
    """Two levels, two programs; a limit that ends at once is reported."""
    inst = hetopt.Instance.from_jobs([[1, 0], [0, 2], [0, 3]], [1, 1, 2], [1, 1, 1], [4, 2])
    certificate = hetopt.solve(gavel.water_filling(), inst).certificate
    assert certificate.passes == 2
    first = hetopt.solve(gavel.max_min_fairness(), inst, method="simplex").certificate
    assert certificate.duals.to_dict() == pytest.approx(first.duals.to_dict()), "of the objective, the least ratio"
    assert 0 < certificate.solver_seconds <= certificate.seconds
    rows = np.random.default_rng(0).random((300, 8)) + 0.1
    many = hetopt.Instance.from_jobs(rows, 1, 1, [20] * 8)
    with pytest.raises(NotSolved, match="time_limit="):
        hetopt.solve(gavel.water_filling(time_limit=1 / 10**6), many)
    with pytest.raises(InvalidOption, match="time_limit is 0"):
        gavel.water_filling(time_limit=0)
    for make in (gavel.max_min_fairness, gavel.total_throughput, gavel.finish_time_fairness):
        with pytest.raises(NotSolved, match="time_limit="):
            hetopt.solve(make(), many, time_limit=1 / 10**9)


def test_water_filling_refuses_weights_that_no_solver_can_compare() -> None:
    """Weights of 13 orders of magnitude and speedups of six leave rows below HiGHS's tolerances."""
    speedups = np.ones((5, 3))
    speedups[np.arange(5), [1, 1, 2, 2, 0]] = 10**6
    inst = hetopt.Instance.from_speedups(speedups, [1, 1_000, 10**6], weights=10.0 ** np.linspace(-6, 7, 5))
    with pytest.raises(NotSolved, match=r"level \d cannot be found.*: speeds or weights in the data are too far apart"):
        gavel.water_filling()(inst)


def test_water_filling_gives_what_the_least_cannot_use() -> None:
    """j1 runs only on GPU1, which j2 does not need: max-min may stop at j1's ratio, water filling may not."""
    inst = hetopt.Instance.from_jobs([[1, 0], [0, 1], [0, 1]], [1, 1, 1], [1, 1, 1], [1, 4])
    assert hetopt.solve(gavel.water_filling(), inst).x == pytest.approx(np.array([[1, 0], [0, 1], [0, 1]]), abs=EQUAL)


@settings(max_examples=10)
@given(inst=job_instances(arrivals=True))
@pytest.mark.parametrize("policy", ["max_min", "finish_time", "completion", "makespan", "total"])
def test_policies_compose_with_costs_and_fairness(policy: str, inst: hetopt.Instance) -> None:
    """A switching cost never raises the objective; envy-freeness holds where it was asked for."""
    n, k = inst.entities().shape
    held = inst.replace(held=np.zeros((n, k)))
    alone = hetopt.solve(POLICIES[policy](), inst)
    both = hetopt.solve(POLICIES[policy]() + SwitchingCost(PROVEN), held)
    assert both.certificate.measured
    assert both.certificate.gap <= 2 * GAP + EQUAL
    assert both.certificate.objective <= alone.certificate.objective + EQUAL * abs(alone.certificate.objective)
    envy = hetopt.solve(POLICIES[policy]() + EnvyFree(), inst)
    assert envy.certificate.violation <= 10 * FEASIBILITY


def test_the_sharing_incentive_can_be_asked_of_throughput() -> None:
    a = hetopt.solve(gavel.total_throughput() + SharingIncentive(), EQ1)
    assert (a.rate >= equal_share_rate(EQ1.entities()) * (1 - EQUAL)).all()
    assert a.certificate.objective == pytest.approx(41 / 9, rel=EQUAL)


def test_units_of_time_do_not_matter() -> None:
    """The same jobs in work per second, per day and per year get the same shares of time."""
    inst = many(3, 40)
    for policy in ("max_min", "makespan", "total", "finish_time", "completion"):
        objectives = []
        for factor in (1.0, 86400.0, 3.2e7):
            jobs = [
                hetopt.Job(**{**vars(j), "throughput": {k: v / factor for k, v in j.throughput.items()}})
                for j in inst.jobs
            ]
            slow = inst.replace(jobs=jobs, time=0.0, done={})
            slow = slow.replace(jobs=[hetopt.Job(**{**vars(j), "arrival": 0.0}) for j in jobs])
            objective = hetopt.solve(POLICIES[policy](), slow).certificate.objective
            objectives.append(objective * {"total": factor, "completion": 1 / factor}.get(policy, 1.0))
        assert objectives == pytest.approx([objectives[0]] * 3, rel=10 * EQUAL), policy


@pytest.mark.parametrize("seed", range(4))
def test_speedups_of_a_million_leave_no_gap(seed: int) -> None:
    """A share that is worth a millionth of another has a reduced cost below the usual tolerance of HiGHS."""
    draw, n, k = np.random.default_rng(seed), 7, 5
    speedups = np.ones((n, k))
    speedups[np.arange(n), draw.integers(0, k, n)] = 10**6
    inst = hetopt.Instance.from_speedups(speedups, [55] * k)
    found = hetopt.solve(gavel.max_min_fairness(), inst).certificate
    exact = hetopt.solve(gavel.max_min_fairness(), inst, exact=True).certificate.objective
    assert found.status == "optimal"
    assert found.objective == pytest.approx(exact, rel=PROVEN)
    assert found.bound == pytest.approx(exact, rel=PROVEN)


def test_finished_jobs_count_for_nothing() -> None:
    done = TABLE1.replace(done={"j1": 16.0})
    for policy in ("makespan", "completion", "finish_time", "fifo", "shortest"):
        a = hetopt.solve(POLICIES[policy](), done)
        assert a.rate["j2"] == pytest.approx(8 / 60, rel=EQUAL), policy
    assert gavel.makespan_seconds(a.entities, a.x) == pytest.approx(120.0, rel=EQUAL)
    finished = TABLE1.replace(done={"j1": 16.0, "j2": 16.0})
    for policy in ("makespan", "finish_time"):
        with pytest.raises(InvalidInstance, match="no job has work left"):
            hetopt.solve(POLICIES[policy](), finished)


def test_what_cannot_be_is_refused() -> None:
    with refused(InvalidOption, "InOrder.order"):
        gavel.InOrder("size")  # type: ignore[arg-type]
    with refused(InvalidOption, "TimeFraction.tenant_gpus"):
        gavel.TimeFraction(0.0)
    with pytest.raises(InvalidOption, match=r"WaterFilling\.kind is 'users'"):
        gavel.WaterFilling(kind="users")  # type: ignore[arg-type]
    with refused(InvalidInstance, "Gavel makespan"):
        hetopt.solve(gavel.makespan(), EQ1)
    with pytest.raises(InvalidFormulation, match="two components are named 'time_fraction'"):
        gavel.makespan() + gavel.TimeFraction()


def test_a_gang_gets_no_time_on_a_type_that_is_too_small_for_it() -> None:
    """Eight GPUs cannot be taken from four for half of the time: the job runs on the slower type, by hand 1/4 of it."""
    jobs = hetopt.Instance.from_jobs([[1, 9], [1, 9]], demand=[8, 2], work=[9, 9], capacity=[8, 4])
    allocation = hetopt.solve(gavel.max_min_fairness(), jobs)
    assert allocation.share.loc["j1", "GPU2"] == 0
    assert allocation.share.loc["j1", "GPU1"] > 0
    assert jobs.entities().task_speed[0, 1] > 0, "a gang over both types could use it"


def test_a_gang_that_fits_no_single_type_is_refused() -> None:
    jobs = hetopt.Instance.from_jobs([[1, 9]], demand=[5], work=[9], capacity=[4, 4])
    with refused(hetopt.InvalidInstance, "jobs['j1'].demand"):
        hetopt.solve(gavel.total_throughput(), jobs)
