"""The metrics of a simulation as records: meaning, unit, and whether higher or lower is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from hetopt.checks import FrozenDict


class Unit(StrEnum):
    """Units of metrics."""

    NONE = "no unit"
    COUNT = "count"
    SECONDS = "seconds"
    PER_HOUR = "per hour"
    SPEEDUP_GPUS = "GPUs of speedup 1"

    @property
    def label(self) -> str:
        """Text after a number or in a heading; empty for counts and numbers without unit."""
        return "" if self in (Unit.NONE, Unit.COUNT) else self.value


class Better(Enum):
    """The better direction of a metric."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Theme(StrEnum):
    """Headings under which metrics are shown, in this order."""

    COMPLETION = "Completion"
    WAITING = "Waiting"
    FAIRNESS = "Finish-time fairness"
    MOVES = "Moves"
    UTILISATION = "Use of the cluster"
    TENANTS = "Tenants"
    DECISIONS = "Decisions"
    JOBS = "Jobs"
    OTHER = "Other numbers"


@dataclass(frozen=True)
class Metric:
    """A number of :func:`hetopt.metrics.summary`.

    Attributes
    ----------
    name:
        Its name in the summary and in stored runs.
    meaning:
        Description: a phrase without a full stop.
    unit:
        Its unit.
    better:
        Whether higher or lower values are better.
    theme:
        The heading under which it is shown.
    """

    name: str
    meaning: str
    unit: Unit
    better: Better
    theme: Theme

    @property
    def description(self) -> str:
        """Meaning and unit as a sentence."""
        return f"{self.meaning} ({self.unit})."


_IDEALS = {
    "exclusive": "the time alone in the whole cluster",
    "themis": "the time in 1/N of the cluster, N being the jobs present on average during its stay",
    "gavel": "the time with 1/n of every GPU type, n being the jobs present at each moment",
}
"""Definition of finish-time fairness -> the ideal time."""


def _fairness() -> Iterable[Metric]:
    for name, ideal in _IDEALS.items():
        of = f"completion times of finished jobs relative to {ideal}"
        for key, what, better in (
            ("mean", "Mean of the", Better.LOWER),
            ("max", "Largest of the", Better.LOWER),
            ("below_1", "Share below 1 of the", Better.HIGHER),
        ):
            yield Metric(f"ftf_{name}_{key}", f"{what} {of}", Unit.NONE, better, Theme.FAIRNESS)


def _all() -> Iterable[Metric]:
    lower, higher, neither = Better.LOWER, Better.HIGHER, Better.NEITHER
    none, count, seconds, per_hour, gpus = Unit.NONE, Unit.COUNT, Unit.SECONDS, Unit.PER_HOUR, Unit.SPEEDUP_GPUS
    jobs, completion, waiting, moves = Theme.JOBS, Theme.COMPLETION, Theme.WAITING, Theme.MOVES
    use, tenants, decisions = Theme.UTILISATION, Theme.TENANTS, Theme.DECISIONS

    yield Metric("jobs", "Jobs that arrived with work to do", count, neither, jobs)
    yield Metric("started", "Jobs that had GPUs at some time", count, neither, jobs)
    yield Metric("finished", "Jobs that finished", count, neither, jobs)
    yield Metric("unfinished", "Jobs that did not finish until the end of the log", count, neither, jobs)
    yield Metric("not_arrived", "Jobs that arrive after the end of the log", count, neither, jobs)

    mean_jct = "Mean completion time, from arrival to finish, of the finished jobs"
    yield Metric("jct_mean", mean_jct, seconds, lower, completion)
    yield Metric("jct_median", "Median completion time of the finished jobs", seconds, lower, completion)
    for percent in (95, 99):
        within = f"Completion time that {percent} % of the finished jobs do not exceed"
        yield Metric(f"jct_p{percent}", within, seconds, lower, completion)
    unless = "none while a job is unfinished"
    yield Metric("makespan", f"From the first arrival to the last finish; TTD; {unless}", seconds, lower, completion)
    yield Metric("total_completion", f"Sum of the finish times of all jobs; {unless}", seconds, lower, completion)
    yield Metric("total_flow", f"Sum of the completion times of all jobs; {unless}", seconds, lower, completion)

    queueing = "Mean time of a job without GPUs, from arrival to finish or the end of the log"
    yield Metric("queueing_mean", queueing, seconds, lower, waiting)
    start = "time from arrival to first start, or to the end of the log"
    yield Metric("starvation_mean", f"Mean {start}", seconds, lower, waiting)
    yield Metric("starvation_max", f"Longest {start}", seconds, lower, waiting)

    yield from _fairness()

    yield Metric("switches_mean", "Restarts on other GPUs per job", count, lower, moves)
    per_hour_present = "Restarts on other GPUs per job and hour that it is present"
    yield Metric("switches_per_hour", per_hour_present, per_hour, lower, moves)
    yield Metric("switches_per_round", "Restarts on other GPUs per decision", count, lower, moves)
    beneficial = "Share of the moves between GPU types that led to one on which the job is faster"
    yield Metric("beneficial", beneficial, none, higher, moves)
    lost = "Time of starting and moving"
    yield Metric("lost", f"{lost}, of all jobs together", seconds, lower, moves)
    yield Metric("lost_share", f"{lost} as a share of the time on GPUs, of all jobs together", none, lower, moves)
    wasted = "Mean share of what a job trained that was lost when servers failed"
    yield Metric("wasted_share", wasted, none, lower, moves)

    gru = "Part of the time from first arrival to last finish in which a GPU trains, over all GPUs"
    yield Metric("gru", gru, none, higher, use)
    cru = "Part of the length of all rounds in which a server trains, over all servers; needs a placer"
    yield Metric("cru", cru, none, higher, use)
    utilisation = "Part of the length of all rounds in which a GPU trains, over all GPUs"
    yield Metric("utilisation", utilisation, none, higher, use)

    yield Metric("throughput", "Mean normalised throughput of all tenants together", gpus, higher, tenants)
    estimated = "Mean normalised throughput of all tenants together, as the policy's allocations promised it"
    yield Metric("throughput_estimated", estimated, gpus, higher, tenants)
    deviation = "Shortfall of the actual throughput from the estimated one, relative to the estimated one"
    yield Metric("deviation", deviation, none, neither, tenants)
    sharing = "Least throughput of a tenant relative to that with its own part of every GPU type"
    yield Metric("sharing", sharing, none, higher, tenants)
    envy = "Largest gain of a tenant with another's GPUs, as a part of its rate with all; 0: none"
    yield Metric("envy", envy, none, lower, tenants)

    stragglers = "GPUs of gangs over several GPU types per decision"
    yield Metric("stragglers", stragglers, count, lower, use)

    yield Metric("decision_mean", "Mean wall-clock time of a decision", seconds, lower, decisions)
    p99 = "Wall-clock time that 99 % of the decisions do not exceed"
    yield Metric("decision_p99", p99, seconds, lower, decisions)
    yield Metric("decision_max", "Longest wall-clock time of a decision", seconds, lower, decisions)

    changed = "Share of decisions after which a job is on GPUs that it did not have, or lost its own"
    yield Metric("changed", changed, none, neither, moves)
    yield Metric("altered", "Share of decisions that moved or stopped a running job", none, neither, moves)


METRICS: Mapping[str, Metric] = FrozenDict({metric.name: metric for metric in _all()})
"""Name -> metric, in the order of :func:`hetopt.metrics.summary`."""


def metric_of(name: str) -> Metric:
    """The metric of that name; for names unknown to this version, one without direction."""
    return METRICS.get(name) or Metric(name, "Not described", Unit.NONE, Better.NEITHER, Theme.OTHER)


def by_theme(names: Iterable[str]) -> dict[Theme, list[str]]:
    """Theme -> metrics among ``names`` that belong to it; empty themes are left out."""
    found: dict[Theme, list[str]] = {theme: [] for theme in Theme}
    for name in names:
        found[metric_of(name).theme].append(name)
    return {theme: own for theme, own in found.items() if own}
