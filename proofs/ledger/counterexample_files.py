"""Read counterexamples from ``instances/refuted/``, and write new ones to instance files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.data.instance_files import encode
from hetopt.data.saving import check_free, check_writable
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Counterexample
from hetopt.proofs.ledger.space import CaseNumbers, plain_number

TOPIC = "counterexample"
"""Key under ``expected`` of an instance file."""

FOLDER = "refuted/"
"""Folder of the stored counterexamples among the named instances."""


def stored_numbers(name: str) -> CaseNumbers:
    """The tables of a stored counterexample.

    Raises
    ------
    UnknownName
        There is no instance of that name.
    KeyError
        The instance holds no counterexample.
    """
    return CaseNumbers.read(instances.expected(name)[TOPIC].case)


def stored_slack(name: str) -> Fraction:
    """The slack of a stored counterexample according to its file."""
    return Fraction(str(instances.expected(name)[TOPIC].correct["slack"]))


@dataclass(frozen=True)
class _Index:
    """Names of the stored counterexamples.

    Attributes
    ----------
    by_claim:
        Key of a claim -> names of its counterexamples.
    unreadable:
        Names of the files that cannot be read.
    """

    by_claim: Mapping[str, tuple[str, ...]]
    unreadable: tuple[str, ...]


@cache
def _index() -> _Index:
    by_claim: dict[str, tuple[str, ...]] = {}
    unreadable_names = []
    for name in instances.names():
        if not name.startswith(FOLDER):
            continue
        try:
            topics = instances.expected(name)
            keys = topics[TOPIC].claim.split(", ") if TOPIC in topics else []
        except Exception:  # any content is possible; the command reports the file, and so does deciding its claim
            unreadable_names.append(name)
            continue
        for key in keys:
            by_claim[key] = (*by_claim.get(key, ()), name)
    return _Index(by_claim, tuple(unreadable_names))


def stored_names(claim: str) -> tuple[str, ...]:
    """Names of the stored counterexamples of a claim, including a file of its name that cannot be read."""
    index, name = _index(), FOLDER + slug(claim)
    return (*index.by_claim.get(claim, ()), *((name,) if name in index.unreadable else ()))


def unreadable() -> list[str]:
    """Names of the instances in the folder of counterexamples that cannot be read."""
    return list(_index().unreadable)


def instance_of(case: Any) -> Instance:
    """The instance that a case is about: itself, or its attribute ``instance``."""
    return case if isinstance(case, Instance) else case.instance


def slug(key: str) -> str:
    """A claim's key as the name of a file or of an anchor."""
    return key.replace("/", "-").replace(".", "-")


def as_document(claim: Claim, found: Counterexample, name: str) -> dict[str, Any]:
    """The content of the instance file of a counterexample."""
    verdict = "does not hold" if claim.expected is ClaimVerdict.FALSE else "by this case"
    source = f"{claim.paper}, {claim.place}, {verdict}: {found.finding.explanation}. Found by search ({claim.key})."
    data = encode(instance_of(found.case).replace(name=name, source=source))
    data["expected"] = {
        TOPIC: {
            "claim": claim.key,
            "where": claim.place,
            "case": found.numbers.as_dict(),
            "correct": {"slack": plain_number(found.finding.slack)},
        }
    }
    return data


def store_counterexample(claim: Claim, found: Counterexample, folder: Path) -> Path:
    """Write a counterexample to a new instance file in ``folder``, and return its path.

    Raises
    ------
    UnusableFile
        The file cannot be written, or exists already.
    """
    name = slug(claim.key)
    path = folder / f"{name}.yaml"
    check_free(path, overwrite=False)
    check_writable(path)
    data = as_document(claim, found, f"{FOLDER}{name}")
    path.write_text(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110))
    return path
