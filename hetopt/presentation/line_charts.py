"""Line charts of measurements: errors of predictions, and times of decisions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import ArrayLike

from hetopt.prediction.accuracy import relative_errors, share_within, vector_of
from hetopt.presentation.fonts import label
from hetopt.presentation.pictures import chart
from hetopt.presentation.style import SeriesStyle


def draw_errors(predicted: Mapping[str, ArrayLike], actual: ArrayLike, title: str = "") -> Figure:
    """Draw the share of the jobs against the relative error of their prediction, a line per predictor [ASRPT, Fig. 4].

    Parameters and errors are those of :func:`hetopt.prediction.accuracy.errors`;
    :func:`~hetopt.presentation.allocation_pictures.save_figure` writes the figure to a file.
    """
    work = vector_of(actual, "actual")
    grid = np.linspace(0.0, 1.0, 201)
    with chart(title, predicted) as (figure, axes):
        for i, (name, values) in enumerate(predicted.items()):
            off = relative_errors(values, work, name)
            shares = [100 * share_within(off, p) for p in grid]
            axes.plot(100 * grid, shares, label=label(name, i + 1, 40), **SeriesStyle(i).line())
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 102)
        axes.set_xlabel("error of the prediction, at most (% of the job's work)")
        axes.set_ylabel("jobs (%)")
        axes.legend(loc="lower right")
    return figure


def draw_decision_times(table: pd.DataFrame, title: str = "", size: str = "jobs") -> Figure:
    """Draw seconds per decision against size, both logarithmic, a line per policy.

    Parameters
    ----------
    table:
        As :func:`hetopt.experiments.decision_times.decision_seconds` returns it.
    size:
        What the sizes count.

    Returns
    -------
    Figure
        :func:`~hetopt.presentation.allocation_pictures.save_figure` writes it to a file.
    """
    with chart(title, (size, *map(str, table.columns))) as (figure, axes):
        for i, name in enumerate(table.columns):
            axes.plot(table.index, table[name], marker="o", label=label(str(name), i + 1, 40), **SeriesStyle(i).line())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.set_xticks(list(table.index), [f"{n:,}" for n in table.index])
        axes.minorticks_off()
        axes.set_xlabel(size)
        axes.set_ylabel("seconds of one decision")
        axes.grid(axis="y")
        axes.legend(loc="upper left")
    return figure
