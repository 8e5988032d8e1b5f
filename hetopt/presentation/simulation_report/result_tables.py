"""Tables of the page: numbers of all systems with their ranges over seeds, ratios, and results of papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from hetopt.data.units import Unit
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.metrics.definitions import Metric, metric_of
from hetopt.presentation.formatting import ColumnFormat, column_format, format_number
from hetopt.presentation.style import SeriesStyle
from hetopt.presentation.tables import (
    Cell,
    Column,
    FilledColumn,
    Mark,
    Table,
    best_of,
    joined,
    number_cell,
    number_column,
    table_of,
)

Styles = Mapping[str, SeriesStyle]
"""System -> its style."""

MAIN = (
    "jct_mean",
    "jct_p99",
    "makespan",
    "ftf_{}_mean",
    "starvation_max",
    "switches_mean",
    "lost_share",
    "utilisation",
)
"""Metrics of the first table, also on the terminal; ``{}`` is the definition of finish-time fairness."""

ANSWER = ("jct_mean", "makespan", "ftf_{}_mean", "utilisation")
"""Metrics of the answer at the top of the page."""


def known_metrics(statistics: SeedStatistics, metrics: Iterable[str], fairness: str) -> list[str]:
    """Those of the metrics that have values."""
    return [name for metric in metrics if (name := metric.format(fairness)) in statistics.metrics]


def system_column(systems: Sequence[str], styles: Styles) -> FilledColumn:
    """The names of systems, each with a sample of its line."""
    return "system", [Cell(name, key=styles[name].key(name, line=True)) for name in systems]


def _form(metric: str, unit: Unit, *frames: pd.DataFrame) -> ColumnFormat:
    return column_format([value for frame in frames for value in frame[metric]], unit)


def best_names(statistics: SeedStatistics, metric: str) -> list[str]:
    """Systems with the best mean of a metric, as it is written, among the systems with most seeds."""
    own, known = metric_of(metric), statistics.known[metric]
    form = _form(metric, own.unit, statistics.mean, statistics.least, statistics.most)
    means = statistics.mean[metric].where(known == known.max()).tolist()
    return [statistics.systems[i] for i in best_of(means, own.better, form)]


def numbers_table(
    statistics: SeedStatistics,
    metrics: Sequence[str],
    *leading: FilledColumn,
    baseline: str | None = None,
    titles: bool = True,
    title: str = "",
) -> Table:
    """Systems by metrics: means over seeds, with their range as a note; the best are marked.

    Parameters
    ----------
    leading:
        The columns before, such as the names of the systems.
    baseline:
        If given, ratios to this system with the same seed, of which none is marked.
    titles:
        Whether titles of the metrics are the headings, rather than their names.
    """
    by_system = (statistics.ran if baseline is None else statistics.ratios(baseline)).groupby("system")
    mean, least, most, many = by_system.mean(), by_system.min(), by_system.max(), by_system.count()

    def column(own: Metric) -> tuple[Column, list[Cell]]:
        metric, cells = own.name, []
        unit = own.unit if baseline is None else Unit.NONE
        form = _form(metric, unit, mean, least, most)
        best = best_names(statistics, metric) if baseline is None else []
        for name in statistics.systems:
            known, runs = many[metric][name], len(statistics.seeds[name])
            ends = dict.fromkeys(form.format(frame[metric][name]) for frame in (least, most))
            notes = [" \N{EN DASH} ".join(ends)] if len(ends) > 1 else []
            notes += [f"{known} of {runs} seeds"] if known < runs else []
            cells.append(number_cell(mean[metric][name], form, Mark.BEST if name in best else None, notes))
        return Column(own.title if titles else metric, form.name, own.meaning if baseline is None else ""), cells

    return joined(*leading, *map(column, map(metric_of, metrics)), title=title)


def published_table(claims: pd.DataFrame) -> Table:
    """Published results beside those of runs, see :func:`hetopt.experiments.paper_comparison.compare_with_papers`."""
    rows = []
    for row in claims.to_dict("records"):
        low, high, ours, ratio = (row[key] for key in ("claim", "claim_to", "ours_mean", "ratio_ours_over_claimed"))
        notes = []
        if row["pairs"] > 1:
            notes.append(f"{format_number(row['ours_min'])} \N{EN DASH} {format_number(row['ours_max'])}")
        if row["denominator"] and not low <= 1 <= high:
            notes.append(f"{'same' if (ours > 1) == (low > 1) and ours != 1 else 'other'} side of 1")
        published = " to ".join(format_number(end) for end in dict.fromkeys((low, high)))
        cells = (
            row["id"],
            Cell(row["what"], notes=(f"{row['paper']}, {row['place']}",)),
            f"{' / '.join(filter(None, (row['numerator'], row['denominator'])))} on {row['workload']}",
            Cell(published, low, (f"printed: {row['printed']}",)),
            Cell(format_number(ours), ours, tuple(notes)),
            Cell(format_number(ratio), ratio, (f"{100 * (ratio - 1):+.0f} %",)),
            row["note"],
        )
        rows.append(cells)
    numbers = [Column(name) for name in ("published", "here", "here / published")]
    return table_of(("result", "what", "systems", *numbers, "note"), rows)


def best_systems(statistics: SeedStatistics, fairness: str, baseline: str) -> dict[tuple[str, ...], list[str]]:
    """Systems -> phrases such as ``makespan (3.2 h, 0.8 of fft)``, for metrics of the answer in which they are best."""
    found: dict[tuple[str, ...], list[str]] = {}
    for metric in known_metrics(statistics, ANSWER, fairness):
        if best := best_names(statistics, metric):
            value, own = statistics.mean[metric][best[0]], metric_of(metric)
            form = column_format([value], own.unit)
            text = f"{form.format(value)} {form.name}".strip()
            if baseline not in best and own.unit is Unit.SECONDS:
                text += f", {format_number(statistics.ratios(baseline)[metric][best[0]].mean(), 2)} of {baseline}"
            found.setdefault(tuple(best), []).append(f"{own.title} ({text})")
    return found


def systems_table(folder: RunFolder, styles: Styles) -> Table:
    """Systems with their settings, runs and time."""
    records = [[run.record for run in folder.runs if run.key.system == name] for name in folder.systems]
    ran = [[record for record in own if record.refused is None] for own in records]
    first = [own[0] for own in records]
    settings = [(one.settings.get("system_settings") or {}).items() for one in first]
    rounds = [one.round_seconds for one in first]
    return joined(
        system_column(folder.systems, styles),
        ("policy", [one.system_name for one in first]),
        ("settings", [", ".join(f"{key} = {value}" for key, value in own) or "default" for own in settings]),
        (Column("round", "s"), [Cell("at events" if s is None else f"{s:g}", s) for s in rounds]),
        (
            Column("runs", meaning="completed runs"),
            [Cell(f"{len(done)} of {len(own)}", len(done)) for done, own in zip(ran, records, strict=True)],
        ),
        number_column(
            "time",
            [sum(record.seconds for record in done) for done in ran],
            Unit.SECONDS,
            "wall-clock time of the completed runs together",
        ),
    )
