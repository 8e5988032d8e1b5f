"""Reading a log for metrics: jobs with work to do, columns, and the GPUs of each span."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from hetopt.checks import choices, expect
from hetopt.data.array_types import Floats, Positions
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, InvalidOption, MetricUnavailable
from hetopt.metrics.step_functions import merged
from hetopt.simulation.log import Log, check_job_window, in_window


@dataclass(frozen=True, eq=False)
class JobTimes:
    """Times of the n jobs that arrived with work to do, in seconds on the clock of the instance.

    Attributes
    ----------
    names:
        Their names, in the order of the log.
    at:
        (n,) their positions in ``instance.jobs``.
    arrival, start, finish:
        (n,) NaN where it did not happen.
    end:
        The last second of the log.
    done_before:
        Jobs of the log that had no work left at its beginning; they are not among the n.
    not_arrived:
        Jobs of the instance that arrive after the end of the log.
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
    def jct(self) -> Floats:
        """(n,) seconds from arrival to finish."""
        return np.asarray(self.finish - self.arrival)

    @cached_property
    def leaves(self) -> Floats:
        """(n,) finish, or the end of the log."""
        return np.where(self.finished, self.finish, self.end)

    @property
    def complete(self) -> bool:
        """Whether every job of the instance that had work to do has finished."""
        return bool(self.finished.all()) and not self.not_arrived


def job_times(log: Log, instance: Instance) -> JobTimes:
    """The times of the jobs with work to do in a log of ``instance``.

    Raises
    ------
    InvalidInstance
        The log has a job that the instance does not have, or its spans have one that its jobs do not have; the instance
        has no jobs.
    InvalidOption
        ``log`` is not a log.
    """
    expect(Log, log, "log", InvalidOption)
    position = expect(Instance, instance, "instance").entities("jobs").position
    for name in log.jobs.index:
        if name not in position:
            raise InvalidInstance(
                f"has job {name!r}, which the instance does not have; give the instance that was simulated", "log.jobs"
            )
    for name in log.spans["job"].unique():
        if name not in log.jobs.index:
            raise InvalidInstance(f"has job {name!r}, which log.jobs does not have", "log.spans")
    jobs = log.jobs_with_work
    return JobTimes(
        names=jobs.index,
        at=np.array([position[name] for name in jobs.index], dtype=np.intp),
        arrival=jobs["arrival"].to_numpy(dtype=float),
        start=jobs["start"].to_numpy(dtype=float),
        finish=jobs["finish"].to_numpy(dtype=float),
        end=end_of(log),
        done_before=len(log.jobs) - len(jobs),
        not_arrived=len(position) - len(log.jobs),
    )


def counted_times(log: Log, instance: Instance) -> JobTimes:
    """Those of :func:`job_times` in the log's ``job_window``, with their numbers of absent jobs.

    Raises
    ------
    InvalidOption
        The window is none of the jobs of the instance.
    """
    jobs = job_times(log, instance)
    if log.job_window is None:
        return jobs
    first, end = check_job_window(log.job_window, len(instance.jobs))
    mine = jobs.names.isin(log.counted_jobs.index)
    arrived = int(in_window(log.jobs["arrival"].to_numpy(dtype=float), log.job_window).sum())
    own: dict[str, Any] = {key: getattr(jobs, key)[mine] for key in ("names", "at", "arrival", "start", "finish")}
    own |= {"done_before": arrived - int(mine.sum()), "not_arrived": end - first - arrived}
    return replace(jobs, **own)


def held_intervals(log: Log, names: pd.Index[Any]) -> tuple[Positions, Floats, Floats]:
    """Positions in ``names``, starts and ends of the intervals with GPUs; simultaneous copies of a job count once."""
    who = names.get_indexer(pd.Index(log.spans["job"]))
    mine = who >= 0
    starts, ends = (log.spans[key].to_numpy(dtype=float)[mine] for key in ("start", "end"))
    return merged(who[mine], starts, ends)


def end_of(log: Log) -> float:
    """The last second of the log; NaN for an empty log without an end."""
    if not np.isnan(log.end):
        return log.end
    last = [log.rounds["end"].max(), log.spans["end"].max(), log.events["time"].max()]
    known = [float(time) for time in last if pd.notna(time)]
    return max(known, default=np.nan)


def column(log: Log, table: str, name: str) -> pd.Series[Any]:
    """A column of one of the log's tables.

    Raises
    ------
    MetricUnavailable
        The table does not have it, because the log was not written by this simulator.
    """
    frame: pd.DataFrame = getattr(log, table)
    if name not in frame:
        raise MetricUnavailable(
            f"log.{table} has no column {name!r}, which this metric needs; {choices(name, map(str, frame.columns))}"
        )
    return frame[name]


def joined_names(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names that ``text`` joins by ``+``; () if it is no such list. Names may contain a +."""
    if text in known:
        return (text,)
    for i, letter in enumerate(text):
        if letter == "+" and text[:i] in known and (rest := joined_names(text[i + 1 :], known)):
            return (text[:i], *rest)
    return ()


Names: TypeAlias = tuple[str, ...]
SpanSeats: TypeAlias = Mapping[str, Mapping[str, float]]
"""Server -> GPU type -> GPUs of a span; the server is "" where none was chosen."""


def types_of(log: Log, instance: Instance) -> list[Names]:
    """The GPU types of each span.

    Raises
    ------
    InvalidInstance
        A type that the cluster does not have.
    """
    return _named(log, "gpu_type", instance.cluster.type_names, "GPU types")


def servers_of(log: Log, instance: Instance) -> list[Names]:
    """The servers of each span; () if its job was not placed on servers.

    Raises
    ------
    InvalidInstance
        A server that the cluster does not have.
    """
    return _named(log, "servers", instance.cluster.by_name, "servers")


def _named(log: Log, column: str, known: Collection[str], what: str) -> list[Names]:
    seen: dict[str, Names] = {"": ()}
    for text in log.spans[column].unique().tolist():
        seen[text] = joined_names(text, known)
        if text and not seen[text]:
            raise InvalidInstance(
                f"has the {what} {text!r}, which the instance does not have; give the instance that was simulated",
                "log.spans",
            )
    return [seen[text] for text in log.spans[column]]


def by_type(log: Log, instance: Instance) -> Floats:
    """(spans, k) GPUs of each type; a row of NaN for a gang that is divided among several types in an unknown way.

    The column ``seats`` has the division. Logs of other programs may lack it: then types, servers and number of GPUs
    determine the division of a gang on one type, and on several types if its servers allow only one division.
    """
    if "seats" in log.spans:
        return _from_seats(log, instance)
    kinds, servers = types_of(log, instance), servers_of(log, instance)
    position = {t: k for k, t in enumerate(instance.cluster.type_names)}
    result = np.zeros((len(log.spans), len(position)))
    known: dict[object, dict[str, float] | None] = {}
    for row, own, hosts, gpus in zip(result, kinds, servers, log.spans["gpus"].tolist(), strict=True):
        key = (own, hosts, gpus)
        if key not in known:
            known[key] = {own[0]: gpus} if len(own) == 1 else _split(own, hosts, gpus, instance)
        split = known[key]
        if split is None:
            row[:] = np.nan
        else:
            row[[position[t] for t in split]] = list(split.values())
    return result


def seats_of(log: Log) -> list[SpanSeats]:
    """Server -> GPU type -> GPUs, of each span.

    Raises
    ------
    InvalidInstance
        The column ``seats`` has another format.
    """
    found: dict[str, SpanSeats] = {}
    for text in log.spans["seats"].unique().tolist():
        try:
            found[text] = seats_in(text)
        except ValueError as problem:
            raise InvalidInstance(f"has {problem}", "log.spans") from None
    return [found[text] for text in log.spans["seats"]]


def seats_in(text: str) -> SpanSeats:
    """Server -> GPU type -> GPUs, from one cell of the column ``seats``.

    Raises
    ------
    ValueError
        It has another format.
    """
    try:
        return {server: {t: float(n) for t, n in here.items()} for server, here in dict(json.loads(text)).items()}
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"the seats {text!r}, which are not JSON of server: type: GPUs") from None


def places(log: Log, instance: Instance) -> pd.DataFrame:
    """Columns of the spans with the GPUs of a gang; those without ``seats`` do not determine its division.

    A job that shares its GPUs counts half of each; its place has all of them.
    """
    spans = log.spans
    halved = 2 * spans["gpus"] == spans["job"].map({job.name: job.demand for job in instance.jobs if not job.sizes})
    if "seats" in spans:
        seats = [_doubled(text) if half else text for text, half in zip(spans["seats"], halved, strict=True)]
        return pd.DataFrame({"seats": seats}, index=spans.index)
    return spans[["gpu_type", "servers"]].assign(gpus=spans["gpus"].where(~halved, 2 * spans["gpus"]))


@lru_cache(maxsize=4096)
def _doubled(text: str) -> str:
    seats = {server: {t: 2 * n for t, n in here.items()} for server, here in seats_in(text).items()}
    return json.dumps(seats, ensure_ascii=False, sort_keys=True)


def _from_seats(log: Log, instance: Instance) -> Floats:
    servers_of(log, instance)  # refuses servers that the instance does not have
    position = {t: k for k, t in enumerate(instance.cluster.type_names)}
    result = np.zeros((len(log.spans), len(position)))
    for row, kinds, seats in zip(result, types_of(log, instance), seats_of(log), strict=True):
        for t, n in (pair for here in seats.values() for pair in here.items()):
            if t not in kinds:
                raise InvalidInstance(
                    f"has the seats {json.dumps(seats)!r}, but the GPU types {'+'.join(kinds)!r}", "log.spans"
                )
            row[position[t]] += n
    return result


def _split(types: Names, servers: Names, gpus: float, instance: Instance) -> dict[str, float] | None:
    """GPUs of each type, if only one division of the GPUs uses all of these types and all of these servers."""
    least, most = dict.fromkeys(types, 0), dict.fromkeys(types, 0)
    for name in servers:
        here = {t: n for t, n in instance.cluster.by_name[name].gpus.items() if t in least}
        for t, n in here.items():
            least[t] += len(here) == 1
            most[t] += n
    least = {t: max(1, n) for t, n in least.items()}
    room = {t: most[t] - least[t] for t in types}
    rest, free = gpus - sum(least.values()), [t for t in types if room[t] > 0]
    if not servers or (len(free) > 1 and 0 < rest < sum(room.values())):
        return None
    return {t: least[t] + (min(rest, room[t]) if rest > 0 else 0) for t in types}
