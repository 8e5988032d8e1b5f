"""Methods for programs of a certain structure, selected by the components of a formulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from hetopt.checks import expect
from hetopt.errors import InvalidOption
from hetopt.plugins import METHODS
from hetopt.programs.compiled import Compiled
from hetopt.programs.point import Point
from hetopt.solving.options import Options


@dataclass(frozen=True)
class Method:
    """An algorithm for programs of one structure that is faster than a general solver.

    Parameters
    ----------
    name:
        Name of the method; a later method of the same name replaces it.
    serves:
        Whether it solves this program; see :func:`exactly`.
    solve:
        Returns the optimum: a point of ``compiled.program`` with a bound proven by weak duality, or the result of
        :func:`hetopt.optimise` if the proof fails.
    """

    name: str
    serves: Callable[[Compiled], bool]
    solve: Callable[[Compiled, Options], Point]


_registered: dict[str, Method] = {}


def register_method(method: Method) -> None:
    """Use ``method`` for all programs that it serves, before methods registered earlier.

    Packages declare methods as entry points of the group ``hetopt.methods``.
    """
    expect(Method, method, "method", InvalidOption)
    _registered.pop(method.name, None)
    _registered[method.name] = method


@cache
def _installed() -> dict[str, Method]:
    return {entry.name: entry.load() for entry in entry_points(group=METHODS)}


def method_for(compiled: Compiled, options: Options) -> Method | None:
    """The method that serves the program, or None; only if ``options`` leave the choice to hetopt."""
    if options.method != "auto" or options.solver != "highs" or options.exact:
        return None
    known = {**_installed(), **_registered}
    return next((method for method in reversed(known.values()) if method.serves(compiled)), None)


def exactly(*classes: type) -> Callable[[Compiled], bool]:
    """A function for :attr:`Method.serves`: one component of each of these classes, in any order."""
    wanted = sorted(map(id, classes))

    def serves(compiled: Compiled) -> bool:
        return sorted(id(type(part)) for part in compiled.formulation.components) == wanted

    return serves
