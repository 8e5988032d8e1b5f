"""What the pictures share: a time axis that ends now, and colours of tenants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hetopt.executor.dashboard import words
from hetopt.executor.dashboard.history import Span
from hetopt.executor.dashboard.markup import Html, joined, lone, scrolling, tag
from hetopt.executor.dashboard.style import COLOURS

WIDTH, LEFT, RIGHT = 960.0, 132.0, 12.0
"""Of a picture in its own units, and what is beside the time axis."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
"""Seconds between two ticks."""

REST = "rest"
"""Colour of those that have none of their own."""


@dataclass(frozen=True)
class Time:
    """An axis of seconds.

    Attributes
    ----------
    since, now:
        Its first and its last second.
    """

    since: float
    now: float

    def x(self, second: float) -> float:
        """Where a second is."""
        inside = min(max(second, self.since), self.now)
        return LEFT + (WIDTH - LEFT - RIGHT) * (inside - self.since) / ((self.now - self.since) or 1.0)

    def axis(self, top: float, bottom: float, above: float | None = None) -> Html:
        """Lines and, below them (and at a height above, too), how long ago."""
        length = self.now - self.since
        step = next((s for s in STEPS if length / s <= 8), STEPS[-1] * max(1, round(length / STEPS[-1] / 8)))
        parts = []
        for i in range(int(length / step) + 1):
            x = self.x(self.now - i * step)
            parts.append(lone("line", class_="line", x1=x, x2=x, y1=top, y2=bottom))
            said = "now" if i == 0 else f"{words.plain(i * step)} ago"
            anchor = "end" if i == 0 else "middle"
            heights = (bottom + 14, *([] if above is None else [above]))
            parts += [tag("text", said, class_="q", x=x, y=y, text_anchor=anchor) for y in heights]
        return joined(*parts)


def colours(order: Iterable[str]) -> dict[str, str]:
    """Tenant -> name of its colour; those that come late share one."""
    return {tenant: str(i) if i < COLOURS else REST for i, tenant in enumerate(order)}


def jobs_coloured(spans: Sequence[Span]) -> dict[str, str]:
    """Job -> name of its colour; they recur."""
    return {job: str(i % COLOURS) for i, job in enumerate(dict.fromkeys(span.job for span in spans))}


def legend(items: Iterable[tuple[Html, str]]) -> Html:
    """Samples and what they stand for."""
    return tag("ul", *(tag("li", sample, name) for sample, name in items), class_="legend")


def sample(*shapes: Html) -> Html:
    """A small picture for a legend."""
    return tag("svg", *shapes, class_="swatch", viewBox="0 0 14 14", aria_hidden="true")


def of_tenants(colour: Mapping[str, str]) -> list[tuple[Html, str]]:
    """Entries of a legend; one for all that share a colour."""
    shown = [(sample(_square(key)), name) for name, key in colour.items() if key != REST]
    others = sum(key == REST for key in colour.values())
    return [*shown, *([(sample(_square(REST)), f"{others} other tenants")] if others else [])]


def _square(key: str) -> Html:
    return lone("rect", class_=f"s{key}", width=14, height=14)


def figure(name: str, picture: Html, caption: object, above: object, *, tall: bool = False) -> Html:
    """A picture with its legend and its caption, which scrolls by itself where the page is narrow."""
    box = scrolling(name, picture, label=f"picture of {name}", tall=tall)
    return tag("figure", above, box, tag("figcaption", caption))
