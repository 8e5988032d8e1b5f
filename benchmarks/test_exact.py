"""Exact integer optima with their certificates: the search, the file, and the check of the file.

The optimum agrees with the float solver's, and the check must take no longer than the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families import Family
from pytest_benchmark.fixture import BenchmarkFixture
from test_fft import a_round

import hetopt
from hetopt.models import asrpt, fft, hadar, oef
from hetopt.programs.linear import LinearProgram
from hetopt.proofs.asrpt.all_placements import random_case
from hetopt.solving.optimising import run
from hetopt.tolerances import EQUAL, scale

POWERS = Family("generic", gangs="powers")
ALIKE = Family("few models", gangs="powers", work="equal", together=True)
SAME = replace(ALIKE, same=True)
ROUNDS = [((200, 3, 50), 1.0), ((1_000, 8, 250), 10.0), ((4_000, 8, 1_000), 60.0)]
"""Jobs, GPU types and GPUs, and seconds to reach."""


class Measured:
    """Seconds of the search, of writing and of the check, and the size of the file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "proof.vipr"
        self.rows: list[tuple[float, float, float, float]] = []
        self.late = 0

    def add(self, solve: Callable[[], hetopt.ExactOptimum], *what: Any) -> hetopt.ExactOptimum | None:
        """Solve, write, and check the file against the program ``what``."""
        began = time.perf_counter()
        try:
            exact = solve()
        except hetopt.NotSolved as problem:
            if problem.status != "time_limit":
                raise
            self.late += 1
            return None
        searched = time.perf_counter()
        exact.write(self.file, overwrite=True)
        written = time.perf_counter()
        assert hetopt.check(self.file).proven
        checked = time.perf_counter()
        assert hetopt.check(self.file, *what).optima == exact.optima
        size = self.file.stat().st_size / 10**6
        self.rows.append((searched - began, written - searched, checked - written, size))
        return exact

    def info(self) -> dict[str, str]:
        """Median and worst of each."""
        names = ("search, s", "writing, s", "check, s", "file, MB")
        table = np.array(self.rows)
        found = {
            name: f"median {np.median(values):.2f}, worst {values.max():.2f}"
            for name, values in zip(names, table.T, strict=True)
        }
        return {**found, "solved": f"{len(self.rows)} of {len(self.rows) + self.late}"}


def solved(formulation: Any, instance: hetopt.Instance, limit: float) -> hetopt.ExactOptimum:
    """The exact optimum, which agrees with the one in floats."""
    certificate = hetopt.solve(formulation, instance, exact=True, time_limit=limit).certificate
    assert certificate.exact is not None
    return certificate.exact


@pytest.mark.parametrize("family", [POWERS, ALIKE, SAME], ids=["generic", "alike", "same"])
@pytest.mark.parametrize(("size", "seconds"), ROUNDS, ids=["200x3", "1000x8", "4000x8"])
def test_exact_round(
    benchmark: BenchmarkFixture, full: bool, tmp_path: Path, family: Family, size: tuple[int, int, int], seconds: float
) -> None:
    """Both stages of FFT's round; also with jobs of six models, the same or alike up to the rounding of floats."""
    measured = Measured(tmp_path)
    seeds = range((20 if size[0] < 4_000 else 3) if full else 1)
    for seed in seeds:
        instance, state = a_round(family, seed, *(size if full else (60, 3, 40)))
        if family is not POWERS:
            state = replace(state, rho={}, last={})
        formulation = fft.FFT().formulation(instance, state)
        exact = measured.add(partial(solved, formulation, instance, 10 * seconds), formulation, instance)
        if exact is not None:
            known = hetopt.solve(formulation, instance).certificate
            assert float(exact.objective) >= known.objective - EQUAL * scale(known.objective)
            assert float(exact.objective) <= known.bound + EQUAL * scale(known.bound)
    benchmark.extra_info |= {"to reach, s": seconds, **measured.info()}
    benchmark.pedantic(lambda: solved(formulation, instance, 10 * seconds), rounds=1)


def program_of(model: Any) -> LinearProgram:
    return hetopt.from_pyomo(model)


def proven(program: LinearProgram, limit: float) -> hetopt.ExactOptimum:
    return hetopt.exact_optimum(run(program, hetopt.Options(gap=0.0)), hetopt.Options(time_limit=limit))


def measure_all(benchmark: BenchmarkFixture, folder: Path, programs: Sequence[LinearProgram], limit: float) -> None:
    measured = Measured(folder)
    for program in programs:
        exact = measured.add(partial(proven, program, limit), program)
        if exact is not None:
            float_one = run(program, hetopt.Options(gap=0.0)).objective
            assert abs(float(exact.objective) - float_one) <= EQUAL * scale(float_one)
    benchmark.extra_info |= {"to reach, s": limit, **measured.info()}
    benchmark.pedantic(lambda: proven(programs[0], limit), rounds=1)


def test_exact_mapping(benchmark: BenchmarkFixture, full: bool, tmp_path: Path) -> None:
    """A-SRPT: 8 stages of up to 8 replicas on 12 servers. To reach: 18 of 20 in 30 s."""
    cases = [random_case(np.random.default_rng([seed, 8]), 8, 8, 12) for seed in range(20 if full else 1)]
    measure_all(benchmark, tmp_path, [program_of(asrpt.MinimumAlpha().build(*case)) for case in cases], 30.0)


def test_exact_slots(benchmark: BenchmarkFixture, full: bool, tmp_path: Path) -> None:
    """Hadar's P1: 6 jobs, 5 slots, 2 servers with 2 types."""
    programs = []
    for seed in range(20 if full else 1):
        draw = np.random.default_rng(seed)
        servers = (hetopt.Server("s0", {"G0": 2, "G1": 1}), hetopt.Server("s1", {"G0": 1, "G1": 2}))
        cluster = hetopt.Cluster((hetopt.GPUType("G0"), hetopt.GPUType("G1")), servers)
        jobs = tuple(
            hetopt.Job(
                f"j{i}",
                {"G0": float(draw.uniform(1, 2)), "G1": float(draw.uniform(1, 4))},
                float(draw.uniform(2, 8)),
                int(draw.integers(1, 4)),
                float(draw.integers(0, 2)),
            )
            for i in range(6 if full else 3)
        )
        problem = hadar.OfflineProblem.of(hetopt.Instance(cluster, jobs=jobs), 5 if full else 3, 1.0)
        programs.append(program_of(hadar.TimeIndexed().build(problem)))
    measure_all(benchmark, tmp_path, programs, 60.0)


def test_exact_market(benchmark: BenchmarkFixture, full: bool, tmp_path: Path) -> None:
    """Cooperative OEF with 100 tenants and 10 types, all 9,900 envy rows in the file."""
    n, k = (100, 10) if full else (12, 3)
    measured = Measured(tmp_path)
    for seed in range(5 if full else 1):
        draw = np.random.default_rng(seed)
        speeds = np.round(np.column_stack([np.ones(n), np.sort(draw.uniform(1, 10, (n, k - 1)), axis=1)]), 3)
        instance = hetopt.Instance.from_speedups(speeds, capacity=[n // 2] * k)
        measured.add(partial(solved, oef.cooperative(), instance, 60.0), oef.cooperative(), instance)
    benchmark.extra_info |= {"to reach, s": 5.0, **measured.info()}
    benchmark.pedantic(lambda: solved(oef.cooperative(), instance, 60.0), rounds=1)
