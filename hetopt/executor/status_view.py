"""The state of a cluster as tables, the same on terminals and on the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.executor.queue import FINISHED, QUEUED
from hetopt.executor.snapshot import NOT_YET, Snapshot
from hetopt.presentation import console, terminal, terminal_tables
from hetopt.presentation.formatting import SPACE, format_duration, format_number, format_percent
from hetopt.presentation.tables import Cell, Column, Mark, Meter, Sparkline, Table, table_of

if TYPE_CHECKING:
    from hetopt.executor.dashboard.history import Round
    from hetopt.executor.dashboard.job_fairness import Fairness

Row = Mapping[str, Any]
Curves = Mapping[str, Sequence[tuple[int, float]]]
Columns = Iterable[tuple[Column | str, Callable[[Row], Cell]]]
"""Columns, each with its cell in a row; a column given by its name has words."""

STATES = {
    **dict.fromkeys(("up", "done"), Mark.GOOD),
    **dict.fromkeys(("draining", "drained", "stopping", "cancelled"), Mark.WARN),
    **dict.fromkeys(("down", "failed"), Mark.BAD),
}
"""State of a node or job -> its distinction."""

MOST_LETTERS = 400
"""Letters of a reason; the whole text is in JSON."""

NO_CONTROLLER = "No controller runs, so nothing is decided; start one with `hetopt run`."


@dataclass(frozen=True)
class Section:
    """A table with a title.

    Attributes
    ----------
    name:
        Its key on the page.
    title:
        Its title.
    table:
        The table; None if it has no rows.
    note:
        What the table leaves out, or why there is none.
    """

    name: str
    title: str
    table: Table | None
    note: str = ""


@dataclass(frozen=True)
class Status:
    """The state of a cluster in words and tables.

    Attributes
    ----------
    headline:
        Policy, rounds and controller.
    tiles:
        Numbers with their names: jobs by state, GPUs in use, time to the next round.
    warnings:
        What keeps the cluster from progress.
    nodes, pending, running, finished:
        Tables.
    """

    headline: str
    tiles: list[tuple[str, str]]
    warnings: list[str]
    nodes: Section
    pending: Section
    running: Section
    finished: Section


def status_of(
    now: Snapshot,
    *,
    engine: str | None = None,
    last: Round | None = None,
    fairness: Mapping[str, Fairness] | None = None,
    losses: Curves | None = None,
    most: Mapping[str, int] | None = None,
) -> Status:
    """The state of a cluster for people.

    Parameters
    ----------
    engine, last:
        The engine's name and the last round, if known.
    fairness, losses:
        If given, the tables of jobs have columns for them.
    most:
        Name of a section -> number of its rows at most.
    """

    def section(title: str, rows: Sequence[Row], columns: Columns, caption: str, empty: str) -> Section:
        name = title.split()[0].lower()
        names, cells = zip(*columns, strict=True)
        shown = rows[: (most or {}).get(name)]
        table = table_of(names, [[cell(row) for cell in cells] for row in shown], caption)
        left = len(rows) - len(shown)
        note = f"{left} more are not shown; `hetopt status --all` shows them." if left else ""
        return Section(name, title, table, note) if rows else Section(name, title, None, empty)

    def rho(job: Row) -> Cell:
        known = (fairness or {}).get(job["name"])
        return Cell("") if known is None else rho_cell(known.rho, known.sure)

    why = NOT_YET if now.controller is not None else "no controller runs"
    state, notes = ("state", _state), ("note", lambda node: Cell(node["note"]))
    job = (("job", lambda job: Cell(job["name"])), ("tenant", lambda job: Cell(job["tenant"])))
    steps = Column("steps", meaning="steps done, of all; the darker part of the bar is in a checkpoint"), _progress
    age = Column("age", meaning="time since submission"), lambda job: _time(job["seconds"])
    fair = ((Column("rho", meaning="finish-time fairness, see Tenants"), rho),) if fairness is not None else ()
    curves = ((Column("loss"), lambda job: _loss((losses or {}).get(job["name"], ()))),) if losses is not None else ()
    pending = section(
        "Pending jobs", pending_jobs(now),
        (*job, (Column("workers"), lambda job: Cell(str(job["workers"]))), steps, age, *fair,
         ("reason", lambda job: _reason(job["reason"] or why))),
        "In the order of submission; the policy decides which job is next.",
        "No job is pending." if now.jobs else "No job is pending; `hetopt submit` submits one.",
    )  # fmt: skip
    running = section(
        "Running jobs", running_jobs(now),
        (*job, state, steps, ("GPUs", lambda job: Cell(", ".join(job["where"]))), (Column("speed", "steps/s"), _speed),
         (Column("time left"), lambda job: _time(job["left_seconds"])), age, *fair, *curves),
        "", "No job is running.",
    )  # fmt: skip
    finished = section(
        "Finished jobs", finished_jobs(now),
        (*job, state, steps, (Column("lost", "steps", "repeated steps"), lambda job: Cell(str(job["lost"]))),
         (Column("duration", meaning="time from submission to finish"), lambda job: _time(job["seconds"])), *fair,
         (Column("finished"), lambda job: _time(now.now - (job["finished"] or now.now), " ago")),
         ("reason", lambda job: _reason(job["reason"] or ""))),
        "The newest first.", "No job has finished yet.",
    )  # fmt: skip
    nodes = section(
        "Nodes", now.nodes, (("node", lambda node: Cell(node["name"])), state, ("GPUs in use", _gpus), notes),
        _nodes_in_words(now.nodes), "No engine has reported a node yet.",
    )  # fmt: skip
    counts = ((running_jobs, "running"), (pending_jobs, "pending"), (finished_jobs, "finished"))
    tiles = [(str(len(pick(now))), name) for pick, name in counts]
    if now.nodes:
        have, used = (sum(sum(node[key].values()) for node in now.nodes) for key in ("gpus", "used"))
        tiles.append((f"{used} of {have}", "GPUs in use"))
    if now.controller is not None and now.next_round is not None:
        tiles.append((_time(now.next_round - now.now).text, "to the next round"))
    return Status(_headline(now, engine, last), tiles, _warnings(now), nodes, pending, running, finished)


def pending_jobs(now: Snapshot) -> list[Row]:
    """Jobs without GPUs that are to run, in the order of submission."""
    return [job for job in now.jobs if job["state"] == QUEUED]


def running_jobs(now: Snapshot) -> list[Row]:
    """Jobs that have GPUs, in the order of submission."""
    return [job for job in now.jobs if job["state"] not in (QUEUED, *FINISHED)]


def finished_jobs(now: Snapshot) -> list[Row]:
    """Jobs that are done, failed or cancelled, the newest first."""
    return sorted((job for job in now.jobs if job["state"] in FINISHED), key=lambda job: -(job["finished"] or 0.0))


def _headline(now: Snapshot, engine: str | None, last: Round | None) -> str:
    if now.policy is None:
        return "No controller has run yet."
    parts = [f"Policy {now.policy}" + (f" on engine {engine}" if engine else "")]
    if now.round:
        decided = f" (decided in {format_duration(last.seconds)}: {last.placed} of {last.jobs} jobs)" if last else ""
        parts.append(f"round {now.round}{decided}")
    long = now.round_seconds
    parts.append("decides when jobs or nodes come or go" if long is None else f"rounds of {format_duration(long)}")
    if now.controller is not None:
        parts.append("the controller is alive" + (f" (process {now.controller})" if now.controller > 0 else ""))
    return ", ".join(parts) + "."


def _warnings(now: Snapshot) -> list[str]:
    if now.controller is None:
        return [NO_CONTROLLER + (" Running jobs continue until their leases expire." if now.leases else "")]
    found = list(now.troubles)
    if now.undecided is not None:
        found.append(f"The policy cannot decide, so running jobs continue: {now.undecided}")
    if now.overdue is not None:
        late = format_duration(now.overdue)
        found.append(f"The next round is overdue by {late}; the terminal of the controller shows why.")
    return found


def _nodes_in_words(nodes: Sequence[Row]) -> str:
    states: dict[str, int] = {}
    have: dict[str, int] = {}
    used: dict[str, int] = {}
    for node in nodes:
        states[node["state"]] = states.get(node["state"], 0) + 1
        for gpu_type, number in node["gpus"].items():
            have[gpu_type] = have.get(gpu_type, 0) + number
            used[gpu_type] = used.get(gpu_type, 0) + node["used"].get(gpu_type, 0)
    return f"{', '.join(f'{n} {state}' for state, n in states.items())}. GPUs in use: {_used(have, used)}."


def _used(have: Mapping[str, int], used: Mapping[str, int]) -> str:
    return ", ".join(f"{used.get(gpu_type, 0)} of {number} {gpu_type}" for gpu_type, number in have.items())


def _gpus(node: Row) -> Cell:
    have, used = sum(node["gpus"].values()), sum(node["used"].values())
    share = min(1.0, used / have) if have else 0.0
    return Cell(_used(node["gpus"], node["used"]), share, picture=Meter(share))


def _state(row: Row) -> Cell:
    return Cell(row["state"], mark=STATES.get(row["state"]))


def _reason(text: str) -> Cell:
    return Cell(text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…")


def _progress(job: Row) -> Cell:
    step, steps = job["step"], job["steps"]
    share, saved = (min(1.0, done / steps) if steps else 0.0 for done in (step, job["committed"]))
    text = f"{format_number(step)}/{format_number(steps)} {format_percent(int(100 * share) / 100)}"
    tip = f"{format_number(job['committed'])} steps are in a checkpoint"
    return Cell(text, share, picture=Meter(saved, share), tip=tip)


def _speed(job: Row) -> Cell:
    measured = ", ".join(f"{gpu_type} {format_number(v, 3)}" for gpu_type, v in job["speeds"].items())
    text = format_number(job["speed"], 3) if job["speed"] else ""
    return Cell(text, job["speed"], tip=f"measured: {measured} steps/s" if measured else "")


def _time(seconds: float | None, suffix: str = "") -> Cell:
    """Whole seconds at least: a table is read some seconds later anyway."""
    return Cell("") if seconds is None else Cell(format_duration(round(max(0.0, seconds))) + suffix, seconds)


def rho_cell(rho: float, sure: bool) -> Cell:
    """Finish-time fairness; ``≈`` marks an estimate."""
    return Cell(("" if sure else f"≈{SPACE}") + format_number(rho, 3), rho)


def _loss(points: Sequence[tuple[int, float]]) -> Cell:
    if not points:
        return Cell("")
    (first, begin), (last, end) = points[0], points[-1]
    low, high = (format_number(pick(loss for _, loss in points), 3) for pick in (min, max))
    change = f"from {format_number(begin, 3)} at step {first} to {format_number(end, 3)} at step {last}"
    line = Sparkline(tuple(points)) if len(points) > 1 else None
    return Cell(format_number(end, 3), end, picture=line, tip=f"{change}; least {low}, largest {high}")


# -- on terminals


def show(now: Snapshot, *, everything: bool = False, most: int = 40) -> None:
    """Print the state of a cluster; only the newest finished jobs unless ``everything`` is requested."""
    open_jobs = sum(job["state"] not in FINISHED for job in now.jobs)
    found = status_of(now, most={} if everything else {"finished": max(5, most - open_jobs)})
    console.print_line(found.headline)
    for warning in found.warnings:
        console.print_line((warning, "red"))
    console.print_line(", ".join(f"{number} {name}" for number, name in found.tiles))
    for own in (found.nodes, found.pending, found.running, found.finished):
        console.print_line("")
        console.print_line((own.title, "bold"))
        if own.table is not None:
            terminal_tables.show(own.table, meaning=False, most=None)
        if own.note:
            console.print_line(own.note)


def watch(look: Callable[[], Snapshot], *, every: float, times: int | None = None, everything: bool = False) -> None:
    """Show the cluster again and again, until Ctrl-C or this number of times."""
    shown = 0
    while times is None or shown < times:
        if shown:
            time.sleep(every)
        with terminal.OUT.capture() as printed:
            show(look(), everything=everything)
        lines = printed.get().splitlines()
        terminal.OUT.clear()
        print("\n".join(lines[: terminal.OUT.height - 1] if terminal.OUT.is_terminal else lines), flush=True)
        shown += 1
