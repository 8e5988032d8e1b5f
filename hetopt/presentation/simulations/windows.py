"""Which stretch of time is drawn job by job: what is asked for, or the one in which jobs ask for most GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.metrics.log_reading import end_of
from hetopt.presentation.simulations.loaded_runs import with_work
from hetopt.presentation.simulations.time_series import begin_of
from hetopt.simulation.log import Log
from hetopt.tolerances import PROVEN

SHORTEST, LONGEST = 3600.0, 4 * 3600.0
"""Seconds of a window that nobody asked for: rounds of some minutes can be read."""

UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds in what may stand behind a time."""

RULE = (
    "the stretch in which the jobs that are present, running or waiting, ask for most GPUs, over all systems drawn "
    "together; a quarter of the whole time, but from 1 to 4 hours; the first where there are several"
)
"""How the window is chosen, as the page says it."""


def parse(text: str) -> tuple[float, float]:
    """``2h:6h`` as seconds; numbers alone are seconds.

    Raises
    ------
    InvalidOption
        Something else, or an end that is not after its beginning.
    """
    times = [re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", part) for part in text.split(":")]
    known = [float(t[1]) * UNITS[t[2]] for t in times if t is not None and t[2] in UNITS]
    if len(times) != 2 or len(known) != 2:
        raise InvalidOption(f"window is {text!r}; it must be START:END in seconds or with a unit, such as 2h:6h")
    if not known[0] < known[1] < math.inf:
        raise InvalidOption(f"window is {text!r}; its end must be after its start")
    return known[0], known[1]


def inside(window: tuple[float, float], logs: Iterable[Log], what: str) -> tuple[float, float]:
    """The window, if something of the logs lies in it.

    Raises
    ------
    InvalidOption
        It begins after the last of them or ends before the first.
    """
    every = list(logs)
    first, last = min(map(begin_of, every)), max(map(end_of, every))
    if window[0] >= last or window[1] <= first:
        raise InvalidOption(
            f"window is {window[0]:g}:{window[1]:g} seconds, and {what} lasts from {first:g} to {last:g}; "
            "choose one that lies in it"
        )
    return window


def asked(logs: Iterable[Log]) -> tuple[Floats, Floats, Floats]:
    """From when until when each job of the logs was present, in seconds, and for how many GPUs it asks."""
    begins, ends, gpus = [], [], []
    for log in logs:
        jobs = with_work(log)
        finish = jobs["finish"].to_numpy(dtype=float)
        begins.append(jobs["arrival"].to_numpy(dtype=float))
        ends.append(np.where(np.isnan(finish), end_of(log), finish))
        gpus.append(jobs["demand"].to_numpy(dtype=float))
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(gpus)


def busiest(logs: Iterable[Log], length: float | None = None) -> tuple[float, float]:
    """The stretch of this length in which the jobs that are present ask for most GPU-seconds.

    By default it is a quarter of the time of all logs, but at least an hour and at most four. It begins where the GPUs
    that are asked for change, or ends there: in between the sum is linear in time, so that no other stretch has more.
    All of the logs where they are not longer. Of equals the first.
    """
    every = list(logs)
    first, last = min(map(begin_of, every)), max(map(end_of, every))
    if length is None:
        length = min(max((last - first) / 4, SHORTEST), LONGEST)
    if not last - first > length:
        return first, last
    begins, ends, gpus = asked(every)
    times = np.unique(np.concatenate([begins, ends, [first, last]]))
    change = np.zeros(len(times))
    np.add.at(change, np.searchsorted(times, begins), gpus)
    np.add.at(change, np.searchsorted(times, ends), -gpus)
    until = np.concatenate([[0.0], np.cumsum(change.cumsum()[:-1] * np.diff(times))])
    starts = np.unique(np.clip(np.concatenate([times, times - length]), first, last - length))
    area = np.interp(starts + length, times, until) - np.interp(starts, times, until)
    start = float(starts[int(np.argmax(area >= area.max() * (1 - PROVEN)))])
    return start, start + length
