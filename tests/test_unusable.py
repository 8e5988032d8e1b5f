"""Who can run only on GPU types without GPUs gets nothing, and the others get what they would get without it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, Options
from hetopt.formulations.formulation import Formulation
from hetopt.models import fft, gavel, oef
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.noncooperative_method import by_prices
from hetopt.models.oef.oef_formulations import SortedTypes
from hetopt.plugins import POLICIES
from hetopt.programs.compiled import Compiled
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.registry import make_policy, policy_names
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN, SUPPORT

OF_TENANTS = {"gandiva-fair", "oef-cooperative", "oef-noncooperative"}
OF_JOBS = {"allox", "fft", "gavel-fifo", "gavel-finish-time-fairness", "gavel-makespan", "gavel-mean-completion-time"}
OF_JOBS |= {"gavel-packing", "gavel-shortest-job-first", "isolated", "shockwave", "sia"}
IN_TURN = {name for name in policy_names() if name.startswith(("asrpt", "fair-sojourn", "hadar", "tesserae"))}
IN_TURN |= {name for name in policy_names() if POLICIES.factory(name).__module__.startswith("hetopt.models.queues")}
"""They solve no program, and A-SRPT starts no job at first: tests/test_asrpt.py, tests/test_fair_sojourn.py,
tests/test_hadar_policy.py, tests/test_queues.py, tests/test_tesserae.py."""
KEPT = {"oef-cooperative", "oef-noncooperative", "efficiency-only", "gavel-total-throughput", "ceei"}
KEPT |= {"gavel-mean-completion-time", "fft", "allox"}
"""Policies whose objective has no 1/n, so that it is the same without entities that can use no GPU."""


def drained(instance: Instance, where: int) -> Instance:
    """One more GPU type, whose servers are gone, and one more entity that can run on it alone: row ``where``."""
    cluster = hetopt.Cluster((*instance.cluster.gpu_types, hetopt.GPUType("gone")), instance.cluster.servers)
    only: dict[str, float] = dict.fromkeys(instance.cluster.type_names, 0.0) | {"gone": 4.0}
    tenants = [
        hetopt.Tenant(t.name, {**t.job_types[0].speedup, "gone": 2.0}, t.weight, any_scale=True)  # type: ignore[arg-type]
        for t in instance.tenants
    ]
    jobs = [dataclasses.replace(j, throughput={**j.throughput, "gone": 2.0}) for j in instance.jobs]
    if tenants:
        tenants.insert(where, hetopt.Tenant("nothing", only, any_scale=True))  # type: ignore[arg-type]
    if jobs:
        jobs.insert(where, hetopt.Job("nothing", only, 9.0, jobs[0].demand))
    return Instance(cluster, tenants=tuple(tenants), jobs=tuple(jobs), time=instance.time)


def solved(policy: str, instance: Instance) -> tuple[np.ndarray, float]:
    result: Any = hetopt.solve(make_policy(policy), instance)
    assert result.certificate is not None
    assert result.certificate.violation <= FEASIBILITY
    return result.x, result.certificate.objective


def alike(instance: Instance) -> Instance:
    """With one demand for all, as AlloX wants it."""
    return instance.replace(jobs=[dataclasses.replace(j, demand=1) for j in instance.jobs])


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_JOBS - IN_TURN))
@settings(max_examples=10)
@given(data=st.data(), inst=tenant_instances(tenants=(1, 4), types=(1, 3), zeros=True, weighted=True))
def test_tenants_that_can_use_nothing(policy: str, data: st.DataObject, inst: Instance) -> None:
    check(policy, inst, data.draw(st.integers(0, len(inst.tenants))))


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_TENANTS - IN_TURN))
@settings(max_examples=10)
@given(data=st.data(), inst=job_instances(jobs=(1, 4), zeros=True))
def test_jobs_that_can_use_nothing(policy: str, data: st.DataObject, inst: Instance) -> None:
    check(policy, alike(inst) if policy == "allox" else inst, data.draw(st.integers(0, len(inst.jobs))))


def check(policy: str, inst: Instance, where: int) -> None:
    more = drained(inst, where)
    x, value = solved(policy, more)
    assert (x[where] <= SUPPORT).all()
    assert (np.delete(x, where, axis=0) > SUPPORT).any(), "the others are not held back"
    if policy in KEPT:
        _, without = solved(policy, inst)
        assert value == pytest.approx(without, rel=10 * EQUAL, abs=10 * EQUAL)
    chosen: Any = make_policy(policy)
    if isinstance(chosen, Formulation):
        slow = hetopt.solve(chosen, more, method="simplex").certificate
        assert slow.objective == pytest.approx(value, rel=10 * EQUAL, abs=10 * EQUAL)


UNUSABLE = Instance.from_speedups([[0, 2], [0, 3]], capacity=[1, 0], any_scale=True)
NO_JOB = Instance.from_jobs([[0, 2], [0, 3]], 1, 9, capacity=[1, 0])


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_JOBS - IN_TURN))
def test_where_no_tenant_can_use_anything_all_get_nothing(policy: str) -> None:
    assert not solved(policy, UNUSABLE)[0].any()


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - OF_TENANTS - IN_TURN))
def test_where_no_job_can_use_anything_all_get_nothing(policy: str) -> None:
    x, value = solved(policy, NO_JOB)
    assert not x.any()
    assert value == pytest.approx(-1.1 * len(NO_JOB.jobs) if policy == "sia" else 0)  # its penalty of waiting jobs


@pytest.mark.parametrize("policy", sorted(policy_names()))
def test_the_general_solve_path_says_so_too(policy: str) -> None:
    chosen: Any = make_policy(policy)
    if isinstance(chosen, Formulation):
        inst = UNUSABLE if policy not in OF_JOBS else NO_JOB
        assert not hetopt.solve(chosen, inst, method="simplex").x.any()


def test_many_jobs_of_which_some_can_use_nothing() -> None:
    """Interior points leave them out and prove the optimum of the others."""
    rng = np.random.default_rng(0)
    speed = np.c_[rng.uniform(1, 5, (100, 2)), np.zeros(100)]
    speed[::7] = [0, 0, 3]
    jobs = Instance.from_jobs(speed, 1, rng.uniform(10, 90, 100), [9, 6, 0])
    for formulation in (gavel.finish_time_fairness(), gavel.mean_completion_time(), make_policy("ceei")):
        fast: Any = hetopt.solve(formulation, jobs)
        assert fast.certificate.method == "interior points"
        assert fast.certificate.gap <= PROVEN
        assert not fast.x[::7].any()
    for policy in (gavel.max_min_fairness(), gavel.makespan(), gavel.water_filling()):
        result: Any = hetopt.solve(policy, jobs)
        assert not result.x[::7].any()
        assert (result.rate.to_numpy()[1:7] > 0).all()


def test_equal_rates_are_equal_among_entities_that_can_have_one() -> None:
    """By hand: the two able tenants have 4 of the first type at speeds 1 and 2, rates r and r: r + r / 2 = 4."""
    inst = Instance.from_speedups([[1, 5], [0, 5], [2, 5]], capacity=[4, 0], any_scale=True)
    allocation = hetopt.solve(oef.noncooperative(), inst)
    assert allocation.rate.to_numpy() == pytest.approx([8 / 3, 0, 8 / 3])
    point = by_prices(Compiled(oef.noncooperative(), inst.entities()), Options())
    assert point.method == "prices"
    assert point.bound == pytest.approx(16 / 3)


def test_sorting_takes_those_that_can_run_nowhere() -> None:
    jobs = Instance.from_jobs([[1, 2], [0, 3]], [1, 2], 9, capacity=[2, 0])
    allocation = hetopt.solve(Formulation((TotalRate(), SortedTypes())), jobs)
    assert allocation.x.tolist() == [[2, 0], [0, 0]]


def test_fft_estimates_a_fair_share_once_the_servers_are_back() -> None:
    """A job that could run nowhere falls behind nothing; when its type returns its time is estimated again."""
    away = Instance.from_jobs([[4, 0], [0, 4]], 1, 40, capacity=[1, 0])
    plan, state = fft.FFT()(away)
    assert plan.assigned == {"j1": "GPU1", "j2": None}
    assert state.tau.keys() == {"j1"}
    back = away.replace(cluster=hetopt.Cluster.of([1, 1]), time=300.0)
    plan, state = fft.FFT()(back, state)
    assert plan.assigned == {"j1": "GPU1", "j2": "GPU2"}
    assert state.tau.keys() == {"j1", "j2"}
    assert state.rho["j2"] == 0
