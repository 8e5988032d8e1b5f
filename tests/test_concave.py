"""Concave gains by tangents: any composition, true duality gaps, and derivatives that are derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.errors import InvalidInstance, NotLinear
from hetopt.formulations.formulation import Formulation
from hetopt.models import ceei, gavel
from hetopt.models.concave import AlphaFair, CompletionTime, Concave, LogRate
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.gavel.gavel_components import MaxMinRate, TimeFraction
from hetopt.models.objectives import LinearGain, SwitchingCost
from hetopt.proofs.strategies import job_instances, tenant_instances, with_held
from hetopt.tolerances import EQUAL, FEASIBILITY, GAP, NUDGE, PROVEN, scale

INST = hetopt.Instance.from_speedups([[1, 2, 3], [1, 4, 7], [1, 5, 9]], capacity=[1, 1, 1])


@pytest.mark.parametrize("alpha", [1, 1.5, 2, 3])
@pytest.mark.parametrize("size", [1.0, 2.5])
def test_shapes_are_what_they_say(alpha: float, size: float) -> None:
    """Derivatives against central differences, inverses against the functions, tangents above the curve."""
    shape, y = AlphaFair(alpha, size), np.array([0.1, 0.7, 1.0, 3.0, 40.0])
    step = NUDGE * y
    slope = (shape.value(y + step) - shape.value(y - step)) / (2 * step)
    assert shape.slope(y) == pytest.approx(slope, rel=NUDGE)
    bend = -(shape.slope(y + step) - shape.slope(y - step)) / (2 * step)
    assert shape.curvature(y) == pytest.approx(bend, rel=NUDGE)
    assert shape.inverse(shape.value(y)) == pytest.approx(y, rel=EQUAL)
    assert shape.at_slope(shape.slope(y)) == pytest.approx(y, rel=EQUAL)
    assert shape.value(np.zeros(1)) == -np.inf
    tangent = shape.value(y)[:, None] + shape.slope(y)[:, None] * (y[None, :] - y[:, None])
    assert (tangent >= shape.value(y)[None, :] - EQUAL).all()


@pytest.mark.parametrize(
    ("base", "methods"), [(Concave, ("terms", "printed")), (MaxMinRate, ("base",)), (LinearGain, ("coefficients",))]
)
def test_a_part_that_leaves_out_its_own_method_cannot_be_made(base: type, methods: tuple[str, ...]) -> None:
    """It is refused where it is made, not where it is first solved."""
    own = {method: lambda _, entities: entities for method in methods}
    for method in methods:
        others = {name: function for name, function in own.items() if name != method}
        with pytest.raises(TypeError, match=rf"abstract .*\b{method}\b"):
            type("Unfinished", (base,), {"name": "unfinished", **others})()
    assert type("Finished", (base,), {"name": "finished", **own})().name == "finished"


@pytest.mark.parametrize(("part", "make"), [(LogRate(), tenant_instances), (CompletionTime(), job_instances)])
@settings(max_examples=20)
@given(data=st.data())
def test_the_gap_that_was_asked_for_is_reached_by_tangents(
    part: Concave, make: Callable[..., st.SearchStrategy[hetopt.Instance]], data: st.DataObject
) -> None:
    """The general solve path and interior points find the same value; the claimed bound holds for both."""
    inst = data.draw(make(zeros=True))
    fast = hetopt.solve(ceei.equal_budgets() if part.name == "log_rate" else gavel.mean_completion_time(), inst)
    slow = hetopt.solve(Formulation((part, TimeFraction())), inst, method="simplex")
    assert slow.certificate.measured
    assert slow.certificate.gap <= GAP + EQUAL
    size = scale(fast.certificate.objective, fast.certificate.size)
    assert slow.certificate.objective <= fast.certificate.bound + EQUAL * size
    assert fast.certificate.objective <= slow.certificate.bound + EQUAL * size


@pytest.mark.parametrize("method", ["auto", "simplex"])
def test_gaps_mean_something_where_the_logarithms_sum_to_nothing(method: Literal["auto", "simplex"]) -> None:
    """Rates of 1: an objective of 0, of which every bound is infinitely many times as much."""
    c = hetopt.solve(
        ceei.equal_budgets(), hetopt.Instance.from_speedups([[1, 1], [1, 1]], [1, 1]), method=method
    ).certificate
    assert abs(c.objective) <= EQUAL
    assert c.size == 2
    assert c.gap <= GAP


@pytest.mark.parametrize("gap", [10 * NUDGE, GAP])
def test_a_larger_gap_takes_fewer_passes(gap: float) -> None:
    """The gap of the certificate is the true one: the optimum lies between objective and bound."""
    best = hetopt.solve(ceei.equal_budgets(), INST).certificate.objective
    a = hetopt.solve(ceei.equal_budgets(), INST, method="simplex", gap=gap).certificate
    assert a.gap <= gap
    assert a.objective <= best + EQUAL
    assert a.bound >= best - EQUAL
    exact = hetopt.solve(ceei.equal_budgets(), INST, method="simplex", gap=GAP).certificate
    assert a.passes < exact.passes or gap == GAP


@settings(max_examples=20)
@given(inst=tenant_instances(tenants=(2, 4), types=(2, 3)), price=st.sampled_from([0.01, 0.1, 1.0]), data=st.data())
def test_a_market_with_switching_costs_is_that_of_another_solver(
    inst: hetopt.Instance, price: float, data: st.DataObject
) -> None:
    held = data.draw(with_held(inst))
    n, k = inst.entities().shape
    now = held.entities().held
    a = hetopt.solve(ceei.equal_budgets() + SwitchingCost(price), held)
    speed = np.array([list(t.job_types[0].speedup.values()) for t in inst.tenants])
    x = cp.Variable((n, k), nonneg=True)
    gain = cp.sum(cp.log(cp.sum(cp.multiply(speed, x), axis=1))) - price * cp.sum(cp.pos(x - now))
    problem = cp.Problem(cp.Maximize(gain), [cp.sum(x, axis=0) <= list(inst.cluster.capacity.values())])
    problem.solve(solver="CLARABEL")
    assert a.certificate.measured
    assert a.certificate.objective == pytest.approx(float(problem.value), rel=10 * EQUAL, abs=10 * EQUAL)


def test_a_market_with_envy_freeness_keeps_it() -> None:
    a = hetopt.solve(ceei.equal_budgets() + EnvyFree(), INST)
    assert a.certificate.objective == pytest.approx(
        hetopt.solve(ceei.equal_budgets(), INST).certificate.objective, rel=EQUAL
    )
    assert a.certificate.violation <= FEASIBILITY


@pytest.mark.parametrize("seed", range(12))
def test_bounds_of_tangents_hold_when_work_differs_by_orders(seed: int) -> None:
    """Dual simplex leaves reduced costs of gains that are worth a millionth of others, and these gains are large."""
    draw, n = np.random.default_rng(seed), 12
    speeds = (1 + 10.0 ** -np.linspace(0, 8, n))[:, None] ** np.arange(2)
    demand = draw.integers(1, 41, n)
    work = 10 ** draw.uniform(-3, 7, n) * demand
    inst = hetopt.Instance.from_jobs(speeds * demand[:, None], demand, work, [41, 41], time=60000.0)
    best = hetopt.solve(gavel.mean_completion_time(), inst).certificate
    found = hetopt.solve(gavel.mean_completion_time(), inst, method="simplex").certificate
    assert found.bound >= best.objective - PROVEN * best.size
    assert found.objective <= best.bound + PROVEN * best.size
    assert found.status == ("optimal" if found.gap <= EQUAL else "gap")


def test_tangents_cannot_be_exact() -> None:
    """Rows that come as points violate them, infinitely many: exact mode says so instead of proving a relaxation."""
    with pytest.raises(NotLinear, match="'log_rate' is concave: tangents of it are added as points need them"):
        hetopt.solve(ceei.equal_budgets(), INST, exact=True)


def test_work_needs_an_instance() -> None:
    entities = INST.entities()
    by_hand = hetopt.Entities(
        "jobs",
        entities.names,
        entities.types,
        entities.speed.copy(),
        np.ones(3),
        np.ones(3),
        np.arange(3),
        np.ones(3),
        None,
    )
    with pytest.raises(InvalidInstance, match=r"entities\.instance is None"):
        hetopt.measure(CompletionTime(), by_hand, np.ones((3, 3)))
