"""Who has had how much, and how fair that was: a picture over time and a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.executor.dashboard import words
from hetopt.executor.dashboard.drawing import LEFT, REST, WIDTH, Time, colours, figure, legend, of_tenants
from hetopt.executor.dashboard.history import Held, Round
from hetopt.executor.dashboard.job_fairness import by_tenant
from hetopt.executor.dashboard.markup import EMPTY, Html, joined, lone, table, tag
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.dashboard.sections import left_out, running, section, waiting

TOP, HEIGHT = 10.0, 170.0

MOST_TENANTS = 40
"""Rows of the table."""

MEANING = (
    "rho is finish-time fairness (themis): the time that a job takes, relative to the time it would take in its own "
    "1/N of the cluster, N being the number of jobs present on average during its stay; below 1 is sooner. For a job "
    "that runs, what is left counts at its present speed. ≈: it has no GPUs, so its fastest measured speed stands for "
    "what is left, or it was not measured on every GPU type that it may use. Empty: nothing is measured. Of a tenant: "
    "mean and largest over its jobs that are open or done."
)


def tenants(look: Look) -> Html:
    """Shares of tenants over time, in sum, and their finish-time fairness."""
    names = dict.fromkeys((*look.held.gpus, *look.held.total, *(job["tenant"] for job in look.now.jobs)))
    if not names:
        return section("tenants", "Tenants", tag("p", "There are no jobs, so no tenants.", class_="empty"))
    return section("tenants", "Tenants", _over_time(look), _table(look, list(names)), tag("p", MEANING, class_="quiet"))


def _table(look: Look, names: Sequence[str]) -> Html:
    lately, total = look.held.seconds, look.held.total
    rho = by_tenant(look.now.jobs, look.fairness)
    holds: dict[str, int] = {}
    owner = {job["name"]: job["tenant"] for job in look.now.jobs}
    for lease in look.now.leases:
        number = sum(sum(gpus.values()) for gpus in lease["seats"].values())
        holds[owner[lease["job"]]] = holds.get(owner[lease["job"]], 0) + number
    run, wait = ([job["tenant"] for job in jobs] for jobs in (running(look.now), waiting(look.now)))
    rows = []
    for name in names[:MOST_TENANTS]:
        own = rho.get(name)
        rows.append(
            (
                name,
                str(run.count(name)),
                str(wait.count(name)),
                str(holds.get(name, 0)),
                _share(lately.get(name, 0.0), sum(lately.values())),
                _share(total.get(name, 0.0), sum(total.values())),
                words.rho(None) if own is None else words.rho(own.mean, own.sure),
                words.rho(None) if own is None else words.rho(own.largest, own.sure),
            )
        )
    span = words.duration(look.now.now - float(look.held.edges[0]))
    columns = ("tenant", "running", "waiting", "GPUs now", f"last {span}", "in all", "mean rho", "largest rho")
    caption = "GPU time from the grant of a lease to its end, and its part of all that was held."
    shown = table("tenants", caption, columns, rows, "|".join(columns[1:]))
    return joined(shown, left_out(names, MOST_TENANTS, "tenants are"))


def _share(seconds: float, whole: float) -> Html:
    return joined(tag("b", words.part(seconds, whole) or "0 %"), " ", tag("small", words.gpu_time(seconds)))


# -- over time


def _over_time(look: Look) -> Html:
    """GPUs that tenants held, one above another, and how many there were."""
    gpus = look.held.gpus
    if not any(own.any() for own in gpus.values()):
        return tag("p", "No tenant has held a GPU lately.", class_="empty")
    time = Time(float(look.held.edges[0]), look.now.now)
    known = sum(sum(node["gpus"].values()) for node in look.now.nodes)
    size = capacity(look.rounds, time.since, time.now, known)
    high = max(1.0, *(number for _, number in size), float(sum(gpus.values()).max()))  # type: ignore[union-attr]
    key = colours(gpus)
    drawn = tag(
        "svg",
        tag("title", "GPUs that tenants held over time"),
        _scale(high),
        time.axis(TOP, TOP + HEIGHT),
        *_areas(look.held, key, time, high),
        _line(size, time, high),
        viewBox=f"0 0 {WIDTH:g} {TOP + HEIGHT + 20:g}",
        role="img",
    )
    caption = "GPUs held on average, one tenant above another; the line is how many the policy could give."
    return figure("shares", drawn, caption, legend(of_tenants(key)))


def _y(gpus: float, high: float) -> float:
    return TOP + HEIGHT * (1.0 - gpus / high)


def _scale(high: float) -> Html:
    """Numbers of GPUs on the left."""
    step = next((s for base in (1, 10, 100, 1000, 10000) for s in (base, 2 * base, 5 * base) if high / s <= 6), high)
    parts = []
    for i in range(int(high / step) + 1):
        y = _y(i * step, high)
        parts.append(lone("line", class_="line", x1=LEFT, x2=WIDTH - 12, y1=y, y2=y))
        parts.append(tag("text", f"{i * step:g}{' GPUs' if i == 0 else ''}", x=LEFT - 6, y=y + 4, text_anchor="end"))
    return joined(*parts)


def _areas(held: Held, key: dict[str, str], time: Time, high: float) -> list[Html]:
    """An area for each colour: those that share one are one."""
    groups: dict[str, list[str]] = {}
    for tenant in held.gpus:
        groups.setdefault(tenant if key[tenant] != REST else REST, []).append(tenant)
    below: Floats = np.zeros(len(held.edges) - 1)
    length, found = float(held.edges[-1] - held.edges[0]), []
    for group in groups.values():
        own = sum((held.gpus[tenant] for tenant in group), np.zeros_like(below))
        name = group[0] if len(group) == 1 else f"{len(group)} other tenants"
        mean = sum(held.seconds[tenant] for tenant in group) / length
        said = f"{name}: {words.short(mean)} GPUs on average"
        shape = _area(held.edges, below, below + own, time, high)
        found.append(tag("path", tag("title", said), class_=f"bar s{key[group[0]]}", d=shape))
        below = below + own
    return found


def _area(edges: Floats, low: Floats, top: Floats, time: Time, high: float) -> str:
    """Between two lines of steps."""
    there = [(time.x(float(x)), _y(float(v), high)) for i, v in enumerate(top) for x in (edges[i], edges[i + 1])]
    back = [
        (time.x(float(x)), _y(float(low[i]), high))
        for i in range(len(low) - 1, -1, -1)
        for x in (edges[i + 1], edges[i])
    ]
    return "M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in (*there, *back)) + "z"


def capacity(rounds: Sequence[Round], since: float, now: float, known: int) -> list[tuple[float, float]]:
    """(from when on, GPUs that the policy could give); ``known`` where no round has told."""
    found: list[tuple[float, float]] = []
    for one in rounds:
        if one.time <= now and (not found or found[-1][1] != one.capacity):
            found.append((max(since, one.time), float(one.capacity)))
    return found or [(since, float(known))]


def _line(size: Sequence[tuple[float, float]], time: Time, high: float) -> Html:
    points = []
    for i, (begin, number) in enumerate(size):
        end = size[i + 1][0] if i + 1 < len(size) else time.now
        points += [f"{time.x(begin):.1f},{_y(number, high):.1f}", f"{time.x(end):.1f},{_y(number, high):.1f}"]
    return lone("polyline", class_="capacity", points=" ".join(points)) if points else EMPTY
