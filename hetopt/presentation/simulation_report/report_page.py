"""The HTML page of a folder of simulations: a single self-contained file without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from hetopt.checks import choices, counted, lookup
from hetopt.data.saving import save
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.paper_comparison import compare_with_papers
from hetopt.experiments.run_folder import RunFolder, WorkloadRuns
from hetopt.experiments.run_store import StoredRun
from hetopt.metrics.finish_time import IDEALS
from hetopt.presentation.comparison_page import STYLE as PLAIN
from hetopt.presentation.console import versions
from hetopt.presentation.formatting import format_duration
from hetopt.presentation.simulation_report import charts, timelines
from hetopt.presentation.simulation_report import result_tables as tables
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns, Step, load_runs
from hetopt.presentation.simulation_report.report_style import STYLE, SystemStyle, system_styles
from hetopt.presentation.simulation_report.result_tables import first_column, table


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
    window: tuple[float, float] | None = None
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
    seeds, bases = _seeds(folder, chosen.seed), _baselines(folder, chosen.baseline)
    found = {part.name: load_runs(part, seeds[part.name], chosen.fairness, step) for part in folder.workloads}
    outside = _outside(found, chosen.window)
    styles = system_styles(folder.systems)
    sections = []
    for number, part in enumerate(folder.workloads):
        step(f"drawing {part.name}")
        own = found[part.name]
        body = _section(part, own, bases[part.name], chosen, styles, f"w{number}", outside.get(part.name, ""))
        sections.append(f"<h2 id='w{number}'>{escape(part.name)}</h2>{body}")
    names = [part.name for part in folder.workloads]
    title = f"Simulations: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    links = "".join(f"<a href='#w{i}'>{escape(name)}</a>" for i, name in enumerate(names))
    made = ", ".join(f"{name} {text}" for name, text in versions().items())
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{PLAIN}{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{counted(len(folder.runs), 'run')} of {counted(len(folder.systems), 'system')} "
        f"in <code>{escape(folder.path.name)}</code>.</p>"
        f"<nav aria-label='sections'><a href='#run'>What was run</a>{links}<a href='#papers'>The papers</a></nav>"
        f"<main><h2 id='run'>What was run</h2>{_what_was_run(folder, found, styles)}"
        f"{''.join(sections)}<h2 id='papers'>Comparison with the papers</h2>{_papers(folder)}</main>"
        f"<footer><p class='quiet'>Page made by {escape(made)}.</p></footer></body></html>\n"
    )


def _seeds(folder: RunFolder, wanted: int | None) -> dict[str, int | None]:
    """Workload -> seed of the timelines."""
    ran = sorted({seed for part in folder.workloads for own in part.statistics.seeds.values() for seed in own})
    if wanted is not None and wanted not in ran:
        there = ", ".join(map(str, ran)) or "none"
        raise InvalidOption(f"is {wanted}, but no run in {folder.path} has it; it must be one of {there}", "seed")
    return {part.name: part.seed(wanted) for part in folder.workloads}


def _baselines(folder: RunFolder, wanted: str | None) -> dict[str, str]:
    """Workload -> baseline; the default where ``wanted`` did not run."""
    ran = sorted({name for part in folder.workloads for name in part.statistics.systems})
    if wanted is not None and wanted not in ran:
        raise UnknownName(f"there is no system {wanted!r} to compare with in {folder.path}; {choices(wanted, ran)}")
    every = {part.name: part.statistics for part in folder.workloads}
    return {
        name: own.baseline(wanted if wanted in own.systems else None) if own.systems else ""
        for name, own in every.items()
    }


def _outside(found: Mapping[str, LoadedRuns], window: tuple[float, float] | None) -> dict[str, str]:
    """Workload -> why the window does not overlap it; an error if the window overlaps no workload."""
    problems: dict[str, InvalidOption] = {}
    ran = {name: own for name, own in found.items() if own.logs}
    for name, own in ran.items():
        try:
            if window is not None:
                timelines.check_window(window, own.logs.values(), name)
        except InvalidOption as problem:
            problems[name] = problem
    if problems and len(problems) == len(ran):
        raise next(iter(problems.values()))
    return {name: str(problem) for name, problem in problems.items()}


def _section(
    part: WorkloadRuns,
    loaded: LoadedRuns,
    baseline: str,
    options: ReportOptions,
    styles: Mapping[str, SystemStyle],
    name: str,
    outside: str,
) -> str:
    """The section of one workload."""
    statistics = part.statistics
    if not statistics.systems:
        return "<p>No system ran it.</p>"
    head, fairness = tables.head_of(statistics, options.fairness), options.fairness
    several = max(map(len, statistics.seeds.values())) > 1
    spread = "mean over seeds, and below it from the least to the largest" if several else "one seed"
    caption = f"Sorted by mean completion time; {spread}. Marked: the best of those with most seeds."
    gantt = f"<p>{escape(outside)}</p>" if outside else timelines.gantt_charts(loaded, options.window, f"{name}-window")
    estimates = charts.estimates(loaded, styles, f"{name}-promises")
    parts = [
        f"<h3>Main numbers</h3>{tables.numbers(statistics, head, styles, caption)}{tables.meaning(head)}",
        f"<h3>Relative to {escape(baseline)}</h3>{tables.ratios(statistics, baseline, head, styles)}",
        f"<h3>Side by side</h3>{charts.bars(statistics, fairness, styles, f'{name}-bars')}",
        f"<h3>Distributions</h3>{charts.distributions(loaded, fairness, styles, f'{name}-shares')}",
        f"<h3>Over time</h3>{charts.timelines(loaded, baseline, styles, f'{name}-time')}",
        f"<h3>Estimated and actual throughput</h3>{estimates}" if estimates else "",
        f"<h3>Gantt charts</h3>{gantt}",
        f"<h3>All numbers</h3>{tables.all_numbers(statistics, styles)}",
    ]
    return "".join(parts)


def _papers(folder: RunFolder) -> str:
    """Published results on their own workloads, then on others."""
    found = compare_with_papers(folder.table, clusters=folder.clusters)
    if found.empty:
        return "<p>The papers do not compare these systems by a metric that was measured here.</p>"
    intro = (
        "<p>Ratios are per seed; below the mean are the smallest and the largest. Traces and clusters follow the "
        "descriptions in the papers; they are not the papers' own.</p>"
    )
    own, others = found[~found["elsewhere"]], found[found["elsewhere"]]
    return f"{intro}{_rows(own)}" + (f"<h3>On other workloads</h3>{_rows(others)}" if len(others) else "")


def _rows(rows: pd.DataFrame) -> str:
    return tables.published(rows) if len(rows) else "<p>No runs on the papers' own workloads.</p>"


OWN = ("seed", "system", "system_settings", "system_files", "round_seconds")
"""Settings in which runs of one workload may differ."""


def common_settings(run: StoredRun) -> dict[str, str]:
    """Settings that all runs of one workload should have in common, as text; without defaults."""
    own = {key: value for key, value in run.record.settings.items() if key not in OWN}
    flat: dict[str, Any] = {}
    for key, value in own.items():
        items = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{name}" if name else key: v for name, v in items}
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in flat.items() if v not in (None, {}, [])}


def differing_settings(runs: Sequence[StoredRun]) -> dict[str, dict[str, list[str]]]:
    """Setting -> value -> systems, for common settings in which these runs differ."""
    found: dict[str, dict[str, list[str]]] = {}
    every = [(run.key.system, common_settings(run)) for run in runs]
    for key in dict.fromkeys(key for _, own in every for key in own):
        values: dict[str, list[str]] = {}
        for system, own in every:
            who = values.setdefault(own.get(key, "default"), [])
            if system not in who:
                who.append(system)
        if len(values) > 1:
            found[key] = values
    return found


def _what_was_run(folder: RunFolder, loaded: Mapping[str, LoadedRuns], styles: Mapping[str, SystemStyle]) -> str:
    """The first section of the page: workloads and systems with their settings, refusals, and differing settings."""
    parts = [_workload(part, loaded[part.name]) for part in folder.workloads]
    return f"{''.join(parts)}<h3>Systems</h3>{_systems(folder, styles)}"


def _workload(part: WorkloadRuns, loaded: LoadedRuns) -> str:
    lines = []
    if (instance := loaded.instance) is not None:
        there = ", ".join(f"{number} {escape(kind)}" for kind, number in instance.cluster.capacity.items())
        tenants = f", {counted(len(instance.tenants), 'tenant')}" if instance.tenants else ""
        servers = counted(len(instance.cluster.servers), "server")
        lines.append(f"{servers} with {there}; {counted(len(instance.jobs), 'job')}{tenants}")
    elif capacity := part.runs[0].record.capacity:
        lines.append(counted(float(capacity), "GPU"))
    seeds = sorted({run.key.seed for run in part.runs})
    lines.append(f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}")
    differ = differing_settings(part.runs)
    same = [
        f"{key.removeprefix('workload.')} {value}"
        for key, value in common_settings(part.runs[0]).items()
        if key not in differ
    ]
    lines.append(f"settings: {escape('; '.join(same))}")
    text = f"<h3>{escape(part.name)}</h3><ul>{''.join(f'<li>{line}.</li>' for line in lines)}</ul>"
    if source := part.runs[0].record.source:
        text += f"<p class='quiet source'>{escape(source)}</p>"
    return text + "".join(f"<p class='warn'>{line}</p>" for line in _warnings(part, differ, seeds)) + _refused(part)


def _warnings(
    part: WorkloadRuns, differ: Mapping[str, Mapping[str, Sequence[str]]], seeds: Sequence[int]
) -> Iterable[str]:
    """Sentences on differing settings, missing seeds and unfinished jobs."""
    statistics = part.statistics
    for key, values in differ.items():
        listed = "; ".join(f"{value} ({', '.join(systems)})" for value, systems in values.items())
        yield f"Not comparable: runs differ in {escape(key)}: {escape(listed)}."
    for system, own in statistics.seeds.items():
        if own != list(seeds):
            ran = ", ".join(map(str, own))
            yield f"{escape(system)} ran with seeds {ran} only, so its means are over other traces."
    for system, number in dict(statistics.mean.get("unfinished", {})).items():
        if number > 0:
            many = f"{number:g} {'job' if number == 1 else 'jobs'}"
            yield (
                f"{escape(str(system))}: {many} did not finish (mean over seeds); its completion times are of the "
                "other jobs."
            )


def _refused(part: WorkloadRuns) -> str:
    """Systems that did not run, grouped by reason."""
    if not part.statistics.refused:
        return ""
    reasons: dict[str, str] = {}
    for system, by_seed in part.statistics.refused.items():
        for seed, why in by_seed.items():
            whole = len(by_seed) == len([run for run in part.runs if run.key.system == system])
            reasons[system if whole else f"{system} (seed {seed})"] = why
    items = (f"<li><b>{escape(', '.join(names))}</b>: {escape(why)}</li>" for why, names in by_reason(reasons).items())
    return f"<p>Did not run:</p><ul>{''.join(items)}</ul>"


def _systems(folder: RunFolder, styles: Mapping[str, SystemStyle]) -> str:
    rows = []
    for name in folder.systems:
        own = [run for run in folder.runs if run.key.system == name]
        settings, length = own[0].record.settings, own[0].record.round_seconds
        given = ", ".join(f"{key} = {value}" for key, value in (settings.get("system_settings") or {}).items())
        ran = [run for run in own if run.record.refused is None]
        seconds = sum(run.record.seconds for run in ran)
        cells = [
            own[0].record.system_name,
            given or "default",
            "at events" if length is None else f"{length:g} s",
        ]
        text = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(
            f"<tr>{first_column(name, styles)}{text}<td class='n'>{len(ran)} of {len(own)}</td>"
            f"<td class='n'>{format_duration(seconds)}</td></tr>"
        )
    names = ("system", "policy", "settings", "round", "completed runs", "their wall-clock time")
    return table("".join(f"<th scope='col'>{name}</th>" for name in names), rows, "", "words")
