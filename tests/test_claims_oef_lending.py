"""Claims about lending: the model in fractions against hand computations, a second method, and the library."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from ledger_cases import cases

import hetopt
from hetopt.proofs.adversaries import oef_lending as second
from hetopt.proofs.oef.lending import LendingCase, lending_space
from hetopt.proofs.oef.tenant_cases import TenantCase
from hetopt.proofs.oef.textbook_rules import equal_split

F = Fraction
FEW = settings(max_examples=40, deadline=None)


def test_turns_by_hand() -> None:
    """Users with the speedups (1, 2), (1, 2), (1, 1) and jobs for 6, 3 and 1 GPUs; each has 2 and 1 GPUs.

    The third uses one slow GPU, so one of each type is idle. The first borrows it all, as the jobs of the second fit.
    With a fourth job of the second user, both borrow halves.
    """
    tenants = TenantCase(((F(1), F(2)), (F(1), F(2)), (F(1), F(1))), (F(6), F(3)))
    share = equal_split(tenants).share
    case = LendingCase(tenants, (F(6), F(3), F(1)))
    assert case.own(share) == ((2, 1), (2, 1), (1, 0))
    assert case.lent(share) == ((3, 2), (2, 1), (1, 0))
    assert [case.rate(e, row) for e, row in enumerate(case.lent(share))] == [7, 4, 1]
    more = replace(case, demand=(F(6), F(4), F(1)))
    assert more.lent(share) == ((F(5, 2), F(3, 2)), (F(5, 2), F(3, 2)), (1, 0))
    by_job = replace(more, by_job=True)  # three waiting jobs of the first user, one of the second
    assert by_job.lent(share) == ((F(11, 4), F(7, 4)), (F(9, 4), F(5, 4)), (1, 0))


@FEW
@given(cases(lending_space()))
def test_a_second_method_lends_the_same(case: LendingCase) -> None:
    share = equal_split(case.tenants).share
    used = case.lent(share)
    assert [tuple(row) for row in second.in_use(case, [list(row) for row in share])] == list(used)
    for e, row in enumerate(used):
        assert second.rate(case.tenants.speed[e], case.demand[e], row) == case.rate(e, row)


@FEW
@given(cases(lending_space(n=(2, 3))))
def test_the_library_lends_what_the_model_lends(case: LendingCase) -> None:
    """A GPU of the model as 60 GPUs, and jobs of one GPU each: up to a GPU for each user and change of the pace."""
    parts, tenants = 60, case.tenants
    share = equal_split(tenants).share
    types = [f"GPU{j + 1}" for j in range(tenants.k)]
    rows = [dict(zip(types, map(float, row), strict=True)) for row in tenants.speed]
    users = tuple(hetopt.Tenant.from_throughput(f"u{e}", row) for e, row in enumerate(rows))
    jobs = tuple(
        hetopt.Job(f"j{e}-{i}", rows[e], 1.0, tenant=f"u{e}")
        for e, d in enumerate(case.demand)
        for i in range(int(d) * parts)
    )
    cluster = hetopt.Cluster.of({t: int(m) * parts for t, m in zip(types, tenants.gpus, strict=True)})
    instance = hetopt.Instance(cluster, users, jobs)
    plan = hetopt.Plan(instance.entities("tenants"), np.array([[float(x * parts) for x in row] for row in share]))
    chosen, _ = hetopt.LongestStarved(lend=True)(plan, instance)
    owner = np.array([int(job.name[1 : job.name.index("-")]) for job in jobs])
    found = np.array([chosen.x[owner == e].sum(axis=0) for e in range(tenants.n)])
    model = np.array([[float(x * parts) for x in row] for row in case.lent(share)])
    assert found == pytest.approx(model, abs=tenants.n * (tenants.n + tenants.k))
