"""The command ``hetopt``: solve, audit, export and look at instances from the shell.

Bad input ends with exit code 2 and one line; a program without solution with exit code 1 and one line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from hetopt import console
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError, InvalidOption, NotSolved
from hetopt.programs.formulation import Formulation
from hetopt.registry import description, make_policy, policy_names
from hetopt.solving.options import Options
from hetopt.solving.road import Policy, compile_program, every_row, optimise, solve

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Who should get which GPU when."
)

File = Annotated[str, typer.Argument(help="An instance file (.yaml, .json), or the name of one that hetopt brings.")]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help="A name that `hetopt policies` lists, or module:Name.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A setting of the policy, key=value; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def load(name: str) -> Instance:
    """The instance in a file, or the named one that hetopt brings."""
    from hetopt.files.instance_files import read

    if Path(name).suffix or Path(name).exists():
        return read(name)
    from hetopt.registry import named_instance

    return named_instance(name)


def parse_settings(pairs: list[str] | None) -> dict[str, Any]:
    """``["round_seconds=60"]`` as a mapping; values are read as YAML scalars."""
    settings: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise InvalidOption(f"--set {pair!r} must have the form key=value")
        settings[key] = yaml.safe_load(value)
    return settings


def named_policy(name: str, settings: list[str] | None = None) -> Formulation | Policy:
    """The policy of that name; ``module:Name`` is also looked for in the current folder."""
    if ":" in name and "" not in sys.path:
        sys.path.insert(0, "")
    return make_policy(name, parse_settings(settings))


def _options(solver: str, time_limit: float | None, gap: float | None, exact: bool) -> Options:
    limits: dict[str, Any] = {} if gap is None else {"gap": gap}
    return Options(solver=solver, time_limit=time_limit, exact=exact, **limits)


def _run(policy: Formulation | Policy, instance: Instance, options: Options) -> Any:
    if isinstance(policy, Formulation):
        return solve(policy, instance, options)
    if options != Options():
        raise InvalidOption("this policy has its own options; give them with --set instead of --solver, --exact …")
    return solve(policy, instance)


@app.command("solve")
def solve_command(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg or .pdf.")] = None,
    exact: Annotated[bool, typer.Option(help="Prove the optimum in rational numbers.")] = False,
    solver: Annotated[str, typer.Option(help="highs, gurobi, or any that Pyomo knows.")] = "highs",
    time_limit: Annotated[float | None, typer.Option(help="Seconds.")] = None,
    gap: Annotated[float | None, typer.Option(help="Relative gap at which to stop.")] = None,
) -> None:
    """Give everyone GPUs by one policy; print shares, rates and the certificate."""
    from hetopt.pictures import check_picture_path, save

    if plot is not None:
        check_picture_path(plot)
    instance, chosen = load(file), named_policy(policy, settings)
    with console.working(f"{policy} on {file}"):
        result = _run(chosen, instance, _options(solver, time_limit, gap, exact))
    if plot is not None:
        save(result, plot, f"{policy} on {instance.name or file}")
    if as_json:
        print(json.dumps(console.result_json(result, policy, instance), indent=2))
    else:
        console.show_result(result, policy)
        if plot is not None:
            console.say(f"picture: {plot}")


@app.command("audit")
def audit_command(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    as_json: AsJson = False,
    search: Annotated[float, typer.Option(help="Seconds to search for misreports that pay; 0 for none.")] = 20.0,
) -> None:
    """Say which fairness properties hold for what a policy decides, and why not otherwise."""
    from hetopt.auditing import audit

    instance, chosen = load(file), named_policy(policy, settings)
    with console.working(f"auditing {policy} on {file}"):
        result = solve(chosen, instance)
        verdicts = audit(instance, result, policy=chosen if search > 0 else None, time_limit=search or None)
    if as_json:
        print(json.dumps(verdicts.as_dict(), indent=2, default=str))
    else:
        console.show_audit(verdicts, policy)


@app.command("export")
def export_command(
    file: File,
    policy: PolicyName,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write: .lp, .mps or .json.")],
    settings: Settings = None,
) -> None:
    """Write the program of a formulation as LP, MPS or JSON with readable names."""
    from hetopt.programs.exporting import export

    instance, chosen = load(file), named_policy(policy, settings)
    if not isinstance(chosen, Formulation):
        made = getattr(chosen, "formulation", None)
        if made is None:
            raise InvalidOption(f"{policy!r} is a procedure, not a program; there is nothing to export")
        chosen = made(instance, None)
    program = compile_program(chosen, instance).with_rows(every_row(chosen, chosen.entities(instance)))
    if program.earlier and out.suffix.lower() in (".lp", ".mps"):  # these formats hold a single objective
        program = optimise(program).program
        console.say("the objectives before the last were maximised; they stand as rows earlier_stage[...]")
    export(program, out)
    console.say(f"written: {out}")


@app.command("instances")
def instances_command(
    name: Annotated[str | None, typer.Argument(help="Show this one.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write it to a file (.yaml, .json).")] = None,
    as_json: AsJson = False,
) -> None:
    """List the instances that hetopt brings, or show or write one of them."""
    from hetopt.registry import named_instance, named_instances

    if name is None:
        if write is not None:
            raise InvalidOption("--write needs the name of an instance")
        listed = named_instances()
        print(json.dumps(listed, indent=2)) if as_json else console.show_names(listed, "instances", "what it is")
        return
    instance = named_instance(name)
    if write is not None:
        from hetopt.files.instance_files import write as write_file

        write_file(instance, write)
        console.say(f"written: {write}")
    else:
        console.show_instance(instance, as_json)


@app.command("policies")
def policies_command(as_json: AsJson = False) -> None:
    """List the policies that installed packages announce."""
    listed = {name: description(name) for name in policy_names()}
    print(json.dumps(listed, indent=2)) if as_json else console.show_names(listed, "policies", "what it does")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    instance: Annotated[str, typer.Option(help="Another instance: a file or a name.")] = "lab36/jobs",
) -> None:
    """Solve the lab cluster with every policy, print one table, write a report with pictures."""
    from hetopt.comparison import compare, of_one_demand
    from hetopt.report import write

    loaded = load(instance)
    if loaded.jobs:  # judged at the moment at which all jobs have arrived
        loaded = loaded.replace(time=max(loaded.time, *(job.arrival for job in loaded.jobs)))
    policies = {name: make_policy(name) for name in policy_names()}
    with console.steps(len(policies)) as step:
        comparison = compare(loaded, policies, step)
    if comparison.refused and len({job.demand for job in loaded.jobs}) > 1:
        alike = of_one_demand(loaded)
        label = f"{{}} ({alike.jobs[0].demand}-GPU jobs)"
        comparison = comparison.extended(compare(alike, {name: policies[name] for name in comparison.refused}), label)
    path = write(comparison, out, f"hetopt: every policy on {loaded.name or instance}", console.versions())
    console.show_comparison(comparison)
    console.say(f"report: {path.resolve()}")


def main() -> None:
    """Run the command; turn hetopt's errors into one line and an exit code."""
    try:
        app()
    except NotSolved as problem:
        sys.exit(_fail(problem, 1))
    except HetoptError as problem:
        sys.exit(_fail(problem, 2))
    except OSError as problem:
        sys.exit(_fail(problem, 2))


def _fail(problem: Exception, code: int) -> int:
    print(f"hetopt: {' '.join(str(problem).split())}", file=sys.stderr)
    return code
