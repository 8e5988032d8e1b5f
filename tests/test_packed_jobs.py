"""Jobs that share GPUs: plans, their servers, and simulations, by hand and against a second way to compute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from effort import examples
from executor_cluster import LAB, cluster_state, lab_of_jobs, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import packable, parts_by_hand
from refused import refused

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidPlan, Job, Placement, Plan, Server, Traits
from hetopt.data.packing import Packing
from hetopt.decisions.first_round import place
from hetopt.decisions.matching_placer import MatchingPlacer
from hetopt.decisions.placers import FirstFree, HierarchicalPlacer, MoreWorkersFirst, Placer, TensorSkew
from hetopt.decisions.system import System, check_placement, check_whole_gangs, packed_parts
from hetopt.executor.round_decision import RoundDecider
from hetopt.executor.state_database import StateDatabase
from hetopt.metrics.log_reading import seats_of
from hetopt.metrics.moving import moves
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.presentation.simulation_report.gantt_charts import bars_of, spans_in
from hetopt.proofs.strategies import job_instances
from hetopt.simulation.environment import Environment
from hetopt.simulation.server_changes import ServerChange
from hetopt.tolerances import EQUAL

PLACERS: tuple[Placer, ...] = (
    HierarchicalPlacer(),
    HierarchicalPlacer(sticky=False),
    MoreWorkersFirst(),
    TensorSkew(),
    FirstFree(),
    MatchingPlacer(),
    MatchingPlacer(FirstFree(sticky=False)),
)
TWO = Cluster((GPUType("G"),), (Server("s1", {"G": 1}), Server("s2", {"G": 1})))
ROUND = 100.0


def jobs(**work: float) -> Instance:
    """Jobs a, b, c, d of work per second 2, 3, 2 and 1; a and c keep 0.6 beside b or d, which keep 0.7; 0.9 and 0.5."""
    speed = {"a": 2.0, "b": 3.0, "c": 2.0, "d": 1.0}
    packings = (
        Packing(("A", "B"), {"G": (0.6, 0.7)}),
        Packing(("A", "A"), {"G": (0.9, 0.9)}),
        Packing(("B", "B"), {"G": (0.5, 0.5)}),
    )
    made = [Job(name, {"G": speed[name]}, size, model="A" if name in "ac" else "B") for name, size in work.items()]
    return Instance(TWO, jobs=tuple(made), packings=packings)


@dataclass(frozen=True)
class Script:
    """In each round these groups of one or two jobs run, of those that are there; the last round repeats."""

    rounds: tuple[tuple[str, ...], ...]
    traits = Traits(ROUND)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        now = state or 0
        groups = self.rounds[min(now, len(self.rounds) - 1)]
        return plan_of(instance, groups), now + 1


def plan_of(instance: Instance, groups: Sequence[str]) -> Plan:
    """The groups of present jobs on the first type; a job whose partner is gone runs alone."""
    entities = instance.entities("jobs")
    here = [[name for name in group if name in entities.position] for group in groups]
    x = np.zeros(entities.shape)
    for group in here:
        for name in group:
            x[entities.position[name], 0] = 1 / len(group)
    return Plan(entities, x, packed=tuple((g[0], g[1]) for g in here if len(g) == 2))


# Plans


def test_plans_count_half_of_each_gpu() -> None:
    plan = plan_of(jobs(a=1, b=1, c=1), ["ba", "c"])
    assert plan.gangs.tolist() == [[0.0], [1.0], [1.0]]
    assert plan.gpus["G"].to_dict() == {"a": 0.5, "b": 0.5, "c": 1.0}
    assert plan.as_dict()["packed"] == [["b", "a"]]
    assert packed_parts(plan, jobs(a=1, b=1, c=1)) == {"b": 0.7, "a": 0.6}
    check_whole_gangs(plan.entities, plan.gangs)


@pytest.mark.parametrize("pairs", [(("a",),), (("a", "a"),), (("a", "b"), ("b", "c")), (("a", "z"),)])
def test_pairs_that_are_none_are_refused(pairs: tuple[tuple[str, ...], ...]) -> None:
    with refused(InvalidPlan, "packed", "it must be two jobs of the plan"):
        Plan(jobs(a=1, b=1, c=1).entities("jobs"), np.zeros((3, 1)), packed=pairs)  # type: ignore[arg-type]


def decided(instance: Instance, plan: Plan, placer: Placer | None = None) -> object:
    return System(lambda *_: (plan, None), placer=placer).steps(hetopt.stages.speed_models.StageSpeeds())(instance)


def test_halves_that_fit_no_pair_are_refused() -> None:
    instance = jobs(a=1, b=1)
    good = plan_of(instance, ["ab"])
    with refused(InvalidPlan, None, "no packing of their models, 'A' and 'B', for gangs of 1 on this type"):
        decided(instance.replace(packings=instance.packings[1:]), good)
    with refused(InvalidPlan, None, "half of each GPU"):
        decided(instance, Plan(good.entities, [[0.5], [0.25]], packed=(("a", "b"),)))
    with refused(InvalidPlan, None, "gives job 'a' 0.5 GPUs; it runs on 1"):
        decided(instance, Plan(good.entities, good.x))
    with refused(InvalidPlan, None, "gives job 'a' 2 GPUs; it runs on 1"):
        decided(instance, Plan(good.entities, [[1.0], [1.0]], packed=(("a", "b"),)))
    larger = instance.replace(jobs=[instance.job["a"], replace(instance.job["b"], demand=2)])
    with refused(InvalidPlan, None, "gangs of one size"):
        decided(larger, Plan(larger.entities("jobs"), good.x, packed=(("a", "b"),)))


def test_a_pair_is_on_the_same_gpus_or_refused() -> None:
    instance = jobs(a=1, b=1, c=1)
    plan, here, there = plan_of(instance, ["ab", "c"]), {"s1": {"G": 1}}, {"s2": {"G": 1}}
    check_placement(plan, Placement({"a": here, "b": here, "c": there}), instance)
    with refused(InvalidPlan, None, "'a' and 'b' share their GPUs, but are placed on different ones"):
        check_placement(plan, Placement({"a": here, "b": there, "c": there}), instance)
    with refused(InvalidPlan, None, "uses 2 GPUs of 'G' on server 's1'"):
        check_placement(plan, Placement({"a": here, "b": here, "c": here}), instance)


def test_the_executor_has_no_packings_and_so_no_pairs(tmp_path: object) -> None:
    """A policy that packs real jobs is refused before any of them starts."""
    with StateDatabase(tmp_path / "state") as database:  # type: ignore[operator]
        lab_of_jobs(database, [spec("a", tenant="t", model="A"), spec("b", tenant="t", model="A")])
        state = cluster_state(database, {"a": {"V100": 1.0}, "b": {"V100": 1.0}}, LAB)
        decider = RoundDecider(System(Script((("ab",),)), placer=FirstFree()), estimated)  # type: ignore[arg-type]
        with refused(InvalidPlan, None, "the instance has no packing of their models"):
            decider.decide(state)


def test_audits_do_not_value_shared_gpus() -> None:
    instance = jobs(a=1, b=1)
    with refused(InvalidPlan, None, "'a' and 'b' share GPUs"):
        hetopt.audit(instance, plan_of(instance, ["ab"]))


def test_the_first_round_names_the_other_job() -> None:
    instance = jobs(a=1, b=1, c=1)
    first = place(instance, plan_of(instance, ["ab", "c"]), FirstFree())
    assert first.rows == [
        ("a", ["0.5 G"], ["s1, with b"]),
        ("b", ["0.5 G"], ["s1, with a"]),
        ("c", ["1 G"], ["s2"]),
    ]
    assert first.as_dict()["jobs"]["a"] == {"gpus": {"G": 0.5}, "servers": {"s1": {"G": 1}}, "rate": 1.2, "with": "b"}


# Servers


@st.composite
def packed_plans(draw: st.DrawFn) -> tuple[Instance, Plan]:
    """Gangs on several servers, of which some share their GPUs; some run already, alone or in other pairs."""
    instance = draw(packable(job_instances(jobs=(2, 7), types=(1, 2), most_gpus=6, most_demand=3)))
    size = draw(st.integers(1, 3))
    instance = instance.replace(cluster=Cluster.of(instance.cluster.capacity, gpus_per_server=size))
    before = a_plan(draw, instance)
    placement = FirstFree()(before, instance)
    halves = {name for pair in before.packed for name in pair}
    held = {name: {t: n / 2 for t, n in gpus_of(placement, name).items()} for name in halves}
    return instance.replace(placed=placement.hosts, held=held), a_plan(draw, instance)


def gpus_of(placement: Placement, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for gpus in placement.hosts[name].values():
        for t, n in gpus.items():
            found[t] = found.get(t, 0) + n
    return found


def a_plan(draw: st.DrawFn, instance: Instance) -> Plan:
    """Pairs and single jobs in a drawn order, as long as they fit."""
    entities, pairs = instance.entities("jobs"), list(parts_by_hand(instance).items())
    free, x = dict(instance.cluster.capacity), np.zeros(entities.shape)
    packed, taken = [], set[str]()
    single = [((job.name,), job.throughput) for job in instance.jobs]
    for names, types in draw(st.permutations([*pairs, *single])):
        demand, t = instance.job[names[0]].demand, draw(st.sampled_from(sorted(types)))
        usable = all(instance.job[name].throughput[t] > 0 for name in names)
        if taken.isdisjoint(names) and demand <= free[t] and usable and draw(st.integers(0, 3)):
            free[t] -= demand
            taken |= set(names)
            for name in names:
                x[entities.position[name], entities.types.index(t)] = demand / len(names)
            packed += [names] if len(names) == 2 else []
    return Plan(entities, x, packed=tuple(packed))  # type: ignore[arg-type]


@settings(max_examples=examples(40, 400))
@given(packed_plans(), st.sampled_from(PLACERS))
def test_placers_put_pairs_on_the_same_gpus(case: tuple[Instance, Plan], placer: Placer) -> None:
    instance, plan = case
    placement = placer(plan, instance)
    check_placement(plan, placement, instance)
    assert placement.hosts.keys() == {n for n, row in zip(plan.entities.names, plan.x, strict=True) if row.any()}
    for first, second in plan.packed:
        assert placement.hosts[first] == placement.hosts[second]
    running = instance.replace(
        placed=placement.hosts,
        held={name: {t: n / 2 for t, n in gpus_of(placement, name).items()} for pair in plan.packed for name in pair},
    )
    again = placer(plan, running)
    if getattr(placer, "sticky", True):
        assert again.hosts == placement.hosts
        assert again.given_up["moved"] == 0


def test_of_two_jobs_that_shared_a_gpu_one_stays_there() -> None:
    instance = jobs(a=1, b=1, c=1)
    pair = instance.replace(
        placed={"a": {"s1": {"G": 1}}, "b": {"s1": {"G": 1}}}, held={"a": {"G": 0.5}, "b": {"G": 0.5}}
    )
    apart = FirstFree()(plan_of(pair, ["a", "b"]), pair)
    assert apart.hosts == {"a": {"s1": {"G": 1}}, "b": {"s2": {"G": 1}}}
    joined = FirstFree()(plan_of(pair, ["cb", "a"]), pair)  # in the order of the plan, a keeps its GPU
    assert joined.hosts == {"a": {"s1": {"G": 1}}, "b": {"s2": {"G": 1}}, "c": {"s2": {"G": 1}}}


# Simulations


def run(instance: Instance, *rounds: str, placer: Placer | None = None, **options: object) -> hetopt.Log:
    """Rounds such as ``"ab c"``: a and b share, c runs alone."""
    script = Script(tuple(tuple(groups.split()) for groups in rounds))
    return hetopt.simulate(script, instance, placer=placer, **options)  # type: ignore[arg-type]


def rows(log: hetopt.Log) -> list[tuple[str, float, float, float, float]]:
    columns = [log.spans[key].tolist() for key in ("job", "start", "end", "gpus", "work")]
    return [(name, *(round(n, 6) for n in numbers)) for name, *numbers in zip(*columns, strict=True)]


@pytest.mark.parametrize("placer", [None, FirstFree()])
def test_when_one_job_of_a_pair_finishes_the_other_has_the_gpu_for_itself(placer: Placer | None) -> None:
    """Job a does 1.2 per second until 125; b 2.1, of 300, and then 3: 12.5 s more, within the second round."""
    log = run(jobs(a=150, b=300), "ab", placer=placer)
    assert rows(log) == [("a", 0.0, 125.0, 0.5, 150.0), ("b", 0.0, 125.0, 0.5, 262.5), ("b", 125.0, 137.5, 1.0, 37.5)]
    assert log.jobs["switches"].tolist() == [0, 0]
    assert moves(log, jobs(a=150, b=300)).empty
    assert log.rounds["trained"].tolist() == pytest.approx([100.0, 37.5])


@pytest.mark.parametrize("placer", [None, FirstFree()])
def test_a_job_that_begins_or_ceases_to_share_does_not_restart(placer: Placer | None) -> None:
    """Job a runs throughout: alone, beside b, beside c, alone; no start costs it time."""
    costs = hetopt.Overheads(restart_seconds=8.0)
    log = run(jobs(a=1000, b=900, c=900), "a", "ab", "ac b", "a", placer=placer, overheads=costs, max_rounds=4)
    spans = [row for row in rows(log) if row[0] == "a"]
    assert spans == [
        ("a", 0.0, 100.0, 1.0, 200.0),
        ("a", 100.0, 300.0, 0.5, 300.0),  # 1.2 per second beside b, and 1.8 beside c
        ("a", 300.0, 400.0, 1.0, 200.0),
    ]
    assert log.jobs["lost"].to_dict()["a"] == 0.0
    assert log.jobs["switches"].to_dict() == {"a": 0, "b": int(placer is not None), "c": 0}


def test_pairs_that_exchange_jobs_by_hand() -> None:
    """Pairs ab and cd, then ad and cb: d and b change servers, each to the job of which the partner has just left."""
    log = run(jobs(a=1e4, b=1e4, c=1e4, d=1e4), "ab cd", "ad cb", placer=FirstFree(), max_rounds=2)
    done = log.jobs["done"].to_dict()
    assert done == pytest.approx({"a": 240.0, "b": 420.0, "c": 240.0, "d": 140.0})
    assert log.spans["gpus"].tolist() == [0.5] * 6  # a and c stay, at the same rate
    assert moves(log, jobs(a=1e4, b=1e4, c=1e4, d=1e4))["job"].tolist() == ["b", "d"]


def test_a_failing_server_takes_both_jobs_of_a_pair() -> None:
    environment = Environment(changes=(ServerChange(150.0, "s1"), ServerChange(200.0, "s1", up=True)))
    log = run(jobs(a=1e4, b=1e4), "ab", placer=FirstFree(), environment=environment, max_rounds=3)
    assert log.jobs["done"].to_dict() == pytest.approx({"a": 1.2 * 250, "b": 2.1 * 250})
    assert set(log.spans["gpus"]) == {0.5}


def test_pairs_that_run_at_the_beginning_hold_halves() -> None:
    instance = jobs(a=1e4, b=1e4)
    for now in (
        instance.replace(held={"a": {"G": 0.5}, "b": {"G": 0.5}}),
        instance.replace(
            held={"a": {"G": 0.5}, "b": {"G": 0.5}}, placed={"a": {"s1": {"G": 1}}, "b": {"s1": {"G": 1}}}
        ),
    ):
        placer = FirstFree() if now.placed else None
        log = run(now, "ab", placer=placer, overheads=hetopt.Overheads(restart_seconds=8.0), max_rounds=1)
        assert log.jobs["done"].to_dict() == pytest.approx({"a": 120.0, "b": 210.0})
        assert log.jobs["lost"].tolist() == [0.0, 0.0]


GROUPS = ("a b", "ab", "ab c", "ac b", "ad bc", "ac bd", "ab cd", "c d", "bd", "d ac")


def work_by_hand(instance: Instance, rounds: Sequence[str]) -> dict[str, float]:
    """Work of each job after these rounds: two phases for a pair, the second once one of them is done."""
    left = {job.name: job.work for job in instance.jobs}
    speed = {job.name: job.throughput["G"] for job in instance.jobs}
    parts = {frozenset(pair): dict(zip(pair, of["G"], strict=True)) for pair, of in parts_by_hand(instance).items()}
    for groups in rounds:
        present = {name for name, work in left.items() if work > 0}
        for group in groups.split():
            here = [name for name in group if name in present]
            rest = ROUND
            while here and rest > 0:
                rate = {n: speed[n] * (parts[frozenset(here)][n] if len(here) == 2 else 1.0) for n in here}
                seconds = min([rest, *(left[n] / rate[n] for n in here)])
                for n in here:
                    left[n] = max(0.0, left[n] - rate[n] * seconds)
                rest -= seconds
                here = [n for n in here if left[n] > 1e3 * EQUAL**2]
    return {job.name: job.work - left[job.name] for job in instance.jobs}


@settings(max_examples=examples(25, 300))
@given(
    st.lists(st.sampled_from(GROUPS), min_size=1, max_size=6),
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
    st.sampled_from([None, *PLACERS]),
)
def test_simulations_do_the_work_of_the_second_computation(
    rounds: list[str], work: list[int], placer: Placer | None
) -> None:
    instance = jobs(**{name: 25.0 * n for name, n in zip("abcd", work, strict=True)})
    log = run(instance, *rounds, placer=placer, max_rounds=len(rounds), overheads=hetopt.Overheads(transfer=False))
    decided = log.events["kind"].eq("decide").sum()
    assert log.jobs["done"].to_dict() == pytest.approx(work_by_hand(instance, rounds[:decided]))
    for seats in [{}] if placer is None else [{"s1": 1.0, "s2": 1.0}]:
        check_spans(log, seats)


def check_spans(log: hetopt.Log, servers: dict[str, float]) -> None:
    """At no time are more GPUs counted than there are, of each server where they are known."""
    times = sorted({*log.spans["start"], *log.spans["end"]})
    where = seats_of(log)
    for begin, end in pairwise(times):
        now = (log.spans["start"] <= begin) & (log.spans["end"] >= end)
        assert log.spans["gpus"][now].sum() <= log.capacity
        for server, most in servers.items():
            there = [own.get(server, {}).get("G", 0.0) for own, runs in zip(where, now, strict=True) if runs]
            assert sum(there) <= most


def test_gantt_charts_give_each_job_of_a_pair_half_of_a_gpu() -> None:
    log = run(jobs(a=1e4, b=1e4, c=1e4), "ab c", placer=FirstFree(), max_rounds=1)
    spans = spans_in(log, (0.0, 100.0))
    bars = bars_of(spans, {"s1": 2, "s2": 2}, {}, per_gpu=2)
    assert [(bar.label, bar.row, bar.line, bar.lines) for bar in bars] == [
        ("a", 0, 0, 1),
        ("b", 0, 1, 1),
        ("c", 1, 0, 2),
    ]
