"""Tables of the page: numbers of all systems with their ranges over seeds, ratios, and results of papers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from hetopt.data.units import Unit
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.metrics.definitions import metric_of
from hetopt.presentation.formatting import column_format, format_number
from hetopt.presentation.pictures import line_key
from hetopt.presentation.style import SeriesStyle
from hetopt.presentation.tables import Cell, Column, Mark, Table, joined, number_cell, table_of

Styles = Mapping[str, SeriesStyle]
"""System -> its style."""

MAIN = {
    "jct_mean": "mean JCT",
    "jct_p99": "99th percentile of JCT",
    "makespan": "makespan",
    "ftf_{}_mean": "mean finish-time fairness",
    "starvation_max": "longest starvation",
    "switches_mean": "switches per job",
    "lost_share": "GPU time lost",
    "utilisation": "utilisation",
}
"""Metric of the first table -> its title; ``{}`` is the definition of finish-time fairness."""

ANSWER = ("jct_mean", "makespan", "ftf_{}_mean", "utilisation")
"""Metrics of the answer at the top of the page."""

MORE = {
    "ftf_{}_max": "largest finish-time fairness",
    "gru": "GRU",
    "cru": "CRU",
    "decision_mean": "mean time of a decision",
}
"""Metrics that are drawn, too."""


def titles_of(statistics: SeedStatistics, titles: Mapping[str, str], fairness: str) -> dict[str, str]:
    """Metric -> title, of those with values."""
    named = {metric.format(fairness): title for metric, title in titles.items()}
    return {metric: title for metric, title in named.items() if metric in statistics.metrics}


def system_cells(systems: Sequence[str], styles: Styles) -> list[Cell]:
    """The names of systems, each with a sample of its line."""
    return [Cell(name, key=line_key(name, styles[name])) for name in systems]


def numbers_table(
    statistics: SeedStatistics, titles: Mapping[str, str], styles: Styles, baseline: str | None = None
) -> Table:
    """Systems by metrics: means over seeds, with the range as a note; the best are marked.

    Parameters
    ----------
    titles:
        Metric -> heading of its column.
    baseline:
        If given, ratios to this system with the same seed, of which none is marked.
    """
    by_system = (statistics.ran if baseline is None else statistics.ratios(baseline)).groupby("system")
    mean, least, most, many = by_system.mean(), by_system.min(), by_system.max(), by_system.count()

    def column(metric: str, heading: str) -> tuple[Column, list[Cell]]:
        own, cells = metric_of(metric), []
        best = statistics.best(metric) if baseline is None else []
        unit = own.unit if baseline is None else Unit.NONE
        form = column_format([*mean[metric], *least[metric], *most[metric]], unit)
        for name in statistics.systems:
            known, runs = many[metric][name], len(statistics.seeds[name])
            several = known > 1 and name != baseline
            notes = [form.format_range(least[metric][name], most[metric][name])] if several else []
            notes += [f"{known} of {runs} seeds"] if known < runs else []
            cells.append(number_cell(mean[metric][name], form, Mark.BEST if name in best else None, notes))
        return Column(heading, form.name, own.meaning if baseline is None else ""), cells

    names = Column("system", text=True), system_cells(statistics.systems, styles)
    return joined(names, *(column(*pair) for pair in titles.items()))


def published_table(rows: pd.DataFrame) -> Table:
    """Published results beside those of runs, see :func:`hetopt.experiments.paper_comparison.compare_with_papers`."""
    numbers = [Column(name) for name in ("published", "here", "here / published")]
    columns = (
        *(Column(name, text=True) for name in ("result", "what", "systems")),
        *numbers,
        Column("note", text=True),
    )
    return table_of(columns, (_published(row) for row in rows.to_dict("records")))


def _published(row: Mapping[Hashable, Any]) -> list[Cell | str]:
    low, high, ours, ratio = (row[key] for key in ("claim", "claim_to", "ours_mean", "ratio_ours_over_claimed"))
    notes = []
    if row["pairs"] > 1:
        notes.append(f"{format_number(row['ours_min'])} \N{EN DASH} {format_number(row['ours_max'])}")
    if row["denominator"] and not low <= 1 <= high:
        notes.append(f"{'same' if (ours > 1) == (low > 1) and ours != 1 else 'other'} side of 1")
    return [
        row["id"],
        Cell(row["what"], notes=(f"{row['paper']}, {row['place']}",)),
        f"{' / '.join(filter(None, (row['numerator'], row['denominator'])))} on {row['workload']}",
        Cell(
            " to ".join(format_number(end) for end in dict.fromkeys((low, high))), low, (f"printed: {row['printed']}",)
        ),
        Cell(format_number(ours), ours, tuple(notes)),
        Cell(format_number(ratio), ratio, (f"{100 * (ratio - 1):+.0f} %",)),
        row["note"],
    ]


def best_systems(statistics: SeedStatistics, fairness: str, baseline: str) -> dict[tuple[str, ...], list[str]]:
    """Systems -> phrases such as ``makespan (3.2 h, 0.8 of fft)``, for metrics of the answer in which they are best."""
    found: dict[tuple[str, ...], list[str]] = {}
    for metric, title in titles_of(statistics, {key: MAIN[key] for key in ANSWER}, fairness).items():
        if best := statistics.best(metric):
            value = statistics.mean[metric][best[0]]
            form = column_format([value], metric_of(metric).unit)
            text = f"{form.format(value)} {form.name}".strip()
            if baseline not in best and metric_of(metric).unit is Unit.SECONDS:
                text += f", {format_number(statistics.ratios(baseline)[metric][best[0]].mean(), 2)} of {baseline}"
            found.setdefault(tuple(best), []).append(f"{title} ({text})")
    return found
