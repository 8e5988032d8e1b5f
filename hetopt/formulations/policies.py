"""Policies, and solving a formulation or running a policy for an instance."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import signature
from typing import Any, Protocol, overload, runtime_checkable

from hetopt.checks import choices, expect, shown
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.formulations.formulation import Formulation
from hetopt.results.allocation import Allocation, Plan
from hetopt.solving.options import DEFAULT, Options


@runtime_checkable
class Policy(Protocol):
    """Decides the current allocation: a frozen dataclass whose fields are its settings.

    It returns its state, which the caller passes to the next call. A policy that has more to declare than the defaults
    of :class:`~hetopt.Traits` has an attribute ``traits``.
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
    """Solve a formulation, or run a policy once from its initial state.

    Parameters
    ----------
    what:
        A :class:`Formulation` or a policy.
    instance:
        The data.
    options, settings:
        An :class:`Options`, and single settings that override it (``exact=True``, ``time_limit=5``). A policy that
        solves a program each round then solves that of its first round, with the program's own entities (Sia: gangs);
        others have options of their own.

    Returns
    -------
    Allocation | Plan

    Raises
    ------
    NotSolved
        No usable solution; the error names the conflicting rows of an infeasible program.
    InvalidPlan
        The policy does not return a result and its state.
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
    if not isinstance(what, Formulation):
        check_policy(what)
    expect(Instance, instance, "instance")
    if isinstance(what, Formulation):
        return what.solve(instance, _options(options, settings))
    if (options is not None or settings) and (stated := program_of(what, instance)) is not None:
        return stated[0].solve(stated[1], _options(options, settings))
    if options is not None or settings:
        hint = "leave out the options of the solver, exact and certificate among them"
        if isinstance(getattr(what, "options", None), Options):
            hint = "options of its own solver are its setting options={gap: 0.01}, for instance"
        raise InvalidOption(f"{type(what).__name__} is a procedure, not a program for a solver; {hint}")
    return call_policy(what, instance)[0]


def program_of(policy: Policy, instance: Instance, state: Any = None) -> tuple[Formulation, Instance] | None:
    """The program of a policy's round that begins with ``state``, and its data; None: the policy is a procedure.

    The data of Sia and Shockwave are other instances: of gangs, and of rounds.
    """
    if (make := getattr(policy, "formulation", None)) is not None:
        return expect(Formulation, make(instance, state), "the policy's formulation"), instance
    if (make := getattr(policy, "program", None)) is not None:
        formulation, data = make(instance, state)
        return expect(Formulation, formulation, "the policy's program"), expect(Instance, data, "the policy's data")
    return None


def call_policy(policy: Policy, instance: Instance, *state: Any) -> tuple[Allocation | Plan, Any]:
    """Call ``policy``; return the result, and the state for the next call.

    Raises
    ------
    InvalidPlan
        The policy returns something else.
    """
    answer: Any = policy(instance, *state)
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Allocation | Plan)):
        name = getattr(policy, "__name__", type(policy).__name__)
        raise InvalidPlan(
            f"policy {name} returned {shown(answer)}; it must return a pair: an Allocation or Plan, and its state"
        )
    return answer


def check_policy(what: object) -> None:
    """Raise :class:`InvalidOption` for an object that is not a policy."""
    if not callable(what):
        hint = "; hetopt.registry.make_policy finds one by name" if isinstance(what, str) else ""
        raise InvalidOption(
            f"is {shown(what)}; it must be a policy, such as hetopt.models.oef.cooperative(){hint}", "policy"
        )
    if isinstance(what, type):
        raise InvalidOption(f"is the class {what.__name__}; give an instance of it: {what.__name__}()", "policy")
    try:
        signature(what).bind(None)
    except ValueError:  # some callables written in C have no signature
        return
    except TypeError:
        name = getattr(what, "__name__", type(what).__name__)
        raise InvalidOption(f"{name} does not accept an instance; if it returns a policy, give {name}()") from None


def _options(options: Options | None, settings: dict[str, Any]) -> Options:
    given = DEFAULT if options is None else expect(Options, options, "options", InvalidOption)
    if not settings:
        return given
    known = [f.name for f in fields(Options) if f.repr]
    if bad := sorted(set(settings) - set(known)):
        raise InvalidOption(f"is no option; {choices(bad[0], known)}", bad[0])
    return replace(given, **settings)
