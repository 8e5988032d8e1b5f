"""The papers' complete schedulers: each policy with its rounds, rounding and placement.

Where a paper does not specify the length of a round or the placement, a comment states the choice made here.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hetopt.checks import at_least
from hetopt.decisions.placers import MoreWorkersFirst
from hetopt.decisions.rounders import ByPriority, WholeGPUs
from hetopt.decisions.selection import LongestStarved
from hetopt.decisions.system import GAVEL_ROUND_SECONDS, ROUND_SECONDS, OnChange, System
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy
from hetopt.models import gavel as gavel_policies
from hetopt.models import oef
from hetopt.models.allox import allox as allox_policy
from hetopt.models.baselines import equal_split
from hetopt.models.baselines import isolated as equal_split_of_jobs
from hetopt.models.fft import FFT
from hetopt.models.gandiva_fair import gandiva_fair as gandiva_fair_policy
from hetopt.models.gavel.centred import Centred, FinishTimeFairness
from hetopt.models.queues import FIFO
from hetopt.models.shockwave import Shockwave
from hetopt.models.shockwave.shockwave_components import ROUND_SECONDS as SHOCKWAVE_ROUND_SECONDS
from hetopt.models.shockwave.shockwave_policy import OPTIONS as SHOCKWAVE_OPTIONS
from hetopt.models.sia import Sia
from hetopt.models.sia.sia_policy import ROUND_SECONDS as SIA_ROUND_SECONDS
from hetopt.models.tesserae import Tesserae
from hetopt.models.tesserae import tesserae_ftf as tesserae_ftf_policy
from hetopt.plugins import PLACERS
from hetopt.solving.options import DEFAULT, Options

OEF_PLACER = "more-workers-first"
"""OEF's own [OEF, section 4.3]."""


def fft(
    round_seconds: float = ROUND_SECONDS,
    restart_seconds: float = 0.0,
    placer: str = "hierarchical",
    options: Options = DEFAULT,
) -> System:
    """FFT: its integer program each round, and its hierarchical placement [FFT, sections 4.2, 4.3].

    ``placer`` is the name of a registered placer, or ``module:Name`` of a user's placer; ``options`` are those of the
    solver, such as its gap.
    """
    return System(FFT(round_seconds, restart_seconds, options=options), placer=PLACERS.make(placer))


# Gavel over jobs. `allocation_seconds` is the least time between two computations of shares, in which new jobs wait:
# 1920 in Gavel's simulator, 0 in its scheduler of real clusters.


def _gavel(policy: Policy, round_seconds: float, allocation_seconds: float, fill: bool = True) -> System:
    at_least(allocation_seconds, "allocation_seconds", 0.0, InvalidOption)
    shares = OnChange(policy, round_seconds, least_seconds=allocation_seconds)
    return System(shares, rounder=ByPriority(fill), placer=MoreWorkersFirst(sticky=True))


def gavel(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0) -> System:
    """Gavel: max-min fairness over jobs, with rounds by priority."""
    return _gavel(Centred(replace(gavel_policies.max_min_fairness(), kind="jobs")), round_seconds, allocation_seconds)


def gavel_packing(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0) -> System:
    """Gavel with space sharing: max-min fairness over jobs that run alone or in pairs on the same GPUs."""
    return _gavel(gavel_policies.max_min_packing(), round_seconds, allocation_seconds)


def gavel_water_filling(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0) -> System:
    """Gavel with water filling: the least ratio, then the next, and so on."""
    return _gavel(gavel_policies.WaterFilling(kind="jobs"), round_seconds, allocation_seconds)


def gavel_ftf(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0) -> System:
    """Gavel with finish-time fairness."""
    return _gavel(FinishTimeFairness(), round_seconds, allocation_seconds)


def gavel_makespan(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0) -> System:
    """Gavel with the least makespan of the present jobs."""
    return _gavel(Centred(gavel_policies.makespan()), round_seconds, allocation_seconds)


def gavel_sjf(round_seconds: float = GAVEL_ROUND_SECONDS, allocation_seconds: float = 0.0, fill: bool = True) -> System:
    """Gavel with its shortest-job-first-like policy, a baseline of FFT [FFT, section 6.1.4].

    Without ``fill``, jobs do not run on types on which they have no share.
    """
    return _gavel(gavel_policies.shortest_job_first(), round_seconds, allocation_seconds, fill)


def gavel_fifo(round_seconds: float = GAVEL_ROUND_SECONDS) -> System:
    """Gavel's FIFO: in each round, jobs in order of arrival get their fastest type with room, until one has none.

    As in Gavel's code, without shares; its linear program is :func:`hetopt.models.gavel.gavel_policies.fifo`.
    """
    return System(FIFO(round_seconds, moves=True), placer=MoreWorkersFirst(sticky=True))


def shockwave(
    round_seconds: float = SHOCKWAVE_ROUND_SECONDS,
    window_rounds: int = 20,
    makespan_weight: float = 1e-3,
    power: float = 12.0,
    options: Options = SHOCKWAVE_OPTIONS,
) -> System:
    """Shockwave; its public code places jobs as that of Gavel, from which it derives."""
    policy = Shockwave(round_seconds, window_rounds, makespan_weight=makespan_weight, power=power, options=options)
    return System(policy, placer=MoreWorkersFirst(sticky=True))


# Tesserae does not print the length of a round; Gavel's is taken, with which it is compared.


def tesserae(round_seconds: float = GAVEL_ROUND_SECONDS, least: float = 1.0, placer: str = "matching") -> System:
    """Tesserae-T: Tiresias' order, waiting jobs packed beside running ones, and few migrations, by matchings.

    ``least``: pairs must have a larger sum of normalised throughputs; ``placer`` is the name of a registered placer.
    """
    return System(Tesserae(least=least, round_seconds=round_seconds), placer=PLACERS.make(placer))


def tesserae_ftf(round_seconds: float = GAVEL_ROUND_SECONDS, least: float = 1.0, placer: str = "matching") -> System:
    """Tesserae-FTF: as Tesserae-T, with the jobs of the worst finish-time fairness first."""
    policy = replace(tesserae_ftf_policy(), least=least, round_seconds=round_seconds)
    return System(policy, placer=PLACERS.make(placer))


# Sharing among tenants. `placer` is one of PLACERS; with `mix`, a gang that fits on no single type of its tenant's GPUs
# may use several types, at the speed of the slowest [OEF, section 4.4]; with `lend`, waiting jobs of any tenant borrow
# GPUs that would be idle, which no paper does.


def gavel_tenants(
    round_seconds: float = ROUND_SECONDS,
    placer: str = OEF_PLACER,
    mix: bool = False,
    lend: bool = False,
    tenant_gpus: float = math.inf,
) -> System:
    """Gavel's max-min fairness among tenants, a baseline of OEF, with OEF's rounding and placement.

    A tenant has at most ``tenant_gpus``. The 1 of [OEF, eq. 3] fits its example, where a tenant has one job on one GPU;
    for tenants with more jobs it would leave GPUs idle.
    """
    policy = replace(gavel_policies.max_min_fairness(tenant_gpus=tenant_gpus), kind="tenants")
    return _shared(policy, round_seconds, placer, mix, lend)


def gandiva_fair(
    round_seconds: float = ROUND_SECONDS, placer: str = OEF_PLACER, mix: bool = False, lend: bool = False
) -> System:
    """Gandiva_fair among tenants, a baseline of OEF, with OEF's rounding and placement."""
    return _shared(gandiva_fair_policy(), round_seconds, placer, mix, lend)


def equal_split_tenants(
    round_seconds: float = ROUND_SECONDS, placer: str = OEF_PLACER, mix: bool = False, lend: bool = False
) -> System:
    """Equal division of every GPU type among tenants, which OEF calls max-min [OEF, section 2.3.3]."""
    return _shared(equal_split(), round_seconds, placer, mix, lend)


def oef_cooperative(
    round_seconds: float = ROUND_SECONDS, placer: str = OEF_PLACER, mix: bool = False, lend: bool = False
) -> System:
    """Cooperative OEF among tenants, its rounding and its placement [OEF, sections 4.2, 4.3]."""
    return _shared(oef.cooperative(), round_seconds, placer, mix, lend)


def oef_noncooperative(
    round_seconds: float = ROUND_SECONDS, placer: str = OEF_PLACER, mix: bool = False, lend: bool = False
) -> System:
    """Non-cooperative OEF among tenants, its rounding and its placement [OEF, sections 4.2, 4.3]."""
    return _shared(oef.noncooperative(), round_seconds, placer, mix, lend)


def _shared(policy: Policy, round_seconds: float, placer: str, mix: bool, lend: bool) -> System:
    return System(
        OnChange(policy, round_seconds),
        rounder=WholeGPUs(),
        selection=LongestStarved(mix, lend),
        placer=PLACERS.make(placer),
    )


def allox() -> System:
    """AlloX at arrivals and completions, for jobs of one demand; servers are filled as jobs arrive."""
    return System(allox_policy(), placer=MoreWorkersFirst(sticky=True))


def sia(
    round_seconds: float = SIA_ROUND_SECONDS,
    power: float = -0.5,
    penalty: float = 1.1,
    restart_seconds: float = 30.0,
    growth: float = 2.0,
    placer: str = "hierarchical",
) -> System:
    """Sia: its integer program each round; jobs keep their servers, and are moved together where they are spread."""
    return System(Sia(round_seconds, power, penalty, restart_seconds, growth), placer=PLACERS.make(placer))


def isolated() -> System:
    """Every job on its own fraction 1/N of each GPU type, as a rate: the reference of finish-time fairness."""
    return System(equal_split_of_jobs(), fluid=True)
