"""Counterexamples in instance files: ``instances/refuted/`` and wherever a user keeps new ones."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.data.instance_files import encode
from hetopt.data.saving import check_free, check_writable
from hetopt.proofs.ledger.claim import Claim, Counterexample
from hetopt.proofs.ledger.space import CaseNumbers, plain_number

TOPIC = "counterexample"
"""Key under ``expected`` of an instance file."""

FOLDER = "refuted/"
"""Where the library keeps them."""


def stored_numbers(name: str) -> CaseNumbers:
    """The tables of a stored counterexample.

    Raises
    ------
    UnknownName
        There is no instance of that name.
    KeyError
        It holds no counterexample.
    """
    return CaseNumbers.read(instances.expected(name)[TOPIC].case)


def stored_slack(name: str) -> Fraction:
    """By how much the conclusion fails there, as the file says."""
    return Fraction(str(instances.expected(name)[TOPIC].correct["slack"]))


@cache
def _index() -> dict[str, tuple[str, ...]]:
    """Claim -> names of the instances that are kept against it; a file that cannot be read is named after its claim."""
    found: dict[str, tuple[str, ...]] = {}
    for name in instances.names():
        if not name.startswith(FOLDER):
            continue
        try:
            said = instances.expected(name)
            keys = said[TOPIC].claim.split(", ") if TOPIC in said else []
        except Exception:  # whatever stands in the file; told by the command, and where its claim is decided
            keys = [name]
        for key in keys:
            found[key] = (*found.get(key, ()), name)
    return found


def stored_names(claim: str) -> tuple[str, ...]:
    """Names of the instances that are kept as counterexamples of a claim, also those that cannot be read."""
    return (*_index().get(claim, ()), *_index().get(FOLDER + slug(claim), ()))


def unreadable() -> list[str]:
    """Names of the instances beside the counterexamples that cannot be read."""
    return [key for key in _index() if key.startswith(FOLDER)]


def instance_of(case: Any) -> Instance:
    """The instance that a case is about: itself, or its attribute ``instance``."""
    return case if isinstance(case, Instance) else case.instance


def slug(key: str) -> str:
    """The name of a claim as a file is called."""
    return key.replace("/", "-").replace(".", "-")


def as_document(claim: Claim, found: Counterexample, name: str) -> dict[str, Any]:
    """An instance file as plain data."""
    told = "does not hold" if claim.expected == "false" else "by this case"
    source = f"{claim.paper}, {claim.place}, {told}: {found.finding.words}. Found by search ({claim.key})."
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
        It cannot be written there; one that exists is not replaced.
    """
    name = slug(claim.key)
    path = folder / f"{name}.yaml"
    check_free(path, overwrite=False)
    check_writable(path)
    data = as_document(claim, found, f"{FOLDER}{name}")
    path.write_text(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110))
    return path
