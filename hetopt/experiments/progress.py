"""How far a set of runs is, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hetopt import console
from hetopt.experiments.experiment import Watch
from hetopt.experiments.store import Key


@contextmanager
def progress(total: int) -> Iterator[Watch]:
    """A bar on standard error with an estimate of the time left."""
    columns = (
        TextColumn("{task.description:32}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.ERR, transient=True, disable=not console.ERR.is_terminal) as bar:
        task = bar.add_task("", total=float(total))
        done: dict[Key, float] = {}

        def watch(key: Key, part: float) -> None:
            done[key] = part
            bar.update(task, description=str(key), completed=sum(done.values()))

        yield watch
