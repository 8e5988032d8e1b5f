"""Data types of the ledger: claims, the finding for one case, and the evidence for a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from numbers import Rational
from typing import Any, Protocol, TypeAlias

from hetopt.checks import at_least, shown, whole
from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.finding_pictures import FindingPicture
from hetopt.proofs.ledger.space import CaseNumbers


class Known(StrEnum):
    """How a verdict is known, from the strongest kind to the weakest."""

    KERNEL = "kernel-checked"
    """Coq's kernel checks a proof of the statement, for all sizes if it is about all."""

    MECHANICAL = "mechanical core"
    """A written proof, whose algebra z3, cvc5 or sympy decides."""

    PROSE = "prose"
    """A written proof."""

    INSTANCE = "one instance"
    """A counterexample or a worked example, computed in fractions."""

    SEARCH = "search"
    """No proof: cases that were drawn and searched are evidence only."""

    NOT = "not decided"
    """The claim cannot be tested."""


class ClaimVerdict(StrEnum):
    """The verdict on a claim."""

    TRUE = "true"
    """A written proof exists, and no case contradicts it; or a computation gives the claimed values."""

    FALSE = "false"
    """A counterexample is certified in fractions, or a quantity claimed to be bounded grows along a family of cases."""

    OPEN = "open"
    """Neither a proof nor a counterexample is known; the evidence lists the attempts."""

    UNTESTABLE = "untestable"
    """The claim states nothing computable, or depends on data that are not available; the evidence gives the reason."""


@dataclass(frozen=True)
class Paper:
    """A paper of the ledger.

    Attributes
    ----------
    name, heading, reference:
        Short name, heading of its claims, and authors, title and venue.
    policies:
        Default policies of its claims.
    places:
        Places in the order of the paper, separated by semicolons; a claim belongs to the first one that its place
        contains.
    """

    name: str
    heading: str
    policies: tuple[str, ...] = ()
    reference: str = ""
    places: str = ""

    def position(self, place: str) -> int:
        """Position of a place in the paper."""
        names = self.places.split("; ")
        found = (i for i, name in enumerate(names) if re.search(rf"{re.escape(name)}(?!\d|\.\d|[IV])", place))
        return next(found, len(names))


PAPERS = {
    "oef": Paper(
        "OEF",
        "OEF",
        (),
        "Mo, Xu, Lau: Optimal Resource Efficiency with Fairness in Heterogeneous GPU Clusters, Middleware 2024",
        "Fig. 1; section 2.3.1; eq. (1); eq. (2); eq. (3); section 2.3; Table 1; section 2.4; eq. (4); eq. (5); eq. "
        "(6); section 3.1.1; Lemma 3.1; Theorem 3.2; eq. (7); Theorem 3.3; eq. (8); Fig. 2; eq. (9); eq. (10; "
        "section 4.2.3; section 4.2.4; section 4.3; section 4.4; Theorem 5.1; Theorem 5.2; Theorem 5.3; Theorem 5.4; "
        "section 6",
    ),
    "fft": Paper(
        "FFT",
        "FFT",
        ("fft",),
        "Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025",
        "Fig. 1; Fig. 2; section 2.2; Table 1; section 2.3; Fig. 3; section 2.4; section 4.1; equation (1); equation "
        "(2); section 4.2.1; equation (3); equations (3); Fig. 5; equations (4); equation (4); equation (5); section "
        "4.2.2; equation (6); sections 4.2.3; equation (7); section 4.2.4; section 4.2.5; Theorem 4.1; Theorem 4.2; "
        "section 6",
    ),
    "hadar": Paper(
        "Hadar",
        "Hadar and HadarE",
        (),
        "Sultana, Pakka, Xu, Yuan, Chen, Tzeng: Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling for "
        "Deep Learning Clusters, IEEE Transactions on Computers 2026",
        "abstract; Table I; section I; Fig. 1; section II; section III-A; eq. (3); eq. (4); eq. (5); section III-B; "
        "eq. (8); Algorithm 2; section III-C; Theorem 1; eq. (9); Lemma 1; Lemma 2; Lemma 3; Theorem 2; section IV; "
        "eq. (10); section V-A; section V-B; Theorem 3; Corollary; section V; Table V; section VI",
    ),
    "asrpt": Paper(
        "A-SRPT",
        "A-SRPT",
        ("asrpt",),
        "Luo, Liu, Lee, Shroff: Prediction-Assisted Online Distributed Deep Learning Workload Scheduling in GPU "
        "Clusters, arXiv 2501.05563",
        "eqs. (1); eq. (3); eq. (4); eq. (5); eq. (6); eq. (7); section III-B; sections III-B; eq. (8); Fig. 2; "
        "section IV-B; Algorithm 1; sections IV-C; section IV-C; eq. (9); Lemma 1; Lemma 2; Lemma 3; Theorem 1; "
        "Table II; Table I; section V; Fig. 4; Fig. 5; Figs. 6; Fig. 9; Appendix A; Appendix B; eq. (10); eq. (11); "
        "eq. (12); Appendix C; eq. (13); eq. (14); eq. (15)",
    ),
    "fair-sojourn": Paper(
        "fair sojourn",
        "Fair sojourn",
        ("fair-sojourn",),
        "A policy of hetopt; its theorem is that of Friedman, Henderson: Fairness and Efficiency in Web Server "
        "Protocols, SIGMETRICS 2003",
        "one GPU; several GPUs",
    ),
}
"""First part of the keys of claims -> paper, in the order of the ledger."""

OWN = PAPERS["fair-sojourn"].name
"""hetopt's own policy, whose claims no paper prints."""

HEADINGS = {paper.name: paper.heading for paper in PAPERS.values()}
"""Name of a paper -> its heading, in the order of the ledger."""


@dataclass(frozen=True)
class Finding:
    """The result for one case, in fractions.

    Attributes
    ----------
    slack:
        The conclusion holds if this is >= 0; otherwise it is violated by this amount.
    explanation:
        One or two sentences about the result.
    certificate:
        The facts verified in fractions: the optimum, its uniqueness, the inequality.
    pictures:
        Pictures of the case, e.g. shares before and after.
    decided:
        False if the case is inconclusive, for example because the optimum is not unique; it then refutes nothing.
    distance:
        Between 0 and 1; a search continues from the case with the smallest distance among cases of equal slack.

    Raises
    ------
    InvalidOption
        The slack is a float; verdicts require exact numbers.
    """

    slack: Fraction
    explanation: str
    certificate: tuple[str, ...] = ()
    pictures: tuple[FindingPicture, ...] = ()
    decided: bool = True
    distance: Fraction = Fraction(0)

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
    """A case that meets the hypotheses but not the conclusion.

    Attributes
    ----------
    numbers, case:
        The tables that determine the case, and the case.
    finding:
        The violation of the conclusion.
    name:
        Name of the stored instance; empty for a new counterexample.
    """

    numbers: CaseNumbers
    case: Any
    finding: Finding
    name: str = ""


@dataclass(frozen=True)
class GrowthCurve:
    """The growth of a quantity along a family of cases.

    Attributes
    ----------
    size, quantity:
        Names of the size and of the measured quantity.
    points:
        Size -> exact value.
    formula:
        The value for every size, as text.
    """

    size: str
    quantity: str
    points: Mapping[int, Fraction]
    formula: str


@dataclass(frozen=True)
class Tightness:
    """The tightness of a bound: the largest quotient of both sides that was found (1: equality)."""

    ratio: Fraction
    numbers: CaseNumbers


@dataclass(frozen=True)
class ProofCheck:
    """The result of one machine-checked part of a proof.

    Attributes
    ----------
    name:
        The tool and the statement, e.g. "z3: n = 2, k = 2, all real data".
    holds:
        Whether the part holds; None if it was not run.
    why:
        The missing package, the exceeded limit or the counterexample; empty if the part holds.
    """

    name: str
    holds: bool | None
    seconds: float = 0.0
    why: str = ""


ProofPart: TypeAlias = Callable[[], ProofCheck]
"""A machine-checked part of a proof; see :mod:`hetopt.proofs.ledger.mechanical`."""


@dataclass(frozen=True)
class Effort:
    """The effort to spend on one claim.

    Attributes
    ----------
    instances:
        Cases to draw for each claim that is expected to hold.
    seconds:
        Time of the search for counterexamples to each claim that is expected to be false or open; claims that are
        expected to be true get a tenth of it. 0: no search, stored counterexamples only.
    seed:
        Seed of draws and search.
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
"""Stored counterexamples, and 50 instances per claim."""


@dataclass(frozen=True)
class ClaimEvidence:
    """The verdict on a claim and its evidence.

    Attributes
    ----------
    verdict:
        The verdict.
    summary:
        The evidence in one line.
    tried:
        Activity -> count, e.g. ``{"instances": 50, "searched": 1200}``.
    pictures:
        Pictures of computed values; those of a counterexample are in its finding.
    values:
        Quantity -> (as printed, as computed).
    """

    verdict: ClaimVerdict
    summary: str
    tried: Mapping[str, int] = field(default_factory=dict)
    counterexample: Counterexample | None = None
    pictures: tuple[FindingPicture, ...] = ()
    curve: GrowthCurve | None = None
    tightness: Tightness | None = None
    checks: tuple[ProofCheck, ...] = ()
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    seconds: float = 0.0


class DecisionProcedure(Protocol):
    """A way to decide a claim."""

    def decide(self, claim: Claim, effort: Effort) -> ClaimEvidence:
        """Spend this effort on the claim, and return the evidence."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, or a corrected version of it.

    Attributes
    ----------
    key:
        Its name in the ledger, e.g. ``"oef/lemma-3.1"``.
    place:
        Its place in the paper, e.g. ``"Lemma 3.1"``.
    statement:
        The statement, as hetopt reads it; Markdown with LaTeX between dollars.
    quote:
        The paper's own words: a sentence or part of one, verbatim, in the same format.
    procedure:
        How the claim is decided, with hypotheses and conclusion as code.
    expected:
        The verdict that the ledger asserts; any other verdict is an error.
    printed:
        Whether the paper prints the statement; if not, it is hetopt's version, for example the strongest true one.
    policies:
        Names of the policies that the claim is about; default: those of the paper in :data:`PAPERS`.
    proof:
        A complete written proof, if the claim holds.
    mechanical:
        Machine-checked parts of the proof.
    instead:
        Key of the strongest true version of a false claim.
    note:
        Further information, such as the reading of an unclear statement.
    paper:
        Name of the paper; default: that of the key in :data:`PAPERS`, else the first part of the key.

    Raises
    ------
    InvalidOption
        ``expected`` is not a verdict.
    """

    key: str
    place: str
    statement: str
    procedure: DecisionProcedure
    expected: ClaimVerdict
    printed: bool = True
    policies: tuple[str, ...] | None = None
    proof: str = ""
    mechanical: tuple[ProofPart, ...] = ()
    instead: str = ""
    note: str = ""
    paper: str = ""
    quote: str = ""

    def __post_init__(self) -> None:
        try:
            verdict = ClaimVerdict(self.expected)
        except ValueError:
            raise InvalidOption(
                f"claim {self.key!r} expects {shown(self.expected)}; a verdict is one of {', '.join(ClaimVerdict)}"
            ) from None
        object.__setattr__(self, "expected", verdict)
        if not callable(getattr(self.procedure, "decide", None)):
            raise InvalidOption(
                f"claim {self.key!r} has the procedure {shown(self.procedure)}, without a method decide"
            )
        first = self.key.partition("/")[0]
        paper = PAPERS.get(first, Paper(first, first))
        object.__setattr__(self, "paper", self.paper or paper.name)
        if self.policies is None:
            object.__setattr__(self, "policies", paper.policies)

    @property
    def source(self) -> str:
        """The paper and the place that the claim is from, or that it corrects or refines."""
        return f"{self.paper}, {self.place}"

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The hypotheses that the code requires of every case, as text; empty for claims about one instance."""
        return tuple(getattr(self.procedure, "hypotheses", ()))

    @property
    def label(self) -> str:
        """The expected verdict as text."""
        return self.label_of(self.expected)

    def label_of(self, verdict: ClaimVerdict) -> str:
        """``verdict`` as text: a true version that the paper does not print is "true, corrected"."""
        corrects = not self.printed and self.paper != OWN
        return "true, corrected" if verdict is ClaimVerdict.TRUE and corrects else verdict.value
