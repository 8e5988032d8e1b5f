"""Fairness components: rows, lazy rows and measures, against loops; weights, gangs and bad news told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Entities, Instance
from hetopt.models import oef
from hetopt.models.fairness import EnvyFree, EqualRates, SharingIncentive, envy
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.arrays import capacity_program, equal_rates_program
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
    """By loops: GPUs of the other, scaled to one's own weight, at one's own speed; a gang uses no more of them."""
    e = inst.entities()
    share = drawn_share(data, e)
    table = envy(e, share)
    for one in range(len(e.names)):
        own = sum(e.speed[one] * share[one])
        for other in range(len(e.names)):
            at_a_time = e.demand[other] * e.weight[one] / e.weight[other]
            if e.kind == "jobs":
                at_a_time = min(at_a_time, e.demand[one])
            seen = sum(e.speed[one] / e.demand[one] * at_a_time * share[other])
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


FAIR = {"envy_free": EnvyFree(), "sharing_incentive": SharingIncentive(), "equal_rates": EqualRates()}


@pytest.mark.parametrize("unit", [10.0**i for i in (-15, -11, -9, 9, 12)])
@pytest.mark.parametrize("name", FAIR)
def test_the_unit_of_speed_changes_nothing(name: str, unit: float) -> None:
    """HiGHS leaves out coefficients that are very small, and its tolerances are absolute."""
    rows = np.array([[1, 2], [1, 5], [1, 3]])
    what = Formulation((TotalRate(), FAIR[name]))
    one = hetopt.solve(what, Instance.from_speedups(rows, [1, 1])).certificate
    other = hetopt.solve(what, Instance.from_speedups(rows * unit, [1, 1])).certificate
    assert other.status == "optimal"
    assert other.violation <= FEASIBILITY
    assert other.objective / unit == pytest.approx(one.objective, rel=EQUAL)


@pytest.mark.parametrize("fast", [1e9, 1e11])
def test_a_type_that_one_values_very_much_more(fast: float) -> None:
    """By hand: u1 lets go of type 2 until it is indifferent, 2 + 2 * 1/2 = 2 * 3/2."""
    inst = Instance.from_speedups([[1, 2], [1, fast]], [2, 2])
    for road in ("pyomo", "auto"):
        a = hetopt.solve(oef.cooperative(), inst, road=road)
        assert a.x == pytest.approx(np.array([[2, 0.5], [0, 1.5]]), rel=EQUAL, abs=EQUAL)
        assert a.certificate.objective == pytest.approx(3 + 1.5 * fast, rel=EQUAL)


@pytest.mark.parametrize("name", ["envy_free", "sharing_incentive"])
def test_speeds_or_weights_too_far_apart_for_a_solver_are_refused(name: str) -> None:
    what = Formulation((TotalRate(), FAIR[name]))
    for inst in (
        Instance.from_speedups([[1, 2], [1, 1e13]], [2, 2]),
        Instance.from_speedups([[1, 2], [1, 5]], [1, 1], weights=[1, 1e16]),
    ):
        with pytest.raises(hetopt.InvalidFormulation, match="speeds or weights in the data are too far apart"):
            hetopt.solve(what, inst)


def test_a_speed_on_a_type_without_gpus_does_not_count() -> None:
    """Else u1's rows would be made small by it, and left out."""
    inst = Instance.from_speedups([[1, 2, 1e14], [1, 5, 1]], [1, 1, 0])
    for part in FAIR.values():
        a = hetopt.solve(Formulation((TotalRate(), part)), inst)
        assert a.certificate.violation <= FEASIBILITY
        assert a.x[:, 2] == pytest.approx(np.zeros(2))


def test_violations_of_the_others_count_where_one_can_use_nothing() -> None:
    """u3's types have no GPUs: it neither envies nor misses anything; u2, who gets nothing, does."""
    e = Instance.from_speedups([[1, 0], [1, 0], [0, 1]], [2, 0]).entities()
    share = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert EnvyFree().measure(e, share).violation == pytest.approx(1.0)
    assert SharingIncentive().measure(e, share).violation == pytest.approx(1.0)
    fair = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert EnvyFree().measure(e, fair).violation == SharingIncentive().measure(e, fair).violation == 0
    a = hetopt.solve(Formulation((TotalRate(), EnvyFree(), SharingIncentive())), e.source)
    assert a.x == pytest.approx(fair)


@given(INSTANCES, st.booleans())
def test_rows_say_what_the_measure_says(inst: Instance, whole: bool) -> None:
    """Of every row: its violation is the envy, in parts of the rate on its best type, up to a factor of 1.5."""
    e = inst.entities()
    share = np.zeros(e.shape)
    share[0] = np.where(e.allowed[0], e.capacity / e.demand[0], 0.0) * (1.0 if whole else 0.5)
    rows = EnvyFree(eager_up_to=0).every_row(e)
    found = iter((rows.share @ share.ravel()).tolist())
    excess, top = envy(e, share), e.per_gpu.max(axis=1)
    for one in range(len(e.names)):
        for other in range(len(e.names)):
            if one != other:
                value, exact = next(found), -excess[one, other] / top[one]
                assert 2 / 3 * abs(exact) <= abs(value) <= 3 / 2 * abs(exact)
                assert np.sign(value) == np.sign(exact) or abs(exact) <= EQUAL


def test_rows_carry_the_name_of_their_component() -> None:
    """By all roads, so that the duals of two components can be told apart."""
    e = Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).entities()
    assert list(EnvyFree(eager_up_to=0, name="ef").every_row(e).names) == ["ef.row[u1,u2]", "ef.row[u2,u1]"]
    program = equal_rates_program(e, EqualRates(name="level_all"))
    assert list(program.row_names)[2:] == ["level_all.row[u1]", "level_all.row[u2]"]
    assert list(program.col_names)[-1] == "level_all.level"
    lazy = Formulation((TotalRate(), EnvyFree(eager_up_to=1, name="ef"), EnvyFree(eager_up_to=1, name="again")))
    duals = hetopt.solve(lazy, e.source).certificate.duals
    assert {name.split(".")[0] for name in duals.index} == {"capacity[GPU1]", "capacity[GPU2]", "ef", "again"}
