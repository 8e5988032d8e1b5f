"""Statistics over seeds: means with their range, and ratios to a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from hetopt.checks import choices
from hetopt.errors import UnknownName
from hetopt.experiments.run_store import RUN_COLUMNS


@dataclass(frozen=True, eq=False)
class SeedStatistics:
    """Statistics of the runs of one workload by system.

    Attributes
    ----------
    table:
        Rows of :func:`hetopt.experiments.run_store.run_table` with this workload.
    """

    table: pd.DataFrame

    @cached_property
    def ran(self) -> pd.DataFrame:
        """Runs that were not refused; index ``(system, seed)``, columns the metrics."""
        own = self.table[self.table["refused"].isna()].set_index(["system", "seed"])
        return own.drop(columns=list(RUN_COLUMNS), errors="ignore").astype(float).sort_index()

    @cached_property
    def mean(self) -> pd.DataFrame:
        """(systems, metrics) means over the seeds with a value; sorted by mean completion time, then name."""
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
        """(systems, metrics) number of seeds with a value."""
        return self.ran.groupby("system").count().reindex(self.mean.index)

    @property
    def systems(self) -> list[str]:
        """Systems that ran, in order of mean completion time."""
        return [str(name) for name in self.mean.index]

    @cached_property
    def seeds(self) -> dict[str, list[int]]:
        """System -> its seeds, sorted."""
        return {name: self.ran.loc[name].index.tolist() for name in self.systems}

    @cached_property
    def metrics(self) -> list[str]:
        """Metrics with a value for at least one system."""
        return [str(name) for name in self.mean.columns[self.mean.notna().any()]]

    @cached_property
    def absent(self) -> list[str]:
        """Metrics without any value."""
        return [str(name) for name in self.mean.columns if name not in self.metrics]

    @cached_property
    def refused(self) -> dict[str, dict[int, str]]:
        """System -> seed -> why it did not run."""
        found: dict[str, dict[int, str]] = {}
        rows = self.table[self.table["refused"].notna()].sort_values(["system", "seed"])
        for system, seed, why in zip(rows["system"], rows["seed"], rows["refused"], strict=True):
            found.setdefault(str(system), {})[int(seed)] = str(why)
        return found

    def baseline(self, name: str | None = None) -> str:
        """The label of the system that others are compared with.

        Parameters
        ----------
        name:
            A label, or the name of a system: then its first variant. None: FFT if it ran, else the first system.

        Raises
        ------
        UnknownName
            It did not run.
        """
        wanted = "fft" if name is None else name
        if wanted in self.systems:
            return wanted
        names = self.table.drop_duplicates("system").set_index("system")["system_name"]
        if variants := [label for label in self.systems if names[label] == wanted]:
            return variants[0]
        if name is None:
            return self.systems[0]
        raise UnknownName(f"there is no system {name!r} to compare with; {choices(name, self.systems)}")

    def ratios(self, baseline: str) -> pd.DataFrame:
        """(system, seed) each metric relative to the baseline with the same seed.

        NaN if the baseline has 0 or did not run with that seed.
        """
        own = self.ran.loc[[baseline]].droplevel("system")
        base = own.where(own != 0).reindex(self.ran.index.get_level_values("seed"))
        return self.ran / base.set_axis(self.ran.index)
