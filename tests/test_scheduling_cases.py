"""The optimum of small cases, and Lemmas 1-3 and Theorem 1 of A-SRPT, all in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidOption
from hetopt.proofs.asrpt.bound_sides import lemma_1, lemma_2, lemma_3, theorem_1
from hetopt.proofs.asrpt.scheduling_cases import SchedulingCase, SmallJob, fastest_iterations, total_completion
from hetopt.proofs.asrpt.staged_cases import servers_of
from hetopt.proofs.strategies import staged_jobs
from hetopt.stages.pipeline import Pipeline

SHAPES = [(1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (1, 4), (4, 1), (2, 3), (3, 2), (6, 1)]
F = Fraction
HEAVY = st.sampled_from([F(1), F(3, 2), F(4)])
DELAY = st.sampled_from([F(0), F(1, 2), F(2)])


@st.composite
def small_cases(draw: st.DrawFn, *, most_jobs: int = 4) -> SchedulingCase:
    """G > g_max, B_intra >= B_inter / g, at least one iteration, predictions of any kind."""
    count, gpus = draw(st.sampled_from(SHAPES))
    nic = draw(st.integers(1, 3))
    servers = servers_of((gpus,) * count, F(nic), F(draw(st.integers(nic, nic + 20))))
    jobs = []
    for _ in range(draw(st.integers(1, most_jobs))):
        job = draw(staged_jobs(most_gpus=min(count * gpus - 1, 4), most_stages=3))
        pipeline = Pipeline.of(job).exact()
        assume(min(fastest_iterations(pipeline, servers).values()) > 0)
        n = F(draw(st.integers(1, 6)), draw(st.integers(1, 2)))
        assume(n >= 1)
        predicted = draw(st.sampled_from([n, F(0), n / 2, 2 * n, F(3)]))
        jobs.append(SmallJob(pipeline, F(draw(st.integers(0, 40)), 2), n, predicted))
    return SchedulingCase(tuple(jobs), servers, draw(HEAVY), draw(DELAY))


@settings(max_examples=60)
@given(small_cases())
def test_lemmas_1_to_3_and_theorem_1(case: SchedulingCase) -> None:
    for bound in (lemma_1, lemma_2, lemma_3, theorem_1):
        sides = bound(case)
        assert sides.left <= sides.right


@settings(max_examples=40)
@given(small_cases(most_jobs=3))
def test_no_schedule_beats_the_optimum(case: SchedulingCase) -> None:
    assert total_completion(case.optimum()) <= total_completion(case.asrpt())


def by_slots(case: SchedulingCase) -> Fraction:
    """The least sum over all starts in a grid of slots and all uses: no idea of orders or of early starts."""
    step = F(1)
    for job, uses in zip(case.jobs, case.fastest, strict=True):
        for length in [job.arrival, *(job.iterations * a for a in uses.values())]:
            step = F(1, max(step.denominator, length.denominator))
    horizon = max(j.arrival for j in case.jobs) + sum(
        j.iterations * max(u.values()) for j, u in zip(case.jobs, case.fastest, strict=True)
    )
    free = case.servers.free.tolist()
    best = None
    for chosen in product(*(uses.items() for uses in case.fastest)):
        starts = [[job.arrival + step * i for i in range(int((horizon - job.arrival) / step) + 1)] for job in case.jobs]
        for begins in product(*starts):
            spans = [(t, t + j.iterations * a, use) for t, j, (use, a) in zip(begins, case.jobs, chosen, strict=True)]
            total = sum(end for _, end, _ in spans)
            if best is not None and total >= best:
                continue
            if all(
                sum(use[m] for b, e, use in spans if b <= t < e) <= free[m] for t in begins for m in range(len(free))
            ):
                best = total
    assert best is not None
    return best


@pytest.mark.parametrize(
    ("shape", "jobs"),
    [
        ((1, 2), [(2, 0, 2), (1, 1, 3)]),
        ((2, 1), [(2, 0, 2), (1, 0, 1), (1, 1, 2)]),
        ((1, 3), [(2, 0, 3), (2, 1, 1), (1, 0, 4)]),
        ((3, 1), [(2, 1, 2), (3, 0, 1), (1, 0, 3)]),
    ],
)
def test_the_optimum_by_brute_force(shape: Any, jobs: Any) -> None:
    """Jobs of (GPUs, arrival, iterations) with one second per iteration, and one slower when spread."""
    servers = servers_of((shape[1],) * shape[0], F(1), F(1))
    made = []
    for gpus, arrival, n in jobs:
        stage = Stage(gpus, 1, 0, parameter_bytes=1 if gpus == 2 else 0)
        pipeline = Pipeline.of(Job("j", {"G": 1.0}, 1, gpus, stages=(stage,))).exact()
        made.append(SmallJob(pipeline, F(arrival), F(n), F(n)))
    case = SchedulingCase(tuple(made), servers)
    assert total_completion(case.optimum()) == by_slots(case)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_on_one_gpu_shortest_first_is_optimal(lengths: list[int]) -> None:
    pipeline = Pipeline.of(Job("j", {"G": 1.0}, 1, 1, stages=(Stage(1, 1, 0),))).exact()
    jobs = tuple(SmallJob(pipeline, F(0), F(n), F(n)) for n in lengths)
    case = SchedulingCase(jobs, servers_of((1,), F(1), F(1)))
    closed = sum((len(lengths) - i) * n for i, n in enumerate(sorted(lengths)))
    by_order = min(sum((len(p) - i) * n for i, n in enumerate(p)) for p in permutations(lengths))
    assert total_completion(case.optimum()) == closed == by_order
    assert case.virtual(predicted=False).total == closed


def test_what_is_too_large_is_refused() -> None:
    pipeline = Pipeline.of(Job("j", {"G": 1.0}, 1, 1, stages=(Stage(1, 1, 0),))).exact()
    job = SmallJob(pipeline, F(0), F(1), F(1))
    with pytest.raises(InvalidOption, match="5 jobs on 6 GPUs; at most 4 on 6 are enumerated"):
        SchedulingCase((job,) * 5, servers_of((3, 3), F(1), F(1)))
    with pytest.raises(InvalidOption, match="1 job on 8 GPUs"):
        SchedulingCase((job,), servers_of((4, 4), F(1), F(1)))
    large = SmallJob(Pipeline.of(Job("j", {"G": 1.0}, 1, 3, stages=(Stage(3, 1, 0),))).exact(), F(0), F(1), F(1))
    with pytest.raises(InvalidOption, match="a job does not fit on the empty servers"):
        SchedulingCase((large,), servers_of((1, 1), F(1), F(1)))
