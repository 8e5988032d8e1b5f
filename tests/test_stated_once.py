"""What a component says in Pyomo and what it says in arrays is the same program, whole and for every solver."""

import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packings import with_models

import hetopt
from hetopt import Formulation
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidFormulation, LargeModel, NotLinear
from hetopt.models import baselines, ceei, fft, gavel, oef
from hetopt.models.concave import CompletionTime, LogRate
from hetopt.models.fairness_components import EnvyFree, EqualRates, SharingIncentive
from hetopt.models.fft.fft_components import AgeCost, Compensation, OneType, Switching, VolumeCost, WorkConserving
from hetopt.models.gavel.gavel_components import FinishTime, InOrder, LeastRatio, SoonestEnd, TimeFraction
from hetopt.models.objectives import LinearGain, SwitchingCost, TotalRate, WeightedRate
from hetopt.models.oef.oef_formulations import SortedTypes
from hetopt.models.shockwave import LogProgress, LongestTimeLeft, OneTypePerRound
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram
from hetopt.programs.pyomo_reading import from_pyomo
from hetopt.solving.highs import Session
from hetopt.tolerances import EQUAL, FEASIBILITY, FINE, PROVEN, TRUSTED

Make = Callable[[], hetopt.Formulation]


@st.composite
def tenants(draw: st.DrawFn, least: int = 1, most: int = 6) -> hetopt.Instance:
    """Tenants with weights, some of whom cannot use every type, and some GPUs held."""
    n, k = draw(st.integers(least, most)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    speed = 1 + np.sort(rng.integers(0, 12, (n, k)) / 4, axis=1)
    speed[rng.random((n, k)) < 0.15] = 0.0
    speed[:, 0] = 1.0
    capacity = rng.integers(0 if draw(st.booleans()) else 1, 6, k)
    capacity[rng.integers(k)] += 1
    held = np.zeros((n, k), dtype=int) if draw(st.booleans()) else None
    if held is not None:
        held[rng.integers(0, n, k), np.arange(k)] = rng.integers(0, capacity + 1)
    weights = rng.integers(1, 4, n) / 2 if draw(st.booleans()) else None
    return hetopt.Instance.from_speedups(speed, capacity, weights=weights, **({} if held is None else {"held": held}))


@st.composite
def jobs(draw: st.DrawFn, most: int = 6) -> hetopt.Instance:
    """Gangs that have arrived, some with work done, on up to three types."""
    n, k = draw(st.integers(1, most)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    capacity = rng.integers(2, 8, k)
    speed = rng.integers(1, 9, (n, k)) / 2
    speed[rng.random((n, k)) < 0.1] = 0.0
    speed[:, int(capacity.argmax())] += 0.5
    made = hetopt.Instance.from_jobs(
        speed,
        demand=rng.integers(1, int(capacity.max()) + 1, n),
        work=rng.integers(100, 9000, n),
        arrival=rng.integers(0, 900, n),
        checkpoint_bytes=rng.integers(0, 4, n) * 1e9,
        weight=rng.integers(1, 4, n),
        capacity=capacity,
        time=1000.0,
    )
    return with_models(made, draw(st.integers(0, 9)))


COSTS = (OneType(), AgeCost(), VolumeCost(), Switching(), Compensation({}), WorkConserving())

OVER_TENANTS: dict[str, Make] = {
    "cooperative": oef.cooperative,
    "noncooperative": oef.noncooperative,
    "sorted": lambda: oef.noncooperative(canonical=True),
    "switching": lambda: oef.cooperative() + SwitchingCost(0.5),
    "efficiency": baselines.efficiency_only,
    "sharing incentive": baselines.sharing_incentive_only,
    "max-min": gavel.max_min_fairness,
    "max-min of one GPU": lambda: gavel.max_min_fairness(tenant_gpus=1),
    "weighted": gavel.total_throughput,
    "everything": lambda: hetopt.Formulation(
        (WeightedRate(), EnvyFree(), SharingIncentive(), SwitchingCost(0.25), SortedTypes(), TimeFraction(99))
    ),
}
OVER_JOBS: dict[str, Make] = {
    "FFT of jobs": lambda: hetopt.Formulation(COSTS, kind="jobs"),
    "FFT without stages": lambda: hetopt.Formulation(COSTS[:-1], kind="jobs"),
    "divisible": lambda: hetopt.Formulation((*COSTS[1:], TimeFraction(), TotalRate()), kind="jobs"),
    "max-min of jobs": gavel.max_min_fairness,
    "max-min by time": lambda: gavel.max_min_fairness(scale_by_demand=False),
    "makespan": gavel.makespan,
    "space sharing": gavel.max_min_packing,
    "space sharing in order": lambda: gavel.with_space_sharing(gavel.fifo() + SwitchingCost(0.5)),
    "fifo": gavel.fifo,
    "shortest": gavel.shortest_job_first,
    "throughput": gavel.total_throughput,
    "envy-free": lambda: hetopt.Formulation((TotalRate(), EnvyFree(), TimeFraction()), kind="jobs"),
    "equal rates": lambda: hetopt.Formulation((TotalRate(), EqualRates(), TimeFraction()), kind="jobs"),
    "window of Shockwave": lambda: hetopt.Formulation(
        (OneTypePerRound(1), LogProgress(1, ROUND_SECONDS), LongestTimeLeft(0.25, ROUND_SECONDS))
    ),
    "sharing incentive of jobs": lambda: hetopt.Formulation(
        (TotalRate(), SharingIncentive(), TimeFraction()), kind="jobs"
    ),
}
CURVED: dict[str, Make] = {
    "ceei": ceei.equal_budgets,
    "mean completion time": gavel.mean_completion_time,
    "finish-time fairness": gavel.finish_time_fairness,
}


def entries(program: LinearProgram) -> dict[str, dict[str, float]]:
    """Row name -> column name -> coefficient, with bounds; zeros left out."""
    matrix, columns = program.A.tocsr(), list(program.col_names)
    found = {}
    for i, name in enumerate(program.row_names):
        row = {columns[j]: v for j, v in zip(matrix[[i]].indices.tolist(), matrix[[i]].data.tolist(), strict=True) if v}
        found[name] = {**row, ">=": float(program.row_lower[i]), "<=": float(program.row_upper[i])}
    return found


def check_same(found: LinearProgram, wanted: LinearProgram) -> None:
    """Same columns, bounds, objective and rows, by name."""
    columns = set(found.col_names)
    assert columns == set(wanted.col_names)
    for key in ("c", "col_lower", "col_upper", "integer"):
        left, right = (dict(zip(p.col_names, getattr(p, key).tolist(), strict=True)) for p in (found, wanted))
        assert left == pytest.approx(right, rel=FINE, abs=FINE), key
    assert found.offset == pytest.approx(wanted.offset)
    left, right = entries(found), entries(wanted)
    assert left.keys() == right.keys()
    for name, row in left.items():
        assert row == pytest.approx(right[name], rel=FINE, abs=FINE), name


def check_stated_once(formulation: hetopt.Formulation, instance: hetopt.Instance) -> None:
    """The Pyomo model is the compiled program; the objective has priority 0, and optima of others stand as rows."""
    compiled = formulation.compile(instance)
    gains = {objective.priority: objective.c for objective in compiled.objectives}
    built = from_pyomo(formulation.build(instance))
    kept = {name: i for i, name in enumerate(built.row_names) if name.startswith("kept[")}
    check_same(built.without_rows(list(kept.values())), replace(compiled, c=gains.pop(0), earlier=(), priority=0))
    assert kept.keys() == {f"kept[{priority}]" for priority in gains}
    for priority, c in gains.items():
        row = built.A.tocsr()[[kept[f"kept[{priority}]"]]].toarray()[0]
        by_name = dict(zip(built.col_names, row.tolist(), strict=True))
        assert by_name == pytest.approx(dict(zip(compiled.col_names, c.tolist(), strict=True)))


@pytest.mark.parametrize("name", OVER_TENANTS)
@settings(max_examples=examples(12, 60))
@given(tenants())
def test_models_over_tenants_are_the_compiled_programs(name: str, instance: hetopt.Instance) -> None:
    check_stated_once(OVER_TENANTS[name](), instance)


@pytest.mark.parametrize("name", OVER_JOBS)
@settings(max_examples=examples(12, 60))
@given(jobs())
def test_models_over_jobs_are_the_compiled_programs(name: str, instance: hetopt.Instance) -> None:
    check_stated_once(OVER_JOBS[name](), instance)


@pytest.mark.parametrize("name", {**OVER_TENANTS, **OVER_JOBS})
@settings(max_examples=examples(12, 60))
@given(st.data())
def test_exact_rows_are_the_rows_in_fractions(name: str, data: st.DataObject) -> None:
    """No coefficient is a float, and each is the float's value up to rounding."""
    over_tenants = name in OVER_TENANTS
    instance = data.draw(tenants() if over_tenants else jobs())
    formulation = (OVER_TENANTS if over_tenants else OVER_JOBS)[name]()
    compiled = Compiled(formulation, formulation.entities(instance))
    exact, floats = compiled.exact.table, compiled.table
    assert all(isinstance(v, Fraction | int) for v in exact.value.tolist())
    assert (exact.row == floats.row).all()
    assert (exact.column == floats.column).all()
    assert exact.value.astype(float) == pytest.approx(floats.value, rel=FINE)
    assert exact.upper.astype(float) == pytest.approx(floats.upper.astype(float), rel=FINE)
    for level, (c, constant) in compiled.objectives.items():
        assert compiled.exact.objectives[level][0].astype(float) == pytest.approx(c.astype(float), rel=PROVEN, abs=FINE)
        assert float(compiled.exact.objectives[level][1]) == pytest.approx(float(constant))


def test_names_with_signs_are_distinguished() -> None:
    """Pairs of ``a`` and ``b,a`` and of ``a,b`` and ``a`` are not one row; the names are those of Pyomo."""
    names, types = ["a", "b,a", "a,b", "x[1]", "7"], ["T4.large", "V100"]
    inst = hetopt.Instance.from_speedups([[1, 2 + i] for i in range(5)], dict.fromkeys(types, 2), tenants=names)
    wanted = oef.cooperative() + SharingIncentive() + SwitchingCost(0.5)
    program = wanted.compile(inst)
    assert len(set(program.row_names)) == program.shape[0]
    assert set(from_pyomo(wanted.build(inst)).row_names) == set(program.row_names)
    found = hetopt.solve(wanted, inst, exact=True)
    assert found.certificate.exact is not None
    assert list(found.certificate.prices.index) == types


class Idle(LinearGain):
    """No gain, for formulations of a component that has none."""

    name = "idle"

    def coefficients(self, entities: Any) -> Any:
        """(n, k) zeros."""
        return np.zeros(entities.shape)


@pytest.mark.parametrize("name", {**OVER_TENANTS, **OVER_JOBS})
@settings(max_examples=examples(12, 60))
@given(st.data())
def test_measures_are_what_a_solver_says_of_the_same_shares(name: str, data: st.DataObject) -> None:
    """The model of each component alone, with the shares fixed: its optimum, or that there is none."""
    over_tenants = name in OVER_TENANTS
    instance = data.draw(tenants() if over_tenants else jobs())
    for part in (OVER_TENANTS if over_tenants else OVER_JOBS)[name]():
        alone = hetopt.Formulation((part, Idle()), kind="tenants" if over_tenants else "jobs")
        model = alone.build(instance)
        entities = model.entities
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        share = np.rint(rng.random(entities.shape) * 4) / 4 * entities.allowed
        for variables, values in zip(model.share_grid, share.tolist(), strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.domain = pyo.Reals
                variable.fix(value)
        if isinstance(part, gavel.SpaceSharing):  # its rows have several own columns, whose values are needed
            assert hetopt.measure(part, entities, share) is None
            continue
        model.capacity.deactivate()
        if model.component("kept") is not None:
            model.kept.deactivate()
        own = hetopt.measure(part, entities, share)
        assert own is not None
        if getattr(part, "binary", False):
            assert (own.violation > 0) == (bool((share % 1).any()) or share.sum(axis=1).max() > 1)
            continue
        try:
            best = Session(from_pyomo(model), presolve=False).solve().objective if list(own_variables(model)) else None
        except hetopt.NotSolved:
            assert own.violation > 0
            continue
        if best is None:
            worst = max((violated(row) for row in model.component_data_objects(pyo.Constraint, active=True)), default=0)
            assert (own.violation > PROVEN) == (worst > PROVEN)
            best = pyo.value(model.gains[0])
        else:
            assert own.violation <= EQUAL
        if getattr(part, "priority", 0) == 0:
            assert own.gain == pytest.approx(best, rel=EQUAL, abs=PROVEN), part.name


def own_variables(model: Any) -> Any:
    """Variables that are not shares."""
    return (v for v in model.component_data_objects(pyo.Var) if not v.fixed)


def violated(row: Any) -> float:
    """By how much a Pyomo row is violated."""
    body = pyo.value(row.body)
    low = -np.inf if row.lower is None else pyo.value(row.lower)
    high = np.inf if row.upper is None else pyo.value(row.upper)
    return max(low - body, body - high, 0.0)


@given(jobs())
def test_measures_of_concave_gains_are_the_values_of_the_model(instance: hetopt.Instance) -> None:
    for part, name in ((LogRate(), "log_rate"), (CompletionTime(), "completion_time"), (FinishTime(), "finish_time")):
        model = hetopt.Formulation((part,), kind="jobs").build(instance)
        share = np.array([[v.value for v in row] for row in model.share_grid])
        own = hetopt.measure(part, model.entities, share)
        assert own is not None
        assert own.violation == 0
        if name == "finish_time":  # the least rho that the rows allow
            block = model.finish_time
            block.rho.value = 0.0
            assert own.gain == pytest.approx(-max(violated(row) for row in block.row.values()))
        else:
            assert own.gain == pytest.approx(pyo.value(model.objective))


# --- whole, for every solver ------------------------------------------------------------------------------------------

SOLVERS = [name for name in ("appsi_highs", "highs", "gurobi_direct") if pyo.SolverFactory(name).available(False)]


def certified(formulation: hetopt.Formulation, instance: hetopt.Instance) -> float:
    return hetopt.solve(formulation, instance).certificate.objective


def handed_over(formulation: hetopt.Formulation, instance: hetopt.Instance, solver: str) -> float:
    """The objective where one of Pyomo's solvers leaves the model."""
    model = formulation.build(instance)
    found = pyo.SolverFactory(solver)
    if solver == "scip_direct":
        found.solve(model, solver_options={"limits/gap": FEASIBILITY})
    else:
        found.solve(model)
    return float(pyo.value(model.objective))


def draw_speeds(n: int, k: int, seed: int = 0) -> hetopt.Instance:
    rng = np.random.default_rng(seed)
    speed = np.sort(1 + rng.random((n, k)) * 4, axis=1)
    speed[:, 0] = 1.0
    return hetopt.Instance.from_speedups(speed, [2 + n // 4] * k)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", OVER_TENANTS)
@settings(max_examples=4)
@given(instance=tenants(least=2, most=8))
def test_any_solver_finds_the_certified_objective_over_tenants(
    name: str, solver: str, instance: hetopt.Instance
) -> None:
    formulation = OVER_TENANTS[name]()
    try:
        wanted = certified(formulation, instance)
    except hetopt.NotSolved:
        assume(False)
    assert handed_over(formulation, instance, solver) == pytest.approx(wanted, rel=EQUAL, abs=EQUAL)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", OVER_JOBS)
@settings(max_examples=4)
@given(instance=jobs(most=8))
def test_any_solver_finds_the_certified_objective_over_jobs(name: str, solver: str, instance: hetopt.Instance) -> None:
    formulation = OVER_JOBS[name]()
    try:
        wanted = certified(formulation, instance)
    except hetopt.NotSolved:
        assume(False)
    assert handed_over(formulation, instance, solver) == pytest.approx(wanted, rel=TRUSTED, abs=TRUSTED)


SIZED = {name: make for name, make in {**OVER_TENANTS, **OVER_JOBS}.items() if "envy_free" not in make().names}


@pytest.mark.parametrize("name", SIZED)
@settings(max_examples=3)
@given(n=st.integers(2, 100), seed=st.integers(0, 2**32 - 1))
def test_built_models_of_any_size_have_the_certified_objective(name: str, n: int, seed: int) -> None:
    """Those of envy, with their n squared rows, are below."""
    rng = np.random.default_rng(seed)
    if name in OVER_TENANTS:
        instance = draw_speeds(n, 3, seed)
    else:
        instance = hetopt.Instance.from_jobs(
            rng.random((n, 3)) + 0.5,
            demand=rng.integers(1, 4, n),
            work=rng.random(n) * 1e4 + 500,
            arrival=rng.random(n) * 400,
            capacity=[n // 2 + 4] * 3,
            time=500.0,
        )
    formulation = SIZED[name]()
    wanted = certified(formulation, instance)
    assert handed_over(formulation, instance, "appsi_highs") == pytest.approx(wanted, rel=TRUSTED)


@pytest.mark.parametrize("n", [2, 20, 40, 41, 60, 100])
def test_cooperative_models_are_whole_whatever_their_size(n: int) -> None:
    instance = draw_speeds(n, 4)
    model = oef.cooperative().build(instance)
    assert len(model.envy_free.row) == n * (n - 1)
    wanted = certified(oef.cooperative(), instance)
    assert handed_over(oef.cooperative(), instance, "appsi_highs") == pytest.approx(wanted, rel=EQUAL)
    assert hetopt.Session(from_pyomo(model)).solve().objective == pytest.approx(wanted, rel=EQUAL)


@pytest.mark.parametrize("n", [2, 12, 40, 100])
def test_rounds_of_fft_run_the_most_gpus_in_any_solver(n: int) -> None:
    """K* of [FFT, eq. 7] is a number in the model; without it no job would run."""
    rng = np.random.default_rng(n)
    demand, capacity = rng.integers(1, 5, n), np.array([n // 2 + 4] * 3)
    instance = hetopt.Instance.from_jobs(
        rng.random((n, 3)) + 0.5, demand=demand, work=rng.random(n) * 1e4 + 500, capacity=capacity, time=500.0
    )
    formulation = fft.FFT().formulation(instance)
    model = formulation.build(instance)
    most = hetopt.solve(hetopt.Formulation((OneType(), WorkConserving()), kind="jobs"), instance)
    assert pyo.value(model.kept[1].lower) == round(most.certificate._point.objective)  # type: ignore[union-attr]
    assert handed_over(formulation, instance, "appsi_highs") == pytest.approx(
        certified(formulation, instance), rel=TRUSTED
    )


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("n", [2, 5])
def test_scip_finds_the_certified_objective_of_concave_models(name: str, n: int) -> None:
    if not pyo.SolverFactory("scip_direct").available(False):
        pytest.skip("SCIP is not installed: pip install pyscipopt")
    rng = np.random.default_rng(n)
    instance = hetopt.Instance.from_jobs(
        rng.random((n, 2)) + 0.5, demand=np.ones(n), work=rng.random(n) * 100 + 50, capacity=[1, 1]
    )
    found = handed_over(CURVED[name](), instance, "scip_direct")
    assert found == pytest.approx(certified(CURVED[name](), instance), rel=10 * TRUSTED)


@pytest.mark.parametrize("name", CURVED)
def test_concave_models_are_not_taken_for_linear(name: str) -> None:
    instance = hetopt.Instance.from_jobs([[1.0], [2.0]], demand=[1, 1], work=[9, 9], capacity=[1])
    with pytest.raises(NotLinear):
        from_pyomo(CURVED[name]().build(instance))
    with pytest.raises(NotLinear, match="is concave"):
        CURVED[name]().compile(instance)


# --- rows that are left out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [*SOLVERS, "scip_direct", "lp", "mps", "nl"])
def test_a_model_that_lacks_rows_is_refused_by_name(how: str, tmp_path: Any) -> None:
    model = oef.cooperative().build(draw_speeds(41, 2), lazy=True)
    assert model.left_out == ("envy_free",)
    assert len(model.envy_free.row) == 0
    assert "envy_free" in model.rows_left_out.doc
    if how in ("lp", "mps", "nl"):
        with pytest.raises(Exception, match="1640 rows of envy_free"):
            model.write(str(tmp_path / f"model.{how}"))
        return
    solver = pyo.SolverFactory(how)
    if not solver.available(False):
        pytest.skip(f"{how} is not installed")
    with pytest.raises(Exception, match="1640 rows of envy_free"):
        solver.solve(model)


def test_from_pyomo_takes_rows_along_that_a_model_lacks() -> None:
    instance = draw_speeds(41, 2)
    lazy, whole = (from_pyomo(oef.cooperative().build(instance, lazy=lazy)) for lazy in (True, False))
    check_same(lazy, whole)
    for change in (lambda m: m.envy_free.row.deactivate(), lambda m: m.del_component(m.envy_free)):
        models = [oef.cooperative().build(instance, lazy=lazy) for lazy in (True, False)]
        for model in models:
            change(model)
        assert [from_pyomo(model).shape for model in models] == [(2, 2 * len(instance.tenants))] * 2
    assert not oef.cooperative().build(draw_speeds(40, 2), lazy=True).left_out


def test_a_component_with_concave_rows_states_its_own_model() -> None:
    """Its rows would be absent, and the objective without limit."""

    class Roots(hetopt.ArrayComponent):
        name = "roots"

        def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
            return LogRate().rows(entities)

    instance = draw_speeds(2, 2)
    assert hetopt.solve(Formulation((Roots(),)), instance).certificate.status in ("optimal", "gap")
    with pytest.raises(InvalidFormulation, match=r"'roots' has concave rows \(curves\); override its add"):
        Formulation((Roots(),)).build(instance)


def test_every_family_that_is_left_out_is_counted() -> None:
    class Twice(EnvyFree):
        def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
            (first,) = super().rows(entities).rows
            return hetopt.Arrays(rows=(first, replace(first, name="again")))

    model = oef.cooperative().replaced(Twice()).build(draw_speeds(41, 2), lazy=True)
    assert model.rows_left_out.doc.startswith("3280 rows of envy_free are left out")


def test_a_large_model_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetopt.formulations.formulation.LARGE", 1000)
    with pytest.warns(LargeModel, match=r"6,560 of the terms are of envy_free: .*lazy=True"):
        oef.cooperative().build(draw_speeds(41, 2))
    with pytest.warns(LargeModel, match=r"380 rows with 1,520 terms .* arrays instead\.$"):  # lazy=True would not help
        oef.cooperative().build(draw_speeds(20, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oef.cooperative().build(draw_speeds(41, 2), lazy=True)
        oef.cooperative().build(draw_speeds(10, 2))


# --- as the paper prints it -------------------------------------------------------------------------------------------


def test_rows_are_printed_as_in_the_paper() -> None:
    """[OEF, eq. 10c] for two tenants of weight 1: no row is scaled."""
    model = oef.cooperative().build(hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1]))
    out = io.StringIO()
    model.envy_free.row.pprint(ostream=out)
    text = out.getvalue()
    assert "share[u1,GPU1] + 2.0*share[u1,GPU2]" in text
    assert "5.0*share[u2,GPU2]" in text


@pytest.mark.parametrize("name", {**OVER_TENANTS, **OVER_JOBS, **CURVED})
def test_the_objective_is_the_sum_of_named_gains(name: str) -> None:
    makes = {**OVER_TENANTS, **OVER_JOBS, **CURVED}
    instance = (
        draw_speeds(3, 2)
        if name in OVER_TENANTS
        else hetopt.Instance.from_jobs(
            [[1.0, 2.0], [2.0, 2.5]], demand=[1, 2], work=[900, 800], capacity=[2, 2], time=10.0
        )
    )
    model = makes[name]().build(instance)
    gains = [block.gain for block in model.component_objects(pyo.Block) if block.component("gain") is not None]
    assert gains
    last = [gain for gain in gains if getattr(makes[name]()[gain.parent_block().name], "priority", 0) == model.priority]
    for variable in model.component_data_objects(pyo.Var):
        variable.set_value(0.7, skip_validation=True)
    assert pyo.value(model.objective) == pytest.approx(sum(pyo.value(gain) for gain in last))


def test_ages_of_jobs_stand_in_their_own_block() -> None:
    instance = hetopt.Instance.from_jobs([[2.0, 1.0]], demand=[1], work=[6000], capacity=[1, 1], time=600.0)
    model = fft.FFT().formulation(instance).build(instance)
    model.share["j1", "GPU1"].value, model.share["j1", "GPU2"].value = 1, 0
    age, part = 600.0 / ROUND_SECONDS, 2.0 / 6000  # throughputs are per round
    assert pyo.value(model.age_cost.gain) == pytest.approx(-age * part)
    assert pyo.value(model.volume_cost.gain) == pytest.approx(-1 / part)


def test_every_component_is_in_one_of_the_formulations() -> None:
    """Each component of the library that has both statements is in one of the formulations above."""
    makes = [*OVER_TENANTS.values(), *OVER_JOBS.values(), *CURVED.values()]
    used = {type(part) for make in makes for part in make()}
    assert {TotalRate, WeightedRate, EnvyFree, EqualRates, SharingIncentive, SwitchingCost, SortedTypes} <= used
    assert {LeastRatio, SoonestEnd, InOrder, TimeFraction, OneType, WorkConserving} <= used
