"""Envy ratios: against a plain loop, and within memory for many tenants."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

import hetopt
from hetopt.data import worth as envy
from hetopt.data.worth import envy_ratio, largest_envy
from hetopt.presentation.allocation_pictures import draw
from hetopt.proofs.strategies import tenant_instances
from hetopt.tolerances import EQUAL


@given(tenant_instances(weighted=True, zeros=True))
def test_envy_ratios_equal_a_plain_loop(instance: hetopt.Instance) -> None:
    entities = instance.entities()
    gpus = np.random.default_rng(0).integers(0, 3, entities.shape).astype(float)
    ratio = envy_ratio(entities, gpus)
    for e in range(len(entities.names)):
        own = float(entities.speed[e] @ gpus[e]) / float(entities.weight[e])
        for o in range(len(entities.names)):
            other = float(entities.speed[e] @ gpus[o]) / float(entities.weight[o])
            expected = other / own if own > 0 else (np.inf if other > 0 else 1.0)
            assert ratio[e, o] == pytest.approx(expected, rel=EQUAL)
    assert largest_envy(entities, gpus) == pytest.approx(max(0.0, ratio.max() - 1), rel=EQUAL, abs=EQUAL)


def test_blocks_and_chosen_rows_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    entities = hetopt.Instance.from_speedups(1 + rng.random((30, 3)), capacity=[3, 3, 3], any_scale=True).entities()
    gpus = rng.random((30, 3))
    whole = envy_ratio(entities, gpus)
    assert envy_ratio(entities, gpus, [3, 17]) == pytest.approx(whole[[3, 17]], rel=EQUAL)
    monkeypatch.setattr(envy, "BLOCK", 70)  # blocks of two rows
    assert largest_envy(entities, gpus) == pytest.approx(whole.max() - 1, rel=EQUAL)


def test_many_tenants_fit_in_memory() -> None:
    """All pairs of 8,000 tenants would take 512 MB; one block of pairs takes 16 MB."""
    n = 8_000
    speed = 1 + np.random.default_rng(0).random((n, 2))
    entities = hetopt.Instance.from_speedups(speed, capacity=[n, n], any_scale=True).entities()
    result = hetopt.Plan(entities, np.ones((n, 2)))
    tracemalloc.start()
    draw(result)
    largest_envy(entities, result.x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
