"""Gavel's systems beside recorded results of its own simulator; every policy: ``benchmarks/test_gavel_parity.py``.

Two steps, so that each difference has its switch. Plain rounds by Gavel's rules, with shares by the solver that it
used, give what was recorded; plain rounds of equal length with our shares give what our simulator does
(``test_gavel_rounds.py``).
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from gavel_recorded import ROUND, TYPES, differences, ecos_max_min, first_that_fits, recorded_jobs, recorded_times
from gavel_rounds import Rules, Shares, simulate_by_hand

import hetopt
from hetopt.decisions.rounders import ByPriority
from hetopt.models import systems

FREE = hetopt.Overheads(transfer=False)


def published(number: int, shares: Shares, rules: Rules) -> pd.Series[float]:
    """Completion times by the rules of the published simulator."""
    jobs = recorded_jobs(number)
    finish = pd.Series(simulate_by_hand(jobs, shares, ROUND, rules))
    return finish - pd.Series({job.name: job.arrival for job in jobs.jobs})


@pytest.mark.parametrize("number", [100, 400])
def test_published_rules_give_the_recorded_times_without_a_solver(number: int) -> None:
    times, recorded = published(number, first_that_fits, Rules(fill=False)), recorded_times(number, "fifo_perf")
    assert times.to_dict() == pytest.approx(recorded.to_dict(), abs=0.2)


def test_published_rules_give_the_recorded_times_with_the_same_solver() -> None:
    """To the 6 digits of the recorded throughputs."""
    times, recorded = published(120, ecos_max_min, Rules()), recorded_times(120, "max_min_fairness_perf")
    assert times.to_dict() == pytest.approx(recorded.to_dict(), abs=0.2)


def test_max_min_fairness_is_within_a_percent_and_its_median_job_within_two() -> None:
    """As recorded, new jobs wait for shares, and the types have Gavel's order. The system as it comes is no weaker."""
    as_recorded = replace(systems.gavel(allocation_seconds=1920.0), rounder=ByPriority(types=TYPES))
    for number in (100, 120):
        recorded = recorded_times(number, "max_min_fairness_perf")
        log = hetopt.simulate(as_recorded, recorded_jobs(number), overheads=FREE)
        mean, median, each = differences(log.jobs["jct"], recorded)
        assert abs(mean) < 0.01
        assert abs(median) < 0.02
        assert each < 0.02
        log = hetopt.simulate(systems.gavel(), recorded_jobs(number), overheads=FREE)
        assert log.jobs["jct"].mean() < recorded.mean()
