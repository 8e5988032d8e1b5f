from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, JobType, LongestStarved, Plan, Tenant


def shared(
    capacity: dict[str, int],
    jobs: list[tuple[str, str, int]],
    *,
    throughput: dict[str, float] | None = None,
    **more: Any,
) -> Instance:
    """Jobs (name, tenant, demand) that all run at the speeds ``throughput`` (default 1)."""
    speeds = throughput or dict.fromkeys(capacity, 1.0)
    tenants = tuple(Tenant(t, dict.fromkeys(capacity, 1.0)) for t in dict.fromkeys(t for _, t, _ in jobs))
    rows = tuple(Job(name, speeds, 10.0, demand, tenant=t) for name, t, demand in jobs)
    return Instance(Cluster.of(capacity), tenants=tenants, jobs=rows, **more)


def plan(instance: Instance, gpus: list[list[int]]) -> Plan:
    return Plan(instance.entities("tenants"), np.array(gpus, dtype=float))


def test_round_robin_within_a_tenant() -> None:
    """Three jobs on one GPU take turns; what ran last waits longest for its next turn."""
    instance, state, served = shared({"G": 1}, [("a", "t", 1), ("b", "t", 1), ("c", "t", 1)]), None, []
    held: dict[str, dict[str, float]] = {}
    for r in range(6):
        now = instance.replace(time=300.0 * r, held=held)
        chosen, state = LongestStarved()(plan(now, [[1]]), now, state)
        running = [name for name, gpu_type in chosen.assigned.items() if gpu_type]
        served += running
        held = {name: {"G": 1.0} for name in running}
    assert served == ["a", "b", "c", "a", "b", "c"]


def test_a_job_that_never_ran_has_starved_since_its_arrival() -> None:
    early, late = Job("late", {"G": 1.0}, 1.0, arrival=50.0, tenant="t"), Job("early", {"G": 1.0}, 1.0, tenant="t")
    instance = Instance(Cluster.of({"G": 1}), (Tenant("t", {"G": 1.0}),), (early, late), time=100.0)
    chosen, _ = LongestStarved()(plan(instance, [[1]]), instance, None)
    assert chosen.assigned == {"late": None, "early": "G"}


def test_fastest_type_then_the_type_held_then_the_first() -> None:
    two = {"A": 1, "B": 1}
    fast = shared(two, [("a", "t", 1)], throughput={"A": 1.0, "B": 3.0})
    assert LongestStarved()(plan(fast, [[1, 1]]), fast)[0].assigned == {"a": "B"}
    same = shared(two, [("a", "t", 1)])
    assert LongestStarved()(plan(same, [[1, 1]]), same)[0].assigned == {"a": "A"}
    held = same.replace(held={"a": {"B": 1.0}})
    assert LongestStarved()(plan(held, [[1, 1]]), held)[0].assigned == {"a": "B"}


def test_a_gang_that_does_not_fit_waits_and_the_next_takes_its_place() -> None:
    instance = shared({"G": 4}, [("big", "t", 3), ("small", "t", 1), ("other", "u", 2)])
    chosen, _ = LongestStarved()(plan(instance, [[2], [2]]), instance)
    assert chosen.x.ravel().tolist() == [0, 1, 2]
    assert chosen.given_up["idle"] == 1


def test_one_type_per_job_unless_mixing_is_asked_for() -> None:
    instance = shared({"A": 2, "B": 1}, [("a", "t", 3)], throughput={"A": 1.0, "B": 2.0})
    alone, _ = LongestStarved()(plan(instance, [[2, 1]]), instance)
    mixed, _ = LongestStarved(mix=True)(plan(instance, [[2, 1]]), instance)
    assert alone.x.tolist() == [[0, 0]]
    assert mixed.x.tolist() == [[2, 1]]


def test_lending_gives_idle_gpus_to_other_tenants() -> None:
    instance = shared({"G": 4}, [("a", "t", 1), ("b", "u", 2), ("c", "u", 2)])
    own, _ = LongestStarved()(plan(instance, [[2], [2]]), instance)
    lent, _ = LongestStarved(lend=True)(plan(instance, [[3], [1]]), instance)
    assert own.x.ravel().tolist() == [1, 2, 0]
    assert lent.x.ravel().tolist() == [1, 2, 0]
    assert lent.given_up["idle"] == 1


def test_jobs_of_several_types_are_kept_apart() -> None:
    kinds = (JobType("x", {"G": 1.0}), JobType("y", {"G": 1.0}))
    jobs = [Job(f"{kind}{i}", {"G": 1.0}, 1.0, tenant="t", job_type=kind) for kind in "xy" for i in range(2)]
    instance = Instance(Cluster.of({"G": 3}), (Tenant("t", kinds),), tuple(jobs))
    chosen, _ = LongestStarved()(plan(instance, [[1], [2]]), instance)
    assert chosen.x.ravel().tolist() == [1, 0, 1, 1]
    unknown = instance.replace(jobs=(Job("z", {"G": 1.0}, 1.0, tenant="t"),))
    with pytest.raises(InvalidInstance, match=r"jobs\['z'\].job_type is None; tenant 't' has several: x, y"):
        LongestStarved()(plan(unknown, [[1], [2]]), unknown)


def test_bad_input_is_refused() -> None:
    instance = shared({"G": 1}, [("a", "t", 1)])
    homeless = instance.replace(jobs=(*instance.jobs, Job("b", {"G": 1.0}, 1.0)))
    with refused(InvalidInstance, "jobs['b'].tenant"):
        LongestStarved()(plan(homeless, [[1]]), homeless)
    with pytest.raises(InvalidOption, match="over jobs already"):
        LongestStarved()(Plan(instance.entities("jobs"), np.ones((1, 1))), instance)
    with refused(InvalidInstance, "jobs['c'].job_type", "'q'"):
        instance.replace(jobs=(Job("c", {"G": 1.0}, 1.0, tenant="t", job_type="q"),))


@given(st.data())
def test_gangs_are_whole_within_the_tenants_gpus_and_none_that_fits_waits(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    capacity = {f"G{i}": 6 for i in range(k)}
    demands = [(f"t{i}", data.draw(st.integers(1, 4))) for i in range(n) for _ in range(data.draw(st.integers(1, 3)))]
    instance = shared(capacity, [(f"j{q}", t, d) for q, (t, d) in enumerate(demands)])
    tenants = instance.entities("tenants").names
    gpus = [data.draw(st.lists(st.integers(0, 6 // n), min_size=k, max_size=k)) for _ in tenants]
    mix, lend = data.draw(st.booleans()), data.draw(st.booleans())
    chosen, _ = LongestStarved(mix, lend)(plan(instance, gpus), instance)
    total = chosen.x.sum(axis=1)
    assert all(got in (0, d) for got, (_, d) in zip(total, demands, strict=True))
    assert (chosen.x.sum(axis=0) <= np.sum(gpus, axis=0)).all()
    assert mix or all((row > 0).sum() <= 1 for row in chosen.x)
    if not lend:
        for name, own in zip(tenants, np.array(gpus), strict=True):
            mine = [q for q, (t, _) in enumerate(demands) if t == name]
            left = own - chosen.x[mine].sum(axis=0)
            assert (left >= 0).all()
            room = left.sum() if mix else left.max()
            assert all(demands[q][1] > room for q in mine if total[q] == 0)
