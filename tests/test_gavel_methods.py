"""Gavel's policies: interior points and the general solve path find the same optima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gavel_oracles import POLICIES, many
from hypothesis import given, settings
from hypothesis import strategies as st

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
from hetopt.tolerances import EQUAL, FEASIBILITY, GAP, PROVEN, scale

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


def hard_jobs(kind: str, n: int, k: int, draw: np.random.Generator) -> hetopt.Instance:
    """Jobs at whose optimum many rows are tied, or whose numbers differ much in size."""
    capacity = (1 + draw.multinomial(n, 0.5 ** np.arange(1, k + 1) * 2**k / (2**k - 1))).tolist()
    demand = draw.choice([1, 3, 5, 7], n)
    if kind == "integers":
        speed = draw.integers(1, 4, (n, k)).astype(float)
    elif kind == "nearly equal":
        speed = 1 + draw.uniform(0, 1e-9, (n, k))
    elif kind == "six orders":
        speed = 10 ** draw.uniform(-3, 3, (n, k))
    else:
        speed = draw.uniform(1, 10, (6, k))[draw.integers(0, 6, n)] * draw.lognormal(0, 1e-3, (n, k))
    if kind == "no place":
        speed[: n // 3, 1:], capacity[0] = 0.0, 0
    demand = np.where(demand <= np.where(speed > 0, capacity, 0).max(axis=1), demand, 1)
    weight = np.where(np.arange(n) == 7, 1e6 if kind == "one huge" else 1.0, 1.0)
    work, arrival = draw.lognormal(8, 1.5, n), draw.uniform(0, 6e4, n)
    return hetopt.Instance.from_jobs(speed, demand, work, capacity, weight=weight, arrival=arrival, time=6e4)


@given(
    st.sampled_from(["integers", "nearly equal", "six orders", "noisy models", "no place", "one huge"]),
    st.sampled_from(sorted(POLICIES)),
    st.integers(100, 160),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_hard_jobs_need_no_general_solver(kind: str, policy: str, n: int, k: int, seed: int) -> None:
    """Ties, tiny and huge numbers, jobs that nothing can run: proven, and the optimum of the general solver."""
    inst = hard_jobs(kind, n, k, np.random.default_rng(seed))
    fast, slow = (hetopt.solve(POLICIES[policy](), inst, method=way) for way in ("auto", "simplex"))
    assert fast.certificate.method in ("interior points", "simplex over classes")
    assert fast.certificate.gap <= GAP
    assert fast.certificate.violation <= FEASIBILITY
    size = EQUAL * scale(fast.certificate.objective, slow.certificate.objective)
    assert fast.certificate.objective >= slow.certificate.objective - 10 * size
    assert fast.certificate.objective <= slow.certificate.bound + 10 * size


@given(st.integers(100, 160), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_hard_tenants_need_no_general_solver(n: int, k: int, seed: int, tied: bool) -> None:
    """One tenant's weight is a million, some types have no GPUs; total throughput has a closed form."""
    draw = np.random.default_rng(seed)
    speedups = draw.integers(1, 4, (n, k)).astype(float) if tied else draw.uniform(1, 10, (n, k))
    capacity = draw.integers(0, 50, k)
    capacity[draw.integers(k)] += 1
    inst = hetopt.Instance.from_speedups(
        speedups / speedups.min(axis=1, keepdims=True),
        capacity.tolist(),
        weights=np.where(np.arange(n) == 3, 1e6, draw.uniform(1, 2, n)),
    )
    for policy, methods in (("max_min", {"interior points", "simplex over classes"}), ("total", {"most profitable"})):
        fast, slow = (hetopt.solve(POLICIES[policy](), inst, method=way) for way in ("auto", "simplex"))
        assert fast.certificate.method in methods
        assert fast.certificate.gap <= PROVEN
        assert fast.certificate.violation <= FEASIBILITY
        assert fast.certificate.objective == pytest.approx(slow.certificate.objective, rel=10 * EQUAL)
