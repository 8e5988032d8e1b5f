"""Tables with labels: they name tenants, jobs and GPU types, in any order, or are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest
from refused import refused

import hetopt
from hetopt import InvalidInstance

SPEEDUPS = pd.DataFrame([[1, 2], [1, 5]], index=["alice", "bob"], columns=["T4", "V100"])


def test_labels_of_a_table_are_tenants_and_types() -> None:
    inst = hetopt.Instance.from_speedups(
        SPEEDUPS, capacity={"V100": 1, "T4": 3}, weights=pd.Series({"bob": 2.0, "alice": 1.0})
    )
    entities = inst.entities()
    assert entities.names == ("alice", "bob")
    assert entities.frame(entities.speed)["V100"].to_dict() == {"alice": 2, "bob": 5}
    assert entities.weight.tolist() == [1, 2]
    assert inst.cluster.capacity == {"V100": 1, "T4": 3}
    assert hetopt.Instance.from_speedups(SPEEDUPS, pd.Series({"V100": 1, "T4": 3})) == inst.replace(
        tenants=tuple(dataclasses.replace(t, weight=1.0) for t in inst.tenants)
    )
    assert hetopt.Instance.from_speedups(SPEEDUPS, [3, 1]).cluster.capacity == {"T4": 3, "V100": 1}
    held = pd.DataFrame([[0, 1], [1, 0]], index=["bob", "alice"], columns=["T4", "V100"])
    assert inst.replace(held=held).held == {"bob": {"V100": 1, "T4": 0}, "alice": {"V100": 0, "T4": 1}}


def test_numbered_axes_go_by_position() -> None:
    """Filtered rows keep their numbers, which are not names."""
    table = pd.DataFrame([[1.0, 2.0], [9.0, 9.0], [1.0, 5.0]]).iloc[[0, 2]]
    inst = hetopt.Instance.from_speedups(table, [1, 1], weights=pd.Series([1.0, 2.0], index=[7, 3]))
    assert inst == hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1], weights=[1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hetopt.Instance.from_speedups(SPEEDUPS, {"T4": 1, "A10": 1}), "speedups"),
        (
            lambda: hetopt.Instance.from_speedups(SPEEDUPS, [1, 1], weights=pd.Series({"bob": 1.0})),
            "weights",
        ),
        (lambda: hetopt.Instance.from_speedups(SPEEDUPS, [1, 1], tenants=["bob", "eve"]), "speedups"),
        (lambda: hetopt.Instance.from_speedups([[1, 2]], [1, 1], weigths=[2]), "from_speedups"),
        (lambda: hetopt.Instance.from_jobs([[1]], [1], [1], [1], weights=[2]), "from_jobs"),
        (
            lambda: hetopt.Instance.from_jobs([[1]], [1], [1], [1], tenants="ab", memory_bytes=object()),
            "memory_bytes",
        ),
    ],
)
def test_labels_that_fit_nothing_are_refused(make: Any, message: str) -> None:
    with refused(InvalidInstance, message):
        make()


def test_jobs_take_every_field_as_a_column() -> None:
    """One value for all, a list, or a labelled series; the same jobs as made by hand."""
    speeds = pd.DataFrame([[3, 6], [3, 9]], index=["a", "b"], columns=["T4", "V100"])
    inst = hetopt.Instance.from_jobs(
        speeds,
        demand=1,
        work=pd.Series({"b": 40.0, "a": 20.0}),
        capacity=[2, 2],
        weight=[1.0, 2.0],
        memory_bytes=8e9,
        tenant=["x", "y"],
        round_seconds=3.0,
    )
    jobs = (
        hetopt.Job("a", {"T4": 1, "V100": 2}, 20, weight=1.0, memory_bytes=8e9, tenant="x"),
        hetopt.Job("b", {"T4": 1, "V100": 3}, 40, weight=2.0, memory_bytes=8e9, tenant="y"),
    )
    assert inst.jobs == jobs
