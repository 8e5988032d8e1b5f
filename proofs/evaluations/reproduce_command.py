"""The command ``hetopt reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hetopt.checks import counted, lookup, whole
from hetopt.cli.options import AsJson, CheckpointEvery, Runners, check_interval, listed
from hetopt.errors import InvalidOption
from hetopt.presentation import console

if TYPE_CHECKING:
    import pandas as pd

    from hetopt.experiments.run_store import RunKey
    from hetopt.proofs.evaluations.claim_maps import ClaimMaps
    from hetopt.proofs.evaluations.evaluation import Evaluation, EvaluationPart

PAPERS = ("fft", "oef", "hadar", "asrpt")
"""Papers with an evaluation."""


LEAST_MAP_JOBS = 20
"""Fewest jobs at a point of a map."""

USUAL_SCALE = 0.05
"""Fraction of the paper's number of jobs, where none is given."""


def evaluation_of(paper: str) -> Evaluation:
    """The evaluation of a paper by its lower-case name.

    Raises
    ------
    UnknownName
        There is no evaluation of that name.
    """
    lookup(dict.fromkeys(PAPERS), paper, "evaluation")
    found: Evaluation = import_module(f"hetopt.proofs.evaluations.{paper}_evaluation").EVALUATION
    return found


def reproduce(
    paper: Annotated[str, Argument(help="fft, oef, hadar or asrpt.", autocompletion=lambda: PAPERS)],
    scale: Annotated[
        float | None,
        Option(help="Fraction of the paper's number of jobs, above 0, at most 1.", show_default=str(USUAL_SCALE)),
    ] = None,
    seeds: Annotated[int, Option(help="Number of seeds of each experiment.")] = 1,
    parts: Annotated[
        list[str] | None, Option(help="Only these parts, see --list; separated by commas, or repeatable.")
    ] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Folder of results; default: reproduce-PAPER.")] = None,
    jobs: Runners = 1,
    checkpoint_every: CheckpointEvery = 60.0,
    listing: Annotated[bool, Option("--list/--no-list", help="List the parts, without running them.")] = False,
    maps: Annotated[
        bool, Option("--map/--no-map", help="Map where the headline claims hold, instead of the evaluation.")
    ] = False,
    map_jobs: Annotated[int | None, Option(help="Number of jobs at each point of the maps.")] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the evaluation of a paper, and print our numbers next to the claimed ones.

    Results in the folder are reused, and an interrupted run continues when the command is repeated.
    `hetopt report FOLDER/PART` makes a page of a part. With --map the systems run at many loads, demands, lengths,
    networks, rounds and errors, and a page maps where each headline claim holds, with a sentence for each.
    """
    from hetopt.cli.arguments import stopped
    from hetopt.data.saving import check_folder
    from hetopt.experiments.run_store import RunStore
    from hetopt.presentation import terminal_tables
    from hetopt.presentation.simulation_progress import shown_runs
    from hetopt.presentation.tables import Column, table_of
    from hetopt.proofs.evaluations.evaluation import EvaluationScale, run_parts

    check_interval(checkpoint_every)
    evaluation = evaluation_of(paper)
    names = None if parts is None else listed(parts, "--parts")
    if map_jobs is not None and not maps:
        raise InvalidOption("is the number of jobs of maps; give --map, too", "--map-jobs")
    if scale is not None and maps:
        raise InvalidOption("is of the evaluation; maps have --map-jobs", "--scale")
    if names is not None and maps:
        raise InvalidOption("are of the evaluation; maps run at all their points", "--parts")
    scaled = EvaluationScale(USUAL_SCALE if scale is None else scale, seeds)
    own = _maps(paper, map_jobs) if maps else None
    chosen = evaluation.chosen(scaled, names) if own is None else own.parts(seeds)
    runs = {part.name: sum(1 for _ in part.experiment.runs()) for part in chosen}
    if listing:
        rows = [[part.name, str(runs[part.name]), part.about] for part in chosen]
        noun = "point" if maps else "part"
        columns: list[Column | str] = [noun, Column("runs"), "what it repeats"]
        terminal_tables.show(table_of(columns, rows, f"{evaluation.paper}: {noun}s"))
        return
    folder = out or Path(f"reproduce-{paper}-map" if maps else f"reproduce-{paper}")
    check_folder(folder)
    if own is not None and (other := next((d.name for d in folder.iterdir() if d.is_dir() and d.name not in runs), "")):
        raise InvalidOption(f"{folder} holds {other!r}, which is no point of these maps; give another folder", "--out")
    try:
        with shown_runs("reproduce", _missing(chosen, folder), jobs, _seconds(chosen, folder)) as work:
            stores = run_parts(
                chosen, RunStore(folder), jobs=jobs, watch=work.update, checkpoint_every=checkpoint_every
            )
    except KeyboardInterrupt:
        raise stopped(len(_missing(chosen, folder)), sum(runs.values()), folder) from None
    if own is not None:
        _show_maps(own, own.table(stores), folder, seeds, as_json)
        return
    table = evaluation.compared(chosen, stores)
    if as_json:
        console.print_json(table)
        return
    size = f"{scaled.jobs:g} of the jobs" if evaluation.scaled else "all jobs"
    title = f"{evaluation.paper}: {size}, {counted(seeds, 'seed')}"
    show(table, title, evaluation.common_reason)
    print(f"runs: {folder}")


def _maps(paper: str, jobs: int | None) -> ClaimMaps:
    """The maps of a paper, with this number of jobs."""
    from hetopt.proofs.evaluations.headline_maps import MAPS

    return MAPS[paper] if jobs is None else replace(MAPS[paper], jobs=whole(jobs, "--map-jobs", LEAST_MAP_JOBS))


def _show_maps(maps: ClaimMaps, table: pd.DataFrame, folder: Path, seeds: int, as_json: bool) -> None:
    """Write the page and the table, and print the sentences and where the page is."""
    from hetopt.data.saving import save
    from hetopt.presentation import terminal_tables
    from hetopt.proofs.evaluations import map_page

    found, path = map_page.sentences(maps, table), folder / "maps.html"
    save(map_page.page(maps, table, found, seeds, console.versions()), path, overwrite=True)
    save(table.to_csv(index=False), folder / "maps.csv", overwrite=True)
    if as_json:
        console.print_json(table)
        return
    for title, texts in found.items():
        terminal_tables.print_text(f"{maps.paper}: {title}")
        for text in texts:
            terminal_tables.print_text(f"- {text}")
    print(f"page: {path}")


def _missing(parts: Sequence[EvaluationPart], folder: Path) -> list[RunKey]:
    """The runs that are not stored."""
    from hetopt.experiments.run_store import RunStore
    from hetopt.proofs.evaluations.evaluation import key_in_part

    return [
        key_in_part(part, spec.key) for part in parts for spec in part.experiment.missing(RunStore(folder / part.name))
    ]


def _seconds(parts: Sequence[EvaluationPart], folder: Path) -> dict[RunKey, float]:
    """Wall-clock seconds of the stored runs."""
    from hetopt.experiments.run_store import RunStore
    from hetopt.proofs.evaluations.evaluation import key_in_part

    return {
        key_in_part(part, key): seconds
        for part in parts
        for key, seconds in RunStore(folder / part.name).seconds().items()
    }


def show(table: pd.DataFrame, title: str, common_reason: str = "") -> None:
    """Print the compared claims, then the notes and the reasons why numbers may differ."""
    from hetopt.presentation import terminal_tables
    from hetopt.presentation.formatting import format_number
    from hetopt.presentation.tables import Column, table_of

    rows = []
    remarks: dict[str, list[str]] = {}
    repeated = table.duplicated(["id", "what", "workload", "numerator", "denominator"], keep=False)
    for row, in_several in zip(table.to_dict("records"), repeated.tolist(), strict=True):
        sides = " / ".join(side for side in (row["numerator"], row["denominator"]) if side)
        ours = format_number(row["ours_mean"], 3)
        if row["pairs"] > 1:
            ours += f" ({format_number(row['ours_min'], 3)} to {format_number(row['ours_max'], 3)})"
        what = " on ".join(filter(None, [f"{row['what']}{': ' * bool(sides)}{sides}", _short_list(row["workload"])]))
        what += f" ({row['part']})" if in_several and row["part"] else ""
        rows.append([row["id"], row["printed"], ours, format_number(row["ratio_ours_over_claimed"], 3), what])
        for text in filter(None, (row["note"], row["why"])):
            remarks.setdefault(text, []).append(row["id"])
    terminal_tables.show(
        table_of(["claim", *map(Column, ("paper", "ours", "ours / paper")), "what"], rows, title), most=None
    )
    if common_reason:
        terminal_tables.print_text(f"All: {common_reason}")
    for text, ids in remarks.items():
        terminal_tables.print_text(f"{', '.join(dict.fromkeys(ids))}: {text}")


def _short_list(workloads: str) -> str:
    """One or two workload names; for more their number, the first and the last."""
    names = workloads.split(", ")
    return workloads if len(names) <= 2 else f"{len(names)} workloads, {names[0]} to {names[-1]}"
