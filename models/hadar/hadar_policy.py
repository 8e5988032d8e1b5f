"""Hadar round by round: which jobs run on which GPUs until the next round [Hadar, Algorithm 1]."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect, lookup, one_of, shown
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.hadar.appraisal import RoundSettings, open_market, placed_gpus
from hetopt.models.hadar.job_selection import SELECTIONS, BySize, Greedy, JobSelection, PrintedRecursion, take_all
from hetopt.models.hadar.round_market import Bid, GangOffer, GPUMarket, ServerGPUs, find_offer
from hetopt.models.hadar.utilities import EffectiveThroughput, NegativeJCT, Utility, as_utility
from hetopt.results.allocation import Placement, Plan
from hetopt.simulation.overheads import Overheads

Order = Literal["payoff", "arrival"]

RESTART = Overheads(restart_seconds=10.0, resume_seconds=10.0, start_seconds=10.0, transfer=False)
"""10 s for every new allocation, as in the paper's simulations [Hadar, section IV]; pass it to ``simulate``."""


@dataclass(frozen=True)
class HadarState:
    """State of Hadar between rounds.

    Attributes
    ----------
    cluster:
        Cluster of the last round.
    gpus:
        Job -> triples (server, GPU type, GPUs) as positions; empty for waiting jobs.
    redecided:
        Number of rounds in which all jobs were decided again.
    kept:
        Number of rounds in which running jobs stayed and only new jobs were considered.
    """

    cluster: Cluster
    gpus: Mapping[str, ServerGPUs] = field(default_factory=dict)
    redecided: int = 0
    kept: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", FrozenDict(self.gpus))


@dataclass(frozen=True)
class Hadar:
    """Each round, choose jobs and their GPUs of one or several types with the largest total payoff, utility minus cost.

    Prices start low in every round and grow with the allocated GPUs
    (:func:`~hetopt.models.hadar.appraisal.price_bounds`). A job's utility is that of its completion if it keeps its
    GPUs from now on. Running jobs may be moved or paused if that pays in spite of the restart. All jobs are decided
    again when a job has finished or the servers have changed; otherwise running jobs stay and only new jobs are
    considered [Hadar, section IV-B].

    Parameters
    ----------
    round_seconds:
        Length of a round.
    utility:
        Utility of jobs that name none: a utility or its name. By default the negative completion time: effective
        throughput, the paper's example, is least for short jobs that have waited, so they would keep waiting.
    restart_seconds:
        Time in seconds that a job loses if its GPUs change.
    communication:
        Cost of gangs that span servers, see :class:`~hetopt.models.hadar.appraisal.RoundSettings`.
    selection:
        Search over the jobs: a :class:`~hetopt.models.hadar.job_selection.JobSelection` or its name, ``"by-size"``,
        ``"exact"``, ``"beam"`` or ``"greedy"``.
    order:
        Order in which the search considers the jobs: ``"payoff"``, the largest payoff per GPU on empty servers first,
        or ``"arrival"`` (printed).
    pays:
        A job pays for its GPUs until it completes (``"whole"``), or for one round (``"round"``, printed).
    fill:
        Allocate remaining GPUs to waiting jobs even if their payoff is not positive. High prices reserve GPUs for jobs
        with a larger payoff; but all present jobs have been considered, and the next round decides again.
    keep:
        Running jobs stay as long as no job has finished.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    round_seconds: float = GAVEL_ROUND_SECONDS
    utility: Utility | str = field(default_factory=NegativeJCT)
    restart_seconds: float = 10.0
    communication: float = 0.01
    selection: JobSelection | str = field(default_factory=BySize)
    order: Order = "payoff"
    pays: Literal["whole", "round"] = "whole"
    fill: bool = True
    keep: bool = True

    def __post_init__(self) -> None:
        check_round_seconds(self)
        for key in ("restart_seconds", "communication"):
            at_least(getattr(self, key), f"Hadar.{key}", 0.0, InvalidOption)
        as_utility(self.utility, "Hadar.utility")
        one_of(self.order, get_args(Order), "Hadar.order")
        one_of(self.pays, ("whole", "round"), "Hadar.pays")
        if isinstance(self.selection, str):
            object.__setattr__(self, "selection", lookup(SELECTIONS, self.selection, "selection"))
        if isinstance(self.selection, type) or not callable(self.selection):
            raise InvalidOption(f"is {shown(self.selection)}; give a selection such as Greedy()", "Hadar.selection")

    @property
    def traits(self) -> Traits:
        """It decides in rounds, chooses servers and mixes GPU types."""
        idles = "" if self.fill else "no job runs without a positive payoff"
        return Traits(self.round_seconds, places=True, mixes=True, idles=idles)

    def __call__(self, instance: Instance, state: HadarState | None = None) -> tuple[Plan, HadarState]:
        """The plan of the round that begins now with its placement, and the next state.

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
        now = placed_gpus(instance)
        settled = self._settled(instance, before, now)
        if settled is not None and len(settled) == len(jobs.names):
            placed = {name: own for name, own in now.items() if own}
        else:
            placed = self._decided(instance, jobs, now, settled)
        counts = (state.redecided, state.kept) if state is not None else (0, 0)
        redecided, kept = (counts[0] + 1, counts[1]) if settled is None else (counts[0], counts[1] + 1)
        everyone = {name: placed.get(name, ()) for name in jobs.names}
        return placed_plan(instance, jobs, placed), HadarState(instance.cluster, everyone, redecided, kept)

    def _settled(
        self, instance: Instance, before: HadarState | None, now: Mapping[str, ServerGPUs]
    ) -> Collection[str] | None:
        """The jobs that were decided before and stay as they are; None if all must be decided again."""
        if not self.keep or before is None or not before.gpus.keys() <= instance.job.keys():
            return None
        as_planned = all(now.get(name, ()) == own for name, own in before.gpus.items())
        return before.gpus.keys() if as_planned else None

    def _decided(
        self, instance: Instance, jobs: Entities, now: Mapping[str, ServerGPUs], settled: Collection[str] | None
    ) -> dict[str, ServerGPUs]:
        """Job -> its GPUs, for jobs that run."""
        settings = RoundSettings(
            self.round_seconds,
            self.restart_seconds,
            self.communication,
            self.pays == "whole",
            as_utility(self.utility, "Hadar.utility"),
        )
        market, appraised = open_market(instance, jobs, settings, now)
        placed = {name: now[name] for name in settled or () if now.get(name)}
        for own in placed.values():
            market.take(own)
        new = [a.bid for a in appraised if settled is None or jobs.names[a.bid.job] not in settled]
        bids = ordered_bids(new, market, instance, self.order)
        assert not isinstance(self.selection, str)
        selected = self.selection(market, bids)
        offers = dict(selected.offers)
        if self.fill:
            offers |= take_all(selected.market, [bid for bid in bids if bid.job not in offers], -np.inf).offers
        return placed | {jobs.names[j]: offer.gpus for j, offer in offers.items()}


def ordered_bids(bids: list[Bid], market: GPUMarket, instance: Instance, order: Order) -> list[Bid]:
    """The bids in the order in which a selection considers them; in ties the earlier job of the instance first."""
    if order == "arrival":
        return sorted(bids, key=lambda bid: (instance.jobs[bid.job].arrival, bid.job))
    first: dict[int, GangOffer | None] = {bid.job: find_offer(market, bid) for bid in bids}

    def rank(bid: Bid) -> tuple[float, int]:
        offer = first[bid.job]
        return (np.inf if offer is None else -offer.payoff / bid.gpus, bid.job)

    return sorted(bids, key=rank)


def placed_plan(
    instance: Instance,
    jobs: Entities,
    placed: Mapping[str, ServerGPUs],
    dispatch: Mapping[str, Mapping[str, float]] | None = None,
) -> Plan:
    """The plan with its placement.

    Parameters
    ----------
    placed:
        Job -> its GPUs; waiting jobs are absent.
    dispatch:
        Forked job -> server -> work of its copy there, in the unit of ``Job.work``.
    """
    forked = dispatch or {}
    x = np.zeros(jobs.shape)
    hosts: dict[str, dict[str, dict[str, int]]] = {}
    for name, own in placed.items():
        for h, k, n in own:
            x[jobs.position[name], k] += n
            hosts.setdefault(name, {}).setdefault(instance.cluster.servers[h].name, {})[jobs.types[k]] = n
    spread = sum(len(own) > 1 for name, own in hosts.items() if name not in forked)
    waiting = float(sum(job.demand for job in instance.jobs if job.name not in hosts))
    placement = Placement(hosts, given_up={"spread": spread}, dispatch=forked)
    return Plan(jobs, x, given_up={"waiting_gpus": waiting}, placement=placement)


def printed(round_seconds: float = GAVEL_ROUND_SECONDS, *, by_the_letter: bool = False) -> Hadar:
    """Hadar as printed, as far as that can run: raw throughput, order of arrival, cost of one round, no filling.

    Parameters
    ----------
    round_seconds:
        Length of a round.
    by_the_letter:
        Compare only costs, as lines 16 to 21 of [Hadar, Algorithm 2] do; then no job ever runs.
    """
    return Hadar(
        round_seconds,
        utility=EffectiveThroughput(),
        selection=PrintedRecursion() if by_the_letter else Greedy(),
        order="arrival",
        pays="round",
        fill=False,
    )
