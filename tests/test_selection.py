from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, JobType, LongestStarved, Plan, Tenant
from hetopt.decisions.selection import LastSeen


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


def test_idle_gpus_are_lent() -> None:
    """Tenant t leaves two GPUs idle, and one is of no tenant: with u's own GPU, c can run on two of these."""
    instance = shared({"G": 5}, [("a", "t", 1), ("b", "u", 1), ("c", "u", 2)])
    given = plan(instance, [[3], [1]])
    own, _ = LongestStarved()(given, instance)
    lent, _ = LongestStarved(lend=True)(given, instance)
    assert own.x.ravel().tolist() == [1, 1, 0]
    assert own.given_up["idle"] == 2  # as the plan states no loss of the fifth
    assert own.borrowers == frozenset()
    assert lent.x.ravel().tolist() == [1, 1, 2]
    assert lent.given_up["idle"] == 1
    assert lent.borrowers == {"c"}


def test_a_tenant_uses_its_own_gpus_for_all_its_job_types_before_they_are_lent() -> None:
    kinds = (JobType("x", {"G": 1.0}), JobType("y", {"G": 1.0}))
    jobs = tuple(Job(name, {"G": 1.0}, 1.0, tenant="t", job_type=name[0]) for name in ("x0", "y0", "y1"))
    other = Job("z", {"G": 1.0}, 1.0, tenant="u")  # has starved as long, and its tenant has never borrowed
    instance = Instance(Cluster.of({"G": 3}), (Tenant("u", {"G": 1.0}), Tenant("t", kinds)), (other, *jobs))
    chosen, _ = LongestStarved(lend=True)(plan(instance, [[0], [2], [1]]), instance)
    assert chosen.x.ravel().tolist() == [0, 1, 1, 1]
    assert chosen.borrowers == frozenset()


def test_owners_reclaim_what_they_have_lent() -> None:
    """A job of u borrows the GPU of t until t has a second job."""
    jobs = [("a", "t", 1), ("b", "u", 1), ("c", "u", 1), ("d", "t", 1)]
    later = shared({"G": 3}, jobs, time=300.0)
    early = later.with_jobs(("a", "b", "c")).replace(time=0.0)
    chosen, state = LongestStarved(lend=True)(plan(early, [[2], [1]]), early)
    assert chosen.borrowers == {"c"}
    later = later.replace(held={name: {"G": 1.0} for name in "abc"})
    chosen, state = LongestStarved(lend=True)(plan(later, [[2], [1]]), later, state)
    assert chosen.x.ravel().tolist() == [1, 1, 0, 1]
    assert chosen.borrowers == frozenset()


def test_a_loan_goes_on_with_the_same_gpus() -> None:
    """B borrows the slow GPU and keeps it, though c has starved longer and the fast GPU is idle now."""
    jobs = [("a", "t", 1), ("b", "u", 1), ("c", "u", 1)]
    instance = shared({"A": 2, "B": 2}, jobs, throughput={"A": 1.0, "B": 3.0})
    now = instance.replace(time=300.0, held={"b": {"A": 1.0}})
    chosen, _ = LongestStarved(lend=True)(plan(now, [[2, 2], [0, 0]]), now)
    assert chosen.assigned == {"a": "B", "b": "A", "c": "B"}
    few = instance.replace(cluster=Cluster.of({"A": 1, "B": 1}), time=300.0, held={"b": {"A": 1.0}})
    chosen, _ = LongestStarved(lend=True)(plan(few, [[1, 1], [0, 0]]), few)
    assert chosen.assigned == {"a": "B", "b": "A", "c": None}


def test_tenants_borrow_in_turns_however_many_jobs_they_have() -> None:
    """Tenant t owns all GPUs. One idle GPU goes to u and v alternately; of four, v has two, though u has eight jobs."""
    jobs = [("t0", "t", 1), *((f"u{i}", "u", 1) for i in range(8)), *((f"v{i}", "v", 1) for i in range(2))]
    borrowed, selection = list[dict[str, int]](), LongestStarved(lend=True)
    for idle in (1, 4):
        instance, state, held = shared({"G": 1 + idle}, jobs), None, dict[str, dict[str, float]]()
        for r in range(4):
            now = instance.replace(time=300.0 * r, held=held)
            chosen, state = selection(plan(now, [[1 + idle], [0], [0]]), now, state)
            held = {name: {"G": 1.0} for name, gpu_type in chosen.assigned.items() if gpu_type}
            borrowed.append({t: sum(name[0] == t for name in chosen.borrowers) for t in "uv"})
    assert borrowed[:4] == [{"u": 1, "v": 0}, {"u": 0, "v": 1}] * 2
    assert borrowed[4:] == [{"u": 2, "v": 2}] * 4


def test_borrowed_gpus_are_in_proportion_to_weights() -> None:
    instance = shared({"G": 6}, [(f"{t}{i}", t, 1) for t in "uv" for i in range(6)])
    heavy = instance.replace(tenants=(Tenant("u", {"G": 1.0}, weight=2.0), Tenant("v", {"G": 1.0})))
    chosen, _ = LongestStarved(lend=True)(plan(heavy, [[0], [0]]), heavy)
    assert sorted(chosen.borrowers) == ["u0", "u1", "u2", "u3", "v0", "v1"]


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


@st.composite
def cases(draw: st.DrawFn) -> tuple[Instance, Plan]:
    """Tenants with jobs of several demands, some of which ran before, and whole GPUs of each tenant."""
    n, k = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    capacity = {f"G{i}": 6 for i in range(k)}
    demands = [(f"t{i}", draw(st.integers(1, 4))) for i in range(n) for _ in range(draw(st.integers(1, 3)))]
    instance = shared(capacity, [(f"j{q}", t, d) for q, (t, d) in enumerate(demands)], time=300.0)
    gpus = [draw(st.lists(st.integers(0, 6 // n), min_size=k, max_size=k)) for _ in range(n)]
    return instance, plan(instance, gpus)


@given(cases(), st.booleans(), st.booleans())
def test_gangs_are_whole_within_the_tenants_gpus_and_none_that_fits_waits(
    case: tuple[Instance, Plan], mix: bool, lend: bool
) -> None:
    instance, given = case
    chosen, _ = LongestStarved(mix, lend)(given, instance)
    total, demand = chosen.x.sum(axis=1), instance.job_array("demand")
    assert ((total == 0) | (total == demand)).all()
    assert mix or all((row > 0).sum() <= 1 for row in chosen.x)
    waiting = np.flatnonzero(total == 0)
    if lend:
        rows = [(chosen.entities.capacity - chosen.x.sum(axis=0), waiting)]
        assert chosen.given_up["idle"] == rows[0][0].sum()
    else:
        owner = np.array([job.tenant for job in instance.jobs])
        rows = []
        for name, own in zip(given.entities.names, given.x, strict=True):
            rows.append((own - chosen.x[owner == name].sum(axis=0), waiting[owner[waiting] == name]))
    for left, those in rows:
        assert (left >= 0).all()
        assert (demand[those] > (left.sum() if mix else left.max())).all()


@given(cases(), st.booleans(), st.dictionaries(st.sampled_from([f"j{q}" for q in range(9)]), st.floats(0, 299)))
def test_lending_changes_no_job_on_its_tenants_own_gpus(
    case: tuple[Instance, Plan], mix: bool, ran: dict[str, float]
) -> None:
    (instance, given), state = case, LastSeen(ran)
    own, _ = LongestStarved(mix)(given, instance, state)
    lent, _ = LongestStarved(mix, lend=True)(given, instance, state)
    runs = own.x.any(axis=1)
    assert np.array_equal(lent.x[runs], own.x[runs])
    more = np.flatnonzero(lent.x.any(axis=1) & ~runs)
    assert lent.borrowers == {lent.entities.names[i] for i in more}


@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.integers(0, 12), st.permutations(range(4)))
def test_no_tenant_borrows_more_by_more_waiting_jobs(jobs: list[int], idle: int, order: list[int]) -> None:
    """Of jobs with one GPU each, a tenant that still waits has borrowed at most one GPU fewer than any other tenant.

    So it borrows what it borrows with fewer jobs, as long as these waited, too.
    """
    many = [(f"t{e}-{i}", f"t{e}", 1) for e, n in enumerate(jobs) for i in range(n)]
    instance = shared({"G": idle + 1}, [("o", "owner", 1), *many])
    tenants = instance.entities("tenants").names
    state = LastSeen(borrowed={f"t{e}": float(second) for e, second in enumerate(order)})

    def borrowed(now: Instance) -> dict[str, int]:
        gpus = [[idle + 1 if name == "owner" else 0] for name in now.entities("tenants").names]
        chosen, _ = LongestStarved(lend=True)(plan(now, gpus), now, state)
        assert len(chosen.borrowers) == min(idle, len(now.jobs) - 1)
        return {t: sum(now.job[name].tenant == t for name in chosen.borrowers) for t in tenants}

    found = borrowed(instance)
    waits = {f"t{e}": n > found.get(f"t{e}", 0) for e, n in enumerate(jobs)}
    most = max(found.values())
    for e, n in enumerate(jobs):
        if waits[tenant := f"t{e}"]:
            assert found[tenant] >= most - 1
            fewer = [job.name for job in instance.jobs if job.name != f"{tenant}-{n - 1}"]
            assert borrowed(instance.with_jobs(fewer)).get(tenant, 0) == found[tenant]
