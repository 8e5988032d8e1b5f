"""What an audit says of one property: whether it holds, by how much, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hetopt.auditing.witnesses import Witness
from hetopt.data.rationals import digits
from hetopt.tolerances import EQUAL

PART = "part of the rate with the whole cluster"
"""Unit of most slacks: 0.01 is what 1 % of every GPU type yields. The same whatever unit speeds are in."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a property holds of an allocation (or of a policy).

    Attributes
    ----------
    name:
        The property, e.g. ``"envy_free"``.
    holds:
        True, False, or None: undecided, and ``why`` says why. A search for profitable lies that found none is
        undecided too: it proves nothing, see :attr:`searched`.
    slack:
        Above 0: how far from being violated. Below 0: by how much it is violated. NaN where nothing was measured.
    witness:
        Where it fails: the answer to "why unfair?", a small object with ``explain()``. Else None.
    unit:
        What ``slack`` is measured in.
    why:
        How it was decided, or why it could not be.
    tolerance:
        ``holds`` is True down to ``slack = -tolerance``; 0 for a verdict in rational numbers.
    exact:
        The slack as a fraction, where the verdict was made in rational numbers.
    proof:
        What proves that it holds, where that is more than the slack (prices that prove Pareto efficiency).
    searched:
        Kind of misreport -> how many were tried; empty for properties that are computed, not searched.
    """

    name: str
    holds: bool | None
    slack: float
    witness: Witness | None = None
    unit: str = PART
    why: str = ""
    tolerance: float = 0.0
    exact: Fraction | None = None
    proof: Witness | None = None
    searched: dict[str, int] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """True if ``holds`` is True or False."""
        return self.holds is not None

    @property
    def word(self) -> str:
        """``holds``, ``fails``, ``not refuted`` (searched, nothing found) or ``undecided``."""
        if self.holds is None:
            return "not refuted" if self.searched else "undecided"
        return "holds" if self.holds else "fails"

    def __bool__(self) -> bool:
        if self.holds is None:
            raise TypeError(f"{self.name} is undecided ({self.why}); ask for .holds, which may be None")
        return self.holds

    def explain(self) -> str:
        """One sentence or a few: the verdict, its slack, and the witness in words."""
        amount = "" if math.isnan(self.slack) else f", slack {self.slack:.6g} ({self.unit})"
        reason = self.witness.explain() if self.witness is not None else self.why
        return f"{self.name} {self.word}{amount}" + (f": {reason}" if reason else "")

    __str__ = __repr__ = explain

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {
            "property": self.name,
            "holds": self.holds,
            "verdict": self.word,
            "slack": None if math.isnan(self.slack) else self.slack,
            "exact_slack": None if self.exact is None else digits(self.exact),
            "unit": self.unit,
            "why": self.why,
            "witness": None if self.witness is None else self.witness.as_dict(),
            "explanation": self.explain(),
            "searched": dict(self.searched),
        }


def judged(
    name: str,
    slack: Any,
    witness: Witness,
    *,
    tolerance: float = EQUAL,
    unit: str = PART,
    why: str = "",
    proof: Witness | None = None,
) -> Verdict:
    """The verdict for a measured ``slack``; one that is a Fraction is judged without tolerance."""
    exact = slack if isinstance(slack, Fraction) else None
    limit = 0.0 if exact is not None else tolerance
    holds = bool(slack >= -limit)
    return Verdict(
        name=name,
        holds=holds,
        slack=float(slack),
        witness=None if holds else witness,
        unit=unit,
        why=why or ("decided in rational numbers" if exact is not None else f"decided at tolerance {limit:g}"),
        tolerance=limit,
        exact=exact,
        proof=proof if holds else None,
    )


def undecided(name: str, why: str, unit: str = PART) -> Verdict:
    """A verdict that could not be made."""
    return Verdict(name, None, math.nan, unit=unit, why=why)
