"""The command ``hetopt recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from hetopt.cli.options import (
    AsJson,
    ClassWeights,
    EnvironmentOption,
    Kind,
    Load,
    Models,
    Plot,
    Reference,
    Runners,
    TenantsOf,
    TooLarge,
    TraceSettings,
    UnknownModels,
    instances_and_files,
    listed,
    policy_option,
)
from hetopt.cli.simulate import traces_and_generators
from hetopt.plugins import POLICIES, SYSTEMS
from hetopt.presentation import console


def recommend(
    trace: Annotated[
        str,
        Argument(
            help="A generator, a file of a trace, or an instance with jobs (file or name).",
            autocompletion=traces_and_generators,
        ),
    ],
    cluster: Annotated[
        str | None,
        Option(help="Servers of this instance (name or file), e.g. lab36.", autocompletion=instances_and_files),
    ] = None,
    aim: Annotated[
        list[str],
        Option(
            help="jct, tail, makespan, finish-time (fairness among jobs), tenants (fairness among them) or deadlines; "
            "separated by commas, or repeatable. By the first, one more GPU of each type is tried."
        ),
    ] = ["jct,finish-time"],  # noqa: B006
    policy: Annotated[
        list[str] | None,
        policy_option("Only these systems; separated by commas, or repeatable.", SYSTEMS, POLICIES, show_default="all"),
    ] = None,
    seconds: Annotated[
        float,
        Option("--budget", help="Wall-clock seconds for the race; systems too slow for two samples leave it."),
    ] = 600.0,
    samples: Annotated[int, Option(help="Largest number of samples: seeds, or blocks of a trace.")] = 10,
    count: Annotated[
        int | None, Option(help="Jobs of a sample; default: 200, a fifth of a shorter trace, all of an instance.")
    ] = None,
    load: Load = None,
    reference: Reference = None,
    weights: ClassWeights = None,
    copies: Annotated[
        int,
        Option(help="Most copies of a job on several servers, for systems that fork jobs (hadare, fair-sojourn)."),
    ] = 1,
    confidence: Annotated[float, Option(help="Confidence of the statements, from 0.5 to 1.")] = 0.95,
    deadline_factor: Annotated[
        float | None,
        Option(help="Deadlines for jobs without one: this factor of the time on the fastest GPU type after arrival."),
    ] = None,
    models: Models = None,
    unknown_models: UnknownModels = "refuse",
    too_large: TooLarge = "drop",
    tenants: TenantsOf = "models",
    environment: EnvironmentOption = None,
    trace_settings: TraceSettings = None,
    kind: Kind = None,
    out: Annotated[Path, Option("--out", "-o", help="Folder of results; runs that it has are not repeated.")] = Path(
        "recommended"
    ),
    jobs: Runners = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Race all systems on samples of a trace; print which is best, how sure that is, and what one more GPU brings.

    Systems that are certainly worse in every aim are dropped early. The answer is for the given cluster and load.
    """
    from hetopt.cli.arguments import parse_settings, save_picture
    from hetopt.data.saving import check_folder
    from hetopt.experiments.environment_settings import EnvironmentSettings
    from hetopt.experiments.experiment import SystemVariant
    from hetopt.experiments.race import Race, all_systems
    from hetopt.experiments.run_store import RunStore
    from hetopt.experiments.trace_workload import TraceWorkload
    from hetopt.presentation.recommendation import draw, one_more_table, ranking_table, sentences
    from hetopt.presentation.simulation_progress import watched_runs
    from hetopt.presentation.terminal_tables import print_text, show

    plain = TraceWorkload(
        trace,
        cluster,
        count=count,
        load=load,
        reference=reference,
        weights=parse_settings(weights, "--weight") or None,
        copies=copies,
        models=models,
        tenants=None if tenants == "none" else tenants,  # type: ignore[arg-type]
        too_large=too_large,  # type: ignore[arg-type]
        unknown_models=unknown_models,  # type: ignore[arg-type]
        kind=kind,
        settings=parse_settings(trace_settings, "--trace-set"),
        deadline_factor=deadline_factor,
    )
    workload = plain.in_blocks()
    systems = tuple(map(SystemVariant, listed(policy, "--policy"))) or all_systems()
    settings = EnvironmentSettings.of({"restart_seconds": 30.0} | parse_settings(environment, "--environment"))
    race = Race(workload, systems, tuple(listed(aim, "--aim")), settings, seconds, samples, confidence)
    instance = workload.instance(0)  # reports errors before anything runs
    settings.check(instance)
    race.check(jobs)
    check_folder(out)
    store, title = RunStore(out), workload.name + ("" if cluster is None else f" on {cluster}")
    try:
        result = race.run(store, jobs=jobs, watched=lambda runs: watched_runs("recommend", runs, store, jobs))
    except KeyboardInterrupt:
        console.note(f"stopped; what has run is stored in {out}; repeat the command to go on")
        raise Exit(130) from None
    assumed = ", ".join(
        [
            "the work of jobs is known" + (f" up to errors of {settings.work_error:g}" if settings.work_error else ""),
            f"a restart takes {settings.restart_seconds:g} s",
            "jobs are not forked" if copies == 1 else f"jobs may run in {copies} copies, which train as one gang would",
        ]
    )
    if as_json:
        console.print_json(result.as_dict() | {"assumed": assumed, "jobs": instance.source})
    else:
        show(ranking_table(result, title))
        if result.more:
            show(one_more_table(result), meaning=False)
        for text in sentences(result):
            print_text(text)
        print_text(f"assumed: {assumed}")
        if instance.source:
            print_text(f"jobs: {instance.source}")
        print(f"hetopt report {out}")
    if plot is not None:
        save_picture(draw(result, title), plot, quiet=as_json)
