"""What one component of a model says: a formula, its places, the equation of the paper, the meaning and the unit."""

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
        As in formulas: ``"v"``, ``"rho"``, ``"theta"``. A trailing underscore, as in ``"lambda_"``, is not shown.
    meaning:
        ``"work per second of the whole gang on type k"``.
    unit:
        ``"work/s"``; empty: no unit.
    index:
        ``"e, k"``, or ``"(j, t)"`` of a function; empty for sets and scalars.
    latex:
        By default it follows from the name: Greek names become ``\rho``, words ``\text{work}``. ``#1``, ``#2`` … stand
        for the subscripts, as in ``k_{#1}^{#2}(#3)``.
    """

    name: str
    meaning: str
    unit: str = ""
    index: str = ""
    latex: str = ""

    @property
    def head(self) -> str:
        """The name with its index, a formula."""
        return self.name + (self.index if not self.index or self.index.startswith("(") else f"[{self.index}]")

    @property
    def places(self) -> int:
        """Number of subscripts."""
        return len([part for part in self.index.strip("()").split(",") if part.strip()])

    @property
    def symbol(self) -> Symbol:
        """The symbol alone, for parts that speak of what another part has stated."""
        return Symbol(self.name, self.meaning, self.unit, self.index, self.latex)


@dataclass(frozen=True)
class Statement:
    """What one component of a Pyomo model says.

    Parameters
    ----------
    name:
        The component, relative to its block: ``"row"``, ``"gain"``, ``"level"``.
    formula:
        In Python's syntax: ``"sum(v[e, k] * x[e, k] for k in K) >= f[e]"``; of a gain what is added up, and of an
        expression the equation that defines it.
    over:
        Its places, as in a comprehension: ``"for e in E for o in E if e != o"``. The loop variables, in their order,
        are the index of the component.
    source:
        ``"OEF, eq. (10c)"``; empty: the paper has no such thing.
    meaning:
        ``"nobody would rather have the GPUs of another"``.
    unit:
        Of both sides.
    priority:
        Of a gain: higher ones are maximised first, and kept.

    Raises
    ------
    InvalidFormulation
        The formula or the quantifier cannot be read, or has something that formulas have not.
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
        """The formula and its places in Unicode, with hard spaces where lines should not break."""
        return "    ".join(filter(None, text(self.formula, self.over)[:2]))

    @cached_property
    def doc(self) -> str:
        """One line for Pyomo's ``doc``: the source, the formula and its places, the meaning, the unit."""
        formula = f"{self.cited} {self.text}".strip().replace(HARD, " ")
        return ": ".join(filter(None, (formula, explained(self))))


@dataclass(frozen=True)
class Stated(Symbol):
    """A symbol that a model decides on or computes, with what is stated of it: a variable or a definition.

    Parameters
    ----------
    formula:
        Of a variable where it lies, ``"w[j, t] in {0, 1, ...}"``, ``"level >= 0"``; empty: any real number. Of a
        definition the equation, ``"rate[e] == sum(v[e, k] * x[e, k] for k in K)"``.
    over:
        Its places, as of a :class:`Statement`.
    source:
        Of the formula.
    component:
        Its name in Pyomo. Empty: of a variable the symbol's; a definition is not in the model.
    """

    formula: str = ""
    over: str = ""
    source: str = ""
    component: str = ""

    @cached_property
    def statement(self) -> Statement:
        """What it says of itself."""
        return Statement(self.component, self.formula, self.over, self.source, self.meaning, self.unit)


@dataclass(frozen=True)
class Variable(Stated):
    """What is decided; ``sparse``: it is 0 at places where ``over`` does not bring it."""

    sparse: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", self.formula or f"{self.head} in reals")
        object.__setattr__(self, "component", self.component or self.name)

    @cached_property
    def statement(self) -> Statement:
        """What it says of itself."""
        meaning = self.meaning + "; 0 elsewhere" * self.sparse
        return Statement(self.component, self.formula, self.over, self.source, meaning, self.unit)


class Definition(Stated):
    """A number that follows from variables or from the data."""


def explained(one: Symbol | Statement) -> str:
    """The meaning, and the unit in brackets."""
    return one.meaning + (f" ({one.unit})" if one.unit else "")
