"""Progress of a simulation: facts, predictions, lines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from simulated import Shortest, fig_2
from waiting import until

from hetopt import simulate
from hetopt.errors import InvalidOption
from hetopt.presentation import console
from hetopt.presentation.simulation_progress import progress_text, shown_progress
from hetopt.simulation.progress import SimulationProgress, part_done
from hetopt.tolerances import EQUAL


def test_the_facts_are_those_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reported after every step: finished jobs and time as in the log, parts that grow to 1."""
    monkeypatch.setattr("hetopt.simulation.simulator.REPORT_SECONDS", 0.0)
    facts: list[SimulationProgress] = []
    log = simulate(Shortest(), fig_2(), progress=facts.append)
    for now in facts:
        assert now.finished == (log.jobs["finish"] <= now.simulated).sum()
        assert now.decisions == (log.events.loc[log.events["kind"] == "decide", "time"] <= now.simulated).sum()
        assert (now.part > 0) == (now.finished > 0)
        assert (now.remaining is None) == (now.finished == 0)
    assert [now.part for now in facts] == sorted(now.part for now in facts)
    assert (facts[-1].part, facts[-1].remaining, facts[-1].finished, facts[-1].jobs) == (1.0, 0.0, 3, 3)
    assert len({now.finished for now in facts}) == 4


def test_limits_are_predicted_too() -> None:
    facts: list[SimulationProgress] = []
    simulate(Shortest(round_seconds=60.0), fig_2(), until=240.0, progress=facts.append)
    assert facts[-1].part == 1.0
    simulate(Shortest(round_seconds=60.0), fig_2(), max_rounds=2, progress=facts.append)
    assert facts[-1].part == 1.0


PARTS = st.floats(0.001, 1.0)


@given(PARTS, PARTS, st.floats(0.1, 1e6))
def test_the_prediction_is_the_geometric_mean_of_those_by_jobs_and_by_work(
    jobs: float, work: float, spent: float
) -> None:
    now = SimulationProgress(0.0, 1, 9, 1, part_done(jobs, work), spent)
    both = math.sqrt(spent * (1 - jobs) / jobs) * math.sqrt(spent * (1 - work) / work)
    assert now.remaining == pytest.approx(both, rel=EQUAL, abs=EQUAL * spent)


def test_after_a_checkpoint_the_pace_is_that_of_this_process() -> None:
    before = SimulationProgress(100.0, 5, 10, 40, 0.5, seconds=1000.0)
    now = SimulationProgress(150.0, 7, 10, 60, 0.75, 1010.0, before)
    assert now.remaining == 10.0
    assert now.decisions_per_second == 2.0
    assert before.decisions_per_second == 0.04
    assert SimulationProgress(150.0, 5, 10, 60, 0.5, 1010.0, before).remaining is None


def test_the_words() -> None:
    now = SimulationProgress(273_600.0, 120, 400, 25_200, 0.5, 720.0)
    assert progress_text(now) == "3.17 d simulated, 120 of 400 jobs finished, 35 rounds/s, done in about 12 min"
    assert progress_text(SimulationProgress(300.0, 0, 4, 1, 0.0, 4.0)) == (
        "5 min simulated, 0 of 4 jobs finished, 0.25 rounds/s, end unknown"
    )


def test_without_a_terminal_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "LINE_SECONDS", 0.01)
    printed = ""

    def is_printed(text: str) -> bool:
        nonlocal printed
        printed += capsys.readouterr().err
        return text in printed

    with shown_progress() as report:
        until(lambda: is_printed("hetopt: simulation: first decision\n"), "a line before the first report")
        report(SimulationProgress(300.0, 1, 4, 8, 0.25, 4.0))
        line = "5 min simulated, 1 of 4 jobs finished, 2 rounds/s, done in about 12 s"
        until(lambda: is_printed(f"hetopt: simulation: {line}\n"), "a line with the facts")


def test_what_is_no_function_is_refused() -> None:
    with refused(InvalidOption, "progress"):
        simulate(Shortest(), fig_2(), progress=3)  # type: ignore[arg-type]


def test_short_simulations_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(Shortest(), fig_2(), progress=True)
    assert capsys.readouterr() == ("", "")
