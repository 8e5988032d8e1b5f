"""Duals, reduced costs and their ranges against finite differences of the optimum."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import hetopt
from hetopt.models import ceei, fft, gavel, oef
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.programs.linear import LinearProgram
from hetopt.proofs.strategies import linear_programs
from hetopt.tolerances import EQUAL, TRUSTED, scale

PARTS = (0.1, 0.5, 1.0)
"""How far into a range numbers are changed."""


def optimum(program: LinearProgram) -> float:
    """By scipy, of the linear relaxation."""
    matrix, upper, lower = program.A.toarray(), program.row_upper, program.row_lower
    up, low = np.isfinite(upper), np.isfinite(lower)
    found = linprog(
        -program.c,
        A_ub=np.vstack([matrix[up], -matrix[low]]),
        b_ub=np.concatenate([upper[up], -lower[low]]),
        bounds=np.column_stack([program.col_lower, program.col_upper]),
        method="highs",
    )
    assert found.status == 0, found.message
    return float(program.offset - found.fun)


def check_rows(program: LinearProgram, rows: "hetopt.Sensitivity", most: int = 40) -> None:
    """Where the binding bound moves within its range, the optimum moves by the dual."""
    before, table = optimum(program), rows.rows
    assert list(table.index) == list(program.row_names)
    for i in np.argsort(-np.abs(table["dual"].to_numpy()), kind="stable")[:most].tolist():
        row = table.iloc[i]
        equal = row["lower"] == row["upper"]
        above = np.isfinite(row["upper"]) and (
            equal or row["upper"] - row["activity"] <= row["activity"] - row["lower"]
        )
        if not above and not np.isfinite(row["lower"]):
            continue
        now = row["upper"] if above else row["lower"]
        assert row["from"] <= now + TRUSTED * scale(now)
        assert row["to"] >= now - TRUSTED * scale(now)
        for end in (row["from"], row["to"]):
            for part in PARTS:
                there = now + part * ((end if np.isfinite(end) else now + np.sign(end)) - now)
                lower, upper = program.row_lower.copy(), program.row_upper.copy()
                for bounds in (lower, upper) if equal else (upper,) if above else (lower,):
                    bounds[i] = there
                after = optimum(replace(program, row_lower=lower, row_upper=upper))
                wanted = before + row["dual"] * (there - now)
                assert after == pytest.approx(wanted, rel=TRUSTED, abs=TRUSTED * scale(before)), table.index[i]


def check_columns(program: LinearProgram, changes: "hetopt.Sensitivity", most: int = 40) -> None:
    """Where a gain moves within its range the point stays optimal; reduced costs are slopes of bounds."""
    before, table = optimum(program), changes.columns
    for j in range(min(most, len(table))):
        column = table.iloc[j]
        assert column["from"] <= column["gain"] + TRUSTED * scale(column["gain"])
        assert column["to"] >= column["gain"] - TRUSTED * scale(column["gain"])
        for end in (column["from"], column["to"]):
            for part in PARTS:
                step = part * ((end if np.isfinite(end) else column["gain"] + np.sign(end)) - column["gain"])
                c = program.c.copy()
                c[j] += step
                after = optimum(replace(program, c=c))
                wanted = before + step * column["value"]
                assert after == pytest.approx(wanted, rel=TRUSTED, abs=TRUSTED * scale(before)), table.index[j]


@settings(max_examples=30)
@given(linear_programs(rows=(1, 4)))
def test_ranges_of_any_program(program: LinearProgram) -> None:
    program = replace(program, integer=np.zeros(len(program.c), dtype=bool), earlier=())
    try:
        changes = hetopt.sensitivity(program)
    except hetopt.NotSolved:
        return
    if changes.columns["from"].isna().any():  # presolve leaves nothing to HiGHS's ranging
        assert not program.A.nnz
        return
    check_rows(program, changes)
    check_columns(program, changes)


def drawn(seed: int, n: int = 4, k: int = 3) -> hetopt.Instance:
    rng = np.random.default_rng(seed)
    speed = np.sort(1 + rng.random((n, k)) * 40, axis=1)
    speed[:, 0] = 1.0
    held = np.zeros((n, k), dtype=int)
    held[0] = 1
    return hetopt.Instance.from_speedups(speed, rng.integers(1, 5, k), weights=rng.integers(1, 60, n), held=held)


MAKES: dict[str, Callable[[], hetopt.Formulation]] = {
    "cooperative": oef.cooperative,
    "noncooperative": oef.noncooperative,
    "max-min": gavel.max_min_fairness,
    "switching": lambda: oef.cooperative() + SwitchingCost(0.5),
}


@pytest.mark.parametrize("name", MAKES)
@settings(max_examples=examples(5, 20))
@given(seed=st.integers(0, 2**32 - 1))
def test_certificates_say_what_changes_do_in_the_units_of_the_model(name: str, seed: int) -> None:
    """Weights of 1 to 60 and speedups up to 41: solvers see other numbers than the model has."""
    instance = drawn(seed)
    formulation = MAKES[name]()
    certificate = hetopt.solve(formulation, instance).certificate
    changes = certificate.sensitivity
    assert changes is not None
    program = formulation.compile(instance)
    check_rows(program, changes, most=12)
    check_columns(program, changes, most=12)
    duals, costs = certificate.duals, certificate.reduced_costs
    value = changes.columns["value"]
    assert certificate.objective == pytest.approx(float((changes.columns["gain"] * value).sum()), rel=EQUAL)
    bound = np.where(duals > 0, changes.rows["upper"][duals.index], changes.rows["lower"][duals.index])
    counted = np.abs(duals) > EQUAL * scale(duals)
    assert float((duals[counted] * bound[counted]).sum()) == pytest.approx(certificate.objective, rel=TRUSTED)
    assert (costs[value.index[value > EQUAL]].abs() <= TRUSTED * scale(program.c)).all()


def test_rows_that_were_added_lazily_have_duals_and_ranges() -> None:
    """45 tenants: 1,980 rows of which few were in the program; ranges look at all of them."""
    instance = drawn(3, n=45)
    certificate = hetopt.solve(oef.cooperative(), instance, method="simplex").certificate
    lazy = [name for name in certificate.duals.index if name.startswith("envy_free")]
    assert 0 < len(lazy) < 1980
    changes = certificate.sensitivity
    assert changes is not None
    program = oef.cooperative().compile(instance)
    assert set(changes.rows.index) == set(program.row_names)
    order = {name: i for i, name in enumerate(program.row_names)}
    rows = changes.rows.loc[sorted(changes.rows.index, key=lambda name: order[name])]
    check_rows(program, replace(changes, rows=rows), most=6)


def test_integer_rounds_speak_of_their_relaxation() -> None:
    rng = np.random.default_rng(2)
    instance = hetopt.Instance.from_jobs(
        rng.random((6, 3)) + 0.5,
        demand=rng.integers(1, 4, 6),
        work=rng.random(6) * 900 + 99,
        capacity=[4] * 3,
        time=9.0,
    )
    certificate = hetopt.solve(fft.FFT().formulation(instance), instance).certificate
    changes = certificate.sensitivity
    assert certificate.duals.empty
    assert changes is not None
    assert changes.relaxed
    model = fft.FFT().formulation(instance).build(instance)
    program = replace(hetopt.from_pyomo(model), integer=np.zeros(18, dtype=bool))
    assert list(changes.rows.index)[-1] == "kept[1]"
    order = [list(changes.rows.index).index(name) for name in program.row_names]
    check_rows(program, replace(changes, rows=changes.rows.iloc[order]))


def test_a_single_tenant_by_hand() -> None:
    """One tenant on one type: maximise 2 x, x <= 3."""
    instance = hetopt.Instance.from_speedups([[2]], [3], any_scale=True)
    changes = hetopt.solve(hetopt.Formulation((TotalRate(),)), instance).certificate.sensitivity
    assert changes is not None
    assert changes.rows.loc["capacity[GPU1]"].tolist() == [3.0, -np.inf, 3.0, 2.0, 0.0, np.inf]
    assert changes.columns.loc["share[u1,GPU1]"].tolist() == [3.0, 2.0, 0.0, 0.0, np.inf]
    assert changes.as_dict()["rows"]["capacity[GPU1]"] == {
        "activity": 3.0, "lower": "-inf", "upper": 3.0, "dual": 2.0, "from": 0.0, "to": "inf"
    }  # fmt: skip
    json.dumps(changes.as_dict(), allow_nan=False)


def test_tangents_have_duals_and_no_ranges() -> None:
    """The prices of the market: each GPU type costs what its dual says; budgets add up to the weights."""
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    certificate = hetopt.solve(ceei.equal_budgets(), instance).certificate
    changes = certificate.sensitivity
    assert changes is not None
    assert changes.rows["from"].isna().all()
    capacity = changes.rows.loc[["capacity[GPU1]", "capacity[GPU2]"], "dual"]
    assert capacity.sum() == pytest.approx(2.0, abs=1000 * TRUSTED)
    assert certificate.prices.sum() == pytest.approx(2.0)


def test_rules_and_pickled_certificates_have_none() -> None:
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    water = gavel.WaterFilling()(instance)[0].certificate
    assert water is not None
    assert water.sensitivity is None
    certificate = pickle.loads(pickle.dumps(hetopt.solve(oef.cooperative(), instance).certificate))
    assert certificate.sensitivity is None
    assert not certificate.duals.empty
