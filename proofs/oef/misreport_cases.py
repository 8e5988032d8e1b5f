"""Cases of tenants that misreport their speedups, and whether the misreport is profitable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from operator import attrgetter

from hetopt.data.instance import Instance
from hetopt.data.rationals import change_text, numbers_text
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, ValueChooser
from hetopt.proofs.oef.tenant_cases import (
    GPUS,
    OPTIMAL,
    SPEEDS,
    UNIQUE,
    Optimum,
    TenantCase,
    about,
    case_of,
    rising,
    speedups,
)

F = Fraction


@dataclass(frozen=True)
class MisreportCase:
    """Tenants with their true and reported speedups.

    Attributes
    ----------
    truth, reported:
        The tenants with their true speedups, and as reported to the mechanism.
    """

    truth: TenantCase
    reported: TenantCase

    @property
    def instance(self) -> Instance:
        """The instance with true speedups."""
        return self.truth.instance

    @property
    def misreporters(self) -> tuple[int, ...]:
        """Positions of the tenants that misreport."""
        return tuple(e for e in range(self.truth.n) if self.truth.speed[e] != self.reported.speed[e])


@dataclass(frozen=True)
class Reports:
    """The speedups that may be reported.

    Attributes
    ----------
    text:
        The hypothesis as text.
    allowed:
        Whether a true speedup may be reported as another.
    """

    text: str
    allowed: Callable[[Fraction, Fraction], bool]

    def __call__(self, true: Fraction, reported: Fraction) -> bool:
        """Whether ``true`` may be reported as ``reported``."""
        return self.allowed(true, reported)

    def meets(self, case: MisreportCase) -> bool:
        """Whether all reports of a case are allowed."""
        return all(map(self, chain(*case.truth.speed), chain(*case.reported.speed)))


def in_truth(*given: Hypothesis[TenantCase]) -> tuple[Hypothesis[MisreportCase], ...]:
    """Hypotheses about true speedups."""
    return about(attrgetter("truth"), *given)


def as_reported(given: Hypothesis[TenantCase]) -> Hypothesis[MisreportCase]:
    """A hypothesis about reported speedups."""
    return Hypothesis(f"the same as reported: {given.text}", lambda case: given(case.reported))


RISING = (*in_truth(rising), as_reported(rising))
"""Later types are faster, in truth and as reported."""


def untrue(case: MisreportCase) -> bool:
    """Whether at least one user misreports."""
    return bool(case.misreporters)


def misreport_space(
    way: Reports,
    *hypotheses: Hypothesis[MisreportCase],
    all_misreport: bool = False,
    speeds: tuple[Fraction, ...] = SPEEDS,
    n: tuple[int, int] = (2, 4),
    k: tuple[int, int] = (2, 3),
    slow: bool = False,
) -> Space[MisreportCase]:
    """Misreports with ``way(true, reported)`` for all speedups, by u1 only or by any tenants (``all_misreport``).

    With ``slow`` u1 is usually the slowest and the first type has most GPUs, for a hypothesis that few cases meet.
    """

    def build(numbers: CaseNumbers) -> MisreportCase:
        truth = case_of(numbers)
        reported = truth
        for e, row in enumerate(numbers["report"]):
            reported = reported.reporting(e, (F(1), *row))
        return MisreportCase(truth, reported)

    def chosen(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        speed = [[choose(speeds) for _ in range(sizes["k"] - 1)] for _ in range(sizes["n"])]
        gpus = [choose(GPUS) for _ in range(sizes["k"])]
        if slow:
            speed, gpus = sorted(speed), sorted(gpus, reverse=True)
        misreporting = speed if all_misreport else speed[:1]
        report = [[choose([s for s in speeds if way(w, s)] or [w]) for w in row] for row in misreporting]
        return CaseNumbers.of(speed=speed, gpus=gpus, report=report)

    tables = {
        "speed": TableShape("n", "k-1", speeds),
        "gpus": TableShape(1, "k", GPUS),
        "report": TableShape("n" if all_misreport else 1, "k-1", speeds),
    }
    who = Hypothesis[MisreportCase]("any users misreport" if all_misreport else "$u_1$ misreports", untrue)
    given = in_truth(*speedups(speeds))
    return Space({"n": n, "k": k}, tables, build, chosen, (*given, who, Hypothesis(way.text, way.meets), *hypotheses))


over = Reports("no report is below the truth", lambda true, reported: reported >= true)
any_report = Reports("any report is allowed", lambda true, reported: True)  # noqa: ARG005


def gain(case: MisreportCase, honest: Optimum, misreported: Optimum) -> tuple[Fraction, int]:
    """The smallest gain of a misreporting tenant at true speedups, and its position."""
    after, before = case.truth.rates(misreported.share), case.truth.rates(honest.share)
    return min((after[e] - before[e], e) for e in case.misreporters)


def misreport_pays(case: MisreportCase, honest: Optimum, misreported: Optimum, *, level: bool = False) -> Finding:
    """Whether some misreporting tenant does not gain; with ``level`` all honest optima have the same rates."""
    more, e = gain(case, honest, misreported)
    before = case.truth.worth(e, honest.share[e])
    words = f"u{e + 1} reports ({numbers_text(case.reported.speed[e])}) and has {change_text(before, before + more)}"
    pictures = (
        case.truth.picture("honest", honest.share),
        case.truth.picture("after the misreport, at true speedups", misreported.share),
    )
    certificate = (OPTIMAL, UNIQUE, "rates at true speedups in fractions")
    return Finding(-more, words, certificate, pictures, misreported.unique and (level or honest.unique))
