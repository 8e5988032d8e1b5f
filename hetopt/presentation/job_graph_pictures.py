"""Pictures of job graphs: the server of each replica, and the traffic between replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from hetopt.checks import counted
from hetopt.data.array_types import Floats
from hetopt.presentation.fonts import heading, label, labels
from hetopt.presentation.formatting import format_bytes, format_duration
from hetopt.presentation.pictures import Drawing
from hetopt.presentation.style import INK, LIGHT, PAGE, QUIET, canvas, letters_on
from hetopt.stages.mapping import GPUMapping

MOST_PANELS = 12
"""Jobs in one picture."""
MOST_EDGES = 5000
"""Edges drawn of one job: the heaviest."""
MOST_ROWS, MOST_COLUMNS = 16, 10
"""Replicas in a column, and columns in a band; further ones are in the next column and in the next band."""
SHAPES = {"o": 1.0, "s": 0.8, "D": 0.6, "h": 1.1, "p": 1.1, "8": 1.0}
"""Marker -> its area relative to a circle that looks as large; markers change when the colours repeat."""
NODE, ROW, COLUMN = 0.32, 0.5, 1.1
"""Inches: a node's diameter, the distance of rows, and of columns."""
LEFT, LINE, LEAST_WIDTH = 0.6, 0.3, 7.8
"""Inches: left of the first column, from line to line of the legend, and the least width of a picture."""
WITHIN, BETWEEN = INK, QUIET
DASH = np.array([4.0, 2.5])
"""Points: strokes and gaps of edges between servers, whatever their width."""


def draw_mapping(mapping: GPUMapping | Iterable[GPUMapping], title: str = "") -> Figure:
    """Draw the graph of a job, its vertices coloured and numbered by server; graphs of several jobs are stacked.

    Stages are side by side, their replicas below each other; long pipelines and many replicas go forth and back. The
    width of an edge shows the bytes that it carries in an iteration; edges between servers are dashed. Each server has
    the same colour and number throughout.

    Parameters
    ----------
    mapping:
        The mapping of one job, or of several; the first :data:`MOST_PANELS` are drawn.
    title:
        Title of the figure.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models.asrpt import HeavyEdge, Pipeline, Servers
    >>> fig2 = hetopt.instances.load("asrpt/fig2")
    >>> mapping = HeavyEdge()(Pipeline.of(fig2.job["job"]), Servers.of(fig2, "GPU"))
    >>> draw_mapping(mapping).savefig("fig2.png")
    """
    every = [mapping] if isinstance(mapping, GPUMapping) else list(mapping)
    shown = every[:MOST_PANELS]
    if len(shown) < len(every):
        title = f"{title}: " * bool(title) + f"the first {len(shown)} of {len(every)} jobs"
    numbers: dict[str, int] = {}
    for one in shown:
        for m in np.unique(one.server).tolist():
            numbers.setdefault(one.servers.names[m], len(numbers) + 1)
    layouts = [layout_graph(one.graph.pipeline.replicas.tolist()) for one in shown]
    width = max([LEAST_WIDTH, *(2 * LEFT + COLUMN * places[:, 0].max() for places, _ in layouts)])
    with canvas((title, *numbers, *(one.graph.pipeline.name for one in shown))):
        figure = Drawing(facecolor=PAGE)
        axes = figure.add_axes((0, 0, 1, 1))  # in inches from the upper left corner
        axes.set_axis_off()
        top = 0.45 if title else 0.0
        axes.text(width / 2, 0.28, heading(title, width), ha="center", va="center", fontsize=13)
        for one, (places, heads) in zip(shown, layouts, strict=True):
            _titles(axes, one, top, width)
            corner = np.array([LEFT, top + 1.1])
            places = corner + (COLUMN, ROW) * places
            _edges(axes, one, places)
            _nodes(axes, places, [numbers[one.servers.names[m]] for m in one.server.tolist()])
            _heads(axes, one, corner - (0, 0.27) + (COLUMN, ROW) * heads)
            top = _legend(axes, one, numbers, places[:, 1].max() + 0.5, width)
        figure.set_size_inches(width, top)
        axes.set(xlim=(0, width), ylim=(top, 0))
    return figure


def layout_graph(replicas: Sequence[int]) -> tuple[Floats, Floats]:
    """Columns (to the right) and rows (downwards) of vertices and of the headings of stages, both from 0.

    Stages follow each other in columns; each starts a column, and fills several, down and up in turns, if it has more
    than :data:`MOST_ROWS` replicas. Where :data:`MOST_COLUMNS` columns are full, a band below goes back. So neighbours
    in a ring are adjacent, and so are consecutive stages.

    Parameters
    ----------
    replicas:
        (S,) number of replicas of each stage.

    Returns
    -------
    tuple
        (V, 2) column and row of each vertex, in the order of the graph; (S, 2) of each heading.
    """
    most = max(MOST_ROWS, ceil(max(replicas) / MOST_COLUMNS))
    places, heads = [], []
    left = top = tall = band = 0
    for k in replicas:
        wide = ceil(k / most)
        if left + wide > MOST_COLUMNS:
            left, top, tall, band = 0, top + tall + 1, 0, band + 1
        high = ceil(k / wide)
        column, row = np.divmod(np.arange(k), high)
        row = np.where(column % 2, high - 1 - row, row)
        middle = left + (wide - 1) / 2
        back = MOST_COLUMNS - 1 if band % 2 else 0
        places.append(np.stack([abs(back - left - column), top + row], axis=1))
        heads.append((abs(back - middle), top))
        left, tall = left + wide, max(tall, high)
    return np.concatenate(places).astype(float), np.array(heads, dtype=float)


def _titles(axes: Axes, mapping: GPUMapping, top: float, width: float) -> None:
    graph, every = mapping.graph, mapping.graph.weight.sum()
    method = f" by {label(mapping.method, 2, 30)}" if mapping.method else ""
    large = f"{label(graph.pipeline.name, 1, 40)}{method}: {format_duration(mapping.iteration_seconds)} per iteration"
    between = f"{format_bytes(mapping.cut_bytes)} of {format_bytes(every)} per iteration go between servers"
    left = LEFT - NODE / 2
    axes.text(left, top + 0.25, heading(large, width - LEFT), fontsize=11, va="center", weight="bold")
    axes.text(left, top + 0.48, between if every else "its replicas exchange nothing", fontsize=10, va="center")


def _heads(axes: Axes, mapping: GPUMapping, places: Floats) -> None:
    """The number of each stage, and that of its replicas."""
    paper = {"boxstyle": "square,pad=0.1", "facecolor": PAGE, "edgecolor": "none"}
    for s, ((x, y), k) in enumerate(zip(places.tolist(), mapping.graph.pipeline.replicas.tolist(), strict=True), 1):
        text = f"S{s} \N{MULTIPLICATION SIGN} {k}" if k > 1 else f"S{s}"
        axes.text(x, y, text, fontsize=8, ha="center", va="center", color=QUIET, bbox=paper, zorder=2)


def _edges(axes: Axes, mapping: GPUMapping, places: Floats) -> None:
    """Straight edges, but those between replicas of a stage that are not adjacent pass beside the others."""
    graph, server = mapping.graph, mapping.server
    heaviest = np.argsort(-graph.weight.astype(float), kind="stable")[:MOST_EDGES]
    edges, weight = graph.edges[heaviest], graph.weight[heaviest].astype(float)
    thick = max(1.0, 4.0 * min(1.0, (60 / max(1, len(edges))) ** 0.5))  # points
    widths = 0.4 + thick * weight / max([1.0, *weight])
    start, end = places[edges[:, 0]], places[edges[:, 1]]
    along = np.abs(end - start)
    length = np.hypot(*along.T)
    same = graph.stage[edges[:, 0]] == graph.stage[edges[:, 1]]
    apart = same & ((along / (COLUMN, ROW)).sum(axis=1) > 1.5)
    bend = np.where(apart, 0.5 + 0.03 * length, 0.0) / length
    middle = (start + end) / 2 + bend[:, None] * along[:, ::-1] * (1, -1)
    t = np.linspace(0, 1, 17)[:, None, None]
    lines = ((1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * end).swapaxes(0, 1)
    cut = server[edges[:, 0]] != server[edges[:, 1]]
    for which, colour in ((cut, BETWEEN), (~cut, WITHIN)):
        if which.any():
            _lines(axes, lines[which], widths[which], colour)


def _legend(axes: Axes, mapping: GPUMapping, numbers: Mapping[str, int], top: float, width: float) -> float:
    """The legend below ``top``; its lower edge."""
    gpus = np.bincount(mapping.server, weights=mapping.graph.size, minlength=len(mapping.servers)).astype(int)
    shown = dict(zip(numbers, labels(numbers, 22), strict=True))
    used = {mapping.servers.names[m]: int(gpus[m]) for m in np.flatnonzero(gpus)}
    texts = [f"{shown[name]}: {counted(n, 'GPU')}" for name, n in used.items()]
    step = 0.5 + 0.085 * max(map(len, texts))
    row, column = np.divmod(np.arange(len(texts)), max(1, int((width - LEFT) / step)))
    places = np.stack([LEFT + step * column, top + LINE * row], axis=1)
    _nodes(axes, places, [numbers[name] for name in used], 0.75)
    for (x, y), text in zip(places, texts, strict=True):
        axes.text(x + 0.2, y, text, fontsize=9, va="center")
    bottom = float(top + LINE * (row.max() + 1))
    if len(mapping.graph.weight):
        for x, text, colour in ((0.48, "within a server", WITHIN), (2.48, "between servers", BETWEEN)):
            _lines(axes, np.array([[(x, bottom), (x + 0.45, bottom)]]), np.array([2.0]), colour)
            axes.text(x + 0.55, bottom, text, fontsize=9, va="center")
        widest = f"width: bytes per iteration, up to {format_bytes(mapping.graph.weight.max())}"
        axes.text(LEFT + 3.9, bottom, widest, fontsize=9, va="center")
    return bottom + 0.35


def _lines(axes: Axes, lines: Floats, widths: Floats, colour: str) -> None:
    """Draw (n, points, 2) lines with (n,) widths in points; lines between servers are dashed."""
    styles = [(0, tuple(DASH / width)) if colour == BETWEEN else "solid" for width in widths]
    axes.add_collection(LineCollection(list(lines), linewidths=widths, colors=colour, linestyles=styles, zorder=1))


def _nodes(axes: Axes, places: Floats, numbers: Sequence[int], size: float = 1.0) -> None:
    """Draw markers of servers with their numbers inside."""
    fill = np.array([LIGHT[(number - 1) % len(LIGHT)] for number in numbers])
    turns = (np.array(numbers) - 1) // len(LIGHT) % len(SHAPES)
    for turn in np.unique(turns).tolist():
        shape, area = list(SHAPES.items())[turn]
        x, y = places[turns == turn].T
        look: dict[str, Any] = {"c": fill[turns == turn], "edgecolors": PAGE, "linewidths": 0.8, "zorder": 3}
        axes.scatter(x, y, (72 * NODE * size) ** 2 * area, marker=shape, **look)
    for (x, y), number, colour in zip(places.tolist(), numbers, fill, strict=True):
        letters = (9.5 if number < 100 else 7) * size
        place: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 4}
        axes.text(x, y, str(number), fontsize=letters, color=letters_on(colour), **place)
