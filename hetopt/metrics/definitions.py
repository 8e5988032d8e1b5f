"""The metrics of a simulation as records: meaning, unit, and whether higher or lower is better."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from math import inf

from hetopt.checks import FrozenDict
from hetopt.data.units import Better, Unit
from hetopt.tolerances import VISIBLE


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
    """A number that is measured, such as those in the summary, :func:`hetopt.metrics.summary`.

    Attributes
    ----------
    name:
        Its name in the summary and in stored runs.
    meaning:
        Description: a phrase without a full stop.
    unit:
        Its unit.
    title:
        Its heading in tables for people; empty: its name.
    better:
        Whether higher or lower values are better.
    theme:
        The heading under which it is shown.
    least, most:
        Bounds that the number should keep.
    """

    name: str
    meaning: str
    unit: Unit = Unit.NONE
    title: str = ""
    better: Better = Better.NEITHER
    theme: Theme = Theme.OTHER
    least: float = -inf
    most: float = inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    def is_violated(self, value: float) -> bool:
        """Whether the value is visibly out of the bounds."""
        return value < self.least - VISIBLE or value > self.most + VISIBLE

    @property
    def description(self) -> str:
        """Meaning and unit as a sentence."""
        return f"{self.meaning} ({self.unit})."


def _load() -> Iterator[Metric]:
    """Read ``metrics.csv``."""
    text = resources.files(__package__).joinpath("metrics.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        unit, better, theme = Unit(row["unit"]), Better(row["better"]), Theme(row["theme"])
        yield Metric(row["name"], row["meaning"], unit, row["title"], better, theme)


def by_name(*metrics: Metric) -> Mapping[str, Metric]:
    """Name -> metric, in the given order."""
    return FrozenDict({metric.name: metric for metric in metrics})


METRICS: Mapping[str, Metric] = by_name(*_load())
"""Name -> metric, in the order of :func:`hetopt.metrics.summary`."""


def metric_of(name: str) -> Metric:
    """The metric of that name; for names unknown to this version, one without direction."""
    return METRICS.get(name) or Metric(name, "Not described")


def by_theme(names: Iterable[str]) -> dict[Theme, list[str]]:
    """Theme -> metrics among ``names`` that belong to it; empty themes are left out."""
    found: dict[Theme, list[str]] = {theme: [] for theme in Theme}
    for name in names:
        found[metric_of(name).theme].append(name)
    return {theme: own for theme, own in found.items() if own}
