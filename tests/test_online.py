"""Decisions of online policies: both interfaces refuse the same ones, by the job's name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hetopt
from hetopt import Cluster, Instance, InvalidPlan, Job, Placement, Plan, Stage
from hetopt.decisions.online import JobStart

STAGES = (Stage(1, 1, 0, output_bytes=1), Stage(1, 1, 0))
INSTANCE = Instance(
    Cluster.of({"GPU": 6}, gpus_per_server=2), jobs=(Job("j", {"GPU": 1.0}, work=2, demand=2, stages=STAGES),)
)


class Once:
    """Starts a job as soon as it is there."""

    wake = math.inf

    def __init__(self, start: JobStart) -> None:
        self.starts = [start]

    def arrive(self, time: float, job: Job) -> None:
        """Nothing to note."""

    def finish(self, time: float, job: Job) -> None:
        """Nothing to note."""

    def decide(self, time: float) -> list[JobStart]:
        starts, self.starts = self.starts, []
        return starts


@dataclass(frozen=True)
class Notified:
    """A policy that is notified of events."""

    start: JobStart

    def online(self, instance: Instance) -> Once:
        return Once(self.start)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        return Asked(self.start)(instance, state)


@dataclass(frozen=True)
class Asked:
    """The same, asked with the instance."""

    start: JobStart

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        x = np.array([[sum(gpus["GPU"] for gpus in self.start.hosts.values())]], dtype=float)
        placement = Placement({"j": self.start.hosts}, replicas={"j": self.start.replicas})
        return Plan(instance.entities("jobs"), x, placement=placement), None


INTERFACES = pytest.mark.parametrize("policy", [Notified, Asked])


@INTERFACES
def test_a_mapping_that_can_be_carried_out(policy: Any) -> None:
    """Two iterations of a second: side by side, the byte takes hardly any time; over the network card a bit more."""
    together = JobStart("j", {"gpu-0": {"GPU": 2}}, {"gpu-0": (1, 1)})
    apart = JobStart("j", {"gpu-0": {"GPU": 1}, "gpu-1": {"GPU": 1}}, {"gpu-0": (1, 0), "gpu-1": (0, 1)})
    ends = [hetopt.simulate(policy(start), INSTANCE).jobs.loc["j", "finish"] for start in (together, apart)]
    assert ends == pytest.approx([2 * (1 + 2 / 300e9), 2 * (1 + 2 / (1.25e9 / 2))])
    assert ends[0] < ends[1]


@INTERFACES
@pytest.mark.parametrize(
    ("hosts", "replicas", "message"),
    [
        ({"gpu-0": 1, "gpu-1": 1}, {"gpu-0": (1, 1)}, "'j' use 2 GPUs of server 'gpu-0'; it has 1 there"),
        ({"gpu-0": 2}, {"gpu-1": (1, 1)}, "'j' use 2 GPUs of server 'gpu-1'; it has 0 there"),
        ({"gpu-0": 2}, {"nowhere": (1, 1)}, "'j' use 2 GPUs of server 'nowhere'; it has 0 there"),
        ({"gpu-0": 2}, {"gpu-0": (2, 0)}, "'j' has 2 replicas of stage 1 placed; it has 1"),
        (
            {"gpu-0": 2},
            {"gpu-0": (2,)},
            "'j' has [2] replicas of its stages on server 'gpu-0'; it must have a number >= 0",
        ),
        ({"gpu-0": 2}, {"gpu-0": (3, -1)}, "'j' has [3, -1] replicas of its stages on server 'gpu-0'"),
    ],
)
def test_replicas_must_be_on_the_gpus_of_their_job(policy: Any, hosts: Any, replicas: Any, message: str) -> None:
    start = JobStart("j", {server: {"GPU": n} for server, n in hosts.items()}, replicas)
    with pytest.raises(InvalidPlan) as problem:
        hetopt.simulate(policy(start), INSTANCE)
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Placement({"j": {"gpu-0": {"GPU": 2}}, "k": {"gpu-1": {"GPU": 1}}}), "names job 'k', which the plan"),
        (Placement({"j": {"gpu-0": {"GPU": 2}}}, replicas={"k": {"gpu-0": (1, 1)}}), "names job 'k', which the plan"),
        (Placement({"j": {"nowhere": {"GPU": 2}}}), "uses 2 GPUs of 'GPU' on server 'nowhere'; it has 0"),
    ],
)
def test_a_placement_has_jobs_and_servers_that_are_there(placement: Placement, message: str) -> None:
    def policy(instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        return Plan(instance.entities("jobs"), np.array([[2.0]]), placement=placement), None

    with pytest.raises(InvalidPlan) as problem:
        hetopt.simulate(policy, INSTANCE)
    assert message in str(problem.value)


@INTERFACES
def test_no_server_gives_fewer_than_no_gpus(policy: Any) -> None:
    start = JobStart("j", {"gpu-0": {"GPU": -1}, "gpu-1": {"GPU": 2}, "gpu-2": {"GPU": 1}})
    with pytest.raises(InvalidPlan, match=r"job 'j' .*on -1 GPUs"):
        hetopt.simulate(policy(start), INSTANCE)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (JobStart("j", {"gpu-0": {"GPU": 3}, "gpu-1": {"GPU": -1}}), "on 3 GPUs 'GPU' of 'gpu-0'; free: 2"),
        (JobStart("j", {"nowhere": {"GPU": 2}}), "on 2 GPUs 'GPU' of 'nowhere'; free: 0"),
        (JobStart("j", {"gpu-0": {"GPU": 1}}), "'j' on 1 GPU; it runs on 2"),
        (JobStart("k", {"gpu-0": {"GPU": 2}}), "'k', which is not present"),
    ],
)
def test_gpus_must_be_there(start: JobStart, message: str) -> None:
    with pytest.raises(InvalidPlan) as problem:
        hetopt.simulate(Notified(start), INSTANCE)
    assert message in str(problem.value)
