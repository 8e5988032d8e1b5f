"""Random environments, jobs and policies: what must hold whatever happens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation_properties import Random, cases

from hetopt import HierarchicalPlacer, Instance, MoreWorkersFirst, Overheads, simulate
from hetopt.decisions.rounders import ByPriority
from hetopt.decisions.system import OnChange, System
from hetopt.errors import Stalled
from hetopt.models import gavel
from hetopt.simulation.datasets import LocalDisks
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.simulation.log import Log
from hetopt.simulation.profiling import Profiling
from hetopt.simulation.server_changes import ServerChange
from hetopt.tolerances import EQUAL, WORK

SECONDS = st.sampled_from([0.0, 0.5, 8.0, 64.0])


@st.composite
def outages(draw: st.DrawFn, instance: Instance) -> tuple[ServerChange, ...]:
    """Some servers go and come back; every one is there again in the end."""
    found: list[ServerChange] = []
    for server in draw(st.lists(st.sampled_from(instance.cluster.servers), max_size=3, unique_by=lambda s: s.name)):
        start = draw(st.sampled_from([0.0, 100.0, 450.0, 600.0]))
        found.append(ServerChange(start, server.name))
        found.append(ServerChange(start + draw(st.sampled_from([1.0, 300.0, 777.0])), server.name, up=True))
    return tuple(found)


@st.composite
def environments(draw: st.DrawFn) -> tuple[Instance, Environment]:
    instance = draw(cases())
    jobs = [
        replace(
            job, dataset=draw(st.sampled_from([None, "d1", "d2"])), dataset_bytes=draw(st.sampled_from([0.0, 5e10]))
        )
        for job in instance.jobs
    ]
    disk = draw(st.sampled_from([None, 6e10, 1e10]))
    servers = tuple(replace(server, disk_bytes=disk) for server in instance.cluster.servers)
    instance = replace(instance, jobs=tuple(jobs), cluster=replace(instance.cluster, servers=servers))
    environment = Environment(
        overheads=Overheads(draw(SECONDS), draw(SECONDS), draw(SECONDS), save_seconds=draw(SECONDS)),
        datasets=draw(
            st.sampled_from([None, LocalDisks(), LocalDisks(1e9, 2.0), LocalDisks(1e9, 2.0, proactive=True)])
        ),
        profiling=draw(st.sampled_from([None, Profiling(16.0)])),
        changes=draw(outages(instance)),
        checkpoint_seconds=draw(st.sampled_from([None, 64.0, 1e6])),
        estimate_errors=draw(st.sampled_from([None, EstimateErrors(0.3, 0.3, 1)])),
    )
    return instance, environment


def check(log: Log, instance: Instance, environment: Environment) -> None:
    """Work is conserved, capacity and gangs are kept, no job runs before its arrival or on an absent server."""
    jobs, spans = log.jobs, log.spans
    worked = spans.groupby("job")["work"].sum().reindex(jobs.index).fillna(0.0)
    scale = jobs["work"] * (1 + len(spans))
    assert (abs(worked - jobs["done"] - jobs["wasted"]) <= WORK * scale).all()
    assert (jobs.loc[jobs["finish"].notna(), "done"] == jobs.loc[jobs["finish"].notna(), "work"]).all()
    assert (jobs["start"].dropna() >= jobs["arrival"][jobs["start"].notna()]).all()
    assert (spans["gpus"] == spans["job"].map(lambda name: instance.job[name].demand)).all()
    assert (spans["lost"] >= 0).all()
    assert (spans["lost"] <= (spans["end"] - spans["start"]) * (1 + EQUAL)).all()
    lost = spans.groupby("job")["lost"].sum().reindex(jobs.index).fillna(0.0)
    assert np.allclose(lost, jobs["lost"], rtol=EQUAL, atol=EQUAL)
    if environment.checkpoint_seconds is None:
        assert (jobs["wasted"] == 0).all()
    away = {
        server: [(c.time, back.time) for c, back in zip(own[::2], own[1::2], strict=True)]
        for server, own in _by_server(environment.changes).items()
    }
    changes: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in spans.itertuples():
        for server in str(row.servers).split("+") if row.servers else ():
            assert not any(row.start < until and row.end > since for since, until in away.get(server, []))
        changes[str(row.gpu_type)] += [(float(row.start), float(row.gpus)), (float(row.end), -float(row.gpus))]
    for kind, there in instance.cluster.capacity.items():
        times = sorted(changes[kind], key=lambda change: (change[0], change[1]))
        assert all(used <= there for used in np.cumsum([n for _, n in times]))


def _by_server(changes: tuple[ServerChange, ...]) -> dict[str, list[ServerChange]]:
    found: defaultdict[str, list[ServerChange]] = defaultdict(list)
    for change in sorted(changes):
        found[change.server].append(change)
    return found


@given(environments(), st.integers(0, 99), st.sampled_from([HierarchicalPlacer(), MoreWorkersFirst()]))
@settings(max_examples=examples(25, 100), deadline=None)
@pytest.mark.parametrize("seconds", [None, 300.0])
def test_random_environments(seconds: float | None, case: tuple[Instance, Environment], seed: int, placer: Any) -> None:
    instance, environment = case
    try:
        log = simulate(Random(seed, seconds), instance, environment=environment, placer=placer, patience=50)
    except Stalled:  # it moves jobs faster than they restart
        return
    check(log, instance, environment)
    assert log.jobs["finish"].notna().all()


@given(environments())
@settings(max_examples=examples(20, 60), deadline=None)
def test_gavel_in_random_environments(case: tuple[Instance, Environment]) -> None:
    """The same for shares that are kept while no job arrives or finishes, and rounded by priority."""
    instance, environment = case
    system = System(OnChange(gavel.max_min_fairness()), 300.0, ByPriority(), placer=MoreWorkersFirst(sticky=True))
    log = simulate(system, instance, environment=environment, patience=50)
    check(log, instance, environment)


@given(environments(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_jobs_that_come_together_and_are_alike_does_not_matter(
    case: tuple[Instance, Environment], dice: Any
) -> None:
    """Jobs under other names, in another order: the same finish times as a multiset, where all jobs are the same."""
    instance, environment = case
    base = instance.jobs[0]
    alike = [replace(base, name=f"x{i}", arrival=job.arrival) for i, job in enumerate(instance.jobs)]
    shuffled = list(alike)
    dice.shuffle(shuffled)
    environment = replace(environment, estimate_errors=None)
    logs = []
    for jobs in (alike, shuffled):
        case_ = replace(instance, jobs=tuple(jobs), done={}, held={}, placed={})
        logs.append(
            simulate(
                gavel.fifo(),
                case_,
                environment=replace(environment, datasets=None),
                round_seconds=300.0,
                rounder=ByPriority(),
            )
        )
    assert sorted(logs[0].jobs["finish"]) == pytest.approx(sorted(logs[1].jobs["finish"]))
