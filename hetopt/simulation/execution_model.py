"""Rates of jobs on their GPUs, and the time and work that they lose by starting, moving and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import HeldGPUs, Hosts, held_gpus
from hetopt.data.instance import Instance
from hetopt.data.packing import parts_of
from hetopt.decisions.system import Decision, JobCopy, copy_rate
from hetopt.simulation.environment import Environment
from hetopt.stages.speed_models import Rate, SpeedModel
from hetopt.tolerances import WORK


@dataclass(frozen=True)
class JobPlacement:
    """The GPUs that a decision gives to one job.

    Attributes
    ----------
    gpus:
        (k,) GPUs of each type; half of those that it shares with another job.
    where:
        (server, GPU type) -> GPUs on which it runs; the server is "" if none was chosen.
    hosts:
        Server -> GPU type -> GPUs on which it runs; empty if no server was chosen.
    replicas:
        Server -> replicas of each stage; empty without a mapping.
    partner:
        Position of the job with which it shares its GPUs, or None.
    """

    gpus: Floats
    where: HeldGPUs
    hosts: Hosts = field(default_factory=dict)
    replicas: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    partner: int | None = None

    @cached_property
    def counted(self) -> HeldGPUs:
        """As ``where``, with half of the GPUs that it shares."""
        return self.where if self.partner is None else {place: n / 2 for place, n in self.where.items()}

    @cached_property
    def alone(self) -> JobPlacement:
        """The same GPUs without another job."""
        return self if self.partner is None else replace(self, gpus=2 * self.gpus, partner=None)

    @cached_property
    def type_positions(self) -> tuple[int, ...]:
        """Positions of its GPU types."""
        return tuple(np.flatnonzero(self.gpus > 0).tolist())


class ExecutionModel:
    """Rates and losses of jobs, by their position in the instance."""

    def __init__(self, instance: Instance, environment: Environment, speeds: SpeedModel, fluid: bool) -> None:
        self.cluster: Cluster = instance.cluster
        self.jobs, self.entities = instance.jobs, instance.entities("jobs")
        self.environment, self.fluid, self.speeds = environment, fluid, speeds
        self.rate_of: Rate = speeds.on(instance.cluster)
        self.merge_seconds: float = getattr(environment.overheads, "merge_seconds", 0.0)
        self.disks = None if environment.datasets is None else environment.datasets.on(instance.cluster)
        self.packing_table = instance.packing_table
        self._places: dict[object, JobPlacement] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "rate_of"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.rate_of = self.speeds.on(self.cluster)  # a function, with caches that depend on identities

    def place(self, decision: Decision, row: int) -> JobPlacement:
        """The GPUs of the job in that row of the decision."""
        gpus, name = decision.gpus[row], decision.entities.names[row]
        if name in decision.packed:
            return self._shared(decision, row, self.entities.position[decision.packed[name]])
        if decision.placement is None:
            return self._by_type(gpus)
        hosts, replicas = decision.placement.hosts[name], decision.placement.replicas.get(name, {})
        if len(hosts) > 1 or replicas:
            return JobPlacement(gpus, held_gpus(hosts), hosts, replicas)
        ((server, own),) = hosts.items()
        key = server, *own.items()
        if key not in self._places:
            self._places[key] = JobPlacement(gpus.copy(), held_gpus(hosts), hosts)
        return self._places[key]

    def _shared(self, decision: Decision, row: int, partner: int) -> JobPlacement:
        """The GPUs that a job shares with its ``partner``."""
        gpus, placed = decision.gpus[row], decision.placement
        if placed is None:
            return replace(self._by_type(2 * gpus), gpus=gpus.copy(), partner=partner)
        name = decision.entities.names[row]
        hosts = placed.hosts[name]
        return JobPlacement(gpus.copy(), held_gpus(hosts), hosts, placed.replicas.get(name, {}), partner)

    def _by_type(self, gpus: Floats) -> JobPlacement:
        """GPUs by type, without servers."""
        key = gpus.tobytes()
        if key not in self._places:
            pairs = [(self.entities.types[k], float(gpus[k])) for k in np.flatnonzero(gpus).tolist()]
            place = JobPlacement(gpus.copy(), {("", t): int(n) if n.is_integer() else n for t, n in pairs})
            if self.fluid:  # fluid shares rarely repeat
                return place
            self._places[key] = place
        return self._places[key]

    def rate(self, i: int, place: JobPlacement) -> float:
        """Work per second of job i there."""
        if place.partner is not None:
            job, other = self.jobs[i], self.jobs[place.partner]
            parts = parts_of(self.packing_table, job.model, other.model, job.demand)
            (k,) = place.type_positions
            return self.rate(i, place.alone) * parts[self.entities.types[k]][0]
        speed = self.entities.task_speed
        if self.fluid:
            return float(speed[i] @ place.gpus) / float(self.entities.demand[i])
        if place.hosts:
            return self.rate_of(self.jobs[i], place.hosts, place.replicas)
        sizes = self.entities.other_sizes.get(i)
        if sizes and (own := sizes.get(int(place.gpus.sum()))) is not None:
            return float(own[list(place.type_positions)].min())
        return min([speed.item(i, k) for k in place.type_positions])

    def copy_rate(self, i: int, copy: JobCopy) -> float:
        """Work per second of one copy of job i, as of its slowest GPU."""
        return copy_rate(self.entities, i, copy.gpus)

    def start_seconds(self, i: int, before: HeldGPUs | None, place: HeldGPUs, time: float) -> float:
        """Seconds after ``time`` until job i trains on these GPUs; marks its dataset as used on their servers."""
        if self.fluid:
            return 0.0
        job = self.jobs[i]
        seconds = self.environment.overheads(job, before, place, self.cluster)
        if self.disks is not None:
            seconds += self.disks.enter(job, {server for server, _ in place}, time + seconds)
        return seconds

    def leave(self, i: int, place: HeldGPUs, time: float) -> None:
        """End the use of job i's dataset on the servers of these GPUs."""
        if self.disks is not None:
            self.disks.leave(self.jobs[i], {server for server, _ in place}, time)

    def undone(self, rate: float, trained: float) -> float:
        """Work since the last checkpoint of a job that has trained for ``trained`` seconds at ``rate``."""
        every = self.environment.checkpoint_seconds
        if every is None:
            return 0.0
        written = math.floor(trained / every * (1 + WORK))  # includes a checkpoint at this moment, despite rounding
        return rate * max(0.0, trained - written * every)
