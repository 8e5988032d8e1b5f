"""Gavel's policies: interior points and the general solve path find the same optima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gavel_oracles import POLICIES, many

import hetopt
from hetopt.data.array_types import Floats
from hetopt.formulations.formulation import Formulation
from hetopt.models import ceei, interior_point
from hetopt.models.concave import CompletionTime, LogRate
from hetopt.models.gavel.gavel_components import LeastRatio, TimeFraction
from hetopt.models.objectives import SwitchingCost, WeightedRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.model import Component
from hetopt.solving.optimising import method_for
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

BY_HAND = [
    (POLICIES["max_min"], [TimeFraction(), LeastRatio()]),
    (POLICIES["total"], [TimeFraction(), WeightedRate()]),
    (POLICIES["completion"], [TimeFraction(), CompletionTime()]),
    (ceei.equal_budgets, [TimeFraction(), LogRate()]),
]


@pytest.mark.parametrize(("policy", "parts"), BY_HAND)
def test_the_method_is_found_by_the_parts(policy: Callable[[], Formulation], parts: list[Component]) -> None:
    """In any order, however they were combined; not with a further part, and again once that is removed."""
    inst = many(1)
    made, by_hand = policy(), Formulation(parts)  # type: ignore[arg-type]
    more = made + SwitchingCost(0.0)
    ways = [made, by_hand, more, more.without("switching_cost")]
    assert [_method(way, inst) for way in ways] == ["gavel", "gavel", None, "gavel"]
    assert hetopt.solve(by_hand, inst).certificate.method == "interior points"


def _method(formulation: Formulation, inst: hetopt.Instance) -> str | None:
    found = method_for(Compiled(formulation, formulation.entities(inst)), hetopt.Options())
    return None if found is None else found.name


@pytest.mark.parametrize("policy", POLICIES)
def test_interior_points_prove_their_result_however_a_machine_rounds(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor sums the matrix of a step in another order: its last digits are arbitrary."""
    draw, matrix, spacing = np.random.default_rng(1), interior_point._Newton.matrix, np.finfo(float).eps

    def rounded(self: interior_point._Newton) -> Floats:
        exact = matrix(self)
        return np.asarray(exact * (1 + draw.uniform(-spacing, spacing, exact.shape)))

    monkeypatch.setattr(interior_point._Newton, "matrix", rounded)
    for seed in range(1, 9):
        for _ in range(2):
            assert hetopt.solve(POLICIES[policy](), many(seed)).certificate.method == "interior points"


@pytest.mark.parametrize("policy", POLICIES)
def test_interior_points_and_the_general_solve_path_agree_on_many_jobs(policy: str) -> None:
    inst = many(1)
    fast, slow = hetopt.solve(POLICIES[policy](), inst), hetopt.solve(POLICIES[policy](), inst, method="simplex")
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
    program = POLICIES[policy]().compile(inst)
    dual = a.certificate.duals.to_numpy()
    bounds = np.where(np.isfinite(program.row_upper), program.row_upper, program.row_lower)
    assert dual @ bounds == pytest.approx(a.certificate.objective, rel=EQUAL)
    reduced = program.c - program.A.T @ dual
    assert reduced[program.col_upper > 0].max() <= EQUAL * np.abs(program.c).max()
    assert (a.certificate.prices >= 0).all()
