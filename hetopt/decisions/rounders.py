"""Rounders: from fractional shares to whole GPUs in each round, with deviations that later rounds repay.

Tenants get whole GPUs (:class:`WholeGPUs`), jobs run or wait (:class:`WholeJobs`, :class:`ByPriority`). Each entity has
three numbers on each GPU type, in GPUs for tenants and in rounds for jobs:

share:
    What the allocation gives it in each round.
owed:
    Its deviation: what earlier rounds gave it less than its shares; negative if they gave it more.
deficit:
    ``owed + share``, from which this round takes what it gives.

They are kept in integers (ticks), so that deviations sum to zero exactly after any number of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.checks import FrozenDict, at_least, boolean, check_round_seconds, counted, members, one_of
from hetopt.data.array_types import Floats, Positions
from hetopt.data.capacity import unused_parts
from hetopt.data.entities import Entities, JobTypeKey, job_type_keys, keys, read_only
from hetopt.data.entities import members as job_positions
from hetopt.data.instance import Instance, check_gangs_fit_one_type
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.formulations.policies import Policy, call_policy
from hetopt.formulations.traits import Traits, traits_of
from hetopt.programs.linear import LinearProgram
from hetopt.results.allocation import Allocation, Plan
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, scale

TICKS = 720_720_000
"""Ticks of one GPU (or of one round of a job). A multiple of 1, 2, …, 16, so that small fractions are exact."""

NO_DEADLINE = TICKS
"""Rounds until the deadline of an entity without a share: more than of any entity that has one."""

NOT_YET_RELEASED = 2 * TICKS
"""Rounds until the deadline of a GPU that is not released yet: after all that are."""

Int64s: TypeAlias = NDArray[np.int64]


Ledger: TypeAlias = Mapping[tuple[str, ...], int]
"""(tenant, job type, GPU type) or (job, GPU type) or (IDLE, GPU type) -> ticks owed; absent means 0."""


IDLE = ""
"""Row of the idle GPUs in a ledger. No entity can have this name."""


def to_ticks(gpus: Floats) -> Int64s:
    """Shares in ticks; negative shares, within a solver's tolerance, count as 0."""
    return np.asarray(np.rint(np.maximum(gpus, 0.0) * TICKS), dtype=np.int64)


def promised_ticks(gpus: Floats, capacity: Floats, types: Sequence[str]) -> Int64s:
    """(n + 1, k) ticks promised per round; the last row, of idle GPUs, makes each type sum to its capacity exactly.

    Parameters
    ----------
    gpus:
        (n, k) fractional GPUs.
    capacity:
        (k,) GPUs of each type.
    types:
        Names of the types, for the error.

    Raises
    ------
    InvalidPlan
        The shares exceed the capacity by more than a solver's tolerance.
    """
    table = np.vstack([to_ticks(gpus), np.zeros((1, len(capacity)), dtype=np.int64)])
    for k in np.flatnonzero(unused_parts(np.maximum(gpus, 0.0), capacity) < -EQUAL).tolist():
        given = counted(float(gpus[:, k].sum()), "GPU")
        raise InvalidPlan(f"the allocation has {given} of {types[k]!r}; the capacity is {capacity[k]:g}")
    for k in range(len(types)):
        left = to_ticks(capacity[k : k + 1])[0] - table[:, k].sum()
        slack = FEASIBILITY * TICKS * capacity[k] + len(table)  # the solver's tolerance, and half a tick for each entry
        row = int(table[:, k].argmax()) if left < slack and table[:, k].any() else -1
        table[row, k] += left
    return table


def settled_to_zero(owed: Int64s) -> Int64s:
    """Shrink the entries of the heavier sign in proportion, so that the sum is zero; no entry grows.

    Needed after an entity has left with a deviation: then the deviations of the others do not sum to zero.
    """
    total = int(owed.sum())
    if total == 0:
        return owed
    side = np.where(np.sign(owed) == np.sign(total), owed, 0)
    cut = side * (abs(total) / abs(int(side.sum())))
    cut = np.where(side > 0, np.floor(cut), np.ceil(cut)).astype(np.int64)
    rest = total - int(cut.sum())
    for i in np.argsort(-np.abs(side), kind="stable"):  # the few ticks that rounding leaves
        take = int(np.sign(total)) * min(abs(rest), abs(int(side[i] - cut[i])))
        cut[i] += take
        rest -= take
        if rest == 0:
            break
    return np.asarray(owed - cut)


def read_ledger(ledger: Ledger | None, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Int64s:
    """(len(keys), k) ticks owed; 0 for new entities."""
    if not ledger:
        return np.zeros((len(keys), len(types)), dtype=np.int64)
    return np.array([[ledger.get((*key, t), 0) for t in types] for key in keys], dtype=np.int64)


def write_ledger(owed: Int64s, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Ledger:
    """The ledger that :func:`read_ledger` reads; zeros are left out."""
    return FrozenDict({(*keys[i], types[k]): int(owed[i, k]) for i, k in np.argwhere(owed).tolist()})


def gangs_by_type(entities: Entities, instance: Instance) -> list[list[list[int]]]:
    """For each row of tenants and each GPU type the demands of the tenant's jobs that can run on the type.

    Raises
    ------
    InvalidInstance
        A job demands more GPUs than any type that it can run on has.
    """
    if not instance.jobs:
        return [[[] for _ in entities.types] for _ in entities.names]
    jobs, belongs, names = instance.entities("jobs"), job_positions(instance), job_type_keys(instance)
    check_gangs_fit_one_type(jobs)
    demand, allowed = jobs.demand.astype(int).tolist(), jobs.allowed.T.tolist()
    own: list[JobTypeKey] = [names[name] for name in entities.names]
    return [[[demand[i] for i in belongs[o] if can_run[i]] for can_run in allowed] for o in own]


def at_least_the_smallest(gangs: Sequence[int], most: int) -> Int64s:
    """0, and all numbers of GPUs from the smallest gang to ``most``: OEF's starvation rule."""
    numbers = np.arange(min(most + 1, *gangs) - 1, most + 1) if gangs else np.zeros(1, dtype=np.int64)
    numbers[0] = 0
    return numbers


def sums(gangs: Sequence[int], most: int) -> Int64s:
    """Numbers of GPUs up to ``most`` that some of the gangs fill exactly (sums of distinct gangs)."""
    reachable, mask = 1, (1 << (most + 1)) - 1  # bit s: s GPUs can be filled
    for gang in gangs:
        reachable |= (reachable << gang) & mask
    bits = np.frombuffer(reachable.to_bytes(most // 8 + 1, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def nearest(deficit: Floats, usable: Sequence[Int64s], capacity: int) -> Int64s:
    """The point x with x[e] in ``usable[e]`` and sum(x) = ``capacity`` that minimises sum_e (deficit[e] - x[e])².

    Parameters
    ----------
    deficit:
        (n + 1,) GPUs, possibly negative; the last entry is for idle GPUs, whose number is not restricted.
    usable:
        n arrays of usable numbers of GPUs, ascending from 0.
    capacity:
        GPUs of the type.

    Returns
    -------
    Int64s
        (n + 1,) whole GPUs that sum to ``capacity``.

    Notes
    -----
    Dynamic programme over the GPUs used by the first e entities: exact. If the promised shares are an average of
    usable points, the squared deviation grows by at most the points' squared diameter D² per round (the nearest
    point is at least as near as the average over those points), so that the deviation is at most D·sqrt(rounds).
    The programme goes through the few numbers that can be part of the nearest point alone (:func:`not_too_far`).
    """
    best = np.full(capacity + 1, np.inf)
    best[0] = 0.0
    chosen: list[Int64s] = []
    for gpus, numbers in zip(deficit[:-1], not_too_far(deficit, usable, capacity), strict=True):
        cost = np.full((len(numbers), capacity + 1), np.inf)
        for row, n in zip(cost, numbers.tolist(), strict=True):
            row[n:] = best[: capacity + 1 - n] + (gpus - n) ** 2
        pick = cost.argmin(axis=0)
        best = cost[pick, np.arange(capacity + 1)]
        chosen.append(numbers[pick])
    used = int(np.argmin(best + (deficit[-1] - (capacity - np.arange(capacity + 1))) ** 2))
    x = np.zeros(len(deficit), dtype=np.int64)
    x[-1] = capacity - used
    for e in range(len(chosen) - 1, -1, -1):
        x[e] = chosen[e][used]
        used -= int(x[e])
    return x


PRICE_STEPS = 20
"""Most halvings of the interval of the price in :func:`not_too_far`; any price gives a valid bound."""


def not_too_far(deficit: Floats, usable: Sequence[Int64s], capacity: int) -> list[Int64s]:
    """``usable`` without numbers that no nearest point has; parameters as of :func:`nearest`.

    Notes
    -----
    With a price 2p for each GPU the entities are independent, and each takes the usable number (idle GPUs: the whole
    number >= 0) nearest to ``deficit - p``. By weak duality, for every p, no point is nearer than

        L(p) = sum_e min_n [(deficit[e] - n)² + 2 p n] - 2 p capacity,

    and none with x[e] = n is nearer than L(p) plus what n costs more than the minimum in the bracket of e. So n is out
    if that exceeds the squared distance of some point. A price at which the numbers sum to about the capacity is found
    by bisection; the point takes the numbers at a price slightly too high, then, one after another while there is room,
    those at a price slightly too low, and leaves the rest idle.
    """
    if not usable:
        return []
    sizes = np.array([len(numbers) for numbers in usable], dtype=np.intp)
    flat, ends = np.concatenate(usable), np.cumsum(sizes)
    starts, gpus, idle = ends - sizes, deficit[:-1], float(deficit[-1])
    row = np.arange(len(sizes)) * (capacity + 1)
    keys = flat + np.repeat(row, sizes)

    def at(price: float) -> Int64s:
        """(n,) the usable numbers nearest to the deficits less the price."""
        target = np.clip(gpus - price, 0, capacity)
        above = np.clip(np.searchsorted(keys, target + row), starts, ends - 1)
        below = np.maximum(above - 1, starts)
        return flat[np.where(target - flat[below] <= flat[above] - target, below, above)]

    def spare(price: float) -> int:
        return max(0, round(idle - price))

    low, high = float(deficit.min()) - capacity - 1, float(deficit.max()) + 1
    if at(0.0).sum() + spare(0.0) > capacity:
        low = 0.0
    else:
        high = 0.0
    for _ in range(PRICE_STEPS):
        price = (low + high) / 2
        used = at(price).sum() + spare(price)
        low, high = (price, high) if used > capacity else (low, price)
        if used == capacity:
            break
    point, more = at(high), at(low)
    room = capacity - int(point.sum())
    for e in np.flatnonzero(more > point).tolist():
        if (step := int(more[e] - point[e])) <= room - spare(high):
            point[e], room = more[e], room - step
    distance = float(((gpus - point) ** 2).sum()) + (idle - room) ** 2
    cost = (np.repeat(gpus, sizes) - flat) ** 2 + 2 * high * flat
    least = np.minimum.reduceat(cost, starts)
    bound = float(least.sum()) + (idle - spare(high)) ** 2 + 2 * high * (spare(high) - capacity)
    slack = distance - bound + EQUAL * scale(distance, bound, *np.abs(least))
    near = cost - np.repeat(least, sizes) <= slack
    return [flat[a:b][near[a:b]] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


Usable = Literal["any", "smallest", "sums"]


class Rounder(Protocol):
    """Turns shares into whole GPUs and keeps the deviations as its state.

    One for tenants' shares that allows gangs larger than every GPU type has an attribute ``traits`` with ``mixes``.
    """

    def __call__(self, allocation: Allocation, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan of this round, and the state for the next."""
        ...


@dataclass(frozen=True)
class WholeGPUs:
    """Tenants' shares in whole GPUs, at most the capacity: the rounding of [OEF, section 4.3], which can exceed it.

    In each round and for each type, a tenant's deficit is its share plus its deviation. GPUs that the allocation leaves
    idle are the share of an idle row, which is treated like a tenant; so all GPUs of a type are assigned and the
    deviations (with that of the idle row) sum to zero exactly.

    Where every number of GPUs is usable, the next GPU goes to the tenant whose next whole GPU has the earliest deadline
    (Tijdeman's and Pfair schedules), and to none before its deficit includes a part of it. Every deviation is above -1,
    and for shares that have been constant since all deviations were zero also below 1. Where gangs need several GPUs,
    the nearest usable point is taken (:func:`nearest`); deviations then grow at most like sqrt(rounds), and are limited
    to twice the GPUs of the type. Otherwise GPUs that no gang can use would accumulate as deviations, and be repaid at
    the cost of tenants that arrive later.

    Parameters
    ----------
    usable:
        ``"smallest"`` (default): no GPUs, or at least what the tenant's smallest job needs (OEF's starvation rule).
        ``"sums"``: only numbers that some of the tenant's jobs fill exactly. ``"any"``: every number.
        Every number is usable in an instance without jobs; else a tenant without jobs can use none.

    Raises
    ------
    InvalidOption
        An unknown ``usable``.
    InvalidInstance
        When called: a job demands more GPUs than any type that it can run on has.
    InvalidPlan
        When called: the allocation promises more GPUs than there are.
    """

    usable: Usable = "smallest"

    def __post_init__(self) -> None:
        one_of(self.usable, get_args(Usable), "WholeGPUs.usable")

    @property
    def traits(self) -> Traits:
        """Whether a gang may be larger than every GPU type: where numbers of GPUs need not suit a gang."""
        return Traits(mixes=self.usable == "any", kind="tenants")

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """Whole GPUs of this round, and the new deviations."""
        entities = _tenants(allocation)
        types, capacity = entities.types, np.rint(entities.capacity).astype(np.int64)
        names = [*keys(entities, instance), (IDLE,)]
        share = promised_ticks(allocation.gpu_array, entities.capacity, types)
        usable = self._usable_numbers(allocation, instance, capacity)
        most = np.array([[numbers[-1] for numbers in own] for own in usable], dtype=np.int64).T
        unusable = _move_unusable_to_idle(share, most)
        before = read_ledger(state, names, types)
        owed = _forgive_unusable(before, can_use=most > 0)
        forgiven = np.abs(before - owed).sum()
        deficit, x = owed + share, np.zeros_like(share)
        for k, n in enumerate(capacity.tolist()):
            if all(len(numbers) == n + 1 for numbers in usable[k] if numbers[-1] > 0):
                x[:, k] = earliest_deadline(deficit[:, k], share[:, k], n)
            else:
                x[:, k] = nearest(deficit[:, k] / TICKS, usable[k], n)
        owed = deficit - x * TICKS
        capped = np.clip(owed, -2 * TICKS * capacity, 2 * TICKS * capacity)
        forgiven += np.abs(owed - capped).sum()
        given_up = {"idle": float(x[-1].sum()), "unusable": unusable / TICKS, "forgiven": float(forgiven / TICKS)}
        plan = Plan(entities, x[:-1].astype(float), capped[:-1] / TICKS, given_up, allocation.certificate)
        return plan, write_ledger(capped, names, types)

    def _usable_numbers(self, allocation: Allocation, instance: Instance, capacity: Int64s) -> list[list[Int64s]]:
        """For each type and tenant the usable numbers of GPUs, ascending from 0; only 0 where no job can use one."""
        if self.usable == "any" or not instance.jobs:
            return [[np.arange(most + 1) for _ in allocation.entities.names] for most in capacity.tolist()]
        gangs = gangs_by_type(allocation.entities, instance)
        rule = sums if self.usable == "sums" else at_least_the_smallest
        return [[rule(own[k], most) for own in gangs] for k, most in enumerate(capacity.tolist())]


def _tenants(allocation: Allocation) -> Entities:
    if allocation.entities.kind != "tenants":
        raise InvalidOption("this rounder is for shares of tenants; for shares of jobs use hetopt.WholeJobs")
    return allocation.entities


def _forgive_unusable(owed: Int64s, *, can_use: NDArray[np.bool_]) -> Int64s:
    """(n + 1, k) deviations that sum to zero per type, and are 0 where (n, k) ``can_use`` is not."""
    owed = owed.copy()
    owed[:-1][~can_use] = 0
    for k in range(owed.shape[1]):
        owed[:, k] = settled_to_zero(owed[:, k])
    return owed


def _move_unusable_to_idle(share: Int64s, most: Int64s) -> int:
    """Move shares above ``most``, (n, k) GPUs, to the idle row, in place; returns the ticks moved."""
    over = np.maximum(share[:-1] - most * TICKS, 0)
    share[:-1] -= over
    share[-1] += over.sum(axis=0)
    return int(over.sum())


def earliest_deadline(deficit: Int64s, share: Int64s, capacity: int) -> Int64s:
    """Give each of ``capacity`` GPUs to the entity whose next whole GPU has the earliest deadline.

    Parameters
    ----------
    deficit:
        (n,) ticks, which sum to ``capacity`` GPUs.
    share:
        (n,) ticks per round.

    Returns
    -------
    Int64s
        (n,) GPUs that sum to ``capacity``.

    Notes
    -----
    The c-th GPU of e is released once its deficit is above c - 1, and its deadline is ceil((c - deficit) / share)
    rounds later. These are unit jobs with integer release times and deadlines on identical machines: earliest deadline
    first meets all deadlines if any schedule does, and for constant shares one does (the fractional shares are a flow
    with these bounds, so an integer one exists). Released GPUs never run out, since ``deficit`` sums to ``capacity``.
    """
    x = np.zeros(len(deficit), dtype=np.int64)
    per_round = share.tolist()

    def rank(e: int, missing: int) -> tuple[int, int, int]:
        """(rounds until the deadline, ticks missing until then, position); 0 rounds if overdue."""
        if missing <= 0:
            return 0, missing, e
        return -(-missing // per_round[e]) if per_round[e] else NO_DEADLINE, missing, e

    queue = [rank(e, TICKS - d) for e, d in enumerate(deficit.tolist()) if d > 0]
    heapify(queue)
    for _ in range(capacity):
        _, missing, e = queue[0]
        x[e] += 1
        more = missing + TICKS
        heapreplace(queue, rank(e, more) if missing < 0 else (NOT_YET_RELEASED, more, e))
    return x


@dataclass(frozen=True)
class PrintedWholeGPUs:
    """OEF's rule as printed, for study: round(share + deviation), and 0 below the smallest demand.

    It keeps every deviation within 1/2 (without the starvation rule) but can exceed the capacity: two tenants with half
    a GPU each get one GPU each. The simulator refuses such a plan.

    Parameters
    ----------
    starvation_rule:
        Give 0 instead of fewer GPUs than the tenant's smallest job needs, [OEF, section 4.3].
    """

    starvation_rule: bool = True

    @property
    def traits(self) -> Traits:
        """As of :class:`WholeGPUs`."""
        return Traits(mixes=not self.starvation_rule, kind="tenants")

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """Whole GPUs of this round, and the deviations."""
        entities = _tenants(allocation)
        names = keys(entities, instance)
        deficit = read_ledger(state, names, entities.types) + to_ticks(allocation.gpu_array)
        x = np.maximum((2 * deficit + TICKS) // (2 * TICKS), 0)  # halves are rounded up
        if self.starvation_rule:
            tenants = gangs_by_type(entities, instance)
            least = np.array([[min(gangs, default=1) for gangs in own] for own in tenants], dtype=np.int64)
            x = np.where(x < least, 0, x)
        owed = deficit - x * TICKS
        plan = Plan(entities, x.astype(float), owed / TICKS, {}, allocation.certificate)
        return plan, write_ledger(owed, names, entities.types)


@dataclass(frozen=True)
class WholeJobs:
    """Jobs' shares of time as rounds: each job runs on one GPU type or waits, gangs whole, capacity kept.

    Of the jobs with a positive deficit (share plus deviation), the packing with the largest deficit in GPUs runs:
    max sum_jk demand[j]·deficit[j,k]·x[j,k]. As long as the shares are an average of packings, deviations grow at most
    like sqrt(rounds): the chosen packing has at least the deficit of that average. This is the exact counterpart of
    Gavel's greedy rule, :class:`ByPriority`.

    Parameters
    ----------
    most_owed:
        Most rounds that a job can be owed per GPU type; more is forgiven. Otherwise shares that no sequence of packings
        reaches (two jobs of three GPUs on four) would accumulate, and be repaid at the cost of jobs that arrive later.
    time_limit:
        Seconds for the search, which then returns the best packing found; None: until it is proven optimal.

    Raises
    ------
    InvalidOption
        ``most_owed`` is below 1, or the time limit is not positive.
    """

    most_owed: float = 4.0
    time_limit: float | None = 10.0

    def __post_init__(self) -> None:
        at_least(self.most_owed, "WholeJobs.most_owed", 1, InvalidOption)
        Options(time_limit=self.time_limit)  # checks the limit

    @property
    def traits(self) -> Traits:
        """It rounds shares of jobs."""
        return Traits(kind="jobs", idles="no job runs on a type on which it is owed no time")

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """The jobs that run now, and the new deviations."""
        entities = allocation.entities
        if entities.kind != "jobs":
            raise InvalidOption("WholeJobs rounds shares of jobs; for shares of tenants use hetopt.WholeGPUs")
        if allocation.packed is not None:
            raise InvalidOption("WholeJobs rounds shares of jobs that run alone; for those of pairs use ByPriority")
        names = keys(entities, instance)
        deficit = read_ledger(state, names, entities.types) + to_ticks(allocation.x)
        x = heaviest_packing(entities, entities.gpus(deficit / TICKS), Options(time_limit=self.time_limit))
        owed = deficit - np.rint(x).astype(np.int64) * TICKS
        capped = np.minimum(owed, int(self.most_owed * TICKS))
        gpus = entities.gpus(x)
        given_up = {
            "idle": float(entities.capacity.sum() - gpus.sum()),
            "forgiven": float(entities.gpus((owed - capped) / TICKS).sum()),
        }
        plan = Plan(entities, gpus, entities.gpus(capped / TICKS), given_up, allocation.certificate)
        return plan, write_ledger(capped, names, entities.types)


def heaviest_packing(entities: Entities, weight: Floats, options: Options) -> Floats:
    """(n, k) zeros and ones: the packing, one GPU type per job, with the largest sum of weights.

    Parameters
    ----------
    weight:
        (n, k) weight of each job on each type; a job does not run on types where it is not positive.
    options:
        Options of the solver.
    """
    n, k = entities.shape
    job, gpu_type = np.nonzero((weight > 0) & entities.allowed)
    if not len(job):
        return np.zeros((n, k))
    columns = np.arange(len(job))
    per_job = sparse.csr_array((np.ones(len(job)), (job, columns)), shape=(n, len(job)))
    per_type = sparse.csr_array((entities.demand[job], (gpu_type, columns)), shape=(k, len(job)))
    program = LinearProgram.of(
        weight[job, gpu_type],
        sparse.csc_array(sparse.vstack([per_job, per_type])),
        np.full(n + k, -np.inf),
        np.concatenate([np.ones(n), entities.capacity]),
        col_upper=1.0,
        integer=True,
    )
    x = np.zeros((n, k))
    x[job, gpu_type] = np.rint(optimise(program, options).x)
    return x


RESET_SECONDS = 1920.0
"""Least time after which Gavel's scheduler restarts its count: its ``minimum_time_between_allocation_resets``."""


@dataclass(frozen=True, eq=False)
class Queued:
    """What an allocation shares time among: its n jobs alone, then its p pairs of jobs that share their GPUs.

    Attributes
    ----------
    names:
        n + p names of jobs, or of both jobs of a pair.
    first, second:
        (n + p,) positions of the jobs; for a job alone, both are the same.
    share:
        (n + p, k) part of the time on each GPU type.
    """

    names: tuple[str | tuple[str, str], ...]
    first: Positions
    second: Positions
    share: Floats

    @classmethod
    def of(cls, allocation: Allocation) -> Queued:
        """Those of ``allocation``."""
        names, packed = allocation.entities.names, allocation.packed
        jobs = np.arange(len(names))
        if packed is None:
            return cls(names, jobs, jobs, allocation.x)
        first, second = packed.pairs.T
        pairs = zip([names[i] for i in first], [names[j] for j in second], strict=True)
        share = np.concatenate([packed.alone, packed.together])
        return cls((*names, *pairs), np.concatenate([jobs, first]), np.concatenate([jobs, second]), share)


@dataclass(frozen=True, eq=False)
class Received:
    """State of :class:`ByPriority`: the shares, and the rounds that each job and pair has received.

    Attributes
    ----------
    allocation:
        The last shares.
    reset:
        Second since which rounds are counted.
    rounds:
        (n + p, k) rounds that each of its jobs and pairs (:class:`Queued`) has run on each type since then.
    due:
        (n + p, k) rounds that it should have run by its shares.
    owed:
        (n + p, k) ``due - rounds`` of all earlier counts.
    """

    allocation: Allocation
    reset: float
    rounds: Floats = field(repr=False)
    due: Floats = field(repr=False)
    owed: Floats = field(repr=False)

    @classmethod
    def first(cls, allocation: Allocation, now: float) -> Received:
        """The state before the first round."""
        return cls(allocation, now, *(np.zeros(Queued.of(allocation).share.shape) for _ in range(3)))

    def under(self, allocation: Allocation, now: float, reset_seconds: float) -> Received:
        """The state under new shares; the count restarts ``reset_seconds`` after the last time at the earliest.

        Jobs and pairs that are gone lose their counts, and new ones have none. If the GPU types are others, all counts
        are lost.
        """
        if self.allocation.entities.types != allocation.entities.types:
            return self.first(allocation, now)
        position = {name: row for row, name in enumerate(Queued.of(self.allocation).names)}
        rows = [position.get(name, -1) for name in Queued.of(allocation).names]

        def kept(counts: Floats) -> Floats:
            return np.vstack([counts, np.zeros(counts.shape[1])])[rows]

        if now - self.reset >= reset_seconds:
            return replace(self.first(allocation, now), owed=kept(self.owed + self.due - self.rounds))
        return Received(allocation, self.reset, kept(self.rounds), kept(self.due), kept(self.owed))


@dataclass(frozen=True)
class ByPriority:
    """Jobs' shares of time as rounds, greedily by priority: Gavel's mechanism, [Gavel, section 5] and its code.

    The priority of job j on type k is ``x[j, k] / (prior + r[j, k])``, with r the rounds in which j ran on k since the
    last reset. Ties go to the job that earlier counts owe more, then to the larger share, then to the earlier job. In
    that order each job whose gang fits gets a type, and at most one. Jobs that the allocation does not have wait for
    the next one. :class:`WholeJobs` is the exact counterpart.

    Where the allocation has pairs of jobs that share their GPUs, a pair queues like a job; it runs if neither of its
    jobs does yet.

    Parameters
    ----------
    fill:
        Jobs may also run on types on which they have no share, with priority 0: no job of the allocation waits while
        its gang fits on idle GPUs.
    prior:
        Rounds that count as received on every type at a reset. With 0, a pair that has not run has infinite priority.
    per_type:
        One queue for each type, as in Gavel's code. False: all pairs in one queue, as in [Gavel, Algorithm 1].
    types:
        The GPU types in the order of their queues; types that it leaves out come last. Default: first the types on
        which the present jobs are faster on average. (Gavel's code has the fixed order V100, P100, K80.)
    reset_seconds:
        The count of rounds restarts when the shares change, but not sooner than this after the last time. With 0, jobs
        that come and go in each round let the largest share win every time.

    Raises
    ------
    InvalidOption
        A setting out of range. When called: the allocation is over tenants.
    """

    fill: bool = True
    prior: float = 0.5
    per_type: bool = True
    types: tuple[str, ...] = ()
    reset_seconds: float = RESET_SECONDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", members(self.types, str, "ByPriority.types", InvalidOption))
        boolean(self.fill, "ByPriority.fill")
        boolean(self.per_type, "ByPriority.per_type")
        at_least(self.prior, "ByPriority.prior", 0.0, InvalidOption)
        at_least(self.reset_seconds, "ByPriority.reset_seconds", 0.0, InvalidOption)

    @property
    def traits(self) -> Traits:
        """It rounds shares of jobs; without ``fill`` it leaves GPUs idle."""
        return Traits(kind="jobs", idles="" if self.fill else "no job runs on a type on which it has no share")

    def __call__(
        self, allocation: Allocation, instance: Instance, state: Received | None = None
    ) -> tuple[Plan, Received]:
        """The jobs that run now, and the rounds received with this one."""
        if allocation.entities.kind != "jobs":
            raise InvalidOption("ByPriority rounds shares of jobs; for shares of tenants use hetopt.WholeGPUs")
        if state is None:
            state = Received.first(allocation, instance.time)
        elif state.allocation is not allocation:
            state = state.under(allocation, instance.time, self.reset_seconds)
        jobs, queued = instance.entities("jobs"), Queued.of(allocation)
        row, first, second, gpu_type = self._order(state, queued, jobs)
        chosen = _greedy(first, second, gpu_type, jobs)
        gpus, rounds = np.zeros(jobs.shape), state.rounds.copy()
        for job in (first, second):  # each gets half, a job alone twice
            gpus[job[chosen], gpu_type[chosen]] += jobs.demand[job[chosen]] / 2
        rounds[row[chosen], gpu_type[chosen]] += 1
        idle = float(jobs.capacity.sum() - gpus.sum())
        pairs = tuple((jobs.names[first[i]], jobs.names[second[i]]) for i in chosen if first[i] != second[i])
        plan = Plan(jobs, read_only(gpus), None, {"idle": idle}, allocation.certificate, packed=pairs)
        return plan, replace(state, rounds=rounds, due=state.due + queued.share)

    def _order(
        self, state: Received, queued: Queued, jobs: Entities
    ) -> tuple[Positions, Positions, Positions, Positions]:
        """Jobs or pairs with a GPU type, in the order of their priorities: row in ``queued``, both jobs, type."""
        row, first, second = _present(queued, state.allocation.entities, jobs)
        share, can_run = queued.share[row], jobs.allowed[first] & jobs.allowed[second]
        one, gpu_type = np.nonzero(can_run & ((share > 0) | (self.fill & (first == second))[:, None]))
        share, row, first, second = share[one, gpu_type], row[one], first[one], second[one]
        received = self.prior + state.rounds[row, gpu_type]
        priority = np.where(share > 0, np.inf, 0.0)
        np.divide(share, received, out=priority, where=received > 0)
        ranks = [gpu_type, second, first, -share, -state.owed[row, gpu_type], -priority]
        if self.per_type:
            ranks.append(self._queue(jobs)[gpu_type])
        order = np.lexsort(ranks)
        return row[order], first[order], second[order], gpu_type[order]

    def _queue(self, jobs: Entities) -> Positions:
        """(k,) place of each type's queue."""
        if self.types:
            place = {t: k for k, t in enumerate(self.types)}
            return np.array([place.get(t, len(place)) for t in jobs.types])
        fastest = jobs.speed.max(axis=1, keepdims=True, initial=0.0)
        speed = np.divide(jobs.speed, fastest, out=np.zeros(jobs.shape), where=fastest > 0).sum(axis=0)
        return np.argsort(np.argsort(-speed, kind="stable"))


def _present(queued: Queued, before: Entities, now: Entities) -> tuple[Positions, Positions, Positions]:
    """Rows of ``queued`` whose jobs, of ``before``, are still there, and the positions of both in ``now``."""
    if before.names == now.names:
        return np.arange(len(queued.names)), queued.first, queued.second
    at = np.array([now.position.get(name, -1) for name in before.names], dtype=np.intp)
    first, second = at[queued.first], at[queued.second]
    row = np.flatnonzero((first >= 0) & (second >= 0))
    return row, first[row], second[row]


def _greedy(first: Positions, second: Positions, gpu_type: Positions, entities: Entities) -> list[int]:
    """Positions of those that run: in order, each that fits and neither of whose jobs runs yet."""
    free, taken, chosen = entities.capacity.tolist(), set[int](), []
    left, need = sum(free), entities.demand[first].tolist()
    for i, (j, other, k, gpus) in enumerate(zip(first.tolist(), second.tolist(), gpu_type.tolist(), need, strict=True)):
        if gpus <= free[k] and j not in taken and other not in taken:
            free[k] -= gpus
            left -= gpus
            taken |= {j, other}
            chosen.append(i)
            if left <= 0:
                break
    return chosen


@dataclass(frozen=True)
class ByKind:
    """The simulator's default: one rounder for allocations over tenants, and one for allocations over jobs.

    Parameters
    ----------
    tenants, jobs, pairs:
        The rounders; ``pairs``: for jobs that share GPUs in pairs.
    """

    tenants: Rounder = field(default_factory=WholeGPUs)
    jobs: Rounder = field(default_factory=WholeJobs)
    pairs: Rounder = field(default_factory=ByPriority)

    @property
    def traits(self) -> Traits:
        """Mixed types as of the rounder for tenants, idle GPUs as of that for jobs."""
        return replace(traits_of(self.tenants), kind=None, idles=traits_of(self.jobs).idles)

    def __call__(self, allocation: Allocation, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan by the rounder for the allocation's kind."""
        of_jobs = self.jobs if allocation.packed is None else self.pairs
        rounder = self.tenants if allocation.entities.kind == "tenants" else of_jobs
        return rounder(allocation, instance, state)


def with_rounds(traits: Traits, seconds: float | None) -> Traits:
    """The traits with rounds of this length; None: unchanged."""
    return traits if seconds is None else replace(traits, round_seconds=seconds)


@dataclass(frozen=True)
class Rounded:
    """A policy that rounds the allocations of another policy.

    Parameters
    ----------
    policy:
        A formulation or any policy; its plans are returned unchanged.
    rounder:
        The rounder.
    round_seconds:
        Length of a round in seconds; None: as in the traits of ``policy``.

    Raises
    ------
    InvalidOption
        ``round_seconds`` is not positive.
    """

    policy: Policy
    rounder: Rounder = field(default_factory=ByKind)
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        check_round_seconds(self, or_none=True)

    @property
    def traits(self) -> Traits:
        """The traits of the policy, with the length of the rounds; plans are in whole GPUs."""
        own = traits_of(self.policy)
        idles = traits_of(self.rounder).idles if own.fractional else own.idles
        return with_rounds(replace(own, fractional=False, idles=idles), self.round_seconds)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, tuple[Any, Any]]:
        """The rounded result, and (policy's state, rounder's state)."""
        policy_state, rounder_state = state if state is not None else (None, None)
        result, policy_state = call_policy(self.policy, instance, policy_state)
        if isinstance(result, Allocation):
            result, rounder_state = self.rounder(result, instance, rounder_state)
        return result, (policy_state, rounder_state)
