"""The ways to decide a claim: over all cases, at one place, by numbers, along a family, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isnan
from typing import Any, Generic, TypeVar

from hetopt.checks import shown
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.proofs.ledger.claim import (
    QUICK,
    Claim,
    ClaimEvidence,
    ClaimVerdict,
    Counterexample,
    Effort,
    Finding,
    GrowthCurve,
    ProofCheck,
    Tightness,
    fraction_text,
)
from hetopt.proofs.ledger.counterexample_files import stored_names, stored_numbers, stored_slack
from hetopt.proofs.ledger.counterexample_search import CounterexampleSearch, draw_counterexample, search_counterexample
from hetopt.proofs.ledger.space import CaseNumbers, Space

C = TypeVar("C")


@dataclass(frozen=True)
class ForAll(Generic[C]):
    """The conclusion holds for every case of a space.

    Attributes
    ----------
    space:
        The cases; its ``build`` is the hypotheses.
    finding:
        Decides one case in fractions.
    slack:
        A quick look: below 0 where the case should be decided; by default that of ``finding``.
    ratio:
        Both sides of a bound as a quotient, at most 1 where it holds; to measure how near it is reached.
    share:
        Part of the instances that is drawn, where one case takes long; not fewer than ``QUICK`` asks for.
    every:
        Whether the claim is about every optimum: then one that fails refutes it, unique or not.
    """

    space: Space[C]
    finding: Callable[[C], Finding]
    slack: Callable[[C], Fraction | float] | None = None
    ratio: Callable[[C], Fraction] | None = None
    share: Fraction = Fraction(1)
    every: bool = False

    def found(self, case: C) -> Finding:
        """What is found of one case."""
        finding = self.finding(case)
        return replace(finding, decided=True) if self.every else finding

    def quick(self, case: C) -> Fraction | float:
        """The slack at which drawing and search look.

        Raises
        ------
        InvalidOption
            It is not a number.
        """
        if self.slack is None:
            return self.found(case).slack
        slack = self.slack(case)
        if isnan(slack):
            raise InvalidOption(f"the slack of {shown(case)} is not a number")
        return slack

    def recheck(self, name: str) -> Counterexample:
        """The stored case, decided anew.

        Raises
        ------
        InvalidInstance
            It does not meet the hypotheses, or its slack is another than the one that is stored with it.
        """
        numbers, before = stored_numbers(name), stored_slack(name)
        case = self.space.build(numbers)
        if case is None:
            raise InvalidInstance(f"the stored case {name!r} does not meet the hypotheses of the claim")
        found = self.found(case)
        if found.slack != before:
            raise InvalidInstance(
                f"the stored case {name!r} has the slack {found.slack}, not {before} as the file says"
            )
        return Counterexample(numbers, case, found, name)

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Look at what is stored, draw, search, and run the proof's mechanical parts."""
        began = time.perf_counter()
        names = stored_names(claim.key)
        known = [case for case in map(self.recheck, names) if case.finding.refutes]
        best = min(known, key=lambda case: self.space.weight(case.numbers), default=None)
        tried = {"stored": len(names)} if names else {}
        if best is None:
            count = max(min(effort.instances, QUICK.instances), int(effort.instances * self.share))
            found, tried["instances"], undecided = draw_counterexample(
                self.space, self.quick, self.found, count, effort.seed
            )
            tried |= {"undecided": undecided} if undecided else {}
            best = None if found is None else self._counterexample(*found)
        search = self._search(claim, effort, best)
        if search is not None:
            tried["searched"] = search.tried
            if search.found is not None and self._lighter(search.found[0], best):
                best = self._counterexample(*search.found)
        checks = tuple(part() for part in claim.mechanical) if effort.mechanical else ()
        verdict, summary = _judged(claim, best, checks, tried, search)
        tightness = None if best is not None else self._tightness(effort)
        seconds = time.perf_counter() - began
        return ClaimEvidence(verdict, summary, tried, best, None, tightness, checks, seconds=seconds)

    def _counterexample(self, numbers: CaseNumbers, finding: Finding) -> Counterexample:
        return Counterexample(numbers, self.space.build(numbers), finding)

    def _lighter(self, numbers: CaseNumbers, best: Counterexample | None) -> bool:
        return best is None or self.space.weight(numbers) < self.space.weight(best.numbers)

    def _search(self, claim: Claim, effort: Effort, best: Counterexample | None) -> CounterexampleSearch[C] | None:
        seconds = effort.seconds if claim.expected != "true" or best is not None else effort.seconds / 10
        return search_counterexample(self.space, self.quick, self.found, seconds, effort.seed) if seconds > 0 else None

    def _tightness(self, effort: Effort) -> Tightness | None:
        """The largest quotient that a search which raises it finds, in a tenth of the time."""
        if self.ratio is None:
            return None
        ratio = self.ratio
        seconds = effort.seconds / 10 if effort.seconds else 0.2

        def below(case: C) -> Fraction:
            return -ratio(case)

        search = search_counterexample(self.space, below, _nothing, seconds, effort.seed)
        if not search.best:
            return None
        numbers = search.best[1]
        case = self.space.build(numbers)
        return None if case is None else Tightness(ratio(case), numbers)


def _nothing(_: object) -> Finding:
    """For a search that only measures."""
    return Finding(Fraction(0), "")


def _judged(
    claim: Claim,
    best: Counterexample | None,
    checks: Sequence[ProofCheck],
    tried: Mapping[str, int],
    search: CounterexampleSearch[Any] | None,
) -> tuple[ClaimVerdict, str]:
    """The verdict and its line."""
    broken = [check for check in checks if check.holds is False]
    missing = "".join(f"; not run: {check.name} ({check.why})" for check in checks if check.holds is None)
    if best is not None:
        where = f"instance {best.name}" if best.name else "found now"
        smallest = search is not None and search.smallest and not best.name
        least = ", none with no more numbers has a smaller sum of them" if smallest else ""
        contradiction = "; the proof that stands here must be wrong" if claim.proof else ""
        return "false", f"{best.finding.words} ({where}{least}){contradiction}{missing}"
    told = ", ".join(f"{count:,} {what}" for what, count in tried.items() if count)
    if broken:
        return "open", f"{broken[0].name}: {broken[0].why}; no counterexample in {told}"
    if tried.get("undecided", 0) >= tried.get("instances", 1):
        return "open", f"none of {tried['instances']:,} instances was decided"
    if claim.proof.strip():
        machine = [check.name for check in checks if check.holds]
        return "true", "; ".join(["proved", f"no counterexample in {told}", *machine]) + missing
    return "open", f"no proof and no counterexample in {told}"


@dataclass(frozen=True)
class Exists(Generic[C]):
    """The conclusion fails for some case of a space: what a claim of impossibility comes to.

    Attributes
    ----------
    such:
        The space, and what one case has to show: there the conclusion of :class:`ForAll` must fail.
    """

    such: ForAll[C]

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Look for one case; with none the claim is open."""
        found = self.such.decide(replace(claim, expected="false", proof=""), effort)
        return replace(found, verdict="true" if found.verdict == "false" else "open")


@dataclass(frozen=True)
class ByComputation:
    """What is claimed is a computation: numbers of a worked example, or a thing that exists.

    Attributes
    ----------
    compute:
        Quantity -> (as claimed, as computed, whether they agree); and a sentence.
    """

    compute: Callable[[], Computation]

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Compute, and compare."""
        began = time.perf_counter()
        found = self.compute()
        checks = tuple(part() for part in claim.mechanical) if effort.mechanical else ()
        agree = all(row.agrees for row in found.rows) and all(check.holds is not False for check in checks)
        wrong = [row for row in found.rows if not row.agrees]
        told = "; ".join(f"{r.quantity}: {r.claimed}, computed {r.computed}" for r in wrong)
        count = len(found.rows)
        words = found.words or told or ("1 quantity agrees" if count == 1 else f"{count} quantities agree")
        values = {row.quantity: (row.claimed, row.computed) for row in found.rows}
        case = None if not found.pictures else _shown(found, words)
        evidence = ClaimEvidence(
            "true" if agree else "false", words, {"computed": len(found.rows)}, case, checks=checks
        )
        return replace(evidence, values=values, seconds=time.perf_counter() - began)


@dataclass(frozen=True)
class ComparedValue:
    """One quantity: what is claimed, what was computed, and whether that is the same at the digits that are printed."""

    quantity: str
    claimed: str
    computed: str
    agrees: bool


@dataclass(frozen=True)
class Computation:
    """What a :class:`ByComputation` claim gives."""

    rows: tuple[ComparedValue, ...]
    words: str = ""
    pictures: tuple[Any, ...] = ()


def _shown(found: Computation, words: str) -> Counterexample:
    slack = Fraction(0) if all(row.agrees for row in found.rows) else Fraction(-1)
    return Counterexample(CaseNumbers({}), None, Finding(slack, words, pictures=found.pictures))


@dataclass(frozen=True)
class Growth:
    """A quantity that is claimed to be bounded grows without bound along a family of cases.

    Attributes
    ----------
    sizes, most:
        Sizes at which it is measured; those above ``most`` only with time.
    measure:
        Size -> exact value.
    formula:
        Size -> what it is for every size, as the proof shows.
    words, size, quantity:
        The formula in words, and what is counted and measured.
    bounded:
        True where the claim is that it tends to a limit, which the formula has.
    """

    sizes: tuple[int, ...]
    measure: Callable[[int], Fraction]
    formula: Callable[[int], Fraction]
    words: str
    size: str
    quantity: str
    most: int = 10**9
    bounded: bool = False

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Measure, and compare with the formula at every size."""
        began = time.perf_counter()
        sizes = [n for n in self.sizes if effort.seconds or n <= self.most]
        points = {n: self.measure(n) for n in sizes}
        off = [n for n in sizes if points[n] != self.formula(n)]
        curve = GrowthCurve(self.size, self.quantity, points, self.words)
        tried = {"sizes": len(sizes)}
        seconds = time.perf_counter() - began
        if off:
            text = f"at {self.size} = {off[0]} the {self.quantity} is {fraction_text(points[off[0]])}, not {self.words}"
            return ClaimEvidence("open", text, tried, curve=curve, seconds=seconds)
        last = f"{fraction_text(points[sizes[-1]])} at {self.size} = {sizes[-1]}"
        word: ClaimVerdict = "true" if self.bounded else "false"
        grows = "tends to its limit" if self.bounded else "grows without bound"
        text = f"{self.quantity} {grows}: {self.words}; {last}"
        return ClaimEvidence(word, text, tried, curve=curve, seconds=seconds)


@dataclass(frozen=True)
class Untestable:
    """Nothing here could be computed; the reason is the evidence."""

    why: str

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Say why."""
        return ClaimEvidence("untestable", self.why)


def rounds_to(claimed: Fraction | float | str, computed: Fraction) -> bool:
    """Whether a printed number is the computed one, rounded to the digits that are printed."""
    text = str(claimed)
    digits = len(text.partition(".")[2]) if "/" not in text else 0
    if "/" in text:
        return Fraction(text) == computed
    return bool(abs(Fraction(text) - computed) * 2 * 10**digits <= 1)


def compare_number(quantity: str, claimed: object, computed: Fraction) -> ComparedValue:
    """A number as printed against the computed one."""
    text = fraction_text(computed)
    if "/" in text and "/" not in str(claimed) and computed.denominator > 12:
        text += f" = {float(computed):.6g}"
    return ComparedValue(quantity, str(claimed), text, rounds_to(str(claimed), computed))


def compare_values(quantity: str, claimed: object, computed: object) -> ComparedValue:
    """Anything as claimed against what is: the same or not."""
    return ComparedValue(quantity, str(claimed), str(computed), claimed == computed)
