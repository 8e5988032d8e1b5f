"""Fairness components: rows, lazy rows and measures, against loops; weights, gangs and bad news told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Entities, Instance
from hetopt.models.fairness import EnvyFree, EqualRates, SharingIncentive, envy
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.arrays import capacity_program
from hetopt.programs.formulation import Formulation
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.solving.point import Point
from hetopt.tolerances import EQUAL, FEASIBILITY, VIOLATED

INSTANCES = st.one_of(tenant_instances(weighted=True, zeros=True), job_instances(zeros=True))


def drawn_share(data: st.DataObject, entities: Entities) -> np.ndarray:
    n, k = entities.shape
    cells = data.draw(st.lists(st.integers(0, 4), min_size=n * k, max_size=n * k))
    return np.where(entities.allowed, np.array(cells, dtype=float).reshape(n, k) / 4, 0.0)


def at(entities: Entities, share: np.ndarray) -> Point:
    """A point of the program without fairness."""
    return Point(capacity_program(entities), share.ravel(), 0.0, 0.0, "optimal")


@given(INSTANCES, st.data())
def test_envy_is_what_one_would_gain_with_the_other_ones_gpus(inst: Instance, data: st.DataObject) -> None:
    """By loops: GPUs of the other, scaled to one's own weight, at one's own speed per GPU."""
    e = inst.entities()
    share = drawn_share(data, e)
    table = envy(e, share)
    for one in range(len(e.names)):
        own = sum(e.speed[one] * share[one])
        for other in range(len(e.names)):
            gpus = share[other] * e.demand[other] * e.weight[one] / e.weight[other]
            seen = sum(e.speed[one] / e.demand[one] * gpus)
            assert table[one, other] == pytest.approx(seen - own, rel=EQUAL, abs=EQUAL)


@given(INSTANCES, st.data())
def test_lazy_rows_are_the_model_rows_that_a_point_violates(inst: Instance, data: st.DataObject) -> None:
    e = inst.entities()
    share = drawn_share(data, e)
    point = at(e, share)
    rows = EnvyFree(eager_up_to=0).violated(e, point)
    values = rows.share @ share.ravel()
    assert (values < rows.lower).all(), "each row that is offered is violated"
    envious = (envy(e, share).max(axis=1) > VIOLATED * (e.per_gpu @ e.capacity)).sum()
    assert len(rows) == envious, "one row for each who envies"
    program = hetopt.from_pyomo(Formulation((TotalRate(), EnvyFree())).build(inst))
    eager = dict(zip(program.row_names, program.A.toarray(), strict=True))
    for name, row in zip(rows.names, rows.share.toarray(), strict=True):
        assert row == pytest.approx(eager[name], rel=EQUAL), name


def test_no_lazy_rows_where_all_stand_in_the_model() -> None:
    e = Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).entities()
    point = at(e, np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert len(EnvyFree().violated(e, point)) == 0
    assert len(EnvyFree(eager_up_to=1).violated(e, point)) == 1


@given(INSTANCES)
def test_equal_parts_are_fair_in_every_sense(inst: Instance) -> None:
    """Parts of every type in proportion to weight: no envy, the sharing incentive met with equality."""
    e = inst.entities()
    gpus = e.weight[:, None] / e.weight.sum() * e.capacity
    share = gpus / e.demand[:, None]
    assert EnvyFree().measure(e, share).violation <= FEASIBILITY
    assert SharingIncentive().measure(e, share).violation <= FEASIBILITY
    assert e.rate(share) == pytest.approx(e.fair_rate, rel=EQUAL)


def test_measures_by_hand() -> None:
    """All to u2: u1 envies all that there is, misses its whole fair rate, and rates are as unequal as can be."""
    e = Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).entities()
    share = np.array([[0.0, 0.0], [1.0, 1.0]])
    for part in (EnvyFree(), SharingIncentive(), EqualRates()):
        assert part.measure(e, share).violation == pytest.approx(1.0)
    assert EqualRates().measure(e, np.zeros((2, 2))).violation == 0


def test_weights_are_what_the_other_is_worth() -> None:
    """With weight 2 one may have twice as much before the other envies."""
    e = Instance.from_speedups([[1], [1]], [3], weights=[1, 2]).entities()
    assert EnvyFree().measure(e, np.array([[1.0], [2.0]])).violation <= FEASIBILITY
    assert EnvyFree().measure(e, np.array([[0.5], [2.5]])).violation == pytest.approx((2.5 / 2 - 0.5) / 3)
    assert EqualRates().measure(e, np.array([[1.0], [2.0]])).violation <= FEASIBILITY


def test_fairness_on_gangs_counts_gpus() -> None:
    """A gang of two that runs half the time holds as many GPUs as one that runs all the time alone."""
    inst = Instance.from_jobs([[2], [1]], demand=[2, 1], work=[1, 1], capacity=[2])
    e = inst.entities()
    assert EnvyFree().measure(e, np.array([[0.5], [1.0]])).violation <= FEASIBILITY
    a = hetopt.solve(Formulation((TotalRate(), EnvyFree())), inst)
    assert e.gpus(a.x)[:, 0] == pytest.approx(np.array([1.0, 1.0]), rel=EQUAL)
