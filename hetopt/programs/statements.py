"""Statements of model components: formula, quantifier, equation of the paper, meaning and unit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hetopt.programs.notation import HARD, text


@dataclass(frozen=True)
class Symbol:
    r"""A name in formulas: a set, a number of the instance, a variable.

    Parameters
    ----------
    name:
        Name in formulas: ``"v"``, ``"rho"``, ``"theta"``. A trailing underscore, as in ``"lambda_"``, is not shown.
    meaning:
        ``"work per second of the whole gang on type k"``.
    unit:
        ``"work/s"``; empty: no unit.
    index:
        ``"e, k"``, or ``"(j, t)"`` for a function; empty for sets and scalars.
    latex:
        Derived from the name by default: Greek names become ``\rho``, words ``\text{work}``. ``#1``, ``#2`` … stand for
        the subscripts, as in ``k_{#1}^{#2}(#3)``.
    """

    name: str
    meaning: str
    unit: str = ""
    index: str = ""
    latex: str = ""

    @property
    def head(self) -> str:
        """The name with its index, as a formula."""
        return self.name + (self.index if not self.index or self.index.startswith("(") else f"[{self.index}]")

    @property
    def places(self) -> int:
        """Number of subscripts."""
        return len([part for part in self.index.strip("()").split(",") if part.strip()])

    @property
    def symbol(self) -> Symbol:
        """The plain symbol, for parts that use a variable or definition of another part."""
        return Symbol(self.name, self.meaning, self.unit, self.index, self.latex)


@dataclass(frozen=True)
class Statement:
    """A formula of one component of a Pyomo model, with its meaning and source.

    Parameters
    ----------
    name:
        The component, relative to its block: ``"row"``, ``"gain"``, ``"level"``.
    formula:
        In Python syntax: ``"sum(v[e, k] * x[e, k] for k in K) >= f[e]"``; for a gain the objective term, for an
        expression the defining equation.
    over:
        Quantifier, as the for-clause of a comprehension: ``"for e in E for o in E if e != o"``. The loop variables, in
        order, are the index of the component.
    source:
        ``"OEF, eq. (10c)"``; empty: not in the paper.
    meaning:
        ``"no entity prefers the GPUs of another"``.
    unit:
        Unit of both sides.
    priority:
        Priority of a gain: higher ones are maximised first and then kept.

    Raises
    ------
    InvalidFormulation
        The formula or the quantifier cannot be parsed, or contains unsupported syntax.
    """

    name: str
    formula: str
    over: str = ""
    source: str = ""
    meaning: str = ""
    unit: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        text(self.formula, self.over)

    @property
    def cited(self) -> str:
        """The source in brackets."""
        return f"[{self.source}]" if self.source else ""

    @property
    def text(self) -> str:
        """The formula and its quantifier in Unicode, with hard spaces where lines should not break."""
        return "    ".join(filter(None, text(self.formula, self.over)[:2]))

    @cached_property
    def doc(self) -> str:
        """One line for Pyomo's ``doc``: source, formula with quantifier, meaning, unit."""
        formula = f"{self.cited} {self.text}".strip().replace(HARD, " ")
        return ": ".join(filter(None, (formula, explained(self))))


@dataclass(frozen=True)
class Stated(Symbol):
    """A symbol with a formula: a variable or a definition.

    Parameters
    ----------
    formula:
        For a variable its domain, ``"w[j, t] in {0, 1, ...}"``, ``"level >= 0"``; empty: any real number. For a
        definition the equation, ``"rate[e] == sum(v[e, k] * x[e, k] for k in K)"``.
    over:
        Quantifier, as in :class:`Statement`.
    source:
        Source of the formula.
    component:
        Its name in Pyomo. Empty: for a variable the symbol's name; a definition is then not in the model.
    """

    formula: str = ""
    over: str = ""
    source: str = ""
    component: str = ""

    @cached_property
    def statement(self) -> Statement:
        """As a :class:`Statement`."""
        return Statement(self.component, self.formula, self.over, self.source, self.meaning, self.unit)


@dataclass(frozen=True)
class Variable(Stated):
    """A decision variable; ``sparse``: it is 0 at indices outside ``over``."""

    sparse: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", self.formula or f"{self.head} in reals")
        object.__setattr__(self, "component", self.component or self.name)

    @cached_property
    def statement(self) -> Statement:
        """As a :class:`Statement`."""
        meaning = self.meaning + "; 0 elsewhere" * self.sparse
        return Statement(self.component, self.formula, self.over, self.source, meaning, self.unit)


class Definition(Stated):
    """A quantity that follows from variables or data."""


def explained(one: Symbol | Statement) -> str:
    """The meaning, and the unit in brackets."""
    return one.meaning + (f" ({one.unit})" if one.unit else "")
