"""FFT's round in one search against the general solve path, and its packing against all packings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings

import hetopt
from hetopt import Instance, Options
from hetopt.models.fft import FFT
from hetopt.models.fft.fft_components import AgeCost, OneType
from hetopt.models.fft.fft_method import RoundSolver, most_packed, packed, small_plan
from hetopt.models.objectives import SwitchingCost
from hetopt.programs.compiled import Compiled
from hetopt.proofs.strategies import job_instances
from hetopt.solving.optimising import method_for


@given(job_instances(zeros=True, jobs=(1, 7)))
@settings(max_examples=examples(30, 150))
def test_both_solve_paths_use_as_many_gpus_at_the_same_cost(instance: Instance) -> None:
    """The certificates are measured on the shares, so equal objectives are equal costs."""
    state = None
    for number in range(2):
        now = instance.replace(time=300.0 * number)
        plan, after = FFT()(now, state)
        general, _ = FFT(options=Options(method="simplex"))(now, state)
        assert plan.x.sum() == general.x.sum()
        assert plan.certificate.objective == pytest.approx(general.certificate.objective)
        state = after


@given(job_instances(zeros=True, jobs=(1, 4)))
@settings(max_examples=100)
def test_packing_is_feasible_and_the_bound_is_one(instance: Instance) -> None:
    entities = instance.entities("jobs")
    x = packed(entities)
    assert set(np.unique(x)) <= {0.0, 1.0}
    assert (x.sum(axis=1) <= 1).all()
    assert (entities.gpus(x).sum(axis=0) <= entities.capacity).all()
    assert not (x[~entities.allowed]).any()
    n, k = entities.shape
    best = 0.0
    for choice in product(range(k + 1), repeat=n):
        used = np.zeros(k + 1)
        for e, i in enumerate(choice):
            used[i] += entities.demand[e] if i == k or entities.allowed[e, i] else np.inf
        if (used[:k] <= entities.capacity).all():
            best = max(best, float(used[:k].sum()))
    assert entities.gpus(x).sum() <= best <= RoundSolver(entities, np.zeros(entities.shape), Options()).most
    assert most_packed(entities, 10**6) == best


def test_where_packing_leaves_it_open_the_program_decides() -> None:
    """Gangs of 3, 2 and 2 on four GPUs: the largest first leaves one idle; two gangs of 2 use all."""
    instance = Instance.from_jobs([[1.0]] * 3, [3, 2, 2], 9.0, [4])
    entities = instance.entities("jobs")
    assert entities.gpus(packed(entities)).sum() == 3
    assert RoundSolver(entities, np.zeros(entities.shape), Options()).most == most_packed(entities, 10**6) == 4
    assert FFT()(instance)[0].assigned == {"j1": None, "j2": "GPU1", "j3": "GPU1"}


def test_more_parts_take_the_general_solve_path() -> None:
    instance, policy = Instance.from_jobs([[1.0]], 1, 9.0, [1]), FFT() + SwitchingCost(0.5)
    for chosen, method in ((policy, False), (FFT(), True)):
        compiled = Compiled(chosen.formulation(instance), instance.entities("jobs"))
        assert (method_for(compiled, Options()) is not None) == method
    assert hetopt.solve(policy, instance).assigned == {"j1": "GPU1"}


@pytest.mark.parametrize("base", [AgeCost, OneType])
def test_a_part_that_has_more_rows_is_not_taken_for_its_base(base: type[Any]) -> None:
    """The method of the round knows costs alone; rows of a subclass count, in ties as well."""

    class Banned(base):  # type: ignore[misc]
        def rows(self, entities: hetopt.Entities) -> hetopt.Arrays:
            row = hetopt.Rows("row", None, [hetopt.on_shares(np.ones((1, 2)), np.array([0]))], upper=0.0)
            return hetopt.Arrays(gain=super().rows(entities).gain, rows=[row])

    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    banned = FFT() + Banned(name="banned")
    assert hetopt.solve(banned.formulation(jobs), jobs).share.to_numpy()[0].tolist() == [0, 0]
    plan, _ = banned(jobs)
    assert plan.x[0].tolist() == [0, 0]


def test_many_types_are_left_to_the_program() -> None:
    """Most of 70 types have no GPUs now, as more than an array has dimensions."""
    k = 70
    speeds = np.ones((2, k))
    instance = Instance.from_jobs(speeds, [2, 3], 9.0, [3] * k)
    entities = replace(instance.entities("jobs"), capacity=np.array([3.0] + [0.0] * (k - 1)))
    assert most_packed(entities, 10**6) == 3
    assert small_plan(entities, speeds, Options()) is None
