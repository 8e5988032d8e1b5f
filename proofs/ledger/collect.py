"""All claims that installed packages announce."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from hetopt.checks import lookup
from hetopt.errors import InvalidOption, UnknownName
from hetopt.proofs.ledger.claim import PAPERS, Claim

GROUP = "hetopt.claims"
"""Entry points: functions without arguments that return claims."""


@cache
def ledger() -> dict[str, Claim]:
    """Key -> claim, paper by paper.

    Raises
    ------
    InvalidOption
        Two claims have the same key.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    made = [claim for point in points for claim in point.load()()]
    order = list(PAPERS)
    made.sort(key=lambda claim: order.index(claim.paper) if claim.paper in order else len(order))
    found: dict[str, Claim] = {}
    for claim in made:
        if claim.key in found:
            raise InvalidOption(f"two claims are called {claim.key!r}; every claim needs a key of its own")
        found[claim.key] = claim
    return found


def chosen(keys: Iterable[str] = (), paper: str = "") -> list[Claim]:
    """The claims of these keys, or of a paper, or all.

    A key may end in ``*``.

    Raises
    ------
    UnknownName
        There is no such claim, or none of that paper.
    """
    every = ledger()
    wanted: dict[str, Claim] = {}
    for key in keys:
        if key.endswith("*") and any(name.startswith(key[:-1]) for name in every):
            wanted |= {name: claim for name, claim in every.items() if name.startswith(key[:-1])}
        else:
            wanted[key] = lookup(every, key, "claim")
    found = list(wanted.values()) if wanted else list(every.values())
    if paper:
        papers = {claim.paper.lower(): claim.paper for claim in every.values()}
        name = lookup(papers, paper.lower(), "paper")
        found = [claim for claim in found if claim.paper == name]
        if not found:
            raise UnknownName(f"none of these claims is of the paper {name!r}: {', '.join(wanted)}")
    return found
