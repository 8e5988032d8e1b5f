"""Formulations with several optima, and counterexamples that are tried on other policies."""

from __future__ import annotations

from fractions import Fraction

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from property_cases import BY_KEY, SMALL, of
from scipy.optimize import linprog

from hetopt.models import baselines, oef
from hetopt.proofs.ledger.claim import Counterexample, Finding
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.properties import property_matrix
from hetopt.proofs.properties.policy_answers import UndecidedTie, ask_policy, most_favourable, own_speeds, true_rates
from hetopt.proofs.properties.policy_cases import AllowedMisreports, PolicyCase, policy_space
from hetopt.proofs.properties.property_checks import EVERY_OPTIMUM, PROPERTIES, no_gain
from hetopt.proofs.properties.property_matrix import MatrixCell
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=15, deadline=None)


# -- several optima --------------------------------------------------------------------------------------------------


def test_a_misreport_that_pays_in_some_optima_refutes_nothing() -> None:
    """Cooperative OEF on (1, 1), (1, 2) and GPUs 2, 1: honestly u2 may have 2 to 5/2, after the lie 3/2 to 5/2."""
    case = of("tenants", AllowedMisreports.UNDER, speed=[[1], [2]], gpus=[[2, 1]], report=[[1]], liar=[[2]])
    honest, lying = ask_policy(oef.cooperative(), case.instance), ask_policy(oef.cooperative(), case.reported)
    ends = [
        true_rates(
            case.instance, most_favourable(oef.cooperative(), instance, answer, own_speeds(case, (0, 1), 1, sign))
        )[1]
        for instance, answer in ((case.instance, honest), (case.reported, lying))
        for sign in (-1, 1)
    ]
    assert ends == [2, F(5, 2), F(3, 2), F(5, 2)]
    assert no_gain(case, oef.cooperative()).slack >= 0


def test_a_misreport_that_pays_in_all_optima_refutes() -> None:
    """u3 of (1, 1, 1), (1, 5, 6), (1, 3, 2) on GPUs 2, 3, 3 reports (1, 2, 2): 6 before, at least 23/3 after."""
    case = of(
        "tenants",
        AllowedMisreports.UNDER,
        speed=[[1, 1], [5, 6], [3, 2]],
        gpus=[[2, 3, 3]],
        report=[[2, 2]],
        liar=[[3]],
    )
    found = no_gain(case, oef.cooperative())
    assert found.refutes
    assert "has a rate of 23/3 instead of 6" in found.explanation


def test_envy_in_every_optimum_is_one_and_in_some_a_tie() -> None:
    """Of GPU1 both gain the same, so either may have it; GPU2 goes to u2, whom u1 envies always."""
    case = of("tenants", speed=[[2], [5]], gpus=[[1, 1]])
    assert not ask_policy(baselines.efficiency_only(), case.instance).unique
    found = BY_KEY["envy-free"].check(case, baselines.efficiency_only())
    assert found.refutes
    assert found.certificate == (EVERY_OPTIMUM,)
    alike = of("tenants", speed=[[2], [2]], gpus=[[1, 1]])  # everything to one of them, or half to each
    with pytest.raises(UndecidedTie):
        BY_KEY["envy-free"].check(alike, baselines.efficiency_only())
    assert BY_KEY["sharing-incentive"].check(case, baselines.efficiency_only()).refutes


@FEW
@given(policy_space("tenants", AllowedMisreports.UNDER).strategy())
def test_no_kinder_optimum_is_found_by_chance(drawn: tuple[CaseNumbers, PolicyCase]) -> None:
    """Against the ends of the optimal face by scipy, independent of the method here."""
    case = drawn[1]
    n, k = len(case.speed), len(case.gpus)
    speed = np.array(case.speed, dtype=float)
    capacity = np.tile(np.eye(k), n)
    best = linprog(-speed.ravel(), capacity, np.array(case.gpus, dtype=float))
    answer = ask_policy(baselines.efficiency_only(), case.instance)
    for e in range(n):
        own = np.zeros((n, k))
        own[e] = speed[e]
        far = linprog(
            -own.ravel(),
            np.vstack([capacity, -speed.ravel()]),
            np.append(np.array(case.gpus, dtype=float), best.fun + EQUAL),
        )
        kind = most_favourable(baselines.efficiency_only(), case.instance, answer, own_speeds(case, range(n), e))
        assert float(true_rates(case.instance, kind)[e]) == pytest.approx(-far.fun, rel=1 / 1000)


# -- many policies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_counterexamples_against_one_policy_are_tried_on_the_others(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    """With nothing drawn for it but one simple case, the second policy fails by what was found against the first."""
    at = [p.key for p in PROPERTIES].index("envy-free")
    small = CaseNumbers({"speed": ((F(2),), (F(5),)), "gpus": ((F(1), F(1)),)})
    large = CaseNumbers({"speed": ((F(2),), (F(5),), (F(6),)), "gpus": ((F(1), F(1)),)})
    finding = Finding(F(-1), "x")
    first = MatrixCell(PROPERTIES[at], False, 1, counterexample=Counterexample(small, None, finding))
    holds = MatrixCell(PROPERTIES[at], True, 1)
    fails = MatrixCell(PROPERTIES[at], False, 1, counterexample=Counterexample(large, None, finding))
    none = MatrixCell(PROPERTIES[at], None, why="x")
    given = {"gavel-total-throughput": first, "efficiency-only": holds, "sharing-incentive-only": fails, "ceei": none}
    monkeypatch.setattr(property_matrix, "_decide", lambda task, *_: given[task[0]])
    tasks = [(name, "tenants", at) for name in given]
    with joblib.parallel_config(backend="threading"):  # so that workers use the replaced function
        found = list(property_matrix.decide_cells(tasks, {}, SMALL, jobs))  # type: ignore[arg-type]
    assert [one for task, one in found[:4] if given[task[0]] is not one] == []
    after = {task[0]: one for task, one in found[4:]}
    assert set(after) == {"efficiency-only"}  # the sharing incentive leaves no envy among two
    assert after["efficiency-only"].holds is False
    assert after["efficiency-only"].counterexample is not None
    assert after["efficiency-only"].counterexample.numbers == small
    assert "would gain" in after["efficiency-only"].counterexample.finding.explanation
