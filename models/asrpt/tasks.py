"""Jobs as the schedulers of A-SRPT see them: their pipelines on each GPU type, and what an iteration takes at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, Item
from hetopt.models.asrpt.fleet import Fleet
from hetopt.stages.pipeline import Pipeline


@dataclass(frozen=True, eq=False)
class Choice:
    """A job on one GPU type.

    Attributes
    ----------
    fleet:
        Position of the type's fleet.
    pipeline:
        Its stages there.
    least, most:
        alpha~_min and alpha_max: seconds of one iteration on the fewest servers, and with all replicas apart.
    """

    fleet: int
    pipeline: Pipeline
    least: Any
    most: Any


@dataclass(frozen=True, eq=False)
class Task:
    """One job.

    Attributes
    ----------
    name:
        Of the job.
    gpus:
        g_i.
    choices:
        GPU types that it may run on, the fastest first.
    predicted:
        Iterations that it is expected to take, n~_i.
    """

    name: str
    gpus: int
    choices: tuple[Choice, ...]
    predicted: Any

    @property
    def seconds(self) -> Any:
        """Predicted duration, n~ alpha~_min, on its fastest type."""
        return self.predicted * self.choices[0].least


class Choices:
    """Makes :class:`Choice` objects; jobs of the same stages and speeds share them."""

    def __init__(self, cluster: Cluster, fleets: Sequence[Fleet | None]) -> None:
        """``fleets``: one for each GPU type of the cluster in order; None where it has no GPU of a type."""
        self.cluster, self.fleets = cluster, fleets
        self._kept: dict[tuple[Any, ...], tuple[tuple[Stage, ...], tuple[Choice, ...]]] = {}

    def of(self, job: Job) -> tuple[Choice, ...]:
        """The GPU types that ``job`` may run on, the fastest first, then in the cluster's order; none where those that
        it could run on have no GPUs now, say because servers are drained.

        Raises
        ------
        InvalidInstance
            None of them has room for it, however empty.
        """
        speeds = tuple(job.throughput.items())
        key = (id(job.stages) if job.stages else job.demand, speeds, job.memory_bytes)  # hashing stages takes long
        if key not in self._kept:
            self._kept[key] = job.stages, self._made(job)  # the stages are kept so that no others get their id
        return self._kept[key][1]

    def _made(self, job: Job) -> tuple[Choice, ...]:
        found, able = [], False
        for i, (t, fleet) in enumerate(zip(self.cluster.gpu_types, self.fleets, strict=True)):
            speed = job.throughput.get(t.name, 0.0)
            too_large = t.memory_bytes is not None and job.memory_bytes > t.memory_bytes
            if fleet is None or speed <= 0 or too_large:
                continue
            able = True
            if fleet.total < job.demand:
                continue
            pipeline = Pipeline.of(job, t.name)
            if (least := fleet.fewest(pipeline)) is not None:
                most = fleet.timing.most(pipeline, fleet.servers)
                found.append((-speed, i, Choice(i, pipeline, least, most)))
        if able and not found:
            raise InvalidInstance(
                f"needs {job.demand} GPUs of one type, and memory and servers for its stages; "
                "the cluster never has room for it",
                ("jobs", Item(job.name)),
            )
        return tuple(choice for *_, choice in sorted(found, key=lambda row: row[:2]))
