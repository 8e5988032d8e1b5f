"""Tenants that share GPUs, in fractions, with the optima of OEF's programs and related programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, pairwise, permutations
from typing import TypeVar

from hetopt.data.instance import Instance
from hetopt.proofs.ledger.finding_pictures import SharesPicture, shares_picture
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)
from hetopt.proofs.small_programs import Infeasible, RowVector, SmallOptimum, maximise_exactly

C = TypeVar("C")
F = Fraction
Share = tuple[tuple[Fraction, ...], ...]
Constraints = list[tuple[RowVector, Fraction]]
"""Rows ``a.x <= b`` over the shares (n * k,), and perhaps one more column."""

SPEEDS = integers(1, 12)
GPUS = integers(1, 4)

OPTIMAL = "the allocation is optimal: prices prove its total in fractions"
UNIQUE = "the optimum is unique: no variable without a price can move"


@dataclass(frozen=True)
class Optimum:
    """An optimal allocation: shares (n, k) in GPUs, the sum of rates, whether it is unique, and the prices of rows."""

    share: Share
    total: Fraction
    unique: bool
    dual: tuple[Fraction, ...]


@dataclass(frozen=True)
class TenantCase:
    """n tenants with weights, k GPU types.

    Attributes
    ----------
    speed:
        (n, k) speedups w_l^j, 1 on the first type (0 allowed elsewhere).
    gpus:
        (k,) capacities m_j.
    weight:
        (n,) weights pi_l; 1 each if empty.
    """

    speed: Share
    gpus: tuple[Fraction, ...]
    weight: tuple[Fraction, ...] = ()

    @property
    def n(self) -> int:
        """Tenants."""
        return len(self.speed)

    @property
    def k(self) -> int:
        """GPU types."""
        return len(self.gpus)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """(n,) weights."""
        return self.weight or (F(1),) * self.n

    @cached_property
    def instance(self) -> Instance:
        """The instance of the library; reported speedups need not be relative to the slowest type."""
        rows = [[float(w) for w in row] for row in self.speed]
        weights = [float(w) for w in self.weight] if self.weight else None
        return Instance.from_speedups(rows, [int(m) for m in self.gpus], weights=weights, any_scale=True)

    def worth(self, tenant: int, share: Sequence[Fraction]) -> Fraction:
        """Normalised throughput of a tenant with (k,) GPUs."""
        return sum((w * x for w, x in zip(self.speed[tenant], share, strict=True)), F(0))

    def rates(self, share: Share) -> tuple[Fraction, ...]:
        """(n,) normalised throughputs."""
        return tuple(self.worth(e, row) for e, row in enumerate(share))

    def reporting(self, tenant: int, row: Sequence[Fraction]) -> TenantCase:
        """A copy with another report of one tenant."""
        speed = (*self.speed[:tenant], tuple(row), *self.speed[tenant + 1 :])
        return replace(self, speed=speed)

    def picture(self, title: str, share: Share) -> SharesPicture:
        """Shares at true speedups."""
        return shares_picture(title, share, self.gpus, self.rates(share))

    # -- programs ------------------------------------------------------------------------------------------------

    def capacity_rows(self, extra: int = 0) -> Constraints:
        """Rows of the capacity, with ``extra`` further columns of zeros."""
        shares = self.n * self.k
        return [
            ([F(c % self.k == j and c < shares) for c in range(shares + extra)], m) for j, m in enumerate(self.gpus)
        ]

    def row(self, entries: Mapping[tuple[int, int], Fraction], extra: Sequence[Fraction] = ()) -> list[Fraction]:
        """Coefficients from (tenant, type) -> coefficient, followed by ``extra``."""
        return [*(entries.get((e, j), F(0)) for e in range(self.n) for j in range(self.k)), *extra]

    def optimum(self, found: SmallOptimum) -> Optimum:
        """Convert the optimum of a program whose first columns are the shares."""
        share = tuple(tuple(found.x[e * self.k : (e + 1) * self.k]) for e in range(self.n))
        return Optimum(share, sum(self.rates(share), F(0)), found.unique, found.dual)

    def best_of(self, gain: Sequence[Fraction | int], rows: Constraints) -> Optimum:
        """The allocation under capacity and ``rows`` with the largest ``gain`` (n * k,)."""
        return self.optimum(maximise_exactly(gain, [*self.capacity_rows(), *rows]))

    def largest_level(self, rows: Constraints) -> SmallOptimum:
        """The largest value of one further column under ``rows``, which include the capacity."""
        return maximise_exactly([*[F(0)] * (self.n * self.k), F(1)], rows)

    def largest_total(self, rows: Constraints) -> Optimum:
        """The largest sum of rates under capacity and ``rows``."""
        return self.best_of(list(chain(*self.speed)), rows)

    def envy_rows(self) -> Constraints:
        """pi_i w_l.x_l >= pi_l w_l.x_i, [OEF, eq. 10c]."""
        rows: Constraints = []
        for e, o in permutations(range(self.n), 2):
            mine = {(e, j): -self.weights[o] * w for j, w in enumerate(self.speed[e])}
            theirs = {(o, j): self.weights[e] * w for j, w in enumerate(self.speed[e])}
            rows.append((self.row({**mine, **theirs}), F(0)))
        return rows

    @cached_property
    def cooperative(self) -> Optimum:
        """The largest total among envy-free allocations, [OEF, eq. 10]."""
        return self.largest_total(self.envy_rows())

    @cached_property
    def free(self) -> Optimum:
        """The largest total without fairness, [OEF, eq. 4]."""
        return self.largest_total([])

    @cached_property
    def level(self) -> Fraction:
        """t*: the largest rate per weight that all tenants can have at once."""
        return self._equal.value

    @cached_property
    def _equal(self) -> SmallOptimum:
        """The largest t with t pi_l = w_l.x_l, [OEF, eq. 9], each equation as two rows."""
        rows = self.capacity_rows(extra=1)
        for e in range(self.n):
            up = self.row({(e, j): w for j, w in enumerate(self.speed[e])}, [-self.weights[e]])
            rows += [(up, F(0)), ([-v for v in up], F(0))]
        return self.largest_level(rows)

    @cached_property
    def noncooperative(self) -> Optimum:
        """The largest total among allocations with equal rates, [OEF, eq. 9]."""
        return self.optimum(self._equal)

    @cached_property
    def sharing(self) -> Optimum:
        """The largest total among allocations with the sharing incentive."""
        return self.largest_total(self.sharing_rows())

    def sharing_rows(self) -> Constraints:
        """Rows of the sharing incentive: rates of at least the rate of the tenant's part of every type."""
        parts = [w / sum(self.weights) for w in self.weights]
        return self._least_rows([part * self.worth(e, self.gpus) for e, part in enumerate(parts)])

    def _least_rows(self, rates: Sequence[Fraction]) -> Constraints:
        return [(self.row({(e, j): -w for j, w in enumerate(self.speed[e])}), -v) for e, v in enumerate(rates)]

    def total_row(self, total: Fraction) -> tuple[RowVector, Fraction]:
        """The row that requires at least this sum of rates."""
        return [-w for row in self.speed for w in row], -total

    def furthest_gap(self, found: Optimum, rows: Constraints) -> tuple[Fraction, Share, int]:
        """The widest gap over all allocations under ``rows`` with the total of ``found``.

        Returns the largest part of two types that a tenant has without the types between them, the allocation, and the
        tenant.
        """
        common: Constraints = [
            ([*row, F(0)], v) for row, v in [*self.capacity_rows(), self.total_row(found.total), *rows]
        ]
        best = (F(0), found.share, 0)
        for e in range(self.n):
            for a, c in combinations(range(self.k), 2):
                for b in range(a + 1, c):
                    without = (self.row({(e, b): F(1)}, [F(0)]), F(0))
                    parts = [(self.row({(e, j): -1 / self.gpus[j]}, [F(1)]), F(0)) for j in (a, c)]
                    try:
                        there = self.largest_level([*common, without, *parts])
                    except Infeasible:  # the tenant has type b in all of them
                        continue
                    if there.value > best[0]:
                        best = (there.value, self.optimum(there).share, e)
        return best

    def equal_rows(self) -> Constraints:
        """Rows with rates per weight of at least t*."""
        return self._least_rows([self.level * w for w in self.weights])

    def dominating(self, rates: Sequence[Fraction]) -> tuple[Fraction, Share]:
        """The largest sum of gains over ``rates`` without a loss for any tenant, and the allocation."""
        found = self.largest_total(self._least_rows(rates))
        return found.total - sum(rates, F(0)), found.share


# -- spaces of cases -------------------------------------------------------------------------------------------------


def case_of(numbers: CaseNumbers) -> TenantCase:
    """Tenants of the tables ``speed`` (n, k-1; 1 on the first type), ``gpus`` (1, k) and perhaps ``weight`` (1, n)."""
    speed = tuple((F(1), *row) for row in numbers["speed"])
    weight = numbers.row("weight") if "weight" in numbers.tables else ()
    return TenantCase(speed, numbers.row("gpus"), weight)


def tenant_space(
    *hypotheses: Hypothesis[TenantCase],
    n: tuple[int, int] = (2, 4),
    k: tuple[int, int] = (2, 4),
    speeds: tuple[Fraction, ...] = SPEEDS,
    weights: tuple[Fraction, ...] = (),
    chosen: Callable[[ValueChooser, Mapping[str, int]], CaseNumbers] | None = None,
) -> Space[TenantCase]:
    """Tenants with these sizes and speedups."""
    tables = {"speed": TableShape("n", "k-1", speeds), "gpus": TableShape(1, "k", GPUS)}
    given = (*speedups(speeds), *hypotheses)
    if weights:
        tables["weight"] = TableShape(1, "n", weights)
        given = (*given, weighted)
    return Space({"n": n, "k": k}, tables, case_of, chosen, given)


@hypothesis(r"speedups are relative to the first GPU type, $w_l^1 = 1$")
def relative(case: TenantCase) -> bool:
    """As in the paper."""
    return all(row[0] == 1 for row in case.speed)


@hypothesis("speedups may be 0")
def nonnegative(case: TenantCase) -> bool:
    """Tenants need not be able to run on every type."""
    return all(w >= 0 for row in case.speed for w in row)


@hypothesis("all speedups are positive")
def positive(case: TenantCase) -> bool:
    """Every tenant can run on every type."""
    return all(w > 0 for row in case.speed for w in row)


def speedups(values: Sequence[Fraction]) -> tuple[Hypothesis[TenantCase], ...]:
    """The hypotheses about speedups with these possible ``values``."""
    return relative, positive if min(values) > 0 else nonnegative


@hypothesis("all weights are positive")
def weighted(case: TenantCase) -> bool:
    """No tenant has the weight 0."""
    return all(w > 0 for w in case.weights)


@hypothesis("every type has at least one GPU, $m_j > 0$")
def some_gpus(case: TenantCase) -> bool:
    """No type is missing, so none can be between the types of a tenant."""
    return all(m > 0 for m in case.gpus)


def about(tenants: Callable[[C], TenantCase], *hypotheses: Hypothesis[TenantCase]) -> tuple[Hypothesis[C], ...]:
    """The hypotheses for the ``tenants`` of a larger case."""

    def lifted(one: Hypothesis[TenantCase]) -> Hypothesis[C]:
        return Hypothesis(one.text, lambda case: one(tenants(case)))

    return tuple(map(lifted, hypotheses))


@hypothesis(r"$u_1$ is the slowest on every type, $w_1^j = \min_l w_l^j$")
def slowest_first(case: TenantCase) -> bool:
    """As in the paper."""
    return all(min(column) == column[0] for column in zip(*case.speed, strict=True))


RATIOS = r"$w_l^j w_h^{j'} > w_l^{j'} w_h^j$ for all users $l < h$ and types $j < j'$"


@hypothesis(f"users are ratio-ordered: {RATIOS}")
def ratio_ordered(case: TenantCase) -> bool:
    """Strict total positivity of order 2; ratios of adjacent rows and columns suffice."""
    return all(
        low[i] * high[i + 1] > high[i] * low[i + 1] for low, high in pairwise(case.speed) for i in range(case.k - 1)
    )


@hypothesis(f"users are ratio-ordered, where ratios may be equal: {RATIOS.replace('>', chr(92) + 'ge')}")
def weakly_ratio_ordered(case: TenantCase) -> bool:
    """Total positivity of order 2."""
    return all(
        low[i] * high[j] >= high[i] * low[j]
        for low, high in combinations(case.speed, 2)
        for i, j in combinations(range(case.k), 2)
    )


MODERATE = ((F(3, 2), F(2), F(1), F(1, 2)), (F(1, 2), F(1), F(2), F(5)))
TWO_SCALES = ((F(1), F(11, 10), F(3, 2), F(2)), (F(1, 20), F(1, 10), F(5), F(10), F(20)))
"""First steps, and by how much a step exceeds that of the tenant before: similar ones, or nearly 0 and large ones."""


def choose_ratio_ordered(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    """Choose ratio-ordered speedups: the steps w[l, j+1] / w[l, j] increase with l for every j."""
    n, k = sizes["n"], sizes["k"]
    rows = [[F(1)] for _ in range(n)]
    starts, rises = choose((MODERATE, TWO_SCALES))
    for _ in range(k - 1):
        step = choose(starts)
        for e, row in enumerate(rows):
            step += choose(rises) if e else 0
            row.append(row[-1] * step)
    gpus = (F(1),) * k if choose((True, False)) else tuple(choose(GPUS) for _ in range(k))
    return CaseNumbers.of(speed=[row[1:] for row in rows], gpus=gpus)


@hypothesis("later types are faster for every user")
def rising(case: TenantCase) -> bool:
    """As in the paper, where GPUs are numbered from slow to fast."""
    return all(a < b for row in case.speed for a, b in pairwise(row))
