"""Progress of simulations in words and as bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hetopt.presentation.console import in_words, shown_until_done
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
        end_text(now.remaining),
    ]
    return ", ".join(words)


def end_text(seconds: float | None) -> str:
    """When work ends that takes these seconds more."""
    return "end unknown" if seconds is None else f"done in about {in_words(seconds)}"


class SimulationWork:
    """One simulation, whose progress is shown."""

    def __init__(self) -> None:
        self.now: SimulationProgress | None = None

    def update(self, now: SimulationProgress) -> None:
        """The progress has changed."""
        self.now = now

    def finish(self) -> None:
        """Show nothing more."""

    def line(self) -> str:
        """The progress in words."""
        return f"simulation: {'first decision' if self.now is None else progress_text(self.now)}"

    def __rich__(self) -> RenderableType:
        """The progress in words and as a bar."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        return Group(Text(self.line()), ProgressBar(1.0, 0.0 if self.now is None else self.now.part, width=40))


@contextmanager
def shown_progress() -> Iterator[ProgressFunction]:
    """Show the progress of one simulation, for ``hetopt.simulate(progress=True)``."""
    work = SimulationWork()
    with shown_until_done(work):
        yield work.update
