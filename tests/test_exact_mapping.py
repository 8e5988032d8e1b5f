"""The exact GPU mappings and local search, against enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hetopt import instances
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, InvalidOption, SolverUnavailable
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MOST_REPLICAS, MinimumCut, least_cuts
from hetopt.proofs.asrpt.all_placements import every_placement, random_case
from hetopt.proofs.strategies import servers_for, staged_jobs
from hetopt.solving.options import Options
from hetopt.stages.iteration_time import Asynchronous, Synchronous
from hetopt.stages.job_graph import AllReduce, job_graph
from hetopt.stages.mapping import GPUMapping
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL, PROVEN

AT_ONCE = 1 / 10**7
"""Seconds in which no solver finds anything."""


@st.composite
def cases(draw: st.DrawFn, fast_inside: bool = True, **job: Any) -> tuple[Pipeline, Servers]:
    pipeline = Pipeline.of(draw(staged_jobs(**job)))
    gpus, alike = pipeline.gpus + draw(st.integers(0, 3)), draw(st.booleans())
    servers = draw(servers_for(gpus, most=3, alike=alike, fast_inside=fast_inside))
    assume(any(True for _ in every_placement(pipeline, servers)))
    return pipeline, servers


class NoStart:
    """A mapper that never finds room."""

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        raise InvalidInstance("no room")


@pytest.mark.parametrize("fast_inside", [True, False])
@given(st.data(), st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25)]), st.booleans())
def test_minimum_alpha(fast_inside: bool, data: st.DataObject, timing: Asynchronous, started: bool) -> None:
    """Also where links within a server are slower than its network card, and without a mapping to start from."""
    pipeline, servers = data.draw(cases(slices=True, tokens=True, fast_inside=fast_inside))
    least = min(float(timing(pipeline, x, servers)) for x in every_placement(pipeline, servers))
    start = LocalSearch(timing=timing) if started or not pipeline.sliced else NoStart()
    found = MinimumAlpha(start=start, timing=timing)(pipeline, servers)
    assert found.iteration_seconds == pytest.approx(least, rel=EQUAL, abs=EQUAL)
    assert found.bound is not None
    assert found.bound <= least * (1 + EQUAL)
    assert found.bound == pytest.approx(least, rel=EQUAL * 10, abs=EQUAL)
    assert found.status in ("optimal", "gap")


@given(cases(slices=True, tokens=True), st.sampled_from(AllReduce))
def test_minimum_cut(case: Any, allreduce: AllReduce) -> None:
    """Against all ways to give every replica a server."""
    pipeline, servers = case
    graph = job_graph(pipeline, allreduce)
    every = np.array(list(product(range(len(servers)), repeat=len(graph))))
    used = np.array([[(graph.size * (row == m)).sum() for m in range(len(servers))] for row in every])
    least = float(graph.cut(every[(used <= servers.free).all(axis=1)]).min())
    found = MinimumCut(allreduce=allreduce)(pipeline, servers)
    assert found.cut_bytes == pytest.approx(least, rel=EQUAL, abs=EQUAL)
    assert found.bound == pytest.approx(least, rel=EQUAL, abs=EQUAL * float(graph.weight.sum()))
    assert found.status in ("optimal", "gap")


@given(cases(slices=True, tokens=True), st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25)]))
def test_local_search_lies_between_the_optimum_and_heavy_edge(case: Any, timing: Asynchronous) -> None:
    pipeline, servers = case
    least = min(float(timing(pipeline, x, servers)) for x in every_placement(pipeline, servers))
    try:
        HeavyEdge()(pipeline, servers)
    except InvalidInstance:  # it need not find room for slices
        return
    found = LocalSearch(timing=timing)(pipeline, servers)
    assert least * (1 - PROVEN) <= found.iteration_seconds
    assert found.iteration_seconds <= HeavyEdge(timing=timing)(pipeline, servers).iteration_seconds * (1 + PROVEN)
    assert found.bound is not None
    assert found.bound <= least * (1 + PROVEN)
    if found.status == "optimal":
        assert found.iteration_seconds == pytest.approx(least, rel=EQUAL, abs=EQUAL)


@settings(max_examples=examples(4, 15))
@given(st.integers(0, 10_000), st.sampled_from([(8, 8, 12), (16, 4, 16)]))
def test_at_the_size_of_the_papers_models(seed: int, size: tuple[int, int, int]) -> None:
    """Too large to enumerate: the two programs and the heuristics check each other, and bounds check all."""
    pipeline, servers = random_case(np.random.default_rng(seed), *size)
    mappers = (HeavyEdge(), LocalSearch(), MinimumAlpha(), MinimumCut())
    heavy, local, alpha, cut = (mapper(pipeline, servers) for mapper in mappers)
    assert alpha.iteration_seconds <= min(local.iteration_seconds, cut.iteration_seconds) * (1 + EQUAL)
    assert cut.cut_bytes <= min(heavy.cut_bytes, local.cut_bytes, alpha.cut_bytes) * (1 + EQUAL)
    assert local.iteration_seconds <= heavy.iteration_seconds * (1 + PROVEN)
    assert local.bound is not None
    assert local.bound <= alpha.iteration_seconds * (1 + EQUAL)
    assert alpha.bound == pytest.approx(alpha.iteration_seconds, rel=EQUAL * 2)
    assert cut.bound == pytest.approx(cut.cut_bytes, rel=EQUAL * 2)


def test_the_least_cut_need_not_have_the_shortest_iteration() -> None:
    """Three replicas are enough; decided in fractions over all placements, and found by both programs."""
    name = "refuted/asrpt-cut-alpha"
    instance, printed = instances.load(name), instances.expected(name)
    pipeline, servers = Pipeline.of(instance.job["three"]), Servers.of(instance, "GPU")
    exact, graph = Asynchronous(), job_graph(pipeline.exact())
    every = [np.array(v) for v in product(range(2), repeat=3) if v.count(0) <= 2 and v.count(1) <= 1]
    judged = {tuple(v): (graph.cut(v), exact(graph.pipeline, graph.counts(v, 2), servers.exact())[()]) for v in every}
    cuts, alphas = (sorted(column) for column in zip(*judged.values(), strict=True))
    least, shortest = printed["least_cut"].correct, printed["shortest_iteration"].correct
    assert cuts[0] < cuts[1], "the least cut is unique"
    assert (cuts[0], alphas[0]) == (least["cut"], shortest["alpha"])
    for mapper, row in ((MinimumCut(), least), (MinimumAlpha(), shortest)):
        found = mapper(pipeline, servers)
        assert judged[tuple(found.server.tolist())] == (row["cut"], row["alpha"])
        assert [v for v, m in found.where.items() if m == "server2"] == [row["alone"]]


@pytest.mark.parametrize("mapper", [MinimumAlpha, MinimumCut])
def test_gurobi_agrees(mapper: Any) -> None:
    pipeline, servers = random_case(np.random.default_rng(5), 4, 3, 3)
    try:
        there = mapper(options=Options(solver="gurobi"))(pipeline, servers)
    except SolverUnavailable as problem:
        pytest.skip(str(problem))
    here = mapper()(pipeline, servers)
    assert there.iteration_seconds == pytest.approx(here.iteration_seconds, rel=EQUAL) or mapper is MinimumCut
    assert there.bound == pytest.approx(here.bound, rel=EQUAL * 2)


@pytest.mark.parametrize("mapper", [MinimumAlpha, MinimumCut])
def test_at_the_time_limit_it_reports_the_gap(mapper: Any) -> None:
    """At once: the start is returned, with a bound below it."""
    pipeline, servers = random_case(np.random.default_rng(6), 8, 8, 12)
    found = mapper(start=HeavyEdge(), options=Options(time_limit=AT_ONCE))(pipeline, servers)
    value = found.iteration_seconds if mapper is MinimumAlpha else found.cut_bytes
    assert found.status == "time_limit"
    assert found.bound is not None
    assert 0 <= found.bound <= value * (1 + EQUAL)
    assert found.gap == pytest.approx(1 - found.bound / value)
    assert (found.replicas.sum(axis=1) == pipeline.replicas).all()


def sliced(*stages: tuple[int, int]) -> Pipeline:
    """Stages of (replicas, slices)."""
    made = tuple(Stage(k, 1, 1, output_bytes=1, slices=t) for k, t in stages)
    return Pipeline.of(Job("sliced", {"G": 1.0}, 1, sum(s.gpus for s in made), stages=made))


def test_slices_that_fit_only_in_one_way_are_found() -> None:
    """Two of one GPU and two of three on servers of four: along the edges the small ones come first and block."""
    pipeline, servers = sliced((2, 1), (2, 3)), Servers.alike([4, 4])
    for mapper in (HeavyEdge(), LocalSearch(), MinimumAlpha(), MinimumCut()):
        assert mapper(pipeline, servers).table.to_numpy().tolist() == [[1, 1], [1, 1]]


def test_without_a_start_an_iteration_may_be_longer_than_with_all_replicas_apart() -> None:
    """There is one server, and its links are slower than its network card."""
    servers = Servers.alike([3], nic_bytes_per_s=8, intra_bytes_per_s=1)
    pipeline, timing = sliced((1, 2), (1, 1)), Asynchronous()
    found = MinimumAlpha(start=NoStart(), timing=timing)(pipeline, servers)
    assert found.iteration_seconds == float(timing(pipeline, [[1], [1]], servers)) > timing.most(pipeline, servers)
    assert found.status == "optimal"


def test_slices_that_do_not_fit_are_refused_by_the_exact_programs_too() -> None:
    """Enough GPUs, but 3 + 3 of four and four leave no room for a replica of two."""
    pipeline, servers = sliced((1, 2), (2, 3)), Servers.alike([4, 4])
    for mapper in (HeavyEdge(), LocalSearch(), MinimumAlpha(), MinimumCut()):
        with pytest.raises(InvalidInstance, match=r"a sliced replica needs all its GPUs on one server"):
            mapper(pipeline, servers)


def test_a_start_that_meets_the_bound_is_proven_at_once() -> None:
    """HiGHS once called this program optimal with an objective of nan, its range was so narrow."""
    stages = Stage(3, 0.07, 0.02, parameter_bytes=1e6, output_bytes=5e6), Stage(1, 0.07, 0.08, parameter_bytes=5e6)
    pipeline = Pipeline.of(Job("r", {"V100": 1.0}, 1, 4, stages=stages))
    for start in (LocalSearch(), HeavyEdge()):
        found = MinimumAlpha(start=start)(pipeline, Servers.alike([3, 3, 3], gpus=8))
        assert (found.status, found.gap) == ("optimal", 0)


def test_rounding_makes_no_coefficients() -> None:
    """A stage that takes one rounding error more than the start needed no more; the row had 2e-16."""
    numbers = (2, 2, 0.0, 1e5), (1, 2, 0.0, 1e5), (1, 3, 1e9, 0.0)
    stages = tuple(
        Stage(k, 0.5, 0.5, parameter_bytes=h, output_bytes=d, slices=t, slice_bytes=1e6) for k, t, h, d in numbers
    )
    pipeline, servers = Pipeline.of(Job("j", {"GPU": 1.0}, 1, 9, stages=stages)), Servers.alike([5, 4], gpus=6)
    least = min(float(Asynchronous()(pipeline, x, servers)) for x in every_placement(pipeline, servers))
    for start in (LocalSearch(), LocalSearch(steps=0), HeavyEdge()):
        assert MinimumAlpha(start=start)(pipeline, servers).iteration_seconds == pytest.approx(least)


def test_of_equal_servers_the_first_are_used() -> None:
    """A job of two GPUs that fits on one of twelve servers; and of 32 on five of them."""
    pair = sliced((2, 1))
    for mapper in (MinimumAlpha(), MinimumCut()):
        assert mapper(pair, Servers.alike([8] * 12)).server.tolist() == [0, 0]
        vgg19 = Pipeline.of(instances.load("asrpt/vgg19").job["vgg19-32"])
        assert set(mapper(vgg19, Servers.alike([8] * 12)).server.tolist()) == set(range(4))


def test_more_than_the_arguments_of_a_mapper() -> None:
    job = Job("j", {"G": 1.0}, 1, 1)
    for mapper in (HeavyEdge(), LocalSearch(), MinimumAlpha(), MinimumCut()):
        with pytest.raises(InvalidInstance, match=r"the pipeline is the job 'j'; give Pipeline.of\(job\)"):
            mapper(job, Servers.alike([1]))  # type: ignore[arg-type]
        with pytest.raises(InvalidInstance, match=r"servers is \[4, 4\]"):
            mapper(Pipeline.of(job), [4, 4])  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="the job is 'vgg19'"):
        Pipeline.of("vgg19")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"job_graph.allreduce is 'star'"):
        job_graph(Pipeline.of(job), "star")  # type: ignore[arg-type]


def test_the_models_are_readable_pyomo() -> None:
    """Names of variables say stage, server and count; the start is feasible."""
    pipeline, servers = random_case(np.random.default_rng(1), 3, 2, 3)
    model = MinimumAlpha(start=HeavyEdge()).build(pipeline, servers)
    assert {name.split("[")[0] for name in (v.name for v in model.component_data_objects())} >= {"y", "z", "placed"}
    for row in [*model.placed.values(), *model.room.values(), *model.pace.values(), *model.order.values()]:
        assert row.lslack() >= -EQUAL
        assert row.uslack() >= -EQUAL


@given(st.integers(1, 7), st.data())
def test_least_cuts_of_a_ring_are_its_parts(replicas: int, data: st.DataObject) -> None:
    """A ring in p > 1 parts is cut p times, whichever sizes they have; a ring of two once."""
    for sizes, (halves, parts) in least_cuts(replicas, AllReduce.RING).items():
        assert sorted((parts.count(i) for i in range(len(sizes))), reverse=True) == list(sizes)
        cuts = 0 if len(sizes) == 1 else 1 if replicas == 2 else len(sizes)
        assert halves == 2 * cuts


def test_trees_of_many_replicas_are_refused() -> None:
    job = Job("j", {"G": 1.0}, 1, MOST_REPLICAS + 1, stages=(Stage(MOST_REPLICAS + 1, 1, 1),))
    with pytest.raises(InvalidOption, match=r"a stage has 11 replicas.*Use allreduce='ring', or Heavy-Edge"):
        MinimumCut(allreduce=AllReduce.TREE)(Pipeline.of(job), Servers.alike([8, 8]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalSearch(steps=-1), "LocalSearch.steps is -1"),
        (lambda: MinimumCut(allreduce="star"), "MinimumCut.allreduce is 'star'; known: ring, tree"),  # type: ignore[arg-type]
        (lambda: LocalSearch(timing=Synchronous()), "LocalSearch.timing is Synchronous"),  # type: ignore[arg-type]
        (lambda: MinimumAlpha(timing=Synchronous()), "MinimumAlpha.timing is Synchronous"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption) as problem:
        make()
    assert message in str(problem.value)
