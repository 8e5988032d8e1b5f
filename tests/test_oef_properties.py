"""What is true of OEF (THEOREMS) on generated instances, each against an oracle of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import hetopt
from hetopt import Entities, Instance, InvalidInstance
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import EnvyFree, SharingIncentive
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.programs.arrays import Arrays
from hetopt.programs.compiled import Compiled
from hetopt.proofs.strategies import ratios, tenant_instances, with_held
from hetopt.tolerances import EQUAL, FEASIBILITY, SUPPORT, scale


def near(value: object) -> object:
    return pytest.approx(value, rel=EQUAL, abs=EQUAL)


def envy_by_hand(inst: Instance, x: np.ndarray) -> float:
    """Largest envy per unit of weight, relative to the rate with everything; by loops."""
    e = inst.entities()
    worst = 0.0
    for one in range(len(e.names)):
        for other in range(len(e.names)):
            own = sum(e.speed[one] * x[one]) / e.weight[one]
            seen = sum(e.speed[one] * x[other]) / e.weight[other]
            worst = max(worst, (seen - own) * e.weight[one] / sum(e.speed[one] * e.capacity))
    return worst


@given(tenant_instances(tenants=(1, 6), weighted=True, zeros=True))
def test_cooperative_is_envy_free_gives_the_sharing_incentive_and_uses_everything(inst: Instance) -> None:
    e = inst.entities()
    x = hetopt.solve(oef.cooperative(), inst).x
    assert envy_by_hand(inst, x) <= FEASIBILITY
    fair = e.weight / e.weight.sum() * (e.speed @ e.capacity)
    assert (e.rate(x) >= fair - FEASIBILITY * (e.speed @ e.capacity)).all()
    wanted = e.allowed.any(axis=0)
    assert (x.sum(axis=0)[wanted] >= e.capacity[wanted] - EQUAL * scale(e.capacity)).all()


def two_types_by_hand(ratio: np.ndarray, capacity: np.ndarray) -> float:
    """Closed form of the cooperative optimum for k = 2 (THEOREMS, Theorem 5.1): a program with two rows."""
    r = np.sort(ratio)
    n = len(r)
    cost = np.array([h * (r[h - 1] if h else 0.0) / (n - h) for h in range(n)])
    value = np.array([r[h:].mean() for h in range(n)])
    rows = {"A_ub": cost[None, :], "b_ub": [capacity[0]], "A_eq": np.ones((1, n)), "b_eq": [capacity[1]]}
    return float(capacity[0] - linprog(-value, **rows).fun)


@given(tenant_instances(tenants=(1, 7), types=(2, 2)))
def test_cooperative_with_two_types_has_a_closed_form(inst: Instance) -> None:
    e = inst.entities()
    best = hetopt.solve(oef.cooperative(), inst).certificate.objective
    assert best == near(two_types_by_hand(e.speed[:, 1], e.capacity))


@given(tenant_instances(tenants=(2, 2), weighted=True))
def test_for_two_tenants_cooperative_is_the_sharing_incentive_program(inst: Instance) -> None:
    only = Formulation((TotalRate(), SharingIncentive()))
    assert hetopt.solve(oef.cooperative(), inst).certificate.objective == near(
        hetopt.solve(only, inst).certificate.objective
    )


@given(tenant_instances(tenants=(2, 5), types=(2, 4), ordered=True))
def test_noncooperative_gives_adjacent_types_where_ratios_are_strictly_ordered(inst: Instance) -> None:
    e = inst.entities()
    step = e.speed[:, 1:] / e.speed[:, :-1]
    assume((np.diff(step, axis=0) > EQUAL).all())
    used = hetopt.solve(oef.noncooperative(), inst).x > SUPPORT * 10 * e.capacity
    assert all(np.ptp(np.flatnonzero(row)) + 1 == row.sum() for row in used)


@given(tenant_instances(tenants=(1, 5), weighted=True))
def test_noncooperative_is_pareto_efficient_where_all_speedups_are_positive(inst: Instance) -> None:
    """No total is larger with every rate kept: a separate program, by scipy."""
    e = inst.entities()
    n, k = e.shape
    x = hetopt.solve(oef.noncooperative(), inst).x
    rates = e.rate(x)
    capacity = np.tile(np.eye(k), n)
    keep = -np.kron(np.eye(n), np.ones(k)) * e.speed.ravel()
    bound = np.concatenate([np.maximum(e.capacity, x.sum(0)), -rates])  # x itself is feasible, with nothing to spare
    best = -linprog(-e.speed.ravel(), A_ub=np.vstack([capacity, keep]), b_ub=bound).fun
    assert best <= rates.sum() * (1 + EQUAL)


def test_with_zeros_noncooperative_is_not_pareto_efficient() -> None:
    """W=(1,0),(1,1), m=(1,3): one GPU bounds u1, so u2 may not use the rest."""
    a = hetopt.solve(oef.noncooperative(), Instance.from_speedups([[1, 0], [1, 1]], [1, 3]))
    assert a.rate.to_numpy() == near(np.array([1.0, 1.0]))
    assert a.x.sum() < 4 - EQUAL


@given(tenant_instances(tenants=(1, 5)))
def test_noncooperative_vertex_has_few_shares(inst: Instance) -> None:
    e = inst.entities()
    for method in ("auto", "simplex"):
        x = hetopt.solve(oef.noncooperative(), inst, method=method).x
        assert (x > SUPPORT * e.capacity).sum() <= sum(e.shape) - 1


@given(tenant_instances(tenants=(2, 4), types=(2, 3)), st.data())
def test_over_reports_do_not_pay_under_noncooperative_oef(inst: Instance, data: st.DataObject) -> None:
    """Reports of larger speedups (never smaller): a single liar's true rate does not grow, nor do those of all in a
    coalition (one who says the truth beside a liar may gain, at the liar's cost).
    """
    e = inst.entities()
    n, k = e.shape
    factors = data.draw(st.lists(ratios(4, 12), min_size=n * k, max_size=n * k))
    lying = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    factor = np.maximum(1.0, np.array(factors).reshape(n, k) / 4)
    reported = np.where(lying[:, None], e.speed * factor, e.speed)
    honest = hetopt.solve(oef.noncooperative(), inst)
    capacity = e.capacity.astype(int).tolist()
    lied = hetopt.solve(oef.noncooperative(), Instance.from_speedups(reported, capacity, any_scale=True))
    gained = e.rate(lied.x) - e.rate(honest.x)
    assert gained[lying].min(initial=0.0) <= EQUAL * scale(e.rate(honest.x))
    assert (gained[lying] <= EQUAL * scale(e.rate(honest.x))).all() or lying.sum() > 1


@given(tenant_instances(tenants=(1, 4), types=(1, 3)), st.data())
def test_weights_are_replicas(inst: Instance, data: st.DataObject) -> None:
    """Weight 3 gives what three tenants with the same speedups get together; halves and thirds likewise."""
    e = inst.entities()
    times = data.draw(st.lists(st.integers(1, 3), min_size=len(e.names), max_size=len(e.names)))
    share_of = data.draw(st.sampled_from([1.0, 0.5, 1 / 3, np.pi]))
    capacity = e.capacity.astype(int).tolist()
    weighted = Instance.from_speedups(e.speed, capacity, weights=[share_of * t for t in times], any_scale=True)
    replicas = Instance.from_speedups(np.repeat(e.speed, times, axis=0), capacity, any_scale=True)
    for what in (oef.cooperative(), oef.noncooperative()):
        one, many = hetopt.solve(what, weighted), hetopt.solve(what, replicas)
        assert one.certificate.objective == near(many.certificate.objective)
    together = np.add.reduceat(many.rate.to_numpy(), np.concatenate([[0], np.cumsum(times)[:-1]]))
    assert one.rate.to_numpy() == near(together)


@given(tenant_instances(tenants=(1, 4), types=(1, 3), weighted=True), st.data())
def test_with_a_switching_cost_envy_freeness_stays(inst: Instance, data: st.DataObject) -> None:
    price = data.draw(st.sampled_from([0.3, 1.0, 4.0]))
    a = hetopt.solve(oef.cooperative() + SwitchingCost(price), data.draw(with_held(inst)))
    assert envy_by_hand(inst, a.x) <= FEASIBILITY
    assert a.certificate.violation <= FEASIBILITY


def test_with_a_switching_cost_the_sharing_incentive_may_go() -> None:
    """No tenant holds a GPU, and a GPU costs more than it brings: all stay at zero, envy-free and short."""
    inst = Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).replace(held=[[0, 0], [0, 0]])
    a = hetopt.solve(oef.cooperative() + SwitchingCost(10.0), inst)
    assert a.x == near(np.zeros((2, 2)))


@settings(max_examples=20)
@given(tenant_instances(tenants=(41, 44), types=(2, 3), weighted=True))
def test_lazy_rows_reach_the_optimum_of_all_rows(inst: Instance) -> None:
    """Above 40 tenants rows join as they are violated by the general solver; oracle: all rows at once, by scipy."""
    e = inst.entities()
    n, k = e.shape
    lazy = hetopt.solve(oef.cooperative(), inst, method="simplex")
    rows = []
    for one in range(n):
        for other in range(n):
            row = np.zeros((n, k))
            row[one] -= e.weight[other] * e.speed[one]
            row[other] += e.weight[one] * e.speed[one]
            rows.append(row.ravel())
    matrix = np.vstack([np.tile(np.eye(k), n), *rows])
    oracle = linprog(-e.speed.ravel(), A_ub=matrix, b_ub=np.concatenate([e.capacity, np.zeros(n * n)]))
    assert lazy.certificate.objective == near(-oracle.fun)
    assert lazy.certificate.violation <= FEASIBILITY


@pytest.mark.parametrize(("n", "joining"), [(40, False), (41, True)])
def test_envy_rows_join_above_forty_tenants(n: int, joining: bool) -> None:
    inst = Instance.from_speedups([[1, 2 + i / n] for i in range(n)], [2, 3])
    every = 2 + n * (n - 1)
    assert Compiled(oef.cooperative(), oef.cooperative().entities(inst)).program.shape[0] == (2 if joining else every)
    assert oef.cooperative().compile(inst).shape[0] == every


def test_shares_of_a_type_that_one_cannot_use_stay_at_zero() -> None:
    inst = Instance.from_speedups([[1, 0], [1, 2]], [1, 1])
    for what in (oef.cooperative(), oef.noncooperative()):
        program = what.compile(inst)
        assert program.col_upper[program.column["share[u1,GPU2]"]] == 0
        assert np.isinf(program.col_upper[program.column["share[u2,GPU2]"]])


@pytest.mark.parametrize("formulation", [oef.cooperative(), oef.noncooperative(), oef.noncooperative(canonical=True)])
def test_jobs_are_refused(formulation: Formulation) -> None:
    """Each counts work in a unit of its own, so that their rates cannot be compared."""
    with pytest.raises(InvalidInstance, match=r"OEF.* is for tenants, and the instance has none; add tenants"):
        hetopt.solve(formulation, Instance.from_jobs([[1, 2]], [1], [9], [1, 1]))


class _Insatiable(EnvyFree):
    """Envy-freeness that offers a row again and again, as it may where the solver's tolerance hides a violation."""

    def rows(self, entities: Entities) -> Arrays:
        (family,) = super().rows(entities).rows
        return Arrays(rows=(replace(family, most_violated=lambda _: np.array([0])),))


def test_a_lazy_row_that_is_offered_for_ever_enters_once() -> None:
    inst = Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    a = hetopt.solve(Formulation((TotalRate(), _Insatiable(eager_up_to=0))), inst)
    assert a.certificate.passes == 2
    assert a.certificate.objective == near(5.25)
