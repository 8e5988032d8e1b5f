"""The iteration time of a placement, against sums over pairs of replicas in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.data.array_types import Integers
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.models.asrpt.placement_costs import PlacementCosts
from hetopt.proofs.asrpt.all_placements import every_placement
from hetopt.proofs.strategies import servers_for, staged_jobs
from hetopt.stages.iteration_time import Asynchronous, Synchronous, Timing
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL, PROVEN

PARTS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)])


@st.composite
def cases(draw: st.DrawFn, fast_inside: bool = True, tokens: bool = True) -> tuple[Job, Servers, Integers]:
    job = draw(staged_jobs(slices=True, tokens=tokens))
    servers = draw(servers_for(job.demand + 2, most=3, fast_inside=fast_inside))
    pipeline = Pipeline.of(job)
    tables = list(every_placement(pipeline, servers))
    if not tables:  # slices that no server has room for
        servers = Servers.alike([job.demand + 2], nic_bytes_per_s=1, intra_bytes_per_s=30)
        tables = list(every_placement(pipeline, servers))
    return job, servers, draw(st.sampled_from(tables))


def by_pairs(job: Job, servers: Servers, x: Integers, backward: Any = 1, reduce: Any = 1) -> dict[str, Any]:
    """(stage, server) -> seconds (forward, backward, exchange, reduce), replica by replica from the paper's words."""
    where = [(s, m) for s, row in enumerate(x.tolist()) for m, n in enumerate(row) for _ in range(n)]
    f, found = Fraction, {}
    for i, (s, m) in enumerate(where):
        stage, k = job.stages[s], job.stages[s].replicas
        nic, intra = (f(float(v[m])) * stage.slices for v in (servers.nic, servers.intra))
        exchange = f(0)
        for j, (r, n) in enumerate(where):
            if j == i:
                continue
            data = f(0)
            if r == s:
                data = f(stage.token_bytes)
            elif r == s + 1:
                data = 2 * f(stage.output_bytes) / job.stages[r].replicas  # d_out of each here, spread over those there
            elif r == s - 1:
                data = 2 * f(job.stages[r].output_bytes) / k
            exchange += data / (intra if n == m else nic)
        t = stage.slices
        exchange += f(2 * (t - 1), t) * f(stage.slice_bytes) / f(float(servers.intra[m]))
        data = f(2 * (k - 1), k) * f(stage.parameter_bytes)
        reducing = data / intra if x[s, m] == k else data / (int(x[s, m]) * nic)
        found[s, m] = f(stage.forward_s), backward * f(stage.backward_s), exchange, reduce * reducing
    return found


@given(cases(fast_inside=False), PARTS, PARTS)
def test_asynchronous_is_the_slowest_stage_on_any_server(case: Any, backward: Fraction, reduce: Fraction) -> None:
    job, servers, x = case
    expected = max(sum(parts) for parts in by_pairs(job, servers, x, backward, reduce).values())
    timing = Asynchronous(backward, reduce)  # type: ignore[arg-type]
    assert timing(Pipeline.of(job).exact(), x, servers.exact()) == expected
    floats = Asynchronous(float(backward), float(reduce))(Pipeline.of(job), x, servers)
    assert floats == pytest.approx(float(expected), rel=PROVEN)


def flow_shop(times: list[Fraction], jobs: int) -> list[Fraction]:
    """When each machine is done, of equal jobs that go through the machines in order."""
    done = [Fraction(0)] * len(times)
    for _ in range(jobs):
        before = Fraction(0)
        for i, time in enumerate(times):
            done[i] = before = max(before, done[i]) + time
    return done


@given(cases(), st.integers(1, 5))
def test_synchronous_is_a_pipeline_run_micro_batch_by_micro_batch(case: Any, q: int) -> None:
    job, servers, x = case
    parts = by_pairs(job, servers, x)
    stages = range(len(job.stages))
    forward = [max(p[0] + p[2] / 2 for (s, _), p in parts.items() if s == i) / q for i in stages]
    backward = [max(p[1] + p[2] / 2 for (s, _), p in parts.items() if s == i) / q for i in stages]
    reduce = [max(p[3] for (s, _), p in parts.items() if s == i) for i in stages]
    down = flow_shop(forward, q)[-1]
    back = flow_shop(backward[::-1], q)[::-1]
    expected = down + max(b + r for b, r in zip(back, reduce, strict=True))
    exact = Pipeline.of(job).exact(), x, servers.exact()
    found = Synchronous(q)(*exact)
    assert found == expected
    assert not isinstance(found[()], float)
    assert expected >= Asynchronous()(*exact)


@given(cases(fast_inside=False), st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25), Synchronous(3)]))
def test_nothing_is_faster_than_the_bound(case: Any, timing: Timing) -> None:
    """Whatever the bandwidths."""
    job, servers, x = case
    exact = Pipeline.of(job).exact(), servers.exact()
    assert timing.least(*exact) <= timing(exact[0], x, exact[1])
    if isinstance(timing, Asynchronous):
        costs = PlacementCosts(Pipeline.of(job), servers, timing)
        assert costs.bound <= timing(Pipeline.of(job), x, servers) * (1 + PROVEN)
        assert costs.iteration(x.T) == pytest.approx(float(timing(Pipeline.of(job), x, servers)), rel=PROVEN)


@given(cases(), st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25), Synchronous(3)]))
def test_nothing_is_slower_than_all_apart(case: Any, timing: Timing) -> None:
    """Hypothesis: B_intra >= B_inter / g."""
    job, servers, x = case
    exact = Pipeline.of(job).exact(), servers.exact()
    assert servers.fast_inside
    assert timing(exact[0], x, exact[1]) <= timing.most(*exact)


@given(staged_jobs(most_gpus=5, tokens=True))
def test_all_apart_is_reached(job: Job) -> None:
    servers = Servers.alike([1] * job.demand, gpus=4, nic_bytes_per_s=8, intra_bytes_per_s=8)
    pipeline = Pipeline.of(job)
    apart = np.zeros((len(pipeline), job.demand), dtype=int)
    apart[np.repeat(np.arange(len(pipeline)), pipeline.replicas), np.arange(job.demand)] = 1
    exact = pipeline.exact(), servers.exact()
    assert Asynchronous()(exact[0], apart, exact[1]) == Asynchronous().most(*exact)


def test_with_slow_links_inside_a_server_together_can_be_slower_than_all_apart() -> None:
    """So the hypothesis is needed: B_intra = 1 < B_inter / g = 4."""
    job = Job("j", {"G": 1.0}, 1, 2, stages=(Stage(1, 1, 1, output_bytes=4), Stage(1, 1, 1)))
    servers = Servers.alike([2, 2], nic_bytes_per_s=8, intra_bytes_per_s=1)
    together = Asynchronous()(Pipeline.of(job), [[1, 0], [1, 0]], servers)
    assert not servers.fast_inside
    assert (together, Asynchronous().most(Pipeline.of(job), servers)) == (10, 4)


@given(cases())
def test_many_placements_at_once(case: Any) -> None:
    job, servers, _ = case
    pipeline = Pipeline.of(job)
    tables = list(every_placement(pipeline, servers))[:50]
    for timing in (Asynchronous(), Synchronous(4)):
        one_by_one = [float(timing(pipeline, x, servers)) for x in tables]
        assert np.allclose(timing(pipeline, np.array(tables), servers), one_by_one, rtol=PROVEN, atol=0)


@given(cases(), PARTS, PARTS)
def test_overlap_never_lengthens_an_iteration(case: Any, backward: Fraction, reduce: Fraction) -> None:
    job, servers, x = case
    args = Pipeline.of(job).exact(), x, servers.exact()
    assert Asynchronous(backward, reduce)(*args) <= Asynchronous()(*args)  # type: ignore[arg-type]
    assert Synchronous(2, backward, reduce)(*args) <= Synchronous(2)(*args)  # type: ignore[arg-type]


def test_slower_gpu_types_compute_in_proportion_longer() -> None:
    job = Job("j", {"T4": 1.0, "V100": 4.0}, 1, 1, stages=(Stage(1, 1, 2),))
    servers = Servers.alike([1])
    assert Asynchronous()(Pipeline.of(job, "V100"), [[1]], servers) == pytest.approx(3, rel=EQUAL)
    assert Asynchronous()(Pipeline.of(job, "T4"), [[1]], servers) == pytest.approx(12, rel=EQUAL)


def test_a_job_without_stages_takes_the_time_of_its_throughput() -> None:
    job = Job("j", {"V100": 4.0}, 1, 3)
    assert Asynchronous()(Pipeline.of(job), [[2, 1]], Servers.alike([2, 1])) == pytest.approx(1 / 4, rel=EQUAL)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1, 1]], "has shape (1, 2); it must end in (2, 2)"),
        ([[1, 1], [0, 0]], "has [2, 0] replicas of its stages; it must have [2, 1]"),
        ([[3, -1], [1, 0]], "has [2, 1] replicas of its stages; it must have [2, 1]"),
        ([[0.5, 1.5], [1, 0]], "holds float64; it must hold whole numbers of replicas"),
    ],
)
def test_a_placement_that_is_none_is_refused(x: Any, message: str) -> None:
    job = Job("j", {"G": 1.0}, 1, 3, stages=(Stage(2, 1, 1, output_bytes=1), Stage(1, 1, 1)))
    with pytest.raises(InvalidPlan) as problem:
        Asynchronous()(Pipeline.of(job), x, Servers.alike([2, 2]))
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Asynchronous(backward=1.5), "Asynchronous.backward is 1.5; it must be at most 1"),
        (lambda: Asynchronous(reduce=-1), "Asynchronous.reduce is -1"),
        (lambda: Synchronous(0), "Synchronous.micro_batches is 0"),
        (lambda: Synchronous(1.5), "Synchronous.micro_batches is 1.5; it must be a whole number >= 1"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption) as problem:
        make()
    assert message in str(problem.value)
