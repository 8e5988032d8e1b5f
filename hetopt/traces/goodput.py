"""Goodput of data-parallel training: throughput by GPUs and batch size, times the part that counts [Pollux].

An iteration computes the gradients of the local batch m of each GPU, and averages them over K GPUs on N servers::

    T_compute = alpha_c + beta_c m
    T_network = 0                               for K = 1
                alpha_r + beta_r (K - 2)        for K > 1 on one server
                alpha_n + beta_n (K - 2)        on several servers
    T_iteration = s T_compute + (T_compute^gamma + T_network^gamma)^(1 / gamma)

with s local batches whose gradients are accumulated before. A batch of M examples counts as much as
``(1 + r) / (M0 / M + r)`` batches of M0, with r the noise of gradients: their variance over their square at M0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from hetopt.checks import at_least, whole
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidOption

BATCH_SIZES = 50
"""Batch sizes, evenly spaced in their logarithms, among which the best is taken, as in the code of Pollux."""


@dataclass(frozen=True)
class Goodput:
    """A trained model's goodput, from fitted times of iterations on one GPU type.

    Parameters
    ----------
    compute:
        alpha_c in seconds, beta_c in seconds per example.
    one_server, several_servers:
        alpha and beta of the network, in seconds and seconds per further GPU.
    overlap:
        gamma >= 1: 1 for no overlap of computing and network, infinite for a full one.
    batch_size, most:
        M0, the batch size whose iterations are the unit of work, and the largest one.
    local:
        Least and largest number of examples of one GPU at a time.
    noise:
        Variance of the gradients over their square, at M0.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    compute: tuple[float, float]
    one_server: tuple[float, float]
    several_servers: tuple[float, float]
    overlap: float
    batch_size: int
    most: int
    local: tuple[int, int]
    noise: float

    def __post_init__(self) -> None:
        for key in ("compute", "one_server", "several_servers"):
            for value in getattr(self, key):
                at_least(value, f"Goodput.{key}", 0.0, InvalidOption)
        at_least(self.overlap, "Goodput.overlap", 1.0, InvalidOption)
        at_least(self.noise, "Goodput.noise", 0.0, InvalidOption)
        whole(self.batch_size, "Goodput.batch_size", 1)
        whole(self.most, "Goodput.most", self.batch_size)
        whole(self.local[1], "Goodput.local", whole(self.local[0], "Goodput.local", 1))

    def seconds(self, gpus: int, servers: int, local: Floats, accumulated: Floats, faster: float = 1.0) -> Floats:
        """(b,) seconds of an iteration.

        Parameters
        ----------
        gpus, servers:
            K, the number of GPUs, and N, the number of servers on which they are.
        local, accumulated:
            (b,) examples of a GPU at a time, and how many such batches are accumulated before the last.
        faster:
            Speed at which the GPUs compute, relative to those of the fit; no unit.
        """
        compute = (self.compute[0] + self.compute[1] * local) / faster
        alpha, beta = self.several_servers if servers > 1 else self.one_server
        network = alpha + beta * max(gpus - 2, 0) if gpus > 1 else 0.0
        together = (compute**self.overlap + network**self.overlap) ** (1 / self.overlap)
        return np.asarray(accumulated * compute + together)

    def efficiency(self, batch: Floats) -> Floats:
        """(b,) progress per example with a batch size, relative to M0 [Pollux, eq. 6]."""
        return np.asarray((1 + self.noise) / (batch / self.batch_size + self.noise))

    def best(self, gpus: int, servers: int, faster: float = 1.0) -> tuple[float, int]:
        """The largest goodput, in iterations of M0 per second, and its batch size in examples; (0, 0) if impossible.

        The local batch is rounded up, as in AdaptDL, the public code of Pollux. So the batch size may exceed
        :attr:`most`, by less than an example for each local batch in it.

        Parameters
        ----------
        gpus, servers, faster:
            As of :meth:`seconds`.
        """
        least, largest = self.local
        first = max(self.batch_size, least * gpus)
        if first > self.most:
            return 0.0, 0
        share = np.geomspace(first, self.most, BATCH_SIZES) / gpus
        accumulated = np.ceil(np.round(share / largest, 9)) - 1
        local = np.ceil(np.round(share / (accumulated + 1), 9))
        batch = gpus * local * (accumulated + 1)
        rate = (
            batch / self.batch_size / self.seconds(gpus, servers, local, accumulated, faster) * self.efficiency(batch)
        )
        rate = np.where((least <= local) & (local <= largest), rate, 0.0)
        top = int(rate.argmax())
        return float(rate[top]), int(batch[top]) if rate[top] else 0


@cache
def best_of(model: Goodput, gpus: int, servers: int, faster: float) -> tuple[float, int]:
    """:meth:`Goodput.best`, cached: jobs of a trace have few models."""
    return model.best(gpus, servers, faster)


def gang_sizes(capacity: int, on_server: int) -> Iterable[int]:
    """Powers of two of GPUs below a whole server, then whole servers [Sia, section 3.2].

    Parameters
    ----------
    capacity:
        GPUs of all servers together.
    on_server:
        GPUs of a server, at least 1.
    """
    size = 1
    while size <= min(on_server - 1, capacity):
        yield size
        size *= 2
    yield from range(on_server, capacity + 1, on_server)
