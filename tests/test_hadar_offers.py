"""FIND_ALLOC: the GPUs that pay most for one job, against every way to seat it and against the integer program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hadar_oracles import plain_offers, plain_selection
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidOption, Job, NotSolved, Server
from hetopt.models import hadar
from hetopt.models.hadar.appraisal import RoundSettings, appraise, open_market, serial_seconds
from hetopt.models.hadar.job_selection import _Recursion, take_all
from hetopt.models.hadar.round_market import Bid, GPUMarket, SpreadBids, find_offer, offer_model
from hetopt.proofs.strategies import mixed_instances
from hetopt.tolerances import EQUAL, PROVEN, scale

Round = tuple[GPUMarket, list[Bid]]


@st.composite
def rounds(draw: st.DrawFn, *, jobs: tuple[int, int] = (1, 1), most_demand: int = 4, servers: int = 3) -> Round:
    """A market, some of whose GPUs are in use, and the bids of jobs, some of which run on free GPUs now."""
    instance = draw(mixed_instances(jobs=jobs, servers=(1, servers), most_demand=most_demand, latest=0, memory=True))
    entities = instance.entities("jobs")
    talk, whole = draw(st.sampled_from([0.0, 0.01, 0.3])), draw(st.booleans())
    settings = RoundSettings(2.0, draw(st.sampled_from([0.0, 1.0])), talk, whole, hadar.EffectiveThroughput())
    horizon = serial_seconds(instance, entities)
    market, _ = open_market(instance, entities, settings, {})
    busy = [(h, k, draw(st.integers(0, n))) for h, row in enumerate(market.free) for k, n in enumerate(row) if n]
    market.take(tuple(seat for seat in busy if seat[2]))
    now = {}
    for j, job in enumerate(instance.jobs):
        ways = plain_offers(market, appraise(instance, entities, settings, {}, horizon)[j].bid)
        if ways and draw(st.booleans()):
            now[job.name] = draw(st.sampled_from([seats for *_, seats in ways]))
    return market, [a.bid for a in appraise(instance, entities, settings, now, horizon)]


@given(rounds())
@settings(max_examples=300, deadline=None)
def test_no_seats_pay_more(case: Round) -> None:
    market, (bid,) = case
    offer, every = find_offer(market, bid), plain_offers(market, bid)
    assert (offer is None) == (not every)
    if offer is not None:
        best = max(payoff for payoff, *_ in every)
        payoffs = {seats: payoff for payoff, *_, seats in every}
        assert offer.payoff == pytest.approx(best, abs=EQUAL * scale([p for p, *_ in every]))
        assert offer.payoff == pytest.approx(payoffs[offer.gpus], abs=PROVEN * scale(payoffs[offer.gpus]))
        if bid.now in payoffs and payoffs[bid.now] > best:
            assert offer.gpus == bid.now


@given(rounds())
@settings(max_examples=60, deadline=None)
def test_the_integer_program_agrees(case: Round) -> None:
    """[Hadar, eq. 8] as a Pyomo model; staying is not in it."""
    market, (bid,) = case
    moved = replace(bid, now=())
    offer = find_offer(market, moved)
    program = hetopt.from_pyomo(offer_model(market, moved))
    if offer is None:
        with pytest.raises(NotSolved, match="infeasible"):
            hetopt.optimise(program)
    else:
        point = hetopt.optimise(program)
        assert offer.payoff == pytest.approx(point.objective, abs=EQUAL * scale(moved.levels[0].value, offer.payoff))


@given(rounds(jobs=(1, 6), most_demand=2, servers=2))
@settings(max_examples=60, deadline=None)
def test_searches_and_their_order(case: Round) -> None:
    """Exact is the best of all take-or-skip decisions; greedy <= beam <= exact; a beam that keeps all is exact."""
    market, bids = case
    before = market.state
    exact = hadar.Exact()(market, bids)
    slack = EQUAL * scale(exact.payoff)
    assert exact.payoff == pytest.approx(plain_selection(market, bids), abs=slack)
    greedy, beam = hadar.Greedy()(market, bids), hadar.Beam(2)(market, bids)
    assert greedy.payoff <= beam.payoff + slack
    assert beam.payoff <= exact.payoff + slack
    assert hadar.Beam(2**7)(market, bids).payoff == pytest.approx(exact.payoff, abs=slack)
    assert hadar.BySize()(market, bids).payoff == exact.payoff
    assert market.state == before
    for found in (exact, greedy, beam):
        again, total = market.copy(), 0.0
        for job, offer in found.offers.items():
            own = find_offer(again, next(bid for bid in bids if bid.job == job))
            assert own is not None
            assert own.payoff == pytest.approx(offer.payoff, abs=slack)
            total += offer.payoff
            again.take(offer.gpus)
        assert total == pytest.approx(found.payoff, abs=slack)
        assert again.state == found.market.state


def test_the_states_of_the_exact_search_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^(n+1) - 1 of them, where all sums of demands differ: no number polynomial in n [Hadar, Theorem 1]."""
    seen: set[tuple[int, bytes]] = set()
    best = _Recursion.best

    def counted(self: _Recursion, i: int, market: GPUMarket) -> Any:
        seen.add((i, market.state))
        return best(self, i, market)

    monkeypatch.setattr(_Recursion, "best", counted)
    for n in range(1, 7):
        seen.clear()
        jobs = tuple(Job(f"j{i}", {"A": 1.0}, 1, demand=2**i, utility="finished") for i in range(n))
        instance = Instance(Cluster.of({"A": 2**n * 50}), jobs=jobs)
        market, appraised = open_market(instance, instance.entities("jobs"), RoundSettings(), {})
        assert len(hadar.Exact()(market, [a.bid for a in appraised]).offers) == n
        assert len(seen) == 2 ** (n + 1) - 1


@given(rounds(jobs=(1, 5), most_demand=2))
@settings(max_examples=30, deadline=None)
def test_by_the_letter_no_job_runs(case: Round) -> None:
    """Comparing costs alone, skipping always costs less [Hadar, Algorithm 2, lines 16 to 21]."""
    market, bids = case
    assert hadar.PrintedRecursion()(market, bids).offers == {}


@given(rounds(jobs=(1, 5), most_demand=2))
@settings(max_examples=60, deadline=None)
def test_costs_stay_right_as_servers_fill(case: Round) -> None:
    """A market that took seats is the market that began with them."""
    market, bids = case
    filled = take_all(market.copy(), bids, -np.inf).market
    fresh = GPUMarket(filled.prices)
    fresh.take(tuple((h, k, n) for (h, k), n in np.ndenumerate(filled.used) if n))
    assert fresh.free == filled.free
    assert fresh.price == filled.price
    for bid in bids:
        for level in bid.levels:
            assert fresh.costs(level.types) == filled.costs(level.types)
            assert fresh.on_one_server(level.types, bid.gpus) == filled.on_one_server(level.types, bid.gpus)
            assert fresh.anywhere(level.types, bid.gpus) == filled.anywhere(level.types, bid.gpus)


@given(rounds(jobs=(1, 6), most_demand=7), st.booleans())
@settings(max_examples=200, deadline=None)
def test_payoffs_of_gangs_on_several_servers_are_bounded(case: Round, expected: bool) -> None:
    """Before and after one of them took its GPUs."""
    market, bids = case
    wide = {
        bid.job: bid for bid in bids if all(market.on_one_server(own.types, bid.gpus) is None for own in bid.levels)
    }
    if expected:
        market.expect_bids(wide.values())
    spread, least = SpreadBids(wide), np.full(6, np.inf)
    for bid in wide.values():
        most, offers = spread.most(market, 6), {j: find_offer(market, own) for j, own in wide.items()}
        for j, offer in offers.items():
            slack = EQUAL * scale(wide[j].levels[0].value, 0.0 if offer is None else offer.payoff)
            assert most[j] >= (-np.inf if offer is None else offer.payoff) - slack
            assert most[j] <= least[j] + slack
        least = most
        if (taken := offers[bid.job]) is not None:
            market.take(taken.gpus)


def test_a_gang_is_spread_where_that_pays() -> None:
    """Two GPUs on each of two servers: together four; a slow third type would hold them up."""
    cluster = Cluster(
        tuple(map(hetopt.GPUType, ("K80", "V100"))),
        (Server("a", {"V100": 2, "K80": 2}), Server("b", {"V100": 2})),
    )
    job = Job("j", {"V100": 8.0, "K80": 1.0}, 80, demand=4)
    instance = Instance(cluster, jobs=(job,))
    cheap, dear = (hadar.Hadar(round_seconds=10.0, restart_seconds=0.0, communication=c) for c in (0.01, 0.9))
    assert hetopt.solve(cheap, instance).placement.hosts["j"] == {"a": {"V100": 2}, "b": {"V100": 2}}
    # talking to the other server costs 0.9 x 1 each of two servers; alone on server a it is worth 1/8
    assert hetopt.solve(dear, instance).placement.hosts["j"] == {"a": {"K80": 2, "V100": 2}}


def test_slow_cards_make_spreading_dearer() -> None:
    types = (hetopt.GPUType("A"),)
    for slow, seats in (("a", {"b": {"A": 1}, "c": {"A": 1}}), ("c", {"a": {"A": 1}, "b": {"A": 1}})):
        servers = [Server(m, {"A": 1}, nic_bytes_per_s=1e8 if m == slow else 1.25e9) for m in "abc"]
        instance = Instance(Cluster(types, tuple(servers)), jobs=(Job("j", {"A": 1.0}, 9, demand=2),))
        assert hetopt.solve(hadar.Hadar(), instance).placement.hosts["j"] == seats


def test_bad_settings_are_refused() -> None:
    with refused(InvalidOption, "Exact.most"):
        hadar.Exact(0)
    with refused(InvalidOption, "Beam.width"):
        hadar.Beam(0)
    with refused(InvalidOption, "BySize.beam"):
        hadar.BySize(beam=-1)
    with refused(InvalidOption, "Beam.width"):
        hadar.BySize(width=0)
    many = Instance.from_jobs(np.ones((3, 1)), 1, [1, 1, 1], [1])
    with pytest.raises(InvalidOption, match="selections of 3 jobs; set most=3"):
        hetopt.solve(hadar.Hadar(selection=hadar.Exact(2)), many)
