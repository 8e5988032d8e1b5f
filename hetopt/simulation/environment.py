"""The environment of a simulation: costs of moving, speeds, disks, profiling, server failures, wrong estimates."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetopt.checks import at_least, check_no_classes, expect, shown
from hetopt.errors import InvalidOption
from hetopt.simulation.datasets import LocalDisks
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.simulation.overheads import Overhead, Overheads
from hetopt.simulation.profiling import Profiling
from hetopt.simulation.server_changes import ServerChange
from hetopt.stages.speed_models import SpeedModel


@dataclass(frozen=True)
class Environment:
    """The conditions of a simulation, which are the same for every policy.

    Parameters
    ----------
    overheads:
        Seconds lost by starting, resuming and moving.
    speeds:
        Work per second of jobs on their servers. Default: those of the policy's traits, else
        :class:`~hetopt.stages.speed_models.StageSpeeds`.
    datasets:
        Datasets on local disks; None: on shared storage, without cost.
    profiling:
        Short runs of new jobs; None: throughputs are known at arrival.
    changes:
        Servers that go down, come back or are added.
    checkpoint_seconds:
        Seconds between checkpoints of a training job. The work since the last one is lost when a server fails (and
        counted as ``wasted``); of a forked job, the work of the copy there since the last decision. None: nothing is
        lost. A job that a decision preempts loses no work.
    estimate_errors:
        Errors of the estimates that policies get of jobs.

    Raises
    ------
    InvalidOption
        A part of the wrong type, or a number out of its range.
    """

    overheads: Overhead = field(default_factory=Overheads)
    speeds: SpeedModel | None = None
    datasets: LocalDisks | None = None
    profiling: Profiling | None = None
    changes: tuple[ServerChange, ...] = ()
    checkpoint_seconds: float | None = None
    estimate_errors: EstimateErrors | None = None

    def __post_init__(self) -> None:
        for key, kind in (("datasets", LocalDisks), ("profiling", Profiling), ("estimate_errors", EstimateErrors)):
            if getattr(self, key) is not None:
                expect(kind, getattr(self, key), f"Environment.{key}", InvalidOption)
        check_no_classes(self, "overheads", "speeds")
        if not callable(self.overheads):
            raise InvalidOption(
                f"is {shown(self.overheads)}; it must be a function of jobs and their GPUs, such as Overheads()",
                "Environment.overheads",
            )
        object.__setattr__(self, "changes", tuple(self.changes))
        if self.checkpoint_seconds is not None:
            at_least(self.checkpoint_seconds, "Environment.checkpoint_seconds", 0.0, InvalidOption, strict=True)
