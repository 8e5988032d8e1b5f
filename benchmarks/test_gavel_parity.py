"""Gavel's systems beside recorded results of Gavel's own simulator, for every policy and trace.

For each, relative differences of the mean, of the median, and (median over jobs) of the single job, of four variants
that switch off one cause of a difference after the other:

rules and solver:
    Plain rounds by the rules of the published simulator, with shares by the solver that it used.
rules:
    The same with hetopt's shares: the centre of the optimal ones.
as recorded:
    hetopt's simulator: rounds of equal length and continuous work; new jobs wait for shares as in Gavel's simulator.
as it comes:
    hetopt's system: new jobs get shares at once, as in Gavel's scheduler of real clusters.

Recorded times of water filling are those of its first program alone: the solver of its second one was absent.
``recorded_water_filling.csv`` has the times with it, see its first lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hetopt
from hetopt.decisions.rounders import ByPriority
from hetopt.decisions.system import OnChange, System
from hetopt.formulations.policies import Policy
from hetopt.models import systems

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from gavel_recorded import (
    ROUND,
    TYPES,
    differences,
    ecos_finish_time,
    ecos_makespan,
    ecos_max_min,
    first_that_fits,
    recorded_jobs,
    recorded_times,
)
from gavel_rounds import Rules, Shares, simulate_by_hand

FREE = hetopt.Overheads(transfer=False)


@dataclass(frozen=True)
class Case:
    """A policy: its name in Gavel, its system here, and its shares by ECOS."""

    recorded: str
    system: Callable[..., System]
    ecos: Callable[[], Shares] | None
    numbers: tuple[int, ...] = (100,)
    fill: bool = True


CASES = {
    "max-min": Case("max_min_fairness_perf", systems.gavel, lambda: ecos_max_min, (100, 120, 400)),
    "finish-time fairness": Case("finish_time_fairness_perf", systems.gavel_ftf, ecos_finish_time, (100, 120, 400)),
    "water filling": Case("water_filling", systems.gavel_water_filling, None),
    "makespan": Case("min_total_duration_perf", systems.gavel_makespan, lambda: ecos_makespan),
    "FIFO": Case("fifo_perf", systems.gavel_fifo, lambda: first_that_fits, (100, 400), fill=False),
}


def times_of(case: Case, number: int) -> pd.Series[float]:
    """Recorded completion times."""
    if case.recorded == "water_filling":
        path = Path(__file__).parent / "recorded_water_filling.csv"
        return pd.read_csv(path, comment="#", dtype={"job": str}).set_index("job")["jct_s"]
    return recorded_times(number, case.recorded)


def shares_of(policy: Policy) -> Shares:
    """A policy's shares, with its memory."""
    state = None

    def shares(now: hetopt.Instance) -> dict[str, list[float]]:
        nonlocal state
        found, state = policy(now, state)
        return dict(zip(found.entities.names, found.x.tolist(), strict=True))

    return shares


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of ECOS, as in Gavel
@pytest.mark.parametrize("name", CASES)
def test_beside_recorded_times(benchmark: BenchmarkFixture, full: bool, name: str) -> None:
    case = CASES[name]
    if not full and name != "FIFO":
        pytest.skip("make bench")
    benchmark.pedantic(lambda: None, rounds=1)
    for number in case.numbers if full else (100,):
        jobs, recorded = recorded_jobs(number), times_of(case, number)
        arrival, rules = pd.Series({job.name: job.arrival for job in jobs.jobs}), Rules(fill=case.fill)
        found: dict[str, pd.Series[float]] = {}
        if case.ecos is not None:
            found["rules and solver"] = pd.Series(simulate_by_hand(jobs, case.ecos(), ROUND, rules)) - arrival
        system = case.system()
        if isinstance(system.policy, OnChange):
            own = shares_of(system.policy.policy)
            found["our shares"] = pd.Series(simulate_by_hand(jobs, own, ROUND, rules)) - arrival
            waits = replace(case.system(allocation_seconds=1920.0), rounder=ByPriority(types=TYPES))
            found["as recorded"] = hetopt.simulate(waits, jobs, overheads=FREE).jobs["jct"]
        found["as it comes"] = hetopt.simulate(system, jobs, overheads=FREE).jobs["jct"]
        for variant, times in found.items():
            reached = differences(times, recorded)
            benchmark.extra_info[f"{number} jobs, {variant}"] = [f"{part:+.2%}" for part in reached]
        print(pd.DataFrame({k: differences(v, recorded) for k, v in found.items()}).T.map("{:+.2%}".format))
        exact = found.get("rules and solver")
        assert exact is None or differences(exact, recorded)[2] < 0.001
        assert found["as it comes"].mean() < recorded.mean()
