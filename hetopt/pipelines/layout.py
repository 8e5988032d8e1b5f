"""Where the vertices of a job's graph stand on a page: stages side by side, the replicas of each below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from hetopt.data.entities import Floats

MOST_COLUMNS = 16
"""Columns beside each other on a page; what does not fit goes on below, from right to left and so on."""

MOST_ROWS = 16
"""Replicas of a stage below each other; more of them fill several columns, up and down."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Places in columns (to the right) and rows (downwards), both from 0.

    Attributes
    ----------
    x, y:
        (V,) of each vertex, in the order of the graph.
    head_x, head_y:
        (S,) of what stands above each stage; ``head_y`` is the row of its first replica.
    columns, rows:
        Of the whole page; a row more than the vertices need stands between the bands of a long pipeline.
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


def layout(replicas: Sequence[int]) -> Layout:
    """The places of the replicas of each stage; neighbours in a ring, and stages that follow, stand beside each other.

    Parameters
    ----------
    replicas:
        (S,) of each stage.
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
    return Layout(vertices[0], vertices[1], heads[0], heads[1], columns, top - 1, tuple(tops), split)


def _bands(widths: Sequence[int]) -> list[list[int]]:
    """Stages of each band, as even as whole stages allow."""
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
