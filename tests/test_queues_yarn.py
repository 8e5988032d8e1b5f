"""YARN's capacity scheduler: guarantees, elasticity, and a plain version."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues_oracles import (
    Where,
    followed,
    holds,
    left_by,
    never_stopped,
    one_type,
    queues,
    roomiest,
    schedule,
    sorted_by,
)
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, Tenant
from hetopt.models.queues import FIFO, YARN
from hetopt.registry import make_policy


def of_tenants(
    *rows: tuple[str, str, float, float, int], gpus: int, weights: dict[str, float] | None = None
) -> Instance:
    """Jobs (name, tenant, seconds, arrival, GPUs) on GPUs of one type."""
    jobs = tuple(Job(name, {"G": 1.0}, seconds, n, arrival, tenant) for name, tenant, seconds, arrival, n in rows)
    tenants = tuple(Tenant(name, {"G": 1.0}, weight) for name, weight in (weights or {}).items())  # type: ignore[arg-type]
    return Instance(Cluster.of({"G": gpus}), tenants, jobs)


# By hand


def test_a_queue_may_use_what_others_leave_and_no_job_is_stopped() -> None:
    """A takes all four GPUs; B's gang of two waits until two of them end at once, though half are guaranteed to B."""
    jobs = of_tenants(
        *((f"a{i}", "A", 100, 0, 1) for i in range(4)), ("a4", "A", 9, 10, 1), ("b", "B", 50, 20, 2), gpus=4
    )
    log = hetopt.simulate(YARN(), jobs)
    assert schedule(log) == [
        *((f"a{i}", 0, 100, "G") for i in range(4)),
        ("a4", 100, 109, "G"),
        ("b", 100, 150, "G"),
    ]
    capped = hetopt.simulate(YARN(maximum={"A": 0.5}), jobs).jobs["start"].to_dict()
    assert capped == {"a0": 0, "a1": 0, "a2": 100, "a3": 100, "a4": 200, "b": 20}


def test_the_most_under_served_queue_comes_first() -> None:
    """Weights 3 and 1 of four GPUs: A, B at 0; then A twice, and B once more when one of them ends."""
    rows = [(f"{t}{i}", t, 10 + 10 * i, 0, 1) for i in range(3) for t in "BA"]
    jobs = of_tenants(*rows, gpus=4, weights={"A": 3, "B": 1})
    plan = hetopt.solve(YARN(), jobs)
    runs = {name for name, kind in plan.assigned.items() if kind}
    assert runs == {"A0", "A1", "A2", "B0"}
    assert {name for name, kind in hetopt.solve(YARN({"A": 1, "B": 1}), jobs).assigned.items() if kind} == {
        "A0",
        "A1",
        "B0",
        "B1",
    }


def test_a_blocked_head_blocks_its_queue_alone() -> None:
    jobs = of_tenants(("a", "A", 9, 0, 2), ("b", "B", 9, 0, 3), ("c", "B", 9, 0, 1), gpus=3)
    assert hetopt.solve(YARN(), jobs).assigned == {"a": "G", "b": None, "c": None}
    assert hetopt.solve(YARN(backfill=True), jobs).assigned == {"a": "G", "b": None, "c": "G"}


def test_a_gang_larger_than_what_its_queue_may_use_blocks_no_other() -> None:
    jobs = of_tenants(("wide", "A", 9, 0, 3), ("b", "A", 9, 0, 2), ("c", "B", 9, 0, 1), gpus=4)
    assert hetopt.solve(YARN(maximum=0.5), jobs).assigned == {"wide": None, "b": "G", "c": "G"}
    with pytest.raises(hetopt.Stalled, match=r"1 unfinished job: wide"):
        hetopt.simulate(YARN(maximum=0.5), jobs)


def test_types_mean_nothing_to_it() -> None:
    jobs = Instance.from_jobs([[1, 9], [1, 9]], 1, 90, [2, 1], round_seconds=1)
    assert hetopt.solve(YARN(), jobs).assigned == {"j1": "GPU1", "j2": "GPU1"}, "two free, then one and one: the first"
    assert hetopt.solve(YARN(types="fastest"), jobs).assigned == {"j1": "GPU2", "j2": "GPU1"}


@settings(max_examples=40)
@given(instance=queues(), backfill=st.booleans(), types=st.sampled_from(["fastest", "roomiest"]))
def test_without_tenants_it_is_fifo(instance: Instance, backfill: bool, types: Any) -> None:
    alone = instance.replace(jobs=tuple(replace(job, tenant=None) for job in instance.jobs))
    one = hetopt.simulate(YARN(types=types, backfill=backfill), alone)
    other = hetopt.simulate(FIFO(types=types, backfill=backfill), alone)
    assert schedule(one) == schedule(other)


# A plain version


@settings(max_examples=60)
@given(
    instance=queues(jobs=(1, 8)),
    parts=st.sampled_from([None, {"x": 1.0, "y": 1.0, "z": 2.0}, {"x": 0.125, "y": 0.5, "z": 0.375}]),
    most=st.sampled_from([1.0, {"x": 0.5}]),
    backfill=st.booleans(),
    seconds=st.sampled_from([None, 32.0]),
)
def test_every_decision_is_that_of_a_plain_version(
    instance: Instance, parts: Any, most: Any, backfill: bool, seconds: float | None
) -> None:
    total = sum(instance.cluster.capacity.values())

    def allowed(tenant: str) -> float:
        return total * (most if isinstance(most, float) else most.get(tenant, 1.0))

    jobs = [replace(job, demand=1 if job.demand > allowed(job.tenant or "") else job.demand) for job in instance.jobs]
    instance = instance.replace(jobs=tuple(job for job in jobs if allowed(job.tenant or "") >= 1) or jobs[:0])
    if not instance.jobs:
        return

    def oracle(now: Instance) -> Where:
        given: Where = {job.name: t for job in now.jobs if (t := holds(now, job.name))}
        waiting: defaultdict[str, list[Job]] = defaultdict(list)
        for job in sorted_by(now, lambda job: job.arrival):
            if job.name not in given:
                waiting[str(job.tenant)].append(job)
        first = {tenant: min(now.jobs.index(job) for job in own) for tenant, own in waiting.items()}
        choose, blocked = roomiest(now), set[str]()
        while open_ := [tenant for tenant in waiting if waiting[tenant] and tenant not in blocked]:
            used = {t: sum(now.job[name].demand for name in given if now.job[name].tenant == t) for t in open_}
            tenant = min(open_, key=lambda t: (used[t] / (parts or {}).get(t, 1.0), first[t]))
            for job in waiting[tenant][: None if backfill else 1]:
                kind = choose(job, left_by(now, given))
                if kind is not None and used[tenant] + job.demand <= allowed(tenant):
                    given[job.name] = kind
                    waiting[tenant].remove(job)
                    break
            else:
                blocked.add(tenant)
        return given

    log = followed(YARN(parts, most, backfill=backfill, round_seconds=seconds), oracle, instance)
    assert never_stopped(log)
    assert log.jobs["finish"].notna().all()


# Settings


def test_settings_come_from_files_too() -> None:
    made = make_policy("yarn-cs", {"capacities": {"A": 0.75, "B": 0.25}, "maximum": 0.5})
    assert made == YARN({"A": 0.75, "B": 0.25}, 0.5)
    assert isinstance(hash(made), int)


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: YARN({"A": 0}), "YARN.capacities['A']", None),
        (lambda: YARN([1]), "YARN.capacities", None),  # type: ignore[arg-type]
        (lambda: YARN(maximum=1.5), "YARN.maximum", None),
        (lambda: YARN(maximum={"A": 0.0}), "YARN.maximum['A']", None),
        (lambda: YARN(types="any"), "YARN.types", None),  # type: ignore[arg-type]
        (lambda: YARN(backfill=None), "YARN.backfill", None),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_refused(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


def test_jobs_that_fit_no_queue_are_refused() -> None:
    jobs = of_tenants(("a", "A", 9, 0, 2), ("b", "B", 9, 0, 3), gpus=4)
    with refused(InvalidInstance, "jobs['b']", "'B'"):
        hetopt.solve(YARN({"A": 1}), jobs)
    with refused(InvalidInstance, "jobs['c']", "'default'"):
        hetopt.solve(YARN({"A": 1}), one_type(("c", 1, 0, 1), gpus=1))
