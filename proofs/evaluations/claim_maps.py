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
from hetopt.proofs.evaluations.measures import ratios
from hetopt.tolerances import EQUAL

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
        The value while other axes are varied; all values of the load are combined with it.
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
    name, baselines:
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
    baselines: str
    metric: str
    readings: Mapping[str, Reading]
    printed: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "readings", FrozenDict(self.readings))

    def ratios(self, runs: pd.DataFrame, reading: Reading) -> list[float]:
        """The paper's system over the best of the others, one number for each seed; below 1 it is better.

        ``runs`` as of :meth:`~hetopt.experiments.run_store.RunStore.table`; seeds without one of the numbers are left
        out.
        """
        runs = runs.reindex(columns=["seed", "system", self.metric])  # without runs it has no metrics
        values = runs.astype({self.metric: float}).pivot_table(self.metric, "seed", "system")
        values = values.reindex(columns=[reading.ours, *reading.others]).dropna()
        ours, others = values[reading.ours], values[list(reading.others)]
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
    varied:
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
    varied: tuple[MapAxis, ...]
    headlines: tuple[Headline, ...]
    experiment: Callable[[Point, int, tuple[int, ...]], Experiment]
    jobs: int
    notes: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[MapAxis, ...]:
        """All axes."""
        return (self.load, *self.varied)

    def points(self) -> Iterator[Point]:
        """All points, each once."""
        usual = {axis.name: axis.usual for axis in self.varied}
        for load in self.load.values:
            at_load = {self.load.name: load, **usual}
            yield FrozenDict(at_load)
            for axis in self.varied:
                for value in axis.values:
                    if value != axis.usual:
                        yield FrozenDict(at_load | {axis.name: value})

    def parts(self, seeds: int = 1) -> tuple[EvaluationPart, ...]:
        """One part for each point.

        Raises
        ------
        InvalidOption
            No seed.
        """
        drawn = tuple(range(whole(seeds, "seeds", 1)))
        return tuple(
            EvaluationPart(point_name(point), "a point of a map", self.experiment(point, self.jobs, drawn), False)
            for point in self.points()
        )

    def table(self, stores: Mapping[str, RunStore]) -> pd.DataFrame:
        """One row for each point, headline and reading, with ``ratio`` (geometric mean over seeds), ``low``, ``high``.

        Headlines are there by their titles.

        Parameters
        ----------
        stores:
            Name of a point's part -> its runs.
        """
        rows = []
        for point in self.points():
            runs = stores[point_name(point)].table()
            for headline in self.headlines:
                for name, reading in headline.readings.items():
                    found = headline.ratios(runs, reading)
                    mean = exp(sum(map(log, found)) / len(found)) if found else nan
                    span = {"ratio": mean, "low": min(found, default=nan), "high": max(found, default=nan)}
                    rows.append({**point, "headline": headline.title, "reading": name, **span})
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
        only = self.limit == self.axis.values[-1 if self.at_least else 0]
        limit = "" if only else f"at {'least' if self.at_least else 'most'} "
        return self.axis.phrase.format(f"{limit}{self.axis.text(self.limit)}")


@dataclass(frozen=True)
class Region:
    """Where a system wins, in at most :data:`MOST_CONDITIONS` conditions.

    Attributes
    ----------
    points:
        Number of points.
    conditions:
        On different axes; empty: all points.
    winning:
        Whether the system wins where the conditions hold, and does not elsewhere; else the other way round.
    right:
        Number of points for which that is true.
    low, high:
        The least and the largest ratio.
    """

    points: int
    conditions: tuple[Condition, ...]
    winning: bool
    right: int
    low: float
    high: float


MOST_CONDITIONS = 2


def region(table: pd.DataFrame, axes: Sequence[MapAxis]) -> Region:
    """The description that is true of most points; of equals that with fewer conditions, then that of the wins.

    Parameters
    ----------
    table:
        Rows of one headline and reading, with the columns ``ratio`` and those of the axes; rows without a ratio are
        left out.
    """
    table = table.dropna(subset="ratio")
    wins = table["ratio"] < 1.0 - EQUAL
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
    return Region(len(table), chosen, winning, right, float(ratios.min()), float(ratios.max()))


def sentence(headline: Headline, reading: str, found: Region) -> str:
    """The region in a plain sentence."""
    given = f" ({reading})" if len(headline.readings) > 1 else ""
    if not found.points:
        return f"{headline.name} and {headline.baselines}{given}: no ratio is known."
    verb, otherwise = ("beats", "but not") if found.winning else ("does not beat", "but does")
    who, numbers = f"{headline.name} {verb} {headline.baselines}{given}", f"ratio {found.low:.2f} to {found.high:.2f}"
    if found.conditions:
        where = " and ".join(map(str, found.conditions))
        return f"{who} when {where}, {otherwise} otherwise: true of {found.right} of {found.points} points; {numbers}."
    if found.right == found.points:
        return f"{who} at {'every' if found.winning else 'any'} point; {numbers}."
    return f"{who} at {found.right} of {found.points} points, {otherwise} at the others; {numbers}."
