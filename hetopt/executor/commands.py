"""The commands that drive a cluster: submit, run, status, logs, cancel, drain, prune, dashboard."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from hetopt.checks import check_name, counted
from hetopt.cli.options import INPUT, AsJson, Plot, Settings, names_of, policy_option
from hetopt.data.units import seconds
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor.state_folder import DATABASE, default_folder
from hetopt.plugins import ENGINES, POLICIES, SYSTEMS
from hetopt.presentation import console

if TYPE_CHECKING:
    from hetopt.executor.state_database import StateDatabase


def stored(table: str) -> Callable[[typer.Context, str], list[str]]:
    """Complete a name in a table of the state database, with few imports."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        import sqlite3

        path = Path(ctx.params.get("state") or default_folder()).expanduser().absolute() / DATABASE
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
                names = [str(name) for (name,) in database.execute(f"SELECT name FROM {table} ORDER BY name")]
        except sqlite3.Error:  # there is no cluster, or its state is damaged
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete


StateFolder = Annotated[
    Path,
    Option(
        "--state",
        help="Folder of the cluster's state.",
        default_factory=default_folder,
        show_default="$HETOPT_STATE, or in ~/.local",
    ),
]
JobName = Annotated[str, Argument(help="Its name.", autocompletion=stored("jobs"))]


def opened(state: Path, *, make: bool = False) -> StateDatabase:
    """The state of the cluster."""
    from hetopt.executor.state_database import StateDatabase

    return StateDatabase(state, make=make)


def submit(
    job: Annotated[Path, Argument(help="The job's file, or - for standard input.", **INPUT)],
    state: StateFolder,
    name: Annotated[str | None, Option(help="Another name than that in the file.")] = None,
    again: Annotated[bool, Option(help="Add a number to the name where it is taken.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a training job."""
    from hetopt.executor import queue
    from hetopt.executor.job_file import read_job

    spec = read_job(job)
    if name is not None:
        spec = spec.model_copy(update={"name": check_name(name, "--name")})
    with opened(state, make=True) as database:
        try:
            given = queue.submit(database, spec, again=again)
        except InvalidOption as problem:
            in_file = problem.path and problem.path[0] in type(spec).model_fields
            raise (problem.in_file(str(job)) if in_file else problem) from None
        if as_json:
            console.print_json({"job": given})
            return
        print(f"{given}: submitted")
        if database.controller() is None:
            print("no controller runs yet; `hetopt run` starts it")


def run(
    state: StateFolder,
    policy: Annotated[
        str, policy_option("A name that `hetopt systems` or `policies` lists.", SYSTEMS, POLICIES)
    ] = "fft",
    settings: Settings = None,
    engine: Annotated[
        str,
        Option("--engine", "-e", help="local, slurm, or module:Name.", autocompletion=names_of(ENGINES)),
    ] = "local",
    round_length: Annotated[
        str | None, Option("--round", help="Length of a round, e.g. 300s or 5min; default: the policy's own.")
    ] = None,
    slots: Annotated[
        Path | None,
        Option(help="local: a file that declares CPU slots in place of GPUs; - for standard input.", **INPUT),
    ] = None,
    partition: Annotated[str | None, Option(help="slurm: partition; default: Slurm's default one.")] = None,
    engine_settings: Annotated[
        list[str] | None,
        Option("--engine-set", help="A setting of the engine; slurm: cpus_per_gpu=8, account=…, qos=…; repeatable."),
    ] = None,
    leases: Annotated[
        Path | None, Option(help="Folder of lease directories, which all hosts see; default: with the state.")
    ] = None,
    profile: Annotated[
        bool, Option(help="Run new jobs for a short time on each GPU type first; else speeds are estimated.")
    ] = True,
    profile_seconds: Annotated[str, Option(help="Length of such a run.")] = "30s",
    strict_rounds: Annotated[
        bool, Option(help="Every new job waits for the next round, as in simulations, also if nothing runs.")
    ] = False,
    ttl: Annotated[str, Option(help="Time after which a job stops if its lease is not renewed.")] = "60s",
    poll: Annotated[str, Option(help="Time between two steps of the controller.")] = "1s",
    until_idle: Annotated[bool, Option(help="End when no job is left.")] = False,
    metrics_port: Annotated[int | None, Option(help="Serve Prometheus metrics on this port of loopback.")] = None,
) -> None:
    """Run the controller: a policy schedules the submitted jobs, until Ctrl-C.

    Jobs continue after its end until their leases expire; if it is started again before, it takes them over.
    """
    from hetopt.cli.arguments import parse_settings
    from hetopt.executor.controller import make_controller

    profile_length = seconds(profile_seconds, "--profile-seconds")
    ttl_seconds, poll_seconds = seconds(ttl, "--ttl"), seconds(poll, "--poll")
    with opened(state, make=True) as database:
        controller = make_controller(
            database,
            policy=policy,
            settings=parse_settings(settings),
            engine=engine,
            round_seconds=None if round_length is None else seconds(round_length, "--round"),
            slots=slots,
            partition=partition,
            engine_settings=parse_settings(engine_settings, "--engine-set"),
            leases=leases,
            profile=profile,
            profile_seconds=profile_length,
            ttl_seconds=ttl_seconds,
            strict_rounds=strict_rounds,
        )
        with _interrupts() as signals, closing(controller):
            if metrics_port is not None:
                from hetopt.executor.prometheus import serve

                serve(database, metrics_port)
            console.note(
                f"{controller.settings.policy} schedules the jobs of {database.folder} on {engine}; Ctrl-C ends it"
            )
            controller.run(until_idle=until_idle, poll=poll_seconds, stop=lambda: bool(signals))
            left = True
            with suppress(UnusableFile):  # the database was removed: its leases continue
                left = bool(controller.manager.leases())
    if signals:
        continued = f"; jobs continue for {ttl_seconds:g} s, and `hetopt run` takes them over until then"
        console.note("stopped" + continued * left)
        raise typer.Exit(130)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The signals to end that this process has received; the second ends it at once."""
    received: list[int] = []

    def ask(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def status(
    state: StateFolder,
    watch: Annotated[bool, Option("--watch/--no-watch", "-w", help="Stay, and show what changes.")] = False,
    every: Annotated[str, Option(help="How often, with --watch.")] = "2s",
    everything: Annotated[bool, Option("--all/--no-all", help="Also all finished jobs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show nodes and jobs."""
    from hetopt.executor import status_view
    from hetopt.executor.snapshot import Snapshot, snapshot

    every_seconds = seconds(every, "--every")
    with opened(state) as database:
        if as_json:
            console.print_json(snapshot(database).plain())
            return

        def read() -> Snapshot:
            return snapshot(database, finished=None if everything else status_view.MOST_FINISHED)

        if watch:
            status_view.watch(read, every=every_seconds, everything=everything)
        else:
            status_view.show(read(), everything=everything)


def logs(
    job: JobName,
    state: StateFolder,
    lines: Annotated[int, Option("--lines", "-n", help="Lines at the end of each log; 0: all.")] = 50,
    every_lease: Annotated[bool, Option("--all/--no-all", help="Of all its leases, not only the newest.")] = False,
    follow: Annotated[
        bool, Option("--follow/--no-follow", "-f", help="Continue with what it prints until it is finished.")
    ] = False,
) -> None:
    """Print what a job has printed."""
    from hetopt.executor import job_logs

    if lines < 0:
        raise InvalidOption(f"is {lines}; it must be at least 0", "--lines")
    with opened(state) as database:
        job_logs.write(job_logs.printed(database, job, lines=lines, every_lease=every_lease, follow=follow))


def losses(
    jobs: Annotated[list[str], Argument(help="Names of jobs.", autocompletion=stored("jobs"))],
    state: StateFolder,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Show the losses that jobs have reported, and draw them."""
    from hetopt.executor import losses as curves

    with opened(state) as database:
        found = [(job, curves.losses(database, job)) for job in jobs]
    if as_json:
        console.print_json(dict(found))
    else:
        from hetopt.presentation.terminal_tables import show

        show(curves.losses_table(found))
    if plot is not None:
        from hetopt.cli.arguments import save_picture

        save_picture(curves.draw([pair for pair in found if len(pair[1])]), plot, quiet=as_json)


def cancel(job: JobName, state: StateFolder) -> None:
    """End a job for good."""
    from hetopt.executor import queue

    with opened(state) as database:
        before = queue.cancel(database, job)
        if before == "queued":
            print(f"{job}: cancelled")
        elif database.controller() is None:
            print(f"{job}: will be stopped once a controller runs (`hetopt run`)")
        else:
            print(f"{job}: is being stopped")


def retry(job: JobName, state: StateFolder) -> None:
    """Requeue a failed job, from its last checkpoint."""
    from hetopt.executor import queue

    with opened(state) as database:
        print(f"{job}: queued again, from step {queue.retry(database, job)}")


def drain(
    node: Annotated[str, Argument(help="Its name, as `hetopt status` shows it.", autocompletion=stored("nodes"))],
    state: StateFolder,
    undo: Annotated[bool, Option(help="Let jobs start there again.")] = False,
) -> None:
    """Empty a node: nothing new starts there, and what runs moves away."""
    from hetopt.executor import queue

    with opened(state) as database:
        queue.drain(database, node, undo=undo)
        print(f"{node}: " + ("in use again" if undo else "is being drained"))


def prune(
    older: Annotated[str, Option(help="Age of leases and jobs, from their ends, e.g. 30d.")],
    state: StateFolder,
    dry_run: Annotated[bool, Option(help="Only print what would be removed.")] = False,
) -> None:
    """Remove the directories of old leases with their logs, and old events; the newest checkpoint of each job stays."""
    from hetopt.executor import pruning
    from hetopt.presentation.formatting import format_bytes

    older_seconds = seconds(older, "--older")
    with opened(state) as database:
        found = pruning.prune(database, older_seconds, dry_run=dry_run)
    directories = "1 directory" if found.directories == 1 else f"{found.directories} directories"
    events = counted(found.events, "event")
    removed = "would remove" if dry_run else "removed"
    print(f"{removed} {directories} of leases ({format_bytes(found.bytes)}) and {events}")
    for problem in found.problems:
        console.note(problem)
    if found.problems:
        raise typer.Exit(1)


def dashboard(
    state: StateFolder,
    host: Annotated[
        str, Option(help="Where to listen; another than this machine's loopback only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 takes one that is free.")] = 8422,
    token: Annotated[
        str | None,
        Option(
            envvar="HETOPT_TOKEN",
            help="Every request must have it. Others on this machine may see options: set it there.",
        ),
    ] = None,
    once: Annotated[Path | None, Option(help="Write the page to this file (-: standard output), and end.")] = None,
) -> None:
    """Show the cluster in a browser, until Ctrl-C. Nothing can be changed there."""
    import asyncio

    from hetopt.data.saving import save
    from hetopt.executor.dashboard.page import page
    from hetopt.executor.dashboard.reader import Reader
    from hetopt.executor.dashboard.server import DashboardServer

    with closing(Reader(state)) as reader:
        if once is not None:
            text = page(reader.read(), live=False)
            if str(once) == "-":
                print(text)
                return
            save(text.encode("utf-8", "replace"), once, overwrite=True)
            print(f"page: {once}")
            return
        with closing(DashboardServer(reader, host, port, token)) as server:
            print(f"the dashboard is at {server.url}; Ctrl-C ends it")
            if token is None:
                print("all users of this machine can read it; a token (HETOPT_TOKEN) prevents that")
            else:
                print("open it with ?token=... behind the address once; then a cookie stands for it")
            if not server.loopback:
                print("the connection is not encrypted: in other networks use `ssh -L` or a proxy with TLS")
            asyncio.run(server.serve())
