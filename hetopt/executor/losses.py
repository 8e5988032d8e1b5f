"""Loss curves of jobs, as they have told them; of a forked job the merged model's, with its copies beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from hetopt.executor import lease_directory as files
from hetopt.executor.snapshot import leases_of
from hetopt.executor.store import StateStore
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pictures import panel
from hetopt.presentation.style import SeriesStyle, canvas
from hetopt.presentation.tables import Cell, Column, Table, table_of

COLUMNS = ["step", "loss", "copy", "own", "seconds"]


def losses(store: StateStore, job: str) -> pd.DataFrame:
    """What the job has told with :meth:`hetopt.executor.Lease.tick`, by step.

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
    row, leases = leases_of(store, job)
    done: dict[int, int] = {}  # where a round of copies began -> steps of all of them together
    for lease, _ in leases:
        if lease["forked"] and lease["end_step"] is not None:
            done[lease["from_step"]] = done.get(lease["from_step"], 0) + lease["end_step"] - lease["from_step"]
    found = []
    for lease, folder in leases:
        base = lease["from_step"]
        mine = (lease["end_step"] or base) - base
        stretch = done.get(base, mine) / mine if lease["forked"] and mine > 0 else 1.0
        for step, loss in _told(folder):
            own = step - base
            found.append((base + own * stretch, loss, lease["copy"], own, lease["granted"] - row["submitted"]))
    return pd.DataFrame(found, columns=COLUMNS).sort_values("step", kind="stable", ignore_index=True)


def _told(folder: Path) -> list[tuple[int, float]]:
    """(step, loss) of one lease; lines that a crash has cut off are left out."""
    found = []
    for line in (files.read_text(folder / files.LOSSES) or "").splitlines():
        try:
            said = json.loads(line)
            found.append((int(said["step"]), float(said["loss"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def curve(table: pd.DataFrame) -> pd.DataFrame:
    """The line of a job: of a forked one the merged models, from which copies have begun; else all that it told.

    What the last round of a forked job merged nobody has begun from; its loss is not known.
    """
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
    with canvas([name for name, _ in tables_of]):
        figure, axes = panel(4.0, 7.0)
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
        figure.draw_without_rendering()  # lays out with these fonts
    return figure
