"""Named instances with provenance: the papers' worked examples, refuted claims, laboratories' clusters.

Each is a file in the form of :mod:`hetopt.data.schema`. Its ``source`` says where every number comes from and what is
an assumption; ``expected`` holds what the paper printed and what is true, as fractions.
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
from typing import Any

from hetopt.checks import FrozenDict, lookup
from hetopt.data import instance_files as files
from hetopt.data.instance import Instance, read

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Expected:
    """What the paper prints about an instance, and the correct values.

    Attributes
    ----------
    correct, printed:
        Quantity -> value, numbers as fractions: ``share`` and ``rate`` (rows and columns as in
        :meth:`hetopt.Instance.entities`), ``total`` (sum of the rates), or as the note says.
    misprinted:
        Quantities whose printed value is not the correct one, rounded.
    policy:
        Policy or formulation that gives it, e.g. ``"oef-cooperative"``; empty where none does.
    where, note:
        Place in the paper; what has to be known besides.
    claim:
        Number of the claim in the transcription of the papers' numbers, e.g. ``"OEF-016"``; of a counterexample the
        claim of the ledger that it refutes, e.g. ``"oef/lemma-3.1"``.
    case:
        Of a counterexample: the tables from which the ledger makes it, name -> rows.
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
        There is none of that name; the nearest is named.
    """
    return lookup(_paths(), name, "instance")


@cache
def load(name: str) -> Instance:
    """The instance of that name, e.g. ``"oef/eq6"``.

    Raises
    ------
    UnknownName
        There is none of that name; the nearest is named.
    """
    return read(path(name))


def describe(name: str) -> str:
    """One line: the beginning of its source, and its size.

    Raises
    ------
    UnknownName
        There is none of that name; the nearest is named.
    """
    instance = load(name)
    first = shorten(re.split(r"(?<!Fig)\. (?=[A-Z0-9])", instance.source)[0].rstrip("."), 110, placeholder=" …")
    counts = [(len(instance.tenants), "tenant"), (len(instance.jobs), "job")]
    sizes = [f"{n} {kind}{'s' if n > 1 else ''}" for n, kind in counts if n]
    capacity = ", ".join(f"{n} {t}" for t, n in instance.cluster.capacity.items())
    return f"{first} ({'; '.join([*sizes, capacity])})"


@cache
def expected(name: str) -> Mapping[str, Expected]:
    """What is printed on the instance, by topic, e.g. ``expected("oef/eq6")["cooperative"].correct["total"]`` (21/4).

    Raises
    ------
    UnknownName
        There is none of that name; the nearest is named.
    """
    document = files.read_document(path(name))
    return FrozenDict({topic: _expected(row) for topic, row in document.get("expected", {}).items()})


def _expected(row: Mapping[str, Any]) -> Expected:
    correct, printed = (FrozenDict(exact(row.get(key, {}))) for key in ("correct", "printed"))
    text = {key: row.get(key, "") for key in ("policy", "where", "note", "claim")}
    case = FrozenDict(exact(row.get("case", {})))
    return Expected(correct, printed, tuple(row.get("misprinted", ())), **text, case=case)


def exact(value: Any) -> Any:
    """Numbers, decimal or as text such as ``"1/3"``, as the fraction that was written; lists as tuples."""
    if isinstance(value, Mapping):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(exact(item) for item in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Fraction(str(value))
    if isinstance(value, str) and re.fullmatch(r"-?\d+/\d+", value):
        return Fraction(value)
    return value
