"""Read counterexamples from ``instances/refuted/`` and write new ones to instance files."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.data.instance_files import encode
from hetopt.data.saving import check_free, check_writable
from hetopt.presentation.formatting import slug
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Counterexample
from hetopt.proofs.ledger.space import CaseNumbers, plain_number

TOPIC = "counterexample"
"""Key under ``expected`` of an instance file."""

FOLDER = "refuted/"
"""Folder of stored counterexamples in the named instances."""


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


@cache
def _index() -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Key of a claim -> names of its stored counterexamples; and the names of unreadable files."""
    by_claim: dict[str, tuple[str, ...]] = {}
    unreadable_names = []
    for name in instances.names():
        if not name.startswith(FOLDER):
            continue
        try:
            topics = instances.expected(name)
            keys = topics[TOPIC].claim.split(", ") if TOPIC in topics else []
        except Exception:  # any content is possible; deciding the claim reports the error
            unreadable_names.append(name)
            continue
        for key in keys:
            by_claim[key] = (*by_claim.get(key, ()), name)
    return by_claim, unreadable_names


def stored_names(claim: str) -> tuple[str, ...]:
    """Names of the stored counterexamples of a claim, including an unreadable file with its name."""
    by_claim, unreadable_names = _index()
    name = FOLDER + slug(claim)
    return (*by_claim.get(claim, ()), *((name,) if name in unreadable_names else ()))


def problems(claims: Collection[str]) -> list[str]:
    """A line for each stored counterexample that cannot be read, and for each that names none of these claims."""
    by_claim, unreadable_names = _index()
    return [f"instance {name} cannot be read" for name in unreadable_names] + [
        f"instance {name} is a counterexample to {key!r}, which is no claim of the ledger"
        for key, names in by_claim.items()
        if key not in claims
        for name in names
    ]


def instance_of(case: Any) -> Instance:
    """The instance of a case: the case itself, or its attribute ``instance``."""
    return case if isinstance(case, Instance) else case.instance


def _document(claim: Claim, found: Counterexample) -> dict[str, Any]:
    """The content of the instance file of a counterexample."""
    verdict = "does not hold" if claim.expected is ClaimVerdict.FALSE else "by this case"
    source = f"{claim.paper}, {claim.place}, {verdict}: {found.finding.explanation}. Found by search ({claim.key})."
    data = encode(instance_of(found.case).replace(name=FOLDER + slug(claim.key), source=source))
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
    path = folder / f"{slug(claim.key)}.yaml"
    check_free(path, overwrite=False)
    check_writable(path)
    path.write_text(yaml.safe_dump(_document(claim, found), sort_keys=False, default_flow_style=None, width=110))
    return path
