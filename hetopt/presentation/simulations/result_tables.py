"""Tables of the page: numbers of all systems, each with its spread and, in the markup, with all its digits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from hetopt.experiments.standings import Standings, cell, themes
from hetopt.metrics.overall import DEFINITIONS
from hetopt.presentation.formatting import NONE, Scale, digits, scale_of, span
from hetopt.presentation.simulations.style import Look

HEAD = ("jct_mean", "jct_p99", "makespan", "starvation_max", "switches_mean", "lost_share", "utilisation")
"""Metrics of the first table, beside finish-time fairness."""


def head_of(standings: Standings, fairness: str) -> list[str]:
    """Metrics of the first table that somebody has."""
    wanted = [*HEAD[:3], f"ftf_{fairness}_mean", *HEAD[3:]]
    return [metric for metric in wanted if metric in standings.metrics]


def first_column(name: str, looks: Mapping[str, Look]) -> str:
    """A system with a sample of its line."""
    return f"<th scope='row'>{looks[name].swatch()}{escape(name)}</th>"


def number(value: float, scale: Scale, more: str = "", best: bool = False) -> str:
    """A cell with a number, all of whose digits stand in the markup; ``more``: HTML below it."""
    if pd.isna(value):
        return f"<td>{NONE}</td>"
    kind = " class='best' title='best'" if best else ""
    return f"<td{kind}><data value='{value!r}'>{scale.spell(value)}</data>{more}</td>"


def scaled(standings: Standings, metrics: Sequence[str]) -> dict[str, Scale]:
    """Metric -> unit of its column."""
    return {metric: scale_of(metric, standings.most[metric]) for metric in metrics}


def numbers(standings: Standings, metrics: Sequence[str], looks: Mapping[str, Look], caption: str) -> str:
    """Systems by metrics: mean over seeds, and below it from the least to the largest."""
    scales = scaled(standings, metrics)
    best = {metric: standings.best(metric) for metric in metrics}
    body = []
    for name in standings.systems:
        cells = "".join(
            number(
                cell(standings.mean, name, metric),
                scales[metric],
                _spread(standings, name, metric, scales[metric]),
                name in best[metric],
            )
            for metric in metrics
        )
        body.append(f"<tr>{first_column(name, looks)}{cells}</tr>")
    head = "".join(_heading(metric, scales[metric].name) for metric in metrics)
    return table(f"<th scope='col'>system</th>{head}", body, caption)


def _heading(metric: str, unit: str) -> str:
    said = escape(DEFINITIONS.get(metric, ""), quote=True)
    name = escape(metric).replace("_", "_<wbr>")
    return f"<th scope='col' title='{said}'>{name}{f' <small>{escape(unit)}</small>' if unit else ''}</th>"


def _spread(standings: Standings, name: str, metric: str, scale: Scale) -> str:
    """Least and largest value, and of how many seeds where not all have one."""
    known, runs = int(cell(standings.known, name, metric)), len(standings.seeds[name])
    least, most = cell(standings.least, name, metric), cell(standings.most, name, metric)
    more = f"<small>{span(least, most, scale)}</small>" if known > 1 else ""
    return f"{more}<small>{known} of {runs} seeds</small>" if known < runs else more


def ratios(standings: Standings, baseline: str, metrics: Sequence[str], looks: Mapping[str, Look]) -> str:
    """Systems by metrics, each over that of the baseline with the same seed."""
    each = standings.ratios(baseline)[list(metrics)]
    by_system = each.groupby("system")
    mean, least, most, known = by_system.mean(), by_system.min(), by_system.max(), by_system.count()
    plain, body = Scale(), []
    for name in standings.systems:
        cells = []
        for metric in metrics:
            low, high = cell(least, name, metric), cell(most, name, metric)
            spread = f"<small>{span(low, high, plain)}</small>" if cell(known, name, metric) > 1 else ""
            cells.append(number(cell(mean, name, metric), plain, "" if name == baseline else spread))
        body.append(f"<tr>{first_column(name, looks)}{''.join(cells)}</tr>")
    head = "".join(_heading(metric, "") for metric in metrics)
    caption = f"Over {baseline} with the same seed: mean of these ratios, and from the least to the largest."
    return table(f"<th scope='col'>system</th>{head}", body, escape(caption))


def all_numbers(standings: Standings, looks: Mapping[str, Look]) -> str:
    """A table for each theme, and what its columns mean."""
    parts = []
    for heading, metrics in themes(standings.metrics).items():
        caption = f"{heading}: mean over seeds, and from the least to the largest."
        parts.append(f"<h4>{escape(heading)}</h4>{numbers(standings, metrics, looks, caption)}{meaning(metrics)}")
    if standings.absent:
        parts.append(f"<p class='quiet'>None of these systems has: {escape(', '.join(standings.absent))}.</p>")
    return "".join(parts)


def meaning(metrics: Sequence[str]) -> str:
    """What metrics are."""
    listed = "".join(
        f"<div><dt>{escape(metric)}</dt><dd>{escape(DEFINITIONS.get(metric, 'Not described.'))}</dd></div>"
        for metric in metrics
    )
    return f"<dl class='meaning'>{listed}</dl>"


def claims(rows: pd.DataFrame) -> str:
    """Claims beside what the runs give; rows of :func:`hetopt.experiments.claims.against`."""
    names = ("claim", "what", "workload", "systems", "printed", "as a ratio", "here", "here / claim", "note")
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    plain, body = Scale(), []
    for row in rows.to_dict("records"):
        pair = f"{row['numerator']} / {row['denominator']}" if row["denominator"] else row["numerator"]
        claimed = digits(row["claim"]) + (f" to {digits(row['claim_to'])}" if row["claim_to"] != row["claim"] else "")
        words = (row["workload"], pair, row["printed"])
        spread = f"<small>{span(row['ours_min'], row['ours_max'], plain)}</small>" if row["pairs"] > 1 else ""
        place = f"<small>{escape(row['paper'])}, {escape(row['place'])}</small>"
        cells = f"<td>{escape(row['what'])}{place}</td>" + "".join(f"<td>{escape(str(word))}</td>" for word in words)
        cells += f"<td class='n'>{claimed}</td>{number(row['ours_mean'], plain, spread + _side(row))}"
        cells += f"<td class='n'>{_difference(row['ratio_ours_over_claimed'])}</td>"
        cells += f"<td class='quiet'>{escape(row['note'])}</td>"
        body.append(f"<tr><th scope='row'>{escape(row['id'])}</th>{cells}</tr>")
    return table(head, body, "", "words")


def _side(row: Mapping[Hashable, Any]) -> str:
    """Whether ours lies on the same side of 1 as the claim."""
    low, high, ours = (float(row[key]) for key in ("claim", "claim_to", "ours_mean"))
    if not row["denominator"] or low <= 1 <= high:
        return ""
    return (
        "<small>same side of 1</small>" if (ours > 1) == (low > 1) and ours != 1 else "<small>other side of 1</small>"
    )


def _difference(ratio: float) -> str:
    """A ratio, and how many percent it is off 1."""
    return f"<data value='{ratio!r}'>{digits(ratio)}</data><small>{100 * (ratio - 1):+.0f} %</small>"


def table(head: str, body: Sequence[str], caption: str, kind: str = "") -> str:
    """A table that scrolls where it is too wide; head and rows are HTML."""
    said = f"<caption>{caption}</caption>" if caption else ""
    return (
        f"<div class='scroll'><table class='{kind}'>{said}<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
