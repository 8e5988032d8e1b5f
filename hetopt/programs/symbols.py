"""Symbols shared by components, and the parts of every model: shares, rates, capacity."""

from __future__ import annotations

from functools import cache

from hetopt.data.entities import Kind
from hetopt.programs.mathematics import Definition, Mathematics, Statement, Symbol, Variable


def formula_number(value: float) -> str:
    """``value`` in a formula: exact, and as short as possible."""
    return repr(int(value) if value == int(value) and abs(value) < 1e15 else float(value))


def rate_unit(kind: Kind) -> str:
    """The unit of rates; normalised throughput has none."""
    return "" if kind == "tenants" else "work/s"


OVER = "for e in E for k in K"
"""Quantifier over all shares."""

_M = Symbol("m", "GPUs of type k", "GPUs", "k")

_SHARED = {
    "tenants": (
        Symbol("E", "tenants, one for each job type"),
        Symbol("K", "GPU types"),
        Symbol("x", "GPUs of type k for tenant e", "GPUs", "e, k"),
        Symbol("v", "speedup: normalised throughput of tenant e on a GPU of type k", "1/GPU", "e, k"),
        Symbol("rate", "normalised throughput of e", "", "e"),
        _M,
        Symbol("pi", "weight of e", "", "e"),
        Symbol("f", "normalised throughput of e on its part of every type's GPUs, by weight", "", "e"),
    ),
    "jobs": (
        Symbol("E", "jobs"),
        Symbol("K", "GPU types"),
        Symbol("x", "part of the time that the gang of job e runs on type k; 0 or 1 in a round", "", "e, k"),
        Symbol("v", "work per second of the whole gang of e on type k", "work/s", "e, k"),
        Symbol("rate", "work per second of e", "work/s", "e"),
        _M,
        Symbol("d", "GPUs of the gang of e", "GPUs", "e"),
        Symbol("pi", "weight of e", "", "e"),
        Symbol("f", "work per second of e on its part of every type's GPUs, by weight", "work/s", "e"),
        Symbol("W", "work of the whole job e", "work", "e"),
        Symbol("W_left", "work that e has left", "work", "e"),
    ),
}


def shared(kind: Kind) -> tuple[Symbol, ...]:
    """Symbols that components may use without declaring them; only those that occur in a formula are shown."""
    return _SHARED[kind]


def symbol(kind: Kind, name: str) -> Symbol:
    """The shared symbol of that name."""
    return next(one for one in shared(kind) if one.name == name)


def definition(kind: Kind, name: str, right: str, over: str, source: str = "", component: str = "") -> Definition:
    """The shared symbol of that name, defined as ``right``."""
    one = symbol(kind, name)
    formula = f"{one.head} == {right}"
    return Definition(one.name, one.meaning, one.unit, one.index, one.latex, formula, over, source, component)


def gpus(kind: Kind, e: str = "e") -> str:
    """The GPUs of type k that entity ``e`` uses, in a formula."""
    return f"x[{e}, k]" if kind == "tenants" else f"d[{e}] * x[{e}, k]"


def total(name: str, e: str = "e") -> str:
    """The sum over all types of ``name[e, k]`` times the share."""
    return f"sum({name}[{e}, k] * x[{e}, k] for k in K)"


@cache
def equal_share(kind: Kind) -> Definition:
    """The equal-share rate of :mod:`hetopt.data.rates`; for tenants the reference of the sharing incentive."""
    whole = "sum(pi[o] for o in E)" if kind == "tenants" else "(d[e] * sum(pi[o] for o in E))"
    return definition(kind, "f", f"pi[e] / {whole} * sum(v[e, k] * m[k] for k in K)", "for e in E")


@cache
def frame(kind: Kind, binary: bool = False, *, capacity: bool = True) -> Mathematics:
    """The parts of the model that do not depend on the components.

    Parameters
    ----------
    binary:
        Whether every share is 0 or 1, as in a round.
    capacity:
        Whether the model states the capacity; False: a component does.
    """
    x = symbol(kind, "x")
    domain = f"{x.head} in {{0, 1}}" if binary else f"{x.head} >= 0"
    source = "OEF, eq. (9b), (10b)" if kind == "tenants" else "FFT, eq. (1)" if binary else "Gavel, section 3.1"
    over = f"{OVER} if v[e, k] > 0"
    used = f"sum({gpus(kind)} for e in E) <= m[k]"
    rows = (Statement("capacity", used, "for k in K", source, "no more GPUs than there are", "GPUs"),)
    return Mathematics(
        variables=(
            Variable(x.name, x.meaning, x.unit, x.index, x.latex, domain, over, component="share", sparse=True),
        ),
        rows=rows if capacity else (),
        definitions=(definition(kind, "rate", total("v"), "for e in E", component="rate"),),
        symbols=shared(kind),
    )
