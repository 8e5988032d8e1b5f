"""What is valid is kept as it was given: as floats, in servers, never to be changed, through copies and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from hetopt import Cluster, Instance, Server, Tenant
from hetopt.checks import FrozenDict
from hetopt.proofs.strategies import whole_instances


def test_numbers_are_kept_as_floats_and_mappings_frozen() -> None:
    tenant = Tenant("a", {"T4": np.float32(1), "V100": Fraction(3, 2)}, np.int64(3))  # type: ignore[arg-type]
    assert [type(v) for v in (*tenant.job_types[0].speedup.values(), tenant.weight)] == [float] * 3
    with pytest.raises(TypeError, match="read-only"):
        tenant.job_types[0].speedup["T4"] = 2  # type: ignore[index]
    assert Server("s", {"T4": 0, "V100": 2}) == Server("s", {"V100": 2.0})  # type: ignore[dict-item]


def test_cluster_of_fills_servers() -> None:
    cluster = Cluster.of(
        {"T4": 5, "V100": 0, "A10": 2}, gpus_per_server=2, nic_bytes_per_s=1.0, memory_bytes={"T4": 16e9}
    )
    assert [(s.name, dict(s.gpus)) for s in cluster.servers] == [
        ("t4-0", {"T4": 2}),
        ("t4-1", {"T4": 2}),
        ("t4-2", {"T4": 1}),
        ("a10-0", {"A10": 2}),
    ]
    assert cluster.capacity == {"T4": 5, "V100": 0, "A10": 2}
    assert {s.nic_bytes_per_s for s in cluster.servers} == {1.0}
    assert [t.memory_bytes for t in cluster.gpu_types] == [16e9, None, None]
    assert [s.name for s in Cluster.of({"a": 1, "A": 1}).servers] == ["a-0", "A-0"]
    assert Cluster.of([3, 4]).capacity == {"GPU1": 3, "GPU2": 4}


def test_a_cluster_alone_is_an_instance() -> None:
    assert Instance(Cluster.of({"T4": 2, "V100": 2})).cluster.capacity == {"T4": 2, "V100": 2}


@given(whole_instances())
@settings(max_examples=40)
def test_instances_can_be_pickled_copied_hashed_and_compared(instance: Instance) -> None:
    if instance.tenants:
        instance.entities("tenants")  # caches do not travel
    for again in (pickle.loads(pickle.dumps(instance)), copy.deepcopy(instance), instance.replace()):
        assert again == instance
        assert hash(again) == hash(instance)
        assert not {"_tenants", "_jobs"} & set(again.__dict__)
    assert instance.replace(time=0.0 if instance.time else 1.0) != instance


def test_a_frozen_mapping_cannot_be_changed_in_any_way() -> None:
    frozen = FrozenDict({"a": 1})
    changes: list[Callable[[], object]] = [
        lambda: frozen.update(b=1),
        lambda: frozen.pop("a"),
        frozen.popitem,
        frozen.clear,
        lambda: frozen.setdefault("b", 2),
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.__ior__({"b": 2}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="read-only"):
            change()
    assert frozen == {"a": 1}
    assert hash(frozen) == hash(FrozenDict(a=1))
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert frozen | {"b": 2} == {"a": 1, "b": 2}
