"""Sia: its program against enumeration and the example of the paper, its restarts, and its growth."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GangSize, Instance, InvalidOption, Job
from hetopt.checking.certificates import check
from hetopt.formulations.policies import Policy
from hetopt.models import shockwave, sia
from hetopt.registry import make_system
from hetopt.tolerances import EQUAL


def job_of(name: str, rates: dict[int, dict[str, float]], demand: int, **more: float) -> Job:
    types = sorted({t for own in rates.values() for t in own})
    sizes = tuple(GangSize(n, own) for n, own in rates.items() if n != demand)
    return Job(name, {t: rates[demand].get(t, 0.0) for t in types}, 1000.0, demand, sizes=sizes, **more)


def test_the_example_of_the_paper() -> None:
    """[Sia, Table 1]: two GPUs of A, four of B; J1 gets four of B and J2 two of A."""
    rows = {"J1": (1, 1.5, 1.5, 2.5, 3.5), "J2": (1.2, 2.1, 1, 1.9, 3.6)}
    jobs = [
        job_of(name, {1: {"A": g[0], "B": g[2]}, 2: {"A": g[1], "B": g[3]}, 4: {"B": g[4]}}, 1)
        for name, g in rows.items()
    ]
    instance = Instance(Cluster.of({"A": 2, "B": 4}), jobs=jobs)
    formulation, gangs = sia.Sia(power=1.0).program(instance)
    chosen = hetopt.solve(formulation.without("gradual_scale_up"), gangs)
    assert {g for g, row in chosen.gpus.iterrows() if row.any()} == {"J1/4", "J2/2"}
    assert chosen.gpus.loc["J1/4", "B"] == 4
    assert chosen.gpus.loc["J2/2", "A"] == 2


@pytest.mark.parametrize("policy", [sia.Sia(), shockwave.Shockwave()])
def test_the_program_of_a_round_is_proven_and_exported(policy: Policy, tmp_path: Path) -> None:
    """Its data are another instance; the proof belongs to it, and the exported file has the same optimum."""
    jobs = (job_of("a", {1: {"A": 1.0, "B": 2.0}, 2: {"A": 1.5}}, 1), job_of("b", {1: {"A": 1.0, "B": 0.0}}, 1))
    instance = Instance(Cluster.of({"A": 2, "B": 1}), jobs=jobs)
    allocation = hetopt.solve(policy, instance, exact=True)
    allocation.certificate.write(tmp_path / "proof.vipr")
    assert check(tmp_path / "proof.vipr", policy, instance).proven
    hetopt.export(policy, tmp_path / "round.json", instance)
    program = hetopt.from_json(tmp_path / "round.json")
    assert hetopt.optimise(program).objective == pytest.approx(allocation.certificate.objective, abs=EQUAL)


def test_the_program_needs_the_instance_of_gangs() -> None:
    instance = Instance(Cluster.of({"A": 2}), jobs=(job_of("a", {1: {"A": 1.0}, 2: {"A": 1.5}}, 1),))
    formulation, _ = sia.Sia().program(instance)
    with pytest.raises(InvalidOption, match=r"OneGang\.job has gangs of 'a', .* that Sia\.program returns"):
        formulation.solve(instance)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Instance, sia.SiaState]:
    """A few elastic and rigid jobs on two types, some of which run and were restarted."""
    value = st.integers(2, 40).map(lambda n: n / 8)
    jobs, held, restarts, room = list[Job](), dict[str, dict[str, float]](), dict[str, int](), {"A": 2, "B": 4}
    for i in range(draw(st.integers(1, 3))):
        numbers = draw(st.sampled_from([(1,), (2,), (1, 2), (1, 2, 4), (2, 4)]))
        rates = {n: {t: draw(value) * n for t in draw(st.sampled_from(["AB", "A", "B"]))} for n in numbers}
        rates[numbers[0]] = {"A": draw(value), "B": draw(value)}
        name = f"j{i}"
        jobs.append(job_of(name, rates, numbers[0], arrival=draw(st.integers(0, 500)), weight=draw(value)))
        fits = [(t, n) for n, own in rates.items() for t in own if n <= room[t]]
        if fits and draw(st.booleans()):
            gpu_type, gpus = draw(st.sampled_from(fits))
            room[gpu_type] -= gpus
            held[name] = {gpu_type: gpus}
            restarts[name] = draw(st.integers(0, 20))
    types = {t for job in jobs for t in job.throughput}
    cluster = Cluster.of({"A": 2, "B": 4} if types == {"A", "B"} else dict.fromkeys(sorted(types), 4))
    last = {name: next((t, int(n)) for t, n in own.items()) for name, own in held.items()}
    return Instance(cluster, jobs=tuple(jobs), time=500.0, held=held), sia.SiaState(500.0, last, restarts)


def best_by_enumeration(instance: Instance, state: sia.SiaState, policy: sia.Sia) -> float:
    """The largest objective [Sia, eq. 1] over all choices, computed from the text of the paper."""
    options: list[list[tuple[float, str, int]]] = []
    for job in instance.jobs:
        rates = {(t, n): v for n, own in job.rates.items() for t, v in own.items() if v}
        rates = {key: v for key, v in rates.items() if key[1] <= instance.cluster.capacity[key[0]]}
        fewest = min(n for _, n in rates)
        held = instance.held.get(job.name, {})
        age, wasted = 500.0 - job.arrival, state.restarts.get(job.name, 0) * policy.restart_seconds
        own = [(-policy.penalty * job.weight, "", 0)]
        for (t, n), v in rates.items():
            if n > max(fewest, policy.growth * sum(held.values())):
                continue
            normal = v / min(rates.values()) * fewest
            if held and not (sum(held.values()) == n and held.get(t)):
                normal *= max(0.0, (age - wasted) / (age + policy.restart_seconds))
            powered = max(normal, 0.01) ** policy.power
            own.append((job.weight * (powered if policy.power > 0 else -powered), t, n))
        options.append(own)
    best = -np.inf
    for choice in product(*options):
        if all(sum(n for _, t, n in choice if t == k) <= m for k, m in instance.cluster.capacity.items()):
            best = max(best, sum(gain for gain, *_ in choice))
    return best


@settings(max_examples=60)
@given(rounds(), st.sampled_from([-1.0, -0.5, 0.5, 1.0]))
def test_the_program_has_the_optimum_of_all_choices(case: tuple[Instance, sia.SiaState], power: float) -> None:
    instance, state = case
    policy = sia.Sia(power=power)
    plan, after = policy(instance, state)
    best = best_by_enumeration(instance, state, policy)
    assert plan.certificate is not None
    assert plan.certificate.objective == pytest.approx(best, rel=1e4 * EQUAL, abs=1e4 * EQUAL)
    for name, before in state.last.items():
        moved = after.last[name] != before
        assert after.restarts.get(name, 0) == state.restarts.get(name, 0) + moved


def test_a_job_stays_where_restarts_are_dear() -> None:
    """On B it would be 10 % faster; after a restart a fifth of the time would be lost."""
    instance = Instance(
        Cluster.of({"A": 1, "B": 1}), jobs=(Job("a", {"A": 1.0, "B": 1.1}, 1e6),), held={"a": {"A": 1}}, time=120.0
    )
    state = sia.SiaState(60.0, {"a": ("A", 1)})
    assert sia.Sia()(instance, state)[0].assigned == {"a": "A"}
    assert sia.Sia(restart_seconds=0.0)(instance, state)[0].assigned == {"a": "B"}


def test_only_configurations_are_chosen() -> None:
    """On servers of four GPUs: 1, 2 and 4 GPUs, and whole servers, but neither 3 nor 6 [Sia, section 3.2]."""
    rates = {n: {"A": float(n)} for n in (1, 2, 3, 4, 6, 8)}
    instance = Instance(Cluster.of({"A": 8}, gpus_per_server=4), jobs=(job_of("a", rates, 1),))
    _, gangs = sia.Sia().program(instance)
    assert [job.name for job in gangs.jobs] == ["a/1", "a/2", "a/4", "a/8"]
    of_six = Instance(Cluster.of({"A": 12}, gpus_per_server=6), jobs=instance.jobs)
    assert [job.name for job in sia.Sia().program(of_six)[1].jobs] == ["a/1", "a/2", "a/4", "a/6"]


def test_the_system_doubles_the_gpus_of_a_job_alone() -> None:
    rates = {n: {"A": n**0.9} for n in (1, 2, 4, 8)}
    instance = Instance(Cluster.of({"A": 8}, gpus_per_server=4), jobs=(job_of("a", rates, 1),))
    log = hetopt.simulate(make_system("sia"), instance)
    assert log.spans["gpus"].tolist() == [1, 2, 4, 8]
    assert log.spans["start"].tolist() == [0, 60, 120, 180]


def test_every_reason_for_idle_gpus_is_declared() -> None:
    assert sia.Sia().traits.idles == "a restart may cost a job more than waiting"
    assert sia.Sia(penalty=1.0, restart_seconds=0.0).traits.idles == "waiting costs no more than running"
    assert sia.Sia(restart_seconds=0.0).traits.idles == sia.Sia(power=1.0).traits.idles == ""
    assert (sia.Sia(penalty=0.5) + sia.GradualScaleUp()).traits.idles == (
        "rows of extra components must hold; waiting costs no more than running"
    )


def test_a_job_may_wait_rather_than_restart() -> None:
    """The other job takes its GPU; a move to the idle one would cost (90 / 60) ** 0.5 > 1.1 = lambda."""
    jobs = (Job("x", {"A": 1.0, "B": 1.0}, 1e3), Job("y", {"A": 1.0, "B": 0.0}, 1e3, weight=1.01))
    instance = Instance(Cluster.of({"A": 1, "B": 1}), jobs=jobs, held={"x": {"A": 1}}, time=60.0)
    state = sia.SiaState(0.0, {"x": ("A", 1)})
    assert sia.Sia()(instance, state)[0].assigned == {"x": None, "y": "A"}
    assert sia.Sia(penalty=1.3)(instance, state)[0].assigned == {"x": "B", "y": "A"}


def test_bad_settings_are_refused() -> None:
    for bad, problem in (
        ({"power": 0.0}, "power is 0; it must be above or below 0"),
        ({"power": 2.0}, "power is 2.0; it must be at most 1"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"growth": 0.5}, r"Sia\.growth is 0\.5"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            sia.Sia(**bad)
