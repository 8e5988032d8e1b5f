"""Checks that a Pyomo model is what its mathematics states: at random points, by plain loops over the formulas."""

from __future__ import annotations

import ast
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from evaluating import bindings, evaluate, slack

from hetopt.programs.mathematics import Mathematics, Statement, Variable
from hetopt.programs.notation import parsed, text
from hetopt.tolerances import PROVEN, scale

POINTS = 4
"""So many random points for each model."""

Values = dict[str, Any]
"""Name in formulas -> number, or place -> number, or set."""

Place = Hashable
"""Index of a component in Pyomo."""


class Elsewhere(dict[Place, float]):
    """Numbers that are 0 at other places."""

    def __missing__(self, _: Place) -> float:
        return 0.0


def check_stated(
    model: Any,
    mathematics: Mathematics,
    data: Mapping[str, Any],
    seed: int,
    *,
    besides: Collection[str] = (),
    positive: bool = False,
    as_printed: bool = False,
) -> None:
    """Assert that ``model`` has the variables, expressions, rows and gains of ``mathematics``, and no others.

    A row is the same if its slack is a positive multiple of the formula's, the same at all points. A place that has no
    row must hold at all of them.

    Parameters
    ----------
    data:
        The values of the symbols that are data. Definitions that are among them are checked, others are computed.
    seed:
        Of the points.
    besides:
        Names of components that the mathematics does not state.
    positive:
        Take points where all variables are positive, or 0 where they are stated to be: rates stand in denominators.
    as_printed:
        Rows have the slack of their formula itself, so that their duals are in its unit.
    """
    kinds = (pyo.Var, pyo.Expression, pyo.Objective, pyo.Constraint)
    components = {c.getname(fully_qualified=True, relative_to=model): c for c in model.component_objects(kinds)}
    stated = {statement.name for statement in mathematics.statements if statement.name}
    assert components.keys() == stated | set(besides)
    assert all(component.doc for component in components.values())
    rng, found = np.random.default_rng(seed), []
    for _ in range(POINTS):
        values = at_a_point(model, mathematics, data, rng, positive)
        define_all(mathematics, components, values)
        for gain in mathematics.gains:
            stated, component = evaluate(gain.formula, values), components[gain.name]
            assert pyo.value(component) == pytest.approx(stated, rel=PROVEN, abs=PROVEN), gain.name
            if component.ctype is pyo.Objective:
                assert component.sense == (pyo.maximize if mathematics.sense == "maximise" else pyo.minimize)
        found.append({row.name: slacks(components[row.name], row, values) for row in mathematics.rows})
    for variable in mathematics.variables:
        check_domain(components[variable.component], variable, values)
    for name, places in found[0].items():
        for place in places:
            check_same(f"{name}[{place}]", [point[name][place] for point in found], 1.0 if as_printed else None)


def at_a_point(
    model: Any, mathematics: Mathematics, data: Mapping[str, Any], rng: np.random.Generator, positive: bool
) -> Values:
    """Set all variables to random numbers; the values of all names that are no definitions without data."""
    values = dict(data)
    for variable in mathematics.variables:
        component = model.find_component(variable.component)
        numbers = {place: int(rng.integers(1 if positive else -16, 33)) / 8 for place in component}
        if variable.sparse:
            stated = domain_places(variable, values)
            numbers = {place: number if place in stated else 0.0 for place, number in numbers.items()}
        for place, number in numbers.items():
            component[place].set_value(number, skip_validation=True)
        made = Elsewhere(numbers) if variable.sparse else numbers
        values[variable.name] = made if component.is_indexed() else numbers[None]
    return values


def places_of(statement: Statement, values: Values) -> dict[Place, Values]:
    """Index -> values of the loop variables."""
    every = {tuple(binding.values()): binding for binding in bindings(statement.over, values)}
    return {place[0] if len(place) == 1 else place or None: binding for place, binding in every.items()}


def define_all(mathematics: Mathematics, components: Mapping[str, Any], values: Values) -> None:
    """Compute the definitions, those first of which others speak."""
    left = list(mathematics.definitions)
    while left:
        waiting = {one.name for one in left} - values.keys()
        ready = [one for one in left if waiting.isdisjoint({name for name, _ in text(one.formula).names} - {one.name})]
        assert ready, f"{waiting} speak of each other"
        for definition in ready:
            define(components.get(definition.component), definition.statement, values)
        left = [one for one in left if one not in ready]


def define(component: Any, statement: Statement, values: Values) -> None:
    """Compute a definition, or check it where its values are given or in the model."""
    tree, _ = parsed(statement.formula)
    assert isinstance(tree, ast.Compare)
    name, right = ast.unparse(tree.left).partition("[")[0], ast.unparse(tree.comparators[0])
    made = {place: evaluate(right, values | binding) for place, binding in places_of(statement, values).items()}
    given = values.setdefault(name, made if statement.over else made[None])
    if given is not made and statement.over:
        assert {place: given[place] for place in made} == pytest.approx(made, rel=PROVEN, abs=PROVEN), name
    elif given is not made:
        assert given == pytest.approx(made[None], rel=PROVEN, abs=PROVEN), name
    if component is not None:
        assert {place: pyo.value(component[place]) for place in component} == pytest.approx(made), name


def slacks(component: Any, row: Statement, values: Values) -> dict[Place, tuple[float, float | None]]:
    """Place -> (the formula's slack, that of Pyomo's row or None where there is none)."""
    places = places_of(row, values)
    assert set(component) <= places.keys(), row.name
    made: dict[Place, tuple[float, float | None]] = {}
    for place, binding in places.items():
        own = slack_of(component[place]) if place in component else None
        made[place] = slack(row.formula, values | binding), own
    return made


def slack_of(row: Any) -> float:
    """By how much a row of Pyomo holds."""
    low, body, up = row.to_bounded_expression(True)
    value = float(pyo.value(body))
    below, above = (np.inf if end is None else sign * (value - float(end)) for end, sign in ((low, 1), (up, -1)))
    return -abs(below) if below == -above else min(below, above)


def check_same(name: str, pairs: list[tuple[float, float | None]], factor: float | None = None) -> None:
    """That a row's slacks are the ``factor``-fold of the formula's; None: the same positive multiple at all points."""
    stated, real = [one for one, _ in pairs], [other for _, other in pairs if other is not None]
    if not real:
        assert min(stated) >= 0, f"{name} has no row"
        return
    i = int(np.argmax(np.abs(stated)))
    if factor is None:
        factor = real[i] / stated[i] if stated[i] else 1.0
    assert factor > 0, name
    assert real == pytest.approx([factor * one for one in stated], rel=PROVEN, abs=PROVEN * scale(real)), name


def domain_places(variable: Variable, values: Values) -> dict[Place, Values]:
    """Index -> values of the loop variables, of all places that a variable's domain brings."""
    places: dict[Place, Values] = {}
    for binding in bindings(variable.over, values):
        found = evaluate(f"({variable.index},)" if variable.index else "0", values | binding)
        places[(found[0] if len(found) == 1 else found) if variable.index else None] = binding
    return places


def check_domain(component: Any, variable: Variable, values: Values) -> None:
    """That a variable may be what its formula says, at the places that it says."""
    places = domain_places(variable, values)
    assert places.keys() <= set(component), variable.name
    elsewhere = set(component) - places.keys()
    assert all(variable.sparse and component[place].bounds == (0, 0) for place in elsewhere), variable.name
    for place, binding in places.items():
        one = component[place]
        ends = [float(end) for end in one.bounds if end is not None]
        tried = {
            -1.0,
            -0.5,
            0.0,
            0.25,
            1.0,
            1.5,
            2.0,
            7.0,
            *ends,
            *(end + 1 for end in ends),
            *(end - 1 for end in ends),
        }
        for number in tried:
            low, up = one.bounds
            may = number in one.domain and (low is None or number >= low) and (up is None or number <= up)
            there = values | binding | {variable.name: {place: number} if variable.index else number}
            assert evaluate(variable.formula, there) == may, f"{variable.name}[{place}] = {number}"
