"""Sphinx settings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import hetopt
from hetopt.presentation import pages
from hetopt.presentation.style import declared

sys.path.insert(0, str(Path(__file__).parent))  # mathml.py, claims.py, mathematics.py, trade_off.py

project = "hetopt"
author = "the hetopt team"
release = version = hetopt.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
    "claims",
    "mathematics",
    "trade_off",
    "sphinx_design",
]
html_math_renderer = "mathml"
highlight_language = "text"  # of literal blocks: formulas in docstrings
html_static_path = [
    "static",
    str(Path(pages.__file__).with_name("templates") / "tables.js"),
    *map(str, sorted((Path(__file__).parents[1] / "proofs" / "coq").glob("*.v"))),
]
html_css_files = ["mathematics.css", "hetopt.css"]
html_js_files = [("tables.js", {"defer": "defer"})]
html_context = {"pages": {"light": declared(0), "dark": declared(1), "style": pages.stylesheet()}}
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"hetopt {release}"
html_show_copyright = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {
    "ArrayLike": "ArrayLike",
    "Floats": "Floats",
    "Result": "Allocation | Plan | DataFrame | ArrayLike",
}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
nitpicky = False

SHORTER = {  # what Python calls annotations and defaults -> what a reader does
    r"TypeAliasForwardRef\('([^']*)'\)": r"\1",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[(.*?)\]\]": r"NDArray[\1]",
    r"<factory>|<function <lambda>>": "...",
}


def shorten(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, *signature: str | None) -> Any:
    """Arguments and result of a signature, made shorter by :data:`SHORTER`."""
    for long, short in SHORTER.items():
        signature = tuple(text and re.sub(long, short, text) for text in signature)
    return signature


COLON = "\0"
VALUES = ("attribute", "data", "property")


def hide_colon(_app: Sphinx, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Before napoleon, which takes what stands before a colon in the first line about a value for its type."""
    if what in VALUES and lines:
        lines[0] = lines[0].replace(":", COLON)


def show_colon(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """After napoleon."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


SEVERAL = re.compile(r":ivar (\w+(?:, \w+)+): ")


def one_by_one(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """After napoleon, which leaves "low, high:" of attributes together, so that "low," would be read as a type."""
    made: list[str] = []
    while lines:
        block = [lines.pop(0)]
        if several := SEVERAL.match(block[0]):
            while lines and (lines[0].startswith(" ") or not lines[0]):
                block.append(lines.pop(0))
            rest = block[0][several.end() :]
            for name in several[1].split(", "):
                made += [f":ivar {name}: {rest}", *block[1:]]
        else:
            made += block
    lines[:] = made


TREES: dict[int, str] = {}  # depth of a page of source code -> navigation


def share_navigation(_app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Before furo: pages of source code in the same depth have equal navigation, and each takes Sphinx long."""
    if page.startswith("_modules/"):
        tree, depth = context["toctree"], page.count("/")
        context["toctree"] = lambda **options: (
            TREES[depth] if depth in TREES else TREES.setdefault(depth, tree(**options))
        )


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", hide_colon, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", show_colon, priority=600)
    app.connect("autodoc-process-docstring", one_by_one, priority=600)
    app.connect("html-page-context", share_navigation, priority=400)  # furo has 500
