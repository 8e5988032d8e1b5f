"""The environment of a simulation as plain values, for the command line and stored files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hetopt.checks import at_least, choices, shown
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.simulation.datasets import LocalDisks
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.simulation.overheads import Overheads
from hetopt.simulation.profiling import Profiling
from hetopt.simulation.server_changes import ServerChange, failures
from hetopt.stages.speed_models import Spread


@dataclass(frozen=True)
class EnvironmentSettings:
    """A :class:`~hetopt.simulation.environment.Environment` in numbers; zero (or no) leaves a part out.

    Parameters
    ----------
    restart_seconds, resume_seconds, start_seconds, save_seconds, merge_seconds, transfer:
        As of :class:`~hetopt.simulation.overheads.Overheads`.
    spread:
        Gangs on several servers are slower, as measured (:class:`~hetopt.stages.speed_models.Spread`).
    spread_otherwise:
        Relative speed on several servers of models that were not measured; 1 for no loss.
    local_disks:
        Datasets must be on the servers' disks.
    disk_bytes:
        Size of every server's disk in bytes; 0: as in the cluster.
    source_bytes_per_s:
        Bandwidth from the repository of datasets to each server, in bytes/s; 0: limited by the network card only.
    evict_seconds, proactive:
        As of :class:`~hetopt.simulation.datasets.LocalDisks`.
    profiling_seconds:
        Length of a profiling run; 0 for none.
    throughput_error, work_error:
        Errors of the policies' estimates, see :class:`~hetopt.simulation.estimate_errors.EstimateErrors`.
    mtbf_hours, mttr_hours:
        Mean time until a server fails, and until it is repaired; 0: none fails.
    failing_hours:
        Hours from the beginning within which servers fail.
    checkpoint_seconds:
        Between checkpoints of training jobs; 0: nothing is lost when a server fails.
    liar, lie:
        A tenant that overstates its speedups, and the part by which it does (0.2: by 20 %); empty and 0: none.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    restart_seconds: float = 0.0
    resume_seconds: float = 0.0
    start_seconds: float = 0.0
    save_seconds: float = 0.0
    merge_seconds: float = 0.0
    transfer: bool = True
    spread: bool = False
    spread_otherwise: float = 1.0
    local_disks: bool = False
    disk_bytes: float = 0.0
    source_bytes_per_s: float = 0.0
    evict_seconds: float = 0.0
    proactive: bool = False
    profiling_seconds: float = 0.0
    throughput_error: float = 0.0
    work_error: float = 0.0
    mtbf_hours: float = 0.0
    mttr_hours: float = 1.0
    failing_hours: float = 24.0 * 7
    checkpoint_seconds: float = 0.0
    liar: str = ""
    lie: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            key, value = f"environment setting {item.name}", getattr(self, item.name)
            if isinstance(item.default, float):
                object.__setattr__(self, item.name, at_least(value, key, 0.0, InvalidOption))
            elif not isinstance(value, type(item.default)):
                wanted = "true or false" if isinstance(item.default, bool) else "a tenant's name"
                raise InvalidOption(f"is {shown(value)}; it must be {wanted}", key)
        if bool(self.liar) != bool(self.lie):
            raise InvalidOption(
                f"is {self.liar!r} and lie is {self.lie!r}; give both: the tenant, and the part by which it overstates",
                "environment setting liar",
            )
        key = "environment setting spread_otherwise"
        at_least(self.spread_otherwise, key, 0.0, InvalidOption, strict=True, most=1.0)
        if self.spread_otherwise != 1.0 and not self.spread:
            raise InvalidOption(f"is {self.spread_otherwise:g}, and spread is false; set spread=true too", key)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> EnvironmentSettings:
        """Settings from names and values.

        Raises
        ------
        InvalidOption
            An unknown name, or a number out of its range.
        """
        known = [item.name for item in fields(cls)]
        for key in settings:
            if key not in known:
                raise InvalidOption(f"there is no environment setting {key!r}; {choices(key, known)}")
        made = cls(**settings)
        made.build(Cluster.of({"GPU": 1}), 0)  # raises the errors of the parts
        return made

    def build(self, cluster: Cluster, seed: int) -> Environment:
        """The environment for a cluster; ``seed``: of errors and failures."""
        overheads = Overheads(**{item.name: getattr(self, item.name) for item in fields(Overheads)})
        source = self.source_bytes_per_s or float("inf")
        wrong = self.throughput_error or self.work_error or self.lie
        overstated = {self.liar: self.lie} if self.liar else {}
        changes: tuple[ServerChange, ...] = ()
        if self.mtbf_hours:
            hour = 3600.0
            changes = failures(cluster, self.mtbf_hours * hour, self.mttr_hours * hour, self.failing_hours * hour, seed)
        return Environment(
            overheads=overheads,
            speeds=Spread(otherwise=self.spread_otherwise) if self.spread else None,
            datasets=LocalDisks(source, self.evict_seconds, self.proactive) if self.local_disks else None,
            profiling=Profiling(self.profiling_seconds) if self.profiling_seconds else None,
            changes=changes,
            checkpoint_seconds=self.checkpoint_seconds or None,
            estimate_errors=EstimateErrors(self.throughput_error, self.work_error, seed, overstated) if wrong else None,
        )

    def check(self, instance: Instance) -> None:
        """Raise an error for settings that do not fit the instance.

        Raises
        ------
        InvalidOption
            ``liar`` is not a tenant; servers fail too often to be simulated.
        """
        environment = self.build(instance.cluster, 0)
        if environment.estimate_errors is not None:
            environment.estimate_errors.of(instance)

    def with_disks(self, cluster: Cluster) -> Cluster:
        """The cluster with disks of ``disk_bytes`` in all servers; unchanged if it is 0."""
        if not self.disk_bytes:
            return cluster
        return replace(cluster, servers=tuple(replace(s, disk_bytes=self.disk_bytes) for s in cluster.servers))

    def changed(self) -> dict[str, Any]:
        """Settings that are not the default."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) != item.default}
