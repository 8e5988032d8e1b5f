"""Solving again: sessions over formulations find what a fresh solve finds."""

from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import FormulationSession, InvalidInstance, InvalidOption
from hetopt.models import baselines, ceei, fft, gavel, oef
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.tolerances import EQUAL, TRUSTED, scale


def market(rng: np.random.Generator, n: int, k: int) -> hetopt.Instance:
    speed = np.sort(1 + rng.random((n, k)) * 4, axis=1)
    speed[:, 0] = 1.0
    held = np.zeros((n, k), dtype=int)
    held[0] = 1
    return hetopt.Instance.from_speedups(speed, rng.integers(1, 5, k), weights=rng.integers(1, 4, n), held=held)


class AtMost:
    """A component without arrays: the first type gives at most 3/4 of a GPU."""

    name = "at_most"

    def add(self, block: Any, model: Any) -> Any:
        block.row = pyo.Constraint(expr=sum(model.share[e, "GPU1"] for e in model.E) <= 0.75)
        return 0


FORMULATIONS = {
    "cooperative": oef.cooperative,
    "noncooperative": oef.noncooperative,
    "max-min": gavel.max_min_fairness,
    "switching": lambda: oef.cooperative() + SwitchingCost(0.5),
    "two objectives": lambda: oef.noncooperative(canonical=True),
    "concave": ceei.equal_budgets,
    "Pyomo": lambda: oef.cooperative() + AtMost(),
}


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", FORMULATIONS)
@settings(max_examples=10)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_a_session_finds_what_a_fresh_solve_finds(name: str, warm: bool, n: int, k: int, seed: int) -> None:
    """Over instances of the same and of another size, and after changes of numbers."""
    rng, formulation = np.random.default_rng(seed), FORMULATIONS[name]()
    session = FormulationSession(formulation, market(rng, n, k), warm=warm)
    for instance in (market(rng, n, k), market(rng, n, k), market(rng, n + 1, k), market(rng, n, k)):
        found, fresh = session.solve(instance).certificate, hetopt.solve(formulation, instance).certificate
        size = scale(found.objective, found.size)  # tangents stop within a gap
        assert found.objective == pytest.approx(fresh.objective, abs=2 * EQUAL * size)
        assert found.violation <= TRUSTED
    capacity = session.entities.capacity + 1
    session.change(speed=session.entities.speed[::-1], capacity=capacity, weight=session.entities.weight[::-1])
    old = session.entities
    changed = hetopt.Instance.from_speedups(old.speed, old.capacity, weights=old.weight, held=old.held)
    wanted, found = hetopt.solve(formulation, changed).certificate, session.solve().certificate
    assert found.objective == pytest.approx(wanted.objective, abs=2 * EQUAL * scale(found.objective, found.size))


def test_rows_that_were_added_lazily_stay() -> None:
    rng = np.random.default_rng(5)
    base = 1 + np.cumsum(rng.random((60, 3)), axis=1)
    session, passes = None, []
    for _ in range(4):
        speed = base * (1 + 0.01 * rng.random(base.shape))
        instance = hetopt.Instance.from_throughputs(speed, [5, 5, 5])
        session = session or FormulationSession(oef.cooperative(), instance)
        certificate = session.solve(instance).certificate
        passes.append(certificate.passes)
        wanted = hetopt.solve(oef.cooperative(), instance).certificate.objective
        assert certificate.objective == pytest.approx(wanted, rel=EQUAL)
    assert max(passes[1:]) < passes[0] / 2


def test_bounds_of_rows_stay_changed() -> None:
    """An own row of the formulation; the oracle is a formulation that was made with the other number."""
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [2, 1])
    session = FormulationSession(oef.cooperative() + AtMost(), instance)
    session.set_row("at_most.row", upper=0.25)
    session.change(capacity={"GPU2": 2})
    session.solve()
    found = session.solve().certificate
    model = (oef.cooperative() + AtMost()).build(instance)
    model.at_most.row.set_value(sum(model.share[e, "GPU1"] for e in model.E) <= 0.25)
    model.capacity["GPU2"].set_value(sum(model.share[e, "GPU2"] for e in model.E) <= 2)
    wanted = hetopt.Session(hetopt.from_pyomo(model)).solve().objective
    assert found.objective == pytest.approx(wanted)


class LeastRates(AtMost):
    """Rows of Pyomo with a measure of the bounds as stated: every rate is at least 1/2."""

    name = "least_rates"

    def add(self, block: Any, model: Any) -> Any:
        block.row = pyo.Constraint(model.E, rule=lambda _, e: model.rate[e] >= 0.5)
        return 0

    def measure(self, entities: Any, share: Any) -> hetopt.Measure:
        return hetopt.Measure(violation=max(0.0, float((0.5 - entities.rate(share)).max())))


class LeastRatesInArrays(LeastRates):
    """The same rows in arrays."""

    def rows(self, entities: Any) -> hetopt.Arrays:
        terms = (hetopt.on_shares(entities.speed),)
        return hetopt.Arrays(rows=[hetopt.Rows("row", entities.names, terms, lower=0.5)])


@pytest.mark.parametrize(("part", "measured"), [(LeastRates(), False), (LeastRatesInArrays(), True)])
def test_a_component_cannot_measure_bounds_that_were_set(part: Any, measured: bool) -> None:
    """u1 may get nothing once its bound is 0; the component's measure would find a violation of 1/2."""
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [0, 1])
    session = FormulationSession(hetopt.Formulation((TotalRate(), part)), instance)
    assert session.solve().certificate.measured
    session.set_row("least_rates.row[u1]", lower=0)
    found = session.solve().certificate
    assert (found.status, found.violation, found.measured) == ("optimal", 0, measured)


@pytest.mark.parametrize(("make", "method"), [(ceei.equal_budgets, "interior points"), (oef.noncooperative, "prices")])
def test_methods_by_structure_solve_what_they_solve_sooner(make: Any, method: str, monkeypatch: Any) -> None:
    """Not where bounds were set, of which they know nothing."""
    monkeypatch.setattr("hetopt.formulations.session.WARM_COLUMNS", 5)
    rng = np.random.default_rng(3)
    session = FormulationSession(make(), market(rng, 4, 2))
    for _ in range(2):
        inst = market(rng, 4, 2)
        found, wanted = session.solve(inst).certificate, hetopt.solve(make(), inst, method="simplex").certificate
        assert found.method == method
        assert found.objective == pytest.approx(wanted.objective, rel=TRUSTED, abs=TRUSTED)
    session = FormulationSession(make() + AtMost(), market(rng, 4, 2))
    assert session.solve().certificate.method == "simplex"
    if make is oef.noncooperative:
        session = FormulationSession(make(), inst)
        session.set_row("equal_rates.row[u1]", lower=0.1, upper=0.1)
        rate, weight = session.solve().rate, [tenant.weight for tenant in inst.tenants]
        assert rate["u1"] == pytest.approx(0.1 + rate["u2"] * weight[0] / weight[1])


def test_rounds_of_jobs_can_be_solved_again() -> None:
    """Binary, with two stages; a gang gets a type back once that has enough GPUs."""
    instance = hetopt.Instance.from_jobs([[1.0, 9.0]], demand=[3], work=[900], capacity=[3, 2], time=10.0)
    session = FormulationSession(fft.FFT().formulation(instance), instance)
    assert session.solve().share["GPU2"].tolist() == [0.0]
    session.change(capacity={"GPU2": 3})
    assert session.solve().share["GPU2"].tolist() == [1.0]


INSTANCE = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1])


@pytest.mark.parametrize(
    ("change", "key", "match"),
    [
        ({"speed": [[1, 2]]}, None, r"shape \(1, 2\)"),
        ({"speed": [[1, 2], [1, -5]]}, None, "speed.*-5"),
        ({"capacity": [1, float("nan")]}, None, "capacity.*nan"),
        ({"capacity": {"V100": 2}}, "capacity", "'V100'"),
        ({"weight": [1, 0]}, None, "weight.*0"),
        ({"weight": "ab"}, None, "weight.*numbers"),
        ({"capacity": [True, 1]}, None, "capacity.*numbers"),
        ({"speed": [["1", 2], [1, 5]]}, None, "speed.*numbers"),
        ({"speed": [[1e-300, 2], [1, 5]]}, None, "speed.*1e-300"),
        ({"speed": [[1, 2], [0, 0]]}, None, "'u2'.*type"),
    ],
)
def test_bad_changes_change_nothing(change: dict[str, Any], key: str | None, match: str | None) -> None:
    session = FormulationSession(oef.cooperative(), INSTANCE)
    with refused(InvalidInstance, key, match):
        session.change(**change)
    assert session.solve().certificate.objective == pytest.approx(5.25)


@pytest.mark.parametrize("bound", [True, "3", float("nan")])
def test_bounds_that_are_no_numbers_are_refused(bound: Any) -> None:
    session = FormulationSession(oef.noncooperative(), INSTANCE)
    with pytest.raises(InvalidOption, match=r"lower is .*; it must be a number"):
        session.set_row("equal_rates.row[u1]", lower=bound)


def test_an_instance_without_a_row_whose_bounds_were_set_is_refused() -> None:
    session = FormulationSession(oef.noncooperative(), INSTANCE)
    session.set_row("equal_rates.row[u2]", lower=0.1, upper=0.1)
    with pytest.raises(InvalidInstance, match=r"the row 'equal_rates.row\[u2\]', whose bounds were set, does not"):
        session.solve(hetopt.Instance.from_speedups([[1, 2]], [1, 1]))


def test_what_a_session_is_not_for_is_refused() -> None:
    with pytest.raises(InvalidOption, match="a session keeps HiGHS alive"):
        FormulationSession(oef.cooperative(), INSTANCE, hetopt.Options(solver="gurobi"))
    with pytest.raises(InvalidOption, match="exact is True"):
        FormulationSession(oef.cooperative(), INSTANCE, hetopt.Options(exact=True))
    with refused(InvalidOption, "formulation"):
        FormulationSession(oef.cooperative, INSTANCE)  # type: ignore[arg-type]
    for name in ("capacity[GPU1]", "envy_free.row[u1,u2]", "at_mst.row"):
        with pytest.raises(InvalidOption, match=r"there is no row .* that can be set.*known: at_most\.row"):
            FormulationSession(oef.cooperative() + AtMost(), INSTANCE).set_row(name, upper=2)
    session = FormulationSession(oef.cooperative() + AtMost(), INSTANCE)
    session.set_row("at_most.row", lower=3)
    with pytest.raises(hetopt.NotSolved, match=r"at_most\.row"):
        session.solve()


def test_rows_in_arrays_are_measured_by_their_new_bounds() -> None:
    """Loosened or tightened: the certificate is about the program that was solved."""
    session = FormulationSession(baselines.sharing_incentive_only(), INSTANCE)
    fair = [session.solve().rate["u1"]]
    for lower in (0.5, 1.7):
        session.set_row("sharing_incentive.row[u1]", lower=lower)
        found = session.solve()
        assert found.certificate.status == "optimal"
        assert found.certificate.violation <= EQUAL
        fair.append(found.rate["u1"])
    assert fair[0] == pytest.approx(1.5)
    assert fair[1] <= 1 + EQUAL
    assert fair[2] == pytest.approx(1.7)


def test_plain_sessions_have_all_rows() -> None:
    instance = market(np.random.default_rng(0), 45, 2)
    session = FormulationSession(oef.cooperative(), instance, hetopt.Options(method="plain"))
    certificate = session.solve().certificate
    assert (certificate.passes, len(certificate.duals)) == (1, 2 + 45 * 44)


def test_throughputs_as_speeds_are_warned_of() -> None:
    session = FormulationSession(oef.cooperative(), INSTANCE)
    with pytest.warns(hetopt.SuspiciousSpeedups, match="speed of 'u1' has 10 .* divide each row by its smallest"):
        session.change(speed=[[10, 20], [100, 500]])
