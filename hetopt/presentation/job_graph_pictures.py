"""Pictures of job graphs: the server of each replica, and the traffic between replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

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
SHAPES = {"o": 1.0, "s": 0.8, "D": 0.6, "h": 1.1, "p": 1.1, "8": 1.0}
"""Marker -> its area relative to a circle that looks as large; markers change when the colours repeat."""
NODE, ROW, LEAST_COLUMN, MOST_COLUMN = 0.32, 0.5, 0.64, 1.5
"""Inches: a node's diameter, the distance of rows, and of columns."""
LEFT, TOP, LINE = 0.6, 1.1, 0.3
"""Inches: left of the first column, above the first row, and from line to line of the legend."""
WITHIN, BETWEEN = INK, QUIET
FIGURE_WIDTH = 11.5
"""Width of a wide picture in inches."""
DASH = np.array([4.0, 2.5])
"""Points: strokes and gaps of edges between servers, whatever their width."""


def draw_mapping(mapping: GPUMapping | Iterable[GPUMapping], title: str = "") -> Figure:
    """Draw the graph of a job, its vertices coloured and numbered by server; graphs of several jobs are stacked.

    Stages are side by side, their replicas below each other; long pipelines and many replicas are folded. The width of
    an edge shows the bytes that it carries in an iteration; edges between servers are dashed. Each server has the same
    colour and number throughout.

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
    used = dict.fromkeys(name for one in shown for name in _servers(one))
    numbers = {name: i + 1 for i, name in enumerate(used)}
    panels = [_Panel(one, numbers) for one in shown]
    width = max([FIGURE_WIDTH * (0.66 if len(used) <= 12 else 1), *(panel.width for panel in panels)])
    above = 0.45 * bool(title)
    height = above + sum(panel.height(width) for panel in panels)
    with canvas((title, *used, *(one.graph.pipeline.name for one in shown))):
        figure = Drawing(figsize=(width, height), facecolor=PAGE)
        if title:
            figure.text(0.5, 1 - 0.28 / height, heading(title, width), ha="center", va="center", fontsize=13)
        bottom = height - above
        for panel in panels:
            own = panel.height(width)
            bottom -= own
            axes = figure.add_axes((0, bottom / height, 1, own / height))
            axes.set(xlim=(0, width), ylim=(own, 0))  # inches from the upper left corner
            axes.set_axis_off()
            panel.draw(axes, width)
        figure.draw_without_rendering()
    return figure


def _servers(mapping: GPUMapping) -> dict[str, int]:
    """Server in use -> its GPUs in use, in the order of the servers."""
    gpus = np.bincount(mapping.server, weights=mapping.graph.size, minlength=len(mapping.servers))
    return {mapping.servers.names[m]: int(gpus[m]) for m in np.flatnonzero(gpus)}


@dataclass(frozen=True, eq=False)
class _Panel:
    """The panel of one job; all positions are in inches from its upper left corner."""

    mapping: GPUMapping
    numbers: dict[str, int]

    @cached_property
    def page(self) -> GraphLayout:
        return layout_graph(self.mapping.graph.pipeline.replicas.tolist())

    @cached_property
    def column(self) -> float:
        return float(np.clip((FIGURE_WIDTH - 1.2 * LEFT) / self.page.columns, LEAST_COLUMN, MOST_COLUMN))

    @cached_property
    def width(self) -> float:
        return max(LEFT + self.page.columns * self.column, LEFT + 0.1 * max(map(len, self._titles())))

    @cached_property
    def legend(self) -> list[str]:
        """Text for each server in use."""
        named = dict(zip(self.numbers, labels(self.numbers, 22), strict=True))
        return [f"{named[name]}: {n} GPU{'s' * (n != 1)}" for name, n in _servers(self.mapping).items()]

    def height(self, width: float) -> float:
        return TOP + ROW * (self.page.rows - 1) + 0.5 + LINE * self._lines(width) + 0.35

    def _across(self, width: float) -> int:
        """Number of columns of the legend."""
        return max(1, int((width - LEFT) / self._step))

    @cached_property
    def _step(self) -> float:
        return 0.5 + 0.085 * max(map(len, self.legend))

    def _lines(self, width: float) -> int:
        return ceil(len(self.legend) / self._across(width))

    def _titles(self) -> tuple[str, str]:
        mapping, graph = self.mapping, self.mapping.graph
        method = f" by {label(mapping.method, 2, 30)}" if mapping.method else ""
        every = graph.weight.sum()
        between = f"{format_bytes(mapping.cut_bytes)} of {format_bytes(every)} per iteration go between servers"
        return (
            f"{label(graph.pipeline.name, 1, 40)}{method}: {format_duration(mapping.iteration_seconds)} per iteration",
            between if every else "its replicas exchange nothing",
        )

    def places(self) -> Floats:
        """(V, 2) positions of the vertices."""
        return np.stack([LEFT + self.column * self.page.x, TOP + ROW * self.page.y], axis=1)

    def draw(self, axes: Axes, width: float) -> None:
        """Draw titles, edges, vertices, headings and legend."""
        large, small = self._titles()
        axes.text(LEFT - NODE / 2, 0.25, large, fontsize=11, va="center", weight="bold")
        axes.text(LEFT - NODE / 2, 0.48, small, fontsize=10, va="center")
        places = self.places()
        self._edges(axes, places)
        names = self.mapping.servers.names
        _nodes(axes, places, [self.numbers[names[m]] for m in self.mapping.server.tolist()])
        self._heads(axes)
        self._legend(axes, TOP + ROW * (self.page.rows - 1) + 0.5, width)

    def _edges(self, axes: Axes, places: Floats) -> None:
        graph, server = self.mapping.graph, self.mapping.server
        heaviest = np.argsort(-graph.weight.astype(float), kind="stable")[:MOST_EDGES]
        edges, weight = graph.edges[heaviest], graph.weight[heaviest].astype(float)
        if not len(edges):
            return
        thick = max(1.0, 4.0 * min(1.0, (60 / len(edges)) ** 0.5))  # points
        widths = 0.4 + thick * weight / (weight.max() or 1.0)
        curved = graph.stage[edges[:, 0]] == graph.stage[edges[:, 1]]
        lines = [self._line(places[a], places[b], bool(c)) for (a, b), c in zip(edges, curved, strict=True)]
        cut = server[edges[:, 0]] != server[edges[:, 1]]
        for which, colour in ((cut, BETWEEN), (~cut, WITHIN)):
            own = np.flatnonzero(which)
            _lines(axes, [lines[i] for i in own], widths[own], colour)

    def _line(self, a: Floats, b: Floats, curved: bool) -> Floats:
        """The line of an edge: straight, but curved around the replicas between two of one stage."""
        apart = np.abs(b - a) / (self.column, ROW)
        if not curved or apart.sum() < 1.5:
            return np.stack([a, b])
        aside = np.array([1.0, 0.0]) if apart[1] >= apart[0] else np.array([0.0, -1.0])
        room = self.column if apart[1] >= apart[0] else ROW
        bend = 2 * room * (0.3 + 0.15 * min(1.0, apart.max() / 16)) * aside
        t = np.linspace(0, 1, 17)[:, None]
        return np.asarray((1 - t) ** 2 * a + 2 * t * (1 - t) * ((a + b) / 2 + bend) + t**2 * b)

    def _heads(self, axes: Axes) -> None:
        page, replicas = self.page, self.mapping.graph.pipeline.replicas.tolist()
        paper = {"boxstyle": "square,pad=0.1", "facecolor": PAGE, "edgecolor": "none"}
        for s, (x, y) in enumerate(zip(page.head_x.tolist(), page.head_y.tolist(), strict=True)):
            text = f"S{s + 1}, {replicas[s]} replicas" if page.split and replicas[s] > 1 else f"S{s + 1}"
            at = LEFT + self.column * x, TOP + ROW * y - (0.37 if page.split else 0.27)
            axes.text(*at, text, fontsize=8, ha="center", va="center", color=QUIET, bbox=paper, zorder=2)
        if page.split or max(replicas) == 1:
            return
        for top, rows in page.bands:
            for r in range(rows):
                axes.text(0.3, TOP + ROW * (top + r), f"R{r + 1}", fontsize=8, ha="center", va="center", color=QUIET)

    def _legend(self, axes: Axes, top: float, width: float) -> None:
        across = self._across(width)
        numbers = [self.numbers[name] for name in _servers(self.mapping)]
        row, column = np.divmod(np.arange(len(numbers)), across)
        places = np.stack([LEFT + self._step * column, top + LINE * row], axis=1)
        _nodes(axes, places, numbers, 0.75)
        for (x, y), text in zip(places, self.legend, strict=True):
            axes.text(x + 0.2, y, text, fontsize=9, va="center")
        y = top + LINE * self._lines(width)
        weight = self.mapping.graph.weight
        if not len(weight):
            return
        for left, text, colour in ((0.0, "within a server", WITHIN), (2.0, "between servers", BETWEEN)):
            x = LEFT - 0.12 + left
            _lines(axes, [np.array([(x, y), (x + 0.45, y)])], np.array([2.0]), colour)
            axes.text(x + 0.55, y, text, fontsize=9, va="center")
        widest = f"width: bytes per iteration, up to {format_bytes(weight.max())}"
        axes.text(LEFT + 3.9, y, widest, fontsize=9, va="center")


def _lines(axes: Axes, lines: list[Floats], widths: Floats, colour: str) -> None:
    """Draw lines with these widths in points; lines between servers are dashed."""
    styles = [(0, tuple(DASH / width)) if colour == BETWEEN else "solid" for width in widths]
    drawn = LineCollection(lines, linewidths=widths, colors=colour, linestyles=styles, zorder=1)
    axes.add_collection(drawn)


def _nodes(axes: Axes, places: Floats, numbers: list[int], size: float = 1.0) -> None:
    """Draw markers of servers with their numbers inside."""
    given: NDArray[np.int64] = np.array(numbers) - 1
    shapes = list(SHAPES)
    for shape in range(len(shapes)):
        own = np.flatnonzero(given // len(LIGHT) % len(shapes) == shape)
        if len(own):
            area = (72 * NODE * size) ** 2 * SHAPES[shapes[shape]]
            fill = [LIGHT[i] for i in given[own] % len(LIGHT)]
            axes.scatter(
                places[own, 0],
                places[own, 1],
                s=area,
                c=fill,
                marker=shapes[shape],
                edgecolors=PAGE,
                linewidths=0.8,
                zorder=3,
            )
    for (x, y), number in zip(places, numbers, strict=True):
        letters = 9.5 if number < 100 else 7
        colour = letters_on(LIGHT[(number - 1) % len(LIGHT)])
        axes.text(x, y, str(number), fontsize=letters * size, ha="center", va="center_baseline", color=colour, zorder=4)


MOST_COLUMNS = 16
"""Most columns of a page; further stages continue in bands below, in alternating direction."""

MOST_ROWS = 16
"""Most replicas in a column; more of them fill several columns, in alternating direction."""


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """Positions of vertices in columns (to the right) and rows (downwards), both from 0.

    Attributes
    ----------
    x, y:
        (V,) position of each vertex, in the order of the graph.
    head_x, head_y:
        (S,) position of the heading of each stage; ``head_y`` is the row of its first replica.
    columns, rows:
        Columns and rows of the page; an empty row separates the bands of a long pipeline.
    bands:
        First row and number of rows of each band.
    split:
        Whether some stage fills several columns.
    """

    x: Floats
    y: Floats
    head_x: Floats
    head_y: Floats
    columns: int
    rows: int
    bands: tuple[tuple[int, int], ...]
    split: bool


def layout_graph(replicas: Sequence[int]) -> GraphLayout:
    """Positions of the replicas of each stage; neighbours in a ring and consecutive stages are adjacent.

    Parameters
    ----------
    replicas:
        (S,) number of replicas of each stage.
    """
    tall = max(MOST_ROWS, ceil(max(replicas) / MOST_COLUMNS))
    widths = [ceil(k / tall) for k in replicas]
    heights = [ceil(k / w) for k, w in zip(replicas, widths, strict=True)]
    bands = _bands(widths)
    columns = max(sum(widths[s] for s in band) for band in bands)
    x, y, head_x, head_y, tops = [], [], [], [], []
    top = 0
    for i, band in enumerate(bands):
        tops.append((top, max(heights[s] for s in band)))
        left = 0
        for s in band:
            column, row = np.divmod(np.arange(replicas[s]), heights[s])
            across = left + column
            x += (columns - 1 - across if i % 2 else across).tolist()
            y += (top + np.where(column % 2, heights[s] - 1 - row, row)).tolist()
            middle = left + (widths[s] - 1) / 2
            head_x.append(columns - 1 - middle if i % 2 else middle)
            head_y.append(top)
            left += widths[s]
        top += tops[-1][1] + 1
    vertices, heads = np.array([x, y], dtype=float), np.array([head_x, head_y], dtype=float)
    split = max(widths) > 1
    return GraphLayout(vertices[0], vertices[1], heads[0], heads[1], columns, top - 1, tuple(tops), split)


def _bands(widths: Sequence[int]) -> list[list[int]]:
    """Stages of each band; the bands are as even as possible."""
    needed = ceil(sum(widths) / MOST_COLUMNS)
    most = max(ceil(sum(widths) / needed), *widths)
    bands: list[list[int]] = [[]]
    left = most
    for s, width in enumerate(widths):
        if width > left:
            bands.append([])
            left = most
        bands[-1].append(s)
        left -= width
    return bands
