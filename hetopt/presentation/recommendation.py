"""The answer of a race: a sentence, a table, a picture, and what one more GPU would bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from hetopt.checks import counted
from hetopt.data.units import Unit
from hetopt.experiments.race import Compared, RaceResult, Why, is_relative, metric_of_aim
from hetopt.metrics.definitions import Metric
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import MISSING, column_format, format_duration, format_number, format_percent
from hetopt.presentation.pictures import Drawing
from hetopt.presentation.style import GOOD, INK, PAGE, QUIET, canvas
from hetopt.presentation.tables import Cell, Column, Mark, Table, joined, number_column
from hetopt.tolerances import EQUAL

FEW = 5.0
"""Up to this range an axis of ratios has evenly spaced marks."""

TOO_WIDE = 100.0
"""Intervals to this ratio and more say nothing, and are called wide."""

NAMED = 4
"""Systems that may be best too are named in the answer up to this number."""

ROW, PANEL_WIDTH, NAMES = 0.24, 3.6, 1.6
"""Inches of a system, of a panel, and of the names beside it."""


def _amount(metric: Metric, value: float) -> str:
    """A value with its unit."""
    if metric.unit is Unit.SECONDS:
        return format_duration(value)
    return format_percent(value) if metric.unit is Unit.SHARE else format_number(value, 3)


def _signed(metric: Metric, value: float) -> str:
    """A difference in per cent, or in percentage points of a share; above 0: worse."""
    if not isfinite(value):
        return "∞" if value == np.inf else MISSING
    value = 0.0 if abs(value) < EQUAL else value if is_relative(metric) else -value  # of shares more is better
    return f"{'+' if value > 0 else ''}{format_number(100 * value, 2)}"


def _interval(metric: Metric, row: pd.Series[float]) -> str:
    """A difference with its interval, if it has one."""
    unit = "%" if is_relative(metric) else "points"
    if row["difference"] != row["difference"]:
        return MISSING
    if not (isfinite(row["low"]) and isfinite(row["high"])):
        return f"{_signed(metric, row['difference'])} {unit}"
    ends = sorted((row["low"], row["high"]), reverse=not is_relative(metric))
    shown = " to ".join(_signed(metric, end) for end in ends) if row["high"] < TOO_WIDE else "wide"
    return f"{_signed(metric, row['difference'])} ({shown}) {unit}"


def sentences(result: RaceResult) -> Iterator[str]:
    """The answer: for each aim which system is best and how sure that is, and what one more GPU would bring."""
    sure = f"with {format_number(100 * result.confidence, 3)} % confidence"
    for aim in result.values:
        compared, metric = result.compared(aim), metric_of_aim(aim)
        failed = [name for name, own in result.dropped.items() if own.why is not Why.WORSE]
        best, table = compared.best, result.ranking(aim).drop(index=[compared.best, *failed], errors="ignore")
        number, value = len(result.values[aim].columns) - len(failed), _amount(metric, compared.table["mean"][best])
        if number == 1:
            yield f"{metric.title} of {best}: {value}"
            continue
        winner, many = f"best in {metric.title}: {best}, {value}", counted(number, "system")
        if len(result.values[aim]) < 2:
            yield f"{winner}; one sample does not show how sure this is"
            continue
        rivals = [str(name) for name in table.index[table["low"] <= 0]]
        if rivals:
            named = " or ".join([best, *rivals]) if len(rivals) <= NAMED else f"{best} or one of {len(rivals)} others"
            yield f"{winner}; {sure} the best of {many} is {named}"
        else:
            yield f"{winner}, {sure} the best of {many}"
        if len(table):
            yield f"next in {metric.title}: {table.index[0]}, {_interval(metric, table.iloc[0])}"
    if result.without_time:
        yield f"no time for {', '.join(result.without_time)}; give more of it (--budget)"
    if result.no_time_for_more:
        yield f"no time for one more GPU of each type under {result.best}; give more of it (--budget)"
    for aim in result.more:
        table, metric = result.with_one_more(aim), metric_of_aim(aim)
        if table["difference"].notna().any():
            first = table.sort_values("difference").iloc[0]
            yield f"{metric.title} of {result.best} with one more {first.name}: {_interval(metric, first)}"


def ranking_table(result: RaceResult, title: str = "") -> Table:
    """The systems, the best in the first aim first: the mean of each aim and the difference from its best system."""
    aims = list(result.values)
    order = [str(name) for name in result.ranking(aims[0]).index]
    order += [name for name in result.dropped if name not in order]
    columns: list[tuple[Column | str, Sequence[Cell | str]]] = [("system", [Cell(name) for name in order])]
    for aim in aims:
        metric, table = metric_of_aim(aim), result.ranking(aim).reindex(pd.Index(order))
        best = result.compared(aim).best
        means = table["mean"].tolist()
        columns.append(number_column(metric.title, means, metric.unit, metric.meaning, {order.index(best): Mark.BEST}))
        texts = ["" if name == best else _interval(metric, row) for name, row in table.iterrows()]
        columns.append((Column(f"{metric.title} against the best", text=True), [Cell(text) for text in texts]))
    columns.append((Column("samples"), [Cell(f"{_samples(result, name)}", _samples(result, name)) for name in order]))
    columns.append(("result", [Cell(_state(result, name)) for name in order]))
    return joined(*columns, title=title)


def _samples(result: RaceResult, name: str) -> int:
    return int(next(iter(result.values.values()))[name].notna().sum())


def _state(result: RaceResult, name: str) -> str:
    own = result.dropped.get(name)
    if own is None and name == result.best:
        return "best"
    if own is None and len(next(iter(result.values.values()))) == 1:
        return "not decided"
    if own is None and name in result.worse:
        return "worse"
    if own is None:
        return "may be best" if len(result.values) == 1 else "not worse in all aims"
    return "worse, dropped early" if own.why is Why.WORSE else str(own)


def one_more_table(result: RaceResult) -> Table:
    """What one more GPU of each type changes for the best system, for each aim."""
    aims = list(result.more)
    types = list(result.more[aims[0]].columns)
    columns: list[tuple[Column | str, Sequence[Cell | str]]] = [("one more", [Cell(name) for name in types])]
    for aim in aims:
        metric, table = metric_of_aim(aim), result.with_one_more(aim)
        form = column_format(table["mean"].tolist(), metric.unit)
        columns.append(number_column(metric.title, table["mean"].tolist(), metric.unit, form=form))
        columns.append((Column("change", text=True), [Cell(_interval(metric, row)) for _, row in table.iterrows()]))
    return joined(*columns, title=f"{result.best} with one more GPU")


def draw(result: RaceResult, title: str = "") -> Figure:
    """Draw each system's difference from the best with its interval, a panel for each aim; dropped ones are hollow."""
    aims = list(result.values)
    order = [str(name) for name in result.ranking(aims[0]).index]
    with canvas((title, *order)):
        size = NAMES + PANEL_WIDTH * len(aims), 1.1 + ROW * len(order)
        figure = Drawing(figsize=size, layout="constrained")
        figure.set_facecolor(PAGE)
        parts = [title, "hollow: left early" if set(result.dropped) & set(order) else ""]
        figure.suptitle("; ".join(part for part in parts if part), x=0.01, ha="left", fontsize=10)
        panels = figure.subplots(1, len(aims), sharey=True, squeeze=False)[0]
        for aim, axes in zip(aims, panels, strict=True):
            _draw(axes, result, aim, order)
        panels[0].set_yticks(range(len(order)), [label(name, i + 1, 30) for i, name in enumerate(order)])
        panels[0].invert_yaxis()
        figure.draw_without_rendering()
    return figure


def _draw(axes: Axes, result: RaceResult, aim: str, order: Sequence[str]) -> None:
    table, metric = result.ranking(aim).reindex(pd.Index(order)), metric_of_aim(aim)
    compared: Compared = result.compared(aim)
    relative = is_relative(metric)
    scale = 1.0 if relative else 100.0
    place = (table[["difference", "low", "high"]] * scale + (1.0 if relative else 0.0)).to_numpy(dtype=float)
    for row, name in enumerate(order):
        at, low, high = place[row]
        if not isfinite(at):
            continue
        colour = GOOD if name == compared.best else INK if name in result.left else QUIET
        face = colour if name in result.left else PAGE
        axes.plot([at], [row], "o", color=colour, markerfacecolor=face, markersize=5, zorder=4)
        if isfinite(low) and high < TOO_WIDE * scale and name != compared.best:
            axes.plot([low, high], [row, row], color=colour, linewidth=1.3, zorder=3)
    axes.axvline(1.0 if relative else 0.0, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.set_xlabel(f"{metric.title} / that of {compared.best}" if relative else f"points below {compared.best}")
    if relative:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > FEW * low else MaxNLocator(5))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter("")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
