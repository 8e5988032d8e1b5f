"""Progress of simulations in words and as bars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

from hetopt.checks import counted
from hetopt.experiments.experiment import Experiment
from hetopt.experiments.run_progress import ProgressCallback, RunsProgress
from hetopt.experiments.run_store import RunKey, RunRecord, RunStore
from hetopt.parallel import number_of_workers
from hetopt.presentation.console import in_words, note, shown_until_done
from hetopt.presentation.formatting import format_duration, format_number
from hetopt.simulation.progress import ProgressFunction, SimulationProgress

if TYPE_CHECKING:
    from rich.console import RenderableType


def progress_text(now: SimulationProgress) -> str:
    """The progress of one simulation in words."""
    words = [
        f"{format_duration(now.simulated)} simulated",
        f"{now.finished} of {now.jobs} jobs finished",
        f"{format_number(now.decisions_per_second, 2)} rounds/s",
        "end unknown" if now.remaining is None else f"done in about {in_words(now.remaining)}",
    ]
    return ", ".join(words)


class SimulationWork:
    """One simulation, whose progress is shown."""

    def __init__(self) -> None:
        self.now: SimulationProgress | None = None

    def update(self, now: SimulationProgress) -> None:
        """The progress has changed."""
        self.now = now

    def line(self) -> str:
        """The progress in words."""
        return f"simulation: {'first decision' if self.now is None else progress_text(self.now)}"

    def __rich__(self) -> RenderableType:
        """The progress in words and as a bar."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        return Group(Text(self.line()), ProgressBar(1.0, 0.0 if self.now is None else self.now.part, width=40))


WARNING_SECONDS = 3600.0
"""Commands that take at least this time are announced."""

PACE_SECONDS = 20.0
"""Wall-clock time after which the pace of runs is trusted, and between two checks of it."""

SHOWN = 4
"""Most running simulations in a line."""


class RunsWork:
    """Many simulations, whose progress is shown; a command that takes hours is announced once.

    ``what`` is the work in a few words.
    """

    def __init__(self, what: str, runs: RunsProgress) -> None:
        self.what, self.runs = what, runs
        self._announced, self._next_check = False, PACE_SECONDS
        self._named = 0
        self._announce_if_long("as earlier runs in the folder")

    def update(self, key: RunKey, now: SimulationProgress | RunRecord | None) -> None:
        """The progress of a run, as a :data:`~hetopt.experiments.run_progress.ProgressCallback`."""
        self.runs.update(key, now)
        if not self._announced and self.runs.seconds >= self._next_check:
            self._next_check = self.runs.seconds + PACE_SECONDS
            self._announce_if_long("at the present pace")

    def _announce_if_long(self, pace: str) -> None:
        seconds = self.runs.remaining
        if seconds is None or seconds < WARNING_SECONDS:
            return
        self._announced = True
        runs = counted(len(self.runs.runs) - len(self.runs.done), "run")
        processes = f"{self.runs.processes} process{'' if self.runs.processes == 1 else 'es'}"
        note(
            f"{self.what}: about {in_words(seconds)} {pace} ({runs}; {processes}); interrupt at any time, the same "
            "command continues"
        )

    def _head(self) -> str:
        number, remaining = len(self.runs.done), self.runs.remaining
        left = "end unknown" if remaining is None else f"about {in_words(remaining)} left"
        return f"{self.what}: {number} of {counted(len(self.runs.runs), 'run')}, {in_words(self.runs.seconds)}, {left}"

    def _running(self) -> list[str]:
        """The running simulations, those that take longest first."""
        running = sorted(self.runs.running.items(), key=lambda pair: -(pair[1].remaining or inf))
        words = [f"{key}: {progress_text(now)}" for key, now in running[:SHOWN]]
        return [*words, f"{len(running) - SHOWN} more"] if len(running) > SHOWN else words

    def line(self) -> str:
        """The state in words, with the newest run that is done, if there is one since the last call."""
        new = [*self.runs.done][self._named :]
        self._named += len(new)
        done = [f"newest: {key}" for key in new[-1:]]
        return "; ".join([self._head(), *done, *self._running()])

    def __rich__(self) -> RenderableType:
        """The state in words, the running simulations and a bar."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        rows = [Text(row, "dim", no_wrap=True, overflow="ellipsis") for row in self._running()]
        return Group(Text(self._head()), *rows, ProgressBar(len(self.runs.runs), self.runs.finished, width=40))


@contextmanager
def shown_runs(
    what: str, runs: Collection[RunKey], jobs: int | str, earlier: Mapping[RunKey, float]
) -> Iterator[RunsWork]:
    """Show the progress of many simulations; ``jobs`` as of ``--jobs``, ``earlier`` as of ``RunsProgress``."""
    workers = number_of_workers(jobs) if runs else 0
    if runs and not workers:
        note(f"{what}: no worker has joined {jobs} yet; runs begin when one does")
    work = RunsWork(what, RunsProgress(runs, workers, earlier))
    with shown_until_done(work):
        yield work


@contextmanager
def watched_runs(what: str, experiment: Experiment, store: RunStore, jobs: int | str) -> Iterator[ProgressCallback]:
    """Show the progress of the runs of an experiment that are missing in a store."""
    with shown_runs(what, [spec.key for spec in experiment.missing(store)], jobs, store.seconds()) as work:
        yield work.update


@contextmanager
def shown_progress() -> Iterator[ProgressFunction]:
    """Show the progress of one simulation, for ``hetopt.simulate(progress=True)``."""
    work = SimulationWork()
    with shown_until_done(work):
        yield work.update
