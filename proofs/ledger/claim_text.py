"""Format the text of claims, which contains ``$formulas$``, ``$$displays$$``, `` `names` `` and ``*emphasis*``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from markupsafe import Markup

PARTS = re.compile(
    r"\$\$(?P<display>.+?)\$\$|\$(?P<formula>[^$]+)\$|`(?P<name>[^`]+)`|(?<!\S)\*(?P<emphasis>(?=\S)[^*]+)\*", re.DOTALL
)
PARAGRAPH = re.compile(r"\n\n|\n(?=\*)")
"""The end of a paragraph; a line that begins with emphasis starts a new one."""


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a proof."""
    return [part for part in PARAGRAPH.split(text.strip()) if part.strip()]


def inline_parts(text: str) -> Iterator[tuple[str, str]]:
    """Split a paragraph into pairs of a kind (words, formula, display, name, emphasis) and the text."""
    at = 0
    for found in PARTS.finditer(text):
        if found.start() > at:
            yield "words", text[at : found.start()]
        kind = str(found.lastgroup)
        yield kind, found[kind]
        at = found.end()
    if at < len(text):
        yield "words", text[at:]


def as_plain(text: str) -> str:
    """The text for terminals and tips: formulas in LaTeX, without their dollar signs."""
    return "".join(part for _, part in inline_parts(text))


def as_html(text: str) -> Markup:
    """Format a paragraph as HTML, formulas as MathML."""
    from hetopt.presentation.pages import render

    values = {"parts": inline_parts(text), "formula": formula, "as_html": as_html}
    return Markup(render("words.html.j2", package="hetopt.proofs.ledger", **values))


@cache
def formula(tex: str, *, block: bool = False) -> str:
    """Format a formula as MathML, or as LaTeX source if latex2mathml is not installed."""
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return tex
    mathml = convert(tex, display="block" if block else "inline")
    for primed, beside in PRIMES.items():
        mathml = re.sub(primed, beside, mathml)
    return Markup(mathml)


LETTER, PRIME = "(<mi>[^<]*</mi>)", "(<mi>&#x02032;</mi>)"
PRIMES = {
    f"<msup>{LETTER}{PRIME}</msup>": r"<mrow>\1\2</mrow>",
    f"<msubsup>{LETTER}(<m[in]>[^<]*</m[in]>){PRIME}</msubsup>": r"<msub><mrow>\1\3</mrow>\2</msub>",
}
"""A prime as an exponent -> beside its letter: without a mathematical font, the exponent is hardly visible."""


def as_markdown(text: str) -> str:
    """Format paragraphs as Markdown for the docs; plain text is escaped."""
    return "\n\n".join("".join(_markdown(kind, part) for kind, part in inline_parts(one)) for one in paragraphs(text))


def _markdown(kind: str, part: str) -> str:
    if kind == "display":
        return f"\n\n$$\n{part.strip()}\n$$\n\n"
    if kind == "emphasis":
        return f"*{as_markdown(part)}*"
    if kind == "words":
        return re.sub(r"([*_<>\[\]|])", r"\\\1", part)
    return f"${' '.join(part.split())}$" if kind == "formula" else f"`{part}`"  # a line with "+ 1" would be a list
