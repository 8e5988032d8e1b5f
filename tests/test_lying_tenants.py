"""Tenants that overstate their speedups: what policies are told, and that jobs run as they are."""

from __future__ import annotations

from typing import Any

import pytest

import hetopt
from hetopt import InvalidOption, instances
from hetopt.experiments.environment_settings import WorldSettings
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.models import oef
from hetopt.simulation.environment import World
from hetopt.simulation.estimates import Beliefs

FOUR = TraceWorkload("oef-four-users", "oef/cluster", count=8, tenants="users").instance()


def test_only_the_liar_is_told_otherwise_and_only_its_faster_types() -> None:
    told = Beliefs(lies={"User-1": 0.5}).of(FOUR)
    for true, said in zip(FOUR.tenants, told.tenants, strict=True):
        speed, claimed = dict(true.job_types[0].speedup), dict(said.job_types[0].speedup)
        if true.name == "User-1":
            assert claimed == {t: v * (1.5 if v > 1 else 1) for t, v in speed.items()}
        else:
            assert claimed == speed
    assert [job.throughput == other.throughput for job, other in zip(FOUR.jobs, told.jobs, strict=True)] == [
        job.tenant != "User-1" for job in FOUR.jobs
    ]
    assert Beliefs().of(FOUR).tenants == FOUR.tenants


def test_equal_2_of_the_paper_is_a_lie() -> None:
    """[OEF, section 2.4]: u1's speedup of 2 told as 2.8 is a lie of 40 %."""
    eq1 = instances.load("oef/eq1")
    told = Beliefs(lies={"u1": 0.4}).of(eq1).tenants[0].job_types[0].speedup
    assert told == pytest.approx(dict(instances.load("oef/eq1-lie").tenants[0].job_types[0].speedup))


def test_a_lie_changes_what_policies_give_and_not_how_fast_jobs_run() -> None:
    """One round: each user's throughput is that of the GPUs that it has, at its true speeds."""
    log = hetopt.simulate(
        oef.noncooperative(),
        FOUR,
        round_seconds=300.0,
        max_rounds=1,
        world=World(beliefs=Beliefs(lies={"User-1": 1.0})),
    )
    speed = {job.name: job.throughput for job in FOUR.jobs}
    for tenant, own in log.spans.groupby("tenant"):
        expected = sum(speed[job][t] for job, t in zip(own["job"], own["gpu_type"], strict=True))
        assert log.throughput[str(tenant)].iloc[0] == pytest.approx(expected)
    promised = log.estimated.iloc[0].to_list()
    assert promised == pytest.approx([promised[0]] * 4)  # equal as they are told


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beliefs(lies={"User-1": -0.5}), r"Beliefs\.lies\['User-1'\] is -0\.5"),
        (lambda: Beliefs(lies=3), r"Beliefs\.lies is 3; it must be a mapping"),  # type: ignore[arg-type]
        (lambda: Beliefs(lies={"": 1.0}), r"Beliefs\.lies is"),
        (lambda: Beliefs(lies={"User-5": 1.0}).of(FOUR), r"lies names 'User-5', which is no tenant; did you mean"),
        (lambda: WorldSettings(liar="User-1"), r"liar and lie are 'User-1' and 0\.0; give both"),
        (lambda: WorldSettings(lie=0.5), "give both: who lies, and by how much"),
        (lambda: WorldSettings(liar=3, lie=0.5), "world setting liar is 3; it must be a tenant's name"),  # type: ignore[arg-type]
    ],
)
def test_lies_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        make()


def test_worlds_can_be_told_of_a_liar() -> None:
    world = WorldSettings.of({"liar": "User-1", "lie": 0.25}).world(FOUR.cluster, 7)
    assert world.beliefs == Beliefs(seed=7, lies={"User-1": 0.25})
    assert WorldSettings(liar="User-1", lie=0.25).changed() == {"liar": "User-1", "lie": 0.25}
