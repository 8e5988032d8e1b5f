# ruff: noqa: RUF001
"""Formulas in Python syntax: parsing, and output as text and LaTeX.

Formulas look as in Python and Pyomo: ``sum(v[e, k] * x[e, k] for k in K) >= f[e]``. The quantifier has the syntax of
the for-clauses of a comprehension: ``for e in E if f[e] > 0``. Formulas may contain

- names, numbers, subscripts, calls of functions, ``+ - * / // **``, ``a if condition else b``;
- comparisons, also chained, ``in`` and ``not in``, ``and``, ``or``, ``not``;
- ``sum``, ``max`` and ``min`` over generators, ``max(a, b)``, ``min(a, b)``, ``log(a)``, ``len(set)``;
- tuples, and sets: ``{0, 1}``, ``{0, 1, ...}``, ``{1, ..., n}``, ``reals``.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from hetopt.errors import InvalidFormulation

HARD = "\u00a0"
"""A hard space: lines break there only if there is no other place."""

CONDITION, OR, AND, NOT, COMPARISON, SUM, PREFIX, QUOTIENT, PRODUCT, POWER, ATOM = range(11)
"""Operator precedence, loosest first. PREFIX: a sum over a set binds all following factors."""


class Form(NamedTuple):
    """Template of an operator; ``#1``, ``#2`` … are its operands, and ``~`` is a hard space."""

    precedence: int
    least: tuple[int, ...]  # operands of lower precedence get brackets
    text: str
    latex: str
    latex_precedence: int | None = None  # if it differs


def _comparison(text: str, latex: str) -> Form:
    return Form(COMPARISON, (SUM, SUM), f"#1 {text}~#2", f"#1 {latex} #2")


def _over_set(text: str, latex: str) -> Form:
    return Form(PREFIX, (CONDITION, PREFIX), f"{text}_#1~#2", f"{latex}_{{#1}} #2")


FORMS = {
    "IfExp": Form(
        CONDITION,
        (OR, OR, CONDITION),
        "#1~if~#2~else~#3",
        r"\begin{cases} #1 & \text{if } #2 \\ #3 & \text{otherwise} \end{cases}",
        PREFIX,
    ),
    "Or": Form(OR, (AND, AND), "#1 or~#2", r"#1 \text{ or } #2"),
    "And": Form(AND, (NOT, NOT), "#1 and~#2", r"#1 \text{ and } #2"),
    "Not": Form(NOT, (COMPARISON,), "not~#1", r"\text{not } #1"),
    "LtE": _comparison("≤", r"\le"),
    "GtE": _comparison("≥", r"\ge"),
    "Lt": _comparison("<", "<"),
    "Gt": _comparison(">", ">"),
    "Eq": _comparison("=", "="),
    "NotEq": _comparison("≠", r"\ne"),
    "In": _comparison("∈", r"\in"),
    "NotIn": _comparison("∉", r"\notin"),
    "Add": Form(SUM, (SUM, PREFIX), "#1 +~#2", "#1 + #2"),
    "Sub": Form(SUM, (SUM, PREFIX), "#1 −~#2", "#1 - #2"),
    "USub": Form(SUM, (PREFIX,), "−#1", "-#1"),
    "sum over": _over_set("Σ", r"\sum"),
    "max over": _over_set("max", r"\max"),
    "min over": _over_set("min", r"\min"),
    "Mult": Form(PRODUCT, (PRODUCT, PREFIX), "#1·#2", r"#1 \, #2"),
    "Div": Form(QUOTIENT, (PRODUCT, POWER), "#1/#2", r"\frac{#1}{#2}", POWER),
    "FloorDiv": Form(ATOM, (PRODUCT, POWER), "⌊#1/#2⌋", r"\left\lfloor \frac{#1}{#2} \right\rfloor"),
    "Pow": Form(POWER, (ATOM, ATOM), "#1^#2", "#1^{#2}"),
    "len": Form(ATOM, (CONDITION,), "|#1|", r"\lvert #1 \rvert"),
    "Set": Form(ATOM, (CONDITION,), "{#1}", r"\{#1\}"),
    "...": Form(ATOM, (), "…", r"\dots"),
    "reals": Form(ATOM, (), "ℝ", r"\mathbb{R}"),
}
"""Templates of operators and functions; operators have their names in :mod:`ast`."""

OWN = frozenset({"sum", "max", "min", "log", "len", "reals"})
"""Built-in names of formulas."""


class Written(NamedTuple):
    """A formula and its quantifier as written, and (name, number of subscripts or arguments) of the names in them.

    Loop variables and built-in names are not included.
    """

    formula: str
    places: str
    names: tuple[tuple[str, int], ...]


@cache
def text(formula: str, over: str = "") -> Written:
    """A formula and its quantifier in Unicode, with hard spaces where lines should not break.

    Raises
    ------
    InvalidFormulation
        They cannot be parsed, or contain unsupported syntax.
    """
    return _written(formula, over, None)


def latex(formula: str, over: str = "", own: Mapping[str, str] | None = None) -> Written:
    """A formula and its quantifier as LaTeX for KaTeX, MathJax and latex2mathml.

    Parameters
    ----------
    own:
        Name -> its LaTeX, for names with LaTeX other than the default. ``#1``, ``#2`` … stand for the subscripts:
        ``k_{#1}^{#2}(#3)``.

    Raises
    ------
    InvalidFormulation
        As :func:`text`.
    """
    return _written(formula, over, own or {})


def parsed(formula: str, over: str = "") -> tuple[ast.expr, list[ast.comprehension]]:
    """The syntax trees of a formula and of its quantifier.

    Raises
    ------
    InvalidFormulation
        They are not valid Python.
    """
    try:
        tree = ast.parse(f"[({formula.strip()}) {over.strip()}]", mode="eval").body
    except SyntaxError as problem:
        raise InvalidFormulation(f"the formula {formula!r} {over!r} cannot be read: {problem.msg}") from None
    if isinstance(tree, ast.ListComp):
        return tree.elt, tree.generators
    if over.strip() or not isinstance(tree, ast.List) or len(tree.elts) != 1:
        raise InvalidFormulation(f"the formula {formula!r} {over!r} cannot be read")
    return tree.elts[0], []


def _written(formula: str, over: str, own: Mapping[str, str] | None) -> Written:
    tree, loops = parsed(formula, over)
    writer = _Writer(formula, own)
    places = writer.over(loops)  # first, since it binds loop variables
    forall = "" if not loops else f"∀{HARD}" if own is None else r"\forall "
    return Written(writer.write(tree), forall + places, tuple(writer.found))


class _Writer:
    """Writes one formula: as text, or as LaTeX where ``own`` is given."""

    def __init__(self, source: str, own: Mapping[str, str] | None) -> None:
        self.source, self.own = source, own
        self.comma = f",{HARD}" if own is None else ", "
        self.bound: frozenset[str] = frozenset()
        self.found: dict[tuple[str, int], None] = {}

    def write(self, node: ast.expr, least: int = CONDITION) -> str:
        """``node``, in brackets if its precedence is below ``least``."""
        made, precedence = self._parts(node)
        return made if precedence >= least else self._bracketed(made)

    def _parts(self, node: ast.expr) -> tuple[str, int]:
        """The text of ``node``, and its precedence."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return repr(number), ATOM
            case ast.Constant(value=value) if value is ...:
                return self._formed(node, "...")
            case ast.Name(id="reals"):
                return self._formed(node, "reals")
            case ast.Name(id=name):
                return self._named(name, [])
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._named(name, index.elts if isinstance(index, ast.Tuple) else [index])
            case ast.Tuple(elts=[_, *_] as parts):
                return self._bracketed(self._listed(parts)), ATOM
            case ast.Set(elts=parts):
                return self._formed(node, "Set", self._listed(parts))
            case ast.BinOp(left=ast.UnaryOp(op=ast.USub() as minus, operand=left), op=ast.Mult() as op, right=right):
                return self._formed(node, minus, ast.BinOp(left=left, op=op, right=right))
            case ast.BinOp(left=left, op=op, right=right):
                return self._formed(node, op, left, right)
            case ast.UnaryOp(op=op, operand=operand):
                return self._formed(node, op, operand)
            case ast.BoolOp(op=op, values=[first, *others]):
                return self._chained(node, first, [(op, other) for other in others])
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._chained(node, left, list(zip(ops, others, strict=True)))
            case ast.IfExp(body=body, test=test, orelse=other):
                return self._formed(node, node, body, test, other)
            case ast.Call(func=ast.Name(id="sum" | "max" | "min" as name), args=[ast.GeneratorExp() as every]):
                bound = self.bound
                made = self._formed(node, f"{name} over", self._below(every.generators), every.elt)
                self.bound = bound
                return made
            case ast.Call(func=ast.Name(id="len"), args=[one], keywords=[]):
                return self._formed(node, "len", one)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name not in OWN:
                self.found[name, len(args)] = None
                return self._symbol(name, []) + self._bracketed(self._listed(args)), ATOM
            case ast.Call(func=ast.Name(id="max" | "min" | "log" as name), args=[_, *others] as args, keywords=[]):
                if bool(others) == (name != "log"):
                    return "\\" * (self.own is not None) + name + self._bracketed(self._listed(args)), ATOM
        raise self._refused(node)

    def _refused(self, node: ast.expr) -> InvalidFormulation:
        what = ast.unparse(node)
        return InvalidFormulation(f"the formula {self.source!r} has {what!r}, which formulas cannot have")

    def _formed(self, node: ast.expr, key: ast.AST | str, *parts: ast.expr | str) -> tuple[str, int]:
        """Fill one of :data:`FORMS`; text is kept as it is. A form that ends with a part has at most its precedence."""
        form = FORMS.get(key if isinstance(key, str) else type(key).__name__)
        if form is None:
            raise self._refused(node)
        shape = form.text.replace("~", HARD) if self.own is None else form.latex
        precedence = form.precedence if self.own is None or form.latex_precedence is None else form.latex_precedence
        made: list[str] = []
        for i, (part, least) in enumerate(zip(parts, form.least, strict=True), 1):
            if isinstance(part, str):
                made.append(part)
                continue
            one, holds = self._parts(part)
            enclosed = f"{{#{i}}}" in shape
            brackets = holds < least and not enclosed
            made.append(self._bracketed(one) if brackets else one)
            if shape.endswith(f"#{i}") and not brackets:
                precedence = min(precedence, holds)
        if self.own is not None and isinstance(key, ast.Mult) and made[1][0].isdigit():
            shape = r"#1 \cdot #2"
        return _filled(shape, made), precedence

    def _chained(self, node: ast.expr, first: ast.expr, others: list[tuple[ast.AST, ast.expr]]) -> tuple[str, int]:
        made: ast.expr | str = first
        for op, other in others:
            made, precedence = self._formed(node, op, made, other)
        assert isinstance(made, str)
        return made, precedence

    def _listed(self, parts: Sequence[ast.expr]) -> str:
        return self.comma.join(map(self.write, parts))

    def _bracketed(self, made: str) -> str:
        if self.own is None:
            return f"({made})".replace(" ", HARD)
        tall = re.search(r"\\(frac|sum|max_|min_|begin)", made)
        return rf"\left( {made} \right)" if tall else f"({made})"

    def over(self, loops: Sequence[ast.comprehension]) -> str:
        """The sets and conditions of a sum or quantifier, with variables over the same set grouped."""
        made, targets = [], []
        for one, after in zip_longest(loops, loops[1:]):
            within = self.write(one.iter, SUM)
            self.bound |= {part.id for part in ast.walk(one.target) if isinstance(part, ast.Name)}
            targets.append(self.write(one.target))
            if one.ifs or after is None or ast.dump(after.iter) != ast.dump(one.iter):
                made.append(self._formed(one.target, "In", self.comma.join(targets), within)[0])
                made += map(self.write, one.ifs)
                targets = []
        return self.comma.join(made).replace(" ", HARD) if self.own is None else r",\ ".join(made)

    def _below(self, loops: Sequence[ast.comprehension]) -> str:
        """The subscript of a sum: the sets and conditions, or in text only k for a sum over all k in K."""
        made = self.over(loops)
        if self.own is not None:
            return made
        pairs = [(ast.unparse(one.target), ast.unparse(one.iter)) for one in loops]
        if all(many == one.upper() != one for one, many in pairs) and not any(one.ifs for one in loops):
            made = ",".join(one for one, _ in pairs)
        return made if len(made) == 1 else f"{{{made}}}"

    def _named(self, name: str, index: Sequence[ast.expr]) -> tuple[str, int]:
        if name not in self.bound:
            self.found[name, len(index)] = None
        made = self._symbol(name, [self.write(part) for part in index])
        return made, POWER if "^" in made else ATOM

    def _symbol(self, name: str, index: Sequence[str]) -> str:
        """A name with its subscripts."""
        if self.own is None:
            first, *rest = name.rstrip("_").split("_", 1)
            within = re.sub(r"\s*([^\w\s])\s*", r"\1", ",".join(index))
            return "_".join([GREEK.get(first, first), *rest]) + (f"[{within}]" if index else "")
        made = "" if name in self.bound else self.own.get(name, "")
        if "#" in made:
            return _filled(made, index)
        made = made or letters(name)
        if not index:
            return made
        single = all(re.fullmatch(r"\w|\\[A-Za-z]+", part) for part in index)
        joined = (" " if "\\" in "".join(index) else "").join(index) if single else ", ".join(index)
        if below := re.fullmatch(r"(.*)_(?:\{(.*)\}|(\w))", made):
            return f"{below[1]}_{{{below[2] or below[3]}, {joined}}}"
        return f"{made}_{{{joined}}}"


def _filled(shape: str, parts: Sequence[str]) -> str:
    return re.sub(r"#(\d)", lambda at: parts[int(at[1]) - 1] if int(at[1]) <= len(parts) else "", shape)


def _greek(letter: str) -> str:
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA")
    return name.lower() if letter.islower() else name.title()


GREEK = {_greek(letter): letter for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"}
"""Names of letters -> letters."""


def letters(name: str) -> str:
    r"""LaTeX of names: ``\rho`` for ``rho``, ``t_2`` for ``t2``, ``x_{\text{max}}`` for ``x_max``; words upright."""
    plain = name.rstrip("_")
    if plain in GREEK:
        return f"\\{plain}"
    if len(plain) == 1:
        return r"\ell" if plain == "l" else plain
    if matched := re.fullmatch(r"([A-Za-z]+?)(\d+)|([A-Za-z]+)_(\w+)", plain):
        first, second = matched[1] or matched[3], matched[2] or matched[4]
        return f"{letters(first)}_{{{second if second.isdigit() else letters(second)}}}"
    return as_words(plain)


def as_words(text: str) -> str:
    r"""Words in LaTeX: ``\text{...}``, with special characters outside of it."""
    made = re.sub(r"[_%&#${}]", lambda sign: rf"}}\{sign[0]}\text{{", text)
    return rf"\text{{{made}}}".replace(r"\text{}", "")
