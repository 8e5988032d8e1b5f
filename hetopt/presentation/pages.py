"""HTML pages from templates: one base, one style, one set of filters; a page is one file that loads nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hetopt.checks import counted
from hetopt.presentation import formatting, style


@cache
def environment(package: str = "hetopt.presentation") -> Environment:
    """The templates of a package (in its folder ``templates``), which may extend and import those of this package."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(folder) for folder in (package, "hetopt.presentation")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": formatting.format_number,
        "duration": formatting.format_duration,
        "counted": lambda items, word: counted(items if isinstance(items, int) else len(items), word),
    }
    made.globals |= {"style": stylesheet, "script": script}
    return made


def render(template: str, /, *, package: str = "hetopt.presentation", **values: Any) -> str:
    """The text of a page.

    Parameters
    ----------
    template:
        Name of a file in the folder ``templates`` of ``package``.
    values:
        What the template shows; text is escaped unless it is :class:`markupsafe.Markup`.
    """
    return environment(package).get_template(template).render(values)


def fragment(macro: str, value: object) -> str:
    """A table or picture for a page that has the style below an element of class ``hetopt``."""
    parts: Any = environment().get_template("macros.html.j2").module
    return f'<div class="hetopt">{getattr(parts, macro)(value)}</div>'


@cache
def stylesheet() -> Markup:
    """The style of all pages."""
    return Markup(render("style.css.j2", light=style.declared(0), dark=style.declared(1)))


@cache
def script(name: str) -> Markup:
    """A script from the folder of templates."""
    return Markup(render(name))


def source_hash(text: str) -> str:
    """The source of a Content-Security-Policy that allows this style or script."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
