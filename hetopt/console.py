"""What the command line prints: tables, progress, JSON of results."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hetopt.allocation import Allocation, Plan
from hetopt.data.instance import Instance

if TYPE_CHECKING:
    from hetopt.auditing import Audit
    from hetopt.comparison import Comparison

# Where output goes to a file or a pipe there is no width to fit: tables keep theirs.
OUT = Console(width=None if sys.stdout.isatty() else 160)
ERR = Console(stderr=True)
MOST_ROWS = 60


def say(text: str) -> None:
    """One line on standard output, never wrapped."""
    OUT.print(text, soft_wrap=True, highlight=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error while something runs."""
    with ERR.status(what):
        yield


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; call what is yielded with the name of each step as it begins."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as progress:
        task = progress.add_task("", total=total)
        begun = False

        def step(name: str) -> None:
            nonlocal begun
            progress.update(task, description=name, advance=1 if begun else 0)
            begun = True

        yield step
        progress.update(task, advance=1)


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    packages = {name: version(name) for name in ("hetopt", "pyomo", "highspy", "numpy")}
    return {**packages, "python": platform.python_version()}


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def show_frame(frame: pd.DataFrame, title: str) -> None:
    """A DataFrame as a table; long ones are cut in the middle, saying so."""
    table = Table(title=title, title_justify="left")
    table.add_column(str(frame.index.name or ""))
    for column in frame.columns:
        table.add_column(str(column), justify="right")
    for i, (name, row) in enumerate(frame.iterrows()):
        if i >= MOST_ROWS:
            table.add_row(f"… {len(frame) - MOST_ROWS} more", *[""] * len(frame.columns))
            break
        table.add_row(str(name), *(_number(v) for v in row))
    OUT.print(table)


def show_result(result: Allocation | Plan, policy: str) -> None:
    """Shares (or GPUs), rates, certificate."""
    if isinstance(result, Allocation):
        frame = result.exact if result.certificate.exact else result.share
        show_frame(frame.assign(rate=result.rate), f"{policy}: share of each GPU type, and rate")
    else:
        show_frame(result.gpus, f"{policy}: GPUs this round")
        for what, amount in result.given_up.items():
            say(f"given up ({what}): {_number(float(amount))}")
    certificate = result.certificate
    if certificate is not None:
        say(
            f"{certificate.status}: objective {certificate.objective:.6g}, bound {certificate.bound:.6g}, "
            f"violation {certificate.violation:.1e}, {certificate.seconds:.3f} s with {certificate.solver} "
            f"({certificate.method})"
        )
        if certificate.exact is not None:
            say(f"proven in rational numbers: objective {certificate.exact.objective}")


def result_json(result: Allocation | Plan, policy: str, instance: Instance) -> dict[str, Any]:
    """A result as plain data."""
    data: dict[str, Any] = {"instance": instance.name, "policy": policy, "kind": result.entities.kind}
    if isinstance(result, Allocation):
        data["share"] = result.share.to_dict(orient="index")
        data["rate"] = result.rate.to_dict()
        if result.certificate.exact is not None:
            data["exact_share"] = result.exact.map(str).to_dict(orient="index")
    else:
        data["gpus"] = result.gpus.to_dict(orient="index")
        data["given_up"] = dict(result.given_up)
    data["certificate"] = result.certificate.as_dict() if result.certificate is not None else None
    return data


def show_audit(verdicts: Audit, policy: str) -> None:
    """One line per property with the reason where it fails."""
    show_frame(verdicts.table, f"{policy}: properties")


def show_names(listed: Mapping[str, str], title: str, about: str) -> None:
    """Names and a sentence on each."""
    table = Table(title=title, title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column(about)
    for name, text in listed.items():
        table.add_row(name, text)
    OUT.print(table)


def show_instance(instance: Instance, as_json: bool) -> None:
    """One instance: where it comes from, and its tables."""
    if as_json:
        from hetopt.files.encoding import encode

        print(json.dumps(encode(instance), indent=2))
        return
    say(f"[b]{instance.name}[/b]")
    if instance.source:
        OUT.print(instance.source)
    show_frame(pd.DataFrame({"GPUs": instance.cluster.capacity}).rename_axis("GPU type"), "cluster")
    for kind in ("tenants", "jobs"):
        if getattr(instance, kind):
            entities = instance.entities(kind)
            show_frame(entities.frame(entities.speed), f"{kind}: speed on each GPU type")


def show_comparison(comparison: Comparison) -> None:
    """The comparison table, what the columns mean, and which policies do not apply."""
    from hetopt.comparison import COLUMNS

    table = Table(title=f"every policy on {comparison.instance.name}", title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in comparison.table.iterrows():
        table.add_row(str(name), *(_cell(key, float(row[key])) for key in COLUMNS))
    OUT.print(table)
    for key, text in COLUMNS.items():
        say(f"  [b]{key}[/b]: {text}")
    for name, why in comparison.refused.items():
        say(f"  not applicable: [b]{name}[/b]: {why}")


def _cell(key: str, value: float) -> str:
    from hetopt.comparison import is_bad

    text = "∞" if value == float("inf") else f"{value:.3f}" if value < 100 else f"{value:.1f}"
    return f"[red]{text}[/red]" if is_bad(key, value) else text
