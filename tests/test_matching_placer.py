"""The placer by assignment problems: against all ways to rename servers, and the GPU level as a problem of its own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from scipy.optimize import linear_sum_assignment

from hetopt import Cluster, GPUType, Instance, InvalidOption, Job, Plan, Server
from hetopt.decisions.matching_placer import MatchingPlacer
from hetopt.decisions.placers import FirstFree, MoreWorkersFirst, Placer
from hetopt.registry import make_system

Hosts = Mapping[str, Mapping[str, Mapping[str, int]]]


@st.composite
def cases(draw: st.DrawFn, whole: bool) -> tuple[Instance, Plan]:
    """Jobs on up to four servers, some of which run already; ``whole``: no gang is larger than a server."""
    size, servers = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    cluster = Cluster.of({"G": size * servers}, gpus_per_server=size)
    most = size if whole else size * 2
    jobs = tuple(Job(f"j{i}", {"G": 1.0}, 9, draw(st.integers(1, most))) for i in range(draw(st.integers(1, 7))))
    free = {server.name: size for server in cluster.servers}
    placed = {}
    for job in draw(st.permutations(jobs)):
        order = draw(st.permutations(sorted(free)))
        hosts: dict[str, dict[str, int]] = {}
        for server in order:
            need = job.demand - sum(n["G"] for n in hosts.values())
            take = need if free[server] >= need else 0 if whole else free[server]
            if take and need:
                hosts[server] = {"G": take}
        if draw(st.booleans()) and sum(n["G"] for n in hosts.values()) == job.demand:
            placed[job.name] = hosts
            for server, n in hosts.items():
                free[server] -= n["G"]
    instance = Instance(cluster, jobs=jobs, placed=placed)
    x, room = np.zeros((len(jobs), 1)), size * servers
    for i in draw(st.permutations(range(len(jobs)))):
        if jobs[i].demand <= room and draw(st.integers(0, 3)):
            x[i, 0], room = jobs[i].demand, room - jobs[i].demand
    return instance, Plan(instance.entities("jobs"), x)


def moved(before: Hosts, now: Hosts) -> int:
    """Jobs that run on both, on other GPUs."""
    return sum(now[job] != before[job] for job in now if job in before)


def fewest(instance: Instance, hosts: Hosts) -> int:
    """Moved jobs with the best of all new names of the servers."""
    names = [server.name for server in instance.cluster.servers]
    best = []
    for others in permutations(names):
        name = dict(zip(names, others, strict=True))
        best.append(moved(instance.placed, {j: {name[s]: n for s, n in own.items()} for j, own in hosts.items()}))
    return min(best)


INNER: tuple[Placer, ...] = (MoreWorkersFirst(), FirstFree(sticky=False))


@settings(max_examples=examples(40, 500))
@given(cases(whole=True), st.sampled_from(INNER))
def test_gangs_on_one_server_move_as_rarely_as_possible(case: tuple[Instance, Plan], inner: Placer) -> None:
    instance, plan = case
    first = inner(plan, instance)
    if any(len(hosts) > 1 for hosts in (*first.hosts.values(), *instance.placed.values())):
        return
    placement = MatchingPlacer(inner)(plan, instance)
    assert moved(instance.placed, placement.hosts) == fewest(instance, first.hosts)


@settings(max_examples=examples(40, 500))
@given(cases(whole=False), st.sampled_from(INNER))
def test_never_more_jobs_move_than_without_it(case: tuple[Instance, Plan], inner: Placer) -> None:
    instance, plan = case
    first, placement = inner(plan, instance), MatchingPlacer(inner)(plan, instance)
    assert moved(instance.placed, placement.hosts) <= moved(instance.placed, first.hosts)
    assert placement.given_up["moved"] == moved(instance.placed, placement.hosts)
    assert {**placement.given_up, "moved": 0} == {**first.given_up, "moved": 0}
    shapes = [{job: sorted(n["G"] for n in own.values()) for job, own in p.hosts.items()} for p in (placement, first)]
    assert shapes[0] == shapes[1]


def kept_by_slots(now: Mapping[str, int], before: Mapping[str, int], size: int) -> int:
    """GPUs of a server that keep their job with the best numbering of another's: an assignment of GPU to GPU."""
    slots = [[job for job, n in own.items() for _ in range(n)] for own in (now, before)]
    rows, columns = ([*own, *[f"idle {i}{k}" for k in range(size - len(own))]] for i, own in enumerate(slots))
    gain = np.array([[float(a == b) for b in columns] for a in rows])
    return int(gain[linear_sum_assignment(gain, maximize=True)].sum())


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), max_size=3),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), max_size=3),
)
def test_the_problem_of_the_gpus_of_two_servers_is_a_sum(now: dict[str, int], before: dict[str, int]) -> None:
    wanted = sum(min(n, before.get(job, 0)) for job, n in now.items())
    assert kept_by_slots(now, before, 9) == wanted


def test_servers_are_exchanged_by_hand() -> None:
    """MoreWorkersFirst puts the large gang on the first server with room; renamed, all three stay."""
    cluster = Cluster.of({"G": 6}, gpus_per_server=3)
    jobs = tuple(Job(name, {"G": 1.0}, 9, n) for name, n in (("large", 3), ("a", 1), ("b", 2)))
    placed = {"large": {"g-1": {"G": 3}}, "a": {"g-0": {"G": 1}}, "b": {"g-0": {"G": 2}}}
    instance = Instance(cluster, jobs=jobs, placed=placed)
    plan = Plan(instance.entities("jobs"), [[3.0], [1.0], [2.0]])
    first = FirstFree(sticky=False)(plan, instance)
    assert first.given_up["moved"] == 3
    placement = MatchingPlacer(FirstFree(sticky=False))(plan, instance)
    assert placement.hosts == placed
    assert placement.given_up["moved"] == 0


def test_only_servers_of_one_kind_are_exchanged() -> None:
    servers = {"large": {"G": 2}, "small": {"G": 1}}
    cluster = Cluster((GPUType("G"),), tuple(Server(name, gpus) for name, gpus in servers.items()))
    jobs = (Job("a", {"G": 1.0}, 9), Job("b", {"G": 1.0}, 9), Job("c", {"G": 1.0}, 9))
    instance = Instance(cluster, jobs=jobs, placed={"a": {"small": {"G": 1}}})
    plan = Plan(instance.entities("jobs"), [[1.0], [1.0], [1.0]])
    first = FirstFree(sticky=False)(plan, instance)
    assert first.hosts["a"] == {"large": {"G": 1}}
    assert MatchingPlacer(FirstFree(sticky=False))(plan, instance).hosts == first.hosts


def test_any_system_may_have_it_by_name() -> None:
    assert make_system("fft", {"placer": "matching"}).placer == MatchingPlacer()
    with refused(InvalidOption, "MatchingPlacer.placer", "FirstFree"):
        MatchingPlacer(FirstFree)  # type: ignore[arg-type]


@pytest.mark.parametrize("placer", [MatchingPlacer(), MatchingPlacer(FirstFree(sticky=False))])
def test_a_placement_that_moves_nothing_is_returned_as_it_is(placer: MatchingPlacer) -> None:
    instance = Instance(
        Cluster.of({"G": 2}, gpus_per_server=1), jobs=(Job("a", {"G": 1.0}, 9), Job("b", {"G": 1.0}, 9))
    )
    plan = Plan(instance.entities("jobs"), [[1.0], [1.0]])
    assert placer(plan, instance).hosts == placer.placer(plan, instance).hosts
