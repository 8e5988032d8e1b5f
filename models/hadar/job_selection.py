"""Selection of the jobs of a round: searches over taking or skipping one job after another [Hadar, Algorithm 2].

All maximise the sum of payoffs, utility minus cost at the price before the job is taken. A job without a positive
payoff is skipped. (As printed the recursion compares only costs and ends at the first such job.)
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
    """The selected jobs with their GPUs.

    Attributes
    ----------
    offers:
        Position of the job -> its GPUs, in the order in which they were taken.
    market:
        The market after these jobs.
    payoff:
        Sum of the payoffs.
    """

    offers: dict[int, GangOffer]
    market: GPUMarket
    payoff: float


class JobSelection(Protocol):
    """A rule that selects jobs by their bids."""

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """The selected jobs with their GPUs; ``market`` is not changed."""
        ...


@dataclass(frozen=True)
class Greedy:
    """Take every job with a positive payoff, one after another."""

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """The selected jobs with their GPUs."""
        return take_all(market.copy(), bids, 0.0)


def take_all(market: GPUMarket, bids: Sequence[Bid], least: float) -> Selected:
    """Take every job in turn whose largest payoff exceeds ``least``; ``market`` is changed."""
    offers: dict[int, GangOffer] = {}
    total = 0.0
    for bid in bids:
        offer = find_offer(market, bid)
        if offer is not None and offer.payoff > least:
            market.take(offer.gpus)
            offers[bid.job] = offer
            total += offer.payoff
    return Selected(offers, market, total)


@dataclass(frozen=True)
class Exact:
    """The best selection, by a recursion memoised by (job, GPUs in use).

    The GPUs in use are part of the memo key, so there are up to 2^(n+1) - 1 states, not a number polynomial in the jobs
    as [Hadar, Theorem 1] states.

    Parameters
    ----------
    most:
        Largest number of jobs.

    Raises
    ------
    InvalidOption
        ``most`` is below 1; when called: more jobs.
    """

    most: int = 14

    def __post_init__(self) -> None:
        whole(self.most, "Exact.most", 1)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """The selected jobs with their GPUs."""
        if len(bids) > self.most:
            raise InvalidOption(
                f"Exact searches up to 2^{len(bids)} selections of {len(bids)} jobs; set most={len(bids)} to allow it, "
                "or use Beam or Greedy"
            )
        return _Recursion(bids).best(0, market)


@dataclass
class _Recursion:
    """The memoised recursion."""

    bids: Sequence[Bid]
    known: dict[tuple[int, bytes], Selected] = field(default_factory=dict)

    def best(self, i: int, market: GPUMarket) -> Selected:
        """The best selection among the bids from the i-th on."""
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
        after.take(offer.gpus)
        rest = self.best(i + 1, after)
        if offer.payoff + rest.payoff < skipped.payoff:
            return skipped
        return Selected({self.bids[i].job: offer} | rest.offers, rest.market, offer.payoff + rest.payoff)


@dataclass(frozen=True)
class Beam:
    """Beam search: keep the ``width`` best sets of decisions after each job; never worse than :class:`Greedy`.

    Parameters
    ----------
    width:
        Number of sets that are kept besides the greedy one.

    Raises
    ------
    InvalidOption
        ``width`` is below 1.
    """

    width: int = 16

    def __post_init__(self) -> None:
        whole(self.width, "Beam.width", 1)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """The selected jobs with their GPUs."""
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
    """``part`` and this job; None if its payoff is not positive."""
    offer = find_offer(part.market, bid)
    if offer is None or offer.payoff <= 0:
        return None
    market = part.market.copy()
    market.take(offer.gpus)
    return Selected({**part.offers, bid.job: offer}, market, part.payoff + offer.payoff)


@dataclass(frozen=True)
class BySize:
    """Exact for few jobs, beam search for more, greedy for many.

    Parameters
    ----------
    exact, beam:
        Largest numbers of jobs for :class:`Exact` and for :class:`Beam`.
    width:
        Width of the beam.

    Raises
    ------
    InvalidOption
        A number below 0, or a width below 1.
    """

    exact: int = 8
    beam: int = 48
    width: int = 8

    def __post_init__(self) -> None:
        for key in ("exact", "beam"):
            whole(getattr(self, key), f"BySize.{key}", 0)
        Beam(self.width)

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """The selected jobs with their GPUs."""
        if len(bids) <= self.exact:
            return Exact(most=max(1, self.exact))(market, bids)
        return (Beam(self.width) if len(bids) <= self.beam else Greedy())(market, bids)


@dataclass(frozen=True)
class PrintedRecursion:
    """Algorithm 2 exactly as printed: it compares the costs of taking and skipping a job, so it never takes one.

    Skipping costs nothing, and costs are never negative. This class demonstrates that; payoffs must be compared
    instead.
    """

    def __call__(self, market: GPUMarket, bids: Sequence[Bid]) -> Selected:
        """A selection without jobs."""
        return self._from(0, Selected({}, market, 0.0), bids)[0]

    def _from(self, i: int, taken: Selected, bids: Sequence[Bid]) -> tuple[Selected, float]:
        """The result of line 19 or 21, and its cost at the prices after it (lines 16 and 17)."""
        longer = _with(taken, bids[i]) if i < len(bids) else None
        if longer is None:  # no job is left, or this one has no positive payoff: lines 2 and 8
            return taken, sum(taken.market.cost(offer.gpus) for offer in taken.offers.values())
        return min(self._from(i + 1, taken, bids), self._from(i + 1, longer, bids), key=lambda found: found[1])


SELECTIONS: Mapping[str, JobSelection] = {"by-size": BySize(), "exact": Exact(), "beam": Beam(), "greedy": Greedy()}
"""Selections by name, with their default settings."""
