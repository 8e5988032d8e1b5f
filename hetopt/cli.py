"""The command ``hetopt``: solve, audit, export and look at instances from the shell.

Bad input ends with exit code 2 and one line; a program without solution with exit code 1 and one line.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hetopt import __version__, console, views
from hetopt.allocation import Allocation, Plan
from hetopt.arguments import about, load, named_policy, present, solver_options
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError, InvalidOption, NotSolved
from hetopt.files.saving import check_folder, check_free, check_writable
from hetopt.programs.formulation import Formulation
from hetopt.registry import description, make_policy, policy_names
from hetopt.solving.options import Options
from hetopt.solving.road import Policy, solve

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Who should get which GPU when."
)

File = Annotated[str, typer.Argument(help="An instance file (.yaml, .json), or the name of one that hetopt brings.")]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help="A name that `hetopt policies` lists, or module:Name.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A setting of the policy, key=value; repeatable.")]
Moment = Annotated[
    float | None, typer.Option("--time", help="Seconds: jobs that arrive later are left out. Default: the instance's.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hetopt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Who should get which GPU when."""


def _run(policy: Formulation | Policy, instance: Instance, options: Options, name: str) -> Allocation | Plan:
    """What the policy decides; errors say of which file."""
    if options != Options() and not isinstance(policy, Formulation):
        raise InvalidOption("this policy is a procedure, not a program for a solver; leave out --solver, --exact …")
    with about(name, instance):
        return solve(policy, instance, options) if isinstance(policy, Formulation) else solve(policy, instance)


@app.command("solve")
def solve_command(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture: .png, .svg, .pdf; one there is replaced.")] = None,
    exact: Annotated[bool, typer.Option(help="Prove the optimum in rational numbers.")] = False,
    solver: Annotated[str, typer.Option(help="highs, gurobi, or any that Pyomo knows.")] = "highs",
    time_limit: Annotated[float | None, typer.Option(help="Seconds.")] = None,
    gap: Annotated[float | None, typer.Option(help="Relative gap at which to stop.")] = None,
) -> None:
    """Give everyone GPUs by one policy; print shares, rates and the certificate."""
    from hetopt.pictures import check_picture_path, save

    if plot is not None:
        check_picture_path(plot)
        check_writable(plot)
    options = solver_options(solver, time_limit, gap, exact)
    chosen, instance = named_policy(policy, settings), present(file, moment)
    with console.working(f"{policy} on {file}"):
        result = _run(chosen, instance, options, file)
    if as_json:
        print(json.dumps(views.result_json(result, policy, instance.name or file), indent=2))
    else:
        views.show_result(result, policy)
    if plot is not None:
        save(result, plot, f"{policy} on {instance.name or file}")
        if not as_json:
            console.say(f"picture: {plot}")


@app.command("audit")
def audit_command(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
    search: Annotated[float, typer.Option(help="Seconds to search for misreports that pay; 0 for none.")] = 20.0,
) -> None:
    """Say which fairness properties hold for what a policy decides, and why not otherwise."""
    from hetopt.auditing import audit
    from hetopt.auditing.verdict import undecided

    chosen, instance = named_policy(policy, settings), present(file, moment)
    with console.working(f"auditing {policy} on {file}"):
        result = _run(chosen, instance, Options(), file)
        with about(file, instance):
            verdicts = audit(instance, result, policy=chosen if search > 0 else None, time_limit=search or None)
            if search <= 0:
                verdicts = replace(
                    verdicts, strategy_proof=undecided("strategy_proof", "not searched for (--search 0)")
                )
    if as_json:
        print(json.dumps(verdicts.as_dict(), indent=2, default=str))
    else:
        views.show_audit(verdicts, policy)


@app.command("place")
def place_command(
    file: File, policy: PolicyName, settings: Settings = None, moment: Moment = None, as_json: AsJson = False
) -> None:
    """Round what a policy decides to whole GPUs and put jobs on servers: which job runs where, what waits and why."""
    from hetopt.placing import place

    chosen, instance = named_policy(policy, settings), present(file, moment)
    with console.working(f"placing {policy} on {file}"):
        result = _run(chosen, instance, Options(), file)
        with about(file, instance):
            first = place(instance, result)
    if as_json:
        data = {"instance": instance.name or file, "policy": policy, "time": instance.time}
        print(json.dumps({**data, **first.as_dict()}, indent=2))
    else:
        views.show_placement(first, policy)


@app.command("export")
def export_command(
    file: File,
    policy: PolicyName,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write: .lp, .mps or .json.")],
    settings: Settings = None,
    moment: Moment = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the program of a formulation as LP, MPS or JSON with readable names."""
    from hetopt.programs.exporting import export

    check_free(out, overwrite=overwrite)
    check_writable(out)
    chosen, instance = named_policy(policy, settings), present(file, moment)
    with about(file, instance):
        export(chosen, out, instance, overwrite=overwrite)
    console.say(f"written: {out}")


@app.command("instances")
def instances_command(
    name: Annotated[str | None, typer.Argument(help="Show this one.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write it to a file (.yaml, .json).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """List the instances that hetopt brings, or show or write one of them."""
    from hetopt.registry import named_instance, named_instances

    if name is None:
        if write is not None:
            raise InvalidOption("--write needs the name of an instance")
        listed = named_instances()
        print(json.dumps(listed, indent=2)) if as_json else views.show_names(listed, "instances", "what it is")
        return
    instance = named_instance(name)
    if write is not None:
        instance.write(write, overwrite=overwrite)
        console.say(f"written: {write}")
    else:
        views.show_instance(instance, as_json)


@app.command("policies")
def policies_command(as_json: AsJson = False) -> None:
    """List the policies that installed packages announce."""
    listed = {name: description(name) for name in policy_names()}
    print(json.dumps(listed, indent=2)) if as_json else views.show_names(listed, "policies", "what it does")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    instance: Annotated[str, typer.Option(help="Another instance: a file or a name.")] = "lab36/jobs",
    moment: Annotated[
        float | None, typer.Option("--time", help="Seconds; default: when the last job has arrived.")
    ] = None,
) -> None:
    """Solve, round and place the lab cluster with every policy; print tables, write a report with pictures."""
    from hetopt.comparison import compare, of_one_demand
    from hetopt.report import write

    check_folder(out)
    if moment is None:
        whole = load(instance)
        moment = max(whole.time, *(job.arrival for job in whole.jobs), 0.0)
    there = present(instance, moment)
    name = there.name or instance
    policies = {key: make_policy(key) for key in policy_names()}
    with console.steps(len(policies)) as step:
        comparison = compare(there, policies, step)
    if comparison.refused and len({job.demand for job in there.jobs}) > 1:
        alike = of_one_demand(there)
        label = f"{{}} ({alike.jobs[0].demand}-GPU jobs)"
        comparison = comparison.extended(compare(alike, {key: policies[key] for key in comparison.refused}), label)
    path = write(comparison, out, f"hetopt: every policy on {name}", console.versions())
    views.show_comparison(comparison, name)
    console.say(f"report: {path.resolve()}")


def main() -> None:
    """Run the command; turn hetopt's errors into one line and an exit code."""
    console.forgive_encodings()
    try:
        app()
    except NotSolved as problem:
        sys.exit(_fail(problem, 1))
    except HetoptError as problem:
        sys.exit(_fail(problem, 2))
    except OSError as problem:  # the disk is full, a pipe was closed …
        text = f"{problem.filename}: {problem.strerror}" if problem.filename and problem.strerror else str(problem)
        sys.exit(_fail(text, 2))


def _fail(problem: object, code: int) -> int:
    console.note(" ".join(str(problem).split()))
    return code
