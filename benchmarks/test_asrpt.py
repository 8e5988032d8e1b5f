"""A-SRPT: GPU mappings at the size of the paper's networks, and its schedule of 150,000 jobs.

Random cases are those of the claims: 8 stages of up to 8 replicas on 12 servers, and 16 stages of up to 4 on 16, each
server with 1 to 8 free GPUs, together at least as many as the job needs; times from 5 to 100 ms, sizes from 0.1 to 300
MB evenly by their logarithm. The two programs check each other and the heuristics; every optimum is proven.
"""

from __future__ import annotations

import resource
import statistics
import time
from itertools import count

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hetopt
from hetopt import instances
from hetopt.models import asrpt
from hetopt.models.asrpt import networks
from hetopt.models.asrpt.asrpt_workload import with_networks
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import Pretrained
from hetopt.proofs.asrpt.all_placements import random_case
from hetopt.stages.mapping import GPUMapping, Mapper
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL, PROVEN
from hetopt.traces.pai_generator import PAILike

Case = tuple[Pipeline, Servers]
SIZES = [(8, 8, 12), (16, 4, 16)]
CASES = 50
WITHIN = 0.01
"""Required distance of local search from the shortest iteration."""

IN_TIME = 0.0085
"""Time limit in seconds of the local search, which begins no step after it and so stays under 10 ms."""


def patterns(name: str, gpus: int, cases: int) -> list[Case]:
    """Cases of Table II: a network's job on servers with 1 to 8 free V100s each, in total as many as it needs."""
    pipeline = Pipeline.of(networks.configuration(name, gpus))
    rng, made = np.random.default_rng(gpus), []
    while len(made) < cases:
        free: list[int] = []
        while sum(free) < gpus:
            free.append(int(min(rng.integers(1, 9), gpus - sum(free))))
        made.append((pipeline, Servers.alike(free, gpus=8)))
    return made


def timed(mapper: Mapper, cases: list[Case]) -> tuple[list[GPUMapping], list[float]]:
    """The mappings, and wall seconds of each, graph and model included."""
    found, seconds = [], []
    for pipeline, servers in cases:
        began = time.perf_counter()
        found.append(mapper(pipeline, servers))
        seconds.append(time.perf_counter() - began)
    return found, seconds


def spread(values: list[float]) -> str:
    """Median, 95th percentile and maximum."""
    return f"{np.median(values):.4g} / {np.quantile(values, 0.95):.4g} / {max(values):.4g}"


@pytest.mark.parametrize(("name", "gpus", "seconds"), [("vgg19", 16, 0.002), ("gpt-175b", 64, 0.001)])
def test_table_2(benchmark: BenchmarkFixture, full: bool, name: str, gpus: int, seconds: float) -> None:
    """Heavy-Edge against the exact program: iteration and computation time, over 20 patterns of free GPUs."""
    cases = patterns(name, gpus, 20 if full else 2)
    ring, again = asrpt.HeavyEdge(), count()
    benchmark.pedantic(lambda: ring(*cases[next(again) % len(cases)]), rounds=5 * len(cases) if full else 1)
    heavy, heavy_seconds = timed(ring, cases)
    exact, exact_seconds = timed(asrpt.MinimumAlpha(), cases)
    local, local_seconds = timed(asrpt.LocalSearch(), cases)
    for h, e, s in zip(heavy, exact, local, strict=True):
        assert e.bound is not None
        assert e.bound == pytest.approx(e.iteration_seconds, rel=2 * EQUAL)
        assert e.iteration_seconds <= s.iteration_seconds * (1 + EQUAL)
        assert s.iteration_seconds <= h.iteration_seconds * (1 + PROVEN)
    means = [statistics.mean(float(m.iteration_seconds) for m in found) for found in (heavy, exact, local)]
    benchmark.extra_info |= {
        "goal_s": seconds,
        "iteration s: Heavy-Edge, exact, local": [f"{m:.5g}" for m in means],
        "iteration, Heavy-Edge / exact": f"{means[0] / means[1]:.4f}",
        "computation s: Heavy-Edge": spread(heavy_seconds),
        "computation s: exact": spread(exact_seconds),
        "computation s: local": spread(local_seconds),
        "computation, exact / Heavy-Edge": f"{statistics.mean(exact_seconds) / statistics.mean(heavy_seconds):.1f}",
    }


@pytest.mark.parametrize("size", SIZES, ids=lambda v: f"{v[0]}x{v[1]}on{v[2]}")
def test_mappings_of_random_jobs(benchmark: BenchmarkFixture, full: bool, size: tuple[int, int, int]) -> None:
    """Both exact programs, proven, with local search and Heavy-Edge for comparison."""
    cases = [random_case(np.random.default_rng([seed, size[0]]), *size) for seed in range(CASES if full else 2)]
    alpha, alpha_seconds = timed(asrpt.MinimumAlpha(), cases)
    cut, cut_seconds = timed(asrpt.MinimumCut(), cases)
    heavy, _ = timed(asrpt.HeavyEdge(), cases)
    again = count()
    benchmark.pedantic(
        lambda: asrpt.LocalSearch()(*cases[next(again) % len(cases)]), rounds=3 * len(cases) if full else 1
    )
    local, local_seconds = timed(asrpt.LocalSearch(), cases)
    hurried, hurried_seconds = timed(asrpt.LocalSearch(time_limit=IN_TIME), cases)
    for a, c, h, s in zip([*alpha, *alpha], [*cut, *cut], [*heavy, *heavy], [*local, *hurried], strict=True):
        assert a.bound == pytest.approx(a.iteration_seconds, rel=2 * EQUAL)
        assert c.bound == pytest.approx(c.cut_bytes, rel=2 * EQUAL)
        assert a.iteration_seconds <= min(m.iteration_seconds for m in (c, h, s)) * (1 + EQUAL)
        assert c.cut_bytes <= min(m.cut_bytes for m in (a, h, s)) * (1 + EQUAL)
    gaps, quick, theirs = (
        [float(s.iteration_seconds / a.iteration_seconds) - 1 for s, a in zip(found, alpha, strict=True)]
        for found in (local, hurried, heavy)
    )
    benchmark.extra_info |= {
        "exact alpha s": spread(alpha_seconds),
        "exact cut s": spread(cut_seconds),
        "local s": spread(local_seconds),
        "local within 1%": f"{np.mean(np.array(gaps) <= WITHIN):.2f}",
        "local with a time limit, s": spread(hurried_seconds),
        "local with a time limit, within 1%": f"{np.mean(np.array(quick) <= WITHIN):.2f}",
        "local gap, median / 95% / most": spread(gaps),
        "Heavy-Edge gap, median / 95% / most": spread(theirs),
        "Heavy-Edge gap, deciles": [f"{q:.2f}" for q in np.quantile(theirs, np.linspace(0.1, 0.9, 9))],
    }


def test_many_jobs(benchmark: BenchmarkFixture, full: bool) -> None:
    """A-SRPT on 250 servers of 8 GPUs: 150,000 jobs like those of PAI; a forest learns from as many that came before.

    Training is counted.
    """
    jobs = 150_000 if full else 2_000
    table = PAILike(load=0.5).table(2 * jobs, seed=0)
    catalogue = [job for name in networks.NAMES for job in networks.configurations(name)]
    whole = with_networks(table, catalogue, instances.load("asrpt/cluster250").cluster)
    past, coming = whole.jobs[:jobs], whole.jobs[jobs:]
    instance = hetopt.Instance(whole.cluster, jobs=coming, time=coming[0].arrival)
    policy = asrpt.ASRPT(predictor=Pretrained(RandomForest(retrain_every=10**9), past))
    found: list[hetopt.Log] = []
    benchmark.pedantic(lambda: found.append(hetopt.simulate(policy, instance)), rounds=1)
    log = found[-1].jobs
    assert (log["done"] == log["work"]).all()
    assert (log["start"] >= log["arrival"]).all()
    assert len(found[-1].spans) == jobs, "a job is interrupted"
    assert (found[-1].rounds["trained"] <= found[-1].rounds["held"] * (1 + EQUAL)).all()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes on Linux
    benchmark.extra_info |= {
        "goal_s": 180.0,
        "goal_GB": 2.0,
        "jobs": jobs,
        "mean jct s": f"{log['jct'].mean():.6g}",
        "most memory GB, generating included": f"{most:.2f}",
    }
