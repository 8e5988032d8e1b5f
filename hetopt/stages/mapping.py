"""Which replica goes to a GPU of which server, and what that costs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import expect, shown
from hetopt.data.entities import read_only
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance, InvalidPlan
from hetopt.programs.point import Status
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.job_graph import JobGraph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass(frozen=True, eq=False)
class GPUMapping:
    """The replicas of one job on servers.

    Attributes
    ----------
    graph, servers:
        What is placed, and where there is room.
    server:
        (V,) position of the server of each vertex.
    timing:
        How long an iteration takes.
    method:
        Who made it.
    bound:
        What the method has proven about its objective, seconds or bytes; None where it proves nothing.
    status:
        ``"optimal"``, ``"gap"`` or ``"time_limit"`` where something is proven, else ``"heuristic"``.
    seconds:
        Time taken to find it.
    minimises:
        What the bound is about: the iteration's ``"seconds"``, or the ``"bytes"`` between servers.

    Raises
    ------
    InvalidPlan
        A server gets more than it has free, or a vertex is on none of them.
    """

    graph: JobGraph
    servers: Servers
    server: NDArray[np.int64]
    timing: Timing = field(default_factory=Asynchronous)
    method: str = ""
    bound: float | None = None
    status: Status | str = "heuristic"
    seconds: float = 0.0
    minimises: Literal["seconds", "bytes"] = "seconds"

    def __post_init__(self) -> None:
        where = np.array(self.server)
        if where.shape != (len(self.graph),) or (where < 0).any() or (where >= len(self.servers)).any():
            raise InvalidPlan(f"the mapping of {self.graph.pipeline.name!r} must name a server for every replica")
        object.__setattr__(self, "server", read_only(where))
        used = np.bincount(where, weights=self.graph.size, minlength=len(self.servers))
        for m in np.flatnonzero(used > self.servers.free).tolist():
            raise InvalidPlan(
                f"the mapping of {self.graph.pipeline.name!r} uses {used[m]:g} GPUs of {self.servers.names[m]!r}; "
                f"{self.servers.free[m]} are free"
            )

    @cached_property
    def replicas(self) -> NDArray[np.int64]:
        """(S, M) replicas of each stage on each server."""
        return self.graph.counts(self.server, len(self.servers))

    @cached_property
    def iteration_seconds(self) -> Any:
        """alpha: seconds of one iteration."""
        return self.timing(self.graph.pipeline, self.replicas, self.servers)[()]

    @cached_property
    def cut_bytes(self) -> Any:
        """Bytes between servers in one iteration: the weight of the cut."""
        return self.graph.cut(self.server)

    @property
    def gap(self) -> float | None:
        """Part of the iteration's seconds (or of the bytes cut) that the bound leaves open; None without a bound."""
        if self.bound is None:
            return None
        value = float(self.iteration_seconds if self.minimises == "seconds" else self.cut_bytes)
        return max(0.0, 1 - float(self.bound) / value) if value > 0 else 0.0

    @property
    def table(self) -> pd.DataFrame:
        """(stages, servers) replicas; servers that get none are left out."""
        used = np.flatnonzero(self.replicas.any(axis=0))
        index = pd.Index(range(1, len(self.graph.pipeline) + 1), name="stage")
        columns = pd.Index([self.servers.names[m] for m in used], name="server")
        return pd.DataFrame(self.replicas[:, used], index=index, columns=columns)

    @property
    def where(self) -> dict[str, str]:
        """Vertex, such as ``S1-R1`` -> server."""
        return {v: self.servers.names[m] for v, m in zip(self.graph.labels, self.server.tolist(), strict=True)}

    def __repr__(self) -> str:
        return (
            f"GPUMapping({self.graph.pipeline.name!r}, {self.method}: {self.iteration_seconds:g} s per iteration, "
            f"{self.cut_bytes:g} bytes cut)\n{self.table}"
        )


class Mapper(Protocol):
    """Maps the replicas of a job to GPUs of servers."""

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; the servers may have more free GPUs than the job needs."""
        ...


def answered(mapping: object) -> GPUMapping:
    """What a mapper has answered; :class:`InvalidPlan` where that is no mapping."""
    if not isinstance(mapping, GPUMapping):
        raise InvalidPlan(f"the mapping method has answered {shown(mapping)}; it must return a GPUMapping")
    return mapping


def check_room(pipeline: Pipeline, servers: Servers) -> None:
    """Raise :class:`InvalidInstance` where the servers cannot have room for the job, whatever the mapping."""
    if isinstance(pipeline, Job):
        raise InvalidInstance(f"the pipeline is the job {pipeline.name!r}; give Pipeline.of(job)")
    expect(Pipeline, pipeline, "the pipeline")
    expect(Servers, servers, "servers")
    if pipeline.gpus > servers.total:
        raise InvalidInstance(f"job {pipeline.name!r} needs {pipeline.gpus} GPUs; {servers.total} are free")
    largest, most = int(pipeline.slices.max()), int(servers.free.max())
    if largest > most:
        s = int(pipeline.slices.argmax())
        raise InvalidInstance(
            f"a replica of stage {s + 1} of job {pipeline.name!r} is sliced over {largest} GPUs of one server; "
            f"no server has more than {most} free"
        )


def in_order(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(V,) servers for (S, M) counts: neighbours in a ring stay together, so each stage's ring is cut least."""
    servers = np.arange(counts.shape[1])
    return np.concatenate([np.repeat(servers, row) for row in counts])


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """So far."""
        return time.perf_counter() - self._began
