"""Formulations with several optima: what holds or fails for all of them, by a last objective that picks the kindest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, permutations
from typing import Any

import numpy as np

from hetopt.auditing import envy_free, sharing_incentive
from hetopt.data.instance import Instance
from hetopt.formulations.formulation import Formulation
from hetopt.proofs.properties.asking import Answer, Asked, Undecided, answered
from hetopt.proofs.properties.cases import Posed

Weights = Sequence[Sequence[Fraction]]
"""(n, k), one for each share."""


class Tied(Undecided):
    """The property fails for the optimum that was returned, and perhaps not for another."""

    def __init__(self) -> None:
        super().__init__("it fails for the optimum that was returned, and perhaps not for another one")


@dataclass(frozen=True)
class Last:
    """gain = sum of weight * share, maximised after everything else: of several optima the one that has most of it."""

    weights: tuple[tuple[float, ...], ...]
    priority: int = -100
    name: str = "last"

    def add(self, block: Any, model: Any) -> Any:
        """The gain."""
        return model.weighted_shares(np.array(self.weights))


def kindest(policy: Asked, instance: Instance, answer: Answer, weights: Weights) -> Answer:
    """Of all optima one with the largest weighted sum of shares; ``answer`` itself where there is no other."""
    if answer.unique or not isinstance(policy, Formulation):
        return answer
    rows = tuple(tuple(map(float, row)) for row in weights)
    return replace(answered(policy + Last(rows), instance).judged(), unique=False)


def only(case: Posed, owner: Iterable[int], e: int, sign: int = 1) -> Weights:
    """The speeds of ``e`` in its own rows, 0 elsewhere."""
    return [[sign * v * (int(o) == e) for v in case.speed[e]] for o in owner]


def failing(judge: Any, case: Posed, policy: Asked, answer: Answer) -> Answer:
    """An optimum for which a property of one allocation fails because it does for all of them.

    Raises
    ------
    Tied
        Nothing shows that it fails for all.
    """
    if answer.unique:
        return answer
    if case.kind == "tenants":
        for weights, least in _conditions(judge, case):
            other = kindest(policy, case.instance, answer, weights)
            if _sum(weights, other.share) < least:
                return other
    raise Tied


def _conditions(judge: Any, case: Posed) -> Iterator[tuple[Weights, Fraction]]:
    """Weighted sums that are as large as said where the property holds."""
    n = len(case.speed)
    if judge is envy_free:
        for one, other in permutations(range(n), 2):
            yield [[v * ((o == one) - (o == other)) for v in case.speed[one]] for o in range(n)], Fraction(0)
    if judge is sharing_incentive:
        for one in range(n):
            whole = sum((v * m for v, m in zip(case.speed[one], case.gpus, strict=True)), Fraction(0))
            yield only(case, range(n), one), whole / n


def _sum(weights: Weights, share: Any) -> Fraction:
    pairs = zip(chain(*weights), share.ravel(), strict=True)
    return sum((w * x for w, x in pairs), Fraction(0))
