"""PAL: the least product of locality and variability against all sets of GPUs, and who keeps its GPUs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues_oracles import FREE, never_stopped, queues, schedule, sorted_by, types_of
from refused import refused

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, InvalidOption, Job, Server
from hetopt.decisions.system import check_placement
from hetopt.formulations.traits import Traits
from hetopt.models.queues import FIFO, LAS, PAL, SRTF
from hetopt.models.queues.pal import LeastProduct, places_of
from hetopt.registry import make_policy
from hetopt.simulation.environment import Environment
from hetopt.simulation.server_changes import ServerChange
from hetopt.stages.speed_models import Variability

Spots = dict[str, int]


def hosts(plan: Any) -> dict[str, dict[str, Spots]]:
    return {job: {s: dict(gpus) for s, gpus in own.items()} for job, own in plan.placement.hosts.items()}


def gpus(instance: Instance, free: list[int]) -> list[tuple[str, str]]:
    """(server, type) of every single GPU."""
    places = places_of(instance.cluster)
    names = instance.cluster.type_names
    return [(p.server, names[p.kind]) for p, n in zip(places, free, strict=True) for _ in range(n)]


def product_of(instance: Instance, job: Job, chosen: Any, across: float, variability: Any) -> float:
    """L times V of a set of GPUs."""
    best = max(job.throughput[t] for t in types_of(instance, job))

    def v(server: str, kind: str) -> float:
        factor = variability.get(server, 1.0)
        factor = factor.get(job.model, 1.0) if isinstance(factor, dict) else factor
        return float(best / job.throughput[kind] * factor)

    return (across if len({server for server, _ in chosen}) > 1 else 1.0) * max(v(s, t) for s, t in chosen)


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Instance, list[int]]:
    """One job of model m, servers of up to two GPU types, and how many of their GPUs are free."""
    servers = [
        Server(f"s{i}", {"A": draw(st.integers(0, 3)), "B": draw(st.integers(0, 2))})
        for i in range(draw(st.integers(1, 4)))
    ]
    servers.append(Server("one", {"A": 1}))
    cluster = Cluster((GPUType("A"), GPUType("B")), tuple(servers))
    speed = {"A": draw(st.sampled_from([1.0, 2.0])), "B": draw(st.sampled_from([0.0, 1.0, 4.0]))}
    demand = draw(st.integers(1, min(3, cluster.capacity["A"])))
    job = Job("j", speed, 9, demand, model=draw(st.sampled_from([None, "m"])))
    free = [draw(st.integers(0, place.gpus)) for place in places_of(cluster)]
    return Instance(cluster, jobs=(job,)), free


FACTORS = st.dictionaries(
    st.sampled_from(["s0", "s1", "s2"]),
    st.one_of(st.sampled_from([1.0, 1.25, 1.5, 2.0]), st.fixed_dictionaries({"m": st.sampled_from([1.25, 1.5])})),
)


@settings(max_examples=300)
@given(room=rooms(), across=st.sampled_from([1.0, 1.25, 1.5, 4.0]), variability=FACTORS)
def test_no_set_of_gpus_has_a_smaller_product(
    room: tuple[Instance, list[int]], across: float, variability: Any
) -> None:
    """Of one type; and there are GPUs for the job if and only if there is such a set."""
    instance, free = room
    job = instance.jobs[0]
    single = gpus(instance, free)
    able = set(types_of(instance, job))
    sets = [c for c in combinations(single, job.demand) if len({t for _, t in c}) == 1 and c[0][1] in able]
    chosen = LeastProduct(instance.entities("jobs"), places_of(instance.cluster), across, Variability(variability))(
        0, free
    )
    assert (chosen is None) == (not sets)
    if chosen is None:
        return
    places, names = places_of(instance.cluster), instance.cluster.type_names
    assert sum(n for _, n in chosen) == job.demand
    assert all(0 < n <= free[place] for place, n in chosen)
    taken = [(places[place].server, names[places[place].kind]) for place, n in chosen for _ in range(n)]
    least = min(product_of(instance, job, c, across, variability) for c in sets)
    assert product_of(instance, job, taken, across, variability) == pytest.approx(least)


# By hand


SERVERS = (Server("s0", {"A": 2}), Server("s1", {"A": 2}), Server("s2", {"A": 2}))


def job(name: str, seconds: float = 9, demand: int = 1, arrival: float = 0, model: str | None = None) -> Job:
    return Job(name, {"A": 1.0}, seconds, demand, arrival, model=model)


def test_a_slow_server_together_or_fast_ones_apart() -> None:
    """s0 has one free GPU, s1 too, s2 two that take 1.6 times as long: apart costs 1.7, then 1.5."""
    busy = (job("x", 99), job("y", 99))
    placed = {"x": {"s0": {"A": 1}}, "y": {"s1": {"A": 1}}}
    there = Instance(Cluster((GPUType("A"),), SERVERS), jobs=(*busy, job("j", demand=2)), placed=placed)
    slow = {"s2": 1.6}
    assert hosts(hetopt.solve(PAL(variability=slow), there))["j"] == {"s2": {"A": 2}}
    assert hosts(hetopt.solve(PAL(variability=slow, across=1.5), there))["j"] == {"s0": {"A": 1}, "s1": {"A": 1}}
    apart = hetopt.solve(PAL(variability=slow, across=1.5), there)
    assert apart.given_up == {"idle": 2, "spread": 1}


def test_variability_is_that_of_the_jobs_model() -> None:
    jobs = (job("r", model="resnet"), job("b", model="bert"), job("n"))
    there = Instance(Cluster((GPUType("A"),), SERVERS[:2]), jobs=jobs)
    plan = hetopt.solve(PAL(variability={"s0": {"resnet": 1.5}, "s1": {"bert": 1.5}}), there)
    assert {name: list(own) for name, own in hosts(plan).items()} == {"r": ["s1"], "b": ["s0"], "n": ["s0"]}


def test_sensitive_models_choose_first_among_those_that_run() -> None:
    """Four GPUs for n, b and r, in this order; r chooses first, then b. The next in the queue waits, whatever it is."""
    jobs = (job("n", 5), job("b", 6, model="bert"), job("r", 7, 2, model="resnet"), job("late", 8, model="resnet"))
    there = Instance(Cluster((GPUType("A"),), SERVERS[:2]), jobs=jobs)
    slow = {"s0": {"resnet": 1.5, "bert": 1.5}}
    plan = hetopt.solve(PAL(variability=slow, classes={"bert": 1, "resnet": 0}), there)
    assert {name: list(own) for name, own in hosts(plan).items()} == {"r": ["s1"], "b": ["s0"], "n": ["s0"]}
    plan = hetopt.solve(PAL(variability=slow, classes={"bert": 0, "resnet": 1}), there)
    assert {name: list(own) for name, own in hosts(plan).items()} == {"b": ["s1"], "r": ["s0"], "n": ["s1"]}


def test_under_fifo_jobs_may_move_too() -> None:
    """On s0 at 1.5 until a is done at 20; it takes the order from a policy as from its name."""
    jobs = Instance(Cluster((GPUType("A"),), SERVERS[:2]), jobs=(job("a", 20, 2), job("b", 100, 2)))
    for order in ("fifo", FIFO()):
        policy = PAL(order, variability={"s0": 1.5}, moves=True, round_seconds=10)
        log = hetopt.simulate(policy, jobs, overheads=FREE)
        assert log.spans[["job", "start", "end", "servers"]].to_numpy().tolist() == [
            ["a", 0, 20, "s1"],
            ["b", 0, 20, "s0"],
            ["b", 20, 100, "s1"],
        ]


def test_gpu_types_are_slow_by_their_throughput() -> None:
    """Together on B, three times as slow, or apart on A."""
    cluster = Cluster.of({"A": 2, "B": 2}, gpus_per_server=1)
    together = Cluster((*cluster.gpu_types,), (*cluster.servers[:2], Server("b", {"B": 2})))
    jobs = (Job("j", {"A": 3.0, "B": 1.0}, 9, 2),)
    assert list(hosts(hetopt.solve(PAL(), Instance(together, jobs=jobs)))["j"]) == ["a-0", "a-1"]
    assert list(hosts(hetopt.solve(PAL(across=4), Instance(together, jobs=jobs)))["j"]) == ["b"]


def test_jobs_that_run_keep_their_gpus_unless_they_are_stopped() -> None:
    """On s0 at 1.5; s1 is free from 20 on. A shorter gang stops the last in order alone."""
    slow, cluster = {"s0": 1.5}, Cluster((GPUType("A"),), SERVERS[:2])
    jobs = (job("a", 20, 2), job("b", 100, 2))
    for moves, where in ((False, ["s0"]), (True, ["s0", "s1"])):
        policy = PAL(variability=slow, moves=moves, round_seconds=10)
        log = hetopt.simulate(policy, Instance(cluster, jobs=jobs), overheads=FREE)
        own = log.spans[log.spans["job"] == "b"]
        assert own["servers"].tolist() == where
    new = Instance(cluster, jobs=(*jobs, job("c", 5, 2, 8)))
    log = hetopt.simulate(PAL(round_seconds=10), new, overheads=FREE)
    assert schedule(log) == [("a", 0, 20, "A"), ("b", 0, 10, "A"), ("c", 10, 15, "A"), ("b", 20, 110, "A")]


def test_what_it_believes_of_servers_may_come_true() -> None:
    """On the slow server 9 s are 18. When it fails at 4, the job has done 2 of 9, and waits for the other one."""
    slow, cluster = {"s0": 2.0}, Cluster((GPUType("A"),), SERVERS[:2])
    one = Instance(cluster, jobs=(job("j", 9, 1), job("k", 9, 2)))
    environment = Environment(overheads=FREE, speeds=Variability(slow))
    log = hetopt.simulate(PAL(variability=slow, round_seconds=None), one, environment=environment)
    assert log.spans[["job", "start", "end", "servers"]].to_numpy().tolist() == [
        ["j", 0, 9, "s1"],
        ["k", 0, 18, "s0"],
    ]
    gone = Environment(overheads=FREE, speeds=Variability(slow), changes=(ServerChange(4, "s0"),))
    log = hetopt.simulate(PAL(variability=slow, round_seconds=None), one, environment=gone)
    assert log.spans[["job", "start", "end", "servers"]].to_numpy().tolist() == [
        ["j", 0, 9, "s1"],
        ["k", 0, 4, "s0"],
        ["k", 9, 16, "s1"],
    ]


# Every schedule


@settings(max_examples=40)
@given(instance=queues(), order=st.sampled_from(["srtf", "srsf", "las", "fifo"]), moves=st.booleans())
def test_plans_can_be_carried_out(instance: Instance, order: str, moves: bool) -> None:
    policy = PAL(order, moves=moves, round_seconds=32, variability={"a-0": 1.5})

    def watched(now: Instance, state: Any = None) -> Any:
        plan, state = policy(now, state)
        check_placement(plan, plan.placement, now)
        if not moves and order != "fifo":
            keeps(now, plan)
        return plan, state

    watched.traits = Traits(places=True)  # type: ignore[attr-defined]
    log = hetopt.simulate(watched, instance, round_seconds=32, overheads=FREE)
    assert log.jobs["finish"].notna().all()
    assert (log.spans["servers"] != "").all()
    if order == "fifo" and not moves:
        assert never_stopped(log)


def keeps(now: Instance, plan: Any) -> None:
    """A job that ran and runs is elsewhere only if some GPU of its was taken by one that did not have it."""
    before = {name: {s: dict(own) for s, own in there.items()} for name, there in now.placed.items()}
    after = hosts(plan)
    for name, there in before.items():
        if name in after and after[name] != there:
            others = {s for other, own in after.items() if other != name and before.get(other) != own for s in own}
            assert others & set(there), f"{name} has moved though no job has taken its place"


@settings(max_examples=30)
@given(instance=queues(types=(1, 1)), order=st.sampled_from(["srtf", "las", "fifo"]))
def test_on_one_type_who_runs_when_is_as_under_the_order_itself(instance: Instance, order: str) -> None:
    """Where GPUs are alike, there is room on servers if there is room at all."""
    own = {"srtf": SRTF(32, moves=False), "las": LAS(32, moves=False), "fifo": FIFO(32, backfill=True)}[order]
    one = hetopt.simulate(PAL(order, round_seconds=32), instance, overheads=FREE).jobs
    other = hetopt.simulate(own, instance, overheads=FREE).jobs
    assert one[["start", "finish"]].equals(other[["start", "finish"]])


@settings(max_examples=20)
@given(instance=queues(types=(1, 1)))
def test_without_backfill_it_stops_at_the_first_that_finds_no_place(instance: Instance) -> None:
    policy = PAL(backfill=False, moves=True, round_seconds=32)
    now = instance.at(384)
    plan = hetopt.solve(policy, now)
    total = 0
    for one in sorted_by(now, lambda job: now.work_left(job.name) / job.throughput["A"]):
        total += one.demand
        if total > now.cluster.capacity["A"]:
            break
        assert one.name in plan.placement.hosts  # type: ignore[union-attr]
        total_placed = total
    assert plan.x.sum() == total_placed


# Settings


def test_settings_come_from_files_too() -> None:
    made = make_policy("pal", {"variability": {"a-0": {"bert": 1.25}, "a-1": 2}})
    assert made == PAL(variability={"a-1": 2.0, "a-0": {"bert": 1.25}})
    assert isinstance(hash(made), int)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PAL("gittins"), "PAL.order"),
        (lambda: PAL(across=0.5), "PAL.across"),
        (lambda: PAL(variability={"s": 0}), "PAL.variability['s']"),
        (lambda: PAL(variability={"s": {"m": -1}}), "PAL.variability['s']['m']"),
        (lambda: PAL(variability=[1]), "PAL.variability"),  # type: ignore[arg-type]
        (lambda: PAL(classes={"m": -1}), "PAL.classes['m']"),
        (lambda: PAL(moves=0), "PAL.moves"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_refused(make: Any, message: str) -> None:
    with refused(InvalidOption, message):
        make()


BUSY = Instance(Cluster((GPUType("A"),), SERVERS), jobs=(job("j"),), held={"j": {"A": 1}})


def test_fifo_must_know_where_jobs_run() -> None:
    with pytest.raises(
        InvalidInstance, match=r"jobs\['j'\] holds GPUs and placed\['j'\] is \{\}; under PAL with order"
    ):
        hetopt.solve(PAL("fifo"), BUSY)
    assert list(hosts(hetopt.solve(PAL("srtf"), BUSY))["j"]) == ["s0"]
