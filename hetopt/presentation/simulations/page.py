"""An HTML page about a folder of simulations: one file, nothing is loaded from elsewhere, nothing needs scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd

from hetopt.checks import choices, lookup
from hetopt.data.saving import save
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.claims import against
from hetopt.experiments.folder import Folder, Part
from hetopt.metrics.finish_time import IDEALS
from hetopt.presentation.comparison_page import STYLE as PLAIN
from hetopt.presentation.console import versions
from hetopt.presentation.simulations import charts, windows
from hetopt.presentation.simulations import gantt as timeline
from hetopt.presentation.simulations import result_tables as tables
from hetopt.presentation.simulations.loaded_runs import Gathered, Step, gather
from hetopt.presentation.simulations.provenance import what_was_run
from hetopt.presentation.simulations.style import STYLE, Look, looks


@dataclass(frozen=True)
class Wishes:
    """What the page is to show.

    Parameters
    ----------
    baseline:
        Label of the system that others are compared with; None: ``fft`` where it ran, else the first.
    window:
        Seconds of the timelines; None: the busiest stretch.
    seed:
        Of what is drawn over time; None: the first of those with most systems.
    fairness:
        Definition of finish-time fairness in pictures and in the first table.

    Raises
    ------
    UnknownName
        There is no such definition.
    """

    baseline: str | None = None
    window: tuple[float, float] | None = None
    seed: int | None = None
    fairness: str = "themis"

    def __post_init__(self) -> None:
        lookup(IDEALS, self.fairness, "definition of finish-time fairness")


def write(folder: Folder, path: Path, wishes: Wishes | None = None, step: Step = lambda _: None) -> None:
    """Write the page to ``path``, over what was there.

    Raises
    ------
    UnusableFile
        It cannot be written.
    HetoptError
        As of :func:`page`.
    """
    save(page(folder, wishes, step), path, overwrite=True)


def page(folder: Folder, wishes: Wishes | None = None, step: Step = lambda _: None) -> str:
    """The whole page as text; the same folder gives the same page.

    Raises
    ------
    UnknownName
        The baseline did not run on any workload.
    InvalidOption
        The seed or the window is in none of the logs.
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    asked = wishes or Wishes()
    seeds, bases = _seeds(folder, asked.seed), _baselines(folder, asked.baseline)
    found = {part.name: gather(part, seeds[part.name], asked.fairness, step) for part in folder.parts}
    outside = _outside(found, asked.window)
    colours = looks(folder.systems)
    sections = []
    for number, part in enumerate(folder.parts):
        step(f"drawing {part.name}")
        own = found[part.name]
        body = _section(part, own, bases[part.name], asked, colours, f"w{number}", outside.get(part.name, ""))
        sections.append(f"<h2 id='w{number}'>{escape(part.name)}</h2>{body}")
    names = [part.name for part in folder.parts]
    title = f"Simulations: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    links = "".join(f"<a href='#w{i}'>{escape(name)}</a>" for i, name in enumerate(names))
    made = ", ".join(f"{name} {text}" for name, text in versions().items())
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{PLAIN}{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{len(folder.runs)} runs of {len(folder.systems)} systems in <code>{escape(folder.path.name)}</code>.</p>"
        f"<nav aria-label='sections'><a href='#run'>What was run</a>{links}<a href='#papers'>The papers</a></nav>"
        f"<main><h2 id='run'>What was run</h2>{what_was_run(folder, found, colours)}"
        f"{''.join(sections)}<h2 id='papers'>Against what the papers claim</h2>{_papers(folder)}</main>"
        f"<footer><p class='quiet'>Page made by {escape(made)}.</p></footer></body></html>\n"
    )


def _seeds(folder: Folder, wanted: int | None) -> dict[str, int | None]:
    """Workload -> seed of what is drawn over time."""
    ran = sorted({seed for part in folder.parts for own in part.standings.seeds.values() for seed in own})
    if wanted is not None and wanted not in ran:
        there = ", ".join(map(str, ran)) or "none"
        raise InvalidOption(f"seed is {wanted}, with which nothing in {folder.path} ran; it must be one of {there}")
    return {part.name: part.seed(wanted) for part in folder.parts}


def _baselines(folder: Folder, wanted: str | None) -> dict[str, str]:
    """Workload -> who others are compared with; where ``wanted`` did not run, as if nobody were wanted."""
    ran = sorted({name for part in folder.parts for name in part.standings.systems})
    if wanted is not None and wanted not in ran:
        raise UnknownName(f"there is no system {wanted!r} to compare with in {folder.path}; {choices(wanted, ran)}")
    every = {part.name: part.standings for part in folder.parts}
    return {
        name: own.baseline(wanted if wanted in own.systems else None) if own.systems else ""
        for name, own in every.items()
    }


def _outside(found: Mapping[str, Gathered], window: tuple[float, float] | None) -> dict[str, str]:
    """Workload -> why the window shows nothing of it; an error where it shows nothing of any."""
    problems: dict[str, InvalidOption] = {}
    ran = {name: own for name, own in found.items() if own.logs}
    for name, own in ran.items():
        try:
            if window is not None:
                windows.inside(window, own.logs.values(), name)
        except InvalidOption as problem:
            problems[name] = problem
    if problems and len(problems) == len(ran):
        raise next(iter(problems.values()))
    return {name: str(problem) for name, problem in problems.items()}


def _section(
    part: Part, gathered: Gathered, baseline: str, wishes: Wishes, colours: Mapping[str, Look], name: str, outside: str
) -> str:
    """All about one workload."""
    standings = part.standings
    if not standings.systems:
        return "<p>No system ran it.</p>"
    head, fairness = tables.head_of(standings, wishes.fairness), wishes.fairness
    several = max(map(len, standings.seeds.values())) > 1
    spread = "mean over seeds, and below it from the least to the largest" if several else "one seed"
    caption = f"Sorted by mean completion time; {spread}. Marked: the best of those with most seeds."
    when = windows_shown(gathered, wishes.window, name) if not outside else f"<p>{escape(outside)}</p>"
    promised = charts.promises(gathered, colours, f"{name}-promises")
    parts = [
        f"<h3>Main numbers</h3>{tables.numbers(standings, head, colours, caption)}{tables.meaning(head)}",
        f"<h3>Relative to {escape(baseline)}</h3>{tables.ratios(standings, baseline, head, colours)}",
        f"<h3>Side by side</h3>{charts.bars(standings, fairness, colours, f'{name}-bars')}",
        f"<h3>Distributions</h3>{charts.distributions(gathered, fairness, colours, f'{name}-shares')}",
        f"<h3>Over time</h3>{charts.timelines(gathered, baseline, colours, f'{name}-time')}",
        f"<h3>Promised and had</h3>{promised}" if promised else "",
        f"<h3>What ran where</h3>{when}",
        f"<h3>All numbers</h3>{tables.all_numbers(standings, colours)}",
    ]
    return "".join(parts)


def windows_shown(gathered: Gathered, window: tuple[float, float] | None, name: str) -> str:
    """The timelines."""
    return timeline.timelines(gathered, window, f"{name}-window")


def _papers(folder: Folder) -> str:
    """Claims on the workloads that are meant for them, then on others."""
    found = against(folder.table, clusters=folder.clusters)
    if found.empty:
        return "<p>The papers say nothing of these systems beside each other that was measured here.</p>"
    said = (
        "<p>Ratios are taken seed by seed; below the mean stand the least and the largest. Traces are generated by the "
        "rules that the papers print, and are not the papers' own files; neither are the clusters.</p>"
    )
    own, others = found[~found["elsewhere"]], found[found["elsewhere"]]
    return f"{said}{_rows(own)}" + (f"<h3>On other workloads</h3>{_rows(others)}" if len(others) else "")


def _rows(rows: pd.DataFrame) -> str:
    return tables.claims(rows) if len(rows) else "<p>None on workloads that are meant for them.</p>"
