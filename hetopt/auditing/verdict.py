"""The verdict of an audit on one property: whether it holds, by how much, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal

from hetopt.auditing.witnesses import Witness
from hetopt.data.rationals import digits
from hetopt.tolerances import EQUAL

PART = "part of the rate with the whole cluster"
"""Unit of most slacks: 1 % of every GPU type yields 0.01, for any unit of speeds."""

Level = Literal["job type", "even split", "free reuse"]
"""The entities of a verdict where a tenant has several job types (OEF, section 4.2.4).

``"job type"``
    Each (tenant, job type) as a separate virtual user. Jobs: each job.
``"even split"``
    The tenant. Its rate is the sum over its job types as allocated; another tenant's GPUs, and its fair part, would be
    split evenly among its job types.
``"free reuse"``
    The tenant. Each of its GPUs runs the job type that is fastest there.
"""


class AuditProperty(StrEnum):
    """Properties that audits judge."""

    ENVY_FREE = "envy_free"
    SHARING_INCENTIVE = "sharing_incentive"
    PARETO_EFFICIENT = "pareto_efficient"
    STRATEGY_PROOF = "strategy_proof"
    CAPACITY = "capacity"
    ADJACENT_TYPES = "adjacent_types"


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a property holds of an allocation (or of a policy).

    Attributes
    ----------
    name:
        The property.
    holds:
        True, False, or None: undecided, for the reason in ``why``. A search for profitable misreports that found none
        is undecided too: it proves nothing, see :attr:`searched`.
    slack:
        Above 0: distance to a violation. Below 0: size of the violation. NaN where nothing was measured.
    witness:
        Why the property fails, an object with ``explain()``; else None.
    unit:
        Unit of ``slack``.
    why:
        How the verdict was decided, or why it is undecided, as a message.
    tolerance:
        ``holds`` is True down to ``slack = -tolerance``; 0 for a verdict in rational numbers.
    exact:
        The slack as a fraction, where the verdict was made in rational numbers.
    proof:
        Proof that the property holds, beyond the slack (prices that prove Pareto efficiency).
    searched:
        Kind of misreport -> how many were tried; empty for properties that are computed, not searched.
    level:
        The entities of the verdict.
    """

    name: AuditProperty
    holds: bool | None
    slack: float
    witness: Witness | None = None
    unit: str = PART
    why: str = ""
    tolerance: float = 0.0
    exact: Fraction | None = None
    proof: Witness | None = None
    searched: dict[str, int] = field(default_factory=dict)
    level: Level = "job type"

    @property
    def label(self) -> str:
        """The property, with the level unless that is job types: ``envy_free (free reuse)``."""
        return str(self.name) if self.level == "job type" else f"{self.name} ({self.level})"

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
            raise TypeError(f"{self.label} is undecided ({self.why}); read .holds, which may be None")
        return self.holds

    def explain(self) -> str:
        """The verdict, its slack, and the witness in words."""
        amount = "" if math.isnan(self.slack) else f", slack {self.slack:.6g} ({self.unit})"
        reason = self.witness.explain() if self.witness is not None else self.why
        return f"{self.label} {self.word}{amount}" + (f": {reason}" if reason else "")

    __str__ = __repr__ = explain

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {
            "property": str(self.name),
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
    name: AuditProperty,
    slack: Any,
    witness: Witness,
    *,
    tolerance: float = EQUAL,
    unit: str = PART,
    proof: Witness | None = None,
    level: Level = "job type",
) -> Verdict:
    """The verdict for a measured ``slack``; a Fraction is judged without tolerance."""
    exact = slack if isinstance(slack, Fraction) else None
    limit = 0.0 if exact is not None else tolerance
    holds = bool(slack >= -limit)
    return Verdict(
        name=name,
        holds=holds,
        slack=float(slack),
        witness=None if holds else witness,
        unit=unit,
        why="decided in rational numbers" if exact is not None else f"decided at tolerance {limit:g}",
        tolerance=limit,
        exact=exact,
        proof=proof if holds else None,
        level=level,
    )


def undecided(name: AuditProperty, why: str) -> Verdict:
    """The verdict "undecided", for the reason ``why``."""
    return Verdict(name, None, math.nan, why=why)
