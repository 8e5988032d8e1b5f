"""Systems: a policy with the steps from its result to jobs on GPU types and servers.

``Allocation --rounder--> Plan --selection--> jobs' Plan --placer--> Placement``. Each decision is checked, so that the
simulator and the executor only get decisions that the cluster can carry out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_no_classes, check_round_seconds, counted
from hetopt.data.array_types import Floats
from hetopt.data.capacity import type_parts, unused_parts
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.gpu_locations import HeldGPUs, Hosts, held_gpus
from hetopt.data.instance import Instance
from hetopt.data.packing import parts_of
from hetopt.data.workload import Job
from hetopt.decisions.online import OnlinePolicy
from hetopt.decisions.placers import Placer
from hetopt.decisions.rounders import ByKind, Rounder, with_rounds
from hetopt.decisions.selection import LongestStarved, Selection
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.formulations.policies import Policy, call_policy, check_policy
from hetopt.formulations.traits import Traits, traits_of
from hetopt.results.allocation import Allocation, Placement, Plan, in_halves
from hetopt.stages.speed_models import SpeedModel, StageSpeeds
from hetopt.tolerances import EQUAL, FEASIBILITY, INTEGRAL

ROUND_SECONDS = 300.0
"""Length of a round of FFT [FFT, section 6.4.1] and OEF [OEF, section 6.1.1]; the default for policies without one."""

GAVEL_ROUND_SECONDS = 360.0
"""Length of a round of Gavel, and of Hadar's comparison with it [Hadar, section IV]."""


@dataclass(frozen=True)
class JobCopy:
    """One copy of a forked job: a whole gang on one server, with its part of the work until the next decision.

    Attributes
    ----------
    server:
        Server on which it runs.
    gpus:
        GPU type -> GPUs on that server.
    rate:
        Work per second.
    work:
        Work until the next decision (unit of ``Job.work``).
    """

    server: str
    gpus: Mapping[str, int]
    rate: float
    work: float

    @cached_property
    def where(self) -> HeldGPUs:
        """(server, GPU type) -> GPUs."""
        return held_gpus({self.server: self.gpus})


@dataclass(frozen=True, eq=False)
class Decision:
    """The GPUs, servers and rate of each job until the next decision.

    Attributes
    ----------
    entities:
        The jobs.
    gpus:
        (n, k) GPUs; whole gangs, or time averages where the decision is fluid.
    rate:
        (n,) work per second.
    placement:
        Servers; None where jobs only get GPU types.
    given_up:
        Losses of rounding, selection and placement, by name.
    wake:
        Second at which the policy decides again if nothing happens before; None: not specified.
    copies:
        Forked job -> its copies; their rates sum to its ``rate``.
    estimated:
        Tenant (or its job type) -> rate of its shares at the speeds that the policy sees, before rounding; None for
        policies over jobs.
    plan:
        The jobs' plan behind it; None where the decision is fluid.
    moves:
        Whether it may move a job: False once it was made for jobs that were placed as it places them.
    packed:
        Job -> the job with which it shares its GPUs, in both directions. Each has half of each of these GPUs.
    """

    entities: Entities
    gpus: Floats
    rate: Floats
    placement: Placement | None = None
    given_up: Mapping[str, float] = field(default_factory=dict)
    wake: float | None = None
    copies: Mapping[str, tuple[JobCopy, ...]] = field(default_factory=dict)
    estimated: Mapping[str, float] | None = None
    plan: Plan | None = field(default=None, repr=False)
    moves: bool = True
    packed: Mapping[str, str] = field(default_factory=dict)

    def same_gpus(self, other: Decision | None) -> bool:
        """Whether ``other`` gives the same jobs the same GPUs because it repeats this decision, or the reverse."""
        return other is not None and self.gpus is other.gpus and self.placement is other.placement


@dataclass(frozen=True)
class DecisionSteps:
    """A :class:`System` with its defaults resolved; ``steps(instance, state) -> (Decision, state)``.

    Parameters
    ----------
    policy:
        ``policy(instance, state) -> (Allocation | Plan, state)`` over tenants or jobs.
    rounder, selection, placer:
        The steps that follow; without a placer jobs get GPU types, but no servers. A policy that places jobs itself
        needs none.
    rounds:
        Whether decisions are made in rounds of equal length, as rounding requires.
    fluid:
        Run the shares of jobs as rates, without rounding.
    speeds:
        Work per second where stages are mapped to servers.
    """

    policy: Policy
    rounder: Rounder = field(default_factory=ByKind)
    selection: Selection = field(default_factory=LongestStarved)
    placer: Placer | None = None
    rounds: bool = True
    fluid: bool = False
    speeds: SpeedModel = field(default_factory=StageSpeeds)

    @property
    def places(self) -> bool:
        """Whether jobs get servers."""
        return self.placer is not None or isinstance(self.policy, OnlinePolicy) or traits_of(self.policy).places

    @property
    def mixes(self) -> bool:
        """Whether a gang may be larger than every GPU type: its GPUs are then of several types."""
        return traits_of(self.policy).mixes or (traits_of(self.selection).mixes and traits_of(self.rounder).mixes)

    def __call__(
        self, instance: Instance, state: Any = None, last: Decision | None = None
    ) -> tuple[Decision, tuple[Any, Any, Any]]:
        """The decision, and the states of policy, rounder and selection.

        Parameters
        ----------
        last:
            The decision whose GPUs the jobs have now, if there is one for the same jobs and servers. If the plan is
            still the same, its placement stays, and the placer is not called once that moves no job.

        Raises
        ------
        InvalidPlan
            The result cannot be carried out.
        InvalidOption
            Fractional shares without rounds and without ``fluid``, or fluid shares of tenants.
        """
        policy_state, rounder_state, selection_state = state if state is not None else (None, None, None)
        result, policy_state = call_policy(self.policy, instance, policy_state)
        if isinstance(result, Allocation) and self.fluid:
            return _fluid(result), (policy_state, rounder_state, selection_state)
        estimated = None
        if isinstance(result, Allocation):
            estimated = _estimated(result)
            plan, rounder_state = self._rounded(result, instance, rounder_state)
        else:
            plan = result
        if plan.entities.kind == "tenants":
            check_capacity(plan.entities, plan.x)
            plan, selection_state = self.selection(plan, instance, selection_state)
        states = policy_state, rounder_state, selection_state
        if plan.entities.names != (names := instance.entities("jobs").names):
            raise InvalidPlan(f"the plan is for the jobs {plan.entities.names}; those present are {names}")
        same_plan = last is not None and _same_plan(last, plan)
        if last is not None and same_plan and not last.moves:
            return _repeated(last, plan, estimated), states
        dispatch = plan.placement.dispatch if plan.placement is not None else {}
        parts = packed_parts(plan, instance) if plan.packed else {}
        check_whole_gangs(plan.entities, plan.gangs, {name: len(work) for name, work in dispatch.items()})
        decision = self._placed(plan, instance, estimated, parts)
        if last is not None and same_plan:
            decision = replace(decision, moves=not _same_places(last.placement, decision.placement))
        return decision, states

    def _rounded(self, result: Allocation, instance: Instance, state: Any) -> tuple[Plan, Any]:
        if self.rounds:
            return self.rounder(result, instance, state)
        gpus = result.gpu_array
        if np.abs(result.x - np.rint(result.x)).max(initial=0.0) > INTEGRAL:  # gangs and tenants' GPUs are not whole
            raise InvalidOption(
                f"{type(self.policy).__name__} shares GPUs in time, which needs rounds: give round_seconds, such as "
                "300 (--round on the command line), or fluid=True to run shares of jobs as rates"
            )
        return Plan(result.entities, np.rint(gpus), certificate=result.certificate), state

    def _placed(
        self, plan: Plan, instance: Instance, estimated: Mapping[str, float] | None, parts: Mapping[str, float]
    ) -> Decision:
        x, given_up, placement = in_halves(plan.x), dict(plan.given_up), plan.placement
        if placement is None and self.placer is not None:
            placement = self.placer(plan, instance)
        if placement is not None:
            check_placement(plan, placement, instance)
            x = _without(x, placement.waiting, plan.entities)
            if twice := given_up.keys() & placement.given_up.keys():
                raise InvalidPlan(f"plan and placement both report the loss {min(twice)!r}; rename one")
            given_up |= placement.given_up
        rate = gang_rate(plan.entities, x)
        if placement is not None and placement.replicas:
            rate_of = self.speeds.on(instance.cluster)
            for name, replicas in placement.replicas.items():
                check_replicas(instance.job[name], placement.hosts.get(name, {}), replicas)
                at = plan.entities.position[name]
                rate[at] = rate_of(instance.job[name], placement.hosts[name], replicas) if x[at].any() else 0.0
        for name, part in parts.items():
            rate[plan.entities.position[name]] *= part
        copies = {} if placement is None else _copies(plan.entities, placement)
        for name, own in copies.items():
            rate[plan.entities.position[name]] = sum(copy.rate for copy in own)
        packed = {name: other for pair in plan.packed for name, other in (pair, pair[::-1])}
        return Decision(
            plan.entities, x, rate, placement, given_up, plan.wake, copies, estimated, plan, packed=FrozenDict(packed)
        )


def _same_plan(last: Decision, plan: Plan) -> bool:
    """Whether the same jobs get the same GPUs at the same speeds; servers that a policy has chosen may differ."""
    if last.plan is None or plan.placement is not None or last.plan.packed != plan.packed:
        return False
    before, now = last.entities, plan.entities
    pairs = (last.plan.x, plan.x), (before.task_speed, now.task_speed)
    return before.names == now.names and all(old is new or np.array_equal(old, new) for old, new in pairs)


def _same_places(before: Placement | None, now: Placement | None) -> bool:
    """Whether both place every job on the same servers, in one copy."""
    if before is None or now is None:
        return before is now
    return not now.dispatch and (before.hosts, before.replicas) == (now.hosts, now.replicas)


def _repeated(last: Decision, plan: Plan, estimated: Mapping[str, float] | None) -> Decision:
    """The ``last`` decision for the same plan, with the losses and the time of the next call of this one."""
    placed = {} if last.placement is None else last.placement.given_up
    return replace(last, given_up={**plan.given_up, **placed}, wake=plan.wake, estimated=estimated, plan=plan)


def _estimated(result: Allocation) -> Mapping[str, float] | None:
    entities = result.entities
    if entities.kind != "tenants":
        return None
    return dict(zip(entities.names, entities.rate(result.x).tolist(), strict=True))


def copy_rate(jobs: Entities, e: int, gpus: Mapping[str, int]) -> float:
    """Work per second of a copy of gang e on these GPUs; its slowest GPU sets the rate."""
    return min(float(jobs.task_speed[e, jobs.types.index(t)]) for t, n in gpus.items() if n)


def _copies(jobs: Entities, placement: Placement) -> dict[str, tuple[JobCopy, ...]]:
    """The copies of forked jobs; the slowest GPU of each sets its rate."""
    result = {}
    for name, dispatch in placement.dispatch.items():
        hosts = placement.hosts.get(name, {})
        rate = {server: copy_rate(jobs, jobs.position[name], own) for server, own in hosts.items()}
        result[name] = tuple(JobCopy(server, hosts[server], rate[server], work) for server, work in dispatch.items())
    return result


def _fluid(result: Allocation) -> Decision:
    if result.entities.kind != "jobs":
        raise InvalidOption("fluid=True runs shares of jobs as rates; this policy shares among tenants: give rounds")
    if result.packed is not None:
        raise InvalidOption("fluid=True runs shares of jobs as rates; jobs that share GPUs in pairs need rounds")
    gpus = result.gpu_array
    check_capacity(result.entities, gpus)
    time = result.x.sum(axis=1)
    for e in np.flatnonzero(time > 1 + FEASIBILITY).tolist():
        raise InvalidPlan(
            f"the policy runs {result.entities.names[e]!r} {time[e]:g} times at once; a job runs at most all the time: "
            "add hetopt.models.gavel.TimeFraction()"
        )
    return Decision(result.entities, np.maximum(gpus, 0.0), result.entities.rate(result.x))


def gang_rate(jobs: Entities, gpus: Floats) -> Floats:
    """(n,) work per second of each whole gang; its slowest GPU type sets the rate, [OEF, section 4.4]."""
    rows, rate = np.flatnonzero(gpus.any(axis=1)), np.zeros(len(gpus))
    rate[rows] = np.where(gpus[rows] > 0, jobs.task_speed[rows], np.inf).min(axis=1)
    for e, sizes in jobs.other_sizes.items():
        if (own := sizes.get(int(gpus[e].sum()))) is not None:
            rate[e] = own[gpus[e] > 0].min()
    return rate


def check_capacity(entities: Entities, gpus: Floats) -> None:
    """Raise :class:`InvalidPlan` unless (n, k) ``gpus`` are >= 0, on allowed types, and at most the capacity."""
    parts = type_parts(gpus, entities.capacity)
    wrong = (parts < -EQUAL) | ((entities.task_speed == 0) & (parts > EQUAL))
    for e, k in np.argwhere(wrong).tolist() if wrong.any() else ():
        raise InvalidPlan(
            f"the plan gives {entities.names[e]!r} {counted(float(gpus[e, k]), 'GPU')} of {entities.types[k]!r}, "
            + ("fewer than 0" if gpus[e, k] < 0 else "on which it cannot run")
        )
    over = unused_parts(gpus, entities.capacity) < -EQUAL
    for k in np.flatnonzero(over).tolist() if over.any() else ():
        raise InvalidPlan(
            f"the plan uses {counted(float(gpus[:, k].sum()), 'GPU')} of {entities.types[k]!r}; "
            f"the capacity is {entities.capacity[k]:g}"
        )


def check_whole_gangs(entities: Entities, gpus: Floats, copies: Mapping[str, int] | None = None) -> None:
    """Raise :class:`InvalidPlan` unless every job has all the GPUs that it demands, or none.

    An elastic job may have those of another of its sizes, where it can run with them.

    Parameters
    ----------
    copies:
        Forked job -> number of its copies, each of which has the job's demand.
    """
    check_capacity(entities, gpus)
    total, gangs = gpus.sum(axis=1), np.ones(len(entities.names))
    for name, number in (copies or {}).items():
        if name not in entities.position:
            raise InvalidPlan(f"the placement forks job {name!r}, which the plan does not have")
        gangs[entities.position[name]] = number
    wrong = (total != 0) & (total != gangs * entities.demand)
    for e, sizes in entities.other_sizes.items():
        if wrong[e] and gangs[e] == 1 and (own := sizes.get(int(total[e]))) is not None:
            wrong[e] = not own[gpus[e] > 0].all()
    if (parts := gpus != np.rint(gpus)).any():
        wrong |= parts.any(axis=1)
    for e in np.flatnonzero(wrong).tolist() if wrong.any() else ():
        numbers = sorted({int(entities.demand[e]), *entities.other_sizes.get(e, ())})
        right = f"it runs on {', '.join(map(str, numbers))} or on none"
        if gangs[e] != 1:
            right = f"its {gangs[e]:g} copies run on {gangs[e] * entities.demand[e]:g}"
        raise InvalidPlan(f"the plan gives job {entities.names[e]!r} {counted(float(total[e]), 'GPU')}; {right}")


def packed_parts(plan: Plan, instance: Instance) -> dict[str, float]:
    """Job -> part of its isolated rate that it keeps, for the jobs that share their GPUs.

    Raises
    ------
    InvalidPlan
        Two jobs that share GPUs have different ones, are not halves of one gang, are elastic, or have no packing for
        their type.
    """
    jobs, parts = plan.entities, dict[str, float]()
    for first, second in plan.packed:
        rows = plan.x[[jobs.position[first], jobs.position[second]]]
        one, other = instance.job[first], instance.job[second]
        types = np.flatnonzero(rows[0]).tolist()
        if not np.array_equal(*rows) or len(types) != 1 or one.demand != other.demand:
            raise InvalidPlan(
                f"the plan packs jobs {first!r} and {second!r}; both must have gangs of one size, and half of each GPU "
                "of one gang on one type"
            )
        (t,) = (jobs.types[k] for k in types)
        if elastic := [job.name for job in (one, other) if job.sizes]:
            raise InvalidPlan(
                f"the plan packs job {elastic[0]!r}, which is elastic; only jobs without sizes share GPUs"
            )
        own = parts_of(instance.packing_table, one.model, other.model, one.demand).get(t)
        if own is None:
            raise InvalidPlan(
                f"the plan packs jobs {first!r} and {second!r} on {t!r}; the instance has no packing of their models, "
                f"{one.model!r} and {other.model!r}, for gangs of {one.demand} on this type"
            )
        parts |= {first: own[0], second: own[1]}
    return parts


def check_replicas(job: Job, hosts: Hosts, replicas: Mapping[str, Sequence[int]]) -> None:
    """Raise :class:`InvalidPlan` unless all replicas of the job's stages are placed, and use exactly its GPUs.

    Parameters
    ----------
    hosts:
        Server -> GPU type -> GPUs of the job.
    replicas:
        Server -> replicas of each stage.
    """
    for server, own in replicas.items():
        if len(own) != len(job.stages) or min(own, default=0) < 0:
            raise InvalidPlan(
                f"job {job.name!r} has {list(own)} replicas of its stages on server {server!r}; "
                f"it must have a number >= 0 for each of its {len(job.stages)} stages"
            )
        used = sum(n * stage.slices for n, stage in zip(own, job.stages, strict=True))
        if used != (gpus := sum(hosts.get(server, {}).values())):
            raise InvalidPlan(
                f"the stages of job {job.name!r} use {counted(used, 'GPU')} of server {server!r}; it has {gpus} there"
            )
    for s, stage in enumerate(job.stages):
        placed = sum(own[s] for own in replicas.values())
        if placed != stage.replicas:
            raise InvalidPlan(
                f"job {job.name!r} has {counted(placed, 'replica')} of stage {s + 1} placed; it has {stage.replicas}"
            )


def _without(gpus: Floats, waiting: Collection[str], jobs: Entities) -> Floats:
    """``gpus`` without those of jobs that wait."""
    if not waiting:
        return gpus
    gpus = gpus.copy()
    gpus[[jobs.position[name] for name in waiting if name in jobs.position]] = 0.0
    return gpus


def check_placement(plan: Plan, placement: Placement, instance: Instance) -> None:
    """Raise :class:`InvalidPlan` unless every planned job is placed as planned or waits, and no server is overused.

    Jobs that share GPUs must be on the same ones, or both wait.
    """
    jobs, used = plan.entities, dict[tuple[str, str], int]()
    counted_once = {second for _, second in plan.packed}
    for first, second in plan.packed:
        where = [(placement.hosts.get(name), name in placement.waiting) for name in (first, second)]
        if where[0] != where[1]:
            raise InvalidPlan(f"jobs {first!r} and {second!r} share their GPUs, but are placed on different ones")
    for named in (placement.hosts.keys(), placement.replicas.keys()):
        if not named <= jobs.position.keys():
            raise InvalidPlan(
                f"the placement names job {min(named - jobs.position.keys())!r}, which the plan does not have"
            )
    types, cells, numbers = {t: k for k, t in enumerate(jobs.types)}, list[int](), list[int]()
    for name, hosts in placement.hosts.items():
        row = jobs.position[name] * len(types)
        if name in counted_once:
            continue
        for server, gpus in hosts.items():
            for t, n in gpus.items():
                if n < 0:
                    raise InvalidPlan(
                        f"job {name!r} is placed on {counted(n, 'GPU')} of {t!r} on server {server!r}; not below 0"
                    )
                seat = server, t
                used[seat] = used.get(seat, 0) + n
                if t in types:
                    cells.append(row + types[t])
                    numbers.append(n)
    on_servers = np.bincount(np.array(cells, dtype=np.intp), numbers, jobs.speed.size).reshape(jobs.shape)
    planned = _without(plan.gangs, placement.waiting, jobs)
    for e, k in () if np.array_equal(on_servers, planned) else np.argwhere(on_servers != planned)[:1].tolist():
        raise InvalidPlan(
            f"job {jobs.names[e]!r} is placed on {counted(float(on_servers[e, k]), 'GPU')} of {jobs.types[k]!r}; "
            f"the plan has {plan.gangs[e, k]:g}"
        )
    _check_dispatch(placement, instance)
    for (server, t), n in used.items():
        there = instance.cluster.by_name.get(server)
        has = there.gpus.get(t, 0) if there else 0
        if n > has:
            raise InvalidPlan(f"the placement uses {counted(n, 'GPU')} of {t!r} on server {server!r}; it has {has}")


def _check_dispatch(placement: Placement, instance: Instance) -> None:
    """Raise :class:`InvalidPlan` unless each copy of a forked job is a whole gang with work to do."""
    for name, dispatch in placement.dispatch.items():
        hosts, demand = placement.hosts.get(name, {}), instance.job[name].demand
        if dispatch.keys() != hosts.keys():
            raise InvalidPlan(
                f"forked job {name!r} is placed on servers {sorted(hosts)}, and has work on {sorted(dispatch)}"
            )
        for server, work in dispatch.items():
            if not 0 < work < np.inf:
                raise InvalidPlan(f"the copy of job {name!r} on server {server!r} has work {work:g}; it must be > 0")
            if (gpus := sum(hosts[server].values())) != demand:
                raise InvalidPlan(
                    f"the copy of job {name!r} on server {server!r} has {counted(gpus, 'GPU')}; a gang has {demand}"
                )


@dataclass(frozen=True)
class System:
    """A scheduler: the policy, how often it decides, and the steps from its decision to jobs on servers.

    Parameters
    ----------
    policy:
        The policy.
    round_seconds:
        Length of a round, also where the policy has a setting of this name; None: as in the policy's traits, else
        decisions at arrivals and completions.
    rounder, selection, placer:
        As in :func:`hetopt.simulate`.
    fluid:
        Run shares of jobs as rates.

    Raises
    ------
    InvalidOption
        ``policy`` is not a policy, or the length of a round is not positive.
    """

    policy: Policy
    round_seconds: float | None = None
    rounder: Rounder | None = None
    selection: Selection | None = None
    placer: Placer | None = None
    fluid: bool = False

    def __post_init__(self) -> None:
        check_policy(self.policy)
        check_round_seconds(self, or_none=True)
        check_no_classes(self, "rounder", "selection", "placer")
        if isinstance(self.policy, OnChange) and self.policy.least_seconds and (self.fluid or self.rounder is None):
            raise InvalidOption(
                "needs a rounder that takes shares of earlier jobs, ByPriority", "OnChange.least_seconds"
            )
        if self.round_seconds is not None:
            object.__setattr__(self, "policy", with_settings(self.policy, round_seconds=self.round_seconds))

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation | Plan, Any]:
        """The policy's result, before the steps that follow."""
        return call_policy(self.policy, instance, state)

    @property
    def seconds(self) -> float | None:
        """Length of a round, by default the policy's; None: decisions at arrivals and completions."""
        own = traits_of(self.policy).round_seconds if self.round_seconds is None else self.round_seconds
        return None if own is None else at_least(own, "round_seconds", 0.0, InvalidOption, strict=True)

    @property
    def idles(self) -> str:
        """Why a job may be left without GPUs although its gang fits on the idle GPUs of one type; empty: none is.

        The last step that chooses jobs decides: the selection for shares of tenants, the rounder for shares of jobs in
        rounds, else the policy. Reasons of the policy and of the placer are added.
        """
        policy, rounder = traits_of(self.policy), traits_of(self.rounder or ByKind())
        reasons = [policy.idles]
        if policy.fractional and not self.fluid:
            of = {"jobs": rounder.idles, "tenants": traits_of(self.selection or LongestStarved()).idles}
            reasons += [of[rounder.kind]] if rounder.kind else list(of.values())
        if self.placer is not None:
            reasons.append(traits_of(self.placer).idles)
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))

    def steps(self, speeds: SpeedModel) -> DecisionSteps:
        """The policy and its steps; ``speeds``: work per second of jobs with mapped stages."""
        steps = (self.rounder or ByKind(), self.selection or LongestStarved(), self.placer)
        return DecisionSteps(self.policy, *steps, rounds=self.seconds is not None, fluid=self.fluid, speeds=speeds)

    @classmethod
    def of(cls, policy: Policy | System, **settings: Any) -> System:
        """A policy or system as a system; settings that are not None (and ``fluid=True``) override its own."""
        given = {key: value for key, value in settings.items() if value is not None and value is not False}
        if isinstance(policy, System):
            return replace(policy, **given)
        return cls(policy, **given)


def with_settings(policy: Policy, **settings: float) -> Policy:
    """``policy`` with those of ``settings`` that are fields of it, or of the policy that an :class:`OnChange` calls."""
    if isinstance(policy, OnChange):
        policy = replace(policy, policy=with_settings(policy.policy, **settings))
    if not is_dataclass(policy):
        return policy
    known: Any = policy
    names = {item.name for item in fields(policy) if item.init}
    changed = {key: value for key, value in settings.items() if key in names and getattr(policy, key) != value}
    return replace(known, **changed) if changed else policy


@dataclass(frozen=True)
class CachedResult:
    """State of :class:`OnChange`: the last result, for which entities, cluster, speeds and time; the policy's state."""

    names: tuple[str, ...]
    cluster: Cluster
    speed: Floats = field(repr=False)
    result: Allocation | Plan
    state: Any = field(repr=False)
    time: float = 0.0


@dataclass(frozen=True)
class OnChange:
    """Call a policy only when an entity has arrived or left, or the cluster has changed, as Gavel does.

    In the rounds between, its last result holds, and a rounder continues to share it in time. So the policy does not
    react to the work left and to the time. A change of the GPU types on which an entity can run calls it, too.

    Parameters
    ----------
    policy:
        A formulation or any policy.
    round_seconds:
        Length of a round in seconds; None: as in the traits of ``policy``.
    factor:
        Also call it when a speed has changed by this factor, up or down; None: never.
    least_seconds:
        Entities that come or go let it be called only this long after the last call, or once none is left of those
        that had come by then. Until then the last result holds, for the entities that it was made for; only rounders
        that take such a result, as :class:`~hetopt.decisions.rounders.ByPriority` does, allow more than 0.

    Raises
    ------
    InvalidOption
        ``policy`` is not a policy, or a number is out of its range.
    """

    policy: Policy
    round_seconds: float | None = None
    factor: float | None = None
    least_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_policy(self.policy)
        if self.factor is not None:
            at_least(self.factor, "OnChange.factor", 1.0, InvalidOption)
        at_least(self.least_seconds, "OnChange.least_seconds", 0.0, InvalidOption)
        check_round_seconds(self, or_none=True)

    @property
    def traits(self) -> Traits:
        """The traits of the policy, with the length of the rounds; jobs that wait for a call leave GPUs idle."""
        own = traits_of(self.policy)
        idles = "new jobs wait until shares are computed again" if self.least_seconds else own.idles
        return with_rounds(replace(own, idles=idles), self.round_seconds)

    def __call__(self, instance: Instance, state: CachedResult | None = None) -> tuple[Allocation | Plan, CachedResult]:
        """The policy's result, new or cached."""
        now = instance.entities("jobs" if instance.jobs else "tenants")
        if state is not None and self._holds(state, now, instance):
            return state.result, state
        result, own = call_policy(self.policy, instance, None if state is None else state.state)
        cached = CachedResult(now.names, instance.cluster, now.speed, result, own, instance.time)
        return result, cached

    def _holds(self, last: CachedResult, now: Entities, instance: Instance) -> bool:
        """Whether the last result still holds."""
        if last.cluster != instance.cluster:
            return False
        if last.names == now.names:
            return self._alike(last.speed, now.speed)
        if instance.time - last.time >= self.least_seconds:
            return False
        position = {name: e for e, name in enumerate(last.names)}
        both = [name for name in now.names if name in position]
        before, after = [position[name] for name in both], [now.position[name] for name in both]
        return bool(both) and self._alike(last.speed[before], now.speed[after])

    def _alike(self, before: Floats, after: Floats) -> bool:
        if np.array_equal(before, after):
            return True
        runs = before > 0
        if not np.array_equal(runs, after > 0):
            return False
        ratio = after[runs] / before[runs]
        return self.factor is None or bool(np.all((ratio < self.factor) & (ratio * self.factor > 1)))
