"""The HTML page of a folder of simulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hetopt.checks import choices, lookup
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.paper_comparison import compare_with_papers
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.metrics import over_time
from hetopt.metrics.definitions import by_theme
from hetopt.metrics.finish_time import IDEALS
from hetopt.presentation.console import versions
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture
from hetopt.presentation.simulation_report import charts, result_tables
from hetopt.presentation.simulation_report.gantt_charts import Window, gantt_charts, windows_of
from hetopt.presentation.simulation_report.runs import LoadedRuns, Step, load_runs, workload_facts
from hetopt.presentation.style import series_styles
from hetopt.simulation.log import Log

INTERVALS = 160
"""Number of intervals of curves over time."""


def page(
    folder: RunFolder,
    *,
    baseline: str | None = None,
    window: Window | None = None,
    seed: int | None = None,
    fairness: str = "themis",
    step: Step = lambda _: None,
) -> str:
    """The page as HTML text; equal folders give equal pages.

    Parameters
    ----------
    baseline:
        Label of the system that others are compared with; None: ``fft`` if it ran, else the first.
    window:
        Start and end of the Gantt charts in seconds; None: the busiest window.
    seed:
        Seed of the charts over time; None: the first of those with most systems.
    fairness:
        Definition of finish-time fairness in pictures and in the first table.
    step:
        Called with the name of each step when it starts.

    Raises
    ------
    UnknownName
        The baseline did not run on any workload, or the definition does not exist.
    InvalidOption
        No log has the seed or overlaps the window.
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    lookup(IDEALS, fairness, "definition of finish-time fairness")
    every = [part.statistics for part in folder.workloads]
    seeds = sorted({seed for own in every for seeds in own.seeds.values() for seed in seeds})
    if seed is not None and seed not in seeds:
        there = ", ".join(map(str, seeds)) or "none"
        raise InvalidOption(f"is {seed}, but no run in {folder.path} has it; it must be one of {there}", "seed")
    ran = sorted({name for own in every for name in own.systems})
    if baseline is not None and baseline not in ran:
        raise UnknownName(f"there is no system {baseline!r} to compare with in {folder.path}; {choices(baseline, ran)}")
    loaded = {part.name: load_runs(part, part.seed(seed), fairness, step) for part in folder.workloads}
    windows = windows_of({name: own.logs.values() for name, own in loaded.items()}, window)
    styles = series_styles(folder.systems)
    workloads = []
    for part in folder.workloads:
        step(f"drawing {part.name}")
        name, systems, runs, within = part.name, part.statistics.systems, loaded[part.name], windows.get(part.name)
        facts = {"name": name, "systems": systems, "instance": runs.instance, **workload_facts(part)}
        if systems:
            compared = part.statistics.baseline(baseline if baseline in systems else None)
            facts |= _numbers(part.statistics, compared, fairness, styles)
            facts |= _charts(runs, compared, styles, name)
            facts |= {"window": within, "gantt": gantt_charts(runs, within, name) if within else []}
        workloads.append(facts)
    claims = compare_with_papers(folder.table, clusters=folder.clusters)
    papers, elsewhere = (result_tables.published_table(claims[claims["elsewhere"] == other]) for other in (False, True))
    return render(
        "simulation.html.j2",
        versions=versions(),
        folder=folder,
        fairness=fairness,
        requested=window is not None,
        workloads=workloads,
        systems=result_tables.systems_table(folder, styles),
        papers=papers,
        elsewhere=elsewhere,
    )


def _numbers(statistics: SeedStatistics, baseline: str, fairness: str, styles: result_tables.Styles) -> dict[str, Any]:
    """Tables of all metrics."""
    main = result_tables.known_metrics(statistics, result_tables.MAIN, fairness)
    names = result_tables.system_column(statistics.systems, styles)
    return {
        "baseline": baseline,
        "best": result_tables.best_systems(statistics, fairness, baseline),
        "most_seeds": max(map(len, statistics.seeds.values())),
        "main": result_tables.numbers_table(statistics, main, names),
        "ratios": result_tables.numbers_table(statistics, main, names, baseline=baseline),
        "themes": {
            theme: result_tables.numbers_table(statistics, metrics, names, titles=False)
            for theme, metrics in by_theme(statistics.metrics).items()
        },
        "absent": statistics.absent,
    }


def _charts(loaded: LoadedRuns, baseline: str, styles: result_tables.Styles, where: str) -> dict[str, Any]:
    """Distributions over the jobs of all seeds, and curves over time with the length of their intervals in seconds."""
    logs = loaded.logs
    edges = np.linspace(*over_time.extent(logs.values()), INTERVALS + 1)

    def panels(curve: Callable[[Log, Floats], Floats], what: str) -> list[Picture]:
        values = {system: curve(log, edges) for system, log in logs.items()}
        behind = {system: values[baseline] for system in values if baseline in values and system != baseline}
        return charts.curves(values, behind, edges, what, styles, where)

    tenants = {name: over_time.mean_throughput(log, edges) for name, log in logs.items() if len(log.estimated)}
    estimated, actual = ({name: pair[i] for name, pair in tenants.items()} for i in range(2))
    what = "Estimated and actual throughput"
    return {
        "legend": [styles[name].key(name, line=True) for name in loaded.jct],
        "distributions": [
            charts.distribution(loaded.jct, "completion time", styles, where, ideal=False),
            charts.distribution(loaded.rho, "finish-time fairness", styles, where, ideal=True),
        ],
        "without": by_reason(loaded.without),
        "seed": loaded.seed,
        "interval": edges[1] - edges[0],
        "compared": baseline in logs and len(logs) > 1,
        "in_use": panels(lambda log, edges: 100 * over_time.mean_utilisation(log, edges), "GPUs that train"),
        "waiting": panels(over_time.mean_waiting, "Jobs that wait"),
        "estimates": charts.curves(actual, estimated, edges, what, styles, where, dashed=True),
    }
