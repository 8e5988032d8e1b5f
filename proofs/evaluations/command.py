"""The command ``hetopt reproduce``."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from hetopt.checks import choices
from hetopt.cli.simulate import progress
from hetopt.data.saving import check_folder
from hetopt.errors import UnknownName
from hetopt.experiments.run_store import RunStore
from hetopt.presentation import console
from hetopt.proofs.evaluations.evaluation import Evaluation, Scale

PAPERS = ("fft", "oef", "hadar", "asrpt")
"""Modules beside this one, each with an ``EVALUATION``."""


def evaluation_of(paper: str) -> Evaluation:
    """The evaluation of a paper, by its name in small letters.

    Raises
    ------
    UnknownName
        There is none.
    """
    if paper not in PAPERS:
        raise UnknownName(f"there is no evaluation {paper!r}; {choices(paper, PAPERS)}")
    found: Evaluation = import_module(f"hetopt.proofs.evaluations.{paper}").EVALUATION
    return found


def reproduce(
    paper: Annotated[str, typer.Argument(help="fft, oef, hadar or asrpt.")],
    scale: Annotated[float, typer.Option(help="Part of the paper's number of jobs, above 0, at most 1.")] = 0.05,
    seeds: Annotated[int, typer.Option(help="Run with so many seeds.")] = 1,
    parts: Annotated[str | None, typer.Option(help="Only these parts, by commas; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of results; default: reproduce-PAPER.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Runs side by side; -1: one per core.")] = 1,
    listed: Annotated[bool, typer.Option("--list", help="Say what would be run, and run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run the evaluation of a paper anew and print our numbers beside those that it claims.

    Results that are in the folder already are kept. `hetopt report FOLDER/PART` makes a page of a part.
    """
    evaluation = evaluation_of(paper)
    names = None if parts is None else [name.strip() for name in parts.split(",") if name.strip()]
    chosen = evaluation.chosen(Scale(scale, seeds), names)
    runs = {part.name: sum(1 for _ in part.experiment.runs()) for part in chosen}
    if listed:
        rows = [[part.name, str(runs[part.name]), part.about] for part in chosen]
        console.show_table(f"{evaluation.paper}: parts", ["part", "runs", "what it repeats"], rows, sentences=1)
        return
    folder = out or Path(f"reproduce-{paper}")
    check_folder(folder)
    with progress(sum(runs.values())) as watch:
        stores = evaluation.run(chosen, RunStore(folder), jobs=jobs, watch=watch)
    table = evaluation.compared(chosen, stores)
    if as_json:
        print(json.dumps(json.loads(table.to_json(orient="records")), indent=2))
        return
    size = f"{scale:g} of the jobs" if evaluation.scaled else "all jobs"
    title = f"{evaluation.paper}: {size}, {seeds} seed{'s' * (seeds > 1)}"
    show(table, title, evaluation.for_all)
    console.say(f"runs: {folder}")


def show(table: pd.DataFrame, title: str, for_all: str = "") -> None:
    """The claims that were compared, and below why numbers differ."""
    rows = []
    told: dict[str, list[str]] = {}
    many = table.duplicated(["id", "what", "workload", "numerator", "denominator"], keep=False)
    for row, in_several in zip(table.to_dict("records"), many.tolist(), strict=True):
        sides = " / ".join(side for side in (row["numerator"], row["denominator"]) if side)
        ours = number(row["ours_mean"])
        if row["pairs"] > 1:
            ours += f" ({number(row['ours_min'])} to {number(row['ours_max'])})"
        what = " on ".join(filter(None, [f"{row['what']}{': ' * bool(sides)}{sides}", _few(row["workload"])]))
        what += f" ({row['part']})" if in_several and row["part"] else ""
        rows.append([row["id"], row["printed"], ours, number(row["ratio_ours_over_claimed"]), what])
        for text in filter(None, (row["note"], row["why"])):
            told.setdefault(text, []).append(row["id"])
    console.show_table(title, ["claim", "paper", "ours", "ours / paper", "what"], rows, sentences=1)
    if for_all:
        console.say(f"All: {for_all}")
    for text, ids in told.items():
        console.say(f"{', '.join(dict.fromkeys(ids))}: {text}")


def _few(workloads: str) -> str:
    """Names joined by commas; of many the first and the last."""
    names = workloads.split(", ")
    return workloads if len(names) <= 2 else f"{len(names)} workloads, {names[0]} to {names[-1]}"


def number(value: float) -> str:
    """Three digits."""
    return "-" if math.isnan(value) else f"{value:.3g}"
