"""Hadar's claims: each verdict, and the exact computations behind them against the library and by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hadar_oracles import in_one_slot, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import cases, stored_case

from hetopt import NotSolved, Options
from hetopt.models import hadar
from hetopt.models.hadar.job_schedules import schedules as library_schedules
from hetopt.proofs.hadar import (
    admission_prices,
    algorithm_2,
    claims,
    competitive_ratio,
    cost_relation,
    exact_prices,
    price_slopes,
    problem_equivalence,
    ratio_families,
)
from hetopt.proofs.hadar.algorithm_2 import BestGang, TakeOrSkip
from hetopt.proofs.hadar.exact_prices import ONE, printed_prices, proven_prices, runs
from hetopt.proofs.hadar.radicals import RadicalSum, enclosed, log, power, rounded_towards_zero, sign
from hetopt.proofs.hadar.slot_cases import SlotCase, case_of, slot_space
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, integers
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
EXACT = Options(exact=True)
FEW = settings(max_examples=40, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key, one in CLAIMS.items() if isinstance(one.procedure, ForAll) for name in stored_names(key)]


# -- roots -----------------------------------------------------------------------------------------------------------

PARTS = st.fractions(F(1, 9), 9, max_denominator=9)


@given(st.lists(st.tuples(PARTS, PARTS, st.fractions(-3, 3, max_denominator=6)), min_size=1, max_size=4))
def test_roots_agree_with_floats(terms: list[tuple[Fraction, Fraction, Fraction]]) -> None:
    exact: RadicalSum = sum((q * power(b, e) for b, e, q in terms), RadicalSum(()))
    about = sum(float(q) * float(b) ** float(e) for b, e, q in terms)
    scale = sum(abs(float(q)) * float(b) ** float(e) for b, e, q in terms)
    assert abs(float(exact) - about) <= PROVEN * scale
    if abs(about) > PROVEN * scale:
        assert sign(exact) == (1 if about > 0 else -1)
        rounded = rounded_towards_zero(exact)
        assert 0 < rounded / F(about) <= 1 + F(EQUAL)
    assert (exact * exact - 2 * exact).terms == (exact * (exact - 2)).terms


def test_roots_compare_exactly() -> None:
    two = power(F(2), F(1, 2))
    assert power(F(8), F(1, 2)) == 2 * two
    assert two * two == 2
    assert power(F(4, 9), F(3, 2)) == F(8, 27)
    assert power(F(12), F(1, 2)) - 2 * power(F(3), F(1, 2)) == 0
    assert F(577, 408) > two > F(1393, 985)
    assert not two < two
    assert enclosed(lambda: log(F(28)) * 2 - 7)[0] == -1
    assert enclosed(lambda: log(F(24)) * 2 - 6)[0] == 1
    with pytest.raises(ArithmeticError):
        enclosed(lambda: log(F(4)) - 2 * log(F(2)))


# -- gangs, programs -------------------------------------------------------------------------------------------------

ANY = cases(slot_space(values={**admission_prices.MANY, "work": integers(1, 3), "slots": integers(1, 3)}))


@FEW
@given(ANY)
def test_schedules_and_optima_are_those_of_the_library(case: SlotCase) -> None:
    problem = problem_of(case)
    for j, own in enumerate(case.schedules):
        there = {(p.schedule.gpus, p.schedule.value(case.problem)) for p in library_schedules(case.problem, j)}
        assert {(one.uses, one.value) for one in own} == there
        assert len(own) == len(there)
    best, chosen = case.best
    assert float(best) == pytest.approx(hadar.Enumerated(options=EXACT)(problem).utility, rel=EQUAL)
    assert sum(one.value for one in chosen if one) == best
    used = sum((np.array(_used(case, one.uses)) for one in chosen if one), np.zeros(case.slots * len(case.cells)))
    assert (used <= np.tile([c for _, _, c in case.cells], case.slots)).all()


def test_schedules_run_in_no_slot_too_many() -> None:
    """Work 2 on a GPU of speed 1 in both slots, or on one of speed 2 in one of them."""
    case = case_of(
        CaseNumbers.read({"gpus": [[1, 1]], "worth": [[1]], "work": [[2]], "speed": [[1, 2]], "slots": [[2]]})
    )
    assert {one.uses for one in case.schedules[0]} == {((0, 0, 1), (1, 0, 1)), ((0, 1, 1),), ((1, 1, 1),)}


def _used(case: SlotCase, uses: Any) -> list[int]:
    found = [0] * (case.slots * len(case.cells))
    for t, i, n in uses:
        found[t * len(case.cells) + i] += n
    return found


@FEW
@given(cases(problem_equivalence.ANY))
def test_p1_is_the_integer_program_of_the_library(case: SlotCase) -> None:
    problem = problem_of(case)
    admitted, forced = (problem_equivalence.slotwise(case, admission=yes) for yes in (True, False))
    assert admitted is not None
    assert float(admitted) == pytest.approx(hadar.TimeIndexed(options=EXACT)(problem).utility, abs=EQUAL)
    if forced is None:
        with pytest.raises(NotSolved):
            hadar.TimeIndexed(False, EXACT)(problem)
    else:
        assert float(forced) == pytest.approx(hadar.TimeIndexed(False, EXACT)(problem).utility, abs=EQUAL)


@FEW
@given(cases(problem_equivalence.ANY))
def test_both_relaxations_are_that_of_the_library(case: SlotCase) -> None:
    there = hadar.ColumnGeneration().relaxation(problem_of(case)).utility
    for here in (problem_equivalence.relaxed(case), problem_equivalence.dual(case)):
        assert float(here) == pytest.approx(there, rel=EQUAL, abs=EQUAL)


@FEW
@given(cases(problem_equivalence.priced_space()))
def test_the_dual_objective_by_hand(case: problem_equivalence.PricedCase) -> None:
    """Prices times GPUs, and for each job the best of all schedules."""
    rent = sum(k * c for row in case.prices for k, (_, _, c) in zip(row, case.case.cells, strict=True))
    pays = [
        [one.value - sum(case.prices[t][i] * n for t, i, n in one.uses) for one in own] for own in case.case.schedules
    ]
    bound = rent + sum(max([F(0), *own]) for own in pays)
    assert problem_equivalence.weak(case).slack == bound - case.case.best[0]


# -- recursion -------------------------------------------------------------------------------------------------------


def test_states_by_hand() -> None:
    """Two jobs on one GPU: the first call, two for the second job, and two after it."""
    case = case_of(CaseNumbers.read({"gpus": [[1]], "worth": [[1, 1]]}))
    assert algorithm_2.states(case) == 5
    recursion = TakeOrSkip.of(case)
    recursion.as_printed(0, (), (0,))
    assert recursion.states == {(0, (0,)), (1, (0,)), (1, (1,)), (2, (0,)), (2, (1,))}
    assert [algorithm_2.states(algorithm_2.own_types(n)) for n in (1, 2, 3, 4)] == [3, 7, 15, 31]


@FEW
@given(cases(algorithm_2.ANY), st.data())
def test_find_alloc_is_the_cheapest_gang(case: SlotCase, data: st.DataObject) -> None:
    recursion = TakeOrSkip.of(case)
    used = tuple(data.draw(st.integers(0, c)) for _, _, c in case.cells)
    for j, job in enumerate(case.jobs):
        costs = [
            recursion.cost(BestGang(ONE, seats), used)
            for _, seats in case.gangs(j)
            if all(used[i] + n <= case.cells[i][2] for i, n in seats)
        ]
        pays, found = job.worth - min(costs, default=ONE * job.worth), recursion.find_alloc(j, used)
        assert (found is None) == (pays <= 0)
        assert found is None or (found.payoff == pays and sum(n for _, n in found.seats) == job.gpus)


# -- checkers find what is wrong -------------------------------------------------------------------------------------


class OtherLogarithm(price_slopes.PriceRise):
    """As if alpha were 1.3 times the logarithm of the ratio."""

    def alpha(self) -> arb:
        return super().alpha() * 13 / 10


class SmallerLogarithm(price_slopes.PriceRise):
    """As if it were half of it."""

    def alpha(self) -> arb:
        return super().alpha() / 2


def test_slopes_show_another_logarithm() -> None:
    rise = (F(3, 2), 6, 2, 1)
    assert price_slopes.between_slopes(price_slopes.PriceRise(*rise)).slack > 0
    assert price_slopes.between_slopes(OtherLogarithm(*rise)).slack == -1
    assert price_slopes.between_slopes(SmallerLogarithm(*rise)).slack == -1
    assert price_slopes.least_alpha(OtherLogarithm(*rise)).slack == -1
    two = price_slopes.least_alpha(price_slopes.PriceRise(F(4), 2, 0, 1))  # 2 (4 ** (1 / 2) - 1) - ln 4
    assert two.slack == F(613, 1000)


def test_checkers_find_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    theorem, full, small = (stored_case(f"hadar/{key}") for key in ("thm-2", "full-server", "discrete"))
    (run,) = runs(theorem, exact_prices.printed_prices(theorem))
    assert cost_relation.growth_of(run, run.relation)[0] > 0
    assert cost_relation.growth_of(run, ONE)[0] == -F(13, 2)
    two_jobs = case_of(CaseNumbers.read({"gpus": [[2]], "worth": [[1, 1]]}))
    (run,) = runs(two_jobs, exact_prices.printed_prices(two_jobs))
    rises = [1 - run.growth(step) for step in run.steps]
    assert cost_relation.growth_of(run, ONE)[0] == rounded_towards_zero(min(rises)) < rounded_towards_zero(max(rises))
    assert problem_equivalence.weak(problem_equivalence.PricedCase(theorem, ((F(1),),))).slack == 1 + 6 - 7
    with monkeypatch.context() as changed:
        changed.setattr(exact_prices.PrimalDualRun, "dual", ONE)
        assert competitive_ratio.corrected(two_jobs).slack == 1 - two_jobs.best[0] == -1
    with monkeypatch.context() as changed:
        changed.setattr(
            exact_prices.PriceFunction, "price", lambda self, cell, used: (1 + used) * self.growth(cell, used)
        )
        assert price_slopes.least_alpha(price_slopes.PriceRise(F(4), 2, 0, 1)).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(admission_prices, "proven_prices", exact_prices.printed_prices)
        assert admission_prices.within(full).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(competitive_ratio, "step_factor", lambda _: F(1, 9) * ONE)
        assert competitive_ratio.corrected(small).slack < 0
    with monkeypatch.context() as changed:
        changed.setattr(problem_equivalence, "dual", lambda case: problem_equivalence.relaxed(case) + 1)
        assert problem_equivalence.strong(theorem).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(TakeOrSkip, "as_printed", lambda self, *_: ((0, self.find_alloc(0, self.idle)),))
        assert algorithm_2.printed_takes_no_job(theorem).slack == -1
    with monkeypatch.context() as changed:
        changed.setattr(algorithm_2, "states", lambda _: 99)
        assert algorithm_2.few_states(theorem).slack == 5 - 99


@pytest.mark.parametrize(("base", "gpus"), [(F(2), 8), (F(3, 2), 12), (F(4, 3), 16)])
def test_utilities_that_always_just_pay(base: Fraction, gpus: int) -> None:
    """What the family gives in one line is what Algorithm 1 does at proven prices, and what the policy does."""
    worth = ratio_families.rising(base, gpus)
    case = in_one_slot(worth, gpus)
    prices = proven_prices(case)
    assert prices.steepness == base ** (gpus - 1)
    assert competitive_ratio.step_factor(prices) == ratio_families.alpha(gpus, base) * ONE
    (run,) = runs(case, prices, check_capacity=False)
    assert run.utility == ratio_families.online_utility(gpus, base, worth)
    assert [bool(step.taken) for step in run.steps] == [True] * (gpus - 1) + [False] * (gpus - 1)


def test_a_larger_eta_lowers_the_price() -> None:
    """One job of utility 1 on one GPU for one slot: U_min is 1 / (4 eta), and eta 1 is the least that is allowed."""
    case = in_one_slot((F(1),), 1)
    assert [printed_prices(case, eta).low for eta in (F(0), F(1, 4), F(2))] == [(F(1, 4),), (F(1, 4),), (F(1, 8),)]


def test_the_sharper_factor_by_hand() -> None:
    """Utilities 1, 4 and 4 on 2 GPUs: a price of 1/4, then 4 (the ratio is 16, delta 1/2); ALG is 1, alpha' 30."""
    case = in_one_slot((F(1), F(4), F(4)), 2)
    prices = proven_prices(case)
    assert (prices.steepness, prices.delta) == (16, F(1, 2))
    assert competitive_ratio.step_factor(prices) == 30 * ONE
    assert ratio_families.used_factor(case) == F(258, 1000)  # 8 / 31
    assert ratio_families.at_most_one_more(case).slack == 23
    assert ratio_families.first_comes_first(7) == 7


def test_infeasible_duals_are_seen() -> None:
    case = stored_case("hadar/lemma-1")
    (run,) = runs(case, exact_prices.printed_prices(case))
    assert not run.is_feasible
    assert not competitive_ratio._feasible(case)
