"""Tesserae (2025): jobs that wait are packed beside jobs that run, by matching.

Bian, Agarwal, Mahmood, Venkataraman: Tesserae: Scalable Placement Policies for Deep Learning Workloads,
arXiv:2508.04953. From its abstract and public descriptions of it; choices made here are marked as such in
``docs/models/tesserae.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from hetopt.checks import at_least, check_round_seconds, expect
from hetopt.data.array_types import Floats, Positions
from hetopt.data.instance import Instance
from hetopt.decisions.system import GAVEL_ROUND_SECONDS, with_settings
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy, call_policy, check_policy
from hetopt.formulations.traits import Traits, traits_of
from hetopt.models.queues.themis import FinishTimeQueue
from hetopt.models.queues.tiresias import Tiresias
from hetopt.results.allocation import Plan
from hetopt.tolerances import EQUAL


@dataclass(frozen=True)
class TesseraeState:
    """State of Tesserae between calls.

    Attributes
    ----------
    policy:
        State of the policy that places jobs.
    packed:
        Pairs of the last plan.
    """

    policy: Any = None
    packed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Tesserae:
    """Pack jobs that another policy lets wait beside jobs that it runs: a matching of maximum weight [Tesserae].

    The policy decides which jobs run, and on which GPU type. Then a job that waits may share the GPUs of one that runs:
    the pairs are a matching between the two, the sum of whose weights is largest. The weight of a pair is the sum of
    the parts of their isolated rates that both keep (their normalised throughputs). Both need packings and gangs of the
    same size, see :func:`~hetopt.data.pairs.packable_pairs`.

    Parameters
    ----------
    policy:
        Returns plans over jobs without servers. Default: Tiresias' two-dimensional LAS, as in Tesserae-T; a job that
        starts takes its fastest type with room.
    least:
        Pairs must have a larger weight. The job that runs has weight 1 alone.
    round_seconds:
        Length of a round in seconds, also of ``policy``.

    Raises
    ------
    InvalidOption
        ``policy`` is not a policy, or a number is out of its range. When called: it does not return such plans.
    """

    policy: Policy = field(default_factory=lambda: Tiresias(types="fastest"))
    least: float = 1.0
    round_seconds: float = GAVEL_ROUND_SECONDS

    def __post_init__(self) -> None:
        check_policy(self.policy)
        at_least(self.least, "Tesserae.least", 0.0, InvalidOption)
        check_round_seconds(self)
        object.__setattr__(self, "policy", with_settings(self.policy, round_seconds=self.round_seconds))

    @property
    def traits(self) -> Traits:
        """It decides in rounds; GPUs idle as under the other policy."""
        return Traits(self.round_seconds, idles=traits_of(self.policy).idles)

    def __call__(self, instance: Instance, state: TesseraeState | None = None) -> tuple[Plan, TesseraeState]:
        """The plan of the round that begins now, and the next state."""
        last = TesseraeState() if state is None else expect(TesseraeState, state, "state", InvalidOption)
        plan, inner = call_policy(self.policy, instance, last.policy)
        if not isinstance(plan, Plan) or plan.entities.kind != "jobs" or plan.placement is not None or plan.packed:
            raise InvalidOption(
                f"{type(self.policy).__name__} must return plans over jobs, without servers and pairs",
                "Tesserae.policy",
            )
        jobs = plan.entities
        pairs, kind, weight = self._candidates(plan)
        stays = {*last.packed, *(pair[::-1] for pair in last.packed)}
        again = [(jobs.names[i], jobs.names[j]) in stays for i, j in pairs.tolist()]
        chosen = heaviest_matching(pairs, weight + EQUAL * np.array(again, dtype=float))
        x = plan.x.copy()
        for (runs, waits), k in zip(pairs[chosen].tolist(), kind[chosen].tolist(), strict=True):
            x[runs, k] = x[waits, k] = plan.x[runs, k] / 2
        packed = tuple((jobs.names[i], jobs.names[j]) for i, j in pairs[chosen].tolist())
        return replace(plan, x=x, packed=packed), TesseraeState(inner, packed)

    def _candidates(self, plan: Plan) -> tuple[Positions, Positions, Floats]:
        """(c, 2) a job that runs and one that waits, (c,) their GPU type, and (c,) weight."""
        jobs, all_pairs = plan.entities, plan.entities.pairs
        kind = plan.x.argmax(axis=1)
        runs = plan.x[np.arange(len(kind)), kind] == jobs.demand
        waits = ~plan.x.any(axis=1) & (jobs.source.job_array("work_left") > 0)
        first, second = all_pairs.jobs.T
        pairs = np.where((waits[first] & runs[second])[:, None], all_pairs.jobs[:, ::-1], all_pairs.jobs)
        on = kind[pairs[:, 0]]
        parts = all_pairs.parts[np.arange(len(pairs)), :, on]
        weight = parts.sum(axis=1)
        good = runs[pairs[:, 0]] & waits[pairs[:, 1]] & (parts > 0).all(axis=1) & (weight > self.least)
        return pairs[good], on[good], weight[good]


def heaviest_matching(pairs: Positions, weight: Floats) -> list[int]:
    """Positions of the pairs of a bipartite matching with the largest sum of weights, in order.

    Parameters
    ----------
    pairs:
        (c, 2) members of the two sides.
    weight:
        (c,) weights above 0.
    """
    if not len(pairs):
        return []
    (left, row), (right, column) = (np.unique(side, return_inverse=True) for side in pairs.T)
    table = np.zeros((len(left), len(right)))
    table[row, column] = weight
    at = np.full(table.shape, -1)
    at[row, column] = np.arange(len(pairs))
    found = at[linear_sum_assignment(table, maximize=True)]
    return sorted(found[found >= 0].tolist())


def tesserae_ftf() -> Tesserae:
    """Tesserae-FTF: the jobs with the worst finish-time fairness first, as Themis estimates it [Tesserae]."""
    return Tesserae(FinishTimeQueue())
