"""LaTeX to MathML when the pages are built, so that they show mathematics without fetching anything."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'
WORDS = ("log", "ln", "exp")
"""Functions, which would touch the names beside them."""
SPACES = {"max": "0.167em", "min": "0.167em", "|": "0", "/": "0.05em"}
"""Operators to which browsers give other spaces than print does, and the space on both sides of them."""


def mathml(tex: str, *, block: bool = False) -> str:
    """The formula ``tex`` as MathML.

    Raises
    ------
    ExtensionError
        It has something that is not translated, such as an unknown command.
    """
    try:
        tree = ElementTree.fromstring(convert(tex, display="block" if block else "inline").replace(NAMESPACE, ""))
    except Exception as problem:  # the package has dozens of own classes, and bare & make no XML
        raise ExtensionError(f"the formula {tex!r} cannot be translated: {problem!r}") from problem
    for row in list(tree.iter()):
        if row.text in (r"\{", r"\}"):
            row.text = row.text[1:]
        if "\\" in (row.text or ""):
            raise ExtensionError(f"the formula {tex!r} has {row.text}, which is not translated")
        if row.tag == "mfrac" and len(row) != 2:
            raise ExtensionError(f"the formula {tex!r} has a fraction of {len(row)} parts")
        if row.tag == "mo" and row.text in SPACES:
            row.set("lspace", SPACES[row.text])
            row.set("rspace", SPACES[row.text])
        _part_words(row)
    return ElementTree.tostring(tree, encoding="unicode")


def _part_words(row: ElementTree.Element) -> None:
    """A thin space around ``log`` where no bracket stands beside it."""
    parts = list(row)
    for i in range(len(parts) - 1, 0, -1):
        before, after = parts[i - 1].text, parts[i].text
        if (before in WORDS and after != "(") or (after in WORDS and before not in SPACES and before != "("):
            row.insert(i, ElementTree.Element("mspace", width="0.167em"))


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append(f"{mathml(node.astext())}</span>")
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A display formula, without an equation number."""
    self.body.append(self.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    self.body.append(f"{mathml(node.astext(), block=True)}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Announce the renderer ``mathml`` to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
