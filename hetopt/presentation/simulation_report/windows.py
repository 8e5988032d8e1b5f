"""The window of time that Gantt charts show."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from hetopt.errors import InvalidOption
from hetopt.metrics.log_reading import end_of
from hetopt.metrics.step_functions import step_sums
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns
from hetopt.presentation.simulation_report.time_series import extent
from hetopt.simulation.log import Log
from hetopt.tolerances import PROVEN

Window = tuple[float, float]
"""Start and end in seconds."""

SHORTEST, LONGEST = 3600.0, 4 * 3600.0
"""Bounds in seconds of the length of the default window, in which rounds of some minutes are visible."""

UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Unit after a time -> seconds."""


def parse_window(text: str) -> Window:
    """Parse ``2h:6h`` to seconds; numbers without unit are seconds.

    Raises
    ------
    InvalidOption
        Another form, or an end that is not after the start.
    """
    times = [re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", part) for part in text.split(":")]
    known = [float(t[1]) * UNITS[t[2]] for t in times if t is not None and t[2] in UNITS]
    if len(times) != 2 or len(known) != 2:
        raise InvalidOption(f"is {text!r}; it must be START:END in seconds or with a unit, such as 2h:6h", "window")
    if not known[0] < known[1] < math.inf:
        raise InvalidOption(f"is {text!r}; its end must be after its start", "window")
    return known[0], known[1]


def windows_of(loaded: Mapping[str, LoadedRuns], wanted: Window | None) -> dict[str, Window | None]:
    """Workload -> the window of its charts; None where nothing ran or the wanted window shows nothing.

    Raises
    ------
    InvalidOption
        The wanted window overlaps no workload.
    """
    ran = {name: own.logs.values() for name, own in loaded.items() if own.logs}
    if wanted is None:
        return {name: busiest_window(ran[name]) if name in ran else None for name in loaded}
    every = {name: extent(logs) for name, logs in ran.items()}
    inside = [name for name, (first, last) in every.items() if wanted[0] < last and wanted[1] > first]
    if every and not inside:
        lasting = "; ".join(f"{name} lasts from {first:g} to {last:g}" for name, (first, last) in every.items())
        raise InvalidOption(f"is {wanted[0]:g}:{wanted[1]:g} seconds, and {lasting}; choose one within it", "window")
    return {name: wanted if name in inside else None for name in loaded}


def busiest_window(logs: Iterable[Log], length: float | None = None) -> Window:
    """The first window of this length in which the jobs present request most GPU-seconds.

    The default length is a quarter of the logs, between one and four hours; shorter logs are shown completely. The
    window starts or ends where the demand changes: in between its sum is linear in time, so no other is larger.
    """
    every = list(logs)
    first, last = extent(every)
    if length is None:
        length = min(max((last - first) / 4, SHORTEST), LONGEST)
    if not last - first > length:
        return first, last
    jobs = pd.concat([log.jobs_with_work.fillna({"finish": end_of(log)}) for log in every])
    begins, ends, gpus = (jobs[key].to_numpy(dtype=float) for key in ("arrival", "finish", "demand"))
    times = np.unique(np.concatenate([begins, ends, [first, last]]))
    demand = step_sums(np.searchsorted(times, begins), np.searchsorted(times, ends), gpus, len(times))
    until = np.concatenate([[0.0], np.cumsum(demand[:-1] * np.diff(times))])
    starts = np.unique(np.clip(np.concatenate([times, times - length]), first, last - length))
    area = np.interp(starts + length, times, until) - np.interp(starts, times, until)
    start = float(starts[int(np.argmax(area >= area.max() * (1 - PROVEN)))])
    return start, start + length
