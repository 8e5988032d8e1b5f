"""The Job Forker and the Job Tracker: numbers of copies, steps handed out and added up, parameters merged."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from refused import refused

from hetopt import InvalidOption, UnknownName, instances
from hetopt.models.hadare import JobIds, JobTracker, fork, split_steps

# numbers of copies


@given(st.integers(1, 12), st.integers(1, 8))
def test_numbers_differ_and_identify_the_parent(max_jobs: int, copies: int) -> None:
    """job_ID = max_job_count i + parent: all unlike, and none is a parent's own number."""
    ids = JobIds(max_jobs)
    numbers = [ids.copies(parent, copies) for parent in range(max_jobs)]
    flat = [number for own in numbers for number in own]
    assert len(set(flat)) == len(flat) == max_jobs * copies
    assert min(flat) >= max_jobs
    assert [[ids.parent(number) for number in own] for own in numbers] == [[p] * copies for p in range(max_jobs)]
    assert numbers[-1][0] == max_jobs + max_jobs - 1


@given(st.integers(1, 9), st.integers(-5, 40), st.integers(1, 4))
def test_out_of_range_numbers_would_collide(max_jobs: int, parent: int, i: int) -> None:
    """Unique if and only if 0 <= parent < max_job_count: any other has the number of some job's copy, or of none."""
    ids = JobIds(max_jobs)
    if 0 <= parent < max_jobs:
        assert ids.copy(parent, i) == max_jobs * i + parent
        return
    with pytest.raises(InvalidOption, match="parent job_id is"):
        ids.copy(parent, i)
    if parent >= max_jobs:
        other = parent % max_jobs
        assert max_jobs * i + parent == ids.copy(other, i + parent // max_jobs)


@pytest.mark.parametrize(
    ("call", "key", "match"),
    [
        (lambda: JobIds(0), "max_jobs", "0"),
        (lambda: JobIds(2.5), "max_jobs", r"2\.5"),  # type: ignore[arg-type]
        (lambda: JobIds(3).copy(3, 1), None, "job_id.*3"),
        (lambda: JobIds(3).copy(1, 0), "i", None),
        (lambda: JobIds(3).copies(1, 0), "copies", None),
        (lambda: JobIds(3).parent(2), "job_id", None),
    ],
)
def test_bad_numbers_are_refused(call: Callable[[], object], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        call()


def test_forked_instances() -> None:
    mix = instances.load("hadar/m3").replace(done={"LT": 0.25})
    forked = fork(mix)
    assert [job.name for job in forked.jobs] == [
        *(f"LT#{3 * i}" for i in range(1, 6)), *(f"MM1#{3 * i + 1}" for i in range(1, 6)),
        *(f"MM2#{3 * i + 2}" for i in range(1, 6)),
    ]  # fmt: skip
    assert {forked.work_left(f"LT#{3 * i}") for i in range(1, 6)} == {0.75}
    assert [job.name for job in fork(mix, 1, max_jobs=10).jobs] == ["LT#10", "MM1#11", "MM2#12"]
    with pytest.raises(InvalidOption, match="parent job_id is 2"):
        fork(mix, max_jobs=2)


# steps


@given(st.integers(0, 10_000), st.lists(st.floats(0.01, 1000), min_size=1, max_size=8))
def test_steps_are_split_in_proportion(steps: int, throughput: list[float]) -> None:
    parts = split_steps(steps, dict(enumerate(throughput)))
    assert sum(parts.values()) == steps
    whole = sum(map(Fraction, throughput))
    for i, value in enumerate(throughput):
        assert abs(parts[i] - steps * Fraction(value) / whole) < 1 + Fraction(1, 10**6)


def tracker() -> JobTracker:
    made = JobTracker(10)
    made.register("LM", parent=3, steps=100, copies=3)
    made.register("IC", parent=0, steps=7, copies=2)
    return made


def test_a_job_from_beginning_to_end() -> None:
    jobs = tracker()
    assert jobs.jobs["LM"].copies == (13, 23, 33)
    assert jobs.dispatch("LM", {13: 3.0, 33: 1.0}) == {13: 75, 33: 25}
    assert jobs.dispatch("IC", {10: 1.0, 20: 1.0}) == {10: 4, 20: 3}
    for copy, steps in ((13, 75), (33, 5), (10, 4), (20, 3)):
        jobs.report(copy, steps)
    merged = jobs.merge("LM", {13: {"w": np.array([1.0])}, 33: {"w": np.array([17.0])}})
    assert merged["w"].tolist() == [75 / 80 + 17 * 5 / 80]
    assert jobs.close_round() == ["IC"]
    assert (jobs.left("LM"), jobs.left("IC")) == (20, 0)
    with pytest.raises(InvalidOption, match=r"job_ID is 10, which is no copy of an unfinished job; those are \[13"):
        jobs.report(10, 1)
    assert jobs.register("RS", parent=0, steps=5, copies=1) == (10,)  # the number is free again
    assert jobs.dispatch("LM", {23: 9.0}) == {23: 20}
    jobs.report(23, 20)
    assert jobs.close_round() == ["LM"]
    assert jobs.jobs["LM"].copies == ()
    assert jobs.register("LM", parent=3, steps=2, copies=1) == (13,)  # so is the name
    assert jobs.left("LM") == 2


@pytest.mark.parametrize(
    ("call", "error", "key", "match"),
    [
        (lambda t: t.register("LM", 4, 5, 1), InvalidOption, None, "'LM'.*already"),
        (lambda t: t.register("RS", 3, 5, 1), InvalidOption, None, "3.*'LM'"),
        (lambda t: t.register("RS", 10, 5, 1), InvalidOption, None, "job_id.*10"),
        (lambda t: t.register("RS", -1, 5, 1), InvalidOption, "parent job_id", None),
        (lambda t: t.register("RS", 4, 0, 1), InvalidOption, "steps of job 'RS'", "0"),
        (lambda t: t.register("RS", 4, 5, 0), InvalidOption, "copies", None),
        (lambda t: t.left("RS"), UnknownName, None, "job.*'RS'"),
        (lambda t: t.dispatch("LM", {10: 1.0}), InvalidOption, "job_ID", "10"),
        (lambda t: t.dispatch("LM", {}), InvalidOption, None, "'LM'.*given"),
        (lambda t: t.dispatch("LM", {13: 0.0}), InvalidOption, "throughput of copy 13", None),
        (lambda t: t.report(99, 1), InvalidOption, "job_ID", "99"),
        (lambda t: t.report(13, 1), InvalidOption, None, "13.*steps"),
        (lambda t: (t.dispatch("LM", {13: 1.0}), t.report(13, -1)), InvalidOption, "steps of copy 13", "-1"),
        (lambda t: (t.report(13, 0), t.report(13, 0)), InvalidOption, None, "13.*already"),
        (lambda t: t.register("RS", 4, 1.5, 1), InvalidOption, "steps of job 'RS'", r"1\.5"),
        (lambda t: t.report(13, 1.5), InvalidOption, "steps of copy 13", r"1\.5"),
        (
            lambda t: (t.dispatch("LM", {13: 1.0}), t.report(13, 0), t.dispatch("LM", {23: 1.0})),
            InvalidOption,
            None,
            r"\[13\].*round",
        ),
        (lambda _: split_steps(3, {1: 0.0}), InvalidOption, "throughput of copy 1", None),
        (lambda _: split_steps(5.5, {1: 1.0}), InvalidOption, "steps", None),
        (lambda t: t.merge("LM", {13: {"w": 1.0}}), InvalidOption, None, "13.*steps"),
        (lambda t: (t.report(13, 0), t.merge("LM", {13: {"w": 1.0}})), InvalidOption, None, "weight.*least"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(
    call: Callable[[JobTracker], Any], error: type[Exception], key: str | None, match: str | None
) -> None:
    jobs = tracker()
    with refused(error, key, match):
        call(jobs)
    assert (jobs.left("LM"), jobs.left("IC")) == (100, 7)
    assert set(jobs.jobs) == {"LM", "IC"}
    assert jobs.close_round() == []
    assert (jobs.left("LM"), jobs.left("IC")) == (100, 7)


class Tracking(RuleBasedStateMachine):
    """Any order of calls: steps are neither lost nor invented, and numbers stay unlike."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker, self.truth, self.open = JobTracker(4), {}, {}
        self.number = 0

    @precondition(lambda self: len([n for n in self.truth.values() if n > 0]) < 4)
    @rule(steps=st.integers(1, 50), copies=st.integers(1, 4))
    def register(self, steps: int, copies: int) -> None:
        free = {0, 1, 2, 3} - {job.parent for job in self.tracker.jobs.values() if job.copies}
        if free:
            self.number += 1
            self.tracker.register(f"j{self.number}", min(free), steps, copies)
            self.truth[f"j{self.number}"] = steps

    @precondition(lambda self: any(job.copies for job in self.tracker.jobs.values()))
    @rule(data=st.data())
    def a_round(self, data: st.DataObject) -> None:
        finished = []
        for name, job in self.tracker.jobs.items():
            if not job.copies:
                continue
            chosen = data.draw(st.lists(st.sampled_from(job.copies), min_size=1, unique=True))
            handed = self.tracker.dispatch(name, {c: data.draw(st.floats(0.1, 9)) for c in chosen})
            assert sum(handed.values()) == self.truth[name]
            for copy, most in handed.items():
                done = data.draw(st.integers(0, most))
                self.tracker.report(copy, done)
                self.truth[name] -= done
            if self.truth[name] == 0:
                finished.append(name)
        assert self.tracker.close_round() == finished

    @invariant()
    def nothing_is_lost(self) -> None:
        assert {name: self.tracker.left(name) for name in self.truth} == self.truth
        alive = [copy for job in self.tracker.jobs.values() for copy in job.copies]
        assert len(set(alive)) == len(alive)


TestTracking = Tracking.TestCase
