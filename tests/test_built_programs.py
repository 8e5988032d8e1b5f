"""The programs of Hadar and A-SRPT as they are built, handed to Pyomo's solvers: the optima that the library finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exact_mapping import cases
from test_hadar_offers import Round, find_offer, rounds

from hetopt import Instance
from hetopt.models import hadar
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.minimum_alpha import MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MinimumCut
from hetopt.models.hadar.job_schedules import schedules
from hetopt.models.hadar.round_market import offer_model
from hetopt.proofs.strategies import mixed_instances
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import AllReduce
from hetopt.tolerances import TRUSTED, scale

SOLVERS = [name for name in ("appsi_highs", "highs", "gurobi_direct") if pyo.SolverFactory(name).available(False)]
WITH_EACH = pytest.mark.parametrize("solver", SOLVERS)


def handed_over(model: Any, solver: str) -> float:
    """The objective at which a solver of Pyomo leaves the model."""
    pyo.SolverFactory(solver).solve(model)
    (objective,) = model.component_data_objects(pyo.Objective, active=True)
    return float(pyo.value(objective))


@WITH_EACH
@settings(max_examples=15)
@given(instance=mixed_instances(jobs=(1, 3), memory=True), slots=st.integers(1, 3))
def test_p1_and_p2(solver: str, instance: Instance, slots: int) -> None:
    problem = hadar.OfflineProblem.of(instance, slots, 1.0)
    every = [priced.schedule for j in range(len(instance.jobs)) for priced in schedules(problem, j)]
    wanted = pytest.approx(hadar.Enumerated()(problem).utility, rel=TRUSTED, abs=TRUSTED)
    if (problem.first < slots).any():
        assert handed_over(hadar.TimeIndexed().build(problem), solver) == wanted
    if every:
        assert handed_over(hadar.schedule_model(problem, every, whole=True), solver) == wanted


@WITH_EACH
@settings(max_examples=15)
@given(case=rounds())
def test_one_offer(solver: str, case: Round) -> None:
    market, (bid,) = case
    moved = replace(bid, now=())
    offer = find_offer(market, moved)
    if offer is not None:
        size = TRUSTED * scale(moved.levels[0].value, offer.payoff)
        assert handed_over(offer_model(market, moved), solver) == pytest.approx(offer.payoff, abs=size)


@WITH_EACH
@settings(max_examples=10)
@given(case=cases(), timing=st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25)]))
def test_minimum_alpha(solver: str, case: Any, timing: Asynchronous) -> None:
    mapper = MinimumAlpha(start=HeavyEdge(), timing=timing)
    model = mapper.build(*case)
    found = handed_over(model, solver) * pyo.value(model.unit)
    assert found == pytest.approx(mapper(*case).iteration_seconds, rel=TRUSTED, abs=TRUSTED * pyo.value(model.unit))


@WITH_EACH
@settings(max_examples=10)
@given(case=cases(), allreduce=st.sampled_from([AllReduce.RING, AllReduce.TREE]))
def test_minimum_cut(solver: str, case: Any, allreduce: AllReduce) -> None:
    mapper = MinimumCut(allreduce=allreduce)
    model = mapper.build(*case)
    found = handed_over(model, solver) * pyo.value(model.unit)
    assert found == pytest.approx(mapper(*case).cut_bytes, rel=TRUSTED, abs=TRUSTED * pyo.value(model.unit))
