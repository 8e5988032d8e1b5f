"""Who shares the cluster now: every policy asks alike, be it a formulation or a procedure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, InvalidInstance, InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.models import baselines, gavel, oef
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.plugins import POLICIES
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.registry import make_policy, policy_names
from hetopt.tolerances import EQUAL, FEASIBILITY

JOBS = Instance.from_jobs([[2, 4], [1, 3]], 1, work=[8, 8], capacity=[1, 1], arrival=[0, 600])
TENANTS = Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
BOTH = TENANTS.replace(jobs=JOBS.jobs)
OF_TENANTS = {"gandiva-fair", "oef-cooperative", "oef-noncooperative"}
OF_JOBS = {"allox", "fft", "gavel-fifo", "gavel-finish-time-fairness", "gavel-makespan", "gavel-mean-completion-time"}
OF_JOBS |= {"fair-sojourn", "gavel-packing", "gavel-shortest-job-first", "isolated", "shockwave", "sia"}
OF_JOBS |= {name for name in policy_names() if name.startswith(("asrpt", "hadar", "tesserae"))}
OF_JOBS |= {name for name in policy_names() if POLICIES.factory(name).__module__.startswith("hetopt.models.queues")}


def run(policy: Any, instance: Instance) -> hetopt.Allocation | hetopt.Plan:
    return hetopt.solve(make_policy(policy) if isinstance(policy, str) else policy, instance)


# Jobs that have not arrived


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_TENANTS - {"hadar-commit"}))  # one GPU is too few
def test_jobs_that_arrive_later_are_refused_with_the_way_out(policy: str) -> None:
    message = (
        r"^jobs\['j2'\]\.arrival is 600 s, after time = 0 s; leave jobs out until they have arrived: "
        r"instance\.at\(0\) has those present then$"
    )
    with pytest.raises(InvalidInstance, match=message):
        run(policy, JOBS)
    assert list(run(policy, JOBS.at(0)).entities.names) == ["j1"]
    assert list(run(policy, JOBS.at(600)).entities.names) == ["j1", "j2"]


def test_an_instance_where_all_stays_is_not_built_again() -> None:
    later = JOBS.at(600)
    assert later.at(600) is later
    assert JOBS.at(0) is not JOBS


def test_where_no_job_has_arrived_the_first_arrival_is_named() -> None:
    later = Instance.from_jobs([[1], [1]], 1, 1, [1], arrival=[900, 30.5])
    with pytest.raises(InvalidInstance, match=r"'j1'.* instance\.at\(30\.5\) has those present then"):
        run("efficiency-only", later)


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_JOBS))
def test_tenants_share_whenever_their_jobs_arrive(policy: str) -> None:
    assert run(policy, BOTH).entities.kind == "tenants"


def test_a_simulation_takes_jobs_that_arrive_later() -> None:
    log = hetopt.simulate(make_policy("fft"), JOBS, round_seconds=300.0)
    assert log.jobs["start"].tolist() == [0, 600]


# One kind


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: BOTH.entities("tenant"), "kind"),  # type: ignore[arg-type]
        (lambda: BOTH.entities(["jobs"]), "kind"),  # type: ignore[arg-type]
        (lambda: Formulation((TotalRate(),), kind="tenant"), r"Formulation\.kind"),  # type: ignore[arg-type]
        (lambda: baselines.EqualSplit(kind="job"), r"EqualSplit\.kind"),  # type: ignore[arg-type]
        (lambda: gavel.WaterFilling(kind="job"), r"WaterFilling\.kind"),  # type: ignore[arg-type]
        (lambda: Formulation((gavel.FinishTime(kind="job"),)), r"finish_time\.kind"),  # type: ignore[arg-type]
    ],
)
def test_a_kind_that_does_not_exist_is_refused(make: Any, key: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^{key} is .*; it must be 'tenants' or 'jobs'$"):
        make()


ANY = [
    oef.cooperative(),
    oef.noncooperative(),
    oef.noncooperative(canonical=True),
    baselines.efficiency_only(),
    baselines.sharing_incentive_only(),
    gavel.max_min_fairness(),
    gavel.total_throughput(),
    make_policy("ceei"),
]


@pytest.mark.parametrize("formulation", ANY, ids=lambda f: f.title)
@settings(max_examples=8)
@given(tenants=tenant_instances(tenants=(1, 3), types=(2, 2)), jobs=job_instances(types=(2, 2), jobs=(4, 6)))
def test_fast_methods_follow_the_kind_of_the_formulation(
    formulation: Formulation, tenants: Instance, jobs: Instance
) -> None:
    """They share what the general solve path shares, of jobs too where the instance has tenants beside them."""
    both = jobs.replace(tenants=tenants.tenants)
    for kind in ("tenants", "jobs"):
        wanted = replace(formulation, kind=kind)
        fast, slow = hetopt.solve(wanted, both), hetopt.solve(wanted, both, method="simplex")
        assert fast.entities.kind == kind
        assert fast.certificate.objective == pytest.approx(slow.certificate.objective, rel=10 * EQUAL, abs=10 * EQUAL)


@settings(max_examples=3)
@given(jobs=job_instances(jobs=(42, 44), types=(2, 2), zeros=True), seed=st.integers(0, 9))
def test_methods_for_many_take_jobs_too(jobs: Instance, seed: int) -> None:
    """Beyond the sizes that go by the general solve path, beside tenants; gangs of several GPUs."""
    both = jobs.replace(tenants=TENANTS.replace(cluster=hetopt.Cluster.of([1, 1])).tenants)
    for formulation in (oef.cooperative(), oef.noncooperative()):
        wanted = replace(formulation, kind="jobs")
        fast, slow = hetopt.solve(wanted, both), hetopt.solve(wanted, both, method="simplex")
        assert fast.certificate.objective == pytest.approx(slow.certificate.objective, rel=10 * EQUAL)
        assert fast.certificate.violation <= FEASIBILITY


# What is held, by kind


def test_what_jobs_hold_says_nothing_of_tenants() -> None:
    stated = BOTH.replace(held={"j1": {"GPU2": 1}})
    assert stated.entities("tenants").held is None
    assert np.array_equal(stated.entities("jobs").held, [[0, 1], [0, 0]])  # type: ignore[arg-type]
    costly = oef.cooperative() + SwitchingCost(0.5)
    assert run(costly, stated).certificate.objective == run(costly, BOTH).certificate.objective  # type: ignore[union-attr]
    assert BOTH.replace(held={"u1": {}}).entities("tenants").held is not None, "u1 is known to hold nothing"
