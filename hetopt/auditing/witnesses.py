"""Witnesses: the answers to "why unfair?".

Bundles are mappings GPU type -> GPUs (types without GPUs left out). Numbers are floats, or Fractions where the
verdict was made in rational numbers. Rates are in the unit of the instance's speeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import pandas as pd

from hetopt.data.rationals import digits
from hetopt.tolerances import EQUAL, scale

Number: TypeAlias = float | Fraction
Bundle: TypeAlias = Mapping[str, Number]
Bundles: TypeAlias = Mapping[str, Bundle]


class Witness(Protocol):
    """Explains itself in a sentence and turns into plain data."""

    def explain(self) -> str:
        """The witness in words."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """The witness as plain numbers and words, for JSON."""
        ...


def number(value: Number) -> str:
    """A number as people write it; fractions stay fractions where they are short."""
    if isinstance(value, Fraction) and len(digits(value)) <= 12:
        return digits(value)
    return f"{float(value):.6g}"


def bundle_text(bundle: Bundle) -> str:
    """E.g. ``1 GPU1 + 0.25 GPU2``."""
    return " + ".join(f"{number(amount)} {kind}" for kind, amount in bundle.items()) or "nothing"


def plain(value: Any) -> Any:
    """``value`` with mappings and tuples opened and Fractions as text."""
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return digits(value) if isinstance(value, Fraction) else value


class _Plain:
    def as_dict(self) -> dict[str, Any]:
        """The witness as plain numbers and words, for JSON."""
        return {"kind": type(self).__name__, **{f.name: plain(getattr(self, f.name)) for f in fields(self)}}  # type: ignore[arg-type]


def _table(bundles: Bundles) -> pd.DataFrame:
    return pd.DataFrame.from_dict({name: dict(bundle) for name, bundle in bundles.items()}, orient="index").fillna(0)


@dataclass(frozen=True)
class Envy(_Plain):
    """``envious`` would do better with the GPUs of ``envied`` (both per unit of weight).

    Attributes
    ----------
    own, other:
        Their bundles.
    rate:
        What the envious entity has now.
    tempting_rate:
        What it would have with ``weight ratio`` times the other's bundle.
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
        """By how much the rate would rise."""
        return self.tempting_rate - self.rate

    def explain(self) -> str:
        """The witness in words."""
        part = "" if self.weight_ratio == 1 else f"{number(self.weight_ratio)} times (their weights' ratio) "
        return (
            f"{self.envious} has {bundle_text(self.own)} and a rate of {number(self.rate)}; with {part}what "
            f"{self.envied} has, {bundle_text(self.other)}, it would have {number(self.tempting_rate)}, "
            f"{number(self.excess)} more"
        )


@dataclass(frozen=True)
class BelowFairPart(_Plain):
    """``entity`` would do better with its part ``weight / sum(weight)`` of every GPU type."""

    entity: str
    rate: Number
    fair_rate: Number
    own: Bundle
    fair: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return (
            f"{self.entity} has {bundle_text(self.own)} and a rate of {number(self.rate)}; a cluster of its own with "
            f"its fair part, {bundle_text(self.fair)}, would give it {number(self.fair_rate)}"
        )


@dataclass(frozen=True)
class Dominated(_Plain):
    """Another allocation takes from nobody and gives to some.

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
        """Who gains, and how much rate; largest first. Among floats, what is noise beside the largest rate is none."""
        gains = {name: self.after[name] - rate for name, rate in self.before.items()}
        exact = all(isinstance(gain, Fraction) for gain in gains.values())
        noise = 0.0 if exact else EQUAL * scale([float(rate) for rate in self.after.values()])
        return dict(sorted(((n, g) for n, g in gains.items() if g > noise), key=lambda item: -item[1]))

    def explain(self) -> str:
        """The witness in words; at most four who gain are named."""
        gains = list(self.gains)
        named = ", ".join(f"{n} {number(self.before[n])} -> {number(self.after[n])}" for n in gains[:4])
        more = f" and {len(gains) - 4} more gain" if len(gains) > 4 else ""
        shown = list(self.bundles.items())[:4]
        listed = "; ".join(f"{name}: {bundle_text(bundle)}" for name, bundle in shown)
        rest = "; …" if len(self.bundles) > 4 else ""
        return f"nobody loses and {named}{more} with {listed}{rest}"


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
        listed = ", ".join(f"{kind} {number(p)}" for kind, p in self.prices.items())
        return f"at prices per GPU of {listed}, everyone holds only what is worth its price"


@dataclass(frozen=True)
class Overused(_Plain):
    """More GPUs of a type are given than there are, or (``entity`` named) less than none."""

    gpu_type: str
    given: Number
    capacity: Number
    entity: str | None = None

    def explain(self) -> str:
        """The witness in words."""
        if self.entity is not None:
            return f"{self.entity} is given {number(self.given)} GPUs of {self.gpu_type}, less than none"
        return f"{number(self.given)} GPUs of {self.gpu_type} are given, and there are {number(self.capacity)}"


@dataclass(frozen=True)
class Gap(_Plain):
    """``entity`` holds GPUs on both sides of the types ``missing``, of which it holds none."""

    entity: str
    missing: tuple[str, ...]
    own: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return f"{self.entity} has {bundle_text(self.own)} and nothing of {', '.join(self.missing)} in between"


@dataclass(frozen=True)
class Misreport(_Plain):
    """A lie that pays: all ``liars`` have more at their true speeds.

    Attributes
    ----------
    kind:
        ``"over"``, ``"under"``, ``"mixed"``, ``"coalition"``, ``"job type"`` (an added fake job type) or
        ``"tenant"`` (an added fake tenant).
    true, reported:
        CandidateRows of speeds that the lie changes: entity -> GPU type -> speed, in the instance's unit. A fake job
        type or tenant stands only in ``reported``.
    before, after:
        The liars' rates at their true speeds, honest and lying.
    honest, lying:
        Everyone's GPUs in both cases.
    """

    kind: str
    liars: tuple[str, ...]
    true: Bundles
    reported: Bundles
    before: Mapping[str, float]
    after: Mapping[str, float]
    honest: Bundles
    lying: Bundles

    @property
    def gains(self) -> dict[str, float]:
        """Liar -> increase of its true rate."""
        return {name: self.after[name] - rate for name, rate in self.before.items()}

    @property
    def honest_table(self) -> pd.DataFrame:
        """The honest allocation, in GPUs."""
        return _table(self.honest)

    @property
    def lying_table(self) -> pd.DataFrame:
        """The allocation under the lie, in GPUs."""
        return _table(self.lying)

    def explain(self) -> str:
        """The witness in words."""
        told = [
            f"{name} reports {_row(row)}" + (f" instead of {_row(self.true[name])}" if name in self.true else " (fake)")
            for name, row in self.reported.items()
        ]
        paid = [f"{name} {number(rate)} -> {number(self.after[name])}" for name, rate in self.before.items()]
        return f"{', '.join(told)}; true rate of {', '.join(paid)}"


def _row(speeds: Bundle) -> str:
    return "(" + ", ".join(number(v) for v in speeds.values()) + ")"
