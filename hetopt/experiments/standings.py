"""Who did how well over all seeds: means with their spread, the best, and ratios to one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from hetopt.checks import choices
from hetopt.errors import UnknownName
from hetopt.metrics.overall import DEFINITIONS

RUN = ("workload", "system", "seed", "refused", "round_seconds")
"""Columns of :meth:`hetopt.experiments.store.Store.table` that are no metrics."""

THEMES: dict[str, tuple[str, ...]] = {
    "Completion": ("jct_", "makespan", "total_completion", "total_flow"),
    "Waiting": ("queueing_", "starvation_"),
    "Finish-time fairness": ("ftf_",),
    "Moves": ("switches_", "beneficial", "lost", "lost_share", "wasted_share", "changed", "altered"),
    "Use of the cluster": ("gru", "cru", "utilisation", "stragglers"),
    "Tenants": ("throughput", "throughput_estimated", "deviation", "sharing", "envy"),
    "Decisions": ("decision_",),
    "Jobs": ("jobs", "started", "finished", "unfinished", "not_arrived"),
}
"""Heading -> metrics that stand below it: names, or how they begin."""

OTHERS = "Other numbers"
"""Heading of metrics that no theme names."""

HIGHER = ("_below_1", "beneficial", "gru", "cru", "utilisation", "throughput", "throughput_estimated", "sharing")
"""Metrics, or how they end, of which more is better."""

NEITHER = ("jobs", "started", "finished", "unfinished", "not_arrived", "changed", "altered", "deviation")
"""Metrics of which neither more nor less is better by itself."""


def themes(metrics: Iterable[str]) -> dict[str, list[str]]:
    """Heading -> those of ``metrics`` that stand below it, each once; empty headings are left out."""
    found: dict[str, list[str]] = {heading: [] for heading in (*THEMES, OTHERS)}
    for metric in metrics:
        found[next((h for h, own in THEMES.items() if _is_of(metric, own)), OTHERS)].append(metric)
    return {heading: own for heading, own in found.items() if own}


def _is_of(metric: str, names: tuple[str, ...]) -> bool:
    return any(metric == name or (name.endswith("_") and metric.startswith(name)) for name in names)


def better(metric: str) -> int:
    """1 where more of a metric is better, -1 where less is, 0 where neither."""
    if metric in NEITHER or metric not in DEFINITIONS:
        return 0
    return 1 if metric.endswith(HIGHER) else -1


def unit(metric: str) -> str:
    """The unit that the definition of a metric ends with; empty for ``no unit`` and for unknown ones."""
    named = re.search(r"\(([^()]+)\)\.?$", DEFINITIONS.get(metric, ""))
    return "" if named is None or named[1] == "no unit" else named[1]


def cell(frame: pd.DataFrame, system: str, metric: str) -> float:
    """A number of a table of systems and metrics."""
    return float(frame[metric].to_numpy(dtype=float)[frame.index.tolist().index(system)])


@dataclass(frozen=True, eq=False)
class Standings:
    """The runs of one workload, system by system.

    Attributes
    ----------
    table:
        Rows of :meth:`hetopt.experiments.store.Store.table` with this workload.
    """

    table: pd.DataFrame

    @cached_property
    def ran(self) -> pd.DataFrame:
        """The rows of runs that were not refused; index ``(system, seed)``, columns the metrics."""
        own = self.table[self.table["refused"].isna()].set_index(["system", "seed"])
        return own.drop(columns=[name for name in RUN if name in own]).astype(float).sort_index()

    @cached_property
    def mean(self) -> pd.DataFrame:
        """(systems, metrics) means over the seeds whose value is known; sorted by mean completion time, then name."""
        mean = self.ran.groupby("system").mean()
        return mean.sort_values("jct_mean", kind="stable") if "jct_mean" in mean else mean

    @cached_property
    def least(self) -> pd.DataFrame:
        """(systems, metrics) least value over the seeds."""
        return self.ran.groupby("system").min().reindex(self.mean.index)

    @cached_property
    def most(self) -> pd.DataFrame:
        """(systems, metrics) largest value over the seeds."""
        return self.ran.groupby("system").max().reindex(self.mean.index)

    @cached_property
    def known(self) -> pd.DataFrame:
        """(systems, metrics) number of seeds whose value is known."""
        return self.ran.groupby("system").count().reindex(self.mean.index)

    @property
    def systems(self) -> list[str]:
        """Those that ran, the one with the least mean completion time first."""
        return [str(name) for name in self.mean.index]

    @cached_property
    def seeds(self) -> dict[str, list[int]]:
        """System -> seeds that it ran with."""
        index = self.ran.index
        return {name: sorted(int(seed) for own, seed in index if own == name) for name in self.systems}

    @cached_property
    def metrics(self) -> list[str]:
        """Metrics that at least one system has."""
        return [str(name) for name in self.mean.columns[self.mean.notna().any()]]

    @cached_property
    def absent(self) -> list[str]:
        """Metrics that none has."""
        return [str(name) for name in self.mean.columns if name not in self.metrics]

    @cached_property
    def refused(self) -> dict[str, dict[int, str]]:
        """System -> seed -> why it did not run."""
        found: dict[str, dict[int, str]] = {}
        rows = self.table[self.table["refused"].notna()].sort_values(["system", "seed"])
        for system, seed, why in zip(rows["system"], rows["seed"], rows["refused"], strict=True):
            found.setdefault(str(system), {})[int(seed)] = str(why)
        return found

    def best(self, metric: str) -> list[str]:
        """Systems with the best mean of a metric, among those that have it for most seeds; none where nobody is."""
        sign = better(metric)
        whole = self.known[metric] == self.known[metric].max()
        mean = self.mean.loc[whole & self.mean[metric].notna(), metric]
        if not sign or mean.empty or mean.min() == mean.max():
            return []
        top = mean.max() if sign > 0 else mean.min()
        return [str(name) for name in mean.index[mean == top]]

    def baseline(self, name: str | None = None) -> str:
        """The system that others are compared with: ``name``, or ``fft`` where that ran, or else the first.

        Raises
        ------
        UnknownName
            It did not run.
        """
        if name is None:
            return "fft" if "fft" in self.systems else self.systems[0]
        if name not in self.systems:
            raise UnknownName(f"there is no system {name!r} to compare with; {choices(name, self.systems)}")
        return name

    def ratios(self, baseline: str) -> pd.DataFrame:
        """(system, seed) value of each metric over that of the baseline with the same seed.

        NaN where the baseline has 0 or did not run with that seed.
        """
        own = self.ran.loc[[baseline]].droplevel("system")
        base = own.where(own != 0).reindex(self.ran.index.get_level_values("seed"))
        return self.ran / base.set_axis(self.ran.index)
