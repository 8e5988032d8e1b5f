"""Writes programs into pages from what their components state, so that the mathematics shown is what is solved.

    ```{mathematics} hetopt.models.hadar.time_indexed:P1
    ```

inserts the program that has this name in this module, or whose ``mathematics`` this has; ``module:name()`` calls what
makes it. The option ``:kind: jobs`` chooses the entities of a formulation.

    ```{components} jobs
    hetopt.models.objectives:TotalRate()
    hetopt.models.objectives:SwitchingCost(0.5)
    ```

inserts a table of what these components state, and their symbols.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hetopt.programs.mathematics import Definition, Mathematics, mathematics_of
from hetopt.programs.notation import latex


def program(name: str, *about: str) -> Mathematics:
    """The program that ``module:name`` is or has, or ``module:name()`` makes.

    Parameters
    ----------
    about:
        ``"tenants"`` or ``"jobs"``, of what may be about both.

    Raises
    ------
    ValueError
        Not of this form, nothing of that name, or nothing that has a program.
    """
    parts = re.fullmatch(r"([\w.]+):(\w+)(\(\))?", name.strip())
    if parts is None:
        raise ValueError(f"the program {name!r} must have the form module:name or module:name()")
    try:
        made = getattr(import_module(parts[1]), parts[2])
    except (ImportError, AttributeError) as problem:
        raise ValueError(f"there is no program {name!r}: {problem}") from None
    found = mathematics_of(made() if parts[3] else made, *about)
    if found is None:
        raise ValueError(f"{name!r} is no program and has no mathematics")
    return found


class Directive(SphinxDirective):
    """``{mathematics} module:name``; ``{program}`` is Sphinx's own, for options of commands."""

    required_arguments = 1
    option_spec: ClassVar = {"kind": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """The program's rows, and its symbols."""
        try:
            return self.parse_text_to_nodes(program(self.arguments[0], *self.options.values()).markdown())
        except ValueError as problem:
            raise self.error(str(problem)) from problem


def component_table(kind: str, names: Sequence[str]) -> str:
    """What components state as a table, and a table of their symbols.

    Raises
    ------
    ValueError
        A name has not the form ``module:Name(arguments)``; two components mean different things by one symbol.
    """
    parts = {}
    for name in names:
        match = re.fullmatch(r"([\w.]+):(\w+)\((.*)\)", name.strip())
        if match is None:
            raise ValueError(f"the component {name!r} must have the form module:Name(arguments)")
        given = ast.literal_eval(f"({match[3]},)") if match[3] else ()
        found = mathematics_of(getattr(import_module(match[1]), match[2])(*given), kind)
        if found is None:
            raise ValueError(f"{name!r} has no mathematics")
        parts[match[2]] = found
    whole = Mathematics.joined("", parts)
    own = {one.name: one.latex for one in whole.every_symbol if one.latex}
    lines = ["```{list-table}", ":header-rows: 1", ":widths: 15 60 25", "", "* - component", "  - states", "  - source"]
    seen: set[object] = set()
    for name, part in parts.items():
        new = [one for one in part.definitions if one not in seen]
        seen.update(new)
        lines += [f"* - `{name}`", f"  - {_cell(part, new, own)}", f"  - {_sources(part)}"]
    return "\n".join([*lines, "```", "", whole.legend_table()])


def _cell(part: Mathematics, definitions: Sequence[Definition], own: Mapping[str, str]) -> str:
    """The formulas of a component, each in a paragraph."""
    cells = []
    for what, some in (("gain", part.gains), ("row", part.rows), ("with", part.variables), ("where", definitions)):
        for one in some:
            level = f" of priority {one.priority}" if getattr(one, "priority", 0) else ""
            formula = r" \quad ".join(filter(None, latex(one.formula, one.over, own)[:2]))
            cells.append(f"{what}{level} ${formula}$")
    return "\n\n    ".join(cells)


def _sources(part: Mathematics) -> str:
    """The papers' equations and what they mean."""
    stated = (*part.gains, *part.rows)
    return "\n\n    ".join(": ".join(filter(None, (one.source, one.meaning))) for one in stated)


class Components(SphinxDirective):
    """``{components} tenants`` or ``jobs``, with a component in each line."""

    required_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        """The table."""
        try:
            return self.parse_text_to_nodes(component_table(self.arguments[0], list(self.content)))
        except (AttributeError, ValueError) as problem:
            raise self.error(str(problem)) from problem


def setup(app: Sphinx) -> dict[str, Any]:
    """Announce the directive to Sphinx."""
    app.add_directive("mathematics", Directive)
    app.add_directive("components", Components)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
