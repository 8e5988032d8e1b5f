"""Every system and baseline in random environments: the invariants of the simulator, and what each promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refused import refused
from test_environment_properties import check, environments

import hetopt
from hetopt import Allocation, Instance, Job, JobType, LongestStarved, Plan, Tenant, instances, simulate
from hetopt.data.array_types import Floats
from hetopt.decisions.rounders import ByPriority, Rounder
from hetopt.decisions.system import OnChange, System
from hetopt.errors import InvalidOption, Stalled
from hetopt.experiments.comparison import of_one_demand
from hetopt.experiments.experiment import SystemVariant
from hetopt.models import fft, gavel
from hetopt.registry import make_system, policy_names, system_names
from hetopt.simulation.environment import Environment
from hetopt.simulation.log import Log

QUEUES = ("fifo", "srtf", "srsf", "las", "tiresias", "tiresias-per-type", "yarn-cs", "pal", "themis", "hadar")
KEEPS = ("fifo", "yarn-cs", "allox")
"""Systems that never preempt a job."""
ONE_TYPE = ("fft", "gavel", "gavel-sjf", "gavel-ftf", "fifo", "srtf", "srsf", "las", "tiresias", "yarn-cs", "themis")
"""Systems that give a job GPUs of one type at a time."""


def owned(instance: Instance) -> Instance:
    """The jobs shared out among two tenants, whose speedups are those of their first job."""
    types = instance.cluster.type_names
    jobs = [replace(job, tenant=f"u{i % 2}", job_type=None) for i, job in enumerate(instance.jobs)]
    tenants = []
    for name in sorted({str(job.tenant) for job in jobs}):
        first = next(job for job in jobs if job.tenant == name)
        tenants.append(Tenant(name, (JobType.from_throughput("jobs", dict(first.throughput)),)))
    same = {t.name: t.job_types[0].speedup for t in tenants}
    jobs = [replace(job, throughput={t: same[str(job.tenant)][t] / 300 for t in types}) for job in jobs]
    return replace(instance, tenants=tuple(tenants), jobs=tuple(jobs))


def run(name: str, instance: Instance, environment: Environment) -> Log | None:
    """The log, or None where it moves jobs faster than they restart."""
    system = make_system(name)
    system = replace(system, placer=system.placer or hetopt.MoreWorkersFirst(sticky=True))
    try:
        return simulate(system, instance, environment=environment, patience=60)
    except Stalled:
        return None


@pytest.mark.parametrize("name", sorted({*system_names(), *QUEUES} - {"isolated"}))
@given(case=environments())
@settings(max_examples=examples(8, 40), deadline=None)
def test_invariants(name: str, case: tuple[Instance, Environment]) -> None:
    instance, environment = case
    if name == "allox":
        instance = of_one_demand(instance)
    if any(word in name for word in ("oef", "gandiva", "tenants")):
        instance = owned(instance)
    log = run(name, instance, environment)
    if log is None:
        return
    check(log, instance, environment)
    if name in ONE_TYPE:
        assert not log.spans["gpu_type"].str.contains("+", regex=False).any()
    if name in KEEPS and not environment.changes:
        for _, own in log.spans.groupby("job"):  # several rows where it pauses for profiling runs
            assert own["seats"].nunique() == 1
            assert own["start"].tolist()[1:] == own["end"].tolist()[:-1]
        assert (log.jobs["switches"] == 0).all()


def test_isolated_jobs_run_on_their_part_of_the_cluster() -> None:
    """One GPU each of two types, one job that is twice as fast on B: half of each type's time, rate (1 + 2) / 2 / 2."""
    instance = Instance.from_jobs([[1.0, 2.0], [1.0, 2.0]], 1, [6.0, 12.0], [1, 1], round_seconds=1.0)
    log = simulate(make_system("isolated"), instance)
    # Alone from 4 on, j2 has all of both types, but runs at most all the time: rate (1 + 2) / 2.
    assert log.jobs["finish"].tolist() == [4.0, 8.0]


def test_jobs_of_a_demand_of_their_own() -> None:
    jobs = (Job("a", {"G": 1.0}, 8.0, 2), Job("b", {"G": 1.0}, 8.0))
    with pytest.raises(hetopt.HetoptError):
        simulate(make_system("allox"), Instance(hetopt.Cluster.of({"G": 2}), jobs=jobs))


@pytest.mark.parametrize("name", [name for name in policy_names() if name != "allox"])
def test_every_policy_by_name_runs_as_it_is(name: str) -> None:
    """Shares of time get rounds of 300 s; a formulation needs no other word. AlloX wants jobs of one demand."""
    log = simulate(make_system(name), instances.load("lab36/jobs"), max_rounds=2)
    assert len(log.rounds) >= 1
    assert (log.spans["servers"] != "").all() or make_system(name).fluid


@pytest.mark.parametrize("name", ["fft", "hadar", "hadare", "themis", "tiresias"])
def test_the_length_of_rounds_is_that_of_the_policy_too(name: str) -> None:
    """However it is set, the policy computes with the rounds in which it decides."""
    instance = instances.load("lab36/jobs")
    jobs = instance.with_jobs(job.name for job in instance.jobs[:6])
    variants = SystemVariant(name, {"round_seconds": 480.0}), SystemVariant(name, round_seconds=480.0)
    first, second = (simulate(variant.build(), jobs) for variant in variants)
    assert first.spans.equals(second.spans)
    assert SystemVariant(name, {"round_seconds": 480.0}, round_seconds=60.0).build().seconds == 480


def test_rounds_that_the_policy_cannot_use_are_refused() -> None:
    with refused(hetopt.InvalidOption, "HadarE.restart_seconds"):
        SystemVariant("hadare", round_seconds=5.0).build()


def test_rounds_of_a_policy_that_is_called_on_change() -> None:
    system = System(OnChange(fft.FFT(), 300.0), round_seconds=60.0)
    assert (system.seconds, system.policy.round_seconds, system.policy.policy.round_seconds) == (60, 60, 60)


def test_only_rounders_take_shares_of_earlier_jobs() -> None:
    policy = OnChange(gavel.max_min_fairness(), 300.0, least_seconds=900.0)
    System(policy, rounder=ByPriority())
    for options in ({}, {"fluid": True}, {"fluid": True, "rounder": ByPriority()}):
        with refused(InvalidOption, "OnChange.least_seconds"):
            System(policy, **options)


@dataclass(frozen=True)
class Recorded:
    """A rounder that records its plans and deviations."""

    rounder: Rounder
    rounds: list[tuple[float, Floats, Any]]

    def __call__(self, allocation: Allocation, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan of the rounder."""
        plan, after = self.rounder(allocation, instance, state)
        self.rounds.append((instance.time, plan.x, after))
        return plan, after


SHARED = ("oef-cooperative", "oef-noncooperative", "gavel-tenants", "gandiva-fair", "equal-split-tenants")
"""Systems of tenants, which may lend."""


@pytest.mark.parametrize("name", SHARED)
@given(case=environments(), mix=st.booleans())
@settings(max_examples=examples(8, 40), deadline=None)
def test_lending_changes_no_shares_of_whole_systems(name: str, case: tuple[Instance, Environment], mix: bool) -> None:
    """No deviation counts what is lent: until a job finishes, shares and deviations are those without lending."""
    instance, environment = owned(case[0]), case[1]
    assume(instance.entities("jobs").allowed.any(axis=1).all())  # a tenant's speedups may leave a gang no type
    logs, rounds = list[Log](), list[list[tuple[float, Floats, Any]]]()
    for lend in (False, True):
        system = make_system(name, {"mix": mix, "lend": lend})
        assert system.selection == LongestStarved(mix, lend)
        assert system.rounder is not None
        recorded = Recorded(system.rounder, [])
        try:
            logs.append(simulate(replace(system, rounder=recorded), instance, environment=environment, patience=60))
        except Stalled:
            return
        rounds.append(recorded.rounds)
    check(logs[1], instance, environment)
    first = min(log.jobs["finish"].min() for log in logs)
    own, lent = ([row for row in one if row[0] < first] for one in rounds)
    assert [(time, x.tolist(), owed) for time, x, owed in own] == [(time, x.tolist(), owed) for time, x, owed in lent]
