"""What was run: workloads with their settings, systems with theirs, what was refused, and where runs are not alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from hetopt.experiments.comparison import by_reason
from hetopt.experiments.folder import Folder, Part
from hetopt.experiments.store import Run
from hetopt.presentation.formatting import duration
from hetopt.presentation.simulations.loaded_runs import Gathered
from hetopt.presentation.simulations.result_tables import first_column, table
from hetopt.presentation.simulations.style import Look

OWN = ("seed", "system", "system_settings", "system_files", "round_seconds")
"""Settings of a run in which runs of one workload may differ."""


def settings(run: Run) -> dict[str, str]:
    """What runs of one workload should have in common: name -> value, as text; without what is left at its default."""
    said = {key: value for key, value in run.data["settings"].items() if key not in OWN}
    flat: dict[str, Any] = {}
    for key, value in said.items():
        own = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{name}" if name else key: v for name, v in own}
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in flat.items() if v not in (None, {}, [])}


def unlike(runs: Sequence[Run]) -> dict[str, dict[str, list[str]]]:
    """Setting -> value -> systems, for the settings in which these runs differ though they should not."""
    found: dict[str, dict[str, list[str]]] = {}
    every = [(run.key.system, settings(run)) for run in runs]
    for key in dict.fromkeys(key for _, own in every for key in own):
        values: dict[str, list[str]] = {}
        for system, own in every:
            who = values.setdefault(own.get(key, "default"), [])
            if system not in who:
                who.append(system)
        if len(values) > 1:
            found[key] = values
    return found


def what_was_run(folder: Folder, gathered: Mapping[str, Gathered], looks: Mapping[str, Look]) -> str:
    """The first section of the page."""
    parts = [_workload(part, gathered[part.name]) for part in folder.parts]
    return f"{''.join(parts)}<h3>Systems</h3>{_systems(folder, looks)}"


def _workload(part: Part, gathered: Gathered) -> str:
    lines = []
    if (instance := gathered.instance) is not None:
        there = ", ".join(f"{number} {escape(kind)}" for kind, number in instance.cluster.capacity.items())
        tenants = f", {len(instance.tenants)} tenants" if instance.tenants else ""
        lines.append(f"{len(instance.cluster.servers)} servers with {there}; {len(instance.jobs)} jobs{tenants}")
    elif part.runs[0].data["capacity"]:
        lines.append(f"{part.runs[0].data['capacity']:g} GPUs")
    seeds = sorted({run.key.seed for run in part.runs})
    lines.append(f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}")
    differ = unlike(part.runs)
    same = [
        f"{key.removeprefix('workload.')} {value}" for key, value in settings(part.runs[0]).items() if key not in differ
    ]
    lines.append(f"settings: {escape('; '.join(same))}")
    text = f"<h3>{escape(part.name)}</h3><ul>{''.join(f'<li>{line}.</li>' for line in lines)}</ul>"
    if source := part.runs[0].data.get("source"):
        text += f"<p class='quiet source'>{escape(str(source))}</p>"
    return text + "".join(f"<p class='warn'>{line}</p>" for line in _warnings(part, differ, seeds)) + _refused(part)


def _warnings(part: Part, differ: Mapping[str, Mapping[str, Sequence[str]]], seeds: Sequence[int]) -> Iterable[str]:
    """Sentences on what is not alike or not whole."""
    standings = part.standings
    for key, values in differ.items():
        said = "; ".join(f"{value} ({', '.join(systems)})" for value, systems in values.items())
        yield f"Not comparable: runs differ in {escape(key)}: {escape(said)}."
    for system, own in standings.seeds.items():
        if own != list(seeds):
            ran = ", ".join(map(str, own))
            yield f"{escape(system)} ran with seeds {ran} only, so its means are over other traces."
    for system, number in dict(standings.mean.get("unfinished", {})).items():
        if number > 0:
            many = f"{number:g} {'job' if number == 1 else 'jobs'}"
            yield (
                f"{escape(str(system))}: {many} did not finish (mean over seeds); its completion times are those of "
                "the others."
            )


def _refused(part: Part) -> str:
    """Who did not run, and why; systems with the same reason together."""
    if not part.standings.refused:
        return ""
    reasons: dict[str, str] = {}
    for system, by_seed in part.standings.refused.items():
        for seed, why in by_seed.items():
            whole = len(by_seed) == len([run for run in part.runs if run.key.system == system])
            reasons[system if whole else f"{system} (seed {seed})"] = why
    items = (f"<li><b>{escape(', '.join(names))}</b>: {escape(why)}</li>" for why, names in by_reason(reasons).items())
    return f"<p>Did not run:</p><ul>{''.join(items)}</ul>"


def _systems(folder: Folder, looks: Mapping[str, Look]) -> str:
    rows = []
    for name in folder.systems:
        own = [run for run in folder.runs if run.key.system == name]
        data = own[0].data["settings"]
        given = ", ".join(f"{key} = {value}" for key, value in (data.get("system_settings") or {}).items())
        ran = [run for run in own if run.data["refused"] is None]
        seconds = sum(float(run.data.get("seconds", 0.0)) for run in ran)
        length = own[0].data.get("round_seconds")
        cells = [
            str(data.get("system", name)),
            given or "as they are",
            "at events" if length is None else f"{length:g} s",
        ]
        text = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(
            f"<tr>{first_column(name, looks)}{text}<td class='n'>{len(ran)} of {len(own)}</td>"
            f"<td class='n'>{duration(seconds)}</td></tr>"
        )
    names = ("system", "policy", "settings", "round", "runs that went through", "wall-clock time of all")
    return table("".join(f"<th scope='col'>{name}</th>" for name in names), rows, "", "words")
