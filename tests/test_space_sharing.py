"""Gavel's space sharing: its program against one written by hand, its parts, and rounds of jobs and pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import packable, parts_by_hand
from refused import refused
from scipy.optimize import linprog

import hetopt
from hetopt import Formulation, Instance, InvalidFormulation, InvalidOption, InvalidPlan
from hetopt.data.packing import Packing
from hetopt.decisions.rounders import ByPriority, Received, WholeJobs
from hetopt.decisions.system import OnChange, System
from hetopt.formulations.policies import call_policy
from hetopt.models import gavel
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.programs.compiled import Compiled
from hetopt.proofs.strategies import job_instances
from hetopt.registry import make_system
from hetopt.results.certificate import certify
from hetopt.solving.optimising import optimise
from hetopt.tolerances import EQUAL, PROVEN

ONE_GPU = Instance.from_jobs(
    [[4.0], [2.0], [1.0]],
    1,
    [40, 20, 10],
    {"V100": 1},
    jobs=["a", "b", "c"],
    model=["A", "B", None],
    packings=[Packing(("A", "B"), {"V100": (0.75, 0.5)})],
    round_seconds=1.0,
)


def by_hand(instance: Instance, rates: bool = False) -> float:
    """The least ratio of rate to equal-share rate (with ``rates``: the total rate), of jobs alone and in pairs.

    A dense program over jobs and pairs as in Gavel's code: a column for each of them and each type, whose time counts
    with the rates that the jobs have there.
    """
    jobs, types = instance.jobs, instance.cluster.type_names
    capacity, weights = instance.cluster.capacity, sum(job.weight for job in jobs)
    columns = [
        ((job.name,), t, job.demand, {job.name: job.throughput[t]})
        for job in jobs
        for t in types
        if job.throughput[t] > 0 and job.demand <= capacity[t]
    ]
    speed = {(job.name, t): job.throughput[t] for job in jobs for t in types}
    demand = {job.name: job.demand for job in jobs}
    for pair, of in parts_by_hand(instance).items():
        for t, parts in of.items():
            own = {name: part * speed[name, t] for name, part in zip(pair, parts, strict=True)}
            columns.append((pair, t, demand[pair[0]], own))
    use = [[gpus if t == kind else 0.0 for _, kind, gpus, _ in columns] + [0.0] for t in types]
    time = [[float(job.name in names) for names, *_ in columns] + [0.0] for job in jobs]
    base = {
        job.name: job.weight
        / weights
        * sum(speed[job.name, t] * capacity[t] for t in types if job.demand <= capacity[t])
        / job.demand
        for job in jobs
    }
    least = [[-own.get(job.name, 0.0) for *_, own in columns] + [base[job.name]] for job in jobs]
    gain = [sum(own.values()) for *_, own in columns] + [0.0] if rates else [0.0] * len(columns) + [1.0]
    rows = [*use, *time, *([] if rates else least)]
    upper = [*capacity.values(), *([1.0] * len(jobs)), *([] if rates else [0.0] * len(jobs))]
    return float(-linprog(-np.array(gain), np.array(rows), upper, bounds=[(0, None)] * (len(columns) + 1)).fun)


@settings(max_examples=examples(20, 300))
@given(packable(job_instances(jobs=(1, 6), zeros=True)))
def test_max_min_fairness_is_gavel_s_program(instance: Instance) -> None:
    found = hetopt.solve(gavel.max_min_packing(), instance)
    assert found.certificate.objective == pytest.approx(by_hand(instance), rel=EQUAL)
    assert found.certificate.measured
    assert found.certificate.violation <= EQUAL
    alone = hetopt.solve(gavel.max_min_fairness(), instance)
    assert found.certificate.objective >= alone.certificate.objective * (1 - EQUAL)


@settings(max_examples=examples(8, 100))
@given(packable(job_instances(jobs=(1, 5))))
def test_other_gains_are_those_of_jobs_alone_and_in_pairs(instance: Instance) -> None:
    total = Formulation((TotalRate(), gavel.SpaceSharing()))
    assert hetopt.solve(total, instance).certificate.objective == pytest.approx(
        by_hand(instance, rates=True), rel=EQUAL
    )
    makespan = hetopt.solve(gavel.with_space_sharing(gavel.makespan()), instance)
    assert gavel.makespan_seconds(makespan.entities, makespan.x) <= gavel.makespan_seconds(
        makespan.entities, hetopt.solve(gavel.makespan(), instance).x
    ) * (1 + EQUAL)


@settings(max_examples=examples(8, 100))
@given(packable(job_instances(jobs=(1, 5))))
def test_the_values_of_own_columns_make_up_shares_and_gpus(instance: Instance) -> None:
    found = hetopt.solve(gavel.max_min_packing(), instance)
    packed, entities = found.packed, found.entities
    assert packed is not None
    share, position = packed.alone.copy(), {tuple(pair): p for p, pair in enumerate(entities.pairs.jobs.tolist())}
    for (i, j), time in zip(packed.pairs.tolist(), packed.together, strict=True):
        share[[i, j]] += entities.pairs.parts[position[i, j]] * time
    assert found.x == pytest.approx(share, abs=EQUAL)
    assert (found.gpu_array.sum(axis=0) <= entities.capacity * (1 + EQUAL)).all()
    compiled = Compiled(gavel.max_min_packing(), entities)
    own = compiled.own_values(optimise(compiled.program).x)
    assert len(own["space_sharing"]["together"]) == np.count_nonzero(entities.pairs.parts[:, 0])
    assert own["least_ratio"]["level"] == pytest.approx(found.certificate.objective)
    assert len(found.together) == len(packed.pairs) == len(found.as_dict()["together"])


def test_one_gpu_by_hand() -> None:
    """A and b on it for p of the time, c for the rest: 3 * 3/4 p = 3 * 1/2 p + 3 b = 3 (1 - p - b), so p = 12/25.

    Ratios to the equal share: a 3 (3/4 p), b 3 (1/2 p + b) with b alone for b = p/4, c 3 (1 - 5/4 p): p = 4/8 ...
    """
    found = hetopt.solve(gavel.max_min_packing(), ONE_GPU, exact=True)
    assert str(found.certificate.exact.objective) == "9/8"  # type: ignore[union-attr]
    assert found.together.to_dict("list") == {"V100": [pytest.approx(0.5)]}
    assert found.packed.alone.ravel() == pytest.approx([0.0, 0.125, 0.375])  # type: ignore[union-attr]
    assert found.gpus["V100"].to_dict() == pytest.approx({"a": 0.25, "b": 0.375, "c": 0.375})
    assert found.certificate.prices.to_dict() == pytest.approx({"V100": 9 / 8})


def test_it_recombines_with_components_of_other_papers() -> None:
    """C holds the GPU; a and b gain 3/8 each, for half a ratio per GPU."""
    both = gavel.max_min_packing() + SwitchingCost(0.5) + EnvyFree()
    found = hetopt.solve(both, ONE_GPU.replace(held={"c": {"V100": 1.0}}))
    assert found.certificate.status == "optimal"
    assert found.certificate.violation <= EQUAL
    assert found.certificate.objective == pytest.approx(9 / 8 - 2 * 3 / 16)


def test_without_packings_it_is_the_formulation_without_it() -> None:
    alone = ONE_GPU.replace(packings=())
    found, wanted = (hetopt.solve(make(), alone) for make in (gavel.max_min_packing, gavel.max_min_fairness))
    assert found.certificate.objective == pytest.approx(wanted.certificate.objective)
    assert found.together.empty
    assert found.x == pytest.approx(found.packed.alone)  # type: ignore[union-attr]


def test_certificates_measure_what_the_columns_say() -> None:
    """A point whose pairs use more GPUs than there are is found out, though its shares would fit."""
    compiled = Compiled(gavel.max_min_packing(), ONE_GPU.entities("jobs"))
    point = optimise(compiled.program)
    assert certify(compiled, point, 0.0).violation <= PROVEN
    start = compiled.groups["space_sharing", "together"]
    wrong = point.x.copy()
    wrong[start] += 0.25
    bad = certify(compiled, replace(point, x=wrong), 0.0)
    assert bad.status == "inaccurate"
    assert bad.violation >= 0.25 - EQUAL


def test_only_one_component_states_the_capacity() -> None:
    class Again(gavel.SpaceSharing):
        name = "again"

    with refused(InvalidFormulation, None, "space_sharing and again both pack jobs"):
        gavel.max_min_packing() + Again(name="again")
    assert "capacity" not in [row.name for row in gavel.max_min_packing().mathematics().rows]


# Rounds


def test_shares_of_pairs_become_rounds() -> None:
    """In 800 rounds of 0.1 s the rounds of each are its shares, within one."""
    policy, rounder = gavel.max_min_packing(), ByPriority(fill=False, reset_seconds=1e9)
    allocation, _ = policy(ONE_GPU)
    state: Received | None = None
    for _ in range(800):
        plan, state = rounder(allocation, ONE_GPU, state)
        assert plan.x.sum() == 1.0
        assert plan.packed in ((), (("a", "b"),))
        assert plan.gangs.tolist() in ([[1.0], [0.0], [0.0]], [[0.0], [1.0], [0.0]], [[0.0], [0.0], [1.0]])
    assert state is not None
    assert state.rounds.ravel() == pytest.approx([0, 100, 300, 400], abs=1)


@settings(max_examples=examples(15, 150))
@given(packable(job_instances(jobs=(1, 6))), st.booleans(), st.booleans())
def test_plans_of_pairs_keep_gangs_whole_and_the_capacity(instance: Instance, fill: bool, per_type: bool) -> None:
    system = System(OnChange(gavel.max_min_packing()), 60.0, ByPriority(fill, per_type=per_type))
    log = hetopt.simulate(system, instance, max_rounds=20, overheads=hetopt.Overheads(transfer=False))
    assert (log.rounds["held"] <= log.capacity * 60.0 * (1 + EQUAL)).all()
    allocation, _ = call_policy(system.policy, instance)
    plan, state = ByPriority(fill, per_type=per_type)(allocation, instance)
    runs = np.flatnonzero(plan.gangs.any(axis=1))
    demand = plan.entities.demand
    assert (plan.gangs[runs].sum(axis=1) == demand[runs]).all()
    assert (plan.gangs.sum(axis=0) <= plan.entities.capacity).all()
    parts = parts_by_hand(instance)
    names = plan.entities.names
    for first, second in plan.packed:
        assert (
            plan.assigned[first] in parts[min((first, second), key=names.index), max((first, second), key=names.index)]
        )
        assert plan.assigned[first] == plan.assigned[second]
    assert state.rounds.sum() == len(runs)


def test_what_cannot_round_or_audit_pairs_refuses_them() -> None:
    found = hetopt.solve(gavel.max_min_packing(), ONE_GPU)
    with refused(InvalidOption, None, "for those of pairs use ByPriority"):
        WholeJobs()(found, ONE_GPU)
    with refused(InvalidOption, None, "jobs that share GPUs in pairs need rounds"):
        hetopt.simulate(gavel.max_min_packing(), ONE_GPU, fluid=True)
    with refused(InvalidPlan, None, "'a' and 'b' share GPUs; audits"):
        hetopt.audit(ONE_GPU, found)
    log = hetopt.simulate(gavel.max_min_packing(), ONE_GPU, round_seconds=5.0)  # the default rounder takes pairs
    assert log.jobs["finish"].notna().all()


def test_packing_ends_two_jobs_sooner() -> None:
    """On one GPU a (10 s alone) and b (10 s) share: b keeps 1/2, a 3/4 of its rate, and a is alone once b is done."""
    jobs = ONE_GPU.with_jobs(["a", "b"])
    log = hetopt.simulate(make_system("gavel-packing", {"round_seconds": 1.0}), jobs)
    assert log.makespan < 20.0
    alone = hetopt.simulate(make_system("gavel", {"round_seconds": 1.0}), jobs)
    assert alone.makespan == pytest.approx(20.0)
