"""Machine-checked parts of proofs: identities by sympy, statements over all real numbers by z3."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from hetopt.proofs.ledger.claim import ProofCheck, ProofPart

Z3_SECONDS = 30
"""Time limit of z3 for a part; a part that exceeds it counts as not run."""


def by_sympy(name: str, problem: Callable[[], str]) -> ProofPart:
    """A part checked by sympy: ``problem`` returns a description of the error, or an empty text."""
    return partial(_sympy, name, problem)


def by_z3(name: str, build: Callable[[], list[Any]]) -> ProofPart:
    """A part checked by z3: the hypotheses and the negated conclusion from ``build`` must be unsatisfiable."""
    return partial(_z3, name, build)


def _missing(package: str, name: str) -> ProofCheck | None:
    if find_spec(package) is None:
        return ProofCheck(name, None, why=f"{package} is not installed; pip install 'hetopt[prove]'")
    return None


def _sympy(name: str, problem: Callable[[], str]) -> ProofCheck:
    if (missing := _missing("sympy", name)) is not None:
        return missing
    began = time.perf_counter()
    why = problem()
    return ProofCheck(f"sympy: {name}", not why, time.perf_counter() - began, why)


def _z3(name: str, build: Callable[[], list[Any]]) -> ProofCheck:
    if (missing := _missing("z3", name)) is not None:
        return missing
    import z3

    began = time.perf_counter()
    solver = z3.Solver()
    solver.set("timeout", Z3_SECONDS * 1000)
    solver.add(*build())
    answer = solver.check()
    seconds = time.perf_counter() - began
    if answer == z3.sat:
        return ProofCheck(f"z3: {name}", False, seconds, f"z3 finds {solver.model()}")
    if answer == z3.unsat:
        return ProofCheck(f"z3: {name}", True, seconds)
    return ProofCheck(f"z3: {name}", None, seconds, f"z3 gave up after {seconds:.0f} s")
