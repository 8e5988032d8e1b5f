"""Time of one iteration of a job, by the servers of its replicas: alpha of [ASRPT, section III-B].

A placement is a table of counts ``x[..., s, m]``: how many replicas of stage s are on server m. Leading dimensions are
any number of placements, all evaluated at once. If the numbers of the pipeline and of the servers are fractions, so is
the result.

Equations (5) and (6) are misprinted. With b = B_inter / g, the part of the card that comes with each GPU, and t slices
per replica, a replica on server m exchanges with others, each iteration, ::

    inside  = sum_r links[s, r] x[r, m]           bytes within the server (without tokens to itself)
    comm    = (exchanged - inside) / (t b) + inside / (t B_intra)
    reduce  = 2 (k-1)/k h / (x t b)    where x < k      (the server's x replicas share its part of the card)
            = 2 (k-1)/k h / (t B_intra) where x = k
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hetopt.checks import at_least, whole
from hetopt.data.array_types import Numbers
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


class IterationParts(NamedTuple):
    """(..., S, M) seconds of an iteration of each stage on each server; all zero where it has no replica there."""

    forward: Numbers
    backward: Numbers
    exchange: Numbers
    reduce: Numbers


class Timing(Protocol):
    """The time of an iteration, from the placement of replicas."""

    def __call__(self, pipeline: Pipeline, x: ArrayLike, servers: Servers) -> Numbers:
        """(...) seconds of one iteration, for (..., S, M) replicas ``x`` of the stages on the servers."""
        ...

    def most(self, pipeline: Pipeline, servers: Servers) -> Any:
        """alpha_max: seconds with every replica on a separate server, at the smallest bandwidths."""
        ...

    def least(self, pipeline: Pipeline, servers: Servers) -> Any:
        """Lower bound on the seconds of any placement: all at the largest bandwidth."""
        ...


class _TimingOfParts(ABC):
    """A :class:`Timing` that depends only on the parts of an iteration."""

    @abstractmethod
    def _seconds(self, part: IterationParts) -> Numbers:
        """(...) seconds of an iteration with these (..., S, M) parts."""

    def __call__(self, pipeline: Pipeline, x: ArrayLike, servers: Servers) -> Numbers:
        """(...) seconds of one iteration."""
        return self._seconds(parts(pipeline, x, servers))

    def most(self, pipeline: Pipeline, servers: Servers) -> Any:
        """alpha_max."""
        return self._seconds(scattered(pipeline, servers))[()]

    def least(self, pipeline: Pipeline, servers: Servers) -> Any:
        """Lower bound on the seconds of any placement."""
        return self._seconds(together(pipeline, servers))[()]


@dataclass(frozen=True)
class Asynchronous(_TimingOfParts):
    """The pipeline never waits: the slowest stage on any server determines the time [ASRPT, eq. 7].

    :meth:`least` <= alpha for every placement. alpha <= :meth:`most` where B_intra >= B_inter / g on all servers
    (:attr:`Servers.fast_inside`); elsewhere a placement can take longer. The same with overlap.

    Parameters
    ----------
    backward, reduce:
        Fractions of the backward computation and of the AllReduce that count, in [0, 1]: below 1 if the two overlap
        [ASRPT, section III-B]. A coefficient below 1 never lengthens an iteration.

    Raises
    ------
    InvalidOption
        A coefficient outside [0, 1].
    """

    backward: float = 1.0
    reduce: float = 1.0

    def __post_init__(self) -> None:
        for key in ("backward", "reduce"):
            at_least(getattr(self, key), f"Asynchronous.{key}", 0.0, InvalidOption, most=1.0)

    def _seconds(self, part: IterationParts) -> Numbers:
        part = _weighted(part, self.backward, self.reduce)
        return np.asarray((part.forward + part.backward + part.exchange + part.reduce).max(axis=(-2, -1)))


@dataclass(frozen=True)
class Synchronous(_TimingOfParts):
    """All stages finish an iteration before the next begins: a mini-batch passes through as micro-batches.

    All micro-batches pass forward through the pipeline, then backward, as in GPipe; each stage reduces after its last
    micro-batch. A flow shop of q equal jobs takes ``sum_s p_s + (q-1) max_s p_s``, so with F_s and B_s the time of one
    micro-batch in stage s (its share of computation and exchange, on the slowest of its servers) ::

        sum_s F_s + (q-1) max_s F_s + max_s { sum_{r>=s} B_r + (q-1) max_{r>=s} B_r + reduce_s }

    Exact for that schedule if exchange counts as work of the stage, and never below :class:`Asynchronous` with the same
    coefficients. The paper refers to the analytic model of its reference [20] without printing it; this model is our
    own.

    Parameters
    ----------
    micro_batches:
        q >= 1.
    backward, reduce:
        As in :class:`Asynchronous`.

    Raises
    ------
    InvalidOption
        Fewer than one micro-batch, or a coefficient outside [0, 1].
    """

    micro_batches: int = 8
    backward: float = 1.0
    reduce: float = 1.0

    def __post_init__(self) -> None:
        whole(self.micro_batches, "Synchronous.micro_batches", 1)
        for key in ("backward", "reduce"):
            at_least(getattr(self, key), f"Synchronous.{key}", 0.0, InvalidOption, most=1.0)

    def _seconds(self, part: IterationParts) -> Numbers:
        q, part = self.micro_batches, _weighted(part, self.backward, self.reduce)
        half: Any = Fraction(1, 2) if part.forward.dtype == object else 0.5  # 0 / 2 would be a float among fractions
        forward = (part.forward + part.exchange * half).max(axis=-1)
        backward = (part.backward + part.exchange * half).max(axis=-1)
        reduce = part.reduce.max(axis=-1)
        each: Any = Fraction(1, int(q)) if part.forward.dtype == object else 1 / q
        down = (forward.sum(axis=-1) + (q - 1) * forward.max(axis=-1)) * each
        back = backward[..., ::-1]
        through = (np.add.accumulate(back, axis=-1) + (q - 1) * np.maximum.accumulate(back, axis=-1)) * each
        return np.asarray(down + (through[..., ::-1] + reduce).max(axis=-1))


def _weighted(part: IterationParts, backward: float, reduce: float) -> IterationParts:
    """The parts times their coefficients, in fractions if the parts are."""
    if part.forward.dtype == object:
        return part._replace(backward=part.backward * Fraction(backward), reduce=part.reduce * Fraction(reduce))
    return part._replace(backward=part.backward * backward, reduce=part.reduce * reduce)


def parts(pipeline: Pipeline, x: ArrayLike, servers: Servers) -> IterationParts:
    """The parts of an iteration, for (..., S, M) replicas of the stages on the servers.

    Raises
    ------
    InvalidPlan
        The table has another shape, or not every replica is placed exactly once.
    """
    table = np.asarray(x)
    check_table(pipeline, table, servers)
    here = table > 0
    t = pipeline.slices[:, None]
    inside: Any = pipeline.links @ table
    per_gpu = t * servers.nic
    own = np.where(here, pipeline.tokens[:, None], 0)
    exchange = (pipeline.exchanged[:, None] - inside) / per_gpu + (inside - own) / (t * servers.intra)
    several = np.where(here, table, 1)
    k = pipeline.replicas[:, None]
    reduced = pipeline.reduced[:, None]
    reduce = np.where(table == k, reduced / (t * servers.intra), reduced / (several * per_gpu))
    return _where(here, pipeline, exchange + _slicing(pipeline, servers), reduce)


def _where(here: Any, pipeline: Pipeline, exchange: Numbers, reduce: Numbers) -> IterationParts:
    forward, backward = pipeline.forward[:, None], pipeline.backward[:, None]
    return IterationParts(*(np.where(here, value, 0) for value in (forward, backward, exchange, reduce)))


def _slicing(pipeline: Pipeline, servers: Servers) -> Numbers:
    """(S, M) seconds of the AllReduce among the slices of a replica."""
    t = pipeline.slices
    bytes_sent = 2 * (t - 1) * pipeline.slice_bytes / t
    return np.asarray(bytes_sent[:, None] / servers.intra)


def scattered(pipeline: Pipeline, servers: Servers) -> IterationParts:
    """(S, 1) parts with every replica alone on a server with the smallest bandwidths."""
    worst = (pipeline.slices * servers.nic.min())[:, None]
    alone = (pipeline.exchanged - pipeline.tokens)[:, None] / worst
    slicing = _slicing(pipeline, servers).max(axis=-1)[:, None]
    return _where(True, pipeline, alone + slicing, pipeline.reduced[:, None] / worst)


def together(pipeline: Pipeline, servers: Servers) -> IterationParts:
    """(S, 1) lower bounds on the parts of any placement: all at the largest bandwidth."""
    t, k = pipeline.slices, pipeline.replicas
    best = max(servers.intra.max(), servers.nic.max())
    exchange = (pipeline.exchanged - pipeline.tokens) / (t * best)
    slicing = _slicing(pipeline, servers).min(axis=-1)
    fastest = np.maximum(servers.intra.max(), np.maximum(k - 1, 1) * servers.nic.max())
    return _where(True, pipeline, (exchange + slicing)[:, None], (pipeline.reduced / (t * fastest))[:, None])


def check_table(pipeline: Pipeline, x: Numbers, servers: Servers) -> None:
    """Raise :class:`InvalidPlan` unless (..., S, M) ``x`` places every replica once, in whole numbers."""
    if x.shape[-2:] != (len(pipeline), len(servers)):
        wanted = (len(pipeline), len(servers))
        raise InvalidPlan(f"the placement of {pipeline.name!r} has shape {x.shape}; it must end in {wanted}")
    if not np.issubdtype(x.dtype, np.integer):
        raise InvalidPlan(f"the placement of {pipeline.name!r} holds {x.dtype}; it must hold whole numbers of replicas")
    if (x < 0).any() or (x.sum(axis=-1) != pipeline.replicas).any():
        raise InvalidPlan(
            f"the placement of {pipeline.name!r} has {x.sum(axis=-1).tolist()} replicas of its stages; "
            f"it must have {pipeline.replicas.tolist()}"
        )
