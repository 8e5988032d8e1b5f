"""Entities: the arrays of an instance by tenant and job type, or by job."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hetopt import Cluster, Instance, InvalidInstance, JobType, Tenant
from hetopt.data.rates import equal_share_rate

PAIR = {"T4": 1.0, "V100": 2.0}


def test_entities_of_tenants() -> None:
    """Names, weights split over job types, zero speed where memory is too small; held by row."""
    cluster = Cluster.of({"T4": 3, "V100": 2}, memory_bytes={"T4": 16e9, "V100": 32e9})
    many = Tenant("b", (JobType("x", PAIR, 20e9), JobType("y", {"V100": 3.0, "T4": 1.0})), 2.0)
    instance = Instance(cluster, (Tenant("a", PAIR), many), held={"b/y": {"V100": 2}})  # type: ignore[arg-type]
    e = instance.entities()
    assert (e.kind, e.names, e.types) == ("tenants", ("a", "b/x", "b/y"), ("T4", "V100"))
    assert e.speed.tolist() == [[1, 2], [0, 2], [1, 3]]
    assert e.allowed.tolist() == [[True, True], [False, True], [True, True]]
    assert (e.weight.tolist(), e.owner.tolist(), e.demand.tolist()) == ([1, 1, 1], [0, 1, 1], [1, 1, 1])
    assert e.capacity.tolist() == [3, 2]
    assert e.held is not None
    assert e.held.tolist() == [[0, 0], [0, 0], [0, 2]]
    assert equal_share_rate(e).tolist() == pytest.approx([7 / 3, 4 / 3, 9 / 3])
    assert instance.entities() is e
    with pytest.raises(ValueError, match="read-only"):
        e.speed[0, 0] = 5


def test_entities_of_jobs() -> None:
    instance = Instance.from_jobs(
        [[600, 300], [300, 0]],
        [2, 1],
        [10, 20],
        {"T4": 3, "V100": 2},
        arrival=[0, 60],
        held=[[2, 0], [0, 0]],
        done={"j1": 4},
    )
    e = instance.entities()
    assert (e.kind, e.names) == ("jobs", ("j1", "j2"))
    assert e.speed.tolist() == [[2, 1], [1, 0]]
    assert e.per_gpu.tolist() == [[1, 0.5], [1, 0]]
    assert e.gpus(np.eye(2)).tolist() == [[2, 0], [0, 1]]
    assert e.rate(np.full((2, 2), 0.5)).tolist() == [1.5, 0.5]
    assert e.held is not None
    assert e.held.tolist() == [[2, 0], [0, 0]]
    assert instance.job_array("work_left").tolist() == [6, 20]
    assert instance.job_array("arrival").tolist() == [0, 60]
    assert instance.replace(done={"j1": 99}).work_left("j1") == 0


def test_held_may_be_an_array_in_the_order_of_entities() -> None:
    instance = Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    held = instance.replace(held=[[0, 1], [1, 0]])
    assert held.held == {"u1": {"GPU1": 0, "GPU2": 1}, "u2": {"GPU1": 1, "GPU2": 0}}
    assert held.entities().held.tolist() == [[0, 1], [1, 0]]  # type: ignore[union-attr]
    assert instance.entities().held is None
    with pytest.raises(InvalidInstance, match=r"held has shape \(2,\)"):
        instance.replace(held=[0, 1])
    frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]])
    assert instance.replace(held=frame) == held
