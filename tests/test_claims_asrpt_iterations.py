"""A-SRPT's iterations, their bounds and the cuts of job graphs: exact ones against the library and by brute force."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import cases

from hetopt import instances
from hetopt.models import asrpt as library
from hetopt.proofs.asrpt import claims, edge_volumes, graph_cuts, hardness, iteration_bounds, iteration_equations
from hetopt.proofs.asrpt.staged_cases import equal_servers_space, exact, full_servers_space
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.stages.job_graph import AllReduce, job_graph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
FEW = settings(max_examples=30, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key in CLAIMS for name in stored_names(key)]


# -- iterations ------------------------------------------------------------------------------------------------------

PLACED = iteration_equations.placed_space((1, 4), (1, 3))


def test_entries_of_arrays_are_fractions_and_floats_are_refused() -> None:
    assert type(exact(np.int64(3)).numerator) is int
    assert exact(np.int64(3)) == exact(F(3)) == 3
    with pytest.raises(TypeError):
        exact(0.5)


def test_fig_2_by_hand() -> None:
    """Stage 2: 2 MB to stage 3 over a quarter of the card, 2 MB to stage 1 within the server."""
    instance = instances.load("asrpt/fig2")
    servers = Servers.of(instance, "GPU").exact()
    case = iteration_equations.PlacedJob(
        iteration_equations.StagedCase(instance.jobs[0], (4, 1, 1), exact(servers.nic[0]), exact(servers.intra[0])),
        np.array([[2, 0, 0], [2, 0, 0], [0, 1, 1]]),
    )
    nic, intra = F(10**10, 8 * 4), F(300 * 10**9)
    assert iteration_equations.exchange_by_pairs(case, 1, 0) == F(2 * 10**6) / nic + F(2 * 10**6) / intra
    assert iteration_equations.reduce_by_steps(case, 1, 0) == F(10**7) / intra
    assert iteration_equations.reduce_by_steps(case, 2, 1) == F(5 * 10**6) / nic


@FEW
@given(cases(PLACED))
def test_sums_over_pairs_are_the_sums_of_the_job_graph(case: iteration_equations.PlacedJob) -> None:
    """Bytes over network cards, added up over all replicas, are twice the links that are cut."""
    graph = job_graph(case.placing.pipeline)
    server = np.concatenate([np.repeat(np.arange(case.x.shape[1]), row) for row in case.x])
    links = {(a, b): w for (a, b), w in zip(graph.edges.tolist(), graph.weight.tolist(), strict=True)}
    cut = sum(w for (a, b), w in links.items() if server[a] != server[b] and graph.stage[a] != graph.stage[b])
    slow, fast = (
        sum(iteration_equations.exchange_by_pairs(other, s, m) * int(case.x[s, m]) for s, m in case.occupied)
        for other in (
            iteration_equations.PlacedJob(
                iteration_equations.StagedCase(case.placing.job, case.placing.free, F(1), F(10**6)), case.x
            ),
            iteration_equations.PlacedJob(
                iteration_equations.StagedCase(case.placing.job, case.placing.free, F(2), F(10**6)), case.x
            ),
        )
    )
    assert slow - fast == exact(cut)


@given(st.integers(2, 9), st.fractions(0, 9, max_denominator=4))
def test_rings_and_trees_send_what_they_should(k: int, h: Fraction) -> None:
    assert iteration_equations.ring_bytes(k, h) == [2 * F(k - 1, k) * h] * k
    sent, carried = edge_volumes.tree_bytes(k, h)
    assert sum(sent) == sum(carried) == 2 * (k - 1) * h
    assert max(sent) <= 2 * h


def test_a_pipeline_by_hand() -> None:
    """Stages of 1, 3 and 2 seconds: out at 6, 9 and 12."""
    job = iteration_equations.staged_job("j", (F(1),) * 3, (F(1), F(3), F(2)), (F(0),) * 3, (F(1), F(1)))
    free = (1, 1, 1)
    case = iteration_equations.PlacedJob(
        iteration_equations.StagedCase(job, free, F(10**9), F(10**9)), np.eye(3, dtype=int)
    )
    free_of_bytes = [round(float(iteration_equations.pipeline_seconds(case, n)), 6) for n in (1, 2, 3)]
    assert free_of_bytes == [6, 9, 12]


def test_the_two_copies_differ_unless_stages_have_as_many_replicas() -> None:
    for k, after in product((1, 2, 3), repeat=2):
        case = edge_volumes.two_stages(CaseNumbers.read({"replicas": [[k, after]], "outputs": [[3]]}))
        assert edge_volumes.all_links(case, edge_volumes.weight_of_the_graph(case)).slack == 0
        assert (edge_volumes.all_links(case, edge_volumes.weight_of_one_copy(case)).slack == 0) == (k == after)


def test_trees_of_the_library_have_the_weight_that_is_printed() -> None:
    case = edge_volumes.one_stage(CaseNumbers.read({"replicas": [[4]], "parameters": [[4]]}))
    weight = sum(job_graph(case.pipeline, AllReduce.TREE).weight.tolist())
    assert weight == 6 * 3
    assert edge_volumes.tree_edges_carry_less(case).slack == -1


def test_findings_of_equations_see_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    job = iteration_equations.staged_job("j", (F(1),) * 2, (F(1), F(3)), (F(0),) * 2, (F(1),))
    case = iteration_equations.PlacedJob(iteration_equations.StagedCase(job, (1, 1), F(1), F(2)), np.eye(2, dtype=int))
    assert iteration_equations.paced_by_slowest(case).slack == 0
    monkeypatch.setattr(iteration_equations, "pipeline_seconds", lambda _, n: n * F(5))
    assert iteration_equations.paced_by_slowest(case).slack == -3
    four = edge_volumes.one_stage(CaseNumbers.read({"replicas": [[4]], "parameters": [[4]]}))
    assert edge_volumes.in_the_mean(four).slack == 0
    monkeypatch.setattr(edge_volumes, "tree_bytes", lambda k, h: ([F(6)] * k, [h - 2] * 6))
    assert edge_volumes.in_the_mean(four).slack == -2


# -- bounds ----------------------------------------------------------------------------------------------------------

SMALL = equal_servers_space(most_placements=60)


@FEW
@given(cases(SMALL))
def test_the_shortest_is_what_the_exact_mapper_finds(case: iteration_equations.StagedCase) -> None:
    servers = Servers.of(case.instance, "GPU")
    found = library.MinimumAlpha()(Pipeline.of(case.job), servers)
    assert float(found.iteration_seconds) == pytest.approx(float(case.shortest), rel=PROVEN, abs=EQUAL)
    greedy = library.HeavyEdge()(Pipeline.of(case.job), servers)
    assert float(greedy.iteration_seconds) == pytest.approx(float(case.greedy), rel=PROVEN, abs=EQUAL)


@FEW
@given(cases(iteration_bounds.equal_servers_space(servers=(1, 3))))
def test_what_is_drawn_as_greedy_is_as_fast_as_it_says(case: iteration_equations.StagedCase) -> None:
    assert exact(case.seconds(case.greedy_placement)[()]) == case.greedy
    assert any((case.greedy_placement == x).all() for x in case.placements)


@FEW
@given(cases(SMALL))
def test_all_placements_are_there_once(case: iteration_equations.StagedCase) -> None:
    vertices = [s for s, k in enumerate(case.pipeline.replicas.tolist()) for _ in range(k)]
    tables = set()
    for where in product(range(len(case.free)), repeat=len(vertices)):
        table = np.zeros((len(case.pipeline), len(case.free)), dtype=int)
        np.add.at(table, (vertices, list(where)), 1)
        if (table.sum(axis=0) <= case.free).all():
            tables.add(table.tobytes())
    assert sorted(tables) == sorted(x.astype(int).tobytes() for x in case.placements)
    assert len(case.alphas) == len(tables)


@pytest.mark.parametrize("h", [3, 10, 100])
def test_filled_servers_split_a_stage(h: int) -> None:
    case = iteration_bounds.two_by_two(h)
    assert case.greedy == h + 2
    assert case.shortest == F(h, iteration_bounds.INTRA) + 2
    assert case.seconds(np.array([[2, 0], [0, 2]])) == case.shortest


@pytest.mark.parametrize(("key", "times"), [("alpha-tilde", (F(3, 2), F(3, 4)))])
def test_the_library_is_greedy_there(key: str, times: tuple[Fraction, Fraction]) -> None:
    instance = instances.load(stored_names(f"asrpt/{key}")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    found = [mapper()(pipeline, servers).iteration_seconds for mapper in (library.HeavyEdge, library.MinimumAlpha)]
    assert found == pytest.approx([float(t) for t in times])


def test_the_library_needs_three_servers_there() -> None:
    instance = instances.load(stored_names("asrpt/alpha-fewest-servers")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    two = servers.take([(0, 3), (1, 3)])
    assert library.MinimumAlpha()(pipeline, servers).iteration_seconds == pytest.approx(2.5)
    assert library.MinimumAlpha()(pipeline, two).iteration_seconds == pytest.approx(3.25)


def test_side_by_side_is_slower_in_the_library_too() -> None:
    instance = instances.load(stored_names("asrpt/alpha-max")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    timing = library.Asynchronous()
    assert (timing(pipeline, [[2]], servers), timing.most(pipeline, servers)) == (1, 0.5)


def two_stages(nic: int, intra: int, free: tuple[int, ...] = (2, 2)) -> iteration_equations.StagedCase:
    """Two stages of one replica that exchange 2 bytes, a second each."""
    job = iteration_equations.staged_job("j", (F(1),) * 2, (F(1),) * 2, (F(0),) * 2, (F(1),))
    return iteration_equations.StagedCase(job, free, F(nic), F(intra))


def test_findings_see_what_does_not_hold_without_the_hypotheses() -> None:
    assert iteration_bounds.side_by_side_is_slower(two_stages(2, 1, (2,))).slack == 1
    assert iteration_bounds.side_by_side_is_slower(two_stages(1, 1, (2,))).slack == -1
    assert iteration_bounds.greedy_between(two_stages(2, 1)).slack == -1
    assert iteration_bounds.greedy_between(two_stages(1, 2)).slack == 0
    assert graph_cuts.nothing_cut(two_stages(2, 1)).slack == -1
    assert graph_cuts.nothing_cut(two_stages(1, 2)).slack == 0
    assert iteration_bounds.within_bandwidths(two_stages(1, 2)).slack == F(2) * 2 - 3


# -- cuts ------------------------------------------------------------------------------------------------------------


@FEW
@given(cases(graph_cuts.cut_space(full_servers_space())))
def test_cuts_are_those_of_networkx_and_of_the_exact_mapper(case: graph_cuts.CutCase) -> None:
    graph = job_graph(case.placing.pipeline)
    networkx = graph.networkx()
    rng = random.Random(0)
    for server, cut in rng.sample(list(zip(case.mappings, case.cuts, strict=True)), min(5, len(case.cuts))):
        sides = [{v for v, m in zip(graph.labels, server, strict=True) if m == n} for n in set(server)]
        assert cut == sum(exact(nx.cut_size(networkx, side, weight="bytes")) for side in sides) / 2
    seats = [m for m, n in enumerate(case.placing.free) for _ in range(n)]
    assert set(case.mappings) == set(permutations(seats))
    assert case.heavy_edge in case.mappings
    found = library.MinimumCut()(Pipeline.of(case.placing.job), Servers.of(case.instance, "GPU"))
    assert float(found.cut_bytes) == pytest.approx(float(min(case.cuts)), rel=PROVEN, abs=EQUAL)


def test_what_the_mappers_do_on_the_cut_examples() -> None:
    def mapped(key: str, mapper: Any) -> Any:
        instance = instances.load(stored_names(f"asrpt/{key}")[0])
        return mapper()(Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU"))

    assert [mapped("least-cut", m).cut_bytes for m in (library.HeavyEdge, library.MinimumCut)] == [4, 3]
    least, shortest = (mapped("least-cut-alpha", m) for m in (library.MinimumCut, library.MinimumAlpha))
    assert (least.cut_bytes, least.iteration_seconds) == (3, 5)
    assert (shortest.cut_bytes, shortest.iteration_seconds) == (4, 4.5)


@pytest.mark.parametrize(
    ("items", "room", "fits"),
    [((3, 3, 2), (4, 4), False), ((2, 2, 2, 2), (4, 4), True), ((3, 1, 2, 2), (4, 4), True), ((5,), (4, 4), False)],
)
def test_packing(items: tuple[int, ...], room: tuple[int, ...], fits: bool) -> None:
    assert hardness.packs(items, room) == fits
    ways = product(range(len(room)), repeat=len(items))
    assert fits == any(
        all(sum(a for a, m in zip(items, where, strict=True) if m == n) <= free for n, free in enumerate(room))
        for where in ways
    )


@pytest.mark.parametrize(("items", "fits"), [([[3, 3, 2]], False), ([[3, 1, 2, 2]], True)])
def test_cuts_and_iterations_decide_both_ways(items: list[list[int]], fits: bool) -> None:
    case = hardness.PACKINGS.build(CaseNumbers.read({"items": items, "servers": [[2]]}))
    assert case is not None
    assert (min(case.job.cuts) < case.weight, min(case.job.alphas) < case.weight) == (fits, fits)
    assert hardness.cut_decides(case).slack == 0


@pytest.mark.parametrize(("widths", "least"), [((7, 7, 7, 6, 7, 8), 9), ((10, 7, 7, 6, 6, 6), 10)])
def test_sums_of_completion_times_decide_both_ways(widths: tuple[int, ...], least: int) -> None:
    """In threes 3 + 6; where they do not split, some round has fewer than three."""
    case = hardness.ThreePartitionCase(21, widths)
    assert case.least == least
    assert hardness.sum_decides(case).slack == 0


def test_findings_of_reductions_see_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    case = hardness.PACKINGS.build(CaseNumbers.read({"items": [[3, 1, 2, 2]], "servers": [[2]]}))
    triples = hardness.ThreePartitionCase(21, (7,) * 6)
    assert case is not None
    cut = SimpleNamespace(cuts=[F(1)], alphas=[F(1)])
    late = SimpleNamespace(cuts=[F(1)], alphas=[F(9)])
    for job, slack in ((cut, 0), (late, -1)):
        changed: Any = SimpleNamespace(items=case.items, size=4, servers=2, weight=4, job=job)
        assert hardness.cut_decides(changed).slack == slack
    monkeypatch.setattr(hardness, "packs", lambda *_: False)
    assert hardness.cut_decides(case).slack == hardness.sum_decides(triples).slack == -1
