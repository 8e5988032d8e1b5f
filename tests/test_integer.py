"""Binary programs by reduced-cost fixing, against enumeration and against HiGHS given the same program plainly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving import integer, sifting
from hetopt.solving.aggregation import aggregated, classes_of, disaggregated
from hetopt.solving.blocks import Blocks, blocks_of, losses
from hetopt.solving.highs import Session
from hetopt.solving.optimising import run
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN, scale

EXACT = Options(gap=0.0)


def program_of(
    c: np.ndarray, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, most: np.ndarray, binary: int
) -> LinearProgram:
    """A program whose first ``binary`` columns are whole."""
    m, n = rows.shape
    return LinearProgram(
        c=c.astype(float),
        A=sparse.csc_array(rows.astype(float)),
        row_lower=lower.astype(float),
        row_upper=upper.astype(float),
        col_lower=np.zeros(n),
        col_upper=most.astype(float),
        integer=np.arange(n) < binary,
        row_names=[f"row{i}" for i in range(m)],
        col_names=[f"x{i}" for i in range(n)],
    )


@st.composite
def programs(draw: st.DrawFn, *, continuous: int = 0, alike: bool = False) -> LinearProgram:
    """Blocks of up to three columns (some free, some with exactly one to choose), and up to three coupling rows."""
    blocks, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    binary, coupling = blocks * width, draw(st.integers(1, 3))
    n = binary + continuous

    def table(low: int, high: int, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size))).reshape(shape)

    rows, lower, upper = [], [], []
    for b, kind in enumerate(draw(st.lists(st.sampled_from("nmx"), min_size=blocks, max_size=blocks))):
        if kind != "n":
            rows.append(np.isin(np.arange(n) // width, b) & (np.arange(n) < binary))
            lower.append(1.0 if kind == "x" else -np.inf)
            upper.append(1.0)
    block = table(-1, 4, coupling, 1 if alike else blocks, width)
    own = np.broadcast_to(block, (coupling, blocks, width)).reshape(coupling, binary)
    rows += list(np.hstack([own, table(-1, 1, coupling, continuous)]))
    lower += [draw(st.sampled_from([-np.inf, 0.0, 2.0])) for _ in range(coupling)]
    upper += [float(draw(st.integers(2, 12))) for _ in range(coupling)]
    gain = np.broadcast_to(table(-4, 9, 1 if alike else blocks, width), (blocks, width)).ravel()
    most = np.concatenate([table(0, 4, binary) > 0, np.full(continuous, 3)])
    c = np.concatenate([gain, table(-2, 2, continuous)])
    return program_of(c, np.array(rows), np.array(lower), np.array(upper), most, binary)


def points(program: LinearProgram) -> Iterator[np.ndarray]:
    """All feasible points of a purely binary program."""
    for bits in product((0.0, 1.0), repeat=len(program.c)):
        x = np.array(bits)
        used = program.A @ x
        if (x <= program.col_upper).all() and (used >= program.row_lower).all() and (used <= program.row_upper).all():
            yield x


def check(program: LinearProgram, best: float | None, options: Options = EXACT) -> None:
    """Solve without HiGHS's help for small programs; ``best`` is the optimum, None if there is no point."""
    if best is None:
        with pytest.raises(NotSolved) as error:
            integer.solve_binary(program, options, few=0)
        assert error.value.status == "infeasible"
        return
    point = integer.solve_binary(program, options, few=0)
    slack = EQUAL * scale(best)
    assert point.objective == pytest.approx(best, abs=slack)
    assert program.objective(point.x) == pytest.approx(point.objective, abs=slack)
    assert program.violation(point.x) <= FEASIBILITY
    assert best - slack <= point.bound <= best + slack
    assert set(point.x[program.integer]) <= {0.0, 1.0}


@given(programs())
def test_the_optimum_is_that_of_enumeration(program: LinearProgram) -> None:
    check(program, max((program.objective(x) for x in points(program)), default=None))


@given(programs(alike=True))
def test_alike_blocks_are_counted_exactly(program: LinearProgram) -> None:
    check(program, max((program.objective(x) for x in points(program)), default=None))


@given(programs(continuous=2))
def test_continuous_columns_stay_in_every_core(program: LinearProgram) -> None:
    try:
        best: float | None = Session(program, EXACT, explain=False).solve().objective
    except NotSolved:
        best = None
    check(program, best)


@given(programs())
def test_prices_from_a_part_of_the_columns_lead_to_the_same_optimum(program: LinearProgram) -> None:
    """Sifting, which only large programs need, made to work on small ones."""
    best = max((program.objective(x) for x in points(program)), default=None)
    with mock.patch.multiple(sifting, MANY=0, STRIDE=2, COVER=0.5), mock.patch.object(integer, "AGGREGATED_UP_TO", 0):
        check(program, best)


@given(programs(), st.lists(st.integers(-3, 3), min_size=6, max_size=6))
def test_any_prices_bound_every_point_and_its_losses(program: LinearProgram, prices: list[int]) -> None:
    """Weak duality, by enumeration: no point beats the bound, less what its columns and empty blocks lose."""
    blocks = blocks_of(program)
    found = losses(blocks, np.resize(np.array(prices, dtype=float), len(blocks.coupling)))
    for x in points(program):
        value = program.objective(x)
        ones = np.flatnonzero(x)
        empty = np.setdiff1d(np.arange(len(blocks.row)), blocks.of[ones])
        assert value <= found.bound - found.column[ones].max(initial=0.0) + PROVEN
        assert value <= found.bound - found.block[empty].max(initial=0.0) + PROVEN
        assert value <= found.bound - found.column[ones].sum() - found.block[empty].sum() + PROVEN, "they add up"


@given(programs(continuous=1))
def test_blocks_say_what_their_rows_say(program: LinearProgram) -> None:
    """Every row is a block's or couples; a block's columns are its row's; every whole column is in one block."""
    blocks = blocks_of(program)
    stated = blocks.row[blocks.row >= 0]
    assert sorted([*stated, *blocks.coupling]) == list(range(program.shape[0]))
    dense = program.A.toarray()
    for b, row in enumerate(blocks.row.tolist()):
        columns = np.flatnonzero(blocks.of == b)
        if row < 0:
            assert len(columns) == 1
            continue
        assert columns.tolist() == np.flatnonzero(dense[row]).tolist()
        assert (program.row_lower[row] == 1) == blocks.must[b]
    assert ((blocks.of >= 0) == program.integer).all()


@given(programs(alike=True), st.data())
def test_counting_keeps_points_and_values(program: LinearProgram, data: st.DataObject) -> None:
    """A point of the aggregated program becomes one of the original with the same value."""
    classes = classes_of(blocks_of(program), 10**6)
    if classes is None:
        return
    counted, kept = aggregated(classes)
    assert len(counted.c) == len(kept) <= len(program.c)
    try:
        point = Session(counted, EXACT, explain=False).solve()
    except NotSolved:
        return
    x = disaggregated(classes, kept, point.x)
    assert program.violation(x) <= FEASIBILITY
    assert program.objective(x) == pytest.approx(point.objective, abs=EQUAL * scale(program.c))


def knapsacks(seed: int, jobs: int = 600, types: int = 4) -> LinearProgram:
    """A scheduling round: gangs of 1 to 4 on several types, nearly all capacity used; costs differ."""
    draw = np.random.default_rng(seed)
    demand = draw.choice([1, 2, 3, 4], jobs)
    rows = np.zeros((types + jobs + 1, jobs * types))
    for k in range(types):
        rows[k, k::types] = demand
    for e in range(jobs):
        rows[types + e, e * types : (e + 1) * types] = 1
    rows[-1] = np.repeat(demand, types)
    upper = np.concatenate([np.full(types, 30.0), np.ones(jobs), [np.inf]])
    lower = np.concatenate([np.full(types + jobs, -np.inf), [30.0 * types]])
    c = -np.repeat(demand, types) * draw.lognormal(3, 1, jobs * types)
    return program_of(c, rows, lower, upper, np.ones(jobs * types), jobs * types)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("gap", [1 / 500, 0.0])
def test_a_round_is_proven_up_to_the_gap(seed: int, gap: float) -> None:
    program = knapsacks(seed)
    point = integer.solve_binary(program, Options(gap=gap))
    assert point.method == "reduced-cost fixing"
    best = Session(program, Options(gap=PROVEN)).solve()
    size = float(np.abs(program.c) @ point.x)
    assert program.violation(point.x) <= FEASIBILITY
    assert best.objective - point.objective <= max(gap, EQUAL) * size
    assert point.bound >= best.objective - PROVEN * size
    assert point.bound - point.objective <= max(gap, EQUAL) * size
    assert point.status == "optimal" or gap > 0


def test_a_start_is_used_where_it_is_feasible_and_else_ignored() -> None:
    program = knapsacks(0)
    best = integer.solve_binary(program, EXACT)
    again = integer.solve_binary(program, EXACT, best.x)
    assert again.objective == pytest.approx(best.objective, rel=EQUAL)
    assert again.passes <= best.passes
    wrong = integer.solve_binary(program, EXACT, np.ones(len(program.c)))
    assert wrong.objective == pytest.approx(best.objective, rel=EQUAL)


def test_an_infeasible_program_is_explained() -> None:
    """Two gangs of 3 on 4 GPUs: at least 5 GPUs cannot be used."""
    program = program_of(
        np.ones(2), np.array([[3, 3], [3, 3]]), np.array([-np.inf, 5.0]), np.array([4.0, np.inf]), np.ones(2), 2
    )
    with pytest.raises(NotSolved, match="row0") as error:
        integer.solve_binary(program, EXACT, few=0)
    assert error.value.status == "infeasible"


def test_a_limit_that_no_solver_can_meet_is_an_error() -> None:
    with pytest.raises(NotSolved) as error:
        integer.solve_binary(knapsacks(1), Options(time_limit=1 / 10**9))
    assert error.value.status == "time_limit"


def test_a_limit_with_a_start_gives_the_start_back_at_worst() -> None:
    program = knapsacks(1)
    good = integer.solve_binary(program, EXACT)
    search = integer._Search(blocks_of(program), losses(blocks_of(program), np.zeros(5)), EXACT, good.x)
    with mock.patch.object(integer._Search, "_solved", side_effect=NotSolved("late", "time_limit")):
        point = search.run()
    assert point.status == "time_limit"
    assert point.objective == pytest.approx(good.objective)
    assert point.bound >= good.objective


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, True),
        ({"col_upper": np.array([1.0, 0.0])}, True),
        ({"col_upper": np.array([1.0, 2.0])}, False),
        ({"col_lower": np.array([1.0, 0.0])}, False),
        ({"integer": np.zeros(2, dtype=bool)}, False),
        ({"integer": np.array([True, False]), "col_upper": np.array([1.0, np.inf])}, True),
    ],
)
def test_only_programs_of_zeros_and_ones_are_taken(change: dict[str, Any], answer: bool) -> None:
    program = program_of(np.ones(2), np.ones((1, 2)), np.zeros(1), np.ones(1), np.ones(2), 2)
    assert replace(program, **change).is_binary == answer


def test_the_general_solver_takes_this_method_for_large_binary_programs() -> None:
    large, small = knapsacks(0), program_of(np.ones(2), np.ones((1, 2)), np.zeros(1), np.ones(1), np.ones(2), 2)
    assert run(large, Options(gap=1 / 500)).method == "reduced-cost fixing"
    assert run(replace(large, c=np.ones(len(large.c))), Options()).method == "counting"
    assert run(small, Options()).method == run(small, Options(method="plain")).method == "branch-and-cut"


def test_rows_that_overlap_couple() -> None:
    """Rows of ones over binaries are blocks only where they are disjoint; the other one couples."""
    rows = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]])
    blocks: Blocks = blocks_of(program_of(np.ones(3), rows, np.zeros(3), np.ones(3), np.ones(3), 3))
    assert blocks.row.tolist() == [0, -1]
    assert blocks.of.tolist() == [0, 0, 1]
    assert blocks.coupling.tolist() == [1, 2]
