"""Certificates: what the solver claims beside what was measured on the shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from programs import Whole

import hetopt
from hetopt.formulations.formulation import Formulation
from hetopt.models import ceei, oef
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.programs.compiled import Compiled, capacity_violation
from hetopt.proofs.strategies import tenant_instances
from hetopt.tolerances import EQUAL, TRUSTED, scale

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
COOPERATIVE = Formulation((TotalRate(), EnvyFree()))


@dataclass(frozen=True)
class Boastful:
    """States twice the gain that it measures, and a row that it does not keep."""

    name: str = "boastful"

    def add(self, block: Any, model: hetopt.Model) -> Any:
        return 2 * model.weighted_shares(model.entities.speed)

    def measure(self, entities: Any, share: Any) -> hetopt.Measure:
        return hetopt.Measure(gain=float(entities.rate(share).sum()), violation=0.25)


@dataclass(frozen=True)
class Silent:
    """A component that cannot judge a share."""

    name: str = "silent"

    def add(self, block: Any, model: hetopt.Model) -> Any:
        return model.share["u1", "GPU1"]


def test_a_wrong_component_is_seen() -> None:
    """The model says 12, the shares say 6: both stand in the certificate, and so does the violation."""
    certificate = hetopt.solve(Formulation((Boastful(),)), INST).certificate
    assert certificate.measured
    assert certificate.objective == pytest.approx(6)
    assert certificate.bound == pytest.approx(12)
    assert certificate.gap == pytest.approx(0.5)
    assert certificate.violation == 0.25


def test_where_something_cannot_be_measured_the_claim_stands_and_says_so() -> None:
    certificate = hetopt.solve(Formulation((TotalRate(), Silent())), INST).certificate
    assert not certificate.measured
    assert certificate.objective == pytest.approx(7)


@settings(max_examples=30)
@given(tenant_instances(tenants=(1, 4), types=(1, 3), weighted=True, zeros=True))
def test_claims_and_measurements_agree_on_right_components(inst: hetopt.Instance) -> None:
    for formulation in (COOPERATIVE, Formulation((TotalRate(), EqualRates())), COOPERATIVE + SwitchingCost(0.5)):
        certificate = hetopt.solve(formulation, inst, method="simplex").certificate
        assert certificate.measured
        assert certificate.status == "optimal"
        assert certificate.gap <= EQUAL
        assert certificate.violation <= EQUAL
        assert certificate.seconds >= certificate.solver_seconds


@given(tenant_instances(tenants=(2, 4), types=(2, 3)))
def test_prices_are_what_one_more_gpu_brings(inst: hetopt.Instance) -> None:
    """The optimum is concave in the capacity: more GPUs bring at most the price, fewer cost at least that."""
    formulation = Formulation((TotalRate(), EqualRates()))
    certificate = hetopt.solve(formulation, inst, method="simplex").certificate
    speed, capacity = inst.entities().speed, inst.entities().capacity
    for k, price in enumerate(certificate.prices):
        for step in (1, -1) if capacity[k] > 1 else (1,):
            changed = capacity.astype(int).tolist()
            changed[k] += step
            other = hetopt.Instance.from_speedups(speed, changed, any_scale=True)
            objective = hetopt.solve(formulation, other, method="simplex").certificate.objective
            assert objective <= certificate.objective + step * price + EQUAL * scale(objective)


def test_violations_of_capacity_are_relative_and_of_every_kind() -> None:
    inst = hetopt.Instance.from_speedups([[1, 0], [1, 5]], capacity=[4, 2])
    entities = inst.entities()
    assert capacity_violation(entities, np.array([[2.0, 0], [2, 2]])) == 0
    assert capacity_violation(entities, np.array([[3.0, 0], [2, 2]])) == 1 / 4
    assert capacity_violation(entities, np.array([[-0.5, 0], [2, 2]])) == 0.5 / 4
    assert capacity_violation(entities, np.array([[1, 0.5], [2, 0]])) == 0.5 / 2, "u1 cannot run on the second type"


def test_gains_of_other_priorities_do_not_count_as_objective() -> None:
    @dataclass(frozen=True)
    class First(TotalRate):
        priority: int = 1
        name: str = "first"

    share = np.array([[1.0, 0], [0, 1]])
    compiled = Compiled(Formulation((First(), TotalRate(), TotalRate("again"))), INST.entities())
    for priority, gain in ((0, 12), (1, 6), (2, 0)):
        own, complete = compiled.measure(share, priority)
        assert (own.gain, own.violation, complete) == (gain, 0, True)


def test_duals_carry_the_rows_names_and_json_the_numbers() -> None:
    certificate = hetopt.solve(COOPERATIVE, INST, method="simplex").certificate
    assert certificate.duals["envy_free.row[u1,u2]"] == pytest.approx(-0.75), "of the row as it is printed"
    assert certificate.prices.to_dict() == pytest.approx({"GPU1": 1.75, "GPU2": 3.5})
    record = certificate.as_dict()
    assert record["objective"] == pytest.approx(5.25)
    assert record["exact_objective"] is None
    assert {"status", "bound", "gap", "violation", "seconds", "solver", "method", "passes"} <= set(record)


def test_integer_programs_have_no_prices() -> None:
    certificate = hetopt.solve(COOPERATIVE + Whole(), INST).certificate
    assert certificate.duals.empty
    assert certificate.prices.empty
    assert certificate.violation <= EQUAL


# several objectives: the certificate is about the gains of priority 0


@dataclass(frozen=True)
class Tie:
    """A tie-break of some priority: more of the last type for the first tenant; or a gain of nothing."""

    priority: int
    worth: float = 1.0
    name: str = "tie"

    def add(self, block: Any, model: hetopt.Model) -> Any:
        return self.worth and self.worth * model.share["u1", "GPU2"]

    def measure(self, entities: Any, share: Any) -> hetopt.Measure:
        return hetopt.Measure(gain=self.worth * float(share[0, -1]))


@pytest.mark.parametrize("exact", [False, True])
def test_a_tie_break_changes_neither_objective_nor_bound_nor_prices(exact: bool) -> None:
    """Non-cooperative OEF with its canonical tie-break: 30/7 and the prices without it, also in rationals."""
    plain = hetopt.solve(oef.noncooperative(), INST, method="simplex").certificate
    tied = hetopt.solve(oef.noncooperative(canonical=True), INST, exact=exact).certificate
    assert tied.objective == pytest.approx(30 / 7, rel=EQUAL)
    assert tied.bound == pytest.approx(30 / 7, rel=EQUAL)
    assert tied.prices.to_dict() == pytest.approx(plain.prices.to_dict(), rel=EQUAL)
    if exact:
        assert tied.exact is not None
        assert tied.exact.objective == Fraction(30, 7)
        assert tied.as_dict()["exact_objective"] == "30/7"


def test_the_constant_of_an_earlier_objective_counts() -> None:
    """Logarithms in units of the equal part leave a constant; with a tie-break behind them it must not be lost."""
    plain = hetopt.solve(ceei.equal_budgets(), INST).certificate
    tied = hetopt.solve(ceei.equal_budgets() + Tie(-1), INST).certificate
    assert tied.objective == pytest.approx(plain.objective, rel=10 * EQUAL)
    assert plain.objective - EQUAL <= tied.bound
    assert tied.gap <= 10 * EQUAL


def test_the_bound_is_that_of_the_stage_that_was_asked_for() -> None:
    """A tie-break that adds nothing makes no stage; gains of one priority alone are what the certificate is about."""
    total = Formulation((TotalRate(), Tie(-1), Tie(-2, 0.0, "none")))
    plain = hetopt.solve(Formulation((TotalRate(),)), INST).certificate
    certificate = hetopt.solve(total, INST).certificate
    assert certificate.bound == pytest.approx(plain.bound)
    assert certificate.gap <= EQUAL
    only = hetopt.solve(Formulation((Tie(3),)), INST).certificate
    assert (only.objective, only.bound) == (1, 1)


def test_a_status_says_what_was_measured() -> None:
    """Tangents that stop at a gap of a tenth are not optimal; shares that break a row are not to be trusted."""
    loose = hetopt.solve(ceei.equal_budgets(), INST, method="simplex", gap=0.5).certificate
    assert loose.gap > EQUAL
    assert loose.status == "gap"

    @dataclass(frozen=True)
    class Broken:
        name: str = "broken"

        def add(self, block: Any, model: hetopt.Model) -> float:
            return 0

        def measure(self, entities: Any, share: Any) -> hetopt.Measure:
            return hetopt.Measure(violation=10 * TRUSTED)

    assert hetopt.solve(Formulation((TotalRate(), Broken())), INST).certificate.status == "inaccurate"


@dataclass(frozen=True)
class Boast:
    """A component whose measure says more than its model."""

    answer: Any
    name: str = "boast"

    def add(self, block: Any, model: Any) -> int:
        return 0

    def measure(self, entities: Any, share: Any) -> Any:
        return self.answer


def test_a_measure_above_the_bound_is_no_optimum() -> None:
    instance = hetopt.instances.load("oef/eq6")
    agreeing = hetopt.solve(oef.cooperative() + Boast(hetopt.Measure()), instance).certificate
    assert (agreeing.status, agreeing.objective) == ("optimal", pytest.approx(5.25))
    certificate = hetopt.solve(oef.cooperative() + Boast(hetopt.Measure(gain=99.0)), instance).certificate
    assert certificate.objective == pytest.approx(104.25)
    assert certificate.status == "inaccurate"
    with pytest.raises(hetopt.InvalidFormulation, match="returned 3; return a Measure"):
        hetopt.solve(oef.cooperative() + Boast(3), instance)
