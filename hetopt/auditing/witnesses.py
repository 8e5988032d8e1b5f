"""Witnesses: reasons why a property fails, or proofs that it holds.

Bundles are mappings GPU type -> GPUs (types without GPUs left out). Numbers are floats, or Fractions where the
verdict was made in rational numbers. Rates are in the unit of the instance's speeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import pandas as pd

from hetopt.data.rationals import digits
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


def number(value: Number) -> str:
    """A number with six digits; fractions of at most 12 characters stay fractions."""
    if isinstance(value, Fraction) and len(digits(value)) <= 12:
        return digits(value)
    return f"{float(value):.6g}"


def bundle_text(bundle: Bundle) -> str:
    """E.g. ``1 GPU1 + 0.25 GPU2``."""
    return " + ".join(f"{number(amount)} {kind}" for kind, amount in bundle.items()) or "nothing"


def plain(value: Any) -> Any:
    """``value`` as plain data: dicts, lists, and Fractions as text."""
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return digits(value) if isinstance(value, Fraction) else value


class _Plain:
    def as_dict(self) -> dict[str, Any]:
        """The witness as plain numbers and words, for JSON."""
        values = {f.metadata.get("key", f.name): plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
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
        part = "" if self.weight_ratio == 1 else f"{number(self.weight_ratio)} times (their weights' ratio) "
        return (
            f"{self.envious} has {bundle_text(self.own)} and a rate of {number(self.rate)}; with {part}what "
            f"{self.envied} has, {bundle_text(self.other)}, it would have {number(self.tempting_rate)}, "
            f"{number(self.excess)} more"
        )


@dataclass(frozen=True)
class BelowFairPart(_Plain):
    """``entity`` would have a higher rate with its part ``weight / sum(weight)`` of every GPU type."""

    entity: str
    rate: Number
    fair_rate: Number
    own: Bundle
    fair: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return (
            f"{self.entity} has {bundle_text(self.own)} and a rate of {number(self.rate)}; "
            f"its fair part of the cluster, {bundle_text(self.fair)}, would give it {number(self.fair_rate)}"
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
        named = ", ".join(f"{n} {number(self.before[n])} -> {number(self.after[n])}" for n in gains[:4])
        more = f" and {len(gains) - 4} more gain" if len(gains) > 4 else ""
        shown = list(self.bundles.items())[:4]
        listed = "; ".join(f"{name}: {bundle_text(bundle)}" for name, bundle in shown)
        rest = "; …" if len(self.bundles) > 4 else ""
        return f"no entity loses and {named}{more} with {listed}{rest}"


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
        return f"at prices per GPU of {listed}, each entity holds only GPUs that are worth their price to it"


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
            return f"{self.entity} is given {number(self.given)} GPUs of {self.gpu_type}, fewer than 0"
        return f"{number(self.given)} GPUs of {self.gpu_type} are given, and there are {number(self.capacity)}"


@dataclass(frozen=True)
class Gap(_Plain):
    """``entity`` holds GPUs of types on both sides of the ``missing`` types, but none of these."""

    entity: str
    missing: tuple[str, ...]
    own: Bundle

    def explain(self) -> str:
        """The witness in words."""
        return f"{self.entity} has {bundle_text(self.own)} and nothing of {', '.join(self.missing)} in between"


@dataclass(frozen=True)
class Misreport(_Plain):
    """A profitable misreport: all ``misreporting`` entities have a higher rate at their true speeds.

    Attributes
    ----------
    kind:
        ``"over"``, ``"under"``, ``"mixed"``, ``"coalition"``, ``"job type"`` (an added fake job type) or
        ``"tenant"`` (an added fake tenant).
    true, reported:
        Rows of speeds that the report changes: entity -> GPU type -> speed, in the instance's unit. A fake job type
        or tenant is only in ``reported``.
    before, after:
        Rates of the misreporting entities at their true speeds, under truthful reports and under the misreport.
    truthful, untruthful:
        GPUs of all entities in both cases.
    """

    kind: str
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
            f"{name} reports {_row(row)}" + (f" instead of {_row(self.true[name])}" if name in self.true else " (fake)")
            for name, row in self.reported.items()
        ]
        gains = [f"{name} {number(rate)} -> {number(self.after[name])}" for name, rate in self.before.items()]
        return f"{', '.join(reports)}; true rate of {', '.join(gains)}"


def _row(speeds: Bundle) -> str:
    return "(" + ", ".join(number(v) for v in speeds.values()) + ")"
