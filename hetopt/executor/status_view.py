"""The state of a cluster as tables, the same on terminals and on the dashboard."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from hetopt.executor.queue import FINISHED, QUEUED
from hetopt.executor.snapshot import STOPPED, WAITS_FOR_DECISION, Snapshot
from hetopt.presentation import terminal, terminal_tables
from hetopt.presentation.formatting import SPACE, format_duration, format_number, format_percent
from hetopt.presentation.tables import Cell, Column, Mark, Meter, Sparkline, Table, table_of

Row = Mapping[str, Any]
ColumnOf = tuple[Column | str, Callable[[Row], Cell | str]]
"""A column and its cell in a row; a column given by its name has words."""

STATES = {
    **dict.fromkeys(("up", "done"), Mark.GOOD),
    **dict.fromkeys(("draining", "drained", "stopping", "cancelled"), Mark.WARN),
    **dict.fromkeys(("down", "failed"), Mark.BAD),
}
"""State of a node or job -> its distinction."""

MAX_LETTERS = 400
"""Letters of a reason; the whole text is in JSON."""


@dataclass(frozen=True)
class Section:
    """A table with a title; ``note``: what the table leaves out, or why it has no rows."""

    title: str
    table: Table
    note: str = ""


@dataclass(frozen=True)
class Status:
    """The state of a cluster: a sentence, numbers with their names, what keeps it from progress, and tables by name."""

    headline: str
    tiles: list[tuple[str, str]]
    warnings: list[str]
    sections: dict[str, Section]


def status_of(
    state: Snapshot,
    *,
    engine: str | None = None,
    last: Row | None = None,
    rho: Mapping[str, Cell] | None = None,
    losses: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    limits: Mapping[str, int] | None = None,
) -> Status:
    """The state of a cluster.

    Parameters
    ----------
    engine, last:
        The engine's name and the row of the last round, if known.
    rho, losses:
        Finish-time fairness and losses of jobs by name; if given, tables of jobs have columns for them.
    limits:
        Name of a section -> number of its rows at most.
    """
    sections: dict[str, Section] = {}

    def add(title: str, rows: Sequence[Row], columns: Iterable[ColumnOf], caption: str, empty: str) -> None:
        name = title.split()[0].lower()
        names, cells = zip(*columns, strict=True)
        shown = rows[: (limits or {}).get(name)]
        table = table_of(names, [[cell(row) for cell in cells] for row in shown], caption)
        left = len(rows) - len(shown) + (state.left_out.total() if name == "finished" else 0)
        note = f"{left} more are not shown; `hetopt status --all` shows them." if left else "" if rows else empty
        sections[name] = Section(title, table, note)

    fairness = Column("rho", meaning="finish-time fairness, see Tenants")
    fair = () if rho is None else ((fairness, lambda job: rho.get(job["name"], "")),)
    curve = () if losses is None else ((Column("loss"), lambda job: _loss(losses.get(job["name"], ()))),)
    why, jobs = WAITS_FOR_DECISION if state.controller is not None else "no controller runs", jobs_by_phase(state)
    states = ", ".join(f"{n} {word}" for word, n in Counter(node["state"] for node in state.nodes).items())
    add(
        "Nodes", state.nodes,
        (("node", itemgetter("name")), STATE, ("GPUs in use", _gpus), ("note", itemgetter("note"))),
        f"{states}. GPUs in use: {_used(state.nodes)}.", "No engine has reported a node yet.",
    )  # fmt: skip
    add(
        "Pending jobs", jobs["pending"],
        (*NAMES, (Column("workers"), lambda job: str(job["workers"])), STEPS, AGE, *fair,
         ("reason", lambda job: _shortened(job["reason"] or why))),
        "In the order of submission; the policy decides which job is next.",
        "No job is pending." if state.jobs or state.left_out else "No job is pending; `hetopt submit` submits one.",
    )  # fmt: skip
    add(
        "Running jobs", jobs["running"],
        (*NAMES, STATE, STEPS, ("GPUs", _where), (Column("speed", "steps/s"), _speed),
         (Column("time left"), lambda job: _time(job["left_seconds"])), AGE, *fair, *curve),
        "", "No job is running.",
    )  # fmt: skip
    add(
        "Finished jobs", jobs["finished"],
        (*NAMES, STATE, STEPS, (Column("lost", "steps", "repeated steps"), lambda job: str(job["lost"])),
         (Column("duration", meaning="time from submission to finish"), lambda job: _time(job["seconds"])), *fair,
         (Column("finished"), lambda job: _time(state.now - (job["finished"] or state.now), " ago")),
         ("reason", lambda job: _shortened(job["reason"] or ""))),
        "The newest first.", "No job has finished yet.",
    )  # fmt: skip
    tiles = [(str(len(own) + state.left_out.total() * (name == "finished")), name) for name, own in jobs.items()]
    if state.nodes:
        used, have = (gpus_by_type(state.nodes, key).total() for key in ("used", "gpus"))
        tiles.append((f"{used} of {have}", "GPUs in use"))
    if state.controller is not None and state.next_round is not None:
        tiles.append((_time(state.next_round - state.now).text, "to the next round"))
    return Status(_headline(state, engine, last), tiles, _warnings(state), sections)


def jobs_by_phase(state: Snapshot) -> dict[str, list[Row]]:
    """Jobs that are running, pending (both in the order of submission) and finished (the newest first)."""
    phases: dict[str, list[Row]] = {"running": [], "pending": [], "finished": []}
    for job in state.jobs:
        word = job["state"]
        phase = "pending" if word in (QUEUED, STOPPED) else "finished" if word in FINISHED else "running"
        phases[phase].append(job)
    phases["finished"].sort(key=lambda job: -(job["finished"] or 0.0))
    return phases


def _headline(state: Snapshot, engine: str | None, last: Row | None) -> str:
    if state.policy is None:
        return "No controller has run yet."
    parts = [f"Policy {state.policy}" + (f" on engine {engine}" if engine else "")]
    if state.round:
        decided = (
            f" (decided in {format_duration(last['seconds'])}: {last['placed']} of {last['jobs']} jobs)" if last else ""
        )
        parts.append(f"round {state.round}{decided}")
    long = state.round_seconds
    parts.append("decides when jobs or nodes come or go" if long is None else f"rounds of {format_duration(long)}")
    if state.controller is not None:
        parts.append("the controller is alive" + (f" (process {state.controller})" if state.controller > 0 else ""))
    return ", ".join(parts) + "."


def _warnings(state: Snapshot) -> list[str]:
    if state.controller is None:
        rest = " Running jobs continue until their leases expire." if state.leases else ""
        if state.expired is not None:
            rest = " All processes of jobs have ended."
            if (ago := state.now - state.expired) > 0:
                rest = f" The leases of jobs expired {format_duration(round(ago))} ago."
        return [f"No controller runs, so nothing is decided; start one with `hetopt run`.{rest}", *state.alerts]
    found = list(state.alerts)
    if state.undecided is not None:
        found.append(f"The policy cannot decide, so running jobs continue: {state.undecided}")
    if state.overdue is not None:
        late = format_duration(state.overdue)
        found.append(f"The next round is overdue by {late}; the terminal of the controller shows why.")
    return found


def gpus_by_type(nodes: Iterable[Row], key: str) -> Counter[str]:
    """GPU type -> its GPUs on all nodes: the sum of ``gpus`` or ``used``."""
    total = Counter[str]()
    for node in nodes:
        total.update(node[key])
    return total


def _used(nodes: Sequence[Row]) -> str:
    have, used = (gpus_by_type(nodes, key) for key in ("gpus", "used"))
    return ", ".join(f"{used[gpu_type]} of {number} {gpu_type}" for gpu_type, number in have.items())


# -- cells


def _gpus(node: Row) -> Cell:
    have, used = sum(node["gpus"].values()), sum(node["used"].values())
    share = min(1.0, used / have) if have else 0.0
    return Cell(_used([node]), share, picture=Meter(share))


def _where(job: Row) -> str:
    return ", ".join(job["where"]) + (" (borrowed)" if job["borrows"] else "")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 1]}…"


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
    """Whole seconds: a table is read some seconds later anyway."""
    return Cell("") if seconds is None else Cell(format_duration(round(max(0.0, seconds))) + suffix, seconds)


def rho_cell(rho: float, estimated: bool) -> Cell:
    """Finish-time fairness; ``≈`` marks an estimate."""
    return Cell((f"≈{SPACE}" if estimated else "") + format_number(rho, 3), rho)


def _loss(points: Sequence[tuple[int, float]]) -> Cell:
    if not points:
        return Cell("")
    (first, begin), (last, end) = points[0], points[-1]
    low, high = (format_number(pick(loss for _, loss in points), 3) for pick in (min, max))
    change = f"from {format_number(begin, 3)} at step {first} to {format_number(end, 3)} at step {last}"
    line = Sparkline(tuple(points)) if len(points) > 1 else None
    return Cell(format_number(end, 3), end, picture=line, tip=f"{change}; least {low}, largest {high}")


# -- columns of all tables of jobs

NAMES: tuple[ColumnOf, ...] = ("job", itemgetter("name")), ("tenant", itemgetter("tenant"))
STATE: ColumnOf = "state", lambda row: Cell(row["state"], mark=STATES.get(row["state"]))
STEPS = Column("steps", meaning="steps done, of all; the darker part of the bar is in a checkpoint"), _progress
AGE: ColumnOf = Column("age", meaning="time since submission"), lambda job: _time(job["seconds"])


# -- on terminals


MOST_FINISHED = 40
"""Finished jobs on a terminal, with the open ones; at least 5."""


def show(state: Snapshot, *, everything: bool = False) -> None:
    """Print the state of a cluster; only the newest finished jobs unless ``everything`` is requested."""
    open_jobs = sum(job["state"] not in FINISHED for job in state.jobs)
    status = status_of(state, limits={} if everything else {"finished": max(5, MOST_FINISHED - open_jobs)})
    terminal_tables.print_text(status.headline)
    for warning in status.warnings:
        terminal_tables.print_text((warning, "red"))
    terminal_tables.print_text(", ".join(f"{number} {name}" for number, name in status.tiles))
    for own in status.sections.values():
        terminal_tables.print_text("")
        terminal_tables.print_text((own.title, "bold"))
        if own.table.rows:
            terminal_tables.show(own.table, meaning=False, most=None)
        if own.note:
            terminal_tables.print_text(own.note)


def watch(read: Callable[[], Snapshot], *, every: float, everything: bool = False) -> None:
    """Show the cluster again and again, until Ctrl-C."""
    while True:
        with terminal.OUT.capture() as printed:
            show(read(), everything=everything)
        lines = printed.get().splitlines()
        terminal.OUT.clear()
        print("\n".join(lines[: terminal.OUT.height - 1] if terminal.OUT.is_terminal else lines), flush=True)
        time.sleep(every)
