"""The page of a paper's maps: a sentence for each headline and reading, the maps, and all points as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from hetopt.checks import counted
from hetopt.data.saving import check_folder, save
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture, picture
from hetopt.presentation.ratio_map import KEYS, RatioMap, ratio_maps
from hetopt.presentation.tables import Column, Table, table_of
from hetopt.proofs.evaluations.claim_maps import ClaimMaps, Headline, MapAxis, region, sentence


def sentences(maps: ClaimMaps, table: pd.DataFrame) -> dict[int, list[str]]:
    """Position of each headline -> a sentence for each reading; ``table`` as of :meth:`ClaimMaps.table`."""
    return {
        number: [
            sentence(headline, reading, region(rows(table, number, reading), maps.axes))
            for reading in headline.readings
        ]
        for number, headline in enumerate(maps.headlines)
    }


def rows(table: pd.DataFrame, headline: int, reading: str) -> pd.DataFrame:
    """The rows of a headline and reading."""
    return table[(table["headline"] == headline) & (table["reading"] == reading)]


def grid(maps: ClaimMaps, own: pd.DataFrame, axis: MapAxis) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(values of ``axis``, loads) ratios, with usual values of the other axes."""
    for other in maps.others:
        if other is not axis:
            own = own[own[other.name] == other.usual]
    wide = own.pivot_table(index=axis.name, columns=maps.load.name, values="ratio", dropna=False)
    return wide.reindex(index=axis.values, columns=maps.load.values).to_numpy(dtype=float)


def _picture(maps: ClaimMaps, headline: Headline, number: int, table: pd.DataFrame) -> Picture:
    load = maps.load
    drawn = [
        [
            RatioMap(
                reading if first else "",
                load.title,
                axis.title,
                tuple(map(load.text, load.values)),
                tuple(map(axis.text, axis.values)),
                grid(maps, rows(table, number, reading), axis),
            )
            for reading in headline.readings
        ]
        for first, axis in zip((True, *(False for _ in maps.others)), maps.others, strict=False)
    ]
    text = f"Ratio of {headline.name} to {headline.others}"
    return picture(ratio_maps(drawn, headline.printed), text, keys=KEYS)


def points_table(maps: ClaimMaps, table: pd.DataFrame) -> Table:
    """All points, with the range over seeds where there are several."""
    lines = []
    for row in table.to_dict("records"):
        headline = maps.headlines[row["headline"]]
        span = f" ({row['low']:.3g} to {row['high']:.3g})" if row["low"] != row["high"] else ""
        values = [axis.text(row[axis.name]) for axis in maps.axes]
        lines.append([headline.others, row["reading"], *values, f"{format_number(row['ratio'], 3)}{span}"])
    names = [Column(axis.name, meaning=axis.title) for axis in maps.axes]
    return table_of(["baseline", "reading", *names, Column("ratio")], lines, "Ratios at all points")


def page(maps: ClaimMaps, table: pd.DataFrame, seeds: int, jobs: int, versions: Mapping[str, str]) -> str:
    """The whole page as text."""
    found = sentences(maps, table)
    return render(
        "maps.html.j2",
        package="hetopt.proofs.evaluations",
        title=f"{maps.paper}: where its headline claims hold",
        versions=versions,
        notes=[f"{counted(jobs, 'job')} at each point, {counted(seeds, 'seed')}.", *maps.notes],
        headlines=[
            {"headline": headline, "sentences": found[number], "picture": _picture(maps, headline, number, table)}
            for number, headline in enumerate(maps.headlines)
        ],
        table=points_table(maps, table),
    )


def write(
    maps: ClaimMaps, table: pd.DataFrame, folder: Path, *, seeds: int, jobs: int, versions: Mapping[str, str]
) -> Path:
    """Write ``maps.html`` and ``maps.csv``; return the page's path.

    Raises
    ------
    UnusableFile
        The folder cannot be made or written.
    """
    check_folder(folder)
    path = folder / "maps.html"
    save(page(maps, table, seeds, jobs, versions), path, overwrite=True)
    named = table.assign(headline=[maps.headlines[number].title for number in table["headline"]])
    save(named.to_csv(index=False), folder / "maps.csv", overwrite=True)
    return path
