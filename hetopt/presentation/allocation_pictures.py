"""Pictures of a result: shares, envy and prices."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure, SubFigure

from hetopt.data import saving
from hetopt.data.entities import Entities
from hetopt.data.rates import relative_envy
from hetopt.errors import InvalidOption
from hetopt.presentation.fonts import font_settings, heading, label, labels
from hetopt.results.allocation import Allocation, Plan

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#332288", "#999933", "#882255")
"""Paul Tol's bright scheme, extended: distinct for colour-blind readers and in print."""
MOST_BARS = 40
"""Most bars, and rows of the envy matrix, of a picture."""
NUMBERED = 10
"""Most entities of an envy matrix that shows numbers."""
FIGURE_WIDTH = 11.5
"""Width in inches of the text of the report, so that letters keep their size."""


def _shown(entities: Entities) -> list[int]:
    """Positions of at most :data:`MOST_BARS` entities, evenly spread."""
    n = len(entities.names)
    return [int(i) for i in np.unique(np.linspace(0, n - 1, min(n, MOST_BARS)).round())]


def _labels(entities: Entities, shown: list[int], most: int = 20) -> list[str]:
    return labels({entities.names[i]: i + 1 for i in shown}, most)


def _of(entities: Entities, shown: list[int]) -> str:
    """The kind of the entities, and their number if not all are shown."""
    n = len(entities.names)
    return entities.kind if len(shown) == n else f"{len(shown)} of {n} {entities.kind}"


def draw_shares(axes: Axes, result: Allocation | Plan) -> None:
    """GPUs of each tenant or job, stacked by GPU type."""
    entities, gpus = result.entities, result.gpu_array
    shown = _shown(entities)
    left = np.zeros(len(shown))
    places = np.arange(len(shown))
    bars = []
    for k in range(len(entities.types)):
        width = gpus[shown, k]
        colour = COLOURS[k % len(COLOURS)]
        bars.append(axes.barh(places, width, left=left, color=colour, edgecolor="white", linewidth=0.5))
        left = left + width
    axes.set_yticks(places, _labels(entities, shown))
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("GPUs")
    axes.set_title(f"GPUs of {_of(entities, shown)}")
    types = [label(gpu_type, k + 1, 16) for k, gpu_type in enumerate(entities.types)]
    axes.legend(bars, types, title="GPU type", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right"]].set_visible(False)


def draw_envy(axes: Axes, result: Allocation | Plan) -> None:
    """Rates with another's GPUs relative to one's own rate: white is equal, red is envy."""
    entities = result.entities
    shown = _shown(entities)
    ratio = 1.0 + relative_envy(entities, result.gpu_array, shown)[:, shown]
    top = max(1.05, float(np.max(ratio[np.isfinite(ratio)], initial=1.05)))
    drawn = np.minimum(ratio, top)
    norm = TwoSlopeNorm(1.0, min(0.0, float(drawn.min()) - 0.01), top)
    image = axes.imshow(drawn, cmap="RdBu_r", norm=norm)
    names = _labels(entities, shown, 18)
    size = 10 if len(names) <= 20 else 7
    upright = 90 if len(names) * max(map(len, names)) > 36 else 0
    axes.set_xticks(range(len(names)), names, rotation=upright, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    if len(names) <= NUMBERED:
        for (i, j), value in np.ndenumerate(ratio):
            dark = abs(float(norm(float(drawn[i, j]))) - 0.5) > 0.35
            shown_value = f"{value:.2f}" if np.isfinite(value) else "∞"
            colour = "white" if dark else "black"
            axes.text(j, i, shown_value, ha="center", va="center", fontsize=min(11, 80 / len(names)), color=colour)
    axes.set_xlabel("with the GPUs of")
    axes.set_ylabel("rate of")
    axes.set_title(f"Envy between {_of(entities, shown)}")
    axes.figure.colorbar(image, ax=axes, shrink=0.6, label="rate with another's GPUs / own rate")


def draw_prices(axes: Axes, result: Allocation | Plan) -> None:
    """Shadow prices of the GPU types; nothing is drawn if the result has none."""
    prices = _prices(result)
    if prices is None:
        return
    places = range(len(prices))
    axes.barh(places, prices.to_numpy(), color=[COLOURS[k % len(COLOURS)] for k in places])
    axes.set_yticks(places, [label(str(gpu_type), k + 1, 16) for k, gpu_type in enumerate(prices.index)])
    axes.invert_yaxis()
    axes.set_xlabel("gain of the objective per additional GPU")
    axes.set_title("Prices of the GPU types")
    axes.spines[["top", "right"]].set_visible(False)


def _prices(result: Allocation | Plan) -> pd.Series[float] | None:
    if result.certificate is None or result.certificate.prices.empty:
        return None
    return result.certificate.prices


def draw(result: Allocation | Plan, title: str = "", judged: Allocation | Plan | None = None) -> Figure:
    """Draw shares, envy and, if the result has them, prices in one figure.

    Parameters
    ----------
    result:
        The result to draw.
    title:
        Title of the figure.
    judged:
        Result for the envy matrix, e.g. over tenants if ``result`` is over their jobs; default: ``result``.
    """
    judged = result if judged is None else judged
    priced = _prices(result) is not None
    bars = 1.2 + 0.27 * len(_shown(result.entities))  # inches high
    matrix = 4.7 if len(_shown(judged.entities)) <= 20 else 6.0
    below = 1.2 + 0.3 * len(result.entities.types) if priced else 0.0
    under_bars = bars + below <= matrix + 1
    height = max(matrix, bars + below) if under_bars else max(bars, matrix + below)
    with font_settings((title, *result.entities.names, *result.entities.types, *judged.entities.names)):
        figure = Figure(figsize=(FIGURE_WIDTH, height + 0.4 * bool(title)), layout="constrained")
        left, right = figure.subfigures(1, 2, squeeze=False)[0]
        shares, *rest = _column(left, [height - below, below] if under_bars and priced else [height])
        envy, *more = _column(right, [height - below, below] if priced and not under_bars else [height])
        draw_shares(shares, result)
        draw_envy(envy, judged)
        for axes in (*rest, *more):
            draw_prices(axes, result)
        figure.suptitle(heading(title, FIGURE_WIDTH))
        figure.draw_without_rendering()  # lays out with these fonts
    return figure


def _column(figure: SubFigure, heights: list[float]) -> list[Axes]:
    return list(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])


def save(result: Allocation | Plan, path: str | Path, title: str = "") -> Path:
    """Draw ``result`` and write it to ``path`` atomically, replacing a file there.

    Raises
    ------
    InvalidOption
        The ending of ``path`` is not .png, .svg or .pdf, or its folder does not exist.
    UnusableFile
        It cannot be written.
    """
    check_picture_path(Path(path))
    return save_figure(draw(result, title), path)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure to ``path`` atomically, replacing a file there.

    Raises
    ------
    InvalidOption
        The ending of ``path`` is not .png, .svg or .pdf, or its folder does not exist.
    UnusableFile
        It cannot be written.
    """
    target, picture = Path(path), BytesIO()
    check_picture_path(target)
    with font_settings(()):
        figure.savefig(picture, format=target.suffix[1:].lower(), dpi=120)
    saving.save(picture.getvalue(), target, overwrite=True)
    return target


def check_picture_path(target: Path) -> None:
    """Refuse a path that :func:`save_figure` cannot write."""
    if target.suffix.lower() not in FORMATS:
        raise InvalidOption(f"{target} ends in {target.suffix!r}; a picture must end in one of {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise InvalidOption(f"the folder {target.parent} of {target.name} does not exist")
