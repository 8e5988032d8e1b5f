"""Hadar, round by round: who runs on which GPUs until the next round [Hadar, Algorithm 1]."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from hetopt.checks import FrozenDict, at_least, choices, expect, lookup, shown
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidOption
from hetopt.models.hadar.appraisal import RoundSettings, opened, seats_now
from hetopt.models.hadar.job_selection import SELECTIONS, BySize, Greedy, JobSelection, PrintedRecursion, take_all
from hetopt.models.hadar.round_market import Bid, GangOffer, GPUMarket, ServerGPUs, find_offer
from hetopt.models.hadar.utilities import EffectiveThroughput, NegativeJCT, Utility, as_utility
from hetopt.results.allocation import Placement, Plan
from hetopt.simulation.overheads import Overheads

Order = Literal["payoff", "arrival"]

RESTART = Overheads(restart_seconds=10.0, resume_seconds=10.0, start_seconds=10.0, transfer=False)
"""10 s for every new allocation, as in the paper's simulations [Hadar, section IV]; give it to ``simulate``."""


@dataclass(frozen=True)
class HadarState:
    """What Hadar remembers from one round to the next.

    Attributes
    ----------
    cluster:
        Whose servers they were.
    seats:
        Job -> (server, GPU type, GPUs) as positions; jobs that waited have none.
    redecided:
        Rounds in which all jobs were decided anew.
    kept:
        Rounds in which those who ran stayed, and only new jobs were looked at.
    """

    cluster: Cluster
    seats: Mapping[str, ServerGPUs] = field(default_factory=dict)
    redecided: int = 0
    kept: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", FrozenDict(self.seats))


@dataclass(frozen=True)
class Hadar:
    """Each round the jobs, and their GPUs of one or several types, whose utility exceeds most what these GPUs cost.

    Prices begin low in every round and grow with the GPUs given away
    (:func:`~hetopt.models.hadar.appraisal.price_bounds`). A job's utility is that of being done if it keeps its GPUs
    from now on. Jobs that run may be moved, or paused, where that pays in spite of the restart; all is decided anew
    once a job has finished or the servers have changed, else jobs that run stay and only new ones are looked at [Hadar,
    section IV-B].

    Parameters
    ----------
    round_seconds:
        Length of a round.
    utility:
        Of jobs that name none: a utility or the name of one. By default the negative completion time: effective
        throughput, the paper's example, is worth least for short jobs that have waited, and so lets them wait on.
    restart_seconds:
        What a job loses on other GPUs.
    communication:
        What spreading costs, see :class:`~hetopt.models.hadar.appraisal.RoundSettings`.
    selection:
        How the jobs are searched: a selection or the name of one, ``"by-size"``, ``"exact"``, ``"beam"`` or
        ``"greedy"``.
    order:
        In which they are looked at: those that would pay most per GPU on empty servers first, or as they arrived
        (printed).
    pays:
        A job pays for its GPUs until it is done (``"whole"``), or for one round (``"round"``, printed).
    fill:
        GPUs that are left go to jobs that still wait, though they do not pay. A price too high keeps GPUs for jobs that
        pay more; but all such jobs have been asked, and the next round decides anew.
    keep:
        Jobs that run stay while none has finished.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    round_seconds: float = 360.0
    utility: Utility | str = field(default_factory=NegativeJCT)
    restart_seconds: float = 10.0
    communication: float = 0.01
    selection: JobSelection | str = field(default_factory=BySize)
    order: Order = "payoff"
    pays: Literal["whole", "round"] = "whole"
    fill: bool = True
    keep: bool = True

    def __post_init__(self) -> None:
        at_least(self.round_seconds, "Hadar.round_seconds", 0.0, InvalidOption, strict=True)
        for key in ("restart_seconds", "communication"):
            at_least(getattr(self, key), f"Hadar.{key}", 0.0, InvalidOption)
        as_utility(self.utility, "Hadar.utility")
        for key, known in (("order", get_args(Order)), ("pays", ("whole", "round"))):
            if (value := getattr(self, key)) not in known:
                raise InvalidOption(f"Hadar.{key} is {shown(value)}; {choices(str(value), known)}")
        if isinstance(self.selection, str):
            object.__setattr__(self, "selection", lookup(SELECTIONS, self.selection, "selection"))
        if isinstance(self.selection, type) or not callable(self.selection):
            raise InvalidOption(f"Hadar.selection is {shown(self.selection)}; give a selection such as Greedy()")

    @property
    def mixes(self) -> bool:
        """Gangs may have GPUs of several types."""
        return True

    @property
    def places(self) -> bool:
        """It chooses servers itself."""
        return True

    def __call__(self, instance: Instance, state: HadarState | None = None) -> tuple[Plan, HadarState]:
        """Who runs where in the round that begins now; the state remembers whom that leaves where it is.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later, or a gang that does not fit on the GPUs that can run it.
        UnknownName, InvalidOption
            A utility that does not exist, or increases with the completion time.
        """
        jobs = present_entities(instance, "jobs", type(self).__name__, mixed=True)
        if state is not None:
            expect(HadarState, state, "state", InvalidOption)
        before = state if state is not None and state.cluster == instance.cluster else None
        now = seats_now(instance)
        settled = self._settled(instance, before, now)
        if settled is not None and len(settled) == len(jobs.names):
            seats = {name: own for name, own in now.items() if own}
        else:
            seats = self._decided(instance, jobs, now, settled)
        counts = (state.redecided, state.kept) if state is not None else (0, 0)
        redecided, kept = (counts[0] + 1, counts[1]) if settled is None else (counts[0], counts[1] + 1)
        everyone = {name: seats.get(name, ()) for name in jobs.names}
        return plan_of(instance, jobs, seats), HadarState(instance.cluster, everyone, redecided, kept)

    def _settled(
        self, instance: Instance, before: HadarState | None, now: Mapping[str, ServerGPUs]
    ) -> Collection[str] | None:
        """The jobs that were looked at before and stay as they are; None where all must be decided anew."""
        if not self.keep or before is None or not before.seats.keys() <= instance.job.keys():
            return None
        as_planned = all(now.get(name, ()) == own for name, own in before.seats.items())
        return before.seats.keys() if as_planned else None

    def _decided(
        self, instance: Instance, jobs: Entities, now: Mapping[str, ServerGPUs], settled: Collection[str] | None
    ) -> dict[str, ServerGPUs]:
        """Job -> seats of those that run."""
        terms = RoundSettings(
            self.round_seconds,
            self.restart_seconds,
            self.communication,
            self.pays == "whole",
            as_utility(self.utility, "Hadar.utility"),
        )
        market, appraised = opened(instance, jobs, terms, now)
        seats = {name: now[name] for name in settled or () if now.get(name)}
        for own in seats.values():
            market.take(own)
        new = [a.bid for a in appraised if settled is None or jobs.names[a.bid.job] not in settled]
        bids = in_order(new, market, instance, self.order)
        assert not isinstance(self.selection, str)
        selected = self.selection(market, bids)
        offers = dict(selected.offers)
        if self.fill:
            offers |= take_all(selected.market, [bid for bid in bids if bid.job not in offers], -np.inf).offers
        return seats | {jobs.names[j]: offer.seats for j, offer in offers.items()}


def in_order(bids: list[Bid], market: GPUMarket, instance: Instance, order: Order) -> list[Bid]:
    """The bids in the order in which a selection looks at them; ties go to the job named first."""
    if order == "arrival":
        return sorted(bids, key=lambda bid: (instance.jobs[bid.job].arrival, bid.job))
    first: dict[int, GangOffer | None] = {bid.job: find_offer(market, bid) for bid in bids}

    def rank(bid: Bid) -> tuple[float, int]:
        offer = first[bid.job]
        return (np.inf if offer is None else -offer.payoff / bid.gpus, bid.job)

    return sorted(bids, key=rank)


def plan_of(
    instance: Instance,
    jobs: Entities,
    seats: Mapping[str, ServerGPUs],
    dispatch: Mapping[str, Mapping[str, float]] | None = None,
) -> Plan:
    """The plan with its placement.

    Parameters
    ----------
    seats:
        Job -> its GPUs; jobs that wait are absent.
    dispatch:
        Forked job -> server -> work of its copy there, in the unit of ``Job.work``.
    """
    forked = dispatch or {}
    x = np.zeros(jobs.shape)
    hosts: dict[str, dict[str, dict[str, int]]] = {}
    for name, own in seats.items():
        for h, k, n in own:
            x[jobs.position[name], k] += n
            hosts.setdefault(name, {}).setdefault(instance.cluster.servers[h].name, {})[jobs.types[k]] = n
    spread = sum(len(own) > 1 for name, own in hosts.items() if name not in forked)
    waiting = float(sum(job.demand for job in instance.jobs if job.name not in hosts))
    placement = Placement(hosts, given_up={"spread": spread}, dispatch=forked)
    return Plan(jobs, x, given_up={"waiting": waiting}, placement=placement)


def printed(round_seconds: float = 360.0, *, by_the_letter: bool = False) -> Hadar:
    """Hadar as printed where that can run: raw throughput, jobs as they arrived, cost of one round, no filling.

    Parameters
    ----------
    round_seconds:
        Length of a round.
    by_the_letter:
        Compare costs alone, as lines 16 to 21 of [Hadar, Algorithm 2] do: then no job ever runs.
    """
    return Hadar(
        round_seconds,
        utility=EffectiveThroughput(),
        selection=PrintedRecursion() if by_the_letter else Greedy(),
        order="arrival",
        pays="round",
        fill=False,
    )
