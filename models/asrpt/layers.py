"""What a network's layers cost: parameters, operations and what they hand on; how long they take on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetopt.data.entities import Numbers

BACKWARD = 2.0
"""Backwards, a layer does two products where it does one forwards: gradients of its inputs and of its parameters."""


@dataclass(frozen=True)
class Layer:
    """A layer, or a block that is not taken apart.

    Parameters
    ----------
    name:
        As its paper calls it.
    parameters:
        Trainable numbers.
    operations:
        Floating-point operations of one sample forwards: a multiplication and an addition are two. Products of
        matrices and convolutions only; what is element-wise (ReLU, normalisation, pooling) is left out.
    outputs:
        Numbers of one sample that the next layer needs.
    shared:
        Parameters of an earlier layer that this one uses again: a GPU needs a copy of them.
    """

    name: str
    parameters: int
    operations: int
    outputs: int
    shared: int = 0


@dataclass(frozen=True)
class Precision:
    """In which numbers a network is trained, and how fast a V100 is with them.

    Parameters
    ----------
    bytes_per_number:
        Of an activation, a parameter or a gradient that is sent, in bytes.
    bytes_per_parameter:
        Memory that a GPU needs for each parameter of its layers, in bytes.
    peak:
        Operations per second that the GPU can do at most.
    """

    bytes_per_number: float
    bytes_per_parameter: float
    peak: float


SINGLE = Precision(bytes_per_number=4, bytes_per_parameter=8, peak=15.7e12)
"""32 bits, parameters and gradients on the GPU, optimiser's state offloaded. Peak of a V100 with NVLink (its data
sheet). Assumed for image classification: it is the default of PyTorch."""

HALF = Precision(bytes_per_number=2, bytes_per_parameter=4, peak=125e12)
"""16 bits on tensor cores, parameters and gradients on the GPU, optimiser's state (and the 32-bit copy) offloaded. Peak
of a V100 with NVLink (its data sheet). Assumed for language models: GPT-175B was trained so."""


@dataclass(frozen=True)
class Network:
    """A network in training: its layers in order, and how a V100 trains it.

    Parameters
    ----------
    name:
        As in [ASRPT, Table I].
    layers:
        From input to output; what one hands on goes to the next only.
    mini_batch:
        Samples of one iteration [ASRPT, Table I].
    precision:
        Numbers used.
    efficiency:
        Part of the precision's peak that is reached.
    """

    name: str
    layers: tuple[Layer, ...]
    mini_batch: int
    precision: Precision
    efficiency: float

    @cached_property
    def parameters(self) -> int:
        """Trainable numbers, each once."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def operations(self) -> int:
        """Floating-point operations of one sample forwards."""
        return sum(layer.operations for layer in self.layers)

    @property
    def speed(self) -> float:
        """Operations per second of one GPU."""
        return self.precision.peak * self.efficiency

    @cached_property
    def work(self) -> Numbers:
        """(L,) operations of each layer for the whole mini-batch forwards; whole numbers, so that sums are exact."""
        return np.array([float(layer.operations * self.mini_batch) for layer in self.layers])

    @cached_property
    def parameter_bytes(self) -> Numbers:
        """(L,) bytes of the gradients of each layer, with those of shared parameters."""
        return np.array([(layer.parameters + layer.shared) * self.precision.bytes_per_number for layer in self.layers])

    @cached_property
    def memory_bytes(self) -> Numbers:
        """(L,) bytes that a GPU needs to train each layer; activations are not counted (recomputed, assumption)."""
        return np.array(
            [(layer.parameters + layer.shared) * self.precision.bytes_per_parameter for layer in self.layers]
        )

    @cached_property
    def output_bytes(self) -> Numbers:
        """(L,) bytes that each layer hands to the next for the whole mini-batch; the last one hands on nothing."""
        sent = self.mini_batch * self.precision.bytes_per_number
        return np.array([*(layer.outputs * sent for layer in self.layers[:-1]), 0.0])
