"""Policies do what their traits declare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetopt
from hetopt import Allocation, Traits, instances
from hetopt.decisions.rounders import ByKind, Rounded
from hetopt.decisions.system import DecisionSteps, OnChange, System
from hetopt.formulations.policies import call_policy
from hetopt.formulations.traits import traits_of
from hetopt.models import fft, gavel, oef
from hetopt.registry import make_policy, policy_names

INSTANCES = ("lab36/jobs", "asrpt/vgg19", "hadar/motivating", "fft/fig2")


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("name", INSTANCES)
def test_results_are_as_declared(policy: str, name: str) -> None:
    made, instance = make_policy(policy), instances.load(name)
    instance, traits = instance.at(instance.time), traits_of(made)
    try:
        result, _ = call_policy(made, instance)
    except (hetopt.InvalidInstance, hetopt.NotSolved):  # not for such jobs
        return
    if isinstance(result, Allocation):
        assert traits.fractional or not hasattr(made, "traits")
        return
    assert not traits.fractional
    placement = result.placement
    assert traits.places == (placement is not None)
    if not traits.mixes and result.entities.kind == "jobs":
        assert (np.count_nonzero(result.x, axis=1) <= 1).all()
    if placement is not None and not traits.forks:
        assert not placement.dispatch


def test_wrappers_pass_traits_on() -> None:
    policy = fft.FFT(round_seconds=60)
    assert traits_of(policy) == Traits(round_seconds=60)
    assert System(policy).seconds == System(OnChange(policy)).seconds == System(Rounded(policy)).seconds == 60
    assert System(OnChange(policy, round_seconds=30)).seconds == 30
    assert traits_of(OnChange(gavel.fifo())).fractional
    assert not traits_of(Rounded(oef.cooperative())).fractional


@pytest.mark.parametrize(("usable", "mix"), [("any", True), ("any", False), ("smallest", True), ("sums", True)])
def test_gangs_are_larger_than_every_type_where_rounder_and_selection_allow_it(usable: Any, mix: bool) -> None:
    rounder, selection = hetopt.WholeGPUs(usable), hetopt.LongestStarved(mix=mix)
    for one in (rounder, ByKind(tenants=rounder)):
        assert DecisionSteps(oef.cooperative(), one, selection).mixes == (usable == "any" and mix)


@pytest.mark.parametrize(
    ("key", "value"),
    [("round_seconds", 0), ("round_seconds", "1"), ("fractional", "yes"), ("places", 1), ("speeds", 3)],
)
def test_bad_traits_are_refused(key: str, value: object) -> None:
    with pytest.raises(hetopt.InvalidOption) as caught:
        Traits(**{key: value})  # type: ignore[arg-type]
    assert caught.value.key == f"Traits.{key}"


def test_no_traits_are_the_defaults_and_other_ones_are_refused() -> None:
    def policy(instance: hetopt.Instance, state: None = None) -> None:
        raise NotImplementedError

    assert traits_of(policy) == Traits()
    policy.traits = {"places": True}  # type: ignore[attr-defined]
    with pytest.raises(hetopt.InvalidOption, match=r"traits is \{'places': True\}, which is not a hetopt Traits"):
        traits_of(policy)
