"""HTML tables of the page: numbers of all systems with their range; the markup has all digits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.metrics.definitions import by_theme, metric_of
from hetopt.presentation.formatting import MISSING, DisplayUnit, format_number
from hetopt.presentation.simulation_report.axes import unit_of
from hetopt.presentation.simulation_report.report_style import SystemStyle

HEAD = ("jct_mean", "jct_p99", "makespan", "starvation_max", "switches_mean", "lost_share", "utilisation")
"""Metrics of the first table, without finish-time fairness."""


def head_of(statistics: SeedStatistics, fairness: str) -> list[str]:
    """Metrics of the first table with values."""
    wanted = [*HEAD[:3], f"ftf_{fairness}_mean", *HEAD[3:]]
    return [metric for metric in wanted if metric in statistics.metrics]


def first_column(name: str, styles: Mapping[str, SystemStyle]) -> str:
    """A table cell with a system and a sample of its line."""
    return f"<th scope='row'>{styles[name].swatch()}{escape(name)}</th>"


def number_cell(value: float, unit: DisplayUnit, more: str = "", best: bool = False) -> str:
    """A table cell with a number, all digits of it in the markup; ``more``: HTML below it."""
    if pd.isna(value):
        return f"<td>{MISSING}</td>"
    kind = " class='best' title='best'" if best else ""
    return f"<td{kind}><data value='{float(value)!r}'>{unit.format(value)}</data>{more}</td>"


def numbers(statistics: SeedStatistics, metrics: Sequence[str], styles: Mapping[str, SystemStyle], caption: str) -> str:
    """Systems by metrics: mean over seeds, and below it the range."""
    units = {metric: unit_of(metric, statistics.most[metric]) for metric in metrics}
    best = {metric: statistics.best(metric) for metric in metrics}
    body = []
    for name in statistics.systems:
        cells = "".join(
            number_cell(
                statistics.mean[metric][name],
                units[metric],
                _spread(statistics, name, metric, units[metric]),
                name in best[metric],
            )
            for metric in metrics
        )
        body.append(f"<tr>{first_column(name, styles)}{cells}</tr>")
    head = "".join(_heading(metric, units[metric].name) for metric in metrics)
    return table(f"<th scope='col'>system</th>{head}", body, caption)


def _heading(metric: str, unit: str) -> str:
    title = escape(metric_of(metric).description, quote=True)
    name = escape(metric).replace("_", "_<wbr>")
    return f"<th scope='col' title='{title}'>{name}{f' <small>{escape(unit)}</small>' if unit else ''}</th>"


def _spread(statistics: SeedStatistics, name: str, metric: str, unit: DisplayUnit) -> str:
    """Range over seeds, and the number of seeds with a value if not all have one."""
    known, runs = statistics.known[metric][name], len(statistics.seeds[name])
    least, most = statistics.least[metric][name], statistics.most[metric][name]
    more = f"<small>{unit.format_range(least, most)}</small>" if known > 1 else ""
    return f"{more}<small>{known} of {runs} seeds</small>" if known < runs else more


def ratios(statistics: SeedStatistics, baseline: str, metrics: Sequence[str], styles: Mapping[str, SystemStyle]) -> str:
    """Systems by metrics, each relative to the baseline with the same seed."""
    each = statistics.ratios(baseline)[list(metrics)]
    by_system = each.groupby("system")
    mean, least, most, known = by_system.mean(), by_system.min(), by_system.max(), by_system.count()
    plain, body = DisplayUnit(), []
    for name in statistics.systems:
        cells = []
        for metric in metrics:
            spread = ""
            if name != baseline and known[metric][name] > 1:
                spread = f"<small>{plain.format_range(least[metric][name], most[metric][name])}</small>"
            cells.append(number_cell(mean[metric][name], plain, spread))
        body.append(f"<tr>{first_column(name, styles)}{''.join(cells)}</tr>")
    head = "".join(_heading(metric, "") for metric in metrics)
    caption = f"Over {baseline} with the same seed: mean of these ratios, and from the least to the largest."
    return table(f"<th scope='col'>system</th>{head}", body, escape(caption))


def all_numbers(statistics: SeedStatistics, styles: Mapping[str, SystemStyle]) -> str:
    """A table per theme, and the meaning of its columns."""
    parts = []
    for heading, metrics in by_theme(statistics.metrics).items():
        caption = f"{heading}: mean over seeds, and from the least to the largest."
        parts.append(f"<h4>{escape(heading)}</h4>{numbers(statistics, metrics, styles, caption)}{meaning(metrics)}")
    if statistics.absent:
        parts.append(f"<p class='quiet'>Not available for these systems: {escape(', '.join(statistics.absent))}.</p>")
    return "".join(parts)


def meaning(metrics: Sequence[str]) -> str:
    """Descriptions of metrics."""
    listed = "".join(
        f"<div><dt>{escape(metric)}</dt><dd>{escape(metric_of(metric).description)}</dd></div>" for metric in metrics
    )
    return f"<dl class='meaning'>{listed}</dl>"


def published(rows: pd.DataFrame) -> str:
    """Published results next to those of runs, see :func:`hetopt.experiments.paper_comparison.compare_with_papers`."""
    names = ("claim", "what", "workload", "systems", "printed", "as a ratio", "here", "here / claim", "note")
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    plain, body = DisplayUnit(), []
    for row in rows.to_dict("records"):
        pair = f"{row['numerator']} / {row['denominator']}" if row["denominator"] else row["numerator"]
        claimed = " to ".join(format_number(end) for end in dict.fromkeys((row["claim"], row["claim_to"])))
        words = (row["workload"], pair, row["printed"])
        spread = f"<small>{plain.format_range(row['ours_min'], row['ours_max'])}</small>" if row["pairs"] > 1 else ""
        place = f"<small>{escape(row['paper'])}, {escape(row['place'])}</small>"
        cells = f"<td>{escape(row['what'])}{place}</td>" + "".join(f"<td>{escape(str(word))}</td>" for word in words)
        cells += f"<td class='n'>{claimed}</td>{number_cell(row['ours_mean'], plain, spread + _side(row))}"
        ratio = row["ratio_ours_over_claimed"]
        percent = f"<small>{100 * (ratio - 1):+.0f} %</small>"
        cells += f"<td class='n'><data value='{ratio!r}'>{format_number(ratio)}</data>{percent}</td>"
        cells += f"<td class='quiet'>{escape(row['note'])}</td>"
        body.append(f"<tr><th scope='row'>{escape(row['id'])}</th>{cells}</tr>")
    return table(head, body, "", "words")


def _side(row: Mapping[Hashable, Any]) -> str:
    """HTML on whether the result is on the same side of 1 as the published one."""
    low, high, ours = (float(row[key]) for key in ("claim", "claim_to", "ours_mean"))
    if not row["denominator"] or low <= 1 <= high:
        return ""
    return f"<small>{'same' if (ours > 1) == (low > 1) and ours != 1 else 'other'} side of 1</small>"


def table(head: str, body: Sequence[str], caption: str, kind: str = "") -> str:
    """A table that scrolls if it is too wide; head and rows are HTML."""
    above = f"<caption>{caption}</caption>" if caption else ""
    return (
        f"<div class='scroll'><table class='{kind}'>{above}<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
