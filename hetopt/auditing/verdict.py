"""Verdicts of audits and their witnesses: whether a property holds, by how much, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias

import pandas as pd

from hetopt.checks import at_least, counted
from hetopt.data.rationals import digits, number_text
from hetopt.errors import InvalidOption
from hetopt.tolerances import EQUAL, scale

Number: TypeAlias = float | Fraction
Bundle: TypeAlias = Mapping[str, Number]
Bundles: TypeAlias = Mapping[str, Bundle]


class Witness(Protocol):
    """A record with an explanation in words and plain data for JSON."""

    def explain(self) -> str:
        """The witness in words."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """The witness as plain numbers and words, for JSON."""
        ...


def short(value: Number) -> str:
    """Format a number of a witness: a float with four digits, a Fraction exactly unless that is too long."""
    return number_text(value if isinstance(value, Fraction) else float(f"{value:.4g}") + 0.0)


def bundle_text(bundle: Bundle) -> str:
    """E.g. ``1 GPU1 + 0.25 GPU2``."""
    return " + ".join(f"{short(amount)} {kind}" for kind, amount in bundle.items()) or "nothing"


def gain_text(before: Number, after: Number) -> str:
    """The gain in a rate, e.g. ``gain 23 %``."""
    if before == 0:
        return f"have a rate of {short(after)} instead of 0"
    return f"gain {short(float(f'{100 * float(after / before - 1):.3g}'))} %"


def fractions_as_text(value: Any) -> Any:
    """``value`` as plain data: dicts, lists, and Fractions as text."""
    if isinstance(value, Mapping):
        return {key: fractions_as_text(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return [fractions_as_text(v) for v in value]
    return digits(value) if isinstance(value, Fraction) else value


class _Plain:
    def as_dict(self) -> dict[str, Any]:
        """The witness as plain numbers and words, for JSON."""
        values = {f.metadata.get("key", f.name): fractions_as_text(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **values}


def _table(bundles: Bundles) -> pd.DataFrame:
    return pd.DataFrame.from_dict({name: dict(bundle) for name, bundle in bundles.items()}, orient="index").fillna(0)


@dataclass(frozen=True)
class Envy(_Plain):
    """``envious`` would have a higher rate with the GPUs of ``envied`` (both per unit of weight).

    Attributes
    ----------
    own, other:
        Their bundles.
    rate:
        Rate of the envious entity.
    tempting_rate:
        Its rate with ``weight_ratio`` times the other's bundle.
    weight_ratio:
        Weight of the envious over weight of the envied.
    """

    envious: str
    envied: str
    rate: Number
    tempting_rate: Number
    own: Bundle
    other: Bundle
    weight_ratio: Number = 1.0

    @property
    def excess(self) -> Number:
        """Envy in the unit of rates."""
        return self.tempting_rate - self.rate

    def explain(self) -> str:
        """The witness in words."""
        part = "" if self.weight_ratio == 1 else f"{short(self.weight_ratio)} times (the ratio of their weights) "
        return (
            f"{self.envious} would {gain_text(self.rate, self.tempting_rate)} with {part}the GPUs of {self.envied} "
            f"({bundle_text(self.other)} instead of {bundle_text(self.own)})"
        )


@dataclass(frozen=True)
class BelowFairPart(_Plain):
    """``entity`` would have a higher rate with its fair part, ``weight / sum(weight)`` of every GPU type.

    Attributes
    ----------
    own, fair:
        Its GPUs, and its fair part.
    rate, fair_rate:
        Its rate with them; the latter is the :func:`~hetopt.data.rates.fair_part_rate`.
    """

    entity: str
    rate: Number
    fair_rate: Number
    own: Bundle
    fair: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return (
            f"{self.entity} would {gain_text(self.rate, self.fair_rate)} with its fair part of the cluster "
            f"({bundle_text(self.fair)} instead of {bundle_text(self.own)})"
        )


@dataclass(frozen=True)
class Dominated(_Plain):
    """Another allocation gives some entities a higher rate and none a lower one.

    Attributes
    ----------
    bundles:
        The dominating allocation.
    before, after:
        Rate of every entity in the audited and in the dominating allocation.
    """

    bundles: Bundles
    before: Mapping[str, Number]
    after: Mapping[str, Number]

    @property
    def table(self) -> pd.DataFrame:
        """The dominating allocation, entities x GPU types, in GPUs."""
        return _table(self.bundles)

    @property
    def gains(self) -> dict[str, Number]:
        """Entity -> gain in rate, largest first; floats without gains that are noise beside the largest rate."""
        gains = {name: self.after[name] - rate for name, rate in self.before.items()}
        exact = all(isinstance(gain, Fraction) for gain in gains.values())
        noise = 0.0 if exact else EQUAL * scale([float(rate) for rate in self.after.values()])
        return dict(sorted(((n, g) for n, g in gains.items() if g > noise), key=lambda item: -item[1]))

    def explain(self) -> str:
        """The witness in words; names at most four entities that gain."""
        gains = list(self.gains)
        named = ", ".join(f"{n} would {gain_text(self.before[n], self.after[n])}" for n in gains[:4])
        more = f" and {len(gains) - 4} others would gain" if len(gains) > 4 else ""
        shown = list(self.bundles.items())[:4]
        listed = "; ".join(f"{name}: {bundle_text(bundle)}" for name, bundle in shown)
        rest = "; …" if len(self.bundles) > 4 else ""
        return f"{named}{more} without loss to others, with {listed}{rest}"


@dataclass(frozen=True)
class SupportingPrices(_Plain):
    """Proof of Pareto efficiency: the allocation maximises ``sum weights[e] * rate[e]``, all weights positive.

    With ``p`` the prices and ``v`` the rate per GPU: ``weights[e] * v[e, k] <= p[k]`` for all, equal wherever e
    holds k, and every type with a positive price is used up.
    """

    prices: Mapping[str, Number]
    weights: Mapping[str, Number]

    def explain(self) -> str:
        """The witness in words."""
        listed = ", ".join(f"{kind} {short(p)}" for kind, p in self.prices.items())
        return f"at prices per GPU of {listed}, each entity holds only GPUs with its largest rate per price"


@dataclass(frozen=True)
class Overused(_Plain):
    """More GPUs of a type are given than there are, or (with an ``entity``) fewer than 0."""

    gpu_type: str
    given: Number
    capacity: Number
    entity: str | None = None

    def explain(self) -> str:
        """The witness in words."""
        if self.entity is not None:
            return f"{self.entity} is given {counted(short(self.given), 'GPU')} of {self.gpu_type}, fewer than 0"
        given, capacity = counted(short(self.given), "GPU"), short(self.capacity)
        return f"{given} of {self.gpu_type} allocated; the capacity is {capacity}"


@dataclass(frozen=True)
class Gap(_Plain):
    """``entity`` holds GPUs of types on both sides of the ``missing`` types, but none of these."""

    entity: str
    missing: tuple[str, ...]
    own: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return f"{self.entity} has {bundle_text(self.own)} but no {' or '.join(self.missing)} between them"


@dataclass(frozen=True)
class Misreport(_Plain):
    """A profitable misreport: all ``misreporting`` entities have a higher rate at their true speeds.

    Attributes
    ----------
    kind:
        ``"over"``, ``"under"``, ``"mixed"``, ``"coalition"``, ``"job type"`` (an added fake job type) or
        ``"tenant"`` (an added fake tenant); in JSON ``misreport_kind``.
    true, reported:
        Rows of speeds that the report changes: entity -> GPU type -> speed, in the instance's unit. A fake job type
        or tenant is only in ``reported``.
    before, after:
        Rates of the misreporting entities at their true speeds, under truthful reports and under the misreport.
    truthful, untruthful:
        GPUs of all entities in both cases.
    """

    kind: str = field(metadata={"key": "misreport_kind"})
    misreporting: tuple[str, ...] = field(metadata={"key": "liars"})
    true: Bundles
    reported: Bundles
    before: Mapping[str, float]
    after: Mapping[str, float]
    truthful: Bundles = field(metadata={"key": "honest"})
    untruthful: Bundles = field(metadata={"key": "lying"})

    @property
    def gains(self) -> dict[str, float]:
        """Misreporting entity -> increase of its true rate."""
        return {name: self.after[name] - rate for name, rate in self.before.items()}

    @property
    def truthful_table(self) -> pd.DataFrame:
        """The allocation under truthful reports, in GPUs."""
        return _table(self.truthful)

    @property
    def untruthful_table(self) -> pd.DataFrame:
        """The allocation under the misreport, in GPUs."""
        return _table(self.untruthful)

    def explain(self) -> str:
        """The witness in words."""
        reports = [
            f"{'it' if [name] == list(self.before) else name} reports {_row(row)} instead of {_row(self.true[name])}"
            if name in self.true
            else f"it adds a fake {self.kind} with speeds {_row(row)}"
            for name, row in self.reported.items()
        ]
        gains = [f"{name} would {gain_text(rate, self.after[name])}" for name, rate in self.before.items()]
        return f"{', '.join(gains)} if {', '.join(reports)}"


def _row(speeds: Bundle) -> str:
    return f"({', '.join(map(short, speeds.values()))})"


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


HOLDS: Mapping[AuditProperty, str] = {
    AuditProperty.ENVY_FREE: "none would gain with another's GPUs",
    AuditProperty.SHARING_INCENTIVE: "none would gain with its fair part of the cluster",
    AuditProperty.PARETO_EFFICIENT: "none can gain without loss to others",
    AuditProperty.CAPACITY: "no GPU type is overused",
    AuditProperty.ADJACENT_TYPES: "each has GPUs of adjacent types only",
}
"""Property -> what was checked, where it holds."""


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

    @property
    def reason(self) -> str:
        """Why the property holds, fails or is undecided, in words."""
        if self.witness is not None:
            return self.witness.explain()
        return HOLDS.get(self.name, self.why) if self.holds else self.why

    def __bool__(self) -> bool:
        if self.holds is None:
            raise TypeError(f"{self.label} is undecided ({self.why}); read .holds, which may be None")
        return self.holds

    def explain(self) -> str:
        """The verdict, its slack, and the reason in words."""
        amount = "" if math.isnan(self.slack) else f" (slack {short(self.slack)})"
        return f"{self.label} {self.word}{amount}" + (f": {self.reason}" if self.reason else "")

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
    """The verdict for a measured ``slack``; a Fraction is judged without tolerance.

    Raises
    ------
    InvalidOption
        ``tolerance`` is not a number >= 0.
    """
    tolerance = at_least(tolerance, "tolerance", 0.0, InvalidOption)
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
