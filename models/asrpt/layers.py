"""Layers of the networks in [ASRPT, Table I]: parameters, operations, outputs, and their time on a GPU.

Image classification: images are those of ImageNet with 3 channels, 1000 classes, 224 x 224 pixels (Inception-V3:
299 x 299). Pooling counts with the layer before it.

Language: a block is an attention and a feed-forward network. For a sequence of s tokens of width h, a matrix of n
numbers takes 2 n s operations; attention's scores and their use take 4 s^2 h. Attention to later tokens, which a causal
mask discards, is counted, since it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from hetopt.data.array_types import Numbers

BACKWARD = 2.0
"""Ratio of backward to forward operations: gradients of a layer's inputs and of its parameters take a product each."""


@dataclass(frozen=True)
class Layer:
    """A layer, or a block that is not divided.

    Parameters
    ----------
    name:
        Name in its paper.
    parameters:
        Number of trainable parameters.
    operations:
        Floating-point operations of one sample in the forward pass: a multiplication and an addition are two. Only
        matrix products and convolutions; element-wise operations (ReLU, normalisation, pooling) are not counted.
    outputs:
        Numbers of one sample that the next layer needs.
    shared:
        Parameters of an earlier layer that this layer uses again: a GPU needs a copy of them.
    """

    name: str
    parameters: int
    operations: int
    outputs: int
    shared: int = 0


@dataclass(frozen=True)
class Precision:
    """Number format of training, with the speed of a V100.

    Parameters
    ----------
    bytes_per_number:
        Bytes of an activation, a parameter or a gradient that is sent.
    bytes_per_parameter:
        Memory that a GPU needs for each parameter of its layers, in bytes.
    peak:
        Peak operations per second of the GPU.
    """

    bytes_per_number: float
    bytes_per_parameter: float
    peak: float


SINGLE = Precision(bytes_per_number=4, bytes_per_parameter=8, peak=15.7e12)
"""32 bits, parameters and gradients on the GPU, optimiser's state offloaded. Peak of a V100 with NVLink (its data
sheet). Assumed for image classification: the default of PyTorch."""

HALF = Precision(bytes_per_number=2, bytes_per_parameter=4, peak=125e12)
"""16 bits on tensor cores, parameters and gradients on the GPU, optimiser's state (and the 32-bit copy) offloaded. Peak
of a V100 with NVLink (its data sheet). Assumed for language models: GPT-175B was trained with it."""


@dataclass(frozen=True)
class Network:
    """A network in training: its layers in order, and how a V100 trains it.

    Parameters
    ----------
    name:
        As in [ASRPT, Table I].
    layers:
        From input to output; the outputs of a layer go only to the next layer.
    mini_batch:
        Samples of one iteration [ASRPT, Table I].
    precision:
        Number format.
    efficiency:
        Achieved fraction of the peak.
    """

    name: str
    layers: tuple[Layer, ...]
    mini_batch: int
    precision: Precision
    efficiency: float

    @cached_property
    def parameters(self) -> int:
        """Number of trainable parameters, shared ones counted once."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def operations(self) -> int:
        """Floating-point operations of one sample in the forward pass."""
        return sum(layer.operations for layer in self.layers)

    @property
    def speed(self) -> float:
        """Operations per second of one GPU."""
        return self.precision.peak * self.efficiency

    @cached_property
    def work(self) -> Numbers:
        """(L,) forward operations of each layer for the whole mini-batch; integers, so that sums are exact."""
        return np.array([float(layer.operations * self.mini_batch) for layer in self.layers])

    @cached_property
    def parameter_bytes(self) -> Numbers:
        """(L,) bytes of the gradients of each layer, including shared parameters."""
        return np.array([(layer.parameters + layer.shared) * self.precision.bytes_per_number for layer in self.layers])

    @cached_property
    def memory_bytes(self) -> Numbers:
        """(L,) bytes that a GPU needs to train each layer; activations are not counted (recomputed, assumption)."""
        return np.array(
            [(layer.parameters + layer.shared) * self.precision.bytes_per_parameter for layer in self.layers]
        )

    @cached_property
    def output_bytes(self) -> Numbers:
        """(L,) bytes that each layer sends to the next for the whole mini-batch; 0 for the last layer."""
        sent = self.mini_batch * self.precision.bytes_per_number
        return np.array([*(layer.outputs * sent for layer in self.layers[:-1]), 0.0])


CLASSES = 1000


class Image(NamedTuple):
    """Shape of the data between layers."""

    channels: int
    height: int
    width: int

    @property
    def numbers(self) -> int:
        """Size: the product of the dimensions."""
        return self.channels * self.height * self.width

    def slid(self, kernel: int, stride: int, padding: int = 0) -> Image:
        """Shape after sliding a square window; the channels stay."""
        sides = [(side + 2 * padding - kernel) // stride + 1 for side in (self.height, self.width)]
        return Image(self.channels, *sides)


class Convolution(NamedTuple):
    """A convolution; padded so that only the stride reduces the image, unless ``valid``.

    ``normalised``: batch normalisation (scale and shift per channel) in place of a bias.
    """

    channels: int
    height: int = 1
    width: int = 1
    stride: int = 1
    valid: bool = False
    normalised: bool = True

    def after(self, image: Image) -> Image:
        """Shape of the result."""
        sides = [
            (side + (0 if self.valid else kernel // 2 * 2) - kernel) // self.stride + 1
            for side, kernel in ((image.height, self.height), (image.width, self.width))
        ]
        return Image(self.channels, *sides)

    def cost(self, image: Image) -> tuple[int, int]:
        """(parameters, operations) on an image."""
        weights = self.channels * image.channels * self.height * self.width
        result = self.after(image)
        extra = self.channels * (2 if self.normalised else 1)
        return weights + extra, 2 * weights * result.height * result.width


def square(channels: int, kernel: int, stride: int = 1, *, valid: bool = False) -> Convolution:
    """A normalised convolution with a square kernel."""
    return Convolution(channels, kernel, kernel, stride, valid)


def dense(name: str, inputs: int, outputs: int) -> Layer:
    """A fully connected layer with bias."""
    return Layer(name, inputs * outputs + outputs, 2 * inputs * outputs, outputs)


Step: TypeAlias = "Convolution | Sequence[Convolution]"
"""A convolution, or several parallel ones of the same image."""

Branch: TypeAlias = Sequence[Step]
"""A sequence of steps."""


def chain_cost(image: Image, steps: Branch) -> tuple[int, int, Image]:
    """(parameters, operations, shape of the result) of a sequence of steps; parallel results are concatenated."""
    parameters = operations = 0
    for step in steps:
        together = [step] if isinstance(step, Convolution) else step
        for convolution in together:
            own = convolution.cost(image)
            parameters, operations = parameters + own[0], operations + own[1]
        image = together[0].after(image)._replace(channels=sum(c.channels for c in together))
    return parameters, operations, image


def vgg19() -> tuple[Layer, ...]:
    """VGG19: configuration E of Table 1 of Simonyan and Zisserman (2014); 143.67M parameters, 19.6G multiply-adds."""
    image, layers = Image(3, 224, 224), []
    for block, (channels, count) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), start=1):
        for i in range(1, count + 1):
            convolution = Convolution(channels, 3, 3, normalised=False)
            parameters, operations = convolution.cost(image)
            image = convolution.after(image)
            if i == count:
                image = image.slid(2, 2)
            layers.append(Layer(f"conv{block}_{i}", parameters, operations, image.numbers))
    widths = (image.numbers, 4096, 4096, CLASSES)
    return (*layers, *(dense(f"fc{6 + i}", *widths[i : i + 2]) for i in range(3)))


def resnet(counts: Sequence[int]) -> tuple[Layer, ...]:
    """Bottleneck ResNet with ``counts`` blocks of each kind: Table 1 of He et al. (2016).

    (3, 4, 6, 3) is ResNet50, (3, 8, 36, 3) ResNet152: 60.19M parameters, 11.5G multiply-adds. The stride is in the 3 x
    3 convolution, as in PyTorch (in the paper it is in the first one, which saves 2%).
    """
    stem = square(64, 7, 2)
    image = stem.after(Image(3, 224, 224)).slid(3, 2, padding=1)
    layers = [Layer("conv1", *stem.cost(Image(3, 224, 224)), image.numbers)]
    for kind, count in enumerate(counts):
        width = 64 << kind
        for i in range(count):
            stride = 2 if kind and not i else 1
            steps = [square(width, 1), square(width, 3, stride), square(4 * width, 1)]
            parameters, operations, result = chain_cost(image, steps)
            if not i:  # the shortcut also changes shape
                extra = square(4 * width, 1, stride).cost(image)
                parameters, operations = parameters + extra[0], operations + extra[1]
            image = result
            layers.append(Layer(f"conv{kind + 2}_{i + 1}", parameters, operations, image.numbers))
    return (*layers, dense("fc", image.channels, CLASSES))


def inception_v3() -> tuple[Layer, ...]:
    """Inception-V3 without the auxiliary classifier: Szegedy et al. (2016), Table 1; 23.83M parameters.

    The paper leaves the channels within blocks open; these are those of the authors' published network, as in PyTorch.
    """
    image, layers = Image(3, 299, 299), []
    stem: list[tuple[Convolution, bool]] = [
        (square(32, 3, 2, valid=True), False),
        (square(32, 3, valid=True), False),
        (square(64, 3), True),
        (square(80, 1), False),
        (square(192, 3, valid=True), True),
    ]
    for i, (convolution, pooled) in enumerate(stem, start=1):
        cost, image = convolution.cost(image), convolution.after(image)
        image = image.slid(3, 2) if pooled else image
        layers.append(Layer(f"conv{i}", *cost, image.numbers))
    for block in _inception_blocks():
        costs = [chain_cost(image, branch) for branch in block.branches]
        channels = sum(result.channels for _, _, result in costs)
        if block.pools_input:  # the pooled input is concatenated with the results of the convolutions
            channels += image.channels
        image = costs[0][2]._replace(channels=channels)
        layers.append(Layer(block.name, sum(c[0] for c in costs), sum(c[1] for c in costs), image.numbers))
    return (*layers, dense("fc", image.channels, CLASSES))


class _InceptionBlock(NamedTuple):
    """A block of Inception-V3: its branches, the one with average pooling last."""

    name: str
    branches: list[Branch]
    pools_input: bool = False


def _inception_blocks() -> list[_InceptionBlock]:
    blocks = [_InceptionBlock(f"mixed35_{i + 1}", _mixed35(pool)) for i, pool in enumerate((32, 64, 64))]
    halved = [square(64, 1), square(96, 3), square(96, 3, 2, valid=True)]
    blocks.append(_InceptionBlock("reduce35", [[square(384, 3, 2, valid=True)], halved], pools_input=True))
    blocks += [_InceptionBlock(f"mixed17_{i + 1}", _mixed17(width)) for i, width in enumerate((128, 160, 160, 192))]
    last = square(192, 3, 2, valid=True)
    halved = [square(192, 1), Convolution(192, 1, 7), Convolution(192, 7, 1), last]
    blocks.append(
        _InceptionBlock("reduce17", [[square(192, 1), square(320, 3, 2, valid=True)], halved], pools_input=True)
    )
    return [*blocks, *(_InceptionBlock(f"mixed8_{i}", _mixed8()) for i in (1, 2))]


def _mixed35(pool: int) -> list[Branch]:
    return [
        [square(64, 1)],
        [square(48, 1), square(64, 5)],
        [square(64, 1), square(96, 3), square(96, 3)],
        [square(pool, 1)],
    ]


def _mixed17(width: int) -> list[Branch]:
    flat, tall = (1, 7), (7, 1)
    once = [square(width, 1), Convolution(width, *flat), Convolution(192, *tall)]
    twice = [square(width, 1), *(Convolution(width, *side) for side in (tall, flat, tall))]
    return [[square(192, 1)], once, [*twice, Convolution(192, *flat)], [square(192, 1)]]


def _mixed8() -> list[Branch]:
    split = [Convolution(384, 1, 3), Convolution(384, 3, 1)]
    return [
        [square(320, 1)],
        [square(384, 1), split],
        [square(448, 1), square(384, 3), split],
        [square(192, 1)],
    ]


def bert_large(tokens: int = 384) -> tuple[Layer, ...]:
    """BERT-large with a layer for question answering: Devlin et al. (2018), sections 3 and 4.2.

    24 blocks of width 1024, 30,522 word pieces, 512 positions, 2 segments. 334M parameters; "340M" with the pooler and
    the output layers of pre-training. 384 tokens are the setting of the authors' program for SQuAD.
    """
    width = 1024
    embedding = Layer("embedding", (30_522 + 512 + 2 + 2) * width, 0, tokens * width)
    blocks = [_block(f"block{i + 1}", width, 4 * width, tokens) for i in range(24)]
    return (embedding, *blocks, Layer("answer", 2 * (width + 1), 2 * 2 * width * tokens, 2 * tokens))


def xlnet_large(tokens: int = 384) -> tuple[Layer, ...]:
    """XLNet-large with a layer for question answering: Yang et al. (2019), section 2 and appendix A.4.

    24 blocks of width 1024, 32,000 word pieces: 360M parameters. Positions are relative: each block has a fifth matrix
    for the 2 s distances between tokens, two biases per head, and a bias and two vectors for segments.
    """
    width, inner = 1024, 4096
    matrices, feed = 5 * width**2, 2 * width * inner
    parameters = matrices + 3 * width + 2 * width + feed + inner + width + 2 * 2 * width
    # queries, keys, values and result for s tokens, the fifth for 2 s; content and position scores, and their use
    operations = 2 * (4 * width**2 + 2 * width**2 + feed) * tokens + 2 * (tokens + 2 * tokens + tokens) * tokens * width
    embedding = Layer("embedding", 32_000 * width + width, 0, tokens * width)
    blocks = [Layer(f"block{i + 1}", parameters, operations, tokens * width) for i in range(24)]
    return (embedding, *blocks, Layer("answer", 2 * (width + 1), 2 * 2 * width * tokens, 2 * tokens))


def t5_11b(tokens: int = 512) -> tuple[Layer, ...]:
    """T5-11B: Raffel et al. (2020), section 3.6; 11.31B parameters.

    24 blocks in the encoder and as many in the decoder, width 1024, 128 heads of 128, inner width 65,536, no biases,
    32,128 word pieces, whose embedding is shared with the output. Encoder and decoder see ``tokens`` each. Within the
    decoder, layers send the encoder's result together with their own, since all decoder blocks attend to it.
    """
    width, attention, inner, words = 1024, 128 * 128, 65_536, 32_128
    heads, feed = 4 * width * attention, 2 * width * inner
    attend = 2 * heads * tokens + 4 * tokens**2 * attention
    distances, sent = 32 * 128, tokens * width  # distances: 32 biases per head, in the first block of each half
    layers = [Layer("embedding", words * width, 0, sent)]
    for i in range(24):
        extra = (distances if i == 0 else 0) + (width if i == 23 else 0)
        parameters = heads + feed + 2 * width + extra
        layers.append(Layer(f"encoder{i + 1}", parameters, attend + 2 * feed * tokens, sent))
    for i in range(24):
        extra = (distances if i == 0 else 0) + (width if i == 23 else 0)
        copy = words * width if i == 0 else 0  # the decoder's words are looked up in the same table
        parameters = 2 * heads + feed + 3 * width + extra
        operations = 2 * attend + 2 * feed * tokens
        layers.append(Layer(f"decoder{i + 1}", parameters, operations, (1 if i == 23 else 2) * sent, copy))
    return (*layers, Layer("output", 0, 2 * words * width * tokens, words * tokens, words * width))


def gpt(blocks: int, width: int, tokens: int = 512) -> tuple[Layer, ...]:
    """GPT-3 with ``blocks`` blocks: Brown et al. (2020), Table 2.1.

    (32, 4096) is 6.7B, (40, 5120) 13B, (96, 12288) 175B. 50,257 word pieces, whose embedding is shared with the output,
    and 2048 positions. The paper prints a width of 5140 for 13B; 40 heads of 128 give 5120, which agrees with its
    12,850M parameters in Table D.1.
    """
    words = 50_257
    embedding = Layer("embedding", (words + 2048) * width, 0, tokens * width)
    layers = [_block(f"block{i + 1}", width, 4 * width, tokens) for i in range(blocks)]
    output = Layer("output", 2 * width, 2 * words * width * tokens, words * tokens, words * width)
    return (embedding, *layers, output)


def _block(name: str, width: int, inner: int, tokens: int) -> Layer:
    """A transformer block: four matrices of attention, two of the feed-forward network, biases, two normalisations."""
    weights = 4 * width**2 + 2 * width * inner
    extra = 4 * width + inner + width + 2 * 2 * width
    return Layer(name, weights + extra, 2 * weights * tokens + 4 * tokens**2 * width, tokens * width)
