"""Formulas of the documentation become MathML, which browsers show without help, or stop the build of the pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sphinx.errors import ExtensionError

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from mathml import mathml  # noqa: E402

CODE = re.compile(r"```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
FORMULAS = sorted(
    {
        a or b
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
        for a, b in FORMULA.findall(CODE.sub("", page.read_text()))
    }
)


def words(tex: str) -> str:
    """What the formula shows, without its form."""
    return "".join(ElementTree.fromstring(mathml(tex)).itertext())


def test_every_formula_of_the_pages_is_translated() -> None:
    assert len(FORMULAS) > 80
    for tex in FORMULAS:
        left = set("\\$&^") if r"\_" in tex else set("\\$&^_")
        assert not set(words(tex)) & left, tex


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"\Bigl\{0, \dots\Bigr\}", "{0,…}"),
        (r"x_{ek} \in \{0, 1\}", "xek∈{0,1}"),
        (r"\sum_l w_l \cdot x_l \ge \tfrac12", "∑lwl·xl≥12"),
        (r"\begin{cases} a & x \le 1 \\ b & \text{else} \end{cases}", "{ax≤1belse"),
    ],
)
def test_what_a_formula_shows(tex: str, shown: str) -> None:
    assert words(tex) == shown


def test_the_shape_of_a_fraction_and_its_indices() -> None:
    tree = ElementTree.fromstring(mathml(r"\frac{a}{b_i}", block=True))
    assert tree.get("display") == "block"
    assert [part.tag for part in tree.iter()] == ["math", "mrow", "mfrac", "mrow", "mi", "mrow", "msub", "mi", "mi"]


def test_functions_do_not_touch_the_names_beside_them() -> None:
    """Spaces around log, none between it and a bracket."""
    row = ElementTree.fromstring(mathml(r"a \log b"))[0]
    assert [part.tag for part in row] == ["mi", "mspace", "mi", "mspace", "mi"]
    assert [part.text for part in ElementTree.fromstring(mathml(r"\log(b)"))[0]] == ["log", "(", "b", ")"]


@pytest.mark.parametrize("tex", [r"\nosuch x", r"\begin{aligned} a &= b \end{aligned}", r"x_", r"\frac{a", "a & b"])
def test_what_cannot_be_translated_stops_the_build(tex: str) -> None:
    with pytest.raises(ExtensionError, match="the formula"):
        mathml(tex)
