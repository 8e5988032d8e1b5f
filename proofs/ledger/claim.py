"""What a claim is, what was found of one case, and what is known of the claim in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational
from typing import Any, Literal, Protocol, TypeAlias, get_args

from hetopt.checks import at_least, shown, whole
from hetopt.data.rationals import digits
from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.finding_pictures import Picture
from hetopt.proofs.ledger.space import CaseNumbers

ClaimVerdict = Literal["true", "false", "open", "untestable"]
"""What is known of a claim.

``"true"``
    A written proof, and nothing that was drawn or searched contradicts it; or a computation that gives what is claimed.
``"false"``
    A counterexample, certified in fractions; or a family along which what should be bounded grows.
``"open"``
    Neither; the evidence says what was tried.
``"untestable"``
    It says nothing that could be computed, or is about something that is not here; the evidence says what.
"""

PAPERS = {"OEF": "OEF", "FFT": "FFT", "Hadar": "Hadar and HadarE", "A-SRPT": "A-SRPT"}
"""Paper -> what it is called in headings, in the order of the ledger."""


@dataclass(frozen=True)
class Finding:
    """What was computed of one case, in fractions.

    Attributes
    ----------
    slack:
        Below 0 the conclusion fails, by so much; else it holds.
    words:
        What was found, in a sentence or two.
    certificate:
        What was verified in fractions, item by item: the optimum, its uniqueness, the inequality.
    pictures:
        What to draw, e.g. shares before and after.
    decided:
        False where the case decides nothing either way (an optimum that is not unique …); it refutes nothing.
    far:
        Of cases with the same slack a search goes on from where this is least; 0 to 1.

    Raises
    ------
    InvalidOption
        The slack is a float: a verdict never rests on one.
    """

    slack: Fraction
    words: str
    certificate: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    decided: bool = True
    far: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not isinstance(self.slack, Rational):
            kind = type(self.slack).__name__
            raise InvalidOption(
                f"a finding has the slack {shown(self.slack)}, a {kind}; it must be exact: a Fraction or an int"
            )

    @property
    def refutes(self) -> bool:
        """Whether the case is a counterexample."""
        return self.decided and self.slack < 0


@dataclass(frozen=True)
class Counterexample:
    """A case for which the conclusion fails though it meets the hypotheses.

    Attributes
    ----------
    numbers, case:
        What it is made of, and itself.
    finding:
        Why.
    name:
        That of the stored instance, or empty where it was found just now.
    """

    numbers: CaseNumbers
    case: Any
    finding: Finding
    name: str = ""


@dataclass(frozen=True)
class GrowthCurve:
    """How a quantity grows along a family of cases.

    Attributes
    ----------
    size, quantity:
        What the sizes count, and what is measured.
    points:
        Size -> exact value.
    formula:
        What it is for every size.
    """

    size: str
    quantity: str
    points: Mapping[int, Fraction]
    formula: str


@dataclass(frozen=True)
class Tightness:
    """How near a bound is reached: the largest quotient of both sides that was seen (1: equality)."""

    ratio: Fraction
    numbers: CaseNumbers


@dataclass(frozen=True)
class ProofCheck:
    """One mechanical part of a proof.

    Attributes
    ----------
    name:
        What is proven and by what, e.g. "z3: n = 2, k = 2, all real data".
    holds:
        Whether it is; None where it could not be run.
    why:
        What is missing, or what was found instead.
    """

    name: str
    holds: bool | None
    seconds: float = 0.0
    why: str = ""


ProofPart: TypeAlias = Callable[[], ProofCheck]
"""A part of a proof that a machine checks; see :mod:`hetopt.proofs.ledger.mechanical`."""


@dataclass(frozen=True)
class Effort:
    """How hard to try.

    Attributes
    ----------
    instances:
        Cases drawn for each claim that is to hold.
    seconds:
        Search for counterexamples, for each claim that is to fail or is open; a tenth of it against one that is to
        hold. 0: no search, stored counterexamples only.
    seed:
        Of what is drawn and searched.
    mechanical:
        Whether to run z3 and sympy.

    Raises
    ------
    InvalidOption
        No instances, or a negative time.
    """

    instances: int = 200
    seconds: float = 60.0
    seed: int = 0
    mechanical: bool = True

    def __post_init__(self) -> None:
        whole(self.instances, "instances", 1)
        at_least(self.seconds, "seconds", 0.0, InvalidOption)


QUICK = Effort(instances=50, seconds=0.0)
"""Stored counterexamples and 50 instances a claim."""


@dataclass(frozen=True)
class ClaimEvidence:
    """What is known of a claim, and from what.

    Attributes
    ----------
    verdict:
        See :data:`ClaimVerdict`.
    summary:
        One line.
    tried:
        What was done -> how often, e.g. ``{"instances": 50, "searched": 1200}``.
    """

    verdict: ClaimVerdict
    summary: str
    tried: Mapping[str, int] = field(default_factory=dict)
    counterexample: Counterexample | None = None
    curve: GrowthCurve | None = None
    tightness: Tightness | None = None
    checks: tuple[ProofCheck, ...] = ()
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Quantity -> (as printed, as computed)."""
    seconds: float = 0.0


class DecisionProcedure(Protocol):
    """A way to decide a claim."""

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """What is known after so much effort."""
        ...


@dataclass(frozen=True)
class Claim:
    """One thing that is said, by a paper or in its place.

    Attributes
    ----------
    key:
        Its name here, e.g. ``"oef/lemma-3.1"``.
    paper, place:
        Where it stands, e.g. ``"OEF"``, ``"Lemma 3.1"``.
    statement:
        What it says, with its hypotheses; Markdown with LaTeX between dollars.
    means:
        How it is decided, the hypotheses as code and the checker in it.
    expected:
        The verdict that the ledger stands for; another one is an error.
    printed:
        True: as the paper has it. False: the strongest true version, or another version, of ours.
    policies:
        Names of the policies that it is about.
    proof:
        A written proof, short and complete, where it holds.
    mechanical:
        Parts of the proof that a machine checks.
    instead:
        Key of the strongest true version of one that is false.
    source:
        Who found the verdict first.
    note:
        What has to be known besides, such as how an unclear statement was read.

    Raises
    ------
    InvalidOption
        ``expected`` is no verdict.
    """

    key: str
    paper: str
    place: str
    statement: str
    means: DecisionProcedure
    expected: ClaimVerdict
    printed: bool = True
    policies: tuple[str, ...] = ()
    proof: str = ""
    mechanical: tuple[ProofPart, ...] = ()
    instead: str = ""
    source: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.expected not in get_args(ClaimVerdict):
            words = ", ".join(get_args(ClaimVerdict))
            raise InvalidOption(f"claim {self.key!r} expects {shown(self.expected)}; a verdict is one of {words}")

    @property
    def label(self) -> str:
        """How verdicts are written: a version of ours that holds is "true, corrected"."""
        return self.label_of(self.expected)

    def label_of(self, verdict: ClaimVerdict) -> str:
        """``verdict`` in words."""
        return "true, corrected" if verdict == "true" and not self.printed else verdict


def fraction_text(value: Fraction) -> str:
    """A fraction as text: itself, and for longer ones about how much."""
    text = digits(value)
    return text if value.denominator == 1 or len(text) <= 12 else f"{float(value):.6g}"
