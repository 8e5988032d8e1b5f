"""What all metrics read of a log: the jobs that had work to do, and columns, or an error that says which is missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import choices, expect
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, InvalidOption, UnknownName
from hetopt.metrics.steps import Positions
from hetopt.simulation.log import Log


@dataclass(frozen=True, eq=False)
class Lives:
    """The n jobs that arrived with work to do. All times in seconds on the clock of the instance.

    Attributes
    ----------
    names:
        Their names, in the order of the log.
    at:
        (n,) their positions in ``instance.jobs``.
    arrival, start, finish:
        (n,) NaN where it has not come to pass.
    end:
        The last second of the log.
    done_before:
        Jobs of the log that had no work left when it began; they are not among the n.
    not_arrived:
        Jobs of the instance that the log does not reach.
    """

    names: pd.Index[Any]
    at: Positions
    arrival: Floats
    start: Floats
    finish: Floats
    end: float
    done_before: int
    not_arrived: int

    @cached_property
    def finished(self) -> Any:
        """(n,) whether it finished."""
        return ~np.isnan(self.finish)

    @cached_property
    def leaves(self) -> Floats:
        """(n,) when it finished, or the end of the log."""
        return np.where(self.finished, self.finish, self.end)

    @property
    def complete(self) -> bool:
        """Whether every job of the instance that had work to do has finished."""
        return bool(self.finished.all()) and not self.not_arrived


def lives(log: Log, instance: Instance) -> Lives:
    """The jobs of ``log``, which is one of ``instance``.

    Raises
    ------
    InvalidInstance
        The log has a job that the instance (its spans one that its jobs) does not have; the instance has no jobs.
    InvalidOption
        ``log`` is none.
    """
    expect(Log, log, "log", InvalidOption)
    position = expect(Instance, instance, "instance").entities("jobs").position
    for name in log.jobs.index:
        if name not in position:
            raise InvalidInstance(
                f"log.jobs has job {name!r}, which the instance does not have; give the instance that was simulated"
            )
    for name in log.spans["job"].unique():
        if name not in log.jobs.index:
            raise InvalidInstance(f"log.spans has job {name!r}, which log.jobs does not have")
    idle = (log.jobs["done"] >= log.jobs["work"]) & log.jobs["finish"].isna()
    jobs = log.jobs[~idle]
    return Lives(
        names=jobs.index,
        at=np.array([position[name] for name in jobs.index], dtype=np.intp),
        arrival=jobs["arrival"].to_numpy(dtype=float),
        start=jobs["start"].to_numpy(dtype=float),
        finish=jobs["finish"].to_numpy(dtype=float),
        end=end_of(log),
        done_before=int(idle.sum()),
        not_arrived=len(position) - len(log.jobs),
    )


def end_of(log: Log) -> float:
    """The last second of the log; NaN where nothing happened, and nobody says when it ended."""
    if not np.isnan(log.end):
        return log.end
    last = [log.rounds["end"].max(), log.spans["end"].max(), log.events["time"].max()]
    known = [float(time) for time in last if pd.notna(time)]
    return max(known, default=np.nan)


def column(log: Log, table: str, name: str) -> pd.Series[Any]:
    """A column of one of the log's tables.

    Raises
    ------
    UnknownName
        The table does not have it, because something else than this simulator wrote the log.
    """
    frame: pd.DataFrame = getattr(log, table)
    if name not in frame:
        raise UnknownName(
            f"log.{table} has no column {name!r}, which this metric needs; {choices(name, map(str, frame.columns))}"
        )
    return frame[name]


def parts(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names that are joined in ``text`` by ``+``; none where it is no such text. Names may have a + themselves."""
    if text in known:
        return (text,)
    for i, letter in enumerate(text):
        if letter == "+" and text[:i] in known and (rest := parts(text[i + 1 :], known)):
            return (text[:i], *rest)
    return ()
