"""Machine-checked parts of proofs: identities by sympy, statements over all real numbers by z3."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from hetopt.proofs.ledger.claim import ProofCheck, ProofPart

Z3_SECONDS = 30
"""Time limit of z3 for a part; a part that exceeds it counts as not run."""


def by_sympy(name: str, problem: Callable[[], str]) -> ProofPart:
    """A part checked by sympy: ``problem`` returns a description of the error, or an empty text."""
    return partial(_check, "sympy", name, partial(_by_sympy, problem))


def by_z3(name: str, build: Callable[[], list[Any]]) -> ProofPart:
    """A part checked by z3: the hypotheses and the negated conclusion from ``build`` must be unsatisfiable."""
    return partial(_check, "z3", name, partial(_by_z3, build))


def by_limit(expressions: Sequence[str], size: str, limit: str) -> ProofPart:
    """A part checked by sympy: every expression in the integer ``size`` has this limit (``"oo"``: no bound)."""
    name = f"{' and '.join(expressions)} -> {limit} for {size} -> oo"
    return by_sympy(name, partial(_wrong_limit, expressions, size, limit))


def _wrong_limit(expressions: Sequence[str], size: str, limit: str) -> str:
    import sympy

    variable = sympy.Symbol(size, positive=True, integer=True)
    for text in expressions:
        found = sympy.limit(sympy.sympify(text, locals={size: variable}), variable, sympy.oo)
        if found != sympy.sympify(limit):
            return f"the limit of {text} is {found}, not {limit}"
    return ""


def _check(package: str, name: str, run: Callable[[], tuple[bool | None, str]]) -> ProofCheck:
    if find_spec(package) is None:
        return ProofCheck(name, None, why=f"{package} is not installed; pip install 'hetopt[prove]'")
    began = time.perf_counter()
    holds, why = run()
    return ProofCheck(f"{package}: {name}", holds, time.perf_counter() - began, why)


def _by_sympy(problem: Callable[[], str]) -> tuple[bool, str]:
    why = problem()
    return not why, why


def _by_z3(build: Callable[[], list[Any]]) -> tuple[bool | None, str]:
    import z3

    solver = z3.Solver()
    solver.set("timeout", Z3_SECONDS * 1000)
    solver.add(*build())
    answer = solver.check()
    if answer == z3.sat:
        return False, f"z3 finds {solver.model()}"
    return (True, "") if answer == z3.unsat else (None, f"z3 reached no result within {Z3_SECONDS} s")
