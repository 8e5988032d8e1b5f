from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from hetopt import (
    Cluster,
    GPUType,
    HierarchicalPlacer,
    Instance,
    InvalidOption,
    InvalidPlan,
    Job,
    MoreWorkersFirst,
    Parallelism,
    Placement,
    Plan,
    Server,
)
from hetopt.decisions.placers import FreeGPUs, NoServerFits, Placer, pack
from hetopt.decisions.system import check_placement

PLACERS = [HierarchicalPlacer(), HierarchicalPlacer(sticky=False), MoreWorkersFirst(), MoreWorkersFirst(sticky=True)]


def hosts(sizes: list[int]) -> Cluster:
    """One GPU type on servers s0, s1, …"""
    return Cluster((GPUType("G"),), tuple(Server(f"s{i}", {"G": n}) for i, n in enumerate(sizes)))


def instance_of(sizes: list[int], jobs: list[tuple[str, int, str]], **more: Any) -> Instance:
    """Jobs (name, demand, parallelism); ``checkpoint`` maps names to bytes."""
    sizes_of = more.pop("checkpoint", {})
    rows = tuple(
        Job(name, {"G": 1.0}, 1.0, d, parallelism=Parallelism(p), checkpoint_bytes=sizes_of.get(name, 0.0))
        for name, d, p in jobs
    )
    return Instance(hosts(sizes), jobs=rows, **more)


def everyone(instance: Instance) -> Plan:
    return Plan(instance.entities("jobs"), instance.entities("jobs").demand[:, None].copy())


def servers(placement: Placement) -> dict[str, dict[str, int]]:
    return {job: {s: gpus["G"] for s, gpus in own.items()} for job, own in placement.hosts.items()}


@pytest.mark.parametrize(("cheap", "dear"), [("J2", "J4"), ("J4", "J2")])
def test_fig_6_of_fft(cheap: str, dear: str) -> None:
    """T1: data- and tensor-parallel jobs get a host each, pipelines are spread. T2: J1 leaves, the cheaper moves."""
    intra = [("J1", 2, "tensor"), ("J3", 2, "data"), ("J5", 2, "data"), ("J6", 2, "data")]
    jobs, checkpoint = [("J2", 2, "pipeline"), ("J4", 2, "pipeline"), *intra], {cheap: 1e9, dear: 5e9}
    first = instance_of([3, 3, 3, 3], jobs, checkpoint=checkpoint)
    at_t1 = HierarchicalPlacer()(everyone(first), first)
    assert {job: len(own) for job, own in at_t1.hosts.items()} == {"J1": 1, "J3": 1, "J5": 1, "J6": 1, "J2": 2, "J4": 2}
    assert at_t1.given_up["split"] == 2
    stay = {job: own for job, own in at_t1.hosts.items() if job != "J1"}
    second = instance_of(
        [3, 3, 3, 3], [job for job in jobs if job[0] != "J1"], checkpoint=checkpoint, placed=stay, time=300.0
    )
    at_t2 = HierarchicalPlacer()(everyone(second), second)
    assert servers(at_t2)[cheap] == {"s0": 2}
    assert {job: own for job, own in at_t2.hosts.items() if job != cheap} == {
        job: own for job, own in stay.items() if job != cheap
    }
    assert at_t2.given_up == {"split": 1, "extra_servers": 1, "moved": 1, "waiting": 0}


def test_cheaper_migration_takes_the_only_room() -> None:
    """Two spread jobs, room for one of them in s2: the one with the smaller checkpoint moves."""
    placed = {"a": {"s0": {"G": 1}, "s1": {"G": 1}}, "b": {"s0": {"G": 1}, "s1": {"G": 1}}, "c": {"s2": {"G": 1}}}
    for cheap, dear in (("a", "b"), ("b", "a")):
        instance = instance_of(
            [2, 2, 3], [("a", 2, "data"), ("b", 2, "data"), ("c", 1, "data")], placed=placed, checkpoint={dear: 1e9}
        )
        after = HierarchicalPlacer()(everyone(instance), instance)
        assert servers(after)[cheap] == {"s2": 2}
        still = HierarchicalPlacer(consolidate=False)(everyone(instance), instance)
        assert servers(still) == {job: {s: g["G"] for s, g in own.items()} for job, own in placed.items()}
        assert still.given_up == {"split": 2, "extra_servers": 2, "moved": 0, "waiting": 0}


def test_intra_operator_jobs_come_before_pipelines_and_larger_before_smaller() -> None:
    jobs = [("pipe", 4, "pipeline"), ("small", 2, "data"), ("large", 3, "tensor")]
    instance = instance_of([4, 3, 2], jobs)
    assert servers(HierarchicalPlacer()(everyone(instance), instance)) == {
        "large": {"s1": 3},
        "small": {"s2": 2},
        "pipe": {"s0": 4},
    }
    tight = instance_of([3, 3], [("pipe", 3, "pipeline"), ("data", 3, "data")])
    full = HierarchicalPlacer()(everyone(tight), tight)
    assert servers(full)["data"] == {"s0": 3}
    by_size = instance_of([3, 3], [("pipe", 4, "pipeline"), ("data", 2, "data")])
    assert len(servers(HierarchicalPlacer()(everyone(by_size), by_size))["data"]) == 1
    assert servers(MoreWorkersFirst()(everyone(by_size), by_size))["pipe"] == {"s0": 3, "s1": 1}


def test_a_job_that_keeps_its_type_keeps_its_servers() -> None:
    """Even where another server would fit better."""
    instance = instance_of([4, 2], [("a", 2, "data"), ("b", 1, "data")], placed={"a": {"s0": {"G": 2}}})
    assert servers(HierarchicalPlacer()(everyone(instance), instance))["a"] == {"s0": 2}
    assert servers(HierarchicalPlacer(sticky=False)(everyone(instance), instance))["a"] == {"s0": 2}  # preferred
    crowded = instance_of([4, 2], [("a", 2, "data"), ("c", 4, "data")], placed={"a": {"s0": {"G": 2}}})
    assert servers(MoreWorkersFirst()(everyone(crowded), crowded)) == {"c": {"s0": 4}, "a": {"s1": 2}}
    assert len(servers(HierarchicalPlacer()(everyone(crowded), crowded))["c"]) == 2


def test_jobs_that_must_not_be_spread_wait() -> None:
    instance = instance_of([2, 2], [("a", 3, "tensor"), ("b", 1, "data")])
    after = HierarchicalPlacer(whole=("tensor",))(everyone(instance), instance)
    assert after.waiting == {"a": NoServerFits(3, "G", Parallelism.TENSOR)}
    assert servers(after) == {"b": {"s0": 1}}
    assert after.given_up["waiting"] == 1
    with refused(InvalidOption, "MoreWorkersFirst.whole"):
        MoreWorkersFirst(whole=("rows",))


@pytest.mark.parametrize("placer", PLACERS, ids=repr)
def test_plans_that_do_not_fit_are_refused(placer: Placer) -> None:
    instance = instance_of([2, 1], [("a", 2, "data"), ("b", 2, "data")])
    with pytest.raises(InvalidPlan, match="more GPUs of 'G' than there are"):
        placer(everyone(instance), instance)
    tenants = Instance.from_speedups([[1.0]], [1])
    with pytest.raises(InvalidPlan, match="over tenants"):
        placer(Plan(tenants.entities(), np.ones((1, 1))), tenants)


@given(st.integers(0, 12), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_pack_takes_the_fewest_servers(gpus: int, sizes: list[int]) -> None:
    """Against all subsets of servers."""
    free = {f"s{i}": n for i, n in enumerate(sizes)}
    seats = pack(gpus, free)
    if sum(sizes) < gpus:
        assert seats is None
        return
    assert seats is not None
    fewest = next(r for r in range(len(sizes) + 1) if any(sum(c) >= gpus for c in itertools.combinations(sizes, r)))
    assert sum(seats.values()) == gpus
    assert len(seats) == fewest
    assert all(0 < n <= free[s] for s, n in seats.items())


@given(st.data())
def test_servers_are_found_by_their_free_gpus_after_every_change(data: st.DataObject) -> None:
    """Against a search of all servers."""
    names = [f"s{i}" for i in range(data.draw(st.integers(1, 5)))]
    free = FreeGPUs({name: data.draw(st.integers(0, 4)) for name in names})
    for _ in range(data.draw(st.integers(1, 6))):
        near, gpus = data.draw(st.sets(st.sampled_from([*names, "other"]))), data.draw(st.integers(1, 5))
        but = data.draw(st.sets(st.sampled_from(names)))
        fits = [s for s in names if free[s] >= gpus and s not in but]
        assert free.tightest(gpus, near, but) == min(fits, key=lambda s: (s not in near, free[s]), default=None)
        order = sorted((s for s in names if free[s]), key=lambda s: (-free[s], s not in near))
        assert list(free.emptiest_first(near)) == order
        server = data.draw(st.sampled_from(names))
        free.add({server: data.draw(st.integers(0, free[server]))}, -1)
        free.add({data.draw(st.sampled_from(names)): data.draw(st.integers(0, 2))})


@st.composite
def packings(draw: st.DrawFn, *, most_servers: int = 3, most_jobs: int = 5) -> Instance:
    """Jobs that fill at most the servers; some of them already sit somewhere."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most_servers))
    left, jobs = sum(sizes), []
    for i in range(draw(st.integers(1, most_jobs))):
        if left == 0:
            break
        demand = draw(st.integers(1, min(left, 4)))
        left -= demand
        jobs.append((f"j{i}", demand, draw(st.sampled_from(list(Parallelism)))))
    free, placed = {f"s{i}": n for i, n in enumerate(sizes)}, {}
    for name, demand, _ in jobs:
        if draw(st.booleans()):
            rest, own = demand, {}
            for server in draw(st.permutations(sorted(free))):
                if take := min(rest, free[server]):
                    own[server], free[server], rest = {"G": take}, free[server] - take, rest - take
            placed[name] = own
    return instance_of(sizes, jobs, placed=placed)


@pytest.mark.parametrize("placer", PLACERS, ids=repr)
@given(instance=packings())
def test_gangs_are_placed_whole_and_no_server_is_overfull(placer: Placer, instance: Instance) -> None:
    plan = everyone(instance)
    placement = placer(plan, instance)
    assert not placement.waiting
    used: Counter[str] = Counter()
    for job in instance.jobs:
        own = servers(placement)[job.name]
        assert sum(own.values()) == job.demand
        used.update(own)
    assert all(n <= instance.cluster.by_name[s].gpus["G"] for s, n in used.items())
    check_placement(plan, placement, instance)
    again = instance.replace(placed=placement.hosts)
    if isinstance(placer, HierarchicalPlacer) and placer.sticky:
        settled = placer(plan, again)
        assert settled.given_up["moved"] <= placement.given_up["split"]
        assert placer(plan, instance) == placement


@given(packings(most_servers=2, most_jobs=4))
@settings(max_examples=40)
def test_no_packing_splits_fewer_jobs_than_enumeration_says(instance: Instance) -> None:
    """A lower bound: the fewest jobs on more servers than they need, over all assignments of GPUs to jobs."""
    sizes = [s.gpus["G"] for s in instance.cluster.servers]
    splits = [
        [c for c in itertools.product(*[range(n + 1) for n in sizes]) if sum(c) == j.demand] for j in instance.jobs
    ]
    need = [min(sum(v > 0 for v in c) for c in options) for options in splits]
    fewest = min(
        sum(sum(v > 0 for v in c) > least for c, least in zip(choice, need, strict=True))
        for choice in itertools.product(*splits)
        if all(sum(column) <= n for column, n in zip(zip(*choice, strict=True), sizes, strict=True))
    )
    for placer in PLACERS:
        assert placer(everyone(instance), instance).given_up["split"] >= fewest


@given(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=8), st.integers(1, 4))
def test_powers_of_two_on_equal_servers_are_never_split(demands: list[int], number: int) -> None:
    """Larger first and least room first leaves no gap that a smaller power of two could not use."""
    kept = list(itertools.takewhile(lambda i: sum(demands[: i + 1]) <= 4 * number, range(len(demands))))
    jobs = [(f"j{i}", demands[i], "data") for i in kept]
    if jobs:
        instance = instance_of([4] * number, jobs)
        for placer in (HierarchicalPlacer(), MoreWorkersFirst()):
            assert placer(everyone(instance), instance).given_up["split"] == 0


def test_a_gang_that_must_be_whole_gives_back_the_type_it_kept() -> None:
    """It keeps A and would go from C to B on another server: it waits, and is not looked for on A any more."""
    servers = (Server("s1", {"A": 1}), Server("s2", {"B": 1}), Server("s3", {"C": 1}))
    cluster = Cluster(tuple(GPUType(t) for t in "ABC"), servers)
    job = Job("j", {"A": 1.0, "B": 1.0, "C": 1.0}, 9.0, 2, parallelism="data")
    instance = Instance(cluster, jobs=(job,), placed={"j": {"s1": {"A": 1}, "s3": {"C": 1}}})
    plan = Plan(instance.entities("jobs"), np.array([[1.0, 1.0, 0.0]]))
    placement = HierarchicalPlacer(whole=("data",))(plan, instance)
    assert placement.hosts == {}
    assert placement.waiting == {"j": NoServerFits(1, "B", Parallelism.DATA)}
