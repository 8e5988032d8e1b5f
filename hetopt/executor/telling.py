"""The cluster on a terminal: a table that stands, or one that moves."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from hetopt.executor.queue import QUEUED
from hetopt.executor.snapshot import NOT_YET, Snapshot
from hetopt.presentation import console
from hetopt.presentation.terminal import OUT

STYLES = {
    "running": "green",
    "profiling": "cyan",
    "starting": "yellow",
    "stopping": "yellow",
    "failed": "red",
    "down": "red",
    "done": "dim",
}
DOTS = 12
"""Width of a progress bar."""

ENDED = ("done", "failed", "cancelled")


def rendered(now: Snapshot, *, everything: bool = False, most: int = 40) -> Group:
    """Nodes and jobs as tables; of jobs that are over only the newest, unless ``everything`` is wanted."""
    return Group(_head(now), _nodes(now), _jobs(now, everything=everything, most=most))


def _head(now: Snapshot) -> Text:
    if now.controller is None:
        return Text("no controller runs, so nothing is decided; `hetopt run` is one", style="yellow")
    said = f"{now.policy}, round {now.round}"
    if now.round_seconds is not None and now.next_round is not None:
        said += f", the next in {max(0.0, now.next_round - now.now):.0f} s"
    head = Text(said)
    if now.undecided is not None:
        head.append(f"\nit cannot decide, so what runs goes on: {now.undecided}", style="red")
    if now.overdue is not None:
        head.append(f"\nthe next round is overdue by {age(now.overdue)}: the controller cannot go on", style="red")
    for trouble in now.troubles:
        head.append(f"\n{trouble}", style="red")
    return head


def _nodes(now: Snapshot) -> Table:
    table = Table("node", "state", "GPUs in use", "note", title="nodes", title_justify="left")
    for node in now.nodes:
        gpus = ", ".join(f"{node['used'].get(t, 0)} of {n} {t}" for t, n in node["gpus"].items())
        table.add_row(*map(Text, (node["name"],)), _state(node["state"]), Text(gpus), Text(node["note"]))
    return table


def _jobs(now: Snapshot, *, everything: bool, most: int) -> Table:
    table = Table("job", "tenant", "state", "progress", "left", "age", "where, or why not", title_justify="left")
    open_jobs = [job for job in now.jobs if job["state"] not in ENDED]
    over = sorted((job for job in now.jobs if job["state"] in ENDED), key=lambda job: -(job["finished"] or 0.0))
    rows = open_jobs + (over if everything else over[: max(5, most - len(open_jobs))])
    left_out, waits = len(now.jobs) - len(rows), now.controller is not None
    table.title = "jobs" + (f" ({left_out} that are over are not shown; --all)" if left_out else "")
    for job in rows:
        table.add_row(
            Text(job["name"]),
            Text(job["tenant"]),
            _state(job["state"]),
            _bar(job["step"], job["steps"]),
            Text("" if job["left_seconds"] is None else age(job["left_seconds"])),
            Text(age(job["seconds"])),
            Text(", ".join(job["where"]) or job["reason"] or (NOT_YET if waits and job["state"] == QUEUED else "")),
        )
    return table


def _state(state: str) -> Text:
    return Text(state, style=STYLES.get(state, ""))


def _bar(step: int, steps: int) -> Text:
    full = DOTS * step // steps if steps else 0
    return Text(console.readable("█" * full + "░" * (DOTS - full)) + f" {step}/{steps}")


def age(seconds: float) -> str:
    """``75`` as ``1m15s``: two units at most."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def watch(look: Callable[[], Snapshot], *, every: float, times: int | None = None, everything: bool = False) -> None:
    """Show the cluster until Ctrl-C (or so many times)."""
    from rich.live import Live

    shown = 0
    with Live(console=OUT, auto_refresh=False) as live:
        try:
            while times is None or shown < times:
                live.update(rendered(look(), everything=everything), refresh=True)
                shown += 1
                if times is None or shown < times:
                    time.sleep(every)
        except KeyboardInterrupt:
            return
