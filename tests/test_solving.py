"""From an instance to an allocation: options, methods, stages, lazy rows, policies."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Whole, lp
from refused import refused

import hetopt
from hetopt.errors import InvalidOption, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models import fft, oef
from hetopt.models.fairness_components import EnvyFree, EqualRates, SharingIncentive
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.programs.arrays import Arrays, Columns, RowFamily, Rows, on_own, on_shares
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Objective, Point
from hetopt.proofs.strategies import job_instances, linear_programs, tenant_instances
from hetopt.solving import optimising as methods
from hetopt.solving.highs import Session
from hetopt.solving.optimising import Method, exactly, method_for, register_method
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, KEPT_OPTIMUM, scale

INF = np.inf
INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
COOPERATIVE = Formulation((TotalRate(), EnvyFree()), title="cooperative")
LAZY = Formulation((TotalRate(), EnvyFree(eager_up_to=0)))


@pytest.mark.parametrize(
    ("settings_", "key", "match"),
    [
        ({"method": "fastest"}, "method", "is 'fastest'; it must be one of auto, simplex"),
        ({"solver": ""}, "solver", None),
        ({"solver": 3}, "solver", None),
        ({"time_limit": 0}, "time_limit", None),
        ({"time_limit": float("nan")}, "time_limit", None),
        ({"gap": -0.1}, "gap", None),
        ({"threads": 0}, "threads", None),
        ({"threads": 1.5}, "threads", None),
        ({"seed": -1}, "seed", None),
        ({"seed": "7"}, "seed", None),
        ({"exact": "yes"}, "exact", None),
        ({"tempo": 1}, "tempo", "known: exact, gap"),
    ],
)
def test_options_are_validated(settings_: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        hetopt.solve(COOPERATIVE, INST, **settings_)


def test_settings_override_options() -> None:
    allocation = hetopt.solve(COOPERATIVE, INST, Options(method="interior-point"), method="simplex")
    assert allocation.certificate.method == "simplex"


@pytest.mark.parametrize("method", ["auto", "simplex", "interior-point", "plain"])
@pytest.mark.parametrize("formulation", [COOPERATIVE, LAZY], ids=["eager", "lazy"])
def test_every_method_finds_the_optimum(formulation: Formulation, method: Any) -> None:
    certificate = hetopt.solve(formulation, INST, method=method).certificate
    assert certificate.objective == pytest.approx(5.25)
    assert certificate.violation <= EQUAL
    assert (certificate.method == "interior-point") == (method == "interior-point")
    if method == "plain":
        assert certificate.passes == 1


def test_an_interior_point_is_no_vertex_and_has_no_basis() -> None:
    """Two tenants alike: every split is optimal, a vertex gives each type away whole."""
    program = hetopt.from_pyomo(
        Formulation((TotalRate(),)).build(hetopt.Instance.from_speedups([[1, 2], [1, 2]], [1, 1]))
    )
    vertex = hetopt.optimise(program, Options(method="simplex"))
    inside = hetopt.Session(program, Options(method="interior-point"), presolve=False).solve()
    assert vertex.basis is not None
    assert inside.basis is None
    assert set(np.round(vertex.x)) == set(vertex.x)
    assert inside.x.min() > EQUAL
    assert inside.objective == pytest.approx(vertex.objective)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that a test registers are gone after it."""
    monkeypatch.setattr(methods, "_registered", {})


def _special(compiled: Compiled, options: Options) -> Point:
    """A wrong claim on purpose, so that it shows who solved the program."""
    point = hetopt.optimise(compiled.program, options, compiled.separation())
    return replace(point, method="special", bound=point.bound + 100.0)


@pytest.mark.parametrize(
    ("settings_", "method", "bound"),
    [
        ({}, "special", 105.25),
        ({"gap": 0.5}, "special", 105.25),
        ({"method": "simplex"}, "simplex", 5.25),
        ({"method": "plain"}, "simplex", 5.25),
        ({"method": "interior-point"}, "interior-point", 5.25),
        ({"solver": "appsi_highs"}, "chosen by the solver", 5.25),
        ({"exact": True}, "simplex", 5.25),
    ],
)
@pytest.mark.usefixtures("registered")
def test_a_registered_method_solves_what_is_left_to_hetopt(
    settings_: dict[str, Any], method: str, bound: float
) -> None:
    register_method(Method("special", exactly(TotalRate, EnvyFree), _special))
    certificate = hetopt.solve(COOPERATIVE, INST, **settings_).certificate
    assert (certificate.method, certificate.bound) == (method, pytest.approx(bound))
    assert certificate.objective == pytest.approx(5.25), "measured on the shares, whatever the method claims"


@pytest.mark.usefixtures("registered")
def test_the_method_registered_last_is_asked_first() -> None:
    def made(name: str, label: str, *classes: type) -> Method:
        return Method(name, exactly(*classes), lambda *given_: replace(_special(*given_), method=label))

    def used() -> str:
        return hetopt.solve(COOPERATIVE, INST).certificate.method

    register_method(made("one", "first", EnvyFree, TotalRate))
    register_method(made("two", "second", TotalRate, EnvyFree))
    register_method(made("other", "for something else", TotalRate))
    assert used() == "second"
    register_method(made("one", "first again", TotalRate, EnvyFree))
    assert used() == "first again", "it takes the place of the one with its name, and is now the last"
    register_method(made("one", "for something else", TotalRate))
    assert used() == "second"
    with pytest.raises(InvalidOption, match="method is"):
        register_method("special")


def test_methods_are_found_by_the_components() -> None:
    """Not by who made the formulation: composed by hand, in any order, with a part removed and added again."""
    fair = Formulation((EqualRates(), TotalRate()))

    def found(what: Formulation, **asked: Any) -> str | None:
        method = method_for(Compiled(what, what.entities(INST)), Options(**asked))
        return None if method is None else method.name

    assert found(fair) == found(oef.noncooperative()) == "oef-noncooperative"
    assert found(fair.without("equal_rates")) is None
    assert found(fair.without("equal_rates") + EqualRates()) == "oef-noncooperative"
    assert found(fair + SharingIncentive()) is None
    assert found(oef.noncooperative(canonical=True)) is None
    assert found(LAZY) == "oef-cooperative"
    assert found(COOPERATIVE) is None  # so few tenants are for a general solver
    assert found(fair, method="simplex") is found(fair, exact=True) is found(fair, solver="appsi_highs") is None
    one, other = (hetopt.solve(what, INST) for what in (fair, oef.noncooperative()))
    assert one.certificate.method == other.certificate.method == "prices"
    assert one.x.tolist() == other.x.tolist()


@dataclass(frozen=True)
class _Counting:
    """A policy that remembers how often it was asked."""

    def __call__(self, instance: hetopt.Instance, state: int | None = None) -> tuple[Any, int]:
        return hetopt.solve(COOPERATIVE, instance), (state or 0) + 1


class _WithOptions(_Counting):
    """A procedure that has options of a solver."""

    options = Options()


def test_policies_are_run_once_and_take_no_options() -> None:
    allocation = hetopt.solve(_Counting(), INST)
    assert allocation.certificate.objective == pytest.approx(5.25)
    assert isinstance(_Counting(), hetopt.Policy)
    for given_ in ({"exact": True}, {"options": Options()}):
        with pytest.raises(InvalidOption, match="_Counting is a procedure, not a program for a solver"):
            hetopt.solve(_Counting(), INST, **given_)
    with pytest.raises(InvalidOption, match="options of its own solver are its setting options="):
        hetopt.solve(_WithOptions(), INST, gap=0.1)


def test_a_policy_with_a_program_solves_it_with_the_options() -> None:
    jobs = hetopt.Instance.from_jobs([[2.0, 1.0], [1.0, 3.0]], [1, 2], [10, 20], [1, 2])
    exact = hetopt.solve(fft.FFT(), jobs, exact=True).certificate.exact
    assert exact is not None
    assert exact.optima[0] == 3  # GPUs in use
    assert float(exact.objective) == pytest.approx(hetopt.solve(fft.FFT(), jobs).certificate.objective)


@settings(max_examples=30)
@given(tenant_instances(tenants=(2, 5), types=(1, 4), weighted=True, zeros=True))
def test_lazy_rows_give_what_eager_rows_give(inst: hetopt.Instance) -> None:
    lazy, eager = hetopt.solve(LAZY, inst).certificate, hetopt.solve(COOPERATIVE, inst).certificate
    assert abs(lazy.objective - eager.objective) <= EQUAL * scale(eager.objective)
    assert max(lazy.violation, eager.violation) <= EQUAL


@given(tenant_instances(tenants=(2, 4), types=(2, 3)))
def test_lazy_rows_of_several_components_join(inst: hetopt.Instance) -> None:
    """Two lazy components in one formulation, one of which speaks about columns of its own."""
    cap = _LazyCap()
    alone = hetopt.solve(Formulation((TotalRate(), cap)), inst)
    both = hetopt.solve(LAZY + cap, inst)
    assert alone.certificate.violation <= EQUAL
    assert both.certificate.violation <= EQUAL
    assert both.certificate.objective <= alone.certificate.objective + EQUAL * scale(alone.certificate.objective)
    plain = hetopt.solve(LAZY + cap, inst, method="plain").certificate
    built = hetopt.optimise(hetopt.from_pyomo((LAZY + cap).build(inst)))
    for objective in (plain.objective, built.objective):
        assert abs(objective - both.certificate.objective) <= EQUAL * scale(plain.objective)


@dataclass(frozen=True)
class _LazyCap:
    """No entity gets more than half of all GPUs: total[e] = sum_k gpus[e, k] is its own column, its limit is lazy."""

    name: str = "cap"

    def add(self, block: Any, model: hetopt.Model) -> float:
        block.total = pyo.Var(model.E)
        block.row = pyo.Constraint(model.E, rule=lambda b, e: b.total[e] == sum(model.share[e, k] for k in model.K))
        block.limit = pyo.Constraint(model.E)
        for e in () if model.lazy else model.E:
            block.limit[e] = block.total[e] <= self.most(model.entities)
        return 0

    def most(self, entities: hetopt.Entities) -> float:
        return float(entities.capacity.sum()) / 2

    def rows(self, entities: hetopt.Entities) -> Arrays:
        n, most, names = len(entities.names), self.most(entities), entities.names
        total = Rows(
            "row", names, (on_own(np.ones(n), "total", np.arange(n)), on_shares(-np.ones(entities.shape))), 0.0, 0.0
        )
        limit = RowFamily(
            name="limit",
            size=n,
            entries=1,
            make=lambda at: Rows("limit", [names[e] for e in at], (on_own(np.ones(len(at)), "total", at),), upper=most),
            most_violated=lambda share: np.flatnonzero(share.sum(axis=1) > most + EQUAL / 100),
            violation=lambda share: max(0.0, float((share.sum(axis=1) / most - 1).max())),
            lazy=True,
        )
        return Arrays(columns=(Columns("total", names, lower=-INF),), rows=(total, limit))


@st.composite
def staged_programs(draw: Any) -> LinearProgram:
    """Integer programs with one or two earlier objectives."""
    program = draw(linear_programs(columns=(1, 3), rows=(0, 3)))
    number, n = st.integers(-2, 2).map(float), len(program.c)
    levels = range(draw(st.integers(1, 2)), 0, -1)
    earlier = tuple(Objective(np.array([draw(number) for _ in range(n)]), priority=level) for level in levels)
    return replace(program, earlier=earlier, integer=np.ones(n, dtype=bool))


@given(staged_programs())
def test_integer_stages_are_those_of_enumeration(program: LinearProgram) -> None:
    """Every whole point of the box is tried: best of the last among the best of those before."""
    axes = [np.arange(low, high + 1) for low, high in zip(program.col_lower, program.col_upper, strict=True)]
    points = [np.array(x) for x in itertools.product(*axes) if program.violation(np.array(x)) == 0]
    for c in (*(objective.c for objective in program.earlier), program.c):
        best = max(Fraction(float(c @ x)) for x in points)
        points = [x for x in points if Fraction(float(c @ x)) == best]
    found = hetopt.optimise(program, Options(gap=0.0))
    assert any(np.array_equal(np.rint(found.x), x) for x in points)
    assert found.objective == pytest.approx(float(program.c @ points[0]) + program.offset)
    assert len(found.program.kept) == len(program.earlier)
    assert found.passes == len(program.earlier) + 1


def test_a_refined_optimum_leaves_its_session_at_its_tolerance() -> None:
    """A gain below HiGHS's tolerance is found with a smaller one, which later solves do not have."""
    program = lp([1, FEASIBILITY / 2], [(-INF, [1, 0], 1), (-INF, [0, 1], 1_000)], [(0, INF), (0, INF)])
    session = Session(program, presolve=False)
    coarse = session.solve()
    found = hetopt.optimise(program, session=session)
    assert (found.passes, found.x.tolist()) == (2, [1, 1_000])
    session.load(program)
    assert session.solve().x.tolist() == coarse.x.tolist() == [1, 0]


def test_an_earlier_stage_is_kept_to_within_its_tolerance() -> None:
    """Max x first, then max y: without the first stage y would win."""
    program = replace(
        lp([0, 5], [(-INF, [1, 1], 3)], [(0, 2), (0, 3)]), earlier=(Objective(np.array([1.0, 0.0]), priority=1),)
    )
    point = hetopt.optimise(program)
    assert 2 - point.x[0] <= 2 * KEPT_OPTIMUM
    assert point.x[1] == pytest.approx(1)


def test_priorities_of_components_become_stages() -> None:
    @dataclass(frozen=True)
    class LeastSwitching(SwitchingCost):
        """The same cost, minimised before anything else."""

        priority: int = 1
        name: str = "least_switching"

    held = INST.replace(held=[[0, 1], [1, 0]])
    kept = hetopt.solve(Formulation((TotalRate(), LeastSwitching(1.0))), held)
    assert np.abs(kept.x - [[0, 1], [1, 0]]).max() <= EQUAL, "no job gains a GPU, so all stay"
    moved = hetopt.solve(Formulation((TotalRate(), SwitchingCost(0.25))), held)
    assert moved.x[1, 1] == pytest.approx(1), "here a gain of 3 is worth a quarter"


def test_the_weakest_status_of_all_stages_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    program = replace(
        lp([0, 5], [(-INF, [1, 1], 3)], [(0, 2), (0, 3)], whole=True),
        earlier=(Objective(np.array([1.0, 0.0]), priority=1),),
    )
    seen = iter(["gap", "optimal"])
    original = Session.solve
    monkeypatch.setattr(Session, "solve", lambda self: replace(original(self), status=next(seen)))
    assert hetopt.optimise(program).status == "gap"


def test_the_time_limit_is_for_all_passes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps by a second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    compiled = Compiled(LAZY, INST.entities())
    program, lazy = compiled.program, compiled.separation()
    with pytest.raises(NotSolved, match=r"time_limit=2 s") as problem:
        hetopt.optimise(program, Options(time_limit=2), lazy)
    assert problem.value.status == "time_limit"


@settings(max_examples=25)
@given(job_instances(jobs=(1, 4), types=(1, 2)))
def test_integer_programs_have_lazy_rows_too(inst: hetopt.Instance) -> None:
    """Envy-freeness, lazily, on a round in which every share is 0 or 1; against all 0-1 shares."""
    entities = inst.entities()
    best = -1.0
    for bits in itertools.product([0.0, 1.0], repeat=entities.speed.size):
        share = np.array(bits).reshape(entities.shape)
        fits = (entities.gpus(share).sum(axis=0) <= entities.capacity).all()
        if fits and hetopt.measure(EnvyFree(), entities, share).violation <= EQUAL:
            best = max(best, float(entities.rate(share).sum()))
    certificate = hetopt.solve(LAZY + Whole(), inst).certificate
    assert certificate.objective == pytest.approx(best)
    assert certificate.method == "branch-and-cut"


def test_a_result_in_floats_has_no_fractions_and_no_proof() -> None:
    allocation = hetopt.solve(COOPERATIVE, INST)
    with pytest.raises(ValueError, match="not exact"):
        _ = allocation.exact
    with pytest.raises(InvalidOption, match="not exact, so there is no proof to write"):
        allocation.certificate.write("never")


def test_all_parts_of_the_issue_compose() -> None:
    """Envy-freeness, the sharing incentive and a switching cost together: still solved, certified, exact."""
    held = INST.replace(held=[[0, 1], [1, 0]])
    formulation = Formulation((TotalRate(), EnvyFree(), SharingIncentive(), SwitchingCost(0.5)))
    certificate = hetopt.solve(formulation, held, exact=True).certificate
    assert certificate.exact is not None
    assert float(certificate.exact.objective) == pytest.approx(certificate.objective)
    assert certificate.gap <= EQUAL
