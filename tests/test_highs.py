"""HiGHS sessions: warm re-solves, signs of duals, limits of time, and why a program is infeasible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import lp
from scipy import sparse
from scipy.optimize import linprog

import hetopt
from hetopt.errors import InvalidFormulation, InvalidOption, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import EqualRates, SharingIncentive
from hetopt.models.objectives import TotalRate
from hetopt.programs.linear import LinearProgram, Objective
from hetopt.proofs.strategies import linear_programs
from hetopt.solving.conflicts import conflict
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, SMALLEST_COEFFICIENT, scale

INF = np.inf


def same(a: float, b: float) -> bool:
    return abs(a - b) <= EQUAL * scale(a, b)


@pytest.mark.parametrize(
    ("program", "row_dual", "reduced_cost"),
    [
        (lp([3], [(-INF, [2], 4)], [(0, INF)]), [1.5], [0]),  # x = 2; one more on the right gives 3/2 more
        (lp([3], [(-INF, [-2], 4), (-4, [-2], INF)], [(0, INF)]), [0, -1.5], [0]),  # the same row times -1
        (lp([-3], [(2, [1], INF)], [(0, INF)]), [-3], [0]),  # a lower bound that costs
        (lp([5], [(3, [1], 3)], [(0, INF)]), [5], [0]),  # an equation that helps
        (lp([-5], [(3, [1], 3)], [(0, INF)]), [-5], [0]),  # an equation that hurts
        (lp([2], [(1, [1], 6)], [(0, INF)]), [2], [0]),  # a range at its upper side
        (lp([-2], [(1, [1], 6)], [(0, INF)]), [-2], [0]),  # a range at its lower side
        (lp([2, 1], [(-INF, [1, 1], 9)], [(0, 4), (0, INF)]), [1], [1, 0]),  # a column at its upper bound
        (lp([-2, 1], [(-INF, [1, 1], 9)], [(1, 4), (0, INF)]), [1], [-3, 0]),  # a column at its lower bound
    ],
)
@pytest.mark.parametrize("method", ["simplex", "interior-point"])
def test_duals_are_what_the_optimum_gains_per_unit_of_the_bound(
    program: LinearProgram, row_dual: list[float], reduced_cost: list[float], method: Any
) -> None:
    point = Session(program, Options(method=method)).solve()
    size = EQUAL * scale(program.c)
    assert point.row_dual is not None
    assert point.reduced_cost is not None
    assert np.abs(point.row_dual - row_dual).max() <= size
    assert np.abs(point.reduced_cost - reduced_cost).max() <= size


@given(linear_programs())
def test_optima_are_those_of_scipy_and_duals_prove_them(program: LinearProgram) -> None:
    """Scipy gets the rows as two-sided inequalities; the dual bound is computed here from the definition."""
    point = Session(program).solve()
    matrix = program.A.toarray()
    high, low = np.isfinite(program.row_upper), np.isfinite(program.row_lower)
    theirs = linprog(
        -program.c,
        np.vstack([matrix[high], -matrix[low]]),
        np.concatenate([program.row_upper[high], -program.row_lower[low]]),
        bounds=list(zip(program.col_lower, program.col_upper, strict=True)),
        method="highs-ipm",
    )
    assert same(point.objective, program.offset - theirs.fun)
    assert same(point.objective, program.objective(point.x))
    assert point.row_dual is not None
    assert point.reduced_cost is not None
    bound = program.offset
    for price, lower, upper in (
        (point.row_dual, program.row_lower, program.row_upper),
        (point.reduced_cost, program.col_lower, program.col_upper),
    ):
        at = np.where(price > 0, upper, lower)
        bound += sum(p * b for p, b in zip(price, at, strict=True) if p)
    assert same(bound, point.objective)
    np.testing.assert_allclose(
        program.A.T @ point.row_dual + point.reduced_cost, program.c, rtol=0, atol=EQUAL * scale(program.c)
    )


def _rows(draw: Any, program: LinearProgram, count: int) -> tuple[Any, Any, Any]:
    """Rows that hold at the whole point nearest to the middle of the box."""
    n = len(program.c)
    matrix = np.array([[draw(st.integers(-3, 3)) for _ in range(n)] for _ in range(count)], dtype=float)
    point = np.floor((program.col_lower + program.col_upper) / 2)
    return (
        sparse.csr_array(matrix),
        np.full(count, -INF),
        matrix @ point + [draw(st.integers(0, 3)) for _ in range(count)],
    )


def _change(draw: Any, session: Session) -> None:
    """One change of a kind drawn at random."""
    rows, columns = session.program.shape
    kinds = ["objective", "column bounds", "add rows", "add columns"]
    kind = draw(st.sampled_from([*kinds, "row bounds", "coefficient", "delete rows"] if rows else kinds))
    number = st.integers(-3, 3).map(float)
    if kind == "objective":
        session.set_objective(np.array([draw(number) for _ in range(columns)]), draw(number))
    elif kind == "column bounds":
        j, low = draw(st.integers(0, columns - 1)), draw(number)
        session.set_column_bounds([j], low, low + draw(st.integers(0, 3)))
    elif kind == "row bounds":
        i, low = draw(st.integers(0, rows - 1)), draw(number)
        session.set_row_bounds(i, low - 4, draw(st.sampled_from([low + 4, INF])))
    elif kind == "coefficient":
        session.set_coefficient(draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1)), draw(number))
    elif kind == "add rows":
        count = draw(st.integers(1, 2))
        session.add_rows(*_rows(draw, session.program, count), [f"new[{rows + i}]" for i in range(count)])
    elif kind == "delete rows":
        session.delete_rows(sorted(draw(st.sets(st.integers(0, rows - 1), min_size=1))))
    else:
        part = sparse.csc_array(np.array([[draw(number)] for _ in range(rows)]).reshape(rows, 1))
        session.add_columns(np.array([draw(number)]), part, np.zeros(1), np.ones(1), [f"col[{columns}]"])


def _result(solve: Any) -> tuple[str, float]:
    try:
        return "optimal", solve().objective
    except NotSolved as problem:
        return problem.status, 0.0


@given(linear_programs(), st.data())
def test_every_warm_solve_equals_a_fresh_one_of_the_changed_program(program: LinearProgram, data: Any) -> None:
    session = Session(program)
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(1, 3))):  # several changes, and the program is asked for in between
            _change(data.draw, session)
        warm = _result(session.solve)
        fresh = _result(Session(session.program).solve)
        assert warm[0] == fresh[0]
        assert same(warm[1], fresh[1])


def test_rows_removed_in_the_middle_leave_the_right_ones() -> None:
    session = Session(lp([1, 1], [(-INF, [1, 0], 3), (-INF, [0, 1], 4), (-INF, [1, 1], 9)], [(0, 50), (0, 50)]))
    assert session.solve().objective == pytest.approx(7)
    session.delete_rows([1])
    assert list(session.program.row_names) == ["r0", "r2"]
    assert session.solve().objective == pytest.approx(9)
    session.delete_rows([])
    assert session.program.shape == (2, 2)


def _market(n: int, k: int) -> LinearProgram:
    rng = np.random.default_rng(0)
    inst = hetopt.Instance.from_speedups(1 + rng.random((n, k)), rng.integers(2, 9, k).tolist(), any_scale=True)
    return hetopt.from_pyomo(Formulation((TotalRate(), EqualRates())).build(inst))


def test_a_warm_start_takes_fewer_iterations() -> None:
    program = _market(60, 5)
    session = Session(program, Options(method="simplex"))
    cold = session.solve().iterations
    session.set_row_bounds(0, -INF, program.row_upper[0] + 0.25)
    warm = session.solve()
    fresh = Session(session.program, Options(method="simplex")).solve()
    assert same(warm.objective, fresh.objective)
    assert warm.iterations < min(cold, fresh.iterations) / 2
    again = Session(session.program, Options(method="simplex"))
    assert fresh.basis is not None
    again.start_at(fresh.basis)
    assert again.solve().iterations == 0, "at its own optimal basis nothing is left to do"


def test_wrong_shapes_are_refused_before_they_reach_the_solver() -> None:
    session = Session(lp([1, 1], [(-INF, [1, 1], 3)], [(0, 1), (0, 1)]))
    with pytest.raises(InvalidFormulation, match="new rows have shape"):
        session.add_rows(sparse.csr_array((1, 3)), np.zeros(1), np.ones(1), ["r"])
    with pytest.raises(InvalidFormulation, match="new columns have shape"):
        session.add_columns(np.zeros(1), sparse.csc_array((2, 1)), np.zeros(1), np.ones(1), ["c"])
    with pytest.raises(InvalidFormulation, match="HiGHS rejected the entry"):
        session.set_coefficient(5, 0, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.set_objective([1.0]), r"the objective has shape \(1,\); it must be \(2,\)"),
        (lambda s: s.set_objective([1.0, np.nan]), "the objective has nan; all its numbers must be finite"),
        (lambda s: s.set_objective([1.0, INF]), "the objective has inf"),
        (lambda s: s.set_coefficient(0, 0, np.nan), r"the entry \(0, 0\) has nan"),
        (lambda s: s.set_row_bounds([0], [np.nan], [1]), "a bound is NaN"),
        (lambda s: s.set_row_bounds(["r0"], [0], [1]), r"\['r0'\] are not positions"),
        (lambda s: s.add_rows(sparse.csr_array([[np.nan, 1.0]]), [0.0], [1.0], ["new"]), "the new rows has nan"),
    ],
)
def test_changes_that_would_hang_the_solver_are_refused(change: Any, message: str) -> None:
    """And the session goes on as it was."""
    session = Session(lp([3, 1], [(-INF, [2, 1], 4)], [(0, INF), (0, 1)]))
    with pytest.raises(InvalidFormulation, match=message):
        change(session)
    assert same(session.solve().objective, 6)


def test_a_session_is_highs_and_has_one_objective() -> None:
    program = lp([3], [(-INF, [2], 4)], [(0, INF)])
    with pytest.raises(InvalidOption, match="solver is 'gurobi'; a Session supports only HiGHS"):
        Session(program, Options(solver="gurobi"))
    with pytest.raises(InvalidFormulation, match="1 objective before its last"):
        Session(replace(program, earlier=(Objective(np.array([1.0])),)))


def test_highs_says_nothing_even_as_it_is_made() -> None:
    """Since 1.16 it would print its name then, amid what a command prints for other programs."""
    session = Session(_market(2, 2))
    assert session._highs.getOptionValue("output_flag")[1] is False
    made = type(session._highs)()  # before any setting
    assert made.getOptionValue("output_flag")[1] is False


@pytest.mark.parametrize("integer", [False, True])
def test_a_time_limit_holds_for_one_session(integer: bool) -> None:
    """HiGHS counts the seconds of all linear programs of an object, and those of one integer program."""
    program = _market(6, 3)
    program = replace(program, integer=np.full(program.shape[1], integer))
    for limit in (None, 1e6):
        session = Session(program, Options(time_limit=limit))
        for _ in range(2):
            session.solve()
    before = 0.0 if integer else session._highs.getRunTime()
    assert session._highs.getOptionValue("time_limit")[1] <= 1e6 + before
    assert Session(program, Options(time_limit=1e6))._highs.getRunTime() == 0


def test_inner_loops_get_the_same_values() -> None:
    program = _market(6, 3)
    point, (x, dual, objective) = Session(program).solve(), Session(program).values()
    np.testing.assert_array_equal(x, point.x)
    np.testing.assert_array_equal(dual, point.row_dual)
    assert objective == point.objective


def test_an_unbounded_program_says_so() -> None:
    with pytest.raises(NotSolved, match="grow without limit") as problem:
        Session(lp([1, 0], [(-INF, [1, -1], 3)], [(0, INF), (0, INF)])).solve()
    assert problem.value.status == "unbounded"


def _feasible(program: LinearProgram) -> bool:
    """By scipy, from the dense arrays: another way than the one under test."""
    matrix = program.A.toarray()
    high, low = np.isfinite(program.row_upper), np.isfinite(program.row_lower)
    result = linprog(
        np.zeros(len(program.c)),
        np.vstack([matrix[high], -matrix[low]]),
        np.concatenate([program.row_upper[high], -program.row_lower[low]]),
        bounds=list(zip(program.col_lower, program.col_upper, strict=True)),
        method="highs-ds",
    )
    return result.status == 0


@given(linear_programs(rows=(1, 5)), st.data())
def test_a_conflict_is_infeasible_alone_and_irreducible(program: LinearProgram, data: Any) -> None:
    """Rows are pushed out until the program is infeasible; boxes always stay."""
    push = [data.draw(st.integers(0, 3)) * 4.0 for _ in range(program.shape[0])]
    broken = replace(program, row_lower=program.row_lower + push, row_upper=program.row_upper + push)
    if _feasible(broken):
        return
    with pytest.raises(NotSolved, match="cannot hold together") as problem:
        Session(broken).solve()
    assert problem.value.status == "infeasible"
    position = {name: i for i, name in enumerate(broken.row_names)}
    named = [position[name] for name in problem.value.conflict if name in position]
    rest = set(problem.value.conflict) - set(position)
    assert rest <= {f"bound of {name}" for name in broken.col_names}
    assert not _feasible(broken.without_rows([i for i in position.values() if i not in named]))
    for i in named:
        others = [j for j in named if j != i]
        assert _feasible(broken.without_rows([j for j in position.values() if j not in others])), "each one is needed"


def test_bounds_that_matter_are_named_beside_the_rows() -> None:
    program = lp([1, 1], [(4, [1, 1], INF), (-INF, [1, -1], 9)], [(0, 1), (0, 2)])
    assert conflict(program, Session) == ["r0", "bound of x0", "bound of x1"]
    empty = lp([1], [(-INF, [1], 9)], [(2, 1)])
    assert conflict(empty, Session) == ["bound of x0"], "no row has a part in it"


def test_an_infeasible_formulation_names_its_components() -> None:
    """Two tenants cannot have equal rates and each its part where one is much faster than its part allows."""
    inst = hetopt.Instance.from_speedups([[1, 1], [1, 9]], capacity=[1, 1], weights=[4, 1])
    wanted = Formulation((TotalRate(), SharingIncentive(), EqualRates()))
    with pytest.raises(NotSolved) as problem:
        hetopt.solve(wanted, inst, method="simplex")
    parts = {name.split(".")[0].split("[")[0] for name in problem.value.conflict}
    assert parts <= {"capacity", "sharing_incentive", "equal_rates"}
    assert {"capacity", "sharing_incentive"} <= parts or {"equal_rates"} <= parts


class Floor:
    """A user's component in Pyomo: the first tenant has so many GPUs of a type."""

    name = "floor"

    def __init__(self, gpu_type: str, least: float) -> None:
        self.gpu_type, self.least = gpu_type, least

    def add(self, block: Any, model: hetopt.Model) -> Any:
        block.row = pyo.Constraint(expr=model.share["u1", self.gpu_type] >= self.least)
        return 0


@pytest.mark.parametrize("case", [(30, 2, 0.5, 2), (30, 3, 0.5, 2), (30, 3, 1.0, 2), (45, 2, 0.2, 4), (60, 3, 0.5, 2)])
def test_many_tenants_who_contradict_each_other_are_named(case: tuple[int, int, float, int]) -> None:
    """HiGHS 1.16's dual simplex calls these programs unknown, and has no rays of them."""
    tenants, types, least, seed = case
    draw = np.random.default_rng(seed)
    speedups = np.sort(draw.uniform(1, 5, (tenants, types)), axis=1)
    speedups[:, 0] = 1
    inst = hetopt.Instance.from_speedups(speedups, [3] * types)
    wanted = oef.cooperative() + Floor("GPU1", least)
    program = wanted.compile(inst)
    with pytest.raises(NotSolved, match="cannot hold together") as problem:
        hetopt.solve(wanted, inst)
    named = set(problem.value.conflict)
    assert {"floor.row"} < named <= set(program.row_names)
    rest = program.without_rows([i for i, name in enumerate(program.row_names) if name not in named])
    assert not _feasible(rest)
    for i in range(rest.shape[0]):
        assert _feasible(rest.without_rows([i])), "each one is needed"


def test_where_only_whole_values_are_impossible_the_groups_are_named() -> None:
    """2x + 2y = 3 has fractional solutions only; the other group of rows has no part in it."""
    names = ["parity.row[a]", "cover.row[a]", "cover.row[b]"]
    program = lp(
        [1, 1], [(3, [2, 2], 3), (0, [1, 0], INF), (0, [0, 1], INF)], [(0, 5), (0, 5)], whole=True, names=names
    )
    with pytest.raises(NotSolved) as problem:
        Session(program).solve()
    assert problem.value.conflict == ("integrality", "parity (1 row)")


def _knapsacks(equations: bool) -> LinearProgram:
    """Hard for branch and cut: many knapsacks of large weights (market split, where they must be met exactly)."""
    rng = np.random.default_rng(3)
    m, n = (6, 50) if equations else (25, 150)
    weight = rng.integers(10, 100, (m, n)).astype(float)
    half = np.floor(weight.sum(axis=1) / 2)
    rows = [(h if equations else -INF, w.tolist(), h) for w, h in zip(weight, half, strict=True)]
    return lp((weight.sum(axis=0) + rng.integers(0, 20, n)).tolist(), rows, [(0, 1)] * n, whole=True)


def test_a_time_limit_with_a_usable_point_reports_the_gap() -> None:
    point = Session(_knapsacks(equations=False), Options(time_limit=1.0, gap=0.0)).solve()
    assert point.status == "time_limit"
    assert point.program.violation(point.x) <= EQUAL
    assert point.objective < point.bound < INF


def test_a_time_limit_without_a_usable_point_is_an_error() -> None:
    with pytest.raises(NotSolved, match=r"time_limit=0\.2 s; raise the limit") as problem:
        Session(_knapsacks(equations=True), Options(time_limit=0.2)).solve()
    assert problem.value.status == "time_limit"


def test_the_time_limit_holds_for_each_solve_alone() -> None:
    """HiGHS adds up the time of all runs; a session must not run out of it."""
    session = Session(_knapsacks(equations=False), Options(time_limit=0.4, gap=0.0))
    first = session.solve()
    session.set_column_bounds([0], 0, 0)
    second = session.solve()
    assert first.status == second.status == "time_limit"
    assert second.seconds > 0.2


def test_other_threads_than_in_an_earlier_run_of_the_same_process() -> None:
    """HiGHS keeps the number of threads of its first run and refuses other numbers until it is reset."""
    program = lp([3], [(-INF, [2], 4)], [(0, INF)])
    for threads in (2, 1, 100_000):
        assert same(Session(program, Options(threads=threads)).solve().objective, 6)
    foreign = highspy.Highs()
    foreign.setOptionValue("output_flag", False)
    foreign.setOptionValue("threads", 2)
    highspy.Highs.resetGlobalScheduler(True)
    foreign.addVar(0.0, 1.0)
    foreign.run()
    assert same(Session(program).solve().objective, 6)


def test_a_start_is_used_by_an_integer_search() -> None:
    program = _knapsacks(equations=False)
    best = Session(program, Options(time_limit=1.0, gap=0.0)).solve()
    session = Session(program, Options(time_limit=0.1, gap=0.0))
    session.start_from(np.rint(best.x))
    assert session.solve().objective >= best.objective * (1 - EQUAL)


def test_coefficients_that_highs_would_leave_out_are_refused() -> None:
    """It does so with no more than a warning: x + tiny y >= 1 would become x >= 1."""
    tiny = SMALLEST_COEFFICIENT / 2
    left_out = lp([-1, -tiny], [(1, [1, tiny], INF)], [(0, INF), (0, INF)])
    with pytest.raises(InvalidFormulation, match=r"coefficient 5e-13 is not between 1e-12 and 1e\+15 .* too far apart"):
        Session(left_out)
    assert same(Session(left_out, approximate=True).solve().objective, -1)
    for value in (tiny, 1 / tiny**2):
        session = Session(lp([1, 1], [(-INF, [1, 0], 4)], [(0, 3), (0, 3)]))
        with pytest.raises(InvalidFormulation, match="the new rows: the coefficient"):
            session.add_rows(sparse.csr_array([[1.0, value]]), np.array([0.0]), np.array([1.0]), ["r"])
        with pytest.raises(InvalidFormulation, match="the new columns: the coefficient"):
            session.add_columns(np.ones(1), sparse.csc_array([[value]]), np.zeros(1), np.ones(1), ["c"])
        with pytest.raises(InvalidFormulation, match=r"the entry \(0, 1\): the coefficient"):
            session.set_coefficient(0, 1, value)
        assert same(session.solve().objective, 6), "the session goes on as it was"


def test_coefficients_that_highs_drops_by_default_are_kept() -> None:
    """Of x + y / 10**10 >= 1 at costs 1 and 10**-11: by hand y = 10**10 costs 0.1."""
    program = lp([-1, -(10.0**-11)], [(1, [1, 10.0**-10], INF)], [(0, INF), (0, INF)])
    assert same(Session(program).solve().objective, -0.1)
