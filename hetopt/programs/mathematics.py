"""Programs as mathematics, printed and typeset from the formulas of their parts.

Each part of a model states its variables, rows and gains once, next to the code that builds them: formulas in Python
syntax (:mod:`hetopt.programs.notation`), the equation of the paper, the meaning and the unit. Text, LaTeX, the pages of
the documentation and Pyomo's ``doc`` are generated from these statements. Tests evaluate the same formulas at random
points against the rows of the model, so the printed program equals the solved one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import pyomo.environ as pyo

from hetopt.errors import InvalidFormulation
from hetopt.programs.formula_reading import statements_of
from hetopt.programs.notation import HARD, as_words, latex, text
from hetopt.programs.statements import Definition, Stated, Statement, Symbol, Variable, explained

__all__ = ["Definition", "Mathematics", "Statement", "Symbol", "Variable", "described", "mathematics_of"]

Sense = Literal["maximise", "minimise"]


class _Line(NamedTuple):
    """A statement as shown: name, meaning and sign, and whether it is 0 at other indices."""

    statement: Statement
    name: str
    meaning: str = ""
    before: str = ""
    sparse: bool = False


@dataclass(frozen=True)
class Mathematics:
    """A program, or the part of it that one component states.

    Parameters
    ----------
    title:
        Title of the program.
    gains:
        Terms of the objective, in the order of the parts.
    rows:
        Constraints.
    variables, definitions:
        Decision variables, and quantities that follow from them or from the data.
    symbols:
        Sets, data, and symbols that other parts state. Only those that occur in a formula are shown.
    sense:
        ``"maximise"`` or ``"minimise"``.

    Raises
    ------
    InvalidFormulation
        A formula uses a name without a symbol, or with a wrong number of subscripts; one name has two meanings.
    """

    title: str = ""
    gains: tuple[Statement, ...] = ()
    rows: tuple[Statement, ...] = ()
    variables: tuple[Variable, ...] = ()
    definitions: tuple[Definition, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    sense: Sense = "maximise"

    def __post_init__(self) -> None:
        known: dict[str, Symbol] = {}
        for symbol in self.every_symbol:
            _join(known, symbol, self.title, self.title)
        for statement in self.statements:
            for name, places in text(statement.formula, statement.over).names:
                where = f"{self.title}: {statement.formula!r}"
                if name not in known:
                    raise InvalidFormulation(f"{where} uses {name!r}; give its symbol")
                if places != (symbol := known[name]).places:
                    raise InvalidFormulation(
                        f"{where} has {name!r} with {places} subscripts; its symbol has {symbol.places}: {symbol.head}"
                    )

    @classmethod
    def read(cls, text: str, *, definitions: Sequence[Definition] = (), symbols: Sequence[Symbol] = ()) -> Mathematics:
        """The program in ``text``, which has the form of :mod:`hetopt.programs.formula_reading`.

        Parameters
        ----------
        definitions, symbols:
            Additional ones, shared by several programs.

        Raises
        ------
        InvalidFormulation
            A line or a formula cannot be read, or the program is invalid, see :class:`Mathematics`.
        """
        found = statements_of(text)
        found["definitions"] += tuple(definitions)
        found["symbols"] += tuple(symbols)
        return cls(**found)

    @classmethod
    def joined(cls, title: str, parts: Mapping[str, Mathematics]) -> Mathematics:
        """The program of several parts.

        Parameters
        ----------
        parts:
            Name of the block -> its mathematics, in order; ``""`` for the model itself.

        Raises
        ------
        InvalidFormulation
            Two parts use one name with different meanings.
        """
        known: dict[str, Symbol] = {}
        block_of: dict[str, str] = {}
        for block, part in parts.items():
            for symbol in part.every_symbol:
                _join(known, symbol, block_of.setdefault(symbol.name, block), block)
        named = [(f"{block}." if block else "", part) for block, part in parts.items()]
        senses = {part.sense for part in parts.values() if part.gains}
        if len(senses) > 1:
            raise InvalidFormulation(f"{title}: some parts are maximised, others minimised")
        variables = tuple(_within(one, prefix) for prefix, part in named for one in part.variables)
        definitions = tuple(dict.fromkeys(_within(one, prefix) for prefix, part in named for one in part.definitions))
        own = {one.name for one in (*variables, *definitions)}
        return cls(
            title,
            tuple(replace(one, name=prefix + one.name) for prefix, part in named for one in part.gains),
            tuple(replace(one, name=prefix + one.name) for prefix, part in named for one in part.rows),
            variables,
            definitions,
            tuple(symbol for symbol in known.values() if symbol.name not in own),
            next(iter(senses), "maximise"),
        )

    @property
    def every_symbol(self) -> tuple[Symbol, ...]:
        """Variables, definitions and symbols."""
        return (*self.variables, *self.definitions, *self.symbols)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, in the order in which they are shown."""
        return tuple(line.statement for _, lines in self._sections() for line in lines)

    @property
    def legend(self) -> tuple[Symbol, ...]:
        """The symbols that occur in formulas, in order of occurrence."""
        known = {symbol.name: symbol for symbol in self.every_symbol}
        every = (text(statement.formula, statement.over).names for statement in self.statements)
        return tuple(known[name] for name in dict.fromkeys(name for names in every for name, _ in names))

    def _sections(self) -> Iterator[tuple[str, list[_Line]]]:
        """(heading, lines): gains by descending priority, rows, variables, definitions."""
        priorities = sorted({gain.priority for gain in self.gains}, reverse=True)
        for i, priority in enumerate(priorities):
            first = "first " if not i and len(priorities) > 1 else "then, while that is kept, " if i else ""
            gains = [gain for gain in self.gains if gain.priority == priority]
            signs = ["" if not j or one.formula.lstrip().startswith("-") else "+ " for j, one in enumerate(gains)]
            lines = [_Line(one, one.name, explained(one), sign) for one, sign in zip(gains, signs, strict=True)]
            yield first + self.sense, lines
        if self.rows:
            yield "subject to" if self.gains else "rows", [_Line(one, one.name, explained(one)) for one in self.rows]
        asides: dict[str, Sequence[Stated]] = {"with": self.variables, "where": self.definitions}
        for heading, some in asides.items():
            named = [(one, one.component if one.component != one.name else "") for one in some]
            if named:  # their meaning is in the legend
                yield heading, [_Line(one.statement, name, sparse=getattr(one, "sparse", False)) for one, name in named]

    def text(self, width: int = 100) -> str:
        """The program in Unicode: the objective, the rows with their names and equations, the symbols.

        Parameters
        ----------
        width:
            Characters per line.
        """
        made = [self.title] if self.title else []
        for heading, lines in self._sections():
            made.append(heading)
            for line in lines:
                name = _spaced(line.name, line.statement.cited)
                body = line.before + line.statement.text + line.sparse * ", else 0"
                if line.meaning:
                    made += _wrapped(f"{name}: {line.meaning}", width, "  ") + _wrapped(body, width, "      ")
                else:
                    made += _wrapped(": ".join(filter(None, (name, body))), width, "  ")
        legend = {text(one.head).formula: explained(one) for one in self.legend}
        made += ["symbols"] * bool(legend)
        first = max(map(len, legend), default=0) + 2
        for name, entry in legend.items():
            made += _wrapped(entry, width, f"  {name:{first}}", " " * (first + 2))
        return "\n".join(made).replace(HARD, " ")

    __str__ = text

    def latex(self) -> str:
        """The program as LaTeX for KaTeX, MathJax and latex2mathml: one array for the program, one for the legend."""
        rows = [
            [as_words(heading if not i else ""), rf"\displaystyle {formula}", *more, as_words(line.name)]
            for heading, lines in self._sections()
            for i, line in enumerate(lines)
            for formula, *more in [self._typeset(line)]
        ]
        legend = [[self._head(one), as_words(one.meaning), as_words(one.unit)] for one in self.legend]
        title = [as_words(self.title)] if self.title else []
        return _array("l", [[part] for part in (*title, _array("lllll", rows), _array("lll", legend))])

    def markdown(self) -> str:
        """The program in Markdown: every row with its name, meaning and equation, and a table of the symbols."""
        made = []
        for heading, lines in self._sections():
            made.append(f"**{heading}**")
            for line in lines:
                name, formula = line.name and f"`{line.name}`", self._typeset(line)
                if line.meaning:
                    made.append(f"{_spaced(name, line.statement.cited)}: {line.meaning}")
                    formula, name = formula[:2], ""
                made += [*filter(None, [name]), "$$\n" + r" \qquad ".join(filter(None, formula)) + "\n$$"]
        return "\n\n".join([*made, self.legend_table()])

    def legend_table(self) -> str:
        """The symbols as a table in Markdown."""
        table = ["| symbol | meaning | unit |", "|---|---|---|"]
        table += [f"| ${self._head(one)}$ | {one.meaning} | {one.unit} |" for one in self.legend]
        return "\n".join(table) + "\n"

    def _repr_latex_(self) -> str:
        """For notebooks."""
        return f"$$\n{self.latex()}\n$$"

    @cached_property
    def _own(self) -> dict[str, str]:
        return {symbol.name: symbol.latex for symbol in self.every_symbol if symbol.latex}

    def _typeset(self, line: _Line) -> list[str]:
        """Formula, quantifier and source."""
        formula, places, _ = latex(line.statement.formula, line.statement.over, self._own)
        zero = r",\ \text{else } 0" if line.sparse else ""
        return [line.before + formula, places + zero, as_words(line.statement.cited)]

    def _head(self, symbol: Symbol) -> str:
        return latex(symbol.head, own=self._own).formula


def _within(one: Any, prefix: str) -> Any:
    return replace(one, component=prefix + one.component if one.component else "")


def _join(known: dict[str, Symbol], symbol: Symbol, first: str, block: str) -> None:
    """Add ``symbol`` of ``block`` to ``known``, where a symbol of that name is from the block ``first``.

    Equal symbols may recur, but a Pyomo component has only one statement.
    """
    have = known.get(symbol.name)
    if have is None:
        known[symbol.name] = symbol
    if have is None or (have == symbol and not getattr(symbol, "component", "")):
        return
    twice = isinstance(have, Stated) and isinstance(symbol, Stated)
    if twice or replace(have.symbol, index="") != replace(symbol.symbol, index="") or have.places != symbol.places:
        raise InvalidFormulation(
            f"{symbol.name!r} is {symbol.meaning!r} ({symbol.head}) in {block!r}, and {have.meaning!r} ({have.head}) "
            f"in {first!r}; one of them needs another name"
        )
    if isinstance(symbol, Stated):
        known[symbol.name] = symbol


def _wrapped(body: str, width: int, first: str, later: str = "") -> list[str]:
    """``body`` wrapped to ``width``; lines break at hard spaces only if there is no other place."""
    rest: dict[str, Any] = {"subsequent_indent": later or f"{first}    ", "break_long_words": False}
    lines = wrap(body, width, initial_indent=first, **rest)
    return [
        one
        for line in lines
        for one in ([line] if len(line) <= width else wrap(line.replace(HARD, " "), width, **rest))
    ]


def _spaced(*words: str) -> str:
    return " ".join(filter(None, words))


def _array(columns: str, rows: Sequence[Sequence[str]]) -> str:
    body = " \\\\\n".join(" & ".join(row) for row in rows)
    return f"\\begin{{array}}{{{columns}}}\n{body}\n\\end{{array}}"


def mathematics_of(made: object, *about: str) -> Mathematics | None:
    """``made`` if it is a Mathematics, else its ``mathematics`` attribute or method result; None without one.

    Parameters
    ----------
    about:
        Arguments of the method ``mathematics``: ``"tenants"`` or ``"jobs"`` for a formulation or a component.
    """
    if isinstance(made, Mathematics | None):
        return made
    found = None if isinstance(made, type) else getattr(made, "mathematics", None)
    if callable(found):
        component = hasattr(made, "add") and hasattr(made, "name")  # takes a kind
        found = found(*(about or ((getattr(made, "kind", None) or "tenants",) if component else ())))
    return found if isinstance(found, Mathematics) else None


def described(model: Any, mathematics: Mathematics) -> None:
    """Write the ``doc`` of every variable, expression, objective and constraint of a Pyomo model or block.

    The model gets ``mathematics`` as an attribute, too.

    Raises
    ------
    InvalidFormulation
        A statement names no component, or a component has neither a statement nor a ``doc``.
    """
    object.__setattr__(model, "mathematics", mathematics)
    for name in documented(model, mathematics):
        raise InvalidFormulation(f"{mathematics.title}: the model has no component {name!r} as stated")
    kinds = (pyo.Var, pyo.Expression, pyo.Objective, pyo.Constraint)
    for component in model.component_objects(kinds, descend_into=True):
        if not component.doc:
            name = component.getname(fully_qualified=True, relative_to=model)
            raise InvalidFormulation(f"{mathematics.title}: {name!r} has neither a statement nor a doc; add one")


def documented(model: Any, mathematics: Mathematics) -> list[str]:
    """Write the ``doc`` of all stated parts of a Pyomo model or block; return the names of missing parts."""
    missing = []
    for statement in mathematics.statements:
        component = model.find_component(statement.name) if statement.name else None
        if component is not None:
            component.doc = statement.doc
        elif statement.name:
            missing.append(statement.name)
    return missing
