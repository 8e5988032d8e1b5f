"""Which jobs run in a round: searches over take or skip, job after job [Hadar, Algorithm 2].

All maximise the sum of payoffs, utility less cost at the price before the job is taken. A job that can pay nowhere is
skipped, and the next is looked at. (As printed the recursion compares costs alone and ends at the first such job.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hetopt.checks import whole
from hetopt.errors import InvalidOption
from hetopt.models.hadar.round_market import Bid, GangOffer, GPUMarket, find_offer


@dataclass(frozen=True, eq=False)
class Selected:
    """Who runs where.

    Attributes
    ----------
    offers:
        Position of the job -> its GPUs, in the order in which they were taken.
    market:
        The market after that.
    payoff:
        Sum of the payoffs.
    """

    offers: dict[int, GangOffer]
    market: GPUMarket
    payoff: float


class JobSelection(Protocol):
    """Chooses among bids."""

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where; ``market`` stays as it is."""
        ...


@dataclass(frozen=True)
class Greedy:
    """Takes every job that pays, one after another."""

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where."""
        return take_all(market.copy(), bids, 0.0)


def take_all(market: GPUMarket, bids: Sequence[Bid], least: float) -> Selected:
    """Every job in turn whose best payoff is more than ``least``; ``market`` is changed."""
    offers: dict[int, GangOffer] = {}
    total = 0.0
    for bid in bids:
        offer = find_offer(market, bid)
        if offer is not None and offer.payoff > least:
            market.take(offer.seats)
            offers[bid.job] = offer
            total += offer.payoff
    return Selected(offers, market, total)


@dataclass(frozen=True)
class Exact:
    """The best choice of take or skip, by recursion that remembers (job, GPUs in use).

    The GPUs in use are part of what has to be remembered, so up to 2^(n+1) - 1 states are looked at, not a number
    polynomial in the jobs as [Hadar, Theorem 1] says.

    Parameters
    ----------
    most:
        Jobs at which to refuse.

    Raises
    ------
    InvalidOption
        ``most`` is below 1; when called: more jobs.
    """

    most: int = 14

    def __post_init__(self) -> None:
        whole(self.most, "Exact.most", 1)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where."""
        if len(bids) > self.most:
            raise InvalidOption(
                f"Exact looks at up to 2^{len(bids)} choices of {len(bids)} jobs; set most={len(bids)} if you mean it, "
                "or take Beam or Greedy"
            )
        return _Recursion(bids).best(0, market)


@dataclass
class _Recursion:
    """A recursion with a memory."""

    bids: Sequence[Bid]
    known: dict[tuple[int, bytes], Selected] = field(default_factory=dict)

    def best(self, i: int, market: GPUMarket) -> Selected:
        """The best choice among the bids from the i-th on."""
        if i == len(self.bids):
            return Selected({}, market, 0.0)
        key = (i, market.state)
        if key not in self.known:
            self.known[key] = self._decide(i, market)
        return self.known[key]

    def _decide(self, i: int, market: GPUMarket) -> Selected:
        skipped = self.best(i + 1, market)
        offer = find_offer(market, self.bids[i])
        if offer is None or offer.payoff <= 0:
            return skipped
        after = market.copy()
        after.take(offer.seats)
        rest = self.best(i + 1, after)
        if offer.payoff + rest.payoff < skipped.payoff:
            return skipped
        return Selected({self.bids[i].job: offer} | rest.offers, rest.market, offer.payoff + rest.payoff)


@dataclass(frozen=True)
class Beam:
    """Keeps the ``width`` best sets of decisions after each job; never worse than :class:`Greedy` in the same order.

    Parameters
    ----------
    width:
        Sets kept, besides that of the greedy.

    Raises
    ------
    InvalidOption
        ``width`` is below 1.
    """

    width: int = 16

    def __post_init__(self) -> None:
        whole(self.width, "Beam.width", 1)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where."""
        greedy = Selected({}, market, 0.0)
        kept = [greedy]
        for bid in bids:
            longer: dict[bytes, Selected] = {}
            for part in kept:
                taken = _with(part, bid)
                for other in (part, taken):
                    if other is not None:
                        known = longer.setdefault(other.market.state, other)
                        if other.payoff > known.payoff:
                            longer[other.market.state] = other
                if part is greedy:
                    followed = (taken or part).market.state
            greedy = longer[followed]
            kept = sorted(longer.values(), key=lambda part: -part.payoff)[: int(self.width)]
            if greedy not in kept:
                kept.append(greedy)
        return max(kept, key=lambda part: part.payoff)


def _with(part: Selected, bid: Bid) -> Selected | None:
    """``part`` and this job as well; None where it does not pay."""
    offer = find_offer(part.market, bid)
    if offer is None or offer.payoff <= 0:
        return None
    market = part.market.copy()
    market.take(offer.seats)
    return Selected({**part.offers, bid.job: offer}, market, part.payoff + offer.payoff)


@dataclass(frozen=True)
class BySize:
    """Exact for few jobs, a beam for more, greedy for many.

    Parameters
    ----------
    exact, beam:
        Most jobs for :class:`Exact` and for :class:`Beam`.
    width:
        Of the beam.

    Raises
    ------
    InvalidOption
        A number below 0, no width.
    """

    exact: int = 8
    beam: int = 48
    width: int = 8

    def __post_init__(self) -> None:
        for key in ("exact", "beam"):
            whole(getattr(self, key), f"BySize.{key}", 0)
        Beam(self.width)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where."""
        if len(bids) <= self.exact:
            return Exact(most=max(1, self.exact))(market, bids)
        return (Beam(self.width) if len(bids) <= self.beam else Greedy())(market, bids)


@dataclass(frozen=True)
class PrintedRecursion:
    """Algorithm 2 by the letter: of taking and skipping a job it returns what costs less, so it never takes one.

    Skipping costs nothing, and costs are never negative. Here to show that; payoffs have to be compared instead.
    """

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """Who runs where: nobody."""
        return self._from(0, Selected({}, market, 0.0), bids)[0]

    def _from(self, i: int, taken: Selected, bids: Sequence[Bid]) -> tuple[Selected, float]:
        """What line 19 or 21 returns, and its cost at the prices after it (lines 16 and 17)."""
        longer = _with(taken, bids[i]) if i < len(bids) else None
        if longer is None:  # no job is left, or this one pays nowhere: lines 2 and 8
            return taken, sum(taken.market.cost(offer.seats) for offer in taken.offers.values())
        return min(self._from(i + 1, taken, bids), self._from(i + 1, longer, bids), key=lambda found: found[1])


SELECTIONS: Mapping[str, JobSelection] = {"by-size": BySize(), "exact": Exact(), "beam": Beam(), "greedy": Greedy()}
"""Searches by name, with their usual settings."""
