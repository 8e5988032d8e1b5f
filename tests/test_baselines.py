"""Equal division, efficiency alone, the sharing incentive alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.models import baselines
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY

EQ1 = hetopt.Instance.from_speedups([[1, 2], [1, 3], [1, 4]], capacity=[1, 1])


def test_oef_equation_5() -> None:
    """[OEF, eq. 5]: efficiency alone reaches 5; the printed X does, as would any owner of GPU1."""
    a = hetopt.solve(baselines.efficiency_only(), EQ1)
    assert a.certificate.objective == pytest.approx(5.0)
    assert a.x[:, 1] == pytest.approx([0, 0, 1], abs=EQUAL)
    assert a.x[:, 0].sum() == pytest.approx(1.0)
    assert EQ1.entities().rate(np.array([[1.0, 0], [0, 0], [0, 1]])).sum() == 5.0


def test_the_sharing_incentive_alone_gives_41_ninths() -> None:
    """[OEF, claim 11]: the largest total under the sharing incentive is 4.5556, more than the cooperative 4.5."""
    a = hetopt.solve(baselines.sharing_incentive_only(), EQ1)
    assert a.certificate.objective == pytest.approx(41 / 9, rel=EQUAL)
    assert (a.rate >= equal_share_rate(EQ1.entities()) * (1 - EQUAL)).all()


def test_equal_split_of_oefs_equilibrium() -> None:
    """[OEF, section 3.1.1]: half of everything each is worth 1.5 and 3."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    a = hetopt.solve(baselines.equal_split(), inst)
    assert a.x == pytest.approx(np.full((2, 2), 0.5))
    assert a.rate.to_numpy() == pytest.approx([1.5, 3.0])
    assert a.certificate.status == "rule"
    assert a.certificate.bound == 6.0


@given(inst=tenant_instances(weighted=True, zeros=True))
def test_equal_split_is_the_part_of_ones_weight(inst: hetopt.Instance) -> None:
    a = hetopt.solve(baselines.equal_split(), inst)
    total = sum(t.weight for t in inst.tenants)
    for tenant in inst.tenants:
        for kind, gpus in inst.cluster.capacity.items():
            useful = tenant.job_types[0].speedup[kind] > 0
            assert a.share.loc[tenant.name, kind] == pytest.approx(tenant.weight / total * gpus if useful else 0.0)
    assert a.rate.to_numpy() == pytest.approx(equal_share_rate(inst.entities()))
    assert a.certificate.violation <= FEASIBILITY
    assert a.certificate.objective <= a.certificate.bound * (1 + EQUAL)


@given(inst=job_instances(zeros=True))
def test_equal_split_of_time_never_exceeds_time_or_gpus(inst: hetopt.Instance) -> None:
    a = hetopt.solve(baselines.EqualSplit("jobs"), inst)
    gpus, n = sum(inst.cluster.capacity.values()), len(inst.jobs)
    assert a.certificate.violation <= FEASIBILITY
    for i, job in enumerate(inst.jobs):
        part = min(1 / n / job.demand, 1 / gpus)
        for kind, m in inst.cluster.capacity.items():
            assert a.share.loc[job.name, kind] == pytest.approx(
                part * m if job.throughput[kind] > 0 and job.demand <= m else 0.0
            )
        assert a.x[i].sum() <= 1 + EQUAL


@settings(max_examples=40)
@given(inst=st.one_of(tenant_instances(weighted=True, zeros=True)), fair=st.booleans())
def test_the_largest_total_is_that_of_another_solver(inst: hetopt.Instance, fair: bool) -> None:
    """Against scipy's linear program; without fairness also the closed form: every type to whom it speeds up most."""
    n, k = len(inst.tenants), len(inst.cluster.capacity)
    speed = np.array([list(t.job_types[0].speedup.values()) for t in inst.tenants])
    gpus = np.array(list(inst.cluster.capacity.values()))
    weight = np.array([t.weight for t in inst.tenants])
    own = np.array([[-speed[i, j] if e == i else 0.0 for i in range(n) for j in range(k)] for e in range(n)])
    capacity = np.array([[1.0 if j == m else 0.0 for _ in range(n) for j in range(k)] for m in range(k)])
    rows, right = np.vstack([capacity, own]), np.append(gpus, -weight / weight.sum() * (speed @ gpus))
    best = linprog(-speed.ravel(), rows, right) if fair else linprog(-speed.ravel(), capacity, gpus)
    policy = baselines.sharing_incentive_only() if fair else baselines.efficiency_only()
    a = hetopt.solve(policy, inst)
    assert a.certificate.objective == pytest.approx(-best.fun, rel=EQUAL)
    assert a.certificate.violation <= FEASIBILITY
    if not fair:
        assert a.certificate.objective == pytest.approx(speed.max(axis=0) @ gpus, rel=EQUAL)


def test_kinds_are_checked() -> None:
    with pytest.raises(InvalidOption, match=r"EqualSplit\.kind is 'users'"):
        baselines.EqualSplit("users")  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [np.ones((1, 2)), np.ones(2), [["a", "b"], ["c", "d"]], None])
def test_what_a_rule_answers_is_a_table(share: Any) -> None:
    entities = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1]).entities()
    with pytest.raises(InvalidPlan, match=r"share (has shape|is)"):
        baselines.by_rule(entities, share, "mine", 0.0)
