"""Results of policies in fractions, and other optima of the same formulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, permutations
from typing import Any, TypeAlias

import numpy as np

from hetopt.auditing import Holdings, envy_free, holdings, sharing_incentive
from hetopt.data.array_types import Numbers
from hetopt.data.instance import Instance
from hetopt.data.rates import rate_with
from hetopt.data.rationals import exact_fractions, simple_fractions
from hetopt.errors import HetoptError, InvalidOption, InvalidPlan, NotLinear
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy, call_policy, solve
from hetopt.proofs.properties.policy_cases import PolicyCase
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import EQUAL

AnyPolicy: TypeAlias = Formulation | Policy


class Undecided(Exception):
    """The policy refuses the instance, or its result cannot be judged; the message gives the reason."""


@dataclass(frozen=True, eq=False)
class PolicyAnswer:
    """A policy's result in fractions.

    Attributes
    ----------
    result:
        The result that the policy returned.
    share:
        (n, k) fractions: the exact optimum of a formulation, or the returned floats.
    exact:
        Whether the share is the exact optimum of a formulation.
    not_comparable:
        Why the rates of the result are undefined: a gang runs on several GPU types or in copies, or the result exceeds
        the capacity; empty if it is defined.
    unique:
        Whether the formulation has no other optimum; True for policies that are not formulations.
    """

    result: Allocation | Plan
    share: Numbers
    exact: bool
    not_comparable: str = ""
    unique: bool = True

    def comparable(self) -> PolicyAnswer:
        """Return this answer if its rates are defined.

        Raises
        ------
        Undecided
            The rates of the result are not defined.
        """
        if self.not_comparable:
            raise Undecided(self.not_comparable)
        return self

    def held(self, instance: Instance) -> Holdings:
        """The GPUs of each entity and its rate by the speeds of ``instance``."""
        return holdings(instance, self.share, exact=True)


def ask_policy(policy: AnyPolicy, instance: Instance) -> PolicyAnswer:
    """Call a policy without a previous state, and convert its result to fractions.

    Raises
    ------
    Undecided
        The policy refuses the instance or finds no solution.
    InvalidOption
        The policy's code fails.
    InvalidPlan
        The result contains shares that are negative or not finite.
    """
    try:
        if isinstance(policy, Formulation):
            return _solved(policy, instance)
        result = call_policy(policy, instance)[0]
    except InvalidPlan:
        raise
    except HetoptError as problem:
        raise Undecided(str(problem)) from None
    except (Exception, SystemExit) as problem:  # the code of another package may fail in any way
        name = getattr(policy, "__name__", type(policy).__name__)
        raise InvalidOption(f"policy {name} fails on an instance: {type(problem).__name__}: {problem}") from problem
    x = result.x / result.entities.demand[:, None] if isinstance(result, Plan) else result.x
    share = within_capacity(instance, exact_fractions(np.asarray(x, dtype=float)))
    return PolicyAnswer(result, share, exact=False, not_comparable=_why_not_comparable(instance, result, share))


def _why_not_comparable(instance: Instance, result: Allocation | Plan, share: Numbers) -> str:
    """The reason for undefined rates; empty if the rates are defined."""
    try:
        holdings(instance, result)
    except InvalidPlan as problem:
        return str(problem)
    entities = instance.entities()
    used = (share * simple_fractions(entities.demand)[:, None]).sum(axis=0)
    if any(u > m for u, m in zip(used, simple_fractions(entities.capacity), strict=True)):
        return "the allocation is not possible: it uses more GPUs than the cluster has"
    return ""


def within_capacity(instance: Instance, share: Numbers) -> Numbers:
    """Remove rounding errors of a solver: negative shares, and more than the capacity or the whole time.

    Raises
    ------
    InvalidPlan
        A share is below 0 by more than rounding.
    """
    entities = instance.entities()
    if (share < -Fraction(EQUAL)).any():
        raise InvalidPlan("the policy returns a share below 0")
    share = share * (share > 0)  # True counts as 1
    demand, capacity = simple_fractions(entities.demand), simple_fractions(entities.capacity)
    if entities.kind == "jobs":
        share = share * _shrunk(share.sum(axis=1), [Fraction(1)] * len(share))[:, None]
    return np.asarray(share * _shrunk((share * demand[:, None]).sum(axis=0), capacity), dtype=object)


def _shrunk(used: Iterable[Fraction], most: Iterable[Fraction]) -> Numbers:
    """Factors that reduce each use to ``most`` if it exceeds ``most`` by rounding only."""
    over = [m / u if m < u <= m * (1 + Fraction(EQUAL)) else Fraction(1) for m, u in zip(most, used, strict=True)]
    return np.array(over, dtype=object)


def _solved(formulation: Formulation, instance: Instance) -> PolicyAnswer:
    try:
        result = solve(formulation, instance, exact=True)
    except (InvalidOption, NotLinear):  # integers or tangents: no exact optimum is available
        result = solve(formulation, instance)
        return PolicyAnswer(result, within_capacity(instance, exact_fractions(result.x)), exact=False)
    found = result.certificate.exact
    assert found is not None
    assert found.share is not None
    return PolicyAnswer(result, found.share, exact=True, unique=found.unique is True)


def at_true_owners(truth: Instance, reported_instance: Instance, answer: PolicyAnswer) -> PolicyAnswer:
    """The answer to a misreport, assigned to the true entities; GPUs of a false job type go to the true job type."""
    entities, reported = truth.entities(), reported_instance.entities()
    gpus = answer.share * simple_fractions(reported.demand)[:, None]
    own = np.array([gpus[reported.owner == e].sum(axis=0) for e in range(len(entities.names))])
    return replace(answer, share=own / simple_fractions(entities.demand)[:, None])


def true_rates(truth: Instance, answer: PolicyAnswer) -> list[Fraction]:
    """The rate of each entity at its true speeds."""
    entities = truth.entities()
    demand = simple_fractions(entities.demand)
    most = demand if entities.kind == "jobs" else None
    return list(rate_with(simple_fractions(entities.per_gpu), answer.share * demand[:, None], most))


Weights = Sequence[Sequence[Fraction]]
"""(n, k) weight of each share."""


class UndecidedTie(Undecided):
    """The property fails for the returned optimum, but may hold for another optimum."""

    def __init__(self) -> None:
        super().__init__("it fails for the returned optimum, but may hold for another one")


@dataclass(frozen=True)
class TieBreaker:
    """A component that selects one of several optima: its gain, maximised last, is a weighted sum of the shares."""

    weights: tuple[tuple[float, ...], ...]
    priority: int = -100
    name: str = "last"

    def add(self, block: Any, model: Any) -> Any:
        """Return the gain."""
        return model.weighted_shares(np.array(self.weights))


def most_favourable(policy: AnyPolicy, instance: Instance, answer: PolicyAnswer, weights: Weights) -> PolicyAnswer:
    """The optimum with the largest weighted sum of shares; ``answer`` itself if it is the only optimum."""
    if answer.unique or not isinstance(policy, Formulation):
        return answer
    rows = tuple(tuple(map(float, row)) for row in weights)
    return replace(ask_policy(policy + TieBreaker(rows), instance).comparable(), unique=False)


def own_speeds(case: PolicyCase, owner: Iterable[int], e: int, sign: int = 1) -> Weights:
    """Weights that are the speeds of ``e`` in the rows that it owns, and 0 elsewhere."""
    return [[sign * v * (int(o) == e) for v in case.speed[e]] for o in owner]


def failing_optimum(judge: Any, case: PolicyCase, policy: AnyPolicy, answer: PolicyAnswer) -> PolicyAnswer:
    """An optimum for which an audit fails, if it fails for all optima.

    Raises
    ------
    UndecidedTie
        The audit may hold for another optimum.
    """
    if answer.unique:
        return answer
    if case.kind == "tenants":
        for weights, least in _conditions(judge, case):
            other = most_favourable(policy, case.instance, answer, weights)
            if _weighted_sum(weights, other.share) < least:
                return other
    raise UndecidedTie


def _conditions(judge: Any, case: PolicyCase) -> Iterator[tuple[Weights, Fraction]]:
    """Pairs (weights, least weighted sum) that every allocation with the property satisfies."""
    n = len(case.speed)
    if judge is envy_free:
        for one, other in permutations(range(n), 2):
            yield [[v * ((o == one) - (o == other)) for v in case.speed[one]] for o in range(n)], Fraction(0)
    if judge is sharing_incentive:
        for one in range(n):
            whole = sum((v * m for v, m in zip(case.speed[one], case.gpus, strict=True)), Fraction(0))
            yield own_speeds(case, range(n), one), whole / n


def _weighted_sum(weights: Weights, share: Any) -> Fraction:
    pairs = zip(chain(*weights), share.ravel(), strict=True)
    return sum((w * x for w, x in pairs), Fraction(0))
