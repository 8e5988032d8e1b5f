"""The parts of local search, each against a slow reading of what it says. The whole: test_exact_mapping."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hetopt.data.array_types import Integers
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.local_search import (
    MOST_FILLS,
    MOST_PARTS,
    TIES,
    Exchanges,
    LocalSearch,
    RemovalTable,
    SecondsTable,
    _orders,
    _ways,
    fills,
    packings,
)
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.placement_costs import PlacementCosts
from hetopt.proofs.asrpt.all_placements import every_placement, random_case
from hetopt.proofs.strategies import servers_for, staged_jobs
from hetopt.solving.options import Options
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL


@st.composite
def placements(draw: st.DrawFn) -> tuple[PlacementCosts, Integers]:
    """Servers that may differ in bandwidth, and (M, S) contents."""
    pipeline = Pipeline.of(draw(staged_jobs(most_gpus=7, slices=True, tokens=True)))
    servers = draw(servers_for(pipeline.gpus + draw(st.integers(0, 3)), most=3, alike=draw(st.booleans())))
    tables = list(every_placement(pipeline, servers))
    assume(tables)
    timing = draw(st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25)]))
    return PlacementCosts(pipeline, servers, timing), np.array(draw(st.sampled_from(tables))).T.copy()


@given(placements())
def test_the_table_says_what_the_model_says(case: Any) -> None:
    costs, x = case
    lookup = SecondsTable(costs)
    found = lookup.seconds.take(x @ lookup.strides + lookup.first)
    assert found == pytest.approx(costs.seconds(x), rel=EQUAL, abs=EQUAL)


def walk_from(costs: PlacementCosts, x: Integers) -> Exchanges:
    return Exchanges(RemovalTable(SecondsTable(costs)), x)


@given(placements(), st.floats(0, 1))
def test_the_first_exchange_is_the_best_of_all(case: Any, part: float) -> None:
    costs, x = case
    aim = part * float(costs.iteration(x))
    walk = walk_from(costs, x)
    for server, stage in np.ndindex(x.shape):
        offered = list(walk.best(server, stage, aim))
        after = [walk.after(exchange) for exchange in offered]
        found = [lateness(costs, y, aim) for y in after]
        every = list(every_exchange(costs, x, server, stage))
        assert bool(offered) == bool(every)
        assert sorted(found) == pytest.approx(found, rel=EQUAL, abs=EQUAL)
        if every:
            assert found[0] == pytest.approx(min(lateness(costs, y, aim) for y in every), rel=EQUAL, abs=EQUAL)
            assert {y.tobytes() for y in after} <= {y.tobytes() for y in every}


@given(placements(), st.data())
def test_a_walk_is_where_its_exchanges_lead(case: Any, data: st.DataObject) -> None:
    """What is kept up to date is what a new walk from there would begin with."""
    costs, x = case
    walk = walk_from(costs, x)
    for _ in range(3):
        server, stage = (data.draw(st.integers(0, n - 1)) for n in x.shape)
        if not (offered := list(walk.best(server, stage, 0.0))):
            return
        exchange = data.draw(st.sampled_from(offered))
        expected = walk.after(exchange)
        walk.apply(exchange)
        again = walk_from(costs, expected)
        for key in ("x", "place", "none"):
            assert (getattr(walk, key) == getattr(again, key)).all()
        for mine, fresh in zip(walk.parts, again.parts, strict=True):
            assert all((a == b).all() for a, b in zip(mine, fresh, strict=True))
        seconds, server, stage = walk.slowest()
        assert seconds == pytest.approx(float(costs.iteration(expected)), rel=EQUAL, abs=EQUAL)
        assert costs.seconds(expected)[server, stage] == pytest.approx(seconds, rel=EQUAL, abs=EQUAL)


def lateness(costs: PlacementCosts, x: Integers, aim: float) -> float:
    seconds = costs.seconds(x)
    return float((np.maximum(seconds - aim, 0.0) + TIES * seconds).sum())


def every_exchange(costs: PlacementCosts, x: Integers, server: int, stage: int) -> Any:
    """All other contents of ``server`` and one more that both have room for, with another number near ``stage``."""
    free, slices = np.array(costs.free), costs.pipeline.slices
    for m in range(len(x)):
        both = x[server] + x[m]
        for first in product(*(range(n + 1) for n in both.tolist())):
            changed = (x[server] != first).nonzero()[0]
            if m != server and (abs(changed - stage) <= 1).any():
                y = x.copy()
                y[server], y[m] = first, both - first
                if (y @ slices <= free).all():
                    yield y


@given(placements())
def test_starts_are_placements(case: Any) -> None:
    costs, _ = case
    for x in packings(costs.pipeline, costs) + fills(costs.pipeline, costs):
        assert (x >= 0).all()
        assert x.sum(axis=0).tolist() == costs.pipeline.replicas.tolist()
        assert (x @ costs.pipeline.slices <= costs.free).all()
    assert costs.pipeline.sliced or fills(costs.pipeline, costs)


@given(placements())
def test_fills_are_first_fit(case: Any) -> None:
    costs, _ = case
    assume(len(set(costs.pipeline.slices.tolist())) == 1)
    slices = int(costs.pipeline.slices[0])
    made = []
    for order in _orders(MOST_FILLS, len(costs.free)).tolist():
        x, left = np.zeros((len(costs.free), len(costs.pipeline)), dtype=np.int64), list(costs.free)
        for s, k in enumerate(costs.pipeline.replicas.tolist()):
            for _ in range(k):
                if (m := next((m for m in order if left[m] >= slices), None)) is not None:
                    x[m, s] += 1
                    left[m] -= slices
        if x.sum() == costs.pipeline.replicas.sum():
            made.append(x)
    found = fills(costs.pipeline, costs)
    assert bool(found) == bool(made)
    if made:
        best = min(float(costs.iteration(x)) for x in made)
        assert float(costs.iteration(found[0])) == pytest.approx(best, rel=EQUAL)
        assert any((found[0] == x).all() for x in made)


@given(placements())
def test_best_of_a_stage_is_below_all_contents(case: Any) -> None:
    """Nothing on a server is faster than what the same replicas could be with the best beside them."""
    costs, x = case
    for m, seconds in enumerate(costs.seconds(x)):
        best = costs.best(*costs.equal_key(m))
        for s, c in enumerate(x[m].tolist()):
            assert not c or best[s, c] <= seconds[s] * (1 + EQUAL)
    assert costs.bound <= float(costs.iteration(x)) * (1 + EQUAL)


def test_room_for_slices_that_heavy_edge_does_not_find() -> None:
    """Replicas of 3, 2, 2 and 2 GPUs on 4 and 5: the largest goes where it leaves least, and then one is left over."""
    sliced = [
        Stage(2, 0.1, 0.1, output_bytes=1, slices=2),
        Stage(1, 0.1, 0.1, output_bytes=1, slices=2),
        Stage(1, 0.1, 0.1, slices=3),
    ]
    pipeline = Pipeline.of(Job("sliced", {"V100": 1.0}, 1, 9, stages=tuple(sliced)))
    servers = Servers.alike([4, 5], gpus=8)
    with pytest.raises(InvalidInstance, match="Heavy-Edge does not fit"):
        HeavyEdge()(pipeline, servers)
    found = LocalSearch()(pipeline, servers).iteration_seconds
    assert found == pytest.approx(MinimumAlpha(options=Options(exact=True))(pipeline, servers).iteration_seconds)
    with pytest.raises(InvalidInstance, match="does not fit"):
        LocalSearch()(pipeline, Servers.alike([3, 3, 3], gpus=8))


def test_a_time_limit_leaves_out_steps() -> None:
    """In no time no step is made; with enough of it, all are."""
    cases = [random_case(np.random.default_rng(seed), 8, 8, 12) for seed in range(5)]
    whole, none, at_once, in_time = (
        [LocalSearch(**given)(*case) for case in cases]
        for given in ({}, {"steps": 0}, {"time_limit": sys.float_info.min}, {"time_limit": 1e9})
    )
    assert [found.server.tolist() for found in at_once] == [found.server.tolist() for found in none]
    assert [found.server.tolist() for found in in_time] == [found.server.tolist() for found in whole]
    assert any(w.iteration_seconds < n.iteration_seconds for w, n in zip(whole, none, strict=True))


@pytest.mark.parametrize("value", [0, -1, float("nan"), "soon"])
def test_a_time_limit_is_a_number_above_zero(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"LocalSearch.time_limit is"):
        LocalSearch(time_limit=value)


def chain(replicas: list[int], parameters: float = 1e6) -> Pipeline:
    made = [
        Stage(k, 0.01, 0.02, output_bytes=1e6, parameter_bytes=parameters * (i + 1)) for i, k in enumerate(replicas)
    ]
    return Pipeline.of(Job("chain", {"V100": 1.0}, 1, sum(replicas), stages=tuple(made)))


def test_of_a_crowded_server_few_replicas_are_taken_at_a_time() -> None:
    pipeline = chain([1] * 12)
    servers = Servers.alike([12, 12], gpus=12)
    x = np.array([[1] * 12, [0] * 12])
    offered = list(walk_from(PlacementCosts(pipeline, servers, Asynchronous()), x).best(0, 5, 0.0))
    assert offered
    assert all(np.abs(exchange.gained).sum() == 1 for exchange in offered)
    assert MOST_PARTS < 2**12


def test_of_a_hundred_stages_on_a_server_single_replicas_are_taken() -> None:
    """All pairs would be 5,050 ways; they are not even made."""
    ways, some = _ways((4,) * 100)
    assert ways.tolist() == [[0] * 100, *np.eye(100, dtype=int).tolist()]
    assert (some == ways).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_ways_are_those_with_fewest_replicas(contents: list[int]) -> None:
    every = sorted(product(*(range(n + 1) for n in contents)), key=sum)
    ways, _ = _ways(tuple(contents))
    found = sorted(map(tuple, ways.tolist()), key=sum)
    assert len(set(found)) == len(found)
    if len(every) <= MOST_PARTS:
        assert sorted(found) == sorted(every)
    else:
        most = max(map(sum, found))
        assert sorted(found) == sorted(way for way in every if sum(way) <= most)
        assert most == 1 or len(found) <= MOST_PARTS
        assert sum(sum(way) <= most + 1 for way in every) > MOST_PARTS


def test_more_stages_than_bits() -> None:
    pipeline = chain([1] * 70)
    servers = Servers.alike([8] * 10, gpus=8)
    assert (
        LocalSearch(steps=5)(pipeline, servers).iteration_seconds
        <= LocalSearch(steps=0)(pipeline, servers).iteration_seconds
    )


def test_jobs_too_large_for_a_table_are_still_placed() -> None:
    pipeline = chain([200, 200, 200])
    servers = Servers.alike([300, 300, 300], gpus=300)
    assert not SecondsTable.fits(PlacementCosts(pipeline, servers, Asynchronous()))
    assert LocalSearch()(pipeline, servers).replicas.sum() == 600
