"""What FFT remembers: rho, tau and the last types against [FFT, eq. 5] in Fractions; and how ties are settled."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.errors import InvalidInstance
from hetopt.models import fft
from hetopt.models.fft.fft_state import ByJob, types_of
from hetopt.models.fft.tie_breaking import settled
from hetopt.proofs.strategies import job_instances
from hetopt.tolerances import EQUAL, PROVEN, ROUNDING

SECONDS = 300.0


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (ByJob(("a", "b", "c"), np.array([1.5, np.nan, 0.0])), {"a": 1.5, "c": 0.0}),
        (ByJob(("a", "b", "c"), np.array([1, -1, 0]), ("V100", "K80")), {"a": "K80", "c": "V100"}),
    ],
)
def test_what_fft_remembers_is_a_mapping_by_job(shown: ByJob[Any], expected: dict[str, Any]) -> None:
    """All that a dict offers, except changes; copies and pickles are equal."""
    assert dict(shown) == expected == shown
    assert list(shown.values()) == list(expected.values())
    assert list(shown.items()) == list(expected.items())
    assert "b" not in shown
    assert shown.get("b") is None
    assert len(shown) == 2
    assert pickle.loads(pickle.dumps(shown)) == copy.deepcopy(shown) == expected
    with pytest.raises(TypeError, match="read-only"):
        shown["a"] = 2


def fair_rounds(instance: hetopt.Instance, job: hetopt.Job) -> Fraction:
    """Tau - a in rounds: p max(1, d |A| / sum Y), p on the fastest type that has enough GPUs for the gang."""
    capacity = instance.cluster.capacity
    fastest = max(s for t, s in job.throughput.items() if job.demand <= capacity[t])
    alone = Fraction(job.work) / (Fraction(fastest) * Fraction(SECONDS))
    return alone * max(Fraction(1), Fraction(job.demand * len(instance.jobs), sum(capacity.values())))


@given(job_instances(jobs=(1, 4), zeros=True, arrivals=True), st.booleans(), st.data())
def test_rho_follows_equation_5(instance: hetopt.Instance, normalise: bool, data: st.DataObject) -> None:
    """Some rounds, in which each job is held where the draw says; rho starts at 0 and never falls below."""
    policy, state = fft.FFT(SECONDS, normalise=normalise), None
    rho = dict.fromkeys((j.name for j in instance.jobs), Fraction(0))
    start = instance.time
    for r in range(4):
        now = instance.replace(time=start + r * SECONDS)
        if state is not None:
            free, ran = dict(now.cluster.capacity), {}
            for j in now.jobs:
                fits = [t for t, s in j.throughput.items() if s > 0 and j.demand <= free[t]]
                ran[j.name] = data.draw(st.sampled_from([None, *fits]))
                if ran[j.name] is not None:
                    free[ran[j.name]] -= j.demand
            now = now.replace(held={j.name: {ran[j.name]: j.demand} if ran[j.name] else {} for j in now.jobs})
            for job in instance.jobs:
                span, kind = fair_rounds(instance, job), ran[job.name]
                whole = Fraction(1) if normalise else Fraction(job.work)
                done = Fraction(job.throughput[kind]) * Fraction(SECONDS) if kind else Fraction(0)
                done = done / Fraction(job.work) if normalise else done
                mu = Fraction(start + (r - 1) * SECONDS - job.arrival) / Fraction(SECONDS) / span
                rho[job.name] = max(Fraction(0), rho[job.name] + mu * (whole / span - done))
        state = policy.advanced(now, state)
        assert state.rho == pytest.approx({name: float(value) for name, value in rho.items()}, rel=EQUAL, abs=PROVEN)
        assert policy(now, state)[1].rho == state.rho, "asking twice at the same time changes nothing"


def test_the_plan_counts_as_executed_unless_the_instance_says_what_is_held() -> None:
    """A job owed half of itself a round: planned, it did work; held nowhere, it is owed more."""
    instance = hetopt.Instance.from_jobs([[1]], [1], [4], [1], time=2 * SECONDS)
    policy = fft.FFT(SECONDS)
    _, state = policy(instance)
    later = instance.replace(time=3 * SECONDS)
    assert policy.advanced(later, state).rho == {"j1": 0.0}
    idle = policy.advanced(later.replace(held={"j1": {}}), state)
    assert idle.rho == pytest.approx({"j1": 2 / 4 * 1 / 4}), "mu = 2 / 4, and a quarter of the job was due"
    assert idle.last == {}
    half = policy.advanced(instance.replace(time=2.5 * SECONDS, held={"j1": {}}), state)
    assert half.rho == pytest.approx({"j1": idle.rho["j1"] / 2}), "half a round later, half the step"


def test_tau_is_estimated_again_only_when_jobs_come_or_go() -> None:
    """2 GPUs; gangs of 2: alone p = 4 rounds, beside another one twice that; relative to the arrival."""
    one = hetopt.Instance.from_jobs([[1, 1]], [1], [4], [1, 1], arrival=[60], time=60)
    policy = fft.FFT(SECONDS)
    _, state = policy(one)
    assert state.tau == {"j1": 60 + 4 * SECONDS}
    faster = (replace(one.jobs[0], throughput={"GPU1": 1 / 60, "GPU2": 1 / 60}),)
    _, state = policy(one.replace(time=360, jobs=faster), state)
    assert state.tau == {"j1": 60 + 4 * SECONDS}, "new measurements wait for the next arrival or completion"
    more = tuple(hetopt.Job(f"j{i}", {"GPU1": 1 / 300, "GPU2": 1 / 300}, 4, arrival=660) for i in (2, 3, 4))
    crowd = one.replace(time=660, jobs=(*one.jobs, *more))
    _, state = policy(crowd, state)
    assert state.tau == {"j1": 60 + 8 * SECONDS, **{f"j{i}": 660 + 8 * SECONDS for i in (2, 3, 4)}}
    _, state = policy(one.replace(time=960), state)
    assert state.tau == {"j1": 60 + 4 * SECONDS}


def test_tau_uses_the_fastest_type_that_has_enough_gpus() -> None:
    gang = hetopt.Instance.from_jobs([[8, 1]], [2], [4], [1, 2])
    assert fft.FFT(SECONDS)(gang)[1].tau == {"j1": 4 * SECONDS}


def test_a_new_job_is_owed_nothing_and_a_finished_one_is_forgotten() -> None:
    jobs = hetopt.Instance.from_jobs([[1], [1]], [1, 1], [4, 40], [1], time=5 * SECONDS)
    policy = fft.FFT(SECONDS)
    _, state = policy(jobs)
    state = replace(state, rho={"j1": 1.0, "j2": 1.0}, last={"j1": "GPU1", "j2": "GPU1"})
    new = hetopt.Job("new", {"GPU1": 1 / SECONDS}, 4, arrival=6 * SECONDS)
    _, after = policy(jobs.replace(jobs=(jobs.jobs[1], new), time=6 * SECONDS), state)
    assert after.rho["new"] == 0
    assert set(after.rho) == set(after.tau) == {"j2", "new"}
    assert set(after.last) == {"j2"}


FAST_SLOW = [[8, 1], [8, 1]]


def test_the_last_type_outlives_a_pause() -> None:
    """Executed on GPU2, then paused: resuming there is free, GPU1 would cost a transfer."""
    instance = hetopt.Instance.from_jobs(FAST_SLOW, [1, 1], [16, 16], [1, 1])
    instance = instance.replace(jobs=tuple(replace(j, checkpoint_bytes=1.25e9 * 300) for j in instance.jobs))
    policy = fft.FFT(SECONDS)
    state: fft.FFTState | None = None
    for r, held in enumerate([{}, {"j1": {"GPU2": 1.0}}, {"j1": {}, "j2": {"GPU1": 1.0}}]):
        state = policy.advanced(instance.replace(time=r * SECONDS, held=held), state)
    assert state is not None
    assert state.last == {"j1": "GPU2", "j2": "GPU1"}
    entities = instance.entities("jobs")
    part = policy.formulation(instance, replace(state, time=0.0))["switching"]
    assert isinstance(part, fft.Switching)
    assert part.coefficients(entities).tolist() == [[-1, 0], [0, -1]], "300 s of transfer are one round"


def test_switching_alone_reads_what_is_held() -> None:
    """Slowest card among the servers with the type; a job that holds nothing has nothing to transfer."""
    servers = (
        hetopt.Server("a", {"T4": 1}, nic_bytes_per_s=2e9),
        hetopt.Server("b", {"T4": 1, "V100": 1}, nic_bytes_per_s=1e9),
        hetopt.Server("c", {"V100": 1}, nic_bytes_per_s=4e9),
        hetopt.Server("d", {"A10": 1}, nic_bytes_per_s=4e9),
    )
    cluster = hetopt.Cluster(tuple(map(hetopt.GPUType, ("T4", "V100", "A10"))), servers)
    speeds = {"T4": 1.0, "V100": 1.0, "A10": 1.0}
    jobs = tuple(hetopt.Job(name, speeds, 1, checkpoint_bytes=8e9) for name in ("runs", "waits"))
    instance = hetopt.Instance(cluster, jobs=jobs, held={"runs": {"T4": 1}})
    rows = fft.Switching(round_seconds=10, restart_seconds=2).coefficients(instance.entities("jobs"))
    assert rows.tolist() == [[0, -1, -(2 + 2) / 10], [0, 0, 0]]


def test_time_does_not_go_back() -> None:
    instance = hetopt.Instance.from_jobs([[1]], [1], [4], [1], time=600)
    with pytest.raises(InvalidInstance, match="time is 600 s, before the last call at 900 s"):
        fft.FFT()(instance, fft.FFTState(900))


def test_states_are_values() -> None:
    instance = hetopt.Instance.from_jobs(FAST_SLOW, [1, 1], [16, 16], [1, 1])
    _, state = fft.FFT()(instance)
    assert pickle.loads(pickle.dumps(state)) == copy.deepcopy(state) == state
    with pytest.raises(TypeError, match="read-only"):
        state.rho["j1"] = 1.0  # type: ignore[index]
    assert fft.FFT()(instance)[1] == state, "the policy itself remembers nothing"


@settings(max_examples=20)
@given(job_instances(jobs=(1, 5), zeros=True))
def test_all_jobs_end_and_starvation_raises_what_is_owed(instance: hetopt.Instance) -> None:
    """Simulated to the end; a job that does not run is owed no less than before."""
    log = hetopt.simulate(fft.FFT(), instance)
    assert log.jobs["finish"].notna().all()
    policy, state = fft.FFT(), None
    for r in range(6):
        before = state
        plan, state = policy(instance.replace(time=r * SECONDS), state)
        if before is not None:
            waited = [name for name in state.rho if name not in before.planned]
            assert all(state.rho[name] >= before.rho[name] for name in waited)
        assert state.planned == {name: kind for name, kind in plan.assigned.items() if kind is not None}


# ties


@st.composite
def plans(draw: st.DrawFn) -> tuple[hetopt.Entities, np.ndarray, np.ndarray, dict[str, str]]:
    """Jobs with small integer costs (many ties), a plan within capacity, and last types."""
    n, k = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    demand = draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    cells = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, np.inf]), min_size=n * k, max_size=n * k))
    cost = np.hstack([np.array(cells).reshape(n, k), np.zeros((n, 1))])
    choice = np.full(n, -1)
    room = draw(st.lists(st.integers(0, 2), min_size=k, max_size=k))
    for e in range(n):
        at = draw(st.integers(-1, k - 1))
        choice[e] = at if at >= 0 and np.isfinite(cost[e, at]) else -1
    capacity = [sum(d for d, at in zip(demand, choice, strict=True) if at == i) + room[i] for i in range(k)]
    types = [f"GPU{i + 1}" for i in range(k)]
    entities = hetopt.Instance.from_jobs(np.ones((n, k)), [1] * n, [1] * n, [c + 1 for c in capacity]).entities()
    entities = replace(entities, demand=np.array(demand, dtype=float), capacity=np.array(capacity, dtype=float))
    last = draw(st.lists(st.sampled_from([None, *types]), min_size=n, max_size=n))
    return entities, cost, choice, {f"j{e + 1}": t for e, t in enumerate(last) if t}


def value(cost: np.ndarray, choice: np.ndarray) -> float:
    return float(sum(cost[e, at] for e, at in enumerate(choice)))


def order(cost: np.ndarray, choice: np.ndarray, entities: hetopt.Entities, last: dict[str, str]) -> tuple[Any, ...]:
    """Greater is preferred: jobs that stay, then for each job in order running, at less cost, on an earlier type."""
    stays = sum(at >= 0 and last.get(f"j{e + 1}") == entities.types[at] for e, at in enumerate(choice))
    return (stays, *((at >= 0, -cost[e, at], -at) for e, at in enumerate(choice)))


def neighbours(choice: np.ndarray, entities: hetopt.Entities) -> Iterator[np.ndarray]:
    """All plans after one exchange of two jobs of equal demand, or after one running job has moved."""
    n, k = entities.shape
    for p, q in product(range(n), range(n)):
        if p < q and entities.demand[p] == entities.demand[q]:
            other = choice.copy()
            other[p], other[q] = choice[q], choice[p]
            yield other
    for p, at in product(range(n), range(k)):
        if choice[p] >= 0:
            other = choice.copy()
            other[p] = at
            if entities.demand[other == at].sum() <= entities.capacity[at]:
                yield other


@given(plans())
def test_settling_ties_never_changes_the_cost_and_ends_where_no_exchange_is_preferred(
    drawn: tuple[hetopt.Entities, np.ndarray, np.ndarray, dict[str, str]],
) -> None:
    entities, cost, choice, last = drawn
    found = settled(choice, cost[:, :-1], entities, types_of(last, entities))
    assert value(cost, found) == value(cost, choice)
    for i in range(len(entities.types)):
        assert entities.demand[found == i].sum() <= entities.capacity[i]
    assert entities.demand[found >= 0].sum() == entities.demand[choice >= 0].sum()
    assert order(cost, found, entities, last) >= order(cost, choice, entities, last)
    for other in neighbours(found, entities):
        if value(cost, other) == value(cost, found):
            assert order(cost, other, entities, last) <= order(cost, found, entities, last)


@given(plans(), st.data())
def test_a_plan_of_last_types_changes_only_for_an_earlier_job_that_ties(
    drawn: tuple[hetopt.Entities, np.ndarray, np.ndarray, dict[str, str]], data: st.DataObject
) -> None:
    """All that run are on their last type; costs differ by more and by less than rounding; against all pairs."""
    entities, cost, choice, last = drawn
    n, k = entities.shape
    ulps = data.draw(st.lists(st.integers(0, 12), min_size=n * k, max_size=n * k))
    sign = data.draw(st.sampled_from([-1.0, 1.0]))
    costs = sign * cost[:, :k] * (1 + np.array(ulps).reshape(n, k) * np.finfo(float).eps)
    costs[~np.isfinite(cost[:, :k])] = np.inf
    at = np.where(choice >= 0, choice, types_of(last, entities))
    found = settled(choice, costs, entities, at)

    def preferred(q: int, p: int) -> bool:
        alike = choice[q] < 0 <= choice[p] and at[q] == at[p] and entities.demand[q] == entities.demand[p]
        one, other = costs[p, at[p]], costs[q, at[q]]
        return bool(alike and np.isfinite(other) and abs(one - other) <= ROUNDING * (abs(one) + abs(other)))

    assert (found != choice).any() == any(preferred(q, p) for p in range(n) for q in range(p))


def test_a_plan_of_last_types_is_checked_in_little_memory() -> None:
    """Not by pairs: half of 20,000 jobs wait, and each was last on the type of 2,500 that run."""
    n, k = 20_000, 4
    at = np.arange(n) // 2 % k
    choice = np.where(np.arange(n) % 2 == 0, at, -1)
    entities = hetopt.Instance.from_jobs(np.ones((1, k)), [1], [1], [n] * k).entities()
    entities = replace(entities, demand=np.ones(n))
    cost = np.random.default_rng(0).normal(size=(n, k))
    tracemalloc.start()
    assert settled(choice, cost, entities, at) is choice
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * n


@given(st.integers(2, 8), st.integers(1, 3), st.data())
def test_alike_jobs_stay_where_they_were_and_else_go_in_order(n: int, k: int, data: st.DataObject) -> None:
    """Jobs that nothing distinguishes: as many stay as can, and the places left go to the others in order."""
    capacity = data.draw(st.lists(st.integers(1, 3), min_size=k, max_size=k))
    instance = hetopt.Instance.from_jobs([[k - i for i in range(k)]] * n, [1] * n, [16] * n, capacity)
    types = instance.cluster.type_names
    kinds = data.draw(st.lists(st.sampled_from([None, *types]), min_size=n, max_size=n))
    last = {f"j{e + 1}": t for e, t in enumerate(kinds) if t}
    _, state = fft.FFT()(instance)
    plan, _ = fft.FFT()(instance, replace(state, last=last, planned={}))
    served = plan.gpus.sum().to_dict()
    expected: dict[str, str | None] = {}
    left = {t: int(m) for t, m in served.items()}
    for name, t in last.items():
        if left[t]:
            expected[name], left[t] = t, left[t] - 1
    for e in range(n):
        name = f"j{e + 1}"
        if name not in expected:
            free = next((t for t in types if left[t]), None)
            expected[name] = free
            if free:
                left[free] -= 1
    assert sum(plan.assigned[name] == t for name, t in last.items()) == sum(
        expected[name] == t for name, t in last.items()
    )
    if not last:
        assert plan.assigned == expected


def test_jobs_stay_on_types_that_are_as_good() -> None:
    """Two types of equal speed and no checkpoints: no job moves, though a swap or a move would cost nothing."""
    instance = hetopt.Instance.from_jobs([[1, 1], [1, 1]], [1, 1], [4, 4], [2, 2])
    held = instance.replace(held=np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert fft.FFT()(instance)[0].assigned == {"j1": "GPU1", "j2": "GPU1"}
    assert fft.FFT()(held)[0].assigned == {"j1": "GPU2", "j2": "GPU1"}


def test_a_gpu_type_that_is_gone_is_forgotten() -> None:
    """A cluster may lose the last server of a type: where a job ran there, it has no last type any more."""
    both = hetopt.Instance.from_jobs([[8, 1]], demand=[1], work=[160], capacity=[1, 1])
    plan, state = fft.FFT(round_seconds=300.0)(both)
    assert plan.assigned == {"j1": "GPU1"}
    held = both.replace(time=300.0, held={"j1": {"GPU1": 1}})
    _, state = fft.FFT(round_seconds=300.0)(held, state)
    one = hetopt.Instance(
        hetopt.Cluster.of({"GPU2": 1}), jobs=(hetopt.Job("j1", {"GPU2": 0.01}, 160),), time=600.0, done={"j1": 10}
    )
    plan, state = fft.FFT(round_seconds=300.0)(one, state)
    assert plan.assigned == {"j1": "GPU2"}
    assert "j1" not in state.last


@given(job_instances(jobs=(2, 8), most_gpus=6, arrivals=True), st.sampled_from([0.2, 0.01]), st.integers(0, 9))
@settings(max_examples=examples(40, 400), deadline=None)
def test_the_stated_gap_of_a_searched_round_is_at_most_the_one_asked_for(
    instance: hetopt.Instance, gap: float, seed: int
) -> None:
    """Costs and gains cancel in the objective: the gap is relative to their sum without signs."""
    policy, draw = fft.FFT(options=hetopt.Options(gap=gap)), np.random.default_rng(seed)
    state = policy.advanced(instance, None)
    owed = replace(state, rho={job.name: draw.lognormal(1, 2) for job in instance.jobs})
    plan, _ = policy(instance, owed)
    assert plan.certificate is not None
    assert plan.certificate.gap <= gap * (1 + EQUAL)
    if plan.x.any():
        assert plan.certificate.size >= abs(plan.certificate.objective) * (1 - EQUAL)
