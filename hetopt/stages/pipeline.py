"""The stages of a job as arrays: computation, bytes between stages, bytes reduced among replicas."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import expect, known
from hetopt.data.array_types import Numbers
from hetopt.data.entities import read_only
from hetopt.data.rationals import exact_fractions
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, Item


@dataclass(frozen=True, eq=False)
class Pipeline:
    """S stages of one job on GPUs of one type [ASRPT, section III].

    Attributes
    ----------
    name:
        Name of the job.
    replicas, slices:
        (S,) data-parallel copies k_s, and GPUs of one server that each copy needs.
    forward, backward:
        (S,) seconds of one iteration in one replica.
    parameters:
        (S,) bytes h_s that the replicas reduce.
    outputs:
        (S,) bytes d_out from each replica to the next stage; that of the last stage has no effect.
    slice_bytes:
        (S,) bytes that the slices of a replica reduce.
    tokens:
        (S,) bytes that two replicas of the stage exchange, both ways together.
    """

    name: str
    replicas: NDArray[np.int64]
    slices: NDArray[np.int64]
    forward: Numbers
    backward: Numbers
    parameters: Numbers
    outputs: Numbers
    slice_bytes: Numbers
    tokens: Numbers

    @classmethod
    def of(cls, job: Job, gpu_type: str | None = None) -> Self:
        """The stages of ``job``; without any, it is one stage of ``demand`` replicas that exchange nothing.

        Parameters
        ----------
        gpu_type:
            GPU type: times are scaled by the throughput on the fastest type over that on this one (default: the
            fastest).

        Raises
        ------
        InvalidInstance
            Two consecutive stages exchange nothing, so the job graph is not connected; the job cannot run on the type.
        """
        fastest = max(expect(Job, job, "the job").throughput.values())
        speed = fastest if gpu_type is None else job.throughput[known(gpu_type, job.throughput, job.name, "GPU type")]
        if speed <= 0:
            path = ("jobs", Item(job.name), "throughput", Item(gpu_type or ""))
            raise InvalidInstance("is 0; it cannot run there", path)
        stages = job.stages or (Stage(job.demand, 1 / fastest, 0.0),)
        slower = fastest / speed
        _check_connected(job.name, stages)

        def column(key: str) -> Numbers:
            return np.array([getattr(stage, key) for stage in stages])

        return cls(
            job.name,
            column("replicas"),
            column("slices"),
            column("forward_s") * slower,
            column("backward_s") * slower,
            column("parameter_bytes"),
            column("output_bytes"),
            column("slice_bytes"),
            column("token_bytes"),
        )

    def __post_init__(self) -> None:
        for item in fields(self)[1:]:
            object.__setattr__(self, item.name, read_only(np.array(getattr(self, item.name))))

    def __len__(self) -> int:
        return len(self.replicas)

    def exact(self) -> Pipeline:
        """The same with every float as a fraction."""
        made: dict[str, Any] = {item.name: exact_fractions(getattr(self, item.name)) for item in fields(self)[3:]}
        return replace(self, **made)

    @cached_property
    def gpus(self) -> int:
        """GPUs of the whole job, g_i."""
        return int((self.replicas * self.slices).sum())

    @cached_property
    def sliced(self) -> bool:
        """Whether some replica needs several GPUs of one server."""
        return bool((self.slices > 1).any())

    @cached_property
    def silent(self) -> bool:
        """Whether its GPUs exchange nothing, so that the placement has no effect."""
        exchanges = (self.reduced > 0).any() or (self.tokens > 0).any() or self.sliced
        return len(self) == 1 and not exchanges

    @cached_property
    def slice_counts(self) -> tuple[int, ...]:
        """The slices as plain numbers."""
        return tuple(self.slices.tolist())

    @cached_property
    def computing(self) -> Numbers:
        """(S,) seconds of computation in one iteration, [ASRPT, eq. 4]."""
        return self.forward + self.backward

    @cached_property
    def reduced(self) -> Numbers:
        """(S,) bytes that each replica sends in the AllReduce, ``2 (k-1)/k h``."""
        return 2 * (self.replicas - 1) * self.parameters / self.replicas

    @cached_property
    def links(self) -> Numbers:
        """(S, S) bytes between a replica of one stage and one of another in an iteration, both directions together.

        ``2 d_out[s] / k[s+1] = 2 d_in[s+1] / k[s]`` between neighbours [ASRPT, section IV-B]; tokens on the diagonal.
        """
        links = np.diag(self.tokens)
        before = np.arange(len(self) - 1)
        links[before, before + 1] = links[before + 1, before] = 2 * self.outputs[:-1] / self.replicas[1:]
        return links

    @cached_property
    def exchanged(self) -> Numbers:
        """(S,) bytes that a replica exchanges with all others, including tokens to itself."""
        result: Any = self.links @ self.replicas
        return np.asarray(result)


def _check_connected(name: str, stages: tuple[Stage, ...]) -> None:
    for i, stage in enumerate(stages[:-1]):
        if stage.output_bytes == 0:
            raise InvalidInstance(
                f"is 0, so it exchanges nothing with stages[{i + 1}] and the job's graph is not connected; "
                "give the bytes of its output, or split it into two jobs",
                ("jobs", Item(name), "stages", i, "output_bytes"),
            )
