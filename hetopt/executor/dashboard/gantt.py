"""What ran where: leases over time, a row for each GPU, with the rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hetopt.executor.dashboard import words
from hetopt.executor.dashboard.drawing import (
    LEFT,
    WIDTH,
    Time,
    colours,
    figure,
    jobs_coloured,
    legend,
    of_tenants,
    sample,
)
from hetopt.executor.dashboard.history import Round, Span, granted_to
from hetopt.executor.dashboard.markup import EMPTY, Html, joined, lone, markup, tag
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.leases import PROFILE

MOST_SEATS = 400
"""Rows of the picture."""

HEIGHTS = ((40, 17.0), (100, 11.0), (MOST_SEATS, 5.0))
"""Up to so many rows: so high."""

TOP, HIGHER, GAP, LEAST = 26.0, 42.0, 3.0, 11.0
"""Above the first row (of a picture that scrolls also the time), between two kinds of GPUs, for the name of a kind."""

APART = 34.0
"""Between the numbers of two rounds at least."""

TALL = 620.0
"""A higher picture scrolls within the page."""

MOST_MARKS = 80
"""Rounds that are marked."""

LETTER = 6.3
"""Width of a letter, on average."""


@dataclass(frozen=True)
class GanttRows:
    """Where each seat is drawn.

    Attributes
    ----------
    height:
        Of a row.
    begin:
        The upper edge of the first.
    top:
        (node, GPU type) -> the upper edge of its first row.
    number:
        (node, GPU type) -> its seats.
    left_out:
        Seats for which there is no room.
    """

    height: float
    begin: float
    top: dict[tuple[str, str], float]
    number: dict[tuple[str, str], int]
    left_out: int

    @property
    def bottom(self) -> float:
        """The lower edge of all."""
        return max((self.top[key] + self.room(key) for key in self.top), default=self.begin)

    def room(self, key: tuple[str, str]) -> float:
        """Height of the rows of a kind of GPU on a node."""
        return max(LEAST, self.height * self.number[key])


def rows(nodes: Iterable[Mapping[str, Any]], spans: Sequence[Span], most: int = MOST_SEATS) -> GanttRows:
    """A row for each GPU of the nodes, and for each that a lease has held; as many as there is room for."""
    number = {(node["name"], kind): n for node in nodes for kind, n in node["gpus"].items()}
    for key, n in granted_to(spans).items():
        number[key] = max(number.get(key, 0), n)
    total = sum(number.values())
    height = next((high for upto, high in HEIGHTS if total <= upto), HEIGHTS[-1][1])
    shown, left = {}, most
    for key in sorted(number):
        if fits := min(number[key], left):
            shown[key] = fits
            left -= fits
    room = {key: max(LEAST, height * fits) + GAP for key, fits in shown.items()}
    begin = HIGHER if sum(room.values()) > TALL else TOP
    edges = accumulate(room.values(), initial=begin)
    return GanttRows(height, begin, dict(zip(room, edges, strict=False)), shown, total - sum(shown.values()))


def picture(look: Look) -> Html:
    """The whole picture with its legend, or a line that says why there is none."""
    now, time = look.now, Time(look.since, look.now.now)
    if not look.spans:
        return tag("p", "No job has had a GPU lately.", class_="empty")
    places = rows(now.nodes, look.spans)
    tenants = colours(look.held.gpus)
    jobs = jobs_coloured(look.spans) if len(tenants) == 1 else None
    marks = [one for one in look.rounds if look.since <= one.time <= now.now]
    drawn = tag(
        "svg",
        tag("title", "Leases over time by GPU"),
        _HATCH,
        _ground(places),
        time.axis(places.begin - 4, places.bottom, 11 if places.begin > TOP else None),
        *_rounds(marks, time, places),
        *(_bar(run, time, places, jobs[run[0].job] if jobs else tenants[run[0].tenant]) for run in runs(look.spans)),
        viewBox=f"0 0 {WIDTH:g} {places.bottom + 20:g}",
        role="img",
    )
    keys = [*_samples("0"), *([] if jobs else of_tenants(tenants))]
    return figure(
        "leases", drawn, _caption(look, places, marks, jobs is not None), legend(keys), tall=places.begin > TOP
    )


_HATCH = tag(
    "defs",
    tag(
        "pattern",
        lone("path", class_="weave", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2"),
        id="weave",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
    ),
)


def _samples(key: str) -> list[tuple[Html, str]]:
    box = {"width": 14, "height": 14}
    woven = joined(lone("rect", class_=f"s{key} pale", **box), lone("rect", fill="url(#weave)", **box))
    begun = joined(lone("rect", class_=f"s{key}", **box), lone("rect", class_="part", **box))
    line = lone("line", class_="round", x1=7, x2=7, y1=0, y2=14)
    return [(sample(line), "a round"), (sample(begun), "starting"), (sample(woven), "profiling")]


def _caption(look: Look, places: GanttRows, marks: Sequence[Round], by_job: bool) -> Html:
    said = f"A row for each GPU, the last {words.duration(look.now.now - look.since)}. "
    said += "Point at a bar for its job. "
    said += "There is one tenant, so colours tell jobs apart; they recur. " if by_job else "Colours are tenants. "
    if look.since > float(look.held.edges[0]) + 1.0:
        said += "It begins where the number of leases would be too large for a picture. "
    if places.left_out:
        said += f"{places.left_out} more GPUs are not shown. "
    if len(marks) > MOST_MARKS:
        said += f"Of {len(marks)} rounds every {-(-len(marks) // MOST_MARKS)}th is marked."
    return markup(said.rstrip())


def _ground(places: GanttRows) -> Html:
    """A strip and a name for each kind of GPU on a node."""
    parts = []
    for (node, kind), top in places.top.items():
        high = places.room((node, kind))
        parts.append(lone("rect", class_="ground", x=LEFT, y=top, width=WIDTH - LEFT - 12, height=high))
        whole, short = f"{node} {kind}", f"{node[:11]}{'…' if len(node) > 11 else ''} {kind[:9]}"
        label = tag("text", short, tag("title", whole), x=LEFT - 6, y=top + min(high, 17) / 2 + 4, text_anchor="end")
        parts.append(label)
        if places.height >= HEIGHTS[1][1]:
            for i in range(1, places.number[node, kind]):
                y = top + i * places.height
                parts.append(lone("line", class_="line", x1=LEFT, x2=WIDTH - 12, y1=y, y2=y))
    return joined(*parts)


def _rounds(marks: Sequence[Round], time: Time, places: GanttRows) -> Iterable[Html]:
    """A line down from each round, its number above as far as there is room."""
    last, top = -APART, places.begin
    for one in marks[:: max(1, -(-len(marks) // MOST_MARKS))]:
        x = time.x(one.time)
        said = f"round {one.number}: {one.placed} of {one.jobs} jobs on {one.gpus} of {one.capacity} GPUs, decided in "
        mark = lone("path", class_="mark", d=f"M{x - 4:.1f},{top - 10:g} h8 l-4,6 z")
        name = EMPTY
        if x - last >= APART:
            name, last = tag("text", str(one.number), class_="q", x=x, y=top - 13, text_anchor="middle"), x
        line = lone("line", class_="round", x1=x, x2=x, y1=top - 4, y2=places.bottom)
        yield tag("g", tag("title", f"{said}{words.short(one.seconds)} s by {one.policy}"), line, mark, name)


def runs(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of a lease on neighbouring seats, which are one bar."""
    found: list[list[Span]] = []
    for span in spans:
        before = found[-1][-1] if found else None
        if (
            before is not None
            and (before.tag, before.node, before.gpu_type) == (span.tag, span.node, span.gpu_type)
            and before.number + 1 == span.number
        ):
            found[-1].append(span)
        else:
            found.append([span])
    return found


def _bar(run: Sequence[Span], time: Time, places: GanttRows, key: str) -> Html:
    """A lease on neighbouring GPUs: first lighter, until its first step; woven where it only profiles."""
    span = run[0]
    where = span.node, span.gpu_type
    seats = min(len(run), places.number.get(where, 0) - span.number)
    if seats <= 0 or span.until <= time.since:
        return EMPTY
    x, y = time.x(span.granted), places.top[where] + span.number * places.height
    wide, high = max(0.8, time.x(span.until) - x), seats * places.height
    box: dict[str, object] = {"x": x, "y": y + 0.5, "height": high - 1}
    parts = [tag("title", told(run, time.now))]
    if span.kind == PROFILE:
        parts.append(lone("rect", class_=f"bar s{key} pale", width=wide, **box))
        parts.append(lone("rect", fill="url(#weave)", width=wide, **box))
    else:
        parts.append(lone("rect", class_=f"bar s{key}", width=wide, **box))
        begun = time.x(span.until if span.first_tick is None else span.first_tick) - x
        if begun > 0.4:
            parts.append(lone("rect", class_="part", width=min(wide, begun), **box))
    room = int((wide - 6) / LETTER)
    if high >= LEAST and room >= 3 and span.kind != PROFILE:
        name = span.job if len(span.job) <= room else f"{span.job[: room - 1]}…"
        parts.append(tag("text", name, class_=f"s{key}", x=x + 4, y=y + high / 2 + 4))
    return tag("g", *parts)


def told(run: Sequence[Span], now: float) -> str:
    """All about a bar, in a line."""
    span = run[0]
    copy = f" copy {span.copy}" if span.copy else ""
    what = "is profiled" if span.kind == PROFILE else "runs" if span.open else "ran"
    ended = f", until {words.duration(now - span.until)} ago" if not span.open else ""
    why = f": {span.said}" if span.said else ""
    return (
        f"{span.job}{copy} of {span.tenant} {what} on {len(run)} {span.gpu_type} of {span.node} for "
        f"{words.duration(span.until - span.granted)}{ended}, granted in round {span.round}{why}"
    )
