"""Named instances with provenance: the papers' worked examples, counterexamples of claims, laboratory clusters.

Each is a file in the format of :mod:`hetopt.data.schema`. Its ``source`` states the origin of every number and all
assumptions; ``expected`` holds printed and correct values as fractions.
"""

from __future__ import annotations

if __name__ != "hetopt.instances":
    raise ImportError(f"import this package as hetopt.instances, not as {__name__}")

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from hetopt.checks import FrozenDict, lookup

if TYPE_CHECKING:
    from hetopt.data.instance import Instance

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Expected:
    """Values that the paper prints about an instance, and the correct values.

    Attributes
    ----------
    correct, printed:
        Quantity -> value, numbers as fractions: ``share`` and ``rate`` (rows and columns as in
        :meth:`hetopt.Instance.entities`), ``total`` (sum of the rates), or quantities that the note explains.
    misprinted:
        Quantities with a printed value that is not the rounded correct value.
    policy:
        Policy or formulation with these values, e.g. ``"oef-cooperative"``; empty if there is none.
    where, note:
        Place in the paper, and further information.
    claim:
        Id of the claim in the transcription of the papers' numbers, e.g. ``"OEF-016"``; for counterexamples the key
        of the refuted claim in the ledger, e.g. ``"oef/lemma-3.1"``.
    case:
        For counterexamples: the tables from which the ledger builds the case, name -> rows.
    """

    correct: Mapping[str, Any] = field(default_factory=FrozenDict)
    printed: Mapping[str, Any] = field(default_factory=FrozenDict)
    misprinted: tuple[str, ...] = ()
    policy: str = ""
    where: str = ""
    note: str = ""
    claim: str = ""
    case: Mapping[str, Any] = field(default_factory=FrozenDict)


@cache
def _paths() -> Mapping[str, Path]:
    found = {path.relative_to(HERE).with_suffix("").as_posix(): path for path in HERE.rglob("*.yaml")}
    return {name: found[name] for name in sorted(found)}


def names() -> tuple[str, ...]:
    """Names of all instances, sorted."""
    return tuple(_paths())


def path(name: str) -> Path:
    """The file of the instance.

    Raises
    ------
    UnknownName
        There is no instance of this name; the message suggests the nearest name.
    """
    return lookup(_paths(), name, "instance")


@cache
def load(name: str) -> Instance:
    """Load an instance by name, e.g. ``"oef/eq6"``.

    Raises
    ------
    UnknownName
        There is no instance of this name; the message suggests the nearest name.
    """
    from hetopt.data.instance import read

    return read(path(name))


def describe(name: str) -> str:
    """A line with the first sentence of the instance's source, and its size.

    Raises
    ------
    UnknownName
        There is no instance of this name; the message suggests the nearest name.
    """
    instance = load(name)
    first = shorten(re.split(r"(?<!Fig)\. (?=[A-Z0-9])", instance.source)[0].rstrip("."), 110, placeholder=" …")
    counts = [(len(instance.tenants), "tenant"), (len(instance.jobs), "job")]
    sizes = [f"{n} {kind}{'s' if n > 1 else ''}" for n, kind in counts if n]
    capacity = ", ".join(f"{n} {t}" for t, n in instance.cluster.capacity.items())
    return f"{first} ({'; '.join([*sizes, capacity])})"


@cache
def expected(name: str) -> Mapping[str, Expected]:
    """Printed and correct values by topic, e.g. ``expected("oef/eq6")["cooperative"].correct["total"]`` is 21/4.

    Raises
    ------
    UnknownName
        There is no instance of this name; the message suggests the nearest name.
    """
    from hetopt.data.instance_files import read_document

    document = read_document(path(name))
    return FrozenDict({topic: _expected(row) for topic, row in document.get("expected", {}).items()})


def _expected(row: Mapping[str, Any]) -> Expected:
    correct, printed = (FrozenDict(exact(row.get(key, {}))) for key in ("correct", "printed"))
    text = {key: row.get(key, "") for key in ("policy", "where", "note", "claim")}
    case = FrozenDict(exact(row.get("case", {})))
    return Expected(correct, printed, tuple(row.get("misprinted", ())), **text, case=case)


def exact(value: Any) -> Any:
    """Convert numbers, also text such as ``"1/3"``, to exact fractions, and lists to tuples."""
    if isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(exact(item) for item in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Fraction(str(value))
    if isinstance(value, str) and re.fullmatch(r"-?\d+/\d+", value):
        return Fraction(value)
    return value
