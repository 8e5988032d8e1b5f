"""Gavel's policies: the array road, interior points and the general road give the same."""

from __future__ import annotations

import numpy as np
import pytest
from gavel_oracles import POLICIES, many
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.data.entities import Floats
from hetopt.models import interior
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

HOT = ("max_min", "max_min_of_time", "total", "makespan", "fifo", "shortest")


@pytest.mark.parametrize("policy", HOT)
@settings(max_examples=15)
@given(inst=st.one_of(job_instances(zeros=True, arrivals=True), tenant_instances(zeros=True, weighted=True)))
def test_the_array_road_is_the_pyomo_road(policy: str, inst: hetopt.Instance) -> None:
    """Names, bounds, objective and matrix are the same."""
    assume(not inst.tenants or policy in ("max_min", "max_min_of_time", "total"))
    formulation = POLICIES[policy]()
    arrays = hetopt.compile_program(formulation, inst, hetopt.Options(road="arrays"))
    pyomo = hetopt.compile_program(formulation, inst, hetopt.Options(road="pyomo"))
    assert list(arrays.row_names) == list(pyomo.row_names)
    assert list(arrays.col_names) == list(pyomo.col_names)
    for key in ("c", "row_lower", "row_upper", "col_lower", "col_upper"):
        assert getattr(arrays, key) == pytest.approx(getattr(pyomo, key), rel=PROVEN), key
    assert arrays.A.toarray() == pytest.approx(pyomo.A.toarray(), rel=PROVEN)


@pytest.mark.parametrize("policy", POLICIES)
def test_interior_points_prove_their_result_however_a_machine_rounds(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor sums the matrix of a step in another order: its last digits are anybody's."""
    draw, matrix, spacing = np.random.default_rng(1), interior._Newton.matrix, np.finfo(float).eps

    def rounded(self: interior._Newton) -> Floats:
        exact = matrix(self)
        return np.asarray(exact * (1 + draw.uniform(-spacing, spacing, exact.shape)))

    monkeypatch.setattr(interior._Newton, "matrix", rounded)
    for seed in range(1, 9):
        for _ in range(2):
            assert hetopt.solve(POLICIES[policy](), many(seed)).certificate.method == "interior points"


@pytest.mark.parametrize("policy", POLICIES)
def test_interior_points_and_the_general_road_agree_on_many_jobs(policy: str) -> None:
    inst = many(1)
    fast, slow = hetopt.solve(POLICIES[policy](), inst), hetopt.solve(POLICIES[policy](), inst, road="pyomo")
    assert fast.certificate.method == "interior points"
    assert slow.certificate.method == "simplex"
    assert fast.certificate.gap <= PROVEN
    assert fast.certificate.violation <= FEASIBILITY
    assert fast.certificate.objective == pytest.approx(slow.certificate.objective, rel=10 * EQUAL)
    assert fast.certificate.bound >= slow.certificate.objective * (1 - EQUAL) - EQUAL * abs(slow.certificate.bound)


@pytest.mark.parametrize("policy", ["max_min", "total", "makespan"])
def test_prices_of_interior_points_are_duals(policy: str) -> None:
    """Strong duality: prices of all rows times their bounds give the optimum; no column earns beyond its price."""
    inst = many(2)
    a = hetopt.solve(POLICIES[policy](), inst)
    program = hetopt.compile_program(POLICIES[policy](), inst)
    dual = a.certificate.duals.to_numpy()
    bounds = np.where(np.isfinite(program.row_upper), program.row_upper, program.row_lower)
    assert dual @ bounds == pytest.approx(a.certificate.objective, rel=EQUAL)
    reduced = program.c - program.A.T @ dual
    assert reduced[program.col_upper > 0].max() <= EQUAL * np.abs(program.c).max()
    assert (a.certificate.prices >= 0).all()
