"""Utilities never increase with the completion time, and one that does is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import InvalidInstance, InvalidOption, Job, UnknownName
from hetopt.models import hadar
from hetopt.models.hadar.utilities import as_utility, checked_utility, utility_of
from hetopt.tolerances import PROVEN

JOB = Job("j", {"A": 2.0, "B": 4.0}, 12, arrival=100, weight=3, deadline=700)
TIMES = st.lists(st.floats(1, 1e7), min_size=1, max_size=12).map(sorted).map(np.array)


@given(st.sampled_from(sorted(hadar.UTILITIES)), TIMES)
def test_every_named_utility_never_increases(name: str, seconds: np.ndarray) -> None:
    value = checked_utility(hadar.UTILITIES[name], JOB, seconds)
    assert value.shape == seconds.shape
    assert (value >= 0).all()
    assert (np.diff(value) <= 0).all()


def test_what_they_say_by_hand() -> None:
    seconds = np.array([3.0, 600.0, 601.0])
    printed = {
        "effective-throughput": 12 / seconds,
        "relative-throughput": 3 / seconds,  # 12 units at 4 a second take 3 s
        "negative-jct": 604_800 - seconds,
        "deadline": [1, 1, 0],  # 700 - 100 s
        "finished": [1, 1, 1],
        "weight": [3, 3, 3],
        "weighted-throughput": 9 / seconds,
        "weighted-jct": 3 * (604_800 - seconds),
        "weighted-deadline": [3, 3, 0],
    }
    assert printed.keys() == hadar.UTILITIES.keys()
    for name, value in printed.items():
        assert hadar.UTILITIES[name](JOB, seconds) == pytest.approx(value, rel=PROVEN), name
    assert hadar.Deadline(late=0.5)(JOB, seconds).tolist() == [1, 1, 0.5]
    assert hadar.NegativeJCT(10.0)(JOB, seconds).tolist() == [7, 0, 0]


def test_a_job_says_which_is_its_own() -> None:
    named = Job("k", {"A": 1.0}, 1, utility="deadline", deadline=3)
    assert utility_of(named, hadar.Finished()) == hadar.Deadline()
    assert utility_of(JOB, hadar.Finished()) == hadar.Finished()
    with pytest.raises(UnknownName, match=r"jobs\['k'\]\.utility is 'dead'; did you mean 'deadline'"):
        utility_of(Job("k", {"A": 1.0}, 1, utility="dead"), hadar.Finished())
    assert as_utility("weight", "utility") is hadar.UTILITIES["weight"]
    with pytest.raises(UnknownName, match="there is no utility 'weigth'"):
        as_utility("weigth", "utility")
    for wrong in (hadar.Deadline, 5, None):
        with pytest.raises(InvalidOption, match=r"Hadar\.utility is"):
            as_utility(wrong, "Hadar.utility")


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        (lambda _, s: s, r"of job 'j1' increases from 1 on completion after 1 s to 2 after 2 s; it must not"),
        (lambda _, s: -s, r"of job 'j1' is -1 on completion after 1 s; it must be finite and >= 0"),
        (lambda _, s: s * np.nan, r"of job 'j1' is nan"),
        (lambda _, s: 1 / (s - 1), r"of job 'j1' is inf"),
        (lambda *_: np.ones(7), r"has shape \(7,\) for times \(3,\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_bad_utility_is_refused(utility: hadar.utilities.Utility, message: str) -> None:
    instance = hetopt.Instance.from_jobs([[1.0]], 1, [1], [1], round_seconds=1)
    with pytest.raises(InvalidOption, match=message):
        hadar.OfflineProblem.of(instance, 3, 1.0, utility)


def test_bad_settings_are_refused() -> None:
    with refused(InvalidOption, "NegativeJCT.most_seconds"):
        hadar.NegativeJCT(0)
    for late in (2, -1):
        with pytest.raises(InvalidOption, match=r"Deadline\.late is"):
            hadar.Deadline(late)
    with refused(InvalidInstance, "jobs['k']", "deadline"):
        hadar.Deadline()(Job("k", {"A": 1.0}, 1), np.array([1.0]))


def test_a_slow_rise_is_seen() -> None:
    """Each step is too small to count, all of them together are not."""
    instance = hetopt.Instance.from_jobs([[1.0]], 1, [1], [1], round_seconds=1)
    with pytest.raises(InvalidOption, match="increases from"):
        hadar.OfflineProblem.of(instance, 400, 360.0, lambda _, s: 1e6 + s / 1000)


@pytest.mark.parametrize("utility", [lambda _, s: 1.0 if s < 3 else 0.0, lambda _, s: math.exp(-s)])
def test_utilities_take_arrays(utility: hadar.utilities.Utility) -> None:
    instance = hetopt.Instance.from_jobs([[1.0]], 1, [1], [1], round_seconds=1)
    with pytest.raises(
        InvalidOption, match=r"of job 'j1' cannot be computed for an array of times: .*; it must take an array"
    ):
        hadar.OfflineProblem.of(instance, 3, 1.0, utility)
