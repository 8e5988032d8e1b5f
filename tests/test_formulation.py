"""Formulations: components meet only in the shared model, recombine, and refuse what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt.errors import InvalidFormulation
from hetopt.formulations.formulation import Formulation
from hetopt.models import oef
from hetopt.models.fairness_components import EnvyFree, EqualRates, SharingIncentive
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.models.oef import SortedTypes
from hetopt.programs.arrays import Terms
from hetopt.programs.model import ComponentTraits
from hetopt.proofs.strategies import job_instances, tenant_instances, with_held
from hetopt.tolerances import EQUAL

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])


@dataclass(frozen=True)
class Nothing:
    """A component that adds neither rows nor a gain."""

    name: str = "nothing"
    kind: str | None = None

    def add(self, block: Any, model: hetopt.Model) -> float:
        return 0


@dataclass(frozen=True)
class Scaled(hetopt.ArrayComponent):
    """A gain of any shape."""

    gain: Any
    name: str = "scaled"

    def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
        return hetopt.Arrays(gain=self.gain)


@dataclass(frozen=True)
class Misplaced(hetopt.ArrayComponent):
    """A row whose entries may lie elsewhere: in the rows or columns of other components."""

    rows_: int = 1
    column: int = 0
    of: str = "z"
    name: str = "misplaced"

    def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
        terms = Terms(np.arange(self.rows_), np.full(self.rows_, self.column), np.ones(self.rows_), self.of)
        return hetopt.Arrays(columns=[hetopt.Columns("z")], rows=[hetopt.Rows("row", None, [terms], upper=0.5)])


@dataclass(frozen=True)
class Constant(hetopt.ArrayComponent):
    """A gain that is the same for all shares."""

    name: str = "constant"

    def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
        return hetopt.Arrays(constant=7)


def test_a_constant_gain_counts() -> None:
    found = hetopt.solve(oef.cooperative() + Constant(), INST)
    assert found.certificate.status == "optimal"
    assert found.certificate.objective == found.certificate.bound == pytest.approx(12.25)
    assert hetopt.from_pyomo((oef.cooperative() + Constant()).build(INST)).offset == 7


def test_components_are_added_to_components() -> None:
    made = TotalRate() + EqualRates()
    assert made == Formulation((TotalRate(), EqualRates()))
    assert hetopt.solve(made, INST).certificate.method == "prices"


def test_components_are_listed_added_removed_and_exchanged() -> None:
    base = oef.cooperative()
    assert base.names == ("total_rate", "envy_free")
    more = base + SwitchingCost(0.5)
    assert more.names == ("total_rate", "envy_free", "switching_cost")
    assert base.names == ("total_rate", "envy_free"), "the original is untouched"
    assert more.without("envy_free").names == ("total_rate", "switching_cost")
    assert more.replaced(SwitchingCost(2.0))["switching_cost"] == SwitchingCost(2.0)
    assert (Formulation((TotalRate(),)) + Formulation((EnvyFree(),))).names == ("total_rate", "envy_free")


def test_a_changed_formulation_says_so_in_its_title() -> None:
    changed = Formulation((TotalRate(),), title="fast") + Nothing()
    assert changed.title == "fast (changed)"
    assert changed.without("nothing").title == "fast (changed)", "the mark is set once"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Formulation((TotalRate(), TotalRate())), "two components are named 'total_rate'"),
        (lambda: Formulation(("oops",)), "'oops' is not a component"),  # type: ignore[arg-type]
        (lambda: Formulation((Nothing("share"),)), "'share' cannot be used"),
        (lambda: Formulation((Nothing("no name"),)), "'no name' cannot be used"),
        (
            lambda: oef.cooperative().without("price"),
            "no component 'price'; this formulation has total_rate, envy_free",
        ),
        (lambda: Formulation((Nothing(),)).build(INST), "no component adds anything to the objective"),
        (
            lambda: Formulation((Nothing("a", "tenants"), Nothing("b", "jobs"))),
            "'a' is for tenants and 'b' for jobs",
        ),
        (lambda: Formulation((Nothing("b", "jobs"),), kind="tenants"), "'b' is for jobs, but the formulation is set"),
        (lambda: Formulation((SortedTypes("1"),)), "sorted_types.priority is '1'; it must be a whole number"),
        (lambda: (oef.cooperative() + Scaled(np.ones(3))).compile(INST), r"'scaled': the gain has shape \(3,\)"),
        (lambda: hetopt.Rows("row", None, [], upper="1"), "row.upper is '1'; it must be a number, or 1 in an array"),
        (lambda: hetopt.Rows("row", None, [], lower=True), "row.lower is True"),
        (lambda: hetopt.Rows("row", None, [], upper=np.nan), "row.upper is NaN; give a number, inf or -inf"),
        (lambda: (oef.noncooperative() + Misplaced(2)).compile(INST), "'misplaced': row has a term in row 1 of 1"),
        (lambda: (oef.noncooperative() + Misplaced(column=-1)).compile(INST), "has a term in column -1 of 1"),
        (
            lambda: (oef.noncooperative() + Misplaced(of="c")).compile(INST),
            "columns 'c', which it does not",
        ),
        (lambda: hetopt.Columns("x", ["a", "b"], upper=np.ones(3)), r"x.upper has shape \(3,\); .* or 2 in an array"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(InvalidFormulation, match=message):
        make()


def test_rows_and_columns_have_readable_names() -> None:
    program = hetopt.from_pyomo((oef.cooperative() + EqualRates()).build(INST))
    assert "share[u1,GPU2]" in list(program.col_names)
    assert "equal_rates.level" in list(program.col_names)
    assert {"capacity[GPU1]", "envy_free.row[u1,u2]", "equal_rates.row[u2]"} <= set(program.row_names)


@dataclass(frozen=True)
class First:
    """Maximise the share of one entity before everything else."""

    entity: str
    name: str = "first"
    priority: int = 1

    def add(self, block: Any, model: hetopt.Model) -> Any:
        return model.rate[self.entity]


@dataclass(frozen=True)
class Numbered(First):
    """A component with a field of the same name as an optional method."""

    rows: int = 3


def test_traits_of_components() -> None:
    assert ComponentTraits.of(Nothing()) == ComponentTraits()
    assert ComponentTraits.of(Numbered("u1")) == ComponentTraits(priority=1), "rows is no method"
    assert ComponentTraits.of(oef.cooperative()["envy_free"]).rows is not None
    assert hetopt.solve(Formulation((TotalRate(), Numbered("u1"))), INST).rate["u1"] == pytest.approx(3)


def test_gains_of_higher_priority_are_maximised_first_and_kept() -> None:
    """u1 takes everything that it can use before the total counts: by hand (3 = 1 + 2, u2 gets nothing)."""
    allocation = hetopt.solve(Formulation((TotalRate(), First("u1"))), INST)
    assert allocation.x == pytest.approx(np.array([[1, 1], [0, 0]]), abs=EQUAL)
    assert hetopt.solve(Formulation((TotalRate(),)), INST).rate["u1"] <= 1 + EQUAL


def test_a_forbidden_gpu_type_gets_no_share() -> None:
    zero = hetopt.Instance.from_speedups([[1, 0], [1, 5]], capacity=[1, 1])
    assert hetopt.solve(Formulation((TotalRate(), First("u1"))), zero).share.loc["u1", "GPU2"] == 0


PARTS = [TotalRate(), EnvyFree(), SharingIncentive(), EqualRates(), SwitchingCost(0.7)]


@given(instance=st.one_of(tenant_instances(weighted=True, zeros=True), job_instances(zeros=True)), data=st.data())
def test_the_model_and_the_measure_agree_at_any_share(instance: hetopt.Instance, data: st.DataObject) -> None:
    """Each component's Pyomo gain and rows say the same as what its arrays measure, at random shares."""
    instance = data.draw(with_held(instance))
    entities = instance.entities()
    n, k = entities.shape
    cells = st.lists(st.integers(0, 3), min_size=n * k, max_size=n * k)
    share = np.array(data.draw(cells), dtype=float).reshape(n, k) / 2
    share[~entities.allowed] = 0
    for part in PARTS:
        model = (Formulation((TotalRate(),)) if part.name != "total_rate" else Formulation((Nothing(),))) + part
        gain, violated = _at(model.build(instance), part.name, share, entities)
        measured = hetopt.measure(part, entities, share)
        assert measured is not None
        if part.name == "total_rate":
            assert measured.gain == pytest.approx(gain, rel=EQUAL, abs=EQUAL)
        elif part.name == "switching_cost":
            assert measured.gain == pytest.approx(gain - entities.rate(share).sum(), rel=EQUAL, abs=EQUAL)
        assert (measured.violation > EQUAL) == violated, part.name


def _at(model: Any, name: str, share: np.ndarray, entities: hetopt.Entities) -> tuple[float, bool]:
    """(objective, whether a row of the component is violated) of a built model at ``share``."""
    for e, row in zip(entities.names, share, strict=True):
        for kind, value in zip(entities.types, row, strict=True):
            model.share[e, kind].set_value(float(value), skip_validation=True)
    block = getattr(model, name)
    if name == "switching_cost":
        for key in block.gained:
            block.gained[key].set_value(max(0.0, pyo.value(model.gpus[key]) - float(_held(entities, key))))
    if name == "equal_rates":
        block.level.set_value(float((entities.rate(share) / entities.weight).max()))
    worst = max((_excess(row) for row in block.component_data_objects(pyo.Constraint)), default=0.0)
    return float(pyo.value(model.objective)), worst > EQUAL


def _held(entities: hetopt.Entities, key: tuple[str, str]) -> float:
    assert entities.held is not None
    return float(entities.held[entities.position[key[0]], entities.types.index(key[1])])


def _excess(row: Any) -> float:
    body = pyo.value(row.body)
    low = row.lower if row.lower is not None else -np.inf
    up = row.upper if row.upper is not None else np.inf
    return max(pyo.value(low) - body, body - pyo.value(up)) / max(1.0, abs(body))


def test_a_component_that_forgets_its_gain_is_named() -> None:
    """The commonest mistake of a component that has rows alone."""

    class Rows:
        name = "my_rows"

        def add(self, block: Any, model: Any) -> None:
            pass

    with pytest.raises(InvalidFormulation, match=r"'my_rows': add.* returned None; return the gain"):
        Formulation((TotalRate(), Rows())).build(INST)  # type: ignore[arg-type]


def test_an_objective_of_a_component_is_refused() -> None:
    """It would be left out of the sum of gains without a word."""

    class Own:
        name = "own"

        def add(self, block: Any, model: Any) -> float:
            block.goal = pyo.Objective(expr=model.rate["u1"], sense=pyo.maximize)
            return 0

    for use in (hetopt.solve, lambda formulation, instance: formulation.build(instance)):
        with pytest.raises(InvalidFormulation, match="'own' declares an objective; return what it maximises"):
            use(oef.cooperative() + Own(), INST)


def test_components_in_pyomo_see_floats_and_are_built_once() -> None:
    built = []

    class Logarithmic:
        name = "logarithmic"

        def add(self, block: Any, model: Any) -> float:
            built.append(model.entities.speed.dtype)
            block.row = pyo.Constraint(expr=float(np.log(model.entities.speed[0, 1])) * model.share["u1", "GPU2"] <= 1)
            return 0

    assert hetopt.solve(oef.cooperative() + Logarithmic(), INST, exact=True).certificate.exact is not None
    assert built == [np.dtype(float)]
