"""The page: one document that shows everything by itself, and renews its parts where scripts run."""

from __future__ import annotations

from datetime import datetime

from hetopt.executor.dashboard import gantt, jobs, sections
from hetopt.executor.dashboard.markup import EMPTY, Html, joined, lone, tag
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.dashboard.script import FILE_POLICY, SCRIPT
from hetopt.executor.dashboard.style import STYLE
from hetopt.executor.dashboard.tenants import tenants


def fragment(look: Look) -> Html:
    """The parts that change, each a section with a name of its own."""
    return joined(
        sections.head(look),
        sections.cluster(look.now),
        jobs.queue(look),
        jobs.jobs_running(look),
        sections.section("leases", "What ran where", gantt.picture(look)),
        tenants(look),
        jobs.jobs_over(look),
    )


def page(look: Look, *, live: bool = True) -> Html:
    """The whole document.

    Parameters
    ----------
    live:
        With the script; without it the page is for a file, and says when it was made.
    """
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    policy = lone("meta", http_equiv="Content-Security-Policy", content=FILE_POLICY)
    aside = tag("span", "" if live else f"as of {made}", id="beat", class_="quiet")
    off = f"Scripts are off, so this is what was at {made}; load the page again to see what is new."
    body = joined(
        tag("header", tag("h1", "hetopt: the cluster"), aside),
        tag("p", id="said", role="status", hidden=True),
        tag("noscript", tag("p", off, class_="quiet")) if live else EMPTY,
        tag("main", fragment(look), id="live"),
        tag("script", Html(SCRIPT)) if live else EMPTY,
    )
    return document("hetopt: the cluster", body, EMPTY if live else policy)


def document(title: str, body: Html, more: Html = EMPTY) -> Html:
    """A document in the page's style."""
    head = joined(
        lone("meta", charset="utf-8"),
        more,
        lone("meta", name="viewport", content="width=device-width, initial-scale=1"),
        lone("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    return joined(Html("<!doctype html>"), tag("html", tag("head", head), tag("body", body), lang="en"), Html("\n"))


def notice(title: str, text: object, *, again: int | None = None) -> Html:
    """A page that says why there is no other.

    Parameters
    ----------
    again:
        Seconds after which a browser tries again.
    """
    more = EMPTY if again is None else lone("meta", http_equiv="refresh", content=again)
    body = joined(tag("header", tag("h1", f"hetopt: {title}")), tag("p", text, class_="caution"))
    return document(f"hetopt: {title}", body, more)
