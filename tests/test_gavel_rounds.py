"""The simulator against Gavel's documented rules, where nothing is lost by moving."""

from __future__ import annotations

import pytest
from effort import examples
from gavel_rounds import Rules, simulate_by_hand
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Formulation, Instance
from hetopt.decisions.rounders import ByPriority
from hetopt.decisions.system import OnChange, System
from hetopt.models import gavel
from hetopt.proofs.strategies import job_instances

POLICIES = (gavel.max_min_fairness(), gavel.fifo(), gavel.total_throughput())
"""Those that do not look at the work left, whose last digits differ between two ways of booking it."""


def shares(policy: Formulation) -> object:
    def found(instance: Instance) -> dict[str, list[float]]:
        result = hetopt.solve(policy, instance)
        return dict(zip(result.entities.names, result.x.tolist(), strict=True))

    return found


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    return Rules(
        whole_steps=False,
        allocation_seconds=draw(st.sampled_from([0.0, 500.0, 1920.0])),
        reset_seconds=draw(st.sampled_from([0.0, 700.0, 1920.0])),
        fill=draw(st.booleans()),
        prior=draw(st.sampled_from([0.0, 0.5, 1.0])),
        per_type=draw(st.booleans()),
        types=draw(st.sampled_from([(), ("GPU2", "GPU1")])),
    )


def system_of(policy: Formulation, seconds: float, by: Rules) -> System:
    shares = OnChange(policy, least_seconds=by.allocation_seconds)
    return System(shares, seconds, ByPriority(by.fill, by.prior, by.per_type, by.types, by.reset_seconds))


@given(job_instances(arrivals=True, jobs=(1, 6)), st.sampled_from([64.0, 256.0, 300.0]), rules())
@settings(max_examples=examples(20, 60), deadline=None)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_finish_times_are_those_of_the_rules(
    policy: Formulation, instance: Instance, seconds: float, by: Rules
) -> None:
    free = hetopt.Overheads(transfer=False)
    limit = 3000
    try:
        log = hetopt.simulate(system_of(policy, seconds, by), instance, overheads=free, max_rounds=limit)
    except hetopt.Stalled:
        assume(by.fill is False)
        return
    expected = simulate_by_hand(instance, shares(policy), seconds, by, limit)  # type: ignore[arg-type]
    finished = log.jobs["finish"].dropna()
    assert finished.to_dict() == pytest.approx(expected)


def test_completion_times_by_hand() -> None:
    """j2 comes first and runs until 200, within the round that ends at 240; then j1. JCT counts from submission."""
    instance = Instance.from_jobs([[1.0], [1.0]], 1, [100.0, 200.0], [1], round_seconds=1.0, arrival=[50.0, 0.0])
    log = hetopt.simulate(System(OnChange(gavel.fifo()), 60.0, ByPriority()), instance)
    assert log.jobs["finish"].to_dict() == {"j2": 200.0, "j1": 340.0}
    assert log.jobs["jct"].to_dict() == {"j2": 200.0, "j1": 290.0}
    assert log.makespan == 340.0
