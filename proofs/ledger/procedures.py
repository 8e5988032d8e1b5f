"""Procedures that decide a claim: over all cases, by one case, by computed values, or along a family of cases."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isnan
from typing import Any, Generic, TypeVar

from hetopt.checks import shown
from hetopt.data.rationals import number_text
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.proofs.ledger.claim import (
    QUICK,
    Claim,
    ClaimEvidence,
    ClaimVerdict,
    Counterexample,
    DecisionProcedure,
    Effort,
    Finding,
    GrowthCurve,
    ProofCheck,
    Tightness,
)
from hetopt.proofs.ledger.counterexample_files import stored_names, stored_numbers, stored_slack
from hetopt.proofs.ledger.counterexample_search import (
    CounterexampleSearch,
    Screen,
    draw_counterexample,
    search_counterexample,
)
from hetopt.proofs.ledger.finding_pictures import FindingPicture
from hetopt.proofs.ledger.mechanical import by_limit
from hetopt.proofs.ledger.space import CaseNumbers, Space

C = TypeVar("C")


@dataclass(frozen=True)
class ForAll(Generic[C]):
    """The conclusion holds for every case of a space.

    Attributes
    ----------
    space:
        The cases; its ``build`` checks the hypotheses.
    finding:
        Decides one case in fractions.
    slack:
        Fast estimate of the slack; ``finding`` decides the cases for which it is below 0. By default the exact slack.
    screen:
        Float estimates of the slacks of many cases at once, for the search.
    ratio:
        Quotient of both sides of a bound, at most 1 where the bound holds; measures its tightness.
    share:
        Fraction of the requested instances to draw if a case takes long, but at least ``QUICK.instances``.
    all_optima:
        Whether the claim is about every optimum, so that a failing optimum refutes it even if it is not unique.
    """

    space: Space[C]
    finding: Callable[[C], Finding]
    slack: Callable[[C], Fraction | float] | None = None
    screen: Screen[C] | None = None
    ratio: Callable[[C], Fraction] | None = None
    share: Fraction = Fraction(1)
    all_optima: bool = False

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The hypotheses as text."""
        return self.space.stated

    def judge(self, case: C) -> Finding:
        """Decide one case in fractions."""
        finding = self.finding(case)
        return replace(finding, decided=True) if self.all_optima else finding

    def estimated_slack(self, case: C) -> Fraction | float:
        """The slack used in draws and search.

        Raises
        ------
        InvalidOption
            The slack is NaN.
        """
        if self.slack is None:
            return self.judge(case).slack
        slack = self.slack(case)
        if isnan(slack):
            raise InvalidOption(f"the slack of {shown(case)} is not a number")
        return slack

    def recheck(self, name: str) -> Counterexample:
        """Decide a stored case again.

        Raises
        ------
        InvalidInstance
            The case does not meet the hypotheses, or its slack differs from the stored one.
        """
        numbers, before = stored_numbers(name), stored_slack(name)
        case = self.space.case(numbers)
        if case is None:
            raise InvalidInstance(f"the stored case {name!r} does not meet the hypotheses of the claim")
        finding = self.judge(case)
        if finding.slack != before:
            raise InvalidInstance(
                f"the stored case {name!r} has the slack {finding.slack}, not {before} as in its file"
            )
        return Counterexample(numbers, case, finding, name)

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Check stored counterexamples, draw cases, search, and run the mechanical parts of the proof."""
        began = time.perf_counter()
        names = stored_names(claim.key)
        known = [case for case in map(self.recheck, names) if case.finding.refutes]
        best = min(known, key=lambda case: self.space.weight(case.numbers), default=None)
        tried = {"stored": len(names)} if names else {}
        if best is None:
            count = max(min(effort.instances, QUICK.instances), int(effort.instances * self.share))
            found, tried["instances"], undecided = draw_counterexample(
                self.space, self.estimated_slack, self.judge, count, effort.seed
            )
            tried |= {"undecided": undecided} if undecided else {}
            best = None if found is None else self._counterexample(*found)
        search = self._search(claim, effort, best)
        if search is not None:
            tried["searched"] = search.tried
            if search.found is not None and (
                best is None or self.space.weight(search.found[0]) < self.space.weight(best.numbers)
            ):
                best = self._counterexample(*search.found)
        checks = tuple(part() for part in claim.mechanical) if effort.mechanical else ()
        verdict, summary = _verdict(claim, best, checks, tried, search)
        tightness = None if best is not None else self._tightness(effort)
        seconds = time.perf_counter() - began
        return ClaimEvidence(verdict, summary, tried, best, tightness=tightness, checks=checks, seconds=seconds)

    def _counterexample(self, numbers: CaseNumbers, finding: Finding) -> Counterexample:
        return Counterexample(numbers, self.space.case(numbers), finding)

    def _search(self, claim: Claim, effort: Effort, best: Counterexample | None) -> CounterexampleSearch[C] | None:
        if not effort.seconds:
            return None
        seconds = effort.seconds / 10 if claim.expected is ClaimVerdict.TRUE and best is None else effort.seconds
        return search_counterexample(self.space, self.estimated_slack, self.judge, seconds, effort.seed, self.screen)

    def _tightness(self, effort: Effort) -> Tightness | None:
        """The largest quotient found by a search in a tenth of the time."""
        ratio = self.ratio
        if ratio is None:
            return None
        seconds = effort.seconds / 10 if effort.seconds else 0.2
        search = search_counterexample(
            self.space, lambda case: -ratio(case), lambda _: Finding(Fraction(0), ""), seconds, effort.seed
        )
        if not search.best:
            return None
        numbers = search.best[1]
        case = self.space.case(numbers)
        return None if case is None else Tightness(ratio(case), numbers)


def _verdict(
    claim: Claim,
    best: Counterexample | None,
    checks: Sequence[ProofCheck],
    tried: Mapping[str, int],
    search: CounterexampleSearch[Any] | None,
) -> tuple[ClaimVerdict, str]:
    """The verdict and its summary."""
    broken = [check for check in checks if check.holds is False]
    missing = "".join(f"; not run: {check.name} ({check.why})" for check in checks if check.holds is None)
    if best is not None:
        where = f"instance {best.name}" if best.name else "found now"
        smallest = search is not None and search.smallest and not best.name
        least = ", the smallest by enumeration" if smallest else ""
        contradiction = "; the written proof must be wrong" if claim.proof else ""
        return ClaimVerdict.FALSE, f"{best.finding.explanation} ({where}{least}){contradiction}{missing}"
    attempts = ", ".join(f"{count:,} {what}" for what, count in tried.items() if count)
    if broken:
        return ClaimVerdict.OPEN, f"{broken[0].name}: {broken[0].why}; no counterexample in {attempts}"
    if tried.get("undecided", 0) >= tried.get("instances", 1):
        return ClaimVerdict.OPEN, f"none of {tried['instances']:,} instances was decided"
    if claim.proof.strip():
        machine = [check.name for check in checks if check.holds]
        return ClaimVerdict.TRUE, "; ".join(["proved", f"no counterexample in {attempts}", *machine]) + missing
    return ClaimVerdict.OPEN, f"no proof and no counterexample in {attempts}"


@dataclass(frozen=True)
class Exists(Generic[C]):
    """A case exists that violates a universal conclusion, as in a claim of impossibility.

    Attributes
    ----------
    universal:
        The universal claim that the case must refute.
    """

    universal: ForAll[C]

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The hypotheses as text."""
        return self.universal.hypotheses

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Search for a counterexample to the universal claim; without one this claim is open."""
        found = self.universal.decide(replace(claim, expected=ClaimVerdict.FALSE, proof=""), effort)
        return replace(found, verdict=ClaimVerdict.TRUE if found.verdict is ClaimVerdict.FALSE else ClaimVerdict.OPEN)


@dataclass(frozen=True)
class ByComputation:
    """The claim gives values, e.g. of a worked example, which are computed and compared.

    Attributes
    ----------
    compute:
        Computes all quantities and compares them with the claimed values.
    """

    compute: Callable[[], Computation]

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Compute the values, and compare them with the claimed ones."""
        began = time.perf_counter()
        found = self.compute()
        checks = tuple(part() for part in claim.mechanical) if effort.mechanical else ()
        agree = all(row.agrees for row in found.rows) and all(check.holds is not False for check in checks)
        wrong = [row for row in found.rows if not row.agrees]
        differences = "; ".join(f"{r.quantity}: {r.claimed}, computed {r.computed}" for r in wrong)
        count = len(found.rows)
        summary = found.summary or differences or ("1 quantity agrees" if count == 1 else f"{count} quantities agree")
        values = {row.quantity: (row.claimed, row.computed) for row in found.rows}
        return ClaimEvidence(
            ClaimVerdict.TRUE if agree else ClaimVerdict.FALSE,
            summary,
            {"computed": len(found.rows)},
            pictures=found.pictures,
            checks=checks,
            values=values,
            seconds=time.perf_counter() - began,
        )


@dataclass(frozen=True)
class ComparedValue:
    """One quantity: the claimed value, the computed value, and whether they agree in the printed digits."""

    quantity: str
    claimed: str
    computed: str
    agrees: bool


@dataclass(frozen=True)
class Computation:
    """The result of a :class:`ByComputation` procedure; an empty summary is derived from the rows."""

    rows: tuple[ComparedValue, ...]
    summary: str = ""
    pictures: tuple[FindingPicture, ...] = ()


@dataclass(frozen=True)
class Growth:
    """A quantity along a family of cases refutes a claimed bound, or converges as claimed.

    The formula is compared with the measured values, and sympy computes its limit. That the formula gives the quantity
    at every size is left to the written proof.

    Attributes
    ----------
    sizes, most:
        Sizes at which to measure; sizes above ``most`` require an effort with a search.
    measure:
        Size -> exact value.
    formula:
        The value for every size, as an expression in ``size`` in the syntax of Python, e.g. ``"(n + 3)/2"``.
    size, quantity:
        Names of the size and of the measured quantity.
    limit:
        The limit of the formula; None if it grows without bound, which refutes the claim that the quantity is bounded.
    bound:
        The bound that the claim states, as an expression; then the formula divided by it must grow without bound.
    between:
        Two expressions that enclose the formula and have its limit, if sympy cannot compute the limit of the formula.
    terms:
        Further names in the formula, as functions of the size.
    """

    sizes: tuple[int, ...]
    measure: Callable[[int], Fraction]
    formula: str
    size: str
    quantity: str
    limit: Fraction | None = None
    bound: str = ""
    between: tuple[str, str] | None = None
    terms: Mapping[str, Callable[[int], Fraction]] = field(default_factory=dict)
    most: int = 10**9

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Measure the quantity at every size, compare it with the formula, and compute the limit of the formula."""
        began = time.perf_counter()
        sizes = [n for n in self.sizes if effort.seconds or n <= self.most]
        points = {n: self.measure(n) for n in sizes}
        curve = GrowthCurve(self.size, self.quantity, points, _readable(self.formula))
        wrong = next((text for n in sizes if (text := self._difference(n, points[n]))), "")
        checks = () if wrong or not effort.mechanical else tuple(part() for part in (self._limit, *claim.mechanical))
        wrong = wrong or next((f"{check.name}: {check.why}" for check in checks if check.holds is False), "")
        verdict = ClaimVerdict.OPEN if wrong else ClaimVerdict.FALSE if self.limit is None else ClaimVerdict.TRUE
        grows = "grows without bound" if self.limit is None else f"tends to {number_text(self.limit)}"
        last = f"{number_text(points[sizes[-1]])} at {self.size} = {sizes[-1]}"
        missing = "".join(f"; not run: {check.name} ({check.why})" for check in checks if check.holds is None)
        text = wrong or f"{self.quantity} {grows}: {curve.formula}; {last}{missing}"
        seconds = time.perf_counter() - began
        return ClaimEvidence(verdict, text, {"sizes": len(sizes)}, curve=curve, checks=checks, seconds=seconds)

    def _difference(self, n: int, measured: Fraction) -> str:
        """How the formula or its bounds disagree with the measured value; empty if they agree."""
        low, high = (self.value(n, text) for text in self.between or (self.formula, self.formula))
        if measured == self.value(n, self.formula) and low <= measured <= high:
            return ""
        value = number_text(measured)
        return f"at {self.size} = {n} the {self.quantity} is {value}, not {_readable(self.formula)}"

    def value(self, n: int, expression: str) -> Fraction:
        """The value of the formula or another expression at size ``n``."""
        names = {self.size: Fraction(n)} | {name: term(n) for name, term in self.terms.items()}
        exact = re.sub(r"\d+", r"Fraction(\g<0>)", expression)
        return Fraction(eval(exact, {"__builtins__": {}, "Fraction": Fraction}, names))  # written in a claim's code

    def _limit(self) -> ProofCheck:
        quotient = [f"({self.formula}) / ({self.bound})" if self.bound else self.formula]
        wanted = "oo" if self.limit is None else str(self.limit)
        return by_limit(list(self.between or quotient), self.size, wanted)()


def _readable(expression: str) -> str:
    """An expression without the operators of Python."""
    return re.sub(r"(?<! )\*(?! )", " ", expression.replace("**", "^")).replace(" * ", " ")


@dataclass(frozen=True)
class Untestable:
    """The claim cannot be decided by computation; ``why`` gives the reason."""

    why: str

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Return the reason."""
        return ClaimEvidence(ClaimVerdict.UNTESTABLE, self.why)


def universal_part(procedure: DecisionProcedure) -> ForAll[Any] | None:
    """The universal claim that a procedure proves or refutes; None for other procedures."""
    universal = procedure.universal if isinstance(procedure, Exists) else procedure
    return universal if isinstance(universal, ForAll) else None


def rounds_to(claimed: Fraction | float | str, computed: Fraction) -> bool:
    """Whether a printed number is the computed number, rounded to the printed digits."""
    text = str(claimed)
    if "/" in text:
        return Fraction(text) == computed
    digits = len(text.partition(".")[2])
    return bool(abs(Fraction(text) - computed) * 2 * 10**digits <= 1)


def compare_number(quantity: str, claimed: object, computed: Fraction) -> ComparedValue:
    """Compare a printed number with the computed number."""
    text = number_text(computed)
    if "/" in text and "/" not in str(claimed) and computed.denominator > 12:
        text += f" = {float(computed):.6g}"
    return ComparedValue(quantity, str(claimed), text, rounds_to(str(claimed), computed))


def compare_values(quantity: str, claimed: object, computed: object) -> ComparedValue:
    """Compare a claimed value of any type with the computed value."""
    return ComparedValue(quantity, str(claimed), str(computed), claimed == computed)
