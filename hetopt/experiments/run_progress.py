"""Progress of many simulations as values: which are done, how the others proceed, and when all will be done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from hetopt.experiments.run_store import RunKey, RunRecord
from hetopt.simulation.progress import SimulationProgress

ProgressCallback: TypeAlias = Callable[[RunKey, SimulationProgress | RunRecord | None], None]
"""Called with a run and its progress, with its record once it is stored, and with None if its policy failed."""


class RunsProgress:
    """Progress of a number of runs, in one process or several.

    The time of a run that has not begun is that of :func:`expected_seconds`.

    Parameters
    ----------
    runs:
        The runs.
    processes:
        Number of processes; 0: that of the running runs.
    earlier:
        Wall-clock seconds of runs that were stored before.
    clock:
        Seconds of wall-clock time.

    Attributes
    ----------
    done:
        Wall-clock seconds of each run that is done; failed runs have none.
    running:
        Progress of each run that has begun.
    """

    def __init__(
        self,
        runs: Iterable[RunKey],
        processes: int = 1,
        earlier: Mapping[RunKey, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs = tuple(runs)
        self.processes = min(processes, len(self.runs))
        self.earlier = dict(earlier or {})
        self.done: dict[RunKey, float | None] = {}
        self.running: dict[RunKey, SimulationProgress] = {}
        self._clock, self._began = clock, clock()

    def update(self, key: RunKey, now: SimulationProgress | RunRecord | None) -> None:
        """The progress of a run, as a :data:`ProgressCallback`."""
        if isinstance(now, SimulationProgress):
            if key not in self.done:  # else it is the last report of another process, which came late
                self.running[key] = now
            return
        self.running.pop(key, None)
        self.done[key] = now.seconds if now is not None and now.refused is None else None

    @property
    def seconds(self) -> float:
        """Wall-clock seconds so far."""
        return self._clock() - self._began

    @property
    def finished(self) -> float:
        """Number of finished runs, with the finished parts of those that run."""
        return len(self.done) + sum(now.part for now in list(self.running.values()))

    @property
    def remaining(self) -> float | None:
        """Wall-clock seconds until all runs are done; None: unknown.

        The seconds of all runs divided by the processes, but at least those of the longest run.
        """
        running = dict(self.running)
        done = {key: seconds for key, seconds in (self.earlier | self.done).items() if seconds is not None}
        begun = {key: now.seconds + now.remaining for key, now in running.items() if now.remaining is not None}
        expected = expected_seconds(done, begun)
        left = []
        for key in self.runs:
            if key in self.done:
                continue
            now = running.get(key)
            seconds = None if now is None else now.remaining
            if seconds is None:
                seconds = expected(key)
            if seconds is None:
                return None
            left.append(seconds)
        processes = self.processes or max(1, len(running))
        return max(sum(left) / processes, max(left)) if left else 0.0


def expected_seconds(
    done: Mapping[RunKey, float], begun: Mapping[RunKey, float] | None = None
) -> Callable[[RunKey], float | None]:
    """A function for the wall-clock seconds of a run that has not begun; None: unknown.

    It is the mean over the done runs of the same system on the same workload; if there are none, over those of the same
    system; then the mean of the predictions for running ones of the same system; then over all done, and all running
    ones.

    Parameters
    ----------
    done:
        Seconds of runs that are done.
    begun:
        Predicted seconds of runs that have begun.
    """
    running = begun or {}
    means: tuple[tuple[Callable[[RunKey], object], dict[object, float]], ...] = tuple(
        (alike, _means(known, alike))
        for known, alike in ((done, _case), (done, _system), (running, _system), (done, _any), (running, _any))
    )
    return lambda key: next((mean[alike(key)] for alike, mean in means if alike(key) in mean), None)


def _case(key: RunKey) -> object:
    return key.workload, key.system


def _system(key: RunKey) -> object:
    return key.system


def _any(_: RunKey) -> object:
    return None


def _means(known: Mapping[RunKey, float], alike: Callable[[RunKey], object]) -> dict[object, float]:
    """The mean of the known runs that are alike."""
    groups: dict[object, list[float]] = {}
    for key, seconds in known.items():
        groups.setdefault(alike(key), []).append(seconds)
    return {group: sum(values) / len(values) for group, values in groups.items()}


@dataclass(frozen=True)
class ProgressFile:
    """The progress of a run in a file, by which another process reports it; errors of the disk are ignored."""

    path: Path

    def write(self, now: SimulationProgress) -> None:
        """Replace the file."""
        draft = self.path.with_name(f".{self.path.name}.part")
        with suppress(OSError):
            draft.write_text(json.dumps(asdict(now)), encoding="utf-8")
            draft.replace(self.path)

    def read(self) -> SimulationProgress | None:
        """What the file has; None if there is none."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            earlier = found.pop("earlier")
            return SimulationProgress(**found, earlier=None if earlier is None else SimulationProgress(**earlier))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def remove(self) -> None:
        """Remove the file."""
        for path in (self.path, self.path.with_name(f".{self.path.name}.part")):
            with suppress(OSError):
                path.unlink(missing_ok=True)
