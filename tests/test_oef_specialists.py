"""The fast methods of OEF: same optimum as a general solver, a proof of their own, vertices, all special cases."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, Options
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.models.oef import bundle_interior_point, cooperative_method
from hetopt.models.oef.cooperative_method import bundled_point, by_bundles
from hetopt.models.oef.noncooperative_method import by_prices
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.programs.model import Component
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.solving import options
from hetopt.tolerances import ALIKE, EQUAL, FEASIBILITY, FINE, NUDGE, PROVEN, SUPPORT, scale

EQUAL_RATES = (TotalRate(), EqualRates())
ENVY_FREE = (TotalRate(), EnvyFree())


def compiled(components: tuple[Component, ...], inst: Instance, *, all_lazy: bool = False) -> Compiled:
    if all_lazy:
        components = tuple(replace(c, eager_up_to=0) if isinstance(c, EnvyFree) else c for c in components)
    return Compiled(Formulation(components), inst.entities())


def prices(inst: Instance) -> Point:
    return by_prices(compiled(EQUAL_RATES, inst), Options())


def bundles(inst: Instance) -> Point:
    """Without regard to size: rows are lazy, however few there are."""
    return bundled_point(compiled(ENVY_FREE, inst, all_lazy=True), Options())


def violation(part: Component, inst: Instance, point: Point) -> float:
    measure = hetopt.measure(part, inst.entities(), point.share)
    assert measure is not None
    return measure.violation


def plain(components: tuple[Component, ...], inst: Instance) -> float:
    """Optimum without the fast methods."""
    return hetopt.solve(Formulation(components), inst, method="simplex").certificate.objective


def check_proof(inst: Instance, point: Point, gap: float = PROVEN) -> None:
    """Feasible; and the duals, checked here by weak duality alone, bound the objective from above by the gap."""
    program = point.program
    assert program.violation(point.x) <= FEASIBILITY
    y = point.row_dual
    assert y is not None
    assert (np.where(np.isinf(program.row_upper), np.maximum(y, 0), 0) == 0).all(), "a dual has the wrong sign"
    assert (np.where(np.isinf(program.row_lower), np.minimum(y, 0), 0) == 0).all(), "a dual has the wrong sign"
    bound = float(np.where(y > 0, program.row_upper, np.where(y < 0, program.row_lower, 0.0)) @ y)
    slack = (program.c - program.A.T @ y)[np.isinf(program.col_upper)]
    assert slack.max() <= FINE * scale(program.c, y)
    assert point.bound == pytest.approx(bound, rel=PROVEN)
    assert point.objective <= point.bound * (1 + PROVEN)
    assert point.bound - point.objective <= gap * scale(point.bound)


@given(st.one_of(tenant_instances(tenants=(1, 8), weighted=True, zeros=True), job_instances(zeros=True)))
def test_noncooperative_on_small_instances(inst: Instance) -> None:
    point = prices(inst)
    assert point.objective == pytest.approx(plain(EQUAL_RATES, inst), rel=EQUAL)
    assert violation(EqualRates(), inst, point) <= FEASIBILITY
    check_proof(inst, point)


@given(tenant_instances(tenants=(1, 9), weighted=True, zeros=True))
def test_cooperative_on_small_instances(inst: Instance) -> None:
    point = bundles(inst)
    assert point.objective == pytest.approx(plain(ENVY_FREE, inst), rel=EQUAL)
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    check_proof(inst, point)


def market(
    n: int, k: int, seed: int, *, zeros: bool = False, kinds: int | None = None, weights: bool = False
) -> Instance:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(n), np.sort(rng.uniform(1, 10, (n, k - 1)), axis=1)])
    if zeros:
        rows[:, 1:][rng.random((n, k - 1)) < 0.3] = 0.0
    if kinds is not None:
        rows = rows[rng.integers(0, kinds, n)]
    pi = rng.uniform(0.5, 3.0, n).tolist() if weights else None
    return Instance.from_speedups(rows, rng.integers(2, 30, k).tolist(), weights=pi)


CASES = [{}, {"zeros": True}, {"kinds": 5, "weights": True}, {"weights": True, "zeros": True}]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_noncooperative_with_many_tenants(case: dict[str, object]) -> None:
    """1,200 tenants, some of them alike; still a vertex."""
    inst = market(1200, 6, 3, **case)  # type: ignore[arg-type]
    point = prices(inst)
    assert point.method == "prices"
    assert point.objective == pytest.approx(plain(EQUAL_RATES, inst), rel=EQUAL)
    assert (point.share > SUPPORT * PROVEN * inst.entities().capacity).sum() <= 1200 + 6 - 1
    check_proof(inst, point)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cooperative_with_rows_added_on_the_way(case: dict[str, object]) -> None:
    """90 tenants: most rows are left out at the start."""
    inst = market(90, 5, 4, **case)  # type: ignore[arg-type]
    point = by_bundles(compiled(ENVY_FREE, inst), Options())
    assert point.method == "bundles"
    assert point.objective == pytest.approx(plain(ENVY_FREE, inst), rel=EQUAL)
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    check_proof(inst, point)


@given(
    st.integers(2, 30),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 10**6),
    st.sampled_from([0.0, FINE * FINE, FINE, PROVEN, ALIKE, EQUAL, NUDGE]),
    st.sampled_from([0, 1, 3]),
)
@settings(max_examples=40)
def test_cooperative_with_tastes_that_are_nearly_the_same(
    n: int, k: int, models: int, seed: int, apart: float, orders: int
) -> None:
    """Few models, measured with errors, and weights over up to six orders of magnitude."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(1, 10, (models, k))[rng.integers(0, models, n)] * (1 + apart * rng.random((n, k)))
    weights = (10 ** rng.uniform(-orders, orders, n)).tolist()
    inst = Instance.from_speedups(rows, rng.integers(1, 20, k).tolist(), any_scale=True, weights=weights)
    point = by_bundles(compiled(ENVY_FREE, inst, all_lazy=True), Options())
    assert point.objective == pytest.approx(plain(ENVY_FREE, inst), rel=EQUAL)
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    if point.method == "bundles":
        check_proof(inst, point, FEASIBILITY)


@pytest.mark.parametrize("apart", [FINE, PROVEN, ALIKE, FEASIBILITY])
def test_clusters_of_tastes_need_no_general_solver(apart: float) -> None:
    """60 tenants of three models, one of them huge: tastes of a model differ by a measuring error, each of its own."""
    rng = np.random.default_rng(5)
    rows = rng.uniform(1, 10, (3, 4))[rng.integers(0, 3, 60)] * (1 + apart * 10 ** rng.uniform(-2, 2, (60, 1)))
    rows *= 1 + apart * rng.random((60, 4))
    weights = np.where(np.arange(60) == 30, 1 / EQUAL, 1.0).tolist()
    inst = Instance.from_speedups(rows, [9, 5, 14, 3], any_scale=True, weights=weights)
    point = by_bundles(compiled(ENVY_FREE, inst), Options())
    assert point.method == "bundles"
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    check_proof(inst, point, FEASIBILITY)


@pytest.mark.parametrize("huge", [False, True])
def test_distances_between_tastes_of_all_sizes_need_no_general_solver(huge: bool) -> None:
    """Powers of numbers at distances 1 to ``ALIKE`` from 1, so that envy rows hardly leave slack."""
    n = 60
    rows = (1 + ALIKE ** (np.arange(n) / n))[:, None] ** np.arange(6)
    weights = np.where(np.arange(n) == n // 2, 1 / EQUAL if huge else 1.0, 1.0).tolist()
    inst = Instance.from_speedups(rows, [9, 5, 14, 3, 7, 8], any_scale=True, weights=weights)
    point = by_bundles(compiled(ENVY_FREE, inst), Options())
    assert point.method == "bundles"
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    check_proof(inst, point, FEASIBILITY)


@pytest.mark.parametrize("steps", [2, 30])
def test_the_simplex_method_continues_where_steps_end(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any point: near the optimum, or far from it."""
    monkeypatch.setattr(bundle_interior_point, "STEPS", steps)
    inst = market(60, 5, 4)
    point = by_bundles(compiled(ENVY_FREE, inst), Options())
    assert point.objective == pytest.approx(plain(ENVY_FREE, inst), rel=EQUAL)
    assert point.bound - point.objective <= EQUAL * point.bound
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY


@pytest.mark.parametrize("status", ["time_limit", "error"])
def test_where_the_simplex_method_finds_nothing_the_bundles_remain(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """By the time limit; if it fails, with the gap that the message names."""

    def late(*_: object) -> Point:
        raise hetopt.NotSolved("nothing found", status)

    monkeypatch.setattr(bundle_interior_point, "STEPS", 2)
    monkeypatch.setattr(cooperative_method, "optimise", late)
    inst = market(60, 5, 4)
    own, chosen = compiled(ENVY_FREE, inst), Options()
    if status == "error":
        with pytest.raises(hetopt.NotSolved, match="nothing found; with gap=") as problem:
            by_bundles(own, chosen)
        assert problem.value.status == "error"
        chosen = Options(gap=float(str(problem.value).split("gap=")[1].split(",")[0]))
    point = by_bundles(own, chosen)
    assert point.status == ("gap" if status == "error" else "time_limit")
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    assert point.objective <= plain(ENVY_FREE, inst) * (1 + EQUAL) <= point.bound * (1 + EQUAL) ** 2


def test_cooperative_where_no_tenant_can_use_a_gpu_that_there_is() -> None:
    inst = Instance.from_speedups([[0, 2], [0, 5]], [3, 0], any_scale=True)
    point = bundles(inst)
    assert point.objective == point.bound == 0.0
    check_proof(inst, point)


def test_a_type_without_gpus_and_one_that_no_tenant_can_use() -> None:
    rows = [[1, 2, 0, 3], [1, 4, 0, 2], [1, 3, 0, 9]]
    inst = Instance.from_speedups(rows, [2, 0, 3, 1])
    for parts, point in (
        (EQUAL_RATES, prices(inst)),
        (ENVY_FREE, bundles(inst)),
    ):
        assert point.objective == pytest.approx(plain(parts, inst), rel=EQUAL)
        check_proof(inst, point)


def test_large_and_small_units_change_nothing() -> None:
    """Speeds a million times larger or smaller, for all or for one tenant: the same relative gap."""
    base = market(60, 4, 8).entities()
    factor = np.ones((60, 1))
    factor[7] = 1e6
    for rows in (base.speed * 1e6, base.speed / 1e6, base.speed * factor):
        inst = Instance.from_speedups(rows, base.capacity.astype(int).tolist(), any_scale=True)
        for point in (prices(inst), bundles(inst)):
            assert point.bound - point.objective <= PROVEN * point.bound
            assert point.program.violation(point.x) <= FEASIBILITY


def test_solve_takes_the_fast_method_by_default() -> None:
    inst = market(60, 3, 1)
    assert hetopt.solve(oef.cooperative(), inst).certificate.method == "bundles"
    assert hetopt.solve(oef.noncooperative(), inst).certificate.method == "prices"
    assert hetopt.solve(oef.cooperative(), inst, method="simplex").certificate.method == "simplex"
    assert hetopt.solve(oef.cooperative() + EqualRates(), inst).certificate.method == "simplex"


@pytest.mark.parametrize("steps", [0, 1, 5, 12])
def test_at_the_time_limit_shares_are_envy_free_and_the_bound_proven(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock jumps after some steps of the method."""
    inst = market(60, 4, 3)
    best = hetopt.solve(oef.cooperative(), inst).certificate
    ticks = iter(range(10**9))
    monkeypatch.setattr(options, "time", SimpleNamespace(perf_counter=lambda: 0.0 if next(ticks) <= steps else 1e9))
    stopped = hetopt.solve(oef.cooperative(), inst, time_limit=1.0)
    own = stopped.certificate
    assert own.status == "time_limit"
    assert own.violation <= FEASIBILITY
    assert hetopt.audit(inst, stopped.x).envy_free.holds
    assert own.objective <= best.objective * (1 + EQUAL)
    assert own.bound >= best.objective * (1 - EQUAL)


def test_bundles_are_good_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After six steps: moved to the first, envy-free ones only as far as envy demands, not by rounding."""
    inst = market(60, 5, 0)
    best = hetopt.solve(oef.cooperative(), inst).certificate.objective
    ticks = iter(range(10**9))
    monkeypatch.setattr(options, "time", SimpleNamespace(perf_counter=lambda: 0.0 if next(ticks) <= 6 else 1e9))
    assert hetopt.solve(oef.cooperative(), inst, time_limit=1.0).certificate.objective > 0.99 * best


def test_a_stalled_dual_simplex_is_finished_by_the_primal() -> None:
    """After a single dual iteration per solve primal simplex goes on, before and after a change."""
    inst = market(30, 4, 2)
    program = hetopt.from_pyomo(oef.noncooperative().build(inst))
    session = hetopt.Session(program)
    session.set_stall(1)
    assert session.solve().objective == pytest.approx(hetopt.optimise(program).objective, rel=EQUAL)
    session.set_objective(-program.c)
    assert session.solve().objective == pytest.approx(0.0, abs=EQUAL)


@given(tenant_instances(tenants=(2, 6), weighted=True, zeros=True))
def test_duals_are_those_of_the_rows_that_pyomo_states(inst: Instance) -> None:
    """The duals of the fast methods, put on the rows of the same names of the model, prove the same bound there."""
    for parts, point in (
        (EQUAL_RATES, prices(inst)),
        (ENVY_FREE, bundles(inst)),
    ):
        program = hetopt.from_pyomo(Formulation(parts).build(inst))
        assert point.row_dual is not None
        rows = {name: i for i, name in enumerate(program.row_names)}
        at = [rows[name] for name in point.program.row_names]
        y = np.zeros(len(rows))
        y[at] = point.row_dual
        assert program.dual_bound(y, implied=False) == pytest.approx(point.bound, rel=PROVEN)


@pytest.mark.parametrize("entry", [-1.0, 0.0])
def test_a_system_that_rounding_has_spoilt_ends_the_steps(entry: float) -> None:
    """In place of more and more on a diagonal that cannot become positive, the best bundles so far are returned."""
    spoilt = np.array([[entry, 2.0], [2.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError):
        bundle_interior_point._cholesky(spoilt)
    inst = Instance.from_speedups([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]], [2, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_interior_point, "_cholesky", lambda _: bundle_interior_point.linalg.cho_factor(spoilt))
        point = bundled_point(compiled(ENVY_FREE, inst, all_lazy=True), Options())
    assert violation(EnvyFree(), inst, point) <= FEASIBILITY
    assert point.bound >= plain(ENVY_FREE, inst) * (1 - EQUAL)
