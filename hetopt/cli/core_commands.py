"""The commands on one instance (solve, audit, place, export, show, …), and the lists of plugins.

Heavy packages are imported when a command runs, so help and completion answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hetopt.checks import shown
from hetopt.cli.options import INSTANCE, POLICY, AsJson, File, Moment, Overwrite, Plot, PolicyName, Settings, names_of
from hetopt.errors import InvalidOption, NotSolved
from hetopt.plugins import MAPPERS, POLICIES, PREDICTORS, PROGRAMS, SYSTEMS
from hetopt.presentation import console


def solve(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
    plot: Plot = None,
    exact: Annotated[bool, Option(help="Prove the optimum in rational numbers.")] = False,
    certificate: Annotated[
        Path | None, Option(help="Prove it, and write the proof to this file, for `hetopt check` and other checkers.")
    ] = None,
    overwrite: Overwrite = False,
    solver: Annotated[str, Option(help="highs, gurobi, or the name of a solver of Pyomo.")] = "highs",
    time_limit: Annotated[float | None, Option(help="Seconds.")] = None,
    gap: Annotated[float | None, Option(help="Relative gap at which to stop.")] = None,
) -> None:
    """Allocate GPUs by a policy; print shares, rates and the certificate."""
    from hetopt.cli.arguments import error_context, load_at, parse_settings, save_picture
    from hetopt.data.saving import check_free, check_writable
    from hetopt.formulations import policies
    from hetopt.registry import make_policy
    from hetopt.solving.options import Options

    limits: dict[str, Any] = {} if gap is None else {"gap": gap}
    options = Options(solver=solver, time_limit=time_limit, exact=exact or certificate is not None, **limits)
    if certificate is not None:
        check_free(certificate, overwrite=overwrite)
        check_writable(certificate)
    chosen, instance = make_policy(policy, parse_settings(settings)), load_at(file, moment)
    source = {"policy": policy, "settings": " ".join(settings or []), "instance": instance.name or file}
    source |= {} if moment is None else {"time": str(moment)}
    with console.progress(f"{policy} on {file}"), error_context(file, instance):
        try:
            result = policies.solve(chosen, instance, None if options == Options() else options)
        except NotSolved as error:
            if certificate is not None and error.proof is not None:
                error.proof.write(certificate, source, overwrite=overwrite)
                print(f"certificate: {certificate}", file=sys.stderr)
            raise
        if certificate is not None and result.certificate is not None:
            result.certificate.write(certificate, source, overwrite=overwrite)
    name = instance.name or file
    if as_json:
        console.print_json({"instance": name, "policy": policy, **result.as_dict()})
    else:
        _show(result, policy)
    if plot is not None:
        from hetopt.presentation.allocation_pictures import draw

        save_picture(draw(result, f"{policy} on {name}"), plot, quiet=as_json)
    if certificate is not None and not as_json:
        print(f"certificate: {certificate}")


def check(
    file: Annotated[Path, Argument(help="A certificate in VIPR's format, as `hetopt solve --certificate` writes it.")],
    instance: Annotated[
        str | None, Argument(help="Also check that its problem is the policy's program for this instance.", **INSTANCE)
    ] = None,
    policy: Annotated[str | None, Option("--policy", "-p", help="Default: the one that the certificate names.")] = None,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
) -> None:
    """Check a proof of optimality; the checker shares no code with the solvers."""
    from hetopt.checking.certificates import check as checked
    from hetopt.checking.certificates import source_of
    from hetopt.cli.arguments import load_at, parse_settings
    from hetopt.data.rationals import exact_texts
    from hetopt.registry import make_policy

    name = policy
    if instance is None:
        for key, value in (("policy", policy), ("set", settings), ("time", moment)):
            if value is not None:
                raise InvalidOption("needs an INSTANCE, whose program is compared", f"--{key}")
        with console.progress(f"checking {file}"):
            found = checked(file)
    else:
        loaded = load_at(instance, moment)
        if name is None and file.exists() and not (file.is_file() or file.is_dir()):
            raise InvalidOption("is missing: comments are read of regular files only", "--policy")
        # the file may come from others: it may name an installed policy, not import a module
        source = source_of(file) if name is None else {}
        if name is None and (name := source.get("policy")) not in POLICIES.points:
            raise InvalidOption("is missing: the certificate names no policy that is installed here", "--policy")
        if policy is None and settings is None and (made := source.get("settings")):
            raise InvalidOption(f"is missing: the certificate was made with the settings {shown(made)}", "--set")
        if policy is None and moment is None and (made := source.get("time")):
            raise InvalidOption(f"is missing: the certificate was made for the time {shown(made)}", "--time")
        chosen = make_policy(str(name), parse_settings(settings))
        with console.progress(f"checking {file}"):
            found = checked(file, chosen, loaded)
    if as_json:
        console.print_json(found.as_dict())
        return
    print(f"{file}: {'proven' if found.proven else 'no optimum is proven'}: {found}")
    if found.optima is not None:
        made = " ".join([str(name), *(settings or [])])
        print(f"its problem is the program of {made} for {instance}; optimum: {exact_texts(found.optima)}")


def audit(
    file: File,
    policy: PolicyName,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
    search: Annotated[float, Option(help="Seconds to search for misreports that pay; 0 for none.")] = 20.0,
) -> None:
    """Check the fairness properties of a policy's result; print a witness for each that fails."""
    from hetopt.auditing import audit
    from hetopt.auditing.verdict import AuditProperty, undecided
    from hetopt.checks import at_least
    from hetopt.cli.arguments import error_context, load_at, parse_settings
    from hetopt.formulations import policies
    from hetopt.registry import make_policy

    chosen, instance = make_policy(policy, parse_settings(settings)), load_at(file, moment)
    at_least(search, "--search", 0.0, InvalidOption)
    with console.progress(f"auditing {policy} on {file}"), error_context(file, instance):
        result = policies.solve(chosen, instance)
        verdicts = audit(instance, result, policy=chosen if search > 0 else None, time_limit=search or None)
    if search == 0:
        unsearched = undecided(AuditProperty.STRATEGY_PROOF, "not searched for (--search 0)")
        verdicts = replace(verdicts, strategy_proof=unsearched)
    if as_json:
        console.print_json(verdicts.as_dict())
    else:
        _show(verdicts, policy)


def place(
    file: File,
    policy: Annotated[str | None, POLICY] = None,
    method: Annotated[
        str | None,
        Option(
            "--method", "-m", help="Method that maps stages to GPUs, see `methods`.", autocompletion=names_of(MAPPERS)
        ),
    ] = None,
    settings: Settings = None,
    moment: Moment = None,
    as_json: AsJson = False,
    job: Annotated[str | None, Option(help="Map the stages of this job only.")] = None,
    gpu_type: Annotated[
        str | None, Option(help="GPU type to map to; default: the fastest with enough free GPUs.")
    ] = None,
    time_limit: Annotated[float | None, Option(help="Time limit of the method for each job, in seconds.")] = None,
    plot: Plot = None,
) -> None:
    """Place jobs on servers by a policy, with reasons for waiting jobs; map their stages to GPUs by a method.

    With a policy, its result is rounded to whole GPUs and placed; a method then maps the stages of each job that runs
    within the servers that it got. Without a policy, the method maps each job with stages separately, to all free GPUs,
    and --set is for the method. The picture shows the stages by server.
    """
    from hetopt.cli.arguments import error_context, load_at, named_mapper, parse_settings, save_picture
    from hetopt.decisions.first_round import place
    from hetopt.formulations import policies
    from hetopt.presentation.views import placement_view
    from hetopt.registry import make_policy
    from hetopt.stages.mapping import check_stages, map_jobs

    if policy is None and method is None:
        raise InvalidOption(
            "give --policy NAME to put jobs on servers, --method NAME to map the stages of jobs to GPUs, or both"
        )
    for key, value in (("plot", plot), ("job", job), ("gpu-type", gpu_type), ("time-limit", time_limit)):
        if value is not None and method is None:
            raise InvalidOption("needs a --method, which maps stages to GPUs", f"--{key}")
    if policy is not None and gpu_type is not None:
        raise InvalidOption("--gpu-type: the policy chooses the type; leave out one of --policy and --gpu-type")
    given = parse_settings(settings)
    mapper = None if method is None else named_mapper(method, given if policy is None else {}, time_limit)
    chosen = None if policy is None else make_policy(policy, given)
    instance = load_at(file, moment)
    first = mapped = None
    with error_context(file, instance):
        if mapper is not None:
            chosen_jobs = check_stages(instance, job)
        if chosen is not None:
            with console.progress(f"placing {policy} on {file}"):
                first = place(instance, policies.solve(chosen, instance))
        if mapper is not None:
            hosts = None if first is None else first.hosts
            mappable = sum(hosts is None or one.name in hosts for one in chosen_jobs)
            with console.progress("place", mappable, "job") as work:
                mapped = map_jobs(instance, mapper, job=job, gpu_type=gpu_type, hosts=hosts, step=work.begin)
    name = instance.name or file
    if as_json:
        data = {"instance": name, "time": instance.time}
        if first is not None:
            data |= {"policy": policy, **first.as_dict()}
        if mapped is not None:
            data |= {"method": method, **mapped.as_dict()}
        console.print_json(data)
    else:
        if first is not None:
            _show(placement_view(first, mapped), str(policy))
        if mapped is not None:
            _show(mapped)
    if plot is not None and mapped is not None:
        if not mapped.mappings:
            console.note(f"no stages are mapped, so {plot} is not drawn")
            return
        from hetopt.presentation.job_graph_pictures import draw_mapping

        save_picture(draw_mapping(mapped.mappings.values(), f"{name}: stages by server"), plot, quiet=as_json)


def export(
    file: File,
    policy: PolicyName,
    out: Annotated[Path, Option("--out", "-o", help="File to write: .lp, .mps or .json.")],
    settings: Settings = None,
    moment: Moment = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the program of a formulation as LP, MPS or JSON with readable names."""
    from hetopt.cli.arguments import error_context, load_at, parse_settings
    from hetopt.data.saving import check_free, check_writable
    from hetopt.formulations.exporting import export
    from hetopt.registry import make_policy

    check_free(out, overwrite=overwrite)
    check_writable(out)
    chosen, instance = make_policy(policy, parse_settings(settings)), load_at(file, moment)
    with error_context(file, instance):
        export(chosen, out, instance, overwrite=overwrite)
    print(f"written: {out}")


def show(
    name: Annotated[
        str,
        Argument(
            help="A program, a policy or a method that has one, or module:Name.",
            autocompletion=names_of(PROGRAMS, POLICIES, MAPPERS),
        ),
    ],
    settings: Settings = None,
    kind: Annotated[str | None, Option(help="For a formulation of both kinds: tenants (the default) or jobs.")] = None,
    as_latex: Annotated[bool, Option("--latex/--no-latex", help="Print LaTeX.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the program of a formulation as mathematics: objective, rows with their equations, symbols with units."""
    from hetopt.cli.arguments import parse_settings
    from hetopt.presentation.terminal import OUT, TEXT_WIDTH
    from hetopt.registry import make_program

    if as_latex and as_json:
        raise InvalidOption("--latex and --json exclude each other; leave out one of them")
    mathematics = make_program(name, parse_settings(settings), kind)  # type: ignore[arg-type]
    if as_json:
        console.print_json(asdict(mathematics))
    else:
        print(mathematics.latex() if as_latex else mathematics.text(min(OUT.width, TEXT_WIDTH)))


def instances(
    name: Annotated[
        str | None, Argument(help="Show this one: a name, a file, or - for standard input.", **INSTANCE)
    ] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Write it to a file (.yaml, .json).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """List the included instances, or show or write one of them.

    With --json, the output is an instance file, too: `hetopt instances lab36 --json > lab.json`.
    """
    from hetopt.registry import find_instance, named_instances

    if name is None:
        if out is not None:
            raise InvalidOption("needs the name of an instance", "--out")
        _list(named_instances(), "instances", as_json)
        return
    instance = find_instance(name)
    if out is not None:
        instance.write(out, overwrite=overwrite)
        print(f"written: {out}")
    elif as_json:
        from hetopt.data.instance_files import encode

        console.print_json(encode(instance))
    else:
        _show(instance, instance.name)


def policies(as_json: AsJson = False) -> None:
    """List the policies of all installed packages."""
    _list(POLICIES.descriptions(), "policies", as_json)


def methods(as_json: AsJson = False) -> None:
    """List the methods of all installed packages that map the stages of a job to GPUs."""
    _list(MAPPERS.descriptions(), "methods", as_json)


def predictors(as_json: AsJson = False) -> None:
    """List the predictors of job lengths of all installed packages."""
    _list(PREDICTORS.descriptions(), "predictors", as_json)


def systems(as_json: AsJson = False) -> None:
    """List the systems of all installed packages: policies with rounds, rounding and placement.

    With the reason why GPUs may idle although a waiting gang fits on them, where a system has one.
    """
    from hetopt.presentation.tables import table_of
    from hetopt.registry import make_system

    found = {name: (text, make_system(name).idles) for name, text in SYSTEMS.descriptions().items()}
    if as_json:
        console.print_json({name: {"description": text, "idles": why} for name, (text, why) in found.items()})
    else:
        rows = ([name, text, why] for name, (text, why) in found.items())
        _show([table_of(["name", "description", "GPUs idle because"], rows, "systems")])


def _list(descriptions: Mapping[str, str], title: str, as_json: bool) -> None:
    from hetopt.presentation.tables import table_of

    if as_json:
        console.print_json(descriptions)
    else:
        _show([table_of(["name", "description"], descriptions.items(), title)])


def _show(value: object, name: str = "") -> None:
    """Print tables, or those of a value, with a name before the first title."""
    from hetopt.presentation.terminal_tables import show
    from hetopt.presentation.views import view

    for i, table in enumerate(value if isinstance(value, list) else view(value)):
        show(table if i or not name else replace(table, title=f"{name}: {table.title}"))


def demo(
    out: Annotated[Path, Option("--out", "-o", help="Folder of the report.")] = Path("demo"),
    instance: Annotated[
        str, Option(help="Another instance: a file, - for standard input, or a name.", **INSTANCE)
    ] = "lab36/jobs",
    moment: Annotated[float | None, Option("--time", help="Seconds; default: when the last job has arrived.")] = None,
) -> None:
    """Solve, round and place the lab cluster with every policy; print tables, write a report with pictures."""
    from hetopt.cli.arguments import load_at
    from hetopt.data.saving import check_folder
    from hetopt.experiments.comparison import compare_with_fallback
    from hetopt.presentation.comparison_page import write
    from hetopt.registry import make_policy, policy_names

    check_folder(out)
    there = load_at(instance, moment, all_arrived=True)
    name = there.name or instance
    policies = {key: make_policy(key) for key in policy_names()}
    with console.progress("demo", len(policies), "result") as work:
        comparison = compare_with_fallback(there, policies, work.begin)
    path = write(comparison, out, f"hetopt: policies on {name}", console.versions())
    _show(comparison, name)
    print(f"report: {path.resolve()}")
