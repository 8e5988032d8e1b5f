"""From a formulation or a policy and an instance to a result: the whole road."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

import numpy as np

from hetopt.allocation import Allocation, Plan
from hetopt.certificate import certify
from hetopt.checks import choices, expect, shown
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, InvalidPlan, NotSolved
from hetopt.programs.compiling import from_pyomo
from hetopt.programs.formulation import Formulation, Lazy, Rational, Stated, components_of
from hetopt.programs.linear import LinearProgram
from hetopt.programs.rows import ExactRow, Rows
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.point import Point, Status
from hetopt.tolerances import GAP, PROVEN, STAGE, scale

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum

Violated = Callable[[Point], Rows]


@runtime_checkable
class Policy(Protocol):
    """Decides what everyone gets now: a frozen dataclass whose fields are its settings.

    What it has to remember is the state that it returns and is given back.
    """

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation | Plan, Any]:
        """The result for ``instance``, and the state for the next call."""
        ...


@overload
def solve(what: Formulation, instance: Instance, options: Options | None = None, **settings: Any) -> Allocation: ...
@overload
def solve(what: Policy, instance: Instance, options: Options | None = None, **settings: Any) -> Allocation | Plan: ...
def solve(
    what: Formulation | Policy, instance: Instance, options: Options | None = None, **settings: Any
) -> Allocation | Plan:
    """Solve a formulation, or run a policy once from its beginning.

    Parameters
    ----------
    what:
        A :class:`Formulation` or a policy.
    instance:
        The data.
    options, settings:
        An :class:`Options`, and single settings that override it (``exact=True``, ``time_limit=5``). A policy
        has its own options, so none may be given for it.

    Returns
    -------
    Allocation | Plan

    Raises
    ------
    NotSolved
        No usable solution; for an infeasible program with the conflicting rows.
    InvalidPlan
        The policy returns something else than a result and its state.
    InvalidInstance, InvalidFormulation, InvalidOption
        Bad input; nothing has been solved.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> hetopt.solve(oef.cooperative(), inst).certificate.objective
    5.25
    """
    check_policy(what)
    expect(Instance, instance, "instance")
    if isinstance(what, Formulation):
        return solve_formulation(what, instance, _options(options, settings))
    if options is not None or settings:
        raise InvalidOption(
            f"{type(what).__name__} is a procedure of its own, not a formulation that solve() hands to a solver; it "
            "has only the settings that it is made with"
        )
    return ask(what, instance)[0]


def ask(policy: Policy, instance: Instance, *state: Any) -> tuple[Allocation | Plan, Any]:
    """What ``policy`` answers: the result, and the state for the next call.

    Raises
    ------
    InvalidPlan
        It answers something else.
    """
    answer: Any = policy(instance, *state)
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Allocation | Plan)):
        name = getattr(policy, "__name__", type(policy).__name__)
        raise InvalidPlan(
            f"policy {name} has answered {shown(answer)}; it must return a pair: an Allocation or Plan, and its state"
        )
    return answer


def check_policy(what: object) -> None:
    """Raise :class:`InvalidOption` for what cannot be asked."""
    if not callable(what):
        hint = "; hetopt.registry.make_policy finds one by name" if isinstance(what, str) else ""
        raise InvalidOption(
            f"the policy is {shown(what)}; it must be a policy, such as hetopt.models.oef.cooperative(){hint}"
        )
    if isinstance(what, type):
        raise InvalidOption(f"the policy is the class {what.__name__}; give one of it: {what.__name__}()")
    try:
        signature(what).bind(None)
    except ValueError:  # some callables written in C tell nothing
        return
    except TypeError:
        name = getattr(what, "__name__", type(what).__name__)
        raise InvalidOption(f"{name} cannot be called with an instance; if it makes a policy, give {name}()") from None


def _options(options: Options | None, settings: dict[str, Any]) -> Options:
    known = [f.name for f in fields(Options) if f.repr]
    if bad := sorted(set(settings) - set(known)):
        raise InvalidOption(f"there is no option {bad[0]!r}; {choices(bad[0], known)}")
    return replace(Options() if options is None else expect(Options, options, "options", InvalidOption), **settings)


def solve_formulation(formulation: Formulation, instance: Instance, options: Options | None = None) -> Allocation:
    """Build, compile, optimise and certify ``formulation``; see :func:`solve`."""
    options = (options or Options()).started()
    began = time.perf_counter()
    entities = formulation.entities(instance)
    if _takes_specialist(formulation, options):
        assert formulation.specialist is not None
        point, exact = formulation.specialist(entities, options), None
    else:
        point, exact = _general(formulation, instance, entities, options)
    share = np.maximum(point.share, 0.0)
    seconds = time.perf_counter() - began
    return Allocation(entities, share, certify(formulation, entities, point, seconds, exact))


def _takes_specialist(formulation: Formulation, options: Options) -> bool:
    """Specialists are for those who leave it to us how a program is solved."""
    free = options.method == "auto" and options.solver == "highs" and options.road != "pyomo" and not options.exact
    return free and formulation.specialist is not None


def _general(
    formulation: Formulation, instance: Instance, entities: Entities, options: Options
) -> tuple[Point, ExactOptimum | None]:
    """The point of a general solver, and the exact optimum where it is asked for."""
    program = compile_program(formulation, instance, options)
    if not options.exact:
        if options.method == "plain":
            program = program.with_rows(every_row(formulation, entities, strict=False))
        return optimise(program, options, lazy_rows(formulation, entities)), None
    from hetopt.solving.exact import exact_optimum

    every = every_row(formulation, entities)
    if program.integer.any():
        raise InvalidOption("exact is True, but the program has integer columns; exact optima are for linear programs")
    point = optimise(program, options, lazy_rows(formulation, entities))
    exact = exact_optimum(point, every, exact_rows(formulation, entities), options).agreeing_with(point)
    return exact.as_point(point), exact


def exact_rows(formulation: Formulation, entities: Entities) -> Callable[[Collection[str]], dict[str, ExactRow]]:
    """Rows by name in fractions, of the components that can state them."""
    parts = components_of(formulation, Rational)

    def known(names: Collection[str]) -> dict[str, ExactRow]:
        wanted = set(names)
        return {name: row for part in parts for name, row in part.exact_rows(entities, wanted).items()}

    return known


def compile_program(formulation: Formulation, instance: Instance, options: Options | None = None) -> LinearProgram:
    """The linear program of ``formulation`` by the road that ``options`` ask for."""
    road = (options or Options()).road
    if road == "arrays" and formulation.compile is None:
        raise InvalidOption(f"{formulation.title or formulation.names} has no array road; use road='pyomo'")
    if formulation.compile is not None and road != "pyomo":
        return formulation.compile(formulation.entities(instance))
    return from_pyomo(formulation.build(instance))


def lazy_rows(formulation: Formulation, entities: Entities) -> Violated | None:
    """One function for the lazy rows of all components, or None if there are none."""
    parts = components_of(formulation, Lazy)
    if not parts:
        return None

    def violated(point: Point) -> Rows:
        return _joined([part.violated(entities, point) for part in parts], entities)

    return violated


def every_row(formulation: Formulation, entities: Entities, *, strict: bool = True) -> Rows:
    """All rows that the lazy components of ``formulation`` leave out of the model.

    Raises
    ------
    InvalidOption
        A component adds rows lazily and cannot state them all; with ``strict=False`` it is passed over.
    """
    parts = components_of(formulation, Lazy)
    unstated = [part.name for part in parts if not isinstance(part, Stated)]
    if unstated and strict:
        raise InvalidOption(
            f"{unstated[0]!r} adds rows as points violate them and cannot state them all (no method every_row), "
            "so the program cannot be solved exactly or written to a file"
        )
    return _joined([part.every_row(entities) for part in parts if isinstance(part, Stated)], entities)


def _joined(found: list[Rows], entities: Entities) -> Rows:
    found = [rows for rows in found if len(rows)]
    if len(found) <= 1:
        return found[0] if found else Rows.none(entities.speed.size)
    return Rows.stacked(found)


def optimise(program: LinearProgram, options: Options | None = None, violated: Violated | None = None) -> Point:
    """Maximise the objectives of ``program`` in their order, adding lazy rows as points violate them.

    Parameters
    ----------
    program:
        What to solve.
    options:
        ``time_limit`` holds for all stages and passes together.
    violated:
        Rows that a point violates; none when it is good.

    Returns
    -------
    Point
        Of the last stage; its status is the weakest of all stages'.

    Raises
    ------
    NotSolved
        No usable solution.
    """
    options = (options or Options()).started()
    began = time.perf_counter()
    thorough = replace(options, gap=min(options.gap, GAP))  # a gap in what comes first would make room for the rest
    done: list[Point] = []
    while True:
        try:
            point = _one_stage(program.first_stage, thorough if program.earlier else options, violated)
        except NotSolved as problem:
            if problem.status != "time_limit" or not done:
                raise
            point = _stopped(program, done[-1])
            break
        if not program.earlier:
            break
        done.append(point)
        best = point.objective if not program.integer.any() else _floor_of(point)
        program = replace(program, **_rows_of(point.program)).keep(best - STAGE * scale(best))
    every = (*done, point)
    return replace(
        point,
        passes=sum(stage.passes for stage in every),
        status=max((stage.status for stage in every), key=_WEAKNESS.index),
        seconds=time.perf_counter() - began,
        earlier=tuple(done),
    )


_WEAKNESS: tuple[Status, ...] = ("optimal", "gap", "time_limit")


def _stopped(program: LinearProgram, last: Point) -> Point:
    """The point of the ``last`` stage for which time was left, as one of ``program``, of whose objectives it knows
    nothing: a bound of them would be a claim.
    """
    stage = replace(program, earlier=())
    value = stage.objective(last.x)
    return replace(last, program=stage, objective=value, bound=np.inf, status="time_limit", row_dual=None, passes=0)


def _floor_of(point: Point) -> float:
    """The value of an integer point, recomputed from its rounded integers so that no noise is kept as a row."""
    x = np.where(point.program.integer, np.rint(point.x), point.x)
    return point.program.objective(x)


def _rows_of(program: LinearProgram) -> dict[str, Any]:
    return {key: getattr(program, key) for key in ("A", "row_lower", "row_upper", "row_names")}


def _one_stage(program: LinearProgram, options: Options, violated: Violated | None) -> Point:
    """One objective, with lazy rows; a linear program stays warm in HiGHS while rows are added."""
    from hetopt.solving.backends import run

    warm = violated is not None and options.solver == "highs" and not program.integer.any()
    session = Session(program, options) if warm else None
    options.check_time()
    point, passes = session.solve() if session else run(program, options), 1
    seen: set[str] = set()  # a row within the solver's tolerance may look violated for ever
    while violated is not None and len(rows := violated(replace(point, asked_gap=options.gap))):
        if seen.issuperset(rows.names):
            break
        seen.update(rows.names)
        options.check_time()
        if session:
            session.add_rows(program.on_columns(rows), rows.lower, rows.upper, rows.names)
            point = session.solve()
        else:
            point = run(point.program.with_rows(rows), options)
        passes += 1
    return replace(_checked(point), passes=passes)


def _checked(point: Point) -> Point:
    """``point`` with the bound that its own duals prove, where the solver claims a better one."""
    if point.row_dual is None or point.program.integer.any():
        return point
    proven = point.program.dual_bound(point.row_dual)
    if proven - point.bound <= PROVEN * scale(point.bound, proven):
        return point
    return replace(point, bound=proven)
