"""The planner of stages against an enumeration of all plans, and against what an iteration takes once it is placed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from time import thread_time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from refused import refused

import hetopt
from hetopt.data.cluster import INTRA_BYTES_PER_S, NIC_BYTES_PER_S
from hetopt.models.asrpt import networks
from hetopt.models.asrpt.layers import Layer, Network, Precision
from hetopt.models.asrpt.planning import NIC_SHARE, plan
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL

UNIT = Precision(bytes_per_number=1, bytes_per_parameter=2, peak=1.0)
layer = st.builds(
    Layer,
    name=st.just("layer"),
    parameters=st.integers(0, 9),
    operations=st.integers(1, 9),
    outputs=st.integers(1, 9),
    shared=st.sampled_from([0, 0, 4]),
)


@st.composite
def small_networks(draw: st.DrawFn) -> Network:
    layers = draw(st.lists(layer, min_size=1, max_size=5))
    return Network("small", tuple(layers), draw(st.integers(1, 4)), UNIT, 1.0)


Plan = tuple[tuple[int, int, int], ...]


def all_plans(network: Network, gpus: int, most: int, memory: float) -> Iterator[Plan]:
    """Every cut into (first layer, layer after the last, replicas) that is allowed."""
    length = len(network.layers)
    for stages in range(1, min(length, most, gpus) + 1):
        for inner in combinations(range(1, length), stages - 1):
            parts = list(pairwise((0, *inner, length)))
            held = [sum(x.parameters + x.shared for x in network.layers[i:j]) for i, j in parts]
            if max(held) * UNIT.bytes_per_parameter > memory:
                continue
            for copies in product(range(1, network.mini_batch + 1), repeat=stages):
                if sum(copies) == gpus:
                    yield tuple((i, j, k) for (i, j), k in zip(parts, copies, strict=True))


def slowest(network: Network, plan: Plan, bandwidth: int) -> Fraction:
    """Seconds of the slowest stage, in fractions, from the layers alone."""
    times = []
    for i, j, k in plan:
        own = network.layers[i:j]
        computed = 3 * network.mini_batch * sum(x.operations for x in own)
        taken = network.mini_batch * network.layers[i - 1].outputs if i else 0
        handed = network.mini_batch * own[-1].outputs if j < len(network.layers) else 0
        reduced = 2 * (k - 1) * sum(x.parameters + x.shared for x in own)
        times.append(Fraction(computed, k) + Fraction(2 * (taken + handed) + reduced, k * bandwidth))
    return max(times)


def sent(network: Network, plan: Plan) -> int:
    """Bytes that all replicas send and take in an iteration."""
    handed = sum(4 * network.mini_batch * network.layers[j - 1].outputs for _, j, _ in plan[:-1])
    return handed + sum(2 * (k - 1) * sum(x.parameters + x.shared for x in network.layers[i:j]) for i, j, k in plan)


def cuts(network: Network, stages: tuple[hetopt.Stage, ...]) -> set[Plan]:
    """Plans that have those stages: which layers they hold, by parameters, operations and outputs."""
    found = set()
    for inner in combinations(range(1, len(network.layers)), len(stages) - 1):
        parts = list(pairwise((0, *inner, len(network.layers))))
        if all(
            s.parameter_bytes == sum(x.parameters + x.shared for x in network.layers[i:j])
            and Fraction(s.forward_s * s.replicas).limit_denominator(100)
            == network.mini_batch * sum(x.operations for x in network.layers[i:j])
            and (
                j == len(network.layers)
                or round(s.output_bytes * s.replicas) == network.mini_batch * network.layers[j - 1].outputs
            )
            for (i, j), s in zip(parts, stages, strict=True)
        ):
            found.add(tuple((i, j, s.replicas) for (i, j), s in zip(parts, stages, strict=True)))
    return found


ONE_HEAVY = Network("small", (Layer("a", 2000, 50, 1), *[Layer("b", 50, 1, 1)] * 4), 4, UNIT, 1.0)
"""The first layer decides; the others may be cut in many ways, and the more the fewer bytes."""


@settings(max_examples=200)
@example(ONE_HEAVY, 5, 2, 1e4, 1)
@example(ONE_HEAVY, 5, 3, 1e4, 1)
@example(ONE_HEAVY, 5, 4, 1e4, 1)
@given(
    network=small_networks(),
    gpus=st.integers(1, 7),
    most=st.none() | st.integers(1, 4),
    memory=st.sampled_from([20.0, 40.0, 200.0]),
    bandwidth=st.sampled_from([1, 2, 4, 16]),  # powers of two: floats are then equal where fractions are
)
def test_the_plan_is_the_best_of_all(
    network: Network, gpus: int, most: int | None, memory: float, bandwidth: int
) -> None:
    """The quickest; among equals the fewest bytes; among these the fewest stages. Where there is none, an error."""
    plans = list(all_plans(network, gpus, 5 if most is None else most, memory))
    options = {"max_stages": most, "memory_bytes": memory, "bandwidth": float(bandwidth)}
    if not plans:
        with pytest.raises(hetopt.InvalidInstance, match=f"small cannot be trained on {gpus} GPUs: "):
            plan(network, gpus, **options)  # type: ignore[arg-type]
        return
    stages = plan(network, gpus, **options)  # type: ignore[arg-type]
    ours = cuts(network, stages) & set(plans)
    assert ours
    least = min(slowest(network, p, bandwidth) for p in plans)
    equal = [p for p in plans if slowest(network, p, bandwidth) == least]
    assert {slowest(network, p, bandwidth) for p in ours} == {least}
    assert {(sent(network, p), len(p)) for p in ours} == {min((sent(network, p), len(p)) for p in equal)}


@settings(max_examples=60)
@given(network=small_networks(), gpus=st.integers(1, 7))
def test_what_enters_a_stage_has_left_the_one_before(network: Network, gpus: int) -> None:
    """At each boundary the whole mini-batch's activations; every layer is in one stage, every GPU is used."""
    if gpus > len(network.layers) * network.mini_batch:
        return
    stages = plan(network, gpus)
    assert sum(s.replicas for s in stages) == gpus
    assert max(s.replicas for s in stages) <= network.mini_batch
    assert sum(s.parameter_bytes for s in stages) == network.parameter_bytes.sum()
    assert abs(sum(s.replicas * s.forward_s for s in stages) - network.work.sum()) <= EQUAL * network.work.sum()
    handed = [s.replicas * s.output_bytes for s in stages[:-1]]
    assert all(np.abs(network.output_bytes - value).min() <= EQUAL * value for value in handed)
    assert stages[-1].output_bytes == 0
    assert all(s.backward_s == 2 * s.forward_s for s in stages)


@pytest.mark.parametrize(
    ("name", "gpus"), [("vgg19", 4), ("vgg19", 16), ("resnet152", 8), ("bert-large", 8), ("t5", 16)]
)
def test_the_slowest_stage_is_the_iteration_of_the_scattered_job(name: str, gpus: int) -> None:
    """With the default bandwidth alpha_max is minimised; no plan of fewer stages or for another bandwidth is below."""
    trained = networks.network(name)

    def scattered(**options: float) -> float:
        stages = plan(trained, gpus, **options)  # type: ignore[arg-type]
        throughput = {"V100": 1 / max(s.forward_s + s.backward_s for s in stages)}
        pipeline = Pipeline.of(hetopt.Job(name, throughput, work=1, demand=gpus, stages=stages))
        servers = Servers.alike([1] * gpus, gpus=8, nic_bytes_per_s=NIC_BYTES_PER_S)
        return float(Asynchronous().most(pipeline, servers))

    best = scattered()
    assert best == pytest.approx(_bottleneck(trained, gpus), rel=EQUAL)
    few = {"max_stages": -(-gpus // trained.mini_batch)}
    for options in ({"bandwidth": NIC_BYTES_PER_S}, {"bandwidth": INTRA_BYTES_PER_S}, few):
        assert scattered(**options) >= best * (1 - EQUAL)


def _bottleneck(trained: Network, gpus: int) -> float:
    stages = plan(trained, gpus)
    at = np.concatenate([[0.0], [s.replicas * s.output_bytes for s in stages]])
    return max(
        s.forward_s + s.backward_s + (2 * (a + b) + 2 * (s.replicas - 1) * s.parameter_bytes) / NIC_SHARE / s.replicas
        for s, a, b in zip(stages, at, at[1:], strict=False)
    )


def test_a_plan_by_hand() -> None:
    """Two layers, two samples, two GPUs: copies reduce 2 (2-1)/2 100 bytes each, stages exchange 2 x 2 bytes."""
    layers = (Layer("a", 100, 6, 1), Layer("b", 0, 6, 1))
    network = Network("two", layers, 2, UNIT, 1.0)
    halves = plan(network, 2, bandwidth=1.0)  # 36 s + 4 s; as two copies 36 s + 100 s
    assert [(s.replicas, s.forward_s, s.parameter_bytes, s.output_bytes) for s in halves] == [
        (1, 12, 100, 2),
        (1, 12, 0, 0),
    ]
    copies = plan(network, 2, bandwidth=100.0)  # 36.04 s; as two copies 37 s
    assert [s.replicas for s in copies] == [1, 1]
    assert [s.replicas for s in plan(network, 2, bandwidth=100.0, max_stages=1)] == [2]
    assert [s.replicas for s in plan(network, 1, bandwidth=1.0)] == [1]


def test_vgg_is_copied_where_it_convolves() -> None:
    """As PipeDream finds: convolutions have few parameters and are copied, the dense layers have most and are not."""
    *convolutions, dense = plan(networks.network("vgg19"), 8, bandwidth=NIC_BYTES_PER_S)
    assert [s.replicas for s in convolutions] == [4, 3]
    assert dense.replicas == 1
    assert dense.parameter_bytes > sum(s.parameter_bytes for s in convolutions)


def test_memory_forces_stages() -> None:
    """GPT-175B: 7.25 GB for each block's 16-bit parameters and gradients, so 4 blocks in 32 GB and 24 stages."""
    trained = networks.network("gpt-175b")
    with pytest.raises(hetopt.InvalidInstance, match=r"64 GPUs: whole layers of .* do not fit into 23 stages of 3.2e"):
        plan(trained, 64, max_stages=23)
    assert len(plan(trained, 24)) == 24


@pytest.mark.parametrize(("name", "gpus"), [("vgg19", 16), ("gpt-175b", 64)])
def test_plans_are_quick(name: str, gpus: int) -> None:
    trained = networks.network(name)
    began = thread_time()
    plan(trained, gpus)
    assert thread_time() - began < 60


@pytest.mark.parametrize(("options", "key", "match"), [
    ({"gpus": 0}, "gpus", "0"),
    ({"gpus": 1.5}, "gpus", r"1\.5"),
    ({"max_stages": 0}, "max_stages", None),
    ({"memory_bytes": 0}, "memory_bytes", None),
    ({"bandwidth": float("nan")}, "bandwidth", None),
])  # fmt: skip
def test_numbers_that_are_none(options: dict[str, float], key: str | None, match: str | None) -> None:
    with refused(hetopt.InvalidOption, key, match):
        plan(networks.network("vgg19"), **{"gpus": 2, **options})  # type: ignore[arg-type]


def test_why_there_is_no_plan() -> None:
    with pytest.raises(hetopt.InvalidInstance, match=r"layer 'block1' needs 7\.24"):
        plan(networks.network("gpt-175b"), 64, memory_bytes=5e9)
    with pytest.raises(hetopt.InvalidInstance, match="2 stages of 4 samples have work for 8 GPUs at most"):
        plan(networks.network("resnet152"), 9, max_stages=2)
