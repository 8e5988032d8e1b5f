"""Strategy-proofness: does no misreport pay?"""

from __future__ import annotations

import math
from typing import get_args

from hetopt.auditing.candidates import Scale
from hetopt.auditing.reports import Lie
from hetopt.auditing.search import Search, Worth
from hetopt.auditing.verdict import Verdict
from hetopt.checks import at_least
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy, check_policy
from hetopt.tolerances import EQUAL

KINDS: tuple[Lie, ...] = ("over", "under", "mixed", "coalition", "job type")
"""What is tried unless the user says otherwise."""


def strategy_proof(
    instance: Instance,
    policy: Policy,
    *,
    kinds: tuple[Lie, ...] = KINDS,
    budget: int = 400,
    liars: tuple[str, ...] | None = None,
    scale: Scale = "kept",
    worth: Worth = "free reuse",
    tolerance: float = EQUAL,
    time_limit: float | None = None,
    time_limited: bool | None = None,
) -> Verdict:
    """Search for a misreport that pays under ``policy``. **A search: it can refute, never prove.**

    ``holds`` is False with the best lie found as witness, or None ("not refuted"): no lie that was tried pays, which
    is no proof that none exists. ``searched`` says how many of each kind were tried. The search is deterministic:
    structured reports first (rows and ratios of the others and values just beside them, multiples, flat and steep
    rows), drawn in turn from all kinds and liars, then a pattern search around the best.

    Parameters
    ----------
    instance:
        The truth.
    policy:
        Anything callable as ``policy(instance, state=None) -> (Allocation | Plan, state)``; each report is answered
        from the policy's beginning.
    kinds:
        Kinds of lies to try, see :data:`~hetopt.auditing.reports.Lie`.
    budget:
        How often the policy may be asked.
    liars:
        Names of the tenants (or jobs) that may lie; all by default.
    scale:
        Whether reports are normalised, see :data:`~hetopt.auditing.candidates.Scale`.
    worth:
        ``"free reuse"``: each GPU of a tenant is worth its fastest true job type. ``"as allocated"``: each true job
        type uses what it was given, and what a fake is given is worth nothing. The same for one job type and no fake.
    tolerance:
        A gain up to this part of the rate with the whole cluster is noise.
    time_limit:
        Seconds after which no further report is tried, or None. Only with a limit may two runs differ.
    time_limited:
        What GPUs are worth to a liar, as in :func:`~hetopt.auditing.holdings.holdings`.

    Returns
    -------
    Verdict
        Slack: minus the largest gain over all lies tried, in parts of the liar's rate with the whole cluster (of a
        coalition: the gain of the member that gains least).

    Raises
    ------
    InvalidOption
        Unknown kind, scale or liar, a budget below 2, a negative time limit.
    """
    check_policy(policy)
    _check(kinds, scale, worth, budget)
    seconds = math.inf if time_limit is None else at_least(time_limit, "time_limit", 0.0, InvalidOption)
    search = Search(instance, policy, int(budget), scale, worth, seconds, time_limited)
    search.run(kinds, search.positions(liars))
    return search.verdict(tolerance)


def _check(kinds: tuple[Lie, ...], scale: str, worth: str, budget: float) -> None:
    at_least(budget, "budget", 2, InvalidOption)
    if isinstance(kinds, str):
        raise InvalidOption(f"kinds is {kinds!r}; it must be a sequence, e.g. ({kinds!r},)")
    for value, known, key in (
        *((kind, Lie, "kinds") for kind in kinds),
        (scale, Scale, "scale"),
        (worth, Worth, "worth"),
    ):
        if value not in get_args(known):
            raise InvalidOption(f"{key} has {value!r}; it must be one of {', '.join(get_args(known))}")
