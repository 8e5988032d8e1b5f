"""FFT's round against enumeration of every assignment, its parts against the paper's formulas, and compositions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.errors import InvalidFormulation, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models import fft
from hetopt.models.fairness_components import EnvyFree, SharingIncentive
from hetopt.models.fft import fft_method
from hetopt.models.gavel.gavel_policies import TimeFraction
from hetopt.models.objectives import TotalRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.model import Component
from hetopt.proofs.strategies import job_instances
from hetopt.solving.optimising import method_for
from hetopt.tolerances import EQUAL, FEASIBILITY, scale

SECONDS = 300.0
RESTART = 60.0
Where = tuple[int, ...]
"""For each job the position of its GPU type, -1 where it waits."""


@st.composite
def rounds(draw: st.DrawFn) -> tuple[hetopt.Instance, fft.FFTState]:
    """An instance with ages and checkpoints, and what FFT remembers of it: rho, and where jobs were executed last."""
    instance = draw(job_instances(jobs=(1, 5), zeros=True, arrivals=True))
    n, types = len(instance.jobs), instance.cluster.type_names
    sizes = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    jobs = tuple(replace(j, checkpoint_bytes=1e11 * s) for j, s in zip(instance.jobs, sizes, strict=True))
    instance = instance.replace(jobs=jobs)
    owed = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    last = draw(st.lists(st.sampled_from([None, *types]), min_size=n, max_size=n))
    names = [j.name for j in jobs]
    state = fft.FFT(SECONDS).advanced(instance, None)
    return instance, replace(
        state,
        rho=dict(zip(names, map(float, owed), strict=True)),
        last={name: kind for name, kind in zip(names, last, strict=True) if kind},
    )


def cost_of(instance: hetopt.Instance, state: fft.FFTState, where: Where, *, restart: float = RESTART) -> float:
    """[FFT, eq. 6] written out job by job, with theta and rho in parts of the job."""
    total = 0.0
    for job, k in zip(instance.jobs, where, strict=True):
        if k < 0:
            continue
        kind = instance.cluster.type_names[k]
        rounds = job.work / (job.throughput[kind] * SECONDS)
        total += (instance.time - job.arrival) / SECONDS / rounds + job.demand * rounds
        total -= state.rho.get(job.name, 0.0) / rounds
        if state.last.get(job.name, kind) != kind:
            card = min(s.nic_bytes_per_s for s in instance.cluster.servers if s.gpus.get(kind))
            total += (job.checkpoint_bytes / card + restart) / SECONDS
    return total


def assignments(instance: hetopt.Instance) -> list[Where]:
    """Every assignment within capacity of jobs to types that can run them."""
    types = instance.cluster.type_names
    choices = [[-1, *(k for k, t in enumerate(types) if job.throughput[t] > 0)] for job in instance.jobs]
    capacity = [instance.cluster.capacity[t] for t in types]
    return [
        where
        for where in product(*choices)
        if all(
            sum(job.demand for job, own in zip(instance.jobs, where, strict=True) if own == k) <= most
            for k, most in enumerate(capacity)
        )
    ]


def used(instance: hetopt.Instance, where: Where) -> int:
    """GPUs in use."""
    return sum(job.demand for job, k in zip(instance.jobs, where, strict=True) if k >= 0)


def optimum(
    instance: hetopt.Instance, state: fft.FFTState, allowed: Callable[[Where], bool] = lambda _: True
) -> tuple[int, float] | None:
    """(K*, least cost with K* GPUs in use) among the assignments that are allowed; None if there is none."""
    every = [where for where in assignments(instance) if allowed(where)]
    if not every:
        return None
    most = max(used(instance, where) for where in every)
    return most, min(cost_of(instance, state, where) for where in every if used(instance, where) == most)


def where_of(instance: hetopt.Instance, plan: hetopt.Plan) -> Where:
    types = instance.cluster.type_names
    return tuple(-1 if t is None else types.index(t) for t in plan.assigned.values())


def share_of(instance: hetopt.Instance, where: Where) -> np.ndarray:
    share = np.zeros((len(where), len(instance.cluster.type_names)))
    for e, k in enumerate(where):
        if k >= 0:
            share[e, k] = 1
    return share


POLICY = fft.FFT(SECONDS, restart_seconds=RESTART)


def test_the_example_of_table_1() -> None:
    """Two like jobs, a fast and a slow GPU: both run, and the earlier job gets the fast one."""
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    plan, state = fft.FFT(round_seconds=SECONDS)(jobs)
    assert plan.assigned == {"j1": "GPU1", "j2": "GPU2"}
    assert state.planned == plan.assigned
    assert plan.certificate is not None
    assert plan.certificate.objective == pytest.approx(-18)
    assert hetopt.solve(fft.FFT(), jobs).gpus.to_numpy().tolist() == [[1, 0], [0, 1]]


@given(rounds())
def test_a_round_is_the_best_of_all_assignments(round_: tuple[hetopt.Instance, fft.FFTState]) -> None:
    """First as many GPUs as can be packed, then the least cost; ties never change it."""
    instance, state = round_
    plan, after = POLICY(instance, state)
    found = optimum(instance, state)
    assert found is not None
    most, least = found
    where = where_of(instance, plan)
    assert plan.x.sum() == used(instance, where) == most
    assert where in assignments(instance)
    slack = EQUAL * scale([cost_of(instance, state, w) for w in assignments(instance)])
    assert cost_of(instance, state, where) == pytest.approx(least, abs=slack)
    assert plan.certificate is not None
    assert plan.certificate.objective == pytest.approx(-least, abs=slack)
    assert plan.certificate.measured
    assert after.rho == state.rho


def test_rows_have_the_name_of_their_component() -> None:
    instance = hetopt.Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])
    program = Formulation((fft.OneType(name="once"), fft.WorkConserving())).compile(instance)
    assert list(program.row_names)[2:] == ["once.row[j1]", "once.row[j2]"]


@given(rounds(), st.data())
def test_parts_measure_what_the_model_says_and_the_formula(
    round_: tuple[hetopt.Instance, fft.FFTState], data: st.DataObject
) -> None:
    """The gains of the Pyomo model, those measured, and eq. (6) by hand agree at every assignment drawn."""
    instance, state = round_
    formulation = POLICY.formulation(instance, state)
    entities, model = instance.entities("jobs"), formulation.build(instance)
    where = data.draw(st.sampled_from(assignments(instance)))
    share = share_of(instance, where)
    for row, variables in zip(share.tolist(), model.share_grid, strict=True):
        for value, variable in zip(row, variables, strict=True):
            variable.set_value(value, skip_validation=True)
    parts = {part.name: _measured(part, entities, share) for part in formulation}
    gain = sum(m.gain for name, m in parts.items() if name != "work_conserving")
    cost = cost_of(instance, state, where)
    slack = EQUAL * scale(cost, [m.gain for m in parts.values()])
    assert gain == pytest.approx(-cost, abs=slack)
    assert pyo.value(model.objective) == pytest.approx(-cost, abs=slack)
    assert parts["work_conserving"].gain == used(instance, where) == pytest.approx(pyo.value(model.gains[1]))
    assert not any(m.violation for m in parts.values())


def _measured(part: Component, entities: hetopt.Entities, share: np.ndarray) -> hetopt.Measure:
    found = hetopt.measure(part, entities, share)
    assert found is not None
    return found


def test_one_type_measures_what_is_not_whole_or_too_much() -> None:
    entities = hetopt.Instance.from_jobs([[1, 1]], [1], [4], [1, 1]).entities()
    for share, violation in (([1.0, 0.0], 0), ([1.0, 1.0], 1), ([0.25, 0.0], 1 / 4)):
        assert _measured(fft.OneType(), entities, np.array([share])).violation == violation


# compositions


@given(rounds())
def test_envy_freeness_on_the_round(round_: tuple[hetopt.Instance, fft.FFTState]) -> None:
    """The best of all envy-free assignments; the first stage then packs what envy-freeness leaves (perhaps nothing).

    The audit calls the plan envy-free.
    """
    instance, state = round_
    entities = instance.entities("jobs")

    def fair(where: Where) -> bool:
        share = share_of(instance, where)
        own, d = entities.rate(share), entities.demand
        return not any(
            entities.speed[e] / d[e] @ share[o] * min(d[o], d[e]) > own[e] + FEASIBILITY * scale(entities.speed)
            for e, o in product(range(len(own)), repeat=2)
        )

    found = optimum(instance, state, fair)
    assert found is not None, "no job has envy where all wait"
    plan, _ = fft.FFT(SECONDS, RESTART, extra=(EnvyFree(),))(instance, state)
    assert hetopt.audit(instance, plan).envy_free
    assert plan.x.sum() == found[0]
    slack = EQUAL * scale([cost_of(instance, state, w) for w in assignments(instance)])
    assert cost_of(instance, state, where_of(instance, plan)) == pytest.approx(found[1], abs=slack)
    assert plan.certificate is not None
    assert plan.certificate.violation <= FEASIBILITY


@given(rounds())
def test_the_sharing_incentive_on_the_round(round_: tuple[hetopt.Instance, fft.FFTState]) -> None:
    """The best of all assignments in which each job has its share; where there is none, the error says why.

    What a gang reaches on its own part m of the cluster is the least of d t + sum_k m_k max(0, v_k - t) over t >= 0.
    """
    instance, state = round_
    entities = instance.entities("jobs")
    own = (entities.weight / entities.weight.sum())[:, None] * entities.capacity
    fair_rate = [
        min(d * t + m @ np.maximum(v - t, 0) for t in [0.0, *v])
        for d, m, v in zip(entities.demand, own, entities.per_gpu, strict=True)
    ]

    def fair(where: Where) -> bool:
        short = fair_rate - entities.rate(share_of(instance, where))
        return bool((short <= FEASIBILITY * equal_share_rate(entities)).all())

    policy = fft.FFT(SECONDS, RESTART, extra=(SharingIncentive(),))
    found = optimum(instance, state, fair)
    if found is None:
        with pytest.raises(NotSolved) as error:
            policy(instance, state)
        assert any("sharing_incentive" in name for name in error.value.conflict)
        return
    plan, _ = policy(instance, state)
    assert plan.x.sum() == found[0]
    slack = EQUAL * scale([cost_of(instance, state, w) for w in assignments(instance)])
    assert cost_of(instance, state, where_of(instance, plan)) == pytest.approx(found[1], abs=slack)


@given(job_instances(jobs=(1, 5), zeros=True), st.data())
def test_compensation_on_a_divisible_model(instance: hetopt.Instance, data: st.DataObject) -> None:
    """OEF-like sharing among jobs with what they are owed, against the same program written for scipy."""
    n, k = instance.entities().shape
    rho = {j.name: float(data.draw(st.integers(0, 5))) for j in instance.jobs}
    formulation = Formulation((TotalRate(), EnvyFree(), TimeFraction(), fft.Compensation(rho, SECONDS)))
    allocation = hetopt.solve(formulation, instance)
    speed = np.array([[j.throughput[t] for t in instance.cluster.type_names] for j in instance.jobs])
    demand = np.array([j.demand for j in instance.jobs])
    speed[demand[:, None] > np.array(list(instance.cluster.capacity.values()))] = 0  # too few GPUs for the gang
    owed = np.array([rho[j.name] * SECONDS / j.work for j in instance.jobs])
    rows = [np.kron(np.eye(n)[e], np.ones(k)) for e in range(n)]
    limits = [1.0] * n
    for i in range(k):
        rows.append(np.kron(demand, np.eye(k)[i]))
        limits.append(float(instance.cluster.capacity[instance.cluster.type_names[i]]))
    for e, o in product(range(n), range(n)):
        if e != o:
            per_gpu = speed[e] / demand[e]
            used = min(demand[o], demand[e])  # of the other's gang, by its own
            rows.append(np.kron(np.eye(n)[o] * used, per_gpu) - np.kron(np.eye(n)[e] * demand[e], per_gpu))
            limits.append(0.0)
    gain = (speed * (1 + owed)[:, None]).ravel()
    bounds = [(0, None if s > 0 else 0) for s in speed.ravel()]
    oracle = linprog(-gain, np.array(rows), limits, bounds=bounds)
    assert oracle.fun is not None
    assert allocation.certificate.objective == pytest.approx(-oracle.fun, rel=EQUAL, abs=EQUAL * scale(gain))
    assert allocation.certificate.violation <= FEASIBILITY


def test_parts_come_and_go() -> None:
    instance = hetopt.Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])
    formulation = fft.FFT().formulation(instance)
    expected = ("one_type", "age_cost", "volume_cost", "switching", "compensation", "work_conserving")
    assert formulation.names == expected
    idle = hetopt.solve(formulation.without("work_conserving"), instance)
    assert idle.x.sum() == 0, "without work conservation nothing is worth its cost"
    assert fft.FFT(extra=[fft.VolumeCost(name="twice")]).extra == (fft.VolumeCost(name="twice"),)  # type: ignore[arg-type]
    more = fft.FFT(extra=(fft.VolumeCost(name="twice"),)).formulation(instance)
    assert _method(more, instance) == _method(formulation, instance) == "fft-round", "linear gains keep the method"
    assert _method(fft.FFT(extra=(EnvyFree(),)).formulation(instance), instance) is None
    with pytest.raises(InvalidFormulation, match="two components are named 'age_cost'"):
        fft.FFT(extra=(fft.AgeCost(),)).formulation(instance)


def _method(formulation: Formulation, instance: hetopt.Instance) -> str | None:
    found = method_for(Compiled(formulation, formulation.entities(instance)), hetopt.Options())
    return None if found is None else found.name


@pytest.mark.parametrize("priority", [2, 1, -1])
def test_ties_are_not_settled_against_gains_of_other_priorities(priority: int) -> None:
    """Two equal jobs, and a user's component that prefers the second on the fast GPU."""

    @dataclass(frozen=True)
    class Prefer(fft.LinearGain):
        priority: int
        name: str = "prefer"

        def coefficients(self, entities: hetopt.Entities) -> np.ndarray:
            return np.array([[0.0, 0.0], [1.0, 0.0]])

    jobs = hetopt.Instance.from_jobs([[2, 1], [2, 1]], [1, 1], [8, 8], [1, 1])
    plan, _ = fft.FFT(extra=(Prefer(priority),))(jobs)
    assert plan.assigned == {"j1": "GPU2", "j2": "GPU1"}


def test_a_gap_makes_no_room_in_the_first_objective() -> None:
    """With a large gap the costs may be off, but as many GPUs are used as can be packed."""
    rng = np.random.default_rng(5)
    jobs = hetopt.Instance.from_jobs(
        rng.uniform(1, 8, (40, 3)), rng.integers(1, 5, 40), rng.uniform(5, 90, 40), [9, 7, 4]
    )
    plan, _ = fft.FFT(options=hetopt.Options(gap=0.5))(jobs)
    assert plan.x.sum() == 20


def test_a_stopped_second_objective_leaves_the_packing_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The point found within the time limit is used: slow costs never leave a round without a plan."""
    jobs = hetopt.Instance.from_jobs([[4, 1], [3, 2], [2, 2]], [2, 2, 1], [9, 9, 9], [3, 2])

    def slow(*_: Any) -> Any:
        raise NotSolved("no usable point within time_limit=1 s; raise the limit", "time_limit")

    for tables in ("solve_small", "solve_whole"):
        monkeypatch.setattr(fft_method, tables, lambda *_: None)
    monkeypatch.setattr(fft_method, "run", slow)
    plan, _ = fft.FFT(options=hetopt.Options(time_limit=1.0))(jobs)
    assert plan.x.sum() == 5
    assert plan.certificate is not None
    assert plan.certificate.status == "time_limit"
    assert plan.certificate.objective < plan.certificate.bound < np.inf
