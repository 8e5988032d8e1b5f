"""Find the claims that installed packages announce by entry points."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from hetopt.checks import lookup, shown
from hetopt.errors import InvalidOption, UnknownName
from hetopt.plugins import CLAIMS, raised
from hetopt.proofs.ledger.claim import PAPERS, Claim


@cache
def all_claims() -> dict[str, Claim]:
    """Key -> claim, paper by paper.

    Raises
    ------
    InvalidOption
        Two claims have the same key, or an announced function fails or returns something other than claims.
    """
    points = sorted(entry_points(group=CLAIMS), key=lambda point: point.name)
    claims = [claim for point in points for claim in _announced_by(point)]
    order = list(PAPERS)
    claims.sort(key=lambda claim: order.index(claim.paper) if claim.paper in order else len(order))
    found: dict[str, Claim] = {}
    for claim in claims:
        if claim.key in found:
            raise InvalidOption(f"two claims are called {claim.key!r}; keys must be unique")
        found[claim.key] = claim
    return found


def _announced_by(point: EntryPoint) -> list[Claim]:
    try:
        claims = list(point.load()())
    except Exception as problem:  # the code of another package may fail in any way
        raise InvalidOption(f"no claims from {point.value!r}: {raised(problem)}") from problem
    for one in claims:
        if not isinstance(one, Claim):
            raise InvalidOption(
                f"{point.value!r} returns {shown(one)}; an entry point of {CLAIMS} must return only claims"
            )
    return claims


def select_claims(keys: Iterable[str] = (), paper: str = "") -> list[Claim]:
    """The claims with these keys, or of a paper, or all.

    A key may contain the shell wildcards ``*`` and ``?``.

    Raises
    ------
    UnknownName
        There is no such claim, or none of that paper.
    """
    every = all_claims()
    wanted: dict[str, Claim] = {}
    for key in keys:
        found = fnmatch.filter(every, key)
        if not found:
            near = " or ".join(map(repr, get_close_matches(key, every)))
            hint = f"did you mean {near}? " if near else ""
            raise UnknownName(f"there is no claim {key!r}; {hint}hetopt verify --list shows all {len(every)}")
        wanted |= {name: every[name] for name in found}
    selected = list(wanted.values()) if wanted else list(every.values())
    if paper:
        papers = {_letters(claim.paper): claim.paper for claim in every.values()}
        name = lookup(papers, _letters(paper), "paper")
        selected = [claim for claim in selected if claim.paper == name]
        if not selected:
            raise UnknownName(f"none of these claims is of the paper {name!r}: {', '.join(wanted)}")
    return selected


def _letters(name: str) -> str:
    """Letters and digits in lower case: A-SRPT is also asrpt."""
    return "".join(filter(str.isalnum, name.lower()))
