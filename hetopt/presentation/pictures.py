"""Pictures on pages: a figure of Matplotlib as SVG in the colours of the page, with a legend and a caption."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from hetopt.presentation.fonts import letters_may_lack
from hetopt.presentation.style import LIGHT, PAGE, VARIABLES, SeriesStyle, canvas
from hetopt.presentation.tables import Key

PANEL, WIDE = 5.0, 10.0
"""Width in inches of a picture beside others, and of one that has its own row and scrolls on narrow screens."""

Box = tuple[float, float, float, float]
"""Left, right, lower and upper edge."""

INHERITED = ("font-family", "stroke-miterlimit", "stroke-linejoin", "stroke-linecap")
"""Properties that the style of the page sets for all pictures."""

_COLOURS = {light: f"var(--{name})" for name, (light, _) in VARIABLES.items()}
_COLOURS |= {SeriesStyle(i).letters: f"var(--t{i})" for i in range(len(LIGHT))}


@dataclass(frozen=True)
class Picture:
    """A picture on a page: a drawing, the text below it, its legend, whether it has a row, and a drawing for phones."""

    svg: Markup
    caption: str = ""
    keys: tuple[Key, ...] = ()
    wide: bool = False
    narrow: Markup | None = None


class Drawing(Figure):
    """A figure that notebooks show without :mod:`matplotlib.pyplot`."""

    def savefig(self, *given: Any, **settings: Any) -> None:
        """Write it; names may have letters that no font has."""
        with letters_may_lack():
            super().savefig(*given, **settings)

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=self.dpi)
        return buffer.getvalue()


def panel(height: float, width: float = PANEL) -> tuple[Figure, Axes]:
    """A figure with one pair of axes; height and width in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


@contextmanager
def chart(title: str, names: Iterable[str]) -> Iterator[tuple[Figure, Axes]]:
    """A figure of its own with a title, laid out at the end in fonts with the letters of these names."""
    with canvas((title, *names)):
        figure, axes = panel(4.2, 7.0)
        figure.set_facecolor(PAGE)
        axes.set_title(title)
        yield figure, axes
        figure.draw_without_rendering()


def picture(
    figure: Figure,
    text: str,
    caption: str = "",
    keys: Sequence[Key] = (),
    tips: Sequence[str] = (),
    narrow: Figure | None = None,
) -> Picture:
    """A figure of a page.

    Parameters
    ----------
    text:
        Text alternative for screen readers.
    tips:
        Texts shown at artists: the artist with the group id ``tip3`` gets the text of position 3.
    narrow:
        The figure for phones; None: the same, which scrolls.
    """
    wide = float(figure.get_figwidth()) > PANEL
    other = None if narrow is None else inline_svg(narrow, text)
    return Picture(inline_svg(figure, text, tips), caption, tuple(keys), wide, other)


def inline_svg(figure: Figure, text: str, tips: Sequence[str] = ()) -> Markup:
    """A figure as an SVG element with the colours of the page and no style sheet; equal figures give equal text."""
    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": text, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, facecolor="none")
    svg = buffer.getvalue()
    svg = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL
    )
    svg = re.sub(r"(<[^>]+>)\s*", lambda found: _compact(found[1]), svg)
    svg = re.sub(r'<path d="[^"]*" fill="none"/>|<defs></defs>|<g [^>]*/>', "", svg)
    svg = re.sub(r'<g id="tip(\d+)">', lambda found: f"<g title={found[1]}>", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    plain = 1
    while plain:
        svg, plain = re.subn(r"<g>([^<]*(?:<(?!/?g\b)[^<]*)*)</g>", r"\1", svg)
    svg = re.sub(r"<g title=(\d+)>", lambda found: f"<g><title>{escape(tips[int(found[1])])}</title>", svg)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(text, quote=True)}" ', 1))


def _compact(tag: str) -> str:
    """A tag with attributes in place of styles, one decimal, and variables in place of colours."""
    tag = " ".join(tag.split())
    if tag.startswith("<svg "):
        return re.sub(r' (?:width|height|version|xmlns:xlink|xmlns)="[^"]*"', "", tag)
    tag = re.sub(r' style="([^"]*)"', lambda found: _attributes(found[1]), tag.replace("xlink:href", "href"))
    tag = re.sub(r"(?<![#\w])-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda found: _COLOURS.get(found[0], found[0]), tag)
    if tag.startswith("<text "):
        tag = re.sub(r' transform="rotate\(-?0 [^"]*"| font-size="9"| fill="var\(--ink\)"', "", tag)
    if tag.startswith("<path "):
        tag = re.sub(r" ?\b([MLQCz]) ?", r"\1", tag)
        tag = re.sub(r"M(\S+) (\S+)L([^\sL]+) \2L\3 ([^\sL]+)L\1 \4z", r"M\1 \2H\3V\4H\1z", tag)  # boxes
    return tag


def _attributes(declarations: str) -> str:
    """Declarations of a style as attributes."""
    pairs = (one.partition(":") for one in declarations.split(";") if one.strip())
    kept = ((key.strip(), value.strip().removesuffix("px")) for key, _, value in pairs)
    return "".join(f' {key}="{value}"' for key, value in kept if key not in INHERITED)


def draw_boxes(axes: Axes, boxes: Iterable[Box], **settings: Any) -> PathPatch:
    """Draw boxes (left, right, lower, upper) as one shape, which keeps pictures small."""
    corners = [((a, low), (b, low), (b, high), (a, high), (a, low)) for a, b, low, high in boxes]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(corners)
    patch = PathPatch(Path([point for box in corners for point in box], codes), **settings)
    axes.add_patch(patch)
    patch.set_clip_on(False)
    return patch
