"""Audit all properties of one allocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from hetopt.auditing.audited_holdings import Holdings, Result, holdings
from hetopt.auditing.fairness import envy_verdict, sharing_verdict
from hetopt.auditing.feasibility import adjacency_verdict, capacity_verdict
from hetopt.auditing.pareto import pareto_verdict
from hetopt.auditing.strategy_proofness import strategy_proof
from hetopt.auditing.verdict import AuditProperty, Verdict, undecided
from hetopt.checks import FrozenDict
from hetopt.data.instance import Instance
from hetopt.display import Displayed
from hetopt.formulations.policies import Policy
from hetopt.tolerances import EQUAL


@dataclass(frozen=True, eq=False)
class Audit(Displayed):
    """Verdicts on one allocation.

    Attributes
    ----------
    envy_free, sharing_incentive, pareto_efficient, strategy_proof, capacity, adjacent_types:
        One :class:`Verdict` each; each (tenant, job type) pair counts as a separate user.
    by_tenant:
        Where a tenant has several job types: label (``"envy_free (free reuse)"`` …) -> verdict on whole tenants, see
        :data:`~hetopt.auditing.verdict.Level`; undecided with ``demand_limited=True``. Else empty.
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
        single = [getattr(self, name) for name in AuditProperty]
        yield from ((verdict.label, verdict) for verdict in (*single, *self.by_tenant.values()))

    @property
    def table(self) -> pd.DataFrame:
        """A row per property: verdict, slack with unit, and explanation."""
        rows = {name: (v.word, v.slack, v.unit, v.reason) for name, v in self}
        columns = ["verdict", "slack", "unit", "explanation"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("property")

    def as_dict(self) -> dict[str, Any]:
        """Property -> plain numbers and words, for JSON."""
        return {name: verdict.as_dict() for name, verdict in self}

    def __str__(self) -> str:
        return "\n".join(verdict.explain() for _, verdict in self)

    __repr__ = __str__


def audit(
    instance: Instance,
    result: Result,
    policy: Policy | None = None,
    *,
    exact: bool = False,
    tolerance: float = EQUAL,
    demand_limited: bool | None = None,
    budget: int = 400,
    time_limit: float | None = None,
) -> Audit:
    """Audit a result using only the instance and the shares, not its certificate or model.

    Parameters
    ----------
    instance:
        The true speeds, weights and GPUs.
    result:
        An :class:`~hetopt.Allocation`, a :class:`~hetopt.Plan`, or a table of shares (entities x GPU types).
    policy:
        The policy that made the result. Without it, strategy-proofness (a property of policies) is undecided.
    exact:
        Decide all properties but strategy-proofness in rational numbers, without tolerance. The allocation must have
        been solved with ``exact=True``.
    tolerance:
        A property holds down to a slack of minus this.
    demand_limited:
        Whether the size of a gang limits its rate; None: for jobs, while tenants have work for any number of GPUs.
        See :func:`~hetopt.auditing.audited_holdings.holdings`.
    budget, time_limit:
        Limits of the search for profitable misreports: calls of the policy, and seconds (None: no limit).

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInstance
        The result is for other entities or GPU types than the instance.
    InvalidOption
        ``exact`` where there are no exact shares.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> print(hetopt.audit(inst, [[0.5, 0], [0.5, 1]]).envy_free.witness.explain())
    u1 would gain 400 % with the GPUs of u2 (0.5 GPU1 + 1 GPU2 instead of 0.5 GPU1)
    """
    held = holdings(instance, result, exact=exact, demand_limited=demand_limited)
    if policy is None:
        honest = undecided(AuditProperty.STRATEGY_PROOF, "it is a property of the policy; give policy=…")
    else:
        honest = strategy_proof(
            instance, policy, budget=budget, tolerance=tolerance, time_limit=time_limit, demand_limited=demand_limited
        )
    return Audit(
        envy_free=envy_verdict(held, tolerance),
        sharing_incentive=sharing_verdict(held, tolerance),
        pareto_efficient=pareto_verdict(held, tolerance),
        strategy_proof=honest,
        capacity=capacity_verdict(held, tolerance),
        adjacent_types=adjacency_verdict(held),
        by_tenant=_by_tenant(instance, result, held, tolerance),
    )


def _by_tenant(instance: Instance, result: Result, single: Holdings, tolerance: float) -> dict[str, Verdict]:
    """Label -> verdict on whole tenants; empty where no tenant has several job types."""
    free = holdings(instance, result, level="free reuse", exact=single.exact)
    if free.names == single.names:
        return {}
    even = holdings(instance, result, level="even split", exact=single.exact)
    verdicts = [check(held, tolerance) for held in (even, free) for check in (envy_verdict, sharing_verdict)]
    verdicts.append(pareto_verdict(free, tolerance))
    if single.most is not None:
        why = "demand_limited does not apply to whole tenants, whose rates grow with every GPU"
        verdicts = [replace(undecided(verdict.name, why), level=verdict.level) for verdict in verdicts]
    return {verdict.label: verdict for verdict in verdicts}
