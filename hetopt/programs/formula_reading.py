r"""Programs in plain text, with formulas in Python syntax, in the order in which they are shown ::

    Hadar, P2: the best choice of schedules
    maximise
      gain [Hadar, eq. (2)] | utility of the jobs that are admitted | utility
        sum(y[j, s] * U[j, f[j, s]] for j in J for s in S[j])
    subject to
      once [Hadar, eq. (2b)] | a job has one schedule or none
        sum(y[j, s] for s in S[j]) <= 1 for j in J
    with
      y[j, s] [Hadar, eq. (2c)] | whether job j runs by schedule s
        y[j, s] in {0, 1} for j in J for s in S[j]
    symbols
      J | jobs with a schedule
      U[j, t] | utility of job j if it is done at the end of slot t | utility | \mathcal{U}_{#1}(#2)

The sections are ``maximise`` or ``minimise`` (``with priority 1`` where it is not 0), ``subject to``, ``with``
(variables), ``where`` (definitions) and ``symbols``. A head is ``name[index] as component [source] | meaning | unit |
latex``; all but the name is optional. ``as component`` gives the name in Pyomo, for a definition only if the model has
it. The formula follows, indented, on one or more lines; ``, else 0`` after the quantifier of a variable makes it
sparse. An indented line that begins with ``|``, or any below a symbol, continues the head.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hetopt.errors import InvalidFormulation
from hetopt.programs.statements import Definition, Statement, Symbol, Variable

HEAD = re.compile(r"(\w+)(?:\[([^\]]*)\])?(?: as (\w+))?(?: \[(.+)\])?")
SECTION = re.compile(r"(maximise|minimise)(?: with priority (-?\d+))?|(subject to|with|where|symbols)")


@dataclass(frozen=True)
class _Item:
    """A head with its formula."""

    name: str
    index: str
    component: str
    source: str
    meaning: str
    unit: str
    latex: str
    formula: str
    over: str
    sparse: bool
    priority: int

    @property
    def statement(self) -> Statement:
        """As a gain or a row."""
        return Statement(self.name, self.formula, self.over, self.source, self.meaning, self.unit, self.priority)

    @property
    def symbol(self) -> Symbol:
        """As a set or a number."""
        return Symbol(*self._symbol)

    @property
    def variable(self) -> Variable:
        """As a decision variable."""
        return Variable(*self._symbol, self.formula, self.over, self.source, self.component, sparse=self.sparse)

    @property
    def definition(self) -> Definition:
        """As a quantity that follows from variables or data."""
        return Definition(*self._symbol, self.formula, self.over, self.source, self.component)

    @property
    def _symbol(self) -> tuple[str, str, str, str, str]:
        return self.name, self.meaning, self.unit, self.index, self.latex


SECTIONS = {
    "maximise": ("gains", "statement"),
    "minimise": ("gains", "statement"),
    "subject to": ("rows", "statement"),
    "with": ("variables", "variable"),
    "where": ("definitions", "definition"),
    "symbols": ("symbols", "symbol"),
}
"""Section -> field of the mathematics, and conversion of its items."""


def statements_of(text: str) -> dict[str, Any]:
    """The arguments of :class:`~hetopt.programs.mathematics.Mathematics` in ``text``.

    Raises
    ------
    InvalidFormulation
        A line cannot be parsed.
    """
    found: dict[str, Any] = {field: () for field, _ in SECTIONS.values()}
    section, priority = "", 0
    for heading, line, formula in _items(text):
        match = SECTION.fullmatch(line) if heading else None
        if match:
            section, priority = match[1] or match[3], int(match[2] or 0)
            if match[1] and found.setdefault("sense", match[1]) != match[1]:
                raise InvalidFormulation("a program is maximised or minimised, not both")
        elif heading and not section and "title" not in found:
            found["title"] = line
        elif heading or not section:
            raise InvalidFormulation(f"the line {line!r} of a program is outside the sections {', '.join(SECTIONS)}")
        else:
            field, conversion = SECTIONS[section]
            item = _item(line, formula, priority)
            if item.sparse and section != "with":
                raise InvalidFormulation(f"{line!r} of a program is not a variable; remove ', else 0'")
            found[field] += (getattr(item, conversion),)
    if not section:
        raise InvalidFormulation(f"a program needs a section: {', '.join(SECTIONS)}")
    return found


def _items(text: str) -> Iterator[tuple[bool, str, str]]:
    """Each title or heading (True), and each head (False) with the indented formula below it."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    outer, inner, *_ = (*sorted({indent for indent, _ in lines}), 0, 0)
    heading, item, formula, section = True, "", list[str](), ""
    for indent, line in lines:
        if indent not in (outer, inner):
            if line.startswith("|") or section == "symbols":
                item += f" {line}"
            else:
                formula.append(line)
            continue
        if item:
            yield heading, item, " ".join(formula)
        heading, item, formula = indent == outer, line, []
        section = line if heading and SECTION.fullmatch(line) else section
    yield heading, item, " ".join(formula)


def _item(line: str, formula: str, priority: int) -> _Item:
    head, *rest = (part.strip() for part in line.split("|"))
    parts = HEAD.fullmatch(head)
    if len(rest) > 3 or parts is None:
        raise InvalidFormulation(f"the line {line!r} of a program cannot be read")
    meaning, unit, latex = (*rest, "", "", "")[:3]
    stated = formula.removesuffix(", else 0")
    name, index, component, source = parts.groups(default="")
    return _Item(name, index, component, source, meaning, unit, latex, *_split(stated), stated != formula, priority)


def _split(stated: str) -> tuple[str, str]:
    """A formula and its quantifier."""
    try:
        tree = ast.parse(f"[{stated}]", mode="eval").body
    except SyntaxError as problem:
        raise InvalidFormulation(f"the formula {stated!r} cannot be read: {problem.msg}") from None
    if not isinstance(tree, ast.ListComp):
        return stated, ""
    raw, end = stated.encode(), tree.generators[0].target.col_offset - len("[ for ")  # offsets count bytes
    return raw[:end].decode(), raw[end:].decode().strip()
