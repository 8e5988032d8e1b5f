"""Tesserae: matchings against all of them, plans by hand, and work conservation with packings."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import packable, parts_by_hand
from refused import refused
from work_conservation import decisions, left_waiting

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job
from hetopt.data.packing import Packing
from hetopt.decisions.matching_placer import MatchingPlacer
from hetopt.decisions.system import System
from hetopt.formulations.policies import Policy
from hetopt.models import gavel, queues
from hetopt.models.allox import AlloX
from hetopt.models.fft import FFT
from hetopt.models.queues.gpu_pool import running_gangs
from hetopt.models.queues.themis import FinishTimeQueue
from hetopt.models.tesserae import Tesserae, TesseraeState, heaviest_matching, tesserae_ftf
from hetopt.proofs.strategies import job_instances
from hetopt.registry import make_system

POLICIES = (
    Tesserae(),
    Tesserae(queues.Tiresias()),
    Tesserae(queues.FIFO(backfill=True), least=0.5),
    Tesserae(queues.SRTF(), least=0.0),
    tesserae_ftf(),
)


def heaviest_by_hand(pairs: list[tuple[int, int]], weight: list[float]) -> float:
    """The largest sum of weights of pairs that have no member in common."""
    if not pairs:
        return 0.0
    (first, *others), (own, *rest) = pairs, weight
    without = heaviest_by_hand(others, rest)
    left = [(pair, w) for pair, w in zip(others, rest, strict=True) if not set(pair) & set(first)]
    return max(without, own + heaviest_by_hand([pair for pair, _ in left], [w for _, w in left]))


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(4, 8)), st.integers(1, 16), max_size=10))
def test_the_matching_is_the_heaviest_of_all(weights: dict[tuple[int, int], int]) -> None:
    pairs, weight = list(weights), [w / 8 for w in weights.values()]
    chosen = heaviest_matching(np.array(pairs, dtype=np.intp).reshape(-1, 2), np.array(weight))
    members = [member for i in chosen for member in pairs[i]]
    assert len(set(members)) == len(members)
    assert sum(weight[i] for i in chosen) == pytest.approx(heaviest_by_hand(pairs, weight))


@settings(max_examples=examples(15, 200))
@given(packable(job_instances(jobs=(2, 7), most_gpus=3, most_demand=2, zeros=True)), st.sampled_from(POLICIES))
def test_no_other_pairs_of_running_and_waiting_jobs_weigh_more(instance: Instance, policy: Tesserae) -> None:
    """Against every assignment of waiting jobs to the running jobs of the plan without pairs."""
    plan, _ = policy(instance)
    runs = {name: t for name, t in policy.policy(instance)[0].assigned.items() if t is not None}  # type: ignore[union-attr]
    waits = [name for name in plan.entities.names if name not in runs]
    parts = {frozenset(pair): of for pair, of in parts_by_hand(instance).items()}

    def weight(run: str, wait: str) -> float:
        own = sum(parts.get(frozenset((run, wait)), {}).get(runs[run], (0.0, 0.0)))
        return own if own > policy.least else 0.0

    slots: list[str | None] = [*waits, *[None] * len(runs)]
    best = (
        max(
            sum(weight(run, wait) for run, wait in zip(runs, chosen, strict=True) if wait is not None)
            for chosen in permutations(slots, len(runs))
        )
        if len(slots) <= 7
        else None
    )
    found = sum(weight(run, wait) for run, wait in plan.packed)
    if best is not None:
        assert found == pytest.approx(best)
    assert all(weight(run, wait) > 0 for run, wait in plan.packed)
    assert {name for name, t in plan.assigned.items() if t} == {*runs, *(wait for _, wait in plan.packed)}
    assert all(plan.assigned[run] == plan.assigned[wait] == runs[run] for run, wait in plan.packed)


def jobs(*models: str, gpus: int = 2, **fields: object) -> Instance:
    packings = (
        Packing(("R", "R"), {"G": (1.0, 1.0)}),
        Packing(("R", "L"), {"G": (0.9, 0.7)}),
        Packing(("L", "L"), {"G": (0.4, 0.4)}),
    )
    made = tuple(
        Job(f"{model}{i}", {"G": 1.0}, 1000.0, arrival=float(i), model=model) for i, model in enumerate(models)
    )
    cluster = Cluster.of({"G": gpus}, gpus_per_server=1)
    return Instance(cluster, jobs=made, time=10.0, packings=packings, **fields)  # type: ignore[arg-type]


def test_two_running_and_three_waiting_jobs_by_hand() -> None:
    """L0 and R1 run. R2 and R4 share with them, which weighs 1.6 + 2; L3 beside R1 and R2 beside L0 would be 3.2."""
    plan, state = Tesserae()(jobs("L", "R", "R", "L", "R"))
    assert set(plan.packed) == {("L0", "R4"), ("R1", "R2")} or set(plan.packed) == {("L0", "R2"), ("R1", "R4")}
    assert plan.x.sum() == 2.0
    assert plan.given_up["idle"] == 0.0
    assert state.packed == plan.packed
    assert not Tesserae(least=2.0)(jobs("L", "R", "R", "L", "R"))[0].packed
    assert Tesserae()(jobs("L", "L", "L"))[0].packed == ()  # 0.8 together are less than 1 alone


def test_pairs_stay_where_others_weigh_the_same() -> None:
    instance, policy = jobs("R", "R", "R", "R", "R", "R"), Tesserae()
    for packed in ((("R0", "R5"), ("R1", "R3")), (("R0", "R2"), ("R1", "R4"))):
        plan, _ = policy(instance, TesseraeState(packed=packed))
        assert plan.packed == packed


def test_a_running_job_stays_though_it_holds_half_of_its_gpus() -> None:
    """R0 and R3 share one GPU, R1 and R4 the other; in the order of arrival R0 and R1 count as running."""
    halves = {f"R{i}": {"G": 0.5} for i in (0, 1, 3, 4)}
    instance = jobs(*"RRRRR", held=halves)
    entities = instance.entities("jobs")
    assert set(running_gangs(entities, [0, 1, 2, 3, 4])) == {0, 1}
    assert set(running_gangs(entities, [4, 3, 2, 1, 0])) == {3, 4}
    assert running_gangs(replace(entities, held=np.array([[1.0], [0], [0], [0], [0]]))) == {0: ((0, 1),)}


def test_policies_that_tesserae_cannot_pack_are_refused() -> None:
    instance = jobs("R", "R", "R")
    for policy in (gavel.max_min_fairness(), queues.PAL(), Tesserae()):
        with refused(InvalidOption, "Tesserae.policy", "must return plans over jobs"):
            Tesserae(policy)(instance)
    with refused(InvalidOption, "Tesserae.least"):
        Tesserae(least=-1.0)
    with refused(InvalidOption, "Tiresias.types"):
        queues.Tiresias(per_type="random", types="fastest")


def test_rounds_are_those_of_tesserae() -> None:
    assert make_system("tesserae", {"round_seconds": 60.0}).seconds == 60.0
    assert Tesserae(queues.Tiresias(round_seconds=None), round_seconds=60.0).policy.round_seconds == 60.0  # type: ignore[attr-defined]


def test_the_worst_finish_time_comes_first() -> None:
    """Of two jobs on one GPU the one that has waited longer relative to its length runs."""
    cluster = Cluster.of({"G": 1})
    made = (Job("long", {"G": 1.0}, 1000.0), Job("short", {"G": 1.0}, 50.0, arrival=100.0))
    instance = Instance(cluster, jobs=made, time=600.0)
    assert FinishTimeQueue()(instance)[0].assigned == {"long": None, "short": "G"}


def test_packed_jobs_finish_sooner_with_few_restarts() -> None:
    """Four alike jobs that lose nothing together on two GPUs: all done when two would be."""
    instance = jobs(*"RRRR").replace(time=10.0)
    log = hetopt.simulate(make_system("tesserae"), instance)
    assert log.jobs["finish"].tolist() == [1010.0] * 4
    assert log.jobs["switches"].sum() == 0
    alone = hetopt.simulate(make_system("tesserae"), instance.replace(packings=()))
    assert alone.jobs["finish"].max() > 2000.0


@pytest.mark.parametrize(
    "policy",
    [queues.FIFO(), queues.FIFO(backfill=True), queues.SRTF(moves=False), queues.YARN(), AlloX(), queues.LAS(), FFT()],
    ids=lambda policy: type(policy).__name__,
)
@settings(max_examples=examples(6, 60))
@given(data=st.data())
def test_any_policy_over_jobs_can_be_packed(policy: Policy, data: st.DataObject) -> None:
    """Also those that never stop a running job, which then holds half of its GPUs; all jobs finish."""
    demand = 1 if isinstance(policy, AlloX) else 2  # AlloX needs one common demand
    instance = data.draw(packable(job_instances(jobs=(2, 6), most_gpus=3, most_demand=demand, arrivals=True)))
    able = instance.entities("jobs").allowed.any(axis=1)
    log = hetopt.simulate(Tesserae(policy), instance)
    assert log.jobs["finish"][able].notna().all()


def test_a_job_that_was_packed_keeps_its_gpus_without_preemption() -> None:
    """Its partner has ended, and a job that arrived before it still waits."""
    instance = jobs("R", "L", gpus=1, held={"L1": {"G": 0.5}})
    assert queues.FIFO()(instance)[0].assigned == {"R0": None, "L1": "G"}
    with refused(InvalidInstance, "held['L1']", "under FIFO a job that runs holds its 1 GPUs"):
        queues.FIFO()(instance.replace(packings=()))


PACKING = {
    "tesserae": System(Tesserae()),
    "tesserae with its placer": System(Tesserae(), placer=MatchingPlacer()),
    "tesserae-ftf": System(tesserae_ftf()),
    "gavel-packing": make_system("gavel-packing"),
}


@pytest.mark.parametrize("name", PACKING)
@settings(max_examples=examples(6, 100))
@given(instance=packable(job_instances(jobs=(2, 7), most_gpus=4, most_demand=2, arrivals=True)))
def test_no_waiting_gang_fits_on_idle_gpus(name: str, instance: Instance) -> None:
    for one in decisions(PACKING[name], instance, most=25):
        assert not left_waiting(one.entities, one.gpus)
        assert (one.gpus.sum(axis=0) <= one.entities.capacity).all()
        for first, second in one.packed.items():
            rows = [one.entities.position[job] for job in (first, second)]
            assert (one.gpus[rows[0]] == one.gpus[rows[1]]).all()
            assert one.gpus[rows].sum() == one.entities.demand[rows[0]]
            if one.placement is not None:
                assert one.placement.hosts[first] == one.placement.hosts[second]
