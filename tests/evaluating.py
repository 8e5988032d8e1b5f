"""What formulas (hetopt.programs.notation) are in numbers: by plain Python, to check rows by them."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count, pairwise
from types import CodeType
from typing import Any

from hetopt.programs.notation import parsed, text


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """What ``formula`` is where its names have these ``values``: numbers, arrays, mappings, sets, functions."""
    return eval(_compiled(formula), {**BUILTINS, **values})


def bindings(over: str, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The loop variables of a quantifier at each of its places, in the order of its loops; one place if it is empty."""
    names = [part.id for loop in parsed("0", over)[1] for part in ast.walk(loop.target) if isinstance(part, ast.Name)]
    for place in eval(_compiled(f"({', '.join(names)},)", over), {**BUILTINS, **values}) if names else [()]:
        yield dict(zip(names, place, strict=True))


def slack(formula: str, values: Mapping[str, Any]) -> float:
    """By how much a chain of ``<=``, ``>=`` and ``==`` holds: the least difference of two sides, < 0 where it fails.

    Of an equation it is minus the absolute difference.
    """
    signs, sides = _comparison(formula)
    numbers = [evaluate(side, values) for side in sides]
    return min(_holds_by(op, *pair) for op, pair in zip(signs, pairwise(numbers), strict=True))


@cache
def _comparison(formula: str) -> tuple[list[ast.cmpop], list[str]]:
    """The signs of a chain of comparisons, and its sides."""
    tree, _ = parsed(formula)
    assert isinstance(tree, ast.Compare), formula
    assert all(isinstance(op, ast.LtE | ast.GtE | ast.Eq) for op in tree.ops), formula
    return tree.ops, [ast.unparse(side) for side in (tree.left, *tree.comparators)]


def _holds_by(op: ast.cmpop, left: Any, right: Any) -> float:
    difference = float(left - right)
    return difference if isinstance(op, ast.GtE) else -difference if isinstance(op, ast.LtE) else -abs(difference)


class _Every:
    """Every number."""

    def __contains__(self, value: Any) -> bool:
        return True


class _From:
    """All whole numbers from ``first`` on, in steps."""

    def __init__(self, first: int, step: int) -> None:
        self.first, self.step = first, step

    def __contains__(self, value: Any) -> bool:
        return bool(value >= self.first and (value - self.first) % self.step == 0)

    def __iter__(self) -> Iterator[int]:
        return count(self.first, self.step)


def _progression(*given: Any) -> Any:
    """What ``{first, second, ..., last}`` holds; the second and the last may be absent."""
    dots = given.index(...)
    first, step = given[0], given[1] - given[0] if dots == 2 else 1
    return _From(first, step) if dots == len(given) - 1 else range(first, given[-1] + 1, step)


class _Progressions(ast.NodeTransformer):
    """Makes calls of sets with dots."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        if not any(isinstance(part, ast.Constant) and part.value is ... for part in node.elts):
            return node
        return ast.Call(func=ast.Name(id="_progression", ctx=ast.Load()), args=node.elts, keywords=[])


BUILTINS: Mapping[str, Any] = {
    "__builtins__": {},
    "_progression": _progression,
    "sum": sum,
    "max": max,
    "min": min,
    "log": math.log,
    "len": len,
    "reals": _Every(),
}
"""All that a formula can do besides arithmetic."""


@cache
def _compiled(formula: str, over: str = "") -> CodeType:
    text(formula, over)  # refuses what is no formula
    source = f"[{formula} {over}]" if over else formula.strip()
    tree = _Progressions().visit(ast.parse(source, mode="eval"))
    return compile(ast.fix_missing_locations(tree), f"<{source}>", "eval")
