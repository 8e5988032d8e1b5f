"""The decision of a round: from the cluster's state to an instance, from the answer of the policy to targets."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import Any

from hetopt.checks import counted
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Tenant, slowest
from hetopt.decisions.system import DecisionSteps, OnChange, System, with_settings
from hetopt.errors import InvalidPlan
from hetopt.executor.cluster_state import ClusterState
from hetopt.executor.connection import Row
from hetopt.executor.engines.engine import Node
from hetopt.executor.job_file import JobSpec
from hetopt.executor.leases import OpenLease
from hetopt.executor.node_monitor import capacity_of
from hetopt.executor.queue import spec_of
from hetopt.executor.speeds import Estimator, Speeds, allowed_types, memory_of
from hetopt.formulations.traits import traits_of
from hetopt.results.allocation import Placement
from hetopt.stages.speed_models import StageSpeeds

UNDONE = 0.5
"""Least number of steps that an unfinished job has left for a policy: its last may be done, but not sealed."""

SPEED_FACTOR = 1.2
"""A policy whose result is reused in later rounds is asked again once a measured speed changes by this factor."""


@dataclass(frozen=True)
class Target:
    """What one copy of a job is to have.

    Parameters
    ----------
    job:
        Its number.
    copy:
        0 for a job that is not forked, else from 1.
    seats:
        Node -> GPU type -> number of GPUs.
    work:
        Of a forked copy: its part of the steps, in any unit; None for a job that is not forked.
    """

    job: int
    copy: int
    seats: Mapping[str, Mapping[str, int]]
    work: float | None = None

    @property
    def forked(self) -> bool:
        """Whether it is a copy of a forked job."""
        return self.work is not None


@dataclass(frozen=True)
class RoundDecision:
    """The result of a round.

    Parameters
    ----------
    targets:
        What is to run where.
    memory, stored:
        State of the policy for the next round, and its form in the state database, which only controllers write.
    waits:
        Number of a job that gets no GPUs -> why, where the policy has a reason.
    wake:
        Second at which the policy decides again if nothing happens before.
    gpus:
        Number of GPUs that are given.
    seconds:
        Duration of the decision.
    borrowers:
        Numbers of the jobs that run on GPUs which their tenant borrows.
    """

    targets: list[Target]
    memory: Any
    stored: bytes
    waits: Mapping[int, str | None]
    wake: float = math.inf
    gpus: int = 0
    seconds: float = 0.0
    borrowers: Collection[int] = ()


def fitted(system: System, round_seconds: float | None, restart_seconds: float | None) -> System:
    """The system with the length of a round and the measured cost of a restart, where its policy has such settings.

    FFT's penalty for switching is then the measured cost [FFT, section 4.2.3].
    """
    policy: Any = system.policy
    if isinstance(policy, OnChange) and policy.factor is None:
        policy = replace(policy, factor=SPEED_FACTOR)
    settings = {} if round_seconds is None else {"round_seconds": round_seconds}
    called = policy.policy if isinstance(policy, OnChange) else policy
    cost = getattr(called, "restart_seconds", None) if restart_seconds is None else restart_seconds
    if cost is not None:  # as long as a round it would forbid every move
        length = round_seconds or traits_of(policy).round_seconds or math.inf
        settings["restart_seconds"] = min(cost, 0.9 * length)
    return replace(system, policy=with_settings(policy, **settings))


def cluster_of(nodes: Iterable[Node], types: Sequence[str] = ()) -> Cluster | None:
    """The cluster of these nodes; None where they have no GPU.

    Parameters
    ----------
    types:
        GPU types that it has in any case, first: those of nodes that are down, which memories of policies may have.
    """
    nodes = [node for node in nodes if node.seats]
    if not nodes:
        return None
    memory = memory_of(nodes)
    every = dict.fromkeys([*types, *capacity_of(nodes)])
    servers = tuple(Server(node.name, node.gpus) for node in nodes)
    return Cluster(tuple(GPUType(t, memory.get(t)) for t in every), servers)


@dataclass(frozen=True)
class RoundDecider:
    """Requests decisions of a policy.

    Parameters
    ----------
    system:
        The policy with its rounds, rounding and placement.
    estimator:
        Speeds of jobs where they were not measured.
    """

    system: System
    estimator: Estimator

    @cached_property
    def steps(self) -> DecisionSteps:
        """The policy and the steps after it."""
        return self.system.steps(traits_of(self.system.policy).speeds or StageSpeeds())

    @cached_property
    def _mixes(self) -> bool:
        """Whether a gang may be larger than every GPU type."""
        return self.steps.mixes

    def decide(self, state: ClusterState, memory: Any = None) -> RoundDecision:
        """The targets of a round, with the memory from the last one."""
        instance, waits = self.instance(state)
        if instance is None:
            return RoundDecision([], memory, pickle.dumps(memory), waits)
        began = time.perf_counter()
        decision, memory = self.steps(instance, memory)
        placement = decision.placement
        assert placement is not None, "the system places no jobs"
        ids = {row["name"]: row["id"] for row in state.jobs}
        targets = targets_of(placement, ids, {job.name for job in instance.jobs if job.copies == 1})
        seconds = time.perf_counter() - began
        waits |= {ids[name]: str(why) for name, why in placement.waiting.items()}
        wake = math.inf if decision.wake is None else decision.wake
        gpus = int(decision.gpus.sum())
        named = () if decision.plan is None else decision.plan.borrowers
        borrowers = sorted({target.job for target in targets} & {ids[name] for name in named})
        return RoundDecision(targets, memory, pickle.dumps(memory), waits, wake, gpus, seconds, borrowers)

    def instance(self, state: ClusterState) -> tuple[Instance | None, dict[int, str | None]]:
        """The instance for the policy, None where no job can be scheduled; and why jobs are not in it.

        It has no sizes of checkpoints: the measured cost of a restart includes their transfer.
        """
        waits: dict[int, str | None] = dict.fromkeys(self.unable(state))
        cluster, memory, jobs, done = cluster_of(state.nodes, state.gpu_types), memory_of(state.nodes), [], {}
        if cluster is None:
            return None, waits
        types = cluster.type_names
        speed = speeds_of(state.jobs, state.speeds, types, self.estimator)
        for row in state.jobs:
            if row["id"] in waits:
                continue
            spec = spec_of(row)
            allowed = allowed_types(spec, state.speeds.of(row["id"]), memory, types)
            rates = {t: speed[spec.name].get(t, 0.0) if t in allowed else 0.0 for t in types}
            if self._most(cluster.capacity, [t for t, rate in rates.items() if rate > 0]) < spec.workers:
                waits[row["id"]] = "the estimator gives it no speed on enough of the GPUs that it may use"
                continue
            jobs.append(job_of(row, spec, rates, checkpoint_bytes=0.0))
            done[spec.name] = min(state.steps_done(row), spec.steps - UNDONE)
        if not jobs:
            return None, waits
        placed = _placed(state.training, {job.name for job in jobs}, cluster)
        return with_tenants(cluster, jobs, time=state.now, done=done, placed=placed), waits

    def unable(self, state: ClusterState) -> dict[int, str]:
        """Number of a job -> why the nodes cannot run it now, whatever the policy decides."""
        there, found = capacity_of(state.nodes), dict[int, str]()
        if not there:
            return dict.fromkeys((row["id"] for row in state.jobs), _no_gpus(state))
        memory, types = memory_of(state.nodes), state.gpu_types
        for row in state.jobs:
            spec = spec_of(row)
            allowed = allowed_types(spec, state.speeds.of(row["id"]), memory, types)
            if self._most(there, allowed) < spec.workers:
                found[row["id"]] = self._too_few(spec, allowed, there, state)
        return found

    def _most(self, capacity: Mapping[str, int], types: Collection[str]) -> int:
        """Largest number of GPUs for a gang."""
        there = [capacity.get(t, 0) for t in types]
        return sum(there) if self._mixes else max(there, default=0)

    def _too_few(self, spec: JobSpec, allowed: Collection[str], there: Mapping[str, int], state: ClusterState) -> str:
        """Why a job cannot have its GPUs, now or ever."""
        if spec.gpu_types is not None and not set(spec.gpu_types) & set(state.gpu_types):
            return f"no node has a GPU of its gpu_types ({', '.join(spec.gpu_types)})"
        if not allowed:
            return "no GPU type that it may use has enough memory; submit it with less memory, or with other gpu_types"
        ever = self._most(state.all_gpus, allowed) >= spec.workers
        have = {t: (there if ever else state.all_gpus).get(t, 0) for t in allowed}
        listed = " + ".join(f"{number} {t}" for t, number in have.items())
        mixed = ", and this policy gives a job GPUs of one type" if sum(have.values()) >= spec.workers else ""
        need = f"it needs {counted(spec.workers, 'GPU')}; of those that it may use"
        if ever:
            return f"{need} {listed} are available{mixed}; the others are drained, down or in use outside hetopt"
        return f"{need} the cluster has {listed}{mixed}; submit it with fewer workers"


def _no_gpus(state: ClusterState) -> str:
    """Why no job can have a GPU."""
    if not state.nodes:
        return "all nodes are drained or down, see their notes; `hetopt drain NODE --undo` ends a drain by hetopt"
    if not state.all_gpus:
        return "no node reports a GPU; see the nodes' notes in hetopt status"
    return (
        "no GPU is available: all are in use outside hetopt, did not start a job in time, or may still run a lost job; "
        "see the nodes' notes in hetopt status"
    )


def speeds_of(
    jobs: Sequence[Row], speeds: Speeds, types: Sequence[str], estimator: Estimator
) -> Mapping[str, Mapping[str, float]]:
    """Job -> GPU type -> steps per second, measured or estimated."""
    specs = {row["name"]: spec_of(row) for row in jobs}
    measured = {row["name"]: speeds.rates(row["id"]) for row in jobs}
    own = {name: {t: v for t, v in rates.items() if t in types} for name, rates in measured.items()}
    if all(set(types) <= set(rates) for rates in own.values()):
        return own  # without the estimator, which may be code of users
    estimated = estimator({name: spec.estimate.model_dump() for name, spec in specs.items()}, own, types)
    return {name: {**estimated[name], **own[name]} for name in specs}


def job_of(row: Row, spec: JobSpec, rates: Mapping[str, float], checkpoint_bytes: float | None = None) -> Job:
    """A job for policies, with these speeds; ``checkpoint_bytes``: None: as in the row."""
    return Job(
        spec.name,
        rates,
        float(spec.steps),
        spec.workers,
        float(row["submitted"]),
        spec.tenant,
        spec.weight,
        memory_bytes=spec.memory,
        checkpoint_bytes=(row["checkpoint_bytes"] or 0.0) if checkpoint_bytes is None else checkpoint_bytes,
        job_type=spec.model or "jobs",
        model=spec.model,
        utility=spec.utility,
        deadline=None if spec.deadline is None else row["submitted"] + spec.deadline,
        copies=None if spec.fork else 1,
    )


def _placed(
    leases: Iterable[OpenLease], names: Collection[str], cluster: Cluster
) -> dict[str, dict[str, dict[str, int]]]:
    """Job -> node -> GPU type -> GPUs, of leases whose GPUs are there; not of those that wait for GPUs of others."""
    placed: dict[str, dict[str, dict[str, int]]] = {}
    left = {(server.name, t): n for server in cluster.servers for t, n in server.gpus.items()}
    for lease in sorted(leases, key=lambda lease: lease.running is None):
        wanted = {(node, t): n for node, gpus in lease.held.items() for t, n in gpus.items()}
        if lease.job in names and all(left.get(key, 0) >= n for key, n in wanted.items()):
            placed.setdefault(lease.job, {}).update({node: dict(gpus) for node, gpus in lease.held.items()})
            left |= {key: left[key] - n for key, n in wanted.items()}
    return placed


def with_tenants(cluster: Cluster, jobs: Sequence[Job], **state: Any) -> Instance:
    """The instance of these jobs and their tenants, each with a job type for each model that it trains.

    A job type's speedups are the means of its jobs', over the slowest type that runs them. In an instance tenants and
    jobs share their names; a tenant that is called like a job gets a prime.
    """
    names = distinct((str(job.tenant) for job in jobs), (job.name for job in jobs))
    renamed = tuple(replace(job, tenant=names[str(job.tenant)]) for job in jobs)
    return Instance(cluster, _tenants(renamed), renamed, **state)


def distinct(tenants: Iterable[str], jobs: Iterable[str]) -> dict[str, str]:
    """Tenant -> its name in an instance, so that all names differ."""
    taken, names = set(jobs), dict[str, str]()
    for tenant in dict.fromkeys(tenants):
        name = tenant
        while name in taken:
            name += "'"
        names[tenant] = name
        taken.add(name)
    return names


def _tenants(jobs: Iterable[Job]) -> tuple[Tenant, ...]:
    own: dict[str, dict[str, list[Job]]] = {}
    for job in jobs:
        own.setdefault(str(job.tenant), {}).setdefault(str(job.job_type), []).append(job)
    return tuple(Tenant(name, tuple(starmap(_job_type, kinds.items()))) for name, kinds in own.items())


def _job_type(name: str, jobs: Sequence[Job]) -> JobType:
    speeds = [(job.throughput, slowest(job.throughput)) for job in jobs]
    mean = {t: sum(own[t] / least for own, least in speeds) / len(jobs) for t in jobs[0].throughput}
    return JobType(name, mean, min(job.memory_bytes for job in jobs), any_scale=True)


def targets_of(placement: Placement, ids: Mapping[str, int], never_forked: Collection[str]) -> list[Target]:
    """The targets of a placement; the copies of a forked job are numbered from 1, in the order of the servers.

    Parameters
    ----------
    never_forked:
        Jobs that are never forked: a single copy of one is the job itself, and continues from round to round.

    Raises
    ------
    InvalidPlan
        The parts of work of copies are negative, infinite, or all 0.
    """
    targets = []
    for name, hosts in placement.hosts.items():
        if name in placement.waiting:
            continue
        seats = {server: {t: int(n) for t, n in gpus.items() if n} for server, gpus in hosts.items()}
        seats = {server: gpus for server, gpus in seats.items() if gpus}
        if name in placement.dispatch and name not in never_forked:
            parts = [float(work) for work in placement.dispatch[name].values()]
            if not (min(parts) >= 0 and 0 < math.fsum(parts) < math.inf):
                raise InvalidPlan(f"{name}: its copies are to do {parts} of its work")
            for i, (server, work) in enumerate(placement.dispatch[name].items(), start=1):
                targets.append(Target(ids[name], i, {server: seats[server]}, float(work)))
        elif seats:
            targets.append(Target(ids[name], 0, seats))
    return targets


def shares(steps: int, work: Sequence[float]) -> list[int]:
    """Whole parts of ``steps`` in proportion to ``work``, that sum to it; the largest remainders are rounded up."""
    total = math.fsum(work)
    ideal = [steps * part / total for part in work]
    parts = [math.floor(part) for part in ideal]
    order = sorted(range(len(work)), key=lambda i: parts[i] - ideal[i])
    for i in order[: steps - sum(parts)]:
        parts[i] += 1
    return parts
