"""Tenants that share GPUs, in fractions, with the optima of OEF's programs and of related ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise

from hetopt.data.instance import Instance
from hetopt.proofs.ledger.finding_pictures import SharesPicture, shares_picture
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, integers
from hetopt.proofs.small_programs import Infeasible, RowVector, SmallOptimum, maximise_exactly

F = Fraction
Speeds = tuple[tuple[Fraction, ...], ...]
Share = tuple[tuple[Fraction, ...], ...]

SPEEDS = integers(1, 12)
GPUS = integers(1, 4)

OPTIMAL = "the allocation is optimal: prices prove its total in fractions"
UNIQUE = "the optimum is unique: no variable without a price can move"


@dataclass(frozen=True)
class Optimum:
    """An optimal allocation: shares (n, k) in GPUs, their total, and whether it is unique."""

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

    speed: Speeds
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
        """As an instance of the library; reports need not be relative to the slowest type."""
        rows = [[float(w) for w in row] for row in self.speed]
        weights = [float(w) for w in self.weight] if self.weight else None
        return Instance.from_speedups(rows, [int(m) for m in self.gpus], weights=weights, any_scale=True)

    def worth(self, tenant: int, share: Sequence[Fraction]) -> Fraction:
        """Normalised throughput of a tenant with GPUs (k,)."""
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

    def _capacity(self, extra: int = 0) -> list[tuple[RowVector, Fraction]]:
        columns = self.n * self.k + extra
        return [
            ([F(1) if c < self.n * self.k and c % self.k == j else F(0) for c in range(columns)], m)
            for j, m in enumerate(self.gpus)
        ]

    def _row(self, entries: dict[tuple[int, int], Fraction], extra: Sequence[Fraction] = ()) -> list[Fraction]:
        row = [F(0)] * (self.n * self.k)
        for (e, j), value in entries.items():
            row[e * self.k + j] += value
        return [*row, *extra]

    def _optimum(self, found: SmallOptimum) -> Optimum:
        share = tuple(tuple(found.x[e * self.k : (e + 1) * self.k]) for e in range(self.n))
        total = sum(self.rates(share), F(0))
        return Optimum(share, total, found.unique, found.dual)

    def largest_total(self, rows: Sequence[tuple[RowVector, Fraction]] = ()) -> Optimum:
        """The largest sum of rates under capacity and ``rows``."""
        c = [w for row in self.speed for w in row]
        return self._optimum(maximise_exactly(c, [*self._capacity(), *rows]))

    def envy_rows(self) -> list[tuple[RowVector, Fraction]]:
        """pi_i w_l.x_l >= pi_l w_l.x_i, [OEF, eq. 10c]."""
        rows: list[tuple[RowVector, Fraction]] = []
        for e in range(self.n):
            for o in range(self.n):
                if e != o:
                    mine = {(e, j): -self.weights[o] * w for j, w in enumerate(self.speed[e])}
                    theirs = {(o, j): self.weights[e] * w for j, w in enumerate(self.speed[e])}
                    rows.append((self._row({**mine, **theirs}), F(0)))
        return rows

    @cached_property
    def cooperative(self) -> Optimum:
        """The largest total among envy-free allocations, [OEF, eq. 10]."""
        return self.largest_total(self.envy_rows())

    @cached_property
    def free(self) -> Optimum:
        """The largest total without fairness, [OEF, eq. 4]."""
        return self.largest_total()

    @cached_property
    def level(self) -> Fraction:
        """t*: the largest rate (per weight) that all tenants can have at once."""
        return self._equal.value

    @cached_property
    def _equal(self) -> SmallOptimum:
        """The largest t with t pi_l = w_l.x_l, [OEF, eq. 9]: equal rates, each equation as two rows."""
        rows = self._capacity(extra=1)
        for e in range(self.n):
            up = self._row({(e, j): w for j, w in enumerate(self.speed[e])}, [-self.weights[e]])
            rows += [(up, F(0)), ([-v for v in up], F(0))]
        return maximise_exactly([*[F(0)] * (self.n * self.k), F(1)], rows)

    @cached_property
    def noncooperative(self) -> Optimum:
        """The largest total among allocations with equal rates, [OEF, eq. 9]."""
        return self._optimum(self._equal)

    @cached_property
    def sharing(self) -> Optimum:
        """The largest total among allocations with the sharing incentive."""
        return self.largest_total(self.sharing_rows())

    def sharing_rows(self) -> list[tuple[RowVector, Fraction]]:
        """Rows of the sharing incentive: rates of at least the worth of the tenant's part of every type."""
        parts = [w / sum(self.weights) for w in self.weights]
        return self._least_rows([part * self.worth(e, self.gpus) for e, part in enumerate(parts)])

    def _least_rows(self, rates: Sequence[Fraction]) -> list[tuple[RowVector, Fraction]]:
        return [(self._row({(e, j): -w for j, w in enumerate(self.speed[e])}), -v) for e, v in enumerate(rates)]

    def total_row(self, total: Fraction) -> tuple[RowVector, Fraction]:
        """Row: rates with at least this sum."""
        return [-w for row in self.speed for w in row], -total

    def furthest_gap(self, found: Optimum, rows: Sequence[tuple[RowVector, Fraction]]) -> tuple[Fraction, Share, int]:
        """Over all allocations under ``rows`` with the total of ``found``: the largest part of two types that a
        tenant has without the types between them; such an allocation, and the tenant.
        """
        kept = [self.total_row(found.total), *rows]
        best = (F(0), found.share, 0)
        for e in range(self.n):
            for a, c in combinations(range(self.k), 2):
                for b in range(a + 1, c):
                    wider: list[tuple[RowVector, Fraction]] = [
                        ([*row, F(0)], v) for row, v in [*self._capacity(), *kept]
                    ]
                    wider.append((self._row({(e, b): F(1)}, [F(0)]), F(0)))
                    wider.extend((self._row({(e, j): -1 / self.gpus[j]}, [F(1)]), F(0)) for j in (a, c))
                    try:
                        there = maximise_exactly([*[F(0)] * (self.n * self.k), F(1)], wider)
                    except Infeasible:  # no user can do without type b
                        continue
                    if there.value > best[0]:
                        best = (there.value, self._optimum(there).share, e)
        return best

    def best_of(self, gain: Sequence[Fraction | int], rows: Sequence[tuple[RowVector, Fraction]]) -> Optimum:
        """The allocation under capacity and ``rows`` with the largest ``gain`` (n * k,)."""
        return self._optimum(maximise_exactly(gain, [*self._capacity(), *rows]))

    def equal_rows(self) -> list[tuple[RowVector, Fraction]]:
        """Rows with rates (per weight) of at least the largest level t*."""
        return self._least_rows([self.level * w for w in self.weights])

    def dominating(self, rates: Sequence[Fraction]) -> tuple[Fraction, Share]:
        """The largest sum of gains without a loss for any tenant, and the allocation."""
        found = self.largest_total(self._least_rows(rates))
        return found.total - sum(rates, F(0)), found.share


# -- spaces of cases -------------------------------------------------------------------------------------------------


def case_of(numbers: CaseNumbers) -> TenantCase:
    """Tenants of the tables ``speed`` (n, k-1; the first type is 1), ``gpus`` (1, k) and perhaps ``weight`` (1, n)."""
    speed = tuple((F(1), *row) for row in numbers["speed"])
    weight = numbers.row("weight") if "weight" in numbers.tables else ()
    return TenantCase(speed, numbers.row("gpus"), weight)


def tenant_space(
    where: Callable[[TenantCase], bool] = lambda _: True,
    *,
    n: tuple[int, int] = (2, 4),
    k: tuple[int, int] = (2, 4),
    speeds: tuple[Fraction, ...] = SPEEDS,
    weights: tuple[Fraction, ...] = (),
    chosen: Callable[[ValueChooser, Mapping[str, int]], CaseNumbers] | None = None,
) -> Space[TenantCase]:
    """Tenants with these sizes and speedups for which ``where`` holds."""

    def build(numbers: CaseNumbers) -> TenantCase | None:
        case = case_of(numbers)
        return case if where(case) else None

    tables = {"speed": TableShape("n", "k-1", speeds), "gpus": TableShape(1, "k", GPUS)}
    if weights:
        tables["weight"] = TableShape(1, "n", weights)
    return Space({"n": n, "k": k}, tables, build, chosen)


def slowest_first(case: TenantCase) -> bool:
    """The paper's order: u1 is the slowest on every type, and later types are faster for every tenant."""
    return rising(case) and all(min(column) == column[0] for column in zip(*case.speed, strict=True))


def ratio_ordered(case: TenantCase) -> bool:
    """Strictly TP2: of two tenants the later has the larger ratio between every two types."""
    return positive(case) and all(
        low[i] * high[i + 1] > high[i] * low[i + 1] for low, high in pairwise(case.speed) for i in range(case.k - 1)
    )


def weakly_ratio_ordered(case: TenantCase) -> bool:
    """The same with equal ratios allowed."""
    return positive(case) and all(
        low[i] * high[j] >= high[i] * low[j]
        for low, high in combinations(case.speed, 2)
        for i, j in combinations(range(case.k), 2)
    )


def choose_ratio_ordered(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    """Choose steps w[l, j+1] / w[l, j] that grow with l for every j, as all ratio-ordered speedups have."""
    n, k = sizes["n"], sizes["k"]
    rows = [[F(1)] for _ in range(n)]
    for _ in range(k - 1):
        step = choose((F(3, 2), F(2), F(1), F(1, 2)))
        for row in rows:
            step += choose((F(1, 2), F(1), F(2), F(5)))
            row.append(row[-1] * step)
    gpus = tuple(choose(GPUS) for _ in range(k))
    return CaseNumbers({"speed": tuple(tuple(row[1:]) for row in rows), "gpus": (gpus,)})


def rising(case: TenantCase) -> bool:
    """Later types are faster for every tenant."""
    return all(a < b for row in case.speed for a, b in pairwise(row))


def positive(case: TenantCase) -> bool:
    """Every tenant can run on every type."""
    return all(w > 0 for row in case.speed for w in row)
