"""The networks of A-SRPT's Table I cost what is published of them, and the named instances are what is derived here."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import hetopt
from hetopt import instances
from hetopt.errors import InvalidOption
from hetopt.models.asrpt import networks
from hetopt.models.asrpt.layers import BACKWARD, HALF, SINGLE, Convolution, Image, inception_v3, resnet, t5_11b
from hetopt.models.asrpt.planning import NIC_SHARE, plan

PARAMETERS = {  # as the authors' or PyTorch's own programs count them
    "vgg19": 143_667_240,
    "resnet152": 60_192_808,
    "inception-v3": 27_161_264 - 3_326_696,  # without the auxiliary classifier
    "t5": 11_307_321_344,
}
MULTIPLY_ADDS = {"vgg19": 19.632e9, "resnet152": 11.514e9, "inception-v3": 5.713e9}  # as PyTorch lists them
BROWN = {"gpt-6.7b": 6660e6, "gpt-13b": 12_850e6, "gpt-175b": 174_600e6}  # Table D.1 of Brown et al. (2020)
TABLE_1 = {
    "vgg19": (144e6, 32),
    "resnet152": (60e6, 4),
    "inception-v3": (24e6, 32),
    "bert-large": (340e6, 4),
    "xlnet-large": (550e6, 4),
    "t5": (11e9, 8),
    "gpt-6.7b": (6.7e9, 32),
    "gpt-13b": (13e9, 32),
    "gpt-175b": (175e9, 16),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_published(name: str) -> None:
    assert networks.network(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_operations_of_images_are_those_published(name: str) -> None:
    assert round(networks.network(name).operations / 2, -6) == MULTIPLY_ADDS[name]


@pytest.mark.parametrize("name", BROWN)
def test_parameters_of_gpt_are_those_printed(name: str) -> None:
    assert round(networks.network(name).parameters, -7) == BROWN[name]


def test_operations_of_gpt_are_those_of_its_training() -> None:
    """Table D.1: 3.14e23 operations for 300e9 tokens, a third of them forwards; attention's scores not counted."""
    trained, tokens = networks.network("gpt-175b"), 512
    scores = 96 * 4 * tokens**2 * 12_288
    per_token = (trained.operations - scores) / tokens
    assert abs(3 * per_token * 300e9 / 3.14e23 - 1) < 0.005


@pytest.mark.parametrize(("name", "blocks", "width", "tokens", "words"), [
    ("bert-large", 24, 1024, 384, 0),
    ("gpt-6.7b", 32, 4096, 512, 50_257),
    ("gpt-13b", 40, 5120, 512, 50_257),
    ("gpt-175b", 96, 12_288, 512, 50_257),
])  # fmt: skip
def test_operations_of_transformers_follow_the_published_formula(
    name: str, blocks: int, width: int, tokens: int, words: int
) -> None:
    """24 s l h^2 (1 + s / 6h) and 2 s h V for the output: Narayanan et al. (2021), appendix, forwards."""
    exact = 24 * tokens * blocks * width**2 + 4 * tokens**2 * blocks * width + 2 * tokens * width * words
    answer = 0 if words else 2 * tokens * 2 * width
    assert networks.network(name).operations == exact + answer


def test_bert_from_the_tensors_of_its_program() -> None:
    """Shapes as in the authors' checkpoint; its pooler (1024 x 1024 + 1024) is not used for SQuAD."""
    block = [(1024, 1024), (1024,)] * 4 + [(1024, 4096), (4096,), (4096, 1024), (1024,)] + [(1024,)] * 4
    tensors = [(30_522, 1024), (512, 1024), (2, 1024), (1024,), (1024,)] + block * 24 + [(1024, 2), (2,)]
    assert networks.network("bert-large").parameters == sum(map(prod, tensors))
    assert sum(map(prod, tensors)) - 2050 + 1024 * 1024 + 1024 == 335_141_888  # as it is published


def test_xlnet_from_the_tensors_of_its_program() -> None:
    heads = [(1024, 16, 64)] * 5 + [(16, 64)] * 3 + [(2, 16, 64)]
    feed = [(1024, 4096), (4096,), (4096, 1024), (1024,)]
    block = heads + feed + [(1024,)] * 4
    tensors = [(32_000, 1024), (1024,)] + block * 24 + [(1024, 2), (2,)]
    assert networks.network("xlnet-large").parameters == sum(map(prod, tensors))


def test_table_1_beside_ours() -> None:
    """All but XLNet's round to what Table I prints; BERT's "340M" is two digits of 334M with its pooler, 335M."""
    for name, (printed, batch) in TABLE_1.items():
        trained = networks.network(name)
        assert trained.mini_batch == batch
        off = abs(trained.parameters / printed - 1)
        assert (off > 0.3) == (name == "xlnet-large")
        assert off < 0.03 or name == "xlnet-large"


@pytest.mark.parametrize("counts", [(3, 4, 6, 3), (3, 8, 36, 3), (1, 1)])
def test_blocks_of_a_resnet_by_a_closed_form(counts: tuple[int, ...]) -> None:
    """Without strides a block of width w on s x s pixels takes w (c + 9 w + 4 w) weights, each used s^2 times."""
    layers = {layer.name: layer for layer in resnet(counts)}
    for kind, count in enumerate(counts):
        w, side = 64 * 2**kind, 56 // 2**kind
        for i in range(1, count):
            block = layers[f"conv{kind + 2}_{i + 1}"]
            weights = w * (4 * w + 9 * w + 4 * w)
            assert block.parameters == weights + 2 * (w + w + 4 * w)
            assert block.operations == 2 * weights * side**2
            assert block.outputs == 4 * w * side**2


@pytest.mark.parametrize("seed", range(6))
def test_a_convolution_multiplies_as_often_as_it_is_counted(seed: int) -> None:
    """A plain loop over output pixels, filters and the window, with zeros beyond the border where it is padded."""
    random = np.random.default_rng(seed)
    image = Image(*random.integers([1, 5, 5], [4, 9, 9]).tolist())
    height, width = random.choice([1, 3, 5], 2).tolist()
    layer = Convolution(int(random.integers(1, 4)), height, width, int(random.integers(1, 3)), valid=bool(seed % 2))
    pads = (0, 0) if layer.valid else (height // 2, width // 2)
    rows = range(0, image.height + 2 * pads[0] - height + 1, layer.stride)
    columns = range(0, image.width + 2 * pads[1] - width + 1, layer.stride)
    products = sum(height * width * image.channels for _ in range(layer.channels) for _ in rows for _ in columns)
    assert layer.cost(image)[1] == 2 * products
    assert layer.after(image) == (layer.channels, len(rows), len(columns))


def test_shapes_within_inception_are_the_papers() -> None:
    """Table 1 of Szegedy et al.: 35 x 35 x 288, 17 x 17 x 768, 8 x 8 x 1280 enter the three kinds of blocks."""
    outputs = {layer.name: layer.outputs for layer in inception_v3()}
    assert outputs["mixed35_3"] == 35 * 35 * 288
    assert outputs["reduce35"] == outputs["mixed17_4"] == 17 * 17 * 768
    assert outputs["reduce17"] == 8 * 8 * 1280
    assert outputs["mixed8_2"] == 8 * 8 * 2048


def test_the_decoder_of_t5_passes_on_the_output_of_the_encoder() -> None:
    outputs = {layer.name: layer.outputs for layer in t5_11b()}
    assert outputs["encoder24"] == 512 * 1024
    assert outputs["decoder1"] == outputs["decoder23"] == 2 * 512 * 1024


# Efficiency


def test_efficiency_is_what_was_measured() -> None:
    """ResNet50 for one epoch of ImageNet on a V100 of 250 W (peak 14e12): seconds as Zeus publishes them."""
    assert sum(layer.parameters for layer in resnet((3, 4, 6, 3))) == 25_557_032
    operations = (1 + BACKWARD) * sum(layer.operations for layer in resnet((3, 4, 6, 3)))
    for seconds, efficiency in ((4051.0, networks.IMAGES), (5892.98, networks.FEW_IMAGES)):
        assert round(operations * 1_281_167 / seconds / 14e12, 2) == efficiency
    assert round(39e12 / 130e12, 2) == networks.TEXT


@pytest.mark.parametrize("name", networks.NAMES)
def test_columns_are_sums_over_the_layers(name: str) -> None:
    trained = networks.network(name)
    precision = SINGLE if name in MULTIPLY_ADDS else HALF
    assert trained.precision == precision
    assert trained.work.sum() == trained.operations * trained.mini_batch
    shared = sum(layer.shared for layer in trained.layers)
    assert trained.parameter_bytes.sum() == (trained.parameters + shared) * precision.bytes_per_number
    assert trained.memory_bytes.sum() == (trained.parameters + shared) * precision.bytes_per_parameter
    assert trained.output_bytes[-1] == 0
    assert (trained.output_bytes[:-1] > 0).all()


# Instances


def test_a_job_of_one_server_counts_on_the_whole_card() -> None:
    """Planned for an eighth of the card, eight GPUs would train VGG19 no quicker than one; so, seven times."""
    alone, eight = (networks.configuration("vgg19", gpus) for gpus in (1, 8))
    assert eight.throughput["V100"] > 7 * alone.throughput["V100"]
    shunned = plan(networks.network("vgg19"), 8, bandwidth=NIC_SHARE)
    slowest = max(s.forward_s + s.backward_s for s in shunned)
    assert 1 / slowest < 1.01 * alone.throughput["V100"]


@pytest.mark.parametrize("name", networks.NAMES)
def test_the_named_instance_is_what_is_derived(name: str) -> None:
    """After a change of a derivation write ``networks.instance(name)`` to the file again, and keep ``expected``."""
    assert instances.load(f"asrpt/{name}") == networks.instance(name)


@pytest.mark.parametrize("name", networks.NAMES)
def test_every_configuration_is_a_plan_of_the_whole_network(name: str) -> None:
    trained = networks.network(name)
    forward = float(trained.work.sum() / trained.speed)
    for job, gpus in zip(instances.load(f"asrpt/{name}").jobs, networks.GPUS[name], strict=True):
        assert job.name == f"{name}-{gpus}"
        assert job.demand == gpus
        assert f"{sum(s.replicas * s.forward_s for s in job.stages):.4g}" == f"{forward:.4g}"  # each has six digits
        assert sum(s.parameter_bytes for s in job.stages) == trained.parameter_bytes.sum()
        assert all(s.replicas <= trained.mini_batch for s in job.stages)
        assert job.memory_bytes <= networks.V100_BYTES
        slowest = max(s.forward_s + s.backward_s for s in job.stages)
        assert job.throughput["V100"] == float(f"{1 / slowest:.6g}")
        assert job.checkpoint_bytes == 16 * trained.parameters


@pytest.mark.parametrize("name", networks.NAMES)
def test_what_is_printed_about_the_instance(name: str) -> None:
    printed = instances.expected(f"asrpt/{name}")["network"]
    trained = networks.network(name)
    assert printed.correct["parameters"] == trained.parameters
    assert printed.correct[trained.name][1] == trained.mini_batch
    assert f"{trained.parameters:,}" in instances.load(f"asrpt/{name}").source


def test_an_unknown_network_gets_the_nearest() -> None:
    for ask in (networks.network, networks.configurations, networks.instance):
        with pytest.raises(hetopt.UnknownName, match="there is no network 'vgg-19'; did you mean 'vgg19'"):
            ask("vgg-19")


@pytest.mark.parametrize("gpus", ["3", None, 0, -1, 2.5])
def test_a_network_is_trained_on_a_whole_number_of_gpus(gpus: Any) -> None:
    with pytest.raises(InvalidOption, match=r"gpus is .*; it must be a whole number >= 1"):
        networks.configuration("vgg19", gpus)
