"""Maps of headline claims: at which points a paper's system beats its baselines, and in one sentence where.

A point is a value for each axis. Load is the horizontal axis of every map; each other axis is varied in turn, while the
rest have their usual values. At each point the systems run on the same jobs. A ratio below 1 means that the paper's
system is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, nan

import pandas as pd

from hetopt.checks import FrozenDict, whole
from hetopt.data.units import Better
from hetopt.experiments.experiment import Experiment
from hetopt.experiments.run_store import RunStore
from hetopt.metrics.definitions import METRICS
from hetopt.proofs.evaluations.evaluation import EvaluationPart
from hetopt.proofs.evaluations.measures import metric_values, ratios

Point = Mapping[str, float]
"""Name of an axis -> value."""


@dataclass(frozen=True)
class MapAxis:
    """A circumstance that maps vary.

    Attributes
    ----------
    name:
        Short name, as in tables and folders.
    title:
        What it is, for pictures.
    phrase:
        How a sentence states a value: ``"at least {}"`` and ``"at most {}"`` go into its braces.
    values:
        Ascending values.
    usual:
        The value while other axes are varied.
    percent:
        Whether values are printed as percentages.
    """

    name: str
    title: str
    phrase: str
    values: tuple[float, ...]
    usual: float
    percent: bool = False

    def text(self, value: float) -> str:
        """A value as text."""
        return f"{100 * value:g} %" if self.percent else f"{value:g}"


@dataclass(frozen=True)
class Reading:
    """One way to read what a paper leaves open of its baselines: the labels of the systems that it compares.

    Attributes
    ----------
    ours:
        The paper's system.
    others:
        Baselines; the best of them counts.
    """

    ours: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Headline:
    """A headline claim that one system is better than others.

    Attributes
    ----------
    claims:
        Ids of the claims.
    title:
        The claim in a few words.
    name, others:
        Names of the system and its baselines in sentences.
    metric:
        Metric of both.
    readings:
        Name -> reading of the baselines.
    printed:
        The paper's ratios, better over worse, ascending: one, or the ends of a range.
    """

    claims: tuple[str, ...]
    title: str
    name: str
    others: str
    metric: str
    readings: Mapping[str, Reading]
    printed: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "readings", FrozenDict(self.readings))

    def ratios(self, store: RunStore, reading: Reading) -> list[float]:
        """The paper's system over the best of the others, one number for each seed; below 1 it is better."""
        ours = metric_values(store, self.metric, reading.ours)
        others = pd.concat([metric_values(store, self.metric, label) for label in reading.others], axis=1)
        if METRICS[self.metric].better is Better.HIGHER:
            return list(ratios(others.max(axis=1), ours))
        return list(ratios(ours, others.min(axis=1)))


@dataclass(frozen=True)
class ClaimMaps:
    """The maps of a paper.

    Attributes
    ----------
    paper:
        Name of the paper.
    load:
        The horizontal axis of every map.
    others:
        The vertical axes.
    headlines:
        The claims.
    experiment:
        (point, number of jobs, seeds) -> the runs of all systems at this point.
    jobs:
        Number of jobs of each run.
    notes:
        What the maps rest on: cluster, jobs, what the axes mean.
    """

    paper: str
    load: MapAxis
    others: tuple[MapAxis, ...]
    headlines: tuple[Headline, ...]
    experiment: Callable[[Point, int, tuple[int, ...]], Experiment]
    jobs: int
    notes: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[MapAxis, ...]:
        """All axes."""
        return (self.load, *self.others)

    def points(self) -> Iterator[Point]:
        """All points, each once."""
        usual = {axis.name: axis.usual for axis in self.others}
        for load in self.load.values:
            at_load = {self.load.name: load, **usual}
            yield FrozenDict(at_load)
            for axis in self.others:
                for value in axis.values:
                    if value != axis.usual:
                        yield FrozenDict(at_load | {axis.name: value})

    def parts(self, seeds: int = 1, jobs: int | None = None) -> tuple[EvaluationPart, ...]:
        """One part for each point.

        Raises
        ------
        InvalidOption
            No seed, or fewer than 20 jobs.
        """
        number, drawn = (
            self.jobs if jobs is None else whole(jobs, "map-jobs", 20),
            tuple(range(whole(seeds, "seeds", 1))),
        )
        return tuple(
            EvaluationPart(point_name(point), "a point of a map", self.experiment(point, number, drawn), False)
            for point in self.points()
        )

    def table(self, stores: Mapping[str, RunStore]) -> pd.DataFrame:
        """One row for each point, headline and reading, with ``ratio`` (geometric mean over seeds), ``low``, ``high``.

        Parameters
        ----------
        stores:
            Name of a point's part -> its runs.
        """
        rows = []
        for point in self.points():
            store = stores[point_name(point)]
            for number, headline in enumerate(self.headlines):
                for name, reading in headline.readings.items():
                    found = headline.ratios(store, reading)
                    mean = exp(sum(map(log, found)) / len(found)) if found else nan
                    span = {"ratio": mean, "low": min(found, default=nan), "high": max(found, default=nan)}
                    rows.append({**point, "headline": number, "reading": name, **span})
        return pd.DataFrame(rows)


def point_name(point: Point) -> str:
    """Name of the point's folder."""
    return ",".join(f"{name}={value:g}" for name, value in point.items())


@dataclass(frozen=True)
class Condition:
    """A limit on an axis: values of at least, or at most, ``limit``."""

    axis: MapAxis
    limit: float
    at_least: bool

    def holds(self, table: pd.DataFrame) -> pd.Series[bool]:
        """Whether each row meets it."""
        values = table[self.axis.name]
        return values >= self.limit if self.at_least else values <= self.limit

    def __str__(self) -> str:
        return self.axis.phrase.format(f"at {'least' if self.at_least else 'most'} {self.axis.text(self.limit)}")


@dataclass(frozen=True)
class Region:
    """Where a system wins, in at most two conditions.

    Attributes
    ----------
    wins, points:
        Number of points at which it wins, and of all.
    conditions:
        On different axes; they describe the region of ``winning`` best; empty: everywhere.
    winning:
        Whether the region is that of its wins; else of its losses.
    right:
        Number of points for which that is true.
    low, high:
        The least and the largest ratio.
    """

    wins: int
    points: int
    conditions: tuple[Condition, ...]
    winning: bool
    right: int
    low: float
    high: float


MOST_CONDITIONS = 2


def region(table: pd.DataFrame, axes: Sequence[MapAxis]) -> Region:
    """The description that is true of most points; of equals the one with fewer conditions, then of the wins.

    Parameters
    ----------
    table:
        Rows of one headline and reading, with the columns ``ratio`` and those of the axes; rows without a ratio are
        left out.
    """
    table = table.dropna(subset="ratio")
    wins = table["ratio"] < 1.0
    limits = [
        Condition(axis, limit, above)
        for axis in axes
        for above in (True, False)
        for limit in sorted(set(table[axis.name]))[slice(1, None) if above else slice(None, -1)]
    ]
    best: tuple[int, tuple[Condition, ...], bool] = (-1, (), True)
    for size in range(MOST_CONDITIONS + 1):
        for chosen in combinations(limits, size):
            if len({condition.axis.name for condition in chosen}) < size:
                continue
            inside = pd.Series(True, index=table.index)
            for condition in chosen:
                inside &= condition.holds(table)
            if size and (inside.all() or not inside.any()):
                continue
            agree = int((inside == wins).sum())
            for right, winning in ((agree, True), (len(table) - agree, False)):
                same = len(best[1]) == size and right == best[0]
                if right > best[0] or (same and winning and not best[2]):
                    best = right, chosen, winning
    right, chosen, winning = best
    ratios = table["ratio"]
    return Region(int(wins.sum()), len(table), chosen, winning, right, float(ratios.min()), float(ratios.max()))


def sentence(headline: Headline, reading: str, found: Region) -> str:
    """The region in a plain sentence."""
    wins, loses = f"{headline.name} beats {headline.others}", f"{headline.name} loses to {headline.others}"
    given = f" ({reading})" if len(headline.readings) > 1 else ""
    numbers = f"ratio {found.low:.2f} to {found.high:.2f}"
    if not found.conditions:
        all_of = wins if found.winning else loses
        some = "at every point" if found.right == found.points else f"at {found.right} of {found.points} points"
        rest = "" if found.right == found.points else f", and {'loses' if found.winning else 'wins'} at the others"
        return f"{all_of}{given} {some}{rest}; {numbers}."
    verb, other = (wins, "loses otherwise") if found.winning else (loses, "wins otherwise")
    where = " and ".join(map(str, found.conditions))
    return f"{verb}{given} when {where}, and {other}: true of {found.right} of {found.points} points; {numbers}."
