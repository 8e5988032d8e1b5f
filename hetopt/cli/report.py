"""The command ``hetopt report``."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hetopt.cli.options import listed, policy_option
from hetopt.errors import InvalidOption
from hetopt.plugins import POLICIES, SYSTEMS
from hetopt.presentation import console


def report(
    runs: Annotated[Path, Argument(help="A folder of results of `hetopt simulate`.")],
    out: Annotated[
        Path | None,
        Option("--out", "-o", help="The page; an existing file is replaced.", show_default="report.html in the folder"),
    ] = None,
    baseline: Annotated[
        str | None, Option(help="The system that others are compared with.", show_default="fft, else the first")
    ] = None,
    policy: Annotated[
        list[str] | None,
        policy_option("Only these systems; separated by commas, or repeatable.", SYSTEMS, POLICIES, show_default="all"),
    ] = None,
    window: Annotated[
        str | None, Option(help="START:END of the timelines, e.g. 2h:6h.", show_default="the busiest period")
    ] = None,
    seed: Annotated[
        int | None, Option(help="Seed of the timelines.", show_default="the first of those with most systems")
    ] = None,
    fairness: Annotated[str, Option(help="Finish-time fairness of pictures: exclusive, themis or gavel.")] = "themis",
    show: Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")] = False,
    as_json: Annotated[bool, Option("--json/--no-json", help="Print the numbers as JSON, too.")] = False,
) -> None:
    """Write one HTML page about stored simulations: tables, charts, Gantt charts, comparison with the papers."""
    from hetopt.data.saving import check_writable, save
    from hetopt.experiments.run_folder import RunFolder
    from hetopt.presentation.simulation_report.gantt_charts import parse_window
    from hetopt.presentation.simulation_report.report_page import page

    sys.path.insert(0, "")  # workloads of module:Name
    chosen = None if window is None else parse_window(window)
    folder = RunFolder.of(runs, listed(policy, "--policy"))
    path = runs / "report.html" if out is None else out
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidOption(f"is {str(path)!r}; the page is HTML, so its name must end with .html", "--out")
    check_writable(path)
    drawn = sum(run.record.refused is None for run in folder.runs) + len(folder.workloads)
    with console.progress("report", drawn) as work:
        text = page(folder, baseline=baseline, window=chosen, seed=seed, fairness=fairness, step=work.begin)
    save(text, path, overwrite=True)
    if as_json:
        console.print_json(numbers(folder, path))
    else:
        print(f"page: {path}")
    if show:
        webbrowser.open(path.resolve().as_uri())


def numbers(folder: Any, path: Path) -> dict[str, Any]:
    """The main tables of the page; NaN is None."""
    from hetopt.experiments.paper_comparison import compare_with_papers

    workloads = {}
    for part in folder.workloads:
        own = part.statistics
        rows = {
            key: json.loads(getattr(own, key).to_json(orient="index", double_precision=15))
            for key in ("mean", "least", "most", "known")
        }
        workloads[part.name] = {**rows, "seeds": own.seeds, "refused": own.refused}
    claims = compare_with_papers(folder.table, clusters=folder.clusters)
    return {"page": str(path), "workloads": workloads, "claims": claims}
