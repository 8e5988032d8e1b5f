"""Phases of jobs: policies see a change of the batch size once it has happened, and the schedule is as without."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, Instance, Job, TrainingPhase
from hetopt.data.array_types import Floats
from hetopt.models.asrpt import ASRPT
from hetopt.models.queues import FIFO, SRTF
from hetopt.proofs.strategies import phased
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import OVERRUN, EstimateErrors
from hetopt.simulation.seen_phases import SeenPhases, as_seen
from hetopt.tolerances import EQUAL

FREE = hetopt.Overheads(transfer=False)


def job(phases: tuple[TrainingPhase, ...], name: str = "j", **fields: Any) -> Job:
    return Job(name, {"G": 1.0}, sum(phase.work for phase in phases), phases=phases, **fields)


GROWING = job((TrainingPhase(2, 16, 10.0), TrainingPhase(4, 64, 4.0), TrainingPhase(3, 32, 6.0)))
"""54 s: 20 at batch size 16, 16 at 64, 18 at 32."""


def test_a_job_is_seen_as_if_its_batch_size_stayed() -> None:
    first, second, third = (as_seen(GROWING, i) for i in range(3))
    assert first.phases == (TrainingPhase(9, 16, 10.0), TrainingPhase(0, 32, 6.0), TrainingPhase(0, 64, 4.0))
    assert second.phases == (TrainingPhase(2, 16, 10.0), TrainingPhase(7, 64, 4.0), TrainingPhase(0, 32, 6.0))
    assert third == GROWING
    assert (first.work, second.work) == (90.0, 48.0)
    plain = Job("j", {"G": 1.0}, 5.0)
    assert as_seen(plain, 0) is plain


@given(phased(), st.data())
def test_what_is_seen_keeps_epochs_and_batch_sizes(phases: tuple[TrainingPhase, ...], data: st.DataObject) -> None:
    begun = data.draw(st.integers(0, len(phases) - 1))
    seen = as_seen(job(phases), begun)
    assert seen.phases[:begun] == phases[:begun]
    assert sum(phase.epochs for phase in seen.phases) == sum(phase.epochs for phase in phases)
    assert {phase.batch_size for phase in seen.phases} == {phase.batch_size for phase in phases}
    later = [phase.batch_size for phase in seen.phases[begun + 1 :]]
    assert later == sorted(set(later))
    assert not any(phase.epochs for phase in seen.phases[begun + 1 :])


@dataclass(frozen=True)
class Watching:
    """First in, first out; records (time, work, work left, work done) of the first job at each decision."""

    seen: list[tuple[float, ...]]
    policy: Any = field(default_factory=lambda: FIFO(10.0))

    @property
    def traits(self) -> Any:
        return self.policy.traits

    def __call__(self, instance: Instance, state: Any = None) -> Any:
        first, columns = instance.jobs[0].name, ("work", "work_left")
        work, left = (float(instance.job_array(key)[0]) for key in columns)
        assert work == instance.jobs[0].work
        self.seen.append((instance.time, work, left, instance.done.get(first, 0.0)))
        return self.policy(instance, state)


def test_a_change_is_known_when_it_happens() -> None:
    """At 20 s the first phase ends, and so at 36 s the second; decisions are every 10 s."""
    seen: list[tuple[float, ...]] = []
    instance = Instance(Cluster.of({"G": 1}), jobs=(GROWING,))
    log = hetopt.simulate(Watching(seen), instance, overheads=FREE)
    assert seen == [
        (0.0, 90.0, 90.0, 0.0),
        (10.0, 90.0, 80.0, 10.0),
        (20.0, 48.0, 28.0, 20.0),
        (30.0, 48.0, 18.0, 30.0),
        (40.0, 54.0, 14.0, 40.0),
        (50.0, 54.0, 4.0, 50.0),
    ]
    assert log.jobs["finish"].tolist() == [54.0]


def test_the_shortest_job_is_another_once_a_job_is_faster() -> None:
    """Before 20 s the job of 48 s is shorter than 90 s; from there 28 s are left of the other."""
    other = Job("other", {"G": 1.0}, 48.0, arrival=20.0)
    late = replace(other, arrival=10.0)
    for second, first_done in ((other, "j"), (late, "other")):
        log = hetopt.simulate(SRTF(), Instance(Cluster.of({"G": 1}), jobs=(GROWING, second)), overheads=FREE)
        assert log.jobs["finish"].idxmin() == first_done


def test_errors_of_estimates_are_errors_of_the_work_per_epoch() -> None:
    seen: list[tuple[float, ...]] = []
    instance = Instance(Cluster.of({"G": 1}), jobs=(GROWING,))
    errors = EstimateErrors(work=0.4, seed=1)
    factor = errors.of(instance).jobs[0].work / 54.0
    assert abs(factor - 1) > EQUAL
    hetopt.simulate(Watching(seen), instance, environment=Environment(FREE, estimate_errors=errors))
    works = [90.0, 90.0, 48.0, 48.0, 54.0, 54.0]
    for (time, work, left, _), true in zip(seen, works, strict=True):
        assert work == pytest.approx(true * factor)
        assert left == pytest.approx(work - time if time < work else OVERRUN * work)


def test_an_online_policy_sees_the_first_phase() -> None:
    """A-SRPT predicts the length at arrival: 90 s, longer than the job of 60 s that came with it."""
    jobs = (GROWING, Job("other", {"G": 1.0}, 60.0))
    instance = Instance(Cluster.of({"G": 1}), jobs=jobs)
    log = hetopt.simulate(ASRPT(), instance, overheads=FREE)
    assert log.jobs["start"].idxmin() == "other"


@st.composite
def workloads(draw: st.DrawFn) -> Instance:
    jobs = tuple(
        job(draw(phased()), f"j{i}", demand=draw(st.integers(1, 2)), arrival=float(draw(st.integers(0, 90))))
        for i in range(draw(st.integers(1, 4)))
    )
    return Instance(Cluster.of({"G": draw(st.integers(2, 3))}), jobs=jobs)


@given(workloads())
@settings(max_examples=examples(20, 200))
def test_the_schedule_of_a_policy_that_reads_no_work_is_as_without_phases(instance: Instance) -> None:
    plain = instance.replace(jobs=tuple(replace(one, phases=()) for one in instance.jobs))
    logs = [hetopt.simulate(FIFO(10.0), given, overheads=FREE) for given in (instance, plain)]
    assert logs[0].jobs.equals(logs[1].jobs)


@given(st.lists(phased(), min_size=1, max_size=4), st.data())
def test_phases_are_found_by_the_work_done(rows: list[tuple[TrainingPhase, ...]], data: st.DataObject) -> None:
    """By a loop over epochs."""
    jobs = tuple(job(phases, f"j{i}") for i, phases in enumerate(rows))
    seen, who = SeenPhases(jobs, jobs), np.arange(len(jobs))
    for _ in range(3):
        parts = data.draw(st.lists(st.floats(0, 0.999), min_size=len(jobs), max_size=len(jobs)))
        done: Floats = np.array([part * one.work for part, one in zip(parts, jobs, strict=True)])
        before = seen.jobs.tolist()
        assert seen.advance(who, done) == (before != seen.jobs.tolist())
        for one, shown, worked in zip(jobs, seen.jobs, done.tolist(), strict=True):
            left, phase = worked + EQUAL / 2, 0
            while left >= one.phases[phase].work:
                left, phase = left - one.phases[phase].work, phase + 1
            now = shown.phases[phase]
            assert now.batch_size == one.phases[phase].batch_size
            assert now.epochs == sum(p.epochs for p in one.phases[phase:])
