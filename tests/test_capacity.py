"""Every check of the capacity measures overuse in parts of the GPUs of the type, whatever else the cluster has."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import auditing
from hetopt.data.capacity import type_parts, unused_parts
from hetopt.decisions.rounders import promised_ticks
from hetopt.decisions.system import check_capacity
from hetopt.errors import HetoptError
from hetopt.programs.compiled import capacity_violation
from hetopt.tolerances import EQUAL


def refuses(check: Any, *args: Any, **fields: Any) -> bool:
    try:
        check(*args, **fields)
    except HetoptError:
        return True
    return False


def test_parts_are_of_the_own_type_and_of_one_gpu_where_there_is_none() -> None:
    gpus, capacity = np.array([[50.0, 2, 0, 1], [0, 1, 0, -3]]), np.array([100.0, 2, 0, 0])
    assert type_parts(gpus, capacity).tolist() == [[0.5, 1, 0, 1], [0, 0.5, 0, -3]]
    assert unused_parts(gpus, capacity).tolist() == [0.5, -0.5, 1, 1]
    third = np.array([[Fraction(1, 3), Fraction(1)]], dtype=object)
    exact = unused_parts(third, np.array([Fraction(1), Fraction(0)], dtype=object))
    assert exact.tolist() == [Fraction(2, 3), Fraction(-1)]


@given(st.data())
def test_plan_check_audit_and_certificate_agree_on_every_table(data: st.DataObject) -> None:
    capacity = data.draw(st.lists(st.sampled_from([1, 3, 100, 10_000]), min_size=1, max_size=3))
    n, off = (
        data.draw(st.integers(1, 3)),
        st.sampled_from([0.0, EQUAL / 1000, EQUAL / 2, 2 * EQUAL, 50 * EQUAL, 0.01, 2.0]),
    )
    inst = hetopt.Instance.from_speedups(np.ones((n, len(capacity))), capacity)
    share = np.outer(np.full(n, 1 / n), capacity)
    row = data.draw(st.integers(0, n - 1))
    absolute = np.array([data.draw(off) for _ in capacity])
    share[row] += absolute * data.draw(st.sampled_from([1, -1]))
    if data.draw(st.booleans()):
        share[row] = -absolute
    entities = inst.entities()
    wrong = capacity_violation(entities, share) > EQUAL
    assert refuses(check_capacity, entities, share) == wrong
    assert (not auditing.within_capacity(inst, share)) == wrong
    if (share >= 0).all():
        assert refuses(promised_ticks, share, entities.capacity, entities.types) == wrong
        assert refuses(inst.replace, held=share) == wrong


def test_overuse_of_a_small_type_beside_a_large_one_is_refused() -> None:
    """Relative to the largest type it was within the tolerance of the plan check, and the audit refused it."""
    inst = hetopt.Instance.from_speedups([[1, 2]], [1000, 1])
    share = np.array([[1000, 1 + 50 * EQUAL]])
    assert not auditing.within_capacity(inst, share)
    with pytest.raises(hetopt.InvalidPlan, match=r"uses 1\.00005 GPUs of 'GPU2'; the capacity is 1"):
        check_capacity(inst.entities(), share)


def test_results_of_the_interior_point_method_are_used_as_they_are() -> None:
    """Without crossover a row is met relative to the whole program; what an audit accepts is held and rounded."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 3]], [10_000, 1])
    share = np.array([[5000, 0.5], [5000, 0.5 + EQUAL / 2]])
    assert auditing.within_capacity(inst, share)
    check_capacity(inst.entities(), share)
    assert promised_ticks(share, inst.entities().capacity, inst.entities().types).min() >= 0
    assert inst.replace(held=share).held["u2"]["GPU2"] == share[1, 1]
