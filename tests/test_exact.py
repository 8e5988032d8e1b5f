"""Exact optima: proven in rationals, whatever floats say."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F  # noqa: N817 - it stands in tables
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import hetopt
import hetopt.instances
from hetopt.data.rationals import rational
from hetopt.errors import NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import AT_LOWER, AT_UPPER, BASIC, Cuts, LinearProgram, Objective
from hetopt.proofs.strategies import linear_programs, tenant_instances
from hetopt.solving.exact import ExactOptimum, exact_optimum, exact_optimum_of
from hetopt.solving.options import Options
from hetopt.solving.rational.kernel import Kernel, SingularError
from hetopt.solving.rational.program import RationalProgram, fraction
from hetopt.solving.rational.refinement import refined
from hetopt.solving.rational.simplex import InfeasibleError, LimitError, UnboundedError, Vertex, maximise
from hetopt.tolerances import EQUAL, NUDGE, scale

COOPERATIVE = Formulation((TotalRate(), EnvyFree()))
LAZY = Formulation((TotalRate(), EnvyFree(eager_up_to=0)))
NONCOOPERATIVE = Formulation((TotalRate(), EqualRates()))


def fractions(values: np.ndarray) -> list[F]:
    return [rational(float(v)) for v in np.ravel(values)]


def check(exact: ExactOptimum) -> None:
    """All that is claimed, by plain Fractions: feasible, signs of the duals, equal objectives."""
    program = exact.program
    dense = [fractions(row) for row in program.A.toarray()]
    cost, offset = fractions(program.c), F(program.offset)
    activity = [sum((a * x for a, x in zip(row, exact.x, strict=True)), F(0)) for row in dense]
    bound = offset
    for value, price, low, high in (
        (activity, exact.row_dual, program.row_lower, program.row_upper),
        (exact.x, exact.reduced_cost, program.col_lower, program.col_upper),
    ):
        for v, p, lo, hi in zip(value, price, low, high, strict=True):
            assert not np.isfinite(lo) or v >= fractions(lo)[0]
            assert not np.isfinite(hi) or v <= fractions(hi)[0]
            assert p <= 0 or v == fractions(hi)[0], "what is worth more stands at its upper bound"
            assert p >= 0 or v == fractions(lo)[0], "what costs stands at its lower bound"
            bound += p * v
    for j, c in enumerate(cost):
        assert c == exact.reduced_cost[j] + sum(dense[i][j] * y for i, y in enumerate(exact.row_dual))
    assert exact.objective == offset + sum(c * x for c, x in zip(cost, exact.x, strict=True)) == bound


@pytest.mark.parametrize(
    ("formulation", "speedups", "weights", "objective", "share", "unique"),
    [
        (COOPERATIVE, [[1, 2], [1, 5]], None, F(21, 4), [[1, F(1, 4)], [0, F(3, 4)]], True),  # issue, example
        (NONCOOPERATIVE, [[1, 2], [1, 5]], None, F(30, 7), [[1, F(4, 7)], [0, F(3, 7)]], True),  # THEOREMS, 15/7 each
        (  # THEOREMS, Lemma 3.1 under the elementwise order: the slowest row does not fill left to right
            NONCOOPERATIVE,
            [[1, 2, 4], [1, 4, 5]],
            None,
            F(82, 9),
            [[1, 0, F(8, 9)], [0, 1, F(1, 9)]],
            True,
        ),
        (  # THEOREMS, Theorem 5.3: utilities (2, 9/2, 23/4)
            COOPERATIVE,
            [[1, 2, 3], [1, 4, 7], [1, 5, 9]],
            None,
            F(49, 4),
            [[1, F(1, 2), 0], [0, F(1, 4), F(1, 2)], [0, F(1, 4), F(1, 2)]],
            None,
        ),
        (NONCOOPERATIVE, [[1, 1], [1, 1]], [1, 2], F(2), None, False),  # types are alike, so who gets which is open
    ],
)
def test_printed_optima_come_out_as_fractions(
    formulation: Formulation, speedups: Any, weights: Any, objective: F, share: Any, unique: bool | None
) -> None:
    inst = hetopt.Instance.from_speedups(speedups, capacity=[1] * len(speedups[0]), weights=weights)
    allocation = hetopt.solve(formulation, inst, exact=True)
    exact = allocation.certificate.exact
    assert exact is not None
    check(exact)
    assert exact.objective == objective
    if unique is not None:
        assert exact.unique is unique
    if share is not None:
        rates = [sum(F(w) * x for w, x in zip(row, own, strict=True)) for row, own in zip(speedups, share, strict=True)]
        found = [
            sum(F(w) * x for w, x in zip(row, own, strict=True)) for row, own in zip(speedups, exact.share, strict=True)
        ]
        assert found == rates
    if unique:
        assert allocation.exact.to_numpy().tolist() == share
    assert allocation.certificate.status == "optimal"
    assert allocation.certificate.as_dict()["exact_objective"] == str(objective)
    np.testing.assert_array_equal(allocation.x, exact.share.astype(float))


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("oef/job-types", [[1, F(4, 37)], [0, F(15, 37)], [0, F(18, 37)]]),  # [OEF, section 4.2.4]
        ("oef/weighted", [[1, F(1, 3)], [0, F(2, 3)]]),  # [OEF, section 4.2.3]
    ],
)
def test_job_types_and_weights_of_the_paper(name: str, share: list[list[F]]) -> None:
    exact = hetopt.solve(NONCOOPERATIVE, hetopt.instances.load(name), exact=True).certificate.exact
    assert exact is not None
    check(exact)
    assert exact.share.tolist() == share
    assert exact.unique


@given(linear_programs())
def test_any_small_program_is_solved_and_proven(program: LinearProgram) -> None:
    point = hetopt.optimise(program)
    exact = exact_optimum(point)
    check(exact)
    assert abs(float(exact.objective) - point.objective) <= EQUAL * scale(point.objective)


@given(linear_programs(), st.randoms(use_true_random=False))
def test_a_wrong_basis_is_repaired(program: LinearProgram, random: Any) -> None:
    """From the basis of rows, and after random exchanges, refined or not, exact steps reach the optimum."""
    best = exact_optimum(hetopt.optimise(program)).objective - F(program.offset)
    rational_program = RationalProgram.of(program)
    start = Vertex.of_rows(rational_program)
    m, n = program.shape
    for _ in range(random.randint(0, 3)):  # a random walk over bases, feasible or not
        j = random.randrange(n + m)
        if start.status[j] == BASIC:
            continue
        change = start.column(j)
        if change:
            start = start.exchanged(j, random.choice(change)[0], AT_LOWER)
            start = Vertex.of(rational_program, list(start.status))
    with patch("hetopt.solving.rational.refinement.FEW", 0):
        better = refined(start, Options())
    for vertex in (start, better):
        end, _ = maximise(vertex)
        assert not end.outside()
        assert not end.attractive()
        assert fraction(end.objective()) == best


def test_columns_that_differ_in_the_last_digits_are_ordered_in_a_few_rounds() -> None:
    """A float solver cannot choose the best 300 of 600 columns that differ by 1e-20 to 6e-18."""
    n = 600
    cost = [1 + fmpq((7 * j) % n, 10**20) for j in range(n)]
    row = [(j, fmpq(1)) for j in range(n)]
    program = RationalProgram(
        by_row=[row],
        by_column=[[(0, fmpq(1))] for _ in range(n)],
        cost=[*cost, fmpq(0)],
        lower=[fmpq(0)] * n + [None],
        upper=[fmpq(1)] * n + [fmpq(n // 2)],
        integer=[False] * n,
    )
    start = Vertex.of(program, [AT_UPPER] * (n // 2 - 1) + [BASIC] + [AT_LOWER] * (n // 2) + [AT_UPPER])
    end, steps = maximise(refined(start, Options()))
    assert len(start.attractive()) > n // 4
    assert steps <= 4
    assert end.objective() == sum(sorted(cost)[n // 2 :])


def _vertices(program: LinearProgram) -> list[tuple[F, ...]]:
    """All vertices of a program by brute force, in Fractions."""
    n = len(program.c)
    sides: list[tuple[list[F], F]] = []
    for row, low, high in zip(program.A.toarray(), program.row_lower, program.row_upper, strict=True):
        sides += [(fractions(row), fractions(b)[0]) for b in {low, high} if np.isfinite(b)]
    for j in range(n):
        unit = [F(int(i == j)) for i in range(n)]
        sides += [(unit, fractions(b)[0]) for b in {program.col_lower[j], program.col_upper[j]}]
    found = set()
    for chosen in combinations(sides, n):
        kernel = Kernel([[(j, fmpq(a.numerator, a.denominator)) for j, a in enumerate(row) if a] for row, _ in chosen])
        try:
            x = kernel.solve([fmpq(b.numerator, b.denominator) for _, b in chosen])
        except SingularError:
            continue
        found.add(tuple(F(int(v.p), int(v.q)) for v in x))
    return [x for x in found if _holds(program, x)]


def _holds(program: LinearProgram, x: tuple[F, ...]) -> bool:
    activity = [sum(a * v for a, v in zip(fractions(row), x, strict=True)) for row in program.A.toarray()]
    pairs = [*zip(activity, program.row_lower, program.row_upper, strict=True)]
    pairs += [*zip(x, program.col_lower, program.col_upper, strict=True)]
    return all(
        (not np.isfinite(lo) or v >= fractions(lo)[0]) and (not np.isfinite(hi) or v <= fractions(hi)[0])
        for v, lo, hi in pairs
    )


def _value(c: np.ndarray, x: tuple[F, ...]) -> F:
    return sum((a * v for a, v in zip(fractions(c), x, strict=True)), F(0))


@settings(max_examples=40)
@given(linear_programs(columns=(1, 3), rows=(0, 3)))
def test_uniqueness_is_what_enumeration_says(program: LinearProgram) -> None:
    """A bounded program has one optimum exactly if one vertex is optimal."""
    exact = exact_optimum(hetopt.optimise(program))
    vertices = _vertices(program)
    best = max(_value(program.c, x) for x in vertices)
    optimal = [x for x in vertices if _value(program.c, x) == best]
    assert exact.objective == best + F(program.offset)
    assert tuple(exact.x) in optimal
    assert exact.unique is (len(optimal) == 1)


@settings(max_examples=40)
@given(linear_programs(columns=(2, 3), rows=(0, 3)), st.data())
def test_lexicographic_optima_are_exact(program: LinearProgram, data: Any) -> None:
    """Against the vertices: the best of the last objective among the best of those before; no tolerance kept."""
    n = len(program.c)
    number = st.integers(-2, 2).map(float)
    earlier = tuple(
        Objective(np.array([data.draw(number) for _ in range(n)]), priority=level)
        for level in range(data.draw(st.integers(1, 2)), 0, -1)
    )
    exact = exact_optimum(hetopt.optimise(replace(program, earlier=earlier)))
    left = _vertices(program)
    for number_, c in enumerate([*(objective.c for objective in earlier), program.c]):
        best = max(_value(c, x) for x in left)
        left = [x for x in left if _value(c, x) == best]
        assert exact.optima[number_] == best + (F(program.offset) if number_ == len(earlier) else 0)
    assert exact.objective == exact.optima[-1], "the last one has priority 0"
    assert tuple(exact.x) in left
    assert exact.unique is (len(left) == 1)
    assert exact.program.kept == {}


@settings(max_examples=25)
@given(tenant_instances(tenants=(2, 4), types=(1, 3), weighted=True))
def test_lazy_rows_are_checked_exactly(inst: hetopt.Instance) -> None:
    """The lazy and the eager program have the same exact optimum, and exactly no envy."""
    lazy, eager = (hetopt.solve(f, inst, exact=True).certificate.exact for f in (LAZY, COOPERATIVE))
    assert lazy is not None
    assert eager is not None
    check(eager)
    assert lazy.objective == eager.objective
    assert lazy.unique == eager.unique
    entities = inst.entities()
    speed = [fractions(row) for row in entities.speed]
    weight = fractions(entities.weight)
    for e, own in enumerate(speed):
        rate = sum(w * x for w, x in zip(own, lazy.share[e], strict=True))
        for o, other in enumerate(lazy.share):
            assert weight[o] * rate >= weight[e] * sum(w * x for w, x in zip(own, other, strict=True))


def test_a_row_that_floats_let_pass_is_added() -> None:
    """A point computed without any lazy row: every violated one must be found by the exact check alone."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    compiled = Compiled(LAZY, inst.entities())
    point = hetopt.optimise(compiled.program)
    assert point.objective == pytest.approx(6)
    exact = exact_optimum(point, every=compiled.all_lazy_rows())
    assert exact.objective == exact_optimum_of(compiled, point, Options()).objective == F(21, 4)
    assert list(exact.program.row_names)[2:] == ["envy_free.row[u1,u2]"], "only the row that matters"
    assert exact_optimum(point).objective == 6, "without the rows the claim is about the program alone"


def _free(c: list[float], rows: list[list[float]], upper: list[float]) -> LinearProgram:
    """Rows <= upper over free columns."""
    n = len(c)
    return LinearProgram(
        c=np.array(c, dtype=float),
        A=sparse.csc_array(np.array(rows, dtype=float)),
        row_lower=np.full(len(rows), -np.inf),
        row_upper=np.array(upper, dtype=float),
        col_lower=np.full(n, -np.inf),
        col_upper=np.full(n, np.inf),
        integer=np.zeros(n, dtype=bool),
        row_names=[f"r{i}" for i in range(len(rows))],
        col_names=[f"x{j}" for j in range(n)],
    )


def test_free_columns_may_move_either_way() -> None:
    """Only x + y is bounded, x - y is free: the optimum is not unique; with one more row it is."""
    open_ended = exact_optimum(hetopt.optimise(_free([1, 1], [[1, 1], [-1, 0]], [1, 0])))
    assert (open_ended.objective, open_ended.unique) == (1, False)
    corner = exact_optimum(hetopt.optimise(_free([2, 1], [[1, 1], [1, 0]], [1, F(1, 3)])))
    assert (corner.objective, corner.unique, corner.x.tolist()) == (F(4, 3), True, [F(1, 3), F(2, 3)])


def test_the_fractions_that_were_meant_are_solved() -> None:
    """0.1 + 0.2 = 0.3 holds for the fractions meant, and not for the floats."""
    exact = exact_optimum(hetopt.optimise(_free([1], [[1]], [0.1 + 0.2])))
    assert exact.objective == F(3, 10)


def test_tolerably_feasible_is_not_feasible() -> None:
    """Two rows that contradict each other by less than a solver's tolerance: floats say optimal, rationals do not."""
    program = _free([1], [[1], [-1]], [1, -1 - EQUAL / 100])
    point = hetopt.optimise(program)
    assert point.status == "optimal"
    with pytest.raises(NotSolved, match="read as fractions, the program is infeasible"):
        exact_optimum(point)


def test_steps_are_limited_on_request_and_the_end_is_reported() -> None:
    vertex = Vertex.of_rows(RationalProgram.of(_free([1, 1], [[1, 0], [0, 1]], [2, 3])))
    with pytest.raises(LimitError):
        maximise(vertex, limit=1)
    assert maximise(vertex, limit=2)[1] == 2
    with pytest.raises(UnboundedError):
        maximise(Vertex.of_rows(RationalProgram.of(_free([1], [[-1]], [0]))))


@given(linear_programs(), st.data())
def test_no_point_is_proven_by_multipliers(program: LinearProgram, data: Any) -> None:
    """The sum of all columns and rows times their multipliers is 0 at every point, and positive by their bounds."""
    n = len(program.c)
    excess = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)))
    row, best = sparse.csr_array(excess[None]), hetopt.optimise(program.with_objectives(Objective(1.0 * excess)))
    above = program.with_rows(Cuts(row, np.array([best.objective + 1]), np.array([np.inf]), ["above"]))
    rational_program = RationalProgram.of(above)
    with pytest.raises(InfeasibleError) as error:
        maximise(Vertex.of_rows(rational_program))
    proof, form, total = error.value.proof, dict[int, Any](), fmpq(0)
    for v, factor in proof.items():
        total += factor * (rational_program.lower if factor > 0 else rational_program.upper)[v]
        for j, a in [(v, fmpq(1))] if v < n else rational_program.by_row[v - n]:
            form[j] = form.get(j, fmpq(0)) + factor * a
    assert not any(form.values())
    assert total > 0


def test_the_uniqueness_question_is_left_open_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetopt.solving.exact.STEPS_FOR_UNIQUENESS", 0)
    monkeypatch.setattr("hetopt.solving.exact._float_vertex", lambda _, rational, *__: Vertex.of_rows(rational))
    program = _free([1, 1, 1], [[1, 1, 1], [-1, 0, 0], [0, -1, 0]], [1, 0, 0])
    exact = exact_optimum(hetopt.optimise(program))
    assert (exact.objective, exact.unique) == (1, None)


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_kernels_solve_both_ways(size: int, random: Any) -> None:
    """Sparse systems with known solutions; flint's determinant identifies the singular ones."""
    from flint import fmpq_mat

    rows = [{j: random.randint(-3, 3) for j in range(size) if random.random() < 0.35} for _ in range(size)]
    by_row = [[(j, fmpq(v, random.randint(1, 3))) for j, v in sorted(row.items()) if v] for row in rows]
    dense = fmpq_mat(size, size, [dict(row).get(j, fmpq(0)) for row in by_row for j in range(size)])
    b = [fmpq(random.randint(-5, 5), 7) for _ in range(size)]
    if dense.det() == 0:
        with pytest.raises(SingularError):
            Kernel(by_row).solve(b)
        return
    kernel = Kernel(by_row)
    assert dense * fmpq_mat(size, 1, kernel.solve(b)) == fmpq_mat(size, 1, b)
    assert dense.transpose() * fmpq_mat(size, 1, kernel.solve_transposed(b)) == fmpq_mat(size, 1, b)


def test_numbers_of_any_length_are_written() -> None:
    rng = np.random.default_rng(5)
    inst = hetopt.Instance.from_speedups(1 + rng.random((180, 6)), capacity=[7] * 6, any_scale=True)
    exact = hetopt.solve(NONCOOPERATIVE, inst, exact=True).certificate.exact
    assert exact is not None
    assert len(str(exact)) > 4300, "Python itself refuses to write integers of so many digits"


def test_coefficients_that_contradict_each_other_are_not_called_an_optimum() -> None:
    """One type and real weights: envy-freeness leaves one point, which the rounded products of its rows miss."""
    weights = [2.533175598000681, 2.7818889431943044]
    inst = hetopt.Instance.from_speedups([[8.193], [3.901]], [3], weights=weights, any_scale=True)
    assert hetopt.solve(COOPERATIVE, inst).certificate.objective == pytest.approx(17.8397, rel=NUDGE)
    try:
        exact = hetopt.solve(COOPERATIVE, inst, exact=True).certificate.objective
    except NotSolved as problem:
        assert problem.status in ("inexact", "infeasible")  # noqa: PT017
        assert "fewer digits" in str(problem)  # noqa: PT017
    else:
        assert exact == pytest.approx(17.8397, rel=NUDGE)


def test_the_time_limit_holds_for_exact_steps() -> None:
    """The optimum in floats is at hand, and no time is left for the rational one."""
    instance = hetopt.instances.load("oef/eq6")
    point = hetopt.optimise(COOPERATIVE.compile(instance))
    late = replace(Options(time_limit=1.0), deadline=0.0)
    with pytest.raises(NotSolved, match="time_limit=1 s"):
        exact_optimum(point, options=late)
    assert exact_optimum(point, options=Options(time_limit=60.0)).objective == F(21, 4)
