"""One style for pictures and pages: colours on light and dark screens, lines and bars of systems, fonts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.colors import to_rgb

from hetopt.presentation.fonts import families, letters_may_lack
from hetopt.presentation.tables import Key

LIGHT = ("#332288", "#ee6677", "#117733", "#6699cc", "#aa3377", "#999933")
DARK = ("#9a8cff", "#e8604c", "#66cc88", "#bfe6ff", "#dd66aa", "#ddcc55")
"""Six colours each, distinct for every kind of colour vision and against the page (a test measures both)."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 1.6), (1.3, 1.3), (6.0, 1.6, 1.3, 1.6))
"""Dashes for repeated colours: on and off in line widths."""

HATCHES = ("", "////", "\\\\\\\\", "xxxx")
"""Hatches of bars for repeated colours; dots would make pictures large."""

INK, QUIET, GRID, PAGE, SOFT = "#1a1a1b", "#5a5a5b", "#dcdcdd", "#fefefe", "#f2f3f5"
GOOD, BAD, WARN, REST = "#0b6b2e", "#b3003b", "#7a4d00", "#8b8f96"
HEAT = ("#eef3ee", "#fde8c8", "#fbc58a", "#f0935a", "#d4543c", "#9b1c3a")
"""Colours of pictures and pages. A page declares each as a variable, in which dark screens have another colour."""

VARIABLES: Mapping[str, tuple[str, str]] = {
    "ink": (INK, "#e8e8e8"),
    "quiet": (QUIET, "#a9adb3"),
    "grid": (GRID, "#33383f"),
    "page": (PAGE, "#14171c"),
    "soft": (SOFT, "#1e232a"),
    "good": (GOOD, "#6fd08c"),
    "bad": (BAD, "#ff8fa3"),
    "warn": (WARN, "#efbf62"),
    "rest": (REST, "#767c85"),
    "best": ("#e2efe4", "#1f3a28"),
    **{f"s{i}": pair for i, pair in enumerate(zip(LIGHT, DARK, strict=True))},
    **{f"h{i}": pair for i, pair in enumerate(zip(HEAT, ("#26302a", *HEAT[1:]), strict=True))},
}
"""Variable -> its colours on light and on dark screens."""


def declared(scheme: int) -> str:
    """Declarations of all variables; ``scheme``: 0 for light screens, 1 for dark ones."""
    colours = {name: pair[scheme] for name, pair in VARIABLES.items()}
    letters = {f"t{i}": letters_on(colours[f"s{i}"]) for i in range(len(LIGHT))}
    return " ".join(f"--{name}: {colour};" for name, colour in (colours | letters).items())


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` by WCAG 2."""
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by WCAG 2, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def letters_on(ground: str) -> str:
    """Black or white, whichever has more contrast; not quite black, which Matplotlib leaves out as the default."""
    return max(("#010101", "#ffffff"), key=lambda colour: contrast(colour, ground))


@dataclass(frozen=True)
class SeriesStyle:
    """The style of a system, tenant, job or GPU type, by its position among all that a page shows."""

    number: int

    @property
    def colour(self) -> str:
        """Colour of lines and bars."""
        return LIGHT[self.number % len(LIGHT)]

    @property
    def dash(self) -> tuple[float, ...]:
        """On and off in line widths; empty for a solid line."""
        return DASHES[self.number // len(LIGHT) % len(DASHES)]

    @property
    def hatch(self) -> str:
        """Hatch of its bars; empty for none."""
        return HATCHES[self.number // len(LIGHT) % len(HATCHES)]

    @property
    def letters(self) -> str:
        """Colour of letters on it; each colour has its own black or white, which pages replace by a variable."""
        return letters_on(self.colour)[:-1] + "89abcd"[self.number % len(LIGHT)]

    def key(self, label: str, *, line: bool = False) -> Key:
        """The entry of a legend: a bar, or a line."""
        variable, dash = f"s{self.number % len(LIGHT)}", self.dash if line else ()
        return Key(label, variable, dash, line=line, hatched=not line and bool(self.hatch))

    def line(self) -> dict[str, Any]:
        """Settings of a line."""
        return {"color": self.colour, "linestyle": (0, self.dash) if self.dash else "-", "linewidth": 1.7}

    def bar(self) -> dict[str, Any]:
        """Settings of a bar."""
        return {"facecolor": self.colour, "edgecolor": PAGE, "hatch": self.hatch or None}


def series_styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Name -> its style, by position."""
    return {name: SeriesStyle(number) for number, name in enumerate(names)}


@contextmanager
def canvas(names: Iterable[str]) -> Iterator[None]:
    """Matplotlib settings to draw and write a picture with these names."""
    settings: dict[str, Any] = {
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), QUIET),
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
        **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "none"),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        **dict.fromkeys(("font.size", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "hatch.color": PAGE,
        "hatch.linewidth": 1.2,
        "legend.frameon": False,
        "font.family": families(names),
        "text.parse_math": False,  # "$" in a name is literal
        "svg.fonttype": "none",  # names stay text
        "svg.hashsalt": "hetopt",  # equal pictures give equal text
    }
    with matplotlib.rc_context(settings), letters_may_lack():  # type: ignore[arg-type]
        yield
