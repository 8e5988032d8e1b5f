"""The HTML page of a folder of simulations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetopt.checks import choices, lookup
from hetopt.data.array_types import Floats
from hetopt.data.saving import save
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.paper_comparison import compare_with_papers
from hetopt.experiments.run_folder import RunFolder, WorkloadRuns
from hetopt.metrics.definitions import by_theme
from hetopt.metrics.finish_time import IDEALS
from hetopt.presentation.console import versions
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture, line_key
from hetopt.presentation.simulation_report import charts, result_tables, time_series
from hetopt.presentation.simulation_report.gantt_charts import gantt_charts
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns, Step, load_runs
from hetopt.presentation.simulation_report.run_facts import systems_table, workload_facts
from hetopt.presentation.simulation_report.windows import Window, windows_of
from hetopt.presentation.style import series_styles
from hetopt.simulation.log import Log


@dataclass(frozen=True)
class ReportOptions:
    """Options of the page.

    Parameters
    ----------
    baseline:
        Label of the system that others are compared with; None: ``fft`` if it ran, else the first.
    window:
        Start and end of the Gantt charts in seconds; None: the busiest window.
    seed:
        Seed of the timelines; None: the first of those with most systems.
    fairness:
        Definition of finish-time fairness in pictures and in the first table.

    Raises
    ------
    UnknownName
        The definition does not exist.
    """

    baseline: str | None = None
    window: Window | None = None
    seed: int | None = None
    fairness: str = "themis"

    def __post_init__(self) -> None:
        lookup(IDEALS, self.fairness, "definition of finish-time fairness")


def write(folder: RunFolder, path: Path, options: ReportOptions | None = None, step: Step = lambda _: None) -> None:
    """Write the page to ``path``, replacing a file there.

    Raises
    ------
    UnusableFile
        It cannot be written.
    HetoptError
        See :func:`page`.
    """
    save(page(folder, options, step), path, overwrite=True)


def page(folder: RunFolder, options: ReportOptions | None = None, step: Step = lambda _: None) -> str:
    """The page as HTML text; equal folders give equal pages.

    Raises
    ------
    UnknownName
        The baseline did not run on any workload.
    InvalidOption
        No log has the seed or overlaps the window.
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    chosen = options or ReportOptions()
    _check(folder, chosen)
    loaded = {part.name: load_runs(part, part.seed(chosen.seed), chosen.fairness, step) for part in folder.workloads}
    windows = windows_of(loaded, chosen.window)
    styles = series_styles(folder.systems)
    workloads = []
    for part in folder.workloads:
        step(f"drawing {part.name}")
        workloads.append(_workload(part, loaded[part.name], windows[part.name], chosen, styles))
    names = [part.name for part in folder.workloads]
    claims = compare_with_papers(folder.table, clusters=folder.clusters)
    own, others = (result_tables.published_table(claims[claims["elsewhere"] == there]) for there in (False, True))
    return render(
        "simulation.html.j2",
        title=f"Simulations: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}",
        versions=versions(),
        folder=folder,
        fairness=chosen.fairness,
        requested=chosen.window is not None,
        workloads=workloads,
        systems=systems_table(folder, styles),
        papers=own,
        elsewhere=others,
    )


def _check(folder: RunFolder, options: ReportOptions) -> None:
    """Refuse a seed or a baseline with which no workload ran."""
    every = [part.statistics for part in folder.workloads]
    seeds = sorted({seed for own in every for seeds in own.seeds.values() for seed in seeds})
    if options.seed is not None and options.seed not in seeds:
        there = ", ".join(map(str, seeds)) or "none"
        raise InvalidOption(f"is {options.seed}, but no run in {folder.path} has it; it must be one of {there}", "seed")
    ran, wanted = sorted({name for own in every for name in own.systems}), options.baseline
    if wanted is not None and wanted not in ran:
        raise UnknownName(f"there is no system {wanted!r} to compare with in {folder.path}; {choices(wanted, ran)}")


def _workload(
    part: WorkloadRuns, loaded: LoadedRuns, window: Window | None, options: ReportOptions, styles: result_tables.Styles
) -> dict[str, Any]:
    """The values of the section of a workload."""
    statistics, where, fairness = part.statistics, part.name, options.fairness
    facts = {"name": where, "systems": statistics.systems, "instance": loaded.instance, **workload_facts(part)}
    if not statistics.systems:
        return facts
    baseline = statistics.baseline(options.baseline if options.baseline in statistics.systems else None)
    main = result_tables.titles_of(statistics, result_tables.MAIN, fairness)
    drawn = main | result_tables.titles_of(statistics, result_tables.MORE, fairness)
    return facts | {
        "baseline": baseline,
        "best": result_tables.best_systems(statistics, fairness, baseline),
        "most_seeds": max(map(len, statistics.seeds.values())),
        "main": result_tables.numbers_table(statistics, main, styles),
        "ratios": result_tables.numbers_table(statistics, main, styles, baseline),
        "bars": [charts.bars(statistics, metric, title, styles, where) for metric, title in drawn.items()],
        "legend": [line_key(name, styles[name]) for name in loaded.jct],
        "distributions": [
            charts.distribution(loaded.jct, "completion time", styles, where, ideal=False),
            charts.distribution(loaded.rho, "finish-time fairness", styles, where, ideal=True),
        ],
        "without": by_reason(loaded.without),
        "themes": {
            theme: result_tables.numbers_table(statistics, {name: name for name in names}, styles)
            for theme, names in by_theme(statistics.metrics).items()
        },
        "absent": statistics.absent,
        "seed": loaded.seed,
        **_over_time(loaded, baseline, styles, where),
        "window": window,
        "gantt": gantt_charts(loaded, window, where) if window else [],
    }


def _over_time(loaded: LoadedRuns, baseline: str, styles: result_tables.Styles, where: str) -> dict[str, Any]:
    """Curves over time, with the length of their intervals in seconds."""
    edges = time_series.interval_edges(loaded.logs.values())

    def panels(curve: Callable[[Log, Floats], Floats], what: str) -> list[Picture]:
        values = {system: curve(log, edges) for system, log in loaded.logs.items()}
        others = [system for system in values if system != baseline]
        behind = dict.fromkeys(others, values[baseline]) if baseline in values else {}
        return charts.curves(values, behind, edges, what, styles, where)

    tenants = {name: time_series.throughput(log, edges) for name, log in loaded.logs.items() if len(log.estimated)}
    estimated, actual = ({name: pair[i] for name, pair in tenants.items()} for i in range(2))
    what = "Estimated and actual throughput"
    return {
        "interval": edges[1] - edges[0],
        "compared": baseline in loaded.logs and len(loaded.logs) > 1,
        "in_use": panels(time_series.in_use, "GPUs that train"),
        "waiting": panels(time_series.waiting, "Jobs that wait"),
        "estimates": charts.curves(actual, estimated, edges, what, styles, where, dashed=True),
    }
