"""A-SRPT's claims: each verdict, and the exact computations behind them against the library and by brute force."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations, product
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from asrpt_oracles import Machines
from asrpt_oracles import asrpt as asrpt_job_by_job
from asrpt_oracles import srpt as srpt_by_scans
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import simplify, symbols

import hetopt
from hetopt import instances
from hetopt.data.entities import Floats
from hetopt.data.workload import Job
from hetopt.models import asrpt as library
from hetopt.pipelines.allreduce import AllReduce
from hetopt.pipelines.graph import job_graph
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers
from hetopt.proofs import small_schedules
from hetopt.proofs.asrpt import bounds, claims, cuts, hardness, iteration, lemmas, order, printed, theorem, volumes
from hetopt.proofs.asrpt.machine import ONE_MACHINE, Preemptive, best_seconds, drawn_seconds, least_total, srpt
from hetopt.proofs.asrpt.placing import alike, exact, filled
from hetopt.proofs.asrpt.schedules import Run, Workload, optimal, overfull, picture, total
from hetopt.proofs.asrpt.sides import Terms, each_job, lemma_1, lemma_2, lemma_3, over_and_under, theorem_1
from hetopt.proofs.asrpt.workloads import made, workloads
from hetopt.proofs.ledger.means import ForAll
from hetopt.proofs.ledger.pictures import Timeline
from hetopt.proofs.ledger.space import Numbers, Space
from hetopt.proofs.ledger.stored import kept
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
FEW = settings(max_examples=30, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key in CLAIMS for name in kept(key)]


def test_claims_are_named_once_and_point_to_others() -> None:
    assert len(CLAIMS) == len(claims())
    assert {one.instead for one in claims() if one.instead} <= set(CLAIMS)
    for one in claims():
        assert (one.expected == "true") <= bool(one.proof or not isinstance(one.means, ForAll)), one.key


def test_all_that_is_false_by_search_is_kept() -> None:
    refuted = {key for key, one in CLAIMS.items() if one.expected == "false" and isinstance(one.means, ForAll)}
    assert refuted == {key for key, _ in STORED}


@pytest.mark.parametrize(("key", "name"), STORED)
def test_stored_counterexamples_are_their_instances(key: str, name: str) -> None:
    means: Any = CLAIMS[key].means
    found, there = means.recheck(name), instances.load(name)
    assert found.finding.refutes
    assert (found.case.instance.cluster, found.case.instance.jobs) == (there.cluster, there.jobs)
    said = instances.expected(name)["counterexample"]
    assert (said.claim, said.correct["slack"]) == (key, found.finding.slack)


def kept_case(key: str) -> Any:
    """The stored counterexample of a claim."""
    means: Any = CLAIMS[f"asrpt/{key}"].means
    return means.recheck(kept(f"asrpt/{key}")[0]).case


def cases(space: Space[Any]) -> st.SearchStrategy[Any]:
    return space.strategy().map(lambda pair: pair[1])


# -- iterations ------------------------------------------------------------------------------------------------------

PLACED = iteration.placed((1, 4), (1, 3))


def test_entries_of_arrays_are_fractions_and_floats_are_refused() -> None:
    assert type(exact(np.int64(3)).numerator) is int
    assert exact(np.int64(3)) == exact(F(3)) == 3
    with pytest.raises(TypeError):
        exact(0.5)


def test_fig_2_by_hand() -> None:
    """Stage 2: 2 MB to stage 3 over a quarter of the card, 2 MB to stage 1 within the server."""
    instance = instances.load("asrpt/fig2")
    servers = Servers.of(instance, "GPU").exact()
    case = iteration.Placed(
        iteration.Placing(instance.jobs[0], (4, 1, 1), exact(servers.nic[0]), exact(servers.intra[0])),
        np.array([[2, 0, 0], [2, 0, 0], [0, 1, 1]]),
    )
    nic, intra = F(10**10, 8 * 4), F(300 * 10**9)
    assert iteration.exchange_by_pairs(case, 1, 0) == F(2 * 10**6) / nic + F(2 * 10**6) / intra
    assert iteration.reduce_by_steps(case, 1, 0) == F(10**7) / intra
    assert iteration.reduce_by_steps(case, 2, 1) == F(5 * 10**6) / nic


@FEW
@given(cases(PLACED))
def test_sums_over_pairs_are_the_sums_of_the_job_graph(case: iteration.Placed) -> None:
    """Bytes over network cards, added up over all replicas, are twice the links that are cut."""
    graph = job_graph(case.placing.pipeline)
    server = np.concatenate([np.repeat(np.arange(case.x.shape[1]), row) for row in case.x])
    links = {(a, b): w for (a, b), w in zip(graph.edges.tolist(), graph.weight.tolist(), strict=True)}
    cut = sum(w for (a, b), w in links.items() if server[a] != server[b] and graph.stage[a] != graph.stage[b])
    slow, fast = (
        sum(iteration.exchange_by_pairs(other, s, m) * int(case.x[s, m]) for s, m in case.there)
        for other in (
            iteration.Placed(iteration.Placing(case.placing.job, case.placing.free, F(1), F(10**6)), case.x),
            iteration.Placed(iteration.Placing(case.placing.job, case.placing.free, F(2), F(10**6)), case.x),
        )
    )
    assert slow - fast == exact(cut)


@given(st.integers(2, 9), st.fractions(0, 9, max_denominator=4))
def test_rings_and_trees_send_what_they_should(k: int, h: Fraction) -> None:
    assert iteration.ring_bytes(k, h) == [2 * F(k - 1, k) * h] * k
    sent, carried = volumes.tree_bytes(k, h)
    assert sum(sent) == sum(carried) == 2 * (k - 1) * h
    assert max(sent) <= 2 * h


def test_a_pipeline_by_hand() -> None:
    """Stages of 1, 3 and 2 seconds: out at 6, 9 and 12."""
    job = iteration.staged_job("j", (F(1),) * 3, (F(1), F(3), F(2)), (F(0),) * 3, (F(1), F(1)))
    free = (1, 1, 1)
    case = iteration.Placed(iteration.Placing(job, free, F(10**9), F(10**9)), np.eye(3, dtype=int))
    free_of_bytes = [round(float(iteration.many(case, n)), 6) for n in (1, 2, 3)]
    assert free_of_bytes == [6, 9, 12]


def test_the_two_copies_differ_unless_stages_have_as_many_replicas() -> None:
    for k, after in product((1, 2, 3), repeat=2):
        case = volumes.two_stages(Numbers.read({"replicas": [[k, after]], "outputs": [[3]]}))
        assert volumes.all_links(case, volumes.weight_of_the_graph(case)).slack == 0
        assert (volumes.all_links(case, volumes.weight_of_one_copy(case)).slack == 0) == (k == after)


def test_trees_of_the_library_have_the_weight_that_is_printed() -> None:
    case = volumes.one_stage(Numbers.read({"replicas": [[4]], "parameters": [[4]]}))
    weight = sum(job_graph(case.pipeline, AllReduce.TREE).weight.tolist())
    assert weight == 6 * 3
    assert volumes.tree_edges_carry_less(case).slack == -1


def test_findings_of_equations_see_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    job = iteration.staged_job("j", (F(1),) * 2, (F(1), F(3)), (F(0),) * 2, (F(1),))
    case = iteration.Placed(iteration.Placing(job, (1, 1), F(1), F(2)), np.eye(2, dtype=int))
    assert iteration.paced_by_slowest(case).slack == 0
    monkeypatch.setattr(iteration, "many", lambda _, n: n * F(5))
    assert iteration.paced_by_slowest(case).slack == -3
    four = volumes.one_stage(Numbers.read({"replicas": [[4]], "parameters": [[4]]}))
    assert volumes.in_the_mean(four).slack == 0
    monkeypatch.setattr(volumes, "tree_bytes", lambda k, h: ([F(6)] * k, [h - 2] * 6))
    assert volumes.in_the_mean(four).slack == -2


# -- bounds ----------------------------------------------------------------------------------------------------------

SMALL = alike(most_placements=60)


@FEW
@given(cases(SMALL))
def test_the_shortest_is_what_the_exact_mapper_finds(case: iteration.Placing) -> None:
    servers = Servers.of(case.instance, "GPU")
    found = library.MinimumAlpha()(Pipeline.of(case.job), servers)
    assert float(found.iteration_seconds) == pytest.approx(float(case.shortest), rel=PROVEN, abs=EQUAL)
    greedy = library.HeavyEdge()(Pipeline.of(case.job), servers)
    assert float(greedy.iteration_seconds) == pytest.approx(float(case.greedy), rel=PROVEN, abs=EQUAL)


@FEW
@given(cases(SMALL))
def test_all_placements_are_there_once(case: iteration.Placing) -> None:
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
    case = bounds.two_by_two(h)
    assert case.greedy == h + 2
    assert case.shortest == F(h, bounds.INTRA) + 2
    assert case.seconds(np.array([[2, 0], [0, 2]])) == case.shortest


@pytest.mark.parametrize(("key", "times"), [("alpha-tilde", (F(3, 2), F(3, 4)))])
def test_the_library_is_greedy_there(key: str, times: tuple[Fraction, Fraction]) -> None:
    instance = instances.load(kept(f"asrpt/{key}")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    found = [mapper()(pipeline, servers).iteration_seconds for mapper in (library.HeavyEdge, library.MinimumAlpha)]
    assert found == pytest.approx([float(t) for t in times])


def test_the_library_needs_three_servers_there() -> None:
    instance = instances.load(kept("asrpt/alpha-fewest-servers")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    two = servers.take([(0, 3), (1, 3)])
    assert library.MinimumAlpha()(pipeline, servers).iteration_seconds == pytest.approx(2.5)
    assert library.MinimumAlpha()(pipeline, two).iteration_seconds == pytest.approx(3.25)


def test_side_by_side_is_slower_in_the_library_too() -> None:
    instance = instances.load(kept("asrpt/alpha-max")[0])
    pipeline, servers = Pipeline.of(instance.jobs[0]), Servers.of(instance, "GPU")
    timing = library.Asynchronous()
    assert (timing(pipeline, [[2]], servers), timing.most(pipeline, servers)) == (1, 0.5)


def two_stages(nic: int, intra: int, free: tuple[int, ...] = (2, 2)) -> iteration.Placing:
    """Two stages of one replica that exchange 2 bytes, a second each."""
    job = iteration.staged_job("j", (F(1),) * 2, (F(1),) * 2, (F(0),) * 2, (F(1),))
    return iteration.Placing(job, free, F(nic), F(intra))


def test_findings_see_what_does_not_hold_without_the_hypotheses() -> None:
    assert bounds.side_by_side_is_slower(two_stages(2, 1, (2,))).slack == 1
    assert bounds.side_by_side_is_slower(two_stages(1, 1, (2,))).slack == -1
    assert bounds.greedy_between(two_stages(2, 1)).slack == -1
    assert bounds.greedy_between(two_stages(1, 2)).slack == 0
    assert cuts.nothing_cut(two_stages(2, 1)).slack == -1
    assert cuts.nothing_cut(two_stages(1, 2)).slack == 0
    assert bounds.within_bandwidths(two_stages(1, 2)).slack == F(2) * 2 - 3


# -- cuts ------------------------------------------------------------------------------------------------------------


@FEW
@given(cases(cuts.cutting(filled())))
def test_cuts_are_those_of_networkx_and_of_the_exact_mapper(case: cuts.Cutting) -> None:
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
        instance = instances.load(kept(f"asrpt/{key}")[0])
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
def test_cuts_and_iterations_tell_both_ways(items: list[list[int]], fits: bool) -> None:
    case = hardness.PACKINGS.build(Numbers.read({"items": items, "servers": [[2]]}))
    assert case is not None
    assert (min(case.job.cuts) < case.weight, min(case.job.alphas) < case.weight) == (fits, fits)
    assert hardness.cut_tells(case).slack == 0


@pytest.mark.parametrize(("widths", "least"), [((7, 7, 7, 6, 7, 8), 9), ((10, 7, 7, 6, 6, 6), 10)])
def test_sums_of_completion_times_tell_both_ways(widths: tuple[int, ...], least: int) -> None:
    """In threes 3 + 6; where they do not split, some round has fewer than three."""
    case = hardness.Triples(21, widths)
    assert case.least == least
    assert hardness.sum_tells(case).slack == 0


def test_findings_of_reductions_see_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    case = hardness.PACKINGS.build(Numbers.read({"items": [[3, 1, 2, 2]], "servers": [[2]]}))
    triples = hardness.Triples(21, (7,) * 6)
    assert case is not None
    cut = SimpleNamespace(cuts=[F(1)], alphas=[F(1)])
    late = SimpleNamespace(cuts=[F(1)], alphas=[F(9)])
    for job, slack in ((cut, 0), (late, -1)):
        told: Any = SimpleNamespace(items=case.items, size=4, servers=2, weight=4, job=job)
        assert hardness.cut_tells(told).slack == slack
    monkeypatch.setattr(hardness, "packs", lambda *_: False)
    assert hardness.cut_tells(case).slack == hardness.sum_tells(triples).slack == -1


# -- the virtual machine ---------------------------------------------------------------------------------------------

TIMES = st.fractions(0, 6, max_denominator=3)
JOBS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=5)


@given(JOBS)
def test_srpt_is_that_of_scans(jobs: list[tuple[Fraction, Fraction]]) -> None:
    arrivals, sizes = map(list, zip(*jobs, strict=True))
    found = srpt(arrivals, sizes)
    assert {i: t for t, i in srpt_by_scans(arrivals, sizes)} == dict(enumerate(found.ends))
    for i, size in enumerate(sizes):
        assert sum(b - a for j, a, b in found.bars if j == i) == size


@given(st.lists(st.tuples(st.integers(0, 5), TIMES), min_size=1, max_size=4))
def test_srpt_in_slots_second_by_second(jobs: list[tuple[int, Fraction]]) -> None:
    arrivals, left = [r for r, _ in jobs], [n for _, n in jobs]
    found, ends, running = srpt([F(r) for r in arrivals], left, slots=True), [F(0)] * len(jobs), -1
    for t in range(100):
        there = [i for i in range(len(jobs)) if arrivals[i] <= t and (left[i] > 0 or (arrivals[i] == t))]
        for i in there:
            ends[i] = max(ends[i], F(t)) if left[i] <= 0 else ends[i]
        work = [i for i in there if left[i] > 0]
        if work:
            running = min(work, key=lambda i: (left[i], i != running, arrivals[i], i))
            left[running] -= 1
            ends[running] = F(t + 1)
    assert ends == list(found.ends)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=3))
def test_the_least_total_by_all_sequences_of_seconds(jobs: list[tuple[int, int]]) -> None:
    arrivals, sizes = zip(*jobs, strict=True)
    horizon = max(arrivals) + sum(sizes)
    best = horizon * len(jobs)
    for who in product(range(-1, len(jobs)), repeat=min(horizon, 6)):
        slots = [[t for t, j in enumerate(who) if j == i] for i in range(len(jobs))]
        if all(len(s) == n and s[0] >= r for s, n, r in zip(slots, sizes, arrivals, strict=True)):
            best = min(best, sum(s[-1] + 1 for s in slots))
    if horizon <= 6:
        assert least_total(arrivals, sizes) == best


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=1, max_size=3))
def test_two_machines_by_all_sequences_of_seconds(jobs: list[tuple[int, int]]) -> None:
    arrivals, sizes = zip(*jobs, strict=True)
    choices = [(), *((i,) for i in range(len(jobs))), *combinations(range(len(jobs)), 2)]
    best = 100
    for who in product(choices, repeat=4):
        seconds = [[t for t, run in enumerate(who) if i in run] for i in range(len(jobs))]
        if all(len(s) == n and s[0] >= r for s, n, r in zip(seconds, sizes, arrivals, strict=True)):
            best = min(best, sum(s[-1] + 1 for s in seconds))
    found, way = best_seconds(arrivals, sizes, 2)
    assert found == sum(max(t for t, run in way if i in run) + 1 for i in range(len(jobs)))
    assert found == best or best == 100
    assert best_seconds(arrivals, sizes, 2, shortest=True)[0] >= found
    assert best_seconds(arrivals, sizes, shortest=True)[0] == srpt([*map(F, arrivals)], [*map(F, sizes)]).total


def test_srpt_on_two_machines_by_hand() -> None:
    """1, 1 and 2 s, and at 2 s two more of 1 s: SRPT leaves a second idle, and has 1 + 1 + 3 + 3 + 4."""
    assert best_seconds((0, 0, 0, 2, 2), (1, 1, 2, 1, 1), 2, shortest=True)[0] == 12
    found, way = best_seconds((0, 0, 0, 2, 2), (1, 1, 2, 1, 1), 2)
    assert found == 11  # 1 + 2 + 2 + 3 + 3
    bars = drawn_seconds("optimum", way).bars
    assert {bar.lane for bar in bars if bar.job == "job3"} == {"machine2"}


def test_the_finding_sees_a_better_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "least_total", lambda *_: 3)
    assert order.shortest_first_is_best(Preemptive((0, 0), (1, 2))).slack == -1


@given(cases(ONE_MACHINE))
def test_one_machine_as_an_instance(case: Preemptive) -> None:
    jobs = case.instance.jobs
    assert [(job.arrival, job.work) for job in jobs] == list(zip(case.arrivals, case.sizes, strict=True))


# -- schedules -------------------------------------------------------------------------------------------------------

MIXED = workloads(talking=True, predicted=lemmas.PREDICTED, iterations=(F(1), F(2)), delayed=True, spare=False)


@FEW
@given(cases(MIXED))
def test_optimum_and_asrpt_are_those_of_the_small_cases(case: Workload) -> None:
    assert total(case.optimum()) == case.small.optimum
    assert total(case.asrpt()) == case.small.asrpt(case.heavy, case.delay)
    for predicted in (True, False):
        assert case.virtual(predicted=predicted).total == case.small.virtual(predicted=predicted)
    for runs in (case.optimum(), case.asrpt(), case.optimum(slots=True), case.asrpt(slots=True, virtual_slots=True)):
        assert overfull(runs, case.free, closed=False)[0] <= 0
        assert all(run.start >= case.arrivals[run.job] for run in runs)
        assert sorted(run.job for run in runs) == list(range(len(case.made)))
        assert all(run.end - run.start >= case.lengths[run.job][run.use] for run in runs)


@FEW
@given(cases(MIXED))
def test_asrpt_is_that_of_the_job_by_job_oracle(case: Workload) -> None:
    machines = Machines(case.small.servers, case.heavy)
    told = [job.predicted for job in case.small.jobs]
    asrpt_job_by_job(list(case.made), [job.pipeline for job in case.small.jobs], told, machines, case.delay)
    found = {f"job{run.job + 1}": (run.start, run.end) for run in case.asrpt()}
    assert {name: (ran.start, ran.end) for name, ran in machines.ran.items()} == found


def test_an_announced_machine_changes_nothing() -> None:
    numbers = {"servers": [[2]], "gpus": [[2]], "replicas": [[1, 2, 3]], "seconds": [[3, 1, 2]]}
    case = made(Numbers.read({**numbers, "arrivals": [[0, 1, 1]]}))
    from hetopt.proofs.asrpt.schedules import asrpt

    told = asrpt(
        case.small.fleet, case.small.tasks, case.arrivals, case.iterations, virtual=case.virtual(predicted=True)
    )
    assert told == case.asrpt()


def by_whole_starts(case: Workload) -> Fraction:
    """The least sum over all starts in whole seconds and all uses."""
    horizon = int(max(case.arrivals) + sum(max(uses.values()) for uses in case.lengths)) + 1
    best = None
    for chosen in product(*(uses.items() for uses in case.lengths)):
        for begins in product(*(range(int(r), horizon) for r in case.arrivals)):
            runs = tuple(
                Run(i, F(t), t + length, use) for i, (t, (use, length)) in enumerate(zip(begins, chosen, strict=True))
            )
            if (best is None or total(runs) < best) and overfull(runs, case.free, closed=False)[0] <= 0:
                best = total(runs)
    assert best is not None
    return best


@settings(max_examples=15, deadline=None)
@given(cases(workloads(jobs=(1, 3), most_gpus=3, iterations=(F(1, 2), F(1)))))
def test_the_optimum_in_slots_by_brute_force(case: Workload) -> None:
    assert total(case.optimum(slots=True)) == by_whole_starts(case)


def test_jobs_that_are_alike_start_in_their_order() -> None:
    lengths: list[dict[tuple[int, ...], Fraction]] = [{(1,): F(2)}, {(1,): F(2)}, {(1,): F(1)}]
    runs = optimal([F(0)] * 3, lengths, (1,))
    assert [run.job for run in runs] == [2, 0, 1]
    assert total(runs) == 1 + 3 + 5


def test_jobs_that_come_at_other_times_are_not_alike() -> None:
    lengths: list[dict[tuple[int, ...], Fraction]] = [{(1,): F(10)}, {(1,): F(10)}]
    assert total(optimal([F(5), F(0)], lengths, (1,))) == 10 + 20


def test_asrpt_in_slots_goes_by_predictions() -> None:
    numbers = {"servers": [[1]], "gpus": [[2]], "replicas": [[1, 1]], "seconds": [[1, 1]]}
    case = made(Numbers.read({**numbers, "iterations": [[1, 4]], "predicted": [[4, 1]]}))
    assert [(run.job, run.start) for run in case.asrpt(slots=True, virtual_slots=True)] == [(1, 1), (0, 3)]


def test_hypotheses_of_workloads() -> None:
    numbers = {"servers": [[1]], "gpus": [[3]], "replicas": [[2]], "behind": [[0]], "seconds": [[1]]}
    numbers |= {"parameters": [[1]], "outputs": [[1]], "bandwidth": [[2, 1]]}
    wanted = {"fast": False, "slow": True, "any": True}
    for inside, there in wanted.items():
        space = workloads(talking=True, arriving=False, inside=inside)  # type: ignore[arg-type]
        assert (space.build(Numbers.read(numbers)) is not None) == there
    whole_cluster = Numbers.read({**numbers, "gpus": [[2]]})
    for spare in (True, False):
        space = workloads(talking=True, arriving=False, inside="any", spare=spare)
        assert (space.build(whole_cluster) is None) == spare
    assert workloads(most_gpus=2, talking=True, arriving=False, inside="any").build(Numbers.read(numbers)) is None


def test_asrpt_in_slots_by_hand() -> None:
    """Four GPUs; on the virtual machine the jobs are done at 1 and 2 in slots, at 1/4 and 3/4 in continuous time."""
    case = made(Numbers.read({"servers": [[1]], "gpus": [[4]], "replicas": [[1, 2]], "seconds": [[1, 1]]}))
    both = [[(run.start, run.end) for run in case.asrpt(slots=True, virtual_slots=slots)] for slots in (False, True)]
    assert both == [[(1, 2), (1, 2)], [(1, 2), (2, 3)]]
    assert [(run.start, run.end) for run in case.asrpt()] == [(F(1, 4), F(5, 4)), (F(3, 4), F(7, 4))]


def test_who_counts_when() -> None:
    runs = (Run(0, F(0), F(1), (2, 0)), Run(1, F(1), F(2), (1, 1)))
    assert overfull(runs, (2, 1), closed=False)[0] == 0
    assert overfull(runs, (2, 1), closed=True) == (1, 1, 0)
    assert overfull(runs, (1, 1), closed=False) == (1, 0, 0)
    drawn = picture("t", runs, (2, 1))
    assert [(bar.lane, bar.job) for bar in drawn.bars] == [
        ("server1 GPU1", "job1"),
        ("server1 GPU2", "job1"),
        ("server1 GPU1", "job2"),
        ("server2 GPU1", "job2"),
    ]


# -- lemmas and theorem ----------------------------------------------------------------------------------------------


@FEW
@given(cases(lemmas.WRONG))
def test_both_sides_are_those_of_the_small_cases(case: Workload) -> None:
    small, how = case.small, (case.heavy, case.delay)
    pairs = [
        (lemma_1(case), small_schedules.lemma_1(small)),
        (lemma_2(case), small_schedules.lemma_2(small, *how)),
        (lemma_3(case), small_schedules.lemma_3(small)),
        (theorem_1(case), small_schedules.theorem_1(small, *how)),
    ]
    for found, (left, right) in pairs:
        assert (found.left, found.right) == (left, right)
        assert found.finding.slack == right - left
        assert found.ratio == left / right


@FEW
@given(cases(lemmas.WRONG))
def test_the_sharper_bounds_are_sharper(case: Workload) -> None:
    for bound in (lemma_1, lemma_2, lemma_3, theorem_1):
        assert bound(case, sharper=True).right <= bound(case).right
    assert over_and_under(case).right <= lemma_3(case, sharper=True).right
    assert theorem_1(case, more=1).right - theorem_1(case).right == total(case.optimum())
    alone, together = each_job(case, sharper=True), lemma_2(case, sharper=True)
    assert alone.right - alone.left <= together.right - together.left


def test_terms_by_hand() -> None:
    """Two stages on servers of three GPUs, 3 s together and 3/2 s apart; 4 iterations told, 1 done."""
    numbers = {"servers": [[2]], "gpus": [[3]], "replicas": [[1]], "behind": [[1]], "seconds": [[1]]}
    numbers |= {"parameters": [[0]], "outputs": [[1]], "bandwidth": [[4, 1]], "predicted": [[4]]}
    case = made(Numbers.read(numbers))
    found = Terms.of(case)
    assert (found.rho, found.most, found.least) == (1, F(3, 2), F(3, 2))
    assert (found.jobs, found.gpus, found.widest, found.spare, found.error) == (1, 6, 2, 4, 3)
    sharper = Terms.of(case, sharper=True)
    assert (sharper.rho, sharper.most, sharper.spare) == (2, 3, 5)


@dataclass(frozen=True)
class Told:
    """Predicts the same of every job."""

    work: float

    def learner(self) -> Told:
        return self

    def observe(self, jobs: Any) -> None:
        """Learn nothing."""

    def predict(self, jobs: Any) -> Floats:
        return np.full(len(jobs), self.work)

    def copy(self) -> Told:
        return self


def simulated(key: str, told: float | None = None, **how: Any) -> list[float]:
    """Completion times of A-SRPT in the simulator on a stored counterexample."""
    policy = library.ASRPT(delay=0.0) if told is None else library.ASRPT(Told(told), delay=0.0)
    log = hetopt.simulate(policy, instances.load(kept(f"asrpt/{key}")[0]), **how)
    jobs = log.jobs
    return [float(v) for v in jobs["arrival"] + jobs["jct"]]


@pytest.mark.parametrize(
    ("key", "told", "how", "expected"),
    [
        ("larger-later", None, {}, [3, F(5, 2)]),
        ("eq-3", None, {}, [2, 3]),
        ("lemma-1", None, {}, [F(3, 2), 2]),
        ("lemma-2", None, {"round_seconds": 1.0}, [2]),
        ("lemma-2", None, {}, [F(5, 4)]),
        ("lemma-2-slow-inside", 0.0, {}, [5]),
        ("thm-1", None, {}, [F(5, 4), F(3, 2), F(7, 4), 2]),
        ("thm-1-short-jobs", 1.0, {}, [F(17, 32)]),
        ("thm-1-slow-inside", None, {}, [F(25, 3)]),
    ],
)
def test_the_simulator_agrees(key: str, told: float | None, how: dict[str, Any], expected: list[Any]) -> None:
    """In slots only where the cluster alone has them: the library's virtual machine runs in continuous time."""
    assert simulated(key, told, **how) == pytest.approx([float(t) for t in expected])
    case = kept_case(key)
    ends = {run.job: run.end for run in case.asrpt(slots=bool(how))}
    assert [ends[i] for i in range(len(ends))] == expected


def test_continuous_time_saves_what_slots_break() -> None:
    for key, side in (("lemma-1", lemma_1), ("lemma-2", lemma_2), ("lemma-3", lemma_3), ("thm-1", theorem_1)):
        assert side(kept_case(key)).finding.slack >= 0
    for key, side in (("lemma-1", lemma_1), ("lemma-2", lemma_2), ("lemma-3", lemma_3), ("thm-1", theorem_1)):
        case = kept_case(f"{key}-slow-inside")
        assert not case.small.servers.fast_inside
        assert side(case, sharper=True).finding.slack >= 0


def test_findings_that_refute_show_schedules() -> None:
    for key in ("lemma-1", "lemma-2", "lemma-3", "thm-1", "eq-3", "larger-later"):
        means: Any = CLAIMS[f"asrpt/{key}"].means
        shown = means.finding(kept_case(key)).pictures
        assert shown
        assert all(isinstance(one, Timeline) and one.bars for one in shown)


# -- families --------------------------------------------------------------------------------------------------------


def test_turns_by_hand() -> None:
    """Four GPUs, four narrow jobs of 3/2 s and four wide ones of 1 s: pairs of 5/2 s from 3/4 s on."""
    jobs = [(2, F(3, 2)), (3, F(1))] * 4
    runs = theorem.run_plain(4, jobs)
    assert [run.job for run in runs] == list(range(8))
    assert [run.end for run in runs][1::2] == [F(3, 4) + F(5, 2) * i for i in (1, 2, 3, 4)]
    better = (1 + 2 + 3 + 4) + 2 * (4 + F(3, 2)) + 2 * (4 + 3)
    assert theorem.in_turns(2) == total(runs) / better == theorem.in_turns_formula(2)


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AssertionError, match="more GPUs are in use"):
        theorem.checked((Run(0, F(0), F(2), (2,)), Run(1, F(1), F(2), (1,))), 2)


def test_turns_grow_like_half_of_q() -> None:
    q = symbols("q", positive=True)
    quotient = (4 * q**4 + 2 * q**3 + 4 * q**2 + 6 * q - 4) / (8 * q**3 + q**2 + q)
    assert simplify((quotient / q).limit(q, "oo")) == F(1, 2)
    assert quotient.subs(q, 7) == theorem.in_turns_formula(7)


def test_one_a_slot_by_hand() -> None:
    runs = theorem.run_plain(3, [(1, F(1))] * 3, slots=True)
    assert [(run.start, run.end) for run in runs] == [(1, 2), (2, 3), (3, 4)]
    assert theorem.one_a_slot(3) == F(9, 3)


# -- what is printed -------------------------------------------------------------------------------------------------


def test_figure_2_says_what_the_instance_says() -> None:
    found = {row.quantity: row for row in cuts.figure_2().rows}
    assert found["MB on it"].computed == "20"
    assert found["bytes cut: the least possible"].computed == "9000000"
    assert all(row.agrees for row in found.values())


def test_one_network_is_misprinted() -> None:
    wrong = {row.quantity for row in printed.table_1().rows if not row.agrees}
    misprinted = {
        name.removeprefix("asrpt/")
        for name in instances.names()
        if name.startswith("asrpt/") and any(said.misprinted for said in instances.expected(name).values())
    }
    assert (wrong, misprinted) == ({"XLNet-large"}, {"xlnet-large"})


def test_order_of_starts_is_looked_at_in_pairs() -> None:
    case = kept_case("larger-later")
    assert order.in_virtual_order(case).slack >= 0
    assert order.smaller_starts_first(case).slack == F(-1, 2)


def test_a_job_of_the_library_has_the_case_s_numbers() -> None:
    case = kept_case("alpha-fewest-servers")
    job: Job = case.instance.jobs[0]
    assert [(s.replicas, s.parameter_bytes, s.output_bytes) for s in job.stages] == [(2, 2, 1), (4, 2, 0)]
    assert all(s.nic_bytes_per_s == 3 for s in case.instance.cluster.servers)
