"""Find the claims that installed packages register by entry points."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint

from hetopt.checks import shown
from hetopt.errors import InvalidOption, UnknownName
from hetopt.plugins import CLAIMS, raised
from hetopt.proofs.ledger.claim import HEADINGS, Claim


@cache
def all_claims() -> dict[str, Claim]:
    """Key -> claim, paper by paper.

    Raises
    ------
    InvalidOption
        Two claims have the same key, or a registered function fails or returns something other than claims.
    """
    claims = [claim for point in CLAIMS.points.values() for claim in _claims_from(point)]
    order = list(HEADINGS)
    claims.sort(key=lambda claim: order.index(claim.paper) if claim.paper in order else len(order))
    found: dict[str, Claim] = {}
    for claim in claims:
        if claim.key in found:
            raise InvalidOption(f"two claims are called {claim.key!r}; keys must be unique")
        found[claim.key] = claim
    return found


def _claims_from(point: EntryPoint) -> list[Claim]:
    try:
        claims = list(point.load()())
    except Exception as problem:  # the code of another package may fail in any way
        raise InvalidOption(f"no claims from {point.value!r}: {raised(problem)}") from problem
    for claim in claims:
        if not isinstance(claim, Claim):
            raise InvalidOption(
                f"{point.value!r} returns {shown(claim)}; an entry point of {CLAIMS.group} must return only claims"
            )
    return claims


def select_claims(keys: Iterable[str] = ()) -> list[Claim]:
    """The claims with these keys (``*`` and ``?`` are wildcards), or all.

    Raises
    ------
    UnknownName
        No claim has such a key.
    """
    every = all_claims()
    selected: dict[str, Claim] = {}
    for key in keys:
        found = fnmatch.filter(every, key)
        if not found:
            near = " or ".join(map(repr, get_close_matches(key, every)))
            hint = f"did you mean {near}? " if near else ""
            raise UnknownName(f"there is no claim {key!r}; {hint}hetopt verify --list shows all {len(every)}")
        selected |= {name: every[name] for name in found}
    return list((selected or every).values())
