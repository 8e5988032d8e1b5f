"""The papers' schedulers as they run: each policy with its rounds, its rounding and its placement.

Where a paper does not say how long a round is or who chooses servers, the comment says what is taken.
"""

from __future__ import annotations

from dataclasses import replace

from hetopt.models import gavel as gavel_policies
from hetopt.models import oef
from hetopt.models.allox import allox as allox_policy
from hetopt.models.baselines import isolated as equal_split_of_jobs
from hetopt.models.fft import FFT
from hetopt.models.gandiva_fair import gandiva_fair as gandiva_fair_policy
from hetopt.placement import HierarchicalPlacer, MoreWorkersFirst
from hetopt.programs.formulation import Formulation
from hetopt.rounding.priorities import ByPriority
from hetopt.rounding.whole_gpus import WholeGPUs
from hetopt.selection import LongestStarved
from hetopt.simulation.system import OnChange, System

GAVEL_ROUND = 360.0
"""Seconds of a round of Gavel, and of Hadar's comparison with it [Hadar, section IV]."""

OEF_ROUND = 300.0
"""Seconds of a round of OEF [OEF, section 6.1.1]."""


def fft(round_seconds: float = 300.0, restart_seconds: float = 0.0) -> System:
    """FFT: its integer program each round, and its hierarchical placement [FFT, sections 4.2, 4.3]."""
    return System(FFT(round_seconds, restart_seconds), placer=HierarchicalPlacer())


def _gavel(policy: Formulation, round_seconds: float) -> System:
    over_jobs = replace(policy, kind="jobs")
    return System(OnChange(over_jobs, round_seconds), rounder=ByPriority(), placer=MoreWorkersFirst(sticky=True))


def gavel(round_seconds: float = GAVEL_ROUND) -> System:
    """Gavel: max-min fairness over jobs, solved when jobs come or go, and its rounds by priority."""
    return _gavel(gavel_policies.max_min_fairness(), round_seconds)


def gavel_sjf(round_seconds: float = GAVEL_ROUND) -> System:
    """Gavel with the policy that is like shortest job first, with which FFT compares [FFT, section 6.1.4]."""
    return _gavel(gavel_policies.shortest_job_first(), round_seconds)


def gavel_ftf(round_seconds: float = GAVEL_ROUND) -> System:
    """Gavel with finish-time fairness."""
    return _gavel(gavel_policies.finish_time_fairness(), round_seconds)


def gavel_tenants(round_seconds: float = OEF_ROUND) -> System:
    """Gavel's max-min fairness among tenants, as OEF compares with it: same rounding, servers in order of arrival."""
    policy = replace(gavel_policies.max_min_fairness(tenant_gpus=1.0), kind="tenants")
    return _shared(policy, round_seconds)


def gandiva_fair(round_seconds: float = OEF_ROUND) -> System:
    """Gandiva_fair among tenants, as OEF compares with it."""
    return _shared(gandiva_fair_policy(), round_seconds)


def oef_cooperative(round_seconds: float = OEF_ROUND) -> System:
    """Cooperative OEF among tenants, its rounding and its placement [OEF, sections 4.2, 4.3]."""
    return _shared(oef.cooperative(), round_seconds)


def oef_noncooperative(round_seconds: float = OEF_ROUND) -> System:
    """Non-cooperative OEF among tenants, its rounding and its placement [OEF, sections 4.2, 4.3]."""
    return _shared(oef.noncooperative(), round_seconds)


def _shared(policy: object, round_seconds: float) -> System:
    steps = {"rounder": WholeGPUs(), "selection": LongestStarved(), "placer": MoreWorkersFirst()}
    return System.of(OnChange(policy, round_seconds), **steps)  # type: ignore[arg-type]


def allox() -> System:
    """AlloX at arrivals and completions, jobs of one demand; servers are filled as jobs come."""
    return System(allox_policy(), placer=MoreWorkersFirst(sticky=True))


def isolated() -> System:
    """Every job alone on its part 1/N of each GPU type, as a rate: what finish-time fairness compares with."""
    return System(equal_split_of_jobs(), fluid=True)
