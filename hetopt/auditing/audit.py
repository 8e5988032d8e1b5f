"""All properties of one allocation at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hetopt.auditing.fairness import envy_free, sharing_incentive
from hetopt.auditing.feasibility import adjacent_types, within_capacity
from hetopt.auditing.holdings import Result, holdings
from hetopt.auditing.pareto import pareto_efficient
from hetopt.auditing.strategy_proofness import NAME as STRATEGY_PROOF
from hetopt.auditing.strategy_proofness import strategy_proof
from hetopt.auditing.verdict import Verdict, undecided
from hetopt.checks import FrozenDict
from hetopt.data.instance import Instance
from hetopt.formulations.policies import Policy
from hetopt.tolerances import EQUAL


@dataclass(frozen=True, eq=False)
class Audit:
    """Verdicts on one allocation.

    Attributes
    ----------
    envy_free, sharing_incentive, pareto_efficient, strategy_proof, capacity, adjacent_types:
        One :class:`Verdict` each; those about (tenant, job type) pairs see each pair as a user of its own.
    by_tenant:
        Where a tenant has several job types: ``"envy_free (free reuse)"`` and so on, the verdicts on whole tenants,
        see :data:`~hetopt.auditing.holdings.Level`. Else empty.
    """

    envy_free: Verdict
    sharing_incentive: Verdict
    pareto_efficient: Verdict
    strategy_proof: Verdict
    capacity: Verdict
    adjacent_types: Verdict
    by_tenant: Mapping[str, Verdict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_tenant", FrozenDict(self.by_tenant))

    def __iter__(self) -> Iterator[tuple[str, Verdict]]:
        single = (
            self.envy_free,
            self.sharing_incentive,
            self.pareto_efficient,
            self.strategy_proof,
            self.capacity,
            self.adjacent_types,
        )
        yield from ((verdict.name, verdict) for verdict in single)
        yield from self.by_tenant.items()

    @property
    def table(self) -> pd.DataFrame:
        """A row per property: verdict in a word, slack, its unit, and the explanation."""
        rows = {
            name: (v.word, v.slack, v.unit, v.witness.explain() if v.witness is not None else v.why) for name, v in self
        }
        columns = ["verdict", "slack", "unit", "explanation"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("property")

    def as_dict(self) -> dict[str, Any]:
        """Property -> plain numbers and words, for JSON."""
        return {name: verdict.as_dict() for name, verdict in self}

    def __str__(self) -> str:
        return "\n".join(
            verdict.explain() if name == verdict.name else verdict.explain().replace(verdict.name, name, 1)
            for name, verdict in self
        )

    __repr__ = __str__


def audit(
    instance: Instance,
    result: Result,
    policy: Policy | None = None,
    *,
    exact: bool = False,
    tolerance: float = EQUAL,
    time_limited: bool | None = None,
    budget: int = 400,
    time_limit: float | None = None,
) -> Audit:
    """Judge a result from the instance's arrays and its shares alone; its certificate and model are not trusted.

    Parameters
    ----------
    instance:
        The truth.
    result:
        An :class:`~hetopt.Allocation`, a :class:`~hetopt.Plan`, or a table of shares (entities x GPU types).
    policy:
        What made it. Without it strategy-proofness is undecided, since that is a property of policies.
    exact:
        Decide everything but strategy-proofness in rational numbers, without tolerance. The allocation must have
        been solved with ``exact=True``.
    tolerance:
        Slack down to minus this counts as none.
    time_limited:
        Whether a gang runs at most all the time, so that more GPUs bring it nothing; None: jobs do, tenants have
        work for any number of GPUs. See :func:`~hetopt.auditing.holdings.holdings`.
    budget, time_limit:
        How often the policy may be asked in the search for misreports that pay, and seconds for it (None: no limit).

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInstance
        The result is about other entities or GPU types than the instance.
    InvalidOption
        ``exact`` where there are no exact shares.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> print(hetopt.audit(inst, [[0.5, 0], [0.5, 1]]).envy_free.witness.explain())
    u1 has 0.5 GPU1 and a rate of 0.5; with what u2 has, 0.5 GPU1 + 1 GPU2, it would have 2.5, 2 more
    """
    if policy is None:
        honest = undecided(STRATEGY_PROOF, "it is a property of the policy; give policy=…")
    else:
        honest = strategy_proof(
            instance, policy, budget=budget, tolerance=tolerance, time_limit=time_limit, time_limited=time_limited
        )
    return Audit(
        envy_free=envy_free(instance, result, exact=exact, tolerance=tolerance, time_limited=time_limited),
        sharing_incentive=sharing_incentive(
            instance, result, exact=exact, tolerance=tolerance, time_limited=time_limited
        ),
        pareto_efficient=pareto_efficient(
            instance, result, exact=exact, tolerance=tolerance, time_limited=time_limited
        ),
        strategy_proof=honest,
        capacity=within_capacity(instance, result, exact=exact, tolerance=tolerance),
        adjacent_types=adjacent_types(instance, result, exact=exact),
        by_tenant=_by_tenant(instance, result, exact, tolerance),
    )


def _by_tenant(instance: Instance, result: Result, exact: bool, tolerance: float) -> dict[str, Verdict]:
    """The same properties for whole tenants, where that is another question."""
    if holdings(instance, result, level="free reuse").names == holdings(instance, result).names:
        return {}
    verdicts: dict[str, Verdict] = {}
    for level in ("even split", "free reuse"):
        for check in (envy_free, sharing_incentive):
            verdict = check(instance, result, level=level, exact=exact, tolerance=tolerance)
            verdicts[f"{verdict.name} ({level})"] = verdict
    verdicts["pareto_efficient (free reuse)"] = pareto_efficient(
        instance, result, level="free reuse", exact=exact, tolerance=tolerance
    )
    return verdicts
