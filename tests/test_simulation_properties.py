"""Random policies on random instances: what must hold of every simulation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt import HierarchicalPlacer, Instance, Job, MoreWorkersFirst, Overheads, Plan, Tenant, WholeGPUs, simulate
from hetopt.errors import InvalidInstance
from hetopt.experiments.comparison import of_one_demand
from hetopt.formulations.traits import Traits
from hetopt.models import oef
from hetopt.proofs.strategies import job_instances
from hetopt.registry import make_policy, policy_names
from hetopt.simulation.log import Log
from hetopt.tolerances import EQUAL, WORK


@dataclass(frozen=True)
class Random:
    """Jobs in random order, each on a random type with room; all but the first may wait. State: decisions so far."""

    seed: int
    round_seconds: float | None = None

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        number = state or 0
        dice = np.random.default_rng((self.seed, number))
        jobs = instance.entities("jobs")
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        for turn, i in enumerate(dice.permutation(len(jobs.names))):
            fits = np.flatnonzero(jobs.allowed[i] & (free >= jobs.demand[i]))
            if len(fits) and (turn == 0 or dice.random() < 0.7):
                k = dice.choice(fits)
                x[i, k] = jobs.demand[i]
                free[k] -= jobs.demand[i]
        return Plan(jobs, x), number + 1


@dataclass(frozen=True)
class InOrder:
    """Jobs in the order of the instance, each on its fastest type with room."""

    round_seconds: float

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        for i in sorted(range(len(jobs.names)), key=lambda i: jobs.names[i]):
            for k in np.argsort(-jobs.speed[i], kind="stable"):
                if jobs.allowed[i, k] and free[k] >= jobs.demand[i]:
                    x[i, k] = jobs.demand[i]
                    free[k] -= jobs.demand[i]
                    break
        return Plan(jobs, x), None


def check(log: Log, instance: Instance, seconds: float | None) -> None:
    """Capacity, gangs, work, times and order."""
    spans, best = log.spans, dict(zip(*_best(instance), strict=True))
    assert log.jobs["finish"].notna().all()
    for name, row in log.jobs.iterrows():
        job, own = instance.job[str(name)], spans[spans["job"] == name]
        assert (own["gpus"] == job.demand).all()
        assert abs(own["work"].sum() - job.work) <= WORK * job.work
        assert row["done"] == job.work
        assert row["finish"] >= job.arrival + job.work / best[name] - EQUAL * (1 + row["finish"])
        assert row["start"] >= job.arrival
        assert row["finish"] == own["end"].max()
        assert (own["start"].iloc[1:].to_numpy() >= own["end"].iloc[:-1].to_numpy()).all()
        rate = own["gpu_type"].map(lambda kinds, job=job: min(job.throughput[t] for t in kinds.split("+")))
        trained = own["end"] - own["start"] - own["lost"]
        assert (own["lost"] >= 0).all()
        assert np.allclose(own["work"], rate * trained, rtol=EQUAL, atol=EQUAL * job.work)
        assert row["switches"] <= len(own) - 1
        if seconds is not None:
            assert (own["start"] % seconds == 0).all()
            first = np.ceil(job.arrival / seconds)
            assert row["rounds"] == np.ceil(row["finish"] / seconds - EQUAL) - first
    _check_capacity(spans, instance)
    order = {"finish": 0, "arrive": 1, "decide": 2}
    keys = list(zip(log.events["time"], log.events["kind"].map(order), strict=True))
    assert keys == sorted(keys)
    assert (log.events["kind"] == "finish").sum() == (log.events["kind"] == "arrive").sum() == len(instance.jobs)
    trained = ((spans["end"] - spans["start"] - spans["lost"]) * spans["gpus"]).sum()
    assert abs(log.rounds["trained"].sum() - trained) <= EQUAL * (1 + trained)
    assert (log.rounds["start"].iloc[1:].to_numpy() >= log.rounds["end"].iloc[:-1].to_numpy()).all()
    assert (log.rounds["trained"] <= log.rounds["held"] * (1 + EQUAL)).all()


def _best(instance: Instance) -> tuple[tuple[str, ...], list[float]]:
    jobs = instance.entities("jobs")
    return jobs.names, jobs.task_speed.max(axis=1).tolist()


def _check_capacity(spans: pd.DataFrame, instance: Instance) -> None:
    """At every second, GPUs in use per type, and of all types, are at most what there is: a sweep over starts and ends.

    Of a gang over several types a span has only the total number of GPUs.
    """
    changes: defaultdict[tuple[str, float], float] = defaultdict(float)
    for row in spans.itertuples():
        for kind in {str(row.gpu_type), "all"}:
            changes[kind, float(row.start)] += float(row.gpus)
            changes[kind, float(row.end)] -= float(row.gpus)
    for gpu_type, there in {**instance.cluster.capacity, "all": sum(instance.cluster.capacity.values())}.items():
        used = np.cumsum([changes[key] for key in sorted(changes) if key[0] == gpu_type])
        assert (used <= there).all()


@st.composite
def cases(draw: st.DrawFn) -> Instance:
    """Jobs that arrive in the first six rounds of 300 s, some with checkpoints, on servers of one to four GPUs."""
    base = draw(job_instances(arrivals=True, zeros=True, jobs=(1, 5)))
    from hetopt import Cluster

    cluster = Cluster.of(dict(base.cluster.capacity), gpus_per_server=draw(st.integers(1, 4)))
    jobs = []
    for job in base.jobs:
        fields: dict[str, Any] = {"checkpoint_bytes": draw(st.sampled_from([0.0, 1e9, 5e10]))}
        jobs.append(
            Job(
                job.name,
                job.throughput,
                job.work,
                job.demand,
                job.arrival + draw(st.sampled_from([0.0, 7.5])),
                **fields,
            )
        )
    return Instance(cluster, jobs=tuple(jobs))


@given(
    instance=cases(), seed=st.integers(0, 99), placed=st.sampled_from([None, HierarchicalPlacer(), MoreWorkersFirst()])
)
@settings(max_examples=examples(30, 120))
@pytest.mark.parametrize("seconds", [None, 300.0])
def test_random_policies(seconds: float | None, instance: Instance, seed: int, placed: Any) -> None:
    """Capacity kept, gangs whole, work conserved, no job faster than its best rate, two runs equal."""
    overheads = Overheads(restart_seconds=15.0, resume_seconds=5.0, start_seconds=2.0)
    logs = [simulate(Random(seed, seconds), instance, placer=placed, overheads=overheads) for _ in range(2)]
    check(logs[0], instance, seconds)
    for name in ("jobs", "spans", "events", "throughput", "rounds"):
        pd.testing.assert_frame_equal(getattr(logs[0], name), getattr(logs[1], name))


SETTINGS = {"fair-sojourn": {"forks": False}}


@pytest.mark.parametrize("name", [name for name in policy_names() if name not in ("hadar-commit", "hadare")])
@given(instance=cases(), placed=st.sampled_from([None, HierarchicalPlacer(), MoreWorkersFirst()]))
@settings(max_examples=examples(4, 20))
def test_every_policy_by_name_finishes_all_jobs(name: str, instance: Instance, placed: Any) -> None:
    """Rounded and placed, in rounds: the same invariants; a policy for tenants refuses at once.

    Hadar's commitments refuse jobs, and HadarE runs them in copies: tests/test_hadar_policy.py, tests/test_hadare.py.
    Of fair sojourn, copies are in tests/test_fair_sojourn.py.
    """
    if name == "allox":
        instance = of_one_demand(instance)
    if name.startswith("oef-") or name == "gandiva-fair":
        with pytest.raises(InvalidInstance, match="is for tenants"):
            simulate(make_policy(name), instance, round_seconds=300.0)
        return
    policy = make_policy(name, SETTINGS.get(name))
    check(simulate(policy, instance, round_seconds=300.0, placer=placed, max_rounds=2000), instance, 300.0)


@given(instance=cases())
def test_rounds_equal_a_plain_loop_in_fractions(instance: Instance) -> None:
    """The engine against a loop over all rounds, in exact arithmetic and without events."""
    seconds, jobs = 300, instance.entities("jobs")
    exact = {
        job.name: {t: Fraction(v).limit_denominator(10**9) for t, v in job.throughput.items()} for job in instance.jobs
    }
    left = {job.name: Fraction(job.work) for job in instance.jobs}
    finish: dict[str, Fraction] = {}
    number = 0
    while len(finish) < len(left):
        start, free = number * seconds, dict(instance.cluster.capacity)
        for job in sorted(instance.jobs, key=lambda job: job.name):
            if job.name in finish or job.arrival > start:
                continue
            for t in sorted(jobs.types, key=lambda t: -job.throughput[t]):
                if exact[job.name][t] and free[t] >= job.demand:
                    free[t] -= job.demand
                    done = exact[job.name][t] * seconds
                    if done >= left[job.name] * (1 - Fraction(WORK)):
                        finish[job.name] = start + left[job.name] / exact[job.name][t]
                    left[job.name] -= done
                    break
        number += 1
    log = simulate(InOrder(float(seconds)), instance, overheads=Overheads(transfer=False))
    for name, expected in finish.items():
        assert abs(log.jobs.loc[name, "finish"] - float(expected)) <= EQUAL * (1 + float(expected))


@st.composite
def tenants_with_jobs(draw: st.DrawFn) -> Instance:
    """Two or three tenants on two GPU types, gangs of up to three."""
    from hetopt import Cluster

    capacity = {"A": draw(st.integers(3, 5)), "B": draw(st.integers(3, 5))}
    tenants, jobs = [], []
    for i in range(draw(st.integers(2, 3))):
        speeds = {"A": 1.0, "B": draw(st.integers(4, 12)) / 4}
        tenants.append(Tenant(f"t{i}", speeds))
        for q in range(draw(st.integers(1, 3))):
            demand = draw(st.integers(1, 3))
            throughput = {t: v * demand for t, v in speeds.items()}
            jobs.append(
                Job(
                    f"t{i}.{q}",
                    throughput,
                    400.0 * draw(st.integers(1, 6)),
                    demand,
                    draw(st.sampled_from([0.0, 450.0])),
                    f"t{i}",
                )
            )
    return Instance(Cluster.of(capacity, gpus_per_server=2), tuple(tenants), tuple(jobs))


@pytest.mark.parametrize("policy", [oef.cooperative(), oef.noncooperative()], ids=["cooperative", "noncooperative"])
@given(instance=tenants_with_jobs(), usable=st.sampled_from(["smallest", "sums"]))
@settings(max_examples=15)
def test_all_steps_from_shares_to_servers(policy: Any, instance: Instance, usable: Any) -> None:
    """OEF, whole GPUs with gangs, longest starved first, servers, restarts: every job ends and nothing is broken."""
    log = simulate(
        policy, instance, round_seconds=300.0, rounder=WholeGPUs(usable), placer=HierarchicalPlacer(),
        overheads=Overheads(restart_seconds=10.0),
    )  # fmt: skip
    check(log, instance, 300.0)
    assert (log.spans["servers"] != "").all()
    rate = log.mean_throughput() * (log.rounds["end"] - log.rounds["start"]).sum()
    for tenant in instance.tenants:  # normalised work: one unit is one second of a GPU of type A
        assert (
            abs(rate[tenant.name] - sum(j.work for j in instance.jobs if j.tenant == tenant.name)) <= EQUAL * rate.sum()
        )
