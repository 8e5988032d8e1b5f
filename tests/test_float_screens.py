"""Float estimates of searches: programs by scipy, and slacks by the exact checkers that they stand in for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hetopt.proofs.float_programs import maximise_in_floats
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.oef import float_screens
from hetopt.proofs.oef.float_screens import Tenants
from hetopt.proofs.oef.tenant_cases import TenantCase, tenant_space
from hetopt.tolerances import EQUAL

F = Fraction
SCREENED = [key for key, claim in all_claims().items() if getattr(claim.procedure, "screen", None) is not None]


def cases_of(seed: int, most: int = 12) -> list[TenantCase]:
    """Tenant cases of one shape."""
    rng = Random(seed)
    space = tenant_space()
    sizes = rng.choice(space.shapes())
    return [case for one in space.structured(sizes, most, rng) if (case := space.case(one)) is not None]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5), st.integers(1, 12))
def test_programs_have_the_values_of_scipy(seed: int, rows: int, columns: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 6, (count, rows, columns)).astype(float)
    a[:, 0] = np.abs(a[:, 0]) + 1  # bounded
    b, c = rng.integers(0, 5, (count, rows)).astype(float), rng.integers(-2, 6, (count, columns)).astype(float)
    found = maximise_in_floats(c, a, b)
    for i in range(count):
        best = linprog(-c[i], a[i], b[i])
        assert found.value[i] == pytest.approx(-best.fun, abs=EQUAL)
        assert c[i] @ found.x[i] == pytest.approx(found.value[i], abs=EQUAL)
        assert (a[i] @ found.x[i] <= b[i] + EQUAL).all()
        assert (found.x[i] >= 0).all()
        assert (found.reduced[i] * found.x[i] <= EQUAL).all()


def test_an_unbounded_program_has_no_value() -> None:
    found = maximise_in_floats(np.ones((2, 1)), np.array([[[1.0]], [[-1.0]]]), np.ones((2, 1)))
    assert found.value[0] == pytest.approx(1)
    assert np.isnan(found.value[1])


@given(st.integers(0, 2**32 - 1))
def test_programs_of_oef_have_the_exact_totals(seed: int) -> None:
    cases = cases_of(seed)
    tenants = Tenants.of(cases)
    totals = tenants.rates(float_screens.cooperative(tenants).share).sum(axis=1)
    assert totals == pytest.approx([float(case.cooperative.total) for case in cases], abs=EQUAL)
    levels = tenants.rates(float_screens.noncooperative(tenants).share).min(axis=1)
    assert levels == pytest.approx([float(case.level) for case in cases], abs=EQUAL)


@pytest.mark.parametrize("key", SCREENED)
def test_screens_see_the_counterexamples_that_checkers_see(key: str) -> None:
    """Where the checker refutes, the estimate is negative; so a search with the screen misses none."""
    procedure = all_claims()[key].procedure
    assert isinstance(procedure, ForAll)
    assert procedure.screen is not None
    rng, cases = Random(0), []
    for sizes in procedure.space.shapes():
        drawn = [*procedure.space.level(sizes, 6, 60, rng), *procedure.space.structured(sizes, 60, rng)]
        cases += [case for one in drawn if (case := procedure.space.case(one)) is not None]
    slacks = procedure.screen(cases)
    for case, slack in zip(cases, slacks, strict=True):
        if procedure.judge(case).refutes:
            assert slack < 0, case


def test_cases_without_a_float_optimum_are_left_to_the_finding() -> None:
    def unsolved(tenants: Tenants) -> float_screens.FloatAllocation:
        found = float_screens.cooperative(tenants)
        return replace(found, share=np.full_like(found.share, np.nan))

    cases = cases_of(0)
    for estimate in (float_screens.out_of_order, float_screens.gaps, float_screens.inefficiency):
        assert set(float_screens.screened(unsolved, estimate)(cases)) == {-np.inf}


@given(st.integers(0, 2**32 - 1))
def test_inefficiency_is_a_trade(seed: int) -> None:
    """A negative estimate means that some allocation gives one user more and none less than the float optimum."""
    cases = cases_of(seed)
    tenants = Tenants.of(cases)
    found = float_screens.noncooperative(tenants)
    for case, share, slack in zip(cases, found.share, float_screens.inefficiency(tenants, found), strict=True):
        speed, gpus = np.array(case.speed, float), np.array(case.gpus, float)
        n, k = speed.shape
        rates = (speed * share).sum(axis=1)
        keeps = np.zeros((n, n * k))
        for e in range(n):
            keeps[e, e * k : (e + 1) * k] = -speed[e]
        best = linprog(-speed.ravel(), np.vstack([keeps, np.tile(np.eye(k), n)]), [*-rates + EQUAL, *gpus + EQUAL])
        gain = -best.fun - rates.sum()
        assert (slack < -(2.0**-8)) <= (gain > EQUAL)
