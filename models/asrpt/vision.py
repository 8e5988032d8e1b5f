"""Layers of the networks for image classification in [ASRPT, Table I], from their published shapes.

Images are those of ImageNet: 3 channels, 1000 classes, 224 x 224 pixels (Inception-V3: 299 x 299). Pooling counts with
the layer before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from hetopt.models.asrpt.layers import Layer

CLASSES = 1000


class Image(NamedTuple):
    """Shape of what goes from layer to layer."""

    channels: int
    height: int
    width: int

    @property
    def numbers(self) -> int:
        """How many numbers it is."""
        return self.channels * self.height * self.width

    def slid(self, kernel: int, stride: int, padding: int = 0) -> Image:
        """Its shape after a square window has gone over it; channels stay."""
        sides = [(side + 2 * padding - kernel) // stride + 1 for side in (self.height, self.width)]
        return Image(self.channels, *sides)


class Convolution(NamedTuple):
    """A convolution; padded so that only the stride makes the image smaller, unless ``valid``.

    ``normalised``: batch normalisation (scale and shift per channel) in place of a bias.
    """

    channels: int
    height: int = 1
    width: int = 1
    stride: int = 1
    valid: bool = False
    normalised: bool = True

    def after(self, image: Image) -> Image:
        """Shape of its result."""
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
"""A convolution, or several of the same image, side by side."""

Branch: TypeAlias = Sequence[Step]
"""Steps one after another."""


def chain_cost(image: Image, steps: Branch) -> tuple[int, int, Image]:
    """(parameters, operations, shape of the result) of steps one after another; results side by side are joined."""
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
    """Bottleneck ResNet with so many blocks of each kind: Table 1 of He et al. (2016).

    (3, 4, 6, 3) is ResNet50, (3, 8, 36, 3) ResNet152: 60.19M parameters, 11.5G multiply-adds. The stride is in the
    3 x 3 convolution, as PyTorch has it (the paper's is in the first one, which saves 2%).
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
            if not i:  # the shortcut changes shape, too
                extra = square(4 * width, 1, stride).cost(image)
                parameters, operations = parameters + extra[0], operations + extra[1]
            image = result
            layers.append(Layer(f"conv{kind + 2}_{i + 1}", parameters, operations, image.numbers))
    return (*layers, dense("fc", image.channels, CLASSES))


def inception_v3() -> tuple[Layer, ...]:
    """Inception-V3 without the auxiliary classifier: Szegedy et al. (2016), Table 1; 23.83M parameters.

    The paper leaves channels within blocks open; these are those of its authors' published network, which PyTorch
    follows as well.
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
    for name, branches in _inception_blocks():
        costs = [chain_cost(image, branch) for branch in branches]
        channels = sum(result.channels for _, _, result in costs)
        if name.startswith("reduce"):  # beside the convolutions, what is pooled goes on as it is
            channels += image.channels
        image = costs[0][2]._replace(channels=channels)
        layers.append(Layer(name, sum(c[0] for c in costs), sum(c[1] for c in costs), image.numbers))
    return (*layers, dense("fc", image.channels, CLASSES))


def _inception_blocks() -> list[tuple[str, list[Branch]]]:
    """Names of the blocks, and their branches; the one with average pooling last."""
    blocks: list[tuple[str, list[Branch]]] = [
        (f"mixed35_{i + 1}", _mixed35(pool)) for i, pool in enumerate((32, 64, 64))
    ]
    halved = [square(64, 1), square(96, 3), square(96, 3, 2, valid=True)]
    blocks.append(("reduce35", [[square(384, 3, 2, valid=True)], halved]))
    blocks += [(f"mixed17_{i + 1}", _mixed17(width)) for i, width in enumerate((128, 160, 160, 192))]
    last = square(192, 3, 2, valid=True)
    halved = [square(192, 1), Convolution(192, 1, 7), Convolution(192, 7, 1), last]
    blocks.append(("reduce17", [[square(192, 1), square(320, 3, 2, valid=True)], halved]))
    return [*blocks, ("mixed8_1", _mixed8()), ("mixed8_2", _mixed8())]


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
