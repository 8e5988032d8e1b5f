"""The style of the page: colours for light and dark screens, a style per system, pictures that follow both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from hetopt.presentation.fonts import font_settings

LIGHT = ("#332288", "#ee6677", "#117733", "#6699cc", "#aa3377", "#999933")
DARK = ("#9a8cff", "#e8604c", "#66cc88", "#bfe6ff", "#dd66aa", "#ddcc55")
"""Six colours each, distinct for every kind of colour vision and against the page (a test measures both)."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 1.6), (1.3, 1.3), (6.0, 1.6, 1.3, 1.6))
"""Dashes for repeated colours: on and off in line widths."""

HATCHES = ("", "////", "....", "xxxx")
"""Hatches of bars for repeated colours."""

PAGES = {"light": "#ffffff", "dark": "#14171c"}
INK, QUIET, GRID, PAGE = "#1a1a1b", "#5a5a5b", "#dcdcdd", "#fefefe"
"""Colours of pictures that the page replaces by its variables."""

VARIABLES = {INK: "ink", QUIET: "quiet", GRID: "grid", PAGE: "page"} | {c: f"s{i}" for i, c in enumerate(LIGHT)}

_SCHEMES = {
    "light": (INK, QUIET, GRID, PAGES["light"], *LIGHT, "#e2efe4"),
    "dark": ("#e8e8e8", "#a9adb3", "#33383f", PAGES["dark"], *DARK, "#1f3a28"),
}
"""Scheme -> the colours of :data:`VARIABLES`, and of the best numbers."""


def _declared(scheme: str) -> str:
    pairs = zip((*VARIABLES.values(), "best"), _SCHEMES[scheme], strict=True)
    return "".join(f"--{name}: {colour}; " for name, colour in pairs)


STYLE = f"""
:root {{ color-scheme: light dark; {_declared("light")}}}
@media (prefers-color-scheme: dark) {{ :root {{ {_declared("dark")}}} }}
@media print {{ :root {{ color-scheme: light; font-size: 10.5px; {_declared("light")}}}
  @page {{ size: landscape; margin: 12mm; }} body {{ font-size: 1rem; max-width: none; margin: 0; }}
  nav {{ display: none; }} .scroll {{ overflow: visible; }} th, td {{ padding: .2rem .4rem; }}
  figure, tr {{ break-inside: avoid; }} h2, h3, h4 {{ break-after: avoid; }} }}
body {{ color: var(--ink); background: var(--page); }}
a {{ color: inherit; }} nav a {{ margin-right: 1rem; }}
.scroll {{ overflow-x: auto; }} table {{ font-variant-numeric: tabular-nums; font-size: .92rem; }}
caption {{ text-align: left; color: var(--quiet); padding-bottom: .3rem; }}
th, td {{ vertical-align: top; padding: .25rem .6rem; }} th {{ border-color: var(--quiet); font-weight: 600; }}
td, tbody th {{ border-bottom: 1px solid var(--grid); }} tbody th {{ text-align: left; white-space: nowrap; }}
td small {{ display: block; color: var(--quiet); white-space: nowrap; }}
th small {{ display: block; color: var(--quiet); font-weight: 400; }}
td.best {{ background: var(--best); font-weight: 700; }} td.best small {{ font-weight: 400; }}
table.words :is(td, th) {{ text-align: left; }} table.words .n {{ text-align: right; white-space: nowrap; }}
.source {{ white-space: pre-line; }} td.quiet {{ font-size: .85rem; }}
.quiet, figcaption {{ color: var(--quiet); }} figcaption {{ font-size: .92rem; max-width: 62rem; }}
figure {{ margin: 1.2rem 0; }} figure > svg {{ display: block; width: 100%; height: auto; }}
.legend {{ display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .4rem 0; padding: 0; list-style: none; }}
.legend li {{ white-space: nowrap; }} .swatch {{ vertical-align: middle; margin-right: .4rem; }}
.warn {{ border-left: 4px solid var(--s1); padding-left: .8rem; }} dl.meaning dt {{ font-weight: 600; }}
dl.meaning {{ columns: 2 26rem; font-size: .88rem; }} dl.meaning div {{ break-inside: avoid; }}
"""


@dataclass(frozen=True)
class SystemStyle:
    """The style of a system in every picture.

    Attributes
    ----------
    number:
        Its position among all systems of the page.
    """

    number: int

    @property
    def colour(self) -> str:
        """Colour of lines and bars."""
        return LIGHT[self.number % len(LIGHT)]

    @property
    def turn(self) -> int:
        """Number of full colour cycles before it."""
        return self.number // len(LIGHT)

    def line(self) -> dict[str, Any]:
        """Settings of a line."""
        dash = DASHES[self.turn % len(DASHES)]
        return {"color": self.colour, "linestyle": (0, dash) if dash else "-", "linewidth": 1.7}

    def bar(self) -> dict[str, Any]:
        """Settings of a bar."""
        return {"facecolor": self.colour, "edgecolor": PAGE, "hatch": HATCHES[self.turn % len(HATCHES)] or None}

    def swatch(self) -> str:
        """A sample of its line, for a legend."""
        dash = " ".join(f"{1.7 * width:.3g}" for width in DASHES[self.turn % len(DASHES)])
        style = f"stroke: var(--{VARIABLES[self.colour]}); stroke-width: 3; stroke-dasharray: {dash or 'none'}"
        line = f"<line x1='0' y1='5' x2='34' y2='5' style='{style}'/>"
        return f"<svg class='swatch' width='34' height='10' aria-hidden='true'>{line}</svg>"


def system_styles(systems: Sequence[str]) -> dict[str, SystemStyle]:
    """System -> its style, by position."""
    return {name: SystemStyle(number) for number, name in enumerate(systems)}


def legend(items: Iterable[tuple[str, str]]) -> str:
    """Samples (HTML) with their labels (text)."""
    return "<ul class='legend'>" + "".join(f"<li>{sample}{escape(name)}</li>" for sample, name in items) + "</ul>"


@contextmanager
def canvas(names: Iterable[str]) -> Iterator[None]:
    """Matplotlib settings for drawing and writing a picture with these names."""
    quiet = ("axes.edgecolor", "xtick.color", "ytick.color")
    ink = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    settings: dict[str, Any] = dict.fromkeys(quiet, QUIET) | dict.fromkeys(ink, INK) | {"grid.color": GRID}
    settings |= {"axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none", "font.size": 9}
    settings |= {"figure.facecolor": "none", "savefig.facecolor": "none"}
    settings |= {"hatch.linewidth": 1.2, "hatch.color": PAGE, "axes.titlesize": 9.5, "axes.titlelocation": "left"}
    with font_settings(names), matplotlib.rc_context(settings):  # type: ignore[arg-type]
        yield


def picture(figure: Figure, name: str, text: str, caption: str, above: str = "") -> str:
    """A figure of the page as SVG in the colours of the page.

    Parameters
    ----------
    name:
        Unique name of the picture.
    text:
        Text alternative for screen readers.
    caption:
        HTML below it.
    above:
        HTML above it, e.g. a legend.
    """
    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    drawn = _adapted(svg[svg.index("<svg") :])
    opening = f"<svg role='img' aria-label='{escape(text, quote=True)}' "
    return f"<figure>{above}{drawn.replace('<svg ', opening, 1)}<figcaption>{caption}</figcaption></figure>"


def _adapted(text: str) -> str:
    """Remove metadata, names of groups and invisible digits; use the colours of the page."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"(<[^>]+>)\s*", lambda found: _adapted_tag(found[1]), text)


def _adapted_tag(tag: str) -> str:
    tag = " ".join(tag.split())
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    if tag.startswith("<svg "):
        tag = re.sub(r' (?:width|height)="[^"]*"', "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag)
    variables = {colour: f"var(--{name})" for colour, name in VARIABLES.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: variables.get(found[0], found[0]), tag)
