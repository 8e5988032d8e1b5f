"""Steps in OEF's proofs: the slowest user's constraints by scipy, marginal reports, and the algebra for z3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from ledger_cases import cases
from scipy.optimize import linprog

from hetopt.proofs.ledger.claim import Finding, ProofPart
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.oef import claims, proof_algebra, proof_steps, worked_examples
from hetopt.proofs.oef.misreport_cases import MisreportCase
from hetopt.proofs.oef.tenant_cases import TenantCase, rising, tenant_space
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=25, deadline=None)
EQ_6 = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))


class Optima:
    """By scipy: optima of the largest total with further rows, for shares in the order of users and types."""

    def __init__(self, case: TenantCase, rows: list[tuple[np.ndarray, float]]) -> None:
        n, k = case.n, case.k
        self.w = np.array(case.speed, dtype=float)
        self.gpus = np.array(case.gpus, dtype=float)
        self.n, self.k = n, k
        self.rows = [*rows, *((np.tile(np.eye(k)[j], n), self.gpus[j]) for j in range(k))]
        found = linprog(-self.w.ravel(), *self._upper(self.rows))
        self.total = -found.fun

    def _upper(self, rows: list[tuple[np.ndarray, float]]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([row for row, _ in rows]), np.array([v for _, v in rows])

    def row(self, user: int, speeds: np.ndarray) -> np.ndarray:
        """What the GPUs of a user are worth at these speeds."""
        out = np.zeros((self.n, self.k))
        out[user] = speeds
        return out.ravel()

    def largest(self, forms: list[tuple[np.ndarray, float]]) -> float:
        """The largest value of the smallest of the forms a x - b over all optima."""
        rows = [(np.append(row, 0), v) for row, v in self.rows]
        rows.append((np.append(-self.w.ravel(), 0), -self.total + EQUAL))
        rows += [(np.append(-row, 1), -b) for row, b in forms]
        found = linprog(
            [*[0.0] * (self.n * self.k), -1.0],
            *self._upper(rows),
            bounds=[*[(0, None)] * (self.n * self.k), (None, None)],
        )
        return -float(found.fun)


def with_envy_rows(case: TenantCase) -> Optima:
    """Optima of cooperative OEF."""
    w = np.array(case.speed, dtype=float)
    rows = []
    for e in range(case.n):
        for o in range(case.n):
            if e != o:
                row = np.zeros((case.n, case.k))
                row[e], row[o] = -w[e], w[e]
                rows.append((row.ravel(), 0.0))
    return Optima(case, rows)


def with_sharing_rows(case: TenantCase) -> Optima:
    """Optima under the sharing incentive."""
    w, fair = np.array(case.speed, dtype=float), np.array(case.gpus, dtype=float) / case.n
    rows = []
    for e in range(case.n):
        row = np.zeros((case.n, case.k))
        row[e] = -w[e]
        rows.append((row.ravel(), -float(w[e] @ fair)))
    return Optima(case, rows)


def near(finding: Finding, largest: float) -> None:
    """The slack of a finding is minus what scipy finds, up to the tolerance in its total."""
    assert float(-finding.slack) == pytest.approx(largest, abs=1000 * EQUAL)


def suiting(case: TenantCase) -> list[int]:
    """Types on which another user is faster than u1."""
    return [j for j in range(case.k) if max(row[j] for row in case.speed) > case.speed[0][j]]


@FEW
@given(cases(tenant_space(rising, n=(2, 3), k=(2, 3))))
def test_slack_rows_of_the_first_user_are_those_of_scipy(case: TenantCase) -> None:
    """For users in any order, where some rows are slack."""
    envy, sharing = with_envy_rows(case), with_sharing_rows(case)
    w = np.array(case.speed, dtype=float)
    more = [(envy.row(0, w[0]) - envy.row(o, w[0]), 0.0) for o in range(1, case.n)]
    part = float(w[0] @ np.array(case.gpus, dtype=float)) / case.n
    best_envy = max((envy.largest([*more, (envy.row(0, np.eye(case.k)[j]), 0.0)]) for j in suiting(case)), default=0.0)
    near(proof_steps.envy_of_first(case), max(0.0, best_envy))
    surplus = (sharing.row(0, w[0]), part)
    best = max(
        (sharing.largest([surplus, (sharing.row(0, np.eye(case.k)[j]), 0.0)]) for j in suiting(case)), default=0.0
    )
    near(proof_steps.surplus_of_first(case), max(0.0, best))
    near(proof_steps.largest_surplus(case), sharing.largest([surplus]))


def test_tight_rows_by_hand() -> None:
    """Eq. (6): rates 3/2 and 15/4, u1 with its part; with u1 the faster user its surplus is 15/4 - 3."""
    found = proof_steps.same_rates(EQ_6)
    assert (found.slack, found.decided) == (F(3, 2) - F(15, 4), True)
    assert proof_steps.envy_of_first(EQ_6).slack == 0
    assert proof_steps.largest_surplus(EQ_6).slack == 0
    assert proof_steps.largest_surplus(TenantCase(EQ_6.speed[::-1], EQ_6.gpus)).slack == F(3) - F(15, 4)


def test_marginal_reports_by_hand() -> None:
    truth = TenantCase(((F(1), F(2), F(3)), (F(1), F(4), F(6))), (F(1),) * 3)

    def reporting(*row: int) -> MisreportCase:
        return MisreportCase(truth, truth.reporting(0, (F(1), *map(F, row))))

    assert proof_steps.below_others(reporting(3, 6))
    assert not proof_steps.below_others(reporting(2, 6))  # the truth on the second type
    assert not proof_steps.below_others(reporting(3, 7))  # above the other user
    assert proof_steps.only_last(reporting(2, 7))
    assert not proof_steps.only_last(reporting(3, 6))


def test_a_misreport_that_pays_has_the_slack_of_its_gain() -> None:
    assert proof_steps.pays(Finding(F(-1, 3), "gains")).slack == F(1, 3)
    assert proof_steps.pays(Finding(F(0), "gains nothing")).slack == -1
    assert proof_steps.pays(Finding(F(2), "loses")).slack == -1


# -- algebra ---------------------------------------------------------------------------------------------------------


def z3_builders() -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    """The steps for z3 of all claims of OEF, by name."""
    seen = set[str]()
    for claim in claims():
        for part in claim.mechanical:
            assert isinstance(part, partial)
            package, name, run = part.args
            if package == "z3" and name not in seen:
                seen.add(name)
                yield f"{claim.key}: {name}", run.args[0]


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in z3_builders()])
def test_steps_for_z3_need_their_hypotheses(build: Callable[[], list[Any]]) -> None:
    """The hypotheses can be met, and without some of them the conclusion can fail."""
    z3 = pytest.importorskip("z3")

    def answer(rows: list[Any], work: int = 0) -> Any:
        """Of z3 with so many of its own steps; 0 is no limit."""
        solver = z3.Solver()
        solver.set("rlimit", work)
        solver.add(*rows)
        return solver.check()

    *given_rows, conclusion_fails = build()
    assert answer([*given_rows, conclusion_fails]) == z3.unsat
    assert answer(given_rows) == z3.sat
    fewer = (given_rows[:i] + given_rows[i + left_out :] for left_out in (1, 2) for i in range(len(given_rows)))
    assert any(answer([*rows, conclusion_fails], 300_000) == z3.sat for rows in fewer)


def fails(part: ProofPart) -> bool:
    """Whether a part of a proof does not hold."""
    return part().holds is False


def test_steps_fail_for_other_statements() -> None:
    pytest.importorskip("z3")
    pytest.importorskip("sympy")
    z3 = proof_algebra.by_z3
    u3_also_strict = partial(proof_algebra.three_users, (1, -1, 0), ())
    assert fails(z3("u3 envies u2 after equal gains", u3_also_strict))
    assert fails(z3("u1 gives u3 type j", partial(proof_algebra.three_users, (-1, 0, 1), ())))
    assert fails(
        z3("u2 gives u1 type j, all rows of u3", partial(proof_algebra.three_users, (1, -1, 0), (), more=True))
    )
    assert not proof_algebra.sums_over_pairs()


@pytest.mark.parametrize("name", ["oef/eq2", "oef/eq6", "oef/eq6-lie", "oef/fig2", "oef/fig2-lie"])
def test_z3_finds_other_envy_free_allocations_below_the_largest_total(name: str) -> None:
    """With a total of at least 99 % of the largest one there are others."""
    z3 = pytest.importorskip("z3")
    case = worked_examples.tenants_of(name)
    rows, x, worth = worked_examples.shares_and_worth(case)
    rows += [worth[e][e] >= worth[e][o] for e, o in combinations(range(case.n), 2)]
    solver = z3.Solver()
    solver.add(*rows, worked_examples.differs(x, case.cooperative.share))
    least = case.cooperative.total * F(99, 100)
    solver.add(z3.Sum([worth[e][e] for e in range(case.n)]) >= z3.RealVal(str(least)))
    assert solver.check() == z3.sat


@pytest.mark.parametrize("report", [F(1, 2), F(1), F(2), F(7, 2), F(4), F(9, 2), F(20)])
def test_the_total_after_a_second_misreport_is_that_of_the_note(report: Fraction) -> None:
    """What :func:`second_misreport_pays` takes for the total of an optimum."""
    case = worked_examples.tenants_of("oef/eq6-lie").reporting(1, (F(1), report))
    rest = max(F(0), (report - 1) / (2 * report))
    total = 1 + F(3, 2) + report * F(5, 8) if report >= 4 else 1 + report * rest + 4 * (1 - rest)
    assert case.cooperative.total == total


def test_mechanical_parts_have_names_of_their_own() -> None:
    for claim in all_claims().values():
        if claim.key.startswith("oef/"):
            names = [part.args[1] for part in claim.mechanical if isinstance(part, partial)]
            assert len(set(names)) == len(names), claim.key
