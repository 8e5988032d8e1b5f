"""What is true of FFT's claims: K*, the cost's preferences, units, the bound on the completion time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt.errors import NotSolved
from hetopt.models import fft
from hetopt.proofs.strategies import job_instances
from hetopt.tolerances import EQUAL

SECONDS = 300.0

# K*: the largest demand that can be packed


def packed(instance: hetopt.Instance) -> Iterator[int]:
    """GPUs in use, for every assignment within capacity of jobs to types that can run them."""
    types = instance.cluster.type_names
    choices = [[None, *(t for t in types if job.throughput[t] > 0)] for job in instance.jobs]
    for where in product(*choices):
        taken = {t: sum(j.demand for j, own in zip(instance.jobs, where, strict=True) if own == t) for t in types}
        if all(taken[t] <= instance.cluster.capacity[t] for t in types):
            yield sum(taken.values())


@given(job_instances(jobs=(1, 6), zeros=True))
def test_k_star_by_program_by_dynamic_programming_and_by_enumeration(instance: hetopt.Instance) -> None:
    types = instance.cluster.type_names
    reached = {tuple(instance.cluster.capacity[t] for t in types)}
    for job in instance.jobs:
        on = [k for k, t in enumerate(types) if job.throughput[t] > 0]
        reached |= {
            (*left[:k], left[k] - job.demand, *left[k + 1 :]) for left in reached for k in on if left[k] >= job.demand
        }
    total = sum(instance.cluster.capacity.values())
    by_table = max(total - sum(left) for left in reached)
    assert by_table == max(packed(instance))
    assert fft.FFT()(instance)[0].x.sum() == by_table


@given(job_instances(jobs=(1, 6), most_gpus=8), st.data())
def test_largest_first_is_exact_for_powers_of_two(instance: hetopt.Instance, data: st.DataObject) -> None:
    sizes = [2 ** data.draw(st.integers(0, 3)) for _ in instance.jobs]
    most = max(instance.cluster.capacity.values())
    jobs = tuple(replace(j, demand=d) for j, d in zip(instance.jobs, sizes, strict=True) if d <= most)
    if jobs:
        assert fft.FFT()(instance.replace(jobs=jobs))[0].x.sum() == greedy(instance.replace(jobs=jobs))


def test_largest_first_fails_for_other_demands() -> None:
    instance = hetopt.Instance.from_jobs([[1]] * 3, [3, 2, 2], [4] * 3, [4])
    assert greedy(instance) == 3
    assert fft.FFT()(instance)[0].x.sum() == 4


def greedy(instance: hetopt.Instance) -> int:
    """Largest gangs first, each on the first type with room (memory does not restrict)."""
    left = list(instance.cluster.capacity.values())
    for demand in sorted((j.demand for j in instance.jobs), reverse=True):
        for k, free in enumerate(left):
            if free >= demand:
                left[k] -= demand
                break
    return sum(instance.cluster.capacity.values()) - sum(left)


@dataclass(frozen=True)
class AtLeast:
    """The constraint (7) as printed: sum of demand * share >= gpus."""

    gpus: float
    name: str = "at_least"

    def add(self, block: Any, model: hetopt.Model) -> float:
        block.row = pyo.Constraint(expr=model.weighted_shares(model.entities.demand[:, None]) >= self.gpus)
        return 0


def test_the_printed_k_of_t_can_be_out_of_reach() -> None:
    """4 GPUs, two gangs of 3: min(available, demanded) = 4, but only 3 can be packed."""
    instance = hetopt.Instance.from_jobs([[1], [1]], [3, 3], [4, 4], [4])
    with pytest.raises(NotSolved) as error:
        hetopt.solve(fft.FFT().formulation(instance) + AtLeast(4), instance)
    assert error.value.status == "infeasible"
    assert fft.FFT()(instance)[0].x.sum() == 3
    assert fft.FFT(extra=(AtLeast(3),))(instance)[0].x.sum() == 3


# what the cost prefers


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 12), st.integers(0, 200))
def test_the_cost_prefers_the_faster_gpu_until_the_age_is_demand_times_both_times(
    demand: int, first: int, second: int, age: int
) -> None:
    """Phi = age / p + d p for p rounds to finish: the smaller p costs less iff age < d p1 p2 (exact in Fractions)."""
    fast, slow = sorted((first, second))
    instance = hetopt.Instance.from_jobs([[1, fast / slow]], [demand], [fast], [demand, demand], time=SECONDS * age)
    entities = instance.entities("jobs")
    gain = fft.AgeCost(SECONDS).coefficients(entities) + fft.VolumeCost(SECONDS).coefficients(entities)
    exact = [-(Fraction(age, p) + demand * p) for p in (fast, slow)]
    assert gain[0] == pytest.approx([float(g) for g in exact], rel=EQUAL)
    if fast < slow:
        assert (exact[0] > exact[1]) == (age < demand * fast * slow)


@pytest.mark.parametrize(("age", "chosen"), [(7, "fast"), (9, "slow")])
def test_an_old_job_is_sent_to_the_slow_gpu_beside_an_idle_fast_one(age: int, chosen: str) -> None:
    """1 GPU, 2 or 4 rounds: the claim "prefers faster GPUs" fails beyond age 8."""
    cluster = hetopt.Cluster.of({"fast": 1, "slow": 1})
    job = hetopt.Job("old", {"fast": 1 / 2 / SECONDS, "slow": 1 / 4 / SECONDS}, 1.0)
    assert fft.FFT()(hetopt.Instance(cluster, jobs=(job,), time=age * SECONDS))[0].assigned == {"old": chosen}


def test_an_old_short_job_waits_for_a_long_one() -> None:
    """The claim "prefers shorter jobs" fails in the same way: 1 GPU, jobs of 2 and 4 rounds, both of age 9."""
    jobs = hetopt.Instance.from_jobs([[1], [1]], [1, 1], [2, 4], [1], time=9 * SECONDS)
    assert fft.FFT()(jobs)[0].assigned == {"j1": None, "j2": "GPU1"}
    young = hetopt.Instance.from_jobs([[1], [1]], [1, 1], [2, 4], [1], time=7 * SECONDS)
    assert fft.FFT()(young)[0].assigned == {"j1": "GPU1", "j2": None}


# units


def run(policy: fft.FFT, instance: hetopt.Instance, rounds: int) -> list[dict[str, str | None]]:
    """What the policy decides in some rounds, in which no job ends."""
    state, plans = None, []
    for r in range(rounds):
        plan, state = policy(instance.replace(time=instance.time + r * SECONDS), state)
        plans.append(plan.assigned)
    return plans


@given(job_instances(jobs=(1, 4), zeros=True, arrivals=True), st.sampled_from([1 / 64, 1 / 2, 8, 1024]))
def test_decisions_do_not_depend_on_the_unit_of_work(instance: hetopt.Instance, factor: float) -> None:
    """Epochs or iterations: powers of two, so that floats are exact and ties stay ties."""
    assert run(fft.FFT(), instance, 4) == run(fft.FFT(), in_units(instance, factor), 4)


def in_units(instance: hetopt.Instance, factor: float) -> hetopt.Instance:
    jobs = (
        replace(j, work=factor * j.work, throughput={t: factor * s for t, s in j.throughput.items()})
        for j in instance.jobs
    )
    return instance.replace(jobs=tuple(jobs))


def test_as_printed_decisions_depend_on_the_unit_of_work() -> None:
    """Rho theta grows with the square of the unit: with larger numbers the long job is compensated earlier."""
    instance = hetopt.Instance.from_jobs([[1], [1]], [1, 1], [2, 6], [1])
    printed = fft.FFT(normalise=False)
    assert run(printed, instance, 12) != run(printed, in_units(instance, 64), 12)
    assert run(fft.FFT(), instance, 12) == run(fft.FFT(), in_units(instance, 64), 12)


# the bound on the completion time, eq. (2)


def fractional_completion(work: Fraction, served: list[Fraction]) -> Fraction:
    """Eq. (2): sum over rounds of age times the part of the job that is done."""
    return sum((age * done / work for age, done in enumerate(served)), Fraction(0))


@given(st.integers(1, 40), st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 9))
def test_eq_2_is_a_lower_bound_where_the_last_round_does_the_work_left(work: int, speeds: list[int], last: int) -> None:
    """Random patterns of service, in Fractions; and the age cost of the parts adds up to eq. (2)."""
    total, left, served = Fraction(work), Fraction(work), []
    for speed in [*speeds, *[last] * work]:
        served.append(min(Fraction(speed), left))
        left -= served[-1]
        if left == 0:
            break
    completion = len(served) - 1
    assert left == 0
    assert fractional_completion(total, served) <= completion
    instance = hetopt.Instance.from_jobs([[1]], [1], [work], [1])
    costs = []
    for age, done in enumerate(served):
        entities = instance.replace(time=age * SECONDS).entities("jobs")
        found = hetopt.measure(fft.AgeCost(SECONDS), entities, np.array([[float(done)]]))
        assert found is not None
        costs.append(-found.gain)
    assert sum(costs) == pytest.approx(float(fractional_completion(total, served)), abs=EQUAL * work)


def test_eq_2_is_no_lower_bound_where_the_last_round_counts_whole() -> None:
    """W = 1, theta = 2, run one round after the arrival: 2 > 1."""
    assert fractional_completion(Fraction(1), [Fraction(0), Fraction(2)]) == 2 > 1
    assert fractional_completion(Fraction(1), [Fraction(0), Fraction(1)]) == 1


# Theorem 4.2: how long a job can wait for its first round


def waits(log: hetopt.Log) -> dict[str, int]:
    """Job -> rounds in which it was there before its first service."""
    begins = log.rounds["start"]
    return {
        str(name): int(((begins >= job["arrival"]) & (begins < job["start"])).sum())
        for name, job in log.jobs.iterrows()
    }


@pytest.mark.parametrize("jobs", [2, 5, 11])
def test_no_constant_bounds_the_wait_for_the_first_round(jobs: int) -> None:
    """Theorem 4.2 as printed is false: of N jobs of one round on one GPU, the last waits N - 1 rounds."""
    instance = hetopt.Instance.from_jobs([[1]] * jobs, [1] * jobs, [1] * jobs, [1])
    assert sorted(waits(hetopt.simulate(fft.FFT(SECONDS), instance)).values()) == list(range(jobs))


@pytest.mark.parametrize("normalise", [True, False])
@given(job_instances(jobs=(2, 6), types=(1, 2), most_gpus=4, zeros=True, arrivals=True))
def test_maximal_packing_bounds_the_wait_for_the_first_round(normalise: bool, instance: hetopt.Instance) -> None:
    """Proved instead: wait_j * sum_i max(0, Y_i - d_j + 1) <= sum_{k != j} d_k * ceil(max_i W_k / theta_k^i).

    While j waits, each type that it can use has fewer than d_j free GPUs; and the others (those present before j's
    first service) hold GPUs only until they have finished.
    """
    early = instance.replace(time=0.0)
    log = hetopt.simulate(fft.FFT(SECONDS, normalise=normalise), early)
    entities, capacity = early.entities("jobs"), early.cluster.capacity
    theta = np.where(entities.allowed, entities.speed * SECONDS, np.inf)
    rounds = np.ceil(early.job_array("work") / theta.min(axis=1) * (1 - EQUAL))
    for j, (name, wait) in enumerate(waits(log).items()):
        blocked = sum(
            max(0, gpus - early.jobs[j].demand + 1)
            for gpus, usable in zip(capacity.values(), entities.allowed[j], strict=True)
            if usable
        )
        before = (log.jobs["arrival"] < log.jobs.loc[name, "start"]).to_numpy() & (np.arange(len(rounds)) != j)
        assert wait * blocked <= (entities.demand * rounds)[before].sum()
