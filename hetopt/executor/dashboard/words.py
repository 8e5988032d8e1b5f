"""How the page spells numbers and times."""

from __future__ import annotations

import math

from hetopt.executor.dashboard.markup import EMPTY, Html, markup, tag
from hetopt.executor.telling import age

MOST_WHOLE = 20
"""Letters of a name that is not broken."""

AGES = 1e9
"""Seconds beyond which no duration is spelled."""

KINDS = {
    "running": "good",
    "up": "good",
    "done": "good",
    "profiling": None,
    "starting": None,
    "stopping": "caution",
    "draining": "caution",
    "drained": "caution",
    "failed": "bad",
    "down": "bad",
    "lost": "bad",
}


def state(word: str) -> Html:
    """A state, with a colour that says no more than the word."""
    return tag("span", word, class_=f"whole {KINDS.get(word) or ''}".rstrip())


def name(text: str) -> Html:
    """A short name in one piece; a long one may be broken."""
    return tag("span", text, class_="whole") if len(text) <= MOST_WHOLE else markup(text)


def short(value: float) -> str:
    """A number to three digits."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def rate(steps_per_second: float | None) -> str:
    """A speed in the unit that has digits before the point."""
    if not steps_per_second:
        return ""
    for size, unit in ((1.0, "s"), (60.0, "min"), (3600.0, "h")):
        if steps_per_second * size >= 1.0 or unit == "h":
            return f"{short(steps_per_second * size)}/{unit}"
    raise AssertionError


def part(value: float, whole: float) -> str:
    """In per cent."""
    return f"{100 * value / whole:.0f} %" if whole > 0 else ""


def duration(seconds: float | None) -> str:
    """Two units at most, such as ``1h05m``."""
    if seconds is None:
        return ""
    return age(max(0.0, seconds)) if seconds < AGES else "> 30 years"


def plain(seconds: float) -> str:
    """A round length of time: ``1m30s``, but ``1h`` rather than ``1h00m``."""
    return duration(seconds).replace("m00s", "m").replace("h00m", "h").replace("d00h", "d")


def gpu_time(seconds: float) -> str:
    """GPU-seconds, or GPU-hours where there are many."""
    return f"{short(seconds / 3600)} GPU h" if seconds >= 3600 else f"{short(seconds)} GPU s"


def rho(value: float | None, sure: bool = True) -> Html:
    """Finish-time fairness; what is not sure is marked."""
    if value is None:
        return EMPTY
    return markup(short(value)) if sure else tag("span", f"≈ {short(value)}", title="not all that it needs is measured")
