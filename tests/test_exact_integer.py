"""Exact optima of integer programs, against enumeration, and their proofs, against the checker."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from effort import examples
from flint import fmpq
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import hetopt
from hetopt import NotSolved, exact_optimum
from hetopt.checking.vipr import verify
from hetopt.data.rationals import rational
from hetopt.models import fft, hadar, oef
from hetopt.models.asrpt import MinimumAlpha, MinimumCut
from hetopt.programs.linear import LinearProgram, Objective, Point
from hetopt.proofs.asrpt.all_placements import every_placement, random_case
from hetopt.proofs.strategies import job_instances, mixed_instances
from hetopt.solving.exact import point_or_proof
from hetopt.solving.highs import Session
from hetopt.solving.optimising import run
from hetopt.solving.options import Options
from hetopt.solving.rational.alike_columns import summed
from hetopt.solving.rational.core import Core, full_core
from hetopt.solving.rational.derivations import AT_MOST, Derivations
from hetopt.solving.rational.gomory_cuts import add_gomory_cuts
from hetopt.solving.rational.program import RationalProgram
from hetopt.solving.rational.root import prove
from hetopt.solving.rational.search import OutOfTime, Relaxation
from hetopt.solving.rational.vipr_file import Proof

RATIONAL = "hetopt.solving.rational"
NODES = f"{RATIONAL}.root.NODES_BEFORE_CUTS"
PARTS = ("col", "row")
TENTHS = st.integers(-30, 30).map(lambda v: v / 10)


@st.composite
def programs(draw: st.DrawFn, continuous: bool = False) -> LinearProgram:
    """Up to four whole columns of 0 to 3, and perhaps a continuous one of 0 to 1."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    columns = n + continuous
    value = st.one_of(st.integers(-4, 9).map(float), TENTHS)
    rows = np.array(draw(st.lists(st.lists(value, min_size=columns, max_size=columns), min_size=m, max_size=m)))
    upper = np.array(draw(st.lists(st.integers(0, 12).map(float), min_size=m, max_size=m)))
    lower = np.array(draw(st.lists(st.sampled_from([-np.inf, -6.0, 0.0]), min_size=m, max_size=m)))
    c = np.array(draw(st.lists(value, min_size=columns, max_size=columns)))
    most = np.array([*draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=n, max_size=n)), *[1.0] * continuous])
    whole = np.arange(columns) < n
    return LinearProgram.of(c, sparse.csr_array(rows), lower, upper, col_upper=most, integer=whole)


Box = tuple[tuple[int, int], ...]
"""The least and the largest whole value of each column."""


def whole_points(program: LinearProgram, box: Box | None = None) -> Iterator[tuple[int, ...]]:
    """All points of whole numbers in the box; None: that of the bounds, which begin at 0."""
    rows = [[rational(v) for v in row] for row in program.A.toarray().tolist()]
    lower, upper = (
        [rational(v) if np.isfinite(v) else v for v in side.tolist()] for side in (program.row_lower, program.row_upper)
    )
    for x in itertools.product(*(range(a, b + 1) for a, b in box or ((0, int(u)) for u in program.col_upper.tolist()))):
        sums = [sum(a * v for a, v in zip(row, x, strict=True)) for row in rows]
        if all(low <= total <= high for low, total, high in zip(lower, sums, upper, strict=True)):
            yield x


def values_at(program: LinearProgram, x: Sequence[Any]) -> tuple[Fraction, ...]:
    """The objectives at a point of fractions, in order."""
    return tuple(
        sum((rational(a) * v for a, v in zip(one.c.tolist(), x, strict=True)), rational(one.offset))
        for one in program.objectives
    )


def enumerated(program: LinearProgram, box: Box | None = None) -> tuple[Fraction, ...] | None:
    """The best values of the objectives in order, over all whole points; None if there is none."""
    return max((values_at(program, x) for x in whole_points(program, box)), default=None)


@st.composite
def feasible_programs(draw: st.DrawFn) -> tuple[LinearProgram, Box, tuple[int, ...]]:
    """A program with up to three objectives, the box of its columns, and a point.

    Rows and columns may be empty, rows equations or without a bound. Bounds may be negative and fractional, or stated
    by rows instead, so that columns are free or bounded on one side.
    """
    n, m, k = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    value = st.one_of(st.just(0.0), st.integers(-4, 9).map(float), TENTHS)
    vector = st.lists(value, min_size=n, max_size=n).map(np.array)
    box = tuple(
        (low, low + draw(st.integers(0, 3))) for low in draw(st.lists(st.integers(-3, 1), min_size=n, max_size=n))
    )
    x = tuple(draw(st.integers(*own)) for own in box)
    rows, lower, upper = [draw(vector) for _ in range(m)], list[float](), list[float]()
    for row in rows:
        at = float(sum((rational(a) * v for a, v in zip(row.tolist(), x, strict=True)), Fraction(0)))
        low, high = draw(st.sampled_from([(0, 0), (0, 3), (4, 0), (2, 2), (np.inf, 1), (3, np.inf), (np.inf, np.inf)]))
        lower.append(at - low)
        upper.append(at + high)
    col_lower = np.array([low - draw(st.sampled_from([0.0, 0.5])) for low, _ in box])
    col_upper = np.array([high + draw(st.sampled_from([0.0, 0.25])) for _, high in box])
    for j in range(n):
        if (by_row := draw(st.sampled_from(["none", "lower", "upper", "both"]))) != "none":
            factor = draw(st.sampled_from([1.0, 2.0]))
            rows.append(factor * np.eye(n)[j])
            lower.append(factor * box[j][0])
            upper.append(factor * box[j][1])
            if by_row != "upper":
                col_lower[j] = -np.inf
            if by_row != "lower":
                col_upper[j] = np.inf
    matrix = sparse.csr_array(np.array(rows).reshape(-1, n))
    program = LinearProgram.of(np.zeros(n), matrix, np.array(lower), np.array(upper), integer=True)
    objectives = [
        Objective(draw(vector), draw(st.sampled_from([0.0, 1.5])), priority) for priority in reversed(range(k))
    ]
    return replace(program.with_objectives(*objectives), col_lower=col_lower, col_upper=col_upper), box, x


@settings(max_examples=examples(100, 3_000))
@given(
    feasible_programs(),
    st.booleans(),
    st.sampled_from([0, 300]),
    st.sampled_from([-1, 0, 16]),
    st.sampled_from([4, 44]),
)
def test_of_any_program_from_any_start(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[LinearProgram, Box, tuple[int, ...]],
    solved: bool,
    first: int,
    few: int,
    digits: int,
) -> None:
    """With cuts at once or late, columns fixed alone or together, and costs of few or many digits."""
    program, box, x = drawn
    point = (
        hetopt.optimise(program, Options(gap=0.0)) if solved else Point(program, np.array(x), 0.0, 0.0, "time_limit")
    )
    with patch(NODES, first), patch(f"{RATIONAL}.fixing.FEW", few), patch(f"{RATIONAL}.core.DIGITS", digits):
        exact = exact_optimum(point)
    assert exact.optima == enumerated(program, box)
    assert tuple(exact.x) in set(whole_points(program, box))
    assert values_at(program, exact.x.tolist()) == exact.optima
    file = tmp_path_factory.mktemp("any") / "any.vipr"
    exact.write(file)
    assert hetopt.check(file, program).optima == exact.optima


@given(programs(), st.integers(0, 2), st.data())
def test_its_file_proves_it_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, program: LinearProgram, change: int, data: st.DataObject
) -> None:
    best = enumerated(program)
    assume(best is not None)
    file = tmp_path_factory.mktemp("proof") / "proof.vipr"
    point = hetopt.optimise(program, Options(gap=0.0))
    with patch(NODES, data.draw(st.sampled_from([0, 300]), label="nodes before cuts")):
        exact_optimum(point).write(file)
    assert hetopt.check(file, program).optima == best
    other = [program.c.copy(), program.row_upper.copy(), program.A.toarray()][change]
    other.flat[data.draw(st.integers(0, other.size - 1))] += 1
    parts = [program.c, program.row_upper, program.A]
    parts[change] = sparse.csc_array(other) if change == 2 else other
    changed = LinearProgram.of(
        parts[0], parts[2], program.row_lower, parts[1], col_upper=program.col_upper, integer=program.integer
    )
    with pytest.raises(hetopt.InvalidCertificate):
        hetopt.check(file, changed)


@given(programs(), st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())
def test_that_there_is_no_point_is_proven(
    tmp_path_factory: pytest.TempPathFactory, program: LinearProgram, equal: list[bool], two: bool
) -> None:
    """With equations, which few points satisfy; and where a float solver is wrong, the point is found."""
    upper = program.row_upper
    program = replace(program, row_lower=np.where(equal[: len(upper)], upper, program.row_lower))
    if two:
        program = program.with_objectives(Objective(np.ones(len(program.c)), priority=1), *program.objectives)
    wrong = NotSolved("the program is infeasible", "infeasible")
    if best := enumerated(program):
        assert exact_optimum(point_or_proof(wrong, program, Options())).optima == best
        assert wrong.proof is None
        return
    with pytest.raises(NotSolved) as error:
        run(program.with_objectives(program.objectives[-1]), Options(exact=True))
    with pytest.raises(NotSolved):
        point_or_proof(wrong, program, Options())
    for one in (error.value, wrong):
        assert one.proof is not None
        file = tmp_path_factory.mktemp("none") / "none.vipr"
        one.proof.write(file)
        found = hetopt.check(file, program)
        assert found.verified.infeasible
        assert found.optima == ()


@settings(max_examples=examples(100, 3_000))
@given(feasible_programs(), st.integers(0, 6), TENTHS)
def test_that_free_columns_have_no_point_is_proven(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[LinearProgram, Box, Any], which: int, value: float
) -> None:
    """One row or column is narrowed to a value, which is often not whole, or that no whole numbers add up to."""
    program, box, _ = drawn
    place = which % sum(program.shape)
    sides = {
        side: np.concatenate([getattr(program, f"col_{side}"), getattr(program, f"row_{side}")])
        for side in ("lower", "upper")
    }
    sides["lower"][place] = sides["upper"][place] = np.clip(value, sides["lower"][place], sides["upper"][place])
    n = len(program.c)
    program = replace(
        program,
        **{f"{part}_{side}": (own[:n] if part == "col" else own[n:]) for side, own in sides.items() for part in PARTS},
    )
    wrong = NotSolved("the program is infeasible", "infeasible")
    narrowed = zip(box, program.col_lower.tolist(), program.col_upper.tolist(), strict=True)
    if best := enumerated(program, tuple((math.ceil(max(a, v)), math.floor(min(b, w))) for (a, b), v, w in narrowed)):
        assert exact_optimum(point_or_proof(wrong, program, Options())).optima == best
        return
    file = tmp_path_factory.mktemp("none") / "none.vipr"
    with pytest.raises(NotSolved):
        point_or_proof(wrong, program, Options())
    assert wrong.proof is not None
    wrong.proof.write(file)
    assert hetopt.check(file, program).verified.infeasible


@pytest.mark.parametrize(
    ("row", "side", "low", "high", "whole"),
    [
        ([1, 1], (-np.inf, 5), [0.25, 0], [0.75, 1], [True, False]),  # no whole number between the bounds
        ([-1, 1], (0.25, np.inf), [1, -np.inf], [2, 1], [True, False]),  # the row implies a bound of the second column
        ([-2, 1], (0, np.inf), [1, -np.inf], [2, 1], [True, True]),
        ([3, -6], (1, 1), [-np.inf, -np.inf], [np.inf, np.inf], [True, True]),  # both are multiples of 3
    ],
)
def test_bounds_that_exclude_each_other_are_a_proof(
    tmp_path: Path, row: list[float], side: tuple[float, float], low: list[float], high: list[float], whole: list[bool]
) -> None:
    lower, upper = (np.array([float(v)]) for v in side)
    plain = LinearProgram.of(np.zeros(2), sparse.csr_array([row], dtype=float), lower, upper, integer=np.array(whole))
    program = replace(plain, col_lower=np.array(low, float), col_upper=np.array(high, float))
    with pytest.raises(NotSolved) as error:
        run(program, Options(exact=True))
    assert error.value.status == "infeasible"
    assert error.value.proof is not None
    error.value.proof.write(tmp_path / "none.vipr")
    assert hetopt.check(tmp_path / "none.vipr", program).verified.infeasible


def test_a_proof_that_ran_out_of_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a float solver calls infeasible is not proven then."""
    monkeypatch.setattr(f"{RATIONAL}.integer_optimum.prove", Mock(side_effect=OutOfTime(None)))
    program = LinearProgram.of(np.ones(1), sparse.csr_array([[2.0]]), np.ones(1), np.ones(1), integer=True)
    with pytest.raises(NotSolved, match=r"it is not proven within time_limit=9 s$") as error:
        run(program, Options(exact=True, time_limit=9.0))
    assert error.value.proof is None


def test_zeros_that_the_matrix_stores_are_none(tmp_path: Path) -> None:
    matrix = sparse.csr_array(([1.0, 0.0, 2.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert matrix.nnz == 3
    program = LinearProgram.of(np.ones(2), matrix, np.full(2, -np.inf), np.array([3.0, 5.0]), integer=True)
    exact_optimum(hetopt.optimise(program, Options(gap=0.0))).write(tmp_path / "zeros.vipr")
    assert hetopt.check(tmp_path / "zeros.vipr", program).optima == (5,)


@given(programs(continuous=True))
def test_with_a_continuous_column_it_is_the_best_of_all_linear_programs(program: LinearProgram) -> None:
    values = []
    for x in itertools.product(*(range(int(u) + 1) for u in program.col_upper[:-1].tolist())):
        fixed = LinearProgram(
            **{
                **program.__dict__,
                "col_lower": np.array([*x, 0.0]),
                "col_upper": np.array([*x, 1.0]),
                "integer": np.zeros(len(program.c), dtype=bool),
            }
        )
        try:
            values.append(exact_optimum(hetopt.optimise(fixed)).objective)
        except NotSolved:
            continue
    assume(values)
    assert exact_optimum(hetopt.optimise(program, Options(gap=0.0))).objective == max(values)


@given(programs(), st.integers(0, 3))
def test_gomorys_cuts_hold_at_every_whole_point(program: LinearProgram, rounds: int) -> None:
    """And not at the optimum of the relaxation; cuts of cuts, too."""
    n = len(program.c)
    points = [np.array(x) for x in whole_points(program)]
    derived = Derivations(RationalProgram.of(program))
    derived.objective = {j: -fmpq(v.numerator, v.denominator) for j, v in enumerate(map(rational, program.c)) if v}
    core = full_core(derived, derived.add_solution(fmpq(10**6)))
    for _ in range(rounds + 1):
        relaxation, first = Relaxation(core, Options()), len(core.rows)
        x, _, _ = relaxation.solve()
        basis = relaxation.session.basis()
        assume(x is not None and basis is not None)
        add_gomory_cuts(core, x, basis)
        for row, right in zip(core.rows[first:], core.lower[n + first :], strict=True):
            assert sum(float(v) * x[j] for j, v in row.items()) < float(right)
            assert all(sum(v * int(point[j]) for j, v in row.items()) >= right for point in points)


SMALL = st.lists(st.integers(-2, 4), min_size=4, max_size=4)


@given(programs(), st.integers(2, 3), SMALL, st.integers(0, 8), st.none() | SMALL, st.booleans())
def test_copies_of_a_program_are_summed(
    tmp_path_factory: pytest.TempPathFactory,
    program: LinearProgram,
    copies: int,
    shared: list[int],
    right: int,
    before: list[int] | None,
    solved: bool,
) -> None:
    """Side by side, with a row that all share; as long as all points can be enumerated."""
    n = len(program.c)
    assume(np.prod(program.col_upper + 1) ** copies <= 5_000)
    beside = sparse.block_diag([program.A] * copies)
    many = LinearProgram.of(
        np.tile(program.c, copies),
        sparse.csr_array(sparse.vstack([beside, np.tile(np.array(shared[:n], float), copies)[None]])),
        np.append(np.tile(program.row_lower, copies), -np.inf),
        np.append(np.tile(program.row_upper, copies), right),
        col_upper=np.tile(program.col_upper, copies),
        integer=True,
    )
    if before is not None:
        many = many.with_objectives(
            Objective(np.tile(np.array(before[:n], float), copies), priority=1), *many.objectives
        )
    point = Point(many, np.zeros(n * copies), 0.0, 0.0, "time_limit")
    if solved:
        point = hetopt.optimise(many, Options(gap=0.0))
    exact = exact_optimum(point)
    assert exact.optima == enumerated(many)
    assert values_at(many, exact.x.tolist()) == exact.optima
    file = tmp_path_factory.mktemp("copies") / "proof.vipr"
    exact.write(file)
    assert hetopt.check(file, many).optima == exact.optima


def test_a_row_like_an_earlier_objective_is_not_summed_with_it() -> None:
    """As much of a as there is, then of z: the rows of both are alike, and the point found must keep the first."""
    matrix = np.zeros((3, 7))
    matrix[0, [4, 2, 1, 3, 5, 6]] = 1.0
    matrix[1, [3, 5, 6]] = 1.0
    matrix[2, 0] = 1.0
    first = np.zeros(7)
    first[[4, 2, 1]] = 1.0
    lower, upper = np.array([4.0, 2.0, -np.inf]), np.array([4.0, np.inf, 4.5])
    program = LinearProgram.of(np.eye(7)[0], sparse.csr_array(matrix), lower, upper, col_upper=4.0, integer=True)
    program = program.with_objectives(Objective(first, priority=1), *program.objectives)
    start = np.array([0.0, 0, 0, 2, 2, 0, 0])
    exact = exact_optimum(Point(program, start, 0.0, 0.0, "time_limit"))
    assert exact.optima == (2, 4)
    assert values_at(program, exact.x.tolist()) == (2, 4)


@pytest.mark.parametrize("cycles", [[6], [3, 3], [4, 4, 4], [3, 4, 5]])
def test_sums_of_alike_columns_may_be_those_of_no_point(cycles: list[int]) -> None:
    """Most nodes of cycles, no two of them adjacent: in sums, two triangles look like a hexagon."""
    starts = np.cumsum([0, *cycles])
    edges = [(a + i, a + (i + 1) % n) for a, n in zip(starts, cycles, strict=False) for i in range(n)]
    rows = np.zeros((len(edges), len(edges)))
    for i, (u, v) in enumerate(edges):
        rows[i, [u, v]] = 1.0
    one = np.ones(len(edges))
    program = LinearProgram.of(one, sparse.csr_array(rows), -np.inf * one, one, col_upper=1.0, integer=True)
    derived = Derivations(RationalProgram.of(program))
    derived.objective = {j: fmpq(-1) for j in range(len(edges))}
    core = full_core(derived, derived.add_solution(fmpq(0)))
    assert summed(core).shape == (1, 1)
    for start in (hetopt.optimise(program).x, 0 * one):
        point = Point(program, start, start.sum(), len(edges), "time_limit")
        assert exact_optimum(point).objective == sum(n // 2 for n in cycles)


@settings(max_examples=examples(15, 60))
@given(job_instances(), st.data())
def test_ffts_round(tmp_path_factory: pytest.TempPathFactory, instance: hetopt.Instance, data: st.DataObject) -> None:
    """Both stages, against all plans."""
    rho = {job.name: data.draw(st.integers(0, 5).map(float), label=job.name) for job in instance.jobs}
    formulation = fft.FFT().formulation(instance, fft.FFT().advanced(instance, None)) + fft.Compensation(
        rho, name="more"
    )
    n, k = formulation.entities(instance).shape
    assume((k + 1) ** n <= 1_000)
    found = hetopt.solve(formulation, instance, exact=True)
    exact = found.certificate.exact
    assert exact is not None
    file = tmp_path_factory.mktemp("round") / "round.vipr"
    found.certificate.write(file)
    assert hetopt.check(file, formulation, instance).optima == exact.optima
    entities = found.entities.exact
    gains = [part for part in formulation if isinstance(part, fft.LinearGain)]
    first, second = (
        sum(np.asarray(part.coefficients(entities)) for part in gains if isinstance(part, fft.WorkConserving) == first)
        for first in (True, False)
    )
    best = max((sum(first[at], Fraction(0)), sum(second[at], Fraction(0))) for at in plans(entities))
    assert exact.optima == best


def plans(entities: Any) -> Any:
    """All plans: a pair of index arrays."""
    n, k = entities.shape
    for choice in itertools.product(range(-1, k), repeat=n):
        used = [sum(entities.demand[e] for e in range(n) if choice[e] == i) for i in range(k)]
        able = all(i < 0 or entities.allowed[e, i] for e, i in enumerate(choice))
        if able and all(u <= c for u, c in zip(used, entities.capacity, strict=True)):
            runs = [e for e in range(n) if choice[e] >= 0]
            yield np.array(runs, dtype=int), np.array([choice[e] for e in runs], dtype=int)


@settings(max_examples=examples(10, 40))
@given(mixed_instances(jobs=(1, 3)), st.integers(1, 3))
def test_hadars_p1(instance: hetopt.Instance, slots: int) -> None:
    """As good as the best choice of all schedules."""
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    program = hetopt.from_pyomo(hadar.TimeIndexed().build(problem))
    assume(program.col_names)
    exact = exact_optimum(run(program, Options(gap=0.0)))
    assert float(exact.objective) == pytest.approx(hadar.Enumerated()(problem).utility)


@settings(max_examples=examples(10, 40))
@given(st.integers(0, 10_000))
def test_mappings_of_asrpt(seed: int) -> None:
    """Against all placements."""
    pipeline, servers = random_case(np.random.default_rng(seed), 3, 2, 3)
    every = [MinimumAlpha().timing(pipeline, x, servers) for x in every_placement(pipeline, servers)]
    model = MinimumAlpha().build(pipeline, servers)
    exact = exact_optimum(run(hetopt.from_pyomo(model), Options(gap=0.0)))
    assert float(-exact.objective) * model.unit.value == pytest.approx(float(min(every)), rel=hetopt.tolerances.PROVEN)
    cut = hetopt.from_pyomo(MinimumCut().build(pipeline, servers))
    point = run(cut, Options(gap=0.0))
    assert float(exact_optimum(point).objective) == pytest.approx(point.objective)


def test_solver_objects_prove_with_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A-SRPT's mappings, and Hadar's P1 and P2."""
    proofs = []

    def proven(core: Core, options: Options) -> int:
        proofs.append(core)
        return prove(core, options)

    monkeypatch.setattr("hetopt.solving.rational.integer_optimum.prove", proven)
    exactly = Options(exact=True)
    assert MinimumAlpha(options=exactly)(*random_case(np.random.default_rng([0, 8]), 8, 8, 12)).status == "optimal"
    assert MinimumCut(options=exactly)(*random_case(np.random.default_rng(3), 3, 2, 3)).status == "optimal"
    jobs = hetopt.Instance.from_jobs([[2.0, 1.0], [1.0, 3.0]], [1, 2], [3.0, 4.0], [1, 2], round_seconds=1.0)
    problem = hadar.OfflineProblem.of(jobs, 3, 1.0)
    found = [method(options=exactly)(problem) for method in (hadar.TimeIndexed, hadar.Enumerated)]
    assert found[0].utility == found[1].utility
    assert [one.status for one in found] == ["optimal", "optimal"]
    assert len(proofs) == 4


def test_without_time_nothing_is_proven() -> None:
    jobs = hetopt.Instance.from_jobs([[2.0, 1.0], [1.0, 3.0]], [1, 2], [3.0, 4.0], [1, 2])
    with pytest.raises(NotSolved, match="no usable point within time_limit") as error:
        hetopt.solve(fft.FFT(), jobs, exact=True, time_limit=10.0**-9)
    assert error.value.status == "time_limit"


@given(programs(), st.integers(1, 12))
def test_out_of_time_the_best_proven_bound_is_reported(program: LinearProgram, steps: int) -> None:
    """The time ends at any of the first times that it is looked at."""
    best, left = enumerated(program), itertools.count(steps, -1)
    assume(best is not None)
    point = hetopt.optimise(program, Options(gap=0.0))

    def check_time(self: Options) -> None:
        if next(left) <= 0:
            raise NotSolved.out_of_time(self.time_limit)

    with patch.object(Options, "check_time", check_time), suppress(NotSolved):
        assert exact_optimum(point, Options(time_limit=1_000.0)).optima == best
        return
    left = itertools.count(steps, -1)
    with patch.object(Options, "check_time", check_time), pytest.raises(NotSolved, match="time_limit=1000 s") as error:
        exact_optimum(point, Options(time_limit=1_000.0))
    assert error.value.status == "time_limit"
    assert error.value.objective is None or error.value.objective <= best[0]
    assert error.value.bound is None or error.value.bound >= best[0]


def test_no_point_without_tolerance_is_an_error() -> None:
    """The rows hold at whole points only within the solver's tolerance."""
    row = sparse.csr_array([[3.0, 0.1 + 10.0**-12]])
    right = np.array([3.1])
    program = LinearProgram.of(np.array([1.0, 0.0]), row, right, right, col_upper=1.0, integer=True)
    with pytest.raises(NotSolved, match="only within tolerances") as error:
        exact_optimum(hetopt.optimise(program))
    assert error.value.status == "inexact"


def test_equations_are_rounded_as_upper_bounds(tmp_path: Path) -> None:
    """VIPR rounds no equation: twice a whole number and four times another are 15, so both are at most 7."""
    right = np.array([15.0])
    program = LinearProgram.of(np.ones(2), sparse.csr_array([[2.0, 4.0]]), right, right, col_upper=9.0, integer=True)
    derived = Derivations(RationalProgram.of(program))
    half = derived.add_rounded({derived.upper[2]: fmpq(1, 2)})
    assert derived.constraints[half] == (AT_MOST, 7, {0: 1, 1: 2})
    derived.ends.append(derived.add({half: fmpq(2), derived.lower[2]: fmpq(-1)}))  # -0 <= -1
    file = tmp_path / "odd.vipr"
    Proof(derived, program.col_names, {0: fmpq(-1), 1: fmpq(-1)}, None, fmpq(0)).write(file)
    assert hetopt.check(file, program).verified.infeasible


def test_a_cooperative_optimum_has_a_file_with_all_lazy_rows(tmp_path: Path) -> None:
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 3], [1, 5]], capacity=[2, 2])
    found = hetopt.solve(oef.cooperative(), instance, exact=True)
    found.certificate.write(tmp_path / "oef.vipr")
    assert len(verify(tmp_path / "oef.vipr").problem.constraints) == 6 + 2 + 6
    assert hetopt.check(tmp_path / "oef.vipr", oef.cooperative(), instance).optima == (
        found.certificate.exact.objective,
    )


@pytest.mark.parametrize(("jobs", "machines"), [(7, 3), (9, 4), (13, 4)])
def test_equal_jobs_on_equal_machines(jobs: int, machines: int) -> None:
    """All machines as one would share a job; each for itself, with the number of its jobs, is decided at once."""
    x = np.arange(jobs * machines).reshape(jobs, machines)
    rows = np.zeros((jobs + machines, jobs * machines + 1))
    for j in range(jobs):
        rows[j, x[j]] = 1.0
    for k in range(machines):
        rows[jobs + k, x[:, k]] = 7.0
    rows[jobs:, -1] = -1.0
    right = np.repeat([1.0, 0.0], [jobs, machines])
    lower, whole = np.repeat([1.0, -np.inf], [jobs, machines]), np.arange(len(rows[0])) < jobs * machines
    most = np.where(whole, 1.0, np.inf)
    cost = np.where(whole, 0.0, -1.0)
    program = LinearProgram.of(cost, sparse.csr_array(rows), lower, right, col_upper=most, integer=whole)
    exact = exact_optimum(hetopt.optimise(program), Options(time_limit=60.0))
    assert exact.objective == -7 * -(-jobs // machines)


def test_a_start_that_holds_only_within_tolerances_is_replaced() -> None:
    """A float solver takes 3; 1e-9 x <= 0 allows only 0."""
    row = sparse.csr_array([[10.0**-9]])
    program = LinearProgram.of(np.ones(1), row, np.array([-np.inf]), np.zeros(1), col_upper=3.0, integer=True)
    assert exact_optimum(Point(program, np.array([3.0]), 3.0, 3.0, "optimal")).objective == 0


@given(feasible_programs(), st.integers(1, 5))
def test_what_highs_fails_to_solve_is_solved_otherwise(
    drawn: tuple[LinearProgram, Box, tuple[int, ...]], often: int
) -> None:
    """Every second or fifth relaxation, for instance."""
    program, box, x = drawn
    solve, calls = Session.values, itertools.count(1)

    def values(self: Session) -> Any:
        if next(calls) % often == 0:
            raise NotSolved("HiGHS stopped with 'Unknown'", "error")
        return solve(self)

    with patch.object(Session, "values", values):
        exact = exact_optimum(Point(program, np.array(x), 0.0, 0.0, "time_limit"))
    assert exact.optima == enumerated(program, box)


def test_another_solver_and_its_wrong_answer() -> None:
    """The search is in HiGHS, whichever solver found the start; a wrong optimum is corrected."""
    row, top = sparse.csr_array([[3.0, 5.0, 7.0]]), np.array([11.0])
    program = LinearProgram.of(np.array([4.0, 6.0, 9.0]), row, -np.inf + top, top, col_upper=1.0, integer=True)
    wrong = Point(program, np.zeros(3), 0.0, 0.0, "optimal")
    exact = exact_optimum(wrong, Options(solver="gurobi"))
    assert exact.agreeing_with(wrong).objective == 13
