"""Other solvers: the same optima, the same signs, and clear words where one cannot be used."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from programs import lp

import hetopt
from hetopt.errors import NotSolved, SolverUnavailable
from hetopt.models import gavel, oef
from hetopt.programs.linear import LinearProgram
from hetopt.proofs.strategies import linear_programs
from hetopt.solving import pyomo_solvers
from hetopt.solving.highs import Session
from hetopt.solving.optimising import run
from hetopt.solving.options import Options
from hetopt.solving.pyomo_solvers import usable_names
from hetopt.tolerances import EQUAL, INTEGRAL, scale

INF = np.inf
INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])


def _reason(name: str, program: LinearProgram | None = None) -> str | None:
    """Why a solver cannot run (this program) here, or None."""
    try:
        run(program or lp([1], [], [(0, 1)]), Options(solver=name))
    except SolverUnavailable as problem:
        return str(problem)
    return None


OTHERS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(why := _reason(name)), reason=str(why)))
    for name in ("gurobi", "appsi_highs", "gurobi_direct", "glpk")
]


@pytest.mark.parametrize("name", OTHERS)
def test_every_solver_finds_the_same_optimum(name: str) -> None:
    @settings(max_examples=15)
    @given(linear_programs(integer=True))
    def check(program: LinearProgram) -> None:
        best, found = Session(program, Options(gap=0.0)).solve(), run(program, Options(solver=name, gap=0.0))
        assert found.solver == name
        assert found.status == "optimal"
        assert abs(found.objective - best.objective) <= EQUAL * scale(best.objective)
        assert found.objective <= found.bound + EQUAL * scale(best.objective)
        assert program.violation(found.x) <= EQUAL
        whole = found.x[program.integer]
        assert np.abs(whole - np.rint(whole)).max(initial=0.0) <= INTEGRAL
        if not program.integer.any() and found.row_dual is not None:
            assert abs(program.dual_bound(found.row_dual) - best.objective) <= EQUAL * scale(best.objective)

    check()


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(
    ("program", "row_dual", "reduced_cost"),
    [
        (lp([3], [(-INF, [2], 4)], [(0, INF)]), [1.5], [0]),
        (lp([-3], [(2, [1], INF)], [(0, INF)]), [-3], [0]),
        (lp([-5], [(3, [1], 3)], [(0, INF)]), [-5], [0]),
        (lp([-2], [(1, [1], 6)], [(0, INF)]), [-2], [0]),
        (lp([2, 1], [(-INF, [1, 1], 9)], [(0, 4), (0, INF)]), [1], [1, 0]),
    ],
)
def test_duals_have_the_same_sign_from_every_solver(
    name: str, program: LinearProgram, row_dual: list[float], reduced_cost: list[float]
) -> None:
    """The increase of the optimum per unit of the bound, whatever the solver's own convention."""
    point = run(program, Options(solver=name))
    assert point.row_dual == pytest.approx(row_dual)
    assert point.reduced_cost == pytest.approx(reduced_cost)


@pytest.mark.parametrize("name", OTHERS)
def test_formulations_are_solved_with_every_solver(name: str) -> None:
    certificate = hetopt.solve(oef.cooperative(), INST, solver=name).certificate
    assert certificate.objective == pytest.approx(5.25)
    assert certificate.solver == name
    assert certificate.prices.tolist() == pytest.approx([1.75, 3.5])


@pytest.mark.parametrize("name", OTHERS)
def test_every_solver_distinguishes_infeasible_and_unbounded(name: str) -> None:
    with pytest.raises(NotSolved) as problem:
        run(lp([1], [(3, [1], INF)], [(0, 2)]), Options(solver=name))
    assert problem.value.status == "infeasible"
    assert problem.value.conflict == ("r0", "bound of x0")
    with pytest.raises(NotSolved, match="grow without limit") as problem:
        run(lp([1, 0], [(-INF, [1, -1], 3)], [(0, INF), (0, INF)]), Options(solver=name))
    assert problem.value.status == "unbounded"


@pytest.mark.skipif(bool(_reason("gurobi")), reason=str(_reason("gurobi")))
def test_gurobi_gives_a_basis_takes_a_start_and_an_interior_point() -> None:
    program = lp([2, 1, 1], [(-INF, [1, 1, 0], 9), (1, [0, 1, 1], 4)], [(0, 4), (0, INF), (-INF, 3)])
    point = run(program, Options(solver="gurobi"))
    assert point.basis is not None
    again = Session(program, Options(method="simplex"))
    again.start_at(point.basis)
    assert again.solve().iterations == 0, "Gurobi's basis is optimal for HiGHS as it is"
    inner = run(program, Options(solver="gurobi", method="interior-point"))
    assert (inner.basis, inner.method) == (None, "interior-point")
    assert inner.objective == pytest.approx(point.objective)
    whole = lp([5, 4, 3], [(-INF, [2, 3, 1], 5), (-INF, [4, 1, 2], 11)], [(0, 3)] * 3, whole=True)
    best = Session(whole, Options(gap=0.0)).solve()
    started = run(whole, Options(solver="gurobi", gap=0.0), start=best.x)
    assert started.objective == pytest.approx(best.objective)
    assert started.method == "branch-and-cut"


@pytest.mark.skipif(bool(_reason("gurobi")), reason=str(_reason("gurobi")))
def test_a_program_too_large_for_the_licence_says_so() -> None:
    """The licence that comes with gurobipy takes 2,000 columns; a full licence solves it."""
    n = 2500
    reason = _reason("gurobi", lp([1.0] * n, [], [(0, 1)] * n))
    assert reason is None or "too large for the licence" in reason
    assert reason is None or "solver='highs' needs none" in reason


def test_gurobi_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    with pytest.raises(SolverUnavailable, match=r"pip install 'hetopt\[gurobi\]'"):
        run(lp([1], [], [(0, 1)]), Options(solver="gurobi"))


def test_an_unknown_solver_is_named_with_those_that_run_here() -> None:
    with pytest.raises(SolverUnavailable, match="'simplexo' is not known to Pyomo; these can run here: highs, ") as one:
        hetopt.solve(oef.cooperative(), INST, solver="simplexo")
    assert "appsi_highs" in str(one.value)
    assert "appsi_highs" in usable_names()
    missing = next(name for name in ("baron", "xpress_direct", "mosek_direct", "glpk") if name not in usable_names())
    with pytest.raises(SolverUnavailable, match=f"'{missing}' cannot run here"):
        run(lp([1], [], [(0, 1)]), Options(solver=missing))


def test_settings_reach_pyomos_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read back from the solver itself after the run."""
    seen: list[Any] = []
    original = pyomo_solvers._solver
    monkeypatch.setattr(pyomo_solvers, "_solver", lambda options: seen.append(original(options)) or seen[0])
    run(lp([1], [], [(0, 1)]), Options(solver="appsi_highs", gap=0.25, seed=7, threads=1, time_limit=9.0))
    assert dict(seen[0].options) == {"mip_rel_gap": 0.25, "threads": 1, "random_seed": 7}
    inner = seen[0]._solver_model
    assert inner.getOptionValue("mip_rel_gap")[1] == 0.25
    assert inner.getOptionValue("random_seed")[1] == 7
    assert inner.getOptionValue("time_limit")[1] == 9.0


def test_wrong_duals_of_a_solver_are_not_believed() -> None:
    program = lp([3], [(-INF, [2], 4)], [(0, INF)])
    model = SimpleNamespace(row={0: "the only row"}, dual={"the only row": 0.3}, component=lambda _: True)
    assert pyomo_solvers._row_dual(program, model, np.array([2.0])) is None
    model.dual = {"the only row": -1.5}  # the other sign, which proves the optimum
    assert pyomo_solvers._row_dual(program, model, np.array([2.0])).tolist() == [1.5]


def test_a_time_limit_reaches_pyomos_solver() -> None:
    rng = np.random.default_rng(3)
    weight = rng.integers(10, 100, (25, 150)).astype(float)
    rows = [(-INF, w.tolist(), float(w.sum() // 2)) for w in weight]
    program = lp(weight.sum(axis=0).tolist(), rows, [(0, 1)] * 150, whole=True)
    point = run(program, Options(solver="appsi_highs", time_limit=0.7, gap=0.0))
    assert point.status == "time_limit"
    assert point.objective < point.bound < INF
    assert program.violation(point.x) <= EQUAL


def test_a_time_limit_of_the_solver_itself_is_named() -> None:
    program = lp([1], [], [(0, 1)])
    with pytest.raises(NotSolved, match="within its own time limit") as problem:
        pyomo_solvers._status(program, Options(), pyo.TerminationCondition.maxTimeLimit, np.array([np.nan]))
    assert problem.value.status == "time_limit"


class AtLeast:
    """A user's row in Pyomo whose numbers are far below what solvers call zero."""

    name = "at_least"

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def add(self, block: Any, model: Any) -> Any:
        block.row = pyo.Constraint(expr=model.rate["j1"] >= self.rate)
        return 0


@pytest.mark.parametrize("size", [0.01, 0.01**2, 0.01**3])
@pytest.mark.parametrize("name", ["highs", *OTHERS])
def test_rows_of_small_numbers_are_kept_and_their_conflict_is_named(name: str, size: float) -> None:
    """The first job does ``size`` work per second at most; half of that can be had, and not three times as much."""
    inst = hetopt.Instance.from_jobs([[size, 3 * size], [size, 1.5 * size]], 1, 1, [1, 1], round_seconds=3.0)
    wanted = gavel.max_min_fairness()
    assert hetopt.solve(wanted + AtLeast(size / 2), inst, solver=name).rate["j1"] >= size / 2 * (1 - EQUAL)
    with pytest.raises(NotSolved) as problem:
        hetopt.solve(wanted + AtLeast(3 * size), inst, solver=name)
    assert problem.value.status == "infeasible"
    assert set(problem.value.conflict) == {"at_least.row", "time_fraction.row[j1]"}
