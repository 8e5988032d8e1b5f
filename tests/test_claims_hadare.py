"""HadarE's claims, the example and Table I: their computations against the simulator and by hand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ledger_cases import cases, stored_case

import hetopt
from hetopt import InvalidOption, instances
from hetopt.models import gavel, hadar, hadare
from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.proofs.hadar import (
    busy_nodes,
    claims,
    copy_ids,
    copy_utilisation,
    heterogeneity_table,
    motivating_example,
)
from hetopt.proofs.hadar.copy_cases import CopyCase, copy_space, longer
from hetopt.proofs.ledger.space import integers
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
FEW = settings(max_examples=40, deadline=None)
CLAIMS = {one.key: one for one in claims()}


# -- nodes -----------------------------------------------------------------------------------------------------------


def utilisation(instance: hetopt.Instance, copies_: int | None) -> float:
    """Of HadarE without restarts, to the end of the last round."""
    policy = HadarE(360.0, copies=copies_, restart_seconds=0.0, last_round="all")
    log_ = hetopt.simulate(policy, instance, overheads=heterogeneity_table.FREE)
    rounds = ceil(log_.makespan / 360 - PROVEN)
    return float(log_.rounds["trained"].sum() / (len(instance.cluster.servers) * 360 * rounds))


@FEW
@given(cases(copy_space(n=(1, 4), copies=integers(1, 4))))
def test_utilisation_is_that_of_the_simulator(case: CopyCase) -> None:
    for x in range(1, case.n + 1):
        fastest = case.fastest[:x]
        assert utilisation(case.instance, x) == pytest.approx(float(case.utilisation(fastest)), rel=EQUAL)
        assert case.utilisation(fastest) == case.utilisation_by_formula(fastest)


def test_theorem_3_in_the_simulator() -> None:
    """Equation (11) on the fastest nodes; on a slow and a fast node alone; without copies; and idle nodes."""
    equal = stored_case("hadar/thm-3")
    assert utilisation(equal.instance, 2) == pytest.approx(utilisation(equal.instance, 3))
    case = stored_case("hadar/thm-3-weak")
    slow_and_fast = CopyCase(case.speed[:2], case.work)
    assert utilisation(slow_and_fast.instance, 2) * 2 / 3 == pytest.approx(2 / 3)
    assert utilisation(case.instance, 3) == pytest.approx(3 / 5)
    full = hetopt.simulate(
        hadar.Hadar(),
        stored_case("hadar/thm-3-batch").instance,
        round_seconds=360.0,
        overheads=heterogeneity_table.FREE,
    )
    assert (full.makespan, full.utilisation) == (720, 1)
    rounds = stored_case("hadar/thm-3-rounds")
    policies = [HadarE(360.0, copies=x, restart_seconds=0.0, last_round="all") for x in (1, 2)]
    assert [hetopt.simulate(p, rounds.instance, overheads=heterogeneity_table.FREE).makespan for p in policies] == [
        720,
        480,
    ]
    idle = hetopt.simulate(policies[1], stored_case("hadar/corollary").instance, overheads=heterogeneity_table.FREE)
    assert idle.rounds["trained"].iloc[:-1].min() < 2 * 360


def test_theorem_3_of_the_project() -> None:
    """Speeds 10, 10, 1 and work 21/2: 7/11 on a fast and the slow node, 1/2 on all three."""
    case = CopyCase((F(10), F(1), F(10)), (F(21, 2),), 2)
    assert [case.utilisation(range(x)) for x in (1, 2, 3)] == [F(7, 40), F(7, 11), F(1, 2)]
    assert copy_utilisation.in_any_order(case).slack == F(1, 2) - F(7, 11)


@FEW
@given(cases(copy_space(longer, n=(2, 3), m=(1, 3), speeds=integers(1, 3), works=integers(1, 6))))
def test_busy_assignments_one_by_one(case: CopyCase) -> None:
    """The corollary by plain recursion over what each node does next, without a memory."""

    def busy(left: list[Fraction]) -> bool:
        unfinished = [j for j, w in enumerate(left) if w]
        for choice in np.ndindex(*[len(unfinished)] * case.n):
            after, wasted = list(left), False
            for i, k in enumerate(choice):
                wasted |= after[unfinished[k]] < case.speed[i]
                after[unfinished[k]] = max(F(0), after[unfinished[k]] - case.speed[i])
            if not any(after) or (not wasted and busy(after)):
                return True
        return False

    assert busy_nodes.can_be_busy(case) == busy(list(case.work))


@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 9), st.integers(1, 5))
def test_numbers_of_copies_are_those_of_the_library(most: int, p: int, q: int, n: int) -> None:
    assume(p != q)
    case, ids = copy_ids.CopyIds(most, (p, q), n), hadare.JobIds(most)
    if max(p, q) < most:
        assert case.ids == [*ids.copies(p, n), *ids.copies(q, n)]
        assert case.are_unique
    else:
        with pytest.raises(InvalidOption):
            ids.copies(max(p, q), n)


# -- the example -----------------------------------------------------------------------------------------------------


def test_gavels_rounds_in_the_simulator() -> None:
    there = instances.load("hadar/motivating")
    log_ = hetopt.simulate(gavel.max_min_fairness(), there, round_seconds=360.0, overheads=heterogeneity_table.FREE)
    assert log_.makespan / 360 == motivating_example.fewest() == 6
    start = tuple(epochs for _, epochs, _ in motivating_example.jobs())
    for choice, left in motivating_example.on_one_type(start):
        for (gang, epochs, speed), on, w in zip(motivating_example.jobs(), choice, left, strict=True):
            assert w == (max(0, epochs - speed[on]) if on else epochs)
            assert on is None or gang <= motivating_example.gpus()[on]


# -- Table I ---------------------------------------------------------------------------------------------------------


def spans(*rows: tuple[str, float, float, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["job", "start", "end", "gpu_type", "servers"])


@pytest.mark.parametrize(
    ("given_", "seen"),
    [
        ([("a", 0, 1, "A", "x"), ("b", 1, 2, "B", "y")], set()),
        ([("a", 0, 2, "A", "x"), ("b", 1, 2, "B", "y")], {"resource"}),
        ([("a", 0, 1, "A", "x"), ("a", 1, 2, "B", "y")], {"scheduling"}),
        ([("a", 0, 1, "A", "x"), ("a", 1, 2, "A", "y")], set()),
        ([("a", 0, 1, "A+B", "x")], {"resource", "task"}),
        ([("a", 0, 1, "A", "x"), ("a", 0, 1, "B", "y")], {"resource", "task"}),
        ([("a", 0, 1, "A", "x+y")], {"nodes"}),
    ],
)
def test_what_spans_show(given_: list[tuple[str, float, float, str, str]], seen: set[str]) -> None:
    assert {row for row, (_, check) in heterogeneity_table.ROWS.items() if check(spans(*given_))} == seen


def test_counterexamples_to_table_1_in_the_library() -> None:
    plan = hetopt.solve(hadar.Hadar(), stored_case("hadar/table-1-hadar-task").instance)
    assert plan.gpus.loc["j1"].to_dict() == {"V100": 1, "P100": 1}
    plan = hetopt.solve(hadar.Hadar(), stored_case("hadar/one-node").instance)
    assert len(plan.placement.hosts["j1"]) == 2
    log_ = hetopt.simulate(
        gavel.max_min_fairness(),
        stored_case("hadar/table-1-gavel-scheduling").instance,
        round_seconds=360.0,
        overheads=heterogeneity_table.FREE,
    )
    assert log_.spans[log_.spans["job"] == "j2"]["gpu_type"].nunique() == 2


# -- checkers find what is wrong ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Miscounted(CopyCase):
    """A formula with the wrong number of rounds."""

    def utilisation_by_formula(self, nodes: Any) -> Fraction:
        return super().utilisation_by_formula(nodes) / 2


@dataclass(frozen=True)
class Clashing(copy_ids.CopyIds):
    """Numbers that are never unique."""

    @property
    def are_unique(self) -> bool:
        return False


def test_checkers_find_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_utilisation.formula(Miscounted((F(2), F(1)), (F(4),), 2)).slack < 0
    assert copy_ids.exactly(Clashing(5, (0, 1), 2)).slack == -1
    assert copy_utilisation.more_copies_than_nodes(CopyCase((F(1), F(1)), (F(2),), -1)).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(busy_nodes, "HadarE", partial(HadarE, copies=1))
        assert busy_nodes.always_assigned(CopyCase((F(1), F(1), F(1)), (F(9), F(9)))).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(busy_nodes, "split_steps", lambda steps_, speed: {i: steps_ if i == 0 else 0 for i in speed})
        assert busy_nodes.divided(CopyCase((F(1), F(1)), (F(2),))).slack == -1
        changed.setattr(busy_nodes, "split_steps", lambda _, speed: dict.fromkeys(speed, 2))
        assert busy_nodes.divided(CopyCase((F(1), F(1)), (F(5),))).slack == -1
