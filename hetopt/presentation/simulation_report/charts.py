"""Panels that compare systems: cumulative distributions, and curves over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.metrics.completion_times import cdf
from hetopt.presentation.fonts import heading
from hetopt.presentation.formatting import format_duration
from hetopt.presentation.gantt import time_axis
from hetopt.presentation.pictures import PANEL, Picture, panel, picture
from hetopt.presentation.simulation_report.result_tables import Styles
from hetopt.presentation.style import QUIET, canvas

TIMES = {at: format_duration(at) for at in (0.001, 0.1, 1, 10, 60, 600, 3600, 36_000, 864_000, 8_640_000)}
RATIOS = {at: f"{at:g}" for at in (0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, *(10.0**e for e in range(1, 12)))}
"""Ticks of logarithmic axes, which begin and end at one of them."""

CURVE = 1.5
"""Height in inches of a panel with a curve over time."""


def distribution(samples: Mapping[str, Floats], title: str, styles: Styles, where: str, ideal: bool) -> Picture:
    """Cumulative distribution over jobs: of seconds, or (``ideal``) of ratios to an ideal time."""
    positive = {system: sample[sample > 0] for system, sample in samples.items()}
    ticks = RATIOS if ideal else TIMES
    with canvas(samples):
        figure, axes = panel(3.0)
        for system, own in positive.items():
            share = 100 * cdf(own, len(samples[system]), "")
            if len(own):
                axes.step([own.min(), *share.index], [0.0, *share], where="post", **styles[system].line())
        known = np.concatenate([*positive.values(), np.empty(0)])
        if not len(known):
            axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center", color=QUIET)
            known = np.array([1.0])
        low = max((at for at in ticks if at < known.min()), default=min(ticks))
        high = min((at for at in ticks if at > known.max()), default=max(ticks))
        axes.set_xscale("log")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        axes.set(xlim=(low, high), ylim=(0, 102), xlabel=f"{title}, log scale", ylabel="jobs (%)")
        axes.grid()
        if ideal:
            axes.axvline(1.0, color=QUIET, linewidth=0.8, linestyle=(0, (2, 2)))
        return picture(figure, f"Distribution over jobs of the {title} on {where} for {', '.join(samples)}")


def curves(
    values: Mapping[str, Floats],
    behind: Mapping[str, Floats],
    edges: Floats,
    what: str,
    styles: Styles,
    where: str,
    dashed: bool = False,
) -> list[Picture]:
    """A panel for each system with its curve over time, all on the same axes.

    Parameters
    ----------
    values:
        System -> (intervals,) means.
    behind:
        System -> another curve, drawn in thin grey or ``dashed``.
    edges:
        (intervals + 1,) edges of the intervals in seconds.
    what:
        The quantity, for the text alternatives.
    """
    top = max((float(np.nanmax(curve, initial=1.0)) for curve in (*values.values(), *behind.values())), default=1.0)
    grey = {"linewidth": 1.1, "linestyle": (0, (4, 1.5))} if dashed else {"linewidth": 0.7}
    found = []
    with canvas(values):
        for system, curve in values.items():
            figure, axes = panel(CURVE)
            if system in behind:
                axes.stairs(behind[system], edges, baseline=None, color=QUIET, **grey)
            axes.stairs(curve, edges, baseline=None, color=styles[system].colour, linewidth=1.2)
            axes.set_ylim(0, 1.05 * top)
            axes.grid()
            time_axis(axes, edges[0], edges[-1])
            axes.set_title(heading(system, PANEL - 1))
            found.append(picture(figure, f"{what} over time on {where} with {system}"))
    return found
