"""Fairness components: rows, lazy rows and measures, against loops; weights, gangs, and failures that differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Entities, Instance
from hetopt.data.rates import equal_share_rate, most_at_once, rate_with
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import (
    EnvyFree,
    EqualRates,
    SharingIncentive,
    pair_of_row,
    row_excess,
    row_of_pair,
)
from hetopt.models.objectives import TotalRate
from hetopt.programs.arrays import RowFamily
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Cuts, Point
from hetopt.programs.model import Component
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY, VIOLATED

INSTANCES = st.one_of(tenant_instances(weighted=True, zeros=True), job_instances(zeros=True))


def drawn_share(data: st.DataObject, entities: Entities) -> np.ndarray:
    n, k = entities.shape
    cells = data.draw(st.lists(st.integers(0, 4), min_size=n * k, max_size=n * k))
    return np.where(entities.allowed, np.array(cells, dtype=float).reshape(n, k) / 4, 0.0)


def family_of(part: EnvyFree, entities: Entities) -> RowFamily:
    (family,) = part.rows(entities).rows
    assert isinstance(family, RowFamily)
    return family


def cuts_at(part: EnvyFree, inst: Instance, share: np.ndarray) -> list[Cuts]:
    """Rows that join the program at a point of it."""
    compiled = Compiled(Formulation((TotalRate(), part)), inst.entities())
    separation = compiled.separation()
    return [] if separation is None else separation(Point(compiled.program, share.ravel(), 0.0, 0.0, "optimal"))


def violation(part: Component, entities: Entities, share: np.ndarray) -> float:
    """Of the rows of ``part``, as certificates measure it."""
    measure = hetopt.measure(part, entities, share)
    assert measure is not None
    return measure.violation


@given(INSTANCES, st.data())
def test_envy_is_what_one_would_gain_with_the_other_ones_gpus(inst: Instance, data: st.DataObject) -> None:
    """By loops: GPUs of the other, scaled to one's own weight, at one's own speed; a gang uses no more of them."""
    e = inst.entities()
    share = drawn_share(data, e)
    table = row_excess(e, share)
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
    cuts = cuts_at(EnvyFree(eager_up_to=0), inst, share)
    envious = (row_excess(e, share).max(axis=1) > VIOLATED * rate_with(e.per_gpu, e.capacity, most_at_once(e))).sum()
    assert sum(map(len, cuts)) == envious, "one row for each who envies"
    program = hetopt.from_pyomo(Formulation((TotalRate(), EnvyFree())).build(inst))
    eager = dict(zip(program.row_names, program.A.toarray(), strict=True))
    for part in cuts:
        assert (part.matrix @ share.ravel() < part.lower).all(), "each row that is offered is violated"
        for name, row in zip(part.names, part.matrix.toarray(), strict=True):
            assert row == pytest.approx(eager[name], rel=EQUAL), name


def test_no_lazy_rows_where_all_stand_in_the_model() -> None:
    inst = Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    share = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert cuts_at(EnvyFree(), inst, share) == []
    (cuts,) = cuts_at(EnvyFree(eager_up_to=1), inst, share)
    assert list(cuts.names) == ["envy_free.row[u1,u2]"]


@given(st.integers(1, 9))
def test_positions_of_rows_are_those_of_the_ordered_pairs(n: int) -> None:
    pairs = [(e, o) for e in range(n) for o in range(n) if e != o]
    first, second = pair_of_row(np.arange(len(pairs)), n)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == pairs
    assert row_of_pair(first, second, n).tolist() == list(range(len(pairs)))


@given(INSTANCES)
def test_equal_parts_are_fair_in_every_sense(inst: Instance) -> None:
    """Parts of every type in proportion to weight: no envy, the sharing incentive met with equality."""
    e = inst.entities()
    gpus = e.weight[:, None] / e.weight.sum() * e.capacity
    share = gpus / e.demand[:, None]
    assert violation(EnvyFree(), e, share) <= FEASIBILITY
    assert violation(SharingIncentive(), e, share) <= FEASIBILITY
    assert e.rate(share) == pytest.approx(equal_share_rate(e), rel=EQUAL)


def test_measures_by_hand() -> None:
    """All to u2: u1 envies all that there is, misses its whole fair rate, and rates are as unequal as can be."""
    e = Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).entities()
    share = np.array([[0.0, 0.0], [1.0, 1.0]])
    for part in (EnvyFree(), SharingIncentive(), EqualRates()):
        assert violation(part, e, share) == pytest.approx(1.0)
    assert violation(EqualRates(), e, np.zeros((2, 2))) == 0


def test_weights_are_what_the_other_is_worth() -> None:
    """With weight 2 one may have twice as much before the other envies."""
    e = Instance.from_speedups([[1], [1]], [3], weights=[1, 2]).entities()
    assert violation(EnvyFree(), e, np.array([[1.0], [2.0]])) <= FEASIBILITY
    assert violation(EnvyFree(), e, np.array([[0.5], [2.5]])) == pytest.approx((2.5 / 2 - 0.5) / 3)
    assert violation(EqualRates(), e, np.array([[1.0], [2.0]])) <= FEASIBILITY


def test_fairness_on_gangs_counts_gpus() -> None:
    """A gang of two that runs half the time holds as many GPUs as one that runs all the time alone."""
    inst = Instance.from_jobs([[2], [1]], demand=[2, 1], work=[1, 1], capacity=[2])
    e = inst.entities()
    assert violation(EnvyFree(), e, np.array([[0.5], [1.0]])) <= FEASIBILITY
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
    other = hetopt.solve(what, Instance.from_speedups(rows * unit, [1, 1], any_scale=True)).certificate
    assert other.status == "optimal"
    assert other.violation <= FEASIBILITY
    assert other.objective / unit == pytest.approx(one.objective, rel=EQUAL)


@pytest.mark.parametrize("fast", [1e9, 1e11])
def test_a_type_that_one_values_very_much_more(fast: float) -> None:
    """By hand: u1 lets go of type 2 until it is indifferent, 2 + 2 * 1/2 = 2 * 3/2."""
    inst = Instance.from_speedups([[1, 2], [1, fast]], [2, 2])
    allocation = hetopt.solve(oef.cooperative(), inst)
    built = hetopt.optimise(hetopt.from_pyomo(oef.cooperative().build(inst)))
    for share, objective in (
        (allocation.x, allocation.certificate.objective),
        (built.share, built.objective),
    ):
        assert share == pytest.approx(np.array([[2, 0.5], [0, 1.5]]), rel=EQUAL, abs=EQUAL)
        assert objective == pytest.approx(3 + 1.5 * fast, rel=EQUAL)


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
    assert violation(EnvyFree(), e, share) == pytest.approx(1.0)
    assert violation(SharingIncentive(), e, share) == pytest.approx(1.0)
    fair = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert violation(EnvyFree(), e, fair) == violation(SharingIncentive(), e, fair) == 0
    a = hetopt.solve(Formulation((TotalRate(), EnvyFree(), SharingIncentive())), e.source)
    assert a.x == pytest.approx(fair)


@given(INSTANCES, st.booleans())
def test_rows_say_what_the_measure_says(inst: Instance, whole: bool) -> None:
    """By loops: each row is the envy times the other one's weight, as printed; its unit only makes it about 1."""
    e = inst.entities()
    share = np.zeros(e.shape)
    share[0] = np.where(e.allowed[0], e.capacity / e.demand[0], 0.0) * (1.0 if whole else 0.5)
    compiled = Compiled(Formulation((TotalRate(), EnvyFree(eager_up_to=0))), e)
    rows = compiled.cuts([("envy_free", family_of(EnvyFree(), e).every())])
    found = iter((rows.matrix @ share.ravel()).tolist())
    excess, top = row_excess(e, share), e.per_gpu.max(axis=1)
    unit = iter((np.ones(len(rows)) if rows.unit is None else rows.unit).tolist())
    for one in range(len(e.names)):
        for other in range(len(e.names)):
            if one != other:
                printed = -excess[one, other] * e.weight[other]
                assert next(found) == pytest.approx(printed, rel=EQUAL, abs=EQUAL)
                divisor = next(unit)
                assert np.log2(divisor) % 1 == 0, "dividing by it rounds nothing"
                assert 2 / 3 <= divisor / (e.weight[other] * top[one]) <= 3 / 2


def test_rows_carry_the_name_of_their_component() -> None:
    """By all ways to a program, so that the duals of two components can be distinguished."""
    inst = Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    lazy = Formulation((TotalRate(), EnvyFree(eager_up_to=1, name="ef"), EnvyFree(eager_up_to=1, name="again")))
    rows = [f"{part.name}.row[{both}]" for part in lazy.components[1:] for both in ("u1,u2", "u2,u1")]
    names = ["capacity[GPU1]", "capacity[GPU2]", *rows]
    assert list(lazy.compile(inst).row_names) == list(hetopt.from_pyomo(lazy.build(inst)).row_names) == names
    assert list(Compiled(lazy, lazy.entities(inst)).program.row_names) == names[:2]
    program = Formulation((TotalRate(), EqualRates(name="level_all"))).compile(inst)
    assert list(program.row_names)[2:] == ["level_all.row[u1]", "level_all.row[u2]"]
    assert list(program.col_names)[-1] == "level_all.level"
    duals = hetopt.solve(lazy, inst).certificate.duals
    assert {name.split(".")[0] for name in duals.index} == {"capacity[GPU1]", "capacity[GPU2]", "ef", "again"}


def test_the_certificate_measures_the_envy_of_jobs_as_the_audit_does() -> None:
    """On four GPUs a job of one GPU never has more than the rate of one: its envy is 1, not 1/4."""
    jobs = [hetopt.Job(name, {"A": 2.0}, work=1) for name in ("a", "b")]
    instance = Instance(hetopt.Cluster.of({"A": 4}), jobs=jobs)
    share = np.array([[0.0], [1.0]])
    (family,) = EnvyFree().rows(instance.entities()).rows
    assert isinstance(family, RowFamily)
    assert family.violation(share) == 1.0 == -hetopt.auditing.envy_free(instance, share).slack
