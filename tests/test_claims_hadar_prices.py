"""Hadar's prices and runs: exact ones against the library's, by hand, and what the library does on counterexamples."""

from __future__ import annotations

from fractions import Fraction
from math import log as ln
from typing import Any

import numpy as np
import pytest
from hadar_oracles import problem_of
from hypothesis import assume, given, settings
from ledger_cases import cases, stored_case

import hetopt
from hetopt import NotSolved, Options
from hetopt.models import hadar
from hetopt.models.hadar.prices import step_factor
from hetopt.proofs.hadar import admission_prices, claims, competitive_ratio, exact_prices
from hetopt.proofs.hadar.exact_prices import runs
from hetopt.proofs.hadar.slot_cases import SlotCase, case_of, slot_space
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, integers
from hetopt.tolerances import EQUAL

F = Fraction
EXACT = Options(exact=True)
FEW = settings(max_examples=40, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key, one in CLAIMS.items() if isinstance(one.procedure, ForAll) for name in stored_names(key)]


ANY = cases(slot_space(values={**admission_prices.MANY, "work": integers(1, 3), "slots": integers(1, 3)}))


# -- prices and runs -------------------------------------------------------------------------------------------------


@FEW
@given(ANY)
def test_printed_prices_and_runs_are_those_of_the_library(case: SlotCase) -> None:
    problem, prices = problem_of(case), exact_prices.printed_prices(case)
    there = hadar.printed_prices(problem)
    assert list(map(float, prices.low)) == pytest.approx(there.low, rel=EQUAL)
    assert list(map(float, prices.high)) == pytest.approx(there.high, rel=EQUAL)
    for used in range(3):
        floats = there(np.full(len(case.cells), used))
        assert [float(prices.price(i, used)) for i in range(len(case.cells))] == pytest.approx(floats, rel=EQUAL)
    _like_the_library(hadar.Irrevocable("printed")(problem), runs(case, prices))


@FEW
@given(cases(admission_prices.PROVEN))
def test_proven_prices_and_runs_are_those_of_the_library(case: SlotCase) -> None:
    prices = exact_prices.proven_prices(case)
    found = hadar.Irrevocable()(problem_of(case))
    assert float(prices.delta) == pytest.approx(found.prices.delta, rel=EQUAL)
    assert 2 * float(competitive_ratio.step_factor(prices)) == pytest.approx(found.prices.factor, rel=EQUAL)
    _like_the_library(found, runs(case, prices, check_capacity=False))


def _like_the_library(found: Any, here: list[exact_prices.PrimalDualRun]) -> None:
    """The library's run is one of ours. A payoff of exactly 0 is left out: rounding may let it pass there."""
    assume(not any(_just_refused(run, step) for run in here for step in run.steps))
    payoffs = found.steps["payoff"][found.steps["committed"]].to_dict()

    def same(run: exact_prices.PrimalDualRun) -> bool:
        mine = {run.case.instance.jobs[s.job].name: float(s.payoff) for s in run.steps if s.taken}
        values = [float(run.utility), float(run.initial), float(run.dual)]
        return mine == pytest.approx(payoffs, rel=EQUAL) and values == pytest.approx(
            [found.utility, found.initial, found.dual], rel=EQUAL
        )

    assert any(map(same, here))


def _just_refused(run: exact_prices.PrimalDualRun, step: exact_prices.JobDecision) -> bool:
    pays = [exact_prices.payoff(run.case, run.prices, step.used, one) for one in run.case.schedules[step.job]]
    return step.taken is None and any(p == 0 for p in pays)


def test_one_run_by_hand() -> None:
    """[Hadar, Theorem 2]: prices 1/4 and 7 on one GPU; the second job would pay exactly nothing."""
    case = stored_case("hadar/thm-2")
    (run,) = runs(case, exact_prices.printed_prices(case))
    assert [step.payoff.rational for step in run.steps] == [F(3, 4), 0]
    assert (run.initial, run.dual, run.utility, run.is_feasible) == (F(1, 4), F(31, 4), 1, True)
    assert run.relation == 27
    assert competitive_ratio.least_alpha(run) == F(15, 2)


def test_all_ties_are_runs_but_for_like_cells() -> None:
    """Three GPUs of unlike types or servers to choose from; two of them are alike."""
    tables = {"gpus": [[1, 1], [1, 0]], "worth": [[1]], "speed": [[1, 1]]}
    case = case_of(CaseNumbers.read(tables))
    assert {run.used for run in runs(case, exact_prices.printed_prices(case))} == {(0, 0, 1), (0, 1, 0)}


@pytest.mark.parametrize(("worth", "holds"), [(worth, worth < 7) for worth in range(2, 10)])
def test_seven_is_the_smallest_whole_number_against_theorem_2(worth: int, holds: bool) -> None:
    case = case_of(CaseNumbers.read({"gpus": [[1]], "worth": [[1, worth]]}))
    assert (competitive_ratio.as_printed(case).slack >= 0) == holds == (worth <= 2 * ln(4 * worth))


# -- what the library does on the counterexamples --------------------------------------------------------------------


def test_counterexamples_to_the_prices_in_the_library() -> None:
    committed = {
        key: hadar.Irrevocable("printed")(problem_of(stored_case(f"hadar/{key}")))
        for key in ("thm-2", "lemma-1", "admits-any", "initial-dual", "full-server", "discrete")
    }
    best = {
        key: hadar.TimeIndexed(options=EXACT)(problem_of(stored_case(f"hadar/{key}"))).utility
        for key in ("thm-2", "lemma-1", "admits-any")
    }
    assert (committed["thm-2"].utility, best["thm-2"]) == (1, 7)
    assert best["thm-2"] > committed["thm-2"].prices.printed_factor
    assert (committed["lemma-1"].utility, best["lemma-1"]) == (1, 3)
    steps_ = committed["lemma-1"].steps
    alpha = max(1.0, (steps_["dual"] / steps_["primal"])[steps_["committed"]].max())
    assert 2 * alpha < 3
    assert committed["lemma-1"].initial <= 3 / 2
    assert (committed["admits-any"].utility, best["admits-any"]) == (0, 1)
    assert committed["initial-dual"].initial == pytest.approx(3 / 4)
    problem = problem_of(stored_case("hadar/full-server"))
    used = np.array([[1, 0]])
    pays = hadar.best_schedule(problem, 1, committed["full-server"].prices(used))
    assert pays is not None
    assert pays.payoff == pytest.approx(7 / 8)
    steep = committed["discrete"].prices.steepness
    assert step_factor(steep, 1 / 2) > max(1.0, steep)


def test_counterexamples_to_the_programs_in_the_library() -> None:
    with pytest.raises(NotSolved):
        hadar.TimeIndexed(admission=False, options=EXACT)(problem_of(stored_case("hadar/p1-p2")))
    problem = problem_of(stored_case("hadar/p1-p2-solvable"))
    assert hadar.TimeIndexed(admission=False, options=EXACT)(problem).utility == pytest.approx(5 / 2)
    assert hadar.Enumerated(options=EXACT)(problem).utility == pytest.approx(3)


def test_algorithm_2_in_the_library() -> None:
    """By the letter no job runs; the exact search takes the jobs on either side of one that finds no GPUs."""
    plan = hetopt.solve(hadar.printed(by_the_letter=True), stored_case("hadar/algorithm-2").instance)
    assert not plan.x.any()
    policy = hadar.Hadar(selection="exact", order="arrival", pays="round", fill=False)
    plan = hetopt.solve(policy, stored_case("hadar/line-8").instance)
    assert set(plan.placement.hosts) == {"j1", "j3"}
