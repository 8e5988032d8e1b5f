"""A scheduling system: a policy with the steps around it, ready to run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hetopt.checks import at_least
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.decisions.job_rates import Speeds
from hetopt.decisions.placement import Placer
from hetopt.decisions.selection import LongestStarved, Selection
from hetopt.decisions.steps import Pipeline
from hetopt.decisions.whole_gpus import ByKind, Rounder
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy, ask, check_policy
from hetopt.results.allocation import Allocation, Plan


@dataclass(frozen=True)
class System:
    """What a paper calls a scheduler: who decides, how often, and how the decision becomes jobs on servers.

    Parameters
    ----------
    policy:
        Decides.
    round_seconds:
        Length of a round; None: the policy's attribute of that name, else decisions at arrivals and completions.
    rounder, selection, placer:
        As in :func:`hetopt.simulate`.
    fluid:
        Run shares of jobs as rates.

    Raises
    ------
    InvalidOption
        What is no policy, or a length that is not positive.
    """

    policy: Policy
    round_seconds: float | None = None
    rounder: Rounder | None = None
    selection: Selection | None = None
    placer: Placer | None = None
    fluid: bool = False

    def __post_init__(self) -> None:
        check_policy(self.policy)
        if self.round_seconds is not None:
            at_least(self.round_seconds, "System.round_seconds", 0.0, InvalidOption, strict=True)
        for key in ("rounder", "selection", "placer"):
            if isinstance(step := getattr(self, key), type):
                raise InvalidOption(f"{key} is the class {step.__name__}; give one of it: {step.__name__}()")

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation | Plan, Any]:
        """What its policy decides, before the steps that follow."""
        return ask(self.policy, instance, state)

    @property
    def seconds(self) -> float | None:
        """Length of a round, the policy's where there is no own; None: at events."""
        own = getattr(self.policy, "round_seconds", None) if self.round_seconds is None else self.round_seconds
        return None if own is None else at_least(own, "round_seconds", 0.0, InvalidOption, strict=True)

    def pipeline(self, speeds: Speeds) -> Pipeline:
        """The policy and its steps, for jobs as fast as ``speeds`` say."""
        steps = (self.rounder or ByKind(), self.selection or LongestStarved(), self.placer)
        return Pipeline(self.policy, *steps, rounds=self.seconds is not None, fluid=self.fluid, speeds=speeds)

    @classmethod
    def of(cls, what: Policy | System, **settings: Any) -> System:
        """``what`` as a system; settings that are not None (and ``fluid=True``) override its own."""
        given = {key: value for key, value in settings.items() if value is not None and value is not False}
        if isinstance(what, System):
            return replace(what, **given)
        return cls(what, **given)


@dataclass(frozen=True)
class Kept:
    """What :class:`OnChange` remembers: for whom and on what the result was found, the result, the policy's state."""

    names: tuple[str, ...]
    cluster: Cluster
    speed: Floats = field(repr=False)
    result: Allocation | Plan
    state: Any = field(repr=False)


@dataclass(frozen=True)
class OnChange:
    """Ask a policy again only when someone has come or gone, or the cluster has changed, as Gavel does.

    In the rounds between, its last result holds; a rounder goes on sharing it in time. What changes without anyone
    coming or going (the work left, the time) is not seen until then; on which GPU types who can run is.

    Parameters
    ----------
    policy:
        A formulation or any policy.
    round_seconds:
        Length of a round in seconds; None: what ``policy`` says, if it says anything.
    factor:
        Ask again, too, when a speed has become so many times what it was, or that part of it; None: never.

    Raises
    ------
    InvalidOption
        What is no policy.
    """

    policy: Policy
    round_seconds: float | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        check_policy(self.policy)
        if self.factor is not None:
            at_least(self.factor, "OnChange.factor", 1.0, InvalidOption)
        if self.round_seconds is None:
            object.__setattr__(self, "round_seconds", getattr(self.policy, "round_seconds", None))
        else:
            at_least(self.round_seconds, "OnChange.round_seconds", 0.0, InvalidOption, strict=True)

    def __call__(self, instance: Instance, state: Kept | None = None) -> tuple[Allocation | Plan, Kept]:
        """The policy's result, new or kept."""
        now = instance.entities("jobs" if instance.jobs else "tenants")
        same = state is not None and state.cluster == instance.cluster and state.names == now.names
        if state is not None and same and self._alike(state.speed, now.speed):
            return state.result, state
        result, own = ask(self.policy, instance, None if state is None else state.state)
        kept = Kept(now.names, instance.cluster, now.speed, result, own)
        return result, kept

    def _alike(self, before: Floats, after: Floats) -> bool:
        if np.array_equal(before, after):
            return True
        runs = before > 0
        if not np.array_equal(runs, after > 0):
            return False
        ratio = after[runs] / before[runs]
        return self.factor is None or bool(np.all((ratio < self.factor) & (ratio * self.factor > 1)))
