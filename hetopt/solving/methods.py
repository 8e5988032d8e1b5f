"""Methods for programs of a known structure: found by the components of a formulation, not by who made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from hetopt.checks import expect
from hetopt.errors import InvalidOption
from hetopt.programs.compiled import Compiled
from hetopt.solving.options import Options
from hetopt.solving.point import Point

GROUP = "hetopt.methods"
"""Entry points with this name are methods."""


@dataclass(frozen=True)
class Method:
    """A way to solve programs of one structure that is faster than a general solver.

    Parameters
    ----------
    name:
        Of the method; another method of the same name takes its place.
    serves:
        Whether it solves this program. :func:`exactly` makes such functions.
    solve:
        The optimum: a point of ``compiled.program``, with a bound proven by weak duality; where the proof fails, what
        :func:`hetopt.optimise` finds.
    """

    name: str
    serves: Callable[[Compiled], bool]
    solve: Callable[[Compiled, Options], Point]


_registered: dict[str, Method] = {}


def register_method(method: Method) -> None:
    """Use ``method`` from now on wherever it serves, before those that were registered earlier.

    Packages declare theirs as entry points of the group ``hetopt.methods``.
    """
    expect(Method, method, "method", InvalidOption)
    _registered.pop(method.name, None)
    _registered[method.name] = method


@cache
def _installed() -> dict[str, Method]:
    return {entry.name: entry.load() for entry in entry_points(group=GROUP)}


def method_for(compiled: Compiled, options: Options) -> Method | None:
    """The method that serves the program, or None: for those who leave it to hetopt how a program is solved."""
    if options.method != "auto" or options.solver != "highs" or options.exact:
        return None
    known = {**_installed(), **_registered}
    return next((method for method in reversed(known.values()) if method.serves(compiled)), None)


def exactly(*classes: type) -> Callable[[Compiled], bool]:
    """Whether a formulation consists of one component of each of these classes, in any order."""
    wanted = sorted(map(id, classes))

    def serves(compiled: Compiled) -> bool:
        return sorted(id(type(part)) for part in compiled.formulation.components) == wanted

    return serves
