"""The metrics of a simulation as records: meaning, unit, and whether higher or lower is better."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

from hetopt.checks import FrozenDict
from hetopt.data.units import Better, Unit


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
    """A metric in the summary, :func:`hetopt.metrics.summary`.

    Attributes
    ----------
    name:
        Its name in the summary and in stored runs.
    title:
        Its heading in tables for people; its name where the file has no other.
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
    title: str
    meaning: str
    unit: Unit
    better: Better
    theme: Theme

    @property
    def description(self) -> str:
        """Meaning and unit as a sentence."""
        return f"{self.meaning} ({self.unit})."


def _load() -> Iterator[Metric]:
    """Read ``metrics.csv``."""
    text = resources.files(__package__).joinpath("metrics.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        unit, better, theme = Unit(row["unit"]), Better(row["better"]), Theme(row["theme"])
        yield Metric(row["name"], row["title"] or row["name"], row["meaning"], unit, better, theme)


METRICS: Mapping[str, Metric] = FrozenDict({metric.name: metric for metric in _load()})
"""Name -> metric, in the order of :func:`hetopt.metrics.summary`."""


def metric_of(name: str) -> Metric:
    """The metric of that name; for names unknown to this version, one without direction."""
    return METRICS.get(name) or Metric(name, name, "Not described", Unit.NONE, Better.NEITHER, Theme.OTHER)


def by_theme(names: Iterable[str]) -> dict[Theme, list[str]]:
    """Theme -> metrics among ``names`` that belong to it; empty themes are left out."""
    found: dict[Theme, list[str]] = {theme: [] for theme in Theme}
    for name in names:
        found[metric_of(name).theme].append(name)
    return {theme: own for theme, own in found.items() if own}
