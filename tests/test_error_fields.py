"""Errors of arguments have the key as a field, not only in their text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetopt import WholeGPUs
from hetopt.checks import any_mapping, at_least, known, mapping, members, one_of
from hetopt.decisions.placers import HierarchicalPlacer, TensorSkew
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.fft import FFT
from hetopt.models.gavel.gavel_components import InOrder
from hetopt.models.hadar import Committing, Deadline, Hadar, Irrevocable
from hetopt.models.hadare import HadarE
from hetopt.models.hadare.initial_throughput import Estimate
from hetopt.models.queues import PAL, YARN, Themis, Tiresias
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import algorithm
from hetopt.stages.speed_models import Spread, Variability
from hetopt.traces.gavel_generator import GavelLike
from hetopt.traces.philly_generator import PhillyBatches, PhillyLike

OPTIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: WholeGPUs(usable="x"), "WholeGPUs.usable"),  # type: ignore[arg-type]
    (lambda: HierarchicalPlacer(whole=("x",)), "HierarchicalPlacer.whole"),  # type: ignore[arg-type]
    (lambda: TensorSkew({"VGG": 2.0}), "TensorSkew.largest['VGG']"),
    (lambda: TensorSkew(3), "TensorSkew.largest"),  # type: ignore[arg-type]
    (lambda: TensorSkew(limit=2), "TensorSkew.limit"),
    (lambda: FFT(0), "FFT.round_seconds"),
    (lambda: InOrder("x"), "InOrder.order"),  # type: ignore[arg-type]
    (lambda: Hadar(None), "Hadar.round_seconds"),  # type: ignore[arg-type]
    (lambda: Hadar(order="x"), "Hadar.order"),  # type: ignore[arg-type]
    (lambda: Hadar(selection=int), "Hadar.selection"),
    (lambda: Committing(3, 0), "Committing.round_seconds"),
    (lambda: Irrevocable("x"), "Irrevocable.prices"),
    (lambda: Irrevocable([1]), "Irrevocable.prices"),  # type: ignore[arg-type]
    (lambda: Deadline(2), "Deadline.late"),
    (lambda: HadarE(worth="x"), "HadarE.worth"),  # type: ignore[arg-type]
    (lambda: Estimate("x"), "Estimate.root_of"),  # type: ignore[arg-type]
    (lambda: YARN([1]), "YARN.capacities"),  # type: ignore[arg-type]
    (lambda: YARN({"a": 0}), "YARN.capacities['a']"),
    (lambda: YARN(maximum=2), "YARN.maximum"),
    (lambda: YARN(maximum={"a": 2}), "YARN.maximum['a']"),
    (lambda: YARN(types="x"), "YARN.types"),  # type: ignore[arg-type]
    (lambda: YARN(round_seconds=0), "YARN.round_seconds"),
    (lambda: PAL("x"), "PAL.order"),
    (lambda: PAL(variability=3), "PAL.variability"),  # type: ignore[arg-type]
    (lambda: Themis(1.0), "Themis.fairness"),
    (lambda: Themis(round_seconds=None), "Themis.round_seconds"),  # type: ignore[arg-type]
    (lambda: Tiresias(3), "Tiresias.thresholds"),  # type: ignore[arg-type]
    (lambda: EstimateErrors(work=1.0), "EstimateErrors.work"),
    (lambda: EstimateErrors(overstated=3), "EstimateErrors.overstated"),  # type: ignore[arg-type]
    (lambda: Asynchronous(backward=2), "Asynchronous.backward"),
    (lambda: algorithm("x", "MinimumCut"), "MinimumCut.allreduce"),
    (lambda: Spread({"net": 3}), "Spread.table['net']"),  # type: ignore[dict-item]
    (lambda: Spread({"net": {2: 3}}), "Spread.table['net'][2]"),  # type: ignore[dict-item]
    (lambda: Spread(families={"a": "b"}), "Spread.families['a']"),
    (lambda: Variability(3), "Variability.slowdown"),  # type: ignore[arg-type]
    (lambda: GavelLike(long_share=2), "GavelLike.long_share"),
    (lambda: GavelLike(models={}), "GavelLike.models"),
    (lambda: PhillyLike(seconds=3), "PhillyLike.seconds"),  # type: ignore[arg-type]
    (lambda: PhillyBatches(within=11), "PhillyBatches.within"),
]


@pytest.mark.parametrize(("make", "key"), OPTIONS, ids=[key for _, key in OPTIONS])
def test_wrong_options_have_a_key(make: Callable[[], object], key: str) -> None:
    """The key is a field, and the problem does not repeat it."""
    with pytest.raises(InvalidOption) as caught:
        make()
    assert caught.value.key == key
    assert not caught.value.problem.startswith(key)
    assert str(caught.value) == f"{key} {caught.value.problem}"


CHECKS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: at_least(2, "k", 0, InvalidOption, most=1), InvalidOption, "is 2; it must be at most 1"),
    (lambda: at_least(1, "k", 0, InvalidOption, below=1), InvalidOption, "is 1; it must be below 1"),
    (lambda: at_least(1e19, "k", 0, InvalidInstance), InvalidInstance, "is 1e+19; it must be at most 1e+18"),
    (lambda: one_of("tre", ("ring", "tree"), "k"), InvalidOption, "is 'tre'; did you mean 'tree'? known: ring, tree"),
    (lambda: one_of([1], ("ring",), "k", InvalidInstance), InvalidInstance, "is [1]; known: ring"),
    (lambda: known("b", ("a",), "k", "job", InvalidOption), InvalidOption, "names job 'b', which does not exist"),
    (lambda: mapping(3, "k", InvalidOption), InvalidOption, "is 3; it must be a mapping from names to values"),
    (lambda: mapping({1: 2}, "k", InvalidOption), InvalidOption, "has the key 1; it must be a non-empty name"),
    (lambda: any_mapping(3, "k", InvalidOption, "to factors"), InvalidOption, "is 3; it must be a mapping to factors"),
    (lambda: members(3, int, "k", InvalidOption), InvalidOption, "is 3; it must be a sequence of int"),
]


@pytest.mark.parametrize(("check", "kind", "problem"), CHECKS, ids=[problem for *_, problem in CHECKS])
def test_checks_raise_the_given_error(check: Callable[[], object], kind: type[Exception], problem: str) -> None:
    """Kind, key and problem of the error."""
    with pytest.raises((InvalidOption, InvalidInstance)) as caught:
        check()
    assert type(caught.value) is kind
    assert caught.value.path == ("k",)
    assert caught.value.problem.startswith(problem)


def test_values_within_the_limits_are_returned() -> None:
    """The limits themselves are accepted, except one that is exclusive."""
    assert at_least(1, "k", 0, InvalidOption, most=1) == 1.0
    assert at_least(0.999, "k", 0, InvalidOption, below=1) == 0.999
    assert one_of("ring", ("ring", "tree"), "k") == "ring"
    assert any_mapping({1: 2}, "k", InvalidOption, "") == {1: 2}
