"""The page of a paper's maps: a sentence for each headline and reading, the maps, and all points as a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from hetopt.checks import counted
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture, picture
from hetopt.presentation.ratio_map import KEYS, RatioMap, ratio_maps
from hetopt.presentation.tables import Column, Table, table_of
from hetopt.proofs.evaluations.claim_maps import ClaimMaps, Headline, MapAxis, region, sentence


def sentences(maps: ClaimMaps, table: pd.DataFrame) -> dict[str, list[str]]:
    """Title of each headline -> a sentence for each reading; ``table`` as of :meth:`ClaimMaps.table`."""
    return {
        headline.title: [
            sentence(headline, reading, region(_rows(table, headline, reading), maps.axes))
            for reading in headline.readings
        ]
        for headline in maps.headlines
    }


def _rows(table: pd.DataFrame, headline: Headline, reading: str) -> pd.DataFrame:
    return table[(table["headline"] == headline.title) & (table["reading"] == reading)]


def _grid(maps: ClaimMaps, own: pd.DataFrame, axis: MapAxis) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(values of ``axis``, loads) ratios, with usual values of the other axes."""
    for other in maps.varied:
        if other is not axis:
            own = own[own[other.name] == other.usual]
    wide = own.pivot_table(index=axis.name, columns=maps.load.name, values="ratio", dropna=False)
    return wide.reindex(index=axis.values, columns=maps.load.values).to_numpy(dtype=float)


def _picture(maps: ClaimMaps, headline: Headline, table: pd.DataFrame) -> Picture:
    load = maps.load
    drawn = [
        [
            RatioMap(
                "" if row else reading,
                load.title,
                axis.title,
                tuple(map(load.text, load.values)),
                tuple(map(axis.text, axis.values)),
                _grid(maps, _rows(table, headline, reading), axis),
            )
            for reading in headline.readings
        ]
        for row, axis in enumerate(maps.varied)
    ]
    text = f"Ratio of {headline.name} to {headline.baselines}"
    return picture(ratio_maps(drawn, headline.printed), text, keys=KEYS)


def _points(maps: ClaimMaps, table: pd.DataFrame) -> Table:
    """All points, with the range over seeds where there are several."""
    lines, baselines = [], {headline.title: headline.baselines for headline in maps.headlines}
    for row in table.to_dict("records"):
        span = f" ({row['low']:.3g} to {row['high']:.3g})" if row["low"] != row["high"] else ""
        values = [axis.text(row[axis.name]) for axis in maps.axes]
        lines.append([baselines[row["headline"]], row["reading"], *values, f"{format_number(row['ratio'], 3)}{span}"])
    names = [Column(axis.name, meaning=axis.title) for axis in maps.axes]
    return table_of(["baseline", "reading", *names, Column("ratio")], lines, "Ratios at all points")


def page(
    maps: ClaimMaps, table: pd.DataFrame, found: Mapping[str, list[str]], seeds: int, versions: Mapping[str, str]
) -> str:
    """The whole page as text; ``found`` are the :func:`sentences`."""
    return render(
        "maps.html.j2",
        package="hetopt.proofs.evaluations",
        title=f"{maps.paper}: where its headline claims hold",
        versions=versions,
        notes=[f"{counted(maps.jobs, 'job')} at each point, {counted(seeds, 'seed')}.", *maps.notes],
        headlines=[
            {"headline": headline, "sentences": found[headline.title], "picture": _picture(maps, headline, table)}
            for headline in maps.headlines
        ],
        table=_points(maps, table),
    )
