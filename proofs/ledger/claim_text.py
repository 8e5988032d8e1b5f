"""Format the text of claims: ``$formulas$``, ``$$displayed formulas$$``, `` `names` `` and ``*emphasis*``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Literal

InlineKind = Literal["words", "formula", "display", "name", "emphasis"]

PARTS = re.compile(
    r"\$\$(?P<display>.+?)\$\$|\$(?P<formula>[^$]+)\$|`(?P<name>[^`]+)`|(?<!\S)\*(?P<emphasis>(?=\S)[^*]+)\*", re.DOTALL
)
KINDS: dict[str, InlineKind] = {"display": "display", "formula": "formula", "name": "name", "emphasis": "emphasis"}
STEP = re.compile(r"\n(?=\*)")
"""A line that begins with emphasis starts a step of a proof, which is a paragraph."""


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a proof."""
    return [part for part in re.split(r"\n\n", STEP.sub("\n\n", text.strip())) if part.strip()]


def inline_parts(text: str) -> Iterator[tuple[InlineKind, str]]:
    """The parts of a paragraph, each with its kind."""
    at = 0
    for found in PARTS.finditer(text):
        if found.start() > at:
            yield "words", text[at : found.start()]
        kind = found.lastgroup or ""
        yield KINDS[kind], found[kind]
        at = found.end()
    if at < len(text):
        yield "words", text[at:]


def as_html(text: str) -> str:
    """One paragraph as HTML, formulas as MathML."""
    return "".join(_html(kind, part) for kind, part in inline_parts(text))


def _html(kind: InlineKind, part: str) -> str:
    if kind in ("formula", "display"):
        return formula(part, block=kind == "display")
    if kind == "emphasis":
        return f"<em>{as_html(part)}</em>"
    return f"<code>{escape(part)}</code>" if kind == "name" else escape(part)


@cache
def formula(tex: str, *, block: bool = False) -> str:
    """A formula as MathML, or as LaTeX source if latex2mathml is not installed."""
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return f"<code>{escape(tex)}</code>"
    return str(convert(tex, display="block" if block else "inline"))


def as_markdown(text: str) -> str:
    """Paragraphs as Markdown for the docs; plain text is escaped."""
    return "\n\n".join("".join(_markdown(kind, part) for kind, part in inline_parts(one)) for one in paragraphs(text))


def _markdown(kind: InlineKind, part: str) -> str:
    if kind == "display":
        return f"\n\n$$\n{part.strip()}\n$$\n\n"
    if kind == "emphasis":
        return f"*{as_markdown(part)}*"
    if kind == "words":
        return re.sub(r"([*_<>\[\]|])", r"\\\1", part)
    return f"${part.strip()}$" if kind == "formula" else f"`{part}`"
