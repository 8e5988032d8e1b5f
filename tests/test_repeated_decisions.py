"""Decisions that repeat the last one: simulations with and without them have the same logs; states as mappings."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.decisions.system import Decision, DecisionSteps
from hetopt.models.fft.fft_state import ByJob, numbers_of, types_of
from hetopt.proofs.strategies import job_instances
from hetopt.registry import make_system
from hetopt.simulation.environment import Environment
from hetopt.simulation.server_changes import ServerChange
from hetopt.stages.speed_models import StageSpeeds

TABLES = ("jobs", "spans", "events", "rounds")


def assert_same(one: hetopt.Log, other: hetopt.Log) -> None:
    for key in TABLES:
        pd.testing.assert_frame_equal(getattr(one, key), getattr(other, key))


def without_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision runs through all steps."""
    whole = DecisionSteps.__call__

    def in_all_steps(self: DecisionSteps, instance: hetopt.Instance, state: Any = None, _: Any = None) -> Any:
        return whole(self, instance, state)

    monkeypatch.setattr(DecisionSteps, "__call__", in_all_steps)


@settings(max_examples=12, deadline=None)
@given(
    job_instances(jobs=(1, 6), zeros=True, arrivals=True),
    st.sampled_from(["fft", "srtf", "las", "gavel", "hadar", "themis", "tiresias"]),
    st.booleans(),
)
def test_repeated_decisions_change_nothing(instance: hetopt.Instance, name: str, fails: bool) -> None:
    server = instance.cluster.servers[0].name
    changes = (ServerChange(700.0, server), ServerChange(1900.0, server, up=True)) if fails else ()
    environment = Environment(overheads=hetopt.Overheads(restart_seconds=20.0), changes=changes)
    system = make_system(name)
    log = hetopt.simulate(system, instance, environment=environment, max_rounds=60)
    with pytest.MonkeyPatch.context() as patch:
        without_repetition(patch)
        assert_same(log, hetopt.simulate(system, instance, environment=environment, max_rounds=60))


@dataclass(frozen=True)
class Counting:
    """A placer that counts its calls."""

    calls: list[float]

    def __call__(self, plan: hetopt.Plan, instance: hetopt.Instance) -> hetopt.Placement:
        self.calls.append(instance.time)
        return hetopt.HierarchicalPlacer()(plan, instance)


def test_the_placer_is_called_until_it_moves_no_job() -> None:
    """At arrival and once more; then again when the second job comes."""
    jobs = tuple(hetopt.Job(f"j{i}", {"GPU": 1.0}, 6000.0, arrival=1500.0 * i) for i in range(2))
    instance = hetopt.Instance(hetopt.Cluster.of({"GPU": 2}), jobs=jobs)
    calls = list[float]()
    hetopt.simulate(make_system("fft"), instance, placer=Counting(calls))
    assert calls[:4] == [0.0, 300.0, 1500.0, 1800.0]
    assert len(calls) < len(range(0, 7500, 300)) / 2


def test_a_repeated_decision_has_the_same_arrays() -> None:
    jobs = hetopt.Instance.from_jobs([[1.0], [1.0]], [1, 1], [4e6, 4e6], [2])
    steps = make_system("fft").steps(StageSpeeds())
    first, state = steps(jobs)
    placed = {} if first.placement is None else first.placement.hosts
    last: Decision = first
    for r in range(1, 4):
        decision, state = steps(jobs.replace(time=300.0 * r, placed=placed), state, last)
        assert decision.gpus.tolist() == first.gpus.tolist()
        last = decision
    assert not last.moves


# states


def test_values_by_job_are_a_read_only_mapping() -> None:
    numbers = ByJob(("a", "b", "c"), np.array([1.0, np.nan, 3.0]))
    types = ByJob(("a", "b", "c"), np.array([1, -1, 0]), ("slow", "fast"))
    assert dict(numbers) == {"a": 1.0, "c": 3.0} == numbers
    assert types == {"a": "fast", "c": "slow"}
    assert types.get("b") is None
    assert len(numbers) == len(types) == 2
    for one in (numbers, types):
        assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
        assert hash(one) == hash(copy.deepcopy(one))
        assert repr(one) == repr(dict(one))
        with pytest.raises(TypeError, match="read-only"):
            one["a"] = one["c"]  # type: ignore[index]


def test_values_by_job_are_read_for_other_jobs() -> None:
    """By name, where the jobs or types are others or in another order."""
    jobs = hetopt.Instance.from_jobs([[1, 2], [2, 1]], 1, 1.0, {"slow": 1, "fast": 1}, jobs=["b", "a"]).entities("jobs")
    numbers = ByJob(("a", "b"), np.array([1.0, np.nan]))
    types = ByJob(("a", "b"), np.array([1, 0]), ("gone", "fast"))
    assert numbers_of(numbers, jobs, 7.0).tolist() == [7.0, 1.0]
    assert types_of(types, jobs).tolist() == [-1, 1]
    assert numbers_of(ByJob(jobs.names, np.array([np.nan, 2.0])), jobs, 7.0).tolist() == [7.0, 2.0]
