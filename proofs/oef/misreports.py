"""Cases in which tenants misreport their speedups, and whether the misreport pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetopt.data.instance import Instance
from hetopt.proofs.ledger.claim import Finding, fraction_text
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser
from hetopt.proofs.oef.tenant_cases import GPUS, OPTIMAL, SPEEDS, UNIQUE, Optimum, TenantCase, case_of

F = Fraction


@dataclass(frozen=True)
class MisreportCase:
    """Tenants with their true and reported speedups.

    Attributes
    ----------
    truth, reported:
        The tenants with true speedups, and as the mechanism sees them.
    """

    truth: TenantCase
    reported: TenantCase

    @property
    def instance(self) -> Instance:
        """The instance with true speedups."""
        return self.truth.instance

    @property
    def misreporters(self) -> tuple[int, ...]:
        """Positions of the tenants whose report is not true."""
        return tuple(e for e in range(self.truth.n) if self.truth.speed[e] != self.reported.speed[e])


def misreport_space(
    way: Callable[[Fraction, Fraction], bool],
    *,
    all_misreport: bool = False,
    speeds: tuple[Fraction, ...] = SPEEDS,
    n: tuple[int, int] = (2, 4),
    k: tuple[int, int] = (2, 3),
    where: Callable[[MisreportCase], bool] = lambda _: True,
    slow: bool = False,
) -> Space[MisreportCase]:
    """Misreports with ``way(true, reported)`` for all speedups, by u1 alone or by any tenants (``all_misreport``).

    With ``slow`` u1 is mostly the slowest and the first type has most GPUs, for a ``where`` that few cases meet.
    """

    def build(numbers: CaseNumbers) -> MisreportCase | None:
        truth = case_of(numbers)
        rows = numbers["report"]
        reported = truth
        for e, row in enumerate(rows):
            reported = reported.reporting(e, (F(1), *row))
        case = MisreportCase(truth, reported)
        allowed = all(
            way(a, b) for e in range(len(rows)) for a, b in zip(truth.speed[e], reported.speed[e], strict=True)
        )
        return case if allowed and case.misreporters and where(case) else None

    def choose(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        speed = tuple(tuple(choose(speeds) for _ in range(sizes["k"] - 1)) for _ in range(sizes["n"]))
        gpus = tuple(choose(GPUS) for _ in range(sizes["k"]))
        if slow:
            speed, gpus = tuple(sorted(speed)), tuple(sorted(gpus, reverse=True))
        misreporting = speed if all_misreport else speed[:1]
        report = tuple(tuple(choose([s for s in speeds if way(w, s)] or [w]) for w in row) for row in misreporting)
        return CaseNumbers({"speed": speed, "gpus": (gpus,), "report": report})

    tables = {
        "speed": TableShape("n", "k-1", speeds),
        "gpus": TableShape(1, "k", GPUS),
        "report": TableShape("n" if all_misreport else 1, "k-1", speeds),
    }
    return Space({"n": n, "k": k}, tables, build, choose)


def over(true: Fraction, reported: Fraction) -> bool:
    """Not below the truth."""
    return reported >= true


def under(true: Fraction, reported: Fraction) -> bool:
    """Not above the truth."""
    return reported <= true


def any_report(*_: Fraction) -> bool:
    """Any report is possible."""
    return True


def gain(case: MisreportCase, honest: Optimum, misreported: Optimum) -> tuple[Fraction, int]:
    """The least gain of a misreporting tenant at true speedups, and its position."""
    after, before = case.truth.rates(misreported.share), case.truth.rates(honest.share)
    return min((after[e] - before[e], e) for e in case.misreporters)


def misreport_pays(case: MisreportCase, honest: Optimum, misreported: Optimum, *, level: bool = False) -> Finding:
    """Whether every misreporting tenant gains. With ``level`` all honest optima have the same rates."""
    more, e = gain(case, honest, misreported)
    before = case.truth.worth(e, honest.share[e])
    words = (
        f"u{e + 1} reports {row_text(case.reported.speed[e])} and has {fraction_text(before + more)} "
        f"instead of {fraction_text(before)}"
    )
    pictures = (
        case.truth.picture("honest", honest.share),
        case.truth.picture("after the misreport, at true speedups", misreported.share),
    )
    certificate = (OPTIMAL, UNIQUE, "rates at true speedups in fractions")
    return Finding(-more, words, certificate, pictures, misreported.unique and (level or honest.unique))


def row_text(row: Sequence[Fraction]) -> str:
    """A row of speedups as text."""
    return f"({', '.join(fraction_text(v) for v in row)})"
