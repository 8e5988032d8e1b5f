"""The instance at a time: who is present, what is held, done and placed."""

from __future__ import annotations

from typing import Any

import pytest
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, Job, Tenant

T4 = {"T4": 1.0}
ONE = Cluster.of(T4)  # type: ignore[arg-type]
TWO = Cluster.of({"T4": 2, "V100": 2})
SPEEDS = {"T4": 1.0}


def tenants(*names: str) -> tuple[Tenant, ...]:
    return tuple(Tenant(name, SPEEDS) for name in names)  # type: ignore[arg-type]


def job(**fields: Any) -> Job:
    return Job("j", SPEEDS, 1, **fields)


DAY = Instance.from_jobs(
    [[2, 4]] * 3,
    1,
    work=[8, 8, 8],
    capacity=[2, 2],
    jobs=["old", "now", "new"],
    arrival=[0, 60, 600],
    done={"old": 8, "now": 3, "new": 0},
    held={"old": {"GPU1": 1}, "now": {"GPU2": 1}},
    placed={"old": {"gpu1-0": {"GPU1": 1}}, "now": {"gpu2-0": {"GPU2": 1}}},
)


def test_at_keeps_who_has_arrived_and_is_unfinished() -> None:
    then = DAY.at(60)
    assert [j.name for j in then.jobs] == ["now"]
    assert then.time == 60
    assert then.held == {"now": {"GPU2": 1}}
    assert then.done == {"now": 3}
    assert then.placed == {"now": {"gpu2-0": {"GPU2": 1}}}
    assert [j.name for j in DAY.at(600).jobs] == ["now", "new"]


def test_at_keeps_that_no_present_job_holds_gpus() -> None:
    """Without a row ``held`` would be unknown, and a switching cost zero."""
    then = DAY.replace(held={"old": {"GPU1": 1}}, placed={}).at(60)
    held = then.entities("jobs").held
    assert held is not None
    assert not held.any()
    assert DAY.replace(held={}, placed={}).at(60).entities("jobs").held is None


def test_jobs_hold_what_they_are_placed_on() -> None:
    placed = DAY.replace(held={})
    assert placed.held == DAY.held
    assert placed.entities("jobs").held.tolist() == [[1, 0], [0, 1], [0, 0]]  # type: ignore[union-attr]


def test_who_is_placed_elsewhere_holds_other_gpus() -> None:
    moved = DAY.replace(placed={"now": {"gpu1-0": {"GPU1": 1}}})
    assert moved.held == {"now": {"GPU1": 1}}
    assert DAY.replace(time=60).held == DAY.held


def test_tenants_and_jobs_may_hold_the_same_gpus() -> None:
    """A tenant's GPUs are those that its jobs run on; averages over time are rounded."""
    both = Instance(ONE, tenants("a", "b", "c"), (job(tenant="a"),), held={"a": {"T4": 1}, "j": {"T4": 1}})
    assert both.replace(held={name: {"T4": 0.1 + 0.7 / 3} for name in "abc"}).entities("tenants").held is not None


def test_at_leaves_tenants_and_what_they_hold() -> None:
    instance = Instance.from_speedups([[1, 2], [1, 3]], [2, 2], held=[[2, 0], [0, 2]])
    assert instance.at(60) == instance.replace(time=60)
    assert Instance(TWO).at(5) == Instance(TWO, time=5)


def test_other_jobs_keep_their_state() -> None:
    """The first jobs of a workload keep the work done and the GPUs that they have."""
    kept = DAY.with_jobs(["old", "now"])
    assert [job.name for job in kept.jobs] == ["old", "now"]
    assert (kept.done, kept.placed, kept.held) == ({"old": 8, "now": 3}, DAY.placed, DAY.held)
    assert "old" not in {**DAY.with_jobs(["now"]).done, **DAY.with_jobs(["now"]).placed, **DAY.with_jobs(["now"]).held}
    assert DAY.with_jobs(["new", "now", "old"]) is DAY
    with pytest.raises(InvalidInstance, match="'later'"):
        DAY.with_jobs(["later"])


@pytest.mark.parametrize(
    ("instance", "time", "key", "match"),
    [
        (DAY, -1, "time", None),
        (DAY, 30, "time", "is 30 s; every job that has arrived by then is finished; the next arrives at 60 s"),
        (
            DAY.replace(done={"old": 8, "now": 9, "new": 8}),
            600,
            "time",
            "is 600 s; every job that has arrived .* finished$",
        ),
        (
            Instance.from_jobs([[1], [1]], 1, 1, [1], arrival=[90, 7.5]),
            7,
            "time",
            "no job has arrived by then, .* 'j2' at 7.5 s$",
        ),
    ],
)
def test_at_refuses_a_time_without_jobs(instance: Instance, time: float, key: str | None, match: str | None) -> None:
    with refused(InvalidInstance, key, match):
        instance.at(time)
