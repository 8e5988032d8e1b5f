"""OEF on its paper's own examples: every printed number that is right, and those that are put right (THEOREMS)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GPUType, Instance, JobType, Server, Tenant
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import SharingIncentive
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.models.oef.oef_formulations import SortedTypes, ratio_ranks
from hetopt.proofs.strategies import tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN, SUPPORT

TWO = [[1, 2], [1, 5]]
THREE = [[1, 2], [1, 3], [1, 4]]


def near(value: object) -> object:
    return pytest.approx(np.asarray(value, dtype=float), rel=EQUAL, abs=EQUAL)


def of(speedups: object, capacity: tuple[int, ...] | None = None, **more: object) -> Instance:
    return Instance.from_speedups(speedups, capacity or (1,) * len(speedups[0]), **more)  # type: ignore[arg-type,index]


def true_rates(speedups: object, x: np.ndarray) -> np.ndarray:
    return np.einsum("ek,ek->e", np.asarray(speedups, dtype=float), x)


def test_equation_2() -> None:
    a = hetopt.solve(oef.cooperative(), of(THREE))
    assert a.x == near([[1, 0], [0, 0.5], [0, 0.5]])
    assert a.rate.to_numpy() == near([1, 1.5, 2])


def test_equation_5_is_efficient_and_leaves_a_tenant_with_nothing() -> None:
    a = hetopt.solve(Formulation((TotalRate(),)), of(THREE))
    assert a.certificate.objective == near(5)
    assert a.x[2] == near([0, 1])


def test_equation_6() -> None:
    a = hetopt.solve(oef.cooperative(), of(TWO))
    assert a.x == near([[1, 0.25], [0, 0.75]])
    assert a.certificate.objective == near(5.25)


def test_a_lie_pays_under_envy_freeness() -> None:
    """X^l: u1 says 4 instead of 2, gets 1.75 instead of 1.5; the total falls to 4.875 (7.1%, printed as 8%)."""
    a = hetopt.solve(oef.cooperative(), of([[1, 4], [1, 5]]))
    assert a.x == near([[1, 0.375], [0, 0.625]])
    assert true_rates(TWO, a.x) == near([1.75, 3.125])


def test_when_both_report_the_same_no_tenant_gains() -> None:
    """X^f: with equal reports each gets half of everything in value, 3 for u2, and 6 by the reports."""
    assert hetopt.solve(oef.cooperative(), of([[1, 5], [1, 5]])).rate.to_numpy() == near([3, 3])


def test_figure_2() -> None:
    """Theorem 3.2 (envy-freeness: 3/2 -> 5/3) and Theorem 3.3 (sharing incentive: 3/2 -> 7/4)."""
    honest = hetopt.solve(oef.cooperative(), of([[1, 2], [1, 4]]))
    lied = hetopt.solve(oef.cooperative(), of([[1, 3], [1, 4]]))
    assert honest.x == near([[1, 0.25], [0, 0.75]])
    assert lied.x == near([[1, 1 / 3], [0, 2 / 3]])
    assert true_rates([[1, 2], [1, 4]], lied.x)[0] == near(5 / 3)
    incentive = Formulation((TotalRate(), SharingIncentive()))
    assert hetopt.solve(incentive, of(TWO)).rate["u1"] == near(1.5)
    lied = hetopt.solve(incentive, of([[1, 4], [1, 5]]))
    assert true_rates(TWO, lied.x)[0] == near(1.75)


def test_weighted_example() -> None:
    a = hetopt.solve(oef.noncooperative(), of(TWO, weights=[1, 2]))
    assert a.x == near([[1, 1 / 3], [0, 2 / 3]])
    assert a.rate.to_numpy() == near([5 / 3, 10 / 3])


def several_types() -> Instance:
    first = Tenant("u1", (JobType("a", {"GPU1": 1, "GPU2": 2}), JobType("b", {"GPU1": 1, "GPU2": 3})))
    return Instance(Cluster.of([1, 1]), tenants=(first, Tenant("u2", {"GPU1": 1, "GPU2": 5})))  # type: ignore[arg-type]


def test_several_job_types_example() -> None:
    """(4/37, 15/37, 9/37 twice) of GPU2, and 45/37 per virtual tenant of weight 1/2."""
    a = hetopt.solve(oef.noncooperative(), several_types())
    assert list(a.share.index) == ["u1/a", "u1/b", "u2"]
    assert a.x == near([[1, 4 / 37], [0, 15 / 37], [0, 18 / 37]])
    assert a.rate.to_numpy() == near([45 / 37, 45 / 37, 90 / 37])


def test_memory_too_small_is_speed_zero() -> None:
    types = (GPUType("small", 8e9), GPUType("large", 80e9))
    cluster = Cluster(types, (Server("s", {"small": 2, "large": 2}),))
    jobs = (JobType("llm", {"small": 1, "large": 2}, memory_bytes=40e9),)
    inst = Instance(cluster, tenants=(Tenant("big", jobs), Tenant("any", {"small": 1, "large": 2})))  # type: ignore[arg-type]
    for what in (oef.cooperative(), oef.noncooperative(), oef.noncooperative(canonical=True)):
        a = hetopt.solve(what, inst)
        assert a.share.loc["big", "small"] == 0
        assert a.certificate.objective == near(6)
    assert a.rate.to_numpy() == near([3, 3])


def test_lemma_3_1_needs_ratio_order() -> None:
    """Elementwise order is not enough: the only optimum gives the slowest tenant types 1 and 3, not 2."""
    a = hetopt.solve(oef.noncooperative(), of([[1, 2, 4], [1, 4, 5]]))
    assert a.x[0] == near([1, 0, 8 / 9])


def test_under_reports_and_false_job_types_pay_under_noncooperative_oef() -> None:
    """u2 says (1, 1): 15/7 -> 8/3. u1 adds a false job type (1, 1): 15/7 -> 41/19."""
    honest = hetopt.solve(oef.noncooperative(), of(TWO))
    assert honest.rate.to_numpy() == near([15 / 7, 15 / 7])
    under = hetopt.solve(oef.noncooperative(), of([[1, 2], [1, 1]]))
    assert true_rates(TWO, under.x)[1] == near(8 / 3)
    fake = Tenant("u1", (JobType("true", {"GPU1": 1, "GPU2": 2}), JobType("false", {"GPU1": 1, "GPU2": 1})))
    inst = Instance(Cluster.of([1, 1]), tenants=(fake, Tenant("u2", {"GPU1": 1, "GPU2": 5})))  # type: ignore[arg-type]
    x = hetopt.solve(oef.noncooperative(), inst).x
    assert (x[0] + x[1]) @ [1, 2] == near(41 / 19)


def test_cooperative_need_not_be_pareto_efficient() -> None:
    """W=(1,2,3),(1,4,7),(1,5,9): utilities (2, 9/2, 23/4), though (2, 9/2, 81/14) can be had with envy."""
    a = hetopt.solve(oef.cooperative(), of([[1, 2, 3], [1, 4, 7], [1, 5, 9]]))
    assert a.rate.to_numpy() == near([2, 4.5, 5.75])


def ceei_total(speedups: np.ndarray, capacity: np.ndarray) -> float:
    """Total rate of the equal-budget market, by cvxpy."""
    x = cp.Variable(speedups.shape, nonneg=True)
    rates = cp.sum(cp.multiply(speedups, x), axis=1)
    cp.Problem(cp.Maximize(cp.sum(cp.log(rates))), [cp.sum(x, axis=0) <= capacity]).solve(solver=cp.CLARABEL)
    return float(rates.value.sum())


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@settings(max_examples=25)
@given(tenant_instances(tenants=(2, 5), types=(2, 3)))
def test_order_of_totals(inst: Instance) -> None:
    """Non-cooperative <= equal-budget market <= cooperative <= sharing incentive only <= free.

    The market's interior-point optimum is flat: values off by PROVEN leave shares off by its root.
    """
    e = inst.entities()
    totals = [
        hetopt.solve(oef.noncooperative(), inst).certificate.objective,
        ceei_total(e.speed, e.capacity),
        hetopt.solve(oef.cooperative(), inst).certificate.objective,
        hetopt.solve(Formulation((TotalRate(), SharingIncentive())), inst).certificate.objective,
        hetopt.solve(Formulation((TotalRate(),)), inst).certificate.objective,
    ]
    for less, more in pairwise(totals):
        assert less <= more * (1 + np.sqrt(PROVEN))


def intervals(x: np.ndarray, capacity: np.ndarray) -> bool:
    """Whether every row's support is a run of adjacent types."""
    used = x > SUPPORT * 10 * capacity
    return all(np.ptp(np.flatnonzero(row)) + 1 == row.sum() for row in used if row.any())


def test_ties_break_adjacency_even_at_a_vertex_and_sorting_mends_it() -> None:
    """Equal rows (1,2,3): the canonical optimum gives u1 the slow types, u2 the fast one; the certificate stays that
    of the total.
    """
    a = hetopt.solve(oef.noncooperative(canonical=True), of([[1, 2, 3], [1, 2, 3]]))
    assert a.x == near([[1, 1, 0], [0, 0, 1]])
    assert a.certificate.objective == near(6)
    assert a.certificate.bound == near(6)


@given(tenant_instances(tenants=(2, 5), types=(2, 4), ordered=True), st.data())
def test_canonical_optimum_is_optimal_and_has_adjacent_types_whatever_the_ties(
    inst: Instance, data: st.DataObject
) -> None:
    """Ratio-ordered tenants, some of them doubled (ties)."""
    e = inst.entities()
    rows = np.repeat(
        e.speed, data.draw(st.lists(st.integers(1, 2), min_size=len(e.speed), max_size=len(e.speed))), axis=0
    )
    tied = Instance.from_speedups(rows, e.capacity.astype(int).tolist())
    a = hetopt.solve(oef.noncooperative(canonical=True), tied)
    assert a.certificate.objective == near(hetopt.solve(oef.noncooperative(), tied).certificate.objective)
    assert intervals(a.x, e.capacity)


@given(tenant_instances(tenants=(2, 5), types=(2, 4), ordered=True))
def test_ranks_follow_ratio_order(inst: Instance) -> None:
    """The generator lists tenants in weak ratio order; strictly larger ratios come later."""
    e = inst.entities()
    ranks = ratio_ranks(e)
    ratio = e.speed[:, -1] / e.speed[:, 0]
    for i, j in np.argwhere(ratio[:, None] < ratio[None, :] * (1 - EQUAL)):
        assert ranks[i] < ranks[j]


def test_sorting_recombines() -> None:
    """The tie-break goes with cooperative OEF and a switching cost, and leaves their optimum alone."""
    held = of(TWO).replace(held=[[0, 1], [1, 0]])
    base = oef.cooperative() + SwitchingCost(0.5)
    a, b = hetopt.solve(base, held), hetopt.solve(base + SortedTypes(), held)
    assert a.certificate.objective == near(b.certificate.objective)
    assert b.certificate.violation <= FEASIBILITY


def test_exact_mode_reads_the_paper_in_fractions() -> None:
    a = hetopt.solve(oef.noncooperative(), several_types(), exact=True)
    assert a.exact.loc["u1/a", "GPU2"] == Fraction(4, 37)
