"""Fair rates, measures of envy and of the sharing incentive: by hand, against a plain loop, equal wherever shown."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

import hetopt
from hetopt.auditing import Envy, envy_free, envy_matrix, sharing_incentive
from hetopt.data import rates
from hetopt.data.rates import (
    equal_share_rate,
    fair_part_rate,
    isolated_rate,
    largest_relative_envy,
    most_at_once,
    relative_envy,
    sharing_ratio,
)
from hetopt.experiments.comparison import measure
from hetopt.presentation.allocation_pictures import draw
from hetopt.proofs.strategies import tenant_instances
from hetopt.tolerances import EQUAL


def test_both_measures_by_hand() -> None:
    """u1 has half a GPU1 and a rate of 1/2; u2's GPUs would give it 1/2 + 2 = 5/2, and the whole cluster 3.

    In the unit of rates its envy is 2; relative to its own rate 2 / (1/2) = 4; relative to the cluster 2 / 3.
    u2 has 1/2 + 5 = 11/2; u1's GPUs would give it 1/2, and the whole cluster 6: -10/11 and -5/6.
    """
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    share = np.array([[0.5, 0.0], [0.5, 1.0]])
    entities = instance.entities()
    assert relative_envy(entities, share) == pytest.approx(np.array([[0, 4], [-10 / 11, 0]]), rel=EQUAL)
    assert envy_matrix(instance, share).to_numpy() == pytest.approx(np.array([[0, 2 / 3], [-5 / 6, 0]]), rel=EQUAL)
    verdict = envy_free(instance, share)
    assert isinstance(verdict.witness, Envy)
    assert (verdict.slack, verdict.witness.excess) == pytest.approx((-2 / 3, 2), rel=EQUAL)
    assert measure(instance, hetopt.Plan(entities, share))["envy"] == pytest.approx(4, rel=EQUAL)


def test_both_measures_of_the_sharing_incentive_by_hand() -> None:
    """u1 has a rate of 1/2; half of every type would give it 3/2, and the whole cluster 3: 1/3, and -1/3."""
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    share = np.array([[0.5, 0.0], [0.5, 1.0]])
    assert measure(instance, hetopt.Plan(instance.entities(), share))["sharing"] == pytest.approx(1 / 3, rel=EQUAL)
    assert sharing_incentive(instance, share).slack == pytest.approx(-1 / 3, rel=EQUAL)
    assert sharing_ratio(np.array([1.0, 2.0]), np.array([4.0, 0.0])) == pytest.approx([1 / 4, np.nan], nan_ok=True)


def test_the_fair_rates_of_jobs_by_hand() -> None:
    """Two jobs of one worker on 2 GPUs of each of two types.

    Half of the cluster is one GPU of each type, for twice the time that a worker has: the equal-share rate adds both
    types, the fair-part rate uses the faster one, and the isolated rate each for half of the time.
    """
    jobs = hetopt.Instance.from_jobs([[3, 9], [6, 9]], 1, 9, capacity=[2, 2], round_seconds=3.0).entities("jobs")
    fair = fair_part_rate(jobs.per_gpu, jobs.weight, jobs.capacity, most_at_once(jobs))
    assert equal_share_rate(jobs) == pytest.approx([4, 5], rel=EQUAL)
    assert fair == pytest.approx([3, 3], rel=EQUAL)
    assert isolated_rate(jobs) == pytest.approx([2, 2.5], rel=EQUAL)


@given(tenant_instances())
def test_the_fair_rates_of_tenants_are_the_same(instance: hetopt.Instance) -> None:
    entities = instance.entities("tenants")
    fair = fair_part_rate(entities.per_gpu, entities.weight, entities.capacity)
    assert equal_share_rate(entities) == pytest.approx(fair, rel=EQUAL)
    assert isolated_rate(entities) == pytest.approx(fair, rel=EQUAL)


def test_an_entity_without_gpus_envies_without_limit() -> None:
    """Relative to nothing any gain is infinite; as a part of the rate with the whole cluster it is 1."""
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    share = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert relative_envy(instance.entities(), share)[0].tolist() == [0, np.inf]
    assert envy_matrix(instance, share).loc["u1", "u2"] == 1


@given(tenant_instances(weighted=True, zeros=True))
def test_relative_envy_equals_a_plain_loop(instance: hetopt.Instance) -> None:
    entities = instance.entities()
    gpus = np.random.default_rng(0).integers(0, 3, entities.shape).astype(float)
    envy = relative_envy(entities, gpus)
    for e in range(len(entities.names)):
        own = float(entities.speed[e] @ gpus[e]) / float(entities.weight[e])
        for o in range(len(entities.names)):
            other = float(entities.speed[e] @ gpus[o]) / float(entities.weight[o])
            expected = other / own - 1 if own > 0 else (np.inf if other > 0 else 0.0)
            assert envy[e, o] == pytest.approx(expected, rel=EQUAL, abs=EQUAL)
    assert largest_relative_envy(entities, gpus) == pytest.approx(max(0.0, envy.max()), rel=EQUAL, abs=EQUAL)


def test_blocks_and_chosen_rows_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    instance = hetopt.Instance.from_speedups(1 + rng.random((30, 3)), capacity=[3, 3, 3], any_scale=True)
    entities, gpus = instance.entities(), rng.random((30, 3))
    envy, matrix, slack = relative_envy(entities, gpus), envy_matrix(instance, gpus), envy_free(instance, gpus).slack
    assert relative_envy(entities, gpus, [3, 17]) == pytest.approx(envy[[3, 17]], rel=EQUAL)
    monkeypatch.setattr(rates, "BLOCK", 70)  # blocks of two rows
    assert largest_relative_envy(entities, gpus) == pytest.approx(envy.max(), rel=EQUAL)
    assert envy_matrix(instance, gpus).equals(matrix)
    assert envy_free(instance, gpus).slack == slack


def test_many_tenants_fit_in_memory() -> None:
    """All pairs of 8,000 tenants would take 512 MB; one block of pairs takes 16 MB."""
    n = 8_000
    speed = 1 + np.random.default_rng(0).random((n, 2))
    entities = hetopt.Instance.from_speedups(speed, capacity=[n, n], any_scale=True).entities()
    result = hetopt.Plan(entities, np.ones((n, 2)))
    tracemalloc.start()
    draw(result)
    largest_relative_envy(entities, result.x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
