"""HTML and SVG from Python: whatever is not markup already is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MOST_TEXT = 240
"""Letters of a text in a cell; a longer one is cut, and whole (up to ten times as long) in its title."""


MOST_ROWS = 15
"""A longer table scrolls within the page."""


class Html(str):
    """Markup. All other text is taken for text."""

    __slots__ = ()


EMPTY = Html("")


def markup(part: object) -> Html:
    """``part`` itself if it is markup, else its text, escaped."""
    return part if isinstance(part, Html) else Html(escape(str(part), quote=True))


def joined(*parts: object) -> Html:
    """All in a row."""
    return Html("".join(map(markup, parts)))


def tag(name: str, /, *inner: object, **attributes: object) -> Html:
    """An element; ``class_`` is the attribute ``class``, underscores within names are hyphens.

    An attribute that is None or False is left out, one that is True has no value.

    Examples
    --------
    >>> tag("td", "a < b", class_="n")
    '<td class="n">a &lt; b</td>'
    """
    return Html(f"<{name}{_attributes(attributes)}>{joined(*inner)}</{name}>")


def lone(name: str, /, **attributes: object) -> Html:
    """An element of SVG without content."""
    return Html(f"<{name}{_attributes(attributes)}/>")


def _attributes(given: Mapping[str, object]) -> str:
    said = ""
    for key, value in given.items():
        word = key.rstrip("_").replace("_", "-")
        if value is True:
            said += f" {word}"
        elif value is not None and value is not False:
            said += f' {word}="{_value(value)}"'
    return said


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value), quote=True)


def cut(text: str, most: int = MOST_TEXT) -> Html:
    """The text, or its beginning with all of it in a title."""
    if len(text) <= most:
        return markup(text)
    return tag("span", text[: most - 1] + "…", title=text[: 10 * MOST_TEXT])


def table(name: str, about: object, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: str = "") -> Html:
    """A table that scrolls by itself where the page is too narrow; the first cell of a row is its heading.

    Parameters
    ----------
    name:
        Of the element that scrolls; it keeps its place when the page is renewed.
    about:
        A line above it.
    columns:
        Their headings.
    rows:
        Cells: markup, or text to be escaped.
    numbers:
        Headings of the columns that stand right, separated by ``|``.
    """
    right = set(numbers.split("|"))
    kinds = ["n" if column in right else None for column in columns]
    pairs = zip(columns, kinds, strict=True)
    head = tag("tr", *(tag("th", column, scope="col", class_=kind) for column, kind in pairs))
    body = [
        tag(
            "tr",
            tag("th", cells[0], scope="row"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(cells[1:], kinds[1:], strict=True)),
        )
        for cells in rows
    ]
    told = f"about-{name}"
    inner = tag("table", tag("thead", head), tag("tbody", *body), aria_label=name, aria_describedby=told)
    box = scrolling(name, inner, label=f"table of {name}", tall=len(body) > MOST_ROWS)
    return joined(tag("p", about, id=told, class_="quiet"), box)


def scrolling(name: str, inner: object, *, label: str, tall: bool = False) -> Html:
    """A part of the page that scrolls by itself, also with the keyboard."""
    kind = "scroll tall" if tall else "scroll"
    return tag("div", inner, id=f"scroll-{name}", class_=kind, tabindex=0, role="region", aria_label=label)
