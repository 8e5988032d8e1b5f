"""Who lies about its speedups, and what it gets."""

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
    """Tenants, and what they report.

    Attributes
    ----------
    truth, told:
        The tenants as they are and as the mechanism sees them.
    """

    truth: TenantCase
    told: TenantCase

    @property
    def instance(self) -> Instance:
        """The truth."""
        return self.truth.instance

    @property
    def liars(self) -> tuple[int, ...]:
        """Those whose report is not the truth."""
        return tuple(e for e in range(self.truth.n) if self.truth.speed[e] != self.told.speed[e])


def misreport_space(
    way: Callable[[Fraction, Fraction], bool],
    *,
    everybody: bool = False,
    speeds: tuple[Fraction, ...] = SPEEDS,
    n: tuple[int, int] = (2, 4),
    k: tuple[int, int] = (2, 3),
    where: Callable[[MisreportCase], bool] = lambda _: True,
    slow: bool = False,
) -> Space[MisreportCase]:
    """Lies with ``way(true, reported)`` for all speedups; of u1 alone, or of ``everybody`` who likes.

    With ``slow`` u1 is mostly the slowest, and the first GPUs are the most: for a ``where`` that few others meet.
    """

    def build(numbers: CaseNumbers) -> MisreportCase | None:
        truth = case_of(numbers)
        rows = numbers["report"]
        told = truth
        for e, row in enumerate(rows):
            told = told.reporting(e, (F(1), *row))
        case = MisreportCase(truth, told)
        allowed = all(
            way(true, said) for e in range(len(rows)) for true, said in zip(truth.speed[e], told.speed[e], strict=True)
        )
        return case if allowed and case.liars and where(case) else None

    def choose(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        speed = tuple(tuple(choose(speeds) for _ in range(sizes["k"] - 1)) for _ in range(sizes["n"]))
        gpus = tuple(choose(GPUS) for _ in range(sizes["k"]))
        if slow:
            speed, gpus = tuple(sorted(speed)), tuple(sorted(gpus, reverse=True))
        liars = speed if everybody else speed[:1]
        report = tuple(tuple(choose([s for s in speeds if way(w, s)] or [w]) for w in row) for row in liars)
        return CaseNumbers({"speed": speed, "gpus": (gpus,), "report": report})

    tables = {
        "speed": TableShape("n", "k-1", speeds),
        "gpus": TableShape(1, "k", GPUS),
        "report": TableShape("n" if everybody else 1, "k-1", speeds),
    }
    return Space({"n": n, "k": k}, tables, build, choose)


def over(true: Fraction, said: Fraction) -> bool:
    """Not below the truth."""
    return said >= true


def under(true: Fraction, said: Fraction) -> bool:
    """Not above the truth."""
    return said <= true


def any_report(*_: Fraction) -> bool:
    """Whatever they like."""
    return True


def gain(case: MisreportCase, honest: Optimum, lying: Optimum) -> tuple[Fraction, int]:
    """The least gain of a liar at true speedups, and who that is."""
    after, before = case.truth.rates(lying.share), case.truth.rates(honest.share)
    return min((after[e] - before[e], e) for e in case.liars)


def misreport_pays(case: MisreportCase, honest: Optimum, lying: Optimum, *, level: bool = False) -> Finding:
    """Whether every liar gains. With ``level`` honest rates are those of all optima, whether unique or not."""
    more, e = gain(case, honest, lying)
    before = case.truth.worth(e, honest.share[e])
    words = (
        f"u{e + 1} reports {row_text(case.told.speed[e])} and has {fraction_text(before + more)} "
        f"instead of {fraction_text(before)}"
    )
    pictures = (
        case.truth.picture("honest", honest.share),
        case.truth.picture("after the lie, at true speedups", lying.share),
    )
    certificate = (OPTIMAL, UNIQUE, "rates at true speedups in fractions")
    return Finding(-more, words, certificate, pictures, lying.unique and (level or honest.unique))


def row_text(row: Sequence[Fraction]) -> str:
    """A row of speedups."""
    return f"({', '.join(fraction_text(v) for v in row)})"
