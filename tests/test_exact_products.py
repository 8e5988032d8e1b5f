"""Rows whose coefficients are products of long numbers: in fractions, not as rounded products."""

from __future__ import annotations

from fractions import Fraction as F  # noqa: N817 - it stands in tables

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.auditing import holdings
from hetopt.data.rationals import rational
from hetopt.formulations.formulation import Formulation
from hetopt.models import baselines, gavel
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate

COOPERATIVE = Formulation((TotalRate(), EnvyFree()))
LAZY = Formulation((TotalRate(), EnvyFree(eager_up_to=0)))
NONCOOPERATIVE = Formulation((TotalRate(), EqualRates()))


def fractions(values: np.ndarray) -> list[F]:
    return [rational(float(v)) for v in np.ravel(values)]


LONG = st.integers(1001, 9999).map(lambda v: v / 1000)
"""Numbers whose products have denominators of a million and more."""


@settings(max_examples=25)
@given(st.data(), st.booleans())
def test_products_of_long_numbers_are_not_rounded(data: st.DataObject, lazy: bool) -> None:
    """Weighted cooperative OEF in Fractions by hand: feasible, and the duals alone bound the total."""
    n, k = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    rows = [[1.0, *(data.draw(LONG) for _ in range(k - 1))] for _ in range(n)]
    rows = [rows[0]] * n if data.draw(st.booleans()) else rows
    gpus = [data.draw(st.integers(1, 9)) for _ in range(k)]
    instance = hetopt.Instance.from_speedups(rows, gpus, weights=[data.draw(LONG) for _ in range(n)])
    exact = hetopt.solve(LAZY if lazy else COOPERATIVE, instance, exact=True).certificate.exact
    assert exact is not None
    w = [fractions(np.array(row)) for row in rows]
    pi = fractions(np.array([t.weight for t in instance.tenants]))
    x, price = exact.x.reshape(n, k), dict(zip(exact.program.row_names, exact.row_dual, strict=True))
    assert (exact.x >= 0).all()
    reduced = np.array([[w[e][j] - price[f"capacity[GPU{j + 1}]"] for j in range(k)] for e in range(n)])
    for e in range(n):
        for o in set(range(n)) - {e}:
            envy = [(pi[o] * w[e][j], -pi[e] * w[e][j]) for j in range(k)]
            assert sum(a * x[e, j] + b * x[o, j] for j, (a, b) in enumerate(envy)) >= 0
            if (y := price.get(f"envy_free.row[u{e + 1},u{o + 1}]", F(0))) != 0:
                assert y < 0
                for j, (a, b) in enumerate(envy):
                    reduced[e, j] -= y * a
                    reduced[o, j] -= y * b
    assert (reduced <= 0).all()
    assert sum(price[f"capacity[GPU{j + 1}]"] * gpus[j] for j in range(k)) == exact.objective


@settings(max_examples=25)
@given(st.data())
def test_exact_audits_agree_with_exact_optima_of_long_numbers(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    rows = [[data.draw(LONG) for _ in range(k)] for _ in range(n)]
    rows = [rows[0]] * n if data.draw(st.booleans()) else rows
    gpus = [data.draw(st.integers(1, 9)) for _ in range(k)]
    weights = [data.draw(LONG) for _ in range(n)]
    instance = hetopt.Instance.from_speedups(rows, gpus, weights=weights, any_scale=True)
    for formulation in (baselines.sharing_incentive_only(), gavel.max_min_fairness()):
        allocation = hetopt.solve(formulation, instance, exact=True)
        assert hetopt.audit(instance, allocation, exact=True).sharing_incentive.holds
    equal = holdings(instance, hetopt.solve(NONCOOPERATIVE, instance, exact=True), exact=True)
    assert len(set((equal.rate / equal.weight).tolist())) == 1
