"""The dashboard's page: one document that is complete without scripts, whose sections a script renews."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import lru_cache
from typing import Any

from hetopt.executor.dashboard import pictures
from hetopt.executor.dashboard.job_fairness import by_tenant
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.status_view import Section, pending_jobs, rho_cell, running_jobs, status_of
from hetopt.presentation.formatting import format_duration, format_number, format_percent
from hetopt.presentation.pages import render, script, source_hash, stylesheet
from hetopt.presentation.tables import Cell, Column, table_of

TITLE = "hetopt: the cluster"

MOST = {"nodes": 100, "pending": 100, "running": 100, "finished": 40}
"""Name of a section -> rows of its table."""

MOST_TENANTS = 40
"""Rows of the table of tenants."""

ALLOWED = f"style-src {source_hash(stylesheet())}; img-src data:; base-uri 'none'; form-action 'none'"

FILE_POLICY = f"default-src 'none'; {ALLOWED}"
"""What browsers may load and run in a page in a file: this style."""

POLICY = f"{FILE_POLICY}; script-src {source_hash(script('dashboard.js'))}; connect-src 'self'; frame-ancestors 'none'"
"""The same for a page from the server, with its script."""

_DRAWING = threading.Lock()  # the settings of Matplotlib belong to the whole process


def fragment(look: Look) -> str:
    """The sections that change, each an element with an id."""
    return render("dashboard_sections.html.j2", **_values(look))


def page(look: Look, *, live: bool = True) -> str:
    """The whole document.

    Parameters
    ----------
    live:
        With the script; without it the page is for a file, and shows when it was made.
    """
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    policy = "" if live else FILE_POLICY
    return render("dashboard.html.j2", title=TITLE, live=live, made=made, policy=policy, **_values(look))


def notice(title: str, text: str, *, again: int | None = None, link: dict[str, str] | None = None) -> str:
    """A page that explains why there is no other.

    Parameters
    ----------
    again:
        Seconds after which a browser tries again.
    link:
        ``target`` and ``text`` of a link after the text.
    """
    return render("notice.html.j2", title=f"hetopt: {title}", text=text, again=again, link=link)


def _values(look: Look) -> dict[str, Any]:
    """What the templates show; pictures are drawn once for all that see the same look."""
    with _DRAWING:
        return _views(look)


@lru_cache(maxsize=1)
def _views(look: Look) -> dict[str, Any]:
    last = look.rounds[-1] if look.rounds else None
    status = status_of(look.now, engine=look.engine, last=last, fairness=look.fairness, losses=look.losses, most=MOST)
    return {
        "status": status, "tenants": tenants(look), "leases": pictures.leases(look), "shares": pictures.shares(look)
    }  # fmt: skip


def tenants(look: Look) -> Section:
    """GPU time of tenants, and the finish-time fairness of their jobs."""
    names = list(dict.fromkeys((*look.held.gpus, *look.held.total, *(job["tenant"] for job in look.now.jobs))))
    if not names:
        return Section("tenants", "Tenants", None, "There are no jobs, so no tenants.")
    recent, total, rho = look.held.seconds, look.held.total, by_tenant(look.now.jobs, look.fairness)
    owner = {job["name"]: job["tenant"] for job in look.now.jobs}
    gpus = dict.fromkeys(names, 0)
    for lease in look.now.leases:
        gpus[owner[lease["job"]]] += sum(sum(own.values()) for own in lease["seats"].values())
    running, pending = ([job["tenant"] for job in jobs] for jobs in (running_jobs(look.now), pending_jobs(look.now)))

    def share(of: dict[str, float], name: str) -> Cell:
        seconds, whole = of.get(name, 0.0), sum(of.values())
        part = seconds / whole if whole else 0.0
        return Cell(format_percent(round(part, 3)), seconds, (f"{format_number(seconds / 3600, 3)} GPU h",))

    rows = []
    for name in names[:MOST_TENANTS]:
        own = rho.get(name)
        fair = [Cell(""), Cell("")] if own is None else [rho_cell(v, own.sure) for v in (own.mean, own.largest)]
        counts = (running.count(name), pending.count(name), gpus[name])
        rows.append([Cell(name), *(Cell(str(n), n) for n in counts), share(recent, name), share(total, name), *fair])
    window = format_duration(round(look.now.now - float(look.held.edges[0])))
    columns = ("running", "pending", "GPUs now", f"last {window}", "in all", "mean rho", "largest rho")
    left = len(names) - len(rows)
    return Section(
        "tenants", "Tenants",
        table_of(("tenant", *map(Column, columns)), rows, "GPU time from the grants of leases to their ends."),
        f"{left} more tenants are not shown." if left else "",
    )  # fmt: skip
