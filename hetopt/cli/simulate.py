"""The commands ``hetopt simulate`` and ``hetopt report``."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hetopt.checks import at_least, counted
from hetopt.cli.options import (
    AsJson,
    CheckpointEvery,
    ClassWeights,
    EnvironmentOption,
    Kind,
    Load,
    Models,
    Reference,
    Runners,
    TenantsOf,
    TooLarge,
    TraceSettings,
    UnknownModels,
    check_interval,
    instances_and_files,
    listed,
    names_of,
    policy_option,
)
from hetopt.errors import HetoptError, InvalidOption, PolicyFailed
from hetopt.plugins import GENERATORS, POLICIES, SYSTEMS
from hetopt.presentation import console

if TYPE_CHECKING:
    import pandas as pd

    from hetopt.experiments.experiment import SystemVariant


INPUTS, DIGITS = "inputs", 12
"""Folder in that of the results for standard input, and hexadecimal digits of its digest in the name of its file."""


def traces_and_generators(incomplete: str) -> Iterator[str]:
    """Complete the name of a generator, an instance, or a file."""
    yield from names_of(GENERATORS)(incomplete)
    yield from instances_and_files(incomplete)


def simulate(
    trace: Annotated[
        str,
        Argument(
            help="A generator, a file of a trace, or an instance with jobs (file or name); - for standard input: an "
            "instance, or with --kind a trace.",
            autocompletion=traces_and_generators,
        ),
    ],
    policy: Annotated[
        list[str],
        policy_option(
            "Names from `hetopt systems` or `policies`, or module:Name; separated by commas, or repeatable.",
            SYSTEMS,
            POLICIES,
        ),
    ] = ["fft,gavel,oef-cooperative,hadar,asrpt,tiresias"],  # noqa: B006
    cluster: Annotated[
        str | None,
        Option(help="Servers of this instance (name or file), e.g. lab36.", autocompletion=instances_and_files),
    ] = None,
    seeds: Annotated[int, Option(help="Number of seeds: 0, 1, ….")] = 1,
    out: Annotated[Path, Option("--out", "-o", help="Folder of results; runs that it has are not repeated.")] = Path(
        "runs"
    ),
    jobs: Runners = 1,
    count: Annotated[
        int | None, Option(help="Number of jobs to generate, or to take from the start of the trace.")
    ] = None,
    load: Load = None,
    reference: Reference = None,
    too_large: TooLarge = "drop",
    models: Models = None,
    unknown_models: UnknownModels = "refuse",
    tenants: TenantsOf = "models",
    weights: ClassWeights = None,
    copies: Annotated[
        int | None,
        Option(
            help="Most copies of a job on several servers, for systems that fork jobs; default: as the jobs say, else "
            "any number."
        ),
    ] = None,
    round_seconds: Annotated[
        float | None, Option("--round", help="Round length in seconds; default: each policy's.")
    ] = None,
    environment: EnvironmentOption = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="A setting of one of the policies, name.key=value; repeatable.")
    ] = None,
    trace_settings: TraceSettings = None,
    kind: Kind = None,
    until: Annotated[float | None, Option(help="Stop every run after this simulated time, in seconds.")] = None,
    job_window: Annotated[
        str | None,
        Option(
            help="FIRST:END, e.g. 4000:5000: stop when these jobs, in order of arrival from 0 and without END, have "
            "finished, and measure them only; default: all.",
        ),
    ] = None,
    checkpoint_every: CheckpointEvery = 60.0,
    table_format: Annotated[str, Option("--format", help="Format of the tables: csv or parquet.")] = "csv",
    as_json: AsJson = False,
) -> None:
    """Simulate several policies on the same jobs, and store the results.

    Results in the folder are reused, and an interrupted run continues when the command is repeated.
    `hetopt report FOLDER` writes a page about them.
    """
    from hetopt.cli.arguments import parse_settings, stopped
    from hetopt.data.saving import check_folder
    from hetopt.experiments.environment_settings import EnvironmentSettings
    from hetopt.experiments.experiment import Experiment
    from hetopt.experiments.run_store import RunStore
    from hetopt.experiments.trace_workload import TraceWorkload
    from hetopt.presentation.simulation_progress import shown_runs
    from hetopt.simulation.log import check_job_window

    if seeds < 1:
        raise InvalidOption(f"is {seeds}; it must be at least 1", "--seeds")
    check_interval(checkpoint_every)
    window = None if job_window is None else _numbers_of(job_window)
    if round_seconds is not None:
        at_least(round_seconds, "--round", 0.0, InvalidOption, strict=True)
    with _kept_input(trace, cluster, kind, out) as (jobs_from, servers_from):
        workload = TraceWorkload(
            jobs_from,
            servers_from,
            count=count,
            load=load,
            models=models,
            tenants=None if tenants == "none" else tenants,  # type: ignore[arg-type]
            reference=reference,
            too_large=too_large,  # type: ignore[arg-type]
            unknown_models=unknown_models,  # type: ignore[arg-type]
            kind=kind,
            settings=parse_settings(trace_settings, "--trace-set"),
            weights=parse_settings(weights, "--weight") or None,
            copies=copies,
        )
        environment_settings = EnvironmentSettings.of(parse_settings(environment, "--environment"))
        experiment = Experiment(
            (workload,),
            system_variants(policy, settings, round_seconds),
            tuple(range(seeds)),
            environment_settings,
            until,
            window,
        )
        store = RunStore(out, table_format)  # type: ignore[arg-type]
        instance = workload.instance(0)  # reports errors before anything runs
        environment_settings.check(instance)
        if window is not None:
            check_job_window(window, len(instance.jobs))
        experiment.check(jobs)
    check_folder(out)
    keys = sorted((spec.key for spec in experiment.runs()), key=lambda key: (key.system, key.seed))
    try:
        missing = [spec.key for spec in experiment.missing(store)]
        with shown_runs("simulate", missing, jobs, store.seconds()) as work:
            records = experiment.run(store, jobs=jobs, watch=work.update, checkpoint_every=checkpoint_every)
    except KeyboardInterrupt:
        raise stopped(len(experiment.missing(store)), len(keys), out) from None
    except PolicyFailed:
        stored = [key for key in keys if (out / key.folder() / "run.json").exists()]
        if stored and not as_json:
            _show(store.table(stored))
        raise
    table = store.table(keys)
    if as_json:
        console.print_json(table)
        return
    from hetopt.presentation.terminal_tables import print_text

    _show(table)
    if workload.is_instance and seeds > 1:
        print_text("the jobs of an instance are the same with every seed; only errors and failures differ")
    if instance.source:
        print_text("  ", ("source", "bold"), f": {instance.source}")
    ran, hours = table[table["refused"].isna()], environment_settings.failing_hours
    if environment_settings.mtbf_hours and "makespan" in ran and not (ran["makespan"] <= 3600.0 * hours).all():
        print_text(
            f"servers fail in the first {hours:g} h only, and runs took longer; --environment failing_hours=… for more"
        )
    reused = len(keys) - len(records)
    print(counted(len(records), "run") + (f", {reused} already stored" if reused else "") + f": {out}")
    print(f"hetopt report {out}")


def _numbers_of(window: str) -> tuple[int, int]:
    """``4000:5000`` as two numbers."""
    first, _, end = window.partition(":")
    if not (first.isdecimal() and end.isdecimal()):
        raise InvalidOption(f"is {window!r}; it must be FIRST:END, two whole numbers, e.g. 4000:5000", "--job-window")
    return int(first), int(end)


@contextmanager
def _kept_input(trace: str, cluster: str | None, kind: str | None, folder: Path) -> Iterator[tuple[str, str | None]]:
    """The trace and the cluster; standard input (``-``) is kept in the folder of results, where each run reads it.

    It is an instance, or with ``kind`` a trace. After an error it is not kept.

    Raises
    ------
    InvalidOption
        Both are ``-``.
    """
    from hetopt.data.instance_files import LARGEST
    from hetopt.data.saving import check_folder, save
    from hetopt.data.standard_input import STANDARD_INPUT, read_bytes

    if "-" not in (trace, cluster):
        yield trace, cluster
        return
    if trace == cluster:
        raise InvalidOption("the trace and --cluster are both -; only one can be standard input")
    content = read_bytes(Path(STANDARD_INPUT), LARGEST)
    ending = "csv" if kind and trace == "-" else "json" if content.lstrip().startswith(b"{") else "yaml"
    path = folder / INPUTS / f"stdin-{sha256(content).hexdigest()[:DIGITS]}.{ending}"
    made = [one for one in (path, *path.parents) if not one.exists()]
    check_folder(path.parent)
    save(content, path, overwrite=True)
    try:
        yield (str(path), cluster) if trace == "-" else (trace, str(path))
    except HetoptError as problem:
        for one in made:
            one.unlink() if one == path else one.rmdir()
        if problem.file == str(path):
            problem.file = STANDARD_INPUT
        raise


def system_variants(
    policies: Collection[str], settings: list[str] | None = None, round_seconds: float | None = None
) -> tuple[SystemVariant, ...]:
    """The systems in lists separated by commas, each with its settings ``name.key=value``.

    Raises
    ------
    InvalidOption
        No name, or a setting of another name.
    """
    from hetopt.cli.arguments import parse_settings
    from hetopt.experiments.experiment import SystemVariant

    names = listed(policies, "--policy")
    own: dict[str, dict[str, Any]] = {name: {} for name in names}
    for pair in settings or []:
        owner = next((name for name in sorted(names, key=len, reverse=True) if pair.startswith(f"{name}.")), None)
        if owner is None:
            raise InvalidOption(f"--set {pair!r} must have the form name.key=value with one of {', '.join(names)}")
        own[owner] |= parse_settings([pair[len(owner) + 1 :]])
    return tuple(SystemVariant(name, own[name], round_seconds=round_seconds) for name in names)


def _show(table: pd.DataFrame) -> None:
    """Print means over seeds, the fastest system first, and which jobs and systems did not finish or run."""
    from hetopt.data.units import Unit
    from hetopt.experiments.seed_statistics import SeedStatistics
    from hetopt.presentation.simulation_report.result_tables import MAIN, numbers_table
    from hetopt.presentation.tables import number_column
    from hetopt.presentation.terminal_tables import print_text, show

    ran, statistics = table[table["refused"].isna()], SeedStatistics(table)
    if len(ran):
        rounds = ran.drop_duplicates("system").set_index("system")["round_seconds"].astype(float)[statistics.systems]
        round_length, lengths = number_column("round", rounds.tolist(), Unit.SECONDS, "length of a round")
        at_events = [replace(cell, text="events") if cell.value is None else cell for cell in lengths]
        metrics = [name for key in (*MAIN, "decision_mean") if (name := key.format("themis")) in statistics.ran]
        seeds = ran["seed"].nunique()
        title = str(table["workload"].iloc[0]) + (f", mean over {seeds} seeds" if seeds > 1 else "")
        leading = ("policy", statistics.systems), (round_length, at_events)
        show(numbers_table(statistics, metrics, *leading, title=title))
        for system, unfinished in ran.groupby("system")["unfinished"].sum().items():
            if unfinished:
                print_text(
                    f"{system}: {counted(unfinished, 'job')} did not finish; completion times are of the other jobs"
                )
    for _, row in table[table["refused"].notna()].drop_duplicates("system").iterrows():
        console.note(f"{row['system']} did not run: {row['refused']}")


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
        console.print_json(_numbers(folder, path))
    else:
        print(f"page: {path}")
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def _numbers(folder: Any, path: Path) -> dict[str, Any]:
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
