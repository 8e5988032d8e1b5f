"""Linear programs and their compilation from Pyomo models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyomo.common.errors import InfeasibleConstraintException
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy import sparse

import hetopt
from hetopt.errors import InvalidFormulation, NotLinear
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.objectives import TotalRate
from hetopt.programs.arrays import Rows, on_shares
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Cuts, LinearProgram, Names, Objective
from hetopt.proofs.strategies import linear_programs, tenant_instances
from hetopt.tolerances import EQUAL, scale

NUMBER = st.integers(-4, 4).map(lambda v: v / 2)


def _term(draw: Any, model: Any) -> Any:
    """A linear expression of one of the shapes in which people write them."""
    x = model.x
    j, k = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    a, b = draw(NUMBER), draw(NUMBER)
    shapes = [
        lambda: a * x[j],
        lambda: x[j],
        lambda: -(a * x[j] + b * x[k]),
        lambda: model.p * x[j] + a,
        lambda: (a + model.p) * (x[j] - b * x[k]),
        lambda: model.named,
        lambda: 2 * model.named - x[k] / 2,
        lambda: sum(x[i] for i in range(4)) * a,
        lambda: pyo.quicksum(b * x[i] for i in range(4)),
        lambda: a + 0 * x[j],
        lambda: model.inner.y + a * model.inner.y,
    ]
    return draw(st.sampled_from(shapes))()


@st.composite
def pyomo_models(draw: Any) -> Any:
    """Models with named expressions, mutable parameters, fixed variables, ranges, equalities, integers."""
    model = pyo.ConcreteModel()
    domains = st.sampled_from([pyo.Reals, pyo.NonNegativeReals, pyo.Binary, pyo.Integers, pyo.NonPositiveReals])
    model.x = pyo.Var(range(4))
    for variable in model.x.values():
        variable.domain = draw(domains)
        variable.setlb(draw(st.one_of(st.none(), NUMBER)))
        variable.setub(draw(st.one_of(st.none(), NUMBER)))
    model.inner = pyo.Block()
    model.inner.y = pyo.Var(bounds=(0, 1))
    model.p = pyo.Param(initialize=draw(NUMBER), mutable=True)
    if draw(st.booleans()):
        model.x[3].fix(draw(NUMBER))
    model.named = pyo.Expression(expr=draw(NUMBER) * model.x[0] + draw(NUMBER) + model.x[1])
    model.row = pyo.Constraint(range(draw(st.integers(0, 5))))
    for i in model.row.index_set():
        body, low, wide = _term(draw, model) + _term(draw, model) + model.x[0], draw(NUMBER), draw(st.integers(0, 2))
        kinds = [(low, body, low + wide), (None, body, low), (low, body, None), body == low]
        model.row[i] = draw(st.sampled_from(kinds))
    model.off = pyo.Constraint(expr=model.x[0] <= 1)
    model.off.deactivate()
    sense = draw(st.sampled_from([pyo.maximize, pyo.minimize]))
    model.objective = pyo.Objective(expr=_term(draw, model) + model.x[1] - 3, sense=sense)
    return model


@given(pyomo_models())
def test_compiling_gives_what_pyomos_own_compiler_gives(model: Any) -> None:
    program = hetopt.from_pyomo(model)
    rows = {name: i for i, name in enumerate(program.row_names)}
    mine = sparse.csr_array(program.A).toarray()
    try:
        theirs = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=None)
    except InfeasibleConstraintException as problem:  # where all variables cancel out it takes no row that cannot hold
        i = rows[str(problem).split("'")[1]]
        assert not mine[i].any()
        assert not program.row_lower[i] <= 0 <= program.row_upper[i]
        return
    sign = 1.0 if model.objective.sense == pyo.maximize else -1.0
    for (constraint, kind), rhs, row in zip(theirs.rows, theirs.rhs, theirs.A.toarray(), strict=True):
        i = rows[constraint.name]
        expected = dict(zip((v.name for v in theirs.columns), row, strict=True))
        found = {name: mine[i, j] for j, name in enumerate(program.col_names)}
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}
        sides = {0: [program.row_lower[i], program.row_upper[i]], 1: [program.row_upper[i]], -1: [program.row_lower[i]]}
        assert all(abs(side - rhs) <= EQUAL * scale(rhs) for side in sides[kind])
    cost = dict(zip((v.name for v in theirs.columns), theirs.c.toarray()[0], strict=True))
    found = {name: sign * program.c[j] for j, name in enumerate(program.col_names)}
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in cost.items() if v}
    assert sign * program.offset == float(theirs.c_offset[0])
    by_name = {v.name: v for v in model.component_data_objects(pyo.Var)}
    for j, name in enumerate(program.col_names):
        bounds = (program.col_lower[j], program.col_upper[j])
        assert bounds == tuple(
            default if b is None else b for b, default in zip(by_name[name].bounds, (-np.inf, np.inf), strict=True)
        )
        assert program.integer[j] == by_name[name].is_integer()
    assert len(rows) == len(model.row)
    assert len(program.col_names) == sum(not v.fixed for v in by_name.values()), "also those that no row holds"


@given(linear_programs(integer=True))
def test_a_program_survives_the_way_through_pyomo(program: LinearProgram) -> None:
    back = hetopt.from_pyomo(hetopt.to_pyomo(program))
    for key in ("c", "row_lower", "row_upper", "col_lower", "col_upper", "integer"):
        np.testing.assert_array_equal(getattr(back, key), getattr(program, key))
    assert (back.A != program.A).nnz == 0
    assert back.offset == program.offset


def _with(**parts: Any) -> Any:
    model = pyo.ConcreteModel()
    model.x = pyo.Var([0, 1], bounds=(0, 1))
    for name, make in parts.items():
        setattr(model, name, make(model))
    return model


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (_with(o=lambda m: pyo.Objective(expr=m.x[0] * m.x[1])), NotLinear, r"x\[0\]\*x\[1\] is not linear"),
        (
            _with(o=lambda m: pyo.Objective(expr=m.x[0]), c=lambda m: pyo.Constraint(expr=pyo.log(m.x[0]) >= 0)),
            NotLinear,
            r"log\(x\[0\]\)",
        ),
        (
            _with(o=lambda m: pyo.Objective(expr=m.x[0]), s=lambda m: pyo.SOSConstraint(var=m.x, sos=1)),
            NotLinear,
            "'s' is a SOSConstraint",
        ),
        (
            _with(v=lambda _: pyo.Var(domain=pyo.Set(initialize=[1, 3])), o=lambda m: pyo.Objective(expr=m.v)),
            NotLinear,
            "'v' takes values",
        ),
        (_with(), InvalidFormulation, "0 active objectives"),
        (
            _with(o=lambda m: pyo.Objective(expr=m.x[0]), q=lambda m: pyo.Objective(expr=m.x[1])),
            InvalidFormulation,
            "2 active objectives",
        ),
    ],
)
def test_what_is_no_linear_program_is_refused_by_name(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hetopt.from_pyomo(model)


def test_a_variable_of_an_inactive_block_is_a_column_where_a_row_holds_it() -> None:
    model = _with(o=lambda m: pyo.Objective(expr=m.x[0], sense=pyo.maximize))
    model.b = pyo.Block()
    model.b.y = pyo.Var(bounds=(0, 2))
    model.b.deactivate()
    model.c = pyo.Constraint(expr=2 * model.b.y + model.x[0] <= 1)
    program = hetopt.from_pyomo(model)
    assert list(program.col_names) == ["x[0]", "x[1]", "b.y"]
    assert program.A.toarray().tolist() == [[1, 0, 2]]
    assert program.col_upper.tolist() == [1, 1, 2]


def test_a_fixed_share_keeps_its_value() -> None:
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    model = hetopt.Formulation((TotalRate(), EnvyFree())).build(inst)
    model.share["u1", "GPU2"].fix(0.125)
    point = hetopt.optimise(hetopt.from_pyomo(model))
    assert point.share[0, 1] == 0.125
    assert point.share[1, 1] == pytest.approx(0.625), "more, and u1 would envy: 1 + 2/8 >= 2 * share"


@given(tenant_instances(tenants=(2, 3), types=(1, 3)))
def test_names_are_the_parts_of_the_model(inst: hetopt.Instance) -> None:
    program = hetopt.Formulation((TotalRate(), EnvyFree())).compile(inst)
    types = inst.cluster.type_names
    assert list(program.row_names[: len(types)]) == [f"capacity[{k}]" for k in types]
    assert "envy_free.row[u1,u2]" in list(program.row_names)
    assert [program.col_names[j] for j in program.share[1]] == [f"share[u2,{k}]" for k in types]
    assert program.row_names[-1] == list(program.row_names)[-1]
    with pytest.raises(IndexError):
        program.row_names[program.shape[0]]


def test_chained_names_are_read_part_by_part() -> None:
    names = Names.chained([Names.chained([["a", "b"], []]), Names(3, lambda i: f"n{i}")])
    assert list(names) == ["a", "b", "n0", "n1", "n2"]
    assert names[-1] == "n2"
    assert names[1:3] == ["b", "n0"]


@given(linear_programs(rows=(1, 6)), st.data())
def test_rows_added_and_removed_leave_the_others_as_they_were(program: LinearProgram, data: Any) -> None:
    gone = sorted(data.draw(st.sets(st.integers(0, program.shape[0] - 1))))
    stay = [i for i in range(program.shape[0]) if i not in gone]
    fewer = program.without_rows(gone)
    np.testing.assert_array_equal(fewer.A.toarray(), program.A.toarray()[stay])
    assert list(fewer.row_names) == [program.row_names[i] for i in stay]
    part = sparse.csr_array(program.A)[gone]
    names = [program.row_names[i] for i in gone]
    back = fewer.with_rows(Cuts(part, program.row_lower[gone], program.row_upper[gone], names))
    np.testing.assert_array_equal(back.A.toarray(), program.A.toarray()[stay + gone])
    np.testing.assert_array_equal(back.row_upper, program.row_upper[stay + gone])
    assert list(back.row_names) == [program.row_names[i] for i in stay + gone]


def test_a_kept_stage_is_a_row_and_follows_when_others_go() -> None:
    earlier = (Objective(np.array([1.0, 2.0]), 0.25, priority=3),)
    kept = replace(_two_columns(), earlier=earlier).keep(1.75)
    assert kept.A.toarray()[-1].tolist() == [1, 2], "as it is stated"
    assert kept.row_unit is not None
    assert kept.row_unit.tolist() == [1, 1, 2], "solvers see it divided by a power of two near the largest"
    assert (kept.row_lower[-1], kept.row_upper[-1], kept.row_names[-1]) == (1.5, np.inf, "kept[3]")
    assert kept.earlier == ()
    assert list(kept.kept) == [2]
    assert list(kept.without_rows([0]).kept) == [1]
    assert kept.without_rows([2]).kept == {}


def _two_columns() -> LinearProgram:
    """The program max x + y: x + 2y <= 4, 1 <= x - y <= 2, 0 <= x <= 3, y free."""
    return LinearProgram(
        c=np.array([1.0, 1.0]),
        A=sparse.csc_array(np.array([[1.0, 2.0], [1.0, -1.0]])),
        row_lower=np.array([-np.inf, 1.0]),
        row_upper=np.array([4.0, 2.0]),
        col_lower=np.array([0.0, -np.inf]),
        col_upper=np.array([3.0, np.inf]),
        integer=np.zeros(2, dtype=bool),
        row_names=["a", "b"],
        col_names=["x", "y"],
    )


def _of_free_columns(*rows: list[float]) -> LinearProgram:
    """The program max x + y: at most 1 of each row, x and y free."""
    matrix = np.array(rows, dtype=float)
    made = LinearProgram.of(
        np.ones(2), sparse.csc_array(np.ones(matrix.shape)), np.full(len(matrix), -np.inf), np.ones(len(matrix))
    )
    explicit = made.A.copy()  # with entries of value 0
    explicit.data = matrix.T.ravel()
    return replace(made, A=explicit, col_lower=np.full(2, -np.inf))


@pytest.mark.parametrize(
    ("rows", "y", "expected"),
    [
        ([[0, 1], [1, 0]], [0, 0], [1, 1]),  # neither pays: it is the row of the largest entry
        ([[4, 0], [0.5, 0], [0, 1]], [-1, 1, 1], [0, 2, 1]),  # duals of these rows are at least 0
        ([[1, 1], [1, 0], [0, 1]], [0.5, 0.25, 0.75], [0.5, 0.5, 0.5]),  # the shared row does not pay
    ],
)
def test_columns_without_bounds_get_no_reduced_cost(rows: list[list[float]], y: list[float], expected: Any) -> None:
    program = _of_free_columns(*rows)
    assert program._without_free_prices(np.array(y, dtype=float)).tolist() == expected
    assert program.dual_bound(np.array(y, dtype=float)) == sum(expected)


def test_columns_without_bounds_that_share_all_rows_keep_their_prices() -> None:
    program = _of_free_columns([1, 1], [1, -1])
    assert program.dual_bound(np.array([1.0, 0.0])) == 1
    assert program.dual_bound(np.array([1.0, 1 / 1024])) == np.inf


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([2, 1], 0),
        ([3, 1], 1 / 5),  # the first row is exceeded by 1, its terms add up to 5
        ([1, 1], 1 / 2),  # the second lacks 1, its terms add up to 2
        ([-1, -2], 1 / 2),  # x is 1 below 0, the largest entry is 2
        ([4, 0], 2 / 4),  # x is 1 above 3, but the second row is 2 above 2
    ],
)
def test_violation_is_relative_to_the_row(x: list[float], expected: float) -> None:
    assert _two_columns().violation(np.array(x, dtype=float)) == pytest.approx(expected)


def test_rows_over_shares_find_their_columns() -> None:
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    compiled = Compiled(hetopt.Formulation((TotalRate(), EnvyFree())), inst.entities())
    program = compiled.program
    cuts = compiled.cuts(
        [("mine", Rows("row", ["u2"], (on_shares(np.array([[7.0, 0.0]]), np.array([1])),), lower=1.0))]
    )
    longer = program.with_rows(cuts)
    assert longer.row_names[program.shape[0]] == "mine.row[u2]"
    assert (longer.row_lower[-1], longer.row_upper[-1]) == (1, np.inf)
    assert longer.A.toarray()[-1, program.column["share[u2,GPU1]"]] == 7
    assert longer.A.toarray()[-1].sum() == 7
    assert program.with_rows(cuts.part(np.empty(0, dtype=np.intp))) is program.with_rows() is program


@given(linear_programs(rows=(2, 6)), st.data())
def test_rows_in_parts_are_the_program_and_keep_units(program: LinearProgram, data: Any) -> None:
    """In a program and in one another; a part without units has units of 1."""
    cuts = Cuts(sparse.csr_array(program.A), program.row_lower, program.row_upper, program.row_names)
    m = len(cuts)
    units = data.draw(st.lists(st.sampled_from([0.25, 1.0, 8.0]), min_size=m, max_size=m))
    at = data.draw(st.integers(1, m - 1))
    first, rest = np.arange(at), np.arange(at, m)
    parts = [cuts.part(first), replace(cuts, unit=np.array(units)).part(rest)]
    longer = program.without_rows(range(m)).with_rows(*parts)
    np.testing.assert_array_equal(longer.A.toarray(), program.A.toarray())
    assert list(longer.row_names) == list(program.row_names)
    assert longer.row_unit is not None
    assert longer.row_unit.tolist() == [1.0] * at + units[at:]
    assert longer.without_rows(first).row_unit.tolist() == units[at:]
    assert program.with_rows(cuts).row_unit is None


@given(linear_programs(), st.data())
def test_units_round_nothing_and_change_no_optimum(program: LinearProgram, data: Any) -> None:
    """What solvers see is the program with rows divided and columns multiplied; optima and duals come back."""
    m, n = program.shape
    power = st.integers(-8, 8).map(lambda i: 2.0**i)
    row, column = (np.array(data.draw(st.lists(power, min_size=i, max_size=i))) for i in (m, n))
    inside = replace(program, row_unit=row, col_unit=column).scaled()
    np.testing.assert_array_equal(inside.A.toarray() * row[:, None], program.A.toarray() * column)
    np.testing.assert_array_equal(inside.col_upper * column, program.col_upper)
    np.testing.assert_array_equal(inside.row_lower * row, program.row_lower)
    plain, found = hetopt.optimise(program), hetopt.optimise(replace(program, row_unit=row, col_unit=column))
    size = scale(plain.objective)
    assert abs(found.objective - plain.objective) <= EQUAL * size
    assert abs(program.objective(found.x) - found.objective) <= EQUAL * size
    assert program.violation(found.x) <= EQUAL
    assert found.row_dual is not None
    assert abs(program.dual_bound(found.row_dual) - plain.objective) <= EQUAL * size
    np.testing.assert_allclose(
        found.reduced_cost, program.c - program.A.T @ found.row_dual, atol=EQUAL * scale(program.c)
    )


def test_shares_of_several_entities_in_a_row() -> None:
    table, who = np.array([[1.0, 2.0, -3.0, -4.0]]), np.array([[2, 0]])
    together = on_shares(table, who)
    apart = [on_shares(table[:, :2], who[:, 0]), on_shares(table[:, 2:], who[:, 1])]
    assert together.row.tolist() == [0, 0, 0, 0]
    assert together.column.tolist() == [at for part in apart for at in part.column.tolist()] == [4, 5, 0, 1]
    assert together.value.tolist() == [value for part in apart for value in part.value.tolist()]
