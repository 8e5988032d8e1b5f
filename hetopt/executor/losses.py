"""Loss curves of jobs, as they reported them; of a forked job that of the merged model, with its copies beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from hetopt.executor import lease_directory as files
from hetopt.executor.connection import Connection
from hetopt.executor.leases import directory
from hetopt.executor.snapshot import leases_of
from hetopt.executor.state_database import StateDatabase
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pictures import chart
from hetopt.presentation.style import SeriesStyle
from hetopt.presentation.tables import Cell, Column, Table, table_of

POINTS, LEASES = 60, 6
"""Points of a small curve, and the newest leases of a job from which it is read."""

LINE_BYTES = 512
"""Most bytes of a line of a long file."""


def losses(database: StateDatabase, job: str) -> pd.DataFrame:
    """Losses that the job has reported with :meth:`hetopt.executor.Lease.tick`, by step.

    Returns
    -------
    DataFrame
        ``step`` (of the whole job: a forked copy's own steps are spread over what all copies did in its round),
        ``loss``, ``copy`` (0: not forked), ``own`` (steps that this process had done in its lease; 0: the model from
        which it began, of a forked job the merged one), ``seconds`` (since submission, when its lease began).

    Raises
    ------
    UnknownName
        There is no such job.
    """
    row, leases = leases_of(database, job)
    done: dict[int, int] = {}  # where a round of copies began -> steps of all of them together
    for lease, _ in leases:
        if lease["forked"] and lease["end_step"] is not None:
            done[lease["from_step"]] = done.get(lease["from_step"], 0) + lease["end_step"] - lease["from_step"]
    found = []
    for lease, folder in leases:
        base = lease["from_step"]
        mine = (lease["end_step"] or base) - base
        stretch = done.get(base, mine) / mine if lease["forked"] and mine > 0 else 1.0
        for step, loss in read_losses(folder):
            own = step - base
            found.append((base + own * stretch, loss, lease["copy"], own, lease["granted"] - row["submitted"]))
    table = pd.DataFrame(found, columns=["step", "loss", "copy", "own", "seconds"])
    return table.sort_values("step", kind="stable", ignore_index=True)


def read_losses(folder: Path, most: int | None = None) -> list[tuple[int, float]]:
    """(step, loss) that one lease has reported; damaged lines are left out.

    Parameters
    ----------
    most:
        Lines that are read of a long file, spread over all of it; None: all lines.
    """
    found = []
    for line in _lines(folder / files.LOSSES, most):
        try:
            entry = json.loads(line)
            found.append((int(entry["step"]), float(entry["loss"])))
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            continue
    return found


def _lines(path: Path, most: int | None) -> list[bytes]:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if most is None or size <= most * LINE_BYTES:
                return file.read().splitlines()
            found = [file.readline(LINE_BYTES)]
            for i in range(1, most):
                file.seek(round(i * (size - LINE_BYTES) / (most - 1)))
                file.readline(LINE_BYTES)  # the rest of a line
                found.append(file.readline(LINE_BYTES))
            return found
    except OSError:
        return []


def newest_curves(connection: Connection, jobs: Sequence[str], folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Job -> at most :data:`POINTS` (step, loss) of its newest leases that train; of a forked job those of one copy."""
    query = """
        SELECT jobs.name, leases.tag, leases.folder, leases.from_step
        FROM jobs JOIN leases ON leases.job = jobs.id
        WHERE jobs.name IN (SELECT value FROM json_each(:jobs)) AND leases.kind = 'train' AND leases.copy <= 1
        ORDER BY leases.id"""
    found: dict[str, list[tuple[int, Path]]] = {}
    for row in connection.rows(query, jobs=list(jobs)):
        found.setdefault(row["name"], []).append((row["from_step"], directory(row, folder)))
    return {job: recent_curve(leases[-LEASES:]) for job, leases in found.items()}


def recent_curve(leases: Sequence[tuple[int, Path]]) -> list[tuple[int, float]]:
    """The curve of leases, given by their first steps and directories, without the steps that were repeated later."""
    points: list[tuple[int, float]] = []
    for first, folder in leases:
        own = {step: loss for step, loss in read_losses(folder, POINTS) if step > first and isfinite(loss)}
        points = [point for point in points if point[0] <= first] + sorted(own.items())
    if len(points) <= POINTS:
        return points
    return [points[round(i * (len(points) - 1) / (POINTS - 1))] for i in range(POINTS)]


def curve(table: pd.DataFrame) -> pd.DataFrame:
    """The line of a job: all losses; of a forked job those of the merged models from which copies have begun."""
    return table[table["own"] == 0] if bool((table["copy"] > 0).any()) else table


def losses_table(frames: Sequence[tuple[str, pd.DataFrame]]) -> Table:
    """The first and the last loss of each job; a job without any has a note."""
    rows: list[list[Cell | str]] = []
    for job, frame in frames:
        if frame.empty:
            rows.append([job, "", "", "", "", "no loss reported with job.tick(step, loss=...), or it was pruned"])
            continue
        ends = [frame.iloc[0], frame.iloc[-1]]
        numbers = [format_number(row[key]) for row in ends for key in ("step", "loss")]
        alone = ends[1]["copy"] and ends[1]["own"]
        rows.append([job, *numbers, f"last loss: of copy {ends[1]['copy']:.0f} alone" if alone else ""])
    return table_of(("job", *map(Column, ("first step", "first loss", "last step", "last loss")), "note"), rows)


def draw(tables_of: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    """Loss over training steps, one line for each job."""
    with chart("", [name for name, _ in tables_of]) as (figure, axes):
        for i, (name, table) in enumerate(tables_of):
            style, copies, line = SeriesStyle(i), table[table["copy"] > 0], curve(table)
            axes.plot(copies["step"], copies["loss"], ".", color=style.colour, alpha=0.25, markersize=3)
            text = f"{label(name, i + 1)} (forked; dots: its copies)" if len(copies) else label(name, i + 1)
            axes.plot(line["step"], line["loss"], **style.line(), label=text)
        axes.set(xlabel="training steps of the job, all copies together", ylabel="loss", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: format_number(value))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid()
        if tables_of:
            axes.legend()
    return figure
