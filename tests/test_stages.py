"""Stages of a pipeline: what they may be, and that what leaves one enters the next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance


def job(*stages: Stage) -> Job:
    return Job("j", {"V100": 1.0}, work=1, demand=sum(s.gpus for s in stages), stages=stages)


@given(st.integers(1, 8), st.integers(1, 8), st.just(0.0) | st.floats(1e-3, 1e12))
def test_what_leaves_a_stage_enters_the_next(before: int, after: int, output: float) -> None:
    first = Stage(before, 1, 1, output_bytes=output)
    assert job(first, Stage(after, 1, 1, input_bytes=before * output / after)).demand == before + after
    if output >= 1:
        with pytest.raises(InvalidInstance, match=r"stages\[1\].input_bytes is .* it must be"):
            job(first, Stage(after, 1, 1, input_bytes=2 * before * output / after))


def test_nothing_enters_the_first_stage() -> None:
    with pytest.raises(InvalidInstance, match=r"stages\[0\].input_bytes is 5, .* it must be 0"):
        job(Stage(1, 1, 1, input_bytes=5), Stage(1, 1, 1))


def test_gpus_of_a_stage_are_replicas_times_slices() -> None:
    assert job(Stage(3, 1, 1), Stage(2, 1, 1, slices=4)).demand == 11
    with pytest.raises(InvalidInstance, match="stages have 8 GPUs; they must sum to demand = 2"):
        Job("j", {"V100": 1.0}, work=1, demand=2, stages=(Stage(2, 1, 1, slices=4),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicas": 0}, "stages[].replicas is 0; it must be a whole number >= 1"),
        ({"slices": 0}, "stages[].slices is 0; it must be a whole number >= 1"),
        ({"slices": 1.5}, "stages[].slices is 1.5; it must be a whole number >= 1"),
        ({"forward_s": -1}, "stages[].forward_s is -1"),
        ({"token_bytes": float("nan")}, "stages[].token_bytes is nan"),
        ({"input_bytes": -1}, "stages[].input_bytes is -1"),
        ({"slice_bytes": "1"}, "stages[].slice_bytes is '1'"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInstance) as problem:
        Stage(**{"replicas": 1, "forward_s": 1, "backward_s": 1, **changes})
    assert message in str(problem.value)
