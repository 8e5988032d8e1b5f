"""The page of the dashboard: one document, complete without scripts; a script renews its sections."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime
from functools import lru_cache
from typing import Any

from hetopt.executor.dashboard import pictures
from hetopt.executor.dashboard.reader import DashboardState
from hetopt.executor.status_view import Section, jobs_by_phase, rho_cell, status_of
from hetopt.presentation.formatting import format_duration, format_number, format_percent
from hetopt.presentation.pages import render, script, source_hash, stylesheet
from hetopt.presentation.tables import Cell, Column, table_of

LIMITS = {"nodes": 100, "pending": 100, "running": 100, "finished": 40}
"""Name of a section -> rows of its table."""

MAX_TENANTS = 40
"""Rows of the table of tenants."""

RHO = (
    ("rho", "finish-time fairness (Themis): the duration of a job relative to its duration in its own 1/N of the "
     "cluster, where N is the mean number of jobs present during its stay; below 1, the job is faster than there. For "
     "a running job, the rest counts at its present speed. Of a tenant: mean and largest value of its jobs that are "
     "not failed or cancelled"),
    ("≈", "the job has no GPUs, so the rest counts at its fastest measured speed, or it was not measured on every GPU "
     "type that it may use"),
    ("no rho", "nothing is measured"),
)  # fmt: skip
"""Facts below the table of tenants."""

FILE_POLICY = (
    f"default-src 'none'; style-src {source_hash(stylesheet())}; img-src data:; base-uri 'none'; form-action 'none'"
)
POLICY = f"{FILE_POLICY}; script-src {source_hash(script('dashboard.js'))}; connect-src 'self'; frame-ancestors 'none'"
"""Content-Security-Policy of a page in a file, and of a page from the server, which has a script."""

_DRAWING = threading.Lock()  # the settings of Matplotlib belong to the whole process


def fragment(state: DashboardState) -> str:
    """The sections that change, each an element with an id."""
    return render("dashboard_sections.html.j2", **_values(state))


def page(state: DashboardState, *, live: bool = True) -> str:
    """The whole document; without the script if not ``live``, as a page in a file."""
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    policy = "" if live else FILE_POLICY
    return render("dashboard.html.j2", live=live, made=made, policy=policy, **_values(state))


def notice(title: str, text: str, *, again: int | None = None, link: dict[str, str] | None = None) -> str:
    """A page that explains why there is no other; reloaded ``again`` seconds later; with a link (target and text)."""
    return render("notice.html.j2", title=f"hetopt: {title}", text=text, again=again, link=link)


def _values(state: DashboardState) -> dict[str, Any]:
    with _DRAWING:
        return _values_once(state)


@lru_cache(maxsize=1)
def _values_once(state: DashboardState) -> dict[str, Any]:
    rho = {str(job): rho_cell(*row) for job, *row in state.fairness[["rho", "estimated"]].itertuples()}
    last = state.rounds[-1] if state.rounds else None
    return {
        "status": status_of(
            state.snapshot, engine=state.engine, last=last, rho=rho, losses=state.losses, limits=LIMITS
        ),
        "tenants": tenants(state),
        "leases": pictures.leases(state),
    }


def tenants(state: DashboardState) -> Section:
    """GPU time of tenants, and the finish-time fairness of their jobs."""
    now, usage = state.snapshot, state.usage
    owner = {job["name"]: job["tenant"] for job in now.jobs}
    names = list(dict.fromkeys((*usage.recent, *usage.total, *owner.values())))
    phases = jobs_by_phase(now)
    running, pending = (Counter(job["tenant"] for job in phases[phase]) for phase in ("running", "pending"))
    gpus = Counter[str]()
    for lease in now.leases:
        gpus[owner[lease["job"]]] += sum(sum(own.values()) for own in lease["seats"].values())
    by_tenant = state.fairness.groupby("tenant")
    rho = by_tenant.agg(mean=("rho", "mean"), largest=("rho", "max"), estimated=("estimated", "any")).to_dict("index")

    def share(seconds: dict[str, float], name: str) -> Cell:
        own, total = seconds.get(name, 0.0), sum(seconds.values())
        part = own / total if total else 0.0
        return Cell(format_percent(round(part, 3)), own, (f"{format_number(own / 3600, 3)} GPU h",))

    rows = []
    for name in names[:MAX_TENANTS]:
        fair = [rho_cell(rho[name][key], rho[name]["estimated"]) if name in rho else "" for key in ("mean", "largest")]
        counts = (str(count[name]) for count in (running, pending, gpus))
        rows.append([name, *counts, share(usage.recent, name), share(usage.total, name), *fair])
    window = format_duration(round(now.now - usage.since))
    columns = ("running", "pending", "GPUs now", f"last {window}", "in all", "mean rho", "largest rho")
    caption = "GPU time from the grants of leases to their ends."
    left = len(names) - len(rows)
    note = f"{left} more tenants are not shown." if left else "" if rows else "There are no jobs, so no tenants."
    return Section("Tenants", table_of(("tenant", *map(Column, columns)), rows, caption, RHO), note)
