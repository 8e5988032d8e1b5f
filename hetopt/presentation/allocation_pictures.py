"""Pictures of a result: shares, envy and prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hetopt.data import saving
from hetopt.data.entities import Entities
from hetopt.data.rates import relative_envy
from hetopt.errors import InvalidOption
from hetopt.presentation.fonts import heading, label, labels, text_width
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pictures import PANEL, Drawing, Picture, draw_boxes, panel, picture
from hetopt.presentation.style import HEAT, INK, PAGE, QUIET, SeriesStyle, canvas, letters_on
from hetopt.presentation.tables import Key
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import VISIBLE

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".png", ".svg", ".pdf")
MOST_BARS = 40
"""Most bars of a picture."""

MOST_ENVY = 20
"""Most rows of the envy matrix."""

ENVY_NAME = 18
"""Most letters of a name in an envy matrix."""

NUMBERED = 10
"""Most entities of an envy matrix that shows numbers."""

ENVY_LEVELS = (VISIBLE, 0.1, 0.5, 1.0, 2.0)
"""Relative envy above which each colour of :data:`~hetopt.presentation.style.HEAT` after the first begins."""

ENVY_KEYS = tuple(
    Key(text, f"h{i}") for i, text in enumerate(("no envy", "gain to 10 %", "to 50 %", "to 100 %", "to 200 %", "more"))
)


def _shown(entities: Entities, most: int = MOST_BARS) -> list[int]:
    """Positions of at most ``most`` entities, evenly spread."""
    n = len(entities.names)
    return [int(i) for i in np.unique(np.linspace(0, n - 1, min(n, most)).round())]


def _labels(entities: Entities, shown: list[int], most: int = 20) -> list[str]:
    return labels({entities.names[i]: i + 1 for i in shown}, most)


def _of(entities: Entities, shown: list[int]) -> str:
    """The kind of the entities, and their number if not all are shown."""
    n = len(entities.names)
    return entities.kind if len(shown) == n else f"{len(shown)} of {n} {entities.kind}"


def type_labels(types: Iterable[str]) -> list[str]:
    """Names of GPU types in pictures."""
    return [label(gpu_type, k, 16) for k, gpu_type in enumerate(types, 1)]


def _bar_axes(axes: Axes, names: list[str], least: float, most: float) -> None:
    """Rows with these names, the first above, for bars between these values."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(1.02 * least, 1.02 * most or 1.0)
    axes.tick_params(length=0)
    axes.grid(axis="x")


def draw_shares(axes: Axes, result: Allocation | Plan) -> None:
    """GPUs of each tenant or job, stacked by GPU type."""
    entities, gpus = result.entities, result.gpu_array
    shown = _shown(entities)
    left, types = np.zeros(len(shown)), type_labels(entities.types)
    for k in range(len(entities.types)):
        width = gpus[shown, k]
        boxes = [(left[i], left[i] + width[i], i - 0.4, i + 0.4) for i in np.flatnonzero(width > 0).tolist()]
        if boxes:
            draw_boxes(axes, boxes, linewidth=0.5, label=types[k], **SeriesStyle(k).bar())
        left = left + width
    _bar_axes(axes, _labels(entities, shown), 0.0, float(left.max(initial=0.0)))
    axes.set_xlabel("GPUs")
    axes.set_title(f"GPUs of {_of(entities, shown)}")


def draw_envy(axes: Axes, result: Allocation | Plan) -> None:
    """Relative envy, on one scale for all results: what the row would gain with the GPUs of the column."""
    entities = result.entities
    shown = _shown(entities, MOST_ENVY)
    envy = relative_envy(entities, result.gpu_array, shown)[:, shown]
    level = np.searchsorted(ENVY_LEVELS, envy, side="left")
    for i, colour in enumerate(HEAT):
        cells = np.argwhere(level == i).tolist()
        if cells:
            boxes = [(j - 0.5, j + 0.5, i - 0.5, i + 0.5) for i, j in cells]
            draw_boxes(axes, boxes, facecolor=colour, edgecolor=PAGE, linewidth=1.0)
    names, many = _labels(entities, shown, ENVY_NAME), len(shown)
    upright = 90 if many * max(map(len, names)) > 36 else 0
    axes.set_xticks(range(many), names, rotation=upright)
    axes.set_yticks(range(many), names)
    axes.tick_params(length=0)
    axes.set(xlim=(-0.5, many - 0.5), ylim=(many - 0.5, -0.5), xlabel="with the GPUs of", ylabel="gain (%) of")
    axes.spines[["left", "bottom"]].set_visible(False)
    if many <= NUMBERED:
        for (i, j), value in np.ndenumerate(envy):
            if level[i, j]:
                text = format_number(float(f"{100 * value:.2g}"))
                axes.text(j, i, text, ha="center", va="center", fontsize=9, color=letters_on(HEAT[level[i, j]]))
    axes.set_title(f"Envy between {_of(entities, shown)}")


def draw_prices(axes: Axes, prices: pd.Series[float]) -> None:
    """Shadow prices of the GPU types."""
    for k, value in enumerate(prices.tolist()):
        draw_boxes(axes, [(0.0, value, k - 0.4, k + 0.4)], **SeriesStyle(k).bar())
    _bar_axes(axes, type_labels(map(str, prices.index)), min(0.0, prices.min()), max(0.0, prices.max()))
    axes.set_xlabel("gain of the objective per additional GPU")
    axes.set_title("Prices of the GPU types")


def _panels(result: Allocation | Plan, judged: Allocation | Plan) -> list[tuple[float, Callable[[Axes], None]]]:
    """Height in inches and drawing of shares, envy and, if the result has them, prices."""
    shares, envy = len(_shown(result.entities)), _shown(judged.entities, MOST_ENVY)
    upright = 0.075 * max(map(text_width, _labels(judged.entities, envy, ENVY_NAME)))
    found: list[tuple[float, Callable[[Axes], None]]] = [
        (0.9 + 0.19 * shares, partial(draw_shares, result=result)),
        (0.75 + upright + max(0.2 * len(envy), 1.2), partial(draw_envy, result=judged)),
    ]
    if result.certificate is not None and not result.certificate.prices.empty:
        prices = result.certificate.prices
        found.append((0.8 + 0.24 * len(prices), partial(draw_prices, prices=prices)))
    return found


def result_pictures(result: Allocation | Plan, name: str, judged: Allocation | Plan) -> list[Picture]:
    """The pictures of a result on a page; without legends, which are the same for all results.

    Parameters
    ----------
    name:
        Name of the result in text alternatives.
    judged:
        Result for the envy matrix, e.g. over tenants if ``result`` is over their jobs.
    """
    found = []
    with canvas((*result.entities.names, *result.entities.types, *judged.entities.names)):
        for height, draw_panel in _panels(result, judged):
            figure, axes = panel(height)
            draw_panel(axes)
            found.append(picture(figure, f"{axes.get_title(loc='left')}: {name}"))
    return found


def draw(result: Allocation | Plan, title: str = "") -> Figure:
    """Draw shares, envy and, if the result has them, prices in one figure with legends."""
    (high, draw_left), *others = _panels(result, result)
    heights = [height for height, _ in others]
    whole = max(high + 0.3, sum(heights) + 0.6) + 0.4 * bool(title)
    with canvas((title, *result.entities.names, *result.entities.types)):
        figure = Drawing(figsize=(2.2 * PANEL, whole), layout="constrained", facecolor=PAGE)
        left, right = figure.subfigures(1, 2, squeeze=False)[0]
        draw_left(left.subplots())
        left.legend(title="GPU type", loc="outside lower center", ncols=4)
        grid = right.subplots(len(others), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (_, draw_panel) in zip(grid, others, strict=True):
            draw_panel(axes)
        squares = [Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=QUIET) for colour in HEAT]
        right.legend(squares, [key.label for key in ENVY_KEYS], loc="outside lower center", ncols=3)
        figure.suptitle(heading(title, 2.2 * PANEL), color=INK)
        figure.draw_without_rendering()  # lays out with these fonts
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure to ``path`` atomically, replacing a file there.

    Raises
    ------
    InvalidOption
        The ending of ``path`` is not .png, .svg or .pdf, or its folder does not exist.
    UnusableFile
        It cannot be written.
    """
    target, drawn = Path(path), BytesIO()
    check_picture_path(target)
    with canvas(()):
        metadata = {"Date": None} if target.suffix.lower() == ".svg" else None
        figure.savefig(drawn, format=target.suffix[1:].lower(), dpi=120, facecolor=PAGE, metadata=metadata)
    saving.save(drawn.getvalue(), target, overwrite=True)
    return target


def check_picture_path(target: Path) -> None:
    """Refuse a path that :func:`save_figure` cannot write."""
    if target.suffix.lower() not in FORMATS:
        raise InvalidOption(f"{target} ends in {target.suffix!r}; a picture must end in one of {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise InvalidOption(f"the folder {target.parent} of {target.name} does not exist")
    saving.check_writable(target)
